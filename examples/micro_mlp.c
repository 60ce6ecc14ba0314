/* micro_mlp.c - a 784-32-10 network that is built and trained on a microcontroller, in less than 64 KiB of code
 *
 *   gcc -std=c11 -Os -I.. micro_mlp.c -lm -o micro_mlp && ./micro_mlp
 *
 * and without an operating system, emulated, for a Cortex-M4 (Debian: gcc-arm-none-eabi, libnewlib-arm-none-eabi, qemu-system-arm):
 *
 *   arm-none-eabi-gcc -std=c11 -Os -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -I.. micro_mlp.c -lm \
 *       --specs=nano.specs -nostartfiles -ffunction-sections -fdata-sections -Wl,--gc-sections \
 *       -Wl,--section-start=.vectors=0,-Ttext=0x400,-Tdata=0x20000000,-e,reset,-u,vectors -o micro_mlp.elf
 *   qemu-system-arm -M mps2-an386 -nographic -semihosting-config enable=on,target=native -kernel micro_mlp.elf
 *
 * and for RISC-V of 32 bits (Debian: gcc-riscv64-unknown-elf, picolibc-riscv64-unknown-elf, qemu-system-misc):
 *
 *   riscv64-unknown-elf-gcc -std=c11 -Os -march=rv32imafc -mabi=ilp32f -msave-restore -I.. micro_mlp.c -lm \
 *       --specs=picolibc.specs -nostartfiles -ffunction-sections -fdata-sections -Wl,--defsym=__flash=0x80000000 \
 *       -Wl,--defsym=__flash_size=0x10000,--defsym=__ram=0x80100000,--defsym=__ram_size=0x40000 -o micro_mlp_rv32.elf
 *   qemu-system-riscv32 -M virt -bios none -nographic -semihosting-config enable=on,target=native -kernel micro_mlp_rv32.elf
 *
 * A picture of 28 x 28 pixels shows a digit of seven bars, as on a calculator, somewhere in noise. Each picture is new: it is
 * recognised first, then learnt. The program has no files, threads, malloc, stdio or double precision; the library takes all its
 * memory from one static array. That is what TP_TINY does: see OPTIONS in tp_tensor.h. An error is the name of its status, with file
 * and line; without TP_TINY, on a PC, it is a sentence.
 * New here, compared with keyword_net.c: TP_TINY, and a build without the C library's input and output.
 * Of the last 400 digits 395 are recognised, on a PC and on both emulated processors. The Cortex-M4 needs 60,588 bytes of code and
 * constants, rv32 63,268; the library takes 211,876 bytes of the array, 101,800 of them weights; 5.9 KB of RAM are beside it.
 *   --steps n (600) */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_TINY
#include "tp_layers.h"
#include "tp_optim.h"
#include <stdint.h>
#include <string.h>

#if (defined(__arm__) || defined(__riscv)) && !defined(__linux__)
#define NO_SYSTEM
static void print(const char *text); /* at the end of this file */
#else
#include "options.h"
static void print(const char *text) { fputs(text, stdout); }
#endif

#define BATCH        4
#define SIDE         28
#define REPORT_STEPS 100 /* a line of output after so many steps */

/* All memory of the library. On a PC pointers are larger, and memory is no concern. */
#ifdef NO_SYSTEM
static char memory[208 * 1024];
#else
static char memory[4 * 1024 * 1024];
#endif

/* Prints a text in which each % is the next number. */
static void say(const char *text, unsigned a, unsigned b, unsigned c)
{
    unsigned numbers[3] = {a, b, c}, *next = numbers;
    char word[12];
    for (; *text; text++) {
        char *p = word + sizeof word - 1;
        *p = 0;
        if (*text != '%') *--p = *text;
        else
            for (unsigned n = *next++, first = 1; n || first; n /= 10, first = 0) *--p = (char)('0' + n % 10);
        print(p);
    }
}

/* -- data: a picture of a digit */

static uint32_t seed = 1;
static float uniform(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / 16777216.0f;
}
static void bar(float *picture, int top, int left, int height, int width)
{
    for (int y = top; y < top + height; y++)
        for (int x = left; x < left + width; x++) picture[y * SIDE + x] = 0.8f;
}
static void draw(int digit, float *picture)
{
    /* bits 0 to 6: the bars at the top, top left, top right, middle, bottom left, bottom right, bottom */
    static const unsigned char bars[10] = {0x77, 0x24, 0x5d, 0x6d, 0x2e, 0x6b, 0x7b, 0x25, 0x7f, 0x6f};
    const int half = 8 + (int)(3 * uniform()), width = 11 + (int)(3 * uniform());
    const int top = 2 + (int)(4 * uniform()), left = 6 + (int)(4 * uniform());
    memset(picture, 0, SIDE * SIDE * sizeof *picture);
    for (int i = 0; i < 7; i++) {
        if (!(bars[digit] >> i & 1)) continue;
        if (i % 3 == 0) bar(picture, top + i / 3 * half, left, 2, width);
        else bar(picture, top + i / 3 * half, i % 3 == 1 ? left : left + width - 2, half + 2, 2);
    }
    for (int i = 0; i < SIDE * SIDE; i++) picture[i] += 0.2f * uniform();
}

/* -- training */

static unsigned train(int steps) /* how many digits of the last 100 steps were recognised */
{
    float *pictures = (float *)tp_malloc(BATCH * SIDE * SIDE * sizeof *pictures);
    int32_t labels[BATCH];
    if (!pictures) return 0;
    tp_graph *g = tp_graph_new(NULL);
    tp_node *image = tp_placeholder(g, "image", TP_F32, tp_make_shape(BATCH, SIDE * SIDE));
    tp_node *label = tp_placeholder(g, "label", TP_I32, tp_make_shape(BATCH));
    tp_disable_layer_logging(g);
    tp_node *hidden = tp_fully_connected(image, "fc0", .units = 32, .activation = tp_relu);
    tp_node *logits = tp_fully_connected(hidden, "fc1", .units = 10);
    tp_node *cost = tp_mean(tp_sparse_softmax_cross_entropy(logits, label));
    /* One run: the answers for these pictures with the variables as they are, then one step with them. */
    tp_node *const fetch[] = {logits, cost, tp_minimize(tp_sgd(tp_const(g, 0.05f)), cost, NULL)};
    tp_feed feed[2];
    memset(feed, 0, sizeof feed);
    feed[0].node = image, feed[1].node = label;
    tp_tensor_view(&feed[0].value, TP_F32, image->shape, pictures);
    tp_tensor_view(&feed[1].value, TP_I32, label->shape, labels);
    tp_session *s = tp_session_new(g, NULL);
    tp_status st = s ? TP_OK : TP_ERR;
    unsigned right = 0, last_right = 0; /* of REPORT_STEPS steps */
    for (int i = 1; i <= steps && st == TP_OK; i++) {
        const tp_tensor *out[3];
        for (int b = 0; b < BATCH; b++) {
            labels[b] = (int)(uniform() * 10);
            draw(labels[b], pictures + b * SIDE * SIDE);
        }
        if ((st = tp_session_run(s, feed, 2, fetch, 3, out)) != TP_OK) break;
        for (int b = 0; b < BATCH; b++) {
            const float *score = (const float *)out[0]->data + 10 * b;
            int best = 0;
            for (int k = 1; k < 10; k++)
                if (score[k] > score[best]) best = k;
            right += best == labels[b];
        }
        if (i % REPORT_STEPS) continue;
        say("step %: cost % / 1000, % digits recognised\n", (unsigned)i,
            (unsigned)(1000 * *(const float *)out[1]->data), right);
        last_right = right, right = 0;
    }
    if (st != TP_OK) print(tp_last_error()), print("\n");
    tp_session_free(s);
    tp_graph_free(g);
    tp_free(pictures);
    return last_right;
}

int main(int argc, char **argv)
{
    int steps = 600;
#ifndef NO_SYSTEM /* a device has no command line */
    const option list[] = {option_int("--steps n", &steps, 1)};
    read_options(argc, argv, list, TP_COUNT(list));
#endif
    (void)argc, (void)argv;
    size_t most;
    tp_set_memory(memory, sizeof memory);
    const unsigned right = train(steps);
    tp_memory_in_use(&most);
    say("% of % new digits recognised; the library needs % bytes of memory\n", right, REPORT_STEPS * BATCH,
        (unsigned)most);
    return right >= 9 * REPORT_STEPS * BATCH / 10 ? 0 : 1;
}

/* -- the device: what an operating system would do before main(), and the emulator's output */

#ifdef NO_SYSTEM
/* A call of the debugger or emulator ("semihosting"): 4 prints a text, 0x20 ends the program. */
static void host(uintptr_t operation, const void *argument)
{
#ifdef __arm__
    register uintptr_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
#else
    register uintptr_t a0 __asm__("a0") = operation;
    register const void *a1 __asm__("a1") = argument;
    __asm volatile(".option push\n.option norvc\n.balign 16\nslli x0, x0, 0x1f\nebreak\nsrai x0, x0, 7\n.option pop"
                   : "+r"(a0)
                   : "r"(a1)
                   : "memory");
#endif
}
static void print(const char *text) { host(4, text); }

void reset(void);
#ifdef __arm__
#define RAM       0x20000000u
#define RAM_END   0x20040000u /* 256 KiB: the stack begins here, and grows down to what the linker has placed */
#define BSS_BEGIN __bss_start__
#define BSS_END   __bss_end__
extern char __bss_start__[], __bss_end__[], _edata[], __exidx_end[]; /* places that the linker names */
extern void *const vectors[2];
__attribute__((section(".vectors"))) void *const vectors[2] = {(void *)RAM_END, (void *)reset};
static unsigned flash(void) { return (unsigned)(uintptr_t)__exidx_end + (unsigned)(uintptr_t)_edata - RAM; }
#else
#define RAM       0x80100000u
#define RAM_END   0x80140000u
#define BSS_BEGIN __bss_start
#define BSS_END   __bss_end
extern char __bss_start[], __bss_end[], __data_start[], __data_source[], __data_size[];
__asm__(".section .text.init.enter, \"ax\"\n.globl _start\n_start:\n.option push\n.option norelax\nla gp, "
        "__global_pointer$\n"
        ".option pop\nla sp, __stack\nli t0, 0x6000\ncsrs mstatus, t0\ncall reset\n.text\n");
static unsigned flash(void) { return (unsigned)(uintptr_t)(__data_source + (uintptr_t)__data_size) - 0x80000000u; }
#endif

void reset(void)
{
#ifdef __arm__
    *(volatile uint32_t *)0xE000ED88u |= 15u << 20; /* switch on the floating-point unit */
    __asm volatile("dsb\n isb");
#else
    memcpy(__data_start, __data_source, (size_t)__data_size);
#endif
    memset(BSS_BEGIN, 0, (size_t)(BSS_END - BSS_BEGIN));
    /* Paint the free memory, to see afterwards how much of it the stack has used. */
    char *low = BSS_END, *here = (char *)__builtin_frame_address(0) - 256;
    for (volatile char *p = low; p < here; p++) *p = 0x5a;
    static char *no_arguments[] = {(char *)"micro_mlp", NULL};
    const int status = main(1, no_arguments);
    while (low < here && *low == 0x5a) low++;
    const unsigned placed = (unsigned)(uintptr_t)BSS_END - RAM, stack = RAM_END - (unsigned)(uintptr_t)low;
    say("flash % bytes; RAM % bytes beside the library's memory", flash(), placed - (unsigned)sizeof memory + stack, 0);
    say(", % of them stack\n", stack, 0, 0);
    const uintptr_t end[2] = {0x20026, (uintptr_t)status};
    host(0x20, end);
    for (;;) {}
}
#endif
