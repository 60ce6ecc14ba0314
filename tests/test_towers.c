/* Towers that are built side by side, batch norm with the statistics of all of them, and training on several devices: four of
 * them with a batch each are one with four times the batch. */
#define TP_IMPLEMENTATION
#include "tp_layers.h"
#include "tp_optim.h"
#include "tp_test.h"

#ifdef TP_NO_THREADS
enum { ALONE = 1 }; /* towers cannot wait for each other */
#else
enum { ALONE = 0 };
#endif
enum { TOWERS = 4, BATCH = 3, SIDE = 4, CHANNELS = 2, FILTERS = 3, MAX_VARS = 16, STEPS = 3 };

/* ==== >>nets ========================================================================================== */

typedef struct kind {
    const char *name;
    int ndim;
    tp_data_format format;
    bool norm; /* with batch norm, else data parallel only */
    tp_dtype dtype;
} kind;
static const kind kinds[] = {{"NHWC", 4, TP_NHWC, true, TP_F32},
                             {"NCHW", 4, TP_NCHW, true, TP_F32},
                             {"NHWC double", 4, TP_NHWC, true, TP_F64},
                             {"vectors", 2, TP_NHWC, true, TP_F32},
                             {"no norm", 4, TP_NHWC, false, TP_F32}};

/* n towers, or with `batch` times as much one. */
typedef struct net {
    const kind *k;
    int n, batch; /* towers, samples of each */
    tp_graph *g;
    tp_node *x[TOWERS], *y[TOWERS], *cost[TOWERS], *total, *dx[TOWERS], *train;
    tp_node *var[MAX_VARS], *dvar[MAX_VARS];
    int n_var;
    tp_tensor data[TOWERS];
    tp_feed feed[TOWERS];
    tp_device *device[TOWERS];
    tp_session *session;
} net;

static tp_shape input_shape(const kind *k, int64_t batch)
{
    if (k->ndim == 2) return tp_make_shape(batch, SIDE * CHANNELS);
    return k->format == TP_NCHW ? tp_make_shape(batch, CHANNELS, SIDE, SIDE)
                                : tp_make_shape(batch, SIDE, SIDE, CHANNELS);
}

static tp_node *build(const tp_tower_context *tower, void *user)
{
    net *n = (net *)user;
    tp_graph *g = tower->graph;
    const int i = tower->index;
    n->x[i] = tp_placeholder(g, "x", n->k->dtype, input_shape(n->k, TP_ANY));
    tp_node *y = NULL;
    const tp_sync_statistics sync = n->n > 1 ? TP_SYNC_TOWERS : TP_SYNC_NONE;
    /* the scope is open while other towers build */
    TP_ARGSCOPE(g, batch_norm, .data_format = n->k->format, .sync_statistics = sync, .momentum = 0.75f)
    {
        if (n->k->ndim == 2) y = tp_fully_connected(n->x[i], "first", .units = FILTERS);
        else y = tp_conv2d(n->x[i], "first", .filters = FILTERS, .kernel_size = 3, .data_format = n->k->format);
        if (n->k->norm) y = tp_batch_norm(y, "bn0", .gamma_initializer = tp_init_normal(1, 0.3f));
        y = tp_tanh(y);
        if (n->k->norm && n->k->ndim == 4) {
            y = tp_conv2d(y, "second", .filters = FILTERS, .kernel_size = 3, .data_format = n->k->format);
            y = tp_bn_relu(y, "act");
        }
    }
    n->y[i] = tp_named(tp_fully_connected(y, "last", .units = 2), "answer");
    n->cost[i] = tp_mean(tp_square(tp_affine(n->y[i], 1.0f, -0.5f)));
    return n->cost[i];
}

static bool net_graph(net *n, const kind *k, int towers, int batch)
{
    tp_towers_desc d;
    tp_node *out[TOWERS];
    int count = 0, n_update = 0;
    memset(n, 0, sizeof *n);
    memset(&d, 0, sizeof d);
    n->k = k;
    n->n = d.n = towers;
    n->batch = batch;
    n->g = tp_graph_new(NULL);
    if (!CHECK(n->g != NULL) || !CHECK_OK(tp_build_on_towers(n->g, &d, build, n, out))) return false;
    n->total = tp_affine(tp_add_n(out, towers), 1.0f / (float)towers, 0.0f);
    tp_node *const *vars = tp_collection(n->g, TP_KEY_TRAINABLE_VARIABLES, &count);
    if (!CHECK(count < MAX_VARS - TOWERS)) return false;
    tp_node *wrt[MAX_VARS] = {NULL}, *grad[MAX_VARS];
    tp_grad_var gvs[MAX_VARS];
    for (int i = 0; i < count; i++) n->var[i] = wrt[i] = vars[i];
    for (int i = 0; i < towers; i++) wrt[count + i] = n->x[i];
    tp_gradients(n->total, wrt, count + towers, grad);
    for (int i = 0; i < count; i++) n->dvar[i] = gvs[i].grad = grad[i], gvs[i].var = vars[i];
    for (int i = 0; i < towers; i++) n->dx[i] = grad[count + i];
    n->n_var = count;
    tp_node *ops[8];
    ops[0] = tp_apply_gradients(tp_sgd(tp_get_scalar_variable(n->g, "learning_rate", 0.125f)), gvs, count);
    tp_node *const *update = tp_collection(n->g, TP_KEY_UPDATE_OPS, &n_update);
    CHECK(n_update == (!k->norm ? 0 : k->ndim == 4 ? 4 : 2)); /* once, whatever the towers */
    for (int i = 0; i < n_update && i < 7; i++) ops[1 + i] = update[i];
    n->train = tp_group(n->g, ops, 1 + n_update, "train");
    return CHECK_MSG(tp_graph_status(n->g) == TP_OK, "%s", tp_graph_error(n->g));
}

static bool net_open(net *n, tp_device *const *devices)
{
    tp_session_config c = tp_default_session_config();
    c.devices = devices;
    c.n_devices = n->n;
    n->session = tp_session_new(n->g, &c);
    for (int i = 0; i < n->n; i++) CHECK_OK(tp_tensor_resize(&n->data[i], n->k->dtype, input_shape(n->k, n->batch)));
    return CHECK_MSG(n->session != NULL, "%s", tp_last_error());
}

static bool net_new(net *n, const kind *k, int towers, int batch, int threads, const char *isa)
{
    return net_graph(n, k, towers, batch) && CHECK_OK(tp_cpu_devices_new(towers, threads, isa, n->device)) &&
           net_open(n, n->device);
}

static void net_free(net *n)
{
    tp_session_free(n->session);
    for (int i = 0; i < TOWERS; i++) {
        tp_tensor_free(&n->data[i]);
        if (n->device[i]) n->device[i]->close(n->device[i]);
    }
    tp_graph_free(n->g);
}

/* Sample b of the whole batch is the same, whichever tower gets it. */
static void net_data(net *n, int step)
{
    for (int i = 0; i < n->n; i++) {
        const int64_t size = tp_tensor_size(&n->data[i]);
        for (int64_t j = 0; j < size; j++)
            tp_tensor_set(&n->data[i], j, 0.3 + tp_random_normal(5, (uint64_t)step, (uint64_t)(i * size + j)));
        memset(&n->feed[i], 0, sizeof n->feed[i]);
        n->feed[i].node = n->x[i];
        tp_tensor_view(&n->feed[i].value, n->k->dtype, n->data[i].shape, n->data[i].data);
    }
}

static double largest(const tp_tensor *t)
{
    double most = 0;
    for (int64_t i = 0; i < tp_tensor_size(t); i++)
        most = fabs(tp_tensor_get(t, i)) > most ? fabs(tp_tensor_get(t, i)) : most;
    return most;
}
static void close_to(const tp_tensor *a, int64_t a0, const tp_tensor *b, double scale, double tol, const char *k,
                     const char *what, int step)
{
    double off = 0, size = 1;
    for (int64_t i = 0; i < tp_tensor_size(b); i++) {
        const double d = fabs(tp_tensor_get(a, a0 + i) - scale * tp_tensor_get(b, i));
        if (!(d <= off)) off = d == d ? d : 1e9;
    }
    if (largest(a) > 1) size = largest(a);
    CHECK_MSG(off <= tol * size, "%s: step %d: %s is off by %.3g of %.3g", k, step, what, off, size);
    CHECK_MSG(largest(a) > 0 || strstr(what, "mean") || strstr(what, "/b"), "%s: %s is all zeros", k, what);
}

/* ==== >>the same as a larger batch ===================================================================== */

TEST(towers_are_one_with_a_larger_batch)
{
    for (int k = 0; k < TP_COUNT(kinds); k++) {
        if (ALONE && kinds[k].norm) continue;
        net one, four;
        const tp_tensor *a[MAX_VARS + 4], *b[MAX_VARS + 2 * TOWERS + 2];
        tp_node *fa[MAX_VARS + 4], *fb[MAX_VARS + 2 * TOWERS + 2];
        if (!net_new(&one, &kinds[k], 1, TOWERS * BATCH, 1, NULL) || !net_new(&four, &kinds[k], TOWERS, BATCH, 1, NULL))
            return;
        CHECK(one.n_var == four.n_var && tp_graph_n_variables(one.g) == tp_graph_n_variables(four.g));
        for (int step = 0; step < STEPS; step++) {
            int na = 0, nb = 0;
            net_data(&one, step);
            net_data(&four, step);
            fa[na++] = one.total, fa[na++] = one.y[0], fa[na++] = one.dx[0];
            for (int i = 0; i < one.n_var; i++) fa[na++] = one.dvar[i];
            fb[nb++] = four.total;
            for (int i = 0; i < TOWERS; i++) fb[nb++] = four.y[i];
            for (int i = 0; i < TOWERS; i++) fb[nb++] = four.dx[i];
            for (int i = 0; i < four.n_var; i++) fb[nb++] = four.dvar[i];
            fa[na++] = one.train, fb[nb++] = four.train;
            if (!CHECK_OK(tp_session_run(one.session, one.feed, 1, fa, na, a))) break;
            if (!CHECK_OK(tp_session_run(four.session, four.feed, TOWERS, fb, nb, b))) break;
            const char *name = kinds[k].name;
            const double tol = 1e-6;
            close_to(a[0], 0, b[0], 1, tol, name, "the cost", step);
            for (int i = 0; i < TOWERS; i++) {
                close_to(a[1], i * tp_tensor_size(b[1]), b[1 + i], 1, tol, name, "the output", step);
                close_to(a[2], i * tp_tensor_size(b[1 + TOWERS]), b[1 + TOWERS + i], 1, tol, name,
                         "the gradient of the input", step);
            }
            for (int i = 0; i < one.n_var; i++) {
                CHECK_STR(one.var[i]->op->name, four.var[i]->op->name);
                close_to(a[3 + i], 0, b[1 + 2 * TOWERS + i], 1, tol, name, one.var[i]->op->name, step);
            }
        }
        for (int i = 0; i < tp_graph_n_variables(one.g); i++) { /* weights and running statistics */
            tp_tensor u, v;
            memset(&u, 0, sizeof u);
            memset(&v, 0, sizeof v);
            const tp_variable *var = tp_graph_variable(one.g, i);
            CHECK_OK(tp_session_read(one.session, var, &u));
            CHECK_OK(tp_session_read(four.session, tp_find_variable(four.g, var->name), &v));
            close_to(&u, 0, &v, 1, 1e-6, kinds[k].name, var->name, STEPS);
            if (strstr(var->name, "variance/EMA")) CHECK(fabs(tp_tensor_get(&u, 0) - 1) > 1e-3); /* it did move */
            tp_tensor_free(&u);
            tp_tensor_free(&v);
        }
        net_free(&one);
        net_free(&four);
    }
}

/* Threads, and which devices there are, change nothing. */
TEST(the_same_bits_for_any_number_of_threads)
{
    for (int k = 0; k < TP_COUNT(kinds); k++) {
        if (ALONE && kinds[k].norm) continue;
        net a, b;
        const tp_tensor *va[2], *vb[2];
        if (!net_new(&a, &kinds[k], TOWERS, BATCH, 1, NULL) || !net_new(&b, &kinds[k], TOWERS, BATCH, 2, NULL)) return;
        for (int step = 0; step < STEPS; step++) {
            tp_node *fa[2], *fb[2];
            fa[0] = a.total, fa[1] = a.train, fb[0] = b.total, fb[1] = b.train;
            net_data(&a, step);
            net_data(&b, step);
            CHECK_OK(tp_session_run(a.session, a.feed, TOWERS, fa, 2, va));
            CHECK_OK(tp_session_run(b.session, b.feed, TOWERS, fb, 2, vb));
            CHECK(memcmp(va[0]->data, vb[0]->data, tp_tensor_bytes(va[0])) == 0);
        }
        for (int i = 0; i < tp_graph_n_variables(a.g); i++) {
            tp_tensor u, v;
            memset(&u, 0, sizeof u);
            memset(&v, 0, sizeof v);
            CHECK_OK(tp_session_read(a.session, tp_graph_variable(a.g, i), &u));
            CHECK_OK(tp_session_read(b.session, tp_graph_variable(b.g, i), &v));
            CHECK_MSG(memcmp(u.data, v.data, tp_tensor_bytes(&u)) == 0, "%s: '%s' differs", kinds[k].name,
                      tp_graph_variable(a.g, i)->name);
            tp_tensor_free(&u);
            tp_tensor_free(&v);
        }
        net_free(&a);
        net_free(&b);
    }
}

/* ==== >>building ====================================================================================== */

static char *order_at;
static char order[256];
static void note(char c) { *order_at++ = c; }

typedef struct lockstep {
    tp_node *sum[3], *part[3];
    int n_seen[3], n_own[3], device[3];
    bool regularize;
} lockstep;
static tp_node *steps(const tp_tower_context *tower, void *user)
{
    lockstep *l = (lockstep *)user;
    tp_graph *g = tower->graph;
    const int i = tower->index;
    tp_node *x = tp_const(g, (float)(i + 1)), *y, *both[2], *out[2];
    note((char)('a' + i));
    TP_NAME_SCOPE(g, "deep")
    {
        tp_tower_all_reduce(g, &x, 1, false, "Sum", &y);
        note((char)('a' + i));
        CHECK_STR(tp_name_scope(g), i == 0 ? "tower0/deep" : i == 1 ? "tower1/deep" : "tower2/deep");
        CHECK(tp_current_tower_context(g) == tower && tower->index == i && tower->total == 3);
        CHECK(tp_current_device(g) == l->device[i]);
        l->sum[i] = tp_named(y, "sum");
    }
    tp_get_variable_as(g, "w", TP_F32, tp_make_shape(i == 9 ? 1 : 2), tp_init_ones());
    tp_collection_add(g, "parts", x);
    tp_collection_add(g, TP_KEY_SUMMARIES, x);
    both[0] = y, both[1] = x;
    tp_tower_all_reduce(g, both, 2, true, "Mean", out);
    note((char)('a' + i));
    tp_collection_add(g, "parts", y);
    tp_collection(g, "parts", &l->n_seen[i]);
    tp_tower_collection(g, "parts", &l->n_own[i]);
    l->part[i] = out[1];
    return out[0];
}

TEST(towers_are_built_side_by_side)
{
    if (ALONE) TEST_SKIP("no threads");
    tp_graph *g = tp_graph_new(NULL);
    tp_towers_desc d;
    tp_node *out[3], *fetch[9];
    lockstep l;
    int n = 0;
    const int devices[3] = {1, 0, 1};
    memset(&d, 0, sizeof d);
    memset(&l, 0, sizeof l);
    memset(order, 0, sizeof order);
    order_at = order;
    d.n = 3;
    d.devices = devices;
    for (int i = 0; i < 3; i++) l.device[i] = devices[i];
    tp_collection_add(g, "parts", tp_const(g, 0));
    CHECK_OK(tp_build_on_towers(g, &d, steps, &l, out));
    CHECK_STR(order, "abcabcabc");
    CHECK(tp_current_tower_context(g) == NULL && tp_current_device(g) == 0);
    CHECK_STR(tp_name_scope(g), "");
    for (int i = 0; i < 3; i++) {
        CHECK(l.n_seen[i] == 1 + 2 * (i + 1) && l.n_own[i] == 2); /* the towers before it, and its own */
        CHECK(tp_node_device(l.sum[i]) == devices[i] && tp_node_device(out[i]) == devices[i]);
    }
    tp_node *const *parts = tp_collection(g, "parts", &n);
    CHECK(n == 7);
    for (int i = 0; i < 3; i++) /* tower by tower, as if built so */
        CHECK(strncmp(tp_node_name(parts[1 + 2 * i]), i == 0 ? "tower0/" : i == 1 ? "tower1/" : "tower2/", 7) == 0);
    tp_collection(g, TP_KEY_SUMMARIES, &n);
    CHECK(n == 1); /* of the main tower */
    tp_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n);
    CHECK(n == 1 && tp_node_variable(tp_find_variable(g, "w")->node)->device == 1);
    CHECK(tp_graph_find(g, "tower2/deep/sum") == l.sum[2] && tp_graph_find(g, "deep/AllReduce") != NULL);
    tp_device *dev[2];
    CHECK_OK(tp_cpu_devices_new(2, 1, NULL, dev));
    tp_session_config c = tp_default_session_config();
    c.devices = dev;
    c.n_devices = 2;
    tp_session *s = tp_session_new(g, &c);
    const tp_tensor *value[9];
    for (int i = 0; i < 3; i++) fetch[i] = l.sum[i], fetch[3 + i] = out[i], fetch[6 + i] = l.part[i];
    CHECK_OK(tp_session_run(s, NULL, 0, fetch, 9, value));
    for (int i = 0; i < 9; i++) CHECK_NEAR(tp_tensor_get(value[i], 0), i < 6 ? 6 : 2, 1e-6, 0);
    tp_session_free(s);
    for (int i = 0; i < 2; i++) dev[i]->close(dev[i]);
    tp_graph_free(g);
}

/* Tower functions keep a handle of each, and values of half precision are normalised by float32 statistics. */
static tp_node *half(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    return tp_batch_norm(in[0], "bn", .sync_statistics = TP_SYNC_TOWERS, .epsilon = 1e-3f);
}
static tp_node *call_half(const tp_tower_context *tower, void *user)
{
    tp_node *x = tp_placeholder(tower->graph, "x", TP_F16, tp_make_shape(TP_ANY, 1));
    return tp_tower_func_call((tp_tower_func *)user, &x);
}
TEST(tower_functions_side_by_side_in_half_precision)
{
    if (ALONE) TEST_SKIP("no threads");
    tp_graph *g = tp_graph_new(NULL);
    tp_towers_desc d;
    tp_spec spec;
    tp_node *y[2];
    memset(&d, 0, sizeof d);
    memset(&spec, 0, sizeof spec);
    d.n = 2;
    spec.name = "x";
    spec.dtype = TP_F16;
    spec.shape = tp_make_shape(TP_ANY, 1);
    tp_tower_func *f = tp_tower_func_new(g, half, NULL, &spec, 1);
    CHECK_OK(tp_build_on_towers(g, &d, call_half, f, y));
    CHECK(tp_tower_func_n_towers(f) == 2);
    for (int i = 0; i < 2; i++) {
        const tp_tower_handle *h = tp_tower_func_tower(f, i);
        CHECK(h->ctx.index == i && h->output == y[i] && y[i]->dtype == TP_F16);
        CHECK_STR(h->ctx.ns_name, i ? "tower1" : "tower0");
    }
    CHECK(tp_node_variable(tp_graph_find(g, "bn/gamma"))->dtype == TP_F32);
    tp_device *dev[2];
    CHECK_OK(tp_cpu_devices_new(2, 1, NULL, dev));
    tp_session_config c = tp_default_session_config();
    c.devices = dev;
    c.n_devices = 2;
    tp_session *s = tp_session_new(g, &c);
    tp_tensor data[2];
    tp_feed feed[2];
    const tp_tensor *value[2];
    memset(data, 0, sizeof data);
    memset(feed, 0, sizeof feed);
    for (int i = 0; i < 2; i++) { /* -1 1 and 3 5: mean 2, variance 5 */
        CHECK_OK(tp_tensor_resize(&data[i], TP_F16, tp_make_shape(2, 1)));
        for (int j = 0; j < 2; j++) tp_tensor_set(&data[i], j, 4 * i + 2 * j - 1);
        feed[i].node = tp_tower_func_tower(f, i)->in[0];
        tp_tensor_view(&feed[i].value, TP_F16, data[i].shape, data[i].data);
    }
    CHECK_OK(tp_session_run(s, feed, 2, y, 2, value));
    for (int i = 0; i < 4; i++) CHECK_NEAR(tp_tensor_get(value[i / 2], i % 2), (2 * i - 3) / sqrt(5.001), 1e-3, 0);
    for (int i = 0; i < 2; i++) tp_tensor_free(&data[i]);
    tp_session_free(s);
    for (int i = 0; i < 2; i++) dev[i]->close(dev[i]);
    tp_graph_free(g);
}

/* The mean of squares less the square of the mean comes out below 0 for values that are large and close. The variance is not. */
static tp_node *close_values(const tp_tower_context *tower, void *user)
{
    tp_node **x = (tp_node **)user;
    x[tower->index] = tp_placeholder(tower->graph, "x", TP_F32, tp_make_shape(1, 1));
    return tp_batch_norm(x[tower->index], "bn", .sync_statistics = TP_SYNC_TOWERS, .training = TP_YES);
}
TEST(a_variance_of_towers_is_not_negative)
{
    if (ALONE) TEST_SKIP("no threads");
    tp_graph *g = tp_graph_new(NULL);
    tp_towers_desc d;
    tp_node *y[2], *x[2], *fetch[16];
    int n = 0;
    memset(&d, 0, sizeof d);
    d.n = 2;
    CHECK_OK(tp_build_on_towers(g, &d, close_values, x, y));
    tp_node *const *update = tp_collection(g, TP_KEY_UPDATE_OPS, &n);
    for (int i = 0; i < 2; i++) fetch[i] = y[i];
    for (int i = 0; i < n && i < 14; i++) fetch[2 + i] = update[i];
    tp_device *dev[2];
    CHECK_OK(tp_cpu_devices_new(2, 1, NULL, dev));
    tp_session_config c = tp_default_session_config();
    c.devices = dev;
    c.n_devices = 2;
    tp_session *s = tp_session_new(g, &c);
    const float data[2] = {1000 + 12.0f / 16384, 1000 + 34.0f / 16384};
    tp_feed feed[2];
    const tp_tensor *value[16];
    tp_tensor variance;
    memset(&variance, 0, sizeof variance);
    for (int i = 0; i < 2; i++) feed[i] = tp_make_feed(x[i], TP_F32, tp_make_shape(1, 1), &data[i]);
    if (CHECK(n > 0) && CHECK_OK(tp_session_run(s, feed, 2, fetch, 2 + n, value))) {
        for (int i = 0; i < 2; i++) CHECK_MSG(fabs(tp_tensor_get(value[i], 0)) < 1, "tower %d", i);
        CHECK_OK(tp_session_read(s, tp_find_variable(g, "bn/variance/EMA"), &variance));
        const double v = tp_tensor_get(&variance, 0);
        CHECK_MSG(v >= 0 && v < 1, "the running variance is %g", v);
    }
    tp_tensor_free(&variance);
    tp_session_free(s);
    for (int i = 0; i < 2; i++) dev[i]->close(dev[i]);
    tp_graph_free(g);
}

/* Each tower has variables of its own; the gradients meet, each tower applies them, and they stay alike. */
typedef struct copies {
    tp_node *cost[2], *w[2], *x[2];
} copies;
static tp_node *copied(const tp_tower_context *tower, void *user)
{
    copies *c = (copies *)user;
    const int i = tower->index;
    CHECK(tower->has_own_variables);
    c->x[i] = tp_placeholder(tower->graph, "x", TP_F32, tp_make_shape(BATCH, 3));
    tp_node *y = tp_fully_connected(c->x[i], "fc", .units = 2, .kernel_initializer = tp_init_constant(0.5f));
    c->w[i] = tp_layer_variable(y, "W");
    return c->cost[i] = tp_mean(tp_square(y));
}
TEST(towers_with_variables_of_their_own)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_towers_desc d;
    copies c;
    memset(&d, 0, sizeof d);
    d.n = 2;
    d.own_variables = true;
    CHECK_OK(tp_build_on_towers(g, &d, copied, &c, NULL));
    CHECK_STR(tp_node_name(c.w[0]), "fc/W");
    CHECK_STR(tp_node_name(c.w[1]), "tower1/fc/W");
    CHECK(!tp_node_variable(c.w[0])->local && tp_node_variable(c.w[1])->local);
    CHECK(tp_node_variable(c.w[0])->device == 0 && tp_node_variable(c.w[1])->device == 1);
    tp_node *grad[2], *mean[2], *fetch[4];
    for (int i = 0; i < 2; i++) tp_gradients(c.cost[i], &c.w[i], 1, &grad[i]);
    tp_all_reduce(grad, 2, true, mean);
    tp_grad_var gvs[2];
    for (int i = 0; i < 2; i++) gvs[i].grad = mean[i], gvs[i].var = c.w[i];
    fetch[0] = c.cost[0], fetch[1] = c.cost[1], fetch[2] = mean[0];
    tp_optimizer *opt = tp_accum_grad(tp_momentum(tp_get_scalar_variable(g, "learning_rate", 0.1f)), 1);
    fetch[3] = tp_apply_gradients(opt, gvs, 2);
    int own_slots = 0;
    for (int i = 0; i < tp_graph_n_variables(g); i++) { /* a copy's slots are copies: not saved */
        const tp_variable *v = tp_graph_variable(g, i);
        const bool copy = strncmp(v->name, "tower1/", 7) == 0;
        CHECK_MSG(v->local == copy, "%s", v->name);
        own_slots += copy && tp_graph_variable(g, i)->node != c.w[1];
    }
    CHECK(own_slots == 3); /* Momentum and AccumGrad of W, and b, which is not trained here */
    tp_device *dev[2];
    CHECK_OK(tp_cpu_devices_new(2, 1, NULL, dev));
    tp_session_config sc = tp_default_session_config();
    sc.devices = dev;
    sc.n_devices = 2;
    tp_session *s = tp_session_new(g, &sc);
    float data[2][BATCH * 3];
    tp_feed feed[2];
    const tp_tensor *value[4];
    memset(feed, 0, sizeof feed);
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < BATCH * 3; j++) data[i][j] = (float)tp_random_normal(3, (uint64_t)i, (uint64_t)j);
        feed[i].node = c.x[i];
        tp_tensor_view(&feed[i].value, TP_F32, tp_make_shape(BATCH, 3), data[i]);
    }
    for (int k = 0; k < 3; k++) CHECK_OK(tp_session_run(s, feed, 2, fetch, 4, value));
    tp_tensor a, b;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    CHECK_OK(tp_session_read(s, tp_node_variable(c.w[0]), &a));
    CHECK_OK(tp_session_read(s, tp_node_variable(c.w[1]), &b));
    CHECK(memcmp(a.data, b.data, tp_tensor_bytes(&a)) == 0 && fabs(tp_tensor_get(&a, 0) - 0.5) > 1e-4);
    tp_tensor_free(&a);
    tp_tensor_free(&b);
    tp_session_free(s);
    for (int i = 0; i < 2; i++) dev[i]->close(dev[i]);
    tp_graph_free(g);
}

/* One tower, or inference: an ordinary batch norm, node for node. One tower is built in the caller's thread. */
typedef struct plain {
    tp_sync_statistics sync;
    tp_tri training;
} plain;
static tp_node *normal(const tp_tower_context *tower, void *user)
{
    const plain *p = (const plain *)user;
    tp_node *x = tp_placeholder(tower->graph, "x", TP_F32, tp_make_shape(TP_ANY, 4));
    CHECK(tp_graph_find(tower->graph, "nowhere") == NULL);
    return tp_batch_norm(x, "bn", .sync_statistics = p->sync, .training = p->training);
}
TEST(one_tower_and_inference_are_ordinary)
{
    for (int towers = 1; towers < 3; towers++) {
        int n_op[2];
        for (int sync = 0; sync < 2; sync++) {
            tp_graph *g = tp_graph_new(NULL);
            tp_towers_desc d;
            plain p;
            tp_node *y[2];
            memset(&d, 0, sizeof d);
            d.n = towers;
            p.sync = sync ? TP_SYNC_TOWERS : TP_SYNC_NONE;
            p.training = towers == 1 ? TP_YES : TP_NO;
            CHECK(tp_graph_find(g, "before") == NULL);
            CHECK_OK(tp_build_on_towers(g, &d, normal, &p, y));
            CHECK_STR(tp_last_error(), towers == 1 || ALONE ? "there is no node 'nowhere' in the graph"
                                                            : "there is no node 'before' in the graph");
            n_op[sync] = tp_graph_n_operations(g);
            CHECK(tp_graph_find(g, "bn/AllReduce") == NULL);
            tp_graph_free(g);
        }
        CHECK(n_op[0] == n_op[1]);
    }
}

/* ==== >>mistakes ====================================================================================== */

typedef struct wrong {
    int what;
} wrong;
static tp_node *mistake(const tp_tower_context *tower, void *user)
{
    const int what = ((const wrong *)user)->what;
    tp_graph *g = tower->graph;
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 4)), *y = x;
    switch (what) {
    case 0: /* the second tower ends early */
        y = tp_batch_norm(x, "bn0", .sync_statistics = TP_SYNC_TOWERS);
        return tower->index == 1 ? y : tp_batch_norm(y, "bn1", .sync_statistics = TP_SYNC_TOWERS);
    case 1: /* the first */
        if (tower->index > 0) tp_tower_all_reduce(g, &x, 1, false, "Sum", &y);
        return y;
    case 2: /* another layer */
        TP_NAME_SCOPE(g, tower->index == 2 ? "b" : "a") tp_tower_all_reduce(g, &x, 1, false, "Sum", &y);
        return y;
    case 3: /* a mistake of its own, while the first waits */
        if (tower->index == 1) x = tp_fully_connected(x, "fc", .units = -3);
        return tp_batch_norm(x, "bn0", .sync_statistics = TP_SYNC_TOWERS);
    case 4: /* values of other shapes */
        y = tower->index == 1 ? tp_const(g, 1) : tp_reduce_sum(x, NULL, 0, true);
        tp_tower_all_reduce(g, &y, 1, false, "Sum", &y);
        return y;
    case 5: return tp_batch_norm(x, "bn", .sync_statistics = (tp_sync_statistics)7);
    case 6: return tp_batch_norm(x, "bn", .sync_statistics = TP_SYNC_TOWERS, .virtual_batch_size = 2);
    case 7: tp_name_scope_push(g, "open"); return x;
    case 8: tp_device_enter(g, 0); return x;
    default: {
        tp_towers_desc d;
        memset(&d, 0, sizeof d);
        d.n = 2;
        tp_build_on_towers(g, &d, mistake, user, NULL);
        return x;
    }
    }
}

/* In one process TP_SYNC_RANKS builds the same nodes as TP_SYNC_TOWERS. */
static tp_node *normal_of_ranks(const tp_tower_context *tower, void *user)
{
    tp_node *x = tp_placeholder(tower->graph, "x", TP_F32, tp_make_shape(TP_ANY, 4));
    return tp_batch_norm(x, "bn", .sync_statistics = *(const tp_sync_statistics *)user, .ema_update = TP_EMA_INTERNAL);
}
TEST(the_ranks_of_one_process_are_its_towers)
{
    if (ALONE) TEST_SKIP("no threads");
    tp_sync_statistics sync[] = {TP_SYNC_TOWERS, TP_SYNC_RANKS};
    tp_graph *g[2];
    for (int i = 0; i < 2; i++) {
        tp_towers_desc d;
        memset(&d, 0, sizeof d);
        d.n = 2;
        g[i] = tp_graph_new(NULL);
        CHECK_OK(tp_build_on_towers(g[i], &d, normal_of_ranks, &sync[i], NULL));
    }
    const int n = tp_graph_n_operations(g[0]);
    CHECK(tp_graph_n_operations(g[1]) == n);
    for (int i = 0; i < n && i < tp_graph_n_operations(g[1]); i++)
        CHECK(strcmp(tp_graph_operation(g[0], i)->name, tp_graph_operation(g[1], i)->name) == 0);
    tp_graph_free(g[0]), tp_graph_free(g[1]);
}

TEST(without_threads_statistics_of_all_towers_are_a_sentence)
{
    if (!ALONE) TEST_SKIP("there are threads");
    tp_graph *g = tp_graph_new(NULL);
    tp_towers_desc d;
    plain p;
    memset(&d, 0, sizeof d);
    memset(&p, 0, sizeof p);
    d.n = 2;
    p.sync = TP_SYNC_TOWERS, p.training = TP_UNSET;
    CHECK_ERR(tp_build_on_towers(g, &d, normal, &p, NULL), TP_ERR_UNSUPPORTED,
              "BatchNorm asks for a value of all towers, which needs a thread for each: this program was built with "
              "TP_NO_THREADS");
    tp_graph_free(g);
}

TEST(wrong_use_is_a_sentence)
{
    if (ALONE) TEST_SKIP("no threads");
    static const char *const sentence[] = {
        "BatchNorm 'bn1' of tower0 waits for the other towers, but tower1 ended without it: every tower must",
        "Sum '' of tower1 waits for the other towers, but tower0 ended without it",
        "Sum 'a' of tower0 waits for the other towers, but tower2 is at Sum 'b'",
        "tower1/fc: ",
        "all_reduce",
        "tower0/bn: BatchNorm has .sync_statistics 7: it must be TP_SYNC_NONE, TP_SYNC_TOWERS or TP_SYNC_RANKS",
        "BatchNorm has both .sync_statistics and .virtual_batch_size",
        "tower 'tower0' ends with the scope 'tower0/open' still open",
        "tower 'tower0' ends with a device scope still open",
        "towers are to be built inside tower 'tower0': leave it first",
    };
    for (int i = 0; i < TP_COUNT(sentence); i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_towers_desc d;
        wrong w;
        tp_node *out[3];
        memset(&d, 0, sizeof d);
        d.n = 3;
        w.what = i;
        const tp_status st = tp_build_on_towers(g, &d, mistake, &w, out);
        CHECK_MSG(st != TP_OK && strstr(tp_last_error(), sentence[i]), "%d: \"%s\" lacks \"%s\"", i, tp_last_error(),
                  sentence[i]);
        CHECK_STR(tp_last_error(), tp_graph_error(g));
        for (int k = 0; k < 3; k++) CHECK(tp_is_poison(out[k]));
        CHECK(tp_current_tower_context(g) == NULL);
        if (i == 0 || i == 3) CHECK_HAS(tp_graph_error(g), "test_towers.c:"); /* the line of the layer */
        tp_graph_free(g);
    }
    tp_graph *g = tp_graph_new(NULL);
    tp_towers_desc d;
    tp_tower_desc td;
    wrong w = {0};
    memset(&d, 0, sizeof d);
    memset(&td, 0, sizeof td);
    CHECK_ERR(tp_build_on_towers(g, &d, mistake, &w, NULL), TP_ERR_ARG, "0 towers make no sense");
    tp_graph_free(g);
    g = tp_graph_new(NULL);
    d.n = 2;
    CHECK_ERR(tp_build_on_towers(g, &d, NULL, &w, NULL), TP_ERR_ARG, "there is no function to build towers with");
    tp_graph_free(g);
    /* towers one after the other cannot know each other's statistics */
    g = tp_graph_new(NULL);
    td.name = "tower0";
    td.is_training = true;
    td.total = 2;
    tp_tower_enter(g, &td);
    tp_batch_norm(tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 4)), "bn", .sync_statistics = TP_SYNC_TOWERS);
    tp_tower_leave(g);
    CHECK_HAS(tp_graph_error(g),
              "BatchNorm asks for a value of all towers, but they are built one after the other: make "
              "them with tp_build_on_towers");
    tp_graph_free(g);
    g = tp_graph_new(NULL);
    tp_node *x = tp_const(g, 1);
    tp_tower_all_reduce(g, &x, 1, false, "Sum", &x);
    CHECK_HAS(tp_graph_error(g), "Sum asks for a value of all towers outside a tower");
    tp_graph_free(g);
}

/* Where one of several values cannot be added up, nobody gets any of them. */
static tp_node *two_values(const tp_tower_context *tower, void *user)
{
    tp_graph *g = tower->graph;
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 4)), *y[2], *got[2] = {x, x};
    y[0] = tp_const(g, 1);
    y[1] = tower->index == 1 ? y[0] : tp_reduce_sum(x, NULL, 0, true);
    tp_tower_all_reduce(g, y, 2, false, "Sum", got);
    for (int i = 0; i < 2; i++) *(int *)user += tp_is_poison(got[i]);
    return got[0];
}
TEST(all_values_of_a_failed_sum_are_poison)
{
    if (ALONE) TEST_SKIP("no threads");
    tp_graph *g = tp_graph_new(NULL);
    tp_towers_desc d;
    int poisoned = 0;
    memset(&d, 0, sizeof d);
    d.n = 2;
    CHECK(tp_build_on_towers(g, &d, two_values, &poisoned, NULL) != TP_OK);
    CHECK_MSG(poisoned == 4, "%d of 4", poisoned);
    tp_graph_free(g);
}

/* ==== >>memory ======================================================================================== */

static tp_status everything_once(void)
{
    net n;
    tp_towers_desc d;
    tp_node *out[TOWERS];
    tp_status st = TP_ERR_NOMEM;
    memset(&n, 0, sizeof n);
    memset(&d, 0, sizeof d);
    n.k = &kinds[ALONE ? 4 : 3];
    n.n = d.n = 2;
    n.batch = BATCH;
    n.g = tp_graph_new(NULL);
    if (!n.g) return TP_ERR_NOMEM;
    if ((st = tp_build_on_towers(n.g, &d, build, &n, out)) == TP_OK) {
        tp_node *fetch[2], *const *vars;
        int count = 0;
        n.total = tp_add_n(out, 2);
        vars = tp_collection(n.g, TP_KEY_TRAINABLE_VARIABLES, &count);
        tp_gradients(n.total, vars, 1, n.dvar);
        fetch[0] = n.total, fetch[1] = n.dvar[0];
        if ((st = tp_graph_status(n.g)) == TP_OK && (st = tp_cpu_devices_new(2, 1, NULL, n.device)) == TP_OK) {
            tp_session_config c = tp_default_session_config();
            c.devices = n.device;
            c.n_devices = 2;
            st = TP_ERR_NOMEM;
            n.session = tp_session_new(n.g, &c);
            if (n.session) st = TP_OK;
            for (int i = 0; i < 2 && st == TP_OK; i++)
                st = tp_tensor_resize(&n.data[i], TP_F32, input_shape(n.k, BATCH));
            if (st == TP_OK) {
                net_data(&n, 0);
                st = tp_session_run(n.session, n.feed, 2, fetch, 2, NULL);
            }
        }
    }
    net_free(&n);
    return st;
}

TEST(every_allocation_may_fail)
{
    int failures = 0;
    tp_set_log(tp_test_drop_log, NULL);
    for (int i = 1; i < 20000; i++) {
        tp_test_fail_after(i);
        const tp_status st = everything_once();
        const bool failed = tp_test_alloc_failed();
        CHECK_MSG(tp_test_live_blocks() == 0, "allocation %d: %ld blocks are left", i, tp_test_live_blocks());
        tp_test_alloc_reset();
        if (!failed) {
            CHECK(st == TP_OK);
            break;
        }
        CHECK_MSG(st == TP_ERR_NOMEM, "allocation %d: %s: %s", i, tp_status_name(st), tp_last_error());
        failures++;
    }
    tp_set_log(NULL, NULL);
    CHECK(failures > 30);
}

/* Variables of towers' own that are none: the getter around the towers makes something else of them, or there is a mistake. */
static tp_node *twice_as_much(tp_getter_call *call, tp_variable_desc *d, void *user)
{
    ++*(int *)user;
    return tp_affine(tp_getter_next(call, d), 2, 0);
}
static tp_node *own_or_wrong(const tp_tower_context *tower, void *user)
{
    const bool mistaken = *(const bool *)user && tower->index == 1;
    return tp_sum(tp_get_variable_as(tower->graph, mistaken ? "" : "w", TP_F32, tp_make_shape(2), tp_init_ones()));
}
TEST(own_variables_that_a_getter_or_a_mistake_makes_none)
{
    for (int i = 0; i < 3; i++) { /* a getter; a mistake; neither */
        tp_graph *g = tp_graph_new(NULL);
        tp_variable_scope_desc scope;
        tp_towers_desc d;
        tp_node *cost[2] = {NULL, NULL};
        int called = 0;
        bool mistaken = i == 1;
        memset(&scope, 0, sizeof scope);
        memset(&d, 0, sizeof d);
        d.n = 2;
        d.own_variables = true;
        scope.getter = twice_as_much, scope.getter_user = &called;
        if (i == 0) tp_variable_scope_push(g, &scope);
        const tp_status st = tp_build_on_towers(g, &d, own_or_wrong, &mistaken, cost);
        if (i == 0) tp_variable_scope_pop(g);
        if (mistaken) CHECK_MSG(st != TP_OK && tp_graph_status(g) == st, "%s", tp_status_name(st));
        else CHECK_OK(st);
        if (!mistaken) CHECK(called == (i == 0 ? 2 : 0) && cost[1]);
        const tp_variable *w = tp_find_variable(g, "tower1/w");
        CHECK(mistaken ? !w : w && w->local && !tp_find_variable(g, "w")->local);
        if (w) CHECK(w->copy_of == (i == 0 ? NULL : tp_find_variable(g, "w")));
        tp_graph_free(g);
    }
}

/* Each tower adds parts before and after a sum of all towers: whenever one goes on, the list of parts is made anew. */
enum { PARTS = 6 };
static tp_node *parts_around_a_sum(const tp_tower_context *tower, void *user)
{
    tp_graph *g = tower->graph;
    tp_node *x = tp_const(g, (float)tower->index), *y;
    (void)user;
    for (int k = 0; k < PARTS; k++) tp_collection_add(g, "parts", tp_identity(x));
    tp_tower_all_reduce(g, &x, 1, false, "Sum", &y);
    for (int k = 0; k < PARTS; k++) tp_collection_add(g, "parts", tp_identity(y));
    return y;
}
TEST(no_memory_leaves_no_shorter_collections)
{
    if (ALONE) TEST_SKIP("no threads");
    int failures = 0;
    bool failed = true;
    tp_set_log(tp_test_drop_log, NULL);
    for (int i = 1; i < 5000 && failed; i++) {
        tp_towers_desc d;
        memset(&d, 0, sizeof d);
        d.n = 2;
        tp_graph *g = tp_graph_new(NULL);
        tp_test_fail_after(i);
        const tp_status st = tp_build_on_towers(g, &d, parts_around_a_sum, NULL, NULL);
        failed = tp_test_alloc_failed();
        tp_test_alloc_reset();
        int n = 0;
        tp_node *const *part = tp_collection(g, "parts", &n);
        if (failed) CHECK_MSG(st == TP_ERR_NOMEM, "allocation %d: %s, %d parts", i, tp_status_name(st), n);
        else if (CHECK_OK(st) && CHECK(n == 4 * PARTS))
            for (int k = 0; k < n; k++) /* tower by tower */
                CHECK(strncmp(tp_node_name(part[k]), k < 2 * PARTS ? "tower0/" : "tower1/", 7) == 0);
        failures += failed;
        tp_graph_free(g);
    }
    tp_set_log(NULL, NULL);
    CHECK_MSG(!failed && failures > 10, "%d failures", failures);
}

/* A sum of all towers inside a frozen block: the other towers add to the collection between the block's begin and its end. */
static tp_node *frozen_around_a_sum(const tp_tower_context *tower, void *user)
{
    tp_graph *g = tower->graph;
    tp_node *x = tp_const(g, (float)tower->index), *y = NULL;
    const char *const kept[] = {"parts"};
    const bool all = *(const bool *)user;
    tp_collection_add(g, "parts", tp_named(tp_identity(x), "first"));
    TP_FREEZE_COLLECTION(g, all ? NULL : kept, 1)
    {
        for (int k = 0; k < 3; k++) tp_collection_add(g, "parts", tp_named(tp_identity(x), "inside"));
        tp_tower_all_reduce(g, &x, 1, false, "Sum", &y);
        tp_collection_add(g, "parts", tp_named(tp_identity(y), "inside"));
        if (all) tp_collection_add(g, "added inside", y);
    }
    tp_collection_add(g, "parts", tp_named(tp_identity(y), "last"));
    return y;
}
TEST(a_frozen_collection_keeps_the_nodes_of_all_towers)
{
    if (ALONE) TEST_SKIP("no threads");
    for (int k = 0; k < 2; k++) {
        bool all = k == 1;
        tp_towers_desc d;
        memset(&d, 0, sizeof d);
        d.n = 3;
        tp_graph *g = tp_graph_new(NULL);
        tp_collection_add(g, "parts", tp_const(g, 7));
        CHECK_OK(tp_build_on_towers(g, &d, frozen_around_a_sum, &all, NULL));
        int n = 0;
        tp_collection(g, "added inside", &n);
        CHECK(n == 0);
        tp_node *const *part = tp_collection(g, "parts", &n);
        if (CHECK_MSG(n == 7, "%d nodes", n))
            for (int i = 0; i < 6; i++) {
                char name[32];
                snprintf(name, sizeof name, "tower%d/%s", i / 2, i % 2 ? "last" : "first");
                CHECK_STR(tp_node_name(part[1 + i]), name);
            }
        tp_graph_free(g);
    }
}

/* Such a backup has the tower's own nodes only: restored later it would lose those of the others. */
static tp_node *stores_a_backup(const tp_tower_context *tower, void *user)
{
    if (tower->index == 0) *(tp_collection_backup **)user = tp_backup_collection(tower->graph, NULL, 0);
    return tp_const(tower->graph, 1);
}
TEST(a_towers_backup_is_restored_in_the_tower)
{
    if (ALONE) TEST_SKIP("no threads");
    tp_graph *g = tp_graph_new(NULL);
    tp_collection_backup *b = NULL;
    tp_towers_desc d;
    int n = 0;
    memset(&d, 0, sizeof d);
    d.n = 2;
    tp_collection_add(g, "parts", tp_const(g, 7));
    CHECK_OK(tp_build_on_towers(g, &d, stores_a_backup, &b, NULL));
    tp_restore_collection(g, b);
    CHECK(tp_graph_status(g) == TP_ERR_STATE && strstr(tp_graph_error(g), "made by a tower's function"));
    tp_collection(g, "parts", &n);
    CHECK(n == 1);
    tp_graph_free(g);
}

TEST_MAIN()
