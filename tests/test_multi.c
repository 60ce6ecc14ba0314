/* Trainers with a tower on each of several devices of one process: n towers with a batch each are one with n times the batch;
 * and what every trainer promises (checkpoints, resume, stops, errors) holds for them. */
#define TP_IMPLEMENTATION
#include "tp_layers.h"
#include "tp_train.h"
#include "tp_test.h"

#include <signal.h>

/* ==== >>helpers ======================================================================================= */

enum { SIDE = 4, CLASSES = 3, STEPS = 20, WHOLE = 8 /* samples of a step, of all towers together */ };

/* What is trained, and by whom. */
typedef enum kind {
    SIMPLE,
    REPLICATED,
    HIERARCHICAL,
    IN_ORDER,
    ON_CPU,
    SUMMED,
    PS_GPU,
    PS_CPU,
    DEFAULT,
    ASYNC,
    ASYNC_SUM
} kind;
typedef enum rule { MOMENTUM, SGD, ADAM, CLIPPED, ACCUM, ACCUM_ADAM, AVERAGED_ADAM, SCALED_LOSS, PRINTED } rule;
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
    case ADAM: return tp_adam(lr, .epsilon = 0.1f); /* conv0/b's gradient is rounding: bn0 takes its mean away */
    case CLIPPED:
        return tp_apply_grad_processors(tp_momentum(lr), TP_GRADPROCS(tp_gradproc_scale("conv0/W", 0.25f),
                                                                      tp_gradproc_map(times, NULL, "fc0/.*"),
                                                                      tp_gradproc_global_norm_clip(0.5f)));
    case ACCUM: return tp_accum_grad(tp_momentum(lr), 2);
    case SCALED_LOSS: return tp_loss_scale(tp_momentum(lr), .initial = 16, .interval = 3);
    case PRINTED:
        return tp_apply_grad_processors(
            tp_sgd(lr),
            TP_GRADPROCS(tp_gradproc_print("fc0/W"), tp_gradproc_summary("fc0/W"), tp_gradproc_print("fc0/.*")));
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
    case IN_ORDER: return tp_sync_multi_gpu_trainer_replicated(.n_devices = n, .mode = TP_ALL_REDUCE_NCCL);
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
            off = tp_test_worse(off, error);
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
    const int batch = n < WHOLE ? WHOLE / n : 1;
    plan a = {SIMPLE, 1, batch * n, r, false, false, 0, 0, 0}, b = {k, n, batch, r, false, false, 0, 0, 0};
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
    tp_test_keep_log();
    for (int i = 0; i < 5; i++)
        for (int n = 2; n <= 4; n *= 2) one_and_many(kinds[i], n, MOMENTUM, 1e-6);
    one_and_many(HIERARCHICAL, 8, MOMENTUM, 1e-6);
    one_and_many(REPLICATED, 8, SGD, 1e-6); /* the mode for 8 */
    one_and_many(REPLICATED, 9, SGD, 1e-6);
    one_and_many(HIERARCHICAL, 4, MOMENTUM, 1e-6); /* another mode, and a warning */
    one_and_many(REPLICATED, 1, MOMENTUM, 0);
    one_and_many(PS_CPU, 1, MOMENTUM, 0);
}

/* For eight devices the mode is hierarchical, which has its own rounding, unless another one is asked for. */
TEST(the_mode_for_eight_devices)
{
    static const kind kinds[] = {HIERARCHICAL, REPLICATED, IN_ORDER};
    tp_dict d[3];
    memset(d, 0, sizeof d);
    tp_test_keep_log();
    for (int i = 0; i < 3; i++) {
        plan p = {kinds[i], 8, 2, MOMENTUM, false, false, 0, 0, 0};
        CHECK_OK(train_plan(&p, 1, 5, &d[i]));
    }
    int n_other = 0;
    check_close("the mode for 8", &d[0], &d[1], 0);
    check_close("in order", &d[0], &d[2], 1e-6);
    for (int i = 0; i < d[0].n && i < d[2].n; i++)
        n_other += memcmp(d[0].item[i].value.data, d[2].item[i].value.data, tp_tensor_bytes(&d[0].item[i].value)) != 0;
    CHECK(n_other > 0);
    for (int i = 0; i < 3; i++) tp_dict_free(&d[i]);
}

/* Processors, whose rules name the first tower's variables, accumulation and loss scales do the same with several towers. */
TEST(optimizers_around_optimizers_see_one_copy_of_each_gradient)
{
    static const kind kinds[] = {REPLICATED, PS_GPU};
    tp_test_keep_log();
    for (int i = 0; i < 2; i++)
        for (int r = ADAM; r <= SCALED_LOSS; r++) one_and_many(kinds[i], 2, (rule)r, 1e-6);
    CHECK_MSG(tp_test_warnings == 0, "%s", tp_test_logged);
}

/* Of the copies of a variable the first one's gradient is printed and summarised, once a step, whatever the towers. */
static int times_logged(const char *part)
{
    int n = 0;
    for (const char *p = tp_test_logged; (p = strstr(p, part)) != NULL; p++) n++;
    return n;
}
static tp_status count_summaries(tp_callback *cb)
{
    int n = 0, *histograms = *(int **)cb->user;
    tp_node *const *all = tp_collection(cb->train->graph, TP_KEY_SUMMARIES, &n);
    for (int i = 0; i < n; i++) {
        const tp_summary_attrs *a = tp_summary_info(all[i]);
        *histograms += a && a->kind == TP_SUMMARY_HISTOGRAM;
    }
    return TP_OK;
}
TEST(a_gradient_of_several_towers_is_printed_once)
{
    static const kind kinds[] = {SIMPLE, REPLICATED, ON_CPU, PS_GPU, PS_CPU, ASYNC};
    for (int i = 0; i < TP_COUNT(kinds); i++) {
        const int n = kinds[i] == SIMPLE ? 1 : 3, steps = 4;
        int histograms = 0;
        plan p = {kinds[i], n, 2, PRINTED, true, false, 0, 0, 0};
        tp_callback *cb = tp_callback_new("Counter", sizeof(int *));
        *(int **)cb->user = &histograms;
        cb->after_train = count_summaries;
        tp_train_config c = config_of(&p, &cb, 1, steps);
        tp_test_keep_log();
        CHECK_OK(tp_launch_train_with_config(&c, trainer_of(kinds[i], n)));
        const int w = times_logged("fc0/W-grad: shape"), b = times_logged("fc0/b-grad: shape");
        CHECK_MSG(w == steps && b == steps, "trainer %d: %d and %d times in %d steps", (int)kinds[i], w, b, steps);
        CHECK_MSG(histograms == 1, "trainer %d: %d", (int)kinds[i], histograms);
        CHECK(!strstr(tp_test_logged, "tower1/fc0/W-grad") && !strstr(tp_test_logged, "tower2/fc0/W-grad"));
    }
    tp_set_log(NULL, NULL);
}

/* Sums instead of means: n times the gradient. */
TEST(sums_are_means_times_the_towers)
{
    tp_test_keep_log();
    for (int n = 2; n <= 4; n *= 2) {
        tp_dict mean, sum;
        memset(&mean, 0, sizeof mean);
        memset(&sum, 0, sizeof sum);
        plan a = {REPLICATED, n, 4, SGD, false, false, 0.125f, 0, 0},
             b = {SUMMED, n, 4, SGD, false, false, 0.125f / (float)n, 0, 0};
        CHECK_OK(train_plan(&a, 1, 5, &mean));
        CHECK_OK(train_plan(&b, 1, 5, &sum));
        for (int i = 0; i < sum.n; i++) /* but for the rate itself */
            if (strcmp(sum.item[i].name, "learning_rate") == 0) ((float *)sum.item[i].value.data)[0] = 0.125f;
        check_close("sums", &mean, &sum, 0); /* bit for bit: n is a power of two */
        tp_dict_free(&mean);
        tp_dict_free(&sum);
    }
}

TEST(the_same_bits_for_any_number_of_threads)
{
    static const kind kinds[] = {REPLICATED, ON_CPU, PS_GPU, PS_CPU, ASYNC};
    tp_test_keep_log();
    for (int i = 0; i < 5; i++) {
        tp_dict first, other;
        memset(&first, 0, sizeof first);
        plan p = {kinds[i], 3, 4, MOMENTUM, kinds[i] == ASYNC, true, 0, 0, 0};
        CHECK_OK(train_plan(&p, 1, 5, &first));
        for (int threads = 2; threads <= 5; threads += 3) {
            memset(&other, 0, sizeof other);
            CHECK_OK(train_plan(&p, threads, 5, &other));
            check_close("threads", &first, &other, 0);
            tp_dict_free(&other);
        }
        tp_dict_free(&first);
    }
}

/* Gates and kernels that are not fused change no bit. */
static tp_status train_gated(kind k, tp_tri gate, tp_tri compile, tp_dict *d)
{
    plan p = {k, 2, 4, MOMENTUM, false, false, 0, 0, 0};
    tp_trainer *t = trainer_of(k, 2);
    const tp_model m = model_of(&p);
    t->gate_gradients = gate;
    t->xla_compile = compile;
    t->aggregation_method = TP_AGGREGATION_EXPERIMENTAL_TREE;
    t->colocate_gradients_with_ops = TP_YES;
    tp_status st = tp_trainer_setup_graph(t, &m, tp_queue_input(flow(&p)));
    tp_callback *cb = keeper(d);
    if (st == TP_OK)
        st = tp_train(
            t, TP_OPTIONS(tp_train_desc, .callbacks = &cb, .n_callbacks = 1, .steps_per_epoch = 4, .max_epoch = 1));
    int n_gradients = 0, n_gated = 0; /* each gradient of a tower that makes an update waits for all of them */
    for (int i = 0; i < tp_graph_n_operations(t->graph); i++) {
        const tp_operation *op = tp_graph_operation(t->graph, i);
        if (strstr(op->name, "gate_gradients")) n_gradients += op->n_ctrl;
        for (int c = 0; c < op->n_ctrl; c++) n_gated += strstr(op->ctrl[c]->name, "gate_gradients") != NULL;
    }
    int n_trained = 0;
    tp_collection(t->graph, TP_KEY_TRAINABLE_VARIABLES, &n_trained);
    CHECK_MSG(gate == TP_YES ? n_gated == n_gradients && n_gated >= n_trained : n_gated == 0,
              "%d of %d gated, %d trained", n_gated, n_gradients, n_trained);
    tp_plan_info info;
    memset(&info, 0, sizeof info);
    tp_node *fetch = t->train_op;
    tp_exec *e = tp_exec_new(t->state.session);
    CHECK((t->creator.config.no_fusion) == (compile == TP_NO) && fetch && e);
    tp_exec_free(e);
    tp_trainer_free(t);
    return st;
}
TEST(options_of_setup_graph_change_no_bit)
{
    static const kind kinds[] = {SIMPLE, REPLICATED, PS_GPU, ASYNC};
    tp_test_keep_log();
    for (int i = 0; i < 4; i++) {
        tp_dict plain, gated, slow;
        memset(&plain, 0, sizeof plain);
        memset(&gated, 0, sizeof gated);
        memset(&slow, 0, sizeof slow);
        CHECK_OK(train_gated(kinds[i], TP_UNSET, TP_UNSET, &plain));
        CHECK_OK(train_gated(kinds[i], TP_YES, TP_YES, &gated));
        CHECK_OK(train_gated(kinds[i], TP_NO, TP_NO, &slow));
        check_close("gated", &plain, &gated, 0);
        check_close("not fused", &plain, &slow, 0);
        tp_dict_free(&plain);
        tp_dict_free(&gated);
        tp_dict_free(&slow);
    }
}

/* ==== >>async ========================================================================================= */
/* cost of tower k: w x_k, so that its gradient is the number x_k. */

enum { DEEP = 3 }; /* towers */
typedef struct line {
    rule r;
    bool scale;
} line;
static tp_node *line_build(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(2), tp_init_ones());
    (void)user;
    return tp_named(tp_sum(tp_mul(w, in[0])), "cost");
}
/* The sum of all values that the updates of the towers give. */
static tp_node *add_up(tp_node *var, tp_node *updated, tp_node *pred, void *user)
{
    tp_graph *g = tp_node_graph(var);
    tp_variable *made = tp_find_variable(g, "all_values");
    (void)user;
    return tp_assign_add(made ? made->node : tp_get_variable_as(g, "all_values", TP_F32, var->shape, tp_init_zeros()),
                         updated, pred);
}
static tp_optimizer *line_optimizer(tp_graph *g, void *user)
{
    tp_node *lr = tp_get_scalar_variable(g, "learning_rate", 0.125f);
    const rule r = ((const line *)user)->r;
    return r == SGD             ? tp_sgd(lr)
           : r == ADAM          ? tp_adam(lr, .epsilon = 0.01f)
           : r == ACCUM         ? tp_accum_grad(tp_sgd(lr), 2)
           : r == AVERAGED_ADAM ? tp_post_process(tp_adam(lr, .epsilon = 0.01f), add_up, NULL)
           : r == ACCUM_ADAM    ? tp_accum_grad(tp_adam(lr, .epsilon = 0.01f), 2)
                                : tp_momentum(lr);
}
static tp_status line_point(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user, (void)pass;
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape(2));
    for (int i = 0; i < 2 && st == TP_OK; i++) ((float *)dp->c[0].data)[i] = (float)((index * 7 + i * 3) % 11 - 5) / 4;
    return st;
}
static const tp_spec line_inputs[] = {TP_SPEC("x", TP_F32, 2)};

/* The same in double, update by update. */
static void line_reference(const line *l, int steps, double *w, double *all)
{
    double m[2] = {0, 0}, v[2] = {0, 0}, power1 = 0.9, power2 = 0.999, sum[2] = {0, 0};
    const bool accumulates = l->r == ACCUM || l->r == ACCUM_ADAM;
    w[0] = w[1] = 1;
    all[0] = all[1] = 0;
    for (int s = 0; s < steps; s++) {
        for (int k = 0; k < DEEP; k++)
            for (int i = 0; i < 2; i++) {
                const double g = (double)(((s * DEEP + k) * 7 + i * 3) % 11 - 5) / 4 / (l->scale ? DEEP : 1);
                if (l->r == SGD) w[i] -= 0.125 * g;
                if (l->r == MOMENTUM) m[i] = 0.9 * m[i] + g, w[i] -= 0.125 * m[i];
                sum[i] = accumulates ? sum[i] + g : g; /* every second step it is applied and emptied */
                if (accumulates && s % 2 == 0) continue;
                if (l->r == ADAM || l->r == ACCUM_ADAM || l->r == AVERAGED_ADAM) {
                    m[i] += 0.1 * (sum[i] - m[i]);
                    v[i] += 0.001 * (sum[i] * sum[i] - v[i]);
                    w[i] -= 0.125 * sqrt(1 - power2) / (1 - power1) * m[i] / (sqrt(v[i]) + 0.01);
                }
                if (l->r == ACCUM) w[i] -= 0.125 * sum[i];
                sum[i] = 0;
                all[i] += w[i];
            }
        if (!accumulates || s % 2) power1 *= 0.9, power2 *= 0.999; /* once a step that applies */
    }
}
TEST(each_tower_makes_its_own_update_in_order)
{
    tp_test_keep_log();
    for (int scale = 0; scale < 2; scale++)
        for (int r = 0; r < 6; r++) {
            static const rule rules[] = {SGD, MOMENTUM, ADAM, ACCUM, ACCUM_ADAM, AVERAGED_ADAM};
            line l = {rules[r], scale != 0};
            double w[2], all[2];
            tp_dict d;
            memset(&d, 0, sizeof d);
            tp_callback *cb = keeper(&d);
            tp_train_config c;
            memset(&c, 0, sizeof c);
            c.model.inputs = line_inputs;
            c.model.n_inputs = 1;
            c.model.build_graph = line_build;
            c.model.optimizer = line_optimizer;
            c.model.user = &l;
            c.dataflow = tp_df_from_generator(line_point, .size = 1 << 20, .indexed = TP_YES);
            c.callbacks = &cb;
            c.n_callbacks = 1;
            c.n_monitors = TP_NONE;
            c.steps_per_epoch = 6;
            c.max_epoch = 1;
            CHECK_OK(tp_launch_train_with_config(&c, trainer_of(scale ? ASYNC : ASYNC_SUM, DEEP)));
            line_reference(&l, 6, w, all);
            const tp_tensor *t = tp_dict_find(&d, "w");
            if (CHECK(t != NULL))
                for (int i = 0; i < 2; i++) CHECK_NEAR(tp_tensor_get(t, i), w[i], 2e-6, 0);
            t = tp_dict_find(&d, "all_values");
            for (int i = 0; i < 2 && l.r == AVERAGED_ADAM && CHECK(t != NULL); i++)
                CHECK_NEAR(tp_tensor_get(t, i), all[i], 2e-5, 0);
            tp_dict_free(&d);
        }
}

/* What an optimizer reads: its slots as they are when the run begins, or after the update that comes before its own. */
static tp_node *add_slot(tp_optimizer *o, const tp_grad_var *gvs, int n)
{
    tp_node *slot = tp_optimizer_slot(o, gvs[0].var, "sum", NULL, tp_init_zeros());
    CHECK(n == 1 && (tp_optimizer_read(o, slot) == slot) == !o->after);
    tp_node *sum = tp_add(tp_optimizer_read(o, slot), gvs[0].grad), *ops[2];
    ops[0] = tp_assign(slot, sum, NULL);
    ops[1] = tp_assign_sub(gvs[0].var, tp_mul(sum, o->learning_rate), NULL);
    return tp_group(o->graph, ops, 2, NULL);
}
static tp_optimizer *summing(tp_graph *g, void *user)
{
    (void)user;
    tp_optimizer *o = tp_optimizer_new(g, "Summing", add_slot, NULL);
    o->learning_rate = tp_get_scalar_variable(g, "learning_rate", 0.125f);
    return o;
}
TEST(optimizers_of_ones_own_read_what_comes_before)
{
    tp_test_keep_log();
    tp_dict d;
    memset(&d, 0, sizeof d);
    tp_callback *cb = keeper(&d);
    tp_train_config c;
    memset(&c, 0, sizeof c);
    c.model.inputs = line_inputs;
    c.model.n_inputs = 1;
    c.model.build_graph = line_build;
    c.model.optimizer = summing;
    c.dataflow = tp_df_from_generator(line_point, .size = 1 << 20, .indexed = TP_YES);
    c.callbacks = &cb;
    c.n_callbacks = 1;
    c.n_monitors = TP_NONE;
    c.steps_per_epoch = 3;
    c.max_epoch = 1;
    CHECK_OK(tp_launch_train_with_config(&c, trainer_of(ASYNC_SUM, DEEP)));
    double sum = 0, w = 1;
    for (int i = 0; i < 3 * DEEP; i++) {
        sum += (double)(i * 7 % 11 - 5) / 4;
        w -= 0.125 * sum;
    }
    const tp_tensor *t = tp_dict_find(&d, "w");
    if (CHECK(t != NULL)) CHECK_NEAR(tp_tensor_get(t, 0), w, 1e-6, 0);
    tp_dict_free(&d);
}

/* ==== >>places ======================================================================================== */

static const tp_variable *variable_of(const tp_trainer *t, const char *name)
{
    return tp_find_variable(t->graph, name);
}
static bool is_of_summaries(const tp_variable *v)
{
    return strncmp(v->name, "EMA/", 4) == 0 || strncmp(v->name, "QueueInput/", 11) == 0;
}
static tp_trainer *set_up(plan *p)
{
    tp_trainer *t = trainer_of(p->k, p->n);
    const tp_model m = model_of(p);
    if (!CHECK(t != NULL) || !CHECK_OK(tp_trainer_setup_graph(t, &m, tp_queue_input(flow(p))))) return t;
    return t;
}
TEST(variables_live_where_the_trainer_says)
{
    tp_test_keep_log();
    plan p = {REPLICATED, 3, 4, MOMENTUM, false, false, 0, 0, 0};
    tp_trainer *t = set_up(&p);
    for (int i = 0; i < tp_graph_n_variables(t->graph); i++) {
        const tp_variable *v = tp_graph_variable(t->graph, i);
        const int tower = strncmp(v->name, "tower", 5) == 0 ? v->name[5] - '0' : 0;
        if (is_of_summaries(v)) continue;
        CHECK_MSG(v->device == tower && v->local == (tower > 0) && !v->copy_of == (tower == 0), "%s on %d", v->name,
                  v->device);
        if (v->copy_of) CHECK_STR(v->copy_of->name, v->name + 7);
    }
    CHECK(variable_of(t, "tower2/fc0/W/Momentum") && variable_of(t, "conv0/W/Momentum"));
    CHECK(tp_graph_find(t->graph, "tower2/conv0/output") &&
          tp_node_device(tp_graph_find(t->graph, "tower2/conv0/output")) == 2);
    CHECK(tp_tower_handles_n(tp_trainer_towers(t)) == 3 && t->n_devices == 3 && t->devices[2] == 2);
    int n = 0;
    const tp_spec *spec = tp_trainer_inputs_desc(t, &n);
    CHECK(n == 2 && strcmp(spec[1].name, "label") == 0);
    CHECK_ERR(tp_trainer_set_tower_func(t, t->state.tower_func), TP_ERR_STATE, "set once");
    tp_trainer_free(t);
    /* conv0/W of 36 elements, conv0/b of 4, bn0's four of 4 each, fc0/W of 192, fc0/b of 3: each goes where least is */
    static const struct {
        const char *name;
        int gpu;
    } place[] = {{"conv0/W", 0}, {"conv0/b", 1}};
    p.k = PS_GPU, p.n = 2;
    t = set_up(&p);
    int64_t elements[2] = {0, 0};
    for (int i = 0; i < 2; i++) CHECK_MSG(variable_of(t, place[i].name)->device == place[i].gpu, "%s", place[i].name);
    for (int i = 0; i < tp_graph_n_variables(t->graph); i++) {
        const tp_variable *v = tp_graph_variable(t->graph, i);
        const char *slot = strstr(v->name, "/Momentum");
        if (is_of_summaries(v)) continue;
        CHECK_MSG(!v->local && !v->copy_of, "%s", v->name);
        if (!slot) {
            if (strncmp(v->name, "learning", 8) != 0)
                CHECK_MSG(v->device == (elements[1] < elements[0]), "%s is on %d", v->name, v->device);
            elements[v->device] += tp_shape_size(&v->shape);
        } else { /* beside its variable */
            char name[100];
            snprintf(name, sizeof name, "%.*s", (int)(slot - v->name), v->name);
            CHECK_MSG(v->device == variable_of(t, name)->device, "%s", v->name);
        }
    }
    tp_trainer_free(t);
    static const kind hosts[] = {PS_CPU, DEFAULT, ASYNC};
    for (int i = 0; i < 3; i++) {
        p.k = hosts[i], p.n = 4;
        t = set_up(&p);
        CHECK(variable_of(t, "conv0/W")->device == 4 && variable_of(t, "fc0/W/Momentum")->device == 4);
        CHECK(tp_node_device(tp_graph_find(t->graph, "tower3/conv0/output")) == 3);
        tp_trainer_free(t);
    }
    p.k = ASYNC, p.n = 3; /* spread below 4 */
    t = set_up(&p);
    CHECK(variable_of(t, "conv0/W")->device == 0 && variable_of(t, "conv0/b")->device == 1);
    tp_trainer_free(t);
    for (int asked = 0; asked < 3; asked++) /* a server chooses the host from three devices on, if it is not told */
        for (p.n = 1; p.n <= 4; p.n++) {
            static const tp_ps_device places[] = {TP_ON_AUTO, TP_ON_GPU, TP_ON_CPU};
            const tp_model m = model_of(&p);
            t = tp_sync_multi_gpu_trainer_parameter_server(.n_devices = p.n, .ps_device = places[asked]);
            CHECK_OK(tp_trainer_setup_graph(t, &m, tp_queue_input(flow(&p))));
            const bool on_host = asked == 2 || (asked == 0 && p.n > 2);
            CHECK_MSG(variable_of(t, "conv0/W")->device == (on_host ? p.n : 0) &&
                          variable_of(t, "conv0/b")->device == (on_host ? p.n : p.n > 1),
                      "%d devices, choice %d", p.n, asked);
            tp_trainer_free(t);
        }
}

/* No session is made; what it would have is looked at. */
static int cpu_devices_asked;
static tp_session *look_at_config(tp_session_creator *c, tp_graph *g)
{
    (void)g;
    cpu_devices_asked = c->config.n_cpu_devices;
    tp_fail(TP_ERR_UNSUPPORTED, "there are no such devices");
    return NULL;
}
/* The config names more devices than there are towers: values on the host are not on the third of its GPUs. */
TEST(the_host_is_no_gpu)
{
    static const kind hosts[] = {PS_CPU, DEFAULT};
    tp_device device[4], *list[4];
    for (int i = 0; i < 4; i++) {
        plan p = {hosts[i % 2], 2, 4, MOMENTUM, false, false, 0, 0, 0};
        const tp_model m = model_of(&p);
        const bool gpus = i < 2;
        tp_test_keep_log();
        TEST_MAY_ERROR("there are no such devices");
        memset(device, 0, sizeof device);
        for (int k = 0; k < 4; k++) device[k].host = !gpus, list[k] = &device[k];
        tp_trainer *t = trainer_of(hosts[i % 2], 2);
        t->creator.config.devices = list;
        t->creator.config.n_devices = 4;
        t->creator.create = look_at_config;
        cpu_devices_asked = -1;
        CHECK_OK(tp_trainer_setup_graph(t, &m, tp_queue_input(flow(&p))));
        CHECK_MSG(variable_of(t, "conv0/W")->device == (gpus ? 4 : 2), "on %d", variable_of(t, "conv0/W")->device);
        CHECK_OK(tp_trainer_setup_callbacks(t, NULL, 0, NULL, 0));
        CHECK_ERR(tp_trainer_initialize(t, NULL), TP_ERR_UNSUPPORTED, "no such devices");
        CHECK_MSG(cpu_devices_asked == (gpus ? 1 : 0), "%d CPU devices", cpu_devices_asked);
        tp_trainer_free(t);
    }
}

/* Devices in another order, one of them twice, the host of the parameters among them. */
TEST(towers_on_devices_of_ones_own_choice)
{
    tp_test_keep_log();
    for (int k = 0; k < 4; k++) {
        tp_dict usual, chosen;
        memset(&usual, 0, sizeof usual);
        memset(&chosen, 0, sizeof chosen);
        static const kind kinds[] = {REPLICATED, PS_GPU, PS_CPU, ASYNC};
        static const int devices[3] = {2, 0, 2};
        plan p = {kinds[k], 3, 4, MOMENTUM, false, false, 0, 0, 0};
        CHECK_OK(train_plan(&p, 2, 4, &usual));
        tp_callback *cb[1] = {keeper(&chosen)};
        tp_train_config c = config_of(&p, cb, 1, 4);
        tp_trainer *t = k == 0   ? tp_sync_multi_gpu_trainer_replicated(.n_devices = 3, .devices = devices)
                        : k == 1 ? tp_sync_multi_gpu_trainer_parameter_server(.n_devices = 3, .devices = devices,
                                                                              .ps_device = TP_ON_GPU)
                        : k == 2 ? tp_default_multi_gpu_trainer(3, devices)
                                 : tp_async_multi_gpu_trainer(.n_devices = 3, .devices = devices);
        CHECK_OK(tp_launch_train_with_config(&c, t));
        check_close("devices", &usual, &chosen, 0);
        tp_dict_free(&usual);
        tp_dict_free(&chosen);
    }
}

/* ==== >>copies ======================================================================================== */

typedef struct seen {
    bool equal_at_start, bn_differs, bn_equal;
} seen;
static bool same_value(tp_session *s, const tp_variable *a, const tp_variable *b)
{
    tp_tensor x, y;
    memset(&x, 0, sizeof x);
    memset(&y, 0, sizeof y);
    CHECK_OK(tp_session_read(s, a, &x));
    CHECK_OK(tp_session_read(s, b, &y));
    const bool same = tp_tensor_bytes(&x) == tp_tensor_bytes(&y) && memcmp(x.data, y.data, tp_tensor_bytes(&x)) == 0;
    tp_tensor_free(&x);
    tp_tensor_free(&y);
    return same;
}
static bool copies_equal(const tp_train_state *s, bool statistics)
{
    bool equal = true;
    int n = 0;
    for (int i = 0; i < tp_graph_n_variables(s->graph); i++) {
        const tp_variable *v = tp_graph_variable(s->graph, i);
        const bool statistic = strstr(v->name, "EMA") != NULL;
        if (!v->copy_of || statistic != statistics) continue;
        n++;
        equal = equal && same_value(s->session, v, v->copy_of);
    }
    CHECK(n > 0);
    return equal;
}
static tp_status look_before_train(tp_callback *cb)
{
    (*(seen **)cb->user)->equal_at_start = copies_equal(cb->train, false) && copies_equal(cb->train, true);
    return TP_OK;
}
static tp_status look_after_epoch(tp_callback *cb)
{
    CHECK(copies_equal(cb->train, false)); /* each made the same updates, bit for bit */
    (*(seen **)cb->user)->bn_differs = !copies_equal(cb->train, true);
    return TP_OK;
}
static tp_status look_at_trigger(tp_callback *cb)
{
    (*(seen **)cb->user)->bn_equal = copies_equal(cb->train, true);
    return TP_OK;
}
TEST(copies_follow_the_first_tower)
{
    for (int every = 0; every < 2; every++) {
        seen s = {false, false, false};
        tp_test_keep_log();
        plan p = {REPLICATED, 2, 4, MOMENTUM, false, true, 0, 0, 0};
        tp_callback *cb = tp_callback_new("Looks", sizeof(seen *));
        *(seen **)cb->user = &s;
        cb->before_train = look_before_train;
        cb->after_epoch = look_after_epoch;
        cb->trigger = look_at_trigger;
        tp_train_config c = config_of(&p, &cb, 1, 3);
        c.max_epoch = 2;
        CHECK_OK(tp_launch_train_with_config(
            &c,
            tp_sync_multi_gpu_trainer_replicated(.n_devices = 2, .broadcast_every_epoch = every ? TP_UNSET : TP_NO)));
        CHECK(s.equal_at_start && s.bn_differs && s.bn_equal == (every != 0));
        CHECK_HAS(tp_test_logged, "Running Op SyncVariables/sync_variables_from_main_tower ...");
        CHECK_HAS(tp_test_logged, "14 variables of other towers"); /* two of conv0, fc0, four of bn0, six slots */
    }
}

/* ==== >>checkpoints =================================================================================== */

static tp_status save_and_keep(plan *p, const char *dir, int epochs, const char *checkpoint, tp_tri resume, tp_dict *d)
{
    tp_callback *cb[2] = {tp_cb_model_saver(.checkpoint_dir = dir), keeper(d)};
    tp_train_config c = config_of(p, cb, 2, 3);
    c.max_epoch = epochs;
    c.auto_resume = resume;
    c.checkpoint = checkpoint;
    c.n_monitors = 0;
    return tp_launch_train_with_config(&c, trainer_of(p->k, p->n));
}

/* What any of them saved goes into any other: the names and numbers of variables are the same. */
TEST(checkpoints_load_into_any_number_of_devices)
{
    static const struct {
        kind k;
        int n;
    } made[] = {{SIMPLE, 1}, {REPLICATED, 2}, {REPLICATED, 4}, {PS_GPU, 2}, {ASYNC, 4}};
    char file[5][600];
    tp_test_keep_log();
    int n_names = 0;
    for (int i = 0; i < 5; i++) {
        tp_dict none, saved;
        memset(&none, 0, sizeof none);
        memset(&saved, 0, sizeof saved);
        const char *dir = tp_test_tmpdir();
        CHECK_OK(tp_logger_set_dir(dir, 'k'));
        plan p = {made[i].k, made[i].n, 4, MOMENTUM, false, false, 0, 0, 0};
        CHECK_OK(save_and_keep(&p, dir, 1, NULL, TP_NO, &none));
        snprintf(file[i], sizeof file[i], "%s/model-3.npz", dir);
        int model = 0;
        CHECK_OK(tp_load_checkpoint_vars(file[i], &saved));
        for (int k = 0; k < saved.n; k++) {
            model += strncmp(saved.item[k].name, "tp:", 3) != 0;
            CHECK_MSG(!strstr(saved.item[k].name, "tower1") && !strstr(saved.item[k].name, "tower2"), "%s is saved",
                      saved.item[k].name);
        }
        if (i == 0) n_names = model;
        CHECK_MSG(model == n_names && model == none.n, "%d variables, not %d", model, n_names);
        tp_dict_free(&none);
        tp_dict_free(&saved);
    }
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 5; k++) {
            tp_dict loaded, saved;
            memset(&loaded, 0, sizeof loaded);
            memset(&saved, 0, sizeof saved);
            plan p = {made[k].k, made[k].n, 4, MOMENTUM, false, false, 0, 0, 0};
            tp_callback *cb[1] = {keeper(&loaded)};
            tp_train_config c = config_of(&p, cb, 1, TP_NO_STEPS);
            c.checkpoint = file[i];
            c.max_epoch = 1;
            tp_test_keep_log();
            CHECK_OK(tp_launch_train_with_config(&c, trainer_of(p.k, p.n)));
            CHECK_MSG(!strstr(tp_test_logged, "not found in the checkpoint") && !strstr(tp_test_logged, "not in the"),
                      "%s", tp_test_logged);
            CHECK_OK(tp_load_checkpoint_vars(file[i], &saved));
            for (int q = saved.n - 1; q >= 0; q--) /* the model alone */
                if (strncmp(saved.item[q].name, "tp:", 3) == 0) {
                    tp_free(saved.item[q].name);
                    tp_tensor_free(&saved.item[q].value);
                    saved.item[q] = saved.item[--saved.n];
                }
            check_close("loaded", &loaded, &saved, 0);
            tp_dict_free(&loaded);
            tp_dict_free(&saved);
        }
}

static void check_same_files(const char *a, const char *b)
{
    tp_dict x, y;
    memset(&x, 0, sizeof x);
    memset(&y, 0, sizeof y);
    if (CHECK_OK(tp_load_checkpoint_vars(a, &x)) && CHECK_OK(tp_load_checkpoint_vars(b, &y))) {
        CHECK(x.n == y.n && x.n > 10);
        for (int i = 0; i < x.n; i++) {
            const tp_tensor *t = tp_dict_find(&y, x.item[i].name);
            CHECK_MSG(t && tp_tensor_bytes(t) == tp_tensor_bytes(&x.item[i].value) &&
                          memcmp(t->data, x.item[i].value.data, tp_tensor_bytes(t)) == 0,
                      "%s differs", x.item[i].name);
        }
    }
    tp_dict_free(&x);
    tp_dict_free(&y);
}
static const kind all_kinds[] = {REPLICATED, ON_CPU, PS_GPU, PS_CPU, ASYNC};
TEST(a_resumed_training_ends_with_the_same_bits)
{
    for (int i = 0; i < 5; i++) {
        char straight[600], resumed[600];
        tp_dict d;
        memset(&d, 0, sizeof d);
        tp_test_keep_log();
        plan p = {all_kinds[i], 2, 4, ADAM, false, true, 0, 0, 0};
        const char *dir = tp_test_tmpdir();
        snprintf(straight, sizeof straight, "%s/model-9.npz", dir);
        CHECK_OK(tp_logger_set_dir(dir, 'k'));
        CHECK_OK(save_and_keep(&p, dir, 3, NULL, TP_NO, &d));
        dir = tp_test_tmpdir();
        snprintf(resumed, sizeof resumed, "%s/model-9.npz", dir);
        CHECK_OK(tp_logger_set_dir(dir, 'k'));
        CHECK_OK(save_and_keep(&p, dir, 1, NULL, TP_NO, &d));
        CHECK_OK(save_and_keep(&p, dir, 2, NULL, TP_YES, &d));
        CHECK_OK(save_and_keep(&p, dir, 3, NULL, TP_YES, &d));
        check_same_files(straight, resumed);
        tp_dict_free(&d);
    }
}

/* A checkpoint in the middle of an epoch, where copies of batch norm's averages are behind those of the first tower. */
static tp_status fail_at_step(tp_callback *cb)
{
    return cb->train->global_step == *(const int *)cb->user ? tp_fail(TP_ERR_ARG, "the callback has a fault") : TP_OK;
}
static tp_status save_within(plan *p, const char *dir, int fail, tp_tri resume)
{
    tp_callback *cb[3] = {
        tp_cb_periodic_trigger(tp_cb_model_saver(.checkpoint_dir = dir), .every_k_steps = 3, .every_k_epochs = 1),
        tp_callback_new("Fails", sizeof(int)),
        tp_cb_data_parallel_inference_runner(tp_df_fixed_size(flow(p), 3), {tp_inf_scalar_stats({"cost"})},
                                             .n_devices = 2)};
    *(int *)cb[1]->user = fail;
    cb[1]->trigger_step = fail_at_step;
    tp_train_config c = config_of(p, cb, 3, 5);
    c.max_epoch = 2;
    c.auto_resume = resume;
    c.n_monitors = 0;
    return tp_launch_train_with_config(
        &c, p->k == REPLICATED ? tp_sync_multi_gpu_trainer_replicated(.n_devices = 2, .broadcast_every_epoch = TP_NO)
                               : trainer_of(p->k, p->n));
}
TEST(a_training_that_failed_in_mid_epoch_goes_on_with_the_same_bits)
{
    TEST_EXPECT_ERROR("the callback has a fault");
    static const kind kinds[] = {REPLICATED, PS_GPU, ASYNC};
    for (int i = 0; i < 3; i++) {
        char straight[600], resumed[600];
        tp_test_keep_log();
        plan p = {kinds[i], 2, 4, MOMENTUM, false, true, 0, 0, 0};
        const char *dir = tp_test_tmpdir();
        snprintf(straight, sizeof straight, "%s/model-10.npz", dir);
        CHECK_OK(tp_logger_set_dir(dir, 'k'));
        CHECK_OK(save_within(&p, dir, -1, TP_NO));
        dir = tp_test_tmpdir();
        snprintf(resumed, sizeof resumed, "%s/model-10.npz", dir);
        CHECK_OK(tp_logger_set_dir(dir, 'k'));
        CHECK(save_within(&p, dir, 8, TP_NO) ==
              TP_ERR_ARG); /* the last checkpoint is of step 6, the first of epoch 2 */
        CHECK_OK(save_within(&p, dir, -1, TP_YES));
        CHECK_HAS(tp_test_logged, "after step 1 of 5");
        check_same_files(straight, resumed);
        tp_dict d;
        memset(&d, 0, sizeof d);
        CHECK_OK(
            tp_load_checkpoint_vars(resumed, &d)); /* what differs from the first tower is there, and nothing else */
        CHECK((tp_dict_find(&d, "tp:local/tower1/bn0/mean/EMA") != NULL) == (kinds[i] == REPLICATED));
        CHECK(!tp_dict_find(&d, "tp:local/tower1/conv0/W") && !tp_dict_find(&d, "tp:local/tower1/conv0/W/Momentum"));
        tp_dict_free(&d);
    }
}

/* Another number of devices goes on from the same place, with other bits. */
TEST(a_training_goes_on_with_another_number_of_devices)
{
    static const int towers[] = {2, 4, 1, 2};
    tp_dict d;
    memset(&d, 0, sizeof d);
    tp_test_keep_log();
    const char *dir = tp_test_tmpdir();
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    for (int i = 0; i < 4; i++) {
        plan p = {towers[i] == 1 ? SIMPLE : REPLICATED, towers[i], 4, MOMENTUM, false, true, 0, 0, 0};
        tp_dict_free(&d);
        CHECK_OK(save_and_keep(&p, dir, i + 1, NULL, TP_YES, &d));
        const tp_tensor *step = tp_dict_find(&d, "global_step");
        CHECK(step && (int)tp_tensor_get(step, 0) == 3 * (i + 1));
    }
    CHECK_HAS(tp_test_logged, "training goes on with epoch 4");
    tp_dict_free(&d);
}

/* ==== >>ends ========================================================================================== */

typedef struct ender {
    int at; /* global step */
    tp_status (*act)(tp_callback *cb);
    int *ended;
} ender;
static tp_status end_step(tp_callback *cb)
{
    const ender *e = (const ender *)cb->user;
    return cb->train->global_step == e->at ? e->act(cb) : TP_OK;
}
static tp_status end_after(tp_callback *cb)
{
    ++*((const ender *)cb->user)->ended;
    return TP_OK;
}
static tp_status by_ctrl_c(tp_callback *cb)
{
    (void)cb;
    raise(SIGINT);
    return TP_OK;
}
static tp_status by_stop(tp_callback *cb) { return tp_stop(cb->train, "it is enough"); }
static tp_status by_error(tp_callback *cb)
{
    (void)cb;
    return tp_fail(TP_ERR_ARG, "the callback has a fault");
}
TEST(stops_and_errors_end_every_trainer)
{
    TEST_MAY_ERROR("the callback has a fault");
    TEST_MAY_ERROR("the disk is gone");
    TEST_MAY_ERROR("is NaN after step");
    for (int i = 0; i < 5; i++)
        for (int how = 0; how < 5; how++) {
            static tp_status (*const act[])(tp_callback *) = {by_ctrl_c, by_stop, by_error, NULL, NULL};
            static const tp_status want[] = {TP_INTR, TP_OK, TP_ERR_ARG, TP_ERR_IO, TP_ERR_NUMERIC};
            static const char *const said[] = {"Detected Ctrl-C", "it is enough", "global_step=4",
                                               "global_step=", "mean_cost_of_towers' is NaN"};
            int ended = 0;
            tp_test_keep_log();
            plan p = {all_kinds[i], 2, 4, SGD, true, false, 0, 0, 0};
            if (how == 3) p.fail_at = 9;
            if (how == 4) p.rate = 1e30f;
            tp_callback *cb = tp_callback_new("Ender", sizeof(ender));
            ender *e = (ender *)cb->user;
            e->at = act[how] ? 4 : -1;
            e->act = act[how];
            e->ended = &ended;
            cb->trigger_step = end_step;
            cb->after_train = end_after;
            tp_train_config c = config_of(&p, &cb, 1, 20);
            const tp_status st = tp_launch_train_with_config(&c, trainer_of(p.k, p.n));
            CHECK_MSG(st == want[how], "trainer %d, end %d: %s, %s", i, how, tp_status_name(st), tp_last_error());
            CHECK_HAS(tp_test_logged, said[how]);
            CHECK(ended == 1);
        }
}

/* ==== >>learns ========================================================================================= */
/* The short form of tests/bench/towers.c: drawn digits, 64 a step whatever the number of towers. */

static const tp_spec digit_inputs[] = {TP_SPEC("input", TP_F32, TP_ANY, 28, 28), TP_SPEC("label", TP_I32, TP_ANY)};
static tp_node *digit_net(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    tp_node *x = tp_reshape_to(in[0], tp_make_shape(TP_ANY, 784));
    x = tp_fully_connected(x, "fc0", .units = 32, .activation = tp_relu);
    x = tp_fully_connected(x, "fc1", .units = 10);
    tp_sym_prediction_incorrect(x, in[1], 1, "incorrect_vector");
    return tp_named(tp_mean(tp_sparse_softmax_cross_entropy(x, in[1])), "cost");
}
static tp_optimizer *digit_optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_adam(tp_get_scalar_variable(g, "learning_rate", 3e-3f));
}
static tp_status read_error(tp_callback *cb)
{
    tp_stat stat;
    memset(&stat, 0, sizeof stat);
    CHECK_OK(tp_monitors_get_latest(cb->train->monitors, "validation_error", &stat));
    **(double **)cb->user = stat.value;
    return TP_OK;
}
static double error_of(kind k, int n)
{
    double error = 1;
    tp_callback *cb[2] = {
        tp_cb_inference_runner(tp_df_fixed_size(tp_df_batch(tp_df_digits("test", .shuffle = false), 250), 4),
                               {tp_inf_classification_error()}),
        tp_callback_new("Reads", sizeof(double *))};
    *(double **)cb[1]->user = &error;
    cb[1]->trigger = read_error;
    tp_train_config c;
    memset(&c, 0, sizeof c);
    c.model.inputs = digit_inputs;
    c.model.n_inputs = 2;
    c.model.build_graph = digit_net;
    c.model.optimizer = digit_optimizer;
    c.dataflow = tp_df_batch(tp_df_digits("train"), 64 / n);
    c.callbacks = cb;
    c.n_callbacks = 2;
    c.n_monitors = TP_NONE;
    c.steps_per_epoch = 100;
    c.max_epoch = 1;
    c.log_layers = TP_NO;
    CHECK_OK(tp_launch_train_with_config(&c, trainer_of(k, n)));
    return error;
}
TEST(digits_are_learnt_as_well_as_on_one_device)
{
    static const kind kinds[] = {REPLICATED, PS_GPU, ASYNC};
    tp_test_keep_log();
    const double one = error_of(SIMPLE, 1);
    CHECK_MSG(one > 0 && one < 0.3, "one device: %g", one);
    for (int i = 0; i < 3; i++) {
        const double many = error_of(kinds[i], 2);
        CHECK_MSG(fabs(many - one) < 0.02, "trainer %d: %g, one device %g", i, many, one);
    }
}

/* ==== >>gan ============================================================================================ */
/* Two networks with an optimizer each. Data are 3 + 0.5 noise, the generator makes b + 0.5 noise, the discriminator is a line. */

typedef struct gan {
    int towers;
    bool separate; /* in turn, else both in one run */
    tp_node *z, *d_loss[2], *g_loss[2], *d_op, *g_op;
    int built;
} gan;
static tp_node *discriminate(tp_graph *g, tp_node *x)
{
    tp_node *y = NULL;
    TP_VARIABLE_SCOPE(g, "discrim", .reuse = TP_REUSE_AUTO)
    {
        y = tp_fully_connected(tp_fully_connected(x, "fc", .units = 8, .activation = tp_tanh), "out", .units = 1);
    }
    return y;
}
static tp_node *gan_graph(tp_graph *g, tp_node *const *in, void *user)
{
    gan *n = (gan *)user;
    const tp_tower_context *tower = tp_current_tower_context(g);
    tp_node *fake = NULL;
    TP_VARIABLE_SCOPE(g, "gen")
    {
        tp_node *b = tp_get_variable_as(g, "b", TP_F32, tp_make_shape(1), tp_init_zeros());
        fake = tp_named(tp_add(tp_affine(in[1], 0.5f, 0), b), "fake");
    }
    tp_node *real_score = discriminate(g, in[0]), *fake_score = discriminate(g, fake);
    tp_node *ones = tp_ones_like(real_score), *zeros = tp_zeros_like(fake_score);
    tp_node *d = tp_add(tp_mean(tp_sigmoid_cross_entropy(real_score, ones)),
                        tp_mean(tp_sigmoid_cross_entropy(fake_score, zeros)));
    if (tower->is_training) {
        n->d_loss[tower->index] = tp_named(d, "d_loss");
        n->g_loss[tower->index] = tp_named(tp_mean(tp_sigmoid_cross_entropy(fake_score, ones)), "g_loss");
    }
    return d;
}
static tp_node *gan_tower(const tp_tower_context *tower, void *user)
{
    tp_trainer *t = (tp_trainer *)user;
    tp_node *in[2];
    if (tp_input_get_tensors(t->state.input, in) != TP_OK) return tp_poison(tower->graph);
    return tp_tower_func_call(t->state.tower_func, in);
}
static tp_status gan_build(tp_trainer *t, const tp_model *m)
{
    gan *n = (gan *)m->user;
    tp_graph *g = t->graph;
    tp_node *cost[2];
    tp_towers_desc d;
    memset(&d, 0, sizeof d);
    d.n = n->towers;
    const tp_status st = tp_build_on_towers(g, &d, gan_tower, t, cost);
    if (st != TP_OK) return st;
    tp_optimizer *g_opt = tp_adam(tp_get_scalar_variable(g, "learning_rate", 0.03f), .beta1 = 0.5f),
                 *d_opt = tp_adam(tp_get_scalar_variable(g, "d_rate", 0.05f), .beta1 = 0.5f);
    n->g_op = tp_minimize(g_opt, tp_add_n(n->g_loss, n->towers), "gen/.*");
    n->d_op = tp_minimize(d_opt, tp_add_n(n->d_loss, n->towers), "discrim/.*");
    tp_node *both[2];
    both[0] = n->g_op, both[1] = n->d_op;
    if (!n->separate) t->train_op = tp_group(g, both, 2, "train_op");
    t->user = n;
    n->built++;
    return TP_OK;
}
/* One op in each step, in turn; only the other network moves. */
static tp_status gan_step(tp_trainer *t)
{
    const gan *n = (const gan *)t->user;
    tp_node *op = t->state.global_step % 2 ? n->g_op : n->d_op;
    tp_tensor before[2], after[2];
    memset(before, 0, sizeof before);
    memset(after, 0, sizeof after);
    const tp_variable *v[2];
    v[0] = tp_find_variable(t->graph, "discrim/fc/W"), v[1] = tp_find_variable(t->graph, "gen/b");
    for (int i = 0; i < 2; i++) CHECK_OK(tp_session_read(t->state.session, v[i], &before[i]));
    const tp_status st = tp_hooked_run(t->state.hooked_session, &op, 1, NULL);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(tp_session_read(t->state.session, v[i], &after[i]));
        CHECK((memcmp(before[i].data, after[i].data, 4) != 0) == ((op == n->d_op) == (i == 0)));
        tp_tensor_free(&before[i]);
        tp_tensor_free(&after[i]);
    }
    return st;
}
static tp_status gan_point(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user, (void)pass;
    tp_status st = tp_datapoint_resize(dp, 2);
    for (int c = 0; c < 2 && st == TP_OK; c++) {
        st = tp_tensor_resize(&dp->c[c], TP_F32, tp_make_shape(16, 1));
        for (int i = 0; i < 16 && st == TP_OK; i++)
            ((float *)dp->c[c].data)[i] =
                (float)tp_random_normal(11 + (uint64_t)c, (uint64_t)index, (uint64_t)i) * (c ? 1 : 0.5f) + (c ? 0 : 3);
    }
    return st;
}
TEST(a_trainer_of_ones_own_with_two_optimizers)
{
    static const tp_spec specs[] = {TP_SPEC("real", TP_F32, TP_ANY, 1), TP_SPEC("z", TP_F32, TP_ANY, 1)};
    tp_test_keep_log();
    for (int towers = 1; towers <= 2; towers++)
        for (int separate = 0; separate < 2; separate++) {
            gan n;
            tp_dict d;
            memset(&n, 0, sizeof n);
            memset(&d, 0, sizeof d);
            n.towers = towers;
            n.separate = separate != 0;
            tp_callback *cb = keeper(&d);
            tp_train_config c;
            memset(&c, 0, sizeof c);
            c.model.inputs = specs;
            c.model.n_inputs = 2;
            c.model.build_graph = gan_graph;
            c.model.user = &n;
            c.dataflow = tp_df_from_generator(gan_point, .size = 1 << 20, .indexed = TP_YES);
            c.callbacks = &cb;
            c.n_callbacks = 1;
            c.n_monitors = TP_NONE;
            c.log_layers = TP_NO;
            c.steps_per_epoch = n.separate ? 600 : 300;
            c.max_epoch = 1;
            tp_trainer *t = tp_queue_input_trainer();
            t->n_devices = towers;
            t->build = gan_build;
            if (n.separate) t->run_step = gan_step;
            CHECK_OK(tp_launch_train_with_config(&c, t));
            const tp_tensor *b = tp_dict_find(&d, "gen/b"), *step = tp_dict_find(&d, "global_step");
            CHECK(n.built == 1 && step && (int)tp_tensor_get(step, 0) == (n.separate ? 600 : 300));
            if (CHECK(b != NULL)) CHECK_MSG(fabs(tp_tensor_get(b, 0) - 3) < 0.6, "the mean is %g", tp_tensor_get(b, 0));
            CHECK(tp_dict_find(&d, "gen/b/Adam") && tp_dict_find(&d, "discrim/fc/W/Adam") &&
                  !tp_dict_find(&d, "gen/b/Adam_2"));
            CHECK(tp_dict_find(&d, "beta1_power") && tp_dict_find(&d, "beta1_power_1")); /* one for each optimizer */
            tp_dict_free(&d);
        }
}

/* ==== >>predictors ===================================================================================== */

typedef struct asker {
    tp_predictor *early[3];
    int asked;
} asker;
static const char *const outputs[] = {"prob", "conv0/output"};
static const char *const images[] = {"x"};
static tp_status ask_early(tp_callback *cb)
{
    asker *a = *(asker **)cb->user;
    tp_trainer *t = cb->train->trainer;
    const tp_tensor *y[2];
    tp_tensor x;
    memset(&x, 0, sizeof x);
    for (int i = 0; i < 3; i++) a->early[i] = tp_trainer_get_predictor(t, images, 1, outputs, 2, i % 2);
    CHECK(a->early[2] && a->early[2] != a->early[0] && tp_predictor_n_outputs(a->early[0]) == 2);
    CHECK(tp_tower_func_find(cb->train->tower_func, "tower-pred-1"));
    CHECK_ERR(tp_predict_n(a->early[0], &x, 1, y, 2), TP_ERR_STATE, "no session yet");
    return TP_OK;
}
static tp_status ask_now(tp_callback *cb)
{
    asker *a = *(asker **)cb->user;
    tp_trainer *t = cb->train->trainer;
    const tp_tensor *y[4][2];
    float data[2 * SIDE * SIDE];
    tp_tensor x;
    for (int i = 0; i < 2 * SIDE * SIDE; i++) data[i] = (float)tp_random_normal(3, 0, (uint64_t)i);
    tp_tensor_view(&x, TP_F32, tp_make_shape(2, SIDE, SIDE, 1), data);
    tp_predictor *late = tp_trainer_get_predictor(t, images, 1, outputs, 2, 0);
    tp_predictor *all = tp_trainer_get_predictor(t, NULL, 0, outputs, 1, 0);
    if (!CHECK(late && all) || !CHECK(tp_predictor_n_inputs(all) == 2)) return TP_OK;
    for (int i = 0; i < 4; i++) CHECK_OK(tp_predict_n(i < 3 ? a->early[i] : late, &x, 1, y[i], 2));
    for (int i = 1; i < 4; i++)
        for (int k = 0; k < 2; k++)
            CHECK_MSG(memcmp(y[0][k]->data, y[i][k]->data, tp_tensor_bytes(y[0][k])) == 0, "predictor %d, output %d", i,
                      k);
    double sum = 0;
    for (int k = 0; k < CLASSES; k++) sum += tp_tensor_get(y[0][0], k);
    CHECK_NEAR(sum, 1, 1e-6, 0);
    /* the values are those of an offline predictor on the same variables */
    tp_session_creator same = tp_reuse_session_creator(cb->train->session);
    tp_graph *g = cb->train->graph;
    (void)same, (void)g;
    a->asked++;
    return TP_OK;
}
TEST(predictors_before_and_after_the_session)
{
    tp_test_keep_log();
    static const kind kinds[] = {REPLICATED, PS_CPU};
    for (int i = 0; i < 2; i++) {
        asker a;
        memset(&a, 0, sizeof a);
        plan p = {kinds[i], 2, 4, MOMENTUM, false, true, 0, 0, 0};
        tp_callback *cb = tp_callback_new("Asks", sizeof(asker *));
        *(asker **)cb->user = &a;
        cb->setup_graph = ask_early;
        cb->trigger = ask_now;
        tp_train_config c = config_of(&p, &cb, 1, 2);
        c.max_epoch = 2;
        CHECK_OK(tp_launch_train_with_config(&c, trainer_of(p.k, p.n)));
        CHECK(a.asked == 2);
    }
    /* one for a device that had none before the session, and what is wrong */
    plan p = {REPLICATED, 2, 4, MOMENTUM, false, false, 0, 0, 0};
    static const char *const wrong[] = {"proob"};
    CHECK(!tp_trainer_get_predictor(NULL, NULL, 0, outputs, 1, 0));
    tp_trainer *t = trainer_of(p.k, p.n);
    CHECK(!tp_trainer_get_predictor(t, NULL, 0, outputs, 1, 0));
    CHECK_HAS(tp_last_error(), "after setup_graph");
    tp_trainer_free(t);
    t = set_up(&p);
    CHECK(!tp_trainer_get_predictor(t, NULL, 0, outputs, 1, -1));
    CHECK_HAS(tp_last_error(), "numbered from 0");
    CHECK(!tp_trainer_get_predictor(t, NULL, 0, wrong, 1, 0));
    CHECK_HAS(tp_last_error(), "'proob'");
    CHECK(!tp_trainer_get_predictor(t, wrong, 1, outputs, 1, 0));
    CHECK(!tp_trainer_get_predictor(t, NULL, 3, outputs, 1, 0)); /* three names, but no list */
    CHECK_HAS(tp_last_error(), "input_names");
    CHECK_OK(tp_trainer_setup_callbacks(t, NULL, 0, NULL, 0));
    CHECK_OK(tp_trainer_initialize(t, NULL));
    tp_predictor *late = tp_trainer_get_predictor(t, images, 1, outputs, 1, 1); /* the graph is closed by now */
    float data[SIDE * SIDE] = {0};
    tp_tensor x;
    const tp_tensor *y = NULL;
    tp_tensor_view(&x, TP_F32, tp_make_shape(1, SIDE, SIDE, 1), data);
    if (CHECK_MSG(late != NULL, "%s", tp_last_error())) CHECK_OK(tp_predict(late, &x, &y));
    CHECK_OK(tp_trainer_main_loop(t, 2, 1, 1));
    if (late) CHECK_OK(tp_predict(late, &x, &y));
    tp_trainer_free(t);
}

/* Tower i of a predictor is on device i, after the last one again on the first; the answers are the same. */
TEST(towers_of_a_predictor_are_on_the_devices_of_its_session)
{
    tp_test_keep_log();
    plan p = {SIMPLE, 1, 4, SGD, false, false, 0, 0, 0};
    tp_session_config two = tp_default_session_config();
    two.n_cpu_devices = 2;
    tp_session_creator creator = tp_new_session_creator(&two);
    tp_predict_config c;
    memset(&c, 0, sizeof c);
    c.inputs = inputs;
    c.n_inputs = 2;
    c.build_graph = build;
    c.user = &p;
    c.input_names = images;
    c.n_input_names = 1;
    c.output_names = outputs;
    c.n_output_names = 1;
    c.session_creator = &creator;
    c.log_layers = TP_NO;
    tp_predictor *all = tp_multi_tower_predictor(&c, 3);
    if (!CHECK_MSG(all != NULL, "%s", tp_last_error())) return;
    const tp_graph *g = tp_session_graph(tp_predictor_session(all));
    CHECK(tp_session_device(tp_predictor_session(all), 1) && !tp_session_device(tp_predictor_session(all), 2));
    float data[SIDE * SIDE];
    tp_tensor x;
    const tp_tensor *y[3];
    for (int i = 0; i < SIDE * SIDE; i++) data[i] = (float)i / 8;
    tp_tensor_view(&x, TP_F32, tp_make_shape(1, SIDE, SIDE, 1), data);
    for (int i = 0; i < 3; i++) {
        char name[40];
        snprintf(name, sizeof name, "tower%d/conv0/output", i);
        const tp_node *n = tp_graph_find(g, name);
        CHECK(n && tp_node_device(n) == i % 2);
        CHECK_OK(tp_predict(tp_predictor_tower(all, i), &x, &y[i]));
        CHECK(memcmp(y[0]->data, y[i]->data, tp_tensor_bytes(y[0])) == 0);
    }
    CHECK(tp_find_variable(g, "conv0/W")->device == 0);
    tp_predictor_free(all);
    two.n_cpu_devices = -1;
    tp_graph *empty = tp_graph_new(NULL);
    CHECK(!tp_session_new(empty, &two));
    CHECK_HAS(tp_last_error(), "-1 CPU devices");
    tp_graph_free(empty);
}

/* ==== >>inference ====================================================================================== */

typedef struct order {
    int n;
    double first[64];
} order;
static tp_status note_batch(tp_inferencer *inf, const tp_tensor *const *values, int n)
{
    order *o = *(order **)inf->user;
    CHECK(n == 2);
    if (o->n < 64) o->first[o->n++] = tp_tensor_get(values[0], 0);
    return TP_OK;
}
static tp_inferencer *noting(order *o)
{
    static const char *const names[] = {"x", "prob"};
    tp_inferencer *inf = tp_inferencer_new("Notes", sizeof(order *));
    *(order **)inf->user = o;
    tp_inferencer_set_names(inf, names, 2);
    inf->on_fetches = note_batch;
    return inf;
}
typedef struct result {
    double cost, error;
} result;
static tp_status read_result(tp_callback *cb)
{
    result *r = *(result **)cb->user;
    tp_stat stat;
    memset(&stat, 0, sizeof stat);
    CHECK_OK(tp_monitors_get_latest(cb->train->monitors, "validation_cost", &stat));
    r->cost = stat.value;
    CHECK_OK(tp_monitors_get_latest(cb->train->monitors, "validation_error", &stat));
    r->error = stat.value;
    return TP_OK;
}
/* 7 datapoints on 3 towers: two runs of all, and one of the first. 8 of them on 4 towers. */
TEST(inference_on_several_towers_gives_the_same_numbers)
{
    static const kind kinds[] = {REPLICATED, PS_GPU};
    char said[40];
    for (int i = 0; i < 2; i++)
        for (int points = 1; points <= 8; points++) {
            order one = {0, {0}}, many = {0, {0}};
            result r[2];
            const int towers = points < 8 ? 3 : 4;
            for (int parallel = 0; parallel < 2; parallel++) {
                plan p = {kinds[i], towers, 4, MOMENTUM, false, false, 0, 0, 0};
                tp_callback *cb[2];
                tp_dataflow *data = tp_df_fixed_size(flow(&p), points);
                if (parallel)
                    cb[0] = tp_cb_data_parallel_inference_runner(
                        data, {noting(&many), tp_inf_scalar_stats({"cost"}), tp_inf_classification_error()},
                        .n_devices = towers);
                else
                    cb[0] = tp_cb_inference_runner(
                        data, {noting(&one), tp_inf_scalar_stats({"cost"}), tp_inf_classification_error()});
                cb[1] = tp_callback_new("Reads", sizeof(result *));
                *(result **)cb[1]->user = &r[parallel];
                cb[1]->trigger = read_result;
                tp_train_config c = config_of(&p, cb, 2, 2);
                c.max_epoch = 2;
                snprintf(said, sizeof said, "Will eval %d iterations", points);
                tp_test_keep_log();
                CHECK_OK(tp_launch_train_with_config(&c, trainer_of(p.k, p.n)));
                CHECK_HAS(tp_test_logged, said);
            }
            CHECK(one.n == 2 * points && many.n == one.n);
            for (int k = 0; k < one.n; k++) CHECK(one.first[k] == many.first[k]);
            CHECK(r[0].cost == r[1].cost && r[0].error == r[1].error && r[0].cost > 0);
        }
    plan p = {REPLICATED, 2, 4, MOMENTUM, false, false, 0, 0, 0};
    tp_callback *cb = tp_cb_data_parallel_inference_runner(flow(&p), {tp_inf_classification_error()});
    CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, ".n_devices");
    tp_callback_free(cb);
    cb = tp_cb_data_parallel_inference_runner(NULL, {tp_inf_classification_error()}, .n_devices = 2,
                                              .input = tp_feed_input(flow(&p)));
    CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, "feeds one tower");
    tp_callback_free(cb);
    static const int negative[] = {0, -1};
    cb = tp_cb_data_parallel_inference_runner(flow(&p), {tp_inf_classification_error()}, .n_devices = 2,
                                              .devices = negative);
    CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, "from 0");
    tp_callback_free(cb);
    cb = tp_cb_data_parallel_inference_runner_(NULL);
    CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, "NULL");
    tp_callback_free(cb);
}

/* Nothing is read beyond a pass: each asks its flow for its own datapoints, of pass 0, in order, on several towers as on one. */
static int64_t asked, asked_in_order, last_pass;
static tp_status four_points(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    if (index == 4) return TP_END;
    asked_in_order += index == asked % 4;
    asked++;
    if (pass > last_pass) last_pass = pass;
    return point(user, pass, index, dp);
}
TEST(a_pass_on_several_towers_reads_nothing_beyond_it)
{
    for (int parallel = 0; parallel < 2; parallel++) {
        plan p = {REPLICATED, 2, 4, MOMENTUM, false, false, 0, 0, 0};
        order passes = {0, {0}};
        tp_dataflow *data = tp_df_from_generator(four_points, .user = &p, .size = 4);
        tp_callback *cb = parallel ? tp_cb_data_parallel_inference_runner(data, {noting(&passes)}, .n_devices = 2)
                                   : tp_cb_inference_runner(data, {noting(&passes)});
        tp_train_config c = config_of(&p, &cb, 1, 2);
        c.max_epoch = 3;
        asked = asked_in_order = last_pass = 0;
        tp_test_keep_log();
        CHECK_OK(tp_launch_train_with_config(&c, trainer_of(p.k, p.n)));
        CHECK_MSG(asked == 12 && asked_in_order == 12 && last_pass == 0, "%d datapoints, %d in order, pass %d",
                  (int)asked, (int)asked_in_order, (int)last_pass);
        CHECK(passes.n == 12);
        for (int i = 4; i < 12; i++) CHECK(passes.first[i] == passes.first[i - 4]);
    }
}

/* A flow that ends before the size that it tells is refused, on several towers as on one. */
static tp_status three_points(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    return index < 3 ? point(user, pass, index, dp) : TP_END;
}
static int64_t five(tp_dataflow *df) { return df ? 5 : -1; }
TEST(a_pass_that_ends_early_is_an_error_on_several_towers_too)
{
    for (int parallel = 0; parallel < 2; parallel++) {
        plan p = {REPLICATED, 2, 4, MOMENTUM, false, false, 0, 0, 0};
        tp_dataflow *data = tp_df_from_generator(three_points, .user = &p);
        data->size = five;
        tp_callback *cb =
            parallel ? tp_cb_data_parallel_inference_runner(data, {tp_inf_classification_error()}, .n_devices = 2)
                     : tp_cb_inference_runner(data, {tp_inf_classification_error()});
        tp_train_config c = config_of(&p, &cb, 1, 2);
        TEST_MAY_ERROR("");
        CHECK_ERR(tp_launch_train_with_config(&c, trainer_of(p.k, p.n)), TP_ERR_STATE,
                  "input stopped before reaching its size of 5 datapoints");
    }
}

/* Several towers share the datapoints: their number must be known, and not 0. */
static int64_t none(tp_dataflow *df) { return df ? 0 : -1; }
TEST(inference_on_several_towers_needs_the_size)
{
    static const char *const says[] = {"the input must tell its size: wrap its dataflow with tp_df_fixed_size",
                                       "DataParallelInferenceRunner: the input has no datapoints",
                                       "have no end, and its size is unknown: give tp_df_take or tp_df_fixed_size"};
    for (int i = 0; i < 3; i++) {
        plan p = {REPLICATED, 2, 4, MOMENTUM, false, false, 0, 0, 0};
        tp_dataflow *data = tp_df_from_generator(point, .user = &p);
        tp_callback *cb = NULL;
        if (i == 1) data->size = none;
        if (i == 2)
            cb = tp_cb_data_parallel_inference_runner(NULL, {tp_inf_classification_error()}, .n_devices = 2,
                                                      .input = tp_queue_input(data));
        else cb = tp_cb_data_parallel_inference_runner(data, {tp_inf_classification_error()}, .n_devices = 2);
        tp_train_config c = config_of(&p, &cb, 1, 2);
        TEST_MAY_ERROR("");
        CHECK_ERR(tp_launch_train_with_config(&c, trainer_of(p.k, p.n)), TP_ERR_ARG, says[i]);
    }
}

/* ==== >>mistakes ======================================================================================= */

typedef enum fault {
    NO_COST = 1,
    WIDE_COST,
    OTHER_VARIABLE,
    NO_VARIABLE,
    FEWER_GRADIENTS,
    NOTHING_TRAINED,
    LOCAL_VARIABLE
} fault;
static tp_node *faulty(tp_graph *g, tp_node *const *in, void *user)
{
    const plan *p = (const plan *)user;
    const tp_tower_context *tower = tp_current_tower_context(g);
    const bool last = tower->index == tower->total - 1;
    tp_node *x = tp_reshape_to(in[0], tp_make_shape(-1, SIDE * SIDE)), *y;
    if (p->fail_at == NO_COST && last) return NULL;
    if (p->fail_at == NO_VARIABLE && last) return tp_mean(x);
    if (p->fail_at == NOTHING_TRAINED) return tp_mean(tp_mul(x, tp_get_scalar_variable(g, "s", 1)));
    if (p->fail_at == LOCAL_VARIABLE) { /* its own in each tower */
        tp_variable_desc d;
        memset(&d, 0, sizeof d);
        d.name = last ? "hers" : "his";
        d.dtype = TP_F32, d.trainable = TP_NO, d.local = true;
        tp_get_variable(g, &d);
    }
    y = tp_fully_connected(x, p->fail_at == OTHER_VARIABLE && last ? "other" : "fc", .units = 2);
    if (p->fail_at == FEWER_GRADIENTS && last) y = tp_stop_gradient(y);
    if (p->fail_at == FEWER_GRADIENTS)
        y = tp_add(y, tp_get_variable_as(g, "b2", TP_F32, tp_make_shape(2), tp_init_zeros()));
    return p->fail_at == WIDE_COST && last ? y : tp_mean(y);
}
static tp_status launch_faulty(kind k, fault f)
{
    plan p = {k, 2, 4, SGD, false, false, 0, 0, 0};
    plan q = p;
    q.fail_at = (int)f;
    tp_train_config c = config_of(&p, NULL, 0, 1);
    c.model.build_graph = faulty;
    c.model.user = &q;
    return tp_launch_train_with_config(&c, trainer_of(k, 2));
}
/* A local variable may be in one tower only. That is no mistake, but its copies are not made equal, which is told. */
TEST(a_local_variable_of_one_tower_is_told)
{
    static const char *const sentence = "The variable 'tower1/hers' has no partner in the first tower: it is not made "
                                        "equal to one.";
    tp_test_keep_log();
    CHECK_OK(launch_faulty(REPLICATED, LOCAL_VARIABLE));
    const char *at = strstr(tp_test_logged, "has no partner in the first tower");
    CHECK_HAS(tp_test_logged, sentence);
    CHECK_MSG(at && !strstr(at + 1, "has no partner"), "%s", tp_test_logged);
    CHECK(!strstr(tp_test_logged, "'his'"));
    CHECK_HAS(tp_test_logged, "SyncVariables: 2 variables of other towers are copies of the first one's.");
}

TEST(mistakes_are_sentences)
{
    TEST_MAY_ERROR("Training did not start");
    tp_test_keep_log();
    static const kind kinds[] = {REPLICATED, PS_GPU, ASYNC};
    for (int i = 0; i < 3; i++) {
        const kind k = kinds[i];
        CHECK_ERR(launch_faulty(k, NO_COST), TP_ERR_ARG,
                  "build_graph returned NULL: in a training tower it returns the cost");
        CHECK_ERR(launch_faulty(k, WIDE_COST), TP_ERR_SHAPE, "Cost must be a scalar tensor");
        CHECK_ERR(launch_faulty(k, NOTHING_TRAINED), TP_ERR_ARG, "there is nothing to train");
        const tp_status other = launch_faulty(k, OTHER_VARIABLE);
        if (k == REPLICATED) CHECK_ERR(other, TP_ERR_STATE, "'tower1/other/W' has no partner in the first tower");
        else CHECK_ERR(other, TP_ERR_NAME, "'other/W' does not exist");
        const tp_status none = launch_faulty(k, NO_VARIABLE);
        if (k == REPLICATED) CHECK_ERR(none, TP_ERR_STATE, "'fc/W' has no copy in tower1");
        else CHECK_ERR(none, TP_ERR_STATE, "Number of gradients from each tower is different!");
        CHECK_ERR(launch_faulty(k, FEWER_GRADIENTS), TP_ERR_STATE,
                  "Number of gradients from each tower is different! "
                  "Tower 0 and tower 1 differ in: fc/W, fc/b");
    }
    plan p = {REPLICATED, 2, 4, SGD, false, false, 0, 0, 0};
    tp_train_config c = config_of(&p, NULL, 0, 1);
    CHECK_ERR(tp_launch_train_with_config(&c, tp_async_multi_gpu_trainer()), TP_ERR_ARG, ".n_devices is 0");
    static const int devices[] = {0, -3};
    c = config_of(&p, NULL, 0, 1);
    c.seed = 5;
    CHECK_ERR(tp_launch_train_with_config(&c, tp_async_multi_gpu_trainer(.n_devices = 2, .devices = devices)),
              TP_ERR_ARG, "test_multi.c");
    c = config_of(&p, NULL, 0, 1);
    c.data = tp_feed_input(c.dataflow);
    c.dataflow = NULL;
    CHECK_ERR(tp_launch_train_with_config(&c, trainer_of(REPLICATED, 2)), TP_ERR_ARG, "give a QueueInput");
    CHECK(!tp_sync_multi_gpu_trainer_replicated_(NULL) && !tp_async_multi_gpu_trainer_(NULL) &&
          !tp_sync_multi_gpu_trainer_parameter_server_(NULL));
    tp_test_keep_log();
    tp_trainer_free(tp_sync_multi_gpu_trainer_replicated(.n_devices = 4, .mode = TP_ALL_REDUCE_HIERARCHICAL));
    CHECK_HAS(tp_test_logged, "'hierarchical' is for 8 devices, not 4");
}

/* Towers on devices that the session's config gives, or lets be made. */
TEST(towers_need_their_devices)
{
    TEST_MAY_ERROR("Training did not start");
    TEST_MAY_ERROR("there is no device 3");
    tp_test_keep_log();
    plan p = {REPLICATED, 2, 4, SGD, false, false, 0, 0, 0};
    tp_device *cpu[2];
    CHECK_OK(tp_cpu_devices_new(2, 1, NULL, cpu));
    tp_session_config s = tp_default_session_config();
    s.devices = cpu;
    s.n_devices = 2;
    tp_train_config c = config_of(&p, NULL, 0, 1);
    c.session_config = &s;
    CHECK_ERR(tp_launch_train_with_config(&c, trainer_of(REPLICATED, 4)), TP_ERR_ARG,
              "has a tower on device 3, but the session's config has 2 devices");
    s.n_devices = 1;
    c = config_of(&p, NULL, 0, 1);
    c.session_config = &s;
    CHECK_ERR(tp_launch_train_with_config(&c, trainer_of(REPLICATED, 2)), TP_ERR_ARG,
              "has a tower on device 1, but the session's config has 1 device, numbered from 0");
    s.n_cpu_devices = 1; /* enough: one that was given and one that is made */
    c = config_of(&p, NULL, 0, 1);
    c.session_config = &s;
    CHECK_OK(tp_launch_train_with_config(&c, trainer_of(REPLICATED, 2)));
    s.n_cpu_devices = -1;
    for (int given = 0; given < 2; given++) {
        s.n_devices = given;
        c = config_of(&p, NULL, 0, 1);
        c.session_config = &s;
        CHECK_ERR(tp_launch_train_with_config(&c, trainer_of(given ? REPLICATED : SIMPLE, 1)), TP_ERR_ARG,
                  "a session cannot have -1 CPU devices");
    }
    s.n_devices = 2, s.n_cpu_devices = 0;
    c = config_of(&p, NULL, 0, 1); /* enough, and one more for the variables is made */
    c.session_config = &s;
    CHECK_OK(tp_launch_train_with_config(&c, trainer_of(DEFAULT, 2)));
    for (int given = 0; given < 2;
         given++) { /* inference elsewhere: there is a CPU device for it, unless others were given */
        tp_callback *cb =
            tp_cb_inference_runner(tp_df_fixed_size(flow(&p), 2), {tp_inf_classification_error()}, .device = 3);
        c = config_of(&p, &cb, 1, 1);
        c.session_config = given ? &s : NULL;
        const tp_status st = tp_launch_train_with_config(&c, trainer_of(SIMPLE, 1));
        if (given) CHECK_ERR(st, TP_ERR_ARG, "there is no device 3");
        else CHECK_OK(st);
    }
    for (int i = 0; i < 2; i++) cpu[i]->close(cpu[i]);
}

/* ==== >>memory ========================================================================================= */

static tp_status short_training(kind k)
{
    plan p = {k, 2, 2, MOMENTUM, false, false, 0, 0, 0};
    tp_train_config c = config_of(&p, NULL, 0, 2);
    tp_session_config s = tp_default_session_config();
    s.threads = 1;
    c.session_config = &s;
    return tp_launch_train_with_config(&c, trainer_of(k, 2));
}
TEST(out_of_memory_at_every_point)
{
    TEST_MAY_ERROR("memory");
    static const kind kinds[] = {REPLICATED, PS_CPU, ASYNC};
    for (int i = 0; i < 3; i++) {
        bool failed = true;
        for (long n = 1; failed && n < 1000000; n += n < 60 ? 1 : 29) {
            tp_test_keep_log();
            tp_test_fail_after(n);
            const tp_status st = short_training(kinds[i]);
            failed = tp_test_alloc_failed();
            const long live = tp_test_live_blocks();
            tp_test_alloc_reset();
            CHECK_MSG(live == 0, "trainer %d: allocation %ld: %ld blocks leak", i, n, live);
            if (!failed) CHECK_OK(st);
            else
                CHECK_MSG(st == TP_OK || st == TP_ERR_NOMEM || strstr(tp_last_error(), "memory"),
                          "trainer %d: allocation %ld: %s, %s", i, n, tp_status_name(st), tp_last_error());
        }
    }
}

static long allocs_seen[16];
static tp_status count_allocs(tp_callback *cb)
{
    if (cb->train->local_step < 16) allocs_seen[cb->train->local_step] = tp_test_alloc_count();
    return TP_OK;
}
TEST(steps_allocate_nothing)
{
    tp_test_keep_log();
    for (int i = 0; i < 5; i++) {
        plan p = {all_kinds[i], 2, 4, MOMENTUM, false, true, 0, 0, 0};
        tp_callback *cb = tp_callback_new("Count", 0);
        cb->trigger_step = count_allocs;
        tp_test_fail_after(0);
        tp_trainer *t = set_up(&p);
        CHECK_OK(tp_train(
            t, TP_OPTIONS(tp_train_desc, .callbacks = &cb, .n_callbacks = 1, .steps_per_epoch = 12, .max_epoch = 1)));
        tp_trainer_free(t);
        tp_test_alloc_reset();
        for (int k = 6; k < 11; k++)
            CHECK_MSG(allocs_seen[k] == allocs_seen[k - 1], "trainer %d: step %d allocates %ld times", i, k,
                      allocs_seen[k] - allocs_seen[k - 1]);
    }
}

TEST_MAIN()
