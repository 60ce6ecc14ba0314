#!/usr/bin/env bash
# The same bits whatever options a program is compiled with: ops on all kinds of numbers and a small training print their bits,
# built plainly and with what gcc and clang offer to bend arithmetic. What cannot be had is refused with a sentence.
set -eu
ONLY=${1:-} # as in i686
cd "$(dirname "$0")/.."
dir=build/test/numbers
rm -rf "$dir"; mkdir -p "$dir"
cat >"$dir/bits.c" <<'C'
#define TP_IMPLEMENTATION
#include "tp_optim.h"
#include "tp_layers.h"

#include <stdio.h>
#include <string.h>

static uint64_t sum = 14695981039346656037u;
static void take(const char *name, const tp_tensor *t)
{
    const unsigned char *p = (const unsigned char *)t->data;
    for (size_t i = 0; i < tp_tensor_bytes(t); i++) sum = (sum ^ p[i]) * 1099511628211u;
    printf("%s %016llx\n", name, (unsigned long long)sum);
}
/* The same for a plain loop: compilers choose which operand's NaN a sum or product gives, and so its sign, which is left out. */
static void take_plain(const char *name, const tp_tensor *t)
{
    static uint32_t bits[1000];
    tp_tensor copy = *t;
    if (t->dtype == TP_F32 && tp_tensor_size(t) <= 1000) {
        memcpy(bits, t->data, tp_tensor_bytes(t));
        for (int i = 0; i < tp_tensor_size(t); i++) bits[i] = (bits[i] & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : bits[i];
        copy.data = bits;
    }
    take(name, &copy);
}
static float from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

int main(void)
{
    enum { N = 1000, B = 8, STEPS = 6, OPS = 24, FETCHES = OPS + 2 };
    tp_graph *g = tp_graph_new(NULL);
    static float a[N], b[N], image[B * 8 * 8 * 3];
    static int32_t label[B];
    static const uint32_t special[] = {0, 0x80000000u, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0x3f800000u, 0x7f7fffffu, 0x00800000u};
    for (int i = 0; i < N; i++) {
        a[i] = i < 64 ? from_bits(special[i % 8]) : (float)(int32_t)tp_random_u32(1, 0, (uint64_t)i) * 3.7252903e-9f;
        b[i] = i < 64 ? from_bits(special[i / 8]) : (float)(int32_t)tp_random_u32(2, 0, (uint64_t)i) * 3.7252903e-9f;
    }
    for (int i = 0; i < B * 8 * 8 * 3; i++) image[i] = (float)tp_random_normal(3, 0, (uint64_t)i);
    for (int i = 0; i < B; i++) label[i] = i % 5;
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(N)), *y = tp_placeholder(g, "y", TP_F32, tp_make_shape(N));
    tp_node *in = tp_placeholder(g, "in", TP_F32, tp_make_shape(B, 8, 8, 3)), *to = tp_placeholder(g, "to", TP_I32, tp_make_shape(B));
    tp_node *s = tp_add(x, tp_mul(y, x)), *m = tp_reshape(x, 10, 100);
    tp_node *fetch[FETCHES] = {tp_exp(x), tp_ln(x), tp_tanh(x), tp_sigmoid(x), tp_softplus(x), tp_elu(x), tp_erf(x), tp_pow(x, y), tp_sin(x),
                               tp_relu(x), tp_maximum(x, y), tp_minimum(x, y), tp_less(x, y), tp_less_equal(x, y), tp_equal(x, y), tp_is_finite(x),
                               tp_div(x, y), tp_sqrt(tp_abs(x)), tp_floor(x), tp_round(x), s, tp_softmax(m), tp_cast(x, TP_F16), tp_affine(x, 1.3f, 0.7f)};
    tp_tower_desc tower;
    memset(&tower, 0, sizeof tower);
    tower.is_training = true;
    tp_tower_enter(g, &tower);
    tp_node *l = tp_conv2d(in, "conv0", .filters = 6, .kernel_size = 3, .activation = tp_bn_relu);
    l = tp_max_pooling(l, "pool", .pool_size = 2);
    l = tp_dropout(tp_fully_connected(l, "fc0", .units = 16, .activation = tp_elu), "drop", .rate = 0.3f);
    tp_node *cost = tp_mean(tp_sparse_softmax_cross_entropy(tp_fully_connected(l, "fc1", .units = 5), to));
    tp_tower_leave(g);
    tp_node *variable[8];
    tp_grad_var gv[8];
    int n = 0;
    for (int i = 0; i < tp_graph_n_variables(g) && n < 8; i++)
        if (tp_graph_variable(g, i)->trainable) variable[n++] = tp_graph_variable(g, i)->node;
    tp_compute_gradients(cost, variable, n, gv);
    fetch[OPS] = cost, fetch[OPS + 1] = tp_apply_gradients(tp_adam(tp_get_scalar_variable(g, "learning_rate", 1e-2f)), gv, n);
    tp_session_config config = tp_default_session_config();
    config.threads = 2;
    tp_session *session = tp_session_new(g, &config);
    if (!session) return puts(tp_last_error()), 1;
    tp_feed feed[4];
    memset(feed, 0, sizeof feed);
    feed[0].node = x, feed[1].node = y, feed[2].node = in, feed[3].node = to;
    tp_tensor_view(&feed[0].value, TP_F32, x->shape, a);
    tp_tensor_view(&feed[1].value, TP_F32, y->shape, b);
    tp_tensor_view(&feed[2].value, TP_F32, in->shape, image);
    tp_tensor_view(&feed[3].value, TP_I32, to->shape, label);
    const tp_tensor *out[FETCHES];
    config.isa = "naive"; /* the plain loops, which nothing but the headers' options keeps from being fused */
    tp_session *plain = tp_session_new(g, &config);
    if (!plain) return puts(tp_last_error()), 1;
    for (int k = 0; k < 2; k++) {
        if (tp_session_run(k ? plain : session, feed, 2, fetch, OPS, out) != TP_OK) return puts(tp_last_error()), 1;
        for (int i = 0; i < OPS; i++) (k ? take_plain : take)(fetch[i]->op->row->name, out[i]);
    }
    tp_session_free(plain);
    for (int i = 0; i < STEPS; i++) {
        if (tp_session_run(session, feed + 2, 2, fetch + OPS, 2, out) != TP_OK) return puts(tp_last_error()), 1;
        take("cost", out[0]);
    }
    for (int i = 0; i < tp_graph_n_variables(g); i++) {
        tp_node *v = tp_graph_variable(g, i)->node;
        if (tp_session_run(session, NULL, 0, &v, 1, out) != TP_OK) return puts(tp_last_error()), 1;
        take(tp_graph_variable(g, i)->name, out[0]);
    }
    tp_session_free(session);
    tp_graph_free(g);
    return 0;
}
C
# same <what it is compared with> <name> <configuration> <compiler and options>: the headers are those that make test has compiled for
# this configuration with these options, if they are up to date; else, and for "-", they are compiled here, and only what is used.
fresh() { [ -e "$1" ] && [ -e "$1.command" ] && [ -z "$(find tp_*.h -newer "$1")" ]; }
declared="" # what makes a program's own TP_IMPLEMENTATION implement nothing
for h in tp_*.h; do h=${h#tp_} h=${h%.h}; declared="$declared -DTP__${h^^}_IMPLEMENTED"; done
runner="" # what runs a program of another processor
same() {
    [ -z "$ONLY" ] || case $2 in $1 | *$ONLY*) ;; *) return 0 ;; esac
    local with=$1 name=$2 library=build/test/$3-library.o; shift 3
    if fresh "$library"; then set -- "$@" $declared -x c "$dir/bits.c" -x none "$library"; else set -- "$@" -DTP_STATIC "$dir/bits.c"; fi
    "$@" -I. -Wno-psabi -o "$dir/$name" -lm -lpthread
    $runner "$dir/$name" 2>/dev/null >"$dir/$name.txt"
    cmp "$dir/$with.txt" "$dir/$name.txt" || { diff "$dir/$with.txt" "$dir/$name.txt" | head -n 4; echo "other bits: $*"; exit 1; }
}
# refused <part of the sentence> <compiler and options>
refused() {
    local sentence=$1; shift
    if "$@" -I. -fsyntax-only "$dir/bits.c" 2>"$dir/refused.txt"; then echo "not refused: $*"; exit 1; fi
    grep -qF -- "$sentence" "$dir/refused.txt" || { head -n 5 "$dir/refused.txt"; echo "another sentence: $*"; exit 1; }
}
# numbers are read and written by tp_parse_double, tp_format_double and tp__format, which know no locale
if grep -nE '\b(strtod|strtof|atof|sscanf|vsnprintf)\(|\b(sn|f)?printf\([^;]*%[-+ #0-9.*]*[efgEFG]["\\ ,;:)sx/]' tp_*.h | grep -vE ':( \*|/\*)'; then
    echo "the C library's numbers follow the locale"
    exit 1
fi
same gcc gcc gcc-c11 gcc -std=c11 -O2
[ "$(wc -l <"$dir/gcc.txt")" -gt 40 ] # it has printed something
same gcc gcc-ofast ofast gcc -std=c11 -Ofast -ffp-contract=fast
refused constants_are_double gcc -fsingle-precision-constant
if command -v clang >/dev/null; then
    same clang clang clang-c99 clang -std=c99 -O2
    same clang clang-ofast clang-ofast clang -std=c99 -Ofast -fno-finite-math-only # which contracts products and sums
    refused "add -fno-finite-math-only after -Ofast or -ffast-math" clang -Ofast
else echo "skip clang: Debian package clang is missing"; fi
# x87: SSE2's bits
if [ "$(uname -m)" = x86_64 ]; then
    TP_ISA=sse2 "$dir/gcc" >"$dir/sse2.txt" 2>/dev/null
    same sse2 gcc-387 - gcc -O1 -mfpmath=387
    if grep -qw fma /proc/cpuinfo; then same gcc gcc-fma - gcc -std=gnu17 -O1 -mfma # gnu17 fuses products and sums
    else echo "skip -mfma: the processor does not have it"; fi
    if command -v i686-linux-gnu-gcc >/dev/null; then same sse2 i686 i686 i686-linux-gnu-gcc -std=c11 -O2 -static
    else echo "skip i686: Debian packages gcc-i686-linux-gnu, libc6-dev-i386-cross are missing"; fi
else echo "skip x87: the processor is no x86-64"; fi
# gnu17 fuses products and sums on AArch64
if command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null; then
    runner="qemu-aarch64 -L /usr/aarch64-linux-gnu"
    same neon neon neon aarch64-linux-gnu-gcc -std=c11 -O2
    same neon neon-gnu - aarch64-linux-gnu-gcc -std=gnu17 -O1
else echo "skip AArch64: Debian packages gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user are missing"; fi
echo ok
