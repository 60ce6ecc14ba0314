/* test_engine.c - the numeric engine: every fast function against its naive twin or a sum in double, on every instruction set */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <stdbool.h>
#if defined(__SSE2__)
#include <cpuid.h>
/* Takes the place of CPUID for the library. It can hide one bit of a register, or a whole leaf. */
static struct {
    unsigned leaf;
    int reg; /* 0 to 3: a, b, c, d; 4: the leaf is unknown; -1: nothing is hidden */
    unsigned bit;
} hidden = {0, -1, 0};
static __attribute__((unused)) int asked_cpuid(unsigned leaf, unsigned *a, unsigned *b, unsigned *c, unsigned *d)
{
    unsigned *reg[4];
    reg[0] = a, reg[1] = b, reg[2] = c, reg[3] = d;
    const bool hides = hidden.reg >= 0 && hidden.leaf == leaf;
    if (hides && hidden.reg == 4) return 0;
    const int known = __get_cpuid_count(leaf, 0, a, b, c, d);
    if (hides) *reg[hidden.reg] &= ~(1u << hidden.bit);
    return known;
}
#define __get_cpuid(leaf_, a_, b_, c_, d_)             asked_cpuid(leaf_, a_, b_, c_, d_)
#define __get_cpuid_count(leaf_, sub_, a_, b_, c_, d_) asked_cpuid(leaf_, a_, b_, c_, d_)
#endif
#define TP_IMPLEMENTATION
#define TP_STATIC /* private functions are tested too */
#include "tp_tensor.h"
#include "tp_test.h"

static const char *const isa_names[] = {"sse2", "avx2", "avx512", "neon", "generic"};

/* Open a CPU device of this instruction set; NULL where it is not available. */
static tp_device *open_isa(const char *isa, int threads) { return tp_cpu_device_new(threads, isa); }

static uint64_t rnd_state = 1;
static int64_t rnd(int64_t n) /* 0 .. n-1 */
{
    uint32_t r[4];
    tp_philox(77, rnd_state++, 0, r);
    return (int64_t)(r[0] % (uint64_t)n);
}

/* What one thread computes for comparison is not watched by sanitizers: with them it takes ten times its time. */
#ifdef __clang__
#define UNWATCHED __attribute__((no_sanitize("thread", "address", "undefined"), noinline))
#else
#define UNWATCHED __attribute__((no_sanitize("thread"), noinline))
#endif

static float *rnd_array(int64_t n, uint64_t seed)
{
    float *p = (float *)malloc((size_t)(n > 0 ? n : 1) * sizeof *p);
    for (int64_t i = 0; i < n; i++) p[i] = 2.0f * tp_random_uniform(seed, 0, (uint64_t)i) - 1.0f;
    return p;
}

static float *copy_array(const float *x, int64_t n)
{
    float *p = (float *)malloc((size_t)(n > 0 ? n : 1) * sizeof *p);
    if (n > 0) memcpy(p, x, (size_t)n * sizeof *p);
    return p;
}

/* The largest |a - b|, infinity if a NaN is in one of them. */
UNWATCHED static double distance(const float *a, const float *b, int64_t n)
{
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= worst)) worst = d == d ? d : INFINITY;
    }
    return worst;
}

static bool same_bits(const float *a, const float *b, int64_t n)
{
    return n <= 0 || memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

static void *scratch_new(size_t size)
{
    char *p = (char *)malloc(size + 64); /* poisoned, misaligned on purpose, and exactly as large as asked for */
    memset(p, 0xff, size + 64);
    return p;
}

/* -- gemm -------------------------------------------------------------------------------------------------- */

UNWATCHED static void gemm_reference(const tp__gemm_args *a, const float *c0, double *out)
{
    for (int64_t i = 0; i < a->M; i++)
        for (int64_t j = 0; j < a->N; j++) {
            double s = a->accumulate ? (double)c0[i * a->ldc + j] : 0.0;
            for (int64_t k = 0; k < a->K; k++)
                s += (double)(a->ta ? a->A[k * a->lda + i] : a->A[i * a->lda + k]) *
                     (double)(a->tb ? a->B[j * a->ldb + k] : a->B[k * a->ldb + j]);
            if (a->epilogue.bias) s += (double)a->epilogue.bias[j];
            if (a->epilogue.act == TP_EPILOGUE_RELU && s < 0) s = 0;
            if (a->epilogue.most > 0 && s > (double)a->epilogue.most) s = (double)a->epilogue.most;
            out[i * a->N + j] = s;
        }
}

static void check_gemm(int64_t M, int64_t N, int64_t K, int bits, tp_device *const *devices, int n_devices,
                       int group /* devices of one isa stand together in groups of so many */)
{
    tp__gemm_args a;
    memset(&a, 0, sizeof a);
    a.ta = bits & 1;
    a.tb = (bits >> 1) & 1;
    a.accumulate = (bits >> 2) & 1;
    a.epilogue.act = (bits >> 3) & 1 ? TP_EPILOGUE_RELU : TP_EPILOGUE_NONE;
    a.epilogue.most = (bits >> 3) % 4 == 3 ? 0.75f : 0; /* a ReLU of at most that */
    a.M = M;
    a.N = N;
    a.K = K;
    a.lda = (a.ta ? M : K) + rnd(5);
    a.ldb = (a.tb ? K : N) + rnd(5);
    a.ldc = N + rnd(5);
    int64_t size_a = (a.ta ? K : M) * a.lda, size_b = (a.tb ? N : K) * a.ldb, size_c = M * a.ldc;
    float *A = rnd_array(size_a, 1), *B = rnd_array(size_b, 2), *C0 = rnd_array(size_c, 3), *bias = rnd_array(N, 4);
    float *C = copy_array(C0, size_c), *first = NULL;
    double *want = (double *)malloc((size_t)(M * N + 1) * sizeof *want);
    a.A = A;
    a.B = B;
    a.C = C;
    if ((bits >> 4) & 1) a.epilogue.bias = bias;
    gemm_reference(&a, C0, want);
    for (int d = 0; d < n_devices; d++) {
        size_t size = tp__gemm_scratch(devices[d], &a);
        char *scratch = (char *)scratch_new(size);
        memcpy(C, C0, (size_t)size_c * sizeof *C);
        tp__gemm(devices[d], &a, scratch);
        bool guard = true;
        for (int i = 0; i < 64; i++) guard = guard && (unsigned char)scratch[size + (size_t)i] == 0xff;
        CHECK_MSG(guard, "scratch overrun by %s %dx%dx%d", tp_device_isa(devices[d]), (int)M, (int)N, (int)K);
        double worst = 0;
        bool outside = true;
        for (int64_t i = 0; i < M; i++)
            for (int64_t j = 0; j < a.ldc; j++) {
                if (j >= N) outside = outside && C[i * a.ldc + j] == C0[i * a.ldc + j];
                else {
                    double e = fabs((double)C[i * a.ldc + j] - want[i * N + j]);
                    if (!(e <= worst)) worst = e == e ? e : INFINITY;
                }
            }
        CHECK_MSG(outside, "%s writes between the rows of C", tp_device_isa(devices[d]));
        CHECK_MSG(worst <= 1e-6 + 3e-7 * sqrt((double)K) * 6, "%s %dx%dx%d bits %d: error %g",
                  tp_device_isa(devices[d]), (int)M, (int)N, (int)K, bits, worst);
        if (d % group == 0) {
            free(first);
            first = copy_array(C, size_c);
        } else
            CHECK_MSG(same_bits(first, C, size_c), "%s %dx%dx%d: bits depend on the number of threads",
                      tp_device_isa(devices[d]), (int)M, (int)N, (int)K);
        free(scratch);
    }
    free(first);
    free(want);
    free(A);
    free(B);
    free(C);
    free(C0);
    free(bias);
}

/* Each instruction set with 1, 2 and 4 threads; where time is short, with 1 and 4. */
#define MAX_DEVICES 18
static int thread_counts(void) { return getenv("TP_TEST_QUICK") ? 2 : 3; }
static int open_all(tp_device **devices, bool threads)
{
    int n = 0;
    for (int i = 0; i < TP_COUNT(isa_names); i++)
        for (int t = 1; t <= (threads ? 4 : 1); t *= thread_counts() == 2 ? 4 : 2) {
            tp_device *d = open_isa(isa_names[i], t);
            if (d) devices[n++] = d;
        }
    return n;
}
static void close_all(tp_device **devices, int n)
{
    for (int i = 0; i < n; i++) devices[i]->close(devices[i]);
}

/* The sentence has all that there are, in the order of their width. */
TEST(an_unknown_instruction_set_is_told_those_that_there_are)
{
    static const char *const in_order[] = {"neon", "generic", "sse2", "avx2", "avx512"};
    char want[300];
    int n = snprintf(want, sizeof want,
                     "instruction set 'mmx' is unknown or not available here; this machine and build have: naive");
    for (int i = 0; i < TP_COUNT(in_order); i++) {
        tp_device *d = open_isa(in_order[i], 1);
        if (!d) continue;
        n += snprintf(want + n, sizeof want - (size_t)n, ", %s", in_order[i]);
        d->close(d);
    }
    CHECK(tp_cpu_device_new(1, "mmx") == NULL);
    const char *said = strstr(tp_last_error(), "instruction set");
    CHECK_STR(said ? said : tp_last_error(), want);
}

TEST(gemm_random_shapes)
{
    tp_device *d[MAX_DEVICES];
    int n = open_all(d, false);
    CHECK(n >= 1);
    for (int i = 0; i < 400; i++) {
        int64_t limit = i % 4 == 0 ? 8 : i % 4 == 1 ? 40 : 130;
        check_gemm(1 + rnd(limit), 1 + rnd(limit), rnd(limit), (int)rnd(32), d, n, 1);
    }
    close_all(d, n);
}

TEST(gemm_threads_give_the_same_bits)
{
    static const int shape[][3] = {{1, 300, 500},   {3, 700, 900},    {16, 256, 784}, {128, 200, 300}, {288, 32, 6000},
                                   {9, 32, 20000},  {300, 257, 1000}, {700, 10, 64},  {64, 64, 4096},  {1, 1, 9000},
                                   {2, 2000, 600},  {5000, 32, 9},    {28, 640, 512}, {33, 33, 2100},  {100, 700, 1500},
                                   {1, 1000, 1568}, {1, 83, 600},     {784, 250, 16}, {16, 1500, 500}, {7, 90, 512},
                                   {5, 700, 513},   {1100, 70, 150},  {50, 48, 40},   {9000, 5, 40},   {3000, 3, 700},
                                   {1000, 10, 128}, {450, 33, 2100},  {300, 50, 1030}};
    tp_device *d[MAX_DEVICES];
    int n = open_all(d, true);
    const bool quick = getenv("TP_TEST_QUICK") != NULL; /* one way of transposing for each shape */
    for (int i = 0; i < TP_COUNT(shape); i++)
        for (int bits = quick ? i % 4 : 0; bits < 4; bits += quick ? 4 : 1)
            check_gemm(shape[i][0], shape[i][1], shape[i][2], bits | (i & 1 ? 28 : 0), d, n, thread_counts());
    check_gemm(50, 48, 40, 4, d, n, thread_counts()); /* few k, added to what was there */
    /* several blocks of rows, each packs B for itself */
    check_gemm(650, quick ? 130 : 1030, 1000, 0, d, n, thread_counts());
    check_gemm(quick ? 33 : 90, 1010, 1000, 1 | 28, d, n, thread_counts());
    close_all(d, n);
}

#if TP__FAST
/* The size of the scratch memory shows how much of B is copied: all of it if several blocks of rows use it; the part of one block if
 * B has more than 64,000 values; nothing for a single row, which reads B in place. */
TEST(scratch_memory_of_products)
{
    static const struct {
        int64_t more; /* rows that there are beyond two tiles; -1: one row in all */
        int64_t N, K; /* 0: a panel and a half, and a million values in all */
        int copied;   /* 0: not even one panel; 1: less than a quarter; 2: all */
    } cases[] = {{1, 1010, 1000, 1}, {1, 1009, 1000, 1}, {40, 1100, 1000, 1}, {1, 2000, 32, 2},
                 {40, 1100, 58, 2},  {-1, 1008, 900, 0}, {-1, 1001, 900, 0},  {1, 0, 0, 0}};
    tp_device *d[MAX_DEVICES];
    const int n = open_all(d, false);
    for (int i = 0; i < n; i++)
        for (int c = 0; c < TP_COUNT(cases); c++) {
            tp__gemm_args a;
            memset(&a, 0, sizeof a);
            a.M = cases[c].more < 0 ? 1 : 2 * d[i]->isa->mr + cases[c].more;
            a.N = a.ldb = a.ldc = cases[c].N ? cases[c].N : 3 * d[i]->isa->vw;
            a.K = a.lda = cases[c].K ? cases[c].K : 1000000 / a.N + 1;
            const int64_t size = (int64_t)(tp__gemm_scratch(d[i], &a) / sizeof(float)), B = a.N * a.K;
            const int copied = size >= B ? 2 : size < 2 * d[i]->isa->vw * a.K ? 0 : size < B / 4 ? 1 : -1;
            CHECK_MSG(copied == cases[c].copied, "%s: case %d: scratch for %d values, B has %d", d[i]->isa->name, c,
                      (int)size, (int)B);
        }
    close_all(d, n);
}
#endif

TEST(naive_has_no_vector_functions)
{
    tp_device *d = open_isa("naive", 1);
    if (!CHECK(d != NULL)) return;
    CHECK(tp_vec_find_exp(d) == NULL);
    CHECK_STR(tp_device_isa(d), "naive");
    d->close(d);
}

TEST(unknown_isa_is_an_error)
{
    CHECK(tp_cpu_device_new(1, "avx1024") == NULL);
    CHECK_HAS(tp_last_error(), "avx1024");
    CHECK_HAS(tp_last_error(), "naive");
}

/* An instruction set is used only if CPUID has each bit that it needs, and the bit by which a program may ask which registers the
 * system saves. Otherwise the best set is used that does not need the missing bit. */
#if TP__FAST && TP__ISA_X86
TEST(instruction_sets_need_their_bits)
{
    static const struct {
        unsigned leaf;
        int reg;
        unsigned bit;
        int most; /* level that is left: 0 SSE2, 1 AVX2, 2 AVX-512 */
    } cases[] = {{1, 4, 0, 0},  {7, 4, 0, 0},  {1, 2, 27, 0}, {1, 2, 12, 0}, {7, 1, 5, 0}, {7, 1, 16, 1},
                 {7, 1, 17, 1}, {7, 1, 30, 1}, {7, 1, 31, 1}, {1, 2, 5, 2},  {7, 1, 6, 2}};
    static const char *const names[] = {"sse2", "avx2", "avx512"};
    __builtin_cpu_init(); /* what the compiler's own library finds */
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    const int best = avx512 ? 2 : avx2;
    CHECK_MSG(tp__x86_level() == best, "the processor has %s, tp finds %s", names[best], names[tp__x86_level()]);
    for (int i = 0; i < TP_COUNT(cases); i++) {
        const int want = best < cases[i].most ? best : cases[i].most;
        hidden.leaf = cases[i].leaf, hidden.reg = cases[i].reg, hidden.bit = cases[i].bit;
        CHECK_MSG(tp__x86_level() == want, "without bit %u of leaf %u: %d, not %d", hidden.bit, hidden.leaf,
                  tp__x86_level(), want);
        for (int k = 0; k < 3; k++) {
            tp_device *named = open_isa(names[k], 1), *chosen = open_isa(NULL, 1);
            CHECK((named != NULL) == (k <= want));
            if (!named) CHECK_HAS(tp_last_error(), want ? "have: naive, sse2, avx2" : "have: naive, sse2");
            if (CHECK(chosen != NULL)) {
                CHECK_STR(tp_device_isa(chosen), names[want]);
                chosen->close(chosen);
            }
            if (named) named->close(named);
        }
    }
    hidden.reg = -1;
    CHECK(tp__x86_level() == best);
}
#endif

/* -- convolution --------------------------------------------------------------------------------------------- */

/* What is fused into the forward pass and into the input gradient. */
UNWATCHED static void conv_finish(const tp__conv_args *a, double *to, int64_t n, int64_t channels)
{
    for (int64_t i = 0; i < n; i++) {
        if (a->epilogue.bias) to[i] += (double)a->epilogue.bias[i % channels];
        if (a->epilogue.act == TP_EPILOGUE_RELU && to[i] < 0) to[i] = 0;
        if (a->epilogue.most > 0 && to[i] > (double)a->epilogue.most) to[i] = (double)a->epilogue.most;
        if (a->more) to[i] += (double)a->more[i];
    }
}
/* Sets what the reference is to compute to 0, and what it leaves out to NaN. In quick runs it leaves out three of four rows, in each call
 * other ones: in an emulator the reference takes longer than what is tested. */
UNWATCHED static void conv_want(double *want, int64_t n, int64_t channels)
{
    static int64_t calls;
    const bool all = thread_counts() > 2;
    calls++;
    for (int64_t i = 0; i < n; i++)
        want[i] = all || (((uint32_t)(i / channels) * 2654435761u >> 16) + calls) % 4 == 0 ? 0 : (double)NAN;
}
/* All three results in double, from one loop that scatters: independent of how the engine is written. */
UNWATCHED static void conv_reference(const tp__conv_args *a, double *y, double *dx, double *dw)
{
    conv_want(y, a->g.B * a->g.OH * a->g.OW * a->g.O, a->g.O);
    conv_want(dx, a->g.B * a->g.H * a->g.W * a->g.C, a->g.C);
    conv_want(dw, a->g.KH * a->g.KW * a->g.C / a->g.groups * a->g.O, a->g.O);
    int64_t cg = a->g.C / a->g.groups, og = a->g.O / a->g.groups;
    for (int64_t b = 0; b < a->g.B; b++)
        for (int64_t p = 0; p < a->g.OH; p++)
            for (int64_t q = 0; q < a->g.OW; q++)
                for (int64_t r = 0; r < a->g.KH; r++)
                    for (int64_t s = 0; s < a->g.KW; s++) {
                        int64_t h = p * a->g.stride_h + r * a->g.dilation_h - a->g.top;
                        int64_t v = q * a->g.stride_w + s * a->g.dilation_w - a->g.left;
                        if (h < 0 || h >= a->g.H || v < 0 || v >= a->g.W) continue;
                        for (int64_t ch = 0; ch < a->g.C; ch++) {
                            const int64_t ix = ((b * a->g.H + h) * a->g.W + v) * a->g.C + ch, first = ch / cg * og;
                            double x = (double)a->x[ix];
                            if (a->norm) {
                                x = (x - (double)a->norm[ch]) * (double)a->norm[a->g.C + ch] +
                                    (double)a->norm[2 * a->g.C + ch];
                                if (a->norm_relu && x < 0) x = 0;
                            }
                            const int64_t iw = ((r * a->g.KW + s) * cg + ch % cg) * a->g.O;
                            const int64_t iy = ((b * a->g.OH + p) * a->g.OW + q) * a->g.O;
                            const int64_t last = first + og;
                            if (!isnan(y[iy + first]))
                                for (int64_t o = first; o < last; o++) y[iy + o] += x * (double)a->w[iw + o];
                            if (!isnan(dx[ix]))
                                for (int64_t o = first; o < last; o++)
                                    dx[ix] += (double)a->dy[iy + o] * (double)a->w[iw + o];
                            if (!isnan(dw[iw + first]))
                                for (int64_t o = first; o < last; o++) dw[iw + o] += x * (double)a->dy[iy + o];
                        }
                    }
    conv_finish(a, y, a->g.B * a->g.OH * a->g.OW * a->g.O, a->g.O);
    conv_finish(a, dx, a->g.B * a->g.H * a->g.W * a->g.C, a->g.C);
}

/* The largest error, in units of what rounding gives when `terms` random products are added one after another; a NaN in `want` was not
 * computed. Each step is wrong by half a unit of a partial sum that itself grows like a square root. */
UNWATCHED static double error_of(const float *got, const double *want, int64_t n, int64_t terms)
{
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - want[i]);
        if (!(d <= worst) && !isnan(want[i])) worst = d == d ? d : INFINITY;
    }
    return worst / (6e-8 * (2 + sqrt((double)terms)) * (1 + sqrt((double)terms) / 3));
}

static void check_conv(const tp__conv_args *shape, tp_device *const *devices, int n_devices, int group)
{
    tp__conv_args a = *shape;
    int64_t nx = a.g.B * a.g.H * a.g.W * a.g.C, ny = a.g.B * a.g.OH * a.g.OW * a.g.O,
            nw = a.g.KH * a.g.KW * a.g.C / a.g.groups * a.g.O;
    float *x = rnd_array(nx, 5), *w = rnd_array(nw, 6), *dy = rnd_array(ny, 7),
          *bias = rnd_array(a.g.O > a.g.C ? a.g.O : a.g.C, 8);
    int64_t size[3], terms[3];
    double *want[3];
    size[0] = ny;
    size[1] = nx;
    size[2] = nw;
    terms[0] = a.g.KH * a.g.KW * a.g.C / a.g.groups;
    terms[1] = a.g.KH * a.g.KW * a.g.O / a.g.groups;
    terms[2] = a.g.B * a.g.OH * a.g.OW;
    a.x = x;
    a.w = w;
    a.dy = dy;
    if (a.epilogue.act == TP_EPILOGUE_RELU) a.epilogue.bias = bias, a.epilogue.most = a.g.C % 2 ? 0.0f : 0.5f;
    for (int what = 0; what < 3; what++) want[what] = (double *)calloc((size_t)size[what] + 1, sizeof(double));
    conv_reference(&a, want[0], want[1], want[2]);
    for (int what = 0; what < 3; what++) {
        float *got = (float *)calloc((size_t)size[what] + 1, sizeof *got), *first = NULL;
        for (int d = 0; d < n_devices; d++) {
            size_t bytes = tp__convolve_scratch(devices[d], &a, (tp__conv_pass)what);
            char *scratch = (char *)scratch_new(bytes);
            memset(got, 0xff, ((size_t)size[what] + 1) * sizeof *got);
            a.y = a.dx = a.dw = got;
            tp__convolve(devices[d], &a, (tp__conv_pass)what, scratch);
            bool guard = got[size[what]] != got[size[what]];
            for (int i = 0; i < 64; i++) guard = guard && (unsigned char)scratch[bytes + (size_t)i] == 0xff;
            CHECK_MSG(guard, "%s writes outside", tp_device_isa(devices[d]));
            const double e = error_of(got, want[what], size[what], terms[what]);
            /* the transforms of Winograd's form double the error with six points; with eight it is five times that */
            const tp__wino_form *form = devices[d]->isa ? tp__wino_form_of(devices[d]->isa, &a.g) : NULL;
            CHECK_MSG(e <= (!form             ? 5
                            : form->size == 6 ? 10
                                              : 25),
                      "%s %d: B%d %dx%dx%d O%d K%dx%d s%d,%d d%d,%d p%d,%d g%d -> %dx%d: error %g",
                      tp_device_isa(devices[d]), what, (int)a.g.B, (int)a.g.H, (int)a.g.W, (int)a.g.C, (int)a.g.O,
                      (int)a.g.KH, (int)a.g.KW, (int)a.g.stride_h, (int)a.g.stride_w, (int)a.g.dilation_h,
                      (int)a.g.dilation_w, (int)a.g.top, (int)a.g.left, (int)a.g.groups, (int)a.g.OH, (int)a.g.OW, e);
            if (d % group == 0) {
                free(first);
                first = copy_array(got, size[what]);
            } else
                CHECK_MSG(same_bits(first, got, size[what]), "%s: bits depend on the number of threads",
                          tp_device_isa(devices[d]));
            free(scratch);
        }
        free(first);
        free(want[what]);
        free(got);
    }
    free(x);
    free(w);
    free(dy);
    free(bias);
}

static tp__conv_args conv_shape(int64_t B, int64_t H, int64_t W, int64_t C, int64_t O, int64_t KH, int64_t KW,
                                int64_t stride, int64_t dilation, int64_t pad, int64_t groups)
{
    tp__conv_args a;
    memset(&a, 0, sizeof a);
    a.g.B = B;
    a.g.H = H;
    a.g.W = W;
    a.g.C = C;
    a.g.O = O;
    a.g.KH = KH;
    a.g.KW = KW;
    a.g.stride_h = a.g.stride_w = stride;
    a.g.dilation_h = a.g.dilation_w = dilation;
    a.g.top = a.g.left = pad;
    a.g.groups = groups;
    a.g.OH = (H + 2 * pad - (KH - 1) * dilation - 1) / stride + 1;
    a.g.OW = (W + 2 * pad - (KW - 1) * dilation - 1) / stride + 1;
    return a;
}

TEST(conv_random_shapes)
{
    tp_device *d[MAX_DEVICES];
    int n = open_all(d, false);
    for (int i = 0; i < 250; i++) {
        static const int64_t groups[] = {1, 1, 1, 2, 3};
        int64_t g = groups[rnd(5)], C = g * (1 + rnd(i % 5 == 0 ? 30 : 6)), O = g * (1 + rnd(i % 3 == 0 ? 40 : 9));
        if (i % 9 == 0) O = g = C; /* depthwise */
        tp__conv_args a = conv_shape(1 + rnd(3), 1 + rnd(12), 1 + rnd(12), C, O, 1 + rnd(4), 1 + rnd(4), 1, 1, 0, g);
        a.g.stride_h = 1 + rnd(3);
        a.g.stride_w = 1 + rnd(3);
        a.g.dilation_h = 1 + rnd(2);
        a.g.dilation_w = 1 + rnd(2);
        a.g.top = rnd(4);
        a.g.left = rnd(4);
        /* any output size is allowed: what it sees beyond the image is zero, what it does not see has no gradient */
        a.g.OH = 1 + rnd((a.g.H + 6) / a.g.stride_h + 1);
        a.g.OW = 1 + rnd((a.g.W + 6) / a.g.stride_w + 1);
        if (i % 2) a.epilogue.act = TP_EPILOGUE_RELU;
        check_conv(&a, d, n, 1);
    }
    close_all(d, n);
}

/* Nothing of something: zeros, or the bias alone; found by a fuzzer of the ONNX importer. */
TEST(conv_of_nothing)
{
    tp_device *d[MAX_DEVICES];
    int n = open_all(d, false);
    tp__conv_args s[] = {conv_shape(0, 5, 5, 3, 16, 3, 3, 1, 1, 1, 1), conv_shape(2, 5, 5, 0, 16, 3, 3, 1, 1, 1, 1),
                         conv_shape(2, 5, 40, 3, 0, 3, 3, 1, 1, 1, 1), conv_shape(2, 5, 40, 8, 0, 1, 1, 1, 1, 0, 1),
                         conv_shape(2, 0, 5, 3, 16, 3, 3, 1, 1, 1, 1), conv_shape(2, 5, 5, 3, 16, 3, 3, 1, 1, 1, 1)};
    s[5].g.OH = 0;
    for (int i = 0; i < (int)(sizeof s / sizeof *s); i++) {
        check_conv(&s[i], d, n, 1);
        s[i].epilogue.act = TP_EPILOGUE_RELU;
        check_conv(&s[i], d, n, 1);
    }
    close_all(d, n);
}

static bool is_in_planes(tp_device *d, const tp__conv_args *a, bool input_grad)
{
    tp__gather g;
    memset(&g, 0, sizeof g);
    tp__gather_make(&g, d, a, input_grad, 0, 0, NULL);
    return g.planes;
}
/* Few output channels, or few input channels for the input gradient: vectors run along the positions. */
TEST(conv_in_planes)
{
    tp_device *d[MAX_DEVICES];
    const int n = open_all(d, true);
    int forward = 0, back = 0, asked = 0;
    for (int i = 0; i < 60; i++) {
        static const int64_t groups[] = {1, 1, 2, 3};
        const int64_t g = groups[rnd(4)], most = i % 2 ? 12 : 6;
        tp__conv_args a = conv_shape(1 + rnd(3), 4 + rnd(30), 4 + rnd(30), g * (1 + rnd(i % 3 ? most : 40)),
                                     g * (1 + rnd(most)), 2 + rnd(4), 2 + rnd(4), 1, 1, 0, g);
        if (i % 4 == 3) a.g.stride_h = 1 + rnd(2), a.g.stride_w = 1 + rnd(2);
        a.g.dilation_h = 1 + rnd(2);
        a.g.dilation_w = 1 + rnd(2);
        a.g.top = rnd(4);
        a.g.left = rnd(4);
        a.g.OH = 1 + rnd((a.g.H + 6) / a.g.stride_h + 1);
        a.g.OW = 1 + rnd((a.g.W + 6) / a.g.stride_w + 1);
        if (i % 2) a.epilogue.act = TP_EPILOGUE_RELU;
        float *norm = rnd_array(3 * a.g.C, 9);
        if (g == 1 && i % 3 == 0) a.norm = norm, a.norm_relu = i % 2 != 0;
        check_conv(&a, d, n, thread_counts());
        for (int k = 0; k < n; k++, asked++)
            forward += is_in_planes(d[k], &a, false), back += is_in_planes(d[k], &a, true);
        free(norm);
    }
    int wide = 0; /* devices with vectors of eight floats or more */
    for (int k = 0; k < n; k++) wide += d[k]->isa && d[k]->isa->vw >= 8;
    CHECK_MSG(forward >= 15 * wide && back >= 15 * wide, "%d and %d of %d in planes, %d devices", forward, back, asked,
              wide);
    close_all(d, n);
}

/* Checks a convolution of x by w with `after`: the output has the bits of a batch norm that reads it afterwards. norm: mean, scale, beta and
 * bias of each channel. Returns on how many of n devices it ran. */
static int check_after(tp__conv_args a, tp_device *const *d, int n, const float *norm, bool relu)
{
    const int64_t pixels = a.g.B * a.g.OH * a.g.OW, ny = pixels * a.g.O;
    float *y = rnd_array(ny, 4), *want = rnd_array(ny, 5);
    tp__bn bn;
    int normalised = 0;
    memset(&bn, 0, sizeof bn);
    bn.C = a.g.O, bn.mean = norm, bn.scale = norm + a.g.O, bn.beta = norm + 2 * a.g.O, bn.relu = relu;
    a.dy = NULL;
    for (int j = 0; j < n; j++) {
        if (!tp__conv_normalises(d[j], &a.g)) continue;
        normalised++;
        void *scratch = scratch_new(tp__convolve_scratch(d[j], &a, TP__CONV_FORWARD));
        a.after = NULL, a.y = want;
        tp__convolve(d[j], &a, TP__CONV_FORWARD, scratch);
        tp__bn_apply_of[d[j]->isa->level](&bn, pixels, want, want);
        a.after = &bn, a.y = y;
        tp__convolve(d[j], &a, TP__CONV_FORWARD, scratch);
        CHECK_MSG(same_bits(y, want, ny), "%s: B%d %dx%dx%d O%d K%d s%d g%d", tp_device_isa(d[j]), (int)a.g.B,
                  (int)a.g.H, (int)a.g.W, (int)a.g.C, (int)a.g.O, (int)a.g.KH, (int)a.g.stride_h, (int)a.g.groups);
        free(scratch);
    }
    free(y), free(want);
    return normalised;
}

/* By whatever way a convolution is computed, it can normalise its output. */
TEST(conv_normalises_its_output)
{
    tp_device *d[MAX_DEVICES];
    const int n = open_all(d, true);
    int normalised = 0;
    for (int i = 0; i < 40; i++) {
        static const int64_t channels[] = {1, 3, 8, 16, 24, 40}, batches[] = {1, 2, 16, 17};
        const int64_t C = channels[rnd(6)], O = i % 5 == 0 ? C : channels[rnd(6)], k = 1 + 2 * rnd(3);
        tp__conv_args a = conv_shape(batches[rnd(4)], 3 + rnd(20), 3 + rnd(20), C, O, k, k, 1 + (i % 4 == 3), 1, k / 2,
                                     i % 5 == 0 ? C : 1);
        float *x = rnd_array(a.g.B * a.g.H * a.g.W * C, 1), *w = rnd_array(k * k * C / a.g.groups * O, 2);
        float *norm = rnd_array(4 * O, 3);
        a.x = x, a.w = w;
        if (i % 3 == 0) a.epilogue.bias = norm + 3 * O, a.epilogue.act = TP_EPILOGUE_RELU;
        normalised += check_after(a, d, n, norm, i % 2 != 0);
        free(x), free(w), free(norm);
    }
    CHECK_MSG(normalised > 10 * n || n == 0 || !d[0]->isa, "%d of %d", normalised, 40 * n);
    close_all(d, n);
}

/* Kernels of 1 or 2 pixels a side with stride 1 or 2. Their "same" padding is at the bottom and at the right only. The 1x1 kernel with
 * stride 1 is computed as a matrix product, and no other may be. */
TEST(conv_of_small_kernels)
{
    tp_device *d[MAX_DEVICES];
    int n = open_all(d, false);
    for (int bits = 0; bits < 64; bits++) {
        const int h = bits & 1 ? 1 : 5, w = bits & 2 ? 1 : 6;
        tp__conv_args a = conv_shape(2, h, w, 8, 16, bits & 4 ? 2 : 1, bits & 8 ? 2 : 1, 1, 1, 0, 1);
        a.g.stride_h = bits & 16 ? 2 : 1, a.g.stride_w = bits & 32 ? 2 : 1;
        a.g.OH = (h + a.g.stride_h - 1) / a.g.stride_h, a.g.OW = (w + a.g.stride_w - 1) / a.g.stride_w;
        check_conv(&a, d, n, 1);
        a.g.groups = 2;
        check_conv(&a, d, n, 1);
    }
    close_all(d, n);
}

/* Whether Winograd's tiles fit is asked for every dilation, also where the window is larger than any image. */
TEST(conv_winograd_is_not_for_huge_dilations)
{
    tp_device *d[MAX_DEVICES];
    const int n = open_all(d, false);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 64; k++) {
            tp__conv_args a = conv_shape(4, 16, 16, 16, 16, 3, 3, 1, 1, 1, 1);
            const int64_t dilation = k < 63 ? (int64_t)1 << k : INT64_MAX / 2;
            a.g.dilation_h = dilation, a.g.dilation_w = k % 2 ? dilation : 1;
            a.g.OH = a.g.OW = 16;
            const bool wino = tp__conv_is_wino(d[i]->isa, &a.g);
            CHECK_MSG(!wino || k <= 3, "%s: dilation 2^%d", tp_device_isa(d[i]), k);
        }
    close_all(d, n);
}

/* 16 channels and more, multiples of 16 and others: fewer multiplications, and any output size, padding and rest of a tile */
TEST(conv_winograd_random_shapes)
{
    tp_device *d[MAX_DEVICES];
    int n = open_all(d, true), wide = 0, used = 0;
    for (int k = 0; k < n; k++) wide += d[k]->isa && tp__wino_in_of[d[k]->isa->level];
    for (int i = 0; i < 60; i++) {
        tp__conv_args a =
            conv_shape(2 + rnd(6), 8 + rnd(16), 8 + rnd(16), 16 * (1 + rnd(4)), 16 * (1 + rnd(4)), 3, 3, 1, 1, 0, 1);
        if (i >= 24) a.g.C = 16 + rnd(60), a.g.O = 16 + rnd(60);
        if (i % 3 == 2) a.g.dilation_h = 1 + rnd(3), a.g.dilation_w = 1 + rnd(3);
        if (i % 5 > 2) a.g.KH = 3 + rnd(6), a.g.KW = 3 + rnd(6); /* more than one block */
        a.g.top = rnd(4);
        a.g.left = rnd(4);
        a.g.OH = 2 + rnd(a.g.H + 5);
        a.g.OW = 2 + rnd(a.g.W + 5);
        if (a.g.B * a.g.OH * a.g.OW < 256) a.g.B = 256 / (a.g.OH * a.g.OW) + 1;
        if (i % 2) a.epilogue.act = TP_EPILOGUE_RELU;
        int here = 0;
        for (int k = 0; k < n; k++) here += d[k]->isa && tp__conv_is_wino(d[k]->isa, &a.g);
        if (!here && a.g.KH * a.g.KW != 9) continue;
        used += here;
        /* half of them normalise x on the way, a third add to what is there, where the instruction set can */
        const int64_t most = a.g.B * (a.g.H * a.g.W > a.g.OH * a.g.OW ? a.g.H * a.g.W : a.g.OH * a.g.OW) *
                             (a.g.C > a.g.O ? a.g.C : a.g.O);
        float *norm = rnd_array(3 * a.g.C, 9), *more = rnd_array(most, 10);
        if (i % 4 > 1) a.norm = norm, a.norm_relu = i % 8 > 3;
        for (int adds = 0; adds < 2; adds++) {
            tp_device *those[MAX_DEVICES];
            int n_those = 0;
            for (int k = 0; k < n; k++) {
                const bool direct = !d[k]->isa || !tp__conv_is_wino(d[k]->isa, &a.g);
                if (direct && a.g.KH * a.g.KW != 9) continue; /* other tests have larger filters as direct sums */
                if ((i % 3 == 0 && tp__conv_adds(d[k], &a.g)) == (adds == 1)) those[n_those++] = d[k];
            }
            a.more = adds ? more : NULL;
            if (n_those) check_conv(&a, those, n_those, thread_counts()); /* each with 1, 2 and 4 threads */
        }
        free(norm);
        free(more);
    }
    CHECK_MSG(used >= 10 * wide, "%d of %d", used, 60 * wide);
    close_all(d, n);
}

/* So many channels that the transformed weights miss L2: several small pieces are one block. */
TEST(conv_winograd_of_many_channels)
{
    tp_device *d[MAX_DEVICES];
    const int n = open_all(d, true);
    int together = 0;
    for (int i = 0; i < 10; i++) {
        tp__conv_args a =
            conv_shape(1 + rnd(9), 4 + rnd(12), 4 + rnd(12), 184 + rnd(40), 184 + rnd(40), 3, 3, 1, 1, 0, 1);
        if (i % 5 == 4) a.g.dilation_h = 2, a.g.dilation_w = 1 + rnd(2);
        a.g.top = rnd(3);
        a.g.left = rnd(3);
        a.g.OH = 2 + rnd(a.g.H);
        a.g.OW = 2 + rnd(a.g.W);
        if (a.g.B * a.g.OH * a.g.OW < 256) a.g.B = 256 / (a.g.OH * a.g.OW) + 1;
        if (i < 2) a.g.B = 14, a.g.H = a.g.W = a.g.OH = a.g.OW = 8, a.g.top = a.g.left = 1; /* several images a block */
        if (i % 2) a.epilogue.act = TP_EPILOGUE_RELU;
        float *norm = rnd_array(3 * a.g.C, 9);
        if (i % 4 > 1) a.norm = norm, a.norm_relu = i % 8 > 3;
        check_conv(&a, d, n, thread_counts());
        for (int k = 0; k < n; k++) {
            tp__wino w;
            if (!d[k]->isa || !tp__conv_is_wino(d[k]->isa, &a.g)) continue;
            tp__wino_make(&w, d[k], &a, TP__CONV_FILTER_GRAD, 0, 0, NULL);
            together += w.together > 1;
        }
        free(norm);
    }
    bool any = false;
    for (int k = 0; k < n; k++) any = any || (d[k]->isa && tp__wino_in_of[d[k]->isa->level]);
    CHECK(!any || together > 0);
    close_all(d, n);
}

/* The result may be written over what is added to it: a step's output lies where one of its inputs lay. */
TEST(conv_winograd_adds_in_place)
{
    tp_device *d[MAX_DEVICES];
    const int n = open_all(d, false);
    for (int i = 0; i < n; i++)
        for (int64_t O = 16; O <= 64; O += 16) {
            tp__conv_args a = conv_shape(4, 9, 8, 32, O, 3, 3, 1, 1, 1, 1);
            if (!tp__conv_adds(d[i], &a.g)) continue;
            const int64_t ny = 4 * 9 * 8 * O;
            float *x = rnd_array(4 * 9 * 8 * 32, 1), *w = rnd_array(9 * 32 * O, 2), *more = rnd_array(ny, 3);
            float *y = rnd_array(ny, 4);
            void *scratch = scratch_new(tp__convolve_scratch(d[i], &a, TP__CONV_FORWARD));
            a.x = x, a.w = w, a.more = more, a.y = y;
            tp__convolve(d[i], &a, TP__CONV_FORWARD, scratch);
            a.y = more;
            tp__convolve(d[i], &a, TP__CONV_FORWARD, scratch);
            CHECK_MSG(same_bits(more, y, ny), "%s: O%d", tp_device_isa(d[i]), (int)O);
            free(scratch), free(x), free(w), free(more), free(y);
        }
    close_all(d, n);
}

TEST(conv_layers_and_threads)
{
    tp__conv_args s[] = {
        conv_shape(8, 28, 28, 1, 32, 3, 3, 1, 1, 1, 1), conv_shape(5, 16, 16, 3, 16, 3, 3, 1, 1, 1, 1),
        conv_shape(6, 14, 14, 32, 32, 3, 3, 1, 1, 1, 1), conv_shape(40, 7, 7, 20, 36, 3, 3, 1, 1, 1, 1),
        conv_shape(4, 16, 16, 16, 32, 3, 3, 2, 1, 1, 1), conv_shape(4, 16, 16, 16, 32, 1, 1, 2, 1, 0, 1),
        conv_shape(4, 9, 9, 32, 48, 1, 1, 1, 1, 0, 1), conv_shape(2, 6, 6, 200, 300, 3, 3, 1, 1, 1, 1),
        conv_shape(1, 32, 32, 24, 24, 3, 3, 1, 1, 1, 24), conv_shape(3, 15, 15, 40, 40, 3, 3, 2, 1, 1, 40),
        conv_shape(2, 20, 20, 8, 12, 3, 3, 1, 2, 2, 4), conv_shape(3, 5, 5, 16, 40, 5, 5, 1, 1, 0, 1),
        conv_shape(2, 11, 11, 3, 64, 7, 7, 2, 1, 3, 1), conv_shape(1, 64, 64, 40, 8, 3, 3, 1, 1, 1, 1),
        /* few output channels and rows that even tiles cover, on one instruction set or another */
        conv_shape(3, 32, 32, 16, 16, 3, 3, 1, 1, 1, 1), conv_shape(2, 32, 32, 16, 16, 3, 3, 2, 1, 1, 1),
        conv_shape(2, 14, 14, 16, 10, 3, 3, 1, 1, 1, 1), conv_shape(2, 16, 16, 32, 32, 3, 3, 1, 1, 1, 2),
        conv_shape(2, 28, 28, 8, 16, 3, 3, 1, 2, 2, 1), conv_shape(3, 8, 8, 24, 7, 5, 5, 1, 1, 2, 1),
        conv_shape(2, 24, 24, 8, 4, 3, 3, 1, 1, 1, 1), conv_shape(2, 16, 16, 48, 3, 2, 2, 2, 1, 0, 1),
        /* Winograd's: whole tiles and ragged ones, no padding and more of it, many and few channels */
        conv_shape(9, 7, 7, 32, 48, 3, 3, 1, 1, 1, 1), conv_shape(2, 19, 14, 16, 32, 3, 3, 1, 1, 0, 1),
        conv_shape(3, 12, 9, 64, 16, 3, 3, 1, 1, 2, 1), conv_shape(1, 40, 33, 16, 16, 3, 3, 1, 1, 1, 1),
        conv_shape(20, 4, 4, 80, 112, 3, 3, 1, 1, 1, 1), conv_shape(70, 2, 2, 16, 64, 3, 3, 1, 1, 1, 1),
        conv_shape(2, 17, 18, 256, 160, 3, 3, 1, 1, 1, 1),
        /* dilated, with rows, columns and tiles of a phase beyond the edge */
        conv_shape(1, 37, 29, 17, 20, 3, 3, 1, 3, 3, 1), conv_shape(2, 29, 37, 40, 24, 3, 3, 1, 2, 2, 1),
        conv_shape(3, 16, 16, 24, 33, 3, 3, 1, 2, 2, 1), conv_shape(1, 21, 20, 16, 48, 3, 3, 1, 2, 0, 1),
        /* filters of several blocks, the last ones not full */
        conv_shape(2, 19, 22, 40, 33, 5, 5, 1, 1, 2, 1), conv_shape(3, 16, 20, 24, 48, 3, 5, 1, 1, 1, 1),
        conv_shape(2, 18, 17, 32, 40, 6, 4, 1, 1, 3, 1), conv_shape(1, 33, 36, 16, 70, 5, 5, 1, 2, 4, 1),
        conv_shape(2, 24, 14, 64, 17, 5, 3, 1, 1, 0, 1), conv_shape(6, 9, 9, 200, 190, 6, 6, 1, 1, 2, 1),
        conv_shape(2, 21, 20, 24, 40, 7, 7, 1, 1, 3, 1), conv_shape(1, 40, 24, 32, 17, 9, 8, 1, 2, 6, 1),
        /* every other tap, for the even and the odd pixels; a phase without a pixel; groups */
        conv_shape(2, 20, 23, 40, 33, 5, 5, 2, 1, 2, 1), conv_shape(3, 28, 28, 32, 64, 7, 7, 2, 1, 3, 1),
        conv_shape(5, 2, 16, 64, 64, 5, 5, 2, 1, 2, 1), conv_shape(1, 30, 31, 48, 48, 5, 7, 2, 1, 0, 1),
        conv_shape(9, 8, 8, 192, 190, 5, 5, 2, 1, 2, 1), conv_shape(2, 20, 20, 64, 96, 3, 3, 1, 1, 1, 2),
        conv_shape(3, 17, 18, 102, 99, 5, 5, 1, 1, 2, 3), conv_shape(2, 25, 24, 80, 80, 7, 7, 2, 1, 3, 2),
        /* panels of three vectors; filter gradients with vectors along the input channels, also of images read in place */
        conv_shape(2, 13, 13, 72, 72, 3, 3, 1, 1, 1, 1), conv_shape(40, 6, 6, 48, 80, 3, 3, 2, 1, 1, 1),
        conv_shape(6, 24, 24, 40, 24, 3, 3, 1, 1, 1, 1), conv_shape(6, 20, 20, 96, 40, 3, 3, 1, 1, 1, 4),
        conv_shape(3, 14, 14, 64, 5, 3, 3, 2, 1, 0, 1), conv_shape(5, 9, 9, 33, 3, 5, 5, 1, 2, 4, 1),
        conv_shape(2, 31, 17, 128, 1, 3, 2, 1, 1, 1, 1), conv_shape(7, 5, 5, 44, 18, 5, 1, 1, 1, 2, 2),
        /* at most four output channels of a group, forward or in the input gradient */
        conv_shape(2, 13, 19, 64, 3, 5, 5, 1, 1, 2, 1), conv_shape(2, 17, 15, 40, 4, 3, 3, 2, 2, 2, 1),
        conv_shape(2, 14, 14, 64, 8, 3, 3, 1, 1, 1, 4), conv_shape(2, 12, 21, 3, 64, 5, 5, 2, 1, 2, 1),
        conv_shape(1, 18, 17, 2, 37, 7, 3, 1, 1, 1, 1)};
    tp_device *d[MAX_DEVICES];
    int n = open_all(d, true);
    for (int i = 0; i < TP_COUNT(s); i++) check_conv(&s[i], d, n, thread_counts());
    close_all(d, n);
}

/* Filters that often reach beyond small images: many pixels and taps are left out, and a gradient of many weights is computed by the
 * rows of the filter. */
TEST(conv_of_large_filters_over_small_images)
{
    tp_device *d[MAX_DEVICES];
    int n = open_all(d, true);
    for (int i = 0; i < 40; i++) {
        static const int64_t groups[] = {1, 1, 2, 4}, most[] = {8, 40, 260};
        const int64_t g = groups[rnd(4)], stride = 1 + rnd(3), dilation = 1 + rnd(3), size = 1 + rnd(9);
        tp__conv_args a = conv_shape(1 + rnd(i % 2 ? 5 : 40), size, 1 + rnd(9), g * (1 + rnd(most[i % 3])),
                                     g * (1 + rnd(i % 5 ? 40 : 200)), 2 + rnd(6), 1 + rnd(7), stride, dilation, 0, g);
        a.g.top = rnd((a.g.KH - 1) * dilation + 1);
        a.g.left = rnd((a.g.KW - 1) * dilation + 1);
        a.g.OH = 1 + rnd(size), a.g.OW = 1 + rnd(a.g.W);
        while (a.g.B > 1 && a.g.B * a.g.OH * a.g.OW * a.g.KH * a.g.KW * a.g.C / g * a.g.O > 20000000) a.g.B--;
        check_conv(&a, d, n, thread_counts());
    }
    close_all(d, n);
}

/* Borders of the plans: a filter gradient whose channels of a tap need several even tiles, the last one smaller; a row of positions
 * that reads more of x, or of the gradient of y, than a buffer holds, with and without padding. */
TEST(conv_of_uneven_taps_and_large_rows)
{
    tp__conv_args s[] = {
        conv_shape(1, 3, 102, 40, 16, 1, 1, 1, 1, 0, 1), conv_shape(1, 3, 136, 40, 16, 1, 3, 1, 1, 1, 1),
        conv_shape(1, 5, 104, 40, 14, 3, 3, 1, 1, 0, 1), conv_shape(1, 3, 206, 33, 16, 3, 3, 2, 1, 0, 1),
        conv_shape(2, 9, 9, 24, 16, 3, 1, 1, 1, 0, 1),   conv_shape(2, 8, 8, 40, 13, 3, 2, 1, 1, 0, 1),
        conv_shape(3, 11, 10, 30, 16, 2, 2, 2, 1, 0, 1), conv_shape(2, 9, 12, 38, 15, 2, 3, 1, 2, 0, 1),
        conv_shape(1, 1, 26, 370, 5, 5, 5, 1, 1, 2, 1),  conv_shape(1, 2, 26, 370, 5, 5, 5, 1, 1, 2, 1),
        conv_shape(1, 5, 30, 370, 5, 5, 5, 1, 1, 0, 1),  conv_shape(1, 1, 26, 5, 370, 5, 5, 1, 1, 2, 1)};
    tp_device *d[MAX_DEVICES];
    int n = open_all(d, true);
    for (int i = 0; i < TP_COUNT(s); i++) check_conv(&s[i], d, n, thread_counts());
    close_all(d, n);
}

/* Depthwise convolutions, with several filters for a channel, and groups of few channels: they do not use the register tile. */
TEST(conv_of_small_groups)
{
    static const int64_t groups[] = {2, 3, 17, 24, 72},
                         pairs[][2] = {{1, 1}, {1, 2}, {2, 1}, {1, 3}, {3, 2}, {4, 4}, {1, 8}, {8, 5}};
    tp_device *d[MAX_DEVICES];
    int n = open_all(d, true);
    for (int i = 0; i < 80; i++) {
        const int64_t g = groups[i % 5], *pair = pairs[i / 5 % 8], size = 1 + rnd(17);
        const int64_t K = 1 + rnd(3), dilation = 1 + rnd(2), stride = 1 + rnd(3), pad = rnd(3);
        tp__conv_args a = conv_shape(i % 3 ? 1 : 2, size + 4, size + 3, g * pair[0], g * pair[1], K, 1 + rnd(3), stride,
                                     dilation, pad, g);
        if (i % 4 == 0) a.g.stride_w = 1 + rnd(3), a.g.OW = 1 + rnd(6);
        if (a.g.OH <= 0 || a.g.OW <= 0) a.g.OH = a.g.OW = 3; /* most of what they see is outside */
        if (i % 2) a.epilogue.act = TP_EPILOGUE_RELU;
        check_conv(&a, d, n, thread_counts());
    }
    tp__conv_args s[] = {
        conv_shape(8, 28, 28, 24, 24, 3, 3, 1, 1, 1, 24), conv_shape(3, 29, 27, 72, 72, 5, 5, 2, 1, 2, 72),
        conv_shape(1, 56, 30, 17, 34, 3, 3, 2, 1, 1, 17), conv_shape(2, 20, 20, 32, 32, 3, 3, 1, 2, 2, 8)};
    for (int i = 0; i < TP_COUNT(s); i++) check_conv(&s[i], d, n, thread_counts());
    close_all(d, n);
}

/* What small shapes cover line by line, in the sizes that networks have: more images than one piece of a filter's gradient
 * takes, planes larger than a block. */
TEST(conv_at_real_sizes)
{
    tp__conv_args s[] = {
        conv_shape(128, 32, 32, 3, 16, 3, 3, 1, 1, 1, 1),  conv_shape(128, 32, 32, 3, 32, 5, 5, 2, 1, 2, 1),
        conv_shape(128, 28, 28, 1, 16, 3, 3, 1, 1, 1, 1),  conv_shape(128, 16, 16, 16, 32, 3, 3, 1, 1, 1, 1),
        conv_shape(128, 16, 16, 32, 32, 1, 1, 1, 1, 0, 1), conv_shape(64, 32, 32, 16, 16, 3, 3, 1, 1, 1, 16)};
    tp_device *d[MAX_DEVICES];
    const bool quick = getenv("TP_TEST_QUICK") != NULL;
    int n = open_all(d, true);
    for (int i = 0; i < TP_COUNT(s); i++) {
        if (i >= (quick ? 1 : 2)) s[i].g.B = quick ? 8 : 33;
        check_conv(&s[i], d, n, thread_counts());
    }
    close_all(d, n);
}

/* -- element-wise functions -------------------------------------------------------------------------------- */

/* Distance in units of the last place of `want`, which is what a rounding would leave at worst. */
static double ulps(float got, double want)
{
    if (want != want) return got != got ? 0 : INFINITY;
    float w = (float)want;
    if (isinf(w) || isinf(got)) {
        const bool edge = fabs(want) > 3.402823e38 && fabsf(got) > 3.402823e38f && (got > 0) == (want > 0);
        return got == w ? 0 : edge ? 1 : INFINITY;
    }
    double unit = (double)w == 0 ? 1.4012985e-45 : (double)(nextafterf(fabsf(w), INFINITY) - fabsf(w));
    return fabs((double)got - want) / unit;
}

static double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
static double softplus(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }
static double elu(double x) { return x > 0 ? x : expm1(x); }
static double dneg(double x) { return -x; }
static double dsquare(double x) { return x * x; }
static double drsqrt(double x) { return 1.0 / sqrt(x); }
static double drecip(double x) { return 1.0 / x; }
static double drelu(double x) { return x < 0 ? 0 : x; }

static const tp_vec all_vecs[] = {
    tp_vec_find_add,     tp_vec_find_sub,        tp_vec_find_mul,       tp_vec_find_div,    tp_vec_find_max,
    tp_vec_find_min,     tp_vec_find_neg,        tp_vec_find_abs,       tp_vec_find_square, tp_vec_find_sqrt,
    tp_vec_find_rsqrt,   tp_vec_find_reciprocal, tp_vec_find_exp,       tp_vec_find_log,    tp_vec_find_tanh,
    tp_vec_find_sigmoid, tp_vec_find_relu,       tp_vec_find_relu_grad, tp_vec_find_erf,    tp_vec_find_softplus,
    tp_vec_find_elu,     tp_vec_find_elu_grad,   tp_vec_find_sign,      tp_vec_find_sin,    tp_vec_find_cos,
    tp_vec_find_asin,    tp_vec_find_acos,       tp_vec_find_atan,      tp_vec_find_pow,    tp_vec_find_floor,
    tp_vec_find_ceil,    tp_vec_find_round,      tp_vec_find_floordiv,  tp_vec_find_mod};

TEST(vec_unary_against_libm)
{
    static const struct {
        tp_vec find;
        double (*fn)(double);
        const char *name;
        double limit;
    } f[] = {{tp_vec_find_exp, exp, "exp", 1.0},
             {tp_vec_find_log, log, "log", 1.0},
             {tp_vec_find_tanh, tanh, "tanh", 2.0},
             {tp_vec_find_sigmoid, sigmoid, "sigmoid", 2.5},
             {tp_vec_find_erf, erf, "erf", 1.4},
             {tp_vec_find_softplus, softplus, "softplus", 2},
             {tp_vec_find_elu, elu, "elu", 1.5},
             {tp_vec_find_neg, dneg, "neg", 0},
             {tp_vec_find_abs, fabs, "abs", 0},
             {tp_vec_find_square, dsquare, "square", 0.5},
             {tp_vec_find_sqrt, sqrt, "sqrt", 0.5},
             {tp_vec_find_rsqrt, drsqrt, "rsqrt", 1.5},
             {tp_vec_find_reciprocal, drecip, "reciprocal", 0.5},
             {tp_vec_find_relu, drelu, "relu", 0}};
    enum { N = 1 << 16 };
    float *x = (float *)malloc(N * sizeof *x), *y = (float *)malloc(N * sizeof *y);
    for (int i = 0; i < TP_COUNT(isa_names); i++) {
        tp_device *d = open_isa(isa_names[i], 1);
        if (!d) continue;
        for (int k = 0; k < TP_COUNT(f); k++) {
            double worst = 0;
            float at = 0;
            for (uint32_t hi = 0; hi < 16; hi++) { /* every 4096th float, in 16 blocks */
                for (uint32_t j = 0; j < N; j++) {
                    uint32_t u = (hi << 28) | (j << 12) | (j * 2654435761u >> 20);
                    memcpy(&x[j], &u, 4);
                }
                const float *in[1];
                in[0] = x;
                f[k].find(d)(N, y, in);
                for (int j = 0; j < N; j++) {
                    double e = ulps(y[j], f[k].fn((double)x[j]));
                    if (!(e <= worst)) worst = tp_test_worse(worst, e), at = x[j];
                }
            }
            CHECK_MSG(worst <= f[k].limit + 1e-3, "%s %s: %g ulp at %.9g", isa_names[i], f[k].name, worst, (double)at);
        }
        d->close(d);
    }
    free(x);
    free(y);
}

TEST(scalar_maths_against_libm)
{
    double worst[4] = {0, 0, 0, 0};
    for (uint64_t i = 0; i < 1u << 20; i++) {
        uint32_t u = (uint32_t)(i << 12) | (uint32_t)((uint32_t)i * 2654435761u >> 20);
        float x;
        memcpy(&x, &u, 4);
        double e[4], d = (double)x;
        e[0] = ulps(tp_expf(x), exp(d));
        e[1] = ulps(tp_logf(x), log(d));
        e[2] = ulps(tp_tanhf(x), tanh(d));
        e[3] = ulps(tp_erff(x), erf(d));
        for (int k = 0; k < 4; k++) worst[k] = tp_test_worse(worst[k], e[k]);
    }
    CHECK_MSG(worst[0] <= 1.2, "exp: %g ulp", worst[0]);
    CHECK_MSG(worst[1] <= 1.2, "log: %g ulp", worst[1]);
    CHECK_MSG(worst[2] <= 2.0, "tanh: %g ulp", worst[2]);
    CHECK_MSG(worst[3] <= 1.4, "erf: %g ulp", worst[3]);
    CHECK(1 / tp_tanhf(-0.0f) < 0);
}

TEST(vec_special_values)
{
    static const float x[7] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 3.0f, -3.0f};
    for (int i = 0; i < TP_COUNT(isa_names); i++) {
        tp_device *d = open_isa(isa_names[i], 1);
        if (!d) continue;
        const float *in[2];
        float y[7], two[7] = {1, 1, 1, 1, 1, NAN, 2};
        in[0] = x;
        in[1] = two;
        tp_vec_find_log(d)(7, y, in);
        CHECK(y[0] != y[0] && y[1] == INFINITY && y[2] != y[2] && y[3] == -INFINITY && y[4] == -INFINITY &&
              y[6] != y[6]);
        tp_vec_find_exp(d)(7, y, in);
        CHECK(y[0] != y[0] && y[1] == INFINITY && y[2] == 0 && y[3] == 1 && y[4] == 1);
        tp_vec_find_tanh(d)(7, y, in);
        CHECK(y[0] != y[0] && y[1] == 1 && y[2] == -1 && y[3] == 0 && 1 / y[4] < 0);
        tp_vec_find_relu(d)(7, y, in);
        CHECK(y[0] != y[0] && y[1] == INFINITY && y[2] == 0 && y[5] == 3 && y[6] == 0);
        tp_vec_find_max(d)(7, y, in);
        CHECK(y[0] != y[0] && y[1] == INFINITY && y[2] == 1 && y[5] != y[5] && y[6] == 2);
        tp_vec_find_min(d)(7, y, in);
        CHECK(y[0] != y[0] && y[1] == 1 && y[2] == -INFINITY && y[5] != y[5] && y[6] == -3);
        in[0] = two;
        in[1] = x;
        tp_vec_find_relu_grad(d)(7, y, in);
        CHECK(y[0] == 0 && y[1] == 1 && y[2] == 0 && y[3] == 0 && y[4] == 0 && y[5] != y[5] && y[6] == 0);
        d->close(d);
    }
}

/* Random floats of all magnitudes, and small numbers with few bits: many of these are whole, end in a half, or are multiples of another. */
static float any_float(uint64_t i)
{
    static const float special[] = {0.0f,    -0.0f, INFINITY,   -INFINITY,   NAN,     0.5f,  -0.5f,
                                    FLT_MAX, 1.0f,  8388607.5f, -8388608.0f, FLT_MIN, -0.7f, 268435456.0f};
    const uint32_t u = tp_random_u32(11, 1, i), kind = tp_random_u32(11, 2, i) % 8;
    float x;
    if (kind == 0) return special[u % TP_COUNT(special)];
    if (kind < 4) return (float)((int32_t)u >> u % 29) * (kind == 1 ? 0.5f : kind == 2 ? 1.0f : 0.1f);
    memcpy(&x, &u, sizeof x);
    if (fabsf(x) < FLT_MIN) return 1.5f; /* smaller numbers may count as 0 */
    return x;
}
static float floor_remainder(float a, float b)
{
    const float r = fmodf(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
TEST(whole_numbers_and_remainders_have_the_bits_of_libm)
{
    enum { N = 1000 };
    static const tp_vec find[] = {tp_vec_find_floor, tp_vec_find_ceil, tp_vec_find_round, tp_vec_find_floordiv,
                                  tp_vec_find_mod};
    static float a[N], b[N], y[N];
    for (int i = 0; i < TP_COUNT(isa_names); i++) {
        tp_device *d = open_isa(isa_names[i], 1);
        if (!d) continue;
        const float *in[2];
        in[0] = a, in[1] = b;
        int wrong[TP_COUNT(find)] = {0};
        for (uint64_t piece = 0; piece < 200; piece++) {
            for (uint64_t j = 0; j < N; j++) {
                a[j] = any_float(piece * 2 * N + j), b[j] = any_float(piece * 2 * N + N + j);
                if (piece % 2)
                    a[j] = (float)((int32_t)tp_random_u32(12, piece, j) >> 8) * 0.01f, b[j] = (float)(j % 9) - 4.5f;
            }
            for (int k = 0; k < TP_COUNT(find); k++) {
                find[k](d)(N, y, in);
                for (int j = 0; j < N; j++) {
                    const float want[] = {floorf(a[j]), ceilf(a[j]), rintf(a[j]), floorf(a[j] / b[j]),
                                          floor_remainder(a[j], b[j])};
                    wrong[k] += memcmp(&y[j], &want[k], sizeof y[j]) != 0 && (y[j] == y[j] || want[k] == want[k]);
                }
            }
        }
        for (int k = 0; k < TP_COUNT(find); k++)
            CHECK_MSG(wrong[k] == 0, "%s: %d of function %d", isa_names[i], wrong[k], k);
        d->close(d);
    }
}

/* log(1 + e^x) is computed by one of two formulas. Where e^x is the limit between them, the one for smaller values is the exact one. */
TEST(softplus_at_the_limit_of_a_formula)
{
    for (int i = 0; i < TP_COUNT(isa_names); i++) {
        tp_device *d = open_isa(isa_names[i], 1);
        if (!d) continue;
        const float x = -0.881373584f;
        const float *in[1];
        float y = 0;
        in[0] = &x;
        tp_vec_find_softplus(d)(1, &y, in);
        CHECK_MSG(ulps(y, softplus((double)x)) < 0.5, "%s: %.9g", isa_names[i], (double)y);
        d->close(d);
    }
}

/* Functions with parameters give the bits of a plain loop, for every length and in place. */
TEST(vec_with_parameters)
{
    static const tp_vec find[] = {tp_vec_find_affine, tp_vec_find_clip, tp_vec_find_leaky_relu, tp_vec_find_clip_grad,
                                  tp_vec_find_leaky_relu_grad};
    static const float two[2] = {-0.375f, 0.7f}, nan[3] = {NAN, INFINITY, -0.0f};
    float *x = rnd_array(40, 9), *dy = rnd_array(40, 10), y[41], want[40];
    memcpy(x, nan, sizeof nan);
    for (int i = 0; i < TP_COUNT(isa_names); i++) {
        tp_device *d = open_isa(isa_names[i], 1);
        if (!d) continue;
        for (int k = 0; k < TP_COUNT(find); k++)
            for (int n = 1; n <= 40; n++) {
                const float *in[3];
                for (int j = 0; j < n; j++) {
                    volatile float product = x[j] * two[0];
                    const bool inside = x[j] >= two[0] && x[j] <= two[1];
                    if (k == 0) want[j] = product + two[1];
                    else if (k == 1) want[j] = x[j] < two[0] ? two[0] : x[j] > two[1] ? two[1] : x[j];
                    else if (k == 2) want[j] = x[j] > 0 ? x[j] : product;
                    else if (k == 3) want[j] = inside ? dy[j] : 0;
                    else want[j] = x[j] > 0 ? dy[j] : dy[j] * two[0];
                }
                memcpy(y, k < 3 ? x : dy, (size_t)n * sizeof *y);
                y[n] = 7;
                in[0] = y, in[1] = k < 3 ? two : x, in[2] = two;
                find[k](d)(n, y, in);
                CHECK_MSG(same_bits(y, want, n) && y[n] == 7, "%s: function %d, length %d", isa_names[i], k, n);
            }
        d->close(d);
    }
    free(x);
    free(dy);
}

/* An element's bits do not depend on where in an array it lies, nor on the array's length. */
TEST(vec_position_does_not_matter)
{
    float *x = rnd_array(200, 9), *z = rnd_array(200, 10), y[200], part[200];
    for (int i = 0; i < TP_COUNT(isa_names); i++) {
        tp_device *d = open_isa(isa_names[i], 1);
        if (!d) continue;
        for (int k = 0; k < TP_COUNT(all_vecs); k++) {
            tp_vec_fn fn = all_vecs[k](d);
            const float *in[2];
            in[0] = x;
            in[1] = z;
            memset(part, 0, sizeof part);
            fn(200, y, in);
            for (int64_t at = 0, n = 1; at < 200; at += n, n = n % 37 + 1) {
                if (n > 200 - at) n = 200 - at;
                in[0] = x + at;
                in[1] = z + at;
                fn(n, part + at, in);
            }
            bool same = true;
            for (int j = 0; j < 200; j++)
                same = same && (memcmp(&y[j], &part[j], 4) == 0 || (y[j] != y[j] && part[j] != part[j]));
            CHECK_MSG(same, "%s: function %d depends on the position", isa_names[i], k);
            memcpy(part, x, sizeof part); /* in place */
            in[0] = part;
            in[1] = z;
            fn(200, part, in);
            for (int j = 0; j < 200; j++)
                same = same && (memcmp(&y[j], &part[j], 4) == 0 || (y[j] != y[j] && part[j] != part[j]));
            CHECK_MSG(same, "%s: function %d does not work in place", isa_names[i], k);
        }
        d->close(d);
    }
    free(x);
    free(z);
}

TEST(sums)
{
    static const int64_t size[] = {0, 1, 5, 31, 32, 33, 100, 16384, 16385, 100000, 1000003};
    tp_device *d[MAX_DEVICES], *naive = open_isa("naive", 1);
    int n = open_all(d, true);
    float *x = rnd_array(1000003, 11), *y = rnd_array(1000003, 12);
    for (int s = 0; s < TP_COUNT(size); s++) {
        double sum = 0, dot = 0, max = -INFINITY;
        for (int64_t i = 0; i < size[s]; i++) {
            sum += (double)x[i];
            dot += (double)x[i] * (double)y[i];
            if ((double)x[i] > max) max = (double)x[i];
        }
        float sum0 = tp_vec_sum(naive, size[s], x), dot0 = tp_vec_dot(naive, size[s], x, y), isa_dot = 0;
        double tol = 1e-6 + 1e-6 * sqrt((double)size[s]);
        CHECK_NEAR((double)sum0, sum, tol, 0);
        CHECK_NEAR((double)dot0, dot, tol, 0);
        for (int i = 0; i < n; i++) {
            float v = tp_vec_sum(d[i], size[s], x), w = tp_vec_dot(d[i], size[s], x, y);
            CHECK_MSG(v == sum0, "%s: sum of %d: %.9g, naive %.9g", tp_device_isa(d[i]), (int)size[s], (double)v,
                      (double)sum0);
            CHECK_NEAR((double)w, dot, tol, 0);
            if (i % thread_counts() == 0) isa_dot = w;
            CHECK(w == isa_dot);
            CHECK((double)tp_vec_max(d[i], size[s], x) == max);
        }
        CHECK((double)tp_vec_max(naive, size[s], x) == max);
    }
    for (int64_t at = 0; at < 100000; at = at * 3 + 1) {
        float keep = x[at], m;
        x[at] = NAN;
        for (int i = 0; i < n; i++) {
            m = tp_vec_max(d[i], 100000, x);
            CHECK(m != m);
        }
        m = tp_vec_max(naive, 100000, x);
        CHECK(m != m);
        x[at] = keep;
    }
    naive->close(naive);
    close_all(d, n);
    free(x);
    free(y);
}

TEST(adam)
{
    enum { N = 40003 };
    tp_device *d[MAX_DEVICES], *naive = open_isa("naive", 1);
    int n = open_all(d, true);
    float *w0 = rnd_array(N, 13), *m0 = rnd_array(N, 14), *v0 = rnd_array(N, 15), *g = rnd_array(N, 16);
    for (int i = 0; i < N; i++) v0[i] = fabsf(v0[i]);
    float *w1 = copy_array(w0, N), *m1 = copy_array(m0, N), *v1 = copy_array(v0, N), *first = copy_array(w0, N);
    tp_vec_adam(naive, N, w1, m1, v1, g, 0.01f, 0.9f, 0.999f, 1e-8f);
    for (int i = 0; i < n; i++) {
        float *w = copy_array(w0, N), *m = copy_array(m0, N), *v = copy_array(v0, N);
        tp_vec_adam(d[i], N, w, m, v, g, 0.01f, 0.9f, 0.999f, 1e-8f);
        CHECK(distance(w, w1, N) < 1e-6);
        CHECK(distance(m, m1, N) < 1e-6);
        CHECK(distance(v, v1, N) < 1e-6);
        if (i % thread_counts() == 0) memcpy(first, w, N * sizeof *w);
        CHECK(same_bits(first, w, N));
        free(w);
        free(m);
        free(v);
    }
    naive->close(naive);
    close_all(d, n);
    free(w0);
    free(m0);
    free(v0);
    free(g);
    free(w1);
    free(m1);
    free(v1);
    free(first);
}

/* A hash of results for each instruction set. All compilers with all flags give these: who changes one changes the bits
 * of all that was trained. */
static const struct {
    const char *isa;
    uint64_t hash;
} known_bits[] = {{"sse2", 0xc397eeec11f9a0a5u}, {"avx2", 0xc2e9f83023636e2bu}, {"avx512", 0xc2e9f83023636e2bu}};

TEST(bits_are_those_of_all_builds)
{
#ifdef __FAST_MATH__
    TEST_SKIP("-ffast-math lets the compiler choose the bits");
#endif
    tp_device *d[MAX_DEVICES];
    int n = open_all(d, false);
    for (int i = 0; i < n; i++) {
        enum { N = 5000 };
        uint64_t h = 0;
        float *a = rnd_array(N, 20), *b = rnd_array(N, 21), *y = rnd_array(N, 22), *z = rnd_array(N, 23);
        for (int k = 0; k < TP_COUNT(all_vecs); k++) {
            const float *in[2];
            in[0] = a;
            in[1] = b;
            if (all_vecs[k] == tp_vec_find_log || all_vecs[k] == tp_vec_find_sqrt || all_vecs[k] == tp_vec_find_rsqrt)
                continue; /* signs of NaN */
            all_vecs[k](d[i])(N, y, in);
            h = h * 31 + tp_hash(y, N * sizeof *y);
        }
        for (int j = 0; j < N; j++) z[j] = fabsf(z[j]);
        const float *in[1];
        in[0] = z;
        tp_vec_find_log(d[i])(N, y, in);
        h = h * 31 + tp_hash(y, N * sizeof *y);
        tp_vec_adam(d[i], N, y, a, z, b, 0.01f, 0.9f, 0.99f, 1e-8f);
        h = h * 31 + tp_hash(y, N * sizeof *y) + tp_hash(z, N * sizeof *z);
        float dot = tp_vec_dot(d[i], N, a, b);
        h = h * 31 + tp_hash(&dot, sizeof dot);
        for (int bits = 0; bits < 4; bits++) {
            tp__gemm_args g;
            memset(&g, 0, sizeof g);
            g.ta = bits & 1;
            g.tb = bits >> 1;
            g.M = 33, g.N = 40, g.K = 70;
            g.A = a, g.B = b, g.C = y;
            g.lda = 70, g.ldb = 70, g.ldc = 40;
            g.epilogue.bias = b;
            void *s = scratch_new(tp__gemm_scratch(d[i], &g));
            tp__gemm(d[i], &g, s);
            h = h * 31 + tp_hash(y, 33 * 40 * sizeof *y);
            free(s);
        }
        for (int j = 0; j < 100; j++) y[j] = tp_expf(a[j] * 9) + tp_tanhf(a[j]) + tp_logf(z[j]) + tp_erff(b[j] * 3);
        h = h * 31 + tp_hash(y, 100 * sizeof *y);
        for (int k = 0; k < TP_COUNT(known_bits); k++)
            if (strcmp(known_bits[k].isa, tp_device_isa(d[i])) == 0)
                CHECK_MSG(h == known_bits[k].hash, "%s: the hash is %016llx", tp_device_isa(d[i]),
                          (unsigned long long)h);
        free(a);
        free(b);
        free(y);
        free(z);
    }
    close_all(d, n);
}

/* -- random numbers, dropout, pooling: vectors give the bits of their scalar twins ------------------------- */

#if TP__FAST
TEST(random_blocks)
{
    static const uint64_t firsts[] = {0, 7, 0xfffffffeu, UINT64_MAX - 5}; /* the last one wraps around */
    uint32_t words[4 * 37];
    double normal[2 * 37], by_kernel[2 * 37], want[2];
    for (int i = 0; i < 5; i++) {
        tp_device *d = open_isa(isa_names[i], 1);
        if (!d) continue;
        for (int f = 0; f < 4; f++)
            for (int64_t blocks = 0; blocks <= 37; blocks += blocks < 5 ? 1 : 4) {
                const uint64_t step = 3 + ((uint64_t)f << 40);
                tp__random_words(d->isa, 0x123456789abcdefu, step, firsts[f], blocks, words);
                tp__random_normals(d->isa, blocks, words, normal);
                /* if there is a kernel, it computes all of them, and no loop does so again */
                const bool fast = tp__fast_normals(d->isa, blocks, words, by_kernel);
                CHECK(fast == (tp__normal_of[d->isa->level] != NULL));
                CHECK(!fast || memcmp(by_kernel, normal, (size_t)blocks * 2 * sizeof *normal) == 0);
                for (int64_t b = 0; b < blocks; b++) {
                    uint32_t r[4];
                    tp_philox(0x123456789abcdefu, firsts[f] + (uint64_t)b, step, r);
                    CHECK_MSG(memcmp(r, words + 4 * b, sizeof r) == 0, "%s: block %lld of %lld", isa_names[i],
                              (long long)b, (long long)blocks);
                    tp__normal_pair(r, want);
                    CHECK_MSG(memcmp(want, normal + 2 * b, sizeof want) == 0,
                              "%s: normals of block %lld: %g %g, not %g %g", isa_names[i], (long long)b, normal[2 * b],
                              normal[2 * b + 1], want[0], want[1]);
                }
            }
        /* the ends of the range of uniforms */
        static const uint32_t ends[4][4] = {{0, 0, 0, 0},
                                            {0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu},
                                            {0, 0x80000000u, 0, 0x80000000u},
                                            {0x7ffu, 0, 0, 0x40000000u}};
        for (int e = 0; e < 4; e++) {
            for (int b = 0; b < 16; b++) memcpy(words + 4 * b, ends[e], sizeof ends[e]);
            tp__random_normals(d->isa, 16, words, normal);
            tp__normal_pair(ends[e], want);
            for (int b = 0; b < 16; b++)
                CHECK_MSG(memcmp(want, normal + 2 * b, sizeof want) == 0, "%s: end %d: %g %g, not %g %g", isa_names[i],
                          e, normal[2 * b], normal[2 * b + 1], want[0], want[1]);
        }
        d->close(d);
    }
}

/* tp__fast_scale_add_bytes replaces each byte x by a x + b, limited to 0 to 255 and truncated, as the plain loop does. Of n bytes it
 * does whole groups of 48 (the length of b), and leaves those behind them as they were. */
TEST(bytes_are_scaled)
{
    static const float values[] = {0, 0.2f, 1, 1.79f, -3, 255, -254.5f, 1e30f, -1e30f, INFINITY, NAN};
    for (int k = 0; k < TP_COUNT(values) * TP_COUNT(values); k++)
        for (int64_t n = 0; n <= 400; n += 47 + k % 3) {
            const float a = values[k % TP_COUNT(values)];
            float b[48];
            uint8_t x[448];
            for (int j = 0; j < 48; j++) b[j] = j % 7 ? (float)(j * 11 - 200) : values[k / TP_COUNT(values)];
            for (int j = 0; j < 448; j++) x[j] = (uint8_t)(j * 37 + k);
            const int64_t done = tp__fast_scale_add_bytes(x, a, b, 48, n);
            CHECK(done == n / 48 * 48 || done == 0);
            for (int64_t j = 0; j < 448; j++) {
                const uint8_t was = (uint8_t)(j * 37 + k);
                const volatile float product = a * (float)was, sum = product + b[j % 48];
                const int want = j >= done ? was : sum >= 255 ? 255 : sum > 0 ? (int)sum : 0;
                if (!CHECK_MSG(x[j] == want, "%g * %d + %g is %d, not %d", (double)a, was, (double)b[j % 48], x[j],
                               want))
                    break;
            }
        }
}

TEST(pool_of_any_width)
{
    static const int64_t tap[4] = {140, 0, 210, 70};
    static const uint8_t index[4] = {0, 1, 2, 3};
    float *x = rnd_array(280, 11), y[71], dx[281];
    uint8_t which[71];
    x[5] = x[75] = NAN;   /* the first NaN wins */
    x[6] = x[146] = 2.0f; /* the first of ties wins */
    for (int i = 0; i < 5; i++) {
        tp_device *d = open_isa(isa_names[i], 1);
        if (!d) continue;
        for (int64_t C = 1; C <= 70; C++) {
            y[C] = -7.0f, which[C] = 99;
            tp__pool_of[d->isa->level](C, 4, x, tap, index, y, which);
            CHECK(y[C] == -7.0f && which[C] == 99);
            for (int64_t c = 0; c < C; c++) {
                int best = 0;
                for (int t = 1; t < 4; t++) {
                    const float e = x[tap[t] + c], m = x[tap[best] + c];
                    if (e > m || (e != e && m == m)) best = t;
                }
                CHECK_MSG(which[c] == best && memcmp(&y[c], &x[tap[best] + c], sizeof y[c]) == 0, "%s: %lld of %lld",
                          isa_names[i], (long long)c, (long long)C);
            }
            for (int k = 0; k < 281; k++) dx[k] = -7.0f;
            tp__unpool_of[d->isa->level](C, 4, y, which, tap, dx);
            for (int t = 0; t < 4; t++)
                for (int64_t c = 0; c < 70; c++) {
                    const float want = c >= C ? -7.0f : which[c] == t ? y[c] + 0.0f : 0.0f;
                    CHECK(memcmp(&dx[tap[t] + c], &want, sizeof want) == 0);
                }
            CHECK(dx[280] == -7.0f);
        }
        d->close(d);
    }
    free(x);
}
#endif

/* -- kernels of one row or a few, called as the ops call them: any width, arrays that end where the memory ends -------- */

#if TP__FAST && !defined(_WIN32)
enum { EDGES = 14, EDGE_BYTES = 65536, EDGE_FLOATS = EDGE_BYTES / 4 };
static const uint32_t untouched = 0x7fc0beefu; /* a NaN: who reads what is not his spoils his result */
static float *edge_begin[EDGES];

/* between -1 and 1; cheaper than random numbers */
static float edge_value(int slot, int64_t n, int64_t i)
{
    uint32_t x = (uint32_t)(slot * 1000003 + n * 10007 + i + 1) * 2654435761u;
    x = (x ^ x >> 15) * 2246822519u;
    return (float)((x ^ x >> 13) >> 8) * (1.0f / 8388608.0f) - 1.0f;
}

/* n such values whose end is the end of readable memory; what stands before them is `untouched`. Each slot holds one array. */
static float *edge(int slot, int64_t n)
{
    if (!edge_begin[slot]) {
        char *p = (char *)mmap(NULL, 2 * EDGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (!CHECK(p != MAP_FAILED && mprotect(p + EDGE_BYTES, EDGE_BYTES, PROT_NONE) == 0)) abort();
        edge_begin[slot] = (float *)(void *)p;
        for (int64_t i = 0; i < EDGE_FLOATS; i++) memcpy(edge_begin[slot] + i, &untouched, 4);
    }
    float *p = edge_begin[slot] + EDGE_FLOATS - n;
    for (int64_t i = 0; i < 100 && i < EDGE_FLOATS - n; i++) memcpy(p - 1 - i, &untouched, 4);
    for (int64_t i = 0; i < n; i++) p[i] = edge_value(slot, n, i);
    return p;
}

/* Is what stands before the array as it was? */
static bool edge_kept(int slot, int64_t n)
{
    const float *p = edge_begin[slot] + EDGE_FLOATS - n;
    for (int64_t i = 0; i < 100 && i < EDGE_FLOATS - n; i++)
        if (memcmp(p - 1 - i, &untouched, 4) != 0) return false;
    return true;
}

/* Nothing but `got[i]` near `want[i]` counts; a NaN is not. */
static bool near_all(const float *got, const double *want, int64_t n, double tolerance)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= tolerance * (1 + fabs(want[i])))) return false;
    return true;
}

/* Calls test(isa, n) for each instruction set and for widths around all sizes of vectors. */
static void for_widths(void (*test)(const struct tp__isa *isa, int64_t n))
{
    for (int i = 0; i < TP_COUNT(isa_names); i++) {
        tp_device *d = open_isa(isa_names[i], 1);
        if (!d) continue;
        for (int64_t n = 1; n <= 140; n += n < 50 ? 1 : 13) test(d->isa, n);
        d->close(d);
    }
}

/* The result of tp__taps, or with `grad` of its gradient, in double; it is added to `want`. */
static void taps_want(const tp__taps *t, bool grad, double *want)
{
    for (int64_t p = 0; p < t->pixels; p++)
        for (int64_t c = 0; c < t->channels; c++)
            for (int k = 0; k < t->n_tap; k++)
                for (int64_t j = 0; j < t->in && p >= t->tap[k].first && p < t->tap[k].last; j++) {
                    const double x = (double)t->x[t->tap[k].x + p * t->x_step + c / t->out * t->in + j];
                    const int64_t w = t->tap[k].w + j * t->channels + c;
                    if (grad) want[w] += x * (double)t->dy[p * t->y_step + c];
                    else want[p * t->y_step + c] += x * (double)t->w[w];
                }
}

/* `groups` groups with `in` channels in x and `out` in y, a run of `pixels` pixels */
static void taps_of_groups(const struct tp__isa *isa, int64_t groups, int64_t in, int64_t out, int64_t pixels)
{
    enum { TAPS = 10 };
    const int64_t C = groups * out, x_step = groups * in + 2, y_step = C + 3;
    /* tap k reads x 2 k values further on; for the gradient, the odd ones do not read the last pixel, every third not the first */
    const int64_t nx = (pixels - 1) * x_step + groups * in + 2 * TAPS, ny = (pixels - 1) * y_step + C,
                  nw = TAPS * in * C;
    double *want = (double *)calloc((size_t)(ny > nw ? ny : nw), sizeof *want);
    tp__source tap[TAPS];
    tp__taps t;
    memset(&t, 0, sizeof t);
    t.channels = C, t.in = in, t.out = out, t.pixels = pixels, t.x_step = x_step, t.y_step = y_step, t.tap = tap;
    t.x = edge(0, nx);
    for (int k = 0; k < TAPS; k++) tap[k].x = 2 * (k + 1), tap[k].w = (TAPS - 1 - k) * in * C;
    for (int bits = 0; bits < 4; bits++) {
        t.n_tap = bits == 3 ? TAPS : bits * 2;
        t.first = 0, t.last = pixels;
        for (int k = 0; k < TAPS; k++) tap[k].first = 0, tap[k].last = pixels;
        t.w = edge(10, nw);
        t.y = edge(11, ny);
        t.bias = bits & 1 ? edge(12, C) : NULL;
        t.ceiling = bits & 2 ? bits & 1 ? 0.5f : INFINITY : 0;
        for (int64_t i = 0; i < ny; i++)
            want[i] = i % y_step < C ? t.bias ? (double)t.bias[i % y_step] : 0 : (double)t.y[i];
        taps_want(&t, false, want);
        for (int64_t i = 0; i < ny; i++)
            if (i % y_step < C && t.ceiling > 0) want[i] = fmin(fmax(want[i], 0), (double)t.ceiling);
        tp__taps_of[isa->level](&t);
        CHECK_MSG(near_all(t.y, want, ny, 3e-6) && edge_kept(11, ny),
                  "%s: %d taps of %d pixels, %d groups of %d and %d", isa->name, t.n_tap, (int)pixels, (int)groups,
                  (int)in, (int)out);
        t.dy = edge(11, ny);
        t.dw = edge(13, nw);
        for (int k = 0; k < t.n_tap && bits != 1; k++) {
            tap[k].first = k % 3 == 0 && pixels > 2, tap[k].last = pixels - k % 2;
            if (t.first < tap[k].first) t.first = tap[k].first;
            if (t.last > tap[k].last) t.last = tap[k].last;
        }
        for (int64_t i = 0; i < nw; i++) want[i] = (double)t.dw[i];
        taps_want(&t, true, want);
        tp__taps_grad_of[isa->level](&t);
        CHECK_MSG(near_all(t.dw, want, nw, 3e-6) && edge_kept(13, nw),
                  "%s: gradient of %d taps of %d pixels, %d groups of %d and %d", isa->name, t.n_tap, (int)pixels,
                  (int)groups, (int)in, (int)out);
    }
    free(want);
}
static void taps_of_width(const struct tp__isa *isa, int64_t n)
{
    if (!tp__taps_of[isa->level]) return; /* SSE2 has none */
    taps_of_groups(isa, n, 1, 1, 1 + n % 6);
    for (int64_t in = 1; in <= 5 && n % 3 == 0; in++)
        for (int64_t out = 1; out <= isa->vw && out <= 5; out++) taps_of_groups(isa, n / 3, in, out, 1 + (n + in) % 6);
    if (n % 8 == 0 && isa->vw >= 8) taps_of_groups(isa, n / 8, 8, 8, 2);
}
TEST(taps_of_any_width) { for_widths(taps_of_width); }

/* Runs of a row, as windows read them: with gaps or without in x and y, one after the other. */
static void runs_of_width(const struct tp__isa *isa, int64_t run)
{
    for (int64_t n = 1; n <= 4; n++)
        for (int64_t gaps = 0; gaps < 4; gaps++) {
            const int64_t x_step = run + (gaps & 1) * 3, y_step = run + (gaps >> 1) * 2;
            const int64_t nx = (n - 1) * x_step + run, ny = (n - 1) * y_step + run;
            const float *x = edge(0, nx);
            float *y = edge(1, ny), want[4 * 142];
            memcpy(want, y, (size_t)ny * sizeof *y);
            for (int64_t i = 0; i < n * run; i++) want[i / run * y_step + i % run] += x[i / run * x_step + i % run];
            tp__pool_add_of[isa->level](n, run, x, x_step, y, y_step);
            CHECK_MSG(memcmp(want, y, (size_t)ny * sizeof *y) == 0 && edge_kept(1, ny), "%s: %d runs of %d", isa->name,
                      (int)n, (int)run);
        }
}
TEST(runs_of_any_width) { for_widths(runs_of_width); }

/* Maxima of such runs with their places, of values among which are many ties and some NaN. */
static void maxima_of_width(const struct tp__isa *isa, int64_t run)
{
    static const float odd[] = {0.0f, -0.0f, 1.0f, 1.0f, -INFINITY, INFINITY, NAN};
    float want[4 * 140];
    int32_t at[4 * 143], want_at[4 * 140];
    uint64_t drawn = (uint64_t)run << 32;
    for (int64_t n = 1; n <= 4; n++)
        for (int64_t way = 0; way < 4; way++) {
            const int64_t x_step = run + (way & 1) * 3, nx = (n - 1) * x_step + run, ny = n * run;
            float *x = edge(0, nx), *y = edge(1, ny);
            int32_t *which = (int32_t *)(void *)edge(2, ny);
            for (int64_t i = 0; i < nx; i++)
                x[i] = odd[tp_test_mix(++drawn) % 7], at[i] = (int32_t)(tp_test_mix(++drawn) % 5);
            for (int64_t i = 0; i < ny; i++) want[i] = y[i] = odd[tp_test_mix(++drawn) % 7];
            for (int64_t i = 0; i < ny; i++) want_at[i] = which[i] = (int32_t)(tp_test_mix(++drawn) % 9);
            for (int64_t i = 0; i < ny; i++) {
                const int64_t from = i / run * x_step + i % run;
                const float e = x[from];
                const int32_t place = (way & 2 ? at[from] : 0) + 2;
                const bool more = e > want[i] || (e != e && want[i] == want[i]),
                           same = e == want[i] || (e != e && want[i] != want[i]);
                if (more || (same && place < want_at[i])) want[i] = e, want_at[i] = place;
            }
            tp__pool_max_of[isa->level](n, run, x, x_step, way & 2 ? at : NULL, 2, y, which);
            CHECK_MSG(memcmp(want, y, (size_t)ny * sizeof *y) == 0 && edge_kept(1, ny) &&
                          memcmp(want_at, which, (size_t)ny * sizeof *which) == 0 && edge_kept(2, ny),
                      "%s: maxima of %d runs of %d", isa->name, (int)n, (int)run);
        }
}
TEST(maxima_of_any_width) { for_widths(maxima_of_width); }

static void batch_norm_of_width(const struct tp__isa *isa, int64_t C)
{
    static double y[10 * 1100], dx[10 * 1100], mean[1100], squares[1100], s1[1100], s2[1100];
    for (int64_t rows = 1; rows <= (C < 140 ? 5 : 10); rows++)
        for (int bits = 0; bits < 8; bits++) {
            const bool relu = (bits & 1) != 0, scaled = (bits & 4) != 0;
            const float *x = edge(0, rows * C), *dy = edge(1, rows * C);
            const float *more = bits & 2 ? edge(2, rows * C) : NULL;
            float *a = edge(3, C), *b = edge(4, C), *out = edge(5, rows * C), *back = edge(6, rows * C);
            tp__bn bn = {C, 0, edge(7, C), edge(8, C), edge(9, C), edge(10, C), edge(11, C), relu, scaled};
            for (int64_t c = 0; c < C; c++) {
                mean[c] = squares[c] = s1[c] = s2[c] = 0;
                for (int64_t r = 0; r < rows; r++) mean[c] += (double)x[r * C + c] / (double)rows;
                for (int64_t r = 0; r < rows; r++) {
                    const int64_t i = r * C + c;
                    const double off = (double)x[i] - mean[c], d = (double)x[i] - (double)bn.mean[c];
                    double g = (double)dy[i];
                    squares[c] += off * off;
                    y[i] = d * (double)bn.scale[c] + (double)bn.beta[c];
                    if (relu && y[i] < 1e-6) g = 0;
                    if (relu && y[i] < 0) y[i] = 0;
                    s1[c] += g;
                    s2[c] += g * d;
                    dx[i] = (double)bn.scale[c] * (g - (double)bn.c1[c] - d * (double)bn.c2[c]);
                    if (scaled) dx[i] = (double)bn.scale[c] * g - (double)bn.c1[c] - d * (double)bn.c2[c];
                    if (more) dx[i] += (double)more[i];
                }
            }
            tp__bn_sums_of[isa->level](&bn, rows, NULL, x, a, b);
            CHECK_MSG(near_all(a, mean, C, 1e-6) && near_all(b, squares, C, 2e-6), "%s: statistics of %d x %d",
                      isa->name, (int)rows, (int)C);
            tp__bn_sums_of[isa->level](&bn, rows, dy, x, a, b);
            CHECK_MSG(near_all(a, s1, C, 1e-6) && near_all(b, s2, C, 2e-6), "%s: sums of %d x %d", isa->name, (int)rows,
                      (int)C);
            tp__bn_apply_of[isa->level](&bn, rows, x, out);
            CHECK_MSG(near_all(out, y, rows * C, 1e-6), "%s: y of %d x %d", isa->name, (int)rows, (int)C);
            tp__bn_back_of[isa->level](&bn, rows, dy, x, more, back);
            CHECK_MSG(near_all(back, dx, rows * C, 2e-6), "%s: dx of %d x %d", isa->name, (int)rows, (int)C);
            CHECK(edge_kept(3, C) && edge_kept(4, C) && edge_kept(5, rows * C) && edge_kept(6, rows * C));
        }
}
TEST(batch_norm_of_any_width)
{
    static const int64_t wide[] = {257, 512, 513, 1100}; /* so many channels that the kernel reads row by row */
    for_widths(batch_norm_of_width);
    for (int i = 0; i < TP_COUNT(isa_names); i++) {
        tp_device *d = open_isa(isa_names[i], 1);
        if (!d) continue;
        for (int w = 0; w < TP_COUNT(wide); w++) batch_norm_of_width(d->isa, wide[w]);
        d->close(d);
    }
}

static void layer_norm_of_width(const struct tp__isa *isa, int64_t C)
{
    double y[140], want_dx[140], want_dgamma[140], want_dbeta[140], mean = 0, squares = 0, g = 0, gx = 0;
    const float *x = edge(0, C), *gamma = edge(1, C), *beta = edge(2, C), *dy = edge(3, C);
    float *out = edge(4, C), *dx = edge(5, C), *dgamma = edge(6, C), *dbeta = edge(7, C), m, inv;
    for (int64_t c = 0; c < C; c++) mean += (double)x[c] / (double)C;
    for (int64_t c = 0; c < C; c++) squares += ((double)x[c] - mean) * ((double)x[c] - mean) / (double)C;
    const double by = 1 / sqrt(squares + 0.125);
    for (int64_t c = 0; c < C; c++) {
        const double xhat = ((double)x[c] - mean) * by;
        y[c] = xhat * (double)gamma[c] + (double)beta[c];
        g += (double)dy[c] * (double)gamma[c] / (double)C;
        gx += (double)dy[c] * (double)gamma[c] * xhat / (double)C;
        want_dgamma[c] = (double)dgamma[c] + (double)dy[c] * xhat;
        want_dbeta[c] = (double)dbeta[c] + (double)dy[c];
    }
    for (int64_t c = 0; c < C; c++)
        want_dx[c] = by * ((double)dy[c] * (double)gamma[c] - g - ((double)x[c] - mean) * by * gx);
    tp__ln_row_of[isa->level](C, x, gamma, beta, 0.125f, out, &m, &inv);
    CHECK_MSG(near_all(out, y, C, 3e-6), "%s: y of %d", isa->name, (int)C);
    CHECK_NEAR(m, mean, 1e-6, 0);
    CHECK_NEAR(inv, by, 0, 1e-6);
    tp__ln_back_of[isa->level](C, dy, x, gamma, m, inv, dx, dgamma, dbeta);
    CHECK_MSG(near_all(dx, want_dx, C, 5e-6), "%s: dx of %d", isa->name, (int)C);
    CHECK_MSG(near_all(dgamma, want_dgamma, C, 3e-6) && near_all(dbeta, want_dbeta, C, 1e-6), "%s: gradients of %d",
              isa->name, (int)C);
    CHECK(edge_kept(4, C) && edge_kept(5, C) && edge_kept(6, C) && edge_kept(7, C));
    for (int64_t c = 0; c < C; c++) want_dgamma[c] += want_dgamma[c] - (double)edge(6, C)[c];
    edge(6, C), edge(7, C);
    tp__ln_back_of[isa->level](C, dy, x, gamma, m, inv, NULL, dgamma, dbeta); /* nobody asks for dx */
    CHECK(near_all(dbeta, want_dbeta, C, 1e-6));
}
TEST(layer_norm_of_any_width) { for_widths(layer_norm_of_width); }

static void softmax_of_width(const struct tp__isa *isa, int64_t n)
{
    double e[140], sum = 0;
    float *x = edge(0, n), *to = edge(1, n);
    for (int64_t i = 0; i < n; i++) {
        x[i] *= 5.0f;
        e[i] = exp((double)x[i] - (double)0.25f);
        sum += e[i];
    }
    CHECK_NEAR(tp__exp_sum_of[isa->level](n, x, 0.25f, NULL), sum, 0, 1e-6);
    CHECK_NEAR(tp__exp_sum_of[isa->level](n, x, 0.25f, to), sum, 0, 1e-6);
    CHECK_MSG(near_all(to, e, n, 1e-6) && edge_kept(1, n), "%s: terms of %d", isa->name, (int)n);
    for (int64_t i = 0; i < n; i++) e[i] = (double)(to[i] / 3.0f);
    tp__divide_of[isa->level](n, to, 3.0f);
    CHECK_MSG(near_all(to, e, n, 0) && edge_kept(1, n), "%s: quotients of %d", isa->name, (int)n);
    tp__exp_sum_of[isa->level](n, x, 0.25f, x); /* in place */
    for (int64_t i = 0; i < n; i++) CHECK(x[i] / 3.0f == to[i]);
    x[0] = -INFINITY; /* of which nothing is left, whatever is taken off */
    for (int64_t i = 1; i < n; i++) x[i] = -INFINITY;
    CHECK(tp__exp_sum_of[isa->level](n, x, 0.25f, NULL) == 0);
#ifndef __FAST_MATH__
    /* a row of -inf alone: -inf - (-inf) is NaN everywhere, in the last, partial vector too */
    const float z = tp__exp_sum_of[isa->level](n, x, -INFINITY, to);
    CHECK_MSG(z != z && edge_kept(1, n), "%s: %d times -inf: %g", isa->name, (int)n, (double)z);
    for (int64_t i = 0; i < n; i++) CHECK(to[i] != to[i]);
#endif
}
TEST(softmax_rows_of_any_width) { for_widths(softmax_of_width); }

/* The softmax of attention and its gradient for m queries and n keys, of which query i sees those before i + seen. */
static void check_attention(const struct tp__isa *isa, int64_t n, int64_t m, int64_t seen)
{
    const int64_t gap = 64, columns = (m + isa->vw - 1) / isa->vw * isa->vw, size = (n - 1) * gap + columns;
    float *p = edge(0, size), *dp = edge(1, size), *lse = edge(2, m), *again = copy_array(p, size),
          *sums = rnd_array(m, 3);
    double *want = (double *)calloc((size_t)size, sizeof *want), *ds = (double *)calloc((size_t)size, sizeof *ds),
           lse_want[64];
    for (int64_t i = 0; i < m; i++) {
        double z = 0;
        const double less = (double)sums[i];
        for (int64_t k = 0; k < n && k < i + seen; k++) z += exp((double)p[k * gap + i]);
        for (int64_t k = 0; k < n && k < i + seen; k++) want[k * gap + i] = exp((double)p[k * gap + i]) / z;
        for (int64_t k = 0; k < n; k++)
            ds[k * gap + i] = want[k * gap + i] * ((double)dp[k * gap + i] - less) * (double)0.375f;
        lse_want[i] = log(z);
    }
    tp__attention_softmax_of[isa->level](n, m, p, gap, seen, lse, false);
    tp__attention_softmax_of[isa->level](n, m, again, gap, seen, lse, true); /* by the sums that are known now */
    CHECK(edge_kept(0, size) && edge_kept(2, m) && near_all(lse, lse_want, m, 2e-6));
    tp__attention_ds_of[isa->level](n, m, p, dp, gap, sums, 0.375f);
    free(sums);
    CHECK(edge_kept(1, size));
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i < m; i++) {
            const int64_t at = k * gap + i;
            CHECK_MSG(fabs((double)p[at] - want[at]) < 1e-6 && fabs((double)again[at] - want[at]) < 2e-6 &&
                          fabs((double)dp[at] - ds[at]) < 1e-6 && (k < i + seen || (p[at] == 0 && again[at] == 0)),
                      "%s: query %d of %d, key %d of %d, %d seen", isa->name, (int)i, (int)m, (int)k, (int)n,
                      (int)seen);
        }
    free(again), free(want), free(ds);
}
static void attention_of_width(const struct tp__isa *isa, int64_t n)
{
    for (int64_t m = 1; m <= 64; m += m < 18 ? 1 : 23) {
        check_attention(isa, n, m, n);
        if (n >= m) check_attention(isa, n, m, n - m + 1);
        if (n > m + 5) check_attention(isa, n, m, 3); /* keys that no query of the block sees */
        check_attention(isa, n, m, 1);
    }
}
TEST(attention_of_any_size) { for_widths(attention_of_width); }

/* Dropout of values whose words lie on both sides of the rate; each array ends where the memory ends. */
static void dropout_of_width(const struct tp__isa *isa, int64_t n)
{
    static const float rates[] = {0, 0.1f, 0.2f, 0.25f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f, 0.9f};
    const float *x = edge(0, n);
    uint32_t *words = (uint32_t *)(void *)edge(2, n);
    for (int r = 0; r < TP_COUNT(rates); r++) {
        float *y = edge(1, n);
        const uint32_t border = (uint32_t)(rates[r] * 16777216.0f);
        for (int64_t i = 0; i < n; i++) {
            const uint32_t at_border[] = {border, border - 1, border + 1, 0, 0xffffffu, (uint32_t)i * 0x9e3779u};
            words[i] = at_border[i % TP_COUNT(at_border)] << 8 | (uint32_t)(i % 3 * 127);
        }
        tp__dropout_of[isa->level](0, y, x, words, rates[r], 1.25f);
        CHECK(edge_kept(1, n) && y[0] == edge_value(1, n, 0));
        tp__dropout_of[isa->level](n, y, x, words, rates[r], 1.25f);
        for (int64_t i = 0; i < n; i++) {
            const float want = (float)(words[i] >> 8) >= rates[r] * 16777216.0f ? x[i] * 1.25f : 0.0f;
            CHECK_MSG(memcmp(&y[i], &want, sizeof want) == 0, "%s: rate %g, value %d of %d is %g, not %g", isa->name,
                      (double)rates[r], (int)i, (int)n, (double)y[i], (double)want);
        }
        CHECK(edge_kept(1, n));
    }
}
TEST(dropout_of_any_length)
{
    for (int i = 0; i < TP_COUNT(isa_names); i++) {
        tp_device *d = open_isa(isa_names[i], 1);
        for (int64_t n = 1; d && n <= 140; n++) dropout_of_width(d->isa, n);
        if (d) d->close(d);
    }
}

static void lstm_of_width(const struct tp__isa *isa, int64_t H)
{
    static double gate[4 * 140], want_dg[4 * 140];
    double c[140], h[140], want_dc[140];
    for (int with_more = 0; with_more < 2; with_more++) {
        float *gates = edge(0, 4 * H), *cell = edge(3, H), *out = edge(4, H);
        const float *more = with_more ? edge(1, 4 * H) : NULL, *c0 = edge(2, H), *dy = edge(5, H), *dh = edge(6, H);
        float *dc = edge(7, H), *dg = edge(8, 4 * H);
        for (int64_t u = 0; u < H; u++) {
            double in[4];
            for (int k = 0; k < 4; k++)
                in[k] = (double)gates[k * H + u] + (more ? (double)more[k * H + u] : 0) + (k == 2 ? 0.75 : 0);
            const double i = sigmoid(in[0]), j = tanh(in[1]), f = sigmoid(in[2]), o = sigmoid(in[3]);
            c[u] = f * (double)c0[u] + i * j;
            const double t = tanh(c[u]), d = (double)dy[u] + (double)dh[u], by_c = d * o * (1 - t * t) + (double)dc[u];
            h[u] = o * t;
            gate[u] = i, gate[H + u] = j, gate[2 * H + u] = f, gate[3 * H + u] = o;
            want_dg[u] = by_c * j * i * (1 - i);
            want_dg[H + u] = by_c * i * (1 - j * j);
            want_dg[2 * H + u] = by_c * (double)c0[u] * f * (1 - f);
            want_dg[3 * H + u] = d * t * o * (1 - o);
            want_dc[u] = by_c * f;
        }
        tp__lstm_cell_of[isa->level](H, gates, more, c0, cell, out, 0.75f);
        CHECK_MSG(near_all(gates, gate, 4 * H, 1e-6) && near_all(cell, c, H, 1e-6) && near_all(out, h, H, 1e-6),
                  "%s: a step of %d units", isa->name, (int)H);
        tp__lstm_back_of[isa->level](H, gates, c0, cell, dy, dh, dc, dg);
        CHECK_MSG(near_all(dg, want_dg, 4 * H, 2e-6) && near_all(dc, want_dc, H, 2e-6), "%s: a step back of %d units",
                  isa->name, (int)H);
        CHECK(edge_kept(0, 4 * H) && edge_kept(3, H) && edge_kept(4, H) && edge_kept(7, H) && edge_kept(8, 4 * H));
    }
}
TEST(lstm_steps_of_any_width) { for_widths(lstm_of_width); }

static void gru_of_width(const struct tp__isa *isa, int64_t H)
{
    static double gate[3 * 140], want_dg[3 * 140];
    double want_rh[140], h[140], want_dh[140], reset_dh[140];
    float *gates = edge(0, 3 * H), *rh = edge(1, H), *out = edge(2, H), *dh = edge(3, H), *dg = edge(4, 3 * H);
    const float *h0 = edge(5, H), *dy = edge(6, H), *d_reset_h = edge(7, H);
    for (int64_t k = 0; k < H; k++) {
        const double r = sigmoid((double)gates[k]), u = sigmoid((double)gates[H + k]),
                     c = tanh((double)gates[2 * H + k]);
        const double d = (double)dy[k] + (double)dh[k], by_rh = (double)d_reset_h[k];
        gate[k] = r, gate[H + k] = u, gate[2 * H + k] = c;
        want_rh[k] = r * (double)h0[k];
        h[k] = u * (double)h0[k] + (1 - u) * c;
        want_dg[k] = by_rh * (double)h0[k] * r * (1 - r);
        want_dg[H + k] = d * ((double)h0[k] - c) * u * (1 - u);
        want_dg[2 * H + k] = d * (1 - u) * (1 - c * c);
        want_dh[k] = d * u;
        reset_dh[k] = d * u + by_rh * r;
    }
    tp__gru_gates_of[isa->level](H, gates, h0, rh);
    CHECK_MSG(near_all(gates, gate, 2 * H, 1e-6) && near_all(rh, want_rh, H, 1e-6), "%s: gates of %d units", isa->name,
              (int)H);
    tp__gru_cell_of[isa->level](H, gates, h0, out);
    CHECK_MSG(near_all(gates, gate, 3 * H, 1e-6) && near_all(out, h, H, 1e-6), "%s: a step of %d units", isa->name,
              (int)H);
    tp__gru_back_of[isa->level](H, gates, h0, dy, dh, dg);
    CHECK_MSG(near_all(dg + H, want_dg + H, 2 * H, 2e-6) && near_all(dh, want_dh, H, 1e-6), "%s: back by %d units",
              isa->name, (int)H);
    tp__gru_back_reset_of[isa->level](H, gates, h0, d_reset_h, dh, dg);
    CHECK_MSG(near_all(dg, want_dg, 3 * H, 2e-6) && near_all(dh, reset_dh, H, 1e-6), "%s: reset of %d units", isa->name,
              (int)H);
    CHECK(edge_kept(0, 3 * H) && edge_kept(1, H) && edge_kept(2, H) && edge_kept(3, H) && edge_kept(4, 3 * H));
}
TEST(gru_steps_of_any_width) { for_widths(gru_of_width); }

/* Element-wise functions, Adam and sums read and write to the last element and not beyond. */
static void vectors_of_width(const struct tp__isa *isa, int64_t n)
{
    tp_device *d = open_isa(isa->name, 1);
    double sum = 0, dot = 0, most = -INFINITY, want[3][140];
    const float *in[2] = {edge(0, n), edge(1, n)};
    float *y = edge(2, n), *w = edge(3, n), *m = edge(4, n), *v = edge(5, n), last;
    if (!CHECK(d != NULL)) return;
    for (int k = 0; k < TP_COUNT(all_vecs); k++) {
        const float *one[2] = {&in[0][n - 1], &in[1][n - 1]};
        all_vecs[k](d)(n, y, in);
        all_vecs[k](d)(1, &last, one);
        CHECK_MSG((memcmp(&last, &y[n - 1], sizeof last) == 0 || (last != last && y[n - 1] != y[n - 1])) &&
                      edge_kept(2, n),
                  "%s: function %d of %d", isa->name, k, (int)n);
    }
    for (int64_t i = 0; i < n; i++) {
        const double g = (double)in[0][i];
        v[i] = fabsf(v[i]);
        sum += g;
        dot += g * (double)in[1][i];
        if (g > most) most = g;
        want[1][i] = (double)m[i] + (g - (double)m[i]) * 0.25;
        want[2][i] = (double)v[i] + (g * g - (double)v[i]) * 0.0625;
        want[0][i] = (double)w[i] - 0.5 * want[1][i] / (sqrt(want[2][i]) + 0.125);
    }
    CHECK_NEAR(isa->sum(n, in[0]), sum, 1e-5, 0);
    CHECK_NEAR(isa->dot(n, in[0], in[1]), dot, 1e-5, 0);
    CHECK((double)isa->max(n, in[0]) == most);
    tp__adam_of[isa->level](n, w, m, v, in[0], 0.5f, 0.25f, 0.0625f, 0.125f);
    CHECK_MSG(near_all(w, want[0], n, 3e-6) && near_all(m, want[1], n, 1e-6) && near_all(v, want[2], n, 1e-6),
              "%s: Adam of %d", isa->name, (int)n);
    CHECK(edge_kept(3, n) && edge_kept(4, n) && edge_kept(5, n));
    /* what is less than the rest of a row is found, wherever it stands, and in a row of one value */
    for (int64_t i = 0; i < n; i++) y[i] = -1e30f - (float)i * 1e29f;
    CHECK(isa->max(n, y) == -1e30f && isa->max(0, y) == -INFINITY);
    d->close(d);
}
TEST(vectors_end_where_they_end) { for_widths(vectors_of_width); }

/* How matrices are packed: turned; in panels padded with zeros; in tiles of rows. */
static void packing_of_width(const struct tp__isa *isa, int64_t n)
{
    static const int64_t others[] = {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33};
    for (int k = 0; k < TP_COUNT(others); k++) {
        const int64_t rows = others[k], lds = n + 3, ldd = rows + 2, wide = (n + isa->vw - 1) / isa->vw * isa->vw;
        const float *src = edge(0, (rows - 1) * lds + n);
        float *dst = edge(1, (n - 1) * ldd + rows), *panel = edge(2, rows * wide);
        const float *tall = edge(3, (n - 1) * (rows + 3) + rows);
        float *tiles = edge(4, rows * n);
        bool right = true;
        isa->transpose(dst, ldd, rows, src, lds, rows, n);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < n; j++) right = right && dst[j * ldd + i] == src[i * lds + j];
        for (int64_t j = 0; j < n - 1; j++)
            for (int64_t i = rows; i < ldd; i++)
                right = right && dst[j * ldd + i] == edge_value(1, (n - 1) * ldd + rows, j * ldd + i);
        CHECK_MSG(right && edge_kept(1, (n - 1) * ldd + rows), "%s: %dx%d turned", isa->name, (int)rows, (int)n);
        dst = edge(1, n * rows);
        isa->transpose(dst, rows, rows, src, lds, rows, n); /* without gaps */
        for (int64_t i = 0; i < n * rows; i++) right = right && dst[i] == src[i % rows * lds + i / rows];
        CHECK_MSG(right && edge_kept(1, n * rows), "%s: %dx%d turned without gaps", isa->name, (int)rows, (int)n);
        dst = edge(1, n * ldd);
        isa->transpose(dst, ldd, ldd, src, lds, rows, n); /* the rest of each row may become 0 */
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = 0; i < ldd; i++) {
                const float v = dst[j * ldd + i];
                right =
                    right && (i < rows ? v == src[i * lds + j] : v == 0 || v == edge_value(1, n * ldd, j * ldd + i));
            }
        CHECK_MSG(right && edge_kept(1, n * ldd), "%s: %dx%d turned with room", isa->name, (int)rows, (int)n);
        isa->panel(panel, wide, src, lds, rows, n);
        for (int64_t i = 0; i < rows * wide; i++)
            right = right && panel[i] == (i % wide < n ? src[i / wide * lds + i % wide] : 0.0f);
        CHECK_MSG(right && edge_kept(2, rows * wide), "%s: a panel of %dx%d", isa->name, (int)rows, (int)n);
        for (int64_t k0 = 0; k0 < n; k0 += 20) /* in pieces of k */
            isa->tiles(tiles, n, k0, n - k0 < 20 ? n - k0 : 20, tall + k0 * (rows + 3), rows + 3, rows);
        for (int64_t i = 0; i < rows;) {
            const int64_t m = tp__tile_rows(rows - i, isa->mr);
            for (int64_t at = 0; at < n * m; at++)
                right = right && tiles[i * n + at] == tall[at / m * (rows + 3) + i + at % m];
            i += m;
        }
        CHECK_MSG(right && edge_kept(4, rows * n), "%s: tiles of %dx%d", isa->name, (int)rows, (int)n);
    }
}
TEST(matrices_are_packed) { for_widths(packing_of_width); }

/* One row times a matrix, four dot products, a step of gradient descent. */
static void few_rows_of_width(const struct tp__isa *isa, int64_t n)
{
    static double want[5 * 140];
    for (int64_t K = 1; K <= 9; K += 4)
        for (int bits = 0; bits < 8; bits++) {
            const int64_t ldb = n + 2;
            const float *a = edge(0, (K - 1) * 3 + 1), *b = edge(1, (K - 1) * ldb + n), *bias = edge(2, n);
            float *c = edge(3, n);
            const tp__run run = {0, K, 0};
            tp__tile t;
            memset(&t, 0, sizeof t);
            t.a[0] = a, t.c[0] = c, t.run = &run, t.n_run = 1, t.m = 1, t.step = 3, t.ldb = ldb, t.b = b;
            t.add = (bits & 1) != 0, t.ceiling = bits & 2 ? bits & 1 ? 0.5f : INFINITY : 0,
            t.bias = bits & 4 ? bias : NULL;
            for (int64_t j = 0; j < n; j++) {
                want[j] = (bits & 1 ? (double)c[j] : 0) + (bits & 4 ? (double)bias[j] : 0);
                for (int64_t k = 0; k < K; k++) want[j] += (double)a[3 * k] * (double)b[k * ldb + j];
                if (bits & 2) want[j] = fmin(fmax(want[j], 0), (double)t.ceiling);
            }
            isa->row(&t, n);
            CHECK_MSG(near_all(c, want, n, 2e-6) && edge_kept(3, n), "%s: a row of %d", isa->name, (int)n);
        }
    for (int m = 1; m <= 4 && isa->dots; m++)
        for (int64_t rows = 1; rows <= 6; rows++) {
            const float *a = edge(0, m * (n + 1) - 1), *b = edge(1, rows * (n + 2) - 2);
            float out[4 * TP__DOTS];
            bool right = true;
            isa->dots(n, a, n + 1, m, b, n + 2, rows, out);
            for (int64_t i = 0; i < m * rows; i++) {
                double sum = 0;
                for (int64_t k = 0; k < n; k++)
                    sum += (double)a[i / rows * (n + 1) + k] * (double)b[i % rows * (n + 2) + k];
                right = right && fabs((double)out[i / rows * TP__DOTS + i % rows] - sum) < 3e-6;
            }
            CHECK_MSG(right, "%s: %d times %d dot products of %d", isa->name, m, (int)rows, (int)n);
        }
    for (int64_t K = 0; K <= 4 && isa->descend; K += 2) {
        const int64_t rows = 5, ldb = n + 1, gap = 2, step = 7, ldc = n;
        const float *a = edge(0, 40), *b = edge(1, K ? (K - 1) * ldb + n : 0);
        float *c = edge(2, rows * n);
        const tp__even e = {a, b, c, K, gap, step, ldb, ldc, false, 0, NULL, NULL};
        for (int64_t i = 0; i < rows * n; i++) {
            double s = 0;
            for (int64_t k = 0; k < K; k++) s += (double)a[i / n * gap + k * step] * (double)b[k * ldb + i % n];
            want[i] = (double)c[i] - 0.375 * s;
        }
        isa->descend(&e, rows, n, 0.375f);
        CHECK_MSG(near_all(c, want, rows * n, 1e-6) && edge_kept(2, rows * n), "%s: descends %d", isa->name, (int)n);
    }
}
TEST(few_rows_of_any_width) { for_widths(few_rows_of_width); }

/* Even tiles: any number of rows and columns, added to old values, with a bias and a ReLU; nothing beyond is read or written. */
static void even_of_width(const struct tp__isa *isa, int64_t n)
{
    static double want[19 * 140];
    if (!tp__even_product_of[isa->level] || n > 70) return;
    for (int64_t rows = 1; rows <= 19; rows++) {
        const int64_t K = 1 + rows % 4, bits = (rows + n) % 8, ldb = n, ldc = n, gap = rows & 1 ? K : 1,
                      step = rows & 1 ? 1 : rows;
        const float *a = edge(0, rows * K), *b = edge(1, K * ldb), *bias = edge(2, n);
        float *c = edge(3, rows * ldc);
        tp__even e = {a,
                      b,
                      c,
                      K,
                      gap,
                      step,
                      ldb,
                      ldc,
                      (bits & 1) != 0,
                      bits & 2 ? bits & 1 ? 0.5f : INFINITY : 0,
                      bits & 4 ? bias : NULL,
                      NULL};
        for (int64_t i = 0; i < rows * n; i++) {
            want[i] = (bits & 1 ? (double)c[i] : 0) + (bits & 4 ? (double)bias[i % n] : 0);
            for (int64_t k = 0; k < K; k++) want[i] += (double)a[i / n * gap + k * step] * (double)b[k * ldb + i % n];
            if (bits & 2) want[i] = fmin(fmax(want[i], 0), (double)e.ceiling);
        }
        tp__even_product_of[isa->level](&e, rows, n);
        CHECK_MSG(near_all(c, want, rows * n, 2e-6) && edge_kept(3, rows * n), "%s: %d rows of %d", isa->name,
                  (int)rows, (int)n);
    }
}
TEST(even_tiles_of_any_width) { for_widths(even_of_width); }

/* Powers that are roots, squares and reciprocals are exactly those. */
TEST(plain_powers_are_exact)
{
    for (int i = 0; i < 20000; i++) {
        const float x = 1.0f + (float)i * (3.0f / 20000);
        volatile float root = sqrtf(x), square = x * x, reciprocal = 1.0f / x;
        volatile float got[3] = {tp__powf(x, 0.5f), tp__powf(x, 2.0f), tp__powf(x, -1.0f)};
        if (!CHECK_MSG(got[0] == root && got[1] == square && got[2] == reciprocal, "of %.9g: %.9g, %.9g, %.9g",
                       (double)x, (double)got[0], (double)got[1], (double)got[2]))
            return;
    }
    for (int i = 0; i < TP_COUNT(isa_names); i++) { /* the vector functions of each instruction set give the same */
        static const float powers[] = {0.5f, 2.0f, -1.0f, 1.0f};
        enum { N = 1 << 16 };
        static float x[N], b[N], y[N];
        tp_device *d = open_isa(isa_names[i], 1);
        if (!d) continue;
        const int parts = getenv("TP_TEST_QUICK") ? 8 : 128; /* 128: each float from 1 to 2 */
        for (int part = 0; part < parts * TP_COUNT(powers); part++) {
            const float power = powers[part % TP_COUNT(powers)];
            const float *in[2] = {x, b};
            bool right = true;
            for (int j = 0; j < N; j++) {
                const uint32_t bits = 0x3f800000u + (uint32_t)(part / TP_COUNT(powers)) * N + (uint32_t)j;
                memcpy(&x[j], &bits, sizeof bits);
                b[j] = power;
            }
            tp_vec_find_pow(d)(N, y, in);
            for (int j = 0; j < N; j++) {
                volatile float want = power == 0.5f   ? sqrtf(x[j])
                                      : power == 2.0f ? x[j] * x[j]
                                      : power == 1.0f ? x[j]
                                                      : 1.0f / x[j];
                right = right && y[j] == want;
            }
            if (!CHECK_MSG(right, "%s: powers of %g, part %d", isa_names[i], (double)power, part)) break;
        }
        d->close(d);
    }
}

/* Rows to panels of two vectors, and rows of panels to where they belong. */
TEST(rows_and_panels)
{
    for (int i = 0; i < TP_COUNT(isa_names); i++) {
        tp_device *d = open_isa(isa_names[i], 1);
        if (!d) continue;
        const int64_t nr = 2 * d->isa->vw, gap = 3 * nr;
        for (int64_t n = 1; n <= 70; n++) {
            const int64_t panels = (n + nr - 1) / nr;
            float *row = edge(0, panels * nr), *to = edge(1, (panels - 1) * gap + nr);
            bool right = true;
            tp__row_to_panels_of[d->isa->level](n, row, to, gap);
            for (int64_t k = 0; k < panels * nr; k++) right = right && to[k / nr * gap + k % nr] == row[k];
            CHECK_MSG(right && edge_kept(1, (panels - 1) * gap + nr), "%s: a row of %d", isa_names[i], (int)n);
        }
        const int64_t at[4] = {2 * nr, 0, 2 * nr, 5}; /* one row twice, two that overlap */
        for (int64_t n = 0; n <= 4; n++) {
            const float *panel = edge(0, n * nr);
            float *y = edge(1, 3 * nr), before[96];
            memcpy(before, y, (size_t)(3 * nr) * sizeof *y);
            for (int64_t k = 0; k < n * nr; k++) before[at[k / nr] + k % nr] += panel[k];
            tp__add_panel_rows_of[d->isa->level](n, panel, at, y);
            CHECK_MSG(same_bits(before, y, 3 * nr) && edge_kept(1, 3 * nr), "%s: %d rows", isa_names[i], (int)n);
        }
        d->close(d);
    }
}
#endif

/* Winograd's form with strides of 2, along one side or both, and in groups. Other tests have such convolutions as direct sums. This test is
 * the last one, so that the others draw the shapes that they drew before. */
TEST(conv_winograd_of_strides_and_groups)
{
    tp_device *d[MAX_DEVICES];
    int n = open_all(d, true), wide = 0, strided = 0, grouped = 0;
    for (int k = 0; k < n; k++) wide += d[k]->isa && tp__wino_in_of[d[k]->isa->level];
    for (int i = 0; i < 60; i++) {
        tp__conv_args a = conv_shape(2 + rnd(6), 8 + rnd(16), 8 + rnd(16), 1, 1, 3, 3, 1, 1, 0, 1 + rnd(3));
        tp_device *those[MAX_DEVICES];
        a.g.C = a.g.groups * (30 + rnd(30)), a.g.O = a.g.groups * (30 + rnd(30));
        if (i % 3 == 2) a.g.dilation_h = 1 + rnd(3), a.g.dilation_w = 1 + rnd(3);
        if (i % 5 > 2) a.g.KH = 3 + rnd(6), a.g.KW = 3 + rnd(6);
        if (i % 2) {
            a.g.KH = 5 + rnd(3), a.g.KW = 5 + rnd(3);
            a.g.stride_h = 1 + rnd(2), a.g.stride_w = a.g.stride_h == 1 ? 2 : 1 + rnd(2);
            if (a.g.stride_h > 1) a.g.dilation_h = 1;
            if (a.g.stride_w > 1) a.g.dilation_w = 1;
        }
        a.g.top = rnd(4), a.g.left = rnd(4);
        a.g.OH = 4 + rnd(a.g.H / a.g.stride_h), a.g.OW = 4 * (a.g.W / a.g.stride_w / 4);
        if (a.g.B * a.g.OH * a.g.OW < 256) a.g.B = 256 / (a.g.OH * a.g.OW) + 1;
        if (i % 4 > 1) a.epilogue.act = TP_EPILOGUE_RELU;
        const int64_t most = a.g.B * (a.g.H * a.g.W > a.g.OH * a.g.OW ? a.g.H * a.g.W : a.g.OH * a.g.OW) *
                             (a.g.C > a.g.O ? a.g.C : a.g.O);
        float *norm = rnd_array(3 * a.g.C, 9), *more = rnd_array(most, 10);
        if (i % 8 > 3 && a.g.groups == 1) a.norm = norm, a.norm_relu = i % 16 > 7;
        for (int adds = 0; adds < 2; adds++) {
            int n_those = 0;
            for (int k = 0; k < n; k++)
                if (d[k]->isa && tp__conv_is_wino(d[k]->isa, &a.g) &&
                    (i % 3 == 0 && tp__conv_adds(d[k], &a.g)) == (adds == 1))
                    those[n_those++] = d[k];
            if (a.g.stride_h > 1 || a.g.stride_w > 1) strided += n_those;
            if (a.g.groups > 1) grouped += n_those;
            a.more = adds ? more : NULL;
            if (n_those) check_conv(&a, those, n_those, thread_counts());
        }
        free(norm), free(more);
    }
    CHECK_MSG(strided >= 3 * wide && grouped >= 3 * wide, "%d with stride and %d in groups, of %d", strided, grouped,
              60 * wide);
    close_all(d, n);
}

/* The product of a 1x1 convolution normalises each chunk of its columns: the bits are those of a batch norm that reads it afterwards, for
 * products of every kind (>>gemm): small ones, even tiles, packed ones, k in parts, along m and along k. */
TEST(products_normalise_their_output)
{
    static const int64_t size[][3] = {/* pixels, channels, filters */
                                      {64, 16, 24},   {900, 40, 600}, {1, 300, 500},   {2000, 64, 1}, {50, 4096, 20},
                                      {1200, 19, 40}, {30, 2500, 7},  {3, 600, 200},   {7, 200, 3},   {500, 600, 700},
                                      {2500, 3, 33},  {100, 1, 16},   {130, 1100, 90}, {17, 5, 2}};
    tp_device *d[MAX_DEVICES];
    const int n = open_all(d, true);
    int normalised = 0;
    for (int i = 0; i < TP_COUNT(size); i++) {
        const int64_t C = size[i][1], O = size[i][2];
        tp__conv_args a = conv_shape(1, size[i][0], 1, C, O, 1, 1, 1, 1, 0, 1);
        float *x = rnd_array(size[i][0] * C, 1), *w = rnd_array(C * O, 2), *norm = rnd_array(4 * O, 3);
        a.x = x, a.w = w;
        if (i % 3 == 0) a.epilogue.bias = norm + 3 * O, a.epilogue.act = TP_EPILOGUE_RELU;
        normalised += check_after(a, d, n, norm, i % 2 != 0);
        free(x), free(w), free(norm);
    }
    CHECK(n == 0 || !d[0]->isa || normalised >= TP_COUNT(size));
    close_all(d, n);
}

TEST_MAIN()
