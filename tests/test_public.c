/* Public functions that no other test calls by name: each with what it promises. (tests/check_public.sh tells which.) */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_export.h"
#include "tp_test.h"

static tp_tensor view(const float *data, int64_t n)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    const int64_t dim[1] = {n};
    tp_tensor_view(&t, TP_F32, tp_make_shape_n(1, dim), data);
    return t;
}

/* The value of y, where x (and, if it is not NULL, z) are placeholders of vectors. */
static void run_once(tp_node *y, tp_node *x, const float *xs, tp_node *z, const float *zs, int n, tp_tensor *out)
{
    tp_graph *g = tp_node_graph(y);
    tp_session *s = tp_session_new(g, NULL);
    tp_feed f[2];
    const tp_tensor *got = NULL;
    memset(f, 0, sizeof f);
    memset(out, 0, sizeof *out);
    f[0].node = x, f[0].value = view(xs, n);
    f[1].node = z;
    if (z) f[1].value = view(zs, n);
    if (CHECK_MSG(s != NULL, "%s", tp_graph_error(g)) && CHECK_OK(tp_session_run(s, f, z ? 2 : 1, &y, 1, &got)) && got)
        CHECK_OK(tp_tensor_copy(out, got));
    tp_session_free(s);
}

static double floor_mod(double a, double b) { return a - floor(a / b) * b; }
static double floor_div(double a, double b) { return floor(a / b); }
static double one_over(double x) { return 1 / x; }
static double one_over_root(double x) { return 1 / sqrt(x); }

TEST(functions_of_one_number)
{
    static const struct {
        tp_node *(*op)(tp_node *);
        double (*fn)(double);
        const char *name;
        float x[4];
    } f[] = {{tp_asin, asin, "asin", {-1, -0.3f, 0.5f, 1}},
             {tp_acos, acos, "acos", {-1, -0.3f, 0.5f, 1}},
             {tp_atan, atan, "atan", {-30, -0.3f, 0.5f, 2}},
             {tp_erf, erf, "erf", {-3, -0.3f, 0.5f, 1.5f}},
             {tp_reciprocal, one_over, "reciprocal", {-4, -0.3f, 0.5f, 3}},
             {tp_rsqrt, one_over_root, "rsqrt", {0.1f, 1, 4, 9}}};
    for (int i = 0; i < TP_COUNT(f); i++) {
        tp_graph *g = tp_graph_new(NULL);
        const int64_t four = 4;
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(1, &four));
        tp_tensor y;
        run_once(f[i].op(x), x, f[i].x, NULL, NULL, 4, &y);
        for (int k = 0; y.data && k < 4; k++)
            CHECK_MSG(fabs(tp_tensor_get(&y, k) - f[i].fn((double)f[i].x[k])) <=
                          2e-6 * (1 + fabs(f[i].fn((double)f[i].x[k]))),
                      "%s(%g) is %.9g", f[i].name, (double)f[i].x[k], tp_tensor_get(&y, k));
        tp_tensor_free(&y);
        tp_graph_free(g);
    }
}

TEST(functions_of_two_numbers)
{
    static const float a[5] = {-7, 7, 2, -2.5f, 4}, b[5] = {2, -2, 2, 2, 0.5f};
    static const struct {
        tp_node *(*op)(tp_node *, tp_node *);
        double (*fn)(double, double);
        const char *name;
        bool positive;
    } f[] = {
        {tp_floordiv, floor_div, "floordiv", false}, {tp_mod, floor_mod, "mod", false}, {tp_pow, pow, "pow", true}};
    for (int i = 0; i < TP_COUNT(f); i++) {
        tp_graph *g = tp_graph_new(NULL);
        const int64_t five = 5;
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(1, &five)),
                *z = tp_placeholder(g, "z", TP_F32, tp_make_shape_n(1, &five));
        tp_tensor y;
        float xs[5];
        for (int k = 0; k < 5; k++) xs[k] = f[i].positive ? fabsf(a[k]) : a[k];
        run_once(f[i].op(x, z), x, xs, z, b, 5, &y);
        for (int k = 0; y.data && k < 5; k++) {
            const double want = f[i].fn((double)xs[k], (double)b[k]);
            CHECK_MSG(fabs(tp_tensor_get(&y, k) - want) <= 1e-6 * fabs(want) + 1e-7, "%s(%g, %g) is %.9g", f[i].name,
                      (double)xs[k], (double)b[k], tp_tensor_get(&y, k));
        }
        tp_tensor_free(&y);
        tp_graph_free(g);
    }
}

/* pow at its edges is libm's (but for subnormal numbers, which are zeros). */
TEST(pow_at_its_edges)
{
    static const float v[] = {0, -0.0f, 1,        -1,        0.5f, -0.5f,  2,     -2,
                              3, -3,    INFINITY, -INFINITY, NAN,  1e-30f, 1e30f, -1e30f};
    enum { N = TP_COUNT(v) };
    float a[N * N], b[N * N];
    for (int i = 0; i < N * N; i++) a[i] = v[i / N], b[i] = v[i % N];
    tp_graph *g = tp_graph_new(NULL);
    const int64_t n = N * N;
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(1, &n)),
            *z = tp_placeholder(g, "z", TP_F32, tp_make_shape_n(1, &n));
    tp_tensor y;
    run_once(tp_pow(x, z), x, a, z, b, N * N, &y);
    for (int i = 0; y.data && i < N * N; i++) {
        const double got = tp_tensor_get(&y, i);
        const float want = powf(a[i], b[i]);
        const bool same = want != want               ? got != got
                          : isinf(want) || want == 0 ? got == (double)want && signbit(got) == signbit((double)want)
                                                     : fabs(got - (double)want) <= 1e-6 * fabs((double)want);
        CHECK_MSG(same, "pow(%g, %g) is %g, not %g", (double)a[i], (double)b[i], got, (double)want);
    }
    tp_tensor_free(&y);
    tp_graph_free(g);
}

TEST(comparisons_and_logic)
{
    static const float a[5] = {1, 2, 3, NAN, 0}, b[5] = {2, 2, 2, NAN, 0};
    static const struct {
        tp_node *(*op)(tp_node *, tp_node *);
        const char *name;
        int want[5];
    } f[] = {{tp_equal, "equal", {0, 1, 0, 0, 1}},
             {tp_not_equal, "not_equal", {1, 0, 1, 1, 0}},
             {tp_less_equal, "less_equal", {1, 1, 0, 0, 1}},
             {tp_greater_equal, "greater_equal", {0, 1, 1, 0, 1}}};
    tp_tensor y;
    const int64_t five = 5;
    for (int i = 0; i < TP_COUNT(f); i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(1, &five)),
                *z = tp_placeholder(g, "z", TP_F32, tp_make_shape_n(1, &five));
        run_once(f[i].op(x, z), x, a, z, b, 5, &y);
        CHECK(y.dtype == TP_BOOL);
        for (int k = 0; y.data && k < 5; k++)
            CHECK_MSG((int)tp_tensor_get(&y, k) == f[i].want[k], "%s(%g, %g)", f[i].name, (double)a[k], (double)b[k]);
        tp_tensor_free(&y);
        tp_graph_free(g);
    }
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(1, &five)),
            *z = tp_placeholder(g, "z", TP_F32, tp_make_shape_n(1, &five));
    tp_node *one = tp_const(g, 1.5), *less = tp_less(x, one), *more = tp_greater(z, one);
    static const float p[5] = {1, 1, 2, 2, INFINITY}, q[5] = {1, 2, 1, 2, -INFINITY};
    run_once(tp_cast(tp_logical_or(less, more), TP_F32), x, p, z, q, 5, &y);
    static const double either[5] = {1, 1, 0, 1, 0};
    for (int k = 0; y.data && k < 5; k++) CHECK(tp_tensor_get(&y, k) == either[k]);
    tp_tensor_free(&y);
    run_once(tp_logical_not(less), x, p, NULL, NULL, 5, &y);
    for (int k = 0; y.data && k < 5; k++) CHECK(tp_tensor_get(&y, k) == (p[k] < 1.5f ? 0 : 1));
    tp_tensor_free(&y);
    run_once(tp_is_finite(x), x, p, NULL, NULL, 5, &y);
    for (int k = 0; y.data && k < 5; k++) CHECK(tp_tensor_get(&y, k) == (k < 4));
    tp_tensor_free(&y);
    run_once(tp_zero_fraction(tp_sub(x, tp_const(g, 1))), x, p, NULL, NULL, 5, &y);
    CHECK_NEAR(y.data ? tp_tensor_get(&y, 0) : -1, 0.4, 1e-7, 0);
    tp_tensor_free(&y);
    tp_graph_free(g);
}

TEST(reductions)
{
    static const float v[6] = {4, -1, 3, 0, 7, -1};
    tp_graph *g = tp_graph_new(NULL);
    const int64_t six = 6, dim[2] = {2, 3};
    const int axis = 1;
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(1, &six)),
            *m = tp_reshape_to(x, tp_make_shape_n(2, dim));
    tp_tensor y;
    run_once(tp_reduce_min(m, &axis, 1, false), x, v, NULL, NULL, 6, &y);
    CHECK(y.data && y.shape.ndim == 1 && y.shape.dim[0] == 2 && tp_tensor_get(&y, 0) == -1 &&
          tp_tensor_get(&y, 1) == -1);
    tp_tensor_free(&y);
    run_once(tp_cast(tp_reduce_any(tp_greater(m, tp_const(g, 5)), &axis, 1, true), TP_F32), x, v, NULL, NULL, 6, &y);
    CHECK(y.data && y.shape.ndim == 2 && tp_tensor_get(&y, 0) == 0 && tp_tensor_get(&y, 1) == 1);
    tp_tensor_free(&y);
    tp_graph_free(g);
}

/* Dense labels: of one-hot ones it is the sparse one's; its gradient is softmax - labels. */
TEST(softmax_cross_entropy_of_dense_labels)
{
    static const float v[6] = {1, 2, 0.5f, -1, 0, 3}, l[6] = {0, 1, 0, 0.25f, 0.25f, 0.5f};
    tp_graph *g = tp_graph_new(NULL);
    const int64_t six = 6, dim[2] = {2, 3};
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(1, &six)),
            *z = tp_placeholder(g, "z", TP_F32, tp_make_shape_n(1, &six));
    tp_node *logits = tp_reshape_to(x, tp_make_shape_n(2, dim)), *labels = tp_reshape_to(z, tp_make_shape_n(2, dim));
    tp_node *cost = tp_softmax_cross_entropy(logits, labels), *dx = NULL;
    tp_gradients(tp_sum(cost), &x, 1, &dx);
    tp_tensor y;
    run_once(cost, x, v, z, l, 6, &y);
    double p[6];
    for (int b = 0; b < 2; b++) {
        double sum = 0, want = 0;
        for (int c = 0; c < 3; c++) sum += exp((double)v[3 * b + c]);
        for (int c = 0; c < 3; c++) {
            p[3 * b + c] = exp((double)v[3 * b + c]) / sum;
            want -= (double)l[3 * b + c] * log(p[3 * b + c]);
        }
        if (y.data) CHECK_NEAR(tp_tensor_get(&y, b), want, 1e-6, 1e-6);
    }
    tp_tensor_free(&y);
    run_once(dx, x, v, z, l, 6, &y);
    for (int i = 0; y.data && i < 6; i++) CHECK_NEAR(tp_tensor_get(&y, i), p[i] - (double)l[i], 1e-6, 1e-6);
    tp_tensor_free(&y);
    tp_graph_free(g);
}

/* The gradient of a convolution's filter as a node is what tp_gradients makes. */
TEST(filter_gradient_as_a_node)
{
    tp_graph *g = tp_graph_new(NULL);
    const int64_t n = 2 * 5 * 5 * 3, dim[4] = {2, 5, 5, 3}, wd[4] = {3, 3, 3, 4};
    float v[150], out[2][108];
    for (int i = 0; i < 150; i++) v[i] = (float)(i * 37 % 19) - 9;
    tp_node *flat = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(1, &n)),
            *x = tp_reshape_to(flat, tp_make_shape_n(4, dim));
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape_n(4, wd), tp_init_normal(0, 1));
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    tp_node *y = tp_nn_conv2d(x, w, &a), *dw = NULL, *by_hand = tp_nn_conv2d_filter_grad(x, tp_affine(y, 2, 0), w, &a);
    tp_gradients(tp_sum(tp_square(y)), &w, 1, &dw);
    for (int i = 0; i < 2; i++) {
        tp_tensor t;
        run_once(i ? dw : by_hand, flat, v, NULL, NULL, 150, &t);
        CHECK(t.data && tp_tensor_size(&t) == 108);
        for (int k = 0; t.data && k < 108; k++) out[i][k] = (float)tp_tensor_get(&t, k);
        tp_tensor_free(&t);
    }
    for (int k = 0; k < 108; k++) CHECK_NEAR(out[0][k], out[1][k], 1e-3, 1e-5);
    CHECK(fabsf(out[0][0]) > 1);
    tp_graph_free(g);
}

TEST(initial_values)
{
    tp_tensor a, b;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    const int64_t n = 20000;
    CHECK_OK(tp_tensor_resize(&a, TP_F32, tp_make_shape_n(1, &n)));
    CHECK_OK(tp_tensor_resize(&b, TP_F32, tp_make_shape_n(1, &n)));
    const tp_init normal = tp_init_truncated_normal(3, 0.5f);
    CHECK_OK(tp_init_fill(&normal, 7, "conv0/W", &a));
    CHECK_OK(tp_init_fill(&normal, 7, "conv0/W", &b));
    CHECK(memcmp(a.data, b.data, tp_tensor_bytes(&a)) == 0);
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) {
        const double v = tp_tensor_get(&a, i);
        CHECK(v >= 2 && v <= 4); /* two deviations */
        sum += v, squares += (v - 3) * (v - 3);
    }
    CHECK_NEAR(sum / (double)n, 3, 0.015, 0);
    CHECK_NEAR(sqrt(squares / (double)n), 0.88 * 0.5, 0.01, 0);
    CHECK_OK(tp_init_fill(&normal, 7, "conv1/W", &b));
    CHECK(memcmp(a.data, b.data, tp_tensor_bytes(&a)) != 0);
    CHECK_OK(tp_init_fill(&normal, 8, "conv0/W", &b));
    CHECK(memcmp(a.data, b.data, tp_tensor_bytes(&a)) != 0);
    tp_tensor_free(&a);
    tp_tensor_free(&b);
}

TEST(memory_of_a_graph_and_its_table)
{
    tp_graph *g = tp_graph_new(NULL);
    char *text = tp_graph_strdup(g, "conv0/W");
    CHECK_STR(text, "conv0/W");
    const unsigned char *zeroed = (const unsigned char *)tp_graph_alloc(g, 1000);
    int set = 0;
    for (int i = 0; zeroed && i < 1000; i++) set += zeroed[i] != 0;
    CHECK(zeroed && set == 0);
    const int64_t dim[2] = {300, 20}, twenty = 20;
    tp_get_variable_as(g, "fc0/W", TP_F32, tp_make_shape_n(2, dim), tp_init_ones());
    tp_get_variable_as(g, "fc0/b", TP_F32, tp_make_shape_n(1, &twenty), tp_init_ones());
    tp_variable_desc d;
    memset(&d, 0, sizeof d);
    d.name = "steps", d.shape = tp_make_shape_n(1, &twenty), d.trainable = TP_NO;
    tp_get_variable(g, &d);
    tp_buf out;
    memset(&out, 0, sizeof out);
    tp_graph_describe_variables(g, &out);
    CHECK_HAS(out.data, "fc0/W");
    CHECK_HAS(out.data, "(300,20)");
    CHECK_HAS(out.data, "6000");
    CHECK_HAS(out.data, "fc0/b");
    CHECK_HAS(out.data, "6020"); /* the sum */
    CHECK(!strstr(out.data, "steps"));
    tp_buf_free(&out);
    CHECK(tp_variable_scope_reuse(g) == TP_REUSE_NO);
    tp_variable_scope_desc s;
    memset(&s, 0, sizeof s);
    s.name = "again", s.reuse = TP_REUSE_AUTO;
    tp_variable_scope_push(g, &s);
    CHECK(tp_variable_scope_reuse(g) == TP_REUSE_AUTO);
    tp_variable_scope_pop(g);
    CHECK(tp_variable_scope_reuse(g) == TP_REUSE_NO);
    tp_graph_free(g);
}

static tp_status no_shape(tp_infer *s)
{
    char text[TP_SHAPE_TEXT];
    return tp_infer_fail(s, TP_ERR_SHAPE, "input is %s, which nobody wants", tp_shape_text(&s->in[0].shape, text));
}

TEST(a_shape_rule_fails_by_a_sentence)
{
    static tp_op row;
    row = *tp_op_find("neg");
    row.name = "nobody";
    row.infer = no_shape;
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_const(g, 1), *y = tp_apply(g, &row, &x, 1, NULL);
    CHECK(tp_is_poison(y) && tp_graph_status(g) == TP_ERR_SHAPE);
    CHECK_HAS(tp_graph_error(g), "which nobody wants");
    tp_graph_free(g);
}

TEST(execs_of_one_session)
{
    tp_graph *g = tp_graph_new(NULL);
    const int64_t four = 4;
    tp_node *v = tp_get_variable_as(g, "v", TP_F32, tp_make_shape_n(1, &four), tp_init_ones());
    tp_node *noise = tp_rand_uniform(g, tp_make_shape_n(1, &four), 0, 1);
    tp_session *s = tp_session_new(g, NULL);
    CHECK(tp_session_device(s, 0) != NULL && !strcmp(tp_session_device(s, 0)->name, "cpu:0"));
    CHECK(tp_session_device(s, 1) == NULL && tp_session_device(s, -1) == NULL);
    tp_exec *e = tp_exec_new(s), *f = tp_exec_new(s);
    const tp_tensor *out = NULL;
    float first[4] = {0};
    CHECK(tp_exec_random_step(e) == 0);
    CHECK_OK(tp_exec_run(e, NULL, 0, &noise, 1, &out));
    if (out) memcpy(first, out->data, sizeof first);
    CHECK(tp_exec_random_step(e) == 1 && tp_exec_random_step(f) == 0);
    CHECK_OK(tp_exec_run(e, NULL, 0, &noise, 1, &out));
    CHECK(out && memcmp(first, out->data, sizeof first) != 0);
    CHECK_OK(tp_exec_run(f, NULL, 0, &noise, 1, &out)); /* step 0 of this one */
    CHECK(out && memcmp(first, out->data, sizeof first) == 0);
    CHECK_OK(tp_exec_run(f, NULL, 0, &v, 1, &out)); /* variables are the session's */
    CHECK(out && tp_tensor_get(out, 3) == 1);
    tp_exec_free(e);
    tp_exec_free(f);
    tp_exec_free(NULL);
    tp_session_free(s);
    tp_graph_free(g);
}

/* A hook feeds a placeholder and asks for a stop. */
typedef struct feeder {
    tp_hook hook;
    tp_hooked_session *session;
    tp_node *x;
    float value;
    tp_tensor tensor;
} feeder;
static tp_status feed_it(tp_hook *h, tp_run_request *r)
{
    feeder *f = (feeder *)h->user;
    f->value += 1;
    tp_tensor_view(&f->tensor, TP_F32, tp_make_shape_n(0, NULL), &f->value);
    return tp_request_feed(r, f->x, &f->tensor);
}

TEST(hooks_feed_and_stop)
{
    tp_graph *g = tp_graph_new(NULL);
    feeder f;
    memset(&f, 0, sizeof f);
    f.x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(0, NULL));
    f.hook.user = &f, f.hook.before_run = feed_it;
    tp_node *y = tp_affine(f.x, 10, 1);
    tp_hook *hooks[1] = {&f.hook};
    tp_session *s = tp_session_new(g, NULL);
    tp_hooked_session *h = tp_hooked_session_new(s, hooks, 1);
    CHECK(tp_hooked_session_exec(h) != NULL);
    for (int i = 1; i <= 3; i++) {
        const tp_tensor *out = NULL;
        CHECK_OK(tp_hooked_run(h, &y, 1, &out));
        CHECK(out && tp_tensor_get(out, 0) == 10 * i + 1);
    }
    CHECK(!tp_hooked_session_should_stop(h));
    tp_hooked_session_request_stop(h);
    CHECK(tp_hooked_session_should_stop(h));
    tp_hooked_session_free(h);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(datapoints_and_flows_of_ones_own)
{
    tp_datapoint a, b, c;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    memset(&c, 0, sizeof c);
    const int64_t three = 3;
    CHECK_OK(tp_datapoint_resize(&a, 2));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(tp_tensor_resize(&a.c[i], TP_F32, tp_make_shape_n(1, &three)));
        for (int k = 0; k < 3; k++) tp_tensor_set(&a.c[i], k, 10 * i + k);
    }
    CHECK_OK(tp_datapoint_view(&b, &a));
    CHECK_OK(tp_datapoint_copy(&c, &a));
    CHECK(b.n == 2 && b.c[1].data == a.c[1].data && c.n == 2 && c.c[1].data != a.c[1].data);
    tp_tensor_set(&a.c[1], 2, 99);
    CHECK(tp_tensor_get(&b.c[1], 2) == 99 && tp_tensor_get(&c.c[1], 2) == 12);
    tp_datapoint_free(&b);
    tp_datapoint_free(&a);
    CHECK(tp_tensor_get(&c.c[0], 1) == 1);
    tp_datapoint_free(&c);

    tp_dataflow *df = tp_df_fail(NULL, TP_ERR_ARG, "no flow of %d", 7), *batch = tp_df_batch(df, 2);
    CHECK_ERR(tp_df_status(batch), TP_ERR_ARG, "no flow of 7");
    tp_df_free(batch);
    df = tp_df_new("mine", 64, 5);
    const unsigned char *user = df ? (const unsigned char *)df->user : NULL;
    CHECK(user && user[0] == 0 && user[63] == 0);
    tp_df_free(df);

    static const unsigned char idx[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 250};
    const char *dir = tp_test_tmpdir(), *path = tp_test_path(dir, "images-idx2-ubyte");
    tp_tensor t;
    memset(&t, 0, sizeof t);
    tp_test_write(path, idx, sizeof idx);
    CHECK_OK(tp_idx_load(path, &t));
    CHECK(t.dtype == TP_U8 && t.shape.ndim == 2 && t.shape.dim[0] == 2 && t.shape.dim[1] == 3 &&
          tp_tensor_get(&t, 5) == 250);
    tp_tensor_free(&t);
    CHECK_ERR(tp_idx_load(tp_test_path(dir, "absent"), &t), TP_ERR_IO, "absent");
    tp_tensor_free(&t);
}

/* Dimensions beyond 2^24: the file lacks the bytes, and the sentence tells all digits of the extents. */
TEST(idx_dimensions_are_of_32_bits)
{
    static const unsigned char wide[] = {0, 0, 8, 2, 1, 2, 3, 4, 0, 0, 0, 1, 9};
    tp_tensor t;
    memset(&t, 0, sizeof t);
    CHECK_ERR(tp_idx_parse(wide, sizeof wide, "wide", &t), TP_ERR_FORMAT, "16909060");
    tp_tensor_free(&t);
}

/* -- callbacks --------------------------------------------------------------------------------------------------- */

/* Counts its hooks; the sum travels in checkpoints. */
typedef struct counts {
    int before_train, before_epoch, before_run, after_run, trigger_step, after_epoch, trigger, after_train;
    int64_t sum;
    double half;
    int loaded;
} counts;
static counts *counts_of(tp_callback *cb) { return (counts *)cb->user; }
static tp_status count_before_train(tp_callback *cb) { return counts_of(cb)->before_train++, TP_OK; }
static tp_status count_before_epoch(tp_callback *cb) { return counts_of(cb)->before_epoch++, TP_OK; }
static tp_status count_before_run(tp_callback *cb, tp_run_request *r)
{
    (void)r;
    return counts_of(cb)->before_run++, TP_OK;
}
static tp_status count_after_run(tp_callback *cb, const tp_run_values *v)
{
    (void)v;
    return counts_of(cb)->after_run++, TP_OK;
}
static tp_status count_trigger_step(tp_callback *cb) { return counts_of(cb)->trigger_step++, TP_OK; }
static tp_status count_after_epoch(tp_callback *cb) { return counts_of(cb)->after_epoch++, TP_OK; }
static tp_status count_trigger(tp_callback *cb)
{
    counts_of(cb)->sum += cb->train->global_step;
    counts_of(cb)->half = 0.5 * (double)counts_of(cb)->sum;
    return counts_of(cb)->trigger++, TP_OK;
}
static tp_status count_after_train(tp_callback *cb) { return counts_of(cb)->after_train++, TP_OK; }
static tp_status count_save(tp_callback *cb, tp_dict *d, const char *prefix)
{
    const tp_status st = tp_state_put_i64(d, prefix, "sum", &counts_of(cb)->sum, 1);
    return st == TP_OK ? tp_state_put_f64(d, prefix, "half", &counts_of(cb)->half, 1) : st;
}
static tp_status count_load(tp_callback *cb, const tp_dict *d, const char *prefix)
{
    counts *c = counts_of(cb);
    int64_t two[2];
    CHECK(!tp_state_get_i64(d, prefix, "sum", two, 2)); /* there is one */
    CHECK(!tp_state_get_i64(d, prefix, "another", two, 1));
    c->loaded = tp_state_get_i64(d, prefix, "sum", &c->sum, 1) && tp_state_get_f64(d, prefix, "half", &c->half, 1);
    return TP_OK;
}
static tp_callback *counter(void)
{
    tp_callback *cb = tp_callback_new("Counter", sizeof(counts));
    cb->before_train = count_before_train;
    cb->before_epoch = count_before_epoch;
    cb->before_run = count_before_run;
    cb->after_run = count_after_run;
    cb->trigger_step = count_trigger_step;
    cb->after_epoch = count_after_epoch;
    cb->trigger = count_trigger; /* and no trigger_epoch: it is this */
    cb->after_train = count_after_train;
    cb->save_state = count_save;
    cb->load_state = count_load;
    return cb;
}

/* A callback that hands everything on to another, as a wrapper of one's own does; the second has no hooks at all. */
typedef struct wrapper {
    tp_callback *of[2];
} wrapper;
#define WRAP(hook_)                                              \
    static tp_status wrap_##hook_(tp_callback *cb)               \
    {                                                            \
        wrapper *w = (wrapper *)cb->user;                        \
        const tp_status st = tp_callback_##hook_(w->of[0]);      \
        return st == TP_OK ? tp_callback_##hook_(w->of[1]) : st; \
    }
WRAP(before_train)
WRAP(before_epoch)
WRAP(trigger_step)
WRAP(after_epoch)
WRAP(trigger_epoch)
WRAP(after_train)
static tp_status wrap_setup_graph(tp_callback *cb)
{
    wrapper *w = (wrapper *)cb->user;
    const tp_status st = tp_callback_setup_graph(w->of[0], cb->train);
    return st == TP_OK ? tp_callback_setup_graph(w->of[1], cb->train) : st;
}
static tp_status wrap_before_run(tp_callback *cb, tp_run_request *r)
{
    wrapper *w = (wrapper *)cb->user;
    const tp_status st = tp_callback_before_run(w->of[0], r);
    return st == TP_OK ? tp_callback_before_run(w->of[1], r) : st;
}
static tp_status wrap_after_run(tp_callback *cb, const tp_run_values *v)
{
    wrapper *w = (wrapper *)cb->user;
    const tp_status st = tp_callback_after_run(w->of[0], v);
    return st == TP_OK ? tp_callback_after_run(w->of[1], v) : st;
}
static void wrap_close(tp_callback *cb)
{
    wrapper *w = (wrapper *)cb->user;
    for (int i = 0; i < 2; i++) tp_callback_free(w->of[i]);
}

TEST(the_hooks_of_a_callback_are_called_by_functions)
{
    tp_callback *cb = tp_callback_new("Wrapper", sizeof(wrapper)), *inner = counter();
    wrapper *w = (wrapper *)cb->user;
    w->of[0] = inner, w->of[1] = tp_callback_new("Nothing", 0);
    cb->setup_graph = wrap_setup_graph;
    cb->before_train = wrap_before_train;
    cb->before_epoch = wrap_before_epoch;
    cb->before_run = wrap_before_run;
    cb->after_run = wrap_after_run;
    cb->trigger_step = wrap_trigger_step;
    cb->after_epoch = wrap_after_epoch;
    cb->trigger_epoch = wrap_trigger_epoch;
    cb->after_train = wrap_after_train;
    cb->close = wrap_close;
    tp_trainer *t = tp_noop_trainer();
    tp_train_desc d;
    memset(&d, 0, sizeof d);
    d.callbacks = &cb, d.n_callbacks = 1, d.steps_per_epoch = 3, d.max_epoch = 2;
    CHECK_OK(tp_train(t, &d));
    const counts c = *counts_of(inner);
    CHECK(c.before_train == 1 && c.before_epoch == 2 && c.before_run == 6 && c.after_run == 6 && c.trigger_step == 6);
    CHECK(c.after_epoch == 2 && c.trigger == 2 && c.after_train == 1 && c.sum == 3 + 6);
    CHECK_OK(tp_callback_trigger(inner)); /* by hand, whenever */
    CHECK(counts_of(inner)->trigger == 3 && counts_of(inner)->sum == 3 + 6 + 6);
    CHECK_OK(tp_callback_trigger(w->of[1]));
    tp_dict state;
    memset(&state, 0, sizeof state);
    CHECK_OK(tp_callback_save_state(inner, &state, "mine/"));
    CHECK_OK(tp_callback_save_state(w->of[1], &state, "other/"));
    CHECK(state.n == 2);
    tp_callback *other = counter();
    CHECK_OK(tp_callback_load_state(other, &state, "mine/"));
    CHECK(counts_of(other)->loaded && counts_of(other)->sum == 15 && counts_of(other)->half == 7.5);
    CHECK_OK(tp_callback_load_state(w->of[1], &state, "mine/"));
    tp_callback_free(other);
    tp_dict_free(&state);
    tp_trainer_free(t);
}

static const tp_spec line_inputs[] = {TP_SPEC("x", TP_F32, TP_ANY)};
static tp_node *line(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape_n(0, NULL), tp_init_normal(0, 1));
    tp_node *cost = tp_named(tp_mean(tp_square(tp_sub(tp_mul(in[0], w), tp_mul(in[0], tp_const(g, 3))))), "cost");
    tp_add_moving_summary_n(&cost, 1, NULL);
    return cost;
}
static tp_optimizer *line_optimizer(tp_graph *g, void *user)
{
    (void)user;
    tp_sgd_desc d;
    memset(&d, 0, sizeof d);
    return tp_sgd_(tp_get_scalar_variable(g, "learning_rate", 0.05f), &d);
}
static tp_input_source *line_data(void)
{
    static const float rows[8] = {1, 2, -1, 0.5f, 1.5f, -2, 1, 1};
    tp_tensor t = view(rows, 8);
    tp_df_from_arrays_desc a;
    tp_df_batch_desc b;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    a.arrays = &t, a.n = 1, a.shuffle = TP_NO;
    b.df = tp_df_from_arrays_(&a), b.batch_size = 4;
    tp_feed_input_desc f;
    memset(&f, 0, sizeof f);
    f.df = tp_df_batch_(&b);
    return tp_feed_input_(&f);
}
static tp_trainer *line_trainer(uint64_t seed)
{
    tp_trainer *t = tp_simple_trainer();
    tp_model m;
    memset(&m, 0, sizeof m);
    m.inputs = line_inputs, m.n_inputs = 1, m.build_graph = line, m.optimizer = line_optimizer;
    if (seed) CHECK_OK(tp_trainer_set_seed(t, seed));
    CHECK_OK(tp_trainer_setup_graph(t, &m, line_data()));
    return t;
}
static double weight(tp_trainer *t)
{
    tp_tensor v;
    memset(&v, 0, sizeof v);
    CHECK_OK(tp_session_eval(t->state.session, tp_graph_find(t->state.graph, "w"), &v));
    const double w = v.data ? tp_tensor_get(&v, 0) : NAN;
    tp_tensor_free(&v);
    return w;
}
static double first_weight(uint64_t seed)
{
    tp_trainer *t = line_trainer(seed);
    CHECK_OK(tp_trainer_setup_callbacks(t, NULL, 0, NULL, 0));
    CHECK_OK(tp_trainer_initialize(t, NULL));
    const double w = weight(t);
    tp_trainer_free(t);
    return w;
}

TEST(the_seed_of_a_trainer)
{
    const double a = first_weight(5);
    CHECK(a == first_weight(5) && a != first_weight(6));
    CHECK(first_weight(0) == first_weight(42) && a != first_weight(0));
    tp_trainer *t = line_trainer(5);
    CHECK_ERR(tp_trainer_set_seed(t, 7), TP_ERR_STATE, "the seed is set before anything is built");
    tp_trainer_free(t);
}

/* Steps by hand do what main_loop's do: the cost falls, global_step rises. */
TEST(a_trainer_step_by_step)
{
    tp_trainer *t = line_trainer(5);
    tp_callback *cb[2] = {tp_cb_maintain_step_counter(), counter()};
    CHECK_OK(tp_trainer_setup_callbacks(t, cb, 2, NULL, 0));
    int n = 0;
    const tp_spec *spec = tp_tower_func_signature(t->state.tower_func, &n);
    CHECK(n == 1 && spec && strcmp(spec[0].name, "x") == 0 && spec[0].dtype == TP_F32);
    CHECK_OK(tp_trainer_initialize(t, NULL));
    CHECK(tp_callback_find(cb[1], "cost") != NULL &&
          tp_callback_find(cb[1], "cost:0") == tp_callback_find(cb[1], "cost"));
    CHECK(tp_callback_find(cb[1], "nothing") == NULL);
    CHECK_HAS(tp_last_error(), "Tensor nothing not found in the graph!");
    CHECK(tp_callback_find(cb[1], "cots") == NULL);
    CHECK_HAS(tp_last_error(), "Tensor cots not found in the graph; did you mean 'cost'?");
    double off = fabs(weight(t) - 3);
    for (int i = 0; i < 20; i++) {
        CHECK_OK(tp_trainer_run_step(t));
        const double now = fabs(weight(t) - 3);
        CHECK_MSG(now < off, "step %d: %g, then %g", i, off, now);
        off = now;
    }
    CHECK(off < 0.1 && counts_of(cb[1])->after_run == 20);
    /* what a checkpoint holds beside the variables */
    counts_of(cb[1])->sum = 77, counts_of(cb[1])->half = 1.25;
    CHECK_OK(tp_train_state_save(&t->state));
    counts_of(cb[1])->sum = 0, counts_of(cb[1])->half = 0;
    CHECK_OK(tp_train_state_load(&t->state));
    CHECK(counts_of(cb[1])->loaded && counts_of(cb[1])->sum == 77 && counts_of(cb[1])->half == 1.25);
    tp_trainer_free(t);
}

TEST(train_with_defaults_adds_the_default_callbacks_and_monitors)
{
    const char *dir = tp_test_tmpdir();
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    tp_trainer *t = line_trainer(5);
    tp_train_desc d;
    memset(&d, 0, sizeof d);
    d.steps_per_epoch = 2, d.max_epoch = 3;
    CHECK_OK(tp_train_with_defaults(t, &d));
    CHECK(t->state.global_step == 6 && t->state.n_callbacks >= 4);
    tp_trainer_free(t);
    char *text = NULL;
    CHECK_OK(tp_load_existing_json(dir, &text)); /* JSONWriter is among them */
    CHECK_HAS(text, "\"epoch_num\": 3, \"global_step\": 6}]");
    tp_free(text);
    text = NULL;
    CHECK_ERR(tp_load_existing_json(tp_test_path(dir, "absent"), &text), TP_ERR_NAME, "there is no file '");
    CHECK(text == NULL);
    tp_test_write(tp_test_path(dir, "stats.json"), "[{", 2);
    CHECK_ERR(tp_load_existing_json(dir, &text), TP_ERR_FORMAT, "stats.json");
    CHECK_OK(tp_logger_set_dir(NULL, 0));
}

static tp_status train_once(tp_callback *cb, tp_monitor *monitor)
{
    tp_trainer *t = line_trainer(5);
    tp_train_desc d;
    memset(&d, 0, sizeof d);
    if (cb) d.callbacks = &cb, d.n_callbacks = 1;
    if (monitor) d.monitors = &monitor, d.n_monitors = 1;
    d.steps_per_epoch = 2, d.max_epoch = 1;
    const tp_status st = tp_train(t, &d);
    tp_trainer_free(t);
    return st;
}

TEST(poison_of_every_kind)
{
    tp_callback *cb = tp_callback_fail(NULL, TP_ERR_ARG, "no callback of %d", 1);
    CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, "no callback of 1");
    CHECK_ERR(tp_callback_status(NULL), TP_ERR_NOMEM, "NULL");
    CHECK_ERR(train_once(cb, NULL), TP_ERR_ARG, "no callback of 1");
    CHECK_ERR(train_once(NULL, tp_monitor_fail(NULL, TP_ERR_ARG, "no monitor of %d", 2)), TP_ERR_ARG,
              "no monitor of 2");
    tp_cb_inference_runner_desc r;
    memset(&r, 0, sizeof r);
    r.input = line_data();
    r.inferencers[0] = tp_inferencer_fail(NULL, TP_ERR_ARG, "no inferencer of %d", 3);
    CHECK_ERR(train_once(tp_cb_inference_runner_(&r), NULL), TP_ERR_ARG, "no inferencer of 3");
    tp_inferencer_free(tp_inferencer_new("nothing", 16));
    tp_inferencer_free(NULL);
    tp_hyper_param_free(tp_hyper_param_new("nothing", 16));
    tp_hyper_param_free(NULL);
}

/* A setter of one's own sees the value that it changes; everybody else may ask for it. */
static tp_status twice(tp_callback *setter, void *user, double *value, bool *set)
{
    (void)setter, (void)user;
    *set = true;
    *value *= 2;
    return TP_OK;
}
static tp_callback *watched_setter;
static double seen_rate;
static tp_status see_rate(tp_callback *cb)
{
    (void)cb;
    return tp_setter_current_value(watched_setter, &seen_rate);
}

TEST(the_value_of_a_setter)
{
    tp_cb_hyper_param_setter_desc s;
    memset(&s, 0, sizeof s);
    s.name = "learning_rate", s.fn = twice;
    tp_callback *cb[2] = {watched_setter = tp_cb_hyper_param_setter_(&s), tp_callback_new("See", 0)};
    cb[1]->trigger = see_rate;
    tp_trainer *t = line_trainer(5);
    tp_train_desc d;
    memset(&d, 0, sizeof d);
    d.callbacks = cb, d.n_callbacks = 2, d.steps_per_epoch = 1, d.max_epoch = 2;
    CHECK_OK(tp_train(t, &d));
    CHECK_NEAR(seen_rate, 0.05 * 8, 1e-7, 0); /* before training and after each epoch */
    tp_trainer_free(t);
}

/* What load_state is given, in numbers. */
TEST(numbers_of_a_state)
{
    tp_dict d;
    memset(&d, 0, sizeof d);
    static const int64_t whole[3] = {INT64_MIN, -1, INT64_MAX};
    static const double half[2] = {0.1, -1e300};
    int64_t w[3];
    double h[2];
    CHECK_OK(tp_state_put_i64(&d, "a/", "whole", whole, 3));
    CHECK_OK(tp_state_put_f64(&d, "a/", "half", half, 2));
    CHECK(tp_state_get_i64(&d, "a/", "whole", w, 3) && memcmp(w, whole, sizeof w) == 0);
    CHECK(tp_state_get_f64(&d, "a/", "half", h, 2) && memcmp(h, half, sizeof h) == 0);
    CHECK(!tp_state_get_f64(&d, "a/", "half", h, 1) && !tp_state_get_f64(&d, "b/", "half", h, 2));
    CHECK(!tp_state_get_i64(&d, "a/", "half", w, 2) && !tp_state_get_f64(&d, "a/", "whole", h, 2));
    tp_dict_free(&d);
}

TEST_MAIN()
