/* The shim of CUDA that tests the GPU's code without a GPU: that it computes what CUDA would, and that it finds the
 * mistakes it is there to find. Compiled with shim.cpp and libraries.cpp; -fsanitize=address and -fsanitize=thread
 * each add checks. */
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>
#include <nccl.h>

#define TP_IMPLEMENTATION
#define TP_NAIVE /* the vector kernels are not what is tested here, and take long to compile */
#include "tp_tensor.h"
#include "../tp_test.h"

#include <sys/wait.h>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#if defined(__has_feature)
#define HAS_FEATURE(x_) __has_feature(x_)
#else
#define HAS_FEATURE(x_) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
static const bool with_asan = true;
#else
static const bool with_asan = false;
#endif
#if defined(__SANITIZE_THREAD__) || HAS_FEATURE(thread_sanitizer)
static const bool with_tsan = true;
#else
static const bool with_tsan = false;
#endif

#define OK(call_) CHECK_MSG((call_) == cudaSuccess, "%s: %s", #call_, tp_shim_sentence())
#define GIVES(call_, error_)                                                                       \
    do {                                                                                           \
        cudaError_t e_ = (call_);                                                                  \
        CHECK_MSG(e_ == error_, "%s gives %s, not " #error_ " (%s)", #call_, cudaGetErrorName(e_), \
                  tp_shim_sentence());                                                             \
        cudaGetLastError();                                                                        \
    } while (0)

/* fn, in a child, must end the program with a sentence that has these words */
static bool dies(const std::function<void()> &fn, const char *words)
{
    int fd[2];
    fflush(stdout);
    if (pipe(fd) != 0) return false;
    pid_t child = fork();
    if (child == 0) {
        dup2(fd[1], 2);
        dup2(fd[1], 1);
        close(fd[0]);
        fn();
        _exit(0);
    }
    close(fd[1]);
    std::string text;
    char part[4096];
    for (ssize_t n; (n = read(fd[0], part, sizeof part)) > 0;) text.append(part, (size_t)n);
    close(fd[0]);
    int status = 0;
    waitpid(child, &status, 0);
    bool ended = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    return CHECK_MSG(ended && text.find(words) != std::string::npos, "expected \"%s\", got: %.600s", words,
                     text.c_str());
}

/* device memory with its values on the host */
template <class T> struct Array {
    std::vector<T> host;
    T *device = nullptr;
    explicit Array(size_t n, T v = T()) : host(n, v)
    {
        OK(cudaMalloc(&device, n * sizeof(T)));
        push();
    }
    explicit Array(const std::vector<T> &v) : host(v)
    {
        OK(cudaMalloc(&device, v.size() * sizeof(T)));
        push();
    }
    Array(const Array &) = delete;
    Array &operator=(const Array &) = delete;
    ~Array() { cudaFree(device); }
    size_t bytes() const { return host.size() * sizeof(T); }
    void push() { OK(cudaMemcpy(device, host.data(), bytes(), cudaMemcpyHostToDevice)); }
    void pull()
    {
        OK(cudaDeviceSynchronize());
        OK(cudaMemcpy(host.data(), device, bytes(), cudaMemcpyDeviceToHost));
    }
};
struct Stream {
    cudaStream_t s = nullptr;
    Stream() { OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)); }
    ~Stream() { cudaStreamDestroy(s); }
    operator cudaStream_t() const { return s; }
};
static double noise(size_t i) { return (double)((i * 2654435761u >> 7) % 2001) / 1000.0 - 1.0; }

/* ==== >>kernels ======================================================================================= */

template <class T> static __device__ T block_sum(T v)
{
    TP_SHARED(T, part, 8);
    for (unsigned d = 16; d; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : T(0);
    if (threadIdx.x < 32)
        for (int d = 16; d; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    __syncthreads();
    return v;
}
template <class T, int TIMES> TP_KERNEL sum_kernel(const T *__restrict__ x, T *y, int64_t n)
{
    T v = 0;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
        v += x[i] * T(TIMES);
    v = block_sum(v);
    if (threadIdx.x == 0) atomicAdd(y, v);
}
/* the last block to finish adds up what all have written */
TP_KERNEL last_block_kernel(const float *x, float *part, unsigned *ticket, float *y)
{
    TP_SHARED(bool, last, 1);
    float v = block_sum(x[blockIdx.x * blockDim.x + threadIdx.x]);
    if (threadIdx.x == 0) {
        part[blockIdx.x] = v;
        __threadfence();
        last[0] = atomicAdd(ticket, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last[0] && threadIdx.x == 0) {
        float s = 0;
        for (unsigned i = 0; i < gridDim.x; i++) s += part[i];
        *y = s;
    }
}
TP_KERNEL reverse_kernel(float *y, bool barrier)
{
    TP_SHARED(float, s, 256);
    s[threadIdx.x] = (float)threadIdx.x;
    if (barrier) __syncthreads();
    y[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
TP_KERNEL warp_neighbour_kernel(float *y, bool barrier)
{
    TP_SHARED(float, s, 32);
    s[threadIdx.x] = (float)threadIdx.x;
    if (barrier) __syncwarp();
    y[threadIdx.x] = s[(threadIdx.x + 1) % 32];
}
TP_KERNEL transpose_kernel(const float *x, float *y)
{
    TP_DYNAMIC_SHARED(float, tile);
    TP_SHARED(int, poisoned, 1);
    if (threadIdx.x == 0) poisoned[0] = 0;
    __syncthreads();
    if (tile[threadIdx.x] != tile[threadIdx.x]) atomicAdd(&poisoned[0], 1);
    __syncthreads();
    tile[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
    y[blockIdx.x * 256 + threadIdx.x] = poisoned[0] == 256 ? tile[threadIdx.x % 16 * 16 + threadIdx.x / 16] : -1.0f;
}
TP_KERNEL vote_kernel(int *y)
{
    int t = (int)threadIdx.x, i = 0;
    y += t * 8;
    y[i++] = __syncthreads_or(t == 40);
    y[i++] = __syncthreads_and(t < 63);
    y[i++] = __syncthreads_count(t % 3 == 0);
    y[i++] = (int)__ballot_sync(0xffffffffu, t % 32 < 4);
    y[i++] = __any_sync(0xffffffffu, t == 33);
    y[i++] = __all_sync(0xffffffffu, t != 33);
    if (t % 32 < 16) y[i++] = __shfl_sync(0x0000ffffu, t, 3);
    else y[i++] = __shfl_up_sync(0xffff0000u, t, 4u, 16);
    y[i++] = __shfl_sync(0xffffffffu, t, 9, 8);
}
TP_KERNEL leave_kernel()
{
    if (threadIdx.x == 3) return;
    __syncthreads();
}
TP_KERNEL two_barriers_kernel()
{
    if (threadIdx.x < 32) __syncthreads();
    else __syncthreads();
}
TP_KERNEL half_warp_kernel()
{
    if (threadIdx.x < 16) __shfl_sync(0xffffffffu, 1, 0);
    else __syncwarp();
}
TP_KERNEL wrong_mask_kernel() { __shfl_sync(0xfffffffeu, 1, 1); }
TP_KERNEL read_outside_kernel()
{
    if (threadIdx.x < 16) __shfl_sync(0x0000ffffu, 1, 20);
}
TP_KERNEL write_kernel(float *y, int at) { y[at] = 1; }
TP_KERNEL shared_overflow_kernel(float *y, int at)
{
    TP_SHARED(float, s, 8);
    float *p = s; /* else the compiler's own check of the index comes first */
    p[at] = 1;
    *y = p[0];
}
TP_KERNEL add_kernel(float *y, const float *x, int n, float by)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) y[i] = x[i] + by;
}
TP_KERNEL race_kernel(float *y) { y[threadIdx.x / 2] = (float)threadIdx.x; }
TP_KERNEL blocks_race_kernel(float *y)
{
    if (threadIdx.x == blockIdx.x) *y = (float)blockIdx.x;
}
struct Big {
    float v[1000];
};
TP_KERNEL big_kernel(const __grid_constant__ Big b, float *y) { y[threadIdx.x] = b.v[999 - threadIdx.x]; }

/* ==== >>kernel tests ================================================================================== */

template <class T> static void check_sum()
{
    const size_t n = 5000;
    Array<T> x(n), y(1);
    T expect = 0;
    for (size_t i = 0; i < n; i++) x.host[i] = (T)(i % 17), expect += (T)3 * x.host[i];
    x.push();
    TP_LAUNCH(nullptr, (sum_kernel<T, 3>), 5, 128, 0, x.device, y.device, (int64_t)n);
    y.pull();
    CHECK(y.host[0] == expect);
}
TEST(shuffles_and_barriers_add_up)
{
    check_sum<float>();
    check_sum<double>();
    check_sum<int>();
    check_sum<unsigned long long>();
    Array<float> x(1024, 1.0f), part(4), y(1);
    Array<unsigned> ticket(1);
    TP_LAUNCH(nullptr, last_block_kernel, 4, 256, 0, x.device, part.device, ticket.device, y.device);
    y.pull();
    CHECK(y.host[0] == 1024.0f);
    CHECK(cudaGetLastError() == cudaSuccess);
}

TEST(votes_and_partial_masks)
{
    Array<int> y(64 * 8);
    TP_LAUNCH(nullptr, vote_kernel, 1, 64, 0, y.device);
    y.pull();
    for (int t = 0; t < 64; t++) {
        const int *v = &y.host[(size_t)t * 8], warp = t / 32;
        int shifted = t % 32 < 16 ? warp * 32 + 3 : t % 16 < 4 ? t : t - 4;
        CHECK(v[0] == 1 && v[1] == 0 && v[2] == 22 && v[3] == 15);
        CHECK(v[4] == warp && v[5] == !warp && v[6] == shifted && v[7] == t / 8 * 8 + 1);
    }
}

TEST(dynamic_shared_memory_is_poisoned_and_limited)
{
    Array<float> x(1024), y(1024);
    for (size_t i = 0; i < 1024; i++) x.host[i] = (float)i;
    x.push();
    TP_LAUNCH(nullptr, transpose_kernel, 4, 256, 1024, x.device, y.device);
    y.pull();
    bool same = true;
    for (size_t i = 0; i < 1024; i++) {
        size_t t = i % 256;
        same = same && y.host[i] == (float)(i / 256 * 256 + t % 16 * 16 + t / 16);
    }
    CHECK(same);
    TP_LAUNCH(nullptr, transpose_kernel, 4, 256, 64 << 10, x.device, y.device);
    GIVES(cudaGetLastError(), cudaErrorInvalidValue);
    GIVES(cudaFuncSetAttribute(transpose_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 << 10),
          cudaErrorInvalidValue);
    OK(cudaFuncSetAttribute(transpose_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
    TP_LAUNCH(nullptr, transpose_kernel, 4, 256, 64 << 10, x.device, y.device);
    CHECK(cudaGetLastError() == cudaSuccess);
}

TEST(launches_are_checked)
{
    Array<float> y(256);
    TP_LAUNCH(nullptr, reverse_kernel, 0, 32, 0, y.device, true);
    GIVES(cudaGetLastError(), cudaErrorInvalidConfiguration);
    TP_LAUNCH(nullptr, reverse_kernel, 1, 257, 0, y.device, true);
    CHECK_HAS(tp_shim_sentence(), "at most 256 threads");
    GIVES(cudaGetLastError(), cudaErrorInvalidConfiguration);
    TP_LAUNCH(nullptr, reverse_kernel, dim3(1, 65536), 32, 0, y.device, true);
    GIVES(cudaGetLastError(), cudaErrorInvalidConfiguration);
    Big b;
    for (int i = 0; i < 1000; i++) b.v[i] = (float)i;
    TP_LAUNCH(nullptr, big_kernel, 1, 256, 0, b, y.device);
    y.pull();
    CHECK(y.host[0] == 999 && y.host[255] == 744);
}

TEST(a_missing_barrier_shows)
{
    int right = 0, wrong = 0;
    Array<float> y(256);
    for (uint64_t seed = 1; seed <= 8; seed++) {
        tp_shim_set_seed(seed);
        for (int barrier = 0; barrier < 2; barrier++) {
            if (with_tsan && !barrier) continue;
            TP_LAUNCH(nullptr, reverse_kernel, 1, 256, 0, y.device, barrier != 0);
            y.pull();
            bool good = true;
            for (size_t i = 0; i < 256; i++) good = good && y.host[i] == (float)(255 - i);
            if (barrier) right += good;
            else wrong += !good;
        }
    }
    CHECK(right == 8);
    if (!with_tsan) CHECK(wrong == 8);
    TP_LAUNCH(nullptr, warp_neighbour_kernel, 1, 32, 0, y.device, true);
    y.pull();
    CHECK(y.host[31] == 0 && y.host[0] == 1);
}

TEST(the_thread_sanitizer_sees_races_of_lanes)
{
    if (!with_tsan) TEST_SKIP("needs -fsanitize=thread");
    Array<float> y(256);
    auto run = [&y](std::function<void()> launch) {
        return [&y, launch] {
            launch();
            y.pull();
            _exit(66);
        };
    };
    dies(run([&y] { TP_LAUNCH(nullptr, reverse_kernel, 1, 256, 0, y.device, false); }), "data race");
    dies(run([&y] { TP_LAUNCH(nullptr, warp_neighbour_kernel, 1, 32, 0, y.device, false); }), "data race");
    dies(run([&y] { TP_LAUNCH(nullptr, race_kernel, 1, 256, 0, y.device); }), "data race");
    dies(run([&y] { TP_LAUNCH(nullptr, blocks_race_kernel, 4, 32, 0, y.device); }), "data race");
}

TEST(divergence_is_found)
{
    auto launch = [](void (*kernel)()) {
        return [kernel] {
            tp_shim_launch("some_kernel", kernel, 2, 64, 0, nullptr);
            cudaDeviceSynchronize();
        };
    };
    dies(launch(leave_kernel), "while thread 3 has left the kernel");
    dies(launch(leave_kernel), "kernel some_kernel, block (");
    dies(launch(two_barriers_kernel), "divergent barrier");
    dies(launch(half_warp_kernel), "divergent barrier");
    dies(launch(wrong_mask_kernel), "which does not name it");
    dies(launch(read_outside_kernel), "which the mask does not name");
    dies([] { tp_shim_launch("small", half_warp_kernel, 1, 8, 0, nullptr), cudaDeviceSynchronize(), abort(); }, "");
    dies([] { __syncthreads(); }, "outside a kernel");
}

TEST(writes_out_of_bounds_are_found)
{
    Array<float> y(10);
    auto write = [&y](int at) {
        return [&y, at] {
            TP_LAUNCH(nullptr, write_kernel, 1, 1, 0, y.device, at);
            cudaDeviceSynchronize();
        };
    };
    dies(write(10), with_asan ? "heap-buffer-overflow" : "kernel write_kernel wrote beyond the end");
    dies(write(-1), with_asan ? "heap-buffer-overflow" : "wrote before the beginning");
    if (with_asan) {
        dies([&y] { TP_LAUNCH(nullptr, shared_overflow_kernel, 1, 1, 0, y.device, 8); }, "heap-buffer-overflow");
        dies([&y] { y.device[0] = 1; }, "use-after-poison");
        dies(
            [] {
                float *there;
                cudaSetDevice(1);
                cudaMalloc(&there, 64);
                cudaSetDevice(0);
                TP_LAUNCH(nullptr, write_kernel, 1, 1, 0, there, 0);
            },
            "use-after-poison");
    }
}

/* ==== >>memory tests ================================================================================== */

TEST(pointers_are_checked)
{
    Array<float> y(10);
    std::vector<float> h(100);
    auto copy = [&](void *to, const void *from, size_t n, cudaMemcpyKind kind) {
        return [=] { cudaMemcpy(to, from, n, kind); };
    };
    dies(copy(h.data(), h.data() + 50, 40, cudaMemcpyHostToDevice), "no device memory (a host pointer?)");
    dies(copy(y.device, h.data(), 44, cudaMemcpyHostToDevice), "44 bytes at offset 0 of a device allocation of 40");
    dies(copy(y.device + 9, h.data(), 8, cudaMemcpyHostToDevice), "8 bytes at offset 36");
    dies(copy(y.device, y.device, 40, cudaMemcpyDeviceToHost), "is device memory, where host memory is needed");
    dies(copy(h.data(), y.device, 40, cudaMemcpyHostToDevice), "no device memory");
    dies(copy(y.device, y.device + 1, 8, cudaMemcpyDeviceToDevice), "overlap");
    dies([&h] { cudaMemset(h.data(), 0, 4); }, "no device memory");
    dies([&h] { cudaFree(h.data()); }, "was never allocated on a device");
    dies([&y] { cudaFree(y.device + 1); }, "lies inside a device allocation");
    dies([&y] { cudaFree(y.device), cudaFree(y.device); }, "was freed already");
    dies([&y] { cudaFree(y.device), cudaMemset(y.device, 0, 4); }, "device memory that was freed");
    void *pinned;
    OK(cudaHostAlloc(&pinned, 64, 0));
    dies([=] { cudaMemset(pinned, 0, 4); }, "pinned host memory, where device memory is needed");
    dies(copy((char *)pinned + 60, y.device, 8, cudaMemcpyDeviceToHost), "of a pinned allocation of 64 bytes");
    OK(cudaFreeHost(pinned));
    dies([=] { cudaFreeHost(pinned); }, "freed already?");
}

TEST(allocations_fail_where_the_test_says)
{
    void *p = nullptr;
    const long before = tp_shim_allocations();
    tp_shim_fail_alloc_after(2);
    OK(cudaMalloc(&p, 16));
    CHECK(!tp_shim_failed());
    void *q;
    GIVES(cudaMalloc(&q, 16), cudaErrorMemoryAllocation);
    CHECK(tp_shim_failed() && q == nullptr);
    OK(cudaFree(p));
    OK(cudaMallocAsync(&p, 16, nullptr));
    OK(cudaFreeAsync(p, nullptr));
    CHECK(tp_shim_allocations() == before + 2);
    cudaStream_t s;
    tp_shim_fail_call_after(1);
    GIVES(cudaStreamCreate(&s), cudaErrorUnknown);
    CHECK(tp_shim_failed());
    tp_shim_set_memory(1000);
    OK(cudaMalloc(&p, 600));
    GIVES(cudaMalloc(&q, 600), cudaErrorMemoryAllocation);
    size_t free_bytes, total;
    OK(cudaMemGetInfo(&free_bytes, &total));
    CHECK(free_bytes == 400 && total == 1000 && tp_shim_live_bytes(0) == 600);
    OK(cudaFree(p));
    tp_shim_set_memory((size_t)8 << 30);
}

TEST(pools_allocate_in_the_order_of_streams)
{
    cudaMemPoolProps props;
    cudaMemPool_t pool = nullptr;
    uint64_t keep = UINT64_MAX, value = 0;
    memset(&props, 0, sizeof props);
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    tp_shim_set_pools(0);
    GIVES(cudaMemPoolCreate(&pool, &props), cudaErrorNotSupported);
    tp_shim_set_pools(1);
    OK(cudaMemPoolCreate(&pool, &props));
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    CHECK(tp_shim_live(NULL, 0) == 1);
    {
        Stream s, t;
        void *p, *q;
        cudaEvent_t e;
        OK(cudaEventCreate(&e));
        OK(cudaMallocFromPoolAsync(&p, 600, pool, s));
        OK(cudaEventRecord(e, s));
        OK(cudaStreamWaitEvent(t, e, 0));
        OK(cudaMemsetAsync(p, 1, 600, t));
        OK(cudaStreamSynchronize(t));
        OK(cudaFreeAsync(p, s));
        OK(cudaStreamSynchronize(s));
        CHECK(tp_shim_live_bytes(0) == 600); /* kept */
        OK(cudaMallocFromPoolAsync(&p, 500, pool, s));
        OK(cudaMallocFromPoolAsync(&q, 300, pool, s));
        OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &value));
        CHECK(value == 800 && tp_shim_live_bytes(0) == 800);
        OK(cudaFreeAsync(q, s));
        OK(cudaFreeAsync(p, s));
        OK(cudaStreamSynchronize(s));
        OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &value));
        CHECK(value == 800);
        OK(cudaMemPoolTrimTo(pool, 0));
        CHECK(tp_shim_live_bytes(0) == 0);
        dies(/* some order of the streams shows it */
             [&] {
                 for (uint64_t seed = 1; seed < 100; seed++) {
                     tp_shim_set_seed(seed);
                     cudaMallocFromPoolAsync(&p, 16, pool, s);
                     cudaMemsetAsync(p, 1, 16, t);
                     cudaStreamSynchronize(t);
                     cudaFreeAsync(p, s);
                     cudaStreamSynchronize(s);
                 }
             },
             "before the allocation in another stream");
        dies(
            [&] {
                for (uint64_t seed = 1; seed < 100; seed++) {
                    tp_shim_set_seed(seed);
                    cudaMallocFromPoolAsync(&p, 16, pool, s);
                    cudaStreamSynchronize(s);
                    cudaMemsetAsync(p, 1, 16, t);
                    cudaFreeAsync(p, s);
                    cudaStreamSynchronize(s);
                    cudaStreamSynchronize(t);
                }
            },
            "was freed before this ran");
        dies(
            [&] {
                cudaMallocFromPoolAsync(&p, 16, pool, s);
                cudaMemPoolDestroy(pool);
            },
            "1 allocations of the pool were not freed");
        OK(cudaEventDestroy(e));
    }
    OK(cudaMemPoolDestroy(pool));
    CHECK(tp_shim_live(NULL, 0) == 0);
}

TEST(what_is_alive_is_counted)
{
    char text[200];
    CHECK_MSG(tp_shim_live(text, sizeof text) == 0, "%s", text);
    void *p;
    cudaEvent_t e;
    cudnnHandle_t dnn;
    OK(cudaMalloc(&p, 4));
    OK(cudaEventCreate(&e));
    CHECK(cudnnCreate(&dnn) == CUDNN_STATUS_SUCCESS);
    CHECK(tp_shim_live(text, sizeof text) == 3);
    CHECK_STR(text, "1 cuDNN handle, 1 device allocation, 1 event");
    CHECK(cudnnDestroy(dnn) == CUDNN_STATUS_SUCCESS);
    OK(cudaEventDestroy(e));
    GIVES(cudaEventDestroy(e), cudaErrorInvalidResourceHandle);
    OK(cudaFree(p));
    CHECK(tp_shim_live(NULL, 0) == 0);
}

TEST(devices)
{
    int n = 0, can = 0;
    OK(cudaGetDeviceCount(&n));
    CHECK(n == 2);
    GIVES(cudaSetDevice(2), cudaErrorInvalidDevice);
    cudaDeviceProp p;
    OK(cudaGetDeviceProperties(&p, 1));
    CHECK(p.major == 9 && p.minor == 0 && p.multiProcessorCount == 132 && p.sharedMemPerBlockOptin == 227 << 10);
    OK(cudaDeviceCanAccessPeer(&can, 0, 1));
    CHECK(can);
    Array<float> a(64, 5.0f);
    OK(cudaSetDevice(1));
    {
        Array<float> b(64);
        Stream s;
        GIVES(cudaEventRecord(nullptr, s), cudaErrorInvalidResourceHandle);
        OK(cudaMemcpyPeerAsync(b.device, 1, a.device, 0, 256, s));
        TP_LAUNCH(s, add_kernel, 1, 64, 0, b.device, b.device, 64, 1.0f);
        OK(cudaStreamSynchronize(s));
        b.pull();
        CHECK(b.host[63] == 6.0f);
        OK(cudaDeviceEnablePeerAccess(0, 0));
        TP_LAUNCH(s, add_kernel, 1, 64, 0, b.device, a.device, 64, 2.0f);
        OK(cudaStreamSynchronize(s));
        OK(cudaDeviceDisablePeerAccess(0));
        OK(cudaSetDevice(0));
        TP_LAUNCH(s, add_kernel, 1, 64, 0, b.device, b.device, 64, 1.0f);
        GIVES(cudaGetLastError(), cudaErrorInvalidResourceHandle);
        OK(cudaSetDevice(1));
    }
    OK(cudaSetDevice(0));
}

/* ==== >>stream tests ================================================================================== */

/* A copy stream fills x, a compute stream reads it; an event between them, or none. How often it went wrong. */
static int two_streams(bool event)
{
    int wrong = 0;
    Array<float> x(64), y(64);
    float *pinned;
    OK(cudaHostAlloc(&pinned, 256, 0));
    cudaEvent_t copied;
    OK(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
    for (uint64_t seed = 1; seed <= 20; seed++) {
        Stream copy, compute;
        tp_shim_set_seed(seed);
        for (int i = 0; i < 64; i++) pinned[i] = (float)(seed + (uint64_t)i);
        OK(cudaMemcpyAsync(x.device, pinned, 256, cudaMemcpyHostToDevice, copy));
        OK(cudaEventRecord(copied, copy));
        if (event) OK(cudaStreamWaitEvent(compute, copied, 0));
        TP_LAUNCH(compute, add_kernel, 2, 32, 0, y.device, x.device, 64, 1.0f);
        OK(cudaStreamSynchronize(compute));
        y.pull();
        wrong += y.host[5] != (float)(seed + 6);
    }
    OK(cudaEventDestroy(copied));
    OK(cudaFreeHost(pinned));
    return wrong;
}
TEST(streams_run_in_no_order_but_that_of_events)
{
    CHECK(two_streams(true) == 0);
    CHECK(two_streams(false) > 0);
}

TEST(pinned_memory_is_read_late_and_pageable_memory_at_once)
{
    int late = 0, early = 0;
    Array<float> x(2);
    float *pinned, pageable;
    OK(cudaHostAlloc(&pinned, 4, 0));
    for (uint64_t seed = 1; seed <= 10; seed++) {
        Stream s;
        tp_shim_set_seed(seed);
        *pinned = pageable = 1;
        OK(cudaMemcpyAsync(x.device, pinned, 4, cudaMemcpyHostToDevice, s));
        OK(cudaMemcpyAsync(x.device + 1, &pageable, 4, cudaMemcpyHostToDevice, s));
        *pinned = pageable = 2; /* the mistake: the copy may not have run */
        OK(cudaStreamSynchronize(s));
        x.pull();
        late += x.host[0] == 2;
        early += x.host[1] == 1;
    }
    CHECK(late > 0);
    CHECK(early == 10);
    OK(cudaFreeHost(pinned));
}

TEST(events_and_queries)
{
    Stream s;
    cudaEvent_t a, b;
    OK(cudaEventCreate(&a));
    OK(cudaEventCreate(&b));
    OK(cudaEventQuery(a)); /* never recorded */
    Array<float> x(64);
    OK(cudaEventRecord(a, s));
    for (int i = 0; i < 50; i++) TP_LAUNCH(s, add_kernel, 1, 64, 0, x.device, x.device, 64, 1.0f);
    OK(cudaEventRecord(b, s));
    int asked = 0;
    while (cudaEventQuery(b) == cudaErrorNotReady) asked++;
    CHECK(asked > 0 && asked < 60);
    float ms = -1;
    OK(cudaEventElapsedTime(&ms, a, b));
    CHECK(ms >= 0);
    cudaGetLastError();
    while (cudaStreamQuery(s) == cudaErrorNotReady) {}
    OK(cudaEventSynchronize(b));
    OK(cudaEventDestroy(a));
    OK(cudaEventDestroy(b));
    x.pull();
    CHECK(x.host[7] == 50);
    cudaGetLastError();
}

/* ==== >>graph tests =================================================================================== */

TEST(graphs_are_replayed)
{
    Stream s, side;
    Array<float> x(64), y(64), z(64);
    cudaEvent_t fork_event, join_event;
    OK(cudaEventCreateWithFlags(&fork_event, cudaEventDisableTiming));
    OK(cudaEventCreateWithFlags(&join_event, cudaEventDisableTiming));
    const long launches = tp_shim_launches(), replays = tp_shim_graph_launches();
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    TP_LAUNCH(s, add_kernel, 1, 64, 0, x.device, x.device, 64, 1.0f);
    OK(cudaEventRecord(fork_event, s));
    OK(cudaStreamWaitEvent(side, fork_event, 0));
    TP_LAUNCH(side, add_kernel, 1, 64, 0, y.device, x.device, 64, 10.0f);
    OK(cudaEventRecord(join_event, side));
    TP_LAUNCH(s, add_kernel, 1, 64, 0, z.device, x.device, 64, 100.0f);
    OK(cudaStreamWaitEvent(s, join_event, 0));
    TP_LAUNCH(s, add_kernel, 1, 64, 0, y.device, y.device, 64, 1000.0f);
    cudaStreamCaptureStatus status;
    OK(cudaStreamIsCapturing(side, &status));
    CHECK(status == cudaStreamCaptureStatusActive);
    cudaGraph_t g;
    cudaGraphExec_t exec;
    OK(cudaStreamEndCapture(s, &g));
    OK(cudaStreamIsCapturing(side, &status));
    CHECK(status == cudaStreamCaptureStatusNone);
    size_t nodes = 0;
    OK(cudaGraphGetNodes(g, nullptr, &nodes));
    CHECK(nodes == 4);
    OK(cudaGraphInstantiate(&exec, g, 0));
    OK(cudaGraphDestroy(g));
    x.pull();
    CHECK(x.host[0] == 0); /* recorded, not run */
    for (int i = 0; i < 10; i++) OK(cudaGraphLaunch(exec, s));
    OK(cudaStreamSynchronize(s));
    x.pull();
    y.pull();
    z.pull();
    CHECK(x.host[3] == 10 && y.host[3] == 1020 && z.host[3] == 110);
    CHECK(tp_shim_launches() == launches && tp_shim_graph_launches() == replays + 10);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaEventDestroy(fork_event));
    OK(cudaEventDestroy(join_event));
}

TEST(a_capture_forbids)
{
    Stream s, other;
    cudaEvent_t e;
    void *p;
    cudaGraph_t g;
    char host[4] = {};
    OK(cudaEventCreate(&e));
    Array<float> x(1);
    const std::vector<std::function<cudaError_t()>> illegal = {
        [&] { return cudaMalloc(&p, 4); },
        [&] { return cudaFree(x.device); },
        [&] { return cudaStreamSynchronize(s); },
        [&] { return cudaStreamSynchronize(other); },
        [&] { return cudaDeviceSynchronize(); },
        [&] { return cudaEventQuery(e); },
        [&] { return cudaEventSynchronize(e); },
        [&] { return cudaMemcpy(host, x.device, 4, cudaMemcpyDeviceToHost); },
        [&] { return cudaMemcpyAsync(host, x.device, 4, cudaMemcpyDeviceToHost, s); },
        [&] { return cudaHostAlloc(&p, 4, 0); },
    };
    for (auto &call : illegal) {
        OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
        GIVES(call(), cudaErrorStreamCaptureUnsupported);
        TP_LAUNCH(s, write_kernel, 1, 1, 0, x.device, 0);
        GIVES(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
        GIVES(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
        CHECK(g == nullptr);
    }
    /* another thread may, in this mode */
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    std::thread([&] { OK(cudaMalloc(&p, 4)), OK(cudaFree(p)); }).join();
    OK(cudaStreamEndCapture(s, &g));
    OK(cudaGraphDestroy(g));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    std::thread([&] { GIVES(cudaMalloc(&p, 4), cudaErrorStreamCaptureUnsupported); }).join();
    GIVES(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
    /* a stream that never comes back, an event of outside, the default stream beside a blocking one */
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    OK(cudaEventRecord(e, s));
    OK(cudaStreamWaitEvent(other, e, 0));
    TP_LAUNCH(other, write_kernel, 1, 1, 0, x.device, 0);
    GIVES(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureUnjoined);
    OK(cudaEventRecord(e, other));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    GIVES(cudaStreamWaitEvent(s, e, 0), cudaErrorStreamCaptureIsolation);
    GIVES(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
    cudaStream_t blocking;
    OK(cudaStreamCreate(&blocking));
    OK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
    TP_LAUNCH(nullptr, write_kernel, 1, 1, 0, x.device, 0);
    GIVES(cudaGetLastError(), cudaErrorStreamCaptureImplicit);
    GIVES(cudaStreamEndCapture(blocking, &g), cudaErrorStreamCaptureInvalidated);
    OK(cudaStreamDestroy(blocking));
    GIVES(cudaStreamEndCapture(s, &g), cudaErrorInvalidValue);
    OK(cudaEventDestroy(e));
}

/* ==== >>library tests ================================================================================= */

static uint16_t to_bf16(double v)
{
    float f = (float)v;
    uint32_t b;
    memcpy(&b, &f, 4);
    return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
static double from_bf16(uint16_t h)
{
    uint32_t b = (uint32_t)h << 16;
    float f;
    memcpy(&f, &b, 4);
    return (double)f;
}

struct Product {
    cublasLtHandle_t h = nullptr;
    cublasLtMatmulDesc_t d = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
    cublasLtMatmulPreference_t pref = nullptr;
    cublasLtMatmulHeuristicResult_t found = {};
    Product(cublasComputeType_t compute, cudaDataType_t type, int64_t m, int64_t n, int64_t k, bool ta, bool tb)
    {
        cudaDataType_t scale = compute == CUBLAS_COMPUTE_64F ? CUDA_R_64F : CUDA_R_32F;
        cublasLtCreate(&h);
        cublasLtMatmulDescCreate(&d, compute, scale);
        cublasOperation_t t = CUBLAS_OP_T;
        if (ta) cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof t);
        if (tb) cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSB, &t, sizeof t);
        cublasLtMatrixLayoutCreate(&a, type, (uint64_t)(ta ? k : m), (uint64_t)(ta ? m : k), ta ? k : m);
        cublasLtMatrixLayoutCreate(&b, type, (uint64_t)(tb ? n : k), (uint64_t)(tb ? k : n), tb ? n : k);
        cublasLtMatrixLayoutCreate(&c, type, (uint64_t)m, (uint64_t)n, m);
        cublasLtMatmulPreferenceCreate(&pref);
    }
    void batches(int32_t n, int64_t sa, int64_t sb, int64_t sc)
    {
        cublasLtMatrixLayout_t l[3] = {a, b, c};
        int64_t stride[3] = {sa, sb, sc};
        for (int i = 0; i < 3; i++) {
            cublasLtMatrixLayoutSetAttribute(l[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n, sizeof n);
            cublasLtMatrixLayoutSetAttribute(l[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride[i],
                                             sizeof stride[i]);
        }
    }
    cublasStatus_t find(uint64_t workspace)
    {
        int n = 0;
        cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, 8);
        return cublasLtMatmulAlgoGetHeuristic(h, d, a, b, c, c, pref, 1, &found, &n);
    }
    ~Product()
    {
        cublasLtMatmulPreferenceDestroy(pref);
        cublasLtMatrixLayoutDestroy(a);
        cublasLtMatrixLayoutDestroy(b);
        cublasLtMatrixLayoutDestroy(c);
        cublasLtMatmulDescDestroy(d);
        cublasLtDestroy(h);
    }
};

TEST(matmul_against_loops)
{
    const int m = 5, n = 7, k = 3, batches = 2;
    for (int mode = 0; mode < 8; mode++) {
        bool ta = mode & 1, tb = mode & 2, fused = mode & 4;
        Array<float> A(m * k * batches), B(k * n * batches), C(m * n * batches), bias(m);
        Array<char> workspace(1 << 16);
        for (size_t i = 0; i < A.host.size(); i++) A.host[i] = (float)noise(i);
        for (size_t i = 0; i < B.host.size(); i++) B.host[i] = (float)noise(i + 500);
        for (size_t i = 0; i < C.host.size(); i++) C.host[i] = (float)noise(i + 900);
        for (size_t i = 0; i < m; i++) bias.host[i] = (float)noise(i + 77);
        A.push(), B.push(), C.push(), bias.push();
        std::vector<float> before = C.host;
        Product p(CUBLAS_COMPUTE_32F, CUDA_R_32F, m, n, k, ta, tb);
        p.batches(batches, m * k, k * n, m * n);
        cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
        if (fused) {
            cublasLtMatmulDescSetAttribute(p.d, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
            cublasLtMatmulDescSetAttribute(p.d, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias.device, sizeof(void *));
        }
        CHECK(p.find(1 << 20) == CUBLAS_STATUS_SUCCESS && p.found.workspaceSize == 1 << 16);
        float alpha = 2, beta = 0.5f;
        Stream s;
        CHECK(cublasLtMatmul(p.h, p.d, &alpha, A.device, p.a, B.device, p.b, &beta, C.device, p.c, C.device, p.c,
                             &p.found.algo, workspace.device, 100, s) == CUBLAS_STATUS_INVALID_VALUE);
        CHECK(cublasLtMatmul(p.h, p.d, &alpha, A.device, p.a, B.device, p.b, &beta, C.device, p.c, C.device, p.c,
                             &p.found.algo, workspace.device, 1 << 16, s) == CUBLAS_STATUS_SUCCESS);
        C.pull();
        for (int b = 0; b < batches; b++)
            for (int i = 0; i < m; i++)
                for (int j = 0; j < n; j++) {
                    double v = 0;
                    for (int l = 0; l < k; l++)
                        v += (double)A.host[(size_t)(b * m * k + (ta ? l + i * k : i + l * m))] *
                             (double)B.host[(size_t)(b * k * n + (tb ? j + l * n : l + j * k))];
                    size_t at = (size_t)(b * m * n + i + j * m);
                    v = 2 * v + 0.5 * (double)before[at];
                    if (fused) v = fmax(0, v + (double)bias.host[(size_t)i]);
                    CHECK_NEAR(C.host[at], v, 1e-6, 1e-6);
                }
        /* an algorithm serves the product it was found for */
        Product other(CUBLAS_COMPUTE_32F, CUDA_R_32F, m, n, k + 1, false, false);
        CHECK(other.find(0) == CUBLAS_STATUS_SUCCESS && other.found.workspaceSize == 0);
        CHECK(cublasLtMatmul(p.h, p.d, &alpha, A.device, p.a, B.device, p.b, &beta, C.device, p.c, C.device, p.c,
                             &other.found.algo, nullptr, 0, s) == CUBLAS_STATUS_INVALID_VALUE);
    }
    Array<float> A(4), B(4);
    dies(
        [&] {
            Product p(CUBLAS_COMPUTE_32F, CUDA_R_32F, 4, 4, 1, false, false);
            float one = 1, zero = 0;
            cublasLtMatmul(p.h, p.d, &one, A.device, p.a, B.device, p.b, &zero, A.device, p.c, A.device, p.c, nullptr,
                           nullptr, 0, nullptr);
        },
        "cublasLtMatmul, D: 64 bytes at offset 0");
}

/* times one: every bit pattern comes back */
template <class Bits> static void bits_survive(cudaDataType_t type, Bits one, unsigned nan_above)
{
    const int n = 65536;
    Array<Bits> x(n), y(n), unit(1, one);
    for (int i = 0; i < n; i++) x.host[(size_t)i] = (Bits)i;
    x.push();
    Product p(CUBLAS_COMPUTE_32F, type, n, 1, 1, false, false);
    float a = 1, b = 0;
    CHECK(cublasLtMatmul(p.h, p.d, &a, x.device, p.a, unit.device, p.b, &b, y.device, p.c, y.device, p.c, nullptr,
                         nullptr, 0, nullptr) == CUBLAS_STATUS_SUCCESS);
    y.pull();
    int wrong = 0;
    for (unsigned i = 0; i < (unsigned)n; i++) {
        if ((i & 0x7fff) > nan_above) continue;
        unsigned expect = i == 0x8000 ? 0 : i; /* -0 + 0 */
        wrong += y.host[i] != expect;
    }
    CHECK_MSG(wrong == 0, "%d patterns changed", wrong);
}
TEST(half_types_survive)
{
    bits_survive<uint16_t>(CUDA_R_16F, 0x3c00, 0x7c00);
    bits_survive<uint16_t>(CUDA_R_16BF, 0x3f80, 0x7f80);
}

struct ConvCase {
    cudnnTensorFormat_t format;
    int B, C, K, H, W, R, S, pad, stride, dilation, groups;
    cudnnDataType_t type;
};
/* x(b,c,h,w) in either layout */
static size_t place(const ConvCase &c, int b, int ch, int h, int w, int C, int H, int W)
{
    return (size_t)(c.format == CUDNN_TENSOR_NHWC ? ((b * H + h) * W + w) * C + ch : ((b * C + ch) * H + h) * W + w);
}
template <class T>
static void check_convolution(const ConvCase &c, double tolerance, T (*to)(double), double (*from)(T))
{
    const int OH = (c.H + 2 * c.pad - ((c.R - 1) * c.dilation + 1)) / c.stride + 1;
    const int OW = (c.W + 2 * c.pad - ((c.S - 1) * c.dilation + 1)) / c.stride + 1;
    const int cg = c.C / c.groups, kg = c.K / c.groups;
    auto count = [](int a, int b, int d, int e) { return (size_t)(a * b * d * e); };
    Array<T> x(count(c.B, c.C, c.H, c.W)), w(count(c.K, cg, c.R, c.S)), y(count(c.B, c.K, OH, OW));
    Array<T> dx(x.host.size(), to(1)), dw(w.host.size(), to(1));
    for (size_t i = 0; i < x.host.size(); i++) x.host[i] = to(noise(i));
    for (size_t i = 0; i < w.host.size(); i++) w.host[i] = to(noise(i + 300));
    for (size_t i = 0; i < y.host.size(); i++) y.host[i] = to(noise(i + 700));
    x.push(), w.push(), y.push();
    std::vector<double> want_y(y.host.size()), want_dx(x.host.size(), 0.5), want_dw(w.host.size(), 0.5);
    for (int b = 0; b < c.B; b++)
        for (int k = 0; k < c.K; k++)
            for (int oh = 0; oh < OH; oh++)
                for (int ow = 0; ow < OW; ow++) {
                    size_t yi = place(c, b, k, oh, ow, c.K, OH, OW);
                    for (int ci = 0; ci < cg; ci++)
                        for (int r = 0; r < c.R; r++)
                            for (int s = 0; s < c.S; s++) {
                                int h = oh * c.stride - c.pad + r * c.dilation,
                                    v = ow * c.stride - c.pad + s * c.dilation;
                                if (h < 0 || h >= c.H || v < 0 || v >= c.W) continue;
                                size_t xi = place(c, b, k / kg * cg + ci, h, v, c.C, c.H, c.W);
                                size_t wi = place(c, k, ci, r, s, cg, c.R, c.S);
                                want_y[yi] += from(x.host[xi]) * from(w.host[wi]);
                                want_dx[xi] += from(y.host[yi]) * from(w.host[wi]);
                                want_dw[wi] += from(y.host[yi]) * from(x.host[xi]);
                            }
                }
    cudnnHandle_t h = nullptr;
    cudnnTensorDescriptor_t xd = nullptr, yd = nullptr;
    cudnnFilterDescriptor_t wd = nullptr;
    cudnnConvolutionDescriptor_t cd = nullptr;
    Stream s;
    CHECK(!cudnnCreate(&h) && !cudnnSetStream(h, s) && !cudnnCreateTensorDescriptor(&xd));
    CHECK(!cudnnCreateTensorDescriptor(&yd) && !cudnnCreateFilterDescriptor(&wd));
    CHECK(!cudnnCreateConvolutionDescriptor(&cd));
    CHECK(!cudnnSetTensor4dDescriptor(xd, c.format, c.type, c.B, c.C, c.H, c.W));
    CHECK(!cudnnSetTensor4dDescriptor(yd, c.format, c.type, c.B, c.K, OH, OW));
    CHECK(!cudnnSetFilter4dDescriptor(wd, c.type, c.format, c.K, cg, c.R, c.S));
    CHECK(!cudnnSetConvolution2dDescriptor(cd, c.pad, c.pad, c.stride, c.stride, c.dilation, c.dilation,
                                           CUDNN_CROSS_CORRELATION,
                                           c.type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT));
    CHECK(!cudnnSetConvolutionGroupCount(cd, c.groups) && !cudnnSetConvolutionMathType(cd, CUDNN_FMA_MATH));
    Array<T> out(y.host.size());
    float f1 = 1, f0 = 0, fh = 0.5f;
    double d1 = 1, d0 = 0, dh = 0.5;
    bool doubles = c.type == CUDNN_DATA_DOUBLE;
    const void *one = doubles ? (void *)&d1 : (void *)&f1, *zero = doubles ? (void *)&d0 : (void *)&f0;
    const void *half = doubles ? (void *)&dh : (void *)&fh;
    cudnnConvolutionFwdAlgoPerf_t forward[2];
    cudnnConvolutionBwdDataAlgoPerf_t data[2];
    cudnnConvolutionBwdFilterAlgoPerf_t filter[2];
    int n = 0;
    CHECK(!cudnnGetConvolutionForwardAlgorithm_v7(h, xd, wd, cd, yd, 2, &n, forward) && n == 2);
    CHECK(!cudnnGetConvolutionBackwardDataAlgorithm_v7(h, wd, yd, cd, xd, 2, &n, data) && n == 2);
    CHECK(!cudnnGetConvolutionBackwardFilterAlgorithm_v7(h, xd, yd, cd, wd, 2, &n, filter) && n == 2);
    CHECK(data[1].determinism == CUDNN_DETERMINISTIC && filter[1].determinism == CUDNN_DETERMINISTIC);
    size_t bytes = 0;
    CHECK(!cudnnGetConvolutionForwardWorkspaceSize(h, xd, wd, cd, yd, forward[0].algo, &bytes));
    CHECK(bytes > 0 && bytes == forward[0].memory);
    Array<char> room(1 << 16);
    CHECK(cudnnConvolutionForward(h, one, xd, x.device, wd, w.device, cd, forward[0].algo, room.device, bytes - 1, zero,
                                  yd, out.device) == CUDNN_STATUS_BAD_PARAM);
    CHECK(!cudnnConvolutionForward(h, one, xd, x.device, wd, w.device, cd, forward[0].algo, room.device, bytes, zero,
                                   yd, out.device));
    CHECK(!cudnnConvolutionBackwardData(h, one, wd, w.device, yd, y.device, cd, data[1].algo, room.device, 1 << 16,
                                        half, xd, dx.device));
    CHECK(!cudnnConvolutionBackwardFilter(h, one, xd, x.device, yd, y.device, cd, filter[1].algo, room.device, 1 << 16,
                                          half, wd, dw.device));
    out.pull(), dx.pull(), dw.pull();
    for (size_t i = 0; i < want_y.size(); i++) CHECK_NEAR(from(out.host[i]), want_y[i], tolerance, tolerance);
    for (size_t i = 0; i < want_dx.size(); i++) CHECK_NEAR(from(dx.host[i]), want_dx[i], tolerance, tolerance);
    for (size_t i = 0; i < want_dw.size(); i++) CHECK_NEAR(from(dw.host[i]), want_dw[i], tolerance, tolerance);
    /* what does not fit together */
    CHECK(!cudnnSetTensor4dDescriptor(yd, c.format, c.type, c.B, c.K, OH + 1, OW));
    CHECK(cudnnGetConvolutionForwardWorkspaceSize(h, xd, wd, cd, yd, forward[0].algo, &bytes) ==
          CUDNN_STATUS_BAD_PARAM);
    CHECK(!cudnnSetTensor4dDescriptor(yd, c.format, CUDNN_DATA_INT8, c.B, c.K, OH, OW));
    CHECK(cudnnGetConvolutionForwardWorkspaceSize(h, xd, wd, cd, yd, forward[0].algo, &bytes) ==
          CUDNN_STATUS_NOT_SUPPORTED);
    cudnnDestroyTensorDescriptor(xd);
    cudnnDestroyTensorDescriptor(yd);
    cudnnDestroyFilterDescriptor(wd);
    cudnnDestroyConvolutionDescriptor(cd);
    cudnnDestroy(h);
}
TEST(convolutions_against_loops)
{
    auto same = [](float v) { return (double)v; };
    auto narrow = [](double v) { return (float)v; };
    auto itself = [](double v) { return v; };
    const cudnnTensorFormat_t formats[2] = {CUDNN_TENSOR_NHWC, CUDNN_TENSOR_NCHW};
    for (cudnnTensorFormat_t f : formats) {
        check_convolution<float>({f, 2, 3, 4, 6, 5, 3, 2, 1, 1, 1, 1, CUDNN_DATA_FLOAT}, 1e-5, narrow, same);
        check_convolution<float>({f, 2, 4, 6, 7, 8, 3, 3, 2, 2, 2, 2, CUDNN_DATA_FLOAT}, 1e-5, narrow, same);
        check_convolution<double>({f, 1, 4, 4, 5, 5, 2, 3, 0, 1, 1, 4, CUDNN_DATA_DOUBLE}, 1e-12, itself, itself);
        check_convolution<uint16_t>({f, 2, 2, 2, 4, 4, 3, 3, 1, 1, 1, 1, CUDNN_DATA_BFLOAT16}, 2e-2, to_bf16,
                                    from_bf16);
    }
}

TEST(collectives)
{
    {
        ncclComm_t one = nullptr;
        ncclUniqueId id;
        CHECK(!ncclGetUniqueId(&id) && !ncclCommInitRank(&one, 1, id, 0));
        Array<float> x(4, 3.0f), y(4);
        Stream s;
        CHECK(!ncclAllReduce(x.device, y.device, 4, ncclFloat, ncclSum, one, s));
        y.pull();
        CHECK(y.host[3] == 3);
        CHECK(!ncclCommDestroy(one));
    }
    ncclComm_t comm[2];
    CHECK(!ncclCommInitAll(comm, 2, nullptr));
    for (uint64_t seed = 1; seed <= 5; seed++) {
        tp_shim_set_seed(seed);
        float *x[2], *y[2];
        cudaStream_t s[2];
        for (int d = 0; d < 2; d++) {
            OK(cudaSetDevice(d));
            OK(cudaStreamCreateWithFlags(&s[d], cudaStreamNonBlocking));
            OK(cudaMalloc(&x[d], 16));
            OK(cudaMalloc(&y[d], 32));
            OK(cudaMemsetAsync(x[d], 0, 16, s[d]));
            TP_LAUNCH(s[d], add_kernel, 1, 32, 0, x[d], x[d], 4, (float)(d + 1));
        }
        CHECK(!ncclGroupStart());
        for (int d = 0; d < 2; d++) CHECK(!ncclAllReduce(x[d], x[d], 4, ncclFloat, ncclSum, comm[d], s[d]));
        for (int d = 0; d < 2; d++) CHECK(!ncclAllGather(x[d], y[d], 4, ncclFloat, comm[d], s[d]));
        CHECK(!ncclGroupEnd());
        for (int d = 0; d < 2; d++) {
            float v[8];
            OK(cudaSetDevice(d));
            OK(cudaMemcpyAsync(v, y[d], 32, cudaMemcpyDeviceToHost, s[d]));
            CHECK(v[0] == 3 && v[7] == 3);
            OK(cudaStreamSynchronize(s[d]));
        }
        for (int d = 0; d < 2; d++) {
            OK(cudaSetDevice(d));
            OK(cudaStreamDestroy(s[d]));
            OK(cudaFree(x[d]));
            OK(cudaFree(y[d]));
        }
    }
    OK(cudaSetDevice(0));
    /* one graph of both devices' streams */
    float *x[2], host[4];
    cudaStream_t s[2];
    cudaEvent_t e[2];
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    for (int d = 0; d < 2; d++) {
        OK(cudaSetDevice(d));
        OK(cudaStreamCreateWithFlags(&s[d], cudaStreamNonBlocking));
        OK(cudaEventCreate(&e[d]));
        OK(cudaMalloc(&x[d], 16));
        OK(cudaMemset(x[d], 0, 16));
    }
    OK(cudaSetDevice(0));
    OK(cudaStreamBeginCapture(s[0], cudaStreamCaptureModeThreadLocal));
    OK(cudaEventRecord(e[0], s[0]));
    OK(cudaStreamWaitEvent(s[1], e[0], 0));
    for (int d = 0; d < 2; d++) {
        OK(cudaSetDevice(d));
        TP_LAUNCH(s[d], add_kernel, 1, 32, 0, x[d], x[d], 4, (float)(d + 1));
    }
    CHECK(!ncclGroupStart());
    for (int d = 0; d < 2; d++) CHECK(!ncclAllReduce(x[d], x[d], 4, ncclFloat, ncclSum, comm[d], s[d]));
    CHECK(!ncclGroupEnd());
    OK(cudaSetDevice(1));
    TP_LAUNCH(s[1], add_kernel, 1, 32, 0, x[1], x[1], 4, 0.5f);
    OK(cudaEventRecord(e[1], s[1]));
    OK(cudaStreamWaitEvent(s[0], e[1], 0));
    OK(cudaStreamEndCapture(s[0], &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    for (int i = 0; i < 2; i++) OK(cudaGraphLaunch(exec, s[0])); /* 3 and 3.5, then 4 + 5.5 and 0.5 more */
    for (int d = 0; d < 2; d++) {
        OK(cudaStreamSynchronize(s[0]));
        OK(cudaMemcpy(host, x[d], 16, cudaMemcpyDeviceToHost));
        CHECK(host[0] == 9.5f + 0.5f * (float)d && host[3] == host[0]);
        OK(cudaSetDevice(d));
        OK(cudaEventDestroy(e[d]));
        OK(cudaFree(x[d]));
    }
    OK(cudaGraphExecDestroy(exec));
    for (int d = 0; d < 2; d++) OK(cudaStreamDestroy(s[d]));
    OK(cudaSetDevice(0));
    Array<float> y(4);
    dies([&] { ncclAllReduce(y.device, y.device, 4, ncclFloat, ncclSum, comm[0], nullptr); },
         "outside ncclGroupStart and ncclGroupEnd");
    for (int d = 0; d < 2; d++) CHECK(!ncclCommDestroy(comm[d]));
}

TEST(library_calls_fail_where_the_test_says)
{
    for (long n = 1, struck = 1; struck; n++) {
        cublasLtHandle_t h = nullptr;
        cudnnHandle_t dnn = nullptr;
        cublasLtMatmulDesc_t d = nullptr;
        tp_shim_fail_call_after(n);
        bool ok = cublasLtCreate(&h) == CUBLAS_STATUS_SUCCESS && cudnnCreate(&dnn) == CUDNN_STATUS_SUCCESS &&
                  cublasLtMatmulDescCreate(&d, CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS;
        struck = tp_shim_failed();
        CHECK(ok == !struck && (struck || n == 4));
        cublasLtMatmulDescDestroy(d);
        cudnnDestroy(dnn);
        cublasLtDestroy(h);
    }
    tp_shim_fail_call_after(0);
}

TEST(captured_library_calls_and_nothing_left)
{
    Array<float> A(4, 2.0f), B(4, 3.0f), C(16);
    Stream s;
    cudaGraph_t g;
    cudaGraphExec_t exec;
    {
        Product p(CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, 4, 4, 1, false, false);
        float one = 1;
        OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
        CHECK(!cublasLtMatmul(p.h, p.d, &one, A.device, p.a, B.device, p.b, &one, C.device, p.c, C.device, p.c, nullptr,
                              nullptr, 0, s));
        OK(cudaStreamEndCapture(s, &g));
    }
    OK(cudaGraphInstantiate(&exec, g, 0));
    for (int i = 0; i < 3; i++) OK(cudaGraphLaunch(exec, s));
    C.pull();
    CHECK(C.host[15] == 18);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(g));
}

/* last: it starts a thread, and the tests above fork */
#ifdef __SSE__
TP_KERNEL halve(float *p) { *p *= 0.5f; }
/* A kernel's floating-point mode is not that of whoever runs the queue: the CPU's kernels take denormals for zero. */
TEST(denormals_survive)
{
    float *p, least = 1.17549435e-38f;
    cudaStream_t s;
    OK(cudaStreamCreate(&s));
    OK(cudaMalloc((void **)&p, sizeof *p));
    OK(cudaMemcpyAsync(p, &least, sizeof least, cudaMemcpyHostToDevice, s));
    TP_LAUNCH(s, halve, 1, 1, 0, p);
    const unsigned mode = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(0x9fc0);
    OK(cudaStreamSynchronize(s));
    CHECK(__builtin_ia32_stmxcsr() == 0x9fc0u);
    __builtin_ia32_ldmxcsr(mode);
    float got = 0;
    OK(cudaMemcpy(&got, p, sizeof got, cudaMemcpyDeviceToHost));
    CHECK(got == 5.87747175e-39f);
    OK(cudaFree(p));
    OK(cudaStreamDestroy(s));
}
#endif

TEST(zz_host_functions)
{
    static std::atomic<int> seen;
    seen = 0;
    Stream s;
    auto count = [](void *user) {
        CHECK(cudaStreamSynchronize(nullptr) == cudaErrorNotPermitted);
        seen += *(int *)user;
    };
    int two = 2;
    OK(cudaLaunchHostFunc(s, count, &two));
    OK(cudaStreamSynchronize(s));
    CHECK(seen == 2);
    OK(cudaLaunchHostFunc(s, count, &two));
    for (int i = 0; i < 5000 && seen != 4; i++) usleep(1000); /* nobody asks the device */
    CHECK(seen == 4);
    char text[200];
    CHECK_MSG(tp_shim_live(text, sizeof text) == 1, "%s", text);
}

TEST_MAIN()
