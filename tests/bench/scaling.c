/* scaling.c - how the time of a training step grows with one size of a network: a JSON line for each value of it
 *
 *   gcc -std=c11 -O2 -I. tests/bench/scaling.c -o scaling -lm -lpthread && ./scaling [name of the size] [threads]
 *
 * Each line has the median time of a step, and its GFLOP/s. Only the products are counted: 6 operations for each weight and sample,
 * 2 of the forward pass and 4 of the gradients. The time has a knee where the GFLOP/s fall from one line to the next; that should happen
 * only where the data leave a cache. Gradient descent with Momentum; the data are zeros and ones. */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_layers.h"
#include "tp_optim.h"
#include <stdlib.h>

typedef struct size {
    int batch, width, depth, length;
} size;

/* Dense layers, all of one width. */
static tp_node *dense(tp_graph *g, tp_node **x, const size *s, double *weights)
{
    tp_node *y = *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(s->batch, s->width));
    for (int i = 0; i < s->depth; i++) {
        char name[32];
        snprintf(name, sizeof name, "fc%d", i);
        y = tp_fully_connected(y, name, .units = s->width, .activation = tp_relu);
    }
    *weights = (double)s->depth * s->width * s->width;
    return y;
}
/* Convolutions 3x3 over 14x14 pixels, all of one number of channels. */
static tp_node *convolutions(tp_graph *g, tp_node **x, const size *s, double *weights)
{
    tp_node *y = *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(s->batch, 14, 14, s->width));
    for (int i = 0; i < s->depth; i++) {
        char name[32];
        snprintf(name, sizeof name, "conv%d", i);
        y = tp_conv2d(y, name, .filters = s->width, .kernel_size = 3, .activation = tp_relu);
    }
    *weights = (double)s->depth * 9 * s->width * s->width * 14 * 14;
    return y;
}
static tp_node *lstm(tp_graph *g, tp_node **x, const size *s, double *weights)
{
    *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(s->batch, s->length, s->width));
    *weights = 8.0 * s->width * s->width * s->length;
    return tp_lstm(*x, "lstm", .units = s->width);
}

static const struct {
    const char *name;
    tp_node *(*build)(tp_graph *g, tp_node **x, const size *s, double *weights);
    size of;          /* the size named here is 0 */
    const char *list; /* the values that are measured */
} axes[] = {{"batch", dense, {0, 256, 4, 1}, "1 2 4 8 16 32 64 128 256 512"},
            {"width", dense, {64, 0, 4, 1}, "8 16 32 64 128 256 512 1024"},
            {"channels", convolutions, {8, 0, 4, 1}, "8 16 32 64 128 256"},
            {"images", convolutions, {0, 32, 4, 1}, "1 2 4 8 16 32 64 128 256 512"},
            {"depth", dense, {64, 64, 0, 1}, "1 2 5 10 20 50 100 200"},
            {"length", lstm, {16, 64, 1, 0}, "1 2 4 8 16 32 64 128 256 512 1024 2048"},
            {"parameters", dense, {16, 0, 1, 1}, "32 100 316 1000 3162 10000"}}; /* the width: 10^3 to 10^8 weights */

static void only_mistakes(void *user, tp_log_level level, const char *text)
{
    if (level >= TP_LOG_WARN) fprintf(stderr, "%s\n", text);
    (void)user;
}
static int by_time(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Trains with sizes `of`, and prints the line of the value `at`. */
static int measure(int axis, const size *of, int at, int threads)
{
    enum { MOST = 2000 };
    static double ms[MOST];
    double weights = 0;
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_desc tower;
    memset(&tower, 0, sizeof tower);
    tower.is_training = true;
    tp_tower_enter(g, &tower);
    tp_node *x, *y = axes[axis].build(g, &x, of, &weights), *cost = tp_mean(tp_square(y));
    tp_node *step = tp_minimize(tp_momentum(tp_const(g, 1e-4f), .momentum = 0.9f), cost, NULL);
    tp_tower_leave(g);
    tp_session_config config = tp_default_session_config();
    config.threads = threads;
    tp_session *s = tp_session_new(g, &config);
    tp_feed feed;
    memset(&feed, 0, sizeof feed);
    feed.node = x;
    int n = 0;
    if (!s || tp_tensor_resize(&feed.value, TP_F32, x->shape) != TP_OK)
        return fprintf(stderr, "%s\n", tp_last_error()), 1;
    for (int64_t i = 0; i < tp_tensor_size(&feed.value); i++) ((float *)feed.value.data)[i] = (float)(i % 3 == 0);
    const double begin = tp_time();
    while (n < MOST && (n < 7 || tp_time() - begin < 0.5)) {
        const double t = tp_time();
        if (tp_session_run(s, &feed, 1, &step, 1, NULL) != TP_OK) return fprintf(stderr, "%s\n", tp_last_error()), 1;
        ms[n++] = (tp_time() - t) * 1e3;
    }
    qsort(ms + 2, (size_t)n - 2, sizeof *ms,
          by_time); /* without the first two, which plan the graph and touch new memory */
    const double median = ms[2 + (n - 2) / 2];
    printf("{\"workload\": \"scaling.%s\", \"threads\": %d, \"at\": %d, \"ms\": %.4f, \"gflops\": %.1f}\n",
           axes[axis].name, threads, at, median, 6 * weights * of->batch / median * 1e-6);
    fflush(stdout);
    tp_tensor_free(&feed.value);
    tp_session_free(s);
    tp_graph_free(g);
    return 0;
}

int main(int argc, char **argv)
{
    tp_set_log(only_mistakes, NULL); /* not the layers' shapes */
    for (int k = 0; k < TP_COUNT(axes); k++) {
        if (argc > 1 && argv[1][0] && strcmp(axes[k].name, argv[1]) != 0) continue;
        char *end;
        for (const char *at = axes[k].list; *at; at = end + (*end == ' ')) {
            size of = axes[k].of;
            const int value = (int)strtol(at, &end, 10);
            int *const field[] = {&of.batch, &of.width, &of.depth, &of.length};
            for (int i = 0; i < TP_COUNT(field); i++)
                if (*field[i] == 0) *field[i] = value;
            if (measure(k, &of, value, argc > 2 ? atoi(argv[2]) : 1)) return 1;
        }
    }
    return 0;
}
