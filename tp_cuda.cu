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

static const tp__cuda_kernel tp__cuda_convolution[] = {{NULL, NULL, NULL}};

/* ==== >>normalisation ================================================================================= */

static const tp__cuda_kernel tp__cuda_normalisation[] = {{NULL, NULL, NULL}};

/* ==== >>rows ========================================================================================== */

static const tp__cuda_kernel tp__cuda_rows[] = {{NULL, NULL, NULL}};

/* ==== >>sequences ===================================================================================== */

/* Pieces of the scratch; over NULL only their sum is found. */
typedef struct tp__seq_room {
    char *base;
    size_t used;
} tp__seq_room;
static tp__seq_room tp__seq_room_over(void *base)
{
    tp__seq_room r;
    r.base = (char *)base;
    r.used = 0;
    return r;
}
static void *tp__seq_take(tp__seq_room *r, int64_t n, size_t size)
{
    const size_t at = r->used;
    r->used += ((size_t)n * size + 255) & ~(size_t)255;
    return r->base ? r->base + at : NULL;
}
static void tp__seq_copy(const tp_call *k, void *to, const void *from, int64_t n, size_t size)
{
    if (!to || n <= 0) return;
    const cudaError_t e = cudaMemcpyAsync(to, from, (size_t)n * size, cudaMemcpyDeviceToDevice, tp__cuda_of(k)->stream);
    if (e != cudaSuccess) tp__broken(tp__cuda_of(k), k->op->name, cudaGetErrorString(e));
}
/* c (M,N) = op(a) op(b), of whole matrices one behind the other */
static void tp__seq_product(const tp_call *k, tp_dtype dtype, int64_t M, int64_t N, int64_t K, bool ta, bool tb,
                            bool add, const void *a, const void *b, void *c)
{
    tp__gemm_shape g;
    if (!c || M == 0 || N == 0 || (K == 0 && add)) return;
    if (K == 0) {
        const cudaError_t e = cudaMemsetAsync(c, 0, (size_t)(M * N) * tp__dtype_size(dtype), tp__cuda_of(k)->stream);
        if (e != cudaSuccess) tp__broken(tp__cuda_of(k), k->op->name, cudaGetErrorString(e));
        return;
    }
    memset(&g, 0, sizeof g);
    g.M = M;
    g.N = N;
    g.K = K;
    g.ta = ta;
    g.tb = tb;
    g.add = add;
    g.alpha = 1;
    g.batch = 1;
    g.dtype = dtype;
    g.precision = k->precision;
    tp__gemm(k, &g, a, b, c, NULL);
}

/* Division is slow in 64 bits. */
__device__ __forceinline__ int64_t tp__seq_divide(int64_t a, int64_t b)
{
    return (uint64_t)(a | b) >> 32 ? a / b : (int64_t)((uint32_t)a / (uint32_t)b);
}

/* -- ctc_loss: logarithms of the softmax's sums for all steps at once; then a block goes through the steps of a sequence, and
 * another one through them from the end; then the gradients of all steps at once, in which the first place of a class adds
 * up the others, whose chain the second block has made. Sums over ways are kept in double, as on the CPU. */
typedef struct tp__ctc_args {
    int64_t T, B, C, L, step, row; /* logits: elements from a step, a sequence, to the next */
    int blank, dtype[3];           /* dtypes of labels and lengths */
    bool zero_infinity;
    const void *x, *labels, *label_lengths, *lengths;
    void *y, *dx;
    double *norm, *a, *later, *total; /* (B,T), (B,T (2L+1)) twice, (B) */
    int32_t *chain;                   /* (B,L): 2 next + is it the first; next = the number of labels: none */
    tp__fault fault;
} tp__ctc_args;
__device__ __forceinline__ int64_t tp__ctc_int(const void *p, int dtype, int64_t i)
{
    return dtype == TP_I64 ? ((const int64_t *)p)[i] : ((const int32_t *)p)[i];
}
/* The class of place s, and whether a way may come to it from two places before. */
__device__ __forceinline__ int64_t tp__ctc_class(const tp__ctc_args &g, int64_t b, int64_t s)
{
    return s & 1 ? tp__ctc_int(g.labels, g.dtype[0], b * g.L + (s >> 1)) : g.blank;
}
__device__ __forceinline__ bool tp__ctc_skips(const tp__ctc_args &g, int64_t b, int64_t s)
{
    return (s & 1) && s > 1 && tp__ctc_class(g, b, s) != tp__ctc_class(g, b, s - 2);
}
template <class R>
__device__ __forceinline__ double tp__ctc_add(double a, double b, double c) /* log(e^a + e^b + e^c) */
{
    const double ab = a > b ? a : b, most = ab > c ? ab : c;
    if (most == -(double)INFINITY) return most;
    const R sum = exp((R)(a - most)) + exp((R)(b - most)) + exp((R)(c - most));
    return most + (double)log(sum);
}

template <class T> TP_KERNEL tp__ctc_norms(const tp__ctc_args g)
{
    typedef tp__real<T> R;
    const int64_t warps = (int64_t)gridDim.x * (TP__THREADS / 32);
    for (int64_t at = (int64_t)blockIdx.x * (TP__THREADS / 32) + (threadIdx.x >> 5); at < g.B * g.T; at += warps) {
        const int64_t b = tp__seq_divide(at, g.T), t = at - b * g.T;
        if (t >= tp__ctc_int(g.lengths, g.dtype[2], b)) continue;
        const T *x = (const T *)g.x + b * g.row + t * g.step;
        R most = -(R)INFINITY, z = 0;
        for (int64_t c = threadIdx.x & 31; c < g.C; c += 32) {
            const R v = tp__get(x, c);
            most = v > most ? v : most;
        }
        for (int d = 16; d > 0; d >>= 1) {
            const R other = __shfl_xor_sync(0xffffffffu, most, d);
            most = other > most ? other : most;
        }
        for (int64_t c = threadIdx.x & 31; c < g.C; c += 32) z += exp(tp__get(x, c) - most);
        for (int d = 16; d > 0; d >>= 1) z += __shfl_xor_sync(0xffffffffu, z, d);
        if ((threadIdx.x & 31) == 0) g.norm[at] = (double)most + (double)log(z);
    }
}

/* Block b walks forward through sequence b, block B + b backward. A place a thread where there are enough threads: then the
 * last step is in shared memory, and the next logit on its way. */
template <class T> TP_KERNEL tp__ctc_walk(const tp__ctc_args g)
{
    typedef tp__real<T> R;
    TP_SHARED(double, last_step, 2 * TP__THREADS);
    TP_SHARED(int, wrong, 1);
    const bool back = blockIdx.x >= g.B;
    const int64_t b = back ? blockIdx.x - g.B : blockIdx.x, n = tp__ctc_int(g.label_lengths, g.dtype[1], b);
    const int64_t steps = tp__ctc_int(g.lengths, g.dtype[2], b), S = 2 * n + 1, tid = threadIdx.x;
    const T *x = (const T *)g.x + b * g.row;
    const double none = -(double)INFINITY, *norm = g.norm + b * g.T;
    double *way = (back ? g.later : g.a) + b * g.T * (2 * g.L + 1);
    if (tid == 0) wrong[0] = n < 0 || n > g.L || steps < 0 || steps > g.T;
    __syncthreads();
    const bool bad_length = wrong[0] != 0;
    __syncthreads();
    for (int64_t i = tid; i < n && !bad_length; i += blockDim.x) {
        const int64_t c = tp__ctc_class(g, b, 2 * i + 1);
        if (c < 0 || c >= g.C || c == g.blank) wrong[0] = 1;
    }
    __syncthreads();
    if (wrong[0]) { /* the run fails */
        if (tid > 0 || back) return;
        int64_t bad = n < 0 || n > g.L ? n : steps;
        for (int64_t i = 0; i < n && !bad_length; i++) {
            bad = tp__ctc_class(g, b, 2 * i + 1);
            if (bad < 0 || bad >= g.C || bad == g.blank) break;
        }
        tp__report(g.fault, bad);
        g.total[b] = none;
        if (g.y) tp__put((T *)g.y, b, 0);
        return;
    }
    if (back) /* the chains of equal labels */
        for (int64_t i = tid; i < n; i += blockDim.x) {
            const int64_t c = tp__ctc_class(g, b, 2 * i + 1);
            int64_t next = i + 1, before = i - 1;
            while (next < n && tp__ctc_class(g, b, 2 * next + 1) != c) next++;
            while (before >= 0 && tp__ctc_class(g, b, 2 * before + 1) != c) before--;
            g.chain[b * g.L + i] = (int32_t)(2 * next + (before < 0));
        }
    if (S <= (int64_t)blockDim.x) {
        const bool here = tid < S;
        const int64_t c = here ? tp__ctc_class(g, b, tid) : 0;
        const bool skips = here && (back ? tid + 2 < S && tp__ctc_skips(g, b, tid + 2) : tp__ctc_skips(g, b, tid));
        const int64_t beside = back ? tid + 1 : tid - 1, two = back ? tid + 2 : tid - 2;
        R next = here && steps > 0 ? tp__get(x, (back ? steps - 1 : 0) * g.step + c) : 0;
        double mine = none;
        for (int64_t i = 0; i < steps; i++) {
            const int64_t t = back ? steps - 1 - i : i;
            const double p = (double)next, *before = last_step + (i & 1 ? 0 : TP__THREADS);
            if (here && i + 1 < steps) next = tp__get(x, (back ? t - 1 : t + 1) * g.step + c);
            if (here) {
                double v = (back ? tid >= S - 2 : tid < 2) ? 0 : none;
                if (i > 0)
                    v = tp__ctc_add<R>(mine, beside >= 0 && beside < S ? before[beside] : none,
                                       skips ? before[two] : none);
                mine = v + p - norm[t];
                last_step[(i & 1 ? TP__THREADS : 0) + tid] = mine;
                way[t * S + tid] = back ? v : mine;
            }
            __syncthreads();
        }
    } else {
        for (int64_t i = 0; i < steps; i++) {
            const int64_t t = back ? steps - 1 - i : i, u = back ? t + 1 : t - 1; /* u: the step before on its way */
            for (int64_t s = tid; s < S; s += blockDim.x) {
                double v = (back ? s >= S - 2 : s < 2) ? 0 : none;
                if (i > 0) {
                    double from[3];
                    for (int o = 0; o < 3; o++) {
                        const int64_t at = back ? s + o : s - o;
                        const bool can = at >= 0 && at < S && (o < 2 || tp__ctc_skips(g, b, back ? at : s));
                        from[o] = can ? way[u * S + at] : none;
                        if (can && back)
                            from[o] = from[o] + (double)tp__get(x, u * g.step + tp__ctc_class(g, b, at)) - norm[u];
                    }
                    v = tp__ctc_add<R>(from[0], from[1], from[2]);
                }
                way[t * S + s] = back ? v : v + (double)tp__get(x, t * g.step + tp__ctc_class(g, b, s)) - norm[t];
            }
            __syncthreads();
        }
    }
    if (back || tid > 0) return;
    double y = none;
    if (steps > 0) y = tp__ctc_add<R>(way[steps * S - 1], n > 0 ? way[steps * S - 2] : none, none);
    else if (n == 0) y = 0;
    g.total[b] = y;
    if (g.y) tp__put((T *)g.y, b, (R)(g.zero_infinity && y == none ? 0 : 0 - y));
}

/* A block for each step of each sequence. */
template <class T> TP_KERNEL tp__ctc_gradient(const tp__ctc_args g)
{
    typedef tp__real<T> R;
    TP_SHARED(R, room, 8);
    const int64_t b = tp__seq_divide(blockIdx.x, g.T), t = blockIdx.x - b * g.T,
                  n = tp__ctc_int(g.label_lengths, g.dtype[1], b);
    const int64_t S = 2 * n + 1, at = b * g.T * (2 * g.L + 1) + t * S;
    const T *x = (const T *)g.x + b * g.row + t * g.step;
    T *dx = (T *)g.dx + b * g.row + t * g.step;
    const double none = -(double)INFINITY, y = g.total[b], norm = g.norm[blockIdx.x];
    if (y == none || t >= tp__ctc_int(g.lengths, g.dtype[2], b)) {
        for (int64_t c = threadIdx.x; c < g.C; c += blockDim.x) tp__put(dx, c, 0);
        return;
    }
    R blank = 0;
    for (int64_t s = 2 * threadIdx.x; s < S; s += 2 * blockDim.x) {
        const double v = g.later[at + s] + g.a[at + s];
        if (v > none) blank += exp((R)(v - y));
    }
    blank = tp__block_sum(blank, room);
    for (int64_t c = threadIdx.x; c < g.C; c += blockDim.x) {
        const R p = exp((R)((double)tp__get(x, c) - norm));
        tp__put(dx, c, c == g.blank ? p - blank : p);
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        if (!(g.chain[b * g.L + i] & 1)) continue;
        const int64_t c = tp__ctc_class(g, b, 2 * i + 1);
        R sum = 0;
        for (int64_t j = i; j < n; j = g.chain[b * g.L + j] >> 1) {
            const double v = g.later[at + 2 * j + 1] + g.a[at + 2 * j + 1];
            if (v > none) sum += exp((R)(v - y));
        }
        tp__put(dx, c, exp((R)((double)tp__get(x, c) - norm)) - sum);
    }
}

static tp__ctc_args tp__ctc_args_of(const tp_call *k, size_t *bytes)
{
    const tp_ctc_attrs *t = (const tp_ctc_attrs *)k->attrs;
    const int64_t *x = k->in[0].shape.dim;
    tp__seq_room room = tp__seq_room_over(k->scratch);
    tp__ctc_args g;
    memset(&g, 0, sizeof g);
    g.T = x[t->batch_major ? 1 : 0], g.B = x[t->batch_major ? 0 : 1], g.C = x[2];
    g.L = k->in[1].shape.dim[1];
    g.step = t->batch_major ? g.C : g.B * g.C;
    g.row = t->batch_major ? g.T * g.C : g.C;
    g.blank = t->blank < 0 ? (int)g.C - 1 : t->blank;
    g.zero_infinity = t->zero_infinity;
    for (int i = 0; i < 3; i++) g.dtype[i] = k->in[1 + i].dtype;
    g.x = k->in[0].data, g.labels = k->in[1].data, g.label_lengths = k->in[2].data, g.lengths = k->in[3].data;
    g.y = k->out[0].data, g.dx = k->out[1].data;
    g.norm = (double *)tp__seq_take(&room, g.B * g.T, sizeof(double));
    g.a = (double *)tp__seq_take(&room, g.B * g.T * (2 * g.L + 1), sizeof(double));
    g.later = (double *)tp__seq_take(&room, g.B * g.T * (2 * g.L + 1), sizeof(double));
    g.total = (double *)tp__seq_take(&room, g.B, sizeof(double));
    g.chain = (int32_t *)tp__seq_take(&room, g.B * g.L, sizeof(int32_t));
    g.fault = tp__fault_of(k);
    *bytes = room.used;
    return g;
}
template <class T> static void tp__ctc_run(const tp_call *k)
{
    size_t bytes;
    const tp__ctc_args g = tp__ctc_args_of(k, &bytes);
    const int64_t S = 2 * g.L + 1, threads = S < TP__THREADS ? (S + 31) / 32 * 32 : TP__THREADS;
    if (g.L >> 30 || (g.B * g.T) >> 31) {
        tp__broken(tp__cuda_of(k), k->op->name, "the sequences are more or longer than a grid has blocks");
        return;
    }
    TP_RUN(k, (tp__ctc_norms<T>), g.B * g.T * 32, g);
    TP_RUN_BLOCKS(k, (tp__ctc_walk<T>), g.dx ? 2 * g.B : g.B, (unsigned)threads, 0, g);
    if (g.dx) TP_RUN_BLOCKS(k, (tp__ctc_gradient<T>), g.B * g.T, 128, 0, g);
}
static void tp__ctc_cuda(const tp_call *k) { TP_REALS(k->in[0].dtype, tp__ctc_run<T>(k);); }
static size_t tp__ctc_bytes(const tp_call *k)
{
    size_t bytes;
    tp__ctc_args_of(k, &bytes);
    return bytes;
}

template <class R> __device__ __forceinline__ R tp__logistic(R x)
{
    const R e = exp(-fabs(x));
    return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

/* Sums of columns: chunks of rows, as many as follow from their number, then the chunks in order. Eight lanes of rows a
 * block, and 32 columns. */
template <class T>
TP_KERNEL tp__seq_columns(const T *x, tp__real<T> *part, int64_t rows, int64_t N, int64_t chunk, int64_t column_blocks)
{
    typedef tp__real<T> R;
    TP_SHARED(R, lane_sum, 256);
    const int64_t c = blockIdx.x / column_blocks, from = c * chunk, to = from + chunk < rows ? from + chunk : rows;
    const int64_t column = (blockIdx.x % column_blocks) * 32 + (threadIdx.x & 31);
    R sum = 0;
    if (column < N)
        for (int64_t r = from + (threadIdx.x >> 5); r < to; r += 8) sum += tp__get(x, r * N + column);
    lane_sum[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x >= 32 || column >= N) return;
    for (int l = 1; l < 8; l++) sum += lane_sum[l * 32 + threadIdx.x];
    part[c * N + column] = sum;
}
template <class T> TP_KERNEL tp__seq_columns_end(const tp__real<T> *part, T *y, int64_t N, int64_t chunks)
{
    TP_EACH(i, N)
    {
        tp__real<T> sum = 0;
        for (int64_t c = 0; c < chunks; c++) sum += part[c * N + i];
        tp__put(y, i, sum);
    }
}
#define TP__SEQ_CHUNKS 64
/* part: TP__SEQ_CHUNKS N numbers */
template <class T>
static void tp__seq_column_sums(const tp_call *k, const void *x, void *part, void *y, int64_t rows, int64_t N)
{
    const int64_t most = (rows + 63) / 64, chunks = most < TP__SEQ_CHUNKS ? most : TP__SEQ_CHUNKS;
    const int64_t chunk = chunks ? (rows + chunks - 1) / chunks : 0, column_blocks = (N + 31) / 32;
    if (!y) return;
    TP_RUN_BLOCKS(k, (tp__seq_columns<T>), chunks * column_blocks, 256, 0, (const T *)x, (tp__real<T> *)part, rows, N,
                  chunk, column_blocks);
    TP_RUN(k, (tp__seq_columns_end<T>), N, (const tp__real<T> *)part, (T *)y, N, chunks);
}

/* -- lstm, lstm_grad: the products with x are one for all steps; then a product with h and a kernel for the cells at each
 * step. Products are of whole matrices, so that what a step needs of its samples lies together: the cells' kernel gathers
 * and scatters the rows of batch-major sequences. In half precision the products' operands and results are half, what is
 * carried from step to step (c; in gru h) stays float. */
typedef struct tp__rnn_shape {
    int64_t T, B, I, H, st, sb; /* row of (t, b): t st + b sb */
} tp__rnn_shape;
static tp__rnn_shape tp__rnn_shape_of(const tp_shape *x, const tp_shape *h0, bool batch_major)
{
    tp__rnn_shape r;
    r.T = x->dim[batch_major ? 1 : 0];
    r.B = x->dim[batch_major ? 0 : 1];
    r.I = x->dim[2];
    r.H = h0->dim[1];
    r.st = batch_major ? 1 : r.B;
    r.sb = batch_major ? r.T : 1;
    return r;
}

/* One step. xw (rows,4H) = x Wx and gates may be one memory; hw (B,4H) = h Wh; h (B,H): for the next product. */
template <class T> struct tp__lstm_step {
    int64_t B, H, row, sb;
    float forget_bias;
    const T *xw, *hw, *bias, *c0; /* c0: at the first step */
    tp__real<T> *c;
    T *h, *gates, *cells, *y, *last_h, *last_c;
};
template <class T> TP_KERNEL tp__lstm_cell(const tp__lstm_step<T> a)
{
    typedef tp__real<T> R;
    const int64_t H = a.H, G = 4 * H;
    TP_EACH(e, a.B * H)
    {
        const int64_t b = tp__seq_divide(e, H), u = e - b * H, row = a.row + b * a.sb;
        R g[4];
        for (int q = 0; q < 4; q++)
            g[q] = tp__get(a.xw, row * G + q * H + u) + tp__get(a.hw, b * G + q * H + u) + tp__get(a.bias, q * H + u);
        const R before = a.c0 ? tp__get(a.c0, e) : a.c[e];
        g[0] = tp__logistic(g[0]);
        g[1] = tanh(g[1]);
        g[2] = tp__logistic(g[2] + (R)a.forget_bias);
        g[3] = tp__logistic(g[3]);
        const R c = g[2] * before + g[0] * g[1], h = g[3] * tanh(c);
        a.c[e] = c;
        tp__put(a.h, e, h);
        if (a.y) tp__put(a.y, row * H + u, h);
        if (a.cells) tp__put(a.cells, row * H + u, c);
        for (int q = 0; q < 4 && a.gates; q++) tp__put(a.gates, row * G + q * H + u, g[q]);
        if (a.last_h) tp__put(a.last_h, e, h);
        if (a.last_c) tp__put(a.last_c, e, c);
    }
}
typedef struct tp__lstm_room {
    void *xw, *hw, *h, *c;
    size_t bytes;
} tp__lstm_room;
static tp__lstm_room tp__lstm_room_of(const tp_call *k)
{
    const tp__rnn_shape r =
        tp__rnn_shape_of(&k->in[0].shape, &k->in[3].shape, ((const tp__lstm_attrs *)k->attrs)->batch_major);
    const size_t size = tp__dtype_size(k->in[0].dtype), real = size < 4 ? 4 : size;
    tp__seq_room room = tp__seq_room_over(k->scratch);
    tp__lstm_room m;
    m.xw = k->out[3].data; /* the gates, before their functions */
    if (!m.xw) m.xw = tp__seq_take(&room, r.T * r.B * 4 * r.H, size);
    m.hw = tp__seq_take(&room, r.B * 4 * r.H, size);
    m.h = tp__seq_take(&room, r.B * r.H, size);
    m.c = tp__seq_take(&room, r.B * r.H, real);
    m.bytes = room.used;
    return m;
}
static size_t tp__lstm_bytes(const tp_call *k) { return tp__lstm_room_of(k).bytes; }

template <class T> static void tp__lstm_run(const tp_call *k) /* in: x, W, b, h0, c0 */
{
    const tp__lstm_attrs *t = (const tp__lstm_attrs *)k->attrs;
    const tp__rnn_shape r = tp__rnn_shape_of(&k->in[0].shape, &k->in[3].shape, t->batch_major);
    const tp_dtype dtype = k->in[0].dtype;
    const int64_t G = 4 * r.H;
    const tp__lstm_room m = tp__lstm_room_of(k);
    const T *w = (const T *)k->in[1].data;
    tp__seq_product(k, dtype, r.T * r.B, G, r.I, false, false, false, k->in[0].data, w, m.xw);
    for (int64_t step = 0; step < r.T; step++) {
        tp__lstm_step<T> a;
        tp__seq_product(k, dtype, r.B, G, r.H, false, false, false, step ? m.h : k->in[3].data, w + r.I * G, m.hw);
        a.B = r.B, a.H = r.H, a.row = step * r.st, a.sb = r.sb;
        a.forget_bias = t->forget_bias;
        a.xw = (const T *)m.xw, a.hw = (const T *)m.hw, a.bias = (const T *)k->in[2].data;
        a.c0 = step ? NULL : (const T *)k->in[4].data;
        a.c = (tp__real<T> *)m.c, a.h = (T *)m.h;
        a.y = (T *)k->out[0].data, a.gates = (T *)k->out[3].data, a.cells = (T *)k->out[4].data;
        a.last_h = step + 1 < r.T ? NULL : (T *)k->out[1].data;
        a.last_c = step + 1 < r.T ? NULL : (T *)k->out[2].data;
        TP_RUN(k, (tp__lstm_cell<T>), r.B * r.H, a);
    }
    for (int i = 0; i < 2 && r.T == 0; i++)
        tp__seq_copy(k, k->out[1 + i].data, k->in[3 + i].data, r.B * r.H, sizeof(T));
}
static void tp__lstm_cuda(const tp_call *k) { TP_REALS(k->in[0].dtype, tp__lstm_run<T>(k);); }

/* One step back. dhw (B,H): what comes from the step after it, or in[1]; dgates (rows,4H), the same together in `step`;
 * before (rows,H): the state before each step. */
template <class T> struct tp__lstm_back_step {
    int64_t B, H, row, st, sb;
    bool first; /* of the sequence: the states before it are h0 and c0 */
    const T *dy, *gates, *cells, *y, *h0, *c0, *dhw, *dc_last;
    tp__real<T> *dc;
    T *dgates, *step, *before, *dc0;
};
template <class T> TP_KERNEL tp__lstm_back_cell(const tp__lstm_back_step<T> a)
{
    typedef tp__real<T> R;
    const int64_t H = a.H, G = 4 * H;
    TP_EACH(e, a.B * H)
    {
        const int64_t b = tp__seq_divide(e, H), u = e - b * H, row = a.row + b * a.sb, last = row - a.st;
        const R i = tp__get(a.gates, row * G + u), j = tp__get(a.gates, row * G + H + u);
        const R f = tp__get(a.gates, row * G + 2 * H + u), o = tp__get(a.gates, row * G + 3 * H + u);
        const R tc = tanh(tp__get(a.cells, row * H + u));
        const R c0 = a.first ? tp__get(a.c0, e) : tp__get(a.cells, last * H + u);
        const R h0 = a.first ? tp__get(a.h0, e) : tp__get(a.y, last * H + u);
        const R d = tp__get(a.dy, row * H + u) + tp__get(a.dhw, e);
        const R dc = (a.dc_last ? tp__get(a.dc_last, e) : a.dc[e]) + d * o * (1 - tc * tc);
        R g[4];
        g[0] = dc * j * i * (1 - i);
        g[1] = dc * i * (1 - j * j);
        g[2] = dc * c0 * f * (1 - f);
        g[3] = d * tc * o * (1 - o);
        a.dc[e] = dc * f;
        if (a.dc0) tp__put(a.dc0, e, dc * f);
        tp__put(a.before, row * H + u, h0);
        for (int q = 0; q < 4; q++) {
            tp__put(a.dgates, row * G + q * H + u, g[q]);
            if (a.step) tp__put(a.step, b * G + q * H + u, g[q]);
        }
    }
}
typedef struct tp__lstm_back_room {
    void *dgates, *step, *before, *dhw, *dc, *part;
    size_t bytes;
} tp__lstm_back_room;
static tp__lstm_back_room tp__lstm_back_room_of(const tp_call *k)
{
    const bool batch_major = ((const tp__lstm_attrs *)k->attrs)->batch_major;
    const tp__rnn_shape r = tp__rnn_shape_of(&k->in[3].shape, &k->in[5].shape, batch_major);
    const size_t size = tp__dtype_size(k->in[3].dtype), real = size < 4 ? 4 : size;
    tp__seq_room room = tp__seq_room_over(k->scratch);
    tp__lstm_back_room m;
    m.dgates = tp__seq_take(&room, r.T * r.B * 4 * r.H, size);
    m.step = batch_major ? tp__seq_take(&room, r.B * 4 * r.H, size) : NULL;
    m.before = tp__seq_take(&room, r.T * r.B * r.H, size);
    m.dhw = tp__seq_take(&room, r.B * r.H, size);
    m.dc = tp__seq_take(&room, r.B * r.H, real);
    m.part = tp__seq_take(&room, TP__SEQ_CHUNKS * 4 * r.H, real);
    m.bytes = room.used;
    return m;
}
static size_t tp__lstm_back_bytes(const tp_call *k) { return tp__lstm_back_room_of(k).bytes; }

template <class T>
static void tp__lstm_back_run(const tp_call *k) /* in: dy, dh_T, dc_T, x, W, h0, c0, y, gates, cells */
{
    const tp__rnn_shape r =
        tp__rnn_shape_of(&k->in[3].shape, &k->in[5].shape, ((const tp__lstm_attrs *)k->attrs)->batch_major);
    const tp_dtype dtype = k->in[3].dtype;
    const int64_t H = r.H, G = 4 * H, rows = r.T * r.B;
    const tp__lstm_back_room m = tp__lstm_back_room_of(k);
    const T *w = (const T *)k->in[4].data;
    for (int64_t step = r.T - 1; step >= 0; step--) {
        tp__lstm_back_step<T> a;
        a.B = r.B, a.H = H, a.row = step * r.st, a.st = r.st, a.sb = r.sb;
        a.first = step == 0;
        a.dy = (const T *)k->in[0].data, a.gates = (const T *)k->in[8].data, a.cells = (const T *)k->in[9].data;
        a.y = (const T *)k->in[7].data, a.h0 = (const T *)k->in[5].data, a.c0 = (const T *)k->in[6].data;
        a.dhw = (const T *)(step + 1 < r.T ? m.dhw : k->in[1].data);
        a.dc_last = step + 1 < r.T ? NULL : (const T *)k->in[2].data;
        a.dc = (tp__real<T> *)m.dc, a.dgates = (T *)m.dgates, a.step = (T *)m.step, a.before = (T *)m.before;
        a.dc0 = step ? NULL : (T *)k->out[4].data;
        TP_RUN(k, (tp__lstm_back_cell<T>), r.B * H, a);
        const T *together = m.step ? (const T *)m.step : (const T *)m.dgates + step * r.B * G;
        tp__seq_product(k, dtype, r.B, H, G, false, true, false, together, w + r.I * G, step ? m.dhw : k->out[3].data);
    }
    for (int i = 0; i < 2 && r.T == 0; i++) tp__seq_copy(k, k->out[3 + i].data, k->in[1 + i].data, r.B * H, sizeof(T));
    T *dw = (T *)k->out[1].data;
    tp__seq_product(k, dtype, rows, r.I, G, false, true, false, m.dgates, w, k->out[0].data);
    tp__seq_product(k, dtype, r.I, G, rows, true, false, false, k->in[3].data, m.dgates, dw);
    tp__seq_product(k, dtype, H, G, rows, true, false, false, m.before, m.dgates, dw ? dw + r.I * G : NULL);
    tp__seq_column_sums<T>(k, m.dgates, m.part, k->out[2].data, rows, G);
}
static void tp__lstm_back_cuda(const tp_call *k) { TP_REALS(k->in[3].dtype, tp__lstm_back_run<T>(k);); }

/* -- gru, gru_grad: as lstm, with two products a step: h Wgh for the gates, then (r h) Wch for the candidate. */
template <class T> struct tp__gru_step {
    int64_t B, H, row, sb;
    const T *xg, *xc, *hg, *hc, *bg, *bc, *h0; /* h0: at the first step */
    tp__real<T> *h, *u;                        /* (B,H): the state, the update gate */
    T *next, *rh, *gates, *y, *last;           /* next, rh (B,H): for the products; next may be h */
};
template <class T> TP_KERNEL tp__gru_gates(const tp__gru_step<T> a)
{
    typedef tp__real<T> R;
    const int64_t H = a.H;
    TP_EACH(e, a.B * H)
    {
        const int64_t b = tp__seq_divide(e, H), i = e - b * H, row = a.row + b * a.sb;
        R g[2];
        for (int q = 0; q < 2; q++)
            g[q] = tp__logistic(tp__get(a.xg, row * 2 * H + q * H + i) + tp__get(a.hg, b * 2 * H + q * H + i) +
                                tp__get(a.bg, q * H + i));
        tp__put(a.rh, e, g[0] * (a.h0 ? tp__get(a.h0, e) : a.h[e]));
        a.u[e] = g[1];
        for (int q = 0; q < 2 && a.gates; q++) tp__put(a.gates, row * 3 * H + q * H + i, g[q]);
    }
}
template <class T> TP_KERNEL tp__gru_cell(const tp__gru_step<T> a)
{
    typedef tp__real<T> R;
    const int64_t H = a.H;
    TP_EACH(e, a.B * H)
    {
        const int64_t b = tp__seq_divide(e, H), i = e - b * H, row = a.row + b * a.sb;
        const R c = tanh(tp__get(a.xc, row * H + i) + tp__get(a.hc, e) + tp__get(a.bc, i)), u = a.u[e];
        const R h = u * (a.h0 ? tp__get(a.h0, e) : a.h[e]) + (1 - u) * c;
        a.h[e] = h;
        tp__put(a.next, e, h);
        if (a.y) tp__put(a.y, row * H + i, h);
        if (a.gates) tp__put(a.gates, row * 3 * H + 2 * H + i, c);
        if (a.last) tp__put(a.last, e, h);
    }
}
typedef struct tp__gru_room {
    void *xg, *xc, *hg, *hc, *rh, *next, *h, *u;
    size_t bytes;
} tp__gru_room;
static tp__gru_room tp__gru_room_of(const tp_call *k)
{
    const tp__rnn_shape r =
        tp__rnn_shape_of(&k->in[0].shape, &k->in[5].shape, ((const tp__gru_attrs *)k->attrs)->batch_major);
    const size_t size = tp__dtype_size(k->in[0].dtype), real = size < 4 ? 4 : size;
    const int64_t state = r.B * r.H;
    tp__seq_room room = tp__seq_room_over(k->scratch);
    tp__gru_room m;
    m.xg = tp__seq_take(&room, r.T * 2 * state, size);
    m.xc = tp__seq_take(&room, r.T * state, size);
    m.hg = tp__seq_take(&room, 2 * state, size);
    m.hc = tp__seq_take(&room, state, size);
    m.rh = tp__seq_take(&room, state, size);
    m.h = tp__seq_take(&room, state, real);
    m.u = tp__seq_take(&room, state, real);
    m.next = size < 4 ? tp__seq_take(&room, state, size) : m.h;
    m.bytes = room.used;
    return m;
}
static size_t tp__gru_bytes(const tp_call *k) { return tp__gru_room_of(k).bytes; }

template <class T> static void tp__gru_run(const tp_call *k) /* in: x, Wg, bg, Wc, bc, h0 */
{
    const tp__rnn_shape r =
        tp__rnn_shape_of(&k->in[0].shape, &k->in[5].shape, ((const tp__gru_attrs *)k->attrs)->batch_major);
    const tp_dtype dtype = k->in[0].dtype;
    const int64_t H = r.H, rows = r.T * r.B;
    const tp__gru_room m = tp__gru_room_of(k);
    const T *wg = (const T *)k->in[1].data, *wc = (const T *)k->in[3].data;
    tp__seq_product(k, dtype, rows, 2 * H, r.I, false, false, false, k->in[0].data, wg, m.xg);
    tp__seq_product(k, dtype, rows, H, r.I, false, false, false, k->in[0].data, wc, m.xc);
    for (int64_t step = 0; step < r.T; step++) {
        tp__gru_step<T> a;
        a.B = r.B, a.H = H, a.row = step * r.st, a.sb = r.sb;
        a.xg = (const T *)m.xg, a.xc = (const T *)m.xc, a.hg = (const T *)m.hg, a.hc = (const T *)m.hc;
        a.bg = (const T *)k->in[2].data, a.bc = (const T *)k->in[4].data;
        a.h0 = step ? NULL : (const T *)k->in[5].data;
        a.h = (tp__real<T> *)m.h, a.u = (tp__real<T> *)m.u, a.next = (T *)m.next, a.rh = (T *)m.rh;
        a.y = (T *)k->out[0].data, a.gates = (T *)k->out[2].data;
        a.last = step + 1 < r.T ? NULL : (T *)k->out[1].data;
        tp__seq_product(k, dtype, r.B, 2 * H, H, false, false, false, step ? m.next : k->in[5].data, wg + r.I * 2 * H,
                        m.hg);
        TP_RUN(k, (tp__gru_gates<T>), r.B * H, a);
        tp__seq_product(k, dtype, r.B, H, H, false, false, false, m.rh, wc + r.I * H, m.hc);
        TP_RUN(k, (tp__gru_cell<T>), r.B * H, a);
    }
    if (r.T == 0) tp__seq_copy(k, k->out[1].data, k->in[5].data, r.B * H, sizeof(T));
}
static void tp__gru_cuda(const tp_call *k) { TP_REALS(k->in[0].dtype, tp__gru_run<T>(k);); }

/* A step back in two kernels, of which the second needs drh = dc' Wch^T. The gradient of the state before a step is dh, which
 * is carried, and dhw = [dr', du'] Wgh^T. dg (rows,2H) and dc (rows,H) come together in step_g and step_c. */
template <class T> struct tp__gru_back_step {
    int64_t B, H, row, st, sb;
    bool first, last;
    const T *dy, *gates, *y, *h0, *drh, *dhw;
    tp__real<T> *dh;
    T *dg, *dc, *step_g, *step_c, *before, *reset; /* reset (rows,H): r h_t-1 */
};
template <class T> TP_KERNEL tp__gru_back_cell(const tp__gru_back_step<T> a)
{
    typedef tp__real<T> R;
    const int64_t H = a.H;
    TP_EACH(e, a.B * H)
    {
        const int64_t b = tp__seq_divide(e, H), i = e - b * H, row = a.row + b * a.sb;
        const R r = tp__get(a.gates, row * 3 * H + i), z = tp__get(a.gates, row * 3 * H + H + i);
        const R c = tp__get(a.gates, row * 3 * H + 2 * H + i);
        const R h0 = a.first ? tp__get(a.h0, e) : tp__get(a.y, (row - a.st) * H + i);
        const R d = tp__get(a.dy, row * H + i) + (tp__get(a.dhw, e) + (a.last ? 0 : a.dh[e]));
        const R du = d * (h0 - c) * z * (1 - z), dc = d * (1 - z) * (1 - c * c);
        a.dh[e] = d * z;
        tp__put(a.dg, row * 2 * H + H + i, du);
        tp__put(a.dc, row * H + i, dc);
        if (a.step_g) tp__put(a.step_g, b * 2 * H + H + i, du);
        if (a.step_c) tp__put(a.step_c, e, dc);
        tp__put(a.before, row * H + i, h0);
        tp__put(a.reset, row * H + i, r * h0);
    }
}
template <class T> TP_KERNEL tp__gru_back_reset(const tp__gru_back_step<T> a)
{
    typedef tp__real<T> R;
    const int64_t H = a.H;
    TP_EACH(e, a.B * H)
    {
        const int64_t b = tp__seq_divide(e, H), i = e - b * H, row = a.row + b * a.sb;
        const R r = tp__get(a.gates, row * 3 * H + i), drh = tp__get(a.drh, e);
        const R h0 = a.first ? tp__get(a.h0, e) : tp__get(a.y, (row - a.st) * H + i);
        const R dr = drh * h0 * r * (1 - r);
        a.dh[e] += drh * r;
        tp__put(a.dg, row * 2 * H + i, dr);
        if (a.step_g) tp__put(a.step_g, b * 2 * H + i, dr);
    }
}
template <class T> TP_KERNEL tp__gru_back_end(const tp__real<T> *dh, const T *dhw, T *dh0, int64_t n)
{
    TP_EACH(i, n) tp__put(dh0, i, dh[i] + tp__get(dhw, i));
}
typedef struct tp__gru_back_room {
    void *dg, *dc, *step_g, *step_c, *before, *reset, *drh, *dhw, *dh, *part;
    size_t bytes;
} tp__gru_back_room;
static tp__gru_back_room tp__gru_back_room_of(const tp_call *k)
{
    const bool batch_major = ((const tp__gru_attrs *)k->attrs)->batch_major;
    const tp__rnn_shape r = tp__rnn_shape_of(&k->in[2].shape, &k->in[5].shape, batch_major);
    const size_t size = tp__dtype_size(k->in[2].dtype), real = size < 4 ? 4 : size;
    const int64_t state = r.B * r.H;
    tp__seq_room room = tp__seq_room_over(k->scratch);
    tp__gru_back_room m;
    m.dg = tp__seq_take(&room, r.T * 2 * state, size);
    m.dc = tp__seq_take(&room, r.T * state, size);
    m.step_g = batch_major ? tp__seq_take(&room, 2 * state, size) : NULL;
    m.step_c = batch_major ? tp__seq_take(&room, state, size) : NULL;
    m.before = tp__seq_take(&room, r.T * state, size);
    m.reset = tp__seq_take(&room, r.T * state, size);
    m.drh = tp__seq_take(&room, state, size);
    m.dhw = tp__seq_take(&room, state, size);
    m.dh = tp__seq_take(&room, state, real);
    m.part = tp__seq_take(&room, TP__SEQ_CHUNKS * 2 * r.H, real);
    m.bytes = room.used;
    return m;
}
static size_t tp__gru_back_bytes(const tp_call *k) { return tp__gru_back_room_of(k).bytes; }

template <class T> static void tp__gru_back_run(const tp_call *k) /* in: dy, dh_T, x, Wg, Wc, h0, y, gates */
{
    const tp__rnn_shape r =
        tp__rnn_shape_of(&k->in[2].shape, &k->in[5].shape, ((const tp__gru_attrs *)k->attrs)->batch_major);
    const tp_dtype dtype = k->in[2].dtype;
    const int64_t H = r.H, rows = r.T * r.B;
    const tp__gru_back_room m = tp__gru_back_room_of(k);
    const T *wg = (const T *)k->in[3].data, *wc = (const T *)k->in[4].data;
    for (int64_t step = r.T - 1; step >= 0; step--) {
        tp__gru_back_step<T> a;
        a.B = r.B, a.H = H, a.row = step * r.st, a.st = r.st, a.sb = r.sb;
        a.first = step == 0, a.last = step + 1 == r.T;
        a.dy = (const T *)k->in[0].data, a.gates = (const T *)k->in[7].data, a.y = (const T *)k->in[6].data;
        a.h0 = (const T *)k->in[5].data, a.drh = (const T *)m.drh;
        a.dhw = (const T *)(a.last ? k->in[1].data : m.dhw);
        a.dh = (tp__real<T> *)m.dh, a.dg = (T *)m.dg, a.dc = (T *)m.dc;
        a.step_g = (T *)m.step_g, a.step_c = (T *)m.step_c, a.before = (T *)m.before, a.reset = (T *)m.reset;
        TP_RUN(k, (tp__gru_back_cell<T>), r.B * H, a);
        tp__seq_product(k, dtype, r.B, H, H, false, true, false, m.step_c ? a.step_c : a.dc + step * r.B * H,
                        wc + r.I * H, m.drh);
        TP_RUN(k, (tp__gru_back_reset<T>), r.B * H, a);
        tp__seq_product(k, dtype, r.B, H, 2 * H, false, true, false, m.step_g ? a.step_g : a.dg + step * r.B * 2 * H,
                        wg + r.I * 2 * H, m.dhw);
    }
    if (r.T == 0) tp__seq_copy(k, k->out[5].data, k->in[1].data, r.B * H, sizeof(T));
    else if (k->out[5].data)
        TP_RUN(k, (tp__gru_back_end<T>), r.B * H, (const tp__real<T> *)m.dh, (const T *)m.dhw, (T *)k->out[5].data,
               r.B * H);
    T *dwg = (T *)k->out[1].data, *dwc = (T *)k->out[3].data;
    tp__seq_product(k, dtype, rows, r.I, 2 * H, false, true, false, m.dg, wg, k->out[0].data);
    tp__seq_product(k, dtype, rows, r.I, H, false, true, true, m.dc, wc, k->out[0].data);
    tp__seq_product(k, dtype, r.I, 2 * H, rows, true, false, false, k->in[2].data, m.dg, dwg);
    tp__seq_product(k, dtype, H, 2 * H, rows, true, false, false, m.before, m.dg, dwg ? dwg + r.I * 2 * H : NULL);
    tp__seq_product(k, dtype, r.I, H, rows, true, false, false, k->in[2].data, m.dc, dwc);
    tp__seq_product(k, dtype, H, H, rows, true, false, false, m.reset, m.dc, dwc ? dwc + r.I * H : NULL);
    tp__seq_column_sums<T>(k, m.dg, m.part, k->out[2].data, rows, 2 * H);
    tp__seq_column_sums<T>(k, m.dc, m.part, k->out[4].data, rows, H);
}
static void tp__gru_back_cuda(const tp_call *k) { TP_REALS(k->in[2].dtype, tp__gru_back_run<T>(k);); }

/* -- attention, attention_grad: scores are made tile by tile and never stored. A block has a tile of rows (queries; keys for
 * the gradients of keys and values) and goes through the other side in tiles of columns. Sixteen by sixteen threads have
 * M x M scores of a tile each, and of the result M rows by ND of its elements; a head larger than 16 ND takes several
 * blocks, each of which makes the scores again. Products run along slices of the head in shared memory. Keys that a query
 * does not see count as probability 0, which an infinity among their values turns to NaN, as in the CPU's fast loop. */
typedef struct tp__attention_args {
    int64_t Tq, Tk, C, heads, beyond; /* query i sees keys below i + beyond, as far as there are some */
    int D;
    bool fours; /* rows of heads begin at whole fours */
    double scale;
    const void *dy, *q, *k, *v, *y, *lse;
    void *delta, *out[3]; /* forward: y, lse; backward: dq, dk, dv */
} tp__attention_args;
template <class R, int N> struct alignas(sizeof(R) * N < 16 ? sizeof(R) * N : 16) tp__pack {
    R v[N];
};
/* Elements a tile is high and wide, and of the memory for slices of two tiles. */
template <class R> struct tp__tile {
    enum { M = sizeof(R) == 8 ? 2 : 4, SIZE = 16 * M, DEEP = 32, ROOM = 2 * DEEP * SIZE };
};

/* x[0..3], of which `left` exist */
template <class T, class R> __device__ __forceinline__ void tp__seq_get4(const T *x, int left, bool fours, R v[4])
{
    if (fours && left >= 4) {
        const tp__pack<T, 4> p = *(const tp__pack<T, 4> *)x;
        for (int i = 0; i < 4; i++) v[i] = tp__get(p.v, i);
        return;
    }
    for (int i = 0; i < 4; i++) v[i] = i < left ? tp__get(x, i) : 0;
}
/* A slice of a tile, transposed; groups of M rows change places by depth, so that neither side meets a bank twice. */
template <class T, class R>
__device__ __forceinline__ void tp__tile_slice(R *room, const T *x, int64_t pitch, int n, int depth, int D, bool fours)
{
    const int M = tp__tile<R>::M, SIZE = tp__tile<R>::SIZE;
    for (int e = threadIdx.x; e < SIZE * (tp__tile<R>::DEEP / 4); e += TP__THREADS) {
        const int r = e / (tp__tile<R>::DEEP / 4), f = e % (tp__tile<R>::DEEP / 4),
                  left = r < n ? D - depth - f * 4 : 0;
        R v[4];
        tp__seq_get4(x + r * pitch + depth + f * 4, left, fours, v);
        for (int i = 0; i < 4; i++) room[(f * 4 + i) * SIZE + ((r / M) ^ (f & 7)) * M + r % M] = v[i];
    }
}
/* s = the products of a thread's M rows and M columns, over all of D */
template <class T, class R>
__device__ __forceinline__ void tp__tile_products(R s[tp__tile<R>::M][tp__tile<R>::M], R *room, const T *rows,
                                                  int n_rows, const T *columns, int n_columns, int64_t pitch, int D,
                                                  bool fours)
{
    const int M = tp__tile<R>::M, SIZE = tp__tile<R>::SIZE, DEEP = tp__tile<R>::DEEP;
    const int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
    R *other = room + DEEP * SIZE;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < M; j++) s[i][j] = 0;
    for (int depth = 0; depth < D; depth += DEEP) {
        const int n = D - depth < DEEP ? (D - depth + 3) / 4 : DEEP / 4;
        __syncthreads();
        tp__tile_slice(room, rows, pitch, n_rows, depth, D, fours);
        tp__tile_slice(other, columns, pitch, n_columns, depth, D, fours);
        __syncthreads();
#pragma unroll 2
        for (int f = 0; f < n; f++) {
            const R *a = room + f * 4 * SIZE + (ty ^ (f & 7)) * M, *b = other + f * 4 * SIZE + (tx ^ (f & 7)) * M;
#pragma unroll
            for (int d = 0; d < 4; d++) {
                const tp__pack<R, tp__tile<R>::M> x = *(const tp__pack<R, tp__tile<R>::M> *)(a + d * SIZE);
                const tp__pack<R, tp__tile<R>::M> z = *(const tp__pack<R, tp__tile<R>::M> *)(b + d * SIZE);
#pragma unroll
                for (int i = 0; i < M; i++)
#pragma unroll
                    for (int j = 0; j < M; j++) s[i][j] += x.v[i] * z.v[j];
            }
        }
    }
}
/* The threads' M x M numbers as a tile in shared memory, column by column; groups of rows change places here too. */
template <class R> __device__ __forceinline__ void tp__tile_put(R *tile, const R s[tp__tile<R>::M][tp__tile<R>::M])
{
    const int M = tp__tile<R>::M, SIZE = tp__tile<R>::SIZE, tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
    for (int j = 0; j < M; j++) {
        tp__pack<R, tp__tile<R>::M> p;
        for (int i = 0; i < M; i++) p.v[i] = s[i][j];
        *(tp__pack<R, tp__tile<R>::M> *)(tile + (tx * M + j) * SIZE + (ty ^ tx) * M) = p;
    }
}
/* Where element n of a thread's ND lies in the slice of a head. */
template <int ND> __device__ __forceinline__ int tp__tile_element(int n)
{
    const int V = ND < 4 ? ND : 4;
    return n / V * 16 * V + (int)(threadIdx.x & 15) * V + n % V;
}
/* sum += tile x, over n rows of x */
template <int ND, class T, class R>
__device__ __forceinline__ void tp__tile_sums(R sum[tp__tile<R>::M][ND], const R *tile, R *room, const T *x,
                                              int64_t pitch, int n, int D, bool fours)
{
    const int M = tp__tile<R>::M, SIZE = tp__tile<R>::SIZE, WIDE = 16 * ND;
    const int HIGH = (int)tp__tile<R>::ROOM / WIDE < SIZE ? (int)tp__tile<R>::ROOM / WIDE : SIZE;
    const int ty = threadIdx.x >> 4;
    for (int from = 0; from < n; from += HIGH) {
        const int m = n - from < HIGH ? n - from : HIGH;
        __syncthreads();
        for (int e = threadIdx.x; e < m * (WIDE / 4); e += TP__THREADS) {
            const int r = e / (WIDE / 4), f = e % (WIDE / 4);
            tp__pack<R, 4> p;
            tp__seq_get4(x + (from + r) * pitch + f * 4, D - f * 4, fours, p.v);
            *(tp__pack<R, 4> *)(room + r * WIDE + f * 4) = p;
        }
        __syncthreads();
#pragma unroll 4
        for (int c = 0; c < m; c++) {
            const tp__pack<R, tp__tile<R>::M> p =
                *(const tp__pack<R, tp__tile<R>::M> *)(tile + (from + c) * SIZE + (ty ^ ((from + c) / M)) * M);
            R v[ND];
#pragma unroll
            for (int g = 0; g < ND; g += (ND < 4 ? ND : 4)) {
                const tp__pack<R, (ND < 4 ? ND : 4)> four =
                    *(const tp__pack<R, (ND < 4 ? ND : 4)> *)(room + c * WIDE + tp__tile_element<ND>(g));
#pragma unroll
                for (int i = 0; i < (ND < 4 ? ND : 4); i++) v[g + i] = four.v[i];
            }
#pragma unroll
            for (int i = 0; i < M; i++)
#pragma unroll
                for (int d = 0; d < ND; d++) sum[i][d] += p.v[i] * v[d];
        }
    }
}

/* Which piece of the work is a block's: tiles of a head, the last ones first, since they see the most keys. */
typedef struct tp__attention_piece {
    int64_t b, head, tile;
    int slice; /* of the head, from this element on */
} tp__attention_piece;
__device__ __forceinline__ tp__attention_piece tp__attention_place(const tp__attention_args &a, int64_t tiles, int wide)
{
    tp__attention_piece p;
    const unsigned slices = (unsigned)((a.D + wide - 1) / wide);
    unsigned x = blockIdx.x;
    p.slice = (int)(x % slices) * wide;
    x /= slices;
    p.tile = tiles - 1 - x % (unsigned)tiles;
    x /= (unsigned)tiles;
    p.head = x % (unsigned)a.heads;
    p.b = x / (unsigned)a.heads;
    return p;
}

template <class T, int ND> TP_KERNEL tp__attention_forward(const tp__attention_args a)
{
    typedef tp__real<T> R;
    const int M = tp__tile<R>::M, SIZE = tp__tile<R>::SIZE, tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
    TP_SHARED(R, room, tp__tile<R>::ROOM);
    TP_SHARED(R, tile, tp__tile<R>::SIZE * tp__tile<R>::SIZE);
    const tp__attention_piece at = tp__attention_place(a, (a.Tq + SIZE - 1) / SIZE, 16 * ND);
    const int64_t i0 = at.tile * SIZE, rows = (at.b * a.Tq + i0) * a.C + at.head * a.D,
                  columns = at.b * a.Tk * a.C + at.head * a.D;
    const int n_rows = a.Tq - i0 < SIZE ? (int)(a.Tq - i0) : SIZE;
    const int64_t end = i0 + n_rows - 1 + a.beyond < a.Tk ? i0 + n_rows - 1 + a.beyond : a.Tk;
    const R none = -(R)INFINITY, scale = (R)a.scale;
    R sum[tp__tile<R>::M][ND], most[tp__tile<R>::M], z[tp__tile<R>::M];
    for (int i = 0; i < M; i++) {
        most[i] = none, z[i] = 0;
        for (int d = 0; d < ND; d++) sum[i][d] = 0;
    }
    for (int64_t j0 = 0; j0 < end; j0 += SIZE) {
        const int n = end - j0 < SIZE ? (int)(end - j0) : SIZE;
        R s[tp__tile<R>::M][tp__tile<R>::M];
        tp__tile_products(s, room, (const T *)a.q + rows, n_rows, (const T *)a.k + columns + j0 * a.C, n, a.C, a.D,
                          a.fours);
#pragma unroll
        for (int i = 0; i < M; i++) {
            const int64_t seen = i0 + ty * M + i + a.beyond < a.Tk ? i0 + ty * M + i + a.beyond : a.Tk;
            const int m = seen - j0 < n ? (int)(seen - j0) : n;
            R top = most[i];
            for (int j = 0; j < M; j++) {
                s[i][j] *= scale;
                if (tx * M + j < m && s[i][j] > top) top = s[i][j];
            }
            for (int d = 8; d > 0; d >>= 1) {
                const R other = __shfl_xor_sync(0xffffffffu, top, d);
                top = other > top ? other : top;
            }
            const R shift = top == none ? 0 : top, shrink = exp(most[i] - shift);
            most[i] = top;
            z[i] *= shrink;
            for (int j = 0; j < M; j++) {
                s[i][j] = tx * M + j < m ? exp(s[i][j] - shift) : 0;
                z[i] += s[i][j];
            }
            for (int d = 0; d < ND; d++) sum[i][d] *= shrink;
        }
        tp__tile_put(tile, s);
        tp__tile_sums<ND>(sum, tile, room, (const T *)a.v + columns + j0 * a.C + at.slice, a.C, n, a.D - at.slice,
                          a.fours);
    }
#pragma unroll
    for (int i = 0; i < M; i++) {
        const int64_t row = i0 + ty * M + i;
        for (int d = 8; d > 0; d >>= 1) z[i] += __shfl_xor_sync(0xffffffffu, z[i], d);
        if (row >= a.Tq) continue;
        if (a.out[1] && at.slice == 0 && tx == 0)
            tp__put((T *)a.out[1], (at.b * a.heads + at.head) * a.Tq + row,
                    z[i] == 0 ? most[i] - most[i] : most[i] + log(z[i]));
        for (int n = 0; n < ND && a.out[0]; n++) {
            const int d = at.slice + tp__tile_element<ND>(n);
            if (d < a.D) tp__put((T *)a.out[0], rows + (int64_t)(ty * M + i) * a.C + d, sum[i][n] / z[i]);
        }
    }
}

/* delta = dy_i y_i, a warp each */
template <class T> TP_KERNEL tp__attention_delta(const tp__attention_args a, int64_t n)
{
    typedef tp__real<T> R;
    const int64_t warps = (int64_t)gridDim.x * (TP__THREADS / 32);
    for (int64_t at = (int64_t)blockIdx.x * (TP__THREADS / 32) + (threadIdx.x >> 5); at < n; at += warps) {
        const int64_t row = tp__seq_divide(at, a.heads), head = at - row * a.heads;
        const int64_t b = tp__seq_divide(row, a.Tq), i = row - b * a.Tq;
        R sum = 0;
        for (int d = threadIdx.x & 31; d < a.D; d += 32)
            sum += tp__get((const T *)a.dy, row * a.C + head * a.D + d) *
                   tp__get((const T *)a.y, row * a.C + head * a.D + d);
        for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
        if ((threadIdx.x & 31) == 0) ((R *)a.delta)[(b * a.heads + head) * a.Tq + i] = sum;
    }
}
/* KEYS: rows are keys, the results dk and dv; else rows are queries, the result dq. */
template <class T, int ND, bool KEYS> TP_KERNEL tp__attention_back(const tp__attention_args a)
{
    typedef tp__real<T> R;
    const int M = tp__tile<R>::M, SIZE = tp__tile<R>::SIZE, tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
    TP_SHARED(R, room, tp__tile<R>::ROOM);
    TP_SHARED(R, tile, tp__tile<R>::SIZE * tp__tile<R>::SIZE);
    const int64_t n_all = KEYS ? a.Tk : a.Tq, n_other = KEYS ? a.Tq : a.Tk;
    const tp__attention_piece at = tp__attention_place(a, (n_all + SIZE - 1) / SIZE, 16 * ND);
    const int64_t r0 = at.tile * SIZE, rows = (at.b * n_all + r0) * a.C + at.head * a.D,
                  columns = at.b * n_other * a.C + at.head * a.D, sums = (at.b * a.heads + at.head) * a.Tq;
    const int n_rows = n_all - r0 < SIZE ? (int)(n_all - r0) : SIZE;
    int64_t c = 0, end = a.Tq; /* the other side, as far as they see each other */
    if (KEYS) c = r0 - a.beyond + 1 > 0 ? (r0 - a.beyond + 1) / SIZE * SIZE : 0;
    else end = r0 + n_rows - 1 + a.beyond < a.Tk ? r0 + n_rows - 1 + a.beyond : a.Tk;
    const R scale = (R)a.scale;
    const T *row_s = (const T *)(KEYS ? a.k : a.q) + rows, *row_p = (const T *)(KEYS ? a.v : a.dy) + rows;
    const T *column_s = (const T *)(KEYS ? a.q : a.k) + columns, *column_p = (const T *)(KEYS ? a.dy : a.v) + columns;
    R sum[tp__tile<R>::M][ND], sum_v[tp__tile<R>::M][ND];
    for (int i = 0; i < M; i++)
        for (int d = 0; d < ND; d++) sum[i][d] = sum_v[i][d] = 0;
    for (; c < end; c += SIZE) {
        const int n = end - c < SIZE ? (int)(end - c) : SIZE;
        R p[tp__tile<R>::M][tp__tile<R>::M], ds[tp__tile<R>::M][tp__tile<R>::M];
        tp__tile_products(p, room, row_s, n_rows, column_s + c * a.C, n, a.C, a.D, a.fours);
        tp__tile_products(ds, room, row_p, n_rows, column_p + c * a.C, n, a.C, a.D, a.fours);
#pragma unroll
        for (int i = 0; i < M; i++)
#pragma unroll
            for (int j = 0; j < M; j++) {
                const int64_t row = r0 + ty * M + i, column = c + tx * M + j;
                const int64_t query = KEYS ? column : row, key = KEYS ? row : column;
                const bool seen = query < a.Tq && key < a.Tk && key < query + a.beyond;
                const R e = p[i][j] * scale - (seen ? tp__get((const T *)a.lse, sums + query) : 0);
                p[i][j] = seen ? exp(e) : 0;
                ds[i][j] = seen ? p[i][j] * (ds[i][j] - ((const R *)a.delta)[sums + query]) * scale : 0;
            }
        if (KEYS && a.out[2]) {
            tp__tile_put(tile, p);
            tp__tile_sums<ND>(sum_v, tile, room, column_p + c * a.C + at.slice, a.C, n, a.D - at.slice, a.fours);
            __syncthreads(); /* the tile has been read */
        }
        if (!KEYS || a.out[1]) {
            tp__tile_put(tile, ds);
            tp__tile_sums<ND>(sum, tile, room, column_s + c * a.C + at.slice, a.C, n, a.D - at.slice, a.fours);
        }
    }
    T *to = (T *)a.out[KEYS ? 1 : 0], *to_v = (T *)a.out[2];
#pragma unroll
    for (int i = 0; i < M; i++)
        for (int m = 0; m < ND && ty * M + i < n_rows; m++) {
            const int d = at.slice + tp__tile_element<ND>(m);
            const int64_t e = rows + (int64_t)(ty * M + i) * a.C + d;
            if (d < a.D && to) tp__put(to, e, sum[i][m]);
            if (d < a.D && KEYS && to_v) tp__put(to_v, e, sum_v[i][m]);
        }
}

static tp__attention_args tp__attention_args_of(const tp_call *k, bool back)
{
    const tp__attention_attrs *t = (const tp__attention_attrs *)k->attrs;
    const tp_operand *q = &k->in[back ? 1 : 0];
    tp__attention_args a;
    memset(&a, 0, sizeof a);
    a.Tq = q->shape.dim[1], a.Tk = q[1].shape.dim[1], a.C = q->shape.dim[2];
    a.heads = t->heads;
    a.D = (int)(a.C / a.heads);
    a.beyond = t->causal ? a.Tk - a.Tq + 1 : a.Tk;
    a.fours = a.D % 4 == 0;
    a.scale = 1 / sqrt((double)a.D);
    a.q = q->data, a.k = q[1].data, a.v = q[2].data;
    for (int i = 0; i < k->n_out; i++) a.out[i] = k->out[i].data;
    if (back) a.dy = k->in[0].data, a.y = k->in[4].data, a.lse = k->in[5].data;
    a.delta = k->scratch;
    return a;
}
template <class T, int ND> static void tp__attention_launch(const tp_call *k, const tp__attention_args &a, bool back)
{
    const int64_t SIZE = tp__tile<tp__real<T>>::SIZE, B = k->in[back ? 1 : 0].shape.dim[0];
    const int64_t each = B * a.heads * ((a.D + 16 * ND - 1) / (16 * ND));
    const int64_t queries = each * ((a.Tq + SIZE - 1) / SIZE), keys = each * ((a.Tk + SIZE - 1) / SIZE);
    if (queries >> 31 || keys >> 31) {
        tp__broken(tp__cuda_of(k), k->op->name, "it has more tiles than a grid has blocks");
        return;
    }
    if (!back) {
        if (a.out[0] || a.out[1]) TP_RUN_BLOCKS(k, (tp__attention_forward<T, ND>), queries, TP__THREADS, 0, a);
        return;
    }
    TP_RUN(k, (tp__attention_delta<T>), B * a.heads * a.Tq * 32, a, B * a.heads * a.Tq);
    if (a.out[0]) TP_RUN_BLOCKS(k, (tp__attention_back<T, ND, false>), queries, TP__THREADS, 0, a);
    if (a.out[1] || a.out[2]) TP_RUN_BLOCKS(k, (tp__attention_back<T, ND, true>), keys, TP__THREADS, 0, a);
}
/* By the size of a head; float64, which is there for checks, has one kernel for all. */
template <class T> struct tp__attention_sizes {
    static void run(const tp_call *k, const tp__attention_args &a, bool back)
    {
        if (a.D <= 32) tp__attention_launch<T, 2>(k, a, back);
        else if (a.D <= 64) tp__attention_launch<T, 4>(k, a, back);
        else tp__attention_launch<T, 8>(k, a, back);
    }
};
template <> struct tp__attention_sizes<double> {
    static void run(const tp_call *k, const tp__attention_args &a, bool back)
    {
        tp__attention_launch<double, 4>(k, a, back);
    }
};
static void tp__attention_cuda(const tp_call *k)
{
    const tp__attention_args a = tp__attention_args_of(k, false);
    TP_REALS(k->in[0].dtype, tp__attention_sizes<T>::run(k, a, false););
}
static void tp__attention_back_cuda(const tp_call *k)
{
    const tp__attention_args a = tp__attention_args_of(k, true);
    TP_REALS(k->in[1].dtype, tp__attention_sizes<T>::run(k, a, true););
}
static size_t tp__attention_bytes(const tp_call *k) /* delta */
{
    const tp_operand *q = &k->in[1];
    return (size_t)(q->shape.dim[0] * q->shape.dim[1] * ((const tp__attention_attrs *)k->attrs)->heads) *
           (q->dtype == TP_F64 ? sizeof(double) : sizeof(float));
}

static const tp__cuda_kernel tp__cuda_sequences[] = {{"ctc_loss", tp__ctc_cuda, tp__ctc_bytes},
                                                     {"lstm", tp__lstm_cuda, tp__lstm_bytes},
                                                     {"lstm_grad", tp__lstm_back_cuda, tp__lstm_back_bytes},
                                                     {"gru", tp__gru_cuda, tp__gru_bytes},
                                                     {"gru_grad", tp__gru_back_cuda, tp__gru_back_bytes},
                                                     {"attention", tp__attention_cuda, NULL},
                                                     {"attention_grad", tp__attention_back_cuda, tp__attention_bytes},
                                                     {NULL, NULL, NULL}};

/* ==== >>images ======================================================================================== */
/* Threads take V neighbouring channels of a pixel: four where there are whole fours, else one. I: what indices fit into. */

template <class T, int V> struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) tp__pixels {
    T v[V];
};
/* f<T, V, I>, for C channels and no more than `most` elements anywhere */
#define TP__PIXELS(C_, most_, ...) \
    do {                           \
        if ((most_) >> 30) {       \
            typedef int64_t I;     \
            enum { V = 1 };        \
            __VA_ARGS__            \
        } else if ((C_) % 4) {     \
            typedef int I;         \
            enum { V = 1 };        \
            __VA_ARGS__            \
        } else {                   \
            typedef int I;         \
            enum { V = 4 };        \
            __VA_ARGS__            \
        }                          \
    } while (0)

/* -- resize, resize_grad: where each row and column of the result looks is found once. The gradient gathers: the rows that
 * look at h are neighbours, from the first one that looks at h-1 or below to the last one at h. In the CPU's order. */
typedef struct tp__resize_place { /* y = (1 - part) x[low] + part x[high] */
    int low, high;
    double part;
} tp__resize_place;
typedef struct tp__resize_args {
    int64_t B, H, W, C, OH, OW;
    bool align_corners, half_pixel_centers, nearest;
    tp__resize_place *row, *column; /* of OH, of OW */
    int *row_from, *column_from;    /* of H+1, of W+1: how many rows look below; for the gradient */
    size_t bytes;
} tp__resize_args;
static tp__resize_args tp__resize_args_of(const tp_call *k, const tp_shape *x, bool back)
{
    const tp_resize_attrs *t = (const tp_resize_attrs *)k->attrs;
    const bool nchw = t->data_format == TP_NCHW;
    tp__resize_args a;
    memset(&a, 0, sizeof a);
    a.B = nchw ? x->dim[0] * x->dim[1] : x->dim[0];
    a.H = x->dim[nchw ? 2 : 1];
    a.W = x->dim[nchw ? 3 : 2];
    a.C = nchw ? 1 : x->dim[3];
    a.OH = t->out_h;
    a.OW = t->out_w;
    a.align_corners = t->align_corners;
    a.half_pixel_centers = t->half_pixel_centers;
    a.nearest = t->nearest;
    a.row = (tp__resize_place *)k->scratch;
    a.column = a.row + a.OH;
    a.row_from = (int *)(a.column + a.OW);
    a.column_from = a.row_from + a.H + 1;
    a.bytes = (size_t)(a.OH + a.OW) * sizeof(tp__resize_place) + (back ? (size_t)(a.H + a.W + 2) * sizeof(int) : 0);
    return a;
}
__device__ __forceinline__ tp__resize_place tp__resize_look(const tp__resize_args &a, int64_t i, int64_t n_in,
                                                            int64_t n_out)
{
    tp__resize_place t;
    int64_t num = i * n_in, den = n_out; /* the place is num / den */
    if (a.align_corners && n_out > 1) num = i * (n_in - 1), den = n_out - 1;
    if (a.half_pixel_centers) num = (2 * i + 1) * n_in - (a.nearest ? 0 : n_out), den = 2 * n_out;
    if (a.nearest && a.align_corners) num = 2 * num + den, den *= 2;
    if (num < 0) num = 0;
    const int64_t low = num / den;
    t.low = (int)low;
    t.part = a.nearest ? 0 : (double)(num % den) / (double)den;
    if (low >= n_in - 1) t.low = (int)(n_in - 1), t.part = 0;
    t.high = t.part > 0 ? t.low + 1 : t.low;
    return t;
}
TP_KERNEL tp__resize_places(const tp__resize_args a)
{
    TP_EACH(i, a.OH + a.OW)
    a.row[i] = i < a.OH ? tp__resize_look(a, i, a.H, a.OH) : tp__resize_look(a, i - a.OH, a.W, a.OW);
}
/* How many rows look below h: they ascend. */
TP_KERNEL tp__resize_froms(const tp__resize_args a)
{
    TP_EACH(i, a.H + a.W + 2)
    {
        const bool rows = i <= a.H;
        const int64_t h = rows ? i : i - a.H - 1, n = rows ? a.OH : a.OW;
        const tp__resize_place *place = rows ? a.row : a.column;
        int64_t from = 0, to = n;
        while (from < to) {
            const int64_t mid = (from + to) / 2;
            if (place[mid].low < h) from = mid + 1;
            else to = mid;
        }
        a.row_from[i] = (int)from;
    }
}
template <class T, int V, class I> TP_KERNEL tp__resize_kernel(const tp__resize_args a, const T *x, T *y)
{
    typedef tp__real<T> R;
    const I C = (I)(a.C / V), OW = (I)a.OW, OH = (I)a.OH, W = (I)a.W, H = (I)a.H;
    TP_EACH(e, a.B * a.OH * a.OW * C)
    {
        const I at = (I)e / C, c = ((I)e - at * C) * V, r = at / OW, b = r / OH;
        const tp__resize_place v = a.row[r - b * OH], h = a.column[at - r * OW];
        const T *above = x + ((int64_t)b * H + v.low) * W * a.C + c,
                *below = x + ((int64_t)b * H + v.high) * W * a.C + c;
        const R p = (R)v.part, q = (R)h.part;
        const int64_t left = h.low * a.C, right = h.high * a.C;
        tp__pixels<T, V> out = *(const tp__pixels<T, V> *)(above + left);
        if (p > 0 || q > 0) { /* else an infinite neighbour does no harm */
            const tp__pixels<T, V> tl = out, tr = *(const tp__pixels<T, V> *)(above + right);
            const tp__pixels<T, V> bl = *(const tp__pixels<T, V> *)(below + left);
            const tp__pixels<T, V> br = *(const tp__pixels<T, V> *)(below + right);
#pragma unroll
            for (int i = 0; i < V; i++) {
                const R top = tp__get(tl.v, i) + (tp__get(tr.v, i) - tp__get(tl.v, i)) * q;
                const R bottom = tp__get(bl.v, i) + (tp__get(br.v, i) - tp__get(bl.v, i)) * q;
                tp__put(out.v, i, p > 0 ? top + (bottom - top) * p : top);
            }
        }
        *(tp__pixels<T, V> *)(y + (int64_t)at * a.C + c) = out;
    }
}
template <class T, int V, class I> TP_KERNEL tp__resize_back(const tp__resize_args a, const T *dy, T *dx)
{
    typedef tp__real<T> R;
    const I C = (I)(a.C / V), W = (I)a.W, H = (I)a.H;
    TP_EACH(e, a.B * a.H * a.W * C)
    {
        const I at = (I)e / C, c = ((I)e - at * C) * V, r = at / W, b = r / H;
        const int w = (int)(at - r * W), h = (int)(r - b * H);
        const int i1 = a.row_from[h + 1], j0 = a.column_from[w > 0 ? w - 1 : 0], j1 = a.column_from[w + 1];
        R sum[V];
        for (int n = 0; n < V; n++) sum[n] = 0;
        for (int i = a.row_from[h > 0 ? h - 1 : 0]; i < i1; i++) {
            const tp__resize_place v = a.row[i];
            const double part = v.low == h ? 1 - v.part : v.high == h ? v.part : 0;
            if (!(part > 0)) continue;
            for (int j = j0; j < j1; j++) {
                const tp__resize_place u = a.column[j];
                const R weight = (R)(part * (u.low == w ? 1 - u.part : u.high == w ? u.part : 0));
                if (!(weight > 0)) continue;
                const tp__pixels<T, V> d =
                    *(const tp__pixels<T, V> *)(dy + (((int64_t)b * a.OH + i) * a.OW + j) * a.C + c);
#pragma unroll
                for (int n = 0; n < V; n++) sum[n] += weight * tp__get(d.v, n);
            }
        }
        tp__pixels<T, V> out;
        for (int n = 0; n < V; n++) tp__put(out.v, n, sum[n]);
        *(tp__pixels<T, V> *)(dx + (int64_t)at * a.C + c) = out;
    }
}
static bool tp__resize_ready(const tp_call *k, const tp__resize_args *a, bool back)
{
    if (a->H >> 31 || a->W >> 31) {
        tp__broken(tp__cuda_of(k), k->op->name, "an image is higher or wider than an int can say");
        return false;
    }
    TP_RUN(k, tp__resize_places, a->OH + a->OW, *a);
    if (back) TP_RUN(k, tp__resize_froms, a->H + a->W + 2, *a);
    return true;
}
static void tp__resize_cuda(const tp_call *k)
{
    const tp__resize_args a = tp__resize_args_of(k, &k->in[0].shape, false);
    const int64_t n = tp__size(&k->out[0]);
    if (n == 0 || !tp__resize_ready(k, &a, false)) return;
    TP_REALS(k->in[0].dtype, TP__PIXELS(a.C, n,
                                        TP_RUN(k, (tp__resize_kernel<T, V, I>), n / V, a, (const T *)k->in[0].data,
                                               (T *)k->out[0].data);););
}
static void tp__resize_back_cuda(const tp_call *k) /* in: dy, x for its shape */
{
    const tp__resize_args a = tp__resize_args_of(k, &k->in[1].shape, true);
    const int64_t n = tp__size(&k->out[0]);
    if (n == 0 || !tp__resize_ready(k, &a, true)) return;
    TP_REALS(k->in[0].dtype, TP__PIXELS(a.C, n,
                                        TP_RUN(k, (tp__resize_back<T, V, I>), n / V, a, (const T *)k->in[0].data,
                                               (T *)k->out[0].data);););
}
static size_t tp__resize_bytes(const tp_call *k)
{
    const bool back = k->n_in == 2;
    return tp__resize_args_of(k, &k->in[back ? 1 : 0].shape, back).bytes;
}

/* -- bilinear_sampler, bilinear_sampler_grad: a thread a place of the result. The gradient of the image is gathered too: the
 * coordinates are sorted by the pixel that they look at first (those of equal pixels stay in order), and each pixel adds up
 * what looks at it or at its three neighbours before, in that order: exact to the rounding of a sum, whatever its numbers.
 * Images are taken in groups, so that the lists stay small. */
#define TP__SORT_CHUNK 2048 /* numbers of a block: eight a thread */
typedef struct tp__sampler_args {
    int64_t B, H, W, C, n; /* n coordinates an image */
    int border;
    int64_t group, chunks; /* images at a time; chunks of the sort */
    uint32_t *key[2], *index[2], *count, *from;
    size_t bytes;
} tp__sampler_args;
static tp__sampler_args tp__sampler_args_of(const tp_call *k, const tp_shape *x, const tp_shape *coords, bool back)
{
    tp__sampler_args a;
    memset(&a, 0, sizeof a);
    a.B = x->dim[0], a.H = x->dim[1], a.W = x->dim[2], a.C = x->dim[3];
    a.n = coords->dim[1] * coords->dim[2];
    a.border = ((const tp__sampler_attrs *)k->attrs)->border;
    if (!back) return a;
    const int64_t most = a.n > a.H * a.W ? a.n : a.H * a.W;
    a.group = most > 0 && most < ((int64_t)1 << 22) ? ((int64_t)1 << 22) / most : 1;
    if (a.group > a.B) a.group = a.B;
    a.chunks = (a.group * a.n + TP__SORT_CHUNK - 1) / TP__SORT_CHUNK;
    const int64_t room = (a.group * a.n + 63) / 64 * 64;
    uint32_t *at = (uint32_t *)k->scratch;
    for (int i = 0; i < 2; i++) {
        a.key[i] = at + 2 * i * room;
        a.index[i] = a.key[i] + room;
    }
    a.count = at + 4 * room;
    a.from = a.count + 16 * a.chunks;
    a.bytes = (size_t)(4 * room + 16 * a.chunks + a.group * a.H * a.W + 1) * sizeof(uint32_t);
    return a;
}
/* Pixels of one coordinate and the weight of the second; false where the border's zeros are. */
template <class R> __device__ __forceinline__ bool tp__sampler_place(R v, int64_t size, int border, int64_t at[2], R *f)
{
    const R c = v > 0 ? v : 0, l = v == v ? floor(c) : 0, last = (R)(size - 1);
    *f = v == v ? c - l : v;
    at[0] = l < last ? (int64_t)l : size - 1;
    at[1] = at[0] + 1 < size ? at[0] + 1 : size - 1;
    return border == TP_BORDER_REPEAT || !(v < 0 || v > last);
}
template <class T, int V, class I>
TP_KERNEL tp__sampler_kernel(const tp__sampler_args a, const T *image, const T *coords, T *y)
{
    typedef tp__real<T> R;
    const I C = (I)(a.C / V), n = (I)a.n;
    TP_EACH(e, a.B * a.n * C)
    {
        const I i = (I)e / C, c = ((I)e - i * C) * V, b = i / n;
        R f[2];
        int64_t h[2], w[2];
        bool inside = tp__sampler_place(tp__get(coords, 2 * (int64_t)i), a.H, a.border, h, &f[0]);
        inside = tp__sampler_place(tp__get(coords, 2 * (int64_t)i + 1), a.W, a.border, w, &f[1]) && inside;
        const T *x = image + b * a.H * a.W * a.C + c;
        const tp__pixels<T, V> p = *(const tp__pixels<T, V> *)(x + (h[0] * a.W + w[0]) * a.C);
        const tp__pixels<T, V> q = *(const tp__pixels<T, V> *)(x + (h[0] * a.W + w[1]) * a.C);
        const tp__pixels<T, V> r = *(const tp__pixels<T, V> *)(x + (h[1] * a.W + w[0]) * a.C);
        const tp__pixels<T, V> s = *(const tp__pixels<T, V> *)(x + (h[1] * a.W + w[1]) * a.C);
        tp__pixels<T, V> out;
#pragma unroll
        for (int m = 0; m < V; m++) {
            const R above = tp__get(p.v, m) * (1 - f[1]) + tp__get(q.v, m) * f[1];
            const R below = tp__get(r.v, m) * (1 - f[1]) + tp__get(s.v, m) * f[1];
            tp__put(out.v, m, inside ? above * (1 - f[0]) + below * f[0] : 0);
        }
        *(tp__pixels<T, V> *)(y + (int64_t)i * a.C + c) = out;
    }
}
static void tp__sampler_cuda(const tp_call *k)
{
    const tp__sampler_args a = tp__sampler_args_of(k, &k->in[0].shape, &k->in[1].shape, false);
    const int64_t n = tp__size(&k->out[0]);
    if (n == 0) return;
    TP_REALS(k->in[0].dtype, TP__PIXELS(a.C, n,
                                        TP_RUN(k, (tp__sampler_kernel<T, V, I>), n / V, a, (const T *)k->in[0].data,
                                               (const T *)k->in[1].data, (T *)k->out[0].data);););
}

/* The coordinates' gradient: LANES threads a place, which share its channels. */
template <class T, int LANES>
TP_KERNEL tp__sampler_coords(const tp__sampler_args a, const T *dy, const T *image, const T *coords, T *out)
{
    typedef tp__real<T> R;
    const int64_t places = a.B * a.n, step = (int64_t)gridDim.x * (TP__THREADS / LANES);
    const int64_t mine = ((int64_t)blockIdx.x * TP__THREADS + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    for (int64_t base = 0; base < places; base += step) { /* all lanes of a warp stay together */
        const int64_t i = base + mine < places ? base + mine : places - 1;
        const T *d = dy + i * a.C, *x = image + tp__seq_divide(i, a.n) * a.H * a.W * a.C;
        const R at[2] = {tp__get(coords, 2 * i), tp__get(coords, 2 * i + 1)};
        R f[2], sum[4] = {0, 0, 0, 0};
        int64_t h[2], w[2];
        bool inside = tp__sampler_place(at[0], a.H, a.border, h, &f[0]);
        inside = tp__sampler_place(at[1], a.W, a.border, w, &f[1]) && inside;
        for (int64_t c = lane; c < a.C && inside; c += LANES)
            for (int p = 0; p < 4; p++) sum[p] += tp__get(d, c) * tp__get(x, (h[p >> 1] * a.W + w[p & 1]) * a.C + c);
        for (int s = LANES / 2; s > 0; s >>= 1)
            for (int p = 0; p < 4; p++) sum[p] += __shfl_xor_sync(0xffffffffu, sum[p], s);
        if (lane > 0 || base + mine >= places) continue;
        R g[2] = {0, 0};
        for (int p = 0; p < 4 && inside; p++) {
            const R wh = p >> 1 ? f[0] : 1 - f[0], ww = p & 1 ? f[1] : 1 - f[1];
            g[0] += p >> 1 ? sum[p] * ww : -sum[p] * ww;
            g[1] += p & 1 ? sum[p] * wh : -sum[p] * wh;
        }
        for (int q = 0; q < 2; q++) tp__put(out, 2 * i + q, at[q] >= 0 ? g[q] : 0);
    }
}

/* The pixel that coordinate i of a group looks at first; those outside come last. `total` pixels. */
template <class T> TP_KERNEL tp__sampler_keys(const tp__sampler_args a, const T *coords, int64_t places, uint32_t total)
{
    typedef tp__real<T> R;
    TP_EACH(i, places)
    {
        R f;
        int64_t h[2], w[2];
        bool inside = tp__sampler_place(tp__get(coords, 2 * i), a.H, a.border, h, &f);
        inside = tp__sampler_place(tp__get(coords, 2 * i + 1), a.W, a.border, w, &f) && inside;
        a.key[0][i] = inside ? (uint32_t)((tp__seq_divide(i, a.n) * a.H + h[0]) * a.W + w[0]) : total;
        a.index[0][i] = (uint32_t)i;
    }
}
/* A stable sort by four bits at a time: how often each digit occurs in each chunk; where they go; they go. */
TP_KERNEL tp__sort_count(const uint32_t *key, uint32_t *count, int64_t n, int64_t chunks, int shift)
{
    TP_SHARED(unsigned, sum, 16);
    if (threadIdx.x < 16) sum[threadIdx.x] = 0;
    __syncthreads();
    const int64_t from = (int64_t)blockIdx.x * TP__SORT_CHUNK,
                  to = n - from < TP__SORT_CHUNK ? n : from + TP__SORT_CHUNK;
    for (int64_t i = from + threadIdx.x; i < to; i += TP__THREADS) atomicAdd(&sum[key[i] >> shift & 15u], 1u);
    __syncthreads();
    if (threadIdx.x < 16) count[threadIdx.x * chunks + blockIdx.x] = sum[threadIdx.x];
}
/* The sum of what the threads before this one have. `room`: 256, shared */
__device__ __forceinline__ unsigned tp__sort_before(unsigned x, unsigned *room)
{
    unsigned sum = x;
    __syncthreads();
    room[threadIdx.x] = x;
    __syncthreads();
    for (unsigned d = 1; d < TP__THREADS; d *= 2) {
        const unsigned other = threadIdx.x >= d ? room[threadIdx.x - d] : 0;
        __syncthreads();
        sum += other;
        room[threadIdx.x] = sum;
        __syncthreads();
    }
    return sum - x;
}
TP_KERNEL tp__sort_places(uint32_t *count, int64_t n) /* one block */
{
    TP_SHARED(unsigned, room, TP__THREADS);
    const int64_t each = (n + TP__THREADS - 1) / TP__THREADS, from = threadIdx.x * each,
                  to = from + each < n ? from + each : n;
    unsigned sum = 0;
    for (int64_t i = from; i < to; i++) sum += count[i];
    sum = tp__sort_before(sum, room);
    for (int64_t i = from; i < to; i++) {
        const unsigned here = count[i];
        count[i] = sum;
        sum += here;
    }
}
TP_KERNEL tp__sort_move(const uint32_t *key, const uint32_t *index, uint32_t *key_to, uint32_t *index_to,
                        const uint32_t *count, int64_t n, int64_t chunks, int shift)
{
    enum { EACH = TP__SORT_CHUNK / TP__THREADS };
    TP_SHARED(unsigned, room, TP__THREADS);
    TP_SHARED(unsigned, place, 16 * TP__THREADS); /* of the next number of a digit that a thread has: digit by digit */
    TP_SHARED(unsigned, start, 16);
    const int64_t from = (int64_t)blockIdx.x * TP__SORT_CHUNK + threadIdx.x * EACH;
    for (int d = 0; d < 16; d++) place[d * TP__THREADS + threadIdx.x] = 0;
    for (int64_t i = from; i < from + EACH && i < n; i++) place[(key[i] >> shift & 15u) * TP__THREADS + threadIdx.x]++;
    __syncthreads();
    unsigned sum = 0;
    for (int j = 0; j < 16; j++) sum += place[threadIdx.x * 16 + j];
    sum = tp__sort_before(sum, room);
    for (int j = 0; j < 16; j++) {
        const unsigned here = place[threadIdx.x * 16 + j];
        place[threadIdx.x * 16 + j] = sum;
        sum += here;
    }
    __syncthreads();
    if (threadIdx.x < 16) start[threadIdx.x] = place[threadIdx.x * TP__THREADS];
    __syncthreads();
    for (int64_t i = from; i < from + EACH && i < n; i++) {
        const unsigned digit = key[i] >> shift & 15u, at = place[digit * TP__THREADS + threadIdx.x]++;
        const int64_t to = (int64_t)count[digit * chunks + blockIdx.x] + (at - start[digit]);
        key_to[to] = key[i];
        index_to[to] = index[i];
    }
}
/* The first place of each pixel in the sorted list. */
TP_KERNEL tp__sampler_froms(const uint32_t *key, uint32_t *from, int64_t places, int64_t pixels)
{
    TP_EACH(i, pixels + 1)
    {
        int64_t low = 0, high = places;
        while (low < high) {
            const int64_t mid = (low + high) / 2;
            if ((int64_t)key[mid] < i) low = mid + 1;
            else high = mid;
        }
        from[i] = (uint32_t)low;
    }
}
template <class T, int V>
TP_KERNEL tp__sampler_gather(const tp__sampler_args a, const uint32_t *index, const T *dy, const T *coords, T *dx,
                             int64_t pixels)
{
    typedef tp__real<T> R;
    const int64_t C = a.C / V;
    TP_EACH(e, pixels * C)
    {
        const int64_t at = tp__seq_divide(e, C), c = (e - at * C) * V, r = tp__seq_divide(at, a.W);
        const int64_t pw = at - r * a.W, ph = r - tp__seq_divide(r, a.H) * a.H;
        R sum[V];
        for (int m = 0; m < V; m++) sum[m] = 0;
        for (int side = 0; side < 4; side++) { /* the pixel itself, those left of it, above, left above */
            if ((side & 1 && pw == 0) || (side & 2 && ph == 0)) continue;
            const int64_t first = at - (side & 1) - (side & 2 ? a.W : 0);
            for (int64_t l = a.from[first], end = a.from[first + 1]; l < end; l++) {
                const int64_t i = index[l];
                R f[2];
                int64_t h[2], w[2];
                tp__sampler_place(tp__get(coords, 2 * i), a.H, a.border, h, &f[0]);
                tp__sampler_place(tp__get(coords, 2 * i + 1), a.W, a.border, w, &f[1]);
                const tp__pixels<T, V> d = *(const tp__pixels<T, V> *)(dy + i * a.C + c);
                for (int p = 0; p < 4; p++) { /* at an edge several of the four are this pixel */
                    if (h[p >> 1] != ph || w[p & 1] != pw) continue;
                    const R wh = p >> 1 ? f[0] : 1 - f[0], ww = p & 1 ? f[1] : 1 - f[1];
#pragma unroll
                    for (int m = 0; m < V; m++) sum[m] += tp__get(d.v, m) * wh * ww;
                }
            }
        }
        tp__pixels<T, V> out;
        for (int m = 0; m < V; m++) tp__put(out.v, m, sum[m]);
        *(tp__pixels<T, V> *)(dx + at * a.C + c) = out;
    }
}
template <class T>
static void tp__sampler_image(const tp_call *k, const tp__sampler_args *a, const T *dy, const T *coords, T *dx)
{
    for (int64_t b = 0; b < a->B; b += a->group) {
        const int64_t images = a->B - b < a->group ? a->B - b : a->group, places = images * a->n,
                      pixels = images * a->H * a->W, chunks = (places + TP__SORT_CHUNK - 1) / TP__SORT_CHUNK;
        const T *at = coords + b * a->n * 2, *d = dy + b * a->n * a->C;
        T *to = dx + b * a->H * a->W * a->C;
        int now = 0;
        TP_RUN(k, (tp__sampler_keys<T>), places, *a, at, places, (uint32_t)pixels);
        for (int shift = 0; shift < 32 && pixels >> shift && places > 0; shift += 4, now ^= 1) {
            TP_RUN_BLOCKS(k, tp__sort_count, chunks, TP__THREADS, 0, a->key[now], a->count, places, chunks, shift);
            TP_RUN_BLOCKS(k, tp__sort_places, 1, TP__THREADS, 0, a->count, 16 * chunks);
            TP_RUN_BLOCKS(k, tp__sort_move, chunks, TP__THREADS, 0, a->key[now], a->index[now], a->key[!now],
                          a->index[!now], a->count, places, chunks, shift);
        }
        TP_RUN(k, tp__sampler_froms, pixels + 1, a->key[now], a->from, places, pixels);
        if (a->C % 4 == 0)
            TP_RUN(k, (tp__sampler_gather<T, 4>), pixels * a->C / 4, *a, a->index[now], d, at, to, pixels);
        else TP_RUN(k, (tp__sampler_gather<T, 1>), pixels * a->C, *a, a->index[now], d, at, to, pixels);
    }
}
static void tp__sampler_back_cuda(const tp_call *k) /* in: dy, image, coords */
{
    const tp__sampler_args a = tp__sampler_args_of(k, &k->in[1].shape, &k->in[2].shape, true);
    const int64_t places = a.B * a.n;
    if (a.H * a.W >= 0xffffffffll || a.n >= 0xffffffffll) {
        tp__broken(tp__cuda_of(k), k->op->name, "an image has more pixels or coordinates than 32 bits number");
        return;
    }
    TP_REALS(k->in[0].dtype, {
        const T *dy = (const T *)k->in[0].data, *image = (const T *)k->in[1].data, *coords = (const T *)k->in[2].data;
        T *dc = (T *)k->out[1].data;
        if (dc && a.C <= 4) TP_RUN(k, (tp__sampler_coords<T, 1>), places, a, dy, image, coords, dc);
        else if (dc && a.C <= 32) TP_RUN(k, (tp__sampler_coords<T, 8>), places * 8, a, dy, image, coords, dc);
        else if (dc) TP_RUN(k, (tp__sampler_coords<T, 32>), places * 32, a, dy, image, coords, dc);
        if (k->out[0].data) tp__sampler_image<T>(k, &a, dy, coords, (T *)k->out[0].data);
    });
}
static size_t tp__sampler_bytes(const tp_call *k)
{
    return tp__sampler_args_of(k, &k->in[1].shape, &k->in[2].shape, true).bytes;
}

static const tp__cuda_kernel tp__cuda_images[] = {{"resize", tp__resize_cuda, tp__resize_bytes},
                                                  {"resize_grad", tp__resize_back_cuda, tp__resize_bytes},
                                                  {"bilinear_sampler", tp__sampler_cuda, NULL},
                                                  {"bilinear_sampler_grad", tp__sampler_back_cuda, tp__sampler_bytes},
                                                  {NULL, NULL, NULL}};

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
