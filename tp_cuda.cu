/* tp_cuda.cu - v0.1 - the device interface of tp_tensor.h on an NVIDIA GPU: CUDA 13, cuBLASLt, cuDNN 9
 *
 * USE            nvcc -O2 -arch=native -c tp_cuda.cu
 *                gcc -O2 train.c tp_cuda.o -L$CUDA/lib64 -lcudart -lcublasLt -lcudnn -lnccl -lstdc++ -lm -lpthread
 *                and in train.c: tp_device *gpu = tp_cuda_open(0), given to the session in .devices
 * OPTIONS        TP_NO_NCCL (for nvcc) builds without NCCL and -lnccl: sums over GPUs still work, in the order of the towers
 * HOW IT READS   each op has its kernels, then their launchers, then a line in the table at the end of the section; the
 *                op pages of tp_graph.h have the formulas (search there for ">>op" and the name).
 * CONTENTS       >>launch >>device >>nccl >>numbers >>shapes >>elementwise >>matmul >>reductions >>moves >>random >>variables
 *                >>convolution >>normalisation >>rows >>sequences >>images >>table
 *
 * Every kernel gives the same bits each time: sums are computed in a fixed order, without atomic additions. Blocks have at most
 * 256 threads. Launches go through TP_LAUNCH, so that tests can run this file on a CPU.
 */
#define TP__KERNELS
#if __has_include("tp_graph.h")
#include "tp_graph.h" /* for types, and for constants that kernels read; TP_IMPLEMENTATION belongs in a C file */
#else
#include "tp.h" /* all headers as one: `make single` */
#endif
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>
#include <dlfcn.h>
#include <math.h>
#ifndef TP_NO_NCCL
#include <nccl.h>
#endif
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ==== >>launch ======================================================================================== */

#ifndef TP_CUDA_SHIM
#define TP_KERNEL                   static __global__ void __launch_bounds__(256)
#define TP_KERNEL_RESIDENT(n_)      static __global__ void __launch_bounds__(256, n_) /* n_ blocks fit in a multiprocessor */
#define TP_KERNEL_OF_128(n_)        static __global__ void __launch_bounds__(128, n_) /* n_ blocks of 128 threads fit */
#define TP_SHARED(type_, name_, n_) __shared__ type_ name_[n_]
#define TP_DYNAMIC_SHARED(type_, name_)                                \
    extern __shared__ __align__(16) unsigned char tp__shared_memory[]; \
    type_ *name_ = (type_ *)tp__shared_memory
#define TP_LAUNCH(stream_, kernel_, grid_, threads_, shared_bytes_, ...) \
    kernel_<<<grid_, threads_, shared_bytes_, stream_>>>(__VA_ARGS__)
#endif
#define TP__THREADS 256

/* A loop over [0, n) that distributes the elements over all threads of the grid. */
#define TP_EACH(i_, n_)                                                                                            \
    for (int64_t i_ = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, i_##_step = (int64_t)gridDim.x * blockDim.x; \
         i_ < (n_); i_ += i_##_step)

/* ==== >>device ======================================================================================== */

#define TP__STAGES      4
#define TP__STAGE_BYTES ((size_t)4 << 20) /* size of each buffer of pinned memory for transfers */
#define TP__SLOTS       2                 /* number of pinned buffers for staged values */
#define TP__STAGED      1024              /* largest number of staged values that are not yet used */
#define TP__LATE        256               /* largest number of small downloads that one wait() completes */

typedef struct tp__product {
    uint64_t key; /* the product's hash; 0: this table entry is free */
    cublasLtMatmulAlgo_t algo;
    bool plain; /* cuBLASLt has no algorithm: use tp__plain_product */
} tp__product;

/* Device memory of a staged value. Its events synchronise the two streams: the value is used only after `arrived`, and the next
 * value is uploaded only after `taken`. */
typedef struct tp__staged {
    void *data;
    size_t capacity, bytes;
    cudaEvent_t arrived, taken;
    bool busy; /* the entry is reserved or its value is staged, and not yet used */
} tp__staged;

/* The state of a device; tp_device.impl points to it. */
typedef struct tp__cuda {
    tp_device device; /* must be the first field: a tp_device * is cast to a tp__cuda * */
    tp_fail_fn fail;
    tp_say_fn say;                        /* logs each message only once */
    int ordinal, n_processor, generation; /* generation: the major number of the compute capability */
    cudaStream_t stream;
    /* the pool that all device memory comes from; NULL: the driver has no pools, so cudaMalloc is used */
    cudaMemPool_t pool;
    size_t limit;         /* the most bytes that this device may allocate from the pool */
    uint64_t peer_access; /* bit i: peer access from GPU i to this one's memory has been requested */
    cublasLtHandle_t blas;
    cudnnHandle_t dnn;
    void *workspace; /* workspace of cuBLASLt: only one product at a time uses it, as all are on one stream */
    size_t workspace_bytes;
    char *stage[TP__STAGES]; /* buffers of pinned host memory, used in turn for transfers */
    cudaEvent_t stage_free[TP__STAGES];
    int stage_at;
    cudaStream_t copying; /* uploads staged values while kernels run on `stream` */
    char *slot[TP__SLOTS];
    cudaEvent_t slot_free[TP__SLOTS];
    int slot_at;
    tp__staged staged[TP__STAGED];
    /* other threads may stage values: the mutex staging guards `busy`, filling guards the slots */
    pthread_mutex_t staging, filling;
    pthread_mutex_t use; /* recursive; guards everything else: one thread at a time queues work (tp_device.hold) */
    cudaEvent_t mark;    /* event that marks how far `stream` has come, for other streams and GPUs to wait for */
    struct tp__communicator *communicators;
    struct tp__job_communicator *joined; /* communicator of this rank of the job; NULL: none */
    char *download_buffer;               /* pinned host memory for small downloads */
    size_t late_used;
    struct {
        void *to;
        size_t at, bytes;
    } late[TP__LATE];
    int n_late;
    tp_status status; /* status of the first kernel that failed; wait() reports it */
    char error[512];
    struct tp__nvml *nvml; /* loaded NVML, which reads the GPU's utilisation; NULL: not yet loaded */
    tp__product *product;  /* hash table of the chosen algorithms of products; its size is a power of two */
    int64_t n_product, product_capacity;
    /* A recording by steps: step i ends with the nodes last[first[i]] to last[first[i + 1] - 1]. */
    struct {
        bool on, has_library;
        cudaGraphNode_t *last, library; /* library: the last node of cuBLASLt or cuDNN */
        int *first, n_step;
        size_t n_last, last_capacity, first_capacity;
    } steps;
    struct tp__conv_choice *convolution; /* cuDNN's choices for the convolutions that were queried */
} tp__cuda;

static tp__cuda *tp__cuda_of(const tp_call *k) { return (tp__cuda *)k->device; }

/* Holds a device until the end of the block: other threads wait until then. */
struct tp__held {
    tp__cuda *c;
    explicit tp__held(tp__cuda *device) : c(device) { pthread_mutex_lock(&c->use); }
    explicit tp__held(tp_device *device) : c((tp__cuda *)device) { pthread_mutex_lock(&c->use); }
    ~tp__held() { pthread_mutex_unlock(&c->use); }
    tp__held(const tp__held &) = delete;
    tp__held &operator=(const tp__held &) = delete;
};
static void tp__cuda_hold(tp_device *d, bool on)
{
    pthread_mutex_t *use = &((tp__cuda *)d)->use;
    if (on) pthread_mutex_lock(use);
    else pthread_mutex_unlock(use);
}

/* Kernels return nothing: an error is stored until the next wait(). */
static void tp__store_error(tp__cuda *c, const char *action, const char *reason)
{
    cudaGetLastError(); /* clears CUDA's own error; it is stored in c instead */
    if (c->status != TP_OK) return;
    c->status = TP_ERR_STATE;
    snprintf(c->error, sizeof c->error, "%s: %s failed: %s", c->device.name, action, reason);
}
static void tp__check_launch(const tp_call *k)
{
    const cudaError_t e = cudaGetLastError();
    if (e != cudaSuccess) tp__store_error(tp__cuda_of(k), k->op ? k->op->name : "a kernel", cudaGetErrorString(e));
}
/* The usual launch: one thread per element of `work_`, up to 16 blocks per multiprocessor. */
#define TP_RUN(k_, kernel_, work_, ...)                                                                        \
    do {                                                                                                       \
        const int64_t work_n_ = (work_);                                                                       \
        if (work_n_ > 0) {                                                                                     \
            TP_LAUNCH(tp__cuda_of(k_)->stream, kernel_, tp__blocks(k_, work_n_), TP__THREADS, 0, __VA_ARGS__); \
            tp__check_launch(k_);                                                                              \
        }                                                                                                      \
    } while (0)
/* Launches one block for each of `blocks_` pieces of work. */
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
    const int64_t needed = (work + TP__THREADS - 1) / TP__THREADS,
                  max_blocks = (int64_t)tp__cuda_of(k)->n_processor * 16;
    return (unsigned)(needed < max_blocks ? needed : max_blocks);
}

static tp_status tp__cuda_status(tp__cuda *c, cudaError_t e, const char *action)
{
    if (e == cudaSuccess) return TP_OK;
    cudaGetLastError(); /* clears CUDA's error, because it is reported here; otherwise the next check would find it */
    return c->fail(e == cudaErrorMemoryAllocation ? TP_ERR_NOMEM : TP_ERR_STATE, "%s: %s failed: %s", c->device.name,
                   action, cudaGetErrorString(e));
}

/* Memory is allocated and freed in stream order: work queued after an allocation can use it, and memory is reused after the
 * work queued before the free. No call waits, whereas cudaMalloc and cudaFree wait for the whole GPU. */
static cudaError_t tp__memory_alloc_once(tp__cuda *c, cudaStream_t stream, size_t bytes, void **p)
{
    /* read atomically, because another thread may stage values */
    const size_t limit = __atomic_load_n(&c->limit, __ATOMIC_RELAXED);
    uint64_t used = 0;
    if (limit != SIZE_MAX && cudaMemPoolGetAttribute(c->pool, cudaMemPoolAttrUsedMemCurrent, &used) == cudaSuccess &&
        (used > limit || bytes > limit - used))
        return cudaErrorMemoryAllocation;
    return cudaMallocFromPoolAsync(p, bytes, c->pool, stream);
}
static cudaError_t tp__memory_alloc(tp__cuda *c, cudaStream_t stream, size_t bytes, void **p)
{
    *p = NULL;
    if (!c->pool) return cudaMalloc(p, bytes);
    cudaError_t e = tp__memory_alloc_once(c, stream, bytes, p);
    if (e != cudaErrorMemoryAllocation) return e;
    /* The pool is fragmented or frees are still queued: wait for the streams, trim the pool and try once more. */
    cudaStreamCaptureStatus recorded = cudaStreamCaptureStatusNone;
    cudaGetLastError();
    /* A thread that stages a value does not hold the device: the thread that does may be about to record, and to wait for a stream
     * that is recorded spoils the recording. */
    if (pthread_mutex_trylock(&c->use) == 0) {
        cudaStreamIsCapturing(c->stream, &recorded);
        if (recorded == cudaStreamCaptureStatusNone) cudaStreamSynchronize(c->stream);
        pthread_mutex_unlock(&c->use);
    }
    cudaStreamSynchronize(c->copying);
    cudaMemPoolTrimTo(c->pool, 0);
    return tp__memory_alloc_once(c, stream, bytes, p);
}
static void tp__memory_free(tp__cuda *c, cudaStream_t stream, void *p)
{
    if (!p) return;
    if (c->pool) cudaFreeAsync(p, stream);
    else cudaFree(p);
}
/* The pool never returns memory to the driver by itself, so that repeated allocations are fast. */
static cudaError_t tp__memory_open(tp__cuda *c)
{
    cudaMemPoolProps props;
    uint64_t keep = UINT64_MAX;
    int known = 0;
    cudaError_t e = cudaDeviceGetAttribute(&known, cudaDevAttrMemoryPoolsSupported, c->ordinal);
    if (e != cudaSuccess || !known) return e;
    memset(&props, 0, sizeof props);
    props.allocType = cudaMemAllocationTypePinned;
    props.handleTypes = cudaMemHandleTypeNone;
    props.location.type = cudaMemLocationTypeDevice;
    props.location.id = c->ordinal;
    e = cudaMemPoolCreate(&c->pool, &props);
    return e == cudaSuccess ? cudaMemPoolSetAttribute(c->pool, cudaMemPoolAttrReleaseThreshold, &keep) : e;
}

static void *tp__cuda_alloc(tp_device *d, size_t bytes)
{
    tp__cuda *c = (tp__cuda *)d;
    void *p = NULL;
    const tp__held held(c);
    cudaSetDevice(c->ordinal);
    if (tp__memory_alloc(c, c->stream, bytes ? bytes : 1, &p) == cudaSuccess) return p;
    cudaGetLastError(); /* clears CUDA's error, so that the next check does not find it */
    return NULL;
}
static void tp__cuda_free(tp_device *d, void *p)
{
    tp__cuda *c = (tp__cuda *)d;
    const tp__held held(c);
    cudaSetDevice(c->ordinal);
    tp__memory_free(c, c->stream, p);
}

static tp_status tp__cuda_limit_memory(tp_device *d, double fraction)
{
    tp__cuda *c = (tp__cuda *)d;
    size_t left = 0, total_memory = 0;
    if (!c->pool) return TP_OK;
    cudaSetDevice(c->ordinal);
    const tp_status st = tp__cuda_status(c, cudaMemGetInfo(&left, &total_memory), "asking for its memory");
    const size_t limit = fraction < 1 ? (size_t)(fraction * (double)total_memory) : SIZE_MAX;
    if (st == TP_OK && limit < c->limit) __atomic_store_n(&c->limit, limit, __ATOMIC_RELAXED);
    return st;
}

/* Reports the bytes allocated from the pool: now, and the most so far. */
extern "C" tp_status tp_cuda_memory(tp_device *d, size_t *now, size_t *most)
{
    tp__cuda *c = (tp__cuda *)d;
    uint64_t used = 0, high = 0;
    if (!c->pool) return c->fail(TP_ERR_UNSUPPORTED, "%s: its driver does not count what is allocated", d->name);
    cudaError_t e = cudaMemPoolGetAttribute(c->pool, cudaMemPoolAttrUsedMemCurrent, &used);
    if (e == cudaSuccess) e = cudaMemPoolGetAttribute(c->pool, cudaMemPoolAttrUsedMemHigh, &high);
    *now = (size_t)used;
    *most = (size_t)high;
    return tp__cuda_status(c, e, "counting its memory");
}

static tp_status tp__cuda_memory_use(tp_device *d, tp_memory_use *m)
{
    tp__cuda *c = (tp__cuda *)d;
    size_t available = 0, total = 0;
    cudaSetDevice(c->ordinal);
    const cudaError_t e = cudaMemGetInfo(&available, &total);
    if (e != cudaSuccess) return tp__cuda_status(c, e, "counting its memory");
    m->total = (int64_t)total;
    m->available = (int64_t)available;
    size_t now = 0, peak = 0;
    if (!c->pool) return TP_OK;
    const tp_status st = tp_cuda_memory(d, &now, &peak);
    m->used = (int64_t)now;
    m->peak = (int64_t)peak;
    return st;
}

/* The driver's NVML is loaded by name at the first query, so that programs link and run without it. Its functions return 0 on
 * success. */
#pragma weak dlopen /* older libcs have dlopen in a separate library, which may not be linked */
#pragma weak dlsym
#pragma weak dlclose
typedef struct tp__nvml {
    void *library, *gpu;
    struct {
        unsigned kernels, memory; /* percent of the last sampling period in which kernels ran, or memory was accessed */
    } busy;
    int (*shutdown)(void);
    int (*rates)(void *gpu, void *busy);
} tp__nvml;

static void tp__nvml_free(tp__nvml *n)
{
    if (!n) return;
    if (n->gpu) n->shutdown();
    if (n->library) dlclose(n->library);
    free(n);
}

/* Loads NVML and finds the GPU; if anything is missing, n->gpu stays NULL. */
static void tp__nvml_find(tp__nvml *n, int ordinal)
{
    char bus[32] = "";
    if (!dlopen || !dlsym || !dlclose || !(n->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL))) return;
    int (*const init)(void) = reinterpret_cast<int (*)(void)>(dlsym(n->library, "nvmlInit_v2"));
    int (*const find)(const char *, void **) =
        reinterpret_cast<int (*)(const char *, void **)>(dlsym(n->library, "nvmlDeviceGetHandleByPciBusId_v2"));
    n->shutdown = reinterpret_cast<int (*)(void)>(dlsym(n->library, "nvmlShutdown"));
    n->rates = reinterpret_cast<int (*)(void *, void *)>(dlsym(n->library, "nvmlDeviceGetUtilizationRates"));
    if (!init || !find || !n->shutdown || !n->rates) return;
    if (cudaDeviceGetPCIBusId(bus, sizeof bus, ordinal) != cudaSuccess) {
        cudaGetLastError();
        return;
    }
    if (init() != 0) return;
    if (find(bus, &n->gpu) == 0) return;
    n->gpu = NULL;
    n->shutdown();
}

static double tp__cuda_utilization(tp_device *d)
{
    tp__cuda *c = (tp__cuda *)d;
    if (!c->nvml && (c->nvml = (tp__nvml *)calloc(1, sizeof *c->nvml)) != NULL) tp__nvml_find(c->nvml, c->ordinal);
    if (!c->nvml || !c->nvml->gpu || c->nvml->rates(c->nvml->gpu, &c->nvml->busy) != 0) return -1;
    return c->nvml->busy.kernels;
}

/* The next pinned buffer, after the transfer that used it is complete. */
static tp_status tp__stage_next(tp__cuda *c, int *at)
{
    *at = c->stage_at;
    c->stage_at = (c->stage_at + 1) % TP__STAGES;
    return tp__cuda_status(c, cudaEventSynchronize(c->stage_free[*at]), "waiting for a transfer");
}

static tp_status tp__cuda_upload(tp_device *d, void *dst, const void *src, size_t bytes)
{
    tp__cuda *c = (tp__cuda *)d;
    const tp__held held(c);
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

/* Uploads a value into the staged memory, piece by piece through pinned memory. */
static tp_status tp__stage_into(tp__cuda *c, tp__staged *s, const char *src, size_t bytes)
{
    cudaError_t e = cudaSuccess;
    if (!s->arrived) e = cudaEventCreateWithFlags(&s->arrived, cudaEventDisableTiming);
    if (e == cudaSuccess && !s->taken) e = cudaEventCreateWithFlags(&s->taken, cudaEventDisableTiming);
    /* wait until the previous value is no longer used */
    if (e == cudaSuccess) e = cudaStreamWaitEvent(c->copying, s->taken, 0);
    if (e == cudaSuccess && s->capacity < bytes) {
        tp__memory_free(c, c->copying, s->data);
        s->data = NULL;
        s->capacity = 0;
        e = tp__memory_alloc(c, c->copying, bytes, &s->data);
        if (e == cudaErrorMemoryAllocation) {
            cudaGetLastError();
            return c->fail(TP_ERR_NOMEM, "out of memory on %s for %.1f MB of staged input: stage less of it ahead",
                           c->device.name, (double)bytes / 1048576.0);
        }
        if (e == cudaSuccess) s->capacity = bytes;
    }
    s->bytes = bytes;
    for (size_t done = 0; done < bytes && e == cudaSuccess;) {
        const size_t n = bytes - done < TP__STAGE_BYTES ? bytes - done : TP__STAGE_BYTES;
        const int at = c->slot_at;
        c->slot_at = (c->slot_at + 1) % TP__SLOTS;
        e = cudaEventSynchronize(c->slot_free[at]);
        if (e != cudaSuccess) break;
        memcpy(c->slot[at], src + done, n);
        e = cudaMemcpyAsync((char *)s->data + done, c->slot[at], n, cudaMemcpyHostToDevice, c->copying);
        if (e == cudaSuccess) e = cudaEventRecord(c->slot_free[at], c->copying);
        done += n;
    }
    if (e == cudaSuccess) e = cudaEventRecord(s->arrived, c->copying);
    return tp__cuda_status(c, e, "staging");
}
static void tp__stage_release(tp__cuda *c, tp__staged *s)
{
    pthread_mutex_lock(&c->staging);
    s->busy = false;
    pthread_mutex_unlock(&c->staging);
}
/* Stages a value in the smallest free block of staging memory that is large enough, or else enlarges the largest free block. */
static tp_status tp__cuda_stage(tp_device *d, const void *src, size_t bytes, int *ticket)
{
    tp__cuda *c = (tp__cuda *)d;
    int fits = -1, largest = -1;
    pthread_mutex_lock(&c->staging);
    for (int i = 0; i < TP__STAGED; i++) {
        const tp__staged *s = &c->staged[i];
        if (s->busy) continue;
        if (s->capacity >= bytes && (fits < 0 || s->capacity < c->staged[fits].capacity)) fits = i;
        if (s->capacity < bytes && (largest < 0 || s->capacity > c->staged[largest].capacity)) largest = i;
        if (s->capacity == 0) break; /* no entry from here on has memory, unless an allocation has failed */
    }
    const int at = fits >= 0 ? fits : largest;
    if (at >= 0) c->staged[at].busy = true;
    pthread_mutex_unlock(&c->staging);
    if (at < 0)
        return c->fail(TP_ERR_STATE, "%s: %d staged values wait already, and that is all there can be", d->name,
                       TP__STAGED);
    cudaSetDevice(c->ordinal);
    pthread_mutex_lock(&c->filling);
    const tp_status st = tp__stage_into(c, &c->staged[at], (const char *)src, bytes);
    pthread_mutex_unlock(&c->filling);
    if (st != TP_OK) tp__stage_release(c, &c->staged[at]);
    else *ticket = at;
    return st;
}
static tp_status tp__cuda_unstage(tp_device *d, int ticket, void *dst)
{
    tp__cuda *c = (tp__cuda *)d;
    const tp__held held(c);
    cudaError_t e = cudaSuccess;
    if (ticket < 0 || ticket >= TP__STAGED || !c->staged[ticket].busy)
        return c->fail(TP_ERR_ARG, "%s: no staged value has number %d", d->name, ticket);
    tp__staged *s = &c->staged[ticket];
    if (dst) {
        cudaSetDevice(c->ordinal);
        e = cudaStreamWaitEvent(c->stream, s->arrived, 0);
        if (e == cudaSuccess) e = cudaMemcpyAsync(dst, s->data, s->bytes, cudaMemcpyDeviceToDevice, c->stream);
        if (e == cudaSuccess) e = cudaEventRecord(s->taken, c->stream);
    }
    tp__stage_release(c, s);
    return tp__cuda_status(c, e, "taking a staged value");
}

static tp_status tp__cuda_wait(tp_device *d)
{
    tp__cuda *c = (tp__cuda *)d;
    const tp__held held(c);
    cudaSetDevice(c->ordinal);
    const cudaError_t e = cudaStreamSynchronize(c->stream);
    for (int i = 0; i < c->n_late && e == cudaSuccess; i++)
        memcpy(c->late[i].to, c->download_buffer + c->late[i].at, c->late[i].bytes);
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

/* The download is complete when wait() returns. Small downloads (a cost, a counter) share one wait. Downloads use the stream of
 * the kernels: the caller waits for them anyway, and staged uploads can proceed at the same time in the other direction. */
static tp_status tp__cuda_download(tp_device *d, void *dst, const void *src, size_t bytes)
{
    tp__cuda *c = (tp__cuda *)d;
    const tp__held held(c);
    cudaSetDevice(c->ordinal);
    if (c->n_late < TP__LATE && c->late_used + bytes <= TP__STAGE_BYTES && bytes <= TP__STAGE_BYTES / 16) {
        c->late[c->n_late].to = dst;
        c->late[c->n_late].at = c->late_used;
        c->late[c->n_late].bytes = bytes;
        const tp_status st = tp__cuda_status(
            c, cudaMemcpyAsync(c->download_buffer + c->late_used, src, bytes, cudaMemcpyDeviceToHost, c->stream),
            "a download");
        if (st != TP_OK) return st;
        c->late_used += (bytes + 63) & ~(size_t)63;
        c->n_late++;
        return TP_OK;
    }
    size_t begun = 0, done = 0; /* transfer the next piece while this one is copied to dst */
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
    const tp__held held(c);
    cudaSetDevice(c->ordinal);
    return tp__cuda_status(c, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, c->stream), "a copy");
}

/* Work queued on device d from now on runs after the work queued on `other` so far; if `other` is being recorded, d
 * joins the recording. Reports kernels that failed on `other`. */
static tp_status tp__cuda_after(tp_device *d, tp_device *other)
{
    tp__cuda *c = (tp__cuda *)d, *o = (tp__cuda *)other;
    if (c == o) return TP_OK;
    if (other->after != tp__cuda_after)
        return c->fail(TP_ERR_UNSUPPORTED, "%s cannot wait for %s", d->name, other->name);
    cudaSetDevice(o->ordinal);
    tp_status st = tp__cuda_status(o, cudaEventRecord(o->mark, o->stream), "waiting for another GPU");
    cudaSetDevice(c->ordinal);
    if (st == TP_OK) st = tp__cuda_status(c, cudaStreamWaitEvent(c->stream, o->mark, 0), "waiting for another GPU");
    if (o->status != TP_OK) {
        st = c->fail(o->status, "%s", o->error);
        o->status = TP_OK;
    }
    return st;
}

/* Gives `other` access to the memory of GPU c, if the machine supports it; otherwise copies go through the host. Memory of a
 * pool and of cudaMalloc need different calls. */
static void tp__cuda_open_to(tp__cuda *c, const tp__cuda *other)
{
    const uint64_t bit = (uint64_t)1 << (other->ordinal & 63);
    int has_access = 0;
    if (c->peer_access & bit) return;
    c->peer_access |= bit;
    if (cudaDeviceCanAccessPeer(&has_access, other->ordinal, c->ordinal) == cudaSuccess && has_access) {
        if (c->pool) {
            cudaMemAccessDesc access;
            memset(&access, 0, sizeof access);
            access.location.type = cudaMemLocationTypeDevice;
            access.location.id = other->ordinal;
            access.flags = cudaMemAccessFlagsProtReadWrite;
            cudaMemPoolSetAccess(c->pool, &access, 1);
        } else {
            cudaSetDevice(other->ordinal);
            cudaDeviceEnablePeerAccess(c->ordinal, 0); /* an error here means that access is already enabled */
        }
    }
    cudaGetLastError();
}

/* Copies between two GPUs: after the work queued on `from`; work queued on `from` later waits for the copy. */
static tp_status tp__cuda_copy_from(tp_device *d, void *dst, tp_device *from, const void *src, size_t bytes)
{
    tp__cuda *c = (tp__cuda *)d, *f = (tp__cuda *)from;
    if (from->host) return tp__cuda_upload(d, dst, src, bytes);
    if (from->copy_from != tp__cuda_copy_from)
        return c->fail(TP_ERR_UNSUPPORTED, "%s cannot copy from %s", d->name, from->name);
    if (c == f) return tp__cuda_copy(d, dst, src, bytes);
    tp__cuda_open_to(f, c);
    tp__cuda_open_to(c, f);
    tp_status st = tp__cuda_after(d, from);
    if (st == TP_OK)
        st = tp__cuda_status(c, cudaMemcpyPeerAsync(dst, c->ordinal, src, f->ordinal, bytes, c->stream),
                             "a copy from another GPU");
    if (st == TP_OK) st = tp__cuda_after(from, d);
    cudaSetDevice(c->ordinal);
    return st;
}

/* The nodes after which the next recorded work will run. */
static cudaError_t tp__recorded_last(tp__cuda *c, const cudaGraphNode_t **node, size_t *n)
{
    cudaStreamCaptureStatus status;
    const cudaGraphEdgeData *edge;
    *n = 0;
    return cudaStreamGetCaptureInfo(c->stream, &status, NULL, NULL, node, &edge, n);
}
/* Makes room for n elements of an array; false: out of memory. */
template <class T> static bool tp__reserve(T **array, size_t *capacity, size_t n)
{
    if (n <= *capacity) return true;
    const size_t wanted = n < 256 ? 512 : 2 * n;
    T *bigger = (T *)realloc(*array, wanted * sizeof **array);
    if (!bigger) return false;
    *array = bigger;
    *capacity = wanted;
    return true;
}
static tp_status tp__cuda_record_step(tp_device *d, const int *after, int n)
{
    tp__cuda *c = (tp__cuda *)d;
    const cudaGraphNode_t *node;
    size_t n_node;
    cudaError_t e = tp__recorded_last(c, &node, &n_node); /* the last nodes of the step before */
    if (e != cudaSuccess) return tp__cuda_status(c, e, "recording a step");
    if (!tp__reserve(&c->steps.first, &c->steps.first_capacity, (size_t)c->steps.n_step + 2) ||
        !tp__reserve(&c->steps.last, &c->steps.last_capacity, c->steps.n_last + n_node))
        return c->fail(TP_ERR_NOMEM, "%s: out of memory for the steps of a recording", d->name);
    c->steps.first[0] = 0;
    if (c->steps.n_step > 0) {
        for (size_t i = 0; i < n_node; i++) c->steps.last[c->steps.n_last++] = node[i];
        c->steps.first[c->steps.n_step] = (int)c->steps.n_last;
    }
    c->steps.n_step++;
    c->steps.on = true;
    for (int i = 0; i <= n && e == cudaSuccess; i++) { /* first with no node, which removes those of the step before */
        const int from = i ? c->steps.first[after[i - 1]] : 0, to = i ? c->steps.first[after[i - 1] + 1] : 0;
        if (i == 0 || to > from)
            e = cudaStreamUpdateCaptureDependencies(
                c->stream, i ? c->steps.last + from : NULL, NULL, (size_t)(to - from),
                i ? cudaStreamAddCaptureDependencies : cudaStreamSetCaptureDependencies);
    }
    return tp__cuda_status(c, e, "recording a step");
}
/* The calls of cuBLASLt share a workspace and those of cuDNN a handle: in a recording by steps each follows the one before. */
static void tp__library_begin(tp__cuda *c)
{
    if (!c->steps.on || !c->steps.has_library) return;
    const cudaError_t e =
        cudaStreamUpdateCaptureDependencies(c->stream, &c->steps.library, NULL, 1, cudaStreamAddCaptureDependencies);
    if (e != cudaSuccess) tp__store_error(c, "recording a library's kernel", cudaGetErrorString(e));
}
static void tp__library_end(tp__cuda *c)
{
    const cudaGraphNode_t *node;
    size_t n;
    if (!c->steps.on) return;
    const cudaError_t e = tp__recorded_last(c, &node, &n);
    if (e != cudaSuccess) tp__store_error(c, "recording a library's kernel", cudaGetErrorString(e));
    if (e != cudaSuccess || n != 1) return; /* several: the library recorded nothing */
    c->steps.library = node[0];
    c->steps.has_library = true;
}
/* Records a step as one CUDA graph. Fed values are already copied to the arena, so the graph does not contain the address where
 * they were staged. */
static tp_status tp__cuda_record_begin(tp_device *d)
{
    tp__cuda *c = (tp__cuda *)d;
    c->steps.on = c->steps.has_library = false;
    c->steps.n_step = 0;
    c->steps.n_last = 0;
    cudaSetDevice(c->ordinal);
    return tp__cuda_status(c, cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeThreadLocal), "recording");
}
static tp_status tp__cuda_record_end(tp_device *d, void **recording)
{
    tp__cuda *c = (tp__cuda *)d;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    *recording = NULL;
    c->steps.on = false;
    cudaSetDevice(c->ordinal);
    tp_status st = tp__cuda_status(c, cudaStreamEndCapture(c->stream, &graph), "recording");
    if (st == TP_OK) st = tp__cuda_status(c, cudaGraphInstantiate(&exec, graph, 0), "recording");
    if (graph) cudaGraphDestroy(graph);
    if (st == TP_OK && c->status != TP_OK) { /* one of the kernels could not be recorded */
        st = c->fail(c->status, "%s", c->error);
        cudaGraphExecDestroy(exec);
    }
    c->status = TP_OK; /* the next recording or launch starts without the error of this recording */
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

/* ==== >>nccl ========================================================================================== */
/* Sums over GPUs by NCCL: over the GPUs of one program if the session requests it (the default is the sum in the order of the
 * towers, see all_reduce, which has the same bits on all machines), and over programs on several machines. */

#ifndef TP_NO_NCCL
/* A device of this program in an NCCL communicator. */
typedef struct tp__communicator {
    struct tp__communicator *next;
    uint64_t number; /* identifies the communicator; all its devices have the same number */
    ncclComm_t comm;
    int n, rank;
} tp__communicator;

static tp_status tp__nccl_status(tp__cuda *c, ncclResult_t r, ncclComm_t comm, const char *action)
{
    if (r == ncclSuccess) return TP_OK;
    const char *detail = ncclGetLastError(comm);
    return c->fail(TP_ERR_STATE, "%s: %s by NCCL failed: %s%s%s", c->device.name, action, ncclGetErrorString(r),
                   detail && *detail ? ": " : "", detail ? detail : "");
}
static tp_status tp__nccl_type(tp__cuda *c, tp_dtype dtype, ncclDataType_t *type)
{
    switch (dtype) {
    case TP_F32: *type = ncclFloat32; return TP_OK;
    case TP_F64: *type = ncclFloat64; return TP_OK;
    case TP_F16: *type = ncclFloat16; return TP_OK;
    case TP_BF16: *type = ncclBfloat16; return TP_OK;
    case TP_I32: *type = ncclInt32; return TP_OK;
    case TP_I64: *type = ncclInt64; return TP_OK;
    default:
        return c->fail(TP_ERR_DTYPE, "%s: NCCL is not asked to move values of type %d", c->device.name, (int)dtype);
    }
}

static tp__communicator *tp__communicator_find(const tp__cuda *c, uint64_t number)
{
    tp__communicator *q = c->communicators;
    while (q && q->number != number) q = q->next;
    return q;
}
/* The communicators of n devices, created at first use: when a step runs kernel by kernel, before it is recorded. */
static tp_status tp__communicators_of(tp_device *const *d, int n, ncclComm_t *comm)
{
    static uint64_t last_number;
    tp__cuda *first = (tp__cuda *)d[0];
    int ordinal[TP_MAX_OUTPUTS];
    tp__communicator *made[TP_MAX_OUTPUTS];
    for (const tp__communicator *q = first->communicators; q; q = q->next) {
        bool is_same_group = q->n == n;
        for (int i = 0; i < n && is_same_group; i++) {
            const tp__communicator *communicator = tp__communicator_find((const tp__cuda *)d[i], q->number);
            is_same_group = communicator && communicator->rank == i;
            if (is_same_group) comm[i] = communicator->comm;
        }
        if (is_same_group) return TP_OK;
    }
    bool enough = true;
    for (int i = 0; i < n; i++) {
        ordinal[i] = ((const tp__cuda *)d[i])->ordinal;
        made[i] = (tp__communicator *)calloc(1, sizeof *made[i]);
        enough = enough && made[i];
    }
    tp_status st = enough ? TP_OK : first->fail(TP_ERR_NOMEM, "out of memory for a communicator");
    /* NCCL may read another GPU's buffers in place, and opens only cudaMalloc's memory to its GPUs, not a pool's */
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n && st == TP_OK; k++)
            if (i != k) tp__cuda_open_to((tp__cuda *)d[i], (const tp__cuda *)d[k]);
    if (st == TP_OK)
        st = tp__nccl_status(first, ncclCommInitAll(comm, n, ordinal), NULL, "meeting the session's other GPUs");
    const uint64_t number = __atomic_add_fetch(&last_number, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < n; i++) {
        if (st != TP_OK) {
            free(made[i]);
            continue;
        }
        tp__cuda *c = (tp__cuda *)d[i];
        made[i]->next = c->communicators;
        made[i]->number = number;
        made[i]->comm = comm[i];
        made[i]->n = n;
        made[i]->rank = i;
        c->communicators = made[i];
    }
    cudaSetDevice(first->ordinal);
    return st;
}
static void tp__communicators_free(tp__cuda *c)
{
    while (c->communicators) {
        tp__communicator *q = c->communicators;
        c->communicators = q->next;
        ncclCommDestroy(q->comm);
        free(q);
    }
}
static tp_status tp__cuda_all_reduce(tp_device *const *d, int n, const void *const *in, void *const *out, int64_t count,
                                     tp_dtype dtype, bool mean)
{
    tp__cuda *first = (tp__cuda *)d[0];
    ncclComm_t comm[TP_MAX_OUTPUTS];
    ncclDataType_t type = ncclFloat32;
    for (int i = 0; i < n; i++)
        if (n > TP_MAX_OUTPUTS || d[i]->all_reduce != tp__cuda_all_reduce)
            return first->fail(TP_ERR_UNSUPPORTED, "NCCL sums over at most %d GPUs, not over %s", TP_MAX_OUTPUTS,
                               d[i]->name);
    tp_status st = tp__nccl_type(first, dtype, &type);
    if (st == TP_OK) st = tp__communicators_of(d, n, comm);
    if (st != TP_OK || count == 0) return st;
    /* one thread calls several communicators that wait for each other: NCCL requires a group */
    ncclResult_t r = ncclGroupStart();
    for (int i = 0; i < n && r == ncclSuccess; i++)
        r = ncclAllReduce(in[i], out[i], (size_t)count, type, mean ? ncclAvg : ncclSum, comm[i],
                          ((tp__cuda *)d[i])->stream);
    const ncclResult_t end = ncclGroupEnd();
    cudaSetDevice(first->ordinal);
    return tp__nccl_status(first, r != ncclSuccess ? r : end, comm[0], "a sum over GPUs");
}

/* The communicator of a job's ranks. Sums have a stream of their own, so that they overlap with the backward pass. */
typedef struct tp__job_communicator {
    ncclComm_t comm;
    cudaStream_t stream;
    cudaEvent_t done; /* event that is recorded after the last sum over ranks */
} tp__job_communicator;

static tp_status tp__cuda_ranks_id(tp_device *d, char *id) { return tp_cuda_comm_id_(id, ((tp__cuda *)d)->fail); }
static void tp__cuda_ranks_leave(tp_device *d, bool abort)
{
    tp__cuda *c = (tp__cuda *)d;
    tp__job_communicator *j = c->joined;
    if (!j) return;
    c->joined = NULL;
    cudaSetDevice(c->ordinal);
    if (!abort) cudaStreamSynchronize(j->stream);
    if (j->comm && abort) ncclCommAbort(j->comm); /* ends NCCL's kernels, even if they wait for other ranks */
    else if (j->comm) ncclCommDestroy(j->comm);
    if (j->done) cudaEventDestroy(j->done);
    if (j->stream) cudaStreamDestroy(j->stream);
    free(j);
}
static tp_status tp__cuda_ranks_join(tp_device *d, const char *id, int n, int rank)
{
    tp__cuda *c = (tp__cuda *)d;
    ncclUniqueId made;
    memcpy(&made, id, sizeof made);
    tp__cuda_ranks_leave(d, false);
    tp__job_communicator *j = (tp__job_communicator *)calloc(1, sizeof *j);
    if (!j) return c->fail(TP_ERR_NOMEM, "out of memory for a communicator");
    c->joined = j;
    cudaSetDevice(c->ordinal);
    cudaError_t e = cudaStreamCreateWithFlags(&j->stream, cudaStreamNonBlocking);
    if (e == cudaSuccess) e = cudaEventCreateWithFlags(&j->done, cudaEventDisableTiming);
    tp_status st = tp__cuda_status(c, e, "a stream for sums over ranks");
    if (st == TP_OK)
        st = tp__nccl_status(c, ncclCommInitRank(&j->comm, n, made, rank), NULL, "meeting the other ranks");
    if (st != TP_OK) tp__cuda_ranks_leave(d, true);
    return st;
}
static tp_status tp__cuda_ranks_sum(tp_device *d, void *data, int64_t n, tp_dtype dtype, bool mean)
{
    tp__cuda *c = (tp__cuda *)d;
    const tp__held held(c);
    tp__job_communicator *j = c->joined;
    ncclDataType_t type = ncclFloat32;
    tp_status st = j ? tp__nccl_type(c, dtype, &type)
                     : c->fail(TP_ERR_STATE, "%s: sums over ranks come after ranks_join", d->name);
    if (st != TP_OK || n <= 0) return st;
    cudaSetDevice(c->ordinal);
    cudaError_t e = cudaEventRecord(c->mark, c->stream);
    if (e == cudaSuccess) e = cudaStreamWaitEvent(j->stream, c->mark, 0);
    st = tp__cuda_status(c, e, "a sum over ranks");
    if (st == TP_OK)
        st =
            tp__nccl_status(c, ncclAllReduce(data, data, (size_t)n, type, mean ? ncclAvg : ncclSum, j->comm, j->stream),
                            j->comm, "a sum over ranks");
    return st == TP_OK ? tp__cuda_status(c, cudaEventRecord(j->done, j->stream), "a sum over ranks") : st;
}
static tp_status tp__cuda_ranks_done(tp_device *d, bool *done)
{
    tp__cuda *c = (tp__cuda *)d;
    const tp__held held(c);
    tp__job_communicator *j = c->joined;
    ncclResult_t r = ncclSuccess;
    *done = false;
    if (!j) return c->fail(TP_ERR_STATE, "%s: sums over ranks come after ranks_join", d->name);
    cudaSetDevice(c->ordinal);
    const cudaError_t e = cudaEventQuery(j->done);
    if (e == cudaErrorNotReady) {
        cudaGetLastError();
        ncclCommGetAsyncError(j->comm, &r);
        return tp__nccl_status(c, r, j->comm, "a sum over ranks");
    }
    *done = e == cudaSuccess;
    return tp__cuda_status(c, e == cudaSuccess ? cudaStreamWaitEvent(c->stream, j->done, 0) : e, "a sum over ranks");
}

struct tp_cuda_comm {
    tp__cuda *c;
    ncclComm_t comm;
    int n, rank;
};

extern "C" tp_status tp_cuda_comm_id_(char *id, tp_fail_fn fail)
{
    ncclUniqueId made;
    static_assert(sizeof made == TP_CUDA_COMM_ID, "tp_tensor.h says how long an identity is");
    const ncclResult_t r = ncclGetUniqueId(&made);
    if (r != ncclSuccess) return fail(TP_ERR_STATE, "NCCL gave no identity: %s", ncclGetErrorString(r));
    memcpy(id, &made, sizeof made);
    return TP_OK;
}
extern "C" tp_cuda_comm *tp_cuda_comm_new_(tp_device *gpu, int n, int rank, const char *id, tp_fail_fn fail)
{
    if (!gpu || gpu->copy_from != tp__cuda_copy_from) {
        fail(TP_ERR_ARG, "NCCL takes a GPU that tp_cuda_open opened, not %s", gpu ? gpu->name : "NULL");
        return NULL;
    }
    if (rank < 0 || rank >= n) {
        fail(TP_ERR_ARG, "there is no rank %d of %d: they count from 0", rank, n);
        return NULL;
    }
    tp__cuda *c = (tp__cuda *)gpu;
    tp_cuda_comm *m = (tp_cuda_comm *)calloc(1, sizeof *m);
    if (!m) {
        fail(TP_ERR_NOMEM, "out of memory for a communicator");
        return NULL;
    }
    ncclUniqueId made;
    memcpy(&made, id, sizeof made);
    m->c = c;
    m->n = n;
    m->rank = rank;
    const tp__held held(c);
    cudaSetDevice(c->ordinal);
    if (tp__nccl_status(c, ncclCommInitRank(&m->comm, n, made, rank), NULL, "meeting the other ranks") == TP_OK)
        return m;
    free(m);
    return NULL;
}
extern "C" void tp_cuda_comm_free(tp_cuda_comm *m)
{
    if (!m) return;
    const tp__held held(m->c);
    ncclResult_t failed = ncclSuccess;
    cudaSetDevice(m->c->ordinal);
    if (ncclCommGetAsyncError(m->comm, &failed) != ncclSuccess || failed != ncclSuccess) {
        ncclCommAbort(m->comm); /* its kernels wait for a rank that is gone: the stream would never be done */
    } else {
        cudaStreamSynchronize(m->c->stream);
        ncclCommDestroy(m->comm);
    }
    free(m);
}
/* Detects that another rank has failed, at the latest in the next call; without this check the ranks would wait for ever. */
static tp_status tp__comm_status(tp_cuda_comm *m, ncclResult_t r, const char *action)
{
    ncclResult_t later = ncclSuccess;
    if (r == ncclSuccess) r = ncclCommGetAsyncError(m->comm, &later);
    return tp__nccl_status(m->c, r != ncclSuccess ? r : later, m->comm, action);
}
extern "C" tp_status tp_cuda_comm_all_reduce(tp_cuda_comm *m, void *data, int64_t n, tp_dtype dtype, bool mean)
{
    const tp__held held(m->c);
    ncclDataType_t type = ncclFloat32;
    const tp_status st = tp__nccl_type(m->c, dtype, &type);
    if (st != TP_OK || n <= 0) return st;
    if (mean && (dtype == TP_I32 || dtype == TP_I64))
        return m->c->fail(TP_ERR_DTYPE, "all-reduce: there is no mean of whole numbers");
    cudaSetDevice(m->c->ordinal);
    return tp__comm_status(m,
                           ncclAllReduce(data, data, (size_t)n, type, mean ? ncclAvg : ncclSum, m->comm, m->c->stream),
                           "an all-reduce");
}
extern "C" tp_status tp_cuda_comm_broadcast(tp_cuda_comm *m, void *data, int64_t n, tp_dtype dtype, int root)
{
    const tp__held held(m->c);
    ncclDataType_t type = ncclFloat32;
    const tp_status st = tp__nccl_type(m->c, dtype, &type);
    if (st != TP_OK || n <= 0) return st;
    if (root < 0 || root >= m->n)
        return m->c->fail(TP_ERR_ARG, "broadcast from rank %d: there are %d, counted from 0", root, m->n);
    cudaSetDevice(m->c->ordinal);
    return tp__comm_status(m, ncclBroadcast(data, data, (size_t)n, type, root, m->comm, m->c->stream), "a broadcast");
}
extern "C" tp_status tp_cuda_comm_all_gather(tp_cuda_comm *m, void *all, const void *mine, int64_t n, tp_dtype dtype)
{
    const tp__held held(m->c);
    ncclDataType_t type = ncclFloat32;
    const tp_status st = tp__nccl_type(m->c, dtype, &type);
    if (st != TP_OK || n <= 0) return st;
    cudaSetDevice(m->c->ordinal);
    return tp__comm_status(m, ncclAllGather(mine, all, (size_t)n, type, m->comm, m->c->stream), "an all-gather");
}
#else
#define TP__NCCL_MISSING "tp_cuda.cu was built without NCCL (TP_NO_NCCL): build it again with it"
static void tp__communicators_free(tp__cuda *c) { (void)c; }
static void tp__cuda_ranks_leave(tp_device *d, bool abort) { (void)d, (void)abort; }
extern "C" tp_status tp_cuda_comm_id_(char *id, tp_fail_fn fail)
{
    (void)id;
    return fail(TP_ERR_UNSUPPORTED, TP__NCCL_MISSING);
}
extern "C" tp_cuda_comm *tp_cuda_comm_new_(tp_device *gpu, int n, int rank, const char *id, tp_fail_fn fail)
{
    (void)gpu, (void)n, (void)rank, (void)id;
    fail(TP_ERR_UNSUPPORTED, TP__NCCL_MISSING);
    return NULL;
}
/* a build without NCCL has no communicators */
extern "C" void tp_cuda_comm_free(tp_cuda_comm *m) { (void)m; }
extern "C" tp_status tp_cuda_comm_all_reduce(tp_cuda_comm *, void *, int64_t, tp_dtype, bool)
{
    return TP_ERR_UNSUPPORTED;
}
extern "C" tp_status tp_cuda_comm_broadcast(tp_cuda_comm *, void *, int64_t, tp_dtype, int)
{
    return TP_ERR_UNSUPPORTED;
}
extern "C" tp_status tp_cuda_comm_all_gather(tp_cuda_comm *, void *, const void *, int64_t, tp_dtype)
{
    return TP_ERR_UNSUPPORTED;
}
#endif

/* ==== >>numbers ======================================================================================= */

/* Half precision is only a storage type: values are loaded as float and rounded to nearest even when stored, by the GPU's
 * conversions or by a portable form of them. */
typedef struct tp__bf16 {
    uint16_t bits;
} tp__bf16;
typedef struct tp__f16 {
    uint16_t bits;
} tp__f16;

__device__ __forceinline__ float tp__f32_of_bf16(uint16_t h) { return __uint_as_float((unsigned)h << 16); }
__device__ __forceinline__ uint16_t tp__bf16_of_f32(float f)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint16_t h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
#else
    const unsigned u = __float_as_uint(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
#endif
}
__device__ __forceinline__ float tp__f32_of_f16(uint16_t h)
{
#ifdef __CUDA_ARCH__
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
#else
    const unsigned sign = (unsigned)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, mantissa = h & 0x3ffu;
    if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | mantissa << 13);
    if (exponent == 0) { /* a subnormal number: mantissa * 2^-24, exactly */
        const float size = (float)mantissa * 5.9604644775390625e-8f;
        return sign ? -size : size;
    }
    return __uint_as_float(sign | (exponent + 112u) << 23 | mantissa << 13);
#endif
}
__device__ __forceinline__ uint16_t tp__f16_of_f32(float f)
{
#ifdef __CUDA_ARCH__
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
#else
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
#endif
}

/* A kernel is a template over the stored type; it computes in tp__real<T>, float or double. */
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

/* x as it is after it was stored and loaded. */
template <class T> __device__ __forceinline__ tp__real<T> tp__as_stored(tp__real<T> x)
{
    T v;
    tp__put(&v, 0, x);
    return tp__get(&v, 0);
}

/* V elements as they lie in memory, loaded at once: they need fewer of the GPU's registers than their floats, while a thread waits for
 * several. */
template <class T, int V> struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) tp__packed {
    T v[V];
};
template <class T, int V> __device__ __forceinline__ void tp__load_packed(const T *p, tp__packed<T, V> &x)
{
    x = *(const tp__packed<T, V> *)(const void *)p;
}
template <class T, class R, int V> __device__ __forceinline__ void tp__unpack(const tp__packed<T, V> &x, R (&y)[V])
{
#pragma unroll
    for (int e = 0; e < V; e++) y[e] = tp__get(x.v, e);
}

/* Stores a vector by one instruction. nvcc splits some assignments of vectors into their members, which costs a fifth of the bandwidth. */
template <class V> __device__ __forceinline__ void tp__store_vector(void *p, V v)
{
#ifdef __CUDA_ARCH__
    __stwb((V *)p, v);
#else
    *(V *)p = v;
#endif
}

/* Loads and stores a value whose type is known only at run time, for rare or small uses. */
__device__ __forceinline__ double tp__get_as(const void *p, int dtype, int64_t i)
{
    switch (dtype) {
    case TP_F64: return ((const double *)p)[i];
    case TP_F16: return tp__get((const tp__f16 *)p, i);
    case TP_BF16: return tp__get((const tp__bf16 *)p, i);
    default: return ((const float *)p)[i];
    }
}
__device__ __forceinline__ void tp__put_as(void *p, int dtype, int64_t i, double x)
{
    switch (dtype) {
    case TP_F64: ((double *)p)[i] = x; break;
    case TP_F16: tp__put((tp__f16 *)p, i, (float)x); break;
    case TP_BF16: tp__put((tp__bf16 *)p, i, (float)x); break;
    default: ((float *)p)[i] = (float)x; break;
    }
}

/* Runs the body with T as the stored type of an operand: TP_REALS(k->in[0].dtype, { ... kernel<T> ... }). */
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
/* Like TP_REALS for kernels that only move data: T is the unsigned integer of an element's size. */
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

/* Sums and maxima over the 256 threads of a block, in a fixed tree; every thread gets the result. `shared` is memory for 8
 * values; all threads of the block must call this. */
template <class R> __device__ __forceinline__ R tp__block_sum(R x, R *shared)
{
    for (int d = 16; d > 0; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
    __syncthreads(); /* wait, because threads may still read `shared` from the previous call */
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = x;
    __syncthreads();
    R sum = shared[0];
    for (int w = 1; w < (int)(blockDim.x + 31) / 32; w++) sum += shared[w];
    return sum;
}
template <class R> __device__ __forceinline__ R tp__block_max(R x, R *shared) /* NaN if any value is NaN */
{
    for (int d = 16; d > 0; d >>= 1) {
        const R y = __shfl_xor_sync(0xffffffffu, x, d);
        x = x != x || x > y ? x : y;
    }
    __syncthreads();
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = x;
    __syncthreads();
    R maximum = shared[0];
    for (int w = 1; w < (int)(blockDim.x + 31) / 32; w++)
        maximum = maximum != maximum || maximum > shared[w] ? maximum : shared[w];
    return maximum;
}

/* Philox 4x32-10: the same random numbers as tp_philox. */
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

/* a * b, rounded before it is added to anything: in a fused kernel it then has the bits that it has when it is stored. */
__device__ __forceinline__ float tp__rounded_product(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ double tp__rounded_product(double a, double b) { return __dmul_rn(a, b); }

/* Kernel side of tp_kernel_fault: keeps the first fault of a run. */
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

/* -- tensor cores: a warp multiplies small matrices. The instruction mma distributes them over the lanes: lane 4 g + t holds, of sums
 *    (16,8), rows g and g+8, columns 2t and 2t+1. Operands consist of words, two halves or one float. The lane holds words t and t+4 of
 *    rows g and g+8 of the left operand (16 rows of 8 words), and words t and t+4 of column g of the right one (8 columns of 8 words). */
template <class T> struct tp__mma {
    /* PER: numbers in a 32-bit word; DEEP: depth of the product that one instruction mma computes */
    enum { PER = sizeof(T) == 4 ? 1 : 2, DEEP = 8 * PER };
};
__device__ __forceinline__ unsigned tp__mma_word(const float *x) /* rounds a number to TF32 */
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 /* one instruction; the other takes three */
    unsigned rounded;
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(*x));
    return rounded;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    unsigned rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(*x));
    return rounded;
#else
    const unsigned u = __float_as_uint(*x);
    return (u & 0x7f800000u) == 0x7f800000u ? u : (u + 0x1000u) & ~0x1fffu;
#endif
}
__device__ __forceinline__ unsigned tp__mma_word(const tp__bf16 *x) { return x[0].bits | (unsigned)x[1].bits << 16; }
__device__ __forceinline__ unsigned tp__mma_word(const tp__f16 *x) { return x[0].bits | (unsigned)x[1].bits << 16; }
template <class T> __device__ __forceinline__ unsigned tp__mma_pair(float x, float y)
{
    T v[2];
    tp__put(v, 0, x);
    tp__put(v, 1, y);
    return tp__mma_word(v);
}
#ifndef __CUDA_ARCH__ /* the stand-in for CUDA in tests/gpu/shim */
__device__ __forceinline__ float tp__mma_dot(const float *, unsigned a, unsigned b)
{
    return __uint_as_float(a) * __uint_as_float(b);
}
__device__ __forceinline__ float tp__mma_dot(const tp__bf16 *, unsigned a, unsigned b)
{
    return tp__f32_of_bf16((uint16_t)a) * tp__f32_of_bf16((uint16_t)b) +
           tp__f32_of_bf16((uint16_t)(a >> 16)) * tp__f32_of_bf16((uint16_t)(b >> 16));
}
__device__ __forceinline__ float tp__mma_dot(const tp__f16 *, unsigned a, unsigned b)
{
    return tp__f32_of_f16((uint16_t)a) * tp__f32_of_f16((uint16_t)b) +
           tp__f32_of_f16((uint16_t)(a >> 16)) * tp__f32_of_f16((uint16_t)(b >> 16));
}
/* Sets *to_low and *to_high to what `low` and `high` are in another lane of the warp. */
__device__ __forceinline__ void tp__mma_words(unsigned low, unsigned high, int lane, unsigned *to_low,
                                              unsigned *to_high)
{
    const long long both = __shfl_sync(0xffffffffu, (long long)((unsigned long long)high << 32 | low), lane);
    *to_low = (unsigned)both;
    *to_high = (unsigned)((unsigned long long)both >> 32);
}
/* Computes through shuffles what the instruction mma computes. */
template <class T> __device__ __forceinline__ void tp__mma_add(float c[4], const unsigned a[4], const unsigned b[2])
{
    const int lane = threadIdx.x & 31, t = lane & 3;
    const T *kind = NULL;
    unsigned above[8], below[8], left[8], right[8]; /* words of two rows and of two columns */
    for (int w = 0; w < 4; w++) {
        tp__mma_words(a[0], a[1], (lane & ~3) + w, &above[w], &below[w]);
        tp__mma_words(a[2], a[3], (lane & ~3) + w, &above[w + 4], &below[w + 4]);
        tp__mma_words(b[0], b[1], 8 * t + w, &left[w], &left[w + 4]);
        tp__mma_words(b[0], b[1], 8 * t + 4 + w, &right[w], &right[w + 4]);
    }
    for (int w = 0; w < 8; w++) {
        c[0] += tp__mma_dot(kind, above[w], left[w]);
        c[1] += tp__mma_dot(kind, above[w], right[w]);
        c[2] += tp__mma_dot(kind, below[w], left[w]);
        c[3] += tp__mma_dot(kind, below[w], right[w]);
    }
}
#elif __CUDA_ARCH__ < 800
/* Kernels with tensor cores are not launched on such a GPU: they are compiled to nothing, which saves minutes. */
template <class T> __device__ __forceinline__ void tp__mma_add(float *, const unsigned *, const unsigned *)
{
    __trap();
}
#else
template <class T> __device__ __forceinline__ void tp__mma_add(float c[4], const unsigned a[4], const unsigned b[2]);
#define TP__MMA(T_, shape_, type_)                                                                                    \
    template <> __device__ __forceinline__ void tp__mma_add<T_>(float c[4], const unsigned a[4], const unsigned b[2]) \
    {                                                                                                                 \
        asm("mma.sync.aligned." shape_ ".row.col.f32." type_ "." type_ ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "          \
            "{%8,%9}, {%0,%1,%2,%3};"                                                                                 \
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                          \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                      \
    }
TP__MMA(float, "m16n8k8", "tf32")
TP__MMA(tp__bf16, "m16n8k16", "bf16")
TP__MMA(tp__f16, "m16n8k16", "f16")
#undef TP__MMA
#endif

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

/* The dimensions of a shape and their strides in elements, in a form that is passed to kernels. */
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
    size_t (*scratch)(const tp_call *k); /* NULL: the kernel needs no scratch memory */
} tp__cuda_kernel;

/* Division by a number known on the host; for numerators below 2^31 it is a multiplication and a shift. */
typedef struct tp__divisor {
    int64_t d;
    uint32_t factor, shift;
    bool small;
} tp__divisor;
/* max_numerator: the largest number that is divided */
static tp__divisor tp__divide_by(int64_t d, int64_t max_numerator)
{
    tp__divisor v;
    memset(&v, 0, sizeof v);
    v.d = d > 0 ? d : 1;
    v.small = max_numerator <= INT32_MAX && v.d <= INT32_MAX;
    if (v.small) {
        while (((int64_t)1 << v.shift) < v.d) v.shift++;
        v.factor = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << v.shift) - (uint64_t)v.d)) / (uint64_t)v.d + 1);
    }
    return v;
}
/* A 64-bit division, kept out of line because its code is long and rarely needed. */
static __device__ __noinline__ int64_t tp__long_quotient(int64_t i, int64_t d) { return i / d; }
__device__ __forceinline__ int tp__small_quotient(int i, const tp__divisor &v) /* v.small must be set */
{
    return (int)(((uint32_t)(((uint64_t)(uint32_t)i * v.factor) >> 32) + (uint32_t)i) >> v.shift);
}
__device__ __forceinline__ int64_t tp__quotient(int64_t i, const tp__divisor &v)
{
    if (!v.small) return tp__long_quotient(i, v.d);
    return (int64_t)tp__small_quotient((int)i, v);
}

/* ==== >>elementwise =================================================================================== */
/* A chain of element-wise ops is one launch of an interpreter: each thread runs all instructions on eight adjacent elements.
 * Chains of float and bool, the usual ones, have a kernel of their own, which loads half-precision operands as floats. Other
 * chains run element by element, with values in cells of eight bytes. */

/* Instruction codes and formulas (a, b operands, p, q attributes). ALL: defined for integers too; LONG: with long code. */
#define TP__SHORT_ALL_MAPS(X)                  \
    X(add, a + b)                              \
    X(sub, a - b)                              \
    X(mul, a *b)                               \
    X(maximum, tp__is_nan(a) || a > b ? a : b) \
    X(minimum, tp__is_nan(a) || a < b ? a : b) \
    X(squared_difference, (a - b) * (a - b))   \
    X(neg, -a)                                 \
    X(abs, tp__absolute(a))                    \
    X(sign, a > 0 ? 1 : a < 0 ? -1 : a)        \
    X(square, a *a)                            \
    X(clip, tp__clip(a, p, q))                 \
    X(affine, tp__affine(a, p, q))
#define TP__LONG_ALL_MAPS(X)              \
    X(floordiv, tp__floor_quotient(a, b)) \
    X(mod, tp__floor_remainder(a, b))
#define TP__SHORT_REAL_MAPS(X)                          \
    X(div, a / b)                                       \
    X(sqrt, sqrt(a))                                    \
    X(rsqrt, 1 / sqrt(a))                               \
    X(reciprocal, 1 / a)                                \
    X(exp, exp(a))                                      \
    X(ln, log(a))                                       \
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
#define TP__LONG_REAL_MAPS(X) \
    X(pow, pow(a, b))         \
    X(sin, sin(a))            \
    X(cos, cos(a))            \
    X(asin, asin(a))          \
    X(acos, acos(a))          \
    X(atan, atan(a))
#define TP__ALL_MAPS(X)  TP__SHORT_ALL_MAPS(X) TP__LONG_ALL_MAPS(X)
#define TP__REAL_MAPS(X) TP__SHORT_REAL_MAPS(X) TP__LONG_REAL_MAPS(X)
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

/* Integers wrap around: operations that may overflow use unsigned types. */
template <class R> __device__ __forceinline__ bool tp__is_nan(R x) { return x != x; }
__device__ __forceinline__ float tp__absolute(float x) { return fabsf(x); }
__device__ __forceinline__ double tp__absolute(double x) { return fabs(x); }
__device__ __forceinline__ int tp__absolute(int x) { return x < 0 ? (int)(0u - (unsigned)x) : x; }
__device__ __forceinline__ int64_t tp__absolute(int64_t x)
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
__device__ __forceinline__ float tp__floor_remainder(float a, float b)
{
    const float r = fmodf(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
__device__ __forceinline__ double tp__floor_remainder(double a, double b)
{
    const double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
template <class I> __device__ __forceinline__ I tp__floor_remainder(I a, I b)
{
    if (b == 0 || b == -1) return 0;
    const I r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
/* rounds x toward zero and clamps it to [lo, hi] */
__device__ __forceinline__ int64_t tp__whole(double x, double lo, double hi)
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
    const double minimum = sizeof(I) == 8 ? -9223372036854775808.0 : -2147483648.0,
                 maximum = sizeof(I) == 8 ? 9223372036854775807.0 : 2147483647.0;
    const I low = (I)tp__whole(ceil((double)p), minimum, maximum),
            high = (I)tp__whole(floor((double)q), minimum, maximum);
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

/* An operand that a chain of element-wise ops reads from memory. */
typedef struct tp__cuda_external {
    void *data;
    int access, dtype;
    int64_t inner, period, stride[TP_MAX_DIMS];
} tp__cuda_external;
typedef struct tp__cuda_instr {
    uint8_t code, dtype, out_dtype, n_in, to, out, from[4], in[4];
    float p, q;
} tp__cuda_instr;
typedef struct tp__cuda_program {
    int64_t n, dim[TP_MAX_DIMS];
    int ndim, n_instr, ahead; /* bit e of ahead: operand e is loaded before the instructions run */
    tp__cuda_instr instr[TP__MAX_INSTR];
    tp__cuda_external external[TP__MAX_EXTERNAL];
    struct {
        void *data;
        int dtype;
    } out[TP__MAX_EXTERNAL];
} tp__cuda_program;
/* FROM_LAST: the operand is the previous instruction's result */
enum { TP__FROM_LAST = TP__FROM_REG + 1, TP__TO_NOWHERE };

/* The index of the operand's element for element i of the result. */
template <class I>
__device__ __forceinline__ I tp__external_index(const tp__cuda_program &p, const tp__cuda_external &e, I i)
{
    switch (e.access) {
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
/* Eight adjacent elements as they lie in memory; only float32 has a high half. Loading them and converting them are two functions, so that all loads of a chain are
 * on their way before the first conversion waits for one. */
#define TP__EIGHT 8
__device__ __forceinline__ void tp__load_eight(const void *data, int dtype, int64_t at, uint4 &low, uint4 &high)
{
    switch (dtype) {
    case TP_F32:
        low = *(const uint4 *)((const float *)data + at);
        high = *(const uint4 *)((const float *)data + at + 4);
        break;
    case TP_BF16:
    case TP_F16: low = *(const uint4 *)((const uint16_t *)data + at); break;
    default: {
        const uint2 u = *(const uint2 *)((const uint8_t *)data + at);
        low = make_uint4(u.x, u.y, 0, 0);
        break;
    }
    }
}
__device__ __forceinline__ void tp__floats_of_eight(uint4 low, uint4 high, int dtype, float x[TP__EIGHT])
{
    const unsigned w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    if (dtype == TP_F32) {
#pragma unroll
        for (int j = 0; j < TP__EIGHT; j++) x[j] = __uint_as_float(w[j]);
    } else if (dtype == TP_BF16) {
#pragma unroll
        for (int j = 0; j < TP__EIGHT; j++) x[j] = __uint_as_float(j & 1 ? w[j / 2] & 0xffff0000u : w[j / 2] << 16);
    } else if (dtype == TP_F16) {
#pragma unroll
        for (int j = 0; j < TP__EIGHT; j++) x[j] = tp__f32_of_f16((uint16_t)(w[j / 2] >> 16 * (j & 1)));
    } else {
#pragma unroll
        for (int j = 0; j < TP__EIGHT; j++) {
            const unsigned byte = w[j / 4] >> 8 * (j & 3) & 255u;
            x[j] = dtype == TP_BOOL ? (float)(byte != 0) : (float)byte;
        }
    }
}
/* One element of an operand; out of line, because few chains need it. */
template <class I>
static __device__ __noinline__ float tp__operand_element(const tp__cuda_program &p, const tp__cuda_external &e, I i)
{
    return tp__float_at(e.data, e.dtype, (int64_t)tp__external_index<I>(p, e, i));
}
/* Loads eight adjacent elements from i on, of which only m exist. */
template <class I>
__device__ __forceinline__ void tp__operand(const tp__cuda_program &p, const tp__cuda_external &e, I i, int m,
                                            float x[TP__EIGHT])
{
    if (m == TP__EIGHT && (e.access == TP__DIRECT || (e.access == TP__INNER && e.period % TP__EIGHT == 0))) {
        uint4 low, high = make_uint4(0, 0, 0, 0);
        tp__load_eight(e.data, e.dtype, (int64_t)(e.access == TP__DIRECT ? i : i % (I)e.period), low, high);
        tp__floats_of_eight(low, high, e.dtype, x);
        return;
    }
    if (e.access == TP__SPLAT || (e.access == TP__OUTER && e.inner % TP__EIGHT == 0)) { /* all eight read one element */
        const float all = tp__operand_element<I>(p, e, i);
#pragma unroll
        for (int j = 0; j < TP__EIGHT; j++) x[j] = all;
        return;
    }
#pragma unroll
    for (int j = 0; j < TP__EIGHT; j++) x[j] = j < m ? tp__operand_element<I>(p, e, i + (I)j) : 0.0f;
}
__device__ __forceinline__ void tp__put_element(void *data, int dtype, int64_t i, float y)
{
    switch (dtype) {
    case TP_F32: ((float *)data)[i] = y; break;
    case TP_BF16: ((uint16_t *)data)[i] = tp__bf16_of_f32(y); break;
    case TP_F16: ((uint16_t *)data)[i] = tp__f16_of_f32(y); break;
    case TP_BOOL: ((uint8_t *)data)[i] = y != 0; break;
    default: ((uint8_t *)data)[i] = (uint8_t)tp__whole((double)y, 0.0, 255.0); break;
    }
}
__device__ __forceinline__ void tp__store_eight(void *data, int dtype, int64_t i, int m, const float y[TP__EIGHT])
{
    if (m == TP__EIGHT && dtype == TP_F32) {
        tp__store_vector((float *)data + i, make_float4(y[0], y[1], y[2], y[3]));
        tp__store_vector((float *)data + i + 4, make_float4(y[4], y[5], y[6], y[7]));
        return;
    }
    if (m == TP__EIGHT && (dtype == TP_BF16 || dtype == TP_F16)) {
        unsigned w[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            w[j] = dtype == TP_BF16
                       ? (unsigned)tp__bf16_of_f32(y[2 * j]) | (unsigned)tp__bf16_of_f32(y[2 * j + 1]) << 16
                       : (unsigned)tp__f16_of_f32(y[2 * j]) | (unsigned)tp__f16_of_f32(y[2 * j + 1]) << 16;
        tp__store_vector((uint16_t *)data + i, make_uint4(w[0], w[1], w[2], w[3]));
        return;
    }
#pragma unroll
    for (int j = 0; j < TP__EIGHT; j++)
        if (j < m) tp__put_element(data, dtype, i + j, y[j]);
}
/* The functions with long code, which would be repeated for each of the eight elements. */
#define TP__LONG_MAPS(X) TP__LONG_ALL_MAPS(X) TP__LONG_REAL_MAPS(X)
static __device__ __noinline__ float tp__long_map(int code, float a, float b)
{
    switch (code) {
#define TP__CASE(name_, expr_) \
    case TP__DO_##name_: return (float)(expr_);
        TP__LONG_MAPS(TP__CASE)
#undef TP__CASE
    default: return 0;
    }
}

#define TP__AHEAD 3 /* the operands that may be loaded before the instructions run are the first ones */
/* What a thread of a chain holds in the GPU's registers: the last result, and the operands that were loaded ahead. All indices into
 * them are constants once the loops are unrolled. The chain's own registers, which are not, lie apart from them in memory. */
typedef struct tp__chain {
    float y[TP__EIGHT];
    uint4 low[TP__AHEAD], high[TP__AHEAD];
} tp__chain;
typedef float tp__chain_registers[TP__MAX_REG][TP__EIGHT];
/* x = operand o of instruction s for the elements from i on, of which m exist. */
template <class I>
__device__ __forceinline__ void tp__chain_operand(const tp__cuda_program &P, const tp__cuda_instr &s, int o, I i, int m,
                                                  const tp__chain &c, const tp__chain_registers &reg,
                                                  float x[TP__EIGHT])
{
    const int at = s.in[o];
    switch (s.from[o]) {
    case TP__FROM_LAST:
#pragma unroll
        for (int e = 0; e < TP__EIGHT; e++) x[e] = c.y[e];
        break;
    case TP__FROM_REG:
#pragma unroll
        for (int e = 0; e < TP__EIGHT; e++) x[e] = reg[at][e];
        break;
    case TP__FROM_OUT: /* a result that this chain has stored */
#pragma unroll
        for (int e = 0; e < TP__EIGHT; e++)
            x[e] = e < m ? tp__float_at(P.out[at].data, P.out[at].dtype, (int64_t)i + e) : 0.0f;
        break;
    default:
        if (m == TP__EIGHT && (P.ahead >> at & 1)) {
            uint4 low = c.low[0], high = c.high[0]; /* by value: a choice of addresses would put the arrays in memory */
            if (at == 1) low = c.low[1], high = c.high[1];
            if (at == 2) low = c.low[2], high = c.high[2];
            tp__floats_of_eight(low, high, P.external[at].dtype, x);
        } else tp__operand<I>(P, P.external[at], i, m, x);
        break;
    }
}
/* The case of a function of one or two floats, for the N elements of a thread: y[e] from a = x[0][e] and b = x[1][e]. */
#define TP__MAP_CASE(name_, expr_)                    \
    case TP__DO_##name_:                              \
        _Pragma("unroll") for (int e = 0; e < N; e++) \
        {                                             \
            const R a = x[0][e], b = x[1][e];         \
            (void)a, (void)b, (void)p, (void)q;       \
            y[e] = (R)(expr_);                        \
        }                                             \
        break;
/* y = the result of instruction s, rounded to its type. */
__device__ __forceinline__ void tp__chain_map(const tp__cuda_instr &s, const float (&x)[3][TP__EIGHT],
                                              float (&y)[TP__EIGHT])
{
    const float p = s.p, q = s.q;
    typedef float R;
    enum { N = TP__EIGHT };
    switch (s.code) {
#define TP__CASE TP__MAP_CASE
        TP__SHORT_ALL_MAPS(TP__CASE)
        TP__SHORT_REAL_MAPS(TP__CASE)
        TP__TESTS(TP__CASE)
        TP__CASE(is_finite, fabsf(a) <= 3.402823466e38f)
        TP__CASE(logical_and, a != 0 && b != 0)
        TP__CASE(logical_or, a != 0 || b != 0)
        TP__CASE(logical_not, a == 0)
#undef TP__CASE
#define TP__CASE(name_, expr_) case TP__DO_##name_:
        TP__LONG_MAPS(TP__CASE)
#undef TP__CASE
#pragma unroll
        for (int e = 0; e < TP__EIGHT; e++) y[e] = tp__long_map(s.code, x[0][e], x[1][e]);
        break;
    /* cast to bool and bytes; a cast to a float type happens only when the result is stored */
    case TP__DO_cast:
#pragma unroll
        for (int e = 0; e < TP__EIGHT; e++)
            y[e] = s.out_dtype == TP_BOOL ? (float)(x[0][e] != 0)
                   : s.out_dtype == TP_U8 ? (float)tp__whole((double)x[0][e], 0.0, 255.0)
                                          : x[0][e];
        break;
    default: /* the instructions select and select_bytes: y = x0 != 0 ? x1 : x2 */
#pragma unroll
        for (int e = 0; e < TP__EIGHT; e++) y[e] = x[0][e] != 0 ? x[1][e] : x[2][e];
        break;
    }
    if (s.out_dtype == TP_BF16) {
#pragma unroll
        for (int e = 0; e < TP__EIGHT; e++) y[e] = tp__f32_of_bf16(tp__bf16_of_f32(y[e]));
    } else if (s.out_dtype == TP_F16) {
#pragma unroll
        for (int e = 0; e < TP__EIGHT; e++) y[e] = tp__f32_of_f16(tp__f16_of_f32(y[e]));
    }
}
/* A thread processes EACH elements at once: TP__EIGHT or, of a chain with few elements, one. A thread loads broadcast elements one after the
 * other and waits for each of them; one element to a thread keeps that short. */
template <class I, int EACH>
TP_KERNEL_RESIDENT(sizeof(I) == 4 ? 3 : 2)
tp__float_chain(const __grid_constant__ tp__cuda_program P)
{
    tp__chain c;
    tp__chain_registers reg;
    const I n = (I)P.n, step = (I)gridDim.x * blockDim.x * EACH;
#pragma unroll
    for (int e = 0; e < TP__EIGHT; e++) c.y[e] = 0;
    for (I i = ((I)blockIdx.x * blockDim.x + threadIdx.x) * EACH; i < n; i += step) {
        const int m = n - i < EACH ? (int)(n - i) : EACH;
#pragma unroll
        for (int e = 0; e < TP__AHEAD; e++)
            if (m == TP__EIGHT && (P.ahead >> e & 1))
                tp__load_eight(P.external[e].data, P.external[e].dtype, (int64_t)i, c.low[e], c.high[e]);
        for (int j = 0; j < P.n_instr; j++) {
            const tp__cuda_instr &s = P.instr[j];
            float x[3][TP__EIGHT];
#pragma unroll
            for (int o = 0; o < 3; o++)
                if (o < s.n_in) tp__chain_operand<I>(P, s, o, i, m, c, reg, x[o]);
            tp__chain_map(s, x, c.y);
            if (s.to == TP__FROM_OUT) tp__store_eight(P.out[s.out].data, P.out[s.out].dtype, (int64_t)i, m, c.y);
            else if (s.to == TP__FROM_REG) {
#pragma unroll
                for (int e = 0; e < TP__EIGHT; e++) reg[s.out][e] = c.y[e];
            }
        }
    }
}

/* A short chain: all operands and results have the type T and the chain's shape, there are at most TP__AHEAD operands, nothing is kept in
 * registers of the chain, and no function has long code; n is a multiple of eight. Such chains are limited by memory if the instructions
 * take little time, so that a thread decodes each of them once for two times 16 bytes of elements. */
template <class T> struct tp__short {
    enum { V = 16 / (int)sizeof(T), G = 2, N = V * G }; /* N: elements that a thread processes at a time, in G parts */
};
template <class T>
__device__ __forceinline__ void tp__short_operand(
    const tp__cuda_instr &s, int o, const tp__packed<T, tp__short<T>::V> (&ahead)[TP__AHEAD][tp__short<T>::G],
    const float (&y)[tp__short<T>::N], float (&x)[tp__short<T>::N])
{
    enum { V = tp__short<T>::V };
    const int at = s.from[o] == TP__FROM_LAST ? -1 : s.in[o];
#pragma unroll
    for (int g = 0; g < tp__short<T>::G; g++) {
        tp__packed<T, V> v = ahead[0][g]; /* by value: a choice of addresses would put the arrays in memory */
        if (at == 1) v = ahead[1][g];
        if (at == 2) v = ahead[2][g];
#pragma unroll
        for (int e = 0; e < V; e++) x[g * V + e] = at < 0 ? y[g * V + e] : tp__get(v.v, e);
    }
}
/* y = the result of instruction s before it is rounded. */
template <int N>
__device__ __forceinline__ void tp__short_map(const tp__cuda_instr &s, const float (&x)[2][N], float (&y)[N])
{
    const float p = s.p, q = s.q;
    typedef float R;
    switch (s.code) {
        TP__SHORT_ALL_MAPS(TP__MAP_CASE)
        TP__SHORT_REAL_MAPS(TP__MAP_CASE)
    default: break;
    }
}
template <class T> TP_KERNEL tp__short_chain(const __grid_constant__ tp__cuda_program P)
{
    typedef tp__short<T> S;
    const unsigned parts = (unsigned)(P.n / S::V), step = gridDim.x * TP__THREADS * S::G;
    float y[S::N] = {};
    for (unsigned i = blockIdx.x * TP__THREADS * S::G + threadIdx.x; i < parts; i += step) {
        tp__packed<T, S::V> ahead[TP__AHEAD][S::G] = {};
#pragma unroll
        for (int e = 0; e < TP__AHEAD; e++)
#pragma unroll
            for (int g = 0; g < S::G; g++) {
                const unsigned at = i + (unsigned)g * TP__THREADS;
                if (P.external[e].data && at < parts)
                    tp__load_packed((const T *)P.external[e].data + (size_t)at * S::V, ahead[e][g]);
            }
        for (int j = 0; j < P.n_instr; j++) {
            const tp__cuda_instr &s = P.instr[j];
            float x[2][S::N] = {};
            tp__short_operand<T>(s, 0, ahead, y, x[0]);
            if (s.n_in > 1) tp__short_operand<T>(s, 1, ahead, y, x[1]);
            tp__short_map(s, x, y);
#pragma unroll
            for (int e = 0; e < S::N; e++) y[e] = tp__as_stored<T>(y[e]);
            if (s.to != TP__FROM_OUT) continue;
#pragma unroll
            for (int g = 0; g < S::G; g++) {
                const unsigned at = i + (unsigned)g * TP__THREADS;
                tp__packed<T, S::V> v;
#pragma unroll
                for (int e = 0; e < S::V; e++) tp__put(v.v, e, y[g * S::V + e]);
                if (at < parts) *(tp__packed<T, S::V> *)((T *)P.out[s.out].data + (size_t)at * S::V) = v;
            }
        }
    }
}

/* A cell of the interpreter: a value of any element type. */
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
__device__ __forceinline__ bool tp__is_real_dtype(int dtype) { return dtype >= TP_F32 && dtype <= TP_BF16; }
/* Rounds a double to a float by rounding to odd; rounding the result to half precision is then correct. */
__device__ __forceinline__ float tp__round_to_odd_float(double x)
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
    case TP_F16: ((uint16_t *)data)[i] = tp__f16_of_f32(tp__round_to_odd_float(c.d)); break;
    case TP_BF16: ((uint16_t *)data)[i] = tp__bf16_of_f32(tp__round_to_odd_float(c.d)); break;
    case TP_I32: ((int32_t *)data)[i] = (int32_t)c.l; break;
    case TP_I64: ((int64_t *)data)[i] = c.l; break;
    default: ((uint8_t *)data)[i] = (uint8_t)c.l; break;
    }
}
/* Casts a cell from dtype `from` to `to`; integers beyond 2^53 are converted to half precision by way of a double rounded to
 * odd. */
__device__ __forceinline__ tp__cell tp__cell_cast(tp__cell c, int from, int to)
{
    tp__cell y;
    if (tp__is_real_dtype(from)) {
        if (tp__is_real_dtype(to)) {
            y.d = to == TP_F32 ? (double)(float)c.d : c.d;
            if (to == TP_F16) y.d = (double)tp__f32_of_f16(tp__f16_of_f32(tp__round_to_odd_float(c.d)));
            if (to == TP_BF16) y.d = (double)tp__f32_of_bf16(tp__bf16_of_f32(tp__round_to_odd_float(c.d)));
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
        const float rounded_to_odd = tp__round_to_odd_float(c.l < 0 ? -(double)size : (double)size);
        y.d = to == TP_F16 ? (double)tp__f32_of_f16(tp__f16_of_f32(rounded_to_odd))
                           : (double)tp__f32_of_bf16(tp__bf16_of_f32(rounded_to_odd));
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
/* Arithmetic is unsigned, so that it wraps; comparisons are signed. */
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
    case TP__DO_mod: return tp__floor_remainder(a, b);
    case TP__DO_abs: return tp__absolute(a);
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

TP_KERNEL tp__general_chain(const __grid_constant__ tp__cuda_program P)
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
                else
                    x[o] = tp__cell_at(P.external[at].data, P.external[at].dtype,
                                       tp__external_index<int64_t>(P, P.external[at], i));
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

/* Whether all values of the chain are float, half precision, bool or bytes. */
static bool tp__is_float_chain(const tp__cuda_program *P)
{
    for (int j = 0; j < P->n_instr; j++)
        if (!tp__float_like(P->instr[j].dtype) || !tp__float_like(P->instr[j].out_dtype)) return false;
    return true;
}

static bool tp__is_long_code(int code)
{
    switch (code) {
#define TP__CASE(name_, expr_) case TP__DO_##name_:
        TP__LONG_MAPS(TP__CASE)
#undef TP__CASE
        return true;
    default: return false;
    }
}
/* Whether the chain is a short one of elements of this type. */
static bool tp__is_short_chain(const tp__cuda_program *P, tp_dtype dtype)
{
    if (P->n % TP__EIGHT || P->n >= (int64_t)1 << 30) return false;
    if (dtype != TP_F32 && dtype != TP_BF16 && dtype != TP_F16) return false;
    for (int e = 0; e < TP__MAX_EXTERNAL; e++)
        if (P->external[e].data &&
            (e >= TP__AHEAD || P->external[e].access != TP__DIRECT || P->external[e].dtype != (int)dtype))
            return false;
    for (int j = 0; j < P->n_instr; j++) {
        const tp__cuda_instr *s = &P->instr[j];
        if (s->n_in > 2 || s->dtype != dtype || s->out_dtype != dtype || s->code >= TP__DO_greater) return false;
        if (s->to == TP__FROM_REG || tp__is_long_code(s->code)) return false;
        if (s->to == TP__FROM_OUT && P->out[s->out].dtype != (int)dtype) return false;
        for (int o = 0; o < s->n_in; o++)
            if (s->from[o] != TP__FROM_LAST && s->from[o] != TP__FROM_EXTERNAL) return false;
    }
    return true;
}
template <class T> static void tp__launch_short_chain(const tp_call *k, const tp__cuda_program *P)
{
    TP_RUN(k, (tp__short_chain<T>), (P->n + tp__short<T>::N - 1) / tp__short<T>::N, *P);
}
static void tp__launch_program(const tp_call *k, tp__cuda_program *P)
{
    const int64_t n_eights = (P->n + TP__EIGHT - 1) / TP__EIGHT;
    const tp_dtype dtype = (tp_dtype)P->instr[0].dtype;
    for (int e = 0; e < TP__AHEAD; e++)
        if (P->external[e].data && P->external[e].access == TP__DIRECT) P->ahead |= 1 << e;
    if (!tp__is_float_chain(P)) TP_RUN(k, tp__general_chain, P->n, *P);
    else if (tp__is_short_chain(P, dtype)) {
        if (dtype == TP_F32) tp__launch_short_chain<float>(k, P);
        else if (dtype == TP_BF16) tp__launch_short_chain<tp__bf16>(k, P);
        else tp__launch_short_chain<tp__f16>(k, P);
    } else if (P->n <= (int64_t)tp__cuda_of(k)->n_processor * TP__THREADS)
        TP_RUN(k, (tp__float_chain<unsigned, 1>), P->n, *P);
    else if (P->n < ((int64_t)1 << 30)) TP_RUN(k, (tp__float_chain<unsigned, TP__EIGHT>), n_eights, *P);
    else TP_RUN(k, (tp__float_chain<uint64_t, TP__EIGHT>), n_eights, *P);
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
    for (int e = 0; e < prog->n_external; e++) {
        tp__cuda_external *x = &P.external[e];
        x->data = k->in[e].data;
        x->dtype = k->in[e].dtype;
        x->access = prog->external[e].access;
        x->inner = prog->external[e].inner;
        x->period = prog->external[e].period;
        for (int d = 0; d < P.ndim; d++) x->stride[d] = prog->external[e].stride[d];
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
            tp__store_error(tp__cuda_of(k), from->row->name, "it is not known to the kernel for chains");
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
            if (before && s->from[a] != TP__FROM_EXTERNAL && before->to == from->from[a] && before->out == from->in[a])
                s->from[a] = TP__FROM_LAST;
        }
        tp__instr_attrs(s, from->attrs);
    }
    for (int j = 0; j + 1 < prog->n_instr; j++) { /* drop writes to registers that only the next instruction reads */
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

/* A single element-wise op as a chain of one instruction: the plan uses it for half precision. */
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
        P.external[i].data = k->in[i].data;
        P.external[i].dtype = k->in[i].dtype;
        for (int d = x->ndim - 1; d >= 0; d--) {
            P.external[i].stride[d + lead] = x->dim[d] == 1 ? 0 : stride;
            stride *= x->dim[d];
        }
        P.external[i].access = stride == P.n ? TP__DIRECT : stride == 1 ? TP__SPLAT : TP__STRIDED;
        s->from[i] = TP__FROM_EXTERNAL;
        s->in[i] = (uint8_t)i;
    }
    tp__launch_program(k, &P);
}

/* add_n: y = x_0 + x_1 + ..., left to right; several launches if there are more operands than a chain can have. */
static void tp__add_n_cuda(const tp_call *k)
{
    for (int from = 0; from < k->n_in;) {
        tp__cuda_program P;
        memset(&P, 0, sizeof P);
        P.n = tp__size(&k->out[0]);
        const tp_operand *y = &k->out[0];
        int n_external = 0;
        if (from > 0) {
            P.external[n_external].data = y->data;
            P.external[n_external++].dtype = y->dtype;
        }
        while (n_external < TP__MAX_EXTERNAL && from < k->n_in) {
            P.external[n_external].data = k->in[from].data;
            P.external[n_external++].dtype = k->in[from++].dtype;
        }
        P.out[0].data = y->data;
        P.out[0].dtype = y->dtype;
        P.n_instr = n_external > 1 ? n_external - 1 : 1;
        for (int j = 0; j < P.n_instr; j++) {
            tp__cuda_instr *s = &P.instr[j];
            s->code = n_external > 1 ? TP__DO_add : TP__DO_cast;
            s->dtype = s->out_dtype = (uint8_t)y->dtype;
            s->n_in = n_external > 1 ? 2 : 1;
            s->from[0] = (uint8_t)(j ? (int)TP__FROM_LAST : (int)TP__FROM_EXTERNAL);
            s->from[1] = TP__FROM_EXTERNAL;
            s->in[1] = (uint8_t)(j + 1);
            s->to = (uint8_t)(j + 1 < P.n_instr ? (int)TP__TO_NOWHERE : (int)TP__FROM_OUT);
        }
        tp__launch_program(k, &P);
    }
}

/* all_reduce: computes this GPU's results, the sum or mean of values that were all copied to this GPU, in a fixed order */
#define TP__MAX_TOWERS 64
typedef struct tp__towers_sum {
    const void *in[TP__MAX_TOWERS];
    void *out[TP__MAX_TOWERS];
    int n_in, n_out;
    bool mean;
    int64_t n;
} tp__towers_sum;
template <class T> TP_KERNEL tp__all_reduce_kernel(const __grid_constant__ tp__towers_sum t)
{
    TP_EACH(i, t.n)
    {
        tp__real<T> sum = tp__get((const T *)t.in[0], i);
        for (int a = 1; a < t.n_in; a++) sum += tp__get((const T *)t.in[a], i);
        if (t.mean) sum *= (tp__real<T>)1 / (tp__real<T>)t.n_in;
        for (int a = 0; a < t.n_out; a++) tp__put((T *)t.out[a], i, sum);
    }
}
template <class I> TP_KERNEL tp__all_reduce_whole(const __grid_constant__ tp__towers_sum t)
{
    TP_EACH(i, t.n)
    {
        uint64_t sum = 0; /* unsigned, so that overflow wraps around */
        for (int a = 0; a < t.n_in; a++) sum += (uint64_t)((const I *)t.in[a])[i];
        for (int a = 0; a < t.n_out; a++) ((I *)t.out[a])[i] = (I)sum;
    }
}
static void tp__all_reduce_cuda(const tp_call *k)
{
    tp__towers_sum t;
    memset(&t, 0, sizeof t);
    if (k->n_in > TP__MAX_TOWERS) {
        tp__store_error(tp__cuda_of(k), "all_reduce", "more than 64 values were given");
        return;
    }
    for (int a = 0; a < k->n_in; a++) t.in[t.n_in++] = k->in[a].data;
    for (int a = 0; a < k->n_out; a++)
        if (k->out[a].data) t.out[t.n_out++] = k->out[a].data;
    t.mean = ((const tp__all_reduce_attrs *)k->attrs)->mean;
    t.n = tp__size(&k->out[0]);
    if (k->in[0].dtype == TP_I32) TP_RUN(k, (tp__all_reduce_whole<int32_t>), t.n, t);
    else if (k->in[0].dtype == TP_I64) TP_RUN(k, (tp__all_reduce_whole<int64_t>), t.n, t);
    else TP_REALS(k->in[0].dtype, TP_RUN(k, (tp__all_reduce_kernel<T>), t.n, t););
}

/* copy: an op that only the planner creates */
static void tp__copy_cuda(const tp_call *k)
{
    const size_t bytes = (size_t)tp__size(&k->out[0]) * tp__dtype_size(k->out[0].dtype);
    if (!bytes) return;
    const cudaError_t e =
        cudaMemcpyAsync(k->out[0].data, k->in[0].data, bytes, cudaMemcpyDeviceToDevice, tp__cuda_of(k)->stream);
    if (e != cudaSuccess) tp__store_error(tp__cuda_of(k), "a copy", cudaGetErrorString(e));
}

static const tp__cuda_kernel tp__cuda_elementwise[] = {{"fused", tp__fused_cuda, NULL},
                                                       {"add_n", tp__add_n_cuda, NULL},
                                                       {"all_reduce", tp__all_reduce_cuda, NULL},
                                                       {"copy", tp__copy_cuda, NULL},
                                                       {NULL, NULL, NULL}};

/* ==== >>matmul ======================================================================================== */
/* Row-major c = a b is column-major c^T = b^T a^T: b is cuBLASLt's first operand. Bias and ReLU are its epilogue. */

typedef struct tp__gemm_shape {
    int64_t M, N, K, batch, stride_a, stride_b, stride_c;
    bool ta, tb, bias, relu, add; /* add: the product is added to c */
    float alpha;
    /* dtype: type of a and b; out: type of c and bias, which is the same or, for halves, float32 */
    tp_dtype dtype, out;
    tp_precision precision;
    uint32_t align[3]; /* alignment of a, b and c in bytes; set by tp__gemm */
} tp__gemm_shape;

/* Returns a pointer's alignment, for the choice of an algorithm; by default cuBLASLt assumes 256 bytes. At most 64: a plan places each
 * value at a multiple of that, and what else is fetched must not choose another algorithm, which may add in another order. */
static uint32_t tp__alignment(const void *p)
{
    const uintptr_t u = (uintptr_t)p | 64u;
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

/* The table entry of a product; its key is 0 if no algorithm was chosen yet. Entries are never removed: a repeated product
 * always uses the same algorithm. NULL: out of memory. */
static tp__product *tp__product_of(tp__cuda *u, uint64_t key)
{
    if (u->n_product * 2 >= u->product_capacity) {
        const int64_t capacity = u->product_capacity ? 2 * u->product_capacity : 256;
        tp__product *grown = (tp__product *)calloc((size_t)capacity, sizeof *grown);
        if (!grown) return NULL;
        for (int64_t i = 0; i < u->product_capacity; i++) {
            if (!u->product[i].key) continue;
            uint64_t at = u->product[i].key & (uint64_t)(capacity - 1);
            while (grown[at].key) at = (at + 1) & (uint64_t)(capacity - 1);
            grown[at] = u->product[i];
        }
        free(u->product);
        u->product = grown;
        u->product_capacity = capacity;
    }
    uint64_t at = key & (uint64_t)(u->product_capacity - 1);
    while (u->product[at].key && u->product[at].key != key) at = (at + 1) & (uint64_t)(u->product_capacity - 1);
    return &u->product[at];
}

/* Products for which cuBLASLt has no algorithm: one thread per result. */
TP_KERNEL tp__plain_product(const __grid_constant__ tp__gemm_shape g, const void *a, const void *b, void *c,
                            const void *bias)
{
    TP_EACH(at, g.batch * g.M * g.N)
    {
        const int64_t n = at % g.N, row = at / g.N, m = row % g.M, i = row / g.M, to = i * g.stride_c + m * g.N + n;
        double sum = 0;
        for (int64_t q = 0; q < g.K; q++)
            sum += tp__get_as(a, g.dtype, i * g.stride_a + (g.ta ? q * g.M + m : m * g.K + q)) *
                   tp__get_as(b, g.dtype, i * g.stride_b + (g.tb ? n * g.K + q : q * g.N + n));
        sum *= (double)g.alpha;
        if (g.add) sum += tp__get_as(c, g.out, to);
        if (bias) sum += tp__get_as(bias, g.out, n);
        tp__put_as(c, g.out, to, g.relu && 0 > sum ? 0 : sum); /* NaN stays NaN */
    }
}

/* The descriptors that cuBLASLt needs for a product: operation and layouts. */
typedef struct tp__gemm_description {
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t layout_a, layout_b, layout_c;
} tp__gemm_description;

static cublasStatus_t tp__gemm_describe(const tp__gemm_shape *g, const void *bias, tp__gemm_description *d)
{
    const cudaDataType_t type = tp__cuda_type(g->dtype), out = tp__cuda_type(g->out);
    const bool f64 = g->dtype == TP_F64;
    const cublasOperation_t ta = g->ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb = g->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue = g->bias   ? g->relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS
                                        : g->relu ? CUBLASLT_EPILOGUE_RELU
                                                  : CUBLASLT_EPILOGUE_DEFAULT;
    const int32_t batch = (int32_t)g->batch;
    const cublasComputeType_t compute = f64 ? CUBLAS_COMPUTE_64F
                                        : g->dtype == TP_F32 && g->precision != TP_PRECISION_F32
                                            ? CUBLAS_COMPUTE_32F_FAST_TF32
                                            : CUBLAS_COMPUTE_32F;
    cublasStatus_t st = cublasLtMatmulDescCreate(&d->op, compute, f64 ? CUDA_R_64F : CUDA_R_32F);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulDescSetAttribute(d->op, CUBLASLT_MATMUL_DESC_TRANSA, &tb, sizeof tb);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulDescSetAttribute(d->op, CUBLASLT_MATMUL_DESC_TRANSB, &ta, sizeof ta);
    if (st == CUBLAS_STATUS_SUCCESS && epilogue != CUBLASLT_EPILOGUE_DEFAULT)
        st = cublasLtMatmulDescSetAttribute(d->op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (st == CUBLAS_STATUS_SUCCESS && g->bias)
        st = cublasLtMatmulDescSetAttribute(d->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatrixLayoutCreate(&d->layout_b, type, (uint64_t)(g->tb ? g->K : g->N),
                                        (uint64_t)(g->tb ? g->N : g->K), g->tb ? g->K : g->N);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatrixLayoutCreate(&d->layout_a, type, (uint64_t)(g->ta ? g->M : g->K),
                                        (uint64_t)(g->ta ? g->K : g->M), g->ta ? g->M : g->K);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatrixLayoutCreate(&d->layout_c, out, (uint64_t)g->N, (uint64_t)g->M, g->N);
    if (batch > 1) {
        cublasLtMatrixLayout_t layout[3] = {d->layout_a, d->layout_b, d->layout_c};
        const int64_t stride[3] = {g->stride_a, g->stride_b, g->stride_c};
        for (int i = 0; i < 3 && st == CUBLAS_STATUS_SUCCESS; i++) {
            st = cublasLtMatrixLayoutSetAttribute(layout[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
            if (st == CUBLAS_STATUS_SUCCESS)
                st = cublasLtMatrixLayoutSetAttribute(layout[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                      &stride[i], sizeof stride[i]);
        }
    }
    return st;
}

/* The key of an algorithm choice: everything that it depends on. Its bytes are hashed, so its padding must be 0. */
static void tp__gemm_key(const tp__gemm_shape *g, const void *a, const void *b, const void *c, tp__gemm_shape *key)
{
    memset(key, 0, sizeof *key);
    key->M = g->M, key->N = g->N, key->K = g->K, key->batch = g->batch;
    key->stride_a = g->stride_a, key->stride_b = g->stride_b, key->stride_c = g->stride_c;
    key->ta = g->ta, key->tb = g->tb, key->bias = g->bias, key->relu = g->relu, key->add = g->add;
    key->dtype = g->dtype, key->out = g->out, key->precision = g->precision;
    key->align[0] = tp__alignment(a), key->align[1] = tp__alignment(b), key->align[2] = tp__alignment(c);
}

/* Chooses an algorithm for a product and stores it in the table under the hash h. */
static cublasStatus_t tp__gemm_choose(const tp_call *k, const tp__gemm_shape *key, uint64_t h,
                                      const tp__gemm_description *d, tp__product *slot)
{
    tp__cuda *u = tp__cuda_of(k);
    cublasLtMatmulHeuristicResult_t found;
    int n = 0;
    bool no_algorithm = false;
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasLtMatmulPreference_t pref = NULL;
    cublasStatus_t st = cublasLtMatmulPreferenceCreate(&pref);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &u->workspace_bytes,
                                                  sizeof u->workspace_bytes);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                                                  sizeof schemes);
    const cublasLtMatmulPreferenceAttributes_t attribute[4] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    /* cuBLASLt's first operand is b */
    const uint32_t align[4] = {key->align[1], key->align[0], key->align[2], key->align[2]};
    for (int i = 0; i < 4 && st == CUBLAS_STATUS_SUCCESS; i++)
        st = cublasLtMatmulPreferenceSetAttribute(pref, attribute[i], &align[i], sizeof align[i]);
    if (st == CUBLAS_STATUS_SUCCESS) {
        st = cublasLtMatmulAlgoGetHeuristic(u->blas, d->op, d->layout_b, d->layout_a, d->layout_c, d->layout_c, pref, 1,
                                            &found, &n);
        no_algorithm = st == CUBLAS_STATUS_NOT_SUPPORTED || (st == CUBLAS_STATUS_SUCCESS && n == 0);
        if (no_algorithm) {
            st = CUBLAS_STATUS_SUCCESS;
            u->say(TP_LOG_WARN,
                   "%s: cuBLASLt has no algorithm for %s of (%lld,%lld) by (%lld,%lld): a slow one is used",
                   u->device.name, k->op->name, (long long)key->M, (long long)key->K, (long long)key->K,
                   (long long)key->N);
        }
    }
    if (st == CUBLAS_STATUS_SUCCESS) {
        slot->key = h;
        slot->plain = no_algorithm;
        if (!no_algorithm) slot->algo = found.algo;
        u->n_product++;
    }
    if (pref) cublasLtMatmulPreferenceDestroy(pref);
    return st;
}

/* c = alpha op(a) op(b) + bias, then the activation. The chosen algorithm is remembered, so that none is searched during
 * recording. Split products are summed in float32 in the workspace: summing in half-precision outputs would round more often.
 * With one workspace on one stream cuBLASLt gives the same bits each time. */
static void tp__gemm(const tp_call *k, const tp__gemm_shape *g, const void *a, const void *b, void *c, const void *bias)
{
    tp__cuda *u = tp__cuda_of(k);
    const bool f64 = g->dtype == TP_F64;
    const double alpha64 = (double)g->alpha, beta64 = g->add ? 1.0 : 0.0;
    const float alpha32 = g->alpha, beta32 = g->add ? 1.0f : 0.0f;
    tp__gemm_description d = {NULL, NULL, NULL, NULL};
    cublasStatus_t st = tp__gemm_describe(g, bias, &d);
    tp__gemm_shape key;
    tp__gemm_key(g, a, b, c, &key);
    const uint64_t h = tp__hash_bytes(&key, sizeof key);
    tp__product *slot = tp__product_of(u, h);
    if (!slot) st = CUBLAS_STATUS_ALLOC_FAILED;
    if (st == CUBLAS_STATUS_SUCCESS && slot->key != h) st = tp__gemm_choose(k, &key, h, &d, slot);
    if (slot && slot->key == h && slot->plain) TP_RUN(k, tp__plain_product, g->batch * g->M * g->N, *g, a, b, c, bias);
    else if (st == CUBLAS_STATUS_SUCCESS) {
        tp__library_begin(u);
        st = cublasLtMatmul(u->blas, d.op, f64 ? (const void *)&alpha64 : (const void *)&alpha32, b, d.layout_b, a,
                            d.layout_a, f64 ? (const void *)&beta64 : (const void *)&beta32, c, d.layout_c, c,
                            d.layout_c, &slot->algo, u->workspace, u->workspace_bytes, u->stream);
        tp__library_end(u);
    }
    if (st != CUBLAS_STATUS_SUCCESS) tp__store_error(u, k->op->name, cublasLtGetStatusString(st));
    if (d.layout_a) cublasLtMatrixLayoutDestroy(d.layout_a);
    if (d.layout_b) cublasLtMatrixLayoutDestroy(d.layout_b);
    if (d.layout_c) cublasLtMatrixLayoutDestroy(d.layout_c);
    if (d.op) cublasLtMatmulDescDestroy(d.op);
}

/* Returns the index of the matrix of operand x (a or b) from which matrix i of the product c is computed; leading
 * dimensions are broadcast. */
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

static void tp__matmul_cuda(const tp_call *k)
{
    const tp__matmul_attrs *t = (const tp__matmul_attrs *)k->attrs;
    const tp_shape *sa = &k->in[0].shape, *sb = &k->in[1].shape, *sc = &k->out[0].shape;
    const size_t size = tp__dtype_size(k->in[0].dtype), size_c = tp__dtype_size(k->out[0].dtype);
    tp__gemm_shape g;
    memset(&g, 0, sizeof g);
    g.M = sc->dim[sc->ndim - 2];
    g.N = sc->dim[sc->ndim - 1];
    g.K = sa->dim[sa->ndim - (t->transpose_a ? 2 : 1)];
    g.ta = t->transpose_a;
    g.tb = t->transpose_b;
    g.bias = k->fused.bias != 0;
    g.relu = k->fused.act == TP_EPILOGUE_RELU;
    g.alpha = 1;
    g.dtype = k->in[0].dtype;
    g.out = k->out[0].dtype;
    g.precision = k->precision;
    const void *bias = g.bias ? k->in[k->fused.bias].data : NULL;
    int64_t n_batch = tp__product_of(sc, 0, sc->ndim - 2);
    if (tp__size(&k->out[0]) == 0) return;
    if (g.K == 0) {
        /* K is 0: the product is zeros, plus the bias */
        g.M = 1, g.batch = tp__size(&k->out[0]) / g.N, g.stride_c = g.N;
        TP_RUN(k, tp__plain_product, g.batch * g.N, g, k->in[0].data, k->in[1].data, k->out[0].data, bias);
        return;
    }
    /* all matrices of a are multiplied by one b: they are stacked to a single tall matrix */
    if (sb->ndim == 2 && !g.ta) {
        g.M *= n_batch;
        n_batch = 1;
    }
    /* matrices with equal strides are one batched call */
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
                 (char *)k->out[0].data + (size_t)(i * g.M * g.N) * size_c, bias);
        i += n;
    }
}

/* descend: w -= lr a^T b, an op that only the planner creates. lr is in device memory: first the product, then the step. */
TP_KERNEL tp__descend_step(float *w, const float *product, const float *lr, int64_t n)
{
    const float rate = *lr;
    TP_EACH(i, n) w[i] -= tp__rounded_product(rate, product[i]); /* as the update that is not fused */
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
    g.dtype = g.out = TP_F32;
    g.precision = k->precision;
    tp__gemm(k, &g, k->in[0].data, k->in[1].data, k->scratch, NULL);
    TP_RUN(k, tp__descend_step, g.M * g.N, (float *)k->var[0].data, (const float *)k->scratch,
           (const float *)k->in[2].data, g.M * g.N);
}
static size_t tp__descend_scratch(const tp_call *k)
{
    return (size_t)(k->in[0].shape.dim[1] * k->in[1].shape.dim[1]) * sizeof(float);
}

static const tp__cuda_kernel tp__cuda_matmul[] = {
    {"matmul", tp__matmul_cuda, NULL}, {"descend", tp__descend_cuda, tp__descend_scratch}, {NULL, NULL, NULL}};

/* ==== >>reductions ==================================================================================== */
/* A reduction treats the dimensions of x as kept or reduced; adjacent dimensions of one kind are merged, those of size 1 dropped.
 * Three kernels:
 *   rows      `lanes` threads (1 to 32, or a block) share the elements of an output: for long contiguous runs, and with one
 *             thread per output if outputs are adjacent in memory and numerous
 *   columns   x as (A, R, B), summed over R: a block processes up to 1024 adjacent elements of a row, or several short rows
 *   join      the second stage, if the elements of an output were split into parts
 * The order of additions depends only on the shapes. A few adjacent elements are added in their own type, these sums in double. */

typedef struct tp__folded {
    int64_t n_out, n_sum; /* n_out: outputs; n_sum: elements per output */
    int n_keep, n_reduce; /* numbers of kept and reduced dimensions after merging; lists begin with the innermost one */
    bool inner_kept;      /* the innermost dimension is kept, so adjacent outputs read adjacent elements */
    tp__divisor keep[TP_MAX_DIMS / 2], reduce[TP_MAX_DIMS / 2]; /* sizes of the kept and of the reduced dimensions */
    int64_t keep_stride[TP_MAX_DIMS / 2], reduce_stride[TP_MAX_DIMS / 2];
} tp__folded;

static tp__folded tp__fold(const tp_shape *x, const bool *reduced)
{
    tp__folded f;
    int64_t stride = 1, n_total = 1;
    int previous_kind = -1;
    memset(&f, 0, sizeof f);
    f.n_out = f.n_sum = 1;
    for (int d = 0; d < x->ndim; d++) n_total *= x->dim[d];
    for (int d = x->ndim - 1; d >= 0; d--) {
        const int64_t n = x->dim[d];
        const int kind = reduced[d] ? 1 : 0;
        if (kind) f.n_sum *= n;
        else f.n_out *= n;
        if (n == 1) continue;
        if (previous_kind < 0) f.inner_kept = kind == 0;
        tp__divisor *size = kind ? f.reduce : f.keep;
        int *count = kind ? &f.n_reduce : &f.n_keep;
        if (kind == previous_kind) {
            size[*count - 1] = tp__divide_by(size[*count - 1].d * n, n_total);
        } else {
            size[*count] = tp__divide_by(n, n_total);
            (kind ? f.reduce_stride : f.keep_stride)[(*count)++] = stride;
        }
        previous_kind = kind;
        stride *= n;
    }
    return f;
}
static tp__folded tp__fold_axes(const tp_call *k)
{
    const tp__reduce_attrs *t = (const tp__reduce_attrs *)k->attrs;
    const tp_shape *x = &k->in[0].shape;
    bool reduced[TP_MAX_DIMS];
    for (int d = 0; d < x->ndim; d++) reduced[d] = t->n_axes == 0;
    for (int i = 0; i < t->n_axes; i++) reduced[tp__axis(t->axes[i], x->ndim)] = true;
    return tp__fold(x, reduced);
}
/* Finds the dimensions along which `small` is broadcast to `large`. */
static tp__folded tp__fold_broadcast(const tp_shape *large, const tp_shape *small)
{
    const int lead = large->ndim - small->ndim;
    bool reduced[TP_MAX_DIMS];
    for (int d = 0; d < large->ndim; d++) reduced[d] = d < lead || (small->dim[d - lead] == 1 && large->dim[d] != 1);
    return tp__fold(large, reduced);
}
/* Returns the offset in memory of item number i, counted over the merged dimensions. */
__device__ __forceinline__ int64_t tp__folded_at(int n, const tp__divisor *size, const int64_t *stride, int64_t i)
{
    int64_t at = 0;
#pragma unroll 1 /* not unrolled: the function is inlined often, and unrolled loops were a third of all code */
    for (int d = 0; d + 1 < n; d++) {
        const int64_t q = tp__quotient(i, size[d]);
        at += (i - q * size[d].d) * stride[d];
        i = q;
    }
    return n > 0 ? at + i * stride[n - 1] : 0;
}
__device__ __forceinline__ int64_t tp__out_begin(const tp__folded &f, int64_t o)
{
    return tp__folded_at(f.n_keep, f.keep, f.keep_stride, o);
}
__device__ __forceinline__ int64_t tp__element_at(const tp__folded &f, int64_t j)
{
    return tp__folded_at(f.n_reduce, f.reduce, f.reduce_stride, j);
}

/* For each element type: the type of values, the type of sums, and how a result is stored. */
enum { TP__REDUCED_AS_IS, TP__REDUCED_MEAN, TP__REDUCED_HALF, TP__REDUCED_ROOT };
template <class T> struct tp__number {
    typedef tp__real<T> value;
    typedef double sum;
    static __device__ __forceinline__ value get(const T *p, int64_t i) { return tp__get(p, i); }
    static __device__ __forceinline__ value lowest() { return -(value)INFINITY; }
    static __device__ __forceinline__ value highest() { return (value)INFINITY; }
    static __device__ __forceinline__ void put(T *y, int64_t i, double v, int finish, double n)
    {
        v = finish == TP__REDUCED_MEAN   ? v / n
            : finish == TP__REDUCED_HALF ? 0.5 * v
            : finish == TP__REDUCED_ROOT ? sqrt(v)
                                         : v;
        tp__put(y, i, (value)v);
    }
};
/* T: an integer type; U: the unsigned type of its sums, which wrap around */
template <class T, class U> struct tp__whole_number {
    typedef T value;
    typedef U sum;
    static __device__ __forceinline__ T get(const T *p, int64_t i) { return p[i]; }
    static __device__ __forceinline__ T lowest() { return (T)((U)1 << (8 * sizeof(T) - 1)); }
    static __device__ __forceinline__ T highest() { return (T) ~((U)1 << (8 * sizeof(T) - 1)); }
    template <class V> static __device__ __forceinline__ void put(T *y, int64_t i, V v, int, double) { y[i] = (T)v; }
};
template <> struct tp__number<int32_t> : tp__whole_number<int32_t, uint32_t> {
};
template <> struct tp__number<int64_t> : tp__whole_number<int64_t, unsigned long long> {
};
template <> struct tp__number<uint8_t> : tp__whole_number<uint8_t, uint32_t> {
};

/* Each reduction defines operations: `of` converts an element; `join` combines a few elements, and later the results of
 * such groups. */
template <class T> struct tp__do_sum {
    typedef typename tp__number<T>::sum sum;
    typedef typename tp__number<T>::value few;
    static __device__ __forceinline__ few of(few x) { return x; }
    template <class R> static __device__ __forceinline__ R join(R a, R b) { return a + b; }
    static __device__ __forceinline__ sum none() { return 0; }
};
template <> struct tp__do_sum<int32_t> { /* unsigned, because overflow is defined for it */
    typedef uint32_t sum, few;
    static __device__ __forceinline__ few of(int32_t x) { return (few)x; }
    static __device__ __forceinline__ few join(few a, few b) { return a + b; }
    static __device__ __forceinline__ sum none() { return 0; }
};
template <> struct tp__do_sum<int64_t> {
    typedef unsigned long long sum, few;
    static __device__ __forceinline__ few of(int64_t x) { return (few)x; }
    static __device__ __forceinline__ few join(few a, few b) { return a + b; }
    static __device__ __forceinline__ sum none() { return 0; }
};
template <class T> struct tp__do_count_zeros : tp__do_sum<T> {
    typedef typename tp__number<T>::value few;
    static __device__ __forceinline__ few of(few x) { return x == 0 ? (few)1 : (few)0; }
};
template <class T> struct tp__do_product {
    typedef typename tp__number<T>::sum sum, few;
    static __device__ __forceinline__ few of(typename tp__number<T>::value x) { return (few)x; }
    static __device__ __forceinline__ sum join(sum a, sum b) { return a * b; }
    static __device__ __forceinline__ sum none() { return 1; }
};
template <class T> struct tp__do_max { /* maximum; NaN if any value is NaN */
    typedef typename tp__number<T>::value sum, few;
    static __device__ __forceinline__ few of(few x) { return x; }
    static __device__ __forceinline__ few join(few a, few b) { return a != a || a > b ? a : b; }
    static __device__ __forceinline__ sum none() { return tp__number<T>::lowest(); }
};
template <class T> struct tp__do_min {
    typedef typename tp__number<T>::value sum, few;
    static __device__ __forceinline__ few of(few x) { return x; }
    static __device__ __forceinline__ few join(few a, few b) { return a != a || a < b ? a : b; }
    static __device__ __forceinline__ sum none() { return tp__number<T>::highest(); }
};
template <class T> struct tp__do_all {
    typedef uint32_t sum, few;
    static __device__ __forceinline__ few of(uint8_t x) { return x != 0; }
    static __device__ __forceinline__ few join(few a, few b) { return a & b; }
    static __device__ __forceinline__ sum none() { return 1; }
};
template <class T> struct tp__do_any {
    typedef uint32_t sum, few;
    static __device__ __forceinline__ few of(uint8_t x) { return x != 0; }
    static __device__ __forceinline__ few join(few a, few b) { return a | b; }
    static __device__ __forceinline__ sum none() { return 0; }
};

/* Four adjacent elements, loaded at once if the address is aligned. */
template <class T> using tp__four = tp__packed<T, 4>;
template <class T> __device__ __forceinline__ tp__four<T> tp__four_at(const T *p, bool aligned)
{
    if (aligned) return *(const tp__four<T> *)p;
    tp__four<T> f;
    for (int i = 0; i < 4; i++) f.v[i] = p[i];
    return f;
}
/* Whether the address is aligned for loads of four elements. */
template <class T> static bool tp__aligned_to_four(const void *p) { return (uintptr_t)p % sizeof(tp__four<T>) == 0; }

/* Joins the values of `lanes` adjacent threads; all of them get the result. lanes: a power of two up to 32, or the block of
 * 256, with `shared` for 8 values. All threads of the block must call this. */
template <class K>
__device__ __forceinline__ typename K::sum tp__lanes_join(typename K::sum x, int lanes, typename K::sum *shared)
{
    for (int d = (lanes < 32 ? lanes : 32) / 2; d > 0; d >>= 1) x = K::join(x, __shfl_xor_sync(0xffffffffu, x, d));
    if (lanes <= 32) return x;
    __syncthreads(); /* wait, because threads may still read `shared` from the previous call */
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = x;
    __syncthreads();
    x = shared[0];
    for (int w = 1; w < TP__THREADS / 32; w++) x = K::join(x, shared[w]);
    return x;
}

typedef struct tp__reduce_cut {
    bool columns;
    int lanes;             /* threads that share an item, a part of an output's elements (not for columns) */
    bool by_four;          /* a thread loads four adjacent elements at a time */
    int64_t n_part, chunk; /* parts per output; elements in a part (for columns: passes) */
    int64_t A, R, B;       /* for columns: x is read as an array (A, R, B) and summed over R */
    /* of the columns kernel: elements that a block reads in a pass, elements from one pass to the next; number of tiles
     * in a row */
    int64_t width, pitch, n_tile;
} tp__reduce_cut;

/* number of blocks that is enough for any GPU; a constant, so that sums do not depend on the GPU */
#define TP__REDUCE_BLOCKS 1024
#define TP__REDUCE_TILE   1024 /* elements that a block reads in a pass: four per thread */

static __host__ __device__ __forceinline__ int64_t tp__reduce_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static tp__reduce_cut tp__cut_rows(const tp__folded *f)
{
    tp__reduce_cut c;
    memset(&c, 0, sizeof c);
    c.by_four = f->n_reduce > 0 && !f->inner_kept && (f->n_reduce == 1 || f->reduce[0].d % 4 == 0);
    for (int d = 0; d < f->n_keep; d++) c.by_four = c.by_four && f->keep_stride[d] % 4 == 0;
    for (int d = 1; d < f->n_reduce; d++) c.by_four = c.by_four && f->reduce_stride[d] % 4 == 0;
    const int64_t units = tp__reduce_ceil_div(f->n_sum, c.by_four ? 4 : 1);
    c.n_part = c.lanes = 1;
    if (f->inner_kept) { /* adjacent threads compute adjacent outputs; if outputs are few, each is split into parts */
        const int64_t wanted = TP__REDUCE_BLOCKS * TP__THREADS / (f->n_out > 0 ? f->n_out : 1), max_parts = units / 16;
        c.n_part = wanted < max_parts ? wanted : max_parts;
        if (c.n_part > TP__REDUCE_BLOCKS) c.n_part = TP__REDUCE_BLOCKS;
    } else if (units >= 1024 || (units >= 128 && f->n_out < 2048)) {
        const int64_t wanted = TP__REDUCE_BLOCKS / (f->n_out > 0 ? f->n_out : 1), max_parts = units / 1024;
        c.lanes = TP__THREADS;
        c.n_part = wanted < max_parts ? wanted : max_parts;
    } else {
        while (c.lanes < 32 && c.lanes * 4 < units) c.lanes *= 2;
    }
    if (c.n_part < 1) c.n_part = 1;
    c.chunk = tp__reduce_ceil_div(tp__reduce_ceil_div(f->n_sum, c.n_part), 4) * 4;
    return c;
}
static tp__reduce_cut tp__cut_columns(const tp__folded *f)
{
    tp__reduce_cut c;
    memset(&c, 0, sizeof c);
    c.columns = true;
    c.R = f->n_sum;
    c.B = f->keep[0].d;
    c.A = f->n_out / c.B;
    /* a pass reads whole rows and a multiple of four elements */
    const int64_t unit = c.B % 4 == 0 ? c.B : c.B % 2 == 0 ? 2 * c.B : 4 * c.B;
    if (c.B <= TP__REDUCE_TILE) {
        c.by_four = unit <= TP__REDUCE_TILE && (c.A == 1 || c.R * c.B % 4 == 0);
        c.width = c.pitch = c.by_four ? TP__REDUCE_TILE / unit * unit : TP__REDUCE_TILE / c.B * c.B;
        c.n_tile = 1;
    } else {
        c.by_four = c.B % 4 == 0;
        c.width = TP__REDUCE_TILE;
        c.pitch = c.B;
        c.n_tile = tp__reduce_ceil_div(c.B, TP__REDUCE_TILE);
    }
    const int64_t passes = tp__reduce_ceil_div(c.R * c.B, c.pitch), wanted = TP__REDUCE_BLOCKS / (c.A * c.n_tile),
                  max_parts = passes / 16;
    c.n_part = wanted < max_parts ? wanted : max_parts;
    if (c.n_part > 512) c.n_part = 512;
    if (c.n_part < 1) c.n_part = 1;
    c.chunk = tp__reduce_ceil_div(passes, c.n_part);
    return c;
}
/* columns: whether the columns kernel may be used. That kernel is faster if a block has enough work, and if with one thread
 * per output there would be too few threads or a thread would read elements far apart. */
static tp__reduce_cut tp__cut_reduction(const tp__folded *f, bool columns)
{
    if (columns && f->inner_kept && f->n_reduce == 1 && f->n_out > 0) {
        const int64_t B = f->keep[0].d;
        if (f->n_sum * B >= 1024 && (f->n_out < 65536 || B < 32)) return tp__cut_columns(f);
    }
    return tp__cut_rows(f);
}

/* Sums the elements of [from, to) that thread `lane` of `lanes` processes; several loads are in flight at a time. */
template <class K, class T>
__device__ __forceinline__ typename K::sum tp__reduce_fours(const tp__folded &f, const T *p, int64_t from, int64_t to,
                                                            int lane, int lanes, bool aligned)
{
    typedef tp__number<T> N;
    typedef typename K::few few;
    typename K::sum total = K::none();
    const bool one_dimension = f.n_reduce == 1;
    const int64_t step = 4 * (int64_t)lanes;
    int64_t j = from + 4 * (int64_t)lane;
    for (; j + 3 * step + 3 < to; j += 4 * step) {
        tp__four<T> u[4];
        few s[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            u[i] = tp__four_at(p + (one_dimension ? j + i * step : tp__element_at(f, j + i * step)), aligned);
#pragma unroll
        for (int i = 0; i < 4; i++)
            s[i] = K::join(K::join(K::of(N::get(u[i].v, 0)), K::of(N::get(u[i].v, 1))),
                           K::join(K::of(N::get(u[i].v, 2)), K::of(N::get(u[i].v, 3))));
        total = K::join(total, (typename K::sum)K::join(K::join(s[0], s[1]), K::join(s[2], s[3])));
    }
    for (; j < to; j += step) {
        const T *q = p + (one_dimension ? j : tp__element_at(f, j));
        for (int i = 0; i < 4 && j + i < to; i++) total = K::join(total, (typename K::sum)K::of(N::get(q, i)));
    }
    return total;
}
template <class K, class T>
__device__ __forceinline__ typename K::sum tp__reduce_singly(const tp__folded &f, const T *p, int64_t from, int64_t to,
                                                             int lane, int lanes)
{
    typedef tp__number<T> N;
    typedef typename K::few few;
    typename K::sum total = K::none();
    const bool one_dimension = f.n_reduce == 1;
    const int64_t stride = f.reduce_stride[0];
    int64_t j = from + lane;
    for (; j + 7 * (int64_t)lanes < to; j += 8 * (int64_t)lanes) {
        few s[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int64_t e = j + i * (int64_t)lanes;
            s[i] = K::of(N::get(p, one_dimension ? e * stride : tp__element_at(f, e)));
        }
        total = K::join(total, (typename K::sum)K::join(K::join(K::join(s[0], s[1]), K::join(s[2], s[3])),
                                                        K::join(K::join(s[4], s[5]), K::join(s[6], s[7]))));
    }
    for (; j < to; j += lanes)
        total = K::join(total, (typename K::sum)K::of(N::get(p, one_dimension ? j * stride : tp__element_at(f, j))));
    return total;
}

template <class K, class T>
TP_KERNEL tp__reduce_rows(const __grid_constant__ tp__folded f, const __grid_constant__ tp__reduce_cut c, const T *x,
                          T *y, typename K::sum *partial, bool aligned, int result_kind)
{
    TP_SHARED(typename K::sum, shared, 8);
    const int lane = (int)threadIdx.x & (c.lanes - 1), groups = TP__THREADS / c.lanes;
    const int64_t items = f.n_out * c.n_part;
    for (int64_t first = (int64_t)blockIdx.x * groups; first < items; first += (int64_t)gridDim.x * groups) {
        const int64_t item = first + (int)threadIdx.x / c.lanes;
        int64_t piece = 0, o = item;
        typename K::sum total = K::none();
        if (item < items) {
            if (c.n_part > 1) piece = item / f.n_out, o = item - piece * f.n_out;
            const int64_t from = piece * c.chunk, to = from + c.chunk < f.n_sum ? from + c.chunk : f.n_sum;
            const T *p = x + tp__out_begin(f, o);
            total = c.by_four ? tp__reduce_fours<K, T>(f, p, from, to, lane, c.lanes, aligned)
                              : tp__reduce_singly<K, T>(f, p, from, to, lane, c.lanes);
        }
        total = tp__lanes_join<K>(total, c.lanes, shared);
        if (item >= items || lane != 0) continue;
        if (c.n_part > 1) partial[item] = total;
        else tp__number<T>::put(y, o, total, result_kind, (double)f.n_sum);
    }
}

/* In every pass a block reads the same positions: four per thread, either adjacent or 256 apart. */
template <class K, class T>
TP_KERNEL tp__reduce_columns(const __grid_constant__ tp__reduce_cut c, const T *x, T *y, typename K::sum *partial,
                             bool aligned, int result_kind)
{
    typedef tp__number<T> N;
    typedef typename K::few few;
    typedef typename K::sum sum;
    TP_SHARED(sum, shared, TP__REDUCE_TILE);
    const int64_t n_out = c.A * c.B, tile = blockIdx.x % c.n_tile, at = blockIdx.x / c.n_tile, part = at % c.n_part,
                  a = at / c.n_part, begin = a * c.R * c.B + tile * TP__REDUCE_TILE,
                  limit = c.R * c.B - tile * TP__REDUCE_TILE;
    const int width = (int)(c.n_tile == 1 || c.B - tile * TP__REDUCE_TILE > c.width ? c.width
                                                                                    : c.B - tile * TP__REDUCE_TILE),
              t = (int)threadIdx.x;
    const int64_t passes = tp__reduce_ceil_div(c.R * c.B, c.pitch), from = part * c.chunk,
                  to = from + c.chunk < passes ? from + c.chunk : passes,
                  /* passes in which all elements exist; the last pass may lack some */
        whole = c.n_tile == 1 && to * c.pitch > limit ? to - 1 : to;
    const T *p = x + begin;
    sum total[4];
#pragma unroll
    for (int v = 0; v < 4; v++) total[v] = K::none();
    int64_t pass = c.by_four && 4 * t >= width ? to : from;
    for (; pass + 4 <= whole; pass += 4) {
        few s[4][4];
        if (c.by_four) {
            tp__four<T> u[4];
#pragma unroll
            for (int i = 0; i < 4; i++) u[i] = tp__four_at(p + (pass + i) * c.pitch + 4 * t, aligned);
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int v = 0; v < 4; v++) s[i][v] = K::of(N::get(u[i].v, v));
#pragma unroll
            for (int v = 0; v < 4; v++)
                total[v] = K::join(total[v], (sum)K::join(K::join(s[0][v], s[1][v]), K::join(s[2][v], s[3][v])));
        } else {
#pragma unroll
            for (int v = 0; v < 4; v++) {
                const int e = t + v * TP__THREADS;
                if (e >= width) continue;
#pragma unroll
                for (int i = 0; i < 4; i++) s[i][v] = K::of(N::get(p, (pass + i) * c.pitch + e));
                total[v] = K::join(total[v], (sum)K::join(K::join(s[0][v], s[1][v]), K::join(s[2][v], s[3][v])));
            }
        }
    }
    for (; pass < to; pass++)
#pragma unroll
        for (int v = 0; v < 4; v++) {
            const int e = c.by_four ? 4 * t + v : t + v * TP__THREADS;
            if (e < width && pass * c.pitch + e < limit)
                total[v] = K::join(total[v], (sum)K::of(N::get(p, pass * c.pitch + e)));
        }
#pragma unroll
    for (int v = 0; v < 4; v++) {
        const int e = c.by_four ? 4 * t + v : t + v * TP__THREADS;
        if (e < width) shared[e] = total[v];
    }
    const int n = c.n_tile == 1 ? (int)c.B : width;
    for (int rows = width / n; rows > 1;) { /* of several short rows in `shared`, join the upper half to the lower */
        const int half = (rows + 1) / 2;
        __syncthreads();
        for (int i = t; i < (rows - half) * n; i += TP__THREADS) shared[i] = K::join(shared[i], shared[half * n + i]);
        rows = half;
    }
    __syncthreads();
    for (int i = t; i < n; i += TP__THREADS) {
        const int64_t o = a * c.B + tile * TP__REDUCE_TILE + i;
        if (c.n_part > 1) partial[part * n_out + o] = shared[i];
        else N::put(y, o, shared[i], result_kind, (double)c.R);
    }
}

/* Sums the parts, stored as (n_part, n_out), to y. A block computes W adjacent outputs (a power of two up to 32). */
template <class K, class T>
TP_KERNEL tp__reduce_join(const typename K::sum *partial, int64_t n_part, int64_t n_out, int W, T *y, int result_kind,
                          double n)
{
    typedef typename K::sum sum;
    TP_SHARED(sum, shared, TP__THREADS);
    const int t = (int)threadIdx.x, lane = t / W, lanes = TP__THREADS / W;
    const int64_t o = (int64_t)blockIdx.x * W + t % W;
    sum total = K::none();
    if (o < n_out) {
        int64_t piece = lane;
        for (; piece + 3 * lanes < n_part; piece += 4 * lanes) {
            const sum a = partial[piece * n_out + o], b = partial[(piece + lanes) * n_out + o],
                      c = partial[(piece + 2 * lanes) * n_out + o], d = partial[(piece + 3 * lanes) * n_out + o];
            total = K::join(total, K::join(K::join(a, b), K::join(c, d)));
        }
        for (; piece < n_part; piece += lanes) total = K::join(total, partial[piece * n_out + o]);
    }
    shared[t] = total;
    for (int half = lanes / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half) shared[t] = K::join(shared[t], shared[t + half * W]);
    }
    if (lane == 0 && o < n_out) tp__number<T>::put(y, o, shared[t], result_kind, n);
}
template <class K, class T>
static void tp__run_join(const tp_call *k, const void *partial, int64_t n_part, int64_t n_out, void *y, int result_kind,
                         double n)
{
    int W = 1;
    while (W < 32 && W < n_out) W *= 2;
    TP_RUN_BLOCKS(k, (tp__reduce_join<K, T>), tp__reduce_ceil_div(n_out, W), TP__THREADS, 0,
                  (const typename K::sum *)partial, n_part, n_out, W, (T *)y, result_kind, n);
}

template <class K, class T, bool COLUMNS>
static void tp__run_reduction(const tp_call *k, const tp__folded *f, int result_kind)
{
    typedef typename K::sum sum;
    const tp__reduce_cut c = tp__cut_reduction(f, COLUMNS);
    const T *x = (const T *)k->in[0].data;
    T *y = (T *)k->out[0].data;
    sum *partial = (sum *)k->scratch;
    const bool aligned = tp__aligned_to_four<T>(x);
    if (f->n_out == 0) return;
    if constexpr (COLUMNS) {
        if (c.columns)
            TP_RUN_BLOCKS(k, (tp__reduce_columns<K, T>), c.A * c.n_tile * c.n_part, TP__THREADS, 0, c, x, y, partial,
                          aligned && c.width % 4 == 0 && c.pitch % 4 == 0 && (c.A == 1 || c.R * c.B % 4 == 0),
                          result_kind);
    }
    if (!c.columns)
        TP_RUN(k, (tp__reduce_rows<K, T>), f->n_out * c.n_part * c.lanes, *f, c, x, y, partial, aligned, result_kind);
    if (c.n_part > 1) tp__run_join<K, T>(k, partial, c.n_part, f->n_out, y, result_kind, (double)f->n_sum);
}
/* Runs the reduction K in the element type of the operand. */
template <template <class> class K, bool COLUMNS>
static void tp__reduce_numbers(const tp_call *k, const tp__folded *f, int result_kind)
{
    if (k->in[0].dtype == TP_I32) tp__run_reduction<K<int32_t>, int32_t, false>(k, f, result_kind);
    else if (k->in[0].dtype == TP_I64) tp__run_reduction<K<int64_t>, int64_t, false>(k, f, result_kind);
    else TP_REALS(k->in[0].dtype, (tp__run_reduction<K<T>, T, COLUMNS>(k, f, result_kind)););
}
static size_t tp__reduction_scratch(const tp_call *k, const tp__folded *f, bool columns)
{
    const tp_dtype d = k->in[0].dtype;
    const tp__reduce_cut c =
        tp__cut_reduction(f, columns && (d == TP_F32 || d == TP_F64 || d == TP_F16 || d == TP_BF16));
    return c.n_part > 1 ? (size_t)(c.n_part * f->n_out) * sizeof(double) : 0;
}
/* Scratch bytes of reductions: of those that may use the columns kernel, then of those that may not. */
static size_t tp__reduce_scratch(const tp_call *k)
{
    const tp__folded f = tp__fold_axes(k);
    return tp__reduction_scratch(k, &f, true);
}
static size_t tp__reduce_rows_scratch(const tp_call *k)
{
    const tp__folded f = tp__fold_axes(k);
    return tp__reduction_scratch(k, &f, false);
}

/* op reduce_sum */
static void tp__reduce_sum_cuda(const tp_call *k)
{
    const tp__folded f = tp__fold_axes(k);
    tp__reduce_numbers<tp__do_sum, true>(k, &f, TP__REDUCED_AS_IS);
}

/* op size_ratio: stores a factor that depends only on shapes */
template <class T> TP_KERNEL tp__put_scalar(T *y, double v)
{
    if (blockIdx.x == 0 && threadIdx.x == 0) tp__put(y, 0, (tp__real<T>)v);
}
static void tp__size_ratio_cuda(const tp_call *k)
{
    const int64_t n = tp__size(&k->in[1]);
    const double ratio = n > 0 ? (double)(tp__size(&k->in[0]) / n) : 0;
    TP_REALS(k->out[0].dtype, TP_RUN(k, (tp__put_scalar<T>), 1, (T *)k->out[0].data, ratio););
}

/* op reduce_mean */
static void tp__reduce_mean_cuda(const tp_call *k)
{
    const tp__folded f = tp__fold_axes(k);
    TP_REALS(k->in[0].dtype, (tp__run_reduction<tp__do_sum<T>, T, true>(k, &f, TP__REDUCED_MEAN)););
}

/* ops reduce_max and reduce_min */
static void tp__reduce_max_cuda(const tp_call *k)
{
    const tp__folded f = tp__fold_axes(k);
    tp__reduce_numbers<tp__do_max, true>(k, &f, TP__REDUCED_AS_IS);
}
static void tp__reduce_min_cuda(const tp_call *k)
{
    const tp__folded f = tp__fold_axes(k);
    tp__reduce_numbers<tp__do_min, true>(k, &f, TP__REDUCED_AS_IS);
}

/* op reduce_prod */
static void tp__reduce_prod_cuda(const tp_call *k)
{
    const tp__folded f = tp__fold_axes(k);
    tp__reduce_numbers<tp__do_product, false>(k, &f, TP__REDUCED_AS_IS);
}

/* reduce_prod_grad: one warp per output. Each lane has a contiguous range of the elements. From the products of whole ranges a
 * lane computes the products of all elements before and after its range; then it goes through its range forwards and backwards.
 * The product before each element is kept in dx if it is double, else in scratch: a float cannot hold all products of floats. */
template <class T>
TP_KERNEL tp__reduce_prod_back(const __grid_constant__ tp__folded f, const T *x, const T *dy, T *dx, double *before_all)
{
    const int lane = (int)threadIdx.x & 31;
    const int64_t warps = (int64_t)gridDim.x * (TP__THREADS / 32), each = (f.n_sum + 31) / 32;
    for (int64_t o = (int64_t)blockIdx.x * (TP__THREADS / 32) + (threadIdx.x >> 5); o < f.n_out; o += warps) {
        const int64_t begin = tp__out_begin(f, o), from = lane * each < f.n_sum ? lane * each : f.n_sum,
                      to = from + each < f.n_sum ? from + each : f.n_sum;
        double lane_product = 1, before = 1, after = 1;
        for (int64_t j = from; j < to; j++) lane_product *= (double)tp__get(x, begin + tp__element_at(f, j));
        for (int l = 0; l < 32; l++) {
            const double other_product = __shfl_sync(0xffffffffu, lane_product, l);
            if (l < lane) before *= other_product;
            if (l > lane) after *= other_product;
        }
        before *= (double)tp__get(dy, o);
        for (int64_t j = from; j < to; j++) {
            const int64_t at = begin + tp__element_at(f, j);
            before_all[at] = before;
            before *= (double)tp__get(x, at);
        }
        for (int64_t j = to - 1; j >= from; j--) {
            const int64_t at = begin + tp__element_at(f, j);
            tp__put(dx, at, (tp__real<T>)(before_all[at] * after));
            after *= (double)tp__get(x, at);
        }
    }
}
static void tp__reduce_prod_grad_cuda(const tp_call *k)
{
    const tp__folded f = tp__fold_axes(k);
    TP_REALS(k->in[0].dtype,
             TP_RUN(k, (tp__reduce_prod_back<T>), f.n_out * 32, f, (const T *)k->in[0].data, (const T *)k->in[1].data,
                    (T *)k->out[0].data, (double *)(sizeof(T) == 8 ? k->out[0].data : k->scratch)););
}
static size_t tp__reduce_prod_grad_scratch(const tp_call *k)
{
    return k->in[0].dtype == TP_F64 ? 0 : (size_t)tp__size(&k->in[0]) * sizeof(double);
}

/* ops reduce_all and reduce_any */
static void tp__reduce_all_cuda(const tp_call *k)
{
    const tp__folded f = tp__fold_axes(k);
    tp__run_reduction<tp__do_all<uint8_t>, uint8_t, false>(k, &f, TP__REDUCED_AS_IS);
}
static void tp__reduce_any_cuda(const tp_call *k)
{
    const tp__folded f = tp__fold_axes(k);
    tp__run_reduction<tp__do_any<uint8_t>, uint8_t, false>(k, &f, TP__REDUCED_AS_IS);
}

/* op sum_to_like */
static void tp__sum_to_like_cuda(const tp_call *k)
{
    const tp__folded f = tp__fold_broadcast(&k->in[0].shape, &k->out[0].shape);
    TP_REALS(k->in[0].dtype, (tp__run_reduction<tp__do_sum<T>, T, true>(k, &f, TP__REDUCED_AS_IS)););
}
static size_t tp__sum_to_like_scratch(const tp_call *k)
{
    const tp__folded f = tp__fold_broadcast(&k->in[0].shape, &k->out[0].shape);
    return tp__reduction_scratch(k, &f, true);
}

/* broadcast_like: a thread writes 16 bytes of y. The dimensions of y, innermost first; dimensions along which x is repeated
 * have stride 0. */
typedef struct tp__spread {
    int n;
    tp__divisor size[TP_MAX_DIMS];
    int64_t stride[TP_MAX_DIMS], total;
    /* how the elements for 16 bytes of y are read from x: 0: from any places; 1: from adjacent places; 2: from one
     * place */
    int inner;
} tp__spread;
__device__ __forceinline__ int64_t tp__spread_at(const tp__spread &s, int64_t i)
{
    return tp__folded_at(s.n, s.size, s.stride, i);
}
template <class T> struct alignas(16) tp__sixteen_bytes {
    T v[16 / sizeof(T)];
};
template <class T> TP_KERNEL tp__broadcast_kernel(const __grid_constant__ tp__spread s, const T *x, T *y)
{
    const int V = 16 / (int)sizeof(T);
    TP_EACH(q, (s.total + V - 1) / V)
    {
        const int64_t i = q * V;
        tp__sixteen_bytes<T> u;
        if (s.inner == 1) u = *(const tp__sixteen_bytes<T> *)(x + tp__spread_at(s, i));
        else if (s.inner == 2) {
            const T one = x[tp__spread_at(s, i)];
            for (int v = 0; v < V; v++) u.v[v] = one;
        } else {
            for (int v = 0; v < V; v++) u.v[v] = i + v < s.total ? x[tp__spread_at(s, i + v)] : (T)0;
        }
        if (i + V <= s.total) {
            *(tp__sixteen_bytes<T> *)(y + i) = u;
            continue;
        }
#pragma unroll
        for (int v = 0; v < V; v++)
            if (i + v < s.total) y[i + v] = u.v[v];
    }
}
template <class T> TP_KERNEL tp__broadcast_singly(const __grid_constant__ tp__spread s, const T *x, T *y)
{
    TP_EACH(i, s.total) y[i] = x[tp__spread_at(s, i)];
}
static void tp__broadcast_like_cuda(const tp_call *k)
{
    const tp_shape *x = &k->in[0].shape, *y = &k->out[0].shape;
    const int lead = y->ndim - x->ndim;
    const int64_t V = 16 / (int64_t)tp__dtype_size(k->out[0].dtype);
    int64_t stride = 1;
    int previous_kind = -1;
    tp__spread s;
    memset(&s, 0, sizeof s);
    s.total = tp__size(&k->out[0]);
    if (s.total == 0) return;
    for (int d = y->ndim - 1; d >= 0; d--) {
        const int64_t n = y->dim[d];
        const int repeated = d < lead || x->dim[d - lead] == 1;
        if (n == 1) continue;
        if (repeated == previous_kind) {
            s.size[s.n - 1] = tp__divide_by(s.size[s.n - 1].d * n, s.total);
        } else {
            s.stride[s.n] = repeated ? 0 : stride;
            s.size[s.n++] = tp__divide_by(n, s.total);
        }
        if (!repeated) stride *= n;
        previous_kind = repeated;
    }
    const bool fits = (uintptr_t)k->in[0].data % 16 == 0, to_fits = (uintptr_t)k->out[0].data % 16 == 0;
    if (s.n == 0) s.inner = 2;
    else if (s.stride[0] == 0) s.inner = s.size[0].d % V == 0 || s.n == 1 ? 2 : 0;
    else s.inner = s.size[0].d % V == 0 && fits ? 1 : 0;
    if (to_fits)
        TP_SIZES(k->out[0].dtype, TP_RUN(k, (tp__broadcast_kernel<T>), (s.total + V - 1) / V, s,
                                         (const T *)k->in[0].data, (T *)k->out[0].data););
    else
        TP_SIZES(k->out[0].dtype,
                 TP_RUN(k, (tp__broadcast_singly<T>), s.total, s, (const T *)k->in[0].data, (T *)k->out[0].data););
}

/* l2_loss, global_norm: each block adds the squares of one piece of one tensor, in double, as the CPU does, because the square
 * of a float may overflow. Tensors are passed by value in lists; many tensors need several launches. */
#define TP__SQUARES_LIST 128
typedef struct tp__squares_list {
    int n;
    int64_t piece; /* elements of a tensor that a block adds */
    struct {
        const void *data;
        int64_t size;
        int first; /* index of the tensor's first block in this launch */
        int dtype;
    } tensor[TP__SQUARES_LIST];
} tp__squares_list;
template <class T> __device__ __forceinline__ double tp__squares_of(const T *p, int64_t from, int64_t to, bool aligned)
{
    double total = 0;
    int64_t j = from + 4 * (int64_t)threadIdx.x;
    for (; j + 3 * 4 * TP__THREADS + 3 < to; j += 4 * 4 * TP__THREADS) {
        tp__four<T> u[4];
#pragma unroll
        for (int i = 0; i < 4; i++) u[i] = tp__four_at(p + j + i * 4 * TP__THREADS, aligned);
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int v = 0; v < 4; v++) {
                const double x = (double)tp__get(u[i].v, v);
                total += x * x;
            }
    }
    for (; j < to; j += 4 * TP__THREADS)
        for (int v = 0; v < 4 && j + v < to; v++) {
            const double x = (double)tp__get(p, j + v);
            total += x * x;
        }
    return total;
}
TP_KERNEL tp__squares(const __grid_constant__ tp__squares_list l, double *partial)
{
    TP_SHARED(double, shared, 8);
    int low = 0, high = l.n; /* find the tensor of this block: the last one that begins at or before it */
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (l.tensor[middle].first <= (int)blockIdx.x) low = middle;
        else high = middle;
    }
    const void *p = l.tensor[low].data;
    const int64_t from = ((int)blockIdx.x - l.tensor[low].first) * l.piece,
                  to = from + l.piece < l.tensor[low].size ? from + l.piece : l.tensor[low].size;
    const bool aligned = (uintptr_t)p % 16 == 0;
    double sum;
    switch (l.tensor[low].dtype) {
    case TP_F64: sum = tp__squares_of((const double *)p, from, to, aligned); break;
    case TP_F16: sum = tp__squares_of((const tp__f16 *)p, from, to, aligned); break;
    case TP_BF16: sum = tp__squares_of((const tp__bf16 *)p, from, to, aligned); break;
    default: sum = tp__squares_of((const float *)p, from, to, aligned); break;
    }
    sum = tp__block_sum(sum, shared);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
static int64_t tp__squares_piece(const tp_call *k)
{
    int64_t n = 0;
    for (int i = 0; i < k->n_in; i++) n += tp__size(&k->in[i]);
    return n < (int64_t)1 << 25 ? 16384 : 65536;
}
static int64_t tp__squares_pieces(const tp_call *k)
{
    int64_t n = 0;
    for (int i = 0; i < k->n_in; i++) n += tp__reduce_ceil_div(tp__size(&k->in[i]), tp__squares_piece(k));
    return n;
}
static size_t tp__squares_scratch(const tp_call *k) { return (size_t)tp__squares_pieces(k) * sizeof(double); }
static void tp__run_squares(const tp_call *k, int result_kind)
{
    double *partial = (double *)k->scratch;
    tp__squares_list l;
    l.n = 0;
    l.piece = tp__squares_piece(k);
    int64_t blocks = 0;
    for (int i = 0; i < k->n_in; i++) {
        const int64_t size = tp__size(&k->in[i]);
        if (size > 0) {
            l.tensor[l.n].data = k->in[i].data;
            l.tensor[l.n].size = size;
            l.tensor[l.n].first = (int)blocks;
            l.tensor[l.n++].dtype = (int)k->in[i].dtype;
            blocks += tp__reduce_ceil_div(size, l.piece);
        }
        if (l.n == 0 || (l.n < TP__SQUARES_LIST && i + 1 < k->n_in)) continue;
        TP_RUN_BLOCKS(k, tp__squares, blocks, TP__THREADS, 0, l, partial);
        partial += blocks;
        l.n = 0;
        blocks = 0;
    }
    TP_REALS(k->out[0].dtype, (tp__run_join<tp__do_sum<double>, T>(k, k->scratch, tp__squares_pieces(k), 1,
                                                                   k->out[0].data, result_kind, 1.0)););
}
static void tp__l2_loss_cuda(const tp_call *k) { tp__run_squares(k, TP__REDUCED_HALF); }
static void tp__global_norm_cuda(const tp_call *k) { tp__run_squares(k, TP__REDUCED_ROOT); }

/* op zero_fraction */
static tp__folded tp__fold_all(const tp_call *k)
{
    bool reduced[TP_MAX_DIMS];
    for (int d = 0; d < TP_MAX_DIMS; d++) reduced[d] = true;
    return tp__fold(&k->in[0].shape, reduced);
}
static void tp__zero_fraction_cuda(const tp_call *k)
{
    const tp__folded f = tp__fold_all(k);
    TP_REALS(k->in[0].dtype, (tp__run_reduction<tp__do_count_zeros<T>, T, false>(k, &f, TP__REDUCED_MEAN)););
}
static size_t tp__zero_fraction_scratch(const tp_call *k)
{
    const tp__folded f = tp__fold_all(k);
    return tp__reduction_scratch(k, &f, false);
}

/* The order of top_k and argmax: NaN first, then the larger value, then the lower index. An index below 0 means no element. */
template <class R> __device__ __forceinline__ bool tp__ranks_before(R a, int64_t i, R b, int64_t j)
{
    if (i < 0 || j < 0) return i >= 0;
    const bool na = a != a, nb = b != b;
    if (na != nb) return na;
    if (!na && a != b) return a > b;
    return i < j;
}
/* Finds the first value, in the order of top_k and argmax, among those of `lanes` adjacent threads; all of them get it. */
template <class R>
__device__ __forceinline__ void tp__lanes_first_max(R &v, int64_t &i, int lanes, R *room_v, int64_t *room_i)
{
    for (int d = (lanes < 32 ? lanes : 32) / 2; d > 0; d >>= 1) {
        const R w = __shfl_xor_sync(0xffffffffu, v, d);
        const int64_t j = __shfl_xor_sync(0xffffffffu, i, d);
        if (tp__ranks_before(w, j, v, i)) v = w, i = j;
    }
    if (lanes <= 32) return;
    __syncthreads();
    if ((threadIdx.x & 31) == 0) room_v[threadIdx.x >> 5] = v, room_i[threadIdx.x >> 5] = i;
    __syncthreads();
    v = room_v[0], i = room_i[0];
    for (int w = 1; w < TP__THREADS / 32; w++)
        if (tp__ranks_before(room_v[w], room_i[w], v, i)) v = room_v[w], i = room_i[w];
}
/* The number of threads per row, for `rows` rows of n elements. */
static int tp__row_lanes(int64_t n, int64_t rows)
{
    if (n >= 4096 || (n >= 512 && rows < 2048)) return TP__THREADS;
    int lanes = 1;
    while (lanes < 32 && lanes * 4 < n) lanes *= 2;
    return lanes;
}

/* op argmax, for x as (A, n, B), over n */
template <class T> TP_KERNEL tp__argmax_kernel(const T *x, int64_t *y, int64_t rows, int64_t n, int64_t B, int lanes)
{
    typedef tp__number<T> N;
    typedef typename N::value R;
    TP_SHARED(R, room_v, 8);
    TP_SHARED(int64_t, room_i, 8);
    const int lane = (int)threadIdx.x & (lanes - 1), groups = TP__THREADS / lanes;
    for (int64_t first = (int64_t)blockIdx.x * groups; first < rows; first += (int64_t)gridDim.x * groups) {
        const int64_t row = first + (int)threadIdx.x / lanes;
        R best = 0;
        int64_t at = -1;
        if (row < rows) {
            const T *p = x + row / B * n * B + row % B;
            for (int64_t i = lane; i < n; i += lanes) {
                const R v = N::get(p, i * B);
                if (tp__ranks_before(v, i, best, at)) best = v, at = i;
            }
        }
        tp__lanes_first_max(best, at, lanes, room_v, room_i);
        if (row < rows && lane == 0) y[row] = at;
    }
}
template <class T> static void tp__run_argmax(const tp_call *k)
{
    const tp_shape *s = &k->in[0].shape;
    const int axis = tp__axis(((const tp__axis_attrs *)k->attrs)->axis, s->ndim);
    const int64_t n = s->dim[axis], B = tp__product_of(s, axis + 1, s->ndim), rows = tp__size(&k->out[0]);
    const int lanes = B > 8 && rows >= 4096 ? 1 : tp__row_lanes(n, rows);
    TP_RUN(k, (tp__argmax_kernel<T>), rows * lanes, (const T *)k->in[0].data, (int64_t *)k->out[0].data, rows, n, B,
           lanes);
}
static void tp__argmax_cuda(const tp_call *k)
{
    if (k->in[0].dtype == TP_I32) tp__run_argmax<int32_t>(k);
    else if (k->in[0].dtype == TP_I64) tp__run_argmax<int64_t>(k);
    else TP_REALS(k->in[0].dtype, tp__run_argmax<T>(k););
}

/* cumsum: one thread per line if there are many lines, otherwise one block per line, which processes 1024 elements at a time,
 * four per thread, and carries the sum over. */
typedef struct tp__cumsum_job {
    int64_t lines, n, B;
    bool exclusive, reverse;
} tp__cumsum_job;
template <class T> TP_KERNEL tp__cumsum_threads(const T *x, T *y, const tp__cumsum_job j)
{
    typedef tp__do_sum<T> K;
    TP_EACH(line, j.lines)
    {
        const int64_t at = line / j.B * j.n * j.B + line % j.B;
        typename K::sum sum = 0;
        for (int64_t q = 0; q < j.n; q++) {
            const int64_t i = at + (j.reverse ? j.n - 1 - q : q) * j.B;
            const typename K::sum before = sum;
            sum += (typename K::sum)K::of(tp__number<T>::get(x, i));
            tp__number<T>::put(y, i, j.exclusive ? before : sum, TP__REDUCED_AS_IS, 1);
        }
    }
}
template <class T> TP_KERNEL tp__cumsum_blocks(const T *x, T *y, const tp__cumsum_job j)
{
    typedef tp__do_sum<T> K;
    typedef typename K::sum sum;
    TP_SHARED(sum, shared, 8);
    const int t = (int)threadIdx.x, lane = t & 31, warp = t >> 5;
    for (int64_t line = blockIdx.x; line < j.lines; line += gridDim.x) {
        const int64_t at = line / j.B * j.n * j.B + line % j.B;
        sum carry = 0;
        for (int64_t from = 0; from < j.n; from += 4 * TP__THREADS) {
            sum v[4], mine = 0;
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int64_t q = from + 4 * t + e, i = j.reverse ? j.n - 1 - q : q;
                v[e] = q < j.n ? (sum)K::of(tp__number<T>::get(x, at + i * j.B)) : (sum)0;
                mine += v[e];
            }
            sum upto = mine; /* sum over this lane and all lower lanes of the warp */
            for (int d = 1; d < 32; d <<= 1) {
                const sum other = __shfl_up_sync(0xffffffffu, upto, (unsigned)d);
                if (lane >= d) upto += other;
            }
            __syncthreads();
            if (lane == 31) shared[warp] = upto;
            __syncthreads();
            sum before = carry;
            for (int w = 0; w < TP__THREADS / 32; w++) {
                if (w < warp) before += shared[w];
                carry += shared[w];
            }
            const sum left = __shfl_up_sync(0xffffffffu, upto, 1u);
            if (lane > 0) before += left;
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int64_t q = from + 4 * t + e, i = j.reverse ? j.n - 1 - q : q;
                const sum after = before + v[e];
                if (q < j.n) tp__number<T>::put(y, at + i * j.B, j.exclusive ? before : after, TP__REDUCED_AS_IS, 1);
                before = after;
            }
        }
    }
}
template <class T> static void tp__run_cumsum(const tp_call *k)
{
    const tp__cumsum_attrs *t = (const tp__cumsum_attrs *)k->attrs;
    const tp_shape *s = &k->in[0].shape;
    const int axis = tp__axis(t->axis, s->ndim);
    const int64_t size = tp__size(&k->in[0]);
    if (size == 0) return;
    tp__cumsum_job j;
    j.n = s->dim[axis];
    j.B = tp__product_of(s, axis + 1, s->ndim);
    j.lines = size / j.n;
    j.exclusive = t->exclusive;
    j.reverse = t->reverse;
    const T *x = (const T *)k->in[0].data;
    T *y = (T *)k->out[0].data;
    if (j.n <= 32 || (j.lines >= 4096 && j.B >= 8)) TP_RUN(k, (tp__cumsum_threads<T>), j.lines, x, y, j);
    else TP_RUN(k, (tp__cumsum_blocks<T>), j.lines * TP__THREADS, x, y, j);
}
static void tp__cumsum_cuda(const tp_call *k)
{
    if (k->in[0].dtype == TP_I32) tp__run_cumsum<int32_t>(k);
    else if (k->in[0].dtype == TP_I64) tp__run_cumsum<int64_t>(k);
    else TP_REALS(k->in[0].dtype, tp__run_cumsum<T>(k););
}

/* top_k: a small k is found by k searches, each among the elements after the previous one in the order. For a larger k each row
 * is sorted: keys of eight bytes in scratch hold the value as an ordered integer and the index; a bitonic network sorts them,
 * in one kernel if the row fits into shared memory. Doubles, whose keys would be longer, are always searched. */
#define TP__TOP_K_FEW  32
#define TP__SORT_PIECE 2048
template <class T>
TP_KERNEL tp__top_k_few(const T *x, T *y, int32_t *index, int64_t rows, int64_t n, int64_t K, int lanes)
{
    typedef tp__real<T> R;
    TP_SHARED(R, room_v, 8);
    TP_SHARED(int64_t, room_i, 8);
    const int lane = (int)threadIdx.x & (lanes - 1), groups = TP__THREADS / lanes;
    for (int64_t first = (int64_t)blockIdx.x * groups; first < rows; first += (int64_t)gridDim.x * groups) {
        const int64_t row = first + (int)threadIdx.x / lanes;
        const T *p = x + row * n;
        R last = 0;
        int64_t last_at = -1;
        for (int64_t j = 0; j < K; j++) {
            R best = 0;
            int64_t at = -1;
            if (row < rows)
                for (int64_t i = lane; i < n; i += lanes) {
                    const R v = tp__get(p, i);
                    if ((last_at < 0 || tp__ranks_before(last, last_at, v, i)) && tp__ranks_before(v, i, best, at))
                        best = v, at = i;
                }
            tp__lanes_first_max(best, at, lanes, room_v, room_i);
            last = best, last_at = at;
            if (row >= rows || lane != 0) continue;
            if (y) y[row * K + j] = p[at];
            if (index) index[row * K + j] = (int32_t)at;
        }
    }
}
/* Ascending keys are the descending order of top_k. */
__device__ __forceinline__ unsigned long long tp__sort_key(float v, int64_t i)
{
    unsigned u = __float_as_uint(v);
    if (v != v) u = 0;                              /* a NaN gets the smallest key */
    else if (v == 0) u = 0x7fffffffu;               /* -0 and 0 get the same key */
    else u = u & 0x80000000u ? u : 0x7fffffffu ^ u; /* a larger value has a smaller key */
    return (unsigned long long)u << 32 | (unsigned)i;
}
template <class T> TP_KERNEL tp__sort_keys(const T *x, unsigned long long *key, int64_t rows, int64_t n, int64_t P)
{
    TP_EACH(i, rows * P)
    {
        const int64_t row = i / P, at = i - row * P;
        key[i] = at < n ? tp__sort_key((float)tp__get(x, row * n + at), at) : ~0ull;
    }
}
/* Sorts rows of P keys in pieces, one block per piece: the network's steps from `size` to `last_size` whose distances are
 * inside a piece. */
TP_KERNEL tp__sort_piece(unsigned long long *key, int64_t P, int piece, int64_t size, int64_t last_size)
{
    TP_SHARED(unsigned long long, shared, TP__SORT_PIECE);
    unsigned long long *block_keys = key + (int64_t)blockIdx.x * piece;
    const int64_t at = (int64_t)blockIdx.x * piece % P;
    for (int i = (int)threadIdx.x; i < piece; i += TP__THREADS) shared[i] = block_keys[i];
    for (; size <= last_size; size *= 2)
        for (int distance = (int)(size / 2 < piece ? size / 2 : piece / 2); distance > 0; distance /= 2) {
            __syncthreads();
            for (int i = (int)threadIdx.x; i < piece / 2; i += TP__THREADS) {
                const int a = i / distance * 2 * distance + i % distance, b = a + distance;
                const bool up = ((at + a) & size) == 0;
                const unsigned long long u = shared[a], v = shared[b];
                if ((u > v) == up) shared[a] = v, shared[b] = u;
            }
        }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < piece; i += TP__THREADS) block_keys[i] = shared[i];
}
/* One step of the sorting network whose distance exceeds a piece: it compares keys in global memory. */
TP_KERNEL tp__sort_step(unsigned long long *key, int64_t pairs, int64_t P, int64_t size, int64_t distance)
{
    TP_EACH(i, pairs)
    {
        const int64_t a = i / distance * 2 * distance + i % distance, b = a + distance;
        const bool up = (a & (P - 1) & size) == 0;
        const unsigned long long u = key[a], v = key[b];
        if ((u > v) == up) key[a] = v, key[b] = u;
    }
}
template <class T>
TP_KERNEL tp__sort_take(const unsigned long long *key, const T *x, T *y, int32_t *index, int64_t rows, int64_t n,
                        int64_t K, int64_t P)
{
    TP_EACH(i, rows * K)
    {
        const int64_t row = i / K;
        const unsigned at = (unsigned)key[row * P + i - row * K];
        if (y) y[i] = x[row * n + at];
        if (index) index[i] = (int32_t)at;
    }
}
static bool tp__top_k_sorts(const tp_call *k)
{
    return ((const tp__top_k_attrs *)k->attrs)->k > TP__TOP_K_FEW && k->in[0].dtype != TP_F64;
}
static int64_t tp__sort_length(int64_t n)
{
    int64_t P = 64;
    while (P < n) P *= 2;
    return P;
}
static size_t tp__top_k_scratch(const tp_call *k)
{
    const tp_shape *s = &k->in[0].shape;
    if (!tp__top_k_sorts(k)) return 0;
    return (size_t)(tp__product_of(s, 0, s->ndim - 1) * tp__sort_length(s->dim[s->ndim - 1])) * 8;
}
template <class T> static void tp__run_top_k(const tp_call *k)
{
    const tp_shape *s = &k->in[0].shape;
    const int64_t n = s->dim[s->ndim - 1], rows = tp__product_of(s, 0, s->ndim - 1);
    const int64_t K = ((const tp__top_k_attrs *)k->attrs)->k;
    const T *x = (const T *)k->in[0].data;
    T *y = (T *)k->out[0].data;
    int32_t *index = (int32_t *)k->out[1].data;
    if (!tp__top_k_sorts(k)) {
        const int lanes = tp__row_lanes(n, rows);
        TP_RUN(k, (tp__top_k_few<T>), rows * lanes, x, y, index, rows, n, K, lanes);
        return;
    }
    unsigned long long *key = (unsigned long long *)k->scratch;
    const int64_t P = tp__sort_length(n);
    const int piece = P < TP__SORT_PIECE ? (int)P : TP__SORT_PIECE;
    TP_RUN(k, (tp__sort_keys<T>), rows * P, x, key, rows, n, P);
    TP_RUN_BLOCKS(k, tp__sort_piece, rows * P / piece, TP__THREADS, 0, key, P, piece, (int64_t)2, (int64_t)piece);
    for (int64_t size = 2 * (int64_t)piece; size <= P; size *= 2) {
        for (int64_t distance = size / 2; distance >= piece; distance /= 2)
            TP_RUN(k, tp__sort_step, rows * P / 2, key, rows * P / 2, P, size, distance);
        TP_RUN_BLOCKS(k, tp__sort_piece, rows * P / piece, TP__THREADS, 0, key, P, piece, size, size);
    }
    TP_RUN(k, (tp__sort_take<T>), rows * K, (const unsigned long long *)key, x, y, index, rows, n, K, P);
}
static void tp__top_k_cuda(const tp_call *k) { TP_REALS(k->in[0].dtype, tp__run_top_k<T>(k);); }

/* Integer indices of rows, for gather, one_hot and ops on the last axis. */
typedef struct tp__indices {
    const void *data;
    bool is_int64; /* the indices' type: int64, or int32 if false */
    int64_t n, rows;
} tp__indices;
static tp__indices tp__indices_of(const tp_operand *x, int64_t rows)
{
    tp__indices s = {x->data, x->dtype == TP_I64, tp__size(x), rows};
    return s;
}
__device__ __forceinline__ int64_t tp__row_of(const tp__indices &s, int64_t i)
{
    return s.is_int64 ? ((const int64_t *)s.data)[i] : (int64_t)((const int32_t *)s.data)[i];
}
/* A thread that finds an invalid index searches the first invalid one, so that every run reports the same index. */
__device__ __forceinline__ void tp__report_index(const tp__indices &s, int64_t bad_at, tp__fault f)
{
    /* return if another thread has already reported an invalid index */
    if (!f.words || atomicCAS((unsigned long long *)f.words, 0ull, 0ull) != 0ull) return;
    for (int64_t i = 0; i <= bad_at; i++) {
        const int64_t row = tp__row_of(s, i);
        if (row >= 0 && row < s.rows) continue;
        tp__report(f, row);
        return;
    }
}
/* op take_last */
template <class T> TP_KERNEL tp__take_last_kernel(const T *x, tp__indices s, T *y, int64_t m, tp__fault f)
{
    TP_EACH(i, s.n)
    {
        const int64_t at = tp__row_of(s, i);
        const bool inside = at >= 0 && at < s.rows;
        if (!inside) tp__report_index(s, i, f);
        y[i] = inside ? x[i / m * s.rows + at] : T();
    }
}
static void tp__take_last_cuda(const tp_call *k)
{
    const tp_shape *x = &k->in[0].shape, *o = &k->out[0].shape;
    const tp__indices s = tp__indices_of(&k->in[1], x->dim[x->ndim - 1]);
    const int64_t m = o->dim[o->ndim - 1];
    TP_SIZES(k->in[0].dtype, TP_RUN(k, (tp__take_last_kernel<T>), s.n, (const T *)k->in[0].data, s, (T *)k->out[0].data,
                                    m, tp__fault_of(k)););
}
/* put_last: fills y with zeros; then, of all elements with the same index, the first one's thread adds all of them, in
 * order. */
template <class T> TP_KERNEL tp__put_last_zeros(T *y, int64_t total)
{
    TP_EACH(i, total) tp__put(y, i, (tp__real<T>)0);
}
template <class T> TP_KERNEL tp__put_last_kernel(const T *dy, tp__indices s, T *y, int64_t m, tp__fault f)
{
    TP_EACH(i, s.n)
    {
        const int64_t row = i / m, end = (row + 1) * m, to = tp__row_of(s, i);
        bool first = to >= 0 && to < s.rows;
        if (!first) tp__report_index(s, i, f);
        for (int64_t j = row * m; j < i && first; j++) first = tp__row_of(s, j) != to;
        if (!first) continue;
        tp__real<T> sum = 0;
        for (int64_t j = i; j < end; j++)
            if (tp__row_of(s, j) == to) sum += tp__get(dy, j);
        tp__put(y, row * s.rows + to, sum);
    }
}
static void tp__put_last_cuda(const tp_call *k)
{
    const tp_shape *x = &k->in[0].shape, *o = &k->out[0].shape;
    const tp__indices s = tp__indices_of(&k->in[1], o->dim[o->ndim - 1]);
    const int64_t m = x->dim[x->ndim - 1], zeros = tp__size(&k->out[0]);
    TP_REALS(k->in[0].dtype, TP_RUN(k, (tp__put_last_zeros<T>), zeros, (T *)k->out[0].data, zeros);
             TP_RUN(k, (tp__put_last_kernel<T>), s.n, (const T *)k->in[0].data, s, (T *)k->out[0].data, m,
                    tp__fault_of(k)););
}

/* in_top_k: counts the elements that are larger than the label's */
template <class T>
TP_KERNEL tp__in_top_k_kernel(const T *x, const void *labels, bool long_labels, uint8_t *y, int64_t rows, int64_t C,
                              int K, int lanes)
{
    typedef tp__real<T> R;
    TP_SHARED(uint32_t, shared, 8);
    const int lane = (int)threadIdx.x & (lanes - 1), groups = TP__THREADS / lanes;
    for (int64_t first = (int64_t)blockIdx.x * groups; first < rows; first += (int64_t)gridDim.x * groups) {
        const int64_t row = first + (int)threadIdx.x / lanes;
        bool in_top_k = false;
        uint32_t larger = 0;
        if (row < rows) {
            const int64_t label =
                long_labels ? ((const int64_t *)labels)[row] : (int64_t)((const int32_t *)labels)[row];
            const R of_label = label >= 0 && label < C ? tp__get(x, row * C + label) : (R)INFINITY;
            in_top_k = of_label - of_label == 0; /* false if the label's value is not finite */
            for (int64_t c = lane; c < C && in_top_k; c += lanes) larger += tp__get(x, row * C + c) > of_label;
        }
        larger = tp__lanes_join<tp__do_sum<int32_t>>(larger, lanes, shared);
        if (row < rows && lane == 0) y[row] = in_top_k && (int64_t)larger < K;
    }
}
static void tp__in_top_k_cuda(const tp_call *k)
{
    const int64_t rows = k->in[0].shape.dim[0], C = k->in[0].shape.dim[1];
    const int K = ((const tp__top_k_attrs *)k->attrs)->k, lanes = tp__row_lanes(C, rows);
    TP_REALS(k->in[0].dtype, TP_RUN(k, (tp__in_top_k_kernel<T>), rows * lanes, (const T *)k->in[0].data, k->in[1].data,
                                    k->in[1].dtype == TP_I64, (uint8_t *)k->out[0].data, rows, C, K, lanes););
}

static const tp__cuda_kernel tp__cuda_reductions[] = {
    {"reduce_sum", tp__reduce_sum_cuda, tp__reduce_scratch},
    {"size_ratio", tp__size_ratio_cuda, NULL},
    {"reduce_mean", tp__reduce_mean_cuda, tp__reduce_scratch},
    {"reduce_max", tp__reduce_max_cuda, tp__reduce_scratch},
    {"reduce_min", tp__reduce_min_cuda, tp__reduce_scratch},
    {"reduce_prod", tp__reduce_prod_cuda, tp__reduce_rows_scratch},
    {"reduce_prod_grad", tp__reduce_prod_grad_cuda, tp__reduce_prod_grad_scratch},
    {"reduce_all", tp__reduce_all_cuda, tp__reduce_rows_scratch},
    {"reduce_any", tp__reduce_any_cuda, tp__reduce_rows_scratch},
    {"sum_to_like", tp__sum_to_like_cuda, tp__sum_to_like_scratch},
    {"l2_loss", tp__l2_loss_cuda, tp__squares_scratch},
    {"global_norm", tp__global_norm_cuda, tp__squares_scratch},
    {"zero_fraction", tp__zero_fraction_cuda, tp__zero_fraction_scratch},
    {"argmax", tp__argmax_cuda, NULL},
    {"cumsum", tp__cumsum_cuda, NULL},
    {"top_k", tp__top_k_cuda, tp__top_k_scratch},
    {"take_last", tp__take_last_cuda, NULL},
    {"put_last", tp__put_last_cuda, NULL},
    {"in_top_k", tp__in_top_k_cuda, NULL},
    {"broadcast_like", tp__broadcast_like_cuda, NULL},
    {NULL, NULL, NULL}};

/* ==== >>moves ========================================================================================= */
/* Ops that only move elements move units of 1, 2, 4, 8 or 16 bytes: as many elements at a time as divide every run, stride and
 * address. A thread has four units in flight, one block apart. */

/* Runs the body with T as a unit of `bytes_` bytes. */
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
/* Returns the largest copy unit, at most 16 bytes, that divides several sizes; `bits` is the bitwise OR of these
 * sizes. */
static int64_t tp__unit_of(uint64_t bits)
{
    int64_t unit = 16;
    while (bits & (uint64_t)(unit - 1)) unit /= 2;
    return unit;
}

/* Two functions: load or store four adjacent elements, of which only m exist; all four in one access. Every operand
 * begins at a multiple of 64 bytes. */
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
        for (int j = 0; j < 4; j++) /* the constant length keeps x in registers */
            if (j < m) tp__put(p, i + j, x[j]);
}

/* Fills a copy unit with a number, converted to the element type. */
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

/* -- group: computes nothing */
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
#define TP__MOVE_MAX (2 * TP_MAX_DIMS)
typedef struct tp__moving {
    int ndim;
    int64_t dim[TP__MOVE_MAX], dst_stride[TP__MOVE_MAX], src_stride[TP__MOVE_MAX];
    char *dst;
    const char *src;
    int64_t size; /* size of an element of the copy in bytes */
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
/* Adds a dimension to a strided copy, inside the others; merges it with the innermost one if the strides allow it. */
static void tp__moving_add(tp__moving *m, int64_t dim, int64_t ds, int64_t ss)
{
    const int d = m->ndim - 1;
    if (dim == 1) return;
    if (d >= 0 && m->dst_stride[d] == ds * dim && m->src_stride[d] == ss * dim) {
        m->dim[d] *= dim, m->dst_stride[d] = ds, m->src_stride[d] = ss;
        return;
    }
    m->dim[m->ndim] = dim, m->dst_stride[m->ndim] = ds, m->src_stride[m->ndim++] = ss;
}

typedef struct tp__move_plan {
    int64_t n;
    int ndim;
    tp__divisor dim[TP__MOVE_MAX];
    int64_t dst_stride[TP__MOVE_MAX], src_stride[TP__MOVE_MAX];
} tp__move_plan;

/* Moves units in the order of dst: adjacent threads write adjacent units. */
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
                to[j] += r * m.dst_stride[d];
                from += r * m.src_stride[d];
                i = q;
            }
            to[j] += i * m.dst_stride[0];
            unit[j] = src[from + i * m.src_stride[0]];
        }
        for (int j = 0; j < 4; j++)
            if (at + (int64_t)j * blockDim.x < m.n) dst[to[j]] = unit[j];
    }
}

/* If dst is contiguous along one dimension and src along another, square tiles go through shared memory. */
typedef struct tp__tile_plan {
    int64_t rows, cols, ds_row, ss_col; /* the tile's elements: dst[row ds_row + col] = src[row + col ss_col] */
    tp__divisor across, down;           /* numbers of tiles along a row (across) and along a column (down) */
    int ndim;                           /* number of dimensions outside the tile */
    tp__divisor dim[TP__MOVE_MAX];
    int64_t dst_stride[TP__MOVE_MAX], src_stride[TP__MOVE_MAX];
} tp__tile_plan;

template <class T, int SIDE> TP_KERNEL tp__move_tile(T *dst, const T *src, const __grid_constant__ tp__tile_plan m)
{
    TP_SHARED(T, tile, SIDE * (SIDE + 1));
    int64_t tile_index = blockIdx.x, q = tp__quotient(tile_index, m.across);
    const int64_t col0 = (tile_index - q * m.across.d) * SIDE;
    tile_index = q;
    q = tp__quotient(tile_index, m.down);
    const int64_t row0 = (tile_index - q * m.down.d) * SIDE;
    tile_index = q;
    for (int d = m.ndim - 1; d >= 0; d--) {
        q = tp__quotient(tile_index, m.dim[d]);
        dst += (tile_index - q * m.dim[d].d) * m.dst_stride[d];
        src += (tile_index - q * m.dim[d].d) * m.src_stride[d];
        tile_index = q;
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

/* Moves by square tiles; returns false if the strides or sizes do not suit tiles. */
static bool tp__move_transposed(const tp_call *k, const tp__moving *m)
{
    const int last_dim = m->ndim - 1, side = m->size <= 2 ? 64 : 32;
    int row = -1;
    for (int d = 0; d < last_dim; d++)
        if (m->src_stride[d] == 1) row = d;
    if (row < 0 || m->dst_stride[last_dim] != 1 || m->src_stride[last_dim] == 1 || m->dim[row] < 8 ||
        m->dim[last_dim] < 8)
        return false;
    tp__tile_plan p;
    memset(&p, 0, sizeof p);
    p.rows = m->dim[row], p.cols = m->dim[last_dim];
    p.ds_row = m->dst_stride[row], p.ss_col = m->src_stride[last_dim];
    const int64_t across = (p.cols + side - 1) / side, down = (p.rows + side - 1) / side;
    int64_t blocks = across * down;
    for (int d = 0; d < last_dim; d++)
        if (d != row) blocks *= m->dim[d];
    if (blocks > INT32_MAX) return false;
    p.across = tp__divide_by(across, blocks), p.down = tp__divide_by(down, blocks);
    for (int d = 0; d < last_dim; d++) {
        if (d == row) continue;
        p.dim[p.ndim] = tp__divide_by(m->dim[d], blocks);
        p.dst_stride[p.ndim] = m->dst_stride[d], p.src_stride[p.ndim++] = m->src_stride[d];
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
    if (m.ndim == 0 || (m.ndim == 1 && m.dst_stride[0] == 1 && m.src_stride[0] == 1)) {
        const cudaError_t e =
            cudaMemcpyAsync(m.dst, m.src, (size_t)(p.n * m.size), cudaMemcpyDeviceToDevice, tp__cuda_of(k)->stream);
        if (e != cudaSuccess) tp__store_error(tp__cuda_of(k), k->op->name, cudaGetErrorString(e));
        return;
    }
    if (tp__move_transposed(k, &m)) return;
    const int last_dim = m.ndim - 1;
    /* source and destination are contiguous: copy several elements at a time */
    if (m.dst_stride[last_dim] == 1 && m.src_stride[last_dim] == 1) {
        uint64_t bits = (uint64_t)(uintptr_t)m.dst | (uint64_t)(uintptr_t)m.src | (uint64_t)(m.dim[last_dim] * m.size);
        for (int d = 0; d < last_dim; d++)
            bits |= (uint64_t)(m.dst_stride[d] * m.size) | (uint64_t)(m.src_stride[d] * m.size);
        const int64_t times = tp__unit_of(bits) / m.size;
        for (int d = 0; d < last_dim; d++) m.dst_stride[d] /= times, m.src_stride[d] /= times;
        m.dim[last_dim] /= times, m.size *= times, p.n /= times;
    }
    p.ndim = m.ndim;
    for (int d = 0; d < m.ndim; d++) {
        p.dim[d] = tp__divide_by(m.dim[d], p.n);
        p.dst_stride[d] = m.dst_stride[d], p.src_stride[d] = m.src_stride[d];
    }
    TP__UNITS(m.size, TP_RUN(k, (tp__move_units<T>), (p.n + 3) / 4, (T *)m.dst, (const T *)m.src, p););
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

/* -- reverse: src is read backwards along some axes */
static void tp__reverse_cuda(const tp_call *k)
{
    const tp__reduce_attrs *t = (const tp__reduce_attrs *)k->attrs;
    const tp__dims x = tp__dims_of(&k->in[0].shape);
    tp__moving m = tp__moving_of(&k->out[0], &k->in[0]);
    if (tp__size(&k->in[0]) == 0) return;
    for (int d = 0; d < x.n; d++) {
        bool is_reversed = t->n_axes == 0;
        for (int a = 0; a < t->n_axes; a++) is_reversed = is_reversed || tp__axis(t->axes[a], x.n) == d;
        if (is_reversed) m.src += (x.dim[d] - 1) * x.stride[d] * m.size;
        tp__moving_add(&m, x.dim[d], x.stride[d], is_reversed ? -x.stride[d] : x.stride[d]);
    }
    tp__move_cuda(k, &m);
}

/* -- concat, concat_grad, split, stack, unstack: `whole` has rows, and each part is a range of every row. One launch handles up
 *    to 64 parts: a block works on one part. */
#define TP__PARTS_MAX 64
typedef struct tp__part_list {
    int n;
    int64_t row; /* length of a row of the whole tensor, in copy units of 1 to 16 bytes */
    void *part[TP__PARTS_MAX];
    int64_t size[TP__PARTS_MAX], at[TP__PARTS_MAX]; /* number of copy units in each part; offset of the part in a row */
    tp__divisor width[TP__PARTS_MAX];               /* number of copy units that a part has in each row */
    uint32_t first[TP__PARTS_MAX + 1];              /* index of the first block that copies each part */
} tp__part_list;

template <class T, bool JOIN> TP_KERNEL tp__move_parts(T *whole, const __grid_constant__ tp__part_list p)
{
    int low = 0, high = p.n - 1;
    while (low < high) { /* find the part of this block: the last one that begins at or before it */
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

/* Joins or splits tensors. part: n operands, whose data may be NULL. The parts have the axis too, except for stack and
 * unstack. */
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
        for (; i < n && p.n < TP__PARTS_MAX; i++) {
            const int64_t width = tp__product_of(&part[i].shape, axis, part[i].shape.ndim);
            if (part[i].data && width > 0) {
                p.part[p.n] = part[i].data;
                p.size[p.n] = width; /* p.size counts elements until the copy unit is chosen */
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
            tp__store_error(tp__cuda_of(k), k->op->name, "its values are too large");
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
static void tp__split_cuda(const tp_call *k) /* the kernel of the ops split and unstack */
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

/* -- pad, slice_grad: each element of y reads the corresponding element of x, or the border's value if it is outside x */
typedef struct tp__border {
    int64_t n;
    int ndim, mode;
    tp__divisor y[TP_MAX_DIMS];
    int64_t x[TP_MAX_DIMS], before[TP_MAX_DIMS], stride[TP_MAX_DIMS];
} tp__border;

/* For pad: returns the index in x, of length n, of the element for position i; if it is outside [0, n), the element is
 * in a constant border. */
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
        /* a dimension without a border is merged with the next outer one, which must have no border either if the mode
         * mirrors */
        if (e >= 0 && n == m && n > 0 && (mode == TP_PAD_CONSTANT || ydim[e] == b.x[e]))
            ydim[e] *= n, b.x[e] *= n, b.before[e] *= n;
        else ydim[b.ndim] = n, b.x[b.ndim] = m, b.before[b.ndim++] = before[d];
    }
    const int last_dim = b.ndim - 1;
    /* the last dimension is copied in units of several elements */
    if (last_dim >= 0 && (mode == TP_PAD_CONSTANT || ydim[last_dim] == b.x[last_dim])) {
        const int64_t times = tp__unit_of((uint64_t)(uintptr_t)y->data | (uint64_t)(uintptr_t)x->data |
                                          (uint64_t)(ydim[last_dim] * size) | (uint64_t)(b.x[last_dim] * size) |
                                          (uint64_t)(b.before[last_dim] * size)) /
                              size;
        ydim[last_dim] /= times, b.x[last_dim] /= times, b.before[last_dim] /= times, size *= times, b.n /= times;
    }
    for (int d = last_dim; d >= 0; d--) {
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

/* -- pad_grad: an element of x is copied to up to three positions along each dimension; their gradients are added in order */
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
        int64_t place[TP_MAX_DIMS][3], index_left = i;
        int n[TP_MAX_DIMS], at[TP_MAX_DIMS];
        for (int d = p.ndim - 1; d >= 0; d--) {
            const int64_t q = tp__quotient(index_left, p.x[d]), e = index_left - q * p.x[d].d, size = p.x[d].d;
            const int64_t edge = p.mode == TP_PAD_REFLECT ? 0 : 1; /* reflect: the edge is not doubled */
            const int64_t low = p.before[d] - e - edge, high = p.before[d] + 2 * size - 2 + edge - e;
            n[d] = at[d] = 0;
            if (p.mode != TP_PAD_CONSTANT && low >= 0 && low < p.before[d]) place[d][n[d]++] = low * p.stride[d];
            place[d][n[d]++] = (p.before[d] + e) * p.stride[d];
            if (p.mode != TP_PAD_CONSTANT && high >= p.before[d] + size && high < p.y[d])
                place[d][n[d]++] = high * p.stride[d];
            index_left = q;
        }
        tp__real<T> sum = 0;
        for (int d = 0; d >= 0;) { /* all combinations of positions, row by row */
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
    if (t->mode == TP_PAD_CONSTANT) { /* dx is the part of dy inside the border */
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

/* -- tile_grad: sums over the copies, in order. If x is small and has many copies, they are split into pieces, and a second
 *    launch adds the pieces' sums. */
typedef struct tp__copies {
    int64_t n, copies, piece; /* elements of x; number of copies of each element; copies in a piece */
    int ndim;
    tp__divisor x[TP_MAX_DIMS], times[TP_MAX_DIMS];
    int64_t stride[TP_MAX_DIMS]; /* strides of y that correspond to the dimensions of x */
} tp__copies;
template <class T, class P> TP_KERNEL tp__tile_grad_sum(P *sums, const T *dy, const __grid_constant__ tp__copies p)
{
    const int64_t pieces = (p.copies + p.piece - 1) / p.piece;
    TP_EACH(i, p.n * pieces)
    {
        const int64_t piece = i / p.n, to = (piece + 1) * p.piece < p.copies ? (piece + 1) * p.piece : p.copies;
        int64_t index_left = i - piece * p.n, first = 0;
        for (int d = p.ndim - 1; d >= 0; d--) {
            const int64_t q = tp__quotient(index_left, p.x[d]);
            first += (index_left - q * p.x[d].d) * p.stride[d];
            index_left = q;
        }
        tp__real<T> sum = 0;
        for (int64_t c = piece * p.piece; c < to; c++) {
            int64_t from = first;
            index_left = c;
            for (int d = p.ndim - 1; d >= 0; d--) {
                const int64_t q = tp__quotient(index_left, p.times[d]);
                from += (index_left - q * p.times[d].d) * p.x[d].d * p.stride[d];
                index_left = q;
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
/* The size of a piece depends only on shapes, so that about 65536 sums run in parallel. */
static int64_t tp__tile_grad_pieces(const tp_call *k)
{
    const int64_t n = tp__size(&k->out[0]), copies = n ? tp__size(&k->in[0]) / n : 0;
    int64_t pieces = n ? 65536 / n : 0;
    if (pieces > copies / 16) pieces = copies / 16;
    return pieces > 1 ? pieces : 1;
}
static size_t tp__tile_grad_scratch(const tp_call *k)
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
    const int64_t n_pieces = p.copies ? (p.copies + p.piece - 1) / p.piece : 0;
    TP_REALS(
        k->out[0].dtype, const T *dy = (const T *)k->in[0].data; T *dx = (T *)k->out[0].data;
        tp__real<T> *sums = (tp__real<T> *)k->scratch;
        if (n_pieces == 1) TP_RUN(k, (tp__tile_grad_sum<T, T>), p.n, dx, dy, p); else {
            TP_RUN(k, (tp__tile_grad_sum<T, tp__real<T>>), p.n * n_pieces, sums, dy, p);
            TP_RUN(k, (tp__tile_grad_end<T>), p.n, dx, (const tp__real<T> *)sums, p.n, n_pieces);
        });
}

/* -- gather */
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
/* gather of rows without elements: only checks the indices */
TP_KERNEL tp__gather_check_only(tp__indices s, tp__fault f)
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
        TP_RUN(k, tp__gather_check_only, s.n, s, tp__fault_of(k));
        return;
    }
    const int64_t unit =
        tp__unit_of((uint64_t)bytes | (uint64_t)(uintptr_t)p->data | (uint64_t)(uintptr_t)k->out[0].data);
    const tp__divisor width = tp__divide_by(bytes / unit, s.n * (bytes / unit));
    TP__UNITS(unit, TP_RUN(k, (tp__gather_units<T>), (s.n * width.d + 3) / 4, (T *)k->out[0].data, (const T *)p->data,
                           s, width, tp__fault_of(k)););
}

/* -- a stable sort of positions by 32-bit keys, eight bits at a time: count, sum, place. gather_grad and bilinear_sampler_grad
 *    use it to add in a fixed order, without atomics on floats. */
#define TP__SORT_TILE 2048 /* positions that a block of the radix sort processes: 8 per thread */
static int64_t tp__sort_tiles(int64_t n) { return (n + TP__SORT_TILE - 1) / TP__SORT_TILE; }

/* Radix sort: counts each digit in each tile. */
TP_KERNEL tp__sort_count(uint32_t *count, const uint32_t *key, int64_t n, int shift)
{
    TP_SHARED(uint32_t, mine, 256);
    mine[threadIdx.x] = 0;
    __syncthreads();
    for (int j = 0; j < TP__SORT_TILE / TP__THREADS; j++) {
        const int64_t i = (int64_t)blockIdx.x * TP__SORT_TILE + j * TP__THREADS + threadIdx.x;
        if (i < n) atomicAdd(&mine[key[i] >> shift & 255u], 1u); /* integer additions: their order does not matter */
    }
    __syncthreads();
    count[(int64_t)blockIdx.x * 256 + threadIdx.x] = mine[threadIdx.x];
}
/* Radix sort: replaces counts by start positions: after all smaller digits and after the same digit of earlier tiles.
 * One block. */
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
        uint32_t counts[8];
        for (int j = 0; j < 8; j++) counts[j] = t + j < tiles ? count[(t + j) * 256 + digit] : 0;
        for (int j = 0; j < 8; j++) {
            if (t + j < tiles) count[(t + j) * 256 + digit] = at;
            at += counts[j];
        }
    }
}
/* A warp processes 256 positions in their order; ballots over the bits of the digit find the lanes with the same digit. */
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
        const bool in_range = first + j * 32 < n;
        k[j] = in_range ? key[first + j * 32] : 0;
        const uint32_t digit = k[j] >> shift & 255u;
        uint32_t same_digit = __ballot_sync(0xffffffffu, in_range);
        for (int b = 0; b < 8; b++) {
            const uint32_t set = __ballot_sync(0xffffffffu, (int)(digit >> b & 1u));
            same_digit &= digit >> b & 1u ? set : ~set;
        }
        const uint32_t before = (uint32_t)__popc(same_digit & ((1u << lane) - 1u));
        rank[j] = count[warp * 256 + digit] + before;
        __syncwarp();
        if (in_range && before == 0) count[warp * 256 + digit] += (uint32_t)__popc(same_digit);
        __syncwarp();
    }
    __syncthreads();
    uint32_t at = begin[(int64_t)blockIdx.x * 256 + threadIdx.x];
    for (int w = 0; w < 8; w++) { /* compute each warp's start position for this digit */
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
/* Sorts n keys, none above `max_key`, with their positions; both are in buffer 0 of two. count: 256 numbers per tile. Returns the
 * index of the buffers that hold the result. */
static int tp__sort(const tp_call *k, uint32_t *const key[2], uint32_t *const place[2], uint32_t *count, int64_t n,
                    int64_t max_key)
{
    const int64_t tiles = tp__sort_tiles(n);
    int now = 0;
    for (int shift = 0; n > 0 && shift < 32 && max_key >> shift; shift += 8, now ^= 1) {
        TP_RUN_BLOCKS(k, tp__sort_count, tiles, TP__THREADS, 0, count, key[now], n, shift);
        TP_RUN_BLOCKS(k, tp__sort_sum, 1, TP__THREADS, 0, count, tiles);
        TP_RUN_BLOCKS(k, tp__sort_place, tiles, TP__THREADS, 0, key[now ^ 1], place[now ^ 1], key[now], place[now],
                      count, n, shift);
    }
    return now;
}

/* -- gather_grad: indices are sorted by row, positions of one row in order; each row then adds its gradients in that order. If
 *    a row owns whole pieces of 128 sorted positions, the sums of these pieces are computed first; this order, too, depends
 *    only on the indices. */
#define TP__SUM_PIECE 128

TP_KERNEL tp__sort_begin(uint32_t *key, uint32_t *place, tp__indices s)
{
    TP_EACH(i, s.n)
    {
        const int64_t row = tp__row_of(s, i);
        /* an invalid index gets the largest key, so that it is sorted last */
        key[i] = (uint32_t)(row >= 0 && row < s.rows ? row : s.rows);
        place[i] = (uint32_t)i;
    }
}
/* Finds, for each row of the table, the range [begin, end) of the sorted positions that have its index; both are 0 if
 * no position has it. */
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
/* V adjacent columns of a row, loaded and stored in one access. */
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
        const uint32_t from = (uint32_t)piece * TP__SUM_PIECE, row = key[from];
        if (row >= rows || key[from + TP__SUM_PIECE - 1] != row) continue;
        tp__real<T> sum[V];
        for (int j = 0; j < V; j++) sum[j] = 0;
        tp__add_columns<T, V>(sum, dy, place, from, from + TP__SUM_PIECE, width, col);
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
        uint32_t from = begin[row], piece = (from + TP__SUM_PIECE - 1) / TP__SUM_PIECE;
        const uint32_t to = end[row];
        tp__real<T> sum[V];
        for (int j = 0; j < V; j++) sum[j] = 0;
        if ((piece + 1) * TP__SUM_PIECE <= to) {
            tp__add_columns<T, V>(sum, dy, place, from, piece * TP__SUM_PIECE, width, col);
            for (; (piece + 1) * TP__SUM_PIECE <= to; piece++)
                for (int j = 0; j < V; j++) sum[j] += sums[piece * width + col + j];
            from = piece * TP__SUM_PIECE;
        }
        tp__add_columns<T, V>(sum, dy, place, from, to, width, col);
        tp__columns<T, V> y;
        for (int j = 0; j < V; j++) tp__put(y.v, j, sum[j]);
        *(tp__columns<T, V> *)(dp + row * width + col) = y;
    }
}
/* Layout of the scratch memory of a sort: keys and positions twice, counts, bounds, sums of pieces. */
typedef struct tp__sort_scratch {
    int64_t n, rows, width;
    size_t keys, counts, bounds, sums; /* byte sizes of the four arrays */
} tp__sort_scratch;
static tp__sort_scratch tp__sort_scratch_of(const tp_call *k)
{
    tp__sort_scratch r;
    r.n = tp__size(&k->in[1]);
    r.rows = k->out[0].shape.dim[0];
    r.width = tp__product_of(&k->out[0].shape, 1, k->out[0].shape.ndim);
    r.keys = ((size_t)r.n * 4 + 63) & ~(size_t)63;
    r.counts = (size_t)tp__sort_tiles(r.n) * 256 * 4;
    r.bounds = ((size_t)r.rows * 4 + 63) & ~(size_t)63;
    r.sums = (size_t)(r.n / TP__SUM_PIECE * r.width) * (k->out[0].dtype == TP_F64 ? 8 : 4);
    return r;
}
static size_t tp__gather_grad_scratch(const tp_call *k)
{
    const tp__sort_scratch r = tp__sort_scratch_of(k);
    return 4 * r.keys + r.counts + 2 * r.bounds + r.sums;
}
template <class T, int V>
static void tp__gather_grad_sum(const tp_call *k, const tp__sort_scratch *r, void *sums, const uint32_t *key,
                                const uint32_t *place, const uint32_t *begin, const uint32_t *end)
{
    const int64_t pieces = r->n / TP__SUM_PIECE, across = r->width / V, max_rows = r->rows > pieces ? r->rows : pieces;
    const tp__divisor d = tp__divide_by(across, max_rows * across);
    const T *dy = (const T *)k->in[0].data;
    TP_RUN(k, (tp__gather_grad_pieces<T, V>), pieces * across, (tp__real<T> *)sums, dy, key, place, pieces,
           (uint32_t)r->rows, d);
    TP_RUN(k, (tp__gather_grad_rows<T, V>), r->rows * across, (T *)k->out[0].data, dy, (const tp__real<T> *)sums, place,
           begin, end, r->rows, d);
}
static void tp__gather_grad_cuda(const tp_call *k)
{
    const tp__sort_scratch r = tp__sort_scratch_of(k);
    const tp__indices s = tp__indices_of(&k->in[1], r.rows);
    tp__cuda *c = tp__cuda_of(k);
    if (r.rows == 0 || r.width == 0) return;
    if (r.n > INT32_MAX || r.rows > INT32_MAX) {
        tp__store_error(c, k->op->name, "more than 2^31 rows or indices are not sorted on a GPU");
        return;
    }
    char *at = (char *)k->scratch;
    uint32_t *key[2], *place[2];
    for (int i = 0; i < 2; i++, at += 2 * r.keys) key[i] = (uint32_t *)at, place[i] = (uint32_t *)(at + r.keys);
    uint32_t *count = (uint32_t *)at, *begin = (uint32_t *)(at + r.counts),
             *end = (uint32_t *)((char *)begin + r.bounds);
    void *sums = (char *)end + r.bounds;
    const cudaError_t e = cudaMemsetAsync(begin, 0, 2 * r.bounds, c->stream);
    if (e != cudaSuccess) tp__store_error(c, k->op->name, cudaGetErrorString(e));
    TP_RUN(k, tp__sort_begin, r.n, key[0], place[0], s);
    /* invalid indices have the key `rows`, so that they are sorted last */
    const int now = tp__sort(k, key, place, count, r.n, r.rows);
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

/* -- print: computes sums in a fixed order and the first elements and copies them to pinned memory as one struct; the CPU's
 *    function of the op then writes the line, on a thread of the driver. The next print of this stream waits for it. */
#define TP__LOOK_BLOCKS 1024
/* the number of blocks, and so the order of the sums, depends only on the shape */
static int64_t tp__print_blocks(const tp_call *k)
{
    const int64_t needed = (tp__size(&k->in[0]) + 4095) / 4096;
    return needed < TP__LOOK_BLOCKS ? needed : TP__LOOK_BLOCKS;
}
__device__ __forceinline__ double tp__double_at(const void *x, int dtype, int64_t i)
{
    const tp__cell c = tp__cell_at(x, dtype, i);
    return tp__is_real_dtype(dtype) ? c.d : dtype == TP_BOOL ? (double)(c.l != 0) : (double)c.l;
}
TP_KERNEL tp__print_sums(double *sums, const void *x, int dtype, int64_t n)
{
    TP_SHARED(double, shared, 8);
    double sum = 0, squares = 0;
    TP_EACH(i, n)
    {
        const double v = tp__double_at(x, dtype, i);
        sum += v;
        squares += v * v;
    }
    sum = tp__block_sum(sum, shared);
    squares = tp__block_sum(squares, shared);
    if (threadIdx.x == 0) {
        sums[2 * blockIdx.x] = sum;
        sums[2 * blockIdx.x + 1] = squares;
    }
}
TP_KERNEL tp__print_sums_end(tp__print_numbers *g, const double *sums, int64_t blocks, const void *x, int dtype,
                             int64_t n)
{
    TP_SHARED(double, shared, 8);
    double sum = 0, squares = 0;
    for (int64_t b = threadIdx.x; b < blocks; b += TP__THREADS) {
        sum += sums[2 * b];
        squares += sums[2 * b + 1];
    }
    sum = tp__block_sum(sum, shared);
    squares = tp__block_sum(squares, shared);
    if (threadIdx.x == 0) g->sum = sum, g->squares = squares;
    if (threadIdx.x < TP__GLANCE) g->first[threadIdx.x] = threadIdx.x < n ? tp__double_at(x, dtype, threadIdx.x) : 0;
}
static void tp__print_line(void *call)
{
    const tp_call *k = (const tp_call *)call; /* `call` stays valid as long as its plan */
    tp_call line = *k;
    tp_operand x = k->in[0];
    x.data = NULL;
    line.in = &x;
    line.scratch = tp__cuda_of(k)->download_buffer + TP__STAGE_BYTES;
    k->op->naive_f32(&line);
}
static size_t tp__print_scratch(const tp_call *k)
{
    return sizeof(tp__print_numbers) + (size_t)tp__print_blocks(k) * 2 * sizeof(double);
}
static void tp__print_cuda(const tp_call *k)
{
    const tp_operand *x = &k->in[0];
    tp__cuda *c = tp__cuda_of(k);
    const int64_t n = tp__size(x), blocks = tp__print_blocks(k);
    tp__print_numbers *g = (tp__print_numbers *)k->scratch;
    double *sums = (double *)(void *)(g + 1);
    cudaError_t e = cudaSuccess;
    const tp__held held(c); /* no other print's numbers come between the copy to the host and its line */
    if (n > 0)
        e = cudaMemcpyAsync(k->out[0].data, x->data, (size_t)n * tp__dtype_size(x->dtype), cudaMemcpyDeviceToDevice,
                            c->stream);
    TP_RUN_BLOCKS(k, tp__print_sums, blocks, TP__THREADS, 0, sums, x->data, (int)x->dtype, n);
    TP_RUN_BLOCKS(k, tp__print_sums_end, 1, TP__THREADS, 0, g, sums, blocks, x->data, (int)x->dtype, n);
    if (e == cudaSuccess)
        e = cudaMemcpyAsync(c->download_buffer + TP__STAGE_BYTES, g, sizeof *g, cudaMemcpyDeviceToHost, c->stream);
    if (e == cudaSuccess) e = cudaLaunchHostFunc(c->stream, tp__print_line, (void *)(uintptr_t)k);
    if (e != cudaSuccess) tp__store_error(c, k->op->name, cudaGetErrorString(e));
}

/* -- check_numerics: y = x; finds the first NaN or infinity of each block, and then of all blocks */
template <class T> TP_KERNEL tp__check_copy(T *y, const T *x, int64_t n, double *first)
{
    TP_SHARED(double, shared, 8);
    /* minus the index of the first NaN or infinity, so that a maximum over all threads finds the first one; a double
     * holds an index exactly */
    double bad = -1e300;
    TP_EACH(f, (n + 3) / 4)
    {
        const int64_t i = 4 * f;
        const int m = n - i < 4 ? (int)(n - i) : 4;
        tp__real<T> v[4];
        tp__get_four(x, i, m, v);
        for (int j = 0; j < 4; j++) /* elements past the end were loaded as 0 */
            if (v[j] - v[j] != 0 && bad < -(double)(i + j)) bad = -(double)(i + j);
        tp__put_four(y, i, m, v);
    }
    bad = tp__block_max(bad, shared);
    if (threadIdx.x == 0) first[blockIdx.x] = bad;
}
TP_KERNEL tp__check_end(const double *first, int blocks, tp__fault f)
{
    TP_SHARED(double, shared, 8);
    double bad = -1e300;
    for (int b = (int)threadIdx.x; b < blocks; b += TP__THREADS) bad = bad > first[b] ? bad : first[b];
    bad = tp__block_max(bad, shared);
    if (threadIdx.x == 0 && bad > -1e299) tp__report(f, (int64_t)-bad);
}
static size_t tp__check_scratch(const tp_call *k) { return (size_t)tp__cuda_of(k)->n_processor * 16 * sizeof(double); }
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
                                                 {"tile_grad", tp__tile_grad_cuda, tp__tile_grad_scratch},
                                                 {"gather", tp__gather_cuda, NULL},
                                                 {"gather_grad", tp__gather_grad_cuda, tp__gather_grad_scratch},
                                                 {"one_hot", tp__one_hot_cuda, NULL},
                                                 {"print", tp__print_cuda, tp__print_scratch},
                                                 {"check_numerics", tp__check_numerics_cuda, tp__check_scratch},
                                                 {NULL, NULL, NULL}};

/* ==== >>random ======================================================================================== */
/* The same numbers as on the CPU, bit for bit: the same operations in the same order, each rounded. A thread computes four
 * adjacent numbers. */

/* a b + c with two roundings, like tp__mul_add */
__device__ __forceinline__ double tp__mul_then_add(double a, double b, double c)
{
    return __dadd_rn(__dmul_rn(a, b), c);
}

/* ln(u), u = k/2^53 in (0,1], like tp__log_unit */
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
/* cos and sin of 2 pi u, u in [0,1), like tp__cos_sin_of_turn */
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
/* Two normal numbers from a block of random words, like tp__normal_pair */
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
__device__ __forceinline__ float tp__of_double(double x, const tp__f16 *) { return tp__round_to_odd_float(x); }
__device__ __forceinline__ float tp__of_double(double x, const tp__bf16 *) { return tp__round_to_odd_float(x); }

/* -- random: uniform in [a,b), or normal with mean a and standard deviation b; truncated: numbers beyond two deviations are
 *    drawn again */
template <class T>
TP_KERNEL tp__random_four_each(T *y, int64_t n, int kind, double a, double b, uint64_t key, const uint64_t *step_word)
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
    TP_REALS(k->out[0].dtype, TP_RUN(k, (tp__random_four_each<T>), (n + 3) / 4, (T *)k->out[0].data, n, t->kind,
                                     (double)t->a, (double)t->b, k->key, k->step););
}

/* -- dropout */
template <class T>
TP_KERNEL tp__dropout_four_each(T *y, const T *x, int64_t n, float rate, uint64_t key, const uint64_t *step_word)
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
             TP_RUN(k, (tp__dropout_four_each<T>), (n + 3) / 4, (T *)k->out[0].data, (const T *)k->in[0].data, n,
                    ((const tp__dropout_attrs *)k->attrs)->rate, k->key, k->step););
}

static const tp__cuda_kernel tp__cuda_random[] = {
    {"random", tp__random_cuda, NULL}, {"dropout", tp__dropout_cuda, NULL}, {NULL, NULL, NULL}};

/* ==== >>variables ===================================================================================== */
/* Variables are updated in place. Kernels read predicates, rates and powers from memory, so that a recording stays valid when
 * these change. */

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
        if (e != cudaSuccess) tp__store_error(tp__cuda_of(k), k->op->name, cudaGetErrorString(e));
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
    case TP_BOOL: tp__store_error(tp__cuda_of(k), k->op->name, "bytes are not added to"); break;
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

/* -- apply_...: updates all variables of an optimizer in one launch, or in several if there are more than TP__APPLY_MAX. A
 *    block works on 4096 elements of one variable. */
#define TP__APPLY_MAX   64
#define TP__APPLY_CHUNK 4096
typedef struct tp__apply_list {
    int n;
    int dtype, rates_dtype; /* dtype of the variables; dtype of the scalars */
    const void *scalar[3];  /* the optimizer's scalars, such as its rate, indexed by enum tp__apply_scalars */
    const uint8_t *pred;
    void *w[TP__APPLY_MAX], *slot[3][TP__APPLY_MAX];
    const void *g[TP__APPLY_MAX];
    int64_t size[TP__APPLY_MAX];
    uint32_t first[TP__APPLY_MAX + 1]; /* index of the first block that updates each variable */
    float attrs[8];                    /* the op's attributes, for example a tp__adam_attrs */
} tp__apply_list;

/* Finds the variable that this block updates. */
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
template <class A> __device__ __forceinline__ const A *tp__attrs_of(const tp__apply_list &p)
{
    return (const A *)(const void *)p.attrs;
}
template <class R> __device__ __forceinline__ R tp__apply_scalar(const tp__apply_list &p, int scalar_index)
{
    return (R)tp__cell_at(p.scalar[scalar_index], p.rates_dtype, 0).d;
}

/* One struct for each optimizer. SLOTS: slots of a variable. The constructor computes what all elements share; the operator
 * updates one element: g gradient, w weight, s slots. The formulas are those of the loops in tp_graph.h. */
template <class R> struct tp__descent_one {
    enum { SLOTS = 0 };
    R lr;
    __device__ __forceinline__ explicit tp__descent_one(const tp__apply_list &p)
        : lr(tp__apply_scalar<R>(p, TP__LEARNING_RATE))
    {
    }
    __device__ __forceinline__ void operator()(R g, R &w, R *) const { w -= tp__rounded_product(lr, g); }
};
template <class R> struct tp__momentum_one {
    enum { SLOTS = 1 };
    R lr, mu;
    bool nesterov;
    __device__ __forceinline__ explicit tp__momentum_one(const tp__apply_list &p)
    {
        const tp__momentum_attrs *t = tp__attrs_of<tp__momentum_attrs>(p);
        lr = tp__apply_scalar<R>(p, TP__LEARNING_RATE), mu = (R)t->momentum, nesterov = t->nesterov;
    }
    __device__ __forceinline__ void operator()(R g, R &w, R *s) const
    {
        s[0] = mu * s[0] + g;
        w -= nesterov ? lr * (g + mu * s[0]) : lr * s[0];
    }
};
/* The common part of Adam and LAMB; correction1: 1 - beta1^t. */
template <class R> struct tp__moments {
    R lr, correction1, correction2, one_minus_beta1, one_minus_beta2, epsilon, decay;
    __device__ __forceinline__ explicit tp__moments(const tp__apply_list &p)
    {
        const tp__adam_attrs *t = tp__attrs_of<tp__adam_attrs>(p);
        lr = tp__apply_scalar<R>(p, TP__LEARNING_RATE);
        correction1 = 1 - tp__apply_scalar<R>(p, TP__BETA1_POWER),
        correction2 = 1 - tp__apply_scalar<R>(p, TP__BETA2_POWER);
        one_minus_beta1 = 1 - (R)t->beta1, one_minus_beta2 = 1 - (R)t->beta2;
        epsilon = (R)t->epsilon, decay = (R)t->decay;
    }
    __device__ __forceinline__ void average(R g, R &m, R &v) const
    {
        m += (g - m) * one_minus_beta1;
        v += (g * g - v) * one_minus_beta2;
    }
    __device__ __forceinline__ R lamb_r(R w, R m, R v) const
    {
        return m / correction1 / (sqrt(v / correction2) + epsilon) + decay * w;
    }
};
template <class R> struct tp__adam_one : tp__moments<R> {
    enum { SLOTS = 2 };
    R lr_t, keep; /* lr_t: the learning rate with Adam's bias correction */
    bool decays;
    __device__ __forceinline__ explicit tp__adam_one(const tp__apply_list &p) : tp__moments<R>(p)
    {
        lr_t = this->lr * sqrt(this->correction2) / this->correction1;
        keep = 1 - this->lr * this->decay;
        decays = this->decay != 0;
    }
    __device__ __forceinline__ void operator()(R g, R &w, R *s) const
    {
        if (decays) w *= keep;
        this->average(g, s[0], s[1]);
        w -= lr_t * s[0] / (sqrt(s[1]) + this->epsilon);
    }
};
template <class R, bool CENTERED> struct tp__rmsprop {
    enum { SLOTS = CENTERED ? 3 : 2 };
    R lr, one_minus_decay, mu, epsilon;
    __device__ __forceinline__ explicit tp__rmsprop(const tp__apply_list &p)
    {
        const tp__rmsprop_attrs *t = tp__attrs_of<tp__rmsprop_attrs>(p);
        lr = tp__apply_scalar<R>(p, TP__LEARNING_RATE);
        one_minus_decay = 1 - (R)t->decay, mu = (R)t->momentum, epsilon = (R)t->epsilon;
    }
    __device__ __forceinline__ void operator()(R g, R &w, R *s) const
    {
        R squared_mean = 0;
        s[0] += (g * g - s[0]) * one_minus_decay;
        if (CENTERED) {
            s[2] += (g - s[2]) * one_minus_decay;
            squared_mean = tp__rounded_product(s[2], s[2]);
        }
        s[1] = mu * s[1] + lr * g / sqrt(s[0] - squared_mean + epsilon);
        w -= s[1];
    }
};
template <class R> using tp__rmsprop_one = tp__rmsprop<R, false>;
template <class R> using tp__rmsprop_centered_one = tp__rmsprop<R, true>;
template <class R> struct tp__adagrad_one {
    enum { SLOTS = 1 };
    R lr;
    __device__ __forceinline__ explicit tp__adagrad_one(const tp__apply_list &p)
        : lr(tp__apply_scalar<R>(p, TP__LEARNING_RATE))
    {
    }
    __device__ __forceinline__ void operator()(R g, R &w, R *s) const
    {
        s[0] += g * g;
        w -= lr * g / sqrt(s[0]);
    }
};
template <class R> struct tp__adadelta_one {
    enum { SLOTS = 2 };
    R lr, one_minus_decay, epsilon;
    __device__ __forceinline__ explicit tp__adadelta_one(const tp__apply_list &p)
    {
        const tp__adadelta_attrs *t = tp__attrs_of<tp__adadelta_attrs>(p);
        lr = tp__apply_scalar<R>(p, TP__LEARNING_RATE), one_minus_decay = 1 - (R)t->rho, epsilon = (R)t->epsilon;
    }
    __device__ __forceinline__ void operator()(R g, R &w, R *s) const
    {
        s[0] += (g * g - s[0]) * one_minus_decay;
        const R d = g * sqrt(s[1] + epsilon) / sqrt(s[0] + epsilon);
        s[1] += (d * d - s[1]) * one_minus_decay;
        w -= lr * d;
    }
};
template <class R> struct tp__ftrl_one {
    enum { SLOTS = 2 };
    R lr, power, l1, l2, shrinkage;
    __device__ __forceinline__ explicit tp__ftrl_one(const tp__apply_list &p)
    {
        const tp__ftrl_attrs *t = tp__attrs_of<tp__ftrl_attrs>(p);
        lr = tp__apply_scalar<R>(p, TP__LEARNING_RATE), power = -(R)t->lr_power;
        l1 = (R)t->l1, l2 = (R)t->l2, shrinkage = (R)t->shrinkage;
    }
    __device__ __forceinline__ void operator()(R g, R &w, R *s) const
    {
        const R sum = s[0] + g * g, half = (R)0.5;
        const R before = power == half ? sqrt(s[0]) : power == 0 ? 1 : exp(power * log(s[0]));
        const R after = power == half ? sqrt(sum) : power == 0 ? 1 : exp(power * log(sum));
        s[1] += g + 2 * shrinkage * w - (after - before) / lr * w;
        s[0] = sum;
        w = fabs(s[1]) > l1 ? ((s[1] < 0 ? -l1 : l1) - s[1]) / (after / lr + 2 * l2) : 0;
    }
};
template <class R> struct tp__lion_one {
    enum { SLOTS = 1 };
    R lr, beta1, beta2, decay;
    __device__ __forceinline__ explicit tp__lion_one(const tp__apply_list &p)
    {
        const tp__lion_attrs *t = tp__attrs_of<tp__lion_attrs>(p);
        lr = tp__apply_scalar<R>(p, TP__LEARNING_RATE);
        beta1 = (R)t->beta1, beta2 = (R)t->beta2, decay = (R)t->decay;
    }
    __device__ __forceinline__ void operator()(R g, R &w, R *s) const
    {
        const R one = 1, c = beta1 * s[0] + (one - beta1) * g, sign = c > 0 ? one : c < 0 ? -one : c;
        w -= lr * (sign + decay * w);
        s[0] = beta2 * s[0] + (one - beta2) * g;
    }
};
template <template <class> class ONE, class T> TP_KERNEL tp__apply_step(const __grid_constant__ tp__apply_list p)
{
    typedef tp__real<T> R;
    enum { SLOTS = ONE<R>::SLOTS };
    if (p.pred && !*p.pred) return;
    const ONE<R> update(p);
    const int i = tp__apply_of(p);
    const int64_t from = (int64_t)(blockIdx.x - p.first[i]) * TP__APPLY_CHUNK, left = p.size[i] - from;
    const int n = left < TP__APPLY_CHUNK ? (int)left : TP__APPLY_CHUNK;
    const T *g_at = (const T *)p.g[i] + from;
    T *w_at = (T *)p.w[i] + from, *slot[3];
    for (int q = 0; q < SLOTS; q++) slot[q] = (T *)p.slot[q][i] + from;
    for (int e = 4 * (int)threadIdx.x; e < n; e += 4 * TP__THREADS) {
        const int m = n - e < 4 ? n - e : 4;
        R g[4], w[4], s[4][3], four[4];
        tp__get_four(g_at, e, m, g);
        tp__get_four(w_at, e, m, w);
        for (int q = 0; q < SLOTS; q++) {
            tp__get_four(slot[q], e, m, four);
            for (int j = 0; j < 4; j++) s[j][q] = four[j];
        }
        for (int j = 0; j < 4; j++) update(g[j], w[j], s[j]);
        tp__put_four(w_at, e, m, w);
        for (int q = 0; q < SLOTS; q++) {
            for (int j = 0; j < 4; j++) four[j] = s[j][q];
            tp__put_four(slot[q], e, m, four);
        }
    }
}

/* LAMB has three kernels: averages and both squared norms of each block; the ratio of each variable's norms; the step. The
 * first and the third kernel each compute r, the update before its scaling. */
template <class T> TP_KERNEL tp__lamb_averages(const __grid_constant__ tp__apply_list p, double *squares)
{
    TP_SHARED(double, shared, 8);
    typedef tp__real<T> R;
    if (p.pred && !*p.pred) return;
    const tp__moments<R> r(p);
    const int i = tp__apply_of(p);
    const int64_t from = (int64_t)(blockIdx.x - p.first[i]) * TP__APPLY_CHUNK, left = p.size[i] - from;
    const int n = left < TP__APPLY_CHUNK ? (int)left : TP__APPLY_CHUNK;
    const T *g_at = (const T *)p.g[i] + from, *w_at = (const T *)p.w[i] + from;
    T *m_at = (T *)p.slot[0][i] + from, *v_at = (T *)p.slot[1][i] + from;
    double ww = 0, rr = 0;
    for (int e = 4 * (int)threadIdx.x; e < n; e += 4 * TP__THREADS) {
        const int n_here = n - e < 4 ? n - e : 4;
        R g[4], w[4], m[4], v[4];
        tp__get_four(g_at, e, n_here, g);
        tp__get_four(w_at, e, n_here, w);
        tp__get_four(m_at, e, n_here, m);
        tp__get_four(v_at, e, n_here, v);
        for (int j = 0; j < n_here; j++) {
            r.average(g[j], m[j], v[j]);
            const double x = (double)r.lamb_r(w[j], m[j], v[j]);
            ww += (double)w[j] * (double)w[j];
            rr += x * x;
        }
        tp__put_four(m_at, e, n_here, m);
        tp__put_four(v_at, e, n_here, v);
    }
    ww = tp__block_sum(ww, shared);
    rr = tp__block_sum(rr, shared);
    if (threadIdx.x == 0) {
        squares[2 * (int64_t)blockIdx.x] = ww;
        squares[2 * (int64_t)blockIdx.x + 1] = rr;
    }
}
TP_KERNEL tp__lamb_norms(double *ratio, const double *squares, const __grid_constant__ tp__apply_list p)
{
    TP_SHARED(double, shared, 8);
    double ww = 0, rr = 0;
    if (p.pred && !*p.pred) return;
    for (int64_t b = (int64_t)p.first[blockIdx.x] + threadIdx.x; b < p.first[blockIdx.x + 1]; b += TP__THREADS) {
        ww += squares[2 * b];
        rr += squares[2 * b + 1];
    }
    ww = tp__block_sum(ww, shared);
    rr = tp__block_sum(rr, shared);
    if (threadIdx.x == 0) ratio[blockIdx.x] = ww > 0 && rr > 0 ? sqrt(ww / rr) : 1.0;
}
template <class T> TP_KERNEL tp__lamb_step(const double *ratio, const __grid_constant__ tp__apply_list p)
{
    typedef tp__real<T> R;
    if (p.pred && !*p.pred) return;
    const tp__moments<R> r(p);
    const int i = tp__apply_of(p);
    const R step = r.lr * (R)ratio[i];
    const int64_t from = (int64_t)(blockIdx.x - p.first[i]) * TP__APPLY_CHUNK, left = p.size[i] - from;
    const int n = left < TP__APPLY_CHUNK ? (int)left : TP__APPLY_CHUNK;
    const T *m_at = (const T *)p.slot[0][i] + from, *v_at = (const T *)p.slot[1][i] + from;
    T *w_at = (T *)p.w[i] + from;
    for (int e = 4 * (int)threadIdx.x; e < n; e += 4 * TP__THREADS) {
        const int n_here = n - e < 4 ? n - e : 4;
        R w[4], m[4], v[4];
        tp__get_four(w_at, e, n_here, w);
        tp__get_four(m_at, e, n_here, m);
        tp__get_four(v_at, e, n_here, v);
        for (int j = 0; j < 4; j++) w[j] -= step * r.lamb_r(w[j], m[j], v[j]);
        tp__put_four(w_at, e, n_here, w);
    }
}

static int64_t tp__apply_blocks_of(const tp_operand *v)
{
    return (tp__size(v) + TP__APPLY_CHUNK - 1) / TP__APPLY_CHUNK;
}
/* bytes of scratch for LAMB: a ratio for each variable, then two sums per block */
static size_t tp__lamb_scratch(const tp_call *k)
{
    size_t blocks = 0;
    for (int i = 0; i < ((const tp__apply_attrs *)k->attrs)->n; i++) blocks += (size_t)tp__apply_blocks_of(&k->var[i]);
    return (TP__APPLY_MAX + 2 * blocks) * sizeof(double);
}
typedef void (*tp__apply_launch_fn)(const tp_call *k, const tp__apply_list *p);
template <template <class> class ONE> static void tp__apply_launch(const tp_call *k, const tp__apply_list *p)
{
    const int64_t blocks = p->first[p->n];
    TP_REALS(p->dtype, TP_RUN_BLOCKS(k, (tp__apply_step<ONE, T>), blocks, TP__THREADS, 0, *p););
}
static void tp__lamb_launch(const tp_call *k, const tp__apply_list *p)
{
    const int64_t blocks = p->first[p->n];
    double *ratio = (double *)k->scratch, *squares = ratio + TP__APPLY_MAX;
    TP_REALS(p->dtype, TP_RUN_BLOCKS(k, (tp__lamb_averages<T>), blocks, TP__THREADS, 0, *p, squares););
    TP_RUN_BLOCKS(k, tp__lamb_norms, p->n, TP__THREADS, 0, ratio, (const double *)squares, *p);
    TP_REALS(p->dtype, TP_RUN_BLOCKS(k, (tp__lamb_step<T>), blocks, TP__THREADS, 0, (const double *)ratio, *p););
}
/* Cuts the variables into lists and launches each. */
static void tp__apply_lists(const tp_call *k, tp__apply_launch_fn launch)
{
    const int n = ((const tp__apply_attrs *)k->attrs)->n, slots = k->n_var / n - 1, scalars = k->op->update->scalars;
    tp__apply_list p;
    memset(&p, 0, sizeof p);
    if (k->op->attr_size > sizeof p.attrs) {
        tp__store_error(tp__cuda_of(k), k->op->name, "its attributes are larger than tp__apply_list.attrs");
        return;
    }
    memcpy(p.attrs, k->attrs, k->op->attr_size);
    p.rates_dtype = (int)k->in[n].dtype;
    for (int i = 0; i < scalars; i++) p.scalar[i] = k->in[n + i].data;
    p.pred = tp__pred_of(k, n + scalars);
    for (int i = 0; i < n; i++) {
        const tp_operand *v = &k->var[i];
        const int64_t blocks = tp__apply_blocks_of(v);
        bool full = p.n == TP__APPLY_MAX || (int)v->dtype != p.dtype || (int64_t)p.first[p.n] + blocks > INT32_MAX;
        /* a variable that is listed twice is updated by two launches */
        for (int j = 0; j < p.n; j++) full = full || p.w[j] == v->data;
        if (blocks == 0) continue;
        if (full && p.n > 0) {
            launch(k, &p);
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
    if (p.n > 0) launch(k, &p);
}
template <template <class> class ONE> static void tp__apply_cuda(const tp_call *k)
{
    tp__apply_lists(k, tp__apply_launch<ONE>);
}
static void tp__rmsprop_cuda(const tp_call *k)
{
    const int slots = k->n_var / ((const tp__apply_attrs *)k->attrs)->n - 1;
    tp__apply_lists(k, slots == 3 ? tp__apply_launch<tp__rmsprop_centered_one> : tp__apply_launch<tp__rmsprop_one>);
}
static void tp__lamb_cuda(const tp_call *k) { tp__apply_lists(k, tp__lamb_launch); }

static const tp__cuda_kernel tp__cuda_variables[] = {{"assign", tp__assign_cuda, NULL},
                                                     {"assign_add", tp__assign_add_cuda, NULL},
                                                     {"assign_sub", tp__assign_sub_cuda, NULL},
                                                     {"assign_moving_average", tp__assign_average_cuda, NULL},
                                                     {"ema_debias", tp__ema_debias_cuda, NULL},
                                                     {"apply_gradient_descent", tp__apply_cuda<tp__descent_one>, NULL},
                                                     {"apply_momentum", tp__apply_cuda<tp__momentum_one>, NULL},
                                                     {"apply_adam", tp__apply_cuda<tp__adam_one>, NULL},
                                                     {"apply_rmsprop", tp__rmsprop_cuda, NULL},
                                                     {"apply_adagrad", tp__apply_cuda<tp__adagrad_one>, NULL},
                                                     {"apply_adadelta", tp__apply_cuda<tp__adadelta_one>, NULL},
                                                     {"apply_ftrl", tp__apply_cuda<tp__ftrl_one>, NULL},
                                                     {"apply_lamb", tp__lamb_cuda, tp__lamb_scratch},
                                                     {"apply_lion", tp__apply_cuda<tp__lion_one>, NULL},
                                                     {NULL, NULL, NULL}};

/* ==== >>convolution =================================================================================== */
/* A convolution runs in one of five ways: a 1 x 1 convolution in NHWC is a matrix product; a depthwise one (groups = C) has its
 * own kernels, as memory limits its speed; one of few channels has kernels for tensor cores; cuDNN runs the others; if cuDNN
 * refuses, one thread sums each result. All sums have a fixed order: only those algorithms of cuDNN are used that it calls
 * deterministic. TP_CUDA_DIRECT_CONV: neither cuDNN nor the kernels for few channels are used. */

/* -- four adjacent elements at a time: kernels are templates over V, 4 or 1; of half precision, V may be 8, so that 16 bytes are loaded */

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
__device__ __forceinline__ void tp__load(const float *p, float (&x)[8])
{
    const float4 v = *(const float4 *)p, u = *(const float4 *)(p + 4);
    x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w, x[4] = u.x, x[5] = u.y, x[6] = u.z, x[7] = u.w;
}
__device__ __forceinline__ void tp__load(const tp__bf16 *p, float (&x)[8])
{
    tp__packed<tp__bf16, 8> v;
    tp__load_packed(p, v);
    tp__unpack(v, x);
}
__device__ __forceinline__ void tp__load(const tp__f16 *p, float (&x)[8])
{
    tp__packed<tp__f16, 8> v;
    tp__load_packed(p, v);
    tp__unpack(v, x);
}
template <class T, class R, int V> __device__ __forceinline__ void tp__store(T *p, const R (&x)[V])
{
    for (int e = 0; e < V; e++) tp__put(p, e, x[e]);
}
/* Two numbers in half precision, as the words of a vector hold them. */
template <class T> __device__ __forceinline__ unsigned tp__two_halves(float low, float high)
{
    T h[2];
    tp__put(h, 0, low);
    tp__put(h, 1, high);
    return (unsigned)h[0].bits | (unsigned)h[1].bits << 16;
}
__device__ __forceinline__ void tp__store(float *p, const float (&x)[4])
{
    tp__store_vector(p, make_float4(x[0], x[1], x[2], x[3]));
}
__device__ __forceinline__ void tp__store(tp__bf16 *p, const float (&x)[4])
{
    tp__store_vector(p, make_uint2(tp__two_halves<tp__bf16>(x[0], x[1]), tp__two_halves<tp__bf16>(x[2], x[3])));
}
__device__ __forceinline__ void tp__store(tp__f16 *p, const float (&x)[4])
{
    tp__store_vector(p, make_uint2(tp__two_halves<tp__f16>(x[0], x[1]), tp__two_halves<tp__f16>(x[2], x[3])));
}

__device__ __forceinline__ void tp__store(float *p, const float (&x)[2])
{
    tp__store_vector(p, make_float2(x[0], x[1]));
}
__device__ __forceinline__ void tp__store(tp__bf16 *p, const float (&x)[2])
{
    *(unsigned *)(void *)p = tp__two_halves<tp__bf16>(x[0], x[1]);
}
__device__ __forceinline__ void tp__store(tp__f16 *p, const float (&x)[2])
{
    *(unsigned *)(void *)p = tp__two_halves<tp__f16>(x[0], x[1]);
}
__device__ __forceinline__ void tp__store(tp__bf16 *p, const float (&x)[8])
{
    unsigned w[4];
#pragma unroll
    for (int e = 0; e < 4; e++) w[e] = tp__two_halves<tp__bf16>(x[2 * e], x[2 * e + 1]);
    tp__store_vector(p, make_uint4(w[0], w[1], w[2], w[3]));
}
__device__ __forceinline__ void tp__store(tp__f16 *p, const float (&x)[8])
{
    unsigned w[4];
#pragma unroll
    for (int e = 0; e < 4; e++) w[e] = tp__two_halves<tp__f16>(x[2 * e], x[2 * e + 1]);
    tp__store_vector(p, make_uint4(w[0], w[1], w[2], w[3]));
}

#ifndef TP__INT_ELEMENTS                      /* tests define lower values for these two limits */
#define TP__INT_ELEMENTS  ((int64_t)1 << 30)  /* operands with more elements need 64-bit indices */
#define TP__CONV_ELEMENTS (int64_t) INT32_MAX /* the most elements of an operand in one call of cuDNN */
#endif

/* Runs a kernel<T, V, I> over n_ elements (n_most_ in its largest operand): four per thread if possible, with 32-bit indices,
 * which divide several times faster, if these suffice. Float64, which is for checks, has only the plain kernel. */
template <class T> struct tp__fours {
    enum { V = 4 };
    typedef int I;
};
template <> struct tp__fours<double> {
    enum { V = 1 };
    typedef int64_t I;
};
template <class T> using tp__fours_index = typename tp__fours<T>::I;
#define TP__RUN_FOURS(k_, kernel_, T_, four_, n_, n_most_, ...)                                                     \
    do {                                                                                                            \
        if ((n_most_) >= TP__INT_ELEMENTS) TP_RUN(k_, (kernel_<T_, 1, int64_t>), (n_), __VA_ARGS__);                \
        else if (four_)                                                                                             \
            TP_RUN(k_, (kernel_<T_, tp__fours<T_>::V, tp__fours_index<T_>>), (n_) / tp__fours<T_>::V, __VA_ARGS__); \
        else TP_RUN(k_, (kernel_<T_, 1, tp__fours_index<T_>>), (n_), __VA_ARGS__);                                  \
    } while (0)
/* The loop of a kernel that processes V elements at a time: `at_` is the first of them. */
#define TP__EACH_FOUR(I_, V_, at_, n_)                                                            \
    for (I_ at_ = ((I_)blockIdx.x * (I_)blockDim.x + (I_)threadIdx.x) * V_, at_##_end = (I_)(n_), \
            at_##_step = (I_)gridDim.x * (I_)blockDim.x * V_;                                     \
         at_ < at_##_end; at_ += at_##_step)

/* The coordinates of element `at` of an image in NHWC or NCHW. */
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

/* Returns 1 if the padding SAME adds one row (or column) more after the image than before it, else 0. */
static int64_t tp__extra_pad_row(const tp__conv *g)
{
    return (g->OH - 1) * g->stride_h + (g->KH - 1) * g->dilation_h + 1 - g->H > 2 * g->top;
}
static int64_t tp__extra_pad_column(const tp__conv *g)
{
    return (g->OW - 1) * g->stride_w + (g->KW - 1) * g->dilation_w + 1 - g->W > 2 * g->left;
}

/* -- conv2d: bias and ReLU after it, and bias_add */

/* single: the bias b is float32, whatever the type of x */
template <class T, int V, class I>
TP_KERNEL tp__bias_kernel(const T *x, const void *b, bool single, T *y, int64_t n, int64_t C, int64_t inner, bool relu)
{
    TP__EACH_FOUR(I, V, at, n)
    {
        tp__real<T> v[V];
        const I c = (inner == 1 ? at : at / (I)inner) % (I)C;
        tp__load(x + at, v);
        for (int e = 0; e < V; e++) {
            const int64_t at_b = c + (inner == 1 ? e : 0);
            v[e] += single ? (tp__real<T>)((const float *)b)[at_b] : tp__get((const T *)b, at_b);
            if (relu && 0 > v[e]) v[e] = 0; /* NaN stays NaN */
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
                                     (const T *)x, b->data, b->dtype == TP_F32, (T *)y->data, n, C, inner, relu););
}

/* -- conv2d: one thread per result */

template <class T> TP_KERNEL tp__conv_forward(const tp__conv g, const T *x, const T *w, T *y, int64_t n)
{
    const int64_t cg = g.C / g.groups, og = g.O / g.groups;
    TP_EACH(at, n)
    {
        const tp__pixel<int64_t> o = tp__pixel_of<int64_t>(at, g.OH, g.OW, g.O, g.nchw);
        const int64_t c0 = o.c / og * cg;
        tp__real<T> sum = 0;
        for (int64_t p = 0; p < g.KH; p++) {
            const int64_t h = o.h * g.stride_h + p * g.dilation_h - g.top;
            if (h < 0 || h >= g.H) continue;
            for (int64_t q = 0; q < g.KW; q++) {
                const int64_t v = o.w * g.stride_w + q * g.dilation_w - g.left;
                if (v < 0 || v >= g.W) continue;
                const int64_t X = o.b * g.x_stride_b + h * g.x_stride_h + v * g.x_stride_w + c0 * g.x_stride_c,
                              F = (p * g.KW + q) * cg * g.O + o.c;
                for (int64_t c = 0; c < cg; c++) sum += tp__get(x, X + c * g.x_stride_c) * tp__get(w, F + c * g.O);
            }
        }
        tp__put(y, at, sum);
    }
}
template <class T> TP_KERNEL tp__conv_input(const tp__conv g, const T *dy, const T *w, T *dx, int64_t n)
{
    const int64_t cg = g.C / g.groups, og = g.O / g.groups;
    TP_EACH(at, n)
    {
        const tp__pixel<int64_t> x = tp__pixel_of<int64_t>(at, g.H, g.W, g.C, g.nchw);
        const int64_t group = x.c / cg, c = x.c - group * cg;
        tp__real<T> sum = 0;
        for (int64_t p = 0; p < g.KH; p++) { /* find the outputs that read this x with kernel element (p,q) */
            const int64_t h = x.h + g.top - p * g.dilation_h, i = h / g.stride_h;
            if (h < 0 || i * g.stride_h != h || i >= g.OH) continue;
            for (int64_t q = 0; q < g.KW; q++) {
                const int64_t v = x.w + g.left - q * g.dilation_w, j = v / g.stride_w;
                if (v < 0 || j * g.stride_w != v || j >= g.OW) continue;
                const int64_t Y = x.b * g.y_stride_b + i * g.y_stride_h + j * g.y_stride_w,
                              F = ((p * g.KW + q) * cg + c) * g.O;
                for (int64_t o = group * og; o < (group + 1) * og; o++)
                    sum += tp__get(dy, Y + o * g.y_stride_c) * tp__get(w, F + o);
            }
        }
        tp__put(dx, at, sum);
    }
}
template <class T> TP_KERNEL tp__conv_filter(const tp__conv g, const T *x, const T *dy, T *dw, int64_t n)
{
    const int64_t cg = g.C / g.groups, og = g.O / g.groups;
    TP_EACH(at, n)
    {
        const int64_t o = at % g.O, c = at / g.O % cg, q = at / g.O / cg % g.KW, p = at / g.O / cg / g.KW;
        const int64_t X = (o / og * cg + c) * g.x_stride_c, Y = o * g.y_stride_c;
        tp__real<T> sum = 0;
        for (int64_t b = 0; b < g.B; b++)
            for (int64_t i = 0; i < g.OH; i++) {
                const int64_t h = i * g.stride_h + p * g.dilation_h - g.top;
                if (h < 0 || h >= g.H) continue;
                for (int64_t j = 0; j < g.OW; j++) {
                    const int64_t v = j * g.stride_w + q * g.dilation_w - g.left;
                    if (v < 0 || v >= g.W) continue;
                    sum += tp__get(x, X + b * g.x_stride_b + h * g.x_stride_h + v * g.x_stride_w) *
                           tp__get(dy, Y + b * g.y_stride_b + i * g.y_stride_h + j * g.y_stride_w);
                }
            }
        tp__put(dw, at, sum);
    }
}

/* -- conv2d, depthwise in NHWC with one filter per channel, C divisible by 4: each thread computes four channels of four
 *    adjacent pixels in a row and reads each weight once for the four pixels. */

#define TP__DEPTH_ROW 4

template <class T> TP_KERNEL tp__depthwise_forward(const tp__conv g, const T *x, const T *w, T *y, int n)
{
    typedef tp__real<T> R;
    const int C = (int)g.C, C4 = C / 4, H = (int)g.H, W = (int)g.W, OH = (int)g.OH, OW = (int)g.OW,
              runs = (OW + TP__DEPTH_ROW - 1) / TP__DEPTH_ROW, sw = (int)g.stride_w, dw = (int)g.dilation_w;
    TP__EACH_FOUR(int, 1, at, n)
    {
        const tp__pixel<int> o = tp__pixel_of<int>(at, OH, runs, C4, false);
        const int c = o.c * 4, j0 = o.w * TP__DEPTH_ROW;
        R sum[TP__DEPTH_ROW][4] = {};
        for (int p = 0; p < (int)g.KH; p++) {
            const int h = o.h * (int)g.stride_h + p * (int)g.dilation_h - (int)g.top;
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
template <class T> TP_KERNEL tp__depthwise_input(const tp__conv g, const T *dy, const T *w, T *dx, int n)
{
    typedef tp__real<T> R;
    const int C = (int)g.C, C4 = C / 4, H = (int)g.H, W = (int)g.W, OH = (int)g.OH, OW = (int)g.OW,
              runs = (W + TP__DEPTH_ROW - 1) / TP__DEPTH_ROW, sh = (int)g.stride_h, sw = (int)g.stride_w,
              dw = (int)g.dilation_w;
    TP__EACH_FOUR(int, 1, at, n)
    {
        const tp__pixel<int> x = tp__pixel_of<int>(at, H, runs, C4, false);
        const int c = x.c * 4, v0 = x.w * TP__DEPTH_ROW;
        R sum[TP__DEPTH_ROW][4] = {};
        for (int p = 0; p < (int)g.KH; p++) {
            const int h = x.h + (int)g.top - p * (int)g.dilation_h, i = sh == 1 ? h : h / sh;
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

/* The filter gradient of a depthwise convolution, with any number of filters per channel: sums over pieces of the B OH OW
 * positions, for nine kernel elements at a time, so that dy is read once for a 3 x 3 kernel; then the pieces are added. */

#define TP__DEPTH_TAPS 9

typedef struct tp__depth_cut {
    int64_t places, per_piece, pieces, tiles, passes, taps; /* a tile is 32 filters (NHWC) or one filter (NCHW) */
} tp__depth_cut;
static tp__depth_cut tp__depth_cut_of(const tp__conv *g) /* how many pieces there are depends only on the shape */
{
    tp__depth_cut s;
    s.places = g->B * g->OH * g->OW;
    s.taps = g->KH * g->KW;
    s.passes = (s.taps + TP__DEPTH_TAPS - 1) / TP__DEPTH_TAPS;
    s.tiles = g->nchw ? g->O : (g->O + 31) / 32;
    int64_t wanted_pieces = 2048 / (s.tiles * s.passes);
    if (wanted_pieces < 1) wanted_pieces = 1;
    s.per_piece = (s.places + wanted_pieces - 1) / wanted_pieces;
    const int64_t min_per_piece = g->nchw ? 1024 : 128;
    if (s.per_piece < min_per_piece) s.per_piece = min_per_piece;
    s.pieces = (s.places + s.per_piece - 1) / s.per_piece;
    return s;
}
/* The offset in x, without the channel, of kernel element t at position (b, i, j); negative if it is outside. */
__device__ __forceinline__ int64_t tp__depth_tap(const tp__conv &g, int b, int i, int j, int t)
{
    const int p = t / (int)g.KW, q = t - p * (int)g.KW;
    const int h = i * (int)g.stride_h + p * (int)g.dilation_h - (int)g.top,
              v = j * (int)g.stride_w + q * (int)g.dilation_w - (int)g.left;
    if (h < 0 || h >= (int)g.H || v < 0 || v >= (int)g.W) return -1;
    return b * g.x_stride_b + h * g.x_stride_h + v * g.x_stride_w;
}
template <class T>
TP_KERNEL tp__depthwise_part_nhwc(const tp__conv g, const tp__depth_cut s, const T *x, const T *dy, tp__real<T> *part)
{
    typedef tp__real<T> R;
    TP_SHARED(R, shared, 8 * TP__DEPTH_TAPS * 32);
    const int lane = (int)(threadIdx.x & 31), slot = (int)(threadIdx.x >> 5), tile = (int)(blockIdx.x % s.tiles);
    const int pass = (int)(blockIdx.x / s.tiles % s.passes), piece = (int)(blockIdx.x / s.tiles / s.passes);
    const int o = tile * 32 + lane, t0 = pass * TP__DEPTH_TAPS, taps = (int)s.taps, OH = (int)g.OH, OW = (int)g.OW;
    const int end = (int)(s.places - piece * s.per_piece < s.per_piece ? s.places : (piece + 1) * s.per_piece);
    R sum[TP__DEPTH_TAPS] = {};
    if (o < (int)g.O) {
        const int c = o / (int)(g.O / g.C);
        for (int r = (int)(piece * s.per_piece) + slot; r < end; r += 8) {
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
    for (int t = 0; t < TP__DEPTH_TAPS; t++) shared[(slot * TP__DEPTH_TAPS + t) * 32 + lane] = sum[t];
    __syncthreads();
    for (int e = (int)threadIdx.x; e < TP__DEPTH_TAPS * 32; e += (int)blockDim.x) {
        const int t = t0 + e / 32, to = tile * 32 + e % 32;
        if (t >= taps || to >= (int)g.O) continue;
        R all = 0;
        for (int w = 0; w < 8; w++) all += shared[w * TP__DEPTH_TAPS * 32 + e];
        part[((int64_t)piece * taps + t) * g.O + to] = all;
    }
}
template <class T>
TP_KERNEL tp__depthwise_part_nchw(const tp__conv g, const tp__depth_cut s, const T *x, const T *dy, tp__real<T> *part)
{
    typedef tp__real<T> R;
    TP_SHARED(R, shared, 8);
    const int o = (int)(blockIdx.x % s.tiles), pass = (int)(blockIdx.x / s.tiles % s.passes),
              piece = (int)(blockIdx.x / s.tiles / s.passes);
    const int t0 = pass * TP__DEPTH_TAPS, taps = (int)s.taps, OH = (int)g.OH, OW = (int)g.OW;
    const int end = (int)(s.places - piece * s.per_piece < s.per_piece ? s.places : (piece + 1) * s.per_piece);
    const int64_t C0 = o / (g.O / g.C) * g.x_stride_c;
    R sum[TP__DEPTH_TAPS] = {};
    for (int r = (int)(piece * s.per_piece) + (int)threadIdx.x; r < end; r += (int)blockDim.x) {
        const int row = r / OW, j = r - row * OW, b = row / OH, i = row - b * OH;
        const R d = tp__get(dy, b * g.y_stride_b + o * g.y_stride_c + i * OW + j);
#pragma unroll
        for (int t = 0; t < TP__DEPTH_TAPS; t++) {
            const int64_t at = t0 + t < taps ? tp__depth_tap(g, b, i, j, t0 + t) : -1;
            if (at >= 0) sum[t] += tp__get(x, at + C0) * d;
        }
    }
#pragma unroll
    for (int t = 0; t < TP__DEPTH_TAPS; t++) {
        const R all = tp__block_sum(sum[t], shared);
        if (threadIdx.x == 0 && t0 + t < taps) part[((int64_t)piece * taps + t0 + t) * g.O + o] = all;
    }
}
/* Adds partial sums, y[e] = sum of part[p][e]: a block adds 32 columns, 8 pieces at a time. */
template <class T> TP_KERNEL tp__add_parts(const tp__real<T> *part, T *y, int64_t n, int64_t pieces)
{
    typedef tp__real<T> R;
    TP_SHARED(R, shared, 256);
    const int64_t e = (int64_t)blockIdx.x * 32 + (threadIdx.x & 31);
    R sum = 0;
    if (e < n)
        for (int64_t p = threadIdx.x >> 5; p < pieces; p += 8) sum += part[p * n + e];
    shared[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x >= 32 || e >= n) return;
    for (int w = 1; w < 8; w++) sum += shared[w * 32 + threadIdx.x];
    tp__put(y, e, sum);
}

/* -- conv2d by tensor cores, for few channels: a product of matrices whose left operand is gathered from an image while it is
 *    computed. Filters stay as they are, (KH, KW, C, O), and images get no border: cuDNN needs copies of both, and its kernels are made
 *    for more channels. Each pass computes out (M, N) = a (M, K) b (K, N):
 *
 *        pass           M              N    K              a                           b
 *        forward        pixels of y    O    KH KW C        x, at a pixel and a tap     the filter
 *        input_grad     pixels of x    C    KH KW O        dy, at a pixel and a tap    the filter, each tap transposed
 *        filter_grad    KH KW C        O    pixels of y    x, at a pixel and a tap     dy
 *
 *    A block of four warps computes a tile of TP__TILE_ROWS by BN results, TP__TILE_DEEP of K at a time: it loads the next part of both
 *    operands into registers while it multiplies the last one, which lies in shared memory as TF32. A filter gradient is a sum over
 *    all pixels: each block sums a piece of them, and tp__add_parts adds the pieces. Half precision is exact as TF32. */
#define TP__TILE_ROWS    64
#define TP__TILE_DEEP    32
#define TP__TILE_THREADS 128

typedef struct tp__tiles {
    int M, N, K, per_piece, pieces, tiles_m, tiles_n; /* per_piece: how much of K a block sums */
    int rows, columns;                                /* the grid of pixels: of y, or for an input gradient of x */
    int H, W, C, image;                               /* the image that is gathered from, and its elements */
    int filter_C, filter_O, filter_KW, stride_h, stride_w, dilation_h, dilation_w, top, left;
    /* of an input gradient: the grid has every step_h-th row of dx from first_h on, and tap_h + i step_h is its tap i; columns likewise */
    int first_h, first_w, step_h, step_w, tap_h, tap_w, all_rows, all_columns;
    bool a_by_four, b_by_four, relu, pairs; /* pairs: two adjacent results are stored at once */
    tp__divisor by_columns, by_rows, by_C, by_KW, by_stride_h, by_stride_w;
} tp__tiles;
/* One product, or several in one launch. With stride 2 a pixel of dx is reached by every other tap: dx has four grids of pixels, each
 * with its own taps. Block first[i] is the first one of product i. */
template <int PASS> struct tp__tile_set {
    enum { N = PASS == TP__CONV_INPUT_GRAD ? 4 : 1 };
    tp__tiles of[N];
    int first[N + 1];
};
/* A pixel of the grid: where its image begins, -1 for a pixel past the last one, and where tap (0, 0) reads. */
typedef struct tp__tile_pixel {
    int image, h, w;
} tp__tile_pixel;
/* The taps and channels of four adjacent indices of K (of M for a filter gradient). With a_by_four they are adjacent channels of one
 * tap, and only the first entry is set. */
typedef struct tp__tile_taps {
    int kh[4], kw[4], c[4], n; /* n: how many of the four exist */
} tp__tile_taps;

template <int PASS> __device__ __forceinline__ tp__tile_pixel tp__tile_pixel_of(const tp__tiles &s, int pixel, int n)
{
    tp__tile_pixel p;
    const int row = tp__small_quotient(pixel, s.by_columns), b = tp__small_quotient(row, s.by_rows);
    const int h = row - b * s.rows, w = pixel - row * s.columns;
    p.image = pixel < n ? b * s.image : -1;
    p.h = PASS == TP__CONV_INPUT_GRAD ? s.first_h + h * s.step_h + s.top : h * s.stride_h - s.top;
    p.w = PASS == TP__CONV_INPUT_GRAD ? s.first_w + w * s.step_w + s.left : w * s.stride_w - s.left;
    return p;
}
/* The element that a pixel reads at a tap; -1: it lies in the padding, or between the strides of a gradient. */
template <int PASS>
__device__ __forceinline__ int tp__tile_element(const tp__tiles &s, const tp__tile_pixel &p, int kh, int kw)
{
    int h, w;
    if (PASS == TP__CONV_INPUT_GRAD) {
        const int up = p.h - kh * s.dilation_h, across = p.w - kw * s.dilation_w;
        if (up < 0 || across < 0) return -1;
        h = tp__small_quotient(up, s.by_stride_h), w = tp__small_quotient(across, s.by_stride_w);
        if (h * s.stride_h != up || w * s.stride_w != across) return -1;
    } else h = p.h + kh * s.dilation_h, w = p.w + kw * s.dilation_w;
    if (p.image < 0 || (unsigned)h >= (unsigned)s.H || (unsigned)w >= (unsigned)s.W) return -1;
    return p.image + (h * s.W + w) * s.C;
}
template <int PASS> __device__ __forceinline__ tp__tile_taps tp__tile_taps_of(const tp__tiles &s, int k, int n)
{
    tp__tile_taps t;
    t.n = n - k < 4 ? n - k : 4;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        if (e > 0 && s.a_by_four) break;
        const int tap = tp__small_quotient(k + e, s.by_C);
        t.c[e] = k + e - tap * s.C;
        t.kh[e] = tp__small_quotient(tap, s.by_KW);
        t.kw[e] = tap - t.kh[e] * (int)s.by_KW.d;
        if (PASS == TP__CONV_INPUT_GRAD) t.kh[e] = s.tap_h + t.kh[e] * s.step_h, t.kw[e] = s.tap_w + t.kw[e] * s.step_w;
    }
    return t;
}
/* The functions that load have no branches between the loads, so that all of a thread's loads run at once. Elements become words when
 * they are written to shared memory. */
template <class T> __device__ __forceinline__ tp__four<T> tp__tile_none()
{
    tp__four<T> v;
    memset(&v, 0, sizeof v);
    return v;
}
template <class T> __device__ __forceinline__ uint4 tp__tile_words(const tp__four<T> &v)
{
    unsigned w[4];
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const float x = tp__get(v.v, e);
        w[e] = tp__mma_word(&x);
    }
    return make_uint4(w[0], w[1], w[2], w[3]);
}
/* Loads four elements for each of N pixels. */
template <class T, int PASS, int N>
__device__ __forceinline__ void tp__tile_gather(const tp__tiles &s, const T *image, const tp__tile_pixel (&pixel)[N],
                                                const tp__tile_taps &t, tp__four<T> (&v)[N])
{
    if (s.a_by_four) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            const int at = tp__tile_element<PASS>(s, pixel[i], t.kh[0], t.kw[0]);
            v[i] = tp__tile_none<T>();
            if (t.n > 0 && at >= 0) v[i] = *(const tp__four<T> *)(image + at + t.c[0]);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        v[i] = tp__tile_none<T>();
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int at = tp__tile_element<PASS>(s, pixel[i], t.kh[e], t.kw[e]);
            if (e < t.n && at >= 0) v[i].v[e] = image[at + t.c[e]];
        }
    }
}
/* The filter's tap that is tap i of an input gradient's product. */
__device__ __forceinline__ int tp__tile_tap(const tp__tiles &s, int i)
{
    const int kh = tp__small_quotient(i, s.by_KW), kw = i - kh * (int)s.by_KW.d;
    return (s.tap_h + kh * s.step_h) * s.filter_KW + s.tap_w + kw * s.step_w;
}
/* The row of `out` that is row m of the product. */
template <int PASS> __device__ __forceinline__ int64_t tp__tile_row(const tp__tiles &s, int m)
{
    if (PASS != TP__CONV_INPUT_GRAD || s.step_h * s.step_w == 1) return m;
    const int row = tp__small_quotient(m, s.by_columns), b = tp__small_quotient(row, s.by_rows);
    const int h = s.first_h + (row - b * s.rows) * s.step_h, w = s.first_w + (m - row * s.columns) * s.step_w;
    return ((int64_t)b * s.all_rows + h) * s.all_columns + w;
}
/* Loads four adjacent elements of b: of row k of the filter or of dy, or, for an input gradient, of column n, from k on. */
template <class T, int PASS>
__device__ __forceinline__ tp__four<T> tp__tile_right(const tp__tiles &s, const T *b, int k, int k_end, int n)
{
    tp__four<T> v = tp__tile_none<T>();
    const bool inside = k < k_end && n < s.N;
    if (PASS == TP__CONV_INPUT_GRAD) {
        const int tap = tp__small_quotient(k, s.by_C), o = k - tap * s.C;
        if (s.a_by_four) {
            if (inside)
                v = *(const tp__four<T> *)(b + (int64_t)(tp__tile_tap(s, tap) * s.filter_C + n) * s.filter_O + o);
            return v;
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int at = tp__small_quotient(k + e, s.by_C);
            if (inside && k + e < k_end)
                v.v[e] = b[(int64_t)(tp__tile_tap(s, at) * s.filter_C + n) * s.filter_O + (k + e - at * s.C)];
        }
        return v;
    }
    const T *row = b + (int64_t)k * s.N + n;
    if (s.b_by_four) {
        if (inside) v = *(const tp__four<T> *)row;
        return v;
    }
#pragma unroll
    for (int e = 0; e < 4; e++)
        if (inside && n + e < s.N) v.v[e] = row[e];
    return v;
}

/* Operands lie in shared memory as they do in global memory: with K along the rows, or across them. The pitches keep the words of a
 * warp in different banks. */
template <int PASS, int BN> struct tp__tile_shape {
    enum {
        BM = TP__TILE_ROWS,
        DEEP = TP__TILE_DEEP,
        BY_PIXEL = PASS != TP__CONV_FILTER_GRAD, /* a row of a: one pixel */
        BY_COLUMN = PASS == TP__CONV_INPUT_GRAD, /* a row of b: one column */
        NA = BM * DEEP / 4 / TP__TILE_THREADS,   /* fours of a and of b that a thread loads */
        NB = BN * DEEP / 4 / TP__TILE_THREADS,
        A_PITCH = BY_PIXEL ? DEEP + 4 : BM + 8,
        B_PITCH = BY_COLUMN ? DEEP + 4 : BN + 8,
        A_ACROSS = BY_PIXEL ? DEEP / 4 : BM / 4, /* fours in a row */
        B_ACROSS = BY_COLUMN ? DEEP / 4 : BN / 4,
        A_STEP = TP__TILE_THREADS / A_ACROSS,
        B_STEP = TP__TILE_THREADS / B_ACROSS,
        WARPS = BN == 64 ? 2 : 1, /* warps side by side; WM by WN: a warp's results */
        WM = BM / (4 / WARPS),
        WN = BN / WARPS
    };
};
/* Adds the products of the parts of a and b in shared memory to a warp's results, which begin at (row0, column0) of the tile. */
template <int PASS, int BN>
__device__ __forceinline__ void tp__tile_multiply(
    const unsigned *as, const unsigned *bs, int row0, int column0,
    float (&sum)[tp__tile_shape<PASS, BN>::WM / 16][tp__tile_shape<PASS, BN>::WN / 8][4])
{
    typedef tp__tile_shape<PASS, BN> P;
    const int g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3;
#pragma unroll
    for (int k = 0; k < P::DEEP; k += 8) {
        unsigned left[P::WM / 16][4], right[P::WN / 8][2];
#pragma unroll
        for (int i = 0; i < P::WM / 16; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int row = row0 + i * 16 + g + (e & 1) * 8, column = k + t + (e >> 1) * 4;
                left[i][e] = as[P::BY_PIXEL ? row * P::A_PITCH + column : column * P::A_PITCH + row];
            }
#pragma unroll
        for (int j = 0; j < P::WN / 8; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int row = k + t + e * 4, column = column0 + j * 8 + g;
                right[j][e] = bs[P::BY_COLUMN ? column * P::B_PITCH + row : row * P::B_PITCH + column];
            }
#pragma unroll
        for (int i = 0; i < P::WM / 16; i++)
#pragma unroll
            for (int j = 0; j < P::WN / 8; j++) tp__mma_add<float>(sum[i][j], left[i], right[j]);
    }
}
/* Writes a warp's results, which begin at (m0, n0) of out: with bias, ReLU and addend, or as a piece of a filter gradient. */
template <class T, int PASS, int BN>
__device__ __forceinline__ void tp__tile_store(
    const tp__tiles &s, const float (&sum)[tp__tile_shape<PASS, BN>::WM / 16][tp__tile_shape<PASS, BN>::WN / 8][4],
    int m0, int n0, const T *bias, const T *addend, T *out, float *part)
{
    typedef tp__tile_shape<PASS, BN> P;
    const int g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3;
#pragma unroll
    for (int i = 0; i < P::WM / 16; i++)
#pragma unroll
        for (int j = 0; j < P::WN / 8; j++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int m = m0 + i * 16 + g + half * 8, n = n0 + j * 8 + 2 * t;
                const bool both = n + 1 < s.N;
                if (m >= s.M || n >= s.N) continue;
                const int64_t at = tp__tile_row<PASS>(s, m) * s.N + n;
                float y[2] = {sum[i][j][half * 2], sum[i][j][half * 2 + 1]};
                if (PASS == TP__CONV_FILTER_GRAD) {
                    part[at] = y[0];
                    if (both) part[at + 1] = y[1];
                    continue;
                }
                if (bias) {
                    y[0] += tp__get(bias, n);
                    if (both) y[1] += tp__get(bias, n + 1);
                }
                if (s.relu) y[0] = 0 > y[0] ? 0.0f : y[0], y[1] = 0 > y[1] ? 0.0f : y[1];
                if (PASS == TP__CONV_FORWARD && addend) {
                    y[0] += tp__get(addend, at);
                    if (both) y[1] += tp__get(addend, at + 1);
                }
                if (s.pairs) tp__store(out + at, y);
                else {
                    tp__put(out, at, y[0]);
                    if (both) tp__put(out, at + 1, y[1]);
                }
            }
}

/* out: y or dx; for a filter gradient part (pieces, M, N) */
template <class T, int PASS, int BN>
TP_KERNEL tp__conv_tiles(const __grid_constant__ tp__tile_set<PASS> set, const T *image, const T *b, const T *bias,
                         const T *addend, T *out, float *part)
{
    typedef tp__tile_shape<PASS, BN> P;
    int index = 0;
    while (index + 1 < tp__tile_set<PASS>::N && (int)blockIdx.x >= set.first[index + 1]) index++;
    const tp__tiles &s = set.of[index];
    const int block = (int)blockIdx.x - set.first[index];
    TP_SHARED(uint4, shared_a, (P::BY_PIXEL ? P::BM : P::DEEP) * P::A_PITCH / 4);
    TP_SHARED(uint4, shared_b, (P::BY_COLUMN ? BN : P::DEEP) * P::B_PITCH / 4);
    const int me = (int)threadIdx.x, warp = me >> 5;
    const int tile_n = block % s.tiles_n, tile_m = block / s.tiles_n % s.tiles_m, piece = block / s.tiles_n / s.tiles_m;
    const int m0 = tile_m * P::BM, n0 = tile_n * BN, k_begin = piece * s.per_piece,
              k_end = s.K - k_begin < s.per_piece ? s.K : k_begin + s.per_piece;
    const int a_across = me % P::A_ACROSS, a_down = me / P::A_ACROSS, b_across = me % P::B_ACROSS,
              b_down = me / P::B_ACROSS;

    tp__tile_pixel pixel[P::NA];
    tp__tile_taps taps;
    if (P::BY_PIXEL) {
#pragma unroll
        for (int i = 0; i < P::NA; i++) pixel[i] = tp__tile_pixel_of<PASS>(s, m0 + a_down + i * P::A_STEP, s.M);
    } else taps = tp__tile_taps_of<PASS>(s, m0 + a_across * 4, s.M);
    tp__four<T> a_next[P::NA], b_next[P::NB];
    const auto load = [&](int k0) {
        if (P::BY_PIXEL) taps = tp__tile_taps_of<PASS>(s, k0 + a_across * 4, k_end);
        if (!P::BY_PIXEL)
#pragma unroll
            for (int i = 0; i < P::NA; i++) pixel[i] = tp__tile_pixel_of<PASS>(s, k0 + a_down + i * P::A_STEP, k_end);
        tp__tile_gather<T, PASS>(s, image, pixel, taps, a_next);
#pragma unroll
        for (int i = 0; i < P::NB; i++) {
            const int down = b_down + i * P::B_STEP;
            b_next[i] = P::BY_COLUMN ? tp__tile_right<T, PASS>(s, b, k0 + b_across * 4, k_end, n0 + down)
                                     : tp__tile_right<T, PASS>(s, b, k0 + down, k_end, n0 + b_across * 4);
        }
    };

    float sum[P::WM / 16][P::WN / 8][4];
#pragma unroll
    for (int i = 0; i < P::WM / 16; i++)
#pragma unroll
        for (int j = 0; j < P::WN / 8; j++)
            for (int e = 0; e < 4; e++) sum[i][j][e] = 0;
    const int row0 = warp / P::WARPS * P::WM, column0 = warp % P::WARPS * P::WN;
    load(k_begin);
    for (int k0 = k_begin; k0 < k_end; k0 += P::DEEP) {
#pragma unroll
        for (int i = 0; i < P::NA; i++)
            shared_a[(a_down + i * P::A_STEP) * (P::A_PITCH / 4) + a_across] = tp__tile_words(a_next[i]);
#pragma unroll
        for (int i = 0; i < P::NB; i++)
            shared_b[(b_down + i * P::B_STEP) * (P::B_PITCH / 4) + b_across] = tp__tile_words(b_next[i]);
        __syncthreads();
        if (k0 + P::DEEP < k_end) load(k0 + P::DEEP);
        tp__tile_multiply<PASS, BN>((const unsigned *)shared_a, (const unsigned *)shared_b, row0, column0, sum);
        __syncthreads();
    }
    tp__tile_store<T, PASS, BN>(s, sum, m0 + row0, n0 + column0, bias, addend, out,
                                part ? part + (int64_t)piece * s.M * s.N : NULL);
}

/* -- conv2d by tensor cores, stride 1 and 3 x 3 taps: neighbouring results read the same pixels. A block keeps a patch of the image in
 *    shared memory, TP__PATCH_DEEP channels at a time, with the filter's rows of these channels, and multiplies it at each tap. It
 *    computes TP__PATCH_HIGH by TP__PATCH_WIDE pixels of BN channels, of the forward pass or of an input gradient. Of images with at
 *    most half as many columns it computes two patches of half the width, side by side (PAIRS). */
#define TP__PATCH_DEEP 16
#define TP__PATCH_HIGH 8
#define TP__PATCH_WIDE 16
#define TP__PATCH_SIDE 3 /* rows and columns of a filter */
#define TP__PATCH_TAPS (TP__PATCH_SIDE * TP__PATCH_SIDE)

typedef struct tp__patches {
    int H, W, C;          /* the image that is read: x, or dy for an input gradient */
    int rows, columns, N; /* the image that is computed */
    int up,
        left; /* the pixels that result (h, w) needs begin at row h - up and column w - left of the image that is read */
    int tiles_h, tiles_w, tiles_n;
    int patches, units;             /* a unit is a patch, or two */
    int tiles_c, pieces, per_piece; /* of a filter gradient: per_piece units are a piece */
    bool relu;
} tp__patches;
/* A patch: its image and its first result. Past the last patch all rows lie outside of the image. */
typedef struct tp__patch_place {
    int b, h, w;
} tp__patch_place;
typedef struct tp__patch_unit {
    tp__patch_place at[2]; /* of columns 0 to 7 and 8 to 15; the same patch unless there are two */
} tp__patch_unit;
template <bool PAIRS> __device__ __forceinline__ tp__patch_unit tp__patch_unit_of(const tp__patches &s, int index)
{
    tp__patch_unit unit;
    for (int i = 0; i < 2; i++) {
        tp__patch_place *p = &unit.at[i];
        const int patch = PAIRS ? 2 * index + i : index, row = patch / s.tiles_w;
        p->w = (patch - row * s.tiles_w) * (PAIRS ? TP__PATCH_WIDE / 2 : TP__PATCH_WIDE);
        p->b = row / s.tiles_h;
        p->h = (row - p->b * s.tiles_h) * TP__PATCH_HIGH;
        if (PAIRS && patch >= s.patches) p->b = 0, p->h = INT32_MAX / 2;
    }
    return unit;
}
/* Eight adjacent groups of threads store eight adjacent rows of shared memory. This order of the rows keeps two groups that store at the
 * same time in different banks: those are two rows apart with a pitch of 24 words, and four with a pitch of 20. */
template <int PITCH> __device__ __forceinline__ int tp__patch_order(int row)
{
    if (PITCH % 32 == 24) return (row & ~3) | (row & 1) << 1 | (row >> 1 & 1);
    if (PITCH % 32 == 20) return (row & ~7) | (row & 1) << 2 | (row >> 1 & 3);
    return row;
}
/* A thread's part of TP__PATCH_DEEP channels of a unit: each patch and its border of BORDER more rows and columns. Pixels outside of the
 * image are 0. */
template <bool PAIRS, int BORDER, int PITCH, int THREADS> struct tp__patch_fours {
    enum {
        FOURS = TP__PATCH_DEEP / 4,
        /* in shared memory column 8 of the results lies HALF pixels after column 0 */
        HALF = TP__PATCH_WIDE / 2 + (PAIRS ? BORDER : 0),
        ACROSS = PAIRS ? 2 * HALF : TP__PATCH_WIDE + BORDER,
        PIXELS = (TP__PATCH_HIGH + BORDER) * ACROSS,
        STEP = THREADS / FOURS,
        N = (PIXELS + STEP - 1) / STEP
    };
    tp__four<float> v[N];
    /* the channels from c0 on of the images (H, W, C); up, left: where a patch begins before its first result */
    __device__ __forceinline__ void load(const float *image, const tp__patch_unit &unit, int up, int left, int H, int W,
                                         int C, int c0)
    {
        const int first = tp__patch_order<PITCH>((int)threadIdx.x / FOURS), c = c0 + (int)threadIdx.x % FOURS * 4;
#pragma unroll
        for (int u = 0; u < N; u++) {
            const int pixel = first + u * STEP, row = pixel / ACROSS, column = pixel % ACROSS;
            const bool second = PAIRS && column >= HALF;
            const tp__patch_place p = second ? unit.at[1] : unit.at[0];
            const int h = p.h - up + row, w = p.w - left + column - (second ? HALF : 0);
            v[u] = tp__tile_none<float>();
            if ((unsigned)h < (unsigned)H && (unsigned)w < (unsigned)W && ((u + 1) * STEP <= PIXELS || pixel < PIXELS))
                v[u] = *(const tp__four<float> *)(image + (((p.b * H + h) * W + w) * C + c));
        }
    }
    __device__ __forceinline__ void store(uint4 *shared) const
    {
        const int first = tp__patch_order<PITCH>((int)threadIdx.x / FOURS);
#pragma unroll
        for (int u = 0; u < N; u++)
            if ((u + 1) * STEP <= PIXELS || first + u * STEP < PIXELS)
                shared[(first + u * STEP) * (PITCH / 4) + threadIdx.x % FOURS] = tp__tile_words(v[u]);
    }
};
/* The pitches keep the words of a warp in different banks. */
template <int PASS, bool PAIRS, int BN> struct tp__patch_shape {
    enum {
        DEEP = TP__PATCH_DEEP,
        PITCH = DEEP + 4,
        BACK = PASS == TP__CONV_INPUT_GRAD, /* the filter's taps are transposed: a row for each result channel */
        B_ROWS = BACK ? BN : DEEP,
        B_PITCH = BACK ? DEEP + 4 : BN + 8,
        B_ACROSS = (BACK ? DEEP : BN) / 4, /* fours in a row */
        B_STEP = TP__TILE_THREADS / B_ACROSS,
        NB = TP__PATCH_TAPS * B_ROWS,
        EACH = (NB + B_STEP - 1) / B_STEP, /* fours of the filter that a thread loads */
        TILES = 2                          /* a warp computes two rows of 16 pixels */
    };
    typedef tp__patch_fours<PAIRS, TP__PATCH_SIDE - 1, PITCH, TP__TILE_THREADS> fours;
};
/* Adds the products of a unit and the filter at all taps. */
template <int PASS, bool PAIRS, int BN>
__device__ __forceinline__ void tp__patch_multiply(const unsigned *patch, const unsigned *filter,
                                                   float (&sum)[2][BN / 8][4])
{
    typedef tp__patch_shape<PASS, PAIRS, BN> P;
    enum { ACROSS = P::fours::ACROSS, HALF = P::fours::HALF };
    const int g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3, warp = (int)(threadIdx.x >> 5);
    patch += (2 * warp * ACROSS + g) * P::PITCH + t;
    filter += P::BACK ? g * P::B_PITCH + t : t * P::B_PITCH + g;
#pragma unroll
    for (int tap = 0; tap < TP__PATCH_TAPS; tap++) {
        const int at = P::BACK ? TP__PATCH_TAPS - 1 - tap : tap; /* in the patch */
        const int shift = at / TP__PATCH_SIDE * ACROSS + at % TP__PATCH_SIDE;
#pragma unroll
        for (int k = 0; k < P::DEEP; k += 8) {
            unsigned left[P::TILES][4], right[BN / 8][2];
#pragma unroll
            for (int i = 0; i < P::TILES; i++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int pixel = i * ACROSS + (e & 1) * HALF + shift;
                    left[i][e] = patch[pixel * P::PITCH + k + (e >> 1) * 4];
                }
#pragma unroll
            for (int j = 0; j < BN / 8; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int row = tap * P::B_ROWS + (P::BACK ? j * 8 : k + e * 4);
                    right[j][e] = filter[row * P::B_PITCH + (P::BACK ? k + e * 4 : j * 8)];
                }
#pragma unroll
            for (int i = 0; i < P::TILES; i++)
#pragma unroll
                for (int j = 0; j < BN / 8; j++) tp__mma_add<float>(sum[i][j], left[i], right[j]);
        }
    }
}
/* Writes a warp's results of a unit, of the channels from n0 on. */
template <bool PAIRS, int BN>
__device__ __forceinline__ void tp__patch_store(const tp__patches &s, const float (&sum)[2][BN / 8][4],
                                                const tp__patch_unit &unit, int n0, const float *bias,
                                                const float *addend, float *out)
{
    const int g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3, row0 = (int)(threadIdx.x >> 5) * 2;
    float more[BN / 8][2] = {};
    if (bias)
#pragma unroll
        for (int j = 0; j < BN / 8; j++) tp__load(bias + n0 + j * 8 + 2 * t, more[j]);
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const tp__patch_place &p = unit.at[half];
            const int h = p.h + row0 + i, w = p.w + g + (PAIRS ? 0 : half * 8);
            if (h >= s.rows || w >= s.columns) continue;
            const int at = ((p.b * s.rows + h) * s.columns + w) * s.N + n0 + 2 * t;
            float other[BN / 8][2] = {};
            if (addend)
#pragma unroll
                for (int j = 0; j < BN / 8; j++) tp__load(addend + at + j * 8, other[j]);
#pragma unroll
            for (int j = 0; j < BN / 8; j++) {
                float y[2] = {sum[i][j][half * 2] + more[j][0], sum[i][j][half * 2 + 1] + more[j][1]};
                if (s.relu) y[0] = 0 > y[0] ? 0.0f : y[0], y[1] = 0 > y[1] ? 0.0f : y[1];
                y[0] += other[j][0], y[1] += other[j][1];
                tp__store(out + at + j * 8, y);
            }
        }
}
/* A block computes one unit after the other. It loads the next channels, or the next unit, while it multiplies the last ones. */
template <int PASS, bool PAIRS, int BN>
TP_KERNEL_OF_128(BN == 16 ? 4 : 3)
tp__conv_patch(const __grid_constant__ tp__patches s, const float *image, const float *filter, const float *bias,
               const float *addend, float *out)
{
    typedef tp__patch_shape<PASS, PAIRS, BN> P;
    TP_SHARED(uint4, patch, P::fours::PIXELS * P::PITCH / 4);
    TP_SHARED(uint4, rows, TP__PATCH_TAPS * P::B_ROWS * P::B_PITCH / 4);
    const int me = (int)threadIdx.x, step = (int)gridDim.x / s.tiles_n, n0 = (int)blockIdx.x % s.tiles_n * BN;
    const int first = tp__patch_order<P::B_PITCH>(me / P::B_ACROSS), across = me % P::B_ACROSS;

    typename P::fours next;
    tp__four<float> next_rows[P::EACH];
    const auto load = [&](int index, int c0) {
        next.load(image, tp__patch_unit_of<PAIRS>(s, index), s.up, s.left, s.H, s.W, s.C, c0);
    };
    const auto load_filter = [&](int c0) {
#pragma unroll
        for (int u = 0; u < P::EACH; u++) {
            const int row = first + u * P::B_STEP, tap = row / P::B_ROWS, r = row % P::B_ROWS;
            if ((u + 1) * P::B_STEP <= P::NB || row < P::NB)
                next_rows[u] =
                    *(const tp__four<float> *)(filter + (P::BACK ? (tap * s.N + n0 + r) * s.C + c0 + across * 4
                                                                 : (tap * s.C + c0 + r) * s.N + n0 + across * 4));
        }
    };
    bool new_filter = true;
    int index = (int)blockIdx.x / s.tiles_n;
    load(index, 0);
    load_filter(0);
    for (; index < s.units; index += step) {
        float sum[P::TILES][BN / 8][4] = {};
        for (int c0 = 0; c0 < s.C; c0 += P::DEEP) {
            next.store(patch);
            if (new_filter)
#pragma unroll
                for (int u = 0; u < P::EACH; u++) {
                    const int row = first + u * P::B_STEP;
                    if ((u + 1) * P::B_STEP <= P::NB || row < P::NB)
                        rows[row * (P::B_PITCH / 4) + across] = tp__tile_words(next_rows[u]);
                }
            __syncthreads();
            const bool ends = c0 + P::DEEP >= s.C;
            new_filter = s.C > P::DEEP;
            if (!ends || index + step < s.units) {
                load(ends ? index + step : index, ends ? 0 : c0 + P::DEEP);
                if (new_filter) load_filter(ends ? 0 : c0 + P::DEEP);
            }
            tp__patch_multiply<PASS, PAIRS, BN>((const unsigned *)patch, (const unsigned *)rows, sum);
            __syncthreads();
        }
        tp__patch_store<PAIRS, BN>(s, sum, tp__patch_unit_of<PAIRS>(s, index), n0, bias, addend, out);
    }
}

/* -- the filter gradient by patches. A block sums some units of x and dy for 16 channels of each: a warp multiplies one row of a unit at
 *    every tap. Then the warps' sums are added, and tp__add_parts adds those of the blocks. */
template <bool PAIRS> struct tp__patch_grad_shape {
    enum { DEEP = TP__PATCH_DEEP, PITCH = DEEP + 8 /* keeps the words of a warp in different banks */ };
    typedef tp__patch_fours<PAIRS, TP__PATCH_SIDE - 1, PITCH, TP__THREADS> fours;
    typedef tp__patch_fours<PAIRS, 0, PITCH, TP__THREADS> dy_fours;
    enum {
        WARPS = TP__PATCH_HIGH,
        OPERANDS = (fours::PIXELS + dy_fours::PIXELS) * PITCH,
        SUMS = TP__PATCH_SIDE * WARPS * 32 * 8, /* of a row of taps */
        WORDS = OPERANDS > SUMS ? OPERANDS : SUMS
    };
};
/* Adds the warps' sums in shared memory, a row of taps at a time, and writes them to part, which is (KH, KW, C, N). Each thread adds one
 * element of the sums, which have eight for each lane. */
__device__ __forceinline__ void tp__patch_grad_store(const tp__patches &s, float *shared,
                                                     const float (&sum)[TP__PATCH_SIDE][TP__PATCH_SIDE][2][4], int c0,
                                                     int n0, float *part)
{
    enum { WARPS = TP__PATCH_HIGH };
    const int warp = (int)(threadIdx.x >> 5), lane = (int)(threadIdx.x & 31), element = warp;
    const int c = c0 + (lane >> 2) + (element & 2) * 4, n = n0 + (element >> 2) * 8 + 2 * (lane & 3) + (element & 1);
#pragma unroll
    for (int p = 0; p < TP__PATCH_SIDE; p++) {
        __syncthreads();
#pragma unroll
        for (int q = 0; q < TP__PATCH_SIDE; q++)
#pragma unroll
            for (int e = 0; e < 8; e++) shared[((q * WARPS + warp) * 8 + e) * 32 + lane] = sum[p][q][e >> 2][e & 3];
        __syncthreads();
#pragma unroll
        for (int q = 0; q < TP__PATCH_SIDE; q++) {
            float y = 0;
#pragma unroll
            for (int w = 0; w < WARPS; w++) y += shared[((q * WARPS + w) * 8 + element) * 32 + lane];
            part[((p * TP__PATCH_SIDE + q) * s.C + c) * s.N + n] = y;
        }
    }
}
template <bool PAIRS>
TP_KERNEL_RESIDENT(2)
tp__conv_patch_grad(const __grid_constant__ tp__patches s, const float *x, const float *dy, float *part)
{
    typedef tp__patch_grad_shape<PAIRS> P;
    enum { ACROSS = P::fours::ACROSS, HALF = P::fours::HALF };
    TP_SHARED(uint4, shared, P::WORDS / 4);
    uint4 *const shared_dy = shared + P::fours::PIXELS * P::PITCH / 4;
    const int warp = (int)(threadIdx.x >> 5), g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3;
    const unsigned *const xs = (const unsigned *)shared + (warp * ACROSS + t) * P::PITCH + g;
    const unsigned *const dys = (const unsigned *)shared_dy + (warp * TP__PATCH_WIDE + t) * P::PITCH + g;
    const int tile = (int)blockIdx.x % (s.tiles_n * s.tiles_c), piece = (int)blockIdx.x / (s.tiles_n * s.tiles_c);
    const int n0 = tile % s.tiles_n * P::DEEP, c0 = tile / s.tiles_n * P::DEEP;
    const int begin = piece * s.per_piece, end = s.units - begin < s.per_piece ? s.units : begin + s.per_piece;

    typename P::fours next_x;
    typename P::dy_fours next_dy;
    const auto load = [&](int index) {
        const tp__patch_unit unit = tp__patch_unit_of<PAIRS>(s, index);
        next_x.load(x, unit, s.up, s.left, s.H, s.W, s.C, c0);
        next_dy.load(dy, unit, 0, 0, s.rows, s.columns, s.N, n0);
    };
    float sum[TP__PATCH_SIDE][TP__PATCH_SIDE][2][4] = {};
    load(begin);
    for (int index = begin; index < end; index++) {
        next_x.store(shared);
        next_dy.store(shared_dy);
        __syncthreads();
        if (index + 1 < end) load(index + 1);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            unsigned right[2][2];
#pragma unroll
            for (int e = 0; e < 4; e++) right[e >> 1][e & 1] = dys[(half * 8 + (e & 1) * 4) * P::PITCH + (e >> 1) * 8];
#pragma unroll
            for (int p = 0; p < TP__PATCH_SIDE; p++)
#pragma unroll
                for (int q = 0; q < TP__PATCH_SIDE; q++) {
                    unsigned left[4];
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        left[e] = xs[(p * ACROSS + half * HALF + q + (e >> 1) * 4) * P::PITCH + (e & 1) * 8];
                    tp__mma_add<float>(sum[p][q][0], left, right[0]);
                    tp__mma_add<float>(sum[p][q][1], left, right[1]);
                }
        }
        __syncthreads();
    }
    tp__patch_grad_store(s, (float *)shared, sum, c0, n0, part + (int64_t)piece * TP__PATCH_TAPS * s.C * s.N);
}

/* Whether the sizes of a float32 convolution that has few channels (tp__conv_by_tiles) are those of patches. */
static bool tp__conv_has_patches(const tp__conv *g)
{
    return g->stride_h == 1 && g->stride_w == 1 && g->dilation_h == 1 && g->dilation_w == 1 &&
           g->KH == TP__PATCH_SIDE && g->KW == TP__PATCH_SIDE && g->C % TP__PATCH_DEEP == 0 &&
           g->O % TP__PATCH_DEEP == 0;
}
static bool tp__patch_pairs(const tp__conv *g, int pass)
{
    return (pass == TP__CONV_INPUT_GRAD ? g->W : g->OW) <= TP__PATCH_WIDE / 2;
}
static tp__patches tp__patches_of(const tp__cuda *c, const tp__conv *g, int pass)
{
    const bool back = pass == TP__CONV_INPUT_GRAD, pairs = tp__patch_pairs(g, pass);
    const int wide = pairs ? TP__PATCH_WIDE / 2 : TP__PATCH_WIDE;
    tp__patches s;
    memset(&s, 0, sizeof s);
    s.H = (int)(back ? g->OH : g->H), s.W = (int)(back ? g->OW : g->W), s.C = (int)(back ? g->O : g->C);
    s.rows = (int)(back ? g->H : g->OH), s.columns = (int)(back ? g->W : g->OW), s.N = (int)(back ? g->C : g->O);
    s.up = (int)(back ? g->KH - 1 - g->top : g->top), s.left = (int)(back ? g->KW - 1 - g->left : g->left);
    s.tiles_h = (s.rows + TP__PATCH_HIGH - 1) / TP__PATCH_HIGH, s.tiles_w = (s.columns + wide - 1) / wide;
    s.patches = (int)g->B * s.tiles_h * s.tiles_w;
    s.units = pairs ? (s.patches + 1) / 2 : s.patches;
    if (pass == TP__CONV_FILTER_GRAD) { /* two blocks for each multiprocessor */
        s.tiles_n = s.N / TP__PATCH_DEEP, s.tiles_c = s.C / TP__PATCH_DEEP;
        const int tiles = s.tiles_n * s.tiles_c, wanted = tiles < c->n_processor * 2 ? c->n_processor * 2 / tiles : 1;
        s.per_piece = (s.units + wanted - 1) / wanted;
        s.pieces = (s.units + s.per_piece - 1) / s.per_piece;
    }
    return s;
}
template <int PASS>
static void tp__run_patches(const tp_call *k, const tp__conv *g, const float *image, const float *filter,
                            const float *bias, bool relu, const float *addend, float *out)
{
    const int n_processor = tp__cuda_of(k)->n_processor;
    tp__patches s = tp__patches_of(tp__cuda_of(k), g, PASS);
    /* tiles of 32 channels read the image half as often as those of 16, where enough blocks remain */
    const int BN = s.N % 32 == 0 && (int64_t)s.units * (s.N / 32) >= n_processor * 4 ? 32 : 16;
    s.tiles_n = s.N / BN;
    s.relu = relu;
    /* as many blocks as run at once, each with the same number of units */
    const int64_t at_once = (int64_t)n_processor * (BN == 16 ? 4 : 3),
                  each = ((int64_t)s.units * s.tiles_n + at_once - 1) / at_once,
                  blocks = (s.units + each - 1) / each * s.tiles_n;
#define TP__PATCH(PAIRS_, BN_)                                                                                         \
    TP_RUN_BLOCKS(k, (tp__conv_patch<PASS, PAIRS_, BN_>), blocks, TP__TILE_THREADS, 0, s, image, filter, bias, addend, \
                  out)
    if (tp__patch_pairs(g, PASS)) {
        if (BN == 32) TP__PATCH(true, 32);
        else TP__PATCH(true, 16);
    } else if (BN == 32) TP__PATCH(false, 32);
    else TP__PATCH(false, 16);
#undef TP__PATCH
}
static void tp__run_patch_grad(const tp_call *k, const tp__conv *g, const float *x, const float *dy, float *dw)
{
    const tp__patches s = tp__patches_of(tp__cuda_of(k), g, TP__CONV_FILTER_GRAD);
    const int64_t blocks = (int64_t)s.pieces * s.tiles_n * s.tiles_c, n = (int64_t)TP__PATCH_TAPS * s.C * s.N;
    float *part = (float *)k->scratch;
    if (tp__patch_pairs(g, TP__CONV_FILTER_GRAD))
        TP_RUN_BLOCKS(k, tp__conv_patch_grad<true>, blocks, TP__THREADS, 0, s, x, dy, part);
    else TP_RUN_BLOCKS(k, tp__conv_patch_grad<false>, blocks, TP__THREADS, 0, s, x, dy, part);
    TP_RUN_BLOCKS(k, (tp__add_parts<float>), (n + 31) / 32, TP__THREADS, 0, (const float *)part, dw, n,
                  (int64_t)s.pieces);
}

/* Whether these kernels compute the convolution: with TF32 up to TP__TILE_CHANNELS channels. In half precision they compute only the
 * forward pass, of images with fewer than 8 channels (colours), because cuDNN would first copy these to more channels. */
#define TP__TILE_CHANNELS 128
static bool tp__conv_by_tiles(const tp__cuda *c, const tp__conv *g, int pass, tp_dtype dtype, tp_precision precision)
{
    const int64_t most = INT32_MAX / 2, pixels = g->B * (pass == TP__CONV_INPUT_GRAD ? g->H * g->W : g->OH * g->OW);
    if (c->generation < 8 || g->nchw || g->groups != 1) return false;
    if (g->B * g->H * g->W * g->C > most || g->B * g->OH * g->OW * g->O > most || g->KH * g->KW * g->C * g->O > most)
        return false;
    if ((g->H + g->KH * g->dilation_h) * g->stride_h > most || (g->W + g->KW * g->dilation_w) * g->stride_w > most ||
        pixels > most)
        return false;
    if (dtype == TP_F32)
        return precision == TP_PRECISION_TF32 && g->C <= TP__TILE_CHANNELS && g->O <= TP__TILE_CHANNELS;
    return (dtype == TP_BF16 || dtype == TP_F16) && pass == TP__CONV_FORWARD && g->C < 8;
}
static tp__tiles tp__tiles_of(const tp__cuda *c, const tp__conv *g, int pass, int columns)
{
    const bool to_x = pass == TP__CONV_INPUT_GRAD;
    const int64_t taps = g->KH * g->KW, pixels = g->B * (to_x ? g->H * g->W : g->OH * g->OW);
    tp__tiles s;
    memset(&s, 0, sizeof s);
    s.rows = (int)(to_x ? g->H : g->OH), s.columns = (int)(to_x ? g->W : g->OW);
    s.H = (int)(to_x ? g->OH : g->H), s.W = (int)(to_x ? g->OW : g->W), s.C = (int)(to_x ? g->O : g->C);
    s.image = s.H * s.W * s.C;
    s.filter_C = (int)g->C, s.filter_O = (int)g->O, s.filter_KW = (int)g->KW;
    s.step_h = s.step_w = 1, s.all_rows = s.rows, s.all_columns = s.columns;
    s.stride_h = (int)g->stride_h, s.stride_w = (int)g->stride_w, s.dilation_h = (int)g->dilation_h,
    s.dilation_w = (int)g->dilation_w, s.top = (int)g->top, s.left = (int)g->left;
    s.M = (int)(pass == TP__CONV_FILTER_GRAD ? taps * g->C : pixels);
    s.N = (int)(to_x ? g->C : g->O);
    s.K = (int)(pass == TP__CONV_FILTER_GRAD ? pixels : taps * s.C);
    s.tiles_m = (s.M + TP__TILE_ROWS - 1) / TP__TILE_ROWS, s.tiles_n = (s.N + columns - 1) / columns;
    s.per_piece = s.K;
    s.pieces = 1;
    if (pass == TP__CONV_FILTER_GRAD) { /* about four blocks for each multiprocessor, of four steps at least */
        const int64_t tiles = (int64_t)s.tiles_m * s.tiles_n,
                      wanted = ((int64_t)c->n_processor * 4 + tiles - 1) / tiles, step = 4 * TP__TILE_DEEP,
                      most = (s.K + step - 1) / step, pieces = wanted < most ? wanted : most;
        s.per_piece = (int)(((s.K + pieces - 1) / pieces + TP__TILE_DEEP - 1) / TP__TILE_DEEP * TP__TILE_DEEP);
        s.pieces = (s.K + s.per_piece - 1) / s.per_piece;
    }
    s.by_columns = tp__divide_by(s.columns, INT32_MAX), s.by_rows = tp__divide_by(s.rows, INT32_MAX);
    s.by_C = tp__divide_by(s.C, INT32_MAX), s.by_KW = tp__divide_by(g->KW, INT32_MAX);
    s.by_stride_h = tp__divide_by(s.stride_h, INT32_MAX), s.by_stride_w = tp__divide_by(s.stride_w, INT32_MAX);
    return s;
}
/* Reduces an input gradient to the grid of pixels from (h, w) on that are a stride apart. */
static void tp__tiles_of_grid(tp__tiles *s, const tp__conv *g, int h, int w)
{
    s->first_h = h, s->first_w = w, s->step_h = s->stride_h, s->step_w = s->stride_w;
    s->rows = (s->all_rows - h + s->step_h - 1) / s->step_h,
    s->columns = (s->all_columns - w + s->step_w - 1) / s->step_w;
    s->tap_h = (h + s->top) % s->stride_h, s->tap_w = (w + s->left) % s->stride_w;
    const int64_t taps_h = g->KH > s->tap_h ? (g->KH - s->tap_h + s->step_h - 1) / s->step_h : 0,
                  taps_w = g->KW > s->tap_w ? (g->KW - s->tap_w + s->step_w - 1) / s->step_w : 0;
    s->M = (int)(g->B * s->rows * s->columns);
    s->K = s->per_piece = (int)(taps_h * taps_w * s->C);
    s->tiles_m = (s->M + TP__TILE_ROWS - 1) / TP__TILE_ROWS;
    s->by_columns = tp__divide_by(s->columns > 0 ? s->columns : 1, INT32_MAX);
    s->by_rows = tp__divide_by(s->rows > 0 ? s->rows : 1, INT32_MAX);
    s->by_KW = tp__divide_by(taps_w > 0 ? taps_w : 1, INT32_MAX);
}
/* Fills the products of a launch; returns the number of blocks. */
template <int PASS> static int64_t tp__tile_set_of(tp__tile_set<PASS> *set, const tp__tiles *whole, const tp__conv *g)
{
    const bool grids =
        PASS == TP__CONV_INPUT_GRAD && g->stride_h <= 2 && g->stride_w <= 2 && g->dilation_h == 1 && g->dilation_w == 1;
    const int across = grids ? (int)g->stride_w : 1, n = grids ? (int)g->stride_h * across : 1;
    int64_t blocks = 0;
    for (int i = 0; i < tp__tile_set<PASS>::N; i++) {
        tp__tiles *s = &set->of[i];
        *s = *whole;
        if (n > 1) tp__tiles_of_grid(s, g, i / across, i % across);
        set->first[i] = (int)blocks;
        if (i < n) blocks += (int64_t)s->tiles_m * s->tiles_n * s->pieces;
    }
    set->first[tp__tile_set<PASS>::N] = (int)blocks;
    return blocks;
}
/* The columns of a tile; half precision has one width. */
static int tp__tile_columns(const tp__conv *g, int pass, tp_dtype dtype)
{
    const int64_t n = pass == TP__CONV_INPUT_GRAD ? g->C : g->O;
    return dtype != TP_F32 || n > 32 ? 64 : n > 16 ? 32 : 16;
}
static size_t tp__tile_scratch(const tp__cuda *c, const tp__conv *g, int pass, tp_dtype dtype)
{
    if (pass != TP__CONV_FILTER_GRAD) return 0;
    const tp__tiles s = tp__tiles_of(c, g, pass, tp__tile_columns(g, pass, dtype));
    int pieces = s.pieces;
    if (dtype == TP_F32 && tp__conv_has_patches(g)) {
        const int of_patches = tp__patches_of(c, g, pass).pieces;
        if (of_patches > pieces) pieces = of_patches;
    }
    return (size_t)pieces * (size_t)s.M * (size_t)s.N * sizeof(float);
}
template <class T, int PASS, int BN>
static void tp__run_tiles(const tp_call *k, const tp__conv *g, const T *image, const T *b, const T *bias, bool relu,
                          const T *addend, T *out)
{
    tp__tiles s = tp__tiles_of(tp__cuda_of(k), g, PASS, BN);
    s.relu = relu;
    s.a_by_four =
        s.C % 4 == 0 && tp__aligned_to_four<T>(image) && (PASS != TP__CONV_INPUT_GRAD || tp__aligned_to_four<T>(b));
    s.b_by_four = s.N % 4 == 0 && tp__aligned_to_four<T>(b);
    s.pairs = s.N % 2 == 0 && (uintptr_t)out % (2 * sizeof(T)) == 0;
    tp__tile_set<PASS> set;
    const int64_t blocks = tp__tile_set_of<PASS>(&set, &s, g);
    TP_RUN_BLOCKS(k, (tp__conv_tiles<T, PASS, BN>), blocks, TP__TILE_THREADS, 0, set, image, b, bias, addend, out,
                  (float *)k->scratch);
    if (PASS == TP__CONV_FILTER_GRAD) {
        const int64_t n = (int64_t)s.M * s.N;
        TP_RUN_BLOCKS(k, (tp__add_parts<T>), (n + 31) / 32, TP__THREADS, 0, (const tp__real<T> *)k->scratch, out, n,
                      (int64_t)s.pieces);
    }
}
template <int PASS>
static void tp__conv_tiles_of(const tp_call *k, const tp__conv *g, tp_dtype dtype, const void *image, const void *b,
                              const void *bias, bool relu, const void *addend, void *out)
{
#define TP__TILES(T_, BN_)                                                                                           \
    tp__run_tiles<T_, PASS, BN_>(k, g, (const T_ *)image, (const T_ *)b, (const T_ *)bias, relu, (const T_ *)addend, \
                                 (T_ *)out)
    const int columns = tp__tile_columns(g, PASS, dtype);
    if (dtype == TP_F32 && tp__conv_has_patches(g) && tp__aligned_to_four<float>(image) &&
        tp__aligned_to_four<float>(b) && tp__aligned_to_four<float>(out) && tp__aligned_to_four<float>(addend)) {
        const float *x = (const float *)image, *right = (const float *)b;
        if constexpr (PASS == TP__CONV_FILTER_GRAD) tp__run_patch_grad(k, g, x, right, (float *)out);
        else tp__run_patches<PASS>(k, g, x, right, (const float *)bias, relu, (const float *)addend, (float *)out);
        return;
    }
    if (dtype == TP_F32) {
        if (columns == 16) TP__TILES(float, 16);
        else if (columns == 32) TP__TILES(float, 32);
        else TP__TILES(float, 64);
    } else if constexpr (PASS == TP__CONV_FORWARD) {
        if (dtype == TP_BF16) TP__TILES(tp__bf16, 64);
        else TP__TILES(tp__f16, 64);
    }
#undef TP__TILES
}

/* -- conv2d: layouts that cuDNN needs */

/* Transposes a filter (S, I, O) to (O, S, I), which cuDNN needs for NHWC (then I = rows, S = 1), or to (O, I, S) for NCHW.
 * backward: the inverse. Tiles of 32 by 32, so that reads and writes are both contiguous. */
template <class T>
TP_KERNEL tp__transpose_filter(const T *from, T *to, int64_t rows, int64_t O, int64_t I, int64_t S, bool backward)
{
    TP_SHARED(T, tile, 32 * 33);
    const int x = (int)(threadIdx.x & 31), y = (int)(threadIdx.x >> 5);
    const int64_t across = (O + 31) / 32, r0 = blockIdx.x / across * 32, o0 = blockIdx.x % across * 32;
    for (int u = y; u < 32; u += 8) {
        const int64_t r = r0 + (backward ? x : u), o = o0 + (backward ? u : x);
        if (r < rows && o < O) tile[u * 33 + x] = backward ? from[o * rows + r % I * S + r / I] : from[r * O + o];
    }
    __syncthreads();
    for (int u = y; u < 32; u += 8) {
        const int64_t r = r0 + (backward ? u : x), o = o0 + (backward ? x : u);
        if (r >= rows || o >= O) continue;
        if (backward) to[r * O + o] = tile[x * 33 + u];
        else to[o * rows + r % I * S + r / I] = tile[x * 33 + u];
    }
}
static void tp__run_transpose_filter(const tp_call *k, const tp__conv *g, tp_dtype dtype, const void *from, void *to,
                                     bool backward)
{
    const int64_t I = g->C / g->groups, S = g->KH * g->KW, rows = I * S;
    const int64_t blocks = (rows + 31) / 32 * ((g->O + 31) / 32);
    TP_SIZES(dtype, TP_RUN_BLOCKS(k, (tp__transpose_filter<T>), blocks, TP__THREADS, 0, (const T *)from, (T *)to, rows,
                                  g->O, g->nchw ? I : rows, g->nchw ? S : 1, backward););
}

/* Copies (N, H, W, C) with rows and columns of zeros added, or with rows and columns removed. */
template <class T, class I>
TP_KERNEL tp__pad_frame(const T *from, T *to, int64_t n, int64_t H, int64_t W, int64_t to_H, int64_t to_W, int64_t C)
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
static void tp__run_pad_frame(const tp_call *k, const tp__conv *g, tp_dtype dtype, int64_t images, const void *from,
                              void *to, bool backward)
{
    const int64_t N = g->nchw ? images * g->C : images, size = (int64_t)tp__dtype_size(dtype),
                  bytes = g->nchw ? size : g->C * size;
    const int64_t padded_H = g->H + tp__extra_pad_row(g), padded_W = g->W + tp__extra_pad_column(g);
    const int64_t H = backward ? padded_H : g->H, W = backward ? padded_W : g->W, to_H = backward ? g->H : padded_H,
                  to_W = backward ? g->W : padded_W;
#define TP__FRAME(T_)                                                                                        \
    do {                                                                                                     \
        const int64_t C = bytes / (int64_t)sizeof(T_), n = N * to_H * to_W * C;                              \
        if (N * padded_H * padded_W * C < TP__INT_ELEMENTS)                                                  \
            TP_RUN(k, (tp__pad_frame<T_, int>), n, (const T_ *)from, (T_ *)to, n, H, W, to_H, to_W, C);      \
        else TP_RUN(k, (tp__pad_frame<T_, int64_t>), n, (const T_ *)from, (T_ *)to, n, H, W, to_H, to_W, C); \
    } while (0)
    if (bytes % 16 == 0) TP__FRAME(uint4);
    else TP_SIZES(dtype, TP__FRAME(T););
#undef TP__FRAME
}

/* -- conv2d: cuDNN */

#define TP__CONV_WORKSPACE ((size_t)512 << 20) /* bytes of workspace; algorithms of cuDNN that need more are not used */

/* The key of a choice: everything on which cuDNN's choice depends. */
typedef struct tp__conv_key {
    int64_t B, H, W, C, O, KH, KW, OH, OW, stride_h, stride_w, dilation_h, dilation_w, top, left, groups;
    int32_t pass, dtype, precision, nchw;
} tp__conv_key;
typedef struct tp__conv_choice {
    struct tp__conv_choice *next;
    tp__conv_key key;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t conv;
    int algo;
    size_t workspace;
    bool usable; /* false: cuDNN does not support this convolution */
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
        st = cudnnSetConvolution2dDescriptor(s->conv, (int)p->top, (int)p->left, (int)p->stride_h, (int)p->stride_w,
                                             (int)p->dilation_h, (int)p->dilation_w, CUDNN_CROSS_CORRELATION,
                                             p->dtype == TP_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
    if (st == CUDNN_STATUS_SUCCESS) st = cudnnSetConvolutionGroupCount(s->conv, (int)p->groups);
    return st;
}

static cudnnStatus_t tp__conv_workspace(tp__cuda *c, const tp__conv_choice *s, int algo, size_t *bytes)
{
    switch (s->key.pass) {
    case TP__CONV_FORWARD:
        return cudnnGetConvolutionForwardWorkspaceSize(c->dnn, s->x, s->w, s->conv, s->y,
                                                       (cudnnConvolutionFwdAlgo_t)algo, bytes);
    case TP__CONV_INPUT_GRAD:
        return cudnnGetConvolutionBackwardDataWorkspaceSize(c->dnn, s->w, s->y, s->conv, s->x,
                                                            (cudnnConvolutionBwdDataAlgo_t)algo, bytes);
    default:
        return cudnnGetConvolutionBackwardFilterWorkspaceSize(c->dnn, s->x, s->y, s->conv, s->w,
                                                              (cudnnConvolutionBwdFilterAlgo_t)algo, bytes);
    }
}

/* Fourier transforms and large Winograd tiles spread a rounding error over many results, which TP_PRECISION_F32 does not
 * allow. */
static bool tp__conv_is_rough(int pass, int algo)
{
    if (pass == TP__CONV_FORWARD)
        return algo == CUDNN_CONVOLUTION_FWD_ALGO_FFT || algo == CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING ||
               algo == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED;
    if (pass == TP__CONV_INPUT_GRAD)
        return algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT || algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING ||
               algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED;
    return algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT || algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING ||
           algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED;
}

/* Chooses the first deterministic algorithm in cuDNN's order that satisfies precision and workspace. */
#define TP__CONV_ALGOS 16
static cudnnStatus_t tp__conv_choose(tp__cuda *c, tp__conv_choice *s)
{
    const int pass = s->key.pass;
    const bool is_half = s->key.dtype == TP_F16 || s->key.dtype == TP_BF16,
               strict = s->key.dtype == TP_F32 && s->key.precision != TP_PRECISION_TF32;
    const cudnnMathType_t wanted_math = is_half ? CUDNN_TENSOR_OP_MATH : strict ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
    int algo[TP__CONV_ALGOS + 2], n = 0;
    cudnnMathType_t math[TP__CONV_ALGOS + 2];
    cudnnStatus_t st = tp__conv_describe(s);
    if (st == CUDNN_STATUS_SUCCESS) st = cudnnSetConvolutionMathType(s->conv, wanted_math);
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
    if (pass == TP__CONV_FORWARD)
        TP__CONV_CANDIDATES(
            Fwd, cudnnGetConvolutionForwardAlgorithm_v7(c->dnn, s->x, s->w, s->conv, s->y, TP__CONV_ALGOS, &m, found));
    else if (pass == TP__CONV_INPUT_GRAD)
        TP__CONV_CANDIDATES(BwdData, cudnnGetConvolutionBackwardDataAlgorithm_v7(c->dnn, s->w, s->y, s->conv, s->x,
                                                                                 TP__CONV_ALGOS, &m, found));
    else
        TP__CONV_CANDIDATES(BwdFilter, cudnnGetConvolutionBackwardFilterAlgorithm_v7(c->dnn, s->x, s->y, s->conv, s->w,
                                                                                     TP__CONV_ALGOS, &m, found));
#undef TP__CONV_CANDIDATES
    /* fallback: cuDNN's algorithms by implicit matrix products, which are deterministic and need little workspace */
    algo[n] = 1;
    math[n++] = wanted_math;
    if (pass == TP__CONV_FORWARD) {
        algo[n] = 0;
        math[n++] = wanted_math;
    }
    for (int i = 0; i < n; i++) {
        if (strict && (math[i] == CUDNN_TENSOR_OP_MATH || math[i] == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION ||
                       tp__conv_is_rough(pass, algo[i])))
            continue;
        /* this math mode would convert to half precision */
        if (math[i] == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) continue;
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

/* Returns cuDNN's choice for `images` images, made at the first call; NULL when out of memory. */
static tp__conv_choice *tp__conv_choice_of(tp__cuda *c, const tp__conv *g, int pass, tp_dtype dtype,
                                           tp_precision precision, int64_t images)
{
    tp__conv_key key;
    memset(&key, 0, sizeof key);
    key.B = images, key.C = g->C, key.O = g->O, key.KH = g->KH, key.KW = g->KW, key.OH = g->OH, key.OW = g->OW;
    /* with the odd row or column added, the padding is equal on both sides */
    key.H = g->H + tp__extra_pad_row(g), key.W = g->W + tp__extra_pad_column(g);
    key.stride_h = g->stride_h, key.stride_w = g->stride_w, key.dilation_h = g->dilation_h,
    key.dilation_w = g->dilation_w, key.top = g->top, key.left = g->left;
    key.groups = g->groups, key.pass = pass, key.dtype = (int32_t)dtype, key.nchw = g->nchw;
    key.precision = dtype == TP_F32 ? (int32_t)precision : 0;
    for (tp__conv_choice *s = c->convolution; s; s = s->next)
        if (memcmp(&s->key, &key, sizeof key) == 0) return s;
    tp__conv_choice *s = (tp__conv_choice *)calloc(1, sizeof *s);
    if (!s) return NULL;
    s->key = key;
    cudaSetDevice(c->ordinal);
    if (tp__conv_choose(c, s) != CUDNN_STATUS_SUCCESS)
        c->say(
            TP_LOG_WARN,
            "%s: cuDNN has no %s of %lld pictures (%lld,%lld,%lld) and a filter (%lld,%lld,%lld,%lld) in %s of element "
            "type %d, precision %d: %s",
            c->device.name,
            pass == TP__CONV_FORWARD      ? "conv2d"
            : pass == TP__CONV_INPUT_GRAD ? "conv2d_input_grad"
                                          : "conv2d_filter_grad",
            (long long)images, (long long)g->H, (long long)g->W, (long long)g->C, (long long)g->KH, (long long)g->KW,
            (long long)(g->C / g->groups), (long long)g->O, g->nchw ? "NCHW" : "NHWC", (int)dtype, (int)precision,
            g->nchw ? "a slow kernel makes it" : "it gets copies in NCHW");
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

/* add: adds the result to the output, for the filter gradient of further images. */
static cudnnStatus_t tp__conv_by_cudnn(tp__cuda *c, const tp__conv_choice *s, void *x, void *w, void *y,
                                       void *workspace, bool add)
{
    const double one64 = 1, beta64 = add ? 1 : 0;
    const float one32 = 1, beta32 = add ? 1 : 0;
    const bool f64 = s->key.dtype == TP_F64;
    const void *alpha = f64 ? (const void *)&one64 : (const void *)&one32,
               *beta = f64 ? (const void *)&beta64 : (const void *)&beta32;
    switch (s->key.pass) {
    case TP__CONV_FORWARD:
        return cudnnConvolutionForward(c->dnn, alpha, s->x, x, s->w, w, s->conv, (cudnnConvolutionFwdAlgo_t)s->algo,
                                       workspace, s->workspace, beta, s->y, y);
    case TP__CONV_INPUT_GRAD:
        return cudnnConvolutionBackwardData(c->dnn, alpha, s->w, w, s->y, y, s->conv,
                                            (cudnnConvolutionBwdDataAlgo_t)s->algo, workspace, s->workspace, beta, s->x,
                                            x);
    default:
        return cudnnConvolutionBackwardFilter(c->dnn, alpha, s->x, x, s->y, y, s->conv,
                                              (cudnnConvolutionBwdFilterAlgo_t)s->algo, workspace, s->workspace, beta,
                                              s->w, w);
    }
}

/* -- conv2d: the three ops */

enum { TP__BY_PRODUCT, TP__BY_DEPTH, TP__BY_TILES, TP__BY_CUDNN, TP__BY_ITSELF };

typedef struct tp__conv_job {
    tp__conv g, cudnn_shape; /* g: shape of the call; cudnn_shape: the shape in the layout that cuDNN gets */
    int pass, method;
    tp_dtype dtype;
    int64_t images; /* number of images in a call of cuDNN, which counts elements in 32 bits */
    /* cuDNN's choices for a full call, and for the last call with fewer images; NULL: none */
    tp__conv_choice *full_call, *last_call;
    size_t filter, frame, workspace; /* bytes of scratch: transposed filter, padded images, workspace */
    size_t copy_x, copy_y;           /* bytes of scratch: x and y in another layout */
} tp__conv_job;

static size_t tp__round256(size_t n) { return (n + 255) & ~(size_t)255; }

static tp__conv_job tp__conv_job_of(const tp_call *k, int pass)
{
    tp__cuda *c = tp__cuda_of(k);
    tp__conv_job j;
    memset(&j, 0, sizeof j);
    j.pass = pass;
    j.dtype = k->out[0].dtype;
    j.g = tp__conv_geometry((const tp_conv2d_attrs *)k->attrs, &k->in[pass == TP__CONV_INPUT_GRAD ? 2 : 0].shape,
                            &k->in[pass == TP__CONV_FILTER_GRAD ? 2 : 1].shape);
    const tp__conv *g = &j.g;
    const size_t size = tp__dtype_size(j.dtype);
    const int64_t filter_elements = g->KH * g->KW * (g->C / g->groups),
                  image_x = g->C * (g->H + tp__extra_pad_row(g)) * (g->W + tp__extra_pad_column(g)),
                  image_y = g->O * g->OH * g->OW, image = image_x > image_y ? image_x : image_y,
                  most = TP__CONV_ELEMENTS;
    j.method = TP__BY_ITSELF;
    if (g->B * image_x == 0 || g->B * image_y == 0 || filter_elements == 0)
        return j; /* a tensor without elements: all sums are empty, and no kernel runs */
    const bool point = g->KH == 1 && g->KW == 1 && g->stride_h == 1 && g->stride_w == 1,
               whole = g->OH == 1 && g->OW == 1 && g->KH == g->H && g->KW == g->W && g->dilation_h == 1 &&
                       g->dilation_w == 1 && g->top == 0 && g->left == 0;
    if (!g->nchw && g->groups == 1 && (point || whole)) {
        j.method = TP__BY_PRODUCT;
        return j;
    }
    if (g->groups == g->C && g->C > 1 && g->B * image < (int64_t)1 << 30) {
        j.method = TP__BY_DEPTH;
        if (pass != TP__CONV_FILTER_GRAD) return j;
        const tp__depth_cut s = tp__depth_cut_of(g);
        j.workspace = (size_t)(s.pieces * s.taps * g->O) * (j.dtype == TP_F64 ? sizeof(double) : sizeof(float));
        return j;
    }
#ifndef TP_CUDA_DIRECT_CONV
    if (tp__conv_by_tiles(c, g, pass, j.dtype, k->precision)) {
        j.method = TP__BY_TILES;
        j.workspace = tp__tile_scratch(c, g, pass, j.dtype);
        return j;
    }
    if (image > most || filter_elements * g->O > most) return j;
    j.images = most / image < g->B ? most / image : g->B;
    /* try the given layout first, then NCHW */
    for (int as_nchw = 0; as_nchw < (g->nchw ? 1 : 2) && j.method != TP__BY_CUDNN; as_nchw++) {
        j.cudnn_shape = *g;
        if (as_nchw) tp__conv_strides(&j.cudnn_shape, true);
        j.full_call = tp__conv_choice_of(c, &j.cudnn_shape, pass, j.dtype, k->precision, j.images);
        if (!j.full_call || !j.full_call->usable) continue;
        j.workspace = j.full_call->workspace;
        j.last_call = g->B % j.images == 0
                          ? NULL
                          : tp__conv_choice_of(c, &j.cudnn_shape, pass, j.dtype, k->precision, g->B % j.images);
        if (g->B % j.images && (!j.last_call || !j.last_call->usable)) continue;
        if (j.last_call && j.last_call->workspace > j.workspace) j.workspace = j.last_call->workspace;
        j.method = TP__BY_CUDNN;
    }
    if (j.method != TP__BY_CUDNN) return j;
    if (j.cudnn_shape.nchw != g->nchw) {
        j.copy_x = tp__round256((size_t)(j.images * g->x_stride_b) * size);
        j.copy_y = tp__round256((size_t)(j.images * g->y_stride_b) * size);
    }
    j.filter = tp__round256((size_t)(filter_elements * g->O) * size);
    if (tp__extra_pad_row(g) || tp__extra_pad_column(g)) j.frame = tp__round256((size_t)(j.images * image_x) * size);
#else
    (void)c, (void)size, (void)most;
#endif
    return j;
}
static size_t tp__conv_scratch(const tp_call *k, int pass)
{
    const tp__conv_job j = tp__conv_job_of(k, pass);
    return j.method == TP__BY_ITSELF ? 0 : j.filter + j.frame + j.copy_x + j.copy_y + tp__round256(j.workspace);
}

static void tp__conv_product(const tp_call *k, const tp__conv_job *j, void *x, void *w, void *y, const void *bias,
                             bool relu)
{
    const int64_t places = j->g.B * j->g.OH * j->g.OW, taps = j->g.KH * j->g.KW * j->g.C, O = j->g.O;
    tp__gemm_shape s;
    memset(&s, 0, sizeof s);
    s.batch = 1;
    s.alpha = 1;
    s.dtype = s.out = j->dtype;
    s.precision = k->precision;
    if (j->pass == TP__CONV_FORWARD) {
        s.M = places, s.N = O, s.K = taps, s.bias = bias != NULL, s.relu = relu;
        tp__gemm(k, &s, x, w, y, bias);
    } else if (j->pass == TP__CONV_INPUT_GRAD) {
        s.M = places, s.N = taps, s.K = O, s.tb = true;
        tp__gemm(k, &s, y, w, x, NULL);
    } else {
        s.M = taps, s.N = O, s.K = places, s.ta = true;
        tp__gemm(k, &s, x, y, w, NULL);
    }
}
static void tp__conv_depthwise(const tp_call *k, const tp__conv_job *j, void *x, void *w, void *y)
{
    const tp__conv *g = &j->g;
    const int64_t C4 = g->C / 4, n = j->pass == TP__CONV_FORWARD
                                         ? g->B * g->OH * ((g->OW + TP__DEPTH_ROW - 1) / TP__DEPTH_ROW) * C4
                                         : g->B * g->H * ((g->W + TP__DEPTH_ROW - 1) / TP__DEPTH_ROW) * C4;
    if (j->pass == TP__CONV_FORWARD)
        TP_REALS(j->dtype, TP_RUN(k, (tp__depthwise_forward<T>), n, *g, (const T *)x, (const T *)w, (T *)y, (int)n););
    else TP_REALS(j->dtype, TP_RUN(k, (tp__depthwise_input<T>), n, *g, (const T *)y, (const T *)w, (T *)x, (int)n););
}
static void tp__conv_depthwise_filter(const tp_call *k, const tp__conv_job *j, void *x, void *w, void *y)
{
    const tp__conv *g = &j->g;
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
    if (j->pass == TP__CONV_FORWARD)
        TP_REALS(j->dtype, TP_RUN(k, (tp__conv_forward<T>), n, j->g, (const T *)x, (const T *)w, (T *)y, n););
    else if (j->pass == TP__CONV_INPUT_GRAD)
        TP_REALS(j->dtype, TP_RUN(k, (tp__conv_input<T>), n, j->g, (const T *)y, (const T *)w, (T *)x, n););
    else TP_REALS(j->dtype, TP_RUN(k, (tp__conv_filter<T>), n, j->g, (const T *)x, (const T *)y, (T *)w, n););
}
/* Converts images between the layouts: N images of S pixels with C channels. */
static void tp__conv_change_layout(const tp_call *k, size_t size, const void *from, void *to, int64_t N, int64_t S,
                                   int64_t C, bool to_nchw)
{
    tp__moving m;
    memset(&m, 0, sizeof m);
    m.src = (const char *)from, m.dst = (char *)to, m.size = (int64_t)size;
    tp__moving_add(&m, N, S * C, S * C);
    tp__moving_add(&m, to_nchw ? C : S, to_nchw ? S : C, 1);
    tp__moving_add(&m, to_nchw ? S : C, 1, to_nchw ? C : S);
    tp__move_cuda(k, &m);
}
/* Runs cuDNN on all images, in one or several calls; false if cuDNN fails although it reported support. */
static bool tp__conv_all_images(const tp_call *k, const tp__conv_job *j, void *x, void *w, void *y)
{
    const tp__conv *g = &j->cudnn_shape;
    tp__cuda *c = tp__cuda_of(k);
    const size_t size = tp__dtype_size(j->dtype);
    char *filter = (char *)k->scratch, *frame = filter + j->filter, *copy_x = frame + j->frame;
    char *copy_y = copy_x + j->copy_x, *workspace = copy_y + j->copy_y;
    const int64_t places_x = g->H * g->W, places_y = g->OH * g->OW;
    if (j->pass != TP__CONV_FILTER_GRAD) tp__run_transpose_filter(k, g, j->dtype, w, filter, false);
    for (int64_t at = 0; at < g->B; at += j->images) {
        const tp__conv_choice *s = g->B - at >= j->images ? j->full_call : j->last_call;
        char *from_x = (char *)x + (size_t)(at * g->x_stride_b) * size,
             *from_y = (char *)y + (size_t)(at * g->y_stride_b) * size;
        char *px = j->copy_x ? copy_x : from_x, *py = j->copy_y ? copy_y : from_y;
        if (px != from_x && j->pass != TP__CONV_INPUT_GRAD)
            tp__conv_change_layout(k, size, from_x, px, s->key.B, places_x, g->C, true);
        if (py != from_y && j->pass != TP__CONV_FORWARD)
            tp__conv_change_layout(k, size, from_y, py, s->key.B, places_y, g->O, true);
        if (j->frame && j->pass != TP__CONV_INPUT_GRAD) tp__run_pad_frame(k, g, j->dtype, s->key.B, px, frame, false);
        const bool add = j->pass == TP__CONV_FILTER_GRAD && at > 0;
        tp__library_begin(c);
        const cudnnStatus_t st = tp__conv_by_cudnn(c, s, j->frame ? frame : px, filter, py, workspace, add);
        tp__library_end(c);
        /* cuDNN's status codes for "not supported" have the same number of thousands */
        if ((int)st / 1000 == (int)CUDNN_STATUS_NOT_SUPPORTED / 1000) {
            c->say(TP_LOG_WARN, "%s: cuDNN has no %s after all (%s): a slow kernel makes it", c->device.name,
                   k->op->name, cudnnGetErrorString(st));
            return false;
        }
        if (st != CUDNN_STATUS_SUCCESS) tp__store_error(c, k->op->name, cudnnGetErrorString(st));
        if (j->frame && j->pass == TP__CONV_INPUT_GRAD) tp__run_pad_frame(k, g, j->dtype, s->key.B, frame, px, true);
        if (px != from_x && j->pass == TP__CONV_INPUT_GRAD)
            tp__conv_change_layout(k, size, px, from_x, s->key.B, places_x, g->C, false);
        if (py != from_y && j->pass == TP__CONV_FORWARD)
            tp__conv_change_layout(k, size, py, from_y, s->key.B, places_y, g->O, false);
    }
    if (j->pass == TP__CONV_FILTER_GRAD) tp__run_transpose_filter(k, g, j->dtype, filter, w, true);
    return true;
}

static void tp__conv_run(const tp_call *k, int pass)
{
    tp__conv_job j = tp__conv_job_of(k, pass);
    void *x = pass == TP__CONV_INPUT_GRAD ? k->out[0].data : k->in[0].data;
    void *w = pass == TP__CONV_FILTER_GRAD ? k->out[0].data : k->in[1].data;
    void *y = pass == TP__CONV_FORWARD ? k->out[0].data : pass == TP__CONV_INPUT_GRAD ? k->in[0].data : k->in[1].data;
    const tp_operand *bias = k->fused.bias ? &k->in[k->fused.bias] : NULL;
    const bool relu = k->fused.act == TP_EPILOGUE_RELU;
    const void *addend = k->fused.add ? k->in[k->fused.add].data : NULL; /* only by tiles: tp__cuda_can_add */
    if (tp__size(&k->out[0]) == 0) return;
    if (j.method == TP__BY_PRODUCT) {
        /* whether cuBLASLt can add the bias itself */
        const bool fuse_bias = bias && j.dtype != TP_F64 && bias->dtype == j.dtype;
        tp__conv_product(k, &j, x, w, y, fuse_bias ? bias->data : NULL, fuse_bias && relu);
        if (fuse_bias) return;
    } else if (j.method == TP__BY_TILES) {
        const bool fuse_bias = bias && bias->dtype == j.dtype;
        const void *b = fuse_bias ? bias->data : NULL;
        if (pass == TP__CONV_FORWARD)
            tp__conv_tiles_of<TP__CONV_FORWARD>(k, &j.g, j.dtype, x, w, b, fuse_bias && relu, addend, y);
        else if (pass == TP__CONV_INPUT_GRAD)
            tp__conv_tiles_of<TP__CONV_INPUT_GRAD>(k, &j.g, j.dtype, y, w, NULL, false, NULL, x);
        else tp__conv_tiles_of<TP__CONV_FILTER_GRAD>(k, &j.g, j.dtype, x, y, NULL, false, NULL, w);
        if (fuse_bias) return;
    } else if (j.method == TP__BY_CUDNN) {
        if (!tp__conv_all_images(k, &j, x, w, y)) tp__conv_directly(k, &j, x, w, y);
    } else if (j.method == TP__BY_DEPTH && pass == TP__CONV_FILTER_GRAD) tp__conv_depthwise_filter(k, &j, x, w, y);
    else if (j.method == TP__BY_DEPTH && !j.g.nchw && j.g.O == j.g.C && j.g.C % 4 == 0)
        tp__conv_depthwise(k, &j, x, w, y);
    else tp__conv_directly(k, &j, x, w, y);
    if (bias) tp__run_bias(k, y, bias, &k->out[0], j.g.y_stride_c, relu);
}
/* Only convolutions by tiles add a value themselves. After the others a chain does it, together with the ops that follow. */
static bool tp__cuda_can_add(tp_device *d, const tp_call *k)
{
    cudaSetDevice(((const tp__cuda *)d)->ordinal); /* cuDNN may be asked */
    return k->out[0].dtype == TP_F32 && tp__conv_job_of(k, TP__CONV_FORWARD).method == TP__BY_TILES;
}
static void tp__conv2d_cuda(const tp_call *k) { tp__conv_run(k, TP__CONV_FORWARD); }
static void tp__conv2d_input_grad_cuda(const tp_call *k) { tp__conv_run(k, TP__CONV_INPUT_GRAD); }
static void tp__conv2d_filter_grad_cuda(const tp_call *k) { tp__conv_run(k, TP__CONV_FILTER_GRAD); }
static size_t tp__conv2d_scratch(const tp_call *k) { return tp__conv_scratch(k, TP__CONV_FORWARD); }
static size_t tp__conv2d_input_grad_scratch(const tp_call *k) { return tp__conv_scratch(k, TP__CONV_INPUT_GRAD); }
static size_t tp__conv2d_filter_grad_scratch(const tp_call *k) { return tp__conv_scratch(k, TP__CONV_FILTER_GRAD); }

/* Rounds the float32 sum of a product together with its bias, if cuBLASLt cannot add the bias. */
TP_KERNEL tp__bias_of_sums(const float *x, const void *b, int dtype_b, void *y, int dtype, int64_t n, int64_t C)
{
    TP_EACH(i, n) tp__put_as(y, dtype, i, (double)(x[i] + (float)tp__get_as(b, dtype_b, i % C)));
}
static void tp__bias_add_cuda(const tp_call *k)
{
    const tp_shape *x = &k->in[0].shape;
    const int axis = ((const tp__bias_attrs *)k->attrs)->data_format == TP_NCHW ? 1 : x->ndim - 1;
    if (k->in[0].dtype != k->out[0].dtype) {
        const int64_t n = tp__size(&k->out[0]);
        TP_RUN(k, tp__bias_of_sums, n, (const float *)k->in[0].data, k->in[1].data, (int)k->in[1].dtype, k->out[0].data,
               (int)k->out[0].dtype, n, x->dim[axis]);
        return;
    }
    tp__run_bias(k, k->in[0].data, &k->in[1], &k->out[0], tp__product_of(x, axis + 1, x->ndim), false);
}

/* -- max_pool, avg_pool. The gradients gather: each element of x reads the windows that contain it, in their order. */

typedef struct tp__pool_shape {
    int64_t B, H, W, C, OH, OW, window_h, window_w, stride_h, stride_w, top, left, x_elements,
        y_elements;     /* number of elements of x, and of y */
    bool nchw, by_four; /* by_four: a thread processes four channels */
} tp__pool_shape;

static tp__pool_shape tp__pool_shape_of(const tp_call *k, const tp_shape *x)
{
    const tp_pool_attrs *a = (const tp_pool_attrs *)k->attrs;
    tp__pool_shape g;
    memset(&g, 0, sizeof g);
    g.nchw = a->data_format == TP_NCHW;
    g.window_h = a->size_h;
    g.window_w = a->size_w;
    g.stride_h = a->stride_h ? a->stride_h : g.window_h;
    g.stride_w = a->stride_w ? a->stride_w : g.window_w;
    g.B = x->dim[0];
    g.C = x->dim[g.nchw ? 1 : 3];
    g.H = x->dim[g.nchw ? 2 : 1];
    g.W = x->dim[g.nchw ? 3 : 2];
    tp__same_or_valid(a->padding == TP_SAME ? TP_SAME : TP_VALID, g.H, g.window_h, g.stride_h, 1, &g.OH, &g.top);
    tp__same_or_valid(a->padding == TP_SAME ? TP_SAME : TP_VALID, g.W, g.window_w, g.stride_w, 1, &g.OW, &g.left);
    g.x_elements = g.B * g.H * g.W * g.C;
    g.y_elements = g.B * g.OH * g.OW * g.C;
    g.by_four = !g.nchw && g.C % 4 == 0;
    return g;
}
#define TP__RUN_POOL(k_, kernel_, T_, g_, n_, ...)   \
    TP__RUN_FOURS(k_, kernel_, T_, (g_).by_four, n_, \
                  (g_).x_elements > (g_).y_elements ? (g_).x_elements : (g_).y_elements, g_, __VA_ARGS__)

template <class I> __device__ __forceinline__ I tp__pool_x(const tp__pool_shape &g, I b, I h, I w, I c)
{
    return g.nchw ? ((b * (I)g.C + c) * (I)g.H + h) * (I)g.W + w : ((b * (I)g.H + h) * (I)g.W + w) * (I)g.C + c;
}
template <class I> __device__ __forceinline__ I tp__pool_y(const tp__pool_shape &g, I b, I i, I j, I c)
{
    return g.nchw ? ((b * (I)g.C + c) * (I)g.OH + i) * (I)g.OW + j : ((b * (I)g.OH + i) * (I)g.OW + j) * (I)g.C + c;
}
/* Finds the first and the last pooling window that contain element h; `before` is the padding before the image. */
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
/* The positions of the maxima in the windows of V adjacent elements, stored as bytes or 32-bit integers. */
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
    TP__EACH_FOUR(I, V, at, g.y_elements)
    {
        const tp__pixel<I> o = tp__pixel_of<I>(at, (I)g.OH, (I)g.OW, (I)g.C, g.nchw);
        R most[V] = {};
        int best[V];
        for (int e = 0; e < V; e++) best[e] = -1;
        for (I p = 0; p < (I)g.window_h; p++) {
            const I h = o.h * (I)g.stride_h + p - (I)g.top;
            if (h < 0 || h >= (I)g.H) continue;
            for (I q = 0; q < (I)g.window_w; q++) {
                const I v = o.w * (I)g.stride_w + q - (I)g.left;
                if (v < 0 || v >= (I)g.W) continue;
                R a[V];
                tp__load(x + tp__pool_x<I>(g, o.b, h, v, o.c), a);
                for (int e = 0; e < V; e++)
                    if (best[e] < 0 || a[e] > most[e] || (a[e] != a[e] && most[e] == most[e])) {
                        best[e] = (int)(p * (I)g.window_w + q);
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
    TP__EACH_FOUR(I, V, at, g.x_elements)
    {
        const tp__pixel<I> x = tp__pixel_of<I>(at, (I)g.H, (I)g.W, (I)g.C, g.nchw);
        const I i1 = tp__last_window<I>(x.h, g.top, g.stride_h, g.OH),
                j0 = tp__first_window<I>(x.w, g.left, g.window_w, g.stride_w),
                j1 = tp__last_window<I>(x.w, g.left, g.stride_w, g.OW);
        R sum[V] = {};
        for (I i = tp__first_window<I>(x.h, g.top, g.window_h, g.stride_h); i <= i1; i++)
            for (I j = j0; j <= j1; j++) {
                const I from = tp__pool_y<I>(g, x.b, i, j, x.c);
                const int place_in_window =
                    (int)((x.h + (I)g.top - i * (I)g.stride_h) * (I)g.window_w + x.w + (I)g.left - j * (I)g.stride_w);
                int w[V];
                R d[V];
                tp__load_places(at8, at32, (int64_t)from, w);
                tp__load(dy + from, d);
                for (int e = 0; e < V; e++)
                    if (w[e] == place_in_window) sum[e] += d[e];
            }
        tp__store(dx + at, sum);
    }
}
template <class T, int V, class I>
TP_KERNEL tp__max_pool_take_kernel(const tp__pool_shape g, const T *x, const uint8_t *at8, const int32_t *at32, T *y)
{
    typedef tp__real<T> R;
    TP__EACH_FOUR(I, V, at, g.y_elements)
    {
        const tp__pixel<I> o = tp__pixel_of<I>(at, (I)g.OH, (I)g.OW, (I)g.C, g.nchw);
        int w[V];
        R v[V];
        tp__load_places(at8, at32, (int64_t)at, w);
        for (int e = 0; e < V; e++) {
            const I h = o.h * (I)g.stride_h + (I)(w[e] / (int)g.window_w) - (I)g.top,
                    u = o.w * (I)g.stride_w + (I)(w[e] % (int)g.window_w) - (I)g.left;
            const bool inside =
                w[e] >= 0 && (int64_t)w[e] < g.window_h * g.window_w && h >= 0 && h < (I)g.H && u >= 0 && u < (I)g.W;
            v[e] = inside ? tp__get(x, tp__pool_x<I>(g, o.b, h, u, o.c + (I)e)) : R(0);
        }
        tp__store(y + at, v);
    }
}
template <class T, int V, class I> TP_KERNEL tp__avg_pool_kernel(const tp__pool_shape g, const T *x, T *y)
{
    typedef tp__real<T> R;
    TP__EACH_FOUR(I, V, at, g.y_elements)
    {
        const tp__pixel<I> o = tp__pixel_of<I>(at, (I)g.OH, (I)g.OW, (I)g.C, g.nchw);
        R sum[V] = {}, n = 0;
        for (I p = 0; p < (I)g.window_h; p++) {
            const I h = o.h * (I)g.stride_h + p - (I)g.top;
            if (h < 0 || h >= (I)g.H) continue;
            for (I q = 0; q < (I)g.window_w; q++) {
                const I v = o.w * (I)g.stride_w + q - (I)g.left;
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
    TP__EACH_FOUR(I, V, at, g.x_elements)
    {
        const tp__pixel<I> x = tp__pixel_of<I>(at, (I)g.H, (I)g.W, (I)g.C, g.nchw);
        const I i1 = tp__last_window<I>(x.h, g.top, g.stride_h, g.OH),
                j0 = tp__first_window<I>(x.w, g.left, g.window_w, g.stride_w),
                j1 = tp__last_window<I>(x.w, g.left, g.stride_w, g.OW);
        R sum[V] = {};
        for (I i = tp__first_window<I>(x.h, g.top, g.window_h, g.stride_h); i <= i1; i++) {
            const I h0 = i * (I)g.stride_h - (I)g.top, h1 = h0 + (I)g.window_h;
            const I high = (h1 < (I)g.H ? h1 : (I)g.H) - (h0 > 0 ? h0 : 0);
            for (I j = j0; j <= j1; j++) {
                const I v0 = j * (I)g.stride_w - (I)g.left, v1 = v0 + (I)g.window_w;
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
    TP_REALS(k->in[0].dtype, TP__RUN_POOL(k, tp__max_pool_kernel, T, g, g.y_elements, (const T *)k->in[0].data,
                                          (T *)k->out[0].data, at8, at32););
}
static void tp__max_pool_grad_cuda(const tp_call *k) /* inputs of max_pool_grad: dy, argmax, x (only its shape) */
{
    const tp__pool_shape g = tp__pool_shape_of(k, &k->in[2].shape);
    TP_REALS(k->in[0].dtype,
             TP__RUN_POOL(k, tp__max_pool_grad_kernel, T, g, g.x_elements, (const T *)k->in[0].data,
                          tp__bytes_or_null(&k->in[1]), tp__ints_or_null(&k->in[1]), (T *)k->out[0].data););
}
static void tp__max_pool_take_cuda(const tp_call *k) /* inputs of max_pool_take: x, argmax */
{
    const tp__pool_shape g = tp__pool_shape_of(k, &k->in[0].shape);
    TP_REALS(k->in[0].dtype,
             TP__RUN_POOL(k, tp__max_pool_take_kernel, T, g, g.y_elements, (const T *)k->in[0].data,
                          tp__bytes_or_null(&k->in[1]), tp__ints_or_null(&k->in[1]), (T *)k->out[0].data););
}
static void tp__avg_pool_cuda(const tp_call *k)
{
    const tp__pool_shape g = tp__pool_shape_of(k, &k->in[0].shape);
    TP_REALS(k->in[0].dtype,
             TP__RUN_POOL(k, tp__avg_pool_kernel, T, g, g.y_elements, (const T *)k->in[0].data, (T *)k->out[0].data););
}
static void tp__avg_pool_grad_cuda(const tp_call *k) /* inputs of avg_pool_grad: dy, x (only its shape) */
{
    const tp__pool_shape g = tp__pool_shape_of(k, &k->in[1].shape);
    TP_REALS(k->in[0].dtype, TP__RUN_POOL(k, tp__avg_pool_grad_kernel, T, g, g.x_elements, (const T *)k->in[0].data,
                                          (T *)k->out[0].data););
}

static const tp__cuda_kernel tp__cuda_convolution[] = {
    {"conv2d", tp__conv2d_cuda, tp__conv2d_scratch},
    {"conv2d_input_grad", tp__conv2d_input_grad_cuda, tp__conv2d_input_grad_scratch},
    {"conv2d_filter_grad", tp__conv2d_filter_grad_cuda, tp__conv2d_filter_grad_scratch},
    {"bias_add", tp__bias_add_cuda, NULL},
    {"max_pool", tp__max_pool_cuda, NULL},
    {"max_pool_grad", tp__max_pool_grad_cuda, NULL},
    {"max_pool_take", tp__max_pool_take_cuda, NULL},
    {"avg_pool", tp__avg_pool_cuda, NULL},
    {"avg_pool_grad", tp__avg_pool_grad_cuda, NULL},
    {NULL, NULL, NULL}};

/* ==== >>normalisation ================================================================================= */
/* batch_norm in three steps: sums over pieces of x, their combination in double for each channel, and a pass that writes. The
 * size of a piece depends only on the shape, and so does the order of every sum. Channels last (inner = 1): a block processes
 * `lanes` groups of channels, and its other threads further rows. Otherwise a block sums one channel. */

typedef struct tp__bn_cut {
    int64_t C, inner, n;       /* n: number of elements per channel */
    int64_t per_piece, pieces; /* elements of a channel in a piece; number of pieces */
    int64_t tiles;             /* number of blocks that together cover all channels */
    int lanes, lane_bits;      /* with channels last: number of adjacent threads that read a row, 2^lane_bits */
    int wide;                  /* number of adjacent elements that a thread reads at once: 1, 4 or 8 */
} tp__bn_cut;

static tp__bn_cut tp__bn_cut_of(const tp_call *k, const tp_operand *x)
{
    const int axis = tp__axis(((const tp__bn_attrs *)k->attrs)->axis, x->shape.ndim);
    tp__bn_cut s;
    memset(&s, 0, sizeof s);
    s.C = x->shape.dim[axis];
    s.inner = tp__product_of(&x->shape, axis + 1, x->shape.ndim);
    s.n = tp__product_of(&x->shape, 0, axis) * s.inner;
    /* float64 is not read four at a time, see tp__fours */
    s.wide = x->dtype == TP_F64 || (s.inner == 1 ? s.C : s.inner) % 4 ? 1 : 4;
    if (s.inner == 1 && s.C % 8 == 0 && (x->dtype == TP_BF16 || x->dtype == TP_F16)) s.wide = 8;
    s.tiles = s.C;
    s.lanes = 1;
    /* limits of a piece's elements: enough work for a block, few enough for sums in float */
    int64_t min_per_piece = 4096, max_per_piece = 65536;
    if (s.inner == 1) {
        const int64_t n_columns = s.C / s.wide;
        while (s.lanes < 32 && s.lanes < n_columns) s.lanes *= 2, s.lane_bits++;
        s.tiles = (n_columns + s.lanes - 1) / s.lanes;
        min_per_piece = TP__THREADS / s.lanes * 8;
        max_per_piece = TP__THREADS / s.lanes * 256;
    }
    /* 396: three blocks for each of an H100's multiprocessors. They run at once and end at about the same time. */
    const int64_t wanted_pieces = s.tiles > 0 && s.tiles < 396 ? 396 / s.tiles : 1;
    s.per_piece = (s.n + wanted_pieces - 1) / wanted_pieces;
    if (s.per_piece < min_per_piece) s.per_piece = min_per_piece;
    if (s.per_piece > max_per_piece) s.per_piece = max_per_piece;
    s.per_piece = (s.per_piece + 3) & ~(int64_t)3;
    s.pieces = (s.n + s.per_piece - 1) / s.per_piece;
    return s;
}
/* How the passes that write cut x: with channels last in short pieces, a few rows for a thread. No bit of the result depends on it. */
static tp__bn_cut tp__bn_write_cut(const tp__bn_cut *sums)
{
    tp__bn_cut s = *sums;
    if (s.inner != 1) return s;
    s.per_piece = TP__THREADS / s.lanes * 8;
    s.pieces = (s.n + s.per_piece - 1) / s.per_piece;
    return s;
}
/* Layout of batch norm's scratch, all tp__real: two sums for each piece and channel, then eight vectors of C elements. */
static size_t tp__bn_scratch(const tp_call *k)
{
    const tp_operand *x = &k->in[k->n_out == 3 ? 1 : 0]; /* with three outputs the op is batch_norm_grad */
    const tp__bn_cut s = tp__bn_cut_of(k, x);
    return (size_t)((2 * s.pieces + 8) * s.C) * (x->dtype == TP_F64 ? sizeof(double) : sizeof(float));
}

__device__ __forceinline__ float tp__fused(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double tp__fused(double a, double b, double c) { return fma(a, b, c); }
/* Computes y of batch_norm; its gradient needs the same bits, to know where a ReLU was active. */
template <class R> __device__ __forceinline__ R tp__bn_value(R x, R mean, R scale, R beta)
{
    return tp__fused(x - mean, scale, beta);
}

template <class R> __device__ __forceinline__ R tp__finite(R x) { return x - x == 0 ? x : (R)0; }

/* Sums of x - shift and its square, where shift is the first value that a thread reads. Cancellation is harmless: the sum of
 * squares about one of n values is at most about n times the sum about their mean. */
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
    /* Ends the sums over n elements: computes the mean, and the sum of squares about the mean. */
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

/* The rows [from, to) of x that this block processes, and the part of them that a thread processes: `rows` rows from `first` on, each
 * `slots` after the one before, of the channels from c on. */
struct tp__bn_block {
    int64_t from, to, first, c;
    int lane, slot, slots, rows;
    bool in_range;
};
template <int V> __device__ __forceinline__ tp__bn_block tp__bn_block_of(const tp__bn_cut &s, unsigned block)
{
    tp__bn_block b;
    const unsigned tiles = (unsigned)s.tiles,
                   piece = block / tiles; /* divisions of 64 bits take as long as the loads */
    b.lane = (int)threadIdx.x & (s.lanes - 1);
    b.slot = (int)(threadIdx.x >> s.lane_bits);
    b.slots = TP__THREADS >> s.lane_bits;
    b.from = piece * s.per_piece;
    b.to = b.from + s.per_piece < s.n ? b.from + s.per_piece : s.n;
    b.c = (((int64_t)(block - piece * tiles) << s.lane_bits) + b.lane) * V;
    b.in_range = b.c < s.C;
    b.first = b.from + b.slot;
    b.rows = b.in_range && b.first < b.to ? (int)(b.to - b.first + b.slots - 1) >> (8 - s.lane_bits) : 0;
    return b;
}

/* Adds the values that the block's slots (groups of threads) have of each of their columns, in pairs of slots: a[t] and b[t] become the
 * sums of column t. */
template <class R> __device__ __forceinline__ void tp__bn_add_rows(R *a, R *b, int columns, int slots)
{
    for (int d = slots / 2; d > 0; d /= 2) {
        __syncthreads();
        for (int e = (int)threadIdx.x; e < d * columns; e += TP__THREADS) {
            a[e] += a[e + d * columns];
            b[e] += b[e + d * columns];
        }
    }
    __syncthreads();
}
/* A thread loads the next N rows, at most BYTES of an operand, before it uses the first of them. */
template <class T, int V, int BYTES> struct tp__rows_ahead {
    enum { WANTED = BYTES / (V * (int)sizeof(T)), N = WANTED < 8 ? WANTED : 8 };
};
template <class T, int V> TP_KERNEL_RESIDENT(3) tp__bn_part_rows(const tp__bn_cut s, const T *x, tp__real<T> *part)
{
    typedef tp__real<T> R;
    TP_SHARED(R, means, TP__THREADS * V);
    TP_SHARED(R, arounds, TP__THREADS * V);
    const tp__bn_block b = tp__bn_block_of<V>(s, blockIdx.x);
    const int64_t stride = b.slots * s.C;
    const int rows = b.rows;
    R mean[V] = {}, around[V] = {};
    if (rows > 0) {
        const T *p = x + b.first * s.C + b.c;
        tp__bn_sums<R, V> sums;
        enum { N = tp__rows_ahead<T, V, 128>::N };
        for (int r = 0; r < rows; r += N) {
            tp__packed<T, V> packed[N];
#pragma unroll
            for (int u = 0; u < N; u++)
                if (r + u < rows) tp__load_packed(p + (r + u) * stride, packed[u]);
#pragma unroll
            for (int u = 0; u < N; u++) {
                if (r + u >= rows) break;
                R v[V];
                tp__unpack(packed[u], v);
                if (r + u == 0) sums.begin(v);
                sums.add(v);
            }
        }
        sums.end((R)rows, mean, around);
    }
    for (int e = 0; e < V; e++) means[threadIdx.x * V + e] = mean[e];
    __syncthreads();
    R near[V]; /* the mean of the first slot's rows: differences from it are small, which keeps precision */
    for (int e = 0; e < V; e++) near[e] = means[b.lane * V + e];
    __syncthreads();
    for (int e = 0; e < V; e++) {
        const R d = mean[e] - near[e];
        means[threadIdx.x * V + e] = rows > 0 ? (R)rows * d : (R)0;
        arounds[threadIdx.x * V + e] = rows > 0 ? around[e] + (R)rows * d * d : (R)0;
    }
    tp__bn_add_rows(means, arounds, s.lanes * V, b.slots);
    if (b.slot > 0 || !b.in_range) return;
    const int64_t piece = blockIdx.x / s.tiles;
    const R n = (R)(b.to - b.from);
    for (int e = 0; e < V; e++) {
        const R sum = means[b.lane * V + e], squares = arounds[b.lane * V + e] - sum * (sum / n);
        part[piece * s.C + b.c + e] = near[e] + sum / n;
        part[(s.pieces + piece) * s.C + b.c + e] = squares < 0 ? (R)0 : squares;
    }
}

/* Batch norm's gradient needs the sums of dy and of dy (x - mean); if beta is given, only over elements where the ReLU
 * was active. */
template <class T> struct tp__bn_back { /* the operands of batch_norm_grad */
    const T *dy, *x;
    const tp__real<T> *gamma, *mean, *inv, *beta;
};
template <class T, int V>
TP_KERNEL_RESIDENT(3)
tp__bn_back_part_rows(const tp__bn_cut s, const tp__bn_back<T> in, tp__real<T> *part)
{
    typedef tp__real<T> R;
    TP_SHARED(R, firsts, TP__THREADS * V);
    TP_SHARED(R, seconds, TP__THREADS * V);
    const tp__bn_block b = tp__bn_block_of<V>(s, blockIdx.x);
    const int64_t stride = b.slots * s.C;
    const int rows = b.rows;
    R sum[V] = {}, product[V] = {};
    if (rows > 0) {
        const T *p = in.x + b.first * s.C + b.c, *q = in.dy + b.first * s.C + b.c;
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
    tp__bn_add_rows(firsts, seconds, s.lanes * V, b.slots);
    if (b.slot > 0 || !b.in_range) return;
    const int64_t piece = blockIdx.x / s.tiles;
    for (int e = 0; e < V; e++) {
        part[piece * s.C + b.c + e] = firsts[b.lane * V + e];
        part[(s.pieces + piece) * s.C + b.c + e] = seconds[b.lane * V + e];
    }
}

/* The passes that write process the pieces in reverse order: the pieces that were summed last are still in the cache. */
template <class T, int V>
TP_KERNEL_RESIDENT(3)
tp__bn_apply_rows(const tp__bn_cut s, const T *x, const T *more, T *y, const tp__real<T> *stat, bool relu)
{
    typedef tp__real<T> R;
    const tp__bn_block b = tp__bn_block_of<V>(s, gridDim.x - 1 - blockIdx.x);
    const int64_t first = b.first, stride = b.slots * s.C;
    const int rows = b.rows;
    if (rows == 0) return;
    const T *p = x + first * s.C + b.c, *a = more + (more ? first * s.C + b.c : 0);
    T *q = y + first * s.C + b.c;
    R mean[V], scale[V], beta[V];
    tp__load(stat + b.c, mean);
    tp__load(stat + s.C + b.c, scale);
    tp__load(stat + 2 * s.C + b.c, beta);
    enum { N = tp__rows_ahead<T, V, (V == 8 ? 32 : 64)>::N };
    for (int r = 0; r < rows; r += N) {
        tp__packed<T, V> packed[N], packed_more[N];
#pragma unroll
        for (int u = 0; u < N; u++) {
            if (r + u >= rows) break;
            tp__load_packed(p + (r + u) * stride, packed[u]);
            if (more) tp__load_packed(a + (r + u) * stride, packed_more[u]);
        }
#pragma unroll
        for (int u = 0; u < N; u++) {
            if (r + u >= rows) break;
            R v[V], other[V] = {};
            tp__unpack(packed[u], v);
            if (more) tp__unpack(packed_more[u], other);
            for (int e = 0; e < V; e++) {
                v[e] = tp__bn_value(v[e], mean[e], scale[e], beta[e]);
                if (more) v[e] = tp__as_stored<T>(v[e]) + other[e];
                if (relu && 0 > v[e]) v[e] = 0;
            }
            tp__store(q + (r + u) * stride, v);
        }
    }
}
/* stat, the vectors for batch norm's dx, holds for each channel: gamma inv, dbeta/N, inv dgamma/N */
template <class T, int V>
TP_KERNEL_RESIDENT(V == 8 ? 2 : 3)
tp__bn_back_apply_rows(const tp__bn_cut s, const tp__bn_back<T> in, const T *more, T *dx, const tp__real<T> *stat)
{
    typedef tp__real<T> R;
    const tp__bn_block b = tp__bn_block_of<V>(s, gridDim.x - 1 - blockIdx.x);
    const int64_t first = b.first, stride = b.slots * s.C;
    const int rows = b.rows;
    if (rows == 0) return;
    const T *p = in.x + first * s.C + b.c, *q = in.dy + first * s.C + b.c, *a = more + (more ? first * s.C + b.c : 0);
    T *to = dx + first * s.C + b.c;
    R mean[V], scale[V], c1[V], c2[V], beta[V] = {};
    tp__load(in.mean + b.c, mean);
    if (in.beta) tp__load(in.beta + b.c, beta);
    tp__load(stat + b.c, scale);
    tp__load(stat + s.C + b.c, c1);
    tp__load(stat + 2 * s.C + b.c, c2);
    enum { N = tp__rows_ahead<T, V, (sizeof(T) == 4 ? 48 : 32)>::N };
    for (int r = 0; r < rows; r += N) {
        tp__packed<T, V> packed_x[N], packed_dy[N], packed_more[N];
#pragma unroll
        for (int u = 0; u < N; u++) {
            if (r + u >= rows) break;
            tp__load_packed(p + (r + u) * stride, packed_x[u]);
            tp__load_packed(q + (r + u) * stride, packed_dy[u]);
            if (more) tp__load_packed(a + (r + u) * stride, packed_more[u]);
        }
#pragma unroll
        for (int u = 0; u < N; u++) {
            if (r + u >= rows) break;
            R v[V], d[V], other[V] = {};
            tp__unpack(packed_x[u], v);
            tp__unpack(packed_dy[u], d);
            if (more) tp__unpack(packed_more[u], other);
            for (int e = 0; e < V; e++) {
                if (in.beta && !(tp__bn_value(v[e], mean[e], scale[e], beta[e]) > 0)) d[e] = 0;
                d[e] = tp__rounded_product(scale[e], d[e] - c1[e] - (v[e] - mean[e]) * c2[e]);
                if (more) d[e] += other[e];
            }
            tp__store(to + (r + u) * stride, d);
        }
    }
}

/* -- channels before the last axis: (outer, C, inner) */

/* Returns the index in x of element e of channel c, where x is (outer, C, inner). */
template <class I> __device__ __forceinline__ I tp__bn_at(const tp__bn_cut &s, I e, I c)
{
    const I o = e / (I)s.inner;
    /* with o = e / inner this is (o C + c) inner + (e - o inner), rearranged */
    return (o * ((I)s.C - 1) + c) * (I)s.inner + e;
}
template <class T, int V, class I> TP_KERNEL tp__bn_part_planes(const tp__bn_cut s, const T *x, tp__real<T> *part)
{
    typedef tp__real<T> R;
    TP_SHARED(R, shared, 8);
    const int64_t piece = blockIdx.x / s.C;
    const I c = (I)(blockIdx.x - piece * s.C), from = (I)(piece * s.per_piece), step = (I)blockDim.x * V,
            to = (I)(s.n - piece * s.per_piece < s.per_piece ? s.n : (piece + 1) * s.per_piece);
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
    /* `total` sums differences from the piece's first element: they are small, which keeps precision */
    for (int v = 0; v < V; v++) total += n * (mean[v] - near);
    const R all = near + tp__block_sum(total, shared) / (R)(to - from);
    for (int v = 0; v < V; v++) squares += around[v] + n * (mean[v] - all) * (mean[v] - all);
    squares = tp__block_sum(squares, shared);
    if (threadIdx.x) return;
    part[piece * s.C + c] = all;
    part[(s.pieces + piece) * s.C + c] = squares;
}
template <class T, int V, class I>
TP_KERNEL tp__bn_back_part_planes(const tp__bn_cut s, const tp__bn_back<T> in, tp__real<T> *part)
{
    typedef tp__real<T> R;
    TP_SHARED(R, shared, 8);
    const int64_t piece = blockIdx.x / s.C;
    const I c = (I)(blockIdx.x - piece * s.C), from = (I)(piece * s.per_piece), step = (I)blockDim.x * V,
            to = (I)(s.n - piece * s.per_piece < s.per_piece ? s.n : (piece + 1) * s.per_piece);
    const R mean = in.mean[c], scale = in.gamma[c] * in.inv[c], beta = in.beta ? in.beta[c] : (R)0;
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
    sum = tp__block_sum(sum, shared);
    product = tp__block_sum(product, shared);
    if (threadIdx.x) return;
    part[piece * s.C + c] = sum;
    part[(s.pieces + piece) * s.C + c] = product;
}
template <class T, int V, class I>
TP_KERNEL tp__bn_apply_planes(const tp__bn_cut s, const T *x, const T *more, T *y, const tp__real<T> *stat, bool relu)
{
    typedef tp__real<T> R;
    TP__EACH_FOUR(I, V, at, s.n * s.C)
    {
        const I c = at / (I)s.inner % (I)s.C;
        const R mean = stat[c], scale = stat[(I)s.C + c], beta = stat[2 * (I)s.C + c];
        R v[V], other[V];
        tp__load(x + at, v);
        if (more) tp__load(more + at, other);
        for (int e = 0; e < V; e++) {
            v[e] = tp__bn_value(v[e], mean, scale, beta);
            if (more) v[e] = tp__as_stored<T>(v[e]) + other[e];
            if (relu && 0 > v[e]) v[e] = 0;
        }
        tp__store(y + at, v);
    }
}
template <class T, int V, class I>
TP_KERNEL tp__bn_back_apply_planes(const tp__bn_cut s, const tp__bn_back<T> in, const T *more, T *dx,
                                   const tp__real<T> *stat)
{
    typedef tp__real<T> R;
    TP__EACH_FOUR(I, V, at, s.n * s.C)
    {
        const I c = at / (I)s.inner % (I)s.C;
        const R mean = in.mean[c], scale = stat[c], c1 = stat[(I)s.C + c], c2 = stat[2 * (I)s.C + c],
                beta = in.beta ? in.beta[c] : (R)0;
        R u[V], d[V], other[V];
        tp__load(in.x + at, u);
        tp__load(in.dy + at, d);
        if (more) tp__load(more + at, other);
        for (int e = 0; e < V; e++) {
            if (in.beta && !(tp__bn_value(u[e], mean, scale, beta) > 0)) d[e] = 0;
            d[e] = tp__rounded_product(scale, d[e] - c1 - (u[e] - mean) * c2);
            if (more) d[e] += other[e];
        }
        tp__store(dx + at, d);
    }
}

/* -- for each channel: a block combines TP__BN_LANES channels, 64 pieces at a time. Values per channel are stored as P: the type of x,
 *    or float32 where the plan stores x in half precision. */
template <class T, bool FLOAT> struct tp__param_of {
    typedef T type;
};
template <> struct tp__param_of<tp__bf16, true> {
    typedef float type;
};
template <> struct tp__param_of<tp__f16, true> {
    typedef float type;
};
/* Runs the body with the type P, as TP_REALS does with T. */
#define TP__PARAMS(T_, dtype_, ...)                          \
    do {                                                     \
        if ((dtype_) == TP_F32) {                            \
            typedef typename tp__param_of<T_, true>::type P; \
            __VA_ARGS__                                      \
        } else {                                             \
            typedef T_ P;                                    \
            __VA_ARGS__                                      \
        }                                                    \
    } while (0)

/* Adds the values x and y of the block's slots, separately for each of their TP__BN_LANES lanes; all slots get the results. */
#define TP__BN_LANES 4
#define TP__BN_SUMS  (TP__THREADS / 32 * TP__BN_LANES) /* of the warps */
__device__ __forceinline__ void tp__bn_add_slots(double &x, double &y, double *shared)
{
    const int lane = (int)threadIdx.x % TP__BN_LANES;
    for (int d = 16; d >= TP__BN_LANES; d /= 2) {
        x += __shfl_xor_sync(0xffffffffu, x, d);
        y += __shfl_xor_sync(0xffffffffu, y, d);
    }
    if (threadIdx.x % 32 < TP__BN_LANES) {
        shared[threadIdx.x / 32 * TP__BN_LANES + lane] = x;
        shared[TP__BN_SUMS + threadIdx.x / 32 * TP__BN_LANES + lane] = y;
    }
    __syncthreads();
    x = y = 0;
    for (int w = 0; w < TP__BN_SUMS; w += TP__BN_LANES) {
        x += shared[w + lane];
        y += shared[TP__BN_SUMS + w + lane];
    }
}
/* stat, the vectors for batch norm's y, holds for each channel: mean, gamma inv, beta */
template <class T, class P>
TP_KERNEL tp__bn_combine(const tp__bn_cut s, const tp__real<T> *part, const P *gamma, const P *beta, P *out_mean,
                         P *out_var, P *out_inv, tp__real<T> *stat, float epsilon, bool unbiased)
{
    typedef tp__real<T> R;
    TP_SHARED(double, shared, 2 * TP__BN_SUMS);
    const int64_t c = (int64_t)blockIdx.x * TP__BN_LANES + threadIdx.x % TP__BN_LANES;
    const int64_t end = c < s.C ? s.pieces : 0;
    /* differences from the first piece's mean are small, which keeps precision */
    const double near = end > 0 ? (double)tp__finite(part[c]) : 0.0;
    double sum = 0, squares = 0;
#pragma unroll 8
    for (int64_t p = threadIdx.x / TP__BN_LANES; p < end; p += TP__THREADS / TP__BN_LANES) {
        const double n = (double)(s.n - p * s.per_piece < s.per_piece ? s.n - p * s.per_piece : s.per_piece);
        const double d = (double)part[p * s.C + c] - near;
        sum += n * d;
        squares += (double)part[(s.pieces + p) * s.C + c] + n * d * d;
    }
    tp__bn_add_slots(sum, squares, shared);
    const double n = (double)s.n, off = sum / n, mean = near + off;
    double var = squares / n - off * off;
    if (threadIdx.x >= TP__BN_LANES || c >= s.C) return;
    if (var < 0) var = 0;
    const R inv = (R)(1.0 / sqrt(var + (double)epsilon));
    if (out_mean) tp__put(out_mean, c, (R)mean);
    if (out_var) tp__put(out_var, c, (R)(unbiased && s.n > 1 ? var * (n / (n - 1)) : var));
    if (out_inv) tp__put(out_inv, c, inv);
    stat[c] = (R)mean;
    stat[s.C + c] = inv * tp__get(gamma, c);
    stat[2 * s.C + c] = tp__get(beta, c);
}
template <class T, class P>
TP_KERNEL tp__bn_back_combine(const tp__bn_cut s, const tp__real<T> *part, const tp__bn_back<T> in, P *dgamma, P *dbeta,
                              tp__real<T> *stat)
{
    typedef tp__real<T> R;
    TP_SHARED(double, shared, 2 * TP__BN_SUMS);
    const int64_t c = (int64_t)blockIdx.x * TP__BN_LANES + threadIdx.x % TP__BN_LANES;
    const int64_t end = c < s.C ? s.pieces : 0;
    double sum = 0, product = 0;
#pragma unroll 8
    for (int64_t p = threadIdx.x / TP__BN_LANES; p < end; p += TP__THREADS / TP__BN_LANES) {
        sum += (double)part[p * s.C + c];
        product += (double)part[(s.pieces + p) * s.C + c];
    }
    tp__bn_add_slots(sum, product, shared);
    if (threadIdx.x >= TP__BN_LANES || c >= s.C) return;
    const R inv = in.inv[c];
    const double n = (double)s.n;
    product *= (double)inv;
    if (dgamma) tp__put(dgamma, c, (R)product);
    if (dbeta) tp__put(dbeta, c, (R)sum);
    stat[c] = in.gamma[c] * inv;
    stat[s.C + c] = (R)(sum / n);
    stat[2 * s.C + c] = (R)(product / n * (double)inv);
}
template <class P>
TP_KERNEL tp__bn_from_running_stats(const P *gamma, const P *beta, const P *mean, const P *var, tp__real<P> *stat,
                                    int64_t C, float epsilon)
{
    typedef tp__real<P> R;
    TP_EACH(c, C)
    {
        stat[c] = tp__get(mean, c);
        stat[C + c] = tp__get(gamma, c) / (R)sqrt(tp__get(var, c) + (R)epsilon);
        stat[2 * C + c] = tp__get(beta, c);
    }
}

/* Converts half-precision vectors of C elements to float, contiguously, for the gradient's passes. */
template <class P>
TP_KERNEL tp__bn_widen(const P *gamma, const P *mean, const P *inv, const P *beta, tp__real<P> *to, int64_t C)
{
    TP_EACH(c, C)
    {
        to[c] = tp__get(gamma, c);
        to[C + c] = tp__get(mean, c);
        to[2 * C + c] = tp__get(inv, c);
        if (beta) to[3 * C + c] = tp__get(beta, c);
    }
}

/* -- the three ops */

template <class T> struct tp__eights {
    enum { V = sizeof(T) == 2 ? 8 : tp__fours<T>::V };
};
#define TP__RUN_ROWS(k_, kernel_, T_, s_, ...)                                                               \
    do {                                                                                                     \
        const tp__bn_cut cut_ = (s_);                                                                        \
        const int64_t rows_n_ = cut_.tiles * cut_.pieces;                                                    \
        if (cut_.wide == 8)                                                                                  \
            TP_RUN_BLOCKS(k_, (kernel_<T_, tp__eights<T_>::V>), rows_n_, TP__THREADS, 0, cut_, __VA_ARGS__); \
        else if (cut_.wide == 4)                                                                             \
            TP_RUN_BLOCKS(k_, (kernel_<T_, tp__fours<T_>::V>), rows_n_, TP__THREADS, 0, cut_, __VA_ARGS__);  \
        else TP_RUN_BLOCKS(k_, (kernel_<T_, 1>), rows_n_, TP__THREADS, 0, cut_, __VA_ARGS__);                \
    } while (0)
#define TP__RUN_PLANES(k_, kernel_, T_, s_, ...)                                                                   \
    do {                                                                                                           \
        const int64_t planes_n_ = (s_).C * (s_).pieces;                                                            \
        if ((s_).n * (s_).C >= TP__INT_ELEMENTS)                                                                   \
            TP_RUN_BLOCKS(k_, (kernel_<T_, 1, int64_t>), planes_n_, TP__THREADS, 0, s_, __VA_ARGS__);              \
        else if ((s_).wide == 4)                                                                                   \
            TP_RUN_BLOCKS(k_, (kernel_<T_, tp__fours<T_>::V, tp__fours_index<T_>>), planes_n_, TP__THREADS, 0, s_, \
                          __VA_ARGS__);                                                                            \
        else TP_RUN_BLOCKS(k_, (kernel_<T_, 1, tp__fours_index<T_>>), planes_n_, TP__THREADS, 0, s_, __VA_ARGS__); \
    } while (0)

template <class T>
static void tp__bn_write(const tp_call *k, const tp__bn_cut *s, const T *x, T *y, const tp__real<T> *stat)
{
    const bool relu = k->fused.act == TP_EPILOGUE_RELU;
    const T *more = k->fused.add ? (const T *)k->in[k->fused.add].data : NULL;
    const int64_t n = s->n * s->C;
    if (!y) return;
    if (s->inner == 1) TP__RUN_ROWS(k, tp__bn_apply_rows, T, tp__bn_write_cut(s), x, more, y, stat, relu);
    else TP__RUN_FOURS(k, tp__bn_apply_planes, T, s->wide == 4, n, n, *s, x, more, y, stat, relu);
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
        TP__PARAMS(T, k->in[1].dtype, {
            TP_RUN_BLOCKS(k, (tp__bn_combine<T, P>), (s.C + TP__BN_LANES - 1) / TP__BN_LANES, TP__THREADS, 0, s,
                          (const tp__real<T> *)part, (const P *)k->in[1].data, (const P *)k->in[2].data,
                          (P *)k->out[1].data, (P *)k->out[2].data, (P *)k->out[3].data, stat, t->epsilon, t->unbiased);
        });
        tp__bn_write<T>(k, &s, x, (T *)k->out[0].data, stat);
    });
}
/* inputs of batch_norm_grad: dy, x, gamma, mean, inv; beta if a ReLU follows */
static void tp__batch_norm_grad_cuda(const tp_call *k)
{
    const bool relu = k->fused.mask != 0; /* with a ReLU, dy is the gradient of the ReLU's output */
    const tp__bn_cut s = tp__bn_cut_of(k, &k->in[1]);
    const int64_t n = s.n * s.C;
    TP_REALS(k->in[1].dtype, {
        tp__real<T> *part = (tp__real<T> *)k->scratch;
        tp__real<T> *stat = part + 2 * s.pieces * s.C;
        tp__real<T> *wide = stat + 4 * s.C;
        tp__bn_back<T> in = {(const T *)k->in[0].data, (const T *)k->in[1].data,    wide, wide + s.C,
                             wide + 2 * s.C,           relu ? wide + 3 * s.C : NULL};
        /* gamma, mean, inv and beta have the type of the computation already */
        if (k->in[2].dtype == TP_F32 || k->in[2].dtype == TP_F64) {
            in.gamma = (const tp__real<T> *)k->in[2].data;
            in.mean = (const tp__real<T> *)k->in[3].data;
            in.inv = (const tp__real<T> *)k->in[4].data;
            in.beta = relu ? (const tp__real<T> *)k->in[k->fused.mask].data : NULL;
        } else {
            TP_RUN(k, (tp__bn_widen<T>), s.C, (const T *)k->in[2].data, (const T *)k->in[3].data,
                   (const T *)k->in[4].data, relu ? (const T *)k->in[k->fused.mask].data : NULL, wide, s.C);
        }
        T *dx = (T *)k->out[0].data;
        if (s.inner == 1) TP__RUN_ROWS(k, tp__bn_back_part_rows, T, s, in, part);
        else TP__RUN_PLANES(k, tp__bn_back_part_planes, T, s, in, part);
        TP__PARAMS(T, k->in[2].dtype, {
            TP_RUN_BLOCKS(k, (tp__bn_back_combine<T, P>), (s.C + TP__BN_LANES - 1) / TP__BN_LANES, TP__THREADS, 0, s,
                          (const tp__real<T> *)part, in, (P *)k->out[1].data, (P *)k->out[2].data, stat);
        });
        const T *more = k->fused.add ? (const T *)k->in[k->fused.add].data : NULL;
        if (dx && s.inner == 1)
            TP__RUN_ROWS(k, tp__bn_back_apply_rows, T, tp__bn_write_cut(&s), in, more, dx, (const tp__real<T> *)stat);
        else if (dx)
            TP__RUN_FOURS(k, tp__bn_back_apply_planes, T, s.wide == 4, n, n, s, in, more, dx,
                          (const tp__real<T> *)stat);
    });
}
static void tp__batch_norm_infer_cuda(const tp_call *k) /* inputs of batch_norm_infer: x, gamma, beta, mean, var */
{
    const tp__bn_cut s = tp__bn_cut_of(k, &k->in[0]);
    TP_REALS(k->in[0].dtype, {
        tp__real<T> *stat = (tp__real<T> *)k->scratch;
        TP__PARAMS(T, k->in[1].dtype, {
            TP_RUN(k, (tp__bn_from_running_stats<P>), s.C, (const P *)k->in[1].data, (const P *)k->in[2].data,
                   (const P *)k->in[3].data, (const P *)k->in[4].data, stat, s.C,
                   ((const tp__bn_attrs *)k->attrs)->epsilon);
        });
        tp__bn_write<T>(k, &s, (const T *)k->in[0].data, (T *)k->out[0].data, stat);
    });
}

/* -- group_norm in three steps as well: sums over pieces of each channel of a sample, their combination for each group by a warp, and a
 *    pass that writes. x is (B, rows, C, inner). Channels last (inner = 1), or few elements in a channel: `lanes` adjacent threads of a
 *    block process adjacent channels, and its other threads further elements. Otherwise a block sums one channel. */
typedef struct tp__gn_cut {
    tp__gn_shape x;
    int64_t n;                        /* number of elements of a channel in a sample */
    int64_t per_piece, pieces, tiles; /* tiles: the number of blocks that together cover all channels */
    int lanes;
    bool fours; /* whether four adjacent elements have adjacent channels, or the same channel */
} tp__gn_cut;
static tp__gn_cut tp__gn_cut_of(const tp_call *k)
{
    const tp_operand *x = &k->in[k->n_in > 3]; /* with more than three inputs the op is group_norm_grad */
    tp__gn_cut s;
    memset(&s, 0, sizeof s);
    s.x = tp__gn_shape_of(k, x);
    s.n = s.x.rows * s.x.inner;
    s.lanes = 1;
    while (s.lanes < 32 && s.lanes < s.x.C && (s.x.inner == 1 || TP__THREADS / s.lanes > s.n)) s.lanes *= 2;
    s.tiles = (s.x.C + s.lanes - 1) / s.lanes;
    const int64_t blocks = s.x.B * s.tiles, wanted = blocks > 0 && blocks < 792 ? 792 / blocks : 1;
    const int64_t at_least = TP__THREADS / s.lanes * 8, at_most = at_least * 32;
    s.per_piece = (s.n + wanted - 1) / wanted;
    if (s.per_piece < at_least) s.per_piece = at_least;
    if (s.per_piece > at_most) s.per_piece = at_most;
    s.pieces = (s.n + s.per_piece - 1) / s.per_piece;
    s.fours = x->dtype != TP_F64 && (s.x.inner == 1 ? s.x.C : s.x.inner) % 4 == 0;
    return s;
}
/* Layout of the scratch: sums (2, B, C) of dgamma and dbeta in double; then, all tp__real, two sums (B, pieces, 2, C) and four vectors
 * (B, C): mean, scale, c1, c2. */
static size_t tp__gn_scratch(const tp_call *k)
{
    const tp__gn_cut s = tp__gn_cut_of(k);
    const size_t real = k->in[k->n_in > 3].dtype == TP_F64 ? sizeof(double) : sizeof(float);
    return (size_t)(s.x.B * s.x.C) * (2 * sizeof(double) + (size_t)(2 * s.pieces + 4) * real);
}
template <class T> struct tp__gn_job {
    const T *x, *dy; /* dy is NULL in the forward op */
    T *to;           /* y forward, dx backward */
    double *sums;
    tp__real<T> *part, *stat;
};
template <class T> static tp__gn_job<T> tp__gn_job_of(const tp_call *k, const tp__gn_cut *s)
{
    tp__gn_job<T> j;
    const bool back = k->n_in > 3;
    j.x = (const T *)k->in[back].data;
    j.dy = back ? (const T *)k->in[0].data : NULL;
    j.to = (T *)k->out[0].data;
    j.sums = (double *)k->scratch;
    j.part = (tp__real<T> *)(void *)(j.sums + 2 * s->x.B * s->x.C);
    j.stat = j.part + 2 * s->pieces * s->x.B * s->x.C;
    return j;
}
/* What the backward pass reads beside x and dy; beta if a ReLU follows: dy is taken as 0 where y is not positive. */
template <class P> struct tp__gn_given {
    const P *gamma, *mean, *inv, *beta;
};
/* The sum over the slots of a block, in a fixed order, for each of its lanes. All threads get it. */
template <class R> __device__ __forceinline__ R tp__gn_slot_sum(R x, R *shared, int lanes)
{
    const int t = (int)threadIdx.x;
    __syncthreads();
    shared[t] = x;
    for (int half = TP__THREADS / lanes / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t / lanes < half) shared[t] += shared[t + half * lanes];
    }
    __syncthreads();
    return shared[t % lanes];
}
/* Sums of a piece of channel c of sample b. Forward: its mean, and the squares about it. Backward: dy, and dy (x - mean). */
template <class T, class P, bool BACK>
TP_KERNEL tp__gn_sums(const tp__gn_cut s, const tp__gn_job<T> j, const tp__gn_given<P> in)
{
    typedef tp__real<T> R;
    TP_SHARED(R, firsts, TP__THREADS);
    const int t = (int)threadIdx.x, lane = t % s.lanes, slot = t / s.lanes, slots = TP__THREADS / s.lanes;
    const int64_t tile = blockIdx.x % s.tiles, piece = blockIdx.x / s.tiles % s.pieces,
                  b = blockIdx.x / s.tiles / s.pieces;
    const int64_t c = tile * s.lanes + lane, from = piece * s.per_piece,
                  to = from + s.per_piece < s.n ? from + s.per_piece : s.n;
    const int64_t inner = s.x.inner, C = s.x.C, sample = b * s.x.rows * C * inner;
    R first = 0, second = 0, near = 0, scale = 0, beta = 0;
    const int64_t u = b * s.x.groups + c / s.x.per_group;
    if (BACK && c < C) near = tp__get(in.mean, u);
    if (BACK && c < C && in.beta) scale = tp__get(in.inv, u) * tp__get(in.gamma, c), beta = tp__get(in.beta, c);
    tp__bn_sums<R, 1> sums; /* forward: of what this thread reads */
    R mean[1] = {}, around[1] = {}, v[1], n = 0;
#pragma unroll 4
    for (int64_t p = from + slot; p < to && c < C; p += slots) {
        const int64_t row = inner == 1 ? p : s.n > 0x7fffffffLL ? p / inner : (int64_t)((unsigned)p / (unsigned)inner);
        const int64_t at = sample + (row * (C - 1) + c) * inner + p; /* (row C + c) inner + p - row inner */
        v[0] = tp__get(j.x, at);
        if (BACK) {
            R g = tp__get(j.dy, at);
            if (in.beta && !(tp__bn_value(v[0], near, scale, beta) > 0)) g = 0;
            first += g;
            second = tp__fused(g, v[0] - near, second);
        } else {
            if (n == 0) sums.begin(v);
            sums.add(v);
            n += 1;
        }
    }
    if (!BACK) { /* `near` is a mean of the piece: differences from it are small, which keeps precision */
        if (n > 0) sums.end(n, mean, around);
        firsts[t] = tp__finite(mean[0]);
        __syncthreads();
        near = firsts[lane];
        __syncthreads();
        first = n * (mean[0] - near);
    }
    first = tp__gn_slot_sum(first, firsts, s.lanes);
    R all = near;
    if (!BACK) {
        all += first / (R)(to - from);
        second = around[0] + n * (mean[0] - all) * (mean[0] - all);
    }
    second = tp__gn_slot_sum(second, firsts, s.lanes);
    if (slot || c >= C) return;
    R *to_part = j.part + (b * s.pieces + piece) * 2 * C + c;
    to_part[0] = BACK ? first : all;
    to_part[C] = second;
}
__device__ __forceinline__ double tp__gn_warp_sum(double x)
{
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}
/* One warp for each group of a sample: mean, inv, and the vectors for y. */
template <class T, class P>
TP_KERNEL tp__gn_combine(const tp__gn_cut s, const tp__gn_job<T> j, const P *gamma, P *out_mean, P *out_inv,
                         float epsilon)
{
    typedef tp__real<T> R;
    const int64_t u = (int64_t)blockIdx.x * (TP__THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (u >= s.x.B * s.x.groups) return; /* the condition is the same for all threads of the warp */
    const int64_t b = u / s.x.groups, begin = u % s.x.groups * s.x.per_group, K = s.x.per_group, C = s.x.C;
    const R *part = j.part + b * s.pieces * 2 * C + begin;
    const double n = (double)s.n * (double)K, near = (double)tp__finite(part[0]);
    double sum = 0, squares = 0;
    for (int64_t i = lane; i < s.pieces * K; i += 32) {
        const int64_t p = i / K, c = i - p * K;
        const double m = (double)(s.n - p * s.per_piece < s.per_piece ? s.n - p * s.per_piece : s.per_piece);
        const double d = (double)part[p * 2 * C + c] - near;
        sum += m * d;
        squares += (double)part[(p * 2 + 1) * C + c] + m * d * d;
    }
    const double off = tp__gn_warp_sum(sum) / n;
    double var = tp__gn_warp_sum(squares) / n - off * off;
    if (var < 0) var = 0;
    const R mean = (R)(near + off), inv = (R)(1.0 / sqrt(var + (double)epsilon));
    if (lane == 0 && out_mean) tp__put(out_mean, u, mean);
    if (lane == 0 && out_inv) tp__put(out_inv, u, inv);
    for (int64_t c = lane; c < K; c += 32) {
        j.stat[b * C + begin + c] = mean;
        j.stat[(s.x.B + b) * C + begin + c] = inv * tp__get(gamma, begin + c);
    }
}
/* The same backward: the vectors for dx, and this sample's share of dgamma and dbeta. */
template <class T, class P>
TP_KERNEL tp__gn_back_combine(const tp__gn_cut s, const tp__gn_job<T> j, const tp__gn_given<P> in)
{
    typedef tp__real<T> R;
    const int64_t u = (int64_t)blockIdx.x * (TP__THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (u >= s.x.B * s.x.groups) return; /* the condition is the same for all threads of the warp */
    const int64_t b = u / s.x.groups, begin = u % s.x.groups * s.x.per_group, K = s.x.per_group, C = s.x.C;
    const int64_t all = s.x.B * C;
    const R *part = j.part + b * s.pieces * 2 * C + begin, mean = tp__get(in.mean, u), inv = tp__get(in.inv, u);
    const double n = (double)s.n * (double)K;
    double sum = 0, products = 0;
    for (int64_t c = lane; c < K; c += 32) {
        double first = 0, second = 0;
        for (int64_t p = 0; p < s.pieces; p++) {
            first += (double)part[p * 2 * C + c];
            second += (double)part[(p * 2 + 1) * C + c];
        }
        second *= (double)inv;
        j.sums[b * C + begin + c] = second;
        j.sums[all + b * C + begin + c] = first;
        sum += first * (double)tp__get(in.gamma, begin + c);
        products += second * (double)tp__get(in.gamma, begin + c);
    }
    sum = tp__gn_warp_sum(sum) / n;
    products = tp__gn_warp_sum(products) / n;
    for (int64_t c = lane; c < K; c += 32) {
        R *to = j.stat + b * C + begin + c;
        to[0] = mean;
        to[all] = inv * tp__get(in.gamma, begin + c);
        to[2 * all] = (R)((double)inv * sum);
        to[3 * all] = (R)((double)inv * (double)inv * products);
    }
}
/* Writes y or dx; V elements at `at` have V adjacent channels, or the same channel. */
template <class T, class P, int V, class I, bool BACK>
TP_KERNEL tp__gn_write(const tp__gn_cut s, const tp__gn_job<T> j, const P *beta, bool relu)
{
    typedef tp__real<T> R;
    const I C = (I)s.x.C, inner = (I)s.x.inner, all = (I)s.x.B * C;
    TP__EACH_FOUR(I, V, at, s.x.B * s.n * s.x.C)
    {
        const I plane = at / inner, c = plane % C, b = plane / C / (I)s.x.rows, q = b * C + c;
        R v[V], d[V];
        tp__load(j.x + at, v);
        if (BACK) tp__load(j.dy + at, d);
#pragma unroll
        for (int e = 0; e < V; e++) {
            const I i = inner == 1 ? (I)e : 0;
            const R mean = j.stat[q + i], scale = j.stat[all + q + i];
            if (!BACK) {
                v[e] = tp__bn_value(v[e], mean, scale, tp__get(beta, (int64_t)(c + i)));
                if (relu && 0 > v[e]) v[e] = 0;
                continue;
            }
            if (relu && !(tp__bn_value(v[e], mean, scale, tp__get(beta, (int64_t)(c + i))) > 0)) d[e] = 0;
            v[e] = scale * d[e] - j.stat[2 * all + q + i] - (v[e] - mean) * j.stat[3 * all + q + i];
        }
        tp__store(j.to + at, v);
    }
}
template <class T, class P, bool BACK>
static void tp__gn_run_write(const tp_call *k, const tp__gn_cut *s, const tp__gn_job<T> *j, const P *beta)
{
    const bool relu = k->fused.act == TP_EPILOGUE_RELU || k->fused.mask;
    const int64_t n = s->x.B * s->n * s->x.C, vectors = 4 * s->x.B * s->x.C;
    const int V = tp__fours<T>::V;
    if (!j->to) return;
    if (n >= TP__INT_ELEMENTS || vectors >= TP__INT_ELEMENTS)
        TP_RUN(k, (tp__gn_write<T, P, 1, int64_t, BACK>), n, *s, *j, beta, relu);
    else if (s->fours)
        TP_RUN(k, (tp__gn_write<T, P, tp__fours<T>::V, tp__fours_index<T>, BACK>), n / V, *s, *j, beta, relu);
    else TP_RUN(k, (tp__gn_write<T, P, 1, tp__fours_index<T>, BACK>), n, *s, *j, beta, relu);
}
static void tp__group_norm_cuda(const tp_call *k)
{
    const tp__gn_cut s = tp__gn_cut_of(k);
    const float epsilon = ((const tp__gn_attrs *)k->attrs)->epsilon;
    const int64_t units = s.x.B * s.x.groups;
    TP_REALS(k->in[0].dtype, {
        const tp__gn_job<T> j = tp__gn_job_of<T>(k, &s);
        TP__PARAMS(T, k->in[1].dtype, {
            const tp__gn_given<P> none = {NULL, NULL, NULL, NULL};
            TP_RUN_BLOCKS(k, (tp__gn_sums<T, P, false>), s.x.B * s.pieces * s.tiles, TP__THREADS, 0, s, j, none);
            TP_RUN_BLOCKS(k, (tp__gn_combine<T, P>), tp__reduce_ceil_div(units, TP__THREADS / 32), TP__THREADS, 0, s, j,
                          (const P *)k->in[1].data, (P *)k->out[1].data, (P *)k->out[2].data, epsilon);
            tp__gn_run_write<T, P, false>(k, &s, &j, (const P *)k->in[2].data);
        });
    });
}
/* inputs of group_norm_grad: dy, x, gamma, mean, inv; beta if a ReLU follows */
static void tp__group_norm_grad_cuda(const tp_call *k)
{
    const tp__gn_cut s = tp__gn_cut_of(k);
    const int64_t units = s.x.B * s.x.groups;
    TP_REALS(k->in[1].dtype, {
        const tp__gn_job<T> j = tp__gn_job_of<T>(k, &s);
        TP__PARAMS(T, k->in[2].dtype, {
            const P *beta = k->fused.mask ? (const P *)k->in[k->fused.mask].data : NULL;
            const tp__gn_given<P> in = {(const P *)k->in[2].data, (const P *)k->in[3].data, (const P *)k->in[4].data,
                                        beta};
            TP_RUN_BLOCKS(k, (tp__gn_sums<T, P, true>), s.x.B * s.pieces * s.tiles, TP__THREADS, 0, s, j, in);
            TP_RUN_BLOCKS(k, (tp__gn_back_combine<T, P>), tp__reduce_ceil_div(units, TP__THREADS / 32), TP__THREADS, 0,
                          s, j, in);
            tp__gn_run_write<T, P, true>(k, &s, &j, beta);
            for (int i = 0; i < 2; i++)
                if (k->out[1 + i].data)
                    tp__run_join<tp__do_sum<P>, P>(k, j.sums + i * s.x.B * s.x.C, s.x.B, s.x.C, k->out[1 + i].data,
                                                   TP__REDUCED_AS_IS, 1.0);
        });
    });
}

static const tp__cuda_kernel tp__cuda_normalisation[] = {
    {"batch_norm", tp__batch_norm_cuda, tp__bn_scratch},
    {"batch_norm_grad", tp__batch_norm_grad_cuda, tp__bn_scratch},
    {"batch_norm_infer", tp__batch_norm_infer_cuda, tp__bn_scratch},
    {"group_norm", tp__group_norm_cuda, tp__gn_scratch},
    {"group_norm_grad", tp__group_norm_grad_cuda, tp__gn_scratch},
    {NULL, NULL, NULL}};

/* ==== >>rows ========================================================================================== */
/* Rows are the last axis. `lanes` threads share a row (1 to 32, or the block of 256) and keep its elements in registers, N per
 * thread, so that memory is read once; longer rows are read several times by a block. FOURS: a thread loads four adjacent
 * elements at a time, if the length of a row is a multiple of 4 and its address a multiple of 16 bytes. */

typedef struct tp__row_shape {
    int64_t rows;
    int C, lanes;
} tp__row_shape;

#define TP__ROW_LONGEST (16 * TP__THREADS) /* the longest row whose elements fit into a block's registers */

static tp__row_shape tp__row_shape_of(int64_t rows, int64_t C)
{
    tp__row_shape s;
    s.rows = rows;
    s.C = (int)C;
    s.lanes = 1;
    while (s.lanes < 32 && s.lanes < C) s.lanes *= 2;
    if (C > 512) s.lanes = TP__THREADS;
    return s;
}
/* Runs the body with N as the number of elements per thread; float64 has a single N. */
#define TP__ROW_ITEMS(T_, C_, fours_, ...)                              \
    do {                                                                \
        const int64_t row_c_ = (C_);                                    \
        const bool row_fours_ = (fours_) && row_c_ % 4 == 0;            \
        if (row_c_ <= 32) {                                             \
            const int N = sizeof(T_) == 8 ? 16 : 1;                     \
            const bool FOURS = false;                                   \
            __VA_ARGS__                                                 \
        } else if (row_c_ <= 128 || (row_c_ > 512 && row_c_ <= 1024)) { \
            const int N = sizeof(T_) == 8 ? 16 : 4;                     \
            if (row_fours_) {                                           \
                const bool FOURS = sizeof(T_) < 8;                      \
                __VA_ARGS__                                             \
            } else {                                                    \
                const bool FOURS = false;                               \
                __VA_ARGS__                                             \
            }                                                           \
        } else {                                                        \
            const int N = 16;                                           \
            if (row_fours_) {                                           \
                const bool FOURS = sizeof(T_) < 8;                      \
                __VA_ARGS__                                             \
            } else {                                                    \
                const bool FOURS = false;                               \
                __VA_ARGS__                                             \
            }                                                           \
        }                                                               \
    } while (0)

/* Returns the position in the row of the i-th element that this lane keeps. */
template <bool FOURS> __device__ __forceinline__ int tp__row_at(const tp__row_shape &s, int lane, int i)
{
    return FOURS ? (i / 4 * s.lanes + lane) * 4 + i % 4 : i * s.lanes + lane;
}
/* Loads the elements of a row that this lane keeps, from its i-th on, four or one; elements past the end get the value
 * `other`. */
template <bool FOURS, class T>
__device__ __forceinline__ void tp__row_get(const tp__row_shape &s, const T *p, int lane, int i, bool in_range,
                                            tp__real<T> other, tp__real<T> *v)
{
    const int c = tp__row_at<FOURS>(s, lane, i);
    const bool in = in_range && c < s.C;
    if constexpr (FOURS) {
        tp__four<T> u;
        if (in) u = *(const tp__four<T> *)(p + c);
#pragma unroll
        for (int e = 0; e < 4; e++) v[e] = in ? tp__get(u.v, e) : other;
    } else {
        *v = in ? tp__get(p, c) : other;
    }
}
template <bool FOURS, class T>
__device__ __forceinline__ void tp__row_put(const tp__row_shape &s, T *p, int lane, int i, const tp__real<T> *v)
{
    const int c = tp__row_at<FOURS>(s, lane, i);
    if (c >= s.C) return;
    if constexpr (FOURS) {
        tp__four<T> u;
#pragma unroll
        for (int e = 0; e < 4; e++) tp__put(u.v, e, v[e]);
        *(tp__four<T> *)(p + c) = u;
    } else {
        tp__put(p, c, *v);
    }
}
/* Loads the elements of a row that one lane of the warp processes. */
template <int N, bool FOURS, class T>
__device__ __forceinline__ void tp__row_load(const tp__row_shape &s, const T *p, int lane, bool in_range,
                                             tp__real<T> other, tp__real<T> v[N])
{
#pragma unroll
    for (int i = 0; i < N; i += FOURS ? 4 : 1) tp__row_get<FOURS, T>(s, p, lane, i, in_range, other, v + i);
}
template <int N, bool FOURS, class T>
__device__ __forceinline__ void tp__row_store(const tp__row_shape &s, T *p, int lane, const tp__real<T> v[N])
{
#pragma unroll
    for (int i = 0; i < N; i += FOURS ? 4 : 1) tp__row_put<FOURS, T>(s, p, lane, i, v + i);
}
/* Sums two numbers over all lanes of a row; tp__row_max takes the maximum and may ignore NaN. shared: memory for 16 values.
 * All threads of the block must call these. */
template <class R> __device__ __forceinline__ void tp__row_sums(R &a, R &b, int lanes, R *shared)
{
    for (int d = (lanes < 32 ? lanes : 32) / 2; d > 0; d >>= 1) {
        a += __shfl_xor_sync(0xffffffffu, a, d);
        b += __shfl_xor_sync(0xffffffffu, b, d);
    }
    if (lanes <= 32) return;
    __syncthreads(); /* wait, because threads may still read `shared` from the previous call */
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = a, shared[8 + (threadIdx.x >> 5)] = b;
    __syncthreads();
    a = shared[0], b = shared[8];
    for (int w = 1; w < TP__THREADS / 32; w++) a += shared[w], b += shared[8 + w];
}
template <class R> __device__ __forceinline__ R tp__row_sum(R x, int lanes, R *shared)
{
    for (int d = (lanes < 32 ? lanes : 32) / 2; d > 0; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
    if (lanes <= 32) return x;
    __syncthreads();
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = x;
    __syncthreads();
    x = shared[0];
    for (int w = 1; w < TP__THREADS / 32; w++) x += shared[w];
    return x;
}
template <class R> __device__ __forceinline__ R tp__row_max(R x, int lanes, R *shared)
{
    for (int d = (lanes < 32 ? lanes : 32) / 2; d > 0; d >>= 1) {
        const R y = __shfl_xor_sync(0xffffffffu, x, d);
        x = y > x ? y : x;
    }
    if (lanes <= 32) return x;
    __syncthreads();
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = x;
    __syncthreads();
    x = shared[0];
    for (int w = 1; w < TP__THREADS / 32; w++) x = shared[w] > x ? shared[w] : x;
    return x;
}

/* softmax, log_softmax, sparse_softmax_cross_entropy are one kernel. If any element is NaN, the sum and therefore the whole row
 * is NaN. Where a label is no class, loss and softmax are 0. */
enum { TP__SOFTMAX, TP__LOG_SOFTMAX, TP__CROSS_ENTROPY };
typedef struct tp__softmax_job {
    const void *x;
    void *y, *loss; /* cross entropy: y is the softmax, loss the losses; either may be NULL */
    const void *label;
    bool long_labels;
    int function;
    tp__fault fault;
} tp__softmax_job;

/* Returns the label of a row; -1 if there is no such class, in which case the run fails. */
__device__ __forceinline__ int64_t tp__label_of(const tp__softmax_job &j, int64_t row, int64_t C, bool report)
{
    const tp__indices labels = {j.label, j.long_labels, row + 1, C};
    const int64_t label = tp__row_of(labels, row);
    if (label >= 0 && label < C) return label;
    if (report) tp__report_index(labels, row, j.fault);
    return -1;
}

template <class T, int N, bool FOURS> TP_KERNEL tp__softmax_rows(const tp__row_shape s, const tp__softmax_job j)
{
    typedef tp__real<T> R;
    TP_SHARED(R, shared, 8);
    const int lane = (int)threadIdx.x & (s.lanes - 1), groups = TP__THREADS / s.lanes;
    for (int64_t first = (int64_t)blockIdx.x * groups; first < s.rows; first += (int64_t)gridDim.x * groups) {
        const int64_t row = first + (int)threadIdx.x / s.lanes;
        const T *x = (const T *)j.x + row * s.C;
        bool in_range = row < s.rows;
        int64_t label = 0;
        R v[N], m, z = 0;
        if (in_range && j.function == TP__CROSS_ENTROPY) label = tp__label_of(j, row, s.C, lane == 0);
        in_range = in_range && label >= 0;
        tp__row_load<N, FOURS, T>(s, x, lane, in_range, -(R)INFINITY, v);
        m = v[0];
#pragma unroll
        for (int i = 1; i < N; i++) m = v[i] > m ? v[i] : m;
        m = tp__row_max(m == m ? m : -(R)INFINITY, s.lanes, shared);
#pragma unroll
        for (int i = 0; i < N; i++) {
            const R d = v[i] - m, e = tp__row_at<FOURS>(s, lane, i) < s.C ? exp(d) : (R)0;
            z += e;
            v[i] = j.function == TP__LOG_SOFTMAX ? d : e;
        }
        z = tp__row_sum(z, s.lanes, shared);
        if (row >= s.rows) continue;
        if (j.y) {
            const R scale = 1 / z, l = j.function == TP__LOG_SOFTMAX ? log(z) : (R)0;
#pragma unroll
            for (int i = 0; i < N; i++)
                v[i] = j.function == TP__LOG_SOFTMAX ? v[i] - l : label < 0 ? (R)0 : v[i] * scale;
            tp__row_store<N, FOURS, T>(s, (T *)j.y + row * s.C, lane, v);
        }
        if (j.function == TP__CROSS_ENTROPY && j.loss && lane == 0)
            tp__put((T *)j.loss, row, label < 0 ? (R)0 : log(z) - (tp__get(x, label) - m));
    }
}

/* Long rows: the first pass finds the maximum and the sum together, by rescaling the sum when a larger element is found. */
template <class T> TP_KERNEL tp__softmax_long(int64_t rows, int64_t C, const tp__softmax_job j)
{
    typedef tp__real<T> R;
    TP_SHARED(R, shared, 8);
    const int t = (int)threadIdx.x;
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const T *x = (const T *)j.x + row * C;
        const int64_t label = j.function == TP__CROSS_ENTROPY ? tp__label_of(j, row, C, t == 0) : 0;
        if (label < 0) { /* the condition is the same for all threads of the block */
            for (int64_t c = t; c < C && j.y; c += TP__THREADS) tp__put((T *)j.y, row * C + c, (R)0);
            if (j.loss && t == 0) tp__put((T *)j.loss, row, (R)0);
            continue;
        }
        R m = -(R)INFINITY, z = 0;
        for (int64_t from = t; from < C; from += 8 * TP__THREADS) {
            R v[8], most = m;
#pragma unroll
            for (int i = 0; i < 8; i++)
                v[i] = from + i * TP__THREADS < C ? tp__get(x, from + i * TP__THREADS) : -(R)INFINITY;
#pragma unroll
            for (int i = 0; i < 8; i++) most = v[i] > most ? v[i] : most;
            /* rescales the sum z; if m was minus infinity, z stays 0 */
            if (most > m) z *= exp(m - most), m = most;
            const R base = m == -(R)INFINITY ? 0 : m;
            R sum = 0;
#pragma unroll
            for (int i = 0; i < 8; i++) sum += exp(v[i] - base);
            z += sum;
        }
        const R of_thread = m;
        m = tp__row_max(m, TP__THREADS, shared);
        z = tp__row_sum(of_thread == m ? z : z * exp(of_thread - m), TP__THREADS, shared);
        if (j.y) {
            T *y = (T *)j.y + row * C;
            const R scale = 1 / z, l = log(z);
            for (int64_t from = t; from < C; from += 4 * TP__THREADS) {
                R v[4];
#pragma unroll
                for (int i = 0; i < 4; i++) v[i] = from + i * TP__THREADS < C ? tp__get(x, from + i * TP__THREADS) : m;
#pragma unroll
                for (int i = 0; i < 4; i++)
                    if (from + i * TP__THREADS < C)
                        tp__put(y, from + i * TP__THREADS,
                                j.function == TP__LOG_SOFTMAX ? v[i] - m - l : exp(v[i] - m) * scale);
            }
        }
        if (j.function == TP__CROSS_ENTROPY && j.loss && t == 0)
            tp__put((T *)j.loss, row, log(z) - (tp__get(x, label) - m));
    }
}

static void tp__run_softmax(const tp_call *k, int64_t rows, int64_t C, const tp__softmax_job *job)
{
    const tp__softmax_job j = *job;
    if (C > TP__ROW_LONGEST) {
        TP_REALS(k->in[0].dtype, TP_RUN(k, (tp__softmax_long<T>), rows * TP__THREADS, rows, C, j););
        return;
    }
    const tp__row_shape s = tp__row_shape_of(rows, C);
    TP_REALS(k->in[0].dtype, {
        const bool by_four = tp__aligned_to_four<T>(j.x) && tp__aligned_to_four<T>(j.y);
        TP__ROW_ITEMS(T, C, by_four, TP_RUN(k, (tp__softmax_rows<T, N, FOURS>), rows * s.lanes, s, j););
    });
}
static void tp__softmax_of(const tp_call *k, int function)
{
    const tp_shape *x = &k->in[0].shape;
    tp__softmax_job j;
    memset(&j, 0, sizeof j);
    j.x = k->in[0].data;
    j.y = k->out[0].data;
    j.function = function;
    if (tp__size(&k->in[0]) > 0) tp__run_softmax(k, tp__product_of(x, 0, x->ndim - 1), x->dim[x->ndim - 1], &j);
}
static void tp__softmax_cuda(const tp_call *k) { tp__softmax_of(k, TP__SOFTMAX); }
static void tp__log_softmax_cuda(const tp_call *k) { tp__softmax_of(k, TP__LOG_SOFTMAX); }

/* op sparse_softmax_cross_entropy */
static void tp__cross_entropy_cuda(const tp_call *k)
{
    tp__softmax_job j;
    memset(&j, 0, sizeof j);
    j.x = k->in[0].data;
    j.loss = k->out[0].data;
    j.y = k->out[1].data;
    j.label = k->in[1].data;
    j.long_labels = k->in[1].dtype == TP_I64;
    j.function = TP__CROSS_ENTROPY;
    j.fault = tp__fault_of(k);
    tp__run_softmax(k, k->in[0].shape.dim[0], k->in[0].shape.dim[1], &j);
}

/* layer_norm: first the mean, then the variance about it, as on the CPU. Outputs: y, mean, inv. */
template <class T> struct tp__ln_job {
    const T *x, *gamma, *beta;
    T *y, *mean, *inv;
    tp__real<T> epsilon;
};
template <class T, int N, bool FOURS> TP_KERNEL tp__layer_norm_rows(const tp__row_shape s, const tp__ln_job<T> j)
{
    typedef tp__real<T> R;
    TP_SHARED(R, shared, 8);
    const int lane = (int)threadIdx.x & (s.lanes - 1), groups = TP__THREADS / s.lanes;
    for (int64_t first = (int64_t)blockIdx.x * groups; first < s.rows; first += (int64_t)gridDim.x * groups) {
        const int64_t row = first + (int)threadIdx.x / s.lanes;
        const bool in_range = row < s.rows;
        R v[N], sum = 0, var = 0;
        tp__row_load<N, FOURS, T>(s, j.x + row * s.C, lane, in_range, (R)0, v);
#pragma unroll
        for (int i = 0; i < N; i++) sum += v[i];
        const R mean = tp__row_sum(sum, s.lanes, shared) / (R)s.C;
#pragma unroll
        for (int i = 0; i < N; i++) {
            v[i] -= mean;
            if (tp__row_at<FOURS>(s, lane, i) < s.C) var += v[i] * v[i];
        }
        const R inv = 1 / sqrt(tp__row_sum(var, s.lanes, shared) / (R)s.C + j.epsilon);
        if (!in_range) continue;
        if (j.y) {
#pragma unroll
            for (int i = 0; i < N; i += FOURS ? 4 : 1) { /* load gamma and beta in pieces, which needs fewer
                                                          * registers */
                R gamma[4], beta[4];
                tp__row_get<FOURS, T>(s, j.gamma, lane, i, true, (R)0, gamma);
                tp__row_get<FOURS, T>(s, j.beta, lane, i, true, (R)0, beta);
#pragma unroll
                for (int e = 0; e < (FOURS ? 4 : 1); e++) v[i + e] = v[i + e] * inv * gamma[e] + beta[e];
                tp__row_put<FOURS, T>(s, j.y + row * s.C, lane, i, v + i);
            }
        }
        if (lane == 0 && j.mean) tp__put(j.mean, row, mean);
        if (lane == 0 && j.inv) tp__put(j.inv, row, inv);
    }
}
template <class T> TP_KERNEL tp__layer_norm_long(int64_t rows, int64_t C, const tp__ln_job<T> j)
{
    typedef tp__real<T> R;
    TP_SHARED(R, shared, 8);
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const T *x = j.x + row * C;
        R sum = 0, var = 0;
        for (int64_t c = threadIdx.x; c < C; c += TP__THREADS) sum += tp__get(x, c);
        const R mean = tp__row_sum(sum, TP__THREADS, shared) / (R)C;
        for (int64_t c = threadIdx.x; c < C; c += TP__THREADS) {
            const R d = tp__get(x, c) - mean;
            var += d * d;
        }
        const R inv = 1 / sqrt(tp__row_sum(var, TP__THREADS, shared) / (R)C + j.epsilon);
        for (int64_t c = threadIdx.x; c < C && j.y; c += TP__THREADS)
            tp__put(j.y, row * C + c, (tp__get(x, c) - mean) * inv * tp__get(j.gamma, c) + tp__get(j.beta, c));
        if (threadIdx.x == 0 && j.mean) tp__put(j.mean, row, mean);
        if (threadIdx.x == 0 && j.inv) tp__put(j.inv, row, inv);
    }
}
template <class T> static void tp__run_layer_norm(const tp_call *k)
{
    const int64_t C = k->in[1].shape.dim[0], rows = C ? tp__size(&k->in[0]) / C : 0;
    tp__ln_job<T> j;
    j.x = (const T *)k->in[0].data;
    j.gamma = (const T *)k->in[1].data;
    j.beta = (const T *)k->in[2].data;
    j.y = (T *)k->out[0].data;
    j.mean = (T *)k->out[1].data;
    j.inv = (T *)k->out[2].data;
    j.epsilon = (tp__real<T>)((const tp__ln_attrs *)k->attrs)->epsilon;
    if (C > TP__ROW_LONGEST) {
        TP_RUN(k, (tp__layer_norm_long<T>), rows * TP__THREADS, rows, C, j);
        return;
    }
    const tp__row_shape s = tp__row_shape_of(rows, C);
    const bool by_four = tp__aligned_to_four<T>(j.x) && tp__aligned_to_four<T>(j.gamma) &&
                         tp__aligned_to_four<T>(j.beta) && tp__aligned_to_four<T>(j.y);
    TP__ROW_ITEMS(T, C, by_four, TP_RUN(k, (tp__layer_norm_rows<T, N, FOURS>), rows * s.lanes, s, j););
}
static void tp__layer_norm_cuda(const tp_call *k) { TP_REALS(k->in[0].dtype, tp__run_layer_norm<T>(k);); }

/* layer_norm_grad. The rows are split into parts, one block each: a thread processes the same columns in every row, keeps their
 * sums dgamma, dbeta in registers and writes dx. The second stage is that of the reductions. */
#define TP__LN_PARTS 512
template <class T> struct tp__ln_back_job {
    const T *dy, *x, *gamma, *mean, *inv;
    T *dx;
    double *partial; /* partial sums (2, parts, C) of dgamma and dbeta; NULL: not needed */
    int64_t parts;
};
template <class T, int N, bool FOURS> TP_KERNEL tp__layer_norm_back(const tp__row_shape s, const tp__ln_back_job<T> j)
{
    typedef tp__real<T> R;
    TP_SHARED(R, shared, 16);
    TP_SHARED(R, side, 2 * TP__THREADS);
    const int t = (int)threadIdx.x, lane = t & (s.lanes - 1), groups = TP__THREADS / s.lanes;
    const int64_t each = tp__reduce_ceil_div(s.rows, j.parts), from = blockIdx.x * each,
                  to = from + each < s.rows ? from + each : s.rows;
    R dgamma[N], dbeta[N];
#pragma unroll
    for (int i = 0; i < N; i++) dgamma[i] = dbeta[i] = 0;
    for (int64_t first = from; first < to; first += groups) {
        const int64_t row = first + t / s.lanes;
        const bool in_range = row < to;
        R dy[N], xhat[N], a = 0, b = 0;
        tp__row_load<N, FOURS, T>(s, j.dy + row * s.C, lane, in_range, (R)0, dy);
        tp__row_load<N, FOURS, T>(s, j.x + row * s.C, lane, in_range, (R)0, xhat);
        const R mean = in_range ? tp__get(j.mean, row) : (R)0, inv = in_range ? tp__get(j.inv, row) : (R)0;
#pragma unroll
        for (int i = 0; i < N; i += FOURS ? 4 : 1) {
            R gamma[4];
            tp__row_get<FOURS, T>(s, j.gamma, lane, i, in_range, (R)0, gamma);
#pragma unroll
            for (int e = i; e < i + (FOURS ? 4 : 1); e++) { /* dy was loaded as 0 beyond the end of the row */
                xhat[e] = (xhat[e] - mean) * inv;
                dgamma[e] += dy[e] * xhat[e];
                dbeta[e] += dy[e];
                dy[e] *= gamma[e - i];
                a += dy[e];
                b += dy[e] * xhat[e];
            }
        }
        if (!j.dx) continue; /* the condition is the same for all threads of the block */
        tp__row_sums(a, b, s.lanes, shared);
        a /= (R)s.C, b /= (R)s.C;
        if (!in_range) continue;
#pragma unroll
        for (int i = 0; i < N; i++) dy[i] = inv * (dy[i] - a - xhat[i] * b);
        tp__row_store<N, FOURS, T>(s, j.dx + row * s.C, lane, dy);
    }
    if (!j.partial) return;
    double *to_gamma = j.partial + blockIdx.x * (int64_t)s.C, *to_beta = to_gamma + j.parts * s.C;
#pragma unroll
    for (int i = 0; i < N; i++) { /* add the sums dgamma and dbeta of the block's groups of threads, in order */
        if (groups > 1) {
            __syncthreads();
            side[t] = dgamma[i];
            side[TP__THREADS + t] = dbeta[i];
            __syncthreads();
            for (int g = 1; g < groups && t < s.lanes; g++) {
                dgamma[i] += side[g * s.lanes + t];
                dbeta[i] += side[TP__THREADS + g * s.lanes + t];
            }
        }
        const int c = tp__row_at<FOURS>(s, lane, i);
        if (t >= s.lanes || c >= s.C) continue;
        to_gamma[c] = (double)dgamma[i];
        to_beta[c] = (double)dbeta[i];
    }
}
/* Rows that are too long for registers: one block per row for dx, one thread per column for the sums. */
template <class T> TP_KERNEL tp__layer_norm_back_long(int64_t rows, int64_t C, const tp__ln_back_job<T> j)
{
    typedef tp__real<T> R;
    TP_SHARED(R, shared, 16);
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const T *dy = j.dy + row * C, *x = j.x + row * C;
        const R mean = tp__get(j.mean, row), inv = tp__get(j.inv, row);
        R a = 0, b = 0;
        for (int64_t c = threadIdx.x; c < C; c += TP__THREADS) {
            const R g = tp__get(dy, c) * tp__get(j.gamma, c);
            a += g;
            b += g * ((tp__get(x, c) - mean) * inv);
        }
        tp__row_sums(a, b, TP__THREADS, shared);
        a /= (R)C, b /= (R)C;
        for (int64_t c = threadIdx.x; c < C; c += TP__THREADS)
            tp__put(j.dx, row * C + c,
                    inv * (tp__get(dy, c) * tp__get(j.gamma, c) - a - (tp__get(x, c) - mean) * inv * b));
    }
}
template <class T>
TP_KERNEL tp__layer_norm_sums_long(int64_t rows, int64_t C, int64_t tiles, const tp__ln_back_job<T> j)
{
    typedef tp__real<T> R;
    const int64_t part = blockIdx.x / tiles, c = blockIdx.x % tiles * TP__THREADS + threadIdx.x,
                  each = tp__reduce_ceil_div(rows, j.parts), from = part * each,
                  to = from + each < rows ? from + each : rows;
    if (c >= C) return;
    R dgamma = 0, dbeta = 0;
    for (int64_t row = from; row < to; row++) {
        const R dy = tp__get(j.dy, row * C + c);
        dgamma += dy * ((tp__get(j.x, row * C + c) - tp__get(j.mean, row)) * tp__get(j.inv, row));
        dbeta += dy;
    }
    j.partial[part * C + c] = (double)dgamma;
    j.partial[(j.parts + part) * C + c] = (double)dbeta;
}
static int64_t tp__ln_parts(const tp_call *k)
{
    const int64_t C = k->in[2].shape.dim[0], rows = C ? tp__size(&k->in[1]) / C : 0;
    int64_t parts = rows / 32; /* a block processes 32 rows, four for each warp */
    if (C > TP__ROW_LONGEST) parts = rows / 16 < 64 ? rows / 16 : 64;
    else if (C > 512) parts = rows / 8;
    return parts < 1 ? 1 : parts > TP__LN_PARTS ? TP__LN_PARTS : parts;
}
static size_t tp__layer_norm_grad_scratch(const tp_call *k)
{
    return (size_t)(2 * tp__ln_parts(k) * k->in[2].shape.dim[0]) * sizeof(double);
}
template <class T> static void tp__run_layer_norm_grad(const tp_call *k)
{
    const int64_t C = k->in[2].shape.dim[0], rows = C ? tp__size(&k->in[1]) / C : 0;
    const bool sums_wanted = k->out[1].data || k->out[2].data;
    tp__ln_back_job<T> j;
    j.dy = (const T *)k->in[0].data;
    j.x = (const T *)k->in[1].data;
    j.gamma = (const T *)k->in[2].data;
    j.mean = (const T *)k->in[3].data;
    j.inv = (const T *)k->in[4].data;
    j.dx = (T *)k->out[0].data;
    j.partial = sums_wanted ? (double *)k->scratch : NULL;
    j.parts = tp__ln_parts(k);
    if (C == 0) return;
    if (C > TP__ROW_LONGEST) {
        const int64_t tiles = tp__reduce_ceil_div(C, TP__THREADS);
        if (j.dx) TP_RUN(k, (tp__layer_norm_back_long<T>), rows * TP__THREADS, rows, C, j);
        if (sums_wanted)
            TP_RUN_BLOCKS(k, (tp__layer_norm_sums_long<T>), tiles * j.parts, TP__THREADS, 0, rows, C, tiles, j);
    } else {
        const tp__row_shape s = tp__row_shape_of(rows, C);
        const bool by_four = tp__aligned_to_four<T>(j.x) && tp__aligned_to_four<T>(j.dy) &&
                             tp__aligned_to_four<T>(j.gamma) && tp__aligned_to_four<T>(j.dx);
        TP__ROW_ITEMS(T, C, by_four,
                      TP_RUN_BLOCKS(k, (tp__layer_norm_back<T, N, FOURS>), j.parts, TP__THREADS, 0, s, j););
    }
    for (int i = 0; i < 2; i++)
        if (k->out[1 + i].data)
            tp__run_join<tp__do_sum<T>, T>(k, j.partial + i * j.parts * C, j.parts, C, k->out[1 + i].data,
                                           TP__REDUCED_AS_IS, 1.0);
}
static void tp__layer_norm_grad_cuda(const tp_call *k) { TP_REALS(k->in[1].dtype, tp__run_layer_norm_grad<T>(k);); }

static const tp__cuda_kernel tp__cuda_rows[] = {
    {"softmax", tp__softmax_cuda, NULL},
    {"log_softmax", tp__log_softmax_cuda, NULL},
    {"sparse_softmax_cross_entropy", tp__cross_entropy_cuda, NULL},
    {"layer_norm", tp__layer_norm_cuda, NULL},
    {"layer_norm_grad", tp__layer_norm_grad_cuda, tp__layer_norm_grad_scratch},
    {NULL, NULL, NULL}};

/* ==== >>sequences ===================================================================================== */

/* Allocates pieces of the scratch memory; with base NULL, `used` only counts bytes. */
typedef struct tp__seq_scratch {
    char *base;
    size_t used;
} tp__seq_scratch;
static tp__seq_scratch tp__seq_scratch_at(void *base)
{
    tp__seq_scratch r;
    r.base = (char *)base;
    r.used = 0;
    return r;
}
static void *tp__seq_take(tp__seq_scratch *r, int64_t n, size_t size)
{
    const size_t at = r->used;
    r->used += ((size_t)n * size + 255) & ~(size_t)255;
    return r->base ? r->base + at : NULL;
}
/* Matrix product c (M,N) = op(a) op(b), of contiguous matrices; for halves c may be float32, as `out` says */
static void tp__seq_product(const tp_call *k, tp_dtype dtype, tp_dtype out, int64_t M, int64_t N, int64_t K, bool ta,
                            bool tb, bool add, const void *a, const void *b, void *c)
{
    tp__gemm_shape g;
    if (!c || M == 0 || N == 0 || (K == 0 && add)) return;
    if (K == 0) {
        const cudaError_t e = cudaMemsetAsync(c, 0, (size_t)(M * N) * tp__dtype_size(out), tp__cuda_of(k)->stream);
        if (e != cudaSuccess) tp__store_error(tp__cuda_of(k), k->op->name, cudaGetErrorString(e));
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
    g.out = out;
    g.precision = k->precision;
    tp__gemm(k, &g, a, b, c, NULL);
}

/* Divides; uses 32-bit division if possible, which is faster. */
__device__ __forceinline__ int64_t tp__seq_divide(int64_t a, int64_t b)
{
    return (uint64_t)(a | b) >> 32 ? a / b : (int64_t)((uint32_t)a / (uint32_t)b);
}

/* -- ctc_loss: first the log-sums of the softmax, for all steps at once; then one block per sequence runs forward through its
 *    steps and another block backward; then the gradients of all steps at once. There, the first position of a class adds up
 *    all positions of the class, which the backward block has linked in a chain. Sums over paths are in double, as on the
 *    CPU. */
typedef struct tp__ctc_args {
    /* step: stride of the logits from one step to the next; row: from one sequence to the next */
    int64_t T, B, C, L, step, row;
    int blank, dtype[3]; /* dtypes of the labels, the label lengths and the sequence lengths */
    bool zero_infinity;
    const void *x, *labels, *label_lengths, *lengths;
    void *y, *dx;
    /* norm (B,T): logarithm of each softmax's sum; forward_sums, backward_sums (B,T (2L+1)): log sums over paths;
     * total (B) */
    double *norm, *forward_sums, *backward_sums, *total;
    /* (B,L): for each label 2 * next + first, where next is the index of the next equal label in the sequence (n if
     * there is none), and first is 1 for the first of equal labels */
    int32_t *next_same_label;
    tp__fault fault;
} tp__ctc_args;
__device__ __forceinline__ int64_t tp__ctc_int(const void *p, int dtype, int64_t i)
{
    return dtype == TP_I64 ? ((const int64_t *)p)[i] : ((const int32_t *)p)[i];
}
/* CTC puts a blank before, between and after the labels. tp__ctc_class: the class of position s in that list.
 * tp__ctc_skips: whether a path may go from position s - 2 to s directly. */
__device__ __forceinline__ int64_t tp__ctc_class(const tp__ctc_args &g, int64_t b, int64_t s)
{
    return s & 1 ? tp__ctc_int(g.labels, g.dtype[0], b * g.L + (s >> 1)) : g.blank;
}
__device__ __forceinline__ bool tp__ctc_skips(const tp__ctc_args &g, int64_t b, int64_t s)
{
    return (s & 1) && s > 1 && tp__ctc_class(g, b, s) != tp__ctc_class(g, b, s - 2);
}
template <class R>
__device__ __forceinline__ double tp__ctc_add(double a, double b, double c) /* returns log(e^a + e^b + e^c) */
{
    const double ab = a > b ? a : b, largest = ab > c ? ab : c;
    if (largest == -(double)INFINITY) return a + b + c; /* NaN if one of them is */
    const R sum = exp((R)(a - largest)) + exp((R)(b - largest)) + exp((R)(c - largest));
    return largest + (double)log(sum);
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

/* The part of ctc_loss that one block computes: it walks forward or backward through sequence b. */
typedef struct tp__ctc_pass {
    int64_t b, n, steps; /* n: number of labels; there are 2 n + 1 positions */
    double *log_sums;    /* (steps, 2 n + 1): for each position the logarithm of the sum over all paths to it */
    bool back;
} tp__ctc_pass;

/* Checks lengths and labels. If they are invalid, one thread reports it, so that the run fails, and the result is true. All
 * threads of the block must call this. wrong: shared memory for one number. */
template <class T>
__device__ __forceinline__ bool tp__ctc_is_wrong(const tp__ctc_args &g, const tp__ctc_pass &w, int *wrong)
{
    const int64_t b = w.b, n = w.n, steps = w.steps, tid = threadIdx.x;
    if (tid == 0) wrong[0] = n < 0 || n > g.L || steps < 0 || steps > g.T;
    __syncthreads();
    const bool bad_length = wrong[0] != 0;
    __syncthreads();
    for (int64_t i = tid; i < n && !bad_length; i += blockDim.x) {
        const int64_t c = tp__ctc_class(g, b, 2 * i + 1);
        if (c < 0 || c >= g.C || c == g.blank) wrong[0] = 1;
    }
    __syncthreads();
    if (wrong[0]) { /* the lengths or labels are invalid: the run fails */
        if (tid > 0 || w.back) return true;
        int64_t bad = n < 0 || n > g.L ? n : steps;
        for (int64_t i = 0; i < n && !bad_length; i++) {
            bad = tp__ctc_class(g, b, 2 * i + 1);
            if (bad < 0 || bad >= g.C || bad == g.blank) break;
        }
        tp__report(g.fault, bad);
        g.total[b] = -(double)INFINITY;
        if (g.y) tp__put((T *)g.y, b, 0);
        return true;
    }
    return false;
}

/* Links the positions that have the same label. */
__device__ __forceinline__ void tp__ctc_chains(const tp__ctc_args &g, int64_t b, int64_t n)
{
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        const int64_t c = tp__ctc_class(g, b, 2 * i + 1);
        int64_t next = i + 1, before = i - 1;
        while (next < n && tp__ctc_class(g, b, 2 * next + 1) != c) next++;
        while (before >= 0 && tp__ctc_class(g, b, 2 * before + 1) != c) before--;
        g.next_same_label[b * g.L + i] = (int32_t)(2 * next + (before < 0));
    }
}

/* The walk with one thread per position: the previous step is in shared memory, and the next logit is loaded in
 * advance. */
template <class T>
__device__ __forceinline__ void tp__ctc_walk_short(const tp__ctc_args &g, const tp__ctc_pass &w, double *last_step)
{
    typedef tp__real<T> R;
    const int64_t b = w.b, steps = w.steps, S = 2 * w.n + 1, tid = threadIdx.x;
    const bool backward = w.back;
    const T *x = (const T *)g.x + b * g.row;
    const double none = -(double)INFINITY, *norm = g.norm + b * g.T;
    double *log_sums = w.log_sums;
    const bool is_position = tid < S;
    const int64_t c = is_position ? tp__ctc_class(g, b, tid) : 0;
    const bool skips =
        is_position && (backward ? tid + 2 < S && tp__ctc_skips(g, b, tid + 2) : tp__ctc_skips(g, b, tid));
    const int64_t neighbour = backward ? tid + 1 : tid - 1, next_but_one = backward ? tid + 2 : tid - 2;
    R next = is_position && steps > 0 ? tp__get(x, (backward ? steps - 1 : 0) * g.step + c) : 0;
    double log_sum = none;
    for (int64_t i = 0; i < steps; i++) {
        const int64_t t = backward ? steps - 1 - i : i;
        const double p = (double)next, *before = last_step + (i & 1 ? 0 : TP__THREADS);
        if (is_position && i + 1 < steps) next = tp__get(x, (backward ? t - 1 : t + 1) * g.step + c);
        if (is_position) {
            double v = (backward ? tid >= S - 2 : tid < 2) ? 0 : none;
            if (i > 0)
                v = tp__ctc_add<R>(log_sum, neighbour >= 0 && neighbour < S ? before[neighbour] : none,
                                   skips ? before[next_but_one] : none);
            log_sum = v + p - norm[t];
            last_step[(i & 1 ? TP__THREADS : 0) + tid] = log_sum;
            log_sums[t * S + tid] = backward ? v : log_sum;
        }
        __syncthreads();
    }
}

/* The walk if there are more positions than threads: the previous step is read from memory. */
template <class T> __device__ __forceinline__ void tp__ctc_walk_long(const tp__ctc_args &g, const tp__ctc_pass &w)
{
    typedef tp__real<T> R;
    const int64_t b = w.b, steps = w.steps, S = 2 * w.n + 1, tid = threadIdx.x;
    const bool backward = w.back;
    const T *x = (const T *)g.x + b * g.row;
    const double none = -(double)INFINITY, *norm = g.norm + b * g.T;
    double *log_sums = w.log_sums;
    for (int64_t i = 0; i < steps; i++) {
        /* u: index of the step that the walk visited before t */
        const int64_t t = backward ? steps - 1 - i : i, u = backward ? t + 1 : t - 1;
        for (int64_t s = tid; s < S; s += blockDim.x) {
            double v = (backward ? s >= S - 2 : s < 2) ? 0 : none;
            if (i > 0) {
                double from[3];
                for (int o = 0; o < 3; o++) {
                    const int64_t at = backward ? s + o : s - o;
                    const bool skips = at >= 0 && at < S && (o < 2 || tp__ctc_skips(g, b, backward ? at : s));
                    from[o] = skips ? log_sums[u * S + at] : none;
                    if (skips && backward)
                        from[o] = from[o] + (double)tp__get(x, u * g.step + tp__ctc_class(g, b, at)) - norm[u];
                }
                v = tp__ctc_add<R>(from[0], from[1], from[2]);
            }
            log_sums[t * S + s] = backward ? v : v + (double)tp__get(x, t * g.step + tp__ctc_class(g, b, s)) - norm[t];
        }
        __syncthreads();
    }
}

/* Block b walks forward through sequence b, block B + b backward. */
template <class T> TP_KERNEL tp__ctc_walk(const tp__ctc_args g)
{
    typedef tp__real<T> R;
    TP_SHARED(double, last_step, 2 * TP__THREADS);
    TP_SHARED(int, wrong, 1);
    tp__ctc_pass w;
    w.back = blockIdx.x >= g.B;
    w.b = w.back ? blockIdx.x - g.B : blockIdx.x;
    w.n = tp__ctc_int(g.label_lengths, g.dtype[1], w.b);
    w.steps = tp__ctc_int(g.lengths, g.dtype[2], w.b);
    w.log_sums = (w.back ? g.backward_sums : g.forward_sums) + w.b * g.T * (2 * g.L + 1);
    if (tp__ctc_is_wrong<T>(g, w, wrong)) return;
    const int64_t n = w.n, steps = w.steps, S = 2 * n + 1;
    if (w.back) tp__ctc_chains(g, w.b, n);
    if (S <= (int64_t)blockDim.x) tp__ctc_walk_short<T>(g, w, last_step);
    else tp__ctc_walk_long<T>(g, w);
    if (w.back || threadIdx.x > 0) return;
    const double none = -(double)INFINITY;
    double y = none;
    if (steps > 0) y = tp__ctc_add<R>(w.log_sums[steps * S - 1], n > 0 ? w.log_sums[steps * S - 2] : none, none);
    else if (n == 0) y = 0;
    g.total[w.b] = y;
    if (g.y) tp__put((T *)g.y, w.b, (R)(g.zero_infinity && y == none ? 0 : 0 - y));
}

/* Gradients of ctc_loss: one block for each step of each sequence. */
template <class T> TP_KERNEL tp__ctc_gradient(const tp__ctc_args g)
{
    typedef tp__real<T> R;
    TP_SHARED(R, shared, 8);
    const int64_t b = tp__seq_divide(blockIdx.x, g.T), t = blockIdx.x - b * g.T,
                  n = tp__ctc_int(g.label_lengths, g.dtype[1], b);
    const int64_t S = 2 * n + 1, at = b * g.T * (2 * g.L + 1) + t * S;
    const T *x = (const T *)g.x + b * g.row + t * g.step;
    T *dx = (T *)g.dx + b * g.row + t * g.step;
    const double none = -(double)INFINITY, y = g.total[b], norm = g.norm[blockIdx.x];
    const bool is_padding = t >= tp__ctc_int(g.lengths, g.dtype[2], b);
    if (y == none || y != y || is_padding) { /* NaN in one step makes the derivatives of all steps NaN */
        const R v = y == none || is_padding ? 0 : (R)y;
        for (int64_t c = threadIdx.x; c < g.C; c += blockDim.x) tp__put(dx, c, v);
        return;
    }
    R blank = 0;
    for (int64_t s = 2 * threadIdx.x; s < S; s += 2 * blockDim.x) {
        const double v = g.backward_sums[at + s] + g.forward_sums[at + s];
        if (v > none) blank += exp((R)(v - y));
    }
    blank = tp__block_sum(blank, shared);
    for (int64_t c = threadIdx.x; c < g.C; c += blockDim.x) {
        const R p = exp((R)((double)tp__get(x, c) - norm));
        tp__put(dx, c, c == g.blank ? p - blank : p);
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        if (!(g.next_same_label[b * g.L + i] & 1)) continue;
        const int64_t c = tp__ctc_class(g, b, 2 * i + 1);
        R sum = 0;
        for (int64_t j = i; j < n; j = g.next_same_label[b * g.L + j] >> 1) {
            const double v = g.backward_sums[at + 2 * j + 1] + g.forward_sums[at + 2 * j + 1];
            if (v > none) sum += exp((R)(v - y));
        }
        tp__put(dx, c, exp((R)((double)tp__get(x, c) - norm)) - sum);
    }
}

static tp__ctc_args tp__ctc_args_of(const tp_call *k, size_t *bytes)
{
    const tp_ctc_attrs *t = (const tp_ctc_attrs *)k->attrs;
    const int64_t *x = k->in[0].shape.dim;
    tp__seq_scratch scratch = tp__seq_scratch_at(k->scratch);
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
    g.norm = (double *)tp__seq_take(&scratch, g.B * g.T, sizeof(double));
    g.forward_sums = (double *)tp__seq_take(&scratch, g.B * g.T * (2 * g.L + 1), sizeof(double));
    g.backward_sums = (double *)tp__seq_take(&scratch, g.B * g.T * (2 * g.L + 1), sizeof(double));
    g.total = (double *)tp__seq_take(&scratch, g.B, sizeof(double));
    g.next_same_label = (int32_t *)tp__seq_take(&scratch, g.B * g.L, sizeof(int32_t));
    g.fault = tp__fault_of(k);
    *bytes = scratch.used;
    return g;
}
template <class T> static void tp__ctc_run(const tp_call *k)
{
    size_t bytes;
    const tp__ctc_args g = tp__ctc_args_of(k, &bytes);
    const int64_t S = 2 * g.L + 1, threads = S < TP__THREADS ? (S + 31) / 32 * 32 : TP__THREADS;
    if (g.L >> 30 || (g.B * g.T) >> 31) {
        tp__store_error(tp__cuda_of(k), k->op->name, "the sequences are more or longer than a grid has blocks");
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

/* Sums columns: first chunks of rows, whose number depends only on the number of rows, then the chunks in order. A block sums
 * 32 columns, eight rows at a time. */
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
template <class R> TP_KERNEL tp__seq_columns_end(const R *part, void *y, int dtype, int64_t N, int64_t chunks)
{
    TP_EACH(i, N)
    {
        R sum = 0;
        for (int64_t c = 0; c < chunks; c++) sum += part[c * N + i];
        tp__put_as(y, dtype, i, (double)sum);
    }
}
#define TP__SEQ_CHUNKS 64
/* `part`: memory for TP__SEQ_CHUNKS * N partial sums */
template <class T>
static void tp__seq_column_sums(const tp_call *k, const void *x, void *part, const tp_operand *y, int64_t rows,
                                int64_t N)
{
    const int64_t max_chunks = (rows + 63) / 64, chunks = max_chunks < TP__SEQ_CHUNKS ? max_chunks : TP__SEQ_CHUNKS;
    const int64_t chunk = chunks ? (rows + chunks - 1) / chunks : 0, column_blocks = (N + 31) / 32;
    if (!y->data) return;
    TP_RUN_BLOCKS(k, (tp__seq_columns<T>), chunks * column_blocks, 256, 0, (const T *)x, (tp__real<T> *)part, rows, N,
                  chunk, column_blocks);
    TP_RUN(k, (tp__seq_columns_end<tp__real<T>>), N, (const tp__real<T> *)part, y->data, (int)y->dtype, N, chunks);
}

/* -- lstm, lstm_grad: one product with x for all steps; then, at each step, a product with h and a kernel for the cells.
 *    Products need contiguous matrices, so the data of one step are contiguous, and the cells' kernel gathers and scatters the
 *    rows of batch-major sequences. In half precision products take halves, including the state, which is rounded only for its
 *    product, and give float sums; the state that passes between steps is float. States, biases and gradients of weights are
 *    float or half, as the plan stores them. */
typedef struct tp__rnn_shape {
    int64_t T, B, I, H, step_stride, sample_stride; /* sample b of step t is in row t step_stride + b sample_stride */
} tp__rnn_shape;
static tp__rnn_shape tp__rnn_shape_of(const tp_shape *x, const tp_shape *h0, bool batch_major)
{
    tp__rnn_shape r;
    r.T = x->dim[batch_major ? 1 : 0];
    r.B = x->dim[batch_major ? 0 : 1];
    r.I = x->dim[2];
    r.H = h0->dim[1];
    r.step_stride = batch_major ? 1 : r.B;
    r.sample_stride = batch_major ? r.T : 1;
    return r;
}
static tp_dtype tp__rnn_real(tp_dtype d) { return d == TP_F64 ? TP_F64 : TP_F32; }
TP_KERNEL tp__rnn_convert(const void *x, int from, void *y, int to, int64_t n)
{
    TP_EACH(i, n) tp__put_as(y, to, i, tp__get_as(x, from, i));
}
static void tp__rnn_as(const tp_call *k, const void *x, tp_dtype from, void *y, tp_dtype to, int64_t n)
{
    if (y) TP_RUN(k, tp__rnn_convert, n, x, (int)from, y, (int)to, n);
}
/* tp__rnn_single: a small operand in the type of the computation; converted into `scratch` if it has another type.
 * tp__rnn_converted_size: the number of elements of that scratch. */
static int64_t tp__rnn_converted_size(const tp_operand *x, tp_dtype real) { return x->dtype == real ? 0 : tp__size(x); }
static const void *tp__rnn_single(const tp_call *k, const tp_operand *x, tp_dtype real, void *scratch)
{
    if (x->dtype == real) return x->data;
    tp__rnn_as(k, x->data, x->dtype, scratch, real, tp__size(x));
    return scratch;
}

/* Returns the address of a matrix's row n. */
static void *tp__rnn_rows(const tp_operand *x, int64_t n)
{
    return x->data ? (char *)x->data + (size_t)(n * x->shape.dim[1]) * tp__dtype_size(x->dtype) : NULL;
}

/* One LSTM step. xw (rows,4H) = x Wx and gates may be the same memory; hw (B,4H) = h Wh; h, c (B,H): the state, updated
 * in place. */
template <class T> struct tp__lstm_step {
    int64_t B, H, row, sb;
    float forget_bias;
    const tp__real<T> *xw, *hw, *bias;
    tp__real<T> *h, *c;
    T *rounded, *gates, *cells, *y; /* rounded (B,H): h as type T for the next product; NULL if h has that type */
};
template <class T> TP_KERNEL tp__lstm_cell(const tp__lstm_step<T> a)
{
    typedef tp__real<T> R;
    const int64_t H = a.H, G = 4 * H;
    TP_EACH(e, a.B * H)
    {
        const int64_t b = tp__seq_divide(e, H), u = e - b * H, row = a.row + b * a.sb;
        R g[4];
        for (int q = 0; q < 4; q++) g[q] = a.xw[row * G + q * H + u] + a.hw[b * G + q * H + u] + a.bias[q * H + u];
        g[0] = tp__logistic(g[0]);
        g[1] = tanh(g[1]);
        g[2] = tp__logistic(g[2] + (R)a.forget_bias);
        g[3] = tp__logistic(g[3]);
        const R c = g[2] * a.c[e] + g[0] * g[1], h = g[3] * tanh(c);
        a.c[e] = c;
        a.h[e] = h;
        if (a.rounded) tp__put(a.rounded, e, h);
        if (a.y) tp__put(a.y, row * H + u, h);
        if (a.cells) tp__put(a.cells, row * H + u, c);
        for (int q = 0; q < 4 && a.gates; q++) tp__put(a.gates, row * G + q * H + u, g[q]);
    }
}
typedef struct tp__lstm_buffers {
    void *xw, *hw, *h, *c, *rounded, *bias;
    size_t bytes;
} tp__lstm_buffers;
static tp__lstm_buffers tp__lstm_buffers_of(const tp_call *k)
{
    const tp__rnn_shape r =
        tp__rnn_shape_of(&k->in[0].shape, &k->in[3].shape, ((const tp__lstm_attrs *)k->attrs)->batch_major);
    const size_t size = tp__dtype_size(k->in[0].dtype), real = tp__dtype_size(tp__rnn_real(k->in[0].dtype));
    tp__seq_scratch scratch = tp__seq_scratch_at(k->scratch);
    tp__lstm_buffers m;
    /* xw uses the memory of the gates, before the activations are applied */
    m.xw = size == real ? k->out[3].data : NULL;
    if (!m.xw) m.xw = tp__seq_take(&scratch, r.T * r.B * 4 * r.H, real);
    m.hw = tp__seq_take(&scratch, r.B * 4 * r.H, real);
    m.h = tp__seq_take(&scratch, r.B * r.H, real);
    m.c = tp__seq_take(&scratch, r.B * r.H, real);
    m.rounded = size < real ? tp__seq_take(&scratch, r.B * r.H, size) : NULL;
    m.bias = tp__seq_take(&scratch, tp__rnn_converted_size(&k->in[2], tp__rnn_real(k->in[0].dtype)), real);
    m.bytes = scratch.used;
    return m;
}
static size_t tp__lstm_bytes(const tp_call *k) { return tp__lstm_buffers_of(k).bytes; }

template <class T> static void tp__lstm_run(const tp_call *k) /* inputs of lstm: x, W, b, h0, c0 */
{
    typedef tp__real<T> R;
    const tp__lstm_attrs *t = (const tp__lstm_attrs *)k->attrs;
    const tp__rnn_shape r = tp__rnn_shape_of(&k->in[0].shape, &k->in[3].shape, t->batch_major);
    const tp_dtype dtype = k->in[0].dtype, real = tp__rnn_real(dtype);
    const int64_t G = 4 * r.H;
    const tp__lstm_buffers m = tp__lstm_buffers_of(k);
    const T *w = (const T *)k->in[1].data;
    const R *bias = (const R *)tp__rnn_single(k, &k->in[2], real, m.bias);
    tp__rnn_as(k, k->in[3].data, k->in[3].dtype, m.h, real, r.B * r.H);
    tp__rnn_as(k, k->in[3].data, k->in[3].dtype, m.rounded, dtype, r.B * r.H);
    tp__rnn_as(k, k->in[4].data, k->in[4].dtype, m.c, real, r.B * r.H);
    tp__seq_product(k, dtype, real, r.T * r.B, G, r.I, false, false, false, k->in[0].data, w, m.xw);
    for (int64_t step = 0; step < r.T; step++) {
        tp__lstm_step<T> a;
        tp__seq_product(k, dtype, real, r.B, G, r.H, false, false, false, m.rounded ? m.rounded : m.h, w + r.I * G,
                        m.hw);
        a.B = r.B, a.H = r.H, a.row = step * r.step_stride, a.sb = r.sample_stride;
        a.forget_bias = t->forget_bias;
        a.xw = (const R *)m.xw, a.hw = (const R *)m.hw, a.bias = bias;
        a.h = (R *)m.h, a.c = (R *)m.c, a.rounded = (T *)m.rounded;
        a.y = (T *)k->out[0].data, a.gates = (T *)k->out[3].data, a.cells = (T *)k->out[4].data;
        TP_RUN(k, (tp__lstm_cell<T>), r.B * r.H, a);
    }
    tp__rnn_as(k, m.h, real, k->out[1].data, k->out[1].dtype, r.B * r.H);
    tp__rnn_as(k, m.c, real, k->out[2].data, k->out[2].dtype, r.B * r.H);
}
static void tp__lstm_cuda(const tp_call *k) { TP_REALS(k->in[0].dtype, tp__lstm_run<T>(k);); }

/* One LSTM step back. dh, dc (B,H): the gradients from the following step, dc is updated in place; dgates (rows,4H), of
 * which `step` holds the rows of this step if they are not contiguous; before (rows,H): the state before each step. */
template <class T> struct tp__lstm_back_step {
    int64_t B, H, row, st, sb;
    bool first; /* this is the first step, whose previous states are h0 and c0 */
    const T *dy, *gates, *cells, *y;
    const tp__real<T> *h0, *c0, *dh;
    tp__real<T> *dc;
    T *dgates, *before, *step;
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
        const R c0 = a.first ? a.c0[e] : tp__get(a.cells, last * H + u);
        const R h0 = a.first ? a.h0[e] : tp__get(a.y, last * H + u);
        const R d = tp__get(a.dy, row * H + u) + a.dh[e], dc = a.dc[e] + d * o * (1 - tc * tc);
        R g[4];
        g[0] = dc * j * i * (1 - i);
        g[1] = dc * i * (1 - j * j);
        g[2] = dc * c0 * f * (1 - f);
        g[3] = d * tc * o * (1 - o);
        a.dc[e] = dc * f;
        tp__put(a.before, row * H + u, h0);
        for (int q = 0; q < 4; q++) {
            tp__put(a.dgates, row * G + q * H + u, g[q]);
            if (a.step) tp__put(a.step, b * G + q * H + u, g[q]);
        }
    }
}
typedef struct tp__lstm_back_buffers {
    void *dgates, *step, *before, *dh, *dc, *h0, *c0, *part;
    size_t bytes;
} tp__lstm_back_buffers;
static tp__lstm_back_buffers tp__lstm_back_buffers_of(const tp_call *k)
{
    const bool batch_major = ((const tp__lstm_attrs *)k->attrs)->batch_major;
    const tp__rnn_shape r = tp__rnn_shape_of(&k->in[3].shape, &k->in[5].shape, batch_major);
    const size_t size = tp__dtype_size(k->in[3].dtype), real = tp__dtype_size(tp__rnn_real(k->in[3].dtype));
    tp__seq_scratch scratch = tp__seq_scratch_at(k->scratch);
    tp__lstm_back_buffers m;
    m.dgates = tp__seq_take(&scratch, r.T * r.B * 4 * r.H, size);
    m.step = batch_major ? tp__seq_take(&scratch, r.B * 4 * r.H, size) : NULL;
    m.before = tp__seq_take(&scratch, r.T * r.B * r.H, size);
    m.dh = tp__seq_take(&scratch, r.B * r.H, real);
    m.dc = tp__seq_take(&scratch, r.B * r.H, real);
    m.h0 = tp__seq_take(&scratch, tp__rnn_converted_size(&k->in[5], tp__rnn_real(k->in[3].dtype)), real);
    m.c0 = tp__seq_take(&scratch, tp__rnn_converted_size(&k->in[6], tp__rnn_real(k->in[3].dtype)), real);
    m.part = tp__seq_take(&scratch, TP__SEQ_CHUNKS * 4 * r.H, real);
    m.bytes = scratch.used;
    return m;
}
static size_t tp__lstm_back_bytes(const tp_call *k) { return tp__lstm_back_buffers_of(k).bytes; }

template <class T>
static void tp__lstm_back_run(const tp_call *k) /* inputs of lstm_grad: dy, dh_T, dc_T, x, W, h0, c0, y, gates, cells */
{
    typedef tp__real<T> R;
    const tp__rnn_shape r =
        tp__rnn_shape_of(&k->in[3].shape, &k->in[5].shape, ((const tp__lstm_attrs *)k->attrs)->batch_major);
    const tp_dtype dtype = k->in[3].dtype, real = tp__rnn_real(dtype);
    const int64_t H = r.H, G = 4 * H, rows = r.T * r.B;
    const tp__lstm_back_buffers m = tp__lstm_back_buffers_of(k);
    const T *w = (const T *)k->in[4].data;
    const void *h0 = tp__rnn_single(k, &k->in[5], real, m.h0), *c0 = tp__rnn_single(k, &k->in[6], real, m.c0);
    tp__rnn_as(k, k->in[1].data, k->in[1].dtype, m.dh, real, r.B * H);
    tp__rnn_as(k, k->in[2].data, k->in[2].dtype, m.dc, real, r.B * H);
    for (int64_t step = r.T - 1; step >= 0; step--) {
        tp__lstm_back_step<T> a;
        a.B = r.B, a.H = H, a.row = step * r.step_stride, a.st = r.step_stride, a.sb = r.sample_stride;
        a.first = step == 0;
        a.dy = (const T *)k->in[0].data, a.gates = (const T *)k->in[8].data, a.cells = (const T *)k->in[9].data;
        a.y = (const T *)k->in[7].data, a.h0 = (const R *)h0, a.c0 = (const R *)c0;
        a.dh = (const R *)m.dh, a.dc = (R *)m.dc, a.step = (T *)m.step;
        a.dgates = (T *)m.dgates, a.before = (T *)m.before;
        TP_RUN(k, (tp__lstm_back_cell<T>), r.B * H, a);
        const T *together = m.step ? a.step : a.dgates + step * r.B * G;
        tp__seq_product(k, dtype, real, r.B, H, G, false, true, false, together, w + r.I * G, m.dh);
    }
    tp__rnn_as(k, m.dh, real, k->out[3].data, k->out[3].dtype, r.B * H);
    tp__rnn_as(k, m.dc, real, k->out[4].data, k->out[4].dtype, r.B * H);
    const tp_dtype dw = k->out[1].dtype;
    tp__seq_product(k, dtype, dtype, rows, r.I, G, false, true, false, m.dgates, w, k->out[0].data);
    tp__seq_product(k, dtype, dw, r.I, G, rows, true, false, false, k->in[3].data, m.dgates, k->out[1].data);
    tp__seq_product(k, dtype, dw, H, G, rows, true, false, false, m.before, m.dgates, tp__rnn_rows(&k->out[1], r.I));
    tp__seq_column_sums<T>(k, m.dgates, m.part, &k->out[2], rows, G);
}
static void tp__lstm_back_cuda(const tp_call *k) { TP_REALS(k->in[3].dtype, tp__lstm_back_run<T>(k);); }

/* -- gru, gru_grad: like lstm, with two products per step: h Wgh for the gates, then (r h) Wch for the candidate. */
template <class T> struct tp__gru_step {
    int64_t B, H, row, sb;
    const tp__real<T> *xg, *xc, *hg, *hc, *bg, *bc;
    tp__real<T> *h, *u;          /* h (B,H): the state; u (B,H): the update gate */
    T *rh, *rounded, *gates, *y; /* rh: r h; rounded: h as type T for the next product */
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
            g[q] = tp__logistic(a.xg[row * 2 * H + q * H + i] + a.hg[b * 2 * H + q * H + i] + a.bg[q * H + i]);
        tp__put(a.rh, e, g[0] * a.h[e]);
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
        const R c = tanh(a.xc[row * H + i] + a.hc[e] + a.bc[i]), u = a.u[e];
        const R h = u * a.h[e] + (1 - u) * c;
        a.h[e] = h;
        if (a.rounded) tp__put(a.rounded, e, h);
        if (a.y) tp__put(a.y, row * H + i, h);
        if (a.gates) tp__put(a.gates, row * 3 * H + 2 * H + i, c);
    }
}
typedef struct tp__gru_buffers {
    void *xg, *xc, *hg, *hc, *h, *u, *rh, *rounded, *bg, *bc;
    size_t bytes;
} tp__gru_buffers;
static tp__gru_buffers tp__gru_buffers_of(const tp_call *k)
{
    const tp__rnn_shape r =
        tp__rnn_shape_of(&k->in[0].shape, &k->in[5].shape, ((const tp__gru_attrs *)k->attrs)->batch_major);
    const size_t size = tp__dtype_size(k->in[0].dtype), real = tp__dtype_size(tp__rnn_real(k->in[0].dtype));
    const int64_t state = r.B * r.H;
    tp__seq_scratch scratch = tp__seq_scratch_at(k->scratch);
    tp__gru_buffers m;
    m.xg = tp__seq_take(&scratch, r.T * 2 * state, real);
    m.xc = tp__seq_take(&scratch, r.T * state, real);
    m.hg = tp__seq_take(&scratch, 2 * state, real);
    m.hc = tp__seq_take(&scratch, state, real);
    m.h = tp__seq_take(&scratch, state, real);
    m.u = tp__seq_take(&scratch, state, real);
    m.rh = tp__seq_take(&scratch, state, size);
    m.rounded = size < real ? tp__seq_take(&scratch, state, size) : NULL;
    m.bg = tp__seq_take(&scratch, tp__rnn_converted_size(&k->in[2], tp__rnn_real(k->in[0].dtype)), real);
    m.bc = tp__seq_take(&scratch, tp__rnn_converted_size(&k->in[4], tp__rnn_real(k->in[0].dtype)), real);
    m.bytes = scratch.used;
    return m;
}
static size_t tp__gru_bytes(const tp_call *k) { return tp__gru_buffers_of(k).bytes; }

template <class T> static void tp__gru_run(const tp_call *k) /* inputs of gru: x, Wg, bg, Wc, bc, h0 */
{
    typedef tp__real<T> R;
    const tp__rnn_shape r =
        tp__rnn_shape_of(&k->in[0].shape, &k->in[5].shape, ((const tp__gru_attrs *)k->attrs)->batch_major);
    const tp_dtype dtype = k->in[0].dtype, real = tp__rnn_real(dtype);
    const int64_t H = r.H, rows = r.T * r.B;
    const tp__gru_buffers m = tp__gru_buffers_of(k);
    const T *wg = (const T *)k->in[1].data, *wc = (const T *)k->in[3].data;
    const void *bg = tp__rnn_single(k, &k->in[2], real, m.bg), *bc = tp__rnn_single(k, &k->in[4], real, m.bc);
    tp__rnn_as(k, k->in[5].data, k->in[5].dtype, m.h, real, r.B * H);
    tp__rnn_as(k, k->in[5].data, k->in[5].dtype, m.rounded, dtype, r.B * H);
    tp__seq_product(k, dtype, real, rows, 2 * H, r.I, false, false, false, k->in[0].data, wg, m.xg);
    tp__seq_product(k, dtype, real, rows, H, r.I, false, false, false, k->in[0].data, wc, m.xc);
    for (int64_t step = 0; step < r.T; step++) {
        tp__gru_step<T> a;
        a.B = r.B, a.H = H, a.row = step * r.step_stride, a.sb = r.sample_stride;
        a.xg = (const R *)m.xg, a.xc = (const R *)m.xc, a.hg = (const R *)m.hg, a.hc = (const R *)m.hc;
        a.bg = (const R *)bg, a.bc = (const R *)bc;
        a.h = (R *)m.h, a.u = (R *)m.u, a.rh = (T *)m.rh, a.rounded = (T *)m.rounded;
        a.y = (T *)k->out[0].data, a.gates = (T *)k->out[2].data;
        tp__seq_product(k, dtype, real, r.B, 2 * H, H, false, false, false, m.rounded ? m.rounded : m.h,
                        wg + r.I * 2 * H, m.hg);
        TP_RUN(k, (tp__gru_gates<T>), r.B * H, a);
        tp__seq_product(k, dtype, real, r.B, H, H, false, false, false, m.rh, wc + r.I * H, m.hc);
        TP_RUN(k, (tp__gru_cell<T>), r.B * H, a);
    }
    tp__rnn_as(k, m.h, real, k->out[1].data, k->out[1].dtype, r.B * H);
}
static void tp__gru_cuda(const tp_call *k) { TP_REALS(k->in[0].dtype, tp__gru_run<T>(k);); }

/* One GRU step back in two kernels; the second needs d_reset_h = dc' Wch^T. Afterwards dh (B,H) += [dr', du'] Wgh^T. step_g
 * and step_c hold this step's rows of dg (rows,2H) and dc (rows,H), if these are not contiguous. */
template <class T> struct tp__gru_back_step {
    int64_t B, H, row, st, sb;
    bool first;
    const T *dy, *gates, *y;
    const tp__real<T> *h0, *d_reset_h;
    tp__real<T> *dh;
    /* before (rows,H): the previous state h_t-1; reset (rows,H): r h_t-1 */
    T *dg, *dc, *step_g, *step_c, *before, *reset;
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
        const R h0 = a.first ? a.h0[e] : tp__get(a.y, (row - a.st) * H + i);
        const R d = tp__get(a.dy, row * H + i) + a.dh[e];
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
        const R r = tp__get(a.gates, row * 3 * H + i), d_reset_h = a.d_reset_h[e];
        const R h0 = a.first ? a.h0[e] : tp__get(a.y, (row - a.st) * H + i);
        const R dr = d_reset_h * h0 * r * (1 - r);
        a.dh[e] += d_reset_h * r;
        tp__put(a.dg, row * 2 * H + i, dr);
        if (a.step_g) tp__put(a.step_g, b * 2 * H + i, dr);
    }
}
typedef struct tp__gru_back_buffers {
    void *dg, *dc, *step_g, *step_c, *before, *reset, *d_reset_h, *dh, *h0, *part;
    size_t bytes;
} tp__gru_back_buffers;
static tp__gru_back_buffers tp__gru_back_buffers_of(const tp_call *k)
{
    const bool batch_major = ((const tp__gru_attrs *)k->attrs)->batch_major;
    const tp__rnn_shape r = tp__rnn_shape_of(&k->in[2].shape, &k->in[5].shape, batch_major);
    const size_t size = tp__dtype_size(k->in[2].dtype), real = tp__dtype_size(tp__rnn_real(k->in[2].dtype));
    const int64_t state = r.B * r.H;
    tp__seq_scratch scratch = tp__seq_scratch_at(k->scratch);
    tp__gru_back_buffers m;
    m.dg = tp__seq_take(&scratch, r.T * 2 * state, size);
    m.dc = tp__seq_take(&scratch, r.T * state, size);
    m.step_g = batch_major ? tp__seq_take(&scratch, 2 * state, size) : NULL;
    m.step_c = batch_major ? tp__seq_take(&scratch, state, size) : NULL;
    m.before = tp__seq_take(&scratch, r.T * state, size);
    m.reset = tp__seq_take(&scratch, r.T * state, size);
    m.d_reset_h = tp__seq_take(&scratch, state, real);
    m.dh = tp__seq_take(&scratch, state, real);
    m.h0 = tp__seq_take(&scratch, tp__rnn_converted_size(&k->in[5], tp__rnn_real(k->in[2].dtype)), real);
    m.part = tp__seq_take(&scratch, TP__SEQ_CHUNKS * 2 * r.H, real);
    m.bytes = scratch.used;
    return m;
}
static size_t tp__gru_back_bytes(const tp_call *k) { return tp__gru_back_buffers_of(k).bytes; }

/* inputs of gru_grad: dy, dh_T, x, Wg, Wc, h0, y, gates */
template <class T> static void tp__gru_back_run(const tp_call *k)
{
    typedef tp__real<T> R;
    const tp__rnn_shape r =
        tp__rnn_shape_of(&k->in[2].shape, &k->in[5].shape, ((const tp__gru_attrs *)k->attrs)->batch_major);
    const tp_dtype dtype = k->in[2].dtype, real = tp__rnn_real(dtype);
    const int64_t H = r.H, rows = r.T * r.B;
    const tp__gru_back_buffers m = tp__gru_back_buffers_of(k);
    const T *wg = (const T *)k->in[3].data, *wc = (const T *)k->in[4].data;
    const void *h0 = tp__rnn_single(k, &k->in[5], real, m.h0);
    tp__rnn_as(k, k->in[1].data, k->in[1].dtype, m.dh, real, r.B * H);
    for (int64_t step = r.T - 1; step >= 0; step--) {
        tp__gru_back_step<T> a;
        a.B = r.B, a.H = H, a.row = step * r.step_stride, a.st = r.step_stride, a.sb = r.sample_stride;
        a.first = step == 0;
        a.dy = (const T *)k->in[0].data, a.gates = (const T *)k->in[7].data, a.y = (const T *)k->in[6].data;
        a.h0 = (const R *)h0, a.d_reset_h = (const R *)m.d_reset_h, a.dh = (R *)m.dh;
        a.dg = (T *)m.dg, a.dc = (T *)m.dc, a.step_g = (T *)m.step_g, a.step_c = (T *)m.step_c;
        a.before = (T *)m.before, a.reset = (T *)m.reset;
        TP_RUN(k, (tp__gru_back_cell<T>), r.B * H, a);
        const T *dc = m.step_c ? a.step_c : a.dc + step * r.B * H;
        tp__seq_product(k, dtype, real, r.B, H, H, false, true, false, dc, wc + r.I * H, m.d_reset_h);
        TP_RUN(k, (tp__gru_back_reset<T>), r.B * H, a);
        const T *dg = m.step_g ? a.step_g : a.dg + step * r.B * 2 * H;
        tp__seq_product(k, dtype, real, r.B, H, 2 * H, false, true, true, dg, wg + r.I * 2 * H, m.dh);
    }
    tp__rnn_as(k, m.dh, real, k->out[5].data, k->out[5].dtype, r.B * H);
    const tp_operand *dwg = &k->out[1], *dwc = &k->out[3];
    const tp_dtype dw = dwg->dtype;
    tp__seq_product(k, dtype, dtype, rows, r.I, 2 * H, false, true, false, m.dg, wg, k->out[0].data);
    tp__seq_product(k, dtype, dtype, rows, r.I, H, false, true, true, m.dc, wc, k->out[0].data);
    tp__seq_product(k, dtype, dw, r.I, 2 * H, rows, true, false, false, k->in[2].data, m.dg, dwg->data);
    tp__seq_product(k, dtype, dw, H, 2 * H, rows, true, false, false, m.before, m.dg, tp__rnn_rows(dwg, r.I));
    tp__seq_product(k, dtype, dw, r.I, H, rows, true, false, false, k->in[2].data, m.dc, dwc->data);
    tp__seq_product(k, dtype, dw, H, H, rows, true, false, false, m.reset, m.dc, tp__rnn_rows(dwc, r.I));
    tp__seq_column_sums<T>(k, m.dg, m.part, &k->out[2], rows, 2 * H);
    tp__seq_column_sums<T>(k, m.dc, m.part, &k->out[4], rows, H);
}
static void tp__gru_back_cuda(const tp_call *k) { TP_REALS(k->in[2].dtype, tp__gru_back_run<T>(k);); }

/* -- attention, attention_grad: scores are computed tile by tile and never stored. A block has a tile of rows (queries; or
 *    keys, for the gradients of keys and values) and loops over the other operand in tiles of columns. Each of the 16 x 16
 *    threads has M x M scores of a tile, and M rows by ND columns of the result; a head larger than 16 ND needs several blocks,
 *    each of which computes the scores again. Products are computed over slices of the head in shared memory. Keys that a query
 *    does not attend to have probability 0; an infinite value then gives NaN, as in the CPU's fast loop. */
typedef struct tp__attention_args {
    int64_t Tq, Tk, C, heads,
        keys_of_first_query; /* query i attends to the keys below min(i + keys_of_first_query, Tk) */
    int D;
    bool by_four; /* the rows of each head are aligned to four elements */
    double scale;
    const void *dy, *q, *k, *v, *y, *lse;
    void *delta, *out[3]; /* outputs: of attention y and lse, of its gradient dq, dk and dv */
    int lse_type;         /* dtype of lse, the second output; the inputs and delta have the type of the computation */
} tp__attention_args;
template <class R, int N> struct alignas(sizeof(R) * N < 16 ? sizeof(R) * N : 16) tp__pack {
    R v[N];
};
/* SIZE: rows and columns of a tile of attention scores; DEEP: how much of the head's size a slice of it covers; SLICES:
 * number of elements in two slices. */
template <class R> struct tp__tile {
    enum { M = sizeof(R) == 8 ? 2 : 4, SIZE = 16 * M, DEEP = 32, SLICES = 2 * DEEP * SIZE };
};

/* Loads x[0] to x[3], of which `left` elements exist; the others become 0. */
template <class T, class R> __device__ __forceinline__ void tp__seq_get4(const T *x, int left, bool by_four, R v[4])
{
    if (by_four && left >= 4) {
        const tp__pack<T, 4> p = *(const tp__pack<T, 4> *)x;
        for (int i = 0; i < 4; i++) v[i] = tp__get(p.v, i);
        return;
    }
    for (int i = 0; i < 4; i++) v[i] = i < left ? tp__get(x, i) : 0;
}
/* Loads a slice of a tile, transposed; groups of M rows are permuted by depth, so that neither reads nor writes have bank
 * conflicts. */
template <class T, class R>
__device__ __forceinline__ void tp__tile_slice(R *shared, const T *x, int64_t pitch, int n, int depth, int D,
                                               bool by_four)
{
    const int M = tp__tile<R>::M, SIZE = tp__tile<R>::SIZE;
    for (int e = threadIdx.x; e < SIZE * (tp__tile<R>::DEEP / 4); e += TP__THREADS) {
        const int r = e / (tp__tile<R>::DEEP / 4), f = e % (tp__tile<R>::DEEP / 4),
                  left = r < n ? D - depth - f * 4 : 0;
        R v[4];
        tp__seq_get4(x + r * pitch + depth + f * 4, left, by_four, v);
        for (int i = 0; i < 4; i++) shared[(f * 4 + i) * SIZE + ((r / M) ^ (f & 7)) * M + r % M] = v[i];
    }
}
/* s = the products of a thread's M rows and M columns, over the whole depth D. */
template <class T, class R>
__device__ __forceinline__ void tp__tile_products(R s[tp__tile<R>::M][tp__tile<R>::M], R *shared, const T *rows,
                                                  int n_rows, const T *columns, int n_columns, int64_t pitch, int D,
                                                  bool by_four)
{
    const int M = tp__tile<R>::M, SIZE = tp__tile<R>::SIZE, DEEP = tp__tile<R>::DEEP;
    const int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
    R *other = shared + DEEP * SIZE;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < M; j++) s[i][j] = 0;
    for (int depth = 0; depth < D; depth += DEEP) {
        const int n = D - depth < DEEP ? (D - depth + 3) / 4 : DEEP / 4;
        __syncthreads();
        tp__tile_slice(shared, rows, pitch, n_rows, depth, D, by_four);
        tp__tile_slice(other, columns, pitch, n_columns, depth, D, by_four);
        __syncthreads();
#pragma unroll 2
        for (int f = 0; f < n; f++) {
            const R *a = shared + f * 4 * SIZE + (ty ^ (f & 7)) * M, *b = other + f * 4 * SIZE + (tx ^ (f & 7)) * M;
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
/* Stores the threads' M x M numbers as a tile in shared memory, by columns; groups of rows are permuted here too. */
template <class R> __device__ __forceinline__ void tp__tile_put(R *tile, const R s[tp__tile<R>::M][tp__tile<R>::M])
{
    const int M = tp__tile<R>::M, SIZE = tp__tile<R>::SIZE, tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
    for (int j = 0; j < M; j++) {
        tp__pack<R, tp__tile<R>::M> p;
        for (int i = 0; i < M; i++) p.v[i] = s[i][j];
        *(tp__pack<R, tp__tile<R>::M> *)(tile + (tx * M + j) * SIZE + (ty ^ tx) * M) = p;
    }
}
/* Returns the index, within the head's channels, of the n-th of the ND elements that this thread computes of a row. */
template <int ND> __device__ __forceinline__ int tp__tile_element(int n)
{
    const int V = ND < 4 ? ND : 4;
    return n / V * 16 * V + (int)(threadIdx.x & 15) * V + n % V;
}
/* sum += tile x, a product of a tile of scores with n rows of x. */
template <int ND, class T, class R>
__device__ __forceinline__ void tp__tile_sums(R sum[tp__tile<R>::M][ND], const R *tile, R *shared, const T *x,
                                              int64_t pitch, int n, int D, bool by_four)
{
    const int M = tp__tile<R>::M, SIZE = tp__tile<R>::SIZE, WIDE = 16 * ND;
    const int HIGH = (int)tp__tile<R>::SLICES / WIDE < SIZE ? (int)tp__tile<R>::SLICES / WIDE : SIZE;
    const int ty = threadIdx.x >> 4;
    for (int from = 0; from < n; from += HIGH) {
        const int m = n - from < HIGH ? n - from : HIGH;
        __syncthreads();
        for (int e = threadIdx.x; e < m * (WIDE / 4); e += TP__THREADS) {
            const int r = e / (WIDE / 4), f = e % (WIDE / 4);
            tp__pack<R, 4> p;
            tp__seq_get4(x + (from + r) * pitch + f * 4, D - f * 4, by_four, p.v);
            *(tp__pack<R, 4> *)(shared + r * WIDE + f * 4) = p;
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
                    *(const tp__pack<R, (ND < 4 ? ND : 4)> *)(shared + c * WIDE + tp__tile_element<ND>(g));
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

/* The work of a block of attention: a tile of a head. The last tiles come first, since they attend to the most keys. */
typedef struct tp__attention_piece {
    int64_t b, head, tile;
    int slice; /* the first element of the head's results that this block computes */
} tp__attention_piece;
__device__ __forceinline__ tp__attention_piece tp__attention_place(const tp__attention_args &a, int64_t tiles,
                                                                   int tile_columns)
{
    tp__attention_piece p;
    const unsigned slices = (unsigned)((a.D + tile_columns - 1) / tile_columns);
    unsigned x = blockIdx.x;
    p.slice = (int)(x % slices) * tile_columns;
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
    TP_SHARED(R, shared, tp__tile<R>::SLICES);
    TP_SHARED(R, tile, tp__tile<R>::SIZE * tp__tile<R>::SIZE);
    const tp__attention_piece at = tp__attention_place(a, (a.Tq + SIZE - 1) / SIZE, 16 * ND);
    const int64_t i0 = at.tile * SIZE, rows = (at.b * a.Tq + i0) * a.C + at.head * a.D,
                  columns = at.b * a.Tk * a.C + at.head * a.D;
    const int n_rows = a.Tq - i0 < SIZE ? (int)(a.Tq - i0) : SIZE;
    const int64_t end = i0 + n_rows - 1 + a.keys_of_first_query < a.Tk ? i0 + n_rows - 1 + a.keys_of_first_query : a.Tk;
    const R none = -(R)INFINITY, scale = (R)a.scale;
    R sum[tp__tile<R>::M][ND], most[tp__tile<R>::M], z[tp__tile<R>::M];
    for (int i = 0; i < M; i++) {
        most[i] = none, z[i] = 0;
        for (int d = 0; d < ND; d++) sum[i][d] = 0;
    }
    for (int64_t j0 = 0; j0 < end; j0 += SIZE) {
        const int n = end - j0 < SIZE ? (int)(end - j0) : SIZE;
        R s[tp__tile<R>::M][tp__tile<R>::M];
        tp__tile_products(s, shared, (const T *)a.q + rows, n_rows, (const T *)a.k + columns + j0 * a.C, n, a.C, a.D,
                          a.by_four);
#pragma unroll
        for (int i = 0; i < M; i++) {
            const int64_t seen =
                i0 + ty * M + i + a.keys_of_first_query < a.Tk ? i0 + ty * M + i + a.keys_of_first_query : a.Tk;
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
        tp__tile_sums<ND>(sum, tile, shared, (const T *)a.v + columns + j0 * a.C + at.slice, a.C, n, a.D - at.slice,
                          a.by_four);
    }
#pragma unroll
    for (int i = 0; i < M; i++) {
        const int64_t row = i0 + ty * M + i;
        for (int d = 8; d > 0; d >>= 1) z[i] += __shfl_xor_sync(0xffffffffu, z[i], d);
        if (row >= a.Tq) continue;
        if (a.out[1] && at.slice == 0 && tx == 0)
            tp__put_as(a.out[1], a.lse_type, (at.b * a.heads + at.head) * a.Tq + row,
                       z[i] == 0 ? most[i] - most[i] : most[i] + log(z[i]));
        for (int n = 0; n < ND && a.out[0]; n++) {
            const int d = at.slice + tp__tile_element<ND>(n);
            if (d < a.D) tp__put((T *)a.out[0], rows + (int64_t)(ty * M + i) * a.C + d, sum[i][n] / z[i]);
        }
    }
}

/* Computes delta for attention's gradient: for each row, the sum of dy y over a head's elements; one warp per row. */
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
/* Backward attention. KEYS: rows are keys, the results dk and dv; else rows are queries, the result dq. */
template <class T, int ND, bool KEYS> TP_KERNEL tp__attention_back(const tp__attention_args a)
{
    typedef tp__real<T> R;
    const int M = tp__tile<R>::M, SIZE = tp__tile<R>::SIZE, tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
    TP_SHARED(R, shared, tp__tile<R>::SLICES);
    TP_SHARED(R, tile, tp__tile<R>::SIZE * tp__tile<R>::SIZE);
    const int64_t n_all = KEYS ? a.Tk : a.Tq, n_other = KEYS ? a.Tq : a.Tk;
    const tp__attention_piece at = tp__attention_place(a, (n_all + SIZE - 1) / SIZE, 16 * ND);
    const int64_t r0 = at.tile * SIZE, rows = (at.b * n_all + r0) * a.C + at.head * a.D,
                  columns = at.b * n_other * a.C + at.head * a.D, sums = (at.b * a.heads + at.head) * a.Tq;
    const int n_rows = n_all - r0 < SIZE ? (int)(n_all - r0) : SIZE;
    int64_t c = 0, end = a.Tq; /* the range of columns (queries or keys) that these rows interact with */
    if (KEYS) c = r0 - a.keys_of_first_query + 1 > 0 ? (r0 - a.keys_of_first_query + 1) / SIZE * SIZE : 0;
    else end = r0 + n_rows - 1 + a.keys_of_first_query < a.Tk ? r0 + n_rows - 1 + a.keys_of_first_query : a.Tk;
    const R scale = (R)a.scale;
    const T *row_s = (const T *)(KEYS ? a.k : a.q) + rows, *row_p = (const T *)(KEYS ? a.v : a.dy) + rows;
    const T *column_s = (const T *)(KEYS ? a.q : a.k) + columns, *column_p = (const T *)(KEYS ? a.dy : a.v) + columns;
    R sum[tp__tile<R>::M][ND], sum_v[tp__tile<R>::M][ND];
    for (int i = 0; i < M; i++)
        for (int d = 0; d < ND; d++) sum[i][d] = sum_v[i][d] = 0;
    for (; c < end; c += SIZE) {
        const int n = end - c < SIZE ? (int)(end - c) : SIZE;
        R p[tp__tile<R>::M][tp__tile<R>::M], ds[tp__tile<R>::M][tp__tile<R>::M];
        tp__tile_products(p, shared, row_s, n_rows, column_s + c * a.C, n, a.C, a.D, a.by_four);
        tp__tile_products(ds, shared, row_p, n_rows, column_p + c * a.C, n, a.C, a.D, a.by_four);
#pragma unroll
        for (int i = 0; i < M; i++)
#pragma unroll
            for (int j = 0; j < M; j++) {
                const int64_t row = r0 + ty * M + i, column = c + tx * M + j;
                const int64_t query = KEYS ? column : row, key = KEYS ? row : column;
                const bool seen = query < a.Tq && key < a.Tk && key < query + a.keys_of_first_query;
                const R e = p[i][j] * scale - (seen ? ((const R *)a.lse)[sums + query] : 0);
                p[i][j] = seen ? exp(e) : 0;
                ds[i][j] = seen ? p[i][j] * (ds[i][j] - ((const R *)a.delta)[sums + query]) * scale : 0;
            }
        if (KEYS && a.out[2]) {
            tp__tile_put(tile, p);
            tp__tile_sums<ND>(sum_v, tile, shared, column_p + c * a.C + at.slice, a.C, n, a.D - at.slice, a.by_four);
            __syncthreads(); /* wait until all threads have read the tile */
        }
        if (!KEYS || a.out[1]) {
            tp__tile_put(tile, ds);
            tp__tile_sums<ND>(sum, tile, shared, column_s + c * a.C + at.slice, a.C, n, a.D - at.slice, a.by_four);
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

static tp__attention_args tp__attention_args_of(const tp_call *k, bool backward)
{
    const tp__attention_attrs *t = (const tp__attention_attrs *)k->attrs;
    const tp_operand *q = &k->in[backward ? 1 : 0];
    tp__attention_args a;
    memset(&a, 0, sizeof a);
    a.Tq = q->shape.dim[1], a.Tk = q[1].shape.dim[1], a.C = q->shape.dim[2];
    a.heads = t->heads;
    a.D = (int)(a.C / a.heads);
    a.keys_of_first_query = t->causal ? a.Tk - a.Tq + 1 : a.Tk;
    a.by_four = a.D % 4 == 0;
    a.scale = 1 / sqrt((double)a.D);
    a.q = q->data, a.k = q[1].data, a.v = q[2].data;
    for (int i = 0; i < k->n_out; i++) a.out[i] = k->out[i].data;
    a.lse_type = (int)k->out[1].dtype;
    if (!backward) return a;
    const tp_dtype real = tp__rnn_real(q->dtype);
    a.dy = k->in[0].data, a.y = k->in[4].data;
    a.delta = k->scratch;
    a.lse =
        tp__rnn_single(k, &k->in[5], real, (char *)k->scratch + tp__size(&k->in[5]) * (int64_t)tp__dtype_size(real));
    return a;
}
template <class T, int ND>
static void tp__attention_launch(const tp_call *k, const tp__attention_args &a, bool backward)
{
    const int64_t SIZE = tp__tile<tp__real<T>>::SIZE, B = k->in[backward ? 1 : 0].shape.dim[0];
    const int64_t each = B * a.heads * ((a.D + 16 * ND - 1) / (16 * ND));
    const int64_t queries = each * ((a.Tq + SIZE - 1) / SIZE), keys = each * ((a.Tk + SIZE - 1) / SIZE);
    if (queries >> 31 || keys >> 31) {
        tp__store_error(tp__cuda_of(k), k->op->name, "it has more tiles than a grid has blocks");
        return;
    }
    if (!backward) {
        if (a.out[0] || a.out[1]) TP_RUN_BLOCKS(k, (tp__attention_forward<T, ND>), queries, TP__THREADS, 0, a);
        return;
    }
    TP_RUN(k, (tp__attention_delta<T>), B * a.heads * a.Tq * 32, a, B * a.heads * a.Tq);
    if (a.out[0]) TP_RUN_BLOCKS(k, (tp__attention_back<T, ND, false>), queries, TP__THREADS, 0, a);
    if (a.out[1] || a.out[2]) TP_RUN_BLOCKS(k, (tp__attention_back<T, ND, true>), keys, TP__THREADS, 0, a);
}

/* -- attention by tensor cores, for heads of up to 128 halves, or float32 numbers if TF32 is allowed: the same tiles and sums,
 *    with the products of a warp computed by mma. A block of sums can be used as a left operand directly, if the words of the right
 *    operand are loaded in the matching order: probabilities never leave the registers. A block has four warps of 16 rows and processes
 *    the other operand 32 columns at a time. */
#define TP__MMA_ROWS    64
#define TP__MMA_COLUMNS 32
#define TP__MMA_THREADS 128
/* Loads rows of a head as words; rows past n and numbers past D are zeros. The pitch keeps a warp's words in different
 * banks. */
template <class T, int WIDE> struct tp__mma_tile {
    enum { WORDS = WIDE / tp__mma<T>::PER, PITCH = WORDS + 4 };
};
template <class T, int WIDE>
__device__ __forceinline__ void tp__mma_load(unsigned *tile, int high, const T *x, int64_t pitch, int n, int D,
                                             bool by_four)
{
    const int PER = tp__mma<T>::PER, PITCH = tp__mma_tile<T, WIDE>::PITCH;
    for (int e = threadIdx.x; e < high * (WIDE / 4); e += TP__MMA_THREADS) {
        const int r = e / (WIDE / 4), d = e % (WIDE / 4) * 4, left = r < n ? D - d : 0;
        tp__pack<T, 4> p = {};
        tp__pack<unsigned, 4 / tp__mma<T>::PER> w;
        if (by_four && left >= 4) p = *(const tp__pack<T, 4> *)(x + r * pitch + d);
        else
            for (int i = 0; i < 4 && i < left; i++) p.v[i] = x[r * pitch + d + i];
        for (int i = 0; i < 4 / PER; i++) w.v[i] = tp__mma_word(p.v + i * PER);
        *(tp__pack<unsigned, 4 / tp__mma<T>::PER> *)(tile + r * PITCH + d / PER) = w;
    }
}
/* Computes s (16, TP__MMA_COLUMNS) = the warp's rows of one tile times the columns of another, over the whole depth D. */
template <class T, int WIDE>
__device__ __forceinline__ void tp__mma_products(float s[TP__MMA_COLUMNS / 8][4], const unsigned *rows,
                                                 const unsigned *columns, int D)
{
    const int PITCH = tp__mma_tile<T, WIDE>::PITCH, g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3;
    const unsigned *left = rows + ((threadIdx.x >> 5) * 16 + g) * PITCH + t, *right = columns + g * PITCH + t;
#pragma unroll
    for (int n = 0; n < TP__MMA_COLUMNS / 8; n++)
        for (int i = 0; i < 4; i++) s[n][i] = 0;
    for (int w = 0; w * tp__mma<T>::PER < D; w += 8) {
        const unsigned a[4] = {left[w], left[8 * PITCH + w], left[w + 4], left[8 * PITCH + w + 4]};
#pragma unroll
        for (int n = 0; n < TP__MMA_COLUMNS / 8; n++) {
            const unsigned b[2] = {right[n * 8 * PITCH + w], right[n * 8 * PITCH + w + 4]};
            tp__mma_add<T>(s[n], a, b);
        }
    }
}
/* Computes sum (16, WIDE) += s x, over the rows of tile x. */
template <class T, int WIDE>
__device__ __forceinline__ void tp__mma_sums(float sum[WIDE / 8][4], const float s[TP__MMA_COLUMNS / 8][4],
                                             const unsigned *x, int D)
{
    const int PITCH = tp__mma_tile<T, WIDE>::PITCH, DEEP = tp__mma<T>::DEEP, g = (threadIdx.x & 31) >> 2,
              t = threadIdx.x & 3;
    constexpr bool halves = tp__mma<T>::PER == 2;
#pragma unroll
    for (int k = 0; k < TP__MMA_COLUMNS / DEEP; k++) {
        unsigned a[4], b[2];
        if constexpr (halves) {
            const float *u = s[2 * k], *v = s[2 * k + 1];
            a[0] = tp__mma_pair<T>(u[0], u[1]), a[1] = tp__mma_pair<T>(u[2], u[3]);
            a[2] = tp__mma_pair<T>(v[0], v[1]), a[3] = tp__mma_pair<T>(v[2], v[3]);
        } else {
            /* mma wants columns t and t+4 from this thread, which has 2t and 2t+1; rows of x are loaded in that order */
            a[0] = tp__mma_word(s[k]), a[1] = tp__mma_word(s[k] + 2);
            a[2] = tp__mma_word(s[k] + 1), a[3] = tp__mma_word(s[k] + 3);
        }
        const unsigned *row = x + (k * DEEP + 2 * t) * PITCH + (halves ? g >> 1 : g);
#pragma unroll
        for (int n = 0; n < WIDE / 8; n++) {
            if (n * 8 >= D) break;
            const unsigned *w = row + n * 8 / tp__mma<T>::PER;
            if constexpr (halves) {
                const int shift = (g & 1) * 16;
                b[0] = (w[0] >> shift & 0xffffu) | w[PITCH] >> shift << 16;
                b[1] = (w[8 * PITCH] >> shift & 0xffffu) | w[9 * PITCH] >> shift << 16;
            } else b[0] = w[0], b[1] = w[PITCH];
            tp__mma_add<T>(sum[n], a, b);
        }
    }
}
template <class T, int WIDE>
__device__ __forceinline__ void tp__mma_store(T *to, int64_t pitch, const float sum[WIDE / 8][4], const float *divide,
                                              int n_rows, int D)
{
    const int r = (threadIdx.x >> 5) * 16 + ((threadIdx.x & 31) >> 2), t = threadIdx.x & 3;
#pragma unroll
    for (int n = 0; n < WIDE / 8; n++)
        for (int i = 0; i < 4; i++) {
            const int row = r + (i >> 1) * 8, d = n * 8 + 2 * t + (i & 1);
            if (row < n_rows && d < D) tp__put(to, row * pitch + d, sum[n][i] / divide[i >> 1]);
        }
}

template <class T, int WIDE> TP_KERNEL tp__attention_forward_mma(const tp__attention_args a)
{
    const int PITCH = tp__mma_tile<T, WIDE>::PITCH, t = threadIdx.x & 3;
    TP_DYNAMIC_SHARED(unsigned, rows);
    unsigned *keys = rows + TP__MMA_ROWS * PITCH, *values = keys + TP__MMA_COLUMNS * PITCH;
    const tp__attention_piece at = tp__attention_place(a, (a.Tq + TP__MMA_ROWS - 1) / TP__MMA_ROWS, WIDE);
    const int64_t i0 = at.tile * TP__MMA_ROWS, first = (at.b * a.Tq + i0) * a.C + at.head * a.D,
                  columns = at.b * a.Tk * a.C + at.head * a.D;
    const int n_rows = a.Tq - i0 < TP__MMA_ROWS ? (int)(a.Tq - i0) : TP__MMA_ROWS;
    const int64_t end = i0 + n_rows - 1 + a.keys_of_first_query < a.Tk ? i0 + n_rows - 1 + a.keys_of_first_query : a.Tk;
    /* this thread computes two rows, row and row + 8 */
    const int64_t row = i0 + (threadIdx.x >> 5) * 16 + ((threadIdx.x & 31) >> 2);
    const float none = -INFINITY, scale = (float)a.scale;
    float sum[WIDE / 8][4], row_max[2] = {none, none}, z[2] = {0, 0};
    for (int n = 0; n < WIDE / 8; n++)
        for (int i = 0; i < 4; i++) sum[n][i] = 0;
    tp__mma_load<T, WIDE>(rows, TP__MMA_ROWS, (const T *)a.q + first, a.C, n_rows, a.D, a.by_four);
    for (int64_t j0 = 0; j0 < end; j0 += TP__MMA_COLUMNS) {
        const int n_columns = end - j0 < TP__MMA_COLUMNS ? (int)(end - j0) : TP__MMA_COLUMNS;
        float s[TP__MMA_COLUMNS / 8][4];
        __syncthreads();
        tp__mma_load<T, WIDE>(keys, TP__MMA_COLUMNS, (const T *)a.k + columns + j0 * a.C, a.C, n_columns, a.D,
                              a.by_four);
        tp__mma_load<T, WIDE>(values, TP__MMA_COLUMNS, (const T *)a.v + columns + j0 * a.C, a.C, n_columns, a.D,
                              a.by_four);
        __syncthreads();
        tp__mma_products<T, WIDE>(s, rows, keys, a.D);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int64_t seen = row + 8 * h + a.keys_of_first_query < end ? row + 8 * h + a.keys_of_first_query : end;
            const int m = seen - j0 < n_columns ? (int)(seen - j0) : n_columns;
            float top = row_max[h];
#pragma unroll
            for (int e = 0; e < TP__MMA_COLUMNS / 4; e++) {
                float *x = &s[e >> 1][2 * h + (e & 1)];
                *x *= scale;
                if ((e >> 1) * 8 + 2 * t + (e & 1) < m && *x > top) top = *x;
            }
            for (int d = 2; d > 0; d >>= 1) {
                const float other_max = __shfl_xor_sync(0xffffffffu, top, d);
                top = other_max > top ? other_max : top;
            }
            const float shift = top == none ? 0 : top, shrink = expf(row_max[h] - shift);
            row_max[h] = top;
            z[h] *= shrink;
#pragma unroll
            for (int e = 0; e < TP__MMA_COLUMNS / 4; e++) {
                float *x = &s[e >> 1][2 * h + (e & 1)];
                *x = (e >> 1) * 8 + 2 * t + (e & 1) < m ? expf(*x - shift) : 0;
                z[h] += *x;
            }
#pragma unroll
            for (int n = 0; n < WIDE / 8; n++) sum[n][2 * h] *= shrink, sum[n][2 * h + 1] *= shrink;
        }
        tp__mma_sums<T, WIDE>(sum, s, values, a.D);
    }
    for (int h = 0; h < 2; h++) {
        for (int d = 2; d > 0; d >>= 1) z[h] += __shfl_xor_sync(0xffffffffu, z[h], d);
        if (a.out[1] && t == 0 && row + 8 * h < a.Tq)
            tp__put_as(a.out[1], a.lse_type, (at.b * a.heads + at.head) * a.Tq + row + 8 * h,
                       z[h] == 0 ? row_max[h] - row_max[h] : row_max[h] + logf(z[h]));
    }
    if (a.out[0]) tp__mma_store<T, WIDE>((T *)a.out[0] + first, a.C, sum, z, n_rows, a.D);
}

template <class T, int WIDE, bool KEYS> TP_KERNEL tp__attention_back_mma(const tp__attention_args a)
{
    const int PITCH = tp__mma_tile<T, WIDE>::PITCH, t = threadIdx.x & 3;
    TP_DYNAMIC_SHARED(unsigned, row_s); /* tiles of the operands of the scores (_s) and of dy v^T (_p) */
    unsigned *row_p = row_s + TP__MMA_ROWS * PITCH, *column_s = row_p + TP__MMA_ROWS * PITCH,
             *column_p = column_s + TP__MMA_COLUMNS * PITCH;
    const int64_t n_all = KEYS ? a.Tk : a.Tq, n_other = KEYS ? a.Tq : a.Tk;
    const tp__attention_piece at = tp__attention_place(a, (n_all + TP__MMA_ROWS - 1) / TP__MMA_ROWS, WIDE);
    const int64_t r0 = at.tile * TP__MMA_ROWS, first = (at.b * n_all + r0) * a.C + at.head * a.D,
                  columns = at.b * n_other * a.C + at.head * a.D, sums = (at.b * a.heads + at.head) * a.Tq;
    const int n_rows = n_all - r0 < TP__MMA_ROWS ? (int)(n_all - r0) : TP__MMA_ROWS;
    const int64_t first_row = r0 + (threadIdx.x >> 5) * 16 + ((threadIdx.x & 31) >> 2);
    int64_t c = 0, end = a.Tq; /* the range of columns (queries or keys) that these rows interact with */
    if (KEYS)
        c = r0 - a.keys_of_first_query + 1 > 0 ? (r0 - a.keys_of_first_query + 1) / TP__MMA_COLUMNS * TP__MMA_COLUMNS
                                               : 0;
    else end = r0 + n_rows - 1 + a.keys_of_first_query < a.Tk ? r0 + n_rows - 1 + a.keys_of_first_query : a.Tk;
    const float scale = (float)a.scale, one[2] = {1, 1};
    float sum[WIDE / 8][4], sum_v[KEYS ? WIDE / 8 : 1][4];
    for (int n = 0; n < WIDE / 8; n++)
        for (int i = 0; i < 4; i++) sum[n][i] = sum_v[KEYS ? n : 0][i] = 0;
    tp__mma_load<T, WIDE>(row_s, TP__MMA_ROWS, (const T *)(KEYS ? a.k : a.q) + first, a.C, n_rows, a.D, a.by_four);
    tp__mma_load<T, WIDE>(row_p, TP__MMA_ROWS, (const T *)(KEYS ? a.v : a.dy) + first, a.C, n_rows, a.D, a.by_four);
    for (; c < end; c += TP__MMA_COLUMNS) {
        const int n_columns = end - c < TP__MMA_COLUMNS ? (int)(end - c) : TP__MMA_COLUMNS;
        const T *from_s = (const T *)(KEYS ? a.q : a.k) + columns + c * a.C,
                *from_p = (const T *)(KEYS ? a.dy : a.v) + columns + c * a.C;
        float p[TP__MMA_COLUMNS / 8][4], ds[TP__MMA_COLUMNS / 8][4];
        __syncthreads();
        tp__mma_load<T, WIDE>(column_s, TP__MMA_COLUMNS, from_s, a.C, n_columns, a.D, a.by_four);
        tp__mma_load<T, WIDE>(column_p, TP__MMA_COLUMNS, from_p, a.C, n_columns, a.D, a.by_four);
        __syncthreads();
        tp__mma_products<T, WIDE>(p, row_s, column_s, a.D);
        tp__mma_products<T, WIDE>(ds, row_p, column_p, a.D);
#pragma unroll
        for (int n = 0; n < TP__MMA_COLUMNS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int64_t r = first_row + (i >> 1) * 8, column = c + n * 8 + 2 * t + (i & 1);
                const int64_t query = KEYS ? column : r, key = KEYS ? r : column;
                const bool seen = query < a.Tq && key < a.Tk && key < query + a.keys_of_first_query;
                const float e = p[n][i] * scale - (seen ? ((const float *)a.lse)[sums + query] : 0);
                p[n][i] = seen ? expf(e) : 0;
                ds[n][i] = seen ? p[n][i] * (ds[n][i] - ((const float *)a.delta)[sums + query]) * scale : 0;
            }
        if (KEYS) tp__mma_sums<T, WIDE>(sum_v, p, column_p, a.D);
        tp__mma_sums<T, WIDE>(sum, ds, column_s, a.D);
    }
    T *to = (T *)a.out[KEYS ? 1 : 0], *to_v = (T *)a.out[2];
    if (to) tp__mma_store<T, WIDE>(to + first, a.C, sum, one, n_rows, a.D);
    if (KEYS && to_v) tp__mma_store<T, WIDE>(to_v + first, a.C, sum_v, one, n_rows, a.D);
}

/* Returns false if the GPU has no tensor cores for T, or the head is too large. */
template <class T, int WIDE>
static bool tp__attention_by_tensor_cores(const tp_call *k, const tp__attention_args &a, bool backward)
{
    const int64_t each = k->in[backward ? 1 : 0].shape.dim[0] * a.heads;
    const int64_t queries = each * ((a.Tq + TP__MMA_ROWS - 1) / TP__MMA_ROWS),
                  keys = each * ((a.Tk + TP__MMA_ROWS - 1) / TP__MMA_ROWS);
    const int bytes = (TP__MMA_ROWS + TP__MMA_COLUMNS) * tp__mma_tile<T, WIDE>::PITCH * (int)sizeof(unsigned);
    const int column_tile_bytes = TP__MMA_COLUMNS * tp__mma_tile<T, WIDE>::PITCH * (int)sizeof(unsigned);
    if (tp__cuda_of(k)->generation < 8 || a.D > WIDE || queries >> 31 || keys >> 31) return false;
#define TP__BY_MMA(kernel_, blocks_, bytes_)                                                                      \
    do {                                                                                                          \
        const cudaError_t e = cudaFuncSetAttribute(kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes_); \
        if (e == cudaSuccess) TP_RUN_BLOCKS(k, (kernel_), blocks_, TP__MMA_THREADS, (size_t)(bytes_), a);         \
        else tp__store_error(tp__cuda_of(k), k->op->name, cudaGetErrorString(e));                                 \
    } while (0)
    if (!backward) {
        if (a.out[0] || a.out[1]) TP__BY_MMA((tp__attention_forward_mma<T, WIDE>), queries, bytes + column_tile_bytes);
        return true;
    }
    TP_RUN(k, (tp__attention_delta<T>), each * a.Tq * 32, a, each * a.Tq);
    if (a.out[0]) TP__BY_MMA((tp__attention_back_mma<T, WIDE, false>), queries, 2 * bytes);
    if (a.out[1] || a.out[2]) TP__BY_MMA((tp__attention_back_mma<T, WIDE, true>), keys, 2 * bytes);
#undef TP__BY_MMA
    return true;
}
/* Chooses the kernel by type and head size. One kernel serves float64, which is for checks, and heads of halves that the tensor
 * cores cannot process. */
template <class T> static void tp__attention_run(const tp_call *k, const tp__attention_args &a, bool backward)
{
    if (a.D <= 64 ? tp__attention_by_tensor_cores<T, 64>(k, a, backward)
                  : tp__attention_by_tensor_cores<T, 128>(k, a, backward))
        return;
    tp__attention_launch<T, 8>(k, a, backward);
}
template <> void tp__attention_run<float>(const tp_call *k, const tp__attention_args &a, bool back)
{
    if (k->precision != TP_PRECISION_F32 && (a.D <= 64 ? tp__attention_by_tensor_cores<float, 64>(k, a, back)
                                                       : tp__attention_by_tensor_cores<float, 128>(k, a, back)))
        return;
    if (a.D <= 32) tp__attention_launch<float, 2>(k, a, back);
    else if (a.D <= 64) tp__attention_launch<float, 4>(k, a, back);
    else tp__attention_launch<float, 8>(k, a, back);
}
template <> void tp__attention_run<double>(const tp_call *k, const tp__attention_args &a, bool back)
{
    tp__attention_launch<double, 4>(k, a, back);
}
static void tp__attention_cuda(const tp_call *k)
{
    const tp__attention_args a = tp__attention_args_of(k, false);
    TP_REALS(k->in[0].dtype, tp__attention_run<T>(k, a, false););
}
static void tp__attention_back_cuda(const tp_call *k)
{
    const tp__attention_args a = tp__attention_args_of(k, true);
    TP_REALS(k->in[1].dtype, tp__attention_run<T>(k, a, true););
}
static size_t tp__attention_bytes(const tp_call *k) /* bytes of scratch for delta, and for lse if it has another type */
{
    const tp_dtype real = tp__rnn_real(k->in[1].dtype);
    return (size_t)(tp__size(&k->in[5]) + tp__rnn_converted_size(&k->in[5], real)) * tp__dtype_size(real);
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
/* A thread processes V adjacent channels of a pixel: four if C is a multiple of four, else one. I: the type of indices. */

template <class T, int V> struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) tp__pixels {
    T v[V];
};
/* Runs the body with V and I for C channels; `most`: the number of elements of the largest operand. */
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

/* -- resize, resize_grad: the source of each row and column of the result is computed once. The gradient gathers: source row h
 *    is used by the result rows whose `low` is h-1 or h, which are contiguous. Sums are in the CPU's order. */
typedef struct tp__resize_place { /* how a result is interpolated: y = (1 - part) x[low] + part x[high] */
    int low, high;
    double part;
} tp__resize_place;
typedef struct tp__resize_args {
    int64_t B, H, W, C, OH, OW;
    bool align_corners, half_pixel_centers, nearest;
    tp__resize_place *row, *column; /* source positions of the OH rows and the OW columns */
    /* for the gradient: entry h is the number of result rows (columns) with low < h; H+1 and W+1 entries */
    int *row_from, *column_from;
    size_t bytes;
} tp__resize_args;
static tp__resize_args tp__resize_args_of(const tp_call *k, const tp_shape *x, bool backward)
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
    a.bytes = (size_t)(a.OH + a.OW) * sizeof(tp__resize_place) + (backward ? (size_t)(a.H + a.W + 2) * sizeof(int) : 0);
    return a;
}
__device__ __forceinline__ tp__resize_place tp__resize_lookup(const tp__resize_args &a, int64_t i, int64_t n_in,
                                                              int64_t n_out)
{
    tp__resize_place t;
    int64_t num = i * n_in, den = n_out; /* the position in the source is num / den */
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
    a.row[i] = i < a.OH ? tp__resize_lookup(a, i, a.H, a.OH) : tp__resize_lookup(a, i - a.OH, a.W, a.OW);
}
/* Counts the result rows with low < h by bisection, as `low` is ascending. */
TP_KERNEL tp__resize_row_starts(const tp__resize_args a)
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
        if (p > 0 || q > 0) { /* skip weights of 0, so that an infinite neighbour does not give NaN */
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
static bool tp__resize_ready(const tp_call *k, const tp__resize_args *a, bool backward)
{
    if (a->H >> 31 || a->W >> 31) {
        tp__store_error(tp__cuda_of(k), k->op->name, "an image is higher or wider than an int can say");
        return false;
    }
    TP_RUN(k, tp__resize_places, a->OH + a->OW, *a);
    if (backward) TP_RUN(k, tp__resize_row_starts, a->H + a->W + 2, *a);
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
static void tp__resize_back_cuda(const tp_call *k) /* inputs of resize_grad: dy, x (only its shape) */
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
    const bool backward = k->n_in == 2;
    return tp__resize_args_of(k, &k->in[backward ? 1 : 0].shape, backward).bytes;
}

/* -- bilinear_sampler, bilinear_sampler_grad: one thread per position of the result. The gradient of the image gathers too: the
 *    coordinates are sorted by their first pixel (those of equal pixels keep their order), and each pixel adds the coordinates
 *    whose first pixel is itself or one of its neighbours left, above and left above, in that order. So the order of each sum
 *    is fixed. Images are processed in groups, so that the lists stay small. */
typedef struct tp__sampler_args {
    int64_t B, H, W, C, positions; /* positions: number of sampled positions per image */
    int border;
    int64_t group; /* images whose gradients are computed together */
    uint32_t *key[2], *index[2], *count, *from;
    size_t bytes;
} tp__sampler_args;
static tp__sampler_args tp__sampler_args_of(const tp_call *k, const tp_shape *x, const tp_shape *coords, bool backward)
{
    tp__sampler_args a;
    memset(&a, 0, sizeof a);
    a.B = x->dim[0], a.H = x->dim[1], a.W = x->dim[2], a.C = x->dim[3];
    a.positions = coords->dim[1] * coords->dim[2];
    a.border = ((const tp__sampler_attrs *)k->attrs)->border;
    if (!backward) return a;
    const int64_t max_elements = a.positions > a.H * a.W ? a.positions : a.H * a.W;
    a.group = max_elements > 0 && max_elements < ((int64_t)1 << 22) ? ((int64_t)1 << 22) / max_elements : 1;
    if (a.group > a.B) a.group = a.B;
    const int64_t padded = (a.group * a.positions + 63) / 64 * 64, counts = 256 * tp__sort_tiles(a.group * a.positions);
    uint32_t *at = (uint32_t *)k->scratch;
    for (int i = 0; i < 2; i++) {
        a.key[i] = at + 2 * i * padded;
        a.index[i] = a.key[i] + padded;
    }
    a.count = at + 4 * padded;
    a.from = a.count + counts;
    a.bytes = (size_t)(4 * padded + counts + a.group * a.H * a.W + 1) * sizeof(uint32_t);
    return a;
}
/* The two pixels of one coordinate and the weight of the second; false if the coordinate is in a border of zeros. */
template <class R> __device__ __forceinline__ bool tp__sampler_place(R v, int64_t size, int border, int64_t at[2], R *f)
{
    const R c = v > 0 ? v : 0, l = v == v ? floor(c) : 0, last = (R)(size - 1);
    *f = v != v ? v : c < (R)INFINITY ? c - l : (R)0;
    at[0] = l < last ? (int64_t)l : size - 1;
    at[1] = at[0] + 1 < size ? at[0] + 1 : size - 1;
    return border == TP_BORDER_REPEAT || !(v < 0 || v > last);
}
template <class T, int V, class I>
TP_KERNEL tp__sampler_kernel(const tp__sampler_args a, const T *image, const T *coords, T *y)
{
    typedef tp__real<T> R;
    const I C = (I)(a.C / V), n = (I)a.positions;
    TP_EACH(e, a.B * a.positions * C)
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

/* Computes the gradient of the coordinates: LANES threads per position share its channels. */
template <class T, int LANES>
TP_KERNEL tp__sampler_coords(const tp__sampler_args a, const T *dy, const T *image, const T *coords, T *out)
{
    typedef tp__real<T> R;
    const int64_t places = a.B * a.positions, step = (int64_t)gridDim.x * (TP__THREADS / LANES);
    const int64_t position = ((int64_t)blockIdx.x * TP__THREADS + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    for (int64_t base = 0; base < places; base += step) { /* the loop's range is the same for all lanes of a warp */
        const int64_t i = base + position < places ? base + position : places - 1;
        const T *d = dy + i * a.C, *x = image + tp__seq_divide(i, a.positions) * a.H * a.W * a.C;
        const R at[2] = {tp__get(coords, 2 * i), tp__get(coords, 2 * i + 1)};
        R f[2], sum[4] = {0, 0, 0, 0};
        int64_t h[2], w[2];
        bool inside = tp__sampler_place(at[0], a.H, a.border, h, &f[0]);
        inside = tp__sampler_place(at[1], a.W, a.border, w, &f[1]) && inside;
        for (int64_t c = lane; c < a.C && inside; c += LANES)
            for (int p = 0; p < 4; p++) sum[p] += tp__get(d, c) * tp__get(x, (h[p >> 1] * a.W + w[p & 1]) * a.C + c);
        for (int s = LANES / 2; s > 0; s >>= 1)
            for (int p = 0; p < 4; p++) sum[p] += __shfl_xor_sync(0xffffffffu, sum[p], s);
        if (lane > 0 || base + position >= places) continue;
        R g[2] = {0, 0};
        for (int p = 0; p < 4 && inside; p++) {
            const R wh = p >> 1 ? f[0] : 1 - f[0], ww = p & 1 ? f[1] : 1 - f[1];
            g[0] += p >> 1 ? sum[p] * ww : -sum[p] * ww;
            g[1] += p & 1 ? sum[p] * wh : -sum[p] * wh;
        }
        for (int q = 0; q < 2; q++) tp__put(out, 2 * i + q, at[q] >= 0 ? g[q] : 0);
    }
}

/* Writes the sort key of coordinate i of a group: the index of the first pixel that it reads. A coordinate outside of the image
 * gets `total`, the number of pixels, so that it is sorted last. */
template <class T> TP_KERNEL tp__sampler_keys(const tp__sampler_args a, const T *coords, int64_t places, uint32_t total)
{
    typedef tp__real<T> R;
    TP_EACH(i, places)
    {
        R f;
        int64_t h[2], w[2];
        bool inside = tp__sampler_place(tp__get(coords, 2 * i), a.H, a.border, h, &f);
        inside = tp__sampler_place(tp__get(coords, 2 * i + 1), a.W, a.border, w, &f) && inside;
        a.key[0][i] = inside ? (uint32_t)((tp__seq_divide(i, a.positions) * a.H + h[0]) * a.W + w[0]) : total;
        a.index[0][i] = (uint32_t)i;
    }
}
/* Finds the start of each pixel's coordinates in the sorted list. */
TP_KERNEL tp__sampler_pixel_starts(const uint32_t *key, uint32_t *from, int64_t places, int64_t pixels)
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
        /* add the shares of the positions whose first pixel is this one, or the pixel left, above, or left above of
         * it */
        for (int side = 0; side < 4; side++) {
            if ((side & 1 && pw == 0) || (side & 2 && ph == 0)) continue;
            const int64_t first = at - (side & 1) - (side & 2 ? a.W : 0);
            for (int64_t l = a.from[first], end = a.from[first + 1]; l < end; l++) {
                const int64_t i = index[l];
                R f[2];
                int64_t h[2], w[2];
                tp__sampler_place(tp__get(coords, 2 * i), a.H, a.border, h, &f[0]);
                tp__sampler_place(tp__get(coords, 2 * i + 1), a.W, a.border, w, &f[1]);
                const tp__pixels<T, V> d = *(const tp__pixels<T, V> *)(dy + i * a.C + c);
                for (int p = 0; p < 4; p++) { /* at an edge several of the coordinate's four pixels may be this one */
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
        const int64_t images = a->B - b < a->group ? a->B - b : a->group, places = images * a->positions,
                      pixels = images * a->H * a->W;
        const T *at = coords + b * a->positions * 2, *d = dy + b * a->positions * a->C;
        T *to = dx + b * a->H * a->W * a->C;
        TP_RUN(k, (tp__sampler_keys<T>), places, *a, at, places, (uint32_t)pixels);
        /* coordinates outside have the key `pixels`, so that they are sorted last */
        const int now = tp__sort(k, a->key, a->index, a->count, places, pixels);
        TP_RUN(k, tp__sampler_pixel_starts, pixels + 1, a->key[now], a->from, places, pixels);
        if (a->C % 4 == 0)
            TP_RUN(k, (tp__sampler_gather<T, 4>), pixels * a->C / 4, *a, a->index[now], d, at, to, pixels);
        else TP_RUN(k, (tp__sampler_gather<T, 1>), pixels * a->C, *a, a->index[now], d, at, to, pixels);
    }
}
static void tp__sampler_back_cuda(const tp_call *k) /* inputs of bilinear_sampler_grad: dy, image, coords */
{
    const tp__sampler_args a = tp__sampler_args_of(k, &k->in[1].shape, &k->in[2].shape, true);
    const int64_t places = a.B * a.positions;
    if (a.H * a.W >= 0xffffffffll || a.positions >= 0xffffffffll) {
        tp__store_error(tp__cuda_of(k), k->op->name, "an image has more pixels or coordinates than 32 bits number");
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
/* Returns the epilogues and masks that an op's kernel supports. */
static unsigned tp__cuda_fuses(tp_device *d, const char *op)
{
    static const struct {
        const char *op;
        unsigned fuses;
    } can[] = {{"matmul", TP_FUSES_BIAS | TP_FUSES_ACT},
               {"conv2d", TP_FUSES_BIAS | TP_FUSES_ACT | TP_FUSES_ADD},
               {"batch_norm", TP_FUSES_ACT | TP_FUSES_ADD},
               {"batch_norm_infer", TP_FUSES_ACT},
               {"group_norm", TP_FUSES_ACT},
               {"group_norm_grad", TP_FUSES_MASK},
               {"batch_norm_grad", TP_FUSES_MASK | TP_FUSES_ADD}};
    (void)d;
    for (size_t i = 0; i < sizeof can / sizeof *can; i++)
        if (strcmp(can[i].op, op) == 0) return can[i].fuses;
    return 0;
}
static void tp__cuda_make_current(tp_device *d) { cudaSetDevice(((tp__cuda *)d)->ordinal); }
static size_t tp__cuda_scratch(tp_device *d, const tp_call *k)
{
    const tp__held held(d);
    tp__cuda_make_current(d);
    const tp__cuda_kernel *r = tp__cuda_find(k->op->name);
    return r && r->scratch ? r->scratch(k) : 0;
}

static void tp__cuda_close(tp_device *d)
{
    tp__cuda *c = (tp__cuda *)d;
    if (!c) return;
    cudaSetDevice(c->ordinal);
    if (c->copying) cudaStreamSynchronize(c->copying);
    if (c->stream) cudaStreamSynchronize(c->stream);
    tp__communicators_free(c);
    tp__cuda_ranks_leave(d, true);
    tp__conv_free_choices(c);
    if (c->dnn) cudnnDestroy(c->dnn);
    if (c->blas) cublasLtDestroy(c->blas);
    for (int i = 0; i < TP__STAGES; i++) {
        if (c->stage[i]) cudaFreeHost(c->stage[i]);
        if (c->stage_free[i]) cudaEventDestroy(c->stage_free[i]);
    }
    if (c->download_buffer) cudaFreeHost(c->download_buffer);
    if (c->mark) cudaEventDestroy(c->mark);
    for (int i = 0; i < TP__SLOTS; i++) {
        if (c->slot[i]) cudaFreeHost(c->slot[i]);
        if (c->slot_free[i]) cudaEventDestroy(c->slot_free[i]);
    }
    for (int i = 0; i < TP__STAGED; i++) {
        tp__memory_free(c, c->copying, c->staged[i].data);
        if (c->staged[i].arrived) cudaEventDestroy(c->staged[i].arrived);
        if (c->staged[i].taken) cudaEventDestroy(c->staged[i].taken);
    }
    free(c->steps.last);
    free(c->steps.first);
    tp__memory_free(c, c->stream, c->workspace);
    if (c->copying) cudaStreamSynchronize(c->copying);
    if (c->stream) cudaStreamSynchronize(c->stream);
    if (c->pool) cudaMemPoolDestroy(c->pool); /* no allocation is left, so all memory returns to the driver */
    if (c->copying) cudaStreamDestroy(c->copying);
    if (c->stream) cudaStreamDestroy(c->stream);
    cudaGetLastError();
    pthread_mutex_destroy(&c->staging);
    pthread_mutex_destroy(&c->filling);
    pthread_mutex_destroy(&c->use);
    tp__nvml_free(c->nvml);
    free(c->product);
    free(c);
}

extern "C" int tp_cuda_count(void)
{
    int n = 0;
    if (cudaGetDeviceCount(&n) == cudaSuccess) return n;
    cudaGetLastError();
    return 0;
}

/* Checks that the GPU exists and that the program was built with the same structs; false after an error. */
static bool tp__cuda_can_open(int ordinal, unsigned abi, tp_fail_fn fail)
{
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (abi != TP_ABI) {
        fail(TP_ERR_ARG,
             "tp_cuda.cu was built with version %u of tp's structs, this program with %u: compile both again", TP_ABI,
             abi);
        return false;
    }
    if (e != cudaSuccess || n == 0) {
        cudaGetLastError();
        fail(TP_ERR_UNSUPPORTED, "no NVIDIA GPU can be used: %s",
             e == cudaSuccess ? "there is none" : cudaGetErrorString(e));
        return false;
    }
    if (ordinal < 0 || ordinal >= n) {
        fail(TP_ERR_ARG, "there is no GPU %d: this machine has %d, counted from 0", ordinal, n);
        return false;
    }
    return true;
}

/* Sets the functions of the device interface. */
static void tp__cuda_set_functions(tp_device *d)
{
    d->alloc = tp__cuda_alloc;
    d->free = tp__cuda_free;
    d->limit_memory = tp__cuda_limit_memory;
    d->upload = tp__cuda_upload;
    d->download = tp__cuda_download;
    d->copy = tp__cuda_copy;
    d->copy_from = tp__cuda_copy_from;
    d->stage = tp__cuda_stage;
    d->unstage = tp__cuda_unstage;
    d->after = tp__cuda_after;
#ifndef TP_NO_NCCL
    d->all_reduce = tp__cuda_all_reduce;
    d->ranks_id = tp__cuda_ranks_id;
    d->ranks_join = tp__cuda_ranks_join;
    d->ranks_sum = tp__cuda_ranks_sum;
    d->ranks_done = tp__cuda_ranks_done;
    d->ranks_leave = tp__cuda_ranks_leave;
#endif
    d->find_kernel = tp__cuda_find_kernel;
    d->fuses = tp__cuda_fuses;
    d->can_add = tp__cuda_can_add;
    d->scratch = tp__cuda_scratch;
    d->make_current = tp__cuda_make_current;
    d->hold = tp__cuda_hold;
    d->wait = tp__cuda_wait;
    d->memory = tp__cuda_memory_use;
    d->utilization = tp__cuda_utilization;
    d->record_begin = tp__cuda_record_begin;
    d->record_step = tp__cuda_record_step;
    d->record_end = tp__cuda_record_end;
    d->replay = tp__cuda_replay;
    d->record_free = tp__cuda_record_free;
    d->close = tp__cuda_close;
}

/* Creates streams, the memory pool and buffers; on an error *what says which step failed. */
static cudaError_t tp__cuda_allocate(tp__cuda *c, const char **action)
{
    *action = "choosing the GPU";
    cudaError_t e = cudaSetDevice(c->ordinal);
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(&c->n_processor, cudaDevAttrMultiProcessorCount, c->ordinal);
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(&c->generation, cudaDevAttrComputeCapabilityMajor, c->ordinal);
    if (e == cudaSuccess) {
        *action = "opening a stream";
        e = cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking);
        if (e == cudaSuccess) e = cudaStreamCreateWithFlags(&c->copying, cudaStreamNonBlocking);
    }
    if (e == cudaSuccess) {
        *action = "opening its memory";
        e = tp__memory_open(c);
    }
    if (e == cudaSuccess) {
        *action = "allocating transfer buffers";
        for (int i = 0; i < TP__STAGES && e == cudaSuccess; i++) {
            e = cudaHostAlloc((void **)&c->stage[i], TP__STAGE_BYTES, cudaHostAllocDefault);
            if (e == cudaSuccess) e = cudaEventCreateWithFlags(&c->stage_free[i], cudaEventDisableTiming);
        }
        for (int i = 0; i < TP__SLOTS && e == cudaSuccess; i++) {
            e = cudaHostAlloc((void **)&c->slot[i], TP__STAGE_BYTES, cudaHostAllocDefault);
            if (e == cudaSuccess) e = cudaEventCreateWithFlags(&c->slot_free[i], cudaEventDisableTiming);
        }
        if (e == cudaSuccess)
            e = cudaHostAlloc((void **)&c->download_buffer, TP__STAGE_BYTES + sizeof(tp__print_numbers),
                              cudaHostAllocDefault);
        if (e == cudaSuccess) e = cudaEventCreateWithFlags(&c->mark, cudaEventDisableTiming);
        if (e == cudaSuccess) {
            *action = "allocating 32 MB of its memory (do other programs use this GPU?)";
            e = tp__memory_alloc(c, c->stream, c->workspace_bytes, &c->workspace);
        }
    }
    return e;
}

extern "C" tp_device *tp_cuda_open_(int ordinal, unsigned abi, tp_fail_fn fail, tp_say_fn say)
{
    if (!tp__cuda_can_open(ordinal, abi, fail)) return NULL;
    tp__cuda *c = (tp__cuda *)calloc(1, sizeof *c);
    if (!c) {
        fail(TP_ERR_NOMEM, "out of memory for a device");
        return NULL;
    }
    tp_device *d = &c->device;
    d->abi = TP_ABI;
    snprintf(d->name, sizeof d->name, "cuda:%d", ordinal);
    tp__cuda_set_functions(d);
    d->impl = c;
    c->fail = fail;
    c->say = say;
    c->ordinal = ordinal;
    c->limit = SIZE_MAX;
    c->workspace_bytes = (size_t)32 << 20; /* cuBLASLt's kernels for Hopper use no more than this */
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&c->use, &recursive);
    pthread_mutexattr_destroy(&recursive);
    pthread_mutex_init(&c->staging, NULL);
    pthread_mutex_init(&c->filling, NULL);
    const char *what;
    const cudaError_t e = tp__cuda_allocate(c, &what);
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
