/* ranks.c - what a step of HorovodTrainer costs, and what the cost model of tp_train.h says
 *
 *     mpicc -O2 -DTP_MPI -I. tests/bench/ranks.c -o ranks -lm -lpthread
 *     for n in 1 2 4; do mpirun -np $n --bind-to core ./ranks [workload [seconds [trace.json]]]; done
 *
 * workload: wide.b64 (the default: 2.1 million parameters, SGD, buckets of 2 MiB), mlp.b<batch>, mnistcnn.b<batch> or
 * resnet20.b<batch> of models.h, whose buckets are the trainer's. One line of JSON from the chief: the milliseconds of a step without
 * communication, made by all ranks at the same time; with it; in traced steps, those of packing gradients and of waiting for their sums; and
 * the step that the model predicts from a bandwidth, a latency and the time of copies that are measured here. A thread a rank. With a name for it, each
 * rank's trace is saved as <rank>-<name>. */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef TP_MPI
int main(void) { return puts("compile it by mpicc with -DTP_MPI"), 1; }
#else
#include "models.h"

enum { WIDE = 1024, WARM = 10, TRACED = 10, WINDOWS = 10, MOST = 100000 };

static const char *workload = "wide.b64";
static int64_t batch, parameters;
static int n_bucket;
static tp_shape x_shape;

static bool is(const char *name) { return strncmp(workload, name, strlen(name)) == 0; }

/* The same datapoint in each step: the input fills one datapoint again and again, and this one is filled already. */
static tp_status point(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    (void)user, (void)pass, (void)i;
    if (dp->n == 2 && dp->c[1].data && tp_tensor_size(&dp->c[1]) == batch) return TP_OK;
    tp_status st = tp_datapoint_resize(dp, 2);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, x_shape);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_I32, tp_make_shape(batch));
    if (st != TP_OK) return st;
    const int64_t n = tp_tensor_size(&dp->c[0]);
    for (int64_t k = 0; k < n; k++) ((float *)dp->c[0].data)[k] = (float)((k * 37) % 101) / 101;
    for (int64_t k = 0; k < batch; k++) ((int32_t *)dp->c[1].data)[k] = (int32_t)(k % 10);
    return TP_OK;
}
static tp_node *build(tp_graph *g, tp_node *const *in, void *user)
{
    model m;
    tp_node *decay[2], *cost = NULL;
    (void)user;
    memset(&m, 0, sizeof m);
    m.g = g, m.x = in[0], m.label = in[1];
    if (is("wide.b")) {
        tp_node *h = tp_fully_connected(in[0], "fc0", .units = WIDE, .activation = tp_relu);
        h = tp_fully_connected(h, "fc1", .units = WIDE, .activation = tp_relu);
        cost = tp_mean(tp_sparse_softmax_cross_entropy(tp_fully_connected(h, "fc2", .units = 10), in[1]));
    } else if (is("mlp.b")) {
        cost = tp_mean(tp_sparse_softmax_cross_entropy(mlp_layers(&m), in[1]));
    } else if (is("mnistcnn.b")) {
        tp_node *logits = mnistcnn_layers(&m, true, decay);
        cost = mnistcnn_cost(&m, logits, decay);
    } else {
        cost = tp_mean(tp_sparse_softmax_cross_entropy(resnet20_layers(&m, true), in[1]));
        cost = tp_add(cost, tp_regularize_cost(g, ".*", tp_l2_regularizer(2e-4f), NULL));
        for (int i = 0; i < m.n_update; i++) tp_collection_add(g, TP_KEY_UPDATE_OPS, m.update[i]);
    }
    tp_node *vars[MAX_VARS];
    const int n = trainable(g, vars, MAX_VARS);
    parameters = 0;
    for (int i = 0; i < n; i++) parameters += tp_shape_size(&vars[i]->shape);
    return tp_named(cost, "cost");
}
static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    tp_node *lr = tp_get_scalar_variable(g, "learning_rate", is("mlp.b") || is("resnet20.b") ? 1e-2f : 1e-3f);
    (void)user;
    return is("mnistcnn.b") ? tp_adam(lr) : is("resnet20.b") ? tp_momentum(lr) : tp_sgd(lr);
}

typedef struct clock {
    double began[MOST + 1]; /* of each step that counts */
    int step, steps;
    tp_trace trace;
} clock_of;
static tp_status before(tp_callback *cb, tp_run_request *r)
{
    clock_of *c = (clock_of *)cb->user;
    const int i = c->step++ - WARM;
    if (i >= 0 && i <= c->steps) c->began[i] = tp_time();
    return i >= c->steps ? tp_request_trace(r, &c->trace) : TP_OK;
}
static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
/* The median over the windows of the mean step in each: ranks that share a processor make some steps quickly and others not at all. */
static double seconds_of_step(const clock_of *c)
{
    double window[WINDOWS];
    const int n = c->steps / WINDOWS;
    for (int i = 0; i < WINDOWS; i++) window[i] = (c->began[(i + 1) * n] - c->began[i * n]) / n;
    qsort(window, WINDOWS, sizeof *window, by_value);
    return (window[(WINDOWS - 1) / 2] + window[WINDOWS / 2]) / 2;
}
static double traced(const tp_trace *trace, const char *op)
{
    double sum = 0;
    for (int64_t i = 0; i < trace->n; i++)
        if (strcmp(trace->record[i].name, op) == 0)
            sum += (double)(trace->record[i].end - trace->record[i].start) * 1e-9;
    return sum / TRACED;
}

typedef struct timing {
    double step, pack, wait;
} timing;
/* Seconds of a step, and in it of packing gradients and waiting for them. */
static timing measure(tp_trainer *t, int steps, const char *save)
{
    const tp_spec inputs[] = {{.name = "x", .dtype = TP_F32, .shape = x_shape},
                              {.name = "y", .dtype = TP_I32, .shape = tp_make_shape(batch)}};
    const tp_model m = {.inputs = inputs, .n_inputs = 2, .build_graph = build, .optimizer = optimizer};
    const tp_session_config config = {.threads = 1};
    tp_callback *cb[2] = {tp_callback_new("Clock", sizeof(clock_of)), tp_cb_run_update_ops()};
    clock_of *c = (clock_of *)cb[0]->user;
    timing result = {0, 0, 0};
    cb[0]->chief_only = false;
    cb[0]->before_run = before;
    c->steps = steps < MOST ? steps / WINDOWS * WINDOWS : MOST;
    t->creator = tp_new_session_creator(&config);
    tp_status st = tp_trainer_setup_graph(t, &m, tp_feed_input(tp_df_from_generator(point, .size = 4)));
    if (st == TP_OK)
        st = tp_train(
            t, &(tp_train_desc){
                   .callbacks = cb, .n_callbacks = 2, .steps_per_epoch = WARM + c->steps + TRACED, .max_epoch = 1});
    if (st != TP_OK) {
        fprintf(stderr, "%s\n", tp_last_error());
        exit(1);
    }
    result.step = seconds_of_step(c);
    result.pack = traced(&c->trace, "bucket_send");
    result.wait = traced(&c->trace, "bucket_receive");
    n_bucket = 0;
    for (int64_t i = 0; i < c->trace.n; i++) n_bucket += strcmp(c->trace.record[i].name, "bucket_send") == 0;
    n_bucket /= TRACED;
    if (save) tp_trace_save(&c->trace, save);
    tp_trace_free(&c->trace);
    tp_trainer_free(t);
    return result;
}

enum { ROUNDS = 21 };
/* Seconds of an all-reduce of n floats, or of a copy of them by all ranks at the same time. */
static double seconds_of(bool copy, int64_t n)
{
    const size_t bytes = (size_t)n * sizeof(float);
    float *x = (float *)tp_alloc_aligned(bytes), *y = (float *)tp_alloc_aligned(bytes);
    double took[ROUNDS];
    if (x) memset(x, 0, bytes);
    if (y) memset(y, 0, bytes);
    for (int i = 0; i < ROUNDS && x && y; i++) {
        MPI_Request q;
        (void)tp__job_barrier();
        const double from = tp_time();
        if (copy) {
            x[0] = (float)i;
            memcpy(y, x, bytes);
            x[n - 1] = y[n / 2];
        } else {
            tp_mutex_lock(tp__job.lock);
            MPI_Iallreduce(x, y, (int)n, MPI_FLOAT, MPI_SUM, tp__job.data, &q);
            tp_mutex_unlock(tp__job.lock);
            (void)tp__job_wait(&q);
        }
        took[i] = tp_time() - from;
    }
    tp_free_aligned(x);
    tp_free_aligned(y);
    qsort(took, ROUNDS, sizeof *took, by_value);
    return took[ROUNDS / 2];
}

static void quiet(void *user, tp_log_level level, const char *message)
{
    if (level >= TP_LOG_ERROR) fprintf(stderr, "%s\n", message);
    (void)user;
}

int main(int argc, char **argv)
{
    const int rank = tp_rank(), n = tp_size();
    const double seconds = argc > 2 ? atof(argv[2]) : 1;
    double latency = 0, per_byte = 0, copy = 0;
    char save[300];
    tp_set_log(quiet, NULL);
    if (argc > 1) workload = argv[1];
    batch = strstr(workload, ".b") ? atoll(strstr(workload, ".b") + 2) : 0;
    x_shape = is("wide.b")       ? tp_make_shape(batch, WIDE)
              : is("mlp.b")      ? tp_make_shape(batch, 784)
              : is("mnistcnn.b") ? tp_make_shape(batch, 28, 28, 1)
                                 : tp_make_shape(batch, 32, 32, 3);
    if (batch < 1 || !(is("wide.b") || is("mlp.b") || is("mnistcnn.b") || is("resnet20.b"))) {
        fprintf(stderr, "ranks: no workload '%s'; there are wide, mlp, mnistcnn, resnet20 with .b<batch>\n", workload);
        return 2;
    }
    snprintf(save, sizeof save, "%d-%s", rank, argc > 3 ? argv[3] : "");
    int steps = WINDOWS;
    for (int i = 0; i < 2; i++) { /* as many steps as fill the seconds, the same number on each rank */
        const double step = measure(tp_queue_input_trainer(), steps, NULL).step;
        steps = WINDOWS + (int)(seconds / step);
        if (n > 1) (void)tp__job_broadcast(&steps, sizeof steps, 0);
    }
    const double compute = measure(tp_queue_input_trainer(), steps, NULL).step;
    if (n > 1) {
        latency = seconds_of(false, 256);
        per_byte = (seconds_of(false, 1 << 21) - latency) / (double)(4 << 21);
        copy = seconds_of(true, parameters); /* of sums to gradients: gradients are computed in the buckets */
        (void)tp__job_barrier();
    }
    const timing t = measure(is("wide.b") ? tp_horovod_trainer(.bucket_bytes = 2 << 20) : tp_horovod_trainer(), steps,
                             argc > 3 ? save : NULL);
    const double bytes = 4.0 * (double)parameters, predicted = compute + n_bucket * latency + bytes * per_byte + copy;
    if (rank == 0)
        printf("{\"workload\": \"%s\", \"ranks\": %d, \"steps\": %d, \"compute_ms\": %.4f, \"step_ms\": %.4f, "
               "\"pack_ms\": %.4f, \"wait_ms\": %.4f, \"buckets\": %d, \"mb\": %.3f, \"latency_us\": %.0f, "
               "\"gb_per_s\": %.2f, \"copies_ms\": %.4f, \"predicted_ms\": %.4f}\n",
               workload, n, steps, compute * 1e3, t.step * 1e3, t.pack * 1e3, t.wait * 1e3, n_bucket, bytes * 1e-6,
               latency * 1e6, n > 1 ? 1e-9 / per_byte : 0, copy * 1e3, predicted * 1e3);
    return 0;
}
#endif
