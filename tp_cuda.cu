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
/* Rows that move elements without looking at them move units: 1, 2, 4, 8 or 16 bytes, as many elements at a time as divide
 * every run, distance and address. A thread has four units under way, a block apart. */

/* Quotients by a number that the host knows; numerators below 2^31 take a multiplication and a shift. */
typedef struct tp__divisor {
    int64_t d;
    uint32_t factor, shift;
    bool small;
} tp__divisor;
static tp__divisor tp__divide_by(int64_t d, int64_t numerators) /* from 0 up to here */
{
    tp__divisor v;
    memset(&v, 0, sizeof v);
    v.d = d > 0 ? d : 1;
    v.small = numerators <= INT32_MAX && v.d <= INT32_MAX;
    if (v.small) {
        while (((int64_t)1 << v.shift) < v.d) v.shift++;
        v.factor = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << v.shift) - (uint64_t)v.d)) / (uint64_t)v.d + 1);
    }
    return v;
}
__device__ __forceinline__ int64_t tp__quotient(int64_t i, const tp__divisor &v)
{
    if (!v.small) return i / v.d;
    return (int64_t)(((uint32_t)(((uint64_t)(uint32_t)i * v.factor) >> 32) + (uint32_t)i) >> v.shift);
}

/* The body with T as a unit of so many bytes. */
#define TP__UNITS(bytes_, ...)  \
    do {                        \
        switch (bytes_) {       \
        case 1: {               \
            typedef uint8_t T;  \
            __VA_ARGS__         \
        } break;                \
        case 2: {               \
            typedef uint16_t T; \
            __VA_ARGS__         \
        } break;                \
        case 4: {               \
            typedef uint32_t T; \
            __VA_ARGS__         \
        } break;                \
        case 8: {               \
            typedef uint2 T;    \
            __VA_ARGS__         \
        } break;                \
        default: {              \
            typedef uint4 T;    \
            __VA_ARGS__         \
        } break;                \
        }                       \
    } while (0)
/* The largest unit that divides all numbers whose bits are in `bits`. */
static int64_t tp__unit_of(uint64_t bits)
{
    int64_t unit = 16;
    while (bits & (uint64_t)(unit - 1)) unit /= 2;
    return unit;
}

/* Four neighbours in one access; every operand begins at a multiple of 64 bytes. m of them exist. */
template <class T> struct alignas(4 * sizeof(T)) tp__four {
    T v[4];
};
template <class T> __device__ __forceinline__ void tp__get_four(const T *p, int64_t i, int m, tp__real<T> x[4])
{
    if (m == 4) {
        const tp__four<T> t = *(const tp__four<T> *)(p + i);
        for (int j = 0; j < 4; j++) x[j] = tp__get(t.v, j);
    } else
        for (int j = 0; j < 4; j++) x[j] = j < m ? tp__get(p, i + j) : 0;
}
template <class T> __device__ __forceinline__ void tp__put_four(T *p, int64_t i, int m, const tp__real<T> x[4])
{
    if (m == 4) {
        tp__four<T> t;
        for (int j = 0; j < 4; j++) tp__put(t.v, j, x[j]);
        *(tp__four<T> *)(p + i) = t;
    } else
        for (int j = 0; j < 4; j++) /* a loop of known length: x stays in registers */
            if (j < m) tp__put(p, i + j, x[j]);
}

/* A number as an element of any type, repeated as often as a unit holds it. */
template <class T> __device__ __forceinline__ T tp__pattern(float value, int dtype)
{
    union {
        uint64_t word[2];
        T unit;
    } p;
    switch (dtype) {
    case TP_F32: p.word[0] = __float_as_uint(value); break;
    case TP_F64: p.word[0] = (uint64_t)__double_as_longlong((double)value); break;
    case TP_F16: p.word[0] = tp__f16_of_f32(value); break;
    case TP_BF16: p.word[0] = tp__bf16_of_f32(value); break;
    case TP_I32: p.word[0] = (uint32_t)tp__whole((double)value, -2147483648.0, 2147483647.0); break;
    case TP_I64: p.word[0] = (uint64_t)tp__whole((double)value, -9223372036854775808.0, 9223372036854775807.0); break;
    case TP_U8: p.word[0] = (uint64_t)tp__whole((double)value, 0.0, 255.0); break;
    default: p.word[0] = value != 0; break;
    }
    if (dtype == TP_U8 || dtype == TP_BOOL) p.word[0] |= p.word[0] << 8;
    if (dtype == TP_U8 || dtype == TP_BOOL || dtype == TP_F16 || dtype == TP_BF16) p.word[0] |= p.word[0] << 16;
    if (dtype != TP_F64 && dtype != TP_I64) p.word[0] |= p.word[0] << 32;
    p.word[1] = p.word[0];
    return p.unit;
}

/* -- group: nothing */
static void tp__group_cuda(const tp_call *k) { (void)k; }

/* -- fill_like */
template <class T> TP_KERNEL tp__fill_units(T *y, int64_t n, float value, int dtype)
{
    const T v = tp__pattern<T>(value, dtype);
    TP_EACH(i, n) y[i] = v;
}
static void tp__fill_like_cuda(const tp_call *k)
{
    const tp_operand *y = &k->out[0];
    const int64_t bytes = tp__size(y) * (int64_t)tp__dtype_size(y->dtype);
    const int64_t unit = tp__unit_of((uint64_t)bytes | (uint64_t)(uintptr_t)y->data);
    const float value = ((const tp__fill_attrs *)k->attrs)->value;
    TP__UNITS(unit, TP_RUN(k, (tp__fill_units<T>), bytes / unit, (T *)y->data, bytes / unit, value, (int)y->dtype););
}

/* -- strided moves: dst[sum i_d ds_d] = src[sum i_d ss_d] for all indices i below dim; distances count elements */
#define TP__MOVE_MOST (2 * TP_MAX_DIMS)
typedef struct tp__moving {
    int ndim;
    int64_t dim[TP__MOVE_MOST], ds[TP__MOVE_MOST], ss[TP__MOVE_MOST];
    char *dst;
    const char *src;
    int64_t size; /* bytes of an element */
} tp__moving;

static tp__moving tp__moving_of(const tp_operand *y, const tp_operand *x)
{
    tp__moving m;
    memset(&m, 0, sizeof m);
    m.dst = (char *)y->data;
    m.src = (const char *)x->data;
    m.size = (int64_t)tp__dtype_size(x->dtype);
    return m;
}
/* One more dimension, further in than the last; one run with it where distances allow. */
static void tp__moving_add(tp__moving *m, int64_t dim, int64_t ds, int64_t ss)
{
    const int d = m->ndim - 1;
    if (dim == 1) return;
    if (d >= 0 && m->ds[d] == ds * dim && m->ss[d] == ss * dim) {
        m->dim[d] *= dim, m->ds[d] = ds, m->ss[d] = ss;
        return;
    }
    m->dim[m->ndim] = dim, m->ds[m->ndim] = ds, m->ss[m->ndim++] = ss;
}

typedef struct tp__move_plan {
    int64_t n;
    int ndim;
    tp__divisor dim[TP__MOVE_MOST];
    int64_t ds[TP__MOVE_MOST], ss[TP__MOVE_MOST];
} tp__move_plan;

/* In the order of dst: neighbouring threads write neighbours. */
template <class T> TP_KERNEL tp__move_units(T *dst, const T *src, const __grid_constant__ tp__move_plan m)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x * 4;
    for (int64_t at = (int64_t)blockIdx.x * blockDim.x * 4 + threadIdx.x; at < m.n; at += step) {
        T unit[4];
        int64_t to[4];
        for (int j = 0; j < 4; j++) {
            int64_t i = at + (int64_t)j * blockDim.x, from = 0;
            if (i >= m.n) break;
            to[j] = 0;
            for (int d = m.ndim - 1; d > 0; d--) {
                const int64_t q = tp__quotient(i, m.dim[d]), r = i - q * m.dim[d].d;
                to[j] += r * m.ds[d];
                from += r * m.ss[d];
                i = q;
            }
            to[j] += i * m.ds[0];
            unit[j] = src[from + i * m.ss[0]];
        }
        for (int j = 0; j < 4; j++)
            if (at + (int64_t)j * blockDim.x < m.n) dst[to[j]] = unit[j];
    }
}

/* Where dst runs along one dimension and src along another: squares go through shared memory. */
typedef struct tp__tile_plan {
    int64_t rows, cols, ds_row, ss_col; /* dst[row ds_row + col] = src[row + col ss_col] */
    tp__divisor across, down;           /* squares side by side, and one below the other */
    int ndim;                           /* the other dimensions */
    tp__divisor dim[TP__MOVE_MOST];
    int64_t ds[TP__MOVE_MOST], ss[TP__MOVE_MOST];
} tp__tile_plan;

template <class T, int SIDE> TP_KERNEL tp__move_tile(T *dst, const T *src, const __grid_constant__ tp__tile_plan m)
{
    TP_SHARED(T, tile, SIDE * (SIDE + 1));
    int64_t rest = blockIdx.x, q = tp__quotient(rest, m.across);
    const int64_t col0 = (rest - q * m.across.d) * SIDE;
    rest = q;
    q = tp__quotient(rest, m.down);
    const int64_t row0 = (rest - q * m.down.d) * SIDE;
    rest = q;
    for (int d = m.ndim - 1; d >= 0; d--) {
        q = tp__quotient(rest, m.dim[d]);
        dst += (rest - q * m.dim[d].d) * m.ds[d];
        src += (rest - q * m.dim[d].d) * m.ss[d];
        rest = q;
    }
    const int x = (int)threadIdx.x % SIDE, y0 = (int)threadIdx.x / SIDE;
    for (int j = 0; j < SIDE * SIDE / TP__THREADS; j++) {
        const int y = y0 + j * (TP__THREADS / SIDE);
        if (col0 + y < m.cols && row0 + x < m.rows) tile[y * (SIDE + 1) + x] = src[(col0 + y) * m.ss_col + row0 + x];
    }
    __syncthreads();
    for (int j = 0; j < SIDE * SIDE / TP__THREADS; j++) {
        const int y = y0 + j * (TP__THREADS / SIDE);
        if (row0 + y < m.rows && col0 + x < m.cols) dst[(row0 + y) * m.ds_row + col0 + x] = tile[x * (SIDE + 1) + y];
    }
}

/* True if it went through squares. */
static bool tp__move_turned(const tp_call *k, const tp__moving *m)
{
    const int last = m->ndim - 1, side = m->size <= 2 ? 64 : 32;
    int row = -1;
    for (int d = 0; d < last; d++)
        if (m->ss[d] == 1) row = d;
    if (row < 0 || m->ds[last] != 1 || m->ss[last] == 1 || m->dim[row] < 8 || m->dim[last] < 8) return false;
    tp__tile_plan p;
    memset(&p, 0, sizeof p);
    p.rows = m->dim[row], p.cols = m->dim[last];
    p.ds_row = m->ds[row], p.ss_col = m->ss[last];
    const int64_t across = (p.cols + side - 1) / side, down = (p.rows + side - 1) / side;
    int64_t blocks = across * down;
    for (int d = 0; d < last; d++)
        if (d != row) blocks *= m->dim[d];
    if (blocks > INT32_MAX) return false;
    p.across = tp__divide_by(across, blocks), p.down = tp__divide_by(down, blocks);
    for (int d = 0; d < last; d++) {
        if (d == row) continue;
        p.dim[p.ndim] = tp__divide_by(m->dim[d], blocks);
        p.ds[p.ndim] = m->ds[d], p.ss[p.ndim++] = m->ss[d];
    }
    switch (m->size) {
    case 1:
        TP_RUN_BLOCKS(k, (tp__move_tile<uint8_t, 64>), blocks, TP__THREADS, 0, (uint8_t *)m->dst,
                      (const uint8_t *)m->src, p);
        break;
    case 2:
        TP_RUN_BLOCKS(k, (tp__move_tile<uint16_t, 64>), blocks, TP__THREADS, 0, (uint16_t *)m->dst,
                      (const uint16_t *)m->src, p);
        break;
    case 4:
        TP_RUN_BLOCKS(k, (tp__move_tile<uint32_t, 32>), blocks, TP__THREADS, 0, (uint32_t *)m->dst,
                      (const uint32_t *)m->src, p);
        break;
    default:
        TP_RUN_BLOCKS(k, (tp__move_tile<uint64_t, 32>), blocks, TP__THREADS, 0, (uint64_t *)m->dst,
                      (const uint64_t *)m->src, p);
        break;
    }
    return true;
}

static void tp__move_cuda(const tp_call *k, const tp__moving *move)
{
    tp__moving m = *move;
    tp__move_plan p;
    memset(&p, 0, sizeof p);
    p.n = 1;
    for (int d = 0; d < m.ndim; d++) p.n *= m.dim[d];
    if (p.n == 0) return;
    if (m.ndim == 0 || (m.ndim == 1 && m.ds[0] == 1 && m.ss[0] == 1)) {
        const cudaError_t e =
            cudaMemcpyAsync(m.dst, m.src, (size_t)(p.n * m.size), cudaMemcpyDeviceToDevice, tp__cuda_of(k)->stream);
        if (e != cudaSuccess) tp__broken(tp__cuda_of(k), k->op->name, cudaGetErrorString(e));
        return;
    }
    if (tp__move_turned(k, &m)) return;
    const int last = m.ndim - 1;
    if (m.ds[last] == 1 && m.ss[last] == 1) { /* larger units */
        uint64_t bits = (uint64_t)(uintptr_t)m.dst | (uint64_t)(uintptr_t)m.src | (uint64_t)(m.dim[last] * m.size);
        for (int d = 0; d < last; d++) bits |= (uint64_t)(m.ds[d] * m.size) | (uint64_t)(m.ss[d] * m.size);
        const int64_t times = tp__unit_of(bits) / m.size;
        for (int d = 0; d < last; d++) m.ds[d] /= times, m.ss[d] /= times;
        m.dim[last] /= times, m.size *= times, p.n /= times;
    }
    p.ndim = m.ndim;
    for (int d = 0; d < m.ndim; d++) {
        p.dim[d] = tp__divide_by(m.dim[d], p.n);
        p.ds[d] = m.ds[d], p.ss[d] = m.ss[d];
    }
    TP__UNITS(m.size, TP_RUN(k, (tp__move_units<T>), (p.n + 3) / 4, (T *)m.dst, (const T *)m.src, p););
}

/* -- broadcast_like: no distance along what is repeated */
static void tp__broadcast_like_cuda(const tp_call *k)
{
    const tp__dims y = tp__dims_of(&k->out[0].shape), x = tp__dims_of(&k->in[0].shape);
    tp__moving m = tp__moving_of(&k->out[0], &k->in[0]);
    for (int d = 0; d < y.n; d++) {
        const int e = d - (y.n - x.n);
        tp__moving_add(&m, y.dim[d], y.stride[d], e < 0 || x.dim[e] == 1 ? 0 : x.stride[e]);
    }
    tp__move_cuda(k, &m);
}

/* -- transpose */
static void tp__transpose_cuda(const tp_call *k)
{
    const tp__transpose_attrs *t = (const tp__transpose_attrs *)k->attrs;
    const tp__dims y = tp__dims_of(&k->out[0].shape), x = tp__dims_of(&k->in[0].shape);
    tp__moving m = tp__moving_of(&k->out[0], &k->in[0]);
    for (int d = 0; d < y.n; d++)
        tp__moving_add(&m, y.dim[d], y.stride[d], x.stride[t->n == 0 ? x.n - 1 - d : tp__axis(t->perm[d], x.n)]);
    tp__move_cuda(k, &m);
}

/* -- reverse: along some axes src is read from its end */
static void tp__reverse_cuda(const tp_call *k)
{
    const tp__reduce_attrs *t = (const tp__reduce_attrs *)k->attrs;
    const tp__dims x = tp__dims_of(&k->in[0].shape);
    tp__moving m = tp__moving_of(&k->out[0], &k->in[0]);
    if (tp__size(&k->in[0]) == 0) return;
    for (int d = 0; d < x.n; d++) {
        bool turned = t->n_axes == 0;
        for (int a = 0; a < t->n_axes; a++) turned = turned || tp__axis(t->axes[a], x.n) == d;
        if (turned) m.src += (x.dim[d] - 1) * x.stride[d] * m.size;
        tp__moving_add(&m, x.dim[d], x.stride[d], turned ? -x.stride[d] : x.stride[d]);
    }
    tp__move_cuda(k, &m);
}

/* -- concat, concat_grad, split, stack, unstack: `whole` is rows, and each part has a piece of every row. One launch for up
 * to 64 parts: a block works on one part. */
#define TP__PARTS_MOST 64
typedef struct tp__part_list {
    int n;
    int64_t row; /* units of a row of the whole */
    void *part[TP__PARTS_MOST];
    int64_t size[TP__PARTS_MOST], at[TP__PARTS_MOST]; /* units of a part, and where it stands in a row */
    tp__divisor width[TP__PARTS_MOST];                /* its units of a row */
    uint32_t first[TP__PARTS_MOST + 1];               /* its first block */
} tp__part_list;

template <class T, bool JOIN> TP_KERNEL tp__move_parts(T *whole, const __grid_constant__ tp__part_list p)
{
    int low = 0, high = p.n - 1;
    while (low < high) { /* the last part that begins no later */
        const int middle = (low + high + 1) / 2;
        if (p.first[middle] <= blockIdx.x) low = middle;
        else high = middle - 1;
    }
    T *part = (T *)p.part[low];
    const int64_t i0 = (int64_t)(blockIdx.x - p.first[low]) * TP__THREADS * 4 + threadIdx.x, n = p.size[low];
    T unit[4];
    int64_t at[4];
    for (int j = 0; j < 4; j++) {
        const int64_t i = i0 + j * TP__THREADS;
        if (i >= n) break;
        const int64_t row = tp__quotient(i, p.width[low]);
        at[j] = row * p.row + p.at[low] + (i - row * p.width[low].d);
        unit[j] = JOIN ? part[i] : whole[at[j]];
    }
    for (int j = 0; j < 4; j++) {
        const int64_t i = i0 + j * TP__THREADS;
        if (i >= n) break;
        if (JOIN) whole[at[j]] = unit[j];
        else part[i] = unit[j];
    }
}

/* part: n operands, whose data may be NULL. They have the axis as well, or (stack, unstack) the whole alone does. */
static void tp__parts_cuda(const tp_call *k, const tp_operand *whole, const tp_operand *part, int n, int axis,
                           bool join)
{
    const int64_t size = (int64_t)tp__dtype_size(whole->dtype);
    axis = tp__axis(axis, whole->shape.ndim);
    const int64_t rows = tp__product_of(&whole->shape, 0, axis),
                  row = tp__product_of(&whole->shape, axis, whole->shape.ndim);
    int64_t at = 0;
    if (rows == 0 || row == 0) return;
    for (int i = 0; i < n;) {
        tp__part_list p;
        memset(&p, 0, sizeof p);
        uint64_t bits = (uint64_t)(uintptr_t)whole->data | (uint64_t)(row * size);
        for (; i < n && p.n < TP__PARTS_MOST; i++) {
            const int64_t width = tp__product_of(&part[i].shape, axis, part[i].shape.ndim);
            if (part[i].data && width > 0) {
                p.part[p.n] = part[i].data;
                p.size[p.n] = width; /* in elements of a row, till the unit is known */
                p.at[p.n++] = at;
                bits |= (uint64_t)(uintptr_t)part[i].data | (uint64_t)(width * size) | (uint64_t)(at * size);
            }
            at += width;
        }
        const int64_t unit = tp__unit_of(bits);
        int64_t blocks = 0;
        p.row = row * size / unit;
        for (int j = 0; j < p.n; j++) {
            const int64_t width = p.size[j] * size / unit;
            p.size[j] = rows * width;
            p.at[j] = p.at[j] * size / unit;
            p.width[j] = tp__divide_by(width, p.size[j]);
            p.first[j] = (uint32_t)blocks;
            blocks += (p.size[j] + TP__THREADS * 4 - 1) / (TP__THREADS * 4);
        }
        if (blocks > INT32_MAX) {
            tp__broken(tp__cuda_of(k), k->op->name, "its values are too large");
            return;
        }
        if (join)
            TP__UNITS(unit, TP_RUN_BLOCKS(k, (tp__move_parts<T, true>), blocks, TP__THREADS, 0, (T *)whole->data, p););
        else
            TP__UNITS(unit, TP_RUN_BLOCKS(k, (tp__move_parts<T, false>), blocks, TP__THREADS, 0, (T *)whole->data, p););
    }
}
static void tp__concat_cuda(const tp_call *k)
{
    tp__parts_cuda(k, &k->out[0], k->in, k->n_in, ((const tp__axis_attrs *)k->attrs)->axis, true);
}
static void tp__concat_grad_cuda(const tp_call *k)
{
    tp__parts_cuda(k, &k->in[0], k->out, k->n_out, ((const tp__axis_attrs *)k->attrs)->axis, false);
}
static void tp__split_cuda(const tp_call *k) /* unstack too */
{
    tp__parts_cuda(k, &k->in[0], k->out, k->n_out, ((const tp__parts_attrs *)k->attrs)->axis, false);
}

/* -- slice */
static void tp__slice_cuda(const tp_call *k)
{
    const int64_t *begin = ((const tp__slice_attrs *)k->attrs)->begin;
    const tp__dims y = tp__dims_of(&k->out[0].shape), x = tp__dims_of(&k->in[0].shape);
    tp__moving m = tp__moving_of(&k->out[0], &k->in[0]);
    for (int d = 0; d < y.n; d++) {
        m.src += begin[d] * x.stride[d] * m.size;
        tp__moving_add(&m, y.dim[d], y.stride[d], x.stride[d]);
    }
    tp__move_cuda(k, &m);
}

/* -- pad, slice_grad: each element of y finds the one of x that stands there; outside of x, the border's value */
typedef struct tp__border {
    int64_t n;
    int ndim, mode;
    tp__divisor y[TP_MAX_DIMS];
    int64_t x[TP_MAX_DIMS], before[TP_MAX_DIMS], stride[TP_MAX_DIMS];
} tp__border;

/* The index in x, n long, of place i; outside of [0, n) it is the border of a constant. */
__device__ __forceinline__ int64_t tp__mirrored(int64_t i, int64_t n, int mode)
{
    if (i >= 0 && i < n) return i;
    if (mode == TP_PAD_REFLECT) return i < 0 ? -i : 2 * (n - 1) - i;
    if (mode == TP_PAD_SYMMETRIC) return i < 0 ? -i - 1 : 2 * n - 1 - i;
    return -1;
}
template <class T>
TP_KERNEL tp__pad_units(T *y, const T *x, const __grid_constant__ tp__border b, float value, int dtype)
{
    const T border = tp__pattern<T>(value, dtype);
    const int64_t step = (int64_t)gridDim.x * blockDim.x * 4;
    for (int64_t to = (int64_t)blockIdx.x * blockDim.x * 4 + threadIdx.x; to < b.n; to += step) {
        T unit[4];
        for (int j = 0; j < 4; j++) {
            int64_t i = to + (int64_t)j * blockDim.x, from = 0;
            bool inside = true;
            if (i >= b.n) break;
            for (int d = b.ndim - 1; d >= 0; d--) {
                const int64_t q = tp__quotient(i, b.y[d]);
                const int64_t at = tp__mirrored(i - q * b.y[d].d - b.before[d], b.x[d], b.mode);
                inside = inside && at >= 0;
                from += at * b.stride[d];
                i = q;
            }
            unit[j] = inside ? x[from] : border;
        }
        for (int j = 0; j < 4; j++)
            if (to + (int64_t)j * blockDim.x < b.n) y[to + (int64_t)j * blockDim.x] = unit[j];
    }
}
static void tp__border_cuda(const tp_call *k, const int64_t *before, int mode, float value)
{
    const tp_operand *y = &k->out[0], *x = &k->in[0];
    int64_t ydim[TP_MAX_DIMS], size = (int64_t)tp__dtype_size(y->dtype), stride = 1;
    tp__border b;
    memset(&b, 0, sizeof b);
    b.mode = mode;
    b.n = tp__size(y);
    if (b.n == 0) return;
    for (int d = 0; d < y->shape.ndim; d++) {
        const int64_t n = y->shape.dim[d], m = x->shape.dim[d];
        const int e = b.ndim - 1;
        /* a dimension without a border is one with the next outer one, which must have none either if it is mirrored */
        if (e >= 0 && n == m && n > 0 && (mode == TP_PAD_CONSTANT || ydim[e] == b.x[e]))
            ydim[e] *= n, b.x[e] *= n, b.before[e] *= n;
        else ydim[b.ndim] = n, b.x[b.ndim] = m, b.before[b.ndim++] = before[d];
    }
    const int last = b.ndim - 1;
    if (last >= 0 && (mode == TP_PAD_CONSTANT || ydim[last] == b.x[last])) { /* larger units */
        const int64_t times =
            tp__unit_of((uint64_t)(uintptr_t)y->data | (uint64_t)(uintptr_t)x->data | (uint64_t)(ydim[last] * size) |
                        (uint64_t)(b.x[last] * size) | (uint64_t)(b.before[last] * size)) /
            size;
        ydim[last] /= times, b.x[last] /= times, b.before[last] /= times, size *= times, b.n /= times;
    }
    for (int d = last; d >= 0; d--) {
        b.y[d] = tp__divide_by(ydim[d], b.n);
        b.stride[d] = stride;
        stride *= b.x[d];
    }
    TP__UNITS(size,
              TP_RUN(k, (tp__pad_units<T>), (b.n + 3) / 4, (T *)y->data, (const T *)x->data, b, value, (int)y->dtype););
}
static void tp__pad_cuda(const tp_call *k)
{
    const tp__pad_attrs *t = (const tp__pad_attrs *)k->attrs;
    tp__border_cuda(k, t->before, t->mode, t->value);
}
static void tp__slice_grad_cuda(const tp_call *k)
{
    tp__border_cuda(k, ((const tp__slice_attrs *)k->attrs)->begin, TP_PAD_CONSTANT, 0.0f);
}

/* -- pad_grad: an element of x has up to three places along each dimension; their gradients are added in order */
typedef struct tp__places {
    int64_t n;
    int ndim, mode;
    tp__divisor x[TP_MAX_DIMS];
    int64_t y[TP_MAX_DIMS], before[TP_MAX_DIMS], stride[TP_MAX_DIMS];
} tp__places;
template <class T> TP_KERNEL tp__pad_grad_sum(T *dx, const T *dy, const __grid_constant__ tp__places p)
{
    TP_EACH(i, p.n)
    {
        int64_t place[TP_MAX_DIMS][3], rest = i;
        int n[TP_MAX_DIMS], at[TP_MAX_DIMS];
        for (int d = p.ndim - 1; d >= 0; d--) {
            const int64_t q = tp__quotient(rest, p.x[d]), e = rest - q * p.x[d].d, size = p.x[d].d;
            const int64_t edge = p.mode == TP_PAD_REFLECT ? 0 : 1; /* reflect: the edge is not doubled */
            const int64_t low = p.before[d] - e - edge, high = p.before[d] + 2 * size - 2 + edge - e;
            n[d] = at[d] = 0;
            if (p.mode != TP_PAD_CONSTANT && low >= 0 && low < p.before[d]) place[d][n[d]++] = low * p.stride[d];
            place[d][n[d]++] = (p.before[d] + e) * p.stride[d];
            if (p.mode != TP_PAD_CONSTANT && high >= p.before[d] + size && high < p.y[d])
                place[d][n[d]++] = high * p.stride[d];
            rest = q;
        }
        tp__real<T> sum = 0;
        for (int d = 0; d >= 0;) { /* all combinations, row by row */
            int64_t from = 0;
            for (d = 0; d < p.ndim; d++) from += place[d][at[d]];
            sum += tp__get(dy, from);
            for (d = p.ndim - 1; d >= 0 && ++at[d] == n[d]; d--) at[d] = 0;
        }
        tp__put(dx, i, sum);
    }
}
static void tp__pad_grad_cuda(const tp_call *k)
{
    const tp__pad_attrs *t = (const tp__pad_attrs *)k->attrs;
    const tp__dims y = tp__dims_of(&k->in[0].shape), x = tp__dims_of(&k->out[0].shape);
    if (t->mode == TP_PAD_CONSTANT) { /* the box inside of it */
        tp__moving m = tp__moving_of(&k->out[0], &k->in[0]);
        for (int d = 0; d < y.n; d++) {
            m.src += t->before[d] * y.stride[d] * m.size;
            tp__moving_add(&m, x.dim[d], x.stride[d], y.stride[d]);
        }
        tp__move_cuda(k, &m);
        return;
    }
    tp__places p;
    memset(&p, 0, sizeof p);
    p.n = tp__size(&k->out[0]);
    p.ndim = x.n;
    p.mode = t->mode;
    for (int d = 0; d < x.n; d++) {
        p.x[d] = tp__divide_by(x.dim[d], p.n);
        p.y[d] = y.dim[d], p.before[d] = t->before[d], p.stride[d] = y.stride[d];
    }
    TP_REALS(k->out[0].dtype, TP_RUN(k, (tp__pad_grad_sum<T>), p.n, (T *)k->out[0].data, (const T *)k->in[0].data, p););
}

/* -- tile */
static void tp__tile_cuda(const tp_call *k)
{
    const int64_t *times = ((const tp__tile_attrs *)k->attrs)->multiples;
    const tp__dims y = tp__dims_of(&k->out[0].shape), x = tp__dims_of(&k->in[0].shape);
    tp__moving m = tp__moving_of(&k->out[0], &k->in[0]);
    for (int d = 0; d < x.n; d++) {
        tp__moving_add(&m, times[d], y.stride[d] * x.dim[d], 0);
        tp__moving_add(&m, x.dim[d], y.stride[d], x.stride[d]);
    }
    tp__move_cuda(k, &m);
}

/* -- tile_grad: the sum over the copies, in order. When x is small and the copies are many, they are cut into pieces, whose
 * sums are added by a second launch. */
typedef struct tp__copies {
    int64_t n, copies, piece; /* elements of x; copies of each, and of a piece */
    int ndim;
    tp__divisor x[TP_MAX_DIMS], times[TP_MAX_DIMS];
    int64_t stride[TP_MAX_DIMS]; /* of y */
} tp__copies;
template <class T, class P> TP_KERNEL tp__tile_grad_sum(P *sums, const T *dy, const __grid_constant__ tp__copies p)
{
    const int64_t pieces = (p.copies + p.piece - 1) / p.piece;
    TP_EACH(i, p.n * pieces)
    {
        const int64_t piece = i / p.n, to = (piece + 1) * p.piece < p.copies ? (piece + 1) * p.piece : p.copies;
        int64_t rest = i - piece * p.n, first = 0;
        for (int d = p.ndim - 1; d >= 0; d--) {
            const int64_t q = tp__quotient(rest, p.x[d]);
            first += (rest - q * p.x[d].d) * p.stride[d];
            rest = q;
        }
        tp__real<T> sum = 0;
        for (int64_t c = piece * p.piece; c < to; c++) {
            int64_t from = first;
            rest = c;
            for (int d = p.ndim - 1; d >= 0; d--) {
                const int64_t q = tp__quotient(rest, p.times[d]);
                from += (rest - q * p.times[d].d) * p.x[d].d * p.stride[d];
                rest = q;
            }
            sum += tp__get(dy, from);
        }
        tp__put(sums, i, sum);
    }
}
template <class T> TP_KERNEL tp__tile_grad_end(T *dx, const tp__real<T> *sums, int64_t n, int64_t pieces)
{
    TP_EACH(i, n)
    {
        tp__real<T> sum = 0;
        for (int64_t p = 0; p < pieces; p++) sum += sums[p * n + i];
        tp__put(dx, i, sum);
    }
}
/* From shapes alone: about 65536 sums are under way. */
static int64_t tp__tile_grad_pieces(const tp_call *k)
{
    const int64_t n = tp__size(&k->out[0]), copies = n ? tp__size(&k->in[0]) / n : 0;
    int64_t pieces = n ? 65536 / n : 0;
    if (pieces > copies / 16) pieces = copies / 16;
    return pieces > 1 ? pieces : 1;
}
static size_t tp__tile_grad_room(const tp_call *k)
{
    const int64_t pieces = tp__tile_grad_pieces(k);
    return pieces > 1 ? (size_t)(pieces * tp__size(&k->out[0])) * sizeof(double) : 0;
}
static void tp__tile_grad_cuda(const tp_call *k)
{
    const tp__dims y = tp__dims_of(&k->in[0].shape), x = tp__dims_of(&k->out[0].shape);
    const int64_t pieces = tp__tile_grad_pieces(k);
    tp__copies p;
    memset(&p, 0, sizeof p);
    p.n = tp__size(&k->out[0]);
    if (p.n == 0) return;
    p.copies = tp__size(&k->in[0]) / p.n;
    p.piece = p.copies ? (p.copies + pieces - 1) / pieces : 1;
    p.ndim = x.n;
    for (int d = 0; d < x.n; d++) {
        p.x[d] = tp__divide_by(x.dim[d], p.n);
        p.times[d] = tp__divide_by(y.dim[d] / x.dim[d], p.copies);
        p.stride[d] = y.stride[d];
    }
    const int64_t made = p.copies ? (p.copies + p.piece - 1) / p.piece : 0;
    TP_REALS(
        k->out[0].dtype, const T *dy = (const T *)k->in[0].data; T *dx = (T *)k->out[0].data;
        tp__real<T> *sums = (tp__real<T> *)k->scratch;
        if (made == 1) TP_RUN(k, (tp__tile_grad_sum<T, T>), p.n, dx, dy, p); else {
            TP_RUN(k, (tp__tile_grad_sum<T, tp__real<T>>), p.n * made, sums, dy, p);
            TP_RUN(k, (tp__tile_grad_end<T>), p.n, dx, (const tp__real<T> *)sums, p.n, made);
        });
}

/* -- gather */
typedef struct tp__indices {
    const void *data;
    bool wide; /* int64 */
    int64_t n, rows;
} tp__indices;
static tp__indices tp__indices_of(const tp_operand *x, int64_t rows)
{
    tp__indices s = {x->data, x->dtype == TP_I64, tp__size(x), rows};
    return s;
}
__device__ __forceinline__ int64_t tp__row_of(const tp__indices &s, int64_t i)
{
    return s.wide ? ((const int64_t *)s.data)[i] : (int64_t)((const int32_t *)s.data)[i];
}
/* Whoever meets a bad index looks for the first one, so that the same is reported every time. */
__device__ __forceinline__ void tp__report_index(const tp__indices &s, int64_t met, tp__fault f)
{
    if (!f.words || atomicCAS((unsigned long long *)f.words, 0ull, 0ull) != 0ull) return; /* told already */
    for (int64_t i = 0; i <= met; i++) {
        const int64_t row = tp__row_of(s, i);
        if (row >= 0 && row < s.rows) continue;
        tp__report(f, row);
        return;
    }
}
template <class T> TP_KERNEL tp__gather_units(T *y, const T *params, tp__indices s, tp__divisor width, tp__fault f)
{
    const int64_t n = s.n * width.d, step = (int64_t)gridDim.x * blockDim.x * 4;
    for (int64_t to = (int64_t)blockIdx.x * blockDim.x * 4 + threadIdx.x; to < n; to += step) {
        T unit[4];
        for (int j = 0; j < 4; j++) {
            const int64_t e = to + (int64_t)j * blockDim.x;
            if (e >= n) break;
            const int64_t i = tp__quotient(e, width), col = e - i * width.d, row = tp__row_of(s, i);
            if (row >= 0 && row < s.rows) unit[j] = params[row * width.d + col];
            else {
                unit[j] = T();
                if (col == 0) tp__report_index(s, i, f);
            }
        }
        for (int j = 0; j < 4; j++)
            if (to + (int64_t)j * blockDim.x < n) y[to + (int64_t)j * blockDim.x] = unit[j];
    }
}
TP_KERNEL tp__gather_nothing(tp__indices s, tp__fault f) /* rows without elements; indices are looked at all the same */
{
    TP_EACH(i, s.n)
    {
        const int64_t row = tp__row_of(s, i);
        if (row < 0 || row >= s.rows) tp__report_index(s, i, f);
    }
}
static void tp__gather_cuda(const tp_call *k)
{
    const tp_operand *p = &k->in[0];
    const tp__indices s = tp__indices_of(&k->in[1], p->shape.dim[0]);
    const int64_t bytes = tp__product_of(&p->shape, 1, p->shape.ndim) * (int64_t)tp__dtype_size(p->dtype);
    if (bytes == 0) {
        TP_RUN(k, tp__gather_nothing, s.n, s, tp__fault_of(k));
        return;
    }
    const int64_t unit =
        tp__unit_of((uint64_t)bytes | (uint64_t)(uintptr_t)p->data | (uint64_t)(uintptr_t)k->out[0].data);
    const tp__divisor width = tp__divide_by(bytes / unit, s.n * (bytes / unit));
    TP__UNITS(unit, TP_RUN(k, (tp__gather_units<T>), (s.n * width.d + 3) / 4, (T *)k->out[0].data, (const T *)p->data,
                           s, width, tp__fault_of(k)););
}

/* -- gather_grad: indices are sorted by row, places of one row in order (a radix sort, eight bits at a time: count, then
 * sum, then place); each row then adds its gradients in that order. Only rows named so often that whole pieces of 128
 * sorted places are theirs get these pieces' sums first; that order too depends on the indices alone. */
#define TP__SORT_TILE  2048 /* places that a block sorts: 8 of each thread */
#define TP__SORT_PIECE 128

TP_KERNEL tp__sort_begin(uint32_t *key, uint32_t *place, tp__indices s)
{
    TP_EACH(i, s.n)
    {
        const int64_t row = tp__row_of(s, i);
        key[i] = (uint32_t)(row >= 0 && row < s.rows ? row : s.rows); /* those outside go last */
        place[i] = (uint32_t)i;
    }
}
/* How often each digit occurs in each tile. */
TP_KERNEL tp__sort_count(uint32_t *count, const uint32_t *key, int64_t n, int shift)
{
    TP_SHARED(uint32_t, mine, 256);
    mine[threadIdx.x] = 0;
    __syncthreads();
    for (int j = 0; j < TP__SORT_TILE / TP__THREADS; j++) {
        const int64_t i = (int64_t)blockIdx.x * TP__SORT_TILE + j * TP__THREADS + threadIdx.x;
        if (i < n) atomicAdd(&mine[key[i] >> shift & 255u], 1u); /* whole numbers: any order */
    }
    __syncthreads();
    count[(int64_t)blockIdx.x * 256 + threadIdx.x] = mine[threadIdx.x];
}
/* Counts become places: behind all smaller digits and the same digit of earlier tiles. One block. */
TP_KERNEL tp__sort_sum(uint32_t *count, int64_t tiles)
{
    TP_SHARED(uint32_t, total, 256);
    const int digit = (int)threadIdx.x;
    uint32_t sum = 0, at = 0;
    for (int64_t t = 0; t < tiles; t++) sum += count[t * 256 + digit];
    total[digit] = sum;
    __syncthreads();
    for (int d = 0; d < digit; d++) at += total[d];
    for (int64_t t = 0; t < tiles; t += 8) {
        uint32_t part[8];
        for (int j = 0; j < 8; j++) part[j] = t + j < tiles ? count[(t + j) * 256 + digit] : 0;
        for (int j = 0; j < 8; j++) {
            if (t + j < tiles) count[(t + j) * 256 + digit] = at;
            at += part[j];
        }
    }
}
/* A warp takes 256 places in their order; lanes of one digit find each other bit by bit. */
TP_KERNEL tp__sort_place(uint32_t *key_to, uint32_t *place_to, const uint32_t *key, const uint32_t *place,
                         const uint32_t *begin, int64_t n, int shift)
{
    TP_SHARED(uint32_t, count, 8 * 256);
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int64_t first = (int64_t)blockIdx.x * TP__SORT_TILE + warp * 256 + lane;
    uint32_t k[8], rank[8];
    for (int w = 0; w < 8; w++) count[w * 256 + threadIdx.x] = 0;
    __syncthreads();
    for (int j = 0; j < 8; j++) {
        const bool live = first + j * 32 < n;
        k[j] = live ? key[first + j * 32] : 0;
        const uint32_t digit = k[j] >> shift & 255u;
        uint32_t same = __ballot_sync(0xffffffffu, live);
        for (int b = 0; b < 8; b++) {
            const uint32_t set = __ballot_sync(0xffffffffu, (int)(digit >> b & 1u));
            same &= digit >> b & 1u ? set : ~set;
        }
        const uint32_t before = (uint32_t)__popc(same & ((1u << lane) - 1u));
        rank[j] = count[warp * 256 + digit] + before;
        __syncwarp();
        if (live && before == 0) count[warp * 256 + digit] += (uint32_t)__popc(same);
        __syncwarp();
    }
    __syncthreads();
    uint32_t at = begin[(int64_t)blockIdx.x * 256 + threadIdx.x];
    for (int w = 0; w < 8; w++) { /* a digit: where each warp's begin */
        const uint32_t m = count[w * 256 + threadIdx.x];
        count[w * 256 + threadIdx.x] = at;
        at += m;
    }
    __syncthreads();
    for (int j = 0; j < 8; j++) {
        if (first + j * 32 >= n) break;
        const uint32_t to = count[warp * 256 + (k[j] >> shift & 255u)] + rank[j];
        key_to[to] = k[j];
        place_to[to] = place[first + j * 32];
    }
}
/* Where a row's places begin and end; both 0 for rows that nobody names. */
TP_KERNEL tp__sort_bounds(uint32_t *begin, uint32_t *end, const uint32_t *key, int64_t n, uint32_t rows)
{
    TP_EACH(i, n)
    {
        const uint32_t row = key[i];
        if (row >= rows) continue;
        if (i == 0 || key[i - 1] != row) begin[row] = (uint32_t)i;
        if (i == n - 1 || key[i + 1] != row) end[row] = (uint32_t)i + 1;
    }
}
/* V neighbouring columns of a row. */
template <class T, int V> struct alignas(V * sizeof(T)) tp__columns {
    T v[V];
};
template <class T, int V>
__device__ __forceinline__ void tp__add_columns(tp__real<T> sum[V], const T *dy, const uint32_t *place, uint32_t from,
                                                uint32_t to, int64_t width, int64_t col)
{
    for (uint32_t p = from; p < to; p++) {
        const tp__columns<T, V> x = *(const tp__columns<T, V> *)(dy + (int64_t)place[p] * width + col);
        for (int j = 0; j < V; j++) sum[j] += tp__get(x.v, j);
    }
}
template <class T, int V>
TP_KERNEL tp__gather_grad_pieces(tp__real<T> *sums, const T *dy, const uint32_t *key, const uint32_t *place,
                                 int64_t pieces, uint32_t rows, tp__divisor across)
{
    TP_EACH(i, pieces * across.d)
    {
        const int64_t piece = tp__quotient(i, across), col = (i - piece * across.d) * V, width = across.d * V;
        const uint32_t from = (uint32_t)piece * TP__SORT_PIECE, row = key[from];
        if (row >= rows || key[from + TP__SORT_PIECE - 1] != row) continue;
        tp__real<T> sum[V];
        for (int j = 0; j < V; j++) sum[j] = 0;
        tp__add_columns<T, V>(sum, dy, place, from, from + TP__SORT_PIECE, width, col);
        for (int j = 0; j < V; j++) sums[piece * width + col + j] = sum[j];
    }
}
template <class T, int V>
TP_KERNEL tp__gather_grad_rows(T *dp, const T *dy, const tp__real<T> *sums, const uint32_t *place,
                               const uint32_t *begin, const uint32_t *end, int64_t rows, tp__divisor across)
{
    TP_EACH(i, rows * across.d)
    {
        const int64_t row = tp__quotient(i, across), col = (i - row * across.d) * V, width = across.d * V;
        uint32_t from = begin[row], piece = (from + TP__SORT_PIECE - 1) / TP__SORT_PIECE;
        const uint32_t to = end[row];
        tp__real<T> sum[V];
        for (int j = 0; j < V; j++) sum[j] = 0;
        if ((piece + 1) * TP__SORT_PIECE <= to) {
            tp__add_columns<T, V>(sum, dy, place, from, piece * TP__SORT_PIECE, width, col);
            for (; (piece + 1) * TP__SORT_PIECE <= to; piece++)
                for (int j = 0; j < V; j++) sum[j] += sums[piece * width + col + j];
            from = piece * TP__SORT_PIECE;
        }
        tp__add_columns<T, V>(sum, dy, place, from, to, width, col);
        tp__columns<T, V> y;
        for (int j = 0; j < V; j++) tp__put(y.v, j, sum[j]);
        *(tp__columns<T, V> *)(dp + row * width + col) = y;
    }
}
/* Scratch: keys and places twice, counts, bounds, sums of pieces. */
typedef struct tp__sort_room {
    int64_t n, rows, width, tiles;
    size_t keys, counts, bounds, sums; /* bytes */
} tp__sort_room;
static tp__sort_room tp__sort_room_of(const tp_call *k)
{
    tp__sort_room r;
    r.n = tp__size(&k->in[1]);
    r.rows = k->out[0].shape.dim[0];
    r.width = tp__product_of(&k->out[0].shape, 1, k->out[0].shape.ndim);
    r.tiles = (r.n + TP__SORT_TILE - 1) / TP__SORT_TILE;
    r.keys = ((size_t)r.n * 4 + 63) & ~(size_t)63;
    r.counts = (size_t)r.tiles * 256 * 4;
    r.bounds = ((size_t)r.rows * 4 + 63) & ~(size_t)63;
    r.sums = (size_t)(r.n / TP__SORT_PIECE * r.width) * (k->out[0].dtype == TP_F64 ? 8 : 4);
    return r;
}
static size_t tp__gather_grad_room(const tp_call *k)
{
    const tp__sort_room r = tp__sort_room_of(k);
    return 4 * r.keys + r.counts + 2 * r.bounds + r.sums;
}
template <class T, int V>
static void tp__gather_grad_sum(const tp_call *k, const tp__sort_room *r, void *sums, const uint32_t *key,
                                const uint32_t *place, const uint32_t *begin, const uint32_t *end)
{
    const int64_t pieces = r->n / TP__SORT_PIECE, across = r->width / V, most = r->rows > pieces ? r->rows : pieces;
    const tp__divisor d = tp__divide_by(across, most * across);
    const T *dy = (const T *)k->in[0].data;
    TP_RUN(k, (tp__gather_grad_pieces<T, V>), pieces * across, (tp__real<T> *)sums, dy, key, place, pieces,
           (uint32_t)r->rows, d);
    TP_RUN(k, (tp__gather_grad_rows<T, V>), r->rows * across, (T *)k->out[0].data, dy, (const tp__real<T> *)sums, place,
           begin, end, r->rows, d);
}
static void tp__gather_grad_cuda(const tp_call *k)
{
    const tp__sort_room r = tp__sort_room_of(k);
    const tp__indices s = tp__indices_of(&k->in[1], r.rows);
    tp__cuda *c = tp__cuda_of(k);
    if (r.rows == 0 || r.width == 0) return;
    if (r.n > INT32_MAX || r.rows > INT32_MAX) {
        tp__broken(c, k->op->name, "more than 2^31 rows or indices are not sorted on a GPU");
        return;
    }
    char *at = (char *)k->scratch;
    uint32_t *key[2], *place[2];
    for (int i = 0; i < 2; i++, at += 2 * r.keys) key[i] = (uint32_t *)at, place[i] = (uint32_t *)(at + r.keys);
    uint32_t *count = (uint32_t *)at, *begin = (uint32_t *)(at + r.counts),
             *end = (uint32_t *)((char *)begin + r.bounds);
    void *sums = (char *)end + r.bounds;
    int now = 0;
    const cudaError_t e = cudaMemsetAsync(begin, 0, 2 * r.bounds, c->stream);
    if (e != cudaSuccess) tp__broken(c, k->op->name, cudaGetErrorString(e));
    TP_RUN(k, tp__sort_begin, r.n, key[0], place[0], s);
    for (int shift = 0; r.rows >> shift; shift += 8, now ^= 1) { /* rows itself is a key */
        TP_RUN_BLOCKS(k, tp__sort_count, r.tiles, TP__THREADS, 0, count, key[now], r.n, shift);
        if (r.tiles) TP_RUN_BLOCKS(k, tp__sort_sum, 1, TP__THREADS, 0, count, r.tiles);
        TP_RUN_BLOCKS(k, tp__sort_place, r.tiles, TP__THREADS, 0, key[now ^ 1], place[now ^ 1], key[now], place[now],
                      count, r.n, shift);
    }
    TP_RUN(k, tp__sort_bounds, r.n, begin, end, key[now], r.n, (uint32_t)r.rows);
    if (r.width % 4 == 0)
        TP_REALS(k->out[0].dtype, (tp__gather_grad_sum<T, 4>(k, &r, sums, key[now], place[now], begin, end)););
    else TP_REALS(k->out[0].dtype, (tp__gather_grad_sum<T, 1>(k, &r, sums, key[now], place[now], begin, end)););
}

/* -- one_hot */
TP_KERNEL tp__one_hot_kernel(float *y, tp__indices s, tp__divisor depth, float on, float off)
{
    TP_EACH(e, s.n * depth.d)
    {
        const int64_t i = tp__quotient(e, depth);
        y[e] = e - i * depth.d == tp__row_of(s, i) ? on : off;
    }
}
static void tp__one_hot_cuda(const tp_call *k)
{
    const tp__one_hot_attrs *t = (const tp__one_hot_attrs *)k->attrs;
    const tp__indices s = tp__indices_of(&k->in[0], t->depth);
    TP_RUN(k, tp__one_hot_kernel, s.n * t->depth, (float *)k->out[0].data, s, tp__divide_by(t->depth, s.n * t->depth),
           t->on, t->off);
}

/* -- print: sums in a fixed order and the first elements, in one struct, which goes to pinned memory; the line is written by
 * the CPU's function of the row, on a thread of the driver. The next print of this stream waits for it. */
#define TP__LOOK_BLOCKS 1024
static int64_t tp__look_blocks(const tp_call *k) /* from the shape alone */
{
    const int64_t want = (tp__size(&k->in[0]) + 4095) / 4096;
    return want < TP__LOOK_BLOCKS ? want : TP__LOOK_BLOCKS;
}
__device__ __forceinline__ double tp__double_at(const void *x, int dtype, int64_t i)
{
    const tp__cell c = tp__cell_at(x, dtype, i);
    return tp__holds_real(dtype) ? c.d : dtype == TP_BOOL ? (double)(c.l != 0) : (double)c.l;
}
TP_KERNEL tp__look(double *sums, const void *x, int dtype, int64_t n)
{
    TP_SHARED(double, room, 8);
    double sum = 0, squares = 0;
    TP_EACH(i, n)
    {
        const double v = tp__double_at(x, dtype, i);
        sum += v;
        squares += v * v;
    }
    sum = tp__block_sum(sum, room);
    squares = tp__block_sum(squares, room);
    if (threadIdx.x == 0) {
        sums[2 * blockIdx.x] = sum;
        sums[2 * blockIdx.x + 1] = squares;
    }
}
TP_KERNEL tp__look_end(tp__glance *g, const double *sums, int64_t blocks, const void *x, int dtype, int64_t n)
{
    TP_SHARED(double, room, 8);
    double sum = 0, squares = 0;
    for (int64_t b = threadIdx.x; b < blocks; b += TP__THREADS) {
        sum += sums[2 * b];
        squares += sums[2 * b + 1];
    }
    sum = tp__block_sum(sum, room);
    squares = tp__block_sum(squares, room);
    if (threadIdx.x == 0) g->sum = sum, g->squares = squares;
    if (threadIdx.x < TP__GLANCE) g->first[threadIdx.x] = threadIdx.x < n ? tp__double_at(x, dtype, threadIdx.x) : 0;
}
static void tp__print_line(void *call)
{
    const tp_call *k = (const tp_call *)call; /* lives as long as its plan */
    tp_call line = *k;
    tp_operand x = k->in[0];
    x.data = NULL;
    line.in = &x;
    line.scratch = tp__cuda_of(k)->late_room + TP__STAGE_BYTES;
    k->op->naive_f32(&line);
}
static size_t tp__print_room(const tp_call *k)
{
    return sizeof(tp__glance) + (size_t)tp__look_blocks(k) * 2 * sizeof(double);
}
static void tp__print_cuda(const tp_call *k)
{
    const tp_operand *x = &k->in[0];
    tp__cuda *c = tp__cuda_of(k);
    const int64_t n = tp__size(x), blocks = tp__look_blocks(k);
    tp__glance *g = (tp__glance *)k->scratch;
    double *sums = (double *)(void *)(g + 1);
    cudaError_t e = cudaSuccess;
    if (n > 0)
        e = cudaMemcpyAsync(k->out[0].data, x->data, (size_t)n * tp__dtype_size(x->dtype), cudaMemcpyDeviceToDevice,
                            c->stream);
    TP_RUN_BLOCKS(k, tp__look, blocks, TP__THREADS, 0, sums, x->data, (int)x->dtype, n);
    TP_RUN_BLOCKS(k, tp__look_end, 1, TP__THREADS, 0, g, sums, blocks, x->data, (int)x->dtype, n);
    if (e == cudaSuccess)
        e = cudaMemcpyAsync(c->late_room + TP__STAGE_BYTES, g, sizeof *g, cudaMemcpyDeviceToHost, c->stream);
    if (e == cudaSuccess) e = cudaLaunchHostFunc(c->stream, tp__print_line, (void *)(uintptr_t)k);
    if (e != cudaSuccess) tp__broken(c, k->op->name, cudaGetErrorString(e));
}

/* -- check_numerics: y = x; the first bad element of each block, and then of all */
template <class T> TP_KERNEL tp__check_copy(T *y, const T *x, int64_t n, double *first)
{
    TP_SHARED(double, room, 8);
    double bad = -1e300; /* minus the index, which a double holds exactly: the largest is the first */
    TP_EACH(f, (n + 3) / 4)
    {
        const int64_t i = 4 * f;
        const int m = n - i < 4 ? (int)(n - i) : 4;
        tp__real<T> v[4];
        tp__get_four(x, i, m, v);
        for (int j = 0; j < 4; j++) /* behind the end it is 0 */
            if (v[j] - v[j] != 0 && bad < -(double)(i + j)) bad = -(double)(i + j);
        tp__put_four(y, i, m, v);
    }
    bad = tp__block_max(bad, room);
    if (threadIdx.x == 0) first[blockIdx.x] = bad;
}
TP_KERNEL tp__check_end(const double *first, int blocks, tp__fault f)
{
    TP_SHARED(double, room, 8);
    double bad = -1e300;
    for (int b = (int)threadIdx.x; b < blocks; b += TP__THREADS) bad = bad > first[b] ? bad : first[b];
    bad = tp__block_max(bad, room);
    if (threadIdx.x == 0 && bad > -1e299) tp__report(f, (int64_t)-bad);
}
static size_t tp__check_room(const tp_call *k) { return (size_t)tp__cuda_of(k)->n_processor * 16 * sizeof(double); }
static void tp__check_numerics_cuda(const tp_call *k)
{
    const int64_t n = tp__size(&k->in[0]);
    double *first = (double *)k->scratch;
    if (n == 0) return;
    TP_REALS(k->in[0].dtype,
             TP_RUN(k, (tp__check_copy<T>), (n + 3) / 4, (T *)k->out[0].data, (const T *)k->in[0].data, n, first););
    TP_RUN_BLOCKS(k, tp__check_end, 1, TP__THREADS, 0, first, (int)tp__blocks(k, (n + 3) / 4), tp__fault_of(k));
}

static const tp__cuda_kernel tp__cuda_moves[] = {{"group", tp__group_cuda, NULL},
                                                 {"fill_like", tp__fill_like_cuda, NULL},
                                                 {"broadcast_like", tp__broadcast_like_cuda, NULL},
                                                 {"transpose", tp__transpose_cuda, NULL},
                                                 {"reverse", tp__reverse_cuda, NULL},
                                                 {"concat", tp__concat_cuda, NULL},
                                                 {"concat_grad", tp__concat_grad_cuda, NULL},
                                                 {"split", tp__split_cuda, NULL},
                                                 {"stack", tp__concat_cuda, NULL},
                                                 {"unstack", tp__split_cuda, NULL},
                                                 {"slice", tp__slice_cuda, NULL},
                                                 {"slice_grad", tp__slice_grad_cuda, NULL},
                                                 {"pad", tp__pad_cuda, NULL},
                                                 {"pad_grad", tp__pad_grad_cuda, NULL},
                                                 {"tile", tp__tile_cuda, NULL},
                                                 {"tile_grad", tp__tile_grad_cuda, tp__tile_grad_room},
                                                 {"gather", tp__gather_cuda, NULL},
                                                 {"gather_grad", tp__gather_grad_cuda, tp__gather_grad_room},
                                                 {"one_hot", tp__one_hot_cuda, NULL},
                                                 {"print", tp__print_cuda, tp__print_room},
                                                 {"check_numerics", tp__check_numerics_cuda, tp__check_room},
                                                 {NULL, NULL, NULL}};

/* ==== >>random ======================================================================================== */
/* The CPU's numbers, bit for bit: the same operations in the same order, each rounded. A thread makes four neighbours. */

/* a b + c with two roundings: tp__mul_add */
__device__ __forceinline__ double tp__mul_then_add(double a, double b, double c)
{
    return __dadd_rn(__dmul_rn(a, b), c);
}

/* ln(u), u = k/2^53 in (0,1]: tp__log_unit */
__device__ __forceinline__ double tp__ln_unit(double u)
{
    const uint64_t bits = (uint64_t)__double_as_longlong(u);
    int e = (int)(bits >> 52) - 1023;
    double m = __longlong_as_double((long long)((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull));
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    const double f = __ddiv_rn(__dadd_rn(m, -1.0), __dadd_rn(m, 1.0)), s = __dmul_rn(f, f);
    double sum = 0.0;
    for (int k = 11; k >= 1; k--) sum = tp__mul_then_add(sum, s, 1.0 / (double)(2 * k + 1));
    const double ln_m = tp__mul_then_add(__dmul_rn(__dmul_rn(2.0, f), s), sum, __dmul_rn(2.0, f));
    return tp__mul_then_add((double)e, 0x1.62e42fefap-1, tp__mul_then_add((double)e, 0x1.cf79abc9e3b3ap-40, ln_m));
}
/* cos and sin of 2 pi u, u in [0,1): tp__turn */
__device__ __forceinline__ void tp__cos_sin(double u, double *c, double *s)
{
    const double rounder = 6755399441055744.0, quarters = tp__mul_then_add(4.0, u, rounder);
    const uint64_t quarter = (uint64_t)__double_as_longlong(quarters);
    const double rest = __dadd_rn(u, -__dmul_rn(0.25, __dadd_rn(quarters, -rounder)));
    const double x = __dmul_rn(6.283185307179586477, rest), xx = -__dmul_rn(x, x);
    double sum_c = 1.0, sum_s = 1.0;
    for (int k = 9; k >= 1; k--) {
        sum_c = tp__mul_then_add(__dmul_rn(xx, 1.0 / (double)(2 * k * (2 * k - 1))), sum_c, 1.0);
        sum_s = tp__mul_then_add(__dmul_rn(xx, 1.0 / (double)(2 * k * (2 * k + 1))), sum_s, 1.0);
    }
    sum_s = __dmul_rn(sum_s, x);
    switch (quarter & 3) {
    case 0: *c = sum_c, *s = sum_s; break;
    case 1: *c = -sum_s, *s = sum_c; break;
    case 2: *c = -sum_c, *s = -sum_s; break;
    default: *c = sum_s, *s = -sum_c; break;
    }
}
/* Two normals from a block of words: tp__normal_pair */
__device__ __forceinline__ void tp__box_muller(const uint32_t r[4], double normal[2])
{
    const uint64_t a = ((uint64_t)r[1] << 32 | r[0]) >> 11, b = ((uint64_t)r[3] << 32 | r[2]) >> 11;
    const double unit = 1.0 / 9007199254740992.0;
    const double radius = __dsqrt_rn(__dmul_rn(-2.0, tp__ln_unit(__dmul_rn((double)(a + 1), unit))));
    double c, s;
    tp__cos_sin(__dmul_rn((double)b, unit), &c, &s);
    normal[0] = __dmul_rn(radius, c);
    normal[1] = __dmul_rn(radius, s);
}

__device__ __forceinline__ double tp__of_double(double x, const double *) { return x; }
__device__ __forceinline__ float tp__of_double(double x, const float *) { return (float)x; }
__device__ __forceinline__ float tp__of_double(double x, const tp__f16 *) { return tp__odd_float(x); }
__device__ __forceinline__ float tp__of_double(double x, const tp__bf16 *) { return tp__odd_float(x); }

/* -- random: uniform in [a,b), or normal with mean a and deviation b, which truncation redraws beyond two deviations */
template <class T>
TP_KERNEL tp__random_fours(T *y, int64_t n, int kind, double a, double b, uint64_t key, const uint64_t *step_word)
{
    const uint64_t step = *step_word;
    TP_EACH(f, (n + 3) / 4)
    {
        const int64_t i = 4 * f;
        double v[4];
        tp__real<T> out[4];
        uint32_t r[4];
        if (kind == 0) {
            tp__philox(key, (uint64_t)f, step, r);
            const double size = __dadd_rn(b, -a);
            for (int j = 0; j < 4; j++) v[j] = tp__mul_then_add(size, (double)(r[j] >> 8) * (1.0 / 16777216.0), a);
        } else {
            for (int h = 0; h < 2; h++) {
                tp__philox(key, (uint64_t)(2 * f + h), step, r);
                tp__box_muller(r, v + 2 * h);
            }
            for (int j = 0; j < 4; j++) {
                for (uint64_t again = 1; kind == 2 && !(v[j] >= -2.0 && v[j] <= 2.0) && again < 1000; again++) {
                    double pair[2];
                    tp__philox(key, (uint64_t)(i + j) / 2, step + (again << 40), r);
                    tp__box_muller(r, pair);
                    v[j] = pair[j % 2];
                }
                v[j] = tp__mul_then_add(b, v[j], a);
            }
        }
        for (int j = 0; j < 4; j++) out[j] = tp__of_double(v[j], (const T *)NULL);
        tp__put_four(y, i, n - i < 4 ? (int)(n - i) : 4, out);
    }
}
static void tp__random_cuda(const tp_call *k)
{
    const tp__random_attrs *t = (const tp__random_attrs *)k->attrs;
    const int64_t n = tp__size(&k->out[0]);
    TP_REALS(k->out[0].dtype, TP_RUN(k, (tp__random_fours<T>), (n + 3) / 4, (T *)k->out[0].data, n, t->kind,
                                     (double)t->a, (double)t->b, k->key, k->step););
}

/* -- dropout */
template <class T>
TP_KERNEL tp__dropout_fours(T *y, const T *x, int64_t n, float rate, uint64_t key, const uint64_t *step_word)
{
    const tp__real<T> scale = (tp__real<T>)1 / ((tp__real<T>)1 - (tp__real<T>)rate);
    const uint64_t step = *step_word;
    TP_EACH(f, (n + 3) / 4)
    {
        const int64_t i = 4 * f;
        const int m = n - i < 4 ? (int)(n - i) : 4;
        tp__real<T> v[4];
        uint32_t u[4];
        tp__get_four(x, i, m, v);
        tp__philox(key, (uint64_t)f, step, u);
        for (int j = 0; j < 4; j++) v[j] = (float)(u[j] >> 8) * 5.9604644775390625e-8f >= rate ? v[j] * scale : 0;
        tp__put_four(y, i, m, v);
    }
}
static void tp__dropout_cuda(const tp_call *k)
{
    const int64_t n = tp__size(&k->in[0]);
    TP_REALS(k->in[0].dtype,
             TP_RUN(k, (tp__dropout_fours<T>), (n + 3) / 4, (T *)k->out[0].data, (const T *)k->in[0].data, n,
                    ((const tp__dropout_attrs *)k->attrs)->rate, k->key, k->step););
}

static const tp__cuda_kernel tp__cuda_random[] = {
    {"random", tp__random_cuda, NULL}, {"dropout", tp__dropout_cuda, NULL}, {NULL, NULL, NULL}};

/* ==== >>variables ===================================================================================== */
/* Written in place. Predicates, rates and powers are read by the kernels: a recording stays right when they change. */

static const uint8_t *tp__pred_of(const tp_call *k, int at)
{
    return k->n_in > at ? (const uint8_t *)k->in[at].data : NULL;
}

/* -- assign */
template <class T> TP_KERNEL tp__assign_units(T *v, const T *x, int64_t n, const uint8_t *pred)
{
    if (!*pred) return;
    TP_EACH(i, n) v[i] = x[i];
}
static void tp__assign_cuda(const tp_call *k)
{
    const tp_operand *v = &k->var[0], *x = &k->in[0];
    const int64_t bytes = tp__size(v) * (int64_t)tp__dtype_size(v->dtype);
    if (!bytes || v->data == x->data) return;
    if (!tp__pred_of(k, 1)) {
        const cudaError_t e =
            cudaMemcpyAsync(v->data, x->data, (size_t)bytes, cudaMemcpyDeviceToDevice, tp__cuda_of(k)->stream);
        if (e != cudaSuccess) tp__broken(tp__cuda_of(k), k->op->name, cudaGetErrorString(e));
        return;
    }
    const int64_t unit = tp__unit_of((uint64_t)bytes | (uint64_t)(uintptr_t)v->data | (uint64_t)(uintptr_t)x->data);
    TP__UNITS(unit, TP_RUN(k, (tp__assign_units<T>), bytes / unit, (T *)v->data, (const T *)x->data, bytes / unit,
                           tp__pred_of(k, 1)););
}

/* -- assign_add, assign_sub: integers wrap around */
template <class T> TP_KERNEL tp__assign_sum_reals(T *v, const T *x, int64_t n, int sign, const uint8_t *pred)
{
    if (pred && !*pred) return;
    TP_EACH(f, (n + 3) / 4)
    {
        const int m = n - 4 * f < 4 ? (int)(n - 4 * f) : 4;
        tp__real<T> a[4], b[4];
        tp__get_four(v, 4 * f, m, a);
        tp__get_four(x, 4 * f, m, b);
        for (int j = 0; j < 4; j++) a[j] += sign > 0 ? b[j] : -b[j];
        tp__put_four(v, 4 * f, m, a);
    }
}
template <class T> TP_KERNEL tp__assign_sum_wholes(T *v, const T *x, int64_t n, int sign, const uint8_t *pred)
{
    if (pred && !*pred) return;
    TP_EACH(i, n) v[i] = (T)(sign > 0 ? v[i] + x[i] : v[i] - x[i]);
}
static void tp__assign_sum_cuda(const tp_call *k, int sign)
{
    const tp_operand *v = &k->var[0];
    const void *x = k->in[0].data;
    const uint8_t *pred = tp__pred_of(k, 1);
    const int64_t n = tp__size(v);
    switch (v->dtype) {
    case TP_I32:
        TP_RUN(k, (tp__assign_sum_wholes<uint32_t>), n, (uint32_t *)v->data, (const uint32_t *)x, n, sign, pred);
        break;
    case TP_I64:
        TP_RUN(k, (tp__assign_sum_wholes<uint64_t>), n, (uint64_t *)v->data, (const uint64_t *)x, n, sign, pred);
        break;
    case TP_U8:
    case TP_BOOL: tp__broken(tp__cuda_of(k), k->op->name, "bytes are not added to"); break;
    default:
        TP_REALS(v->dtype,
                 TP_RUN(k, (tp__assign_sum_reals<T>), (n + 3) / 4, (T *)v->data, (const T *)x, n, sign, pred););
        break;
    }
}
static void tp__assign_add_cuda(const tp_call *k) { tp__assign_sum_cuda(k, 1); }
static void tp__assign_sub_cuda(const tp_call *k) { tp__assign_sum_cuda(k, -1); }

/* -- assign_moving_average */
template <class T> TP_KERNEL tp__assign_average(T *v, const T *x, int64_t n, float decay, const uint8_t *pred)
{
    const tp__real<T> rest = (tp__real<T>)1 - (tp__real<T>)decay;
    if (pred && !*pred) return;
    TP_EACH(f, (n + 3) / 4)
    {
        const int m = n - 4 * f < 4 ? (int)(n - 4 * f) : 4;
        tp__real<T> a[4], b[4];
        tp__get_four(v, 4 * f, m, a);
        tp__get_four(x, 4 * f, m, b);
        for (int j = 0; j < 4; j++) a[j] -= rest * (a[j] - b[j]);
        tp__put_four(v, 4 * f, m, a);
    }
}
static void tp__assign_average_cuda(const tp_call *k)
{
    const tp_operand *v = &k->var[0];
    const int64_t n = tp__size(v);
    TP_REALS(v->dtype, TP_RUN(k, (tp__assign_average<T>), (n + 3) / 4, (T *)v->data, (const T *)k->in[0].data, n,
                              ((const tp__assign_attrs *)k->attrs)->decay, tp__pred_of(k, 1)););
}

/* -- ema_debias: scalars; decay^n by squaring */
TP_KERNEL tp__ema_debias_kernel(float *y, float *biased, float *n, const float *x, double decay)
{
    if (blockIdx.x || threadIdx.x) return;
    double power = 1, square = decay;
    *n += 1.0f;
    *biased = (float)((double)*biased - ((double)*biased - (double)*x) * (1.0 - decay));
    for (int64_t left = (int64_t)*n; left > 0; left >>= 1, square *= square)
        if (left & 1) power *= square;
    if (y) *y = (float)((double)*biased / (1.0 - power));
}
static void tp__ema_debias_cuda(const tp_call *k)
{
    TP_RUN_BLOCKS(k, tp__ema_debias_kernel, 1, 32, 0, (float *)k->out[0].data, (float *)k->var[0].data,
                  (float *)k->var[1].data, (const float *)k->in[0].data,
                  (double)((const tp__assign_attrs *)k->attrs)->decay);
}

/* -- apply_...: all variables of an optimizer in one launch, or several when the list is longer than what a launch takes. A
 * block works on 4096 elements of one variable. */
#define TP__APPLY_MOST  64
#define TP__APPLY_CHUNK 4096
typedef struct tp__apply_list {
    int n;
    bool nesterov;
    float a, b, epsilon, decay;
    int dtype, rates_dtype; /* of variables; of the three scalars */
    const void *lr, *power1, *power2;
    const uint8_t *pred;
    void *w[TP__APPLY_MOST], *slot[3][TP__APPLY_MOST];
    const void *g[TP__APPLY_MOST];
    int64_t size[TP__APPLY_MOST];
    uint32_t first[TP__APPLY_MOST + 1]; /* its first block */
} tp__apply_list;

/* Which variable is this block's? */
__device__ __forceinline__ int tp__apply_of(const tp__apply_list &p)
{
    int low = 0, high = p.n - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (p.first[middle] <= blockIdx.x) low = middle;
        else high = middle - 1;
    }
    return low;
}
template <class R> struct tp__apply_rates {
    R lr, a, b, rest_a, rest_b, epsilon, decay; /* rest_: 1 - it */
    R left1, left2, adam, keep;                 /* 1 - beta^t; Adam's corrected rate */
    bool nesterov, decays;
};
template <class R> __device__ __forceinline__ tp__apply_rates<R> tp__apply_rates_of(const tp__apply_list &p)
{
    tp__apply_rates<R> r;
    r.lr = (R)tp__cell_at(p.lr, p.rates_dtype, 0).d;
    r.a = (R)p.a, r.b = (R)p.b, r.rest_a = 1 - r.a, r.rest_b = 1 - r.b;
    r.epsilon = (R)p.epsilon, r.decay = (R)p.decay;
    r.nesterov = p.nesterov, r.decays = p.decay != 0;
    r.keep = 1 - r.lr * r.decay;
    r.left1 = r.left2 = 1;
    if (p.power1) {
        r.left1 = 1 - (R)tp__cell_at(p.power1, p.rates_dtype, 0).d;
        r.left2 = 1 - (R)tp__cell_at(p.power2, p.rates_dtype, 0).d;
    }
    r.adam = r.lr * sqrt(r.left2) / r.left1;
    return r;
}
__device__ __forceinline__ float tp__rounded_product(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ double tp__rounded_product(double a, double b) { return __dmul_rn(a, b); }

/* One element: its weight, gradient and slots. The formulas of tp__apply_piece. */
template <int KIND, class R>
__device__ __forceinline__ void tp__apply_one(const tp__apply_rates<R> &r, R g, R &w, R &a, R &v, R &mg)
{
    switch (KIND) {
    case TP__DESCENT: w -= tp__rounded_product(r.lr, g); break;
    case TP__MOMENTUM:
        a = r.a * a + g;
        w -= r.nesterov ? r.lr * (g + r.a * a) : r.lr * a;
        break;
    case TP__ADAM:
        if (r.decays) w *= r.keep;
        a += (g - a) * r.rest_a;
        v += (g * g - v) * r.rest_b;
        w -= r.adam * a / (sqrt(v) + r.epsilon);
        break;
    case TP__RMSPROP:
    case TP__RMSPROP_CENTERED: {
        R less = 0;
        a += (g * g - a) * r.rest_a;
        if (KIND == TP__RMSPROP_CENTERED) {
            mg += (g - mg) * r.rest_a;
            less = tp__rounded_product(mg, mg);
        }
        v = r.b * v + r.lr * g / sqrt(a - less + r.epsilon);
        w -= v;
        break;
    }
    case TP__ADAGRAD:
        a += g * g;
        w -= r.lr * g / sqrt(a);
        break;
    case TP__ADADELTA: {
        a += (g * g - a) * r.rest_a;
        const R d = g * sqrt(v + r.epsilon) / sqrt(a + r.epsilon);
        v += (d * d - v) * r.rest_a;
        w -= r.lr * d;
        break;
    }
    case TP__FTRL: { /* a: -lr_power, b: l1, epsilon: l2, decay: the shrinkage */
        const R sum = a + g * g, half = (R)0.5;
        const R before = r.a == half ? sqrt(a) : exp(r.a * log(a));
        const R after = r.a == half ? sqrt(sum) : exp(r.a * log(sum));
        v += g + 2 * r.decay * w - (after - before) / r.lr * w;
        a = sum;
        w = fabs(v) > r.b ? ((v < 0 ? -r.b : r.b) - v) / (after / r.lr + 2 * r.epsilon) : 0;
        break;
    }
    default: break;
    }
}
template <int KIND, class T> TP_KERNEL tp__apply_step(const __grid_constant__ tp__apply_list p)
{
    const int slots = KIND == TP__DESCENT                           ? 0
                      : KIND == TP__MOMENTUM || KIND == TP__ADAGRAD ? 1
                      : KIND == TP__RMSPROP_CENTERED                ? 3
                                                                    : 2;
    if (p.pred && !*p.pred) return;
    const tp__apply_rates<tp__real<T>> r = tp__apply_rates_of<tp__real<T>>(p);
    const int i = tp__apply_of(p);
    const int64_t from = (int64_t)(blockIdx.x - p.first[i]) * TP__APPLY_CHUNK, left = p.size[i] - from;
    const int n = left < TP__APPLY_CHUNK ? (int)left : TP__APPLY_CHUNK;
    const T *g_at = (const T *)p.g[i] + from;
    T *w_at = (T *)p.w[i] + from, *slot[3];
    for (int s = 0; s < slots; s++) slot[s] = (T *)p.slot[s][i] + from;
    for (int e = 4 * (int)threadIdx.x; e < n; e += 4 * TP__THREADS) {
        const int m = n - e < 4 ? n - e : 4;
        tp__real<T> g[4], w[4], s[3][4];
        tp__get_four(g_at, e, m, g);
        tp__get_four(w_at, e, m, w);
        for (int q = 0; q < slots; q++) tp__get_four(slot[q], e, m, s[q]);
        for (int j = 0; j < 4; j++) tp__apply_one<KIND>(r, g[j], w[j], s[0][j], s[1][j], s[2][j]);
        tp__put_four(w_at, e, m, w);
        for (int q = 0; q < slots; q++) tp__put_four(slot[q], e, m, s[q]);
    }
}

/* LAMB: the averages and both squared norms of each block; the norms of each variable; the step. r is made twice. */
template <class R> __device__ __forceinline__ R tp__lamb_r(const tp__apply_rates<R> &r, R w, R m, R v)
{
    return m / r.left1 / (sqrt(v / r.left2) + r.epsilon) + r.decay * w;
}
template <class T> TP_KERNEL tp__lamb_averages(const __grid_constant__ tp__apply_list p, double *squares)
{
    TP_SHARED(double, room, 8);
    typedef tp__real<T> R;
    if (p.pred && !*p.pred) return;
    const tp__apply_rates<R> r = tp__apply_rates_of<R>(p);
    const int i = tp__apply_of(p);
    const int64_t from = (int64_t)(blockIdx.x - p.first[i]) * TP__APPLY_CHUNK, left = p.size[i] - from;
    const int n = left < TP__APPLY_CHUNK ? (int)left : TP__APPLY_CHUNK;
    const T *g_at = (const T *)p.g[i] + from, *w_at = (const T *)p.w[i] + from;
    T *m_at = (T *)p.slot[0][i] + from, *v_at = (T *)p.slot[1][i] + from;
    double ww = 0, rr = 0;
    for (int e = 4 * (int)threadIdx.x; e < n; e += 4 * TP__THREADS) {
        const int many = n - e < 4 ? n - e : 4;
        R g[4], w[4], m[4], v[4];
        tp__get_four(g_at, e, many, g);
        tp__get_four(w_at, e, many, w);
        tp__get_four(m_at, e, many, m);
        tp__get_four(v_at, e, many, v);
        for (int j = 0; j < many; j++) {
            m[j] += (g[j] - m[j]) * r.rest_a;
            v[j] += (g[j] * g[j] - v[j]) * r.rest_b;
            const double x = (double)tp__lamb_r(r, w[j], m[j], v[j]);
            ww += (double)w[j] * (double)w[j];
            rr += x * x;
        }
        tp__put_four(m_at, e, many, m);
        tp__put_four(v_at, e, many, v);
    }
    ww = tp__block_sum(ww, room);
    rr = tp__block_sum(rr, room);
    if (threadIdx.x == 0) {
        squares[2 * (int64_t)blockIdx.x] = ww;
        squares[2 * (int64_t)blockIdx.x + 1] = rr;
    }
}
TP_KERNEL tp__lamb_norms(double *ratio, const double *squares, const __grid_constant__ tp__apply_list p)
{
    TP_SHARED(double, room, 8);
    double ww = 0, rr = 0;
    if (p.pred && !*p.pred) return;
    for (int64_t b = (int64_t)p.first[blockIdx.x] + threadIdx.x; b < p.first[blockIdx.x + 1]; b += TP__THREADS) {
        ww += squares[2 * b];
        rr += squares[2 * b + 1];
    }
    ww = tp__block_sum(ww, room);
    rr = tp__block_sum(rr, room);
    if (threadIdx.x == 0) ratio[blockIdx.x] = ww > 0 && rr > 0 ? sqrt(ww / rr) : 1.0;
}
template <class T> TP_KERNEL tp__lamb_step(const double *ratio, const __grid_constant__ tp__apply_list p)
{
    typedef tp__real<T> R;
    if (p.pred && !*p.pred) return;
    const tp__apply_rates<R> r = tp__apply_rates_of<R>(p);
    const int i = tp__apply_of(p);
    const R step = r.lr * (R)ratio[i];
    const int64_t from = (int64_t)(blockIdx.x - p.first[i]) * TP__APPLY_CHUNK, left = p.size[i] - from;
    const int n = left < TP__APPLY_CHUNK ? (int)left : TP__APPLY_CHUNK;
    const T *m_at = (const T *)p.slot[0][i] + from, *v_at = (const T *)p.slot[1][i] + from;
    T *w_at = (T *)p.w[i] + from;
    for (int e = 4 * (int)threadIdx.x; e < n; e += 4 * TP__THREADS) {
        const int many = n - e < 4 ? n - e : 4;
        R w[4], m[4], v[4];
        tp__get_four(w_at, e, many, w);
        tp__get_four(m_at, e, many, m);
        tp__get_four(v_at, e, many, v);
        for (int j = 0; j < 4; j++) w[j] -= step * tp__lamb_r(r, w[j], m[j], v[j]);
        tp__put_four(w_at, e, many, w);
    }
}

static int64_t tp__apply_blocks_of(const tp_operand *v)
{
    return (tp__size(v) + TP__APPLY_CHUNK - 1) / TP__APPLY_CHUNK;
}
static size_t tp__lamb_room(const tp_call *k) /* ratios, then two sums of each block */
{
    size_t blocks = 0;
    for (int i = 0; i < ((const tp__apply_attrs *)k->attrs)->n; i++) blocks += (size_t)tp__apply_blocks_of(&k->var[i]);
    return (TP__APPLY_MOST + 2 * blocks) * sizeof(double);
}
static void tp__apply_launch(const tp_call *k, const tp__apply_list *p)
{
    const tp__apply_attrs *t = (const tp__apply_attrs *)k->attrs;
    const int64_t blocks = p->first[p->n];
#define TP__APPLY_KIND(kind_) \
    case kind_: TP_REALS(p->dtype, TP_RUN_BLOCKS(k, (tp__apply_step<kind_, T>), blocks, TP__THREADS, 0, *p);); break;
    switch (t->kind) {
        TP__APPLY_KIND(TP__DESCENT)
        TP__APPLY_KIND(TP__MOMENTUM)
        TP__APPLY_KIND(TP__ADAM)
        TP__APPLY_KIND(TP__RMSPROP)
        TP__APPLY_KIND(TP__RMSPROP_CENTERED)
        TP__APPLY_KIND(TP__ADAGRAD)
        TP__APPLY_KIND(TP__ADADELTA)
        TP__APPLY_KIND(TP__FTRL)
    case TP__LAMB: {
        double *ratio = (double *)k->scratch, *squares = ratio + TP__APPLY_MOST;
        TP_REALS(p->dtype, TP_RUN_BLOCKS(k, (tp__lamb_averages<T>), blocks, TP__THREADS, 0, *p, squares););
        TP_RUN_BLOCKS(k, tp__lamb_norms, p->n, TP__THREADS, 0, ratio, (const double *)squares, *p);
        TP_REALS(p->dtype, TP_RUN_BLOCKS(k, (tp__lamb_step<T>), blocks, TP__THREADS, 0, (const double *)ratio, *p););
        break;
    }
    default: tp__broken(tp__cuda_of(k), k->op->name, "there is no kernel for this optimizer"); break;
    }
#undef TP__APPLY_KIND
}
static void tp__apply_cuda(const tp_call *k)
{
    const tp__apply_attrs *t = (const tp__apply_attrs *)k->attrs;
    const int n = t->n, slots = k->n_var / n - 1, scalars = t->kind == TP__ADAM || t->kind == TP__LAMB ? 3 : 1;
    tp__apply_list p;
    memset(&p, 0, sizeof p);
    p.nesterov = t->nesterov;
    p.a = t->a, p.b = t->b, p.epsilon = t->epsilon, p.decay = t->decay;
    p.rates_dtype = (int)k->in[n].dtype;
    p.lr = k->in[n].data;
    p.power1 = scalars == 3 ? k->in[n + 1].data : NULL;
    p.power2 = scalars == 3 ? k->in[n + 2].data : NULL;
    p.pred = tp__pred_of(k, n + scalars);
    for (int i = 0; i < n; i++) {
        const tp_operand *v = &k->var[i];
        const int64_t blocks = tp__apply_blocks_of(v);
        bool full = p.n == TP__APPLY_MOST || (int)v->dtype != p.dtype || (int64_t)p.first[p.n] + blocks > INT32_MAX;
        for (int j = 0; j < p.n; j++) full = full || p.w[j] == v->data; /* named twice: one step after the other */
        if (blocks == 0) continue;
        if (full && p.n > 0) {
            tp__apply_launch(k, &p);
            p.n = 0;
        }
        p.dtype = (int)v->dtype;
        p.w[p.n] = v->data;
        p.g[p.n] = k->in[i].data;
        for (int s = 0; s < slots; s++) p.slot[s][p.n] = k->var[(s + 1) * n + i].data;
        p.size[p.n] = tp__size(v);
        p.first[p.n + 1] = p.first[p.n] + (uint32_t)blocks;
        p.n++;
    }
    if (p.n > 0) tp__apply_launch(k, &p);
}

static const tp__cuda_kernel tp__cuda_variables[] = {{"assign", tp__assign_cuda, NULL},
                                                     {"assign_add", tp__assign_add_cuda, NULL},
                                                     {"assign_sub", tp__assign_sub_cuda, NULL},
                                                     {"assign_moving_average", tp__assign_average_cuda, NULL},
                                                     {"ema_debias", tp__ema_debias_cuda, NULL},
                                                     {"apply_gradient_descent", tp__apply_cuda, NULL},
                                                     {"apply_momentum", tp__apply_cuda, NULL},
                                                     {"apply_adam", tp__apply_cuda, NULL},
                                                     {"apply_rmsprop", tp__apply_cuda, NULL},
                                                     {"apply_adagrad", tp__apply_cuda, NULL},
                                                     {"apply_adadelta", tp__apply_cuda, NULL},
                                                     {"apply_ftrl", tp__apply_cuda, NULL},
                                                     {"apply_lamb", tp__apply_cuda, tp__lamb_room},
                                                     {NULL, NULL, NULL}};

/* ==== >>convolution =================================================================================== */

static const tp__cuda_kernel tp__cuda_convolution[] = {{NULL, NULL, NULL}};

/* ==== >>normalisation ================================================================================= */

static const tp__cuda_kernel tp__cuda_normalisation[] = {{NULL, NULL, NULL}};

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
        if (e == cudaSuccess)
            e = cudaHostAlloc((void **)&c->late_room, TP__STAGE_BYTES + sizeof(tp__glance), cudaHostAllocDefault);
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
