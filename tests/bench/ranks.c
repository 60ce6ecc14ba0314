/* ranks.c - what a step of HorovodTrainer costs, and what the cost model of tp_train.h says
 *
 *     mpicc -O2 -DTP_MPI -I. tests/bench/ranks.c -o ranks -lm -lpthread
 *     for n in 1 2 4; do mpirun -np $n ./ranks [trace.json]; done
 *
 * One line of JSON from the chief: the milliseconds of a step without communication, made by all ranks at the same time; with it;
 * of the wait for it in a traced step; and the step that the model predicts from a bandwidth and a latency that are measured here. A
 * thread a rank; the network has 2.1 million parameters. With an argument, each rank's trace is saved as <rank>-<argument>. */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"

#include <stdio.h>
#ifndef TP_MPI
int main(void) { return puts("compile it by mpicc with -DTP_MPI"), 1; }
#else

enum { BATCH = 64, WIDE = 1024, STEPS = 40, WARM = 10, TRACED = 10 };

static tp_status point(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    (void)user, (void)pass;
    tp_status st = tp_datapoint_resize(dp, 2);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape(BATCH, WIDE));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_I32, tp_make_shape(BATCH));
    if (st != TP_OK) return st;
    for (int k = 0; k < BATCH * WIDE; k++) ((float *)dp->c[0].data)[k] = (float)((k * 37 + i) % 101) / 101;
    for (int k = 0; k < BATCH; k++) ((int32_t *)dp->c[1].data)[k] = (int32_t)((k + i) % 10);
    return TP_OK;
}
static tp_node *build(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    tp_node *h = tp_fully_connected(in[0], "fc0", .units = WIDE, .activation = tp_relu);
    h = tp_fully_connected(h, "fc1", .units = WIDE, .activation = tp_relu);
    return tp_named(tp_mean(tp_sparse_softmax_cross_entropy(tp_fully_connected(h, "fc2", .units = 10), in[1])), "cost");
}
static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_sgd(tp_get_scalar_variable(g, "learning_rate", 1e-3f));
}

typedef struct clock {
    double began, seconds; /* of the steps that count */
    int step;
    tp_trace trace;
} clock_of;
static tp_status before(tp_callback *cb, tp_run_request *r)
{
    clock_of *c = (clock_of *)cb->user;
    if (c->step == WARM) c->began = tp_time();
    if (c->step == STEPS) c->seconds = tp_time() - c->began;
    return c->step++ >= STEPS ? tp_request_trace(r, &c->trace) : TP_OK;
}

/* Seconds of a step; and, of a traced one, of waiting for gradients. */
static double measure(tp_trainer *t, double *wait, const char *save)
{
    static const tp_spec inputs[] = {TP_SPEC("x", TP_F32, BATCH, WIDE), TP_SPEC("y", TP_I32, BATCH)};
    const tp_model m = {.inputs = inputs, .n_inputs = 2, .build_graph = build, .optimizer = optimizer};
    const tp_session_config config = {.threads = 1};
    tp_callback *cb = tp_callback_new("Clock", sizeof(clock_of));
    clock_of *c = (clock_of *)cb->user;
    double seconds = 0;
    cb->chief_only = false;
    cb->before_run = before;
    t->creator = tp_new_session_creator(&config);
    tp_status st = tp_trainer_setup_graph(t, &m, tp_feed_input(tp_df_cache(tp_df_from_generator(point, .size = 4))));
    if (st == TP_OK)
        st = tp_train(
            t, &(tp_train_desc){.callbacks = &cb, .n_callbacks = 1, .steps_per_epoch = STEPS + TRACED, .max_epoch = 1});
    if (st != TP_OK) fprintf(stderr, "%s\n", tp_last_error());
    else seconds = c->seconds / (STEPS - WARM);
    for (int64_t i = 0; i < c->trace.n && wait; i++) {
        const tp_trace_record *r = &c->trace.record[i];
        if (strcmp(r->name, "bucket_receive") == 0) *wait += (double)(r->end - r->start) * 1e-9 / TRACED;
    }
    if (save) tp_trace_save(&c->trace, save);
    tp_trace_free(&c->trace);
    tp_trainer_free(t);
    return seconds;
}

/* Seconds of an all-reduce of n floats. */
static double all_reduce(int n)
{
    float *x = (float *)calloc((size_t)n, sizeof *x);
    double best = 1e9;
    for (int i = 0; i < 10; i++) {
        MPI_Request q;
        (void)tp__job_barrier();
        const double from = tp_time();
        tp_mutex_lock(tp__job.lock);
        MPI_Iallreduce(MPI_IN_PLACE, x, n, MPI_FLOAT, MPI_SUM, tp__job.data, &q);
        tp_mutex_unlock(tp__job.lock);
        (void)tp__job_wait(&q);
        if (tp_time() - from < best) best = tp_time() - from;
    }
    free(x);
    return best;
}

static void quiet(void *user, tp_log_level level, const char *message)
{
    if (level >= TP_LOG_ERROR) fprintf(stderr, "%s\n", message);
    (void)user;
}

int main(int argc, char **argv)
{
    const int rank = tp_rank(), n = tp_size();
    const double parameters = 2.0 * (WIDE * WIDE + WIDE) + WIDE * 10 + 10;
    double latency = 0, per_byte = 0, wait = 0;
    char save[300];
    tp_set_log(quiet, NULL);
    snprintf(save, sizeof save, "%d-%s", rank, argc > 1 ? argv[1] : "");
    if (n > 1) {
        latency = all_reduce(256);
        per_byte = (all_reduce(1 << 21) - latency) / (double)(4 << 21);
    }
    const double compute = measure(tp_queue_input_trainer(), NULL, NULL);
    if (n > 1) (void)tp__job_barrier();
    const double step = measure(tp_horovod_trainer(.bucket_bytes = 2 << 20), &wait, argc > 1 ? save : NULL);
    const double buckets = n > 1 ? 3 : 0, predicted = compute + buckets * latency + parameters * 4 * per_byte;
    if (rank == 0)
        printf("{\"ranks\": %d, \"compute_ms\": %.2f, \"step_ms\": %.2f, \"wait_ms\": %.2f, \"latency_us\": %.0f, "
               "\"gb_per_s\": %.2f, \"predicted_ms\": %.2f}\n",
               n, compute * 1e3, step * 1e3, wait * 1e3, latency * 1e6, n > 1 ? 1e-9 / per_byte : 0, predicted * 1e3);
    return 0;
}
#endif
