/* Layers: names, shapes, values, options and their scopes, chains, weight decay, mistakes. */
#define TP_IMPLEMENTATION
#include "tp_layers.h"
#include "tp_help.h"

/* -- what tests are written with */

static tp_graph *tower(bool training)
{
    tp_test_keep_log();
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_desc d = {.is_training = training};
    tp_tower_enter(g, &d);
    return g;
}

static tp_node *image(tp_graph *g, int64_t h, int64_t w, int64_t c)
{
    return tp_placeholder(g, "image", TP_F32, tp_make_shape(TP_ANY, h, w, c));
}

static bool shape_is(const tp_node *n, const char *text)
{
    char t[TP_SHAPE_TEXT];
    return CHECK_STR(tp_shape_text(&n->shape, t), text);
}

static bool ok(tp_graph *g) { return CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g)); }

static void done(tp_graph *g)
{
    tp_graph_free(g);
    tp_set_log(NULL, NULL);
}

/* Runs y (and what else is to run) with x fed; copies the result's elements. */
static void run(tp_session *s, tp_node *x, tp_shape shape, const float *data, tp_node *const *fetch, int n_fetch,
                float *out, int n)
{
    tp_feed feed = {x, {0}};
    tp_tensor_view(&feed.value, TP_F32, shape, data);
    const tp_tensor *value[8];
    if (!CHECK_OK(tp_session_run(s, &feed, x ? 1 : 0, fetch, n_fetch, value))) return;
    CHECK(tp_tensor_size(value[0]) == n);
    for (int i = 0; i < n && i < tp_tensor_size(value[0]); i++) out[i] = (float)tp_tensor_get(value[0], i);
}

/* ==== names and shapes ================================================================================ */

TEST(conv2d_names_and_shapes)
{
    tp_graph *g = tower(true);
    tp_node *x = image(g, 28, 28, 3);
    tp_node *y =
        tp_conv2d(x, "conv0", .filters = 32, .kernel_size = 5, .kernel_size_w = 3, .strides = 2, .activation = tp_relu);
    ok(g);
    CHECK_STR(tp_node_name(y), "conv0/output");
    shape_is(y, "(?,14,14,32)");
    const tp_variable *w = tp_find_variable(g, "conv0/W"), *b = tp_find_variable(g, "conv0/b:0");
    if (CHECK(w && b)) {
        shape_is(w->node, "(5,3,3,32)");
        shape_is(b->node, "(32)");
        CHECK(w->trainable && b->trainable);
        CHECK(tp_layer_variable(y, "W") == w->node);
        CHECK(tp_layer_variable(y, "b") == b->node);
        CHECK(w->init.kind == TP_INIT_VARIANCE_SCALING && w->init.a == 2.0f && w->init.mode == TP_FAN_IN &&
              w->init.distribution == TP_DIST_NORMAL);
        CHECK(b->init.kind == TP_INIT_CONSTANT && b->init.a == 0.0f);
    }
    CHECK(tp_graph_find(g, "conv0/Relu") != NULL);

    tp_node *v = tp_conv2d(x, "valid", .filters = 4, .kernel_size = 3, .padding = TP_VALID, .use_bias = TP_NO,
                           .dilation_rate = 2);
    shape_is(v, "(?,24,24,4)");
    CHECK(!tp_find_variable(g, "valid/b"));
    tp_node *z = tp_conv2d(tp_transpose(x, (int[]){0, 3, 1, 2}, 4), "nchw", .filters = 6, .kernel_size = 3, .split = 3,
                           .data_format = TP_NCHW);
    shape_is(z, "(?,6,28,28)");
    shape_is(tp_find_variable(g, "nchw/W")->node, "(3,3,1,6)");
    ok(g);
    done(g);
}

TEST(same_padding_geometry)
{
    static const int c[][5] = {{224, 7, 2, 1, 112}, {112, 3, 2, 1, 56}, {32, 4, 2, 1, 16},
                               {5, 2, 2, 1, 3},     {30, 3, 2, 1, 15},  {28, 5, 1, 1, 28},
                               {84, 8, 4, 1, 21},   {21, 4, 2, 1, 11},  {7, 3, 1, 2, 7}};
    tp_graph *g = tower(true);
    for (int i = 0; i < TP_COUNT(c); i++) {
        char name[16];
        snprintf(name, sizeof name, "c%d", i);
        tp_node *y = tp_conv2d(image(g, c[i][0], c[i][0], 1), name, .filters = 1, .kernel_size = c[i][1],
                               .strides = c[i][2], .dilation_rate = c[i][3]);
        CHECK(y->shape.dim[1] == c[i][4] && y->shape.dim[2] == c[i][4]);
    }
    ok(g);
    done(g);
}

TEST(fully_connected_flattens)
{
    tp_graph *g = tower(true);
    tp_node *y = tp_fully_connected(image(g, 4, 5, 2), "fc0", .units = 7);
    ok(g);
    shape_is(y, "(?,7)");
    CHECK_STR(tp_node_name(y), "fc0/output");
    shape_is(tp_find_variable(g, "fc0/W")->node, "(40,7)");
    shape_is(tp_find_variable(g, "fc0/b")->node, "(7)");
    done(g);
}

TEST(fully_connected_values)
{
    tp_graph *g = tower(true);
    const float w[6] = {1, 2, 3, 4, 5, 6}, b[2] = {0.5f, -20};
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 3));
    tp_node *y = tp_fully_connected(x, "fc", .units = 2, .kernel_initializer = tp_init_values(w, 6),
                                    .bias_initializer = tp_init_values(b, 2), .activation = tp_relu);
    tp_tower_leave(g);
    tp_session *s = tp_session_new(g, NULL);
    float out[4];
    const float data[6] = {1, 0, 0, 1, 1, 1};
    if (CHECK(s != NULL)) {
        run(s, x, tp_make_shape(2, 3), data, &y, 1, out, 4);
        CHECK_NEAR(out[0], 1.5, 1e-6, 0);
        CHECK(out[1] == 0);
        CHECK_NEAR(out[2], 9.5, 1e-6, 0);
        CHECK(out[3] == 0);
    }
    tp_session_free(s);
    done(g);
}

TEST(poolings)
{
    tp_graph *g = tower(true);
    tp_node *x = image(g, 5, 4, 1);
    tp_node *m = tp_max_pooling(x, "pool0", .pool_size = 2);
    tp_node *a = tp_avg_pooling(x, "pool1", .pool_size = 3, .strides = 2, .padding = TP_SAME);
    tp_node *gap = tp_global_avg_pooling(x, "gap");
    tp_node *r = tp_max_pooling(x, "pool2", .pool_size = 2, .pool_size_w = 4);
    ok(g);
    shape_is(m, "(?,2,2,1)");
    shape_is(a, "(?,3,2,1)");
    shape_is(gap, "(?,1)");
    shape_is(r, "(?,2,1,1)");
    CHECK_STR(tp_node_name(m), "pool0/output");
    CHECK_STR(tp_node_name(gap), "gap/output");
    tp_tower_leave(g);
    float data[20], out[6];
    for (int i = 0; i < 20; i++) data[i] = (float)i;
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK(s != NULL)) {
        run(s, x, tp_make_shape(1, 5, 4, 1), data, &m, 1, out, 4);
        CHECK(out[0] == 5 && out[1] == 7 && out[2] == 13 && out[3] == 15);
        run(s, x, tp_make_shape(1, 5, 4, 1), data, &a, 1, out, 6);
        CHECK_NEAR(out[0], 3, 1e-6, 0); /* 0 1 2 4 5 6 are there: padding is above, and not counted */
        CHECK_NEAR(out[1], 4.5, 1e-6, 0);
        run(s, x, tp_make_shape(1, 5, 4, 1), data, &gap, 1, out, 1);
        CHECK_NEAR(out[0], 9.5, 1e-6, 0);
    }
    tp_session_free(s);
    done(g);
}

TEST(kernel_initializer_deviation)
{
    tp_graph *g = tower(true);
    tp_fully_connected(tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 3136)), "fc", .units = 512);
    tp_conv2d(image(g, 8, 8, 64), "conv", .filters = 64, .kernel_size = 3);
    tp_tower_leave(g);
    ok(g);
    tp_session *s = tp_session_new(g, NULL);
    static const struct {
        const char *name;
        double stddev;
    } cases[] = {{"fc/W", .0252538}, {"conv/W", .0589256}};
    for (int c = 0; s && c < 2; c++) {
        tp_tensor t = {0};
        CHECK_OK(tp_session_read(s, tp_find_variable(g, cases[c].name), &t));
        const int64_t n = tp_tensor_size(&t);
        double sum = 0, sq = 0, most = 0;
        for (int64_t i = 0; i < n; i++) {
            const double v = tp_tensor_get(&t, i);
            sum += v, sq += v * v;
            if (fabs(v) > most) most = fabs(v);
        }
        CHECK_NEAR(sqrt(sq / (double)n), cases[c].stddev, 0, 0.02);
        CHECK_NEAR(sum / (double)n, 0, cases[c].stddev * 0.02, 0);
        CHECK(most > 3 * cases[c].stddev); /* not truncated */
        tp_tensor_free(&t);
    }
    tp_session_free(s);
    done(g);
}

/* ==== batch norm, dropout ============================================================================= */

/* One channel, x = 1 2 3 6, one training step; then the same values at inference. */
static void batch_norm_case(int ndim, tp_ema_update how, float want_mean, float want_var)
{
    static const float x4[4] = {1, 2, 3, 6}, want[4] = {-1.06904f, -.53452f, 0, 1.60357f};
    tp_graph *g = tower(true);
    const tp_shape shape = ndim == 4 ? tp_make_shape(4, 1, 1, 1) : tp_make_shape(4, 1);
    tp_node *x = tp_placeholder(g, "x", TP_F32, ndim == 4 ? tp_make_shape(TP_ANY, 1, 1, 1) : tp_make_shape(TP_ANY, 1));
    tp_node *y = tp_batch_norm(x, "bn", .ema_update = how);
    ok(g);
    CHECK_STR(tp_node_name(y), "bn/output");
    int n = 0, n_model = 0;
    tp_node *const *updates = tp_collection(g, TP_KEY_UPDATE_OPS, &n);
    CHECK(n == (how == TP_EMA_DEFAULT || how == TP_EMA_COLLECTION ? 2 : 0));
    tp_collection(g, TP_KEY_MODEL_VARIABLES, &n_model);
    CHECK(n_model == 2);
    CHECK(tp_layer_variable(y, "mean") == tp_find_variable(g, "bn/mean/EMA")->node);
    CHECK(tp_layer_variable(y, "moving_variance") == tp_find_variable(g, "bn/variance/EMA")->node);
    CHECK(!tp_find_variable(g, "bn/mean/EMA")->trainable && tp_find_variable(g, "bn/gamma")->trainable);
    tp_node *fetch[3] = {y, NULL, NULL};
    for (int i = 0; i < n; i++) fetch[1 + i] = updates[i];
    tp_tower_leave(g);
    tp_tower_desc predict = {.name = "predict"};
    tp_variable_scope_desc reuse = {.reuse = TP_REUSE_YES};
    tp_variable_scope_push(g, &reuse);
    tp_tower_enter(g, &predict);
    tp_node *z = tp_batch_norm(x, "bn");
    tp_tower_leave(g);
    tp_variable_scope_pop(g);
    ok(g);
    CHECK_STR(tp_node_name(z), "predict/bn/output");
    tp_session *s = tp_session_new(g, NULL);
    if (!CHECK_MSG(s != NULL, "%s", tp_last_error())) return;
    float out[4] = {0};
    run(s, x, shape, x4, fetch, 1 + n, out, 4);
    for (int i = 0; i < 4; i++) CHECK_NEAR(out[i], want[i], 1e-5, 0);
    CHECK_NEAR(variable(s, "bn/mean/EMA"), want_mean, 1e-6, 0);
    CHECK_NEAR(variable(s, "bn/variance/EMA"), want_var, 1e-6, 0);
    run(s, x, shape, x4, &z, 1, out, 4);
    const double eps = ndim == 4 ? 1.001e-5 : 1e-5;
    for (int i = 0; i < 4; i++) CHECK_NEAR(out[i], (x4[i] - want_mean) / sqrt(want_var + eps), 1e-5, 0);
    CHECK_NEAR(variable(s, "bn/mean/EMA"), want_mean, 1e-6, 0); /* inference changes nothing */
    tp_session_free(s);
    done(g);
}

TEST(batch_norm_4d_feeds_the_unbiased_variance) { batch_norm_case(4, TP_EMA_DEFAULT, .3f, 1.366667f); }
TEST(batch_norm_2d_feeds_the_biased_variance) { batch_norm_case(2, TP_EMA_COLLECTION, .3f, 1.25f); }
TEST(batch_norm_internal_update) { batch_norm_case(4, TP_EMA_INTERNAL, .3f, 1.366667f); }
TEST(batch_norm_without_update) { batch_norm_case(4, TP_EMA_SKIP, 0, 1); }

TEST(batch_norm_epsilon_is_clamped_in_4d)
{
    /* x = 0 and 0.002: variance 1e-6, so that the epsilon shows */
    const float x4[2] = {0, 0.002f};
    for (int ndim = 2; ndim <= 4; ndim += 2) {
        tp_graph *g = tower(true);
        tp_node *x = tp_placeholder(g, "x", TP_F32, ndim == 4 ? tp_make_shape(2, 1, 1, 1) : tp_make_shape(2, 1));
        tp_node *y = tp_batch_norm(x, "bn", .epsilon = 1e-9f);
        tp_tower_leave(g);
        tp_session *s = tp_session_new(g, NULL);
        float out[2] = {0};
        if (CHECK(s != NULL)) run(s, x, x->shape, x4, &y, 1, out, 2);
        CHECK_NEAR(out[1], 0.001 / sqrt(1e-6 + (ndim == 4 ? 1.001e-5 : 1e-9)), 1e-4, 0);
        tp_session_free(s);
        done(g);
    }
}

TEST(batch_norm_frozen_in_training)
{
    tp_graph *g = tower(true);
    tp_node *x = image(g, 2, 2, 3);
    tp_node *y = tp_batch_norm(x, "bn", .training = TP_NO), *dx = NULL;
    int n = -1;
    tp_collection(g, TP_KEY_UPDATE_OPS, &n);
    CHECK(n == 0);
    tp_node *vars[2] = {tp_layer_variable(y, "gamma"), tp_layer_variable(y, "beta")}, *dv[2] = {NULL, NULL};
    tp_gradients(tp_sum(tp_square(y)), vars, 2, dv);
    CHECK(dv[0] && dv[1]); /* gamma and beta still learn */
    tp_gradients(tp_sum(tp_square(y)), &x, 1, &dx);
    CHECK(dx != NULL);
    CHECK_HAS(tp_test_logged, "running mean and variance in training");
    ok(g);
    done(g);
}

TEST(batch_norm_without_scale_and_center)
{
    tp_graph *g = tower(true);
    tp_batch_norm(image(g, 2, 2, 3), "bn", .scale = TP_NO, .center = TP_NO, .data_format = TP_NCHW);
    ok(g);
    CHECK(!tp_find_variable(g, "bn/gamma") && !tp_find_variable(g, "bn/beta"));
    shape_is(tp_find_variable(g, "bn/mean/EMA")->node, "(2)"); /* axis 1 */
    tp_batch_norm(image(g, 2, 4, 3), "axis", .axis = 3, .data_format = TP_NCHW);
    shape_is(tp_find_variable(g, "axis/gamma")->node, "(3)");
    ok(g);
    done(g);
}

TEST(batch_norm_momentum_zero_keeps_nothing)
{
    tp_graph *g = tower(true);
    const float data[2] = {2, 4};
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2, 1));
    tp_node *y = tp_batch_norm(x, "bn", .momentum = TP_ZERO, .ema_update = TP_EMA_INTERNAL);
    tp_tower_leave(g);
    tp_session *s = tp_session_new(g, NULL);
    float out[2];
    if (CHECK(s != NULL)) {
        run(s, x, x->shape, data, &y, 1, out, 2);
        CHECK_NEAR(variable(s, "bn/mean/EMA"), 3, 1e-6, 0);
        CHECK_NEAR(variable(s, "bn/variance/EMA"), 1, 1e-6, 0);
    }
    tp_session_free(s);
    done(g);
}

TEST(dropout)
{
    tp_graph *g = tower(true);
    static float data[10000], out[10000];
    for (int i = 0; i < 10000; i++) data[i] = 3;
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY));
    tp_node *half = tp_dropout(x, "drop"), *fifth = tp_dropout(x, .keep_prob = 0.8f),
            *none = tp_dropout(x, .rate = TP_ZERO), *off = tp_dropout(x, .training = TP_NO);
    ok(g);
    tp_tower_leave(g);
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK(s != NULL)) {
        const tp_shape shape = tp_make_shape(10000);
        double sum = 0;
        bool two_values = true;
        run(s, x, shape, data, &half, 1, out, 10000);
        for (int i = 0; i < 10000; i++) two_values = two_values && (out[i] == 0 || out[i] == 6), sum += (double)out[i];
        CHECK(two_values);
        CHECK_NEAR(sum / 10000, 3, 0.12, 0);
        run(s, x, shape, data, &fifth, 1, out, 10000);
        int kept = 0;
        for (int i = 0; i < 10000; i++) kept += out[i] != 0;
        CHECK_NEAR(kept / 10000.0, 0.8, 0.02, 0);
        run(s, x, shape, data, &none, 1, out, 10000);
        CHECK(memcmp(out, data, sizeof out) == 0);
        run(s, x, shape, data, &off, 1, out, 10000);
        CHECK(memcmp(out, data, sizeof out) == 0);
    }
    tp_session_free(s);
    done(g);
}

TEST(bn_relu_in_its_three_forms)
{
    tp_graph *g = tower(true);
    tp_node *x = image(g, 4, 4, 2);
    tp_node *a = tp_conv2d(x, "conv1", .filters = 2, .kernel_size = 1, .activation = tp_bn_relu);
    CHECK_STR(tp_node_name(a), "conv1/output");
    CHECK(tp_find_variable(g, "conv1/bn/gamma") && tp_find_variable(g, "conv1/b"));
    tp_node *b = tp_bn_relu(x, "bnlast");
    CHECK_STR(tp_node_name(b), "bnlast/Relu");
    CHECK(tp_find_variable(g, "bnlast/bn/variance/EMA") != NULL);
    tp_node *c = tp_bn_relu(x);
    CHECK_STR(tp_node_name(c), "Relu");
    CHECK(tp_find_variable(g, "bn/beta") != NULL);
    ok(g);
    CHECK(tp_is_poison(tp_bn_relu(x))); /* bn/gamma is there already */
    CHECK_HAS(tp_graph_error(g), "bn/");
    done(g);
}

/* ==== scopes of options =============================================================================== */

TEST(argscope_merges_field_by_field)
{
    tp_graph *g = tower(true);
    tp_node *x = image(g, 8, 8, 3), *y = NULL;
    TP_ARGSCOPE(g, conv2d, .filters = 32, .activation = tp_relu)
    {
        TP_ARGSCOPE(g, conv2d, .kernel_size = 1)
        {
            y = tp_conv2d(x, "c0", .filters = 8);
            CHECK(TP_GET_ARGSCOPE(g, conv2d)->filters == 32);
            CHECK(TP_GET_ARGSCOPE(g, conv2d)->kernel_size == 1);
            CHECK(TP_GET_ARGSCOPE(g, conv2d)->activation == tp_relu);
            CHECK(((const tp_conv2d_desc *)tp_get_argscope(g, "Conv2D"))->filters == 32); /* the same by name */
            tp_conv2d(x, "c1", .activation = tp_identity);
        }
        CHECK(TP_GET_ARGSCOPE(g, conv2d)->kernel_size == 0);
    }
    ok(g);
    CHECK(TP_GET_ARGSCOPE(g, conv2d)->filters == 0);
    shape_is(y, "(?,8,8,8)");
    shape_is(tp_find_variable(g, "c0/W")->node, "(1,1,3,8)");
    CHECK(tp_graph_find(g, "c0/Relu") != NULL);
    CHECK(tp_graph_find(g, "c1/Relu") == NULL);
    shape_is(tp_graph_find(g, "c1/output"), "(?,8,8,32)");
    CHECK(tp_is_poison(tp_conv2d(x, "c2", .kernel_size = 1))); /* no filters any more */
    done(g);
}

TEST(argscope_of_several_layers)
{
    tp_graph *g = tower(true);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 3, 8, 8)), *y = x;
    TP_ARGSCOPE(g, (conv2d, max_pooling, batch_norm, global_avg_pooling), .data_format = TP_NCHW)
    TP_ARGSCOPE(g, (conv2d, fully_connected), .use_bias = TP_NO, .activation = tp_tanh,
                .kernel_initializer = tp_init_ones())
    {
        y = tp_linear(y, TP_CONV2D("conv", .filters = 5, .kernel_size = 3, .activation = tp_bn_relu),
                      TP_MAX_POOLING("pool", .pool_size = 2), TP_GLOBAL_AVG_POOLING("gap"),
                      TP_FULLY_CONNECTED("fc", .units = 4, .use_bias = TP_YES));
    }
    ok(g);
    shape_is(tp_graph_find(g, "conv/output"), "(?,5,8,8)");
    shape_is(tp_graph_find(g, "pool/output"), "(?,5,4,4)");
    shape_is(tp_find_variable(g, "conv/bn/gamma")->node, "(5)"); /* a layer inside a layer sees the scope */
    shape_is(y, "(?,4)");
    CHECK(!tp_find_variable(g, "conv/b") && tp_find_variable(g, "fc/b"));
    CHECK(tp_graph_find(g, "fc/Tanh") != NULL);
    CHECK(tp_find_variable(g, "conv/W")->init.kind == TP_INIT_CONSTANT);
    done(g);
}

TEST(argscope_pairs_and_regularizers_are_inherited_whole)
{
    tp_graph *g = tower(true);
    tp_node *x = image(g, 9, 9, 1);
    int n = 0;
    TP_ARGSCOPE(g, conv2d, .filters = 1, .kernel_size = 5, .kernel_size_w = 3,
                .kernel_regularizer = tp_l2_regularizer(0.1f))
    {
        tp_conv2d(x, "a");
        tp_conv2d(x, "b", .kernel_size = 1, .kernel_regularizer = tp_l2_regularizer(0));
    }
    ok(g);
    shape_is(tp_find_variable(g, "a/W")->node, "(5,3,1,1)");
    shape_is(tp_find_variable(g, "b/W")->node, "(1,1,1,1)");
    tp_collection(g, TP_KEY_REGULARIZATION_LOSSES, &n);
    CHECK(n == 1);
    done(g);
}

/* What a call says counts, also where the scope said the same thing by another option. */
TEST(a_call_overrides_an_inherited_alias)
{
    tp_graph *g = tower(true);
    tp_node *x = image(g, 4, 4, 2), *y[4], *other = tp_relu(x), *none = NULL;
    const int64_t shape[4] = {8, 4, 4, 2};
    float data[256], out[4][512];
    for (int i = 0; i < 256; i++) data[i] = 1 + (float)i;
    TP_ARGSCOPE(g, dropout, .rate = 0.999f) { y[0] = tp_dropout(x, NULL, .keep_prob = 1); }
    TP_ARGSCOPE(g, dropout, .keep_prob = 0.001f)
    {
        TP_ARGSCOPE(g, dropout, .rate = TP_ZERO) { y[1] = tp_dropout(x, NULL); } /* an inner scope, too */
    }
    TP_ARGSCOPE(g, concat_with, .tensor = other, .dim = 3)
    {
        y[2] = tp_concat_with(x, NULL, .tensors = (tp_node *[]){other, other}, .n_tensors = 2);
    }
    TP_ARGSCOPE(g, concat_with, .tensors = &none, .n_tensors = 1, .dim = 3)
    {
        y[3] = tp_concat_with(x, NULL, .tensor = other);
    }
    ok(g);
    shape_is(y[2], "(?,4,4,6)");
    shape_is(y[3], "(?,4,4,4)");
    tp_session *s = tp_session_new(g, NULL);
    for (int i = 0; i < 2 && CHECK(s != NULL); i++) {
        run(s, x, tp_make_shape_n(4, shape), data, &y[i], 1, out[i], 256);
        CHECK(memcmp(out[i], data, sizeof data) == 0);
    }
    tp_session_free(s);
    done(g);
    g = tower(true);
    x = image(g, 4, 4, 2);
    tp_node *small = tp_const(g, 1), *large = tp_const(g, 1e6f);
    TP_ARGSCOPE(g, batch_renorm, .rmax_node = small, .dmax_node = large)
    {
        y[0] = tp_batch_renorm(x, "a", .rmax = 3, .dmax = TP_ZERO);
    }
    TP_ARGSCOPE(g, batch_renorm, .rmax = 3, .dmax = TP_ZERO)
    {
        y[1] = tp_batch_renorm(x, "b", .rmax_node = small, .dmax_node = large);
    }
    ok(g);
    CHECK(!tp_depends_on(&y[0], 1, small->op) && !tp_depends_on(&y[0], 1, large->op));
    CHECK(tp_depends_on(&y[1], 1, small->op) && tp_depends_on(&y[1], 1, large->op));
    done(g);
}

TEST(an_argscope_of_no_graph_is_told)
{
    int built = 0;
    TP_ARGSCOPE((tp_graph *)NULL, conv2d, .filters = 3) { built++; }
    CHECK_HAS(tp_last_error(), "must not be NULL");
    CHECK(built <= 1);
}

TEST(argscope_left_by_return_is_reported)
{
    tp_graph *g = tower(true);
    const tp_at at = {"model.c", 12};
    tp_conv2d_desc d;
    memset(&d, 0, sizeof d);
    d.filters = 3;
    tp_argscope_begin(g, &at);
    tp_argscope_set(g, "Conv2D", &d);
    tp_tower_leave(g);
    CHECK_HAS(tp_graph_error(g), "model.c:12: this argscope is still open at the end of its tower");
    done(g);
}

/* ==== chains ========================================================================================== */

static tp_node *scaled(tp_node *x, void *user) { return tp_affine(x, *(const float *)user, 0.0f); }

static void chained(tp_graph *g)
{
    tp_node *image_ = image(g, 28, 28, 1), *l = NULL;
    static float half = 0.5f;
    TP_ARGSCOPE(g, conv2d, .filters = 32, .kernel_size = 3, .activation = tp_relu)
    {
        l = tp_linear(image_, TP_CONV2D("conv0"), TP_MAX_POOLING("pool0", .pool_size = 2),
                      TP_CONV2D("conv1", .padding = TP_SAME), TP_CONV2D("conv2", .kernel_size = 5),
                      TP_FULLY_CONNECTED("fc0", .units = 512, .activation = tp_relu),
                      TP_DROPOUT("dropout", .rate = 0.5f), TP_APPLY(scaled, &half), TP_OP(tp_tanh),
                      TP_FULLY_CONNECTED("fc1", .units = 10, .activation = tp_identity));
        TP_ARGSCOPE(g, (conv2d, max_pooling), .data_format = TP_NCHW)
        TP_ARGSCOPE(g, conv2d, .kernel_size = 1)
        {
            tp_linear(tp_reshape(image_, TP_ANY, 1, 28, 28), TP_CONV2D("conv3", .strides = 2),
                      TP_MAX_POOLING("pool3", .pool_size = 2));
        }
    }
    CHECK_STR(tp_node_name(l), "fc1/output");
}

static void one_by_one(tp_graph *g)
{
    tp_node *image_ = image(g, 28, 28, 1);
    tp_node *l = tp_conv2d(image_, "conv0", .filters = 32, .kernel_size = 3, .activation = tp_relu);
    l = tp_max_pooling(l, "pool0", .pool_size = 2);
    l = tp_conv2d(l, "conv1", .filters = 32, .kernel_size = 3, .padding = TP_SAME, .activation = tp_relu);
    l = tp_conv2d(l, "conv2", .filters = 32, .kernel_size = 5, .activation = tp_relu);
    l = tp_fully_connected(l, "fc0", .units = 512, .activation = tp_relu);
    l = tp_dropout(l, "dropout", .rate = 0.5f);
    l = tp_affine(l, 0.5f, 0.0f);
    l = tp_tanh(l);
    tp_fully_connected(l, "fc1", .units = 10, .activation = tp_identity);
    l = tp_conv2d(tp_reshape(image_, TP_ANY, 1, 28, 28), "conv3", .filters = 32, .kernel_size = 1, .strides = 2,
                  .data_format = TP_NCHW, .activation = tp_relu);
    tp_max_pooling(l, "pool3", .pool_size = 2, .data_format = TP_NCHW);
}

TEST(linear_and_argscope_equal_plain_calls)
{
    tp_graph *a = tower(true), *b = tower(true);
    chained(a);
    one_by_one(b);
    ok(a), ok(b);
    CHECK(tp_graph_n_operations(a) == tp_graph_n_operations(b));
    for (int i = 0; i < tp_graph_n_operations(a) && i < tp_graph_n_operations(b); i++) {
        const tp_operation *p = tp_graph_operation(a, i), *q = tp_graph_operation(b, i);
        CHECK_STR(p->name, q->name);
        CHECK(p->row == q->row && p->n_in == q->n_in && p->n_out == q->n_out);
        for (int j = 0; j < p->n_out; j++) CHECK(tp_shape_equal(&p->out[j].shape, &q->out[j].shape));
        for (int j = 0; j < p->n_in; j++) CHECK_STR(tp_node_name(p->in[j]), tp_node_name(q->in[j]));
    }
    tp_graph_free(b);
    done(a);
}

TEST(a_chain_may_print)
{
    tp_graph *g = tower(true);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2));
    tp_node *y = tp_linear(x, TP_PRINT("between"), TP_OP(tp_neg));
    tp_tower_leave(g);
    const float data[2] = {3, 4};
    float out[2] = {0};
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK(s != NULL)) run(s, x, x->shape, data, &y, 1, out, 2);
    CHECK(out[0] == -3 && out[1] == -4);
    CHECK_HAS(tp_test_logged, "between");
    tp_session_free(s);
    done(g);
}

/* ==== registry ======================================================================================== */

typedef struct tp_scaled_desc {
    tp_at at_;
    const char *name;
    float by; /* 0 = 2 */
} tp_scaled_desc;
static const tp_layer_field scaled_fields[] = {TP_LAYER_FIELD(tp_scaled_desc, by)};
static tp_node *scaled_build(tp_node *x, const void *desc)
{
    const tp_scaled_desc *d = (const tp_scaled_desc *)desc;
    tp_graph *g = tp_node_graph(x);
    tp_node *k =
        tp_get_variable_as(g, "k", TP_F32, tp_make_shape_n(0, NULL), tp_init_constant(d->by != 0 ? d->by : 2.0f));
    tp_layer_hold(g, "k", k);
    return tp_mul(x, k);
}

/* A chain that was filled in by hand, as C++ does it, names layers by strings: tp_linear_n looks them up, tp_linear only
 * those of the user's own, so that a program need not hold them all. */
TEST(chains_filled_in_by_hand)
{
    tp_graph *g = tower(true);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 2)), *y;
    const tp_fully_connected_desc fc = {.name = "fc", .units = 3};
    const tp_layer chain[2] = {{.layer = "FullyConnected", .desc = &fc}, TP_OP(tp_relu)};
    y = tp_linear_n(x, chain, 2);
    ok(g);
    CHECK(y->shape.dim[1] == 3 && tp_find_variable(g, "fc/W") != NULL);
    CHECK(tp_is_poison(tp_linear(x, chain[0])));
    CHECK_HAS(tp_graph_error(g), "there is no layer 'FullyConnected' of your own");
    done(g);
}

static tp_layer_type scaled_type(tp_node *(*build)(tp_node *x, const void *desc))
{
    const tp_layer_type t = {
        "Scaled", "scaled", sizeof(tp_scaled_desc), scaled_fields, TP_COUNT(scaled_fields), build, true, false,
        false,    false};
    return t;
}
static tp_node *no_build(tp_node *x, const void *desc) { return (void)x, (void)desc, (tp_node *)NULL; }
TEST(a_layer_that_gives_no_node)
{
    tp_graph *g = tower(true);
    const tp_layer_type t = scaled_type(no_build);
    tp_layer_register(g, &t);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 2));
    tp_node *y = tp_linear(x, TP_LAYER(scaled, "s0"));
    if (CHECK(y != NULL)) CHECK(tp_is_poison(y));
    CHECK_HAS(tp_graph_error(g), "Scaled gave no node");
    done(g);
}

static int scope_left; /* the scope that a build function leaves open; 4: it closes one that it did not open */
static tp_node *no_pairs(tp_node *x, const void *desc)
{
    tp_graph *g = tp_node_graph(x);
    (void)desc;
    if (scope_left == 0) tp_name_scope_push(g, "left");
    if (scope_left == 1) tp_variable_scope_push(g, &(tp_variable_scope_desc){.name = "left"});
    if (scope_left == 2) tp_device_enter(g, 0);
    if (scope_left == 3) tp_argscope_begin(g, NULL);
    if (scope_left == 4) tp_variable_scope_pop(g);
    return tp_square(x);
}
TEST(a_layer_that_leaves_a_scope_open)
{
    static const char *const said[] = {
        "s0: Scaled leaves a name scope open, 's0/left': its build function must close",
        "s0: Scaled leaves a variable scope open, 's0/left': its build function must close",
        "s0: Scaled leaves a device scope open: its build function must close",
        "s0: Scaled leaves an argscope open: its build function must close",
        "s0: Scaled closes a variable scope that its build function has not opened"};
    for (scope_left = 0; scope_left < 5; scope_left++) {
        tp_graph *g = tower(true);
        const tp_layer_type t = scaled_type(no_pairs);
        tp_layer_register(g, &t);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 2));
        const int line = __LINE__ + 1;
        CHECK(tp_is_poison(tp_linear(x, TP_LAYER(scaled, "s0"))));
        char place[64];
        snprintf(place, sizeof place, "test_layers.c:%d: ", line);
        CHECK_HAS(tp_graph_error(g), said[scope_left]);
        CHECK_HAS(tp_graph_error(g), place);
        CHECK_STR(tp_variable_scope(g), "");
        CHECK_STR(tp_name_scope(g), "");
        done(g);
    }
}

TEST(a_layer_of_the_users_own)
{
    tp_graph *g = tower(true);
    const tp_layer_type t = scaled_type(scaled_build);
    tp_layer_register(g, &t);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 2)), *y = NULL;
    TP_ARGSCOPE(g, scaled, .by = 3) { y = tp_linear(x, TP_LAYER(scaled, "s0"), TP_LAYER(scaled, "s1", .by = 4)); }
    ok(g);
    CHECK_STR(tp_node_name(y), "s1/output");
    CHECK(tp_find_variable(g, "s0/k")->init.a == 3.0f && tp_find_variable(g, "s1/k")->init.a == 4.0f);
    CHECK(tp_layer_variable(y, "k") == tp_find_variable(g, "s1/k")->node);
    CHECK_HAS(tp_test_logged, "'s0': [?, 2] --> [?, 2]\n");
    CHECK(tp_get_registered_layer(g, "Scaled") != NULL && tp_get_registered_layer(g, "batch_norm") != NULL &&
          !tp_get_registered_layer(g, "none"));
    tp_layer_register(g, &t);
    CHECK_HAS(tp_graph_error(g), "there is a layer 'Scaled' (scaled) already");
    done(g);
}

typedef struct tp_shifted_desc {
    tp_at at_;
    const char *name;
    float by, times;
} tp_shifted_desc;
static const tp_layer_field shifted_fields[] = {TP_LAYER_FIELD(tp_shifted_desc, by),
                                                TP_LAYER_FIELD(tp_shifted_desc, times)};
static tp_node *shifted_build(tp_node *x, const void *desc)
{
    const tp_shifted_desc *d = (const tp_shifted_desc *)desc;
    return tp_affine(x, d->times, d->by);
}
static tp_node *negated_build(tp_node *x, const void *desc)
{
    (void)desc;
    return tp_neg(x);
}
#define tp_shifted(x, ...) tp_layer_apply((x), "shifted", (&(const tp_shifted_desc){.at_ = TP_AT, __VA_ARGS__}))

TEST(functions_join_argscope)
{
    tp_graph *g = tower(true);
    tp_layer_type table[2];
    memset(table, 0, sizeof table);
    table[0].name = "Shifted", table[0].c_name = "shifted", table[0].desc_size = sizeof(tp_shifted_desc);
    table[0].fields = shifted_fields, table[0].n_fields = TP_COUNT(shifted_fields);
    table[0].build = shifted_build;
    table[1] = table[0];
    table[1].name = "Negated", table[1].c_name = "negated", table[1].build = negated_build, table[1].n_fields = 0;
    tp_enable_argscope_for_module(g, table, 2, 0); /* shapes are logged, as in tensorpack */
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 2)), *y = NULL, *z = NULL, *w = NULL;
    TP_ARGSCOPE(g, shifted, .by = 3, .times = 2)
    {
        y = tp_shifted(x, NULL);                 /* 2x + 3, without a name */
        z = tp_shifted(x, "moved", .times = -1); /* -x + 3 */
        w = tp_linear(x, TP_LAYER(shifted, "first"), TP_LAYER(shifted, "moved"), TP_OP(tp_relu));
    }
    ok(g);
    CHECK(tp_graph_n_variables(g) == 0);
    CHECK(strncmp(tp_node_name(z), "moved", 5) != 0); /* the op's own name */
    CHECK_HAS(tp_test_logged, "'shifted'");
    CHECK_HAS(tp_test_logged, "'moved'");
    CHECK_HAS(tp_test_logged, "'first'");
    const char *once = strstr(tp_test_logged, "'moved'");
    CHECK(once && strstr(once + 1, "'moved'") == NULL); /* a second call under this name is not logged again */
    const float data[2] = {1, -5};
    float out[6] = {0};
    tp_node *all[3] = {y, z, w};
    tp_session *s = tp_session_new(g, NULL);
    for (int i = 0; i < 3 && CHECK(s != NULL); i++) run(s, x, tp_make_shape(1, 2), data, &all[i], 1, out + 2 * i, 2);
    CHECK(out[0] == 5 && out[1] == -7 && out[2] == 2 && out[3] == 8);
    CHECK(out[4] == 13 && out[5] == 0); /* 2(2x + 3) + 3, and its positive part */
    tp_session_free(s);
    tp_layer_type quiet = table[0];
    quiet.name = "Quiet", quiet.c_name = "quiet", quiet.log_shape = true;
    tp_enable_argscope_for_function(g, &quiet, TP_NO);
    const tp_shifted_desc by_one = {.name = "unheard", .by = 1, .times = 1};
    tp_layer_apply(x, "quiet", &by_one);
    ok(g);
    CHECK(strstr(tp_test_logged, "unheard") == NULL);
    tp_enable_argscope_for_function(g, &table[1], 0);
    CHECK_HAS(tp_graph_error(g), "there is a layer 'Negated' (negated) already");
    done(g);
}

static tp_node *inner_conv(tp_node *x) { return tp_conv2d(x, "inner", .filters = 2, .kernel_size = 1); }

TEST(shapes_are_logged_once_and_nested)
{
    tp_graph *g = tower(true);
    tp_node *x = image(g, 28, 28, 1);
    tp_conv2d(x, "conv0", .filters = 32, .kernel_size = 3);
    tp_conv2d(x, "outer", .filters = 4, .kernel_size = 3, .activation = inner_conv);
    tp_variable_scope_desc reuse = {.reuse = TP_REUSE_YES};
    tp_variable_scope_push(g, &reuse);
    tp_node *again = tp_conv2d(x, "conv0", .filters = 32, .kernel_size = 3);
    tp_variable_scope_pop(g);
    ok(g);
    CHECK_STR(tp_node_name(again), "conv0_1/output");
    CHECK(tp_layer_variable(again, "W") == tp_find_variable(g, "conv0/W")->node);
    CHECK_STR(tp_test_logged, "'conv0': [?, 28, 28, 1] --> [?, 28, 28, 32]\n"
                              "'outer' input: [?, 28, 28, 1]\n"
                              "  'outer/inner': [?, 28, 28, 4] --> [?, 28, 28, 2]\n"
                              "'outer' output: [?, 28, 28, 2]\n");
    tp_test_logged[0] = 0;
    tp_disable_layer_logging(g);
    tp_conv2d(x, "quiet", .filters = 1, .kernel_size = 1);
    CHECK_STR(tp_test_logged, "");
    done(g);
}

/* ==== weight decay ==================================================================================== */

static void vector(tp_graph *g, const char *name)
{
    static const float v[2] = {3, 4};
    tp_get_variable_as(g, name, TP_F32, tp_make_shape(2), tp_init_values(v, 2));
}

static double value_of(tp_graph *g, tp_node *n)
{
    tp_session *s = tp_session_new(g, NULL);
    tp_tensor t = {0};
    double v = -1e300;
    if (CHECK_MSG(s != NULL, "%s", tp_last_error()) && CHECK_OK(tp_session_eval(s, n, &t))) v = tp_tensor_get(&t, 0);
    tp_tensor_free(&t);
    tp_session_free(s);
    return v;
}

TEST(regularize_cost_searches_anywhere)
{
    tp_graph *g = tower(true);
    vector(g, "aux/fc1/W");
    vector(g, "fc1/Wp");
    vector(g, "fc1/b");
    tp_node *l2 = tp_regularize_cost(g, "fc.*/W", tp_l2_regularizer(.1f), NULL);
    tp_node *l1 = tp_regularize_cost(g, "fc1/b", tp_l1_regularizer(.1f), "l1");
    tp_node *none = tp_regularize_cost(g, "conv", tp_l1_regularizer(.1f), "none");
    ok(g);
    CHECK_STR(tp_node_name(l2), "regularize_cost");
    CHECK_STR(tp_node_name(none), "empty_none");
    CHECK_HAS(tp_test_logged, "regularize_cost() found 2 variables to regularize.\nThe following tensors will be "
                              "regularized: aux/fc1/W, fc1/Wp\n");
    tp_tower_leave(g);
    CHECK_NEAR(value_of(g, l2), 2.5, 1e-6, 0);
    CHECK_NEAR(value_of(g, l1), .7, 1e-6, 0);
    CHECK_NEAR(value_of(g, none), 0, 0, 0);
    done(g);
}

/* Of a tower with variables of its own: those alone, told by their names within the tower. */
TEST(regularize_cost_of_a_tower_with_variables_of_its_own)
{
    tp_graph *g = tower(true);
    vector(g, "own1/W");
    tp_tower_leave(g);
    tp_tower_desc d = {.name = "t1", .vs_name = "t1", .is_training = true, .index = 1, .total = 2};
    tp_tower_enter(g, &d);
    vector(g, "own1/W");
    vector(g, "own2/W");
    vector(g, "own2/b");
    tp_node *l2 = tp_regularize_cost(g, "own.*/W", tp_l2_regularizer(.1f), NULL);
    ok(g);
    CHECK_HAS(tp_test_logged, "regularize_cost() found 2 variables to regularize.\nThe following tensors will be "
                              "regularized: own1/W, own2/W\n");
    tp_tower_leave(g);
    CHECK_NEAR(value_of(g, l2), 2.5, 1e-6, 0);
    done(g);
}

/* What is made before tower 0 is no part of it; a tower that only reuses variables counts all. */
TEST(regularize_cost_names_what_was_made_before_the_tower)
{
    for (int i = 0; i < 4; i++) {
        tp_test_keep_log();
        tp_graph *g = tp_graph_new(NULL);
        const tp_regularizer r = tp_l1_regularizer(.1f);
        const bool of_collection = i & 1, shared = i & 2;
        tp_get_variable(g, TP_OPTIONS(tp_variable_desc, .name = "w", .shape = tp_make_shape(2), .regularizer = r,
                                      .init = tp_init_ones()));
        tp_get_scalar_variable(g, "other", 1);
        if (shared) tp_variable_scope_push(g, TP_OPTIONS(tp_variable_scope_desc, .reuse = TP_REUSE_YES));
        CHECK(tp_tower_enter(g, TP_OPTIONS(tp_tower_desc, .is_training = true)) != NULL);
        tp_node *cost =
            of_collection ? tp_regularize_cost_from_collection(g, "wd") : tp_regularize_cost(g, "w", r, "wd");
        tp_tower_leave(g);
        if (shared) tp_variable_scope_pop(g);
        ok(g);
        CHECK_NEAR(value_of(g, cost), shared ? 0.2 : 0, 1e-6, 0);
        if (shared) CHECK(!strstr(tp_test_logged, "do not count"));
        else
            CHECK_HAS(tp_test_logged,
                      "wd: made before tp_tower_enter, so they do not count: w. Make them inside the tower\n");
        CHECK(!strstr(tp_test_logged, "No match"));
        done(g);
    }
}

TEST(regularize_cost_is_zero_at_inference)
{
    tp_graph *g = tower(false);
    vector(g, "fc1/W");
    tp_node *wd = tp_regularize_cost(g, "fc.*/W", tp_l2_regularizer(.1f), "wd");
    ok(g);
    CHECK_STR(tp_node_name(wd), "empty_wd");
    tp_tower_leave(g);
    CHECK_NEAR(value_of(g, wd), 0, 0, 0);
    done(g);
}

/* Where memory runs out it gives poison, not NULL. The graph takes memory in blocks: so much is left of its block. */
TEST(regularize_cost_is_poison_without_memory)
{
    long room = 0; /* how often 16 bytes are left at first */
    for (long left = -1; left <= 20; left++)
        for (long n = left < 0 ? 0 : 1; n <= (left < 0 ? 0 : 3); n++) {
            tp_test_fail_after(0);
            tp_graph *g = tower(true);
            vector(g, "fc1/W");
            ok(g);
            if (left < 0) {
                for (const long count = tp_test_alloc_count(); tp_test_alloc_count() == count; room++)
                    tp_graph_alloc(g, 16);
                room--;
            } else {
                for (long i = left; i < room; i++) tp_graph_alloc(g, 16);
                tp_test_fail_after(n);
                const tp_node *cost = tp_regularize_cost(g, "fc.*/W", tp_l2_regularizer(1), NULL);
                CHECK(tp_test_alloc_failed());
                if (left == 0 && n == 1) CHECK(tp_graph_status(g) == TP_ERR_NOMEM);
                CHECK(cost && (cost == tp_poison(g)) == (tp_graph_status(g) != TP_OK));
            }
            tp_test_alloc_reset();
            tp_tower_leave(g);
            done(g);
        }
}

TEST(regularize_cost_from_collection)
{
    tp_graph *g = tower(true);
    static const float v[2] = {3, 4};
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 2));
    tp_fully_connected(x, "fc", .units = 1, .kernel_initializer = tp_init_values(v, 2),
                       .kernel_regularizer = tp_l2_regularizer(.1f), .bias_initializer = tp_init_ones(),
                       .bias_regularizer = tp_l1_regularizer(2));
    tp_node *wd = tp_regularize_cost_from_collection(g, NULL);
    ok(g);
    CHECK_STR(tp_node_name(wd), "regularize_cost");
    CHECK_HAS(tp_test_logged, "found 2 regularizers in REGULARIZATION_LOSSES");
    tp_tower_leave(g);
    CHECK_NEAR(value_of(g, wd), 3.25, 1e-6, 0);
    /* outside of a tower it fails, and in a graph that has failed it returns a node all the same */
    CHECK(tp_regularize_cost_from_collection(g, NULL) == tp_poison(g));
    CHECK_HAS(tp_graph_error(g), "regularize_cost: tp_regularize_cost_from_collection is called outside a tower");
    CHECK(tp_regularize_cost_from_collection(g, NULL) == tp_poison(g));
    tp_graph_free(g);
}

static tp_node *no_loss(tp_node *w, float scale) { return (void)w, (void)scale, (tp_node *)NULL; }
static tp_node *loss_of_each(tp_node *w, float scale) { return tp_affine(tp_square(w), scale, 0); }
TEST(regularizers_that_give_no_scalar)
{
    static const char *const said[] = {
        "the regularizer of 'fc/W' gave no node",
        "the regularizer of 'fc/W' gives float32 (2,3): it must give a scalar, take its sum",
        "the regularizer of 'fc/W' gave no node",
        "the regularizer of 'fc/W' gives float32 (2,3): it must give a scalar, take its sum",
        "the regularizer of 'fc/BiasAdd' gave no node",
        "the regularizer of 'fc/BiasAdd' gives float32 (?,3): it must give a scalar, take its sum",
        "regularize_cost: 'each' of REGULARIZATION_LOSSES has shape (2): it must be a scalar, take its sum"};
    for (int i = 0; i < TP_COUNT(said); i++) {
        tp_graph *g = tower(true);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 2)), *cost = NULL;
        const tp_regularizer r = {i % 2 ? loss_of_each : no_loss, 1}, none = {NULL, 0};
        tp_fully_connected(x, "fc", .units = 3, .kernel_regularizer = i / 2 == 1 ? r : none,
                           .activity_regularizer = i / 2 == 2 ? r : none);
        if (i / 2 == 0) cost = tp_regularize_cost(g, "fc/W", (tp_regularizer){r.fn, 1}, NULL);
        if (i / 2 == 3) {
            tp_collection_add(g, TP_KEY_REGULARIZATION_LOSSES,
                              tp_named(tp_placeholder(g, "w", TP_F32, tp_make_shape(2)), "each"));
            cost = tp_regularize_cost_from_collection(g, NULL);
        }
        CHECK(tp_is_poison(cost));
        CHECK_HAS(tp_graph_error(g), said[i]);
        CHECK_HAS(tp_graph_error(g), "test_layers.c:");
        done(g);
    }
}

/* ==== symbolic functions ============================================================================== */

TEST(accuracy_counts_ties_as_correct)
{
    tp_graph *g = tower(true);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(3, 3));
    tp_node *label = tp_cast(tp_reduce_sum(x, (int[]){1}, 1, false), TP_I32); /* 2, 0, 1 below */
    tp_node *wrong = tp_sym_prediction_incorrect(x, label, 0, NULL), *acc = tp_sym_accuracy(x, label, 1, NULL);
    ok(g);
    CHECK_STR(tp_node_name(wrong), "incorrect_vector");
    CHECK_STR(tp_node_name(acc), "accuracy");
    tp_tower_leave(g);
    const float data[9] = {0, 1, 1, -1, 1, 0, 0, 0, 1};
    float out[3];
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK(s != NULL)) {
        run(s, x, x->shape, data, &wrong, 1, out, 3);
        CHECK(out[0] == 0 && out[1] == 1 && out[2] == 1);
        run(s, x, x->shape, data, &acc, 1, out, 1);
        CHECK_NEAR(out[0], 1.0 / 3, 1e-6, 0);
    }
    tp_session_free(s);
    done(g);
}

/* ==== towers, scopes, mistakes ======================================================================== */

TEST(two_towers_share_and_name)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = image(g, 8, 8, 1), *y[2];
    tp_test_keep_log();
    tp_test_logged[0] = 0;
    for (int i = 0; i < 2; i++) {
        tp_tower_desc d = {.name = i ? "tower1" : "tower0", .is_training = true, .index = i, .total = 2};
        tp_variable_scope_desc reuse = {.reuse = i ? TP_REUSE_YES : TP_REUSE_NO};
        tp_variable_scope_push(g, &reuse);
        tp_tower_enter(g, &d);
        y[i] = tp_linear(x, TP_CONV2D("c", .filters = 2, .kernel_size = 3), TP_BATCH_NORM("bn"));
        tp_tower_leave(g);
        tp_variable_scope_pop(g);
    }
    ok(g);
    CHECK_STR(tp_node_name(y[0]), "tower0/bn/output");
    CHECK_STR(tp_node_name(y[1]), "tower1/bn/output");
    int n = 0;
    tp_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n);
    CHECK(n == 4);
    tp_collection(g, TP_KEY_UPDATE_OPS, &n);
    CHECK(n == 2); /* the main tower's */
    CHECK_STR(tp_test_logged, "'c': [?, 8, 8, 1] --> [?, 8, 8, 2]\n");
    done(g);
}

/* ==== the other layers: names, shapes, collections, first values ======================================= */

/* Exactly these variables, in this order: "name(shape)" of each, one after the other. */
static void variables_are(tp_graph *g, const char *text)
{
    tp_buf got = {0};
    char t[TP_SHAPE_TEXT];
    for (int i = 0; i < tp_graph_n_variables(g); i++) {
        const tp_variable *v = tp_graph_variable(g, i);
        tp_buf_printf(&got, "%s%s%s%s", i ? " " : "", v->name, v->trainable ? "" : "*", tp_shape_text(&v->shape, t));
    }
    CHECK_STR(got.data ? got.data : "", text);
    tp_buf_free(&got);
}

TEST(transposed_convolutions_know_their_size)
{
    static const struct {
        int strides;
        tp_padding padding;
        const char *shape;
    } cases[] = {{1, TP_SAME, "(?,12,18,4)"},
                 {1, TP_VALID, "(?,14,20,4)"},
                 {2, TP_SAME, "(?,24,36,4)"},
                 {2, TP_VALID, "(?,25,37,4)"}};
    for (int i = 0; i < TP_COUNT(cases); i++) {
        tp_graph *g = tower(true);
        tp_node *y = tp_conv2d_transpose(image(g, 12, 18, 2), "up", .filters = 4, .kernel_size = 3,
                                         .strides = cases[i].strides, .padding = cases[i].padding);
        tp_node *open = tp_deconv2d(image(g, 12, TP_ANY, 2), "open", .filters = 4, .kernel_size = 3,
                                    .strides = cases[i].strides, .padding = cases[i].padding);
        ok(g);
        shape_is(y, cases[i].shape);
        CHECK(open->shape.dim[1] == y->shape.dim[1] && open->shape.dim[2] == TP_ANY && open->shape.dim[3] == 4);
        CHECK_STR(tp_node_name(y), "up/output");
        variables_are(g, "up/W(3,3,4,2) up/b(4) open/W(3,3,4,2) open/b(4)");
        CHECK(tp_layer_variable(y, "W") == tp_find_variable(g, "up/W")->node);
        CHECK(tp_get_registered_layer(g, "Deconv2D") == tp_get_registered_layer(g, "conv2d_transpose"));
        done(g);
    }
}

/* The node that tells a transposed convolution its size is never computed. */
TEST(transposed_convolutions_are_one_kernel)
{
    tp_graph *g = tower(true);
    tp_node *x = image(g, TP_ANY, TP_ANY, 2);
    tp_node *y = tp_conv2d_transpose(x, "up", .filters = 3, .kernel_size = 3, .strides = 2, .padding = TP_VALID,
                                     .use_bias = TP_NO);
    tp_tower_leave(g);
    tp_session *s = tp_session_new(g, NULL);
    const float data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    float out[75];
    tp_plan_info info;
    if (CHECK(s != NULL)) {
        run(s, x, tp_make_shape(1, 2, 2, 2), data, &y, 1, out, 75);
        if (CHECK_OK(tp_exec_plan_info(tp_session_exec(s), &y, 1, &info))) CHECK(info.n_steps == 1);
    }
    tp_session_free(s);
    done(g);
}

/* The macros of all layers, in chains. */
TEST(every_layer_in_a_chain)
{
    tp_graph *g = tower(true);
    const float m[4] = {1, 2, 3, 4};
    tp_tensor t = {0};
    tp_tensor_view(&t, TP_F32, tp_make_shape(2, 2), m);
    tp_node *x = image(g, 8, 8, 2), *mat = tp_constant(g, &t), *y = NULL;
    TP_ARGSCOPE(g, (conv2d_transpose, deconv2d), .filters = 4, .kernel_size = 3)
    TP_ARGSCOPE(g, (layer_norm, instance_norm, group_norm, batch_renorm), .epsilon = 1e-3f)
    {
        y = tp_linear(x, TP_CONV2D_TRANSPOSE("up0", .strides = 2, .activation = tp_bn_relu), TP_DECONV2D("up1"),
                      TP_DEPTHWISE_CONV2D("dw", .kernel_size = 3, .strides = 2), TP_LAYER_NORM("ln"),
                      TP_INSTANCE_NORM("in", .center = TP_NO), TP_GROUP_NORM("gn", .groups = 2),
                      TP_BATCH_RENORM("br", .rmax = 3, .dmax = 5), TP_PRELU("prelu"), TP_MAXOUT("mo", .num_unit = 2),
                      TP_FIXED_UNPOOLING("un", .shape = 2, .unpool_mat = mat), TP_MAX_POOLING("pool", .pool_size = 2),
                      TP_CONCAT_WITH("cat", .tensor = x, .dim = 3), TP_CAFFE_BILINEAR_UPSAMPLE("bi", .shape = 2),
                      TP_GLOBAL_AVG_POOLING("gap"),
                      TP_SOFTMAX("prob", .use_temperature = TP_YES, .temperature_init = 2));
    }
    ok(g);
    shape_is(y, "(?,4)");
    CHECK_STR(tp_node_name(y), "prob/output");
    variables_are(
        g, "up0/W(3,3,4,2) up0/b(4) up0/bn/gamma(4) up0/bn/beta(4) up0/bn/mean/EMA*(4) up0/bn/variance/EMA*(4) "
           "up1/W(3,3,4,4) up1/b(4) dw/W(3,3,4,1) ln/gamma(4) ln/beta(4) in/gamma(4) gn/gamma(4) gn/beta(4) "
           "br/moving_mean*(4) br/moving_variance*(4) br/renorm_mean*(4) br/renorm_mean_weight*() "
           "br/renorm_stddev*(4) br/renorm_stddev_weight*() br/gamma(4) br/beta(4) prelu/alpha() prob/invtemp()");
    int n = 0;
    tp_collection(g, TP_KEY_UPDATE_OPS, &n);
    CHECK(n == 4); /* two of BatchNorm, two of BatchRenorm */
    tp_collection(g, TP_KEY_MODEL_VARIABLES, &n);
    CHECK(n == 8);
    CHECK(tp_graph_find(g, "mo/output") && tp_graph_find(g, "cat/output") && !tp_graph_find(g, "un/output"));
    CHECK(tp_layer_variable(y, "invtemp")->op->var[0]->init.a == 0.5f);
    CHECK(tp_find_variable(g, "prelu/alpha")->init.a == 0.001f);
    CHECK_HAS(tp_test_logged, "'up0': [?, 8, 8, 2] --> [?, 16, 16, 4]");
    CHECK(!strstr(tp_test_logged, "'ln'") && !strstr(tp_test_logged, "'prelu'"));
    tp_node *bare =
        tp_concat_with(tp_maxout(x, .num_unit = 2), .tensors = (tp_node *[]){x, x}, .n_tensors = 2, .dim = -1);
    shape_is(bare, "(?,8,8,5)");
    CHECK(tp_graph_find(g, "ConcatV2") == bare || strchr(tp_node_name(bare), '/') == NULL);
    ok(g);
    done(g);

    g = tower(true);
    tp_rnn_state state = {0};
    tp_node *ids = tp_placeholder(g, "ids", TP_I32, tp_make_shape(TP_ANY, 6)), *steps[6];
    y = tp_linear(ids, TP_EMBEDDING("embed", .vocab = 10, .units = 4), TP_LSTM("lstm", .units = 4),
                  TP_GRU("gru", .units = 8), TP_MULTI_HEAD_ATTENTION("att", .heads = 2, .causal = TP_YES));
    ok(g);
    shape_is(y, "(?,6,8)");
    /* a cell, step by step: one set of variables */
    tp_unstack(y, 1, 6, steps);
    for (int i = 0; i < 6; i++) {
        y = tp_linear(steps[i], TP_BASIC_LSTM_CELL("cell", .units = 3, .state = &state));
        CHECK(tp_layer_variable(y, "kernel") == tp_find_variable(g, "cell/kernel")->node);
        y = tp_linear(y, TP_GRU_CELL("cell2", .units = 2));
    }
    ok(g);
    shape_is(y, "(?,2)");
    shape_is(state.c, "(?,3)");
    variables_are(g, "embed/W(10,4) lstm/kernel(8,16) lstm/bias(16) gru/gates/kernel(12,16) gru/gates/bias(16) "
                     "gru/candidate/kernel(12,8) gru/candidate/bias(8) att/Wq(8,8) att/bq(8) att/Wk(8,8) att/bk(8) "
                     "att/Wv(8,8) att/bv(8) att/Wo(8,8) att/bo(8) cell/kernel(11,12) cell/bias(12) "
                     "cell2/gates/kernel(5,4) cell2/gates/bias(4) cell2/candidate/kernel(5,2) cell2/candidate/bias(2)");
    CHECK(tp_find_variable(g, "gru/gates/bias")->init.a == 1.0f);
    CHECK(tp_find_variable(g, "lstm/bias")->init.a == 0.0f);
    CHECK(tp_find_variable(g, "lstm/kernel")->init.mode == TP_FAN_AVG &&
          tp_find_variable(g, "embed/W")->init.mode == TP_FAN_AVG);
    CHECK(tp_find_variable(g, "gru/candidate/bias")->init.a == 0.0f);
    done(g);
}

/* A loop over a cell gives what the layer of all steps gives, and so do the gradients. */
TEST(an_unrolled_cell_is_the_sequence_layer)
{
    tp_graph *g = tower(true);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 3, 2)), *step[3], *h = NULL, *d[2] = {0},
            *fetch[4];
    tp_rnn_state state = {0}, last = {0};
    tp_unstack(x, 1, 3, step);
    for (int i = 0; i < 3; i++) h = tp_basic_lstm_cell(step[i], "rnn", .units = 4, .state = &state);
    const tp_variable_scope_desc again = {.reuse = TP_REUSE_YES};
    tp_variable_scope_push(g, &again);
    tp_lstm(x, "rnn", .units = 4, .state = &last);
    tp_variable_scope_pop(g);
    tp_node *w = tp_find_variable(g, "rnn/kernel")->node;
    tp_gradients(tp_sum(h), &w, 1, d);
    tp_gradients(tp_sum(last.h), &w, 1, d + 1);
    ok(g);
    tp_tower_leave(g);
    tp_session *s = tp_session_new(g, NULL);
    const float data[12] = {1, -2, .5f, .25f, -1, 3, 0, 1, -.5f, .75f, 2, -1};
    tp_feed feed = {x, {0}};
    tp_tensor_view(&feed.value, TP_F32, tp_make_shape(2, 3, 2), data);
    const tp_tensor *v[4];
    fetch[0] = h, fetch[1] = last.h, fetch[2] = d[0], fetch[3] = d[1];
    if (CHECK(s != NULL) && CHECK_OK(tp_session_run(s, &feed, 1, fetch, 4, v)))
        for (int k = 0; k < 4; k += 2)
            for (int64_t i = 0; i < tp_tensor_size(v[k]); i++)
                CHECK_NEAR(tp_tensor_get(v[k], i), tp_tensor_get(v[k + 1], i), 1e-6, 1e-5);
    tp_session_free(s);
    done(g);
}

/* Sequences whose length is known in the run alone, and is 0: a given state is the last one, too; without it there is a sentence. */
TEST(sequences_of_no_step)
{
    for (int given = 0; given < 2; given++) {
        tp_graph *g = tower(true);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, TP_ANY, 2));
        const float ones[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
        tp_node *h = tp_placeholder(g, "h", TP_F32, tp_make_shape(TP_ANY, 4));
        tp_rnn_state state = {h, h};
        tp_lstm(x, "rnn", .units = 4, .state = given ? &state : NULL);
        if (!given) state.h = tp_gru(x, "gru", .units = 4);
        ok(g);
        tp_tower_leave(g);
        tp_session *s = tp_session_new(g, NULL);
        const float none = 0;
        tp_feed feed[2] = {{x, {0}}, {h, {0}}};
        tp_tensor_view(&feed[0].value, TP_F32, tp_make_shape(3, 0, 2), &none);
        tp_tensor_view(&feed[1].value, TP_F32, tp_make_shape(3, 4), ones);
        const tp_tensor *v;
        const tp_status st = tp_session_run(s, feed, 1 + given, &state.h, 1, &v);
        if (given) CHECK(st == TP_OK && v->shape.dim[0] == 3 && tp_tensor_get(v, 5) == 1);
        else CHECK_ERR(st, TP_ERR_ARG, "leaves dimension 1 of shape (3,0,2)");
        tp_session_free(s);
        done(g);
    }
}

TEST(ghost_batches_report_the_first_of_them)
{
    tp_graph *g = tower(true);
    tp_node *x = image(g, 1, 1, 1);
    tp_node *y = tp_batch_norm(x, "bn", .virtual_batch_size = 2);
    int n = 0;
    tp_collection(g, TP_KEY_UPDATE_OPS, &n);
    CHECK(n == 0); /* they run with the output */
    ok(g);
    tp_tower_leave(g);
    tp_session *s = tp_session_new(g, NULL);
    const float data[4] = {1, 2, 3, 6};
    float out[4];
    if (CHECK(s != NULL)) {
        run(s, x, tp_make_shape(4, 1, 1, 1), data, &y, 1, out, 4);
        for (int i = 0; i < 4; i++) CHECK_NEAR(out[i], i % 2 ? 1 : -1, 1e-4, 0);
        CHECK_NEAR(variable(s, "bn/mean/EMA"), 0.15, 1e-6, 0);
        CHECK_NEAR(variable(s, "bn/variance/EMA"), 0.925, 1e-6, 0);
    }
    tp_session_free(s);
    done(g);
}

/* The matrix of an unpooling is filled to its end and no further: nothing goes wrong on the way. */
TEST(layers_that_are_right_leave_no_error)
{
    tp_graph *g = tower(true);
    tp_node *x = image(g, 2, 2, 1);
    tp_fail(TP_ERR_STATE, "an earlier mistake");
    tp_fixed_unpooling(x, "un", .shape = 2, .shape_w = 3);
    tp_caffe_bilinear_upsample(x, "up", .shape = 2);
    CHECK_STR(tp_last_error(), "an earlier mistake");
    ok(g);
    tp_tower_leave(g);
    done(g);
}

TEST(norms_have_a_gradient_of_zero_at_zero)
{
    static const tp_dtype types[] = {TP_F32, TP_F64, TP_F16};
    static const double want[2][2][2] = {{{0, 0}, {0.6, 0.8}}, {{0, 0}, {0.424264068711929, 0.565685424949238}}};
    for (int i = 0; i < 2 * 2 * TP_COUNT(types); i++) {
        tp_graph *g = tp_graph_new(NULL);
        const bool is_rms = i & 1, is_zero = !(i & 2);
        const float v[2] = {is_zero ? 0 : 3.0f, is_zero ? 0 : 4.0f};
        tp_node *x = tp_cast(tp_get_variable_as(g, "v", TP_F32, tp_make_shape(2), tp_init_values(v, 2)), types[i / 4]),
                *d = NULL, *second = NULL;
        tp_node *y = is_rms ? tp_sym_rms(x, NULL) : tp_global_norm(&x, 1);
        tp_gradients(y, &x, 1, &d);
        tp_gradients(tp_sum(d), &x, 1, &second);
        tp_node *const fetch[] = {y, d, second};
        const tp_tensor *out[3];
        tp_session *s = tp_session_new(g, NULL);
        if (CHECK_MSG(s != NULL, "%s", tp_last_error()) && CHECK_OK(tp_session_run(s, NULL, 0, fetch, 3, out))) {
            CHECK_NEAR(tp_tensor_get(out[0], 0), is_zero ? 0 : is_rms ? sqrt(12.5) : 5, 2e-3, 0);
            for (int k = 0; k < 2; k++) {
                CHECK_NEAR(tp_tensor_get(out[1], k), want[is_rms][!is_zero][k], is_zero ? 0 : 1e-3, 0);
                CHECK(isfinite(tp_tensor_get(out[2], k)));
            }
        }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* What the document of tensorpack shows by example. */
TEST(layers_and_functions_by_example)
{
    tp_graph *g = tower(true);
    tp_node *x = image(g, 2, 2, 1), *v = tp_placeholder(g, "v", TP_F32, tp_make_shape(TP_ANY));
    tp_node *up = tp_fixed_unpooling(x, "up", .shape = 2), *huber = tp_sym_huber_loss(v, 0, NULL);
    tp_node *hed = tp_caffe_bilinear_upsample(x, "hed", .shape = 2),
            *stat = tp_sym_print_stat(tp_sym_rms(v, NULL), NULL);
    ok(g);
    tp_tower_leave(g);
    tp_session *s = tp_session_new(g, NULL);
    const float data[4] = {1, 2, 3, 4}, one[4] = {1, 1, 1, 1}, h[3] = {.5f, 1, -2};
    float out[16];
    if (CHECK(s != NULL)) {
        static const float want[16] = {1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0, 0};
        run(s, x, tp_make_shape(1, 2, 2, 1), data, &up, 1, out, 16);
        for (int i = 0; i < 16; i++) CHECK(out[i] == want[i]);
        run(s, x, tp_make_shape(1, 2, 2, 1), one, &hed, 1, out, 16);
        for (int i = 0; i < 16; i++) CHECK_NEAR(out[i], 1, 1e-6, 0); /* a flat image stays flat */
        run(s, v, tp_make_shape(3), h, &huber, 1, out, 3);
        CHECK_NEAR(out[0], .125, 1e-6, 0);
        CHECK_NEAR(out[1], .5, 1e-6, 0);
        CHECK_NEAR(out[2], 1.5, 1e-6, 0);
        tp_test_logged[0] = 0;
        run(s, v, tp_make_shape(3), h, &stat, 1, out, 1);
        CHECK_NEAR(out[0], 1.322876, 1e-5, 0);
        CHECK_HAS(tp_test_logged, "rms");
    }
    tp_session_free(s);
    done(g);
}

static void mistake(int i, tp_graph *g)
{
    tp_node *flat = tp_placeholder(g, "flat", TP_F32, tp_make_shape(TP_ANY, 10)), *x = image(g, 8, 8, 3);
    tp_node *bytes = tp_placeholder(g, "bytes", TP_U8, tp_make_shape(TP_ANY, 8, 8, 3));
    const tp_conv2d_desc nameless = {.filters = 1, .kernel_size = 1};
    switch (i) {
    case 0: tp_conv2d(flat, "conv1", .filters = 1, .kernel_size = 3); break;
    case 1: tp_conv2d(x, "c", .kernel_size = 3); break;
    case 2: tp_conv2d(x, "c", .filters = 3); break;
    case 3: tp_conv2d(x, "c", .filters = 4, .kernel_size = 3, .split = 2); break;
    case 4: tp_conv2d(bytes, "c", .filters = 4, .kernel_size = 3); break;
    case 5: tp_fully_connected(x, "fc"); break;
    case 6: tp_max_pooling(x, "p"); break;
    case 7: tp_max_pooling(flat, "p", .pool_size = 2); break;
    case 8: tp_batch_norm(tp_placeholder(g, "x3", TP_F32, tp_make_shape(TP_ANY, 3, 4)), "bn"); break;
    case 9: tp_batch_norm(x, "bn", .axis = 2); break;
    case 10: tp_dropout(x, .rate = 0.2f, .keep_prob = 0.8f); break;
    case 11: tp_dropout(x, .rate = 1.0f); break;
    case 12: tp_conv2d_(x, &nameless); break;
    case 13:
        tp_conv2d(x, "c", .filters = 1, .kernel_size = 1), tp_conv2d(x, "c", .filters = 1, .kernel_size = 1);
        break;
    case 14: tp_conv2d(x, "c", .filters = 1, .kernel_size_w = 3); break;
    case 15: tp_regularize_cost(g, "", tp_l2_regularizer(1), NULL); break;
    case 16: tp_layer_variable(tp_conv2d(x, "c", .filters = 1, .kernel_size = 1), "Z"); break;
    case 17: tp_layer_variable(x, "W"); break;
    case 18: tp_argscope_set(g, "Conv3D", &nameless); break;
    case 19: tp_argscope_set(g, "Conv2D", &nameless); break;
    case 20: TP_ARGSCOPE(g, conv2d, "conv0", .filters = 1) {
        }
        break;
    case 21: tp_argscope_end(g); break;
    case 22: tp_conv2d(x, "conv 0?", .filters = 1, .kernel_size = 1); break;
    case 23: tp_conv2d(x, "c", .filters = 1, .kernel_size = 1, .padding = (tp_padding)7); break;
    case 24: tp_conv2d(x, "c", .filters = 1, .kernel_size = 9, .padding = TP_VALID); break;
    case 25: tp_tower_leave(g), tp_batch_norm(x, "bn"); break;
    case 26: tp_tower_leave(g), tp_dropout(x, "d"); break;
    case 27: tp_tower_leave(g), tp_regularize_cost(g, "W", tp_l2_regularizer(1), NULL); break;
    case 28:
        tp_fully_connected(tp_placeholder(g, "any", TP_F32, tp_make_shape(TP_ANY, TP_ANY)), "fc", .units = 1);
        break;
    }
}

TEST(each_mistake_is_a_sentence_with_its_place)
{
    static const char *const parts[] = {
        "conv1: input is (?,10), Conv2D needs 4 dimensions (B,H,W,C)",
        "c: Conv2D needs .filters",
        "c: Conv2D needs a .kernel_size",
        "c: Conv2D has .split 2, which does not divide its 3 input channels",
        "c: input is uint8, Conv2D needs floating values",
        "fc: FullyConnected needs .units",
        "p: MaxPooling needs a .pool_size",
        "p: input is (?,10), MaxPooling needs 4 dimensions",
        "bn: input is (?,3,4), BatchNorm needs 2 dimensions (B,C) or 4",
        "bn: BatchNorm has .axis 2",
        "Dropout has both .rate and .keep_prob",
        "Dropout drops a fraction 1",
        "Conv2D needs a name: tp_conv2d(x, \"name\", ...)",
        "variable 'c/W' exists already",
        "c: Conv2D has .kernel_size_w but no .kernel_size",
        "needs a regular expression",
        "layer 'c' has no variable 'Z'",
        "'image' is not the output of a layer",
        "there is no layer 'Conv3D'",
        "defaults for Conv2D are set outside a scope",
        "defaults have no name, but 'conv0' was given",
        "an argscope is closed that was never opened",
        "is no name for a scope",
        "c: Conv2D has .padding 7",
        "c: input is (?,8,8,3), Conv2D has .kernel_size (9,9), which is larger",
        "bn: BatchNorm is used outside a tower",
        "d: Dropout is used outside a tower",
        "called outside a tower",
        "fc: input is (?,?), FullyConnected needs to know every dimension but the batch"};
    for (int i = 0; i < TP_COUNT(parts); i++) {
        tp_graph *g = tower(true);
        mistake(i, g);
        CHECK_MSG(tp_graph_status(g) < 0, "mistake %d was not noticed", i);
        CHECK_HAS(tp_graph_error(g), parts[i]);
        const bool has_call = i < 15 && i != 12;
        if (has_call) CHECK_HAS(tp_graph_error(g), "test_layers.c:");
        tp_node *x = tp_poison(g);
        CHECK(tp_is_poison(
            tp_linear(x, TP_CONV2D("z", .filters = 1, .kernel_size = 1), TP_OP(tp_relu)))); /* poison flows */
        done(g);
    }
}

/* Each line: a wrong use of layer "w", and a part of its sentence. */
#define WRONG(i_, call_, part_) \
    if (i == n++) {             \
        call_;                  \
        return part_;           \
    }
static const char *wrong_option(int i, tp_graph *g)
{
    int n = 0;
    tp_node *flat = tp_placeholder(g, "flat", TP_F32, tp_make_shape(TP_ANY, 10)), *x = image(g, 8, 8, 4);
    tp_node *seq = tp_placeholder(g, "seq", TP_F32, tp_make_shape(TP_ANY, 5, 6)), *blind = image(g, 8, 8, TP_ANY);
    tp_node *bytes = tp_placeholder(g, "bytes", TP_U8, tp_make_shape(TP_ANY, 8, 8, 4)), *scalar = tp_const(g, 1);
    tp_node *ids = tp_placeholder(g, "ids", TP_I32, tp_make_shape(TP_ANY)), *odd = image(g, 7, 8, 3);
    tp_node *pair = tp_placeholder(g, "pair", TP_F32, tp_make_shape(3, 10));
    tp_node *no_steps = tp_placeholder(g, "no_steps", TP_F32, tp_make_shape(TP_ANY, 0, 6));
    const tp_data_format format = (tp_data_format)9;
    const tp_padding padding = (tp_padding)7;
    tp_rnn_state both = {flat, flat};
    WRONG(i, tp_conv2d(x, "w", .filters = -1, .kernel_size = 3), "w: Conv2D needs .filters")
    WRONG(i, tp_conv2d(x, "w", .filters = 2, .kernel_size = -3), "w: Conv2D needs a .kernel_size")
    WRONG(i, tp_conv2d(x, "w", .filters = 2, .kernel_size = 3, .kernel_size_w = -1), "w: Conv2D needs a .kernel_size")
    WRONG(i, tp_conv2d(x, "w", .filters = 2, .kernel_size = 3, .strides = -2), "w: Conv2D has .strides -2")
    WRONG(i, tp_conv2d(x, "w", .filters = 2, .kernel_size = 3, .dilation_rate = -2),
          "w: Conv2D has a negative .dilation_rate")
    WRONG(i, tp_conv2d(x, "w", .filters = 2, .kernel_size = 3, .padding = padding), "w: Conv2D has .padding 7")
    WRONG(i, tp_conv2d(x, "w", .filters = 2, .kernel_size = 3, .data_format = format), "w: Conv2D has .data_format 9")
    WRONG(i, tp_conv2d(x, "w", .filters = 2, .kernel_size = 9, .padding = TP_VALID),
          "w: input is (?,8,8,4), Conv2D has .kernel_size (9,9), which is larger")
    WRONG(i, tp_conv2d(x, "w", .filters = 2, .kernel_size = 4, .padding = TP_VALID, .dilation_rate = 3),
          "Conv2D has .kernel_size (4,4), which is larger")
    WRONG(i, tp_conv2d(x, "w", .filters = 3, .kernel_size = 3, .split = 2), "w: Conv2D has .split 2")
    WRONG(i, tp_conv2d(x, "w", .filters = 3, .kernel_size = 3, .split = -1), "w: Conv2D has .split -1")
    WRONG(i, tp_conv2d(blind, "w", .filters = 3, .kernel_size = 3),
          "w: input is (?,8,8,?), Conv2D needs to know its channels")
    WRONG(i, tp_conv2d(bytes, "w", .filters = 3, .kernel_size = 3), "w: input is uint8, Conv2D needs floating values")
    WRONG(i, tp_conv2d_transpose(x, "w", .kernel_size = 3), "w: Conv2DTranspose needs .filters")
    WRONG(i, tp_conv2d_transpose(x, "w", .filters = 3), "w: Conv2DTranspose needs a .kernel_size")
    WRONG(i, tp_conv2d_transpose(x, "w", .filters = 3, .kernel_size = 3, .strides = 1, .strides_w = -1),
          "w: Conv2DTranspose has .strides -1")
    WRONG(i, tp_conv2d_transpose(x, "w", .filters = 3, .kernel_size = 3, .padding = padding),
          "w: Conv2DTranspose has .padding 7")
    WRONG(i, tp_conv2d_transpose(flat, "w", .filters = 3, .kernel_size = 3),
          "w: input is (?,10), Conv2DTranspose needs 4 dimensions")
    WRONG(i, tp_conv2d_transpose(blind, "w", .filters = 3, .kernel_size = 3),
          "Conv2DTranspose needs to know its channels")
    WRONG(i, tp_conv2d_transpose(x, "w", .filters = 3, .kernel_size = 3, .strides_w = 2),
          "w: Conv2DTranspose has .strides_w but no .strides")
    WRONG(i, tp_depthwise_conv2d(x, "w"), "w: DepthwiseConv2D needs a .kernel_size")
    WRONG(i, tp_depthwise_conv2d(x, "w", .kernel_size = 3, .depth_multiplier = -1),
          "w: DepthwiseConv2D has .depth_multiplier -1")
    WRONG(i, tp_depthwise_conv2d(x, "w", .kernel_size = 9, .padding = TP_VALID),
          "DepthwiseConv2D has .kernel_size (9,9)")
    WRONG(i, tp_depthwise_conv2d(seq, "w", .kernel_size = 3), "w: input is (?,5,6), DepthwiseConv2D needs 4 dimensions")
    WRONG(i, tp_fully_connected(x, "w", .units = -4), "w: FullyConnected needs .units")
    WRONG(i, tp_fully_connected(scalar, "w", .units = 4), "w: input is a scalar, FullyConnected needs (B,...)")
    WRONG(i, tp_fully_connected(ids, "w", .units = 4), "w: input is int32, FullyConnected needs floating values")
    WRONG(i, tp_max_pooling(x, "w", .pool_size = -2), "w: MaxPooling needs a .pool_size")
    WRONG(i, tp_max_pooling(x, "w", .pool_size = 2, .strides = -2), "w: MaxPooling has negative .strides")
    WRONG(i, tp_max_pooling(x, "w", .pool_size = 9),
          "w: input is (?,8,8,4), MaxPooling has .pool_size (9,9), which is larger")
    WRONG(i, tp_avg_pooling(x, "w", .pool_size = 2, .padding = padding), "w: AvgPooling has .padding 7")
    WRONG(i, tp_avg_pooling(x, "w", .pool_size = 2, .data_format = format), "w: AvgPooling has .data_format 9")
    WRONG(i, tp_avg_pooling(seq, "w", .pool_size = 2), "w: input is (?,5,6), AvgPooling needs 4 dimensions")
    WRONG(i, tp_avg_pooling(x, "w", .pool_size = 2, .pool_size_w = 9),
          "w: input is (?,8,8,4), AvgPooling has .pool_size (2,9)")
    WRONG(i, tp_global_avg_pooling(flat, "w"), "w: input is (?,10), GlobalAvgPooling needs 4 dimensions")
    WRONG(i, tp_global_avg_pooling(x, "w", .data_format = format), "w: GlobalAvgPooling has .data_format 9")
    WRONG(i, tp_fixed_unpooling(x, "w"), "w: FixedUnPooling needs a .shape")
    WRONG(i, tp_fixed_unpooling(x, "w", .shape = 2, .shape_w = -1), "w: FixedUnPooling needs a .shape")
    WRONG(i, tp_fixed_unpooling(x, "w", .shape = 3, .unpool_mat = pair),
          "w: FixedUnPooling has .unpool_mat (3,10), its .shape is (3,3)")
    WRONG(i, tp_fixed_unpooling(flat, "w", .shape = 3), "w: input is (?,10), FixedUnPooling needs 4 dimensions")
    WRONG(i, tp_caffe_bilinear_upsample(x, "w", .shape = -2), "w: CaffeBilinearUpSample needs a .shape")
    WRONG(i, tp_caffe_bilinear_upsample(seq, "w", .shape = 2), "CaffeBilinearUpSample needs 4 dimensions")
    WRONG(i, tp_batch_norm(seq, "w"), "w: input is (?,5,6), BatchNorm needs 2 dimensions (B,C) or 4")
    WRONG(i, tp_batch_norm(x, "w", .axis = 2), "w: BatchNorm has .axis 2")
    WRONG(i, tp_batch_norm(x, "w", .ema_update = (tp_ema_update)9), "w: BatchNorm has .ema_update 9")
    WRONG(i, tp_batch_norm(blind, "w"), "w: input is (?,8,8,?), BatchNorm needs to know its channels")
    WRONG(i, tp_batch_norm(pair, "w", .virtual_batch_size = 2),
          "w: input is (3,10), BatchNorm has .virtual_batch_size 2, which must divide the batch")
    WRONG(i, tp_batch_norm(flat, "w", .virtual_batch_size = -2), "BatchNorm has .virtual_batch_size -2")
    WRONG(i, tp_batch_norm(image(g, 8, TP_ANY, 4), "w", .virtual_batch_size = 2),
          "BatchNorm with .virtual_batch_size needs to know every dimension but the batch")
    WRONG(i, tp_batch_renorm(seq, "w", .rmax = 2, .dmax = 2), "w: input is (?,5,6), BatchRenorm needs 4 dimensions")
    WRONG(i, tp_batch_renorm(x, "w", .dmax = 2), "w: BatchRenorm needs an .rmax of 1 or more")
    WRONG(i, tp_batch_renorm(x, "w", .rmax = 2, .dmax = 2, .dmax_node = x),
          "w: BatchRenorm has both .dmax and .dmax_node: give one of them")
    WRONG(i, tp_concat_with(x, "w", .tensor = x, .tensors = &x, .n_tensors = 1, .dim = 1),
          "ConcatWith has both .tensor and .tensors: give one of them")
    WRONG(i, tp_batch_renorm(x, "w", .rmax = 0.5f, .dmax = 2), "w: BatchRenorm needs an .rmax of 1 or more")
    WRONG(i, tp_batch_renorm(x, "w", .rmax = 2), "w: BatchRenorm needs an .rmax of 1 or more and a .dmax")
    WRONG(i, tp_layer_norm(seq, "w"), "w: input is (?,5,6), LayerNorm needs 4 dimensions")
    WRONG(i, tp_layer_norm(blind, "w"), "w: input is (?,8,8,?), LayerNorm needs to know its channels")
    WRONG(i, tp_layer_norm(x, "w", .data_format = format), "w: LayerNorm has .data_format 9")
    WRONG(i, tp_layer_norm(ids, "w"), "LayerNorm needs 4 dimensions")
    WRONG(i, tp_instance_norm(flat, "w"), "w: input is (?,10), InstanceNorm needs 4 dimensions")
    WRONG(i, tp_instance_norm(bytes, "w"), "w: input is uint8, InstanceNorm needs floating values")
    WRONG(i, tp_group_norm(x, "w"), "w: GroupNorm has 32 groups, which do not divide its 4 channels")
    WRONG(i, tp_group_norm(x, "w", .groups = -2), "w: GroupNorm has .groups -2")
    WRONG(i, tp_group_norm(flat, "w", .groups = 2), "w: input is (?,10), GroupNorm needs 4 dimensions")
    WRONG(i, tp_dropout(x, "w", .rate = -0.5f), "w: Dropout drops a fraction -0.5")
    WRONG(i, tp_dropout(ids, "w"), "w: input is int32, Dropout needs floating values")
    WRONG(i, tp_prelu(ids, "w"), "w: input is int32, PReLU needs floating values")
    WRONG(i, tp_maxout(x, "w"), "w: input is (?,8,8,4), Maxout has .num_unit 0")
    WRONG(i, tp_maxout(x, "w", .num_unit = 3),
          "w: input is (?,8,8,4), Maxout has .num_unit 3, which must divide its channels")
    WRONG(i, tp_maxout(seq, "w", .num_unit = 3), "w: input is (?,5,6), Maxout needs (B,C) or (B,H,W,C)")
    WRONG(i, tp_concat_with(x, "w", .tensor = x), "w: ConcatWith needs .dim")
    WRONG(i, tp_concat_with(x, "w", .dim = 1), "w: ConcatWith needs either .tensor or .tensors")
    WRONG(i, tp_concat_with(x, "w", .tensor = flat, .dim = 1), "w/")
    WRONG(i, tp_softmax_layer(ids, "w"), "w: input is int32, SoftMax needs floating values")
    WRONG(i, tp_softmax_layer(x, "w", .temperature_init = -1), "w: SoftMax has .temperature_init -1")
    WRONG(i, tp_embedding(ids, "w", .units = 3), "w: Embedding needs .vocab and .units")
    WRONG(i, tp_embedding(ids, "w", .vocab = 3, .units = -3), "w: Embedding needs .vocab and .units")
    WRONG(i, tp_embedding(flat, "w", .vocab = 3, .units = 3), "w: input is float32, Embedding needs int32 or int64")
    WRONG(i, tp_lstm(seq, "w"), "w: LSTM needs .units")
    WRONG(i, tp_lstm(flat, "w", .units = 3), "w: input is (?,10), LSTM needs (B,T,C)")
    WRONG(i, tp_gru(seq, "w", .units = -3), "w: GRU needs .units")
    WRONG(i, tp_gru(ids, "w", .units = 3), "w: input is int32, GRU needs floating values")
    WRONG(i, tp_basic_lstm_cell(seq, "w", .units = 3), "w: input is (?,5,6), BasicLSTMCell needs (B,C)")
    WRONG(i, tp_gru_cell(flat, "w"), "w: GRUCell needs .units")
    WRONG(i, tp_multi_head_attention(seq, "w"),
          "w: MultiHeadAttention needs .heads, the number of its heads, which divides its 6 units")
    WRONG(i, tp_multi_head_attention(seq, "w", .heads = -2), "w: MultiHeadAttention has .heads -2")
    WRONG(i, tp_gru(seq, "w", .units = 3, .forget_bias = 1), "w: GRU has a .forget_bias, which only an LSTM has")
    WRONG(i, tp_gru_cell(flat, "w", .units = 3, .forget_bias = TP_ZERO),
          "w: GRUCell has a .forget_bias, which only an LSTM has")
    WRONG(i, tp_gru_cell(flat, "w", .units = 3, .time_major = TP_YES),
          "w: GRUCell has .time_major, but it takes one step, (B,C): leave it out")
    WRONG(i, tp_basic_lstm_cell(flat, "w", .units = 3, .time_major = TP_YES), "w: BasicLSTMCell has .time_major")
    WRONG(i, tp_lstm(no_steps, "w", .units = 3),
          "w: input is (?,0,6): the sequences have 0 steps, and LSTM without a .state needs one at least")
    WRONG(i, tp_gru(no_steps, "w", .units = 3),
          "w: input is (?,0,6): the sequences have 0 steps, and GRU without a .state needs one at least")
    WRONG(i, tp_gru(seq, "w", .units = 10, .state = &both), "w: GRU has a state c, which only an LSTM has")
    WRONG(i, tp_multi_head_attention(seq, "w", .heads = 4),
          "w: MultiHeadAttention has .heads 4, which must divide its 6 units")
    WRONG(i, tp_multi_head_attention(flat, "w", .heads = 2, .units = 4),
          "w: input is (?,10), MultiHeadAttention needs (B,T,C)")
    WRONG(i, tp_multi_head_attention(seq, "w", .heads = 2, .key = flat),
          "w: input is (?,10), MultiHeadAttention needs (B,T,C)")
    WRONG(i, tp_multi_head_attention(seq, "w", .heads = 2, .mask = tp_placeholder(g, "m", TP_F32, tp_make_shape(2, 4))),
          "w: MultiHeadAttention has a .mask of shape (2,4), which must be (B,S) or (B,T,S): the queries are (B,T,6), "
          "here (?,5,6), the keys (B,S,6), here (?,5,6)")
    WRONG(i, tp_multi_head_attention(seq, "w", .heads = 2, .mask = tp_placeholder(g, "m", TP_F32, tp_make_shape(5))),
          "w: MultiHeadAttention has a .mask of shape (5)")
    WRONG(i, tp_multi_head_attention(seq, "w", .heads = 2, .mask = tp_placeholder(g, "m", TP_F32, tp_make_shape(2, 1))),
          "w: MultiHeadAttention has a .mask of shape (2,1)")
    WRONG(i,
          tp_multi_head_attention(seq, "w", .heads = 2, .mask = tp_placeholder(g, "m", TP_F32, tp_make_shape(2, 4, 5))),
          "w: MultiHeadAttention has a .mask of shape (2,4,5)")
    WRONG(i, tp_bn_relu(seq, "w"), "w/bn: input is (?,5,6), BatchNorm needs")
    WRONG(i, tp_depth_to_space(odd, 2, TP_NHWC),
          "depth_to_space: input is (?,7,8,3), whose channels are no multiple of the block, 2")
    WRONG(i, tp_space_to_depth(odd, 2, TP_NHWC),
          "space_to_depth: input is (?,7,8,3), whose height and width are no multiple")
    WRONG(i, tp_depth_to_space(seq, 2, TP_NHWC), "depth_to_space: input is (?,5,6), it needs 4 dimensions")
    WRONG(i, (tp_tower_leave(g), tp_batch_renorm(x, "w", .rmax = 2, .dmax = 2)),
          "w: BatchRenorm is used outside a tower")
    return NULL;
}

TEST(each_wrong_option_of_each_layer_is_a_sentence)
{
    for (int i = 0;; i++) {
        tp_graph *g = tower(true);
        const char *part = wrong_option(i, g);
        if (part) {
            CHECK_MSG(tp_graph_status(g) < 0, "%d (%s) was not noticed", i, part);
            CHECK_HAS(tp_graph_error(g), part);
        }
        done(g);
        if (!part) {
            CHECK(i == 105);
            break;
        }
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
            tp_tower_desc d = {.is_training = true};
            tp_node *y = NULL;
            if (tp_tower_enter(g, &d)) {
                tp_node *x = image(g, 4, 4, 1),
                        *other = tp_placeholder(g, "other", TP_F32, tp_make_shape(TP_ANY, 24, 24, 1));
                TP_ARGSCOPE(g, (conv2d, batch_norm), .data_format = TP_NHWC)
                {
                    y = tp_linear(x, TP_CONV2D("c", .filters = 2, .kernel_size = 3, .activation = tp_bn_relu),
                                  TP_CONV2D_TRANSPOSE("up", .filters = 2, .kernel_size = 3, .padding = TP_VALID),
                                  TP_BATCH_NORM("ghost", .virtual_batch_size = 2), TP_GROUP_NORM("gn", .groups = 2),
                                  TP_BATCH_RENORM("br", .rmax = 2, .dmax = 2), TP_FIXED_UNPOOLING("un", .shape = 2),
                                  TP_CAFFE_BILINEAR_UPSAMPLE("bi", .shape = 2),
                                  TP_CONCAT_WITH("cat", .tensor = other, .dim = -1), TP_DROPOUT("d"),
                                  TP_FULLY_CONNECTED("fc", .units = 2));
                }
                tp_node *seq = tp_placeholder(g, "seq", TP_F32, tp_make_shape(TP_ANY, 3, 2));
                tp_linear(seq, TP_GRU("gru", .units = 2), TP_MULTI_HEAD_ATTENTION("att", .heads = 2));
                tp_regularize_cost(g, "W", tp_l2_regularizer(1), NULL);
                tp_tower_leave(g);
            }
            failed = tp_test_alloc_failed();
            CHECK(failed ? tp_graph_status(g) == TP_ERR_NOMEM || !tp_is_poison(y) : tp_graph_status(g) == TP_OK);
        } else {
            failed = tp_test_alloc_failed();
            CHECK(failed);
        }
        tp_graph_free(g);
        CHECK(tp_test_live_blocks() == 0);
    }
    tp_test_alloc_reset();
    tp_set_log(NULL, NULL);
}

/* ==== what each layer makes =========================================================================== */

/* y's shape, and the variables in the order in which they were made: name, shape, "!" if it is not trained. */
static void made(int line, tp_graph *g, const tp_node *y, const char *shape, const char *vars)
{
    char t[TP_SHAPE_TEXT], got[2048] = "";
    if (!CHECK_MSG(tp_graph_status(g) == TP_OK, "line %d: %s", line, tp_graph_error(g))) return;
    CHECK_MSG(strcmp(tp_shape_text(&y->shape, t), shape) == 0, "line %d: shape %s, expected %s", line, t, shape);
    for (int i = 0; i < tp_graph_n_variables(g); i++) {
        const tp_variable *v = tp_graph_variable(g, i);
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s%s%s", *got ? " " : "", v->name,
                 tp_shape_text(&v->shape, t), v->trainable ? "" : "!");
    }
    CHECK_MSG(strcmp(got, vars) == 0, "line %d: variables %s, expected %s", line, got, vars);
}

/* Of a graph of its own, with inputs to choose from. */
#define MAKES(shape_, vars_, ...)                                                                      \
    do {                                                                                               \
        tp_graph *g = tower(true);                                                                     \
        tp_node *x = image(g, 8, 8, 4), *chw = image(g, 4, 8, 6), *open = image(g, TP_ANY, TP_ANY, 4); \
        tp_node *flat = tp_placeholder(g, "flat", TP_F32, tp_make_shape(TP_ANY, 10));                  \
        tp_node *seq = tp_placeholder(g, "seq", TP_F32, tp_make_shape(TP_ANY, 5, 6));                  \
        tp_node *ids = tp_placeholder(g, "ids", TP_I32, tp_make_shape(TP_ANY));                        \
        (void)x, (void)chw, (void)open, (void)flat, (void)seq, (void)ids;                              \
        made(__LINE__, g, __VA_ARGS__, shape_, vars_);                                                 \
        done(g);                                                                                       \
    } while (0)

TEST(convolutions_and_poolings_make_this)
{
    MAKES("(?,8,8,7)", "w/W(3,3,4,7) w/b(7)", tp_conv2d(x, "w", .filters = 7, .kernel_size = 3));
    MAKES("(?,1,1,7)", "w/W(8,8,4,7) w/b(7)", tp_conv2d(x, "w", .filters = 7, .kernel_size = 8, .padding = TP_VALID));
    MAKES("(?,1,6,7)", "w/W(8,3,4,7) w/b(7)",
          tp_conv2d(x, "w", .filters = 7, .kernel_size = 8, .kernel_size_w = 3, .padding = TP_VALID));
    MAKES("(?,6,1,7)", "w/W(3,8,4,7) w/b(7)",
          tp_conv2d(x, "w", .filters = 7, .kernel_size = 3, .kernel_size_w = 8, .padding = TP_VALID));
    MAKES("(?,2,6,7)", "w/W(3,3,4,7) w/b(7)",
          tp_conv2d(x, "w", .filters = 7, .kernel_size = 3, .padding = TP_VALID, .dilation_rate = 3,
                    .dilation_rate_w = 1));
    MAKES("(?,1,1,7)", "w/W(2,2,4,7) w/b(7)",
          tp_conv2d(x, "w", .filters = 7, .kernel_size = 2, .padding = TP_VALID, .dilation_rate = 7));
    MAKES("(?,4,3,7)", "w/W(3,3,4,7) w/b(7)",
          tp_conv2d(x, "w", .filters = 7, .kernel_size = 3, .strides = 2, .strides_w = 3));
    MAKES("(?,3,3,7)", "w/W(3,3,4,7)",
          tp_conv2d(x, "w", .filters = 7, .kernel_size = 3, .strides = 3, .use_bias = TP_NO));
    MAKES("(?,8,8,8)", "w/W(1,1,1,8) w/b(8)", tp_conv2d(x, "w", .filters = 8, .kernel_size = 1, .split = 4));
    MAKES("(?,7,4,3)", "w/W(2,4,4,7) w/b(7)",
          tp_conv2d(chw, "w", .filters = 7, .kernel_size = 2, .kernel_size_w = 4, .strides = 2, .data_format = TP_NCHW,
                    .padding = TP_SAME));
    MAKES("(?,?,?,7)", "w/W(9,9,4,7) w/b(7)",
          tp_conv2d(open, "w", .filters = 7, .kernel_size = 9, .padding = TP_VALID));
    MAKES("(?,8,8,2)", "w/W(1,1,4,2) w/bn/gamma(2) w/bn/beta(2) w/bn/mean/EMA(2)! w/bn/variance/EMA(2)!",
          tp_conv2d(x, "w", .filters = 2, .kernel_size = 1, .use_bias = TP_NO, .activation = tp_bn_relu));
    MAKES("(?,16,24,5)", "w/W(3,3,5,4) w/b(5)",
          tp_conv2d_transpose(x, "w", .filters = 5, .kernel_size = 3, .strides = 2, .strides_w = 3));
    MAKES("(?,17,16,5)", "w/W(3,1,5,4) w/b(5)",
          tp_conv2d_transpose(x, "w", .filters = 5, .kernel_size = 3, .kernel_size_w = 1, .strides = 2,
                              .padding = TP_VALID));
    MAKES("(?,16,17,5)", "w/W(1,3,5,4) w/b(5)",
          tp_conv2d_transpose(x, "w", .filters = 5, .kernel_size = 1, .kernel_size_w = 3, .strides = 2,
                              .padding = TP_VALID));
    MAKES("(?,10,12,4)", "w/W(3,5,4,4)",
          tp_conv2d_transpose(x, "w", .filters = 4, .kernel_size = 3, .kernel_size_w = 5, .padding = TP_VALID,
                              .use_bias = TP_NO));
    MAKES("(?,5,16,12)", "w/W(2,2,5,4) w/b(5)",
          tp_conv2d_transpose(chw, "w", .filters = 5, .kernel_size = 2, .strides = 2, .data_format = TP_NCHW));
    MAKES("(?,8,8,4)", "w/W(3,3,4,1)", tp_depthwise_conv2d(x, "w", .kernel_size = 3));
    MAKES(
        "(?,1,1,12)", "w/W(8,8,4,3) w/b(12)",
        tp_depthwise_conv2d(x, "w", .kernel_size = 8, .depth_multiplier = 3, .use_bias = TP_YES, .padding = TP_VALID));
    MAKES("(?,8,8,3)", "w/W(2,3,4,2)",
          tp_depthwise_conv2d(chw, "w", .kernel_size = 2, .kernel_size_w = 3, .depth_multiplier = 2, .strides_w = 2,
                              .strides = 1, .data_format = TP_NCHW));
    MAKES("(?,4,4,4)", "", tp_max_pooling(x, "w", .pool_size = 2));
    MAKES("(?,1,1,4)", "", tp_max_pooling(x, "w", .pool_size = 8));
    MAKES("(?,4,2,4)", "", tp_avg_pooling(x, "w", .pool_size = 2, .pool_size_w = 4));
    MAKES("(?,3,3,4)", "", tp_max_pooling(x, "w", .pool_size = 2, .strides = 3));
    MAKES("(?,3,7,4)", "", tp_avg_pooling(x, "w", .pool_size = 2, .strides = 3, .strides_w = 1));
    MAKES("(?,8,8,4)", "", tp_max_pooling(x, "w", .pool_size = 9, .strides = 1, .padding = TP_SAME));
    MAKES("(?,4,4,3)", "", tp_avg_pooling(chw, "w", .pool_size = 2, .data_format = TP_NCHW));
    MAKES("(?,4)", "", tp_global_avg_pooling(x, "w"));
    MAKES("(?,4)", "", tp_global_avg_pooling(chw, "w", .data_format = TP_NCHW));
    MAKES("(?,16,24,4)", "", tp_fixed_unpooling(x, "w", .shape = 2, .shape_w = 3));
    MAKES("(?,4,8,6)", "", tp_fixed_unpooling(chw, "w", .shape = 1, .data_format = TP_NCHW));
    MAKES("(?,8,8,4)", "", tp_caffe_bilinear_upsample(x, "w", .shape = 1));
    MAKES("(?,4,24,18)", "", tp_caffe_bilinear_upsample(chw, "w", .shape = 3, .data_format = TP_NCHW));
}

TEST(the_other_layers_make_this)
{
    const float any = 1.5f;
    MAKES("(?,3)", "w/W(256,3) w/b(3)", tp_fully_connected(x, "w", .units = 3));
    MAKES("(?,3)", "w/W(10,3)", tp_fully_connected(flat, "w", .units = 3, .use_bias = TP_NO));
    MAKES("(?,3)", "w/W(1,3) w/b(3)", tp_fully_connected(tp_cast(ids, TP_F32), "w", .units = 3));
    MAKES("(?,8,8,4)", "w/gamma(4) w/beta(4) w/mean/EMA(4)! w/variance/EMA(4)!", tp_batch_norm(x, "w"));
    MAKES("(?,10)", "w/mean/EMA(10)! w/variance/EMA(10)!", tp_batch_norm(flat, "w", .scale = TP_NO, .center = TP_NO));
    MAKES("(?,4,8,6)", "w/gamma(4) w/mean/EMA(4)! w/variance/EMA(4)!",
          tp_batch_norm(chw, "w", .data_format = TP_NCHW, .center = TP_NO));
    MAKES("(?,4,8,6)", "w/beta(6) w/mean/EMA(6)! w/variance/EMA(6)!",
          tp_batch_norm(chw, "w", .axis = 3, .scale = TP_NO, .data_format = TP_NCHW));
    MAKES("(?,8,8,4)", "w/gamma(8) w/beta(8) w/mean/EMA(8)! w/variance/EMA(8)!", tp_batch_norm(x, "w", .axis = 1));
    MAKES("(?,8,8,4)", "", tp_dropout(x, "w", .rate = TP_ZERO));
    MAKES("(?,8,8,4)", "", tp_dropout(x, "w", .keep_prob = 1));
    MAKES("(?,10)", "w/gamma(10) w/beta(10)", tp_layer_norm(flat, "w"));
    MAKES("(?,4,8,6)", "w/gamma(4)", tp_layer_norm(chw, "w", .data_format = TP_NCHW, .center = TP_NO));
    MAKES("(?,8,8,4)", "w/beta(4)", tp_instance_norm(x, "w", .scale = TP_NO));
    MAKES("(?,8,8,4)", "w/gamma(4) w/beta(4)", tp_group_norm(x, "w", .groups = 4));
    MAKES("(?,4,8,6)", "w/gamma(4) w/beta(4)", tp_group_norm(chw, "w", .groups = 1, .data_format = TP_NCHW));
    MAKES("(?,10)",
          "w/moving_mean(10)! w/moving_variance(10)! w/renorm_mean(10)! w/renorm_mean_weight()! w/renorm_stddev(10)! "
          "w/renorm_stddev_weight()! w/gamma(10) w/beta(10)",
          tp_batch_renorm(flat, "w", .rmax = 1, .dmax = TP_ZERO));
    MAKES("(?,10)", "w/alpha()", tp_prelu(flat, "w"));
    MAKES("(?,8,8,2)", "", tp_maxout(x, "w", .num_unit = 2));
    MAKES("(?,1)", "", tp_maxout(flat, "w", .num_unit = 10));
    MAKES("(?,10)", "", tp_maxout(flat, "w", .num_unit = 1));
    MAKES("(?,20)", "", tp_concat_with(flat, "w", .tensor = flat, .dim = 1));
    MAKES("(?,8,8,12)", "", tp_concat_with(x, "w", .tensors = (tp_node *[]){x, x}, .n_tensors = 2, .dim = -1));
    MAKES("(?,10)", "", tp_softmax_layer(flat, "w"));
    MAKES("(?,10)", "w/invtemp()", tp_softmax_layer(flat, "w", .use_temperature = TP_YES, .temperature_init = any));
    MAKES("(?,5)", "w/W(9,5)", tp_embedding(ids, "w", .vocab = 9, .units = 5));
    MAKES("(?,5,3)", "w/kernel(9,12) w/bias(12)", tp_lstm(seq, "w", .units = 3));
    MAKES("(?,5,3)", "w/kernel(9,12) w/bias(12)", tp_lstm(seq, "w", .units = 3, .time_major = TP_YES));
    MAKES("(?,5,3)", "w/gates/kernel(9,6) w/gates/bias(6) w/candidate/kernel(9,3) w/candidate/bias(3)",
          tp_gru(seq, "w", .units = 3));
    MAKES("(?,3)", "w/kernel(13,12) w/bias(12)", tp_basic_lstm_cell(flat, "w", .units = 3));
    MAKES("(?,3)", "w/gates/kernel(13,6) w/gates/bias(6) w/candidate/kernel(13,3) w/candidate/bias(3)",
          tp_gru_cell(flat, "w", .units = 3));
    MAKES("(?,5,6)", "w/Wq(6,6) w/bq(6) w/Wk(6,6) w/bk(6) w/Wv(6,6) w/bv(6) w/Wo(6,6) w/bo(6)",
          tp_multi_head_attention(seq, "w", .heads = 6));
    MAKES("(?,5,4)", "w/Wq(6,4) w/Wk(6,4) w/Wv(6,4) w/Wo(4,4)",
          tp_multi_head_attention(seq, "w", .heads = 1, .units = 4, .use_bias = TP_NO));
    MAKES("(?,16,16,1)", "", tp_depth_to_space(x, 2, TP_NHWC));
    MAKES("(?,1,16,12)", "", tp_depth_to_space(chw, 2, TP_NCHW));
    MAKES("(?,4,4,16)", "", tp_space_to_depth(x, 2, TP_NHWC));
    MAKES("(?,16,4,3)", "", tp_space_to_depth(chw, 2, TP_NCHW));
    MAKES("(?,8,8,4)", "", tp_space_to_depth(x, 1, TP_NHWC));
}

/* Two layers with the same weights, of which one has a mask, of each type, over sequences whose sizes only the run knows. A mask of
 * ones hides nothing: the results agree. Hidden elements have no influence: neither has a derivative, nor changes what a visible
 * one gives. */
static void a_mask_of_attention(tp_dtype dtype, bool causal)
{
    enum { B = 2, T = 5, C = 6, SEEN = 3 };
    tp_graph *g = tower(true);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, TP_ANY, C)),
            *mask = tp_placeholder(g, "mask", dtype, tp_make_shape(TP_ANY, TP_ANY)), *fetch[3], *dx = NULL;
    fetch[0] = tp_multi_head_attention(x, "att", .heads = 2, .causal = causal ? TP_YES : TP_NO);
    const tp_variable_scope_desc again = {.reuse = TP_REUSE_YES};
    tp_variable_scope_push(g, &again);
    fetch[1] = tp_multi_head_attention(x, "att", .heads = 2, .causal = causal ? TP_YES : TP_NO, .mask = mask);
    tp_variable_scope_pop(g);
    tp_node *seen = tp_slice(fetch[1], (const int64_t[]){0, 0, 0}, (const int64_t[]){-1, SEEN, -1});
    tp_gradients(tp_sum(tp_square(seen)), &x, 1, &dx);
    fetch[2] = dx;
    shape_is(fetch[1], "(?,?,6)");
    ok(g);
    tp_tower_leave(g);
    tp_session *s = tp_session_new(g, NULL);
    float data[B * T * C];
    double first[B * SEEN * C];
    tp_feed feed[2] = {{x, {0}}, {mask, {0}}};
    for (int i = 0; i < B * T * C; i++) data[i] = (float)((i * 37) % 23) / 8 - 1;
    tp_tensor_view(&feed[0].value, TP_F32, tp_make_shape(B, T, C), data);
    if (!CHECK(s != NULL) || !CHECK_OK(tp_tensor_resize(&feed[1].value, dtype, tp_make_shape(B, T)))) return;
    for (int hides = 0; hides < 3; hides++) { /* nothing; the last elements; the same ones with other values */
        const tp_tensor *v[3];
        for (int i = 0; i < B * T; i++) tp_tensor_set(&feed[1].value, i, !hides || i % T < SEEN);
        for (int i = 0; hides == 2 && i < B * T * C; i++)
            if (i / C % T >= SEEN) data[i] = 9 - data[i];
        if (!CHECK_OK(tp_session_run(s, feed, 2, fetch, 3, v))) break;
        for (int i = 0; i < B * T * C; i++) {
            const int t = i / C % T, at = i / (T * C) * SEEN * C + i % (T * C);
            const double y = tp_tensor_get(v[1], i);
            if (hides == 0) CHECK_NEAR(y, tp_tensor_get(v[0], i), 1e-6, 1e-5);
            else if (t >= SEEN) CHECK(tp_tensor_get(v[2], i) == 0);
            else if (hides == 1) first[at] = y;
            else CHECK(y == first[at]);
            if (hides == 1 && t == SEEN - 1) CHECK(tp_tensor_get(v[2], i) != 0);
            if (hides == 1 && t == 0 && !causal) CHECK(y != tp_tensor_get(v[0], i));
        }
    }
    tp_tensor_free(&feed[1].value);
    tp_session_free(s);
    done(g);
}
TEST(masks_of_attention)
{
    static const tp_dtype dtypes[] = {TP_F32, TP_I32, TP_BOOL, TP_U8, TP_F16};
    for (int i = 0; i < 2 * TP_COUNT(dtypes); i++) a_mask_of_attention(dtypes[i / 2], i % 2 != 0);
}

/* A query whose keys are all hidden gets the mean of the values, in each precision; 1e30 is more than a float16 holds. */
TEST(queries_whose_keys_are_all_hidden)
{
    static const tp_precision precisions[] = {TP_PRECISION_F32, TP_PRECISION_F16, TP_PRECISION_BF16};
    for (int i = 0; i < TP_COUNT(precisions); i++) {
        tp_graph *g = tower(false);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(1, 4, 2)), *none = tp_zeros_like(tp_const(g, 0)), *y;
        none = tp_reshape(tp_tile(tp_reshape(none, 1, 1), (const int64_t[]){1, 4}), 1, 4);
        y = tp_multi_head_attention(x, "att", .heads = 1, .mask = none, .use_bias = TP_NO);
        ok(g);
        tp_session *s = tp_session_new(g, &(tp_session_config){.precision = precisions[i]});
        static const float data[8] = {1, 2, 3, -4, -5, 6, 3, 0}, unit[4] = {1, 0, 0, 1};
        static const char *const names[] = {"att/Wq", "att/Wk", "att/Wv", "att/Wo"};
        tp_feed feed = {x, {0}};
        tp_tensor w;
        memset(&w, 0, sizeof w);
        tp_tensor_view(&w, TP_F32, tp_make_shape(2, 2), unit);
        tp_tensor_view(&feed.value, TP_F32, tp_make_shape(1, 4, 2), data);
        const tp_tensor *out = NULL;
        for (int k = 0; k < 4 && CHECK(s != NULL); k++) CHECK_OK(tp_session_load(s, tp_find_variable(g, names[k]), &w));
        if (s && CHECK_OK(tp_session_run(s, &feed, 1, &y, 1, &out)))
            for (int e = 0; e < 8; e++) CHECK_NEAR(tp_tensor_get(out, e), e % 2 ? 1.0 : 0.5, 1e-6, 0);
        tp_session_free(s);
        done(g);
    }
}

/* A layer's variables under all their keys; what is asked for in vain is compared with what there is. */
TEST(variables_of_a_layer_by_their_keys)
{
    static const char *const keys[] = {"gamma", "beta", "mean", "variance", "moving_mean", "moving_variance"};
    static const char *const names[] = {"w/gamma",        "w/beta",     "w/mean/EMA",
                                        "w/variance/EMA", "w/mean/EMA", "w/variance/EMA"};
    tp_graph *g = tower(true);
    tp_node *y = tp_batch_norm(image(g, 8, 8, 4), "w");
    for (int i = 0; i < TP_COUNT(keys); i++) CHECK_STR(tp_node_name(tp_layer_variable(y, keys[i])), names[i]);
    CHECK(ok(g) && tp_is_poison(tp_layer_variable(y, "gama")));
    CHECK_HAS(tp_graph_error(g), "layer 'w' has no variable 'gama'; did you mean 'gamma'?");
    done(g);
    g = tower(true);
    y = tp_multi_head_attention(tp_placeholder(g, "seq", TP_F32, tp_make_shape(TP_ANY, 5, 6)), "att", .heads = 2);
    static const char *const of_attention[] = {"Wq", "bq", "Wk", "bk", "Wv", "bv", "Wo", "bo"};
    for (int i = 0; i < TP_COUNT(of_attention); i++) {
        char name[16];
        snprintf(name, sizeof name, "att/%s", of_attention[i]);
        CHECK_STR(tp_node_name(tp_layer_variable(y, of_attention[i])), name);
    }
    CHECK(ok(g) && tp_is_poison(tp_layer_variable(y, "zzzzzzzz")));
    CHECK(strstr(tp_graph_error(g), "did you mean") == NULL);
    done(g);
}

/* ==== element types, towers and losses ================================================================ */

/* Normalising layers keep float64 in float64 and float16's variables in float32, training or not. */
TEST(normalisation_of_every_element_type)
{
    static const tp_dtype dtypes[] = {TP_F32, TP_F64, TP_F16, TP_BF16};
    for (int i = 0; i < 32; i++) {
        const tp_dtype dtype = dtypes[i % 4], own = dtype == TP_F64 ? TP_F64 : TP_F32;
        const bool training = i / 4 % 2 == 0, bare = i / 8 == 1;
        tp_graph *g = tower(training);
        tp_node *x = tp_placeholder(g, "x", dtype, tp_make_shape(4, 16)), *y;
        if (i / 8 == 2) y = tp_batch_renorm(x, "n", .rmax = 2, .dmax = 2);
        else if (i / 8 == 3) y = tp_batch_norm(x, "n", .virtual_batch_size = 4);
        else if (bare) y = tp_batch_norm(x, "n", .scale = TP_NO, .center = TP_NO, .ema_update = TP_EMA_INTERNAL);
        else y = tp_batch_norm(x, "n", .ema_update = TP_EMA_INTERNAL);
        int n = 0, n_model = 0;
        CHECK(ok(g) && y->dtype == dtype);
        for (int v = 0; v < tp_graph_n_variables(g); v++, n++) CHECK(tp_graph_variable(g, v)->dtype == own);
        CHECK(n == (bare ? 2 : i / 8 == 2 ? 8 : 4));
        tp_collection(g, TP_KEY_MODEL_VARIABLES, &n_model);
        CHECK(n_model == (i / 8 == 2 ? 6 : 2));
        tp_tower_leave(g);
        tp_session *s = tp_session_new(g, NULL);
        tp_tensor t;
        tp_feed f;
        const tp_tensor *out = NULL;
        memset(&t, 0, sizeof t);
        memset(&f, 0, sizeof f);
        CHECK_OK(tp_tensor_resize(&t, dtype, x->shape));
        for (int e = 0; e < 64; e++) tp_tensor_set(&t, e, (e / 16) * 2 - 3); /* -3 -1 1 3 in each channel */
        f.node = x;
        tp_tensor_view(&f.value, dtype, x->shape, t.data);
        if (CHECK(s != NULL) && CHECK_OK(tp_session_run(s, &f, 1, &y, 1, &out)))
            for (int e = 0; e < 64; e++) /* deviation sqrt(5), or what it starts from, 1 */
                CHECK_NEAR(tp_tensor_get(out, e), tp_tensor_get(&t, e) / (training ? sqrt(5.0) : 1),
                           dtype == TP_F16 || dtype == TP_BF16 ? 0.02 : 2e-5, 0);
        tp_session_free(s);
        tp_tensor_free(&t);
        done(g);
    }
}

TEST(renorm_statistics_belong_to_the_model)
{
    for (int training = 0; training < 2; training++) {
        int n = 0, updates = 0;
        tp_graph *g = tower(training);
        tp_batch_renorm(image(g, 2, 2, 3), "r", .rmax = 2, .dmax = 1);
        tp_collection(g, TP_KEY_MODEL_VARIABLES, &n);
        tp_collection(g, TP_KEY_UPDATE_OPS, &updates);
        CHECK(ok(g) && n == 6 && updates == (training ? 2 : 0));
        done(g);
    }
}

/* Weight decay is a float32, whatever the weights are; no scale, no loss; the identity is no op. */
TEST(losses_of_layers)
{
    tp_graph *g = tower(true);
    const tp_regularizer l2 = tp_l2_regularizer(0.5f), none = {l2.fn, 0};
    tp_node *x = tp_placeholder(g, "x", TP_F64, tp_make_shape(1, 2)), *h = tp_cast(x, TP_F16);
    tp_fully_connected(x, "fc64", .units = 1, .kernel_initializer = tp_init_constant(2), .use_bias = TP_NO);
    tp_fully_connected(h, "fc16", .units = 1, .kernel_initializer = tp_init_constant(3), .use_bias = TP_NO);
    tp_node *cost = tp_regularize_cost(g, "fc.*/W", l2, NULL);
    CHECK(ok(g) && cost->dtype == TP_F32);
    int losses = 0;
    const int before = tp_graph_n_operations(g);
    tp_fully_connected(x, "a", .units = 1, .use_bias = TP_NO, .activity_regularizer = none);
    tp_collection(g, TP_KEY_REGULARIZATION_LOSSES, &losses);
    const int plain = tp_graph_n_operations(g) - before;
    CHECK(losses == 0);
    tp_fully_connected(x, "b", .units = 1, .use_bias = TP_NO, .activation = tp_identity);
    CHECK(tp_graph_n_operations(g) - before == 2 * plain);
    tp_fully_connected(x, "c", .units = 1, .use_bias = TP_NO, .activity_regularizer = l2);
    tp_collection(g, TP_KEY_REGULARIZATION_LOSSES, &losses);
    CHECK(ok(g) && losses == 1);
    tp_tower_leave(g);
    CHECK_NEAR(value_of(g, cost), 0.5 * (4 + 4 + 9 + 9) / 2, 1e-6, 0);
    done(g);
}

/* Where rows are the same, or all zeros, distances have no derivative; the losses' gradients are finite all the same. */
TEST(losses_of_equal_rows_have_gradients)
{
    for (int what = 0; what < 3; what++) {
        tp_graph *g = tower(true);
        tp_node *x[3], *dx[3];
        for (int i = 0; i < 3; i++) {
            char name[16];
            snprintf(name, sizeof name, "w%d", i);
            x[i] = tp_get_variable_as(g, name, TP_F32, tp_make_shape(2, 3), tp_init_constant(what == 1 ? 0.0f : 1.5f));
        }
        tp_node *same = tp_const(g, 0), *y;
        if (what == 0) y = tp_sym_contrastive_loss(x[0], x[1], same, 1, NULL);
        else if (what == 1) y = tp_sym_siamese_cosine_loss(x[0], x[1], same, NULL);
        else y = tp_sym_soft_triplet_loss(x[0], x[1], x[2], NULL);
        tp_gradients(y, x, what == 2 ? 3 : 2, dx);
        CHECK(ok(g));
        tp_tower_leave(g);
        tp_session *s = tp_session_new(g, NULL);
        const double want[3] = {0.5 * (1 - 1e-5) * (1 - 1e-5), 0.5, log(2.0)};
        float out[6];
        if (CHECK(s != NULL)) {
            run(s, NULL, tp_make_shape(1), NULL, &y, 1, out, 1);
            CHECK_NEAR(out[0], want[what], 1e-6, 0);
            for (int i = 0; i < (what == 2 ? 3 : 2); i++) {
                run(s, NULL, tp_make_shape(1), NULL, &dx[i], 1, out, 6);
                for (int e = 0; e < 6; e++) CHECK(out[e] == 0);
            }
        }
        tp_session_free(s);
        done(g);
    }
}

static tp_node *held_twice(tp_node *x, const void *desc)
{
    (void)desc;
    tp_layer_hold(tp_node_graph(x), "W", x);
    tp_layer_hold(tp_node_graph(x), "V", x);
    tp_layer_hold(tp_node_graph(x), "W", x);
    return x;
}
static tp_node *as_it_is(tp_node *x, const void *desc)
{
    (void)desc;
    return tp_identity(x);
}

TEST(layers_of_the_users_own_at_the_limits)
{
    static const struct {
        size_t desc, offset, size, probe;
        const char *part;
    } cases[] = {{sizeof(tp_layer_head), sizeof(tp_layer_head), 0, 0, NULL},
                 {TP_LAYER_MAX_DESC, TP_LAYER_MAX_DESC - 4, 4, 4, NULL},
                 {sizeof(tp_layer_head) - 1, 0, 0, 0, "layer 'Own' cannot be registered: it needs two names"},
                 {TP_LAYER_MAX_DESC + 1, 0, 4, 4, "layer 'Own' cannot be registered: it needs two names"},
                 {100, 101, 0, 0, "layer 'Own': its option 'o' lies outside its descriptor"},
                 {100, 97, 4, 4, "layer 'Own': its option 'o' lies outside its descriptor"},
                 {100, 96, 4, 5, "layer 'Own': its option 'o' lies outside its descriptor"},
                 {100, 96, 4, 4, NULL}};
    for (int i = 0; i < TP_COUNT(cases); i++) {
        tp_graph *g = tower(true);
        tp_layer_field f;
        tp_layer_type t;
        memset(&f, 0, sizeof f);
        memset(&t, 0, sizeof t);
        f.name = "o", f.offset = cases[i].offset, f.size = cases[i].size, f.probe = cases[i].probe;
        t.name = "Own", t.c_name = "own", t.desc_size = cases[i].desc, t.fields = &f, t.n_fields = 1,
        t.build = as_it_is;
        tp_layer_register(g, &t);
        if (cases[i].part) CHECK_HAS(tp_graph_error(g), cases[i].part);
        else ok(g);
        done(g);
    }
    for (int i = 0; i < 2; i++) {
        tp_layer_type wrong = scaled_type(as_it_is);
        if (i) wrong.n_fields = -1;
        else wrong.fields = NULL;
        tp_graph *g = tower(true);
        tp_layer_register(g, &wrong);
        CHECK_HAS(tp_graph_error(g),
                  i ? "layer 'Scaled' cannot be registered: it has .n_fields -1"
                    : "layer 'Scaled' cannot be registered: it has .n_fields 1, but .fields is NULL");
        done(g);
    }
    tp_graph *g = tower(true);
    tp_layer_type t;
    tp_layer_head d;
    memset(&t, 0, sizeof t);
    memset(&d, 0, sizeof d);
    t.name = "Twice", t.c_name = "twice", t.desc_size = sizeof d, t.build = held_twice;
    d.name = "t";
    tp_layer_register(g, &t);
    CHECK(tp_is_poison(tp_layer_apply(image(g, 2, 2, 1), "Twice", &d)));
    CHECK_HAS(tp_graph_error(g), "t: the layer holds two variables named 'W'");
    done(g);
}

/* A cell's variables come into being at its first call, but not where a scope says that they are there. */
TEST(a_cell_in_a_scope_that_reuses)
{
    tp_graph *g = tower(true);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 3));
    tp_variable_scope_desc d;
    memset(&d, 0, sizeof d);
    d.name = "r";
    d.reuse = TP_REUSE_YES;
    tp_variable_scope_push(g, &d);
    CHECK(tp_is_poison(tp_gru_cell(x, "cell", .units = 2)));
    CHECK_HAS(tp_graph_error(g), "r/cell/gates/kernel");
    done(g);
}

TEST(images_of_unknown_channels_are_not_shuffled)
{
    for (int i = 0; i < 2; i++) {
        tp_graph *g = tower(true);
        CHECK(tp_is_poison(tp_depth_to_space(image(g, 4, i ? TP_ANY : 4, TP_ANY), 2, TP_NHWC)));
        CHECK_HAS(tp_graph_error(g), "?), it needs 4 dimensions and known channels");
        done(g);
    }
}

/* Images whose size is known only in the run: the values and the gradients of those whose size the graph knows. */
TEST(images_of_unknown_size_are_shuffled)
{
    for (int i = 0; i < 24; i++) {
        const bool nchw = i % 2, to_space = i / 2 % 2;
        const int64_t n = i / 4 % 2 + 2, h = to_space ? 3 : 2 * n, w = to_space ? 5 : 3 * n,
                      c = to_space ? n * n * 2 : 3, h_known = i / 8 == 1 ? h : TP_ANY,
                      w_known = i / 8 == 2 ? w : TP_ANY;
        float v[2 * 15 * 18 * 9];
        for (int e = 0; e < TP_COUNT(v); e++) v[e] = (float)(e * 7 % 1009);
        tp_graph *g = tower(true);
        tp_node *x[2], *y[2], *fetch[4], *m = NULL;
        tp_feed f[2];
        for (int k = 0; k < 2; k++) {
            const int64_t hk = k ? h_known : h, wk = k ? w_known : w;
            x[k] = tp_placeholder(g, k ? "unknown" : "known", TP_F32,
                                  nchw ? tp_make_shape(TP_ANY, c, hk, wk) : tp_make_shape(TP_ANY, hk, wk, c));
            y[k] = to_space ? tp_depth_to_space(x[k], (int)n, nchw ? TP_NCHW : TP_NHWC)
                            : tp_space_to_depth(x[k], (int)n, nchw ? TP_NCHW : TP_NHWC);
            if (k == 0) m = tp_reshape_like(tp_cumsum(tp_ones_like(tp_flatten(y[0])), 0, false, false), y[0]);
            tp_gradients(tp_sum(tp_mul(y[k], m)), &x[k], 1, &fetch[2 + k]);
            fetch[k] = y[k];
            memset(&f[k], 0, sizeof f[k]);
            f[k].node = x[k];
            tp_tensor_view(&f[k].value, TP_F32, nchw ? tp_make_shape(2, c, h, w) : tp_make_shape(2, h, w, c), v);
        }
        CHECK(y[1]->shape.ndim == 4 && y[1]->shape.dim[nchw ? 1 : 3] == y[0]->shape.dim[nchw ? 1 : 3]);
        CHECK_STR(tp_graph_error(g), "");
        tp_session *s = tp_session_new(g, NULL);
        const tp_tensor *out[4];
        if (CHECK_OK(tp_session_run(s, f, 2, fetch, 4, out)))
            for (int k = 0; k < 3; k += 2)
                CHECK_MSG(tp_shape_equal(&out[k]->shape, &out[k + 1]->shape) &&
                              memcmp(out[k]->data, out[k + 1]->data, tp_tensor_bytes(out[k])) == 0,
                          "case %d: %s differs", i, k ? "the gradient" : "the image");
        tp_session_free(s);
        done(g);
    }
}

static tp_node *no_node(tp_node *x)
{
    (void)x;
    return NULL;
}
static tp_node *whole_loss(tp_node *w, float scale) { return tp_cast(tp_affine(tp_sum(w), scale, 0), TP_I32); }

/* More wrong uses: the second of each pair, and the ends of what is allowed. */
static const char *another_wrong_option(int i, tp_graph *g)
{
    int n = 0;
    tp_node *x = image(g, 8, 8, 4), *thin = image(g, 8, 0, 4),
            *flat = tp_placeholder(g, "flat", TP_F32, tp_make_shape(TP_ANY, 10));
    tp_node *big = tp_placeholder(g, "big", TP_U8, tp_make_shape(TP_ANY));
    tp_regularizer whole;
    whole.fn = whole_loss, whole.scale = 1;
    WRONG(i, tp_conv2d(x, "", .filters = 2, .kernel_size = 3), "Conv2D needs a name: tp_conv2d(x, \"name\", ...)")
    WRONG(i, tp_conv2d(x, "w", .filters = 2, .kernel_size = 3, .strides = 2, .strides_w = -2),
          "w: Conv2D has .strides -2")
    WRONG(i, tp_conv2d(x, "w", .filters = 2, .kernel_size = 3, .dilation_rate = 2, .dilation_rate_w = -2),
          "w: Conv2D has a negative .dilation_rate")
    WRONG(i, tp_conv2d(thin, "w", .filters = 2, .kernel_size = 1, .padding = TP_VALID),
          "w: input is (?,8,0,4), Conv2D has .kernel_size (1,1), which is larger")
    WRONG(i, tp_conv2d(x, "w", .filters = 2, .kernel_size = 8, .kernel_size_w = 9, .padding = TP_VALID),
          "w: input is (?,8,8,4), Conv2D has .kernel_size (8,9), which is larger")
    WRONG(i, tp_conv2d(x, "w", .filters = 2, .kernel_size = 9, .kernel_size_w = 1, .padding = TP_VALID),
          "w: input is (?,8,8,4), Conv2D has .kernel_size (9,1), which is larger")
    WRONG(i, tp_conv2d(x, "w", .filters = 2, .kernel_size = 2, .dilation_rate = 8, .padding = TP_VALID),
          "Conv2D has .kernel_size (2,2), which is larger")
    WRONG(i, tp_conv2d(x, "w", .filters = 2, .kernel_size = 1, .activation = no_node), "w: the activation gave no node")
    WRONG(i, tp_max_pooling(x, "w", .pool_size = 2, .strides = 1, .strides_w = -1),
          "w: MaxPooling has negative .strides")
    WRONG(i, tp_max_pooling(x, "w", .pool_size = 2, .pool_size_w = -1), "w: MaxPooling needs a .pool_size of 1 or more")
    WRONG(i, tp_avg_pooling(x, "w", .pool_size = 2, .pool_size_w = -1), "w: AvgPooling needs a .pool_size of 1 or more")
    WRONG(i,
          tp_fixed_unpooling(x, "w", .shape = 2, .shape_w = 3,
                             .unpool_mat = tp_get_variable_as(g, "m", TP_F32, tp_make_shape(2, 2), tp_init_ones())),
          "w: FixedUnPooling has .unpool_mat (2,2), its .shape is (2,3)")
    WRONG(i, tp_concat_with(flat, "w", .tensors = &flat, .dim = 1),
          "w: ConcatWith needs either .tensor or .tensors with .n_tensors")
    WRONG(i, tp_softmax_layer(flat, "w", .temperature_init = TP_ZERO), "w: SoftMax has .temperature_init")
    WRONG(i, tp_dropout(flat, "w", .rate = 1), "w: Dropout drops a fraction 1")
    WRONG(i, tp_dropout(flat, "w", .keep_prob = 1.5f), "w: Dropout drops a fraction -0.5")
    WRONG(i, tp_embedding(big, "w", .vocab = 3, .units = 2), "w: input is uint8, Embedding needs int32 or int64")
    WRONG(i, tp_batch_norm(flat, "w", .axis = 3), "w: BatchNorm has .axis 3: it must be 1, or 3 with four dimensions")
    WRONG(i, tp_batch_norm(flat, "w", .sync_statistics = (tp_sync_statistics)9), "w: BatchNorm has .sync_statistics 9")
    WRONG(i, tp_batch_norm(flat, "w", .ema_update = (tp_ema_update)-1), "w: BatchNorm has .ema_update -1")
    WRONG(i, tp_batch_norm(flat, "w", .sync_statistics = TP_SYNC_TOWERS, .virtual_batch_size = 2),
          "w: BatchNorm has both .sync_statistics and .virtual_batch_size")
    WRONG(i, tp_batch_norm(flat, "w", .sync_statistics = TP_SYNC_RANKS, .virtual_batch_size = 2),
          "w: BatchNorm has both .sync_statistics and .virtual_batch_size")
    WRONG(i, tp_linear(x, TP_OP(no_node)), "test_layers.c")
    WRONG(i, tp_linear(x, TP_OP(tp_identity), TP_OP(no_node)), "step 1 of a chain gave no node")
    WRONG(i, (tp_fully_connected(flat, "w", .units = 1), tp_regularize_cost(g, "w/W", whole, NULL)),
          "the regularizer of 'w/W' gives int32, it must give a float")
    TP_ARGSCOPE(g, (conv2d), .kernel_size_w = 3) { n += 0; }
    if (i == n) return tp_graph_status(g) ? "test_layers.c" : "the argscope was taken";
    return NULL;
}

TEST(the_second_of_each_pair_may_be_wrong_too)
{
    for (int i = 0; i < 25; i++) {
        tp_graph *g = tower(true);
        const char *part = another_wrong_option(i, g);
        if (CHECK_MSG(part != NULL, "case %d is missing", i)) {
            CHECK_MSG(tp_graph_status(g) < 0, "%d (%s) was not noticed", i, part);
            CHECK_HAS(tp_graph_error(g), part);
        }
        done(g);
    }
}

/* What is allowed and does nothing, and indices of both widths. */
TEST(options_without_an_effect)
{
    tp_graph *g = tower(true);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(0, 8, 8, 4)),
            *wide = tp_placeholder(g, "i", TP_I64, tp_make_shape(3));
    CHECK_STR(tp_dropout(x, "d", .rate = TP_ZERO)->op->row->name, "identity");
    CHECK_STR(tp_dropout(x, "e", .keep_prob = 1)->op->row->name, "identity");
    CHECK_STR(tp_dropout(x, "f", .rate = 0.5f, .training = TP_NO)->op->row->name, "identity");
    CHECK_STR(tp_dropout(x, "h", .rate = 0.25f)->op->row->name, "dropout");
    shape_is(tp_embedding(wide, "emb", .vocab = 5, .units = 2), "(3,2)");
    tp_conv2d(x, "c", .filters = 7, .kernel_size = 3);
    CHECK_HAS(tp_test_logged, "'c': [0, 8, 8, 4] --> [0, 8, 8, 7]");
    ok(g);
    done(g);
}

/* At its kinks each has the derivative that PyTorch gives it, and TensorFlow relu6. */
TEST(derivatives_at_kinks)
{
    static const float at[] = {-1, 0, 3, 6, 7, -3}, six[] = {0, 0, 1, 0, 0, 0}, value[] = {0, 0, 3, 6, 6, 0};
    for (int f = 0; f < 2; f++) {
        tp_graph *g = tower(true);
        const tp_dtype dtype = f ? TP_F64 : TP_F32;
        tp_node *x = tp_placeholder(g, "x", dtype, tp_make_shape(6)), *y = tp_relu6(x), *dx = NULL, *h = NULL;
        tp_gradients(y, &x, 1, &dx);
        tp_gradients(tp_hard_swish(x), &x, 1, &h);
        ok(g);
        tp_tower_leave(g);
        tp_session *s = tp_session_new(g, NULL);
        tp_feed feed = {x, {0}};
        double wide[6];
        for (int i = 0; i < 6; i++) wide[i] = (double)at[i];
        tp_tensor_view(&feed.value, dtype, tp_make_shape(6), f ? (const void *)wide : at);
        tp_node *fetch[3] = {y, dx, h};
        const tp_tensor *out[3];
        if (CHECK(s != NULL) && CHECK_OK(tp_session_run(s, &feed, 1, fetch, 3, out)))
            for (int i = 0; i < 6; i++) {
                CHECK(tp_tensor_get(out[0], i) == (double)value[i]);
                CHECK_MSG(tp_tensor_get(out[1], i) == (double)six[i], "relu6'(%g) is %g", (double)at[i],
                          tp_tensor_get(out[1], i));
            }
        if (s) CHECK_NEAR(tp_tensor_get(out[2], 2), 1, 1e-6, 0);
        if (s) CHECK_NEAR(tp_tensor_get(out[2], 5), 0, 1e-6, 0);
        tp_session_free(s);
        done(g);
    }
}

/* Is the label among the two largest? */
TEST(accuracy_of_the_first_two)
{
    tp_graph *g = tower(true);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(4, 3)), *wrong, *right;
    static const float v[12] = {3, 2, 1, 1, 2, 3, 2, 3, 1, 2, 1, 3};
    tp_node *label = tp_cast(tp_reduce_sum(tp_affine(x, 0, 0.5f), (int[]){1}, 1, false), TP_I32); /* all are 1 */
    wrong = tp_sym_prediction_incorrect(x, label, 2, "miss");
    right = tp_sym_accuracy(x, label, 2, "hit");
    tp_node *first = tp_sym_accuracy(x, label, 0, "first");
    CHECK(ok(g));
    tp_tower_leave(g);
    tp_session *s = tp_session_new(g, NULL);
    float out[4];
    if (CHECK(s != NULL)) {
        run(s, x, x->shape, v, &right, 1, out, 1);
        CHECK_NEAR(out[0], 0.75, 0, 0); /* class 1 is second, second, first and last */
        run(s, x, x->shape, v, &first, 1, out, 1);
        CHECK_NEAR(out[0], 0.25, 0, 0);
        run(s, x, x->shape, v, &wrong, 1, out, 4);
        for (int i = 0; i < 4; i++) CHECK(out[i] == (i == 3 ? 1 : 0));
    }
    tp_session_free(s);
    done(g);
}

/* Every initialiser and regularizer reaches its variable: 3 for kernels, 4 for biases, 5 for gammas, 6 for betas. */
#define STARTS(losses_, vars_, ...)                                                                            \
    do {                                                                                                       \
        tp_graph *g = tower(true);                                                                             \
        tp_node *x = image(g, 8, 8, 4), *flat = tp_placeholder(g, "flat", TP_F32, tp_make_shape(TP_ANY, 10));  \
        tp_node *seq = tp_placeholder(g, "seq", TP_F32, tp_make_shape(TP_ANY, 5, 6));                          \
        tp_node *ids = tp_placeholder(g, "ids", TP_I32, tp_make_shape(TP_ANY)), *y = __VA_ARGS__;              \
        char got[256] = "";                                                                                    \
        int losses = 0;                                                                                        \
        (void)x, (void)flat, (void)seq, (void)ids, (void)y;                                                    \
        for (int i = 0; i < tp_graph_n_variables(g); i++) {                                                    \
            const tp_variable *v = tp_graph_variable(g, i);                                                    \
            if (v->trainable)                                                                                  \
                snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s=%g", *got ? " " : "",              \
                         strchr(v->name, '/') + 1, v->init.kind == TP_INIT_CONSTANT ? (double)v->init.a : -1); \
        }                                                                                                      \
        tp_collection(g, TP_KEY_REGULARIZATION_LOSSES, &losses);                                               \
        ok(g);                                                                                                 \
        CHECK_STR(got, vars_);                                                                                 \
        CHECK(losses == losses_);                                                                              \
        done(g);                                                                                               \
    } while (0)

TEST(initialisers_and_regularizers_reach_their_variables)
{
    const tp_init k = tp_init_constant(3), b = tp_init_constant(4), gamma = tp_init_constant(5),
                  beta = tp_init_constant(6);
    const tp_regularizer r = tp_l2_regularizer(1);
    STARTS(3, "W=3 b=4",
           tp_conv2d(x, "w", .filters = 2, .kernel_size = 1, .kernel_initializer = k, .bias_initializer = b,
                     .kernel_regularizer = r, .bias_regularizer = r, .activity_regularizer = r));
    STARTS(0, "W=-1 b=0", tp_conv2d(x, "w", .filters = 2, .kernel_size = 1));
    STARTS(3, "W=3 b=4",
           tp_conv2d_transpose(x, "w", .filters = 2, .kernel_size = 1, .kernel_initializer = k, .bias_initializer = b,
                               .kernel_regularizer = r, .bias_regularizer = r, .activity_regularizer = r));
    STARTS(3, "W=3 b=4",
           tp_depthwise_conv2d(x, "w", .kernel_size = 1, .use_bias = TP_YES, .kernel_initializer = k,
                               .bias_initializer = b, .kernel_regularizer = r, .bias_regularizer = r,
                               .activity_regularizer = r));
    STARTS(3, "W=3 b=4",
           tp_fully_connected(flat, "w", .units = 2, .kernel_initializer = k, .bias_initializer = b,
                              .kernel_regularizer = r, .bias_regularizer = r, .activity_regularizer = r));
    STARTS(1, "W=3 b=0", tp_fully_connected(flat, "w", .units = 2, .kernel_initializer = k, .kernel_regularizer = r));
    STARTS(0, "gamma=5 beta=6", tp_batch_norm(x, "w", .gamma_initializer = gamma, .beta_initializer = beta));
    STARTS(0, "gamma=1 beta=0", tp_batch_norm(x, "w"));
    STARTS(0, "gamma=5 beta=0", tp_layer_norm(x, "w", .gamma_initializer = gamma));
    STARTS(0, "gamma=5 beta=0", tp_instance_norm(x, "w", .gamma_initializer = gamma));
    STARTS(0, "gamma=5 beta=0", tp_group_norm(x, "w", .groups = 2, .gamma_initializer = gamma));
    STARTS(0, "gamma=1 beta=0", tp_group_norm(x, "w", .groups = 2));
    STARTS(0, "gamma=5 beta=0", tp_batch_renorm(x, "w", .rmax = 1, .dmax = 1, .gamma_initializer = gamma));
    STARTS(0, "alpha=0.001", tp_prelu(x, "w"));
    STARTS(0, "alpha=0.5", tp_prelu(x, "w", .init = 0.5f));
    STARTS(0, "invtemp=0.25", tp_softmax_layer(flat, "w", .use_temperature = TP_YES, .temperature_init = 4));
    STARTS(0, "invtemp=1", tp_softmax_layer(flat, "w", .use_temperature = TP_YES));
    STARTS(1, "W=3", tp_embedding(ids, "w", .vocab = 3, .units = 2, .kernel_initializer = k, .kernel_regularizer = r));
    STARTS(0, "kernel=3 bias=4", tp_lstm(seq, "w", .units = 2, .kernel_initializer = k, .bias_initializer = b));
    STARTS(0, "kernel=3 bias=0", tp_lstm(seq, "w", .units = 2, .kernel_initializer = k));
    STARTS(0, "gates/kernel=3 gates/bias=4 candidate/kernel=3 candidate/bias=4",
           tp_gru(seq, "w", .units = 2, .kernel_initializer = k, .bias_initializer = b));
    STARTS(0, "gates/kernel=3 gates/bias=1 candidate/kernel=3 candidate/bias=0",
           tp_gru(seq, "w", .units = 2, .kernel_initializer = k));
    STARTS(0, "kernel=3 bias=4",
           tp_basic_lstm_cell(flat, "w", .units = 2, .kernel_initializer = k, .bias_initializer = b));
    STARTS(4, "Wq=3 bq=4 Wk=3 bk=4 Wv=3 bv=4 Wo=3 bo=4",
           tp_multi_head_attention(seq, "w", .heads = 2, .kernel_initializer = k, .bias_initializer = b,
                                   .kernel_regularizer = r));
    STARTS(0, "Wq=3 bq=0 Wk=3 bk=0 Wv=3 bv=0 Wo=3 bo=0",
           tp_multi_head_attention(seq, "w", .heads = 2, .kernel_initializer = k));
}

/* Names, old and new; keys and values of their own; a chain by names. */
TEST(what_else_layers_are_called_with)
{
    static const char *const names[] = {"Deconv2D", "deconv2d", "Conv2DTranspose", "conv2d_transpose"};
    tp_graph *g = tower(true);
    for (int i = 0; i < 4; i++) CHECK(tp_get_registered_layer(g, names[i]) == tp_get_registered_layer(g, names[0]));
    CHECK(tp_get_registered_layer(g, names[0]) != NULL && tp_get_registered_layer(g, "Deconv") == NULL);
    tp_node *ids = tp_placeholder(g, "ids", TP_I32, tp_make_shape(TP_ANY)),
            *e = tp_embedding(ids, "emb", .vocab = 3, .units = 2);
    CHECK_STR(tp_node_name(tp_layer_variable(e, "W")), "emb/W");
    tp_node *q = tp_placeholder(g, "q", TP_F32, tp_make_shape(TP_ANY, 5, 6)),
            *k = tp_placeholder(g, "k", TP_F32, tp_make_shape(TP_ANY, 7, 3)),
            *v = tp_placeholder(g, "v", TP_F32, tp_make_shape(TP_ANY, 7, 4));
    shape_is(tp_multi_head_attention(q, "att", .heads = 2, .key = k, .value = v), "(?,5,6)");
    shape_is(tp_find_variable(g, "att/Wk")->node, "(3,6)");
    shape_is(tp_find_variable(g, "att/Wv")->node, "(4,6)");
    ok(g);
    tp_layer step;
    memset(&step, 0, sizeof step);
    step.layer = "Nothing";
    CHECK(tp_is_poison(tp_linear_n(q, &step, 1)));
    CHECK_STR(TP_TEST_SAID(tp_graph_error(g)), "there is no layer 'Nothing'");
    done(g);
}

/* ==== a network learns ================================================================================ */

TEST(gradients_flow_through_every_layer)
{
    tp_graph *g = tower(true);
    tp_node *x = image(g, 8, 8, 2);
    tp_node *y = tp_linear(x, TP_CONV2D("conv0", .filters = 4, .kernel_size = 3, .activation = tp_bn_relu),
                           TP_MAX_POOLING("pool0", .pool_size = 2),
                           TP_CONV2D("conv1", .filters = 4, .kernel_size = 3, .split = 2),
                           TP_AVG_POOLING("pool1", .pool_size = 2), TP_DROPOUT("drop"), TP_GLOBAL_AVG_POOLING("gap"),
                           TP_FULLY_CONNECTED("fc", .units = 3));
    tp_node *cost = tp_add(tp_mean(tp_square(y)), tp_regularize_cost(g, ".*/W", tp_l2_regularizer(1e-3f), NULL));
    int n = 0;
    tp_node *const *vars = tp_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n), *grad[16] = {0}, *fetch[16];
    CHECK(n == 8);
    tp_gradients(cost, vars, n, grad);
    ok(g);
    for (int i = 0; i < n; i++)
        if (CHECK_MSG(grad[i] != NULL, "%s has no gradient", tp_node_name(vars[i])))
            CHECK(tp_shape_compatible(&grad[i]->shape, &vars[i]->shape));
    for (int i = 0; i < n; i++) fetch[i] = grad[i];
    tp_tower_leave(g);
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK_MSG(s != NULL, "%s", tp_last_error())) {
        static float data[3 * 8 * 8 * 2];
        for (int i = 0; i < TP_COUNT(data); i++) data[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
        tp_feed feed = {x, {0}};
        tp_tensor_view(&feed.value, TP_F32, tp_make_shape(3, 8, 8, 2), data);
        const tp_tensor *value[16];
        if (CHECK_OK(tp_session_run(s, &feed, 1, fetch, n, value)))
            for (int i = 0; i < n; i++) {
                double size = 0; /* neither NaN nor nothing */
                for (int64_t j = 0; j < tp_tensor_size(value[i]); j++) size += fabs(tp_tensor_get(value[i], j));
                /* the batch norm behind conv0 takes its bias out again */
                const bool none = strcmp(tp_node_name(vars[i]), "conv0/b") == 0;
                CHECK_MSG(isfinite(size) && (none ? size < 1e-4 : size > 1e-4), "%s: the gradient's sum is %g",
                          tp_node_name(vars[i]), size);
            }
    }
    tp_session_free(s);
    done(g);
}

/* A spatial transformer's last step: places outside take the nearest pixel, or nothing; the places learn too. */
TEST(grid_sample)
{
    static const float pixels[] = {1, 2, 3, 4}, places[] = {0.25f, 0.5f, -0.5f, 0.5f, 1.5f, 0, 1, 1};
    static const float want[2][4] = {{2.0f, 1.5f, 3.0f, 4.0f}, {2.0f, 0.0f, 0.0f, 4.0f}};
    for (int border = 0; border < 2; border++) {
        tp_graph *g = tower(false);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 2, 2, 1));
        tp_node *at = tp_placeholder(g, "at", TP_F32, tp_make_shape(TP_ANY, 2, 2, 2));
        tp_node *y = tp_linear(x, TP_GRID_SAMPLE("look", .coords = at, .border_mode = border)), *d[1] = {at},
                *dat = NULL;
        tp_gradients(tp_sum(y), d, 1, &dat);
        tp_session *s = tp_session_new(g, NULL);
        tp_feed feed[2];
        const tp_tensor *out[2];
        tp_node *fetch[2] = {y, dat};
        memset(feed, 0, sizeof feed);
        feed[0].node = x;
        feed[1].node = at;
        tp_tensor_view(&feed[0].value, TP_F32, tp_make_shape(1, 2, 2, 1), pixels);
        tp_tensor_view(&feed[1].value, TP_F32, tp_make_shape(1, 2, 2, 2), places);
        if (CHECK(s != NULL) && CHECK_OK(tp_session_run(s, feed, 2, fetch, 2, out))) {
            for (int i = 0; i < 4; i++) CHECK_NEAR(tp_tensor_get(out[0], i), (double)want[border][i], 1e-6, 0);
            CHECK_NEAR(tp_tensor_get(out[1], 0), 2, 1e-6, 0); /* down a row: from 1.5 to 3.5 */
            CHECK_NEAR(tp_tensor_get(out[1], 1), 1, 1e-6, 0);
        }
        tp_session_free(s);
        tp_graph_free(g);
    }
    tp_graph *g = tower(false);
    tp_grid_sample(image(g, 4, 4, 1), "look");
    CHECK(strstr(tp_graph_error(g), "GridSample needs .coords") != NULL);
    tp_graph_free(g);
}

/* A scale below 0 would let the cost fall for ever, a topk below 0 finds no label. */
TEST(scales_of_regularizers_and_topk_out_of_range)
{
    static const float scales[] = {-1.0f, NAN, INFINITY};
    for (int i = 0; i < 8; i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2, 3)),
                *label = tp_placeholder(g, "label", TP_I32, tp_make_shape(2));
        if (i < 6)
            tp_fully_connected(x, "fc", .units = 2,
                               .kernel_regularizer =
                                   i < 3 ? tp_l2_regularizer(scales[i]) : tp_l1_regularizer(scales[i - 3]));
        else if (i == 6) tp_sym_accuracy(x, label, -1, NULL);
        else tp_sym_prediction_incorrect(x, label, -1, NULL);
        CHECK(tp_graph_status(g) == TP_ERR_ARG);
        CHECK_HAS(tp_graph_error(g),
                  i < 6 ? "a regularizer of 'fc/W' has the scale" : "topk is -1: it must be at least 1");
        tp_graph_free(g);
    }
}

TEST(an_epsilon_below_0_is_refused)
{
    static const char *const layer[] = {"LayerNorm", "InstanceNorm", "GroupNorm", "BatchNorm", "BatchRenorm"};
    static const float numbers[] = {-1e-5f, NAN, -INFINITY};
    for (int i = 0; i < 3 * TP_COUNT(layer); i++) {
        const float v = numbers[i % 3];
        tp_graph *g = tower(true);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2, 4, 4, 4));
        tp_node *y = i / 3 == 0   ? tp_layer_norm(x, "norm", .epsilon = v)
                     : i / 3 == 1 ? tp_instance_norm(x, "norm", .epsilon = v)
                     : i / 3 == 2 ? tp_group_norm(x, "norm", .epsilon = v, .groups = 2)
                     : i / 3 == 3 ? tp_batch_norm(x, "norm", .epsilon = v)
                                  : tp_batch_renorm(x, "norm", .epsilon = v, .rmax = 1, .dmax = 1);
        CHECK_MSG(tp_is_poison(y) && tp_graph_status(g) == TP_ERR_ARG, "case %d", i);
        CHECK_HAS(tp_graph_error(g), layer[i / 3]);
        CHECK_HAS(tp_graph_error(g), i % 3 == 1 ? ".epsilon nan" : i % 3 ? ".epsilon -inf" : ".epsilon -1e-05");
        CHECK_HAS(tp_graph_error(g), i / 3 < 3 ? ": it must not be negative" : "epsilon not negative");
        tp_graph_free(g);
    }
}

TEST(a_chain_without_an_input_says_so)
{
    tp_node *y = tp_linear(NULL, TP_OP(tp_relu), TP_FULLY_CONNECTED("fc", .units = 3));
    CHECK(y && tp_is_poison(y));
    CHECK_HAS(tp_last_error(), "test_layers.c");
    CHECK_HAS(tp_last_error(), "tp_linear: the input is NULL");
    tp_graph *g = tower(true);
    CHECK(tp_find_variable(g, "abcent") == NULL);
    y = tp_linear(NULL, TP_FULLY_CONNECTED("fc", .units = 3));
    CHECK(y && tp_is_poison(y));
    CHECK_HAS(tp_last_error(), "the input is NULL");
    tp_graph_free(g);
}

/* With them each loss would be NaN, infinite or 0 for ever. */
TEST(numbers_of_losses_that_make_no_sense)
{
    static const float numbers[] = {NAN, INFINITY, -0.5f};
    static const char *const said[] = {
        "psnr: maxp is ",   "weighted_loss: weights[1] is ", "contrastive_loss: margin is ", "triplet_loss: margin is ",
        "PReLU has .init ", "huber_loss: delta is "};
    for (int i = 0; i < 3 * TP_COUNT(said); i++) {
        const float v = numbers[i % 3], weights[] = {1, v};
        const int loss = i / 3;
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2, 3)),
                *y = tp_placeholder(g, "y", TP_F32, tp_make_shape(2)),
                *label = tp_placeholder(g, "label", TP_I32, tp_make_shape(2));
        tp_node *z = loss == 0   ? tp_sym_psnr(x, x, v, NULL)
                     : loss == 1 ? tp_sym_weighted_loss(y, label, weights, 2, NULL)
                     : loss == 2 ? tp_sym_contrastive_loss(x, x, y, v, NULL)
                     : loss == 3 ? tp_sym_triplet_loss(x, x, x, v, NULL)
                     : loss == 4 ? tp_prelu(x, "prelu", .init = v)
                                 : tp_sym_huber_loss(x, v, NULL);
        /* a slope may be negative, and beyond an infinite delta there is nothing */
        const bool is_right = (loss == 4 && i % 3 == 2) || (loss == 5 && i % 3 == 1);
        CHECK_MSG(tp_is_poison(z) == !is_right, "case %d", i);
        if (!is_right) CHECK_HAS(tp_graph_error(g), said[loss]);
        tp_graph_free(g);
    }
}

TEST(statistics_of_one_tower_are_those_of_no_other)
{
    tp_tower_desc tower;
    memset(&tower, 0, sizeof tower);
    tower.is_training = true;
    tp_test_keep_log();
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_enter(g, &tower);
    tp_batch_norm(tp_placeholder(g, "x", TP_F32, tp_make_shape(4, 3)), "bn", .sync_statistics = TP_SYNC_TOWERS);
    tp_tower_leave(g);
    CHECK_HAS(tp_test_logged,
              "there is one tower only: statistics are averaged over the devices of one process, not over "
              "the ranks of a job");
    tp_graph_free(g);
    for (int inference = 0; inference < 2; inference++) {
        g = tp_graph_new(NULL);
        tower.is_training = !inference;
        tp_tower_enter(g, &tower);
        tp_batch_norm(tp_placeholder(g, "x", TP_F32, tp_make_shape(4, 3)), "bn", .sync_statistics = TP_SYNC_RANKS,
                      .training = TP_YES);
        tp_tower_leave(g);
        CHECK_OK(tp_graph_status(g));
        CHECK_HAS(tp_test_logged,
                  inference
                      ? "TP_SYNC_RANKS, but it is in a tower for inference, where each rank uses the statistics of"
                      : "TP_SYNC_RANKS, but there is one rank only: statistics are averaged over the towers of");
        tp_graph_free(g);
    }
}

TEST_MAIN()
