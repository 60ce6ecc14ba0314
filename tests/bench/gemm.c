/* gemm.c - matrix products against OpenBLAS and oneDNN, in turn, each in a process of its own: a JSON line a shape, then
 * the geometric means
 *
 *   gcc -std=c11 -O2 -I. tests/bench/gemm.c -o gemm -lm -lpthread -ldl && ./gemm 1 [part of a name]
 *   ./gemm 1 odd 7 200 [small]
 *
 * arguments: threads, shapes whose name contains this; or "odd", a seed, how many: random shapes of 1 to 300 in each
 * dimension, with "small" mostly small ones, whose last line has the geometric mean and the least ratio to the better of the two peers. The peers are Debian's libopenblas0 and libdnnl2, opened when the
 * program runs; one that is not there is left out. */
#define _GNU_SOURCE
#define TP_IMPLEMENTATION
#include "tp_tensor.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>

typedef struct shape {
    const char *name;
    int64_t M, N, K;
    bool ta, tb;
    int group; /* 0 square, 1 of a network */
} shape;

static const shape shapes[] = {{"sq64", 64, 64, 64, false, false, -1},
                               {"sq128", 128, 128, 128, false, false, -1},
                               {"sq256", 256, 256, 256, false, false, 0},
                               {"sq512", 512, 512, 512, false, false, 0},
                               {"sq1024", 1024, 1024, 1024, false, false, 0},
                               {"sq2048", 2048, 2048, 2048, false, false, 0},
                               {"mnist.conv0", 100352, 32, 9, false, false, 1},
                               {"mnist.conv1", 25088, 32, 288, false, false, 1},
                               {"mnist.conv3", 6272, 32, 288, false, false, 1},
                               {"mnist.fc0", 128, 512, 1568, false, false, 1},
                               {"cifar.conv0", 131072, 16, 27, false, false, 1},
                               {"cifar.res1", 131072, 16, 144, false, false, 1},
                               {"cifar.res2", 32768, 32, 288, false, false, 1},
                               {"cifar.res3", 8192, 64, 576, false, false, 1},
                               {"conv64", 25088, 64, 576, false, false, 1},
                               {"conv128", 6272, 128, 1152, false, false, 1},
                               {"conv256", 1568, 256, 2304, false, false, 1},
                               {"mlp.fc1", 128, 256, 784, false, false, 1},
                               {"mlp.fc1.b16", 16, 256, 784, false, false, 1},
                               {"mlp.fc1.b1", 1, 256, 784, false, false, 1},
                               {"lstm128", 128, 512, 256, false, false, 1},
                               {"lstm256", 128, 1024, 512, false, false, 1},
                               {"dW.mnist.conv1", 288, 32, 25088, true, false, 1},
                               {"dW.res1", 144, 16, 131072, true, false, 1},
                               {"dW.res3", 576, 64, 8192, true, false, 1},
                               {"dW.mlp.fc1", 784, 256, 128, true, false, 1},
                               {"dX.mnist.conv1", 25088, 288, 32, false, true, 1},
                               {"dX.mlp", 128, 784, 256, false, true, 1},
                               {"fwd.linear", 128, 256, 784, false, true, 1},
                               {"x.lstm256", 6400, 1024, 256, false, false, -1},
                               {"dW.lstm256", 256, 1024, 6400, true, false, -1},
                               {"dX.lstm256", 6400, 256, 1024, false, true, -1},
                               {"wide.b128", 128, 1024, 1024, false, false, -1},
                               {"wide.b64", 64, 1024, 1024, false, false, -1},
                               {"wide.b32", 32, 1024, 1024, false, false, -1},
                               {"dX.wide.b128", 128, 1024, 512, false, true, -1},
                               {"dX.wide.b32", 32, 512, 1024, false, true, -1}};

typedef void (*cblas_fn)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *,
                         int);
typedef int (*dnnl_fn)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t,
                       float, float *, int64_t);

static cblas_fn cblas;
static dnnl_fn dnnl;
static tp_device *device;
static tp__gemm_args args;
static void *scratch;

static void run(int who)
{
    const tp__gemm_args *a = &args;
    if (who == 0) tp__gemm(device, a, scratch);
    else if (who == 1)
        cblas(101, a->ta ? 112 : 111, a->tb ? 112 : 111, (int)a->M, (int)a->N, (int)a->K, 1.0f, a->A, (int)a->lda, a->B,
              (int)a->ldb, 0.0f, a->C, (int)a->ldc);
    else
        dnnl(a->ta ? 'T' : 'N', a->tb ? 'T' : 'N', a->M, a->N, a->K, 1.0f, a->A, a->lda, a->B, a->ldb, 0.0f, a->C,
             a->ldc);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The largest error of a few hundred entries against a sum in double, relative to the sum of magnitudes. */
static double check(void)
{
    double worst = 0;
    for (int64_t s = 0; s < 300; s++) {
        const int64_t i = (int64_t)tp_random_u32(3, 0, (uint64_t)s) % args.M,
                      j = (int64_t)tp_random_u32(4, 0, (uint64_t)s) % args.N;
        double sum = 0, size = 1e-30;
        for (int64_t k = 0; k < args.K; k++) {
            const double p = (double)args.A[args.ta ? k * args.lda + i : i * args.lda + k] *
                             (double)args.B[args.tb ? j * args.ldb + k : k * args.ldb + j];
            sum += p;
            size += fabs(p);
        }
        const double e = fabs(sum - (double)args.C[i * args.ldc + j]) / size;
        worst = e > worst || e != e ? e : worst;
    }
    return worst;
}

typedef struct measured {
    double ms, error;
    char kernels[32];
} measured;

/* One shape by one of the three, in this process. */
static measured measure(int who, const shape *s, int threads)
{
    measured r = {0, 0, ""};
    if (who == 1) {
        void *blas = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
        void (*set)(int) = NULL;
        char *(*name)(void) = NULL;
        if (!blas) return r;
        *(void **)&cblas = dlsym(blas, "cblas_sgemm");
        *(void **)&set = dlsym(blas, "openblas_set_num_threads");
        *(void **)&name = dlsym(blas, "openblas_get_corename");
        if (!cblas) return r;
        if (set) set(threads);
        if (name) snprintf(r.kernels, sizeof r.kernels, "%s", name());
    } else if (who == 2) {
        void *one = NULL;
        static const char *const names[] = {"libdnnl.so.3", "libdnnl.so.2"};
        for (int i = 0; i < 2 && !one; i++) one = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (!one) return r;
        *(void **)&dnnl = dlsym(one, "dnnl_sgemm");
        if (!dnnl) return r;
    }
    device = tp_cpu_device_new(who == 0 ? threads : 1, NULL);
    if (!device) {
        fprintf(stderr, "%s\n", tp_last_error());
        return r;
    }
    if (who == 0) snprintf(r.kernels, sizeof r.kernels, "%s", tp_device_isa(device));
    memset(&args, 0, sizeof args);
    args.ta = s->ta, args.tb = s->tb, args.M = s->M, args.N = s->N, args.K = s->K;
    args.lda = s->ta ? s->M : s->K, args.ldb = s->tb ? s->K : s->N, args.ldc = s->N;
    float *A = (float *)tp_alloc_aligned((size_t)(s->M * s->K) * 4);
    float *B = (float *)tp_alloc_aligned((size_t)(s->K * s->N) * 4);
    float *C = (float *)tp_alloc_aligned((size_t)(s->M * s->N) * 4);
    scratch = tp_alloc_aligned(tp__gemm_scratch(device, &args) + 64);
    if (!A || !B || !C || !scratch) return r;
    for (int64_t k = 0; k < s->M * s->K; k++) A[k] = tp_random_uniform(1, 0, (uint64_t)k) - 0.5f;
    for (int64_t k = 0; k < s->K * s->N; k++) B[k] = tp_random_uniform(2, 0, (uint64_t)k) - 0.5f;
    args.A = A, args.B = B, args.C = C;
    run(who);
    r.error = check();
    const double flop = 2.0 * (double)s->M * (double)s->N * (double)s->K;
    enum { TIMES = 9 };
    double t[TIMES];
    for (int i = 0; i < TIMES; i++) {
        int n = (int)(2e-3 * 200e9 / flop) + 1; /* about 2 ms a measurement */
        if (n > 2000) n = 2000;
        run(who); /* its data into the caches */
        const double t0 = tp_time();
        for (int q = 0; q < n; q++) run(who);
        t[i] = (tp_time() - t0) / n;
    }
    qsort(t, TIMES, sizeof t[0], by_value);
    r.ms = t[TIMES / 2] * 1e3;
    return r;
}

/* The same in a process of its own: the threads of one library would be in the way of the next. */
static measured measure_apart(int who, const shape *s, int threads)
{
    measured r = {0, 0, ""};
    int ends[2];
    if (pipe(ends) != 0) return r;
    const pid_t child = fork();
    if (child == 0) {
        r = measure(who, s, threads);
        _exit(write(ends[1], &r, sizeof r) == (ssize_t)sizeof r ? 0 : 1);
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], &r, sizeof r) != (ssize_t)sizeof r) memset(&r, 0, sizeof r);
    close(ends[0]);
    if (child > 0) waitpid(child, NULL, 0);
    return r;
}

/* The medians of all three for one shape, measured in turn. Prints a line without its end; ours is 0 if it failed. */
static void compare(const shape *s, int threads, measured m[3])
{
    enum { ROUNDS = 5 };
    double t[3][ROUNDS];
    for (int r = 0; r < ROUNDS; r++)
        for (int who = 0; who < 3; who++) {
            m[who] = measure_apart(who, s, threads);
            t[who][r] = m[who].ms;
        }
    if (m[0].ms <= 0) return;
    for (int who = 0; who < 3; who++) {
        qsort(t[who], ROUNDS, sizeof t[who][0], by_value);
        m[who].ms = t[who][ROUNDS / 2];
    }
    const double flop = 2.0 * (double)s->M * (double)s->N * (double)s->K;
    printf("{\"workload\": \"gemm.%s\", \"threads\": %d, \"isa\": \"%s\", \"ours_gflops\": %.1f, \"error\": %.2g",
           s->name, threads, m[0].kernels, flop / m[0].ms / 1e6, m[0].error);
    for (int who = 1; who < 3; who++) {
        if (m[who].ms <= 0) continue;
        const char *name = who == 1 ? "openblas" : "onednn";
        if (*m[who].kernels) printf(", \"%s_kernels\": \"%s\"", name, m[who].kernels);
        printf(", \"%s_gflops\": %.1f, \"%s_ratio\": %.3f", name, flop / m[who].ms / 1e6, name, m[who].ms / m[0].ms);
    }
}

/* Random shapes of 1 to 300 in each dimension; every second operand is transposed. small: 1 to 10 as likely as 30 to 300. */
static int compare_odd(int threads, uint64_t seed, int n, bool small)
{
    double log_sum = 0, least = 1e30;
    for (int i = 0; i < n; i++) {
        int64_t d[3];
        char name[48];
        measured m[3];
        for (int k = 0; k < 3; k++) {
            const double u = (double)tp_random_uniform(seed, (uint64_t)k, (uint64_t)i);
            d[k] = 1 + (int64_t)(small ? pow(300, u) - 1 : 300 * u);
        }
        const uint32_t turned = tp_random_u32(seed, 3, (uint64_t)i);
        const shape s = {name, d[0], d[1], d[2], (turned & 1) != 0, (turned & 2) != 0, -1};
        snprintf(name, sizeof name, "%dx%dx%d%s%s", (int)s.M, (int)s.N, (int)s.K, s.ta ? ".ta" : "", s.tb ? ".tb" : "");
        compare(&s, threads, m);
        if (m[0].ms <= 0) return 1;
        double best = 1e30;
        for (int who = 1; who < 3; who++) best = m[who].ms > 0 && m[who].ms < best ? m[who].ms : best;
        printf("}\n");
        fflush(stdout);
        if (best >= 1e30) {
            fprintf(stderr, "neither libopenblas.so.0 nor libdnnl is there to compare with\n");
            return 1;
        }
        log_sum += log(best / m[0].ms);
        least = best / m[0].ms < least ? best / m[0].ms : least;
    }
    printf("{\"workload\": \"gemm.odd\", \"threads\": %d, \"seed\": %d, \"shapes\": %d, \"geomean\": %.3f, \"least\": "
           "%.3f}\n",
           threads, (int)seed, n, exp(log_sum / n), least);
    return 0;
}

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : 1;
    const char *only = argc > 2 ? argv[2] : "";
    char number[16];
    snprintf(number, sizeof number, "%d", threads);
    setenv("OMP_NUM_THREADS", number, 1); /* the threads of oneDNN */
    unsetenv("OPENBLAS_CORETYPE");        /* its own choice of kernels; "openblas_kernels" says which */
    unsetenv("OPENBLAS_L2_SIZE");
    if (strcmp(only, "odd") == 0)
        return compare_odd(threads, argc > 3 ? strtoull(argv[3], NULL, 10) : 1, argc > 4 ? atoi(argv[4]) : 200,
                           argc > 5 && strcmp(argv[5], "small") == 0);
    double log_sum[2][2] = {{0}}, least = 1e30;
    int count[2][2] = {{0}};
    for (int i = 0; i < TP_COUNT(shapes); i++) {
        const shape *s = &shapes[i];
        if (!strstr(s->name, only)) continue;
        measured m[3];
        compare(s, threads, m);
        if (m[0].ms <= 0) return 1;
        for (int who = 1; who < 3; who++) {
            if (m[who].ms <= 0) continue;
            const double ratio = m[who].ms / m[0].ms;
            if (s->group >= 0) log_sum[s->group][who - 1] += log(ratio), count[s->group][who - 1]++;
            if (s->group == 0 && who == 1 && ratio < least) least = ratio;
        }
        printf("}\n");
        fflush(stdout);
    }
    printf("{\"workload\": \"gemm\", \"threads\": %d", threads);
    for (int g = 0; g < 2; g++)
        for (int w = 0; w < 2; w++)
            if (count[g][w])
                printf(", \"%s_%s_geomean\": %.3f", g ? "network" : "square", w ? "onednn" : "openblas",
                       exp(log_sum[g][w] / count[g][w]));
    if (count[0][0]) printf(", \"square_openblas_least\": %.3f", least);
    printf("}\n");
    return 0;
}
