/* bench.c - one workload, one JSON line: the median time of a training step (or of a batch-1 inference)
 *
 *   gcc -std=c11 -O2 -I. tests/bench/bench.c -o bench -lm -lpthread && ./bench mlp.b128 1 3.0
 *
 * arguments: workload, threads, seconds. Workloads as in PyTorch's peer: mlp.b128 mlp.b16 mlp.b1 (784-256-128-10, SGD),
 * mnistcnn.b128 (tensorpack's mnist-convnet, Adam, weight decay, dropout), resnet20.b128 (tensorpack's cifar10-resnet,
 * n = 3, momentum, weight decay), lstm128.b128 lstm256.b128 (embedding, two layers, 50 steps, Adam, clipped),
 * gpt.tiny (4 blocks of 256, AdamW), infer.mlp infer.mnistcnn infer.resnet20 (batch 1), resnet50.b256 (224x224, v1.5,
 * momentum, weight decay).
 *   --gpu n           on a GPU (make CUDA=1); a thread stages the next batch during a step, as a StagingInput does
 *   --precision p     of products: f32, tf32, bf16, f16
 *   --resident        resnet50: the images lie on the device
 *   --plan            the plan is printed, timed */
#define TP_IMPLEMENTATION
#include "tp_layers.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#ifdef TP_CUDA
#include <cuda_runtime_api.h>
#endif
#include "models.h"

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* -- the machine's FP32 multiply-add peak on `threads` threads, GFLOP/s: independent chains in registers */
#if defined(__x86_64__)
#include <immintrin.h>
__attribute__((target("avx512f"))) static double peak_avx512(void)
{
    __m512 a[16], x = _mm512_set1_ps(1.0f - 1e-7f), y = _mm512_set1_ps(1e-7f);
    for (int i = 0; i < 16; i++) a[i] = x;
    for (int k = 0; k < 2000000; k++) {
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) a[i] = _mm512_fmadd_ps(a[i], x, y);
    }
    float s = 0;
    for (int i = 0; i < 16; i++) s += _mm512_cvtss_f32(a[i]);
    return s > 1e30f ? 0 : 2000000.0 * 16 * 32;
}
__attribute__((target("avx2,fma"))) static double peak_avx2(void)
{
    __m256 a[12], x = _mm256_set1_ps(1.0f - 1e-7f), y = _mm256_set1_ps(1e-7f);
    for (int i = 0; i < 12; i++) a[i] = x;
    for (int k = 0; k < 2000000; k++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) a[i] = _mm256_fmadd_ps(a[i], x, y);
    }
    float s = 0;
    for (int i = 0; i < 12; i++) s += _mm256_cvtss_f32(a[i]);
    return s > 1e30f ? 0 : 2000000.0 * 12 * 16;
}
static void peak_chunk(void *user, int64_t chunk)
{
    ((double *)user)[chunk] = __builtin_cpu_supports("avx512f") ? peak_avx512()
                              : __builtin_cpu_supports("avx2")  ? peak_avx2()
                                                                : 0;
}
#else
static void peak_chunk(void *user, int64_t chunk) { ((double *)user)[chunk] = 0; }
#endif

static double peak_gflops(int threads)
{
    double flops[64], best = 0;
    tp_pool *pool = tp_pool_new(threads);
    if (threads > 64) threads = 64;
    for (int round = 0; round < 3 && pool; round++) {
        const double t0 = tp_time();
        tp_pool_run(pool, threads, peak_chunk, flops);
        double sum = 0, seconds = tp_time() - t0;
        for (int i = 0; i < threads; i++) sum += flops[i];
        if (sum / seconds > best) best = sum / seconds;
    }
    tp_pool_free(pool);
    return best / 1e9;
}

/* -- what the device hands out */

static struct {
    void *(*alloc)(tp_device *d, size_t bytes);
    void (*free)(tp_device *d, void *p);
    struct {
        void *p;
        size_t bytes;
    } block[4096];
    size_t now, most;
} memory;

static void *counted_alloc(tp_device *d, size_t bytes)
{
    void *p = memory.alloc(d, bytes);
    for (int i = 0; p && i < TP_COUNT(memory.block); i++)
        if (!memory.block[i].p) {
            memory.block[i].p = p;
            memory.block[i].bytes = bytes;
            memory.now += bytes;
            if (memory.now > memory.most) memory.most = memory.now;
            break;
        }
    return p;
}
static void counted_free(tp_device *d, void *p)
{
    for (int i = 0; p && i < TP_COUNT(memory.block); i++)
        if (memory.block[i].p == p) {
            memory.block[i].p = NULL;
            memory.now -= memory.block[i].bytes;
            break;
        }
    memory.free(d, p);
}

/* Bytes of the card that are taken, by whomever. */
static double card_bytes(int gpu)
{
    size_t unused = 0, all = 0;
#ifdef TP_CUDA
    if (gpu >= 0 && (cudaSetDevice(gpu) != cudaSuccess || cudaMemGetInfo(&unused, &all) != cudaSuccess)) return 0;
#else
    (void)gpu;
#endif
    return (double)(all - unused);
}

static tp_device *open_device(int gpu, int threads)
{
    if (gpu < 0) return tp_cpu_device_new(threads, NULL);
#ifdef TP_CUDA
    return tp_cuda_open(gpu);
#else
    tp_fail(TP_ERR_UNSUPPORTED, "this program was built without CUDA: make CUDA=1");
    return NULL;
#endif
}

static bool precision_of(const char *name, tp_precision *p)
{
    static const struct {
        const char *name;
        tp_precision precision;
    } known[] = {
        {"f32", TP_PRECISION_F32}, {"tf32", TP_PRECISION_TF32}, {"bf16", TP_PRECISION_BF16}, {"f16", TP_PRECISION_F16}};
    for (int i = 0; i < TP_COUNT(known); i++)
        if (strcmp(known[i].name, name) == 0) {
            *p = known[i].precision;
            return true;
        }
    fprintf(stderr, "bench: no precision '%s' in this version of tp; there are", name);
    for (int i = 0; i < TP_COUNT(known); i++) fprintf(stderr, " %s", known[i].name);
    fprintf(stderr, "\n");
    return false;
}

typedef struct options {
    const char *workload, *precision;
    int threads, gpu;
    double seconds;
    bool plan, resident;
} options;

static bool parse(int argc, char **argv, options *o)
{
    int n = 0;
    memset(o, 0, sizeof *o);
    o->workload = "mlp.b128";
    o->precision = "f32";
    o->threads = 1;
    o->gpu = -1;
    o->seconds = 3;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--plan") == 0) o->plan = true;
        else if (strcmp(argv[i], "--resident") == 0) o->resident = true;
        else if (strcmp(argv[i], "--gpu") == 0) o->gpu = atoi(value), i++;
        else if (strcmp(argv[i], "--precision") == 0) o->precision = value, i++;
        else if (n == 0) o->workload = argv[i], n++;
        else if (n == 1) o->threads = atoi(argv[i]), n++;
        else if (n == 2) o->seconds = atof(argv[i]), n++;
        else {
            fprintf(stderr, "usage: %s workload threads seconds [--gpu n] [--precision p] [--resident] [--plan]\n",
                    argv[0]);
            return false;
        }
    }
    return true;
}

/* Random input of the model's, and labels. */
static tp_status make_feeds(const model *m, tp_feed feed[2])
{
    const int64_t n_label = m->n_label ? m->n_label : m->x_shape.dim[0];
    memset(feed, 0, 2 * sizeof *feed);
    feed[0].node = m->x;
    feed[1].node = m->label;
    tp_tensor *x = &feed[0].value, *label = &feed[1].value;
    tp_status st = tp_tensor_resize(x, m->x->dtype, m->x_shape);
    if (st == TP_OK) st = tp_tensor_resize(label, TP_I32, tp_make_shape(n_label));
    if (st != TP_OK) return st;
    for (int64_t i = 0; i < tp_tensor_size(x); i++) {
        const double u = (double)tp_random_uniform(1, 0, (uint64_t)i);
        tp_tensor_set(x, i, m->x_classes ? floor(u * m->x_classes) : x->dtype == TP_U8 ? floor(u * 256) : u);
    }
    for (int64_t i = 0; i < n_label; i++) tp_tensor_set(label, i, (double)(i % 10));
    return TP_OK;
}

/* -- a thread that brings the next batch to the GPU while a step runs */
typedef struct stager {
    tp_device *device;
    const tp_feed *from; /* 2, in host memory */
    tp_feed to[2][2];    /* two batches: one is used by a step while the other is staged */
    int next;            /* the batch that is staged; -1: none */
    bool quit;
    tp_status status;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
} stager;
static void *stage_batches(void *user)
{
    stager *s = (stager *)user;
    pthread_mutex_lock(&s->mutex);
    while (!s->quit) {
        if (s->next >= 0) {
            for (int i = 0; i < 2 && s->status == TP_OK; i++)
                s->status = tp_tensor_stage(&s->to[s->next][i].value, s->device, &s->from[i].value);
            s->next = -1;
            pthread_cond_broadcast(&s->changed);
        } else pthread_cond_wait(&s->changed, &s->mutex);
    }
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}
static void stage_batch(stager *s, int batch)
{
    pthread_mutex_lock(&s->mutex);
    s->next = batch;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}
static const tp_feed *staged_batch(stager *s, int batch) /* waits until it is staged; NULL: staging failed */
{
    pthread_mutex_lock(&s->mutex);
    while (s->next >= 0) pthread_cond_wait(&s->changed, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
    for (int i = 0; i < 2 && s->status == TP_OK; i++) s->status = tp_tensor_unstage(&s->to[batch][i].value);
    return s->status == TP_OK ? s->to[batch] : NULL;
}
static int stager_start(stager *s, tp_device *d, const tp_feed feed[2])
{
    memset(s, 0, sizeof *s);
    s->device = d;
    s->from = feed;
    s->next = 0;
    for (int i = 0; i < 4; i++) s->to[i / 2][i % 2].node = feed[i % 2].node;
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
    return pthread_create(&s->thread, NULL, stage_batches, s);
}
static void stager_end(stager *s)
{
    pthread_mutex_lock(&s->mutex);
    s->quit = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
    pthread_join(s->thread, NULL);
    for (int i = 0; i < 4; i++) {
        tp_tensor_unstage(&s->to[i / 2][i % 2].value);
        tp_tensor_free(&s->to[i / 2][i % 2].value);
    }
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
}

static void warnings_only(void *user, tp_log_level level, const char *message)
{
    (void)user;
    if (level >= TP_LOG_WARN) fprintf(stderr, "bench: %s\n", message);
}

static int fail(void)
{
    fprintf(stderr, "bench: %s\n", tp_last_error());
    return 1;
}

int main(int argc, char **argv)
{
    const double start = tp_time();
    options o;
    tp_session_config c = tp_default_session_config();
    if (!parse(argc, argv, &o) || !precision_of(o.precision, &c.precision)) return 2;
    tp_set_log(warnings_only, NULL);
    model m = find_model(o.workload, o.resident);
    if (!m.g) {
        fprintf(stderr,
                "bench: no workload '%s'; there are mlp.b<batch>, mnistcnn.b<batch>, resnet20.b<batch>, "
                "resnet50.b<batch>, lstm128.b<batch>, lstm256.b<batch>, gpt.tiny, infer.mlp, infer.mnistcnn and "
                "infer.resnet20\n",
                o.workload);
        return 2;
    }
    const double card_before = card_bytes(o.gpu);
    tp_device *d = open_device(o.gpu, o.threads);
    if (!d) return fail();
    memory.alloc = d->alloc;
    memory.free = d->free;
    d->alloc = counted_alloc;
    d->free = counted_free;
    c.devices = &d;
    c.n_devices = 1;
    tp_session *s = tp_session_new(m.g, &c);
    tp_feed feed[2];
    const int n_feed = o.resident && strncmp(o.workload, "resnet50", 8) == 0 ? 0 : 2;
    if (!s || (n_feed && make_feeds(&m, feed) != TP_OK)) return fail();
    static double ms[2000000];
    int n = 0;
    double first = 0, begin = 0, warm_since = 0;
    static stager ahead;
    const bool stages = o.gpu >= 0 && n_feed == 2;
    if (stages && stager_start(&ahead, d, feed)) return fail();
    for (int warm = 0;; warm++) {
        const double t0 = tp_time();
        const tp_feed *batch = feed;
        if (stages) {
            batch = staged_batch(&ahead, warm % 2);
            if (!batch) return fail();
            stage_batch(&ahead, (warm + 1) % 2);
        }
        if (tp_session_run(s, batch, n_feed, m.fetch, m.n_fetch, NULL) != TP_OK) return fail();
        const double t1 = tp_time();
        if (warm == 0) {
            warm_since = t1;
            first = t1 - start;
        }
        if (warm < 3 || t1 - warm_since < 0.3) {
            begin = t1;
            if (o.plan) tp_exec_set_timing(tp_session_exec(s), true);
            continue;
        }
        ms[n++] = (t1 - t0) * 1e3;
        if ((n >= 5 && t1 - begin > o.seconds) || n == 2000000) break;
    }
    if (stages) stager_end(&ahead);
    qsort(ms, (size_t)n, sizeof *ms, by_value);
    if (o.plan) {
        tp_buf text;
        memset(&text, 0, sizeof text);
        tp_exec_print_plan(tp_session_exec(s), m.fetch, m.n_fetch, &text);
        fputs(text.data, stderr);
        tp_buf_free(&text);
    }
#ifdef TP_CUDA
    size_t now = 0, most = 0; /* with what the device needs for itself */
    if (o.gpu >= 0 && tp_cuda_memory(d, &now, &most) == TP_OK) memory.most = most;
#endif
    tp_plan_info info;
    memset(&info, 0, sizeof info);
    tp_exec_plan_info(tp_session_exec(s), m.fetch, m.n_fetch, &info);
    struct rusage ru;
    getrusage(RUSAGE_SELF, &ru);
    const double peak = o.gpu < 0 ? peak_gflops(o.threads) : 0;
    printf("{\"workload\": \"%s\", \"threads\": %d, \"device\": \"%s\", \"isa\": \"%s\", \"precision\": \"%s\", "
           "\"resident\": %s, \"ours_ms\": %.5f, \"best_ms\": %.5f, \"n\": %d, \"images_per_s\": %.1f, "
           "\"mflop\": %.2f, \"peak_gflops\": %.1f, \"roofline_ms\": %.5f, \"rss_mb\": %.1f, \"memory_mb\": %.1f, ",
           o.workload, o.threads, d->name, o.gpu < 0 ? tp_device_isa(d) : "cuda", o.precision,
           n_feed ? "false" : "true", ms[n / 2], ms[0], n, (double)m.x_shape.dim[0] * 1e3 / ms[n / 2], m.flops / 1e6,
           peak, peak > 0 ? m.flops / peak / 1e6 : 0.0, (double)ru.ru_maxrss / 1024.0, (double)memory.most / 1048576.0);
    if (o.gpu >= 0) printf("\"card_mb\": %.1f, ", (card_bytes(o.gpu) - card_before) / 1048576.0);
    printf("\"kernels\": %d, \"fused\": %d, \"first_step_s\": %.4f}\n", info.n_steps, info.n_fused, first);
    for (int i = 0; i < n_feed; i++) tp_tensor_free(&feed[i].value);
    tp_session_free(s);
    d->close(d);
    tp_graph_free(m.g);
    return 0;
}
