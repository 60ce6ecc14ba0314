/* Trainers with a tower on each of several devices of one process: n towers with a batch each are one with n times the batch;
 * and what every trainer promises (checkpoints, resume, stops, errors) holds for them. */
#define TP_IMPLEMENTATION
#define TP_STATIC /* private functions are tested too */
#include "tp_layers.h"
#include "tp_train.h"
#include "tp_test.h"

/* ==== >>helpers ======================================================================================= */

enum { SIDE = 4, CLASSES = 3, STEPS = 20, WHOLE = 8 /* samples of a step, of all towers together */ };

static char logged[1 << 15];
static size_t logged_n;
static void log_sink(void *user, tp_log_level level, const char *message)
{
    (void)user, (void)level;
    const int n = snprintf(logged + logged_n, sizeof logged - logged_n, "%s\n", message);
    if (n > 0 && logged_n + (size_t)n < sizeof logged) logged_n += (size_t)n;
}
static void quiet(void)
{
    logged_n = 0;
    logged[0] = 0;
    tp_set_log(log_sink, NULL);
}

/* What is trained, and by whom. */
typedef enum kind { SIMPLE, REPLICATED, HIERARCHICAL, ON_CPU, SUMMED, PS_GPU, PS_CPU, DEFAULT, ASYNC, ASYNC_SUM } kind;
typedef enum rule { MOMENTUM, SGD, ADAM, CLIPPED, ACCUM, SCALED_LOSS } rule;
typedef struct plan {
    kind k;
    int n, batch; /* towers, samples of each */
    rule r;
    bool no_norm, dropout;
    float rate; /* 0: 0.05 */
    int calls;  /* of the optimizer function */
    int fail_at;
} plan;

static tp_node *build(tp_graph *g, tp_node *const *in, void *user)
{
    const plan *p = (const plan *)user;
    tp_node *y = NULL;
    TP_ARGSCOPE(g, batch_norm, .sync_statistics = p->n > 1 ? TP_SYNC_TOWERS : TP_SYNC_NONE, .momentum = 0.75f)
    {
        y = tp_conv2d(in[0], "conv0", .filters = 4, .kernel_size = 3);
        if (!p->no_norm) y = tp_batch_norm(y, "bn0");
        y = tp_tanh(y);
    }
    if (p->dropout) y = tp_dropout(y, .rate = 0.5f);
    y = tp_fully_connected(y, "fc0", .units = CLASSES);
    tp_named(tp_softmax(y), "prob");
    tp_named(tp_cast(tp_not_equal(tp_argmax(y, -1), tp_cast(in[1], TP_I64)), TP_F32), "incorrect_vector");
    tp_node *loss = tp_mean(tp_sparse_softmax_cross_entropy(y, in[1]));
    tp_node *decay = tp_regularize_cost(g, "fc.*/W", tp_l2_regularizer(0.01f), NULL);
    tp_node *cost = tp_named(tp_add(loss, decay), "cost");
    tp_add_moving_summary_n(&cost, 1, NULL);
    return cost;
}

static tp_node *times(tp_node *grad, tp_node *var, void *user)
{
    (void)var, (void)user;
    return tp_affine(grad, 1.5f, 0);
}
static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    plan *p = (plan *)user;
    tp_node *lr = tp_get_scalar_variable(g, "learning_rate", p->rate > 0 ? p->rate : 0.05f);
    p->calls++;
    switch (p->r) {
    case SGD: return tp_sgd(lr);
    case ADAM: return tp_adam(lr, .epsilon = 1e-3f);
    case CLIPPED:
        return tp_apply_grad_processors(tp_momentum(lr), TP_GRADPROCS(tp_gradproc_scale("conv0/W", 0.25f),
                                                                      tp_gradproc_map(times, NULL, "fc0/.*"),
                                                                      tp_gradproc_global_norm_clip(0.5f)));
    case ACCUM: return tp_accum_grad(tp_momentum(lr), 2);
    case SCALED_LOSS: return tp_loss_scale(tp_momentum(lr), .initial = 16, .interval = 3);
    default: return tp_momentum(lr);
    }
}

static const tp_spec inputs[] = {TP_SPEC("x", TP_F32, TP_ANY, SIDE, SIDE, 1), TP_SPEC("label", TP_I32, TP_ANY)};

static tp_model model_of(plan *p)
{
    tp_model m;
    memset(&m, 0, sizeof m);
    m.inputs = inputs;
    m.n_inputs = 2;
    m.build_graph = build;
    m.optimizer = optimizer;
    m.user = p;
    return m;
}

/* Sample i is the same, whichever tower gets it. */
static tp_status point(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    const plan *p = (const plan *)user;
    (void)pass;
    if (p->fail_at && index >= p->fail_at) return tp_fail(TP_ERR_IO, "the disk is gone");
    tp_status st = tp_datapoint_resize(dp, 2);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape(p->batch, SIDE, SIDE, 1));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_I32, tp_make_shape(p->batch));
    for (int b = 0; b < p->batch && st == TP_OK; b++) {
        const int64_t sample = index * p->batch + b;
        float *x = (float *)dp->c[0].data + b * SIDE * SIDE, sum = 0;
        for (int i = 0; i < SIDE * SIDE; i++) {
            x[i] = (float)tp_random_normal(7, (uint64_t)sample, (uint64_t)i);
            sum += x[i];
        }
        ((int32_t *)dp->c[1].data)[b] = sum > 1.5f ? 2 : sum > -1.5f;
    }
    return st;
}
static tp_dataflow *flow(plan *p) { return tp_df_from_generator(point, .user = p, .size = 1 << 20, .indexed = TP_YES); }

static tp_trainer *trainer_of(kind k, int n)
{
    switch (k) {
    case REPLICATED: return tp_sync_multi_gpu_trainer_replicated(.n_devices = n);
    case HIERARCHICAL: return tp_sync_multi_gpu_trainer_replicated(.n_devices = n, .mode = TP_ALL_REDUCE_HIERARCHICAL);
    case ON_CPU: return tp_sync_multi_gpu_trainer_replicated(.n_devices = n, .mode = TP_ALL_REDUCE_CPU);
    case SUMMED: return tp_sync_multi_gpu_trainer_replicated(.n_devices = n, .average = TP_NO);
    case PS_GPU: return tp_sync_multi_gpu_trainer_parameter_server(.n_devices = n, .ps_device = TP_ON_GPU);
    case PS_CPU: return tp_sync_multi_gpu_trainer_parameter_server(.n_devices = n, .ps_device = TP_ON_CPU);
    case DEFAULT: return tp_default_multi_gpu_trainer(n, NULL);
    case ASYNC: return tp_async_multi_gpu_trainer(.n_devices = n);
    case ASYNC_SUM: return tp_async_multi_gpu_trainer(.n_devices = n, .scale_gradient = TP_NO);
    default: return tp_queue_input_trainer();
    }
}

/* Keeps the values of all variables that are saved, when training is over. */
static tp_status keep_values(tp_callback *cb)
{
    tp_dict *d = *(tp_dict **)cb->user;
    int n = 0;
    tp_node *const *all = tp_collection(cb->train->graph, TP_KEY_GLOBAL_VARIABLES, &n);
    tp_status st = TP_OK;
    for (int i = 0; i < n && st == TP_OK && cb->train->session; i++) {
        tp_tensor *t = tp_dict_add(d, tp_node_name(all[i]));
        st = t ? tp_session_read(cb->train->session, tp_node_variable(all[i]), t) : TP_ERR_NOMEM;
    }
    return st;
}
static tp_callback *keeper(tp_dict *d)
{
    tp_callback *cb = tp_callback_new("Keeper", sizeof(tp_dict *));
    *(tp_dict **)cb->user = d;
    cb->after_train = keep_values;
    return cb;
}

static tp_train_config config_of(plan *p, tp_callback *const *cb, int n_cb, int steps)
{
    tp_train_config c;
    memset(&c, 0, sizeof c);
    c.model = model_of(p);
    c.dataflow = flow(p);
    c.callbacks = cb;
    c.n_callbacks = n_cb;
    c.n_monitors = TP_NONE;
    c.steps_per_epoch = steps;
    c.max_epoch = 1;
    c.log_layers = TP_NO;
    return c;
}

static tp_status train_plan(plan *p, int threads, int steps, tp_dict *d)
{
    tp_callback *cb[1] = {keeper(d)};
    tp_train_config c = config_of(p, cb, 1, steps);
    tp_session_config s = tp_default_session_config();
    s.threads = threads;
    c.session_config = &s;
    return tp_launch_train_with_config(&c, trainer_of(p->k, p->n));
}

/* Every variable of a is in b, and the same to `most`, relative to its largest element or 1. */
static void check_close(const char *what, const tp_dict *a, const tp_dict *b, double most)
{
    CHECK_MSG(a->n == b->n && a->n > 8, "%s: %d and %d variables", what, a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        const tp_tensor *x = &a->item[i].value, *y = tp_dict_find(b, a->item[i].name);
        double off = 0;
        if (!CHECK_MSG(y && tp_shape_equal(&x->shape, &y->shape), "%s: %s", what, a->item[i].name)) continue;
        for (int64_t k = 0; k < tp_tensor_size(x); k++) {
            const double u = tp_tensor_get(x, k), v = tp_tensor_get(y, k);
            const double error = fabs(u - v) / (fabs(u) > 1 ? fabs(u) : 1);
            if (!(error <= off)) off = error;
        }
        CHECK_MSG(off <= most, "%s: %s is off by %g", what, a->item[i].name, off);
    }
}

static void one_and_many(kind k, int n, rule r, double most)
{
    char what[64];
    tp_dict one, many;
    memset(&one, 0, sizeof one);
    memset(&many, 0, sizeof many);
    plan a = {SIMPLE, 1, WHOLE, r, false, false, 0, 0, 0}, b = {k, n, WHOLE / n, r, false, false, 0, 0, 0};
    snprintf(what, sizeof what, "trainer %d, %d towers, rule %d", (int)k, n, (int)r);
    CHECK_MSG(train_plan(&a, 1, STEPS, &one) == TP_OK, "%s: %s", what, tp_last_error());
    CHECK_MSG(train_plan(&b, 2, STEPS, &many) == TP_OK, "%s: %s", what, tp_last_error());
    CHECK(a.calls == 1 && b.calls == 1);
    check_close(what, &one, &many, most);
    tp_dict_free(&one);
    tp_dict_free(&many);
}

/* ==== >>equal ========================================================================================= */

TEST(towers_are_one_with_a_larger_batch)
{
    static const kind kinds[] = {REPLICATED, ON_CPU, PS_GPU, PS_CPU, DEFAULT};
    quiet();
    for (int i = 0; i < 5; i++)
        for (int n = 2; n <= 4; n *= 2) one_and_many(kinds[i], n, MOMENTUM, 1e-6);
}

TEST_MAIN()
