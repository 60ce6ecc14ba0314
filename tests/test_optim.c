/* Optimizers, gradient processors, schedules: update rules against hand-computed numbers, names, mistakes. */
#define TP_IMPLEMENTATION
#include "tp_optim.h"
#include "tp_help.h"

/* -- what tests are written with */

static tp_graph *graph(void)
{
    tp_test_keep_log();
    return tp_graph_new(NULL);
}
static void done(tp_graph *g)
{
    tp_graph_free(g);
    tp_set_log(NULL, NULL);
}
static bool ok(tp_graph *g) { return CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g)); }
static tp_shape scalar(void) { return tp_make_shape_n(0, NULL); }
static tp_node *weight(tp_graph *g, const char *name, float init)
{
    return tp_get_variable_as(g, name, TP_F32, tp_make_shape(1), tp_init_constant(init));
}
/* One learning rate for all optimizers of a variable scope, with the value of the first call. */
static tp_node *rate(tp_graph *g, float lr)
{
    char name[128];
    snprintf(name, sizeof name, "%s%slearning_rate", tp_variable_scope(g), *tp_variable_scope(g) ? "/" : "");
    const tp_variable *v = tp_find_variable(g, name);
    return v ? v->node : tp_get_scalar_variable(g, "learning_rate", lr);
}
static tp_node *input(tp_graph *g, const char *name) { return tp_placeholder(g, name, TP_F32, tp_make_shape(1)); }

/* Run op with one number fed to each of n inputs. */
static void step(tp_session *s, tp_node *op, tp_node *const *in, const float *v, int n)
{
    tp_feed feed[4];
    memset(feed, 0, sizeof feed);
    for (int i = 0; i < n; i++) {
        feed[i].node = in[i];
        tp_tensor_view(&feed[i].value, TP_F32, tp_make_shape(1), &v[i]);
    }
    CHECK_OK(tp_session_run(s, feed, n, &op, 1, NULL));
}

/* ==== update rules ==================================================================================== */

/* One variable from 0, gradients 1 and then 2. */
static void two_updates(tp_optimizer *(*make)(tp_node *lr), double first, double second, double tolerance)
{
    tp_graph *g = graph();
    tp_grad_var gv = {input(g, "g"), weight(g, "w", 0)};
    tp_node *op = tp_apply_gradients(make(rate(g, 0.1f)), &gv, 1);
    ok(g);
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK_MSG(s != NULL, "%s", tp_last_error())) {
        const float one = 1, two = 2;
        step(s, op, &gv.grad, &one, 1);
        CHECK_NEAR(variable(s, "w"), first, tolerance, 0);
        step(s, op, &gv.grad, &two, 1);
        CHECK_NEAR(variable(s, "w"), second, tolerance, 0);
    }
    tp_session_free(s);
    done(g);
}

static tp_optimizer *make_sgd(tp_node *lr) { return tp_sgd(lr); }
static tp_optimizer *make_momentum(tp_node *lr) { return tp_momentum(lr, .momentum = 0.9f); }
static tp_optimizer *make_no_momentum(tp_node *lr) { return tp_momentum(lr, .momentum = TP_ZERO); }
static tp_optimizer *make_nesterov(tp_node *lr) { return tp_nesterov(lr); }
static tp_optimizer *make_no_nesterov(tp_node *lr) { return tp_nesterov(lr, .use_nesterov = false); }
static tp_optimizer *make_nesterov2(tp_node *lr) { return tp_momentum(lr, .use_nesterov = TP_YES); }
static tp_optimizer *make_adam(tp_node *lr) { return tp_adam(lr); }
static tp_optimizer *make_adam_eps(tp_node *lr) { return tp_adam(lr, .epsilon = 1e-3f); }
static tp_optimizer *make_proxy(tp_node *lr) { return tp_optimizer_proxy(tp_momentum(lr), "Proxy", NULL, NULL); }

TEST(sgd) { two_updates(make_sgd, -.1, -.3, 1e-7); }
TEST(momentum) { two_updates(make_momentum, -.1, -.39, 1e-7); }
TEST(momentum_of_zero_is_sgd) { two_updates(make_no_momentum, -.1, -.3, 1e-7); }
TEST(nesterov) { two_updates(make_nesterov, -.19, -.651, 1e-6); }
TEST(nesterov_that_is_denied) { two_updates(make_no_nesterov, -.1, -.39, 1e-7); }
TEST(nesterov_by_option) { two_updates(make_nesterov2, -.19, -.651, 1e-6); }
TEST(adam) { two_updates(make_adam, -.0999999684, -.196518158, 5e-7); }
TEST(adam_with_a_large_epsilon) { two_updates(make_adam_eps, -.096934655, -.192106788, 5e-7); }
TEST(a_proxy_forwards) { two_updates(make_proxy, -.1, -.39, 1e-7); }

/* A variable lists its own slots: those of other variables make neither its list nor the optimizer's longer. */
TEST(a_variable_lists_its_slots)
{
    tp_graph *g = graph();
    tp_grad_var gv[3];
    const char *const names[] = {"w0", "w1", "w2"}, *const gradients[] = {"g0", "g1", "g2"};
    for (int i = 0; i < 3; i++) gv[i].grad = input(g, gradients[i]), gv[i].var = weight(g, names[i], 0);
    tp_optimizer *adam = tp_adam(rate(g, 0.1f)), *mom = tp_momentum(rate(g, 0.1f));
    tp_apply_gradients(adam, gv, 1);
    const struct tp__slot *const scalars = adam->slots, *const first = tp_node_variable(gv[0].var)->slots;
    CHECK(scalars && first && !tp_node_variable(gv[1].var)->slots);
    tp_apply_gradients(adam, gv, 3); /* finds the slots of w0 and makes those of the others */
    CHECK(adam->slots == scalars && tp_node_variable(gv[0].var)->slots == first);
    tp_apply_gradients(mom, gv, 3);
    ok(g);
    CHECK(adam->slots == scalars && !mom->slots);
    for (int i = 0; i < 3; i++) {
        CHECK(tp_get_slot(mom, gv[i].var, "momentum") && !tp_get_slot(mom, gv[i].var, "m"));
        CHECK(tp_get_slot(adam, gv[i].var, "m") && !tp_get_slot(adam, gv[i].var, "momentum"));
    }
    CHECK(tp_get_slot(adam, NULL, "beta1_power") && !tp_get_slot(adam, gv[0].grad, "beta1_power"));
    done(g);
}

TEST(slots_have_tensorflows_names)
{
    tp_graph *g = graph();
    tp_grad_var gv[2] = {{input(g, "g0"), weight(g, "conv0/W", 0)}, {input(g, "g1"), weight(g, "conv0/b", 0)}};
    tp_variable_scope_desc inside = {.name = "somewhere"};
    tp_variable_scope_push(g, &inside);
    tp_optimizer *adam = tp_adam(rate(g, 0.1f), .beta1 = 0.5f), *mom = tp_momentum(rate(g, 0.1f)),
                 *second = tp_adam(rate(g, 0.1f));
    tp_node *ops[3] = {tp_apply_gradients(adam, gv, 2), tp_apply_gradients(mom, gv, 2),
                       tp_apply_gradients(second, gv, 1)};
    tp_variable_scope_pop(g);
    ok(g);
    static const char *const names[] = {"conv0/W/Adam",   "conv0/W/Adam_1", "conv0/b/Adam",     "conv0/b/Adam_1",
                                        "beta1_power",    "beta2_power",    "conv0/W/Momentum", "conv0/b/Momentum",
                                        "conv0/W/Adam_2", "conv0/W/Adam_3", "beta1_power_1",    "beta2_power_1"};
    for (int i = 0; i < TP_COUNT(names); i++) {
        const tp_variable *v = tp_find_variable(g, names[i]);
        if (CHECK_MSG(v != NULL, "no %s", names[i])) CHECK(!v->trainable && !v->local);
    }
    CHECK(tp_get_slot(adam, gv[0].var, "m") == tp_find_variable(g, "conv0/W/Adam")->node);
    CHECK(tp_get_slot(adam, gv[1].var, "v") == tp_find_variable(g, "conv0/b/Adam_1")->node);
    CHECK(tp_get_slot(second, gv[1].var, "v") == NULL);
    tp_optimizer *outer = tp_apply_grad_processors(mom, TP_GRADPROCS(tp_gradproc_filter_none()));
    CHECK(tp_get_slot(outer, gv[1].var, "momentum") == tp_find_variable(g, "conv0/b/Momentum")->node);
    int n = 0;
    CHECK_STR(tp_get_slot_names(outer, &n)[0], "momentum");
    CHECK(n == 1);
    CHECK_STR(tp_get_slot_names(adam, &n)[1], "v");
    tp_collection(g, TP_KEY_GLOBAL_VARIABLES, &n);
    CHECK(n == 2 + 1 + TP_COUNT(names));
    tp_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n);
    CHECK(n == 2);
    CHECK(strncmp(tp_node_name(ops[0]), "somewhere/Adam/", 15) == 0);
    CHECK(strncmp(tp_node_name(ops[1]), "somewhere/Momentum/", 19) == 0);
    tp_session *s = tp_session_new(g, NULL);
    CHECK_NEAR(variable(s, "beta1_power"), 0.5, 0, 0);
    const float one[2] = {1, 1};
    tp_node *in[2] = {gv[0].grad, gv[1].grad};
    step(s, ops[0], in, one, 2);
    step(s, ops[0], in, one, 2);
    CHECK_NEAR(variable(s, "beta1_power"), 0.125, 1e-7, 0);
    CHECK_NEAR(variable(s, "beta2_power"), .999 * .999 * .999, 1e-6, 0);
    CHECK_NEAR(variable(s, "conv0/b/Adam"), 0.75, 1e-6, 0);
    tp_session_free(s);
    done(g);
}

TEST(variables_of_two_dtypes)
{
    tp_graph *g = graph();
    tp_node *a = weight(g, "a", 0), *b = tp_get_variable_as(g, "b", TP_F64, tp_make_shape(1), tp_init_zeros());
    tp_node *cost = tp_add(tp_sum(a), tp_cast(tp_sum(b), TP_F32));
    tp_node *vars[2] = {a, b};
    tp_grad_var gv[2];
    tp_compute_gradients(cost, vars, 2, gv);
    tp_node *op = tp_apply_gradients(tp_adam(rate(g, 0.1f)), gv, 2);
    ok(g);
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK_MSG(s != NULL, "%s", tp_last_error())) {
        step(s, op, NULL, NULL, 0);
        step(s, op, NULL, NULL, 0);
        CHECK_NEAR(variable(s, "a"), -.2, 1e-6, 0);
        CHECK_NEAR(variable(s, "b"), -.2, 1e-6, 0);
        CHECK_NEAR(variable(s, "beta1_power"), .729, 1e-6, 0); /* once a step, not once a dtype */
    }
    tp_session_free(s);
    done(g);
}

TEST(an_update_may_wait_for_a_predicate)
{
    tp_graph *g = graph();
    tp_grad_var gv = {input(g, "g"), weight(g, "w", 0)};
    tp_node *go = input(g, "go");
    tp_optimizer *opt = tp_apply_grad_processors(tp_adam(rate(g, 0.1f)), TP_GRADPROCS(tp_gradproc_scale("w", 2)));
    tp_node *op = tp_apply_gradients_if(opt, &gv, 1, tp_greater(tp_sum(go), tp_const(g, 0)));
    CHECK(!opt->pred); /* only for that call */
    ok(g);
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK_MSG(s != NULL, "%s", tp_last_error())) {
        tp_node *in[2] = {gv.grad, go};
        const float no[2] = {1, 0}, yes[2] = {1, 1};
        step(s, op, in, no, 2);
        CHECK_NEAR(variable(s, "w"), 0, 0, 0);
        CHECK_NEAR(variable(s, "w/Adam"), 0, 0, 0);
        CHECK_NEAR(variable(s, "beta1_power"), .9, 1e-7, 0);
        step(s, op, in, yes, 2);
        CHECK_NEAR(variable(s, "w"), -.1, 1e-6, 0);
        CHECK_NEAR(variable(s, "w/Adam"), .2, 1e-6, 0);
        CHECK_NEAR(variable(s, "beta1_power"), .81, 1e-7, 0);
    }
    tp_session_free(s);
    done(g);
}

/* ==== gradients, users' own =========================================================================== */

TEST(compute_gradients_pairs_and_skips)
{
    tp_graph *g = graph();
    tp_node *vars[3] = {weight(g, "a", 3), weight(g, "b", 1), weight(g, "c", 2)};
    tp_node *cost = tp_sum(tp_add(tp_square(vars[0]), vars[2]));
    tp_grad_var gv[3];
    tp_compute_gradients(cost, vars, 3, gv);
    CHECK(gv[0].grad && !gv[1].grad && gv[2].grad && gv[1].var == vars[1]);
    tp_node *op = tp_apply_gradients(tp_sgd(rate(g, 0.5f)), gv, 3);
    ok(g);
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK_MSG(s != NULL, "%s", tp_last_error())) {
        step(s, op, NULL, NULL, 0);
        CHECK_NEAR(variable(s, "a"), 0, 1e-6, 0);
        CHECK_NEAR(variable(s, "b"), 1, 0, 0);
        CHECK_NEAR(variable(s, "c"), 1.5, 1e-6, 0);
    }
    tp_session_free(s);
    done(g);
}

/* w -= lr * sign(g), counting in a slot of its own, and all its updates in a scalar */
static tp_node *sign_apply(tp_optimizer *o, const tp_grad_var *gvs, int n)
{
    tp_node *ops[16];
    for (int i = 0; i < n; i++) {
        tp_node *count = tp_optimizer_slot(o, gvs[i].var, "count", NULL, tp_init_zeros());
        tp_node *all = tp_optimizer_scalar(o, "sign_updates", 0.5f);
        tp_node *add[2] = {tp_assign_add(count, tp_ones_like(gvs[i].grad), o->pred),
                           tp_assign_add(all, tp_const(o->graph, 1), o->pred)};
        ops[i] = tp_assign_sub(gvs[i].var, tp_with_dependencies(tp_mul(o->learning_rate, tp_sign(gvs[i].grad)), add, 2),
                               o->pred);
    }
    return tp_group(o->graph, ops, n, "sign");
}

static tp_node *no_apply(tp_optimizer *o, const tp_grad_var *gv, int n)
{
    return (void)o, (void)gv, (void)n, (tp_node *)NULL;
}
TEST(an_optimizer_that_gives_no_node)
{
    tp_graph *g = graph();
    tp_grad_var gv = {input(g, "g"), weight(g, "w", 1)};
    tp_node *op = tp_apply_gradients(tp_optimizer_new(g, "Nothing", no_apply, NULL), &gv, 1);
    if (CHECK(op != NULL)) CHECK(tp_is_poison(op));
    CHECK_HAS(tp_graph_error(g), "Nothing: its apply_gradients gave no node");
    tp_graph_free(g);
}

TEST(an_optimizer_of_the_users_own)
{
    tp_graph *g = graph();
    tp_grad_var gv = {input(g, "g"), weight(g, "w", 1)};
    tp_optimizer *o = tp_optimizer_new(g, "Sign", sign_apply, NULL);
    o->learning_rate = rate(g, 0.25f);
    tp_node *op = tp_apply_gradients(o, &gv, 1);
    ok(g);
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK_MSG(s != NULL, "%s", tp_last_error())) {
        const float v = -17;
        step(s, op, &gv.grad, &v, 1);
        CHECK_NEAR(variable(s, "w"), 1.25, 0, 0);
        CHECK_NEAR(variable(s, "w/Sign"), 1, 0, 0);
        CHECK_NEAR(variable(s, "sign_updates"), 1.5, 0, 0); /* at the root, of no variable */
    }
    tp_session_free(s);
    done(g);
}

/* A gradient that is fed, as the first feed, is the one that descends: the product is not computed in its place. */
TEST(a_gradient_that_is_fed)
{
    tp_graph *g = graph();
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2, 16));
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(16, 16), tp_init_zeros());
    tp_grad_var gv = {NULL, w};
    tp_compute_gradients(tp_sum(tp_matmul(x, w)), &w, 1, &gv);
    tp_node *op = tp_apply_gradients(tp_sgd(rate(g, 0.5f)), &gv, 1);
    ok(g);
    float ones[256], twos[256];
    for (int i = 0; i < 256; i++) ones[i] = 1, twos[i] = 2;
    tp_feed f[2] = {{gv.grad, TP_EMPTY}, {x, TP_EMPTY}};
    tp_tensor_view(&f[0].value, TP_F32, tp_make_shape(16, 16), ones);
    tp_tensor_view(&f[1].value, TP_F32, tp_make_shape(2, 16), twos);
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK_MSG(s != NULL, "%s", tp_last_error())) {
        CHECK_OK(tp_session_run(s, f, 2, &op, 1, NULL));
        CHECK_NEAR(variable(s, "w"), -0.5, 0, 0);
        CHECK_OK(tp_session_run(s, &f[1], 1, &op, 1, NULL)); /* the product's values are 4 */
        CHECK_NEAR(variable(s, "w"), -2.5, 0, 0);
    }
    tp_session_free(s);
    done(g);
}

/* ==== gradient processors ============================================================================= */

static void clip_case(float a, float b, float c, double wa, double wb, double wc)
{
    tp_graph *g = graph();
    tp_grad_var gv[4] = {{input(g, "a"), weight(g, "va", 0)},
                         {input(g, "b"), weight(g, "vb", 0)},
                         {NULL, weight(g, "vn", 0)},
                         {input(g, "c"), weight(g, "vc", 0)}};
    tp_node *in[3] = {gv[0].grad, gv[1].grad, gv[3].grad};
    tp_gradproc clip = tp_gradproc_global_norm_clip(5);
    CHECK(tp_gradproc_run(&clip, g, gv, 4) == 4);
    CHECK(strncmp(tp_node_name(gv[0].grad), "GlobalNormClip/", 15) == 0);
    ok(g);
    tp_session *s = tp_session_new(g, NULL);
    const float v[3] = {a, b, c};
    const double want[3] = {wa, wb, wc};
    tp_feed feed[3];
    memset(feed, 0, sizeof feed);
    for (int i = 0; i < 3; i++) {
        feed[i].node = in[i];
        tp_tensor_view(&feed[i].value, TP_F32, tp_make_shape(1), &v[i]);
    }
    tp_node *fetch[3] = {gv[0].grad, gv[1].grad, gv[3].grad};
    const tp_tensor *value[3];
    if (CHECK_OK(tp_session_run(s, feed, 3, fetch, 3, value)))
        for (int i = 0; i < 3; i++) {
            const double got = tp_tensor_get(value[i], 0);
            if (isnan(want[i])) CHECK(isnan(got));
            else CHECK_NEAR(got, want[i], 1e-6, 0);
        }
    tp_session_free(s);
    done(g);
}

TEST(global_norm_clip)
{
    clip_case(3, 4, 12, 1.153846, 1.538462, 4.615385);
    clip_case(3, 0, 0, 3, 0, 0);
    clip_case(0, 0, 0, 0, 0, 0);
    clip_case(1, INFINITY, 2, NAN, NAN, NAN);
    clip_case(1, NAN, 2, NAN, NAN, NAN);
}

TEST(global_norm_clip_of_float64)
{
    tp_graph *g = graph();
    tp_node *v = tp_get_variable_as(g, "v", TP_F64, tp_make_shape(2), tp_init_constant(3));
    tp_optimizer *o = tp_apply_grad_processors(tp_sgd(rate(g, 1)), TP_GRADPROCS(tp_gradproc_global_norm_clip(0.125f)));
    tp_node *op = tp_minimize(o, tp_sum(tp_square(v)), NULL);
    ok(g);
    tp_session *s = tp_session_new(g, NULL);
    step(s, op, NULL, NULL, 0);
    CHECK_NEAR(variable(s, "v"), 3 - 0.125 / sqrt(2), 0, 1e-15);
    tp_session_free(s);
    done(g);
}

/* A small factor keeps its digits: in float16, 0.0625 / 49152 would be 2% off. */
TEST(global_norm_clip_of_float16)
{
    tp_graph *g = graph();
    tp_node *v = tp_get_variable_as(g, "v", TP_F16, tp_make_shape(1), tp_init_zeros());
    tp_optimizer *o = tp_apply_grad_processors(tp_sgd(rate(g, 1)), TP_GRADPROCS(tp_gradproc_global_norm_clip(0.0625f)));
    tp_node *op = tp_minimize(o, tp_affine(tp_sum(tp_cast(v, TP_F32)), 49152, 0), NULL);
    if (ok(g)) {
        tp_session *s = tp_session_new(g, NULL);
        step(s, op, NULL, NULL, 0);
        CHECK(variable(s, "v") == -0.0625);
        tp_session_free(s);
    }
    done(g);
}

/* Gradients of several types: the norm is that of all, in float64, and each gradient keeps its type. */
TEST(global_norm_clip_of_float32_and_float64_together)
{
    for (int first = 0; first < 2; first++) { /* whichever comes first */
        tp_graph *g = graph();
        tp_node *var[3], *cost = NULL;
        static const tp_dtype dtype[2][3] = {{TP_F32, TP_F64, TP_F16}, {TP_F64, TP_F32, TP_F16}};
        static const float factor[3] = {3e30f, 4e30f, 1};
        for (int i = 0; i < 3; i++) {
            char name[2] = {(char)('a' + i), 0};
            var[i] = tp_get_variable_as(g, name, dtype[first][i], tp_make_shape(1), tp_init_zeros());
            tp_node *part = tp_affine(tp_sum(tp_cast(var[i], TP_F64)), factor[i], 0);
            cost = cost ? tp_add(cost, part) : part;
        }
        tp_optimizer *o = tp_apply_grad_processors(tp_sgd(rate(g, 1)), TP_GRADPROCS(tp_gradproc_global_norm_clip(5)));
        tp_node *op = tp_minimize(o, cost, NULL);
        if (ok(g)) {
            tp_session *s = tp_session_new(g, NULL);
            step(s, op, NULL, NULL, 0);
            CHECK_NEAR(variable(s, "a"), -3, 1e-6, 0);
            CHECK_NEAR(variable(s, "b"), -4, 1e-6, 0);
            CHECK_NEAR(variable(s, "c"), 0, 0, 0); /* 1e-30 is none in float16 */
            tp_session_free(s);
        }
        done(g);
    }
    /* 1 and 1e-6: float32 would not see the second */
    tp_graph *g = graph();
    tp_node *a = tp_get_variable_as(g, "a", TP_F32, tp_make_shape(1), tp_init_zeros()),
            *b = tp_get_variable_as(g, "b", TP_F64, tp_make_shape(1), tp_init_zeros());
    tp_node *tiny = tp_affine(tp_sum(b), 1.0f / 1048576, 0), *cost = tp_add(tp_sum(tp_cast(a, TP_F64)), tiny);
    tp_optimizer *o = tp_apply_grad_processors(tp_sgd(rate(g, 1)), TP_GRADPROCS(tp_gradproc_global_norm_clip(0.5f)));
    tp_node *op = tp_minimize(o, cost, NULL);
    if (ok(g)) {
        const double d = 1.0 / 1048576;
        tp_session *s = tp_session_new(g, NULL);
        step(s, op, NULL, NULL, 0);
        CHECK_NEAR(variable(s, "b"), -d * 0.5 / sqrt(1 + d * d), 1e-20, 0);
        tp_session_free(s);
    }
    done(g);
}

/* Which of three variables a processor keeps, and what it does to a gradient of 1. */
static void proc_case(const tp_gradproc *p, const char *const names[3], const double want[3])
{
    tp_graph *g = graph();
    tp_grad_var gv[3];
    for (int i = 0; i < 3; i++) {
        gv[i].var = weight(g, names[i], 0);
        gv[i].grad = tp_ones_like(gv[i].var);
    }
    const int n = tp_gradproc_run(p, g, gv, 3);
    ok(g);
    tp_session *s = tp_session_new(g, NULL);
    int at = 0;
    for (int i = 0; i < 3; i++) {
        if (isnan(want[i])) continue; /* dropped */
        if (!CHECK(at < n)) break;
        CHECK_STR(tp_node_name(gv[at].var), names[i]);
        CHECK_NEAR(value_at(s, gv[at].grad, 0), want[i], 1e-6, 0);
        at++;
    }
    CHECK(at == n);
    tp_session_free(s);
    done(g);
}

static tp_node *add_user(tp_node *grad, tp_node *var, void *user)
{
    (void)var;
    return tp_affine(grad, 1, *(const float *)user);
}
static tp_node *drop(tp_node *grad, tp_node *var, void *user)
{
    (void)user;
    return strstr(tp_node_name(var), "fc") ? NULL : grad;
}

TEST(scale_gradient_anchors_the_last_branch_only)
{
    const tp_gradproc p = tp_gradproc_scale("fc|conv", 10);
    proc_case(&p, (const char *const[]){"fc1/W", "conv1/W", "conv"}, (const double[]){10, 1, 10});
}

TEST(scale_gradient_takes_the_first_match_and_zero_drops)
{
    const tp_grad_rule rules[] = {{"conv0/.*", 0}, {".*/b", 2}, {"conv.*", 0.1f}};
    const tp_gradproc p = tp_gradproc_scale_rules(rules, 3);
    proc_case(&p, (const char *const[]){"conv0/b", "conv1/b", "conv1/W"}, (const double[]){NAN, 2, .1});
    CHECK_HAS(tp_test_logged, "Gradient of 'conv1/b' is multiplied by 2\n");
    CHECK_HAS(tp_test_logged, "Gradient of 'conv0/b' is multiplied by 0\n");
}

/* A regex whose variables an earlier rule takes, or are in another part of the model, is not misspelt. */
TEST(rules_that_match_elsewhere_give_no_warning)
{
    const tp_grad_rule rules[] = {{"hidden.*", 2}, {"hidden/b", 3}, {"absent/w", 4}};
    const tp_gradproc p = tp_gradproc_scale_rules(rules, 2), all = tp_gradproc_scale_rules(rules, 3);
    proc_case(&p, (const char *const[]){"hidden/W", "hidden/b", "other"}, (const double[]){2, 2, 1});
    CHECK(!strstr(tp_test_logged, "No match was found"));
    proc_case(&all, (const char *const[]){"hidden/W", "hidden/b", "other"}, (const double[]){2, 2, 1});
    CHECK_HAS(tp_test_logged, "[ScaleGradient] No match was found for regex absent/w");
    CHECK(!strstr(tp_test_logged, "regex hidden/b"));
    tp_graph *g = graph();
    const tp_grad_rule both[] = {{"part0/.+", 2}, {"part1/.+", 4}};
    float more = 0.5f;
    tp_optimizer_part part[2];
    for (int i = 0; i < 2; i++) { /* the same processors in both parts */
        tp_optimizer *o = i ? tp_sgd(rate(g, 1)) : tp_momentum(rate(g, 1));
        part[i].regex = i ? "part1.*" : "part0.*";
        part[i].opt = tp_apply_grad_processors(o, TP_GRADPROCS(tp_gradproc_scale_rules(both, 2),
                                                               tp_gradproc_map(add_user, &more, "part1/w"),
                                                               tp_gradproc_print("part0/w")));
    }
    tp_node *sum = tp_sum(weight(g, "part0/w", 1));
    tp_node *op = tp_minimize(tp_multi_optimizer(part, 2), tp_add(sum, tp_sum(weight(g, "part1/w", 1))), NULL);
    ok(g);
    CHECK(!strstr(tp_test_logged, "No match was found"));
    tp_session *s = tp_session_new(g, NULL);
    step(s, op, NULL, NULL, 0);
    CHECK(variable(s, "part0/w") == -1 && variable(s, "part1/w") == -3.5);
    tp_session_free(s);
    done(g);
}

TEST(processors_take_literals)
{
    const tp_gradproc scale = tp_gradproc_scale_rules((tp_grad_rule[]){{"fc/.*", 3}, {"conv/.*", 2}}, 2);
    const tp_gradproc map = tp_gradproc_map(add_user, (float[]){3, 5}, NULL);
    proc_case(&scale, (const char *const[]){"fc/W", "conv/W", "W"}, (const double[]){3, 2, 1});
    proc_case(&map, (const char *const[]){"fc/W", "conv/W", "W"}, (const double[]){4, 4, 4});
    CHECK(scale.at_.line > 0 && map.at_.line == scale.at_.line + 1);
}

TEST(map_gradient)
{
    float three = 3;
    const tp_gradproc p = tp_gradproc_map(add_user, &three, "conv.*|fc"), q = tp_gradproc_map(drop, NULL, NULL),
                      none = tp_gradproc_map(drop, NULL, "nothing");
    proc_case(&p, (const char *const[]){"fcx/W", "conv1/W", "fc"}, (const double[]){1, 4, 4});
    proc_case(&q, (const char *const[]){"fc1/W", "conv1/W", "fc2/W"}, (const double[]){NAN, 1, NAN});
    CHECK(!strstr(tp_test_logged, "No match"));
    proc_case(&none, (const char *const[]){"a", "b", "c"}, (const double[]){1, 1, 1});
    CHECK_HAS(tp_test_logged, "[MapGradient] No match was found for regex nothing.");
}

TEST(filter_none_names_what_it_drops)
{
    tp_graph *g = graph();
    tp_grad_var gv[3] = {{NULL, weight(g, "a", 0)}, {input(g, "x"), weight(g, "b", 0)}, {NULL, weight(g, "c", 0)}};
    const tp_gradproc p = tp_gradproc_filter_none();
    CHECK(tp_gradproc_run(&p, g, gv, 3) == 1);
    CHECK_STR(tp_node_name(gv[0].var), "b");
    CHECK_STR(tp_test_logged, "No gradient w.r.t. 2 trainable variables: a, c\n");
    ok(g);
    done(g);
}

/* A processor of the user's own: reverses the list and negates. */
static int negate_process(const tp_gradproc *p, tp_graph *g, tp_grad_var *gvs, int n)
{
    (void)g;
    ++*(int *)p->user;
    for (int i = 0; i < n; i++) gvs[i].grad = tp_neg(gvs[i].grad);
    return n;
}

TEST(processors_run_in_order_before_the_update)
{
    tp_graph *g = graph();
    int calls = 0;
    tp_gradproc own;
    memset(&own, 0, sizeof own);
    own.name = "Negate";
    own.process = negate_process;
    own.user = &calls;
    tp_grad_rule rules[1] = {{"w", 3}};
    tp_grad_var gv[2] = {{input(g, "g"), weight(g, "w", 0)}, {input(g, "h"), weight(g, "frozen", 7)}};
    tp_optimizer *opt = tp_apply_grad_processors(
        tp_sgd(rate(g, 0.1f)), TP_GRADPROCS(tp_gradproc_scale("frozen", 0), tp_gradproc_global_norm_clip(1),
                                            tp_gradproc_scale_rules(rules, 1), own));
    rules[0].regex = "changed"; /* it has a copy */
    rules[0].multiplier = 100;
    tp_node *op = tp_apply_gradients(opt, gv, 2);
    ok(g);
    CHECK(calls == 1);
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK_MSG(s != NULL, "%s", tp_last_error())) {
        const float v = 8; /* clipped to 1, times 3, negated */
        step(s, op, &gv[0].grad, &v, 1);
        CHECK_NEAR(variable(s, "w"), .3, 1e-6, 0);
        CHECK_NEAR(variable(s, "frozen"), 7, 0, 0);
    }
    tp_session_free(s);
    done(g);
}

/* ==== schedules ======================================================================================= */

static double at_step(tp_session *s, tp_node *n, int64_t step_value)
{
    tp_tensor t = {0};
    double v = -1;
    CHECK_OK(tp_tensor_resize(&t, TP_I64, scalar()));
    tp_tensor_set(&t, 0, (double)step_value);
    CHECK_OK(tp_session_load(s, tp_find_variable(tp_session_graph(s), "global_step"), &t));
    tp_tensor_free(&t);
    v = value_at(s, n, 0);
    return v;
}

TEST(exponential_decay)
{
    tp_graph *g = graph();
    tp_node *stairs = tp_exponential_decay(g, 1e-3f, NULL, 4680, .3f, true);
    tp_node *smooth = tp_exponential_decay(g, 1, tp_get_global_step_var(g), 100, .25f, false);
    ok(g);
    {
        char t[TP_SHAPE_TEXT];
        CHECK_STR(tp_shape_text(&stairs->shape, t), "()");
    }
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK_MSG(s != NULL, "%s", tp_last_error())) {
        CHECK_NEAR(at_step(s, stairs, 0), 1e-3, 1e-10, 0);
        CHECK_NEAR(at_step(s, stairs, 4679), 1e-3, 1e-10, 0);
        CHECK_NEAR(at_step(s, stairs, 4680), 3e-4, 1e-10, 0);
        CHECK_NEAR(at_step(s, stairs, 9360), 9e-5, 1e-10, 0);
        CHECK_NEAR(at_step(s, smooth, 50), .5, 1e-6, 0);
        CHECK_NEAR(at_step(s, smooth, 200), .0625, 1e-7, 0);
    }
    tp_session_free(s);
    done(g);
}

TEST(piecewise_constant)
{
    tp_graph *g = graph();
    static const int64_t boundaries[2] = {100, 200};
    static const float values[3] = {1, .5f, .25f};
    tp_node *lr = tp_piecewise_constant(g, NULL, boundaries, values, 2);
    ok(g);
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK_MSG(s != NULL, "%s", tp_last_error())) {
        static const struct {
            int64_t step;
            double lr;
        } c[] = {{0, 1}, {100, 1}, {101, .5}, {200, .5}, {201, .25}, {5000, .25}};
        for (int i = 0; i < TP_COUNT(c); i++) CHECK_NEAR(at_step(s, lr, c[i].step), c[i].lr, 0, 0);
    }
    tp_session_free(s);
    done(g);
}

TEST(an_optimizer_follows_a_schedule)
{
    tp_graph *g = graph();
    tp_grad_var gv = {input(g, "g"), weight(g, "w", 0)};
    tp_node *gs = tp_get_global_step_var(g);
    tp_node *op[2] = {tp_apply_gradients(tp_sgd(tp_exponential_decay(g, 1, NULL, 1, .5f, true)), &gv, 1),
                      tp_assign_add(gs, tp_const_as(g, TP_I64, 1), NULL)};
    tp_node *both = tp_group(g, op, 2, "step");
    ok(g);
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK_MSG(s != NULL, "%s", tp_last_error())) {
        const float one = 1;
        for (int i = 0; i < 3; i++) step(s, both, &gv.grad, &one, 1);
        CHECK_NEAR(variable(s, "w"), -1.75, 1e-6, 0);
    }
    tp_session_free(s);
    done(g);
}

/* ==== fifty updates, against references ================================================================ */
/* ref_optim.py has the formulas in double, and what they were checked against. */

static tp_optimizer *make_by_name(const char *name, tp_graph *g)
{
#define LR(v_) rate(g, v_)
    if (!strcmp(name, "sgd")) return tp_sgd(LR(0.1f));
    if (!strcmp(name, "momentum")) return tp_momentum(LR(0.1f));
    if (!strcmp(name, "nesterov")) return tp_nesterov(LR(0.1f));
    if (!strcmp(name, "adam")) return tp_adam(LR(0.05f));
    if (!strcmp(name, "adam_epsilon")) return tp_adam(LR(0.05f), .beta1 = 0.5f, .beta2 = 0.99f, .epsilon = 1e-2f);
    if (!strcmp(name, "adamw")) return tp_adamw(LR(0.05f), .weight_decay = 0.1f);
    if (!strcmp(name, "lamb")) return tp_lamb(LR(0.02f), .weight_decay = 0.05f);
    if (!strcmp(name, "rmsprop")) return tp_rmsprop(LR(0.01f));
    if (!strcmp(name, "rmsprop_momentum"))
        return tp_rmsprop(LR(0.01f), .decay = 0.8f, .momentum = 0.5f, .epsilon = 1e-3f);
    if (!strcmp(name, "rmsprop_centered"))
        return tp_rmsprop(LR(0.01f), .momentum = 0.5f, .epsilon = 1e-2f, .centered = TP_YES);
    if (!strcmp(name, "adagrad")) return tp_adagrad(LR(0.3f));
    if (!strcmp(name, "adadelta")) return tp_adadelta(LR(1.0f), .rho = 0.9f, .epsilon = 1e-3f);
    if (!strcmp(name, "ftrl")) return tp_ftrl(LR(0.3f));
    if (!strcmp(name, "ftrl_l1_l2"))
        return tp_ftrl(LR(0.3f), .initial_accumulator_value = 0.2f, .l1 = 0.4f, .l2 = 0.1f, .l2_shrinkage = 0.02f);
    if (!strcmp(name, "ftrl_power")) return tp_ftrl(LR(0.3f), .learning_rate_power = -0.7f);
    if (!strcmp(name, "rmsprop_no_decay"))
        return tp_rmsprop(LR(0.01f), .decay = TP_ZERO, .momentum = 0.9f, .epsilon = 1e-2f);
    if (!strcmp(name, "rmsprop_centered_plain"))
        return tp_rmsprop(LR(0.02f), .decay = 0.95f, .epsilon = 1e-3f, .centered = TP_YES);
    if (!strcmp(name, "rmsprop_from_0")) return tp_rmsprop(LR(0.05f), .momentum = 0.9f);
    if (!strcmp(name, "rmsprop_centered_from_0"))
        return tp_rmsprop(LR(0.05f), .decay = 0.8f, .momentum = 0.9f, .epsilon = 1e-2f, .centered = TP_YES);
    if (!strcmp(name, "ftrl_l1")) return tp_ftrl(LR(0.5f), .l1 = 0.7f);
    if (!strcmp(name, "ftrl_l2")) return tp_ftrl(LR(0.5f), .l2 = 0.3f);
    if (!strcmp(name, "ftrl_shrinkage")) return tp_ftrl(LR(0.3f), .l2_shrinkage = 0.1f);
    if (!strcmp(name, "ftrl_power_0"))
        return tp_ftrl(LR(0.1f), .learning_rate_power = TP_ZERO, .initial_accumulator_value = 0.5f, .l1 = 0.1f,
                       .l2 = 0.2f);
    if (!strcmp(name, "ftrl_power_all"))
        return tp_ftrl(LR(0.4f), .learning_rate_power = -0.3f, .initial_accumulator_value = 1.0f, .l1 = 0.3f,
                       .l2 = 0.2f, .l2_shrinkage = 0.05f);
    if (!strcmp(name, "ftrl_from_0")) return tp_ftrl(LR(0.3f), .l1 = 0.2f, .l2 = 0.05f);
    if (!strcmp(name, "lamb_plain")) return tp_lamb(LR(0.05f));
    if (!strcmp(name, "lamb_epsilon")) return tp_lamb(LR(0.05f), .beta1 = 0.5f, .beta2 = 0.99f, .epsilon = 1e-2f);
    if (!strcmp(name, "lamb_all"))
        return tp_lamb(LR(0.03f), .beta1 = 0.8f, .beta2 = 0.9f, .epsilon = 1e-3f, .weight_decay = 0.2f);
    if (!strcmp(name, "lion")) return tp_lion(LR(0.02f));
    if (!strcmp(name, "lion_all")) return tp_lion(LR(0.05f), .beta1 = 0.6f, .beta2 = 0.8f, .weight_decay = 0.3f);
    if (!strcmp(name, "lamb_from_0")) return tp_lamb(LR(0.05f), .weight_decay = 0.1f);
    if (!strcmp(name, "accum_momentum")) return tp_accum_grad(tp_momentum(LR(0.05f)), 4);
    if (!strcmp(name, "accum_adam")) return tp_accum_grad(tp_adam(LR(0.05f)), 3);
#undef LR
    return NULL;
}

/* The weights after 1, 2, 10 and 50 updates; dtype says in what they are kept. */
static void fifty_updates(const char *name, tp_dtype dtype, int threads, const char *isa, double got[20])
{
    static const double start[5] = {1, -2, 0.5, 3, -0.25}, curve[5] = {0.1, 0.5, 1.0, 2.0, 0.3};
    tp_graph *g = graph();
    tp_node *w = tp_get_variable_as(g, "w", dtype, tp_make_shape(5), tp_init_zeros());
    tp_node *shift = tp_placeholder(g, "shift", dtype, tp_make_shape(5)),
            *slope = tp_placeholder(g, "slope", dtype, tp_make_shape(5));
    tp_grad_var gv;
    gv.grad = tp_add(tp_mul(slope, w), shift);
    gv.var = w;
    tp_optimizer *o = make_by_name(name, g);
    if (!CHECK_MSG(o != NULL, "no optimizer %s", name)) {
        done(g);
        return;
    }
    tp_node *op = tp_apply_gradients(o, &gv, 1);
    tp_session_config c = tp_default_session_config();
    c.threads = threads;
    c.isa = isa;
    tp_session *s = ok(g) ? tp_session_new(g, &c) : NULL;
    tp_tensor t[3], read;
    memset(t, 0, sizeof t);
    memset(&read, 0, sizeof read);
    for (int q = 0; q < 3; q++) CHECK_OK(tp_tensor_resize(&t[q], dtype, tp_make_shape(5)));
    for (int i = 0; i < 5; i++) tp_tensor_set(&t[0], i, strstr(name, "_from_0") ? 0 : start[i]);
    for (int i = 0; i < 5; i++) tp_tensor_set(&t[1], i, curve[i]);
    if (CHECK_MSG(s != NULL, "%s", tp_last_error())) CHECK_OK(tp_session_load(s, tp_node_variable(w), &t[0]));
    for (int n = 0, at = 0; s && n < 50; n++) {
        tp_feed feed[2];
        memset(feed, 0, sizeof feed);
        feed[0].node = slope, feed[0].value = t[1];
        feed[1].node = shift, feed[1].value = t[2];
        for (int i = 0; i < 5; i++) tp_tensor_set(&t[2], i, (double)(float)(0.5 * sin(0.7 * n + i)));
        if (!CHECK_OK(tp_session_run(s, feed, 2, &op, 1, NULL))) break;
        if (n != 0 && n != 1 && n != 9 && n != 49) continue;
        CHECK_OK(tp_session_read(s, tp_node_variable(w), &read));
        for (int i = 0; i < 5; i++) got[at++] = tp_tensor_get(&read, i);
    }
    for (int q = 0; q < 3; q++) tp_tensor_free(&t[q]);
    tp_tensor_free(&read);
    tp_session_free(s);
    done(g);
}

TEST(fifty_updates_follow_the_references)
{
    FILE *f = fopen("tests/ref_optim.txt", "r");
    if (!f) f = fopen("ref_optim.txt", "r");
    if (!CHECK_MSG(f != NULL, "tests/ref_optim.txt is missing")) return;
    char name[64];
    int cases = 0;
    for (; fscanf(f, "%63s", name) == 1; cases++) {
        double want[20] = {0}, got[20] = {0}, twice[20] = {0};
        for (int i = 0; i < 20; i++)
            if (i / 5 != 1) CHECK(fscanf(f, "%lf", &want[i]) == 1);
        for (int variant = 0; variant < 3; variant++) { /* the fast kernels, the naive ones, double */
            fifty_updates(name, variant == 2 ? TP_F64 : TP_F32, 1, variant == 1 ? "naive" : NULL, got);
            for (int part = 0; part < 4; part += part ? 1 : 2) {
                double error = 0, size = 0;
                for (int i = 5 * part; i < 5 * part + 5; i++) {
                    error += (got[i] - want[i]) * (got[i] - want[i]);
                    size += want[i] * want[i];
                }
                CHECK_MSG(sqrt(error / size) < (variant == 2 ? 1e-6 : 1e-5), "%s, variant %d, part %d: error %g", name,
                          variant, part, sqrt(error / size));
            }
            if (variant == 0) { /* and the same bits with more threads */
                fifty_updates(name, TP_F32, 3, NULL, twice);
                CHECK(memcmp(got, twice, sizeof got) == 0);
            }
        }
    }
    fclose(f);
    CHECK(cases >= 19);
}

/* What other programs computed (ref_optim_others.py): TensorFlow's kernels, and optax where TensorFlow has none. In the same
 * floats, by the fast kernels and the naive ones. What l1 holds is 0 in both. Weights are up to 3: an ulp of float32 is 2.4e-7.
 * optax has beta^t in double where the weights are; here it is float32, as it is in TensorFlow. */
TEST(fifty_updates_are_those_of_other_programs)
{
    FILE *f = fopen("tests/ref_optim_others.txt", "r");
    if (!f) f = fopen("ref_optim_others.txt", "r");
    if (!CHECK_MSG(f != NULL, "tests/ref_optim_others.txt is missing")) return;
    char name[64];
    int cases = 0, bits;
    for (; fscanf(f, "%63s %d", name, &bits) == 2; cases++) {
        double want[20];
        for (int i = 0; i < 20; i++) CHECK(fscanf(f, "%lf", &want[i]) == 1);
        const double room = bits == 32 ? 1e-6 : strncmp(name, "lamb", 4) == 0 ? 1e-7 : 1e-13;
        for (int naive = 0; naive < 2; naive++) {
            double got[20] = {0};
            fifty_updates(name, bits == 64 ? TP_F64 : TP_F32, 1, naive ? "naive" : NULL, got);
            for (int i = 0; i < 20; i++) {
                const double error = fabs(got[i] - want[i]);
                CHECK_MSG(error <= room && (got[i] == 0) == (want[i] == 0),
                          "%s, %d bits, %s, number %d: %.9g, not %.9g", name, bits, naive ? "naive" : "fast", i, got[i],
                          want[i]);
            }
        }
    }
    fclose(f);
    CHECK(cases == 2 * 28);
}

/* By hand: m = 0, 0.02, 0.0148 and the signs of 0.2, -0.032, 0.01332; a weight whose gradient and m are 0 only decays; a NaN
 * stays one. */
TEST(lion_moves_by_the_sign)
{
    tp_graph *g = tp_graph_new(NULL);
    static const float start[3] = {1, 2, 3}, grads[3][3] = {{2, 0, 1}, {-0.5f, 0, 1}, {0, 0, 1}};
    static const double want[3] = {0.762125, 1.71475, 0};
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(3), tp_init_values(start, 3));
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(3));
    tp_grad_var gv = {x, w};
    tp_optimizer *o = tp_lion(rate(g, 0.1f), .weight_decay = 0.5f);
    tp_node *op = tp_apply_gradients(o, &gv, 1), *m = tp_get_slot(o, w, "m");
    tp_session *s = tp_session_new(g, NULL);
    if (!CHECK(s != NULL && m != NULL)) return;
    CHECK_STR(tp_node_name(m), "w/Lion");
    for (int t = 0; t < 3; t++) {
        tp_feed feed;
        memset(&feed, 0, sizeof feed);
        feed.node = x;
        CHECK_OK(tp_tensor_resize(&feed.value, TP_F32, tp_make_shape(3)));
        for (int i = 0; i < 3; i++) tp_tensor_set(&feed.value, i, t == 1 && i == 2 ? NAN : (double)grads[t][i]);
        CHECK_OK(tp_session_run(s, &feed, 1, &op, 1, NULL));
        tp_tensor_free(&feed.value);
    }
    tp_tensor now;
    memset(&now, 0, sizeof now);
    CHECK_OK(tp_session_read(s, tp_find_variable(g, "w"), &now));
    for (int i = 0; i < 2; i++) CHECK_NEAR(tp_tensor_get(&now, i), want[i], 1e-6, 0);
    CHECK(tp_tensor_get(&now, 2) != tp_tensor_get(&now, 2));
    CHECK_OK(tp_session_read(s, tp_find_variable(g, "w/Lion"), &now));
    CHECK_NEAR(tp_tensor_get(&now, 0), 0.0148 * 0.99, 1e-7, 0);
    tp_tensor_free(&now);
    tp_session_free(s);
    done(g);
}

/* Large variables are cut into pieces; LAMB's norms are sums over all of them. */
TEST(lamb_of_many_pieces)
{
    float first[3] = {0};
    for (int variant = 0; variant < 3; variant++) {
        tp_graph *g = graph();
        tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(50000), tp_init_constant(0.5f));
        tp_grad_var gv;
        gv.grad = tp_affine(w, 0.25f, 0.1f);
        gv.var = w;
        tp_node *op = tp_apply_gradients(tp_lamb(rate(g, 0.1f), .weight_decay = 0.2f), &gv, 1);
        tp_session_config c = tp_default_session_config();
        c.threads = variant == 1 ? 3 : 1;
        c.isa = variant == 2 ? "naive" : NULL;
        tp_session *s = ok(g) ? tp_session_new(g, &c) : NULL;
        if (CHECK_MSG(s != NULL, "%s", tp_last_error())) {
            CHECK_OK(tp_session_run(s, NULL, 0, &op, 1, NULL));
            first[variant] = (float)variable(s, "w");
        }
        tp_session_free(s);
        done(g);
    }
    /* m/(1-b1) = g, sqrt(v/(1-b2)) = |g|: r = 1 + 0.2 w = 1.1 everywhere, |w|/|r| = 0.5/1.1 */
    CHECK_NEAR(first[0], 0.5 - 0.1 * 0.5, 1e-5, 0);
    CHECK(first[0] == first[1]);
    CHECK_NEAR(first[2], first[0], 1e-6, 0);
}

/* ==== wrappers ======================================================================================== */

static tp_node *clip_to_one(tp_node *updated, tp_node *var, void *user)
{
    ++*(int *)user;
    return strcmp(tp_node_name(var), "free") == 0 ? NULL : tp_minimum(updated, tp_const(tp_node_graph(var), 1.0f));
}
static tp_node *copy_to_shadow(tp_node *var, tp_node *updated, tp_node *pred, void *user)
{
    tp_node *const *shadow = (tp_node *const *)user;
    return strcmp(tp_node_name(var), "free") == 0 ? NULL : tp_assign(*shadow, updated, pred);
}

TEST(variables_are_assigned_after_the_whole_update)
{
    tp_graph *g = graph();
    int calls = 0;
    tp_grad_var gv[2] = {{input(g, "g0"), weight(g, "held", 0)}, {input(g, "g1"), weight(g, "free", 0)}};
    tp_node *in[2] = {gv[0].grad, gv[1].grad};
    tp_optimizer *o = tp_variable_assignment(tp_sgd(rate(g, 1)), clip_to_one, &calls);
    tp_node *op = tp_apply_gradients(o, gv, 2);
    CHECK(calls == 2);
    ok(g);
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK_MSG(s != NULL, "%s", tp_last_error())) {
        const float v[2] = {-0.75f, -0.75f};
        step(s, op, in, v, 2);
        CHECK(variable(s, "held") == 0.75 && variable(s, "free") == 0.75);
        step(s, op, in, v, 2);
        CHECK(variable(s, "held") == 1.0 && variable(s, "free") == 1.5);
    }
    tp_session_free(s);
    done(g);
}

TEST(post_process_sees_new_values_and_only_real_updates)
{
    tp_graph *g = graph();
    tp_variable_desc d = {.name = "shadow", .shape = tp_make_shape(1), .init = tp_init_zeros(), .trainable = TP_NO};
    tp_node *shadow = tp_get_variable(g, &d);
    tp_grad_var gv[2] = {{input(g, "g0"), weight(g, "w", 0)}, {input(g, "g1"), weight(g, "free", 0)}};
    tp_node *in[2] = {gv[0].grad, gv[1].grad};
    tp_optimizer *o = tp_accum_grad(tp_post_process(tp_sgd(rate(g, 1)), copy_to_shadow, &shadow), 2);
    tp_node *op = tp_apply_gradients(o, gv, 2);
    ok(g);
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK_MSG(s != NULL, "%s", tp_last_error())) {
        const float v[2] = {-1, -1};
        step(s, op, in, v, 2);
        CHECK(variable(s, "w") == 0 && variable(s, "shadow") == 0 && variable(s, "w/AccumGrad") == -1);
        CHECK(variable(s, "AccumGrad/counter") == 1);
        step(s, op, in, v, 2);
        CHECK(variable(s, "w") == 2 && variable(s, "shadow") == 2 && variable(s, "w/AccumGrad") == 0);
        step(s, op, in, v, 2);
        CHECK(variable(s, "w") == 2 && variable(s, "free") == 2 && variable(s, "AccumGrad/counter") == 3);
    }
    tp_session_free(s);
    done(g);
}

static tp_node *half_of(tp_node *updated, tp_node *var, void *user)
{
    return (void)var, (void)user, tp_affine(updated, 0.5f, 0);
}
/* Around an optimizer that waits or skips, a function runs where the variables are updated, and in no other run. */
TEST(post_process_around_accumulation_and_loss_scale)
{
    static const float gradient[] = {-1, -1, -1, -1, INFINITY, -1, -1};
    static const double want[4][7] = {{0, 1, 1, 1.5, 1.5, 1.5, 1.75},
                                      {0, 2, 2, 4, 4, 4, 6},
                                      {0.5, 0.75, 0.875, 0.9375, 0.9375, 0.96875, 0.984375},
                                      {1, 2, 3, 4, 4, 5, 6}};
    for (int how = 0; how < 4; how++) {
        tp_graph *g = graph();
        tp_variable_desc d = {.name = "shadow", .shape = tp_make_shape(1), .init = tp_init_zeros(), .trainable = TP_NO};
        tp_node *shadow = tp_get_variable(g, &d);
        tp_grad_var gv = {input(g, "g"), weight(g, "w", 0)};
        tp_optimizer *o = tp_sgd(rate(g, 1));
        if (how < 2) o = tp_accum_grad(tp_apply_grad_processors(o, TP_GRADPROCS(tp_gradproc_filter_none())), 2);
        else o = tp_loss_scale(o, .initial = 1, .interval = 100);
        if (how < 2)
            o = tp_loss_scale(tp_apply_grad_processors(o, TP_GRADPROCS(tp_gradproc_filter_none())), .initial = 1,
                              .interval = 100);
        o = how % 2 == 0 ? tp_variable_assignment(o, half_of, NULL) : tp_post_process(o, copy_to_shadow, &shadow);
        tp_node *op = tp_apply_gradients(o, &gv, 1);
        ok(g);
        tp_session *s = tp_session_new(g, NULL);
        for (int i = 0; s && i < TP_COUNT(gradient); i++) {
            /* between updates the shadow keeps its value, whatever else changes it */
            step(s, op, &gv.grad, &gradient[i], 1);
            CHECK_MSG(variable(s, how % 2 ? "shadow" : "w") == want[how][i], "case %d, step %d: %g, expected %g", how,
                      i, variable(s, how % 2 ? "shadow" : "w"), want[how][i]);
        }
        CHECK_MSG(s != NULL, "%s", tp_last_error());
        tp_session_free(s);
        done(g);
    }
}

static tp_node *count_updates(tp_node *var, tp_node *updated, tp_node *pred, void *user)
{
    tp_node *const *count = (tp_node *const *)user;
    return strcmp(tp_node_name(var), "a1") == 0 ? tp_assign_add(*count, tp_ones_like(updated), pred) : NULL;
}
/* Each part's optimizer updates the variables that its regex takes first, and a wrapper around all acts where one of them updates. */
TEST(parts_of_a_model_have_optimizers_of_their_own)
{
    static const double want[2][4][3] = {{{1, 0, 1}, {2, 8, 2}, {3, 8, 3}, {4, 16, 4}},
                                         {{0, 0, 0}, {2, 8, 1}, {2, 8, 1}, {4, 16, 2}}}; /* a1, b2, count */
    for (int both = 0; both < 2; both++) {
        tp_graph *g = graph();
        tp_variable_desc d = {.name = "count", .shape = tp_make_shape(1), .init = tp_init_zeros(), .trainable = TP_NO};
        tp_node *count = tp_get_variable(g, &d);
        tp_grad_var gv[3] = {{input(g, "g0"), weight(g, "b1", 0)},
                             {input(g, "g1"), weight(g, "a1", 0)},
                             {input(g, "g2"), weight(g, "b2", 0)}};
        tp_node *in[3] = {gv[0].grad, gv[1].grad, gv[2].grad};
        tp_optimizer *slow = tp_sgd(rate(g, 1));
        tp_optimizer_part part[3] = {{"a.*", both ? tp_accum_grad(slow, 2) : slow},
                                     {"a.*|b.*", tp_accum_grad(tp_sgd(tp_const(g, 4)), 2)},
                                     {"nothing", tp_sgd(tp_const(g, 100))}};
        tp_test_keep_log();
        tp_optimizer *o = tp_post_process(tp_multi_optimizer(part, 3), count_updates, &count);
        part[0].regex = part[1].regex = "x"; /* the list was copied */
        tp_node *op = tp_apply_gradients(o, gv, 3);
        if (!both) CHECK_HAS(tp_test_logged, "[MultiOptimizer] No match was found for regex nothing"); /* said once */
        ok(g);
        tp_session *s = tp_session_new(g, NULL);
        const float v[3] = {-1, -1, -1};
        for (int i = 0; s && i < 4; i++) {
            step(s, op, in, v, 3);
            const double a = variable(s, "a1"), b = variable(s, "b2"), seen = variable(s, "count");
            CHECK_MSG(a == want[both][i][0] && b == want[both][i][1] && variable(s, "b1") == b &&
                          seen == want[both][i][2],
                      "%d, step %d: %g, %g, count %g", both, i, a, b, seen);
        }
        CHECK_MSG(s != NULL, "%s", tp_last_error());
        tp_session_free(s);
        done(g);
    }
    CHECK(!tp_multi_optimizer(NULL, 0));
    const tp_optimizer_part none = {".*", NULL};
    CHECK(!tp_multi_optimizer(&none, 1));
    CHECK_HAS(tp_last_error(), "tp_multi_optimizer: there is no optimizer");
    tp_set_log(NULL, NULL);
}

/* A loss scale that is not outside of all: its gradients are not multiplied, or are processed with the factor. */
TEST(a_loss_scale_in_the_wrong_place_is_told)
{
    tp_graph *g = graph();
    tp_test_keep_log(); /* in the right place first: a warning comes once */
    tp_minimize(tp_loss_scale(tp_apply_grad_processors(tp_sgd(rate(g, 1)), TP_GRADPROCS(tp_gradproc_filter_none()))),
                tp_sum(weight(g, "w", 1)), NULL);
    ok(g);
    done(g);
    CHECK_STR(tp_test_logged, "");
    g = graph();
    tp_grad_var gv = {NULL, weight(g, "w", 1)};
    tp_compute_gradients(tp_sum(gv.var), &gv.var, 1, &gv);
    tp_apply_gradients(tp_loss_scale(tp_sgd(rate(g, 1))), &gv, 1);
    CHECK_HAS(tp_test_logged, "LossScale divides the gradients by its loss scale: are they multiplied by it?");
    tp_apply_grad_processors(tp_loss_scale(tp_sgd(rate(g, 1))), TP_GRADPROCS(tp_gradproc_global_norm_clip(1)));
    CHECK_HAS(tp_test_logged, "tp_apply_grad_processors around tp_loss_scale");
    ok(g);
    done(g);
    tp_set_log(NULL, NULL);
}

/* In half precision 1 - 0.999 would be 0, so the learning rate and the powers of beta are float32. */
TEST(adam_corrects_its_averages_in_half_precision_too)
{
    static const tp_dtype dtype[] = {TP_F32, TP_F16, TP_BF16};
    for (int i = 0; i < 6; i++) {
        tp_graph *g = graph();
        tp_node *w = tp_get_variable_as(g, "w", dtype[i % 3], tp_make_shape(1), tp_init_zeros());
        tp_node *lr = tp_const(g, 0.0078125);
        tp_node *op =
            tp_minimize(i < 3 ? tp_adam(lr) : tp_adamw(lr, .beta2 = 0.9999f, .weight_decay = TP_ZERO), tp_sum(w), NULL);
        ok(g);
        tp_session *s = tp_session_new(g, NULL);
        for (int k = 1; s && k <= 4; k++) { /* a gradient of 1 changes the variable by the rate */
            step(s, op, NULL, NULL, 0);
            CHECK_NEAR(variable(s, "w"), -0.0078125 * k, 0, 0.005);
        }
        CHECK_MSG(s != NULL, "%s", tp_last_error());
        tp_session_free(s);
        done(g);
    }
}

TEST(order_of_clipping_and_accumulating_matters)
{
    double w[2] = {0};
    for (int inside = 0; inside < 2; inside++) {
        tp_graph *g = graph();
        tp_grad_var gv = {input(g, "g"), weight(g, "w", 0)};
        tp_node *in = gv.grad;
        tp_optimizer *o = tp_sgd(rate(g, 1));
        if (inside) o = tp_apply_grad_processors(o, TP_GRADPROCS(tp_gradproc_global_norm_clip(1)));
        o = tp_accum_grad(o, 2);
        if (!inside) o = tp_apply_grad_processors(o, TP_GRADPROCS(tp_gradproc_global_norm_clip(1)));
        tp_node *op = tp_apply_gradients(o, &gv, 1);
        ok(g);
        tp_session *s = tp_session_new(g, NULL);
        const float v = -5;
        for (int i = 0; s && i < 2; i++) step(s, op, &in, &v, 1);
        if (CHECK_MSG(s != NULL, "%s", tp_last_error())) w[inside] = variable(s, "w");
        tp_session_free(s);
        done(g);
    }
    CHECK_NEAR(w[0], 2, 1e-6, 0); /* each of two parts was clipped to 1 */
    CHECK_NEAR(w[1], 1, 1e-6, 0); /* the sum was */
}

/* A scale that halves where a gradient overflows and doubles after three good updates, followed by hand. */
TEST(loss_scale_skips_what_overflows_and_grows_again)
{
    tp_graph *g = graph();
    tp_node *x = input(g, "x"), *w = weight(g, "w", 1), *u = weight(g, "u", 2);
    tp_optimizer *o = tp_loss_scale(tp_momentum(rate(g, 0.125f), .momentum = 0.5f), .initial = 1024, .interval = 3);
    tp_node *vars[2] = {w, u};
    tp_grad_var gv[2];
    tp_optimizer_compute_gradients(o, tp_sum(tp_mul(x, tp_add(w, tp_affine(u, 2, 0)))), vars, 2, gv);
    tp_node *op = tp_apply_gradients(o, gv, 2);
    ok(g);
    tp_session *s = tp_session_new(g, NULL);
    float scale = 1024, good = 0, weights[2] = {1, 2}, momentum[2] = {0, 0};
    static const float inputs[] = {0.5f, -0.25f, INFINITY, 1, 2, 0.5f, NAN, 3e36f, -1, 0.25f, 1, 1, 0.5f};
    for (size_t i = 0; s && i < sizeof inputs / sizeof *inputs; i++) {
        const float v = inputs[i], part[2] = {v * scale, 2 * v * scale};
        step(s, op, &x, &v, 1);
        if (isfinite(part[0]) && isfinite(part[1])) {
            for (int k = 0; k < 2; k++) {
                momentum[k] = 0.5f * momentum[k] + part[k] / scale;
                weights[k] -= 0.125f * momentum[k];
            }
            good++;
            if (good >= 3) scale *= 2, good = 0;
        } else {
            scale = scale > 2 ? scale / 2 : 1;
            good = 0;
        }
        CHECK_MSG(variable(s, "w") == (double)weights[0] && variable(s, "u") == (double)weights[1],
                  "step %zu: weights %g %g, expected %g %g", i, variable(s, "w"), variable(s, "u"), (double)weights[0],
                  (double)weights[1]);
        CHECK_MSG(variable(s, "loss_scale") == (double)scale && variable(s, "loss_scale/good_steps") == (double)good,
                  "step %zu: scale %g, expected %g", i, variable(s, "loss_scale"), (double)scale);
    }
    CHECK(s != NULL && scale == 512); /* down three times, up twice */
    tp_session_free(s);
    done(g);
}

/* 2^126 is the largest scale: that of 2^127 would have a reciprocal of 0 on processors that drop denormal numbers. */
TEST(loss_scale_has_a_largest_value)
{
    tp_graph *g = graph();
    tp_node *x = input(g, "x"), *w = weight(g, "w", 0);
    tp_optimizer *o = tp_loss_scale(tp_sgd(rate(g, 1)), .initial = 2.1267647932558654e37f, .interval = 1); /* 2^124 */
    tp_grad_var gv;
    tp_optimizer_compute_gradients(o, tp_sum(tp_mul(x, w)), &w, 1, &gv);
    tp_node *op = tp_apply_gradients(o, &gv, 1);
    ok(g);
    tp_session *s = tp_session_new(g, NULL);
    static const double expected[] = {4.2535295865117308e37, 8.5070591730234616e37, 8.5070591730234616e37,
                                      8.5070591730234616e37};
    const float one = 1;
    for (int i = 0; s && i < TP_COUNT(expected); i++) {
        step(s, op, &x, &one, 1);
        CHECK_MSG(variable(s, "loss_scale") == expected[i] && variable(s, "w") == -1 - i, "step %d: scale %g, w %g", i,
                  variable(s, "loss_scale"), variable(s, "w"));
    }
    CHECK(s != NULL);
    tp_session_free(s);
    done(g);
    g = graph();
    tp_loss_scale(tp_sgd(rate(g, 1)), .initial = 0.5f); /* the least is as small then */
    done(g);
    g = graph();
    tp_loss_scale(tp_sgd(rate(g, 1)), .initial = 1e38f);
    CHECK_HAS(tp_graph_error(g), "LossScale: initial is 1e+38 and minimum 1: at most 2^126");
    tp_graph_free(g);
    g = graph();
    tp_loss_scale(tp_sgd(rate(g, 1)), .minimum = INFINITY);
    CHECK_HAS(tp_graph_error(g), "LossScale: initial is 65536 and minimum inf: at most 2^126");
    tp_graph_free(g);
}

/* The reciprocal of a large scale is 0 in float16, and that of 1000 is rounded in both halves: gradients are divided in float32. */
TEST(gradients_of_half_variables_are_divided_in_float32)
{
    static const tp_dtype dtype[] = {TP_F16, TP_BF16};
    static const float scales[] = {67108864, 1000}; /* 2^26 */
    for (int i = 0; i < 4; i++) {
        tp_graph *g = graph();
        tp_node *w = tp_get_variable_as(g, "w", dtype[i % 2], tp_make_shape(1), tp_init_zeros());
        const float slope = i < 2 ? 1.0f / 8192 : 1;
        tp_node *cost = tp_affine(tp_sum(tp_cast(w, TP_F32)), slope, 0);
        tp_node *op = tp_minimize(tp_loss_scale(tp_sgd(rate(g, 1)), .initial = scales[i / 2]), cost, NULL);
        ok(g);
        tp_session *s = tp_session_new(g, NULL);
        step(s, op, NULL, NULL, 0);
        CHECK_MSG(variable(s, "w") == (double)-slope, "%s, scale %g: %g instead of %g", tp_dtype_name(dtype[i % 2]),
                  (double)scales[i / 2], variable(s, "w"), (double)-slope);
        tp_session_free(s);
        done(g);
    }
}

TEST(loss_scale_goes_around_accumulation)
{
    tp_graph *g = graph();
    tp_node *x = input(g, "x"), *w = weight(g, "w", 0);
    tp_optimizer *o = tp_loss_scale(tp_accum_grad(tp_sgd(rate(g, 1)), 2), .initial = 4);
    tp_grad_var gv;
    tp_optimizer_compute_gradients(o, tp_sum(tp_mul(x, w)), &w, 1, &gv);
    tp_node *op = tp_apply_gradients(o, &gv, 1);
    ok(g);
    tp_session *s = tp_session_new(g, NULL);
    static const float inputs[] = {1, INFINITY, 2, 4, NAN, 8};
    static const double expected[] = {0, 0, -3, -3, -3, -15};
    for (size_t i = 0; s && i < sizeof inputs / sizeof *inputs; i++) {
        step(s, op, &x, &inputs[i], 1);
        CHECK_MSG(variable(s, "w") == expected[i], "step %zu: %g, expected %g", i, variable(s, "w"), expected[i]);
    }
    CHECK(s != NULL);
    tp_session_free(s);
    done(g);
}

/* ==== processors that look =========================================================================== */

static int times_logged(const char *part)
{
    int n = 0;
    for (const char *p = tp_test_logged; (p = strstr(p, part)) != NULL; p++) n++;
    return n;
}

TEST(gradients_are_summarised_printed_and_checked)
{
    tp_graph *g = graph();
    tp_grad_var gv[2] = {{input(g, "g0"), weight(g, "conv0/W", 0)}, {input(g, "g1"), weight(g, "conv0/b", 0)}};
    tp_node *in[2] = {gv[0].grad, gv[1].grad};
    tp_optimizer *o = tp_apply_grad_processors(
        tp_sgd(rate(g, 1)), TP_GRADPROCS(tp_gradproc_summary(".*/W"), tp_gradproc_summary(".*"),
                                         tp_gradproc_print(".*/b"), tp_gradproc_print(NULL), tp_gradproc_check()));
    tp_node *op = tp_apply_gradients(o, gv, 2);
    ok(g);
    int n = 0, histograms = 0, moving = 0;
    tp_node *const *summaries = tp_collection(g, TP_KEY_SUMMARIES, &n);
    for (int i = 0; i < n; i++) {
        const tp_summary_attrs *a = tp_summary_info(summaries[i]);
        if (!CHECK(a != NULL)) continue;
        if (a->kind == TP_SUMMARY_HISTOGRAM) {
            histograms++;
            CHECK_STR(a->tag, histograms == 1 ? "SummaryGradient/conv0/W-grad" : "SummaryGradient/conv0/b-grad");
        }
    }
    CHECK(histograms == 2); /* once a variable, though two processors match W */
    tp_collection(g, TP_KEY_MOVING_SUMMARY_OPS, &moving);
    CHECK(moving == 2);
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK_MSG(s != NULL, "%s", tp_last_error())) {
        const float v[2] = {2, 3}, bad[2] = {1, NAN};
        tp_test_logged[0] = 0;
        step(s, op, in, v, 2);
        CHECK_HAS(tp_test_logged, "conv0/W-grad: shape (1), mean 2, rms 2, [2]");
        CHECK_HAS(tp_test_logged, "conv0/b-grad: shape (1), mean 3, rms 3, [3]");
        /* once a variable, and only a processor whose pattern matches prints it */
        CHECK(times_logged("conv0/W-grad: shape") == 1 && times_logged("conv0/b-grad: shape") == 1);
        CHECK(variable(s, "conv0/W") == -2);
        tp_feed feed[2];
        memset(feed, 0, sizeof feed);
        for (int i = 0; i < 2; i++) {
            feed[i].node = in[i];
            tp_tensor_view(&feed[i].value, TP_F32, tp_make_shape(1), &bad[i]);
        }
        CHECK(tp_session_run(s, feed, 2, &op, 1, NULL) < 0);
        CHECK_HAS(tp_last_error(), "CheckGradient/conv0/b");
    }
    tp_session_free(s);
    done(g);
}

TEST(slots_of_the_other_optimizers)
{
    static const char *const names[] = {"w/RMSProp", "w/RMSProp_1", "w/RMSProp_2",  "w/RMSProp_3", "w/RMSProp_4",
                                        "w/Adagrad", "w/Adadelta",  "w/Adadelta_1", "w/Ftrl",      "w/Ftrl_1",
                                        "w/LAMB",    "w/LAMB_1",    "w/Adam",       "w/Adam_1"};
    tp_graph *g = graph();
    tp_grad_var gv = {input(g, "g"), weight(g, "w", 0)};
    tp_node *lr = rate(g, 0.1f);
    tp_optimizer *o[] = {tp_rmsprop(lr, .centered = TP_YES),
                         tp_rmsprop(lr),
                         tp_adagrad(lr),
                         tp_adadelta(lr),
                         tp_ftrl(lr),
                         tp_lamb(lr),
                         tp_adamw(lr)};
    for (int i = 0; i < TP_COUNT(o); i++) tp_apply_gradients(o[i], &gv, 1);
    ok(g);
    for (int i = 0; i < TP_COUNT(names); i++) CHECK_MSG(tp_find_variable(g, names[i]) != NULL, "no %s", names[i]);
    CHECK(tp_get_slot(o[0], gv.var, "mg") == tp_find_variable(g, "w/RMSProp_1")->node);
    CHECK(tp_get_slot(o[0], gv.var, "momentum") == tp_find_variable(g, "w/RMSProp_2")->node);
    CHECK(tp_get_slot(o[4], gv.var, "linear") == tp_find_variable(g, "w/Ftrl_1")->node);
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK_MSG(s != NULL, "%s", tp_last_error())) {
        CHECK(variable(s, "w/RMSProp") == 1);
        CHECK_NEAR(variable(s, "w/Adagrad"), 0.1, 1e-7, 0);
        CHECK_NEAR(variable(s, "w/Ftrl"), 0.1, 1e-7, 0);
        CHECK(variable(s, "w/Ftrl_1") == 0);
    }
    tp_session_free(s);
    done(g);
}

/* ==== mistakes ======================================================================================== */

static int greedy(const tp_gradproc *p, tp_graph *g, tp_grad_var *gvs, int n)
{
    (void)p, (void)g, (void)gvs;
    return n + 1;
}

static void mistake(int i, tp_graph *g)
{
    tp_node *w = weight(g, "w", 0), *x = input(g, "x"), *lr = rate(g, .1f);
    tp_grad_var gv[2] = {{x, w}, {x, w}}, none = {NULL, w}, wrong = {x, x},
                shape = {tp_placeholder(g, "y", TP_F32, tp_make_shape(2)), w};
    static const int64_t falling[2] = {5, 5};
    static const float values[3] = {1, 2, 3};
    tp_gradproc own;
    memset(&own, 0, sizeof own);
    own.name = "Greedy";
    own.process = greedy;
    const tp_optimizer_part same = {"v", tp_sgd(lr)}, scaled = {NULL, tp_loss_scale(tp_sgd(lr))}, bad = {"(", same.opt};
    const tp_optimizer_part parts[4] = {same, {".*", same.opt}, scaled, bad};
    switch (i) {
    case 0: tp_sgd(x); break;
    case 1: tp_apply_gradients(tp_sgd(lr), gv, 2); break;
    case 2: tp_apply_gradients(tp_sgd(lr), &none, 1); break;
    case 3: tp_apply_gradients(tp_sgd(lr), &wrong, 1); break;
    case 4: tp_apply_gradients(tp_momentum(lr), &shape, 1); break;
    case 5: tp_compute_gradients(tp_square(w), &w, 1, gv); break;
    case 6:
        tp_apply_gradients(tp_apply_grad_processors(tp_sgd(lr), TP_GRADPROCS(tp_gradproc_global_norm_clip(0))), gv, 1);
        break;
    case 7: tp_adam(lr, .beta1 = 1.5f); break;
    case 8: tp_exponential_decay(g, 1, NULL, 0, .5f, true); break;
    case 9: tp_exponential_decay(g, 1, x, 10, .5f, true); break;
    case 10: tp_piecewise_constant(g, NULL, falling, values, 2); break;
    case 11: tp_apply_gradients(tp_apply_grad_processors(tp_sgd(lr), &own, 1), gv, 1); break;
    case 12: tp_apply_gradients(tp_sgd(NULL), gv, 1); break;
    case 13: own.process = NULL, tp_apply_grad_processors(tp_sgd(lr), &own, 1); break;
    case 14:
        tp_apply_gradients(tp_apply_grad_processors(tp_sgd(lr), TP_GRADPROCS(tp_gradproc_scale(".*", 0))), gv, 1);
        break;
    case 15: tp_accum_grad(tp_sgd(lr), 0); break;
    case 16: tp_variable_assignment(tp_sgd(lr), NULL, NULL); break;
    case 17: tp_rmsprop(lr, .decay = 1.0f); break;
    case 18: tp_adagrad(lr, .initial_accumulator_value = -1.0f); break;
    case 19: tp_ftrl(lr, .learning_rate_power = 0.5f); break;
    case 20: tp_adadelta(lr, .epsilon = TP_ZERO); break;
    case 21: tp_lamb(lr, .weight_decay = -0.1f); break;
    case 22: tp_adamw(lr, .epsilon = -1.0f); break;
    case 23: tp_loss_scale(tp_sgd(lr), .interval = -1); break;
    case 24: tp_accum_grad(tp_loss_scale(tp_sgd(lr)), 2); break;
    case 25: tp_loss_scale(tp_loss_scale(tp_sgd(lr))); break;
    case 26: tp_apply_gradients(tp_multi_optimizer(&parts[0], 1), gv, 1); break;
    case 27: tp_multi_optimizer(parts, 2); break;
    case 28: tp_apply_gradients(tp_multi_optimizer(&parts[2], 1), gv, 1); break;
    case 29: tp_apply_gradients(tp_multi_optimizer(&parts[3], 1), gv, 1); break;
    }
}

TEST(each_mistake_is_a_sentence)
{
    static const char *const parts[] = {
        "GradientDescent: the learning rate 'x' is float32 (1): it must be a floating scalar",
        "GradientDescent: variable 'w' has two gradients",
        "GradientDescent: no gradients were given for any variable",
        "GradientDescent: 'x' is not a variable",
        "gradient 0 is float32 (2), its variable is float32 (1)",
        "has shape (1): it must be a scalar",
        "GlobalNormClip clips to a norm of 0",
        "Adam has .beta1 1.5",
        "decay_steps is 0",
        "exponential_decay: the step 'x' is float32 (1)",
        "boundary 5 follows 5",
        "Greedy left 2 of 1 gradients",
        "there is no optimizer",
        "gradient processor 0 has no process function",
        "no gradients were given",
        "AccumGrad: niter is 0: it must be 1 or more",
        "VariableAssignment: the function is NULL",
        "RMSProp has .decay 1: it must be at least 0 and less than 1",
        "Adagrad has .initial_accumulator_value -1: it must be positive",
        "Ftrl has .learning_rate_power 0.5: it must not be positive",
        "Adadelta has .epsilon 0: it must be positive",
        "LAMB has .weight_decay -0.1: it must not be negative",
        "Adam has .epsilon -1: it must not be negative",
        "LossScale: interval is -1: it must be 1 or more",
        "AccumGrad: put tp_loss_scale around it, not inside",
        "LossScale: the optimizer has a loss scale already",
        "MultiOptimizer: no part's regex matches the variable 'w'",
        "MultiOptimizer: parts 0 and 1 have the same optimizer: make one part of them, \"v|.*\"",
        "LossScale: 'MultiOptimizer' calls it with gradients that are not multiplied by its loss scale",
        "MultiOptimizer: regular expression '($', character 1: missing )"};
    for (int i = 0; i < TP_COUNT(parts); i++) {
        tp_graph *g = graph();
        mistake(i, g);
        CHECK_MSG(tp_graph_status(g) < 0, "mistake %d was not noticed", i);
        CHECK_HAS(tp_graph_error(g), parts[i]);
        done(g);
    }
}

/* ==== options ========================================================================================= */

/* Optimizer `which` without a description, or with one that says what the defaults are said to be; NULL: no more. */
static tp_optimizer *bare_or_spelled(int which, tp_node *lr, bool bare)
{
    const tp_sgd_desc sgd = {.at_ = TP_AT};
    const tp_momentum_desc momentum = {.momentum = 0.9f, .use_nesterov = TP_NO};
    const tp_nesterov_desc nesterov = {.momentum = 0.9f, .use_nesterov = TP_YES};
    const tp_adam_desc adam = {.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f};
    const tp_adamw_desc adamw = {.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .weight_decay = 0.01f};
    const tp_rmsprop_desc rms = {.decay = 0.9f, .momentum = TP_ZERO, .epsilon = 1e-10f, .centered = TP_NO};
    const tp_adagrad_desc adagrad = {.initial_accumulator_value = 0.1f};
    const tp_adadelta_desc adadelta = {.rho = 0.95f, .epsilon = 1e-8f};
    const tp_ftrl_desc ftrl = {.learning_rate_power = -0.5f,
                               .initial_accumulator_value = 0.1f,
                               .l1 = TP_ZERO,
                               .l2 = TP_ZERO,
                               .l2_shrinkage = TP_ZERO};
    const tp_lamb_desc lamb = {.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-6f, .weight_decay = TP_ZERO};
    const tp_loss_scale_desc scale = {.initial = 65536, .interval = 2000, .minimum = 1};
    switch (which) {
    case 0: return tp_sgd_(lr, bare ? NULL : &sgd);
    case 1: return tp_momentum_(lr, bare ? NULL : &momentum);
    case 2: return tp_nesterov_(lr, bare ? NULL : &nesterov);
    case 3: return tp_adam_(lr, bare ? NULL : &adam);
    case 4: return tp_adamw_(lr, bare ? NULL : &adamw);
    case 5: return tp_rmsprop_(lr, bare ? NULL : &rms);
    case 6: return tp_adagrad_(lr, bare ? NULL : &adagrad);
    case 7: return tp_adadelta_(lr, bare ? NULL : &adadelta);
    case 8: return tp_ftrl_(lr, bare ? NULL : &ftrl);
    case 9: return tp_lamb_(lr, bare ? NULL : &lamb);
    case 10: return tp_loss_scale_(tp_sgd_(lr, NULL), bare ? NULL : &scale);
    default: return NULL;
    }
}

/* What lies on the stack is no option of anybody's. */
__attribute__((noinline)) static void dirty_the_stack(void)
{
    volatile unsigned char junk[4096];
    for (size_t i = 0; i < sizeof junk; i++) junk[i] = (unsigned char)(0xc1 + i % 3);
}

TEST(without_a_description_each_is_as_its_defaults_say)
{
    double got[11][2][6];
    for (int which = 0; which < 11; which++)
        for (int bare = 0; bare < 2; bare++) {
            tp_graph *g = graph();
            tp_grad_var gv = {input(g, "g"), weight(g, "w", 0.5f)};
            tp_node *lr = rate(g, 0.1f);
            dirty_the_stack();
            tp_optimizer *o = bare_or_spelled(which, lr, bare);
            CHECK(o != NULL && ok(g));
            tp_node *op = tp_apply_gradients(o, &gv, 1);
            tp_session *s = ok(g) ? tp_session_new(g, NULL) : NULL;
            for (int i = 0; s && i < 6; i++) {
                const float v = (float)(i % 3) - 0.75f;
                step(s, op, &gv.grad, &v, 1);
                got[which][bare][i] = variable(s, "w");
            }
            tp_session_free(s);
            done(g);
        }
    for (int which = 0; which < 11; which++)
        for (int i = 0; i < 6; i++)
            CHECK_MSG(got[which][0][i] == got[which][1][i],
                      "optimizer %d, update %d: %.9g with its defaults, %.9g without", which, i, got[which][0][i],
                      got[which][1][i]);
}

/* Options at the ends of what they may be: accepted up to there, and a sentence beyond. */
typedef struct limit {
    const char *part; /* of the sentence; NULL: accepted */
    int which;        /* adam.. below */
    float v[4];
} limit;
enum { MOMENTUM, NESTEROV, ADAM, ADAMW, RMSPROP, ADAGRAD, ADADELTA, FTRL, FTRL_L, LAMB, LION, SCALE, ACCUM };
static const limit limits[] = {
    {NULL, MOMENTUM, {TP_ZERO}},
    {NULL, MOMENTUM, {0.999999f}},
    {"Momentum has .momentum 1: it must be at least 0 and less than 1", MOMENTUM, {1}},
    {"Momentum has .momentum -0.5: it must be at least 0", MOMENTUM, {-0.5f}},
    {"Momentum has .momentum nan: it must be at least 0", MOMENTUM, {NAN}},
    {"Momentum has .momentum 1: it must be at least 0", NESTEROV, {1}},
    {NULL, ADAM, {TP_ZERO, TP_ZERO, TP_ZERO}},
    {"Adam has .beta1 1: it must be at least 0 and less than 1", ADAM, {1}},
    {"Adam has .beta1 -1: it must be at least 0 and less than 1", ADAM, {-1}},
    {"Adam has .beta2 1: it must be at least 0 and less than 1", ADAM, {0, 1}},
    {"Adam has .beta2 -1: it must be at least 0 and less than 1", ADAM, {0, -1}},
    {"Adam has .epsilon -1: it must not be negative", ADAM, {0, 0, -1}},
    {"Adam has .epsilon nan: it must not be negative", ADAM, {0, 0, NAN}},
    {NULL, ADAMW, {0, 0, 0, TP_ZERO}},
    {"Adam has .weight_decay -1: it must not be negative", ADAMW, {0, 0, 0, -1}},
    {"Adam has .beta2 2: it must be at least 0", ADAMW, {0, 2}},
    {"Adam has .epsilon -2: it must not be negative", ADAMW, {0, 0, -2}},
    {NULL, LAMB, {TP_ZERO, TP_ZERO, TP_ZERO, TP_ZERO}},
    {"LAMB has .beta1 1: it must be at least 0", LAMB, {1}},
    {"LAMB has .beta2 1: it must be at least 0", LAMB, {0, 1}},
    {"LAMB has .epsilon -1: it must not be negative", LAMB, {0, 0, -1}},
    {"LAMB has .weight_decay -1: it must not be negative", LAMB, {0, 0, 0, -1}},
    {NULL, LION, {TP_ZERO, TP_ZERO, TP_ZERO}},
    {"Lion has .beta1 1: it must be at least 0", LION, {1}},
    {"Lion has .beta2 1: it must be at least 0", LION, {0, 1}},
    {"Lion has .weight_decay -1: it must not be negative", LION, {0, 0, -1}},
    {NULL, RMSPROP, {TP_ZERO, TP_ZERO, TP_ZERO}},
    {"RMSProp has .decay 1: it must be at least 0", RMSPROP, {1}},
    {"RMSProp has .momentum 1: it must be at least 0", RMSPROP, {0, 1}},
    {"RMSProp has .momentum -1: it must be at least 0", RMSPROP, {0, -1}},
    {"RMSProp has .epsilon -1: it must not be negative", RMSPROP, {0, 0, -1}},
    {"Adagrad has .initial_accumulator_value -1: it must be positive", ADAGRAD, {-1}},
    {"Adagrad has .initial_accumulator_value 0: it must be positive", ADAGRAD, {TP_ZERO}},
    {NULL, ADAGRAD, {1e-30f}},
    {NULL, ADADELTA, {TP_ZERO}},
    {"Adadelta has .rho 1: it must be at least 0", ADADELTA, {1}},
    {"Adadelta has .epsilon 0: it must be positive", ADADELTA, {0, TP_ZERO}},
    {"Adadelta has .epsilon -1: it must be positive", ADADELTA, {0, -1}},
    {NULL, FTRL, {TP_ZERO}},
    {"Ftrl has .learning_rate_power 0.5: it must not be positive", FTRL, {0.5f}},
    {"Ftrl has .learning_rate_power nan: it must not be positive", FTRL, {NAN}},
    {"Ftrl has .initial_accumulator_value 0: it must be positive", FTRL, {0, TP_ZERO}},
    {NULL, FTRL_L, {TP_ZERO, TP_ZERO, TP_ZERO}},
    {"Ftrl has .l1 -1: it must not be negative", FTRL_L, {-1}},
    {"Ftrl has .l2 -1: it must not be negative", FTRL_L, {0, -1}},
    {"Ftrl has .l2_shrinkage -1: it must not be negative", FTRL_L, {0, 0, -1}},
    {NULL, SCALE, {1, 1, 1}},
    {"LossScale has .initial -1: it must be positive", SCALE, {-1}},
    {"LossScale has .initial 0: it must be positive", SCALE, {TP_ZERO}},
    {"LossScale: interval is -1: it must be 1 or more", SCALE, {0, -1}},
    {"LossScale has .minimum -1: it must be positive", SCALE, {0, 0, -1}},
    {"LossScale has .minimum 0: it must be positive", SCALE, {0, 0, TP_ZERO}},
    {NULL, SCALE, {4, 1, 4}},
    {"LossScale: minimum is 8: it must be at most initial, which is 4", SCALE, {4, 1, 8}},
    {"LossScale: minimum is 1: it must be at most initial, which is 0.5", SCALE, {0.5f, 1, 1}},
    {"LossScale: minimum is 131072: it must be at most initial, which is 65536", SCALE, {0, 0, 131072}},
    {NULL, ACCUM, {1}},
    {"AccumGrad: niter is 0: it must be 1 or more", ACCUM, {0}},
};

static tp_optimizer *make_limit(const limit *l, tp_node *lr)
{
    const float *v = l->v;
    switch (l->which) {
    case MOMENTUM: return tp_momentum(lr, .momentum = v[0]);
    case NESTEROV: return tp_nesterov(lr, .momentum = v[0]);
    case ADAM: return tp_adam(lr, .beta1 = v[0], .beta2 = v[1], .epsilon = v[2]);
    case ADAMW: return tp_adamw(lr, .beta1 = v[0], .beta2 = v[1], .epsilon = v[2], .weight_decay = v[3]);
    case RMSPROP: return tp_rmsprop(lr, .decay = v[0], .momentum = v[1], .epsilon = v[2]);
    case ADAGRAD: return tp_adagrad(lr, .initial_accumulator_value = v[0]);
    case ADADELTA: return tp_adadelta(lr, .rho = v[0], .epsilon = v[1]);
    case FTRL: return tp_ftrl(lr, .learning_rate_power = v[0], .initial_accumulator_value = v[1]);
    case FTRL_L: return tp_ftrl(lr, .l1 = v[0], .l2 = v[1], .l2_shrinkage = v[2]);
    case LION: return tp_lion(lr, .beta1 = v[0], .beta2 = v[1], .weight_decay = v[2]);
    case LAMB: return tp_lamb(lr, .beta1 = v[0], .beta2 = v[1], .epsilon = v[2], .weight_decay = v[3]);
    case SCALE: return tp_loss_scale(tp_sgd(lr), .initial = v[0], .interval = (int)v[1], .minimum = v[2]);
    default: return tp_accum_grad(tp_sgd(lr), (int)v[0]);
    }
}

TEST(options_at_their_limits)
{
    for (int i = 0; i < TP_COUNT(limits); i++) {
        tp_graph *g = graph();
        tp_optimizer *o = make_limit(&limits[i], rate(g, 0.1f));
        CHECK(o != NULL);
        if (limits[i].part) {
            CHECK_MSG(tp_graph_status(g) == TP_ERR_ARG, "%d (%s): status %d", i, limits[i].part,
                      (int)tp_graph_status(g));
            CHECK_HAS(tp_graph_error(g), limits[i].part);
            if (limits[i].which != ACCUM) CHECK_HAS(tp_graph_error(g), "test_optim.c");
        } else if (!ok(g)) CHECK_MSG(false, "limit %d was not accepted", i);
        done(g);
    }
}

/* ==== what processors say and leave alone ============================================================= */

TEST(processors_are_quiet_where_there_is_nothing_to_say)
{
    tp_graph *g = graph();
    tp_grad_var gv[3] = {
        {input(g, "x"), weight(g, "a", 0)}, {input(g, "y"), weight(g, "b", 0)}, {NULL, weight(g, "c", 0)}};
    tp_node *x = gv[0].grad, *y = gv[1].grad;
    tp_gradproc p = tp_gradproc_filter_none();
    CHECK(tp_gradproc_run(&p, g, gv, 2) == 2);
    CHECK_STR(tp_test_logged, "");
    p.quiet = true;
    CHECK(tp_gradproc_run(&p, g, gv, 3) == 2);
    CHECK_STR(tp_test_logged, "");
    gv[2].grad = NULL;
    gv[2].var = tp_find_variable(g, "c")->node;
    p = tp_gradproc_scale("a|c", 3);
    CHECK(tp_gradproc_run(&p, g, gv, 3) == 3);
    CHECK_STR(tp_test_logged, "Gradient of 'a' is multiplied by 3\nGradient of 'c' is multiplied by 3\n");
    CHECK(gv[0].grad != x && gv[1].grad == y && gv[2].grad == NULL); /* what is not matched stays the node it was */
    tp_test_logged[0] = 0;
    p.quiet = true;
    CHECK(tp_gradproc_run(&p, g, gv, 3) == 3);
    CHECK_STR(tp_test_logged, "");
    p = tp_gradproc_global_norm_clip(1);
    CHECK(tp_gradproc_run(&p, g, gv + 2, 1) == 1 && gv[2].grad == NULL);
    CHECK(ok(g));
    p = tp_gradproc_global_norm_clip(0);
    CHECK(tp_gradproc_run(&p, g, gv, 1) == 1);
    CHECK_HAS(tp_graph_error(g), "GlobalNormClip clips to a norm of 0: it must be positive");
    done(g);
}

static int too_many(const tp_gradproc *p, tp_graph *g, tp_grad_var *gvs, int n)
{
    (void)g, (void)gvs;
    return n + *(const int *)p->user;
}

TEST(a_processor_may_drop_but_not_add)
{
    static const int changes[] = {-3, -2, 0, 1};
    for (int i = 0; i < 4; i++) {
        tp_graph *g = graph();
        tp_grad_var gv[2] = {{input(g, "x"), weight(g, "a", 0)}, {input(g, "y"), weight(g, "b", 0)}};
        tp_gradproc p;
        memset(&p, 0, sizeof p);
        p.name = "Own";
        p.process = too_many;
        p.user = (void *)(uintptr_t)&changes[i];
        CHECK(tp_gradproc_run(&p, g, gv, 2) == (changes[i] == -2 ? 0 : 2));
        if (changes[i] == -3) CHECK_HAS(tp_graph_error(g), "Own left -1 of 2 gradients: it may drop some, not add any");
        else if (changes[i] == 1)
            CHECK_HAS(tp_graph_error(g), "Own left 3 of 2 gradients: it may drop some, not add any");
        else ok(g);
        done(g);
    }
}

static int puts_first(const tp_gradproc *p, tp_graph *g, tp_grad_var *gvs, int n)
{
    (void)g;
    gvs[0] = *(const tp_grad_var *)p->user;
    return n;
}

/* What a processor leaves is none, or like its variable. */
TEST(a_processor_leaves_gradients_like_their_variables)
{
    static const char *const wrong[] = {
        NULL, NULL, NULL,
        "Own makes a gradient of float32 (2) for variable 'a', which is float32 (1): they must be alike",
        "Own makes a gradient of float64 (1) for variable 'a', which is float32 (1): they must be alike"};
    for (int i = 0; i < 5; i++) {
        tp_graph *g = graph();
        tp_node *a = weight(g, "a", 0), *x = input(g, "x");
        tp_grad_var gv[2] = {{x, a}, {input(g, "y"), weight(g, "b", 0)}}, left = {x, a};
        if (i == 1) left.grad = NULL;
        if (i == 2) left.var = NULL;
        if (i == 3) left.grad = tp_placeholder(g, "two", TP_F32, tp_make_shape(2));
        if (i == 4) left.grad = tp_cast(x, TP_F64);
        tp_gradproc p;
        memset(&p, 0, sizeof p);
        p.name = "Own";
        p.process = puts_first;
        p.user = &left;
        CHECK(tp_gradproc_run(&p, g, gv, 2) == 2);
        if (wrong[i]) CHECK_HAS(tp_graph_error(g), wrong[i]);
        else ok(g);
        done(g);
    }
}

/* Gradients of a tower's own variables, towerN/.., are not summarised; names that are like it are. */
TEST(gradients_of_numbered_towers_are_not_summarised)
{
    static const char *const names[] = {"tower0/w", "tower19/w", "tower/w",   "towerx/w",
                                        "tower9w",  "tower0",    "a/tower0/w"};
    static const bool summarised[] = {false, false, true, true, true, true, true};
    tp_graph *g = graph();
    tp_grad_var gv[7];
    for (int i = 0; i < 7; i++) gv[i].var = weight(g, names[i], 0), gv[i].grad = tp_identity(gv[i].var);
    const tp_gradproc p = tp_gradproc_summary(NULL);
    CHECK(tp_gradproc_run(&p, g, gv, 7) == 7);
    int n = 0;
    tp_node *const *summaries = tp_collection(g, TP_KEY_SUMMARIES, &n);
    for (int i = 0; i < 7; i++) {
        char tag[64];
        bool found = false;
        snprintf(tag, sizeof tag, "SummaryGradient/%s-grad", names[i]);
        for (int k = 0; k < n; k++) found = found || strcmp(tp_summary_info(summaries[k])->tag, tag) == 0;
        CHECK_MSG(found == summarised[i], "%s", names[i]);
    }
    ok(g);
    done(g);
}

/* Names of slots are as long as they may be, or a sentence. */
TEST(long_names_of_slots)
{
    for (int over = 0; over < 2; over++) {
        char name[1100];
        tp_graph *g = graph();
        tp_optimizer *o = tp_sgd(rate(g, 1));
        memset(name, 'n', sizeof name);
        name[1023 + over] = 0;
        tp_node *n = tp_optimizer_scalar(o, name, 0);
        CHECK(tp_is_poison(n) == (over == 1));
        if (over) CHECK_HAS(tp_graph_error(g), "GradientDescent: the name of a slot is too long");
        else CHECK_STR(tp_node_name(n), name);
        done(g);
        g = graph();
        o = tp_sgd(rate(g, 1));
        memset(name, 'n', sizeof name);
        name[959 - 2 + over] = 0; /* and "/s" */
        n = tp_optimizer_slot(o, weight(g, name, 0), "s", "s", tp_init_zeros());
        CHECK(tp_is_poison(n) == (over == 1));
        if (over) CHECK_HAS(tp_graph_error(g), "GradientDescent: the name of a slot of 'nnn");
        done(g);
    }
}

static tp_node *own_proxy(tp_optimizer *o, const tp_grad_var *gvs, int n)
{
    return tp_apply_gradients_if(o->inner, gvs, n, o->pred);
}

TEST(a_proxy_has_slots_of_its_own_or_those_of_what_it_wraps)
{
    static const char *const names[] = {"mine"};
    tp_graph *g = graph();
    tp_optimizer *o = tp_optimizer_proxy(tp_adam(rate(g, 1)), "Own", own_proxy, NULL);
    int n = -1;
    CHECK_STR(tp_get_slot_names(o, &n)[0], "m");
    CHECK(n == 2);
    o->slot_names = names;
    o->n_slots = 1;
    CHECK_STR(tp_get_slot_names(o, &n)[0], "mine");
    CHECK(n == 1);
    CHECK(tp_get_slot_names(tp_sgd(rate(g, 1)), &n) == NULL && n == 0);
    ok(g);
    done(g);
}

/* The step where a schedule changes, for each kind of step. */
TEST(schedules_change_where_they_say)
{
    static const tp_dtype dtypes[] = {TP_I32, TP_I64};
    static const int64_t at[] = {-1, 0, 2, 3, 7, 8};
    static const float values[] = {1, 0.5f, 0.25f, 0.125f};
    static const int64_t bounds[] = {0, 2, 7};
    for (int k = 0; k < 2; k++) {
        tp_graph *g = graph();
        tp_node *step_node = tp_placeholder(g, "step", dtypes[k], scalar()), *y[4];
        y[0] = tp_piecewise_constant(g, step_node, bounds, values, 3);
        y[1] = tp_exponential_decay(g, 2, step_node, 3, 0.5f, true);
        y[2] = tp_exponential_decay(g, 2, step_node, 1, 0.5f, false);
        y[3] = tp_piecewise_constant(g, step_node, NULL, values, 0);
        tp_session *s = ok(g) ? tp_session_new(g, NULL) : NULL;
        for (int i = 0; s && i < TP_COUNT(at); i++) {
            tp_tensor t;
            tp_feed f;
            const tp_tensor *v[4];
            memset(&t, 0, sizeof t);
            memset(&f, 0, sizeof f);
            CHECK_OK(tp_tensor_resize(&t, dtypes[k], scalar()));
            tp_tensor_set(&t, 0, (double)at[i]);
            f.node = step_node;
            tp_tensor_view(&f.value, dtypes[k], scalar(), t.data);
            if (CHECK_OK(tp_session_run(s, &f, 1, y, 4, v))) {
                CHECK(tp_tensor_get(v[0], 0) == (at[i] <= 0 ? 1 : at[i] <= 2 ? 0.5 : at[i] <= 7 ? 0.25 : 0.125));
                CHECK_NEAR(tp_tensor_get(v[1], 0), 2 * pow(0.5, floor((double)at[i] / 3)), 0, 1e-6);
                CHECK_NEAR(tp_tensor_get(v[2], 0), 2 * pow(0.5, (double)at[i]), 0, 1e-6);
                CHECK(tp_tensor_get(v[3], 0) == 1);
            }
            tp_tensor_free(&t);
        }
        tp_session_free(s);
        done(g);
    }
    static const int64_t level[] = {2, 2};
    tp_graph *g = graph();
    CHECK(tp_is_poison(tp_piecewise_constant(g, NULL, level, values, 2)));
    CHECK_HAS(tp_graph_error(g), "piecewise_constant: boundary 2 follows 2: they must rise");
    done(g);
    g = graph();
    CHECK(tp_is_poison(tp_exponential_decay(g, 1, NULL, 0, 0.5f, false)));
    CHECK_HAS(tp_graph_error(g), "exponential_decay: decay_steps is 0: it must be 1 or more");
    done(g);
    g = graph();
    CHECK(tp_is_poison(tp_exponential_decay(g, 1, weight(g, "w", 0), 3, 0.5f, false)));
    CHECK_HAS(tp_graph_error(g), "exponential_decay: the step 'w' is float32 (1): it must be an integer scalar");
    done(g);
}

/* ==== an update that is not to be ===================================================================== */

static tp_node *keep_value(tp_node *updated, tp_node *var, void *user)
{
    (void)updated, (void)var, (void)user;
    return NULL;
}
static tp_node *double_value(tp_node *updated, tp_node *var, void *user)
{
    (void)var, (void)user;
    return tp_affine(updated, 2, 0);
}

static tp_optimizer *wrapped(int which, tp_node *lr)
{
    switch (which) {
    case 0: return tp_sgd(lr);
    case 1: return tp_momentum(lr);
    case 2: return tp_nesterov(lr);
    case 3: return tp_adam(lr);
    case 4: return tp_adamw(lr);
    case 5: return tp_rmsprop(lr);
    case 6: return tp_rmsprop(lr, .centered = TP_YES);
    case 7: return tp_adagrad(lr);
    case 8: return tp_adadelta(lr);
    case 9: return tp_ftrl(lr);
    case 10: return tp_lamb(lr);
    case 11: return tp_accum_grad(tp_adam(lr), 1);
    case 12: return tp_loss_scale(tp_adam(lr), .initial = 2, .interval = 1);
    case 13: return tp_variable_assignment(tp_momentum(lr), double_value, NULL);
    case 14: return tp_variable_assignment(tp_momentum(lr), keep_value, NULL);
    case 15: return tp_apply_grad_processors(tp_adam(lr), TP_GRADPROCS(tp_gradproc_scale("w", 2)));
    case 16: return tp_optimizer_proxy(tp_momentum(lr), "Proxy", NULL, NULL);
    default: return NULL;
    }
}

/* What wraps an optimizer has its learning rate and its loss scale: trainers and optimizers around it read them there. */
TEST(what_wraps_an_optimizer_has_its_learning_rate)
{
    for (int which = 0; which < 17; which++) {
        tp_graph *g = graph();
        tp_node *lr = rate(g, 0.1f);
        const tp_optimizer *o = wrapped(which, lr);
        CHECK_MSG(o && o->learning_rate == lr && !o->loss_scale == (which != 12), "optimizer %d", which);
        tp_optimizer *inner = wrapped(which, lr), *outer = tp_optimizer_proxy(inner, "Outer", own_proxy, lr);
        CHECK_MSG(outer && outer->inner == inner && outer->learning_rate == lr && outer->user == lr, "%d", which);
        if (outer) CHECK_MSG(outer->loss_scale == inner->loss_scale && !outer->pred, "optimizer %d", which);
        ok(g);
        done(g);
    }
}

/* Where the predicate is false no variable changes by a bit, the optimizer's own included; where it is true the weights do. */
TEST(a_predicate_that_is_false_changes_nothing)
{
    for (int which = 0; which < 17; which++) {
        tp_graph *g = graph();
        tp_node *pred = tp_placeholder(g, "pred", TP_BOOL, scalar());
        tp_grad_var gv = {input(g, "g"), weight(g, "w", 0.5f)};
        tp_node *op = tp_apply_gradients_if(wrapped(which, rate(g, 0.1f)), &gv, 1, pred);
        tp_session *s = ok(g) ? tp_session_new(g, NULL) : NULL;
        float before[16], one = 1;
        for (int run = 0; s && run < 4; run++) {
            const uint8_t yes = run % 2 == 0;
            const int n = tp_graph_n_variables(g);
            tp_feed feed[2];
            memset(feed, 0, sizeof feed);
            feed[0].node = gv.grad, feed[1].node = pred;
            tp_tensor_view(&feed[0].value, TP_F32, tp_make_shape(1), &one);
            tp_tensor_view(&feed[1].value, TP_BOOL, scalar(), &yes);
            CHECK(n <= 16);
            for (int v = 0; v < n; v++) before[v] = (float)variable(s, tp_graph_variable(g, v)->name);
            CHECK_OK(tp_session_run(s, feed, 2, &op, 1, NULL));
            for (int v = 0; v < n; v++) {
                const char *name = tp_graph_variable(g, v)->name;
                const float now = (float)variable(s, name);
                if (!yes) CHECK_MSG(now == before[v], "optimizer %d: %s changed", which, name);
                else if (strcmp(name, "w") == 0) CHECK_MSG(now != before[v], "optimizer %d: no update", which);
            }
        }
        tp_session_free(s);
        done(g);
    }
}

TEST(rates_and_costs_that_are_none)
{
    tp_graph *g = graph();
    tp_sgd(tp_const_as(g, TP_I32, 1));
    CHECK_HAS(tp_graph_error(g),
              "GradientDescent: the learning rate 'Const' is int32 (): it must be a floating scalar");
    done(g);
    g = graph();
    tp_sgd(weight(g, "w", 0));
    CHECK_HAS(tp_graph_error(g), "GradientDescent: the learning rate 'w' is float32 (1): it must be a floating scalar");
    done(g);
    g = graph();
    tp_node *w = weight(g, "w", 0);
    tp_grad_var gv = {w, w};
    tp_compute_gradients(w, &w, 0, &gv); /* nothing is asked, so nothing is wrong */
    CHECK(ok(g) && gv.grad == w);
    tp_compute_gradients(w, &w, 1, &gv);
    CHECK(gv.grad == NULL && gv.var == w);
    CHECK_HAS(tp_graph_error(g), "the cost 'w' has shape (1): it must be a scalar, take its mean");
    done(g);
    CHECK(tp_sgd(NULL) == NULL);
    CHECK_HAS(tp_last_error(), "GradientDescent: the learning rate is NULL");
    static const tp_gradproc nameless[2] = {{.name = "Own"}, {.name = NULL}};
    for (int i = 0; i < 2; i++) {
        g = graph();
        tp_optimizer *o = tp_sgd(rate(g, 1));
        CHECK(tp_apply_grad_processors(o, &nameless[i], 1) == o);
        CHECK_STR(tp_graph_error(g),
                  i ? "gradient processor 0 has no name" : "gradient processor 0 has no process function");
        done(g);
    }
}

/* The scope is what it was; slots of local variables are local; Nesterov's momentum may be told not to be. */
TEST(small_print_of_optimizers)
{
    tp_graph *g = graph();
    tp_variable_desc d;
    memset(&d, 0, sizeof d);
    d.name = "own";
    d.shape = tp_make_shape(1);
    d.local = true;
    tp_node *local = tp_get_variable(g, &d);
    tp_grad_var gv = {input(g, "g"), local};
    tp_name_scope_push(g, "somewhere");
    const tp_gradproc p = tp_gradproc_scale("own", 2);
    CHECK(tp_gradproc_run(&p, g, &gv, 1) == 1);
    CHECK_STR(tp_name_scope(g), "somewhere");
    tp_name_scope_pop(g);
    tp_optimizer *o = tp_adam(rate(g, 1));
    tp_apply_gradients(o, &gv, 1);
    CHECK(ok(g) && tp_node_variable(tp_get_slot(o, local, "m"))->local &&
          tp_node_variable(tp_get_slot(o, local, "v"))->local);
    CHECK(tp_find_variable(g, "own/Adam") != NULL);
    done(g);
    for (int i = 0; i < 4; i++) {
        g = graph();
        tp_node *lr = rate(g, 1);
        gv.grad = input(g, "g");
        gv.var = weight(g, "w", 0);
        o = i == 0   ? tp_nesterov(lr, .momentum = 0.5f)
            : i == 1 ? tp_nesterov(lr, .momentum = 0.5f, .use_nesterov = TP_NO)
            : i == 2 ? tp_momentum(lr, .momentum = 0.5f)
                     : tp_momentum(lr, .momentum = 0.5f, .use_nesterov = TP_NO);
        tp_node *op = tp_apply_gradients(o, &gv, 1);
        tp_session *s = ok(g) ? tp_session_new(g, NULL) : NULL;
        const float one = 1;
        if (CHECK(s != NULL)) step(s, op, &gv.grad, &one, 1);
        if (s) CHECK(variable(s, "w") == (i == 0 ? -1.5 : -1));
        tp_session_free(s);
        done(g);
    }
}

TEST(memory_may_run_out_anywhere)
{
    tp_test_keep_log();
    for (long n = 1, failed = 1; failed; n++) {
        tp_test_logged[0] = 0;
        tp_test_fail_after(n);
        tp_graph *g = tp_graph_new(NULL);
        if (g) {
            tp_node *w = weight(g, "w", 1);
            tp_grad_var gv = {NULL, NULL};
            tp_compute_gradients(tp_sum(tp_square(w)), &w, 1, &gv);
            tp_optimizer *opt = tp_adam(tp_exponential_decay(g, 1, NULL, 10, .5f, true));
            opt =
                tp_apply_grad_processors(opt, TP_GRADPROCS(tp_gradproc_global_norm_clip(1), tp_gradproc_scale("w", 2)));
            tp_node *op = opt ? tp_apply_gradients(opt, &gv, 1) : NULL;
            failed = tp_test_alloc_failed();
            CHECK(failed ? tp_graph_status(g) != TP_OK || op : tp_graph_status(g) == TP_OK && op && !tp_is_poison(op));
            tp_graph_free(g);
        } else {
            failed = tp_test_alloc_failed();
            CHECK(failed);
        }
        CHECK(tp_test_live_blocks() == 0);
    }
    tp_test_alloc_reset();
    tp_set_log(NULL, NULL);
}

/* Where no optimizer could be made, the sentence that says why is still there when it is used. */
TEST(an_optimizer_that_was_not_made_says_why)
{
    for (int i = 0; i < 3; i++) {
        tp_graph *g = graph();
        tp_node *w = weight(g, "w", 1), *cost = tp_sum(tp_square(w));
        tp_grad_var gv = {w, w};
        tp_optimizer *o = i == 2 ? tp_apply_grad_processors(tp_sgd(rate(g, 1)), NULL, 2) : tp_sgd(NULL);
        if (i == 1)
            o = tp_loss_scale(tp_accum_grad(tp_variable_assignment(tp_post_process(o, NULL, NULL), NULL, NULL), 2));
        CHECK(o == NULL);
        CHECK(tp_is_poison(i == 1 ? tp_apply_gradients(o, &gv, 1) : tp_minimize(o, cost, NULL)));
        if (i == 2) CHECK_HAS(tp_graph_error(g), "tp_apply_grad_processors: procs");
        else CHECK_HAS(tp_graph_error(g), "GradientDescent: the learning rate is NULL: give a scalar node");
        if (i == 0) CHECK_HAS(tp_graph_error(g), "tp_minimize: there is no optimizer: it is NULL");
        if (i == 1) CHECK_HAS(tp_graph_error(g), "tp_apply_gradients: there is no optimizer: it is NULL");
        done(g);
    }
}

/* The error belongs to the cost's graph, because that is the graph that the program trains. */
TEST(an_optimizer_of_another_graph_is_a_sentence)
{
    for (int i = 0; i < 2; i++) {
        tp_graph *g = graph(), *other = graph();
        tp_node *w = weight(g, "w", 1), *cost = tp_named(tp_sum(tp_square(w)), "cost");
        tp_grad_var gv = {w, w};
        weight(other, "w", 1);
        tp_optimizer *o = tp_sgd(rate(other, 1));
        CHECK(tp_is_poison(i ? tp_apply_gradients(o, &gv, 1) : tp_minimize(o, cost, NULL)));
        CHECK_HAS(tp_graph_error(g), i ? "GradientDescent: variable 'w' belongs to another graph than the optimizer"
                                       : "minimize: the cost 'cost' belongs to another graph than GradientDescent");
        tp_graph_free(other);
        done(g);
    }
}

TEST(a_slot_of_no_variable_is_a_sentence)
{
    for (int i = 0; i < 2; i++) {
        tp_graph *g = graph(), *other = graph();
        tp_optimizer *o = tp_optimizer_new(g, "Mine", NULL, NULL);
        tp_node *of = i ? weight(other, "w", 1) : tp_named(tp_square(weight(g, "w", 1)), "grad");
        CHECK(tp_is_poison(tp_optimizer_slot(o, of, "m", NULL, tp_init_zeros())));
        CHECK_HAS(tp_graph_error(g), i ? "Mine: 'w' belongs to another graph, so it has no slot 'm'"
                                       : "Mine: 'grad' is not a variable, so it has no slot 'm'");
        tp_graph_free(other);
        done(g);
    }
}

TEST(a_slot_without_a_name_is_a_sentence)
{
    tp_graph *g = graph();
    tp_node *w = weight(g, "w", 1);
    tp_optimizer *o = tp_adam(rate(g, 1));
    tp_minimize(o, tp_sum(w), NULL);
    CHECK(tp_get_slot(o, w, NULL) == NULL);
    CHECK_HAS(tp_last_error(), "tp_get_slot: o and slot must not be NULL");
    CHECK(tp_get_slot(NULL, w, "m") == NULL);
    CHECK_HAS(tp_last_error(), "tp_get_slot: o and slot must not be NULL");
    CHECK(ok(g) && tp_get_slot(o, w, "m") != NULL);
    done(g);
}

/* In a loop of one's own nothing else counts the steps. Whoever reads the step in the same run sees the one before. */
TEST(a_loop_of_ones_own_counts_its_steps)
{
    tp_graph *g = graph();
    tp_node *w = weight(g, "w", 0), *lr = tp_warm_up(tp_const(g, 1), NULL, 4, 0);
    tp_node *fetch[] = {tp_increment_global_step(g), lr, tp_minimize(tp_sgd(lr), tp_sum(w), NULL)};
    ok(g);
    tp_session *s = tp_session_new(g, NULL);
    const tp_tensor *out[3];
    for (int i = 0; s && i < 6; i++)
        if (CHECK_OK(tp_session_run(s, NULL, 0, fetch, 3, out)))
            CHECK(tp_tensor_get(out[0], 0) == i + 1 && tp_tensor_get(out[1], 0) == (i < 4 ? i / 4.0 : 1));
    if (CHECK(s != NULL)) CHECK(tp_get_global_step_value(s) == 6 && variable(s, "w") == -(0.25 + 0.5 + 0.75 + 2));
    tp_session_free(s);
    done(g);
    CHECK(tp_is_poison(tp_increment_global_step(NULL)));
}

TEST(schedules_of_numbers_that_are_none)
{
    static const char *const said[] = {"cosine_decay: lr is nan: it must be finite",
                                       "cosine_decay: alpha is inf: it must be finite",
                                       "exponential_decay: lr is -inf: it must be finite",
                                       "exponential_decay: rate is nan: it must be finite",
                                       "warm_up: start is nan: it must be finite",
                                       "piecewise_constant: a value is nan: it must be finite",
                                       "warm_up: lr, 'w', is float32 (1): it must be a floating scalar",
                                       "warm_up: lr, 'Const', is int32 (): it must be a floating scalar",
                                       "cosine_decay: alpha is -0.1: it must be at least 0",
                                       "exponential_decay: rate is -0.5: it must be at least 0",
                                       "warm_up: start is -1: it must be at least 0"};
    static const float values[2] = {1, NAN};
    static const int64_t boundary = 3;
    for (int i = 0; i < TP_COUNT(said); i++) {
        tp_graph *g = graph();
        tp_node *y = i == 0   ? tp_cosine_decay(g, NAN, NULL, 9, 0)
                     : i == 1 ? tp_cosine_decay(g, 1, NULL, 9, INFINITY)
                     : i == 2 ? tp_exponential_decay(g, -INFINITY, NULL, 9, 1, false)
                     : i == 3 ? tp_exponential_decay(g, 1, NULL, 9, NAN, false)
                     : i == 4 ? tp_warm_up(tp_const(g, 1), NULL, 9, NAN)
                     : i == 5 ? tp_piecewise_constant(g, NULL, &boundary, values, 1)
                     : i == 6 ? tp_warm_up(weight(g, "w", 1), NULL, 9, 0)
                     : i == 7 ? tp_warm_up(tp_const_as(g, TP_I32, 1), NULL, 9, 0)
                     : i == 8 ? tp_cosine_decay(g, 1, NULL, 9, -0.1f)
                     : i == 9 ? tp_exponential_decay(g, 1, NULL, 9, -0.5f, true)
                              : tp_warm_up(tp_const(g, 1), NULL, 9, -1);
        CHECK(tp_is_poison(y));
        CHECK_HAS(tp_graph_error(g), said[i]);
        done(g);
    }
}

TEST(minimize_names_the_variables_without_a_gradient)
{
    for (int i = 0; i < 3; i++) {
        tp_graph *g = graph();
        tp_node *w = weight(g, "w", 1), *f = NULL;
        TP_FREEZE_VARIABLES(g) f = weight(g, "frozen", 1);
        tp_node *far = weight(g, "far", 1), *cost = tp_sum(tp_mul(w, f));
        if (i == 1) cost = tp_add(cost, tp_sum(tp_stop_gradient(far)));
        tp_minimize(tp_sgd(tp_const(g, 1)), cost, i == 2 ? "w|frozen" : NULL);
        ok(g);
        CHECK_STR(tp_test_logged, i == 2 ? "" : "No gradient w.r.t. 1 trainable variables: far\n");
        done(g);
    }
}

TEST(an_optimizer_without_a_function_is_a_sentence)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w = weight(g, "w", 1);
    tp_optimizer *o = tp_optimizer_new(g, "Mine", NULL, NULL);
    CHECK(o != NULL);
    CHECK(tp_is_poison(tp_minimize(o, tp_sum(tp_square(w)), NULL)));
    CHECK_HAS(tp_graph_error(g), "Mine: its apply_gradients is NULL");
    tp_graph_free(g);
}

TEST(processors_without_a_function_or_with_fewer_rules_than_none_are_sentences)
{
    const tp_grad_rule rule = {".*", 2};
    const tp_gradproc procs[] = {(tp_gradproc_map)(NULL, NULL, NULL), (tp_gradproc_scale_rules)(&rule, -1)};
    static const char *const said[] = {"MapGradient: the function is NULL", "ScaleGradient has -1 rules"};
    for (int i = 0; i < TP_COUNT(procs); i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *w = weight(g, "w", 1);
        tp_optimizer *o = tp_apply_grad_processors(tp_sgd(tp_const(g, 1)), &procs[i], 1);
        CHECK(tp_is_poison(tp_minimize(o, tp_sum(tp_square(w)), NULL)));
        CHECK_HAS(tp_graph_error(g), said[i]);
        tp_graph_free(g);
    }
}

/* A negative multiplier ascends, as the part of a game that maximises has to. */
TEST(gradients_are_scaled_by_finite_numbers)
{
    static const float by[] = {NAN, INFINITY, -INFINITY, -2};
    for (int i = 0; i < TP_COUNT(by); i++) {
        char said[100];
        tp_graph *g = graph();
        tp_node *w = weight(g, "w", 1);
        const tp_gradproc scale = (tp_gradproc_scale)("w", by[i]);
        tp_optimizer *o = tp_apply_grad_processors(tp_sgd(tp_const(g, 1)), &scale, 1);
        CHECK(tp_is_poison(tp_minimize(o, tp_sum(tp_square(w)), NULL)) == (i < 3));
        snprintf(said, sizeof said, "ScaleGradient multiplies the gradient of 'w' by %g: it must be finite",
                 (double)by[i]);
        if (i < 3) CHECK_HAS(tp_graph_error(g), said);
        done(g);
    }
}

TEST(a_slot_name_that_is_too_long_is_a_sentence)
{
    char longest[1024], longer[1124]; /* cut off, the longer name is the name of a variable that is there */
    tp_graph *g = tp_graph_new(NULL);
    tp_optimizer *o = tp_optimizer_new(g, "Mine", NULL, NULL);
    memset(longest, 'a', sizeof longest);
    memset(longer, 'a', sizeof longer);
    longest[sizeof longest - 1] = longer[sizeof longer - 1] = 0;
    CHECK(!tp_is_poison(tp_optimizer_scalar(o, longest, 0.0f)));
    CHECK(tp_is_poison(tp_optimizer_scalar(o, longer, 0.0f)));
    CHECK_HAS(tp_graph_error(g), "Mine: the name of a slot is too long: 'aaa");
    tp_graph_free(g);
}

TEST_MAIN()
