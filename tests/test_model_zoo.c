/* The names of tensorpack's model zoo: its ImageNet ResNet, built of our layers, has the variables of its npz files, by
 * name, shape and number, and such a file loads. */
#define TP_IMPLEMENTATION
#include "tp_layers.h"
#include "tp_test.h"

/* -- tensorpack's examples/ResNet: blocks of conv1, conv2 (, conv3) and a convshortcut where the shape changes; each
 * convolution is without bias and has a BatchNorm "bn" in its scope. */

static tp_node *bn(tp_node *x) { return tp_batch_norm(x, "bn"); }
static tp_node *bn_zero(tp_node *x)
{
    return tp_batch_norm(x, "bn", .gamma_initializer = {.kind = TP_INIT_CONSTANT, .a = 0, .b = 0});
}

static tp_node *shortcut(tp_node *l, int out, int stride, tp_activation activation)
{
    if (l->shape.dim[1] == out && stride == 1) return l;
    return tp_conv2d(l, "convshortcut", .filters = out, .kernel_size = 1, .strides = stride, .activation = activation);
}

static tp_node *basic_block(tp_node *l, int channels, int stride)
{
    tp_node *const in = l;
    l = tp_conv2d(l, "conv1", .filters = channels, .kernel_size = 3, .strides = stride, .activation = tp_bn_relu);
    l = tp_conv2d(l, "conv2", .filters = channels, .kernel_size = 3, .activation = bn_zero);
    return tp_relu(tp_add(l, shortcut(in, channels, stride, bn)));
}

static tp_node *bottleneck(tp_node *l, int channels, int stride)
{
    tp_node *const in = l;
    l = tp_conv2d(l, "conv1", .filters = channels, .kernel_size = 1, .activation = tp_bn_relu);
    l = tp_conv2d(l, "conv2", .filters = channels, .kernel_size = 3, .strides = stride, .activation = tp_bn_relu);
    l = tp_conv2d(l, "conv3", .filters = channels * 4, .kernel_size = 1, .activation = bn_zero);
    return tp_relu(tp_add(l, shortcut(in, channels * 4, stride, bn)));
}

static void scope(tp_graph *g, const char *prefix, int i)
{
    char name[32];
    tp_variable_scope_desc d = {.name = name};
    snprintf(name, sizeof name, "%s%d", prefix, i);
    tp_variable_scope_push(g, &d);
}

static tp_node *resnet(tp_graph *g, tp_node *image, const int *blocks, bool bottlenecks)
{
    tp_node *l = image;
    TP_ARGSCOPE(g, (conv2d, max_pooling, batch_norm, global_avg_pooling), .data_format = TP_NCHW)
    {
        TP_ARGSCOPE(g, conv2d, .use_bias = TP_NO)
        {
            l = tp_conv2d(l, "conv0", .filters = 64, .kernel_size = 7, .strides = 2, .activation = tp_bn_relu);
            l = tp_max_pooling(l, "pool0", .pool_size = 3, .strides = 2, .padding = TP_SAME);
            for (int group = 0; group < 4; group++) {
                scope(g, "group", group);
                for (int block = 0; block < blocks[group]; block++) {
                    scope(g, "block", block);
                    l = (bottlenecks ? bottleneck : basic_block)(l, 64 << group, group > 0 && block == 0 ? 2 : 1);
                    tp_variable_scope_pop(g);
                }
                tp_variable_scope_pop(g);
            }
            l = tp_global_avg_pooling(l, "gap");
        }
    }
    return tp_fully_connected(l, "linear", .units = 1000);
}

static tp_graph *resnet_graph(int depth, tp_node **logits)
{
    static const int b18[] = {2, 2, 2, 2}, b34[] = {3, 4, 6, 3};
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_desc d = {.is_training = false};
    tp_tower_enter(g, &d);
    tp_node *y = resnet(g, tp_placeholder(g, "input", TP_F32, tp_make_shape(TP_ANY, 3, 224, 224)),
                        depth == 18 ? b18 : b34, depth >= 50);
    tp_tower_leave(g);
    if (logits) *logits = y;
    return g;
}

static bool has(tp_graph *g, const char *name, const char *shape)
{
    char text[TP_SHAPE_TEXT];
    const tp_variable *v = tp_find_variable(g, name);
    return CHECK_MSG(v != NULL, "no variable %s", name) &&
           CHECK_MSG(strcmp(tp_shape_text(&v->shape, text), shape) == 0, "%s is %s, not %s", name, text, shape);
}

/* Trainable numbers, and variables in all. The first are those of the paper's networks as everybody counts them. */
static void count(tp_graph *g, int64_t *numbers, int *variables)
{
    *numbers = 0;
    *variables = tp_graph_n_variables(g);
    for (int i = 0; i < *variables; i++) {
        const tp_variable *v = tp_graph_variable(g, i);
        if (v->trainable) *numbers += tp_shape_size(&v->shape);
    }
}

TEST(resnet50_has_the_zoos_names)
{
    tp_graph *g = resnet_graph(50, NULL);
    int64_t numbers;
    int variables;
    if (!CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g))) return;
    count(g, &numbers, &variables);
    CHECK(numbers == 25557032);
    CHECK(variables == 53 * 5 + 2); /* W, gamma, beta and two averages for each convolution */
    has(g, "conv0/W", "(7,7,3,64)");
    has(g, "conv0/bn/gamma", "(64)");
    has(g, "conv0/bn/beta", "(64)");
    has(g, "conv0/bn/mean/EMA", "(64)");
    has(g, "conv0/bn/variance/EMA", "(64)");
    has(g, "group0/block0/conv1/W", "(1,1,64,64)");
    has(g, "group0/block0/conv2/W", "(3,3,64,64)");
    has(g, "group0/block0/conv3/W", "(1,1,64,256)");
    has(g, "group0/block0/convshortcut/W", "(1,1,64,256)");
    has(g, "group0/block0/convshortcut/bn/mean/EMA", "(256)");
    has(g, "group1/block0/convshortcut/W", "(1,1,256,512)");
    has(g, "group2/block5/conv2/bn/variance/EMA", "(256)");
    has(g, "group3/block2/conv3/W", "(1,1,512,2048)");
    has(g, "linear/W", "(2048,1000)");
    has(g, "linear/b", "(1000)");
    CHECK(!tp_find_variable(g, "group0/block1/convshortcut/W") && !tp_find_variable(g, "conv0/b"));
    tp_graph_free(g);
}

/* A file as the zoo's: deflated npz, names with ":0", the averages in it, nothing of an optimizer. */
static tp_status write_zoo_file(tp_graph *g, const char *path)
{
    tp_dict d = {NULL, 0, 0};
    tp_status st = TP_OK;
    for (int i = 0; i < tp_graph_n_variables(g) && st == TP_OK; i++) {
        const tp_variable *v = tp_graph_variable(g, i);
        char name[300];
        snprintf(name, sizeof name, "%s:0", v->name);
        tp_tensor *t = tp_dict_add(&d, name);
        st = t ? tp_tensor_resize(t, TP_F32, v->shape) : TP_ERR_NOMEM;
        for (int64_t k = 0; st == TP_OK && k < tp_tensor_size(t); k++)
            ((float *)t->data)[k] = (float)((k * 7 + i) % 13) / 13;
    }
    if (st == TP_OK) st = tp_npz_save(path, &d, true);
    tp_dict_free(&d);
    return st;
}

TEST(a_zoo_file_loads)
{
    char path[300];
    tp_graph *zoo = resnet_graph(18, NULL), *g = NULL;
    int64_t numbers;
    int variables;
    count(zoo, &numbers, &variables);
    CHECK(numbers == 11689512);
    snprintf(path, sizeof path, "%s/ImageNet-ResNet18.npz", tp_test_tmpdir());
    if (!CHECK_OK(write_zoo_file(zoo, path))) return;
    tp_graph_free(zoo);

    g = resnet_graph(18, NULL);
    tp_session *s = tp_session_new(g, NULL);
    tp_session_init *init = tp_smart_init(path, false);
    if (CHECK(s && init) && CHECK_OK(tp_session_init_run(init, s)))
        for (int i = 0; i < tp_graph_n_variables(g); i++) {
            tp_tensor t;
            memset(&t, 0, sizeof t);
            const tp_variable *v = tp_graph_variable(g, i);
            const int64_t last = tp_shape_size(&v->shape) - 1;
            CHECK_OK(tp_session_read(s, v, &t));
            CHECK_MSG(tp_tensor_get(&t, last) == (double)((float)((last * 7 + i) % 13) / 13), "%s was not loaded",
                      v->name);
            tp_tensor_free(&t);
        }
    tp_session_init_free(init);
    tp_session_free(s);
    tp_graph_free(g);

    /* another depth: what fits is taken, what does not is left out with a warning, as ignore_mismatch promises */
    g = resnet_graph(34, NULL);
    s = tp_session_new(g, NULL);
    init = tp_smart_init(path, true);
    CHECK_OK(tp_session_init_run(init, s));
    tp_tensor t;
    memset(&t, 0, sizeof t);
    CHECK_OK(tp_session_read(s, tp_find_variable(g, "group3/block1/conv2/W"), &t));
    CHECK(tp_tensor_get(&t, 1) != 0 && tp_tensor_get(&t, 0) != tp_tensor_get(&t, 1));
    tp_tensor_free(&t);
    tp_session_init_free(init);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST_MAIN()
