/* Edges of the planner and of kernels that random graphs seldom reach: products under gradient descent in every order of operands, zeros
 * that stay zeros, float64 beside float32, empty lists of variables. */
#define TP_IMPLEMENTATION
#include "tp_layers.h"
#include "tp_optim.h"
#include "tp_test.h"

static tp_node *variable_of(tp_graph *g, const char *name, int64_t rows, int64_t columns)
{
    return tp_get_variable_as(g, name, TP_F32, tp_make_shape(rows, columns), tp_init_normal(0, 1));
}
static tp_session *session_with(tp_graph *g, const char *isa, int threads)
{
    tp_session_config c = tp_default_session_config();
    c.isa = isa;
    c.threads = threads;
    tp_session *s = tp_session_new(g, &c);
    CHECK_MSG(s != NULL, "%s", tp_last_error());
    return s;
}

/* -- products under gradient descent */

/* One step of gradient descent on two variables, whose gradients are products op(a) op(b), in one of the four orders; then the two are
 * compared with plain loops. Returns how many ops were fused;
 * the affine of one gradient always is. */
static int step_of_products(const char *isa, int64_t M, int64_t N, int64_t K, bool ta, bool tb)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w[2], *grad[2], *lr = tp_const(g, 0.5);
    tp_plan_info info;
    tp_tensor a, b, before, after;
    memset(&a, 0, sizeof a), memset(&b, 0, sizeof b);
    memset(&before, 0, sizeof before), memset(&after, 0, sizeof after);
    memset(&info, 0, sizeof info);
    tp_node *left = tp_placeholder(g, "a", TP_F32, ta ? tp_make_shape(K, M) : tp_make_shape(M, K)),
            *right = tp_placeholder(g, "b", TP_F32, tb ? tp_make_shape(N, K) : tp_make_shape(K, N));
    for (int i = 0; i < 2; i++) {
        w[i] = variable_of(g, i ? "w1" : "w0", M, N);
        grad[i] = tp_matmul_ex(i ? tp_affine(left, 2, 0) : left, right, ta, tb);
    }
    tp_node *train = tp_apply_gradient_descent(w, grad, 2, lr, NULL);
    tp_session *s = session_with(g, isa, 2);
    tp_feed feed[2];
    memset(feed, 0, sizeof feed);
    CHECK_OK(tp_tensor_resize(&a, TP_F32, left->shape));
    CHECK_OK(tp_tensor_resize(&b, TP_F32, right->shape));
    for (int64_t i = 0; i < M * K; i++) tp_tensor_set(&a, i, (double)(i * 7 % 13) - 6);
    for (int64_t i = 0; i < K * N; i++) tp_tensor_set(&b, i, (double)(i * 5 % 11) - 5);
    feed[0].node = left, feed[1].node = right;
    tp_tensor_view(&feed[0].value, TP_F32, a.shape, a.data);
    tp_tensor_view(&feed[1].value, TP_F32, b.shape, b.data);
    for (int v = 0; v < 2 && s; v++) {
        CHECK_OK(tp_session_read(s, tp_node_variable(w[v]), &before));
        CHECK_OK(tp_session_run(s, feed, 2, &train, 1, NULL));
        CHECK_OK(tp_session_read(s, tp_node_variable(w[v]), &after));
        CHECK_OK(tp_exec_plan_info(tp_session_exec(s), &train, 1, &info));
        for (int64_t i = 0; i < M * N; i++) {
            double sum = 0;
            for (int64_t k = 0; k < K; k++)
                sum += tp_tensor_get(&a, ta ? k * M + i / N : i / N * K + k) *
                       tp_tensor_get(&b, tb ? i % N * K + k : k * N + i % N);
            const double want = tp_tensor_get(&before, i) - 0.5 * sum * (v + 1);
            if (!CHECK_NEAR(tp_tensor_get(&after, i), want, 1e-3, 1e-5)) break;
        }
    }
    tp_tensor_free(&a), tp_tensor_free(&b), tp_tensor_free(&before), tp_tensor_free(&after);
    tp_session_free(s);
    tp_graph_free(g);
    return info.n_fused;
}

/* A gradient a^T b is fused with the step if K (M + N) is at most M N; a product in another order never is. */
TEST(only_the_usual_gradient_of_a_weight_is_fused_with_its_step)
{
    static const int64_t sizes[][3] = {{4, 4, 2},  {4, 4, 3},   {16, 16, 1}, {16, 16, 8},  {16, 16, 9},   {2, 16, 3},
                                       {3, 16, 2}, {16, 3, 2},  {16, 2, 3},  {40, 40, 20}, {40, 40, 21},  {1, 5, 1},
                                       {2, 2, 1},  {64, 48, 5}, {8, 24, 6},  {24, 8, 6},   {30, 1050, 29}};
    for (int i = 0; i < TP_COUNT(sizes); i++)
        for (int form = 0; form < 4; form++) {
            const int64_t M = sizes[i][0], N = sizes[i][1], K = sizes[i][2];
            const bool fits = form == 1 && K * (M + N) <= M * N;
            const int naive = step_of_products("naive", M, N, K, form & 1, form >> 1),
                      fast = step_of_products(NULL, M, N, K, form & 1, form >> 1);
            CHECK_MSG(naive == fast && naive == (fits ? 2 : 1), "%lldx%lldx%lld, form %d: %d and %d fused",
                      (long long)M, (long long)N, (long long)K, form, naive, fast);
        }
}

/* -- zeros stay zeros */

/* Where nothing comes back, each gradient is zero: not almost, and not minus zero where it is a sum. */
TEST(gradients_of_nothing_are_zero)
{
    static const int64_t rows[] = {1, 2, 7, 64, 300}, widths[] = {1, 3, 8, 16, 17, 64, 129};
    for (int i = 0; i < TP_COUNT(rows) * TP_COUNT(widths); i++) {
        tp_graph *g = tp_graph_new(NULL);
        const int64_t R = rows[i % TP_COUNT(rows)], C = widths[i / TP_COUNT(rows)];
        tp_node *x = variable_of(g, "x", R, C),
                *gamma = tp_get_variable_as(g, "gamma", TP_F32, tp_make_shape(C), tp_init_normal(1, 1)),
                *beta = tp_get_variable_as(g, "beta", TP_F32, tp_make_shape(C), tp_init_normal(0, 1)), *wrt[3], *dx[3];
        tp_node *none = tp_get_variable_as(g, "none", TP_F32, tp_make_shape(R, C), tp_init_zeros());
        tp_node *cost = tp_sum(tp_mul(tp_nn_layer_norm(tp_nn_bias_add(x, beta, TP_NHWC), gamma, beta, 1e-5f), none));
        wrt[0] = x, wrt[1] = gamma, wrt[2] = beta;
        tp_gradients(cost, wrt, 3, dx);
        tp_session *s = session_with(g, NULL, 1 + i % 2);
        const tp_tensor *value[3];
        if (s && CHECK_OK(tp_session_run(s, NULL, 0, dx, 3, value)))
            for (int k = 0; k < 3; k++)
                for (int64_t e = 0; e < tp_tensor_size(value[k]); e++)
                    if (!CHECK_MSG(tp_tensor_get(value[k], e) == 0, "%lldx%lld: gradient %d is %g", (long long)R,
                                   (long long)C, k, tp_tensor_get(value[k], e)))
                        break;
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* -- dropout of float64 keeps what dropout of float32 keeps */

TEST(dropout_keeps_the_same_elements_in_float64)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 1023, 1024, 1025, 8192, 8193, 20000};
    const float rates[] = {0, 0.25f, 0.5f, 0.75f};
    for (int i = 0; i < TP_COUNT(sizes) * TP_COUNT(rates); i++)
        for (int naive = 0; naive < 2; naive++) {
            const int64_t n = sizes[i / TP_COUNT(rates)];
            const float rate = rates[i % TP_COUNT(rates)];
            const tp_tensor *value[2][1];
            tp_graph *g[2];
            tp_session *s[2];
            for (int wide = 0; wide < 2; wide++) { /* alike but for the dtype: their random numbers are the same */
                g[wide] = tp_graph_new(NULL);
                tp_node *x =
                    tp_get_variable_as(g[wide], "x", wide ? TP_F64 : TP_F32, tp_make_shape(n), tp_init_constant(3));
                tp_node *y = tp_nn_dropout(x, rate);
                s[wide] = session_with(g[wide], naive ? "naive" : NULL, 2);
                value[wide][0] = NULL;
                for (int run = 0; run < 2 && s[wide]; run++)
                    CHECK_OK(tp_session_run(s[wide], NULL, 0, &y, 1, value[wide]));
            }
            for (int64_t e = 0; e < n && value[0][0] && value[1][0]; e++) {
                const double a = tp_tensor_get(value[0][0], e), b = tp_tensor_get(value[1][0], e);
                if (!CHECK_MSG(fabs(a - b) < 1e-5 && (a == 0 || fabs(a - 3.0 / (1.0 - (double)rate)) < 1e-5),
                               "%lld at %g: element %lld is %g and %g", (long long)n, (double)rate, (long long)e, a, b))
                    break;
            }
            for (int wide = 0; wide < 2; wide++) {
                tp_session_free(s[wide]);
                tp_graph_free(g[wide]);
            }
        }
}

/* -- lists of variables */

enum { UPDATES = 10 };
static tp_node *update(int kind, tp_node *const *v, tp_node *const *a, tp_node *const *b, tp_node *const *grads, int n,
                       tp_node *lr)
{
    switch (kind) {
    case 0: return tp_apply_gradient_descent(v, grads, n, lr, NULL);
    case 1: return tp_apply_momentum(v, a, grads, n, lr, 0.9f, false, NULL);
    case 2: return tp_apply_adam(v, a, b, grads, n, lr, lr, lr, 0.9f, 0.99f, 1e-8f, NULL);
    case 3: return tp_apply_adamw(v, a, b, grads, n, lr, lr, lr, 0.9f, 0.99f, 1e-8f, 0.1f, NULL);
    case 4: return tp_apply_rmsprop(v, a, b, NULL, grads, n, lr, 0.9f, 0.1f, 1e-8f, NULL);
    case 5: return tp_apply_rmsprop(v, a, b, a, grads, n, lr, 0.9f, 0.1f, 1e-8f, NULL);
    case 6: return tp_apply_adagrad(v, a, grads, n, lr, NULL);
    case 7: return tp_apply_adadelta(v, a, b, grads, n, lr, 0.9f, 1e-8f, NULL);
    case 8: return tp_apply_ftrl(v, a, b, grads, n, lr, -0.5f, 0, 0, 0, NULL);
    default: return tp_apply_lamb(v, a, b, grads, n, lr, lr, lr, 0.9f, 0.99f, 1e-6f, 0.1f, NULL);
    }
}

TEST(updates_of_no_variable_are_refused)
{
    for (int kind = 0; kind < UPDATES; kind++)
        for (int wrong = 0; wrong < 6; wrong++) {
            tp_graph *g = tp_graph_new(NULL);
            tp_node *v = variable_of(g, "v", 2, 2), *a = variable_of(g, "a", 2, 2), *b = variable_of(g, "b", 2, 2),
                    *grad = tp_square(v), *lr = tp_const(g, 0.1f);
            const bool second = kind != 0 && kind != 1 && kind != 6, first = kind != 0;
            const int n = wrong == 0 ? 0 : wrong == 1 ? -1 : 1;
            const tp_node *u =
                update(kind, &v, wrong == 2 ? NULL : &a, wrong == 3 ? NULL : &b, wrong == 4 ? NULL : &grad, n, lr);
            const bool good = wrong == 5 || (wrong == 2 && !first) || (wrong == 3 && !second);
            if (n == 1) CHECK_MSG((tp_graph_status(g) == TP_OK) == good && u, "update %d, case %d", kind, wrong);
            if (!good) CHECK_HAS(tp_last_error(), "a list of variables or gradients is NULL or empty");
            tp_fail(TP_ERR, "nothing");
            tp_graph_free(g);
        }
}

TEST_MAIN()
