/* test_mpi.c - trainers that are one rank of a job: as rank 0 of 1, and (tests/check_mpi.sh) under mpirun with several
 *
 * With TP_CUDA_SHIM each rank has a GPU too, the CUDA stand-in's: tests/check_mpi_gpu.sh.
 *
 * Under mpirun each rank makes all the trainings that it is compared with by itself, in one process: with the batches of all ranks
 * as one batch, and with a device for each rank. */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_test.h"
#include <math.h>

/* ==== >>helpers ======================================================================================= */

enum { BATCH = 6, STEPS = 20, MOST = 32 };

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
static float rate = 0.1f; /* of the optimizers below */
static tp_optimizer *sgd(tp_graph *g, void *user)
{
    (void)user;
    return tp_sgd_(tp_get_scalar_variable(g, "learning_rate", rate), NULL);
}
/* Half of the distance to what it was before is taken back. */
static tp_node *half_way(tp_node *updated, tp_node *var, void *user)
{
    (void)user, (void)var;
    return tp_affine(updated, 0.999f, 0.0f);
}
/* All that wraps an optimizer: clipped by the norm of all gradients, of two steps together, with a scaled cost, and weight decay. */
static tp_optimizer *wrapped_adam(tp_graph *g, void *user)
{
    (void)user;
    tp_gradproc clip[1];
    clip[0] = tp_gradproc_global_norm_clip(0.2f);
    tp_optimizer *o = tp_adam_(tp_get_scalar_variable(g, "learning_rate", 0.01f), NULL);
    o = tp_variable_assignment(o, half_way, NULL);
    o = tp_apply_grad_processors(o, clip, 1);
    return tp_loss_scale_(tp_accum_grad(o, 2), NULL);
}
/* Momentum with a rate that falls to 0 in 3000 steps. */
static tp_optimizer *decaying(tp_graph *g, void *user)
{
    (void)user;
    tp_node *const factor = tp_cosine_decay(g, rate, tp_get_global_step_var(g), 3000, 0.0f);
    return tp_momentum_(factor, NULL);
}
static tp_optimizer *(*chosen)(tp_graph *g, void *user) = momentum;
/* A convolution and a full layer, each with a batch norm whose statistics are those of all ranks or towers, as `sync` says. */
static tp_sync_statistics sync = TP_SYNC_NONE;
static tp_ema_update ema = TP_EMA_INTERNAL;
static tp_node *normed(tp_node *x, const char *name)
{
    tp_batch_norm_desc d;
    memset(&d, 0, sizeof d);
    d.name = name, d.sync_statistics = sync, d.momentum = 0.75f, d.ema_update = ema;
    return tp_batch_norm_(x, &d);
}
static tp_node *build_normed(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    tp_conv2d_desc c;
    tp_fully_connected_desc a, b;
    memset(&c, 0, sizeof c), memset(&a, 0, sizeof a), memset(&b, 0, sizeof b);
    c.name = "conv", c.filters = 4, c.kernel_size = 3, c.use_bias = TP_NO;
    a.name = "hidden", a.units = 16;
    b.name = "logits", b.units = 3;
    tp_node *x = tp_conv2d_(tp_reshape_to(in[0], tp_make_shape(TP_ANY, 1, 5, 1)), &c);
    x = tp_fully_connected_(tp_relu(normed(x, "bn4")), &a);
    tp_node *logits = tp_fully_connected_(tp_tanh(normed(x, "bn2")), &b);
    return tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1])), "cost");
}
static tp_node *(*chosen_build)(tp_graph *g, tp_node *const *in, void *user) = build;
static tp_model model(void)
{
    static tp_spec spec[2];
    tp_model m;
    memset(&m, 0, sizeof m), memset(spec, 0, sizeof spec);
    spec[0].name = "x", spec[0].dtype = TP_F32, spec[0].shape = tp_make_shape(TP_ANY, 5);
    spec[1].name = "y", spec[1].dtype = TP_I32, spec[1].shape = tp_make_shape(TP_ANY);
    m.inputs = spec, m.n_inputs = 2;
    m.build_graph = chosen_build;
    m.optimizer = chosen;
    return m;
}
static tp_dataflow *flow(source *s)
{
    tp_df_from_generator_desc d;
    memset(&d, 0, sizeof d);
    d.fn = point, d.user = s, d.size = 100000, d.indexed = TP_YES;
    return tp_df_from_generator_(&d);
}

/* All variables that are saved, after some steps; the first n_trained are trained. */
typedef struct values {
    int n;
    tp_tensor v[MOST];
    char name[MOST][64];
} values;
static void values_free(values *v)
{
    for (int i = 0; i < v->n; i++) tp_tensor_free(&v->v[i]);
}
static tp_device *device; /* that it trains on; NULL: the CPU */
static tp_precision precision;
static tp_status trained(tp_trainer *t, source s, int64_t steps, values *v)
{
    const tp_model m = model();
    tp_train_desc d;
    memset(&d, 0, sizeof d);
    memset(v, 0, sizeof *v);
    d.steps_per_epoch = steps / 2, d.max_epoch = 2;
    if (device) t->creator.config.devices = &device, t->creator.config.n_devices = 1;
    t->creator.config.precision = precision;
    tp_input_source *input = tp_apply_default_prefetch(flow(&s), t);
    tp_status st =
        tp_trainer_set_seed(t, 11); /* replaces the graph, so that what a constructor keeps there would be gone */
    const tp_status built = tp_trainer_setup_graph(t, &m, input); /* takes the input, also after a mistake */
    if (st == TP_OK) st = built;
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
/* The one of this name, which is in both. NULL: it is missing, and that was said. */
static const tp_tensor *of_name(const values *v, const char *name)
{
    for (int i = 0; i < v->n; i++)
        if (strcmp(v->name[i], name) == 0) return &v->v[i];
    CHECK_MSG(false, "there is no '%s'", name);
    return NULL;
}
/* atol < 0: bit for bit */
static void check_tensor(const char *name, const tp_tensor *a, const tp_tensor *b, double atol)
{
    if (!a || !b) return;
    if (atol < 0) CHECK_MSG(memcmp(a->data, b->data, tp_tensor_bytes(a)) == 0, "%s", name);
    for (int64_t k = 0; k < tp_tensor_size(a) && atol >= 0; k++)
        CHECK_NEAR(tp_tensor_get(a, k), tp_tensor_get(b, k), atol, 0);
}
static void check_same(const values *a, const values *b, double atol)
{
    if (!CHECK(a->n == b->n && a->n >= 5)) return;
    for (int i = 0; i < a->n; i++) check_tensor(a->name[i], &a->v[i], of_name(b, a->name[i]), atol);
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
static tp_horovod_trainer_desc options(void)
{
    tp_horovod_trainer_desc d;
    memset(&d, 0, sizeof d);
    tp_set_log(tp_test_drop_log, NULL);
    d.bucket_bytes = 256; /* several buckets */
    return d;
}

static char warned[8192];
static void note_warning(void *user, tp_log_level level, const char *message)
{
    (void)user;
    if (level == TP_LOG_WARN) snprintf(warned + strlen(warned), sizeof warned - strlen(warned), "%s\n", message);
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
    CHECK_HAS(tp_last_error(), "built without MPI");
    CHECK_HAS(tp_last_error(), "OMPI_COMM_WORLD_SIZE says that this is one of 4 processes");
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
    d.bucket_bytes = (int64_t)1 << 33; /* more elements than an int of MPI counts */
    CHECK_ERR(trained(tp_horovod_trainer_(&d), of_all(1), STEPS, &a), TP_ERR_ARG, "it must be at most 2147483647");
    CHECK(tp_horovod_trainer_(NULL) == NULL);
}

TEST(options_that_make_no_sense_are_refused)
{
    static const char *const sentence[] = {"HorovodTrainer: .patience is -1: it must be positive, in seconds",
                                           "HorovodTrainer: .patience is nan: it must be positive, in seconds",
                                           "HorovodTrainer: .patience is 0.5: it must be at least 2 seconds",
                                           "HorovodTrainer: .compression is 5: it must be TP_COMPRESSION_NONE",
                                           "HorovodTrainer: .compression is -1: it must be TP_COMPRESSION_NONE"};
    if (tp_size() > 1) TEST_SKIP("for one process");
    for (int i = 0; i < TP_COUNT(sentence); i++) {
        values a;
        tp_horovod_trainer_desc d = options();
        if (i < 3) d.patience = i == 0 ? -1 : i == 1 ? NAN : 0.5;
        else d.compression = (tp_compression)(i == 3 ? 5 : -1);
        CHECK_ERR(trained(tp_horovod_trainer_(&d), of_all(1), STEPS, &a), TP_ERR_ARG, sentence[i]);
    }
    tp_distributed_trainer_replicated_desc r;
    memset(&r, 0, sizeof r);
    r.patience = -2;
    tp_trainer *t = tp_distributed_trainer_replicated_(&r);
    if (!CHECK(t != NULL)) return;
    CHECK_HAS(tp_graph_error(t->graph), "DistributedTrainerReplicated: .patience is -2: it must be positive");
    tp_trainer_free(t);
}

/* Without gradients of other ranks and devices. */
static tp_status alone(tp_trainer *t, const tp_model *m)
{
    tp_tower_desc tower;
    tp_node *in[2], *cost = NULL;
    (void)m;
    memset(&tower, 0, sizeof tower);
    tower.is_training = true;
    tp_tower_enter(t->graph, &tower);
    if (tp_input_get_tensors(t->state.input, in) == TP_OK) cost = tp_tower_func_call(t->state.tower_func, in);
    tp_tower_leave(t->graph);
    t->train_op = tp_minimize(momentum(t->graph, NULL), cost, NULL);
    return tp_graph_status(t->graph);
}
static tp_status (*before)(tp_trainer *t, const tp_model *m);
static tp_status around(tp_trainer *t, const tp_model *m) { return before(t, m); }
TEST(a_build_that_joins_no_gradients_is_refused)
{
    static const char *const name[] = {"HorovodTrainer", "SyncMultiGPUTrainerReplicated", "AsyncMultiGPUTrainer",
                                       "DistributedTrainerReplicated", "DistributedTrainerParameterServer"};
    for (int i = 0; i < (tp_size() > 1 ? 5 : 3) * 2; i++) {
        values a;
        tp_horovod_trainer_desc h = options();
        tp_sync_multi_gpu_trainer_replicated_desc r;
        tp_async_multi_gpu_trainer_desc m;
        tp_distributed_trainer_replicated_desc d;
        tp_distributed_trainer_parameter_server_desc s;
        memset(&r, 0, sizeof r), memset(&m, 0, sizeof m), memset(&d, 0, sizeof d), memset(&s, 0, sizeof s);
        r.n_devices = m.n_devices = 2;
        tp_trainer *t = i / 2 == 0   ? tp_horovod_trainer_(&h)
                        : i / 2 == 1 ? tp_sync_multi_gpu_trainer_replicated_(&r)
                        : i / 2 == 2 ? tp_async_multi_gpu_trainer_(&m)
                        : i / 2 == 3 ? tp_distributed_trainer_replicated_(&d)
                                     : tp_distributed_trainer_parameter_server_(&s);
        before = t->build;
        t->build = i % 2 ? around : alone;
        const tp_status st = trained(t, of_all(1), STEPS, &a);
        if (i % 2) CHECK_OK(st);
        else CHECK(st == TP_ERR_UNSUPPORTED);
        if (i % 2 == 0)
            CHECK_HAS(tp_last_error(), ".build was replaced, but only its own function joins the gradients");
        if (i % 2 == 0) CHECK_HAS(tp_last_error(), name[i / 2]);
        values_free(&a);
    }
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
    snprintf(path, sizeof path, "%s/log//", dir); /* slashes at the end are none of the name */
    CHECK_OK(tp_logger_set_rank_dir(path, 'k'));
    if (tp_rank() > 0) CHECK_MSG(strcmp(tp_logger_dir(), want) == 0, "%s", tp_logger_dir());
    CHECK_OK(tp_logger_set_rank_dir(NULL, 0));
}

/* ==== >>several ======================================================================================= */

/* check_mpi.sh starts all ranks on one machine. */
TEST(ranks_of_one_machine_are_counted_from_0_there)
{
    if (tp_size() == 1) TEST_SKIP("needs mpirun: see tests/check_mpi.sh");
    CHECK_MSG(tp_local_rank() == tp_rank(), "rank %d is number %d of its machine", tp_rank(), tp_local_rank());
}

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

/* -- batch norm with the statistics of all ranks */

/* As the model of the tests in this block, whose layers are to be synchronised like this. */
static void build_with_norm(tp_sync_statistics how)
{
    chosen_build = how == TP_SYNC_DEFAULT ? build : build_normed;
    sync = how;
}
TEST(synchronised_batch_norm_is_that_of_one_process_with_all_batches)
{
    const int n = tp_size();
    if (n == 1) TEST_SKIP("needs mpirun: see tests/check_mpi.sh");
    tp_horovod_trainer_desc d = options();
    /* after two steps of plain descent each variable has changed by its gradients, times the rate */
    for (int way = 0; way < 4; way++) {
        const int64_t steps = way % 2 ? STEPS : 2;
        values a, b;
        d.deterministic = way > 1;
        chosen = way % 2 ? momentum : sgd;
        build_with_norm(TP_SYNC_RANKS);
        ema = TP_EMA_DEFAULT; /* updated all the same, as in tensorpack */
        CHECK_OK(trained(tp_horovod_trainer_(&d), of_rank(tp_rank(), n), steps, &a));
        build_with_norm(TP_SYNC_NONE);
        ema = TP_EMA_INTERNAL;
        CHECK_OK(trained(tp_simple_trainer(), of_all(n), steps, &b));
        CHECK(a.n == b.n && a.n >= 13);
        check_same(&a, &b, way % 2 ? 2e-5 : 1e-6);
        values_free(&a), values_free(&b);
    }
    chosen = momentum;
    build_with_norm(TP_SYNC_DEFAULT);
}
TEST(without_synchronisation_the_statistics_are_others)
{
    const int n = tp_size();
    if (n == 1) TEST_SKIP("needs mpirun: see tests/check_mpi.sh");
    values a, b;
    const tp_horovod_trainer_desc d = options();
    build_with_norm(TP_SYNC_NONE);
    CHECK_OK(trained(tp_horovod_trainer_(&d), of_rank(tp_rank(), n), STEPS, &a));
    CHECK_OK(trained(tp_simple_trainer(), of_all(n), STEPS, &b));
    double most = 0;
    for (int i = 0; i < a.n && i < b.n; i++)
        for (int64_t k = 0; k < tp_tensor_size(&a.v[i]); k++)
            most = fmax(most, fabs(tp_tensor_get(&a.v[i], k) - tp_tensor_get(&b.v[i], k)));
    CHECK_MSG(most > 1e-3, "%g", most); /* so the test above would notice */
    values_free(&a), values_free(&b);
    build_with_norm(TP_SYNC_DEFAULT);
}
TEST(deterministic_synchronised_ranks_have_the_bits_of_as_many_towers)
{
    const int n = tp_size();
    if (n == 1) TEST_SKIP("needs mpirun: see tests/check_mpi.sh");
    values a, b;
    tp_horovod_trainer_desc d = options();
    tp_sync_multi_gpu_trainer_replicated_desc m;
    memset(&m, 0, sizeof m);
    m.n_devices = n;
    d.deterministic = true;
    for (int half = 0; half < 2; half++) {
        precision = half ? TP_PRECISION_BF16 : TP_PRECISION_F32; /* statistics are float32 all the same */
        build_with_norm(TP_SYNC_RANKS);
        CHECK_OK(trained(tp_horovod_trainer_(&d), of_rank(tp_rank(), n), STEPS, &a));
        build_with_norm(TP_SYNC_TOWERS);
        CHECK_OK(trained(tp_sync_multi_gpu_trainer_replicated_(&m), of_all(1), STEPS, &b));
        check_same(&a, &b, -1);
        values_free(&a), values_free(&b);
    }
    precision = TP_PRECISION_F32;
    build_with_norm(TP_SYNC_DEFAULT);
}

/* After each epoch the chief alone runs the inference tower. If that tower averaged over the ranks, the chief would wait for ever. */
static tp_predictor *predictor;
static tp_status make_predictor(tp_callback *cb)
{
    static const char *const in[] = {"x"}, *const out[] = {"logits/output"};
    predictor = tp_trainer_get_predictor(cb->train->trainer, in, 1, out, 1, 0);
    return predictor ? TP_OK : TP_ERR;
}
static tp_status predict_alone(tp_callback *cb)
{
    (void)cb;
    float data[10] = {0};
    const tp_tensor *y;
    tp_tensor x = TP_EMPTY;
    tp_tensor_view(&x, TP_F32, tp_make_shape(2, 5), data);
    return tp_rank() ? TP_OK : tp_predict(predictor, &x, &y);
}
/* A callback that fetches what is normed, with the step, on the chief alone: the other ranks' plans differ from the chief's. */
static tp_status fetch_normed(tp_callback *cb, tp_run_request *r)
{
    return tp_rank() || tp_request_fetch(r, tp_graph_find(cb->train->graph, "bn2/output:0")) >= 0 ? TP_OK : TP_ERR;
}
TEST(the_chief_predicts_and_fetches_alone)
{
    if (tp_size() == 1) TEST_SKIP("needs mpirun: see tests/check_mpi.sh");
    values a;
    const tp_horovod_trainer_desc d = options();
    build_with_norm(TP_SYNC_RANKS);
    tp_trainer *t = tp_horovod_trainer_(&d);
    tp_callback *cb = tp_callback_new("Alone", 0);
    if (!CHECK(t && cb)) return;
    cb->chief_only = false;
    cb->setup_graph = make_predictor;
    cb->trigger_epoch = predict_alone;
    cb->before_run = fetch_normed;
    CHECK_OK(tp_trainer_register_callback(t, cb));
    CHECK_OK(trained(t, of_rank(tp_rank(), tp_size()), STEPS, &a));
    values_free(&a);
    build_with_norm(TP_SYNC_DEFAULT);
}

/* A gradient through such a layer when the step is built. */
static tp_status differentiate_late(tp_callback *cb)
{
    tp_graph *const g = cb->train->graph;
    tp_node *const w = tp_find_variable(g, "conv/W")->node;
    tp_node *dw = NULL;
    tp_gradients(tp_graph_find(g, "cost:0"), &w, 1, &dw);
    return tp_graph_status(g);
}
TEST(ranks_are_not_synchronised_where_they_do_not_meet)
{
    if (tp_size() == 1) TEST_SKIP("needs mpirun: see tests/check_mpi.sh");
    values a;
    const tp_horovod_trainer_desc d = options();
    build_with_norm(TP_SYNC_RANKS);
    CHECK_ERR(trained(tp_simple_trainer(), of_all(1), STEPS, &a), TP_ERR_UNSUPPORTED,
              "bn4: BatchNorm has .sync_statistics TP_SYNC_RANKS, but SimpleTrainer does not train together with other "
              "ranks: train with tp_horovod_trainer");
    tp_distributed_trainer_replicated_desc r;
    memset(&r, 0, sizeof r);
    CHECK_ERR(
        trained(tp_distributed_trainer_replicated_(&r), of_all(1), STEPS, &a), TP_ERR_UNSUPPORTED,
        "TP_SYNC_RANKS, but the workers of DistributedTrainerReplicated exchange values with servers only: train with "
        "tp_horovod_trainer, or give TP_SYNC_TOWERS or TP_SYNC_NONE");
    tp_distributed_trainer_parameter_server_desc p;
    memset(&p, 0, sizeof p);
    CHECK_ERR(trained(tp_distributed_trainer_parameter_server_(&p), of_all(1), STEPS, &a), TP_ERR_UNSUPPORTED,
              "TP_SYNC_RANKS, but the workers of DistributedTrainerParameterServer exchange values with servers only");
    tp_trainer *t = tp_horovod_trainer_(&d);
    tp_callback *cb = tp_callback_new("Late", 0);
    if (!CHECK(t && cb)) return;
    cb->chief_only = false;
    cb->setup_graph = differentiate_late;
    CHECK_OK(tp_trainer_register_callback(t, cb));
    CHECK_ERR(trained(t, of_rank(tp_rank(), tp_size()), STEPS, &a), TP_ERR_STATE,
              "HorovodTrainer: the step is built already, so a layer's statistics of all ranks cannot enter it");
    build_with_norm(TP_SYNC_DEFAULT);
}
TEST(one_rank_normalises_by_its_own_batch_and_says_so)
{
    if (tp_size() > 1) TEST_SKIP("for one process");
    values a, b;
    const tp_horovod_trainer_desc d = options();
    build_with_norm(TP_SYNC_NONE);
    CHECK_OK(trained(tp_simple_trainer(), of_all(1), STEPS, &b));
    for (int way = 0; way < 2; way++) {
        build_with_norm(TP_SYNC_RANKS);
        warned[0] = 0;
        tp_set_log(note_warning, NULL);
        CHECK_OK(trained(way ? tp_horovod_trainer_(&d) : tp_simple_trainer(), of_all(1), STEPS, &a));
        tp_set_log(tp_test_drop_log, NULL);
        if (way == 0) CHECK_HAS(warned, "TP_SYNC_RANKS, but there is one rank only: statistics are averaged over the");
        check_same(&a, &b, -1);
        values_free(&a);
    }
    values_free(&b);
    build_with_norm(TP_SYNC_DEFAULT);
}

/* A variable that a callback sets once in each epoch, on the chief and of the first tower only. */
static tp_node *build_with_factor(tp_graph *g, tp_node *const *in, void *user)
{
    return tp_named(tp_mul(tp_get_scalar_variable(g, "factor", 1), build(g, in, user)), "whole_cost");
}
static tp_status set_factor(tp_callback *cb)
{
    float to = 10.0f + (float)cb->train->epoch_num;
    tp_tensor value = TP_EMPTY;
    tp_tensor_view(&value, TP_F32, tp_make_shape(), &to);
    return tp_session_load(cb->train->session, tp_find_variable(cb->train->graph, "factor"), &value);
}
static tp_status fetch_factors(tp_callback *cb, tp_run_request *r)
{
    const tp_variable *copy = tp_find_variable(cb->train->graph, "tower1/factor");
    if (tp_request_fetch(r, tp_find_variable(cb->train->graph, "factor")->node) < 0) return TP_ERR;
    return copy && tp_request_fetch(r, copy->node) < 0 ? TP_ERR : TP_OK;
}
static double factor_seen[2][3]; /* the first and the last of each epoch */
static tp_status see_factors(tp_callback *cb, const tp_run_values *v)
{
    const int64_t e = cb->train->epoch_num - 1;
    factor_seen[1][e] = tp_tensor_get(v->value[0], 0);
    if (cb->train->local_step == 0) factor_seen[0][e] = factor_seen[1][e];
    for (int i = 1; i < v->n; i++) CHECK_NEAR(tp_tensor_get(v->value[i], 0), factor_seen[1][e], 0, 0);
    return TP_OK;
}
/* Three epochs of four steps, in which one or two callbacks set the factor. */
static void check_factors(tp_trainer *t, tp_callback *first, tp_callback *second, const double *want)
{
    source s = of_rank(tp_rank(), tp_size());
    tp_train_config c;
    memset(&c, 0, sizeof c), memset(factor_seen, 0, sizeof factor_seen);
    tp_callback *cb[3] = {tp_callback_new("See", 0), first, second};
    cb[0]->chief_only = false;
    cb[0]->before_run = fetch_factors, cb[0]->after_run = see_factors;
    c.model = model();
    c.model.build_graph = build_with_factor;
    c.dataflow = flow(&s);
    c.steps_per_epoch = 4, c.max_epoch = 3;
    c.callbacks = cb, c.n_callbacks = second ? 3 : 2;
    c.n_monitors = TP_NONE;
    CHECK_OK(tp_launch_train_with_config(&c, t));
    for (int k = 0; k < 6; k++) CHECK_NEAR(factor_seen[k / 3][k % 3], want[k % 3], 0, 0);
}
TEST(what_callbacks_set_is_everywhere_before_the_next_step)
{
    for (int i = 0; i < 6; i++) {
        static const double want[3][3] = {{10, 10, 10}, {1, 11, 12}, {11, 12, 13}};
        const int phase = i / 2;
        tp_horovod_trainer_desc h = options();
        tp_sync_multi_gpu_trainer_replicated_desc r;
        memset(&r, 0, sizeof r);
        r.n_devices = 2;
        tp_callback *set = tp_callback_new("Set", 0);
        if (phase == 0) set->before_train = set_factor;
        if (phase == 1) set->trigger = set_factor;
        if (phase == 2) set->before_epoch = set_factor;
        check_factors(i % 2 ? tp_horovod_trainer_(&h) : tp_sync_multi_gpu_trainer_replicated_(&r), set, NULL,
                      want[phase]);
    }
}

/* A statistic of the chief alone: of validation, for example. */
static tp_status report_judged(tp_callback *cb) { return tp_monitors_put_scalar(cb->train->monitors, "judged", 1); }
static tp_status twice(double *value, void *user) { return (void)user, *value *= 2, TP_OK; }
TEST(a_setter_by_a_statistic_of_the_chief_sets_on_all_ranks)
{
    static const double want[3] = {1, 2, 4};
    tp_horovod_trainer_desc h = options();
    tp_cb_stat_monitor_param_setter_desc d;
    memset(&d, 0, sizeof d);
    d.name = "factor", d.stat_name = "judged", d.fn = twice, d.last_k = 1;
    tp_callback *report = tp_callback_new("Judge", 0);
    report->trigger = report_judged;
    check_factors(tp_horovod_trainer_(&h), report, tp_cb_stat_monitor_param_setter_(&d), want);
}

/* Callbacks that run on all ranks go on with the chief's states after a resume, also behind a chief-only one of the same name. */
typedef struct counter {
    int64_t n, loaded;
    bool resumed;
} counter;
static tp_status count_step(tp_callback *cb) { return ((counter *)cb->user)->n++, TP_OK; }
static tp_status save_count(tp_callback *cb, tp_dict *d, const char *prefix)
{
    return tp_state_put_i64(d, prefix, "n", &((counter *)cb->user)->n, 1);
}
static tp_status load_count(tp_callback *cb, const tp_dict *d, const char *prefix)
{
    counter *c = (counter *)cb->user;
    if (tp_state_get_i64(d, prefix, "n", &c->n, 1)) c->loaded = c->n;
    return TP_OK;
}
static counter last_count[2];
static tp_status note_count(tp_callback *cb)
{
    counter *c = (counter *)cb->user;
    c->resumed = cb->resumed;
    last_count[!cb->chief_only] = *c;
    return tp_monitors_put_scalar(cb->train->monitors, cb->chief_only ? "of_chief" : "of_all", (double)c->n);
}
static tp_callback *counting(int64_t from, bool chief_only)
{
    tp_callback *cb = tp_callback_new("Counts", sizeof(counter));
    ((counter *)cb->user)->n = from;
    cb->chief_only = chief_only;
    cb->trigger_step = count_step, cb->trigger = note_count;
    cb->save_state = save_count, cb->load_state = load_count;
    return cb;
}
static tp_status doubled(tp_callback *cb, void *user, double *value, bool *set)
{
    (void)cb, (void)user;
    *value *= 2;
    *set = true;
    return TP_OK;
}
/* Adds 1 to a variable of the rank: before the training, which a resume leaves out, and in each step. */
static tp_node *count_locally(tp_graph *g, void *user)
{
    tp_variable_desc d;
    memset(&d, 0, sizeof d);
    (void)user;
    d.name = "counted", d.init = tp_init_zeros(), d.trainable = TP_NO, d.local = true;
    return tp_assign_add(tp_get_variable(g, &d), tp_const(g, 1), NULL);
}
static double counted;
static tp_status note_counted(tp_callback *cb)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    const tp_status st = tp_session_read(cb->train->session, tp_find_variable(cb->train->graph, "counted"), &t);
    counted = st == TP_OK ? tp_tensor_get(&t, 0) : -1;
    tp_tensor_free(&t);
    return st;
}
TEST(after_a_resume_all_ranks_have_the_states_of_the_chief)
{
    const char *dir = tp_test_tmpdir();
    char path[300];
    snprintf(path, sizeof path, "%s/checkpoint", dir);
    for (int way = 0; way < 2; way++) {
        source s = of_rank(tp_rank(), tp_size());
        tp_horovod_trainer_desc h = options();
        tp_cb_hyper_param_setter_desc set;
        tp_cb_periodic_trigger_desc when;
        tp_cb_model_saver_desc saver;
        tp_train_config c;
        tp_monitor *json = NULL;
        double field = 1 + tp_rank();
        char log[300];
        memset(&set, 0, sizeof set), memset(&when, 0, sizeof when), memset(&saver, 0, sizeof saver);
        memset(&c, 0, sizeof c), memset(last_count, 0, sizeof last_count);
        snprintf(log, sizeof log, "%s/log", dir);
        CHECK_OK(tp_logger_set_rank_dir(log, 'k'));
        json = tp_monitor_json_writer();
        set.param = tp_param_field("mine", &field, TP_F64), set.fn = doubled;
        when.cb = tp_cb_hyper_param_setter_(&set), when.every_k_epochs = 1;
        saver.checkpoint_dir = dir;
        tp_cb_run_op_desc run;
        memset(&run, 0, sizeof run);
        run.fn = count_locally, run.run_as_trigger = TP_NO, run.run_step = TP_YES;
        tp_callback *cb[5] = {counting(500, true), counting(100 * tp_rank(), false), tp_cb_periodic_trigger_(&when),
                              tp_cb_model_saver_(&saver), tp_cb_run_op_(&run)};
        cb[4]->after_train = note_counted;
        cb[4]->chief_only = false;
        c.model = model();
        c.dataflow = flow(&s);
        c.steps_per_epoch = 4, c.max_epoch = way ? 4 : 2;
        c.callbacks = cb, c.n_callbacks = 5;
        c.monitors = &json, c.n_monitors = 1;
        if (way) c.starting_epoch = 3;
        if (way && tp_rank() == 0) c.session_init = tp_smart_init(path, false);
        warned[0] = 0;
        tp_set_log(note_warning, NULL);
        CHECK_OK(tp_launch_train_with_config(&c, tp_horovod_trainer_(&h)));
        tp_set_log(tp_test_drop_log, NULL);
        CHECK_MSG(!strstr(warned, "state") && !strstr(warned, "JSON"), "%s", warned);
        const int64_t begun = way ? 0 : 100 * tp_rank();
        CHECK_MSG(last_count[1].n == begun + (way ? 16 : 8), "%d", (int)last_count[1].n);
        CHECK(last_count[1].loaded == (way ? 8 : 0) && last_count[1].resumed == (way == 1));
        CHECK(last_count[0].n == (tp_rank() > 0 ? 0 : way ? 516 : 508));
        CHECK_MSG(counted == (way ? 17 : 9), "%g", counted);
        /* before the training and after each of 2 epochs, then from the chief's value on, after each of 2 more */
        CHECK_MSG(field == (way ? 32 : 8 * (1 + tp_rank())), "%g", field);
        tp_stat_entry *e = NULL;
        int n = 0;
        CHECK_OK(tp_load_existing_stats(NULL, &e, &n));
        CHECK_MSG(n > 0 && e[n - 1].epoch_num == (way ? 4 : 2) && e[0].epoch_num == 1, "%d", n);
        tp_free(e);
        CHECK_OK(tp_logger_set_rank_dir(NULL, 0));
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

/* By default a network of 3 MiB has three buckets, one for each of its layers. */
static tp_node *build_three_layers(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *x = in[0];
    (void)user;
    for (int i = 0; i < 3; i++) {
        const char name[2] = {(char)('a' + i), 0};
        x = tp_matmul(x, tp_get_variable_as(g, name, TP_F32, tp_make_shape(512, 512), tp_init_glorot_uniform()));
    }
    return tp_mean(tp_square(x));
}
TEST(by_default_a_network_has_several_buckets)
{
    if (tp_size() == 1) TEST_SKIP("needs mpirun: see tests/check_mpi.sh");
    const tp_spec inputs[] = {TP_SPEC("x", TP_F32, 2, 512)};
    const tp_model m = {.inputs = inputs, .n_inputs = 1, .build_graph = build_three_layers, .optimizer = momentum};
    const tp_shape shape = tp_make_shape(2, 512);
    tp_trainer *t = tp_horovod_trainer();
    int n_sent = 0;
    CHECK_OK(tp_trainer_setup_graph(t, &m, tp_dummy_constant_input(&shape, 1)));
    for (int i = 0; i < tp_graph_n_operations(t->graph); i++)
        n_sent += strcmp(tp_graph_operation(t->graph, i)->row->name, "bucket_send") == 0;
    CHECK_MSG(n_sent == 3, "%d buckets", n_sent);
    tp_trainer_free(t);
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

/* ==== >>servers ======================================================================================= */

/* What this rank is where the last n_ps ranks serve; false: a server. */
static bool works(int n_ps) { return tp_rank() < tp_size() - n_ps; }
static tp_cluster last_serve(int n_ps)
{
    tp_cluster c;
    memset(&c, 0, sizeof c);
    c.n_ps = n_ps;
    return c;
}
/* The same as lists in `rank`, first of the workers, then of the servers: the chief, then the others from the highest on. */
static tp_cluster listed(int n_ps, int rank[64])
{
    tp_cluster c = last_serve(n_ps);
    c.n_workers = tp_size() - n_ps;
    for (int k = 0; k < tp_size(); k++) rank[k] = k == 0 || k >= c.n_workers ? k : c.n_workers - k;
    c.workers = rank;
    c.ps = rank + c.n_workers;
    return c;
}
static tp_trainer *replicated(const tp_cluster *c, int n_devices)
{
    tp_distributed_trainer_replicated_desc d;
    memset(&d, 0, sizeof d);
    tp_set_log(tp_test_drop_log, NULL);
    d.cluster = c, d.n_devices = n_devices;
    return tp_distributed_trainer_replicated_(&d);
}
static tp_trainer *served(const tp_cluster *c, int n_devices, bool deterministic, tp_ps_device caching)
{
    tp_distributed_trainer_parameter_server_desc d;
    memset(&d, 0, sizeof d);
    tp_set_log(tp_test_drop_log, NULL);
    d.cluster = c, d.n_devices = n_devices, d.deterministic = deterministic, d.caching_device = caching;
    return tp_distributed_trainer_parameter_server_(&d);
}
/* The chief has everything, other workers what is trained. */
static void check_worker(const values *a, const values *b, double atol)
{
    if (tp_rank() == 0) {
        check_same(a, b, atol);
        return;
    }
    int n = 0;
    for (int i = 0; i < a->n; i++) {
        const char *end = strrchr(a->name[i], '/');
        if (!end || (strcmp(end, "/W") != 0 && strcmp(end, "/b") != 0)) continue;
        check_tensor(a->name[i], &a->v[i], of_name(b, a->name[i]), atol);
        n++;
    }
    CHECK(n == 4);
}

TEST(servers_need_processes_of_their_own)
{
    tp_job job;
    int task;
    tp_cluster c = last_serve(1);
    values a;
    if (tp_size() > 1) TEST_SKIP("for one process");
    CHECK(tp_cluster_task(&c, &job, &task) == TP_ERR_UNSUPPORTED);
    CHECK_MSG(strstr(tp_last_error(), "processes of their own"), "%s", tp_last_error());
    CHECK(trained(replicated(NULL, 1), of_all(1), STEPS, &a) == TP_ERR_UNSUPPORTED);
    CHECK_MSG(strstr(tp_last_error(), "DistributedTrainerReplicated: parameter servers are processes"), "%s",
              tp_last_error());
    CHECK(trained(served(&c, 1, false, TP_ON_AUTO), of_all(1), STEPS, &a) == TP_ERR_UNSUPPORTED);
    CHECK(tp_distributed_trainer_replicated_(NULL) == NULL);
    CHECK(tp_distributed_trainer_parameter_server_(NULL) == NULL);
    CHECK(tp_cluster_task(NULL, &job, &task) == TP_ERR_ARG);
}

static void check_refused(tp_cluster c, const char *part)
{
    tp_job job;
    int task;
    values a;
    CHECK(tp_cluster_task(&c, &job, &task) == TP_ERR_ARG);
    CHECK_MSG(strstr(tp_last_error(), part), "%s", tp_last_error());
    CHECK(trained(replicated(&c, 1), of_all(1), STEPS, &a) == TP_ERR_ARG);
    CHECK_MSG(strstr(tp_last_error(), part), "%s", tp_last_error());
}
TEST(a_cluster_that_does_not_fit_the_job_is_refused)
{
    static const int far[] = {1000}, twice[] = {1, 1}, chief[] = {0}, both[] = {0, 1}, one[] = {1}, none[] = {0};
    static const int turned[] = {1, 0};
    tp_cluster c = last_serve(0);
    check_refused(c, "the cluster has no parameter server: .n_ps is 0");
    if (tp_size() == 1) TEST_SKIP("the rest needs mpirun: see tests/check_mpi.sh");
    check_refused(last_serve(tp_size()), "no rank is left to train");
    check_refused(last_serve(tp_size() + 3), "no rank is left to train");
    c.n_ps = 1, c.ps = far;
    check_refused(c, ".ps[0] is rank 1000, but the job has the ranks 0 to");
    c.workers = both, c.n_workers = 2; /* which are right */
    check_refused(c, ".ps[0] is rank 1000, but the job has the ranks 0 to");
    c.ps = one, c.workers = far, c.n_workers = 1;
    check_refused(c, ".workers[0] is rank 1000, but the job has the ranks 0 to");
    c.workers = NULL, c.n_workers = 0;
    c.ps = chief;
    check_refused(c, "rank 0 cannot be a server");
    c.ps = one, c.workers = both, c.n_workers = 2;
    check_refused(c, "rank 1 serves and trains");
    c.workers = none, c.n_workers = 0;
    check_refused(c, "the cluster has no worker: .n_workers is 0");
    c.n_ps = 2, c.ps = twice, c.workers = NULL;
    if (tp_size() > 2) check_refused(c, ".ps names rank 1 twice");
    if (tp_size() < 4) return;
    c.n_workers = 1, c.workers = none, c.n_ps = 1, c.ps = one;
    check_refused(c, "says nothing about rank 2");
    static const int others[] = {2, 3};
    c.ps = others, c.n_ps = 2, c.workers = turned, c.n_workers = 2;
    check_refused(c, "rank 0 cannot stand later in .workers");
}

TEST(a_cluster_says_what_each_rank_is)
{
    static const int ps[] = {3, 1, 0}, workers[] = {0, 2, 0}; /* the last one is behind n_ps and n_workers */
    tp_job job;
    int task;
    const int n = tp_size(), rank = tp_rank();
    if (n != 3 && n != 4) TEST_SKIP("for three or four processes");
    tp_cluster c = last_serve(1);
    CHECK_OK(tp_cluster_task(&c, &job, &task));
    CHECK(job == (rank == n - 1 ? TP_JOB_PS : TP_JOB_WORKER) && task == (rank == n - 1 ? 0 : rank));
    c.n_ps = n - 2, c.ps = n == 4 ? ps : ps + 1;
    for (int lists = 0; lists < 2; lists++) {
        static const tp_job jobs[] = {TP_JOB_WORKER, TP_JOB_PS, TP_JOB_WORKER, TP_JOB_PS};
        const int tasks[] = {0, n - 3, 1, 0};
        CHECK_OK(tp_cluster_task(&c, &job, &task));
        CHECK(job == jobs[rank] && task == tasks[rank]);
        c.workers = workers, c.n_workers = 2;
    }
}

/* N updates with an N-th of the rate, by gradients of the same values: one by their mean. */
TEST(served_workers_train_as_one_process_with_their_batches_together)
{
    values a, b;
    if (tp_size() == 1) TEST_SKIP("needs mpirun: see tests/check_mpi.sh");
    int list[64];
    if (!CHECK(tp_size() <= 64)) return;
    chosen = sgd;
    for (int way = 0; way < 6; way++) {
        const int n_ps = tp_size() == 4 && way % 3 == 1 ? 2 : 1, n = tp_size() - n_ps;
        const tp_cluster c = way < 3 ? last_serve(n_ps) : listed(n_ps, list);
        rate = 0.1f / (float)n;
        CHECK_OK(trained(way % 3 == 0 ? replicated(&c, 1) : served(&c, 1, way % 3 == 1, TP_ON_AUTO),
                         of_rank(tp_rank(), n), STEPS, &a));
        rate = 0.1f;
        CHECK_OK(trained(tp_simple_trainer(), of_all(n), STEPS, &b));
        for (int i = 0; i < a.n && i < b.n; i++) /* which is not to be compared */
            if (strcmp(a.name[i], "learning_rate") == 0) memcpy(a.v[i].data, b.v[i].data, sizeof(float));
        if (works(n_ps)) check_worker(&a, &b, 1e-6);
        values_free(&a), values_free(&b);
    }
    chosen = momentum;
}

TEST(updates_in_the_order_of_the_workers_have_the_bits_of_asynchronous_devices)
{
    values a, b;
    tp_async_multi_gpu_trainer_desc m;
    if (tp_size() == 1) TEST_SKIP("needs mpirun: see tests/check_mpi.sh");
    memset(&m, 0, sizeof m);
    m.scale_gradient = TP_NO;
    for (int way = 0; way < 3; way++) {
        const int n_ps = tp_size() == 4 && way == 2 ? 2 : 1;
        const tp_cluster c = last_serve(n_ps);
        m.n_devices = tp_size() - n_ps;
        tp_trainer *t = way == 0 ? replicated(&c, 1) : served(&c, 1, true, way == 1 ? TP_ON_GPU : TP_ON_CPU);
        CHECK_OK(trained(t, of_rank(tp_rank(), m.n_devices), STEPS, &a));
        CHECK_OK(trained(tp_async_multi_gpu_trainer_(&m), of_all(1), STEPS, &b));
        if (works(n_ps)) check_worker(&a, &b, -1);
        values_free(&a), values_free(&b);
    }
}

/* Whatever wraps the optimizer, and however many servers there are. */
TEST(one_worker_with_servers_trains_as_a_simple_trainer)
{
    values a, b;
    if (tp_size() == 1) TEST_SKIP("needs mpirun: see tests/check_mpi.sh");
    const int n_ps = tp_size() - 1;
    const tp_cluster c = last_serve(n_ps);
    for (int way = 0; way < 4; way++) {
        chosen = way < 2 ? wrapped_adam : momentum;
        CHECK_OK(trained(way % 2 ? served(&c, 1, false, TP_ON_AUTO) : replicated(&c, 1), of_all(1), STEPS, &a));
        CHECK_OK(trained(tp_simple_trainer(), of_all(1), STEPS, &b));
        if (works(n_ps)) check_worker(&a, &b, -1);
        values_free(&a), values_free(&b);
    }
    chosen = momentum;
}

/* A checkpoint in the middle of an accumulation lacks what the other workers have added. */
TEST(a_checkpoint_within_an_accumulation_warns)
{
    if (tp_size() < 3) TEST_SKIP("needs mpirun with two workers: see tests/check_mpi.sh");
    for (int steps = 3; steps <= 4; steps++) {
        source s = of_rank(tp_rank(), tp_size() - 1);
        tp_train_config c;
        memset(&c, 0, sizeof c);
        CHECK_OK(tp_logger_set_dir(tp_test_tmpdir(), 'd'));
        tp_cb_model_saver_desc options;
        memset(&options, 0, sizeof options);
        tp_callback *save = tp_cb_model_saver_(&options);
        tp_trainer *t = replicated(NULL, 1);
        chosen = wrapped_adam;
        c.model = model();
        c.dataflow = flow(&s);
        c.callbacks = &save, c.n_callbacks = 1;
        c.steps_per_epoch = steps, c.max_epoch = 1;
        warned[0] = 0;
        tp_set_log(note_warning, NULL);
        CHECK_OK(tp_launch_train_with_config(&c, t));
        tp_set_log(tp_test_drop_log, NULL);
        CHECK_OK(tp_logger_set_dir(NULL, 0));
        const char *sentence = "a checkpoint is made when tp_accum_grad has added 1 of 2 gradients";
        CHECK_MSG((strstr(warned, sentence) != NULL) == (tp_rank() == 0 && steps == 3), "%d steps: %s", steps, warned);
    }
    chosen = momentum;
}

/* The chief takes its time between a step and its checkpoint: the other workers' gradients of the next step are not in that. */
static double saved_power;
static tp_status save_late(tp_callback *cb)
{
    if (cb->train->local_step != 2) return TP_OK;
    tp_test_sleep(0.3);
    tp_callback_request_checkpoint(cb);
    return TP_OK;
}
static tp_status read_power(tp_callback *cb)
{
    const tp_variable *v = tp_find_variable(cb->train->graph, "beta1_power");
    tp_tensor value;
    memset(&value, 0, sizeof value);
    tp_status st = CHECK(v != NULL) ? tp_session_read(cb->train->session, v, &value) : TP_ERR;
    if (st == TP_OK) saved_power = tp_tensor_get(&value, 0);
    tp_tensor_free(&value);
    return st;
}
static tp_optimizer *adam(tp_graph *g, void *user)
{
    (void)user;
    return tp_adam_(tp_get_scalar_variable(g, "learning_rate", 0.01f), NULL);
}
TEST(a_checkpoint_has_no_update_of_the_next_step)
{
    if (tp_size() < 3) TEST_SKIP("needs mpirun with two workers: see tests/check_mpi.sh");
    const int n = tp_size() - 1;
    for (int ordered = 0; ordered < 2; ordered++) {
        source s = of_rank(tp_rank(), n);
        tp_train_config c;
        memset(&c, 0, sizeof c);
        tp_callback *save = tp_callback_new("SaveLate", 0);
        save->trigger_step = save_late;
        save->checkpoint = read_power;
        chosen = adam;
        c.model = model();
        c.dataflow = flow(&s);
        c.callbacks = &save, c.n_callbacks = 1;
        c.steps_per_epoch = 6, c.max_epoch = 1;
        c.n_extra_callbacks = c.n_monitors = TP_NONE;
        saved_power = 0;
        CHECK_OK(tp_launch_train_with_config(&c, served(NULL, 1, ordered == 1, TP_ON_AUTO)));
        if (tp_rank() == 0) CHECK_NEAR(saved_power, pow(0.9, 3 * n + 1), 1e-4, 0); /* one update per worker and step */
    }
    chosen = momentum;
}

/* A worker averages over its devices. */
TEST(workers_with_two_devices_average_over_them)
{
    values a, b;
    tp_sync_multi_gpu_trainer_replicated_desc m;
    if (tp_size() == 1) TEST_SKIP("needs mpirun: see tests/check_mpi.sh");
    memset(&m, 0, sizeof m);
    m.n_devices = 2;
    const int n_ps = tp_size() - 1;
    const tp_cluster c = last_serve(n_ps);
    for (int way = 0; way < 3; way++) {
        tp_trainer *t = way == 0 ? replicated(&c, 2) : served(&c, 2, false, way == 1 ? TP_ON_CPU : TP_ON_GPU);
        CHECK_OK(trained(t, of_all(1), STEPS, &a));
        CHECK_OK(trained(tp_sync_multi_gpu_trainer_replicated_(&m), of_all(1), STEPS, &b));
        if (works(n_ps)) check_worker(&a, &b, 1e-6);
        values_free(&a), values_free(&b);
    }
}

/* How many of 5000 other points a network with these weights tells wrongly, by loops in double. */
static int wrong_of_5000(const values *v)
{
    const tp_tensor *W = of_name(v, "hidden/W"), *b = of_name(v, "hidden/b"), *U = of_name(v, "logits/W"),
                    *c = of_name(v, "logits/b");
    int wrong = 0;
    for (uint64_t i = 0; i < 5000 && W && b && U && c; i++) {
        double x[5], sum = 0, y[3] = {0, 0, 0};
        for (uint64_t k = 0; k < 5; k++) sum += x[k] = (double)number(((uint64_t)1 << 40) + i * 5 + k);
        for (int o = 0; o < 3; o++) y[o] = tp_tensor_get(c, o);
        for (int h = 0; h < 16; h++) {
            double a = tp_tensor_get(b, h);
            for (int k = 0; k < 5; k++) a += x[k] * tp_tensor_get(W, k * 16 + h);
            for (int o = 0; o < 3; o++) y[o] += tanh(a) * tp_tensor_get(U, h * 3 + o);
        }
        const int best = y[2] > y[0] && y[2] > y[1] ? 2 : y[1] > y[0] ? 1 : 0;
        wrong += best != (sum > 0.5 ? 2 : sum > -0.5 ? 1 : 0);
    }
    return wrong;
}
TEST(updates_as_they_arrive_learn_as_well_as_one_process)
{
    enum { LONG = 3000 };
    values a, b;
    if (tp_size() == 1) TEST_SKIP("needs mpirun: see tests/check_mpi.sh");
    const int n = tp_size() - 1;
    tp_set_log(tp_test_drop_log, NULL);
    rate = 0.3f;
    chosen = decaying;
    CHECK_OK(trained(tp_simple_trainer(), of_all(n), LONG, &b));
    rate = 0.3f / (float)n;
    CHECK_OK(trained(served(NULL, 1, false, TP_ON_AUTO), of_rank(tp_rank(), n), LONG, &a));
    chosen = momentum;
    const int one = wrong_of_5000(&b), many = works(1) ? wrong_of_5000(&a) : 0;
    CHECK_MSG(one < 250, "%d of 5000 are wrong", one); /* it was learnt */
    CHECK_MSG(many <= one + 10, "%d of 5000 are wrong, %d of one process", many, one);
    values_free(&a), values_free(&b);
}

/* ==== >>gpus ========================================================================================== */
#ifdef TP_CUDA_SHIM

static char said[65536];
static void note(void *user, tp_log_level level, const char *message)
{
    (void)user, (void)level;
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", message);
}
static tp_status refuse(tp_device *d, const char *id, int n, int rank)
{
    return (void)d, (void)id, (void)n, (void)rank, tp_fail(TP_ERR_STATE, "this GPU joins nobody");
}
/* HorovodTrainer on a GPU for each rank, against one process with the batches of all, on the CPU. */
static void check_gpus(const tp_horovod_trainer_desc *d, bool refused, double atol, const char *sentence)
{
    const int n = tp_size();
    values a, b;
    tp_sync_multi_gpu_trainer_replicated_desc m;
    memset(&m, 0, sizeof m);
    m.n_devices = n, m.average = d->average;
    device = tp_cuda_open(0);
    if (!CHECK(device != NULL)) return;
    if (refused && tp_rank() == 1) device->ranks_join = refuse;
    said[0] = 0;
    tp_set_log(note, NULL);
    CHECK_OK(trained(tp_horovod_trainer_(d), of_rank(tp_rank(), n), STEPS, &a));
    CHECK_MSG(strstr(said, sentence) != NULL, "%s", said);
    device->close(device);
    device = NULL;
    tp_set_log(tp_test_drop_log, NULL);
    CHECK_OK(trained(tp_sync_multi_gpu_trainer_replicated_(&m), of_all(1), STEPS, &b));
    check_same(&a, &b, atol);
    values_free(&a), values_free(&b);
}
TEST(gpus_of_several_ranks_sum_by_nccl)
{
    if (tp_size() == 1) TEST_SKIP("needs mpirun: see tests/check_mpi_gpu.sh");
    tp_horovod_trainer_desc d = options();
    for (int sum = 0; sum < 2; sum++) {
        d.average = sum ? TP_NO : TP_YES;
        check_gpus(&d, false, 1e-5, "from GPU to GPU, by NCCL");
    }
    d.bucket_bytes = 0; /* one bucket */
    d.average = TP_YES;
    check_gpus(&d, false, 1e-5, "from GPU to GPU, by NCCL");
}
TEST(gpus_without_nccl_sum_by_way_of_the_host)
{
    if (tp_size() == 1) TEST_SKIP("needs mpirun: see tests/check_mpi_gpu.sh");
    tp_horovod_trainer_desc d = options();
    check_gpus(&d, true, 1e-5, "by way of the host, NCCL cannot be used");
    d.deterministic = true;
    check_gpus(&d, false, 1e-5, "by way of the host: so it is with .deterministic");
    d.compression = TP_COMPRESSION_FP16;
    check_gpus(&d, false, 2e-3, "by way of the host: so it is with .deterministic");
}
TEST(gpus_synchronise_batch_norm_by_way_of_the_host)
{
    const int n = tp_size();
    values a, b;
    if (n == 1) TEST_SKIP("needs mpirun: see tests/check_mpi_gpu.sh");
    const tp_horovod_trainer_desc d = options();
    device = tp_cuda_open(0);
    if (!CHECK(device != NULL)) return;
    build_with_norm(TP_SYNC_RANKS);
    CHECK_OK(trained(tp_horovod_trainer_(&d), of_rank(tp_rank(), n), STEPS, &a));
    device->close(device);
    device = NULL;
    build_with_norm(TP_SYNC_NONE);
    CHECK_OK(trained(tp_simple_trainer(), of_all(n), STEPS, &b));
    check_same(&a, &b, 5e-5);
    values_free(&a), values_free(&b);
    build_with_norm(TP_SYNC_DEFAULT);
}
TEST(servers_and_workers_on_gpus)
{
    values a, b;
    if (tp_size() == 1) TEST_SKIP("needs mpirun: see tests/check_mpi_gpu.sh");
    tp_async_multi_gpu_trainer_desc m;
    memset(&m, 0, sizeof m);
    m.scale_gradient = TP_NO;
    m.n_devices = tp_size() - 1;
    for (int way = 0; way < 2; way++) {
        device = tp_cuda_open(0);
        if (!CHECK(device != NULL)) return;
        tp_trainer *t = way == 0 ? replicated(NULL, 1) : served(NULL, 1, true, TP_ON_GPU);
        CHECK_OK(trained(t, of_rank(tp_rank(), m.n_devices), STEPS, &a));
        device->close(device);
        device = NULL;
        CHECK_OK(trained(tp_async_multi_gpu_trainer_(&m), of_all(1), STEPS, &b));
        if (works(1)) check_worker(&a, &b, 1e-5);
        values_free(&a), values_free(&b);
    }
}
#endif

/* ==== >>cost model ==================================================================================== */

/* The efficiency of n GPUs in percent, by the formula of HOW IT WORKS in tp_train.h and what it assumes of ResNet-50. */
static double efficiency(int n, double gb_per_s, bool half)
{
    const double compute = 0.175, backward = compute * 2 / 3, bytes = 25.6e6 * 4, buckets = 7, latency = 10e-6;
    const double sent = half ? bytes / 2 : bytes, unpacking = bytes / 12e9;
    const double all = 2.0 * (n - 1) / n * sent / (gb_per_s * 1e9) + buckets * 2 * log2(n) * latency;
    return 100 * compute / (compute + fmax(all / buckets, all - backward * (buckets - 1) / buckets) + unpacking);
}
TEST(the_table_of_the_cost_model_follows_from_its_formula)
{
    static const struct {
        const char *text;
        double gb_per_s;
        bool half;
    } row[] = {{"12.5 GB/s (100 Gbit/s) ", 12.5, false},
               {"3.1 GB/s (25 Gbit/s) ", 3.125, false},
               {"1.25 GB/s (10 Gbit/s) ", 1.25, false},
               {"1.25 GB/s, float16 ", 1.25, true}};
    char line[300];
    int found = 0;
    FILE *header = fopen("tp_train.h", "r");
    if (!header) TEST_SKIP("needs the folder of the headers as the current one");
    while (fgets(line, sizeof line, header))
        for (int i = 0; i < TP_COUNT(row); i++) {
            const char *at = strstr(line, row[i].text);
            if (!at) continue;
            char *end = line + (at - line) + strlen(row[i].text);
            for (int n = 8; n <= 1024; n *= n == 8 ? 8 : 4) {
                const long said = strtol(end, &end, 10), is = lround(efficiency(n, row[i].gb_per_s, row[i].half));
                CHECK_MSG(said == is, "%d GPUs, %s: %ld in the header, %ld by the formula", n, row[i].text, said, is);
            }
            found++;
        }
    fclose(header);
    CHECK(found == TP_COUNT(row));
}

TEST_MAIN()
