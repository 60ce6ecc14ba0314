/* tp_tensor.h - v0.1 - tensors, random numbers, threads, devices and array files; no dependency but libc
 *
 * Do this:
 *     #define TP_IMPLEMENTATION        // in ONE .c file, before any other include
 *     #include "tp_tensor.h"
 *
 * WHAT THIS IS       the ground floor of tp: status codes and error sentences, a log, allocator hooks, dtypes,
 *                    shapes, tensors, a counter-based random generator, a thread pool, the device interface with
 *                    the CPU device, the numeric engine (GEMM, convolution, vector maths: naive beside fast) and
 *                    the npy/npz formats.
 * WHAT THIS IS NOT   graphs, names, training: those are tp_graph.h and up.
 *
 * A COMPLETE PROGRAM
 *     #define TP_IMPLEMENTATION
 *     #include "tp_tensor.h"
 *     int main(void)
 *     {
 *         tp_tensor t = {0};
 *         if (tp_tensor_resize(&t, TP_F32, tp_make_shape(2, 3)) != TP_OK) return 1;
 *         for (int i = 0; i < 6; i++) ((float *)t.data)[i] = (float)i;
 *         if (tp_npy_save("t.npy", &t) != TP_OK) puts(tp_last_error());
 *         tp_tensor_free(&t);
 *         return 0;
 *     }
 *
 * CONTENTS   >>config >>status >>log >>alloc >>dtype >>shape >>tensor >>random >>threads >>device >>engine >>files
 *
 * OPTIONS (define before the include)
 *     TP_STATIC                 every function is static (define it with TP_IMPLEMENTATION)
 *     TP_NO_THREADS             no pthreads: everything runs on the caller's thread, same results
 *     TP_NAIVE                  only the naive loops: no vector extensions, no run-time choice of instructions
 *     TP_MALLOC TP_REALLOC TP_FREE   all three or none: the default allocator beneath the hooks
 *     TP_ASSERT(x)              our own bugs only, never a user's mistake
 *     TP_TENSOR_FILE            this file's name, if you renamed it (it includes itself once per instruction set)
 *
 * OWNERSHIP  a tp_tensor owns the memory in .own; .data may point there or, as a view, elsewhere.
 * THREADS    functions are safe on different objects; one object belongs to one thread at a time. The log sink and
 *            the allocator are set once, before anything else.
 * ERRORS     functions return tp_status: 0 is success, >0 is flow (stop, end of data, interrupt), <0 is an error
 *            whose sentence is in tp_last_error() of the calling thread. Nothing here exits or aborts.
 * NOTATION   B batch, H W height and width, C input channels, O output channels, K kernel, N elements; NHWC.
 */
#ifndef TP_TENSOR_H
#define TP_TENSOR_H

#if defined(__CUDACC__) && defined(TP_IMPLEMENTATION)
#error "compile the implementation with a C or C++ compiler; nvcc is for tp_cuda.cu only"
#endif
#if defined(TP_STATIC) && !defined(TP_IMPLEMENTATION)
#error "TP_STATIC makes every function private to its unit, so that unit needs TP_IMPLEMENTATION too"
#endif
#if defined(TP_IMPLEMENTATION) && !defined(_WIN32)
#if !defined(_POSIX_C_SOURCE) && !defined(_GNU_SOURCE) && !defined(__APPLE__)
#if defined(_FEATURES_H) && !defined(__USE_POSIX199309)
#error "the tp implementation needs POSIX: include the tp headers before any system header in this unit"
#endif
#define _POSIX_C_SOURCE 200809L
#endif
#endif

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== >>config ======================================================================================== */

#define TP_VERSION_MAJOR 0
#define TP_VERSION_MINOR 1
#define TP_VERSION_PATCH 0
#define TP_ABI           1u /* rises when a public struct changes */

#ifndef TP_DEF
#if defined(TP_STATIC) && defined(__GNUC__)
#define TP_DEF static __attribute__((unused))
#elif defined(TP_STATIC)
#define TP_DEF static
#else
#define TP_DEF extern
#endif
#endif

#if defined(__GNUC__)
#define TP_PRINTF(fmt_, first_) __attribute__((format(printf, fmt_, first_)))
#else
#define TP_PRINTF(fmt_, first_)
#endif

#ifndef TP_ASSERT
#include <assert.h>
#define TP_ASSERT(x) assert(x)
#endif

#define TP_COUNT(a)    ((int)(sizeof(a) / sizeof((a)[0]))) /* elements of a fixed array */
#define TP__CAT2(a, b) a##b
#define TP__CAT(a, b)  TP__CAT2(a, b)

/* Booleans in option structs are three-valued, so that a call can undo what its scope set. */
typedef enum { TP_UNSET = 0, TP_YES = 1, TP_NO = 2 } tp_tri;

/* In option structs zero means "the default"; TP_ZERO is how to write an explicit 0 for a float. */
#define TP_ZERO 1.17549435e-38f

/* Where the caller stands, for error sentences. */
typedef struct tp_at {
    const char *file;
    int line;
} tp_at;
#define TP_AT \
    {         \
        __FILE__, __LINE__ }

/* "0.1.0". The program and the headers agree on the version or do not link. [tfutils: get_tf_version_tuple] */
TP_DEF const char *tp_version(void);

/* ==== >>status ======================================================================================== */

typedef enum tp_status {
    TP_OK = 0,
    TP_STOP = 1, /* end training, as success (StopTraining) */
    TP_END = 2,  /* the input has no more data */
    TP_INTR = 3, /* Ctrl-C */
    TP_ERR = -1,
    TP_ERR_ARG = -2,    /* an argument or option makes no sense */
    TP_ERR_SHAPE = -3,  /* shapes do not fit */
    TP_ERR_DTYPE = -4,  /* element types do not fit */
    TP_ERR_NOMEM = -5,  /* out of memory */
    TP_ERR_IO = -6,     /* the operating system refused a file operation */
    TP_ERR_FORMAT = -7, /* a file is damaged or of another kind */
    TP_ERR_NAME = -8,   /* no such name, or a name that is taken */
    TP_ERR_STATE = -9,  /* called at the wrong time */
    TP_ERR_NUMERIC = -10, /* NaN or infinity where a check was asked for */
    TP_ERR_TIMEOUT = -11,
    TP_ERR_UNSUPPORTED = -12 /* this build or device cannot do it */
} tp_status;

/* The sentence of this thread's last error; never NULL, "" if there was none. Valid until the next error. */
TP_DEF const char *tp_last_error(void);
/* Set the sentence and return `status`: `return tp_fail(TP_ERR_ARG, "...", x);` Sentences say what, where, and
 * what to do. Any thread. */
TP_DEF tp_status tp_fail(tp_status status, const char *fmt, ...) TP_PRINTF(2, 3);
TP_DEF const char *tp_status_name(tp_status status); /* "TP_ERR_SHAPE" */

/* ==== >>log =========================================================================================== */

typedef enum tp_log_level { TP_LOG_DEBUG, TP_LOG_INFO, TP_LOG_WARN, TP_LOG_ERROR } tp_log_level;
typedef void (*tp_log_fn)(void *user, tp_log_level level, const char *message);

/* Replace the log sink (the default writes "[MMDD HH:MM:SS] message" to stderr, WRN and ERR marked, in colour on
 * a terminal, and to <logger dir>/log.log once tp_logger_set_dir was called). NULL restores the default. */
TP_DEF void tp_set_log(tp_log_fn fn, void *user);
TP_DEF void tp_log(tp_log_level level, const char *fmt, ...) TP_PRINTF(2, 3);
/* Log once per process per message text (for warnings inside loops); at most 256 different texts are remembered. */
TP_DEF void tp_log_once(tp_log_level level, const char *fmt, ...) TP_PRINTF(2, 3);

/* The directory for everything a run writes. If it exists and is not empty, `action` decides: 'k' keep, 'd' delete,
 * 'b' rename the old one to dir+MMDD-HHMMSS, 'n' use a new name dir+MMDD-HHMMSS, 0 is an error. An old log.log is
 * renamed log.log.MMDD-HHMMSS. [train: logger.set_logger_dir] */
TP_DEF tp_status tp_logger_set_dir(const char *dir, char action);
/* train_log/<base name of program without extension>[:<name>] [logger.auto_set_dir] */
TP_DEF tp_status tp_logger_auto_set_dir(const char *program, const char *name, char action);
TP_DEF const char *tp_logger_dir(void); /* NULL if none was set */

/* ==== >>alloc ========================================================================================= */

typedef struct tp_allocator {
    void *(*malloc_fn)(size_t size, void *user);
    void *(*realloc_fn)(void *p, size_t size, void *user);
    void (*free_fn)(void *p, void *user);
    void *user;
} tp_allocator;
TP_DEF void tp_set_allocator(const tp_allocator *a); /* NULL: the default; before any other call */

TP_DEF void *tp_malloc(size_t size);           /* NULL when out of memory, with tp_last_error() set */
TP_DEF void *tp_calloc(size_t n, size_t size); /* zeroed; NULL on overflow too */
TP_DEF void *tp_realloc(void *p, size_t size); /* on failure p is untouched */
TP_DEF void tp_free(void *p);
TP_DEF void *tp_alloc_aligned(size_t size); /* 64-byte aligned, for tensor data; free with tp_free_aligned */
TP_DEF void tp_free_aligned(void *p);
TP_DEF bool tp_mul_size(size_t a, size_t b, size_t *out); /* false on overflow */
TP_DEF char *tp_strdup(const char *s);

/* A growing arena: many small allocations that die together. Zeroed memory; NULL when out of memory. */
typedef struct tp_arena {
    struct tp__arena_block *head;
    size_t used; /* bytes handed out */
} tp_arena;
TP_DEF void *tp_arena_alloc(tp_arena *a, size_t size);
TP_DEF char *tp_arena_strdup(tp_arena *a, const char *s);
TP_DEF char *tp_arena_printf(tp_arena *a, const char *fmt, ...) TP_PRINTF(2, 3);
TP_DEF void tp_arena_free(tp_arena *a);

/* A growing byte string, for text and messages. `data` is always NUL-terminated when len > 0; `failed` sticks. */
typedef struct tp_buf {
    char *data;
    size_t len, cap;
    bool failed;
} tp_buf;
TP_DEF void tp_buf_put(tp_buf *b, const void *p, size_t n);
TP_DEF void tp_buf_printf(tp_buf *b, const char *fmt, ...) TP_PRINTF(2, 3);
TP_DEF void tp_buf_free(tp_buf *b);

/* ==== >>dtype ========================================================================================= */

typedef enum tp_dtype {
    TP_DTYPE_UNSET = 0,
    TP_F32,
    TP_F64,
    TP_F16,
    TP_BF16,
    TP_I32,
    TP_I64,
    TP_U8,
    TP_BOOL,
    TP_DTYPE_COUNT
} tp_dtype;
TP_DEF size_t tp_dtype_size(tp_dtype d);      /* bytes of an element; 0 if unset */
TP_DEF const char *tp_dtype_name(tp_dtype d); /* "float32" */
TP_DEF bool tp_dtype_is_float(tp_dtype d);
TP_DEF float tp_f16_to_f32(uint16_t h);
TP_DEF uint16_t tp_f32_to_f16(float f); /* round to nearest even */
TP_DEF float tp_bf16_to_f32(uint16_t h);
TP_DEF uint16_t tp_f32_to_bf16(float f);
/* n elements from one dtype to another: float to integer truncates toward zero, x to bool is x != 0. */
TP_DEF void tp_convert(void *dst, tp_dtype dst_dtype, const void *src, tp_dtype src_dtype, int64_t n);

/* ==== >>shape ========================================================================================= */

#define TP_MAX_DIMS 8
#define TP_ANY      (-1) /* a dimension not known before the data arrives (the batch) */

typedef struct tp_shape {
    int ndim; /* 0 is a scalar */
    int64_t dim[TP_MAX_DIMS];
} tp_shape;

TP_DEF tp_shape tp_make_shape_n(int ndim, const int64_t *dim);
TP_DEF int64_t tp_shape_size(const tp_shape *s); /* elements; -1 if a dimension is unknown; INT64_MAX on overflow */
TP_DEF bool tp_shape_known(const tp_shape *s);
TP_DEF bool tp_shape_equal(const tp_shape *a, const tp_shape *b);
TP_DEF bool tp_shape_compatible(const tp_shape *a, const tp_shape *b); /* unknown dimensions fit anything */
/* "(?,28,28,1)" into a caller's buffer of at least TP_SHAPE_TEXT bytes; returns buf. */
#define TP_SHAPE_TEXT (TP_MAX_DIMS * 21 + 4)
TP_DEF const char *tp_shape_text(const tp_shape *s, char *buf);
#ifndef __cplusplus
/* tp_make_shape(2, 3): a shape from its dimensions (at least one). */
#define tp_make_shape(...)                                                           \
    tp_make_shape_n((int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
                    (const int64_t[]){__VA_ARGS__})
#endif

/* What kind of value: an element type and a shape. */
typedef struct tp_type {
    tp_dtype dtype;
    tp_shape shape;
} tp_type;

/* ==== >>tensor ======================================================================================== */

/* A contiguous row-major array in host memory. Zero-initialise; free with tp_tensor_free. `data` points into `own`
 * or, for a view, to memory of somebody else. The owned buffer is kept for reuse when the tensor becomes a view. */
typedef struct tp_tensor {
    tp_dtype dtype;
    tp_shape shape;
    void *data;
    void *own;
    size_t capacity; /* bytes of own */
} tp_tensor;

/* Give t this type and own memory for it (contents undefined); reuses its buffer when that is large enough. */
TP_DEF tp_status tp_tensor_resize(tp_tensor *t, tp_dtype dtype, tp_shape shape);
TP_DEF void tp_tensor_view(tp_tensor *t, tp_dtype dtype, tp_shape shape, const void *data); /* borrows data */
TP_DEF tp_status tp_tensor_copy(tp_tensor *dst, const tp_tensor *src); /* dst is resized and owns its copy */
TP_DEF void tp_tensor_free(tp_tensor *t);
TP_DEF size_t tp_tensor_bytes(const tp_tensor *t);
TP_DEF int64_t tp_tensor_size(const tp_tensor *t);
TP_DEF double tp_tensor_get(const tp_tensor *t, int64_t i);       /* element i as a double */
TP_DEF void tp_tensor_set(tp_tensor *t, int64_t i, double value); /* element i, converted */
TP_DEF tp_tensor tp_scalar_view(const float *value);              /* a rank-0 view of a float */

/* ==== >>random ======================================================================================== */

/* Philox 4x32-10: the four 32-bit numbers at `counter` (128 bits as two words) under `key`. Pure; any thread. */
TP_DEF void tp_philox(uint64_t key, uint64_t counter_lo, uint64_t counter_hi, uint32_t out[4]);
/* One key from a seed and a stream (a name's hash, say). */
TP_DEF uint64_t tp_random_key(uint64_t seed, uint64_t stream);
/* Element `index` of a stream: lane index%4 of the block at counter (index/4, step). */
TP_DEF uint32_t tp_random_u32(uint64_t key, uint64_t step, uint64_t index);
TP_DEF float tp_random_uniform(uint64_t key, uint64_t step, uint64_t index); /* in [0,1), 24 bits */
TP_DEF double tp_random_normal(uint64_t key, uint64_t step, uint64_t index); /* mean 0, deviation 1 (Box-Muller) */
TP_DEF uint64_t tp_hash(const void *p, size_t n); /* FNV-1a, 64 bits, mixed; for names */
TP_DEF uint64_t tp_hash_name(const char *s);
/* A permutation of 0..n-1 into `order`, a function of key and n alone. */
TP_DEF void tp_random_permutation(uint64_t key, int64_t *order, int64_t n);

/* ==== >>threads ======================================================================================= */

typedef struct tp_pool tp_pool;
typedef void (*tp_chunk_fn)(void *user, int64_t chunk); /* chunks run in any order, each once */

/* A pool that runs on `threads` threads, the caller's included; 0 = one a processor. With TP_NO_THREADS always 1. */
TP_DEF tp_pool *tp_pool_new(int threads);
TP_DEF void tp_pool_free(tp_pool *p);
TP_DEF int tp_pool_threads(const tp_pool *p);
/* Run fn(user, 0..n-1) and return when all are done. Chunks are claimed dynamically, so a chunk must not depend on
 * which thread runs it. Not reentrant: not from inside a chunk. Several threads may call: they take turns. */
TP_DEF void tp_pool_run(tp_pool *p, int64_t n, tp_chunk_fn fn, void *user);

TP_DEF double tp_time(void); /* seconds, monotonic */

/* Threads for prefetching; all NULL-safe. With TP_NO_THREADS tp_thread_start fails with TP_ERR_UNSUPPORTED. */
typedef struct tp_thread tp_thread;
typedef struct tp_mutex tp_mutex;
typedef struct tp_cond tp_cond;
TP_DEF tp_status tp_thread_start(tp_thread **t, void (*fn)(void *), void *user);
TP_DEF void tp_thread_join(tp_thread *t); /* waits, then frees */
TP_DEF tp_mutex *tp_mutex_new(void);
TP_DEF void tp_mutex_free(tp_mutex *m);
TP_DEF void tp_mutex_lock(tp_mutex *m);
TP_DEF void tp_mutex_unlock(tp_mutex *m);
TP_DEF tp_cond *tp_cond_new(void);
TP_DEF void tp_cond_free(tp_cond *c);
TP_DEF void tp_cond_wait(tp_cond *c, tp_mutex *m);
TP_DEF bool tp_cond_wait_for(tp_cond *c, tp_mutex *m, double seconds); /* false: the time passed */
TP_DEF void tp_cond_signal(tp_cond *c);
TP_DEF void tp_cond_broadcast(tp_cond *c);

/* ==== >>device ======================================================================================== */

typedef struct tp_device tp_device;

/* An operand of a kernel: contiguous, row-major, in the device's memory. data is NULL for an output that nobody
 * wants and for an input that is read for its shape alone. */
typedef struct tp_operand {
    void *data;
    tp_dtype dtype;
    tp_shape shape;
} tp_operand;

/* Everything one kernel call gets. Filled once when a plan is bound; what changes per step lies behind pointers
 * (`step`), so that a recorded graph can be replayed. */
typedef struct tp_call {
    tp_device *device;
    const struct tp_op *op; /* the row of the op table */
    const void *attrs;      /* the op's attribute struct, NULL if it has none */
    int n_in, n_out, n_var;
    const tp_operand *in;
    const tp_operand *out;
    const tp_operand *var; /* variables that the op reads and writes in place */
    uint64_t key;          /* key of the op's random stream */
    const uint64_t *step;  /* the run's random step, in device memory */
    void *scratch;         /* what the row's scratch() asked for; contents undefined */
    size_t scratch_bytes;
    void *user; /* host ops: what the builder registered */
    const char *name; /* of the operation, for sentences */
    int64_t *fault;   /* two words in device memory, {0,0}: fine; see tp_kernel_fault */
    int64_t fault_id;
} tp_call;
/* For kernels that meet bad data (a label outside the classes): the run fails with the row's fault sentence. The first
 * fault of a run stays. Any thread. */
TP_DEF void tp_kernel_fault(const tp_call *k, int64_t value);
/* A kernel checks nothing (shapes were checked when the graph was built), writes every live output entirely, never
 * its inputs, and gives the same bits for any number of threads. */
typedef void (*tp_kernel_fn)(const tp_call *k);

/* A device: memory and a stream of kernels in order. All functions but open are required; `host` says that its
 * memory can be read by the CPU. record/replay may be NULL (plans then run kernel by kernel). */
struct tp_device {
    unsigned abi; /* TP_ABI of the unit that made it */
    char name[32]; /* "cpu:0" */
    bool host;
    void *(*alloc)(tp_device *d, size_t bytes); /* 64-byte aligned; NULL when full */
    void (*free)(tp_device *d, void *p);
    tp_status (*upload)(tp_device *d, void *dst, const void *host_src, size_t bytes);
    tp_status (*download)(tp_device *d, void *host_dst, const void *src, size_t bytes);
    tp_status (*copy)(tp_device *d, void *dst, const void *src, size_t bytes);
    tp_kernel_fn (*find_kernel)(tp_device *d, const char *op); /* NULL: none (host devices then use the op's row) */
    tp_status (*wait)(tp_device *d);                           /* until everything queued is done */
    tp_status (*record_begin)(tp_device *d);
    tp_status (*record_end)(tp_device *d, void **recording);
    tp_status (*replay)(tp_device *d, void *recording);
    void (*record_free)(tp_device *d, void *recording);
    void (*close)(tp_device *d);
    tp_pool *pool;                 /* host devices: the threads kernels run on */
    const struct tp__isa *isa;     /* host devices: the chosen vector kernels, NULL under TP_NAIVE */
    void *impl;
};

/* The CPU as a device. threads: 0 = one a processor. isa: NULL = the best this machine has (or $TP_ISA), else
 * "naive", "sse2", "avx2", "avx512", "neon"; unknown or absent ones are an error. Bit identity is promised per ISA.
 * NULL on failure. Close with d->close(d). */
TP_DEF tp_device *tp_cpu_device_new(int threads, const char *isa);
TP_DEF const char *tp_device_isa(const tp_device *d); /* "avx512"; "naive" without vector kernels */
/* Add or replace the kernel of an op (by its name) on this device, for user-written ops. Returns TP_ERR_NOMEM when
 * the table is full. */
TP_DEF tp_status tp_device_add_kernel(tp_device *d, const char *op, tp_kernel_fn fn);
/* Run fn over n chunks on the device's threads (in order on the caller's thread when it has none). */
TP_DEF void tp_device_parallel(tp_device *d, int64_t n, tp_chunk_fn fn, void *user);

/* ==== >>engine ======================================================================================== */
/* The numeric engine that several ops share: a naive loop, which is the definition, beside a fast path chosen by the
 * device's ISA. All matrices are row-major float; every function gives the same bits for any number of threads.
 * Fast paths may differ from naive ones by the rounding of another order of summation, never more. */

/* What a GEMM or convolution does to a finished sum before it is stored: v += bias[column], then the activation. */
typedef enum { TP_EPILOGUE_NONE = 0, TP_EPILOGUE_RELU = 1 } tp_epilogue_act;
typedef struct tp_epilogue {
    const float *bias; /* one a column (output channel), or NULL */
    int act;           /* tp_epilogue_act */
} tp_epilogue;

/* C[M,N] = op(A) op(B) (+ C if accumulate), op(X) = X or its transpose; A is [M,K] (or [K,M] if ta), B is [K,N] (or
 * [N,K] if tb); lda, ldb, ldc are row strides in elements. epilogue may be NULL. scratch as tp_gemm_scratch says. */
typedef struct tp_gemm_args {
    bool ta, tb, accumulate;
    int64_t M, N, K;
    const float *A, *B;
    float *C;
    int64_t lda, ldb, ldc;
    tp_epilogue epilogue;
} tp_gemm_args;
TP_DEF size_t tp_gemm_scratch(tp_device *d, const tp_gemm_args *a); /* bytes; pointers in `a` are not looked at */
TP_DEF void tp_gemm(tp_device *d, const tp_gemm_args *a, void *scratch);

/* 2-D convolution, NHWC, weights HWIO: x (B,H,W,C), w (KH,KW,C/groups,O), y (B,OH,OW,O). Padding is given as what is
 * added before (top, left); the rest follows from the output size. */
typedef struct tp_conv_args {
    int64_t B, H, W, C, O, KH, KW, OH, OW;
    int64_t stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left, groups;
    const float *x, *w, *dy; /* forward reads x,w; input gradient dy,w; filter gradient x,dy */
    float *y, *dx, *dw;      /* what is written */
    tp_epilogue epilogue;    /* forward only */
} tp_conv_args;
typedef enum { TP_CONV_FORWARD, TP_CONV_INPUT_GRAD, TP_CONV_FILTER_GRAD } tp_conv_what;
TP_DEF size_t tp_conv_scratch(tp_device *d, const tp_conv_args *a, tp_conv_what what);
TP_DEF void tp_conv(tp_device *d, const tp_conv_args *a, tp_conv_what what, void *scratch);

/* Vector functions over n floats, the building blocks of element-wise chains. y may be the same array as an input.
 * exp, log, tanh, sigmoid are ours (2 ulp) and the same bits on every ISA is not promised, on one ISA it is. */
typedef enum tp_vec {
    TP_VEC_NONE = 0,
    TP_VEC_ADD, TP_VEC_SUB, TP_VEC_MUL, TP_VEC_DIV, TP_VEC_MAX, TP_VEC_MIN, /* binary */
    TP_VEC_NEG, TP_VEC_ABS, TP_VEC_SQUARE, TP_VEC_SQRT, TP_VEC_RSQRT, TP_VEC_RECIPROCAL, /* unary */
    TP_VEC_EXP, TP_VEC_LOG, TP_VEC_TANH, TP_VEC_SIGMOID, TP_VEC_RELU,
    TP_VEC_RELU_GRAD, /* in: dy, y.  y > 0 ? dy : 0 */
    TP_VEC_COUNT
} tp_vec;
typedef void (*tp_vec_fn)(int64_t n, float *y, const float *const *in);
TP_DEF tp_vec_fn tp_vec_find(tp_device *d, tp_vec what); /* NULL: this device has no fast version */

/* Sums with a fixed order (32 lanes, then a fixed tree), so the same bits for any number of threads. */
TP_DEF float tp_vec_sum(tp_device *d, int64_t n, const float *x);
TP_DEF float tp_vec_dot(tp_device *d, int64_t n, const float *x, const float *y);
TP_DEF float tp_vec_max(tp_device *d, int64_t n, const float *x); /* -inf if n is 0; NaN if there is one */

/* One pass of Adam over n elements: m += (g-m)(1-b1), v += (g*g-v)(1-b2), w -= lr_t*m/(sqrt(v)+eps). */
TP_DEF void tp_vec_adam(tp_device *d, int64_t n, float *w, float *m, float *v, const float *g, float lr_t, float b1,
                        float b2, float eps);

/* Our own exp, log, tanh, erf for one float; the naive loops use them, so that no libm decides our bits. */
TP_DEF float tp_expf(float x);
TP_DEF float tp_logf(float x);
TP_DEF float tp_tanhf(float x);
TP_DEF float tp_erff(float x);

/* ==== >>files ========================================================================================= */

/* Whole files. tp_file_read: *data is tp_malloc'ed, with a NUL after it; a size above `limit` (0: 16 GiB) is refused.
 * A gzip file (.gz or not: the magic decides) is inflated when `gunzip`. */
TP_DEF tp_status tp_file_read(const char *path, bool gunzip, size_t limit, char **data, size_t *size);
TP_DEF bool tp_file_exists(const char *path);
TP_DEF tp_status tp_make_dirs(const char *path); /* mkdir -p */

/* A file that appears whole or not at all: written to path.tmp.<pid>, synced, renamed by commit. After an error every
 * later call returns it again; commit or abort always ends it, and nothing is left behind on failure. */
typedef struct tp_writer tp_writer;
TP_DEF tp_status tp_writer_open(tp_writer **w, const char *path);
TP_DEF tp_status tp_writer_put(tp_writer *w, const void *data, size_t size);
TP_DEF tp_status tp_writer_commit(tp_writer *w); /* frees w */
TP_DEF void tp_writer_abort(tp_writer *w);       /* frees w; NULL is fine */

TP_DEF uint32_t tp_crc32(uint32_t crc, const void *data, size_t n);  /* zip, gzip, PNG; start with 0 */
TP_DEF uint32_t tp_crc32c(uint32_t crc, const void *data, size_t n); /* Castagnoli: TFRecord; start with 0 */
/* Raw deflate. Exactly `out_size` bytes must come out and all input be used, else TP_ERR_FORMAT. */
TP_DEF tp_status tp_inflate(const void *in, size_t in_size, void *out, size_t out_size);
/* Raw deflate with unknown output size, at most `limit`; *out is tp_malloc'ed; *used is what was read. */
TP_DEF tp_status tp_inflate_alloc(const void *in, size_t in_size, size_t limit, char **out, size_t *out_size,
                                  size_t *used);
/* Compress to raw deflate (fixed Huffman codes, LZ77), appended to out. */
TP_DEF tp_status tp_deflate(const void *in, size_t in_size, tp_buf *out);

/* .npy: all numeric dtypes are read (i1 i2 u2 u4 u8 are widened to i32/i64, or refused where they would not fit;
 * big-endian and Fortran order are converted); objects and strings are refused. */
TP_DEF tp_status tp_npy_save(const char *path, const tp_tensor *t);
TP_DEF tp_status tp_npy_load(const char *path, tp_tensor *t);
TP_DEF tp_status tp_npy_parse(const void *data, size_t size, const char *what, tp_tensor *t); /* what: for errors */

/* A set of named arrays: an npz in memory. */
typedef struct tp_dict_item {
    char *name;
    tp_tensor value;
} tp_dict_item;
typedef struct tp_dict {
    tp_dict_item *item;
    int n, cap;
} tp_dict;
TP_DEF tp_tensor *tp_dict_find(const tp_dict *d, const char *name); /* NULL if absent */
TP_DEF tp_tensor *tp_dict_add(tp_dict *d, const char *name); /* empty tensor to fill; the old one if it exists; NULL: no memory */
TP_DEF void tp_dict_free(tp_dict *d);

/* .npz, stored or deflated, zip64 included; sizes, overlaps and CRCs are checked before anything is believed. */
TP_DEF tp_status tp_npz_load(const char *path, tp_dict *d);
TP_DEF tp_status tp_npz_save(const char *path, const tp_dict *d, bool compress); /* atomic */
/* Streaming writer, so that a checkpoint needs no second copy of the variables. */
typedef struct tp_npz_writer tp_npz_writer;
TP_DEF tp_status tp_npz_open(tp_npz_writer **w, const char *path, bool compress);
TP_DEF tp_status tp_npz_put(tp_npz_writer *w, const char *name, const tp_tensor *t);
TP_DEF tp_status tp_npz_close(tp_npz_writer *w); /* atomic: the file appears now, or not at all; frees w */
TP_DEF void tp_npz_abort(tp_npz_writer *w);

#ifdef __cplusplus
}
#endif
#endif /* TP_TENSOR_H */

/* ===== STOP HERE if you only want to use the library. Everything below is implementation. ===== */
#if defined(TP_IMPLEMENTATION) && !defined(TP__TENSOR_IMPLEMENTED)
#define TP__TENSOR_IMPLEMENTED
#ifndef TP_TENSOR_FILE
#define TP_TENSOR_FILE "tp_tensor.h"
#endif
#include "parts/tensor_core.inc"
#include "parts/tensor_engine.inc"
#include "parts/tensor_files.inc"
#endif
