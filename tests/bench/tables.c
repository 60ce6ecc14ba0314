/* tables.c - milliseconds of a training step on two large tables: rows of users and of items, gradient descent, one thread
 *
 *   make build/tables && build/tables [rows] [units] [batch] [seconds]
 *
 * The cost is the cross entropy of the dot product of a user's and an item's row; most indices are small. The defaults are 1,000,000
 * rows, 32 units, batch 1,024, 2 seconds. Prints one line of JSON: "ours_ms" is the median of the steps, "rss_mb" the peak memory.
 * tables.py compares it with PyTorch. */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_layers.h"
#include "tp_optim.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { MOST_STEPS = 10000 };

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int32_t skewed(uint64_t stream, uint64_t step, int64_t i, int64_t rows)
{
    const double u = (double)tp_random_uniform(stream, step, (uint64_t)i);
    const int64_t r = (int64_t)(u * u * u * u * (double)rows);
    return (int32_t)(r < rows ? r : rows - 1);
}

int main(int argc, char **argv)
{
    const int64_t rows = argc > 1 ? atoll(argv[1]) : 1000000, units = argc > 2 ? atoll(argv[2]) : 32,
                  batch = argc > 3 ? atoll(argv[3]) : 1024;
    const double seconds = argc > 4 ? atof(argv[4]) : 2;
    tp_graph *g = tp_graph_new(NULL);
    tp_node *index[2], *row[2], *label = tp_placeholder(g, "label", TP_F32, tp_make_shape(TP_ANY));
    for (int i = 0; i < 2; i++) {
        index[i] = tp_placeholder(g, i ? "item" : "user", TP_I32, tp_make_shape(TP_ANY));
        row[i] = tp_embedding(index[i], i ? "items" : "users", .vocab = (int)rows, .units = (int)units,
                              .kernel_initializer = tp_init_normal(0, 0.05f));
    }
    tp_node *cost = tp_mean(tp_sigmoid_cross_entropy(tp_sum_over(tp_mul(row[0], row[1]), 1), label)), *fetch[2];
    fetch[0] = cost;
    fetch[1] = tp_minimize(tp_sgd(tp_get_scalar_variable(g, "learning_rate", 0.01f)), cost, NULL);
    tp_session_config config = tp_default_session_config();
    config.threads = 1;
    tp_session *s = tp_session_new(g, &config);
    int32_t *at[2] = {(int32_t *)malloc((size_t)batch * 4), (int32_t *)malloc((size_t)batch * 4)};
    float *y = (float *)malloc((size_t)batch * sizeof *y);
    static double t[MOST_STEPS];
    int n = 0;
    if (!s) return puts(tp_last_error()), 1;
    if (!at[0] || !at[1] || !y) return puts("out of memory"), 1;
    for (double end = tp_time() + seconds; n < MOST_STEPS && (n < 5 || tp_time() < end); n++) {
        for (int64_t j = 0; j < batch; j++) {
            for (int i = 0; i < 2; i++) at[i][j] = skewed((uint64_t)i, (uint64_t)n, j, rows);
            y[j] = tp_random_uniform(2, (uint64_t)n, (uint64_t)j) > 0.5f;
        }
        tp_feed f[3] = {TP_FEED(index[0], TP_I32, at[0], batch), TP_FEED(index[1], TP_I32, at[1], batch),
                        TP_FEED(label, TP_F32, y, batch)};
        const tp_tensor *out[2];
        const double begin = tp_time();
        if (tp_session_run(s, f, 3, fetch, 2, out) != TP_OK) return puts(tp_last_error()), 1;
        t[n] = tp_time() - begin;
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    qsort(t, (size_t)n, sizeof t[0], by_value);
    printf("{\"workload\": \"tables\", \"rows\": %lld, \"units\": %lld, \"batch\": %lld, \"ours_ms\": %.3f, "
           "\"rss_mb\": %.0f}\n",
           (long long)rows, (long long)units, (long long)batch, t[n / 2] * 1e3, (double)usage.ru_maxrss / 1024);
    tp_session_free(s);
    tp_graph_free(g);
    free(at[0]), free(at[1]), free(y);
    return 0;
}
