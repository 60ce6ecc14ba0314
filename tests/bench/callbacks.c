/* callbacks.c - what the default callbacks and monitors cost: one JSON line
 *
 *   gcc -std=c11 -O2 -I. tests/bench/callbacks.c -o callbacks -lm -lpthread && ./callbacks DIR [threads] [rounds] [what] [epoch]
 *
 * what: 0 (default): callbacks and monitors; 1: only the default callbacks; 2: only the default monitors.
 *
 * An MLP (784-256-128-10, batch 16, SGD, the cost and the error as moving averages) is trained for 4 epochs of 3,750 steps (a pass
 * over the 60,000 images of MNIST; `epoch` is another number of steps) on data that are there already: without any callback, and
 * with the default callbacks and all default monitors, which write to DIR. Both trainings go on side by side, 50 steps in turn, so that a
 * busy machine slows both; `rounds` (3) times. The first epoch, in which plans are made, is not counted.
 *   step  the time from one trigger_step to the next, by the wall clock; of 50 steps the median, so that a page that is written
 *         does not count
 *   end   what is between the last step of an epoch and the first of the next one: the callbacks' triggers and the files. The page
 *         is written there: epochs are shorter than the seconds between two pages within one
 * plain_us, default_us: medians of the steps without and with. step_percent: the median, over all turns, of what a step takes
 * longer with than without. end_percent: the median of what an end takes longer, by the processor's time, divided by an epoch's steps
 * without. What the defaults cost is the sum of both, more_percent. end_disk_percent: the same by the wall clock: with the
 * wait for the disk (two files, each brought there for good), which is the disk's and its other users'. */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EPOCHS = 4 };
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

enum { TURN = 50, ENDS = EPOCHS - 2 };

/* What is measured in one of the two trainings. Times in seconds. */
typedef struct watch {
    bool defaults, over;
    int threads;
    double step[TURN], last, ended, ended_cpu; /* of a turn; when the last step was over, and the last epoch */
    double *turn;                              /* the median of each turn */
    int n, n_turn, n_end;
    double end[ENDS], end_cpu[ENDS];
    struct watch *other;
} watch;
static int steps = 3750, only; /* what is measured: 0: callbacks and monitors; 1: only callbacks; 2: only monitors */
static tp_mutex *mutex;
static tp_cond *changed;
static const watch *whose; /* turn it is */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n == 0 ? 0 : n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}

/* The other training's turn, until it is this one's again. */
static void take_turns(watch *w, bool over)
{
    tp_mutex_lock(mutex);
    w->over = over;
    if (!w->other->over) whose = w->other;
    tp_cond_broadcast(changed);
    while (whose != w && !over) tp_cond_wait(changed, mutex);
    tp_mutex_unlock(mutex);
}

static tp_status began(tp_callback *cb)
{
    watch *w = (watch *)cb->user;
    w->n = 0;
    w->last = 0;
    return TP_OK;
}
static tp_status stepped(tp_callback *cb)
{
    watch *w = (watch *)cb->user;
    const double t = tp_time();
    if (w->last > 0) w->step[w->n++] = t - w->last;
    else if (w->ended > 0) { /* the first step of an epoch: the end of the one before, and a step */
        w->end[w->n_end] = t - w->ended;
        w->end_cpu[w->n_end++] = worked() - w->ended_cpu;
    }
    w->last = t;
    if (w->n < TURN) return TP_OK;
    if (cb->train->epoch_num > 1) w->turn[w->n_turn++] = median(w->step, w->n);
    w->n = 0;
    take_turns(w, false);
    w->last = tp_time();
    return TP_OK;
}
static tp_status stop(tp_callback *cb)
{
    watch *w = (watch *)cb->user;
    if (cb->train->epoch_num < 2 || cb->train->epoch_num == EPOCHS) return TP_OK;
    w->ended_cpu = worked();
    w->ended = tp_time();
    return TP_OK;
}

static void train(void *user) /* a thread */
{
    watch *w = (watch *)user;
    tp_session_config session = tp_default_session_config();
    tp_train_config c;
    tp_callback *clock = tp_callback_new("Clock", 0);
    session.threads = w->threads;
    clock->user = w;
    clock->before_epoch = began;
    clock->trigger_step = stepped;
    clock->after_epoch = stop;
    memset(&c, 0, sizeof c);
    c.model.inputs = inputs, c.model.n_inputs = 2;
    c.model.build_graph = build_graph, c.model.optimizer = optimizer;
    const tp_shape shapes[] = {inputs[0].shape, inputs[1].shape};
    c.data = tp_dummy_constant_input(shapes, 2);
    c.callbacks = &clock, c.n_callbacks = 1;
    c.session_config = &session;
    c.steps_per_epoch = steps, c.max_epoch = EPOCHS;
    c.log_layers = TP_NO;
    c.stop_on_nan = TP_NO;
    if (!w->defaults || only == 2) c.n_extra_callbacks = TP_NONE;
    if (!w->defaults || only == 1) c.n_monitors = TP_NONE;
    if (tp_launch_train_with_config(&c, tp_simple_trainer()) != TP_OK) {
        fprintf(stderr, "%s\n", tp_last_error());
        exit(1);
    }
    take_turns(w, true);
}

static void no_log(void *user, tp_log_level level, const char *message) { (void)user, (void)level, (void)message; }

int main(int argc, char **argv)
{
    char dir[1000];
    const int threads = argc > 2 ? atoi(argv[2]) : 1, rounds = argc > 3 ? atoi(argv[3]) : 3;
    if (argc > 4) only = atoi(argv[4]);
    if (argc > 5 && atoi(argv[5]) > TURN) steps = atoi(argv[5]);
    snprintf(dir, sizeof dir, "%s/tp_callbacks", argc > 1 ? argv[1] : ".");
    tp_set_log(no_log, NULL);
    mutex = tp_mutex_new();
    changed = tp_cond_new();
    const int most_turns = EPOCHS * (steps / TURN + 1) * rounds, most_ends = ENDS * rounds;
    double *v[7];
    int n_turn = 0, n_end = 0;
    for (int k = 0; k < 7; k++)
        if (!(v[k] = (double *)calloc((size_t)(most_turns + most_ends), sizeof **v))) return 1;
    for (int i = 0; i < rounds; i++) {
        watch w[2]; /* without and with */
        tp_thread *thread[2];
        memset(w, 0, sizeof w);
        if (tp_logger_set_dir(dir, 'd') != TP_OK) return 1;
        for (int k = 0; k < 2; k++) {
            w[k].defaults = k;
            w[k].threads = threads;
            w[k].other = &w[!k];
            w[k].turn = v[k] + n_turn;
        }
        whose = &w[i % 2]; /* who begins takes turns */
        for (int k = 0; k < 2; k++)
            if (tp_thread_start(&thread[k], train, &w[k]) != TP_OK) return 1;
        for (int k = 0; k < 2; k++) tp_thread_join(thread[k]);
        for (int k = 0; k < w[0].n_turn; k++, n_turn++) v[2][n_turn] = v[1][n_turn] / v[0][n_turn] - 1;
        for (int k = 0; k < w[0].n_end; k++, n_end++) {
            v[3][n_end] = w[1].end_cpu[k], v[4][n_end] = w[1].end[k];
            v[5][n_end] = w[1].end_cpu[k] - w[0].end_cpu[k];
            v[6][n_end] = w[1].end[k] - w[0].end[k];
        }
    }
    double m[7];
    for (int k = 0; k < 7; k++) m[k] = median(v[k], k < 3 ? n_turn : n_end);
    for (int k = 0; k < 7; k++) free(v[k]);
    const double step_percent = 100 * m[2], end_percent = 100 * m[5] / (steps * m[0]);
    printf("{\"bench\": \"callbacks\", \"threads\": %d, \"epoch\": %d, \"plain_us\": %.2f, \"default_us\": %.2f, "
           "\"more_percent\": %.2f, \"step_percent\": %.2f, \"end_percent\": %.2f, \"end_disk_percent\": %.2f, "
           "\"end_cpu_us\": %.0f, \"end_us\": %.0f}\n",
           threads, steps, 1e6 * m[0], 1e6 * m[1], step_percent + end_percent, step_percent, end_percent,
           100 * m[6] / (steps * m[0]), 1e6 * m[3], 1e6 * m[4]);
    tp_cond_free(changed);
    tp_mutex_free(mutex);
    return 0;
}
