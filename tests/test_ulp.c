/* The error of element-wise functions of float32, in units in the last place, against the C library in double. Every instruction set
 * of this machine and the naive loops are measured. `make test` takes every 1009th float (every 8009th where the C library is slow) and
 * all special values. By hand, with a line for each function and instruction set; 1 stands for all 2^32 floats, which take four
 * minutes of processor time or more a function:
 *
 *   TP_TEST_ULP_EVERY=1 build/test_ulp [part of a name]
 */
#define TP_IMPLEMENTATION
#include "tp_graph.h"
#include "tp_test.h"
#include <float.h>

enum { BLOCK = 1 << 16 };

/* The distance of the floats to be measured, if the program was started by hand, else 0. */
static uint64_t by_hand(void)
{
    const char *every = getenv("TP_TEST_ULP_EVERY");
    return every ? strtoull(every, NULL, 10) : 0;
}

static const char *const isa_names[] = {"naive", "sse2", "avx2", "avx512", "neon", "generic"};

static double softplus(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }
static double elu(double x) { return x > 0 ? x : expm1(x); }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
static double exact_leaky(double x) { return x > 0 ? x : (double)0.3f * x; }
static double exact_cut(double x) { return x < -2.5 ? -2.5 : x > 3.75 ? 3.75 : x; }
static double exact_scaled(double x) { return (double)0.3f * x; }
static tp_node *leaky(tp_node *x) { return tp_leaky_relu(x, 0.3f); }
static tp_node *cut(tp_node *x) { return tp_clip(x, -2.5f, 3.75f); }
static tp_node *scaled(tp_node *x) { return tp_affine(x, 0.3f, -0.0f); }

static float from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Returns the error of `got` in units in the last place of the float nearest to `want`; INFINITY if only one of them is NaN or
 * infinite, or if a zero has the wrong sign. On x86 the library computes with denormals as zeros, in intermediate results, too: an
 * error below the smallest normal number counts as 0. */
static double ulps(float got, double want)
{
    const float w = (float)want;
    if (want != want || got != got) return want != want && got != got ? 0 : INFINITY;
    if (isinf(w) || isinf(got)) {
        const bool edge = fabs(want) > 3.4028230e38 && fabsf(got) > 3.4028230e38f && (got > 0) == (want > 0);
        return got == w ? 0 : edge ? 1 : INFINITY;
    }
    if (want == 0) return fabsf(got) < FLT_MIN && !signbit(got) == !signbit(want) ? 0 : INFINITY;
    if (fabs((double)got - want) <= (double)FLT_MIN) return 0;
    uint32_t bits;
    memcpy(&bits, &w, sizeof bits);
    const int e = (int)(bits >> 23 & 255);
    const uint64_t unit_bits = (uint64_t)((e > 0 ? e : 1) - 150 + 1023) << 52; /* the number 2^(e - 150) */
    double unit;
    memcpy(&unit, &unit_bits, sizeof unit);
    return fabs((double)got - want) / unit;
}

/* -- functions of one variable --------------------------------------------------------------------------- */

typedef tp_node *(*unary)(tp_node *x);

/* One instruction set's session with one function. */
typedef struct machine {
    const char *isa;
    tp_graph *g;
    tp_session *s;
    tp_node *x[2], *y;
    double worst;
    float at[2];
} machine;

typedef double (*unary_exact)(double x);
static bool is_denormal(float x) { return x != 0 && fabsf(x) < FLT_MIN; }

static int open_machines(machine *m, unary one, tp_node *(*two)(tp_node *, tp_node *))
{
    int n = 0;
    for (int i = 0; i < TP_COUNT(isa_names); i++) {
        tp_device *d = tp_cpu_device_new(1, isa_names[i]);
        if (!d) continue; /* this machine does not have the instruction set */
        d->close(d);
        memset(&m[n], 0, sizeof m[n]);
        m[n].isa = isa_names[i];
        m[n].g = tp_graph_new(NULL);
        m[n].x[0] = tp_placeholder(m[n].g, "a", TP_F32, tp_make_shape(BLOCK));
        m[n].x[1] = two ? tp_placeholder(m[n].g, "b", TP_F32, tp_make_shape(BLOCK)) : NULL;
        m[n].y = two ? two(m[n].x[0], m[n].x[1]) : one(m[n].x[0]);
        tp_session_config config = tp_default_session_config();
        config.threads = 1;
        config.isa = isa_names[i];
        m[n].s = tp_session_new(m[n].g, &config);
        if (!CHECK(m[n].s != NULL)) return n;
        n++;
    }
    return n;
}

static void close_machines(machine *m, int n)
{
    for (int i = 0; i < n; i++) {
        tp_session_free(m[i].s);
        tp_graph_free(m[i].g);
    }
}

/* Compares what each instruction set computes for a block of arguments with the exact values, and keeps the largest error of each.
 * For a denormal argument the value at zero is right too. */
static void judge(machine *m, int n, float *a, float *b, const double *want, unary_exact exact)
{
    static float seen[TP_COUNT(isa_names)][BLOCK];
    double worst_in_block[TP_COUNT(isa_names)];
    int in_block[TP_COUNT(isa_names)] = {0};
    for (int k = 0; k < n; k++) {
        tp_feed feed[2];
        const tp_tensor *out = NULL;
        memset(feed, 0, sizeof feed);
        feed[0].node = m[k].x[0];
        tp_tensor_view(&feed[0].value, TP_F32, tp_make_shape(BLOCK), a);
        if (b) {
            feed[1].node = m[k].x[1];
            tp_tensor_view(&feed[1].value, TP_F32, tp_make_shape(BLOCK), b);
        }
        if (!CHECK_OK(tp_session_run(m[k].s, feed, b ? 2 : 1, &m[k].y, 1, &out))) return;
        const float *y = (const float *)out->data;
        memcpy(seen[k], y, sizeof seen[k]);
        int same = 0; /* another machine with the same bits, of which the errors are known */
        while (same < k && memcmp(seen[same], y, sizeof seen[same]) != 0) same++;
        in_block[k] = in_block[same];
        if (same == k) worst_in_block[k] = -1;
        for (int i = 0; i < BLOCK && same == k; i++) {
            double e = ulps(y[i], want[i]);
            if (!(e <= 1) && exact && is_denormal(a[i])) e = ulps(y[i], exact(signbit(a[i]) ? -0.0 : 0.0));
            if (e > worst_in_block[k]) worst_in_block[k] = e, in_block[k] = i;
        }
        worst_in_block[k] = worst_in_block[same];
        if (worst_in_block[k] > m[k].worst) {
            m[k].worst = worst_in_block[k];
            m[k].at[0] = a[in_block[k]];
            m[k].at[1] = b ? b[in_block[k]] : 0;
        }
    }
}

static void check_worst(const machine *m, int n, const char *name, bool two, double limit, double limit_without_fma)
{
    for (int k = 0; k < n; k++) {
        const bool fma = strncmp(m[k].isa, "avx", 3) == 0 || strcmp(m[k].isa, "neon") == 0;
        if (by_hand())
            printf("%-10s %-8s %.4f ulp at %.9g%s%.9g\n", name, m[k].isa, m[k].worst, (double)m[k].at[0],
                   two ? ", " : " ", (double)m[k].at[1]);
        CHECK_MSG(m[k].worst <= (fma ? limit : limit_without_fma), "%s, %s: %g ulp at %.9g %.9g", name, m[k].isa,
                  m[k].worst, (double)m[k].at[0], (double)m[k].at[1]);
    }
}

/* What every short form begins with: zeros, infinities, NaN, and the smallest and largest of all kinds, of both signs. */
static const uint32_t special[] = {0,          1,          2,          0x007fffff, 0x00800000, 0x00800001, 0x00ffffff,
                                   0x33000000, 0x33800000, 0x3effffff, 0x3f000000, 0x3f7fffff, 0x3f800000, 0x3f800001,
                                   0x40000000, 0x42b00000, 0x42b17217, 0x42b17218, 0x42cff1b4, 0x42cff1b5, 0x4b000000,
                                   0x4b800000, 0x4f000000, 0x5f000000, 0x7f7ffffe, 0x7f7fffff, 0x7f800000, 0x7fc00000};

static void check_function(const char *name, unary fn, unary_exact exact, double limit, double limit_without_fma,
                           uint64_t every)
{
    static float x[BLOCK];
    static double want[BLOCK];
    machine m[TP_COUNT(isa_names)];
    const int n = open_machines(m, fn, NULL);
    const uint64_t step = by_hand() ? by_hand() : every, count = (((uint64_t)1 << 32) + step - 1) / step;
    for (uint64_t begin = 0; begin < count; begin += BLOCK) {
        for (int i = 0; i < BLOCK; i++) x[i] = from_bits((uint32_t)((begin + (uint64_t)i) * step));
        for (int i = 0; i < 2 * TP_COUNT(special) && begin == 0 && step > 1; i++)
            x[i] = from_bits(special[i / 2] | (i % 2 ? 0x80000000u : 0));
        for (int i = 0; i < BLOCK; i++) want[i] = exact((double)x[i]);
        judge(m, n, x, NULL, want, exact);
    }
    check_worst(m, n, name, false, limit, limit_without_fma);
    close_machines(m, n);
}

/* The second limit is that of instruction sets without fused multiply-and-add, and of the naive loops. */
TEST(erf) { check_function("erf", tp_erf, erf, 1.1, 1.4, 1009); }
TEST(exp) { check_function("exp", tp_exp, exp, 1, 1, 1009); }
TEST(ln) { check_function("ln", tp_ln, log, 1, 1, 1009); }
TEST(tanh) { check_function("tanh", tp_tanh, tanh, 1.5, 1.5, 1009); }
TEST(sigmoid) { check_function("sigmoid", tp_sigmoid, sigmoid, 2.5, 2.5, 1009); }
TEST(softplus) { check_function("softplus", tp_softplus, softplus, 1.75, 1.75, 1009); }
TEST(elu) { check_function("elu", tp_elu, elu, 1, 1, 1009); }
TEST(sqrt) { check_function("sqrt", tp_sqrt, sqrt, 0.5, 0.5, 1009); }
TEST(sin) { check_function("sin", tp_sin, sin, 0.51, 0.51, 8009); }
TEST(cos) { check_function("cos", tp_cos, cos, 0.51, 0.51, 8009); }
TEST(asin) { check_function("asin", tp_asin, asin, 0.51, 0.51, 8009); }
TEST(acos) { check_function("acos", tp_acos, acos, 0.51, 0.51, 8009); }
TEST(atan) { check_function("atan", tp_atan, atan, 0.51, 0.51, 8009); }
TEST(sign) { check_function("sign", tp_sign, sign, 0, 0, 1009); }
TEST(leaky_relu) { check_function("leaky_relu", leaky, exact_leaky, 0.5, 0.5, 1009); }
TEST(clip) { check_function("clip", cut, exact_cut, 0, 0, 1009); }
TEST(affine) { check_function("affine", scaled, exact_scaled, 0.5, 0.5, 1009); }

/* -- functions of two variables -------------------------------------------------------------------------- */

static double exact_leaky_grad(double dy, double x) { return x > 0 ? dy : (double)0.3f * dy; }
static double exact_cut_grad(double dy, double x) { return x >= -2.5 && x <= 3.75 ? dy : 0; }

/* Every pair of special values and a whole or half exponent, then `blocks` of random pairs: a third of any bits, a third of powers
 * that are neither 0 nor infinite, a third near 1. */
static void check_pairs(const char *name, tp_node *(*fn)(tp_node *, tp_node *), double (*exact)(double, double),
                        double limit)
{
    static float a[BLOCK], b[BLOCK];
    static double want[BLOCK];
    machine m[TP_COUNT(isa_names)];
    enum { N = TP_COUNT(special) };
    static const float more[] = {1, 2, 3, 4, 5, 0.5f, 1.5f, 2.5f, 1.0f / 3, 8388607, 8388608, 16777215, 33554432};
    const int n = open_machines(m, NULL, fn), blocks = by_hand() ? 1 + (int)(4000 / by_hand()) : 6;
    for (int block = 0; block < blocks; block++) {
        for (int i = 0; i < BLOCK; i++) {
            const uint64_t at = (uint64_t)block * BLOCK + (uint64_t)i;
            const double x = tp_random_uniform(7, 0, at), z = tp_random_uniform(7, 1, at), size = exp2(x * 252 - 126);
            const int kind = (int)(tp_random_u32(7, 2, at) % 3);
            a[i] = kind == 0   ? from_bits(tp_random_u32(7, 3, at))
                   : kind == 1 ? (float)size
                               : (float)(1 + (x - 0.5) / 64);
            b[i] = kind == 0 ? from_bits(tp_random_u32(7, 4, at))
                             : (float)((2 * z - 1) * (kind == 1 ? 127 / fabs(log2(size)) : 5000));
            if (tp_random_u32(7, 5, at) % 8 == 0) a[i] = -a[i], b[i] = rintf(b[i]);
        }
        for (int i = 0, k = 0; i < 2 * N && block == 0; i++)
            for (int j = 0; j < 2 * (N + TP_COUNT(more)); j++, k++) {
                a[k] = from_bits(special[i / 2] | (i % 2 ? 0x80000000u : 0));
                b[k] = j / 2 < N ? from_bits(special[j / 2]) : more[j / 2 - N];
                if (j % 2) b[k] = -b[k];
            }
        for (int i = 0; i < BLOCK; i++) {
            if (is_denormal(a[i])) a[i] = 0; /* see ulps */
            if (is_denormal(b[i])) b[i] = 0;
            want[i] = exact((double)a[i], (double)b[i]);
        }
        judge(m, n, a, b, want, NULL);
    }
    check_worst(m, n, name, true, limit, limit);
    close_machines(m, n);
}

TEST(pow) { check_pairs("pow", tp_pow, pow, 0.51); }

static tp_node *grad_of(tp_node *dy, tp_node *x, tp_node *y)
{
    tp_node *dx = NULL;
    tp_gradients(tp_sum(tp_mul(y, dy)), &x, 1, &dx);
    return dx;
}
static tp_node *leaky_grad(tp_node *dy, tp_node *x) { return grad_of(dy, x, leaky(x)); }
static tp_node *cut_grad(tp_node *dy, tp_node *x) { return grad_of(dy, x, cut(x)); }
TEST(gradients)
{
    check_pairs("leaky_relu_grad", leaky_grad, exact_leaky_grad, 0.5);
    check_pairs("clip_grad", cut_grad, exact_cut_grad, 0);
}

/* AVX-512 divides by an approximation that is corrected twice; AVX2 has the processor's division. The floats from 2^-27 to 2^7 give
 * every quotient of tp__quotient_avx512: below, exp(-|x|) is 1; above, it is 0, and tanh is 1. */
TEST(quotients_of_avx512_have_the_bits_of_a_division)
{
    static float x[BLOCK], y[2][BLOCK];
    tp_device *const d[2] = {tp_cpu_device_new(1, "avx2"), tp_cpu_device_new(1, "avx512")};
    const uint32_t end = 0x43000000, stride = getenv("TP_TEST_QUICK") ? 97 * BLOCK : BLOCK;
    if (!d[0] || !d[1]) {
        if (d[0]) d[0]->destroy(d[0]);
        TEST_SKIP("this processor has no AVX-512");
    }
    for (int f = 0; f < 3; f++) {
        tp_vec_fn (*const find)(tp_device *) = f == 2 ? tp_vec_find_tanh : tp_vec_find_sigmoid;
        const tp_vec_fn fn[2] = {find(d[0]), find(d[1])};
        const float *const in[1] = {x};
        for (uint32_t begin = 0x32000000; begin < end; begin += stride) {
            for (uint32_t i = 0; i < BLOCK; i++) x[i] = from_bits((begin + i) | (f == 1 ? 0x80000000u : 0));
            for (int k = 0; k < 2; k++) fn[k](BLOCK, y[k], in);
            if (memcmp(y[0], y[1], sizeof y[0]) == 0) continue;
            for (int i = 0; i < BLOCK; i++)
                CHECK_MSG(y[0][i] == y[1][i], "%s(%.9g): %.9g, by division %.9g", f == 2 ? "tanh" : "sigmoid",
                          (double)x[i], (double)y[1][i], (double)y[0][i]);
        }
    }
    for (int k = 0; k < 2; k++) d[k]->destroy(d[k]);
}
TEST_MAIN()
