/* cuda_runtime.h - CUDA on the CPU, for tests without a GPU: the part of the runtime API and of the device language
 * that tp_cuda.cu uses, written to find mistakes rather than to be fast.
 *
 *     g++ -std=c++17 -DTP_CUDA_SHIM -Itests/gpu/shim -I. -x c++ -c tp_cuda.cu -o tp_cuda.o
 *     g++ -std=c++17 -O2 -Itests/gpu/shim -c tests/gpu/shim/shim.cpp tests/gpu/shim/libraries.cpp
 *     g++ test.o tp_cuda.o shim.o libraries.o -lpthread
 *
 * -fsanitize=address adds out-of-bounds accesses of device and shared memory and the host touching device memory,
 * -fsanitize=thread adds data races between the threads of a kernel (a missing __syncthreads or __syncwarp).
 *
 * $TP_SHIM_SEED     order of lanes, blocks and streams (default 1; printed with every fault)
 * $TP_SHIM_DEVICES  how many devices there are (default 2)
 * $TP_SHIM_VERBOSE  print why a call failed, when it did
 * $TP_SHIM_LAUNCHES a file: each kernel's largest block and dynamic shared memory, written at exit (tests/gpu/shim.sh adds the names)
 *
 * A fault (what CUDA leaves undefined, or what no program may do) is one sentence on stderr and abort(). What CUDA
 * reports by an error code is an error code here. Names and values are NVIDIA's documented ones. */
#ifndef TP_SHIM_CUDA_RUNTIME_H
#define TP_SHIM_CUDA_RUNTIME_H

#ifndef __cplusplus
#error "the CUDA shim is C++17: compile with -x c++ -std=c++17"
#endif
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include "tp_shim.h"

#define CUDART_VERSION 13000

/* ==== >>language ====================================================================================== */

#define __device__
#define __host__
#define __global__
#define __constant__
#define __grid_constant__
#define __noinline__
#define __launch_bounds__(...)
#define __align__(n_)   __attribute__((aligned(n_)))
#define __forceinline__ inline __attribute__((always_inline))

#define TP_KERNEL static __attribute__((unused)) void
#define TP_KERNEL_RESIDENT(n_) static __attribute__((unused)) void
#define TP_KERNEL_OF_128(n_) static __attribute__((unused)) void
/* One array for each block, whatever lane asks first; n_ may be `8][32`. */
#define TP_SHARED(type_, name_, n_)     \
    static const char name_##_site = 0; \
    typedef type_ name_##_type[n_];     \
    name_##_type &name_ = *(name_##_type *)tp_shim_shared(&name_##_site, sizeof(name_##_type), #name_)
#define TP_DYNAMIC_SHARED(type_, name_) type_ *name_ = (type_ *)tp_shim_dynamic_shared()
#define TP_LAUNCH(stream_, kernel_, grid_, threads_, shared_bytes_, ...) \
    tp_shim_launch(#kernel_, (kernel_), dim3(grid_), dim3(threads_), (size_t)(shared_bytes_), (stream_), __VA_ARGS__)

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
    template <class T, class = std::enable_if_t<std::is_integral<T>::value && !std::is_same<T, unsigned>::value>>
    dim3(T x_) : x((unsigned)x_), y(1), z(1)
    {
    }
};

#define TP_SHIM_VECTOR2(name_, type_)           \
    struct alignas(2 * sizeof(type_)) name_ {   \
        type_ x, y;                             \
    };                                          \
    inline name_ make_##name_(type_ x, type_ y) \
    {                                           \
        name_ v = {x, y};                       \
        return v;                               \
    }
#define TP_SHIM_VECTOR4(name_, type_)                                               \
    struct alignas(4 * sizeof(type_) < 16 ? 4 * sizeof(type_) : (size_t)16) name_ { \
        type_ x, y, z, w;                                                           \
    };                                                                              \
    inline name_ make_##name_(type_ x, type_ y, type_ z, type_ w)                   \
    {                                                                               \
        name_ v = {x, y, z, w};                                                     \
        return v;                                                                   \
    }
TP_SHIM_VECTOR2(float2, float)
TP_SHIM_VECTOR2(double2, double)
TP_SHIM_VECTOR2(int2, int)
TP_SHIM_VECTOR2(uint2, unsigned)
TP_SHIM_VECTOR2(longlong2, long long)
TP_SHIM_VECTOR2(ulonglong2, unsigned long long)
TP_SHIM_VECTOR2(ushort2, unsigned short)
TP_SHIM_VECTOR4(float4, float)
TP_SHIM_VECTOR4(int4, int)
TP_SHIM_VECTOR4(uint4, unsigned)
TP_SHIM_VECTOR4(ushort4, unsigned short)
TP_SHIM_VECTOR4(short4, short)
TP_SHIM_VECTOR4(uchar4, unsigned char)
#undef TP_SHIM_VECTOR2
#undef TP_SHIM_VECTOR4

/* ==== >>types ========================================================================================= */

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorIllegalState = 401,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInitializationError = 3,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidDevicePointer = 17,
    cudaErrorInvalidMemcpyDirection = 21,
    cudaErrorInvalidDeviceFunction = 98,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorPeerAccessUnsupported = 217,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorLaunchOutOfResources = 701,
    cudaErrorPeerAccessAlreadyEnabled = 704,
    cudaErrorPeerAccessNotEnabled = 705,
    cudaErrorLaunchFailure = 719,
    cudaErrorNotPermitted = 800,
    cudaErrorNotSupported = 801,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
    cudaErrorStreamCaptureMerge = 902,
    cudaErrorStreamCaptureUnmatched = 903,
    cudaErrorStreamCaptureUnjoined = 904,
    cudaErrorStreamCaptureIsolation = 905,
    cudaErrorStreamCaptureImplicit = 906,
    cudaErrorCapturedEvent = 907,
    cudaErrorStreamCaptureWrongThread = 908,
    cudaErrorUnknown = 999
};
enum cudaMemcpyKind {
    cudaMemcpyHostToHost = 0,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4
};
enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal = 0,
    cudaStreamCaptureModeThreadLocal = 1,
    cudaStreamCaptureModeRelaxed = 2
};
enum cudaStreamCaptureStatus {
    cudaStreamCaptureStatusNone = 0,
    cudaStreamCaptureStatusActive = 1,
    cudaStreamCaptureStatusInvalidated = 2
};
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxGridDimX = 5,
    cudaDevAttrMaxGridDimY = 6,
    cudaDevAttrMaxGridDimZ = 7,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrIntegrated = 18,
    cudaDevAttrConcurrentKernels = 31,
    cudaDevAttrL2CacheSize = 38,
    cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrUnifiedAddressing = 41,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
    cudaDevAttrMaxBlocksPerMultiprocessor = 106,
    cudaDevAttrMemoryPoolsSupported = 115
};
enum cudaMemoryType {
    cudaMemoryTypeUnregistered = 0,
    cudaMemoryTypeHost = 1,
    cudaMemoryTypeDevice = 2,
    cudaMemoryTypeManaged = 3
};
struct cudaPointerAttributes {
    cudaMemoryType type;
    int device;
    void *devicePointer, *hostPointer;
};
struct cudaDeviceProp { /* those fields that somebody reads */
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor, totalConstMem;
    int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], major, minor;
    int multiProcessorCount, maxThreadsPerMultiProcessor, maxBlocksPerMultiProcessor, l2CacheSize, memoryBusWidth;
    int asyncEngineCount, concurrentKernels, integrated, canMapHostMemory, unifiedAddressing, ECCEnabled;
    int pciBusID, pciDeviceID, pciDomainID;
};
struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, maxDynamicSharedSizeBytes;
};

enum cudaMemAllocationType { cudaMemAllocationTypeInvalid = 0, cudaMemAllocationTypePinned = 1 };
enum cudaMemAllocationHandleType { cudaMemHandleTypeNone = 0 };
enum cudaMemLocationType { cudaMemLocationTypeInvalid = 0, cudaMemLocationTypeDevice = 1, cudaMemLocationTypeHost = 2 };
enum cudaMemAccessFlags {
    cudaMemAccessFlagsProtNone = 0,
    cudaMemAccessFlagsProtRead = 1,
    cudaMemAccessFlagsProtReadWrite = 3
};
enum cudaMemPoolAttr {
    cudaMemPoolAttrReleaseThreshold = 4,
    cudaMemPoolAttrReservedMemCurrent = 5,
    cudaMemPoolAttrReservedMemHigh = 6,
    cudaMemPoolAttrUsedMemCurrent = 7,
    cudaMemPoolAttrUsedMemHigh = 8
};
struct cudaMemLocation {
    cudaMemLocationType type;
    int id;
};
struct cudaMemAccessDesc {
    cudaMemLocation location;
    cudaMemAccessFlags flags;
};
struct cudaMemPoolProps {
    cudaMemAllocationType allocType;
    cudaMemAllocationHandleType handleTypes;
    cudaMemLocation location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
};

typedef struct CUmemPoolHandle_st *cudaMemPool_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef struct CUgraphNode_st *cudaGraphNode_t; /* the shim's: 1 + the node's index */
typedef struct cudaGraphEdgeData cudaGraphEdgeData;
typedef void (*cudaHostFn_t)(void *user);

#define cudaStreamDefault      0x00
#define cudaStreamNonBlocking  0x01
#define cudaStreamLegacy       ((cudaStream_t)0x1)
#define cudaStreamPerThread    ((cudaStream_t)0x2)
#define cudaEventDefault       0x00
#define cudaEventBlockingSync  0x01
#define cudaEventDisableTiming 0x02
#define cudaHostAllocDefault   0x00
#define cudaHostAllocPortable  0x01
#define cudaHostAllocMapped    0x02

#ifndef TP_SHIM_DATA_TYPE /* cublasLt.h has them too */
#define TP_SHIM_DATA_TYPE
enum cudaDataType_t {
    CUDA_R_32F = 0,
    CUDA_R_64F = 1,
    CUDA_R_16F = 2,
    CUDA_R_8I = 3,
    CUDA_R_8U = 8,
    CUDA_R_32I = 10,
    CUDA_R_16BF = 14
};
typedef cudaDataType_t cudaDataType;
#endif

/* ==== >>runtime ======================================================================================= */

extern "C" {
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *prop, int device);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attr, int device);
cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDeviceReset(void);
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaDeviceDisablePeerAccess(int peer);
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorString(cudaError_t e);
const char *cudaGetErrorName(cudaError_t e);

cudaError_t cudaMalloc(void **p, size_t bytes);
cudaError_t cudaMallocAsync(void **p, size_t bytes, cudaStream_t stream);
cudaError_t cudaMallocFromPoolAsync(void **p, size_t bytes, cudaMemPool_t pool, cudaStream_t stream);
cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const cudaMemPoolProps *props);
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attr, void *value);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attr, void *value);
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc *list, size_t count);
cudaError_t cudaFree(void *p);
cudaError_t cudaFreeAsync(void *p, cudaStream_t stream);
cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags);
cudaError_t cudaMallocHost(void **p, size_t bytes);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *a, const void *p);
cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpyPeer(void *dst, int dst_device, const void *src, int src_device, size_t bytes);
cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device, size_t bytes,
                                cudaStream_t stream);
cudaError_t cudaMemset(void *p, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamCreate(cudaStream_t *s);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t s);
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaStreamQuery(cudaStream_t s);
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags);
cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t fn, void *user);
cudaError_t cudaEventCreate(cudaEvent_t *e);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s);
cudaError_t cudaEventQuery(cudaEvent_t e);
cudaError_t cudaEventSynchronize(cudaEvent_t e);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end);

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode);
enum { cudaStreamAddCaptureDependencies = 0, cudaStreamSetCaptureDependencies = 1 };
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges, size_t *n);
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t s, cudaGraphNode_t *nodes, const cudaGraphEdgeData *edges, size_t n,
                                                unsigned flags);
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus *status);
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode);
cudaError_t cudaGraphDestroy(cudaGraph_t g);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g);
cudaError_t cudaGraphLaunch(cudaGraphExec_t g, cudaStream_t s);
cudaError_t cudaGraphUpload(cudaGraphExec_t g, cudaStream_t s);
cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *nodes, size_t *n);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t g, unsigned long long flags = 0);
template <class T> cudaError_t cudaMalloc(T **p, size_t bytes) { return cudaMalloc((void **)(void *)p, bytes); }
template <class T> cudaError_t cudaMallocAsync(T **p, size_t bytes, cudaStream_t s)
{
    return cudaMallocAsync((void **)(void *)p, bytes, s);
}
template <class T> cudaError_t cudaHostAlloc(T **p, size_t bytes, unsigned flags)
{
    return cudaHostAlloc((void **)(void *)p, bytes, flags);
}
template <class T> cudaError_t cudaMallocHost(T **p, size_t bytes) { return cudaMallocHost((void **)(void *)p, bytes); }

cudaError_t tp_shim_func_set_attribute(const void *fn, cudaFuncAttribute attr, int value);
cudaError_t tp_shim_func_get_attributes(cudaFuncAttributes *a, const void *fn);
cudaError_t tp_shim_occupancy(int *blocks, int threads, size_t dynamic_shared);
template <class F> cudaError_t cudaFuncSetAttribute(F *fn, cudaFuncAttribute attr, int value)
{
    return tp_shim_func_set_attribute((const void *)fn, attr, value);
}
template <class F> cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, F *fn)
{
    return tp_shim_func_get_attributes(a, (const void *)fn);
}
template <class F>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, F *, int threads, size_t dynamic_shared)
{
    return tp_shim_occupancy(blocks, threads, dynamic_shared);
}

/* ==== >>launch ======================================================================================== */

struct tp_shim_kernel {
    virtual ~tp_shim_kernel() = default;
    virtual void run() const = 0; /* one thread */
};
template <class... P> struct tp_shim_bound final : tp_shim_kernel {
    void (*fn)(P...);
    std::tuple<std::remove_cv_t<P>...> args;
    template <class... A> tp_shim_bound(void (*f)(P...), A &&...a) : fn(f), args(std::forward<A>(a)...) {}
    void run() const override { std::apply(fn, args); }
};
void tp_shim_launch_bound(const char *name, const void *fn, std::shared_ptr<tp_shim_kernel> kernel, dim3 grid,
                          dim3 block, size_t shared, cudaStream_t stream);
template <class... P, class... A>
void tp_shim_launch(const char *name, void (*fn)(P...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
                    A &&...args)
{
    static_assert(sizeof...(P) == sizeof...(A), "a kernel is launched with the wrong number of arguments");
    tp_shim_launch_bound(name, (const void *)fn, std::make_shared<tp_shim_bound<P...>>(fn, std::forward<A>(args)...),
                         grid, block, shared, stream);
}

/* ==== >>kernels ======================================================================================= */
/* What a kernel may call. Everything that waits takes the line it stands on, for the sentences. */

struct tp_shim_builtins {
    uint3 thread, block;
    dim3 block_dim, grid_dim;
};
extern tp_shim_builtins tp_shim_now;
inline const uint3 &threadIdx = tp_shim_now.thread;
inline const uint3 &blockIdx = tp_shim_now.block;
inline const dim3 &blockDim = tp_shim_now.block_dim;
inline const dim3 &gridDim = tp_shim_now.grid_dim;
constexpr int warpSize = 32;

enum tp_shim_wait_kind {
    TP_SHIM_SYNC,
    TP_SHIM_SYNC_OR,
    TP_SHIM_SYNC_AND,
    TP_SHIM_SYNC_COUNT,
    TP_SHIM_WARP_SYNC,
    TP_SHIM_WARP_SHUFFLE,
    TP_SHIM_WARP_BALLOT,
    TP_SHIM_WARP_ANY,
    TP_SHIM_WARP_ALL
};
enum tp_shim_shuffle { TP_SHIM_SHFL, TP_SHIM_UP, TP_SHIM_DOWN, TP_SHIM_XOR };
void *tp_shim_shared(const void *site, size_t bytes, const char *name);
void *tp_shim_dynamic_shared(void);
int tp_shim_sync(tp_shim_wait_kind kind, int predicate, int line);
uint64_t tp_shim_warp(tp_shim_wait_kind kind, unsigned mask, uint64_t value, int line);
uint64_t tp_shim_shuffle_bits(tp_shim_shuffle how, unsigned mask, uint64_t bits, int lane, int width, int line);

#define TP_SHIM_LINE int line = __builtin_LINE()
inline void __syncthreads(TP_SHIM_LINE) { (void)tp_shim_sync(TP_SHIM_SYNC, 0, line); }
inline int __syncthreads_or(int p, TP_SHIM_LINE) { return tp_shim_sync(TP_SHIM_SYNC_OR, p, line); }
inline int __syncthreads_and(int p, TP_SHIM_LINE) { return tp_shim_sync(TP_SHIM_SYNC_AND, p, line); }
inline int __syncthreads_count(int p, TP_SHIM_LINE) { return tp_shim_sync(TP_SHIM_SYNC_COUNT, p, line); }
inline void __syncwarp(unsigned mask = 0xffffffffu, TP_SHIM_LINE) { tp_shim_warp(TP_SHIM_WARP_SYNC, mask, 0, line); }
inline unsigned __ballot_sync(unsigned mask, int p, TP_SHIM_LINE)
{
    return (unsigned)tp_shim_warp(TP_SHIM_WARP_BALLOT, mask, p != 0, line);
}
inline int __any_sync(unsigned mask, int p, TP_SHIM_LINE)
{
    return (int)tp_shim_warp(TP_SHIM_WARP_ANY, mask, p != 0, line);
}
inline int __all_sync(unsigned mask, int p, TP_SHIM_LINE)
{
    return (int)tp_shim_warp(TP_SHIM_WARP_ALL, mask, p != 0, line);
}
template <class T> T tp_shim_shuffled(tp_shim_shuffle how, unsigned mask, T v, int lane, int width, int line)
{
    static_assert(std::is_arithmetic<T>::value && sizeof(T) <= 8, "shuffles move int, long long, float and double");
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof v);
    bits = tp_shim_shuffle_bits(how, mask, bits, lane, width, line);
    memcpy(&v, &bits, sizeof v);
    return v;
}
template <class T> T __shfl_sync(unsigned mask, T v, int lane, int width = 32, TP_SHIM_LINE)
{
    return tp_shim_shuffled(TP_SHIM_SHFL, mask, v, lane, width, line);
}
template <class T> T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32, TP_SHIM_LINE)
{
    return tp_shim_shuffled(TP_SHIM_UP, mask, v, (int)delta, width, line);
}
template <class T> T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32, TP_SHIM_LINE)
{
    return tp_shim_shuffled(TP_SHIM_DOWN, mask, v, (int)delta, width, line);
}
template <class T> T __shfl_xor_sync(unsigned mask, T v, int lane_mask, int width = 32, TP_SHIM_LINE)
{
    return tp_shim_shuffled(TP_SHIM_XOR, mask, v, lane_mask, width, line);
}
#undef TP_SHIM_LINE

inline void __threadfence() { __asm__ volatile("" ::: "memory"); }
inline void __threadfence_block() { __asm__ volatile("" ::: "memory"); }
inline void __threadfence_system() { __asm__ volatile("" ::: "memory"); }

/* acq_rel so that -fsanitize=thread understands "the last block adds up", where the fence is a no-op above */
#define TP_SHIM_ATOMIC(type_)                                                                                     \
    inline type_ atomicAdd(type_ *p, type_ v) { return __atomic_fetch_add(p, v, __ATOMIC_ACQ_REL); }              \
    inline type_ atomicExch(type_ *p, type_ v) { return __atomic_exchange_n(p, v, __ATOMIC_ACQ_REL); }            \
    inline type_ atomicAnd(type_ *p, type_ v) { return __atomic_fetch_and(p, v, __ATOMIC_ACQ_REL); }              \
    inline type_ atomicOr(type_ *p, type_ v) { return __atomic_fetch_or(p, v, __ATOMIC_ACQ_REL); }                \
    inline type_ atomicXor(type_ *p, type_ v) { return __atomic_fetch_xor(p, v, __ATOMIC_ACQ_REL); }              \
    inline type_ atomicCAS(type_ *p, type_ old, type_ v)                                                          \
    {                                                                                                             \
        __atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);                       \
        return old;                                                                                               \
    }                                                                                                             \
    inline type_ atomicMax(type_ *p, type_ v)                                                                     \
    {                                                                                                             \
        type_ old = __atomic_load_n(p, __ATOMIC_ACQUIRE);                                                         \
        while (old < v && !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {} \
        return old;                                                                                               \
    }                                                                                                             \
    inline type_ atomicMin(type_ *p, type_ v)                                                                     \
    {                                                                                                             \
        type_ old = __atomic_load_n(p, __ATOMIC_ACQUIRE);                                                         \
        while (v < old && !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {} \
        return old;                                                                                               \
    }
TP_SHIM_ATOMIC(int)
TP_SHIM_ATOMIC(unsigned)
TP_SHIM_ATOMIC(unsigned long long)
#undef TP_SHIM_ATOMIC
inline int atomicSub(int *p, int v) { return __atomic_fetch_sub(p, v, __ATOMIC_ACQ_REL); }
inline unsigned atomicSub(unsigned *p, unsigned v) { return __atomic_fetch_sub(p, v, __ATOMIC_ACQ_REL); }
template <class F, class U> F tp_shim_atomic_add(F *p, F v)
{
    U *bits = (U *)(void *)p, old = __atomic_load_n(bits, __ATOMIC_ACQUIRE), next;
    F was;
    do {
        memcpy(&was, &old, sizeof was);
        F sum = was + v;
        memcpy(&next, &sum, sizeof next);
    } while (!__atomic_compare_exchange_n(bits, &old, next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return was;
}
inline float atomicAdd(float *p, float v) { return tp_shim_atomic_add<float, unsigned>(p, v); }
inline double atomicAdd(double *p, double v) { return tp_shim_atomic_add<double, unsigned long long>(p, v); }
inline float atomicExch(float *p, float v)
{
    unsigned next, old;
    memcpy(&next, &v, sizeof next);
    old = __atomic_exchange_n((unsigned *)(void *)p, next, __ATOMIC_ACQ_REL);
    memcpy(&v, &old, sizeof v);
    return v;
}

template <class T> T __ldg(const T *p) { return *p; }
template <class T> T __ldcs(const T *p) { return *p; }
template <class T> T __ldcg(const T *p) { return *p; }
template <class T> void __stcs(T *p, T v) { *p = v; }

/* the overloads that CUDA has, so that what is ambiguous there is ambiguous here */
#define TP_SHIM_MIN_MAX(type_)                                   \
    inline type_ min(type_ a, type_ b) { return b < a ? b : a; } \
    inline type_ max(type_ a, type_ b) { return a < b ? b : a; }
TP_SHIM_MIN_MAX(int)
TP_SHIM_MIN_MAX(unsigned)
TP_SHIM_MIN_MAX(long)
TP_SHIM_MIN_MAX(unsigned long)
TP_SHIM_MIN_MAX(long long)
TP_SHIM_MIN_MAX(unsigned long long)
#undef TP_SHIM_MIN_MAX
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

template <class To, class From> To tp_shim_bits(From v)
{
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To r;
    memcpy(&r, &v, sizeof r);
    return r;
}
inline unsigned __float_as_uint(float v) { return tp_shim_bits<unsigned>(v); }
inline int __float_as_int(float v) { return tp_shim_bits<int>(v); }
inline float __uint_as_float(unsigned v) { return tp_shim_bits<float>(v); }
inline float __int_as_float(int v) { return tp_shim_bits<float>(v); }
inline long long __double_as_longlong(double v) { return tp_shim_bits<long long>(v); }
inline double __longlong_as_double(long long v) { return tp_shim_bits<double>(v); }
inline int __double2hiint(double v) { return (int)(tp_shim_bits<uint64_t>(v) >> 32); }
inline int __double2loint(double v) { return (int)(uint32_t)tp_shim_bits<uint64_t>(v); }
inline double __hiloint2double(int hi, int lo)
{
    return tp_shim_bits<double>((uint64_t)(uint32_t)hi << 32 | (uint32_t)lo);
}

/* volatile keeps the compiler from contracting these with what stands around them */
inline float __fmul_rn(float a, float b)
{
    volatile float r = a * b;
    return r;
}
inline float __fadd_rn(float a, float b)
{
    volatile float r = a + b;
    return r;
}
inline float __fsub_rn(float a, float b)
{
    volatile float r = a - b;
    return r;
}
inline float __fdiv_rn(float a, float b)
{
    volatile float r = a / b;
    return r;
}
inline float __frcp_rn(float a)
{
    volatile float r = 1.0f / a;
    return r;
}
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dmul_rn(double a, double b)
{
    volatile double r = a * b;
    return r;
}
inline double __dadd_rn(double a, double b)
{
    volatile double r = a + b;
    return r;
}
inline double __dsub_rn(double a, double b)
{
    volatile double r = a - b;
    return r;
}
inline double __ddiv_rn(double a, double b)
{
    volatile double r = a / b;
    return r;
}
inline double __dsqrt_rn(double a) { return sqrt(a); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float rsqrtf(float a) { return (float)(1.0 / sqrt((double)a)); }
inline double rsqrt(double a) { return 1.0 / sqrt(a); }
inline float rsqrt(float a) { return rsqrtf(a); }
inline float __saturatef(float a) { return a > 0.0f ? (a < 1.0f ? a : 1.0f) : 0.0f; }
inline float __fdividef(float a, float b) { return a / b; }
/* glibc declares these names for itself */
#define __expf(x_)     expf(x_)
#define __logf(x_)     logf(x_)
#define __log2f(x_)    log2f(x_)
#define __powf(x_, y_) powf(x_, y_)
#define __sinf(x_)     sinf(x_)
#define __cosf(x_)     cosf(x_)

inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
inline int __mulhi(int a, int b) { return (int)((int64_t)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    unsigned long long al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    unsigned long long mid = ah * bl + (al * bl >> 32), mid2 = al * bh + (uint32_t)mid;
    return ah * bh + (mid >> 32) + (mid2 >> 32);
}
inline int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
inline int __clzll(long long v) { return v ? __builtin_clzll((unsigned long long)v) : 64; }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __ffsll(long long v) { return __builtin_ffsll(v); }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline unsigned __brev(unsigned v)
{
    unsigned r = 0;
    for (int i = 0; i < 32; i++) r |= (v >> i & 1u) << (31 - i);
    return r;
}
inline int __float2int_rn(float v) { return (int)nearbyintf(v); }
inline int __float2int_rz(float v) { return (int)v; }
inline int __float2int_rd(float v) { return (int)floorf(v); }
inline float __int2float_rn(int v) { return (float)v; }
inline float __uint2float_rn(unsigned v) { return (float)v; }
inline float __double2float_rn(double v) { return (float)v; }
inline long long clock64() { return 0; }

#endif /* TP_SHIM_CUDA_RUNTIME_H */
