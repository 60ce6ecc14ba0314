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
    CHECK(tried > 0);
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
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 512)), *y = x;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(512, 512), tp_init_ones());
    for (int i = 0; i < 8; i++) y = tp_matmul(y, w);
    const tp_plan_info p = plan_of(g, NULL, false, x, tp_make_shape(512, 512), NULL, &y, 1);
    CHECK_MSG(p.n_steps == 8, "%d kernels", p.n_steps);
    CHECK_MSG(p.arena_bytes < 3 * MIB, "%zu bytes", p.arena_bytes);
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
TEST(work_is_counted)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 64)), *y[3];
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(64, 32), tp_init_ones());
    tp_node *f = tp_get_variable_as(g, "f", TP_F32, tp_make_shape(3, 3, 4, 8), tp_init_ones());
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    y[0] = tp_matmul(x, w);
    y[1] = tp_nn_conv2d(tp_reshape_to(x, tp_make_shape(TP_ANY, 4, 4, 4)), f, &a);
    y[2] = tp_global_norm(&x, 1);
    static const double want[3] = {2.0 * 10 * 64 * 32, 2.0 * 10 * 4 * 4 * 8 * 3 * 3 * 4, 2.0 * 10 * 64};
    for (int i = 0; i < 3; i++) {
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

TEST_MAIN()
