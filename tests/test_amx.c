/* test_amx.c - the instruction set "amx": products in bf16 tiles. Its instructions are emulated here, bit by bit as the
 * manual writes them down, so that all but their speed is tested on any x86-64. With -DAMX_REAL the processor's own are
 * used, where it has them (tests/check_amx.sh). */
#if defined(__x86_64__) && !defined(AMX_REAL)
#define TP__AMX_EMULATED
#define TP__AMX_CODE
#define TP__TILE_CONFIGURE(shapes_)     amx_configure(shapes_)
#define TP__TILE_RELEASE()              amx_release()
#define TP__TILE_ZERO(t_)               amx_zero(t_)
#define TP__TILE_LOAD(t_, from_, step_) amx_load(t_, from_, step_)
#define TP__TILE_STORE(t_, to_, step_)  amx_store(t_, to_, step_)
#define TP__TILE_PRODUCT(c_, a_, b_)    amx_product(c_, a_, b_)
static void amx_configure(const void *shapes);
static void amx_release(void);
static void amx_zero(int t);
static void amx_load(int t, const void *from, long step);
static void amx_store(int t, void *to, long step);
static void amx_product(int c, int a, int b);
#endif
#define TP_IMPLEMENTATION
#define TP_STATIC /* private functions are tested too */
#include "tp_layers.h"
#include "tp_optim.h"
#include "tp_test.h"

#if defined(__x86_64__)

/* -- the instructions ---------------------------------------------------------------------------------------- */

#ifndef AMX_REAL

typedef struct amx_tile {
    int rows, bytes; /* 0: not configured */
    unsigned char data[16][64];
} amx_tile;
static __thread struct {
    bool on;
    amx_tile tile[8];
} amx;
static long amx_products, amx_configured, amx_released;

static amx_tile *amx_use(int t, int bytes_least)
{
    amx_tile *x = &amx.tile[t];
    CHECK_MSG(amx.on, "tile %d used while none is configured", t);
    CHECK_MSG(x->rows > 0 && x->bytes > 0 && x->bytes >= bytes_least, "tile %d is %d rows of %d bytes", t, x->rows,
              x->bytes);
    return x;
}

static void amx_configure(const void *shapes)
{
    const unsigned char *s = (const unsigned char *)shapes;
    bool reserved = s[1] == 0;
    CHECK_MSG(!amx.on, "configured twice");
    for (int i = 2; i < 16; i++) reserved = reserved && s[i] == 0;
    for (int i = 32; i < 48; i++) reserved = reserved && s[i] == 0;
    for (int i = 56; i < 64; i++) reserved = reserved && s[i] == 0;
    CHECK_MSG(s[0] == 1 && reserved, "palette %d, or something in reserved bytes", s[0]);
    memset(&amx, 0, sizeof amx);
    for (int t = 0; t < 8; t++) {
        amx.tile[t].bytes = s[16 + 2 * t] + 256 * s[17 + 2 * t];
        amx.tile[t].rows = s[48 + t];
        CHECK(amx.tile[t].bytes <= 64 && amx.tile[t].rows <= 16);
    }
    amx.on = true;
    __atomic_add_fetch(&amx_configured, 1, __ATOMIC_RELAXED);
}
static void amx_release(void)
{
    CHECK_MSG(amx.on, "released what is not configured");
    amx.on = false;
    __atomic_add_fetch(&amx_released, 1, __ATOMIC_RELAXED);
}
static void amx_zero(int t) { memset(amx_use(t, 1)->data, 0, sizeof amx.tile[t].data); }
static void amx_load(int t, const void *from, long step)
{
    amx_tile *x = amx_use(t, 1);
    memset(x->data, 0, sizeof x->data);
    for (int i = 0; i < x->rows; i++) memcpy(x->data[i], (const char *)from + i * step, (size_t)x->bytes);
}
static void amx_store(int t, void *to, long step)
{
    const amx_tile *x = amx_use(t, 1);
    for (int i = 0; i < x->rows; i++) memcpy((char *)to + i * step, x->data[i], (size_t)x->bytes);
}

/* Denormals are zero: those of the operands here, those of results because the engine's threads run in that mode. */
static float amx_float(const unsigned char *at)
{
    uint32_t bits = (uint32_t)at[0] << 16 | (uint32_t)at[1] << 24;
    float f;
    if ((bits & 0x7f800000u) == 0) bits &= 0x80000000u;
    memcpy(&f, &bits, 4);
    return f;
}
/* Pairs along k: one sum of the first ones, one of the second ones, then both, then the tile. */
#define AMX_ROW                                                        \
    float even[16] = {0}, odd[16] = {0};                               \
    for (int k = 0; k < pairs; k++)                                    \
        for (int n = 0; n < 16; n++) {                                 \
            even[n] = __builtin_fmaf(a[2 * k], b[k][0][n], even[n]);   \
            odd[n] = __builtin_fmaf(a[2 * k + 1], b[k][1][n], odd[n]); \
        }                                                              \
    for (int n = 0; n < 16; n++) {                                     \
        volatile float both = even[n] + odd[n];                        \
        c[n] += both;                                                  \
    }
static void amx_row(int pairs, const float *a, float (*b)[2][16], float *c) { AMX_ROW }
static __attribute__((target("avx2,fma"))) void amx_row_fma(int pairs, const float *a, float (*b)[2][16], float *c)
{
    AMX_ROW
}
static void amx_product(int c, int a, int b)
{
    const amx_tile *x = amx_use(a, 4), *y = amx_use(b, 4);
    amx_tile *z = amx_use(c, 4);
    const int pairs = x->bytes / 4;
    float f[32], g[16][2][16], sum[16];
    CHECK_MSG(a != b && a != c && b != c, "operands of a product are three tiles");
    CHECK_MSG(x->rows == z->rows && y->bytes == z->bytes && y->rows == pairs && x->bytes % 4 == 0 && y->bytes % 4 == 0,
              "the tiles' shapes do not fit");
    CHECK_MSG((__builtin_ia32_stmxcsr() & 0xe040u) == 0x8040u, "not in the mode that the emulation needs");
    for (int k = 0; k < pairs; k++)
        for (int n = 0; n < 16; n++)
            for (int q = 0; q < 2; q++) g[k][q][n] = amx_float(y->data[k] + 4 * n + 2 * q);
    for (int m = 0; m < x->rows; m++) {
        for (int k = 0; k < 2 * pairs; k++) f[k] = amx_float(x->data[m] + 2 * k);
        memcpy(sum, z->data[m], sizeof sum);
        if (__builtin_cpu_supports("fma")) amx_row_fma(pairs, f, g, sum);
        else amx_row(pairs, f, g, sum);
        memcpy(z->data[m], sum, (size_t)z->bytes);
    }
    __atomic_add_fetch(&amx_products, 1, __ATOMIC_RELAXED);
}

TEST(the_emulation_is_exact)
{
    unsigned char shapes[64] = {1};
    unsigned char a[16][64], b[16][64];
    float c[16][16], want;
    const unsigned mode = tp__float_mode_enter();
    for (int t = 0; t < 3; t++) shapes[16 + 2 * t] = 64, shapes[48 + t] = 16;
    amx_configure(shapes);
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 32; k++) {
            const uint16_t x = tp_f32_to_bf16((float)(i + 1)), y = tp_f32_to_bf16((float)(k % 5 - 2));
            memcpy(a[i] + 2 * k, &x, 2);
            memcpy(b[k / 2] + 4 * i + 2 * (k % 2), &y, 2); /* column i: the same for all */
        }
    amx_zero(0);
    amx_load(1, a, 64);
    amx_load(2, b, 64);
    amx_product(0, 1, 2);
    amx_product(0, 1, 2);
    amx_store(0, c, 64);
    amx_release();
    for (int i = 0; i < 16; i++) {
        want = 0;
        for (int k = 0; k < 32; k++) want += 2 * (float)(i + 1) * (float)(k % 5 - 2);
        for (int j = 0; j < 16; j++) CHECK(c[i][j] == want);
    }
    tp__float_mode_leave(mode);
}

#endif

/* What the tests count: 0 on a real processor, which counts nothing. */
static long products_so_far(void)
{
#ifdef AMX_REAL
    return 0;
#else
    CHECK_MSG(amx_configured == amx_released, "%ld configurations, %ld releases", amx_configured, amx_released);
    return amx_products;
#endif
}

static bool open_both(tp_device **ordinary, tp_device **one, tp_device **three)
{
    *ordinary = tp_cpu_device_new(1, NULL);
    *one = tp_cpu_device_new(1, "amx");
    *three = *one ? tp_cpu_device_new(3, "amx") : NULL;
    if (*one && CHECK(*ordinary && *three)) {
        CHECK_STR(tp_device_isa(*one), "amx");
        CHECK(strcmp(tp_device_isa(*ordinary), "amx") != 0);
        return true;
    }
    CHECK_HAS(tp_last_error(), "instruction set 'amx'");
    if (*ordinary) (*ordinary)->close(*ordinary);
    return false;
}
#define OPEN()                         \
    tp_device *ordinary, *one, *three; \
    if (!open_both(&ordinary, &one, &three)) TEST_SKIP(tp_last_error())
#define CLOSE() ordinary->close(ordinary), one->close(one), three->close(three), (void)products_so_far()

/* -- the three parts of a value ------------------------------------------------------------------------------- */

/* The finite number nearest to x that has 16 bits, of two as near the even one; truncated where that is no finite number. */
static uint32_t nearest_half(uint32_t x)
{
    const uint32_t below = x & 0xffff0000u, low = x & 0xffffu, above = below + 0x10000u;
    const bool up = low > 0x8000u || (low == 0x8000u && (below >> 16 & 1u));
    return up && (above & 0x7f800000u) != 0x7f800000u ? above : below;
}
static float from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* Splits x, which stands among zeros, and checks the parts and what is said of them. */
static void check_split(uint32_t x, int lane)
{
    tp__amx_bits in, part[3], seen[2];
    uint32_t want[3], got[3], said[2] = {0, 0};
    memset(&in, 0, sizeof in);
    memset(seen, 0, sizeof seen);
    in[lane] = x;
    tp__amx_split((const float *)(const void *)&in, part, seen);
    const bool finite = (x & 0x7f800000u) != 0x7f800000u, nan = !finite && (x & 0x7fffffu);
    want[0] = finite ? nearest_half(x) : nan ? (x | 0x400000u) & 0xffff0000u : x;
    want[1] = want[2] = 0;
    if (finite) {
        float rest = from_bits(x) - from_bits(want[0]);
        memcpy(&want[1], &rest, 4);
        want[1] = nearest_half(want[1]);
        rest -= from_bits(want[1]);
        memcpy(&want[2], &rest, 4);
    }
    for (int q = 0; q < 3; q++) {
        got[q] = part[q][lane];
        for (int i = 0; i < 16; i++) CHECK(i == lane || part[q][i] == 0);
        CHECK_MSG(got[q] == want[q] && (got[q] & 0xffffu) == 0, "part %d of %08x is %08x, not %08x", q, (unsigned)x,
                  (unsigned)got[q], (unsigned)want[q]);
    }
    if (finite)
        CHECK((double)from_bits(got[0]) + (double)from_bits(got[1]) + (double)from_bits(got[2]) ==
              (double)from_bits(x));
    for (int i = 0; i < 16; i++) said[0] |= seen[0][i], said[1] |= seen[1][i];
    CHECK_MSG((said[0] != 0) == ((want[1] | want[2]) != 0) && (said[1] != 0) == (!finite && !nan),
              "of %08x it is said: parts %08x, infinite %08x", (unsigned)x, (unsigned)said[0], (unsigned)said[1]);
}
TEST(values_are_split_into_three)
{
    static const uint32_t lows[] = {0,      1,      2,      0x7f,   0x80,   0x81,   0x17f,  0x180,  0x181,
                                    0x183,  0x185,  0x4000, 0x7ffe, 0x7fff, 0x8000, 0x8001, 0x8002, 0x80ff,
                                    0x8100, 0x8101, 0xc000, 0xff7f, 0xff80, 0xff81, 0xfffe, 0xffff};
    static const uint32_t highs[] = {0,      0x3f80, 0x3f81, 0x3f82, 0x3fff, 0x4000, 0x2001, 0x7f00,
                                     0x7f7d, 0x7f7e, 0x7f7f, 0x7f80, 0x7f81, 0x7fbf, 0x7fc0};
    for (int h = 0; h < TP_COUNT(highs); h++)
        for (int l = 0; l < TP_COUNT(lows) && (highs[h] || l == 0); l++)
            for (uint32_t sign = 0; sign < 2; sign++)
                check_split(sign << 31 | highs[h] << 16 | lows[l], (int)((uint32_t)(h + l) + sign) % 16);
}

/* -- numbers ------------------------------------------------------------------------------------------------- */

static uint64_t rnd_state = 1;
static int64_t rnd(int64_t n) /* 0 .. n-1 */
{
    uint32_t r[4];
    tp_philox(78, rnd_state++, 0, r);
    return (int64_t)(r[0] % (uint64_t)n);
}
enum { UNIFORM, POSITIVE, WIDE, BF16, KINDS };
static float *numbers(int64_t n, uint64_t seed, int kind)
{
    float *p = (float *)malloc((size_t)(n + 1) * sizeof *p);
    for (int64_t i = 0; i < n; i++) {
        p[i] = 2 * tp_random_uniform(seed, 0, (uint64_t)i) - 1;
        if (kind == POSITIVE) p[i] = 1 + 0.5f * p[i];
        if (kind == WIDE) p[i] *= ldexpf(1, (int)(20 * tp_random_uniform(seed, 1, (uint64_t)i)) - 10);
        if (kind == BF16) p[i] = tp_bf16_to_f32(tp_f32_to_bf16(p[i]));
    }
    return p;
}

/* Errors against double, relative to the sum of the sizes of what is added: of the tiles and of the ordinary kernel. */
typedef struct errors {
    double squares, worst;
    int64_t n;
} errors;
static void add_errors(errors *e, const float *got, const double *want, const double *size, int64_t n, int64_t ld,
                       int64_t width)
{
    for (int64_t i = 0; i < n; i++) {
        const double d = fabs((double)got[i / width * ld + i % width] - want[i]) / (size[i] + 1e-30);
        e->squares += d * d;
        e->n++;
        if (!(d <= e->worst)) e->worst = d == d ? d : INFINITY;
    }
}
static void report(const char *what, const errors *tiles, const errors *kernel)
{
    const double a = sqrt(tiles->squares / (double)tiles->n), b = sqrt(kernel->squares / (double)kernel->n);
    printf("     %s: error in tiles %.3g (largest %.3g), of the FP32 kernel %.3g (%.3g), %lld values\n", what, a,
           tiles->worst, b, kernel->worst, (long long)tiles->n);
    CHECK_MSG(a <= b, "%s: error %g, the ordinary kernel's is %g", what, a, b);
    CHECK_MSG(tiles->worst <= 1.2 * kernel->worst, "%s: largest error %g, the ordinary kernel's is %g", what,
              tiles->worst, kernel->worst);
}

static bool same_bits(const float *a, const float *b, int64_t n) { return memcmp(a, b, (size_t)n * sizeof *a) == 0; }

/* Run on a device with exactly as much scratch as asked for, poisoned. */
static void gemm_on(tp_device *d, const tp__gemm_args *a)
{
    const size_t size = tp__gemm_scratch(d, a);
    unsigned char *scratch = (unsigned char *)malloc(size + 64);
    memset(scratch, 0xff, size + 64);
    tp__gemm(d, a, scratch);
    for (int i = 0; i < 64; i++) CHECK_MSG(scratch[size + (size_t)i] == 0xff, "scratch overrun");
    free(scratch);
}
static void conv_on(tp_device *d, const tp__conv_args *a, tp__conv_pass what)
{
    const size_t size = tp__convolve_scratch(d, a, what);
    unsigned char *scratch = (unsigned char *)malloc(size + 64);
    memset(scratch, 0xff, size + 64);
    tp__convolve(d, a, what, scratch);
    for (int i = 0; i < 64; i++) CHECK_MSG(scratch[size + (size_t)i] == 0xff, "scratch overrun");
    free(scratch);
}

/* -- products -------------------------------------------------------------------------------------------------- */

static void check_gemm(tp_device *ordinary, tp_device *one, tp_device *three, int64_t M, int64_t N, int64_t K, int bits,
                       int kind, errors *tiles, errors *kernel)
{
    tp__gemm_args a;
    const float rate = 0.25f;
    memset(&a, 0, sizeof a);
    a.ta = bits & 1;
    a.tb = (bits >> 1) & 1;
    a.accumulate = (bits >> 2) & 1;
    a.M = M, a.N = N, a.K = K;
    a.lda = (a.ta ? M : K) + rnd(5);
    a.ldb = (a.tb ? K : N) + rnd(5);
    a.ldc = N + rnd(5);
    const int64_t nc = M * a.ldc;
    float *A = numbers((a.ta ? K : M) * a.lda, 1, kind), *B = numbers((a.tb ? N : K) * a.ldb, 2, kind);
    float *c0 = numbers(nc, 3, kind), *c1 = numbers(nc, 3, kind), *c3 = numbers(nc, 3, kind),
          *bias = numbers(N, 4, kind);
    double *want = (double *)malloc((size_t)(M * N) * sizeof *want), *size = (double *)malloc((size_t)(M * N) * 8);
    a.A = A, a.B = B;
    if ((bits >> 3) & 1) a.epilogue.bias = bias;
    if ((bits >> 4) & 1) a.epilogue.act = TP_EPILOGUE_RELU;
    if (bits >> 5) {
        a.descend = &rate, a.accumulate = false;
        a.epilogue.bias = NULL, a.epilogue.act = 0;
    }
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) {
            const double c = (double)c0[i * a.ldc + j];
            double s = 0, z = fabs(c) + fabs((double)bias[j]);
            for (int64_t k = 0; k < K; k++) {
                const double v = (double)(a.ta ? A[k * a.lda + i] : A[i * a.lda + k]) *
                                 (double)(a.tb ? B[j * a.ldb + k] : B[k * a.ldb + j]);
                s += v;
                z += fabs(v);
            }
            if (a.descend) s = c - (double)rate * s;
            else if (a.accumulate) s += c;
            if (a.epilogue.bias) s += (double)bias[j];
            if (a.epilogue.act && s < 0) s = 0;
            want[i * N + j] = s;
            size[i * N + j] = z;
        }
    const long before = products_so_far();
    a.C = c0;
    gemm_on(ordinary, &a);
    a.C = c1;
    gemm_on(one, &a);
    a.C = c3;
    gemm_on(three, &a);
#ifndef AMX_REAL
    if (M >= 16 && N >= 16 && K >= 32) CHECK(products_so_far() > before || (a.descend && K > TP__WHOLE_SUM));
#endif
    (void)before;
    CHECK_MSG(same_bits(c1, c3, nc), "%dx%dx%d bits %d: the bits depend on the threads", (int)M, (int)N, (int)K, bits);
    errors e = {0, 0, 0};
    add_errors(&e, c1, want, size, M * N, a.ldc, N);
    CHECK_MSG(e.worst <= 2e-6, "%dx%dx%d bits %d numbers %d: error %g", (int)M, (int)N, (int)K, bits, kind, e.worst);
    add_errors(tiles, c1, want, size, M * N, a.ldc, N);
    add_errors(kernel, c0, want, size, M * N, a.ldc, N);
    free(A), free(B), free(c0), free(c1), free(c3), free(bias), free(want), free(size);
}

TEST(products_are_as_exact_as_without_tiles)
{
    OPEN();
    static const char *const name[KINDS] = {"products, -1..1", "products, 0.5..1.5", "products, 2^-10..2^10",
                                            "products, of bf16"};
    static const int shape[][3] = {{17, 20, 2100}, {64, 64, 64},  {16, 16, 32},   {33, 47, 65},   {100, 30, 1000},
                                   {20, 300, 520}, {256, 16, 96}, {17, 100, 513}, {288, 32, 3000}};
    const bool quick = getenv("TP_TEST_QUICK") != NULL; /* one way of transposing for each shape and kind */
    for (int kind = 0; kind < KINDS; kind++) {
        errors tiles = {0, 0, 0}, kernel = {0, 0, 0};
        for (int i = 0; i < TP_COUNT(shape) - (quick ? 4 : 0); i++)
            for (int bits = quick ? (i + kind) % 4 : 0; bits < 4; bits += quick ? 4 : 1)
                check_gemm(ordinary, one, three, shape[i][0], shape[i][1], shape[i][2], bits, kind, &tiles, &kernel);
        report(name[kind], &tiles, &kernel);
    }
    CLOSE();
}

TEST(products_of_random_shapes)
{
    OPEN();
    errors tiles = {0, 0, 0}, kernel = {0, 0, 0};
    const int n = getenv("TP_TEST_QUICK") ? 30 : 150;
    for (int i = 0; i < n; i++) {
        const int64_t most = i % 3 ? 90 : 40;
        check_gemm(ordinary, one, three, 1 + rnd(most), 1 + rnd(most), rnd(i % 5 ? 150 : 700), (int)rnd(64), UNIFORM,
                   &tiles, &kernel);
    }
    report("products of random shapes", &tiles, &kernel);
    CLOSE();
}

/* A panel of bf16 leaves out five products of six, and that changes no bit: row 1 makes the second panel a float one. */
TEST(what_is_left_out_changes_no_bit)
{
    OPEN();
    enum { M = 32, N = 48, K = 200 };
    float *A = numbers(M * K, 1, BF16), *B = numbers(K * N, 2, BF16), *c = numbers(M * N, 3, UNIFORM);
    float *d = numbers(M * N, 3, UNIFORM);
    tp__gemm_args a;
    memset(&a, 0, sizeof a);
    a.M = M, a.N = N, a.K = K;
    a.A = A, a.B = B, a.C = c;
    a.lda = K, a.ldb = a.ldc = N;
    const long t0 = products_so_far();
    gemm_on(one, &a);
    const long t1 = products_so_far();
    A[K + 5] += 1e-4f;
    B[7] += 1e-4f;
    a.C = d;
    gemm_on(one, &a);
    const long t2 = products_so_far();
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            if (i != 1 && j != 7) CHECK(c[i * N + j] == d[i * N + j]);
#ifndef AMX_REAL
    /* 7 steps; 2 by 3 tiles; the second panel of B is bf16 still, so that 3 of its products are left */
    CHECK_MSG(t1 - t0 == 7 * 6 && t2 - t1 == 7 * (4 * 6 + 2 * 3), "%ld and %ld", t1 - t0, t2 - t1);
#endif
    (void)t0, (void)t1, (void)t2;
    free(A), free(B), free(c), free(d);
    CLOSE();
}

TEST(what_is_not_finite)
{
    OPEN();
    enum { M = 40, N = 40, K = 64 };
    float *A = numbers(M * K, 1, UNIFORM), *B = numbers(K * N, 2, UNIFORM), *c = numbers(M * N, 3, UNIFORM);
    float *d = numbers(M * N, 3, UNIFORM);
    tp__gemm_args a;
    memset(&a, 0, sizeof a);
    a.M = M, a.N = N, a.K = K;
    a.A = A, a.B = B;
    a.lda = K, a.ldb = a.ldc = N;
    A[3 * K + 1] = INFINITY;
    A[4 * K + 2] = NAN;
    uint32_t low_nan = 0x7f800001u; /* a NaN whose upper half is infinity's */
    memcpy(&A[5 * K + 2], &low_nan, 4);
    A[6 * K + 7] = FLT_MAX; /* would round to infinity */
    A[7 * K + 7] = -FLT_MAX;
    A[38 * K] = 1e-40f; /* zero */
    B[1 * N + 2] = 0;
    B[1 * N + 3] = 1; /* one part only: its other parts are zero */
    B[7 * N + 5] = 0.5f;
    for (int step = 0; step < 2; step++) {
        a.C = c;
        gemm_on(ordinary, &a);
        a.C = d;
        gemm_on(one, &a);
        for (int i = 0; i < M * N; i++) {
            if (c[i] != c[i]) CHECK_MSG(d[i] != d[i], "%d,%d: %g, NaN without tiles", i / N, i % N, (double)d[i]);
            else if (isinf(c[i]))
                CHECK_MSG(d[i] == c[i], "%d,%d: %g, not %g", i / N, i % N, (double)d[i], (double)c[i]);
            else CHECK_NEAR((double)d[i], (double)c[i], 1e-5, 1e-5);
        }
        A[3 * K + 1] = 0; /* without infinities the tiles do it */
    }
    free(A), free(B), free(c), free(d);
    CLOSE();
}

/* -- convolutions ------------------------------------------------------------------------------------------------ */

static tp__conv_args conv_shape(int64_t B, int64_t H, int64_t W, int64_t C, int64_t O, int64_t KH, int64_t KW,
                                int64_t stride, int64_t dilation, int64_t pad, int64_t groups)
{
    tp__conv_args a;
    memset(&a, 0, sizeof a);
    a.g.B = B, a.g.H = H, a.g.W = W, a.g.C = C, a.g.O = O, a.g.KH = KH, a.g.KW = KW;
    a.g.stride_h = a.g.stride_w = stride;
    a.g.dilation_h = a.g.dilation_w = dilation;
    a.g.top = a.g.left = pad;
    a.g.groups = groups;
    a.g.OH = (H + 2 * pad - (KH - 1) * dilation - 1) / stride + 1;
    a.g.OW = (W + 2 * pad - (KW - 1) * dilation - 1) / stride + 1;
    return a;
}

static void conv_reference(const tp__conv_args *a, const float *x, double *want[3], double *size[3])
{
    const int64_t cg = a->g.C / a->g.groups, og = a->g.O / a->g.groups;
    for (int64_t i = 0; i < a->g.B * a->g.OH * a->g.OW * a->g.KH * a->g.KW; i++) {
        const int64_t s = i % a->g.KW, r = i / a->g.KW % a->g.KH, q = i / a->g.KW / a->g.KH % a->g.OW;
        const int64_t p = i / a->g.KW / a->g.KH / a->g.OW % a->g.OH, b = i / a->g.KW / a->g.KH / a->g.OW / a->g.OH;
        const int64_t h = p * a->g.stride_h + r * a->g.dilation_h - a->g.top;
        const int64_t v = q * a->g.stride_w + s * a->g.dilation_w - a->g.left;
        if (h < 0 || h >= a->g.H || v < 0 || v >= a->g.W) continue;
        for (int64_t c = 0; c < cg; c++)
            for (int64_t o = 0; o < a->g.O; o++) {
                const int64_t at[3] = {((b * a->g.OH + p) * a->g.OW + q) * a->g.O + o,
                                       ((b * a->g.H + h) * a->g.W + v) * a->g.C + o / og * cg + c,
                                       ((r * a->g.KW + s) * cg + c) * a->g.O + o};
                const double y = (double)a->dy[at[0]], z = (double)x[at[1]], w = (double)a->w[at[2]];
                const double term[3] = {z * w, y * w, z * y};
                for (int k = 0; k < 3; k++) {
                    want[k][at[k]] += term[k];
                    size[k][at[k]] += fabs(term[k]);
                }
            }
    }
    for (int k = 0; k < 2; k++) { /* y and dx */
        const int64_t channels = k ? a->g.C : a->g.O,
                      n = k ? a->g.B * a->g.H * a->g.W * channels : a->g.B * a->g.OH * a->g.OW * channels;
        for (int64_t i = 0; i < n; i++) {
            if (a->epilogue.bias) want[k][i] += (double)a->epilogue.bias[i % channels];
            if (a->epilogue.act && want[k][i] < 0) want[k][i] = 0;
        }
    }
}

/* Returns how many of the three went through tiles. */
static int check_conv(tp_device *ordinary, tp_device *one, tp_device *three, const tp__conv_args *shape, int epilogue,
                      bool norm, errors *tiles, errors *kernel)
{
    tp__conv_args a = *shape;
    const int64_t n[3] = {a.g.B * a.g.OH * a.g.OW * a.g.O, a.g.B * a.g.H * a.g.W * a.g.C,
                          a.g.KH * a.g.KW * a.g.C / a.g.groups * a.g.O};
    float *x = numbers(n[1], 5, UNIFORM), *w = numbers(n[2], 6, UNIFORM), *dy = numbers(n[0], 7, UNIFORM);
    float *bias = numbers(a.g.O > a.g.C ? a.g.O : a.g.C, 8, UNIFORM), *bn = numbers(3 * a.g.C, 9, UNIFORM),
          *seen = numbers(n[1], 5, UNIFORM);
    double *want[3], *size[3];
    int through = 0;
    a.x = x, a.w = w, a.dy = dy;
    if (epilogue & 1) a.epilogue.bias = bias;
    if (epilogue & 2) a.epilogue.act = TP_EPILOGUE_RELU;
    for (int64_t i = 0; i < n[1] && norm; i++) {
        const float v = fmaf(x[i] - bn[i % a.g.C], bn[a.g.C + i % a.g.C], bn[2 * a.g.C + i % a.g.C]);
        seen[i] = v > 0 ? v : 0;
    }
    for (int k = 0; k < 3; k++) {
        want[k] = (double *)calloc((size_t)n[k] + 1, sizeof(double));
        size[k] = (double *)calloc((size_t)n[k] + 1, sizeof(double));
    }
    conv_reference(&a, seen, want, size);
    for (int k = 0; k < 3; k++) {
        float *c[3];
        tp_device *d[3];
        d[0] = ordinary, d[1] = one, d[2] = three;
        a.norm = norm && k != 1 ? bn : NULL;
        a.norm_relu = true;
        const long before = products_so_far();
        for (int q = 0; q < 3; q++) {
            c[q] = (float *)malloc((size_t)(n[k] + 1) * sizeof(float));
            memset(c[q], 0xff, (size_t)(n[k] + 1) * sizeof(float));
            a.y = a.dx = a.dw = c[q];
            conv_on(d[q], &a, (tp__conv_pass)k);
            CHECK(c[q][n[k]] != c[q][n[k]]);
        }
        CHECK_MSG(same_bits(c[1], c[2], n[k]), "%d: the bits depend on the threads", k);
        if (products_so_far() > before) {
            errors e = {0, 0, 0};
            through++;
            add_errors(&e, c[1], want[k], size[k], n[k], n[k], n[k]);
            CHECK_MSG(e.worst <= 2e-6, "%d: B%d %dx%dx%d O%d K%dx%d s%d d%d p%d g%d: error %g", k, (int)a.g.B,
                      (int)a.g.H, (int)a.g.W, (int)a.g.C, (int)a.g.O, (int)a.g.KH, (int)a.g.KW, (int)a.g.stride_h,
                      (int)a.g.dilation_h, (int)a.g.top, (int)a.g.groups, e.worst);
            add_errors(tiles, c[1], want[k], size[k], n[k], n[k], n[k]);
            add_errors(kernel, c[0], want[k], size[k], n[k], n[k], n[k]);
        }
        for (int q = 0; q < 3; q++) free(c[q]);
        free(want[k]), free(size[k]);
    }
    free(x), free(w), free(dy), free(bias), free(bn), free(seen);
    return through;
}

TEST(convolutions_are_as_exact_as_without_tiles)
{
    OPEN();
    /* the last number: how many of the three are large enough for tiles */
    static const struct {
        int B, H, W, C, O, KH, KW, stride, dilation, pad, groups, through;
    } s[] = {{2, 9, 9, 20, 36, 3, 3, 1, 1, 1, 1, 3},   {1, 8, 8, 128, 128, 3, 3, 1, 1, 1, 1, 3},
             {2, 12, 12, 32, 48, 3, 3, 2, 1, 1, 1, 3}, {2, 10, 10, 32, 32, 1, 1, 1, 1, 0, 1, 3},
             {2, 14, 14, 3, 64, 7, 7, 2, 1, 3, 1, 2},  {1, 12, 12, 40, 40, 3, 3, 1, 2, 2, 2, 3},
             {1, 30, 30, 24, 17, 2, 7, 1, 1, 0, 1, 3}, {3, 16, 16, 16, 16, 3, 3, 1, 1, 1, 1, 0},
             {2, 8, 8, 32, 32, 3, 3, 1, 1, 1, 32, 0},  {3, 9, 11, 18, 20, 2, 3, 1, 1, 0, 1, 3},
             {1, 4, 5, 16, 300, 2, 3, 1, 1, 1, 1, 2}};
    const bool quick = getenv("TP_TEST_QUICK") != NULL;
    errors tiles = {0, 0, 0}, kernel = {0, 0, 0};
    for (int i = 0; i < TP_COUNT(s); i++) {
        if (quick && s[i].H * s[i].W * s[i].C * s[i].O > 100000) continue;
        const tp__conv_args a = conv_shape(s[i].B, s[i].H, s[i].W, s[i].C, s[i].O, s[i].KH, s[i].KW, s[i].stride,
                                           s[i].dilation, s[i].pad, s[i].groups);
        const int through = check_conv(ordinary, one, three, &a, i % 4, false, &tiles, &kernel);
#ifndef AMX_REAL
        CHECK_MSG(through == s[i].through, "shape %d: %d of 3 went through tiles", i, through);
        if (s[i].through && s[i].groups == 1 && s[i].KH > 1)
            check_conv(ordinary, one, three, &a, i % 4, true, &tiles, &kernel);
#endif
        (void)through;
    }
#ifndef AMX_REAL
    report("convolutions", &tiles, &kernel);
#endif
    CLOSE();
}

TEST(convolutions_of_random_shapes)
{
    OPEN();
    errors tiles = {0, 0, 0}, kernel = {0, 0, 0};
    const int n = getenv("TP_TEST_QUICK") ? 12 : 60;
    for (int i = 0; i < n; i++) {
        const int64_t g = i % 4 ? 1 : 2;
        tp__conv_args a = conv_shape(1 + rnd(3), 3 + rnd(9), 3 + rnd(9), g * (1 + rnd(40)), g * (1 + rnd(40)),
                                     1 + rnd(4), 1 + rnd(4), 1, 1, 0, g);
        a.g.stride_h = 1 + rnd(2), a.g.stride_w = 1 + rnd(3);
        a.g.dilation_h = 1 + rnd(2), a.g.dilation_w = 1 + rnd(2);
        a.g.top = rnd(4), a.g.left = rnd(4);
        a.g.OH = 1 + rnd((a.g.H + 6) / a.g.stride_h + 1);
        a.g.OW = 1 + rnd((a.g.W + 6) / a.g.stride_w + 1);
        check_conv(ordinary, one, three, &a, i % 4, false, &tiles, &kernel);
    }
#ifndef AMX_REAL
    report("convolutions of random shapes", &tiles, &kernel);
#endif
    CLOSE();
}

/* -- a network ------------------------------------------------------------------------------------------------- */

#ifndef __cplusplus /* which has no keyword arguments */

/* The costs of some steps on an instruction set; returns how many products of tiles they took. */
static long train(const char *isa, tp_precision precision, int threads, double *cost, int steps)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 8, 8, 3));
    tp_node *labels = tp_placeholder(g, "labels", TP_I32, tp_make_shape(TP_ANY));
    tp_tower_desc d;
    memset(&d, 0, sizeof d);
    d.is_training = true;
    tp_tower_enter(g, &d);
    tp_node *l = tp_conv2d(x, "conv0", .filters = 20, .kernel_size = 3, .activation = tp_relu);
    l = tp_relu(tp_batch_norm(tp_conv2d(l, "conv1", .filters = 24, .kernel_size = 3, .strides = 2), "bn1"));
    l = tp_fully_connected(l, "fc0", .units = 32, .activation = tp_relu);
    l = tp_fully_connected(l, "fc1", .units = 4);
    tp_node *loss = tp_mean(tp_sparse_softmax_cross_entropy(l, labels));
    int n_var = 0;
    tp_node *const *vars = tp_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n_var);
    tp_grad_var gv[32];
    tp_optimizer *o = tp_momentum(tp_get_scalar_variable(g, "learning_rate", 0.02f));
    tp_optimizer_compute_gradients(o, loss, vars, n_var, gv);
    tp_node *step = tp_apply_gradients(o, gv, n_var);
    tp_tower_leave(g);
    CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
    tp_session_config c = tp_default_session_config();
    c.precision = precision;
    c.threads = threads;
    if (isa) setenv("TP_ISA", isa, 1);
    tp_session *s = tp_session_new(g, &c);
    unsetenv("TP_ISA");
    const long before = products_so_far();
    tp_feed feed[2];
    memset(feed, 0, sizeof feed);
    feed[0].node = x, feed[1].node = labels;
    if (CHECK_MSG(s != NULL, "%s", tp_last_error()) &&
        CHECK_OK(tp_tensor_resize(&feed[0].value, TP_F32, tp_make_shape(24, 8, 8, 3))) &&
        CHECK_OK(tp_tensor_resize(&feed[1].value, TP_I32, tp_make_shape(24)))) {
        for (int i = 0; i < 24 * 192; i++)
            ((float *)feed[0].value.data)[i] = 2 * tp_random_uniform(3, 7, (uint64_t)i) - 1;
        for (int i = 0; i < 24; i++) ((int32_t *)feed[1].value.data)[i] = i % 4;
        for (int i = 0; i < steps; i++) {
            tp_node *fetch[2] = {loss, step};
            const tp_tensor *v[2];
            if (!CHECK_OK(tp_session_run(s, feed, 2, fetch, 2, v))) break;
            cost[i] = tp_tensor_get(v[0], 0);
        }
    }
    tp_tensor_free(&feed[0].value);
    tp_tensor_free(&feed[1].value);
    tp_session_free(s);
    tp_graph_free(g);
    return products_so_far() - before;
}

TEST(a_network_trains_as_without_tiles)
{
    OPEN();
    CLOSE();
    enum { MOST = 12 };
    const bool quick = getenv("TP_TEST_QUICK") != NULL;
    const int steps = quick ? 4 : MOST;
    double cost[3][MOST] = {{0}}, half[2][MOST] = {{0}};
    CHECK(train(NULL, TP_PRECISION_F32, 1, cost[0], steps) == 0);
    const long single = train("amx", TP_PRECISION_F32, 1, cost[1], steps);
    train("amx", TP_PRECISION_F32, 3, cost[2], steps);
    CHECK(memcmp(cost[1], cost[2], sizeof cost[1]) == 0);
    for (int i = 0; i < steps; i++) CHECK_NEAR(cost[1][i], cost[0][i], 2e-4, 2e-4);
    CHECK(cost[1][steps - 1] < (quick ? 0.95 : 0.8) * cost[1][0]);
    train(NULL, TP_PRECISION_BF16, 1, half[0], steps);
    const long mixed = train("amx", TP_PRECISION_BF16, 1, half[1], steps);
    for (int i = 0; i < steps; i++) CHECK_NEAR(half[1][i], half[0][i], 0.05, 0.05);
    printf("     cost %.6f -> %.6f (without tiles %.6f), bf16 %.4f (%.4f); products of tiles %ld, bf16 %ld\n",
           cost[1][0], cost[1][steps - 1], cost[0][steps - 1], half[1][steps - 1], half[0][steps - 1], single, mixed);
#ifndef AMX_REAL
    CHECK(single > 0 && mixed * 6 == single);
#endif
}

#endif /* __cplusplus */

/* What has no products has the bits of the best instruction set. */
TEST(what_is_no_product_is_computed_as_without_tiles)
{
    OPEN();
    CLOSE();
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_rand_uniform(g, tp_make_shape(3, 1007), -1, 1),
            *gamma = tp_rand_uniform(g, tp_make_shape(1007), 1, 2);
    tp_node *y = tp_nn_layer_norm(x, gamma, gamma, 1e-5f); /* AVX-512 adds up in another order than AVX2 */
    float bits[2][3 * 1007] = {{0}};
    for (int i = 0; i < 2; i++) {
        const tp_tensor *v;
        if (i) setenv("TP_ISA", "amx", 1);
        tp_session *s = tp_session_new(g, NULL);
        unsetenv("TP_ISA");
        if (CHECK(s != NULL) && CHECK_OK(tp_session_run(s, NULL, 0, &y, 1, &v)))
            memcpy(bits[i], v->data, sizeof bits[i]);
        tp_session_free(s);
    }
    CHECK(bits[0][0] != 0 && same_bits(bits[0], bits[1], 3 * 1007));
    tp_graph_free(g);
}

#else
TEST(amx_is_for_x86) { TEST_SKIP("not an x86-64"); }
#endif

TEST(amx_is_asked_for_by_name)
{
    tp_device *d = tp_cpu_device_new(1, "amx");
    if (d) {
        CHECK_STR(tp_device_isa(d), "amx");
        d->close(d);
    } else CHECK_HAS(tp_last_error(), "instruction set 'amx': ");
    CHECK(tp_cpu_device_new(1, "amx2") == NULL);
    CHECK_HAS(tp_last_error(), "unknown");
}

TEST_MAIN()
