/* tp_fast.h - v0.1 - everything that is fast on the CPU: vector instructions, matrix products, convolutions, kernels of ops
 *
 * Do this:
 *     Copy this file beside tp_tensor.h. That is all: the implementations of tp_tensor.h and tp_graph.h include it when they
 *     are compiled with gcc or clang and without TP_NAIVE. A program that includes this file itself gets only tp_tensor.h.
 *
 * WHAT THIS IS       fast versions of the naive loops in tp_tensor.h and on tp_graph.h's op pages, as tp_cuda.cu has them for a
 *                    GPU. Without this file every program compiles, runs and trains in the same way, but slowly: a step of a
 *                    convnet takes about 100 times as long. The first session then logs a sentence about it.
 * WHAT THIS IS NOT   a definition: the naive loop defines what an op computes, and tests compare the two. Nothing here is
 *                    public; a program calls the builders of tp_graph.h.
 *
 * A COMPLETE PROGRAM
 *     #define TP_IMPLEMENTATION
 *     #include "tp_tensor.h"
 *     int main(void)
 *     {
 *         tp_device *d = tp_cpu_device_new(1, NULL); // NULL: the best instruction set of this processor
 *         if (!d) return puts(tp_last_error()), 1;
 *         puts(tp_device_isa(d)); // "avx512", say; "naive" without this file
 *         d->close(d);
 *         return 0;
 *     }
 *
 * CONTENTS   engine, included by tp_tensor.h: >>tile >>pack >>gemm >>conv >>amx >>entries
 *            kernels, compiled once for each instruction set: >>isa
 *            ops, included by tp_graph.h: >>fast_ops, with a part for each op: >>fast reduce, >>fast add_n, >>fast l2_loss, move,
 *            assign_add, resize, bilinear_sampler, pad, gather_grad, matmul, conv2d, bias_add, max_pool, batch_norm, layer_norm,
 *            group_norm, softmax, top_k, lstm, gru, attention, dropout, apply_adam
 *
 * OPTIONS (define before the include of tp_tensor.h)
 *     TP_NAIVE                  this file is not included
 *     TP_NO_WINOGRAD            convolutions as direct sums only: slower, but with less rounding error (>>conv), and a NaN does not
 *                               spread within a tile
 *     TP_NO_AMX                 without the instruction set "amx", which is used only if it is chosen by name
 * At run time the instruction set can be chosen by name: the argument of tp_cpu_device_new, .isa of tp_session_config, or the
 * environment variable TP_ISA: naive, sse2, avx2, avx512, amx (neon on AArch64, generic elsewhere).
 *
 * HOW IT WORKS
 *   Instruction sets.  The kernels are written once, in section >>isa, with the vector types of gcc and clang. Section >>tile
 *     includes that section once for each instruction set, between pragmas that enable the instructions, with a different
 *     vector width each time. So plain `gcc -O2` gives a program with all of them. tp__isa_choose detects which ones the
 *     processor can run; the result is a table of functions, struct tp__isa, in d->isa. NULL means: the naive loops. Kernels
 *     that few ops need are not in that table but in separate tables by level (tp__lstm_cell_of[isa->level]), so that a
 *     linker with --gc-sections drops them from programs without these ops.
 *   The register tile.  Products and convolutions use one kernel: some rows times two vectors of columns, summed
 *     over k in registers (tp__tile, tp__run_tile). They differ only in the pointers that they pass to the kernel:
 *       GEMM              rows are rows of A, in place or packed; columns come from packed panels of B        (>>gemm)
 *       convolution       a row is an output pixel; k runs over the window, which is a few contiguous
 *                         stretches of a zero-padded copy of some input rows: there is no im2col matrix. If there are
 *                         images enough, a tile's rows are one pixel of several images, read in place        (>>conv)
 *       input gradient    as the convolution, but over dy, once for each phase of the stride
 *       filter gradient   a row is a weight; k runs over the pixels
 *     A product's vectors run along n, m or k, whichever leaves the fewest lanes empty (tp__gemm_along). Small products, and others
 *     that pack neither operand, use even tiles: rows equally far apart, the last columns by masks (tp__even).
 *     A convolution with few output channels, or few in a group, turns the source into a plane for each channel: then the tile's
 *     rows are the output channels and its columns positions (tp__gather_in_planes). Winograd's transformation, vectors along the
 *     channels of all groups (as in depthwise convolutions) and AMX (>>amx) replace the tile where they are faster.
 *   Ops.  The kernel of an op (>>fast_ops) cuts its work into chunks for the threads and calls the kernels above for each chunk.
 *     The op's row in the op table has a pointer to the kernel, tp__<op>_fast; without this file the macro TP__IF_FAST leaves
 *     NULL in the row, and the executor calls the row's naive loop.
 *   Scratch.  A kernel states its scratch memory before the run: one function carves pointers out of a block, or, without a
 *     block, computes the size (tp__carve). The planner puts that block into the plan's arena, so a run allocates nothing.
 *   Same bits.  Which numbers are summed together, and in which order, depends on the shape and the instruction set, never on
 *     the number of threads (which some blocks depend on). Threads take chunks of the output in any order; one thread computes
 *     each chunk. Where k itself is divided, at most TP__PARTS partial sums are added in a fixed tree. Two instruction sets may
 *     differ in the last bits.
 */
#if defined(TP__FAST_ENGINE) && !defined(TP__ISA_SUFFIX) /* tp_tensor.h includes this part once */

/* ==== >>tile: instruction sets and the register tile ================================================== */

#define TP__MAX_ROWS 14

/* A stretch of `len` consecutive values of k (the index that a matrix product sums over), the first at offset `at` from
 * a row's pointer. */
typedef struct tp__run {
    int64_t at, len;
    int64_t skip; /* B's rows are ldb floats apart within a run; before the next run's first row are so many more */
} tp__run;

/* One register tile of a product: c[i][0..n) (+)= sum over k of a[i][k] b[k][0..n) for i < m. The values of k are in
 * runs: a[i][run.at + step * 0..len); there is at least one run. b has one row for each k of all runs, ldb floats apart.
 * Pointers beyond m repeat the last row, so that a kernel with more rows may read and write that row again. */
typedef struct tp__tile {
    const float *a[TP__MAX_ROWS];
    float *c[TP__MAX_ROWS + 1];
    const tp__run *run;
    int n_run, m, n;
    int64_t step, ldb;
    const float *b, *bias;
    const float *prefetch; /* data to prefetch for a later tile: m floats for each step of k; NULL: none */
    bool add, scaled;
    float ceiling;        /* more than 0: a ReLU, whose results are at most this (tp__ceiling) */
    float scale;          /* if `scaled`: the sums are multiplied by scale before anything is added */
    int64_t a_gap, c_gap; /* even tiles only: row i of A begins at a[0] + i a_gap, row i of C at c[0] + i c_gap */
    float *panel;         /* tile_pack only: where the rows of B that it reads become a panel */
} tp__tile;
#define TP__PACK_AHEAD 8  /* rows of B that a tile which packs B prefetches ahead */
#define TP__MAX_EVEN   16 /* rows of the largest even tile, a tile whose rows are equally far apart */

/* One of Winograd's forms (>>conv winograd): F(edge x edge, taps x taps). */
#define TP__WINO_TAPS 25 /* taps x taps at most */
typedef struct tp__wino_form {
    int size; /* along a side of a transformed tile: edge + taps - 1, 6 or 8 */
    int edge; /* positions of the result along a side of a tile */
    int taps; /* along a side of a block of the filter */
} tp__wino_form;

/* Computes even tiles (rows equally far apart) one after another: c[i] (+)= sum over k < K of a[i a_gap + k step] b[k
 * ldb], then the bias of each column, if any, and the ReLU. */
typedef struct tp__even {
    const float *a, *b;
    float *c;
    int64_t K, a_gap, step, ldb, c_gap;
    bool add;
    float ceiling;
    const float *bias;
    /* the panel of B that is read after this one: each tile prefetches K floats of it for a row; NULL: it prefetches rows of A */
    const float *next;
} tp__even;

/* Vectors of batch normalisation, with one value for each of C channels (the last axis): y = (x - mean) scale + beta,
 * then an optional ReLU; backward dx = scale (dy - c1 - (x - mean) c2). With the ReLU, dy is taken as 0 where y is not
 * positive. With `scaled`, c1 and c2 hold the factor scale already: dx = scale dy - c1 - (x - mean) c2. */
typedef struct tp__bn {
    int64_t C;
    int64_t row_step; /* floats from one row to the next, where only some channels of wider rows are normalised; 0: C */
    const float *mean, *scale, *beta, *c1, *c2;
    bool relu, scaled;
} tp__bn;

/* One row of a convolution whose groups have few channels; vectors run along the channels of y. y[pixel][group out + o] = sum over
 * taps and j < in of x[tap][pixel][group in + j] w[tap][j][group out + o]. The gradient by w adds the products of x and dy to dw. */
typedef struct tp__source {
    int64_t x, w; /* offset in x of the value that the tap reads for pixel 0; offset of its weights in w and dw */
    int64_t first,
        last; /* the tap reads x for the pixels first <= pixel < last; for others it is outside of the image */
} tp__source;
typedef struct tp__taps {
    int64_t channels, in, out;      /* numbers of channels: of y, of a group in x, of a group in y */
    int64_t c;                      /* the first channel of y to compute, the first of a group */
    int64_t pixels, x_step, y_step; /* number of pixels; floats from one pixel to the next in x and in y */
    int64_t first,
        last; /* all taps read x for the pixels first <= pixel < last; only the filter gradient's kernel reads these two */
    int n_tap;
    const tp__source *tap;
    const float *x, *w;
    float *y;        /* the forward pass writes y; the gradient does not use y, w, bias and ceiling */
    const float *dy; /* gradient of y, from which dw is computed */
    float *dw;       /* filter gradient; the kernel adds to the values that dw has */
    const float *bias;
    float ceiling;
} tp__taps;

#define TP__EVEN_NEAR 128 /* largest K for which a strip of B and a transposed A's values for two tiles fit into L1 */
#define TP__DOTS      16
#define TP__FEW       4 /* with more output channels, convolutions make vectors of these */

/* The functions of an instruction set; defined in the section that is compiled once for each set (>>isa). */
struct tp__isa {
    char name[8];
    /* level 0 is the compiler's default target, a larger level has wider vectors. The level is the index into the tables
     * of kernels that few ops need */
    int level;
    /* vw: floats in a vector; mr: rows of the largest register tile. A tile has one or two vectors of columns, or three (tile3) */
    int vw, mr;
    /* kernels of register tiles, indexed by [vectors of columns - 1][rows]; NULL: use the kernel with the next larger
     * number of rows */
    void (*tile[2][TP__MAX_ROWS + 1])(const tp__tile *t);
    /* tile of three vectors of columns and up to mr rows, which is not scaled; NULL: there is no such kernel */
    void (*tile3)(const tp__tile *t);
    /* kernels of even tiles with one vector of columns, indexed by the number of rows; NULL: there is no such kernel */
    void (*even[TP__MAX_EVEN + 1])(const tp__tile *t);
    /* tile of mr rows and two vectors of columns that reads B in place and packs it */
    void (*tile_pack)(const tp__tile *t);
    /* functions that pack a matrix: transposed; as a panel of B, padded to whole vectors; as tiles of rows of a
     * transposed A */
    void (*transpose)(float *dst, int64_t ldd, int64_t room, const float *src, int64_t lds, int64_t rows,
                      int64_t columns);
    void (*panel)(float *dst, int64_t ldd, const float *src, int64_t lds, int64_t rows, int64_t columns);
    void (*tiles)(float *dst, int64_t K, int64_t k0, int64_t n, const float *src, int64_t lds, int64_t rows);
    void (*row)(tp__tile *t, int64_t n); /* computes a tile of one row and n columns */
    /* computes the dot products of m <= 4 rows of a with n rows of b, K values each; rows are lda and ldb floats apart;
     * result: out[m][TP__DOTS], n <= TP__DOTS */
    void (*dots)(int64_t K, const float *a, int64_t lda, int m, const float *b, int64_t ldb, int64_t n, float *out);
    void (*descend)(const tp__even *t, int64_t rows, int64_t n, float rate);
    float (*sum)(int64_t n, const float *x);
    float (*dot)(int64_t n, const float *x, const float *y);
    float (*max)(int64_t n, const float *x);
    float (*min)(int64_t n, const float *x);
    /* the same of each of `rows` rows of n elements that follow each other */
    void (*sums)(int64_t rows, int64_t n, const float *x, float *y);
    void (*maxima)(int64_t rows, int64_t n, const float *x, float *y);
    void (*minima)(int64_t rows, int64_t n, const float *x, float *y);
};

/* Number of rows of the next register tile when `left` rows remain: full tiles, and at the end two tiles of equal height
 * instead of a full one and a very small one. */
static int tp__tile_rows(int64_t left, int mr)
{
    if (left >= 2 * mr || left == mr) return mr;
    return (int)(left < mr ? left : (left + 1) / 2);
}

/* TP__PRODUCT(a * b) is rounded before anything is added to it; gcc would fuse product and sum under -std=gnu11. TP__VPRODUCT
 * does this for vectors, to which gcc 12 would apply __builtin_assoc_barrier element by element. clang needs TP__VPRODUCT, too,
 * since no macro tells whether -ffp-contract=fast is on. */
#if defined(__SSE2__)
#define TP__VPRODUCT(x_)          \
    __extension__({               \
        __typeof__(x_) t_ = (x_); \
        __asm__("" : "+v"(t_));   \
        t_;                       \
    })
#elif defined(__aarch64__)
#define TP__VPRODUCT(x_)          \
    __extension__({               \
        __typeof__(x_) t_ = (x_); \
        __asm__("" : "+w"(t_));   \
        t_;                       \
    })
#else
#define TP__VPRODUCT(x_)          \
    __extension__({               \
        __typeof__(x_) t_ = (x_); \
        __asm__("" : "+m"(t_));   \
        t_;                       \
    })
#endif
#if defined(__clang__)
#define TP__PRODUCT(x_) (x_)
#elif __GNUC__ >= 12
#define TP__PRODUCT(x_) __builtin_assoc_barrier(x_)
#else
#define TP__PRODUCT(x_) TP__VPRODUCT(x_)
#endif

#if defined(TP__SSE2)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* 1. The compiler's default target: SSE2 on x86-64, NEON on AArch64, generic vectors elsewhere. */
#if defined(TP__SSE2)
#define TP__ISA_BASE   tp__isa_sse2
#define TP__BASE(f_)   f_##_sse2
#define TP__ISA_SUFFIX sse2
#define TP__ISA_NAME   "sse2"
#elif defined(__aarch64__)
#define TP__ISA_BASE   tp__isa_neon
#define TP__BASE(f_)   f_##_neon
#define TP__ISA_SUFFIX neon
#define TP__ISA_NAME   "neon"
#else
#define TP__ISA_BASE   tp__isa_generic
#define TP__BASE(f_)   f_##_generic
#define TP__ISA_SUFFIX generic
#define TP__ISA_NAME   "generic"
#endif
#define TP__ISA_LEVEL 0
#define TP__VW        4
#define TP__MR        6
#if defined(TP__SSE2)
TP__COLD_BEGIN /* few machines have only SSE2, so its kernels are compiled for size, not for speed */
#endif
#include "tp_fast.h"
#if defined(TP__SSE2)
    TP__COLD_END
#endif
#undef TP__ISA_SUFFIX
#undef TP__ISA_NAME
#undef TP__ISA_LEVEL
#undef TP__VW
#undef TP__MR

/* 2. Instruction sets that the machine may have; detected when the program runs. (Not on Windows, where gcc does not align the
 * stack for wide vectors.) */
#if defined(TP__SSE2) && defined(__x86_64__) && !defined(_WIN32)
#define TP__ISA_X86 1

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define TP__ISA_SUFFIX avx2
#define TP__ISA_NAME   "avx2"
#define TP__ISA_LEVEL  1
#define TP__VW         8
#define TP__MR         6
#include "tp_fast.h"
#undef TP__ISA_SUFFIX
#undef TP__ISA_NAME
#undef TP__ISA_LEVEL
#undef TP__VW
#undef TP__MR
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#if defined(__clang__) /* without min_vector_width clang halves the vectors */
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma"))), \
                             apply_to = function)
#pragma clang attribute push(__attribute__((min_vector_width(512))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")
#endif
#define TP__ISA_SUFFIX avx512
#define TP__ISA_NAME   "avx512"
#define TP__ISA_LEVEL  2
#define TP__VW         16
#define TP__MR         14
#include "tp_fast.h"
#undef TP__ISA_SUFFIX
#undef TP__ISA_NAME
#undef TP__ISA_LEVEL
#undef TP__VW
#undef TP__MR
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#else
#define TP__ISA_X86 0
#endif

/* AMX is compiled in if the compiler supports it and the operating system is known to give programs its registers, or if a test
 * emulates it. */
#if defined(TP_NO_AMX) || !TP__ISA_X86
#define TP__AMX 0
#elif defined(TP__AMX_EMULATED)
#define TP__AMX 1
#elif defined(__linux__) && defined(__LP64__) && \
    ((defined(__clang__) && __clang_major__ >= 12) || (!defined(__clang__) && __GNUC__ >= 11))
#define TP__AMX 1
#else
#define TP__AMX 0
#endif

/* 3. Kernels that few ops need: one table for each kernel, by level, so that a program without these ops does not contain them.
 * They are called as tp__lstm_cell_of[isa->level](...). */
/* clang-format off */
#define TP__KERNEL(returns_, name_, ...) TP__UNUSED static returns_ (*const tp__##name_##_of[])(__VA_ARGS__) = TP__LEVELS(tp__##name_)
#if TP__ISA_X86
#define TP__LEVELS(f_) {TP__BASE(f_), f_##_avx2, f_##_avx512}
#else
#define TP__LEVELS(f_) {TP__BASE(f_)}
#endif
/* tables of kernels that are not compiled for SSE2: NULL stands there */
#if TP__ISA_X86
#define TP__WIDE_LEVELS(f_) {NULL, f_##_avx2, f_##_avx512}
#elif defined(TP__SSE2)
#define TP__WIDE_LEVELS(f_) {NULL}
#else
#define TP__WIDE_LEVELS(f_) {TP__BASE(f_)}
#endif
#define TP__WIDE_KERNEL(returns_, name_, ...) TP__UNUSED static returns_ (*const tp__##name_##_of[])(__VA_ARGS__) = TP__WIDE_LEVELS(tp__##name_)
#define X(name_) TP__KERNEL(void, vec_##name_, int64_t n, float *y, const float *const *in);
    TP__VECS(X)
#undef X
    /* clang-format on */
    TP__KERNEL(void, resize_row, int64_t n, int64_t C, const tp__blend *column, const float *above, const float *below,
               float p, float *y);
TP__KERNEL(void, resize_back, int64_t n, int64_t C, const tp__blend *column, const float *dy, double p, float *above,
           float *below);
TP__KERNEL(void, sample, int64_t C, const float *const *x, const float *f, float *y);
TP__KERNEL(void, adam, int64_t n, float *w, float *m, float *v, const float *g, float lr, float c1, float c2,
           float eps);
TP__WIDE_KERNEL(void, taps, const tp__taps *t);
TP__WIDE_KERNEL(void, taps_grad, const tp__taps *t);
TP__WIDE_KERNEL(void, even_product, const tp__even *t, int64_t rows, int64_t n);
TP__WIDE_KERNEL(void, wino_in, const tp__wino_form *f, int64_t C, int64_t tiles, const float *x, int64_t row,
                int64_t step, float *v, int64_t plane);
TP__WIDE_KERNEL(void, wino_out, const tp__wino_form *f, int64_t O, int64_t width, int64_t rows, const float *m,
                int64_t plane, float *y, int64_t row, int64_t step, const float *more, const float *bias,
                float ceiling);
TP__WIDE_KERNEL(void, wino_dy, const tp__wino_form *f, int64_t O, int64_t width, int64_t rows, const float *dy,
                int64_t row, int64_t step, float *m, int64_t plane);
TP__WIDE_KERNEL(void, wino_filter, const tp__wino_form *f, int64_t n, const float *const *g, float *u, int64_t plane);
TP__WIDE_KERNEL(void, wino_dw, const tp__wino_form *f, int64_t n, const float *s, int64_t plane, float *const *dw);
TP__KERNEL(void, pool, int64_t C, int n_tap, const float *x, const int64_t *tap, const uint8_t *index, float *y,
           uint8_t *which);
TP__KERNEL(void, unpool, int64_t C, int n_tap, const float *dy, const uint8_t *which, const int64_t *tap, float *dx);
TP__KERNEL(void, pool_add, int64_t n, int64_t run, const float *x, int64_t x_step, float *y, int64_t y_step);
TP__KERNEL(void, pool_max, int64_t n, int64_t run, const float *x, int64_t x_step, const int32_t *place, int32_t more,
           float *y, int32_t *which);
TP__KERNEL(void, bn_sums, const tp__bn *b, int64_t rows, const float *dy, const float *x, float *s1, float *s2);
TP__KERNEL(void, bn_apply, const tp__bn *b, int64_t rows, const float *x, float *y);
TP__KERNEL(void, bn_back, const tp__bn *b, int64_t rows, const float *dy, const float *x, const float *more, float *dx);
TP__KERNEL(void, plane_moment, int64_t n, const float *x, const double *mean, double *sum);
TP__KERNEL(void, plane_products, int64_t n, const float *dy, const float *x, float mean, float inv, double *sums);
TP__KERNEL(void, plane_norm, int64_t n, const float *x, const float *v, float *y);
TP__KERNEL(void, plane_back, int64_t n, const float *dy, const float *x, const float *v, float *dx);
TP__KERNEL(void, ln_row, int64_t C, const float *x, const float *gamma, const float *beta, float epsilon, float *y,
           float *mean, float *inv);
TP__KERNEL(void, ln_back, int64_t C, const float *dy, const float *x, const float *gamma, float mean, float inv,
           float *dx, float *dgamma, float *dbeta);
TP__KERNEL(void, attention_softmax, int64_t n, int64_t m, float *p, int64_t gap, int64_t seen, float *lse, bool known);
TP__KERNEL(void, attention_ds, int64_t n, int64_t m, const float *p, float *dp, int64_t gap, const float *less,
           float scale);
TP__KERNEL(float, exp_sum, int64_t n, const float *x, float less, float *e);
TP__KERNEL(void, divide, int64_t n, float *y, float by);
TP__KERNEL(void, lion, int64_t n, float *w, float *m, const float *g, float lr, float beta1, float beta2, float decay);
TP__KERNEL(void, scale, int64_t n, const float *x, float by, float *y);
TP__KERNEL(void, gru_gates, int64_t H, float *gates, const float *h0, float *rh);
TP__KERNEL(void, gru_cell, int64_t H, float *gates, const float *h0, float *h);
TP__KERNEL(void, gru_back, int64_t H, const float *gates, const float *h0, const float *dy, float *dh, float *dg);
TP__KERNEL(void, gru_back_reset, int64_t H, const float *gates, const float *h0, const float *d_reset_h, float *dh,
           float *dg);
TP__KERNEL(void, lstm_cell, int64_t H, float *gates, const float *more, const float *c0, float *c, float *h,
           float forget_bias);
TP__KERNEL(void, lstm_back, int64_t H, const float *gates, const float *c0, const float *c, const float *dy,
           const float *dh, float *dc, float *dg);
TP__KERNEL(void, row_to_panels, int64_t n, const float *row, float *panels, int64_t gap);
TP__KERNEL(void, add_panel_rows, int64_t n, const float *panel, const int64_t *at, float *y);
TP__KERNEL(void, philox, int64_t blocks, uint32_t *out, uint64_t key, uint64_t first, uint64_t step);
TP__WIDE_KERNEL(void, normal, int64_t blocks, const uint32_t *words, double *out);
TP__KERNEL(void, dropout, int64_t n, float *y, const float *x, const uint32_t *words, float rate, float scale);

#if TP__ISA_X86
/* The level of the machine's best instruction set: 0: SSE2, 1: AVX2 and FMA, 2: AVX-512 F, DQ, BW, VL, if the processor
 * has them and the system saves their registers. Uses CPUID, because __builtin_cpu_supports adds 4 KiB of names to the
 * program. */
static int tp__x86_level(void)
{
    unsigned a, b, c, d, xcr0, xcr0_high;
    /* CPUID's bits OSXSAVE and FMA */
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 27) || !(c & 1u << 12)) return 0;
    __asm__("xgetbv" : "=a"(xcr0), "=d"(xcr0_high) : "c"(0));
    if ((xcr0 & 0x06u) != 0x06u || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & 1u << 5)) return 0;
    const unsigned avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
    return (xcr0 & 0xe6u) == 0xe6u && (b & avx512) == avx512 ? 2 : 1;
}
#endif

/* The reason why the instruction set "amx" cannot be used, NULL if it can. A program must request the registers (8 KiB) from the
 * operating system, which saves them only for programs that requested them. */
#if TP__AMX && !defined(TP__AMX_EMULATED)
static const char *tp__amx_missing(void)
{
    unsigned a, b, c, d, xcr0, xcr0_high;
    if (tp__x86_level() < 2) return "the processor has no AVX-512, which does the rest of the work";
    const unsigned bf16_tiles = 1u << 22 | 1u << 24;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & bf16_tiles) != bf16_tiles)
        return "the processor has no AMX-TILE with AMX-BF16";
    __asm__("xgetbv" : "=a"(xcr0), "=d"(xcr0_high) : "c"(0));
    const unsigned tiles = 1u << 17 | 1u << 18;
    if ((xcr0 & tiles) != tiles) return "the system does not save the tile registers";
    long result = 158; /* arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA), since Linux 5.16 */
    __asm__ volatile("syscall" : "+a"(result) : "D"(0x1023L), "S"(18L) : "rcx", "r11", "memory");
    return result ? "the system does not lend this process the tile registers" : NULL;
}
#elif TP__AMX
static const char *tp__amx_missing(void) { return NULL; }
#endif

/* Finds the kernels of the instruction set `name`, NULL for "naive"; without a name, the machine's best. *amx: products
 * use AMX. */
TP__SMALL static const struct tp__isa *tp__isa_choose(const char *name, tp_status *st, bool *amx)
{
    *st = TP_OK;
    *amx = false;
    if (name && strcmp(name, "naive") == 0) return NULL;
    const struct tp__isa *available[3];
    int n = 0;
    available[n++] = &TP__ISA_BASE;
#if TP__ISA_X86
    const int level = tp__x86_level();
    if (level >= 1) available[n++] = &tp__isa_avx2;
    if (level >= 2) available[n++] = &tp__isa_avx512;
#endif
    if (!name || !*name) return available[n - 1];
    for (int i = 0; i < n; i++)
        if (strcmp(name, available[i]->name) == 0) return available[i];
    if (strcmp(name, "amx") == 0) {
#if TP__AMX
        const char *lacks = tp__amx_missing();
        *amx = !lacks;
        if (!lacks) return available[n - 1];
#else
        const char *lacks = "this build is without it (TP_NO_AMX, or gcc < 11, clang < 12, another system)";
#endif
        *st = tp_fail(TP_ERR_UNSUPPORTED, "instruction set 'amx': %s", lacks);
        return NULL;
    }
    *st =
        tp_fail(TP_ERR_UNSUPPORTED,
                "instruction set '%s' is unknown or not available here; this machine and build have: naive, %s%s%s%s%s",
                name, available[0]->name, n > 1 ? ", " : "", n > 1 ? available[1]->name : "", n > 2 ? ", " : "",
                n > 2 ? available[2]->name : "");
    return NULL;
}

/* ==== >>pack: scratch, panels, splits ================================================================== */

static int64_t tp__min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t tp__max64(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t tp__ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Scratch memory that a kernel divides among its arrays. The function that does this is called twice: without memory it
 * computes the size, with memory it sets the pointers. */
typedef struct tp__carver {
    char *base; /* NULL: only the scratch size is computed */
    size_t used;
    bool overflow;
} tp__carver;

static tp__carver tp__carver_over(void *scratch)
{
    tp__carver c = {NULL, 0, false};
    if (scratch) c.base = (char *)scratch + (64 - (uintptr_t)scratch % 64) % 64;
    return c;
}

static void *tp__carve(tp__carver *c, int64_t n, size_t size)
{
    size_t bytes;
    if ((uint64_t)n > SIZE_MAX || !tp_mul_size((size_t)n, size, &bytes) || bytes > SIZE_MAX / 2 ||
        c->used > SIZE_MAX / 2) {
        c->overflow = true;
        return NULL;
    }
    void *p = c->base ? c->base + c->used : NULL;
    c->used += (bytes + 63) / 64 * 64;
    return p;
}
/* The size of the scratch memory; if it has overflowed, a size so large that the allocation fails. */
static size_t tp__carved(const tp__carver *c) { return c->overflow ? SIZE_MAX / 2 : tp__scratch_sum(c->used, 64); }

/* Private memory for running chunks: one slot per thread, taken while a chunk runs. Data that an earlier chunk left in a slot
 * never influences a result, so it does not matter which chunk gets which slot. */
typedef struct tp__slots {
    float *memory;
    int *busy, n;
    int64_t floats;
} tp__slots;

static void tp__slots_carve(tp__slots *s, tp_device *d, tp__carver *c, int64_t floats)
{
    s->n = d->pool ? tp_pool_threads(d->pool) : 1;
    s->floats = (floats + 15) / 16 * 16;
    s->busy = (int *)tp__carve(c, s->n, sizeof *s->busy);
    s->memory = (float *)tp__carve(c, s->n * s->floats, sizeof *s->memory);
    if (s->busy) memset(s->busy, 0, (size_t)s->n * sizeof *s->busy);
}
#ifdef TP_NO_THREADS /* one slot, which is free */
static int tp__slot_acquire(tp__slots *s) { return s->n - 1; }
static void tp__slot_release(tp__slots *s, int i) { (void)s, (void)i; }
#else
static int tp__slot_acquire(tp__slots *s)
{
    for (int i = 0;; i = (i + 1) % s->n)
        if (!__atomic_exchange_n(&s->busy[i], 1, __ATOMIC_ACQUIRE)) return i;
}
static void tp__slot_release(tp__slots *s, int i) { __atomic_store_n(&s->busy[i], 0, __ATOMIC_RELEASE); }
#endif

/* Number of rows of the next even tile if even tiles can cover the `left` rows that remain, else 0. */
static int tp__even_rows(const struct tp__isa *isa, int64_t left)
{
    if (left % 2) return 0;               /* no even tile has an odd number of rows */
    if (left > 64) left = 48 + left % 16; /* each instruction set with even tiles has one of 8 rows */
    for (int m = left < TP__MAX_EVEN ? (int)left : TP__MAX_EVEN; m > 0; m--)
        if (isa->even[m] && (m == left || tp__even_rows(isa, left - m))) return m;
    return 0;
}
/* As tp__even_rows, but up to seven rows at the end may be left to tiles that are not even. */
static int tp__even_rows_of(const struct tp__isa *isa, int64_t left)
{
    const int m = tp__even_rows(isa, left);
    return m ? m : tp__even_rows(isa, left / 8 * 8);
}

/* A panel is a strip of at most two vectors of columns of B, stored row after row and padded with zeros to whole
 * vectors. A convolution with, say, two and a half panels has a last panel of three vectors instead of one of two and one of one. */
static int tp__panel_vectors(const struct tp__isa *isa, int64_t columns)
{
    return (int)tp__max64(1, tp__ceil_div(columns, isa->vw));
}
static int64_t tp__panel_width(const struct tp__isa *isa, int64_t columns)
{
    return (int64_t)tp__panel_vectors(isa, columns) * isa->vw;
}

/* Number of panels into which the channels of a convolution are cut, and number of channels (columns) in one of them. */
static int64_t tp__conv_panels(const struct tp__isa *isa, int64_t columns)
{
    const int64_t nr = 2 * isa->vw, rest = columns % nr;
    return isa->tile3 && columns > nr && rest > 0 && rest <= isa->vw ? columns / nr : tp__ceil_div(columns, nr);
}
static int64_t tp__conv_columns(const struct tp__isa *isa, int64_t columns, int64_t panel)
{
    const int64_t nr = 2 * isa->vw;
    return panel == tp__conv_panels(isa, columns) - 1 ? columns - panel * nr : nr;
}
/* Number of floats in a row of all panels together, zeros included. */
static int64_t tp__conv_panels_width(const struct tp__isa *isa, int64_t columns)
{
    const int64_t before = (tp__conv_panels(isa, columns) - 1) * 2 * isa->vw;
    return before + tp__panel_width(isa, columns - before);
}

static void tp__run_tile(const struct tp__isa *isa, tp__tile *t, int64_t columns)
{
    const int vectors = tp__panel_vectors(isa, columns);
    t->n = (int)columns;
    if (vectors > 2) {
        isa->tile3(t);
        return;
    }
    void (*const *tile)(const tp__tile *) = isa->tile[vectors - 1] + t->m;
    /* kernels exist only for some row counts, so the kernel may have one row more than m */
    t->c[t->m] = t->c[t->m - 1];
    (*tile ? tile[0] : tile[1])(t);
}
/* Fills the tile's list of row pointers up to mr entries with the last row's pointer, since a kernel reads mr
 * pointers. */
static void tp__tile_pad(tp__tile *t, int mr)
{
    for (int i = t->m; i < mr; i++) t->a[i] = t->a[t->m - 1];
}

/* Prefetches a row that is needed soon. */
static void tp__prefetch_row(const float *row, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16) __builtin_prefetch(row + i, 0, 2);
}

/* Writes zeros to the columns from n on in a panel of k rows. */
static void tp__panel_zero(float *panel, int64_t width, int64_t n, int64_t k)
{
    if (n == width) return;
    for (int64_t i = 0; i < k; i++) memset(panel + i * width + n, 0, (size_t)(width - n) * sizeof *panel);
}

/* Copies rows of n floats that are `from` floats apart to rows that are `to` floats apart. Short rows are copied as two pieces of a
 * constant size, which overlap: a call for each row would take longer than the copy. */
static void tp__copy_rows(float *dst, int64_t to, const float *src, int64_t from, int64_t n, int64_t rows)
{
    if (n >= 8 && n <= 16)
        for (; rows > 0; rows--, dst += to, src += from) {
            memcpy(dst, src, 8 * sizeof *dst);
            memcpy(dst + n - 8, src + n - 8, 8 * sizeof *dst);
        }
    else if (n >= 4 && n < 8)
        for (; rows > 0; rows--, dst += to, src += from) {
            memcpy(dst, src, 4 * sizeof *dst);
            memcpy(dst + n - 4, src + n - 4, 4 * sizeof *dst);
        }
    else if (n == 3) /* as the channels of an image */
        for (; rows > 0; rows--, dst += to, src += from) dst[0] = src[0], dst[1] = src[1], dst[2] = src[2];
    else if (n < 4)
        for (; rows > 0; rows--, dst += to, src += from)
            for (int64_t i = 0; i < n; i++) dst[i] = src[i];
    else
        for (; rows > 0; rows--, dst += to, src += from) memcpy(dst, src, (size_t)n * sizeof *dst);
}

/* Adds partial sums of n floats each in a fixed tree: part[0] += part[1] + part[2] + ...; the parts are `stride` floats
 * apart. */
static void tp__tree_add(const struct tp__isa *isa, float *part, int64_t stride, int parts, int64_t n)
{
    for (int step = 1; step < parts; step *= 2)
        for (int i = 0; i + step < parts; i += 2 * step) {
            const float *in[2];
            in[0] = part + i * stride;
            in[1] = part + (i + step) * stride;
            tp__vec_add_of[isa->level](n, part + i * stride, in);
        }
}

/* ==== >>gemm: matrix products ========================================================================== */

/* How a product or convolution changes a finished sum before storing it: v += bias[column], then the activation. */
typedef struct tp__epilogue {
    const float *bias; /* one value per column (output channel), or NULL */
    int act;           /* the activation, a tp_epilogue_act */
    float most;        /* of a ReLU: its results are at most this; 0: they have no bound */
} tp__epilogue;

static float tp__apply_epilogue(const tp__epilogue *e, int64_t column, float v)
{
    if (e->bias) v += e->bias[column];
    if (e->act == TP_EPILOGUE_RELU && v < 0.0f) v = 0.0f;
    return e->most > 0 && v > e->most ? e->most : v;
}
/* The bound of a ReLU as tiles take it: infinity if there is none, 0 without a ReLU. */
TP__UNUSED static float tp__ceiling(const tp__epilogue *e)
{
    return e->act != TP_EPILOGUE_RELU ? 0.0f : e->most > 0 ? e->most : INFINITY;
}

/* C[M,N] = op(A) op(B) (+ C if accumulate), op(X) = X or its transpose; A is [M,K] (or [K,M] if ta), B is [K,N] (or [N,K] if tb);
 * matrices are row-major, lda, ldb, ldc are row strides in elements. Used by tp__gemm (>>entries). */
typedef struct tp__gemm_args {
    bool ta, tb, accumulate;
    int64_t M, N, K;
    const float *A, *B;
    float *C;
    int64_t lda, ldb, ldc;
    tp__epilogue epilogue;
    const tp__bn *after;  /* not NULL: C is normalised after the activation, its columns being the channels */
    const float *descend; /* not NULL: compute C -= *descend op(A) op(B), a step of gradient descent */
    float *kept;          /* not NULL: memory for B's panels, tp__gemm_kept floats; it lasts beyond this call */
    bool kept_is_ready;   /* the panels of this B are in it already */
} tp__gemm_args;

/* values of k in a block, so that a tile of A stays in L1 and a block of B in L2 */
#define TP__KC         TP__WHOLE_SUM
#define TP__IN_L2      450000 /* a B of up to this many floats stays in L2 */
#define TP__PACK_HERE  64000  /* if B has more floats, each block of rows packs the panels that it uses */
#define TP__PACK_ALONE 32768  /* one thread packs matrices of up to this many floats */
#define TP__K_IN_PLACE 16     /* up to this K the product reads A in place, without packing */
#define TP__K_PARTS    2048   /* k is divided into parts from here on, if the output is small */
#define TP__KC_STREAM  128    /* values of k in a block of A, if that block has all rows of A */
#define TP__N_STREAM   64     /* columns up to which a transposed A is read once, in such blocks */
#define TP__NC         256    /* columns of B in a block */
#define TP__MB         8      /* number of register tiles of rows in a block */
#define TP__M_HERE     1024   /* rows in a block, if each block packs its own columns of B */
#define TP__LDB_NEAR   32     /* B is read in place for many rows of A if a row of B has at most this many panels */
#define TP__LDA_NEAR   1024   /* a transposed A is read in place if its rows have at most this many floats */
#define TP__PACK_K     128    /* values of k in a chunk that packs B */
#define TP__TURN_NEAR  131072 /* number of floats up to which a matrix and its transpose stay in L2 */
/* panels in a chunk that packs B: more write streams would evict each other from L1 */
#define TP__PACK_PANELS 8
#define TP__CHUNK_MIN   1000000 /* number of multiply-adds from which a chunk is worth its overhead */
#define TP__CHUNK_MANY  16      /* number of chunks that keeps all threads of a machine busy */

typedef struct tp__gemm_plan {
    tp__gemm_args g;
    const struct tp__isa *isa;
    int64_t nr, panels;         /* nr: columns of a full panel; number of panels of B */
    int64_t mb, pb;             /* rows (mb) and panels (pb) in a chunk of the output */
    int64_t m_blocks, n_blocks; /* number of chunks of the output along its rows and its columns */
    int64_t kc, k_part;         /* values of k in a block (kc) and in a part (k_part) */
    int parts;                  /* number of parts into which k is divided */
    bool pack_a, b_in_place;
    bool
        even; /* even tiles compute the product; they start faster, and neither A nor an incomplete panel of B is packed */
    /* A is transposed, k is long and columns are few: a chunk reads A once, in the order of its addresses */
    bool stream;
    bool row; /* one row times B: B is read in place, all columns of a chunk at a time */
    /* B is large and few blocks of rows use it: each block packs the panels that it uses */
    bool pack_here;
    int64_t packed_from;         /* number of the first panel of B that is packed */
    int64_t pack_k, pack_panels; /* size of a chunk that packs B: values of k, and number of panels */
    float *packed, *part;
    float *packed_a; /* all of A, packed once if several chunks of columns need it */
    int64_t slot_a;  /* floats of a thread's slot that are for A; the rest is for B */
    tp__slots slots;
} tp__gemm_plan;

static bool tp__panel_whole(const tp__gemm_plan *p, int64_t panel)
{
    int64_t n = tp__min64(p->g.N - panel * p->nr, p->nr);
    return n == tp__panel_width(p->isa, n);
}

/* Chooses the blocks of the output: enlarges chunks that are too small for their overhead, shrinks them if there are too few. */
TP__SMALL static void tp__gemm_choose_blocks(tp__gemm_plan *p)
{
    const tp__gemm_args *a = &p->g;
    const int64_t M = a->M, N = a->N, K = a->K, mr = p->isa->mr;
    p->pack_here = !a->tb && !p->stream && M > 2 * mr && N > p->nr && K * N > (a->ta ? TP__IN_L2 : TP__PACK_HERE);
    /* if B misses the cache, blocks have more rows, so that each panel of B is used for more of them */
    const bool b_misses_cache = M * tp__min64(K, N) > 2000000 && K * N > 2000000;
    if (p->pack_here) p->mb = tp__ceil_div(tp__ceil_div(M, tp__ceil_div(M, TP__M_HERE)), mr) * mr;
    else p->mb = (b_misses_cache ? 2 * TP__MB : TP__MB) * mr;
    p->mb = tp__min64(M, p->mb);
    p->pb = tp__min64(p->panels, (b_misses_cache && !p->pack_here ? TP__NC * 5 / 8 : TP__NC) / p->nr);
    while (!p->row) {
        /* few rows times a large B: B misses the cache, and reading B takes as long as computing eight rows */
        int64_t work = (K * N > 400000 ? tp__max64(p->mb, 8) : p->mb) * p->pb * p->nr * p->k_part;
        int64_t chunks = tp__ceil_div(M, p->mb) * tp__ceil_div(p->panels, p->pb) * p->parts;
        /* with pack_here each block of rows packs B again: chunks get fewer columns first, then fewer rows */
        const int64_t least_mb = !p->pack_here ? 2 * mr : p->pb > 1 ? TP__M_HERE * 5 / 8 : TP__MB * mr;
        if (work < TP__CHUNK_MIN / 2 && p->mb < M) p->mb = tp__min64(M, 2 * p->mb);
        else if (work < TP__CHUNK_MIN / 2 && p->pb < p->panels) p->pb = tp__min64(p->panels, 2 * p->pb);
        else if (work <= TP__CHUNK_MIN || chunks >= TP__CHUNK_MANY) break;
        else if (p->mb > least_mb) p->mb = tp__ceil_div(p->mb, 2 * mr) * mr;
        else if (p->pb > 1) p->pb = (p->pb + 1) / 2;
        else break;
    }
    if (p->row) /* a chunk should read a megabyte, in rows of at least a kilobyte */
        p->pb = tp__min64(p->panels, tp__max64(8, tp__ceil_div(TP__CHUNK_MIN / 4, p->nr * tp__max64(p->k_part, 1))));
    const int64_t n_chunks = tp__ceil_div(M, p->mb) * tp__ceil_div(p->panels, p->pb) * p->parts; /* number of chunks */
    if (n_chunks < 8 && n_chunks % 4 != 0 && p->mb * p->pb * p->nr * p->k_part > TP__CHUNK_MIN / 2)
        p->pb = (p->pb + 1) / 2; /* with three or five chunks, one of two threads would have to wait for the other */
    p->m_blocks = tp__ceil_div(M, p->mb);
    /* make all blocks of rows equally large */
    if (p->m_blocks > 1) p->mb = tp__ceil_div(tp__ceil_div(M, p->m_blocks), mr) * mr;
    p->m_blocks = tp__ceil_div(M, p->mb);
    p->n_blocks = tp__ceil_div(p->panels, p->pb);
}

/* Whether even tiles can compute the product: they have no parts of k, no step of gradient descent, and without masks no columns
 * that do not fill a vector. */
static bool tp__gemm_is_even(const tp__gemm_args *a, const struct tp__isa *isa)
{
    return tp__even_product_of[isa->level] && a->K > 0 && a->K <= TP__KC && !a->descend &&
           (isa->vw > 4 || a->N % isa->vw == 0);
}
/* Describes the even tiles that compute C from a row and a column on. A is read in place; b points to the first column
 * of B, whose rows are ldb floats apart. */
static tp__even tp__gemm_even(const tp__gemm_args *a, int64_t row, int64_t column, const float *b, int64_t ldb)
{
    tp__even e;
    e.a = a->ta ? a->A + row : a->A + row * a->lda;
    e.b = b, e.c = a->C + row * a->ldc + column;
    e.K = a->K, e.ldb = ldb, e.c_gap = a->ldc;
    e.a_gap = a->ta ? 1 : a->lda, e.step = a->ta ? a->lda : 1;
    e.add = a->accumulate, e.ceiling = tp__ceiling(&a->epilogue);
    e.bias = a->epilogue.bias ? a->epilogue.bias + column : NULL;
    e.next = NULL;
    return e;
}

/* Computes the plan of a matrix product from its shape; returns the bytes of scratch. keep: the panels of B are kept for the
 * next calls, which then need not pack B. */
TP__SMALL static size_t tp__gemm_plan_make(tp__gemm_plan *p, tp_device *d, const tp__gemm_args *a, bool keep,
                                           void *scratch)
{
    tp__carver c = tp__carver_over(scratch);
    const struct tp__isa *isa = d->isa;
    const int64_t M = a->M, N = a->N, K = a->K, mr = isa->mr;
    memset(p, 0, sizeof *p);
    p->g = *a;
    p->isa = isa;
    p->nr = 2 * isa->vw;
    p->panels = tp__ceil_div(N, p->nr);
    p->row = M == 1 && !a->tb && !a->descend;

    /* 1. a weight gradient of few columns reads A once for each chunk of columns: k in blocks so short that all rows of a block stay in L2 */
    p->stream = a->ta && !a->descend && N <= TP__N_STREAM && K >= 1024 && M <= 1024;
    /* 2. divide k when it is long, and the output is small or not divided by rows */
    p->parts = 1;
    if (K >= TP__K_PARTS && (p->stream || tp__ceil_div(M, 8 * mr) * tp__ceil_div(N, TP__NC) < 8)) {
        int64_t parts = tp__min64(TP__PARTS, K / 1024);
        parts = tp__min64(parts, (4 << 20) / (M * N) + 1);
        p->parts = (int)parts;
    }
    p->k_part = tp__ceil_div(tp__max64(K, 1), p->parts);
    p->kc = tp__ceil_div(p->k_part, tp__ceil_div(p->k_part, TP__KC));
    /* k stays whole, because C, which gradient descent updates, cannot hold partial sums */
    if (a->descend && p->parts == 1) p->kc = p->k_part;

    tp__gemm_choose_blocks(p); /* 3. */
    if (p->stream) {
        p->mb = M;
        p->m_blocks = 1;
        p->kc = tp__min64(TP__KC_STREAM, p->k_part);
    }

    /* 4. choose what is packed. B is read in place if its rows are short or, where its panels are not kept, if few rows of A
     * use it, or if few blocks of rows read B and B fits into L2. A is read in place unless A would be read often along its
     * columns, or its rows map to few cache sets */
    /* few values of k: the rows of A in use stay in L1 */
    const bool short_k = K <= TP__K_IN_PLACE && a->lda % 256 != 0;
    /* rows of B that map to few cache sets are packed too, if they are used often enough */
    const bool spread = a->ldb % 256 != 0 || M <= 16 * mr;
    const bool in_l2 =
        !p->pack_here && M <= TP__M_HERE && K * N <= TP__IN_L2 && a->ldb <= TP__LDB_NEAR * p->nr && spread;
    p->b_in_place = !a->tb && (a->ldb <= p->nr || (!keep && (M <= 2 * mr || in_l2)));
    p->pack_a = !p->stream && (a->ta ? !short_k && (p->pb > 1 || M > mr)
                                     : M > mr && p->pb > 1 && (a->lda % 1024 == 0 || p->panels >= 20));
    p->even = tp__gemm_is_even(a, isa) && p->parts == 1 && !p->pack_here && !p->stream && !p->row &&
              (a->ta ? a->lda <= TP__LDA_NEAR && a->lda % 256 != 0 : !p->pack_a);
    if (p->even) p->pack_a = false;
    /* Rows that start within a vector of eight floats fill up to twice as many cache lines: B and A evict each other from L1. */
    if (p->even && isa->vw == 8 && a->ldb % 8 != 0 && K > TP__EVEN_NEAR * 3 / 4 && M > 8 * mr) p->b_in_place = false;
    p->packed_from = 0;
    /* a transposed B is packed along its own rows: all of k, one panel at a time */
    p->pack_k = a->tb ? tp__max64(K, 1) : TP__PACK_K;
    p->pack_panels = a->tb ? 1 : TP__PACK_PANELS;
    p->pack_here = p->pack_here && !p->b_in_place;
    if (p->row || p->pack_here) p->packed_from = p->panels;
    else if (p->b_in_place) p->packed_from = p->even || tp__panel_whole(p, p->panels - 1) ? p->panels : p->panels - 1;

    const int64_t columns = (p->panels - p->packed_from) * p->nr;
    p->packed = a->kept ? a->kept : (float *)tp__carve(&c, columns * K, sizeof(float));
    p->part = (float *)tp__carve(&c, p->parts > 1 ? p->parts * M * N : 0, sizeof(float));
    const bool pack_whole_a = p->pack_a && p->n_blocks > 1;
    p->packed_a = (float *)tp__carve(&c, pack_whole_a ? M * K : 0, sizeof(float));
    if (!pack_whole_a) p->packed_a = NULL;
    p->slot_a = p->pack_a && !pack_whole_a ? (p->mb * p->kc + 15) / 16 * 16 : 0;
    tp__slots_carve(&p->slots, d, &c, p->slot_a + (p->pack_here ? p->pb * p->nr * p->kc : 0));
    return tp__carved(&c);
}

/* Packs n columns of B into one panel, [K][width]. B is [K,n] or, if tb, its transpose [n,K]; its rows are ldb floats
 * apart. */
static void tp__pack_panel(const struct tp__isa *isa, float *panel, const float *B, int64_t ldb, bool tb, int64_t K,
                           int64_t n)
{
    const int64_t width = tp__panel_width(isa, n);
    if (tb) {
        isa->transpose(panel, width, width, B, ldb, n, K);
        tp__panel_zero(panel, width, n, K);
    } else isa->panel(panel, width, B, ldb, K, n);
}

/* Packs the panels [panel, end) of B, for kn values of k from k0 on. Each panel holds `at` values of k already. Panels
 * are `panel_stride` floats apart. */
static void tp__gemm_pack_b(const tp__gemm_plan *p, float *dst, int64_t panel_stride, int64_t at, int64_t panel,
                            int64_t end, int64_t k0, int64_t kn)
{
    const tp__gemm_args *g = &p->g;
    const int64_t nr = p->nr, whole = g->tb ? panel : tp__max64(panel, tp__min64(end, g->N / nr));
    /* the loop over k is outermost, so that B is read along its rows */
    for (int64_t k = 0; k < kn && panel < whole; k++) {
        const float *src = g->B + (k0 + k) * g->ldb + panel * nr;
        float *to = dst + (at + k) * nr;
        for (int64_t i = panel; i < whole; i++, src += nr, to += panel_stride) {
            __builtin_prefetch(src + 8 * g->ldb);
            __builtin_prefetch(src + 8 * g->ldb + nr / 2);
            /* constant size, so that the compiler does not call memcpy */
            for (int64_t j = 0; j < nr; j += 8) memcpy(to + j, src + j, 8 * sizeof *to);
        }
    }
    for (int64_t i = whole; i < end; i++) {
        const int64_t column = i * nr, n = tp__min64(g->N - column, nr), width = tp__panel_width(p->isa, n);
        float *to = dst + (i - panel) * panel_stride + at * width;
        tp__pack_panel(p->isa, to, g->B + (g->tb ? column * g->ldb + k0 : k0 * g->ldb + column), g->ldb, g->tb, kn, n);
    }
}

/* A chunk of packing all of B, where a panel is [K][width]: a few panels and one block of k. */
static int64_t tp__gemm_pack_groups(const tp__gemm_plan *p)
{
    return tp__ceil_div(p->panels - p->packed_from, p->pack_panels);
}
TP__SMALL static void tp__gemm_pack_panels(void *user, int64_t chunk)
{
    const tp__gemm_plan *p = (const tp__gemm_plan *)user;
    const int64_t groups = tp__gemm_pack_groups(p), skip = chunk % groups * p->pack_panels;
    const int64_t k = chunk / groups * p->pack_k, panel = p->packed_from + skip, panel_stride = p->nr * p->g.K;
    tp__gemm_pack_b(p, p->packed + skip * panel_stride, panel_stride, k, panel,
                    tp__min64(panel + p->pack_panels, p->panels), k, tp__min64(p->pack_k, p->g.K - k));
}

/* Packs rows [row, row + mb) of op(A), k from k0, as rows of kn values; a transposed A as tiles, each [kn][rows of the tile]. */
static void tp__gemm_pack_a(const tp__gemm_plan *p, float *dst, int64_t row, int64_t mb, int64_t k0, int64_t kn)
{
    const tp__gemm_args *g = &p->g;
    if (!g->ta) {
        tp__copy_rows(dst, kn, g->A + row * g->lda + k0, g->lda, kn, mb);
        return;
    }
    p->isa->tiles(dst, kn, 0, kn, g->A + k0 * g->lda + row, g->lda, mb);
}

/* A chunk of packing: a block of rows of A and one block of k. */
TP__SMALL static void tp__gemm_pack_rows(void *user, int64_t chunk)
{
    const tp__gemm_plan *p = (const tp__gemm_plan *)user;
    const int64_t row0 = chunk % p->m_blocks * p->mb, mb = tp__min64(p->g.M - row0, p->mb);
    const int64_t block = chunk / p->m_blocks, blocks = tp__ceil_div(p->k_part, p->kc), part = block / blocks;
    const int64_t k = part * p->k_part + block % blocks * p->kc, k_end = tp__min64((part + 1) * p->k_part, p->g.K);
    if (k < k_end) tp__gemm_pack_a(p, p->packed_a + row0 * p->g.K + mb * k, row0, mb, k, tp__min64(p->kc, k_end - k));
}

/* Where the panel of B begins that the next block reads in place of this one, `panels_on` panels further on when k ends; NULL: B is not
 * kept, or no block follows. Between two runs other steps displace kept panels from the cache. */
static const float *tp__gemm_next_kept(const tp__gemm_plan *p, int64_t panel, int64_t panels_on, int64_t k, int64_t kn)
{
    const tp__gemm_args *g = &p->g;
    const int64_t k_begin = k / p->k_part * p->k_part, k_end = tp__min64(k_begin + p->k_part, g->K);
    const bool next_k = k + kn < k_end;
    const int64_t to = next_k ? panel : panel + panels_on, from = next_k ? k + kn : k_begin;
    if (!g->kept_is_ready || to >= p->panels || (!p->pack_here && p->packed_from > 0)) return NULL;
    if (!p->pack_here) return p->packed + (to * g->K + from) * p->nr;
    return g->kept + from * p->panels * p->nr + to * p->nr * tp__min64(p->kc, k_end - from);
}
/* The data to prefetch while a tile runs: if B is kept, this tile's share of the next block of B; if A is read in place and only
 * once, the next rows of A; otherwise this tile's share of the next block of k, first of B and then of A. */
static const float *tp__gemm_prefetch(const tp__gemm_plan *p, const tp__tile *t, int64_t row, int64_t panel,
                                      int64_t panel0, int64_t k, int64_t kn, int64_t mb, int64_t row0)
{
    const tp__gemm_args *g = &p->g;
    const float *b = row < p->nr ? tp__gemm_next_kept(p, panel, p->pb, k, kn) : NULL;
    if (b) return b + row * kn;
    if (p->stream) return panel == panel0 ? g->A + (k + kn) * g->lda + row * kn : NULL;
    /* prefetch the rows of the next tile */
    if (p->pack_a && p->pack_here) return panel == panel0 ? t->a[0] + t->m * kn : NULL;
    if (!p->pack_a)
        return panel == panel0 && !g->ta && g->lda == g->K && p->k_part == g->K ? t->a[0] + t->m * g->lda : NULL;
    if (panel >= p->packed_from && row * kn < kn * p->nr && k + kn < g->K)
        return p->packed + ((panel - p->packed_from) * g->K + k + kn) * p->nr + row * kn;
    if (p->packed_a && panel == panel0) return p->packed_a + row0 * g->K + mb * (k + kn) + row * kn;
    return NULL;
}

/* Returns the rows of a panel of B, from k on; *ldb: floats from one row to the next. */
static const float *tp__gemm_panel(const tp__gemm_plan *p, const float *packed_b, int64_t panel, int64_t panel0,
                                   int64_t k, int64_t kn, int64_t *ldb)
{
    *ldb = tp__panel_width(p->isa, tp__min64(p->g.N - panel * p->nr, p->nr));
    if (p->pack_here) return packed_b + (panel - panel0) * p->nr * kn;
    if (panel >= p->packed_from) return p->packed + (panel - p->packed_from) * p->nr * p->g.K + k * *ldb;
    *ldb = p->g.ldb;
    return p->g.B + k * *ldb + panel * p->nr;
}

/* Computes the gradient descent step C -= rate A B for some rows and the columns [column, end), row by row. Used where
 * K is too small for register tiles. */
static void tp__gemm_descend(const tp__gemm_plan *p, int64_t row0, int64_t rows, int64_t column, int64_t end)
{
    const tp__gemm_args *g = &p->g;
    const tp__even e = {g->ta ? g->A + row0 : g->A + row0 * g->lda,
                        g->B + column,
                        g->C + row0 * g->ldc + column,
                        g->K,
                        g->ta ? 1 : g->lda,
                        g->ta ? g->lda : 1,
                        g->ldb,
                        g->ldc,
                        true,
                        0,
                        NULL,
                        NULL};
    p->isa->descend(&e, rows, end - column, *g->descend);
}

/* Normalises some rows of C, from `column` to `end`, which have just been computed, if that is fused. */
static void tp__gemm_after(const tp__gemm_args *g, const struct tp__isa *isa, int64_t row, int64_t rows, int64_t column,
                           int64_t end)
{
    if (!g->after) return;
    tp__bn part = *g->after;
    float *c = g->C + row * g->ldc + column;
    part.C = end - column, part.row_step = g->ldc;
    part.mean += column, part.scale += column, part.beta += column;
    tp__bn_apply_of[isa->level](&part, rows, c, c);
}

/* A chunk of the matrix product that even tiles compute: a block of rows and panels. Panels that are read in place
 * count as one wide panel. */
static void tp__gemm_even_chunk(void *user, int64_t chunk)
{
    const tp__gemm_plan *p = (const tp__gemm_plan *)user;
    const int64_t row0 = chunk / p->n_blocks * p->mb, mb = tp__min64(p->g.M - row0, p->mb);
    const int64_t panel0 = chunk % p->n_blocks * p->pb, panel1 = tp__min64(panel0 + p->pb, p->panels);
    const int64_t panels_at_once = panel0 < p->packed_from ? panel1 - panel0 : 1;
    for (int64_t panel = panel0; panel < panel1; panel += panels_at_once) {
        int64_t ldb;
        const float *b = tp__gemm_panel(p, NULL, panel, panel0, 0, p->g.K, &ldb);
        tp__even e = tp__gemm_even(&p->g, row0, panel * p->nr, b, ldb);
        e.next = tp__gemm_next_kept(p, panel, panels_at_once, 0, p->g.K);
        tp__even_product_of[p->isa->level](&e, mb, tp__min64(panels_at_once * p->nr, p->g.N - panel * p->nr));
    }
    tp__gemm_after(&p->g, p->isa, row0, mb, panel0 * p->nr, tp__min64(panel1 * p->nr, p->g.N));
}

/* A chunk of the matrix product: a block of rows and panels, and one part of k. */
static void tp__gemm_chunk(void *user, int64_t chunk)
{
    tp__gemm_plan *p = (tp__gemm_plan *)user;
    const tp__gemm_args *g = &p->g;
    const struct tp__isa *isa = p->isa;
    const int64_t part = chunk / (p->m_blocks * p->n_blocks);
    const int64_t row0 = chunk / p->n_blocks % p->m_blocks * p->mb, mb = tp__min64(g->M - row0, p->mb);
    const int64_t panel0 = chunk % p->n_blocks * p->pb, panel1 = tp__min64(panel0 + p->pb, p->panels);
    const int64_t k_begin = part * p->k_part, k_end = tp__min64(k_begin + p->k_part, g->K);
    const bool parts = p->parts > 1;
    float *out = parts ? p->part + part * g->M * g->N : g->C;
    const int64_t ldc = parts ? g->N : g->ldc;
    const int slot = p->slots.floats > 0 ? tp__slot_acquire(&p->slots) : -1;
    float *packed_a = slot >= 0 ? p->slots.memory + slot * p->slots.floats : NULL;
    float *packed_b = slot >= 0 ? packed_a + p->slot_a : NULL;
    const bool descend = g->descend && !parts;
    tp__tile t;
    tp__run run = {0, 0, 0};
    memset(&t, 0, sizeof t);
    t.run = &run;
    t.n_run = 1;

    t.scaled = descend;
    t.scale = descend ? -*g->descend : 1.0f;
    if (descend && isa->descend && g->K <= 8 && !g->tb) {
        tp__gemm_descend(p, row0, mb, panel0 * p->nr, tp__min64(panel1 * p->nr, g->N));
        if (slot >= 0) tp__slot_release(&p->slots, slot);
        return;
    }
    int64_t k = k_begin;
    do { /* the loop runs once even if K is 0, because C must be written */
        int64_t kn = tp__max64(tp__min64(p->kc, k_end - k), 0);
        bool last = k + kn >= k_end && !parts;
        if (p->packed_a) packed_a = p->packed_a + row0 * g->K + mb * k;
        else if (p->pack_a) tp__gemm_pack_a(p, packed_a, row0, mb, k, kn);
        if (g->kept && p->pack_here) packed_b = g->kept + k * p->panels * p->nr + panel0 * p->nr * kn;
        /* The first tile of rows packs the panels before `whole` while it computes; here the others are packed. */
        const int64_t whole = tp__tile_rows(mb, isa->mr) == isa->mr ? g->N / p->nr : panel0;
        const bool pack = p->pack_here && !g->kept_is_ready;
        if (pack) {
            const int64_t first = tp__max64(panel0, tp__min64(whole, panel1));
            tp__gemm_pack_b(p, packed_b + (first - panel0) * p->nr * kn, p->nr * kn, 0, first, panel1, k, kn);
        }
        run.len = kn;
        t.add = k > k_begin || (g->accumulate && !parts) || descend;
        t.ceiling = last ? tp__ceiling(&g->epilogue) : 0;

        for (int64_t i = 0; i < mb; i += t.m) {
            t.m = tp__tile_rows(mb - i, isa->mr);
            t.step = !g->ta ? 1 : p->pack_a ? t.m : g->lda;
            const float *a = packed_a ? packed_a + i * kn : NULL;
            int64_t gap = g->ta ? 1 : kn;
            if (!p->pack_a && g->ta) a = g->A + k * g->lda + row0 + i;
            else if (!p->pack_a) a = g->A + (row0 + i) * g->lda + k, gap = g->lda;
            for (int j = 0; j < t.m; j++, a += gap) t.a[j] = a;
            tp__tile_pad(&t, isa->mr);
            for (int64_t panel = panel0; panel < panel1; panel++) {
                const int64_t column = panel * p->nr, n = tp__min64(g->N - column, p->nr);
                t.prefetch = tp__gemm_prefetch(p, &t, i, panel, panel0, k, kn, mb, row0);
                t.bias = last && g->epilogue.bias ? g->epilogue.bias + column : NULL;
                float *c = out + (row0 + i) * ldc + column;
                t.b = tp__gemm_panel(p, packed_b, panel, panel0, k, kn, &t.ldb);
                for (int j = 0; j < t.m; j++, c += ldc) t.c[j] = c;
                if (p->row) {
                    isa->row(&t, tp__min64(panel1 * p->nr, g->N) - column);
                    break;
                }
                if (pack && i == 0 && panel < whole) {
                    t.n = (int)n, t.panel = packed_b + (panel - panel0) * p->nr * kn;
                    t.b = g->B + k * g->ldb + column, t.ldb = g->ldb;
                    isa->tile_pack(&t);
                } else tp__run_tile(isa, &t, n);
            }
        }
        k += kn;
    } while (k < k_end);
    if (!parts) tp__gemm_after(g, isa, row0, mb, panel0 * p->nr, tp__min64(panel1 * p->nr, g->N));
    if (slot >= 0) tp__slot_release(&p->slots, slot);
}

/* A chunk that adds the partial sums of the parts of k, for some rows of C. */
static void tp__gemm_add_parts(void *user, int64_t chunk)
{
    const tp__gemm_plan *p = (const tp__gemm_plan *)user;
    const tp__gemm_args *g = &p->g;
    const int64_t row0 = chunk * p->isa->mr, row1 = tp__min64(row0 + p->isa->mr, g->M);
    float *sum = p->part + row0 * g->N;
    tp__tree_add(p->isa, sum, g->M * g->N, p->parts, (row1 - row0) * g->N);
    for (int64_t i = row0; i < row1; i++)
        for (int64_t j = 0; j < g->N; j++, sum++) {
            float *c = &g->C[i * g->ldc + j];
            if (g->descend) *c = tp__descend_value(*c, *g->descend, *sum);
            else *c = tp__apply_epilogue(&g->epilogue, j, g->accumulate ? *sum + *c : *sum);
        }
    tp__gemm_after(g, p->isa, row0, row1 - row0, 0, g->N);
}

/* n rounded up to a multiple of a power of two */
static int64_t tp__round_up(int64_t n, int64_t to) { return (n + to - 1) & -to; }

/* Marks a matrix of a single row or column as transposed, or not, so that no values must be moved: its transpose has
 * the same memory. */
static void tp__gemm_untranspose(tp__gemm_args *a)
{
    if (a->ta && a->M == 1 && a->lda == 1) a->ta = false, a->lda = a->K;
    if (!a->tb && a->N == 1 && a->ldb == 1) a->tb = true, a->ldb = a->K;
    else if (a->tb && a->K == 1 && a->ldb == 1) a->tb = false, a->ldb = a->N;
}

/* -- which index the vectors run along ------------------------------------------------------------------------------------- */

/* Vectors can run along the columns of C (n), which is the usual way; along its rows (m): then C^T = op(B)^T op(A)^T is computed, and
 * transposed; or along k: then each value of C is a dot product. An operand whose memory runs the other way is transposed first. */
typedef enum tp__along { TP__ALONG_N, TP__ALONG_M, TP__ALONG_K } tp__along;

/* Estimated cost of transposing n values, in multiplications of one lane. It is higher if the matrix and its transpose exceed L2. */
static int64_t tp__turn_cost(int64_t n, int64_t vw) { return vw < 8 ? n * vw / 2 : n > TP__TURN_NEAR ? 16 * n : 8 * n; }

/* Chooses the index along which vectors run by estimated cost: the number of lanes that are computed, full or empty, and what must be
 * transposed. A dot product adds its lanes at the end, and loads more for each multiplication. A transposed A is never read along k,
 * so that a step of gradient descent has the same sums as the gradient by itself. The numbers were fitted to the times of 7,000 random
 * products of 1 to 2,048 in each dimension, under AVX-512, AVX2 and SSE2, on one thread of an Intel Sapphire Rapids. */
static tp__along tp__gemm_along(const tp__gemm_args *a, const struct tp__isa *isa)
{
    const int64_t M = a->M, N = a->N, K = a->K, vw = isa->vw;
    if (a->descend || K < 1) return TP__ALONG_N;
    const int64_t n = M * K * tp__round_up(N, vw) + (a->tb && N > 1 ? tp__turn_cost(N * K, vw) : 0);
    const int64_t back = N == 1 ? 0 : (a->accumulate ? 2 : 1) * tp__turn_cost(M * N, vw);
    const int64_t m = N * K * tp__round_up(M, vw) + (a->ta ? 0 : tp__turn_cost(M * K, vw)) + back;
    const int64_t k = M * N * (tp__round_up(K, vw) + 4 * vw) * 5 / 4 + (a->tb ? 0 : tp__turn_cost(N * K, vw));
    const bool along_k = isa->dots && !a->ta && (K < TP__K_PARTS || (a->tb && M <= 4));
    if (along_k && k < n && k <= m) return TP__ALONG_K;
    return m < n - n / 32 ? TP__ALONG_M : TP__ALONG_N;
}

/* -- along n ------------------------------------------------------------------------------------------------------------------ */

/* Whether a product is so small that one thread computes it without a plan. */
static bool tp__gemm_is_small(const tp__gemm_args *a, const struct tp__isa *isa)
{
    return a->M * a->N * a->K <= TP__CHUNK_MIN / 2 && tp__gemm_is_even(a, isa);
}

/* The transposed flag of *a is cleared for a B of a single column, which can be read in place. */
static size_t tp__gemm_along_n_scratch(tp_device *d, tp__gemm_args *a)
{
    if (a->tb && a->N == 1) a->tb = false, a->ldb = 1;
    tp__gemm_plan p;
    tp__carver c = tp__carver_over(NULL);
    if (!tp__gemm_is_small(a, d->isa)) return tp__gemm_plan_make(&p, d, a, false, NULL);
    tp__carve(&c, a->tb ? a->K * tp__round_up(a->N, d->isa->vw) : 0, sizeof(float));
    return tp__carved(&c);
}

static void tp__gemm_along_n(tp_device *d, tp__gemm_args *a, void *scratch)
{
    if (a->tb && a->N == 1) a->tb = false, a->ldb = 1;
    if (tp__gemm_is_small(a, d->isa)) {
        tp__carver c = tp__carver_over(scratch);
        const int64_t width = tp__round_up(a->N, d->isa->vw);
        float *b = a->tb ? (float *)tp__carve(&c, a->K * width, sizeof *b) : NULL;
        if (b) d->isa->transpose(b, width, width, a->B, a->ldb, a->N, a->K);
        const tp__even e = tp__gemm_even(a, 0, 0, b ? b : a->B, b ? width : a->ldb);
        tp__even_product_of[d->isa->level](&e, a->M, a->N);
        tp__gemm_after(a, d->isa, 0, a->M, 0, a->N);
        return;
    }
    tp__gemm_plan p;
    tp__gemm_plan_make(&p, d, a, a->kept != NULL, scratch);
    /* a small matrix is packed by one thread, because starting another one takes longer */
    const int64_t pack_b =
        p.packed_from < p.panels && !a->kept_is_ready ? tp__gemm_pack_groups(&p) * tp__ceil_div(a->K, p.pack_k) : 0;
    const int64_t pack_a = p.packed_a ? p.m_blocks * p.parts * tp__ceil_div(p.k_part, p.kc) : 0;
    const bool pack_b_alone = (p.panels - p.packed_from) * p.nr * a->K <= TP__PACK_ALONE;
    tp_device_parallel(pack_b_alone ? NULL : d, pack_b, tp__gemm_pack_panels, &p);
    tp_device_parallel(a->M * a->K <= TP__PACK_ALONE ? NULL : d, pack_a, tp__gemm_pack_rows, &p);
    tp_device_parallel(d, p.m_blocks * p.n_blocks * p.parts, p.even ? tp__gemm_even_chunk : tp__gemm_chunk, &p);
    if (p.parts > 1) tp_device_parallel(d, tp__ceil_div(a->M, p.isa->mr), tp__gemm_add_parts, &p);
}

/* -- along m ------------------------------------------------------------------------------------------------------------------ */

typedef struct tp__gemm_turned {
    const tp__gemm_args *g; /* the product as the caller described it */
    const struct tp__isa *isa;
    float *ct;          /* C^T */
    int64_t chunk_rows; /* rows of C in a chunk */
} tp__gemm_turned;

/* Returns the arguments of the product that computes C^T, without bias and activation. */
static tp__gemm_args tp__gemm_turn(const tp__gemm_args *a)
{
    tp__gemm_args t = *a;
    t.ta = !a->tb, t.tb = !a->ta;
    t.M = a->N, t.N = a->M;
    t.A = a->B, t.B = a->A;
    t.lda = a->ldb, t.ldb = a->lda, t.ldc = a->M;
    memset(&t.epilogue, 0, sizeof t.epilogue);
    t.after = NULL;
    t.kept = NULL, t.kept_is_ready = false;
    tp__gemm_untranspose(&t);
    return t;
}

/* A chunk of the final transposition: rows of C from columns of C^T. */
static void tp__gemm_turn_back(void *user, int64_t chunk)
{
    const tp__gemm_turned *x = (const tp__gemm_turned *)user;
    const tp__gemm_args *g = x->g;
    const int64_t row0 = chunk * x->chunk_rows, rows = tp__min64(x->chunk_rows, g->M - row0);
    float *c = g->C + row0 * g->ldc;
    if (x->ct != g->C) x->isa->transpose(c, g->ldc, g->N, x->ct + row0, g->M, g->N, rows);
    for (int64_t i = 0; i < rows && (g->epilogue.bias || g->epilogue.act == TP_EPILOGUE_RELU); i++, c += g->ldc)
        for (int64_t j = 0; j < g->N; j++) c[j] = tp__apply_epilogue(&g->epilogue, j, c[j]);
    tp__gemm_after(g, x->isa, row0, rows, 0, g->N);
}

static void tp__gemm_along_m(tp_device *d, const tp__gemm_args *a, void *scratch)
{
    tp__carver c = tp__carver_over(scratch);
    tp__gemm_args t = tp__gemm_turn(a);
    tp__gemm_turned x = {a, d->isa, (float *)tp__carve(&c, a->M * a->N, sizeof(float)), 0};
    if (a->N == 1 && a->ldc == 1) x.ct = a->C; /* a single column has the same memory as its transpose */
    t.C = x.ct;
    x.chunk_rows = tp__ceil_div(TP__PACK_ALONE, a->N);
    if (a->accumulate && x.ct != a->C) x.isa->transpose(x.ct, a->M, a->M, a->C, a->ldc, a->M, a->N);
    tp__gemm_along_n(d, &t, c.base + c.used);
    tp_device_parallel(d, tp__ceil_div(a->M, x.chunk_rows), tp__gemm_turn_back, &x);
}

/* -- along k ------------------------------------------------------------------------------------------------------------------ */

typedef struct tp__gemm_dots {
    const tp__gemm_args *g;
    const struct tp__isa *isa;
    const float *x, *y; /* rows of op(A) and of op(B)^T; y is the operand with more rows, x the other */
    int64_t ldx, ldy, x_rows, y_rows;
    int64_t c_step_x, c_step_y; /* floats from C's value for a row of x, or of y, to that for the next row */
    int64_t chunk_rows;         /* rows of y in a chunk of work */
    bool x_is_column;           /* true: a row of x gives a column of C; false: a row of C */
} tp__gemm_dots;

/* A chunk of the dot products: some rows of y, a few at a time, with all of x. */
static void tp__gemm_dots_chunk(void *user, int64_t chunk)
{
    const tp__gemm_dots *p = (const tp__gemm_dots *)user;
    const tp__gemm_args *g = p->g;
    const bool plain_store = !g->accumulate && !g->epilogue.bias && g->epilogue.act != TP_EPILOGUE_RELU;
    const int64_t begin = chunk * p->chunk_rows, end = tp__min64(begin + p->chunk_rows, p->y_rows);
    for (int64_t j = begin, n; j < end; j += n) {
        n = tp__min64(TP__DOTS, end - j);
        for (int64_t i = 0; i < p->x_rows; i += 4) {
            const int m = (int)tp__min64(4, p->x_rows - i);
            float sum[4 * TP__DOTS];
            p->isa->dots(g->K, p->x + i * p->ldx, p->ldx, m, p->y + j * p->ldy, p->ldy, n, sum);
            for (int64_t q = 0; q < m; q++) {
                float *c = g->C + (i + q) * p->c_step_x + j * p->c_step_y;
                for (int64_t l = 0; l < n; l++, c += p->c_step_y) {
                    const float v = sum[q * TP__DOTS + l];
                    if (plain_store) *c = v;
                    else
                        *c = tp__apply_epilogue(&g->epilogue, p->x_is_column ? i + q : j + l,
                                                g->accumulate ? v + *c : v);
                }
            }
        }
    }
    if (p->x_is_column) tp__gemm_after(g, p->isa, begin, end - begin, 0, g->N);
    else tp__gemm_after(g, p->isa, 0, g->M, begin, end);
}

static void tp__gemm_along_k(tp_device *d, const tp__gemm_args *a, void *scratch)
{
    tp__carver c = tp__carver_over(scratch);
    const float *b = a->B;
    int64_t ldb = a->ldb;
    if (!a->tb) {
        float *turned = (float *)tp__carve(&c, a->N * a->K, sizeof *turned);
        d->isa->transpose(turned, a->K, a->K, a->B, a->ldb, a->K, a->N);
        b = turned, ldb = a->K;
    }
    tp__gemm_dots p;
    p.g = a, p.isa = d->isa;
    p.x_is_column = a->N < a->M;
    p.x = p.x_is_column ? b : a->A, p.ldx = p.x_is_column ? ldb : a->lda, p.x_rows = p.x_is_column ? a->N : a->M;
    p.y = p.x_is_column ? a->A : b, p.ldy = p.x_is_column ? a->lda : ldb, p.y_rows = p.x_is_column ? a->M : a->N;
    p.c_step_x = p.x_is_column ? 1 : a->ldc, p.c_step_y = p.x_is_column ? a->ldc : 1;
    p.chunk_rows = tp__round_up(tp__ceil_div(TP__CHUNK_MIN / 2, a->K * p.x_rows), TP__DOTS);
    tp_device_parallel(d, tp__ceil_div(p.y_rows, p.chunk_rows), tp__gemm_dots_chunk, &p);
}

TP__SMALL static size_t tp__gemm_fast_scratch(tp_device *d, const tp__gemm_args *product)
{
    tp__gemm_args a = *product;
    tp__gemm_untranspose(&a);
    const tp__along along = tp__gemm_along(&a, d->isa);
    if (along == TP__ALONG_N) return tp__gemm_along_n_scratch(d, &a);
    tp__carver c = tp__carver_over(NULL);
    if (along == TP__ALONG_K) tp__carve(&c, a.tb ? 0 : a.N * a.K, sizeof(float));
    else {
        tp__gemm_args t = tp__gemm_turn(&a);
        tp__carve(&c, a.M * a.N, sizeof(float));
        tp__carve(&c, (int64_t)tp__gemm_along_n_scratch(d, &t), 1);
    }
    return tp__carved(&c);
}

#define TP__KEEP_ROWS 1024 /* rows of C up to which packing B takes long enough to keep the panels for the next call */
/* Number of floats for the panels of B that the product keeps; 0: it packs none, or this takes a small part of its time. */
TP__SMALL static int64_t tp__gemm_kept(tp_device *d, const tp__gemm_args *product)
{
    tp__gemm_args a = *product;
    tp__gemm_plan p;
    tp__gemm_untranspose(&a);
    if (a.M <= 0 || a.N <= 0 || a.K <= 0 || a.M > TP__KEEP_ROWS || tp__gemm_along(&a, d->isa) != TP__ALONG_N) return 0;
    if (a.tb && a.N == 1) a.tb = false, a.ldb = 1;
    if (tp__gemm_is_small(&a, d->isa)) return 0;
    tp__gemm_plan_make(&p, d, &a, true, NULL);
    /* if several blocks of rows pack the panels that they use, each panel is packed by several threads */
    if (p.pack_here) return p.m_blocks == 1 ? p.panels * p.nr * a.K : 0;
    return (p.panels - p.packed_from) * p.nr * a.K;
}

static void tp__gemm_fast(tp_device *d, const tp__gemm_args *product, void *scratch)
{
    tp__gemm_args a = *product;
    tp__gemm_untranspose(&a);
    const tp__along along = tp__gemm_along(&a, d->isa);
    if (along == TP__ALONG_N) tp__gemm_along_n(d, &a, scratch);
    else if (along == TP__ALONG_M) tp__gemm_along_m(d, &a, scratch);
    else tp__gemm_along_k(d, &a, scratch);
}

/* -- many small products with one matrix: it is packed once, then used by chunks of some rows each ------------------- */

TP__UNUSED static int64_t tp__packed_floats(const struct tp__isa *isa, int64_t K, int64_t N)
{
    return tp__ceil_div(N, 2 * isa->vw) * 2 * isa->vw * K;
}

/* Packs B[K,N] into panels; if tb, B is stored as [N,K]. Its rows are ldb floats apart. */
TP__UNUSED static void tp__pack_matrix(const struct tp__isa *isa, float *packed, const float *B, int64_t ldb, bool tb,
                                       int64_t K, int64_t N)
{
    const int64_t nr = 2 * isa->vw;
    for (int64_t column = 0; column < N; column += nr) {
        const float *b = B + (tb ? column * ldb : column);
        tp__pack_panel(isa, packed + column * K, b, ldb, tb, K, tp__min64(N - column, nr));
    }
}

#define TP__PACKED_BLOCK 98304 /* floats in a block of B that is reused while it is in L2 */
/* Computes m rows of C (+)= A B + bias, with B packed before, on the calling thread. */
typedef struct tp__by_packed {
    const struct tp__isa *isa;
    const float *A;
    int64_t lda, step; /* lda: floats between two rows of A; step: between the values of a row along k */
    /* floats from one panel of A to the next, if A is stored in panels of two vectors of columns; else 0 */
    int64_t gap;
    float *C;
    int64_t ldc;
    /* packed: the panels of B, each with packed_k rows, of which the first K are used. bias: N values or NULL */
    const float *packed, *bias;
    int64_t packed_k, K, N;
    bool add;
} tp__by_packed;
TP__UNUSED static void tp__by_packed_rows(const tp__by_packed *p, int64_t m)
{
    const struct tp__isa *isa = p->isa;
    const int64_t nr = 2 * isa->vw, K = p->K, k_blocks = tp__max64(1, tp__ceil_div(K, TP__KC));
    const int64_t kc = p->gap ? tp__ceil_div(tp__ceil_div(K, k_blocks), nr) * nr : tp__ceil_div(K, k_blocks);
    /* number of columns of B that fit into L2 */
    const int64_t columns = tp__max64(1, TP__PACKED_BLOCK / tp__max64(1, kc) / nr) * nr;
    const int64_t stretch = p->gap ? nr : tp__max64(1, kc);
    tp__run run[TP__KC / 8]; /* a panel is at least 8 columns wide */
    tp__tile t;
    memset(&t, 0, sizeof t);
    t.run = run;
    t.step = p->step;
    for (int64_t c0 = 0; c0 < p->N; c0 += columns)
        for (int64_t kb = 0; kb < k_blocks; kb++) {
            const int64_t k = kb * kc, c1 = tp__min64(c0 + columns, p->N), len = tp__max64(0, tp__min64(kc, K - k));
            const float *A = p->A + (p->gap ? k / nr * p->gap : k * p->step);
            t.n_run = 0;
            do {
                const int64_t from = t.n_run * stretch;
                run[t.n_run].at = t.n_run * p->gap;
                run[t.n_run].skip = 0;
                run[t.n_run].len = tp__min64(stretch, len - from);
            } while (++t.n_run * stretch < len);
            t.add = p->add || kb > 0;
            for (int64_t i = 0; i < m; i += t.m) {
                t.m = tp__tile_rows(m - i, isa->mr);
                for (int j = 0; j < t.m; j++) t.a[j] = A + (i + j) * p->lda;
                tp__tile_pad(&t, isa->mr);
                for (int64_t column = c0; column < c1; column += nr) {
                    const int64_t n = tp__min64(p->N - column, nr);
                    t.ldb = tp__panel_width(isa, n);
                    t.b = p->packed + column * p->packed_k + k * t.ldb;
                    t.bias = p->bias && kb == k_blocks - 1 ? p->bias + column : NULL;
                    for (int j = 0; j < t.m; j++) t.c[j] = p->C + (i + j) * p->ldc + column;
                    tp__run_tile(isa, &t, n);
                }
            }
        }
}
/* The same as tp__by_packed, but with plain arguments, without bias, and with A stored by rows, not in panels. */
TP__UNUSED static void tp__rows_by_packed(const struct tp__isa *isa, int64_t m, const float *A, int64_t lda,
                                          int64_t step, float *C, int64_t ldc, const float *packed, int64_t packed_k,
                                          int64_t K, int64_t N, bool add)
{
    tp__by_packed p;
    memset(&p, 0, sizeof p);
    p.isa = isa, p.A = A, p.lda = lda, p.step = step, p.C = C, p.ldc = ldc;
    p.packed = packed, p.packed_k = packed_k, p.K = K, p.N = N, p.add = add;
    tp__by_packed_rows(&p, m);
}

/* ==== >>conv: convolutions ============================================================================= */
/* Images are NHWC. Convolutions with filters of 3x3 and larger and with 16 channels or more in a group, with a stride or dilated
 * or not, use one of Winograd's forms where that saves time (tp__wino_form_of). Their error against double is 3 to 7e-7 of the sum
 * of magnitudes for filters of 3x3 and 0.4 to 3e-6 for larger ones; that of the direct sum is 2e-7. An infinity or NaN in x
 * spreads to all positions of each tile of the output that reads it. An infinity or NaN in w spreads to the positions at the
 * border, where the naive loop leaves a weight out, if the kernel multiplies it by a zero that stands for the pixel outside. */

/* A convolution for tp__convolve (>>entries): its geometry, what it reads and writes, and what is fused into it. */
typedef struct tp__conv_args {
    tp__conv g; /* x_stride_b to y_stride_c are not used: x and y are NHWC */
    /* inputs: the forward pass reads x and w, the input gradient dy and w, the filter gradient x and dy */
    const float *x, *w, *dy;
    float *y, *dx, *dw;    /* outputs: one of them is written */
    tp__epilogue epilogue; /* bias and activation of the output; not for the filter gradient */
    /* not NULL: a batch norm, whose output is elided, is applied to x: (x - norm[c]) norm[C + c] + norm[2C + c], then a ReLU if
     * norm_relu. Not for the input gradient, and only for one group and a filter larger than 1x1. */
    const float *norm;
    bool norm_relu;
    const tp__bn *after; /* not NULL: y is normalised after the activation; see tp__conv_normalises */
    const float *more;   /* not NULL: y or dx = the result + more. Not for the filter gradient; see tp__conv_adds */
    float
        *kept; /* not NULL: memory for packed weights, tp__conv_kept floats; it lasts beyond this call. Forward only */
    bool kept_is_ready; /* the packed weights of this w are in it already */
} tp__conv_args;

/* Normalises so many pixels of y that have just been computed, if that is fused. */
static void tp__conv_after(const tp__conv_args *a, const struct tp__isa *isa, float *y, int64_t pixels)
{
    if (a->after) tp__bn_apply_of[isa->level](a->after, pixels, y, y);
}

/* The common part of a convolution's forward pass, input gradient and filter gradient: a grid of `rows` x `cols`
 * positions, one stride apart, each of which reads a window of an image. The grid is processed in pieces: either some
 * rows of one image or some whole images. A piece's part of the image is copied into a buffer with zeros around it,
 * unless no window crosses the edge. */
typedef struct tp__grid {
    const float *src;
    bool norm; /* the pixels are batch-normalised while they are copied */
    tp__bn bn;
    int level; /* index of the instruction set, tp__isa.level */
    /* the source images: size, channels that are read, floats from one pixel to the next */
    int64_t images, h, w, c, pixel;
    int64_t rows, cols, stride_h, stride_w; /* size of the grid of positions, and the stride between them */
    /* the window: offset of its corner from a position times the stride, its height and width */
    int64_t top, left, window_h, window_w;
    bool in_place;
    int64_t piece_rows, piece_images, pieces;
    /* floats from one row of pixels to the next, from one row of positions to the next, and from one image to the next, in the
     * images or the buffer that is read; the buffer has no rows that no window reads */
    int64_t row_floats, step_floats, image_floats;
    int64_t buffer_floats;
} tp__grid;

typedef struct tp__piece {
    /* first image and row of the piece in the grid, and the numbers of images and rows */
    int64_t image, images, row, rows;
    const float *at; /* the pixel under the window's corner at the piece's first position */
} tp__piece;

#define TP__BUFFER_FLOATS 49152 /* floats in a piece's buffer, which should stay in L2 */

/* Whether the windows can be read from the images as they are. */
static bool tp__grid_in_place(const tp__grid *g)
{
    return !g->norm && g->pixel == g->c && g->top >= 0 && g->left >= 0 &&
           (g->rows - 1) * g->stride_h + g->top + g->window_h <= g->h &&
           (g->cols - 1) * g->stride_w + g->left + g->window_w <= g->w;
}

/* Cuts the grid, whose in_place is set, into pieces of about `work` units of work each; one position counts as `each` units. */
TP__SMALL static void tp__grid_split(tp__grid *g, int64_t each, int64_t work)
{
    const int64_t buffer_row = ((g->cols - 1) * g->stride_w + g->window_w) * g->c,
                  image = tp__max64(1, g->rows * g->cols * each), step = tp__min64(g->stride_h, g->window_h);
    /* 1. rows of an image in a piece: all, unless that is too much work or needs too large a buffer */
    int64_t cuts = tp__max64(1, image / (2 * work));
    if (g->images * cuts < TP__CHUNK_MANY)
        cuts = tp__max64(cuts, tp__min64(TP__CHUNK_MANY / g->images, 2 * image / work));
    g->piece_rows = tp__ceil_div(g->rows, tp__min64(tp__max64(1, cuts), g->rows));
    while (!g->in_place && g->piece_rows > 1 &&
           ((g->piece_rows - 1) * step + g->window_h) * buffer_row > TP__BUFFER_FLOATS)
        g->piece_rows = (g->piece_rows + 1) / 2;
    /* 2. several whole images in a piece, if one image is too little work */
    g->piece_images = 1;
    int64_t floats = ((g->piece_rows - 1) * step + g->window_h) * buffer_row;
    if (g->piece_rows == g->rows && image < work) {
        g->piece_images = tp__min64(g->images, work / image);
        if (!g->in_place) g->piece_images = tp__min64(g->piece_images, TP__BUFFER_FLOATS / floats);
        g->piece_images = tp__max64(g->piece_images, 1);
    }
    g->pieces = tp__ceil_div(g->images, g->piece_images) * tp__ceil_div(g->rows, g->piece_rows);
    if (g->in_place) {
        g->row_floats = g->w * g->pixel;
        g->step_floats = g->stride_h * g->row_floats;
        g->image_floats = g->h * g->row_floats;
        g->buffer_floats = 0;
    } else {
        g->row_floats = buffer_row;
        g->step_floats = step * buffer_row;
        g->image_floats = floats; /* a piece with several images contains all their rows */
        g->buffer_floats = floats * g->piece_images;
    }
}

/* Sets the source x and its batch normalisation, which is applied while x is copied. */
static void tp__grid_norm(tp__grid *g, const tp__conv_args *a, const struct tp__isa *isa)
{
    g->norm = a->norm != NULL;
    g->level = isa->level;
    if (!g->norm) return;
    g->bn.C = a->g.C;
    g->bn.mean = a->norm;
    g->bn.scale = a->norm + a->g.C;
    g->bn.beta = a->norm + 2 * a->g.C;
    g->bn.relu = a->norm_relu;
}

/* Number of columns of positions for which a tap, `at` columns from the position times the stride, reads inside the image. */
static int64_t tp__grid_inside(const tp__grid *g, int64_t at)
{
    const int64_t begin = tp__ceil_div(tp__max64(0, -at), g->stride_w);
    const int64_t end = tp__ceil_div(tp__max64(0, g->w - at), g->stride_w); /* one after the last */
    return tp__max64(0, tp__min64(end, g->cols) - begin);
}

/* The images and rows of a piece. */
static tp__piece tp__grid_piece(const tp__grid *g, int64_t index)
{
    const int64_t cuts = tp__ceil_div(g->rows, g->piece_rows);
    tp__piece p;
    p.image = index / cuts * g->piece_images;
    p.images = tp__min64(g->piece_images, g->images - p.image);
    p.row = index % cuts * g->piece_rows;
    p.rows = tp__min64(g->piece_rows, g->rows - p.row);
    p.at = NULL;
    return p;
}

/* Returns piece `index`; copies the pixels under its windows, channels [channel, channel + c), into buffer. */
static tp__piece tp__grid_load(const tp__grid *g, int64_t index, int64_t channel, float *buffer)
{
    tp__piece p = tp__grid_piece(g, index);
    int64_t y0 = p.row * g->stride_h + g->top;
    if (g->in_place) {
        p.at = g->src + p.image * g->image_floats + y0 * g->row_floats + g->left * g->c;
        return p;
    }
    p.at = buffer;
    const int64_t buffer_w = g->row_floats / g->c, c = g->c, step = g->step_floats / g->row_floats;
    const int64_t tall = (p.rows - 1) * step + g->window_h;
    /* number of columns of zeros on the left of the image */
    const int64_t before = tp__min64(tp__max64(-g->left, 0), buffer_w);
    const int64_t inside = tp__max64(0, tp__min64(g->left + buffer_w, g->w) - (g->left + before));
    const int64_t after = buffer_w - before - inside; /* number of columns of zeros on the right of the image */
    for (int64_t i = 0; i < p.images; i++)
        for (int64_t y = 0; y < tall; y++) {
            float *row = buffer + i * g->image_floats + y * g->row_floats;
            const int64_t from = y0 + y / step * g->stride_h + y % step;
            if (from < 0 || from >= g->h) {
                memset(row, 0, (size_t)(buffer_w * c) * sizeof *row);
                continue;
            }
            memset(row, 0, (size_t)(before * c) * sizeof *row);
            if (inside > 0) {
                const float *src =
                    g->src + (((p.image + i) * g->h + from) * g->w + g->left + before) * g->pixel + channel;
                if (g->norm) tp__bn_apply_of[g->level](&g->bn, inside, src, row + before * c);
                else if (g->pixel == c) memcpy(row + before * c, src, (size_t)(inside * c) * sizeof *row);
                else tp__copy_rows(row + before * c, c, src, g->pixel, c, inside);
            }
            memset(row + (before + inside) * c, 0, (size_t)(after * c) * sizeof *row);
        }
    return p;
}

/* While a piece is computed, prefetches the pixels of the next piece into L2, a few at a time. */
typedef struct tp__prefetch {
    const float *at, *end;
} tp__prefetch;
static tp__prefetch tp__prefetch_of(const float *at, int64_t n)
{
    tp__prefetch a;
    a.at = at;
    a.end = at ? at + n : at;
    return a;
}
/* Returns the pixels of piece `index` that are to be prefetched: one of `shares` equal parts, the one with number `share`. */
static tp__prefetch tp__grid_prefetch(const tp__grid *g, int64_t index, int64_t share, int64_t shares)
{
    const int64_t cuts = tp__ceil_div(g->rows, g->piece_rows), image = index / cuts * g->piece_images;
    if (index >= g->pieces) return tp__prefetch_of(NULL, 0);
    const int64_t y = index % cuts * g->piece_rows * g->stride_h + g->top, row = g->w * g->pixel;
    const int64_t y0 = tp__min64(tp__max64(y, 0), g->h),
                  y1 = tp__min64(tp__max64(y + (g->piece_rows - 1) * g->stride_h + g->window_h, y0), g->h);
    const bool one = g->piece_images == 1;
    const int64_t first = one ? (image * g->h + y0) * row : image * g->h * row;
    const int64_t n = one ? (y1 - y0) * row : tp__min64(g->piece_images, g->images - image) * g->h * row;
    return tp__prefetch_of(g->src + first + n * share / shares, n * (share + 1) / shares - n * share / shares);
}
static int64_t tp__prefetch_share(const tp__prefetch *a, int64_t times) { return tp__ceil_div(a->end - a->at, times); }
static void tp__prefetch_next(tp__prefetch *a, int64_t n)
{
    n = tp__max64(0, tp__min64(n, a->end - a->at));
    if (n == 0) return; /* nothing is left to prefetch, and the address may be invalid */
    tp__prefetch_row(a->at, n);
    a->at += (n + 15) / 16 * 16;
}

/* Prefetches the part of the output that will be written next. */
static void tp__prefetch_written(tp__prefetch *a, int64_t n)
{
    n = tp__max64(0, tp__min64(n, a->end - a->at));
    if (n == 0) return;
    for (int64_t i = 0; i < n; i += 16) __builtin_prefetch(a->at + i, 1, 2);
    a->at += (n + 15) / 16 * 16;
}

/* -- forward and input gradient ------------------------------------------------------------------- >>conv gather */
/* Computes dst[position] = sum over taps of src[position * stride + tap] B[tap], where a tap is one of the window's
 * pixels. Forward: src is x, B is w. Input gradient: src is dy, and B is w transposed; pixels of dx with the same
 * remainder modulo the stride see the same taps, so each such phase is a convolution of its own with stride 1. */

typedef struct tp__tap {
    int64_t y, x; /* the tap reads the pixel at the position times the stride plus (y, x) */
    int64_t w;    /* index of the tap's weight in the kernel, r*KW + s */
} tp__tap;

typedef struct tp__k_block {
    int first_run, runs;
} tp__k_block;
/* Of a run: the number of its first row of B; relative to a position's, the first and last row of the source that it reads, and the
 * first float in that row. */
typedef struct tp__run_place {
    int64_t k, y0, y1, x;
} tp__run_place;

typedef struct tp__gather {
    tp__grid grid;
    const tp__conv_args *a;
    const struct tp__isa *isa;
    bool input_grad;
    /* the phase: the first position in dst; the next ones are step_y, step_x apart */
    int64_t phase_y, phase_x;
    /* dst_pixel: number of channels in a pixel of dst, all groups together */
    int64_t step_y, step_x, dst_h, dst_w, dst_pixel;
    int64_t ic, oc, groups;                    /* input and output channels of one group; number of groups */
    int64_t taps, K, nr, panels, group_floats; /* group_floats: floats of a group's packed weights */
    int64_t max_runs;
    int64_t column_parts; /* number of chunks that share a piece, each with some of the panels */
    int runs, k_blocks;
    bool even;     /* use even tiles: there is one vector of output channels, and even tiles can cover the rows */
    bool dots;     /* use dot products: there are few output channels (tp__gather_few) */
    bool by_image; /* a tile's rows are the same position in different images; see tp__gather_by_image */
    bool planes;   /* a tile's rows are the output channels, and its columns are positions; see tp__gather_in_planes */
    int64_t plane, columns; /* planes: floats of the plane of an input channel, and of an output channel's sums */
    float *dst, *packed;
    tp__tap *tap;
    tp__run *run;
    tp__run_place *place; /* of each run */
    tp__k_block *k_block;
    tp__slots slots;
} tp__gather;

/* Computes the offset in the source that kernel row or column r reads in this phase of the stride; returns false if the
 * phase does not use it. */
static bool tp__tap_at(int64_t phase, int64_t pad, int64_t r, int64_t dilation, int64_t stride, int64_t *at)
{
    int64_t i = phase + pad - r * dilation;
    *at = i / stride;
    return i % stride == 0;
}

/* Computes the offset in the source that row r (vertical) or column r of the kernel reads, in the forward pass or the input gradient;
 * returns false if this phase does not use it. */
static bool tp__gather_tap_at(const tp__gather *g, bool vertical, int64_t r, int64_t *at)
{
    const tp__conv *c = &g->a->g;
    const int64_t pad = vertical ? c->top : c->left, dilation = vertical ? c->dilation_h : c->dilation_w;
    *at = r * dilation - pad;
    return !g->input_grad ||
           tp__tap_at(vertical ? g->phase_y : g->phase_x, pad, r, dilation, vertical ? c->stride_h : c->stride_w, at);
}

/* Fills in the taps in the order of their addresses in the source. Returns their number; `out` may be NULL. */
TP__SMALL static int64_t tp__gather_taps(const tp__gather *g, tp__tap *out, int64_t *y0, int64_t *y1, int64_t *x0,
                                         int64_t *x1)
{
    const tp__conv_args *a = g->a;
    int64_t n = 0;
    for (int64_t i = 0; i < a->g.KH; i++)
        for (int64_t j = 0; j < a->g.KW; j++) {
            int64_t r = g->input_grad ? a->g.KH - 1 - i : i, s = g->input_grad ? a->g.KW - 1 - j : j, y, x;
            if (!tp__gather_tap_at(g, true, r, &y) || !tp__gather_tap_at(g, false, s, &x)) continue;
            if (n == 0) {
                *y0 = *y1 = y;
                *x0 = *x1 = x;
            }
            *y0 = tp__min64(*y0, y);
            *y1 = tp__max64(*y1, y);
            *x0 = tp__min64(*x0, x);
            *x1 = tp__max64(*x1, x);
            if (out) {
                out[n].y = y;
                out[n].x = x;
                out[n].w = r * a->g.KW + s;
            }
            n++;
        }
    return n;
}

/* Of all pairs of a column of positions and a column of taps: the part that reads a column inside the image. */
static double tp__gather_inside_part(const tp__gather *g)
{
    int64_t inside = 0, all = 0, at;
    for (int64_t r = 0; r < g->a->g.KW; r++) {
        if (!tp__gather_tap_at(g, false, r, &at)) continue;
        inside += tp__grid_inside(&g->grid, at);
        all += g->grid.cols;
    }
    return all ? (double)inside / (double)all : 1;
}

/* Whether there are so few output channels that a vector of them would be nearly empty. */
static bool tp__gather_few(const tp__gather *g) { return g->oc <= TP__FEW && g->oc <= g->isa->vw / 4; }

/* Whether the last panel has three vectors of columns. Its tiles take as long for one row as for seven. */
static bool tp__gather_three(const tp__gather *g)
{
    return tp__panel_vectors(g->isa, tp__conv_columns(g->isa, g->oc, g->panels - 1)) > 2;
}

/* A tile's rows can be one position in several images, or neighbouring positions of one image. Returns the number of images in a
 * tile, or 0 for neighbours. A tile of several images leaves out every tap that reads beyond the image and copies nothing; a tile of
 * neighbours leaves out only rows of taps. There must be enough images to fill the tiles. The limits are measured. */
static int64_t tp__gather_by_image(const tp__gather *g)
{
    const tp__grid *q = &g->grid;
    const int64_t mr = g->isa->mr;
    double filled = q->images > mr ? 1 : 0.9;
    int64_t images = tp__ceil_div(q->images, tp__ceil_div(q->images, mr));
    if (q->norm || g->groups > 1 || q->images <= mr / 2 || (g->isa->dots && tp__gather_few(g))) return 0;
    if (g->oc <= g->isa->vw) {
        /* images at the same place in their pages displace one another in the L1 cache */
        images = q->h * q->w * q->pixel % 1024 == 0 ? 8 : TP__MAX_EVEN;
        while (images > 0 && !(g->isa->even[images] && (q->images % images == 0 || g->isa->even[q->images % images])))
            images--;
        if (g->K < 128) return 0; /* too little work for the start of such a tile */
    } else if (tp__gather_three(g)) {
        images = mr;
        filled = (double)q->images / (double)(tp__ceil_div(q->images, 7) * 7);
        filled *= (double)(tp__ceil_div(q->cols, 7) * 7) /
                  (double)q->cols; /* tiles of neighbours are in one row of positions */
    }
    return tp__gather_inside_part(g) < 1.08 * filled ? images : 0;
}

/* Where output channels would leave a quarter of a vector empty or more, vectors run along the positions. For this the channels of the
 * source are turned into planes. A tile's columns run on from one row of positions to the next, over the columns between them that
 * belong to no position: these must be fewer than the empty lanes. Turning must be a small part of the work. With very few output
 * channels and many input channels, dot products are as fast. */
static bool tp__gather_in_planes(const tp__gather *g)
{
    const tp__grid *q = &g->grid;
    if (tp__gather_few(g) && g->isa->dots && g->ic >= 2 * g->isa->vw) return false;
    return g->isa->vw >= 8 && 4 * g->oc <= 3 * g->isa->vw && g->taps >= 4 && g->K * g->oc <= 131072 &&
           q->stride_h == 1 && q->stride_w == 1 && 5 * q->cols >= 3 * (q->cols + q->window_w - 1) &&
           q->cols * g->isa->vw >= g->oc * (q->cols + q->window_w - 1);
}
/* Floats of the buffer of a piece, whole cache lines. */
static int64_t tp__gather_buffer(const tp__gather *g) { return (g->grid.buffer_floats + 15) / 16 * 16; }
/* Sets the sizes of planes for the largest piece. A plane is an odd number of cache lines, so that planes do not displace one another. */
static void tp__gather_size_planes(tp__gather *g)
{
    const tp__grid *q = &g->grid;
    const int64_t vw = g->isa->vw, width = q->row_floats / g->ic;
    g->columns = tp__ceil_div((q->piece_rows - 1) * width + q->cols, vw) * vw;
    g->plane = (tp__ceil_div(g->columns + (q->window_h - 1) * width + q->window_w, 16) | 1) * 16;
}

/* Weights of so many floats miss L2. Then a piece has so many positions, for which they are read from memory once. */
#define TP__GATHER_LARGE     524288
#define TP__GATHER_POSITIONS 64

/* Decides what the rows and columns of a tile are, and cuts the positions into pieces. */
static void tp__gather_cut(tp__gather *g, const tp_device *d)
{
    tp__grid *q = &g->grid;
    const int64_t weights = tp__max64(1, g->K * g->oc), threads = d->pool ? tp_pool_threads(d->pool) : 1;
    g->planes = tp__gather_in_planes(g);
    const int64_t images = g->planes ? 0 : tp__gather_by_image(g);
    g->by_image = images > 0;
    g->even = !g->planes && g->oc <= g->isa->vw && (g->by_image || tp__even_rows(g->isa, q->cols) > 0);
    q->in_place = !g->planes && (g->by_image || tp__grid_in_place(q));
    const bool large = weights > TP__GATHER_LARGE && g->panels > 1 && !g->planes && !g->by_image;
    tp__grid_split(q, weights, large ? TP__GATHER_POSITIONS * weights : TP__CHUNK_MIN);
    g->column_parts = 1;
    if (large && threads > 1 && !g->a->after) /* a norm that is fused needs all channels of a pixel */
        g->column_parts = tp__min64(g->panels, tp__ceil_div(2 * threads, q->pieces * g->groups));
    if (g->planes) tp__gather_size_planes(g);
    if (g->by_image) { /* a piece is a tile of images, and some of their rows */
        const int64_t tiles = tp__ceil_div(q->images, images);
        q->piece_images = images;
        q->piece_rows = tp__ceil_div(q->rows, tp__min64(q->rows, tp__ceil_div(TP__CHUNK_MANY, tiles)));
        q->pieces = tiles * tp__ceil_div(q->rows, q->piece_rows);
    }
}

/* Computes the plan of one phase (forward has one) from the shape; sets pointers into scratch if scratch is given. */
TP__SMALL static size_t tp__gather_make(tp__gather *g, tp_device *d, const tp__conv_args *a, bool input_grad,
                                        int64_t phase_y, int64_t phase_x, void *scratch)
{
    tp__carver c = tp__carver_over(scratch);
    tp__grid *q = &g->grid;
    int64_t y1 = 0, x1 = 0;
    memset(g, 0, sizeof *g);
    g->a = a;
    g->isa = d->isa;
    g->input_grad = input_grad;
    g->groups = a->g.groups;
    g->phase_y = phase_y;
    g->phase_x = phase_x;
    q->images = a->g.B;
    if (input_grad) {
        g->ic = a->g.O / a->g.groups;
        g->oc = a->g.C / a->g.groups;
        q->src = a->dy;
        q->h = a->g.OH;
        q->w = a->g.OW;
        q->pixel = a->g.O;
        q->rows = tp__ceil_div(a->g.H - phase_y, a->g.stride_h);
        q->cols = tp__ceil_div(a->g.W - phase_x, a->g.stride_w);
        q->stride_h = q->stride_w = 1;
        g->dst = a->dx;
        g->dst_h = a->g.H;
        g->dst_w = a->g.W;
        g->dst_pixel = a->g.C;
        g->step_y = a->g.stride_h;
        g->step_x = a->g.stride_w;
    } else {
        g->ic = a->g.C / a->g.groups;
        g->oc = a->g.O / a->g.groups;
        q->src = a->x;
        tp__grid_norm(q, a, d->isa);
        q->h = a->g.H;
        q->w = a->g.W;
        q->pixel = a->g.C;
        q->rows = a->g.OH;
        q->cols = a->g.OW;
        q->stride_h = a->g.stride_h;
        q->stride_w = a->g.stride_w;
        g->dst = a->y;
        g->dst_h = a->g.OH;
        g->dst_w = a->g.OW;
        g->dst_pixel = a->g.O;
        g->step_y = g->step_x = 1;
    }
    if (q->rows <= 0 || q->cols <= 0) return 0;
    q->c = g->ic;
    g->taps = tp__gather_taps(g, NULL, &q->top, &y1, &q->left, &x1);
    q->window_h = g->taps ? y1 - q->top + 1 : 1;
    q->window_w = g->taps ? x1 - q->left + 1 : 1;
    g->K = g->taps * g->ic;
    g->nr = 2 * g->isa->vw;
    g->panels = tp__conv_panels(g->isa, g->oc);
    g->group_floats = tp__conv_panels_width(g->isa, g->oc) * g->K;
    tp__gather_cut(g, d);

    const int64_t max_runs = g->taps * (g->ic / (TP__KC / 2) + 2);
    g->tap = (tp__tap *)tp__carve(&c, g->taps, sizeof *g->tap);
    g->run = (tp__run *)tp__carve(&c, max_runs + 1, sizeof *g->run);
    g->place = (tp__run_place *)tp__carve(&c, max_runs + 1, sizeof *g->place);
    g->k_block = (tp__k_block *)tp__carve(&c, max_runs + 1, sizeof *g->k_block);
    g->packed = (float *)tp__carve(&c, g->groups * g->group_floats, sizeof *g->packed);
    g->max_runs = max_runs + 1;
    tp__slots_carve(&g->slots, d, &c,
                    g->by_image ? g->max_runs * (int64_t)(sizeof(tp__run) + sizeof(int64_t)) / 4
                                : tp__gather_buffer(g) + g->ic * g->plane + g->oc * g->columns);
    return tp__carved(&c);
}

/* Where a tap reads a plane, counted from a position. */
static int64_t tp__gather_in_plane(const tp__gather *g, const tp__tap *t)
{
    const tp__grid *q = &g->grid;
    return (t->y - q->top) * (q->row_floats / g->ic) + t->x - q->left;
}
/* With planes each tap is a run: its row of B for an input channel is a part of the channel's plane. */
static void tp__gather_plane_runs(tp__gather *g)
{
    g->runs = (int)g->taps;
    for (int i = 0; i < g->runs; i++) {
        const int64_t next = i + 1 < g->runs ? tp__gather_in_plane(g, &g->tap[i + 1]) : 0;
        g->run[i].at = i * g->ic;
        g->run[i].len = g->ic;
        g->run[i].skip = next - tp__gather_in_plane(g, &g->tap[i]) - g->ic * g->plane;
    }
}

/* Stores the taps as runs: taps that are neighbours in the source become one run. If the weights do not fit into L2,
 * long runs are cut and runs are grouped into blocks of k. */
TP__SMALL static void tp__gather_runs(tp__gather *g)
{
    const tp__grid *q = &g->grid;
    const bool blocks = g->K * tp__min64(g->oc, TP__NC) > 131072;
    int64_t y0, y1, x0, x1, k = 0, in_block = 0;
    tp__gather_taps(g, g->tap, &y0, &y1, &x0, &x1);
    g->runs = 0;
    if (g->planes) {
        tp__gather_plane_runs(g);
        return;
    }
    for (int64_t i = 0; i < g->taps;) {
        const tp__tap *t = &g->tap[i];
        int64_t at = (t->y - q->top) * q->row_floats + (t->x - q->left) * g->ic, len = g->ic;
        for (i++; i < g->taps; i++, len += g->ic) {
            const tp__tap *u = &g->tap[i];
            if ((u->y - q->top) * q->row_floats + (u->x - q->left) * g->ic != at + len) break;
            if (g->by_image && u->y != t->y) break;
        }
        int64_t cuts = blocks ? tp__ceil_div(len, TP__KC) : 1, each = tp__ceil_div(len, cuts);
        const int64_t x = t->x * g->ic - at; /* turns an offset in the window into one in the row of the source */
        for (; len > 0; at += each, len -= each) {
            g->place[g->runs].y0 = t->y;
            g->place[g->runs].y1 = g->tap[i - 1].y;
            g->place[g->runs].x = x + at;
            g->run[g->runs].at = at;
            g->run[g->runs].skip = 0;
            g->run[g->runs++].len = tp__min64(each, len);
        }
    }
    if (g->runs == 0) { /* if a phase has no tap, dst must still be written */
        g->place[0].y0 = g->place[0].y1 = g->place[0].x = 0;
        g->run[0].at = g->run[0].len = g->run[0].skip = 0;
        g->runs = 1;
    }
    g->dots = g->isa->dots && tp__gather_few(g) && g->K / g->runs >= 2 * g->isa->vw;
    g->k_blocks = 0;
    for (int i = 0; i < g->runs; i++) {
        int64_t len = g->run[i].len;
        if (i == 0 || (blocks && in_block + len > TP__KC + TP__KC / 4)) {
            tp__k_block *b = &g->k_block[g->k_blocks++];
            b->first_run = i;
            b->runs = 0;
            in_block = 0;
        }
        g->k_block[g->k_blocks - 1].runs++;
        g->place[i].k = k;
        in_block += len;
        k += len;
    }
}

/* Returns the runs of block b without those that read only rows above or below the image, which are zeros, for all positions in rows
 * [row0, row1]. One remains. */
static tp__k_block tp__gather_inside(const tp__gather *g, tp__k_block b, int64_t row0, int64_t row1)
{
    const int64_t stride = g->grid.stride_h;
    for (; b.runs > 1 && row1 * stride + g->place[b.first_run].y1 < 0; b.first_run++) b.runs--;
    while (b.runs > 1 && row0 * stride + g->place[b.first_run + b.runs - 1].y0 >= g->grid.h) b.runs--;
    return b;
}
/* Sets the runs of a tile, whose panel of B begins at `panel`. */
static void tp__gather_set(const tp__gather *g, const tp__k_block *b, const float *panel, tp__tile *t)
{
    t->run = g->run + b->first_run;
    t->n_run = b->runs;
    t->b = panel + g->place[b->first_run].k * t->ldb;
}

/* Packs the weights of a group for dot products or planes: a row of K for each output channel. */
static void tp__gather_pack_rows(const tp__gather *g, int64_t group)
{
    const tp__conv_args *a = g->a;
    float *rows = g->packed + group * g->group_floats;
    for (int64_t i = 0; i < g->taps; i++)
        if (g->input_grad)
            tp__copy_rows(rows + i * g->ic, g->K, a->w + g->tap[i].w * g->oc * a->g.O + group * g->ic, a->g.O, g->ic,
                          g->oc);
        else
            g->isa->transpose(rows + i * g->ic, g->K, g->ic, a->w + g->tap[i].w * g->ic * a->g.O + group * g->oc,
                              a->g.O, g->ic, g->oc);
}

/* A chunk of packing: one panel of one group's weights. */
TP__SMALL static void tp__gather_pack(void *user, int64_t chunk)
{
    const tp__gather *g = (const tp__gather *)user;
    const tp__conv_args *a = g->a;
    const int64_t group = chunk / g->panels, column = chunk % g->panels * g->nr;
    if (g->dots || g->planes) { /* there is one panel */
        tp__gather_pack_rows(g, group);
        return;
    }
    const int64_t n = tp__conv_columns(g->isa, g->oc, chunk % g->panels), width = tp__panel_width(g->isa, n);
    float *panel = g->packed + group * g->group_floats + chunk % g->panels * g->nr * g->K;
    for (int64_t i = 0; i < g->taps; i++) {
        float *dst = panel + i * g->ic * width;
        if (g->input_grad) { /* packed weights of the input gradient: B[tap, o][c] = w[r, s, c, o] */
            const float *src = a->w + (g->tap[i].w * g->oc + column) * a->g.O + group * g->ic;
            g->isa->transpose(dst, width, width, src, a->g.O, n, g->ic);
        } else
            tp__copy_rows(dst, width, a->w + g->tap[i].w * g->ic * a->g.O + group * g->oc + column, a->g.O, n, g->ic);
    }
    tp__panel_zero(panel, width, n, g->K);
}

/* Where row `row` of image i of a piece begins: in the source, and in dst. */
static const float *tp__gather_source(const tp__gather *g, const tp__piece *p, int64_t i, int64_t row)
{
    return p->at + i * g->grid.image_floats + row * g->grid.step_floats;
}
static float *tp__gather_row(const tp__gather *g, const tp__piece *p, int64_t group, int64_t i, int64_t row)
{
    const int64_t y = g->phase_y + (p->row + row) * g->step_y;
    return g->dst + (((p->image + i) * g->dst_h + y) * g->dst_w + g->phase_x) * g->dst_pixel + group * g->oc;
}

/* Computes a piece with few output channels: even tiles along each row of positions. */
static void tp__gather_even(const tp__gather *g, const tp__piece *p, int64_t group, tp__prefetch *next)
{
    const tp__grid *q = &g->grid;
    const tp__epilogue *e = &g->a->epilogue;
    tp__tile t;
    memset(&t, 0, sizeof t);
    t.step = 1;
    t.a_gap = q->stride_w * g->ic;
    t.c_gap = g->step_x * g->dst_pixel;
    t.ldb = g->isa->vw;
    t.n = (int)g->oc;
    const int64_t prefetch_floats = tp__prefetch_share(next, p->images * p->rows);
    for (int kb = 0; kb < g->k_blocks; kb++) {
        const bool last = kb == g->k_blocks - 1;
        t.add = kb > 0;
        t.ceiling = last ? tp__ceiling(e) : 0;
        t.bias = last && e->bias ? e->bias + group * g->oc : NULL;
        for (int64_t i = 0; i < p->images; i++)
            for (int64_t row = 0; row < p->rows; row++) {
                const tp__k_block inside = tp__gather_inside(g, g->k_block[kb], p->row + row, p->row + row);
                const float *a = tp__gather_source(g, p, i, row);
                float *c = tp__gather_row(g, p, group, i, row);
                tp__prefetch_next(next, prefetch_floats);
                tp__gather_set(g, &inside, g->packed + group * g->group_floats, &t);
                for (int64_t col = 0; col < q->cols; col += t.m) {
                    t.m = tp__even_rows(g->isa, q->cols - col);
                    t.a[0] = a + col * t.a_gap;
                    t.c[0] = c + col * t.c_gap;
                    g->isa->even[t.m](&t);
                }
            }
    }
}

/* Computes n neighbouring pixels of dst, from c on. What the first of them reads of the source begins at a. Each output channel is the
 * dot product of that with the channel's row of packed weights, of which some runs suffice. */
static void tp__gather_dots_of(const tp__gather *g, int64_t group, const tp__k_block *b, const float *a, int64_t n,
                               float *c)
{
    const tp__epilogue *e = &g->a->epilogue;
    const float *w = g->packed + group * g->group_floats + g->place[b->first_run].k;
    const int64_t a_gap = g->grid.stride_w * g->ic, c_gap = g->step_x * g->dst_pixel;
    float sum[TP__FEW * TP__DOTS], part[TP__FEW * TP__DOTS];
    memset(sum, 0, sizeof sum);
    memset(part, 0, sizeof part);
    for (int r = b->first_run; r < b->first_run + b->runs; w += g->run[r++].len) {
        g->isa->dots(g->run[r].len, w, g->K, (int)g->oc, a + g->run[r].at, a_gap, n, part);
        for (int i = 0; i < TP__FEW * TP__DOTS; i++) sum[i] += part[i];
    }
    for (int64_t i = 0; i < n; i++, c += c_gap)
        for (int64_t o = 0; o < g->oc; o++) c[o] = tp__apply_epilogue(e, group * g->oc + o, sum[o * TP__DOTS + i]);
}

/* Computes a piece with very few output channels. */
static void tp__gather_dots(const tp__gather *g, const tp__piece *p, int64_t group, tp__prefetch *next)
{
    const tp__grid *q = &g->grid;
    const int64_t prefetch_floats = tp__prefetch_share(next, p->images * p->rows);
    const tp__k_block all = {0, g->runs};
    for (int64_t i = 0; i < p->images; i++)
        for (int64_t row = 0; row < p->rows; row++) {
            const tp__k_block inside = tp__gather_inside(g, all, p->row + row, p->row + row);
            const float *a = tp__gather_source(g, p, i, row);
            float *c = tp__gather_row(g, p, group, i, row);
            tp__prefetch_next(next, prefetch_floats);
            for (int64_t col = 0; col < q->cols; col += TP__DOTS)
                tp__gather_dots_of(g, group, &inside, a + col * q->stride_w * g->ic, tp__min64(TP__DOTS, q->cols - col),
                                   c + col * g->step_x * g->dst_pixel);
        }
}

/* Computes the sums of an image's positions in planes: a row of `columns` floats in `sums` for each output channel. */
static void tp__gather_plane_sums(const tp__gather *g, int64_t group, int64_t columns, const float *planes, float *sums)
{
    const tp__epilogue *e = &g->a->epilogue;
    tp__tile t;
    memset(&t, 0, sizeof t);
    t.step = 1;
    t.ldb = g->plane;
    t.m = (int)g->oc;
    t.run = g->run;
    t.n_run = g->runs;
    t.add = e->bias != NULL; /* the bias is in `sums` already */
    t.ceiling = tp__ceiling(e);
    for (int64_t o = 0; o < g->oc; o++)
        for (int64_t i = 0; i < columns && t.add; i++) sums[o * g->columns + i] = e->bias[group * g->oc + o];
    for (int64_t i = 0; i < columns; i += t.n) {
        t.n = (int)tp__min64(columns - i, 2 * g->isa->vw);
        t.b = planes + tp__gather_in_plane(g, &g->tap[0]) + i;
        for (int o = 0; o < t.m; o++) {
            t.a[o] = g->packed + group * g->group_floats + o * g->K;
            t.c[o] = sums + o * g->columns + i;
        }
        tp__tile_pad(&t, g->isa->mr);
        tp__run_tile(g->isa, &t, t.n);
    }
}

/* Computes a piece in planes. memory: room for the planes and the sums. */
static void tp__gather_planes(const tp__gather *g, const tp__piece *p, int64_t group, float *memory, tp__prefetch *next)
{
    const tp__grid *q = &g->grid;
    const int64_t width = q->row_floats / g->ic, tall = p->rows - 1 + q->window_h, vw = g->isa->vw;
    const int64_t columns = tp__ceil_div((p->rows - 1) * width + q->cols, vw) * vw;
    const int64_t prefetch_floats = tp__prefetch_share(next, p->images * p->rows);
    float *sums = memory + g->ic * g->plane;
    for (int64_t i = 0; i < p->images; i++) {
        g->isa->transpose(memory, g->plane, g->plane, p->at + i * q->image_floats, g->ic, tall * width, g->ic);
        for (int64_t c = 0; c < g->ic; c++) /* what only columns without a position read */
            memset(memory + c * g->plane + tall * width, 0, (size_t)(g->plane - tall * width) * sizeof *memory);
        tp__gather_plane_sums(g, group, columns, memory, sums);
        for (int64_t row = 0; row < p->rows; row++) {
            tp__prefetch_next(next, prefetch_floats);
            g->isa->transpose(tp__gather_row(g, p, group, i, row), g->step_x * g->dst_pixel, g->oc, sums + row * width,
                              g->columns, g->oc, q->cols);
        }
    }
}

/* Computes the tile t over a panel of the packed weights; last: no block of k follows. */
static void tp__gather_tile(const tp__gather *g, tp__tile *t, int64_t group, int64_t panel, bool last)
{
    const tp__epilogue *e = &g->a->epilogue;
    t->bias = last && e->bias ? e->bias + group * g->oc + panel * g->nr : NULL;
    t->n = (int)tp__conv_columns(g->isa, g->oc, panel);
    if (g->even) g->isa->even[t->m](t);
    else tp__run_tile(g->isa, t, t->n);
}

/* The runs of a block for the position (row, col), as offsets in an image, without what is outside of the image. k[i]: number of the
 * first row of B of run i. Returns their number; an empty run stands for none. */
static int tp__gather_clip(const tp__gather *g, const tp__k_block *b, int64_t row, int64_t col, tp__run *run,
                           int64_t *k)
{
    const tp__grid *q = &g->grid;
    int n = 0;
    for (int i = b->first_run; i < b->first_run + b->runs; i++) {
        const tp__run_place *at = &g->place[i];
        const int64_t y = row * q->stride_h + at->y0, x = col * q->stride_w * g->ic + at->x;
        const int64_t x0 = tp__max64(x, 0), x1 = tp__min64(x + g->run[i].len, q->row_floats);
        if (y < 0 || y >= q->h || x0 >= x1) continue;
        run[n].at = y * q->row_floats + x0;
        run[n].len = x1 - x0;
        k[n++] = at->k + x0 - x;
    }
    if (n == 0) run[0].at = run[0].len = k[0] = 0;
    return n > 0 ? n : 1;
}

/* Computes a piece whose tiles' rows are the same position in different images. memory: room for runs. */
static void tp__gather_images(const tp__gather *g, const tp__piece *p, float *memory)
{
    const tp__grid *q = &g->grid;
    const int64_t block_panels = TP__NC / g->nr;
    tp__run *run = (tp__run *)(void *)memory;
    int64_t *k = (int64_t *)(void *)(run + g->max_runs);
    tp__tile t;
    memset(&t, 0, sizeof t);
    t.step = 1;
    t.run = run;
    t.m = (int)p->images;
    t.a_gap = q->image_floats;
    t.c_gap = g->dst_h * g->dst_w * g->dst_pixel;
    for (int j = 0; j < (g->even ? 1 : t.m); j++) t.a[j] = q->src + (p->image + j) * q->image_floats;
    if (!g->even) tp__tile_pad(&t, g->isa->mr);
    for (int kb = 0; kb < g->k_blocks; kb++)
        for (int64_t panel0 = 0; panel0 < g->panels; panel0 += block_panels) {
            const bool last = kb == g->k_blocks - 1;
            t.add = kb > 0;
            t.ceiling = last ? tp__ceiling(&g->a->epilogue) : 0;
            for (int64_t i = 0; i < p->rows * q->cols; i++) {
                const int64_t row = i / q->cols, col = i % q->cols;
                float *out = tp__gather_row(g, p, 0, 0, row) + col * g->step_x * g->dst_pixel;
                t.n_run = tp__gather_clip(g, &g->k_block[kb], p->row + row, col, run, k);
                t.ldb = 0;
                for (int64_t panel = panel0; panel < tp__min64(panel0 + block_panels, g->panels); panel++) {
                    const int64_t width = tp__panel_width(g->isa, tp__conv_columns(g->isa, g->oc, panel));
                    for (int r = 0; t.ldb != width && r < t.n_run; r++)
                        run[r].skip = r + 1 < t.n_run ? (k[r + 1] - k[r] - run[r].len) * width : 0;
                    t.ldb = width;
                    t.b = g->packed + panel * g->nr * g->K + k[0] * width;
                    for (int j = 0; j < (g->even ? 1 : t.m); j++) t.c[j] = out + j * t.c_gap + panel * g->nr;
                    tp__gather_tile(g, &t, 0, panel, last);
                }
            }
        }
}

/* What a tile prefetches of a group's packed weights while it computes `panel`: its share of the panel that the next block of panels
 * reads in place of this one, in the same block kb of k or the next. first, end: the panels of the chunk; panel0: the first of this
 * block; position: the tile's first. NULL: no block follows, or earlier tiles fetch all of the panel. */
static const float *tp__gather_prefetch(const tp__gather *g, const float *packed, int kb, int64_t panel, int64_t panel0,
                                        int64_t first, int64_t end, int64_t position)
{
    const bool next_k = panel0 + TP__NC / g->nr >= end;
    const int64_t to = next_k ? first + panel - panel0 : panel + TP__NC / g->nr;
    if (to >= end || (next_k && kb + 1 == g->k_blocks)) return NULL;
    const int block = kb + next_k;
    const int64_t k = g->place[g->k_block[block].first_run].k;
    const int64_t k_end = block + 1 < g->k_blocks ? g->place[g->k_block[block + 1].first_run].k : g->K;
    const int64_t width = tp__panel_width(g->isa, tp__conv_columns(g->isa, g->oc, to));
    return position < width ? packed + to * g->nr * g->K + k * width + position * (k_end - k) : NULL;
}

/* Normalises what was computed of a piece, if that is fused. */
static void tp__gather_after(const tp__gather *g, const tp__piece *p)
{
    for (int64_t i = 0; i < p->images; i++)
        tp__conv_after(g->a, g->isa, tp__gather_row(g, p, 0, i, 0), p->rows * g->dst_w);
}

/* A chunk of a convolution computes one group of channels for one piece of the grid; if column_parts is more than 1, only some of the
 * group's output channels. */
static void tp__gather_chunk(void *user, int64_t chunk)
{
    tp__gather *g = (tp__gather *)user;
    const tp__grid *q = &g->grid;
    /* the groups of a piece follow one another, so that its part of src and dst stays in the cache */
    const int64_t part = chunk % g->column_parts, group = chunk / g->column_parts % g->groups,
                  piece = chunk / g->column_parts / g->groups, block_panels = TP__NC / g->nr;
    const int64_t first_panel = part * g->panels / g->column_parts,
                  end_panel = (part + 1) * g->panels / g->column_parts;
    const int slot = tp__slot_acquire(&g->slots);
    float *memory = g->slots.memory + slot * g->slots.floats;
    if (g->by_image) {
        const tp__piece of_images = tp__grid_piece(q, piece);
        tp__gather_images(g, &of_images, memory);
        tp__gather_after(g, &of_images);
        tp__slot_release(&g->slots, slot);
        return;
    }
    const tp__piece p = tp__grid_load(q, piece, group * g->ic, memory);
    const int64_t positions = p.images * p.rows * q->cols;
    /* the next piece to prefetch, a share for each group: other threads process the pieces up to that one */
    tp__prefetch next = tp__grid_prefetch(q, piece + tp__ceil_div(g->slots.n, g->groups), group, g->groups);
    const int64_t prefetch_floats = tp__prefetch_share(&next, tp__max64(1, positions / g->isa->mr));
    const bool three = tp__gather_three(g);
    const float *packed = g->packed + group * g->group_floats;
    tp__tile t;
    memset(&t, 0, sizeof t);
    t.step = 1;

    if (g->planes || g->dots || g->even) {
        if (g->planes) tp__gather_planes(g, &p, group, memory + tp__gather_buffer(g), &next);
        else if (g->dots) tp__gather_dots(g, &p, group, &next);
        else tp__gather_even(g, &p, group, &next);
        tp__gather_after(g, &p);
        tp__slot_release(&g->slots, slot);
        return;
    }
    for (int kb = 0; kb < g->k_blocks; kb++)
        for (int64_t panel0 = first_panel; panel0 < end_panel; panel0 += block_panels) {
            const int64_t panel1 = tp__min64(panel0 + block_panels, end_panel);
            const bool last = kb == g->k_blocks - 1;
            int64_t image = 0, row = 0, col = 0;
            t.add = kb > 0;
            t.ceiling = last ? tp__ceiling(&g->a->epilogue) : 0;
            for (int64_t i = 0; i < positions; i += t.m) {
                float *out[TP__MAX_ROWS];
                int64_t row0 = row, row1 = row; /* the tile's first and last row */
                /* with three vectors of columns, no two tiles of equal height: eight rows take as long as fourteen */
                t.m = three ? (int)tp__min64(positions - i, g->isa->mr) : tp__tile_rows(positions - i, g->isa->mr);
                for (int j = 0; j < t.m; j++) {
                    row0 = tp__min64(row0, row);
                    row1 = tp__max64(row1, row);
                    int64_t y = g->phase_y + (p.row + row) * g->step_y, x = g->phase_x + col * g->step_x;
                    t.a[j] = p.at + image * q->image_floats + row * q->step_floats + col * q->stride_w * g->ic;
                    out[j] =
                        g->dst + (((p.image + image) * g->dst_h + y) * g->dst_w + x) * g->dst_pixel + group * g->oc;
                    if (++col == q->cols) {
                        col = 0;
                        if (++row == p.rows) {
                            row = 0;
                            image++;
                        }
                    }
                }
                const tp__k_block inside = tp__gather_inside(g, g->k_block[kb], p.row + row0, p.row + row1);
                tp__tile_pad(&t, g->isa->mr);
                tp__prefetch_next(&next, prefetch_floats);
                for (int64_t panel = panel0; panel < panel1; panel++) {
                    t.ldb = tp__panel_width(g->isa, tp__conv_columns(g->isa, g->oc, panel));
                    tp__gather_set(g, &inside, packed + panel * g->nr * g->K, &t);
                    for (int j = 0; j < t.m; j++) t.c[j] = out[j] + panel * g->nr;
                    t.prefetch = tp__gather_prefetch(g, packed, kb, panel, panel0, first_panel, end_panel, i);
                    tp__gather_tile(g, &t, group, panel, last);
                }
            }
        }
    tp__gather_after(g, &p);
    tp__slot_release(&g->slots, slot);
}

static void tp__gather_run(tp_device *d, const tp__conv_args *a, bool input_grad, void *scratch)
{
    const int64_t sy = input_grad ? a->g.stride_h : 1, sx = input_grad ? a->g.stride_w : 1;
    for (int64_t y = 0; y < sy; y++)
        for (int64_t x = 0; x < sx; x++) {
            tp__gather g;
            if (tp__gather_make(&g, d, a, input_grad, y, x, scratch) == 0)
                continue; /* no pixel of the result belongs to this phase of the stride */
            tp__gather_runs(&g);
            if (a->kept) g.packed = a->kept;
            if (g.K > 0 && !a->kept_is_ready) tp_device_parallel(d, g.groups * g.panels, tp__gather_pack, &g);
            tp_device_parallel(d, g.groups * g.grid.pieces * g.column_parts, tp__gather_chunk, &g);
        }
}

/* -- filter gradient --------------------------------------------------------------------------- >>conv filter grad */
/* dw[(r,s,c), o] = sum over pixels of x[pixel sees at (r,s), c] dy[pixel, o]: a tile's rows are weights, k runs over a
 * piece's pixels. The pieces are divided into at most TP__PARTS sequences, each summed into a dw of its own. Vectors run along the
 * output channels; if the input channels, of one tap or a row of taps, fill them better, they run along these, and dw is computed
 * transposed: [o][(r,s,c)]. */

#define TP__DW_FLOATS 65536 /* floats of dw that may stay in L2 beside the pieces that are added to it */

typedef struct tp__filter_grad {
    tp__grid grid;
    const tp__conv_args *a;
    const struct tp__isa *isa;
    int64_t cg, og, K; /* channels of a group: input (cg) and output (og); K: weights per output channel */
    /* blocks: number of blocks of at most mb rows of dw; each is computed by chunks of its own. by_row: the rows of a block belong
     * to one row of the filter, and its pieces hold what that row reads. row_k: rows of dw that row_blocks blocks divide. */
    int64_t nr, panels, blocks, mb, row_k, row_blocks;
    bool by_row;
    int parts;
    bool pack;   /* the rows of dy of a piece are packed into panels */
    bool even;   /* use even tiles, but for the rest of a tap: there is one vector of output channels */
    bool turned; /* vectors run along the input channels */
    /* turned: number of columns that are computed together, the input channels of one tap or of a row of taps */
    int64_t unit;
    int64_t piece_pixels;
    float *part;
    tp__slots slots;
} tp__filter_grad;

/* About how long tiles take, where one vector of a tile of two takes 1 for a row: tiles of three vectors take as long for one row as
 * for seven. Measured, as are the other costs. */
static double tp__three_cost(int64_t rows) { return (double)(3 * tp__ceil_div(rows, 7) * 7); }
/* The cost of `rows` rows and so many columns. One vector alone needs more loads. */
static double tp__tiles_cost(const struct tp__isa *isa, int64_t rows, int64_t columns)
{
    const int64_t panels = tp__conv_panels(isa, columns), before = (panels - 1) * 2 * rows;
    const int vectors = tp__panel_vectors(isa, tp__conv_columns(isa, columns, panels - 1));
    return (double)before + (vectors > 2 ? tp__three_cost(rows) : (vectors == 2 ? 2 : 1.6) * (double)rows);
}
/* The same for even tiles, and an ordinary one for the rest. */
static double tp__even_cost(const struct tp__isa *isa, int64_t rows, int64_t columns)
{
    if (columns > isa->vw || rows < 8 || !isa->even[8]) return 1e30;
    return 1.2 * (double)rows + (tp__even_rows(isa, rows) ? 0 : 8);
}

/* Whether turned tiles have three vectors of columns: two and one are faster for some numbers of rows. */
static bool tp__filter_grad_three(const tp__filter_grad *f)
{
    return f->isa->tile3 && tp__three_cost(f->og) <= 3.6 * (double)f->og;
}
/* Number of columns of a turned tile, where so many are left. */
static int64_t tp__filter_grad_columns(const tp__filter_grad *f, int64_t left)
{
    const int64_t vw = f->isa->vw;
    return tp__min64(left, left <= 3 * vw && tp__filter_grad_three(f) ? left : 2 * vw);
}
static double tp__filter_grad_turned_cost(const tp__filter_grad *f, int64_t unit)
{
    double cost = 0;
    for (int64_t at = 0, n; at < unit; at += n) {
        n = tp__filter_grad_columns(f, unit - at);
        cost += tp__tiles_cost(f->isa, f->og, n);
    }
    return cost;
}

/* Decides along which channels vectors run, by the time that a row of taps takes for a position. */
static void tp__filter_grad_along(tp__filter_grad *f)
{
    const tp__conv *g = &f->a->g;
    const tp__grid *q = &f->grid;
    const double normal = tp__tiles_cost(f->isa, f->cg, f->og), even = tp__even_cost(f->isa, f->cg, f->og);
    double cost = (double)g->KW * (even < normal ? even : normal);
    int64_t inside = 0;
    for (int64_t s = 0; s < g->KW; s++) inside += tp__grid_inside(q, q->left + s * g->dilation_w);
    /* a tile of one tap leaves out the positions that read beyond the image, a tile of a row of taps computes all */
    const double all = (double)(q->cols * g->KW) / (double)tp__max64(1, inside);
    f->even = even < normal;
    for (int row = 0; row < (g->KW > 1 && g->dilation_w == 1 ? 2 : 1); row++) {
        const int64_t unit = row ? g->KW * f->cg : f->cg;
        const double turned = 1.1 * (row ? all : (double)g->KW) * tp__filter_grad_turned_cost(f, unit);
        if (turned >= cost) continue;
        if (q->in_place && tp__conv_panels_width(f->isa, unit) != unit) continue; /* vectors would end beyond x */
        cost = turned;
        f->turned = true;
        f->unit = unit;
    }
}

TP__SMALL static size_t tp__filter_grad_make(tp__filter_grad *f, tp_device *d, const tp__conv_args *a, void *scratch)
{
    tp__carver c = tp__carver_over(scratch);
    tp__grid *q = &f->grid;
    memset(f, 0, sizeof *f);
    f->a = a;
    f->isa = d->isa;
    f->cg = a->g.C / a->g.groups;
    f->og = a->g.O / a->g.groups;
    f->K = a->g.KH * a->g.KW * f->cg;
    f->nr = 2 * f->isa->vw;
    f->panels = tp__conv_panels(f->isa, f->og);
    q->src = a->x;
    tp__grid_norm(q, a, d->isa);
    q->images = a->g.B;
    q->h = a->g.H;
    q->w = a->g.W;
    q->c = f->cg;
    q->pixel = a->g.C;
    q->rows = a->g.OH;
    q->cols = a->g.OW;
    q->stride_h = a->g.stride_h;
    q->stride_w = a->g.stride_w;
    q->top = -a->g.top;
    q->left = -a->g.left;
    q->window_h = (a->g.KH - 1) * a->g.dilation_h + 1;
    q->window_w = (a->g.KW - 1) * a->g.dilation_w + 1;
    if (a->g.B * a->g.OH * a->g.OW <= 0 || f->K <= 0 || a->g.O <= 0) return 0;
    /* pixels in a piece: with few channels they fit into L1, with more into L2 */
    const int64_t pixels = f->og <= f->isa->vw ? 128 : 512;
    q->in_place = tp__grid_in_place(q);
    tp__grid_split(q, 1, pixels);
    tp__filter_grad_along(f);
    f->by_row = a->g.KH > 1 && !q->in_place && f->K * f->og > TP__DW_FLOATS;
    f->row_k = f->by_row ? a->g.KW * f->cg : f->K;
    if (f->by_row) { /* a piece has the pixels that one row of the filter reads: more of them fit into it */
        q->window_h = 1;
        tp__grid_split(q, 1, pixels);
    }

    const int64_t size = f->K * a->g.O;
    int64_t parts = tp__min64(TP__PARTS, q->pieces);
    parts = tp__min64(parts, (4 << 20) / size + 1);
    if (f->by_row) parts = tp__min64(parts, tp__ceil_div(TP__CHUNK_MANY, a->g.KH * a->g.groups));
    f->parts = (int)parts;
    f->mb = f->row_k;
    /* number of multiply-adds for one row of dw in a chunk */
    const int64_t work = q->images * q->rows * q->cols / parts * f->og;
    while (f->K / f->row_k * tp__ceil_div(f->row_k, f->mb) * parts * a->g.groups < TP__CHUNK_MANY &&
           f->mb * work > 4 * TP__CHUNK_MIN && f->mb > 4 * f->isa->mr)
        f->mb = tp__ceil_div(f->mb, 2 * f->isa->mr) * f->isa->mr;
    if (f->turned) f->mb = tp__min64(f->row_k, tp__ceil_div(f->mb, f->unit) * f->unit);
    f->row_blocks = tp__ceil_div(f->row_k, f->mb);
    f->blocks = f->K / f->row_k * f->row_blocks;
    f->even = f->even && !f->turned && f->row_blocks == 1;
    /* if dy is not packed, its rows already form a panel */
    f->pack = !f->turned && (a->g.groups > 1 || f->panels > 1 || a->g.O != tp__panel_width(f->isa, a->g.O));
    f->piece_pixels = q->piece_images * q->piece_rows * q->cols;

    const int64_t runs = q->piece_images * q->piece_rows;
    const int64_t run_floats = (runs * (int64_t)sizeof(tp__run) + 63) / 64 * 16;
    f->part = (float *)tp__carve(&c, parts > 1 || f->turned ? parts * size : 0, sizeof(float));
    tp__slots_carve(
        &f->slots, d, &c,
        run_floats + (q->buffer_floats + 15) / 16 * 16 + (f->turned ? 3 * f->isa->vw : 0) +
            (f->pack ? tp__min64(tp__conv_panels_width(f->isa, f->og), 3 * f->isa->vw) * f->piece_pixels : 0));
    return tp__carved(&c);
}

/* Offset in a piece of what row k of dw reads for the first position. */
static int64_t tp__filter_grad_offset(const tp__filter_grad *f, int64_t k)
{
    const tp__conv *g = &f->a->g;
    const int64_t tap = k / f->cg, row = f->by_row ? 0 : tap / g->KW;
    return row * g->dilation_h * f->grid.row_floats + tap % g->KW * g->dilation_w * f->cg + k % f->cg;
}

/* Floats from one image, one row and one pixel of a grid's positions to the next. */
typedef struct tp__pixel_steps {
    int64_t image, row, pixel;
} tp__pixel_steps;

/* Makes the runs of a tile that sums over the pixels of a piece, a run for each row of them. It leaves out pixels for which the rows
 * k0 to k1 of dw read only zeros around the image. a, b: strides of the two factors. Returns the offset of b's first pixel. */
static int64_t tp__filter_grad_runs(const tp__filter_grad *f, const tp__piece *p, int64_t k0, int64_t k1,
                                    tp__pixel_steps a, tp__pixel_steps b, tp__tile *t, tp__run *run)
{
    const tp__grid *q = &f->grid;
    const tp__conv *g = &f->a->g;
    const int64_t tap0 = k0 / f->cg, tap1 = k1 / f->cg;
    const bool one_row = tap0 / g->KW == tap1 / g->KW;
    /* first and last row and column of the image, relative to a position's, that are read */
    const int64_t y0 = q->top + (f->by_row ? 0 : tap0 / g->KW * g->dilation_h),
                  y1 = q->top + (f->by_row ? 0 : tap1 / g->KW * g->dilation_h);
    const int64_t x0 = q->left + (one_row ? tap0 % g->KW * g->dilation_w : 0),
                  x1 = q->left + (one_row ? tap1 % g->KW : g->KW - 1) * g->dilation_w;
    int64_t row0 = 0, row1 = p->rows, col0 = 0, col1 = q->cols;
    while (row1 - row0 > 1 && (p->row + row0) * q->stride_h + y1 < 0) row0++;
    while (row1 - row0 > 1 && (p->row + row1 - 1) * q->stride_h + y0 >= q->h) row1--;
    while (col1 - col0 > 1 && col0 * q->stride_w + x1 < 0) col0++;
    while (col1 - col0 > 1 && (col1 - 1) * q->stride_w + x0 >= q->w) col1--;
    t->run = run;
    t->n_run = (int)(p->images * (row1 - row0));
    for (int64_t i = 0; i < p->images; i++)
        for (int64_t y = row0; y < row1; y++, run++) {
            run->at = i * a.image + y * a.row + col0 * a.pixel;
            run->len = col1 - col0;
            run->skip = b.row - run->len * b.pixel + (y == row1 - 1 ? b.image - (row1 - row0) * b.row : 0);
        }
    return row0 * b.row + col0 * b.pixel;
}

/* Adds a piece's part of the transposed dw of a group to dw, for the taps of rows k0 <= k < k1: rows of tiles are output channels,
 * their columns are input channels. run: one for each row of pixels. */
static void tp__filter_grad_turned(const tp__filter_grad *f, const tp__piece *p, const float *dy, tp__run *run,
                                   bool add, int64_t k0, int64_t k1, float *dw)
{
    const tp__grid *q = &f->grid;
    const tp__conv *g = &f->a->g;
    const tp__pixel_steps of_x = {q->image_floats, q->step_floats, q->stride_w * f->cg};
    const tp__pixel_steps of_dy = {p->rows * q->cols * g->O, q->cols * g->O, g->O};
    tp__tile t;
    memset(&t, 0, sizeof t);
    t.step = of_dy.pixel;
    t.ldb = of_x.pixel;
    t.add = add;
    for (int64_t k = k0; k < k1; k += f->unit) {
        const float *x =
            p->at + tp__filter_grad_offset(f, k) + tp__filter_grad_runs(f, p, k, k + f->unit - 1, of_dy, of_x, &t, run);
        for (int64_t column = 0, n; column < f->unit; column += n) {
            n = tp__filter_grad_columns(f, f->unit - column);
            const bool three = tp__panel_vectors(f->isa, n) > 2;
            t.b = x + column;
            for (int64_t o = 0; o < f->og; o += t.m) {
                t.m = three ? (int)tp__min64(f->og - o, f->isa->mr) : tp__tile_rows(f->og - o, f->isa->mr);
                for (int j = 0; j < t.m; j++) {
                    t.a[j] = dy + o + j;
                    t.c[j] = dw + (o + j) * f->K + k + column;
                }
                tp__tile_pad(&t, f->isa->mr);
                tp__run_tile(f->isa, &t, n);
            }
        }
    }
}

/* A chunk that transposes dw: the rows of one tap. */
static void tp__filter_grad_turn_back(void *user, int64_t tap)
{
    const tp__filter_grad *f = (const tp__filter_grad *)user;
    const int64_t O = f->a->g.O;
    f->isa->transpose(f->a->dw + tap * f->cg * O, O, O, f->part + tap * f->cg, f->K, O, f->cg);
}

/* The same with vectors along the output channels, for rows k0 <= k < k1 of dw: rows of tiles are weights. next, next_dy: pixels of
 * x and dy to prefetch meanwhile. packed: room for dy's panels. */
static void tp__filter_grad_piece(const tp__filter_grad *f, const tp__piece *p, const float *dy, tp__run *run, bool add,
                                  int64_t k0, int64_t k1, float *dw, float *packed, tp__prefetch *next,
                                  tp__prefetch *next_dy)
{
    const tp__grid *q = &f->grid;
    const tp__conv *g = &f->a->g;
    const int64_t tiles = tp__max64(1, (k1 - k0) / f->isa->mr);
    const int64_t share = tp__prefetch_share(next, tiles), share_dy = tp__prefetch_share(next_dy, tiles);
    const tp__pixel_steps of_x = {q->image_floats, q->step_floats, q->stride_w * f->cg};
    tp__tile t;
    memset(&t, 0, sizeof t);
    t.step = of_x.pixel;
    t.add = add;
    for (int64_t panel = 0; panel < f->panels; panel++) {
        const int64_t column = panel * f->nr, n = tp__conv_columns(f->isa, f->og, panel);
        t.ldb = f->pack ? tp__panel_width(f->isa, n) : g->O;
        if (f->pack) f->isa->panel(packed, t.ldb, dy + column, g->O, p->images * p->rows * q->cols, n);
        const tp__pixel_steps of_dy = {p->rows * q->cols * t.ldb, q->cols * t.ldb, t.ldb};
        int64_t taps = -1; /* stands for the first and the last tap that the runs were made for */
        t.n = (int)n;
        t.a_gap = 1;
        t.c_gap = g->O;
        for (int64_t k = k0; k < k1; k += t.m) {
            const int even = f->even ? tp__even_rows_of(f->isa, f->cg - k % f->cg) : 0;
            t.m = even ? even : tp__tile_rows(f->even ? f->cg - k % f->cg : k1 - k, f->isa->mr);
            tp__prefetch_next(next, share);
            tp__prefetch_next(next_dy, share_dy);
            const int64_t last = k + t.m - 1;
            if (taps != k / f->cg * f->K + last / f->cg) {
                taps = k / f->cg * f->K + last / f->cg;
                t.b = (f->pack ? packed : dy) + tp__filter_grad_runs(f, p, k, last, of_x, of_dy, &t, run);
            }
            for (int j = 0; j < (even ? 1 : t.m); j++) { /* the channels of one tap are adjacent in memory */
                t.a[j] = p->at + tp__filter_grad_offset(f, k + j);
                t.c[j] = dw + (k + j) * g->O + column;
            }
            if (even) f->isa->even[t.m](&t);
            else {
                tp__tile_pad(&t, f->isa->mr);
                tp__run_tile(f->isa, &t, n);
            }
        }
    }
}

/* A chunk of the filter gradient: one part, one group, one block of rows of dw. */
static void tp__filter_grad_chunk(void *user, int64_t chunk)
{
    tp__filter_grad own = *(const tp__filter_grad *)user, *f = &own;
    const tp__conv_args *a = f->a;
    tp__grid *q = &f->grid;
    const int64_t part = chunk / (f->blocks * a->g.groups), group = chunk / f->blocks % a->g.groups;
    const int64_t block = chunk % f->blocks, row = block / f->row_blocks * f->row_k;
    const int64_t k0 = row + block % f->row_blocks * f->mb, k1 = tp__min64(k0 + f->mb, row + f->row_k);
    const int64_t first = part * q->pieces / f->parts, end = (part + 1) * q->pieces / f->parts;
    if (f->by_row) q->top += block / f->row_blocks * a->g.dilation_h;
    const int slot = tp__slot_acquire(&f->slots);
    tp__run *run = (tp__run *)(void *)(f->slots.memory + slot * f->slots.floats);
    float *buffer = f->slots.memory + slot * f->slots.floats +
                    (q->piece_images * q->piece_rows * (int64_t)sizeof(tp__run) + 63) / 64 * 16;
    float *packed = buffer + (q->buffer_floats + 15) / 16 * 16;
    float *dw = f->parts > 1 || f->turned ? f->part + part * f->K * a->g.O : a->dw;
    dw += group * f->og * (f->turned ? f->K : 1);
    if (f->turned)
        memset(packed, 0, 3 * (size_t)f->isa->vw * sizeof *packed); /* the last vectors of x may reach into it */

    for (int64_t index = first; index < end; index++) {
        const tp__piece p = tp__grid_load(q, index, group * f->cg, buffer);
        const float *image_dy = a->dy + (p.image * a->g.OH + p.row) * a->g.OW * a->g.O, *dy = image_dy + group * f->og;
        if (f->turned) {
            tp__filter_grad_turned(f, &p, dy, run, index > first, k0, k1, dw);
            continue;
        }
        const int64_t floats = p.images * p.rows * q->cols * a->g.O;
        tp__prefetch next = tp__grid_prefetch(q, index + 1 < end ? index + 1 : q->pieces, group, a->g.groups);
        tp__prefetch next_dy = tp__prefetch_of(next.at ? image_dy + floats : NULL, floats);
        tp__filter_grad_piece(f, &p, dy, run, index > first, k0, k1, dw, packed, &next, &next_dy);
    }
    tp__slot_release(&f->slots, slot);
}

/* Number of floats in a chunk that adds the partial sums of dw. */
#define TP__ADD_FLOATS 4096

typedef struct tp__add_parts {
    const struct tp__isa *isa;
    float *part, *dst;
    int64_t size;
    int parts;
} tp__add_parts;

static void tp__add_parts_chunk(void *user, int64_t chunk)
{
    const tp__add_parts *s = (const tp__add_parts *)user;
    int64_t at = chunk * TP__ADD_FLOATS, n = tp__min64(TP__ADD_FLOATS, s->size - at);
    tp__tree_add(s->isa, s->part + at, s->size, s->parts, n);
    if (s->dst != s->part) memcpy(s->dst + at, s->part + at, (size_t)n * sizeof(float));
}

static void tp__add_parts_run(tp_device *d, float *dst, float *part, int64_t size, int parts)
{
    tp__add_parts s;
    s.isa = d->isa;
    s.part = part;
    s.dst = dst;
    s.size = size;
    s.parts = parts;
    tp_device_parallel(d, tp__ceil_div(size, TP__ADD_FLOATS), tp__add_parts_chunk, &s);
}

static void tp__filter_grad_run(tp_device *d, const tp__conv_args *a, void *scratch)
{
    tp__filter_grad f;
    if (tp__filter_grad_make(&f, d, a, scratch) == 0) {
        int64_t size = f.K * a->g.O;
        if (size > 0) memset(a->dw, 0, (size_t)size * sizeof(float));
        return;
    }
    tp_device_parallel(d, f.parts * a->g.groups * f.blocks, tp__filter_grad_chunk, &f);
    if (f.parts > 1) tp__add_parts_run(d, f.turned ? f.part : a->dw, f.part, f.K * a->g.O, f.parts);
    if (f.turned) tp_device_parallel(d, a->g.KH * a->g.KW, tp__filter_grad_turn_back, &f);
}

/* -- with fewer multiplications ---------------------------------------------------------- >>conv winograd */
/* Winograd's F(4x4,3x3): a tile of 4x4 positions takes 36 products for each pair of channels; the definition takes 144. V =
 * B'dB for the 6x6 pixels d under a tile, U = GgG' for the filter g; then y = A'(U V)A, where U V is element by element,
 * so its sum over channels is a matrix product at each of the 36 places. Filter gradient: dg = G'(V (A dy A'))G, summed
 * over tiles. "in" are the channels of the source, "out" those of the result: the input gradient is the forward pass over dy with
 * the filter rotated by 180 degrees. [Lavin and Gray, 2015: Fast Algorithms for Convolutional Neural Networks]
 * The points of the transforms are 0, 5/8, -5/8, 3/2, -3/2 and infinity: A and B are exact in float, and the error is half that of
 * the usual 0, 1, -1, 2, -2. Larger filters take eight points, 0, 1/2, -1/2, 1, -1, 2, -2 and infinity: those of 5x5 F(4x4,5x5), 64
 * products instead of 400 for a tile, those of 7x7 F(5x5,4x4). Of the points that were tried, these have the smallest error.
 * A larger filter is cut into blocks of 3x3 taps, or of 4x4 or 5x5; each adds its products to M = U V, with the V of the pixels
 * that it sees, as many rows or columns further on than the block before. With stride 2, the even taps make one block and the odd
 * taps another (of five taps, 0, 2, 4 and 1, 3), and each reads every other pixel. The input gradient then computes the even rows
 * of dx first and the odd rows after them, each with the taps that reach them. The same holds for columns. */

/* The blocks of taps along one side of a filter. Tap i of block k is first[k] + i step; if that is outside of the filter, it is zero.
 * The block reads pixels from from[k] on, counted from the first pixel of the window. */
#define TP__WINO_BLOCKS 9 /* of a filter at most, because each has its own transform of the source */
typedef struct tp__wino_side {
    int64_t n, step, taps;
    int64_t first[TP__WINO_BLOCKS], from[TP__WINO_BLOCKS];
    /* pixel: distance from one pixel of a block to the next. begin: from a position times the stride to the window's first pixel */
    int64_t pixel, begin;
    /* the first row or column of the result, and the distance to the next one in the same tile */
    int64_t dst, dst_step;
} tp__wino_side;

typedef struct tp__wino {
    tp__wino_form form;
    /* of tiles, `edge` pixels apart; each reads what its window covers; dilated, dh x dw tiles at a position */
    tp__grid grid;
    const tp__conv_args *a;
    const struct tp__isa *isa;
    tp__conv_pass pass;
    tp__wino_side side_h, side_w;
    int64_t blocks; /* number of blocks of taps that the filter is cut into */
    int64_t places; /* numbers in a transformed tile: 36 or 64 */
    /* the first of the groups that are computed together, and their number: one transform for all their channels, a product for each */
    int64_t group, groups;
    /* numbers of a group's input and output channels, and of all these groups; nr: columns in a panel of the transformed weights */
    int64_t in, out, in_all, out_all, nr;
    int64_t dst_h, dst_w, dst_c; /* size of the image that the tiles write, and its channels */
    int64_t dh, dw, phases;      /* dilation; number of tiles, dh x dw, that share a position of the grid */
    int64_t block_rows;          /* rows of tiles that are processed together */
    int together; /* number of pieces that a chunk transforms before it multiplies: more than 1 if U misses L2 and pieces are small */
    int64_t buffer_gap, buffers; /* floats of a piece's buffer, and of all that a chunk has */
    /* floats of one of the planes, one for each place, of a block of transformed tiles: of V (input channels), of M (output channels) */
    int64_t v_plane, m_plane;
    /* the transformed weights U are stored as panels of [in][columns] of each block of each group at each place */
    int64_t u_group, u_plane, pack_floats;
    /* filter gradient: number of sequences of pieces; each is summed into a dw of its own */
    int parts;
    float *u, *part;
    tp__slots slots;
} tp__wino;
#define TP__WINO_CHANNELS 16 /* Winograd takes at least so many channels, a vector of each instruction set */
/* Times in multiplications, measured with AVX-512: of the transform of a channel, for each number of a transformed tile, and where the
 * channels of a group are a part of each pixel; of making and reading a transformed weight, where these fit into L2 and where they do not. */
#define TP__WINO_TRANSFORM       9.0
#define TP__WINO_TRANSFORM_GROUP 13.0
#define TP__WINO_WEIGHT          10.0
#define TP__WINO_WEIGHT_LARGE    30.0
#define TP__WINO_GAIN \
    1.35 /* the direct form must take so many times as long as Winograd's, counted in multiplications */
/* floats of Winograd's V and M for a block of tiles, which should stay in L2 together with U */
#define TP__WINO_FLOATS 131072
/* Groups are computed together as long as a block has so many tiles, and they have so many transformed weights, twice as many where
 * each group alone would leave lanes empty. */
#define TP__WINO_TILES_LEAST 24
#define TP__WINO_WEIGHTS     120000
/* From so many floats on, U misses L2. Then a block has so many tiles, which use each part of U, of so many pieces at most. */
#define TP__WINO_LARGE    524288
#define TP__WINO_TILES    64
#define TP__WINO_TOGETHER 16

/* The rows or columns that whole tiles compute for a result of `size`. */
TP__UNUSED TP__SMALL static double tp__wino_positions(int64_t edge, int64_t size, int64_t dilation)
{
    const double tile = (double)edge * (double)dilation;
    return dilation >= size ? tile : (double)tp__ceil_div(size, edge * dilation) * tile;
}
/* How many taps along one side of a filter lie inside an image of `size`, over all `out` rows or columns of the result. */
TP__UNUSED TP__SMALL static double tp__wino_taps(int64_t out, int64_t size, int64_t taps, int64_t stride,
                                                 int64_t dilation, int64_t pad)
{
    double sum = 0;
    for (int64_t r = 0; r < taps; r++) {
        const double first = (double)r * (double)dilation - (double)pad; /* what the tap reads for the first position */
        const double inside = ceil(((double)size - first) / (double)stride);
        const double end = inside < (double)out ? inside : (double)out;
        const double begin = first < 0 ? ceil(-first / (double)stride) : 0;
        if (end > begin) sum += end - begin;
    }
    return sum;
}
/* How many blocks of `block` taps one side of a filter has; 0: more than TP__WINO_BLOCKS, or a stride for which there is no form. */
TP__UNUSED TP__SMALL static int64_t tp__wino_side_blocks(int64_t block, int64_t taps, int64_t stride, int64_t dilation)
{
    int64_t n = 0;
    if (taps < 3 || taps > block * TP__WINO_BLOCKS || stride > taps || (stride > 1 && dilation > 1)) return 0;
    if (block > 3 && tp__ceil_div(taps, stride) < block) return 0; /* eight points err more, and three taps need six */
    for (int64_t p = 0; p < stride; p++) n += tp__ceil_div(tp__ceil_div(taps - p, stride), block);
    return n <= TP__WINO_BLOCKS ? n : 0;
}
/* The time of one form, counted in multiplications; infinite if the filter is not for it. Tiles also compute positions beyond the edge of
 * the result; then there are the transforms, and more weights to read. */
TP__UNUSED TP__SMALL static double tp__wino_time(const tp__wino_form *f, const tp__conv *g)
{
    const int64_t blocks = tp__wino_side_blocks(f->taps, g->KH, g->stride_h, g->dilation_h) *
                           tp__wino_side_blocks(f->taps, g->KW, g->stride_w, g->dilation_w);
    if (blocks < 1 || blocks > TP__WINO_BLOCKS) return HUGE_VAL;
    const double places = (double)(f->size * f->size), position = places / (double)(f->edge * f->edge);
    const double pairs = (double)g->C / (double)g->groups * (double)g->O;
    const double transform = g->groups > 1 ? TP__WINO_TRANSFORM_GROUP : TP__WINO_TRANSFORM;
    const double transforms = transform * (double)(blocks + 1) / 2 * (double)(g->C + g->O);
    const bool large = places * (double)blocks * pairs / (double)g->groups > TP__WINO_LARGE;
    const double weight = large ? TP__WINO_WEIGHT_LARGE : TP__WINO_WEIGHT;
    return (double)g->B * tp__wino_positions(f->edge, g->OH, g->dilation_h) *
               tp__wino_positions(f->edge, g->OW, g->dilation_w) * position * ((double)blocks * pairs + transforms) +
           weight * places * (double)blocks * pairs;
}
/* The time of the direct form, which leaves out taps beyond the edge of the image. */
TP__UNUSED TP__SMALL static double tp__wino_direct_time(const tp__conv *g)
{
    const double weights = (double)(g->KH * g->KW) * (double)g->C / (double)g->groups * (double)g->O;
    const bool large = 4 * weights / (double)g->groups > TP__WINO_LARGE; /* U has about four times as many */
    return (double)g->B *
               tp__wino_taps(g->OH, g->H + g->border[1], g->KH, g->stride_h, g->dilation_h, g->top - g->border[0]) *
               tp__wino_taps(g->OW, g->W + g->border[3], g->KW, g->stride_w, g->dilation_w, g->left - g->border[2]) *
               (double)g->C / (double)g->groups * (double)g->O +
           (large ? TP__WINO_WEIGHT_LARGE : TP__WINO_WEIGHT) * weights;
}
/* The form that takes the least time; NULL: the direct one. */
TP__SMALL static const tp__wino_form *tp__wino_form_of(const struct tp__isa *isa, const tp__conv *g)
{
    static const tp__wino_form forms[] = {{6, 4, 3}, {8, 4, 5}, {8, 5, 4}};
    const tp__wino_form *best = NULL;
#ifdef TP_NO_WINOGRAD
    (void)isa;
    (void)g;
    (void)forms;
#else
    if (!tp__wino_in_of[isa->level] || tp__min64(g->C, g->O) / g->groups < TP__WINO_CHANNELS || g->H < g->stride_h ||
        g->W < g->stride_w)
        return NULL;
    double least = tp__wino_direct_time(g) / TP__WINO_GAIN;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const double time = tp__wino_time(&forms[i], g);
        if (time < least) least = time, best = &forms[i];
    }
#endif
    return best;
}
static bool tp__conv_is_wino(const struct tp__isa *isa, const tp__conv *g) { return tp__wino_form_of(isa, g) != NULL; }

/* The number of groups that are computed together, a divisor of all. A block of their tiles and their weights should fit into L2. */
static int64_t tp__wino_groups(const tp__wino_form *f, const tp__conv *g, int64_t blocks)
{
    const int64_t places = f->size * f->size, in = g->C / g->groups, out = g->O / g->groups;
    const bool whole = in % TP__WINO_CHANNELS == 0 && out % TP__WINO_CHANNELS == 0;
    const int64_t weights = (whole ? TP__WINO_WEIGHTS : 2 * TP__WINO_WEIGHTS) / (places * blocks * in * out);
    const int64_t most = tp__min64(weights, TP__WINO_FLOATS / (TP__WINO_TILES_LEAST * places * (in + out)));
    int64_t n = tp__max64(1, tp__min64(most, g->groups));
    while (g->groups % n != 0) n--;
    return n;
}

/* The blocks of one side of a filter. The input gradient computes the rows or columns `phase`, phase + stride, ... of dx. */
static tp__wino_side tp__wino_side_of(const tp__wino_form *f, bool input_grad, int64_t taps, int64_t stride,
                                      int64_t dilation, int64_t pad, int64_t phase)
{
    tp__wino_side s;
    memset(&s, 0, sizeof s);
    s.taps = taps;
    if (input_grad) { /* the taps that reach these rows, the last one first, because dx[i] is the sum of dy[i - tap] w[tap] */
        const int64_t least = (phase + pad) % stride, n = tp__ceil_div(taps - least, stride);
        s.step = -stride, s.pixel = dilation;
        s.begin = (phase + pad) / stride - (n - 1) * dilation;
        s.dst = phase, s.dst_step = stride * dilation;
        for (int64_t i = 0; i < n; i += f->taps, s.n++) {
            s.first[s.n] = least + stride * (n - 1 - i);
            s.from[s.n] = i * dilation;
        }
        return s;
    }
    s.step = stride, s.pixel = stride * dilation;
    s.begin = -pad;
    s.dst_step = dilation;
    for (int64_t p = 0; p < stride; p++)
        for (int64_t tap = p; tap < taps; tap += f->taps * stride, s.n++) {
            s.first[s.n] = tap;
            s.from[s.n] = tap * dilation;
        }
    return s;
}
/* The pixels along one side of what a tile reads; `dilation` tiles lie one beside the other. */
static int64_t tp__wino_window(const tp__wino_side *s, int64_t size, int64_t dilation)
{
    int64_t last = 0;
    for (int64_t i = 0; i < s->n; i++) last = tp__max64(last, s->from[i]);
    return last + (size - 1) * s->pixel + dilation;
}

/* Returns the bytes of scratch. phase_h, phase_w: of the rows and columns of dx that the input gradient computes. */
TP__SMALL static size_t tp__wino_make(tp__wino *w, tp_device *d, const tp__conv_args *a, tp__conv_pass pass,
                                      int64_t phase_h, int64_t phase_w, void *scratch)
{
    tp__carver c = tp__carver_over(scratch);
    tp__grid *q = &w->grid;
    const bool input_grad = pass == TP__CONV_INPUT_GRAD;
    memset(w, 0, sizeof *w);
    w->a = a;
    w->isa = d->isa;
    w->pass = pass;
    w->form = *tp__wino_form_of(d->isa, &a->g);
    w->side_h = tp__wino_side_of(&w->form, input_grad, a->g.KH, a->g.stride_h, a->g.dilation_h, a->g.top, phase_h);
    w->side_w = tp__wino_side_of(&w->form, input_grad, a->g.KW, a->g.stride_w, a->g.dilation_w, a->g.left, phase_w);
    w->blocks = w->side_h.n * w->side_w.n;
    w->places = w->form.size * w->form.size;
    w->in = (input_grad ? a->g.O : a->g.C) / a->g.groups;
    w->out = (input_grad ? a->g.C : a->g.O) / a->g.groups;
    w->groups = tp__wino_groups(&w->form, &a->g, w->blocks);
    w->in_all = w->in * w->groups, w->out_all = w->out * w->groups;
    w->nr = 2 * w->isa->vw;
    w->dst_h = input_grad ? a->g.H : a->g.OH;
    w->dst_w = input_grad ? a->g.W : a->g.OW;
    w->dst_c = w->out * a->g.groups;
    q->src = input_grad ? a->dy : a->x;
    if (!input_grad) tp__grid_norm(q, a, d->isa);
    q->images = a->g.B;
    q->h = input_grad ? a->g.OH : a->g.H;
    q->w = input_grad ? a->g.OW : a->g.W;
    q->c = w->in_all;
    q->pixel = w->in * a->g.groups;
    w->dh = a->g.dilation_h, w->dw = a->g.dilation_w, w->phases = w->dh * w->dw;
    q->stride_h = w->form.edge * w->side_h.pixel, q->stride_w = w->form.edge * w->side_w.pixel;
    q->rows = tp__ceil_div(w->dst_h - w->side_h.dst, w->form.edge * w->side_h.dst_step);
    q->cols = tp__ceil_div(w->dst_w - w->side_w.dst, w->form.edge * w->side_w.dst_step);
    q->top = w->side_h.begin, q->left = w->side_w.begin;
    q->window_h = tp__wino_window(&w->side_h, w->form.size, w->dh),
    q->window_w = tp__wino_window(&w->side_w, w->form.size, w->dw);
    q->in_place = tp__grid_in_place(q);
    const int64_t channels = w->in_all + w->out_all;
    w->u_group = w->blocks * w->in * w->out;
    w->u_plane = w->groups * w->u_group;
    tp__grid_split(q, w->phases, tp__max64(16, 131072 / w->places / channels));
    const bool large = w->places * w->u_plane > TP__WINO_LARGE;
    const int64_t limit = large ? w->places * TP__WINO_TILES * channels : TP__WINO_FLOATS;
    w->block_rows = tp__max64(1, limit / w->places / channels / (q->cols * w->phases));
    w->block_rows = tp__min64(w->block_rows, q->piece_images * q->piece_rows);
    w->together = 1;
    if (large && w->block_rows == q->piece_images * q->piece_rows) {
        /* the filter gradient must not depend on the number of threads, because its blocks are summed one after another */
        const int64_t threads = pass != TP__CONV_FILTER_GRAD && d->pool ? tp_pool_threads(d->pool) : 1;
        const int64_t most = tp__min64(TP__WINO_TOGETHER, q->pieces / threads);
        w->together = (int)tp__max64(1, tp__min64(most, TP__WINO_TILES / (w->block_rows * q->cols * w->phases)));
    }
    w->buffer_gap = (q->buffer_floats + 15) / 16 * 16;
    w->buffers = w->buffer_gap * (w->blocks > 1 ? w->together : 1);
    const int64_t tiles = w->together * w->block_rows * q->cols * w->phases;
    /* 16 floats of padding, because otherwise the planes of transformed tiles would map to the same cache set */
    w->v_plane = tiles * w->in_all + 16;
    w->m_plane = tiles * w->out_all + 16;
    w->pack_floats = w->form.taps * w->form.taps * TP__WINO_CHANNELS * w->nr;
    if (pass == TP__CONV_FILTER_GRAD) {
        w->u_plane += 16;
        /* each part ends with the transform of its sums, which takes longer if they miss L2 */
        const int64_t part_tiles = large ? 192 : 96;
        w->parts = (int)tp__max64(1, tp__min64(TP__PARTS, q->images * q->rows * q->cols * w->phases / part_tiles));
        w->parts = (int)tp__min64(w->parts, q->pieces);
        w->part =
            (float *)tp__carve(&c, w->parts > 1 ? w->parts * a->g.KH * a->g.KW * w->in * a->g.O : 0, sizeof(float));
    } else w->u = (float *)tp__carve(&c, w->places * w->u_plane, sizeof(float));
    tp__slots_carve(&w->slots, d, &c,
                    tp__max64(w->pack_floats, w->buffers + w->places * (w->v_plane + w->m_plane) +
                                                  (pass == TP__CONV_FILTER_GRAD ? w->places * w->u_plane : 0)));
    return tp__carved(&c);
}

/* The tap of the filter that is tap i of a block, or -1 if the block reaches beyond the filter there. */
static int64_t tp__wino_tap(const tp__wino *w, int64_t block, int64_t i)
{
    const tp__wino_side *h = &w->side_h, *v = &w->side_w;
    const int64_t r = h->first[block / v->n] + i / w->form.taps * h->step,
                  s = v->first[block % v->n] + i % w->form.taps * v->step;
    return r >= 0 && r < h->taps && s >= 0 && s < v->taps ? r * v->taps + s : -1;
}
/* A chunk of packing: computes U for one group, one block of taps, 16 input channels and one panel of output channels. */
TP__SMALL static void tp__wino_pack(void *user, int64_t chunk)
{
    tp__wino *w = (tp__wino *)user;
    const tp__conv_args *a = w->a;
    const int64_t parts = tp__ceil_div(w->in, TP__WINO_CHANNELS), panels = tp__ceil_div(w->out, w->nr);
    const int64_t k = chunk % parts * TP__WINO_CHANNELS, rows = tp__min64(TP__WINO_CHANNELS, w->in - k);
    const int64_t block = chunk / parts % w->blocks, index = chunk / parts / w->blocks / panels;
    const int64_t column = chunk / parts / w->blocks % panels * w->nr, n = tp__min64(w->out - column, w->nr);
    const int64_t taps = w->form.taps * w->form.taps, group = w->group + index;
    const float *tap[TP__WINO_TAPS];
    float *u = w->u + index * w->u_group + (block * w->out + column) * w->in + k * n;
    if (w->pass == TP__CONV_FORWARD) {
        for (int64_t row = 0; row < rows; row++) {
            for (int64_t i = 0; i < taps; i++) {
                const int64_t at = tp__wino_tap(w, block, i);
                tap[i] = at < 0 ? NULL : a->w + (at * w->in + k + row) * a->g.O + group * w->out + column;
            }
            tp__wino_filter_of[w->isa->level](&w->form, n, tap, u + row * n, w->u_plane);
        }
        return;
    }
    const int slot = tp__slot_acquire(&w->slots);
    float *transposed = w->slots.memory + slot * w->slots.floats;
    for (int64_t i = 0; i < taps; i++) { /* as [tap][o][c] */
        const int64_t at = tp__wino_tap(w, block, i);
        const float *from = a->w + (at * w->out + column) * a->g.O + group * w->in + k;
        float *to = transposed + i * rows * n;
        tap[i] = at < 0 ? NULL : to;
        if (at >= 0) w->isa->transpose(to, n, n, from, a->g.O, n, rows);
    }
    tp__wino_filter_of[w->isa->level](&w->form, rows * n, tap, u, w->u_plane);
    tp__slot_release(&w->slots, slot);
}

/* Computes Winograd's V of a block of taps for `rows` rows of the grid from `row`, counted through all images of the piece.
 * Returns the number of tiles. */
static int64_t tp__wino_source(const tp__wino *w, int64_t block, const tp__piece *p, int64_t row, int64_t rows,
                               float *v)
{
    const tp__grid *q = &w->grid;
    const float *at =
        p->at + w->side_h.from[block / w->side_w.n] * q->row_floats + w->side_w.from[block % w->side_w.n] * q->c;
    for (int64_t i = row; i < row + rows; i++)
        for (int64_t phase = 0; phase < w->phases; phase++, v += q->cols * q->c)
            tp__wino_in_of[w->isa->level](&w->form, q->c, q->cols,
                                          at + i / p->rows * q->image_floats + i % p->rows * q->step_floats +
                                              phase / w->dw * q->row_floats + phase % w->dw * q->c,
                                          w->side_h.pixel * q->row_floats, w->side_w.pixel * q->c, v, w->v_plane);
    return rows * q->cols * w->phases;
}

/* Computes V of a block of taps for the pieces from `first` to `end`, which the first block loads. Returns the number of tiles. */
TP__SMALL static int64_t tp__wino_sources(const tp__wino *w, int64_t block, int64_t first, int64_t end, float *buffer,
                                          float *v)
{
    const tp__grid *q = &w->grid;
    int64_t tiles = 0;
    for (int64_t i = first; i<end; i++, buffer += w->blocks> 1 ? w->buffer_gap : 0) {
        tp__piece p = tp__grid_piece(q, i);
        p.at = buffer;
        if (block == 0 || q->in_place) p = tp__grid_load(q, i, w->group * w->in, buffer);
        tiles += tp__wino_source(w, block, &p, 0, p.images * p.rows, v + tiles * q->c);
    }
    return tiles;
}

/* The tiles of one phase of a row of the grid, as pixels of the result: the offset of the first, and how many rows (at most `edge` are
 * used) and columns of them there are; none beyond the edge. */
typedef struct tp__wino_row {
    int64_t at, rows, width;
} tp__wino_row;
static tp__wino_row tp__wino_row_at(const tp__wino *w, const tp__piece *p, int64_t row, int64_t phase)
{
    const tp__wino_side *h = &w->side_h, *v = &w->side_w;
    const int64_t y = h->dst + (p->row + row % p->rows) * w->form.edge * h->dst_step + phase / w->dw,
                  x = v->dst + phase % w->dw;
    tp__wino_row r;
    r.at = (((p->image + row / p->rows) * w->dst_h + y) * w->dst_w + x) * w->dst_c + w->group * w->out;
    r.rows = tp__ceil_div(tp__max64(0, w->dst_h - y), h->dst_step);
    r.width = r.rows > 0 ? tp__ceil_div(tp__max64(0, w->dst_w - x), v->dst_step) : 0;
    return r;
}

/* Computes M (+)= U V of a block of taps, and fetches parts of the next piece and of the result meanwhile. */
TP__SMALL static void tp__wino_products(const tp__wino *w, int64_t block, const float *v, float *m, int64_t tiles,
                                        tp__prefetch *next, int64_t next_floats, tp__prefetch *written)
{
    tp__even t;
    memset(&t, 0, sizeof t);
    t.K = w->in;
    t.a_gap = w->in_all, t.c_gap = w->out_all;
    t.step = 1;
    t.add = block > 0;
    for (int64_t place = 0; place < w->places; place++) {
        tp__prefetch_next(next, next_floats);
        tp__prefetch_written(written, tp__prefetch_share(written, w->places - place));
        for (int64_t group = 0; group < w->groups; group++)
            for (int64_t column = 0; column < w->out; column += w->nr) {
                const int64_t n = tp__min64(w->out - column, w->nr);
                const bool more = column + w->nr < w->out, last = group + 1 == w->groups;
                const float *u = w->u + place * w->u_plane + group * w->u_group + block * w->out * w->in;
                t.a = v + place * w->v_plane + group * w->in;
                t.c = m + place * w->m_plane + group * w->out + column;
                t.b = u + column * w->in;
                t.ldb = n;
                t.next = more ? t.b + w->nr * w->in : u + (last ? w->u_plane - group * w->u_group : w->u_group);
                tp__even_product_of[w->isa->level](&t, tiles, n);
            }
    }
}

/* Transforms M to the result, for some rows of the grid, counted through all images of the piece. */
TP__SMALL static void tp__wino_result(const tp__wino *w, const tp__piece *p, int64_t row, int64_t rows, const float *m)
{
    const tp__epilogue *e = &w->a->epilogue;
    float *dst = w->pass == TP__CONV_FORWARD ? w->a->y : w->a->dx;
    for (int64_t i = 0; i < rows * w->phases; i++, m += w->grid.cols * w->out_all) {
        const tp__wino_row r = tp__wino_row_at(w, p, row + i / w->phases, i % w->phases);
        tp__wino_out_of[w->isa->level](&w->form, w->out_all, r.width, r.rows, m, w->m_plane, dst + r.at,
                                       w->side_h.dst_step * w->dst_w * w->dst_c, w->side_w.dst_step * w->dst_c,
                                       w->a->more ? w->a->more + r.at : NULL,
                                       e->bias ? e->bias + w->group * w->out : NULL, tp__ceiling(e));
    }
}
/* Normalises what was written of a piece, if a batch norm is fused. */
TP__SMALL static void tp__wino_after(const tp__wino *w, const tp__piece *p)
{
    float *dst = w->pass == TP__CONV_FORWARD ? w->a->y : w->a->dx;
    const int64_t y = p->row * w->form.edge * w->dh, height = tp__min64(p->rows * w->form.edge * w->dh, w->dst_h - y);
    for (int64_t i = 0; i < p->images; i++)
        tp__conv_after(w->a, w->isa, dst + ((p->image + i) * w->dst_h + y) * w->dst_w * w->out, height * w->dst_w);
}

/* A chunk of Winograd's forward pass or input gradient: one piece, in blocks of rows, or several small pieces as one block. */
TP__SMALL static void tp__wino_chunk(void *user, int64_t chunk)
{
    tp__wino *w = (tp__wino *)user;
    const tp__grid *q = &w->grid;
    const int64_t first = chunk * w->together, end = tp__min64(first + w->together, q->pieces);
    const int slot = tp__slot_acquire(&w->slots);
    float *buffer = w->slots.memory + slot * w->slots.floats, *v = buffer + w->buffers;
    float *m = v + w->places * w->v_plane;
    tp__prefetch none = tp__prefetch_of(NULL, 0);
    if (w->together > 1) {
        for (int64_t b = 0; b < w->blocks; b++)
            tp__wino_products(w, b, v, m, tp__wino_sources(w, b, first, end, buffer, v), &none, 0, &none);
        int64_t tiles = 0;
        for (int64_t i = first; i < end; i++) {
            const tp__piece p = tp__grid_piece(q, i);
            tp__wino_result(w, &p, 0, p.images * p.rows, m + tiles * w->out_all);
            tp__wino_after(w, &p);
            tiles += p.images * p.rows * q->cols * w->phases;
        }
        tp__slot_release(&w->slots, slot);
        return;
    }
    const tp__piece p = tp__grid_load(q, first, w->group * w->in, buffer);
    const int64_t piece_rows = p.images * p.rows;
    tp__prefetch next = tp__grid_prefetch(q, first + w->slots.n, w->group / w->groups, w->a->g.groups / w->groups);
    const int64_t prefetch_floats =
        tp__prefetch_share(&next, w->places * w->blocks * tp__ceil_div(piece_rows, w->block_rows));
    for (int64_t row = 0; row < piece_rows; row += w->block_rows) {
        const int64_t rows = tp__min64(w->block_rows, piece_rows - row);
        /* the part of the output that this block of tiles will write */
        tp__prefetch written =
            tp__prefetch_of((w->pass == TP__CONV_FORWARD ? w->a->y : w->a->dx) + tp__wino_row_at(w, &p, row, 0).at,
                            w->form.edge * w->side_h.dst_step * rows * w->dst_w * w->dst_c);
        for (int64_t b = 0; b < w->blocks; b++) {
            const int64_t tiles = tp__wino_source(w, b, &p, row, rows, v);
            tp__wino_products(w, b, v, m, tiles, &next, prefetch_floats, b + 1 < w->blocks ? &none : &written);
        }
        tp__wino_result(w, &p, row, rows, m);
    }
    tp__wino_after(w, &p);
    tp__slot_release(&w->slots, slot);
}

/* Transforms some rows of dy, to M, for the filter gradient. */
TP__SMALL static void tp__wino_grad_dy(const tp__wino *w, const tp__piece *p, int64_t row, int64_t rows, float *m)
{
    const tp__conv_args *a = w->a;
    const int64_t cols = w->grid.cols;
    for (int64_t i = 0; i < rows * w->phases; i++, m += cols * w->out_all) {
        const tp__wino_row r = tp__wino_row_at(w, p, row + i / w->phases, i % w->phases);
        const int64_t tiles = tp__ceil_div(r.width, w->form.edge);
        tp__wino_dy_of[w->isa->level](&w->form, w->out_all, r.width, r.rows, a->dy + r.at, w->dh * a->g.OW * w->dst_c,
                                      w->dw * w->dst_c, m, w->m_plane);
        for (int64_t k = 0; k < w->places && tiles < cols; k++) /* tiles beyond the edge */
            memset(m + k * w->m_plane + tiles * w->out_all, 0, (size_t)((cols - tiles) * w->out_all) * sizeof *m);
    }
}
/* sum (+)= V' M of a block of taps at each place */
TP__SMALL static void tp__wino_grad_products(const tp__wino *w, int64_t block, const float *v, const float *m,
                                             float *sum, int64_t tiles, bool add, tp__prefetch next[2],
                                             const int64_t share[2])
{
    tp__even t;
    memset(&t, 0, sizeof t);
    t.K = tiles;
    t.a_gap = 1;
    t.step = w->in_all;
    t.ldb = w->out_all, t.c_gap = w->out;
    t.add = add;
    for (int64_t place = 0; place < w->places; place++) {
        for (int i = 0; i < 2; i++) tp__prefetch_next(&next[i], share[i]);
        for (int64_t group = 0; group < w->groups; group++)
            for (int64_t column = 0; column < w->out; column += w->nr) {
                t.a = v + place * w->v_plane + group * w->in;
                t.b = m + place * w->m_plane + group * w->out + column;
                t.c = sum + place * w->u_plane + group * w->u_group + block * w->in * w->out + column;
                tp__even_product_of[w->isa->level](&t, w->in, tp__min64(w->out - column, w->nr));
            }
    }
}
/* What the next piece reads of x and dy; it is fetched during the products of each of the piece's blocks. */
TP__SMALL static void tp__wino_grad_prefetch(const tp__wino *w, const tp__piece *p, int64_t next_piece,
                                             tp__prefetch next[2], int64_t share[2])
{
    const tp__conv_args *a = w->a;
    const int64_t image = a->g.OH * a->g.OW * a->g.O,
                  used = p->images == 1 ? w->form.edge * w->dh * p->rows * a->g.OW * a->g.O : p->images * image;
    const float *dy = a->dy + p->image * image + w->form.edge * w->dh * p->row * a->g.OW * a->g.O + used;
    const int64_t sets = a->g.groups / w->groups;
    next[0] = tp__grid_prefetch(&w->grid, next_piece, w->group / w->groups, sets);
    next[1] = tp__prefetch_of(dy, tp__max64(0, tp__min64(used, a->g.B * image - (dy - a->dy))) / sets);
    for (int i = 0; i < 2; i++)
        share[i] =
            tp__prefetch_share(&next[i], w->places * w->blocks * tp__ceil_div(p->images * p->rows, w->block_rows));
}

/* Transforms the sums of all blocks of a group to dw. */
static void tp__wino_grad_result(const tp__wino *w, int64_t group, const float *sum, float *dw)
{
    const int64_t pairs = w->in * w->out, run = w->dst_c == w->out ? pairs : w->out; /* adjacent weights in dw */
    for (int64_t b = 0; b < w->blocks; b++)
        for (int64_t k = 0; k < pairs; k += run) {
            float *tap[TP__WINO_TAPS];
            for (int64_t i = 0; i < w->form.taps * w->form.taps; i++) {
                const int64_t at = tp__wino_tap(w, b, i);
                tap[i] = at < 0 ? NULL : dw + (at * w->in + k / w->out) * w->dst_c + group * w->out;
            }
            tp__wino_dw_of[w->isa->level](&w->form, run, sum + b * pairs + k, w->u_plane, tap);
        }
}

/* A chunk of Winograd's filter gradient: one of the partial sums of dw. */
TP__SMALL static void tp__wino_grad_chunk(void *user, int64_t part)
{
    tp__wino *w = (tp__wino *)user;
    const tp__grid *q = &w->grid;
    const int64_t first = part * q->pieces / w->parts, end = (part + 1) * q->pieces / w->parts;
    const int slot = tp__slot_acquire(&w->slots);
    float *buffer = w->slots.memory + slot * w->slots.floats, *v = buffer + w->buffers;
    float *m = v + w->places * w->v_plane, *sum = m + w->places * w->m_plane;
    float *dw = w->parts > 1 ? w->part + part * w->a->g.KH * w->a->g.KW * w->in * w->dst_c : w->a->dw;
    for (int64_t index = first; index < end; index += w->together) {
        tp__prefetch next[2] = {tp__prefetch_of(NULL, 0), tp__prefetch_of(NULL, 0)};
        int64_t share[2] = {0, 0};
        if (w->together > 1) {
            const int64_t last = tp__min64(index + w->together, end);
            int64_t tiles = 0;
            for (int64_t i = index; i < last; i++) {
                const tp__piece p = tp__grid_piece(q, i);
                tp__wino_grad_dy(w, &p, 0, p.images * p.rows, m + tiles * w->out_all);
                tiles += p.images * p.rows * q->cols * w->phases;
            }
            for (int64_t b = 0; b < w->blocks; b++) {
                tp__wino_sources(w, b, index, last, buffer, v);
                tp__wino_grad_products(w, b, v, m, sum, tiles, index > first, next, share);
            }
            continue;
        }
        const tp__piece p = tp__grid_load(q, index, w->group * w->in, buffer);
        tp__wino_grad_prefetch(w, &p, index + 1 < end ? index + 1 : q->pieces, next, share);
        for (int64_t row = 0; row < p.images * p.rows; row += w->block_rows) {
            const int64_t rows = tp__min64(w->block_rows, p.images * p.rows - row);
            tp__wino_grad_dy(w, &p, row, rows, m);
            for (int64_t b = 0; b < w->blocks; b++) {
                const int64_t tiles = tp__wino_source(w, b, &p, row, rows, v);
                tp__wino_grad_products(w, b, v, m, sum, tiles, index > first || row > 0, next, share);
            }
        }
    }
    for (int64_t i = 0; i < w->groups; i++) tp__wino_grad_result(w, w->group + i, sum + i * w->u_group, dw);
    tp__slot_release(&w->slots, slot);
}

/* The phases of rows or columns that the input gradient computes one after another; the other passes have one. */
static int64_t tp__wino_phases(tp__conv_pass pass, int64_t stride) { return pass == TP__CONV_INPUT_GRAD ? stride : 1; }

TP__SMALL static size_t tp__wino_scratch(tp_device *d, const tp__conv_args *a, tp__conv_pass pass)
{
    size_t most = 0;
    for (int64_t y = 0; y < tp__wino_phases(pass, a->g.stride_h); y++)
        for (int64_t x = 0; x < tp__wino_phases(pass, a->g.stride_w); x++) {
            tp__wino w;
            const size_t need = tp__wino_make(&w, d, a, pass, y, x, NULL);
            if (need > most) most = need;
        }
    return most;
}

/* Computes one phase of all groups. */
TP__SMALL static void tp__wino_phase(tp_device *d, tp__wino *w)
{
    const tp__conv_args *a = w->a;
    for (w->group = 0; w->group < a->g.groups; w->group += w->groups) {
        if (w->pass == TP__CONV_FILTER_GRAD) {
            tp_device_parallel(d, w->parts, tp__wino_grad_chunk, w);
            continue;
        }
        if (a->kept) w->u = a->kept + w->group / w->groups * w->places * w->u_plane;
        if (!a->kept_is_ready)
            tp_device_parallel(
                d, w->groups * tp__ceil_div(w->out, w->nr) * w->blocks * tp__ceil_div(w->in, TP__WINO_CHANNELS),
                tp__wino_pack, w);
        tp_device_parallel(d, tp__ceil_div(w->grid.pieces, w->together), tp__wino_chunk, w);
    }
    if (w->pass == TP__CONV_FILTER_GRAD && w->parts > 1)
        tp__add_parts_run(d, a->dw, w->part, a->g.KH * a->g.KW * w->in * a->g.O, w->parts);
}
TP__SMALL static void tp__wino_run(tp_device *d, const tp__conv_args *a, tp__conv_pass pass, void *scratch)
{
    for (int64_t y = 0; y < tp__wino_phases(pass, a->g.stride_h); y++)
        for (int64_t x = 0; x < tp__wino_phases(pass, a->g.stride_w); x++) {
            tp__wino w;
            tp__wino_make(&w, d, a, pass, y, x, scratch);
            tp__wino_phase(d, &w);
        }
}

/* -- groups of few channels ------------------------------------------------------------------------ >>conv depthwise */
/* Where a group has few channels, as in a depthwise convolution, which has one in x and in y, a product for each group would
 * leave most lanes of a vector empty. Here vectors run along the channels of all groups (tp__taps). The input gradient does
 * the same with dx and dy in place of y and x, for each remainder of a column modulo the stride. */

typedef struct tp__depthwise {
    const tp__conv_args *a;
    const struct tp__isa *isa;
    tp__conv_pass pass;
    /* `to` is y, or dx for the input gradient; `from` is x, or dy. to_step: columns of `to` from one pixel that is computed
     * to the next; from_step: those of `from` */
    int64_t to_h, to_w, to_step, from_h, from_w, from_step;
    int64_t rows, block; /* number of rows of all images of `to`, and of rows in a chunk */
    tp__taps row;        /* arguments that are the same for all rows */
    int parts;
    float *part;
    float *packed;   /* the weights of the input gradient, (KH,KW,O/groups,C); NULL if w is already in that order */
    tp__slots slots; /* each slot has two lists of taps */
} tp__depthwise;
#define TP__WIDE_TAPS     25
#define TP__WIDE_CHANNELS 48
/* Weights and bias of a depthwise convolution of few channels, repeated: see tp__depthwise_widen */
typedef struct tp__wide_taps {
    int64_t fold;
    float w[TP__WIDE_TAPS * TP__WIDE_CHANNELS], bias[TP__WIDE_CHANNELS];
} tp__wide_taps;

/* Whether a convolution in groups is computed along the channels of all groups, not as one matrix product for each group. The limits,
 * in multiplications for a position and a group, are measured. Groups of 1, 2, 4 or 8 channels in x and in y fill equal parts of a
 * vector, which saves moves. A group's product runs along the positions if the stride is 1 (tp__gather_in_planes), which is faster. */
static bool tp__conv_is_depthwise(const struct tp__isa *isa, const tp__conv *g, tp__conv_pass pass)
{
    const int64_t in = g->C / g->groups, out = g->O / g->groups, work = in * out * g->KH * g->KW;
    const bool equal = in == out && (in & (in - 1)) == 0, strided = g->stride_h > 1 || g->stride_w > 1;
    const bool one_tap = pass == TP__CONV_FILTER_GRAD && g->KH * g->KW == 1; /* a sum for each pair of channels */
    const bool many = tp__max64(g->C, g->O) >= 64; /* with fewer channels, the last vector is a large part of all */
    const int64_t most = one_tap ? 8 : equal ? (strided ? 400 : 200) : (strided || many ? 100 : 26);
    return tp__taps_of[isa->level] && g->groups > 1 && 2 * tp__max64(in, out) <= tp__max64(2, isa->vw) &&
           (in * out == 1 || work <= most);
}

TP__SMALL static size_t tp__depthwise_make(tp__depthwise *w, tp_device *d, const tp__conv_args *a, tp__conv_pass pass,
                                           void *scratch)
{
    const tp__conv *g = &a->g;
    const bool back = pass == TP__CONV_INPUT_GRAD;
    tp__carver c = tp__carver_over(scratch);
    memset(w, 0, sizeof *w);
    w->a = a;
    w->isa = d->isa;
    w->pass = pass;
    w->to_h = back ? g->H : g->OH, w->to_w = back ? g->W : g->OW, w->to_step = back ? g->stride_w : 1;
    w->from_h = back ? g->OH : g->H, w->from_w = back ? g->OW : g->W, w->from_step = back ? 1 : g->stride_w;
    w->rows = g->B * w->to_h;
    w->row.channels = back ? g->C : g->O;
    w->row.in = (back ? g->O : g->C) / g->groups;
    w->row.out = w->row.channels / g->groups;
    w->row.x_step = w->from_step * w->row.in * g->groups;
    w->row.y_step = w->to_step * w->row.channels;
    const int64_t size = g->KH * g->KW * w->row.in * w->row.channels, work = tp__max64(1, w->to_w * size);
    if (pass == TP__CONV_FILTER_GRAD) {
        w->parts = (int)tp__max64(1, tp__min64(TP__PARTS, w->rows * work / (TP__CHUNK_MIN / 16)));
        w->parts = (int)tp__max64(1, tp__min64(w->parts, w->rows));
        w->part = (float *)tp__carve(&c, w->parts * size, sizeof(float));
    } else {
        w->block = tp__max64(1, TP__CHUNK_MIN / 8 / work);
        if (back && w->row.in * w->row.out > 1) w->packed = (float *)tp__carve(&c, size, sizeof(float));
        w->row.w = w->packed ? w->packed : a->w;
        w->row.bias = a->epilogue.bias;
        w->row.ceiling = tp__ceiling(&a->epilogue);
    }
    tp__slots_carve(&w->slots, d, &c, 2 * g->KH * g->KW * (int64_t)(sizeof(tp__source) / sizeof(float)));
    return tp__carved(&c);
}

/* Packs the weights of the input gradient: packed[r,s,o,c] = w[r,s,c % cg,group of c,o] */
static void tp__depthwise_pack(const tp__depthwise *w)
{
    const tp__conv *g = &w->a->g;
    const int64_t cg = g->C / g->groups, og = g->O / g->groups;
    float *to = w->packed;
    for (int64_t tap = 0; tap < g->KH * g->KW; tap++)
        for (int64_t o = 0; o < og; o++)
            for (int64_t c = 0; c < g->C; c++) *to++ = w->a->w[(tap * cg + c % cg) * g->O + c / cg * og + o];
}

/* Lists the taps of a row of all images of `to`, for the columns `phase`, phase + to_step, ... */
static void tp__depthwise_taps(const tp__depthwise *w, int64_t row, int64_t phase, tp__source *tap, tp__taps *t)
{
    const tp__conv *g = &w->a->g;
    const float *from = w->pass == TP__CONV_INPUT_GRAD ? w->a->dy : w->a->x;
    const int64_t image = row / w->to_h, i = row % w->to_h;
    t->x = from + image * w->from_h * w->from_w * w->row.in * g->groups;
    t->tap = tap;
    t->n_tap = 0;
    t->pixels = t->last = tp__ceil_div(w->to_w - phase, w->to_step);
    t->first = 0;
    for (int64_t r = 0; r < g->KH; r++)
        for (int64_t s = 0; s < g->KW; s++) {
            int64_t h, v; /* the pixel of `from` that position (r,s) of the filter reads for the first pixel */
            if (w->pass == TP__CONV_INPUT_GRAD) {
                if (!tp__tap_at(i, g->top, r, g->dilation_h, g->stride_h, &h)) continue;
                if (!tp__tap_at(phase, g->left, s, g->dilation_w, g->stride_w, &v)) continue;
            } else {
                h = i * g->stride_h + r * g->dilation_h - g->top;
                v = s * g->dilation_w - g->left;
            }
            if (h < 0 || h >= w->from_h || v >= w->from_w) continue;
            tap->first = v < 0 ? tp__ceil_div(-v, w->from_step) : 0;
            tap->last = tp__min64(t->pixels, tp__ceil_div(w->from_w - v, w->from_step));
            if (tap->first >= tap->last) continue;
            tap->x = (h * w->from_w + v) * w->row.in * g->groups;
            tap->w = (r * g->KW + s) * w->row.in * w->row.channels;
            t->first = tp__max64(t->first, tap->first);
            t->last = tp__min64(t->last, tap->last);
            t->n_tap++;
            tap++;
        }
}

/* Repeats the weights and the bias of few channels, so that a run of adjacent pixels is computed as one pixel of `fold` times as many
 * channels. Without it most lanes of a vector would be empty. */
static void tp__depthwise_widen(const tp__depthwise *w, tp__wide_taps *v)
{
    const int64_t C = w->row.channels, taps = w->a->g.KH * w->a->g.KW;
    v->fold = 1;
    if (w->pass == TP__CONV_FILTER_GRAD || w->row.in * w->row.out > 1 || taps > TP__WIDE_TAPS) return;
    if (w->to_step * w->from_step > 1) return;
    while (v->fold * C * 2 <= TP__WIDE_CHANNELS && v->fold * 4 <= w->to_w) v->fold *= 2;
    if (v->fold == 1) return;
    for (int64_t k = 0; k < taps * v->fold; k++)
        memcpy(v->w + k * C, w->row.w + k / v->fold * C, (size_t)C * sizeof(float));
    for (int64_t k = 0; k < v->fold && w->row.bias; k++)
        memcpy(v->bias + k * C, w->row.bias, (size_t)C * sizeof(float));
}
/* Computes pixels that all taps read. The last wide pixel ends with the last of them, so it may repeat some. */
static void tp__depthwise_wide(const tp__depthwise *w, const tp__wide_taps *v, tp__taps t)
{
    tp__source tap[TP__WIDE_TAPS];
    const int64_t step = t.y_step, last = t.pixels - v->fold;
    for (int k = 0; k < t.n_tap; k++) tap[k] = t.tap[k], tap[k].w *= v->fold;
    t.tap = tap, t.w = v->w, t.bias = t.bias ? v->bias : NULL;
    t.channels = t.x_step = t.y_step = v->fold * step;
    const bool more = t.pixels % v->fold > 0;
    t.pixels /= v->fold;
    tp__taps_of[w->isa->level](&t);
    if (!more) return;
    t.x += last * step, t.y += last * step, t.pixels = 1;
    tp__taps_of[w->isa->level](&t);
}
/* Computes a row of `to`: the pixels that all taps read at once, and each other one with a list of the taps that it reads. */
static void tp__depthwise_row(const tp__depthwise *w, const tp__wide_taps *wide, const tp__taps *row,
                              tp__source *tap_list)
{
    for (int64_t p = 0; p < row->pixels;) {
        const bool is_inside = p >= row->first && p < row->last;
        tp__taps t = *row;
        t.x += p * t.x_step;
        t.y += p * t.y_step;
        t.pixels = is_inside ? row->last - p : 1;
        if (!is_inside) {
            t.tap = tap_list;
            t.n_tap = 0;
            for (int k = 0; k < row->n_tap; k++)
                if (p >= row->tap[k].first && p < row->tap[k].last) tap_list[t.n_tap++] = row->tap[k];
        }
        if (wide->fold > 1 && t.pixels >= wide->fold) tp__depthwise_wide(w, wide, t);
        else tp__taps_of[w->isa->level](&t);
        p += t.pixels;
    }
}

/* Computes rows row0 <= row < row1 of `to`, or adds their part of the filter gradient to dw. */
static void tp__depthwise_rows(tp__depthwise *w, int64_t row0, int64_t row1, float *dw)
{
    const int slot = tp__slot_acquire(&w->slots);
    tp__source *tap = (tp__source *)(void *)(w->slots.memory + slot * w->slots.floats);
    tp__taps t = w->row;
    tp__wide_taps wide;
    tp__depthwise_widen(w, &wide);
    t.dw = dw;
    for (int64_t row = row0; row < row1; row++)
        for (int64_t phase = 0; phase < tp__min64(w->to_step, w->to_w); phase++) {
            const int64_t at = (row * w->to_w + phase) * t.channels;
            tp__depthwise_taps(w, row, phase, tap, &t);
            if (w->pass == TP__CONV_FILTER_GRAD) {
                t.dy = w->a->dy + at;
                tp__taps_grad_of[w->isa->level](&t);
            } else {
                t.y = (w->pass == TP__CONV_FORWARD ? w->a->y : w->a->dx) + at;
                tp__depthwise_row(w, &wide, &t, tap + w->a->g.KH * w->a->g.KW);
            }
        }
    if (w->pass == TP__CONV_FORWARD)
        tp__conv_after(w->a, w->isa, w->a->y + row0 * w->to_w * t.channels, (row1 - row0) * w->to_w);
    tp__slot_release(&w->slots, slot);
}

/* A chunk of the forward pass or input gradient: some rows of `to`. */
static void tp__depthwise_chunk(void *user, int64_t chunk)
{
    tp__depthwise *w = (tp__depthwise *)user;
    tp__depthwise_rows(w, chunk * w->block, tp__min64((chunk + 1) * w->block, w->rows), NULL);
}

/* A chunk of the filter gradient: one part of the rows of dy. */
static void tp__depthwise_grad_chunk(void *user, int64_t chunk)
{
    tp__depthwise *w = (tp__depthwise *)user;
    const int64_t size = w->a->g.KH * w->a->g.KW * w->row.in * w->row.channels;
    float *dw = w->part + chunk * size;
    memset(dw, 0, (size_t)size * sizeof *dw);
    tp__depthwise_rows(w, chunk * w->rows / w->parts, (chunk + 1) * w->rows / w->parts, dw);
}

static void tp__depthwise_run(tp_device *d, const tp__conv_args *a, tp__conv_pass pass, void *scratch)
{
    tp__depthwise w;
    tp__depthwise_make(&w, d, a, pass, scratch);
    if (pass != TP__CONV_FILTER_GRAD) {
        if (w.packed) tp__depthwise_pack(&w);
        tp_device_parallel(d, tp__ceil_div(w.rows, w.block), tp__depthwise_chunk, &w);
        return;
    }
    tp_device_parallel(d, w.parts, tp__depthwise_grad_chunk, &w);
    tp__add_parts_run(d, a->dw, w.part, a->g.KH * a->g.KW * w.row.in * w.row.channels, w.parts);
}

/* -- choice of the algorithm ----------------------------------------------------------------------------------------- */

/* A 1x1 convolution with stride 1 is a plain matrix product over pixels. */
static bool tp__conv_is_gemm(const tp__conv *g)
{
    return g->groups == 1 && g->KH == 1 && g->KW == 1 && g->stride_h == 1 && g->stride_w == 1 && g->top == 0 &&
           g->left == 0 && g->OH == g->H && g->OW == g->W;
}

TP__SMALL static tp__gemm_args tp__conv_as_gemm(const tp__conv_args *a, tp__conv_pass pass)
{
    const int64_t pixels = a->g.B * a->g.H * a->g.W;
    tp__gemm_args g;
    memset(&g, 0, sizeof g);
    if (pass != TP__CONV_FILTER_GRAD) g.epilogue = a->epilogue;
    if (pass == TP__CONV_FORWARD) { /* for each pixel: y[o] = sum over c of x[c] w[c,o] */
        g.M = pixels, g.N = a->g.O, g.K = a->g.C;
        g.A = a->x, g.B = a->w, g.C = a->y;
        g.lda = a->g.C, g.ldb = a->g.O, g.ldc = a->g.O;
        g.kept = a->kept, g.kept_is_ready = a->kept_is_ready;
        g.after = a->after;
    } else if (pass == TP__CONV_INPUT_GRAD) { /* for each pixel: dx[c] = sum over o of dy[o] w[c,o] */
        g.tb = true;
        g.M = pixels, g.N = a->g.C, g.K = a->g.O;
        g.A = a->dy, g.B = a->w, g.C = a->dx;
        g.lda = a->g.O, g.ldb = a->g.O, g.ldc = a->g.C;
    } else { /* dw[c,o] = sum over pixels of x[pixel,c] dy[pixel,o] */
        g.ta = true;
        g.M = a->g.C, g.N = a->g.O, g.K = pixels;
        g.A = a->x, g.B = a->dy, g.C = a->dw;
        g.lda = a->g.C, g.ldb = a->g.O, g.ldc = a->g.O;
    }
    return g;
}

/* ==== >>amx: products in bf16 tiles ===================================================================== */
/* One AMX instruction multiplies 16 rows of 32 bf16 by 32 rows of 16 and adds the products to 256 float sums: sixteen times
 * the work of AVX-512 in the same time. Operands are packed into such tiles.
 * FLOAT32. A float is exactly the sum of three bf16, hi + mid + lo: each part is the rounded rest. Of the nine products of parts
 * six are summed. The other three, mid lo twice and lo lo, are smaller than the rounding error of a float product. The order of
 * summation differs from the other kernels: 16 products, then both halves of 32, which are then added to the sum over k.
 * BF16. If all values in a panel are bf16 already (mixed precision, small integers), mid and lo are zero and their products
 * are left out: the same bits for a sixth of the work. The packing functions detect such panels.
 * INFINITY times a part that is zero would be NaN: panels with infinities are multiplied by a plain loop.
 * One driver does matrix products and convolutions; they differ in how a block of floats is read for packing. Where a
 * convolution's windows overlap, their pixels are read several times. Small products, depthwise convolutions, the steps of
 * recurrent layers and attention stay with AVX-512. */

#if TP__AMX

/* The instructions. A test may define its own versions of these macros, with TP__AMX_EMULATED. */
#ifndef TP__AMX_EMULATED
#if defined(__clang__)
#define TP__AMX_CODE \
    __attribute__((target("amx-tile,amx-bf16,avx512f,avx512vl,avx512bw,avx512dq,avx2,fma"), min_vector_width(512)))
#else
#define TP__AMX_CODE __attribute__((target("amx-tile,amx-bf16,avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")))
#endif
#define TP__TILE_CONFIGURE(shapes_)     _tile_loadconfig(shapes_)
#define TP__TILE_RELEASE()              _tile_release()
#define TP__TILE_ZERO(t_)               _tile_zero(t_)
#define TP__TILE_LOAD(t_, from_, step_) _tile_loadd(t_, from_, step_)
#define TP__TILE_STORE(t_, to_, step_)  _tile_stored(t_, to_, step_)
#define TP__TILE_PRODUCT(c_, a_, b_)    _tile_dpbf16ps(c_, a_, b_)
#endif

/* rows and columns of a block's output, and values of k in it: two tiles by two, one step along k */
#define TP__AMX_SIDE  32
#define TP__AMX_STEP  1024 /* bf16 values of one of the three parts in a block */
#define TP__AMX_STAGE 128  /* number of values of k that are copied to the staging buffer at a time */

typedef uint32_t tp__amx_bits __attribute__((vector_size(64), may_alias));
typedef float tp__amx_floats __attribute__((vector_size(64), may_alias));

typedef struct tp__amx {
    tp__gemm_args g; /* the matrix product; of a convolution, that of its first group */
    const struct tp__isa *isa;
    const tp__conv_args *conv; /* the convolution; NULL: a plain matrix product */
    tp__conv_pass pass;
    tp__gather w; /* the image windows that one phase of the convolution reads */
    int64_t groups, b_group, c_group;
    /* blocks along k; values of k in a part (k_part), and values of k that are packed at once (kc) */
    int64_t steps, k_part, kc;
    int parts;
    /* rows (mb) and columns (nb) of a chunk; panels: panels of columns in a group */
    int64_t mb, nb, m_blocks, n_blocks, panels;
    bool b_once; /* all of B is packed once, before the product begins */
    uint16_t *packed;
    uint8_t *kind; /* kind of each packed panel, for each block of k */
    float *part;
    tp__slots slots;
} tp__amx;

/* Kinds of a packed panel. TP__AMX_WHOLE: mid and lo are not all zero. TP__AMX_INFINITE: it has infinities. */
enum { TP__AMX_WHOLE = 1, TP__AMX_INFINITE = 2 };

static int64_t tp__amx_round_up(int64_t n) { return (n + TP__AMX_SIDE - 1) / TP__AMX_SIDE * TP__AMX_SIDE; }

/* Only packing and multiplying of tiles are compiled for speed; all other AMX functions are compiled for size. */
TP__COLD_BEGIN

/* Computes the rest of the AMX plan from the shape of the product in g. */
static size_t tp__amx_plan_blocks(tp__amx *p, tp_device *d, tp__carver *c)
{
    const int64_t M = p->g.M, N = p->g.N, K = p->g.K;
    p->isa = d->isa;
    p->steps = tp__ceil_div(K, TP__AMX_SIDE);
    int64_t parts = 1;
    if (K >= 2048 && tp__ceil_div(M, 256) * tp__ceil_div(N, 256) * p->groups < 8)
        parts = tp__min64(tp__min64(TP__PARTS, K / 1024), (4 << 20) / (M * N * p->groups) + 1);
    p->k_part = tp__amx_round_up(tp__ceil_div(K, parts));
    p->parts = (int)tp__ceil_div(K, p->k_part);
    p->kc = tp__amx_round_up(tp__ceil_div(p->k_part, tp__ceil_div(p->k_part, TP__KC)));

    p->mb = tp__min64(tp__amx_round_up(M), 256);
    p->nb = tp__min64(tp__amx_round_up(N), 1024);
    for (;;) {
        p->m_blocks = tp__ceil_div(M, p->mb);
        p->n_blocks = tp__ceil_div(N, p->nb);
        if (p->m_blocks * p->n_blocks * p->parts * p->groups >= TP__CHUNK_MANY) break;
        if (p->mb * p->nb * p->k_part < 4 * TP__CHUNK_MIN || (p->mb == TP__AMX_SIDE && p->nb == TP__AMX_SIDE)) break;
        if (p->mb >= p->nb) p->mb = tp__amx_round_up(p->mb / 2);
        else p->nb = tp__amx_round_up(p->nb / 2);
    }
    p->panels = tp__ceil_div(N, TP__AMX_SIDE);
    p->b_once = p->m_blocks > 1 && p->groups * N * K <= 4 << 20;

    const int64_t kinds = p->b_once ? p->groups * p->panels * p->steps : 0;
    p->packed = (uint16_t *)tp__carve(c, kinds * 3 * TP__AMX_STEP, sizeof *p->packed);
    p->kind = (uint8_t *)tp__carve(c, kinds, 1);
    p->part = (float *)tp__carve(c, p->parts > 1 ? p->groups * p->parts * M * N : 0, sizeof(float));
    /* floats of a slot: two stages, the sums of a block, A's panels and one panel of B; the three parts of a value take
     * 1.5 floats */
    tp__slots_carve(&p->slots, d, c,
                    2 * TP__AMX_SIDE * TP__AMX_STAGE + TP__AMX_STEP +
                        (p->mb + (p->b_once ? 0 : TP__AMX_SIDE)) * p->kc / 2 * 3);
    return tp__carved(c);
}

static bool tp__amx_fits(int64_t M, int64_t N, int64_t K) { return M >= 16 && N >= 16 && K >= 32; }

/* Gradient descent subtracts finished sums, so k must be in one piece. */
static bool tp__amx_takes_gemm(const tp_device *d, const tp__gemm_args *a)
{
    return d->amx && tp__amx_fits(a->M, a->N, a->K) && !(a->descend && a->K > TP__KC);
}
static size_t tp__amx_gemm_make(tp__amx *p, tp_device *d, const tp__gemm_args *a, void *scratch)
{
    tp__carver c = tp__carver_over(scratch);
    memset(p, 0, sizeof *p);
    p->g = *a;
    p->groups = 1;
    return tp__amx_plan_blocks(p, d, &c);
}

/* Describes one phase of a convolution as a matrix product. Returns false if the phase has no pixels. */
static bool tp__amx_conv_shape(tp__amx *p, tp_device *d, const tp__conv_args *a, tp__conv_pass pass, int64_t phase_y,
                               int64_t phase_x)
{
    memset(p, 0, sizeof *p);
    if (tp__gather_make(&p->w, d, a, pass == TP__CONV_INPUT_GRAD, phase_y, phase_x, NULL) == 0) return false;
    p->conv = a;
    p->pass = pass;
    p->groups = a->g.groups;
    p->g.M = a->g.B * p->w.grid.rows * p->w.grid.cols;
    p->g.N = p->b_group = p->c_group = p->w.oc;
    p->g.K = p->w.K;
    p->g.B = a->w;
    p->g.ldb = a->g.O;
    if (pass != TP__CONV_FILTER_GRAD) p->g.epilogue = a->epilogue;
    /* in the product for the filter gradient a row is a weight, and k runs over the positions */
    if (pass == TP__CONV_FILTER_GRAD) {
        p->g.K = p->g.M;
        p->g.M = p->w.K;
        p->g.B = a->dy;
        p->g.C = a->dw;
        p->g.ldc = a->g.O;
    }
    return true;
}
/* Plans one phase of a convolution; returns the bytes of scratch, or 0 if there is nothing to compute. */
static size_t tp__amx_conv_make(tp__amx *p, tp_device *d, const tp__conv_args *a, tp__conv_pass pass, int64_t phase_y,
                                int64_t phase_x, void *scratch)
{
    tp__carver c = tp__carver_over(scratch);
    int64_t y0, y1, x0, x1;
    if (!tp__amx_conv_shape(p, d, a, pass, phase_y, phase_x)) return 0;
    p->w.tap = (tp__tap *)tp__carve(&c, p->w.taps, sizeof *p->w.tap);
    if (p->w.tap) tp__gather_taps(&p->w, p->w.tap, &y0, &y1, &x0, &x1);
    return tp__amx_plan_blocks(p, d, &c);
}
static bool tp__amx_takes_conv(tp_device *d, const tp__conv_args *a, tp__conv_pass pass)
{
    const int64_t sy = pass == TP__CONV_INPUT_GRAD ? a->g.stride_h : 1,
                  sx = pass == TP__CONV_INPUT_GRAD ? a->g.stride_w : 1;
    /* with stride 1 and one group, Winograd's form is faster than AMX, because it needs so many fewer multiplications */
    if (!d->amx || a->more) return false;
    if (a->g.stride_h * a->g.stride_w * a->g.groups == 1 && tp__conv_is_wino(d->isa, &a->g)) return false;
    for (int64_t y = 0; y < sy; y++)
        for (int64_t x = 0; x < sx; x++) {
            tp__amx p;
            const bool any = tp__amx_conv_shape(&p, d, a, pass, y, x);
            if (any && !tp__amx_fits(p.g.M, p.g.N, p.g.K)) return false;
        }
    return true;
}

/* Copies the windows of positions [row, row + rows): values [k, k + n) of each, (tap, channel), to rows `step` apart. */
static void tp__amx_windows(const tp__amx *p, int64_t group, int64_t row, int64_t rows, int64_t k, int64_t n, float *to,
                            int64_t step)
{
    const tp__grid *q = &p->w.grid;
    const int64_t ic = p->w.ic;
    int64_t x = row % q->cols, y = row / q->cols % q->rows, image = row / q->cols / q->rows;
    for (int64_t i = 0; i < rows; i++, to += step) {
        int64_t tap = k / ic, ch = k % ic, len;
        for (int64_t j = 0; j < n; j += len, tap++, ch = 0) {
            const int64_t sy = y * q->stride_h + p->w.tap[tap].y, sx = x * q->stride_w + p->w.tap[tap].x;
            len = tp__min64(ic - ch, n - j);
            if (sy < 0 || sy >= q->h || sx < 0 || sx >= q->w) {
                memset(to + j, 0, (size_t)len * sizeof *to);
                continue;
            }
            const float *src = q->src + ((image * q->h + sy) * q->w + sx) * q->pixel + group * ic + ch;
            if (q->norm) {
                tp__bn bn = q->bn;
                bn.C = len;
                bn.mean += ch;
                bn.scale += ch;
                bn.beta += ch;
                tp__bn_apply_of[q->level](&bn, 1, src, to + j);
            } else memcpy(to + j, src, (size_t)len * sizeof *to);
        }
        if (++x < q->cols) continue;
        x = 0;
        if (++y < q->rows) continue;
        y = 0;
        image++;
    }
}

/* Copies rows [row, row + rows) of A, for the values [k, k + n) of k, to the staging buffer to[i][TP__AMX_STAGE]. */
static void tp__amx_copy_a(const tp__amx *p, int64_t group, int64_t row, int64_t rows, int64_t k, int64_t n, float *to)
{
    const tp__gemm_args *g = &p->g;
    float *transposed = to + TP__AMX_SIDE * TP__AMX_STAGE;
    if (p->conv && p->pass == TP__CONV_FILTER_GRAD) {
        tp__amx_windows(p, group, k, n, row, rows, transposed, TP__AMX_SIDE);
        p->isa->transpose(to, TP__AMX_STAGE, n, transposed, TP__AMX_SIDE, n, rows);
    } else if (p->conv) tp__amx_windows(p, group, row, rows, k, n, to, TP__AMX_STAGE);
    else if (g->ta) p->isa->transpose(to, TP__AMX_STAGE, n, g->A + k * g->lda + row, g->lda, n, rows);
    else tp__copy_rows(to, TP__AMX_STAGE, g->A + row * g->lda + k, g->lda, n, rows);
}
/* Copies columns [column, column + n) of B, for the values [k, k + kn) of k, to the staging buffer
 * to[k][TP__AMX_SIDE]. */
static void tp__amx_copy_b(const tp__amx *p, int64_t group, int64_t column, int64_t n, int64_t k, int64_t kn, float *to)
{
    const tp__gemm_args *g = &p->g;
    if (p->conv && p->pass == TP__CONV_INPUT_GRAD) { /* B of the input gradient: B[tap, o][c] = w[tap, c, o] */
        const int64_t ic = p->w.ic;
        for (int64_t end = k + kn, len; k < end; k += len, to += len * TP__AMX_SIDE) {
            len = tp__min64(ic - k % ic, end - k);
            p->isa->transpose(to, TP__AMX_SIDE, n,
                              g->B + (p->w.tap[k / ic].w * p->w.oc + column) * g->ldb + group * ic + k % ic, g->ldb, n,
                              len);
        }
    } else if (g->tb) p->isa->transpose(to, TP__AMX_SIDE, n, g->B + column * g->ldb + k, g->ldb, n, kn);
    else tp__copy_rows(to, TP__AMX_SIDE, g->B + group * p->b_group + k * g->ldb + column, g->ldb, n, kn);
}

TP__COLD_END

/* Splits sixteen floats into their three bf16 parts hi, mid and lo, each in the upper half of its lane. Values that
 * would round to infinity are truncated; values that are not finite get no mid and lo. seen[0] collects the bits of mid
 * and lo, seen[1] is not zero where a value is infinite. */
static inline __attribute__((always_inline)) void tp__amx_split(const float *x, tp__amx_bits *part, tp__amx_bits *seen)
{
    const tp__amx_bits bits = *(const tp__amx_bits *)(const void *)x, near = bits + 0x7fffu + ((bits >> 16) & 1u);
    const tp__amx_bits finite = (tp__amx_bits)((bits & 0x7f800000u) != 0x7f800000u);
    const tp__amx_bits nan = ~finite & (tp__amx_bits)((bits & 0x7fffffu) != 0u);
    const tp__amx_bits fits = finite & (tp__amx_bits)((near & 0x7f800000u) != 0x7f800000u);
    part[0] = ((near & fits) | ((bits | (nan & 0x400000u)) & ~fits)) & 0xffff0000u;
    const tp__amx_bits remainder = (tp__amx_bits)((tp__amx_floats)bits - (tp__amx_floats)part[0]) & finite;
    part[1] = (remainder + 0x7fffu + ((remainder >> 16) & 1u)) & 0xffff0000u;
    part[2] = (tp__amx_bits)((tp__amx_floats)remainder - (tp__amx_floats)part[1]);
    seen[0] |= part[1] | part[2];
    seen[1] |= ~finite & ~nan;
}

/* How a block of a staging buffer becomes two AMX tiles, each with 16 rows of 32 bf16. Row i of these 32 rows is made
 * from two vectors of 16 floats: one begins at (i % 16) row + (i / 16) half in the block, the other `gap` floats later.
 * Blocks are `block` floats apart. A tile holds the values of k in pairs. Here a pair is k and k + 16, in A and in B,
 * so that whole vectors can be interleaved without a shuffle of k. */
typedef struct tp__amx_layout {
    int64_t block, row, half, gap;
} tp__amx_layout;

/* Converts the staging buffer of a panel, `steps` blocks, to AMX tiles, with the three bf16 parts of a value `plane`
 * values apart. Returns the panel's kind. */
static TP__AMX_CODE unsigned tp__amx_tiles(const tp__amx_layout *l, const float *stage, int64_t steps, uint16_t *to,
                                           int64_t plane)
{
    tp__amx_bits even[3], odd[3], seen[2] = {{0}, {0}};
    for (int64_t s = 0; s < steps; s++, stage += l->block)
        for (int64_t i = 0; i < TP__AMX_SIDE; i++, to += TP__AMX_SIDE) {
            const float *at = stage + i % 16 * l->row + i / 16 * l->half;
            tp__amx_split(at, even, seen);
            tp__amx_split(at + l->gap, odd, seen);
            for (int64_t q = 0; q < 3; q++)
                *(tp__amx_bits *)(void *)(to + q * plane) = even[q] >> 16 | (odd[q] & 0xffff0000u);
        }
    unsigned whole = 0, infinite = 0;
    for (int i = 0; i < 16; i++) {
        whole |= seen[0][i];
        infinite |= seen[1][i];
    }
    return (whole ? (unsigned)TP__AMX_WHOLE : 0u) | (infinite ? (unsigned)TP__AMX_INFINITE : 0u);
}

TP__COLD_BEGIN

/* Packs one panel of A (of B if `b`), values [k, k + kn) of k, padded with zeros to whole blocks. Returns the panel's
 * kind. */
static unsigned tp__amx_pack(const tp__amx *p, bool b, int64_t group, int64_t at, int64_t k, int64_t kn, uint16_t *to,
                             float *stage)
{
    static const tp__amx_layout layout[2] = {
        {TP__AMX_SIDE, TP__AMX_STAGE, 16 * TP__AMX_STAGE, 16},             /* A is staged as [row][k] */
        {TP__AMX_SIDE * TP__AMX_SIDE, TP__AMX_SIDE, 16, 16 * TP__AMX_SIDE} /* B is staged as [k][column] */
    };
    const int64_t n = tp__min64(TP__AMX_SIDE, (b ? p->g.N : p->g.M) - at), plane = tp__amx_round_up(kn) * TP__AMX_SIDE;
    unsigned kind = 0;
    for (int64_t end = k + kn; k < end; k += TP__AMX_STAGE) {
        const int64_t now = tp__min64(TP__AMX_STAGE, end - k), steps = tp__ceil_div(now, TP__AMX_SIDE);
        if (n < TP__AMX_SIDE || now % TP__AMX_SIDE)
            memset(stage, 0, (size_t)(TP__AMX_SIDE * TP__AMX_STAGE) * sizeof *stage);
        if (b) tp__amx_copy_b(p, group, at, n, k, now, stage);
        else tp__amx_copy_a(p, group, at, n, k, now, stage);
        kind |= tp__amx_tiles(&layout[b], stage, steps, to, plane);
        to += steps * TP__AMX_STEP;
    }
    return kind;
}

TP__COLD_END

/* out[32][32] = the product of two packed panels over `steps` blocks. The second half of the 32 rows or columns may be
 * left out. noinline and the barrier are needed because gcc does not know that loading a tile reads memory. */
static __attribute__((noinline)) TP__AMX_CODE void tp__amx_block(const uint16_t *a, bool a_whole, const uint16_t *b,
                                                                 bool b_whole, int64_t steps, bool lower, bool right,
                                                                 float *out)
{
    static const uint8_t order[6][2] = {{2, 0}, {1, 0}, {0, 0},
                                        {0, 1}, {1, 1}, {0, 2}}; /* in this order few AMX tiles are loaded twice */
    int64_t first[6], second[6], plane = steps * TP__AMX_STEP;
    int n = 0;
    for (int i = 0; i < 6; i++) {
        if ((order[i][0] && !a_whole) || (order[i][1] && !b_whole)) continue;
        first[n] = order[i][0] * plane;
        second[n++] = order[i][1] * plane;
    }
    __asm__ volatile("" ::: "memory");
    TP__TILE_ZERO(0);
    TP__TILE_ZERO(1);
    TP__TILE_ZERO(2);
    TP__TILE_ZERO(3);
    for (int64_t s = 0; s < steps; s++, a += TP__AMX_STEP, b += TP__AMX_STEP)
        for (int i = 0; i < n; i++) {
            if (i == 0 || first[i] != first[i - 1]) {
                TP__TILE_LOAD(4, a + first[i], 64);
                if (lower) TP__TILE_LOAD(5, a + first[i] + 512, 64);
            }
            if (i == 0 || second[i] != second[i - 1]) {
                TP__TILE_LOAD(6, b + second[i], 64);
                if (right) TP__TILE_LOAD(7, b + second[i] + 512, 64);
            }
            TP__TILE_PRODUCT(0, 4, 6);
            if (right) TP__TILE_PRODUCT(1, 4, 7);
            if (lower) TP__TILE_PRODUCT(2, 5, 6);
            if (lower && right) TP__TILE_PRODUCT(3, 5, 7);
        }
    TP__TILE_STORE(0, out, 128);
    if (right) TP__TILE_STORE(1, out + 16, 128);
    if (lower) TP__TILE_STORE(2, out + 16 * TP__AMX_SIDE, 128);
    if (lower && right) TP__TILE_STORE(3, out + 16 * TP__AMX_SIDE + 16, 128);
}

TP__COLD_BEGIN

/* Returns the float whose three bf16 parts are `plane` apart. */
static float tp__amx_value(const uint16_t *at, int64_t plane)
{
    return tp_bf16_to_f32(at[0]) + (tp_bf16_to_f32(at[plane]) + tp_bf16_to_f32(at[2 * plane]));
}
/* The same as tp__amx_block with a plain loop, for panels with infinities. */
static __attribute__((noinline)) void tp__amx_plain(const uint16_t *a, const uint16_t *b, int64_t steps, float *out)
{
    const int64_t plane = steps * TP__AMX_STEP;
    memset(out, 0, TP__AMX_STEP * sizeof *out);
    for (int64_t s = 0; s < steps; s++)
        for (int64_t k = 0; k < TP__AMX_SIDE; k++) {
            const uint16_t *bk = b + s * TP__AMX_STEP + k % 16 * 32 + k / 16;
            for (int64_t i = 0; i < TP__AMX_SIDE; i++) {
                const float x = tp__amx_value(a + s * TP__AMX_STEP + i * TP__AMX_SIDE + k % 16 * 2 + k / 16, plane);
                for (int64_t j = 0; j < TP__AMX_SIDE; j++)
                    out[i * TP__AMX_SIDE + j] += TP__PRODUCT(x * tp__amx_value(bk + j / 16 * 512 + j % 16 * 2, plane));
            }
        }
}

/* Stores the sums of a block, whose rows are ldv floats apart, as partial sums of part `part` of k or, if part < 0, to
 * C. add: adds to the values stored before; last: the block is the last one along k. */
static void tp__amx_put(const tp__amx *p, int64_t group, int64_t part, int64_t row, int64_t rows, int64_t column,
                        int64_t n, bool add, bool last, const float *v, int64_t ldv)
{
    const tp__gemm_args *g = &p->g;
    const tp__grid *q = &p->w.grid;
    const tp__epilogue *e = &g->epilogue;
    const float *in[2];
    for (int64_t i = row; i < row + rows; i++, v += ldv) {
        float *c = NULL;
        if (part >= 0) c = p->part + ((group * p->parts + part) * g->M + i) * g->N + column;
        else if (p->conv && p->pass != TP__CONV_FILTER_GRAD) {
            const int64_t y = p->w.phase_y + i / q->cols % q->rows * p->w.step_y,
                          x = p->w.phase_x + i % q->cols * p->w.step_x, image = i / q->cols / q->rows;
            c = p->w.dst + ((image * p->w.dst_h + y) * p->w.dst_w + x) * p->w.dst_pixel + column + group * p->c_group;
        } else {
            c = g->C + i * g->ldc + column + group * p->c_group;
        }
        if (g->descend) {
            for (int64_t j = 0; j < n; j++) c[j] = tp__descend_value(c[j], *g->descend, v[j]);
            continue;
        }
        in[0] = v;
        in[1] = c;
        if (add) tp__vec_add_of[p->isa->level](n, c, in);
        else memcpy(c, v, (size_t)n * sizeof *c);
        if (!last || part >= 0) continue;
        in[0] = c;
        in[1] = e->bias ? e->bias + column + group * p->c_group : NULL;
        if (e->bias) tp__vec_add_of[p->isa->level](n, c, in);
        if (e->act == TP_EPILOGUE_RELU) tp__vec_relu_of[p->isa->level](n, c, in);
        for (int64_t j = 0; e->most > 0 && j < n; j++) c[j] = c[j] > e->most ? e->most : c[j];
    }
}

/* A chunk of packing for AMX: one panel of one group's B. */
static void tp__amx_pack_b(void *user, int64_t chunk)
{
    tp__amx *p = (tp__amx *)user;
    const int slot = tp__slot_acquire(&p->slots);
    uint16_t *to = p->packed + chunk * p->steps * 3 * TP__AMX_STEP;
    for (int64_t part = 0; part < p->parts; part++) {
        const int64_t end = tp__min64((part + 1) * p->k_part, p->g.K);
        for (int64_t k = part * p->k_part; k < end; k += p->kc)
            p->kind[chunk * p->steps + k / TP__AMX_SIDE] = (uint8_t)tp__amx_pack(
                p, true, chunk / p->panels, chunk % p->panels * TP__AMX_SIDE, k, tp__min64(p->kc, end - k),
                to + k / TP__AMX_SIDE * 3 * TP__AMX_STEP, p->slots.memory + slot * p->slots.floats);
    }
    tp__slot_release(&p->slots, slot);
}

/* A chunk of an AMX product: some rows and columns of one group, and one part of k. */
static TP__AMX_CODE void tp__amx_chunk(void *user, int64_t chunk)
{
    static const uint8_t shapes[64] __attribute__((aligned(64))) = {
        /* AMX configuration: palette 1; then for eight tiles the bytes per row, and the numbers of rows */
        1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0,  64, 0,  64, 0,  64, 0,  64, 0, 64, 0, 64, 0, 64, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 16, 16, 16, 16, 16, 16, 16, 0,  0, 0,  0, 0,  0, 0,  0};
    tp__amx *p = (tp__amx *)user;
    const tp__gemm_args *g = &p->g;
    const int64_t column0 = chunk % p->n_blocks * p->nb, column1 = tp__min64(column0 + p->nb, g->N);
    const int64_t row0 = chunk / p->n_blocks % p->m_blocks * p->mb, row1 = tp__min64(row0 + p->mb, g->M);
    const int64_t rest = chunk / p->n_blocks / p->m_blocks, part = rest % p->parts, group = rest / p->parts;
    const int64_t k0 = part * p->k_part, k1 = tp__min64(k0 + p->k_part, g->K);
    const int slot = tp__slot_acquire(&p->slots);
    float *stage = p->slots.memory + slot * p->slots.floats, *out = stage + 2 * TP__AMX_SIDE * TP__AMX_STAGE;
    uint16_t *a = (uint16_t *)(void *)(out + TP__AMX_STEP), *b = a + p->mb * p->kc * 3;
    unsigned a_kind[256 / TP__AMX_SIDE];

    TP__TILE_CONFIGURE(shapes);
    for (int64_t k = k0; k < k1; k += p->kc) {
        const int64_t kn = tp__min64(p->kc, k1 - k), steps = tp__ceil_div(kn, TP__AMX_SIDE);
        const int64_t panel = steps * 3 * TP__AMX_STEP;
        const bool add = k > k0 || (g->accumulate && p->parts == 1), last = k + kn == k1;
        for (int64_t row = row0, i = 0; row < row1; row += TP__AMX_SIDE, i++)
            a_kind[i] = tp__amx_pack(p, false, group, row, k, kn, a + i * panel, stage);
        for (int64_t column = column0; column < column1; column += TP__AMX_SIDE) {
            const int64_t n = tp__min64(TP__AMX_SIDE, g->N - column);
            const int64_t at = (group * p->panels + column / TP__AMX_SIDE) * p->steps + k / TP__AMX_SIDE;
            const uint16_t *packed = p->b_once ? p->packed + at * 3 * TP__AMX_STEP : b;
            const unsigned b_kind = p->b_once ? p->kind[at] : tp__amx_pack(p, true, group, column, k, kn, b, stage);
            for (int64_t row = row0, i = 0; row < row1; row += TP__AMX_SIDE, i++) {
                const int64_t m = tp__min64(TP__AMX_SIDE, g->M - row);
                if ((a_kind[i] | b_kind) & TP__AMX_INFINITE) tp__amx_plain(a + i * panel, packed, steps, out);
                else tp__amx_block(a + i * panel, a_kind[i] != 0, packed, b_kind != 0, steps, m > 16, n > 16, out);
                tp__amx_put(p, group, p->parts > 1 ? part : -1, row, m, column, n, add, last, out, TP__AMX_SIDE);
            }
        }
    }
    TP__TILE_RELEASE();
    tp__slot_release(&p->slots, slot);
}

/* A chunk that adds the partial sums of the parts of k: some rows of one group's product. */
static void tp__amx_add_parts(void *user, int64_t chunk)
{
    const tp__amx *p = (const tp__amx *)user;
    const int64_t blocks = tp__ceil_div(p->g.M, TP__AMX_SIDE), group = chunk / blocks;
    const int64_t row = chunk % blocks * TP__AMX_SIDE, rows = tp__min64(TP__AMX_SIDE, p->g.M - row);
    float *sum = p->part + (group * p->parts * p->g.M + row) * p->g.N;
    tp__tree_add(p->isa, sum, p->g.M * p->g.N, p->parts, rows * p->g.N);
    tp__amx_put(p, group, -1, row, rows, 0, p->g.N, p->g.accumulate, true, sum, p->g.N);
}

static void tp__amx_run(tp_device *d, tp__amx *p)
{
    if (p->b_once) tp_device_parallel(d, p->groups * p->panels, tp__amx_pack_b, p);
    tp_device_parallel(d, p->groups * p->parts * p->m_blocks * p->n_blocks, tp__amx_chunk, p);
    if (p->parts > 1) tp_device_parallel(d, p->groups * tp__ceil_div(p->g.M, TP__AMX_SIDE), tp__amx_add_parts, p);
}

static void tp__amx_gemm(tp_device *d, const tp__gemm_args *a, void *scratch)
{
    tp__amx p;
    tp__amx_gemm_make(&p, d, a, scratch);
    tp__amx_run(d, &p);
}

/* Computes all phases of a convolution; without scratch only returns its size. */
static size_t tp__amx_conv_phases(tp_device *d, const tp__conv_args *a, tp__conv_pass pass, void *scratch)
{
    const int64_t sy = pass == TP__CONV_INPUT_GRAD ? a->g.stride_h : 1,
                  sx = pass == TP__CONV_INPUT_GRAD ? a->g.stride_w : 1;
    size_t max_bytes = 0;
    for (int64_t y = 0; y < sy; y++)
        for (int64_t x = 0; x < sx; x++) {
            tp__amx p;
            const size_t need = tp__amx_conv_make(&p, d, a, pass, y, x, scratch);
            if (need > max_bytes) max_bytes = need;
            if (need && scratch) tp__amx_run(d, &p);
        }
    return max_bytes;
}
static size_t tp__amx_conv_scratch(tp_device *d, const tp__conv_args *a, tp__conv_pass pass)
{
    return tp__amx_conv_phases(d, a, pass, NULL);
}
static void tp__amx_conv(tp_device *d, const tp__conv_args *a, tp__conv_pass pass, void *scratch)
{
    tp__amx_conv_phases(d, a, pass, scratch);
}

TP__COLD_END

#endif /* TP__AMX */

/* ==== >>entries: what ops and tp_tensor.h call ========================================================== */

/* Bytes of scratch that tp__gemm needs, 0 where naive loops run; the pointers in `a` are not read. */
static size_t tp__gemm_scratch(tp_device *d, const tp__gemm_args *a)
{
    if (!d->isa || a->M <= 0 || a->N <= 0) return 0;
#if TP__AMX
    tp__amx m;
    if (tp__amx_takes_gemm(d, a)) return tp__amx_gemm_make(&m, d, a, NULL);
#endif
    return tp__gemm_fast_scratch(d, a);
}

static void tp__gemm(tp_device *d, const tp__gemm_args *a, void *scratch)
{
    if (a->M <= 0 || a->N <= 0) return;
#if TP__AMX
    if (tp__amx_takes_gemm(d, a)) {
        tp__amx_gemm(d, a, scratch);
        return;
    }
#endif
    tp__gemm_fast(d, a, scratch);
}

/* Whether a convolution has no image, channel, filter or position: then every sum is empty. */
static bool tp__conv_is_empty(const tp__conv *g)
{
    return g->B <= 0 || g->C <= 0 || g->O <= 0 || g->OH <= 0 || g->OW <= 0 || g->H <= 0 || g->W <= 0 || g->KH <= 0 ||
           g->KW <= 0;
}

/* The result where every sum is empty: zeros, to which bias and activation are applied and `more` is added. */
static void tp__conv_empty(const tp__conv_args *a, tp__conv_pass pass)
{
    const tp__conv *g = &a->g;
    const int64_t nw = g->KH * g->KW * (g->C / g->groups) * g->O;
    if (pass == TP__CONV_FILTER_GRAD) {
        for (int64_t i = 0; i < nw; i++) a->dw[i] = 0;
        return;
    }
    const bool forward = pass == TP__CONV_FORWARD;
    float *dst = forward ? a->y : a->dx;
    const int64_t n = forward ? g->B * g->OH * g->OW * g->O : g->B * g->H * g->W * g->C,
                  channels = forward ? g->O : g->C;
    for (int64_t i = 0; i < n; i++)
        dst[i] = tp__apply_epilogue(&a->epilogue, i % channels, 0) + (a->more ? a->more[i] : 0);
}

/* Whether the forward pass or input gradient adds `more` of tp__conv_args; if false, `more` is ignored. */
TP__UNUSED static bool tp__conv_adds(const tp_device *d, const tp__conv *g)
{
    /* Winograd computes a few channels twice where they fill no whole vectors, which must not add twice */
    return !d->amx && !tp__conv_is_empty(g) && tp__conv_is_wino(d->isa, g) &&
           g->C / g->groups % TP__WINO_CHANNELS == 0 && g->O / g->groups % TP__WINO_CHANNELS == 0;
}

/* Whether the forward pass normalises y; if false, `after` of tp__conv_args is ignored. Each chunk of a kernel that is no matrix product
 * must have all channels of its pixels, so not for groups that are computed one after another. */
TP__UNUSED static bool tp__conv_normalises(const tp_device *d, const tp__conv *g)
{
    return d->isa && !d->amx && !tp__conv_is_empty(g) &&
           (g->groups == 1 || tp__conv_is_depthwise(d->isa, g, TP__CONV_FORWARD));
}

TP__UNUSED static size_t tp__convolve_scratch(tp_device *d, const tp__conv_args *a, tp__conv_pass pass)
{
    const tp__conv *g = &a->g;
    size_t max_bytes = 0;
    if (!d->isa || tp__conv_is_empty(g)) return 0;
    if (tp__conv_is_gemm(g)) {
        const tp__gemm_args product = tp__conv_as_gemm(a, pass);
        return tp__gemm_scratch(d, &product);
    }
    if (tp__conv_is_depthwise(d->isa, g, pass)) {
        tp__depthwise w;
        return tp__depthwise_make(&w, d, a, pass, NULL);
    }
#if TP__AMX
    if (tp__amx_takes_conv(d, a, pass)) return tp__amx_conv_scratch(d, a, pass);
#endif
    if (tp__conv_is_wino(d->isa, g)) return tp__wino_scratch(d, a, pass);
    if (pass == TP__CONV_FILTER_GRAD) {
        tp__filter_grad f;
        return tp__filter_grad_make(&f, d, a, NULL);
    }
    for (int64_t y = 0; y < (pass == TP__CONV_INPUT_GRAD ? g->stride_h : 1); y++)
        for (int64_t x = 0; x < (pass == TP__CONV_INPUT_GRAD ? g->stride_w : 1); x++) {
            tp__gather p;
            const size_t need = tp__gather_make(&p, d, a, pass == TP__CONV_INPUT_GRAD, y, x, NULL);
            if (need > max_bytes) max_bytes = need;
        }
    return max_bytes;
}

/* Number of floats for the packed weights of a forward pass that are kept for the next one; 0: none, because it packs none or has
 * so many positions that packing takes a small part of its time. */
TP__UNUSED static int64_t tp__conv_kept(tp_device *d, const tp__conv_args *a)
{
    const tp__conv *g = &a->g;
    tp__gather p;
    tp__wino w;
    if (!d->isa || d->amx || tp__conv_is_empty(g) || g->B * g->OH * g->OW > 4 * TP__KEEP_ROWS) return 0;
    if (tp__conv_is_gemm(g)) {
        const tp__gemm_args product = tp__conv_as_gemm(a, TP__CONV_FORWARD);
        return tp__gemm_kept(d, &product);
    }
    if (tp__conv_is_depthwise(d->isa, g, TP__CONV_FORWARD)) return 0;
    if (tp__conv_is_wino(d->isa, g))
        return tp__wino_make(&w, d, a, TP__CONV_FORWARD, 0, 0, NULL) ? g->groups / w.groups * w.places * w.u_plane : 0;
    return tp__gather_make(&p, d, a, false, 0, 0, NULL) ? p.groups * p.group_floats : 0;
}

TP__UNUSED static void tp__convolve(tp_device *d, const tp__conv_args *a, tp__conv_pass pass, void *scratch)
{
    if (tp__conv_is_empty(&a->g)) tp__conv_empty(a, pass);
    else if (tp__conv_is_gemm(&a->g)) {
        const tp__gemm_args product = tp__conv_as_gemm(a, pass);
        tp__gemm(d, &product, scratch);
    } else if (tp__conv_is_depthwise(d->isa, &a->g, pass)) tp__depthwise_run(d, a, pass, scratch);
#if TP__AMX
    else if (tp__amx_takes_conv(d, a, pass)) tp__amx_conv(d, a, pass, scratch);
#endif
    else if (tp__conv_is_wino(d->isa, &a->g)) tp__wino_run(d, a, pass, scratch);
    else if (pass == TP__CONV_FILTER_GRAD) tp__filter_grad_run(d, a, scratch);
    else tp__gather_run(d, a, pass == TP__CONV_INPUT_GRAD, scratch);
}

/* Computes normal random numbers; returns false if the instruction set has no kernel for them. */
static bool tp__fast_normals(const struct tp__isa *isa, int64_t blocks, const uint32_t *words, double *out)
{
    if (!tp__normal_of[isa->level]) return false;
    tp__normal_of[isa->level](blocks, words, out);
    return true;
}

/* -- for tp_input.h ------------------------------------------------------------------------------------ */

#if defined(TP__SSE2)
/* Returns a v + offset for four integers v, truncated, at most 255; the packing of the results makes negative ones 0, and NaN, which
 * becomes the smallest integer. */
static inline __attribute__((always_inline)) __m128i tp__scale_add_four(__m128i v, __m128 a, const float *offset)
{
    const __m128 x = _mm_add_ps(_mm_mul_ps(a, _mm_cvtepi32_ps(v)), _mm_loadu_ps(offset));
    return _mm_cvttps_epi32(_mm_min_ps(_mm_set1_ps(255.0f), x)); /* the second operand, if it is NaN */
}
#endif
/* x = a x + b for the bytes of an image, limited to 0 .. 255 and truncated. The offsets b repeat after `period` elements, a
 * multiple of 16. Processes only whole periods; returns how many of the n elements were processed. */
TP__UNUSED static int64_t tp__fast_scale_add_bytes(unsigned char *x, float a, const float *b, int64_t period, int64_t n)
{
    int64_t i = 0;
#if defined(TP__SSE2)
    const __m128 factor = _mm_set1_ps(a);
    const __m128i zero = _mm_setzero_si128();
    for (; i + period <= n; i += period)
        for (int64_t k = 0; k < period; k += 16) {
            __m128i *at = (__m128i *)(void *)(x + i + k);
            const __m128i bytes = _mm_loadu_si128(at), low = _mm_unpacklo_epi8(bytes, zero),
                          high = _mm_unpackhi_epi8(bytes, zero);
            const __m128i v0 = tp__scale_add_four(_mm_unpacklo_epi16(low, zero), factor, b + k),
                          v1 = tp__scale_add_four(_mm_unpackhi_epi16(low, zero), factor, b + k + 4),
                          v2 = tp__scale_add_four(_mm_unpacklo_epi16(high, zero), factor, b + k + 8),
                          v3 = tp__scale_add_four(_mm_unpackhi_epi16(high, zero), factor, b + k + 12);
            _mm_storeu_si128(at, _mm_packus_epi16(_mm_packs_epi32(v0, v1), _mm_packs_epi32(v2, v3)));
        }
#else
    (void)x, (void)a, (void)b, (void)period, (void)n;
#endif
    return i;
}

#elif defined(TP__ISA_SUFFIX) /* this file includes itself: this part is compiled once for each instruction set */

/* ==== >>isa: the kernels of one instruction set ======================================================== */
/* Compiled once per instruction set, between the pragmas that enable it. These macros are defined before the include:
 *     TP__ISA_SUFFIX   avx512: names here get this suffix, as in tp__vexp_avx512
 *     TP__ISA_NAME     "avx512": the name that users give
 *     TP__ISA_LEVEL    2: its index in the tables of single kernels (TP__KERNEL)
 *     TP__VW           floats in a vector: 16, 8 or 4
 *     TP__MR           rows of the largest register tile: 14 or 6
 * Vectors are the compiler's vector types (`a + b` adds lanes). Multiply-and-add is fused only in vfma(): a product that is
 * added to something elsewhere uses vmul(), which the compiler cannot contract. Where an optimizer is at work, no vector is
 * passed in a real call: every function that takes or returns a vector is inlined. */

#if TP__VW == 4 && defined(TP__SSE2)
#define TP__WIDE 0 /* few machines have only SSE2, so kernels that another loop can replace are left out */
#else
#define TP__WIDE 1
#endif
#define TP__F(name_) TP__CAT(TP__CAT(tp__, name_), TP__CAT(_, TP__ISA_SUFFIX))
#if defined __OPTIMIZE__ || defined _WIN32
#define TP__INLINE static inline __attribute__((always_inline, unused))
#else /* Without an optimizer a constant argument removes nothing: each call would hold a kernel's code in all its forms. */
#define TP__INLINE static inline __attribute__((unused))
#endif

#define V      TP__F(v)
#define VI     TP__F(vi)
#define VU     TP__F(vu)
#define VD     TP__F(vd)
#define VQ     TP__F(vq)
#define VB     TP__F(vb)
#define vwide  TP__F(vwide)
#define vdsqrt TP__F(vdsqrt)
#define vset   TP__F(vset)
#define viset  TP__F(viset)
#define vload  TP__F(vload)
#define vstore TP__F(vstore)
#define vget   TP__F(vget)
#define vput   TP__F(vput)
#define vfma   TP__F(vfma)
#define vmul   TP__F(vmul)
#define vdmul  TP__F(vdmul)
#define vmax   TP__F(vmax)
#define vmin   TP__F(vmin)
#define vsqrt  TP__F(vsqrt)
#define vsel   TP__F(vsel)
#define vabs   TP__F(vabs)
#define vpow2  TP__F(vpow2)
#define vperm  TP__F(vperm)

typedef float V __attribute__((vector_size(TP__VW * 4), may_alias));
typedef int32_t VI __attribute__((vector_size(TP__VW * 4), may_alias));
/* a vector of floats at any address */
typedef float VU __attribute__((vector_size(TP__VW * 4), aligned(4), may_alias));
typedef double VD __attribute__((vector_size(TP__VW * 4), may_alias));
typedef uint64_t VQ __attribute__((vector_size(TP__VW * 4), may_alias));
/* a vector with one byte for each float of V */
typedef uint8_t VB __attribute__((vector_size(TP__VW), aligned(1), may_alias));

/* -- primitives: most of the code that differs between instruction sets --------------------------------- */
/* vget loads the first n floats at p, 0 < n < TP__VW, and sets the other lanes to `fill`. vput stores the first n. Lane l of
 * vperm is lane (lane[l] modulo TP__VW) of a. */

TP__INLINE V vload(const float *p) { return *(const VU *)p; }
TP__INLINE void vstore(float *p, V a) { *(VU *)p = a; }

/* Chooses lane by lane; each lane of mask is all ones or all zeros, like the result of a comparison. */
TP__INLINE V vsel(VI mask, V yes, V no) { return (V)((mask & (VI)yes) | (~mask & (VI)no)); }

#if TP__VW == 16
/* maskz intrinsics with a full mask compile to plain instructions; gcc 12 warns about an undefined operand in the plain
 * intrinsics. */
TP__INLINE V vset(float x) { return _mm512_set1_ps(x); }
TP__INLINE VI viset(int32_t x) { return (VI)_mm512_set1_epi32(x); }
TP__INLINE V vget(const float *p, int64_t n, float fill)
{
    return _mm512_mask_loadu_ps(vset(fill), (__mmask16)((1u << n) - 1u), p);
}
TP__INLINE void vput(float *p, int64_t n, V a) { _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1u), a); }
TP__INLINE V vfma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
/* a > b ? a : b in each lane, so the result is b if one is NaN */
TP__INLINE V vmax(V a, V b) { return _mm512_maskz_max_ps(0xffff, a, b); }
TP__INLINE V vmin(V a, V b) { return _mm512_maskz_min_ps(0xffff, a, b); } /* a < b ? a : b */
TP__INLINE V vsqrt(V a) { return _mm512_maskz_sqrt_ps(0xffff, a); }
TP__INLINE V vperm(V a, VI lane) { return _mm512_maskz_permutexvar_ps(0xffff, (__m512i)lane, a); }
TP__INLINE VD vdsqrt(VD a) { return _mm512_maskz_sqrt_pd(0xff, a); }
TP__INLINE VQ vwide(VQ a, VQ b) { return (VQ)_mm512_maskz_mul_epu32(0xff, (__m512i)a, (__m512i)b); }
#elif TP__VW == 8
TP__INLINE V vset(float x) { return _mm256_set1_ps(x); }
TP__INLINE VI viset(int32_t x) { return (VI)_mm256_set1_epi32(x); }
TP__INLINE VI TP__F(first)(int64_t n)
{
    const VI lane = {0, 1, 2, 3, 4, 5, 6, 7};
    return (VI)(lane < viset((int32_t)n));
}
TP__INLINE V vget(const float *p, int64_t n, float fill)
{
    const VI m = TP__F(first)(n);
    return _mm256_blendv_ps(vset(fill), _mm256_maskload_ps(p, (__m256i)m), (V)m);
}
/* Stores parts of 4, 2 and 1 floats: a masked store of AVX2 takes dozens of operations on AMD's processors. */
TP__INLINE void vput(float *p, int64_t n, V a)
{
    __m128 part = _mm256_castps256_ps128(a);
    if (n & 4) {
        _mm_storeu_ps(p, part);
        part = _mm256_extractf128_ps(a, 1), p += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)(void *)p, part);
        part = _mm_movehl_ps(part, part), p += 2;
    }
    if (n & 1) _mm_store_ss(p, part);
}
TP__INLINE V vfma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
TP__INLINE V vmax(V a, V b) { return _mm256_max_ps(a, b); }
TP__INLINE V vmin(V a, V b) { return _mm256_min_ps(a, b); }
TP__INLINE V vsqrt(V a) { return _mm256_sqrt_ps(a); }
TP__INLINE V vperm(V a, VI lane) { return _mm256_permutevar8x32_ps(a, (__m256i)lane); }
TP__INLINE VD vdsqrt(VD a) { return _mm256_sqrt_pd(a); }
TP__INLINE VQ vwide(VQ a, VQ b) { return (VQ)_mm256_mul_epu32((__m256i)a, (__m256i)b); }
#else
TP__INLINE V vset(float x)
{
    V v = {x, x, x, x};
    return v;
}
TP__INLINE VI viset(int32_t x)
{
    VI v = {x, x, x, x};
    return v;
}
TP__INLINE V vget(const float *p, int64_t n, float fill)
{
    float t[TP__VW];
    for (int i = 0; i < TP__VW; i++) t[i] = i < n ? p[i] : fill;
    return vload(t);
}
TP__INLINE void vput(float *p, int64_t n, V a)
{
    float t[TP__VW];
    vstore(t, a);
    for (int i = 0; i < n; i++) p[i] = t[i];
}
#if defined(__aarch64__)
TP__INLINE V vfma(V a, V b, V c) { return (V)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b); }
TP__INLINE V vsqrt(V a) { return (V)vsqrtq_f32((float32x4_t)a); }
#elif defined(TP__SSE2)
TP__INLINE V vfma(V a, V b, V c) { return TP__VPRODUCT(a * b) + c; }
TP__INLINE V vsqrt(V a) { return _mm_sqrt_ps(a); }
#else
TP__INLINE V vfma(V a, V b, V c) { return TP__VPRODUCT(a * b) + c; }
TP__INLINE V vsqrt(V a)
{
    V v = {sqrtf(a[0]), sqrtf(a[1]), sqrtf(a[2]), sqrtf(a[3])};
    return v;
}
#endif
#if defined(TP__SSE2)
TP__INLINE V vmax(V a, V b) { return _mm_max_ps(a, b); }
TP__INLINE V vmin(V a, V b) { return _mm_min_ps(a, b); }
TP__INLINE VD vdsqrt(VD a) { return _mm_sqrt_pd(a); }
TP__INLINE VQ vwide(VQ a, VQ b) { return (VQ)_mm_mul_epu32((__m128i)a, (__m128i)b); }
#else
TP__INLINE VD vdsqrt(VD a)
{
    VD v = {sqrt(a[0]), sqrt(a[1])};
    return v;
}
TP__INLINE VQ vwide(VQ a, VQ b) /* returns the 64-bit products of the lower 32 bits of each lane */
{
    VQ v = {(a[0] & 0xffffffffu) * (b[0] & 0xffffffffu), (a[1] & 0xffffffffu) * (b[1] & 0xffffffffu)};
    return v;
}
TP__INLINE V vmax(V a, V b) { return vsel((VI)(a > b), a, b); }
TP__INLINE V vmin(V a, V b) { return vsel((VI)(a < b), a, b); }
#endif
#endif

/* a, or if ceiling is more than 0 its ReLU, at most that; NaN stays NaN. */
TP__INLINE V TP__F(vrelu)(V a, float ceiling) { return ceiling > 0 ? vmin(vset(ceiling), vmax(vset(0.0f), a)) : a; }

/* The first n lanes of a vector, 0 < n <= TP__VW: vfirst makes such a mask, vloadm loads these lanes and sets the others to 0,
 * vstorem stores them. */
#if TP__VW == 16
typedef __mmask16 TP__F(vmask);
TP__INLINE TP__F(vmask) TP__F(vfirst)(int64_t n) { return (__mmask16)((1u << n) - 1u); }
TP__INLINE bool TP__F(vfull)(TP__F(vmask) m) { return m == 0xffff; }
TP__INLINE V TP__F(vloadm)(const float *p, TP__F(vmask) m) { return _mm512_maskz_loadu_ps(m, p); }
TP__INLINE void TP__F(vstorem)(float *p, TP__F(vmask) m, V a) { _mm512_mask_storeu_ps(p, m, a); }
#elif TP__VW == 8
typedef struct TP__F(vmask) {
    VI lanes;
    int64_t n;
} TP__F(vmask);
TP__INLINE TP__F(vmask) TP__F(vfirst)(int64_t n)
{
    TP__F(vmask) m = {TP__F(first)(n), n};
    return m;
}
TP__INLINE bool TP__F(vfull)(TP__F(vmask) m) { return m.n == 8; }
TP__INLINE V TP__F(vloadm)(const float *p, TP__F(vmask) m) { return _mm256_maskload_ps(p, (__m256i)m.lanes); }
TP__INLINE void TP__F(vstorem)(float *p, TP__F(vmask) m, V a)
{
    if (m.n == 8) vstore(p, a);
    else vput(p, m.n, a);
}
#else
typedef int64_t TP__F(vmask);
TP__INLINE TP__F(vmask) TP__F(vfirst)(int64_t n) { return n; }
TP__INLINE bool TP__F(vfull)(TP__F(vmask) m) { return m == TP__VW; }
TP__INLINE V TP__F(vloadm)(const float *p, TP__F(vmask) m) { return vget(p, m, 0.0f); }
TP__INLINE void TP__F(vstorem)(float *p, TP__F(vmask) m, V a) { vput(p, m, a); }
#endif

TP__INLINE V vmul(V a, V b) { return TP__VPRODUCT(a * b); } /* the product is rounded before anything is added to it */
TP__INLINE VD vdmul(VD a, VD b) { return TP__VPRODUCT(a * b); }
TP__INLINE V vabs(V a) { return (V)((VI)a & viset(INT32_MAX)); }
TP__INLINE V vpow2(VI e) { return (V)((e + viset(127)) << 23); } /* computes 2^e for -126 <= e <= 127 */

/* Loads the first n values of a vector; the rest is 0. */
TP__INLINE V TP__F(part)(const float *p, int64_t n) { return n >= TP__VW ? vload(p) : vget(p, n, 0.0f); }
TP__INLINE void TP__F(put_part)(float *p, int64_t n, V v)
{
    if (n >= TP__VW) vstore(p, v);
    else vput(p, n, v);
}

/* -- the register tile ----------------------------------------------------------------------------------- */
/* Computes one register tile: c[i][0..n) (+)= sum over k of a[i][k] b[k][0..n), for m rows, in accumulators that never
 * leave the registers. tp__tile (see >>tile) has the addresses of the operands. The body is inlined with constant mr
 * and nv; rows beyond mr cost nothing. Each row has its own code because only then do both compilers keep the tile in
 * registers. */

#if TP__MR == 14
#define TP__ROWS(X)  X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)
#define TP__PAIRS(X) X(0, 1) X(2, 3) X(4, 5) X(6, 7) X(8, 9) X(10, 11) X(12, 13)
#else
#define TP__ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5)
#endif

/* For rows that end in an incomplete vector: adds old values and bias to the finished sums, applies the activation and stores n
 * columns. c_gap: floats from one row of C to the next in an even tile, else 0. */
static __attribute__((noinline)) void TP__F(finish)(const tp__tile *t, const float *sum, int64_t width, int64_t c_gap)
{
#if TP__WIDE
    const int64_t whole = t->n / TP__VW * TP__VW;
    const TP__F(vmask) last = TP__F(vfirst)(t->n - whole);
#endif
    for (int i = 0; i < t->m; i++, sum += width) {
        float *c = c_gap ? t->c[0] + i * c_gap : t->c[i];
#if TP__WIDE
        for (int64_t j = 0; j < whole; j += TP__VW) {
            V v = vload(sum + j);
            if (t->add) v += vload(c + j);
            if (t->bias) v += vload(t->bias + j);
            vstore(c + j, TP__F(vrelu)(v, t->ceiling));
        }
        if (whole == t->n) continue;
        V v = vload(sum + whole);
        if (t->add) v += TP__F(vloadm)(c + whole, last);
        if (t->bias) v += TP__F(vloadm)(t->bias + whole, last);
        TP__F(vstorem)(c + whole, last, TP__F(vrelu)(v, t->ceiling));
#else
        for (int j = 0; j < t->n; j++) {
            float v = t->add ? sum[j] + c[j] : sum[j];
            if (t->bias) v += t->bias[j];
            if (t->ceiling > 0) v = v < 0.0f ? 0.0f : v > t->ceiling ? t->ceiling : v;
            c[j] = v;
        }
#endif
    }
}

/* Expands to one statement for the first vector of columns in row i of the tile and, if there is a second vector,
 * another statement for that. */
#define TP__BOTH(i, first, second) \
    if (mr > i) {                  \
        first;                     \
        if (nv == 2) second;       \
    }
/* Stores b0 and b1, a row of B that is read in place, in a panel, and prefetches a later row. Returns where the next row goes. */
TP__INLINE float *TP__F(pack_row)(float *panel, const float *b, int64_t ldb, V b0, V b1)
{
    __builtin_prefetch(b + TP__PACK_AHEAD * ldb);
    __builtin_prefetch(b + TP__PACK_AHEAD * ldb + 2 * TP__VW - 1);
    vstore(panel, b0), vstore(panel + TP__VW, b1);
    return panel + 2 * TP__VW;
}
/* Computes the sums of a tile: p[i] for the first vector of columns in row i, q[i] for the second. pack: the rows of B are
 * read in place, and stored as a panel for the tiles of the rows that follow. */
TP__INLINE void TP__F(sum_rows)(const tp__tile *t, int mr, int nv, bool pack, V *p, V *q)
{
    const float *b = t->b, *prefetch = t->prefetch ? t->prefetch : b;
    float *panel = t->panel;
    const int64_t ldb = t->ldb;
    const ptrdiff_t step = (ptrdiff_t)t->step;
    const tp__run *run = t->run, *const last = run + t->n_run;
#define X(i)                     \
    const float *a##i = t->a[i]; \
    V p##i = vset(0.0f), q##i = vset(0.0f);
    TP__ROWS(X)
#undef X
    do {
        ptrdiff_t at = (ptrdiff_t)run->at;
        for (const float *end = b + run->len * ldb; b != end; b += ldb) {
            V b0 = vload(b), b1 = nv == 2 ? vload(b + TP__VW) : b0;
            if (pack) panel = TP__F(pack_row)(panel, b, ldb, b0, b1);
            else __builtin_prefetch(prefetch), prefetch += mr;
#define X(i)                                   \
    if (mr > i) {                              \
        V x = vset(a##i[at]);                  \
        p##i = vfma(x, b0, p##i);              \
        if (nv == 2) q##i = vfma(x, b1, q##i); \
    }
            TP__ROWS(X)
#undef X
            at += step;
#if TP__VW > 4
            /* Keeps one index for all rows: the compiler would advance a pointer for each, which takes five more instructions. */
            __asm__("" : "+r"(at));
#endif
        }
        b += run->skip;
    } while (++run != last);
#define X(i) p[i] = p##i, q[i] = q##i;
    TP__ROWS(X)
#undef X
}

#if TP__MR == 14
/* The same for twelve or fourteen rows, if the second row of each pair of rows is equally far from the first; else returns false. So
 * many addresses do not all fit into registers, and to load one costs as much time as to load a vector. Here each pair needs one. */
TP__INLINE bool TP__F(sum_pairs)(const tp__tile *t, int mr, bool pack, V *p, V *q)
{
    const float *b = t->b, *prefetch = t->prefetch ? t->prefetch : b;
    float *panel = t->panel;
    const int64_t step = t->step, ldb = t->ldb, gap = t->a[1] - t->a[0];
    const tp__run *run = t->run, *const last = run + t->n_run;
    for (int i = 2; i < mr; i += 2)
        if (t->a[i + 1] - t->a[i] != gap) return false;
#define X(i, j) V p##i = vset(0.0f), q##i = vset(0.0f), p##j = vset(0.0f), q##j = vset(0.0f);
    TP__PAIRS(X)
#undef X
    do {
#define X(i, j) const float *a##i = t->a[i] + run->at;
        TP__PAIRS(X)
#undef X
        for (const float *end = b + run->len * ldb; b != end; b += ldb) {
            const V b0 = vload(b), b1 = vload(b + TP__VW);
            if (pack) panel = TP__F(pack_row)(panel, b, ldb, b0, b1);
            else __builtin_prefetch(prefetch), prefetch += mr;
#define X(i, j)                                             \
    if (mr > i) {                                           \
        const V x = vset(*a##i), y = vset(a##i[gap]);       \
        p##i = vfma(x, b0, p##i), q##i = vfma(x, b1, q##i); \
        p##j = vfma(y, b0, p##j), q##j = vfma(y, b1, q##j); \
        a##i += step;                                       \
    }
            TP__PAIRS(X)
#undef X
            /* makes the compiler keep these addresses */
            __asm__("" : "+r"(a0), "+r"(a2), "+r"(a4), "+r"(a6), "+r"(a8), "+r"(a10));
            if (mr > 12) __asm__("" : "+r"(a12));
        }
        b += run->skip;
    } while (++run != last);
#define X(i, j) p[i] = p##i, q[i] = q##i, p[j] = p##j, q[j] = q##j;
    TP__PAIRS(X)
#undef X
    return true;
}
#endif

TP__INLINE void TP__F(tile)(const tp__tile *t, int mr, int nv, bool pack)
{
    V p[TP__MR], q[TP__MR];
#define X(i) TP__BOTH(i, __builtin_prefetch(t->c[i], 1), __builtin_prefetch(t->c[i] + TP__VW, 1))
    TP__ROWS(X)
#undef X

    /* 1. compute the tile's sums of products */
#if TP__MR == 14
    if (!(mr >= 12 && nv == 2 && TP__F(sum_pairs)(t, mr, pack, p, q)))
#endif
        TP__F(sum_rows)(t, mr, nv, pack, p, q);

    if (t->scaled) {
        const V scale = vset(t->scale);
#define X(i) TP__BOTH(i, p[i] = vmul(p[i], scale), q[i] = vmul(q[i], scale))
        TP__ROWS(X)
#undef X
    }

    /* 2. an incomplete vector at the right edge is stored through a temporary array */
    if (t->n < nv * TP__VW) {
        float rows[TP__MR][2 * TP__VW];
#define X(i) TP__BOTH(i, vstore(rows[i], p[i]), vstore(rows[i] + TP__VW, q[i]))
        TP__ROWS(X)
#undef X
        TP__F(finish)(t, rows[0], 2 * TP__VW, 0);
        return;
    }

    /* 3. store whole rows: add the old values and the bias, apply the activation */
    if (t->add) {
#define X(i) TP__BOTH(i, p[i] += vload(t->c[i]), q[i] += vload(t->c[i] + TP__VW))
        TP__ROWS(X)
#undef X
    }
    if (t->bias) {
        const V bias0 = vload(t->bias), bias1 = nv == 2 ? vload(t->bias + TP__VW) : bias0;
#define X(i) TP__BOTH(i, p[i] += bias0, q[i] += bias1)
        TP__ROWS(X)
#undef X
    }
    if (t->ceiling > 0) {
        const V zero = vset(0.0f), most = vset(t->ceiling);
#define X(i) TP__BOTH(i, p[i] = vmin(most, vmax(zero, p[i])), q[i] = vmin(most, vmax(zero, q[i])))
        TP__ROWS(X)
#undef X
    }
#define X(i)                                   \
    if (mr > i) {                              \
        float *c = t->c[i];                    \
        vstore(c, p[i]);                       \
        if (nv == 2) vstore(c + TP__VW, q[i]); \
    }
    TP__ROWS(X)
#undef X
}
#undef TP__BOTH
#undef TP__ROWS
#undef TP__PAIRS
/* The largest tile, which reads B in place and packs it. To pack B apart from this would take as long as computing four rows. */
static void TP__F(tile_pack)(const tp__tile *t) { TP__F(tile)(t, TP__MR, 2, true); }

#if TP__MR == 14
/* Computes the sums of a tile of three vectors of columns, seven rows at a time: these take fewer loads for each product than a tile
 * of two vectors and one of a single one. */
static void TP__F(tile3)(const tp__tile *t)
{
    float sum[TP__MR][3 * TP__VW];
    const int64_t step = t->step, ldb = t->ldb;
#define TP__SEVEN(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6)
    for (int row = 0; row < t->m; row += 7) {
#define X(i)                           \
    const float *a##i = t->a[row + i]; \
    V p##i = vset(0.0f), q##i = vset(0.0f), r##i = vset(0.0f);
        TP__SEVEN(X)
#undef X
        const float *b = t->b;
        for (const tp__run *run = t->run; run < t->run + t->n_run; run++) {
            int64_t at = run->at;
            for (const float *end = b + run->len * ldb; b != end; b += ldb, at += step) {
                const V b0 = vload(b), b1 = vload(b + TP__VW), b2 = vload(b + 2 * TP__VW);
#define X(i)                                                                          \
    {                                                                                 \
        const V x = vset(a##i[at]);                                                   \
        p##i = vfma(x, b0, p##i), q##i = vfma(x, b1, q##i), r##i = vfma(x, b2, r##i); \
    }
                TP__SEVEN(X)
#undef X
            }
            b += run->skip;
        }
#define X(i) vstore(sum[row + i], p##i), vstore(sum[row + i] + TP__VW, q##i), vstore(sum[row + i] + 2 * TP__VW, r##i);
        TP__SEVEN(X)
#undef X
    }
#undef TP__SEVEN
    TP__F(finish)(t, sum[0], 3 * TP__VW, 0);
}
#endif

/* clang-format off */
#define TP__TILE(mr_)                                                                      \
    static void TP__F(TP__CAT(tile1_, mr_))(const tp__tile *t) { TP__F(tile)(t, mr_, 1, false); } \
    static void TP__F(TP__CAT(tile2_, mr_))(const tp__tile *t) { TP__F(tile)(t, mr_, 2, false); }
#define TP__T(nv_, mr_) TP__F(TP__CAT(TP__CAT(tile, nv_), TP__CAT(_, mr_)))
#if TP__MR == 14
TP__TILE(1)
TP__TILE(2)
TP__TILE(4)
TP__TILE(6) TP__TILE(8) TP__TILE(10) TP__TILE(12) TP__TILE(14)
#define TP__TILES(nv_)                                                                                                 \
    {                                                                                                                  \
        NULL, TP__T(nv_, 1), TP__T(nv_, 2), NULL, TP__T(nv_, 4), NULL, TP__T(nv_, 6), NULL, TP__T(nv_, 8), NULL,       \
            TP__T(nv_, 10), NULL, TP__T(nv_, 12), NULL, TP__T(nv_, 14)                                                 \
    }
#elif TP__ISA_LEVEL == 0 && defined(TP__SSE2) /* SSE2 has fewer tile sizes, because few machines need it */
TP__TILE(1)
TP__TILE(2)
TP__TILE(4)
TP__TILE(6)
#define TP__TILES(nv_)                                                                                              \
    {                                                                                                               \
        NULL, TP__T(nv_, 1), TP__T(nv_, 2), NULL, TP__T(nv_, 4), NULL, TP__T(nv_, 6), NULL, NULL, NULL, NULL, NULL, \
            NULL, NULL, NULL                                                                                        \
    }
#else
TP__TILE(1)
TP__TILE(2)
TP__TILE(3)
TP__TILE(4) TP__TILE(5) TP__TILE(6)
#define TP__TILES(nv_)                                                                                              \
    {                                                                                                               \
        NULL, TP__T(nv_, 1), TP__T(nv_, 2), TP__T(nv_, 3), TP__T(nv_, 4), TP__T(nv_, 5), TP__T(nv_, 6), NULL, NULL, \
            NULL, NULL, NULL, NULL, NULL, NULL                                                                      \
    }
#endif
/* clang-format on */

#if TP__WIDE
/* The rows of an even tile: X(row, address, gaps beyond it). With one vector of columns there is little work per row
 * pointer; the rows are equally far apart, so six addresses serve sixteen rows. */
#define TP__EVEN(X) \
    X(0, 0, 0)      \
    X(1, 0, 1)      \
    X(2, 0, 2)      \
    X(3, 1, 0)      \
    X(4, 1, 1)      \
    X(5, 1, 2)      \
    X(6, 2, 0) X(7, 2, 1) X(8, 2, 2) X(9, 3, 0) X(10, 3, 1) X(11, 3, 2) X(12, 4, 0) X(13, 4, 1) X(14, 4, 2) X(15, 5, 0)
/* Moves the addresses that mr rows use to the next k; the asm makes the compiler keep them in registers. */
#define TP__EVEN_STEP(mr_, step_)      \
    TP__EVEN_MOVE(a0, true, step_)     \
    TP__EVEN_MOVE(a1, mr_ > 3, step_)  \
    TP__EVEN_MOVE(a2, mr_ > 6, step_)  \
    TP__EVEN_MOVE(a3, mr_ > 9, step_)  \
    TP__EVEN_MOVE(a4, mr_ > 12, step_) \
    TP__EVEN_MOVE(a5, mr_ > 15, step_)
#define TP__EVEN_MOVE(a_, used_, step_) \
    if (used_) {                        \
        a_ += step_;                    \
        __asm__("" : "+r"(a_));         \
    }
TP__INLINE void TP__F(tile_even)(const tp__tile *t, int mr)
{
    const V zero = vset(0.0f);
    const int64_t gap = t->a_gap, step = t->step, ldb = t->ldb;
    const float *b = t->b;
#define X(i, r, k) V p##i = zero;
    TP__EVEN(X)
#undef X
    const tp__run *run = t->run, *const last = run + t->n_run;
    do {
        const float *a0 = t->a[0] + run->at, *a1 = a0 + 3 * gap, *a2 = a1 + 3 * gap;
        const float *a3 = a2 + 3 * gap, *a4 = a3 + 3 * gap, *a5 = a4 + 3 * gap;
        for (const float *end = b + run->len * ldb; b != end; b += ldb) {
            const V b0 = vload(b);
#define X(i, r, k) \
    if (mr > i) p##i = vfma(vset(a##r[k * gap]), b0, p##i);
            TP__EVEN(X)
#undef X
            TP__EVEN_STEP(mr, step)
        }
        b += run->skip;
    } while (++run != last);
    if (t->n < TP__VW) { /* an incomplete vector at the right edge is stored through a temporary array */
        float rows[TP__MAX_EVEN][TP__VW];
#define X(i, r, k) \
    if (mr > i) vstore(rows[i], p##i);
        TP__EVEN(X)
#undef X
        TP__F(finish)(t, rows[0], TP__VW, t->c_gap);
        return;
    }
    float *const c = t->c[0];
    const int64_t c_gap = t->c_gap;
    if (t->add) {
#define X(i, r, k) \
    if (mr > i) p##i += vload(c + i * c_gap);
        TP__EVEN(X)
#undef X
    }
    if (t->bias) {
        const V bias = vload(t->bias);
#define X(i, r, k) \
    if (mr > i) p##i += bias;
        TP__EVEN(X)
#undef X
    }
    if (t->ceiling > 0) {
        const V most = vset(t->ceiling);
#define X(i, r, k) \
    if (mr > i) p##i = vmin(most, vmax(zero, p##i));
        TP__EVEN(X)
#undef X
    }
#define X(i, r, k) \
    if (mr > i) vstore(c + i * c_gap, p##i);
    TP__EVEN(X)
#undef X
}

/* Prefetches the part of C that a tile adds to, which may have left the cache. */
TP__INLINE void TP__F(fetch_rows)(const float *c, int64_t gap, int rows, int vectors)
{
    for (int i = 0; i < rows; i++, c += gap) {
        __builtin_prefetch(c, 1);
        if (vectors == 2) __builtin_prefetch(c + TP__VW, 1);
    }
}
/* Returns what a tile prefetches for its first k, and in *step the floats from there to what it prefetches for the next k: a part of
 * the next panel of B, or the next tile's rows of A. The rows of a transposed A are prefetched with AVX2 only, where this was measured. */
TP__INLINE const float *TP__F(even_ahead)(const tp__even *t, int64_t row, int mr, int nv, int64_t *step)
{
    const float *a = t->a + row * t->a_gap;
    *step = mr;
    if (t->next && row < nv * TP__VW) return t->next + row * t->K;
    if (t->step == 1) return a + mr * t->a_gap;
    if (TP__VW != 8 || t->K > TP__EVEN_NEAR) return t->b;
    *step = t->step;
    return a + 2 * mr - 1;
}
/* Computes tiles of mr rows and nv vectors of columns of C (+)= A B from row `row` on, while mr rows are left; returns
 * the first row that is left. The mask `last` tells which columns of the last vector exist; it is not used if that
 * vector is `whole`. */
TP__INLINE int64_t TP__F(even_rows)(const tp__even *t, int64_t row, int64_t rows, TP__F(vmask) last, int mr, int nv,
                                    bool whole)
{
    const int64_t gap = t->a_gap, step = t->step, ldb = t->ldb;
    for (; row + mr <= rows; row += mr) {
        const V zero = vset(0.0f);
        const float *a0 = t->a + row * gap, *a1 = a0 + 3 * gap, *a2 = a1 + 3 * gap;
        const float *a3 = a2 + 3 * gap, *a4 = a3 + 3 * gap, *a5 = a4 + 3 * gap, *b = t->b;
        int64_t ahead_step;
        const float *ahead = TP__F(even_ahead)(t, row, mr, nv, &ahead_step);
#define TP__LAST(p) (whole ? vload(p) : TP__F(vloadm)(p, last))
#define TP__ENDS(p) (nv == 1 ? TP__LAST(p) : vload(p))
#define X(i, r, k)  V p##i = zero, q##i = zero;
        TP__EVEN(X)
#undef X
        if (t->add) TP__F(fetch_rows)(t->c + row * t->c_gap, t->c_gap, mr, nv);
        for (int64_t n = t->K; n > 0; n--, b += ldb) {
            const V b0 = TP__ENDS(b), b1 = nv == 2 ? TP__LAST(b + TP__VW) : b0;
            __builtin_prefetch(ahead);
            ahead += ahead_step;
#define X(i, r, k)                             \
    if (mr > i) {                              \
        const V x = vset(a##r[k * gap]);       \
        p##i = vfma(x, b0, p##i);              \
        if (nv == 2) q##i = vfma(x, b1, q##i); \
    }
            TP__EVEN(X)
#undef X
            TP__EVEN_STEP(mr, step)
        }
        float *const c0 = t->c + row * t->c_gap, *c = c0;
        if (t->add) {
#define X(i, r, k)                                 \
    if (mr > i) {                                  \
        p##i += TP__ENDS(c);                       \
        if (nv == 2) q##i += TP__LAST(c + TP__VW); \
        c += t->c_gap;                             \
    }
            TP__EVEN(X)
#undef X
        }
        if (t->bias) {
            const V bias0 = TP__ENDS(t->bias), bias1 = nv == 2 ? TP__LAST(t->bias + TP__VW) : bias0;
#define X(i, r, k) \
    if (mr > i) p##i += bias0, q##i += bias1;
            TP__EVEN(X)
#undef X
        }
        if (t->ceiling > 0) {
            const V most = vset(t->ceiling);
#define X(i, r, k) \
    if (mr > i) p##i = vmin(most, vmax(zero, p##i)), q##i = vmin(most, vmax(zero, q##i));
            TP__EVEN(X)
#undef X
        }
        c = c0;
#define X(i, r, k)                                           \
    if (mr > i) {                                            \
        if (nv == 2) vstore(c, p##i);                        \
        STORE(c + (nv - 1) * TP__VW, nv == 2 ? q##i : p##i); \
        c += t->c_gap;                                       \
    }
        if (whole || TP__F(vfull)(last)) { /* a store with a mask takes longer */
#define STORE(at, v) vstore(at, v)
            TP__EVEN(X)
#undef STORE
        } else {
#define STORE(at, v) TP__F(vstorem)(at, last, v)
            TP__EVEN(X)
#undef STORE
        }
#undef X
#undef TP__ENDS
#undef TP__LAST
    }
    return row;
}
/* Computes `rows` rows of a strip of at most two vectors of columns; rows that do not fill a tile take smaller tiles. A
 * mask costs nothing in vectors of sixteen floats, so these have no separate loop for a whole strip. */
#define TP__STRIP(name_, nv_, mr_)                                                                              \
    static void TP__F(name_)(const tp__even *t, int64_t rows, int64_t n)                                        \
    {                                                                                                           \
        const TP__F(vmask) last = TP__F(vfirst)(n);                                                             \
        int64_t row = TP__VW < 16 && n == TP__VW ? TP__F(even_rows)(t, 0, rows, last, mr_, nv_, TP__VW < 16)    \
                                                 : TP__F(even_rows)(t, 0, rows, last, mr_, nv_, false);         \
        if (row == rows) return;                                                                                \
        if (mr_ > 8) row = TP__F(even_rows)(t, row, rows, last, 8, nv_, false);                                 \
        if (mr_ >= 8 && nv_ == 2 && rows - row == 7) row = TP__F(even_rows)(t, row, rows, last, 7, nv_, false); \
        if (mr_ >= 8 && nv_ == 2 && rows - row == 6) row = TP__F(even_rows)(t, row, rows, last, 6, nv_, false); \
        if (mr_ >= 8 && nv_ == 2 && rows - row == 5) row = TP__F(even_rows)(t, row, rows, last, 5, nv_, false); \
        if (mr_ > 4) row = TP__F(even_rows)(t, row, rows, last, 4, nv_, false);                                 \
        if (rows - row == 3) TP__F(even_rows)(t, row, rows, last, 3, nv_, false);                               \
        else if (rows - row == 2) TP__F(even_rows)(t, row, rows, last, 2, nv_, false);                          \
        else TP__F(even_rows)(t, row, rows, last, 1, nv_, false);                                               \
    }
#define TP__MAIN (TP__VW > 8 ? 16 : 8)
#if TP__VW == 16
#define TP__WIDEST          16
#define TP__WIDE_VECTORS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#else
#define TP__WIDEST          8
#define TP__WIDE_VECTORS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#endif
#define TP__STRIP_2 (TP__VW == 16 ? 24 : TP__VW) /* a strip with more columns than this has two vectors */
TP__STRIP(strip1, 1, TP__MAIN)
TP__STRIP(strip2, 2, (TP__VW == 8 ? 6 : TP__VW == 16 ? 14 : TP__MAIN / 2))
/* Computes one or two rows of nv whole vectors of columns. With more than two vectors the sums hide how long each
 * addition takes, and B is read in the order of its addresses. */
TP__INLINE void TP__F(wide_rows)(const tp__even *e, int mr, int nv)
{
    const V zero = vset(0.0f);
    const float *a = e->a, *b = e->b;
#define X(i)        V p##i = zero, q##i = zero;
    TP__WIDE_VECTORS(X)
#undef X
    for (int64_t k = e->K; k > 0; k--, a += e->step, b += e->ldb) {
        const V x = vset(*a), y = mr > 1 ? vset(a[e->a_gap]) : x;
#define X(i)                                 \
    if (nv > i) {                            \
        const V v = vload(b + i * TP__VW);   \
        p##i = vfma(x, v, p##i);             \
        if (mr > 1) q##i = vfma(y, v, q##i); \
    }
        TP__WIDE_VECTORS(X)
#undef X
    }
    float *const c = e->c, *const d = c + e->c_gap;
    if (e->add) {
#define X(i)                                       \
    if (nv > i) {                                  \
        p##i += vload(c + i * TP__VW);             \
        if (mr > 1) q##i += vload(d + i * TP__VW); \
    }
        TP__WIDE_VECTORS(X)
#undef X
    }
    if (e->bias) {
#define X(i) \
    if (nv > i) p##i += vload(e->bias + i * TP__VW), q##i += vload(e->bias + i * TP__VW);
        TP__WIDE_VECTORS(X)
#undef X
    }
    if (e->ceiling > 0) {
        const V most = vset(e->ceiling);
#define X(i) \
    if (nv > i) p##i = vmin(most, vmax(zero, p##i)), q##i = vmin(most, vmax(zero, q##i));
        TP__WIDE_VECTORS(X)
#undef X
    }
#define X(i)                                      \
    if (nv > i) {                                 \
        vstore(c + i * TP__VW, p##i);             \
        if (mr > 1) vstore(d + i * TP__VW, q##i); \
    }
    TP__WIDE_VECTORS(X)
#undef X
}
/* Computes one or two rows as long as there are enough whole vectors of columns; returns how many columns are left. */
static int64_t TP__F(wide)(tp__even *e, int64_t rows, int64_t n)
{
    const int64_t widest = (rows == 1 ? TP__WIDEST : TP__WIDEST / 2) * TP__VW;
    for (int64_t done; n >= 4 * TP__VW; n -= done, e->b += done, e->c += done) {
        done = n >= widest ? widest : 4 * TP__VW;
        if (rows == 2 && done == widest) TP__F(wide_rows)(e, 2, TP__WIDEST / 2);
        else if (rows == 2) TP__F(wide_rows)(e, 2, 4);
        else if (done == widest) TP__F(wide_rows)(e, 1, TP__WIDEST);
        else TP__F(wide_rows)(e, 1, 4);
        if (e->bias) e->bias += done;
    }
    return n;
}
/* Moves to the columns that are n further on, in B, C and bias. */
TP__INLINE void TP__F(even_advance)(tp__even *e, int64_t n)
{
    e->b += n, e->c += n;
    if (e->bias) e->bias += n;
}
/* Computes `rows` rows of a strip of at most two vectors of columns. */
static void TP__F(strip)(const tp__even *t, int64_t rows, int64_t n)
{
    if (n > TP__STRIP_2) {
        TP__F(strip2)(t, rows, n - TP__VW);
        return;
    }
#if TP__VW == 16
    /* more than one vector: for the rest a vector of eight is at least as fast, and some processors compute two at a
     * time */
    if (n > TP__VW) {
        tp__even e = *t;
        TP__F(strip1)(t, rows, TP__VW);
        TP__F(even_advance)(&e, TP__VW);
        tp__even_product_avx2(&e, rows, n - TP__VW);
        return;
    }
    if (n <= 8) {
        tp__even_product_avx2(t, rows, n);
        return;
    }
#endif
    TP__F(strip1)(t, rows, n);
}
static void TP__F(strips)(const tp__even *t, int64_t rows, int64_t n)
{
    tp__even e = *t;
    if (rows <= 2) n = TP__F(wide)(&e, rows, n);
    for (; n > 2 * TP__VW; n -= 2 * TP__VW) {
        TP__F(strip2)(&e, rows, TP__VW);
        TP__F(even_advance)(&e, 2 * TP__VW);
    }
    if (n > 0) TP__F(strip)(&e, rows, n);
}
/* Computes `rows` rows and n columns of a product whose B is read in place. Products of at most two vectors of columns,
 * as Winograd has, go directly to the code of one strip, because a call costs time there. */
static void TP__F(even_product)(const tp__even *t, int64_t rows, int64_t n)
{
    if (rows > 2 && n <= 2 * TP__VW) TP__F(strip)(t, rows, n);
    else TP__F(strips)(t, rows, n);
}
#undef TP__STRIP
#undef TP__MAIN
#undef TP__STRIP_2
#undef TP__WIDEST
#undef TP__WIDE_VECTORS
#undef TP__EVEN
#undef TP__EVEN_STEP
#undef TP__EVEN_MOVE
#endif
#if TP__WIDE
/* -- rows of C -= rate A B, for few k ---------------------------------------------------------------------- */
static void TP__F(descend)(const tp__even *t, int64_t rows, int64_t n, float rate)
{
    const V r = vset(rate);
    const int64_t K = t->K, step = t->step, ldb = t->ldb;
    const float *b = t->b;
    /* goes from the last row to the first: the forward pass read the last row last, so it is still cached */
    while (rows-- > 0) {
        const float *a = t->a + rows * t->a_gap;
        float *c = t->c + rows * t->c_gap;
        int64_t j = 0;
        for (; j + 4 * TP__VW <= n; j += 4 * TP__VW) {
            V s0 = vset(0.0f), s1 = s0, s2 = s0, s3 = s0;
            for (int64_t k = 0; k < K; k++) {
                const float *row = b + k * ldb + j;
                const V x = vset(a[k * step]);
                s0 = vfma(x, vload(row), s0);
                s1 = vfma(x, vload(row + TP__VW), s1);
                s2 = vfma(x, vload(row + 2 * TP__VW), s2);
                s3 = vfma(x, vload(row + 3 * TP__VW), s3);
            }
            vstore(c + j, vload(c + j) - vmul(r, s0));
            vstore(c + j + TP__VW, vload(c + j + TP__VW) - vmul(r, s1));
            vstore(c + j + 2 * TP__VW, vload(c + j + 2 * TP__VW) - vmul(r, s2));
            vstore(c + j + 3 * TP__VW, vload(c + j + 3 * TP__VW) - vmul(r, s3));
        }
        for (; j < n; j += TP__VW) {
            V s = vset(0.0f);
            for (int64_t k = 0; k < K; k++) s = vfma(vset(a[k * step]), TP__F(part)(b + k * ldb + j, n - j), s);
            TP__F(put_part)(c + j, n - j, TP__F(part)(c + j, n - j) - vmul(r, s));
        }
    }
}
#endif

/* Copies rows of `columns` values to rows of ldd values, a multiple of a vector: the rest of the last vector is set to zero. */
static void TP__F(panel)(float *dst, int64_t ldd, const float *src, int64_t lds, int64_t rows, int64_t columns)
{
    for (; rows > 0; rows--, dst += ldd, src += lds)
#if TP__WIDE
        for (int64_t j = 0; j < ldd; j += TP__VW) vstore(dst + j, TP__F(part)(src + j, columns - j));
#else
        for (int64_t j = 0; j < ldd; j++) dst[j] = j < columns ? src[j] : 0.0f;
#endif
}

/* Packs n values of k of the columns of src, which are the rows of register tiles, into tiles of [K][rows of the tile], from k0 on.
 * For a few values of k all tiles are written: src is read along its rows, and each tile gets whole cache lines. */
static void TP__F(tiles)(float *dst, int64_t K, int64_t k0, int64_t n, const float *src, int64_t lds, int64_t rows)
{
    for (int64_t begin = 0, end; begin < n; begin = end) {
        end = begin + 8 < n ? begin + 8 : n;
        for (int64_t i = 0, m; i < rows; i += m) {
            m = tp__tile_rows(rows - i, TP__MR);
            for (int64_t k = begin; k < end; k++) {
                const float *from = src + k * lds + i;
                float *to = dst + i * K + (k0 + k) * m;
#if TP__WIDE
                for (int64_t j = 0; j < m; j += TP__VW) TP__F(put_part)(to + j, m - j, TP__F(part)(from + j, m - j));
#else
                for (int64_t j = 0; j < m; j++) to[j] = from[j];
#endif
            }
        }
    }
}

/* -- transposing ----------------------------------------------------------------------------------------- */
#if TP__VW == 16
/* Transposes 4x4 blocks of four rows of 16 floats: c[l] gets the columns l, 4 + l, 8 + l and 12 + l, one in each
 * quarter of the vector. Only the first `left` rows exist; the others count as zeros. */
TP__INLINE void TP__F(turn_four)(const float *s, int64_t lds, int64_t left, __mmask16 some, __m512 *c)
{
    const __m512 x0 = left > 0 ? _mm512_maskz_loadu_ps(some, s) : vset(0.0f);
    const __m512 x1 = left > 1 ? _mm512_maskz_loadu_ps(some, s + lds) : vset(0.0f);
    const __m512 x2 = left > 2 ? _mm512_maskz_loadu_ps(some, s + 2 * lds) : vset(0.0f);
    const __m512 x3 = left > 3 ? _mm512_maskz_loadu_ps(some, s + 3 * lds) : vset(0.0f);
    const __m512d lo01 = (__m512d)_mm512_maskz_unpacklo_ps(0xffff, x0, x1);
    const __m512d hi01 = (__m512d)_mm512_maskz_unpackhi_ps(0xffff, x0, x1);
    const __m512d lo23 = (__m512d)_mm512_maskz_unpacklo_ps(0xffff, x2, x3);
    const __m512d hi23 = (__m512d)_mm512_maskz_unpackhi_ps(0xffff, x2, x3);
    c[0] = (__m512)_mm512_maskz_unpacklo_pd(0xff, lo01, lo23);
    c[1] = (__m512)_mm512_maskz_unpackhi_pd(0xff, lo01, lo23);
    c[2] = (__m512)_mm512_maskz_unpacklo_pd(0xff, hi01, hi23);
    c[3] = (__m512)_mm512_maskz_unpackhi_pd(0xff, hi01, hi23);
}
/* Stores the columns l, 4 + l, 8 + l and 12 + l of 16 rows, as far as they exist; c0 to c3 are the results of turn_four
 * for four rows each. */
TP__INLINE void TP__F(turn_out)(float *q, int64_t ldd, int width, bool whole, __mmask16 mask, __m512 c0, __m512 c1,
                                __m512 c2, __m512 c3)
{
    const __m512 a = _mm512_maskz_shuffle_f32x4(0xffff, c0, c1, 0x88);
    const __m512 b = _mm512_maskz_shuffle_f32x4(0xffff, c2, c3, 0x88);
    const __m512 d = _mm512_maskz_shuffle_f32x4(0xffff, c0, c1, 0xdd);
    const __m512 e = _mm512_maskz_shuffle_f32x4(0xffff, c2, c3, 0xdd);
#define X(n, v)                                                                   \
    if (n < width) {                                                              \
        if (whole) vstore(q + n * ldd, v); /* a store with a mask takes longer */ \
        else _mm512_mask_storeu_ps(q + n * ldd, mask, v);                         \
    }
    X(0, _mm512_maskz_shuffle_f32x4(0xffff, a, b, 0x88))
    X(4, _mm512_maskz_shuffle_f32x4(0xffff, d, e, 0x88))
    X(8, _mm512_maskz_shuffle_f32x4(0xffff, a, b, 0xdd))
    X(12, _mm512_maskz_shuffle_f32x4(0xffff, d, e, 0xdd))
#undef X
}
#endif

#if TP__VW >= 8
/* dst[j rows + i] = src[i lds + j]: a few rows become the columns of a matrix without gaps. Lane l of output vector o comes from
 * column (o TP__VW + l) / rows of row (o TP__VW + l) % rows. */
TP__INLINE void TP__F(interleave)(float *dst, const float *src, int64_t lds, int rows, int64_t columns)
{
    static const int32_t lane[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    VI first;
    memcpy(&first, lane, sizeof first);
    for (int64_t j = 0; j < columns; j += TP__VW) {
        const int64_t width = columns - j < TP__VW ? columns - j : TP__VW;
        V x[4];
        for (int i = 0; i < rows; i++) x[i] = TP__F(part)(src + i * lds + j, width);
        for (int o = 0; o < rows && width * rows > o * TP__VW; o++) {
            const VI at = first + viset(o * TP__VW), column = (at * viset(65536 / rows + 1)) >> 16;
            const VI row = at - column * viset(rows);
            V y = vperm(x[0], column);
            for (int i = 1; i < rows; i++) y = vsel((VI)(row == viset(i)), vperm(x[i], column), y);
            TP__F(put_part)(dst + j * rows + o * TP__VW, width * rows - o * TP__VW, y);
        }
    }
}
#endif

/* dst[j ldd + i] = src[i lds + j] for i < rows, j < columns. A row of dst has room for `room` >= rows values; those from `rows` on
 * may become 0, so that whole vectors can be stored. */
static void TP__F(transpose)(float *dst, int64_t ldd, int64_t room, const float *src, int64_t lds, int64_t rows,
                             int64_t columns)
{
    int64_t j = 0;
    (void)room;
#if TP__VW >= 8
    if (ldd == rows && rows >= 2 && rows <= 4) {
        if (rows == 2) TP__F(interleave)(dst, src, lds, 2, columns);
        else if (rows == 3) TP__F(interleave)(dst, src, lds, 3, columns);
        else TP__F(interleave)(dst, src, lds, 4, columns);
        return;
    }
#endif
#if TP__VW == 16
    /* Transposes 16 x 16 values at once: first within the four quarters of each vector, as 4x4 blocks, then the blocks. */
    for (; columns - j > (rows > 4 ? 4 : 15); j += 16) {
        const int width = columns - j < 16 ? (int)(columns - j) : 16;
        const __mmask16 some = (__mmask16)((1u << width) - 1u);
        for (int64_t i = 0; i < rows; i += 16) {
            const int64_t left = rows - i;
            const __mmask16 mask = (__mmask16)(left < 16 ? (1u << left) - 1u : 0xffffu);
            const bool whole = room - i >= 16;
            const float *s = src + i * lds + j;
            float *q = dst + j * ldd + i;
            __m512 c[4][4];
            for (int n = 0; n < 4; n++) TP__F(turn_four)(s + 4 * n * lds, lds, left - 4 * n, some, c[n]);
            for (int n = 0; n < 4; n++)
                TP__F(turn_out)(q + n * ldd, ldd, width - n, whole, mask, c[0][n], c[1][n], c[2][n], c[3][n]);
        }
    }
#elif defined(TP__SSE2)
    for (; j + 16 <= columns; j += 16) { /* 16 columns at a time: one cache line of each row */
        int64_t i = 0;
        for (; i + 4 <= rows; i += 4)
            for (int l = 0; l < 16; l += 4) {
                const float *s = src + i * lds + j + l;
                float *q = dst + (j + l) * ldd + i;
                const __m128 r0 = _mm_loadu_ps(s), r1 = _mm_loadu_ps(s + lds);
                const __m128 r2 = _mm_loadu_ps(s + 2 * lds), r3 = _mm_loadu_ps(s + 3 * lds);
                const __m128 t0 = _mm_unpacklo_ps(r0, r1), t1 = _mm_unpackhi_ps(r0, r1);
                const __m128 t2 = _mm_unpacklo_ps(r2, r3), t3 = _mm_unpackhi_ps(r2, r3);
                _mm_storeu_ps(q, _mm_movelh_ps(t0, t2));
                _mm_storeu_ps(q + ldd, _mm_movehl_ps(t2, t0));
                _mm_storeu_ps(q + 2 * ldd, _mm_movelh_ps(t1, t3));
                _mm_storeu_ps(q + 3 * ldd, _mm_movehl_ps(t3, t1));
            }
        for (; i < rows; i++)
            for (int64_t l = j; l < j + 16; l++) dst[l * ldd + i] = src[i * lds + l];
    }
#endif
    for (int64_t i0 = 0; i0 < rows && j < columns; i0 += 512) { /* rows that stay in L1 for all columns that are left */
        const int64_t i1 = i0 + 512 < rows ? i0 + 512 : rows;
        for (int64_t l = j; l < columns; l++)
            for (int64_t i = i0; i < i1; i++) dst[l * ldd + i] = src[i * lds + l];
    }
}

#if TP__WIDE
static void TP__F(even8)(const tp__tile *t) { TP__F(tile_even)(t, 8); }
#endif
#if TP__MR == 14
static void TP__F(even14)(const tp__tile *t) { TP__F(tile_even)(t, 14); }
static void TP__F(even16)(const tp__tile *t) { TP__F(tile_even)(t, 16); }
#endif

/* Computes one row times n columns of a matrix that is read in place. */
#if TP__WIDE
static void TP__F(row)(tp__tile *t, int64_t n)
{
    const tp__even e = {t->a[0], t->b, t->c[0], t->run->len, 0, t->step, t->ldb, 0, t->add, t->ceiling, t->bias, NULL};
    TP__F(even_product)(&e, 1, n);
}
#else
/* B misses the cache: eight vectors of columns at a time are fast, because B is then read in the order of its
 * addresses */
#define TP__COLUMNS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
TP__INLINE void TP__F(row_columns)(const tp__tile *t, int nv, float *sum)
{
    const V zero = vset(0.0f);
    const float *a = t->a[0], *b = t->b;
#define X(i)           V s##i = zero;
    TP__COLUMNS(X)
#undef X
    for (int64_t k = t->run->len; k > 0; k--, a += t->step, b += t->ldb) {
        const V x = vset(*a);
#define X(i) \
    if (nv > i) s##i = vfma(x, nv > 1 ? vload(b + i * TP__VW) : TP__F(part)(b, t->n), s##i);
        TP__COLUMNS(X)
#undef X
    }
#define X(i) \
    if (nv > i) vstore(sum + i * TP__VW, s##i);
    TP__COLUMNS(X)
#undef X
}
#undef TP__COLUMNS
static void TP__F(row)(tp__tile *t, int64_t n)
{
    float sum[8 * TP__VW];
    for (; n > 0; n -= t->n) {
        t->n = n >= 8 * TP__VW ? 8 * TP__VW : n < TP__VW ? (int)n : TP__VW;
        if (t->n > TP__VW) TP__F(row_columns)(t, 8, sum);
        else TP__F(row_columns)(t, 1, sum);
        TP__F(finish)(t, sum, 0, 0);
        t->b += t->n;
        t->c[0] += t->n;
        if (t->bias) t->bias += t->n;
    }
}
#endif

#if TP__WIDE
/* -- dot products: vectors along k ----------------------------------------------------------------------- */
/* Adds the upper half of the lanes to the lower until four lanes are left. */
typedef float TP__F(four) __attribute__((vector_size(16), may_alias));
TP__INLINE TP__F(four) TP__F(fold)(V v)
{
#if TP__VW == 16
    const __m256 half =
        _mm256_add_ps(_mm512_maskz_extractf32x8_ps(0xff, v, 0), _mm512_maskz_extractf32x8_ps(0xff, v, 1));
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#elif TP__VW == 8
    return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
#else
    return v;
#endif
}
/* Sets out[0] to out[3] to the sums of the lanes of s0 to s3. */
TP__INLINE void TP__F(sums4)(V s0, V s1, V s2, V s3, float *out)
{
    TP__F(four) a = TP__F(fold)(s0), b = TP__F(fold)(s1), c = TP__F(fold)(s2), d = TP__F(fold)(s3);
#if TP__VW > 4
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(out, (a + c) + (b + d));
#else
    out[0] = (a[0] + a[2]) + (a[1] + a[3]);
    out[1] = (b[0] + b[2]) + (b[1] + b[3]);
    out[2] = (c[0] + c[2]) + (c[1] + c[3]);
    out[3] = (d[0] + d[2]) + (d[1] + d[3]);
#endif
}
#define TP__DOT_ROWS(X) X(0) X(1) X(2) X(3)
TP__INLINE void TP__F(dot_rows)(int64_t K, const float *a, int64_t lda, int m, const float *b, int64_t ldb, int64_t n,
                                float *out)
{
    const V zero = vset(0.0f);
    const TP__F(vmask) rest = TP__F(vfirst)(K % TP__VW);
    for (int64_t j = 0; j < n; j += 4) {
        const float *b0 = b + j * ldb, *b1 = j + 1 < n ? b0 + ldb : b0, *b2 = j + 2 < n ? b1 + ldb : b0,
                    *b3 = j + 3 < n ? b2 + ldb : b0;
        int64_t k = 0;
#define X(i)                                       \
    const float *a##i = a + (m > i ? i : 0) * lda; \
    V p##i = zero, q##i = zero, r##i = zero, s##i = zero;
        TP__DOT_ROWS(X)
#undef X
#define X(i)                      \
    if (m > i) {                  \
        const V x = LOAD(a##i);   \
        p##i = vfma(x, y0, p##i); \
        q##i = vfma(x, y1, q##i); \
        r##i = vfma(x, y2, r##i); \
        s##i = vfma(x, y3, s##i); \
    }
        for (; k + TP__VW <= K; k += TP__VW) {
#define LOAD(p) vload(p + k)
            const V y0 = LOAD(b0), y1 = LOAD(b1), y2 = LOAD(b2), y3 = LOAD(b3);
            TP__DOT_ROWS(X)
#undef LOAD
        }
        if (k < K) {
#define LOAD(p) TP__F(vloadm)(p + k, rest)
            const V y0 = LOAD(b0), y1 = LOAD(b1), y2 = LOAD(b2), y3 = LOAD(b3);
            TP__DOT_ROWS(X)
#undef LOAD
        }
#undef X
#define X(i) \
    if (m > i) TP__F(sums4)(p##i, q##i, r##i, s##i, out + i * TP__DOTS + j);
        TP__DOT_ROWS(X)
#undef X
    }
}
#undef TP__DOT_ROWS
static void TP__F(dots)(int64_t K, const float *a, int64_t lda, int m, const float *b, int64_t ldb, int64_t n,
                        float *out)
{
#if TP__VW == 16 /* three or four rows at a time need 32 vector registers, which only AVX-512 has */
    if (m == 4) TP__F(dot_rows)(K, a, lda, 4, b, ldb, n, out);
    else if (m == 3) TP__F(dot_rows)(K, a, lda, 3, b, ldb, n, out);
    else
#endif
        for (; m > 0; m -= 2, a += 2 * lda, out += 2 * TP__DOTS)
            if (m > 1) TP__F(dot_rows)(K, a, lda, 2, b, ldb, n, out);
            else TP__F(dot_rows)(K, a, lda, 1, b, ldb, n, out);
}
#endif

/* -- 64-bit lanes ---------------------------------------------------------------------------------------- */

#define TP__QL (TP__VW / 2) /* number of 64-bit lanes in a vector */

#if TP__VW == 16
TP__INLINE VQ TP__F(qset)(uint64_t x) { return (VQ)_mm512_set1_epi64((long long)x); }
TP__INLINE VD TP__F(dset)(double x) { return _mm512_set1_pd(x); }
#elif TP__VW == 8
TP__INLINE VQ TP__F(qset)(uint64_t x) { return (VQ)_mm256_set1_epi64x((long long)x); }
TP__INLINE VD TP__F(dset)(double x) { return _mm256_set1_pd(x); }
#else
TP__INLINE VQ TP__F(qset)(uint64_t x)
{
    VQ v = {x, x};
    return v;
}
TP__INLINE VD TP__F(dset)(double x)
{
    VD v = {x, x};
    return v;
}
#endif
TP__INLINE VD TP__F(dsel)(VQ mask, VD yes, VD no) { return (VD)((mask & (VQ)yes) | (~mask & (VQ)no)); }

/* -- sums: 32 lanes, element i in lane i mod 32, then a fixed tree ---------------------------------------- */

#define TP__LV (32 / TP__VW) /* number of vectors that hold the 32 lanes of a sum */

/* Loads at most a vector of the n values at p; the lanes beyond them are 0. */
TP__INLINE V TP__F(some)(const float *p, int64_t n)
{
    return n >= TP__VW ? vload(p) : n > 0 ? vget(p, n, 0.0f) : vset(0.0f);
}
/* Lane l of the result is lane l + w of a, for l + w < TP__VW. */
TP__INLINE V TP__F(lanes_from)(V a, int w)
{
#if TP__VW == 4
    const V to = {a[w], a[(w + 1) % 4], a[(w + 2) % 4], a[(w + 3) % 4]};
    return to;
#else
    VI lane;
    for (int l = 0; l < TP__VW; l++) lane[l] = l + w;
    return vperm(a, lane);
#endif
}
/* Adds the 32 lanes as tp__add_32_lanes does. */
TP__INLINE float TP__F(add_lanes)(V *s)
{
    for (int w = TP__LV / 2; w > 0; w /= 2)
        for (int j = 0; j < w; j++) s[j] += s[j + w];
    V v = s[0];
    for (int w = TP__VW / 2; w > 0; w /= 2) v += TP__F(lanes_from)(v, w);
    return v[0];
}

TP__INLINE float TP__F(sum_of)(int64_t n, const float *x)
{
    V s[TP__LV];
    for (int j = 0; j < TP__LV; j++) s[j] = vset(0.0f);
    for (; n >= 32; n -= 32, x += 32)
        for (int j = 0; j < TP__LV; j++) s[j] += vload(x + j * TP__VW);
    for (int j = 0; j < TP__LV && n > 0; j++) s[j] += TP__F(some)(x + j * TP__VW, n - j * TP__VW);
    return TP__F(add_lanes)(s);
}

static float TP__F(sum)(int64_t n, const float *x) { return TP__F(sum_of)(n, x); }
static void TP__F(sums)(int64_t rows, int64_t n, const float *x, float *y)
{
    for (; rows > 0; rows--, x += n) *y++ = TP__F(sum_of)(n, x);
}

static float TP__F(dot)(int64_t n, const float *x, const float *y)
{
    V s[TP__LV];
    for (int j = 0; j < TP__LV; j++) s[j] = vset(0.0f);
    for (; n >= 32; n -= 32, x += 32, y += 32)
        for (int j = 0; j < TP__LV; j++) s[j] = vfma(vload(x + j * TP__VW), vload(y + j * TP__VW), s[j]);
    for (int j = 0; j < TP__LV && n > 0; j++)
        s[j] = vfma(TP__F(some)(x + j * TP__VW, n - j * TP__VW), TP__F(some)(y + j * TP__VW, n - j * TP__VW), s[j]);
    return TP__F(add_lanes)(s);
}

TP__INLINE V TP__F(vmax_nan)(V a, V b) { return vsel((VI)(a > b) | (VI)(a != a), a, b); } /* NaN if one is NaN */
TP__INLINE V TP__F(vmin_nan)(V a, V b) { return vsel((VI)(a < b) | (VI)(a != a), a, b); }
/* The largest or, `least`, the smallest of n numbers. */
TP__INLINE float TP__F(extremum)(int64_t n, const float *x, const bool least)
{
    const float none = least ? INFINITY : -INFINITY;
#define TP__BETTER(a_, b_) (least ? TP__F(vmin_nan)((a_), (b_)) : TP__F(vmax_nan)((a_), (b_)))
    V m = vset(none), m1 = m;
    for (; n >= 2 * TP__VW; n -= 2 * TP__VW, x += 2 * TP__VW) { /* two chains: each waits for its last result */
        m = TP__BETTER(vload(x), m);
        m1 = TP__BETTER(vload(x + TP__VW), m1);
    }
    m = TP__BETTER(m1, m);
    for (; n >= TP__VW; n -= TP__VW, x += TP__VW) m = TP__BETTER(vload(x), m);
    if (n > 0) m = TP__BETTER(vget(x, n, none), m);
    for (int w = TP__VW / 2; w > 0; w /= 2) m = TP__BETTER(TP__F(lanes_from)(m, w), m);
#undef TP__BETTER
    return m[0];
}
static float TP__F(max)(int64_t n, const float *x) { return TP__F(extremum)(n, x, false); }
static float TP__F(min)(int64_t n, const float *x) { return TP__F(extremum)(n, x, true); }
static void TP__F(maxima)(int64_t rows, int64_t n, const float *x, float *y)
{
    for (; rows > 0; rows--, x += n) *y++ = TP__F(extremum)(n, x, false);
}
static void TP__F(minima)(int64_t rows, int64_t n, const float *x, float *y)
{
    for (; rows > 0; rows--, x += n) *y++ = TP__F(extremum)(n, x, true);
}

/* -- element-wise functions ------------------------------------------------------------------------------ */

/* The scalar versions in tp_tensor.h (>>engine_maths) explain the formulas. tests/test_ulp.c measures the errors that the comments
 * give, in units in the last place. */

/* Vector version of tp__exp_fraction: exp(x) = 2^k (1 + rest), for |x| <= 104. Returns rest, and in *rounder k + TP__ROUNDER. */
TP__INLINE V TP__F(exp_rest)(V x, V *rounder)
{
    V big = vfma(x, vset(TP__LOG2E), vset(TP__ROUNDER)), n = big - vset(TP__ROUNDER);
    V r = vfma(n, vset(-TP__LN2_HI), x);
    r = vfma(n, vset(-TP__LN2_LO), r);
    V q = vfma(r, vset(TP__EXP_7), vset(TP__EXP_6));
    q = vfma(q, r, vset(TP__EXP_5));
    q = vfma(q, r, vset(TP__EXP_4));
    q = vfma(q, r, vset(TP__EXP_3));
    q = vfma(q, r, vset(TP__EXP_2));
    *rounder = big;
    return vfma(vmul(r, r), q, r);
}
/* k as integers, from *rounder of exp_rest */
TP__INLINE VI TP__F(exponent)(V rounder) { return (VI)rounder - (VI)vset(TP__ROUNDER); }

/* exp(x) for |x| <= 104: at most 1 ulp */
TP__INLINE V TP__F(exp_inside)(V x)
{
    V rounder, p = vset(1.0f) + TP__F(exp_rest)(x, &rounder);
#if TP__VW == 16
    return _mm512_maskz_scalef_ps(0xffff, p, rounder - vset(TP__ROUNDER));
#else
    VI k = TP__F(exponent)(rounder), half = k >> 1;
    return p * vpow2(half) * vpow2(k - half);
#endif
}
/* error: at most 1 ulp. Here and below vmin and vmax keep a NaN in x. */
TP__INLINE V TP__F(vexp)(V x) { return TP__F(exp_inside)(vmin(vset(89.0f), vmax(vset(-104.0f), x))); }
/* exp(-|x|) */
TP__INLINE V TP__F(exp_below)(V x) { return TP__F(exp_inside)(vmax(vset(-104.0f), (V)((VI)x | viset(INT32_MIN)))); }

/* a / d, where y is 1 / d or one unit in the last place above it. AVX-512 divides a vector of sixteen floats in sixteen cycles; these
 * three operations take one and a half. The result is the float nearest to a / d; below 2^-102 it may be the next one, because the
 * remainder is flushed to zero. An infinite quotient becomes NaN: a caller that may meet one replaces it. */
TP__INLINE V TP__F(divide_by)(V a, V d, V y)
{
#if TP__VW == 16
    const V q = vmul(a, y);
    return vfma(vfma(-d, q, a), y, q);
#else
    return (void)y, a / d;
#endif
}
/* n / d where n is 1 or 2 and d a finite number from 1 on, or n = e and d = 1 + e for 0 <= e <= 1. AVX-512: one step of Newton's method
 * for 1 / d, rounded up, then divide_by. The bits are those of a division: tests/test_ulp.c compares all such quotients. */
TP__INLINE V TP__F(quotient)(V n, V d)
{
#if TP__VW == 16
    V y = _mm512_maskz_rcp14_ps(0xffff, d);
    y = _mm512_fmadd_round_ps(y, vfma(-d, y, vset(1.0f)), y, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
    return TP__F(divide_by)(n, d, y);
#else
    return n / d;
#endif
}

/* e^x - 1 for x <= 0, at most 0.9 ulp. The result has the sign bit of x, for -0. */
TP__INLINE V TP__F(vexpm1)(V x)
{
    V rounder, rest = TP__F(exp_rest)(vmax(vset(-80.0f), x), &rounder), power = vpow2(TP__F(exponent)(rounder));
    V y = vfma(rest, power, power - vset(1.0f));
    return (V)((VI)y | ((VI)x & viset(INT32_MIN)));
}

TP__INLINE V TP__F(velu)(V x) { return vsel((VI)(x > vset(0.0f)), x, TP__F(vexpm1)(vmin(vset(0.0f), x))); }

/* Vector version of tp__log_sum: k ln 2 + log(1+f). */
TP__INLINE V TP__F(log_sum)(V k, V f)
{
    V f2 = vmul(f, f), q = vfma(f, vset(TP__LOG_11), vset(TP__LOG_10));
    q = vfma(q, f, vset(TP__LOG_9));
    q = vfma(q, f, vset(TP__LOG_8));
    q = vfma(q, f, vset(TP__LOG_7));
    q = vfma(q, f, vset(TP__LOG_6));
    q = vfma(q, f, vset(TP__LOG_5));
    q = vfma(q, f, vset(TP__LOG_4));
    q = vfma(q, f, vset(TP__LOG_3));
    V low = vfma(vmul(f2, f), q, vmul(k, vset(TP__LN2_LO)));
    low = vfma(f2, vset(-0.5f), low);
    return vmul(k, vset(TP__LN2_HI)) + (f + low);
}

/* error: at most 0.9 ulp */
TP__INLINE V TP__F(vlog)(V x)
{
    VI tiny = (VI)(x < vset(FLT_MIN)), bits;
    V m = vsel(tiny, x * vset(8388608.0f), x);
    /* replace arguments without a logarithm (0, negative, NaN) by 1, so that they do not overflow below */
    m = vsel((VI)(x > vset(0.0f)), m, vset(1.0f));
    bits = (VI)m;
    VI e = (bits - viset(TP__SQRT_HALF_BITS)) >> 23;
    V f = (V)(bits - (e << 23)) - vset(1.0f);
    e -= tiny & viset(23);
    V y = TP__F(log_sum)(__builtin_convertvector(e, V), f);
    /* sets the logarithm of infinity; the next lines set those of NaN, 0 and negative numbers */
    y = vsel((VI)(x < vset(INFINITY)), y, x);
    y = vsel((VI)(x > vset(0.0f)), y, vset(-INFINITY));
    return vsel((VI)(x >= vset(0.0f)), y, vsel((VI)(x == x), vset(NAN), x));
}

/* ln(1 + e^x) = max(x, 0) + log(1 + e), e = exp(-|x|), at most 1.7 ulp. The second term is that of tp__log1pf. */
TP__INLINE V TP__F(vsoftplus)(V x)
{
    V e = TP__F(exp_below)(x);
    VI big = (VI)(e > vset(TP__SQRT_TWO_LESS_ONE));
    V f = vsel(big, vfma(e, vset(0.5f), vset(-0.5f)), e), k = (V)(big & (VI)vset(1.0f));
    return vmax(x, vset(0.0f)) + TP__F(log_sum)(k, f);
}

/* error: at most 1.4 ulp */
TP__INLINE V TP__F(vtanh)(V x)
{
    V a = vabs(x), u = vmul(x, x);
    V q = vfma(u, vset(TP__TANH_11), vset(TP__TANH_9));
    q = vfma(q, u, vset(TP__TANH_7));
    q = vfma(q, u, vset(TP__TANH_5));
    q = vfma(q, u, vset(TP__TANH_3));
    V small = vfma(vmul(a, u), q, a);
    V big = vset(1.0f) - TP__F(quotient)(vset(2.0f), TP__F(exp_inside)(vmin(vset(64.0f), a + a)) + vset(1.0f));
    V y = vsel((VI)(a < vset(TP__TANH_SMALL)), small, big);
    return (V)((VI)y | ((VI)x & viset(INT32_MIN)));
}

/* The sigmoid 1/(1+exp(-x)), computed from exp(-|x|), which cannot overflow; at most 2.5 ulp. */
TP__INLINE V TP__F(vsigmoid)(V x)
{
    V e = TP__F(exp_below)(x);
    return TP__F(quotient)(vsel((VI)(x < vset(0.0f)), e, vset(1.0f)), vset(1.0f) + e);
}

/* error: at most 1.1 ulp; 1.4 without fused multiply-and-add */
TP__INLINE V TP__F(verf)(V x)
{
    V u = vmul(x, x), q = vfma(u, vset(TP__ERF_NEAR_6), vset(TP__ERF_NEAR_5));
    q = vfma(q, u, vset(TP__ERF_NEAR_4));
    q = vfma(q, u, vset(TP__ERF_NEAR_3));
    q = vfma(q, u, vset(TP__ERF_NEAR_2));
    q = vfma(q, u, vset(TP__ERF_NEAR_1));
    q = vfma(q, u, vset(TP__ERF_NEAR_0));
    V near = vfma(x, q, x), a = vmin(vset(4.0f), vabs(x));
    V p = vfma(a, vset(TP__ERF_FAR_6), vset(TP__ERF_FAR_5));
    p = vfma(p, a, vset(TP__ERF_FAR_4));
    p = vfma(p, a, vset(TP__ERF_FAR_3));
    p = vfma(p, a, vset(TP__ERF_FAR_2));
    p = vfma(p, a, vset(TP__ERF_FAR_1));
    p = vfma(p, a, vset(TP__ERF_FAR_0));
    V rounder, rest = TP__F(exp_rest)(p, &rounder);
    V far = vset(1.0f) - (vset(1.0f) + rest) * vpow2(TP__F(exponent)(rounder));
    return vsel((VI)(a < vset(1.0f)), near, (V)((VI)far | ((VI)x & viset(INT32_MIN))));
}

/* Makes a function over n floats from a function of a vector: the last, partial vector is padded, so that an element's bits do
 * not depend on its position. In the expression a and b are the operands, p and q the n_ parameters. */
#define TP__UNARY_OF(name_, n_, expr_)                                                      \
    static void TP__F(name_)(int64_t n, float *y, const float *const *in)                   \
    {                                                                                       \
        const float *x = in[0];                                                             \
        const V p = vset((n_) > 0 ? in[1][0] : 0.0f), q = vset((n_) > 1 ? in[1][1] : 0.0f); \
        int64_t i = 0;                                                                      \
        (void)p, (void)q;                                                                   \
        for (; i + TP__VW <= n; i += TP__VW) {                                              \
            V a = vload(x + i);                                                             \
            vstore(y + i, expr_);                                                           \
        }                                                                                   \
        if (i < n) {                                                                        \
            V a = vget(x + i, n - i, 1.0f);                                                 \
            vput(y + i, n - i, expr_);                                                      \
        }                                                                                   \
    }
#define TP__UNARY(name_, expr_) TP__UNARY_OF(name_, 0, expr_)
/* The same as TP__UNARY for a long function: its code is not repeated for the partial vector. */
#define TP__LONG(name_, function_)                                                          \
    static void TP__F(name_)(int64_t n, float *y, const float *const *in)                   \
    {                                                                                       \
        const float *x = in[0];                                                             \
        int64_t i = 0;                                                                      \
        for (; i + TP__VW <= n; i += TP__VW) vstore(y + i, TP__F(function_)(vload(x + i))); \
        if (i < n) {                                                                        \
            float rest[TP__VW];                                                             \
            const float *const whole[1] = {rest};                                           \
            vstore(rest, vget(x + i, n - i, 1.0f));                                         \
            TP__F(name_)(TP__VW, rest, whole);                                              \
            vput(y + i, n - i, vload(rest));                                                \
        }                                                                                   \
    }
#define TP__BINARY_OF(name_, n_, expr_)                                                     \
    static void TP__F(name_)(int64_t n, float *y, const float *const *in)                   \
    {                                                                                       \
        const float *x0 = in[0], *x1 = in[1];                                               \
        const V p = vset((n_) > 0 ? in[2][0] : 0.0f), q = vset((n_) > 1 ? in[2][1] : 0.0f); \
        int64_t i = 0;                                                                      \
        (void)p, (void)q;                                                                   \
        for (; i + TP__VW <= n; i += TP__VW) {                                              \
            V a = vload(x0 + i), b = vload(x1 + i);                                         \
            vstore(y + i, expr_);                                                           \
        }                                                                                   \
        if (i < n) {                                                                        \
            V a = vget(x0 + i, n - i, 1.0f), b = vget(x1 + i, n - i, 1.0f);                 \
            vput(y + i, n - i, expr_);                                                      \
        }                                                                                   \
    }
#define TP__BINARY(name_, expr_) TP__BINARY_OF(name_, 0, expr_)

/* The nearest whole number, halves to even: a sum of 2^23 or more has no places behind the point. -0.3 becomes -0. */
TP__INLINE V TP__F(nearest)(V a)
{
    const V size = vabs(a), most = vset(8388608.0f), whole = (size + most) - most;
    return vsel((VI)(size < most), (V)((VI)whole | ((VI)a & viset(INT32_MIN))), a);
}
TP__INLINE V TP__F(floor)(V a)
{
    const V near = TP__F(nearest)(a);
    return near - (V)((VI)(near > a) & (VI)vset(1.0f));
}
TP__INLINE V TP__F(ceil)(V a) /* -0 for -0.7, as in C */
{
    const V near = TP__F(nearest)(a);
    return (V)((VI)(near + (V)((VI)(near < a) & (VI)vset(1.0f))) | ((VI)a & viset(INT32_MIN)));
}

TP__BINARY(vec_add, a + b)
TP__BINARY(vec_sub, a - b)
TP__BINARY(vec_mul, a *b)
TP__BINARY(vec_div, a / b)
TP__BINARY(vec_max, vsel((VI)(a != a), a, vmax(a, b)))
TP__BINARY(vec_min, vsel((VI)(a != a), a, vmin(a, b)))
TP__BINARY(vec_floordiv, TP__F(floor)(a / b))
TP__BINARY(vec_relu_grad, (V)((VI)(b > vset(0.0f)) & (VI)a))
TP__BINARY(vec_elu_grad, vsel((VI)(b > vset(0.0f)), a, a *(b + vset(1.0f))))
TP__UNARY(vec_neg, -a)
TP__UNARY(vec_abs, vabs(a))
TP__UNARY(vec_square, a *a)
TP__UNARY(vec_sqrt, vsqrt(a))
TP__UNARY(vec_floor, TP__F(floor)(a))
TP__UNARY(vec_ceil, TP__F(ceil)(a))
TP__UNARY(vec_round, TP__F(nearest)(a))
TP__UNARY(vec_rsqrt, vset(1.0f) / vsqrt(a))
TP__UNARY(vec_reciprocal, vset(1.0f) / a)
TP__LONG(vec_exp, vexp)
TP__LONG(vec_log, vlog)
TP__LONG(vec_tanh, vtanh)
TP__LONG(vec_sigmoid, vsigmoid)
TP__LONG(vec_erf, verf)
TP__LONG(vec_softplus, vsoftplus)
TP__LONG(vec_elu, velu)
TP__UNARY(vec_relu, vmax(vset(0.0f), a))

TP__UNARY(vec_sign, vsel((VI)(a > vset(0.0f)), vset(1.0f), vsel((VI)(a < vset(0.0f)), vset(-1.0f), a)))
TP__UNARY_OF(vec_affine, 2, vmul(a, p) + q)
TP__UNARY_OF(vec_clip, 2, vsel((VI)(a < p), p, vsel((VI)(a > q), q, a)))
TP__UNARY_OF(vec_leaky_relu, 1, vsel((VI)(a > vset(0.0f)), a, a *p))
TP__BINARY_OF(vec_clip_grad, 2, (V)((VI)(b >= p) & (VI)(b <= q) & (VI)a))
TP__BINARY_OF(vec_leaky_relu_grad, 1, vsel((VI)(b > vset(0.0f)), a, a *p))

/* -- element-wise functions in double: the bits of their scalar versions ----------------------------------- */
/* The error is at most 0.51 ulp: nearly all of it is the rounding of the result to float. */

typedef float TP__F(half) __attribute__((vector_size(TP__VW * 2), aligned(4), may_alias));
TP__INLINE VD TP__F(dload)(const float *p)
{
    return __builtin_convertvector(*(const TP__F(half) *)(const void *)p, VD);
}
TP__INLINE void TP__F(dstore)(float *p, VD a) { *(TP__F(half) *)(void *)p = __builtin_convertvector(a, TP__F(half)); }

/* -- batch normalisation of a plane, n adjacent values of one channel; sums in double ----------------------- */
/* Adds the values to *sum, or if a mean is given, their squared distances from it. */
static void TP__F(plane_moment)(int64_t n, const float *x, const double *mean, double *sum)
{
    const int64_t half = TP__VW / 2;
    const double m = mean ? *mean : 0;
    VD a = TP__F(dset)(0), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 4 * half <= n && !mean; i += 4 * half) {
        a += TP__F(dload)(x + i), b += TP__F(dload)(x + i + half);
        c += TP__F(dload)(x + i + 2 * half), d += TP__F(dload)(x + i + 3 * half);
    }
    for (; i + 4 * half <= n; i += 4 * half) {
        const VD p = TP__F(dload)(x + i) - TP__F(dset)(m), q = TP__F(dload)(x + i + half) - TP__F(dset)(m);
        const VD r = TP__F(dload)(x + i + 2 * half) - TP__F(dset)(m),
                 s = TP__F(dload)(x + i + 3 * half) - TP__F(dset)(m);
        a += vdmul(p, p), b += vdmul(q, q), c += vdmul(r, r), d += vdmul(s, s);
    }
    a += b + (c + d);
    for (int64_t l = 0; l < half; l++) *sum += a[l];
    for (; i < n; i++) *sum += mean ? TP__PRODUCT(((double)x[i] - m) * ((double)x[i] - m)) : (double)x[i];
}
/* Adds the sum of dy to sums[0], that of dy (x - mean) inv to sums[1]. */
static void TP__F(plane_products)(int64_t n, const float *dy, const float *x, float mean, float inv, double *sums)
{
    const int64_t half = TP__VW / 2;
    VD a = TP__F(dset)(0), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 2 * half <= n; i += 2 * half) {
        float xhat[TP__VW];
        vstore(xhat, vmul(vload(x + i) - vset(mean), vset(inv)));
        const VD g = TP__F(dload)(dy + i), h = TP__F(dload)(dy + i + half);
        a += g, b += h;
        c += vdmul(g, TP__F(dload)(xhat)), d += vdmul(h, TP__F(dload)(xhat + half));
    }
    a += b, c += d;
    for (int64_t l = 0; l < half; l++) sums[0] += a[l], sums[1] += c[l];
    for (; i < n; i++) {
        const float xhat = TP__PRODUCT((x[i] - mean) * inv);
        sums[0] += (double)dy[i], sums[1] += TP__PRODUCT((double)dy[i] * (double)xhat);
    }
}
/* y = (x - v[0]) v[1] v[2] + v[3] */
static void TP__F(plane_norm)(int64_t n, const float *x, const float *v, float *y)
{
    for (int64_t i = 0; i < n; i += TP__VW) {
        const V xhat = vmul(TP__F(part)(x + i, n - i) - vset(v[0]), vset(v[1]));
        TP__F(put_part)(y + i, n - i, vmul(xhat, vset(v[2])) + vset(v[3]));
    }
}
/* dx = v[4] (dy - v[2] - (x - v[0]) v[1] v[3]) */
static void TP__F(plane_back)(int64_t n, const float *dy, const float *x, const float *v, float *dx)
{
    for (int64_t i = 0; i < n; i += TP__VW) {
        const V xhat = vmul(TP__F(part)(x + i, n - i) - vset(v[0]), vset(v[1]));
        const V g = TP__F(part)(dy + i, n - i) - vset(v[2]) - vmul(xhat, vset(v[3]));
        TP__F(put_part)(dx + i, n - i, vmul(vset(v[4]), g));
    }
}

/* A polynomial of n terms, at most 9, as tp__horner; written without a loop so that the coefficients become constants. */
/* clang-format off */
TP__INLINE VD TP__F(horner)(const double *c, int n, VD x)
{
    VD y = TP__F(dset)(c[0]);
#define X(i) if (n > i) y = vdmul(y, x) + TP__F(dset)(c[i]);
    X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#undef X
    return y;
}
/* clang-format on */

TP__INLINE VD TP__F(sines)(VD x, uint64_t quarter)
{
    const VD rounder = TP__F(dset)(TP__ROUND_DOUBLE), turns = vdmul(x, TP__F(dset)(TP__TWO_OVER_PI)) + rounder;
    VD r = vdmul(turns - rounder, TP__F(dset)(-TP__HALF_PI_HI)) + x;
    r = vdmul(turns - rounder, TP__F(dset)(-TP__HALF_PI_LO)) + r;
    const VD one = TP__F(dset)(1.0), z = vdmul(r, r);
    const VD s = (vdmul(TP__F(horner)(tp__sin_series, TP_COUNT(tp__sin_series), z), z) + one) * r;
    const VD c = vdmul(TP__F(horner)(tp__cos_series, TP_COUNT(tp__cos_series), z), z) + one;
    const VQ n = (VQ)turns + TP__F(qset)(quarter), odd = TP__F(qset)(0) - (n & TP__F(qset)(1));
    return (VD)((VQ)TP__F(dsel)(odd, c, s) ^ ((n & TP__F(qset)(2)) << 62));
}

TP__INLINE VD TP__F(arctan)(VD x)
{
    const VQ minus = TP__F(qset)(0x8000000000000000u);
    const VD one = TP__F(dset)(1.0), root = TP__F(dset)(TP__SQRT_THREE);
    VD a = (VD)((VQ)x & ~minus);
    const VQ inverse = (VQ)(a > one);
    a = TP__F(dsel)(inverse, one / a, a);
    const VQ turned = (VQ)(a > TP__F(dset)(TP__TAN_TWELFTH));
    a = TP__F(dsel)(turned, (vdmul(a, root) - one) / (a + root), a);
    const VD s = TP__F(horner)(tp__atan_series, TP_COUNT(tp__atan_series), vdmul(a, a));
    a = vdmul(a, s) + (VD)(turned & (VQ)TP__F(dset)(TP__SIXTH_OF_PI));
    a = TP__F(dsel)(inverse, TP__F(dset)(TP__HALF_PI) - a, a);
    return (VD)((VQ)a | ((VQ)x & minus));
}

/* a^b for a > 0 */
TP__INLINE VD TP__F(power)(VD a, VD b)
{
    const VQ bits = (VQ)a, bias = TP__F(qset)(UINT64_C(1024) << 52);
    const VQ k = (bits - TP__F(qset)(TP__SQRT_HALF_DOUBLE_BITS) + bias) >> 52;
    const VD one = TP__F(dset)(1.0), m = (VD)(bits + bias - (k << 52)), f = (m - one) / (m + one);
    const VD most = TP__F(dset)(TP__MOST_OF_POWERS), rounder = TP__F(dset)(TP__ROUND_DOUBLE);
    const VD whole = (VD)(k | TP__F(qset)(0x4330000000000000u)) - TP__F(dset)(4503599627370496.0 + 1024.0);
    VD t = vdmul(TP__F(horner)(tp__log2_series, TP_COUNT(tp__log2_series), vdmul(f, f)), f) + whole;
    t = vdmul(t, b);
    t = TP__F(dsel)((VQ)(t > most), most, t);
    t = TP__F(dsel)((VQ)(t < -most), -most, t);
    const VD n = t + rounder;
    const VD y = TP__F(horner)(tp__exp2_series, TP_COUNT(tp__exp2_series), t - (n - rounder));
    return y * (VD)(((VQ)n << 52) + TP__F(qset)(UINT64_C(1023) << 52));
}

#define TP__VEC_BLOCK 64 /* elements that the following functions compute at a time */

/* Whether the sizes of n floats are below `most`; false if one is NaN. */
TP__INLINE bool TP__F(all_below)(int64_t n, const float *x, float most)
{
    VI ok = viset(-1);
    int32_t lane[TP__VW], all = -1;
    for (int64_t i = 0; i < n; i += TP__VW) ok &= (VI)(vabs(TP__F(part)(x + i, n - i)) < vset(most));
    memcpy(lane, &ok, sizeof lane);
    for (int i = 0; i < TP__VW; i++) all &= lane[i];
    return all != 0;
}

/* Makes a function over n floats from a function of doubles, for |x| < most_. The scalar function computes the rest. */
#define TP__IN_DOUBLE(name_, most_, expr_, scalar_)                          \
    static void TP__F(name_)(int64_t n, float *y, const float *const *in)    \
    {                                                                        \
        for (int64_t i = 0; i < n; i += TP__VEC_BLOCK) {                     \
            const float *x = in[0] + i;                                      \
            const int64_t m = n - i < TP__VEC_BLOCK ? n - i : TP__VEC_BLOCK; \
            int64_t j = 0;                                                   \
            if (TP__F(all_below)(m, x, most_))                               \
                for (; j + TP__QL <= m; j += TP__QL) {                       \
                    const VD a = TP__F(dload)(x + j);                        \
                    TP__F(dstore)(y + i + j, expr_);                         \
                }                                                            \
            for (; j < m; j++) y[i + j] = scalar_(x[j]);                     \
        }                                                                    \
    }
TP__IN_DOUBLE(vec_sin, TP__MOST_OF_SINES, TP__F(sines)(a, 0), tp__sine)
TP__IN_DOUBLE(vec_cos, TP__MOST_OF_SINES, TP__F(sines)(a, 1), tp__cosine)
TP__IN_DOUBLE(vec_atan, INFINITY, TP__F(arctan)(a), tp__atanf)
TP__IN_DOUBLE(vec_asin, INFINITY, TP__F(arctan)(a / vdsqrt((TP__F(dset)(1.0) - a) * (TP__F(dset)(1.0) + a))), tp__asinf)
TP__IN_DOUBLE(vec_acos, INFINITY,
              TP__F(dset)(2.0) * TP__F(arctan)(vdsqrt((TP__F(dset)(1.0) - a) / (TP__F(dset)(1.0) + a))), tp__acosf)

/* Finishes a vector of powers as tp__powf does: y is |a|^b. Where *ok becomes 0, a is 0 or infinite, or b is not smaller than 2^22. */
TP__INLINE V TP__F(finish_pow)(V a, V b, V y, VI *ok)
{
    const V one = vset(1.0f), size = vabs(a), big = b + vset(TP__ROUNDER);
    const VI whole = (VI)(big - vset(TP__ROUNDER) == b), negative = (VI)(a < vset(0.0f));
    y = vsel((VI)(b == one), size, y);
    y = vsel((VI)(b == vset(2.0f)), vmul(size, size), y);
    y = vsel((VI)(b == vset(0.5f)), vsqrt(size), y);
    y = vsel((VI)(b == vset(-1.0f)), one / size, y);
    /* in `big` b is rounded to an integer, whose lowest bit tells whether b is odd */
    y = (V)((VI)y ^ (negative & ((VI)big << 31)));
    *ok = (VI)(size > vset(0.0f)) & (VI)(size < vset(INFINITY)) & (VI)(vabs(b) < vset(4194304.0f));
    return vsel(negative & ~whole, vset(NAN), y);
}

static void TP__F(vec_pow)(int64_t n, float *y, const float *const *in)
{
    float rest[2][TP__VEC_BLOCK], p[TP__VEC_BLOCK];
    int32_t ok[TP__VEC_BLOCK];
    for (int64_t i = 0; i < n; i += TP__VEC_BLOCK) {
        const int64_t m = n - i < TP__VEC_BLOCK ? n - i : TP__VEC_BLOCK;
        const float *a = in[0] + i, *b = in[1] + i;
        if (m < TP__VEC_BLOCK) { /* pad an incomplete block */
            for (int64_t j = 0; j < TP__VEC_BLOCK; j++) {
                rest[0][j] = j < m ? a[j] : 1.0f;
                rest[1][j] = j < m ? b[j] : 1.0f;
            }
            a = rest[0], b = rest[1];
        }
        for (int64_t j = 0; j < m; j += TP__QL) {
            const VD size = (VD)((VQ)TP__F(dload)(a + j) & TP__F(qset)(0x7fffffffffffffffu));
            TP__F(dstore)(p + j, TP__F(power)(size, TP__F(dload)(b + j)));
        }
        int32_t all = -1;
        for (int64_t j = 0; j < m; j += TP__VW) {
            VI fine;
            vstore(p + j, TP__F(finish_pow)(vload(a + j), vload(b + j), vload(p + j), &fine));
            memcpy(ok + j, &fine, sizeof fine);
        }
        for (int64_t j = 0; j < m; j++) all &= ok[j];
        for (int64_t j = 0; j < m && !all; j++)
            if (!ok[j]) p[j] = tp__powf(a[j], b[j]);
        memcpy(y + i, p, (size_t)m * sizeof *y);
    }
}

/* While |a / b| is below 2^28 and b is finite, floor(|a / b|) is right in double, since a quotient of floats is a whole number
 * or at least 2^-25 away from one; its product with b has at most 52 bits, and the rest is a float. The scalar function computes
 * other blocks. */
static void TP__F(vec_mod)(int64_t n, float *y, const float *const *in)
{
    float rest[2][TP__VEC_BLOCK], p[TP__VEC_BLOCK];
    const VQ sign = TP__F(qset)(0x8000000000000000u);
    const VD whole = TP__F(dset)(4503599627370496.0), one = TP__F(dset)(1.0);
    for (int64_t i = 0; i < n; i += TP__VEC_BLOCK) {
        const int64_t m = n - i < TP__VEC_BLOCK ? n - i : TP__VEC_BLOCK;
        const float *x = in[0] + i, *by = in[1] + i;
        uint64_t all = ~(uint64_t)0, lane[TP__QL];
        VQ ok = TP__F(qset)(all);
        if (m < TP__VEC_BLOCK) { /* pad an incomplete block */
            for (int64_t j = 0; j < TP__VEC_BLOCK; j++)
                rest[0][j] = j < m ? x[j] : 1.0f, rest[1][j] = j < m ? by[j] : 1.0f;
            x = rest[0], by = rest[1];
        }
        for (int64_t j = 0; j < m; j += TP__QL) {
            const VD a = TP__F(dload)(x + j), b = TP__F(dload)(by + j);
            const VD size = (VD)((VQ)a & ~sign), step = (VD)((VQ)b & ~sign), quotient = size / step;
            VD times = (quotient + whole) - whole;
            times -= (VD)((VQ)(times > quotient) & (VQ)one);
            const VD left = size - vdmul(times, step);
            const VQ turned = (VQ)(left > TP__F(dset)(0.0)) & (TP__F(qset)(0) - (((VQ)a ^ (VQ)b) >> 63));
            const VD r = (VD)((VQ)left | ((VQ)a & sign));
            ok &= (VQ)(quotient < TP__F(dset)(268435456.0)) & (VQ)(step < TP__F(dset)((double)INFINITY));
            TP__F(dstore)(p + j, TP__F(dsel)(turned, r + b, r));
        }
        memcpy(lane, &ok, sizeof lane);
        for (int j = 0; j < TP__QL; j++) all &= lane[j];
        for (int64_t j = 0; j < m && !all; j++) p[j] = tp__modf(x[j], by[j]);
        memcpy(y + i, p, (size_t)m * sizeof *y);
    }
}
#undef TP__VEC_BLOCK

/* One pass of Adam: m += (g-m) c1, v += (g g - v) c2, w -= lr m / (sqrt(v) + eps), where c1 = 1 - beta1 and c2 = 1 -
 * beta2. */
TP__INLINE void TP__F(adam1)(V *w, V *m, V *v, V g, V lr, V c1, V c2, V eps)
{
    *m = vfma(g - *m, c1, *m);
    *v = vfma(vfma(g, g, -*v), c2, *v);
    *w -= lr * *m / (vsqrt(*v) + eps);
}

static void TP__F(adam)(int64_t n, float *w, float *m, float *v, const float *g, float lr, float c1, float c2,
                        float eps)
{
    const V vlr = vset(lr), vc1 = vset(c1), vc2 = vset(c2), veps = vset(eps);
    int64_t i = 0;
    for (; i + TP__VW <= n; i += TP__VW) {
        V wi = vload(w + i), mi = vload(m + i), vi = vload(v + i);
        TP__F(adam1)(&wi, &mi, &vi, vload(g + i), vlr, vc1, vc2, veps);
        vstore(w + i, wi);
        vstore(m + i, mi);
        vstore(v + i, vi);
    }
    if (i < n) {
        V wi = vget(w + i, n - i, 1.0f), mi = vget(m + i, n - i, 1.0f), vi = vget(v + i, n - i, 1.0f);
        TP__F(adam1)(&wi, &mi, &vi, vget(g + i, n - i, 1.0f), vlr, vc1, vc2, veps);
        vput(w + i, n - i, wi);
        vput(m + i, n - i, mi);
        vput(v + i, n - i, vi);
    }
}

#if TP__WIDE
/* -- convolutions whose groups have few channels (>>conv depthwise) -------------------------------------- */

#define TP__FOUR(X) X(0) X(1) X(2) X(3)
#define TP__NINE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
/* A block of channels: as many whole groups as fit into a vector. Where a group has one channel in x and in y
 * (`single`, a constant), vectors of x are read as they are; else block_x() brings to each lane the channel of x that
 * it needs. */
typedef struct TP__F(block) {
    /* in y: the block's first channel, its number of channels, and the number of channels from its first one to the end */
    int64_t c, n, left;
    int64_t x_c, x_n, x_left; /* the same three numbers for the channels of x */
    /* for each channel of y in the block: the first channel of its group in x, relative to x_c */
    VI lane;
} TP__F(block);
#define BLOCK       TP__F(block)

TP__INLINE BLOCK TP__F(first_block)(const tp__taps *t, bool single)
{
    const int64_t groups = single ? TP__VW : TP__VW / t->out;
    BLOCK b;
    b.c = t->c, b.x_c = single ? t->c : t->c / t->out * t->in;
    b.left = t->channels - b.c;
    b.x_left = single ? b.left : b.left / t->out * t->in;
    b.n = single ? groups : groups * t->out;
    b.x_n = single ? groups : groups * t->in;
    if (b.n > b.left) b.n = b.left;
    if (b.x_n > b.x_left) b.x_n = b.x_left;
    b.lane = viset(0);
    if (!single)
        for (int l = 0; l < b.n; l++) b.lane[l] = l / (int)t->out * (int)t->in;
    return b;
}
TP__INLINE void TP__F(next_block)(BLOCK *b, bool single)
{
    b->c += b->n, b->left -= b->n;
    b->x_c += b->x_n, b->x_left -= b->x_n;
    if (b->left >= b->n) return;
    b->x_n = b->x_left;
    b->n = b->left;
    for (int l = 0; l < TP__VW && !single; l++)
        if (l >= b->n) b->lane[l] = 0;
}
/* Whether whole vectors can be read: those that are not needed completely do not reach beyond the channels of the pixel.
 * If not, later blocks are not whole either. */
TP__INLINE bool TP__F(block_is_whole)(const BLOCK *b)
{
    return b->left >= TP__VW && b->x_left >= (b->x_n + TP__VW - 1) / TP__VW * TP__VW;
}
TP__INLINE V TP__F(block_part)(const float *p, int64_t left, bool whole)
{
    return whole ? vload(p) : TP__F(part)(p, left);
}
/* Stores the block's channels of v at p. If each group has a single channel and the block is whole, these are all lanes of v: with
 * that known, the store needs no test. */
TP__INLINE void TP__F(block_put)(const BLOCK *b, float *p, V v, bool single, bool whole)
{
    TP__F(put_part)(p, single && whole ? TP__VW : b->n, v);
}
/* Reads channel j of each group at x, the block's channels of a pixel. */
TP__INLINE V TP__F(block_x)(const BLOCK *b, const float *x, int j, bool single, bool whole)
{
    if (single) return TP__F(block_part)(x, b->x_left, whole);
#if TP__VW == 4
    const V v = {x[b->lane[0] + j], x[b->lane[1] + j], x[b->lane[2] + j], x[b->lane[3] + j]};
#else
    const VI lane = b->lane + viset(j);
    V v = vperm(TP__F(block_part)(x, b->x_left, whole), lane);
    for (int k = TP__VW; k < b->x_n; k += TP__VW)
        v = vsel((VI)(lane >= viset(k)), vperm(TP__F(block_part)(x + k, b->x_left - k, whole), lane), v);
#endif
    return v;
}

/* Computes a block of channels for `pixels` pixels, 4 or 1. */
TP__INLINE void TP__F(taps_block)(const tp__taps *t, int64_t pixel, const BLOCK *b, int pixels, bool single, bool whole)
{
#define X(i) V s##i = vset(0.0f);
    TP__FOUR(X)
#undef X
    for (int k = 0; k < t->n_tap; k++) {
        const float *x = t->x + (t->tap[k].x + pixel * t->x_step + b->x_c), *w = t->w + t->tap[k].w + b->c;
        for (int j = 0; j < (single ? 1 : (int)t->in); j++, w += t->channels) {
            const V v = TP__F(block_part)(w, b->left, whole);
#define X(i) \
    if (pixels > i) s##i = vfma(TP__F(block_x)(b, x + i * t->x_step, j, single, whole), v, s##i);
            TP__FOUR(X)
#undef X
        }
    }
    float *y = t->y + pixel * t->y_step + b->c;
    const V bias = t->bias ? TP__F(block_part)(t->bias + b->c, b->left, whole) : vset(0.0f);
#define X(i)                                                         \
    if (pixels > i) {                                                \
        if (t->bias) s##i += bias;                                   \
        s##i = TP__F(vrelu)(s##i, t->ceiling);                       \
        TP__F(block_put)(b, y + i * t->y_step, s##i, single, whole); \
    }
    TP__FOUR(X)
#undef X
}
TP__INLINE void TP__F(taps_run)(const tp__taps *t, bool single)
{
    const BLOCK first = TP__F(first_block)(t, single);
    BLOCK b = first;
    int64_t i = 0;
    for (; i + 4 <= t->pixels; i += 4)
        for (b = first; TP__F(block_is_whole)(&b); TP__F(next_block)(&b, single))
            TP__F(taps_block)(t, i, &b, 4, single, true);
    if (i < t->pixels && i > 0) { /* the last four pixels; some are computed once more, to the same values */
        for (b = first; TP__F(block_is_whole)(&b); TP__F(next_block)(&b, single))
            TP__F(taps_block)(t, t->pixels - 4, &b, 4, single, true);
        i = t->pixels;
    }
    for (; i < t->pixels; i++)
        for (b = first; TP__F(block_is_whole)(&b); TP__F(next_block)(&b, single))
            TP__F(taps_block)(t, i, &b, 1, single, true);
#if TP__VW < 16
    for (; b.left > 0; TP__F(next_block)(&b, single))
        for (i = 0; i < t->pixels; i++) TP__F(taps_block)(t, i, &b, 1, single, false);
#else
    if (b.left == 0) return;
    tp__taps rest = *t;
    rest.c = b.c;
    tp__taps_avx2(&rest);
#endif
}
static void TP__F(taps)(const tp__taps *t)
{
    if (t->in == 1 && t->out == 1) TP__F(taps_run)(t, true);
    else TP__F(taps_run)(t, false);
}

/* Adds the filter gradient of channel j of each group, for a block of channels of y and `taps` taps (9 or 1). Each addition to a sum
 * waits for the one before it; nine sums side by side take about as long as one. */
TP__INLINE void TP__F(taps_grad_block)(const tp__taps *t, const tp__source *tap, int j, const BLOCK *b, int taps,
                                       bool single, bool whole)
{
    const float *x = t->x + b->x_c, *dy = t->dy + b->c;
    float *const dw = t->dw + j * t->channels + b->c;
#define X(i)                                             \
    const tp__source *tap##i = tap + (taps > i ? i : 0); \
    const int64_t x##i = tap##i->x;                      \
    V s##i = TP__F(block_part)(dw + tap##i->w, b->left, whole);
    TP__NINE(X)
#undef X
    for (int64_t p = 0; p < t->pixels; p++, x += t->x_step, dy += t->y_step) {
        const V v = TP__F(block_part)(dy, b->left, whole);
        const bool is_inside = p >= t->first && p < t->last;
#define X(i)                                                                 \
    if (taps > i && (is_inside || (p >= tap##i->first && p < tap##i->last))) \
        s##i = vfma(TP__F(block_x)(b, x + x##i, j, single, whole), v, s##i);
        if (single && whole && is_inside) { /* the same code without a test for each tap */
            TP__NINE(X)
        } else {
            TP__NINE(X)
        }
#undef X
    }
#define X(i) \
    if (taps > i) TP__F(block_put)(b, dw + tap##i->w, s##i, single, whole);
    TP__NINE(X)
#undef X
}
/* Takes nine taps at a time. If fewer are left, the last one stands for the others: their sums are the same. */
TP__INLINE void TP__F(taps_grad_nine)(const tp__taps *t, int j, const BLOCK *b, bool single)
{
    for (int k = 0; k < t->n_tap; k += 9) {
        tp__source tap[9];
        for (int i = 0; i < 9; i++) tap[i] = t->tap[k + i < t->n_tap ? k + i : t->n_tap - 1];
        TP__F(taps_grad_block)(t, tap, j, b, 9, single, true);
    }
}
TP__INLINE void TP__F(taps_grad_run)(const tp__taps *t, bool single)
{
    const int in = single ? 1 : (int)t->in;
    BLOCK b = TP__F(first_block)(t, single);
    for (; TP__F(block_is_whole)(&b); TP__F(next_block)(&b, single))
        for (int j = 0; j < in; j++) TP__F(taps_grad_nine)(t, j, &b, single);
#if TP__VW < 16
    for (; b.left > 0; TP__F(next_block)(&b, single))
        for (int j = 0; j < in; j++)
            for (int k = 0; k < t->n_tap; k++) TP__F(taps_grad_block)(t, t->tap + k, j, &b, 1, single, false);
#else
    if (b.left == 0) return;
    tp__taps rest = *t;
    rest.c = b.c;
    tp__taps_grad_avx2(&rest);
#endif
}
static void TP__F(taps_grad)(const tp__taps *t)
{
    if (t->in == 1 && t->out == 1) TP__F(taps_grad_run)(t, true);
    else TP__F(taps_grad_run)(t, false);
}

/* -- Winograd's transforms (>>conv winograd): each along columns, then along rows, a vector of channels at a time.
 *    The last vector of channels ends with the last channel, so it may repeat channels of the one before. -- */
/* The matrices as vectors: each function transforms vectors that are `gap` floats apart, and writes them `to` floats apart.
 * Six points: 0, 5/8, -5/8, 3/2, -3/2 and infinity, for tiles of 4 positions and blocks of 3 taps. With a = 5/8, b = 3/2: */
#define TP__A2    (25.0f / 64) /* a^2, b^2, their sum and product */
#define TP__B2    (9.0f / 4)
#define TP__SUM   (169.0f / 64)
#define TP__TIMES (225.0f / 256)
#define TP__CA    (-4096.0f / 5950) /* 1 / (2 a^2 (a^2 - b^2)) and 1 / (2 b^2 (b^2 - a^2)) */
#define TP__CB    (128.0f / 1071)

/* B'd */
TP__INLINE void TP__F(wino6_b)(const float *d, int64_t gap, float *r, int64_t to)
{
    const V d0 = vload(d), d1 = vload(d + gap), d2 = vload(d + 2 * gap), d3 = vload(d + 3 * gap);
    const V d4 = vload(d + 4 * gap), d5 = vload(d + 5 * gap), sum = vset(-TP__SUM), times = vset(TP__TIMES);
    const V even_a = vfma(vset(-TP__B2), d2, d4), odd_a = vmul(vset(5.0f / 8), vfma(vset(-TP__B2), d1, d3));
    const V even_b = vfma(vset(-TP__A2), d2, d4), odd_b = vmul(vset(3.0f / 2), vfma(vset(-TP__A2), d1, d3));
    vstore(r, vfma(times, d0, vfma(sum, d2, d4)));
    vstore(r + to, even_a + odd_a);
    vstore(r + 2 * to, even_a - odd_a);
    vstore(r + 3 * to, even_b + odd_b);
    vstore(r + 4 * to, even_b - odd_b);
    vstore(r + 5 * to, vfma(times, d1, vfma(sum, d3, d5)));
}
/* A'm */
TP__INLINE void TP__F(wino6_a)(const float *m, int64_t gap, float *y, int64_t to)
{
    const V m1 = vload(m + gap), m2 = vload(m + 2 * gap), m3 = vload(m + 3 * gap), m4 = vload(m + 4 * gap);
    const V p = m1 + m2, u = m1 - m2, q = m3 + m4, w = m3 - m4;
    vstore(y, vload(m) + p + q);
    vstore(y + to, vfma(vset(3.0f / 2), w, vmul(vset(5.0f / 8), u)));
    vstore(y + 2 * to, vfma(vset(TP__B2), q, vmul(vset(TP__A2), p)));
    vstore(y + 3 * to, vfma(vset(27.0f / 8), w, vfma(vset(125.0f / 512), u, vload(m + 5 * gap))));
}
/* A y */
TP__INLINE void TP__F(wino6_a_back)(const float *y, int64_t gap, float *m, int64_t to)
{
    const V y0 = vload(y), y1 = vload(y + gap), y2 = vload(y + 2 * gap), y3 = vload(y + 3 * gap);
    const V even_a = vfma(vset(TP__A2), y2, y0), odd_a = vmul(vset(5.0f / 8), vfma(vset(TP__A2), y3, y1));
    const V even_b = vfma(vset(TP__B2), y2, y0), odd_b = vmul(vset(3.0f / 2), vfma(vset(TP__B2), y3, y1));
    vstore(m, y0);
    vstore(m + to, even_a + odd_a);
    vstore(m + 2 * to, even_a - odd_a);
    vstore(m + 3 * to, even_b + odd_b);
    vstore(m + 4 * to, even_b - odd_b);
    vstore(m + 5 * to, y3);
}
/* G g */
TP__INLINE void TP__F(wino6_g)(const float *g, int64_t gap, float *u, int64_t to)
{
    const V g0 = vload(g), g1 = vload(g + gap), g2 = vload(g + 2 * gap);
    const V even_a = vmul(vset(TP__CA), vfma(vset(TP__A2), g2, g0)), odd_a = vmul(vset(-512.0f / 1190), g1);
    const V even_b = vmul(vset(TP__CB), vfma(vset(TP__B2), g2, g0)), odd_b = vmul(vset(64.0f / 357), g1);
    vstore(u, vmul(vset(1 / TP__TIMES), g0));
    vstore(u + to, even_a + odd_a);
    vstore(u + 2 * to, even_a - odd_a);
    vstore(u + 3 * to, even_b + odd_b);
    vstore(u + 4 * to, even_b - odd_b);
    vstore(u + 5 * to, g2);
}
/* G's */
TP__INLINE void TP__F(wino6_g_back)(const float *s, int64_t gap, float *g, int64_t to)
{
    const V s1 = vload(s + gap), s2 = vload(s + 2 * gap), s3 = vload(s + 3 * gap), s4 = vload(s + 4 * gap);
    const V p = vmul(vset(TP__CA), s1 + s2), q = vmul(vset(TP__CB), s3 + s4);
    vstore(g, vfma(vset(1 / TP__TIMES), vload(s), p + q));
    vstore(g + to, vfma(vset(64.0f / 357), s3 - s4, vmul(vset(-512.0f / 1190), s1 - s2)));
    vstore(g + 2 * to, vfma(vset(TP__B2), q, vfma(vset(TP__A2), p, vload(s + 5 * gap))));
}
#undef TP__A2
#undef TP__B2
#undef TP__SUM
#undef TP__TIMES
#undef TP__CA
#undef TP__CB

/* Eight points: 0, 1/2, -1/2, 1, -1, 2, -2 and infinity, for tiles of 4 positions and blocks of 5 taps, or of 5 and 4. */

/* B'd: the row of a point p has the coefficients of x (x^2 - 1/4) (x^2 - 1) (x^2 - 4) / (x - p), that of infinity those of the whole
 * product. */
TP__INLINE void TP__F(wino8_b)(const float *d, int64_t gap, float *r, int64_t to)
{
    const V d0 = vload(d), d1 = vload(d + gap), d2 = vload(d + 2 * gap), d3 = vload(d + 3 * gap);
    const V d4 = vload(d + 4 * gap), d5 = vload(d + 5 * gap), d6 = vload(d + 6 * gap), d7 = vload(d + 7 * gap);
    const V half = vset(0.5f), two = vset(2.0f), four = vset(4.0f), quarter = vset(0.25f);
    const V even_half = vfma(four, d2, vfma(vset(-5.0f), d4, d6)), odd_half = vfma(four, d1, vfma(vset(-5.0f), d3, d5));
    const V even_one = vfma(vset(-17.0f / 4), d4, d2 + d6), odd_one = vfma(vset(-17.0f / 4), d3, d1 + d5);
    const V even_two = vfma(quarter, d2, vfma(vset(-5.0f / 4), d4, d6));
    const V odd_two = vfma(quarter, d1, vfma(vset(-5.0f / 4), d3, d5));
    vstore(r, vfma(vset(21.0f / 4), d2 - d4, d6 - d0));
    vstore(r + to, vfma(half, odd_half, even_half));
    vstore(r + 2 * to, vfma(vset(-0.5f), odd_half, even_half));
    vstore(r + 3 * to, even_one + odd_one);
    vstore(r + 4 * to, even_one - odd_one);
    vstore(r + 5 * to, vfma(two, odd_two, even_two));
    vstore(r + 6 * to, vfma(vset(-2.0f), odd_two, even_two));
    vstore(r + 7 * to, vfma(vset(21.0f / 4), d3 - d5, d7 - d1));
}
/* Divides the even and odd parts of values at 1/2, 1 and 2 by the product of each point's distances to the others. */
TP__INLINE void TP__F(wino8_scale)(V even[3], V odd[3])
{
    const V by[3] = {vset(32.0f / 45), vset(-2.0f / 9), vset(1.0f / 90)};
    for (int i = 0; i < 3; i++) even[i] = vmul(by[i], even[i]), odd[i] = vmul(by[i], odd[i]);
}
/* A y, or G y if `filter`: the values of the polynomial with n coefficients y, 4 or 5, at the points; G also scales them. */
TP__INLINE void TP__F(wino8_values)(int n, bool filter, const float *y, int64_t gap, float *m, int64_t to)
{
    const V y0 = vload(y), y1 = vload(y + gap), y2 = vload(y + 2 * gap), y3 = vload(y + 3 * gap);
    const V y4 = n == 5 ? vload(y + 4 * gap) : vset(0.0f);
    V even[3], odd[3];
    even[0] = vfma(vset(1.0f / 16), y4, vfma(vset(0.25f), y2, y0));
    odd[0] = vfma(vset(1.0f / 8), y3, vmul(vset(0.5f), y1));
    even[1] = y0 + y2 + y4, odd[1] = y1 + y3;
    even[2] = vfma(vset(16.0f), y4, vfma(vset(4.0f), y2, y0));
    odd[2] = vfma(vset(8.0f), y3, vmul(vset(2.0f), y1));
    if (filter) TP__F(wino8_scale)(even, odd);
    if (filter) vstore(m, vset(0.0f) - y0);
    else vstore(m, y0);
    for (int i = 0; i < 3; i++) {
        vstore(m + (2 * i + 1) * to, even[i] + odd[i]);
        vstore(m + (2 * i + 2) * to, even[i] - odd[i]);
    }
    vstore(m + 7 * to, n == 5 ? y4 : y3);
}
/* A'm, or G'm if `filter`: n numbers, 4 or 5. */
TP__INLINE void TP__F(wino8_sums)(int n, bool filter, const float *m, int64_t gap, float *y, int64_t to)
{
    V even[3], odd[3], zero = vload(m);
    const V last = vload(m + 7 * gap);
    for (int i = 0; i < 3; i++) {
        const V plus = vload(m + (2 * i + 1) * gap), minus = vload(m + (2 * i + 2) * gap);
        even[i] = plus + minus, odd[i] = plus - minus;
    }
    if (filter) {
        TP__F(wino8_scale)(even, odd);
        zero = vset(0.0f) - zero;
    }
    V y3 = vfma(vset(8.0f), odd[2], vfma(vset(1.0f / 8), odd[0], odd[1]));
    vstore(y, zero + even[0] + even[1] + even[2]);
    vstore(y + to, vfma(vset(2.0f), odd[2], vfma(vset(0.5f), odd[0], odd[1])));
    vstore(y + 2 * to, vfma(vset(4.0f), even[2], vfma(vset(0.25f), even[0], even[1])));
    if (n == 5) vstore(y + 4 * to, vfma(vset(16.0f), even[2], vfma(vset(1.0f / 16), even[0], even[1] + last)));
    else y3 += last;
    vstore(y + 3 * to, y3);
}

/* The form's matrices; `size` is a constant where these are called. */
TP__INLINE void TP__F(wino_b)(int size, const float *d, int64_t gap, float *r, int64_t to)
{
    if (size == 6) TP__F(wino6_b)(d, gap, r, to);
    else TP__F(wino8_b)(d, gap, r, to);
}
TP__INLINE void TP__F(wino_a)(int size, int edge, const float *m, int64_t gap, float *y, int64_t to)
{
    if (size == 6) TP__F(wino6_a)(m, gap, y, to);
    else TP__F(wino8_sums)(edge, false, m, gap, y, to);
}
TP__INLINE void TP__F(wino_a_back)(int size, int edge, const float *y, int64_t gap, float *m, int64_t to)
{
    if (size == 6) TP__F(wino6_a_back)(y, gap, m, to);
    else TP__F(wino8_values)(edge, false, y, gap, m, to);
}
TP__INLINE void TP__F(wino_g)(int size, int taps, const float *g, int64_t gap, float *u, int64_t to)
{
    if (size == 6) TP__F(wino6_g)(g, gap, u, to);
    else TP__F(wino8_values)(taps, true, g, gap, u, to);
}
TP__INLINE void TP__F(wino_g_back)(int size, int taps, const float *s, int64_t gap, float *g, int64_t to)
{
    if (size == 6) TP__F(wino6_g_back)(s, gap, g, to);
    else TP__F(wino8_sums)(taps, true, s, gap, g, to);
}

/* plane: floats from one element of a transformed tile to the next. row, step: floats from one row and one column of the pixels of
 * a tile to the next; with dilation there are others between them. The functions _n have n, the size of a transformed tile, and for
 * six points e, the tile's edge, or r, the taps, as constants. */

/* V = B'dB of a row of tiles, `edge` pixels apart. */
TP__INLINE void TP__F(wino_in_n)(int n, int64_t edge, int64_t C, int64_t tiles, const float *x, int64_t row,
                                 int64_t step, float *v, int64_t plane)
{
    float half[64 * TP__VW];
    for (int64_t i = 0; i < C; i += TP__VW) {
        const int64_t c = i + TP__VW <= C ? i : C - TP__VW;
        for (int64_t t = 0; t < tiles; t++) {
            const float *at = x + c + t * edge * step;
            float *to = v + c + t * C;
            for (int j = 0; j < n; j++) TP__F(wino_b)(n, at + j * step, row, half + j * TP__VW, n * TP__VW);
            for (int j = 0; j < n; j++) TP__F(wino_b)(n, half + j * n * TP__VW, TP__VW, to + j * n * plane, plane);
        }
    }
}
static void TP__F(wino_in)(const tp__wino_form *f, int64_t C, int64_t tiles, const float *x, int64_t row, int64_t step,
                           float *v, int64_t plane)
{
    if (f->size == 6) TP__F(wino_in_n)(6, 4, C, tiles, x, row, step, v, plane);
    else TP__F(wino_in_n)(8, f->edge, C, tiles, x, row, step, v, plane);
}

/* y = A'mA of a row of tiles, for the first rows (at most `edge` and `rows`) of an image of `width` pixels per row, then bias and
 * activation, then adds `more`, which has the layout of y. */
TP__INLINE void TP__F(wino_out_n)(int n, int e, int64_t O, int64_t width, int64_t rows, const float *m, int64_t plane,
                                  float *y, int64_t row, int64_t step, const float *more, const float *bias,
                                  float ceiling)
{
    const V zero = vset(0.0f);
    float half[5 * 8 * TP__VW], line[5 * TP__VW];
    for (int64_t i = 0; i < O; i += TP__VW) {
        const int64_t c = i + TP__VW <= O ? i : O - TP__VW;
        const V add = bias ? vload(bias + c) : zero;
        const float *q = m + c;
        for (int64_t col = 0; col < width; col += e, q += O) {
            for (int j = 0; j < n; j++) TP__F(wino_a)(n, e, q + j * plane, n * plane, half + j * TP__VW, n * TP__VW);
            for (int64_t j = 0; j < e && j < rows; j++) {
                const int64_t at = j * row + col * step + c;
                TP__F(wino_a)(n, e, half + j * n * TP__VW, TP__VW, line, TP__VW);
                for (int64_t k = 0; k < e && col + k < width; k++) {
                    V done = TP__F(vrelu)(vload(line + k * TP__VW) + add, ceiling);
                    if (more) done += vload(more + at + k * step);
                    vstore(y + at + k * step, done);
                }
            }
        }
    }
}
static void TP__F(wino_out)(const tp__wino_form *f, int64_t O, int64_t width, int64_t rows, const float *m,
                            int64_t plane, float *y, int64_t row, int64_t step, const float *more, const float *bias,
                            float ceiling)
{
    if (f->size == 6) TP__F(wino_out_n)(6, 4, O, width, rows, m, plane, y, row, step, more, bias, ceiling);
    else TP__F(wino_out_n)(8, f->edge, O, width, rows, m, plane, y, row, step, more, bias, ceiling);
}

/* m = A dy A' of a row of tiles; dy is taken as zero beyond the edge. */
TP__INLINE void TP__F(wino_dy_n)(int n, int e, int64_t O, int64_t width, int64_t rows, const float *dy, int64_t row,
                                 int64_t step, float *m, int64_t plane)
{
    float half[5 * 8 * TP__VW], filled[25 * TP__VW];
    for (int64_t i = 0; i < O; i += TP__VW) {
        const int64_t c = i + TP__VW <= O ? i : O - TP__VW;
        float *q = m + c;
        for (int64_t col = 0; col < width; col += e, q += O) {
            const float *p = dy + col * step + c;
            int64_t down = row, right = step;
            if (rows < e || col + e > width) {
                for (int j = 0; j < e * e; j++)
                    vstore(filled + j * TP__VW,
                           j / e < rows && col + j % e < width ? vload(p + j / e * row + j % e * step) : vset(0.0f));
                p = filled, down = e * TP__VW, right = TP__VW;
            }
            for (int j = 0; j < e; j++) TP__F(wino_a_back)(n, e, p + j * right, down, half + j * TP__VW, e * TP__VW);
            for (int j = 0; j < n; j++)
                TP__F(wino_a_back)(n, e, half + j * e * TP__VW, TP__VW, q + j * n * plane, plane);
        }
    }
}
static void TP__F(wino_dy)(const tp__wino_form *f, int64_t O, int64_t width, int64_t rows, const float *dy, int64_t row,
                           int64_t step, float *m, int64_t plane)
{
    if (f->size == 6) TP__F(wino_dy_n)(6, 4, O, width, rows, dy, row, step, m, plane);
    else TP__F(wino_dy_n)(8, f->edge, O, width, rows, dy, row, step, m, plane);
}

/* U = GgG' of `count` filters; g[k]: tap k of each, NULL if it is zero. */
TP__INLINE void TP__F(wino_filter_n)(int n, int r, int64_t count, const float *const *g, float *u, int64_t plane)
{
    float tap[TP__WINO_TAPS * TP__VW], half[8 * 5 * TP__VW], line[8 * TP__VW];
    for (int64_t i = 0; i < count; i += TP__VW) {
        const TP__F(vmask) here = TP__F(vfirst)(count - i < TP__VW ? count - i : TP__VW);
        for (int j = 0; j < r * r; j++) vstore(tap + j * TP__VW, g[j] ? TP__F(vloadm)(g[j] + i, here) : vset(0.0f));
        for (int j = 0; j < r; j++) TP__F(wino_g)(n, r, tap + j * TP__VW, r * TP__VW, half + j * TP__VW, r * TP__VW);
        for (int j = 0; j < n; j++) {
            TP__F(wino_g)(n, r, half + j * r * TP__VW, TP__VW, line, TP__VW);
            for (int k = 0; k < n; k++) TP__F(vstorem)(u + (n * j + k) * plane + i, here, vload(line + k * TP__VW));
        }
    }
}
static void TP__F(wino_filter)(const tp__wino_form *f, int64_t n, const float *const *g, float *u, int64_t plane)
{
    if (f->size == 6) TP__F(wino_filter_n)(6, 3, n, g, u, plane);
    else TP__F(wino_filter_n)(8, f->taps, n, g, u, plane);
}

/* dw = G'sG of `count` sums; dw[k]: tap k of each, NULL if it is not wanted. */
TP__INLINE void TP__F(wino_dw_n)(int n, int r, int64_t count, const float *s, int64_t plane, float *const *dw)
{
    float half[5 * 8 * TP__VW], line[5 * TP__VW];
    for (int64_t k = 0; k < count; k += TP__VW) {
        const int64_t i = k + TP__VW <= count ? k : count - TP__VW;
        for (int j = 0; j < n; j++)
            TP__F(wino_g_back)(n, r, s + i + j * plane, n * plane, half + j * TP__VW, n * TP__VW);
        for (int j = 0; j < r; j++) {
            TP__F(wino_g_back)(n, r, half + j * n * TP__VW, TP__VW, line, TP__VW);
            for (int q = 0; q < r; q++)
                if (dw[r * j + q]) vstore(dw[r * j + q] + i, vload(line + q * TP__VW));
        }
    }
}
static void TP__F(wino_dw)(const tp__wino_form *f, int64_t n, const float *s, int64_t plane, float *const *dw)
{
    if (f->size == 6) TP__F(wino_dw_n)(6, 3, n, s, plane, dw);
    else TP__F(wino_dw_n)(8, f->taps, n, s, plane, dw);
}
#endif

/* -- pooling --------------------------------------------------------------------------------------------- */

/* Max pooling without `which`, for the channels that fill groups of four vectors; returns how many these are. It returns 0 if a value is
 * NaN: NaN counts as the largest, and vmax ignores it. */
TP__INLINE int64_t TP__F(pool_numbers)(int64_t C, int n_tap, const float *x, const int64_t *tap, float *y)
{
    const V least = vset(-INFINITY);
    VI is_nan = viset(0);
    int64_t c = 0;
    for (; c + 4 * TP__VW <= C; c += 4 * TP__VW) {
        V p = least, q = least, r = least, s = least;
        for (int t = 0; t < n_tap; t++) {
            const float *at = x + tap[t] + c;
            const V a = vload(at), b = vload(at + TP__VW), d = vload(at + 2 * TP__VW), e = vload(at + 3 * TP__VW);
            is_nan |= (VI)(a != a) | (VI)(b != b) | (VI)(d != d) | (VI)(e != e);
            p = vmax(a, p), q = vmax(b, q), r = vmax(d, r), s = vmax(e, s);
        }
        vstore(y + c, p), vstore(y + c + TP__VW, q), vstore(y + c + 2 * TP__VW, r), vstore(y + c + 3 * TP__VW, s);
    }
    int32_t any = 0;
    for (int i = 0; i < TP__VW && c > 0; i++) any |= is_nan[i];
    return any ? 0 : c;
}

/* Takes e, with its place, where it is larger than the best so far; a NaN counts as largest. */
TP__INLINE void TP__F(pool_take)(V e, VI place, V *best, VI *chosen)
{
    const VI better = ~(VI)(e <= *best) & (VI)(*best == *best);
    *best = vsel(better, e, *best);
    *chosen = (place & better) | (*chosen & ~better);
}
TP__INLINE void TP__F(pool_put)(int64_t n, V best, VI chosen, float *y, uint8_t *which)
{
    TP__F(put_part)(y, n, best);
    if (!which) return;
    const VB bytes = __builtin_convertvector(chosen, VB);
    if (n >= TP__VW) *(VB *)(void *)which = bytes;
    else memcpy(which, &bytes, (size_t)n);
}
/* Max pooling: y[c] = the largest of x[tap[t] + c], the first one if several are equal; a NaN counts as largest.
 * which[c] = index[t] of that element; `which` may be NULL. Each vector is a chain of operations that wait for one another, so two
 * vectors take hardly longer than one. */
static void TP__F(pool)(int64_t C, int n_tap, const float *x, const int64_t *tap, const uint8_t *index, float *y,
                        uint8_t *which)
{
    int64_t c = which ? 0 : TP__F(pool_numbers)(C, n_tap, x, tap, y);
    for (; c + 2 * TP__VW <= C; c += 2 * TP__VW) {
        V a = vload(x + tap[0] + c), b = vload(x + tap[0] + c + TP__VW);
        VI at_a = viset(index[0]), at_b = at_a;
        for (int t = 1; t < n_tap; t++) {
            TP__F(pool_take)(vload(x + tap[t] + c), viset(index[t]), &a, &at_a);
            TP__F(pool_take)(vload(x + tap[t] + c + TP__VW), viset(index[t]), &b, &at_b);
        }
        TP__F(pool_put)(TP__VW, a, at_a, y + c, which ? which + c : NULL);
        TP__F(pool_put)(TP__VW, b, at_b, y + c + TP__VW, which ? which + c + TP__VW : NULL);
    }
    for (; c < C; c += TP__VW) {
        V a = TP__F(part)(x + tap[0] + c, C - c);
        VI at_a = viset(index[0]);
        for (int t = 1; t < n_tap; t++)
            TP__F(pool_take)(TP__F(part)(x + tap[t] + c, C - c), viset(index[t]), &a, &at_a);
        TP__F(pool_put)(C - c, a, at_a, y + c, which ? which + c : NULL);
    }
}

/* Gradient of max pooling for windows that do not overlap: dx[tap[t] + c] = which[c] is t ? dy[c] : 0 */
static void TP__F(unpool)(int64_t C, int n_tap, const float *dy, const uint8_t *which, const int64_t *tap, float *dx)
{
    for (int64_t c = 0; c < C; c += TP__VW) {
        const int64_t n = C - c < TP__VW ? C - c : TP__VW;
        /* adding 0 turns -0 into 0, as the sum 0 + dy of the naive loop does */
        const V e = TP__F(part)(dy + c, n) + vset(0.0f);
        VB bytes;
        if (n == TP__VW) {
            bytes = *(const VB *)(const void *)(which + c);
        } else {
            memset(&bytes, 0, sizeof bytes);
            memcpy(&bytes, which + c, (size_t)n);
        }
        const VI chosen = __builtin_convertvector(bytes, VI);
        for (int t = 0; t < n_tap; t++) TP__F(put_part)(dx + tap[t] + c, n, (V)((VI)e & (VI)(chosen == viset(t))));
    }
}

/* Parts of rows, as windows read them: n runs of `run` floats, x_step apart in x, y_step in y. y += x */
static void TP__F(pool_add)(int64_t n, int64_t run, const float *x, int64_t x_step, float *y, int64_t y_step)
{
    if (run == x_step && run == y_step) run *= n, n = 1;
    for (int64_t i = 0; i < n && run == 1; i++) y[i * y_step] += x[i * x_step];
    for (int64_t i = 0; i < n && run > 1; i++, x += x_step, y += y_step) {
        int64_t c = 0;
        for (; c + TP__VW <= run; c += TP__VW) vstore(y + c, vload(y + c) + vload(x + c));
        for (; c < run; c++) y[c] += x[c];
    }
}
/* The same for maxima, with adjacent runs of y: y = max(y, x), and which[i] = place[i] + more, the place of that element; without
 * `place` it is `more`. Of equal ones the one with the least place is chosen, of NaN, which count as largest, too. */
static void TP__F(pool_max)(int64_t n, int64_t run, const float *x, int64_t x_step, const int32_t *place, int32_t more,
                            float *y, int32_t *which)
{
    if (run == x_step) run *= n, n = 1;
    for (int64_t i = 0; i < n; i++, x += x_step, y += run, which += run) {
        int64_t c = 0;
        for (; c + TP__VW <= run; c += TP__VW) {
            const V e = vload(x + c), most = vload(y + c);
            const VI at = viset(more) + (place ? (VI)vload((const float *)(const void *)(place + c)) : viset(0)),
                     is = (VI)vload((const float *)(const void *)(which + c)), e_nan = (VI)(e != e),
                     most_nan = (VI)(most != most);
            const VI take =
                (VI)(e > most) | (e_nan & ~most_nan) | (((VI)(e == most) | (e_nan & most_nan)) & (VI)(at < is));
            vstore(y + c, vsel(take, e, most));
            vstore((float *)(void *)(which + c), vsel(take, (V)at, (V)is));
        }
        for (; c < run; c++) {
            const float e = x[c], most = y[c];
            const int32_t at = more + (place ? place[c] : 0);
            const bool is_same = e == most || (e != e && most != most);
            if (e > most || (e != e && most == most) || (is_same && at < which[c])) y[c] = e, which[c] = at;
        }
        if (place) place += x_step;
    }
}

/* -- resizing: n pixels of C channels of a row, from the rows above and below it ------------------------------ */
/* Where both weights are 0 the neighbours are not read: an infinite one does not make the value NaN. */
static void TP__F(resize_row)(int64_t n, int64_t C, const tp__blend *column, const float *above, const float *below,
                              float p, float *y)
{
    for (int64_t j = 0; j < n; j++, y += C) {
        const int64_t low = column[j].low * C, high = column[j].high * C;
        const float q = (float)column[j].part;
        for (int64_t c = 0; c < C; c += TP__VW) {
            V v = TP__F(part)(above + low + c, C - c);
            if (q > 0 || p > 0) v += vmul(TP__F(part)(above + high + c, C - c) - v, vset(q));
            if (p > 0) {
                const V a = TP__F(part)(below + low + c, C - c), b = TP__F(part)(below + high + c, C - c);
                v += vmul(a + vmul(b - a, vset(q)) - v, vset(p));
            }
            TP__F(put_part)(y + c, C - c, v);
        }
    }
}
/* The gradient: adds dy to the pixels that it was read from. */
static void TP__F(resize_back)(int64_t n, int64_t C, const tp__blend *column, const float *dy, double p, float *above,
                               float *below)
{
    for (int64_t j = 0; j < n; j++, dy += C)
        for (int s = 0; s < (p > 0 ? 4 : 2); s++) {
            const double q = column[j].part;
            const float w = (float)((s & 2 ? p : 1 - p) * (s & 1 ? q : 1 - q));
            float *dx = (s & 2 ? below : above) + (s & 1 ? column[j].high : column[j].low) * C;
            for (int64_t c = 0; c < C && w > 0; c += TP__VW)
                TP__F(put_part)(dx + c, C - c, TP__F(part)(dx + c, C - c) + vmul(vset(w), TP__F(part)(dy + c, C - c)));
        }
}

/* A pixel between x[0] and x[1], and x[2] and x[3] in the row after; f: the weights of the second row and of the second column. */
static void TP__F(sample)(int64_t C, const float *const *x, const float *f, float *y)
{
    const V u = vset(1 - f[0]), v = vset(f[0]), p = vset(1 - f[1]), q = vset(f[1]);
    for (int64_t c = 0; c < C; c += TP__VW) {
        const V a = vmul(TP__F(part)(x[0] + c, C - c), p) + vmul(TP__F(part)(x[1] + c, C - c), q);
        const V b = vmul(TP__F(part)(x[2] + c, C - c), p) + vmul(TP__F(part)(x[3] + c, C - c), q);
        TP__F(put_part)(y + c, C - c, vmul(a, u) + vmul(b, v));
    }
}

/* -- batch normalisation: a vector of channels along the rows; callers pass blocks of rows that stay in L1 */

/* Returns dy where the batch norm's output y is positive, else 0. */
TP__INLINE V TP__F(bn_mask)(V dy, V d, V scale, V beta)
{
    return (V)((VI)(vfma(d, scale, beta) > vset(0.0f)) & (VI)dy);
}

/* How many rows are read together, vector after vector. All, if the vectors of a row are few: what belongs to a channel stays in
 * registers then. Else few, so that memory is read along the rows: the same columns of many long rows would not stay in the
 * cache. */
TP__INLINE int64_t TP__F(bn_group)(const tp__bn *b, int64_t rows) { return b->C > 16 * TP__VW ? 4 : rows; }

/* The mean of x over rows, and the sum of (x - mean)^2, for n <= TP__BN_STRIP channels. Each is computed as two sums, over even
 * and odd rows. */
#define TP__BN_STRIP 512
static void TP__F(bn_squares)(const tp__bn *b, int64_t n, int64_t rows, const float *x, float *mean, float *squares)
{
    const int64_t group = TP__F(bn_group)(b, rows), C = b->C;
    float odd[TP__BN_STRIP];
    for (int pass = 0; pass < 2; pass++) {
        float *even = pass ? squares : mean;
        for (int64_t c = 0; c < n; c++) even[c] = odd[c] = 0;
        for (int64_t from = 0; from < rows; from += group)
            for (int64_t c = 0; c < n; c += TP__VW) {
                const int64_t to = from + group < rows ? from + group : rows;
                const float *p = x + c;
                const V m = pass ? TP__F(part)(mean + c, n - c) : vset(0.0f);
                V s0 = TP__F(part)(even + c, n - c), s1 = TP__F(part)(odd + c, n - c);
                int64_t r = from;
                for (; r + 2 <= to && !pass; r += 2) {
                    s0 += TP__F(part)(p + r * C, n - c);
                    s1 += TP__F(part)(p + (r + 1) * C, n - c);
                }
                for (; r + 2 <= to; r += 2) {
                    const V d = TP__F(part)(p + r * C, n - c) - m, e = TP__F(part)(p + (r + 1) * C, n - c) - m;
                    s0 = vfma(d, d, s0);
                    s1 = vfma(e, e, s1);
                }
                if (r < to) {
                    const V d = TP__F(part)(p + r * C, n - c) - m;
                    if (pass) s0 = vfma(d, d, s0);
                    else s0 += d;
                }
                TP__F(put_part)(even + c, n - c, s0);
                TP__F(put_part)(odd + c, n - c, s1);
            }
        for (int64_t c = 0; c < n; c += TP__VW) {
            const V sum = TP__F(part)(even + c, n - c) + TP__F(part)(odd + c, n - c);
            TP__F(put_part)(even + c, n - c, sum / vset(pass ? 1.0f : (float)rows));
        }
    }
}
/* The sums of dy and dy (x - mean) over rows, for n channels from channel `first` on; in the same way. */
static void TP__F(bn_products)(const tp__bn *b, int64_t first, int64_t n, int64_t rows, const float *dy, const float *x,
                               float *s1, float *s2)
{
    const int64_t group = TP__F(bn_group)(b, rows), C = b->C;
    float odd1[TP__BN_STRIP], odd2[TP__BN_STRIP];
    for (int64_t c = 0; c < n; c++) s1[c] = s2[c] = odd1[c] = odd2[c] = 0;
    for (int64_t from = 0; from < rows; from += group)
        for (int64_t c = 0; c < n; c += TP__VW) {
            const int64_t to = from + group < rows ? from + group : rows, m = n - c;
            const float *p = x + c, *q = dy + c;
            const V mean = TP__F(part)(b->mean + first + c, m), scale = TP__F(part)(b->scale + first + c, m);
            const V beta = b->relu ? TP__F(part)(b->beta + first + c, m) : vset(0.0f);
            V a0 = TP__F(part)(s1 + c, m), a1 = TP__F(part)(odd1 + c, m);
            V b0 = TP__F(part)(s2 + c, m), b1 = TP__F(part)(odd2 + c, m);
            int64_t r = from;
            for (; r + 2 <= to; r += 2) {
                V g0 = TP__F(part)(q + r * C, m), g1 = TP__F(part)(q + (r + 1) * C, m);
                const V d0 = TP__F(part)(p + r * C, m) - mean, d1 = TP__F(part)(p + (r + 1) * C, m) - mean;
                if (b->relu) g0 = TP__F(bn_mask)(g0, d0, scale, beta), g1 = TP__F(bn_mask)(g1, d1, scale, beta);
                a0 += g0;
                a1 += g1;
                b0 = vfma(g0, d0, b0);
                b1 = vfma(g1, d1, b1);
            }
            if (r < to) {
                V g0 = TP__F(part)(q + r * C, m);
                const V d0 = TP__F(part)(p + r * C, m) - mean;
                if (b->relu) g0 = TP__F(bn_mask)(g0, d0, scale, beta);
                a0 += g0;
                b0 = vfma(g0, d0, b0);
            }
            TP__F(put_part)(s1 + c, m, a0), TP__F(put_part)(odd1 + c, m, a1);
            TP__F(put_part)(s2 + c, m, b0), TP__F(put_part)(odd2 + c, m, b1);
        }
    for (int64_t c = 0; c < n; c++) s1[c] += odd1[c], s2[c] += odd2[c];
}
/* The sums of batch norm over rows, for each channel. Without dy: s1 = mean of x, s2 = sum of (x - s1)^2. With dy: s1 =
 * sum of dy, s2 = sum of dy (x - mean). */
static void TP__F(bn_sums)(const tp__bn *b, int64_t rows, const float *dy, const float *x, float *s1, float *s2)
{
    for (int64_t c = 0; c < b->C; c += TP__BN_STRIP) {
        const int64_t n = b->C - c < TP__BN_STRIP ? b->C - c : TP__BN_STRIP;
        if (dy) TP__F(bn_products)(b, c, n, rows, dy + c, x + c, s1 + c, s2 + c);
        else TP__F(bn_squares)(b, n, rows, x + c, s1 + c, s2 + c);
    }
}

static void TP__F(bn_apply)(const tp__bn *b, int64_t rows, const float *x, float *y)
{
    const int64_t step = b->row_step ? b->row_step : b->C, group = TP__F(bn_group)(b, rows);
    for (int64_t from = 0; from < rows; from += group)
        for (int64_t c = 0; c < b->C; c += TP__VW) {
            const int64_t n = b->C - c, to = from + group < rows ? from + group : rows;
            const V mean = TP__F(part)(b->mean + c, n), scale = TP__F(part)(b->scale + c, n);
            const V beta = TP__F(part)(b->beta + c, n);
            for (int64_t r = from; r < to; r++) {
                V v = vfma(TP__F(part)(x + r * step + c, n) - mean, scale, beta);
                if (b->relu) v = vmax(vset(0.0f), v);
                TP__F(put_part)(y + r * step + c, n, v);
            }
        }
}

static void TP__F(bn_back)(const tp__bn *b, int64_t rows, const float *dy, const float *x, const float *more, float *dx)
{
    const int64_t C = b->C, group = TP__F(bn_group)(b, rows);
    for (int64_t from = 0; from < rows; from += group)
        for (int64_t c = 0; c < C; c += TP__VW) {
            const int64_t n = C - c, to = from + group < rows ? from + group : rows;
            const V mean = TP__F(part)(b->mean + c, n), scale = TP__F(part)(b->scale + c, n);
            const V c1 = TP__F(part)(b->c1 + c, n), c2 = -TP__F(part)(b->c2 + c, n);
            const V beta = b->relu ? TP__F(part)(b->beta + c, n) : c1;
            for (int64_t r = from; r < to; r++) {
                V g = TP__F(part)(dy + r * C + c, n);
                const V d = TP__F(part)(x + r * C + c, n) - mean;
                if (b->relu) g = TP__F(bn_mask)(g, d, scale, beta);
                g = b->scaled ? vfma(d, c2, vmul(scale, g) - c1) : vmul(scale, vfma(d, c2, g - c1));
                if (more) g += TP__F(part)(more + r * C + c, n);
                TP__F(put_part)(dx + r * C + c, n, g);
            }
        }
}

/* -- layer normalisation of one row ----------------------------------------------------------------------- */

TP__INLINE float TP__F(lanes)(V v)
{
    float t[TP__VW];
    vstore(t, v);
    for (int half = TP__VW / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) t[i] += t[i + half];
    return t[0];
}

/* layer norm of a row: y = gamma (x - mean) inv + beta with inv = 1/sqrt(variance + epsilon) */
static void TP__F(ln_row)(int64_t C, const float *x, const float *gamma, const float *beta, float epsilon, float *y,
                          float *mean, float *inv)
{
    V s0 = vset(0.0f), s1 = s0;
    for (int64_t c = 0; c < C; c += TP__VW) s0 += TP__F(part)(x + c, C - c);
    const float m = TP__F(lanes)(s0) / (float)C;
    for (int64_t c = 0; c + TP__VW <= C; c += TP__VW) {
        const V d = vload(x + c) - vset(m);
        s1 = vfma(d, d, s1);
    }
    float squares = TP__F(lanes)(s1);
    for (int64_t c = C / TP__VW * TP__VW; c < C; c++) squares += TP__VPRODUCT((x[c] - m) * (x[c] - m));
    const float i = 1.0f / sqrtf(squares / (float)C + epsilon);
    for (int64_t c = 0; c < C; c += TP__VW) {
        const V xhat = (TP__F(part)(x + c, C - c) - vset(m)) * vset(i);
        TP__F(put_part)(y + c, C - c, vfma(xhat, TP__F(part)(gamma + c, C - c), TP__F(part)(beta + c, C - c)));
    }
    *mean = m;
    *inv = i;
}

/* Gradient of layer norm for a row: adds its share to dgamma and dbeta; dx = inv (g - mean(g) - xhat mean(g xhat)) with
 * g = dy gamma */
static void TP__F(ln_back)(int64_t C, const float *dy, const float *x, const float *gamma, float mean, float inv,
                           float *dx, float *dgamma, float *dbeta)
{
    const V m = vset(mean), i = vset(inv);
    V s0 = vset(0.0f), s1 = s0;
    for (int64_t c = 0; c < C; c += TP__VW) {
        const int64_t n = C - c;
        const V d = TP__F(part)(dy + c, n), xhat = (TP__F(part)(x + c, n) - m) * i,
                g = vmul(d, TP__F(part)(gamma + c, n));
        s0 += g;
        s1 = vfma(g, xhat, s1); /* the padding of the last vector has g = 0, so that it adds nothing */
        TP__F(put_part)(dgamma + c, n, vfma(d, xhat, TP__F(part)(dgamma + c, n)));
        TP__F(put_part)(dbeta + c, n, TP__F(part)(dbeta + c, n) + d);
    }
    const V a = vset(TP__F(lanes)(s0) / (float)C), b = vset(TP__F(lanes)(s1) / (float)C);
    for (int64_t c = 0; dx && c < C; c += TP__VW) {
        const int64_t n = C - c;
        const V g = vmul(TP__F(part)(dy + c, n), TP__F(part)(gamma + c, n)), xhat = (TP__F(part)(x + c, n) - m) * i;
        TP__F(put_part)(dx + c, n, vmul(i, vfma(-xhat, b, g - a)));
    }
}

/* -- softmax --------------------------------------------------------------------------------------------- */

/* The sum of exp(x - less), in 32 lanes like all sums here; e, if not NULL, gets the terms and may be x. */
static float TP__F(exp_sum)(int64_t n, const float *x, float less, float *e)
{
    V s[TP__LV];
    int64_t i = 0;
    for (int j = 0; j < TP__LV; j++) s[j] = vset(0.0f);
    for (; i + 32 <= n; i += 32)
        for (int j = 0; j < TP__LV; j++) {
            const V v = TP__F(vexp)(vload(x + i + j * TP__VW) - vset(less));
            s[j] += v;
            if (e) vstore(e + i + j * TP__VW, v);
        }
    for (int j = 0; i < n; i += TP__VW, j++) {
        const bool whole = n - i >= TP__VW;
        V v = TP__F(vexp)((whole ? vload(x + i) : vget(x + i, n - i, -INFINITY)) - vset(less));
        if (!whole) { /* the padding of the last vector adds 0, for any value of `less` */
            float t[TP__VW];
            vstore(t, v);
            v = vget(t, n - i, 0.0f);
        }
        s[j] += v;
        if (e) TP__F(put_part)(e + i, n - i, v);
    }
    return TP__F(add_lanes)(s);
}

/* In attention, p[key gap + query] are the scores, then the probabilities of n keys for m queries: vectors run along the queries.
 * Query i sees the keys before i + seen. Sets those that a vector of queries from i on sees only in part, from key `all` on, where
 * they are hidden. */
TP__INLINE void TP__F(attention_hide)(int64_t n, int64_t i, float *p, int64_t gap, int64_t seen, int64_t all,
                                      float value)
{
    for (int64_t key = all; key < n && key < i + TP__VW - 1 + seen; key++)
        for (int64_t query = i; query <= key - seen; query++) p[key * gap + query - i] = value;
}
/* The softmax along the keys, and lse, the log of the sum of exponentials; with `known`, e^(score - lse). p has whole vectors of queries;
 * those behind m are computed too. lse may be NULL. */
static void TP__F(attention_softmax)(int64_t n, int64_t m, float *p, int64_t gap, int64_t seen, float *lse, bool known)
{
    for (int64_t i = 0; i < m; i += TP__VW, p += TP__VW) {
        /* numbers of keys that all queries of this vector see, and that any of them sees */
        const int64_t all = i + seen < n ? i + seen : n, any = i + TP__VW - 1 + seen < n ? i + TP__VW - 1 + seen : n;
        V top = vset(-INFINITY), top1 = top, sum[4], z;
        for (int k = 0; k < 4; k++) sum[k] = vset(0.0f);
        TP__F(attention_hide)(n, i, p, gap, seen, all, -INFINITY);
        if (known) top = TP__F(part)(lse + i, m - i);
        for (int64_t key = 0; key < any && !known; key += 2) {
            top = vmax(top, vload(p + key * gap));
            if (key + 1 < any) top1 = vmax(top1, vload(p + (key + 1) * gap));
        }
        if (!known) top = vmax(top, top1);
        for (int64_t key = 0; key < any; key += 4)
            for (int k = 0; k < 4 && key + k < any; k++) {
                const V e = TP__F(vexp)(vload(p + (key + k) * gap) - top);
                vstore(p + (key + k) * gap, e);
                sum[k] += e;
            }
        z = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        const V inverse = vset(1.0f) / z;
        for (int64_t key = 0; key < any && !known; key++) /* so that their sum is 1 */
            vstore(p + key * gap, TP__F(divide_by)(vload(p + key * gap), z, inverse));
        TP__F(attention_hide)(n, i, p, gap, seen, all, 0.0f);
        for (int64_t key = any; key < n; key++) vstore(p + key * gap, vset(0.0f));
        if (lse && !known) TP__F(put_part)(lse + i, m - i, top + TP__F(vlog)(z));
    }
}
/* Its gradient: dp becomes p (dp - less) scale, where `less` is the sum of p dp for each query. */
static void TP__F(attention_ds)(int64_t n, int64_t m, const float *p, float *dp, int64_t gap, const float *less,
                                float scale)
{
    for (int64_t i = 0; i < m; i += TP__VW) {
        const V l = TP__F(part)(less + i, m - i), factor = vset(scale);
        for (int64_t at = i; at < n * gap; at += gap)
            vstore(dp + at, vmul(vmul(vload(p + at), vload(dp + at) - l), factor));
    }
}

/* y /= by, which is 1 or more */
static void TP__F(divide)(int64_t n, float *y, float by)
{
    const V d = vset(by), inverse = vset(1.0f / by);
    for (int64_t i = 0; i < n; i += TP__VW) {
        const V a = TP__F(part)(y + i, n - i), q = vmul(a, inverse); /* infinite where a / d is */
        TP__F(put_part)(y + i, n - i, vsel((VI)(vabs(q) < vset(INFINITY)), TP__F(divide_by)(a, d, inverse), q));
    }
}

/* One step of the optimizer Lion, each product rounded as in the naive loop. */
static void TP__F(lion)(int64_t n, float *w, float *m, const float *g, float lr, float beta1, float beta2, float decay)
{
    const V zero = vset(0.0f), one = vset(1.0f), minus = vset(-1.0f);
    for (int64_t i = 0; i < n; i += TP__VW) {
        const V vw = TP__F(part)(w + i, n - i), vm = TP__F(part)(m + i, n - i), vg = TP__F(part)(g + i, n - i);
        const V c = vmul(vset(beta1), vm) + vmul(vset(1.0f - beta1), vg);
        const V sign = vsel((VI)(c > zero), one, vsel((VI)(c < zero), minus, c));
        TP__F(put_part)(w + i, n - i, vw - vmul(vset(lr), sign + vmul(vset(decay), vw)));
        TP__F(put_part)(m + i, n - i, vmul(vset(beta2), vm) + vmul(vset(1.0f - beta2), vg));
    }
}

static void TP__F(scale)(int64_t n, const float *x, float by, float *y)
{
    for (int64_t i = 0; i < n; i += TP__VW) TP__F(put_part)(y + i, n - i, vmul(TP__F(part)(x + i, n - i), vset(by)));
}

/* -- one step of an LSTM for one sample; gates are i, j, f, o, of H each ---------------------------------- */

/* One LSTM step of a row: applies the gates' functions in place; more, if not NULL, is added to the gates first. c =
 * sigmoid(f + forget_bias) c0 + sigmoid(i) tanh(j), h = sigmoid(o) tanh(c). c may be c0. */
static void TP__F(lstm_cell)(int64_t H, float *gates, const float *more, const float *c0, float *c, float *h,
                             float forget_bias)
{
    for (int64_t u = 0; u < H; u += TP__VW) {
        const int64_t n = H - u;
        float *g = gates + u;
        V i = TP__F(part)(g, n), j = TP__F(part)(g + H, n), f = TP__F(part)(g + 2 * H, n);
        V o = TP__F(part)(g + 3 * H, n);
        if (more) {
            const float *m = more + u;
            i += TP__F(part)(m, n), j += TP__F(part)(m + H, n);
            f += TP__F(part)(m + 2 * H, n), o += TP__F(part)(m + 3 * H, n);
        }
        i = TP__F(vsigmoid)(i), j = TP__F(vtanh)(j), f = TP__F(vsigmoid)(f + vset(forget_bias)), o = TP__F(vsigmoid)(o);
        const V cell = vfma(i, j, vmul(f, TP__F(part)(c0 + u, n)));
        TP__F(put_part)(g, n, i);
        TP__F(put_part)(g + H, n, j);
        TP__F(put_part)(g + 2 * H, n, f);
        TP__F(put_part)(g + 3 * H, n, o);
        TP__F(put_part)(c + u, n, cell);
        TP__F(put_part)(h + u, n, vmul(o, TP__F(vtanh)(cell)));
    }
}

/* Backward LSTM step of a row. dg = gradient of the gates before their functions. dc: on entry the gradient of c, on
 * return that of c0. The gradient of h is dy + dh. */
static void TP__F(lstm_back)(int64_t H, const float *gates, const float *c0, const float *c, const float *dy,
                             const float *dh, float *dc, float *dg)
{
    const V one = vset(1.0f);
    for (int64_t u = 0; u < H; u += TP__VW) {
        const int64_t n = H - u;
        const float *g = gates + u;
        const V i = TP__F(part)(g, n), j = TP__F(part)(g + H, n), f = TP__F(part)(g + 2 * H, n);
        const V o = TP__F(part)(g + 3 * H, n), tc = TP__F(vtanh)(TP__F(part)(c + u, n));
        const V d = TP__F(part)(dy + u, n) + TP__F(part)(dh + u, n);
        const V dcell = vfma(vmul(d, o), one - vmul(tc, tc), TP__F(part)(dc + u, n));
        TP__F(put_part)(dg + u, n, vmul(vmul(vmul(dcell, j), i), one - i));
        TP__F(put_part)(dg + H + u, n, vmul(vmul(dcell, i), one - vmul(j, j)));
        TP__F(put_part)(dg + 2 * H + u, n, vmul(vmul(vmul(dcell, TP__F(part)(c0 + u, n)), f), one - f));
        TP__F(put_part)(dg + 3 * H + u, n, vmul(vmul(vmul(d, tc), o), one - o));
        TP__F(put_part)(dc + u, n, vmul(dcell, f));
    }
}

/* Copies a row of n values, padded with zeros to whole panels, into panels that are `gap` floats apart. */
static void TP__F(row_to_panels)(int64_t n, const float *row, float *panels, int64_t gap)
{
    for (int64_t i = 0; i < n; i += 2 * TP__VW, panels += gap) {
        vstore(panels, vload(row + i));
        vstore(panels + TP__VW, vload(row + i + TP__VW));
    }
}
/* y[at[i]..] += row i of a panel, for n rows in order */
static void TP__F(add_panel_rows)(int64_t n, const float *panel, const int64_t *at, float *y)
{
    for (int64_t i = 0; i < n; i++, panel += 2 * TP__VW) {
        float *to = y + at[i];
        vstore(to, vload(to) + vload(panel));
        vstore(to + TP__VW, vload(to + TP__VW) + vload(panel + TP__VW));
    }
}

/* -- one step of a GRU for one sample; gates are r, u and the candidate, of H each -------------------------- */

/* GRU: applies the functions of the gates r and u; rh = r h0. */
static void TP__F(gru_gates)(int64_t H, float *gates, const float *h0, float *rh)
{
    for (int64_t u = 0; u < H; u += TP__VW) {
        const int64_t n = H - u;
        const V r = TP__F(vsigmoid)(TP__F(part)(gates + u, n));
        TP__F(put_part)(gates + H + u, n, TP__F(vsigmoid)(TP__F(part)(gates + H + u, n)));
        TP__F(put_part)(gates + u, n, r);
        TP__F(put_part)(rh + u, n, vmul(r, TP__F(part)(h0 + u, n)));
    }
}
/* GRU: applies the candidate's function; h = u h0 + (1 - u) candidate. h may be h0. */
static void TP__F(gru_cell)(int64_t H, float *gates, const float *h0, float *h)
{
    for (int64_t k = 0; k < H; k += TP__VW) {
        const int64_t n = H - k;
        const V u = TP__F(part)(gates + H + k, n), c = TP__F(vtanh)(TP__F(part)(gates + 2 * H + k, n));
        TP__F(put_part)(gates + 2 * H + k, n, c);
        TP__F(put_part)(h + k, n, vfma(u, TP__F(part)(h0 + k, n), vmul(vset(1.0f) - u, c)));
    }
}
/* GRU backward. The gradient of h is dy + dh. Sets dg to the gradients of u and the candidate before their functions,
 * and dh to the direct part of h0's gradient. */
static void TP__F(gru_back)(int64_t H, const float *gates, const float *h0, const float *dy, float *dh, float *dg)
{
    const V one = vset(1.0f);
    for (int64_t k = 0; k < H; k += TP__VW) {
        const int64_t n = H - k;
        const V u = TP__F(part)(gates + H + k, n), c = TP__F(part)(gates + 2 * H + k, n);
        const V d = TP__F(part)(dy + k, n) + TP__F(part)(dh + k, n);
        TP__F(put_part)(dg + H + k, n, vmul(vmul(vmul(d, TP__F(part)(h0 + k, n) - c), u), one - u));
        TP__F(put_part)(dg + 2 * H + k, n, vmul(vmul(d, one - u), one - vmul(c, c)));
        TP__F(put_part)(dh + k, n, vmul(d, u));
    }
}
/* GRU backward: from d_reset_h, the gradient of r h0, computes the gradient of r before its function, and adds r d_reset_h to the
 * gradient of h0. */
static void TP__F(gru_back_reset)(int64_t H, const float *gates, const float *h0, const float *d_reset_h, float *dh,
                                  float *dg)
{
    for (int64_t k = 0; k < H; k += TP__VW) {
        const int64_t n = H - k;
        const V r = TP__F(part)(gates + k, n), d = TP__F(part)(d_reset_h + k, n);
        TP__F(put_part)(dg + k, n, vmul(vmul(vmul(d, TP__F(part)(h0 + k, n)), r), vset(1.0f) - r));
        TP__F(put_part)(dh + k, n, vfma(d, r, TP__F(part)(dh + k, n)));
    }
}

/* -- random numbers: the scalar versions are tp_philox and tp__normal_pair -------------------------------- */

/* Philox in vectors: each lane computes one block. A word is the lower half of a 64-bit lane; the upper half is never
 * read. */
static void TP__F(philox)(int64_t blocks, uint32_t *out, uint64_t key, uint64_t first, uint64_t step)
{
    const VQ m0 = TP__F(qset)(0xd2511f53u), m1 = TP__F(qset)(0xcd9e8d57u);
    VQ lane = TP__F(qset)(0);
    for (int i = 0; i < TP__QL; i++) lane[i] = (uint64_t)i;
    int64_t b = 0;
    for (; b + TP__QL <= blocks; b += TP__QL) {
        VQ c0 = lane + TP__F(qset)(first + (uint64_t)b), c1 = c0 >> 32;
        VQ c2 = TP__F(qset)(step), c3 = TP__F(qset)(step >> 32);
        uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
        for (int round = 0; round < 10; round++) {
            const VQ p = vwide(c0, m0), q = vwide(c2, m1);
            c0 = (q >> 32) ^ c1 ^ TP__F(qset)(k0);
            c1 = q;
            c2 = (p >> 32) ^ c3 ^ TP__F(qset)(k1);
            c3 = p;
            k0 += 0x9e3779b9u;
            k1 += 0xbb67ae85u;
        }
        for (int i = 0; i < TP__QL; i++) {
            uint32_t *o = out + 4 * (b + i);
            o[0] = (uint32_t)c0[i];
            o[1] = (uint32_t)c1[i];
            o[2] = (uint32_t)c2[i];
            o[3] = (uint32_t)c3[i];
        }
    }
    for (; b < blocks; b++) tp_philox(key, first + (uint64_t)b, step, out + 4 * b);
}

#if TP__WIDE
/* Converts an integer up to 2^53 in each lane to a double: its halves are put into the mantissas of 2^52 and 2^84. */
TP__INLINE VD TP__F(dwhole)(VQ a)
{
    const VQ low = (a & TP__F(qset)(0xffffffffu)) | TP__F(qset)(0x4330000000000000u);
    const VQ high = (a >> 32) | TP__F(qset)(0x4530000000000000u);
    return ((VD)low - TP__F(dset)(4503599627370496.0)) + ((VD)high - TP__F(dset)(19342813113834066795298816.0));
}

/* The loops of tp__log_unit and tp__cos_sin_of_turn, written out so that their quotients are constants. */
/* clang-format off */
TP__INLINE VD TP__F(log_series)(VD f2)
{
    VD sum = TP__F(dset)(1.0 / 23);
#define X(k_) sum = vdmul(sum, f2) + TP__F(dset)(1.0 / (2 * (k_) + 1));
    X(10) X(9) X(8) X(7) X(6) X(5) X(4) X(3) X(2) X(1)
#undef X
    return sum;
}
TP__INLINE void TP__F(cos_sin_series)(VD xx, VD *cosine, VD *sine)
{
    const VD one = TP__F(dset)(1.0);
    VD c = one, s = one;
#define X(k_)                                                                      \
    c = vdmul(vdmul(xx, TP__F(dset)(1.0 / (2 * (k_) * (2 * (k_) - 1)))), c) + one; \
    s = vdmul(vdmul(xx, TP__F(dset)(1.0 / (2 * (k_) * (2 * (k_) + 1)))), s) + one;
    X(9) X(8) X(7) X(6) X(5) X(4) X(3) X(2) X(1)
#undef X
    *cosine = c;
    *sine = s;
}
/* clang-format on */

static void TP__F(normal)(int64_t blocks, const uint32_t *words, double *out)
{
    const VD one = TP__F(dset)(1.0), rounder = TP__F(dset)(TP__ROUND_DOUBLE);
    const VD unit = TP__F(dset)(1.0 / 9007199254740992.0);
    int64_t b = 0;
    for (; b + TP__QL <= blocks; b += TP__QL) {
        VQ w0 = TP__F(qset)(0), w1 = w0;
        for (int i = 0; i < TP__QL; i++) {
            const uint32_t *r = words + 4 * (b + i);
            w0[i] = (uint64_t)r[1] << 32 | r[0];
            w1[i] = (uint64_t)r[3] << 32 | r[2];
        }
        /* ln u, as in tp__log_unit */
        const VQ bits = (VQ)(TP__F(dwhole)((w0 >> 11) + TP__F(qset)(1)) * unit);
        VD e = TP__F(dwhole)(bits >> 52) - TP__F(dset)(1023.0);
        VD m = (VD)((bits & TP__F(qset)(0xfffffffffffffu)) | TP__F(qset)(0x3ff0000000000000u));
        const VQ large = (VQ)(m > TP__F(dset)(1.4142135623730951));
        m = TP__F(dsel)(large, m * TP__F(dset)(0.5), m);
        e = TP__F(dsel)(large, e + one, e);
        const VD f = (m - one) / (m + one), f2 = vdmul(f, f);
        const VD sum = TP__F(log_series)(f2), twice = TP__F(dset)(2.0) * f;
        VD ln = vdmul(vdmul(twice, f2), sum) + twice;
        ln = vdmul(e, TP__F(dset)(TP__LN2_LO_DOUBLE)) + ln;
        ln = vdmul(e, TP__F(dset)(TP__LN2_HI_DOUBLE)) + ln;
        const VD radius = vdsqrt(TP__F(dset)(-2.0) * ln);
        /* cosine and sine of 2 pi u, as in tp__cos_sin_of_turn */
        const VD u = TP__F(dwhole)(w1 >> 11) * unit, quarters = TP__F(dset)(4.0) * u + rounder;
        const VD x = TP__F(dset)(6.283185307179586477) * (u - TP__F(dset)(0.25) * (quarters - rounder));
        VD c, s;
        TP__F(cos_sin_series)(-vdmul(x, x), &c, &s);
        s = vdmul(s, x);
        /* rotates by the number of quarter turns modulo 4: (c, s), (-s, c), (-c, -s), (s, -c) */
        const VQ turn = (VQ)quarters, odd = TP__F(qset)(0) - (turn & TP__F(qset)(1));
        VQ cosine = (VQ)TP__F(dsel)(odd, s, c), sine = (VQ)TP__F(dsel)(odd, c, s);
        cosine ^= ((turn ^ (turn >> 1)) & TP__F(qset)(1)) << 63;
        sine ^= ((turn >> 1) & TP__F(qset)(1)) << 63;
        const VD n0 = radius * (VD)cosine, n1 = radius * (VD)sine;
        for (int i = 0; i < TP__QL; i++) {
            out[2 * (b + i)] = n0[i];
            out[2 * (b + i) + 1] = n1[i];
        }
    }
    for (; b < blocks; b++) tp__normal_pair(words + 4 * b, out + 2 * b);
}
#endif

/* dropout: y = u >= rate ? x scale : 0, where u in [0,1) is the upper 24 bits of a random word */
static void TP__F(dropout)(int64_t n, float *y, const float *x, const uint32_t *words, float rate, float scale)
{
    for (int64_t i = 0; i < n; i += TP__VW) {
        const int64_t left = n - i < TP__VW ? n - i : TP__VW;
        const float *word = (const float *)(const void *)(words + i);
        const VI top = ((VI)(left == TP__VW ? vload(word) : vget(word, left, 0.0f)) >> 8) & viset(0xffffff);
        const V u = __builtin_convertvector(top, V) * vset(5.9604644775390625e-8f);
        const V v = left == TP__VW ? vload(x + i) : vget(x + i, left, 0.0f);
        const V kept = (V)((VI)(u >= vset(rate)) & (VI)(v * vset(scale)));
        if (left == TP__VW) vstore(y + i, kept);
        else vput(y + i, left, kept);
    }
}

/* -- the table ------------------------------------------------------------------------------------------- */

static const struct tp__isa TP__CAT(tp__isa_, TP__ISA_SUFFIX) = {TP__ISA_NAME,
                                                                 TP__ISA_LEVEL,
                                                                 TP__VW,
                                                                 TP__MR,
                                                                 {TP__TILES(1), TP__TILES(2)},
#if TP__MR == 14
                                                                 TP__F(tile3),
                                                                 {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                                                  TP__F(even8), NULL, NULL, NULL, NULL, NULL,
                                                                  TP__F(even14), NULL, TP__F(even16)},
#elif !TP__WIDE
                                                                 NULL,
                                                                 {NULL},
#else
                                                                 NULL,
                                                                 {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                                                  TP__F(even8), NULL, NULL, NULL, NULL, NULL, NULL,
                                                                  NULL, NULL},
#endif
                                                                 TP__F(tile_pack),
                                                                 TP__F(transpose),
                                                                 TP__F(panel),
                                                                 TP__F(tiles),
                                                                 TP__F(row),
#if TP__WIDE
                                                                 TP__F(dots),
                                                                 TP__F(descend),
#else
                                                                 NULL,
                                                                 NULL,
#endif
                                                                 TP__F(sum),
                                                                 TP__F(dot),
                                                                 TP__F(max),
                                                                 TP__F(min),
                                                                 TP__F(sums),
                                                                 TP__F(maxima),
                                                                 TP__F(minima)};

#undef TP__WIDE
#undef TP__F
#undef TP__INLINE
#undef TP__TILE
#undef TP__TILES
#undef TP__T
#undef TP__LV
#undef TP__FOUR
#undef TP__NINE
#undef TP__QL
#undef TP__UNARY
#undef TP__BINARY
#undef TP__LONG
#undef BLOCK
#undef V
#undef VI
#undef VU
#undef VD
#undef VQ
#undef VB
#undef vwide
#undef vdsqrt
#undef vset
#undef viset
#undef vload
#undef vstore
#undef vget
#undef vput
#undef vfma
#undef vmul
#undef vdmul
#undef vmax
#undef vmin
#undef vsqrt
#undef vsel
#undef vabs
#undef vpow2
#undef vperm

#elif defined(TP__FAST_OPS)    /* included once, by tp_graph.h, between the naive float loops and the op rows */

/* ==== >>fast_ops: kernels of single ops ================================================================= */
/* A row of the op table names tp__<op>_fast as its fast kernel; without this file TP__IF_FAST leaves NULL in the row. The kernel
 * runs if the device has an instruction set and no operand is float64: for a row that takes integers it must look at the dtype. It
 * calls the op's naive loop for cases that it does not support. The op's page in tp_graph.h (>>op) defines the result; this section
 * has only the implementation. */

/* Naive loops for all types, which are defined on the op's page in tp_graph.h. */
static void tp__reduce_sum_any(const tp_call *k);
static void tp__reduce_max_any(const tp_call *k);
static void tp__reduce_min_any(const tp_call *k);
static void tp__add_n_any(const tp_call *k);
static void tp__all_reduce_any(const tp_call *k);
static void tp__assign_add_naive(const tp_call *k);
static void tp__assign_sub_naive(const tp_call *k);
static void tp__copy_strided(char *dst, const char *src, size_t size, int64_t stride, int64_t n);

/* -- reductions: reduce_sum, _mean, _max, _min, sum_to_like, tile_grad ---------- >>fast reduce */
typedef enum { TP__REDUCE_SUM, TP__REDUCE_MEAN, TP__REDUCE_MAX, TP__REDUCE_MIN } tp__reduce_kind;
#define TP__PARTIALS     32    /* largest number of partial sums for one output */
#define TP__COLUMN_TILE  512   /* columns that are summed at a time; two such rows stay in L1 */
#define TP__SHORT_ROW    16    /* rows below this length are summed in a plain loop */
#define TP__VEC_PIECE    16384 /* elements that a sum adds at a time */
typedef struct tp__reduce_job {
    const tp_call *k;
    tp__reduction r;
    tp__reduce_kind kind;
    bool adds;  /* sum and mean */
    float sign; /* 1 for max, -1 for min: min(x) = -max(-x) */
    const float *x;
    float *y, *partial;
    int64_t n_part;      /* number of partial sums per output */
    int64_t A, R, B;     /* x is read as an array (A,R,B) and summed over R */
    int64_t folded_rows; /* for a narrow matrix: `folded_rows` rows are treated as one row of folded_rows B columns */
    int64_t W, n_tile, grain;
    float divide_by; /* the number of elements of a mean that one part computes; 0: the parts are combined afterwards */
    const struct tp__isa *isa;
    tp_vec_fn vec;
} tp__reduce_job;
/* Cuts the work into chunks; the result depends on the shapes only. */
TP__SMALL static void tp__reduce_cut(tp__reduce_job *j)
{
    const tp__reduction *r = &j->r;
    j->n_part = j->folded_rows = j->n_tile = 1;
    j->A = j->W = 0;
    if (r->n_reduce == 0 || r->n_sum == 0 || r->n_out == 0) return;
    if (r->step == 1) { /* the summed elements are contiguous: cut long runs if outputs are few */
        if (r->n_run == 1 && r->n_out < TP__PARTIALS) j->n_part = r->run / 16384;
        if (j->n_part > TP__PARTIALS) j->n_part = TP__PARTIALS;
        if (j->n_part < 1) j->n_part = 1;
        j->grain = tp__grain(r->n_sum / j->n_part);
        return;
    }
    j->B = r->step; /* the elements of one sum are a row apart: whole rows are added at once */
    j->R = r->run;
    j->A = r->n_out / j->B;
    while (j->folded_rows * j->B < 128 && j->folded_rows * 2 <= j->R) j->folded_rows *= 2;
    j->W = j->folded_rows * j->B;
    j->n_tile = (j->W + TP__COLUMN_TILE - 1) / TP__COLUMN_TILE;
    if (j->A * j->n_tile < TP__PARTIALS) j->n_part = j->R * j->B / 32768;
    if (j->n_part > TP__PARTIALS) j->n_part = TP__PARTIALS;
    if (j->n_part < 1) j->n_part = 1;
    j->grain = tp__grain(j->R / j->folded_rows / j->n_part * (j->W < TP__COLUMN_TILE ? j->W : TP__COLUMN_TILE));
}
static size_t tp__reduce_partials(const tp__reduction *r)
{
    tp__reduce_job j;
    j.r = *r;
    tp__reduce_cut(&j);
    if (r->n_reduce == 1 && r->step != 1) return tp__scratch_of(j.A * j.n_part * j.W, sizeof(float));
    return j.n_part > 1 ? tp__scratch_of(r->n_out * j.n_part, sizeof(float)) : 0;
}
static float tp__divide_mean(const tp__reduce_job *j, double v)
{
    return (float)(j->kind == TP__REDUCE_MEAN ? v / (double)j->r.n_sum : v);
}
static double tp__combine_partials(const tp__reduce_job *j, double a, double b)
{
    if (j->adds) return a + b;
    return a != a || (double)j->sign * a > (double)j->sign * b ? a : b;
}
/* One output from its n_run contiguous runs, which are shorter than TP__SHORT_ROW: a call for each would take longer than the run. The
 * elements are added in double. */
static double tp__reduce_short_runs(const tp__reduce_job *j, const float *x)
{
    const tp__reduction *r = &j->r;
    double v = j->adds ? 0 : (double)x[0];
    for (int64_t q = 0; q < r->n_run; q++) {
        const float *p = x + tp__run_begin(r, q);
        if (j->adds)
            for (int64_t i = 0; i < r->run; i++) v += (double)p[i];
        else
            for (int64_t i = 0; i < r->run; i++) v = tp__combine_partials(j, v, (double)p[i]);
    }
    return v;
}
/* A chunk of sums along rows: a few (output, part) pairs. */
static void tp__reduce_rows_chunk(void *user, int64_t chunk)
{
    const tp__reduce_job *j = (const tp__reduce_job *)user;
    const tp__reduction *r = &j->r;
    const int64_t begin = chunk * j->grain, end = tp__min64(begin + j->grain, r->n_out * j->n_part);
    float (*of_run)(int64_t, const float *) = j->adds ? j->isa->sum : j->sign > 0 ? j->isa->max : j->isa->min;
    for (int64_t i = begin; i < end; i++) {
        const int64_t o = i / j->n_part, part = i % j->n_part;
        const int64_t from = r->run * part / j->n_part, to = r->run * (part + 1) / j->n_part;
        const float *x = j->x + tp__out_begin(r, o);
        const bool short_runs = r->n_run > 1 && r->run < TP__SHORT_ROW;
        double v = short_runs ? tp__reduce_short_runs(j, x) : 0;
        for (int64_t q = 0; q < r->n_run && !short_runs; q++) {
            const float *p = x + tp__run_begin(r, q);
            for (int64_t at = from; at < to; at += TP__VEC_PIECE) {
                const double u = (double)of_run(tp__min64(to - at, TP__VEC_PIECE), p + at);
                v = q == 0 && at == from ? u : tp__combine_partials(j, v, u);
            }
        }
        if (j->n_part > 1) j->partial[i] = (float)v;
        else j->y[o] = tp__divide_mean(j, v);
    }
}
/* The same where x is a matrix of n_out rows of one piece each. */
static void tp__reduce_whole_rows_chunk(void *user, int64_t chunk)
{
    const tp__reduce_job *j = (const tp__reduce_job *)user;
    const int64_t run = j->r.run, begin = chunk * j->grain, n = tp__min64(j->grain, j->r.n_out - begin);
    float *y = j->y + begin;
    (j->adds ? j->isa->sums : j->sign > 0 ? j->isa->maxima : j->isa->minima)(n, run, j->x + begin * run, y);
    for (int64_t o = 0; o < n && j->kind == TP__REDUCE_MEAN; o++) y[o] = tp__divide_mean(j, (double)y[o]);
}
/* Reduces n rows of two elements, such as those of a maxout layer with two units. The sum is computed in float: a sum of two floats in
 * double, rounded to float, has the same bits. */
static void tp__reduce_pairs(const tp__reduce_job *j, int64_t n, float *y, const float *x)
{
    if (j->kind == TP__REDUCE_SUM)
        for (int64_t o = 0; o < n; o++) y[o] = x[2 * o] + x[2 * o + 1];
    else if (j->kind == TP__REDUCE_MEAN) /* in double, where the sum does not overflow */
        for (int64_t o = 0; o < n; o++) y[o] = (float)(((double)x[2 * o] + (double)x[2 * o + 1]) * 0.5);
    else
        for (int64_t o = 0; o < n; o++) {
            /* without branches; b if one is NaN */
            const float a = j->sign * x[2 * o], b = j->sign * x[2 * o + 1], larger = a > b ? a : b;
            y[o] = j->sign * (a == a ? larger : a);
        }
}
/* A chunk of reductions along rows of less than TP__SHORT_ROW elements, which follow each other in x: a call for each would take
 * longer than such a row. */
static void tp__reduce_short_rows_chunk(void *user, int64_t chunk)
{
    const tp__reduce_job *j = (const tp__reduce_job *)user;
    const int64_t run = j->r.run, begin = chunk * j->grain, end = tp__min64(begin + j->grain, j->r.n_out);
    if (run == 2) tp__reduce_pairs(j, end - begin, j->y + begin, j->x + 2 * begin);
    else if (!j->adds)
        for (int64_t o = begin; o < end; o++) {
            const float *x = j->x + o * run;
            float best = j->sign * x[0];
            for (int64_t i = 1; i < run; i++) {
                const float v = j->sign * x[i], larger = best > v ? best : v;
                best = best == best ? larger : best;
            }
            j->y[o] = j->sign * best;
        }
    else
        for (int64_t o = begin; o < end; o++) {
            const float *x = j->x + o * run;
            double sum = (double)x[0];
            for (int64_t i = 1; i < run; i++) sum += (double)x[i];
            j->y[o] = tp__divide_mean(j, sum);
        }
}
/* Whether each column has one folded row, so that there is nothing to add up before the rows are combined. */
static bool tp__reduce_is_direct(const tp__reduce_job *j)
{
    return j->n_part == 1 && j->folded_rows > 1 && j->R < 2 * j->folded_rows;
}
/* A chunk of sums along columns of x as an array (A,R,B): some of the tiles of columns of some parts of R. Sums of 128
 * rows are added to the tile's total, which keeps long sums exact enough. */
static void tp__reduce_columns_chunk(void *user, int64_t chunk)
{
    const tp__reduce_job *j = (const tp__reduce_job *)user;
    const int64_t rows = j->R / j->folded_rows, end = j->A * j->n_part * j->n_tile;
    float total[TP__COLUMN_TILE], partial[TP__COLUMN_TILE];
    for (int64_t i = chunk * j->grain; i < end && i < (chunk + 1) * j->grain; i++) {
        const int64_t tile = i % j->n_tile, part = i / j->n_tile % j->n_part, a = i / j->n_tile / j->n_part;
        const int64_t from = rows * part / j->n_part, to = rows * (part + 1) / j->n_part;
        const int64_t c = tile * TP__COLUMN_TILE, n = j->W - c < TP__COLUMN_TILE ? j->W - c : TP__COLUMN_TILE;
        const float *x = j->x + a * j->R * j->B + c;
        for (int64_t row = from; row < to;) {
            const int64_t stop = to - row < 128 ? to : row + 128;
            const bool first = row == from;
            float *sum = first ? total : partial;
            const float *in[2];
            memcpy(sum, x + row * j->W, (size_t)n * sizeof(float));
            in[0] = sum;
            for (row++; row < stop; row++) {
                in[1] = x + row * j->W;
                j->vec(n, sum, in);
            }
            if (first) continue;
            in[0] = total;
            in[1] = partial;
            j->vec(n, total, in);
        }
        float *sums = j->partial + (a * j->n_part + part) * j->W + c;
        if (j->divide_by == 0) memcpy(sums, total, (size_t)n * sizeof(float));
        else /* a quotient of floats has the bits of the quotient in double, rounded to float */
            for (int64_t q = 0; q < n; q++) sums[q] = total[q] / j->divide_by;
    }
}
/* Combines the parts of the outputs [from, to) of A, the `folded_rows` rows that were treated as one, and the remaining rows. If all
 * rows are one folded row or remain, x itself has the parts. */
static void tp__reduce_combine_chunk(void *user, int64_t chunk)
{
    enum { MANY = 64 };
    const tp__reduce_job *j = (const tp__reduce_job *)user;
    const bool direct = tp__reduce_is_direct(j);
    const int64_t folded = j->R / j->folded_rows * j->folded_rows, parts = direct ? folded : j->n_part * j->folded_rows,
                  end = tp__min64(j->A, (chunk + 1) * j->grain);
    for (int64_t a = chunk * j->grain; a < end; a++)
        for (int64_t b = 0; b < j->B; b += MANY) {
            const int64_t n = tp__min64(MANY, j->B - b), rows = parts + j->R - folded;
            const float *x = j->x + a * j->R * j->B + b, *part = direct ? x : j->partial + a * j->n_part * j->W + b;
            double v[MANY];
            for (int64_t c = 0; c < n; c++) v[c] = (double)part[c];
            for (int64_t i = 1; i < rows; i++) {
                const float *row = i < parts ? part + i * j->B : x + (folded + i - parts) * j->B;
                if (j->adds)
                    for (int64_t c = 0; c < n; c++) v[c] += (double)row[c];
                else
                    for (int64_t c = 0; c < n; c++) v[c] = tp__combine_partials(j, v[c], (double)row[c]);
            }
            for (int64_t c = 0; c < n; c++) j->y[a * j->B + b + c] = tp__divide_mean(j, v[c]);
        }
}
/* y = sum, mean, max or min of x over the reduced dimensions; false if only the naive loop supports the case. */
static bool tp__reduce_fast(const tp_call *k, const tp__reduction *r, tp__reduce_kind kind)
{
    tp__reduce_job j;
    memset(&j, 0, sizeof j);
    if (k->in[0].dtype == TP_F32 && r->n_sum == 1 &&
        r->n_out > 0) { /* each output is the sum of a single element, as for a batch of one: copy */
        memcpy(k->out[0].data, k->in[0].data, (size_t)r->n_out * sizeof(float));
        return true;
    }
    if (k->in[0].dtype != TP_F32 || r->n_reduce == 0 || r->n_sum == 0 || r->n_out == 0) return false;
    if (r->step != 1 && r->n_reduce != 1) return false;
    j.k = k;
    j.r = *r;
    j.kind = kind;
    j.x = (const float *)k->in[0].data;
    j.y = (float *)k->out[0].data;
    j.partial = (float *)k->scratch;
    j.isa = k->device->isa;
    j.adds = kind == TP__REDUCE_SUM || kind == TP__REDUCE_MEAN;
    j.sign = kind == TP__REDUCE_MIN ? -1.0f : 1.0f;
    j.vec = j.adds ? tp_vec_find_add(k->device) : j.sign > 0 ? tp_vec_find_max(k->device) : tp_vec_find_min(k->device);
    if (!j.vec) return false;
    tp__reduce_cut(&j);
    if (r->step == 1 && r->n_run == 1 && r->run < TP__SHORT_ROW) {
        tp_device_parallel(k->device, (r->n_out + j.grain - 1) / j.grain, tp__reduce_short_rows_chunk, &j);
        return true;
    }
    if (r->step == 1 && r->n_run == 1 && j.n_part == 1 && r->run <= TP__VEC_PIECE) {
        tp_device_parallel(k->device, (r->n_out + j.grain - 1) / j.grain, tp__reduce_whole_rows_chunk, &j);
        return true;
    }
    if (r->step == 1) {
        tp_device_parallel(k->device, (r->n_out * j.n_part + j.grain - 1) / j.grain, tp__reduce_rows_chunk, &j);
        if (j.n_part == 1) return true;
        for (int64_t o = 0; o < r->n_out; o++) {
            double v = (double)j.partial[o * j.n_part];
            for (int64_t p = 1; p < j.n_part; p++) v = tp__combine_partials(&j, v, (double)j.partial[o * j.n_part + p]);
            j.y[o] = tp__divide_mean(&j, v);
        }
        return true;
    }
    /* true: each sum has one part, so there is nothing to add up afterwards */
    const bool whole = j.n_part * j.folded_rows == 1 && (kind != TP__REDUCE_MEAN || r->n_sum <= 1 << 24);
    if (whole) j.partial = j.y;
    if (whole && kind == TP__REDUCE_MEAN) j.divide_by = (float)r->n_sum;
    if (!tp__reduce_is_direct(&j))
        tp_device_parallel(k->device, (j.A * j.n_part * j.n_tile + j.grain - 1) / j.grain, tp__reduce_columns_chunk,
                           &j);
    if (whole) return true;
    j.grain = tp__grain(j.n_part * j.W);
    tp_device_parallel(k->device, (j.A + j.grain - 1) / j.grain, tp__reduce_combine_chunk, &j);
    return true;
}
static size_t tp__reduce_scratch(const tp_call *k)
{
    tp__reduction r;
    tp__reduction_of(&r, k);
    return tp__reduce_partials(&r);
}
static void tp__reduce_sum_fast(const tp_call *k)
{
    tp__reduction r;
    tp__reduction_of(&r, k);
    if (!tp__reduce_fast(k, &r, TP__REDUCE_SUM)) tp__reduce_sum_any(k);
}
static void tp__reduce_mean_fast(const tp_call *k)
{
    tp__reduction r;
    tp__reduction_of(&r, k);
    if (!tp__reduce_fast(k, &r, TP__REDUCE_MEAN)) tp__reduce_mean_f32(k);
}
static void tp__reduce_max_fast(const tp_call *k)
{
    tp__reduction r;
    tp__reduction_of(&r, k);
    if (!tp__reduce_fast(k, &r, TP__REDUCE_MAX)) tp__reduce_max_any(k);
}
static void tp__reduce_min_fast(const tp_call *k)
{
    tp__reduction r;
    tp__reduction_of(&r, k);
    if (!tp__reduce_fast(k, &r, TP__REDUCE_MIN)) tp__reduce_min_any(k);
}
static void tp__sum_to_like_fast(const tp_call *k)
{
    tp__reduction r;
    tp__reduction_to(&r, k);
    if (!tp__reduce_fast(k, &r, TP__REDUCE_SUM)) tp__sum_to_like_f32(k);
}
static size_t tp__sum_to_like_scratch(const tp_call *k)
{
    tp__reduction r;
    tp__reduction_to(&r, k);
    return tp__reduce_partials(&r);
}
static void tp__tile_grad_fast(const tp_call *k)
{
    tp__reduction r;
    tp__reduction_of_copies(&r, k);
    if (!tp__reduce_fast(k, &r, TP__REDUCE_SUM)) tp__tile_grad_f32(k);
}
static size_t tp__tile_grad_scratch(const tp_call *k)
{
    tp__reduction r;
    tp__reduction_of_copies(&r, k);
    return tp__reduce_partials(&r);
}

/* -- add_n, all_reduce: in pieces that stay in the cache ------------------------------ >>fast add_n */
static void tp__add_n_range(const tp_call *k, int64_t from, int64_t to)
{
    const tp_vec_fn add = tp_vec_find_add(k->device);
    for (int64_t i = from; i < to; i += 1024) { /* a piece stays in L1 while all terms are added */
        const int64_t n = to - i < 1024 ? to - i : 1024;
        float *y = (float *)k->out[0].data + i;
        const float *in[2];
        in[0] = (const float *)k->in[0].data + i;
        if (k->n_in == 1) memmove(y, in[0], (size_t)n * sizeof(float));
        for (int a = 1; a < k->n_in; a++) {
            in[1] = (const float *)k->in[a].data + i;
            add(n, y, in);
            in[0] = y;
        }
    }
}
static void tp__add_n_fast(const tp_call *k)
{
    if (k->in[0].dtype != TP_F32 || !tp_vec_find_add(k->device)) tp__add_n_any(k);
    else tp__each_range(k, tp__size(&k->out[0]), 16384, tp__add_n_range);
}
/* Works in pieces that stay in L1 while the terms are added and the sum is written to all outputs. */
static void tp__all_reduce_range(const tp_call *k, int64_t from, int64_t to)
{
    const tp_vec_fn add = tp_vec_find_add(k->device);
    const float scale = ((const tp__all_reduce_attrs *)k->attrs)->mean ? 1.0f / (float)k->n_in : 1.0f;
    float sum[1024];
    for (int64_t i = from; i < to; i += 1024) {
        const int64_t n = to - i < 1024 ? to - i : 1024;
        const float *in[2];
        in[0] = (const float *)k->in[0].data + i;
        if (k->n_in == 1) memcpy(sum, in[0], (size_t)n * sizeof(float));
        for (int a = 1; a < k->n_in; a++) {
            in[1] = (const float *)k->in[a].data + i;
            add(n, sum, in);
            in[0] = sum;
        }
        if (scale != 1.0f)
            for (int64_t j = 0; j < n; j++) sum[j] *= scale;
        for (int a = 0; a < k->n_out; a++)
            if (k->out[a].data) memcpy((float *)k->out[a].data + i, sum, (size_t)n * sizeof(float));
    }
}
static void tp__all_reduce_fast(const tp_call *k)
{
    if (k->in[0].dtype != TP_F32 || !tp_vec_find_add(k->device)) tp__all_reduce_any(k);
    else tp__each_range(k, tp__size(&k->out[0]), 16384, tp__all_reduce_range);
}

/* -- l2_loss, global_norm ------------------------------------------------------------- >>fast l2_loss */
typedef struct tp__squares_job {
    tp_device *device;
    const float *x;
    int64_t n, n_part;
    double partial[TP__PARTIALS];
} tp__squares_job;
/* The sum of squares of a piece: of floats, or, where squares are beyond the floats or so small that they vanish, of doubles. */
static double tp__sum_of_squares(tp_device *d, int64_t n, const float *x)
{
    double sum = (double)tp_vec_dot(d, n, x, x);
    if (sum >= 1e-26 && sum < HUGE_VAL) return sum;
    sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum;
}
static void tp__squares_chunk(void *user, int64_t chunk)
{
    tp__squares_job *j = (tp__squares_job *)user;
    const int64_t from = j->n * chunk / j->n_part, to = j->n * (chunk + 1) / j->n_part;
    double sum = 0;
    for (int64_t i = from; i < to; i += TP__VEC_PIECE) {
        const int64_t n = to - i < TP__VEC_PIECE ? to - i : TP__VEC_PIECE;
        sum += tp__sum_of_squares(j->device, n, j->x + i);
    }
    j->partial[chunk] = sum;
}
static double tp__sum_of_squares_fast(tp_device *d, const tp_operand *x)
{
    tp__squares_job j;
    memset(&j, 0, sizeof j);
    j.device = d;
    j.x = (const float *)x->data;
    j.n = tp__size(x);
    j.n_part = j.n / 16384 > TP__PARTIALS ? TP__PARTIALS : j.n / 16384 > 0 ? j.n / 16384 : 1;
    if (j.n_part == 1) tp__squares_chunk(&j, 0);
    else tp_device_parallel(d, j.n_part, tp__squares_chunk, &j);
    for (int64_t i = 1; i < j.n_part; i++) j.partial[0] += j.partial[i];
    return j.partial[0];
}
static void tp__l2_loss_fast(const tp_call *k)
{
    *(float *)k->out[0].data = (float)(0.5 * tp__sum_of_squares_fast(k->device, &k->in[0]));
}
static void tp__global_norm_fast(const tp_call *k)
{
    double sum = 0;
    for (int i = 0; i < k->n_in; i++) sum += tp__sum_of_squares_fast(k->device, &k->in[i]);
    *(float *)k->out[0].data = (float)sqrt(sum);
}

/* -- moves: copies of a strided array (tp__move of tp_graph.h) ------------------------ >>fast move */
/* A strided copy whose adjacent dimensions are merged where possible; at least two remain. Threads share the work along
 * all but the inner two. */
typedef struct tp__move_job {
    tp__move move;
    const struct tp__isa *isa;
    int64_t n_outer, grain;
} tp__move_job;

/* Adds a dimension to a strided copy, inside the others; merges it with the innermost of them if the strides of source
 * and destination allow one loop. */
static void tp__move_merge(tp__move *m, int64_t dim, int64_t ds, int64_t ss)
{
    if (dim == 1) return;
    if (m->ndim > 0) {
        const int d = m->ndim - 1;
        if (m->dst_stride[d] == ds * dim && m->src_stride[d] == ss * dim) {
            m->dim[d] *= dim;
            m->dst_stride[d] = ds;
            m->src_stride[d] = ss;
            return;
        }
    }
    m->dim[m->ndim] = dim;
    m->dst_stride[m->ndim] = ds;
    m->src_stride[m->ndim++] = ss;
}

/* Adds a dimension of size 1 outside the others. */
static void tp__move_wrap(tp__move *m)
{
    for (int d = m->ndim++; d > 0; d--) {
        m->dim[d] = m->dim[d - 1];
        m->dst_stride[d] = m->dst_stride[d - 1];
        m->src_stride[d] = m->src_stride[d - 1];
    }
    m->dim[0] = m->dst_stride[0] = m->src_stride[0] = 1;
}

/* Copies one run of n elements; the strides are those in tp__move. */
static void tp__move_run(char *dst, const char *src, int64_t n, int64_t ds, int64_t ss, size_t size)
{
    if (ds == 1 && (ss == 1 || ss == 0)) {
        tp__copy_strided(dst, src, size, ss, n);
        return;
    }
    if (size == 4 && ds == 1 && ss == -1) { /* backward, in pairs */
        for (uint64_t pair; n >= 2; n -= 2, dst += 8, src -= 8) {
            memcpy(&pair, src - 4, 8);
            pair = pair << 32 | pair >> 32;
            memcpy(dst, &pair, 8);
        }
        if (n == 1) memcpy(dst, src, 4);
    } else if (size == 4) {
        for (int64_t i = 0; i < n; i++) memcpy(dst + i * ds * 4, src + i * ss * 4, 4);
    } else if (size == 8) {
        for (int64_t i = 0; i < n; i++) memcpy(dst + i * ds * 8, src + i * ss * 8, 8);
    } else if (size == 2) {
        for (int64_t i = 0; i < n; i++) memcpy(dst + i * ds * 2, src + i * ss * 2, 2);
    } else {
        for (int64_t i = 0; i < n; i++) dst[i * ds] = src[i * ss];
    }
}

/* Copies the two innermost dimensions, a matrix, if it is a transpose of four-byte elements; else returns false. */
static bool tp__move_transposed(const tp__move_job *j, char *dst, const char *src)
{
    const tp__move *m = &j->move;
    const int a = m->ndim - 2, b = m->ndim - 1;
    /* along which of the two the destination is contiguous, and the source along the other */
    const int along = m->dst_stride[a] == 1 && m->src_stride[b] == 1   ? a
                      : m->dst_stride[b] == 1 && m->src_stride[a] == 1 ? b
                                                                       : -1;
    if (along < 0 || m->size != 4) return false;
    const int other = along == a ? b : a;
    j->isa->transpose((float *)(void *)dst, m->dst_stride[other], m->dim[along], (const float *)(const void *)src,
                      m->src_stride[along], m->dim[along], m->dim[other]);
    return true;
}
/* Copies the two innermost dimensions for some of the outer indices. If one side is strided, blocks of 16 by 16 keep the
 * cache lines of both sides in the cache. */
static void tp__move_chunk(void *user, int64_t chunk)
{
    const tp__move_job *j = (const tp__move_job *)user;
    const tp__move *m = &j->move;
    const int a = m->ndim - 2, b = m->ndim - 1;
    const int64_t end = (chunk + 1) * j->grain < j->n_outer ? (chunk + 1) * j->grain : j->n_outer;
    for (int64_t o = chunk * j->grain; o < end; o++) {
        int64_t index_left = o, at_d = 0, at_s = 0;
        for (int d = a - 1; d >= 0; d--) {
            at_d += index_left % m->dim[d] * m->dst_stride[d];
            at_s += index_left % m->dim[d] * m->src_stride[d];
            index_left /= m->dim[d];
        }
        char *dst = m->dst + at_d * (int64_t)m->size;
        const char *src = m->src + at_s * (int64_t)m->size;
        const bool copies_whole_rows = m->dst_stride[b] == 1 && m->src_stride[b] <= 1 && m->src_stride[b] >= -1;
        if (!copies_whole_rows && tp__move_transposed(j, dst, src)) continue;
        if (copies_whole_rows && m->src_stride[b] == 1 && m->size % 4 == 0) {
            const int64_t words = (int64_t)m->size / 4;
            tp__copy_rows((float *)(void *)dst, m->dst_stride[a] * words, (const float *)(const void *)src,
                          m->src_stride[a] * words, m->dim[b] * words, m->dim[a]);
            continue;
        }
        const int64_t step_a = copies_whole_rows ? m->dim[a] : 16, step_b = copies_whole_rows ? m->dim[b] : 16;
        for (int64_t i0 = 0; i0 < m->dim[a]; i0 += step_a)
            for (int64_t j0 = 0; j0 < m->dim[b]; j0 += step_b)
                for (int64_t i = i0; i < m->dim[a] && i < i0 + step_a; i++)
                    tp__move_run(dst + (i * m->dst_stride[a] + j0 * m->dst_stride[b]) * (int64_t)m->size,
                                 src + (i * m->src_stride[a] + j0 * m->src_stride[b]) * (int64_t)m->size,
                                 m->dim[b] - j0 < step_b ? m->dim[b] - j0 : step_b, m->dst_stride[b], m->src_stride[b],
                                 m->size);
    }
}

static void tp__move_fast(const tp_call *k, const tp__move *given)
{
    tp__move_job job;
    tp__move *m = &job.move;
    job.n_outer = job.grain = 1;
    job.isa = k->device->isa;
    *m = *given;
    m->ndim = 0;
    for (int d = 0; d < given->ndim; d++) {
        if (given->dim[d] == 0) return;
        tp__move_merge(m, given->dim[d], given->dst_stride[d], given->src_stride[d]);
    }
    if (m->ndim == 1 && m->dst_stride[0] == 1 && m->src_stride[0] == 1 &&
        m->dim[0] > 65536) { /* copy one long contiguous run in parts of 16384 elements */
        const int64_t part_size = 16384, whole = m->dim[0] / part_size, done = whole * part_size;
        memcpy(m->dst + (size_t)done * m->size, m->src + (size_t)done * m->size, (size_t)(m->dim[0] - done) * m->size);
        tp__move_wrap(m);
        m->dim[0] = whole;
        m->dst_stride[0] = m->src_stride[0] = m->dim[1] = part_size;
    }
    if (m->ndim == 2 && m->dim[0] > 64) { /* cut the outer dimension, so that threads can share the work */
        const int64_t part_size = 64, whole = m->dim[0] / part_size, done = whole * part_size;
        tp__move_job remaining_job = job;
        remaining_job.move.dim[0] -= done;
        remaining_job.move.dst += done * m->dst_stride[0] * (int64_t)m->size;
        remaining_job.move.src += done * m->src_stride[0] * (int64_t)m->size;
        if (remaining_job.move.dim[0] > 0) tp__move_chunk(&remaining_job, 0);
        tp__move_wrap(m);
        m->dim[0] = whole;
        m->dst_stride[0] = m->dst_stride[1] * part_size;
        m->src_stride[0] = m->src_stride[1] * part_size;
        m->dim[1] = part_size;
    }
    while (m->ndim < 2) tp__move_wrap(m);
    const int b = m->ndim - 1;
    const bool copies_rows = m->dst_stride[b] == 1 && m->src_stride[b] <= 1 && m->src_stride[b] >= -1;
    if (!copies_rows && m->dim[b] < 8 && m->dim[b - 1] > m->dim[b]) { /* runs along the longer of the last two */
        const int64_t last[3] = {m->dim[b], m->dst_stride[b], m->src_stride[b]};
        m->dim[b] = m->dim[b - 1], m->dst_stride[b] = m->dst_stride[b - 1], m->src_stride[b] = m->src_stride[b - 1];
        m->dim[b - 1] = last[0], m->dst_stride[b - 1] = last[1], m->src_stride[b - 1] = last[2];
    }
    for (int d = 0; d < m->ndim - 2; d++) job.n_outer *= m->dim[d];
    job.grain = tp__grain(m->dim[m->ndim - 2] * m->dim[m->ndim - 1]);
    tp_device_parallel(k->device, (job.n_outer + job.grain - 1) / job.grain, tp__move_chunk, &job);
}

/* -- assign_add, assign_sub, assign_moving_average ------------------------------------ >>fast assign_add */
/* Applies a vector function of the variable and the value: var = f(var, x). */
static void tp__assign_by(const tp_call *k, int64_t from, int64_t to, tp_vec_fn f)
{
    float *v = (float *)k->var[0].data + from;
    const float *in[2];
    in[0] = v, in[1] = (const float *)k->in[0].data + from;
    f(to - from, v, in);
}
static void tp__assign_add_range(const tp_call *k, int64_t from, int64_t to)
{
    tp__assign_by(k, from, to, tp__vec_add_of[k->device->isa->level]);
}
static void tp__assign_sub_range(const tp_call *k, int64_t from, int64_t to)
{
    tp__assign_by(k, from, to, tp__vec_sub_of[k->device->isa->level]);
}
static void tp__assign_moving_average_range(const tp_call *k, int64_t from, int64_t to)
{
    const int level = k->device->isa->level;
    const float factors[2] = {1.0f - ((const tp__assign_attrs *)k->attrs)->decay, -0.0f}; /* x + -0 is x for each x */
    float change[1024];
    for (int64_t i = from; i < to; i += 1024) {
        const int64_t n = tp__min64(1024, to - i);
        float *v = (float *)k->var[0].data + i;
        const float *in[2];
        in[0] = v, in[1] = (const float *)k->in[0].data + i;
        tp__vec_sub_of[level](n, change, in);
        in[0] = change, in[1] = factors;
        tp__vec_affine_of[level](n, change, in);
        in[0] = v, in[1] = change;
        tp__vec_sub_of[level](n, v, in);
    }
}
static void tp__assign_add_fast(const tp_call *k)
{
    if (k->var[0].dtype != TP_F32) tp__assign_add_naive(k);
    else if (tp__pred(k, 1)) tp__each_range(k, tp__size(&k->var[0]), 16384, tp__assign_add_range);
}
static void tp__assign_sub_fast(const tp_call *k)
{
    if (k->var[0].dtype != TP_F32) tp__assign_sub_naive(k);
    else if (tp__pred(k, 1)) tp__each_range(k, tp__size(&k->var[0]), 16384, tp__assign_sub_range);
}
static void tp__assign_moving_average_fast(const tp_call *k)
{
    if (tp__pred(k, 1)) tp__each_range(k, tp__size(&k->var[0]), 16384, tp__assign_moving_average_range);
}

/* -- resize, resize_grad: the channels of a pixel as vectors -------------------------- >>fast resize */
static void tp__resize_rows_fast(const tp_call *k, int64_t from, int64_t to)
{
    const tp__resized g = tp__resize_geometry(k, &k->in[0].shape);
    for (int64_t r = from; r < to; r++) {
        const tp__blend v = tp__resize_blend((const tp_resize_attrs *)k->attrs, r % g.OH, g.H, g.OH);
        const float *image = (const float *)k->in[0].data + r / g.OH * g.H * g.W * g.C;
        tp__resize_row_of[k->device->isa->level](g.OW, g.C, g.column, image + v.low * g.W * g.C,
                                                 image + v.high * g.W * g.C, (float)v.part,
                                                 (float *)k->out[0].data + r * g.OW * g.C);
    }
}
static void tp__resize_fast(const tp_call *k)
{
    const tp__resized g = tp__resize_geometry(k, &k->in[0].shape);
    if (g.C < 4) {
        tp__resize_f32(k);
        return;
    }
    tp__resize_columns(k, g.W);
    tp__each_range(k, g.B * g.OH, tp__grain(g.OW * g.C), tp__resize_rows_fast);
}
static void tp__resize_grad_images_fast(const tp_call *k, int64_t from, int64_t to)
{
    const tp__resized g = tp__resize_geometry(k, &k->in[1].shape);
    for (int64_t b = from; b < to; b++) {
        float *image = (float *)k->out[0].data + b * g.H * g.W * g.C;
        memset(image, 0, (size_t)(g.H * g.W * g.C) * sizeof *image);
        for (int64_t i = 0; i < g.OH; i++) {
            const tp__blend v = tp__resize_blend((const tp_resize_attrs *)k->attrs, i, g.H, g.OH);
            tp__resize_back_of[k->device->isa->level](g.OW, g.C, g.column,
                                                      (const float *)k->in[0].data + (b * g.OH + i) * g.OW * g.C,
                                                      v.part, image + v.low * g.W * g.C, image + v.high * g.W * g.C);
        }
    }
}
static void tp__resize_grad_fast(const tp_call *k)
{
    const tp__resized g = tp__resize_geometry(k, &k->in[1].shape);
    if (g.C < 4) {
        tp__resize_grad_f32(k);
        return;
    }
    tp__resize_columns(k, g.W);
    tp__each_range(k, g.B, tp__grain(g.OH * g.OW * g.C * 4), tp__resize_grad_images_fast);
}

/* -- bilinear_sampler: the channels of a pixel as vectors ----------------------------- >>fast bilinear_sampler */
TP__HOT static void tp__sampler_rows_fast(const tp_call *k, int64_t from, int64_t to)
{
    const int64_t *x = k->in[0].shape.dim, *y = k->out[0].shape.dim, W = x[2], C = x[3], n = y[2];
    for (int64_t r = from; r < to; r++) {
        const float *image = (const float *)k->in[0].data + r / y[1] * x[1] * W * C, *pixel[4];
        const float *place = (const float *)k->in[1].data + r * n * 2;
        float *out = (float *)k->out[0].data + r * n * C, f[2];
        for (int64_t i = 0; i < n; i++, out += C) {
            int64_t h[2], w[2];
            const bool inside = tp__sampler_place_f32(k, place + i * 2, &k->in[0].shape, h, w, f);
            for (int p = 0; p < 4; p++) pixel[p] = image + (h[p >> 1] * W + w[p & 1]) * C;
            if (!inside) memset(out, 0, (size_t)C * sizeof *out);
            else if (C >= 4) tp__sample_of[k->device->isa->level](C, pixel, f, out);
            else
                for (int64_t c = 0; c < C; c++) { /* for few channels the call would take longer */
                    const float a = TP__PRODUCT(pixel[0][c] * (1 - f[1])) + TP__PRODUCT(pixel[1][c] * f[1]);
                    const float b = TP__PRODUCT(pixel[2][c] * (1 - f[1])) + TP__PRODUCT(pixel[3][c] * f[1]);
                    out[c] = TP__PRODUCT(a * (1 - f[0])) + TP__PRODUCT(b * f[0]);
                }
        }
    }
}
static void tp__sampler_fast(const tp_call *k)
{
    const int64_t *y = k->out[0].shape.dim;
    tp__each_range(k, y[0] * y[1], tp__grain(y[2] * y[3] * 8), tp__sampler_rows_fast);
}

/* -- pad, pad_grad: row by row ------------------------------------------------------- >>fast pad */
/* For pad: returns the row of x that is copied to the row of y with this index (rows are counted over all dimensions but the last);
 * -1: the row of y is all border. */
static int64_t tp__pad_source_row(const int64_t *index, const tp_shape *x, const tp__pad_attrs *t)
{
    int64_t at = 0;
    for (int d = 0; d < x->ndim - 1; d++) {
        const int64_t i = tp__pad_source(index[d], t->before[d], x->dim[d], t->mode);
        if (i < 0) return -1;
        at = at * x->dim[d] + i;
    }
    return at;
}
/* Advances the index of a row to the next row of y. */
static void tp__next_row(int64_t *index, const tp_shape *y)
{
    for (int d = y->ndim - 2; d >= 0 && ++index[d] == y->dim[d]; d--) index[d] = 0;
}
/* Returns the last axis with a border. The axes after it are copied as one: each element along this axis is *inner values. */
static int tp__pad_last_axis(const tp__pad_attrs *t, const tp_shape *y, int64_t *inner)
{
    int d = y->ndim - 1;
    while (d > 0 && !t->before[d] && !t->after[d]) d--;
    if (!t->before[d] && !t->after[d]) d = y->ndim - 1;
    *inner = tp__product(y, d + 1, y->ndim);
    return d;
}
/* Writes n copies of a value of `size` bytes. */
static void tp__pad_border(char *to, const void *value, size_t size, int64_t n)
{
    if (size == 4) {
        uint32_t bits;
        memcpy(&bits, value, 4);
        for (int64_t i = 0; i < n; i++) memcpy(to + 4 * i, &bits, 4);
    } else
        for (int64_t i = 0; i < n; i++) memcpy(to + (int64_t)size * i, value, size);
}
/* Whether the padding adds a border only along the last axis. Then the rows keep their order. */
static bool tp__pad_last_only(const tp__pad_attrs *t, int last_dim)
{
    for (int d = 0; d < last_dim; d++)
        if (t->before[d] || t->after[d]) return false;
    return true;
}
static void tp__pad_rows(const tp_call *k, int64_t begin, int64_t end)
{
    const tp__pad_attrs *t = (const tp__pad_attrs *)k->attrs;
    int64_t inner;
    const int last_dim = tp__pad_last_axis(t, &k->out[0].shape, &inner);
    const tp_shape x = tp_make_shape_n(last_dim + 1, k->in[0].shape.dim),
                   y = tp_make_shape_n(last_dim + 1, k->out[0].shape.dim), rows = tp_make_shape_n(last_dim, y.dim);
    const int64_t n = x.dim[last_dim], m = y.dim[last_dim], before = t->before[last_dim];
    const size_t value_size = tp_dtype_size(k->in[0].dtype), size = (size_t)inner * value_size;
    const bool last_only = tp__pad_last_only(t, last_dim);
    int64_t index[TP_MAX_DIMS];
    double border = 0; /* eight bytes, memory for one element of any type */
    tp__fill_value(&border, k->out[0].dtype, (double)t->value, 1);
    tp__index_of(begin, &rows, index);
    for (int64_t r = begin; r < end; r++, tp__next_row(index, &y)) {
        const int64_t from = last_only ? r : tp__pad_source_row(index, &x, t), end_of_x = before + n;
        char *to = (char *)k->out[0].data + r * m * (int64_t)size;
        if (from < 0 || n == 0) tp__pad_border(to, &border, value_size, m * inner);
        else if (t->mode == TP_PAD_CONSTANT) {
            tp__pad_border(to, &border, value_size, before * inner);
            tp__pad_border(to + end_of_x * (int64_t)size, &border, value_size, (m - end_of_x) * inner);
        }
        if (from < 0 || n == 0) continue;
        const char *src = (const char *)k->in[0].data + from * n * (int64_t)size;
        tp__copy_bytes(to + before * (int64_t)size, src, (size_t)n * size);
        for (int64_t i = 0; i < m && t->mode != TP_PAD_CONSTANT; i++) {
            if (i == before) i += n; /* skip the inner part, which is copied already */
            if (i < m)
                memcpy(to + i * (int64_t)size, src + tp__pad_source(i, before, n, t->mode) * (int64_t)size, size);
        }
    }
}
static void tp__pad_fast(const tp_call *k)
{
    const tp_shape *y = &k->out[0].shape;
    if (y->ndim == 0) tp__pad_naive(k);
    else if (tp__size(&k->out[0]) > 0) {
        int64_t inner;
        const int last_dim = tp__pad_last_axis((const tp__pad_attrs *)k->attrs, y, &inner);
        tp__each_range(k, tp__product(y, 0, last_dim), tp__grain(y->dim[last_dim] * inner), tp__pad_rows);
    }
}

static void tp__pad_grad_rows(const tp_call *k, int64_t from, int64_t to)
{
    const tp__pad_attrs *t = (const tp__pad_attrs *)k->attrs;
    const tp_shape *x = &k->out[0].shape, *y = &k->in[0].shape;
    int64_t inner;
    const int last_dim = tp__pad_last_axis(t, y, &inner);
    const int64_t n = x->dim[last_dim] * inner;
    const bool last_only = tp__pad_last_only(t, last_dim);
    for (int64_t r = from; r < to; r++) {
        int64_t at = last_only ? r : 0, stride = 1, row = r;
        for (int d = last_dim - 1; d >= 0 && !last_only; d--) {
            at += (row % x->dim[d] + t->before[d]) * stride;
            row /= x->dim[d];
            stride *= y->dim[d];
        }
        tp__copy_bytes((float *)k->out[0].data + r * n,
                       (const float *)k->in[0].data + (at * y->dim[last_dim] + t->before[last_dim]) * inner,
                       (size_t)n * sizeof(float));
    }
}
static void tp__pad_grad_mirrored(const tp_call *k)
{
    const tp__pad_attrs *t = (const tp__pad_attrs *)k->attrs;
    const tp_vec_fn add = tp_vec_find_add(k->device);
    int64_t inner;
    const int last_dim = tp__pad_last_axis(t, &k->out[0].shape, &inner);
    const tp_shape x = tp_make_shape_n(last_dim + 1, k->out[0].shape.dim),
                   y = tp_make_shape_n(last_dim + 1, k->in[0].shape.dim);
    const int64_t n = x.dim[last_dim], m = y.dim[last_dim], before = t->before[last_dim];
    const int64_t rows = tp__product(&y, 0, last_dim);
    float *dx = (float *)k->out[0].data;
    int64_t index[TP_MAX_DIMS] = {0};
    if (tp__size(&k->out[0]) == 0) return;
    memset(dx, 0, (size_t)tp__size(&k->out[0]) * sizeof *dx);
    for (int64_t r = 0; r < rows; r++, tp__next_row(index, &y)) {
        float *to = dx + tp__pad_source_row(index, &x, t) * n * inner;
        const float *dy = (const float *)k->in[0].data + r * m * inner;
        for (int64_t i = 0, run; i < m;
             i += run) { /* the row of x itself in one run, its mirrored elements one by one */
            run = i == before ? n : 1;
            float *sum = to + tp__pad_source(i, before, n, t->mode) * inner;
            const float *in[2] = {sum, dy + i * inner};
            if (run * inner >= 8) add(run * inner, sum, in);
            else
                for (int64_t c = 0; c < run * inner; c++) sum[c] += dy[i * inner + c];
        }
    }
}
static void tp__pad_grad_fast(const tp_call *k)
{
    const tp_shape *x = &k->out[0].shape;
    if (x->ndim < 1) tp__pad_grad_f32(k);
    else if (((const tp__pad_attrs *)k->attrs)->mode != TP_PAD_CONSTANT) tp__pad_grad_mirrored(k);
    else if (tp__size(&k->out[0]) > 0) {
        int64_t inner;
        const int last_dim = tp__pad_last_axis((const tp__pad_attrs *)k->attrs, x, &inner);
        tp__each_range(k, tp__product(x, 0, last_dim), tp__grain(x->dim[last_dim] * inner), tp__pad_grad_rows);
    }
}

/* -- gather_grad ---------------------------------------------------------------------- >>fast gather_grad */
#define TP__NARROW_ROW   16    /* rows below this length are added in a plain loop, which takes less time than a call */
static void tp__gather_grad_range(const tp_call *k, int64_t from, int64_t to_row)
{
    const int64_t width = tp__product(&k->out[0].shape, 1, k->out[0].shape.ndim), n = tp__size(&k->in[1]);
    const float *dy = (const float *)k->in[0].data, *in[2];
    float *dp = (float *)k->out[0].data;
    float *to = NULL; /* row of the gradient to which the previous row of dy is added, while the next one is fetched */
    memset(dp + from * width, 0, (size_t)((to_row - from) * width) * sizeof *dp);
    for (int64_t i = 0; i < n; i++) {
        const int64_t r = tp__index_at(&k->in[1], i);
        if (r < from || r >= to_row) continue;
        if (width < TP__NARROW_ROW) {
            for (int64_t c = 0; c < width; c++) dp[r * width + c] += dy[i * width + c];
            continue;
        }
        tp__prefetch_row(dy + i * width, width);
        if (to) tp__vec_add_of[k->device->isa->level](width, to, in);
        in[0] = to = dp + r * width, in[1] = dy + i * width;
    }
    if (to) tp__vec_add_of[k->device->isa->level](width, to, in);
}
/* Each piece of work adds to rows of its own, for which it reads all indices. */
static void tp__gather_grad_fast(const tp_call *k)
{
    const tp_device *d = k->device;
    const int64_t rows = k->out[0].shape.dim[0], n = tp__size(&k->out[0]) + tp__size(&k->in[0]);
    const bool narrow =
        n < TP__NARROW_ROW * (rows + tp__size(&k->in[1])); /* reading the indices takes as long as adding */
    const int64_t pieces = narrow || !d->pool ? 1 : tp__min64(n / 32768, 4 * tp_pool_threads(d->pool));
    tp__each_range(k, rows, pieces > 1 ? (rows + pieces - 1) / pieces : rows, tp__gather_grad_range);
}

/* -- matmul --------------------------------------------------------------------------- >>fast matmul */
/* One GEMM of matmul's call; if b is 2-D, all matrices of a are treated as one tall matrix. */
static tp__gemm_args tp__matmul_gemm(const tp_call *k, int64_t *count)
{
    const tp__matmul_attrs *t = (const tp__matmul_attrs *)k->attrs;
    const tp__matmul_dims d = tp__matmul_sizes(k);
    tp__gemm_args g;
    memset(&g, 0, sizeof g);
    g.ta = t->transpose_a;
    g.tb = t->transpose_b;
    g.M = d.M;
    g.N = d.N;
    g.K = d.K;
    *count = d.batch;
    if (k->in[1].shape.ndim == 2 && !g.ta) {
        g.M *= d.batch;
        *count = 1;
    }
    g.lda = g.ta ? d.M : d.K;
    g.ldb = g.tb ? d.K : d.N;
    g.ldc = d.N;
    if (k->fused.bias) g.epilogue.bias = (const float *)k->in[k->fused.bias].data;
    g.epilogue.act = k->fused.act, g.epilogue.most = k->fused.most;
    return g;
}
static void tp__matmul_fast(const tp_call *k)
{
    int64_t count;
    const tp__matmul_dims d = tp__matmul_sizes(k);
    tp__gemm_args g = tp__matmul_gemm(k, &count);
    for (int64_t i = 0; i < count; i++) {
        g.A = (const float *)k->in[0].data +
              (count == 1 ? 0 : tp__matmul_matrix(&k->out[0].shape, &k->in[0].shape, i) * d.M * d.K);
        g.B = (const float *)k->in[1].data +
              (count == 1 ? 0 : tp__matmul_matrix(&k->out[0].shape, &k->in[1].shape, i) * d.K * d.N);
        g.C = (float *)k->out[0].data + i * d.M * d.N;
        g.kept = (float *)k->kept, g.kept_is_ready = k->kept_is_ready;
        tp__gemm(k->device, &g, k->scratch);
    }
}
static size_t tp__matmul_scratch(const tp_call *k)
{
    int64_t count;
    if (k->in[0].dtype != TP_F32) return 0;
    const tp__gemm_args g = tp__matmul_gemm(k, &count);
    return tp__gemm_scratch(k->device, &g);
}

/* -- conv2d and its gradients --------------------------------------------------------- >>fast conv2d */
/* A convolution's call with the arguments of tp__convolve. NCHW data is copied to NHWC; the copies are stored after the
 * scratch of tp__convolve. */
typedef struct tp__conv_job {
    tp__conv_args a;
    tp__conv_pass pass;
    tp__bn after;
    size_t engine_bytes, x_bytes, y_bytes, scale_bytes;
} tp__conv_job;
static size_t tp__round64(size_t n) { return (n + 63) & ~(size_t)63; }
static tp__conv_job tp__conv_engine(const tp_call *k, tp__conv_pass pass)
{
    const tp_conv2d_attrs *t = (const tp_conv2d_attrs *)k->attrs;
    const tp_operand *x = pass == TP__CONV_INPUT_GRAD ? &k->in[2] : &k->in[0],
                     *w = pass == TP__CONV_FILTER_GRAD ? &k->in[2] : &k->in[1];
    const tp__conv g = tp__conv_geometry_padded(t, k->fused.pad, &x->shape, &w->shape);
    tp__conv_job j;
    memset(&j, 0, sizeof j);
    j.pass = pass;
    j.a.g = g;
    if (k->fused.bias) j.a.epilogue.bias = (const float *)k->in[k->fused.bias].data;
    j.a.epilogue.act = k->fused.act, j.a.epilogue.most = k->fused.most;
    if (k->fused.norm) { /* while only sizes are computed, data may be NULL: any address will do */
        const float *norm = (const float *)k->in[k->fused.norm].data;
        static const float unknown = 0;
        j.a.norm = norm ? norm : &unknown;
        j.a.norm_relu = k->fused.norm_relu;
    }
    j.engine_bytes = tp__round64(tp__convolve_scratch(k->device, &j.a, pass));
    j.x_bytes = tp__round64(tp__scratch_of(g.B * g.H * g.W * g.C, sizeof(float)));
    j.y_bytes = tp__round64(tp__scratch_of(g.B * g.OH * g.OW * g.O, sizeof(float)));
    j.scale_bytes = k->fused.norm_after ? tp__round64(tp__scratch_of(g.O, sizeof(float))) : 0;
    return j;
}
/* The factor of each channel in a batch norm of given variances. */
static void tp__bn_scale(int64_t C, const float *gamma, const float *var, float epsilon, float *scale)
{
    for (int64_t c = 0; c < C; c++) scale[c] = gamma[c] / sqrtf(var[c] + epsilon);
}
/* Sets the normalisation of the output. `scale` has room for a value for each channel. */
static void tp__conv_norm_after(const tp_call *k, tp__conv_job *j, float *scale)
{
    const tp_operand *in = &k->in[k->fused.norm_after];
    j->after.C = j->a.g.O;
    tp__bn_scale(j->after.C, (const float *)in[0].data, (const float *)in[3].data, k->fused.epsilon, scale);
    j->after.scale = scale;
    j->after.beta = (const float *)in[1].data;
    j->after.mean = (const float *)in[2].data;
    j->after.relu = k->fused.norm_after_relu;
    j->a.after = &j->after;
}
/* (B,R,S) -> (B,S,R) */
static void tp__swap_last(const tp_call *k, const float *from, float *to, int64_t B, int64_t R, int64_t S)
{
    tp__move m;
    memset(&m, 0, sizeof m);
    m.dst = (char *)to, m.src = (const char *)from;
    m.size = sizeof(float);
    m.ndim = 3;
    m.dim[0] = B, m.dim[1] = R, m.dim[2] = S;
    m.dst_stride[0] = m.src_stride[0] = R * S;
    m.dst_stride[1] = 1, m.dst_stride[2] = R;
    m.src_stride[1] = S, m.src_stride[2] = 1;
    tp__move_fast(k, &m);
}
static void tp__conv_run(const tp_call *k, tp__conv_pass pass)
{
    tp__conv_job j = tp__conv_engine(k, pass);
    const tp__conv_args *a = &j.a;
    const int64_t hw = a->g.H * a->g.W, ohw = a->g.OH * a->g.OW;
    float *x = (float *)(pass == TP__CONV_INPUT_GRAD ? k->out[0].data : k->in[0].data);
    float *w = (float *)(pass == TP__CONV_FILTER_GRAD ? k->out[0].data : k->in[1].data);
    float *y = (float *)(pass == TP__CONV_FORWARD      ? k->out[0].data
                         : pass == TP__CONV_INPUT_GRAD ? k->in[0].data
                                                       : k->in[1].data);
    float *user_x = x, *user_y = y;
    const bool swapped = j.a.g.nchw && k->scratch; /* a call without elements has no scratch */
    if (swapped) {
        x = (float *)(void *)((char *)k->scratch + j.engine_bytes);
        y = (float *)(void *)((char *)k->scratch + j.engine_bytes + j.x_bytes);
        if (pass != TP__CONV_INPUT_GRAD) tp__swap_last(k, user_x, x, a->g.B, a->g.C, hw);
        if (pass != TP__CONV_FORWARD) tp__swap_last(k, user_y, y, a->g.B, a->g.O, ohw);
    }
    if (k->fused.add) j.a.more = (const float *)k->in[k->fused.add].data;
    if (k->fused.norm_after) tp__conv_norm_after(k, &j, (float *)(void *)((char *)k->scratch + j.engine_bytes));
    if (pass == TP__CONV_FORWARD) j.a.kept = (float *)k->kept, j.a.kept_is_ready = k->kept_is_ready;
    j.a.x = x, j.a.dx = x, j.a.w = w, j.a.dw = w, j.a.y = y, j.a.dy = y;
    tp__convolve(k->device, &j.a, pass, k->scratch);
    if (swapped && pass == TP__CONV_FORWARD) tp__swap_last(k, y, user_y, a->g.B, ohw, a->g.O);
    if (swapped && pass == TP__CONV_INPUT_GRAD) tp__swap_last(k, x, user_x, a->g.B, hw, a->g.C);
}
static void tp__conv2d_fast(const tp_call *k) { tp__conv_run(k, TP__CONV_FORWARD); }
static void tp__conv2d_input_grad_fast(const tp_call *k) { tp__conv_run(k, TP__CONV_INPUT_GRAD); }
static void tp__conv2d_filter_grad_fast(const tp_call *k) { tp__conv_run(k, TP__CONV_FILTER_GRAD); }
static size_t tp__conv_scratch(const tp_call *k, tp__conv_pass pass)
{
    if (k->in[0].dtype == TP_F64) return 0;
    const tp__conv_job j = tp__conv_engine(k, pass);
    return tp__scratch_sum(j.engine_bytes, j.a.g.nchw ? tp__scratch_sum(j.x_bytes, j.y_bytes) : j.scale_bytes);
}
static size_t tp__conv2d_scratch(const tp_call *k) { return tp__conv_scratch(k, TP__CONV_FORWARD); }
/* Bytes that the kernel of a call fills with packed weights in a plan's first run and finds in later ones, if the weights are the
 * same; 0: none. The weights are the second input. */
TP__UNUSED static size_t tp__kept_bytes(const tp_call *k)
{
    int64_t count = 0, floats = 0;
    if (!k->device->isa || k->in[0].dtype != TP_F32) return 0;
    if (k->op->fast == tp__conv2d_fast) {
        const tp__conv_job j = tp__conv_engine(k, TP__CONV_FORWARD);
        floats = tp__conv_kept(k->device, &j.a);
    } else if (k->op->fast == tp__matmul_fast && !k->device->amx) {
        const tp__gemm_args g = tp__matmul_gemm(k, &count);
        floats = count == 1 ? tp__gemm_kept(k->device, &g) : 0;
    }
    return (size_t)floats * sizeof(float);
}
static size_t tp__conv2d_input_grad_scratch(const tp_call *k) { return tp__conv_scratch(k, TP__CONV_INPUT_GRAD); }
static size_t tp__conv2d_filter_grad_scratch(const tp_call *k) { return tp__conv_scratch(k, TP__CONV_FILTER_GRAD); }

/* -- bias_add ------------------------------------------------------------------------- >>fast bias_add */
/* Rows of few channels are added several at a time, because a call for each would take longer than the row: the bias is repeated. */
static void tp__bias_rows(const tp_call *k, int64_t from, int64_t to)
{
    enum { WIDE = 512 };
    const int64_t C = k->in[1].shape.dim[0], rows = 2 * C <= WIDE ? tp__min64(WIDE / C, to - from) : 1;
    const tp_vec_fn add = tp_vec_find_add(k->device);
    const float *in[2] = {NULL, (const float *)k->in[1].data};
    float wide[WIDE];
    for (int64_t i = 0; i < rows * C && rows > 1; i++) wide[i] = i < C ? in[1][i] : wide[i - C];
    if (rows > 1) in[1] = wide;
    for (int64_t r = from; r < to; r += rows) {
        in[0] = (const float *)k->in[0].data + r * C;
        add(tp__min64(rows, to - r) * C, (float *)k->out[0].data + r * C, in);
    }
}
/* bias_add in NCHW: adds b[channel] to each plane, an image's values of one channel. */
TP__HOT static void tp__bias_planes(const tp_call *k, int64_t from, int64_t to)
{
    const int64_t C = k->in[1].shape.dim[0], n = tp__product(&k->in[0].shape, 2, k->in[0].shape.ndim);
    for (int64_t r = from; r < to; r++) {
        const float *x = (const float *)k->in[0].data + r * n, b = ((const float *)k->in[1].data)[r % C];
        float *y = (float *)k->out[0].data + r * n;
        for (int64_t i = 0; i < n; i++) y[i] = x[i] + b;
    }
}
static void tp__bias_add_fast(const tp_call *k)
{
    const int64_t C = k->in[1].shape.dim[0];
    if (((const tp__bias_attrs *)k->attrs)->data_format == TP_NCHW) {
        const int64_t planes = C * k->in[0].shape.dim[0];
        if (planes > 0) tp__each_range(k, planes, tp__grain(tp__size(&k->out[0]) / planes), tp__bias_planes);
    } else if (!tp_vec_find_add(k->device) || C < 1) tp__bias_add_f32(k);
    else tp__each_range(k, tp__size(&k->out[0]) / C, tp__grain(C), tp__bias_rows);
}

/* -- max_pool, avg_pool and their gradients ------------------------------------------- >>fast max_pool */
/* For NHWC and windows of at most 256 elements, with vectors along the channels. Sets tap to the offsets, from the
 * window's corner, of the elements of a window that are inside the image; returns their number. */
static int tp__pool_window(const tp__pool *g, int64_t i, int64_t j, int64_t *tap, uint8_t *index)
{
    int n = 0;
    for (int64_t p = 0; p < g->window_h; p++)
        for (int64_t q = 0; q < g->window_w; q++) {
            const int64_t h = i * g->stride_h + p - g->top, v = j * g->stride_w + q - g->left;
            if (h < 0 || h >= g->H || v < 0 || v >= g->W) continue;
            tap[n] = p * g->x_stride_h + q * g->x_stride_w;
            index[n++] = (uint8_t)(p * g->window_w + q);
        }
    return n;
}
/* Whether the windows tile the image, so that each element belongs to exactly one. */
static bool tp__pool_tiles(const tp__pool *g)
{
    return g->window_h == g->stride_h && g->window_w == g->stride_w && g->OH * g->stride_h == g->H &&
           g->OW * g->stride_w == g->W;
}
static void tp__max_pool_rows(const tp_call *k, int64_t from, int64_t to)
{
    const tp__pool g = tp__pool_geometry_padded((const tp_pool_attrs *)k->attrs, k->fused.pad, &k->in[0].shape);
    const int window_size = (int)(g.window_h * g.window_w);
    int64_t tap[256];
    uint8_t index[256];
    int n = 0;
    for (int64_t r = from; r < to; r++) {
        const int64_t b = r / g.OH, i = r % g.OH;
        for (int64_t j = 0, pixels; j < g.OW; j += pixels) {
            const int64_t Y = b * g.y_stride_b + i * g.y_stride_h + j * g.y_stride_w, h = i * g.stride_h - g.top,
                          v = j * g.stride_w - g.left, room = g.W - g.window_w - v;
            const bool inside = h >= 0 && v >= 0 && h + g.window_h <= g.H && room >= 0;
            if (!inside || n != window_size) n = tp__pool_window(&g, i, j, tap, index);
            /* with stride 1, pixels whose windows have all their columns are like one pixel of more channels */
            pixels = g.stride_w == 1 && v >= 0 && room >= 0 ? tp__min64(room + 1, g.OW - j) : 1;
            tp__pool_of[k->device->isa->level](
                pixels * g.C, n, (const float *)k->in[0].data + b * g.x_stride_b + h * g.x_stride_h + v * g.x_stride_w,
                tap, index, (float *)k->out[0].data + Y, k->out[1].data ? (uint8_t *)k->out[1].data + Y : NULL);
        }
    }
}
/* y[i] = max(y[i], x[i * step]); NaN counts as larger than any number. If index is not NULL, index[i] = w where x was larger. */
TP__HOT static void tp__pool_tap(int64_t n, float *y, const float *x, int64_t step, uint8_t *index, uint8_t w)
{
    if (index) {
        for (int64_t i = 0; i < n; i++) {
            const float e = x[i * step];
            const bool better = (e > y[i]) | ((e != e) & (y[i] == y[i])); /* no branch, which would be guessed wrong */
            y[i] = better ? e : y[i];
            index[i] = better ? w : index[i];
        }
    } else if (step == 1) {
        for (int64_t i = 0; i < n; i++) y[i] = (x[i] > y[i]) | ((x[i] != x[i]) & (y[i] == y[i])) ? x[i] : y[i];
    } else {
        for (int64_t i = 0; i < n; i++) {
            const float e = x[i * step];
            y[i] = (e > y[i]) | ((e != e) & (y[i] == y[i])) ? e : y[i];
        }
    }
}
/* max_pool in NCHW: computes the rows [from, to) of the output. For one place (u, v) of the window, the inputs of a row of outputs lie
 * in one row of the image, stride_w apart. */
static void tp__max_pool_planes(const tp_call *k, int64_t from, int64_t to)
{
    const tp__pool g = tp__pool_geometry((const tp_pool_attrs *)k->attrs, &k->in[0].shape);
    for (int64_t r = from; r < to; r++) {
        const int64_t h = r % g.OH * g.stride_h - g.top, u_from = h < 0 ? -h : 0,
                      u_to = h + g.window_h <= g.H ? g.window_h : g.H - h;
        const float *x = (const float *)k->in[0].data + (r / g.OH * g.H + h) * g.W - g.left;
        float *y = (float *)k->out[0].data + r * g.OW;
        uint8_t *index = k->out[1].data ? (uint8_t *)k->out[1].data + r * g.OW : NULL;
        for (int64_t j = 0; j < g.OW; j++) {
            const int64_t v = g.left - j * g.stride_w; /* the first column of the window that is in the image */
            y[j] = -INFINITY;
            if (index) index[j] = (uint8_t)(u_from * g.window_w + (v > 0 ? v : 0));
        }
        for (int64_t u = u_from; u < u_to; u++)
            for (int64_t v = 0; v < g.window_w; v++) {
                const int64_t first = v < g.left ? tp__ceil_div(g.left - v, g.stride_w) : 0,
                              all = g.W + g.left > v ? tp__ceil_div(g.W + g.left - v, g.stride_w) : 0,
                              end = all < g.OW ? all : g.OW;
                if (first < end)
                    tp__pool_tap(end - first, y + first, x + u * g.W + first * g.stride_w + v, g.stride_w,
                                 index ? index + first : NULL, (uint8_t)(u * g.window_w + v));
            }
    }
}

/* -- windows by rows: avg_pool, its gradient, and max_pool of large windows ----------------------------- */
/* For each column of a window, the elements that a row of results reads lie in one row of x, stride_w pixels apart. An image in
 * NCHW is treated as C images of one channel. Of a large window that overlaps others, the rows are added up first, so that each
 * result takes window_h + window_w additions, not their product. A lane computes some rows of the result. */
#define TP__POOL_LANES   32
typedef struct tp__pool_job {
    const tp_call *k;
    tp__pool g;
    bool separate;        /* rows first */
    bool inside;          /* no window reaches over the left or right border */
    bool narrow;          /* rows of so few values that the plain loop is faster */
    int64_t rows;         /* of the result */
    int64_t lanes, width; /* width: floats of the longer of a row of x and one of y */
} tp__pool_job;
static bool tp__pool_separates(const tp__pool *g)
{
    const int64_t size = g->window_h * g->window_w;
    return size > 64 && 3 * (g->window_h * g->stride_w + g->window_w) < size;
}
static tp__pool_job tp__pool_begin(const tp_call *k, const tp_operand *x, bool back)
{
    tp__pool_job j;
    j.k = k;
    j.g = tp__pool_geometry_padded((const tp_pool_attrs *)k->attrs, k->fused.pad, &x->shape);
    if (j.g.nchw) {
        j.g.B *= j.g.C, j.g.x_stride_b /= tp__max64(1, j.g.C), j.g.y_stride_b /= tp__max64(1, j.g.C);
        j.g.C = 1;
    }
    j.separate = tp__pool_separates(&j.g);
    j.inside = j.g.left == 0 && (j.g.OW - 1) * j.g.stride_w + j.g.window_w <= j.g.W;
    j.narrow = !j.separate && j.g.C * j.g.OW < 8;
    j.rows = j.g.B * (back ? j.g.H : j.g.OH);
    j.width = tp__max64(j.g.W, j.g.OW) * j.g.C;
    j.lanes = tp__max64(1, tp__min64(tp__min64(TP__POOL_LANES, j.rows), j.rows * j.width / 4096));
    return j;
}
static int64_t tp__pool_lane_begin(const tp__pool_job *j, int64_t lane) { return lane * j->rows / j->lanes; }
/* Sets *first to the first result in a row whose window has column q inside of the image; returns how many there are. */
static int64_t tp__pool_span(const tp__pool *g, int64_t q, int64_t *first)
{
    *first = q < g->left ? tp__ceil_div(g->left - q, g->stride_w) : 0;
    return tp__min64(g->OW, g->W + g->left > q ? tp__ceil_div(g->W + g->left - q, g->stride_w) : 0) - *first;
}
/* Adds each element of row x to the results in y whose windows contain it. `back`: adds each result in y to the elements of x in its
 * window, in the order of the windows. */
static void tp__pool_add_row(const tp__pool_job *j, bool back, float *x, float *y)
{
    const tp__pool *g = &j->g;
    const int level = j->k->device->isa->level;
    for (int64_t p = 0; p < g->window_w; p++) {
        const int64_t q = back ? g->window_w - 1 - p : p;
        int64_t first = 0;
        const int64_t n = j->inside ? g->OW : tp__pool_span(g, q, &first),
                      at = (first * g->stride_w + q - g->left) * g->C, step = g->stride_w * g->C;
        if (n <= 0) continue;
        if (back) tp__pool_add_of[level](n, g->C, y + first * g->C, g->C, x + at, step);
        else tp__pool_add_of[level](n, g->C, x + at, step, y + first * g->C, g->C);
    }
}
/* Divides each of a row of results by the number of elements of its window inside of the image, of which it has `rows` rows. */
static void tp__pool_divide(const tp__pool_job *j, int64_t rows, float *y)
{
    const tp__pool *g = &j->g;
    const int64_t room = g->W + g->left - g->window_w, whole = room < 0 ? 0 : tp__min64(g->OW, room / g->stride_w + 1);
    for (int64_t i = 0, end; i < g->OW; i = end) { /* windows i .. end - 1 have the same number of columns inside */
        const int64_t v = i * g->stride_w - g->left, columns = tp__min64(g->W, v + g->window_w) - tp__max64(0, v);
        end = v >= 0 && i < whole ? whole : i + 1;
        tp__divide_of[j->k->device->isa->level]((end - i) * g->C, y + i * g->C, (float)(rows * columns));
    }
}
static void tp__pool_sum(const tp__pool_job *j, int64_t n, float *sum, const float *x)
{
    const float *in[2];
    in[0] = sum, in[1] = x;
    tp__vec_add_of[j->k->device->isa->level](n, sum, in);
}
static void tp__avg_pool_lane(void *user, int64_t lane)
{
    const tp__pool_job *j = (const tp__pool_job *)user;
    const tp__pool *g = &j->g;
    float *sum = j->separate ? (float *)j->k->scratch + lane * j->width : NULL;
    const int64_t end = tp__pool_lane_begin(j, lane + 1);
    for (int64_t r = tp__pool_lane_begin(j, lane); r < end; r++) {
        const int64_t h = r % g->OH * g->stride_h - g->top, from = tp__max64(0, h),
                      to = tp__min64(g->H, h + g->window_h);
        float *x = (float *)j->k->in[0].data + r / g->OH * g->x_stride_b,
              *y = (float *)j->k->out[0].data + r * g->OW * g->C;
        memset(y, 0, (size_t)(g->OW * g->C) * sizeof *y);
        if (j->separate) memset(sum, 0, (size_t)(g->W * g->C) * sizeof *sum);
        for (int64_t u = from; u < to; u++)
            if (j->separate) tp__pool_sum(j, g->W * g->C, sum, x + u * g->x_stride_h);
            else tp__pool_add_row(j, false, x + u * g->x_stride_h, y);
        if (j->separate) tp__pool_add_row(j, false, sum, y);
        tp__pool_divide(j, to - from, y);
    }
}
static void tp__avg_pool_grad_lane(void *user, int64_t lane)
{
    const tp__pool_job *j = (const tp__pool_job *)user;
    const tp__pool *g = &j->g;
    const int64_t n = g->OW * g->C;
    float *d = (float *)j->k->scratch + lane * 2 * j->width, *sum = d + j->width;
    const int64_t end = tp__pool_lane_begin(j, lane + 1);
    for (int64_t r = tp__pool_lane_begin(j, lane); r < end; r++) {
        const int64_t h = r % g->H + g->top, /* windows from .. to - 1 have row h */
            from = h < g->window_h ? 0 : (h - g->window_h) / g->stride_h + 1,
                      to = tp__min64(g->OH, h / g->stride_h + 1);
        float *dx = (float *)j->k->out[0].data + r * g->W * g->C;
        memset(dx, 0, (size_t)(g->W * g->C) * sizeof *dx);
        if (j->separate) memset(sum, 0, (size_t)n * sizeof *sum);
        for (int64_t i = from; i < to; i++) {
            const int64_t u = i * g->stride_h - g->top;
            memcpy(d, (const float *)j->k->in[0].data + r / g->H * g->y_stride_b + i * n, (size_t)n * sizeof *d);
            tp__pool_divide(j, tp__min64(g->H, u + g->window_h) - tp__max64(0, u), d);
            if (j->separate) tp__pool_sum(j, n, sum, d);
            else tp__pool_add_row(j, true, dx, d);
        }
        if (j->separate) tp__pool_add_row(j, true, dx, sum);
    }
}
/* Max pooling: for each column of x the greatest of the window's rows, and its place in the window, then the greatest of these
 * along the row. Of equal ones, and of NaN, the one with the least place is chosen, as a loop over the window would choose it. */
TP__HOT static void tp__max_pool_lane(void *user, int64_t lane)
{
    const tp__pool_job *j = (const tp__pool_job *)user;
    const tp_operand *which = &j->k->out[1];
    const tp__pool *g = &j->g;
    const int level = j->k->device->isa->level;
    const int64_t end = tp__pool_lane_begin(j, lane + 1), n_x = g->W * g->C, n_y = g->OW * g->C;
    float *most = (float *)j->k->scratch + lane * 4 * j->width, *unread = most + j->width;
    int32_t *most_at = (int32_t *)(void *)(unread + j->width), *at = most_at + j->width;
    for (int64_t r = tp__pool_lane_begin(j, lane); r < end; r++) {
        const int64_t h = r % g->OH * g->stride_h - g->top, to = tp__min64(g->H, h + g->window_h);
        const float *x = (const float *)j->k->in[0].data + r / g->OH * g->x_stride_b;
        float *y = j->k->out[0].data ? (float *)j->k->out[0].data + r * n_y : unread;
        for (int64_t i = 0; i < n_x; i++) most[i] = -INFINITY, most_at[i] = INT32_MAX;
        for (int64_t i = 0; i < n_y; i++) y[i] = -INFINITY, at[i] = INT32_MAX;
        for (int64_t u = tp__max64(0, h); u < to; u++)
            tp__pool_max_of[level](1, n_x, x + u * g->x_stride_h, n_x, NULL, (int32_t)((u - h) * g->window_w), most,
                                   most_at);
        for (int64_t q = 0; q < g->window_w; q++) {
            int64_t first = 0;
            const int64_t n = j->inside ? g->OW : tp__pool_span(g, q, &first),
                          from = (first * g->stride_w + q - g->left) * g->C;
            if (n > 0)
                tp__pool_max_of[level](n, g->C, most + from, g->stride_w * g->C, most_at + from, (int32_t)q,
                                       y + first * g->C, at + first * g->C);
        }
        if (which->data && which->dtype == TP_I32)
            memcpy((int32_t *)which->data + r * n_y, at, (size_t)n_y * sizeof *at);
        else if (which->data)
            for (int64_t i = 0; i < n_y; i++) ((uint8_t *)which->data)[r * n_y + i] = (uint8_t)at[i];
    }
}
/* Whether maxima are found along rows first. Those of windows of more than 256 elements are, too: the other kernels store a place in
 * the window as one byte. */
static bool tp__max_pool_by_rows(const tp__pool *g) { return g->window_h * g->window_w > 256 || tp__pool_separates(g); }
static void tp__max_pool_fast(const tp_call *k)
{
    tp__pool_job j = tp__pool_begin(k, &k->in[0], false);
    const tp__pool g = j.g;
    if (j.rows < 1) return;
    if (tp__max_pool_by_rows(&g)) tp_device_parallel(k->device, j.lanes, tp__max_pool_lane, &j);
    else if (!k->out[0].data) tp__max_pool_f32(k);
    else if (g.nchw) tp__each_range(k, j.rows, tp__grain(g.OW * g.window_h * g.window_w), tp__max_pool_planes);
    else tp__each_range(k, j.rows, tp__grain(g.OW * g.C * 2), tp__max_pool_rows);
}
static size_t tp__max_pool_scratch(const tp_call *k)
{
    const tp__pool_job j = tp__pool_begin(k, &k->in[0], false);
    const bool by_rows = tp__max_pool_by_rows(&j.g) && k->in[0].dtype == TP_F32;
    return by_rows ? tp__scratch_of(j.lanes * 4 * j.width, sizeof(float)) : 0;
}
static void tp__avg_pool_fast(const tp_call *k)
{
    tp__pool_job j = tp__pool_begin(k, &k->in[0], false);
    if (j.narrow) tp__avg_pool_f32(k);
    else if (j.rows > 0) tp_device_parallel(k->device, j.lanes, tp__avg_pool_lane, &j);
}
static void tp__avg_pool_grad_fast(const tp_call *k)
{
    tp__pool_job j = tp__pool_begin(k, &k->in[1], true);
    if (j.narrow) tp__avg_pool_grad_f32(k);
    else if (j.rows > 0) tp_device_parallel(k->device, j.lanes, tp__avg_pool_grad_lane, &j);
}
static size_t tp__avg_pool_scratch(const tp_call *k)
{
    const tp__pool_job j = tp__pool_begin(k, &k->in[0], false);
    return j.separate && k->in[0].dtype == TP_F32 ? tp__scratch_of(j.lanes * j.width, sizeof(float)) : 0;
}
static size_t tp__avg_pool_grad_scratch(const tp_call *k)
{
    const tp__pool_job j = tp__pool_begin(k, &k->in[1], true);
    return k->in[0].dtype == TP_F32 ? tp__scratch_of(j.lanes * 2 * j.width, sizeof(float)) : 0;
}

/* The gradient of max pooling for windows that tile an image with channels last: each element of dx is written once. */
static void tp__max_pool_grad_tiles(const tp_call *k, int64_t from, int64_t to)
{
    const tp__pool g = tp__pool_geometry((const tp_pool_attrs *)k->attrs, &k->in[2].shape);
    int64_t tap[256];
    uint8_t index[256];
    const int n = tp__pool_window(&g, 0, 0, tap, index);
    for (int64_t b = from; b < to; b++)
        for (int64_t i = 0; i < g.OH; i++)
            for (int64_t j = 0; j < g.OW; j++) {
                const int64_t Y = b * g.y_stride_b + i * g.y_stride_h + j * g.y_stride_w;
                const float *dy = (const float *)k->in[0].data + Y;
                float *dx = (float *)k->out[0].data + b * g.x_stride_b + i * g.stride_h * g.x_stride_h +
                            j * g.stride_w * g.x_stride_w;
                tp__unpool_of[k->device->isa->level](g.C, n, dy, (const uint8_t *)k->in[1].data + Y, tap, dx);
            }
}
/* Adds row i of dy to the elements of an image, dx, that were chosen. Their places are in `small`, where row[w] is the row of element w
 * of a window, or in `large`. */
static void tp__unpool_row(const tp__pool *g, int64_t i, const uint8_t *row, const float *dy, const uint8_t *small,
                           const int32_t *large, float *dx)
{
    const int64_t size = g->window_h * g->window_w, h = i * g->stride_h - g->top;
    for (int64_t j = 0; j < g->OW; j++) {
        const int64_t v = j * g->stride_w - g->left;
        const bool inside = h >= 0 && v >= 0 && h + g->window_h <= g->H && v + g->window_w <= g->W;
        float *corner = dx + (h * g->W + v) * g->C;
        for (int64_t c = 0; c < g->C; c++, dy++) {
            const int64_t w = small ? *small++ : *large++;
            if (w < 0 || w >= size) continue;
            const int64_t p = small ? row[w] : w / g->window_w, q = w - p * g->window_w;
            if (inside || (h + p >= 0 && h + p < g->H && v + q >= 0 && v + q < g->W))
                corner[(p * g->W + q) * g->C + c] += *dy;
        }
    }
}
static void tp__max_pool_grad_images(const tp_call *k, int64_t from, int64_t to)
{
    const tp__pool g = tp__pool_begin(k, &k->in[2], true).g;
    const bool small = k->in[1].dtype == TP_U8;
    uint8_t row[256];
    for (int64_t w = 0; w < 256; w++) row[w] = (uint8_t)(w / g.window_w);
    for (int64_t b = from; b < to; b++) {
        float *dx = (float *)k->out[0].data + b * g.x_stride_b;
        memset(dx, 0, (size_t)g.x_stride_b * sizeof *dx);
        for (int64_t i = 0; i < g.OH; i++) {
            const int64_t Y = b * g.y_stride_b + i * g.OW * g.C;
            tp__unpool_row(&g, i, row, (const float *)k->in[0].data + Y,
                           small ? (const uint8_t *)k->in[1].data + Y : NULL,
                           small ? NULL : (const int32_t *)k->in[1].data + Y, dx);
        }
    }
}
static void tp__max_pool_grad_fast(const tp_call *k)
{
    const tp__pool g = tp__pool_begin(k, &k->in[2], true).g;
    const bool channels_last = ((const tp_pool_attrs *)k->attrs)->data_format != TP_NCHW;
    if (channels_last && k->in[1].dtype == TP_U8 && tp__pool_tiles(&g))
        tp__each_range(k, g.B, tp__grain(g.x_stride_b), tp__max_pool_grad_tiles);
    else tp__each_range(k, g.B, tp__grain(g.x_stride_b), tp__max_pool_grad_images);
}

/* -- batch_norm, batch_norm_grad, batch_norm_infer ------------------------------------ >>fast batch_norm */
/* Batch norm with channels last: the rows are divided into at most 32 pieces. Blocks of rows that stay in the cache are
 * summed in float; the sums of the blocks, then of the pieces, are added in double, in order. */
#define TP__BN_PIECES    32
#define TP__BN_BLOCK     64
#define TP__BN_FEW       15 /* with up to so many channels, rows are laid side by side */
#define TP__BN_WIDE      64 /* floats of such a wide row at most */
typedef struct tp__bn_job {
    const tp_call *k;
    const struct tp__isa *isa;
    int64_t rows, pieces;
    const float *x, *dy; /* dy is NULL if the statistics of x are computed */
    const float *more;   /* a tensor to which dx is added while it is written, or NULL */
    float *dx;           /* the tensor that is written: y forward, dx backward */
    /* pieces x 2 x C: mean and sum of squared differences from the mean; backward the two sums of each channel */
    double *part;
    float *block; /* pieces x 2 x C floats: the sums of a block */
    float *stat;  /* four vectors of C floats: mean, scale, c1, c2 of tp__bn */
    tp__bn ch;
} tp__bn_job;
/* Merges the mean and sum of squared differences of n rows into those of `n_before` rows. */
TP__HOT static void tp__bn_merge(int64_t C, double *mean, double *squares, double n_before, const float *mean_n,
                                 const double *mean_n64, const float *squares_n, const double *squares_n64, double n)
{
    const double new_fraction = n / (n_before + n), weight = n_before * new_fraction;
    for (int64_t c = 0; c < C; c++) {
        const double d = (mean_n ? (double)mean_n[c] : mean_n64[c]) - mean[c];
        mean[c] += d * new_fraction;
        squares[c] += (squares_n ? (double)squares_n[c] : squares_n64[c]) + d * d * weight;
    }
}
static int64_t tp__bn_begin_of(const tp__bn_job *j, int64_t piece) { return piece * j->rows / j->pieces; }
/* Rows of few channels, which would leave lanes of a vector empty, are laid side by side: `fold` rows of C channels are one of fold C. */
typedef struct tp__bn_wide {
    int64_t fold;
    float v[5][TP__BN_WIDE]; /* the vectors of tp__bn, repeated */
    tp__bn ch;
} tp__bn_wide;
static void tp__bn_widen(const tp__bn *ch, int64_t rows, tp__bn_wide *w)
{
    const float *from[5] = {ch->mean, ch->scale, ch->beta, ch->c1, ch->c2};
    w->fold = 1;
    w->ch = *ch;
    if (ch->C > TP__BN_FEW) return;
    while (w->fold * ch->C * 2 <= TP__BN_WIDE && w->fold * 8 <= rows) w->fold *= 2;
    for (int q = 0; q < 5; q++)
        for (int64_t i = 0; i < w->fold && from[q]; i++)
            memcpy(w->v[q] + i * ch->C, from[q], (size_t)ch->C * sizeof(float));
    w->ch.C *= w->fold;
    w->ch.mean = w->v[0], w->ch.scale = w->v[1], w->ch.beta = w->v[2], w->ch.c1 = w->v[3], w->ch.c2 = w->v[4];
}
/* Of n rows, the next block: *fold rows side by side, or 1 for the last rows. Returns the number of wide rows. */
static int64_t tp__bn_next(const tp__bn_wide *w, int64_t n, int64_t *fold)
{
    *fold = n < w->fold ? 1 : w->fold;
    return tp__min64(TP__BN_BLOCK, n / *fold);
}
static void tp__bn_piece(void *user, int64_t piece)
{
    const tp__bn_job *j = (const tp__bn_job *)user;
    const int64_t C = j->ch.C, from = tp__bn_begin_of(j, piece), to = tp__bn_begin_of(j, piece + 1);
    double *a = j->part + piece * 2 * C;
    float few[2 * TP__BN_WIDE], *s = C > TP__BN_FEW ? j->block + piece * 2 * C : few;
    tp__bn_wide w;
    tp__bn_widen(&j->ch, to - from, &w);
    for (int64_t c = 0; c < 2 * C; c++) a[c] = 0;
    for (int64_t r = from; r < to;) {
        int64_t fold;
        const int64_t n = tp__bn_next(&w, to - r, &fold);
        tp__bn_sums_of[j->isa->level](fold > 1 ? &w.ch : &j->ch, n, j->dy ? j->dy + r * C : NULL, j->x + r * C, s,
                                      s + fold * C);
        for (int64_t i = 0; i < fold; i++, r += n) {
            const float *s1 = s + i * C, *s2 = s1 + fold * C;
            if (!j->dy) tp__bn_merge(C, a, a + C, (double)(r - from), s1, NULL, s2, NULL, (double)n);
            else
                for (int64_t c = 0; c < C; c++) a[c] += (double)s1[c], a[C + c] += (double)s2[c];
        }
    }
}
/* Adds the sums of all pieces into those of the first piece. */
static void tp__bn_reduce(tp__bn_job *j)
{
    const int64_t C = j->ch.C;
    tp_device_parallel(j->k->device, j->pieces, tp__bn_piece, j);
    for (int64_t p = 1; p < j->pieces; p++) {
        const double *a = j->part + p * 2 * C;
        if (!j->dy)
            tp__bn_merge(C, j->part, j->part + C, (double)tp__bn_begin_of(j, p), NULL, a, NULL, a + C,
                         (double)(tp__bn_begin_of(j, p + 1) - tp__bn_begin_of(j, p)));
        else
            for (int64_t c = 0; c < 2 * C; c++) j->part[c] += a[c];
    }
}
static void tp__bn_rows(void *user, int64_t piece)
{
    const tp__bn_job *j = (const tp__bn_job *)user;
    const int64_t C = j->ch.C, from = tp__bn_begin_of(j, piece), to = tp__bn_begin_of(j, piece + 1);
    tp__bn_wide w;
    tp__bn_widen(&j->ch, to - from, &w);
    for (int64_t r = from, n, fold; r < to; r += n * fold) {
        n = tp__bn_next(&w, to - r, &fold);
        const tp__bn *ch = fold > 1 ? &w.ch : &j->ch;
        if (j->dy)
            tp__bn_back_of[j->isa->level](ch, n, j->dy + r * C, j->x + r * C, j->more ? j->more + r * C : NULL,
                                          j->dx + r * C);
        else tp__bn_apply_of[j->isa->level](ch, n, j->x + r * C, j->dx + r * C);
    }
}
static bool tp__bn_begin(const tp_call *k, const tp_operand *x, tp__bn_job *j)
{
    int64_t outer, inner, C;
    memset(j, 0, sizeof *j);
    tp__bn_split(k, x, &outer, &C, &inner);
    j->k = k;
    j->isa = k->device->isa;
    j->rows = outer;
    j->pieces = tp__max64(1, tp__min64(TP__BN_PIECES, tp__min64(outer, outer * C / 4096)));
    j->x = (const float *)x->data;
    j->part = (double *)k->scratch;
    j->block = (float *)(void *)(j->part + TP__BN_PIECES * 2 * C);
    j->stat = j->block + TP__BN_PIECES * 2 * C;
    j->ch.C = C;
    j->ch.mean = j->stat;
    j->ch.scale = j->stat + C;
    j->ch.c1 = j->stat + 2 * C;
    j->ch.c2 = j->stat + 3 * C;
    j->ch.relu = k->fused.act == TP_EPILOGUE_RELU || k->fused.mask;
    return inner == 1 && outer > 0;
}
static void tp__batch_norm_vectors(const tp_call *k, tp__bn_job *j)
{
    const tp__bn_attrs *t = (const tp__bn_attrs *)k->attrs;
    const int64_t C = j->ch.C;
    const double n = (double)j->rows;
    tp__bn_reduce(j);
    for (int64_t c = 0; c < C; c++) {
        const double var = j->part[C + c] / n;
        const float inv = (float)(1.0 / sqrt(var + (double)t->epsilon));
        j->stat[c] = (float)j->part[c];
        j->stat[C + c] = inv * ((const float *)k->in[1].data)[c];
        if (k->out[1].data) ((float *)k->out[1].data)[c] = j->stat[c];
        if (k->out[2].data) ((float *)k->out[2].data)[c] = (float)(t->unbiased && n > 1 ? var * (n / (n - 1)) : var);
        if (k->out[3].data) ((float *)k->out[3].data)[c] = inv;
    }
    j->ch.beta = (const float *)k->in[2].data;
    j->dx = (float *)k->out[0].data;
    if (k->fused.elided) {
        memcpy(j->dx, j->stat, (size_t)(2 * C) * sizeof *j->dx);
        memcpy(j->dx + 2 * C, j->ch.beta, (size_t)C * sizeof *j->dx);
    } else if (j->dx) tp_device_parallel(k->device, j->pieces, tp__bn_rows, j);
}
static void tp__batch_norm_grad_vectors(const tp_call *k, tp__bn_job *j)
{
    const int64_t C = j->ch.C;
    const float *gamma = (const float *)k->in[2].data, *inv = (const float *)k->in[4].data;
    const double n = (double)j->rows;
    j->dy = (const float *)k->in[0].data;
    j->ch.beta = k->fused.mask ? (const float *)k->in[k->fused.mask].data : NULL;
    j->more = k->fused.add ? (const float *)k->in[k->fused.add].data : NULL;
    for (int64_t c = 0; c < C; c++) {
        j->stat[c] = ((const float *)k->in[3].data)[c];
        j->stat[C + c] = inv[c] * gamma[c];
    }
    tp__bn_reduce(j);
    for (int64_t c = 0; c < C; c++) {
        const double dgamma = j->part[C + c] * (double)inv[c];
        if (k->out[1].data) ((float *)k->out[1].data)[c] = (float)dgamma;
        if (k->out[2].data) ((float *)k->out[2].data)[c] = (float)j->part[c];
        j->stat[2 * C + c] = (float)(j->part[c] / n);
        j->stat[3 * C + c] = (float)(dgamma / n * (double)inv[c]);
    }
    j->dx = (float *)k->out[0].data;
    if (j->dx) tp_device_parallel(k->device, j->pieces, tp__bn_rows, j);
}
/* Channels first, as the plain loops compute it: the elements of a channel are a plane of each sample. */
static void tp__batch_norm_planes(const tp_call *k, int64_t from, int64_t to)
{
    const tp__bn_attrs *t = (const tp__bn_attrs *)k->attrs;
    const int level = k->device->isa->level;
    int64_t outer, C, inner;
    tp__bn_split(k, &k->in[0], &outer, &C, &inner);
    const double n = (double)(outer * inner);
    for (int64_t c = from; c < to; c++) {
        const float *x = (const float *)k->in[0].data + c * inner;
        double sum = 0, squares = 0;
        for (int64_t o = 0; o < outer; o++) tp__plane_moment_of[level](inner, x + o * C * inner, NULL, &sum);
        const double mean = sum / n;
        for (int64_t o = 0; o < outer; o++) tp__plane_moment_of[level](inner, x + o * C * inner, &mean, &squares);
        const double var = squares / n;
        const float v[4] = {(float)mean, (float)(1.0 / sqrt(var + (double)t->epsilon)),
                            ((const float *)k->in[1].data)[c], ((const float *)k->in[2].data)[c]};
        if (k->out[1].data) ((float *)k->out[1].data)[c] = v[0];
        if (k->out[2].data) ((float *)k->out[2].data)[c] = (float)(t->unbiased && n > 1 ? var * (n / (n - 1)) : var);
        if (k->out[3].data) ((float *)k->out[3].data)[c] = v[1];
        for (int64_t o = 0; o < outer && k->out[0].data; o++)
            tp__plane_norm_of[level](inner, x + o * C * inner, v, (float *)k->out[0].data + (o * C + c) * inner);
    }
}
static void tp__batch_norm_grad_planes(const tp_call *k, int64_t from, int64_t to)
{
    const int level = k->device->isa->level;
    int64_t outer, C, inner;
    tp__bn_split(k, &k->in[1], &outer, &C, &inner);
    const double n = (double)(outer * inner);
    for (int64_t c = from; c < to; c++) {
        const float *dy = (const float *)k->in[0].data + c * inner, *x = (const float *)k->in[1].data + c * inner;
        const float gamma = ((const float *)k->in[2].data)[c], mean = ((const float *)k->in[3].data)[c],
                    inv = ((const float *)k->in[4].data)[c];
        double sums[2] = {0, 0};
        for (int64_t o = 0; o < outer; o++)
            tp__plane_products_of[level](inner, dy + o * C * inner, x + o * C * inner, mean, inv, sums);
        if (k->out[1].data) ((float *)k->out[1].data)[c] = (float)sums[1];
        if (k->out[2].data) ((float *)k->out[2].data)[c] = (float)sums[0];
        const float v[5] = {mean, inv, (float)(sums[0] / n), (float)(sums[1] / n), gamma * inv};
        for (int64_t o = 0; o < outer && k->out[0].data; o++)
            tp__plane_back_of[level](inner, dy + o * C * inner, x + o * C * inner, v,
                                     (float *)k->out[0].data + (o * C + c) * inner);
    }
}
static void tp__batch_norm_fast(const tp_call *k)
{
    tp__bn_job j;
    if (tp__bn_begin(k, &k->in[0], &j)) tp__batch_norm_vectors(k, &j);
    else tp__each_range(k, j.ch.C, tp__grain(tp__size(&k->in[0]) / tp__max64(1, j.ch.C)), tp__batch_norm_planes);
}
static void tp__batch_norm_grad_fast(const tp_call *k)
{
    tp__bn_job j;
    if (tp__bn_begin(k, &k->in[1], &j)) tp__batch_norm_grad_vectors(k, &j);
    else tp__each_range(k, j.ch.C, tp__grain(tp__size(&k->in[1]) / tp__max64(1, j.ch.C)), tp__batch_norm_grad_planes);
}
static void tp__batch_norm_infer_fast(const tp_call *k)
{
    tp__bn_job j;
    if (tp__bn_begin(k, &k->in[0], &j)) {
        const float epsilon = ((const tp__bn_attrs *)k->attrs)->epsilon;
        tp__bn_scale(j.ch.C, (const float *)k->in[1].data, (const float *)k->in[4].data, epsilon, j.stat + j.ch.C);
        j.ch.mean = (const float *)k->in[3].data;
        j.ch.beta = (const float *)k->in[2].data;
        j.dx = (float *)k->out[0].data;
        tp_device_parallel(k->device, j.pieces, tp__bn_rows, &j);
        return;
    }
    tp__batch_norm_infer_loop_f32(k);
}
static size_t tp__bn_scratch(const tp_call *k)
{
    const tp_operand *gamma = k->n_out == 3 ? &k->in[2] : &k->in[1]; /* with three outputs the op is batch_norm_grad */
    return tp__scratch_of(gamma->shape.dim[0],
                          TP__BN_PIECES * 2 * (sizeof(double) + sizeof(float)) + 4 * sizeof(float));
}

/* -- layer_norm, layer_norm_grad ------------------------------------------------------ >>fast layer_norm */
#define TP__LN_PIECES    32
static void tp__ln_rows(const tp_call *k, int64_t from, int64_t to)
{
    const int64_t C = k->in[1].shape.dim[0];
    for (int64_t r = from; r < to; r++) {
        float mean, inv;
        tp__ln_row_of[k->device->isa->level](C, (const float *)k->in[0].data + r * C, (const float *)k->in[1].data,
                                             (const float *)k->in[2].data, ((const tp__ln_attrs *)k->attrs)->epsilon,
                                             (float *)k->out[0].data + r * C, &mean, &inv);
        if (k->out[1].data) ((float *)k->out[1].data)[r] = mean;
        if (k->out[2].data) ((float *)k->out[2].data)[r] = inv;
    }
}
typedef struct tp__ln_job {
    const tp_call *k;
    int64_t rows, pieces;
} tp__ln_job;
static void tp__ln_piece(void *user, int64_t piece)
{
    const tp__ln_job *j = (const tp__ln_job *)user;
    const tp_call *k = j->k;
    const int64_t C = k->in[2].shape.dim[0];
    float *part = (float *)k->scratch + piece * 2 * C;
    memset(part, 0, (size_t)(2 * C) * sizeof *part);
    for (int64_t r = piece * j->rows / j->pieces; r < (piece + 1) * j->rows / j->pieces; r++)
        tp__ln_back_of[k->device->isa->level](C, (const float *)k->in[0].data + r * C,
                                              (const float *)k->in[1].data + r * C, (const float *)k->in[2].data,
                                              ((const float *)k->in[3].data)[r], ((const float *)k->in[4].data)[r],
                                              k->out[0].data ? (float *)k->out[0].data + r * C : NULL, part, part + C);
}
static void tp__layer_norm_fast(const tp_call *k)
{
    const int64_t C = k->in[1].shape.dim[0];
    if (C > 0 && k->out[0].data) {
        tp__each_range(k, tp__size(&k->in[0]) / C, tp__grain(C * 4), tp__ln_rows);
        return;
    }
    tp__layer_norm_f32(k);
}
static void tp__layer_norm_grad_fast(const tp_call *k)
{
    const int64_t C = k->in[2].shape.dim[0];
    if (C > 0) {
        tp__ln_job j;
        j.k = k;
        j.rows = tp__size(&k->in[1]) / C;
        j.pieces = tp__max64(1, tp__min64(TP__LN_PIECES, tp__min64(j.rows, j.rows * C / 4096)));
        tp_device_parallel(k->device, j.pieces, tp__ln_piece, &j);
        tp__tree_add(k->device->isa, (float *)k->scratch, 2 * C, (int)j.pieces, 2 * C);
        for (int i = 0; i < 2; i++)
            if (k->out[1 + i].data) memcpy(k->out[1 + i].data, (float *)k->scratch + i * C, (size_t)C * sizeof(float));
        return;
    }
    tp__layer_norm_grad_f32(k);
}
static size_t tp__ln_scratch(const tp_call *k)
{
    return tp__scratch_of(k->in[2].shape.dim[0], TP__LN_PIECES * 2 * sizeof(float));
}

/* -- group_norm, group_norm_grad ------------------------------------------------------ >>fast group_norm */
/* With channels last, a sample is a batch norm of its own whose channels share the statistics of their group. With channels first, each
 * channel of a sample is a plane of adjacent elements. The units, samples or groups of planes, are split among at most 32 lanes. Each
 * lane sums dgamma and dbeta of its units in double; the sums of the lanes are added in order. */
#define TP__GN_LANES     32
#define TP__GN_PLANE     16 /* a long plane is computed as a matrix of so many columns */
#define TP__GN_SHORT     64 /* elements of a plane for which vectors are worth their calls */
typedef struct tp__gn_job {
    const tp_call *k;
    tp__gn_shape s;
    bool planes, relu; /* relu: a ReLU follows; backward, dy is taken as 0 where y is not positive */
    int64_t units, lanes,
        pieces;          /* pieces: with channels last and one lane, the pieces of a sample that run in parallel */
    const float *x, *dy; /* dy is NULL in the forward op */
    const float *gamma, *beta, *mean, *inv;
    float *to, *out_mean, *out_inv; /* to: y forward, dx backward */
} tp__gn_job;
/* A lane's scratch: sums of dgamma and dbeta, then those of tp__bn_job. */
typedef struct tp__gn_lane {
    double *dgamma, *dbeta, *part;
    float *block, *stat;
} tp__gn_lane;
static size_t tp__gn_lane_bytes(const tp__gn_job *j)
{
    return tp__scratch_of(j->s.C,
                          (size_t)(j->pieces + 1) * 2 * sizeof(double) + (size_t)(j->pieces * 2 + 4) * sizeof(float));
}
static tp__gn_lane tp__gn_lane_of(const tp__gn_job *j, int64_t lane)
{
    const int64_t C = j->s.C;
    tp__gn_lane l;
    l.dgamma = (double *)(void *)((char *)j->k->scratch + (size_t)lane * tp__gn_lane_bytes(j));
    l.dbeta = l.dgamma + C;
    l.part = l.dbeta + C;
    l.block = (float *)(void *)(l.part + j->pieces * 2 * C);
    l.stat = l.block + j->pieces * 2 * C;
    return l;
}
static tp__gn_job tp__gn_begin(const tp_call *k)
{
    const bool back = k->n_in > 3;
    tp__gn_job j;
    memset(&j, 0, sizeof j);
    j.k = k;
    j.s = tp__gn_shape_of(k, &k->in[back]);
    j.planes = j.s.inner > 1;
    j.units = j.planes ? j.s.B * j.s.groups : j.s.B;
    j.lanes = j.planes || j.units >= 8 ? tp__max64(1, tp__min64(TP__GN_LANES, j.units)) : 1;
    j.pieces = j.planes || j.units >= 8 ? 1 : tp__min64(TP__BN_PIECES, tp__min64(j.s.rows, j.s.rows * j.s.C / 4096));
    if (j.pieces < 1) j.pieces = 1;
    j.dy = back ? (const float *)k->in[0].data : NULL;
    j.x = (const float *)k->in[back].data;
    j.gamma = (const float *)k->in[back + 1].data;
    j.relu = k->fused.act == TP_EPILOGUE_RELU || k->fused.mask;
    j.beta = !back ? (const float *)k->in[2].data : j.relu ? (const float *)k->in[k->fused.mask].data : NULL;
    j.mean = back ? (const float *)k->in[3].data : NULL;
    j.inv = back ? (const float *)k->in[4].data : NULL;
    j.to = (float *)k->out[0].data;
    j.out_mean = back ? NULL : (float *)k->out[1].data;
    j.out_inv = back ? NULL : (float *)k->out[2].data;
    return j;
}
static size_t tp__gn_scratch(const tp_call *k)
{
    const tp__gn_job j = tp__gn_begin(k);
    return tp__scratch_of(j.lanes, tp__gn_lane_bytes(&j));
}
/* Stores the statistics of group g of sample b and returns inv. */
static float tp__gn_statistics(const tp__gn_job *j, int64_t b, int64_t g, double mean, double squares)
{
    const double n = (double)(j->s.rows * j->s.per_group * j->s.inner);
    const float inv = (float)(1.0 / sqrt(squares / n + (double)((const tp__gn_attrs *)j->k->attrs)->epsilon));
    if (j->out_mean) j->out_mean[b * j->s.groups + g] = (float)mean;
    if (j->out_inv) j->out_inv[b * j->s.groups + g] = inv;
    return inv;
}

/* -- channels last */

/* Computes mean and scale of all channels of sample b from the sums of its channels. */
static void tp__gn_forward_stat(const tp__gn_job *j, int64_t b, const tp__gn_lane *l)
{
    const int64_t C = j->s.C, K = j->s.per_group;
    for (int64_t g = 0; g < j->s.groups; g++) {
        double mean = 0, squares = 0;
        for (int64_t c = g * K; c < (g + 1) * K; c++) mean += l->part[c];
        mean /= (double)K;
        for (int64_t c = g * K; c < (g + 1) * K; c++) {
            const double d = l->part[c] - mean;
            squares += l->part[C + c] + (double)j->s.rows * d * d;
        }
        const float inv = tp__gn_statistics(j, b, g, mean, squares);
        for (int64_t c = g * K; c < (g + 1) * K; c++) {
            l->stat[c] = (float)mean;
            l->stat[C + c] = inv * j->gamma[c];
        }
    }
}
/* Adds the sums of sample b to dgamma and dbeta, and computes what dx needs of them. */
static void tp__gn_back_stat(const tp__gn_job *j, int64_t b, const tp__gn_lane *l)
{
    const int64_t C = j->s.C, K = j->s.per_group;
    const double n = (double)(j->s.rows * K);
    for (int64_t g = 0; g < j->s.groups; g++) {
        const double inv = (double)j->inv[b * j->s.groups + g];
        double sum = 0, products = 0;
        for (int64_t c = g * K; c < (g + 1) * K; c++) {
            sum += l->part[c] * (double)j->gamma[c];
            products += l->part[C + c] * (double)j->gamma[c];
            l->dgamma[c] += l->part[C + c] * inv;
            l->dbeta[c] += l->part[c];
        }
        for (int64_t c = g * K; c < (g + 1) * K; c++) {
            l->stat[2 * C + c] = (float)(inv * sum / n);
            l->stat[3 * C + c] = (float)(inv * inv * inv * products / n);
        }
    }
}
static void tp__gn_sample(const tp__gn_job *j, int64_t b, const tp__gn_lane *l)
{
    const int64_t C = j->s.C, at = b * j->s.rows * C;
    tp__bn_job q;
    memset(&q, 0, sizeof q);
    q.k = j->k;
    q.isa = j->k->device->isa;
    q.rows = j->s.rows;
    q.pieces = j->pieces;
    q.x = j->x + at;
    q.dx = j->to ? j->to + at : NULL;
    q.part = l->part;
    q.block = l->block;
    q.ch.C = C;
    q.ch.mean = l->stat;
    q.ch.scale = l->stat + C;
    q.ch.c1 = l->stat + 2 * C;
    q.ch.c2 = l->stat + 3 * C;
    q.ch.beta = j->beta;
    q.ch.scaled = true;
    q.ch.relu = j->relu;
    if (j->dy) {
        q.dy = j->dy + at;
        for (int64_t c = 0; c < C; c++) {
            const int64_t group = b * j->s.groups + c / j->s.per_group;
            l->stat[c] = j->mean[group];
            l->stat[C + c] = j->inv[group] * j->gamma[c];
        }
    }
    tp__bn_reduce(&q);
    if (j->dy) tp__gn_back_stat(j, b, l);
    else tp__gn_forward_stat(j, b, l);
    if (q.dx) tp_device_parallel(j->k->device, q.pieces, tp__bn_rows, &q);
}

/* -- channels first: planes */

/* A plane's elements share all values of a tp__bn, which are vectors of equal values here. Planes of less than TP__GN_SHORT elements, for
 * which calls of kernels would take longer, are computed by loops, which read the first value only. */
typedef struct tp__plane {
    float v[5][TP__GN_PLANE];
    tp__bn bn;
} tp__plane;
static void tp__plane_set(tp__plane *p, int64_t n, bool relu, float mean, float scale, float beta, float c1, float c2)
{
    const float value[5] = {mean, scale, beta, c1, c2};
    memset(&p->bn, 0, sizeof p->bn);
    for (int q = 0; q < 5; q++)
        for (int i = 0; i < (n < TP__GN_SHORT ? 1 : TP__GN_PLANE); i++) p->v[q][i] = value[q];
    p->bn.mean = p->v[0], p->bn.scale = p->v[1], p->bn.beta = p->v[2], p->bn.c1 = p->v[3], p->bn.c2 = p->v[4];
    p->bn.scaled = true;
    p->bn.relu = relu;
}
/* Forward: the mean of n adjacent elements, and the sum of squares about it. Backward: the sums of dy and of dy (x - mean). */
static void tp__plane_sums(const tp__gn_job *j, tp__plane *p, int64_t at, int64_t n, double *first, double *second)
{
    const float *x = j->x + at, *dy = j->dy ? j->dy + at : NULL, m = p->v[0][0], scale = p->v[1][0], beta = p->v[2][0];
    *first = *second = 0;
    if (n < TP__GN_SHORT) {
        for (int64_t i = 0; i < n && !dy; i++) *first += (double)x[i];
        if (!dy) *first /= (double)n;
        for (int64_t i = 0; i < n && !dy; i++) *second += ((double)x[i] - *first) * ((double)x[i] - *first);
        for (int64_t i = 0; i < n && dy; i++) {
            const float d = x[i] - m, g = p->bn.relu && !(TP__PRODUCT(d * scale) + beta > 0) ? 0 : dy[i];
            *first += (double)g;
            *second += (double)g * (double)d;
        }
        return;
    }
    for (int64_t i = 0, step; i < n; i += step) { /* rows of TP__GN_PLANE columns; the last block may have fewer */
        const int64_t columns = tp__min64(TP__GN_PLANE, n - i), rows = tp__min64(TP__BN_BLOCK, (n - i) / columns);
        float s1[TP__GN_PLANE], s2[TP__GN_PLANE];
        double a = 0, b = 0;
        step = rows * columns;
        p->bn.C = columns;
        tp__bn_sums_of[j->k->device->isa->level](&p->bn, rows, dy ? dy + i : NULL, x + i, s1, s2);
        for (int64_t c = 0; c < columns; c++) a += (double)s1[c], b += (double)s2[c];
        if (dy) {
            *first += a;
            *second += b;
            continue;
        }
        a /= (double)columns;
        for (int64_t c = 0; c < columns; c++) b += (double)rows * ((double)s1[c] - a) * ((double)s1[c] - a);
        tp__bn_merge(1, first, second, (double)i, NULL, &a, NULL, &b, (double)step);
    }
}
/* Writes y or dx of n adjacent elements. */
static void tp__plane_write(const tp__gn_job *j, tp__plane *p, int64_t at, int64_t n)
{
    const int level = j->k->device->isa->level;
    const float *x = j->x + at, *dy = j->dy ? j->dy + at : NULL;
    const float m = p->v[0][0], scale = p->v[1][0], beta = p->v[2][0], c1 = p->v[3][0], c2 = p->v[4][0];
    float *to = j->to + at;
    const bool brief = n < TP__GN_SHORT;
    for (int64_t i = 0; i < n && brief; i++) {
        const float d = x[i] - m, y = TP__PRODUCT(d * scale) + beta;
        if (dy) to[i] = scale * (p->bn.relu && !(y > 0) ? 0 : dy[i]) - c1 - d * c2;
        else to[i] = p->bn.relu && 0 > y ? 0 : y;
    }
    for (int64_t i = 0, step; i < n && !brief; i += step) {
        const int64_t columns = tp__min64(TP__GN_PLANE, n - i), rows = (n - i) / columns;
        step = rows * columns;
        p->bn.C = columns;
        if (dy) tp__bn_back_of[level](&p->bn, rows, dy + i, x + i, NULL, to + i);
        else tp__bn_apply_of[level](&p->bn, rows, x + i, to + i);
    }
}
/* Group `unit` of planes: those of all rows and channels of one sample's group. */
static void tp__gn_planes(const tp__gn_job *j, int64_t unit, const tp__gn_lane *l)
{
    const int64_t b = unit / j->s.groups, begin = unit % j->s.groups * j->s.per_group, K = j->s.per_group,
                  n = j->s.inner;
    const int64_t sample = b * j->s.rows * j->s.C * n, row = j->s.C * n;
    const double count = (double)(j->s.rows * K * n);
    double mean = 0, squares = 0, sum = 0, products = 0, first, second;
    tp__plane p;
    float m = j->dy ? j->mean[unit] : 0, inv = j->dy ? j->inv[unit] : 0;
    tp__plane_set(&p, K * n, false, m, 0, 0, 0, 0);
    for (int64_t r = 0; r < j->s.rows && !j->dy; r++) { /* the elements of a row's group are adjacent */
        tp__plane_sums(j, &p, sample + r * row + begin * n, K * n, &first, &second);
        tp__bn_merge(1, &mean, &squares, (double)(r * K * n), NULL, &first, NULL, &second, (double)(K * n));
    }
    if (!j->dy) m = (float)mean, inv = tp__gn_statistics(j, b, unit % j->s.groups, mean, squares);
    for (int64_t r = 0; r < j->s.rows && j->dy; r++)
        for (int64_t c = begin; c < begin + K; c++) {
            tp__plane_set(&p, n, j->relu, m, inv * j->gamma[c], j->beta ? j->beta[c] : 0, 0, 0);
            tp__plane_sums(j, &p, sample + r * row + c * n, n, &first, &second);
            sum += first * (double)j->gamma[c];
            products += second * (double)j->gamma[c];
            l->dgamma[c] += second * (double)inv;
            l->dbeta[c] += first;
        }
    const double i = (double)inv;
    const float c1 = (float)(i * sum / count), c2 = (float)(i * i * i * products / count);
    for (int64_t r = 0; r < j->s.rows && j->to; r++)
        for (int64_t c = begin; c < begin + K; c++) {
            tp__plane_set(&p, n, j->relu, m, inv * j->gamma[c], j->beta ? j->beta[c] : 0, c1, c2);
            tp__plane_write(j, &p, sample + r * row + c * n, n);
        }
}

static void tp__gn_units(void *user, int64_t lane)
{
    const tp__gn_job *j = (const tp__gn_job *)user;
    const tp__gn_lane l = tp__gn_lane_of(j, lane);
    for (int64_t c = 0; c < j->s.C; c++) l.dgamma[c] = l.dbeta[c] = 0;
    for (int64_t u = lane * j->units / j->lanes; u < (lane + 1) * j->units / j->lanes; u++) {
        if (j->planes) tp__gn_planes(j, u, &l);
        else tp__gn_sample(j, u, &l);
    }
}
static void tp__group_norm_fast(const tp_call *k)
{
    tp__gn_job j = tp__gn_begin(k);
    if (j.s.rows * j.s.inner == 0) tp__group_norm_f32(k);
    else tp_device_parallel(k->device, j.lanes, tp__gn_units, &j);
}
static void tp__group_norm_grad_fast(const tp_call *k)
{
    tp__gn_job j = tp__gn_begin(k);
    if (j.s.rows * j.s.inner == 0) {
        tp__group_norm_grad_f32(k);
        return;
    }
    tp_device_parallel(k->device, j.lanes, tp__gn_units, &j);
    const tp__gn_lane first = tp__gn_lane_of(&j, 0);
    for (int64_t i = 1; i < j.lanes; i++) {
        const tp__gn_lane l = tp__gn_lane_of(&j, i);
        for (int64_t c = 0; c < 2 * j.s.C; c++) first.dgamma[c] += l.dgamma[c];
    }
    for (int o = 0; o < 2; o++)
        for (int64_t c = 0; c < j.s.C && k->out[1 + o].data; c++)
            ((float *)k->out[1 + o].data)[c] = (float)(o ? first.dbeta : first.dgamma)[c];
}

/* -- softmax, log_softmax, sparse_softmax_cross_entropy ------------------------------- >>fast softmax */
#define TP__SOFTMAX_LONG 4  /* rows of the softmax that are shorter are computed by the naive loops */
static void tp__softmax_rows(const tp_call *k, int64_t from, int64_t to)
{
    const int64_t C = k->in[0].shape.dim[k->in[0].shape.ndim - 1];
    const bool logarithm = strcmp(k->op->name, "log_softmax") == 0;
    const struct tp__isa *isa = k->device->isa;
    for (int64_t r = from; C >= TP__SOFTMAX_LONG && r < to; r++) {
        const float *x = (const float *)k->in[0].data + r * C;
        float *y = (float *)k->out[0].data + r * C;
        if (k->fused.scale != 0) tp__scale_of[isa->level](C, x, k->fused.scale, y), x = y;
        const float m = isa->max(C, x), z = tp__exp_sum_of[isa->level](C, x, m, logarithm ? NULL : y),
                    l = logarithm ? tp_logf(z) : 0;
        if (!logarithm) tp__divide_of[isa->level](C, y, z);
        for (int64_t c = 0; logarithm && c < C; c++) y[c] = x[c] - m - l;
    }
    for (int64_t r = from; C < TP__SOFTMAX_LONG && r < to; r++) {
        const float *x = (const float *)k->in[0].data + r * C;
        float *y = (float *)k->out[0].data + r * C;
        if (k->fused.scale != 0) tp__scale_of[isa->level](C, x, k->fused.scale, y), x = y;
        tp__softmax_row_f32(x, y, C, logarithm);
    }
}
static void tp__softmax_fast(const tp_call *k)
{
    const int64_t C = k->in[0].shape.dim[k->in[0].shape.ndim - 1];
    if (C > 0) tp__each_range(k, tp__size(&k->in[0]) / C, tp__grain(C * 8), tp__softmax_rows);
}
static void tp__xent_vectors(const tp_call *k, int64_t from, int64_t to)
{
    const int64_t C = k->in[0].shape.dim[1];
    const struct tp__isa *isa = k->device->isa;
    for (int64_t b = from; b < to; b++) {
        const float *x = (const float *)k->in[0].data + b * C;
        float *soft = k->out[1].data ? (float *)k->out[1].data + b * C : NULL;
        const int64_t label = tp__index_at(&k->in[1], b);
        if (tp__is_bad_label(k, b, label)) continue;
        const float label_logit = x[label], m = isa->max(C, x), z = tp__exp_sum_of[isa->level](C, x, m, soft);
        if (soft) tp__divide_of[isa->level](C, soft, z);
        if (k->out[0].data) ((float *)k->out[0].data)[b] = tp_logf(z) - (label_logit - m);
    }
}
static void tp__xent_fast(const tp_call *k)
{
    const int64_t C = k->in[0].shape.dim[1];
    tp__each_range(k, k->in[0].shape.dim[0], tp__grain(C * 8),
                   C < TP__SOFTMAX_LONG ? tp__xent_rows_f32 : tp__xent_vectors);
}

/* -- top_k ------------------------------------------------------------------------------ >>fast top_k
 * Few of a row: a heap holds the indices of the best elements so far, the last ranked at its root, so that an element costs one
 * comparison, and log K more where it enters. Taking the root K times sorts them.
 * Many: the elements whose leading bits may be among the best are sorted by their other bits, one byte after the other.
 * No two elements rank alike: the order is the naive loop's. */
/* From so many on they are sorted, unless they are a very small part of the row, or the row is so long that its copies fill the memory. */
#define TP__TOP_SORTED   16
static bool tp__top_k_sorts(int64_t n, int64_t K) { return K >= TP__TOP_SORTED && K >= n / 512 && n <= 1 << 22; }
/* Pieces of work with scratch of their own: many, but not much memory. */
static int64_t tp__top_k_n_piece(int64_t rows, int64_t n)
{
    const int64_t most = n < 1 << 18 ? (1 << 18) / n : 1;
    return tp__min64(rows, tp__min64(most, 32));
}
TP__HOT static void tp__sift_down(const float *x, int32_t *heap, int64_t n, int64_t at)
{
    const int32_t moved = heap[at];
    for (int64_t c = 2 * at + 1; c < n; c = 2 * at + 1) {
        if (c + 1 < n && tp__ranks_before_f32(x, heap[c], heap[c + 1])) c++;
        if (!tp__ranks_before_f32(x, moved, heap[c])) break;
        heap[at] = heap[c];
        at = c;
    }
    heap[at] = moved;
}
/* Whether one of 32 values is above the limit, or a NaN. */
TP__HOT static bool tp__some_above(const float *x, float limit)
{
    int some = 0;
    for (int i = 0; i < 32; i++) some |= !(x[i] <= limit);
    return some != 0;
}
TP__HOT static void tp__top_k_heap(const float *x, int64_t n, int32_t *heap, int64_t K)
{
    for (int64_t i = 0; i < K; i++) heap[i] = (int32_t)i;
    for (int64_t i = K / 2 - 1; i >= 0; i--) tp__sift_down(x, heap, K, i);
    for (int64_t i = K, end; i < n; i = end) {
        end = n - i < 32 ? n : i + 32;
        if (end - i == 32 && !tp__some_above(x + i, x[heap[0]])) continue;
        for (; i < end; i++)
            if (!(x[i] <= x[heap[0]]) && tp__ranks_before_f32(x, i, heap[0]))
                heap[0] = (int32_t)i, tp__sift_down(x, heap, K, 0);
    }
    for (int64_t last = K - 1; last > 0; last--) {
        const int32_t root = heap[0];
        heap[0] = heap[last];
        heap[last] = root;
        tp__sift_down(x, heap, last, 0);
    }
}
/* Numbers that are smaller for what ranks before: 0 for a NaN, the same for 0 and -0. */
TP__HOT static void tp__rank_bits(int64_t n, const float *x, uint32_t *bits)
{
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i] + 0.0f;
        uint32_t u;
        memcpy(&u, &v, sizeof u);
        u ^= ((u >> 31) - 1) & 0x7fffffffu; /* turns round the positive ones */
        bits[i] = v == v ? u : 0;
    }
}
/* The places of the best K of n, sorted; a, b and bits: room for n numbers each. */
TP__HOT static void tp__top_k_sort(const float *x, int64_t n, int32_t *place, int64_t K, uint64_t *a, uint64_t *b,
                                   uint32_t *bits)
{
    int32_t count[2048] = {0};
    uint32_t last = 0;
    int64_t m = 0;
    tp__rank_bits(n, x, bits);
    for (int64_t i = 0; i < n; i++) count[bits[i] >> 21]++;
    for (int64_t sum = count[0]; sum < K;) sum += count[++last];
    for (int64_t i = 0; i < n; i++) {
        a[m] = (uint64_t)bits[i] << 32 | (uint64_t)i;
        m += bits[i] >> 21 <= last;
    }
    for (int shift = 32; shift < 64; shift += 8) { /* elements of the same byte keep their order */
        uint64_t *const sorted = a;
        memset(count, 0, 256 * sizeof *count);
        for (int64_t i = 0; i < m; i++) count[a[i] >> shift & 255]++;
        for (int32_t v = 0, sum = 0; v < 256; v++) {
            const int32_t before = sum;
            sum += count[v];
            count[v] = before;
        }
        for (int64_t i = 0; i < m; i++) b[count[a[i] >> shift & 255]++] = a[i];
        a = b, b = sorted;
    }
    for (int64_t j = 0; j < K; j++) place[j] = (int32_t)a[j];
}
static void tp__top_k_rows(const tp_call *k, int64_t from, int64_t to)
{
    const int64_t n = k->in[0].shape.dim[k->in[0].shape.ndim - 1], K = ((const tp__top_k_attrs *)k->attrs)->k;
    for (int64_t r = from; r < to; r++) {
        const float *x = (const float *)k->in[0].data + r * n;
        int32_t *heap = (int32_t *)(k->out[1].data ? k->out[1].data : k->scratch) + r * K;
        tp__top_k_heap(x, n, heap, K);
        for (int64_t j = 0; j < K && k->out[0].data; j++) ((float *)k->out[0].data)[r * K + j] = x[heap[j]];
    }
}
/* Each piece has some of the rows. */
static void tp__top_k_pieces(const tp_call *k, int64_t from, int64_t to)
{
    const int64_t n = k->in[0].shape.dim[k->in[0].shape.ndim - 1], K = ((const tp__top_k_attrs *)k->attrs)->k;
    const int64_t rows = tp__size(&k->in[0]) / n, pieces = tp__top_k_n_piece(rows, n);
    for (int64_t piece = from; piece < to; piece++) {
        uint64_t *a = (uint64_t *)k->scratch + piece * 3 * n, *b = a + n;
        uint32_t *bits = (uint32_t *)(b + n);
        for (int64_t r = rows * piece / pieces; r < rows * (piece + 1) / pieces; r++) {
            const float *x = (const float *)k->in[0].data + r * n;
            int32_t *place = k->out[1].data ? (int32_t *)k->out[1].data + r * K : (int32_t *)(bits + n);
            tp__top_k_sort(x, n, place, K, a, b, bits);
            for (int64_t j = 0; j < K && k->out[0].data; j++) ((float *)k->out[0].data)[r * K + j] = x[place[j]];
        }
    }
}
static void tp__top_k_fast(const tp_call *k)
{
    const int64_t n = k->in[0].shape.dim[k->in[0].shape.ndim - 1], rows = tp__size(&k->in[0]) / n;
    if (tp__top_k_sorts(n, ((const tp__top_k_attrs *)k->attrs)->k))
        tp__each_range(k, tp__top_k_n_piece(rows, n), 1, tp__top_k_pieces);
    else tp__each_range(k, rows, tp__grain(n), tp__top_k_rows);
}
/* For each piece room to sort a row; or the heaps of all rows, for runs in which nobody reads the indices. */
static size_t tp__top_k_scratch(const tp_call *k)
{
    const int64_t n = k->in[0].shape.dim[k->in[0].shape.ndim - 1];
    if (tp__top_k_sorts(n, ((const tp__top_k_attrs *)k->attrs)->k))
        return tp__scratch_of(tp__top_k_n_piece(tp__size(&k->in[0]) / n, n) * 3 * n, sizeof(uint64_t));
    return tp__scratch_of(tp__size(&k->out[0]), sizeof(int32_t));
}

/* -- lstm, lstm_grad ------------------------------------------------------------------ >>fast lstm
 * Forward: W is packed once. One thread computes all steps of a block of samples, so no thread waits for another.
 * Backward, a few steps at a time: each block computes these steps and stores its dgates as panels, x and h_t-1 as tiles of
 * rows. From them dW += [x, h_t-1, 1]^T dgates is computed while they are still in the cache; its last row is db.
 * A table for x: x may be a table E (V,I), and one more input, ids, the row of E for each position. The planner does this on
 * the CPU where V < T B (step 2b of >>plan). Since gather(E, ids) Wx = gather(E Wx, ids), the product has V rows instead of
 * T B; the bits of each row stay. Backward, P[v] is the sum of dgates over the positions whose id is v, in an order that depends on
 * the shape alone. Then dWx = E^T P, and there is a sixth output, dE = P Wx^T. */
/* Number of samples in a block of an LSTM; depends on the number of threads. Nothing is summed over the samples, so the
 * bits do not depend on it. */
static int64_t tp__rnn_block(tp_device *d, int64_t B)
{
    const int64_t samples_per_thread = tp__ceil_div(B, d->pool ? tp_pool_threads(d->pool) : 1);
    return tp__min64(tp__max64(samples_per_thread, 8), 128);
}
/* A table of rows (an embedding) in place of the input x of an LSTM or GRU: position i of x is row ids[i] of the
 * table. */
typedef struct tp__rnn_table {
    const tp_operand *ids; /* NULL: there is no table, x itself is given */
    int64_t V;
} tp__rnn_table;
static tp__rnn_table tp__rnn_table_of(const tp_call *k, int x)
{
    tp__rnn_table t;
    t.ids = k->fused.table ? &k->in[k->fused.table] : NULL;
    t.V = t.ids ? k->in[x].shape.dim[0] : 0;
    return t;
}
/* For a sequence op whose input comes from a table: returns the row of `table`, the table's products with Wx, for a
 * position. For an invalid id it returns row 0; the run fails, as in the gather that the table replaces. */
static const float *tp__rnn_row(const tp__rnn_table *t, const float *table, int64_t position, int64_t width)
{
    const int64_t id = tp__index_at(t->ids, position);
    return table + (id >= 0 && id < t->V ? id : 0) * width;
}
/* Sums the rows of dy that have the same id: P[v] = sum of the rows whose id is v. */
static void tp__rnn_table_sum(const tp_call *k, const tp__rnn_table *t, float *P, const float *dy, int64_t width)
{
    tp_operand in[2], out;
    tp_call sum = *k;
    memset(in, 0, sizeof in);
    memset(&out, 0, sizeof out);
    in[0].dtype = out.dtype = TP_F32;
    in[0].data = (void *)(uintptr_t)dy;
    in[0].shape.ndim = out.shape.ndim = 2;
    in[0].shape.dim[0] = tp__size(t->ids);
    in[0].shape.dim[1] = out.shape.dim[1] = width;
    in[1] = *t->ids;
    out.data = P;
    out.shape.dim[0] = t->V;
    sum.in = in;
    sum.out = &out;
    sum.n_in = 2;
    sum.n_out = 1;
    tp__gather_grad_fast(&sum);
}

#define TP__RNN_ROWS     512 /* number of rows (samples times steps) that the backward pass processes together */
/* What the backward pass of an LSTM stores about the steps [from, to), to compute dW: K = (to - from) B rows for a
 * batch of B samples, with space for `max_rows` rows. */
typedef struct tp__lstm_stored {
    int64_t from, to;
    /* dgates: gradients of the gates, [panel][k][column]; inputs: x and h, in tiles of rows as isa->tiles packs them */
    float *dgates, *inputs;
    int64_t *at; /* for each of the K rows: where in `product` the row begins to which it is added */
    bool add;    /* adds to the dW of earlier steps instead of replacing it */
} tp__lstm_stored;
typedef struct tp__lstm_job {
    const tp_call *k;
    const struct tp__isa *isa;
    tp__rnn r;
    tp__rnn_table table;
    float forget_bias;
    int64_t block, panels, x_panels; /* panels: of all gates; x_panels: panels of Wx that are needed */
    bool back;
    const float *x, *w;
    float *wx, *wh; /* packed weights: Wx of the input, Wh of the state; backward their transposes */
    float *h, *c;
    float *gates; /* forward: the gates of one step, unless the gates of all steps are an output of the op */
    /* with a table: the table's rows times Wx, plus b; backward the gradient of these products, with rows padded to
     * whole panels */
    float *product;
    /* Backward processes `steps` steps at a time; stored: the values of these steps and of the previous ones. */
    int64_t steps, max_rows, stored_index, blocks;
    tp__lstm_stored stored[2];
    /* numbers of rows of dW and db that are requested: in all, those that belong to x, those that belong to h */
    int64_t n_in, x_in, h_in;
    float *row;            /* for each block of samples: a sample's dgates, then its inputs */
    tp__gemm_args gemm[2]; /* with a table: the products that give dWx and the table's gradient */
    void *gemm_scratch;
} tp__lstm_job;
/* Returns the floats from one row of gate gradients to the next: whole panels, padded so that rows do not map to the
 * same cache set. */
static int64_t tp__rnn_row_floats(const tp__lstm_job *j) { return j->panels * 2 * j->isa->vw + 16; }

/* Computes the plan of an LSTM from the shapes; returns the bytes of scratch. */
static size_t tp__lstm_make(tp__lstm_job *j, const tp_call *k, bool backward, void *scratch)
{
    const tp__lstm_attrs *t = (const tp__lstm_attrs *)k->attrs;
    const tp_operand *x = &k->in[backward ? 3 : 0], *w = &k->in[backward ? 4 : 1];
    tp__carver c = tp__carver_over(scratch);
    memset(j, 0, sizeof *j);
    j->k = k;
    j->isa = k->device->isa;
    j->r = tp__rnn_of(&x->shape, backward ? &k->in[7].shape : &k->out[0].shape, t->batch_major);
    j->table = tp__rnn_table_of(k, backward ? 3 : 0);
    j->forget_bias = t->forget_bias;
    j->back = backward;
    j->x = (const float *)x->data;
    j->w = (const float *)w->data;
    const int64_t B = j->r.B, D = j->r.D, H = j->r.H, G = 4 * H, V = j->table.V;
    j->block = tp__rnn_block(k->device, B);
    j->panels = tp__ceil_div(G, 2 * j->isa->vw);
    j->x_panels = !backward ? j->panels : k->out[0].data ? tp__ceil_div(D, 2 * j->isa->vw) : 0;
    j->h = (float *)tp__carve(&c, B * H, sizeof(float));
    j->c = (float *)tp__carve(&c, B * H, sizeof(float));
    j->wx = (float *)tp__carve(&c, backward ? tp__packed_floats(j->isa, G, D) : tp__packed_floats(j->isa, D, G),
                               sizeof(float));
    j->wh = (float *)tp__carve(&c, backward ? tp__packed_floats(j->isa, G, H) : tp__packed_floats(j->isa, H, G),
                               sizeof(float));
    if (!backward) {
        j->gates = (float *)tp__carve(&c, k->out[3].data ? 0 : B * G, sizeof(float));
        j->product = (float *)tp__carve(&c, V * G, sizeof(float));
        return tp__carved(&c);
    }
    const bool table = j->table.ids != NULL;
    const int64_t row_floats = tp__rnn_row_floats(j),
                  /* reserves space for all outputs: while the scratch size is computed, outputs have no pointers */
        max_inputs = (table ? 0 : D) + H + 1;
    if (k->out[1].data) j->x_in = table ? 0 : D, j->h_in = H;
    j->n_in = j->x_in + j->h_in + (k->out[2].data ? 1 : 0);
    j->steps = tp__max64(1, tp__min64(j->r.T, TP__RNN_ROWS / tp__max64(B, 1)));
    j->max_rows = j->steps * B;
    for (int i = 0; i < 2; i++) {
        j->stored[i].dgates = (float *)tp__carve(&c, j->max_rows * row_floats, sizeof(float));
        j->stored[i].inputs = (float *)tp__carve(&c, j->max_rows * max_inputs, sizeof(float));
        j->stored[i].at = (int64_t *)tp__carve(&c, table ? j->max_rows : 0, sizeof(int64_t));
    }
    j->row = (float *)tp__carve(&c, tp__ceil_div(B, j->block) * (row_floats + max_inputs), sizeof(float));
    j->product = (float *)tp__carve(&c, V * row_floats, sizeof(float));
    if (!table) return tp__carved(&c);
    tp__gemm_args *a = j->gemm;
    a[0].ta = a[1].tb = true;
    a[0].M = a[0].lda = a[1].N = a[1].ldc = D, a[0].N = a[0].ldc = a[1].K = a[1].ldb = G, a[0].K = a[1].M = V;
    a[0].A = j->x, a[1].B = j->w, a[0].B = a[1].A = j->product, a[0].ldb = a[1].lda = row_floats;
    a[0].C = (float *)k->out[1].data, a[1].C = (float *)k->out[5].data;
    const size_t first = tp__gemm_scratch(k->device, &a[0]), second = tp__gemm_scratch(k->device, &a[1]);
    j->gemm_scratch = tp__carve(&c, (int64_t)(first > second ? first : second), 1);
    return tp__carved(&c);
}
/* A chunk of packing: one panel of Wx or, after all panels of Wx, of Wh. */
static void tp__lstm_pack(void *user, int64_t chunk)
{
    const tp__lstm_job *j = (const tp__lstm_job *)user;
    const bool of_x = chunk < j->x_panels;
    const int64_t D = j->r.D, H = j->r.H, G = 4 * H, nr = 2 * j->isa->vw,
                  column = (of_x ? chunk : chunk - j->x_panels) * nr;
    const int64_t rows = of_x ? D : H, K = j->back ? G : rows, N = j->back ? rows : G;
    const float *w = of_x ? j->w : j->w + D * G;
    tp__pack_matrix(j->isa, (of_x ? j->wx : j->wh) + column * K, w + (j->back ? column * G : column), G, j->back, K,
                    tp__min64(N - column, nr));
}
/* Multiplies m rows A by the packed weights: by Wx if of_x (rows of x or of the table), else by Wh (rows of h). */
static void tp__lstm_product(const tp__lstm_job *j, bool of_x, int64_t m, const float *A, int64_t lda, float *gates,
                             int64_t ldc)
{
    tp__by_packed p;
    memset(&p, 0, sizeof p);
    p.isa = j->isa, p.A = A, p.lda = lda, p.step = 1, p.C = gates, p.ldc = ldc;
    p.packed = of_x ? j->wx : j->wh;
    p.bias = of_x ? (const float *)j->k->in[2].data : NULL;
    p.packed_k = p.K = of_x ? j->r.D : j->r.H, p.N = 4 * j->r.H;
    p.add = !of_x && !j->table.ids;
    tp__by_packed_rows(&p, m);
}
#define TP__TABLE_ROWS   56
static void tp__lstm_table_rows(void *user, int64_t chunk)
{
    const tp__lstm_job *j = (const tp__lstm_job *)user;
    const int64_t D = j->r.D, G = 4 * j->r.H, v = chunk * TP__TABLE_ROWS, m = tp__min64(TP__TABLE_ROWS, j->table.V - v);
    tp__lstm_product(j, true, m, j->x + v * D, D, j->product + v * G, G);
}
static void tp__lstm_block(void *user, int64_t block)
{
    const tp__lstm_job *j = (const tp__lstm_job *)user;
    const tp__rnn *r = &j->r;
    const int64_t D = r->D, H = r->H, G = 4 * H, b0 = block * j->block, b1 = tp__min64(b0 + j->block, r->B);
    float *y = (float *)j->k->out[0].data, *all = (float *)j->k->out[3].data, *cells = (float *)j->k->out[4].data;
    const float *h0 = (const float *)j->k->in[3].data, *c0 = (const float *)j->k->in[4].data;
    for (int64_t step = 0; step < r->T; step++) {
        const int64_t row0 = step * r->step_stride + b0 * r->sample_stride, ldg = all ? r->sample_stride * G : G;
        const float *h = step == 0 ? h0 + b0 * H : y ? y + (row0 - r->step_stride) * H : j->h + b0 * H;
        float *gates = all ? all + row0 * G : j->gates + b0 * G;
        if (!j->table.ids) tp__lstm_product(j, true, b1 - b0, j->x + row0 * D, r->sample_stride * D, gates, ldg);
        tp__lstm_product(j, false, b1 - b0, h, step > 0 && y ? r->sample_stride * H : H, gates, ldg);
        for (int64_t b = b0; b < b1; b++, gates += ldg) {
            const int64_t row = step * r->step_stride + b * r->sample_stride;
            float *c = cells ? cells + row * H : j->c + b * H;
            const float *before = step == 0 ? c0 + b * H : cells ? cells + (row - r->step_stride) * H : c;
            const float *more = j->table.ids ? tp__rnn_row(&j->table, j->product, row, G) : NULL;
            if (step + 1 < r->T && !more) tp__prefetch_row(j->x + (row + r->step_stride) * D, D);
            tp__lstm_cell_of[j->isa->level](H, gates, more, before, c, y ? y + row * H : j->h + b * H, j->forget_bias);
        }
    }
    for (int64_t b = b0; b < b1; b++) {
        const int64_t row = (r->T - 1) * r->step_stride + b * r->sample_stride;
        const float *h = r->T == 0 ? h0 + b * H : y ? y + row * H : j->h + b * H;
        const float *c = r->T == 0 ? c0 + b * H : cells ? cells + row * H : j->c + b * H;
        if (j->k->out[1].data) memcpy((float *)j->k->out[1].data + b * H, h, (size_t)H * sizeof(float));
        if (j->k->out[2].data) memcpy((float *)j->k->out[2].data + b * H, c, (size_t)H * sizeof(float));
    }
}
/* Computes steps [from, to) of a block of samples, the last step first. */
static void tp__lstm_grad_block(const tp__lstm_job *j, const tp__lstm_stored *l, int64_t block)
{
    const tp_call *k = j->k;
    const tp__rnn *r = &j->r;
    const int64_t D = r->D, H = r->H, G = 4 * H, b0 = block * j->block, b1 = tp__min64(b0 + j->block, r->B);
    const int64_t nr = 2 * j->isa->vw, max_rows = j->max_rows;
    const float *y = (const float *)k->in[7].data, *dy = (const float *)k->in[0].data;
    const float *gates = (const float *)k->in[8].data, *cells = (const float *)k->in[9].data;
    float *dx = D == 0 ? NULL : (float *)k->out[0].data;
    float *dg = j->row + block * (tp__rnn_row_floats(j) + j->n_in), *inputs = dg + tp__rnn_row_floats(j);
    memset(dg, 0, (size_t)tp__rnn_row_floats(j) * sizeof *dg);
    if (j->n_in > j->x_in + j->h_in) inputs[j->x_in + j->h_in] = 1.0f;
    tp__by_packed p;
    memset(&p, 0, sizeof p);
    p.isa = j->isa, p.lda = nr, p.step = 1, p.gap = max_rows * nr;
    p.packed_k = p.K = G;
    for (int64_t step = l->to - 1; step >= l->from; step--) {
        const int64_t k0 = (step - l->from) * r->B;
        for (int64_t b = b0; b < b1; b++) {
            const int64_t row = step * r->step_stride + b * r->sample_stride, back = row - r->step_stride;
            const float *h0 = step ? y + back * H : (const float *)k->in[5].data + b * H;
            const float *c0 = step ? cells + back * H : (const float *)k->in[6].data + b * H;
            if (step > 0) { /* prefetches what the next step to be computed reads */
                tp__prefetch_row(gates + back * G, G);
                tp__prefetch_row(dy + back * H, H);
            }
            tp__lstm_back_of[j->isa->level](H, gates + row * G, c0, cells + row * H, dy + row * H, j->h + b * H,
                                            j->c + b * H, dg);
            tp__row_to_panels_of[j->isa->level](G, dg, l->dgates + (k0 + b) * nr, max_rows * nr);
            if (j->x_in) tp__copy_bytes(inputs, j->x + row * D, (size_t)D * sizeof *inputs);
            if (j->h_in) tp__copy_bytes(inputs + j->x_in, h0, (size_t)H * sizeof *inputs);
            j->isa->tiles(l->inputs, max_rows, k0 + b, 1, inputs, 0, j->n_in);
            if (j->table.ids)
                l->at[k0 + b] = tp__rnn_row(&j->table, j->product, row, tp__rnn_row_floats(j)) - j->product;
        }
        p.A = l->dgates + (k0 + b0) * nr;
        p.C = j->h + b0 * H, p.ldc = p.N = H, p.packed = j->wh;
        if (step > 0 || k->out[3].data) tp__by_packed_rows(&p, b1 - b0);
        if (!dx) continue;
        p.C = dx + (step * r->step_stride + b0 * r->sample_stride) * D, p.ldc = r->sample_stride * D, p.N = D,
        p.packed = j->wx;
        tp__by_packed_rows(&p, b1 - b0);
    }
}
/* A chunk of an LSTM's dW and db: a few panels of columns and some tiles of rows; or, with a table, of the gradient of
 * the table's products: a few panels of columns. */
#define TP__DW_PANELS    4
#define TP__DW_TILES     10
static int64_t tp__lstm_row_chunks(const tp__lstm_job *j)
{
    return tp__ceil_div(j->n_in, TP__DW_TILES * j->isa->mr) + (j->table.ids ? 1 : 0);
}
static void tp__lstm_grad_weights(const tp__lstm_job *j, const tp__lstm_stored *left, int64_t chunk)
{
    const int64_t G = 4 * j->r.H, K = (left->to - left->from) * j->r.B, nr = 2 * j->isa->vw,
                  rows = tp__lstm_row_chunks(j);
    const int64_t panel0 = chunk / rows * TP__DW_PANELS, panel1 = tp__min64(panel0 + TP__DW_PANELS, j->panels);
    const int64_t first = chunk % rows * TP__DW_TILES * j->isa->mr;
    if (first >= j->n_in) {
        for (int64_t panel = panel0; panel < panel1; panel++)
            tp__add_panel_rows_of[j->isa->level](K, left->dgates + panel * j->max_rows * nr, left->at,
                                                 j->product + panel * nr);
        return;
    }
    float *dw = (float *)j->k->out[1].data, *db = (float *)j->k->out[2].data;
    if (dw && j->table.ids) dw += j->r.D * G;
    tp__tile t;
    tp__run whole_run;
    memset(&t, 0, sizeof t);
    t.run = &whole_run;
    t.n_run = 1;
    t.ldb = nr;
    whole_run.at = whole_run.skip = 0;
    for (int64_t k = 0; k < K; k += whole_run.len) {
        whole_run.len = tp__min64(TP__RNN_ROWS, K - k);
        t.add = left->add || k > 0;
        for (int64_t i = 0; i < j->n_in; i += t.m) {
            t.m = tp__tile_rows(j->n_in - i, j->isa->mr);
            if (i < first || i >= first + TP__DW_TILES * j->isa->mr) continue;
            t.step = t.m;
            for (int l = 0; l < t.m; l++) t.a[l] = left->inputs + i * j->max_rows + k * t.m + l;
            tp__tile_pad(&t, j->isa->mr);
            for (int64_t panel = panel0; panel < panel1; panel++) {
                t.b = left->dgates + (panel * j->max_rows + k) * nr;
                for (int l = 0; l < t.m; l++) t.c[l] = (i + l < j->x_in + j->h_in ? dw + (i + l) * G : db) + panel * nr;
                tp__run_tile(j->isa, &t, tp__min64(G - panel * nr, nr));
            }
        }
    }
}
/* A backward chunk of an LSTM: blocks of the current steps, or dW of the previous steps. The two do not depend on each
 * other. */
static void tp__lstm_grad_chunk(void *user, int64_t chunk)
{
    const tp__lstm_job *j = (const tp__lstm_job *)user;
    if (chunk < j->blocks) tp__lstm_grad_block(j, &j->stored[j->stored_index], chunk);
    else tp__lstm_grad_weights(j, &j->stored[1 - j->stored_index], chunk - j->blocks);
}
static void tp__lstm_fast(const tp_call *k)
{
    tp__lstm_job j;
    tp__lstm_make(&j, k, false, k->scratch);
    tp_device_parallel(k->device, j.x_panels + j.panels, tp__lstm_pack, &j);
    if (j.table.ids) {
        tp__check_indices(k, j.table.ids, j.table.V);
        tp_device_parallel(k->device, tp__ceil_div(j.table.V, TP__TABLE_ROWS), tp__lstm_table_rows, &j);
    }
    tp_device_parallel(k->device, tp__ceil_div(j.r.B, j.block), tp__lstm_block, &j);
}
static void tp__lstm_grad_fast(const tp_call *k)
{
    tp__lstm_job j;
    tp__lstm_make(&j, k, true, k->scratch);
    const int64_t B = j.r.B, D = j.r.D, H = j.r.H, G = 4 * H;
    const bool table = j.table.ids != NULL, empty = j.r.T * B == 0;
    const size_t state = (size_t)(B * H) * sizeof(float);
    tp_device_parallel(k->device, j.x_panels + tp__ceil_div(H, 2 * j.isa->vw), tp__lstm_pack, &j);
    memcpy(j.h, k->in[1].data, state);
    memcpy(j.c, k->in[2].data, state);
    if (table) memset(j.product, 0, (size_t)(j.table.V * tp__rnn_row_floats(&j)) * sizeof(float));
    if (empty && k->out[1].data) memset(k->out[1].data, 0, (size_t)tp__size(&k->out[1]) * sizeof(float));
    if (empty && k->out[2].data) memset(k->out[2].data, 0, (size_t)G * sizeof(float));
    const int64_t weights = tp__ceil_div(j.panels, TP__DW_PANELS) * tp__lstm_row_chunks(&j), T = empty ? 0 : j.r.T;
    /* A single thread computes dW at once, from values that are still cached. Several threads compute the dW of a turn beside
     * the steps of the next turn, and so wait for each other only once per turn. */
    const bool one_thread = !k->device->pool || tp_pool_threads(k->device->pool) == 1;
    for (int64_t to = T; to > 0; to -= j.steps) {
        tp__lstm_stored *l = &j.stored[j.stored_index];
        l->to = to, l->from = tp__max64(0, to - j.steps);
        l->add = to < T;
        j.blocks = tp__ceil_div(B, j.block);
        tp_device_parallel(k->device, j.blocks + (one_thread || to == T ? 0 : weights), tp__lstm_grad_chunk, &j);
        j.stored_index = 1 - j.stored_index;
        j.blocks = 0;
        if (one_thread || l->from == 0) tp_device_parallel(k->device, weights, tp__lstm_grad_chunk, &j);
    }
    if (k->out[3].data) memcpy(k->out[3].data, j.h, state);
    if (k->out[4].data) memcpy(k->out[4].data, j.c, state);
    for (int i = 0; i < 2; i++)
        if (table && j.gemm[i].C && D > 0) tp__gemm(k->device, &j.gemm[i], j.gemm_scratch);
}
static size_t tp__lstm_fast_scratch(const tp_call *k, bool backward)
{
    tp__lstm_job j;
    return k->device->isa && k->in[0].dtype == TP_F32 ? tp__lstm_make(&j, k, backward, NULL) : 0;
}

/* -- gru, gru_grad -------------------------------------------------------------------- >>fast gru
 * A table for x: as for lstm. Threads take blocks of TP__RNN_BLOCK samples, within which the gradients of the biases are summed.
 * The products with x, and backward those for dx and dW, are GEMMs over all steps at once; only the products with h are computed
 * step by step. */
#define TP__RNN_BLOCK    32
typedef struct tp__gru_job {
    const tp_call *k;
    const struct tp__isa *isa;
    tp__rnn r;
    tp__rnn_table table;
    /* A GRU's matrix products over all steps. Forward: x Wgx, x Wcx. Backward: the two terms of dx, then x^T dgates,
     * h^T dgates and the gradient of the table */
    tp__gemm_args gemm[8];
    float *packed_g, *packed_c, *gates, *h, *rh, *before, *before_r, *db, *product;
    void *gemm_scratch;
} tp__gru_job;
static size_t tp__gru_make(tp__gru_job *j, const tp_call *k, bool backward, void *scratch)
{
    const tp_operand *x = &k->in[backward ? 2 : 0], *wg = &k->in[backward ? 3 : 1], *wc = &k->in[backward ? 4 : 3];
    tp__carver c = tp__carver_over(scratch);
    memset(j, 0, sizeof *j);
    j->k = k;
    j->isa = k->device->isa;
    j->r = tp__rnn_of(&x->shape, backward ? &k->in[6].shape : &k->out[0].shape,
                      ((const tp__gru_attrs *)k->attrs)->batch_major);
    j->table = tp__rnn_table_of(k, backward ? 2 : 0);
    const int64_t rows = j->r.T * j->r.B, D = j->r.D, H = j->r.H, V = j->table.V;
    const bool table = j->table.ids != NULL;
    tp__gemm_args *a = j->gemm;
    j->h = (float *)tp__carve(&c, j->r.B * H, sizeof(float));
    j->rh = (float *)tp__carve(&c, j->r.B * H, sizeof(float));
    j->product = (float *)tp__carve(&c, V * 3 * H, sizeof(float));
    j->packed_c = (float *)tp__carve(&c, tp__packed_floats(j->isa, H, H), sizeof(float));
    j->packed_g = (float *)tp__carve(
        &c, backward ? tp__packed_floats(j->isa, 2 * H, H) : tp__packed_floats(j->isa, H, 2 * H), sizeof(float));
    j->gates = backward ? NULL : (float *)k->out[2].data;
    if (!j->gates) j->gates = (float *)tp__carve(&c, rows * 3 * H, sizeof(float));
    if (backward) {
        j->before = (float *)tp__carve(&c, rows * H, sizeof(float));
        j->before_r = (float *)tp__carve(&c, rows * H, sizeof(float));
        j->db = (float *)tp__carve(&c, tp__ceil_div(j->r.B, TP__RNN_BLOCK) * 3 * H, sizeof(float));
    }
    for (int i = 0; i < 2; i++) { /* weights and gates: i = 0 the two gates, i = 1 the candidate */
        const int64_t n = i ? H : 2 * H, at = i ? 2 * H : 0;
        const float *w = (const float *)(i ? wc : wg)->data;
        float *dg = j->gates ? j->gates + at : NULL, *of_table = j->product ? j->product + at : NULL;
        if (!backward) {
            a[i].M = table ? V : rows, a[i].N = n, a[i].K = D;
            a[i].A = (const float *)x->data, a[i].B = w, a[i].C = table ? of_table : dg;
            a[i].lda = D, a[i].ldb = n, a[i].ldc = 3 * H;
            a[i].epilogue.bias = (const float *)k->in[i ? 4 : 2].data;
            continue;
        }
        for (int q = i; q < 8; q += 6) { /* the products for dx and, with a table, for the table's gradient */
            a[q].tb = true;
            a[q].accumulate = i > 0;
            a[q].M = q == i ? rows : V, a[q].N = D, a[q].K = n;
            a[q].A = q == i ? dg : of_table, a[q].B = w;
            a[q].C = q == i ? (float *)k->out[0].data : table ? (float *)k->out[6].data : NULL;
            a[q].lda = 3 * H, a[q].ldb = n, a[q].ldc = D;
        }
        for (int q = 2 + i; q < 6; q += 2) { /* the products for dW: its rows for x, then those for h */
            const bool of_x = q < 4;
            a[q].ta = true;
            a[q].M = a[q].lda = of_x ? D : H, a[q].N = n, a[q].K = of_x && table ? V : rows;
            a[q].A = of_x ? (const float *)x->data : i ? j->before_r : j->before;
            a[q].B = of_x && table ? of_table : dg, a[q].C = (float *)k->out[i ? 3 : 1].data;
            if (!of_x && a[q].C) a[q].C += D * n;
            a[q].ldb = 3 * H, a[q].ldc = n;
        }
    }
    size_t max_bytes = 0;
    for (int i = 0; i < (backward ? 8 : 2); i++) {
        const size_t bytes = a[i].M > 0 ? tp__gemm_scratch(k->device, &a[i]) : 0;
        if (bytes > max_bytes) max_bytes = bytes;
    }
    j->gemm_scratch = tp__carve(&c, (int64_t)max_bytes, 1);
    return tp__carved(&c);
}
static void tp__gru_block(void *user, int64_t block)
{
    const tp__gru_job *j = (const tp__gru_job *)user;
    const tp__rnn *r = &j->r;
    const int64_t H = r->H, b0 = block * TP__RNN_BLOCK, b1 = tp__min64(b0 + TP__RNN_BLOCK, r->B);
    float *y = (float *)j->k->out[0].data;
    const float *h0 = (const float *)j->k->in[5].data;
    for (int64_t step = 0; step < r->T; step++) {
        const int64_t row0 = step * r->step_stride + b0 * r->sample_stride,
                      ldh = step > 0 && y ? r->sample_stride * H : H;
        const float *h = step == 0 ? h0 + b0 * H : y ? y + (row0 - r->step_stride) * H : j->h + b0 * H;
        float *g = j->gates + row0 * 3 * H;
        for (int64_t b = b0; b < b1 && j->table.ids; b++) {
            const int64_t row = step * r->step_stride + b * r->sample_stride;
            tp__copy_rows(j->gates + row * 3 * H, 0, tp__rnn_row(&j->table, j->product, row, 3 * H), 0, 3 * H, 1);
        }
        tp__rows_by_packed(j->isa, b1 - b0, h, ldh, 1, g, r->sample_stride * 3 * H, j->packed_g, H, H, 2 * H, true);
        for (int64_t b = b0; b < b1; b++)
            tp__gru_gates_of[j->isa->level](H, g + (b - b0) * r->sample_stride * 3 * H, h + (b - b0) * ldh,
                                            j->rh + b * H);
        tp__rows_by_packed(j->isa, b1 - b0, j->rh + b0 * H, H, 1, g + 2 * H, r->sample_stride * 3 * H, j->packed_c, H,
                           H, H, true);
        for (int64_t b = b0; b < b1; b++)
            tp__gru_cell_of[j->isa->level](H, g + (b - b0) * r->sample_stride * 3 * H, h + (b - b0) * ldh,
                                           y ? y + (row0 + (b - b0) * r->sample_stride) * H : j->h + b * H);
    }
    for (int64_t b = b0; b < b1 && j->k->out[1].data; b++) {
        const float *h = r->T == 0 ? h0 + b * H
                         : y       ? y + ((r->T - 1) * r->step_stride + b * r->sample_stride) * H
                                   : j->h + b * H;
        memcpy((float *)j->k->out[1].data + b * H, h, (size_t)H * sizeof(float));
    }
}
static void tp__gru_grad_block(void *user, int64_t block)
{
    const tp__gru_job *j = (const tp__gru_job *)user;
    const tp_call *k = j->k;
    const tp__rnn *r = &j->r;
    const int64_t H = r->H, b0 = block * TP__RNN_BLOCK, b1 = tp__min64(b0 + TP__RNN_BLOCK, r->B);
    const float *y = (const float *)k->in[6].data;
    const float *gates = (const float *)k->in[7].data;
    float *db = j->db + block * 3 * H;
    memset(db, 0, (size_t)(3 * H) * sizeof(float));
    memcpy(j->h + b0 * H, (const float *)k->in[1].data + b0 * H, (size_t)((b1 - b0) * H) * sizeof(float));
    for (int64_t step = r->T - 1; step >= 0; step--) {
        const int64_t row0 = step * r->step_stride + b0 * r->sample_stride;
        float *dg0 = j->gates + row0 * 3 * H;
        for (int64_t b = b0; b < b1; b++) {
            const int64_t row = step * r->step_stride + b * r->sample_stride;
            const float *h0 = step ? y + (row - r->step_stride) * H : (const float *)k->in[5].data + b * H;
            const float *g = gates + row * 3 * H, *in[2];
            tp__gru_back_of[j->isa->level](H, g, h0, (const float *)k->in[0].data + row * H, j->h + b * H,
                                           j->gates + row * 3 * H);
            tp__copy_rows(j->before + row * H, 0, h0, 0, H, 1);
            in[0] = g, in[1] = h0;
            tp__vec_mul_of[j->isa->level](H, j->before_r + row * H, in);
        }
        tp__rows_by_packed(j->isa, b1 - b0, dg0 + 2 * H, r->sample_stride * 3 * H, 1, j->rh + b0 * H, H, j->packed_c, H,
                           H, H, false);
        for (int64_t b = b0; b < b1; b++) {
            const int64_t row = step * r->step_stride + b * r->sample_stride;
            const float *in[2];
            tp__gru_back_reset_of[j->isa->level](H, gates + row * 3 * H, j->before + row * H, j->rh + b * H,
                                                 j->h + b * H, j->gates + row * 3 * H);
            in[0] = db, in[1] = j->gates + row * 3 * H;
            tp__vec_add_of[j->isa->level](3 * H, db, in);
        }
        tp__rows_by_packed(j->isa, b1 - b0, dg0, r->sample_stride * 3 * H, 1, j->h + b0 * H, H, j->packed_g, 2 * H,
                           2 * H, H, true);
    }
    if (k->out[5].data)
        memcpy((float *)k->out[5].data + b0 * H, j->h + b0 * H, (size_t)((b1 - b0) * H) * sizeof(float));
}
static void tp__gru_fast(const tp_call *k)
{
    tp__gru_job j;
    tp__gru_make(&j, k, false, k->scratch);
    const int64_t D = j.r.D, H = j.r.H;
    if (j.table.ids) tp__check_indices(k, j.table.ids, j.table.V);
    tp__pack_matrix(j.isa, j.packed_g, (const float *)k->in[1].data + D * 2 * H, 2 * H, false, H, 2 * H);
    tp__pack_matrix(j.isa, j.packed_c, (const float *)k->in[3].data + D * H, H, false, H, H);
    for (int i = 0; i < 2; i++) tp__gemm(k->device, &j.gemm[i], j.gemm_scratch);
    tp_device_parallel(k->device, tp__ceil_div(j.r.B, TP__RNN_BLOCK), tp__gru_block, &j);
}
static void tp__gru_grad_fast(const tp_call *k)
{
    tp__gru_job j;
    tp__gru_make(&j, k, true, k->scratch);
    const int64_t D = j.r.D, H = j.r.H, blocks = tp__ceil_div(j.r.B, TP__RNN_BLOCK);
    tp__pack_matrix(j.isa, j.packed_g, (const float *)k->in[3].data + D * 2 * H, 2 * H, true, 2 * H, H);
    tp__pack_matrix(j.isa, j.packed_c, (const float *)k->in[4].data + D * H, H, true, H, H);
    tp_device_parallel(k->device, blocks, tp__gru_grad_block, &j);
    if (j.table.ids) tp__rnn_table_sum(k, &j.table, j.product, j.gates, 3 * H);
    for (int i = 0; i < 8; i++)
        if (j.gemm[i].C && j.gemm[i].M > 0) tp__gemm(k->device, &j.gemm[i], j.gemm_scratch);
    if (blocks > 0) tp__tree_add(j.isa, j.db, 3 * H, (int)blocks, 3 * H);
    for (int i = 0; i < 2; i++) {
        float *db = (float *)k->out[2 + 2 * i].data;
        const size_t bytes = (size_t)(i ? H : 2 * H) * sizeof(float);
        if (db && blocks > 0) memcpy(db, j.db + (i ? 2 * H : 0), bytes);
        else if (db) memset(db, 0, bytes);
    }
}
static size_t tp__gru_fast_scratch(const tp_call *k, bool backward)
{
    tp__gru_job j;
    return k->device->isa && k->in[0].dtype == TP_F32 ? tp__gru_make(&j, k, backward, NULL) : 0;
}

/* -- attention, attention_grad -------------------------------------------------------- >>fast attention
 * A chunk is one head of one sample. Its queries are processed in blocks, so that the probabilities stay in the cache. These are stored
 * by keys, p[key TP__QUERIES + query], so that the softmax computes vectors of queries. */
#define TP__QUERIES      64 /* number of queries in a block, a multiple of any vector */
typedef struct tp__attention_job {
    const tp_call *k;
    const struct tp__isa *isa;
    tp__heads h;
    bool back;
    int64_t by_keys, by_queries,
        across; /* floats of packed matrices: Tk x D, a block of queries x D, D x a block of queries */
    tp__slots slots;
} tp__attention_job;
static size_t tp__attention_make(tp__attention_job *j, const tp_call *k, bool backward, void *scratch)
{
    tp__carver c = tp__carver_over(scratch);
    memset(j, 0, sizeof *j);
    j->k = k;
    j->isa = k->device->isa;
    j->back = backward;
    j->h = tp__heads_of(k, &k->in[backward].shape, &k->in[1 + backward].shape);
    j->by_keys = tp__packed_floats(j->isa, j->h.Tk, j->h.D);
    j->by_queries = tp__packed_floats(j->isa, TP__QUERIES, j->h.D);
    j->across = tp__packed_floats(j->isa, j->h.D, TP__QUERIES);
    const int64_t queries = backward ? j->by_queries + 2 * j->across : j->across;
    tp__slots_carve(&j->slots, k->device, &c, j->by_keys + queries + (backward ? 2 : 1) * TP__QUERIES * j->h.Tk);
    return tp__carved(&c);
}
/* C (+)= A B for some rows, as tp__rows_by_packed does it. If k is short, which it is here as a rule, even tiles begin sooner. */
static void tp__attention_multiply(const tp__attention_job *j, int64_t rows, const float *A, int64_t lda, int64_t step,
                                   float *C, int64_t ldc, const float *packed, int64_t packed_k, int64_t K, int64_t N,
                                   bool add)
{
    const int64_t nr = 2 * j->isa->vw;
    tp__even t;
    if (K > TP__KC || !tp__even_product_of[j->isa->level]) {
        tp__rows_by_packed(j->isa, rows, A, lda, step, C, ldc, packed, packed_k, K, N, add);
        return;
    }
    memset(&t, 0, sizeof t);
    t.a = A, t.a_gap = lda, t.step = step, t.K = K;
    t.c_gap = ldc, t.add = add;
    for (int64_t column = 0; column < N; column += nr) {
        const int64_t n = tp__min64(N - column, nr);
        t.b = packed + column * packed_k, t.ldb = tp__panel_width(j->isa, n), t.c = C + column;
        tp__even_product_of[j->isa->level](&t, rows, n);
    }
}
/* p = rows of a (n keys x D) times b (m queries x D), which is packed into `across` first. */
static void tp__attention_products(const tp__attention_job *j, const float *a, int64_t n, const float *b, int64_t m,
                                   float scale, float *across, float *p)
{
    const int64_t C = j->h.C, D = j->h.D, columns = tp__ceil_div(m, j->isa->vw) * j->isa->vw;
    tp__pack_matrix(j->isa, across, b, C, true, D, m);
    if (scale != 1.0f) tp__scale_of[j->isa->level](D * tp__conv_panels_width(j->isa, m), across, scale, across);
    tp__attention_multiply(j, n, a, C, 1, p, TP__QUERIES, across, D, D, columns, false);
}
/* Backward: adds the share of a block of queries to d, of dk or dv: p (n keys x m queries) times b (m x D). The first `summed` keys
 * have a sum already. */
static void tp__attention_add(const tp__attention_job *j, const float *p, int64_t n, int64_t summed, const float *b,
                              int64_t m, float *packed, float *d)
{
    const int64_t C = j->h.C, D = j->h.D;
    if (!d) return;
    tp__pack_matrix(j->isa, packed, b, C, false, m, D);
    if (summed > 0) tp__attention_multiply(j, summed, p, TP__QUERIES, 1, d, C, packed, m, m, D, true);
    if (n > summed)
        tp__attention_multiply(j, n - summed, p + summed * TP__QUERIES, TP__QUERIES, 1, d + summed * C, C, packed, m, m,
                               D, false);
}
/* A chunk of attention, forward or backward: one head of one sample. */
static void tp__attention_chunk(void *user, int64_t chunk)
{
    tp__attention_job *j = (tp__attention_job *)user;
    const tp__heads *h = &j->h;
    const tp_call *k = j->k;
    const int64_t b = chunk / h->heads, head = chunk % h->heads, C = h->C, D = h->D, Tk = h->Tk;
    const int64_t rows = b * h->Tq * C + head * D, cols = b * Tk * C + head * D;
    const int first = j->back ? 1 : 0, level = j->isa->level;
    const float *q = (const float *)k->in[first].data + rows, *keys = (const float *)k->in[first + 1].data + cols;
    const float *v = (const float *)k->in[first + 2].data + cols, scale = 1.0f / sqrtf((float)D);
    const float *dy = j->back ? (const float *)k->in[0].data + rows : NULL;
    const float *y = j->back ? (const float *)k->in[4].data + rows : NULL;
    float less[TP__QUERIES]; /* backward: dy y of each query, which is the sum of p dp over its keys */
    /* forward: the output, or NULL; backward: that of the forward pass, which is only read here */
    float *lse = (float *)(j->back ? k->in[5].data : k->out[1].data), *out[3] = {NULL, NULL, NULL};
    const int slot = tp__slot_acquire(&j->slots);
    float *by_keys = j->slots.memory + slot * j->slots.floats, *p = by_keys + j->by_keys,
          *across = p + TP__QUERIES * Tk;
    for (int i = 0; i < (j->back ? 3 : 1); i++)
        if (k->out[i].data) out[i] = (float *)k->out[i].data + (i == 0 ? rows : cols);
    if (lse) lse += chunk * h->Tq;
    tp__pack_matrix(j->isa, by_keys, j->back ? keys : v, C, false, Tk, D);
    int64_t summed = 0; /* backward: the number of keys whose dk and dv have a sum already, over the queries before */
    for (int64_t i0 = 0; i0 < h->Tq; i0 += TP__QUERIES) {
        const int64_t m = tp__min64(TP__QUERIES, h->Tq - i0), at = i0 * C, n = tp__keys_seen(h, i0 + m - 1);
        tp__attention_products(j, keys, n, q + at, m, scale, across, p);
        tp__attention_softmax_of[level](n, m, p, TP__QUERIES, i0 + h->keys_of_first_query, lse ? lse + i0 : NULL,
                                        j->back);
        float *ds = p; /* forward: the probabilities; backward: the gradient of the scores */
        if (j->back) {
            float *dp = across + j->across, *dy_across = dp + TP__QUERIES * Tk, *by_queries = dy_across + j->across;
            tp__attention_products(j, v, n, dy + at, m, 1.0f, dy_across, dp);
            tp__attention_add(j, p, n, summed, dy + at, m, by_queries, out[2]);
            for (int64_t i = 0; i < m; i++) less[i] = j->isa->dot(D, dy + at + i * C, y + at + i * C);
            tp__attention_ds_of[level](n, m, p, dp, TP__QUERIES, less, scale);
            tp__attention_add(j, dp, n, summed, q + at, m, by_queries, out[1]);
            summed = n;
            ds = dp;
        }
        if (out[0]) tp__attention_multiply(j, m, ds, 1, TP__QUERIES, out[0] + at, C, by_keys, Tk, n, D, false);
    }
    for (int o = 1; o < 3; o++) /* of keys that no query sees */
        for (int64_t e = summed; e < Tk && out[o]; e++) memset(out[o] + e * C, 0, (size_t)D * sizeof(float));
    tp__slot_release(&j->slots, slot);
}
static void tp__attention_fast(const tp_call *k)
{
    tp__attention_job j;
    if (k->out[0].data) {
        tp__attention_make(&j, k, false, k->scratch);
        tp_device_parallel(k->device, j.h.B * j.h.heads, tp__attention_chunk, &j);
        return;
    }
    tp__attention_f32(k);
}
static void tp__attention_grad_fast(const tp_call *k)
{
    tp__attention_job j;
    tp__attention_make(&j, k, true, k->scratch);
    tp_device_parallel(k->device, j.h.B * j.h.heads, tp__attention_chunk, &j);
}
static size_t tp__attention_scratch(const tp_call *k)
{
    tp__attention_job j;
    return k->device->isa && k->in[0].dtype == TP_F32 ? tp__attention_make(&j, k, k->n_in == 6, NULL) : 0;
}

/* -- dropout -------------------------------------------------------------------------- >>fast dropout */
static void tp__dropout_words(const tp_call *k, int64_t from, int64_t to) /* `from` must be a multiple of 4 */
{
    const float rate = ((const tp__dropout_attrs *)k->attrs)->rate;
    const struct tp__isa *isa = k->device->isa;
    uint32_t words[1024];
    for (int64_t i = from; i < to; i += 1024) {
        const int64_t n = to - i < 1024 ? to - i : 1024;
        tp__philox_of[isa->level]((n + 3) / 4, words, k->key, (uint64_t)i / 4, *k->step);
        tp__dropout_of[isa->level](n, (float *)k->out[0].data + i, (const float *)k->in[0].data + i, words, rate,
                                   1.0f / (1.0f - rate));
    }
}
static void tp__dropout_fast(const tp_call *k) { tp__each_range(k, tp__size(&k->in[0]), 8192, tp__dropout_words); }

/* -- optimizers ----------------------------------------------------------------------- >>fast apply_adam */
#define TP__APPLY_GRAIN  16384
TP__HOT static void tp__apply_decay(float *w, int64_t n, float factor)
{
    for (int64_t e = 0; e < n; e++) w[e] *= factor;
}
static int64_t tp__apply_pieces(const tp_operand *var)
{
    return (tp__size(var) + TP__APPLY_GRAIN - 1) / TP__APPLY_GRAIN;
}
/* Finds piece `index` of the list of all variables, which is cut into pieces of TP__APPLY_GRAIN elements. Sets *i to
 * its variable, *first to the index of that variable's first piece, [*from, *to) to its elements. The search begins at
 * *i and *first: both 0, or as an earlier piece left them. */
static void tp__apply_find(const tp_call *k, int64_t index, int *i, int64_t *first, int64_t *from, int64_t *to)
{
    for (; index - *first >= tp__apply_pieces(&k->var[*i]); ++*i) *first += tp__apply_pieces(&k->var[*i]);
    const int64_t size = tp__size(&k->var[*i]);
    *from = (index - *first) * TP__APPLY_GRAIN;
    *to = *from + TP__APPLY_GRAIN < size ? *from + TP__APPLY_GRAIN : size;
}
typedef struct tp__apply_job {
    const tp_call *k;
    tp__piece_fn piece;
    int64_t pieces, chunks;
} tp__apply_job;
/* number of chunks of work; a chunk consists of adjacent pieces, and searches for the variable of its first piece */
#define TP__APPLY_CHUNKS 64
static void tp__apply_chunk(void *user, int64_t chunk)
{
    const tp__apply_job *j = (const tp__apply_job *)user;
    int64_t from, to, first = 0;
    int i = 0;
    for (int64_t p = chunk * j->pieces / j->chunks; p < (chunk + 1) * j->pieces / j->chunks; p++) {
        tp__apply_find(j->k, p, &i, &first, &from, &to);
        j->piece(j->k, i, from, to);
    }
}
static int64_t tp__apply_all_pieces(const tp_call *k)
{
    int64_t pieces = 0;
    for (int i = 0; i < tp__apply_n(k); i++) pieces += tp__apply_pieces(&k->var[i]);
    return pieces;
}
static void tp__apply_fast(const tp_call *k)
{
    const tp__update *u = k->op->update;
    tp__apply_job j;
    j.k = k;
    j.piece = u->piece_fast ? u->piece_fast : u->piece_f32;
    j.pieces = tp__apply_all_pieces(k);
    j.chunks = tp__min64(j.pieces, TP__APPLY_CHUNKS);
    if (tp__apply_runs(k)) tp_device_parallel(k->device, j.chunks, tp__apply_chunk, &j);
}
static void tp__adam_fast(const tp_call *k, int i, int64_t from, int64_t to)
{
    const tp__adam_attrs *t = (const tp__adam_attrs *)k->attrs;
    const float lr = tp__apply_scalar_f32(k, TP__LEARNING_RATE),
                correction1 = 1.0f - tp__apply_scalar_f32(k, TP__BETA1_POWER),
                correction2 = 1.0f - tp__apply_scalar_f32(k, TP__BETA2_POWER);
    float *w = tp__apply_weight_f32(k, i) + from, *m = tp__apply_slot_f32(k, i, 0) + from,
          *v = tp__apply_slot_f32(k, i, 1) + from;
    if (t->decay != 0) tp__apply_decay(w, to - from, 1.0f - lr * t->decay);
    tp_vec_adam(k->device, to - from, w, m, v, tp__apply_gradient_f32(k, i) + from,
                lr * sqrtf(correction2) / correction1, t->beta1, t->beta2, t->epsilon);
}
static void tp__lion_fast(const tp_call *k, int i, int64_t from, int64_t to)
{
    const tp__lion_attrs *t = (const tp__lion_attrs *)k->attrs;
    tp__lion_of[k->device->isa->level](to - from, tp__apply_weight_f32(k, i) + from, tp__apply_slot_f32(k, i, 0) + from,
                                       tp__apply_gradient_f32(k, i) + from, tp__apply_scalar_f32(k, TP__LEARNING_RATE),
                                       t->beta1, t->beta2, t->decay);
}
static void tp__lamb_chunk(void *user, int64_t chunk)
{
    const tp_call *k = (const tp_call *)user;
    int64_t from, to, first = 0;
    int i = 0;
    tp__apply_find(k, chunk, &i, &first, &from, &to);
    tp__lamb_piece_f32(k, i, from, to, (double *)k->scratch + 2 * chunk);
}
static void tp__lamb_step_chunk(void *user, int64_t chunk)
{
    const tp_call *k = (const tp_call *)user;
    int64_t from, to, first = 0;
    double squares[2] = {0, 0};
    int i = 0;
    tp__apply_find(k, chunk, &i, &first, &from, &to);
    for (int64_t p = first; p < first + tp__apply_pieces(&k->var[i]); p++) {
        squares[0] += ((const double *)k->scratch)[2 * p];
        squares[1] += ((const double *)k->scratch)[2 * p + 1];
    }
    tp__lamb_step_f32(k, i, from, to, squares);
}
static void tp__lamb_fast(const tp_call *k)
{
    const int64_t chunks = tp__apply_all_pieces(k);
    if (!tp__apply_runs(k)) return;
    tp_device_parallel(k->device, chunks, tp__lamb_chunk, (void *)(uintptr_t)k);
    tp_device_parallel(k->device, chunks, tp__lamb_step_chunk, (void *)(uintptr_t)k);
}
static size_t tp__lamb_scratch(const tp_call *k) { return tp__scratch_of(tp__apply_all_pieces(k), 2 * sizeof(double)); }
static const float tp__one = 1.0f;
static tp__gemm_args tp__descend_gemm(const tp_call *k)
{
    tp__gemm_args g;
    memset(&g, 0, sizeof g);
    g.ta = true;
    g.K = k->in[0].shape.dim[0], g.M = g.lda = k->in[0].shape.dim[1], g.N = g.ldb = g.ldc = k->in[1].shape.dim[1];
    g.A = (const float *)k->in[0].data, g.B = (const float *)k->in[1].data, g.C = (float *)k->var[0].data;
    /* the address of the learning rate; its data is NULL while the scratch size is computed */
    g.descend = k->in[2].data ? (const float *)k->in[2].data : &tp__one;
    return g;
}
static void tp__descend_fast(const tp_call *k)
{
    const tp__gemm_args g = tp__descend_gemm(k);
    tp__gemm(k->device, &g, k->scratch);
}
static size_t tp__descend_scratch(const tp_call *k)
{
    const tp__gemm_args g = tp__descend_gemm(k);
    return tp__gemm_scratch(k->device, &g);
}

#else
#include "tp_tensor.h"
#endif
