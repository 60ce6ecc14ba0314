/* test_mpi.c - trainers that are one rank of a job: as rank 0 of 1, and (tests/check_mpi.sh) under mpirun with several
 *
 * Under mpirun each rank makes all the trainings that it is compared with by itself, in one process: with the batches of all ranks
 * as one batch, and with a device for each rank. */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_test.h"

/* ==== >>helpers ======================================================================================= */

enum { BATCH = 6, STEPS = 20, MOST = 8 };

/* Batches from, from + stride, ... of an endless list; a batch may be several of them. */
typedef struct source {
    int64_t from, stride, batches;
} source;
static float number(uint64_t i)
{
    i = (i + 1) * 0x9E3779B97F4A7C15u;
    i = (i ^ (i >> 29)) * 0xBF58476D1CE4E5B9u;
    return (float)(i >> 40) / 8388608.0f - 1.0f;
}
static tp_status point(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    const source *s = (const source *)user;
    (void)pass;
    const int64_t rows = BATCH * s->batches, first = (s->from + i * s->stride) * rows;
    tp_status st = tp_datapoint_resize(dp, 2);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape(rows, 5));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_I32, tp_make_shape(rows));
    if (st != TP_OK) return st;
    for (int64_t k = 0; k < rows; k++) {
        float sum = 0;
        for (int64_t c = 0; c < 5; c++)
            sum += ((float *)dp->c[0].data)[k * 5 + c] = number((uint64_t)((first + k) * 5 + c));
        ((int32_t *)dp->c[1].data)[k] = sum > 0.5f ? 2 : sum > -0.5f ? 1 : 0;
    }
    return TP_OK;
}
static tp_node *build(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    tp_fully_connected_desc a, b;
    memset(&a, 0, sizeof a), memset(&b, 0, sizeof b);
    a.name = "hidden", a.units = 16;
    b.name = "logits", b.units = 3;
    tp_node *logits = tp_fully_connected_(tp_tanh(tp_fully_connected_(in[0], &a)), &b);
    return tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1])), "cost");
}
static tp_optimizer *momentum(tp_graph *g, void *user)
{
    (void)user;
    return tp_momentum_(tp_get_scalar_variable(g, "learning_rate", 0.1f), NULL);
}
static tp_model model(void)
{
    static tp_spec spec[2];
    tp_model m;
    memset(&m, 0, sizeof m), memset(spec, 0, sizeof spec);
    spec[0].name = "x", spec[0].dtype = TP_F32, spec[0].shape = tp_make_shape(TP_ANY, 5);
    spec[1].name = "y", spec[1].dtype = TP_I32, spec[1].shape = tp_make_shape(TP_ANY);
    m.inputs = spec, m.n_inputs = 2;
    m.build_graph = build;
    m.optimizer = momentum;
    return m;
}
static tp_dataflow *flow(source *s)
{
    tp_df_from_generator_desc d;
    memset(&d, 0, sizeof d);
    d.fn = point, d.user = s, d.size = 100000, d.indexed = TP_YES;
    return tp_df_from_generator_(&d);
}

/* All variables that are saved, after some steps. */
typedef struct values {
    int n;
    tp_tensor v[MOST];
    char name[MOST][64];
} values;
static void values_free(values *v)
{
    for (int i = 0; i < v->n; i++) tp_tensor_free(&v->v[i]);
}
static tp_status trained(tp_trainer *t, source s, int64_t steps, values *v)
{
    const tp_model m = model();
    tp_train_desc d;
    memset(&d, 0, sizeof d);
    memset(v, 0, sizeof *v);
    d.steps_per_epoch = steps / 2, d.max_epoch = 2;
    tp_input_source *input = tp_apply_default_prefetch(flow(&s), t);
    tp_status st = tp_trainer_setup_graph(t, &m, input);
    if (st == TP_OK) st = tp_train(t, &d);
    for (int i = 0; i < tp_graph_n_variables(t->graph) && st == TP_OK && v->n < MOST; i++) {
        const tp_variable *x = tp_graph_variable(t->graph, i);
        if (x->local || x->dtype != TP_F32) continue;
        snprintf(v->name[v->n], sizeof v->name[0], "%s", x->name);
        st = tp_session_read(t->state.session, x, &v->v[v->n++]);
    }
    tp_trainer_free(t);
    return st;
}
/* atol < 0: bit for bit */
static void check_same(const values *a, const values *b, double atol)
{
    if (!CHECK(a->n == b->n && a->n >= 5)) return;
    for (int i = 0; i < a->n; i++) {
        if (!CHECK(strcmp(a->name[i], b->name[i]) == 0)) continue;
        if (atol < 0) CHECK_MSG(memcmp(a->v[i].data, b->v[i].data, tp_tensor_bytes(&a->v[i])) == 0, "%s", a->name[i]);
        for (int64_t k = 0; k < tp_tensor_size(&a->v[i]) && atol >= 0; k++)
            CHECK_NEAR(tp_tensor_get(&a->v[i], k), tp_tensor_get(&b->v[i], k), atol, 0);
    }
}
static source of_all(int ranks)
{
    source s;
    s.from = 0, s.stride = 1, s.batches = ranks;
    return s;
}
static source of_rank(int rank, int ranks)
{
    source s;
    s.from = rank, s.stride = ranks, s.batches = 1;
    return s;
}
static void ignore(void *user, tp_log_level level, const char *message) { (void)user, (void)level, (void)message; }
static tp_horovod_trainer_desc options(void)
{
    tp_horovod_trainer_desc d;
    memset(&d, 0, sizeof d);
    tp_set_log(ignore, NULL);
    d.bucket_bytes = 256; /* several buckets */
    return d;
}

/* ==== >>one =========================================================================================== */

TEST(one_rank_trains_as_a_simple_trainer)
{
    if (tp_size() > 1) TEST_SKIP("for one process");
    CHECK(tp_rank() == 0 && tp_local_rank() == 0);
    values a, b;
    const tp_horovod_trainer_desc d = options();
    CHECK_OK(trained(tp_horovod_trainer_(&d), of_all(1), STEPS, &a));
    CHECK_OK(trained(tp_simple_trainer(), of_all(1), STEPS, &b));
    check_same(&a, &b, -1);
    values_free(&a), values_free(&b);
}

#ifndef TP_MPI
TEST(a_build_without_mpi_that_mpirun_starts_says_so)
{
    values a;
    const tp_horovod_trainer_desc d = options();
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    CHECK(trained(tp_horovod_trainer_(&d), of_all(1), STEPS, &a) == TP_ERR_UNSUPPORTED);
    CHECK_MSG(strstr(tp_last_error(), "built without MPI") && strstr(tp_last_error(), "one of 4 processes"), "%s",
              tp_last_error());
    unsetenv("OMPI_COMM_WORLD_SIZE");
    CHECK_OK(trained(tp_horovod_trainer_(&d), of_all(1), STEPS, &a));
    values_free(&a);
}
#endif

TEST(an_impossible_bucket_is_refused)
{
    values a;
    tp_horovod_trainer_desc d = options();
    if (tp_size() > 1) TEST_SKIP("for one process");
    d.bucket_bytes = -1;
    CHECK(trained(tp_horovod_trainer_(&d), of_all(1), STEPS, &a) == TP_ERR_ARG);
    CHECK_MSG(strstr(tp_last_error(), ".bucket_bytes is -1"), "%s", tp_last_error());
    CHECK(tp_horovod_trainer_(NULL) == NULL);
}

TEST(the_chief_keeps_the_log_directory_others_have_their_own)
{
    char want[300];
    const char *dir = tp_test_tmpdir();
    snprintf(want, sizeof want, tp_rank() == 0 ? "%s/log" : "%s/log-rank%d", dir, tp_rank());
    char path[280];
    snprintf(path, sizeof path, "%s/log", dir);
    CHECK_OK(tp_logger_set_rank_dir(path, 'k'));
    CHECK_MSG(strcmp(tp_logger_dir(), want) == 0, "%s", tp_logger_dir());
    CHECK_OK(tp_logger_set_rank_dir(NULL, 'k'));
}

/* ==== >>several ======================================================================================= */

TEST(ranks_train_as_one_process_with_their_batches_together)
{
    const int n = tp_size();
    if (n == 1) TEST_SKIP("needs mpirun: see tests/check_mpi.sh");
    values a, b;
    const tp_horovod_trainer_desc d = options();
    CHECK_OK(trained(tp_horovod_trainer_(&d), of_rank(tp_rank(), n), STEPS, &a));
    CHECK_OK(trained(tp_simple_trainer(), of_all(n), STEPS, &b));
    check_same(&a, &b, 1e-6);
    values_free(&a), values_free(&b);
}

TEST(in_deterministic_mode_they_have_the_bits_of_as_many_devices)
{
    const int n = tp_size();
    if (n == 1) TEST_SKIP("needs mpirun: see tests/check_mpi.sh");
    values a, b;
    tp_horovod_trainer_desc d = options();
    tp_sync_multi_gpu_trainer_replicated_desc m;
    memset(&m, 0, sizeof m);
    m.n_devices = n;
    d.deterministic = true;
    for (int sum = 0; sum < 2; sum++) {
        d.average = m.average = sum ? TP_NO : TP_YES;
        CHECK_OK(trained(tp_horovod_trainer_(&d), of_rank(tp_rank(), n), STEPS, &a));
        CHECK_OK(trained(tp_sync_multi_gpu_trainer_replicated_(&m), of_all(1), STEPS, &b));
        check_same(&a, &b, -1);
        values_free(&a), values_free(&b);
    }
}

/* The first bucket is sent before the last gradient is computed, and none is waited for until all are sent. */
static tp_trace traced;
static tp_status trace_step(tp_callback *cb, tp_run_request *r)
{
    return cb->train->local_step == 3 ? tp_request_trace(r, &traced) : TP_OK;
}
TEST(buckets_travel_while_gradients_are_computed)
{
    if (tp_size() == 1) TEST_SKIP("needs mpirun: see tests/check_mpi.sh");
    values a;
    tp_horovod_trainer_desc d = options();
    tp_trainer *t = tp_horovod_trainer_(&d);
    tp_callback *cb = tp_callback_new("Trace", 0);
    cb->chief_only = false;
    cb->before_run = trace_step;
    CHECK_OK(tp_trainer_register_callback(t, cb));
    CHECK_OK(trained(t, of_rank(tp_rank(), tp_size()), 10, &a));
    int64_t first_sent = -1, last_sent = -1, first_awaited = -1, last_product = -1;
    double seconds = 0, waited = 0;
    for (int64_t i = 0; i < traced.n; i++) {
        const tp_trace_record *r = &traced.record[i];
        if (r->thread != 0 || r->run != 0) continue;
        if (strcmp(r->name, "bucket_send") == 0) last_sent = i;
        if (strcmp(r->name, "bucket_send") == 0 && first_sent < 0) first_sent = i;
        if (strcmp(r->name, "bucket_receive") == 0 && first_awaited < 0) first_awaited = i;
        if (strcmp(r->name, "matmul") == 0) last_product = i;
        seconds += (double)(r->end - r->start) * 1e-9;
        if (strcmp(r->name, "bucket_receive") == 0) waited += (double)(r->end - r->start) * 1e-9;
    }
    CHECK(first_sent > 0 && first_sent < last_product);
    CHECK(last_sent < first_awaited && last_product < first_awaited);
    CHECK(waited > 0 && waited < seconds); /* communication that was not hidden, beside all the rest */
    tp_trace_free(&traced);
    values_free(&a);
}

TEST(sums_are_as_many_times_the_mean)
{
    const int n = tp_size();
    if (n == 1) TEST_SKIP("needs mpirun: see tests/check_mpi.sh");
    values a, b;
    tp_horovod_trainer_desc d = options();
    tp_sync_multi_gpu_trainer_replicated_desc m;
    memset(&m, 0, sizeof m);
    m.n_devices = n;
    d.average = m.average = TP_NO;
    CHECK_OK(trained(tp_horovod_trainer_(&d), of_rank(tp_rank(), n), STEPS, &a));
    CHECK_OK(trained(tp_sync_multi_gpu_trainer_replicated_(&m), of_all(1), STEPS, &b));
    check_same(&a, &b, 1e-5);
    values_free(&a), values_free(&b);
}

TEST(float16_on_the_way_is_nearly_the_same)
{
    const int n = tp_size();
    if (n == 1) TEST_SKIP("needs mpirun: see tests/check_mpi.sh");
    values a, b;
    tp_horovod_trainer_desc d = options();
    d.compression = TP_COMPRESSION_FP16;
    CHECK_OK(trained(tp_simple_trainer(), of_all(n), STEPS, &b));
    for (int deterministic = 0; deterministic < 2; deterministic++) {
        d.deterministic = deterministic;
        CHECK_OK(trained(tp_horovod_trainer_(&d), of_rank(tp_rank(), n), STEPS, &a));
        check_same(&a, &b, 2e-3);
        bool equal = true;
        for (int i = 0; i < a.n; i++) equal = equal && memcmp(a.v[i].data, b.v[i].data, tp_tensor_bytes(&a.v[i])) == 0;
        CHECK(!equal); /* it was compressed */
        values_free(&a);
    }
    values_free(&b);
}

TEST_MAIN()
