/* keyword_net.c - a net of keyword-spotting size, trained and run on a microcontroller: without an operating system, in 256 KiB
 *
 *   gcc -std=c11 -O2 -I.. keyword_net.c -lm -lpthread -o keyword_net && ./keyword_net
 *
 * and for a Cortex-M4, emulated (Debian: gcc-arm-none-eabi, libnewlib-arm-none-eabi, qemu-system-arm):
 *
 *   arm-none-eabi-gcc -std=c11 -Os -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -I.. keyword_net.c -lm \
 *       --specs=nano.specs --specs=rdimon.specs -nostartfiles -ffunction-sections -fdata-sections -Wl,--gc-sections \
 *       -Wl,--section-start=.vectors=0,-Ttext=0x400,-Tdata=0x20000000,-e,reset,-u,vectors -o keyword_net.elf
 *   qemu-system-arm -M mps2-an386 -nographic -semihosting-config enable=on,target=native -kernel keyword_net.elf
 *
 * A word is 24 moments of 10 frequency bands, as a front end would compute them from a second of sound; here they are drawn: a
 * tone that rises, falls, rises and falls, or stays, somewhere in noise. Three convolutions and a FullyConnected layer (1,588
 * parameters) learn to tell them apart, with Adam, on the device. Each word is new: it is recognised first, then learnt. All
 * memory of the library comes from one static array.
 * New here, compared with training_loop.c: memory of your own, a build without an operating system.
 * Of the last 400 words of 600 steps 396 are recognised, on a PC and on the emulated Cortex-M4, where the program needs
 * 160,148 bytes of flash and 223,920 bytes of RAM, 9,424 of them stack. With TP_TINY instead of the macros below it needs half of
 * that flash, and says less about mistakes: see micro_mlp.c.
 *   --steps n (600) */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#define TP_NO_SAFETENSORS
#define TP_NO_TF_CHECKPOINT
#define TP_NO_FILES
#define TP_NO_THREADS
#define TP_NO_DLOPEN
#define TP_NO_MALLOC
#define TP_NAIVE
#include "tp_layers.h"
#include "tp_optim.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__arm__) && !defined(__linux__)
#define NO_SYSTEM
#else
#include "options.h"
#endif

#define TIMES 24
#define BANDS 10
#define BATCH 4
#define WORDS 4

/* All memory of the library. Where it is too small, the library says in a sentence for what. */
#if UINTPTR_MAX == 0xffffffff
static char memory[200 * 1024];
#else
static char memory[4 * 1024 * 1024];
#endif

/* -- data: a word of class label */

static uint32_t seed = 1;
static float uniform(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / 16777216.0f;
}
static void say(int label, float *word)
{
    const float start = 2 + 4 * uniform(), low = 1 + 2 * uniform(), high = 6 + 2 * uniform();
    for (int t = 0; t < TIMES; t++) {
        const float s = ((float)t - start) / 14; /* from 0 to 1 while the tone lasts */
        float band = low + (high - low) * s;
        if (label == 1) band = high - (high - low) * s;
        if (label == 2) band = low + (high - low) * (s < 0.5f ? 2 * s : 2 - 2 * s);
        if (label == 3) band = 0.5f * (low + high);
        for (int f = 0; f < BANDS; f++) {
            const float d = (float)f - band;
            word[t * BANDS + f] = 0.4f * uniform() + (s >= 0 && s <= 1 ? 1 / (1 + d * d) : 0);
        }
    }
}

/* -- training */

static tp_node *network(tp_node *sound)
{
    tp_node *logits = NULL;
    TP_ARGSCOPE(tp_node_graph(sound), conv2d, .kernel_size = 3, .strides = 2, .activation = tp_relu)
    {
        logits = tp_linear(sound, TP_CONV2D("conv0", .filters = 8), TP_CONV2D("conv1", .filters = 16),
                           TP_CONV2D("conv2", .filters = 16, .kernel_size = 1, .strides = 1),
                           TP_GLOBAL_AVG_POOLING("gap"), TP_FULLY_CONNECTED("fc", .units = WORDS));
    }
    return logits;
}

static void quiet(void *user, tp_log_level level, const char *line)
{
    (void)user;
    if (level >= TP_LOG_WARN) printf("%s\n", line);
}

static int train(int steps) /* how many words of the last 100 steps were recognised; -1: an error */
{
    static float sounds[BATCH * TIMES * BANDS];
    static int32_t labels[BATCH];
    static tp_feed feed[2];
    tp_graph *g = tp_graph_new(NULL);
    if (!g) return -1;
    tp_disable_layer_logging(g);
    tp_node *sound = tp_placeholder(g, "sound", TP_F32, tp_make_shape(BATCH, TIMES, BANDS, 1));
    tp_node *label = tp_placeholder(g, "label", TP_I32, tp_make_shape(BATCH));
    const tp_tower_desc tower = {.is_training = true};
    tp_tower_enter(g, &tower);
    tp_node *logits = network(sound), *cost = tp_mean(tp_sparse_softmax_cross_entropy(logits, label));
    tp_tower_leave(g);
    /* One run: the answers for these words with the variables as they are, then one step with them. */
    tp_node *const fetch[] = {tp_argmax(logits, 1), cost, tp_minimize(tp_adam(tp_const(g, 5e-3f)), cost, NULL)};
    feed[0].node = sound, feed[1].node = label;
    tp_tensor_view(&feed[0].value, TP_F32, sound->shape, sounds);
    tp_tensor_view(&feed[1].value, TP_I32, label->shape, labels);
    tp_session *s = tp_session_new(g, NULL);
    tp_status st = s ? TP_OK : TP_ERR;
    int right = 0, last_right = 0; /* of 100 steps */
    for (int i = 0; i < steps && st == TP_OK; i++) {
        const tp_tensor *out[3];
        for (int b = 0; b < BATCH; b++) {
            labels[b] = (int)(uniform() * WORDS);
            say(labels[b], sounds + b * TIMES * BANDS);
        }
        if ((st = tp_session_run(s, feed, 2, fetch, 3, out)) != TP_OK) break;
        for (int b = 0; b < BATCH; b++) right += (int)tp_tensor_get(out[0], b) == labels[b];
        if (i % 100 != 99) continue;
        printf("step %d: cost %d / 1000, %d of %d new words recognised\n", i + 1,
               (int)(1000 * tp_tensor_get(out[1], 0)), right, 100 * BATCH);
        last_right = right, right = 0;
    }
    if (st != TP_OK) printf("%s\n", tp_last_error());
    tp_session_free(s);
    tp_graph_free(g);
    return st == TP_OK ? last_right : -1;
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
    tp_set_log(quiet, NULL);
    const int right = train(steps);
    tp_memory_in_use(&most);
    printf("%d of %d new words recognised; the library used at most %u bytes of its %u\n", right, 100 * BATCH,
           (unsigned)most, (unsigned)sizeof memory);
    return right >= 70 * BATCH ? 0 : 1;
}

/* -- the device: what an operating system would do before main() */

#ifdef NO_SYSTEM
#define RAM     0x20000000u
#define RAM_END 0x20040000u /* 256 KiB: the stack begins here, and grows down to what the linker has placed */
extern void initialise_monitor_handles(void);            /* printf by way of the emulator */
extern char end[], _edata[], __exidx_end[], *_sbrk(int); /* places that the linker names */
void reset(void);
extern void *const vectors[2];
__attribute__((section(".vectors"))) void *const vectors[2] = {(void *)RAM_END, (void *)reset};

void reset(void)
{
    static char line[128];
    *(volatile uint32_t *)0xE000ED88u |= 15u << 20; /* switch on the floating-point unit */
    __asm volatile("dsb\n isb");
    /* Paint the free memory, to see afterwards how much of it the stack has used. */
    char *low = end + 4096, *here = (char *)__builtin_frame_address(0) - 64;
    for (char *p = low; p < here; p++) *p = 0x5a;
    initialise_monitor_handles();
    setvbuf(stdout, line, _IOLBF, sizeof line);
    static char *no_arguments[] = {(char *)"keyword_net", NULL};
    const int status = main(1, no_arguments);
    while (low < here && *low == 0x5a) low++;
    const unsigned placed = (unsigned)(uintptr_t)_sbrk(0) - RAM, stack = RAM_END - (unsigned)(uintptr_t)low;
    const unsigned flash = (unsigned)(uintptr_t)__exidx_end + (unsigned)(uintptr_t)_edata - RAM;
    printf("flash %u bytes; RAM %u bytes: %u static, %u stack\n", flash, placed + stack, placed, stack);
    exit(status);
}
#endif
