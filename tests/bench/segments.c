/* segments.c - milliseconds of a step of a graph network: the nodes' rows go along random edges, are summed where they arrive, and the
 * derivative of the sum of squares comes back; one thread
 *
 *   make build/segments && build/segments [nodes] [edges] [units] [seconds]
 *
 * The defaults are 100,000 nodes, 2,000,000 edges, 4 units, 2 seconds. Prints one line of JSON: "ours_ms" is the median of the steps.
 * segments.py compares it with PyTorch. */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_graph.h"
#include <stdio.h>
#include <stdlib.h>

enum { MOST_STEPS = 10000 };

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    const int64_t nodes = argc > 1 ? atoll(argv[1]) : 100000, edges = argc > 2 ? atoll(argv[2]) : 2000000,
                  units = argc > 3 ? atoll(argv[3]) : 4;
    const double seconds = argc > 4 ? atof(argv[4]) : 2;
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_get_variable_as(g, "x", TP_F32, tp_make_shape(nodes, units), tp_init_normal(0, 1)), *dx;
    tp_node *from = tp_placeholder(g, "from", TP_I32, tp_make_shape(edges)),
            *to = tp_placeholder(g, "to", TP_I32, tp_make_shape(edges));
    tp_node *sum = tp_unsorted_segment_sum(tp_gather(x, from), to, nodes);
    tp_gradients(tp_sum(tp_square(sum)), &x, 1, &dx);
    tp_node *done = tp_group(g, &dx, 1, "step");
    tp_session_config config = tp_default_session_config();
    config.threads = 1;
    tp_session *s = tp_session_new(g, &config);
    int32_t *end[2] = {(int32_t *)malloc((size_t)edges * 4), (int32_t *)malloc((size_t)edges * 4)};
    static double t[MOST_STEPS];
    int n = 0;
    if (!s) return puts(tp_last_error()), 1;
    if (!end[0] || !end[1]) return puts("out of memory"), 1;
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < edges; i++)
            end[k][i] = (int32_t)(tp_random_u32((uint64_t)k, 0, (uint64_t)i) % (uint32_t)nodes);
    const tp_feed f[2] = {TP_FEED(from, TP_I32, end[0], edges), TP_FEED(to, TP_I32, end[1], edges)};
    for (double stop = tp_time() + seconds; n < MOST_STEPS && (n < 5 || tp_time() < stop); n++) {
        const double begin = tp_time();
        if (tp_session_run(s, f, 2, &done, 1, NULL) != TP_OK) return puts(tp_last_error()), 1;
        t[n] = tp_time() - begin;
    }
    qsort(t, (size_t)n, sizeof t[0], by_value);
    printf("{\"workload\": \"segments\", \"nodes\": %lld, \"edges\": %lld, \"units\": %lld, \"ours_ms\": %.3f}\n",
           (long long)nodes, (long long)edges, (long long)units, t[n / 2] * 1e3);
    tp_session_free(s);
    tp_graph_free(g);
    free(end[0]), free(end[1]);
    return 0;
}
