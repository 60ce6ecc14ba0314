/* Edges of the planner and of kernels that random graphs seldom reach: products under gradient descent in every order of operands, zeros
 * that stay zeros, float64 beside float32, empty lists of variables. */
#define TP_IMPLEMENTATION
#include "tp_layers.h"
#include "tp_optim.h"
#include "tp_test.h"
#include "golden.h"

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

/* -- operands that are repeated along other dimensions */

/* relu((x + a) * b) with small whole numbers, where a and b have only some of x's dimensions, equals a plain loop. */
static void chain_of(const char *isa, const int64_t *dim, unsigned of_a, unsigned of_b)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *v[3];
    tp_feed feed[3];
    tp_tensor t[3];
    const tp_tensor *y = NULL;
    const unsigned has[3] = {7, of_a, of_b}; /* bit d: it has dimension d */
    memset(feed, 0, sizeof feed), memset(t, 0, sizeof t);
    for (int i = 0; i < 3; i++) {
        int64_t own[3];
        for (int d = 0; d < 3; d++) own[d] = has[i] >> d & 1 ? dim[d] : 1;
        v[i] = tp_placeholder(g, i == 0 ? "x" : i == 1 ? "a" : "b", TP_F32, tp_make_shape_n(3, own));
        CHECK_OK(tp_tensor_resize(&t[i], TP_F32, v[i]->shape));
        for (int64_t e = 0; e < tp_tensor_size(&t[i]); e++) tp_tensor_set(&t[i], e, (double)(e * (i + 3) % 17) - 5);
        feed[i].node = v[i];
        tp_tensor_view(&feed[i].value, TP_F32, t[i].shape, t[i].data);
    }
    tp_node *out = tp_relu(tp_mul(tp_add(v[0], v[1]), v[2]));
    tp_session *s = session_with(g, isa, 2);
    if (s && CHECK_OK(tp_session_run(s, feed, 3, &out, 1, &y)))
        for (int64_t e = 0; e < tp_tensor_size(y); e++) {
            const int64_t at[3] = {e / (dim[1] * dim[2]), e / dim[2] % dim[1], e % dim[2]};
            double x[3];
            for (int i = 0; i < 3; i++) {
                int64_t index = 0;
                for (int d = 0; d < 3; d++)
                    if (has[i] >> d & 1) index = index * dim[d] + at[d];
                x[i] = ((const float *)t[i].data)[index];
            }
            const double want = (x[0] + x[1]) * x[2];
            if (!CHECK_MSG(tp_tensor_get(y, e) == (want > 0 ? want : 0), "%lldx%lldx%lld, %u and %u: element %lld",
                           (long long)dim[0], (long long)dim[1], (long long)dim[2], of_a, of_b, (long long)e))
                break;
        }
    for (int i = 0; i < 3; i++) tp_tensor_free(&t[i]);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(operands_may_lack_any_dimension)
{
    static const int64_t dims[][3] = {{1, 1, 5},     {1, 3000, 3},  {1, 3, 3000}, {1, 1100, 33}, {2, 33, 600},
                                      {5, 7, 9},     {1, 1, 5000},  {5000, 1, 1}, {3, 1, 2000},  {2, 1500, 5},
                                      {1500, 2, 4},  {4, 512, 8},   {2, 511, 9},  {2, 513, 7},   {1, 20, 1024},
                                      {1, 20, 1025}, {1, 20, 1023}, {1, 4000, 2}};
    for (int i = 0; i < TP_COUNT(dims); i++)
        for (unsigned c = 0; c < 64; c += 3) chain_of(c % 5 ? NULL : "naive", dims[i], c & 7, c >> 3);
}

/* -- the bits of fast functions */

static uint32_t n_drawn;
static int64_t drawn(int64_t n) { return (int64_t)(tp_random_u32(43, 0, n_drawn++) % (uint32_t)n); }
static int n_weights;
static tp_node *weight(tp_graph *g, int n, int64_t a, int64_t b, int64_t c, int64_t d)
{
    char name[16];
    const int64_t dim[4] = {a, b, c, d};
    snprintf(name, sizeof name, "w%d", n_weights++);
    return tp_get_variable_as(g, name, TP_F32, tp_make_shape_n(n, dim), tp_init_uniform(-1, 1));
}

/* The ops: from each comes y, and what it is differentiated by. Random sizes, most of them small and odd. */
enum { KINDS = 10 };
static tp_node *op_of_convolution(tp_graph *g, int kind, tp_node **wrt, int *n)
{
    const int64_t C = 1 + drawn(20), height = 3 + drawn(10), width = 3 + drawn(10), B = 1 + drawn(4);
    tp_node *x = wrt[(*n)++] = weight(g, 4, B, height, width, C);
    tp_pool_attrs p;
    tp_conv2d_attrs a;
    memset(&p, 0, sizeof p), memset(&a, 0, sizeof a);
    p.size_h = 1 + (int)drawn(3), p.size_w = 1 + (int)drawn(3), p.stride_h = 1 + (int)drawn(2),
    p.stride_w = 1 + (int)drawn(2);
    p.padding = drawn(2) ? TP_SAME : TP_VALID;
    if (kind == 0) return tp_nn_max_pool(x, &p);
    if (kind == 1) return tp_nn_avg_pool(x, &p);
    a.stride_h = p.stride_h, a.stride_w = p.stride_w, a.padding = p.padding;
    a.groups = drawn(3) ? 1 : (int)C;
    tp_node *w = wrt[(*n)++] = weight(g, 4, p.size_h, p.size_w, C / a.groups, a.groups > 1 ? C : 1 + drawn(40));
    return tp_nn_conv2d(x, w, &a);
}
static tp_node *op_of_kind(tp_graph *g, int kind, tp_node **wrt, int *n)
{
    const int64_t M = 1 + drawn(40), N = 1 + drawn(70), K = 1 + drawn(drawn(4) ? 60 : 1300);
    const bool ta = drawn(2), tb = drawn(2);
    int axes[3], n_axes = 0;
    if (kind < 3) return op_of_convolution(g, kind, wrt, n);
    if (kind == 3) {
        wrt[(*n)++] = ta ? weight(g, 2, K, M, 0, 0) : weight(g, 2, M, K, 0, 0);
        wrt[(*n)++] = tb ? weight(g, 2, N, K, 0, 0) : weight(g, 2, K, N, 0, 0);
        return tp_matmul_ex(wrt[0], wrt[1], ta, tb);
    }
    if (kind == 4) {
        const int64_t heads = 1 + drawn(3), C = heads * (1 + drawn(12)), T = 1 + drawn(9);
        for (int i = 0; i < 3; i++) wrt[(*n)++] = weight(g, 3, 1 + M % 3, T, C, 0);
        return tp_nn_attention(wrt[0], wrt[1], wrt[2], (int)heads, ta);
    }
    tp_node *x = wrt[(*n)++] = weight(g, 3, 1 + drawn(6), M, N, 0);
    for (int d = 0; d < 3; d++)
        if (drawn(2)) axes[n_axes++] = d;
    if (n_axes == 0) axes[n_axes++] = (int)drawn(3);
    if (kind == 5) return tp_reduce_sum(x, axes, n_axes, ta);
    if (kind == 6) return tp_reduce_mean(x, axes, n_axes, ta);
    if (kind == 7) return tp_reduce_max(x, axes, n_axes, ta);
    if (kind == 8) return ta ? tp_softmax(x) : tp_log_softmax(x);
    wrt[(*n)++] = weight(g, 1, N, 0, 0, 0), wrt[(*n)++] = weight(g, 1, N, 0, 0, 0);
    return tp_nn_layer_norm(tp_nn_bias_add(x, wrt[2], TP_NHWC), wrt[1], wrt[2], 1e-5f);
}

static uint64_t hash_of_op(const char *isa, int kind)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *wrt[4], *fetch[5];
    const tp_tensor *value[5];
    int n = 0;
    uint64_t h = 0;
    n_weights = 0;
    tp_node *y = fetch[0] = op_of_kind(g, kind, wrt, &n);
    tp_node *dy = tp_get_variable_as(g, "dy", TP_F32, y->shape, tp_init_uniform(-1, 1));
    tp_gradients(tp_sum(tp_mul(y, dy)), wrt, n, fetch + 1);
    tp_session *s = session_with(g, isa, 1 + (int)drawn(2));
    if (s && CHECK_MSG(tp_session_run(s, NULL, 0, fetch, n + 1, value) == TP_OK, "kind %d: %s", kind, tp_last_error()))
        for (int i = 0; i <= n; i++)
            for (int64_t e = 0; e < tp_tensor_size(value[i]); e++) {
                uint32_t bits;
                memcpy(&bits, (const float *)value[i]->data + e, 4);
                h = tp_test_mix(h ^ bits);
            }
    tp_session_free(s);
    tp_graph_free(g);
    return h;
}

static bool lacks_isa(const char *line)
{
    char isa[16] = "";
    if (sscanf(line, "%15s", isa) != 1) return false;
    tp_device *d = tp_cpu_device_new(1, isa);
    if (d) d->close(d);
    return d == NULL;
}

TEST(fast_functions_have_the_bits_that_they_had)
{
    static const char *const isas[] = {"sse2", "avx2", "avx512"};
    int n = 0;
    tp_set_log(tp_test_drop_log, NULL);
    for (int i = 0; i < TP_COUNT(isas); i++) {
        tp_device *d = tp_cpu_device_new(1, isas[i]);
        if (!d) continue;
        d->close(d);
        n_drawn = 0;
        for (int kind = 0; kind < KINDS; kind++)
            for (int line = 0; line < 4; line++) {
                golden_say("%s %d:", isas[i], kind);
                for (int c = 0; c < 8; c++) golden_say(" %06x", (unsigned)hash_of_op(isas[i], kind) & 0xffffff);
                golden_say("\n");
            }
        n++;
    }
    tp_set_log(NULL, NULL);
    if (n == 0) TEST_SKIP("needs an instruction set of x86");
    golden_compare_but("choices.txt", "bits of fast functions", lacks_isa);
}

/* The rows of a softmax with a factor end in the middle of a vector; what lies behind them in memory stays. The fourth one has the
 * memory of the second, which lies before that of the third. */
TEST(scaled_softmax_keeps_its_neighbours)
{
    enum { ROWS = 3, COLUMNS = 20, ALL = ROWS * COLUMNS };
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(ROWS, COLUMNS)), *y[4];
    float v[ALL];
    double want[5][ALL];
    for (int i = 0; i < ALL; i++) want[0][i] = v[i] = sinf((float)i);
    for (int k = 0; k < 4; k++) {
        y[k] = tp_softmax(tp_affine(k ? y[k - 1] : x, 1.5f, 0));
        for (int r = 0; r < ALL; r += COLUMNS) {
            double sum = 0;
            for (int i = r; i < r + COLUMNS; i++) sum += exp(1.5 * want[k][i]);
            for (int i = r; i < r + COLUMNS; i++) want[k + 1][i] = exp(1.5 * want[k][i]) / sum;
        }
    }
    tp_session *s = tp_session_new(g, NULL);
    tp_feed feed;
    const tp_tensor *out[2];
    memset(&feed, 0, sizeof feed);
    feed.node = x;
    tp_tensor_view(&feed.value, TP_F32, x->shape, v);
    if (CHECK_OK(tp_session_run(s, &feed, 1, y + 2, 2, out)))
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < ALL; i++) CHECK_NEAR(tp_tensor_get(out[k], i), want[k + 3][i], 1e-6, 1e-5);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST_MAIN()
