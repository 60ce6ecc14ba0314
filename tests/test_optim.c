/* Optimizers against hand-computed steps of TensorFlow's formulas, and gradient processors. */
#define TP_IMPLEMENTATION
#include "tp_optim.h"
#include "tp_test.h"

static tp_shape scalar(void) { return tp_make_shape_n(0, NULL); }

static double read1(tp_session *s, const char *name)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    const tp_variable *v = tp_find_variable(tp_session_graph(s), name);
    CHECK_MSG(v != NULL, "no variable %s", name);
    if (!v) return -1e300;
    CHECK_OK(tp_session_read(s, v, &t));
    const double x = tp_tensor_get(&t, 0);
    tp_tensor_free(&t);
    return x;
}

/* Two steps on a scalar w from 0 with gradients 1 and 2; w after each. */
static void two_steps(tp_optimizer *(*make)(const tp_optimizer_desc *), const tp_optimizer_desc *options, double first, double second, double tolerance)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_optimizer_desc d = *options;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, scalar(), tp_init_zeros()), *x = tp_placeholder(g, "g", TP_F32, scalar());
    d.learning_rate = tp_get_scalar_variable(g, "learning_rate", 0.1f);
    tp_grad_var gv;
    tp_compute_gradients(tp_mul(w, x), &w, 1, &gv);
    tp_node *train = tp_apply_gradients(make(&d), &gv, 1);
    CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
    tp_session *s = tp_session_new(g, NULL);
    for (int i = 0; s && i < 2; i++) {
        const float grad = (float)(i + 1);
        tp_feed f;
        memset(&f, 0, sizeof f);
        f.node = x;
        tp_tensor_view(&f.value, TP_F32, scalar(), &grad);
        CHECK_OK(tp_session_run(s, &f, 1, &train, 1, NULL));
        CHECK_NEAR(read1(s, "w"), i ? second : first, tolerance, 0);
    }
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(steps_are_tensorflows)
{
    tp_optimizer_desc d;
    memset(&d, 0, sizeof d);
    two_steps(tp_sgd_, &d, -0.1, -0.3, 1e-7);
    two_steps(tp_momentum_, &d, -0.1, -0.39, 1e-7);
    two_steps(tp_nesterov_, &d, -0.19, -0.651, 1e-7);
    two_steps(tp_adam_, &d, -.0999999684, -.196518158, 5e-7);
    d.epsilon = 1e-3f;
    two_steps(tp_adam_, &d, -.096934655, -.192106788, 5e-7);
    memset(&d, 0, sizeof d);
    d.momentum = TP_ZERO; /* an explicit zero: plain gradient descent */
    two_steps(tp_momentum_, &d, -0.1, -0.3, 1e-7);
}

TEST(slots_have_tensorflows_names)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w = tp_get_variable_as(g, "conv0/W", TP_F32, scalar(), tp_init_zeros());
    tp_grad_var gv;
    tp_optimizer_desc d;
    int n = 0;
    memset(&d, 0, sizeof d);
    d.learning_rate = tp_const(g, 0.1f);
    tp_compute_gradients(tp_square(w), &w, 1, &gv);
    tp_apply_gradients(tp_adam_(&d), &gv, 1);
    tp_apply_gradients(tp_momentum_(&d), &gv, 1);
    static const char *const names[] = {"conv0/W/Adam", "conv0/W/Adam_1", "beta1_power", "beta2_power", "conv0/W/Momentum"};
    for (int i = 0; i < TP_COUNT(names); i++) {
        const tp_variable *v = tp_find_variable(g, names[i]);
        CHECK_MSG(v && !v->trainable && !v->local, "%s", names[i]);
    }
    tp_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n);
    CHECK(n == 1);
    CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
    tp_graph_free(g);
}

TEST(exponential_decay_is_a_staircase)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *step = tp_placeholder(g, "step", TP_I64, scalar()), *lr[2];
    lr[0] = tp_exponential_decay(1e-3f, step, 4680, 0.3, true);
    lr[1] = tp_exponential_decay(1e-3f, step, 4680, 0.3, false);
    tp_session *s = tp_session_new(g, NULL);
    static const int64_t at[] = {0, 4679, 4680, 9360, 2340};
    static const double want[] = {1e-3, 1e-3, 3e-4, 9e-5, 1e-3};
    for (int i = 0; i < 5; i++) {
        tp_feed f;
        const tp_tensor *out[2];
        memset(&f, 0, sizeof f);
        f.node = step;
        tp_tensor_view(&f.value, TP_I64, scalar(), &at[i]);
        CHECK_OK(tp_session_run(s, &f, 1, lr, 2, out));
        CHECK_NEAR(tp_tensor_get(out[0], 0), want[i], 0, 1e-6);
        CHECK_NEAR(tp_tensor_get(out[1], 0), 1e-3 * pow(0.3, (double)at[i] / 4680), 0, 1e-6);
    }
    tp_session_free(s);
    tp_graph_free(g);
}

static tp_node *negative(tp_node *grad, tp_node *var, void *user)
{
    (void)var, (void)user;
    return tp_neg(grad);
}
static tp_node *nothing(tp_node *grad, tp_node *var, void *user)
{
    (void)grad, (void)var, (void)user;
    return NULL;
}

/* Gradients 3, 4, 12 of fc/W, fc/b, conv/W through one processor; what is left by name, 0 where dropped. */
static void process(const tp_gradproc *p, double fc_w, double fc_b, double conv_w)
{
    tp_graph *g = tp_graph_new(NULL);
    static const char *const names[] = {"fc/W", "fc/b", "conv/W"};
    static const float grads[] = {3, 4, 12};
    const double want[] = {fc_w, fc_b, conv_w};
    tp_grad_var gv[3];
    for (int i = 0; i < 3; i++) {
        gv[i].var = tp_get_variable_as(g, names[i], TP_F32, scalar(), tp_init_zeros());
        gv[i].grad = tp_const(g, grads[i]);
    }
    const int n = p->process(p, g, gv, 3);
    int kept = 0;
    for (int i = 0; i < 3; i++) kept += want[i] != 0;
    CHECK(n == kept);
    tp_session *s = tp_session_new(g, NULL);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < 3; i++)
            if (strcmp(tp_node_name(gv[k].var), names[i]) == 0) {
                tp_tensor t;
                memset(&t, 0, sizeof t);
                CHECK_OK(tp_session_eval(s, gv[k].grad, &t));
                CHECK_NEAR(tp_tensor_get(&t, 0), want[i], 0, 1e-6);
                tp_tensor_free(&t);
            }
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(processors_change_gradients)
{
    tp_gradproc p = tp_gradproc_global_norm_clip(5);
    process(&p, 1.153846154, 1.538461538, 4.615384615);
    p = tp_gradproc_global_norm_clip(13.5f);
    process(&p, 3, 4, 12);
    p = tp_gradproc_scale_also(tp_gradproc_scale("fc.*", 0.5f), ".*", 2.0f); /* the first match counts */
    process(&p, 1.5, 2, 24);
    p = tp_gradproc_scale("fc/W", 0.0f); /* dropped, so frozen */
    process(&p, 0, 4, 12);
    p = tp_gradproc_scale("W", 3.0f); /* from the start: matches nothing */
    process(&p, 3, 4, 12);
    p = tp_gradproc_map(negative, "conv.*", NULL);
    process(&p, 3, 4, -12);
    p = tp_gradproc_map(nothing, "fc.*|x", NULL);
    process(&p, 0, 0, 12);
}

TEST(processors_run_before_the_update)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w[2];
    tp_grad_var gv[2];
    tp_optimizer_desc d;
    tp_gradproc procs[3];
    memset(&d, 0, sizeof d);
    w[0] = tp_get_variable_as(g, "a", TP_F32, scalar(), tp_init_constant(1));
    w[1] = tp_get_variable_as(g, "unused", TP_F32, scalar(), tp_init_constant(1));
    d.learning_rate = tp_const(g, 1.0f);
    procs[0] = tp_gradproc_filter_none();
    procs[0].quiet = true;
    procs[1] = tp_gradproc_scale("a", 10.0f);
    procs[1].quiet = true;
    procs[2] = tp_gradproc_global_norm_clip(0.5f);
    tp_optimizer *opt = tp_apply_grad_processors(tp_optimizer_proxy(tp_sgd_(&d), 0), procs, 3);
    tp_compute_gradients(tp_square(w[0]), w, 2, gv);
    CHECK(gv[1].grad == NULL);
    tp_node *train = tp_apply_gradients(opt, gv, 2);
    CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
    tp_session *s = tp_session_new(g, NULL);
    CHECK_OK(tp_session_run(s, NULL, 0, &train, 1, NULL));
    CHECK_NEAR(read1(s, "a"), 0.5, 1e-6, 0); /* gradient 20, clipped to 0.5 */
    CHECK_NEAR(read1(s, "unused"), 1, 0, 0);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(mistakes_are_sentences)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, scalar(), tp_init_zeros());
    tp_grad_var gv;
    tp_optimizer_desc d;
    memset(&d, 0, sizeof d);
    d.learning_rate = tp_const(g, 0.1f);
    gv.grad = NULL;
    gv.var = w;
    CHECK(tp_is_poison(tp_apply_gradients(tp_sgd_(&d), &gv, 1)));
    CHECK_HAS(tp_graph_error(g), "variable 'w' has no gradient");
    tp_graph_free(g);
    g = tp_graph_new(NULL);
    d.learning_rate = tp_get_variable_as(g, "rates", TP_F32, tp_make_shape_n(1, (const int64_t[1]){3}), tp_init_zeros());
    tp_adam_(&d);
    CHECK_HAS(tp_graph_error(g), "learning rate must be a float32 scalar");
    tp_graph_free(g);
}

TEST_MAIN()
