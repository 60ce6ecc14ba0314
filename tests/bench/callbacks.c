/* callbacks.c - what the default callbacks and monitors cost: one JSON line
 *
 *   gcc -std=c11 -O2 -I. tests/bench/callbacks.c -o callbacks -lm -lpthread && ./callbacks DIR [threads] [rounds] [1|2]
 *
 * 1: only the default callbacks; 2: only the default monitors.
 *
 * An MLP (784-256-128-10, batch 16, SGD, the cost and the error as moving averages) is trained for epochs of 1,000 steps on data
 * that are there already: without any callback, and with the default callbacks and all default monitors, which write to DIR. In
 * turn, `rounds` (7) times; the first epoch of each is not counted, where plans are made. A step's time is that of the
 * other epochs with all that is done at their ends, divided by their steps; the median of the rounds is told, and the median
 * of the differences of neighbours. "within": without the ends of epochs, which longer epochs have less of. Times are those that a
 * processor worked for this process, so that busy neighbours do not count. */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STEPS = 1000, EPOCHS = 4, MOST = 64 };
static const tp_spec inputs[] = {TP_SPEC("x", TP_F32, 16, 784), TP_SPEC("label", TP_I32, 16)};

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    tp_node *logits = tp_linear(in[0], TP_FULLY_CONNECTED("fc0", .units = 256, .activation = tp_relu),
                                TP_FULLY_CONNECTED("fc1", .units = 128, .activation = tp_relu),
                                TP_FULLY_CONNECTED("fc2", .units = 10));
    tp_node *cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1])), "cost");
    tp_node *error = tp_named(tp_mean(tp_sym_prediction_incorrect(logits, in[1], 1, "wrong")), "error");
    tp_add_moving_summary(cost, error);
    return cost;
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_sgd(tp_get_scalar_variable(g, "learning_rate", 1e-3f));
}

static double worked(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct watch {
    double began, epoch, within;
} watch;
static watch now;
static int only; /* what is measured: 0: callbacks and monitors; 1: only callbacks; 2: only monitors */
static tp_status start(tp_callback *cb)
{
    now.epoch = worked();
    if (cb->train->epoch_num == 2) now.began = now.epoch;
    return TP_OK;
}
static tp_status stop(tp_callback *cb)
{
    if (cb->train->epoch_num >= 2) now.within += worked() - now.epoch;
    return TP_OK;
}

/* Seconds a step: all, and those within epochs. */
static void train(const char *dir, bool defaults, int threads, double *all, double *within)
{
    tp_session_config session = tp_default_session_config();
    tp_train_config c;
    tp_callback *clock = tp_callback_new("Clock", 0);
    session.threads = threads;
    clock->before_epoch = start;
    clock->after_epoch = stop;
    memset(&c, 0, sizeof c);
    memset(&now, 0, sizeof now);
    if (tp_logger_set_dir(dir, 'd') != TP_OK) exit(1);
    c.model.inputs = inputs, c.model.n_inputs = 2;
    c.model.build_graph = build_graph, c.model.optimizer = optimizer;
    const tp_shape shapes[] = {inputs[0].shape, inputs[1].shape};
    c.data = tp_dummy_constant_input(shapes, 2);
    c.callbacks = &clock, c.n_callbacks = 1;
    c.session_config = &session;
    c.steps_per_epoch = STEPS, c.max_epoch = EPOCHS;
    c.log_layers = TP_NO;
    c.stop_on_nan = TP_NO;
    if (!defaults || only == 2) c.n_extra_callbacks = TP_NONE;
    if (!defaults || only == 1) c.n_monitors = TP_NONE;
    if (tp_launch_train_with_config(&c, tp_simple_trainer()) != TP_OK) {
        fprintf(stderr, "%s\n", tp_last_error());
        exit(1);
    }
    *all = (worked() - now.began) / (STEPS * (EPOCHS - 1));
    *within = now.within / (STEPS * (EPOCHS - 1));
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static double median(const double *v, int n)
{
    double sorted[MOST];
    memcpy(sorted, v, (size_t)n * sizeof *v);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    return n % 2 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

static void no_log(void *user, tp_log_level level, const char *message) { (void)user, (void)level, (void)message; }

int main(int argc, char **argv)
{
    char dir[1000];
    double plain[MOST], ours[MOST], more[MOST], inside[MOST], a, b;
    const int threads = argc > 2 ? atoi(argv[2]) : 1, rounds = argc > 3 && atoi(argv[3]) < MOST ? atoi(argv[3]) : 7;
    only = argc > 4 ? atoi(argv[4]) : 0;
    snprintf(dir, sizeof dir, "%s/tp_callbacks", argc > 1 ? argv[1] : ".");
    tp_set_log(no_log, NULL);
    for (int i = 0; i < rounds; i++) {
        train(dir, i % 2, threads, i % 2 ? &ours[i] : &plain[i], i % 2 ? &b : &a); /* who begins takes turns */
        train(dir, !(i % 2), threads, i % 2 ? &plain[i] : &ours[i], i % 2 ? &a : &b);
        more[i] = (ours[i] - plain[i]) / plain[i];
        inside[i] = (b - a) / a;
    }
    printf("{\"bench\": \"callbacks\", \"threads\": %d, \"steps\": %d, \"plain_us\": %.2f, \"default_us\": %.2f, "
           "\"more_percent\": %.2f, \"more_within_percent\": %.2f}\n",
           threads, STEPS, 1e6 * median(plain, rounds), 1e6 * median(ours, rounds), 100 * median(more, rounds),
           100 * median(inside, rounds));
    return 0;
}
