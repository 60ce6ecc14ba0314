/* What the planner is for, in numbers: kernels, bytes moved, memory of plans that are known. That a plan changes no bits is
 * asked elsewhere; here it must also be worth something. */
#define TP_IMPLEMENTATION
#include "tp_layers.h"
#include "tp_optim.h"
#include "tp_test.h"

enum { N = 1 << 20 }; /* floats of 4 MiB */

static const size_t MIB = 1 << 20;

/* The plan of these fetches after a run; x is fed with ones of this shape (its first extent given), labels with zeros. */
static tp_plan_info plan_of(tp_graph *g, const char *isa, bool no_fusion, tp_node *x, tp_shape shape, tp_node *label,
                            tp_node *const *fetch, int n)
{
    tp_plan_info info;
    tp_session_config c = tp_default_session_config();
    tp_feed f[2];
    const tp_tensor *out[4];
    memset(&info, 0, sizeof info);
    memset(f, 0, sizeof f);
    c.threads = 1;
    c.isa = isa;
    c.no_fusion = no_fusion;
    f[0].node = x;
    CHECK_OK(tp_tensor_resize(&f[0].value, TP_F32, shape));
    for (int64_t i = 0; i < tp_shape_size(&shape); i++) tp_tensor_set(&f[0].value, i, 0.5 + (double)(i % 7) / 8);
    if (label) {
        f[1].node = label;
        CHECK_OK(tp_tensor_resize(&f[1].value, TP_I32, tp_make_shape(shape.dim[0])));
        memset(f[1].value.data, 0, tp_tensor_bytes(&f[1].value));
    }
    tp_session *s = tp_session_new(g, &c);
    if (CHECK_MSG(s != NULL, "%s", tp_graph_error(g) ? tp_graph_error(g) : tp_last_error())) {
        CHECK_OK(tp_session_run(s, f, label ? 2 : 1, fetch, n, out));
        CHECK_OK(tp_exec_plan_info(tp_session_exec(s), fetch, n, &info));
        if (getenv("TP_TEST_PRINT")) {
            tp_buf text;
            memset(&text, 0, sizeof text);
            tp_exec_print_plan(tp_session_exec(s), fetch, n, &text);
            puts(text.data);
            tp_buf_free(&text);
        }
    }
    tp_session_free(s);
    tp_tensor_free(&f[0].value);
    tp_tensor_free(&f[1].value);
    return info;
}

static tp_node *chain_of_18(tp_node *x)
{
    for (int i = 0; i < 6; i++) x = tp_tanh(tp_mul(tp_add(x, x), tp_const(tp_node_graph(x), 0.25f)));
    return x;
}

/* One walk over the data for as many operations as a kernel takes: two for 18. */
TEST(a_chain_moves_what_comes_and_goes)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY)), *y = x, *long_one = chain_of_18(x);
    for (int i = 0; i < 3; i++) y = tp_tanh(tp_affine(tp_neg(y), 0.5f, 0.25f));
    tp_plan_info p = plan_of(g, NULL, false, x, tp_make_shape(N), NULL, &y, 1);
    CHECK_MSG(p.n_steps == 1 && p.n_fused == 9, "%d kernels, %d fused", p.n_steps, p.n_fused);
    CHECK_MSG(p.arena_bytes >= 4 * MIB && p.arena_bytes < 4 * MIB + 4096, "%zu bytes", p.arena_bytes);
    CHECK_MSG(p.bytes >= 8.0 * (double)MIB && p.bytes < 8.0 * (double)MIB + 4096, "%g bytes moved", p.bytes);
    p = plan_of(g, NULL, false, x, tp_make_shape(N), NULL, &long_one, 1);
    CHECK_MSG(p.n_steps <= 2 && p.n_fused == 18, "%d kernels, %d fused", p.n_steps, p.n_fused);
    CHECK_MSG(p.arena_bytes >= 4 * MIB && p.arena_bytes < 4 * MIB + 4096, "%zu bytes", p.arena_bytes);
    CHECK_MSG(p.bytes < 16.0 * (double)MIB + 4096, "%g bytes moved", p.bytes);
    p = plan_of(g, NULL, true, x, tp_make_shape(N), NULL, &long_one, 1);
    CHECK_MSG(p.n_steps == 18, "%d kernels without fusion", p.n_steps);
    CHECK_MSG(p.bytes > 36 * 3.9 * (double)MIB, "%g bytes moved without fusion", p.bytes);
    CHECK_MSG(p.arena_bytes < 8 * MIB + 4096, "%zu bytes without fusion", p.arena_bytes); /* over what dies */
    tp_graph_free(g);
}

TEST(the_gradient_of_a_chain_keeps_nothing_of_its_middle)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY)),
            *cost = tp_sum(tp_square(tp_tanh(tp_affine(x, 2, 1)))), *dx = NULL;
    tp_gradients(cost, &x, 1, &dx);
    const tp_plan_info p = plan_of(g, NULL, false, x, tp_make_shape(N), NULL, &dx, 1);
    CHECK_MSG(p.n_steps <= 3, "%d kernels", p.n_steps);
    CHECK_MSG(p.arena_bytes < 8 * MIB + 4096, "%zu bytes", p.arena_bytes);
    tp_graph_free(g);
}

/* Steps of training: not more kernels, memory and traffic than this, with each instruction set; without fusion it is more
 * by so much at least. Who gets below makes the bounds lower. */
typedef struct bounds {
    int steps, steps_less;
    double arena, arena_less, bytes, bytes_less; /* MB; _less: than without fusion */
} bounds;

static void within(tp_graph *g, tp_node *x, tp_shape shape, tp_node *label, tp_node *const *fetch, int n, bounds most)
{
    static const char *const isa[] = {"sse2", "avx2", "avx512", "neon", "generic"};
    int tried = 0;
    for (int i = 0; i < TP_COUNT(isa); i++) {
        tp_device *d = tp_cpu_device_new(1, isa[i]);
        if (!d) continue;
        d->close(d);
        tried++;
        const tp_plan_info p = plan_of(g, isa[i], false, x, shape, label, fetch, n);
        const tp_plan_info q = plan_of(g, isa[i], true, x, shape, label, fetch, n);
        const double arena = (double)p.arena_bytes * 1e-6, was = (double)q.arena_bytes * 1e-6;
        CHECK_MSG(p.n_steps <= most.steps && p.n_steps <= q.n_steps - most.steps_less,
                  "%s: %d kernels, %d without fusion", isa[i], p.n_steps, q.n_steps);
        CHECK_MSG(arena <= most.arena && arena <= was - most.arena_less, "%s: %.2f MB, %.2f without fusion", isa[i],
                  arena, was);
        CHECK_MSG(p.bytes * 1e-6 <= most.bytes && (q.bytes - p.bytes) * 1e-6 >= most.bytes_less,
                  "%s: %.2f MB moved, %.2f without fusion", isa[i], p.bytes * 1e-6, q.bytes * 1e-6);
    }
    CHECK(tried > 0 || !TP__FAST);
}

TEST(bias_and_activation_fold_into_their_product)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_desc tower;
    memset(&tower, 0, sizeof tower);
    tp_tower_enter(g, &tower);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 64));
    tp_node *y = tp_fully_connected(x, "fc0", .units = 64, .activation = tp_relu);
    y = tp_fully_connected(y, "fc1", .units = 64, .activation = tp_relu);
    tp_tower_leave(g);
    const tp_plan_info p = plan_of(g, NULL, false, x, tp_make_shape(1024, 64), NULL, &y, 1);
    CHECK_MSG(p.n_steps == 2 && p.n_fused == 4, "%d kernels, %d fused", p.n_steps, p.n_fused);
    tp_graph_free(g);
}

TEST(what_is_known_is_computed_once)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY));
    tp_node *k = tp_sqrt(tp_add(tp_const(g, 2), tp_mul(tp_const(g, 7), tp_const(g, 2)))), *y = tp_mul(x, k);
    const tp_plan_info p = plan_of(g, NULL, false, x, tp_make_shape(N), NULL, &y, 1);
    CHECK_MSG(p.n_steps == 1 && p.n_folded == 3, "%d kernels, %d folded", p.n_steps, p.n_folded);
    tp_graph_free(g);
}

TEST(products_in_a_row_share_two_places)
{
    tp_graph *g = tp_graph_new(NULL);
    enum { WIDTH = 480 }; /* a width at which w is not packed, so that the arena has nothing but results */
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, WIDTH)), *y = x;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(WIDTH, WIDTH), tp_init_ones());
    for (int i = 0; i < 8; i++) y = tp_matmul(y, w);
    const tp_plan_info p = plan_of(g, NULL, false, x, tp_make_shape(WIDTH, WIDTH), NULL, &y, 1);
    CHECK_MSG(p.n_steps == 8, "%d kernels", p.n_steps);
    CHECK_MSG(p.arena_bytes < 3 * WIDTH * WIDTH * sizeof(float), "%zu bytes", p.arena_bytes);
    tp_graph_free(g);
}

static tp_node *minimize(tp_optimizer *opt, tp_node *cost)
{
    int n = 0;
    tp_node *const *v = tp_collection(tp_node_graph(cost), TP_KEY_TRAINABLE_VARIABLES, &n);
    tp_grad_var gv[32];
    if (!CHECK(n > 0 && n <= 32)) return cost;
    tp_compute_gradients(cost, v, n, gv);
    return tp_apply_gradients(opt, gv, n);
}

/* The convnet of the README, with a step of Adam. */
TEST(a_training_step_of_the_convnet)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_desc tower;
    memset(&tower, 0, sizeof tower);
    tower.is_training = true;
    tp_tower_enter(g, &tower);
    tp_node *x = tp_placeholder(g, "image", TP_F32, tp_make_shape(TP_ANY, 28, 28)), *logits = NULL;
    tp_node *label = tp_placeholder(g, "label", TP_I32, tp_make_shape(TP_ANY));
    TP_ARGSCOPE(g, conv2d, .filters = 16, .kernel_size = 3, .activation = tp_relu)
    {
        logits = tp_linear(tp_expand_dims(x, 3), TP_CONV2D("conv0"), TP_MAX_POOLING("pool0", .pool_size = 2),
                           TP_CONV2D("conv1"), TP_MAX_POOLING("pool1", .pool_size = 2),
                           TP_FULLY_CONNECTED("fc0", .units = 128, .activation = tp_relu),
                           TP_DROPOUT("dropout", .rate = 0.5f), TP_FULLY_CONNECTED("fc1", .units = 10));
    }
    tp_node *cost = tp_mean(tp_sparse_softmax_cross_entropy(logits, label));
    tp_node *step = minimize(tp_adam(tp_const(g, 1e-3f)), cost), *both[2] = {step, cost};
    tp_tower_leave(g);
    const bounds most = {37, 8, 10.9, 2.7, 57.5, 32};
    within(g, x, tp_make_shape(128, 28, 28), label, both, 2, most);
    tp_graph_free(g);
}

/* What a step costs is what the formulas say: it chooses plans and is printed. */
/* An input that is read for its shape alone moves no bytes. */
TEST(a_shape_moves_no_bytes)
{
    static const int64_t n = 4096;
    for (int i = 0; i < 3; i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY)), *y;
        tp_node *v = tp_get_variable_as(g, "v", TP_F32, tp_make_shape_n(0, NULL), tp_init_ones());
        if (i == 0) y = tp_fill_like(x, 3);           /* writes n numbers */
        else if (i == 1) y = tp_broadcast_like(v, x); /* reads one, writes n */
        else tp_gradients(tp_mean(x), &x, 1, &y);     /* makes one of the shapes, reads it, writes n */
        const tp_plan_info p = plan_of(g, "naive", true, x, tp_make_shape(n), NULL, &y, 1);
        CHECK_MSG(p.bytes >= 4.0 * (double)n && p.bytes < 4.0 * (double)n + 64, "%d: %g bytes moved", i, p.bytes);
        tp_graph_free(g);
    }
}

TEST(work_is_counted)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 64)), *y[4];
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(64, 32), tp_init_ones());
    tp_node *f = tp_get_variable_as(g, "f", TP_F32, tp_make_shape(3, 3, 4, 8), tp_init_ones());
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    y[0] = tp_matmul(x, w);
    y[1] = tp_nn_conv2d(tp_reshape_to(x, tp_make_shape(TP_ANY, 4, 4, 4)), f, &a);
    y[2] = tp_global_norm(&x, 1);
    y[3] = tp_cumsum(x, 1, false, false); /* an op without a formula: one for each element */
    static const double want[4] = {2.0 * 10 * 64 * 32, 2.0 * 10 * 4 * 4 * 8 * 3 * 3 * 4, 2.0 * 10 * 64, 10 * 64};
    for (int i = 0; i < 4; i++) {
        const tp_plan_info p = plan_of(g, NULL, false, x, tp_make_shape(10, 64), NULL, &y[i], 1);
        CHECK_MSG(p.flops == want[i], "%d: %g, not %g", i, p.flops, want[i]);
    }
    tp_graph_free(g);
}

/* Two blocks of convolution, batch norm, ReLU and a sum, with gradient descent. */
TEST(a_training_step_of_residual_blocks)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_desc tower;
    memset(&tower, 0, sizeof tower);
    tower.is_training = true;
    tp_tower_enter(g, &tower);
    tp_node *x = tp_placeholder(g, "image", TP_F32, tp_make_shape(TP_ANY, 32, 32, 16)), *y = x;
    for (int i = 0; i < 2; i++) {
        tp_node *z =
            tp_conv2d(y, i ? "b0" : "a0", .filters = 16, .kernel_size = 3, .activation = tp_bn_relu, .use_bias = TP_NO);
        z = tp_conv2d(z, i ? "b1" : "a1", .filters = 16, .kernel_size = 3, .use_bias = TP_NO);
        z = tp_batch_norm(z, i ? "bn1" : "bn0");
        y = tp_relu(tp_add(y, z));
    }
    tp_node *cost = tp_mean(tp_square(y));
    tp_node *step = minimize(tp_sgd(tp_const(g, 1e-3f)), cost), *both[2] = {step, cost};
    tp_tower_leave(g);
    const bounds most = {29, 10, 8.95, 2.5, 61.1, 22};
    within(g, x, tp_make_shape(16, 32, 32, 16), NULL, both, 2, most);
    tp_graph_free(g);
}

/* ==== >>where a fusion may be, and where not ========================================================== */

/* Small graphs around one fusion each, with the steps and the fused ops that its rule gives. Each runs as planned and op by op:
 * the bits must be the same. `fed` are nodes that are fed beside the placeholders, before them. */
typedef struct scene {
    tp_graph *g;
    tp_node *x, *z, *m, *vec, *fetch[6], *fed[2]; /* x, z images, m a matrix, vec 16 numbers: fed */
    tp_node *w, *w2, *gamma, *beta, *wm, *b;      /* variables */
    int n, n_fed;
    tp_dtype dtype;
} scene;
enum { NUMBERS = 24 * 22 * 16 }; /* of an image */

static tp_node *scene_variable(scene *s, const char *name, tp_shape shape, float low, float high)
{
    return tp_get_variable_as(s->g, name, s->dtype, shape, tp_init_uniform(low, high));
}
static scene scene_of(tp_dtype dtype)
{
    scene s;
    memset(&s, 0, sizeof s);
    s.g = tp_graph_new(NULL);
    s.dtype = dtype;
    s.x = tp_placeholder(s.g, "x", dtype, tp_make_shape(1, 24, 22, 16));
    s.z = tp_placeholder(s.g, "z", dtype, tp_make_shape(1, 24, 22, 16));
    s.m = tp_placeholder(s.g, "m", dtype, tp_make_shape(8, 16));
    s.vec = tp_placeholder(s.g, "vec", dtype, tp_make_shape(16));
    s.w = scene_variable(&s, "w", tp_make_shape(3, 3, 16, 16), -0.1f, 0.1f);
    s.w2 = scene_variable(&s, "w2", tp_make_shape(3, 3, 16, 16), -0.1f, 0.1f);
    s.gamma = scene_variable(&s, "gamma", tp_make_shape(16), 0.5f, 1.5f);
    s.beta = scene_variable(&s, "beta", tp_make_shape(16), -0.5f, 0.5f);
    s.wm = scene_variable(&s, "wm", tp_make_shape(16, 16), -1, 1);
    s.b = scene_variable(&s, "b", tp_make_shape(16), -1, 1);
    return s;
}
static tp_node *want(scene *s, tp_node *n) { return s->fetch[s->n++] = n; }
static tp_node *feed_also(scene *s, tp_node *n) { return s->fed[s->n_fed++] = n; }

static tp_node *conv(tp_node *x, tp_node *w)
{
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    return tp_nn_conv2d(x, w, &a);
}
static tp_node *norm(const scene *s, tp_node *x)
{
    return tp_nn_batch_norm_train(x, s->gamma, s->beta, 3, 1e-3f, false, NULL, NULL);
}
static tp_node *product(const scene *s) { return tp_matmul(s->m, s->wm); }
static tp_node *biased(const scene *s, tp_node *x) { return tp_nn_bias_add(x, s->b, TP_NHWC); }
static tp_node *waiting(tp_node *x, tp_node *after) { return tp_with_dependencies(x, &after, 1); }
static tp_node *bump(scene *s) { return tp_assign_add(s->gamma, s->vec, NULL); } /* a writer */

/* -- bias and activation */
static void with_both(scene *s) { want(s, tp_relu(biased(s, product(s)))); }
static void with_bias(scene *s) { want(s, biased(s, product(s))); }
/* as layers without an activation end: under a name */
static tp_node *named(scene *s) { return tp_named(biased(s, product(s)), "output"); }
static void named_relu(scene *s) { want(s, tp_relu(tp_named(named(s), "again"))); }
static void named_clip(scene *s) { want(s, tp_clip(named(s), 0, 1)); }
static void named_wanted(scene *s) { want(s, tp_relu(want(s, named(s)))); }
static void named_read_twice(scene *s)
{
    tp_node *n = named(s);
    want(s, tp_add(tp_relu(n), n));
}
static void named_waiting(scene *s) { want(s, tp_relu(waiting(named(s), bump(s)))); }
static void flattened_relu(scene *s) { want(s, tp_relu(tp_batch_flatten(biased(s, conv(s->x, s->w))))); }
static void with_leaky(scene *s) { want(s, tp_leaky_relu(biased(s, product(s)), 0.1f)); }
static tp_node *scaled(scene *s, tp_node *x) { return (void)s, tp_affine(x, 0.3f, 0); }
static void scale_softmax(scene *s) { want(s, tp_softmax(scaled(s, s->x))); }
static void scale_softmax_product(scene *s) { want(s, tp_softmax(scaled(s, product(s)))); }
static void scale_softmax_short(scene *s)
{
    want(s, tp_softmax(scaled(s, tp_reshape_to(s->x, tp_make_shape(NUMBERS / 3, 3)))));
}
static void scale_softmax_offset(scene *s) { want(s, tp_softmax(tp_affine(s->x, 0.3f, 1))); }
static void scale_log_softmax(scene *s) { want(s, tp_log_softmax(scaled(s, s->x))); }
static void scale_wanted(scene *s)
{
    tp_node *x = scaled(s, s->x);
    want(s, x);
    want(s, tp_softmax(x));
}
static void scale_read_twice(scene *s)
{
    tp_node *x = scaled(s, s->x);
    want(s, tp_mul(tp_softmax(x), x));
}
static void with_conv(scene *s) { want(s, tp_relu(biased(s, conv(s->x, s->w)))); }
/* a transposed convolution: images of 24 x 22 from images of 12 x 11, whose pixels differ in which taps reach them */
static tp_node *transposed(scene *s, int channels_first)
{
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    a.stride_h = a.stride_w = 2;
    const int64_t small = 12 * 11 * 16;
    tp_node *dy = tp_slice(tp_reshape_to(s->z, tp_make_shape(NUMBERS)), (const int64_t[]){5}, &small), *like = s->x;
    if (channels_first) like = tp_reshape_to(like, tp_make_shape(1, 16, 24, 22)), a.data_format = TP_NCHW;
    dy = tp_reshape_to(dy, channels_first ? tp_make_shape(1, 16, 12, 11) : tp_make_shape(1, 12, 11, 16));
    return tp_nn_conv2d_input_grad(dy, s->w, like, &a);
}
static void with_transposed(scene *s) { want(s, tp_relu(biased(s, transposed(s, 0)))); }
static void with_transposed_alone(scene *s) { want(s, biased(s, transposed(s, 0))); }
static void nchw_transposed(scene *s) { want(s, tp_relu(tp_nn_bias_add(transposed(s, 1), s->b, TP_NCHW))); }
static void transposed_wanted(scene *s) { want(s, tp_relu(biased(s, want(s, transposed(s, 0))))); }
/* -- the batch norm of a prediction, after a convolution */
static tp_node *predicted(scene *s, tp_node *x, int axis)
{
    return tp_nn_batch_norm_infer(x, s->gamma, s->beta, s->b, s->vec, axis, 3);
}
static tp_node *grouped(scene *s, int groups)
{
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    a.groups = groups;
    tp_node *w = tp_reshape_to(s->w, tp_make_shape(9, 16, 16));
    w = tp_slice(w, (const int64_t[]){0, 0, 0}, (const int64_t[]){9, 16 / groups, 16});
    return tp_nn_conv2d(s->x, tp_reshape_to(w, tp_make_shape(3, 3, 16 / groups, 16)), &a);
}
static tp_node *one_by_one(scene *s) { return conv(s->x, tp_reshape_to(s->wm, tp_make_shape(1, 1, 16, 16))); }
static void normal(scene *s) { want(s, predicted(s, conv(s->x, s->w), 3)); }
static void normal_relu(scene *s) { want(s, tp_relu(predicted(s, conv(s->x, s->w), -1))); }
static void normal_tanh(scene *s) { want(s, tp_tanh(predicted(s, conv(s->x, s->w), 3))); }
static void normal_biased(scene *s) { want(s, predicted(s, biased(s, conv(s->x, s->w)), 3)); }
static void normal_everything(scene *s) { want(s, tp_relu(predicted(s, tp_relu(biased(s, conv(s->x, s->w))), 3))); }
static void normal_direct(scene *s) /* no Winograd */
{
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    a.stride_h = a.stride_w = 2;
    want(s, tp_relu(predicted(s, tp_nn_conv2d(s->x, s->w, &a), 3)));
}
static void normal_depthwise(scene *s) { want(s, tp_relu(predicted(s, grouped(s, 16), 3))); }
static void normal_sides_swapped(scene *s) /* the axis of the norm is the height */
{
    tp_node *y = tp_slice(conv(s->x, s->w), (const int64_t[]){0, 0, 0, 0}, (const int64_t[]){1, 16, 22, 16});
    want(s, predicted(s, y, 1));
}
static void normal_one_by_one(scene *s) { want(s, predicted(s, one_by_one(s), 3)); }
static void normal_product(scene *s) { want(s, predicted(s, product(s), 1)); }
static void normal_wanted(scene *s) { want(s, predicted(s, want(s, conv(s->x, s->w)), 3)); }
static void normal_read_twice(scene *s)
{
    tp_node *y = conv(s->x, s->w);
    want(s, predicted(s, y, 3));
    want(s, tp_tanh(y));
}
static void normal_relu_wanted(scene *s) { want(s, tp_relu(want(s, predicted(s, conv(s->x, s->w), 3)))); }
static void normal_written(scene *s) /* the write, whose result the norm reads, is between */
{
    tp_node *y = conv(s->x, s->w);
    want(s, tp_nn_batch_norm_infer(y, s->b, s->beta, bump(s), s->vec, 3, 3));
}
static void normal_waited_for(scene *s)
{
    tp_node *y = conv(s->x, s->w);
    want(s, waiting(tp_sum(s->m), y));
    want(s, predicted(s, y, 3));
}
static void normal_biased_waited_for(scene *s)
{
    tp_node *y = biased(s, conv(s->x, s->w));
    want(s, waiting(tp_sum(s->m), y));
    want(s, predicted(s, y, 3));
}
static void normal_of_itself(scene *s) /* its mean is made of the convolution's input, by an op after the convolution */
{
    tp_node *y = conv(s->x, s->w), *mean = tp_reduce_mean(s->x, (const int[]){0, 1, 2}, 3, false);
    want(s, tp_nn_batch_norm_infer(y, s->gamma, s->beta, mean, s->vec, 3, 3));
}
static void normal_named(scene *s) { want(s, predicted(s, tp_named(conv(s->x, s->w), "name"), 3)); }
static void normal_named_waited_for(scene *s)
{
    tp_node *y = tp_named(conv(s->x, s->w), "name");
    want(s, waiting(tp_sum(s->m), y));
    want(s, predicted(s, y, 3));
}
static void normal_elsewhere(scene *s)
{
    tp_node *y = conv(s->x, s->w);
    TP_DEVICE(s->g, 1) { want(s, predicted(s, y, 3)); }
}
static void normal_of_view(scene *s) /* the norm has 8 channels, the convolution 16 */
{
    const int64_t zero = 0, eight = 8;
    tp_node *y = tp_reshape_to(conv(s->x, s->w), tp_make_shape(1, 24, 44, 8)),
            *v[4] = {s->gamma, s->beta, s->vec, s->gamma};
    for (int i = 0; i < 4; i++) v[i] = tp_slice(v[i], &zero, &eight);
    want(s, tp_nn_batch_norm_infer(y, v[0], v[1], v[2], v[3], 3, 1e-3f));
}
static void normal_twice(scene *s) { want(s, predicted(s, predicted(s, conv(s->x, s->w), 3), 3)); }
static void without_bias(scene *s) { want(s, tp_relu(product(s))); }
static void nchw_conv(scene *s)
{
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    a.data_format = TP_NCHW;
    tp_node *x = tp_reshape_to(s->x, tp_make_shape(1, 16, 24, 22));
    want(s, tp_relu(tp_nn_bias_add(tp_nn_conv2d(x, s->w, &a), s->b, TP_NCHW)));
}
static void batched(scene *s)
{
    tp_node *a = tp_reshape_to(s->m, tp_make_shape(2, 4, 16)), *b = tp_reshape_to(s->wm, tp_make_shape(2, 16, 8));
    want(s, tp_relu(tp_nn_bias_add(tp_matmul(a, b), tp_slice(s->b, (const int64_t[]){0}, (const int64_t[]){8}), 0)));
}
static void batched_left(scene *s)
{
    want(s, tp_relu(biased(s, tp_matmul(tp_reshape_to(s->m, tp_make_shape(2, 4, 16)), s->wm))));
}
static void along_rows(scene *s)
{
    tp_node *y = tp_matmul(tp_reshape_to(s->x, tp_make_shape(33, 16, 16)), s->wm);
    want(s, tp_relu(tp_nn_bias_add(y, s->b, TP_NCHW)));
}
static void nchw_matrix(scene *s) { want(s, tp_relu(tp_nn_bias_add(product(s), s->b, TP_NCHW))); }
static void product_wanted(scene *s) { want(s, tp_relu(biased(s, want(s, product(s))))); }
static void product_read_twice(scene *s)
{
    tp_node *y = product(s);
    want(s, tp_relu(biased(s, y)));
    want(s, tp_sum(y));
}
static void bias_wanted(scene *s) { want(s, tp_relu(want(s, biased(s, product(s))))); }
static void bias_read_twice(scene *s)
{
    tp_node *y = biased(s, product(s));
    want(s, tp_relu(y));
    want(s, tp_sum(y));
}
static void product_waited_for(scene *s)
{
    tp_node *y = product(s);
    want(s, waiting(tp_sum(s->m), y));
    want(s, tp_relu(biased(s, y)));
}
static void bias_waited_for(scene *s)
{
    tp_node *y = biased(s, product(s));
    want(s, waiting(tp_sum(s->m), y));
    want(s, tp_relu(y));
}
static void writer_before(scene *s)
{
    want(s, bump(s));
    with_both(s);
}
static void writer_between(scene *s)
{
    tp_node *y = product(s);
    want(s, bump(s));
    want(s, tp_relu(biased(s, y)));
}
static void writer_before_relu(scene *s)
{
    tp_node *y = biased(s, product(s));
    want(s, bump(s));
    want(s, tp_relu(y));
}
static void writer_after(scene *s)
{
    with_both(s);
    want(s, bump(s));
}
static void relu_elsewhere(scene *s)
{
    tp_node *y = biased(s, product(s));
    TP_DEVICE(s->g, 1) { want(s, tp_relu(y)); }
}
static void bias_elsewhere(scene *s)
{
    tp_node *y = product(s);
    TP_DEVICE(s->g, 1) { y = biased(s, y); }
    want(s, tp_relu(y));
}

static void with_clip(scene *s) { want(s, tp_clip(biased(s, product(s)), 0, 0.5f)); }
static void with_clip_conv(scene *s) { want(s, tp_relu6(biased(s, conv(s->x, s->w)))); }
static void with_clip_normal(scene *s) { want(s, predicted(s, tp_clip(biased(s, conv(s->x, s->w)), 0, 0.1f), 3)); }
static void with_clip_transposed(scene *s) { want(s, tp_clip(biased(s, transposed(s, 0)), 0, 0.25f)); }
static void with_clip_below(scene *s) { want(s, tp_clip(biased(s, product(s)), -0.5f, 0.5f)); }
static void with_clip_to_zero(scene *s) { want(s, tp_clip(biased(s, product(s)), 0, 0)); }
static void with_clip_from_minus_zero(scene *s) { want(s, tp_clip(biased(s, product(s)), -0.0f, 0.5f)); }
static void with_clip_to_denormal(scene *s) { want(s, tp_clip(biased(s, product(s)), 0, 1e-42f)); }
static void clip_wanted(scene *s) { want(s, tp_clip(want(s, biased(s, product(s))), 0, 0.5f)); }

/* -- a border of zeros before a convolution */
static tp_node *bordered(tp_node *x, int64_t top, int64_t bottom, int64_t left, int64_t right, float value)
{
    const int64_t before[] = {0, top, left, 0}, after[] = {0, bottom, right, 0};
    return tp_pad(x, before, after, TP_PAD_CONSTANT, value);
}
static tp_node *valid(tp_node *x, tp_node *w, int stride)
{
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    a.padding = TP_VALID;
    a.stride_h = a.stride_w = stride;
    return tp_nn_conv2d(x, w, &a);
}
static void border(scene *s) { want(s, valid(bordered(s->x, 1, 1, 1, 1, 0), s->w, 1)); }
static void border_uneven(scene *s) { want(s, valid(bordered(s->x, 2, 0, 0, 3, 0), s->w, 1)); }
static void border_stride(scene *s) { want(s, tp_relu(biased(s, valid(bordered(s->x, 1, 1, 1, 1, 0), s->w, 2)))); }
static void border_same(scene *s) { want(s, conv(bordered(s->x, 1, 2, 3, 4, 0), s->w)); }
static void border_sum(scene *s) { want(s, tp_add(s->z, valid(bordered(s->x, 1, 1, 1, 1, 0), s->w, 1))); }
static void border_everything(scene *s)
{
    tp_node *y = tp_relu6(biased(s, valid(bordered(s->x, 1, 1, 1, 1, 0), s->w, 1)));
    want(s, tp_relu(predicted(s, y, 3)));
}
static void border_one_by_one(scene *s)
{
    want(s, valid(bordered(s->x, 1, 1, 1, 1, 0), tp_reshape_to(s->wm, tp_make_shape(1, 1, 16, 16)), 1));
}
static void border_of_ones(scene *s) { want(s, valid(bordered(s->x, 1, 1, 1, 1, 1), s->w, 1)); }
static void border_mirrored(scene *s)
{
    const int64_t one[] = {0, 1, 1, 0};
    want(s, valid(tp_pad(s->x, one, one, TP_PAD_REFLECT, 0), s->w, 1));
}
static void border_of_images(scene *s)
{
    const int64_t one[] = {1, 1, 1, 0};
    want(s, valid(tp_pad(s->x, one, one, TP_PAD_CONSTANT, 0), s->w, 1));
}
static void border_wanted(scene *s) { want(s, valid(want(s, bordered(s->x, 1, 1, 1, 1, 0)), s->w, 1)); }
static void border_read_twice(scene *s)
{
    tp_node *x = bordered(s->x, 1, 1, 1, 1, 0);
    want(s, valid(x, s->w, 1));
    want(s, valid(x, s->w2, 1));
}
static void border_waited_for(scene *s)
{
    tp_node *x = bordered(s->x, 1, 1, 1, 1, 0);
    want(s, waiting(tp_sum(s->m), x));
    want(s, valid(x, s->w, 1));
}
static void border_fed(scene *s) { want(s, valid(feed_also(s, bordered(s->x, 1, 1, 1, 1, 0)), s->w, 1)); }
static void border_elsewhere(scene *s)
{
    tp_node *x = s->x;
    TP_DEVICE(s->g, 1) { x = bordered(x, 1, 1, 1, 1, 0); }
    want(s, valid(x, s->w, 1));
}
static void border_of_variable(scene *s)
{
    tp_node *v = scene_variable(s, "image", tp_make_shape(1, 24, 22, 16), -1, 1), *x = bordered(v, 1, 1, 1, 1, 0);
    want(s, tp_assign_add(v, s->x, NULL));
    want(s, valid(x, s->w, 1));
}
static void border_nchw(scene *s)
{
    const int64_t one[] = {0, 0, 1, 1};
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    a.padding = TP_VALID, a.data_format = TP_NCHW;
    tp_node *x = tp_reshape_to(s->x, tp_make_shape(1, 16, 24, 22));
    want(s, tp_nn_conv2d(tp_pad(x, one, one, TP_PAD_CONSTANT, 0), s->w, &a));
}
static void border_of_gradient(scene *s) /* the filter's gradient reads the border, too */
{
    tp_node *y = valid(bordered(s->x, 1, 1, 1, 1, 0), s->w, 1), *d[1];
    tp_gradients(tp_sum(tp_square(y)), &s->w, 1, d);
    want(s, y);
    want(s, d[0]);
}

static tp_node *pooled(tp_node *x, int size, int stride)
{
    tp_pool_attrs a;
    memset(&a, 0, sizeof a);
    a.size_h = a.size_w = size, a.stride_h = a.stride_w = stride, a.padding = TP_VALID;
    return tp_nn_max_pool(x, &a);
}
static void border_pool(scene *s) { want(s, pooled(bordered(s->x, 1, 1, 1, 1, -HUGE_VALF), 3, 2)); }
static void border_pool_uneven(scene *s) { want(s, pooled(bordered(s->x, 0, 2, 1, 0, -HUGE_VALF), 3, 1)); }
static void border_pool_wide(scene *s) { want(s, pooled(bordered(s->x, 1, 2, 1, 1, -HUGE_VALF), 2, 2)); }
static void border_pool_of_zeros(scene *s) { want(s, pooled(bordered(s->x, 1, 1, 1, 1, 0), 3, 2)); }
static void border_pool_large(scene *s) { want(s, pooled(bordered(s->x, 1, 1, 1, 1, -HUGE_VALF), 17, 1)); }
static void border_pool_places(scene *s)
{
    tp_node *y = want(s, pooled(bordered(s->x, 1, 1, 1, 1, -HUGE_VALF), 3, 2));
    want(s, &y->op->out[1]);
}
static void border_pool_same(scene *s) /* the padding of SAME and the border could fill a window */
{
    tp_pool_attrs a;
    memset(&a, 0, sizeof a);
    a.size_h = a.size_w = 2, a.stride_h = a.stride_w = 1, a.padding = TP_SAME;
    want(s, tp_nn_max_pool(bordered(s->x, 0, 1, 0, 1, -HUGE_VALF), &a));
}
static void border_pool_of_nothing(scene *s)
{
    tp_node *x = tp_slice(s->x, (const int64_t[]){0, 0, 0, 0}, (const int64_t[]){1, 0, 22, 16});
    want(s, pooled(bordered(x, 1, 1, 1, 1, -HUGE_VALF), 2, 1));
}
static void border_pool_nchw(scene *s)
{
    static const int64_t one[] = {0, 0, 1, 1};
    tp_pool_attrs a;
    memset(&a, 0, sizeof a);
    a.size_h = a.size_w = 3, a.stride_h = a.stride_w = 2, a.padding = TP_VALID, a.data_format = TP_NCHW;
    tp_node *x = tp_reshape_to(s->x, tp_make_shape(1, 16, 24, 22));
    want(s, tp_nn_max_pool(tp_pad(x, one, one, TP_PAD_CONSTANT, -HUGE_VALF), &a));
}

/* -- ReLU after a batch norm, its mask before the gradient */
static void norm_relu(scene *s) { want(s, tp_relu(norm(s, s->x))); }
static void norm_named(scene *s) { want(s, tp_relu(tp_named(norm(s, s->x), "name"))); }
static void norm_reshaped(scene *s) { want(s, tp_relu(tp_reshape_to(norm(s, s->x), tp_make_shape(1, 24 * 22, 16)))); }
static void norm_infer(scene *s)
{
    want(s, tp_relu(tp_nn_batch_norm_infer(s->x, s->gamma, s->beta, s->vec, s->gamma, 3, 1e-3f)));
}
static void norm_tanh(scene *s) { want(s, tp_tanh(norm(s, s->x))); }
static void norm_wanted(scene *s) { want(s, tp_relu(want(s, norm(s, s->x)))); }
static void norm_read_twice(scene *s)
{
    tp_node *y = norm(s, s->x);
    want(s, tp_relu(y));
    want(s, tp_sum(y));
}
static void norm_waiting(scene *s) { want(s, tp_relu(waiting(norm(s, s->x), tp_sum(s->m)))); }
static void norm_fed(scene *s)
{
    tp_node *y = feed_also(s, norm(s, s->x));
    want(s, tp_relu(y));
    want(s, &y->op->out[1]);
}
static void norm_relu_elsewhere(scene *s)
{
    tp_node *y = norm(s, s->x);
    TP_DEVICE(s->g, 1) { want(s, tp_relu(y)); }
}
static void mean_relu(scene *s) { want(s, tp_relu(&norm(s, s->x)->op->out[1])); }

/* dx, dgamma, dbeta of relu(y), y a batch norm's */
static void want_back(scene *s, tp_node *z, tp_node *dy)
{
    tp_node *to[3] = {s->x, s->gamma, s->beta}, *d[3];
    tp_gradients_from(z, dy, to, 3, d);
    for (int i = 0; i < 3; i++) want(s, d[i]);
}
static void mask(scene *s) { want_back(s, tp_relu(norm(s, s->x)), s->z); }
static void mask_named(scene *s) { want_back(s, tp_relu(tp_named(norm(s, s->x), "name")), s->z); }
static void mask_wanted(scene *s)
{
    mask(s);
    want(s, s->fetch[1]->op->in[0]);
}
static void mask_of_no_norm(scene *s) { want_back(s, tp_relu(tp_square(norm(s, s->x))), s->z); }
static void mask_of_variable(scene *s)
{
    want_back(s, tp_relu(norm(s, s->x)), scene_variable(s, "dy", s->x->shape, -1, 1));
}
static void beta_written_before(scene *s)
{
    tp_node *z = tp_relu(norm(s, s->x));
    want(s, tp_assign_add(s->beta, s->vec, NULL));
    want_back(s, z, s->z);
}
static void beta_written_after(scene *s)
{
    mask(s);
    want(s, tp_assign_add(s->beta, s->vec, NULL));
}
static void mask_with_fed(scene *s, int output)
{
    tp_node *y = norm(s, s->x);
    feed_also(s, &y->op->out[output]);
    want_back(s, tp_relu(y), s->z);
}
static void mask_y_fed(scene *s) { mask_with_fed(s, 0); }
static void mask_mean_fed(scene *s) { mask_with_fed(s, 1); }
static void mask_deviation_fed(scene *s) { mask_with_fed(s, 3); }
static void mask_name_fed(scene *s) { want_back(s, tp_relu(feed_also(s, tp_named(norm(s, s->x), "name"))), s->z); }
static void mask_relu_fed(scene *s) { want_back(s, feed_also(s, tp_relu(norm(s, s->x))), s->z); }
static void mask_fed(scene *s)
{
    mask(s);
    feed_also(s, s->fetch[1]->op->in[0]);
}
/* the same by hand, input `i` of batch_norm_grad from elsewhere (-1: none); by another op than relu_grad */
static void mask_by(scene *s, const char *by, int i)
{
    tp_node *y = norm(s, s->x), *pair[2] = {s->z, tp_relu(y)}, *in[5];
    in[0] = tp_apply(s->g, tp_op_find(by), pair, 2, NULL);
    in[1] = s->x, in[2] = s->gamma, in[3] = &y->op->out[1], in[4] = &y->op->out[3];
    if (i >= 0) in[i] = i == 1 ? s->z : s->vec;
    tp_node *dx = tp_apply(s->g, tp_op_find("batch_norm_grad"), in, 5, y->op->attrs);
    for (int k = 0; k < 3; k++) want(s, &dx->op->out[k]);
}
static void mask_by_hand(scene *s) { mask_by(s, "relu_grad", -1); }
static void mask_other_x(scene *s) { mask_by(s, "relu_grad", 1); }
static void mask_other_gamma(scene *s) { mask_by(s, "relu_grad", 2); }
static void mask_other_mean(scene *s) { mask_by(s, "relu_grad", 3); }
static void mask_other_deviation(scene *s) { mask_by(s, "relu_grad", 4); }

static void no_mask(scene *s) { mask_by(s, "mul", -1); }

/* -- sums */
static void sum_right(scene *s) { want(s, tp_add(conv(s->x, s->w), s->z)); }
static void sum_left(scene *s) { want(s, tp_add(s->z, conv(s->x, s->w))); }
static void sum_of_input(scene *s) { want(s, tp_add(conv(s->x, s->w), s->x)); }
static void sum_of_two(scene *s) { want(s, tp_add(conv(s->x, s->w), conv(s->z, s->w2))); }
static void sum_of_itself(scene *s)
{
    tp_node *y = conv(s->x, s->w);
    want(s, tp_add(y, y));
}
static void difference(scene *s) { want(s, tp_sub(conv(s->x, s->w), s->z)); }
static void sum_of_elements(scene *s) { want(s, tp_add(conv(s->x, s->w), tp_square(s->z))); }
static void sum_of_variable(scene *s)
{
    tp_node *v = scene_variable(s, "v", s->x->shape, -1, 1);
    want(s, tp_add(conv(s->x, s->w), v));
}
static void sum_of_written(scene *s)
{
    tp_node *v = tp_assign(scene_variable(s, "v", s->x->shape, -1, 1), s->z, NULL);
    want(s, tp_add(conv(s->x, s->w), v));
}
static void sum_of_broadcast(scene *s) { want(s, tp_add(conv(s->x, s->w), s->vec)); }
static void sum_wanted(scene *s) { want(s, tp_add(want(s, conv(s->x, s->w)), s->z)); }
static void sum_read_twice(scene *s)
{
    tp_node *y = conv(s->x, s->w);
    want(s, tp_add(y, s->z));
    want(s, tp_sum(y));
}
static void sum_elsewhere(scene *s)
{
    tp_node *y = conv(s->x, s->w);
    TP_DEVICE(s->g, 1) { want(s, tp_add(y, tp_zeros_like(y))); }
}
static void sum_of_older(scene *s)
{
    tp_node *other = tp_reverse(s->z, NULL, 0);
    want(s, tp_add(conv(s->x, s->w), other));
}
static void sum_of_named(scene *s)
{
    tp_node *other = tp_named(tp_reverse(s->z, NULL, 0), "name");
    want(s, tp_add(conv(s->x, s->w), other));
}
static void sum_of_named_input(scene *s)
{
    tp_node *y = conv(s->x, s->w);
    want(s, tp_add(y, tp_named(s->x, "name")));
}
static void sum_of_newer(scene *s)
{
    tp_node *y = conv(s->x, s->w);
    want(s, tp_add(y, tp_reverse(s->z, NULL, 0)));
}
static void sum_of_norm_relu(scene *s)
{
    tp_node *other = tp_relu(norm(s, s->z));
    want(s, tp_add(conv(s->x, s->w), other));
}
static void sum_of_epilogue(scene *s)
{
    tp_node *other = tp_relu(biased(s, conv(s->z, s->w2)));
    want(s, tp_add(conv(s->x, s->w), other));
}
static void sum_of_fed_elements(scene *s)
{
    tp_node *other = feed_also(s, tp_square(s->z));
    want(s, tp_add(conv(s->x, s->w), other));
}
static void sum_of_input_gradient(scene *s)
{
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    want(s, tp_add(tp_nn_conv2d_input_grad(s->x, s->w, s->z, &a), s->z));
}
/* convolutions whose image and result have unequal sizes; the other term is fed */
static void sum_across(scene *s, tp_shape image, int64_t out, bool valid)
{
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    if (valid) a.padding = TP_VALID;
    tp_node *w = scene_variable(s, "k", tp_make_shape(3, 3, image.dim[3], out), -0.1f, 0.1f);
    tp_node *y = tp_nn_conv2d(feed_also(s, tp_placeholder(s->g, "image", s->dtype, image)), w, &a);
    want(s, tp_add(y, feed_also(s, tp_placeholder(s->g, "other", s->dtype, y->shape))));
}
static void sum_to_more_channels(scene *s) { sum_across(s, tp_make_shape(1, 20, 20, 16), 32, false); }
static void sum_from_few_channels(scene *s) { sum_across(s, tp_make_shape(1, 20, 20, 12), 16, false); }
static void sum_to_few_channels(scene *s) { sum_across(s, tp_make_shape(1, 20, 20, 16), 12, false); }
static void sum_to_smaller(scene *s) { sum_across(s, tp_make_shape(1, 18, 18, 16), 16, true); }
static void sum_to_too_small(scene *s) { sum_across(s, tp_make_shape(1, 17, 17, 16), 16, true); }
static void sum_of_input_gradient_across(scene *s, int64_t channels)
{
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    tp_node *w = scene_variable(s, "k", tp_make_shape(3, 3, channels, 16), -0.1f, 0.1f);
    tp_node *dx = feed_also(s, tp_placeholder(s->g, "dx", s->dtype, tp_make_shape(1, 24, 22, channels)));
    want(s, tp_add(tp_nn_conv2d_input_grad(s->x, w, dx, &a), dx));
}
static void sum_of_wide_input_gradient(scene *s) { sum_of_input_gradient_across(s, 32); }
static void sum_of_narrow_input_gradient(scene *s) { sum_of_input_gradient_across(s, 12); }
/* a convolution of other attributes; the other term has its shape */
static void sum_with(scene *s, tp_conv2d_attrs a, int64_t side)
{
    tp_node *w = scene_variable(s, "k", tp_make_shape(side, side, a.groups ? 8 : 16, 16), -0.1f, 0.1f);
    tp_node *y = tp_nn_conv2d(s->x, w, &a);
    tp_node *other = tp_placeholder(s->g, "other", s->dtype, y->shape);
    want(s, tp_add(y, feed_also(s, other)));
}
static const tp_conv2d_attrs conv_valid = {1, 1, 1, 1, TP_VALID, TP_NHWC, 1}, conv_high = {2, 1, 0, 0, 0, 0, 0},
                             conv_wide = {1, 2, 0, 0, 0, 0, 0}, conv_far = {1, 1, 2, 1, 0, 0, 0},
                             conv_apart = {1, 1, 1, 2, 0, 0, 0}, conv_groups = {0, 0, 0, 0, 0, 0, 2};
static void sum_valid(scene *s)
{
    tp_conv2d_attrs a = conv_valid;
    a.groups = 0; /* which is 1 */
    sum_with(s, a, 3);
}
static void sum_high_stride(scene *s) { sum_with(s, conv_high, 3); }
static void sum_wide_stride(scene *s) { sum_with(s, conv_wide, 3); }
static void sum_high_dilation(scene *s) { sum_with(s, conv_far, 3); }
static void sum_wide_dilation(scene *s) { sum_with(s, conv_apart, 3); }
static void sum_groups(scene *s) { sum_with(s, conv_groups, 3); }
static void sum_of_one_by_one(scene *s) { sum_with(s, (tp_conv2d_attrs){0}, 1); }
static void sum_nchw(scene *s)
{
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    a.data_format = TP_NCHW;
    tp_node *x = tp_reshape_to(s->x, tp_make_shape(1, 16, 24, 22)), *y = tp_nn_conv2d(x, s->w, &a);
    want(s, tp_add(y, tp_reshape_to(s->z, tp_make_shape(1, 16, 24, 22))));
}

/* dx of a batch norm along `axis`, with more added */
static tp_node *back_of(scene *s, int axis, tp_node *x, tp_node *dy, bool relu)
{
    tp_node *y = tp_nn_batch_norm_train(x, s->gamma, s->beta, axis, 1e-3f, false, NULL, NULL), *dx = NULL;
    tp_gradients_from(relu ? tp_relu(y) : y, dy, &x, 1, &dx);
    return dx;
}
static void back_sum(scene *s) { want(s, tp_add(back_of(s, 3, s->x, s->z, false), s->x)); }
static void back_sum_left(scene *s) { want(s, tp_add(s->z, back_of(s, -1, s->x, s->z, false))); }
static void back_sum_masked(scene *s) { want(s, tp_add(back_of(s, 3, s->x, s->z, true), s->x)); }
static void back_sum_other_axis(scene *s)
{
    tp_node *x = tp_reshape_to(s->x, tp_make_shape(1, 16, 24, 22)), *dy = tp_reshape_to(s->z, x->shape);
    want(s, tp_add(back_of(s, 1, x, dy, false), x));
}
static void back_sum_matrix(scene *s)
{
    tp_node *dy = tp_reverse(s->m, NULL, 0);
    want(s, tp_add(back_of(s, 1, s->m, dy, false), s->m));
}
static void back_sum_fed(scene *s)
{
    tp_node *dx = feed_also(s, back_of(s, 3, s->x, s->z, false));
    want(s, tp_add(dx, s->x));
    want(s, &dx->op->out[1]);
}
static void back_sum_of_elements(scene *s) { want(s, tp_add(back_of(s, 3, s->x, s->z, false), tp_square(s->x))); }

/* -- batch norms that are not made */
static tp_node *keep(scene *s) { return want(s, tp_sum(s->x)); } /* x lives on behind the convolution */
static void unmade(scene *s)
{
    want(s, conv(norm(s, s->x), s->w));
    keep(s);
}
static void unmade_last(scene *s) /* the convolution is the graph's last op */
{
    keep(s);
    want(s, conv(norm(s, s->x), s->w));
}
static void unmade_relu(scene *s)
{
    want(s, conv(tp_relu(norm(s, s->x)), s->w));
    keep(s);
}
static void unmade_named(scene *s)
{
    want(s, conv(tp_named(tp_relu(tp_named(norm(s, s->x), "a")), "b"), s->w));
    keep(s);
}
static void unmade_twice(scene *s)
{
    tp_node *y = tp_relu(norm(s, s->x));
    want(s, tp_sum(conv(y, s->w)));
    want(s, tp_sum(conv(y, s->w2)));
    keep(s);
}
static void made_for_another(scene *s)
{
    tp_node *y = tp_relu(norm(s, s->x));
    want(s, conv(y, s->w));
    want(s, tp_sum(y));
    keep(s);
}
static void made_for_me(scene *s)
{
    want(s, tp_sum(conv(want(s, tp_relu(norm(s, s->x))), s->w)));
    keep(s);
}
static void made_reshaped(scene *s)
{
    tp_node *y = tp_reshape_to(norm(s, s->x), tp_make_shape(2, 12, 22, 16));
    want(s, conv(y, s->w));
    keep(s);
}
static void made_of_variable(scene *s)
{
    tp_node *v = scene_variable(s, "v", s->x->shape, -1, 1);
    want(s, conv(norm(s, v), s->w));
    keep(s);
}
static void made_elsewhere(scene *s)
{
    tp_node *y = norm(s, s->x);
    TP_DEVICE(s->g, 1) { y = conv(y, s->w); }
    want(s, y);
    keep(s);
}
static void made_for(scene *s, tp_conv2d_attrs a, int64_t side)
{
    tp_node *w = scene_variable(s, "k", tp_make_shape(side, side, a.groups ? 8 : 16, 16), -0.1f, 0.1f);
    want(s, tp_nn_conv2d(norm(s, s->x), w, &a));
    keep(s);
}
static void unmade_stride(scene *s) { made_for(s, conv_high, 3); }
static void made_groups(scene *s) { made_for(s, conv_groups, 3); }
static void made_one_by_one(scene *s) { made_for(s, (tp_conv2d_attrs){0}, 1); }
static void made_other_axis(scene *s)
{
    tp_node *v[2];
    for (int i = 0; i < 2; i++) v[i] = scene_variable(s, i ? "bt" : "gm", tp_make_shape(24), 0.5f, 1.5f);
    want(s, conv(tp_nn_batch_norm_train(s->x, v[0], v[1], 1, 1e-3f, false, NULL, NULL), s->w));
    keep(s);
}
static void unmade_in_training(scene *s)
{
    tp_node *y = conv(tp_relu(norm(s, s->x)), s->w), *to[2] = {s->w, s->gamma}, *d[2];
    tp_gradients_from(y, s->z, to, 2, d);
    for (int i = 0; i < 2; i++) want(s, d[i]);
    keep(s);
}
static void made_for_a_mask(scene *s)
{
    unmade_in_training(s);
    want(s, s->fetch[1]->op->in[0]);
}
static void made_for_a_filter(scene *s) /* the batch norm's result is what the other image is convolved with */
{
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    want(s, tp_nn_conv2d_filter_grad(s->z, norm(s, s->x), s->w, &a));
    want(s, tp_sum(s->z));
    keep(s);
}
static void made_for_image_and_filter(scene *s) /* one operation reads the batch norm's result as both */
{
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    tp_node *y = norm(s, s->x);
    want(s, tp_nn_conv2d_filter_grad(y, y, s->w, &a));
    keep(s);
}

/* -- gradient descent by a product */
static void descend(scene *s, tp_node *const *to, tp_node *const *d, int n)
{
    want(s, tp_apply_gradient_descent(to, d, n, tp_const_as(s->g, s->dtype, 0.5), NULL));
    for (int i = 0; i < n; i++) want(s, tp_read_after(to[i], s->fetch[0]));
}
/* to: wm (16,16) and b; the gradient of wm is a^T c, K rows */
static void descend_by(scene *s, tp_node *a, tp_node *c)
{
    tp_node *to[2] = {s->wm, s->b}, *d[2];
    d[0] = tp_matmul_ex(a, c, true, false);
    d[1] = s->vec;
    descend(s, to, d, 2);
}
static void descends(scene *s) { descend_by(s, s->m, tp_reverse(s->m, NULL, 0)); }
static void descends_nine(scene *s) /* 9 (16 + 16) > 16 16 */
{
    tp_node *rows = tp_concat((tp_node *const[]){s->m, tp_reshape_to(s->vec, tp_make_shape(1, 16))}, 2, 0);
    descend_by(s, rows, tp_reverse(rows, NULL, 0));
}
static void descends_alone(scene *s)
{
    tp_node *d = tp_matmul_ex(s->m, tp_reverse(s->m, NULL, 0), true, false);
    descend(s, &s->wm, &d, 1);
}
static void descends_not_transposed(scene *s)
{
    tp_node *to[2] = {s->wm, s->b}, *d[2] = {tp_matmul(tp_transpose(s->m, NULL, 0), s->m), s->vec};
    descend(s, to, d, 2);
}
static void descends_both_transposed(scene *s)
{
    tp_node *to[2] = {s->wm, s->b}, *d[2] = {NULL, s->vec};
    d[0] = tp_matmul_ex(s->m, tp_transpose(s->m, NULL, 0), true, true);
    descend(s, to, d, 2);
}
static void descends_wanted(scene *s)
{
    descends(s);
    want(s, s->fetch[0]->op->in[0]);
}
static void descends_read_twice(scene *s)
{
    descends(s);
    want(s, tp_sum(s->fetch[0]->op->in[0]));
}
static void descends_waited_for(scene *s)
{
    tp_node *to[2] = {s->wm, s->b}, *d[2] = {tp_matmul_ex(s->m, tp_reverse(s->m, NULL, 0), true, false), s->vec};
    tp_node *later = waiting(tp_sum(s->m), d[0]);
    descend(s, to, d, 2);
    want(s, later);
}
static void descends_named(scene *s)
{
    tp_node *to[2] = {s->wm, s->b}, *d[2] = {NULL, s->vec};
    d[0] = tp_named(tp_matmul_ex(s->m, tp_reverse(s->m, NULL, 0), true, false), "gradient");
    descend(s, to, d, 2);
}
static void descends_of_three(scene *s) /* the row takes a third input, which it does not read */
{
    tp_node *to[2] = {s->wm, s->b}, *d[2] = {NULL, s->vec}, *in[3] = {s->m, NULL, s->vec};
    in[1] = tp_reverse(s->m, NULL, 0);
    const tp_operation *two = tp_matmul_ex(in[0], in[1], true, false)->op;
    d[0] = tp_apply(s->g, two->row, in, 3, two->attrs);
    descend(s, to, d, 2);
}
static void descends_by_variable(scene *s)
{
    tp_node *v = scene_variable(s, "v", tp_make_shape(8, 16), -1, 1);
    descend_by(s, v, s->m);
}
static void descends_by_right_variable(scene *s)
{
    tp_node *v = scene_variable(s, "v", tp_make_shape(8, 16), -1, 1);
    descend_by(s, s->m, v);
}
static void descends_twice(scene *s) /* one variable by two gradients */
{
    tp_node *to[2] = {s->wm, s->wm}, *d[2] = {tp_matmul_ex(s->m, tp_reverse(s->m, NULL, 0), true, false), NULL};
    d[1] = tp_reverse(tp_matmul(tp_transpose(s->m, NULL, 0), s->m), NULL, 0);
    descend(s, to, d, 2);
}
static void descends_by_itself(scene *s) /* the other gradient is the weight's value */
{
    tp_node *other = scene_variable(s, "other", tp_make_shape(16, 16), -1, 1);
    tp_node *to[2] = {s->wm, other}, *d[2] = {tp_matmul_ex(s->m, tp_reverse(s->m, NULL, 0), true, false), s->wm};
    descend(s, to, d, 2);
}
static void descends_elsewhere(scene *s)
{
    tp_node *to[2] = {s->wm, s->b}, *d[2] = {NULL, s->vec};
    TP_DEVICE(s->g, 1) { d[0] = tp_matmul_ex(s->m, tp_reverse(s->m, NULL, 0), true, false); }
    descend(s, to, d, 2);
}

static char printed[8192]; /* the plan of the last play */
/* The bits of every fetch of two runs, and what the plan says of itself. */
static uint64_t play(void (*build)(scene *s), tp_dtype dtype, const char *isa, bool plain, tp_plan_info *info)
{
    static float numbers[NUMBERS];
    uint64_t h = 0;
    scene s = scene_of(dtype);
    build(&s);
    tp_device *d[2] = {tp_cpu_device_new(1, isa), tp_cpu_device_new(1, isa)};
    tp_session_config c = tp_default_session_config();
    c.devices = d, c.n_devices = 2, c.no_fusion = plain;
    tp_session *session = tp_session_new(s.g, &c);
    CHECK_MSG(session != NULL, "%s", tp_last_error());
    tp_node *node[6] = {s.fed[0], s.fed[1], s.x, s.z, s.m, s.vec};
    tp_feed f[6];
    const tp_tensor *out[6];
    int n = 0;
    memset(f, 0, sizeof f);
    for (int i = 0; i < NUMBERS; i++) numbers[i] = (float)((i * 7 + i / 16 * 3) % 19) / 8 - 1;
    for (int k = 0; k < 6; k++) {
        if (!node[k]) continue;
        f[n].node = node[k];
        CHECK_OK(tp_tensor_resize(&f[n].value, dtype, node[k]->shape));
        for (int64_t i = 0; i < tp_tensor_size(&f[n].value); i++)
            tp_tensor_set(&f[n].value, i, (double)numbers[(i + 5 * k) % NUMBERS]);
        n++;
    }
    for (int run = 0; run < 2 && session; run++) {
        if (!CHECK_OK(tp_session_run(session, f, n, s.fetch, s.n, out))) break;
        for (int k = 0; k < s.n; k++) h = h * 31 + tp_hash(out[k]->data, tp_tensor_bytes(out[k]));
    }
    if (session) CHECK_OK(tp_exec_plan_info(tp_session_exec(session), s.fetch, s.n, info));
    if (session) {
        tp_buf text;
        memset(&text, 0, sizeof text);
        CHECK_OK(tp_exec_print_plan(tp_session_exec(session), s.fetch, s.n, &text));
        snprintf(printed, sizeof printed, "%s", text.data);
        if (getenv("TP_TEST_PRINT")) puts(text.data);
        tp_buf_free(&text);
    }
    for (int k = 0; k < n; k++) tp_tensor_free(&f[k].value);
    tp_session_free(session);
    tp_graph_free(s.g);
    for (int i = 0; i < 2; i++) d[i]->close(d[i]);
    return h;
}

/* unmade: is the memory of an image saved? */
typedef struct fusion {
    const char *name;
    void (*build)(scene *s);
    tp_dtype dtype;
    int steps, fused;
    enum { ANY, MADE, UNMADE } image;
} fusion;
#define F32(build_, steps_, fused_)                  \
    {                                                \
#build_, build_, TP_F32, steps_, fused_, ANY \
    }
#define F64(build_, steps_, fused_)                                \
    {                                                              \
#build_ " of float64", build_, TP_F64, steps_, fused_, ANY \
    }
#define F16(build_, steps_, fused_)                                \
    {                                                              \
#build_ " of float16", build_, TP_F16, steps_, fused_, ANY \
    }
#define IMAGE(image_, build_, steps_, fused_)           \
    {                                                   \
#build_, build_, TP_F32, steps_, fused_, image_ \
    }

static void check_fusions(const fusion *f, int n)
{
    static const char *const isa[] = {"avx2", "sse2", "neon"}; /* one with the fast convolutions and without tiles */
    const char *is = NULL;
    for (int i = 0; i < TP_COUNT(isa) && !is; i++) {
        tp_device *d = tp_cpu_device_new(1, isa[i]);
        if (d) is = isa[i], d->close(d);
    }
    if (!is) TEST_SKIP("needs an instruction set with fast convolutions");
    for (int i = 0; i < n; i++) {
        tp_plan_info p, q;
        memset(&p, 0, sizeof p);
        memset(&q, 0, sizeof q);
        const uint64_t fast = play(f[i].build, f[i].dtype, is, false, &p),
                       plain = play(f[i].build, f[i].dtype, is, true, &q);
        CHECK_MSG(fast == plain, "%s: other values than op by op", f[i].name);
        CHECK_MSG(p.n_steps == f[i].steps && p.n_fused == f[i].fused, "%s: %d steps, %d ops fused; not %d, %d",
                  f[i].name, p.n_steps, p.n_fused, f[i].steps, f[i].fused);
        const double saved = ((double)q.arena_bytes - (double)p.arena_bytes) / (NUMBERS * sizeof(float));
        CHECK_MSG(f[i].image == ANY || (f[i].image == MADE ? saved == 0 : saved > 0.9 && saved < 1.1),
                  "%s: %.2f images saved", f[i].name, saved);
    }
}

TEST(bias_and_activation_only_where_nothing_else_is_in_between)
{
    static const fusion f[] = {
        F32(with_both, 1, 2),
        F32(with_bias, 1, 1),
        F32(with_leaky, 2, 2),
        F32(named_relu, 1, 2),
        F32(named_clip, 1, 2),
        F32(named_wanted, 2, 2),
        F32(named_read_twice, 2, 3),
        F32(named_waiting, 3, 2),
        F32(flattened_relu, 2, 2),
        F32(with_conv, 1, 2),
        F32(with_transposed, 2, 2),
        F32(with_transposed_alone, 2, 1),
        F32(nchw_transposed, 4, 1),
        F32(transposed_wanted, 4, 1),
        F32(without_bias, 2, 1),
        F32(nchw_conv, 3, 1),
        F32(batched, 4, 1),
        F32(batched_left, 1, 2),
        F32(along_rows, 3, 1),
        F32(nchw_matrix, 1, 2),
        F32(product_wanted, 3, 1),
        F32(product_read_twice, 4, 1),
        F32(bias_wanted, 2, 2),
        F32(bias_read_twice, 3, 2),
        F32(product_waited_for, 4, 1),
        F32(bias_waited_for, 4, 1),
        F32(writer_before, 2, 2),
        F32(writer_between, 4, 1),
        F32(writer_before_relu, 4, 1),
        F32(writer_after, 2, 2),
        F32(relu_elsewhere, 3, 2),
        F32(bias_elsewhere, 6, 1),
        F64(with_both, 3, 1),
        F64(with_conv, 3, 1),
    };
    check_fusions(f, TP_COUNT(f));
}

TEST(a_clip_from_zero_is_a_relu_with_a_bound)
{
    static const fusion f[] = {
        F32(with_clip, 1, 2),
        F32(with_clip_conv, 1, 2),
        F32(with_clip_normal, 1, 3),
        F32(with_clip_transposed, 2, 2),
        F32(with_clip_below, 2, 2),
        F32(with_clip_to_zero, 2, 2),
        F32(clip_wanted, 2, 2),
        F32(with_clip_from_minus_zero, 2, 2),
        F32(with_clip_to_denormal, 2, 2),
        F64(with_clip, 3, 1),
    };
    check_fusions(f, TP_COUNT(f));
}

TEST(a_border_of_zeros_is_read_only_where_nothing_else_reads_it)
{
    static const fusion f[] = {
        F32(border, 1, 1),
        F32(border_uneven, 1, 1),
        F32(border_stride, 1, 3),
        F32(border_same, 1, 1),
        F32(border_sum, 1, 2),
        F32(border_everything, 1, 5),
        F32(border_one_by_one, 2, 0),
        F32(border_of_ones, 2, 0),
        F32(border_mirrored, 2, 0),
        F32(border_of_images, 2, 0),
        F32(border_wanted, 2, 0),
        F32(border_read_twice, 3, 0),
        F32(border_waited_for, 3, 0),
        F32(border_fed, 1, 0),
        F32(border_elsewhere, 3, 0),
        F32(border_of_variable, 3, 0),
        F32(border_nchw, 2, 0),
        F32(border_of_gradient, 6, 2),
        F64(border, 2, 0),
        F32(border_pool, 1, 1),
        F32(border_pool_uneven, 1, 1),
        F32(border_pool_wide, 2, 0),
        F32(border_pool_of_zeros, 2, 0),
        F32(border_pool_large, 2, 0),
        F32(border_pool_places, 2, 0),
        F32(border_pool_nchw, 2, 0),
        F32(border_pool_same, 2, 0),
        F32(border_pool_of_nothing, 3, 0),
        F64(border_pool, 2, 0),
    };
    check_fusions(f, TP_COUNT(f));
}

TEST(a_convolution_normalises_its_output_only_where_nothing_else_is_in_between)
{
    static const fusion f[] = {
        F32(normal, 1, 1),
        F32(normal_relu, 1, 2),
        F32(normal_tanh, 2, 2),
        F32(normal_biased, 1, 2),
        F32(normal_everything, 1, 4),
        F32(normal_direct, 1, 2),
        F32(normal_depthwise, 2, 2),
        F32(normal_sides_swapped, 3, 0),
        F32(normal_one_by_one, 1, 1),
        F32(normal_product, 2, 0),
        F32(normal_wanted, 2, 0),
        F32(normal_read_twice, 3, 1),
        F32(normal_relu_wanted, 2, 2),
        F32(normal_written, 3, 0),
        F32(normal_waited_for, 3, 0),
        F32(normal_biased_waited_for, 3, 1),
        F32(normal_of_itself, 2, 1),
        F32(normal_named, 1, 1),
        F32(normal_named_waited_for, 3, 0),
        F32(normal_elsewhere, 6, 0),
        F32(normal_twice, 2, 1),
        F32(normal_of_view, 6, 0),
        F64(normal_relu, 3, 1),
    };
    check_fusions(f, TP_COUNT(f));
}

TEST(batch_norm_does_a_relu_or_its_mask_only_where_nobody_sees)
{
    static const fusion f[] = {
        F32(norm_relu, 1, 1),
        F32(norm_named, 1, 1),
        F32(norm_reshaped, 1, 1),
        F32(norm_infer, 1, 1),
        F32(norm_tanh, 2, 1),
        F32(norm_wanted, 2, 1),
        F32(norm_read_twice, 3, 1),
        F32(norm_waiting, 3, 1),
        F32(norm_fed, 2, 1),
        F32(norm_relu_elsewhere, 3, 1),
        F32(mean_relu, 2, 1),
        F64(norm_relu, 2, 1),
        F16(norm_relu, 2, 0),
        F64(norm_infer, 2, 1),
        F32(mask, 2, 2),
        F32(mask_named, 2, 2),
        F32(mask_wanted, 3, 2),
        F32(mask_of_no_norm, 3, 5),
        F32(mask_of_variable, 3, 2),
        F32(beta_written_before, 4, 2),
        F32(beta_written_after, 3, 2),
        F32(mask_y_fed, 3, 2),
        F32(mask_mean_fed, 3, 2),
        F32(mask_deviation_fed, 3, 2),
        F32(mask_name_fed, 3, 2),
        F32(mask_relu_fed, 3, 1),
        F32(mask_fed, 2, 0),
        F32(mask_by_hand, 2, 2),
        F32(no_mask, 3, 2),
        F32(mask_other_x, 3, 2),
        F32(mask_other_gamma, 3, 2),
        F32(mask_other_mean, 3, 2),
        F32(mask_other_deviation, 3, 2),
        F64(mask, 3, 2),
    };
    check_fusions(f, TP_COUNT(f));
}

TEST(a_sum_is_made_with_a_term_only_where_the_other_is_there)
{
    static const fusion f[] = {
        F32(sum_right, 1, 1),
        F32(sum_left, 1, 1),
        F32(sum_of_input, 1, 1),
        F32(sum_of_two, 2, 1),
        F32(sum_of_itself, 2, 1),
        F32(difference, 2, 1),
        F32(sum_of_elements, 2, 2),
        F32(sum_of_variable, 2, 1),
        F32(sum_of_written, 3, 1),
        F32(sum_of_broadcast, 2, 1),
        F32(sum_wanted, 2, 1),
        F32(sum_read_twice, 3, 1),
        F32(sum_elsewhere, 4, 1),
        F32(sum_of_older, 2, 1),
        F32(sum_of_named, 2, 1),
        F32(sum_of_named_input, 1, 1),
        F32(sum_of_newer, 3, 1),
        F32(sum_of_norm_relu, 2, 2),
        F32(sum_of_epilogue, 2, 3),
        F32(sum_of_fed_elements, 1, 1),
        F32(sum_of_input_gradient, 1, 1),
        F32(sum_to_more_channels, 1, 1),
        F32(sum_from_few_channels, 2, 1),
        F32(sum_to_few_channels, 2, 1),
        F32(sum_to_smaller, 1, 1),
        F32(sum_to_too_small, 2, 1),
        F32(sum_of_wide_input_gradient, 1, 1),
        F32(sum_of_narrow_input_gradient, 2, 1),
        F32(sum_valid, 1, 1),
        F32(sum_high_stride, 2, 1),
        F32(sum_wide_stride, 2, 1),
        F32(sum_high_dilation, 1, 1),
        F32(sum_wide_dilation, 1, 1),
        F32(sum_groups, 2, 1),
        F32(sum_of_one_by_one, 2, 1),
        F32(sum_nchw, 2, 1),
        F64(sum_right, 2, 1),
        F32(back_sum, 2, 1),
        F32(back_sum_left, 2, 1),
        F32(back_sum_masked, 2, 3),
        F32(back_sum_other_axis, 3, 1),
        F32(back_sum_matrix, 3, 1),
        F32(back_sum_fed, 3, 1),
        F32(back_sum_of_elements, 3, 2),
        F64(back_sum, 3, 1),
    };
    check_fusions(f, TP_COUNT(f));
}

TEST(softmax_scales_its_input_only_where_nothing_else_reads_it)
{
    static const fusion f[] = {
        F32(scale_softmax, 1, 1),        F32(scale_softmax_product, 2, 1), F32(scale_softmax_short, 1, 1),
        F32(scale_softmax_offset, 2, 1), F32(scale_log_softmax, 2, 1),     F32(scale_wanted, 2, 1),
        F32(scale_read_twice, 3, 2),     F64(scale_softmax, 2, 1),
    };
    check_fusions(f, TP_COUNT(f));
}

/* A plan says which rules made its steps. */
TEST(a_printed_plan_names_its_rules)
{
    static const struct {
        void (*build)(scene *s);
        const char *rules;
    } plan[] = {{with_both, "[epilogue]"},
                {unmade_relu, "[batch norm, ReLU; norm on load]"},
                {unmade_last, "[norm on load]"},
                {back_sum_masked, "[mask, batch norm; sum]"},
                {descends, "[descent]"},
                {sum_valid, "[sum]"},
                {scale_softmax, "[scale, softmax]"}};
    tp_device *d = tp_cpu_device_new(1, NULL);
    const bool fast = d && strcmp(tp_device_isa(d), "naive") != 0;
    if (d) d->close(d);
    if (!fast) TEST_SKIP("naive kernels fuse less");
    for (int i = 0; i < TP_COUNT(plan); i++) {
        tp_plan_info info;
        play(plan[i].build, TP_F32, NULL, true, &info);
        CHECK_MSG(!strchr(printed, '['), "without fusion: %s", printed);
        play(plan[i].build, TP_F32, NULL, false, &info);
        CHECK_MSG(strstr(printed, plan[i].rules) != NULL, "no %s in %s", plan[i].rules, printed);
    }
}

/* A convolution normalises samples while it loads them; a batch of none is not worth it, and all that is made of it is 0. */
TEST(a_batch_of_no_samples_is_not_normalised_on_load)
{
    tp_device *d = tp_cpu_device_new(1, NULL);
    const bool fast = d && strcmp(tp_device_isa(d), "naive") != 0;
    if (d) d->close(d);
    if (!fast) TEST_SKIP("naive kernels fuse less");
    for (int batch = 0; batch < 3; batch++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 24, 22, 16)), *to[2], *fetch[3];
        tp_node *beta = tp_get_variable_as(g, "beta", TP_F32, tp_make_shape(16), tp_init_ones());
        to[0] = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(3, 3, 16, 16), tp_init_uniform(-0.1f, 0.1f));
        to[1] = tp_get_variable_as(g, "gamma", TP_F32, tp_make_shape(16), tp_init_ones());
        tp_conv2d_attrs a;
        memset(&a, 0, sizeof a);
        fetch[0] =
            tp_nn_conv2d(tp_relu(tp_nn_batch_norm_train(x, to[1], beta, 3, 1e-3f, false, NULL, NULL)), to[0], &a);
        tp_gradients(tp_sum(fetch[0]), to, 2, fetch + 1);
        tp_session *s = tp_session_new(g, NULL);
        const tp_tensor *out[3];
        tp_feed f;
        tp_buf text;
        memset(&f, 0, sizeof f);
        memset(&text, 0, sizeof text);
        f.node = x;
        CHECK_OK(tp_tensor_resize(&f.value, TP_F32, tp_make_shape(batch, 24, 22, 16)));
        for (int64_t i = 0; i < tp_tensor_size(&f.value); i++) tp_tensor_set(&f.value, i, (double)(i % 7) / 8);
        if (CHECK_OK(tp_session_run(s, &f, 1, fetch, 3, out))) {
            CHECK(tp_tensor_size(out[0]) == (int64_t)batch * 24 * 22 * 16);
            for (int k = 1; k < 3; k++)
                for (int64_t i = 0; i < tp_tensor_size(out[k]); i++)
                    if (batch == 0) CHECK(tp_tensor_get(out[k], i) == 0);
            CHECK_OK(tp_exec_print_plan(tp_session_exec(s), fetch, 3, &text));
            CHECK_MSG((strstr(text.data, "norm on load") != NULL) == (batch > 0), "%d", batch);
        }
        tp_buf_free(&text);
        tp_tensor_free(&f.value);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

TEST(a_batch_norm_is_not_made_for_convolutions_alone)
{
    static const fusion f[] = {
        IMAGE(UNMADE, unmade, 3, 0),
        IMAGE(UNMADE, unmade_relu, 3, 1),
        IMAGE(UNMADE, unmade_named, 3, 1),
        IMAGE(UNMADE, unmade_twice, 6, 1),
        IMAGE(UNMADE, unmade_stride, 3, 0),
        IMAGE(UNMADE, unmade_in_training, 5, 2),
        IMAGE(MADE, made_for_another, 4, 1),
        IMAGE(MADE, made_for_me, 4, 1),
        IMAGE(MADE, made_reshaped, 3, 0),
        IMAGE(MADE, made_of_variable, 3, 0),
        IMAGE(MADE, made_elsewhere, 5, 0),
        IMAGE(MADE, made_groups, 3, 0),
        IMAGE(MADE, made_one_by_one, 3, 0),
        IMAGE(MADE, made_other_axis, 3, 0),
        IMAGE(MADE, made_for_a_mask, 6, 2),
        IMAGE(MADE, made_for_a_filter, 4, 0),
        IMAGE(MADE, made_for_image_and_filter, 3, 0),
    };
    check_fusions(f, TP_COUNT(f));
}

/* A run that folds constants, and one that does not, leave their caller's float mode as it was. */
#if defined(__SSE2__) && defined(__GNUC__)
TEST(a_run_leaves_the_float_mode)
{
    const unsigned before = __builtin_ia32_stmxcsr(), up = (before & ~0x6000u) | 0x4000u; /* round up, denormals kept */
    tp_graph *g = tp_graph_new(NULL);
    tp_node *y = tp_add(tp_exp(tp_const(g, 0.5f)), tp_const(g, 1));
    tp_session *s = tp_session_new(g, NULL);
    const tp_tensor *out = NULL;
    for (int i = 0; i < 2; i++) {
        __builtin_ia32_ldmxcsr(up);
        const tp_status st = tp_session_run(s, NULL, 0, &y, 1, &out);
        const unsigned after = __builtin_ia32_stmxcsr();
        __builtin_ia32_ldmxcsr(before);
        CHECK_OK(st);
        CHECK_MSG((after & ~0x3fu) == (up & ~0x3fu), "run %d: %x, not %x", i, after, up);
    }
    tp_session_free(s);
    tp_graph_free(g);
}

/* In plain loops and fast ones, on the caller's thread and on others. */
TEST(denormal_numbers_are_zeros)
{
    enum { n = 200000 };
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(n));
    tp_node *y[3] = {tp_ln(x), tp_mul(x, tp_const(g, 1)), tp_mul(x, tp_const(g, 0.25f))};
    tp_feed f;
    memset(&f, 0, sizeof f);
    f.node = x;
    CHECK_OK(tp_tensor_resize(&f.value, TP_F32, tp_make_shape(n)));
    for (int i = 0; i < n; i++) ((float *)f.value.data)[i] = i % 2 ? 1e-38f : 1.2e-38f;
    for (int k = 0; k < 4; k++) {
        tp_session_config config;
        memset(&config, 0, sizeof config);
        config.threads = k % 2 ? 4 : 1;
        config.isa = k < 2 ? "naive" : NULL;
        tp_session *s = tp_session_new(g, &config);
        const tp_tensor *out[3];
        if (!CHECK_OK(tp_session_run(s, &f, 1, y, 3, out))) break;
        int wrong = 0;
        for (int i = 0; i < n; i++) {
            const float ln = ((float *)out[0]->data)[i], same = ((float *)out[1]->data)[i];
            wrong += i % 2 ? !(ln == -INFINITY && same == 0) : !(ln > -88 && ln < -87 && same == 1.2e-38f);
            wrong += ((float *)out[2]->data)[i] != 0; /* of either, the product is denormal */
        }
        CHECK_MSG(wrong == 0, "%s, %d threads: %d numbers", k < 2 ? "naive" : "fast", config.threads, wrong);
        tp_session_free(s);
    }
    tp_tensor_free(&f.value);
    tp_graph_free(g);
}
#endif

/* Without memory for the values of a run, the sentence says how much it needs. */
TEST(a_run_without_memory_says_how_much_it_needs)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(512, 600)),
            *y = tp_transpose(tp_cumsum(x, 0, false, false), NULL, 0);
    tp_feed f;
    tp_plan_info info;
    memset(&f, 0, sizeof f);
    f.node = x;
    CHECK_OK(tp_tensor_resize(&f.value, TP_F32, tp_make_shape(512, 600)));
    char want[80] = "";
    int said = 0;
    for (long n = 0, failed = 1; failed; n++) {
        tp_session *s = tp_session_new(g, NULL);
        const tp_tensor *out = NULL;
        if (n) tp_test_fail_after(n);
        const tp_status st = tp_session_run(s, &f, 1, &y, 1, &out);
        failed = n == 0 || tp_test_alloc_failed();
        if (n) tp_test_alloc_reset();
        if (n == 0 && CHECK_OK(st) && CHECK_OK(tp_exec_plan_info(tp_session_exec(s), &y, 1, &info)))
            snprintf(want, sizeof want, "this run needs %.1f MB for its values; a smaller batch needs less",
                     (double)info.arena_bytes / (1 << 20));
        if (st != TP_OK && strstr(tp_last_error(), "this run needs")) said += CHECK_ERR(st, TP_ERR_NOMEM, want);
        tp_session_free(s);
    }
    CHECK(said > 0);
    tp_tensor_free(&f.value);
    tp_graph_free(g);
}

TEST(gradient_descent_takes_a_product_over_only_where_it_may)
{
    static const fusion f[] = {
        F32(descends, 3, 1),
        F32(descends_nine, 4, 0),
        F32(descends_alone, 3, 0),
        F32(descends_not_transposed, 3, 0),
        F32(descends_both_transposed, 3, 0),
        F32(descends_wanted, 3, 0),
        F32(descends_read_twice, 4, 0),
        F32(descends_waited_for, 4, 0),
        F32(descends_named, 3, 1),
        F32(descends_of_three, 3, 0),
        F32(descends_by_variable, 2, 0),
        F32(descends_by_right_variable, 2, 0),
        F32(descends_twice, 6, 0),
        F32(descends_by_itself, 4, 0),
        F32(descends_elsewhere, 4, 0),
        F64(descends, 3, 0),
    };
    check_fusions(f, TP_COUNT(f));
}

/* -- chains: an op joins the chain of an operand, which then runs at its place; nothing may need it before */
static tp_node *backwards(tp_node *x) { return tp_reverse(x, NULL, 0); } /* no op of chains */
static void chain_of_two(scene *s) { want(s, tp_tanh(tp_neg(s->x))); }
static void chain_named(scene *s) { want(s, tp_tanh(tp_named(tp_neg(s->x), "name"))); }
static void chain_reshaped(scene *s) { want(s, tp_tanh(tp_reshape_to(tp_neg(s->m), tp_make_shape(16, 8)))); }
static void chain_wanted(scene *s) { want(s, tp_tanh(want(s, tp_neg(s->x)))); }
static void chain_read_before(scene *s)
{
    tp_node *y = tp_neg(s->m);
    want(s, backwards(y));
    want(s, tp_tanh(y));
}
static void chain_read_after(scene *s)
{
    tp_node *y = tp_neg(s->m);
    want(s, tp_tanh(y));
    want(s, backwards(y));
}
static void chain_read_before_by_name(scene *s)
{
    tp_node *y = tp_neg(s->m);
    want(s, backwards(tp_named(y, "name")));
    want(s, tp_tanh(y));
}
static void chain_waited_for(scene *s)
{
    tp_node *y = tp_neg(s->x);
    want(s, waiting(tp_sum(s->m), y));
    want(s, tp_tanh(y));
}
static void chain_of_variable(scene *s)
{
    tp_node *y = tp_neg(s->gamma);
    want(s, tp_tanh(y));
    want(s, bump(s));
}
static void chain_of_written_variable(scene *s)
{
    tp_node *y = tp_neg(s->gamma);
    want(s, bump(s));
    want(s, tp_tanh(y));
}
static void chain_of_written_name(scene *s)
{
    tp_node *y = tp_add(tp_named(s->gamma, "name"), s->vec);
    want(s, bump(s));
    want(s, tp_tanh(y));
}
static void chain_beside_a_writer(scene *s) /* of another variable */
{
    tp_node *y = tp_neg(s->beta);
    want(s, bump(s));
    want(s, tp_tanh(y));
}
static void chain_elsewhere(scene *s)
{
    tp_node *y = tp_neg(s->m);
    TP_DEVICE(s->g, 1) { want(s, tp_tanh(y)); }
}
static void chain_broadcast(scene *s) { want(s, tp_add(s->m, tp_neg(s->vec))); }
static void chain_fork(scene *s) /* one group: both join it, and what adds them up */
{
    tp_node *y = tp_neg(s->m);
    want(s, tp_add(tp_tanh(y), tp_exp(y)));
}
static void two_chains(scene *s) { want(s, tp_add(tp_tanh(s->m), tp_exp(s->m))); }
static void two_chains_in_turn(scene *s) /* the ops of one lie between those of the other; a result of each is kept */
{
    tp_node *a = tp_neg(s->m), *b = tp_square(s->m);
    a = tp_tanh(a);
    b = tp_exp(b);
    want(s, tp_add(a, b));
    want(s, tp_sum(a));
    want(s, backwards(b));
}
static void chain_read_in_another_shape(scene *s) /* tanh has the shape (1,n), and the product reads it as (n) */
{
    tp_node *row = tp_expand_dims(tp_neg(s->vec), 0), *y = tp_tanh(row);
    want(s, tp_mul(tp_reshape_to(y, tp_make_shape(tp_shape_size(&s->vec->shape))), row));
}
static void two_chains_read_in_another_shape(scene *s)
{
    const tp_shape flat = tp_make_shape(tp_shape_size(&s->vec->shape));
    tp_node *row = tp_expand_dims(s->vec, 0), *a = tp_tanh(row), *b = tp_neg(tp_mul(row, tp_reshape_to(a, flat)));
    want(s, tp_add(a, b));
}
static void two_chains_of_two_shapes(scene *s) { want(s, tp_add(tp_tanh(s->m), tp_neg(tp_sum_over(s->m, 0)))); }
static void three_chains(scene *s)
{
    want(s, tp_select(tp_greater(s->m, tp_square(s->m)), tp_neg(s->m), tp_exp(s->m)));
}
static void two_chains_one_read_before(scene *s)
{
    tp_node *a = tp_tanh(s->m), *b = tp_neg(tp_exp(s->m));
    want(s, backwards(b));
    want(s, tp_add(a, b));
}
static void two_chains_one_read_before_the_other(scene *s) /* a reads b through an op that is no member */
{
    tp_node *b = tp_exp(s->m), *a = tp_tanh(tp_mul(backwards(b), s->m));
    want(s, tp_add(a, b));
}
static void two_chains_one_waited_for(scene *s)
{
    tp_node *a = tp_tanh(s->m), *b = tp_exp(s->m);
    want(s, waiting(tp_sum(s->m), b));
    want(s, tp_add(a, b));
}
static tp_node *chain_of(tp_node *x, int n)
{
    for (int i = 0; i < n; i++) x = i % 2 ? tp_neg(x) : tp_tanh(x);
    return x;
}
/* a chain has at most 24 ops; the values of the two chains differ in their signs, because equal ops are merged */
static void two_long_chains(scene *s) { want(s, tp_add(chain_of(s->m, 12), chain_of(tp_square(s->m), 10))); }
static void two_chains_too_long(scene *s) { want(s, tp_add(chain_of(s->m, 12), chain_of(tp_square(s->m), 11))); }
/* and at most 24 operands from outside, of 24 and 25 here */
static tp_node *sum_of_many(scene *s, int n)
{
    tp_node *sum = NULL;
    for (int i = 0; i < n; i++) {
        tp_node *one = backwards(tp_affine(s->m, 1 + (float)i, 0));
        sum = i ? tp_add(sum, one) : one;
    }
    return sum;
}
static void chain_of_24_operands(scene *s) { want(s, sum_of_many(s, 24)); }
static void chain_of_25_operands(scene *s) { want(s, sum_of_many(s, 25)); }
/* and 24 registers: for each broadcast operand, for each sum that waits, and one more */
static void chain_of_waiting_sums(scene *s, int n)
{
    tp_node *wait[12], *sum;
    for (int i = 0; i < n; i++) wait[i] = tp_sum_over(backwards(tp_affine(s->m, 1 + (float)i, 0)), 0);
    for (int i = 0; i < n; i++) wait[i] = tp_add(s->m, wait[i]);
    sum = wait[0];
    for (int i = 1; i < n; i++) sum = tp_add(sum, wait[i]);
    want(s, sum);
}
static void chain_of_23_registers(scene *s) { chain_of_waiting_sums(s, 11); }
static void chain_of_25_registers(scene *s) { chain_of_waiting_sums(s, 12); }
static void chain_across_types(scene *s)
{
    want(s, tp_cast(tp_greater(tp_neg(s->m), tp_const_as(s->g, s->dtype, 0)), TP_I32));
}
static void chain_with_views(scene *s, int n)
{
    tp_node *y = tp_neg(s->m), *view[70];
    for (int i = 0; i < n; i++) view[i] = tp_reshape_to(y, i % 2 ? tp_make_shape(16, 8) : tp_make_shape(128));
    want(s, tp_tanh(y));
    want(s, tp_sum(view[0]));
    want(s, tp_sum(view[n - 1]));
}
static void chain_with_a_few_views(scene *s) { chain_with_views(s, 3); }
static void chain_with_many_views(scene *s) { chain_with_views(s, 70); }
/* n views, each read by an op; before: all these come before the op that would join the chain */
static void chain_with_read_views(scene *s, int n, bool before)
{
    tp_node *y = tp_neg(s->m), *sum[70];
    if (!before) want(s, tp_tanh(y));
    for (int i = 0; i < n; i++) sum[i] = tp_sum(tp_reshape_to(y, i % 2 ? tp_make_shape(16, 8) : tp_make_shape(128)));
    want(s, tp_stack(sum, n, 0));
    if (before) want(s, tp_tanh(y));
}
static void chain_with_views_read_after(scene *s) { chain_with_read_views(s, 10, false); }
static void chain_with_views_read_before(scene *s) { chain_with_read_views(s, 10, true); }
/* of more views than the planner follows nobody knows where they are read */
static void chain_with_many_views_read_after(scene *s) { chain_with_read_views(s, 70, false); }
static void chain_with_many_views_read_before(scene *s) { chain_with_read_views(s, 70, true); }

TEST(chains_end_where_something_is_in_between)
{
    static const fusion f[] = {
        F32(chain_of_two, 1, 2),
        F32(chain_named, 1, 2),
        F32(chain_reshaped, 2, 2),
        F32(chain_wanted, 1, 2),
        F32(chain_read_before, 3, 2),
        F32(chain_read_after, 2, 2),
        F32(chain_read_before_by_name, 3, 2),
        F32(chain_waited_for, 3, 2),
        F32(chain_of_variable, 2, 2),
        F32(chain_of_written_variable, 3, 2),
        F32(chain_of_written_name, 3, 2),
        F32(chain_beside_a_writer, 2, 2),
        F32(chain_elsewhere, 3, 2),
        F32(chain_broadcast, 2, 2),
        F32(chain_fork, 1, 4),
        F32(two_chains, 1, 3),
        F32(two_chains_in_turn, 3, 5),
        F32(two_chains_of_two_shapes, 3, 3),
        F32(chain_read_in_another_shape, 3, 3),
        F32(two_chains_read_in_another_shape, 2, 4),
        F32(three_chains, 1, 5),
        F32(two_chains_one_read_before, 3, 4),
        F32(two_chains_one_read_before_the_other, 3, 4),
        F32(two_chains_one_waited_for, 3, 3),
        F32(two_long_chains, 1, 24),
        F32(two_chains_too_long, 2, 25),
        F32(chain_of_24_operands, 49, 47),
        F32(chain_of_25_operands, 52, 49),
        F32(chain_of_23_registers, 34, 32),
        F32(chain_of_25_registers, 38, 35),
        F32(chain_across_types, 1, 3),
        F32(chain_with_a_few_views, 3, 2),
        F32(chain_with_many_views, 3, 2),
        F32(chain_with_views_read_after, 12, 2),
        F32(chain_with_views_read_before, 13, 2),
        F32(chain_with_many_views_read_after, 73, 2),
        F32(chain_with_many_views_read_before, 73, 2),
        F64(chain_of_two, 1, 2),
        F64(chain_of_written_variable, 3, 2),
    };
    check_fusions(f, TP_COUNT(f));
}

/* -- cheap ops are computed again where a later chain reads them, if what they read is in memory anyway */
static tp_node *again(scene *s, tp_node *cheap) /* two chains with another op between them read it */
{
    return want(s, tp_tanh(tp_mul(backwards(tp_tanh(cheap)), cheap)));
}
static void again_affine(scene *s) { again(s, tp_affine(s->m, 2, 1)); }
static void again_square(scene *s) { again(s, tp_square(s->m)); }
static void again_neg(scene *s) { again(s, tp_neg(s->m)); }
static void again_relu(scene *s) { again(s, tp_relu(s->m)); }
static void again_clip(scene *s) { again(s, tp_clip(s->m, -1, 1)); }
static void again_two(scene *s) { again(s, tp_affine(tp_square(s->m), 2, 1)); }
static tp_node *four_cheap(scene *s) { return tp_relu(tp_square(tp_affine(tp_square(s->m), 2, -1))); }
static void again_four(scene *s) { again(s, four_cheap(s)); }
static void again_not_five(scene *s) { again(s, tp_neg(four_cheap(s))); }
static void again_thrice(scene *s)
{
    tp_node *cheap = tp_affine(s->m, 2, 1), *y = again(s, cheap);
    again(s, tp_mul(backwards(y), cheap));
}
static void again_of_stored(scene *s) /* another op reads exp as well */
{
    tp_node *e = tp_exp(s->m);
    again(s, tp_affine(e, 2, 1));
    want(s, backwards(e));
}
static void again_of_fetched(scene *s)
{
    tp_node *e = want(s, tp_exp(s->m));
    again(s, tp_affine(e, 2, 1));
}
static void again_of_named(scene *s) /* the name is no reader */ { again(s, tp_relu(tp_named(tp_exp(s->m), "name"))); }
static void again_not_of_exp(scene *s) { again(s, tp_affine(tp_exp(s->m), 2, 1)); }
static void again_not_exp(scene *s) { again(s, tp_exp(s->m)); }
static void again_not_fetched(scene *s) { again(s, want(s, tp_affine(s->m, 2, 1))); }
static void again_not_read_by_others(scene *s)
{
    tp_node *cheap = tp_affine(s->m, 2, 1);
    again(s, cheap);
    want(s, backwards(cheap));
}
static void again_not_in_another_shape(scene *s)
{
    tp_node *cheap = tp_affine(s->m, 2, 1), *y = again(s, cheap);
    want(s, tp_tanh(
                tp_mul(tp_reshape_to(backwards(y), tp_make_shape(16, 8)), tp_reshape_to(cheap, tp_make_shape(16, 8)))));
}
static void again_not_broadcast(scene *s)
{
    tp_node *cheap = tp_affine(s->vec, 2, 1);
    want(s, tp_tanh(cheap));
    want(s, tp_mul(backwards(s->m), cheap));
}
static void again_not_elsewhere(scene *s)
{
    tp_node *cheap = tp_affine(s->m, 2, 1), *y = backwards(tp_tanh(cheap));
    TP_DEVICE(s->g, 1) { want(s, tp_mul(y, cheap)); }
}
static void again_not_of_variable(scene *s) /* which is written before the second chain */
{
    tp_node *cheap = tp_affine(s->gamma, 2, 1), *y = tp_tanh(cheap), *written = want(s, bump(s));
    want(s, tp_mul(waiting(backwards(y), written), cheap));
}
TEST(cheap_ops_are_computed_again_instead_of_stored)
{
    /* moved: results and operands of the kernels, in values of m */
    static const struct {
        const char *name;
        void (*build)(scene *s);
        double moved;
    } each[] = {{"affine", again_affine, 7},
                {"square", again_square, 7},
                {"neg", again_neg, 7},
                {"relu", again_relu, 7},
                {"clip", again_clip, 7},
                {"affine of square", again_two, 7},
                {"four in a row", again_four, 7},
                {"not five in a row", again_not_five, 8},
                {"three readers", again_thrice, 18},
                {"of a stored result", again_of_stored, 10},
                {"of a fetched result", again_of_fetched, 8},
                {"of a named result", again_of_named, 8},
                {"not of exp", again_not_of_exp, 8},
                {"not exp", again_not_exp, 8},
                {"not if fetched", again_not_fetched, 8},
                {"not if read by others", again_not_read_by_others, 10},
                {"not in another shape", again_not_in_another_shape, 13},
                {"not if broadcast", again_not_broadcast, 4.5},
                {"not on another device", again_not_elsewhere, 12},
                {"not of a variable", again_not_of_variable, 1.375}};
    for (int i = 0; i < TP_COUNT(each); i++) {
        tp_plan_info p, q;
        const uint64_t fast = play(each[i].build, TP_F32, NULL, false, &p),
                       plain = play(each[i].build, TP_F32, NULL, true, &q);
        CHECK_MSG(fast == plain, "%s: other values than op by op", each[i].name);
        const double moved = p.bytes / (128 * sizeof(float));
        CHECK_MSG(moved == each[i].moved, "%s: %.3f values of m moved, not %g", each[i].name, moved, each[i].moved);
    }
}

/* -- what is computed when the plan is made */
static tp_node *known(const scene *s, int64_t n)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    CHECK_OK(tp_tensor_resize(&t, s->dtype, tp_make_shape(n)));
    for (int64_t i = 0; i < n; i++) tp_tensor_set(&t, i, (double)(i % 13) - 6);
    tp_node *c = tp_constant(s->g, &t);
    tp_tensor_free(&t);
    return c;
}
static void folds_a_product(scene *s)
{
    tp_node *a = tp_reshape_to(known(s, 64), tp_make_shape(8, 8)); /* a view, which is folded too */
    want(s, tp_add(tp_reshape_to(s->m, tp_make_shape(2, 8, 8)), tp_relu(tp_matmul(a, a))));
}
static void folds_four_megabytes(scene *s) { want(s, tp_sum(tp_neg(known(s, 1 << 20)))); }
static void folds_what_is_no_larger(scene *s) { want(s, tp_sum(tp_neg(known(s, (1 << 20) + 1)))); }
static void folds_no_more(scene *s)
{
    tp_node *half[] = {known(s, 1 << 19), known(s, (1 << 19) + 1)};
    want(s, tp_sum(tp_concat(half, 2, 0)));
}
static void folds_nothing_fed(scene *s) { want(s, tp_tanh(feed_also(s, tp_neg(known(s, 16))))); }
static void folds_nothing_random(scene *s) { want(s, tp_nn_dropout(known(s, 16), 0.5f)); }
static void folds_nothing_that_waits(scene *s) { want(s, tp_tanh(waiting(known(s, 16), tp_sum(s->m)))); }
static void folds_by_shape(scene *s) { want(s, tp_add(tp_zeros_like(known(s, 16)), s->vec)); }
static void folds_two_of_three(scene *s)
{
    want(s, tp_add(tp_neg(known(s, 16)), tp_mul(s->vec, tp_exp(known(s, 16)))));
}
static void folds_an_output(scene *s)
{
    tp_node *part[2];
    tp_split(known(s, 32), 2, 0, part);
    want(s, tp_add(part[1], s->vec));
}

TEST(what_is_known_is_computed_when_the_plan_is_made)
{
    static const struct {
        void (*build)(scene *s);
        int folded, steps;
        size_t bytes; /* of constants, folded or not */
    } c[] = {
        {folds_a_product, 2, 1, 64 * 4 * 2},
        {folds_four_megabytes, 2, 0, (4 << 20) + 4},
        {folds_what_is_no_larger, 2, 0, (4 << 20) + 8},
        {folds_no_more, 0, 2, 0},
        {folds_nothing_fed, 0, 1, 0},
        {folds_nothing_random, 0, 1, 0},
        {folds_two_of_three, 2, 1, 2 * 16 * 4},
        {folds_an_output, 1, 1, 2 * 16 * 4}, /* the first output is always made */
    };
    tp_plan_info p, q;
    for (int i = 0; i < TP_COUNT(c); i++) {
        const uint64_t h = play(c[i].build, TP_F32, "naive", false, &p);
        CHECK(play(c[i].build, TP_F32, "naive", true, &q) == h);
        CHECK_MSG(p.n_folded == c[i].folded && p.n_steps == c[i].steps && q.n_folded == c[i].folded &&
                      p.constant_bytes == c[i].bytes,
                  "%d: %d folded (%d without fusion), %d steps, %zu bytes", i, p.n_folded, q.n_folded, p.n_steps,
                  p.constant_bytes);
    }
    play(folds_nothing_that_waits, TP_F32, "naive", false, &p);
    CHECK_MSG(p.n_steps == 2 && p.n_folded == 0, "%d steps, %d folded", p.n_steps, p.n_folded);
    play(folds_by_shape, TP_F32, "naive", false, &p);
    CHECK_MSG(p.n_steps == 2 && p.n_folded == 0, "%d steps, %d folded", p.n_steps, p.n_folded);
}

/* -- results over what dies */
typedef struct lying {
    tp_graph *g;
    tp_node *x, *fetch[4];
    int n;
} lying;
static tp_node *over(lying *s, tp_node *n) { return s->fetch[s->n++] = n; }
/* x, of 1024 floats, lives on: there is a sum of it in the end. */
static void over_operand(lying *s) { over(s, tp_sum(tp_tanh(backwards(s->x)))); }
static void over_the_second(lying *s) { over(s, tp_sum(tp_sub(s->x, backwards(s->x)))); }
static void over_wanted(lying *s) { over(s, tp_tanh(over(s, backwards(s->x)))); }
static void over_read_later(lying *s)
{
    tp_node *y = backwards(s->x), *z = tp_tanh(y);
    over(s, tp_sum(y));
    over(s, tp_sum(z));
}
static void over_larger(lying *s) { over(s, tp_sum(tp_cast(backwards(s->x), TP_F64))); }
static void over_of_a_type(lying *s) { over(s, tp_sum(tp_cast(backwards(s->x), TP_I32))); }
static void over_two(lying *s) /* both results of a chain: one over the operand */
{
    tp_node *t = tp_tanh(backwards(s->x)), *u = tp_neg(t);
    over(s, tp_sum(backwards(t)));
    over(s, tp_sum(u));
}
static void over_read_again(lying *s) /* the operand is read after the first result is there */
{
    tp_node *y = backwards(s->x), *t = tp_tanh(y), *u = tp_add(t, y);
    over(s, tp_add(tp_sum(backwards(t)), tp_sum(backwards(u))));
}
/* Two results of a chain over two operands that die: of one another operand is read after it is there, of one itself is. */
static void over_each(lying *s)
{
    tp_node *a = backwards(s->x), *b = backwards(a), *t = over(s, tp_tanh(a));
    over(s, tp_sub(t, b));
}
static void over_both(lying *s)
{
    tp_node *a = backwards(s->x), *b = backwards(a), *t = over(s, tp_tanh(tp_sub(a, b)));
    over(s, tp_mul(t, tp_neg(t)));
}
static void over_fed(lying *s) { over(s, tp_sum(tp_tanh(s->x))); }
static void over_view(lying *s) { over(s, tp_sum(tp_tanh(tp_reshape_to(backwards(s->x), tp_make_shape(32, 32))))); }
static void over_variable(lying *s)
{
    over(s, tp_sum(tp_tanh(tp_get_variable_as(s->g, "v", TP_F32, tp_make_shape(1024), tp_init_ones()))));
}

TEST(results_lie_over_operands_that_die)
{
    static const struct {
        void (*build)(lying *s);
        double places; /* of 4 KiB, beside scalars */
    } c[] = {
        {over_operand, 2},   {over_the_second, 2}, {over_wanted, 3},     {over_read_later, 3}, {over_larger, 4},
        {over_of_a_type, 2}, {over_two, 4},        {over_read_again, 4}, {over_each, 3},       {over_both, 3},
        {over_fed, 2},       {over_view, 2},       {over_variable, 2},
    };
    for (int i = 0; i < TP_COUNT(c); i++) {
        lying s;
        memset(&s, 0, sizeof s);
        s.g = tp_graph_new(NULL);
        s.x = tp_placeholder(s.g, "x", TP_F32, tp_make_shape(1024));
        c[i].build(&s);
        over(&s, tp_sum(s.x));
        const tp_plan_info p = plan_of(s.g, "naive", false, s.x, tp_make_shape(1024), NULL, s.fetch, s.n);
        CHECK_MSG(p.arena_bytes >= (size_t)(c[i].places * 4096) && p.arena_bytes < (size_t)(c[i].places * 4096) + 512,
                  "%d: %zu bytes, not %g times 4096", i, p.arena_bytes, c[i].places);
        tp_graph_free(s.g);
    }
}

/* An op that packs its inputs. In user, bit i is set if input i already lies where its copy belongs. */
static tp_status packed_shape(tp_infer *s)
{
    int64_t bytes = 0;
    for (int i = 0; i < s->n_in; i++) bytes += (tp_shape_size(&s->in[i].shape) * 4 + 63) / 64 * 64;
    s->out[0].dtype = TP_U8;
    s->out[0].shape = tp_make_shape(bytes);
    return TP_OK;
}
static void pack(const tp_call *k)
{
    char *to = (char *)k->out[0].data;
    for (int i = 0; i < k->n_in; i++) {
        const size_t bytes = (size_t)tp_shape_size(&k->in[i].shape) * 4;
        if (to == k->in[i].data) *(int *)k->user |= 1 << i;
        else memcpy(to, k->in[i].data, bytes);
        memset(to + bytes, 0, (64 - bytes % 64) % 64);
        to += (bytes + 63) / 64 * 64;
    }
}
static tp_op packing_row(void)
{
    tp_op row;
    memset(&row, 0, sizeof row);
    row.name = "pack", row.label = "Pack";
    row.flags = TP_OP_ANY_DTYPE | TP_OP_NO_ALIAS | TP_OP_PACKS;
    row.min_in = 1, row.max_in = -1, row.n_out = 1;
    row.infer = packed_shape, row.naive_f32 = pack;
    return row;
}
TEST(what_is_packed_is_computed_in_its_place)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(5)), *in[7], *fetch[2];
    int placed = 0;
    in[0] = tp_cumsum(x, 0, false, false);
    in[1] = tp_cumsum(tp_exp(x), 0, false, false);
    in[2] = tp_cumsum(tp_neg(x), 0, false, false); /* the last op reads it too */
    in[3] = in[1];                                 /* twice: one of them is copied */
    in[4] = tp_const(g, 3.0f);
    in[5] = x; /* fed, and read later */
    in[6] = tp_placeholder(g, "z", TP_F32, tp_make_shape(1));
    const tp_op pack_row = packing_row();
    const tp_apply_desc d = {.row = &pack_row, .in = in, .n_in = 7, .user = &placed};
    fetch[0] = tp_apply_ex(g, &d);
    fetch[1] = tp_cumsum(tp_with_dependencies(tp_mul(in[2], x), fetch, 1), 0, false, false);
    tp_session_config c = tp_default_session_config();
    tp_session *s = tp_session_new(g, &c);
    float value[5] = {1, 2, 3, 4, 5};
    const tp_tensor *out[2] = {NULL, NULL};
    tp_feed f[2] = {{.node = x}, {.node = in[6]}};
    tp_tensor_view(&f[0].value, TP_F32, tp_make_shape(5), value);
    tp_tensor_view(&f[1].value, TP_F32, tp_make_shape(1), value + 4);
    for (int run = 0; run < 2 && CHECK(s); run++) {
        placed = 0;
        if (!CHECK_OK(tp_session_run(s, f, 2, fetch, 2, out))) break;
        CHECK_MSG((placed & 63) == 3, "placed: %x", (unsigned)placed);
        const float *y = (const float *)out[0]->data;
        double sum[4] = {0, 0, 0, 0};
        for (int i = 0; i < 16; i++) {
            if (i < 5) sum[0] += value[i], sum[1] += exp(value[i]), sum[2] -= value[i], sum[3] += sum[2] * value[i];
            CHECK_NEAR(y[i], i < 5 ? sum[0] : 0, 1e-6, 1e-6);
            CHECK_NEAR(y[16 + i], i < 5 ? sum[1] : 0, 1e-5, 1e-6);
            CHECK_NEAR(y[32 + i], i < 5 ? sum[2] : 0, 1e-6, 1e-6);
            CHECK_NEAR(y[48 + i], i < 5 ? sum[1] : 0, 1e-5, 1e-6);
            CHECK(y[64 + i] == (i == 0 ? 3.0f : 0.0f) && y[80 + i] == (i < 5 ? value[i] : 0.0f));
            CHECK(y[96 + i] == (i == 0 ? 5.0f : 0.0f));
            if (i < 5) CHECK_NEAR(((const float *)out[1]->data)[i], sum[3], 1e-5, 1e-6);
        }
    }
    tp_session_free(s);
    tp_graph_free(g);
}

/* The first value of a plan is packed like any other: nothing is fed here, and nothing comes before it. */
TEST(the_first_value_of_a_plan_is_packed_in_its_place)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *in[2], *fetch[3];
    int placed = 0;
    for (int i = 0; i < 2; i++) in[i] = tp_rand_uniform(g, tp_make_shape(5), 1, 2);
    const tp_op pack_row = packing_row();
    const tp_apply_desc d = {.row = &pack_row, .in = in, .n_in = 2, .user = &placed};
    fetch[0] = tp_apply_ex(g, &d);
    fetch[1] = in[0], fetch[2] = in[1];
    tp_session *s = tp_session_new(g, NULL);
    const tp_tensor *out[3];
    for (int n = 1; n <= 3 && CHECK(s); n += 2) { /* alone, and beside its operands, which are then copied */
        placed = 0;
        if (!CHECK_OK(tp_session_run(s, NULL, 0, fetch, n, out))) break;
        CHECK_MSG(placed == (n == 1 ? 3 : 0), "%d fetches: placed: %x", n, (unsigned)placed);
        const float *y = (const float *)out[0]->data;
        for (int i = 0; i < 5; i++) CHECK(y[i] >= 1 && y[i] < 2 && y[16 + i] >= 1 && y[16 + i] < 2);
        for (int i = 0; i < 2 && n == 3; i++) CHECK(memcmp(y + 16 * i, out[1 + i]->data, 5 * sizeof *y) == 0);
    }
    tp_session_free(s);
    tp_graph_free(g);
}

/* A kernel that gets half precision as float32 does not see where its operands lie: nothing is computed in the packed result. */
TEST(what_is_converted_is_not_packed_in_its_place)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(5)), *in[2], *y;
    int placed = 0;
    in[0] = tp_cumsum(x, 0, false, false);
    in[1] = tp_cast(x, TP_F16);
    tp_op pack_row;
    memset(&pack_row, 0, sizeof pack_row);
    pack_row.name = "pack", pack_row.label = "Pack";
    pack_row.flags = TP_OP_NO_ALIAS | TP_OP_PACKS;
    pack_row.min_in = 1, pack_row.max_in = -1, pack_row.n_out = 1;
    pack_row.infer = packed_shape, pack_row.naive_f32 = pack;
    const tp_apply_desc d = {.row = &pack_row, .in = in, .n_in = 2, .user = &placed};
    y = tp_apply_ex(g, &d);
    tp_session *s = tp_session_new(g, NULL);
    const float value[5] = {1, 2, 3, 4, 5};
    const tp_tensor *out = NULL;
    tp_feed f = {.node = x};
    tp_tensor_view(&f.value, TP_F32, tp_make_shape(5), value);
    if (CHECK(s != NULL) && CHECK_OK(tp_session_run(s, &f, 1, &y, 1, &out))) {
        const float *packed = (const float *)out->data;
        CHECK_MSG(placed == 0, "placed: %x", (unsigned)placed);
        CHECK(packed[0] == 1 && packed[4] == 15 && packed[5] == 0 && packed[16] == 1 && packed[20] == 5);
    }
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(values_in_a_row_share_two_places_exactly)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 16)), *y = x, *z = x;
    for (int i = 0; i < 9; i++) y = tp_transpose(y, NULL, 0);
    tp_plan_info p = plan_of(g, "naive", false, x, tp_make_shape(64, 16), NULL, &y, 1);
    CHECK_MSG(p.arena_bytes == 2 * 64 * 16 * 4, "%zu bytes", p.arena_bytes);
    /* each half as long as the one before: the next lies where there is room, beside the last */
    for (int i = 0; i < 5; i++) {
        tp_node *half[2];
        tp_split(z, 2, 0, half);
        z = half[0];
    }
    p = plan_of(g, "naive", false, x, tp_make_shape(64, 16), NULL, &z, 1);
    CHECK_MSG(p.arena_bytes == (64 + 32) * 16 * 4, "%zu bytes", p.arena_bytes);
    tp_graph_free(g);
}

/* Lists of a plan grow by doubling: a plan may have just as many values as they hold before they grow. */
TEST(plans_of_every_length_are_placed)
{
    const float x0 = 0.5f;
    for (int n = 252; n <= 257; n++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_session_config c = tp_default_session_config();
        tp_feed f;
        c.threads = 1, c.no_fusion = true;
        memset(&f, 0, sizeof f);
        f.node = tp_placeholder(g, "x", TP_F32, tp_make_shape(1));
        tp_tensor_view(&f.value, TP_F32, f.node->shape, &x0);
        tp_node *y = f.node;
        for (int i = 0; i < n; i++) y = tp_add(y, f.node);
        tp_session *s = tp_session_new(g, &c);
        const tp_tensor *out = NULL;
        if (CHECK(s != NULL) && CHECK_OK(tp_session_run(s, &f, 1, &y, 1, &out)))
            CHECK_MSG(tp_tensor_get(out, 0) == 0.5 * (n + 1), "%d additions give %g", n, tp_tensor_get(out, 0));
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* The list of a plan's values grows for the result of a chain, of which every second value is one. There may be no memory for it,
 * whatever lies in the plan's memory before it: the longer the chains, the more. */
TEST(no_memory_for_the_result_of_a_chain)
{
    const float x0 = 0.5f;
    for (int length = 1; length <= 15; length++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_feed f[2];
        memset(f, 0, sizeof f);
        for (int i = 0; i < 2; i++) {
            f[i].node = tp_placeholder(g, i ? "z" : "x", TP_F32, tp_make_shape(1));
            tp_tensor_view(&f[i].value, TP_F32, f[i].node->shape, &x0);
        }
        tp_node *y = f[0].node;
        for (int i = 0; i < 129; i++) {
            y = tp_mul(y, f[1].node);
            for (int k = 0; k < length; k++) y = tp_neg(y);
            y = tp_cumsum(y, 0, false, false);
        }
        for (long n = 1, failed = 1; failed; n++) {
            tp_session_config c = tp_default_session_config();
            c.threads = 1;
            tp_session *s = tp_session_new(g, &c);
            const tp_tensor *out = NULL;
            if (!CHECK(s != NULL)) break;
            tp_test_fail_after(n);
            const tp_status st = tp_session_run(s, f, 2, &y, 1, &out);
            failed = tp_test_alloc_failed();
            tp_test_alloc_reset();
            CHECK_MSG(st == (failed ? TP_ERR_NOMEM : TP_OK), "chains of %d, allocation %ld: %s", length + 1, n,
                      tp_status_name(st));
            tp_session_free(s);
        }
        tp_graph_free(g);
    }
}

/* -- packed weights that are kept from run to run */

/* A network whose kernels pack their weights each in its own way: Winograd's, windows, a product for each pixel, a long B. */
static tp_node *packing(tp_node *x)
{
    x = tp_conv2d(x, "wino", .filters = 32, .kernel_size = 3);
    x = tp_conv2d(x, "windows", .filters = 24, .kernel_size = 5, .strides = 2);
    x = tp_conv2d(x, "few", .filters = 2, .kernel_size = 3, .use_bias = TP_NO);
    x = tp_conv2d(x, "grouped", .filters = 32, .kernel_size = 3, .split = 2);
    x = tp_conv2d(x, "pixels", .filters = 96, .kernel_size = 1);
    x = tp_reshape_to(x, tp_make_shape(200, 96));
    x = tp_fully_connected(x, "panels", .units = 1100);
    return tp_fully_connected(x, "long", .units = 1000);
}

static bool same_values(const tp_tensor *a, const tp_tensor *b)
{
    return tp_tensor_bytes(a) == tp_tensor_bytes(b) && memcmp(a->data, b->data, tp_tensor_bytes(a)) == 0;
}

/* A prediction in s and one in a new session that never kept anything, with the same variables. */
static void predicts_alike(tp_graph *g, tp_session *s, const tp_session_config *c, const tp_feed *x, tp_node *y,
                           const char *when)
{
    const tp_tensor *kept, *made;
    tp_tensor value;
    tp_session *fresh = tp_session_new(g, c);
    memset(&value, 0, sizeof value);
    for (int i = 0; i < tp_graph_n_variables(g) && fresh; i++) {
        CHECK_OK(tp_session_read(s, tp_graph_variable(g, i), &value));
        CHECK_OK(tp_session_load(fresh, tp_graph_variable(g, i), &value));
    }
    if (CHECK(fresh != NULL) && CHECK_OK(tp_session_run(s, x, 1, &y, 1, &kept)) &&
        CHECK_OK(tp_session_run(fresh, x, 1, &y, 1, &made)))
        CHECK_MSG(same_values(kept, made), "%s: other values than without what was kept", when);
    tp_session_free(fresh);
    tp_tensor_free(&value);
}

static void keeps(const char *isa)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_desc tower;
    tp_session_config c = tp_default_session_config();
    tp_feed x;
    tp_plan_info info;
    tp_tensor w;
    memset(&tower, 0, sizeof tower);
    memset(&x, 0, sizeof x);
    memset(&w, 0, sizeof w);
    c.isa = isa, c.threads = 2;
    tp_tower_enter(g, &tower);
    x.node = tp_placeholder(g, "x", TP_F32, tp_make_shape(2, 20, 20, 16));
    tp_node *y = packing(x.node), *shifts[16];
    tp_tower_leave(g);
    int n = 0;
    for (; n < tp_graph_n_variables(g) && n < 16; n++) {
        const tp_variable *v = tp_graph_variable(g, n);
        shifts[n] = tp_assign_add(v->node, tp_affine(v->node, 0.25f, 0.125f), NULL);
    }
    tp_node *change = tp_group(g, shifts, n, "change");
    CHECK_OK(tp_tensor_resize(&x.value, TP_F32, x.node->shape));
    for (int64_t i = 0; i < tp_tensor_size(&x.value); i++) tp_tensor_set(&x.value, i, (double)(i % 13) / 16 - 0.25);
    tp_session *s = tp_session_new(g, &c);
    if (CHECK(s != NULL)) {
        for (int i = 0; i < 3; i++) predicts_alike(g, s, &c, &x, y, "as it was");
        CHECK_OK(tp_exec_plan_info(tp_session_exec(s), &y, 1, &info));
        CHECK_MSG(info.constant_bytes > 100000, "%zu bytes are kept", info.constant_bytes);
        for (int i = 0; i < n; i++) { /* one at a time, from outside */
            const tp_variable *v = tp_graph_variable(g, i);
            CHECK_OK(tp_session_read(s, v, &w));
            for (int64_t k = 0; k < tp_tensor_size(&w); k++) tp_tensor_set(&w, k, tp_tensor_get(&w, k) * 1.5 + 0.0625);
            CHECK_OK(tp_session_load(s, v, &w));
            predicts_alike(g, s, &c, &x, y, v->name);
        }
        for (int i = 0; i < 2; i++) { /* and by a step that writes them, whose plan keeps nothing */
            CHECK_OK(tp_session_run(s, NULL, 0, &change, 1, NULL));
            predicts_alike(g, s, &c, &x, y, "after a step");
        }
    }
    tp_session_free(s);
    tp_graph_free(g);
    tp_tensor_free(&x.value);
    tp_tensor_free(&w);
}

TEST(packed_weights_are_kept_until_a_variable_changes)
{
    static const char *const isa[] = {"sse2", "avx2", "avx512", "neon", "generic"};
    for (int i = 0; i < TP_COUNT(isa); i++) {
        tp_device *d = tp_cpu_device_new(1, isa[i]);
        if (!d) continue;
        d->close(d);
        keeps(isa[i]);
    }
}

/* Products keep packed weights; a sum of integers, one of them a variable, has a fast function that packs nothing. */
TEST(sums_of_integers_keep_nothing)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_plan_info info;
    tp_feed x;
    memset(&x, 0, sizeof x);
    memset(&info, 0, sizeof info);
    x.node = tp_placeholder(g, "x", TP_I32, tp_make_shape(300));
    tp_node *w = tp_get_variable_as(g, "w", TP_I32, tp_make_shape(300), tp_init_constant(1));
    tp_node *const term[3] = {x.node, w, x.node};
    tp_node *y = tp_add_n(term, 3);
    tp_session *s = tp_session_new(g, NULL);
    CHECK_OK(tp_tensor_resize(&x.value, TP_I32, x.node->shape));
    CHECK_OK(tp_session_run(s, &x, 1, &y, 1, NULL));
    CHECK_OK(tp_exec_plan_info(tp_session_exec(s), &y, 1, &info));
    CHECK_MSG(info.constant_bytes == 0, "%zu bytes are kept", info.constant_bytes);
    tp_session_free(s);
    tp_graph_free(g);
    tp_tensor_free(&x.value);
}

/* A prediction for each size of the batch has a plan of its own. Four of them keep packed weights, the others pack them in each run. */
TEST(a_few_plans_keep_packed_weights)
{
    tp_device *d = tp_cpu_device_new(1, "avx2");
    if (!d) TEST_SKIP("needs AVX2");
    d->close(d);
    tp_graph *g = tp_graph_new(NULL);
    tp_session_config c = tp_default_session_config();
    tp_plan_info info;
    tp_feed x;
    memset(&x, 0, sizeof x);
    c.isa = "avx2", c.threads = 1;
    x.node = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 300));
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(300, 400), tp_init_uniform(-1, 1));
    tp_node *y = tp_matmul(x.node, w);
    tp_session *s = tp_session_new(g, &c);
    const tp_tensor *v = NULL;
    double first[400];
    int keeping = 0;
    for (int batch = 2; batch < 60 && s; batch += 7)
        for (int run = 0; run < 2; run++) {
            CHECK_OK(tp_tensor_resize(&x.value, TP_F32, tp_make_shape(batch, 300)));
            for (int i = 0; i < batch * 300; i++) ((float *)x.value.data)[i] = (float)(i % 300) / 300;
            if (!CHECK_OK(tp_session_run(s, &x, 1, &y, 1, &v))) break;
            for (int i = 0; i < batch * 400; i++) {
                if (batch == 2 && run == 0 && i < 400) first[i] = tp_tensor_get(v, i);
                CHECK(tp_tensor_get(v, i) == first[i % 400]);
            }
            CHECK_OK(tp_exec_plan_info(tp_session_exec(s), &y, 1, &info));
            keeping += run == 0 && info.constant_bytes >= 300 * 400 * sizeof(float);
        }
    CHECK_MSG(keeping == 4, "%d plans keep weights", keeping);
    tp_session_free(s);
    tp_graph_free(g);
    tp_tensor_free(&x.value);
}

TEST_MAIN()
