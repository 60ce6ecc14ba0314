/* In a struct an explicit zero has a spelling: each option for which tests/zero_options.tsv has one is shown to do what zero means,
 * and not what unset does. tests/check_zero.sh compares this file with the table. Calls by name are in test_named.c: here they
 * fill the struct in as by hand, so that a 0 is unset. */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_export.h"
#include "tp_import.h"
#include "tp_test.h"

#undef TP__NAMED
#define TP__NAMED(part_, type_, text_, ...) (&(const type_){__VA_ARGS__})

#define ZERO(struct_, field_) TEST(struct_##__##field_)

static const uint64_t seed_0 = (uint64_t)TP_NONE;

/* ==== >>graph ========================================================================================= */

/* A graph in a training tower. */
static tp_graph *graph(void)
{
    tp_test_keep_log();
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_enter(g, &(tp_tower_desc){.is_training = true});
    return g;
}

static double element(tp_session *s, tp_node *n, int i)
{
    tp_tensor t = {0};
    double v = -1e300;
    if (CHECK_OK(tp_session_eval(s, n, &t))) v = tp_tensor_get(&t, i);
    tp_tensor_free(&t);
    return v;
}

/* Element i of a node in a session of its own; the graph goes. */
static double last_element(tp_graph *g, tp_node *n, int i)
{
    double v = -1e300;
    tp_session *s = CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g)) ? tp_session_new(g, NULL) : NULL;
    if (CHECK(s != NULL)) v = element(s, n, i);
    tp_session_free(s);
    tp_graph_free(g);
    return v;
}

static tp_node *numbers(tp_graph *g, tp_shape shape, const float *v)
{
    tp_tensor t = {0};
    tp_tensor_view(&t, TP_F32, shape, v);
    return tp_constant(g, &t);
}

static double random_number(uint64_t seed)
{
    tp_graph *g = tp_graph_new(&(tp_graph_config){.seed = seed});
    return last_element(g, tp_rand_normal(g, tp_make_shape(4), 0, 1), 0);
}
ZERO(tp_graph_config, seed)
{
    tp_graph *g = tp_graph_new(&(tp_graph_config){.seed = seed_0});
    CHECK(random_number(0) == random_number(42));
    CHECK(random_number(seed_0) == random_number(seed_0));
    CHECK(tp_graph_seed(g) == 0);
    tp_graph_free(g);
    CHECK(random_number(seed_0) != random_number(0) && random_number(seed_0) != random_number(1));
}

static int trained(int trainable)
{
    int n = 0;
    tp_graph *g = graph();
    tp_get_variable(g, &(tp_variable_desc){.name = "v", .shape = tp_make_shape(2), .trainable = trainable});
    tp_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n);
    tp_graph_free(g);
    return n;
}
ZERO(tp_variable_desc, trainable) { CHECK(trained(TP_UNSET) == 1 && trained(TP_NO) == 0); }

/* Does a gradient reach a frozen variable? */
static bool reached(const tp_freeze_variables_desc *d)
{
    tp_graph *g = graph();
    tp_variable_desc v;
    memset(&v, 0, sizeof v);
    v.name = "v";
    v.shape = tp_make_shape(2);
    tp_freeze_variables_(g, d);
    tp_node *y = tp_sum(tp_get_variable(g, &v)), *dv = NULL, *x = tp_find_variable(g, "v")->node;
    tp_variable_scope_pop(g);
    tp_gradients(y, &x, 1, &dv);
    CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
    const bool is = dv != NULL;
    tp_graph_free(g);
    return is;
}
ZERO(tp_freeze_variables_desc, stop_gradient)
{
    const tp_freeze_variables_desc unset = {TP_UNSET, TP_UNSET, 0}, no = {TP_NO, TP_NO, 0}, zero = {0, 0, 0};
    CHECK(!reached(NULL) && !reached(&unset) && !reached(&zero) && reached(&no));
}

/* What the average of a constant 3 is after one update, before it is made up for the 0 that it starts from. */
static double average(float decay)
{
    int n = 0;
    tp_graph *g = graph();
    tp_node *x = tp_named(tp_const(g, 3), "x");
    tp_add_moving_summary_n(&x, 1, &(tp_moving_summary_desc){.decay = decay});
    tp_node *const *op = tp_collection(g, TP_KEY_MOVING_SUMMARY_OPS, &n);
    tp_session *s = tp_session_new(g, NULL);
    double v = -1;
    if (CHECK(n == 1 && s) && CHECK_OK(tp_session_run(s, NULL, 0, op, 1, NULL)))
        for (int i = 0; i < tp_graph_n_variables(g); i++) {
            const tp_variable *variable = tp_graph_variable(g, i);
            if (strstr(variable->name, "/biased")) v = element(s, variable->node, 0);
        }
    tp_session_free(s);
    tp_graph_free(g);
    return v;
}
ZERO(tp_tensor_summary_desc, main_tower_only)
{
    for (int main_only = 0; main_only < 2; main_only++) {
        int n = -1;
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_named(tp_const(g, 3), "x");
        CHECK(tp_tower_enter(g, &(tp_tower_desc){.name = "t", .is_training = true, .index = 1, .total = 2}));
        tp_add_tensor_summary(x, TP_SUMMARY_MEAN, .main_tower_only = main_only ? TP_UNSET : TP_NO);
        tp_collection(g, TP_KEY_SUMMARIES, &n);
        CHECK(n == !main_only);
        tp_tower_leave(g);
        tp_graph_free(g);
    }
}
ZERO(tp_moving_summary_desc, decay)
{
    CHECK_NEAR(average(TP_ZERO), 3, 0, 0);
    CHECK_NEAR(average(0), average(0.95f), 0, 0);
    CHECK(average(0) < 2.9);
}

/* ==== >>layers ======================================================================================== */

/* Does the layer of this name make the variable? */
static const float image[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17};
static tp_node *picture(tp_graph *g) { return numbers(g, tp_make_shape(1, 2, 2, 4), image); }
#define MAKES(variable_, y_)                                                    \
    do {                                                                        \
        for (int has = 0; has < 2; has++) {                                     \
            tp_graph *g = graph();                                              \
            tp_node *x = picture(g);                                            \
            const tp_tri option = has ? TP_UNSET : TP_NO;                       \
            (void)(y_);                                                         \
            CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));    \
            CHECK((tp_find_variable(g, "l/" variable_) != NULL) == (has == 1)); \
            tp_graph_free(g);                                                   \
        }                                                                       \
    } while (0)

ZERO(tp_conv2d_desc, use_bias) { MAKES("b", tp_conv2d(x, "l", 2, 3, .use_bias = option)); }
ZERO(tp_fully_connected_desc, use_bias) { MAKES("b", tp_fully_connected(x, "l", 2, .use_bias = option)); }
ZERO(tp_conv2d_transpose_desc, use_bias) { MAKES("b", tp_conv2d_transpose(x, "l", 2, 3, .use_bias = option)); }
ZERO(tp_batch_norm_desc, center) { MAKES("beta", tp_batch_norm(x, "l", .center = option)); }
ZERO(tp_batch_norm_desc, scale) { MAKES("gamma", tp_batch_norm(x, "l", .scale = option)); }
ZERO(tp_layer_norm_desc, center) { MAKES("beta", tp_layer_norm(x, "l", .center = option)); }
ZERO(tp_layer_norm_desc, scale) { MAKES("gamma", tp_layer_norm(x, "l", .scale = option)); }
ZERO(tp_group_norm_desc, center) { MAKES("beta", tp_group_norm(x, "l", .groups = 2, .center = option)); }
ZERO(tp_group_norm_desc, scale) { MAKES("gamma", tp_group_norm(x, "l", .groups = 2, .scale = option)); }
ZERO(tp_batch_renorm_desc, center) { MAKES("beta", tp_batch_renorm(x, "l", .rmax = 1, .dmax = 1, .center = option)); }
ZERO(tp_batch_renorm_desc, scale) { MAKES("gamma", tp_batch_renorm(x, "l", .rmax = 1, .dmax = 1, .scale = option)); }
/* Options whose default is false: TP_NO is false where the argscope says true, 0 is true there. */
#define DENIES(layer_, y_, variable_, ...)                                      \
    do {                                                                        \
        for (int has = 0; has < 2; has++) {                                     \
            tp_graph *g = graph();                                              \
            tp_node *x = picture(g);                                            \
            const tp_tri option = has ? (tp_tri)0 : TP_NO;                      \
            TP_ARGSCOPE(g, layer_, __VA_ARGS__) { (void)(y_); }                 \
            CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));    \
            CHECK((tp_find_variable(g, "l/" variable_) != NULL) == (has == 1)); \
            tp_graph_free(g);                                                   \
        }                                                                       \
    } while (0)
ZERO(tp_depthwise_conv2d_desc, use_bias)
{
    DENIES(depthwise_conv2d, tp_depthwise_conv2d(x, "l", .kernel_size = 3, .use_bias = option), "b",
           .use_bias = TP_YES);
}
ZERO(tp_softmax_layer_desc, use_temperature)
{
    DENIES(softmax_layer, tp_softmax_layer(x, "l", .use_temperature = option), "invtemp", .use_temperature = TP_YES);
}
ZERO(tp_rnn_desc, time_major)
{
    for (int has = 0; has < 2; has++) {
        tp_graph *g = graph();
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2, 3, 4));
        tp_rnn_state state[2];
        memset(state, 0, sizeof state);
        TP_ARGSCOPE(g, (lstm, gru), .time_major = TP_YES)
        {
            const tp_tri option = has ? (tp_tri)0 : TP_NO;
            tp_lstm(x, "l", 5, .time_major = option, .state = &state[0]);
            tp_gru(x, "g", 5, .time_major = option, .state = &state[1]);
        }
        CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
        for (int i = 0; i < 2; i++) CHECK(state[i].h && state[i].h->shape.dim[0] == (has ? 3 : 2));
        tp_graph_free(g);
    }
}
/* The first query of two, which sees the second key or not. */
static double first_of_two(tp_tri causal)
{
    static const float two[2] = {1, 3};
    tp_graph *g = graph();
    tp_node *x = numbers(g, tp_make_shape(1, 2, 1), two), *y = NULL;
    TP_ARGSCOPE(g, multi_head_attention, .kernel_initializer = tp_init_ones(), .causal = TP_YES)
    {
        y = tp_multi_head_attention(x, "l", 1, .causal = causal);
    }
    return last_element(g, y, 0);
}
ZERO(tp_multi_head_attention_desc, causal)
{
    CHECK_NEAR(first_of_two(TP_NO), 1 + 2 / (1 + exp(-2.0)), 1e-5, 0);
    CHECK_NEAR(first_of_two((tp_tri)0), 1, 1e-6, 0);
}
ZERO(tp_multi_head_attention_desc, use_bias)
{
    for (int has = 0; has < 2; has++) {
        tp_graph *g = graph();
        tp_multi_head_attention(numbers(g, tp_make_shape(2, 2, 4), image), "l", 2, .use_bias = has ? TP_UNSET : TP_NO);
        CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
        int biases = 0;
        for (int i = 0; i < tp_graph_n_variables(g); i++) biases += tp_graph_variable(g, i)->shape.ndim == 1;
        CHECK(biases == (has ? 4 : 0));
        tp_graph_free(g);
    }
}

/* The first of two samples 1 and 3 of one channel, normalised. */
static const float one_and_three[2] = {1, 3};
#define NORMALISED(...) normalised(&(tp_batch_norm_desc){.name = "l", __VA_ARGS__}, NULL)
static double normalised(const tp_batch_norm_desc *d, const char *variable)
{
    tp_graph *g = graph();
    tp_node *y = tp_batch_norm_(numbers(g, tp_make_shape(2, 1), one_and_three), d);
    if (!variable) return last_element(g, y, 0);
    double v = -1;
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK(s && tp_find_variable(g, variable))) {
        element(s, y, 0);
        v = element(s, tp_find_variable(g, variable)->node, 0);
    }
    tp_session_free(s);
    tp_graph_free(g);
    return v;
}
ZERO(tp_batch_norm_desc, training)
{
    CHECK_NEAR(NORMALISED(.training = TP_UNSET), -1, 1e-4, 0);
    CHECK_NEAR(NORMALISED(.training = TP_NO), 1, 1e-4, 0); /* by the running mean 0 and variance 1 */
}
ZERO(tp_batch_norm_desc, epsilon)
{
    CHECK_NEAR(NORMALISED(.training = TP_NO, .epsilon = TP_ZERO), 1, 0, 0);
    CHECK(NORMALISED(.training = TP_NO) < 1);
}
ZERO(tp_batch_norm_desc, momentum)
{
    CHECK_NEAR(normalised(&(tp_batch_norm_desc){.name = "l", .momentum = TP_ZERO, .ema_update = TP_EMA_INTERNAL},
                          "l/mean/EMA"),
               2, 0, 0);
    CHECK_NEAR(normalised(&(tp_batch_norm_desc){.name = "l", .ema_update = TP_EMA_INTERNAL}, "l/mean/EMA"), 0.2, 1e-6,
               0);
}

static double dropped(float rate, tp_tri training)
{
    static float ones[1000];
    for (int i = 0; i < 1000; i++) ones[i] = 1;
    tp_graph *g = graph();
    tp_node *y = tp_sum(tp_dropout(numbers(g, tp_make_shape(1000), ones), .rate = rate, .training = training));
    return last_element(g, y, 0);
}
ZERO(tp_dropout_desc, rate) { CHECK(dropped(TP_ZERO, TP_UNSET) == 1000 && dropped(0, TP_UNSET) != 1000); }
ZERO(tp_dropout_desc, training) { CHECK(dropped(0.5f, TP_NO) == 1000 && dropped(0.5f, TP_UNSET) != 1000); }

/* The first of -1, 1 after a normalisation of them: -1 but for epsilon. */
static double of_layer_norm(float epsilon)
{
    static const float v[2] = {-1, 1};
    tp_graph *g = graph();
    return last_element(g, tp_layer_norm(numbers(g, tp_make_shape(1, 2), v), "l", .epsilon = epsilon), 0);
}
ZERO(tp_layer_norm_desc, epsilon) { CHECK(of_layer_norm(TP_ZERO) == -1 && of_layer_norm(0) > -1); }
static double of_group_norm(float epsilon)
{
    static const float v[4] = {-1, -1, 1, 1};
    tp_graph *g = graph();
    tp_node *x = numbers(g, tp_make_shape(1, 1, 1, 4), v);
    return last_element(g, tp_group_norm(x, "l", .groups = 1, .epsilon = epsilon), 0);
}
ZERO(tp_group_norm_desc, epsilon) { CHECK(of_group_norm(TP_ZERO) == -1 && of_group_norm(0) > -1); }

/* The first of -1 and 3 when the running mean is -5; or the moving mean after an update. */
static void put(tp_session *s, const char *name, float v)
{
    tp_tensor t = {0};
    const tp_variable *variable = tp_find_variable(tp_session_graph(s), name);
    if (!CHECK_MSG(variable != NULL, "no variable %s", name)) return;
    tp_tensor_view(&t, TP_F32, variable->shape, &v);
    CHECK_OK(tp_session_load(s, variable, &t));
}
static double renormalised(float dmax, float momentum, float epsilon, bool mean)
{
    static const float v[2] = {-1, 3};
    double value = -1e300;
    int n = 0;
    tp_graph *g = graph();
    tp_node *y = tp_batch_renorm(numbers(g, tp_make_shape(2, 1), v), "l", .rmax = 1, .dmax = dmax, .momentum = momentum,
                                 .epsilon = epsilon);
    tp_node *const *ops = tp_collection(g, TP_KEY_UPDATE_OPS, &n);
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK(s && n == 2) && !mean) {
        put(s, "l/renorm_mean", -5), put(s, "l/renorm_mean_weight", 1);
        put(s, "l/renorm_stddev", 1), put(s, "l/renorm_stddev_weight", 1);
        value = element(s, y, 0);
    } else if (s && CHECK_OK(tp_session_run(s, NULL, 0, ops, n, NULL)) && CHECK(tp_find_variable(g, "l/moving_mean"))) {
        value = element(s, tp_find_variable(g, "l/moving_mean")->node, 0);
    }
    tp_session_free(s);
    tp_graph_free(g);
    return value;
}
ZERO(tp_batch_renorm_desc, dmax)
{
    CHECK_NEAR(renormalised(TP_ZERO, 0, 0, false), -1, 1e-4, 0);
    CHECK_NEAR(renormalised(5, 0, 0, false), 4, 1e-4, 0);
}
ZERO(tp_batch_renorm_desc, epsilon)
{
    CHECK(renormalised(TP_ZERO, 0, TP_ZERO, false) == -1 && renormalised(TP_ZERO, 0, 0, false) > -1);
}
ZERO(tp_batch_renorm_desc, momentum)
{
    CHECK_NEAR(renormalised(TP_ZERO, TP_ZERO, 0, true), 1, 1e-6, 0);
    CHECK_NEAR(renormalised(TP_ZERO, 0, 0, true), 0.1, 1e-6, 0);
}

static double leaked(float init)
{
    tp_graph *g = graph();
    return last_element(g, tp_prelu(tp_const(g, -1), "l", .init = init), 0);
}
ZERO(tp_prelu_desc, init)
{
    CHECK_NEAR(leaked(TP_ZERO), 0, 0, 0);
    CHECK_NEAR(leaked(0), -0.001, 1e-6, 0);
}

/* What is left of a cell of 1 when the forget gate sees nothing but its bias. */
static double remembered(float bias)
{
    static const float zero = 0, one = 1;
    tp_graph *g = graph();
    tp_rnn_state state = {numbers(g, tp_make_shape(1, 1), &zero), numbers(g, tp_make_shape(1, 1), &one)};
    tp_lstm(numbers(g, tp_make_shape(1, 1, 1), &zero), "l", 1, .forget_bias = bias, .state = &state);
    return last_element(g, state.c, 0);
}
ZERO(tp_rnn_desc, forget_bias)
{
    CHECK_NEAR(remembered(TP_ZERO), 0.5, 1e-6, 0);
    CHECK_NEAR(remembered(0), 0.7310586, 1e-6, 0);
}

/* ==== >>optimizers ==================================================================================== */

static struct {
    tp_momentum_desc momentum;
    tp_adam_desc adam;
    tp_adamw_desc adamw;
    tp_rmsprop_desc rmsprop;
    tp_adadelta_desc adadelta;
    tp_ftrl_desc ftrl;
    tp_lamb_desc lamb;
    tp_lion_desc lion;
} o;
static tp_optimizer *of_momentum(tp_node *lr) { return tp_momentum_(lr, &o.momentum); }
static tp_optimizer *of_adam(tp_node *lr) { return tp_adam_(lr, &o.adam); }
static tp_optimizer *of_adamw(tp_node *lr) { return tp_adamw_(lr, &o.adamw); }
static tp_optimizer *of_rmsprop(tp_node *lr) { return tp_rmsprop_(lr, &o.rmsprop); }
static tp_optimizer *of_rmsprop_of_late(tp_node *lr) /* its average starts from 1, where no epsilon shows */
{
    o.rmsprop.decay = 0.001f;
    return tp_rmsprop_(lr, &o.rmsprop);
}
static tp_optimizer *of_adadelta(tp_node *lr) { return tp_adadelta_(lr, &o.adadelta); }
static tp_optimizer *of_ftrl(tp_node *lr) { return tp_ftrl_(lr, &o.ftrl); }
static tp_optimizer *of_lamb(tp_node *lr) { return tp_lamb_(lr, &o.lamb); }
/* Only signs count: with a large rate the gradient changes its sign, and beta1, beta2 decide when the step does. */
static tp_optimizer *of_lion(tp_node *lr) { return tp_lion_(tp_affine(lr, 6, 0), &o.lion); }
static tp_optimizer *of_lion_that_forgets(tp_node *lr)
{
    o.lion.beta2 = 0.001f;
    return of_lion(lr);
}

/* Where two weights are after three steps down scale * sum(c w^2). */
static double after_three_steps(tp_optimizer *(*make)(tp_node *lr), float scale)
{
    static const float start[2] = {1, 0.5f}, c[2] = {1, 0.01f};
    tp_graph *g = graph();
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(2), tp_init_values(start, 2));
    tp_node *cost = tp_affine(tp_sum(tp_mul(tp_mul(w, w), numbers(g, tp_make_shape(2), c))), scale, 0);
    tp_optimizer *opt = make(tp_get_scalar_variable(g, "learning_rate", 0.125f));
    tp_grad_var gv;
    double v = -1e300;
    tp_optimizer_compute_gradients(opt, cost, &w, 1, &gv);
    tp_node *op = tp_apply_gradients(opt, &gv, 1);
    tp_session *s = CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g)) ? tp_session_new(g, NULL) : NULL;
    if (CHECK(s != NULL)) {
        for (int i = 0; i < 3; i++) CHECK_OK(tp_session_run(s, NULL, 0, &op, 1, NULL));
        v = element(s, w, 0) + 3 * element(s, w, 1);
    }
    tp_session_free(s);
    tp_graph_free(g);
    return v;
}
/* TP_ZERO is what a vanishing number comes to, and not what unset does. */
static void vanishes(tp_optimizer *(*make)(tp_node *lr), float *option, float scale, float vanishing)
{
    memset(&o, 0, sizeof o);
    const double unset = after_three_steps(make, scale);
    *option = TP_ZERO;
    const double zero = after_three_steps(make, scale);
    *option = vanishing;
    const double near = after_three_steps(make, scale);
    CHECK_MSG(zero == zero && near == near && fabs(zero - near) < 1e-6, "0: %.9g, almost 0: %.9g", zero, near);
    CHECK_MSG(fabs(zero - unset) > 1e-5, "0: %.9g, unset: %.9g", zero, unset);
}
ZERO(tp_momentum_desc, momentum) { vanishes(of_momentum, &o.momentum.momentum, 1, 1e-30f); }
static tp_optimizer *of_nesterov(tp_node *lr) { return tp_nesterov_(lr, &o.momentum); }
ZERO(tp_momentum_desc, use_nesterov)
{
    memset(&o, 0, sizeof o);
    const double unset = after_three_steps(of_nesterov, 1), plain = after_three_steps(of_momentum, 1);
    o.momentum.use_nesterov = TP_NO;
    CHECK(after_three_steps(of_nesterov, 1) == plain && fabs(unset - plain) > 1e-3);
}
ZERO(tp_adam_desc, beta1) { vanishes(of_adam, &o.adam.beta1, 1, 1e-30f); }
ZERO(tp_adam_desc, beta2) { vanishes(of_adam, &o.adam.beta2, 1, 1e-30f); }
ZERO(tp_adam_desc, epsilon) { vanishes(of_adam, &o.adam.epsilon, 1e-8f, 1e-30f); }
ZERO(tp_adamw_desc, beta1) { vanishes(of_adamw, &o.adamw.beta1, 1, 1e-30f); }
ZERO(tp_adamw_desc, beta2) { vanishes(of_adamw, &o.adamw.beta2, 1, 1e-30f); }
ZERO(tp_adamw_desc, epsilon) { vanishes(of_adamw, &o.adamw.epsilon, 1e-8f, 1e-30f); }
ZERO(tp_adamw_desc, weight_decay) { vanishes(of_adamw, &o.adamw.weight_decay, 1, 1e-30f); }
ZERO(tp_rmsprop_desc, decay) { vanishes(of_rmsprop, &o.rmsprop.decay, 1, 1e-30f); }
ZERO(tp_rmsprop_desc, epsilon) { vanishes(of_rmsprop_of_late, &o.rmsprop.epsilon, 1e-5f, 1e-30f); }
ZERO(tp_adadelta_desc, rho) { vanishes(of_adadelta, &o.adadelta.rho, 1e-4f, 1e-30f); }
ZERO(tp_ftrl_desc, learning_rate_power) { vanishes(of_ftrl, &o.ftrl.learning_rate_power, 1, -1e-30f); }
ZERO(tp_lamb_desc, beta1) { vanishes(of_lamb, &o.lamb.beta1, 1, 1e-30f); }
ZERO(tp_lamb_desc, beta2) { vanishes(of_lamb, &o.lamb.beta2, 1, 1e-30f); }
ZERO(tp_lamb_desc, epsilon) { vanishes(of_lamb, &o.lamb.epsilon, 1e-6f, 1e-30f); }
ZERO(tp_lion_desc, beta1) { vanishes(of_lion_that_forgets, &o.lion.beta1, 1, 1e-30f); }
ZERO(tp_lion_desc, beta2) { vanishes(of_lion, &o.lion.beta2, 1, 1e-30f); }

/* ==== >>refused ======================================================================================= */

#define REFUSED(make_, part_)                                                         \
    do {                                                                              \
        tp_graph *g = graph();                                                        \
        tp_node *x = picture(g), *lr = tp_get_scalar_variable(g, "learning_rate", 1); \
        (void)x, (void)lr, (void)(make_);                                             \
        CHECK(tp_graph_status(g) == TP_ERR_ARG);                                      \
        CHECK_HAS(tp_graph_error(g), part_);                                          \
        tp_graph_free(g);                                                             \
    } while (0)
TEST(a_zero_that_means_nothing_is_refused)
{
    REFUSED(tp_dropout(x, .keep_prob = TP_ZERO), ".rate is at least 0 and less than 1");
    REFUSED(tp_softmax_layer(x, "l", .use_temperature = TP_YES, .temperature_init = TP_ZERO), "temperature");
    REFUSED(tp_batch_renorm(x, "l", .rmax = TP_ZERO, .dmax = 1), ".rmax of 1 or more");
    REFUSED(tp_adagrad(lr, .initial_accumulator_value = TP_ZERO), "must be positive");
    REFUSED(tp_adadelta(lr, .epsilon = TP_ZERO), "must be positive");
    REFUSED(tp_ftrl(lr, .initial_accumulator_value = TP_ZERO), "must be positive");
    REFUSED(tp_loss_scale(tp_sgd(lr), .initial = TP_ZERO), "must be positive");
    REFUSED(tp_loss_scale(tp_sgd(lr), .minimum = TP_ZERO), "must be positive");
}

/* ==== >>input ========================================================================================= */

enum { POINTS = 60 };
static float row[POINTS];
static tp_tensor rows(void)
{
    tp_tensor t = {0};
    for (int i = 0; i < POINTS; i++) row[i] = (float)i;
    tp_tensor_view(&t, TP_F32, tp_make_shape(POINTS), row);
    return t;
}
static tp_dataflow *arrays(int shuffle, uint64_t seed)
{
    const tp_tensor t = rows();
    return tp_df_from_arrays(&t, 1, .shuffle = shuffle, .seed = seed);
}
static tp_dataflow *list(int shuffle, uint64_t seed)
{
    tp_tensor t[POINTS] = {{0}};
    tp_datapoint p[POINTS] = {{0}};
    rows();
    for (int i = 0; i < POINTS; i++) {
        tp_tensor_view(&t[i], TP_F32, tp_make_shape_n(0, NULL), &row[i]);
        p[i].c = &t[i], p[i].n = 1;
    }
    return tp_df_from_list(p, POINTS, .shuffle = shuffle, .seed = seed);
}
static const char *idx_file(const char *dir, const char *name, int ndim)
{
    unsigned char data[16 + POINTS] = {0, 0, 8, (unsigned char)ndim, 0, 0, 0, POINTS};
    const int head = 4 + 4 * ndim;
    for (int k = 1; k < ndim; k++) data[4 + 4 * k + 3] = 1;
    for (int i = 0; i < POINTS; i++) data[head + i] = (unsigned char)(ndim > 1 ? i : i % 10);
    CHECK(tp_test_write(tp_test_path(dir, name), data, (size_t)(head + POINTS)));
    return tp_test_path(dir, name);
}
static tp_dataflow *idx(int shuffle, uint64_t seed)
{
    const char *path = idx_file(tp_test_tmpdir(), "numbers", 1);
    return tp_df_idx(&path, 1, .shuffle = shuffle, .seed = seed);
}
static tp_dataflow *digits(int shuffle, uint64_t seed)
{
    return tp_df_digits("test", .size = POINTS, .shuffle = shuffle, .seed = seed);
}

static double next(tp_dataflow *df)
{
    tp_datapoint dp = {0};
    double v = -1;
    if (tp_df_next(df, &dp) == TP_OK) v = tp_tensor_get(&dp.c[dp.n - 1], 0);
    tp_datapoint_free(&dp);
    return v;
}
/* Do the first two passes give the same? */
static bool same_passes(tp_dataflow *df)
{
    double first[POINTS];
    bool same = CHECK_OK(tp_df_status(df));
    for (int pass = 0; pass < 2; pass++) {
        CHECK_OK(tp_df_restart(df, pass));
        for (int i = 0; i < POINTS; i++) {
            const double v = next(df);
            if (pass == 0) first[i] = v;
            same = same && v == first[i];
        }
    }
    tp_df_free(df);
    return same;
}
/* Its seed, and the flow goes. */
static uint64_t seed_of(tp_dataflow *df)
{
    const uint64_t seed = CHECK_OK(tp_df_status(df)) ? df->seed : 1;
    tp_df_free(df);
    return seed;
}
#define SEEDED(make_)                \
    do {                             \
        uint64_t s = seed_0;         \
        CHECK(seed_of(make_) == 0);  \
        s = 0;                       \
        CHECK(seed_of(make_) == 42); \
    } while (0)

ZERO(tp_df_from_list_desc, shuffle) { CHECK(same_passes(list(TP_NO, 0)) && !same_passes(list(TP_UNSET, 0))); }
ZERO(tp_df_from_list_desc, seed) { SEEDED(list(0, s)); }
ZERO(tp_df_from_arrays_desc, shuffle) { CHECK(same_passes(arrays(TP_NO, 0)) && !same_passes(arrays(TP_UNSET, 0))); }
ZERO(tp_df_from_arrays_desc, seed)
{
    SEEDED(arrays(0, s));
    tp_dataflow *a = arrays(0, seed_0), *b = arrays(0, 0);
    int differ = 0;
    for (int i = 0; i < POINTS; i++) differ += next(a) != next(b);
    CHECK(differ > POINTS / 2);
    tp_df_free(a), tp_df_free(b);
}
ZERO(tp_df_idx_desc, shuffle) { CHECK(same_passes(idx(TP_NO, 0)) && !same_passes(idx(TP_UNSET, 0))); }
ZERO(tp_df_idx_desc, seed) { SEEDED(idx(0, s)); }
ZERO(tp_df_digits_desc, shuffle) { CHECK(same_passes(digits(TP_NO, 0)) && !same_passes(digits(TP_UNSET, 0))); }
ZERO(tp_df_digits_desc, seed) { SEEDED(digits(0, s)); }

static const tp_spec number[] = {TP_SPEC("x", TP_F32, 1)};
static void empty(tp_dataflow *df)
{
    tp_datapoint dp = {0};
    CHECK_OK(tp_df_status(df));
    CHECK(tp_df_size(df) == 0);
    for (int i = 0; i < 2; i++) CHECK(tp_df_restart(df, i) == TP_OK && tp_df_next(df, &dp) == TP_END);
    tp_datapoint_free(&dp);
    tp_df_free(df);
}
ZERO(tp_df_digits_desc, size) { empty(tp_df_digits("train", .size = TP_NONE)); }
ZERO(tp_df_fake_desc, size) { empty(tp_df_fake(number, 1, .size = TP_NONE)); }
static bool one_value(int random, float low, float high, double *v)
{
    tp_dataflow *df = tp_df_fake(number, 1, .random = random, .low = low, .high = high);
    *v = next(df);
    const bool same = *v == next(df);
    tp_df_free(df);
    return same;
}
ZERO(tp_df_fake_desc, random)
{
    double v;
    CHECK(one_value(TP_NO, 0, 0, &v) && !one_value(TP_UNSET, 0, 0, &v));
}
ZERO(tp_df_fake_desc, low)
{
    double v;
    CHECK(one_value(TP_UNSET, TP_ZERO, 0, &v) && v == 0); /* [0,0), not [0,1) */
    CHECK(!one_value(TP_UNSET, TP_ZERO, 5, &v) && v >= 0 && v < 5);
}
ZERO(tp_df_fake_desc, high)
{
    double v;
    CHECK(one_value(TP_UNSET, 0, TP_ZERO, &v) && v == 0);
    CHECK(!one_value(TP_UNSET, -5, TP_ZERO, &v) && v >= -5 && v < 0);
}
ZERO(tp_df_fake_desc, seed) { SEEDED(tp_df_fake(number, 1, .seed = s)); }

static tp_dataflow *mnist(int shuffle, uint64_t seed)
{
    const char *dir = tp_test_tmpdir();
    idx_file(dir, "train-images-idx3-ubyte", 3);
    idx_file(dir, "train-labels-idx1-ubyte", 1);
    return tp_df_mnist("train", .dir = dir, .shuffle = shuffle, .seed = seed);
}
ZERO(tp_df_mnist_desc, shuffle) { CHECK(same_passes(mnist(TP_NO, 0)) && !same_passes(mnist(TP_UNSET, 0))); }
ZERO(tp_df_mnist_desc, seed) { SEEDED(mnist(0, s)); }

/* Readers: what is read here is POINTS lines or records, numbered. */
static tp_dataflow *cifar(int kind, int shuffle, uint64_t seed)
{
    const char *dir = tp_test_tmpdir(), *const file[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                                         "data_batch_4.bin", "data_batch_5.bin", "train.bin"};
    static unsigned char record[10 * 3074];
    for (int i = 0; i < 10; i++) record[i * (kind == 10 ? 3073 : 3074)] = (unsigned char)i;
    for (int i = 0; i < 10 && kind == 100; i++) record[i * 3074 + 1] = (unsigned char)i;
    for (int i = 0; i < 6; i++) tp_test_write(tp_test_path(dir, file[i]), record, i < 5 ? 10 * 3073 : 10 * 3074);
    if (kind == 10) return tp_df_cifar10("train", .dir = dir, .shuffle = shuffle, .seed = seed);
    return tp_df_cifar100("train", .dir = dir, .shuffle = shuffle, .seed = seed);
}
ZERO(tp_df_cifar10_desc, shuffle) { CHECK(same_passes(cifar(10, TP_NO, 0)) && !same_passes(cifar(10, TP_UNSET, 0))); }
ZERO(tp_df_cifar10_desc, seed) { SEEDED(cifar(10, 0, s)); }
ZERO(tp_df_cifar100_desc, shuffle)
{
    CHECK(same_passes(cifar(100, TP_NO, 0)) && !same_passes(cifar(100, TP_UNSET, 0)));
}
ZERO(tp_df_cifar100_desc, seed) { SEEDED(cifar(100, 0, s)); }
static tp_dataflow *svhn(int shuffle, uint64_t seed)
{
    /* POINTS labels, and as many images of zeros */
    static unsigned char file[128 + 64 + POINTS * 3072 + 56 + (POINTS + 7) / 8 * 8];
    const uint32_t images[16] = {14, 56 + POINTS * 3072, 6, 8, 9, 0, 5, 16, 32, 32, 3, POINTS, 1 << 16 | 1, 'X',
                                 2,  POINTS * 3072};
    const uint32_t labels[14] = {14,    48 + (POINTS + 7) / 8 * 8, 6, 8, 9, 0, 5, 8, POINTS, 1, 1 << 16 | 1, 'y', 2,
                                 POINTS};
    const char *dir = tp_test_tmpdir();
    unsigned char *p = file + 124;
    memcpy(p, "\0\1IM", 4);
    p += 4;
    for (int i = 0; i < 64; i++) *p++ = (unsigned char)(images[i / 4] >> 8 * (i % 4));
    p += POINTS * 3072;
    for (int i = 0; i < 56; i++) *p++ = (unsigned char)(labels[i / 4] >> 8 * (i % 4));
    for (int i = 0; i < POINTS; i++) p[i] = (unsigned char)(i % 11);
    p += (POINTS + 7) / 8 * 8;
    tp_test_write(tp_test_path(dir, "train_32x32.mat"), file, (size_t)(p - file));
    return tp_df_svhn_digit("train", .dir = dir, .shuffle = shuffle, .seed = seed);
}
ZERO(tp_df_svhn_digit_desc, shuffle) { CHECK(same_passes(svhn(TP_NO, 0)) && !same_passes(svhn(TP_UNSET, 0))); }
ZERO(tp_df_svhn_digit_desc, seed) { SEEDED(svhn(0, s)); }
static tp_dataflow *npz(int shuffle, uint64_t seed)
{
    const char *path = tp_test_path(tp_test_tmpdir(), "x.npz");
    tp_dict d = {0};
    tp_tensor *t = tp_dict_add(&d, "x");
    if (t && tp_tensor_resize(t, TP_F32, tp_make_shape(POINTS)) == TP_OK)
        for (int i = 0; i < POINTS; i++) tp_tensor_set(t, i, i);
    CHECK_OK(tp_npz_save(path, &d, false));
    tp_dict_free(&d);
    return tp_df_npz(path, .shuffle = shuffle, .seed = seed);
}
ZERO(tp_df_npz_desc, shuffle) { CHECK(same_passes(npz(TP_NO, 0)) && !same_passes(npz(TP_UNSET, 0))); }
ZERO(tp_df_npz_desc, seed) { SEEDED(npz(0, s)); }
static const char *number_file(void)
{
    const char *path = tp_test_path(tp_test_tmpdir(), "numbers");
    tp_buf b = {0};
    for (int i = 0; i < POINTS; i++) tp_buf_printf(&b, "%d\n", i);
    tp_test_write(path, b.data, b.len);
    tp_buf_free(&b);
    return path;
}
static tp_dataflow *csv(int header, int shuffle, uint64_t seed)
{
    static const tp_csv_column column = {.dtype = TP_F32};
    return tp_df_csv(number_file(), &column, 1, .header = header, .shuffle = shuffle, .seed = seed);
}
ZERO(tp_df_csv_desc, header)
{
    tp_dataflow *with = csv(TP_UNSET, TP_NO, 0), *without = csv(TP_NO, TP_NO, 0);
    CHECK(tp_df_size(with) == POINTS - 1 && next(with) == 1 && tp_df_size(without) == POINTS && next(without) == 0);
    tp_df_free(with), tp_df_free(without);
}
ZERO(tp_df_csv_desc, shuffle) { CHECK(same_passes(csv(TP_NO, TP_NO, 0)) && !same_passes(csv(TP_NO, TP_UNSET, 0))); }
ZERO(tp_df_csv_desc, seed) { SEEDED(csv(0, 0, s)); }
static tp_dataflow *chars(int shuffle, uint64_t seed)
{
    return tp_df_text_chars(number_file(), .sequence_length = 1, .shuffle = shuffle, .seed = seed);
}
ZERO(tp_df_text_chars_desc, shuffle) { CHECK(same_passes(chars(TP_NO, 0)) && !same_passes(chars(TP_UNSET, 0))); }
ZERO(tp_df_text_chars_desc, seed) { SEEDED(chars(0, s)); }
ZERO(tp_df_tfrecord_desc, seed)
{
    const char *path = tp_test_path(tp_test_tmpdir(), "empty.tfrecord");
    tp_test_write(path, "", 0);
    SEEDED(tp_df_tfrecord(&path, 1, .seed = s));
}
/* No images: their paths are taken, decoding them fails. */
static tp_dataflow *images(bool list, int decode, int shuffle, uint64_t seed)
{
    static char text[POINTS * 16];
    const char *root = tp_test_tmpdir();
    char dir[300], file[300];
    size_t n = 0;
    snprintf(dir, sizeof dir, "%s/class", root);
    snprintf(file, sizeof file, "%s/list", root);
    CHECK_OK(tp_make_dirs(dir));
    for (int i = 0; i < POINTS; i++) {
        char name[16];
        snprintf(name, sizeof name, "%02d.png", i);
        tp_test_write(tp_test_path(dir, name), "x", 1);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s %d\n", name, i);
    }
    tp_test_write(file, text, n);
    if (list) return tp_df_image_list(file, .dir = dir, .decode = decode, .shuffle = shuffle, .seed = seed);
    return tp_df_select(tp_df_image_folder(root, .decode = decode, .shuffle = shuffle, .seed = seed), (const int[]){0},
                        1);
}
/* Of paths. */
static bool same_order(tp_dataflow *df)
{
    uint64_t hash[2] = {1, 1};
    tp_datapoint dp = {0};
    for (int pass = 0; pass < 2; pass++) {
        CHECK_OK(tp_df_restart(df, pass));
        while (tp_df_next(df, &dp) == TP_OK)
            hash[pass] = 31 * hash[pass] + tp_hash(dp.c[0].data, tp_tensor_bytes(&dp.c[0]));
    }
    tp_datapoint_free(&dp);
    tp_df_free(df);
    return hash[0] == hash[1];
}
static bool decodes(tp_dataflow *df)
{
    tp_datapoint dp = {0};
    const bool failed = tp_df_next(df, &dp) < TP_OK;
    tp_datapoint_free(&dp);
    tp_df_free(df);
    return failed;
}
ZERO(tp_df_image_folder_desc, decode)
{
    CHECK(decodes(images(false, TP_UNSET, 0, 0)) && !decodes(images(false, TP_NO, 0, 0)));
}
ZERO(tp_df_image_folder_desc, shuffle)
{
    CHECK(same_order(images(false, TP_NO, TP_NO, 0)) && !same_order(images(false, TP_NO, TP_UNSET, 0)));
}
ZERO(tp_df_image_folder_desc, seed)
{
    const char *root = tp_test_tmpdir();
    CHECK_OK(tp_make_dirs(tp_test_path(root, "a")));
    tp_test_write(tp_test_path(tp_test_path(root, "a"), "x"), "x", 1);
    SEEDED(tp_df_image_folder(root, .seed = s));
}
ZERO(tp_df_image_list_desc, decode)
{
    CHECK(decodes(images(true, TP_UNSET, 0, 0)) && !decodes(images(true, TP_NO, 0, 0)));
}
ZERO(tp_df_image_list_desc, shuffle)
{
    CHECK(same_order(images(true, TP_NO, TP_NO, 0)) && !same_order(images(true, TP_NO, TP_UNSET, 0)));
}
ZERO(tp_df_image_list_desc, seed) { SEEDED(images(true, 0, 0, s)); }
ZERO(tp_df_image_from_file_desc, seed)
{
    const char *const none[] = {"none.png"};
    SEEDED(tp_df_image_from_file(none, 1, .seed = s));
}
/* Without LMDB there is no such flow; tests/test_lmdb.c shows the same of one. */
ZERO(tp_df_lmdb_desc, shuffle)
{
    tp_dataflow *df = tp_df_lmdb("none", .shuffle = TP_NO);
    CHECK(df && tp_df_status(df) != TP_OK);
    tp_df_free(df);
}
ZERO(tp_df_lmdb_desc, seed)
{
    tp_dataflow *df = tp_df_lmdb("none", .seed = seed_0);
    CHECK(df && tp_df_status(df) != TP_OK);
    tp_df_free(df);
}

static tp_status keep(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    (void)call;
    return tp_datapoint_view(out, in);
}
static tp_status keep_component(const tp_tensor *in, tp_tensor *out, tp_map_call *call)
{
    (void)in, (void)out, (void)call;
    return TP_OK;
}
ZERO(tp_df_map_desc, seed) { SEEDED(tp_df_map(arrays(0, 0), keep, NULL, .seed = s)); }
ZERO(tp_df_map_component_desc, seed) { SEEDED(tp_df_map_component(arrays(0, 0), keep_component, 0, .seed = s)); }
ZERO(tp_df_locally_shuffle_desc, seed) { SEEDED(tp_df_locally_shuffle(arrays(0, 0), 8, .seed = s)); }
static double second_pass(int keep_state)
{
    tp_dataflow *df = tp_df_fixed_size(arrays(TP_NO, 0), 3, .keep_state = keep_state);
    double v = -1;
    CHECK_OK(tp_df_restart(df, 0));
    for (int i = 0; i < 3; i++) next(df);
    if (CHECK_OK(tp_df_restart(df, 1))) v = next(df);
    tp_df_free(df);
    return v;
}
ZERO(tp_df_fixed_size_desc, keep_state) { CHECK(second_pass(TP_UNSET) == 3 && second_pass(TP_NO) == 0); }

ZERO(tp_df_filter_desc, seed) { SEEDED(tp_df_filter(arrays(0, 0), NULL, .seed = s)); }
static tp_dataflow *one_of_two(uint64_t seed, bool mixed)
{
    tp_dataflow *two[2] = {arrays(0, 0), arrays(0, 0)};
    return mixed ? tp_df_random_mix(two, 2, .seed = seed) : tp_df_random_choose(two, 2, .seed = seed);
}
ZERO(tp_df_random_choose_desc, seed) { SEEDED(one_of_two(s, false)); }
ZERO(tp_df_random_mix_desc, seed) { SEEDED(one_of_two(s, true)); }
ZERO(tp_df_cache_desc, seed) { SEEDED(tp_df_cache(arrays(0, 0), .seed = s)); }
static int first_left_over(int keep_state) /* of 0 1 2 in twos: what begins pass 1 */
{
    tp_dataflow *df = tp_df_batch_by_shape(tp_df_take(arrays(TP_NO, 0), 3), 2, .keep_state = keep_state);
    tp_datapoint dp = {0, NULL, 0};
    CHECK_OK(tp_df_restart(df, 1));
    CHECK_OK(tp_df_next(df, &dp));
    const int first = (int)tp_tensor_get(&dp.c[dp.n - 1], 0);
    tp_df_free(df);
    tp_datapoint_free(&dp);
    return first;
}
ZERO(tp_df_batch_by_shape_desc, keep_state) { CHECK(first_left_over(TP_UNSET) == 2 && first_left_over(TP_NO) == 0); }

ZERO(tp_df_parallel_map_desc, seed) { SEEDED(tp_df_parallel_map(arrays(0, 0), keep, NULL, .seed = s)); }
static tp_status wait_for_the_third(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    int *third = (int *)call->user; /* the thread that comes to it has delivered the second */
    (void)in, (void)out;
    if (call->index == 2) __atomic_store_n(third, 1, __ATOMIC_RELEASE);
    for (double end = tp_time() + 10;
         call->index == 0 && tp_time() < end && !__atomic_load_n(third, __ATOMIC_ACQUIRE);) {}
    return TP_OK;
}
ZERO(tp_df_parallel_map_desc, ordered)
{
#ifdef TP_NO_THREADS
    TEST_SKIP("there are no threads, so the order is always the same");
#endif
    for (int ordered = 0; ordered < 2; ordered++) {
        int third = 0;
        tp_dataflow *df = tp_df_parallel_map(arrays(TP_NO, 0), wait_for_the_third, &third, .num_thread = 2,
                                             .ordered = ordered ? TP_UNSET : TP_NO);
        CHECK(next(df) == (ordered ? 0 : 1)); /* not ordered: the second is ready first */
        tp_df_free(df);
    }
}

/* ==== >>augmentors ==================================================================================== */

/* In how many of 64 draws for a square image the text of the steps has this part; "square": the result is square. */
static int drawn(tp_augmentor *a, const char *part)
{
    tp_transform t = {0};
    char text[512];
    int n = 0;
    for (int i = 0; i < 64 && CHECK_OK(tp_aug_draw(a, 20, 20, 7, i, &t)); i++)
        n += strcmp(part, "square") == 0 ? t.out_h == t.out_w
                                         : strstr(tp_transform_text(&t, text, sizeof text), part) != NULL;
    tp_transform_free(&t);
    tp_aug_free(a);
    return n;
}
#define ALWAYS(make_, part_)    CHECK(drawn(make_, part_) == 64)
#define SOMETIMES(make_, part_) CHECK(drawn(make_, part_) % 64 != 0)
#define NEVER(make_, part_)     CHECK(drawn(make_, part_) == 0)

ZERO(tp_aug_random_resize_desc, aspect_ratio_thres)
{
    ALWAYS(tp_aug_random_resize(.xrange = {0.5f, 2}, .aspect_ratio_thres = TP_ZERO), "square");
    SOMETIMES(tp_aug_random_resize(.xrange = {0.5f, 2}, .aspect_ratio_thres = 0), "square");
}
ZERO(tp_aug_flip_desc, prob)
{
    NEVER(tp_aug_flip(.horiz = TP_YES, .prob = TP_ZERO), "Flip");
    SOMETIMES(tp_aug_flip(.horiz = TP_YES, .prob = 0), "Flip");
}
ZERO(tp_aug_transpose_desc, prob)
{
    NEVER(tp_aug_transpose(.prob = TP_ZERO), "Transpose");
    SOMETIMES(tp_aug_transpose(.prob = 0), "Transpose");
}
ZERO(tp_aug_brightness_desc, clip)
{
    ALWAYS(tp_aug_brightness(.delta = 3, .clip = TP_NO), "clip=0");
    ALWAYS(tp_aug_brightness(.delta = 3, .clip = TP_UNSET), "clip=1");
}
ZERO(tp_aug_brightness_scale_desc, clip)
{
    ALWAYS(tp_aug_brightness_scale(.range = {0.5f, 1}, .clip = TP_NO), "clip=0");
    ALWAYS(tp_aug_brightness_scale(.range = {0.5f, 1}, .clip = TP_UNSET), "clip=1");
}
ZERO(tp_aug_contrast_desc, clip)
{
    ALWAYS(tp_aug_contrast(.factor_range = {0.5f, 1}, .clip = TP_NO), "clip=0");
    ALWAYS(tp_aug_contrast(.factor_range = {0.5f, 1}, .clip = TP_UNSET), "clip=1");
}
ZERO(tp_aug_contrast_desc, rgb)
{
    ALWAYS(tp_aug_contrast(.factor_range = {0.5f, 1}, .rgb = TP_NO), "rgb=0");
    ALWAYS(tp_aug_contrast(.factor_range = {0.5f, 1}, .rgb = TP_UNSET), "clip=1)");
}
ZERO(tp_aug_saturation_desc, clip)
{
    ALWAYS(tp_aug_saturation(.clip = TP_NO), "clip=0");
    ALWAYS(tp_aug_saturation(.clip = TP_UNSET), "clip=1");
}
ZERO(tp_aug_saturation_desc, rgb)
{
    ALWAYS(tp_aug_saturation(.rgb = TP_NO), "rgb=0");
    ALWAYS(tp_aug_saturation(.rgb = TP_UNSET), "rgb=1");
}
ZERO(tp_aug_saturation_desc, alpha)
{
    ALWAYS(tp_aug_saturation(.alpha = TP_ZERO), "factor=1,");
    NEVER(tp_aug_saturation(.alpha = 0), "factor=1,");
}
ZERO(tp_aug_hue_desc, rgb)
{
    ALWAYS(tp_aug_hue(.rgb = TP_NO), "rgb=0");
    ALWAYS(tp_aug_hue(.rgb = TP_UNSET), "rgb=1");
}
ZERO(tp_aug_clip_desc, max)
{
    ALWAYS(tp_aug_clip(.max = TP_ZERO), "max=0)");
    ALWAYS(tp_aug_clip(.max = 0), "max=255)");
}
ZERO(tp_aug_lighting_desc, clip)
{
    ALWAYS(tp_aug_lighting(.std = 1, .clip = TP_NO), "clip=0");
    ALWAYS(tp_aug_lighting(.std = 1, .clip = TP_UNSET), "clip=1");
}
ZERO(tp_aug_mean_variance_normalize_desc, all_channel)
{
    ALWAYS(tp_aug_mean_variance_normalize(.all_channel = TP_NO), "all_channel=0");
    ALWAYS(tp_aug_mean_variance_normalize(.all_channel = TP_UNSET), "all_channel=1");
}
ZERO(tp_aug_min_max_normalize_desc, all_channel)
{
    ALWAYS(tp_aug_min_max_normalize(.all_channel = TP_NO), "all_channel=0");
    ALWAYS(tp_aug_min_max_normalize(.all_channel = TP_UNSET), "all_channel=1");
}
ZERO(tp_aug_min_max_normalize_desc, max)
{
    ALWAYS(tp_aug_min_max_normalize(.min = -1, .max = TP_ZERO), "scale=1,");
    ALWAYS(tp_aug_min_max_normalize(.min = -1, .max = 0), "scale=256,");
}
ZERO(tp_aug_grayscale_desc, keepdims)
{
    ALWAYS(tp_aug_grayscale(.keepdims = TP_NO), "keepdims=0");
    ALWAYS(tp_aug_grayscale(.keepdims = TP_UNSET), "keepdims=1");
}
ZERO(tp_aug_color_space_desc, keepdims)
{
    ALWAYS(tp_aug_color_space(.mode = TP_COLOR_RGB2GRAY, .keepdims = TP_NO), "keepdims=0");
    ALWAYS(tp_aug_color_space(.mode = TP_COLOR_RGB2GRAY, .keepdims = TP_UNSET), "keepdims=1");
}
ZERO(tp_aug_gaussian_blur_desc, symmetric)
{
    SOMETIMES(tp_aug_gaussian_blur(.symmetric = TP_NO), "size_x=3, size_y=1");
    NEVER(tp_aug_gaussian_blur(.symmetric = TP_UNSET), "size_x=3, size_y=1");
}
ZERO(tp_aug_jpeg_noise_desc, subsample)
{
    ALWAYS(tp_aug_jpeg_noise(.subsample = TP_NO), "subsample=0");
    ALWAYS(tp_aug_jpeg_noise(.subsample = TP_UNSET), "subsample=1");
}
ZERO(tp_aug_gaussian_noise_desc, sigma)
{
    ALWAYS(tp_aug_gaussian_noise(.sigma = TP_ZERO), "sigma=0,");
    ALWAYS(tp_aug_gaussian_noise(.sigma = 0), "sigma=1,");
}
ZERO(tp_aug_gaussian_noise_desc, clip)
{
    ALWAYS(tp_aug_gaussian_noise(.clip = TP_NO), "clip=0");
    ALWAYS(tp_aug_gaussian_noise(.clip = TP_UNSET), "clip=1");
}
ZERO(tp_aug_salt_pepper_noise_desc, white_prob)
{
    ALWAYS(tp_aug_salt_pepper_noise(.white_prob = TP_ZERO), "white_prob=0,");
    ALWAYS(tp_aug_salt_pepper_noise(.white_prob = 0), "white_prob=0.05,");
}
ZERO(tp_aug_salt_pepper_noise_desc, black_prob)
{
    ALWAYS(tp_aug_salt_pepper_noise(.black_prob = TP_ZERO), "black_prob=0)");
    ALWAYS(tp_aug_salt_pepper_noise(.black_prob = 0), "black_prob=0.05)");
}
ZERO(tp_df_augment_image_desc, seed) { SEEDED(tp_df_augment_image(arrays(0, 0), tp_aug_identity(), .seed = s)); }
ZERO(tp_df_augment_images_desc, seed) { SEEDED(tp_df_augment_images(arrays(0, 0), tp_aug_identity(), .seed = s)); }
ZERO(tp_df_load_image_desc, seed) { SEEDED(tp_df_load_image(arrays(0, 0), tp_aug_identity(), .seed = s)); }
ZERO(tp_df_augment_coordinates_desc, seed)
{
    SEEDED(tp_df_augment_coordinates(arrays(0, 0), tp_aug_identity(), .seed = s));
}
static tp_status points_of(int coords_index) /* a float image of 2x2 is two points as well */
{
    const float four[4] = {1, 2, 3, 4};
    tp_tensor t = {0};
    tp_datapoint dp = {0};
    tp_tensor_view(&t, TP_F32, tp_make_shape(1, 2, 2), four);
    tp_dataflow *df =
        tp_df_augment_coordinates(tp_df_from_arrays(&t, 1), tp_aug_identity(), .coords_index = coords_index);
    const tp_status st = tp_df_next(df, &dp);
    tp_df_free(df);
    tp_datapoint_free(&dp);
    return st;
}
ZERO(tp_df_augment_coordinates_desc, coords_index)
{
    CHECK(points_of(TP_NONE) == TP_OK);
    CHECK_ERR(points_of(0), TP_ERR_ARG, "component 1 is to be augmented");
}

/* ==== >>training ====================================================================================== */

/* A weight of 1 plus next to nothing of the input; a step takes 0.5 off. */
static const tp_spec signature[] = {TP_SPEC("x", TP_F32)};
static float factor = 1;
static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_get_variable_as(g, "random", TP_F32, tp_make_shape(1), tp_init_normal(0, 1));
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape_n(0, NULL), tp_init_ones());
    return tp_named(tp_affine(tp_add(w, tp_affine(in[0], 1e-9f, 0)), factor, 0), "cost");
}
static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_sgd(tp_get_scalar_variable(g, "learning_rate", 0.5f));
}

/* What the last training came to. */
static struct {
    int64_t steps, epoch, max_epoch, first;
    int callbacks;
    double weight, rate, random;
    uint64_t seed;
} end;
static const char *dir;
static double variable(const tp_callback *cb, const char *name)
{
    const tp_variable *v = tp_find_variable(cb->train->graph, name);
    return v ? element(cb->train->session, v->node, 0) : -1;
}
static tp_status look(tp_callback *cb)
{
    const tp_train_state *t = cb->train;
    end.steps = t->global_step, end.epoch = t->epoch_num, end.max_epoch = t->max_epoch, end.first = t->starting_epoch;
    end.callbacks = t->n_callbacks, end.seed = tp_graph_seed(t->graph);
    end.weight = variable(cb, "w"), end.rate = variable(cb, "learning_rate"), end.random = variable(cb, "random");
    return TP_OK;
}
static tp_callback *mine[4];
static int n_mine;
static tp_train_config config(void)
{
    tp_train_config c = {0};
    memset(&end, 0, sizeof end);
    tp_test_keep_log();
    dir = tp_test_tmpdir();
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    c.model = (tp_model){.inputs = signature, .n_inputs = 1, .build_graph = build_graph, .optimizer = optimizer};
    mine[0] = tp_cb_lambda(.after_train = look);
    n_mine = 1;
    c.callbacks = mine;
    c.steps_per_epoch = 2;
    c.max_epoch = 2;
    c.n_extra_callbacks = c.n_monitors = TP_NONE;
    return c;
}
static void also(tp_callback *cb) { mine[n_mine++] = cb; }
static tp_status train(tp_train_config c)
{
    if (!c.data) c.dataflow = arrays(TP_NO, 0);
    c.n_callbacks = n_mine;
    return tp_launch_train_with_config(&c, tp_simple_trainer());
}

/* Steps of a training that asks for more than there is. */
static int64_t steps_of(tp_input_source *data)
{
    tp_train_config c = config();
    c.data = data;
    c.steps_per_epoch = POINTS + 10;
    c.max_epoch = 1;
    train(c);
    return end.steps;
}
ZERO(tp_feed_input_desc, infinite)
{
    CHECK(steps_of(tp_feed_input(arrays(0, 0), .infinite = TP_NO, .quiet_end = TP_YES)) == POINTS);
    CHECK(steps_of(tp_feed_input(arrays(0, 0))) == POINTS + 10);
}
ZERO(tp_queue_input_desc, infinite)
{
    CHECK(steps_of(tp_queue_input(arrays(0, 0), .infinite = TP_NO)) == POINTS);
    CHECK(steps_of(tp_queue_input(arrays(0, 0))) == POINTS + 10);
}
/* Runs of batches of one sample, of POINTS + 10 that are asked for. */
static int64_t runs_of_batches(tp_input_source *s)
{
    const tp_spec spec = {"x", TP_F32, {1, {TP_ANY}}};
    tp_node *x = NULL;
    int n = 0, runs = 0;
    tp_graph *g = tp_graph_new(NULL);
    CHECK_OK(tp_input_setup(s, g, &spec, 1));
    CHECK_OK(tp_input_get_tensors(s, &x));
    tp_session *session = tp_session_new(g, NULL);
    tp_hook *const *hooks = tp_input_hooks(s, &n);
    tp_hooked_session *h = tp_hooked_session_new(session, hooks, n);
    while (h && runs < POINTS + 10 && tp_hooked_run(h, &x, 1, NULL) == TP_OK) runs++;
    tp_hooked_session_free(h);
    tp_session_free(session);
    tp_input_free(s);
    tp_graph_free(g);
    return runs;
}
ZERO(tp_batch_queue_input_desc, infinite)
{
    CHECK(runs_of_batches(tp_batch_queue_input(arrays(0, 0), 1, .infinite = TP_NO)) == POINTS);
    CHECK(runs_of_batches(tp_batch_queue_input(arrays(0, 0), 1)) == POINTS + 10);
}
/* A tower on device 5, which the session lacks, is staged there, or on device 0. */
ZERO(tp_staging_input_desc, device)
{
    for (int none = 0; none < 2; none++) {
        tp_device *d[2] = {NULL, NULL};
        const tp_spec spec = {"x", TP_F32, {1, {TP_ANY}}};
        tp_node *x = NULL;
        tp_graph *g = tp_graph_new(NULL);
        tp_input_source *s = tp_staging_input(tp_queue_input(arrays(0, 0)), .device = none ? TP_NONE : 0);
        CHECK_OK(tp_input_setup(s, g, &spec, 1));
        TP_DEVICE(g, 5) { CHECK_OK(tp_input_get_tensors(s, &x)); }
        CHECK_OK(tp_cpu_devices_new(2, 1, NULL, d));
        tp_session_config c = tp_default_session_config();
        c.devices = d;
        c.n_devices = 2;
        tp_session *session = tp_session_new(g, &c);
        int n = 0;
        tp_hook *const *hooks = tp_input_hooks(s, &n);
        if (!CHECK(session && n == 1)) return;
        const tp_status st = hooks[0]->after_create_session(hooks[0], session);
        CHECK(none ? st == TP_OK : st == TP_ERR_ARG && strstr(tp_last_error(), "there is no device 5"));
        tp_session_free(session);
        for (int i = 0; i < 2; i++) d[i]->close(d[i]);
        tp_input_free(s);
        tp_graph_free(g);
    }
}

ZERO(tp_train_config, starting_epoch)
{
    tp_train_config c = config();
    c.starting_epoch = TP_NONE;
    CHECK_OK(train(c));
    CHECK(end.first == 0 && end.steps == 6); /* epochs 0, 1, 2 */
    CHECK_OK(train(config()));
    CHECK(end.first == 1 && end.steps == 4);
}
ZERO(tp_train_config, max_epoch)
{
    tp_train_config c = config();
    c.max_epoch = TP_NONE;
    CHECK_OK(train(c));
    CHECK(end.max_epoch == 0 && end.steps == 0);
}
ZERO(tp_train_config, steps_per_epoch)
{
    tp_train_config c = config();
    c.steps_per_epoch = TP_NO_STEPS;
    CHECK_OK(train(c));
    CHECK(end.epoch == 2 && end.steps == 0);
    c = config();
    c.steps_per_epoch = 0;
    CHECK_OK(train(c));
    CHECK(end.steps == 2 * POINTS);
}
/* Two towers, whose gradients of w are 1: four steps at a rate of 0.5. */
static double weight_of_two(tp_trainer *t)
{
    tp_train_config c = config();
    c.dataflow = arrays(TP_NO, 0);
    c.n_callbacks = n_mine;
    CHECK_OK(tp_launch_train_with_config(&c, t));
    return end.weight;
}
ZERO(tp_sync_multi_gpu_trainer_replicated_desc, average)
{
    CHECK(weight_of_two(tp_sync_multi_gpu_trainer_replicated(.n_devices = 2)) == -1);
    CHECK(weight_of_two(tp_sync_multi_gpu_trainer_replicated(.n_devices = 2, .average = TP_NO)) == -3);
}
ZERO(tp_async_multi_gpu_trainer_desc, scale_gradient)
{
    CHECK(weight_of_two(tp_async_multi_gpu_trainer(.n_devices = 2)) == -1);
    CHECK(weight_of_two(tp_async_multi_gpu_trainer(.n_devices = 2, .scale_gradient = TP_NO)) == -3);
}
ZERO(tp_sync_multi_gpu_trainer_replicated_desc, broadcast_every_epoch)
{
    for (int never = 0; never < 2; never++) {
        int n = 0;
        weight_of_two(
            tp_sync_multi_gpu_trainer_replicated(.n_devices = 2, .broadcast_every_epoch = never ? TP_NO : TP_UNSET));
        for (const char *p = tp_test_logged; (p = strstr(p, "Running Op SyncVariables")) != NULL; p++) n++;
        CHECK_MSG(n == (never ? 1 : 3), "%d times", n); /* before training, and at the end of two epochs */
    }
}
/* For one rank, whose own gradient is both the sum and the mean; tests/test_mpi.c has several. */
ZERO(tp_horovod_trainer_desc, average)
{
    CHECK(weight_of_two(tp_horovod_trainer()) == weight_of_two(tp_horovod_trainer(.average = TP_NO)));
}
static bool broadcasts;
static tp_status look_for_broadcast(tp_callback *cb)
{
    for (int i = 0; i < cb->train->n_callbacks; i++)
        if (strcmp(cb->train->callbacks[i]->name, "HorovodBroadcast") == 0)
            broadcasts = cb->train->callbacks[i]->trigger_epoch != NULL;
    return TP_OK;
}
ZERO(tp_horovod_trainer_desc, broadcast_every_epoch)
{
    for (int never = 0; never < 2; never++) {
        tp_trainer *t = tp_horovod_trainer(.broadcast_every_epoch = never ? TP_NO : TP_UNSET);
        tp_callback *cb = tp_callback_new("Look", 0);
        cb->before_train = look_for_broadcast;
        CHECK_OK(tp_trainer_register_callback(t, cb));
        broadcasts = never;
        weight_of_two(t);
        CHECK(broadcasts == !never);
    }
}
ZERO(tp_train_config, n_extra_callbacks)
{
    tp_train_config c = config();
    CHECK_OK(train(c));
    const int few = end.callbacks;
    c = config();
    c.n_extra_callbacks = 0;
    CHECK_OK(train(c));
    CHECK(end.callbacks > few);
}
static tp_status one_number(tp_callback *cb) { return tp_monitors_put_scalar(cb->train->monitors, "number", 1); }
static bool has_stats(void) { return tp_file_exists(tp_test_path(dir, "stats.json")); }
ZERO(tp_train_config, n_monitors)
{
    for (int none = 0; none < 2; none++) {
        tp_train_config c = config();
        also(tp_cb_lambda(.trigger = one_number));
        c.n_monitors = none ? TP_NONE : 0;
        CHECK_OK(train(c));
        CHECK(has_stats() == !none);
    }
}
static bool has_report(void) { return tp_file_exists(tp_test_path(dir, "report.html")); }
static void forget_report(void) { remove(tp_test_path(dir, "report.html")); }
ZERO(tp_train_config, report)
{
    for (int none = 0; none < 2; none++) {
        tp_train_config c = config();
        forget_report();
        c.n_monitors = 0;
        c.report = none ? TP_NO : TP_UNSET;
        CHECK_OK(train(c));
        CHECK(has_report() == !none);
    }
}
ZERO(tp_train_config, stop_on_nan)
{
    TEST_EXPECT_ERROR("is NaN");
    factor = NAN;
    tp_train_config c = config();
    tp_status st = train(c);
    CHECK(st == TP_ERR_NUMERIC);
    c = config();
    c.stop_on_nan = TP_NO;
    st = train(c);
    CHECK_OK(st);
    CHECK(end.steps == 4);
    factor = 1;
}
ZERO(tp_train_config, always_resume)
{
    tp_train_config c = config();
    also(tp_cb_model_saver(.max_to_keep = 2));
    c.n_monitors = 0;
    CHECK_OK(train(c));
    for (int i = 0; i < 2; i++) {
        memset(&c, 0, sizeof c);
        c.starting_epoch = 7;
        c.always_resume = i ? TP_NO : TP_UNSET;
        tp_session_init *init = tp_dict_restore(&(tp_dict){0}, false);
        c.session_init = init;
        CHECK_OK(tp_auto_resume_train_config(&c));
        CHECK(i ? c.starting_epoch == 7 && c.session_init == init : c.starting_epoch == 3 && c.session_init != init);
        tp_session_init_free(c.session_init);
    }
}
static double random_start(uint64_t seed)
{
    tp_train_config c = config();
    c.seed = seed;
    CHECK_OK(train(c));
    return end.random;
}
ZERO(tp_train_config, seed)
{
    const double zero = random_start(seed_0);
    CHECK(end.seed == 0 && zero == random_start(seed_0));
    CHECK(random_start(0) == random_start(42) && random_start(0) != zero);
}
static tp_node *one_layer(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    tp_node *x = tp_reshape(in[0], 1, 1);
    return tp_mean(tp_fully_connected(x, "logged", 1));
}
static const int log_options[] = {TP_UNSET, TP_YES, TP_NO};
ZERO(tp_train_config, log_layers)
{
    for (int i = 0; i < 3; i++) {
        tp_train_config c = config();
        c.model.build_graph = one_layer;
        c.log_layers = (tp_tri)log_options[i];
        CHECK_OK(train(c));
        CHECK((strstr(tp_test_logged, "'logged'") != NULL) == (log_options[i] != TP_NO));
    }
}
ZERO(tp_predict_config, log_layers)
{
    for (int i = 0; i < 3; i++) {
        tp_test_keep_log();
        tp_predictor *p =
            tp_offline_predictor(&(tp_predict_config){.inputs = signature,
                                                      .n_inputs = 1,
                                                      .build_graph = one_layer,
                                                      .output_names = (const char *const[]){"logged/output"},
                                                      .n_output_names = 1,
                                                      .log_layers = (tp_tri)log_options[i]});
        CHECK_MSG(p != NULL, "%s", tp_last_error());
        CHECK((strstr(tp_test_logged, "'logged'") != NULL) == (log_options[i] != TP_NO));
        tp_predictor_free(p);
    }
}

/* The same options of tp_train, where nothing is trained. */
static tp_status train_plainly(tp_train_desc d, bool defaults)
{
    tp_callback *cb = tp_cb_lambda(.trigger = one_number, .after_train = look);
    memset(&end, 0, sizeof end);
    tp_test_keep_log();
    dir = tp_test_tmpdir();
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    d.callbacks = &cb, d.n_callbacks = 1;
    d.steps_per_epoch = 2;
    if (!d.max_epoch) d.max_epoch = 2;
    tp_trainer *t = tp_noop_trainer();
    const tp_status st = defaults ? tp_train_with_defaults(t, &d) : tp_train(t, &d);
    tp_trainer_free(t);
    return st;
}
ZERO(tp_train_desc, starting_epoch)
{
    CHECK_OK(train_plainly((tp_train_desc){.starting_epoch = TP_NONE}, false));
    CHECK(end.first == 0 && end.steps == 6);
}
ZERO(tp_train_desc, max_epoch)
{
    CHECK_OK(train_plainly((tp_train_desc){.max_epoch = TP_NONE}, false));
    CHECK(end.max_epoch == 0 && end.steps == 0);
}
ZERO(tp_train_desc, n_extra_callbacks)
{
    CHECK_OK(train_plainly((tp_train_desc){.n_monitors = TP_NONE}, true));
    const int many = end.callbacks;
    CHECK_OK(train_plainly((tp_train_desc){.n_extra_callbacks = TP_NONE, .n_monitors = TP_NONE}, true));
    CHECK(end.callbacks < many);
}
ZERO(tp_train_desc, n_monitors)
{
    CHECK_OK(train_plainly((tp_train_desc){.n_extra_callbacks = TP_NONE}, true));
    CHECK(has_stats());
    CHECK_OK(train_plainly((tp_train_desc){.n_extra_callbacks = TP_NONE, .n_monitors = TP_NONE}, true));
    CHECK(!has_stats());
}
ZERO(tp_train_desc, report)
{
    CHECK_OK(train_plainly((tp_train_desc){.n_extra_callbacks = TP_NONE}, true));
    CHECK(has_report());
    forget_report();
    CHECK_OK(train_plainly((tp_train_desc){.n_extra_callbacks = TP_NONE, .report = TP_NO}, true));
    CHECK(!has_report() && has_stats());
}
ZERO(tp_train_desc, stop_on_nan)
{
    TEST_EXPECT_ERROR("is NaN");
    for (int on = 0; on < 2; on++) {
        tp_train_config c = config();
        tp_trainer *t = tp_simple_trainer();
        factor = NAN;
        tp_input_source *data = tp_feed_input(arrays(0, 0));
        CHECK_OK(tp_trainer_setup_graph(t, &c.model, data));
        const tp_status st = tp_train(t, &(tp_train_desc){.callbacks = c.callbacks,
                                                          .n_callbacks = 1,
                                                          .steps_per_epoch = 2,
                                                          .max_epoch = 2,
                                                          .stop_on_nan = on ? TP_UNSET : TP_NO});
        CHECK(st == (on ? TP_ERR_NUMERIC : TP_OK));
        tp_trainer_free(t);
        factor = 1;
    }
}

/* ==== >>callbacks ===================================================================================== */

static tp_node *count_up(tp_graph *g, void *user)
{
    (void)user;
    return tp_assign_add(tp_find_variable(g, "w")->node, tp_const(g, 64), NULL);
}
/* How often the op ran: before the training, and in two epochs. */
static double runs(int before, int trigger)
{
    tp_train_config c = config();
    also(tp_cb_run_op(.fn = count_up, .run_before = before, .run_as_trigger = trigger));
    CHECK_OK(train(c));
    return floor((end.weight + 4) / 64);
}
ZERO(tp_cb_run_op_desc, run_before) { CHECK(runs(0, 0) == 3 && runs(TP_NO, 0) == 2); }
ZERO(tp_cb_run_op_desc, run_as_trigger) { CHECK(runs(0, 0) == 3 && runs(0, TP_NO) == 1); }
ZERO(tp_cb_check_numerics_desc, run_as_trigger)
{
    TEST_EXPECT_ERROR("CheckNumerics['w']");
    for (int on = 0; on < 2; on++) {
        factor = INFINITY;
        tp_train_config c = config();
        c.stop_on_nan = TP_NO;
        also(tp_cb_check_numerics(.run_as_trigger = on ? TP_UNSET : TP_NO));
        const tp_status st = train(c);
        CHECK(st == (on ? TP_ERR_NUMERIC : TP_OK));
        factor = 1;
    }
}

/* What one pixel of value 0.5 becomes. */
static double pixel;
static tp_status half_a_pixel(const tp_tensor *value, tp_tensor *shown, void *user)
{
    (void)value, (void)user;
    const tp_status st = tp_tensor_resize(shown, TP_F32, tp_make_shape(1, 1));
    if (st == TP_OK) *(float *)shown->data = 0.5f;
    return st;
}
static tp_status keep_pixel(tp_monitor *m, const char *name, const tp_tensor *shown)
{
    (void)m, (void)name;
    pixel = tp_tensor_get(shown, 0);
    return TP_OK;
}
static double pixel_of(double scale)
{
    tp_train_config c = config();
    tp_monitor *m = tp_monitor_new("Keeper", 0);
    m->process_image = keep_pixel;
    c.monitors = &m;
    c.n_monitors = 1;
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    also(tp_cb_dump_tensor_as_image("w", .map_func = half_a_pixel, .scale = scale));
    pixel = -1;
    CHECK_OK(train(c));
    return pixel;
}
ZERO(tp_cb_dump_tensor_as_image_desc, scale) { CHECK(pixel_of((double)TP_ZERO) == 0 && pixel_of(100) == 50); }

/* Was the thread told to end before the training was over? */
static int told_to_end, may_end; /* atomic */
static void until_told(tp_stop_flag *f, void *user)
{
    (void)user;
    while (!__atomic_load_n(&may_end, __ATOMIC_RELAXED))
        if (tp_stop_flag_wait(f, 0.001)) {
            __atomic_store_n(&told_to_end, 1, __ATOMIC_RELAXED);
            return;
        }
    __atomic_store_n(&may_end, 2, __ATOMIC_RELAXED);
}
ZERO(tp_cb_start_proc_or_thread_desc, stop_at_last)
{
    for (int on = 0; on < 2; on++) {
        tp_train_config c = config();
        __atomic_store_n(&told_to_end, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&may_end, 0, __ATOMIC_RELAXED);
        also(
            tp_cb_start_proc_or_thread(.startable = {{NULL, until_told, NULL}}, .stop_at_last = on ? TP_UNSET : TP_NO));
        CHECK_OK(train(c));
        CHECK(__atomic_load_n(&told_to_end, __ATOMIC_RELAXED) == on);
        __atomic_store_n(&may_end, 1, __ATOMIC_RELAXED);
        while (!on && __atomic_load_n(&may_end, __ATOMIC_RELAXED) != 2) continue;
    }
}

/* Is the cost behind the bar? */
ZERO(tp_cb_progress_bar_desc, cost)
{
    for (int on = 0; on < 2; on++) {
        tp_train_config c = config();
        also(tp_cb_progress_bar(.cost = on ? TP_UNSET : TP_NO));
        CHECK_OK(train(c));
        CHECK((strstr(tp_test_logged, "it/s], ") != NULL) == on);
    }
}

ZERO(tp_cb_graph_profiler_desc, dump_tracing)
{
    for (int on = 0; on < 2; on++) {
        tp_train_config c = config();
        CHECK_OK(tp_logger_set_dir(dir, 'd'));
        also(tp_cb_graph_profiler(.dump_tracing = on ? TP_UNSET : TP_NO));
        CHECK_OK(train(c));
        CHECK(tp_file_exists(tp_test_path(dir, "chrome-trace-1.json")) == on);
    }
}

/* The third epoch takes much longer than those before: the mean sees it, the median does not. */
static double started;
static tp_status start_clock(tp_callback *cb) { return (void)cb, started = tp_time(), TP_OK; }
static tp_status wait_long(tp_callback *cb)
{
    const double now = tp_time();
    while (cb->train->epoch_num == 3 && tp_time() - now < 0.01 + 20 * (now - started)) continue;
    return TP_OK;
}
ZERO(tp_cb_estimated_time_left_desc, median)
{
    double seconds[2] = {0};
    tp_train_config c = config();
    also(tp_cb_lambda(.before_train = start_clock, .trigger = wait_long));
    also(tp_cb_estimated_time_left(.median = TP_NO));
    also(tp_cb_estimated_time_left());
    c.max_epoch = 4;
    CHECK_OK(train(c));
    for (const char *at = tp_test_logged; (at = strstr(at, "Time Left: ")); at++) {
        seconds[0] = seconds[1];
        seconds[1] = atof(at + 11);
    }
    CHECK_MSG(seconds[0] > 2 * seconds[1], "by the mean %g, by the median %g", seconds[0], seconds[1]);
}

static int models(void)
{
    char name[64];
    int n = 0;
    for (int i = 1; i <= 40; i++) {
        snprintf(name, sizeof name, "model-%d.npz", i);
        n += tp_file_exists(tp_test_path(dir, name));
    }
    return n;
}
static int kept(int max_to_keep, float hours)
{
    tp_train_config c = config();
    also(tp_cb_model_saver(.max_to_keep = max_to_keep, .keep_checkpoint_every_n_hours = hours));
    c.max_epoch = 14;
    CHECK_OK(train(c));
    return models();
}
ZERO(tp_cb_model_saver_desc, max_to_keep) { CHECK(kept(0, 0) == 10 && kept(TP_NONE, 0) == 14); }
ZERO(tp_cb_model_saver_desc, keep_checkpoint_every_n_hours) { CHECK(kept(1, 0) == 1 && kept(1, TP_ZERO) == 14); }

static double scheduled(tp_cb_scheduled_hyper_param_setter_desc d, int64_t first)
{
    tp_train_config c = config();
    d.name = "learning_rate";
    also(tp_cb_scheduled_hyper_param_setter_(&d));
    c.starting_epoch = first;
    c.max_epoch = 4;
    CHECK_OK(train(c));
    return end.rate;
}
ZERO(tp_cb_scheduled_hyper_param_setter_desc, set_at_beginning)
{
    tp_cb_scheduled_hyper_param_setter_desc d = {.schedule = {{1, 0.25}}};
    CHECK(scheduled(d, 3) == 0.25);
    d.set_at_beginning = TP_NO;
    CHECK(scheduled(d, 3) == 0.5);
}
ZERO(tp_cb_scheduled_hyper_param_setter_desc, schedule) /* {0, 0} is a point when .n_schedule counts it */
{
    const tp_cb_scheduled_hyper_param_setter_desc zero = {.schedule = {{0, 0}}, .n_schedule = 1},
                                                  second = {.schedule = {{5, 1}, {0, 0}}, .n_schedule = 2},
                                                  unset = {.schedule = {{5, 1}, {0, 0}}};
    CHECK(scheduled(zero, 1) == 0 && scheduled(second, 1) == 0 && scheduled(unset, 1) == 0.5);
}

/* Bytes of the event file after one more event in the middle of an epoch. */
static int64_t grown;
static int64_t event_bytes(void)
{
    char path[1024] = "";
    struct stat st;
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (strncmp(e->d_name, "events", 6) == 0) snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
    if (d) closedir(d);
    return stat(path, &st) == 0 ? (int64_t)st.st_size : -1;
}
static tp_status one_event(tp_callback *cb)
{
    const int64_t before = event_bytes();
    const tp_status st = tp_monitors_put_scalar(cb->train->monitors, "number", 1);
    if (cb->train->epoch_num == 1) grown = event_bytes() - before;
    return st;
}
static bool written_at_once(int max_queue, double flush_secs)
{
    tp_train_config c = config();
    tp_monitor *m = tp_monitor_tf_event_writer(.max_queue = max_queue, .flush_secs = flush_secs);
    c.monitors = &m;
    c.n_monitors = 1;
    also(tp_cb_lambda(.trigger = one_event));
    grown = -1;
    CHECK_OK(train(c));
    CHECK(grown >= 0);
    return grown > 0;
}
ZERO(tp_monitor_tf_event_writer_desc, max_queue) { CHECK(!written_at_once(0, 0) && written_at_once(TP_NONE, 0)); }
ZERO(tp_monitor_tf_event_writer_desc, flush_secs)
{
    CHECK(!written_at_once(0, 0) && written_at_once(0, (double)TP_ZERO));
}

static bool printed(int enable_epoch)
{
    tp_train_config c = config();
    tp_monitor *m = tp_monitor_scalar_printer(.enable_epoch = enable_epoch);
    c.monitors = &m;
    c.n_monitors = 1;
    also(tp_cb_lambda(.trigger = one_event));
    CHECK_OK(train(c));
    return strstr(tp_test_logged, "number: 1") != NULL;
}
ZERO(tp_monitor_scalar_printer_desc, enable_epoch) { CHECK(printed(TP_UNSET) && !printed(TP_NO)); }

/* Is there something in the page after the second step, between epochs' ends? */
static bool traced;
static int64_t page_step;
static tp_status page_of_step(tp_callback *cb)
{
    char *text = NULL;
    size_t size = 0;
    if (cb->train->local_step != 0 || cb->train->epoch_num != 2) return TP_OK;
    CHECK_OK(tp_file_read(tp_test_path(dir, "report.html"), false, 0, &text, &size));
    const char *at = text ? strstr(text, "\"global_step\":") : NULL;
    page_step = at ? strtoll(at + 14, NULL, 10) : -1;
    tp_free(text);
    return TP_OK;
}
static void page(double every_secs, int trace)
{
    tp_train_config c = config();
    tp_monitor *m = tp_monitor_report(.every_secs = every_secs, .trace = trace);
    char *text = NULL;
    size_t size = 0;
    c.monitors = &m;
    c.n_monitors = 1;
    tp_callback *look_at_it = tp_callback_new("PageOfStep", 0);
    look_at_it->trigger_step = page_of_step;
    also(look_at_it);
    CHECK_OK(train(c));
    CHECK_OK(tp_file_read(tp_test_path(dir, "report.html"), false, 0, &text, &size));
    traced = text && strstr(text, "\"kernels\":[\n[");
    tp_free(text);
}
ZERO(tp_monitor_report_desc, every_secs)
{
    page(0, 0);
    CHECK(page_step == 0);
    page((double)TP_ZERO, 0);
    CHECK(page_step == 2);
}
ZERO(tp_monitor_report_desc, trace)
{
    page(0, 0);
    CHECK(traced);
    page(0, TP_NO);
    CHECK(!traced);
}

/* ==== >>models ======================================================================================== */

static tp_node *identity_of(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    return tp_named(tp_relu(tp_identity(tp_identity(in[0]))), "y");
}
static tp_model_exporter *exporter(void)
{
    static const tp_spec x[] = {TP_SPEC("x", TP_F32, TP_ANY, 2)};
    static const char *const y[] = {"y"};
    tp_test_keep_log();
    dir = tp_test_tmpdir();
    return tp_model_exporter_new(&(tp_predict_config){
        .inputs = x, .n_inputs = 1, .build_graph = identity_of, .output_names = y, .n_output_names = 1});
}
static bool has_identities(int optimize)
{
    char *data = NULL;
    size_t size = 0;
    bool found = false;
    tp_model_exporter *x = exporter();
    if (CHECK(x != NULL) &&
        CHECK_OK(tp_export_compact(x, tp_test_path(dir, "m.onnx"), &(tp_export_compact_desc){.optimize = optimize})) &&
        CHECK_OK(tp_file_read(tp_test_path(dir, "m.onnx"), false, 0, &data, &size)))
        for (size_t i = 0; i + 8 <= size; i++) found = found || memcmp(data + i, "Identity", 8) == 0;
    tp_free(data);
    tp_model_exporter_free(x);
    return found;
}
ZERO(tp_export_compact_desc, optimize) { CHECK(has_identities(TP_NO) && !has_identities(TP_UNSET)); }
static bool served(int max_batch_size, const char *part)
{
    char *text = NULL;
    size_t size = 0;
    bool found = false;
    tp_model_exporter *x = exporter();
    if (CHECK(x != NULL) &&
        CHECK_OK(tp_export_serving(x, tp_test_path(dir, "served"),
                                   &(tp_export_serving_desc){.max_batch_size = max_batch_size})) &&
        CHECK_OK(tp_file_read(tp_test_path(tp_test_path(dir, "served"), "config.pbtxt"), false, 0, &text, &size)))
        found = strstr(text, part) != NULL;
    tp_free(text);
    tp_model_exporter_free(x);
    return found;
}
ZERO(tp_export_serving_desc, max_batch_size)
{
    CHECK(served(0, "max_batch_size: 64\n") && served(TP_NONE, "max_batch_size: 0\n"));
}

/* y = Range(0, 1, 1) of constants. */
static const unsigned char range_model[] = "\x08\x08\x3a\x50" /* version of the format, graph */
                                           "\x0a\x13\x0a\x01s\x0a\x01l\x0a\x01"
                                           "d\x12\x01y\x22\x05Range"
                                           "\x12\x01g"
                                           "\x2a\x0f\x10\x07\x42\x01s\x4a\x08\0\0\0\0\0\0\0\0"
                                           "\x2a\x0f\x10\x07\x42\x01l\x4a\x08\1\0\0\0\0\0\0\0"
                                           "\x2a\x0f\x10\x07\x42\x01"
                                           "d\x4a\x08\1\0\0\0\0\0\0\0"
                                           "\x62\x03\x0a\x01y"
                                           "\x42\x02\x10\x0d";
static tp_status import(double max_work)
{
    tp_onnx_model m;
    tp_graph *g = tp_graph_new(NULL);
    const tp_status st = tp_import_onnx_parse(g, range_model, sizeof range_model - 1, "range",
                                              &(tp_import_onnx_desc){.max_work = max_work}, &m);
    tp_graph_free(g);
    return st;
}
ZERO(tp_import_onnx_desc, max_work)
{
    CHECK_OK(import(0));
    CHECK_ERR(import((double)TP_ZERO), TP_ERR_UNSUPPORTED, ".max_work");
}

TEST_MAIN()
