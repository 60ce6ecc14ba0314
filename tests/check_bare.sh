#!/usr/bin/env bash
# Without an operating system: arm-none-eabi compiles tensor, graph, layers and optimizers, for a Cortex-M7, and what they need
# of a C library is none of files, threads, signals, processes or clocks of POSIX; with TP_TINY none of stdio, malloc and double
# precision either. Each switch that leaves a part out compiles without a warning, and its functions say so in an error.
set -eu
cd "$(dirname "$0")/.."
cc=arm-none-eabi-gcc
command -v $cc >/dev/null || { echo "$cc is missing (Debian: gcc-arm-none-eabi libnewlib-arm-none-eabi)"; exit 77; }
dir=build/test/bare
mkdir -p "$dir"
{ echo '#define TP_IMPLEMENTATION'; printf '#include "%s.h"\n' tp_tensor tp_graph tp_layers tp_optim; } >"$dir/all.c"
$cc -std=c11 -O0 -mcpu=cortex-m7 -mthumb -Wall -Wextra -Wno-type-limits -Werror -I. -c "$dir/all.c" -o "$dir/all.o"
arm-none-eabi-nm -u "$dir/all.o" | awk '{print $2}' >"$dir/names"
grep -xE '_?(open|read|write|close|fsync|rename|unlink|link|mkdir|rmdir|opendir|readdir|stat|fstat|lstat|getcwd|fopen|system|popen|kill|getpid|isatty|sigaction|signal|clock_gettime|pthread_.*|sem_.*|mmap|madvise|syscall|sysconf)' \
    "$dir/names" && { echo "the headers call a system"; exit 1; }
! grep -E '__(atomic|sync)_' "$dir/names" || { echo "the headers need atomics"; exit 1; }
# ... which a processor without instructions for them would ask a library for: a Cortex-M0, a RISC-V without them, a program without
# threads for a Linux of ARMv6
$cc -std=c11 -Os -mcpu=cortex-m0 -mthumb -DTP_TINY -I. -c "$dir/all.c" -o "$dir/m0.o"
{ echo '#include "tp_optim.h"'; echo 'static char memory[1 << 12];'; echo 'int main(void) { return tp_set_memory(memory, sizeof memory) || !tp_graph_new(0); }'; } >"$dir/main.c"
$cc -std=c11 -Os -mcpu=cortex-m0 -mthumb -DTP_TINY -I. "$dir/main.c" "$dir/m0.o" -o "$dir/m0.elf" --specs=nano.specs --specs=nosys.specs -lm 2>"$dir/m0.log" ||
    { cat "$dir/m0.log"; echo "a Cortex-M0: it does not link"; exit 1; }
atomics() { # <pattern> <compiler, flags and file>
    local pattern=$1; shift
    command -v "$1" >/dev/null || { echo "skip $1: it is missing"; return 0; }
    "$@" -w -I. -c -o "$dir/atomics.o"
    ! nm -u "$dir/atomics.o" | grep -E "$pattern" || { echo "these are asked for by $*"; exit 1; }
}
atomics '__(atomic|sync)_' riscv64-unknown-elf-gcc --specs=picolibc.specs -std=c11 -O0 -march=rv32imc -mabi=ilp32 -DTP_TINY "$dir/all.c"
printf '#define TP_IMPLEMENTATION\n#include "tp_train.h"\n#include "tp_layers.h"\n' >"$dir/armv6.c"
atomics '__(atomic|sync)_' arm-linux-gnueabihf-gcc -std=c11 -O0 -march=armv6+fp -marm -DTP_NO_THREADS "$dir/armv6.c"
# the same switches on a system that has it all: the choice is the program's, too
printf '#define TP_IMPLEMENTATION\n#include "tp_train.h"\n#include "tp_layers.h"\nint main(void) { return 0; }\n' >"$dir/none.c"
for switches in "-DTP_NO_FILES -DTP_NO_THREADS -DTP_NO_SIGNALS" -DTP_NO_FILES -DTP_NO_THREADS -DTP_NO_SIGNALS; do
    gcc -std=c99 $switches -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -fsyntax-only -I. "$dir/none.c"
done
# files that are not there are an error with a sentence
cat >"$dir/files.c" <<'C'
#define TP_NO_FILES
#define TP_IMPLEMENTATION
#include "tp_tensor.h"
#include <string.h>
int main(void)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    if (tp_tensor_resize(&t, TP_F32, tp_make_shape(2)) != TP_OK) return 1;
    if (tp_npy_save("t.npy", &t) != TP_ERR_IO || !strstr(tp_last_error(), "TP_NO_FILES")) return 2;
    if (tp_npy_load("t.npy", &t) != TP_ERR_IO || !strstr(tp_last_error(), "TP_NO_FILES")) return 3;
    if (tp_logger_set_dir("x", 'k') != TP_ERR_IO) return 4;
    tp_tensor_free(&t);
    return 0;
}
C
gcc -std=c99 -O0 -I. "$dir/files.c" -o "$dir/files" -lm -lpthread
"$dir/files"
# each switch alone, and TP_TINY, with each front end
warn="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"
switches="TP_NO_STDIO TP_NO_MALLOC TP_NO_SENTENCES TP_NO_TRACE TP_NO_DEVICES TP_NO_FUSION TP_ONLY_F32"
for switch in $switches; do
    gcc -std=c99 -O0 -DTP_NAIVE -D$switch $warn -I. -c "$dir/all.c" -o "$dir/switch.o" || { echo "with $switch"; exit 1; }
done
for front in "gcc -std=c11" "clang -std=c99" "g++ -x c++ -std=c++17" "clang++ -x c++ -std=c++17"; do
    $front -O0 -DTP_TINY $warn -I. -c "$dir/all.c" -o "$dir/switch.o" || { echo "TP_TINY: $front"; exit 1; }
done
gcc -std=c99 -O0 -DTP_NO_MALLOC -DTP_NO_TRACE -DTP_NO_DEVICES -DTP_NO_FUSION $warn -I. -c "$dir/none.c" -o "$dir/switch.o"
# TP_TINY: nothing of stdio, of malloc and, on a processor with single precision, of double precision, in a program that trains
cat >"$dir/tiny.c" <<'C'
#define TP_IMPLEMENTATION
#include "tp_layers.h"
#include "tp_optim.h"
#include <string.h>
#ifdef HOSTED
#include <stdio.h>
#include <stdlib.h>
#else
#define printf(...) ((void)0)
#endif
static char memory[8 << 20];
static float x[64], w0[4 * 8], w1[8 * 3];
static int32_t y[16];

static int mistakes(void) /* what the build lacks is an error, with the name of its status */
{
#ifdef TP_TINY
#define SAYS(text_) (strcmp(tp_last_error(), (text_)) == 0)
    tp_trace trace;
    tp_session_config two;
    memset(&two, 0, sizeof two);
    two.n_cpu_devices = 2;
    if (tp_set_memory(NULL, 1) != TP_ERR_ARG || !SAYS("TP_ERR_ARG")) return 2;
    tp_graph *g = tp_graph_new(NULL);
    tp_node *a = tp_placeholder(g, "a", TP_F32, tp_make_shape(2, 3));
    if (tp_session_new(g, &two) || !SAYS("TP_ERR_UNSUPPORTED")) return 3;
    tp_session *s = tp_session_new(g, NULL);
    memset(&trace, 0, sizeof trace);
    tp_run_options o;
    memset(&o, 0, sizeof o);
    o.trace = &trace;
    if (tp_session_run_ex(s, &o, NULL, 0, &a, 1, NULL) != TP_ERR_UNSUPPORTED) return 4;
    if (tp_session_run(s, NULL, 0, &a, 1, NULL) == TP_OK) return 5;
#line 100 "mistake.c"
    tp_matmul(a, a);
    if (strcmp(tp_graph_error(g), "mistake.c:100: TP_ERR_SHAPE") != 0) return 6;
    tp_session_free(s);
    tp_graph_free(g);
    tp_graph *h = tp_graph_new(NULL);
    tp_cast(tp_placeholder(h, "a", TP_F32, tp_make_shape(2)), TP_F64);
    if (tp_graph_status(h) != TP_ERR_UNSUPPORTED) return 7;
    tp_graph_free(h);
    h = tp_graph_new(NULL);
    tp_const_as(h, TP_F16, 1);
    if (tp_graph_status(h) != TP_ERR_UNSUPPORTED) return 8;
    tp_graph_free(h);
    h = tp_graph_new(NULL);
    tp_node *i = tp_placeholder(h, "i", TP_I32, tp_make_shape(2));
    tp_add(i, i);
    if (tp_graph_status(h) != TP_ERR_DTYPE) return 9;
    tp_graph_free(h);
    for (int k = 0; k < 10; k++) { /* integers and halves, of which there are no loops */
        h = tp_graph_new(NULL);
        tp_node *list[2], *sums[2];
        list[0] = list[1] = tp_placeholder(h, "i", k == 9 ? TP_F16 : k % 2 ? TP_I32 : TP_I64, tp_make_shape(2, 3));
        tp_node *f = tp_placeholder(h, "f", TP_F32, tp_make_shape(2, 3));
        if (k == 0) tp_reduce_sum(list[0], NULL, 0, false);
        if (k == 1) tp_reduce_max(list[0], NULL, 0, false);
        if (k == 2) tp_reduce_min(list[0], NULL, 0, false);
        if (k == 3) tp_reduce_prod(list[0], NULL, 0, false);
        if (k == 4) tp_argmax(list[0], 1);
        if (k == 5) tp_cumsum(list[0], 1, false, false);
        if (k == 6) tp_add_n(list, 1);
        if (k == 7) tp_all_reduce(list, 2, false, sums);
        if (k == 8) tp_select(tp_greater(f, f), list[0], list[0]);
        if (k == 9) tp_add(list[0], list[0]);
        if (tp_graph_status(h) != TP_ERR_DTYPE) return 50 + k;
        tp_graph_free(h);
    }
    tp_tensor two_numbers;
    memset(&two_numbers, 0, sizeof two_numbers);
    if (tp_tensor_resize(&two_numbers, TP_F32, tp_make_shape(2)) != TP_OK) return 15;
    tp_tensor_set(&two_numbers, 0, 7), tp_tensor_set(&two_numbers, 1, -2.5);
    if (tp_tensor_get(&two_numbers, 1) != -2.5 || tp_tensor_get(&two_numbers, 0) != 7) return 16;
    tp_tensor_free(&two_numbers);
    double wide[3] = {1, 2, 3};
    float narrow[3] = {4, 5, 6};
    int64_t whole[4] = {-3, 5000000000, 0, -1};
    tp_convert(narrow, TP_F32, wide, TP_F64, 3);
    if (narrow[0] != 0 || narrow[2] != 0) return 10;
    tp_convert(narrow, TP_F32, whole, TP_I64, 3);
    if (narrow[0] != -3 || narrow[1] != 5e9f || narrow[2] != 0) return 11;
    tp_convert(whole, TP_I64, narrow, TP_F32, 3);
    if (whole[0] != -3 || whole[1] != 5000000000 || whole[2] != 0) return 12;
    narrow[0] = -5e9f, narrow[1] = 1e30f, narrow[2] = -2.75f;
    tp_convert(whole, TP_I64, narrow, TP_F32, 3);
    if (whole[0] != -5000000000 || whole[1] != INT64_MAX || whole[2] != -2) return 13;
    /* normal numbers of float32 arithmetic */
    double sum = 0, squares = 0;
    for (uint64_t k = 0; k < 20000; k++) {
        const double v = tp_random_normal(3, 0, k);
        sum += v, squares += v * v;
    }
    if (sum > 300 || sum < -300 || squares < 19400 || squares > 20600) return 14;
#endif
    return 0;
}

static int choose(void) /* select of numbers and of bytes, and what chooses in its gradient */
{
    static float a[4] = {2, 3, 1, 0.5f}, b[4] = {2, 1, 3, 0};
    static uint8_t c[4] = {1, 0, 7, 9}, d[4] = {4, 5, 6, 8};
    tp_graph *g = tp_graph_new(NULL);
    tp_node *in[4], *fetch[8];
    for (int i = 0; i < 4; i++)
        in[i] = tp_placeholder(g, i == 0 ? "a" : i == 1 ? "b" : i == 2 ? "c" : "d", i < 2 ? TP_F32 : TP_U8, tp_make_shape(4));
    tp_node *larger = tp_greater(in[0], in[1]);
    fetch[0] = tp_select(larger, in[0], in[1]);
    fetch[1] = tp_select(larger, in[2], in[3]);
    tp_gradients(tp_sum(tp_maximum(in[0], in[1])), in, 2, fetch + 2);
    tp_gradients(tp_sum(tp_minimum(in[0], in[1])), in, 2, fetch + 4);
    tp_gradients(tp_sum(tp_pow(in[0], in[1])), in, 2, fetch + 6);
    tp_session *s = tp_session_new(g, NULL);
    tp_feed feed[4];
    const tp_tensor *out[8];
    memset(feed, 0, sizeof feed);
    for (int i = 0; i < 4; i++) {
        feed[i].node = in[i];
        tp_tensor_view(&feed[i].value, in[i]->dtype, in[i]->shape, i == 0 ? (void *)a : i == 1 ? (void *)b : i == 2 ? (void *)c : d);
    }
    if (tp_session_run(s, feed, 4, fetch, 8, out) != TP_OK) {
        printf("%s\n", tp_last_error());
        return 40;
    }
    for (int k = 0; k < 8; k++)
        for (int i = 0; i < 4; i++)
            printf("%.6f\n", k == 1 ? (double)((const uint8_t *)out[k]->data)[i] : (double)((const float *)out[k]->data)[i]);
    tp_session_free(s);
    tp_graph_free(g);
    return 0;
}

static int train(void) /* costs and a weight of three optimizers, to be compared with those of the full build */
{
    for (int k = 0; k < 64; k++) x[k] = (float)(k * 37 % 17) / 8 - 1;
    for (int k = 0; k < 32; k++) w0[k] = (float)(k * 29 % 13) / 13 - 0.4f;
    for (int k = 0; k < 24; k++) w1[k] = (float)(k * 31 % 11) / 11 - 0.5f;
    for (int k = 0; k < 16; k++) y[k] = k % 3;
    for (int which = 0; which < 3; which++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_disable_layer_logging(g);
        tp_node *in = tp_placeholder(g, "x", TP_F32, tp_make_shape(16, 4)), *label = tp_placeholder(g, "y", TP_I32, tp_make_shape(16));
        tp_fully_connected_desc d0, d1;
        memset(&d0, 0, sizeof d0);
        memset(&d1, 0, sizeof d1);
        d0.name = "fc0", d0.units = 8, d0.kernel_initializer = tp_init_values(w0, 32), d0.activation = tp_tanh;
        d1.name = "fc1", d1.units = 3, d1.kernel_initializer = tp_init_values(w1, 24);
        tp_node *logits = tp_fully_connected_(tp_fully_connected_(in, &d0), &d1);
        tp_node *cost = tp_mean(tp_sparse_softmax_cross_entropy(logits, label)), *lr = tp_const(g, which == 2 ? 0.01f : 0.1f);
        tp_optimizer *o = which == 0 ? tp_sgd_(lr, NULL) : which == 1 ? tp_momentum_(lr, NULL) : tp_adam_(lr, NULL);
        tp_node *fetch[2];
        fetch[0] = cost, fetch[1] = tp_minimize(o, cost, NULL);
        tp_session *s = tp_session_new(g, NULL);
        tp_feed feed[2];
        const tp_tensor *out[2];
        memset(feed, 0, sizeof feed);
        feed[0].node = in, feed[1].node = label;
        tp_tensor_view(&feed[0].value, TP_F32, in->shape, x);
        tp_tensor_view(&feed[1].value, TP_I32, label->shape, y);
        for (int i = 0; i < 30; i++) {
            if (tp_session_run(s, feed, 2, fetch, 2, out) != TP_OK) {
                printf("%s\n", tp_last_error());
                return 20;
            }
            printf("%.6f\n", (double)*(const float *)out[0]->data);
        }
        tp_session_free(s);
        tp_graph_free(g);
    }
    return 0;
}

int main(void)
{
#ifdef TP_NO_MALLOC
    if (tp_malloc(1) || !*tp_last_error()) return 30;
#endif
    if (tp_set_memory(memory, sizeof memory) != TP_OK) return 31;
    const size_t before = tp_memory_in_use(NULL);
    for (uint64_t k = 0; k < 200; k++) printf("%.6f\n", (double)tp_random_normal(3, 1, k));
    int failed = mistakes();
    if (!failed) failed = choose();
    if (!failed) failed = train();
    if (failed) return failed;
    return tp_memory_in_use(NULL) == before ? 0 : 32;
}
C
$cc -std=c11 -Os -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -DTP_TINY -DTP_STATIC -ffunction-sections -I. \
    -Wno-unused-function -c "$dir/tiny.c" -o "$dir/tiny.o"
! arm-none-eabi-nm -u "$dir/tiny.o" | awk '{print $2}' |
    grep -xE '_?(v?s?n?f?i?printf|f?puts|f?putc|putchar|fopen|fflush|[cm]alloc|realloc|free|_?sbrk|exit|abort|getenv|clock|time|localtime|strftime|__assert_func)' ||
    { echo "TP_TINY needs these"; exit 1; }
# ... and it computes what the full build computes, to the precision of float32
gcc -std=c99 -O0 -DTP_NAIVE -DHOSTED -I. "$dir/tiny.c" -o "$dir/full" -lm -lpthread
"$dir/full" >"$dir/full.out"
for switch in TP_TINY TP_ONLY_F32 "TP_NO_FUSION -DTP_NO_DEVICES -DTP_NO_TRACE -DTP_NO_MALLOC" TP_NO_SENTENCES; do
    gcc -std=c99 -O0 -DTP_NAIVE -DHOSTED -D$switch -I. "$dir/tiny.c" -o "$dir/tiny" -lm -lpthread
    "$dir/tiny" >"$dir/tiny.out" || { echo "$switch: status $?"; exit 1; }
    [ "$(wc -l <"$dir/tiny.out")" = 322 ]
    paste "$dir/full.out" "$dir/tiny.out" | awk -v s="$switch" '{d = $1 - $2; if (d > 2e-5 || d < -2e-5) {print s ": " $0; exit 1}}'
done
# no switch changes a struct: the sizes of all that programs see
{
    printf '#include "tp_layers.h"\n#include "tp_optim.h"\nint main(void)\n{\n'
    grep -hoE '^\} tp_[a-z][a-z0-9_]*;' tp_tensor.h tp_graph.h tp_layers.h tp_optim.h | sed -E 's/\} (.*);/\1/' | sort -u |
        sed 's/.*/    __builtin_printf("& %d\\n", (int)sizeof(&));/'
    printf '    __builtin_printf("tp_op %%d, tp_device %%d\\n", (int)sizeof(struct tp_op), (int)sizeof(struct tp_device));\n    return 0;\n}\n'
} >"$dir/sizes.c"
gcc -std=c99 -I. "$dir/sizes.c" -o "$dir/sizes"
"$dir/sizes" >"$dir/sizes.all"
gcc -std=c99 ${switches//TP_/-DTP_} -I. "$dir/sizes.c" -o "$dir/sizes"
"$dir/sizes" >"$dir/sizes.none"
[ "$(wc -l <"$dir/sizes.all")" -gt 60 ]
diff "$dir/sizes.all" "$dir/sizes.none"
echo ok
