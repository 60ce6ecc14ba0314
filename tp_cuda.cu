/* tp_cuda.cu - v0.1 - the device interface of tp_tensor.h on an NVIDIA GPU: CUDA 13, cuBLASLt, cuDNN 9
 *
 * USE            nvcc -O2 -arch=native -c tp_cuda.cu
 *                gcc -O2 train.c tp_cuda.o -L$CUDA/lib64 -lcudart -lcublasLt -lcudnn -lstdc++ -lm -lpthread
 *                and in train.c: tp_device *gpu = tp_cuda_open(0), given to the session in .devices
 * HOW IT READS   an op is a block of kernels, then their launchers, then its line in the table at the end of the section;
 *                the sections stand in the order of the op pages of tp_graph.h, which have the formulas.
 * CONTENTS       >>launch >>device >>numbers >>shapes >>elementwise >>matmul >>reductions >>moves >>random >>variables
 *                >>convolution >>normalisation >>rows >>sequences >>images >>table
 *
 * Every kernel gives the same bits each time: sums are made in a fixed order, nothing is added by atomics. Blocks have at
 * most 256 threads. Launches go through TP_LAUNCH, so that tests can run this file on a CPU.
 */
#include "tp_graph.h" /* types only: TP_IMPLEMENTATION belongs into a C file */
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ==== >>launch ======================================================================================== */

#ifndef TP_CUDA_SHIM
#define TP_KERNEL                   static __global__ void __launch_bounds__(256)
#define TP_SHARED(type_, name_, n_) __shared__ type_ name_[n_]
#define TP_DYNAMIC_SHARED(type_, name_)                       \
    extern __shared__ __align__(16) unsigned char tp__room[]; \
    type_ *name_ = (type_ *)tp__room
#define TP_LAUNCH(stream_, kernel_, grid_, threads_, shared_bytes_, ...) \
    kernel_<<<grid_, threads_, shared_bytes_, stream_>>>(__VA_ARGS__)
#endif
#define TP__THREADS 256

/* Each element of [0, n), by threads of as many blocks as there are. */
#define TP_EACH(i_, n_)                                                                                            \
    for (int64_t i_ = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, i_##_step = (int64_t)gridDim.x * blockDim.x; \
         i_ < (n_); i_ += i_##_step)

/* ==== >>device ======================================================================================== */

#define TP__STAGES      4
#define TP__STAGE_BYTES ((size_t)4 << 20) /* pinned memory that transfers go through, a piece of them */
#define TP__LATE        256               /* small downloads that wait() completes */
#define TP__PRODUCTS    1024              /* remembered choices of a product's algorithm; a power of two */

typedef struct tp__product {
    uint64_t key;
    cublasLtMatmulAlgo_t algo;
} tp__product;

/* What tp_device.impl points to. */
typedef struct tp__cuda {
    tp_device device; /* first: a tp_device * is a tp__cuda * */
    tp_fail_fn fail;
    int ordinal, n_processor;
    cudaStream_t stream;
    cublasLtHandle_t blas;
    cudnnHandle_t dnn;
    void *workspace; /* of cuBLASLt: one stream, one user at a time */
    size_t workspace_bytes;
    char *stage[TP__STAGES]; /* pinned */
    cudaEvent_t stage_free[TP__STAGES];
    int stage_at;
    cudaEvent_t mark; /* for copies between GPUs */
    char *late_room;  /* pinned: what small downloads arrive in */
    size_t late_used;
    struct {
        void *to;
        size_t at, bytes;
    } late[TP__LATE];
    int n_late;
    bool recording;
    tp_status status; /* the first failure of a kernel; wait() tells of it */
    char error[512];
    tp__product product[TP__PRODUCTS];
    struct tp__conv_choice *convolution; /* what cuDNN was asked, and its answers */
} tp__cuda;

static tp__cuda *tp__cuda_of(const tp_call *k) { return (tp__cuda *)k->device; }

/* Kernels return nothing: what goes wrong is kept until somebody waits. */
static void tp__broken(tp__cuda *c, const char *what, const char *why)
{
    if (c->status != TP_OK) return;
    c->status = TP_ERR_STATE;
    snprintf(c->error, sizeof c->error, "%s: %s failed: %s", c->device.name, what, why);
}
static void tp__check_launch(const tp_call *k)
{
    const cudaError_t e = cudaGetLastError();
    if (e != cudaSuccess) tp__broken(tp__cuda_of(k), k->op ? k->op->name : "a kernel", cudaGetErrorString(e));
}
/* The usual launch: `work_` threads' worth of blocks, no more than fill the GPU some times over. */
#define TP_RUN(k_, kernel_, work_, ...)                                                                        \
    do {                                                                                                       \
        const int64_t work_n_ = (work_);                                                                       \
        if (work_n_ > 0) {                                                                                     \
            TP_LAUNCH(tp__cuda_of(k_)->stream, kernel_, tp__blocks(k_, work_n_), TP__THREADS, 0, __VA_ARGS__); \
            tp__check_launch(k_);                                                                              \
        }                                                                                                      \
    } while (0)
/* One block for each of `blocks_` pieces of work. */
#define TP_RUN_BLOCKS(k_, kernel_, blocks_, threads_, shared_, ...)                                               \
    do {                                                                                                          \
        const int64_t blocks_n_ = (blocks_);                                                                      \
        if (blocks_n_ > 0) {                                                                                      \
            TP_LAUNCH(tp__cuda_of(k_)->stream, kernel_, (unsigned)blocks_n_, (threads_), (shared_), __VA_ARGS__); \
            tp__check_launch(k_);                                                                                 \
        }                                                                                                         \
    } while (0)
static unsigned tp__blocks(const tp_call *k, int64_t work)
{
    const int64_t want = (work + TP__THREADS - 1) / TP__THREADS, most = (int64_t)tp__cuda_of(k)->n_processor * 16;
    return (unsigned)(want < most ? want : most);
}

static tp_status tp__cuda_status(tp__cuda *c, cudaError_t e, const char *what)
{
    if (e == cudaSuccess) return TP_OK;
    return c->fail(e == cudaErrorMemoryAllocation ? TP_ERR_NOMEM : TP_ERR_STATE, "%s: %s failed: %s", c->device.name,
                   what, cudaGetErrorString(e));
}

static void *tp__cuda_alloc(tp_device *d, size_t bytes)
{
    tp__cuda *c = (tp__cuda *)d;
    void *p = NULL;
    cudaSetDevice(c->ordinal);
    if (cudaMalloc(&p, bytes ? bytes : 1) == cudaSuccess) return p;
    cudaGetLastError(); /* not to be found again by the next check */
    return NULL;
}
static void tp__cuda_free(tp_device *d, void *p)
{
    tp__cuda *c = (tp__cuda *)d;
    if (!p) return;
    cudaSetDevice(c->ordinal);
    cudaFree(p);
}

/* The next piece of pinned memory, once the transfer that used it is over. */
static tp_status tp__stage_next(tp__cuda *c, int *at)
{
    *at = c->stage_at;
    c->stage_at = (c->stage_at + 1) % TP__STAGES;
    return tp__cuda_status(c, cudaEventSynchronize(c->stage_free[*at]), "waiting for a transfer");
}

static tp_status tp__cuda_upload(tp_device *d, void *dst, const void *src, size_t bytes)
{
    tp__cuda *c = (tp__cuda *)d;
    cudaSetDevice(c->ordinal);
    for (size_t done = 0; done < bytes;) {
        const size_t n = bytes - done < TP__STAGE_BYTES ? bytes - done : TP__STAGE_BYTES;
        int s;
        tp_status st = tp__stage_next(c, &s);
        if (st != TP_OK) return st;
        memcpy(c->stage[s], (const char *)src + done, n);
        st = tp__cuda_status(c, cudaMemcpyAsync((char *)dst + done, c->stage[s], n, cudaMemcpyHostToDevice, c->stream),
                             "an upload");
        if (st == TP_OK) st = tp__cuda_status(c, cudaEventRecord(c->stage_free[s], c->stream), "an upload");
        if (st != TP_OK) return st;
        done += n;
    }
    return TP_OK;
}

static tp_status tp__cuda_wait(tp_device *d)
{
    tp__cuda *c = (tp__cuda *)d;
    cudaSetDevice(c->ordinal);
    const cudaError_t e = cudaStreamSynchronize(c->stream);
    for (int i = 0; i < c->n_late && e == cudaSuccess; i++)
        memcpy(c->late[i].to, c->late_room + c->late[i].at, c->late[i].bytes);
    c->n_late = 0;
    c->late_used = 0;
    if (e != cudaSuccess) return tp__cuda_status(c, e, "the work queued on it");
    if (c->status != TP_OK) {
        const tp_status st = c->status;
        c->status = TP_OK;
        return c->fail(st, "%s", c->error);
    }
    return TP_OK;
}

/* Complete when wait() returns. Small ones (a cost, a counter) share one wait. */
static tp_status tp__cuda_download(tp_device *d, void *dst, const void *src, size_t bytes)
{
    tp__cuda *c = (tp__cuda *)d;
    cudaSetDevice(c->ordinal);
    if (c->n_late < TP__LATE && c->late_used + bytes <= TP__STAGE_BYTES && bytes <= TP__STAGE_BYTES / 16) {
        c->late[c->n_late].to = dst;
        c->late[c->n_late].at = c->late_used;
        c->late[c->n_late].bytes = bytes;
        const tp_status st = tp__cuda_status(
            c, cudaMemcpyAsync(c->late_room + c->late_used, src, bytes, cudaMemcpyDeviceToHost, c->stream),
            "a download");
        if (st != TP_OK) return st;
        c->late_used += (bytes + 63) & ~(size_t)63;
        c->n_late++;
        return TP_OK;
    }
    size_t begun = 0, done = 0; /* the next piece travels while one is copied out */
    int slot[2] = {0, 0}, n = 0;
    while (done < bytes) {
        while (n < 2 && begun < bytes) {
            const size_t m = bytes - begun < TP__STAGE_BYTES ? bytes - begun : TP__STAGE_BYTES;
            int s;
            tp_status st = tp__stage_next(c, &s);
            if (st != TP_OK) return st;
            st = tp__cuda_status(
                c, cudaMemcpyAsync(c->stage[s], (const char *)src + begun, m, cudaMemcpyDeviceToHost, c->stream),
                "a download");
            if (st == TP_OK) st = tp__cuda_status(c, cudaEventRecord(c->stage_free[s], c->stream), "a download");
            if (st != TP_OK) return st;
            slot[n++] = s;
            begun += m;
        }
        const size_t m = bytes - done < TP__STAGE_BYTES ? bytes - done : TP__STAGE_BYTES;
        const tp_status st = tp__cuda_status(c, cudaEventSynchronize(c->stage_free[slot[0]]), "a download");
        if (st != TP_OK) return st;
        memcpy((char *)dst + done, c->stage[slot[0]], m);
        done += m;
        slot[0] = slot[1];
        n--;
    }
    return TP_OK;
}

static tp_status tp__cuda_copy(tp_device *d, void *dst, const void *src, size_t bytes)
{
    tp__cuda *c = (tp__cuda *)d;
    cudaSetDevice(c->ordinal);
    return tp__cuda_status(c, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, c->stream), "a copy");
}

/* Between two GPUs: after what is queued on the other, which goes on when the copy is done. */
static tp_status tp__cuda_copy_from(tp_device *d, void *dst, tp_device *from, const void *src, size_t bytes)
{
    tp__cuda *c = (tp__cuda *)d, *f = (tp__cuda *)from;
    if (from->host) return tp__cuda_upload(d, dst, src, bytes);
    if (from->copy_from != tp__cuda_copy_from)
        return c->fail(TP_ERR_UNSUPPORTED, "%s cannot copy from %s", d->name, from->name);
    if (c == f) return tp__cuda_copy(d, dst, src, bytes);
    cudaSetDevice(f->ordinal);
    tp_status st = tp__cuda_status(f, cudaEventRecord(f->mark, f->stream), "a copy to another GPU");
    cudaSetDevice(c->ordinal);
    if (st == TP_OK) st = tp__cuda_status(c, cudaStreamWaitEvent(c->stream, f->mark, 0), "a copy from another GPU");
    if (st == TP_OK)
        st = tp__cuda_status(c, cudaMemcpyPeerAsync(dst, c->ordinal, src, f->ordinal, bytes, c->stream),
                             "a copy from another GPU");
    if (st == TP_OK) st = tp__cuda_status(c, cudaEventRecord(c->mark, c->stream), "a copy from another GPU");
    cudaSetDevice(f->ordinal);
    if (st == TP_OK) st = tp__cuda_status(f, cudaStreamWaitEvent(f->stream, c->mark, 0), "a copy to another GPU");
    cudaSetDevice(c->ordinal);
    return st;
}

/* A step as one CUDA graph. */
static tp_status tp__cuda_record_begin(tp_device *d)
{
    tp__cuda *c = (tp__cuda *)d;
    cudaSetDevice(c->ordinal);
    const tp_status st =
        tp__cuda_status(c, cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeThreadLocal), "recording");
    c->recording = st == TP_OK;
    return st;
}
static tp_status tp__cuda_record_end(tp_device *d, void **recording)
{
    tp__cuda *c = (tp__cuda *)d;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    *recording = NULL;
    c->recording = false;
    tp_status st = tp__cuda_status(c, cudaStreamEndCapture(c->stream, &graph), "recording");
    if (st == TP_OK) st = tp__cuda_status(c, cudaGraphInstantiate(&exec, graph, 0), "recording");
    if (graph) cudaGraphDestroy(graph);
    if (st == TP_OK && c->status != TP_OK) { /* a kernel could not be recorded */
        st = c->fail(c->status, "%s", c->error);
        c->status = TP_OK;
        cudaGraphExecDestroy(exec);
    }
    if (st == TP_OK) *recording = exec;
    cudaGetLastError();
    return st;
}
static tp_status tp__cuda_replay(tp_device *d, void *recording)
{
    tp__cuda *c = (tp__cuda *)d;
    cudaSetDevice(c->ordinal);
    return tp__cuda_status(c, cudaGraphLaunch((cudaGraphExec_t)recording, c->stream), "replaying a step");
}
static void tp__cuda_record_free(tp_device *d, void *recording)
{
    (void)d;
    if (recording) cudaGraphExecDestroy((cudaGraphExec_t)recording);
}

/* ==== >>numbers ======================================================================================= */

/* Half-precision numbers are storage: loaded as float, rounded to nearest even when stored. The portable form of what the
 * processor's conversions do, NaN included. */
typedef struct tp__bf16 {
    uint16_t bits;
} tp__bf16;
typedef struct tp__f16 {
    uint16_t bits;
} tp__f16;

__device__ __forceinline__ float tp__f32_of_bf16(uint16_t h) { return __uint_as_float((unsigned)h << 16); }
__device__ __forceinline__ uint16_t tp__bf16_of_f32(float f)
{
    const unsigned u = __float_as_uint(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
__device__ __forceinline__ float tp__f32_of_f16(uint16_t h)
{
    const unsigned sign = (unsigned)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, mantissa = h & 0x3ffu;
    if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | mantissa << 13);
    if (exponent == 0) { /* mantissa 2^-24, exactly */
        const float size = (float)mantissa * 5.9604644775390625e-8f;
        return sign ? -size : size;
    }
    return __uint_as_float(sign | (exponent + 112u) << 23 | mantissa << 13);
}
__device__ __forceinline__ uint16_t tp__f16_of_f32(float f)
{
    unsigned u = __float_as_uint(f);
    const unsigned sign = (u >> 16) & 0x8000u;
    u &= 0x7fffffffu;
    if (u > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((u >> 13) & 0x3ffu));
    if (u >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (u >= 0x38800000u) {
        u += 0xfffu + ((u >> 13) & 1u);
        return (uint16_t)(sign | (u - 0x38000000u) >> 13);
    }
    if (u <= 0x33000000u) return (uint16_t)sign;
    const unsigned mantissa = (u & 0x7fffffu) | 0x800000u, shift = 126u - (u >> 23);
    unsigned h = mantissa >> shift;
    const unsigned rest = mantissa & ((1u << shift) - 1u), half = 1u << (shift - 1u);
    if (rest > half || (rest == half && (h & 1u))) h++;
    return (uint16_t)(sign | h);
}

/* A kernel is a template over what is stored; it computes in tp__real<T>, float or double. */
template <class T> struct tp__real_of {
    typedef float type;
};
template <> struct tp__real_of<double> {
    typedef double type;
};
template <class T> using tp__real = typename tp__real_of<T>::type;

__device__ __forceinline__ float tp__get(const float *p, int64_t i) { return p[i]; }
__device__ __forceinline__ double tp__get(const double *p, int64_t i) { return p[i]; }
__device__ __forceinline__ float tp__get(const tp__bf16 *p, int64_t i) { return tp__f32_of_bf16(p[i].bits); }
__device__ __forceinline__ float tp__get(const tp__f16 *p, int64_t i) { return tp__f32_of_f16(p[i].bits); }
__device__ __forceinline__ void tp__put(float *p, int64_t i, float x) { p[i] = x; }
__device__ __forceinline__ void tp__put(double *p, int64_t i, double x) { p[i] = x; }
__device__ __forceinline__ void tp__put(tp__bf16 *p, int64_t i, float x) { p[i].bits = tp__bf16_of_f32(x); }
__device__ __forceinline__ void tp__put(tp__f16 *p, int64_t i, float x) { p[i].bits = tp__f16_of_f32(x); }

/* The body with T as the stored type of an operand: TP_REALS(k->in[0].dtype, { ... kernel<T> ... }). */
#define TP_REALS(dtype_, ...)   \
    do {                        \
        switch (dtype_) {       \
        case TP_F64: {          \
            typedef double T;   \
            __VA_ARGS__         \
        } break;                \
        case TP_F16: {          \
            typedef tp__f16 T;  \
            __VA_ARGS__         \
        } break;                \
        case TP_BF16: {         \
            typedef tp__bf16 T; \
            __VA_ARGS__         \
        } break;                \
        default: {              \
            typedef float T;    \
            __VA_ARGS__         \
        } break;                \
        }                       \
    } while (0)
/* The same by the size of an element, for kernels that only move: T is an unsigned integer. */
#define TP_SIZES(dtype_, ...)             \
    do {                                  \
        switch (tp__dtype_size(dtype_)) { \
        case 1: {                         \
            typedef uint8_t T;            \
            __VA_ARGS__                   \
        } break;                          \
        case 2: {                         \
            typedef uint16_t T;           \
            __VA_ARGS__                   \
        } break;                          \
        case 4: {                         \
            typedef uint32_t T;           \
            __VA_ARGS__                   \
        } break;                          \
        default: {                        \
            typedef uint64_t T;           \
            __VA_ARGS__                   \
        } break;                          \
        }                                 \
    } while (0)

static size_t tp__dtype_size(tp_dtype d)
{
    return d == TP_F64 || d == TP_I64 ? 8 : d == TP_F16 || d == TP_BF16 ? 2 : d == TP_U8 || d == TP_BOOL ? 1 : 4;
}

/* Sums and maxima over the 256 threads of a block, in a fixed tree; every thread gets the result. `room` is shared, 8
 * values; all threads of the block must come here. */
template <class R> __device__ __forceinline__ R tp__block_sum(R x, R *room)
{
    for (int d = 16; d > 0; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
    __syncthreads(); /* room may still be read by an earlier call */
    if ((threadIdx.x & 31) == 0) room[threadIdx.x >> 5] = x;
    __syncthreads();
    R sum = room[0];
    for (int w = 1; w < (int)(blockDim.x + 31) / 32; w++) sum += room[w];
    return sum;
}
template <class R> __device__ __forceinline__ R tp__block_max(R x, R *room) /* NaN wins */
{
    for (int d = 16; d > 0; d >>= 1) {
        const R y = __shfl_xor_sync(0xffffffffu, x, d);
        x = x != x || x > y ? x : y;
    }
    __syncthreads();
    if ((threadIdx.x & 31) == 0) room[threadIdx.x >> 5] = x;
    __syncthreads();
    R most = room[0];
    for (int w = 1; w < (int)(blockDim.x + 31) / 32; w++) most = most != most || most > room[w] ? most : room[w];
    return most;
}

/* Philox 4x32-10, the numbers of tp_philox. */
__device__ __forceinline__ void tp__philox(uint64_t key, uint64_t lo, uint64_t hi, uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32), c0 = (uint32_t)lo, c1 = (uint32_t)(lo >> 32),
             c2 = (uint32_t)hi, c3 = (uint32_t)(hi >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xd2511f53u * c0, b = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* tp_kernel_fault: the first one of a run stays. */
typedef struct tp__fault {
    int64_t *words, id;
} tp__fault;
static tp__fault tp__fault_of(const tp_call *k)
{
    tp__fault f = {k->fault, k->fault_id};
    return f;
}
__device__ __forceinline__ void tp__report(tp__fault f, int64_t value)
{
    if (f.words && atomicCAS((unsigned long long *)f.words, 0ull, (unsigned long long)f.id) == 0ull) f.words[1] = value;
}

/* ==== >>shapes ======================================================================================== */

static int64_t tp__size(const tp_operand *x)
{
    int64_t n = 1;
    for (int d = 0; d < x->shape.ndim; d++) n *= x->shape.dim[d];
    return n;
}
static int64_t tp__product_of(const tp_shape *s, int from, int to)
{
    int64_t n = 1;
    for (int d = from; d < to; d++) n *= s->dim[d];
    return n;
}
static int tp__axis(int axis, int ndim) { return axis < 0 ? axis + ndim : axis; }

/* A shape as kernels take it. */
typedef struct tp__dims {
    int n;
    int64_t dim[TP_MAX_DIMS], stride[TP_MAX_DIMS];
} tp__dims;
static tp__dims tp__dims_of(const tp_shape *s)
{
    tp__dims d;
    int64_t stride = 1;
    memset(&d, 0, sizeof d);
    d.n = s->ndim;
    for (int i = s->ndim - 1; i >= 0; i--) {
        d.dim[i] = s->dim[i];
        d.stride[i] = stride;
        stride *= s->dim[i];
    }
    return d;
}

typedef struct tp__cuda_kernel {
    const char *op;
    tp_kernel_fn fn;
    size_t (*scratch)(const tp_call *k); /* NULL: none */
} tp__cuda_kernel;

/* ==== >>elementwise =================================================================================== */
/* A chain of element-wise ops is one launch of an interpreter: each thread takes four neighbours through all of its
 * instructions. Chains of float and bool, the usual ones, have a kernel of their own; half-precision operands are floats
 * there. Others go element by element through cells of eight bytes. */

/* Codes, and what an instruction does to numbers (a, b its operands, p, q its attributes). ALL: integers too. */
#define TP__ALL_MAPS(X)                        \
    X(add, a + b)                              \
    X(sub, a - b)                              \
    X(mul, a *b)                               \
    X(maximum, tp__is_nan(a) || a > b ? a : b) \
    X(minimum, tp__is_nan(a) || a < b ? a : b) \
    X(squared_difference, (a - b) * (a - b))   \
    X(floordiv, tp__floor_quotient(a, b))      \
    X(mod, tp__floor_rest(a, b))               \
    X(neg, -a)                                 \
    X(abs, tp__size_of(a))                     \
    X(sign, a > 0 ? 1 : a < 0 ? -1 : a)        \
    X(square, a *a)                            \
    X(clip, tp__clip(a, p, q))                 \
    X(affine, tp__affine(a, p, q))
#define TP__REAL_MAPS(X)                                \
    X(div, a / b)                                       \
    X(pow, pow(a, b))                                   \
    X(sqrt, sqrt(a))                                    \
    X(rsqrt, 1 / sqrt(a))                               \
    X(reciprocal, 1 / a)                                \
    X(exp, exp(a))                                      \
    X(ln, log(a))                                       \
    X(sin, sin(a))                                      \
    X(cos, cos(a))                                      \
    X(asin, asin(a))                                    \
    X(acos, acos(a))                                    \
    X(atan, atan(a))                                    \
    X(erf, erf(a))                                      \
    X(tanh, tanh(a))                                    \
    X(sigmoid, 1 / (1 + exp(-a)))                       \
    X(softplus, (a > 0 ? a : 0) + log1p(exp(-fabs(a)))) \
    X(relu, 0 > a ? 0 : a)                              \
    X(relu_grad, b > 0 ? a : 0)                         \
    X(leaky_relu, a > 0 ? a : (R)p * a)                 \
    X(leaky_relu_grad, b > 0 ? a : (R)p * a)            \
    X(elu, a > 0 ? a : expm1(a))                        \
    X(elu_grad, b > 0 ? a : a * (b + 1))                \
    X(floor, floor(a))                                  \
    X(ceil, ceil(a))                                    \
    X(round, rint(a))                                   \
    X(clip_grad, b >= (R)p && b <= (R)q ? a : 0)
#define TP__TESTS(X)         \
    X(greater, a > b)        \
    X(greater_equal, a >= b) \
    X(less, a < b)           \
    X(less_equal, a <= b)    \
    X(equal, a == b)         \
    X(not_equal, a != b)

enum {
#define TP__CODE(name_, expr_) TP__DO_##name_,
    TP__ALL_MAPS(TP__CODE) TP__REAL_MAPS(TP__CODE) TP__TESTS(TP__CODE)
#undef TP__CODE
        TP__DO_is_finite,
    TP__DO_logical_and,
    TP__DO_logical_or,
    TP__DO_logical_not,
    TP__DO_select,
    TP__DO_select_bytes,
    TP__DO_cast,
    TP__DO_COUNT
};
static const char *const tp__map_names[] = {
#define TP__NAME(name_, expr_) #name_,
    TP__ALL_MAPS(TP__NAME) TP__REAL_MAPS(TP__NAME) TP__TESTS(TP__NAME)
#undef TP__NAME
        "is_finite",
    "logical_and",
    "logical_or",
    "logical_not",
    "select",
    "select_bytes",
    "cast"};

/* Integers wrap around: they are computed without a sign where that matters. */
template <class R> __device__ __forceinline__ bool tp__is_nan(R x) { return x != x; }
__device__ __forceinline__ float tp__size_of(float x) { return fabsf(x); }
__device__ __forceinline__ double tp__size_of(double x) { return fabs(x); }
__device__ __forceinline__ int tp__size_of(int x) { return x < 0 ? (int)(0u - (unsigned)x) : x; }
__device__ __forceinline__ int64_t tp__size_of(int64_t x)
{
    return x < 0 ? (int64_t)(0ull - (unsigned long long)x) : x;
}
__device__ __forceinline__ float tp__floor_quotient(float a, float b) { return floorf(a / b); }
__device__ __forceinline__ double tp__floor_quotient(double a, double b) { return floor(a / b); }
template <class I> __device__ __forceinline__ I tp__floor_quotient(I a, I b)
{
    if (b == 0) return 0;
    if (b == -1) return (I)(0 - (uint64_t)a);
    const I q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
__device__ __forceinline__ float tp__floor_rest(float a, float b)
{
    const float r = fmodf(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
__device__ __forceinline__ double tp__floor_rest(double a, double b)
{
    const double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
template <class I> __device__ __forceinline__ I tp__floor_rest(I a, I b)
{
    if (b == 0 || b == -1) return 0;
    const I r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
__device__ __forceinline__ int64_t tp__whole(double x, double lo, double hi) /* x, or the bound that it passes */
{
    if (x != x) return 0;
    if (x <= lo) return (int64_t)lo;
    if (x >= hi) return hi > 2147483647.0 ? INT64_MAX : (int64_t)hi;
    return (int64_t)x;
}
__device__ __forceinline__ float tp__clip(float x, float p, float q) { return x < p ? p : x > q ? q : x; }
__device__ __forceinline__ double tp__clip(double x, float p, float q)
{
    return x < p ? (double)p : x > q ? (double)q : x;
}
template <class I> __device__ __forceinline__ I tp__clip(I x, float p, float q)
{
    const double least = sizeof(I) == 8 ? -9223372036854775808.0 : -2147483648.0,
                 most = sizeof(I) == 8 ? 9223372036854775807.0 : 2147483647.0;
    const I low = (I)tp__whole(ceil((double)p), least, most), high = (I)tp__whole(floor((double)q), least, most);
    return x < low ? low : x > high ? high : x;
}
__device__ __forceinline__ float tp__affine(float x, float p, float q) { return __fadd_rn(__fmul_rn(p, x), q); }
__device__ __forceinline__ double tp__affine(double x, float p, float q)
{
    return __dadd_rn(__dmul_rn((double)p, x), (double)q);
}
template <class I> __device__ __forceinline__ I tp__affine(I x, float p, float q)
{
    return (I)((uint64_t)x * (uint64_t)(int64_t)p + (uint64_t)(int64_t)q);
}

/* An operand of a chain in memory. */
typedef struct tp__cuda_ext {
    void *data;
    int how, dtype;
    int64_t inner, period, stride[TP_MAX_DIMS];
} tp__cuda_ext;
typedef struct tp__cuda_instr {
    uint8_t code, dtype, out_dtype, n_in, to, out, from[4], in[4];
    float p, q;
} tp__cuda_instr;
typedef struct tp__cuda_program {
    int64_t n, dim[TP_MAX_DIMS];
    int ndim, n_instr;
    tp__cuda_instr instr[TP__MAX_INSTR];
    tp__cuda_ext ext[TP__MAX_EXT];
    struct {
        void *data;
        int dtype;
    } out[TP__MAX_EXT];
} tp__cuda_program;
enum { TP__FROM_LAST = TP__FROM_REG + 1, TP__TO_NOWHERE }; /* what the instruction before gave, still at hand */

/* Where element i of the result finds its operand. */
template <class I> __device__ __forceinline__ I tp__ext_index(const tp__cuda_program &p, const tp__cuda_ext &e, I i)
{
    switch (e.how) {
    case TP__DIRECT: return i;
    case TP__SPLAT: return 0;
    case TP__INNER: return i % (I)e.period;
    case TP__OUTER: return (i / (I)e.inner) % (I)e.period;
    default: {
        I at = 0;
        for (int d = p.ndim - 1; d >= 0; d--) {
            const I q = i / (I)p.dim[d];
            at += (i - q * (I)p.dim[d]) * (I)e.stride[d];
            i = q;
        }
        return at;
    }
    }
}
__device__ __forceinline__ float tp__float_at(const void *data, int dtype, int64_t i)
{
    switch (dtype) {
    case TP_F32: return ((const float *)data)[i];
    case TP_BF16: return tp__f32_of_bf16(((const uint16_t *)data)[i]);
    case TP_F16: return tp__f32_of_f16(((const uint16_t *)data)[i]);
    case TP_BOOL: return ((const uint8_t *)data)[i] ? 1.0f : 0.0f;
    default: return (float)((const uint8_t *)data)[i];
    }
}
/* Four neighbours from i on; m of them exist. */
template <class I>
__device__ __forceinline__ void tp__load4(const tp__cuda_program &p, const tp__cuda_ext &e, I i, int m, float x[4])
{
    if (e.how == TP__SPLAT) {
        x[0] = x[1] = x[2] = x[3] = tp__float_at(e.data, e.dtype, 0);
        return;
    }
    if (m == 4 && (e.how == TP__DIRECT || (e.how == TP__INNER && e.period % 4 == 0))) {
        const I at = e.how == TP__DIRECT ? i : i % (I)e.period;
        if (e.dtype == TP_F32) {
            const float4 v = *(const float4 *)((const float *)e.data + at);
            x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
            return;
        }
        if (e.dtype == TP_BF16) {
            const uint2 v = *(const uint2 *)((const uint16_t *)e.data + at);
            x[0] = __uint_as_float(v.x << 16), x[1] = __uint_as_float(v.x & 0xffff0000u);
            x[2] = __uint_as_float(v.y << 16), x[3] = __uint_as_float(v.y & 0xffff0000u);
            return;
        }
    }
    for (int j = 0; j < 4; j++)
        x[j] = j < m ? tp__float_at(e.data, e.dtype, (int64_t)tp__ext_index<I>(p, e, i + (I)j)) : 0.0f;
}
__device__ __forceinline__ void tp__store4(void *data, int dtype, int64_t i, int m, const float y[4])
{
    if (m == 4 && dtype == TP_F32) {
        *(float4 *)((float *)data + i) = make_float4(y[0], y[1], y[2], y[3]);
        return;
    }
    if (m == 4 && dtype == TP_BF16) {
        *(uint2 *)((uint16_t *)data + i) =
            make_uint2((unsigned)tp__bf16_of_f32(y[0]) | (unsigned)tp__bf16_of_f32(y[1]) << 16,
                       (unsigned)tp__bf16_of_f32(y[2]) | (unsigned)tp__bf16_of_f32(y[3]) << 16);
        return;
    }
    for (int j = 0; j < m; j++) switch (dtype) {
        case TP_F32: ((float *)data)[i + j] = y[j]; break;
        case TP_BF16: ((uint16_t *)data)[i + j] = tp__bf16_of_f32(y[j]); break;
        case TP_F16: ((uint16_t *)data)[i + j] = tp__f16_of_f32(y[j]); break;
        case TP_BOOL: ((uint8_t *)data)[i + j] = y[j] != 0; break;
        default: ((uint8_t *)data)[i + j] = (uint8_t)tp__whole((double)y[j], 0.0, 255.0); break;
        }
}

template <class I> TP_KERNEL tp__float_chain(const __grid_constant__ tp__cuda_program P)
{
    float reg[TP__MAX_REG][4], y[4] = {0, 0, 0, 0};
    const I n = (I)P.n, step = (I)gridDim.x * blockDim.x * 4;
    for (I i = ((I)blockIdx.x * blockDim.x + threadIdx.x) * 4; i < n; i += step) {
        const int m = n - i < 4 ? (int)(n - i) : 4;
        for (int j = 0; j < P.n_instr; j++) {
            const tp__cuda_instr &s = P.instr[j];
            float x[3][4];
            for (int o = 0; o < 3; o++) {
                if (o >= s.n_in) break;
                const int at = s.in[o];
                switch (s.from[o]) {
                case TP__FROM_LAST:
                    for (int e = 0; e < 4; e++) x[o][e] = y[e];
                    break;
                case TP__FROM_REG:
                    for (int e = 0; e < 4; e++) x[o][e] = reg[at][e];
                    break;
                case TP__FROM_OUT:
                    for (int e = 0; e < 4; e++)
                        x[o][e] = e < m ? tp__float_at(P.out[at].data, P.out[at].dtype, (int64_t)i + e) : 0.0f;
                    break;
                default: tp__load4<I>(P, P.ext[at], i, m, x[o]); break;
                }
            }
            const float p = s.p, q = s.q;
            typedef float R;
            switch (s.code) {
#define TP__CASE(name_, expr_)                  \
    case TP__DO_##name_:                        \
        for (int e = 0; e < 4; e++) {           \
            const R a = x[0][e], b = x[1][e];   \
            (void)a, (void)b, (void)p, (void)q; \
            y[e] = (R)(expr_);                  \
        }                                       \
        break;
                TP__ALL_MAPS(TP__CASE)
                TP__REAL_MAPS(TP__CASE)
                TP__TESTS(TP__CASE)
#undef TP__CASE
            case TP__DO_is_finite:
                for (int e = 0; e < 4; e++) y[e] = fabsf(x[0][e]) <= 3.402823466e38f;
                break;
            case TP__DO_logical_and:
                for (int e = 0; e < 4; e++) y[e] = x[0][e] != 0 && x[1][e] != 0;
                break;
            case TP__DO_logical_or:
                for (int e = 0; e < 4; e++) y[e] = x[0][e] != 0 || x[1][e] != 0;
                break;
            case TP__DO_logical_not:
                for (int e = 0; e < 4; e++) y[e] = x[0][e] == 0;
                break;
            case TP__DO_cast: /* to bool and bytes; float stays what it is until it is stored */
                for (int e = 0; e < 4; e++)
                    y[e] = s.out_dtype == TP_BOOL ? (float)(x[0][e] != 0)
                           : s.out_dtype == TP_U8 ? (float)tp__whole((double)x[0][e], 0.0, 255.0)
                                                  : x[0][e];
                break;
            default: /* select, select_bytes */
                for (int e = 0; e < 4; e++) y[e] = x[0][e] != 0 ? x[1][e] : x[2][e];
                break;
            }
            if (s.out_dtype == TP_BF16)
                for (int e = 0; e < 4; e++) y[e] = tp__f32_of_bf16(tp__bf16_of_f32(y[e]));
            else if (s.out_dtype == TP_F16)
                for (int e = 0; e < 4; e++) y[e] = tp__f32_of_f16(tp__f16_of_f32(y[e]));
            if (s.to == TP__FROM_OUT) tp__store4(P.out[s.out].data, P.out[s.out].dtype, (int64_t)i, m, y);
            else if (s.to == TP__FROM_REG)
                for (int e = 0; e < 4; e++) reg[s.out][e] = y[e];
        }
    }
}

/* Any element types: a cell holds one. */
union tp__cell {
    double d;
    int64_t l;
};
__device__ __forceinline__ tp__cell tp__cell_at(const void *data, int dtype, int64_t i)
{
    tp__cell c;
    switch (dtype) {
    case TP_F64: c.d = ((const double *)data)[i]; break;
    case TP_I32: c.l = ((const int32_t *)data)[i]; break;
    case TP_I64: c.l = ((const int64_t *)data)[i]; break;
    case TP_U8:
    case TP_BOOL: c.l = ((const uint8_t *)data)[i]; break;
    default: c.d = (double)tp__float_at(data, dtype, i); break;
    }
    return c;
}
__device__ __forceinline__ bool tp__holds_real(int dtype) { return dtype >= TP_F32 && dtype <= TP_BF16; }
/* A double as a float rounded to odd, which rounding again to half precision does not spoil. */
__device__ __forceinline__ float tp__odd_float(double x)
{
    const float f = (float)x;
    if (f != f || (double)f == x) return f;
    unsigned u = __float_as_uint(f);
    if (fabs((double)f) > fabs(x)) u--;
    return __uint_as_float(u | 1u);
}
__device__ __forceinline__ void tp__cell_put(void *data, int dtype, int64_t i, tp__cell c)
{
    switch (dtype) {
    case TP_F32: ((float *)data)[i] = (float)c.d; break;
    case TP_F64: ((double *)data)[i] = c.d; break;
    case TP_F16: ((uint16_t *)data)[i] = tp__f16_of_f32(tp__odd_float(c.d)); break;
    case TP_BF16: ((uint16_t *)data)[i] = tp__bf16_of_f32(tp__odd_float(c.d)); break;
    case TP_I32: ((int32_t *)data)[i] = (int32_t)c.l; break;
    case TP_I64: ((int64_t *)data)[i] = c.l; break;
    default: ((uint8_t *)data)[i] = (uint8_t)c.l; break;
    }
}
/* What a cell of dtype `from` is as `to`; integers beyond 2^53 reach half precision through a double rounded to odd. */
__device__ __forceinline__ tp__cell tp__cell_cast(tp__cell c, int from, int to)
{
    tp__cell y;
    if (tp__holds_real(from)) {
        if (tp__holds_real(to)) {
            y.d = to == TP_F32 ? (double)(float)c.d : c.d;
            if (to == TP_F16) y.d = (double)tp__f32_of_f16(tp__f16_of_f32(tp__odd_float(c.d)));
            if (to == TP_BF16) y.d = (double)tp__f32_of_bf16(tp__bf16_of_f32(tp__odd_float(c.d)));
        } else if (to == TP_BOOL) y.l = c.d != 0;
        else if (to == TP_U8) y.l = tp__whole(c.d, 0.0, 255.0);
        else if (to == TP_I32) y.l = tp__whole(c.d, -2147483648.0, 2147483647.0);
        else y.l = tp__whole(c.d, -9223372036854775808.0, 9223372036854775807.0);
        return y;
    }
    if (from == TP_BOOL) c.l = c.l != 0;
    if (to == TP_BOOL) y.l = c.l != 0;
    else if (to == TP_U8) y.l = c.l & 255;
    else if (to == TP_I32) y.l = (int32_t)(uint32_t)(uint64_t)c.l;
    else if (to == TP_I64) y.l = c.l;
    else if (to == TP_F32) y.d = (double)(float)c.l;
    else if (to == TP_F64) y.d = (double)c.l;
    else {
        uint64_t size = c.l < 0 ? 0ull - (uint64_t)c.l : (uint64_t)c.l;
        if (size >> 53) size = (size >> 11 | (uint64_t)((size & 2047u) != 0)) << 11;
        const float odd = tp__odd_float(c.l < 0 ? -(double)size : (double)size);
        y.d =
            to == TP_F16 ? (double)tp__f32_of_f16(tp__f16_of_f32(odd)) : (double)tp__f32_of_bf16(tp__bf16_of_f32(odd));
    }
    return y;
}
template <class R> __device__ __forceinline__ R tp__map_real(int code, R a, R b, float p, float q)
{
    switch (code) {
#define TP__CASE(name_, expr_) \
    case TP__DO_##name_: return (R)(expr_);
        TP__ALL_MAPS(TP__CASE)
        TP__REAL_MAPS(TP__CASE)
        TP__TESTS(TP__CASE)
#undef TP__CASE
    default: return a == a && fabs((double)a) <= 1.7976931348623157e308 && (sizeof(R) == 8 || fabs((double)a) < 3.5e38);
    }
}
/* Unsigned arithmetic wraps; comparisons see the sign. */
template <class I> __device__ __forceinline__ I tp__map_int(int code, I a, I b, float p, float q)
{
    switch (code) {
    case TP__DO_add: return (I)((uint64_t)a + (uint64_t)b);
    case TP__DO_sub: return (I)((uint64_t)a - (uint64_t)b);
    case TP__DO_mul: return (I)((uint64_t)a * (uint64_t)b);
    case TP__DO_squared_difference: {
        const uint64_t d = (uint64_t)(I)((uint64_t)a - (uint64_t)b);
        return (I)(d * d);
    }
    case TP__DO_neg: return (I)(0 - (uint64_t)a);
    case TP__DO_square: return (I)((uint64_t)a * (uint64_t)a);
    case TP__DO_maximum: return a > b ? a : b;
    case TP__DO_minimum: return a < b ? a : b;
    case TP__DO_floordiv: return tp__floor_quotient(a, b);
    case TP__DO_mod: return tp__floor_rest(a, b);
    case TP__DO_abs: return tp__size_of(a);
    case TP__DO_sign: return a > 0 ? 1 : a < 0 ? -1 : 0;
    case TP__DO_clip: return tp__clip(a, p, q);
    case TP__DO_affine: return tp__affine(a, p, q);
#define TP__CASE(name_, expr_) \
    case TP__DO_##name_: return (I)(expr_);
        TP__TESTS(TP__CASE)
#undef TP__CASE
    default: return a;
    }
}

TP_KERNEL tp__any_chain(const __grid_constant__ tp__cuda_program P)
{
    tp__cell reg[TP__MAX_REG], y;
    y.l = 0;
    TP_EACH(i, P.n)
    {
        for (int j = 0; j < P.n_instr; j++) {
            const tp__cuda_instr &s = P.instr[j];
            tp__cell x[3];
            for (int o = 0; o < 3; o++) {
                x[o].l = 0;
                if (o >= s.n_in) continue;
                const int at = s.in[o];
                if (s.from[o] == TP__FROM_LAST) x[o] = y;
                else if (s.from[o] == TP__FROM_REG) x[o] = reg[at];
                else if (s.from[o] == TP__FROM_OUT) x[o] = tp__cell_at(P.out[at].data, P.out[at].dtype, i);
                else x[o] = tp__cell_at(P.ext[at].data, P.ext[at].dtype, tp__ext_index<int64_t>(P, P.ext[at], i));
            }
            const bool test = (s.code >= TP__DO_greater && s.code <= TP__DO_not_equal) || s.code == TP__DO_is_finite;
            if (s.code == TP__DO_cast) y = tp__cell_cast(x[0], s.dtype, s.out_dtype);
            else if (s.code == TP__DO_select || s.code == TP__DO_select_bytes) y = x[0].l ? x[1] : x[2];
            else if (s.code == TP__DO_logical_and) y.l = x[0].l && x[1].l;
            else if (s.code == TP__DO_logical_or) y.l = x[0].l || x[1].l;
            else if (s.code == TP__DO_logical_not) y.l = !x[0].l;
            else if (s.dtype == TP_I32) y.l = tp__map_int<int32_t>(s.code, (int32_t)x[0].l, (int32_t)x[1].l, s.p, s.q);
            else if (s.dtype == TP_I64) y.l = tp__map_int<int64_t>(s.code, x[0].l, x[1].l, s.p, s.q);
            else if (s.dtype == TP_F64) {
                const double r = tp__map_real<double>(s.code, x[0].d, x[1].d, s.p, s.q);
                if (test) y.l = r != 0;
                else y.d = r;
            } else {
                const float r = tp__map_real<float>(s.code, (float)x[0].d, (float)x[1].d, s.p, s.q);
                if (test) y.l = r != 0;
                else
                    y.d = s.out_dtype == TP_BF16  ? (double)tp__f32_of_bf16(tp__bf16_of_f32(r))
                          : s.out_dtype == TP_F16 ? (double)tp__f32_of_f16(tp__f16_of_f32(r))
                                                  : (double)r;
            }
            if (s.to == TP__FROM_OUT) tp__cell_put(P.out[s.out].data, P.out[s.out].dtype, i, y);
            else if (s.to == TP__FROM_REG) reg[s.out] = y;
        }
    }
}

static int tp__map_code(const char *name)
{
    for (int i = 0; i < TP__DO_COUNT; i++)
        if (strcmp(tp__map_names[i], name) == 0) return i;
    return -1;
}
static bool tp__float_like(int dtype)
{
    return dtype == TP_F32 || dtype == TP_BF16 || dtype == TP_F16 || dtype == TP_BOOL || dtype == TP_U8;
}

static void tp__instr_attrs(tp__cuda_instr *s, const void *attrs)
{
    switch (s->code) {
    case TP__DO_clip:
    case TP__DO_clip_grad:
        s->p = ((const tp__clip_attrs *)attrs)->low, s->q = ((const tp__clip_attrs *)attrs)->high;
        break;
    case TP__DO_affine:
        s->p = ((const tp__affine_attrs *)attrs)->scale, s->q = ((const tp__affine_attrs *)attrs)->offset;
        break;
    case TP__DO_leaky_relu:
    case TP__DO_leaky_relu_grad: s->p = ((const tp__leaky_attrs *)attrs)->alpha; break;
    case TP__DO_cast:
        s->dtype = (uint8_t)((const tp__cast_attrs *)attrs)->from;
        s->out_dtype = (uint8_t)((const tp__cast_attrs *)attrs)->to;
        break;
    default: break;
    }
}

/* Is everything in it float, half, bool or a byte? */
static bool tp__is_float_chain(const tp__cuda_program *P)
{
    for (int j = 0; j < P->n_instr; j++)
        if (!tp__float_like(P->instr[j].dtype) || !tp__float_like(P->instr[j].out_dtype)) return false;
    return true;
}

static void tp__launch_program(const tp_call *k, const tp__cuda_program *P)
{
    const int64_t fours = (P->n + 3) / 4;
    if (!tp__is_float_chain(P)) TP_RUN(k, tp__any_chain, P->n, *P);
    else if (P->n < ((int64_t)1 << 30)) TP_RUN(k, (tp__float_chain<unsigned>), fours, *P);
    else TP_RUN(k, (tp__float_chain<uint64_t>), fours, *P);
}

static void tp__fused_cuda(const tp_call *k)
{
    const tp__program *prog = (const tp__program *)k->attrs;
    tp__cuda_program P;
    memset(&P, 0, sizeof P);
    P.n = prog->n;
    P.ndim = prog->shape.ndim;
    P.n_instr = prog->n_instr;
    for (int d = 0; d < P.ndim; d++) P.dim[d] = prog->shape.dim[d];
    for (int e = 0; e < prog->n_ext; e++) {
        tp__cuda_ext *x = &P.ext[e];
        x->data = k->in[e].data;
        x->dtype = k->in[e].dtype;
        x->how = prog->ext[e].how;
        x->inner = prog->ext[e].inner;
        x->period = prog->ext[e].period;
        for (int d = 0; d < P.ndim; d++) x->stride[d] = prog->ext[e].stride[d];
    }
    for (int o = 0; o < prog->n_out; o++) {
        P.out[o].data = k->out[o].data;
        P.out[o].dtype = k->out[o].dtype;
    }
    for (int j = 0; j < prog->n_instr; j++) {
        const tp__instr *from = &prog->instr[j];
        tp__cuda_instr *s = &P.instr[j];
        const int code = tp__map_code(from->row->name);
        if (code < 0) {
            tp__broken(tp__cuda_of(k), from->row->name, "it is not known to the kernel for chains");
            return;
        }
        s->code = (uint8_t)code;
        s->dtype = (uint8_t)from->dtype;
        s->out_dtype = (uint8_t)from->out_dtype;
        s->n_in = (uint8_t)from->n_in;
        s->to = (uint8_t)from->to;
        s->out = (uint8_t)from->out;
        for (int a = 0; a < from->n_in; a++) {
            s->from[a] = (uint8_t)from->from[a];
            s->in[a] = (uint8_t)from->in[a];
            const tp__instr *before = j > 0 ? &prog->instr[j - 1] : NULL;
            if (before && s->from[a] != TP__FROM_EXT && before->to == from->from[a] && before->out == from->in[a])
                s->from[a] = TP__FROM_LAST;
        }
        tp__instr_attrs(s, from->attrs);
    }
    for (int j = 0; j + 1 < prog->n_instr;
         j++) { /* registers that only the next instruction reads need not be written */
        tp__cuda_instr *s = &P.instr[j];
        bool read = s->to != TP__FROM_REG;
        for (int q = j + 1; q < prog->n_instr && !read; q++) {
            for (int a = 0; a < P.instr[q].n_in; a++)
                read = read || (P.instr[q].from[a] == TP__FROM_REG && P.instr[q].in[a] == s->out);
            if (P.instr[q].to == TP__FROM_REG && P.instr[q].out == s->out) break;
        }
        if (!read) s->to = TP__TO_NOWHERE;
    }
    tp__launch_program(k, &P);
}

/* One element-wise op by itself, as a chain of one: how the plan runs those of half precision. */
static void tp__map_cuda(const tp_call *k)
{
    const tp_operand *y = &k->out[0];
    tp__cuda_program P;
    memset(&P, 0, sizeof P);
    P.n = tp__size(y);
    P.ndim = y->shape.ndim;
    for (int d = 0; d < P.ndim; d++) P.dim[d] = y->shape.dim[d];
    P.n_instr = 1;
    P.out[0].data = y->data;
    P.out[0].dtype = y->dtype;
    tp__cuda_instr *s = &P.instr[0];
    s->code = (uint8_t)tp__map_code(k->op->name);
    s->dtype = (uint8_t)k->in[k->n_in - 1].dtype;
    s->out_dtype = (uint8_t)y->dtype;
    s->n_in = (uint8_t)k->n_in;
    s->to = TP__FROM_OUT;
    tp__instr_attrs(s, k->attrs);
    for (int i = 0; i < k->n_in && i < 3; i++) {
        const tp_shape *x = &k->in[i].shape;
        const int lead = y->shape.ndim - x->ndim;
        int64_t stride = 1;
        P.ext[i].data = k->in[i].data;
        P.ext[i].dtype = k->in[i].dtype;
        for (int d = x->ndim - 1; d >= 0; d--) {
            P.ext[i].stride[d + lead] = x->dim[d] == 1 ? 0 : stride;
            stride *= x->dim[d];
        }
        P.ext[i].how = stride == P.n ? TP__DIRECT : stride == 1 ? TP__SPLAT : TP__STRIDED;
        s->from[i] = TP__FROM_EXT;
        s->in[i] = (uint8_t)i;
    }
    tp__launch_program(k, &P);
}

/* add_n: y = x_0 + x_1 + ..., left to right; as many at a time as a chain takes. */
static void tp__add_n_cuda(const tp_call *k)
{
    for (int from = 0; from < k->n_in;) {
        tp__cuda_program P;
        memset(&P, 0, sizeof P);
        P.n = tp__size(&k->out[0]);
        const tp_operand *y = &k->out[0];
        int n_ext = 0;
        if (from > 0) {
            P.ext[n_ext].data = y->data;
            P.ext[n_ext++].dtype = y->dtype;
        }
        while (n_ext < TP__MAX_EXT && from < k->n_in) {
            P.ext[n_ext].data = k->in[from].data;
            P.ext[n_ext++].dtype = k->in[from++].dtype;
        }
        P.out[0].data = y->data;
        P.out[0].dtype = y->dtype;
        P.n_instr = n_ext > 1 ? n_ext - 1 : 1;
        for (int j = 0; j < P.n_instr; j++) {
            tp__cuda_instr *s = &P.instr[j];
            s->code = n_ext > 1 ? TP__DO_add : TP__DO_cast;
            s->dtype = s->out_dtype = (uint8_t)y->dtype;
            s->n_in = n_ext > 1 ? 2 : 1;
            s->from[0] = (uint8_t)(j ? (int)TP__FROM_LAST : (int)TP__FROM_EXT);
            s->from[1] = TP__FROM_EXT;
            s->in[1] = (uint8_t)(j + 1);
            s->to = (uint8_t)(j + 1 < P.n_instr ? (int)TP__TO_NOWHERE : (int)TP__FROM_OUT);
        }
        tp__launch_program(k, &P);
    }
}

/* copy: the plan's own */
static void tp__copy_cuda(const tp_call *k)
{
    const size_t bytes = (size_t)tp__size(&k->out[0]) * tp__dtype_size(k->out[0].dtype);
    if (!bytes) return;
    const cudaError_t e =
        cudaMemcpyAsync(k->out[0].data, k->in[0].data, bytes, cudaMemcpyDeviceToDevice, tp__cuda_of(k)->stream);
    if (e != cudaSuccess) tp__broken(tp__cuda_of(k), "a copy", cudaGetErrorString(e));
}

static const tp__cuda_kernel tp__cuda_elementwise[] = {{"fused", tp__fused_cuda, NULL},
                                                       {"add_n", tp__add_n_cuda, NULL},
                                                       {"copy", tp__copy_cuda, NULL},
                                                       {NULL, NULL, NULL}};

/* ==== >>matmul ======================================================================================== */
/* Row-major c = a b is column-major c^T = b^T a^T: cuBLASLt gets b first. Bias and ReLU are its epilogue. */

typedef struct tp__gemm_shape {
    int64_t M, N, K, batch, stride_a, stride_b, stride_c;
    bool ta, tb, bias, relu, add; /* add: c += */
    float alpha;
    tp_dtype dtype;
    tp_precision precision;
    uint32_t align[3]; /* of a, b, c in bytes, set by tp__gemm */
} tp__gemm_shape;

/* What an algorithm may count on: cuBLASLt assumes 256 bytes where nothing else is said. */
static uint32_t tp__alignment(const void *p)
{
    const uintptr_t u = (uintptr_t)p | 256u;
    return (uint32_t)(u & (0u - u));
}

static uint64_t tp__hash_bytes(const void *p, size_t n)
{
    const unsigned char *b = (const unsigned char *)p;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ b[i]) * 0x100000001b3u;
    return h | 1u;
}

static cudaDataType_t tp__cuda_type(tp_dtype d)
{
    return d == TP_F64 ? CUDA_R_64F : d == TP_F16 ? CUDA_R_16F : d == TP_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* c = alpha op(a) op(b) + bias, activated. The choice of an algorithm is remembered: none is looked for while recording. */
static void tp__gemm(const tp_call *k, const tp__gemm_shape *g, const void *a, const void *b, void *c, const void *bias)
{
    tp__cuda *u = tp__cuda_of(k);
    const cudaDataType_t type = tp__cuda_type(g->dtype);
    const bool f64 = g->dtype == TP_F64;
    cublasLtMatmulDesc_t op = NULL;
    cublasLtMatrixLayout_t la = NULL, lb = NULL, lc = NULL;
    cublasLtMatmulPreference_t pref = NULL;
    const cublasOperation_t ta = g->ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb = g->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue = g->bias   ? g->relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS
                                        : g->relu ? CUBLASLT_EPILOGUE_RELU
                                                  : CUBLASLT_EPILOGUE_DEFAULT;
    const int32_t batch = (int32_t)g->batch;
    const double alpha64 = (double)g->alpha, beta64 = g->add ? 1.0 : 0.0;
    const float alpha32 = g->alpha, beta32 = g->add ? 1.0f : 0.0f;
    const cublasComputeType_t compute = f64 ? CUBLAS_COMPUTE_64F
                                        : g->dtype == TP_F32 && g->precision == TP_PRECISION_TF32
                                            ? CUBLAS_COMPUTE_32F_FAST_TF32
                                            : CUBLAS_COMPUTE_32F;
    cublasStatus_t st = cublasLtMatmulDescCreate(&op, compute, f64 ? CUDA_R_64F : CUDA_R_32F);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_TRANSA, &tb, sizeof tb);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_TRANSB, &ta, sizeof ta);
    if (st == CUBLAS_STATUS_SUCCESS && epilogue != CUBLASLT_EPILOGUE_DEFAULT)
        st = cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (st == CUBLAS_STATUS_SUCCESS && g->bias)
        st = cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatrixLayoutCreate(&lb, type, (uint64_t)(g->tb ? g->K : g->N), (uint64_t)(g->tb ? g->N : g->K),
                                        g->tb ? g->K : g->N);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatrixLayoutCreate(&la, type, (uint64_t)(g->ta ? g->M : g->K), (uint64_t)(g->ta ? g->K : g->M),
                                        g->ta ? g->M : g->K);
    if (st == CUBLAS_STATUS_SUCCESS) st = cublasLtMatrixLayoutCreate(&lc, type, (uint64_t)g->N, (uint64_t)g->M, g->N);
    if (batch > 1) {
        cublasLtMatrixLayout_t layout[3] = {la, lb, lc};
        const int64_t stride[3] = {g->stride_a, g->stride_b, g->stride_c};
        for (int i = 0; i < 3 && st == CUBLAS_STATUS_SUCCESS; i++) {
            st = cublasLtMatrixLayoutSetAttribute(layout[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
            if (st == CUBLAS_STATUS_SUCCESS)
                st = cublasLtMatrixLayoutSetAttribute(layout[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                      &stride[i], sizeof stride[i]);
        }
    }
    tp__gemm_shape key;
    memset(&key, 0, sizeof key); /* padding too */
    key.M = g->M, key.N = g->N, key.K = g->K, key.batch = g->batch;
    key.stride_a = g->stride_a, key.stride_b = g->stride_b, key.stride_c = g->stride_c;
    key.ta = g->ta, key.tb = g->tb, key.bias = g->bias, key.relu = g->relu, key.add = g->add;
    key.dtype = g->dtype, key.precision = g->precision;
    key.align[0] = tp__alignment(a), key.align[1] = tp__alignment(b), key.align[2] = tp__alignment(c);
    const uint64_t h = tp__hash_bytes(&key, sizeof key);
    tp__product *slot = &u->product[h & (TP__PRODUCTS - 1)];
    if (st == CUBLAS_STATUS_SUCCESS && slot->key != h) {
        cublasLtMatmulHeuristicResult_t found;
        int n = 0;
        st = cublasLtMatmulPreferenceCreate(&pref);
        if (st == CUBLAS_STATUS_SUCCESS)
            st = cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                      &u->workspace_bytes, sizeof u->workspace_bytes);
        const cublasLtMatmulPreferenceAttributes_t which[4] = {
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
        const uint32_t align[4] = {key.align[1], key.align[0], key.align[2], key.align[2]}; /* b goes first */
        for (int i = 0; i < 4 && st == CUBLAS_STATUS_SUCCESS; i++)
            st = cublasLtMatmulPreferenceSetAttribute(pref, which[i], &align[i], sizeof align[i]);
        if (st == CUBLAS_STATUS_SUCCESS)
            st = cublasLtMatmulAlgoGetHeuristic(u->blas, op, lb, la, lc, lc, pref, 1, &found, &n);
        if (st == CUBLAS_STATUS_SUCCESS && n == 0) st = CUBLAS_STATUS_NOT_SUPPORTED;
        if (st == CUBLAS_STATUS_SUCCESS) {
            slot->key = h;
            slot->algo = found.algo;
        }
    }
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmul(u->blas, op, f64 ? (const void *)&alpha64 : (const void *)&alpha32, b, lb, a, la,
                            f64 ? (const void *)&beta64 : (const void *)&beta32, c, lc, c, lc, &slot->algo,
                            u->workspace, u->workspace_bytes, u->stream);
    if (st != CUBLAS_STATUS_SUCCESS) tp__broken(u, k->op->name, cublasLtGetStatusString(st));
    if (pref) cublasLtMatmulPreferenceDestroy(pref);
    if (la) cublasLtMatrixLayoutDestroy(la);
    if (lb) cublasLtMatrixLayoutDestroy(lb);
    if (lc) cublasLtMatrixLayoutDestroy(lc);
    if (op) cublasLtMatmulDescDestroy(op);
}

/* Which matrix of x belongs to matrix i of c; leading dimensions broadcast. */
static int64_t tp__matrix_of(const tp_shape *c, const tp_shape *x, int64_t i)
{
    int64_t at = 0, stride = 1;
    for (int d = 2; d < x->ndim; d++) {
        const int64_t n = c->dim[c->ndim - 1 - d], index = i % n;
        i /= n;
        if (x->dim[x->ndim - 1 - d] != 1) at += index * stride;
        stride *= x->dim[x->ndim - 1 - d];
    }
    return at;
}

/* An empty sum: zeros and the bias. */
template <class T> TP_KERNEL tp__no_product(T *c, const T *bias, int64_t n, int64_t N, bool relu)
{
    TP_EACH(i, n)
    {
        const tp__real<T> v = bias ? tp__get(bias, i % N) : 0;
        tp__put(c, i, relu && !(v > 0) ? 0 : v);
    }
}

static void tp__matmul_cuda(const tp_call *k)
{
    const tp__matmul_attrs *t = (const tp__matmul_attrs *)k->attrs;
    const tp_shape *sa = &k->in[0].shape, *sb = &k->in[1].shape, *sc = &k->out[0].shape;
    const size_t size = tp__dtype_size(k->out[0].dtype);
    tp__gemm_shape g;
    memset(&g, 0, sizeof g);
    g.M = sc->dim[sc->ndim - 2];
    g.N = sc->dim[sc->ndim - 1];
    g.K = sa->dim[sa->ndim - (t->transpose_a ? 2 : 1)];
    g.ta = t->transpose_a;
    g.tb = t->transpose_b;
    g.bias = t->fused_bias != 0;
    g.relu = t->fused_act != 0;
    g.alpha = 1;
    g.dtype = k->out[0].dtype;
    g.precision = k->precision;
    const void *bias = g.bias ? k->in[2].data : NULL;
    int64_t n_batch = tp__product_of(sc, 0, sc->ndim - 2);
    if (tp__size(&k->out[0]) == 0) return;
    if (g.K == 0) {
        TP_REALS(g.dtype, TP_RUN(k, (tp__no_product<T>), tp__size(&k->out[0]), (T *)k->out[0].data, (const T *)bias,
                                 tp__size(&k->out[0]), g.N, g.relu););
        return;
    }
    if (sb->ndim == 2 && !g.ta) { /* all matrices of a are one tall one */
        g.M *= n_batch;
        n_batch = 1;
    }
    /* runs of matrices at even distances are one call */
    for (int64_t i = 0; i < n_batch;) {
        const int64_t a0 = n_batch == 1 ? 0 : tp__matrix_of(sc, sa, i),
                      b0 = n_batch == 1 ? 0 : tp__matrix_of(sc, sb, i);
        int64_t n = 1, da = 0, db = 0;
        if (i + 1 < n_batch) {
            da = tp__matrix_of(sc, sa, i + 1) - a0;
            db = tp__matrix_of(sc, sb, i + 1) - b0;
            while (i + n < n_batch && tp__matrix_of(sc, sa, i + n) == a0 + n * da &&
                   tp__matrix_of(sc, sb, i + n) == b0 + n * db)
                n++;
        }
        g.batch = n;
        g.stride_a = da * g.M * g.K;
        g.stride_b = db * g.K * g.N;
        g.stride_c = g.M * g.N;
        tp__gemm(k, &g, (const char *)k->in[0].data + (size_t)(a0 * g.M * g.K) * size,
                 (const char *)k->in[1].data + (size_t)(b0 * g.K * g.N) * size,
                 (char *)k->out[0].data + (size_t)(i * g.M * g.N) * size, bias);
        i += n;
    }
}

/* descend: w -= lr a^T b, the plan's own. The rate lies in device memory: a product, then the step. */
TP_KERNEL tp__descend_step(float *w, const float *product, const float *lr, int64_t n)
{
    const float rate = *lr;
    TP_EACH(i, n) w[i] -= rate * product[i];
}
static void tp__descend_cuda(const tp_call *k)
{
    tp__gemm_shape g;
    memset(&g, 0, sizeof g);
    g.K = k->in[0].shape.dim[0];
    g.M = k->in[0].shape.dim[1];
    g.N = k->in[1].shape.dim[1];
    g.ta = true;
    g.alpha = 1;
    g.batch = 1;
    g.dtype = TP_F32;
    g.precision = k->precision;
    tp__gemm(k, &g, k->in[0].data, k->in[1].data, k->scratch, NULL);
    TP_RUN(k, tp__descend_step, g.M * g.N, (float *)k->var[0].data, (const float *)k->scratch,
           (const float *)k->in[2].data, g.M * g.N);
}
static size_t tp__descend_room(const tp_call *k)
{
    return (size_t)(k->in[0].shape.dim[1] * k->in[1].shape.dim[1]) * sizeof(float);
}

static const tp__cuda_kernel tp__cuda_matmul[] = {
    {"matmul", tp__matmul_cuda, NULL}, {"descend", tp__descend_cuda, tp__descend_room}, {NULL, NULL, NULL}};

/* ==== >>reductions ==================================================================================== */

static const tp__cuda_kernel tp__cuda_reductions[] = {{NULL, NULL, NULL}};

/* ==== >>moves ========================================================================================= */

static const tp__cuda_kernel tp__cuda_moves[] = {{NULL, NULL, NULL}};

/* ==== >>random ======================================================================================== */

static const tp__cuda_kernel tp__cuda_random[] = {{NULL, NULL, NULL}};

/* ==== >>variables ===================================================================================== */

static const tp__cuda_kernel tp__cuda_variables[] = {{NULL, NULL, NULL}};

/* ==== >>convolution =================================================================================== */
/* A convolution takes one of four ways: 1 x 1 in NHWC is a matrix product; a depthwise one (groups = C) has kernels of its
 * own, as it waits for memory alone; the others are cuDNN's; what cuDNN refuses, one thread sums for each result. All sums
 * have a fixed order: of cuDNN's algorithms those it calls deterministic. TP_CUDA_DIRECT_CONV: cuDNN is never asked. */

/* -- four neighbours at a time: kernels are templates over V, 4 or 1 */

template <class T, class R, int V> __device__ __forceinline__ void tp__load(const T *p, R (&x)[V])
{
    for (int e = 0; e < V; e++) x[e] = tp__get(p, e);
}
__device__ __forceinline__ void tp__load(const float *p, float (&x)[4])
{
    const float4 v = *(const float4 *)p;
    x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
}
__device__ __forceinline__ void tp__load(const tp__bf16 *p, float (&x)[4])
{
    const uint2 v = *(const uint2 *)(const void *)p;
    x[0] = __uint_as_float(v.x << 16), x[1] = __uint_as_float(v.x & 0xffff0000u);
    x[2] = __uint_as_float(v.y << 16), x[3] = __uint_as_float(v.y & 0xffff0000u);
}
__device__ __forceinline__ void tp__load(const tp__f16 *p, float (&x)[4])
{
    const uint2 v = *(const uint2 *)(const void *)p;
    x[0] = tp__f32_of_f16((uint16_t)v.x), x[1] = tp__f32_of_f16((uint16_t)(v.x >> 16));
    x[2] = tp__f32_of_f16((uint16_t)v.y), x[3] = tp__f32_of_f16((uint16_t)(v.y >> 16));
}
template <class T, class R, int V> __device__ __forceinline__ void tp__store(T *p, const R (&x)[V])
{
    for (int e = 0; e < V; e++) tp__put(p, e, x[e]);
}
__device__ __forceinline__ void tp__store(float *p, const float (&x)[4])
{
    *(float4 *)p = make_float4(x[0], x[1], x[2], x[3]);
}
__device__ __forceinline__ void tp__store(tp__bf16 *p, const float (&x)[4])
{
    *(uint2 *)(void *)p = make_uint2((unsigned)tp__bf16_of_f32(x[0]) | (unsigned)tp__bf16_of_f32(x[1]) << 16,
                                     (unsigned)tp__bf16_of_f32(x[2]) | (unsigned)tp__bf16_of_f32(x[3]) << 16);
}
__device__ __forceinline__ void tp__store(tp__f16 *p, const float (&x)[4])
{
    *(uint2 *)(void *)p = make_uint2((unsigned)tp__f16_of_f32(x[0]) | (unsigned)tp__f16_of_f32(x[1]) << 16,
                                     (unsigned)tp__f16_of_f32(x[2]) | (unsigned)tp__f16_of_f32(x[3]) << 16);
}

#ifndef TP__INT_ELEMENTS                      /* tests make these two small */
#define TP__INT_ELEMENTS  ((int64_t)1 << 30)  /* more need indices of 64 bits */
#define TP__CONV_ELEMENTS (int64_t) INT32_MAX /* as many of an operand go to cuDNN at a time */
#endif

/* A kernel<T, V, I> over n_ elements (n_most_ in its largest operand): four a thread if that is possible, and indices of 32
 * bits, which divide several times faster, if they suffice. */
#define TP__RUN_FOURS(k_, kernel_, T_, four_, n_, n_most_, ...)                                      \
    do {                                                                                             \
        if ((n_most_) >= TP__INT_ELEMENTS) TP_RUN(k_, (kernel_<T_, 1, int64_t>), (n_), __VA_ARGS__); \
        else if (four_) TP_RUN(k_, (kernel_<T_, 4, int>), (n_) / 4, __VA_ARGS__);                    \
        else TP_RUN(k_, (kernel_<T_, 1, int>), (n_), __VA_ARGS__);                                   \
    } while (0)
/* The loop of such a kernel: `at_` is the first of V elements. */
#define TP__EACH_FOUR(I_, V_, at_, n_)                                                            \
    for (I_ at_ = ((I_)blockIdx.x * (I_)blockDim.x + (I_)threadIdx.x) * V_, at_##_end = (I_)(n_), \
            at_##_step = (I_)gridDim.x * (I_)blockDim.x * V_;                                     \
         at_ < at_##_end; at_ += at_##_step)

/* Element `at` of a picture in NHWC or NCHW. */
template <class I> struct tp__pixel {
    I b, h, w, c;
};
template <class I> __device__ __forceinline__ tp__pixel<I> tp__pixel_of(I at, I H, I W, I C, bool nchw)
{
    tp__pixel<I> p;
    I q;
    if (nchw) {
        q = at / W, p.w = at - q * W, at = q;
        q = at / H, p.h = at - q * H, at = q;
        q = at / C, p.c = at - q * C;
    } else {
        q = at / C, p.c = at - q * C, at = q;
        q = at / W, p.w = at - q * W, at = q;
        q = at / H, p.h = at - q * H;
    }
    p.b = q;
    return p;
}

/* -- conv2d: geometry */

/* What a call is about; strides of x and y make one loop serve NHWC and NCHW. */
typedef struct tp__conv_shape {
    int64_t B, H, W, C, O, KH, KW, OH, OW, sh, sw, dh, dw, top, left, groups;
    int64_t xb, xh, xw, xc, yb, yh, yw, yc;
    int more_h, more_w; /* 1: SAME wants one more row or column after the picture than before */
    bool nchw;
} tp__conv_shape;

static void tp__same_or_valid(int padding, int64_t in, int64_t k, int64_t stride, int64_t dilation, int64_t *out,
                              int64_t *before, int *more)
{
    const int64_t reach = (k - 1) * dilation + 1;
    *before = 0;
    *more = 0;
    if (padding == TP_VALID) {
        *out = in >= reach ? (in - reach) / stride + 1 : 0;
        return;
    }
    *out = (in + stride - 1) / stride;
    const int64_t pad = (*out - 1) * stride + reach - in;
    if (pad <= 0) return;
    *before = pad / 2;
    *more = (int)(pad & 1);
}

static tp__conv_shape tp__conv_shape_of(const tp_conv2d_attrs *a, const tp_shape *x, const tp_shape *w)
{
    tp__conv_shape g;
    memset(&g, 0, sizeof g);
    g.nchw = a->data_format == TP_NCHW;
    g.sh = a->stride_h ? a->stride_h : 1;
    g.sw = a->stride_w ? a->stride_w : 1;
    g.dh = a->dilation_h ? a->dilation_h : 1;
    g.dw = a->dilation_w ? a->dilation_w : 1;
    g.groups = a->groups ? a->groups : 1;
    g.B = x->dim[0];
    g.C = x->dim[g.nchw ? 1 : 3];
    g.H = x->dim[g.nchw ? 2 : 1];
    g.W = x->dim[g.nchw ? 3 : 2];
    g.KH = w->dim[0];
    g.KW = w->dim[1];
    g.O = w->dim[3];
    tp__same_or_valid(a->padding, g.H, g.KH, g.sh, g.dh, &g.OH, &g.top, &g.more_h);
    tp__same_or_valid(a->padding, g.W, g.KW, g.sw, g.dw, &g.OW, &g.left, &g.more_w);
    if (g.nchw) {
        g.xw = 1, g.xh = g.W, g.xc = g.H * g.W, g.xb = g.C * g.xc;
        g.yw = 1, g.yh = g.OW, g.yc = g.OH * g.OW, g.yb = g.O * g.yc;
    } else {
        g.xc = 1, g.xw = g.C, g.xh = g.W * g.C, g.xb = g.H * g.xh;
        g.yc = 1, g.yw = g.O, g.yh = g.OW * g.O, g.yb = g.OH * g.yh;
    }
    return g;
}

/* -- conv2d: bias and ReLU behind it, and bias_add */

template <class T, int V, class I>
TP_KERNEL tp__bias_kernel(const T *x, const T *b, T *y, int64_t n, int64_t C, int64_t inner, bool relu)
{
    TP__EACH_FOUR(I, V, at, n)
    {
        tp__real<T> v[V];
        const I c = (inner == 1 ? at : at / (I)inner) % (I)C;
        tp__load(x + at, v);
        for (int e = 0; e < V; e++) {
            v[e] += tp__get(b, c + (inner == 1 ? e : 0));
            if (relu && !(v[e] > 0)) v[e] = 0;
        }
        tp__store(y + at, v);
    }
}
static void tp__run_bias(const tp_call *k, const void *x, const tp_operand *b, const tp_operand *y, int64_t inner,
                         bool relu)
{
    const int64_t n = tp__size(y), C = b->shape.dim[0];
    if (n == 0) return;
    TP_REALS(y->dtype, TP__RUN_FOURS(k, tp__bias_kernel, T, inner == 1 ? C % 4 == 0 : inner % 4 == 0, n, n,
                                     (const T *)x, (const T *)b->data, (T *)y->data, n, C, inner, relu););
}

/* -- conv2d: one thread for each result */

template <class T> TP_KERNEL tp__conv_forward(const tp__conv_shape g, const T *x, const T *w, T *y, int64_t n)
{
    const int64_t cg = g.C / g.groups, og = g.O / g.groups;
    TP_EACH(at, n)
    {
        const tp__pixel<int64_t> o = tp__pixel_of<int64_t>(at, g.OH, g.OW, g.O, g.nchw);
        const int64_t c0 = o.c / og * cg;
        tp__real<T> sum = 0;
        for (int64_t p = 0; p < g.KH; p++) {
            const int64_t h = o.h * g.sh + p * g.dh - g.top;
            if (h < 0 || h >= g.H) continue;
            for (int64_t q = 0; q < g.KW; q++) {
                const int64_t v = o.w * g.sw + q * g.dw - g.left;
                if (v < 0 || v >= g.W) continue;
                const int64_t X = o.b * g.xb + h * g.xh + v * g.xw + c0 * g.xc, F = (p * g.KW + q) * cg * g.O + o.c;
                for (int64_t c = 0; c < cg; c++) sum += tp__get(x, X + c * g.xc) * tp__get(w, F + c * g.O);
            }
        }
        tp__put(y, at, sum);
    }
}
template <class T> TP_KERNEL tp__conv_input(const tp__conv_shape g, const T *dy, const T *w, T *dx, int64_t n)
{
    const int64_t cg = g.C / g.groups, og = g.O / g.groups;
    TP_EACH(at, n)
    {
        const tp__pixel<int64_t> x = tp__pixel_of<int64_t>(at, g.H, g.W, g.C, g.nchw);
        const int64_t group = x.c / cg, c = x.c - group * cg;
        tp__real<T> sum = 0;
        for (int64_t p = 0; p < g.KH; p++) { /* which results looked at this x through tap (p,q)? */
            const int64_t h = x.h + g.top - p * g.dh, i = h / g.sh;
            if (h < 0 || i * g.sh != h || i >= g.OH) continue;
            for (int64_t q = 0; q < g.KW; q++) {
                const int64_t v = x.w + g.left - q * g.dw, j = v / g.sw;
                if (v < 0 || j * g.sw != v || j >= g.OW) continue;
                const int64_t Y = x.b * g.yb + i * g.yh + j * g.yw, F = ((p * g.KW + q) * cg + c) * g.O;
                for (int64_t o = group * og; o < (group + 1) * og; o++)
                    sum += tp__get(dy, Y + o * g.yc) * tp__get(w, F + o);
            }
        }
        tp__put(dx, at, sum);
    }
}
template <class T> TP_KERNEL tp__conv_filter(const tp__conv_shape g, const T *x, const T *dy, T *dw, int64_t n)
{
    const int64_t cg = g.C / g.groups, og = g.O / g.groups;
    TP_EACH(at, n)
    {
        const int64_t o = at % g.O, c = at / g.O % cg, q = at / g.O / cg % g.KW, p = at / g.O / cg / g.KW;
        const int64_t X = (o / og * cg + c) * g.xc, Y = o * g.yc;
        tp__real<T> sum = 0;
        for (int64_t b = 0; b < g.B; b++)
            for (int64_t i = 0; i < g.OH; i++) {
                const int64_t h = i * g.sh + p * g.dh - g.top;
                if (h < 0 || h >= g.H) continue;
                for (int64_t j = 0; j < g.OW; j++) {
                    const int64_t v = j * g.sw + q * g.dw - g.left;
                    if (v < 0 || v >= g.W) continue;
                    sum += tp__get(x, X + b * g.xb + h * g.xh + v * g.xw) *
                           tp__get(dy, Y + b * g.yb + i * g.yh + j * g.yw);
                }
            }
        tp__put(dw, at, sum);
    }
}

/* -- conv2d, depthwise in NHWC with one filter a channel, 4 | C: four channels of four neighbours in a row for each thread,
 * which reads a weight once for the four. */

#define TP__DEPTH_ROW 4

template <class T> TP_KERNEL tp__depthwise_forward(const tp__conv_shape g, const T *x, const T *w, T *y, int n)
{
    typedef tp__real<T> R;
    const int C = (int)g.C, C4 = C / 4, H = (int)g.H, W = (int)g.W, OH = (int)g.OH, OW = (int)g.OW,
              runs = (OW + TP__DEPTH_ROW - 1) / TP__DEPTH_ROW, sw = (int)g.sw, dw = (int)g.dw;
    TP__EACH_FOUR(int, 1, at, n)
    {
        const tp__pixel<int> o = tp__pixel_of<int>(at, OH, runs, C4, false);
        const int c = o.c * 4, j0 = o.w * TP__DEPTH_ROW;
        R sum[TP__DEPTH_ROW][4] = {};
        for (int p = 0; p < (int)g.KH; p++) {
            const int h = o.h * (int)g.sh + p * (int)g.dh - (int)g.top;
            if (h < 0 || h >= H) continue;
            const T *row = x + (int64_t)(o.b * H + h) * W * C + c;
            for (int q = 0; q < (int)g.KW; q++) {
                R f[4];
                tp__load(w + (p * (int)g.KW + q) * C + c, f);
                for (int u = 0; u < TP__DEPTH_ROW; u++) {
                    const int v = (j0 + u) * sw + q * dw - (int)g.left;
                    if (v < 0 || v >= W) continue;
                    R a[4];
                    tp__load(row + (int64_t)v * C, a);
                    for (int e = 0; e < 4; e++) sum[u][e] += a[e] * f[e];
                }
            }
        }
        T *to = y + ((int64_t)(o.b * OH + o.h) * OW + j0) * C + c;
        for (int u = 0; u < TP__DEPTH_ROW; u++)
            if (j0 + u < OW) tp__store(to + (int64_t)u * C, sum[u]);
    }
}
template <class T> TP_KERNEL tp__depthwise_input(const tp__conv_shape g, const T *dy, const T *w, T *dx, int n)
{
    typedef tp__real<T> R;
    const int C = (int)g.C, C4 = C / 4, H = (int)g.H, W = (int)g.W, OH = (int)g.OH, OW = (int)g.OW,
              runs = (W + TP__DEPTH_ROW - 1) / TP__DEPTH_ROW, sh = (int)g.sh, sw = (int)g.sw, dw = (int)g.dw;
    TP__EACH_FOUR(int, 1, at, n)
    {
        const tp__pixel<int> x = tp__pixel_of<int>(at, H, runs, C4, false);
        const int c = x.c * 4, v0 = x.w * TP__DEPTH_ROW;
        R sum[TP__DEPTH_ROW][4] = {};
        for (int p = 0; p < (int)g.KH; p++) {
            const int h = x.h + (int)g.top - p * (int)g.dh, i = sh == 1 ? h : h / sh;
            if (h < 0 || i * sh != h || i >= OH) continue;
            const T *row = dy + (int64_t)(x.b * OH + i) * OW * C + c;
            for (int q = 0; q < (int)g.KW; q++) {
                R f[4];
                tp__load(w + (p * (int)g.KW + q) * C + c, f);
                for (int u = 0; u < TP__DEPTH_ROW; u++) {
                    const int v = v0 + u + (int)g.left - q * dw, j = sw == 1 ? v : v / sw;
                    if (v < 0 || j * sw != v || j >= OW) continue;
                    R a[4];
                    tp__load(row + (int64_t)j * C, a);
                    for (int e = 0; e < 4; e++) sum[u][e] += a[e] * f[e];
                }
            }
        }
        T *to = dx + ((int64_t)(x.b * H + x.h) * W + v0) * C + c;
        for (int u = 0; u < TP__DEPTH_ROW; u++)
            if (v0 + u < W) tp__store(to + (int64_t)u * C, sum[u]);
    }
}

/* The filter gradient of a depthwise convolution, any number of filters a channel: sums over pieces of the B OH OW places,
 * for nine taps at a time, so that dy is read once for a 3 x 3; then the pieces are added up. */

#define TP__DEPTH_TAPS 9

typedef struct tp__depth_cut {
    int64_t places, per, pieces, tiles, passes, taps; /* tiles of 32 filters (NHWC) or of one (NCHW) */
} tp__depth_cut;
static tp__depth_cut tp__depth_cut_of(const tp__conv_shape *g) /* by shape alone */
{
    tp__depth_cut s;
    s.places = g->B * g->OH * g->OW;
    s.taps = g->KH * g->KW;
    s.passes = (s.taps + TP__DEPTH_TAPS - 1) / TP__DEPTH_TAPS;
    s.tiles = g->nchw ? g->O : (g->O + 31) / 32;
    int64_t want = 2048 / (s.tiles * s.passes);
    if (want < 1) want = 1;
    s.per = (s.places + want - 1) / want;
    const int64_t least = g->nchw ? 1024 : 128;
    if (s.per < least) s.per = least;
    s.pieces = (s.places + s.per - 1) / s.per;
    return s;
}
/* Tap t of place r, as an offset of x without its channel; negative when it lies outside. */
__device__ __forceinline__ int64_t tp__depth_tap(const tp__conv_shape &g, int b, int i, int j, int t)
{
    const int p = t / (int)g.KW, q = t - p * (int)g.KW;
    const int h = i * (int)g.sh + p * (int)g.dh - (int)g.top, v = j * (int)g.sw + q * (int)g.dw - (int)g.left;
    if (h < 0 || h >= (int)g.H || v < 0 || v >= (int)g.W) return -1;
    return b * g.xb + h * g.xh + v * g.xw;
}
template <class T>
TP_KERNEL tp__depthwise_part_nhwc(const tp__conv_shape g, const tp__depth_cut s, const T *x, const T *dy,
                                  tp__real<T> *part)
{
    typedef tp__real<T> R;
    TP_SHARED(R, room, 8 * TP__DEPTH_TAPS * 32);
    const int lane = (int)(threadIdx.x & 31), slot = (int)(threadIdx.x >> 5), tile = (int)(blockIdx.x % s.tiles);
    const int pass = (int)(blockIdx.x / s.tiles % s.passes), piece = (int)(blockIdx.x / s.tiles / s.passes);
    const int o = tile * 32 + lane, t0 = pass * TP__DEPTH_TAPS, taps = (int)s.taps, OH = (int)g.OH, OW = (int)g.OW;
    const int end = (int)(s.places - piece * s.per < s.per ? s.places : (piece + 1) * s.per);
    R sum[TP__DEPTH_TAPS] = {};
    if (o < (int)g.O) {
        const int c = o / (int)(g.O / g.C);
        for (int r = (int)(piece * s.per) + slot; r < end; r += 8) {
            const int row = r / OW, j = r - row * OW, b = row / OH, i = row - b * OH;
            const R d = tp__get(dy, (int64_t)r * g.O + o);
#pragma unroll
            for (int t = 0; t < TP__DEPTH_TAPS; t++) {
                const int64_t at = t0 + t < taps ? tp__depth_tap(g, b, i, j, t0 + t) : -1;
                if (at >= 0) sum[t] += tp__get(x, at + c) * d;
            }
        }
    }
#pragma unroll
    for (int t = 0; t < TP__DEPTH_TAPS; t++) room[(slot * TP__DEPTH_TAPS + t) * 32 + lane] = sum[t];
    __syncthreads();
    for (int e = (int)threadIdx.x; e < TP__DEPTH_TAPS * 32; e += (int)blockDim.x) {
        const int t = t0 + e / 32, to = tile * 32 + e % 32;
        if (t >= taps || to >= (int)g.O) continue;
        R all = 0;
        for (int w = 0; w < 8; w++) all += room[w * TP__DEPTH_TAPS * 32 + e];
        part[((int64_t)piece * taps + t) * g.O + to] = all;
    }
}
template <class T>
TP_KERNEL tp__depthwise_part_nchw(const tp__conv_shape g, const tp__depth_cut s, const T *x, const T *dy,
                                  tp__real<T> *part)
{
    typedef tp__real<T> R;
    TP_SHARED(R, room, 8);
    const int o = (int)(blockIdx.x % s.tiles), pass = (int)(blockIdx.x / s.tiles % s.passes),
              piece = (int)(blockIdx.x / s.tiles / s.passes);
    const int t0 = pass * TP__DEPTH_TAPS, taps = (int)s.taps, OH = (int)g.OH, OW = (int)g.OW;
    const int end = (int)(s.places - piece * s.per < s.per ? s.places : (piece + 1) * s.per);
    const int64_t C0 = o / (g.O / g.C) * g.xc;
    R sum[TP__DEPTH_TAPS] = {};
    for (int r = (int)(piece * s.per) + (int)threadIdx.x; r < end; r += (int)blockDim.x) {
        const int row = r / OW, j = r - row * OW, b = row / OH, i = row - b * OH;
        const R d = tp__get(dy, b * g.yb + o * g.yc + i * OW + j);
#pragma unroll
        for (int t = 0; t < TP__DEPTH_TAPS; t++) {
            const int64_t at = t0 + t < taps ? tp__depth_tap(g, b, i, j, t0 + t) : -1;
            if (at >= 0) sum[t] += tp__get(x, at + C0) * d;
        }
    }
#pragma unroll
    for (int t = 0; t < TP__DEPTH_TAPS; t++) {
        const R all = tp__block_sum(sum[t], room);
        if (threadIdx.x == 0 && t0 + t < taps) part[((int64_t)piece * taps + t0 + t) * g.O + o] = all;
    }
}
/* y[e] = sum of part[p][e]: 32 columns and 8 pieces side by side. */
template <class T> TP_KERNEL tp__add_parts(const tp__real<T> *part, T *y, int64_t n, int64_t pieces)
{
    typedef tp__real<T> R;
    TP_SHARED(R, room, 256);
    const int64_t e = (int64_t)blockIdx.x * 32 + (threadIdx.x & 31);
    R sum = 0;
    if (e < n)
        for (int64_t p = threadIdx.x >> 5; p < pieces; p += 8) sum += part[p * n + e];
    room[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x >= 32 || e >= n) return;
    for (int w = 1; w < 8; w++) sum += room[w * 32 + threadIdx.x];
    tp__put(y, e, sum);
}

/* -- conv2d: what cuDNN wants otherwise */

/* A filter (S, I, O) as (O, S, I), which is what NHWC goes with: then I = rows, S = 1; or as (O, I, S) for NCHW. back: the
 * other way. Tiles of 32 by 32, so that both sides are read and written along their rows. */
template <class T>
TP_KERNEL tp__turn_filter(const T *from, T *to, int64_t rows, int64_t O, int64_t I, int64_t S, bool back)
{
    TP_SHARED(T, tile, 32 * 33);
    const int x = (int)(threadIdx.x & 31), y = (int)(threadIdx.x >> 5);
    const int64_t across = (O + 31) / 32, r0 = blockIdx.x / across * 32, o0 = blockIdx.x % across * 32;
    for (int u = y; u < 32; u += 8) {
        const int64_t r = r0 + (back ? x : u), o = o0 + (back ? u : x);
        if (r < rows && o < O) tile[u * 33 + x] = back ? from[o * rows + r % I * S + r / I] : from[r * O + o];
    }
    __syncthreads();
    for (int u = y; u < 32; u += 8) {
        const int64_t r = r0 + (back ? u : x), o = o0 + (back ? x : u);
        if (r >= rows || o >= O) continue;
        if (back) to[r * O + o] = tile[x * 33 + u];
        else to[o * rows + r % I * S + r / I] = tile[x * 33 + u];
    }
}
static void tp__run_turn_filter(const tp_call *k, const tp__conv_shape *g, tp_dtype dtype, const void *from, void *to,
                                bool back)
{
    const int64_t I = g->C / g->groups, S = g->KH * g->KW, rows = I * S;
    const int64_t blocks = (rows + 31) / 32 * ((g->O + 31) / 32);
    TP_SIZES(dtype, TP_RUN_BLOCKS(k, (tp__turn_filter<T>), blocks, TP__THREADS, 0, (const T *)from, (T *)to, rows, g->O,
                                  g->nchw ? I : rows, g->nchw ? S : 1, back););
}

/* (N, H, W, C) of T with more rows and columns, zeros, or fewer. */
template <class T, class I>
TP_KERNEL tp__frame(const T *from, T *to, int64_t n, int64_t H, int64_t W, int64_t to_H, int64_t to_W, int64_t C)
{
    TP__EACH_FOUR(I, 1, at, n)
    {
        const tp__pixel<I> p = tp__pixel_of<I>(at, (I)to_H, (I)to_W, (I)C, false);
        T v;
        memset(&v, 0, sizeof v);
        if (p.h < (I)H && p.w < (I)W) v = from[((p.b * (I)H + p.h) * (I)W + p.w) * (I)C + p.c];
        to[at] = v;
    }
}
static void tp__run_frame(const tp_call *k, const tp__conv_shape *g, tp_dtype dtype, int64_t images, const void *from,
                          void *to, bool back)
{
    const int64_t N = g->nchw ? images * g->C : images, size = (int64_t)tp__dtype_size(dtype),
                  bytes = g->nchw ? size : g->C * size;
    const int64_t more_H = g->H + g->more_h, more_W = g->W + g->more_w;
    const int64_t H = back ? more_H : g->H, W = back ? more_W : g->W, to_H = back ? g->H : more_H,
                  to_W = back ? g->W : more_W;
#define TP__FRAME(T_)                                                                                    \
    do {                                                                                                 \
        const int64_t C = bytes / (int64_t)sizeof(T_), n = N * to_H * to_W * C;                          \
        if (N * more_H * more_W * C < TP__INT_ELEMENTS)                                                  \
            TP_RUN(k, (tp__frame<T_, int>), n, (const T_ *)from, (T_ *)to, n, H, W, to_H, to_W, C);      \
        else TP_RUN(k, (tp__frame<T_, int64_t>), n, (const T_ *)from, (T_ *)to, n, H, W, to_H, to_W, C); \
    } while (0)
    if (bytes % 16 == 0) TP__FRAME(uint4);
    else TP_SIZES(dtype, TP__FRAME(T););
#undef TP__FRAME
}

/* -- conv2d: cuDNN */

#define TP__CONV_WORKSPACE ((size_t)512 << 20) /* no algorithm that wants more */

enum { TP__CONV_FORWARD, TP__CONV_INPUT, TP__CONV_FILTER };

/* All that cuDNN's choice depends on. */
typedef struct tp__conv_key {
    int64_t B, H, W, C, O, KH, KW, OH, OW, sh, sw, dh, dw, top, left, groups;
    int32_t what, dtype, precision, nchw;
} tp__conv_key;
typedef struct tp__conv_choice {
    struct tp__conv_choice *next;
    tp__conv_key key;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t conv;
    int algo;
    size_t workspace;
    bool usable; /* false: cuDNN refuses it */
} tp__conv_choice;

static cudnnStatus_t tp__conv_describe(tp__conv_choice *s)
{
    const tp__conv_key *p = &s->key;
    const cudnnTensorFormat_t format = p->nchw ? CUDNN_TENSOR_NCHW : CUDNN_TENSOR_NHWC;
    const cudnnDataType_t type = p->dtype == TP_F64    ? CUDNN_DATA_DOUBLE
                                 : p->dtype == TP_F16  ? CUDNN_DATA_HALF
                                 : p->dtype == TP_BF16 ? CUDNN_DATA_BFLOAT16
                                                       : CUDNN_DATA_FLOAT;
    cudnnStatus_t st = cudnnCreateTensorDescriptor(&s->x);
    if (st == CUDNN_STATUS_SUCCESS) st = cudnnCreateTensorDescriptor(&s->y);
    if (st == CUDNN_STATUS_SUCCESS) st = cudnnCreateFilterDescriptor(&s->w);
    if (st == CUDNN_STATUS_SUCCESS) st = cudnnCreateConvolutionDescriptor(&s->conv);
    if (st == CUDNN_STATUS_SUCCESS)
        st = cudnnSetTensor4dDescriptor(s->x, format, type, (int)p->B, (int)p->C, (int)p->H, (int)p->W);
    if (st == CUDNN_STATUS_SUCCESS)
        st = cudnnSetTensor4dDescriptor(s->y, format, type, (int)p->B, (int)p->O, (int)p->OH, (int)p->OW);
    if (st == CUDNN_STATUS_SUCCESS)
        st = cudnnSetFilter4dDescriptor(s->w, type, format, (int)p->O, (int)(p->C / p->groups), (int)p->KH, (int)p->KW);
    if (st == CUDNN_STATUS_SUCCESS)
        st = cudnnSetConvolution2dDescriptor(s->conv, (int)p->top, (int)p->left, (int)p->sh, (int)p->sw, (int)p->dh,
                                             (int)p->dw, CUDNN_CROSS_CORRELATION,
                                             p->dtype == TP_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
    if (st == CUDNN_STATUS_SUCCESS) st = cudnnSetConvolutionGroupCount(s->conv, (int)p->groups);
    return st;
}

static cudnnStatus_t tp__conv_workspace(tp__cuda *c, const tp__conv_choice *s, int algo, size_t *bytes)
{
    switch (s->key.what) {
    case TP__CONV_FORWARD:
        return cudnnGetConvolutionForwardWorkspaceSize(c->dnn, s->x, s->w, s->conv, s->y,
                                                       (cudnnConvolutionFwdAlgo_t)algo, bytes);
    case TP__CONV_INPUT:
        return cudnnGetConvolutionBackwardDataWorkspaceSize(c->dnn, s->w, s->y, s->conv, s->x,
                                                            (cudnnConvolutionBwdDataAlgo_t)algo, bytes);
    default:
        return cudnnGetConvolutionBackwardFilterWorkspaceSize(c->dnn, s->x, s->y, s->conv, s->w,
                                                              (cudnnConvolutionBwdFilterAlgo_t)algo, bytes);
    }
}

/* Fourier transforms and the large Winograd tiles spread a rounding error over many results: not what TP_PRECISION_F32 says. */
static bool tp__conv_is_rough(int what, int algo)
{
    if (what == TP__CONV_FORWARD)
        return algo == CUDNN_CONVOLUTION_FWD_ALGO_FFT || algo == CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING ||
               algo == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED;
    if (what == TP__CONV_INPUT)
        return algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT || algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING ||
               algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED;
    return algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT || algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING ||
           algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED;
}

/* The first deterministic algorithm in cuDNN's order that keeps to precision and workspace. */
#define TP__CONV_ALGOS 16
static cudnnStatus_t tp__conv_choose(tp__cuda *c, tp__conv_choice *s)
{
    const int what = s->key.what;
    const bool half = s->key.dtype == TP_F16 || s->key.dtype == TP_BF16,
               strict = s->key.dtype == TP_F32 && s->key.precision != TP_PRECISION_TF32;
    const cudnnMathType_t asked = half ? CUDNN_TENSOR_OP_MATH : strict ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
    int algo[TP__CONV_ALGOS + 2], n = 0;
    cudnnMathType_t math[TP__CONV_ALGOS + 2];
    cudnnStatus_t st = tp__conv_describe(s);
    if (st == CUDNN_STATUS_SUCCESS) st = cudnnSetConvolutionMathType(s->conv, asked);
    if (st != CUDNN_STATUS_SUCCESS) return st;
#define TP__CONV_CANDIDATES(kind_, ...)                                                                 \
    do {                                                                                                \
        cudnnConvolution##kind_##AlgoPerf_t found[TP__CONV_ALGOS];                                      \
        int m = 0;                                                                                      \
        if (__VA_ARGS__ != CUDNN_STATUS_SUCCESS) break;                                                 \
        for (int i = 0; i < m; i++)                                                                     \
            if (found[i].status == CUDNN_STATUS_SUCCESS && found[i].determinism == CUDNN_DETERMINISTIC) \
                algo[n] = (int)found[i].algo, math[n++] = found[i].mathType;                            \
    } while (0)
    if (what == TP__CONV_FORWARD)
        TP__CONV_CANDIDATES(
            Fwd, cudnnGetConvolutionForwardAlgorithm_v7(c->dnn, s->x, s->w, s->conv, s->y, TP__CONV_ALGOS, &m, found));
    else if (what == TP__CONV_INPUT)
        TP__CONV_CANDIDATES(BwdData, cudnnGetConvolutionBackwardDataAlgorithm_v7(c->dnn, s->w, s->y, s->conv, s->x,
                                                                                 TP__CONV_ALGOS, &m, found));
    else
        TP__CONV_CANDIDATES(BwdFilter, cudnnGetConvolutionBackwardFilterAlgorithm_v7(c->dnn, s->x, s->y, s->conv, s->w,
                                                                                     TP__CONV_ALGOS, &m, found));
#undef TP__CONV_CANDIDATES
    algo[n] = 1; /* implicit products, where nothing was found: deterministic, of small workspace */
    math[n++] = asked;
    if (what == TP__CONV_FORWARD) {
        algo[n] = 0;
        math[n++] = asked;
    }
    for (int i = 0; i < n; i++) {
        if (strict && (math[i] == CUDNN_TENSOR_OP_MATH || math[i] == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION ||
                       tp__conv_is_rough(what, algo[i])))
            continue;
        if (math[i] == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) continue; /* to half precision */
        size_t bytes = 0;
        st = cudnnSetConvolutionMathType(s->conv, strict ? CUDNN_FMA_MATH : math[i]);
        if (st == CUDNN_STATUS_SUCCESS) st = tp__conv_workspace(c, s, algo[i], &bytes);
        if (st != CUDNN_STATUS_SUCCESS || bytes > TP__CONV_WORKSPACE) continue;
        s->algo = algo[i];
        s->workspace = bytes;
        s->usable = true;
        return CUDNN_STATUS_SUCCESS;
    }
    return CUDNN_STATUS_NOT_SUPPORTED;
}

/* The choice for `images` pictures, made once; NULL when memory is full. */
static tp__conv_choice *tp__conv_choice_of(tp__cuda *c, const tp__conv_shape *g, int what, tp_dtype dtype,
                                           tp_precision precision, int64_t images)
{
    tp__conv_key key;
    memset(&key, 0, sizeof key);
    key.B = images, key.C = g->C, key.O = g->O, key.KH = g->KH, key.KW = g->KW, key.OH = g->OH, key.OW = g->OW;
    key.H = g->H + g->more_h, key.W = g->W + g->more_w; /* with the odd row, padding is the same on both sides */
    key.sh = g->sh, key.sw = g->sw, key.dh = g->dh, key.dw = g->dw, key.top = g->top, key.left = g->left;
    key.groups = g->groups, key.what = what, key.dtype = (int32_t)dtype, key.nchw = g->nchw;
    key.precision = dtype == TP_F32 ? (int32_t)precision : 0;
    for (tp__conv_choice *s = c->convolution; s; s = s->next)
        if (memcmp(&s->key, &key, sizeof key) == 0) return s;
    tp__conv_choice *s = (tp__conv_choice *)calloc(1, sizeof *s);
    if (!s) return NULL;
    s->key = key;
    cudaSetDevice(c->ordinal);
    tp__conv_choose(c, s);
    s->next = c->convolution;
    c->convolution = s;
    return s;
}
static void tp__conv_free_choices(tp__cuda *c)
{
    while (c->convolution) {
        tp__conv_choice *s = c->convolution;
        c->convolution = s->next;
        if (s->conv) cudnnDestroyConvolutionDescriptor(s->conv);
        if (s->w) cudnnDestroyFilterDescriptor(s->w);
        if (s->y) cudnnDestroyTensorDescriptor(s->y);
        if (s->x) cudnnDestroyTensorDescriptor(s->x);
        free(s);
    }
}

/* add: to what is there, for the filter gradient of further pictures. */
static cudnnStatus_t tp__conv_by_cudnn(tp__cuda *c, const tp__conv_choice *s, void *x, void *w, void *y, void *room,
                                       bool add)
{
    const double one64 = 1, beta64 = add ? 1 : 0;
    const float one32 = 1, beta32 = add ? 1 : 0;
    const bool f64 = s->key.dtype == TP_F64;
    const void *one = f64 ? (const void *)&one64 : (const void *)&one32,
               *beta = f64 ? (const void *)&beta64 : (const void *)&beta32;
    switch (s->key.what) {
    case TP__CONV_FORWARD:
        return cudnnConvolutionForward(c->dnn, one, s->x, x, s->w, w, s->conv, (cudnnConvolutionFwdAlgo_t)s->algo, room,
                                       s->workspace, beta, s->y, y);
    case TP__CONV_INPUT:
        return cudnnConvolutionBackwardData(c->dnn, one, s->w, w, s->y, y, s->conv,
                                            (cudnnConvolutionBwdDataAlgo_t)s->algo, room, s->workspace, beta, s->x, x);
    default:
        return cudnnConvolutionBackwardFilter(c->dnn, one, s->x, x, s->y, y, s->conv,
                                              (cudnnConvolutionBwdFilterAlgo_t)s->algo, room, s->workspace, beta, s->w,
                                              w);
    }
}

/* -- conv2d: the three ops */

enum { TP__BY_PRODUCT, TP__BY_DEPTH, TP__BY_CUDNN, TP__BY_ITSELF };

typedef struct tp__conv_job {
    tp__conv_shape g;
    int what, way;
    tp_dtype dtype;
    int64_t images;               /* cuDNN gets as many at a time: it counts elements in 32 bits */
    tp__conv_choice *most, *last; /* for so many, and for those that are left over; NULL: none */
    size_t filter, frame, room;   /* bytes of scratch: the turned filter, framed pictures, the rest */
} tp__conv_job;

static size_t tp__round256(size_t n) { return (n + 255) & ~(size_t)255; }

static tp__conv_job tp__conv_job_of(const tp_call *k, int what)
{
    tp__cuda *c = tp__cuda_of(k);
    tp__conv_job j;
    memset(&j, 0, sizeof j);
    j.what = what;
    j.dtype = k->out[0].dtype;
    j.g = tp__conv_shape_of((const tp_conv2d_attrs *)k->attrs, &k->in[what == TP__CONV_INPUT ? 2 : 0].shape,
                            &k->in[what == TP__CONV_FILTER ? 2 : 1].shape);
    const tp__conv_shape *g = &j.g;
    const size_t size = tp__dtype_size(j.dtype);
    const int64_t reach = g->KH * g->KW * (g->C / g->groups), image_x = g->C * (g->H + g->more_h) * (g->W + g->more_w),
                  image_y = g->O * g->OH * g->OW, image = image_x > image_y ? image_x : image_y,
                  most = TP__CONV_ELEMENTS;
    j.way = TP__BY_ITSELF;
    if (g->B * image_x == 0 || g->B * image_y == 0 || reach == 0) return j; /* sums over nothing */
    const bool point = g->KH == 1 && g->KW == 1 && g->sh == 1 && g->sw == 1,
               whole = g->OH == 1 && g->OW == 1 && g->KH == g->H && g->KW == g->W && g->dh == 1 && g->dw == 1 &&
                       g->top == 0 && g->left == 0;
    if (!g->nchw && g->groups == 1 && (point || whole)) {
        j.way = TP__BY_PRODUCT;
        return j;
    }
    if (g->groups == g->C && g->C > 1 && g->B * image < (int64_t)1 << 30) {
        j.way = TP__BY_DEPTH;
        if (what != TP__CONV_FILTER) return j;
        const tp__depth_cut s = tp__depth_cut_of(g);
        j.room = (size_t)(s.pieces * s.taps * g->O) * (j.dtype == TP_F64 ? sizeof(double) : sizeof(float));
        return j;
    }
#ifndef TP_CUDA_DIRECT_CONV
    if (image > most || reach * g->O > most) return j;
    j.images = most / image < g->B ? most / image : g->B;
    j.most = tp__conv_choice_of(c, g, what, j.dtype, k->precision, j.images);
    if (!j.most || !j.most->usable) return j;
    j.room = j.most->workspace;
    if (g->B % j.images) {
        j.last = tp__conv_choice_of(c, g, what, j.dtype, k->precision, g->B % j.images);
        if (!j.last || !j.last->usable) return j;
        if (j.last->workspace > j.room) j.room = j.last->workspace;
    }
    j.way = TP__BY_CUDNN;
    j.filter = tp__round256((size_t)(reach * g->O) * size);
    if (g->more_h || g->more_w) j.frame = tp__round256((size_t)(j.images * image_x) * size);
#else
    (void)c, (void)size, (void)most;
#endif
    return j;
}
static size_t tp__conv_room(const tp_call *k, int what)
{
    const tp__conv_job j = tp__conv_job_of(k, what);
    return j.way == TP__BY_ITSELF ? 0 : j.filter + j.frame + j.room;
}

static void tp__conv_product(const tp_call *k, const tp__conv_job *j, void *x, void *w, void *y, const void *bias,
                             bool relu)
{
    const int64_t places = j->g.B * j->g.OH * j->g.OW, taps = j->g.KH * j->g.KW * j->g.C, O = j->g.O;
    tp__gemm_shape s;
    memset(&s, 0, sizeof s);
    s.batch = 1;
    s.alpha = 1;
    s.dtype = j->dtype;
    s.precision = k->precision;
    if (j->what == TP__CONV_FORWARD) {
        s.M = places, s.N = O, s.K = taps, s.bias = bias != NULL, s.relu = relu;
        tp__gemm(k, &s, x, w, y, bias);
    } else if (j->what == TP__CONV_INPUT) {
        s.M = places, s.N = taps, s.K = O, s.tb = true;
        tp__gemm(k, &s, y, w, x, NULL);
    } else {
        s.M = taps, s.N = O, s.K = places, s.ta = true;
        tp__gemm(k, &s, x, y, w, NULL);
    }
}
static void tp__conv_depthwise(const tp_call *k, const tp__conv_job *j, void *x, void *w, void *y)
{
    const tp__conv_shape *g = &j->g;
    const int64_t C4 = g->C / 4, n = j->what == TP__CONV_FORWARD
                                         ? g->B * g->OH * ((g->OW + TP__DEPTH_ROW - 1) / TP__DEPTH_ROW) * C4
                                         : g->B * g->H * ((g->W + TP__DEPTH_ROW - 1) / TP__DEPTH_ROW) * C4;
    if (j->what == TP__CONV_FORWARD)
        TP_REALS(j->dtype, TP_RUN(k, (tp__depthwise_forward<T>), n, *g, (const T *)x, (const T *)w, (T *)y, (int)n););
    else TP_REALS(j->dtype, TP_RUN(k, (tp__depthwise_input<T>), n, *g, (const T *)y, (const T *)w, (T *)x, (int)n););
}
static void tp__conv_depthwise_filter(const tp_call *k, const tp__conv_job *j, void *x, void *w, void *y)
{
    const tp__conv_shape *g = &j->g;
    const tp__depth_cut s = tp__depth_cut_of(g);
    const int64_t blocks = s.pieces * s.passes * s.tiles, n = s.taps * g->O;
    TP_REALS(j->dtype, {
        tp__real<T> *part = (tp__real<T> *)k->scratch;
        if (g->nchw)
            TP_RUN_BLOCKS(k, (tp__depthwise_part_nchw<T>), blocks, TP__THREADS, 0, *g, s, (const T *)x, (const T *)y,
                          part);
        else
            TP_RUN_BLOCKS(k, (tp__depthwise_part_nhwc<T>), blocks, TP__THREADS, 0, *g, s, (const T *)x, (const T *)y,
                          part);
        TP_RUN_BLOCKS(k, (tp__add_parts<T>), (n + 31) / 32, TP__THREADS, 0, (const tp__real<T> *)part, (T *)w, n,
                      s.pieces);
    });
}
static void tp__conv_directly(const tp_call *k, const tp__conv_job *j, void *x, void *w, void *y)
{
    const int64_t n = tp__size(&k->out[0]);
    if (j->what == TP__CONV_FORWARD)
        TP_REALS(j->dtype, TP_RUN(k, (tp__conv_forward<T>), n, j->g, (const T *)x, (const T *)w, (T *)y, n););
    else if (j->what == TP__CONV_INPUT)
        TP_REALS(j->dtype, TP_RUN(k, (tp__conv_input<T>), n, j->g, (const T *)y, (const T *)w, (T *)x, n););
    else TP_REALS(j->dtype, TP_RUN(k, (tp__conv_filter<T>), n, j->g, (const T *)x, (const T *)y, (T *)w, n););
}
/* The pictures in one go or in several; false if cuDNN does not do what it said it could. */
static bool tp__conv_pictures(const tp_call *k, const tp__conv_job *j, void *x, void *w, void *y)
{
    const tp__conv_shape *g = &j->g;
    tp__cuda *c = tp__cuda_of(k);
    const size_t size = tp__dtype_size(j->dtype);
    char *filter = (char *)k->scratch, *frame = filter + j->filter, *room = frame + j->frame;
    if (j->what != TP__CONV_FILTER) tp__run_turn_filter(k, g, j->dtype, w, filter, false);
    for (int64_t at = 0; at < g->B; at += j->images) {
        const tp__conv_choice *s = g->B - at >= j->images ? j->most : j->last;
        char *px = (char *)x + (size_t)(at * g->xb) * size, *py = (char *)y + (size_t)(at * g->yb) * size;
        if (j->frame && j->what != TP__CONV_INPUT) tp__run_frame(k, g, j->dtype, s->key.B, px, frame, false);
        const bool add = j->what == TP__CONV_FILTER && at > 0;
        const cudnnStatus_t st = tp__conv_by_cudnn(c, s, j->frame ? frame : px, filter, py, room, add);
        if ((int)st / 1000 == (int)CUDNN_STATUS_NOT_SUPPORTED / 1000) return false; /* or a shade of it */
        if (st != CUDNN_STATUS_SUCCESS) tp__broken(c, k->op->name, cudnnGetErrorString(st));
        if (j->frame && j->what == TP__CONV_INPUT) tp__run_frame(k, g, j->dtype, s->key.B, frame, px, true);
    }
    if (j->what == TP__CONV_FILTER) tp__run_turn_filter(k, g, j->dtype, filter, w, true);
    return true;
}

static void tp__conv_run(const tp_call *k, int what)
{
    const tp_conv2d_attrs *t = (const tp_conv2d_attrs *)k->attrs;
    tp__conv_job j = tp__conv_job_of(k, what);
    void *x = what == TP__CONV_INPUT ? k->out[0].data : k->in[0].data;
    void *w = what == TP__CONV_FILTER ? k->out[0].data : k->in[1].data;
    void *y = what == TP__CONV_FORWARD ? k->out[0].data : what == TP__CONV_INPUT ? k->in[0].data : k->in[1].data;
    const bool bias = what == TP__CONV_FORWARD && t->fused_bias, relu = bias && t->fused_act != 0;
    if (tp__size(&k->out[0]) == 0) return;
    if (j.way == TP__BY_PRODUCT) {
        const bool with_it = bias && j.dtype != TP_F64; /* cuBLASLt adds no bias of doubles */
        tp__conv_product(k, &j, x, w, y, with_it ? k->in[2].data : NULL, with_it && relu);
        if (with_it) return;
    } else if (j.way == TP__BY_CUDNN) {
        if (!tp__conv_pictures(k, &j, x, w, y)) tp__conv_directly(k, &j, x, w, y);
    } else if (j.way == TP__BY_DEPTH && what == TP__CONV_FILTER) tp__conv_depthwise_filter(k, &j, x, w, y);
    else if (j.way == TP__BY_DEPTH && !j.g.nchw && j.g.O == j.g.C && j.g.C % 4 == 0) tp__conv_depthwise(k, &j, x, w, y);
    else tp__conv_directly(k, &j, x, w, y);
    if (bias) tp__run_bias(k, y, &k->in[2], &k->out[0], j.g.yc, relu);
}
static void tp__conv2d_cuda(const tp_call *k) { tp__conv_run(k, TP__CONV_FORWARD); }
static void tp__conv2d_input_grad_cuda(const tp_call *k) { tp__conv_run(k, TP__CONV_INPUT); }
static void tp__conv2d_filter_grad_cuda(const tp_call *k) { tp__conv_run(k, TP__CONV_FILTER); }
static size_t tp__conv2d_room(const tp_call *k) { return tp__conv_room(k, TP__CONV_FORWARD); }
static size_t tp__conv2d_input_grad_room(const tp_call *k) { return tp__conv_room(k, TP__CONV_INPUT); }
static size_t tp__conv2d_filter_grad_room(const tp_call *k) { return tp__conv_room(k, TP__CONV_FILTER); }

static void tp__bias_add_cuda(const tp_call *k)
{
    const tp_shape *x = &k->in[0].shape;
    const int axis = ((const tp__bias_attrs *)k->attrs)->data_format == TP_NCHW ? 1 : x->ndim - 1;
    tp__run_bias(k, k->in[0].data, &k->in[1], &k->out[0], tp__product_of(x, axis + 1, x->ndim), false);
}

/* -- max_pool, avg_pool. The gradients gather: an element of x looks at the windows that it lies in, in their order. */

typedef struct tp__pool_shape {
    int64_t B, H, W, C, OH, OW, kh, kw, sh, sw, top, left, nx, ny; /* nx, ny: elements */
    bool nchw, four;                                               /* four channels a thread */
} tp__pool_shape;

static tp__pool_shape tp__pool_shape_of(const tp_call *k, const tp_shape *x)
{
    const tp_pool_attrs *a = (const tp_pool_attrs *)k->attrs;
    tp__pool_shape g;
    int more;
    memset(&g, 0, sizeof g);
    g.nchw = a->data_format == TP_NCHW;
    g.kh = a->size_h;
    g.kw = a->size_w;
    g.sh = a->stride_h ? a->stride_h : g.kh;
    g.sw = a->stride_w ? a->stride_w : g.kw;
    g.B = x->dim[0];
    g.C = x->dim[g.nchw ? 1 : 3];
    g.H = x->dim[g.nchw ? 2 : 1];
    g.W = x->dim[g.nchw ? 3 : 2];
    tp__same_or_valid(a->padding == TP_SAME ? TP_SAME : TP_VALID, g.H, g.kh, g.sh, 1, &g.OH, &g.top, &more);
    tp__same_or_valid(a->padding == TP_SAME ? TP_SAME : TP_VALID, g.W, g.kw, g.sw, 1, &g.OW, &g.left, &more);
    g.nx = g.B * g.H * g.W * g.C;
    g.ny = g.B * g.OH * g.OW * g.C;
    g.four = !g.nchw && g.C % 4 == 0;
    return g;
}
#define TP__RUN_POOL(k_, kernel_, T_, g_, n_, ...) \
    TP__RUN_FOURS(k_, kernel_, T_, (g_).four, n_, (g_).nx > (g_).ny ? (g_).nx : (g_).ny, g_, __VA_ARGS__)

template <class I> __device__ __forceinline__ I tp__pool_x(const tp__pool_shape &g, I b, I h, I w, I c)
{
    return g.nchw ? ((b * (I)g.C + c) * (I)g.H + h) * (I)g.W + w : ((b * (I)g.H + h) * (I)g.W + w) * (I)g.C + c;
}
template <class I> __device__ __forceinline__ I tp__pool_y(const tp__pool_shape &g, I b, I i, I j, I c)
{
    return g.nchw ? ((b * (I)g.C + c) * (I)g.OH + i) * (I)g.OW + j : ((b * (I)g.OH + i) * (I)g.OW + j) * (I)g.C + c;
}
/* The first and the last window that element h lies in; `before` is the padding before the picture. */
template <class I> __device__ __forceinline__ I tp__first_window(I h, int64_t before, int64_t size, int64_t stride)
{
    const I at = h + (I)before - (I)size;
    return at < 0 ? 0 : at / (I)stride + 1;
}
template <class I> __device__ __forceinline__ I tp__last_window(I h, int64_t before, int64_t stride, int64_t n)
{
    const I at = (h + (I)before) / (I)stride;
    return at < (I)n ? at : (I)n - 1;
}
/* Where in their windows four neighbours were largest: bytes, or 32 bits. */
template <int V>
__device__ __forceinline__ void tp__load_places(const uint8_t *at8, const int32_t *at32, int64_t at, int (&w)[V])
{
    if (at8 && V == 4) {
        const unsigned four = *(const unsigned *)(const void *)(at8 + at);
        for (int e = 0; e < V; e++) w[e] = (int)(four >> 8 * e & 255u);
    } else
        for (int e = 0; e < V; e++) w[e] = at8 ? (int)at8[at + e] : at32[at + e];
}

template <class T, int V, class I>
TP_KERNEL tp__max_pool_kernel(const tp__pool_shape g, const T *x, T *y, uint8_t *at8, int32_t *at32)
{
    typedef tp__real<T> R;
    TP__EACH_FOUR(I, V, at, g.ny)
    {
        const tp__pixel<I> o = tp__pixel_of<I>(at, (I)g.OH, (I)g.OW, (I)g.C, g.nchw);
        R most[V] = {};
        int best[V];
        for (int e = 0; e < V; e++) best[e] = -1;
        for (I p = 0; p < (I)g.kh; p++) {
            const I h = o.h * (I)g.sh + p - (I)g.top;
            if (h < 0 || h >= (I)g.H) continue;
            for (I q = 0; q < (I)g.kw; q++) {
                const I v = o.w * (I)g.sw + q - (I)g.left;
                if (v < 0 || v >= (I)g.W) continue;
                R a[V];
                tp__load(x + tp__pool_x<I>(g, o.b, h, v, o.c), a);
                for (int e = 0; e < V; e++)
                    if (best[e] < 0 || a[e] > most[e] || (a[e] != a[e] && most[e] == most[e])) {
                        best[e] = (int)(p * (I)g.kw + q);
                        most[e] = a[e];
                    }
            }
        }
        if (y) tp__store(y + at, most);
        if (at8 && V == 4) {
            unsigned four = 0;
            for (int e = 0; e < V; e++) four |= (unsigned)(best[e] & 255) << 8 * e;
            *(unsigned *)(void *)(at8 + at) = four;
        } else if (at8)
            for (int e = 0; e < V; e++) at8[at + e] = (uint8_t)best[e];
        if (at32)
            for (int e = 0; e < V; e++) at32[at + e] = best[e];
    }
}
template <class T, int V, class I>
TP_KERNEL tp__max_pool_grad_kernel(const tp__pool_shape g, const T *dy, const uint8_t *at8, const int32_t *at32, T *dx)
{
    typedef tp__real<T> R;
    TP__EACH_FOUR(I, V, at, g.nx)
    {
        const tp__pixel<I> x = tp__pixel_of<I>(at, (I)g.H, (I)g.W, (I)g.C, g.nchw);
        const I i1 = tp__last_window<I>(x.h, g.top, g.sh, g.OH), j0 = tp__first_window<I>(x.w, g.left, g.kw, g.sw),
                j1 = tp__last_window<I>(x.w, g.left, g.sw, g.OW);
        R sum[V] = {};
        for (I i = tp__first_window<I>(x.h, g.top, g.kh, g.sh); i <= i1; i++)
            for (I j = j0; j <= j1; j++) {
                const I from = tp__pool_y<I>(g, x.b, i, j, x.c);
                const int here = (int)((x.h + (I)g.top - i * (I)g.sh) * (I)g.kw + x.w + (I)g.left - j * (I)g.sw);
                int w[V];
                R d[V];
                tp__load_places(at8, at32, (int64_t)from, w);
                tp__load(dy + from, d);
                for (int e = 0; e < V; e++)
                    if (w[e] == here) sum[e] += d[e];
            }
        tp__store(dx + at, sum);
    }
}
template <class T, int V, class I>
TP_KERNEL tp__max_pool_take_kernel(const tp__pool_shape g, const T *x, const uint8_t *at8, const int32_t *at32, T *y)
{
    typedef tp__real<T> R;
    TP__EACH_FOUR(I, V, at, g.ny)
    {
        const tp__pixel<I> o = tp__pixel_of<I>(at, (I)g.OH, (I)g.OW, (I)g.C, g.nchw);
        int w[V];
        R v[V];
        tp__load_places(at8, at32, (int64_t)at, w);
        for (int e = 0; e < V; e++)
            v[e] = tp__get(x, tp__pool_x<I>(g, o.b, o.h * (I)g.sh + (I)(w[e] / (int)g.kw) - (I)g.top,
                                            o.w * (I)g.sw + (I)(w[e] % (int)g.kw) - (I)g.left, o.c + (I)e));
        tp__store(y + at, v);
    }
}
template <class T, int V, class I> TP_KERNEL tp__avg_pool_kernel(const tp__pool_shape g, const T *x, T *y)
{
    typedef tp__real<T> R;
    TP__EACH_FOUR(I, V, at, g.ny)
    {
        const tp__pixel<I> o = tp__pixel_of<I>(at, (I)g.OH, (I)g.OW, (I)g.C, g.nchw);
        R sum[V] = {}, n = 0;
        for (I p = 0; p < (I)g.kh; p++) {
            const I h = o.h * (I)g.sh + p - (I)g.top;
            if (h < 0 || h >= (I)g.H) continue;
            for (I q = 0; q < (I)g.kw; q++) {
                const I v = o.w * (I)g.sw + q - (I)g.left;
                if (v < 0 || v >= (I)g.W) continue;
                R a[V];
                tp__load(x + tp__pool_x<I>(g, o.b, h, v, o.c), a);
                for (int e = 0; e < V; e++) sum[e] += a[e];
                n += 1;
            }
        }
        for (int e = 0; e < V; e++) sum[e] /= n;
        tp__store(y + at, sum);
    }
}
template <class T, int V, class I> TP_KERNEL tp__avg_pool_grad_kernel(const tp__pool_shape g, const T *dy, T *dx)
{
    typedef tp__real<T> R;
    TP__EACH_FOUR(I, V, at, g.nx)
    {
        const tp__pixel<I> x = tp__pixel_of<I>(at, (I)g.H, (I)g.W, (I)g.C, g.nchw);
        const I i1 = tp__last_window<I>(x.h, g.top, g.sh, g.OH), j0 = tp__first_window<I>(x.w, g.left, g.kw, g.sw),
                j1 = tp__last_window<I>(x.w, g.left, g.sw, g.OW);
        R sum[V] = {};
        for (I i = tp__first_window<I>(x.h, g.top, g.kh, g.sh); i <= i1; i++) {
            const I h0 = i * (I)g.sh - (I)g.top, h1 = h0 + (I)g.kh;
            const I high = (h1 < (I)g.H ? h1 : (I)g.H) - (h0 > 0 ? h0 : 0);
            for (I j = j0; j <= j1; j++) {
                const I v0 = j * (I)g.sw - (I)g.left, v1 = v0 + (I)g.kw;
                const I wide = (v1 < (I)g.W ? v1 : (I)g.W) - (v0 > 0 ? v0 : 0);
                R d[V];
                tp__load(dy + tp__pool_y<I>(g, x.b, i, j, x.c), d);
                for (int e = 0; e < V; e++) sum[e] += d[e] / (R)(high * wide);
            }
        }
        tp__store(dx + at, sum);
    }
}

static const uint8_t *tp__bytes_or_null(const tp_operand *x)
{
    return x->dtype == TP_U8 ? (const uint8_t *)x->data : NULL;
}
static const int32_t *tp__ints_or_null(const tp_operand *x)
{
    return x->dtype == TP_U8 ? NULL : (const int32_t *)x->data;
}
static void tp__max_pool_cuda(const tp_call *k)
{
    const tp__pool_shape g = tp__pool_shape_of(k, &k->in[0].shape);
    uint8_t *at8 = (uint8_t *)tp__bytes_or_null(&k->out[1]);
    int32_t *at32 = (int32_t *)tp__ints_or_null(&k->out[1]);
    TP_REALS(k->in[0].dtype, TP__RUN_POOL(k, tp__max_pool_kernel, T, g, g.ny, (const T *)k->in[0].data,
                                          (T *)k->out[0].data, at8, at32););
}
static void tp__max_pool_grad_cuda(const tp_call *k) /* in: dy, argmax, x for its shape */
{
    const tp__pool_shape g = tp__pool_shape_of(k, &k->in[2].shape);
    TP_REALS(k->in[0].dtype,
             TP__RUN_POOL(k, tp__max_pool_grad_kernel, T, g, g.nx, (const T *)k->in[0].data,
                          tp__bytes_or_null(&k->in[1]), tp__ints_or_null(&k->in[1]), (T *)k->out[0].data););
}
static void tp__max_pool_take_cuda(const tp_call *k) /* in: x, argmax */
{
    const tp__pool_shape g = tp__pool_shape_of(k, &k->in[0].shape);
    TP_REALS(k->in[0].dtype,
             TP__RUN_POOL(k, tp__max_pool_take_kernel, T, g, g.ny, (const T *)k->in[0].data,
                          tp__bytes_or_null(&k->in[1]), tp__ints_or_null(&k->in[1]), (T *)k->out[0].data););
}
static void tp__avg_pool_cuda(const tp_call *k)
{
    const tp__pool_shape g = tp__pool_shape_of(k, &k->in[0].shape);
    TP_REALS(k->in[0].dtype,
             TP__RUN_POOL(k, tp__avg_pool_kernel, T, g, g.ny, (const T *)k->in[0].data, (T *)k->out[0].data););
}
static void tp__avg_pool_grad_cuda(const tp_call *k) /* in: dy, x for its shape */
{
    const tp__pool_shape g = tp__pool_shape_of(k, &k->in[1].shape);
    TP_REALS(k->in[0].dtype,
             TP__RUN_POOL(k, tp__avg_pool_grad_kernel, T, g, g.nx, (const T *)k->in[0].data, (T *)k->out[0].data););
}

static const tp__cuda_kernel tp__cuda_convolution[] = {
    {"conv2d", tp__conv2d_cuda, tp__conv2d_room},
    {"conv2d_input_grad", tp__conv2d_input_grad_cuda, tp__conv2d_input_grad_room},
    {"conv2d_filter_grad", tp__conv2d_filter_grad_cuda, tp__conv2d_filter_grad_room},
    {"bias_add", tp__bias_add_cuda, NULL},
    {"max_pool", tp__max_pool_cuda, NULL},
    {"max_pool_grad", tp__max_pool_grad_cuda, NULL},
    {"max_pool_take", tp__max_pool_take_cuda, NULL},
    {"avg_pool", tp__avg_pool_cuda, NULL},
    {"avg_pool_grad", tp__avg_pool_grad_cuda, NULL},
    {NULL, NULL, NULL}};

/* ==== >>normalisation ================================================================================= */
/* batch_norm in three steps: sums over pieces of x, their combination in double for each channel, and a pass that writes. A
 * piece's size follows from the shape alone, and so does the order of every sum. Channels last (inner = 1): a block is
 * `lanes` groups of channels wide, its other threads take further rows. Else a block sums for one channel. */

typedef struct tp__bn_cut {
    int64_t C, inner, n; /* n: elements of a channel */
    int64_t per, pieces; /* elements of a channel in a piece */
    int64_t tiles;       /* blocks side by side */
    int lanes;           /* channels last: threads side by side, a power of two */
    bool four;           /* neighbours a thread reads at once */
} tp__bn_cut;

static tp__bn_cut tp__bn_cut_of(const tp_call *k, const tp_operand *x)
{
    const int axis = tp__axis(((const tp__bn_attrs *)k->attrs)->axis, x->shape.ndim);
    tp__bn_cut s;
    memset(&s, 0, sizeof s);
    s.C = x->shape.dim[axis];
    s.inner = tp__product_of(&x->shape, axis + 1, x->shape.ndim);
    s.n = tp__product_of(&x->shape, 0, axis) * s.inner;
    s.four = s.inner == 1 ? s.C % 4 == 0 : s.inner % 4 == 0;
    s.tiles = s.C;
    s.lanes = 1;
    int64_t least = 4096, most = 65536; /* elements of a piece: enough to be worth a block, few enough for its floats */
    if (s.inner == 1) {
        const int64_t wide = s.four ? s.C / 4 : s.C;
        while (s.lanes < 32 && s.lanes < wide) s.lanes *= 2;
        s.tiles = (wide + s.lanes - 1) / s.lanes;
        least = TP__THREADS / s.lanes * 16;
        most = TP__THREADS / s.lanes * 256;
    }
    const int64_t want = s.tiles > 0 && s.tiles < 1024 ? 1024 / s.tiles : 1;
    s.per = (s.n + want - 1) / want;
    if (s.per < least) s.per = least;
    if (s.per > most) s.per = most;
    s.per = (s.per + 3) & ~(int64_t)3;
    s.pieces = (s.n + s.per - 1) / s.per;
    return s;
}
/* Scratch, all tp__real: two sums for each piece and channel, then four vectors of channels. */
static size_t tp__bn_room(const tp_call *k)
{
    const tp_operand *x = &k->in[k->n_out == 3 ? 1 : 0]; /* three: the gradient */
    const tp__bn_cut s = tp__bn_cut_of(k, x);
    return (size_t)((2 * s.pieces + 4) * s.C) * (x->dtype == TP_F64 ? sizeof(double) : sizeof(float));
}

__device__ __forceinline__ float tp__fused(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double tp__fused(double a, double b, double c) { return fma(a, b, c); }
/* y of batch_norm; its gradient asks for the same bits, to see what a ReLU let through. */
template <class R> __device__ __forceinline__ R tp__bn_value(R x, R mean, R scale, R beta)
{
    return tp__fused(x - mean, scale, beta);
}

template <class R> __device__ __forceinline__ R tp__finite(R x) { return x - x == 0 ? x : (R)0; }

/* Sums of x - shift and its square, where the shift is the first value a thread sees: no cancellation that matters, as the
 * squares around one of n values are at most about n times those around their mean. */
template <class R, int V> struct tp__bn_sums {
    R shift[V], sum[V], squares[V];
    __device__ __forceinline__ void begin(const R (&x)[V])
    {
        for (int e = 0; e < V; e++) {
            shift[e] = tp__finite(x[e]);
            sum[e] = squares[e] = 0;
        }
    }
    __device__ __forceinline__ void add(const R (&x)[V])
    {
        for (int e = 0; e < V; e++) {
            const R d = x[e] - shift[e];
            sum[e] += d;
            squares[e] = tp__fused(d, d, squares[e]);
        }
    }
    /* the mean, and the squares around it */
    __device__ __forceinline__ void end(R n, R (&mean)[V], R (&around)[V]) const
    {
        for (int e = 0; e < V; e++) {
            const R d = sum[e] / n;
            mean[e] = shift[e] + d;
            around[e] = squares[e] - sum[e] * d;
            if (around[e] < 0) around[e] = 0;
        }
    }
};

/* -- channels last */

/* Rows [from, to) of this block's piece, which its threads take by turns. */
struct tp__bn_block {
    int64_t from, to, c;
    int lane, slot, slots;
    bool live;
};
template <int V> __device__ __forceinline__ tp__bn_block tp__bn_block_of(const tp__bn_cut &s, int64_t block)
{
    tp__bn_block b;
    const int64_t piece = block / s.tiles;
    b.lane = (int)threadIdx.x & (s.lanes - 1);
    b.slot = (int)threadIdx.x / s.lanes;
    b.slots = TP__THREADS / s.lanes;
    b.from = piece * s.per;
    b.to = b.from + s.per < s.n ? b.from + s.per : s.n;
    b.c = ((block - piece * s.tiles) * s.lanes + b.lane) * V;
    b.live = b.c < s.C;
    return b;
}

template <class T, int V> TP_KERNEL tp__bn_part_rows(const tp__bn_cut s, const T *x, tp__real<T> *part)
{
    typedef tp__real<T> R;
    TP_SHARED(R, means, TP__THREADS * V);
    TP_SHARED(R, arounds, TP__THREADS * V);
    const tp__bn_block b = tp__bn_block_of<V>(s, blockIdx.x);
    const int64_t first = b.from + b.slot, stride = b.slots * s.C;
    R mean[V] = {}, around[V] = {};
    if (b.live && first < b.to) {
        const int rows = (int)((b.to - first + b.slots - 1) / b.slots);
        const T *p = x + first * s.C + b.c;
        tp__bn_sums<R, V> sums;
        R v[V];
        tp__load(p, v);
        sums.begin(v);
        sums.add(v);
#pragma unroll 4
        for (int r = 1; r < rows; r++) {
            R u[V];
            tp__load(p + r * stride, u);
            sums.add(u);
        }
        sums.end((R)rows, mean, around);
    }
    for (int e = 0; e < V; e++) {
        means[threadIdx.x * V + e] = mean[e];
        arounds[threadIdx.x * V + e] = around[e];
    }
    __syncthreads();
    const int wide = s.lanes * V, n = (int)(b.to - b.from);
    const int64_t c0 = (blockIdx.x % s.tiles) * wide, piece = blockIdx.x / s.tiles;
    for (int t = (int)threadIdx.x; t < wide && c0 + t < s.C; t += TP__THREADS) { /* one channel: over all slots */
        const R near = means[t]; /* differences from it are small, and keep their bits */
        R total = 0, squares = 0;
        for (int w = 1; w < b.slots && w < n; w++)
            total += (R)((n - w + b.slots - 1) / b.slots) * (means[w * wide + t] - near);
        const R all = near + total / (R)n;
        for (int w = 0; w < b.slots && w < n; w++) {
            const R d = means[w * wide + t] - all;
            squares += arounds[w * wide + t] + (R)((n - w + b.slots - 1) / b.slots) * d * d;
        }
        part[piece * s.C + c0 + t] = all;
        part[(s.pieces + piece) * s.C + c0 + t] = squares;
    }
}

/* Sums of dy, and of dy (x - mean); with beta, of those dy that the ReLU let through. */
template <class T> struct tp__bn_back { /* what batch_norm_grad reads */
    const T *dy, *x, *gamma, *mean, *inv, *beta;
};
template <class T, int V>
TP_KERNEL tp__bn_back_part_rows(const tp__bn_cut s, const tp__bn_back<T> in, tp__real<T> *part)
{
    typedef tp__real<T> R;
    TP_SHARED(R, firsts, TP__THREADS * V);
    TP_SHARED(R, seconds, TP__THREADS * V);
    const tp__bn_block b = tp__bn_block_of<V>(s, blockIdx.x);
    const int64_t first = b.from + b.slot, stride = b.slots * s.C;
    R sum[V] = {}, product[V] = {};
    if (b.live && first < b.to) {
        const int rows = (int)((b.to - first + b.slots - 1) / b.slots);
        const T *p = in.x + first * s.C + b.c, *q = in.dy + first * s.C + b.c;
        R mean[V], scale[V] = {}, beta[V] = {};
        tp__load(in.mean + b.c, mean);
        if (in.beta) {
            R inv[V];
            tp__load(in.gamma + b.c, scale);
            tp__load(in.inv + b.c, inv);
            tp__load(in.beta + b.c, beta);
            for (int e = 0; e < V; e++) scale[e] *= inv[e];
        }
#pragma unroll 4
        for (int r = 0; r < rows; r++) {
            R u[V], d[V];
            tp__load(p + r * stride, u);
            tp__load(q + r * stride, d);
            for (int e = 0; e < V; e++) {
                if (in.beta && !(tp__bn_value(u[e], mean[e], scale[e], beta[e]) > 0)) continue;
                sum[e] += d[e];
                product[e] = tp__fused(d[e], u[e] - mean[e], product[e]);
            }
        }
    }
    for (int e = 0; e < V; e++) {
        firsts[threadIdx.x * V + e] = sum[e];
        seconds[threadIdx.x * V + e] = product[e];
    }
    __syncthreads();
    const int wide = s.lanes * V;
    const int64_t c0 = (blockIdx.x % s.tiles) * wide, piece = blockIdx.x / s.tiles;
    for (int t = (int)threadIdx.x; t < wide && c0 + t < s.C; t += TP__THREADS) {
        R a = 0, m = 0;
        for (int w = 0; w < b.slots; w++) {
            a += firsts[w * wide + t];
            m += seconds[w * wide + t];
        }
        part[piece * s.C + c0 + t] = a;
        part[(s.pieces + piece) * s.C + c0 + t] = m;
    }
}

/* The passes that write go backwards through the pieces: what the sums read last is still in the cache. */
template <class T, int V>
TP_KERNEL tp__bn_apply_rows(const tp__bn_cut s, const T *x, T *y, const tp__real<T> *stat, bool relu)
{
    typedef tp__real<T> R;
    const tp__bn_block b = tp__bn_block_of<V>(s, s.tiles * s.pieces - 1 - blockIdx.x);
    const int64_t first = b.from + b.slot, stride = b.slots * s.C;
    if (!b.live || first >= b.to) return;
    const int rows = (int)((b.to - first + b.slots - 1) / b.slots);
    const T *p = x + first * s.C + b.c;
    T *q = y + first * s.C + b.c;
    R mean[V], scale[V], beta[V];
    for (int e = 0; e < V; e++)
        mean[e] = stat[b.c + e], scale[e] = stat[s.C + b.c + e], beta[e] = stat[2 * s.C + b.c + e];
    for (int r = 0; r < rows; r += 4) { /* four rows are under way before the first is written */
        R v[4][V];
#pragma unroll
        for (int u = 0; u < 4; u++)
            if (r + u < rows) tp__load(p + (r + u) * stride, v[u]);
#pragma unroll
        for (int u = 0; u < 4; u++) {
            if (r + u >= rows) break;
            for (int e = 0; e < V; e++) {
                v[u][e] = tp__bn_value(v[u][e], mean[e], scale[e], beta[e]);
                if (relu && 0 > v[u][e]) v[u][e] = 0;
            }
            tp__store(q + (r + u) * stride, v[u]);
        }
    }
}
/* stat: gamma inv, dbeta/N, inv dgamma/N */
template <class T, int V>
TP_KERNEL tp__bn_back_apply_rows(const tp__bn_cut s, const tp__bn_back<T> in, T *dx, const tp__real<T> *stat)
{
    typedef tp__real<T> R;
    const tp__bn_block b = tp__bn_block_of<V>(s, s.tiles * s.pieces - 1 - blockIdx.x);
    const int64_t first = b.from + b.slot, stride = b.slots * s.C;
    if (!b.live || first >= b.to) return;
    const int rows = (int)((b.to - first + b.slots - 1) / b.slots);
    const T *p = in.x + first * s.C + b.c, *q = in.dy + first * s.C + b.c;
    T *to = dx + first * s.C + b.c;
    R mean[V], scale[V], c1[V], c2[V], beta[V] = {};
    tp__load(in.mean + b.c, mean);
    if (in.beta) tp__load(in.beta + b.c, beta);
    for (int e = 0; e < V; e++) scale[e] = stat[b.c + e], c1[e] = stat[s.C + b.c + e], c2[e] = stat[2 * s.C + b.c + e];
    for (int r = 0; r < rows; r += 2) {
        R v[2][V], d[2][V];
#pragma unroll
        for (int u = 0; u < 2; u++) {
            if (r + u >= rows) break;
            tp__load(p + (r + u) * stride, v[u]);
            tp__load(q + (r + u) * stride, d[u]);
        }
#pragma unroll
        for (int u = 0; u < 2; u++) {
            if (r + u >= rows) break;
            for (int e = 0; e < V; e++) {
                if (in.beta && !(tp__bn_value(v[u][e], mean[e], scale[e], beta[e]) > 0)) d[u][e] = 0;
                d[u][e] = scale[e] * (d[u][e] - c1[e] - (v[u][e] - mean[e]) * c2[e]);
            }
            tp__store(to + (r + u) * stride, d[u]);
        }
    }
}

/* -- channels before the last axis: (outer, C, inner) */

/* Where element e of channel c lies. */
template <class I> __device__ __forceinline__ I tp__bn_at(const tp__bn_cut &s, I e, I c)
{
    const I o = e / (I)s.inner;
    return (o * ((I)s.C - 1) + c) * (I)s.inner + e; /* (o C + c) inner + e - o inner */
}
template <class T, int V, class I> TP_KERNEL tp__bn_part_planes(const tp__bn_cut s, const T *x, tp__real<T> *part)
{
    typedef tp__real<T> R;
    TP_SHARED(R, room, 8);
    const int64_t piece = blockIdx.x / s.C;
    const I c = (I)(blockIdx.x - piece * s.C), from = (I)(piece * s.per), step = (I)blockDim.x * V,
            to = (I)(s.n - piece * s.per < s.per ? s.n : (piece + 1) * s.per);
    R mean[V] = {}, around[V] = {}, n = 0;
    I e = from + (I)threadIdx.x * V;
    if (e < to) {
        tp__bn_sums<R, V> sums;
        R v[V];
        tp__load(x + tp__bn_at<I>(s, e, c), v);
        sums.begin(v);
        sums.add(v);
        n = 1;
#pragma unroll 4
        for (e += step; e < to; e += step) {
            R u[V];
            tp__load(x + tp__bn_at<I>(s, e, c), u);
            sums.add(u);
            n += 1;
        }
        sums.end(n, mean, around);
    }
    const R near = tp__finite(tp__get(x, (int64_t)tp__bn_at<I>(s, from, c)));
    R total = 0, squares = 0;
    for (int v = 0; v < V; v++) total += n * (mean[v] - near); /* differences are small, and keep their bits */
    const R all = near + tp__block_sum(total, room) / (R)(to - from);
    for (int v = 0; v < V; v++) squares += around[v] + n * (mean[v] - all) * (mean[v] - all);
    squares = tp__block_sum(squares, room);
    if (threadIdx.x) return;
    part[piece * s.C + c] = all;
    part[(s.pieces + piece) * s.C + c] = squares;
}
template <class T, int V, class I>
TP_KERNEL tp__bn_back_part_planes(const tp__bn_cut s, const tp__bn_back<T> in, tp__real<T> *part)
{
    typedef tp__real<T> R;
    TP_SHARED(R, room, 8);
    const int64_t piece = blockIdx.x / s.C;
    const I c = (I)(blockIdx.x - piece * s.C), from = (I)(piece * s.per), step = (I)blockDim.x * V,
            to = (I)(s.n - piece * s.per < s.per ? s.n : (piece + 1) * s.per);
    const R mean = tp__get(in.mean, c), scale = tp__get(in.gamma, c) * tp__get(in.inv, c),
            beta = in.beta ? tp__get(in.beta, c) : (R)0;
    R sum = 0, product = 0;
#pragma unroll 4
    for (I e = from + (I)threadIdx.x * V; e < to; e += step) {
        const I at = tp__bn_at<I>(s, e, c);
        R u[V], d[V];
        tp__load(in.x + at, u);
        tp__load(in.dy + at, d);
        for (int v = 0; v < V; v++) {
            if (in.beta && !(tp__bn_value(u[v], mean, scale, beta) > 0)) continue;
            sum += d[v];
            product = tp__fused(d[v], u[v] - mean, product);
        }
    }
    sum = tp__block_sum(sum, room);
    product = tp__block_sum(product, room);
    if (threadIdx.x) return;
    part[piece * s.C + c] = sum;
    part[(s.pieces + piece) * s.C + c] = product;
}
template <class T, int V, class I>
TP_KERNEL tp__bn_apply_planes(const tp__bn_cut s, const T *x, T *y, const tp__real<T> *stat, bool relu)
{
    typedef tp__real<T> R;
    TP__EACH_FOUR(I, V, at, s.n * s.C)
    {
        const I c = at / (I)s.inner % (I)s.C;
        const R mean = stat[c], scale = stat[(I)s.C + c], beta = stat[2 * (I)s.C + c];
        R v[V];
        tp__load(x + at, v);
        for (int e = 0; e < V; e++) {
            v[e] = tp__bn_value(v[e], mean, scale, beta);
            if (relu && 0 > v[e]) v[e] = 0;
        }
        tp__store(y + at, v);
    }
}
template <class T, int V, class I>
TP_KERNEL tp__bn_back_apply_planes(const tp__bn_cut s, const tp__bn_back<T> in, T *dx, const tp__real<T> *stat)
{
    typedef tp__real<T> R;
    TP__EACH_FOUR(I, V, at, s.n * s.C)
    {
        const I c = at / (I)s.inner % (I)s.C;
        const R mean = tp__get(in.mean, c), scale = stat[c], c1 = stat[(I)s.C + c], c2 = stat[2 * (I)s.C + c],
                beta = in.beta ? tp__get(in.beta, c) : (R)0;
        R u[V], d[V];
        tp__load(in.x + at, u);
        tp__load(in.dy + at, d);
        for (int e = 0; e < V; e++) {
            if (in.beta && !(tp__bn_value(u[e], mean, scale, beta) > 0)) d[e] = 0;
            d[e] = scale * (d[e] - c1 - (u[e] - mean) * c2);
        }
        tp__store(dx + at, d);
    }
}

/* -- for each channel: 8 channels and 32 pieces side by side */

__device__ __forceinline__ double tp__bn_add_slots(double x, double *room) /* over the 32; to all of them */
{
    __syncthreads();
    room[threadIdx.x] = x;
    __syncthreads();
    for (unsigned d = 128; d >= 8; d >>= 1) {
        if (threadIdx.x < d) room[threadIdx.x] += room[threadIdx.x + d];
        __syncthreads();
    }
    return room[threadIdx.x & 7];
}
/* stat: mean, gamma inv, beta */
template <class T>
TP_KERNEL tp__bn_combine(const tp__bn_cut s, const tp__real<T> *part, const T *gamma, const T *beta, T *out_mean,
                         T *out_var, T *out_inv, tp__real<T> *stat, float epsilon, bool unbiased)
{
    typedef tp__real<T> R;
    TP_SHARED(double, room, TP__THREADS);
    const int64_t c = (int64_t)blockIdx.x * 8 + (threadIdx.x & 7);
    const int64_t end = c < s.C ? s.pieces : 0;
    double sum = 0, squares = 0;
#pragma unroll 4
    for (int64_t p = threadIdx.x >> 3; p < end; p += 32)
        sum += (double)part[p * s.C + c] * (double)(s.n - p * s.per < s.per ? s.n - p * s.per : s.per);
    const double n = (double)s.n, mean = tp__bn_add_slots(sum, room) / n;
#pragma unroll 4
    for (int64_t p = threadIdx.x >> 3; p < end; p += 32) {
        const double d = (double)part[p * s.C + c] - mean;
        squares += (double)part[(s.pieces + p) * s.C + c] +
                   d * d * (double)(s.n - p * s.per < s.per ? s.n - p * s.per : s.per);
    }
    const double var = tp__bn_add_slots(squares, room) / n;
    if (threadIdx.x >= 8 || c >= s.C) return;
    const R inv = (R)(1.0 / sqrt(var + (double)epsilon));
    if (out_mean) tp__put(out_mean, c, (R)mean);
    if (out_var) tp__put(out_var, c, (R)(unbiased && s.n > 1 ? var * (n / (n - 1)) : var));
    if (out_inv) tp__put(out_inv, c, inv);
    stat[c] = (R)mean;
    stat[s.C + c] = inv * tp__get(gamma, c);
    stat[2 * s.C + c] = tp__get(beta, c);
}
template <class T>
TP_KERNEL tp__bn_back_combine(const tp__bn_cut s, const tp__real<T> *part, const tp__bn_back<T> in, T *dgamma, T *dbeta,
                              tp__real<T> *stat)
{
    typedef tp__real<T> R;
    TP_SHARED(double, room, TP__THREADS);
    const int64_t c = (int64_t)blockIdx.x * 8 + (threadIdx.x & 7);
    const int64_t end = c < s.C ? s.pieces : 0;
    double sum = 0, product = 0;
#pragma unroll 4
    for (int64_t p = threadIdx.x >> 3; p < end; p += 32) {
        sum += (double)part[p * s.C + c];
        product += (double)part[(s.pieces + p) * s.C + c];
    }
    sum = tp__bn_add_slots(sum, room);
    product = tp__bn_add_slots(product, room);
    if (threadIdx.x >= 8 || c >= s.C) return;
    const R inv = tp__get(in.inv, c);
    const double n = (double)s.n;
    product *= (double)inv;
    if (dgamma) tp__put(dgamma, c, (R)product);
    if (dbeta) tp__put(dbeta, c, (R)sum);
    stat[c] = tp__get(in.gamma, c) * inv;
    stat[s.C + c] = (R)(sum / n);
    stat[2 * s.C + c] = (R)(product / n * (double)inv);
}
template <class T>
TP_KERNEL tp__bn_given(const T *gamma, const T *beta, const T *mean, const T *var, tp__real<T> *stat, int64_t C,
                       float epsilon)
{
    typedef tp__real<T> R;
    TP_EACH(c, C)
    {
        stat[c] = tp__get(mean, c);
        stat[C + c] = tp__get(gamma, c) / (R)sqrt(tp__get(var, c) + (R)epsilon);
        stat[2 * C + c] = tp__get(beta, c);
    }
}

/* -- the three ops */

#define TP__RUN_ROWS(k_, kernel_, T_, s_, ...)                                                        \
    do {                                                                                              \
        const int64_t rows_n_ = (s_).tiles * (s_).pieces;                                             \
        if ((s_).four) TP_RUN_BLOCKS(k_, (kernel_<T_, 4>), rows_n_, TP__THREADS, 0, s_, __VA_ARGS__); \
        else TP_RUN_BLOCKS(k_, (kernel_<T_, 1>), rows_n_, TP__THREADS, 0, s_, __VA_ARGS__);           \
    } while (0)
#define TP__RUN_PLANES(k_, kernel_, T_, s_, ...)                                                                  \
    do {                                                                                                          \
        const int64_t planes_n_ = (s_).C * (s_).pieces;                                                           \
        if ((s_).n * (s_).C >= TP__INT_ELEMENTS)                                                                  \
            TP_RUN_BLOCKS(k_, (kernel_<T_, 1, int64_t>), planes_n_, TP__THREADS, 0, s_, __VA_ARGS__);             \
        else if ((s_).four) TP_RUN_BLOCKS(k_, (kernel_<T_, 4, int>), planes_n_, TP__THREADS, 0, s_, __VA_ARGS__); \
        else TP_RUN_BLOCKS(k_, (kernel_<T_, 1, int>), planes_n_, TP__THREADS, 0, s_, __VA_ARGS__);                \
    } while (0)

template <class T>
static void tp__bn_write(const tp_call *k, const tp__bn_cut *s, const T *x, T *y, const tp__real<T> *stat)
{
    const bool relu = ((const tp__bn_attrs *)k->attrs)->relu_;
    const int64_t n = s->n * s->C;
    if (!y) return;
    if (s->inner == 1) TP__RUN_ROWS(k, tp__bn_apply_rows, T, *s, x, y, stat, relu);
    else TP__RUN_FOURS(k, tp__bn_apply_planes, T, s->four, n, n, *s, x, y, stat, relu);
}
static void tp__batch_norm_cuda(const tp_call *k)
{
    const tp__bn_attrs *t = (const tp__bn_attrs *)k->attrs;
    const tp__bn_cut s = tp__bn_cut_of(k, &k->in[0]);
    TP_REALS(k->in[0].dtype, {
        tp__real<T> *part = (tp__real<T> *)k->scratch;
        tp__real<T> *stat = part + 2 * s.pieces * s.C;
        const T *x = (const T *)k->in[0].data;
        if (s.inner == 1) TP__RUN_ROWS(k, tp__bn_part_rows, T, s, x, part);
        else TP__RUN_PLANES(k, tp__bn_part_planes, T, s, x, part);
        TP_RUN_BLOCKS(k, (tp__bn_combine<T>), (s.C + 7) / 8, TP__THREADS, 0, s, (const tp__real<T> *)part,
                      (const T *)k->in[1].data, (const T *)k->in[2].data, (T *)k->out[1].data, (T *)k->out[2].data,
                      (T *)k->out[3].data, stat, t->epsilon, t->unbiased);
        tp__bn_write<T>(k, &s, x, (T *)k->out[0].data, stat);
    });
}
static void tp__batch_norm_grad_cuda(const tp_call *k) /* in: dy, x, gamma, mean, inv; beta where a ReLU follows */
{
    const bool relu = ((const tp__bn_attrs *)k->attrs)->relu_;
    const tp__bn_cut s = tp__bn_cut_of(k, &k->in[1]);
    const int64_t n = s.n * s.C;
    TP_REALS(k->in[1].dtype, {
        tp__real<T> *part = (tp__real<T> *)k->scratch;
        tp__real<T> *stat = part + 2 * s.pieces * s.C;
        const tp__bn_back<T> in = {(const T *)k->in[0].data, (const T *)k->in[1].data,
                                   (const T *)k->in[2].data, (const T *)k->in[3].data,
                                   (const T *)k->in[4].data, relu ? (const T *)k->in[5].data : NULL};
        T *dx = (T *)k->out[0].data;
        if (s.inner == 1) TP__RUN_ROWS(k, tp__bn_back_part_rows, T, s, in, part);
        else TP__RUN_PLANES(k, tp__bn_back_part_planes, T, s, in, part);
        TP_RUN_BLOCKS(k, (tp__bn_back_combine<T>), (s.C + 7) / 8, TP__THREADS, 0, s, (const tp__real<T> *)part, in,
                      (T *)k->out[1].data, (T *)k->out[2].data, stat);
        if (dx && s.inner == 1) TP__RUN_ROWS(k, tp__bn_back_apply_rows, T, s, in, dx, (const tp__real<T> *)stat);
        else if (dx) TP__RUN_FOURS(k, tp__bn_back_apply_planes, T, s.four, n, n, s, in, dx, (const tp__real<T> *)stat);
    });
}
static void tp__batch_norm_infer_cuda(const tp_call *k) /* in: x, gamma, beta, mean, var */
{
    const tp__bn_cut s = tp__bn_cut_of(k, &k->in[0]);
    TP_REALS(k->in[0].dtype, {
        tp__real<T> *stat = (tp__real<T> *)k->scratch;
        TP_RUN(k, (tp__bn_given<T>), s.C, (const T *)k->in[1].data, (const T *)k->in[2].data, (const T *)k->in[3].data,
               (const T *)k->in[4].data, stat, s.C, ((const tp__bn_attrs *)k->attrs)->epsilon);
        tp__bn_write<T>(k, &s, (const T *)k->in[0].data, (T *)k->out[0].data, stat);
    });
}

static const tp__cuda_kernel tp__cuda_normalisation[] = {{"batch_norm", tp__batch_norm_cuda, tp__bn_room},
                                                         {"batch_norm_grad", tp__batch_norm_grad_cuda, tp__bn_room},
                                                         {"batch_norm_infer", tp__batch_norm_infer_cuda, tp__bn_room},
                                                         {NULL, NULL, NULL}};

/* ==== >>rows ========================================================================================== */

static const tp__cuda_kernel tp__cuda_rows[] = {{NULL, NULL, NULL}};

/* ==== >>sequences ===================================================================================== */

static const tp__cuda_kernel tp__cuda_sequences[] = {{NULL, NULL, NULL}};

/* ==== >>images ======================================================================================== */

static const tp__cuda_kernel tp__cuda_images[] = {{NULL, NULL, NULL}};

/* ==== >>table ========================================================================================= */

static const tp__cuda_kernel *const tp__cuda_sections[] = {
    tp__cuda_elementwise, tp__cuda_matmul,    tp__cuda_reductions,  tp__cuda_moves,
    tp__cuda_random,      tp__cuda_variables, tp__cuda_convolution, tp__cuda_normalisation,
    tp__cuda_rows,        tp__cuda_sequences, tp__cuda_images};

static const tp__cuda_kernel *tp__cuda_find(const char *op)
{
    for (size_t s = 0; s < sizeof tp__cuda_sections / sizeof *tp__cuda_sections; s++)
        for (const tp__cuda_kernel *r = tp__cuda_sections[s]; r->op; r++)
            if (strcmp(r->op, op) == 0) return r;
    return NULL;
}
static tp_kernel_fn tp__cuda_find_kernel(tp_device *d, const char *op)
{
    (void)d;
    const tp__cuda_kernel *r = tp__cuda_find(op);
    if (r) return r->fn;
    return tp__map_code(op) >= 0 ? tp__map_cuda : NULL;
}
static size_t tp__cuda_scratch(tp_device *d, const tp_call *k)
{
    (void)d;
    const tp__cuda_kernel *r = tp__cuda_find(k->op->name);
    return r && r->scratch ? r->scratch(k) : 0;
}

static void tp__cuda_close(tp_device *d)
{
    tp__cuda *c = (tp__cuda *)d;
    if (!c) return;
    cudaSetDevice(c->ordinal);
    if (c->stream) cudaStreamSynchronize(c->stream);
    tp__conv_free_choices(c);
    if (c->dnn) cudnnDestroy(c->dnn);
    if (c->blas) cublasLtDestroy(c->blas);
    for (int i = 0; i < TP__STAGES; i++) {
        if (c->stage[i]) cudaFreeHost(c->stage[i]);
        if (c->stage_free[i]) cudaEventDestroy(c->stage_free[i]);
    }
    if (c->late_room) cudaFreeHost(c->late_room);
    if (c->mark) cudaEventDestroy(c->mark);
    if (c->workspace) cudaFree(c->workspace);
    if (c->stream) cudaStreamDestroy(c->stream);
    free(c);
}

extern "C" int tp_cuda_count(void)
{
    int n = 0;
    if (cudaGetDeviceCount(&n) == cudaSuccess) return n;
    cudaGetLastError();
    return 0;
}

extern "C" tp_device *tp_cuda_open_(int ordinal, unsigned abi, tp_fail_fn fail)
{
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (abi != TP_ABI) {
        fail(TP_ERR_ARG,
             "tp_cuda.cu was built with version %u of tp's structs, this program with %u: compile both again", TP_ABI,
             abi);
        return NULL;
    }
    if (e != cudaSuccess || n == 0) {
        cudaGetLastError();
        fail(TP_ERR_UNSUPPORTED, "no NVIDIA GPU can be used: %s",
             e == cudaSuccess ? "there is none" : cudaGetErrorString(e));
        return NULL;
    }
    if (ordinal < 0 || ordinal >= n) {
        fail(TP_ERR_ARG, "there is no GPU %d: this machine has %d, counted from 0", ordinal, n);
        return NULL;
    }
    tp__cuda *c = (tp__cuda *)calloc(1, sizeof *c);
    if (!c) {
        fail(TP_ERR_NOMEM, "out of memory for a device");
        return NULL;
    }
    tp_device *d = &c->device;
    d->abi = TP_ABI;
    snprintf(d->name, sizeof d->name, "cuda:%d", ordinal);
    d->alloc = tp__cuda_alloc;
    d->free = tp__cuda_free;
    d->upload = tp__cuda_upload;
    d->download = tp__cuda_download;
    d->copy = tp__cuda_copy;
    d->copy_from = tp__cuda_copy_from;
    d->find_kernel = tp__cuda_find_kernel;
    d->scratch = tp__cuda_scratch;
    d->wait = tp__cuda_wait;
    d->record_begin = tp__cuda_record_begin;
    d->record_end = tp__cuda_record_end;
    d->replay = tp__cuda_replay;
    d->record_free = tp__cuda_record_free;
    d->close = tp__cuda_close;
    d->impl = c;
    c->fail = fail;
    c->ordinal = ordinal;
    c->workspace_bytes = (size_t)32 << 20; /* what Hopper's kernels want at most */
    const char *what = "choosing the GPU";
    e = cudaSetDevice(ordinal);
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(&c->n_processor, cudaDevAttrMultiProcessorCount, ordinal);
    if (e == cudaSuccess) {
        what = "opening a stream";
        e = cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking);
    }
    if (e == cudaSuccess) {
        what = "allocating transfer buffers";
        for (int i = 0; i < TP__STAGES && e == cudaSuccess; i++) {
            e = cudaHostAlloc((void **)&c->stage[i], TP__STAGE_BYTES, cudaHostAllocDefault);
            if (e == cudaSuccess) e = cudaEventCreateWithFlags(&c->stage_free[i], cudaEventDisableTiming);
        }
        if (e == cudaSuccess) e = cudaHostAlloc((void **)&c->late_room, TP__STAGE_BYTES, cudaHostAllocDefault);
        if (e == cudaSuccess) e = cudaEventCreateWithFlags(&c->mark, cudaEventDisableTiming);
        if (e == cudaSuccess) e = cudaMalloc(&c->workspace, c->workspace_bytes);
    }
    if (e != cudaSuccess) {
        tp__cuda_status(c, e, what);
        tp__cuda_close(d);
        return NULL;
    }
    const cublasStatus_t b = cublasLtCreate(&c->blas);
    if (b != CUBLAS_STATUS_SUCCESS) {
        fail(TP_ERR_STATE, "%s: cuBLASLt could not be started: %s", d->name, cublasLtGetStatusString(b));
        tp__cuda_close(d);
        return NULL;
    }
    cudnnStatus_t s = cudnnCreate(&c->dnn);
    if (s == CUDNN_STATUS_SUCCESS) s = cudnnSetStream(c->dnn, c->stream);
    if (s != CUDNN_STATUS_SUCCESS) {
        fail(TP_ERR_STATE, "%s: cuDNN could not be started: %s", d->name, cudnnGetErrorString(s));
        tp__cuda_close(d);
        return NULL;
    }
    return d;
}
