/* Layers: tensorpack's names, layouts and defaults; argscope; LinearWrap; what each mistake says. */
#define TP_IMPLEMENTATION
#include "tp_layers.h"
#include "tp_test.h"

static const tp_tower_context *enter(tp_graph *g, bool training)
{
    tp_tower_desc d;
    memset(&d, 0, sizeof d);
    d.is_training = training;
    return tp_tower_enter(g, &d);
}

static tp_node *image(tp_graph *g, int64_t h, int64_t w, int64_t c) { return tp_placeholder(g, "image", TP_F32, tp_make_shape(TP_ANY, h, w, c)); }

static void shape_is(const tp_node *n, const char *want)
{
    char t[TP_SHAPE_TEXT];
    CHECK_STR(tp_shape_text(&n->shape, t), want);
}

static void variable_is(const tp_graph *g, const char *name, const char *want, bool trainable)
{
    char t[TP_SHAPE_TEXT];
    const tp_variable *v = tp_find_variable(g, name);
    CHECK_MSG(v != NULL, "%s is missing", name);
    if (!v) return;
    CHECK_STR(tp_shape_text(&v->shape, t), want);
    CHECK(v->trainable == trainable);
}

TEST(names_and_shapes_are_tensorpacks)
{
    tp_graph *g = tp_graph_new(NULL);
    enter(g, true);
    tp_node *x = image(g, 28, 28, 1);
    tp_node *l = tp_conv2d(x, "conv0", .filters = 32, .kernel_size = 3, .activation = tp_relu);
    CHECK_STR(tp_node_name(l), "conv0/output");
    shape_is(l, "(?,28,28,32)");
    variable_is(g, "conv0/W", "(3,3,1,32)", true);
    variable_is(g, "conv0/b", "(32)", true);
    l = tp_conv2d(l, "conv1", .filters = 16, .kernel_size = 5, .strides = 2, .padding = TP_VALID, .use_bias = TP_NO, .activation = tp_bn_relu, .split = 4);
    shape_is(l, "(?,12,12,16)");
    variable_is(g, "conv1/W", "(5,5,8,16)", true);
    variable_is(g, "conv1/bn/gamma", "(16)", true);
    variable_is(g, "conv1/bn/mean/EMA", "(16)", false);
    variable_is(g, "conv1/bn/variance/EMA", "(16)", false);
    CHECK(tp_find_variable(g, "conv1/b") == NULL);
    l = tp_max_pooling(l, "pool0", .pool_size = 3, .strides = 2);
    shape_is(l, "(?,5,5,16)");
    l = tp_avg_pooling(l, "pool1", .pool_size = 2, .padding = TP_SAME);
    shape_is(l, "(?,3,3,16)");
    tp_node *gap = tp_global_avg_pooling(l, "gap");
    shape_is(gap, "(?,16)");
    CHECK_STR(tp_node_name(gap), "gap/output");
    l = tp_fully_connected(l, "fc0", .units = 10);
    shape_is(l, "(?,10)");
    variable_is(g, "fc0/W", "(144,10)", true);
    CHECK(tp_layer_variable(l, "W") == tp_find_variable(g, "fc0/W")->node);
    int n = 0;
    tp_collection(g, TP_KEY_UPDATE_OPS, &n);
    CHECK(n == 2); /* mean and variance of conv1/bn */
    tp_collection(g, TP_KEY_MODEL_VARIABLES, &n);
    CHECK(n == 2);
    tp_node *nchw = tp_conv2d(tp_placeholder(g, "nchw", TP_F32, tp_make_shape(TP_ANY, 3, 7, 9)), "conv2", .filters = 4, .kernel_size = 3, .kernel_size_w = 5, .data_format = TP_NCHW);
    shape_is(nchw, "(?,4,7,9)");
    variable_is(g, "conv2/W", "(3,5,3,4)", true);
    tp_tower_leave(g);
    CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
    tp_graph_free(g);
}

TEST(initial_weights_have_the_documented_deviation)
{
    tp_graph *g = tp_graph_new(NULL);
    enter(g, true);
    tp_conv2d(image(g, 8, 8, 64), "conv", .filters = 64, .kernel_size = 3);
    tp_tower_leave(g);
    tp_session *s = tp_session_new(g, NULL);
    tp_tensor t;
    memset(&t, 0, sizeof t);
    CHECK_OK(tp_session_read(s, tp_find_variable(g, "conv/W"), &t));
    double squares = 0;
    for (int64_t i = 0; i < tp_tensor_size(&t); i++) squares += tp_tensor_get(&t, i) * tp_tensor_get(&t, i);
    CHECK_NEAR(sqrt(squares / (double)tp_tensor_size(&t)), 0.0589256, 0.0008, 0);
    CHECK_OK(tp_session_read(s, tp_find_variable(g, "conv/b"), &t));
    CHECK_NEAR(tp_tensor_get(&t, 7), 0, 0, 0);
    tp_tensor_free(&t);
    tp_session_free(s);
    tp_graph_free(g);
}

/* x = {1,2,3,6} through BatchNorm, momentum .9; y[3], and the running statistics after the update ops ran */
static void batch_norm_case(bool four, double y3, double variance)
{
    tp_graph *g = tp_graph_new(NULL);
    const float data[4] = {1, 2, 3, 6};
    tp_node *fetch[8];
    const tp_tensor *out[8];
    enter(g, true);
    tp_node *x = tp_placeholder(g, "x", TP_F32, four ? tp_make_shape(4, 1, 1, 1) : tp_make_shape(4, 1));
    fetch[0] = tp_batch_norm(x, "bn");
    int n = 0;
    tp_node *const *updates = tp_collection(g, TP_KEY_UPDATE_OPS, &n);
    CHECK(n == 2);
    for (int i = 0; i < n && i < 6; i++) fetch[1 + i] = updates[i];
    tp_tower_leave(g);
    CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
    tp_session *s = tp_session_new(g, NULL);
    tp_feed f;
    tp_tensor t;
    memset(&f, 0, sizeof f);
    memset(&t, 0, sizeof t);
    f.node = x;
    tp_tensor_view(&f.value, TP_F32, x->shape, data);
    CHECK_OK(tp_session_run(s, &f, 1, fetch, 1 + n, out));
    CHECK_NEAR(tp_tensor_get(out[0], 3), y3, 1e-5, 0);
    CHECK_NEAR(tp_tensor_get(out[0], 0), -1.06904, 1e-5, 0);
    CHECK_OK(tp_session_read(s, tp_find_variable(g, "bn/mean/EMA"), &t));
    CHECK_NEAR(tp_tensor_get(&t, 0), 0.3, 1e-6, 0);
    CHECK_OK(tp_session_read(s, tp_find_variable(g, "bn/variance/EMA"), &t));
    CHECK_NEAR(tp_tensor_get(&t, 0), variance, 1e-6, 0);
    tp_tensor_free(&t);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(batch_norm_statistics_are_tensorflows)
{
    batch_norm_case(true, 1.60357, 1.366667); /* four dimensions: the unbiased variance is averaged */
    batch_norm_case(false, 1.60357, 1.25);    /* two: the biased one */
}

TEST(inference_uses_running_statistics_and_no_dropout)
{
    tp_graph *g = tp_graph_new(NULL);
    const float data[2] = {3, 5};
    enter(g, false);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2, 1));
    tp_node *y = tp_dropout(tp_batch_norm(x, "bn"), "drop", .rate = 0.9f), *decay = tp_regularize_cost(g, ".*", tp_l2_regularizer(1), "decay");
    tp_tower_leave(g);
    CHECK_STR(tp_node_name(decay), "empty_decay");
    tp_session *s = tp_session_new(g, NULL);
    tp_feed f;
    const tp_tensor *out = NULL;
    memset(&f, 0, sizeof f);
    f.node = x;
    tp_tensor_view(&f.value, TP_F32, x->shape, data);
    CHECK_OK(tp_session_run(s, &f, 1, &y, 1, &out));
    CHECK_NEAR(tp_tensor_get(out, 1), 5 / sqrt(1 + 1e-5), 1e-5, 0); /* mean 0, variance 1 at the start */
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(argscope_merges_field_by_field)
{
    tp_graph *g = tp_graph_new(NULL);
    enter(g, true);
    tp_node *x = image(g, 9, 9, 2), *a = NULL, *b = NULL;
    TP_ARGSCOPE(g, conv2d, .filters = 32, .activation = tp_relu) {
        TP_ARGSCOPE(g, conv2d, .kernel_size = 1) {
            a = tp_conv2d(x, "a", .filters = 8);
            CHECK(TP_GET_ARGSCOPE(g, conv2d)->filters == 32 && TP_GET_ARGSCOPE(g, conv2d)->kernel_size == 1);
        }
        TP_ARGSCOPE(g, (conv2d, max_pooling), .padding = TP_VALID, .strides = 3) {
            b = tp_conv2d(x, "b", .kernel_size = 3, .activation = tp_identity);
            shape_is(tp_max_pooling(x, "p", .pool_size = 3), "(?,3,3,2)");
        }
    }
    variable_is(g, "a/W", "(1,1,2,8)", true);
    shape_is(b, "(?,3,3,32)");
    CHECK_STR(a->op->in[0]->op->row->name, "relu");
    CHECK(strcmp(b->op->in[0]->op->row->name, "relu") != 0);
    CHECK(TP_GET_ARGSCOPE(g, conv2d)->filters == 0);
    const tp_conv2d_desc *none = (const tp_conv2d_desc *)tp_get_argscope(g, "Conv2D");
    CHECK(none->kernel_size == 0);
    tp_tower_leave(g);
    CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
    tp_graph_free(g);
}

static tp_node *half(tp_node *x, void *user)
{
    (void)user;
    return tp_affine(x, 0.5f, 0.0f);
}

TEST(a_chain_is_the_same_as_its_calls)
{
    tp_graph *g[2];
    for (int i = 0; i < 2; i++) {
        g[i] = tp_graph_new(NULL);
        enter(g[i], true);
        tp_node *x = image(g[i], 12, 12, 1), *l = x;
        if (i == 0) {
            l = tp_linear(x, TP_CONV2D("conv0", .filters = 4, .kernel_size = 3), TP_MAX_POOLING("pool0", .pool_size = 2), TP_OP(tp_relu), TP_APPLY(half, NULL),
                          TP_BATCH_NORM("bn"), TP_DROPOUT("drop"), TP_FULLY_CONNECTED("fc", .units = 3));
        } else {
            l = tp_conv2d(l, "conv0", .filters = 4, .kernel_size = 3);
            l = tp_max_pooling(l, "pool0", .pool_size = 2);
            l = tp_relu(l);
            l = half(l, NULL);
            l = tp_batch_norm(l, "bn");
            l = tp_dropout(l, "drop");
            l = tp_fully_connected(l, "fc", .units = 3);
        }
        CHECK_STR(tp_node_name(l), "fc/output");
        tp_tower_leave(g[i]);
        CHECK_MSG(tp_graph_status(g[i]) == TP_OK, "%s", tp_graph_error(g[i]));
    }
    CHECK(tp_graph_n_operations(g[0]) == tp_graph_n_operations(g[1]));
    for (int i = 0; i < tp_graph_n_operations(g[0]); i++)
        CHECK_STR(tp_graph_operation(g[0], i)->name, tp_graph_operation(g[1], i)->name);
    tp_graph_free(g[0]);
    tp_graph_free(g[1]);
}

TEST(weight_decay_finds_names_anywhere)
{
    tp_graph *g = tp_graph_new(NULL);
    enter(g, true);
    static const char *const names[] = {"aux/fc1/W", "fc1/Wp", "fc1/b"};
    for (int i = 0; i < 3; i++) tp_get_variable_as(g, names[i], TP_F32, tp_make_shape(2), tp_init_constant((float)(i + 1)));
    tp_node *l2 = tp_regularize_cost(g, "fc.*/W", tp_l2_regularizer(0.1f), NULL), *l1 = tp_regularize_cost(g, "fc.*/W", tp_l1_regularizer(0.1f), "l1");
    tp_get_variable(g, &(const tp_variable_desc){.name = "r", .shape = tp_make_shape(2), .init = tp_init_constant(3), .regularizer = tp_l2_regularizer(1)});
    tp_node *collected = tp_regularize_cost_from_collection(g, NULL);
    tp_tower_leave(g);
    CHECK_STR(tp_node_name(l2), "regularize_cost");
    tp_session *s = tp_session_new(g, NULL);
    tp_tensor t;
    memset(&t, 0, sizeof t);
    CHECK_OK(tp_session_eval(s, l2, &t));
    CHECK_NEAR(tp_tensor_get(&t, 0), 0.1 * 0.5 * (1 + 1 + 4 + 4), 1e-6, 0);
    CHECK_OK(tp_session_eval(s, l1, &t));
    CHECK_NEAR(tp_tensor_get(&t, 0), 0.1 * (1 + 1 + 2 + 2), 1e-6, 0);
    CHECK_OK(tp_session_eval(s, collected, &t));
    CHECK_NEAR(tp_tensor_get(&t, 0), 9, 1e-6, 0);
    tp_tensor_free(&t);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(accuracy_counts_ties_as_correct)
{
    tp_graph *g = tp_graph_new(NULL);
    const float logits[6] = {1, 1, 0, 0, 2, 1};
    const int32_t labels[2] = {1, 2};
    tp_tensor a, b;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    tp_tensor_view(&a, TP_F32, tp_make_shape(2, 3), logits);
    tp_tensor_view(&b, TP_I32, tp_make_shape(2), labels);
    tp_node *x = tp_constant(g, &a), *y = tp_constant(g, &b), *fetch[3];
    const tp_tensor *out[3];
    fetch[0] = tp_sym_accuracy(x, y, 1, NULL);
    fetch[1] = tp_sym_prediction_incorrect(x, y, 1, NULL);
    fetch[2] = tp_sym_accuracy(x, y, 2, "top2");
    CHECK_STR(tp_node_name(fetch[1]), "incorrect_vector");
    tp_session *s = tp_session_new(g, NULL);
    CHECK_OK(tp_session_run(s, NULL, 0, fetch, 3, out));
    CHECK_NEAR(tp_tensor_get(out[0], 0), 0.5, 0, 0);
    CHECK(tp_tensor_get(out[1], 0) == 0 && tp_tensor_get(out[1], 1) == 1);
    CHECK_NEAR(tp_tensor_get(out[2], 0), 1, 0, 0);
    tp_session_free(s);
    tp_graph_free(g);
}

static void says(tp_graph *g, const char *first, const char *second)
{
    CHECK(tp_graph_status(g) != TP_OK);
    CHECK_HAS(tp_graph_error(g), "test_layers.c:");
    CHECK_HAS(tp_graph_error(g), first);
    CHECK_HAS(tp_graph_error(g), second);
    tp_graph_free(g);
}

TEST(mistakes_name_the_layer_and_the_place)
{
    tp_graph *g;
#define WRONG(first_, second_, ...)  \
    g = tp_graph_new(NULL);          \
    enter(g, true);                  \
    CHECK(tp_is_poison(__VA_ARGS__)); \
    says(g, first_, second_)
    WRONG("conv1", "(?,10)", tp_conv2d(tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 10)), "conv1", .filters = 2, .kernel_size = 3));
    WRONG("conv1", "filters", tp_conv2d(image(g, 8, 8, 3), "conv1", .kernel_size = 3));
    WRONG("conv1", "kernel_size", tp_conv2d(image(g, 8, 8, 3), "conv1", .filters = 3));
    WRONG("conv1", "split", tp_conv2d(image(g, 8, 8, 3), "conv1", .filters = 4, .kernel_size = 3, .split = 2));
    WRONG("conv1", "larger", tp_conv2d(image(g, 4, 4, 3), "conv1", .filters = 4, .kernel_size = 5, .padding = TP_VALID));
    WRONG("fc", "units", tp_fully_connected(image(g, 4, 4, 3), "fc"));
    WRONG("pool", "pool_size", tp_max_pooling(image(g, 4, 4, 3), "pool"));
    WRONG("drop", "rate", tp_dropout(image(g, 4, 4, 3), "drop", .rate = 1.5f));
    WRONG("same", "exists already", (tp_conv2d(image(g, 8, 8, 3), "same", .filters = 2, .kernel_size = 1), tp_fully_connected(tp_graph_find(g, "image"), "same", .units = 1)));
#undef WRONG
    g = tp_graph_new(NULL);
    tp_batch_norm(image(g, 4, 4, 3), "bn"); /* no tower says whether this is training */
    says(g, "bn", "tower");
}

TEST_MAIN()
