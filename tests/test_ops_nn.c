/* What reference cases cannot say: random ops' statistics and streams, bad labels, frozen batch norm's gradient. */
#define TP_IMPLEMENTATION
#include "tp_graph.h"
#include "tp_test.h"

static tp_shape shape1(int64_t a) { return tp_make_shape_n(1, &a); }
static tp_shape shape2(int64_t a, int64_t b)
{
    const int64_t dim[2] = {a, b};
    return tp_make_shape_n(2, dim);
}

/* n random values of a fresh graph with this seed, at run `run` (from 0), on so many threads. */
static void draw(tp_node *(*make)(tp_graph *g, tp_shape s, float a, float b), float a, float b, uint64_t seed, int run,
                 int threads, float *out, int64_t n)
{
    tp_graph_config gc;
    memset(&gc, 0, sizeof gc);
    gc.seed = seed;
    tp_graph *g = tp_graph_new(&gc);
    tp_node *x = make(g, shape1(n), a, b);
    tp_session_config c = tp_default_session_config();
    c.threads = threads;
    tp_session *s = tp_session_new(g, &c);
    const tp_tensor *v = NULL;
    for (int i = 0; i <= run; i++) CHECK_OK(tp_session_run(s, NULL, 0, &x, 1, &v));
    if (v) memcpy(out, v->data, (size_t)n * sizeof *out);
    tp_session_free(s);
    tp_graph_free(g);
}

static void moments(const float *x, int n, double *mean, double *deviation)
{
    double m = 0, q = 0;
    for (int i = 0; i < n; i++) m += (double)x[i] / n;
    for (int i = 0; i < n; i++) q += ((double)x[i] - m) * ((double)x[i] - m) / n;
    *mean = m;
    *deviation = sqrt(q);
}

TEST(random_numbers_have_their_distribution_and_their_stream)
{
    enum { N = 20000 };
    float *x = (float *)malloc(N * sizeof *x), *y = (float *)malloc(N * sizeof *y);
    double m, d;
    draw(tp_rand_uniform, -1, 3, 7, 0, 1, x, N);
    moments(x, N, &m, &d);
    CHECK_NEAR(m, 1, 0.03, 0);
    CHECK_NEAR(d, 4 / sqrt(12.0), 0.02, 0);
    for (int i = 0; i < N; i++) CHECK(x[i] >= -1 && x[i] < 3);
    draw(tp_rand_uniform, -1, 3, 7, 0, 3, y, N);
    CHECK(memcmp(x, y, N * sizeof *x) == 0); /* threads do not matter */
    draw(tp_rand_uniform, -1, 3, 7, 1, 1, y, N);
    CHECK(memcmp(x, y, N * sizeof *x) != 0); /* another run */
    draw(tp_rand_uniform, -1, 3, 8, 0, 1, y, N);
    CHECK(memcmp(x, y, N * sizeof *x) != 0); /* another seed */
    draw(tp_rand_normal, 2, 0.5f, 7, 0, 2, x, N);
    moments(x, N, &m, &d);
    CHECK_NEAR(m, 2, 0.02, 0);
    CHECK_NEAR(d, 0.5, 0.01, 0);
    draw(tp_rand_truncated_normal, 0, 1, 7, 0, 2, x, N);
    moments(x, N, &m, &d);
    CHECK_NEAR(m, 0, 0.03, 0);
    CHECK_NEAR(d, .87962566103423978, 0.02, 0);
    for (int i = 0; i < N; i++) CHECK(x[i] >= -2 && x[i] <= 2);
    free(x);
    free(y);
}

TEST(dropout_keeps_scales_and_gives_its_mask_to_the_gradient)
{
    enum { N = 10000 };
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_get_variable_as(g, "x", TP_F32, shape1(N), tp_init_constant(3)), *y = tp_nn_dropout(x, 0.3f),
            *dx = NULL, *other = tp_nn_dropout(x, 0.3f);
    tp_gradients(tp_sum(y), &x, 1, &dx);
    tp_session *s = tp_session_new(g, NULL);
    tp_node *fetch[3];
    const tp_tensor *out[3];
    float first[N];
    fetch[0] = y, fetch[1] = dx, fetch[2] = other;
    for (int run = 0; run < 2; run++) {
        int kept = 0, same = 0;
        CHECK_OK(tp_session_run(s, NULL, 0, fetch, 3, out));
        for (int i = 0; i < N; i++) {
            const float v = ((const float *)out[0]->data)[i], d = ((const float *)out[1]->data)[i];
            CHECK(v == 0 || fabs((double)v - 3 / 0.7) < 1e-5);
            CHECK((v == 0) == (d == 0) && (d == 0 || fabs((double)d - 1 / 0.7) < 1e-6));
            kept += v != 0;
            same += (v != 0) == (((const float *)out[2]->data)[i] != 0);
        }
        CHECK_NEAR(kept, 0.7 * N, 150, 0);
        CHECK(same < N * 7 / 10); /* another op, another mask */
        if (run == 0) memcpy(first, out[0]->data, sizeof first);
        else CHECK(memcmp(first, out[0]->data, sizeof first) != 0);
    }
    tp_session_free(s);
    tp_graph_free(g);
}

/* -- numbers of a stream, and optimizers' steps, element by element */

/* A row's kernel for these operands: in double, or the fast one, or the plain loop. */
static void call_kernel(const tp_op *row, tp_device *d, const void *attrs, tp_operand *x, int n_in, int n_out,
                        int n_var, uint64_t key, uint64_t step)
{
    tp_call k;
    memset(&k, 0, sizeof k);
    k.device = d, k.op = row, k.attrs = attrs, k.key = key, k.step = &step;
    k.n_in = n_in, k.n_out = n_out, k.n_var = n_var;
    k.in = x, k.out = x + n_in, k.var = x + n_in + n_out;
    k.scratch_bytes = row->scratch ? row->scratch(&k) : 0;
    k.scratch = malloc(k.scratch_bytes + 1);
    const bool f64 = x[n_in + n_out + n_var - 1].dtype == TP_F64;
    if (f64) row->naive_f64(&k);
    else if (row->fast && d->isa) row->fast(&k);
    else row->naive_f32(&k);
    free(k.scratch);
}

static void operand(tp_operand *x, tp_tensor *t, tp_dtype dtype, int64_t n)
{
    CHECK_OK(tp_tensor_resize(t, dtype, n < 0 ? tp_make_shape_n(0, NULL) : shape1(n)));
    x->data = t->data;
    x->dtype = dtype;
    x->shape = t->shape;
}

static tp_device *opened(int i) /* 0: plain loops, 1: fast on one thread, 2: on three */
{
    tp_device *d = tp_cpu_device_new(i == 2 ? 3 : 1, i == 0 ? "naive" : NULL);
    CHECK(d != NULL);
    return d;
}

TEST(every_number_of_a_stream)
{
    static const int64_t sizes[] = {1, 3, 4, 1023, 1024, 1026, 8193, 20001};
    static const char *const attr_of_random[] = {"kind", "a", "b"};
    const uint64_t key = tp_random_key(42, 4711), step = 12;
    for (int i = 0; i < 3 * TP_COUNT(sizes); i++)
        for (int f64 = 0; f64 < 2; f64++) {
            const tp_op *random = tp_op_find("random"), *dropout = tp_op_find("dropout");
            tp_device *d = opened(i % 3);
            const int64_t n = sizes[i / 3];
            const tp_dtype dtype = f64 ? TP_F64 : TP_F32;
            tp_operand x[2];
            tp_tensor t[2];
            memset(t, 0, sizeof t);
            operand(&x[0], &t[0], dtype, n);
            for (int kind = 0; kind < 3; kind++) { /* uniform, normal, truncated normal */
                int64_t room[32] = {0};
                unsigned char *attrs = (unsigned char *)room;
                CHECK(random->attr_size <= sizeof room);
                for (const tp_attr *a = random->attr; a->name; a++) {
                    const float v[3] = {0, -2, 3}; /* from -2 to 3; mean -2, deviation 3 */
                    for (int q = 0; q < 3; q++)
                        if (strcmp(a->name, attr_of_random[q]) == 0 && q) memcpy(attrs + a->offset, &v[q], sizeof v[q]);
                    if (strcmp(a->name, "kind") == 0) memcpy(attrs + a->offset, &kind, sizeof kind);
                }
                call_kernel(random, d, attrs, x, 0, 1, 0, key, step);
                for (int64_t e = 0; e < n; e++) {
                    double v = kind ? tp_random_normal(key, step, (uint64_t)e)
                                    : (double)tp_random_uniform(key, step, (uint64_t)e);
                    for (uint64_t q = 1; kind == 2 && fabs(v) > 2; q++)
                        v = tp_random_normal(key, step + (q << 40), (uint64_t)e);
                    v = kind ? -2 + 3 * v : -2 + 5 * v;
                    if (!CHECK_NEAR(tp_tensor_get(&t[0], e), v, f64 ? 1e-14 : 1e-6, 0)) break;
                }
            }
            const float rate = 0.3f;
            operand(&x[0], &t[0], dtype, n);
            operand(&x[1], &t[1], dtype, n);
            for (int64_t e = 0; e < n; e++) tp_tensor_set(&t[0], e, (double)(e % 7) - 3);
            call_kernel(dropout, d, &rate, x, 1, 1, 0, key, step);
            for (int64_t e = 0; e < n; e++) {
                const bool kept = tp_random_uniform(key, step, (uint64_t)e) >= rate;
                const double scale = f64 ? 1 / (1 - (double)rate) : (double)(1 / (1 - rate));
                if (!CHECK_NEAR(tp_tensor_get(&t[1], e), kept ? tp_tensor_get(&t[0], e) * scale : 0, 1e-14, 1e-7))
                    break;
            }
            for (int q = 0; q < 2; q++) tp_tensor_free(&t[q]);
            d->close(d);
        }
}

static const float step_options[4] = {0.9f, 0.75f, 0.01f, 0.1f}; /* two rates, epsilon, decay */

/* One step of each optimizer for one element, by the formulas of tp_graph.h; s: its slots. Of LAMB: r. */
static double stepped(const char *row, double w, double g, double *s, double lr)
{
    /* p1, p2: the powers of beta */
    const double a = (double)step_options[0], b = (double)step_options[1], eps = (double)step_options[2], p1 = 0.6,
                 p2 = 0.7, decay = (double)step_options[3];
    if (!strcmp(row, "gradient_descent")) return w - lr * g;
    if (!strcmp(row, "momentum")) {
        s[0] = a * s[0] + g;
        return w - lr * s[0];
    }
    if (!strcmp(row, "nesterov")) {
        s[0] = a * s[0] + g;
        return w - lr * (g + a * s[0]);
    }
    if (!strcmp(row, "adam") || !strcmp(row, "adamw")) {
        if (row[4]) w -= lr * decay * w;
        s[0] += (1 - a) * (g - s[0]);
        s[1] += (1 - b) * (g * g - s[1]);
        return w - lr * sqrt(1 - p2) / (1 - p1) * s[0] / (sqrt(s[1]) + eps);
    }
    if (!strcmp(row, "rmsprop") || !strcmp(row, "centered")) {
        s[0] = a * s[0] + (1 - a) * g * g;
        if (*row == 'c') s[2] = a * s[2] + (1 - a) * g;
        s[1] = b * s[1] + lr * g / sqrt(s[0] - (*row == 'c' ? s[2] * s[2] : 0) + eps);
        return w - s[1];
    }
    if (!strcmp(row, "adagrad")) {
        s[0] += g * g;
        return w - lr * g / sqrt(s[0]);
    }
    if (!strcmp(row, "lion")) {
        const double c = a * s[0] + (1 - a) * g, sign = c > 0 ? 1 : c < 0 ? -1 : 0;
        s[0] = b * s[0] + (1 - b) * g;
        return w - lr * (sign + decay * w);
    }
    if (!strcmp(row, "adadelta")) {
        s[0] = a * s[0] + (1 - a) * g * g;
        const double d = g * sqrt(s[1] + eps) / sqrt(s[0] + eps);
        s[1] = a * s[1] + (1 - a) * d * d;
        return w - lr * d;
    }
    s[0] += (1 - a) * (g - s[0]);
    s[1] += (1 - b) * (g * g - s[1]);
    return s[0] / (1 - p1) / (sqrt(s[1] / (1 - p2)) + eps) + decay * w;
}

/* What weights and their slots are before: under a root, the third is less than the first. */
static double before(int slot, int64_t e)
{
    return slot == 0 ? (double)(e % 11) / 8 - 0.5 : slot == 3 ? (double)(e % 5) / 8 : (double)(e % 5 + 1) / 2;
}

/* Index in step_options of an attribute of the op; -1: it stays 0. */
static int step_option(const char *name, const char *attr)
{
    const bool rmsprop = !strcmp(name, "rmsprop") || !strcmp(name, "centered");
    if (!strcmp(attr, "beta1") || !strcmp(attr, "rho")) return 0;
    if (!strcmp(attr, "beta2")) return 1;
    if (!strcmp(attr, "epsilon")) return 2;
    if (!strcmp(attr, "momentum")) return rmsprop ? 1 : 0;
    if (!strcmp(attr, "decay")) return rmsprop ? 0 : !strcmp(name, "adamw") || *name == 'l' ? 3 : -1;
    return -1;
}

/* Three variables, of which one is cut into pieces, and one step that a predicate stops. */
static void one_step(const char *name, const char *row_name, int slots, int scalars, tp_device *d, tp_dtype dtype)
{
    enum { N = 3, MOST = 4 * N };
    static const int64_t sizes[N] = {16385, 1, 700};
    const tp_op *row = tp_op_find(row_name);
    int64_t room[32] = {0};
    unsigned char *attrs = (unsigned char *)room;
    const int n = N;
    const bool nesterov = !strcmp(name, "nesterov");
    for (const tp_attr *a = row->attr; a->name; a++) {
        if (!strcmp(a->name, "n")) memcpy(attrs + a->offset, &n, sizeof n);
        const int option = step_option(name, a->name);
        if (option >= 0) memcpy(attrs + a->offset, &step_options[option], sizeof(float));
        if (!strcmp(a->name, "nesterov")) memcpy(attrs + a->offset, &nesterov, sizeof nesterov);
    }
    tp_tensor t[N + 3 + 2 + MOST];
    tp_operand x[N + 3 + 2 + MOST];
    memset(t, 0, sizeof t);
    memset(x, 0, sizeof x);
    const int pred = N + scalars, out = pred + 1, var = out + 1, n_var = N * (1 + slots);
    static const double scalar[3] = {0.25, 0.6, 0.7};
    for (int i = 0; i < N; i++) operand(&x[i], &t[i], dtype, sizes[i]);
    for (int i = 0; i < scalars; i++) {
        operand(&x[N + i], &t[N + i], dtype, -1);
        tp_tensor_set(&t[N + i], 0, scalar[i]);
    }
    operand(&x[pred], &t[pred], TP_BOOL, -1);
    operand(&x[out], &t[out], TP_BOOL, 0);
    for (int i = 0; i < n_var; i++) operand(&x[var + i], &t[var + i], dtype, sizes[i % N]);
    for (int stopped = 1; stopped >= 0; stopped--) {
        double norm[N][2] = {{0, 0}, {0, 0}, {0, 0}};
        for (int i = 0; i < N; i++)
            for (int64_t e = 0; e < sizes[i]; e++) {
                tp_tensor_set(&t[i], e, (double)(e % 13) / 4 - 1.5);
                for (int q = 0; q <= slots; q++) tp_tensor_set(&t[var + q * N + i], e, before(q, e));
            }
        tp_tensor_set(&t[pred], 0, !stopped);
        call_kernel(row, d, attrs, x, pred + 1, 1, n_var, 0, 0);
        for (int pass = strcmp(name, "lamb") ? 1 : 0; pass < 2; pass++) /* lamb: the norms come first */
            for (int i = 0; i < N; i++)
                for (int64_t e = 0; e < sizes[i]; e++) {
                    double s[3];
                    for (int q = 0; q < 3; q++) s[q] = before(q + 1, e);
                    const double g = tp_tensor_get(&t[i], e), w = before(0, e);
                    const double r = stepped(name, w, g, s, 0.25);
                    double v = r;
                    if (!strcmp(name, "lamb")) {
                        if (pass == 0) norm[i][0] += w * w, norm[i][1] += r * r;
                        v = w - 0.25 * sqrt(norm[i][0] / norm[i][1]) * r;
                    }
                    if (pass == 0) continue;
                    const double tol = dtype == TP_F64 ? 1e-12 : 3e-6;
                    bool ok = CHECK_NEAR(tp_tensor_get(&t[var + i], e), stopped ? w : v, tol, tol);
                    for (int q = 0; q < slots; q++)
                        ok = CHECK_NEAR(tp_tensor_get(&t[var + (q + 1) * N + i], e), stopped ? before(q + 1, e) : s[q],
                                        tol, tol) &&
                             ok;
                    if (!ok) {
                        CHECK_MSG(false, "%s, variable %d, element %lld", name, i, (long long)e);
                        e = sizes[i];
                    }
                }
    }
    for (int i = 0; i < TP_COUNT(t); i++) tp_tensor_free(&t[i]);
}

TEST(every_optimizer_steps_by_its_formula)
{
    static const struct {
        const char *name, *row;
        int slots, scalars;
    } rules[] = {{"gradient_descent", "apply_gradient_descent", 0, 1},
                 {"momentum", "apply_momentum", 1, 1},
                 {"nesterov", "apply_momentum", 1, 1},
                 {"adam", "apply_adam", 2, 3},
                 {"adamw", "apply_adam", 2, 3},
                 {"rmsprop", "apply_rmsprop", 2, 1},
                 {"centered", "apply_rmsprop", 3, 1},
                 {"adagrad", "apply_adagrad", 1, 1},
                 {"adadelta", "apply_adadelta", 2, 1},
                 {"lion", "apply_lion", 1, 1},
                 {"lamb", "apply_lamb", 2, 3}};
    for (int i = 0; i < 3; i++) {
        tp_device *d = opened(i);
        for (int r = 0; r < TP_COUNT(rules); r++)
            for (int f64 = 0; f64 < (i ? 1 : 2); f64++)
                one_step(rules[r].name, rules[r].row, rules[r].slots, rules[r].scalars, d, f64 ? TP_F64 : TP_F32);
        d->close(d);
    }
}

/* Raised to the power 0 an accumulator of 0 is 1, too: then a weight is -lr times the sum of its gradients. */
TEST(ftrl_with_the_power_0)
{
    static const double grad[3] = {1, 0, -2}, want[3] = {-0.5, 0, 1};
    for (int f64 = 0; f64 < 2; f64++) {
        const tp_dtype dtype = f64 ? TP_F64 : TP_F32;
        tp_graph *g = tp_graph_new(NULL);
        tp_node *var[3], *x = tp_placeholder(g, "x", dtype, tp_make_shape(3));
        static const char *const name[3] = {"w", "accum", "linear"};
        for (int i = 0; i < 3; i++)
            var[i] = tp_get_variable_as(g, name[i], dtype, x->shape, i ? tp_init_zeros() : tp_init_ones());
        tp_node *lr = tp_const_as(g, dtype, 0.25);
        tp_node *op = tp_apply_ftrl(&var[0], &var[1], &var[2], &x, 1, lr, 0, 0, 0, 0, NULL);
        tp_session *s = tp_session_new(g, NULL);
        tp_feed feed;
        tp_tensor w;
        memset(&feed, 0, sizeof feed);
        memset(&w, 0, sizeof w);
        feed.node = x;
        CHECK_OK(tp_tensor_resize(&feed.value, dtype, x->shape));
        for (int e = 0; e < 3; e++) tp_tensor_set(&feed.value, e, grad[e]);
        for (int step = 0; step < 2; step++) CHECK_OK(tp_session_run(s, &feed, 1, &op, 1, NULL));
        if (CHECK_OK(tp_session_read(s, tp_node_variable(var[0]), &w)))
            for (int e = 0; e < 3; e++) CHECK_NEAR(tp_tensor_get(&w, e), want[e], 1e-6, 0);
        tp_tensor_free(&feed.value);
        tp_tensor_free(&w);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

TEST(variables_are_written_by_their_formulas)
{
    static const tp_dtype dtypes[] = {TP_F32, TP_F64, TP_I32, TP_I64};
    for (int k = 0; k < 4; k++)
        for (int stopped = 0; stopped < 2; stopped++) {
            tp_graph *g = tp_graph_new(NULL);
            const bool real = tp_dtype_is_float(dtypes[k]);
            tp_node *x = tp_placeholder(g, "x", dtypes[k], shape1(5)), *var[4], *op[4], *pred = NULL;
            tp_node *yes = tp_placeholder(g, "yes", TP_BOOL, tp_make_shape_n(0, NULL));
            static const char *const names[] = {"assign", "add", "sub", "average"};
            if (stopped || k % 2) pred = yes;
            for (int i = 0; i < 4; i++)
                var[i] = tp_get_variable_as(g, names[i], dtypes[k], shape1(5), tp_init_constant(10));
            op[0] = tp_assign(var[0], x, pred);
            op[1] = tp_assign_add(var[1], x, pred);
            op[2] = tp_assign_sub(var[2], x, pred);
            if (real) op[3] = tp_assign_moving_average(var[3], x, 0.75f, pred);
            tp_tensor t;
            memset(&t, 0, sizeof t);
            CHECK_OK(tp_tensor_resize(&t, dtypes[k], shape1(5)));
            for (int e = 0; e < 5; e++) tp_tensor_set(&t, e, 4 * e - 6);
            const uint8_t go = !stopped;
            tp_feed f[2];
            const tp_tensor *v[4];
            memset(f, 0, sizeof f);
            f[0].node = x, f[1].node = yes;
            tp_tensor_view(&f[0].value, dtypes[k], shape1(5), t.data);
            tp_tensor_view(&f[1].value, TP_BOOL, tp_make_shape_n(0, NULL), &go);
            tp_session *s = tp_session_new(g, NULL);
            if (CHECK_OK(tp_session_run(s, f, pred ? 2 : 1, op, real ? 4 : 3, v)))
                for (int e = 0; e < 5; e++) {
                    const double n = 4 * e - 6, want[4] = {n, 10 + n, 10 - n, 0.75 * 10 + 0.25 * n};
                    for (int i = 0; i < (real ? 4 : 3); i++) CHECK(tp_tensor_get(v[i], e) == (stopped ? 10 : want[i]));
                }
            tp_session_free(s);
            tp_tensor_free(&t);
            tp_graph_free(g);
        }
}

TEST(a_label_outside_the_classes_fails_the_run)
{
    tp_graph *g = tp_graph_new(NULL);
    const int64_t two[2] = {2, 3};
    tp_node *x = tp_get_variable_as(g, "x", TP_F32, tp_make_shape_n(2, two), tp_init_zeros()),
            *label = tp_placeholder(g, "label", TP_I32, shape1(2));
    tp_node *y = tp_named(tp_sparse_softmax_cross_entropy(x, label), "loss");
    tp_session *s = tp_session_new(g, NULL);
    const int32_t bad[2] = {1, 3}, good[2] = {1, 2};
    tp_feed f;
    const tp_tensor *out = NULL;
    memset(&f, 0, sizeof f);
    f.node = label;
    tp_tensor_view(&f.value, TP_I32, shape1(2), bad);
    CHECK_ERR(tp_session_run(s, &f, 1, &y, 1, &out), TP_ERR_NUMERIC, "label 3 is outside the classes");
    tp_tensor_view(&f.value, TP_I32, shape1(2), good);
    CHECK_OK(tp_session_run(s, &f, 1, &y, 1, &out)); /* and the session goes on */
    CHECK_NEAR(tp_tensor_get(out, 0), log(3.0), 1e-6, 0);
    tp_session_free(s);
    tp_graph_free(g);
}

/* An update may run before the run fails. The logits whose label is no class then get a gradient of 0, whatever the memory held. */
TEST(a_label_outside_the_classes_moves_no_weight)
{
    static const int64_t classes[] = {2, 3, 8, 70};
    for (int i = 0; i < 2 * TP_COUNT(classes); i++) {
        tp_graph *g = tp_graph_new(NULL);
        const int64_t C = classes[i / 2];
        const tp_dtype dtype = i % 2 ? TP_F64 : TP_F32;
        tp_node *x = tp_get_variable_as(g, "x", dtype, tp_make_shape(3, C), tp_init_zeros()), *dx,
                *label = tp_placeholder(g, "label", TP_I32, shape1(3));
        tp_node *loss = tp_sparse_softmax_cross_entropy(x, label);
        tp_gradients(tp_sum(loss), &x, 1, &dx);
        tp_node *seen = tp_get_variable_as(g, "seen", dtype, tp_make_shape(3), tp_init_zeros());
        tp_node *fetch[2] = {tp_assign_sub(x, dx, NULL), tp_assign(seen, loss, NULL)};
        tp_session *s = tp_session_new(g, NULL);
        const int32_t good[3] = {1, 0, 1}, bad[3] = {1, (int32_t)C, -1};
        const tp_tensor *out[2];
        tp_tensor before, after, losses;
        memset(&before, 0, sizeof before);
        memset(&after, 0, sizeof after);
        memset(&losses, 0, sizeof losses);
        tp_feed f = tp_make_feed(label, TP_I32, shape1(3), good);
        CHECK_OK(tp_session_run(s, &f, 1, fetch, 2, out));
        CHECK_OK(tp_session_read(s, tp_node_variable(x), &before));
        f = tp_make_feed(label, TP_I32, shape1(3), bad);
        CHECK_ERR(tp_session_run(s, &f, 1, fetch, 2, out), TP_ERR_NUMERIC, "is outside the classes");
        CHECK_OK(tp_session_read(s, tp_node_variable(x), &after));
        CHECK_OK(tp_session_read(s, tp_node_variable(seen), &losses));
        for (int64_t k = C; k < 3 * C; k++)
            CHECK_MSG(tp_tensor_get(&after, k) == tp_tensor_get(&before, k), "%d classes: element %d", (int)C, (int)k);
        for (int k = 1; k < 3; k++) CHECK_NEAR(tp_tensor_get(&losses, k), 0, 0, 0);
        CHECK(tp_tensor_get(&after, 0) != tp_tensor_get(&before, 0)); /* this row has a label */
        tp_tensor_free(&before);
        tp_tensor_free(&after);
        tp_tensor_free(&losses);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* An infinite coordinate lies outside of the image, as every coordinate does that is large enough. */
TEST(an_image_is_sampled_at_infinity)
{
    static const float image[] = {1, 2, 3, 4}, coords[] = {INFINITY, 0.5f, -INFINITY, INFINITY, 0, -INFINITY};
    static const double want[] = {3.5, 2, 1}, slope[] = {0, 1, 0, 0, 2, 0};
    for (int i = 0; i < 4; i++) {
        const bool repeat = i % 2 == 0;
        const tp_dtype dtype = i / 2 ? TP_F64 : TP_F32;
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x[2] = {tp_placeholder(g, "x", TP_F32, tp_make_shape(1, 2, 2, 1)),
                         tp_placeholder(g, "at", TP_F32, tp_make_shape(1, 1, 3, 2))};
        tp_node *typed[2] = {tp_cast(x[0], dtype), tp_cast(x[1], dtype)}, *fetch[3];
        fetch[0] = tp_bilinear_sampler(typed[0], typed[1], repeat ? TP_BORDER_REPEAT : TP_BORDER_CONSTANT);
        tp_gradients(tp_sum(fetch[0]), typed, 2, fetch + 1);
        tp_session *s = tp_session_new(g, NULL);
        const tp_feed feed[2] = {tp_make_feed(x[0], TP_F32, tp_make_shape(1, 2, 2, 1), image),
                                 tp_make_feed(x[1], TP_F32, tp_make_shape(1, 1, 3, 2), coords)};
        const tp_tensor *out[3];
        double sum = 0;
        if (CHECK_OK(tp_session_run(s, feed, 2, fetch, 3, out))) {
            for (int k = 0; k < 3; k++) CHECK_NEAR(tp_tensor_get(out[0], k), repeat ? want[k] : 0, 0, 0);
            for (int k = 0; k < 4; k++) sum += tp_tensor_get(out[1], k);
            for (int k = 0; k < 6; k++) CHECK_NEAR(tp_tensor_get(out[2], k), repeat ? slope[k] : 0, 0, 0);
            CHECK_NEAR(sum, repeat ? 3 : 0, 0, 0);
        }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

TEST(check_numerics_fails_the_run)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, shape1(1)), *y = tp_check_numerics(tp_ln(x), "logarithm");
    tp_session *s = tp_session_new(g, NULL);
    float v = -1;
    tp_feed f;
    memset(&f, 0, sizeof f);
    f.node = x;
    tp_tensor_view(&f.value, TP_F32, shape1(1), &v);
    CHECK(tp_session_run(s, &f, 1, &y, 1, NULL) == TP_ERR_NUMERIC);
    v = 1;
    CHECK_OK(tp_session_run(s, &f, 1, &y, 1, NULL));
    tp_session_free(s);
    tp_graph_free(g);
}

/* The gradients of sum(w y) with given statistics, against central differences. No nodes are made for those of the statistics
 * unless somebody wants them. */
TEST(batch_norm_with_given_statistics_has_its_gradient)
{
    enum { B = 3, C = 2 };
    const int64_t bc[2] = {B, C};
    tp_graph *g = tp_graph_new(NULL);
    tp_node *in[6], *grads[5];
    static const char *const names[] = {"x", "gamma", "beta", "mean", "var", "w"};
    for (int i = 0; i < 6; i++)
        in[i] = tp_placeholder(g, names[i], TP_F64, i == 0 || i == 5 ? tp_make_shape_n(2, bc) : shape1(C));
    tp_node *loss = tp_sum(tp_mul(tp_nn_batch_norm_infer(in[0], in[1], in[2], in[3], in[4], 1, 1e-3f), in[5]));
    int n = tp_graph_n_operations(g);
    tp_gradients(loss, in, 3, grads);
    const int without = tp_graph_n_operations(g) - n;
    n = tp_graph_n_operations(g);
    tp_gradients(loss, in, 5, grads);
    CHECK(tp_graph_n_operations(g) - n == without + 5);
    double value[6][B * C];
    tp_feed f[6];
    tp_node *fetch[6];
    const tp_tensor *out[6];
    memset(f, 0, sizeof f);
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < B * C; k++) value[i][k] = 0.2 + (double)tp_random_uniform(5, (uint64_t)i, (uint64_t)k);
        f[i].node = in[i];
        tp_tensor_view(&f[i].value, TP_F64, in[i]->shape, value[i]);
    }
    fetch[0] = loss;
    for (int i = 0; i < 5; i++) fetch[1 + i] = grads[i];
    tp_session *s = tp_session_new(g, NULL);
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < (i == 0 ? B * C : C); k++) {
            const double h = 1e-5, old = value[i][k];
            CHECK_OK(tp_session_run(s, f, 6, fetch, 6, out));
            const double analytic = tp_tensor_get(out[1 + i], k);
            value[i][k] = old + h;
            CHECK_OK(tp_session_run(s, f, 6, fetch, 1, out));
            const double above = tp_tensor_get(out[0], 0);
            value[i][k] = old - h;
            CHECK_OK(tp_session_run(s, f, 6, fetch, 1, out));
            value[i][k] = old;
            CHECK_NEAR(analytic, (above - tp_tensor_get(out[0], 0)) / (2 * h), 1e-6, 1e-6);
        }
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(moving_averages_are_debiased)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(0, NULL));
    tp_add_moving_summary_n(&x, 1, NULL);
    int n = 0;
    tp_node *const *ops = tp_collection(g, TP_KEY_MOVING_SUMMARY_OPS, &n);
    CHECK(n == 1 && tp_find_variable(g, "EMA/x/biased")->local);
    tp_node *op = ops[0];
    tp_session *s = tp_session_new(g, NULL);
    static const float in[] = {4, 2, 1};
    static const double want[] = {4, 2.974359, 2.282209};
    for (int i = 0; i < 3; i++) {
        tp_feed f;
        const tp_tensor *out = NULL;
        memset(&f, 0, sizeof f);
        f.node = x;
        tp_tensor_view(&f.value, TP_F32, x->shape, &in[i]);
        CHECK_OK(tp_session_run(s, &f, 1, &op, 1, &out));
        CHECK_NEAR(tp_tensor_get(out, 0), want[i], 2e-6, 0);
    }
    tp_session_free(s);
    tp_graph_free(g);
}

/* relu and max_pool: the mask moves before the unpooling, the bias's gradient is summed there; the numbers stay. */
TEST(the_gradient_of_pooled_relu_is_as_if_nothing_moved)
{
    static const tp_pool_attrs windows[] = {{2, 2, 0, 0, TP_VALID, TP_NHWC},
                                            {3, 3, 2, 2, TP_SAME, TP_NHWC},
                                            {3, 2, 1, 1, TP_SAME, TP_NHWC},
                                            {2, 2, 0, 0, TP_VALID, TP_NCHW}};
    for (int i = 0; i < 4; i++) {
        tp_graph *g = tp_graph_new(NULL);
        const tp_pool_attrs *a = &windows[i];
        const int64_t dims[4] = {3, 7, 6, 5}, channels = a->data_format == TP_NCHW ? 7 : 5;
        tp_node *x = tp_rand_normal(g, tp_make_shape_n(4, dims), 0.1f, 1),
                *b = tp_rand_normal(g, shape1(channels), 0, 1);
        tp_node *xs[2], *moved[2], *plain[2];
        xs[0] = x, xs[1] = b;
        tp_node *y = tp_relu(tp_nn_bias_add(x, b, a->data_format));
        if (i % 2) y = tp_named(y, "activation");
        tp_node *pooled = tp_nn_max_pool(y, a), *apart = tp_nn_max_pool(tp_add(y, tp_const(g, 0)), a);
        tp_node *weights = tp_stop_gradient(tp_rand_normal_like(pooled, 0, 1));
        tp_gradients(tp_sum(tp_mul(pooled, weights)), xs, 2, moved);
        tp_gradients(tp_sum(tp_mul(apart, weights)), xs, 2, plain);
        CHECK_STR(moved[0]->op->row->name, "max_pool_grad");
        CHECK(strcmp(plain[0]->op->row->name, "max_pool_grad") != 0);
        tp_node *fetch[4];
        const tp_tensor *v[4] = {NULL, NULL, NULL, NULL};
        fetch[0] = moved[0], fetch[1] = plain[0], fetch[2] = moved[1], fetch[3] = plain[1];
        tp_session *s = tp_session_new(g, NULL);
        if (CHECK_OK(tp_session_run(s, NULL, 0, fetch, 4, v))) {
            CHECK(memcmp(v[0]->data, v[1]->data, tp_tensor_bytes(v[0])) == 0);
            for (int64_t c = 0; c < channels; c++)
                CHECK_NEAR(((const float *)v[2]->data)[c], ((const float *)v[3]->data)[c], 1e-4, 1e-5);
        }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* A convolution in NCHW and its gradients give the bits of one in NHWC between two transposes. */
TEST(convolutions_in_nchw_are_those_in_nhwc)
{
    static const int64_t sizes[][6] = {/* batch, channels, height, width, filters, groups */
                                       {1, 1, 1, 1, 1, 1},     {1, 3, 9, 70, 5, 1},  {2, 40, 17, 5, 33, 1},
                                       {3, 16, 12, 13, 32, 4}, {2, 1, 130, 1, 7, 1}, {8, 32, 16, 16, 32, 1}};
    for (int i = 0; i < 2 * TP_COUNT(sizes); i++) {
        const int64_t *n = sizes[i / 2];
        static const int to_nhwc[] = {0, 2, 3, 1}, to_nchw[] = {0, 3, 1, 2};
        const int64_t dims[4] = {n[0], n[1], n[2], n[3]}, filter[4] = {3, 3, n[1] / n[5], n[4]};
        tp_graph *g = tp_graph_new(NULL);
        tp_node *in[2], *turned_in[2], *d[2], *turned_d[2];
        tp_conv2d_attrs a;
        memset(&a, 0, sizeof a);
        a.groups = (int)n[5];
        in[0] = tp_rand_normal(g, tp_make_shape_n(4, dims), 0, 1),
        in[1] = tp_rand_normal(g, tp_make_shape_n(4, filter), 0, 1);
        turned_in[0] = tp_transpose(in[0], to_nhwc, 4), turned_in[1] = in[1];
        tp_node *turned = tp_transpose(tp_nn_conv2d(turned_in[0], in[1], &a), to_nchw, 4);
        a.data_format = TP_NCHW;
        tp_node *y = tp_nn_conv2d(in[0], in[1], &a), *weights = tp_stop_gradient(tp_rand_normal_like(y, 0, 1));
        tp_gradients(tp_sum(tp_mul(y, weights)), in, 2, d);
        tp_gradients(tp_sum(tp_mul(turned, weights)), in, 2, turned_d);
        tp_node *fetch[6];
        fetch[0] = y, fetch[1] = turned, fetch[2] = d[0], fetch[3] = turned_d[0], fetch[4] = d[1],
        fetch[5] = turned_d[1];
        const tp_tensor *v[6];
        tp_session_config c = tp_default_session_config();
        c.threads = 1 + i % 2 * 2;
        tp_session *s = tp_session_new(g, &c);
        if (CHECK_OK(tp_session_run(s, NULL, 0, fetch, 6, v)))
            for (int k = 0; k < 6; k += 2)
                CHECK_MSG(tp_shape_equal(&v[k]->shape, &v[k + 1]->shape) &&
                              memcmp(v[k]->data, v[k + 1]->data, tp_tensor_bytes(v[k])) == 0,
                          "shape %d: value %d", i / 2, k / 2);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* An argmax that no max_pool gave. Where it is outside of its window or of the image, max_pool_take gives 0 and max_pool_grad adds
 * nothing. */
TEST(an_argmax_outside_of_its_window)
{
    static const struct {
        tp_pool_attrs a;
        int64_t x[4], y[4]; /* shapes */
        int before;         /* rows and columns of padding before the image */
    } list[] = {{{2, 2, 0, 0, TP_VALID, TP_NHWC}, {2, 6, 8, 5}, {2, 3, 4, 5}, 0},
                {{3, 3, 1, 1, TP_SAME, TP_NHWC}, {2, 6, 8, 5}, {2, 6, 8, 5}, 1},
                {{3, 3, 1, 1, TP_SAME, TP_NCHW}, {2, 5, 6, 8}, {2, 5, 6, 8}, 1},
                {{17, 16, 1, 1, TP_VALID, TP_NHWC}, {2, 18, 18, 5}, {2, 2, 3, 5}, 0}}; /* argmax is int32 */
    for (int t = 0; t < 4; t++) {
        const tp_pool_attrs a = list[t].a;
        const bool nchw = a.data_format == TP_NCHW, large = a.size_h * a.size_w > 256;
        const int64_t *xd = list[t].x, *yd = list[t].y, n = yd[0] * yd[1] * yd[2] * yd[3];
        const int ih = nchw ? 2 : 1, iw = ih + 1, stride = a.stride_h ? a.stride_h : a.size_h;
        uint8_t small[480];
        int32_t wide[480];
        for (int i = 0; i < n; i++) small[i] = (uint8_t)(i * 37 % 11), wide[i] = i % 9 ? i * 37 % 350 - 40 : INT32_MIN;
        for (int i = 0; i < n; i += 7) small[i] = (uint8_t)(255 - i % 50);
        tp_graph *g = tp_graph_new(NULL);
        tp_tensor places = TP_EMPTY;
        tp_tensor_view(&places, large ? TP_I32 : TP_U8, tp_make_shape_n(4, yd), large ? (void *)wide : (void *)small);
        tp_node *x = tp_rand_uniform(g, tp_make_shape_n(4, xd), 1, 2), *dy = tp_rand_uniform(g, places.shape, 1, 2);
        tp_node *argmax = tp_constant(g, &places), *take[2] = {x, argmax}, *put[3] = {dy, argmax, x};
        tp_node *fetch[4] = {x, dy, tp_apply(g, tp_op_find("max_pool_take"), take, 2, &a),
                             tp_apply(g, tp_op_find("max_pool_grad"), put, 3, &a)};
        const tp_tensor *v[4] = {NULL, NULL, NULL, NULL};
        double dx[2 * 18 * 18 * 5] = {0}; /* as large as the largest x */
        tp_session *s = tp_session_new(g, NULL);
        int taken = 0;
        if (CHECK_OK(tp_session_run(s, NULL, 0, fetch, 4, v)))
            for (int64_t i = 0; i < n; i++) {
                const int64_t place = large ? wide[i] : small[i], c3 = i % yd[3], c2 = i / yd[3] % yd[2],
                              c1 = i / yd[3] / yd[2] % yd[1];
                int64_t at[4] = {i / yd[3] / yd[2] / yd[1], c1, c2, c3};
                at[ih] = at[ih] * stride + place / a.size_w - list[t].before;
                at[iw] = at[iw] * stride + place % a.size_w - list[t].before;
                const bool in = place >= 0 && place < a.size_h * a.size_w && at[ih] >= 0 && at[ih] < xd[ih] &&
                                at[iw] >= 0 && at[iw] < xd[iw];
                const int64_t from = ((at[0] * xd[1] + at[1]) * xd[2] + at[2]) * xd[3] + at[3];
                CHECK_NEAR(tp_tensor_get(v[2], i), in ? tp_tensor_get(v[0], from) : 0, 0, 0);
                if (in) dx[from] += tp_tensor_get(v[1], i), taken++;
            }
        CHECK(taken > n / 4 && taken < n);
        for (int64_t i = 0; v[3] && i < tp_tensor_size(v[3]); i++) CHECK_NEAR(tp_tensor_get(v[3], i), dx[i], 1e-5, 0);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* A bias along the last dimension of what is pooled as NCHW: its gradient is not the sum of the pooled one's. */
TEST(a_bias_of_other_channels_than_the_pooling)
{
    static const tp_pool_attrs window = {2, 2, 0, 0, TP_VALID, TP_NCHW};
    const int64_t dims[4] = {2, 3, 4, 6};
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_rand_normal(g, tp_make_shape_n(4, dims), 0, 1), *b = tp_rand_normal(g, shape1(6), 0, 1);
    tp_node *y = tp_nn_bias_add(x, b, TP_NHWC), *pooled = tp_nn_max_pool(y, &window), *db = NULL, *dy = NULL;
    tp_node *weights = tp_stop_gradient(tp_rand_normal_like(pooled, 0, 1)), *cost = tp_sum(tp_mul(pooled, weights));
    tp_gradients(cost, &b, 1, &db);
    tp_gradients(cost, &y, 1, &dy);
    tp_node *fetch[2] = {db, dy};
    const tp_tensor *v[2] = {NULL, NULL};
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK_OK(tp_session_run(s, NULL, 0, fetch, 2, v)) && CHECK(v[0]->shape.dim[0] == 6))
        for (int c = 0; c < 6; c++) {
            double sum = 0;
            for (int i = c; i < 2 * 3 * 4 * 6; i += 6) sum += tp_tensor_get(v[1], i);
            CHECK_NEAR(tp_tensor_get(v[0], c), sum, 1e-5, 1e-5);
        }
    tp_session_free(s);
    tp_graph_free(g);
}

/* Batch norm with its ReLU in one pass, and its gradient with the mask: the bits of the separate ops, which a fetch of what
 * lies between brings back. */
TEST(batch_norm_and_relu_together_are_as_apart)
{
    static const int64_t sizes[][2] = {{1, 3}, {7, 5}, {130, 16}, {300, 33}, {5000, 20}};
    for (int i = 0; i < 5; i++)
        for (int training = 0; training < 2; training++) {
            tp_graph *g = tp_graph_new(NULL);
            const int64_t n = sizes[i][0], c = sizes[i][1];
            const int64_t dims[2] = {n, c};
            tp_node *x = tp_rand_normal(g, tp_make_shape_n(2, dims), 0.3f, 2);
            tp_node *gamma = tp_rand_normal(g, shape1(c), 1, 0.5f), *beta = tp_rand_normal(g, shape1(c), 0, 0.5f);
            tp_node *mean = tp_rand_normal(g, shape1(c), 0, 1), *var = tp_rand_uniform(g, shape1(c), 0.5f, 2);
            tp_node *bn = training ? tp_nn_batch_norm_train(x, gamma, beta, 1, 1e-5f, false, NULL, NULL)
                                   : tp_nn_batch_norm_infer(x, gamma, beta, mean, var, 1, 1e-5f);
            tp_node *y = tp_relu(i % 2 ? tp_named(bn, "bn") : bn), *xs[3], *grads[3],
                    *fetch[6]; /* a name is no obstacle */
            xs[0] = x, xs[1] = gamma, xs[2] = beta;
            tp_gradients(tp_sum(tp_mul(y, tp_stop_gradient(tp_rand_normal_like(y, 0, 1)))), xs, 3, grads);
            fetch[0] = y, fetch[1] = grads[0], fetch[2] = grads[1], fetch[3] = grads[2];
            fetch[4] = bn;
            fetch[5] = training ? grads[0]->op->in[0] : bn; /* the masked gradient */
            if (training) CHECK_STR(fetch[5]->op->row->name, "relu_grad");
            tp_session *s[2];
            const tp_tensor *v[2][6];
            for (int apart = 0; apart < 2; apart++) {
                s[apart] = tp_session_new(g, NULL);
                CHECK_OK(tp_session_run(s[apart], NULL, 0, fetch, apart ? 6 : 4, v[apart]));
                tp_buf plan;
                memset(&plan, 0, sizeof plan);
                tp_exec_print_plan(tp_session_exec(s[apart]), fetch, apart ? 6 : 4, &plan);
                CHECK((strstr(plan.data, " relu ") || strstr(plan.data, " relu+")) ==
                      (apart == 1)); /* fetched apart, relu is a step or in a chain; else the norm does it */
                tp_buf_free(&plan);
            }
            for (int k = 0; k < 4; k++)
                CHECK_MSG(memcmp(v[0][k]->data, v[1][k]->data, tp_tensor_bytes(v[0][k])) == 0,
                          "%lld x %lld, training %d: value %d differs", (long long)n, (long long)c, training, k);
            int positive = 0;
            for (int64_t k = 0; k < n * c; k++) positive += ((const float *)v[0][0]->data)[k] > 0;
            CHECK(positive > 0 || n == 1);
            tp_session_free(s[0]);
            tp_session_free(s[1]);
            tp_graph_free(g);
        }
}

/* The same of group norm, channels last and first. */
TEST(group_norm_and_relu_together_are_as_apart)
{
    static const int64_t sizes[][5] = {
        {2, 5, 7, 6, 3}, {9, 3, 3, 20, 20}, {1, 40, 30, 33, 1}, {2, 8, 9, 11, 4}, {3, 4, 1, 5, 2}};
    for (int i = 0; i < 10; i++) {
        const int64_t *size = sizes[i % 5], first[4] = {size[0], size[3], size[1], size[2]};
        const int axis = i < 5 ? 3 : 1;
        if (size[3] % size[4]) continue;
        tp_graph *g = tp_graph_new(NULL);
        const int64_t c = size[3];
        tp_node *x = tp_rand_normal(g, tp_make_shape_n(4, axis == 3 ? size : first), 0.3f, 2), *xs[3], *grads[3],
                *fetch[6];
        tp_node *gamma = tp_rand_normal(g, shape1(c), 0.2f, 0.5f), *beta = tp_rand_normal(g, shape1(c), 0, 0.5f);
        tp_node *norm = tp_nn_group_norm(x, gamma, beta, axis, (int)size[4], 1e-5f), *y = tp_relu(norm);
        xs[0] = x, xs[1] = gamma, xs[2] = beta;
        tp_gradients(tp_sum(tp_mul(y, tp_stop_gradient(tp_rand_normal_like(y, 0, 1)))), xs, 3, grads);
        fetch[0] = y, fetch[1] = grads[0], fetch[2] = grads[1], fetch[3] = grads[2];
        fetch[4] = norm, fetch[5] = grads[0]->op->in[0];
        CHECK_STR(fetch[5]->op->row->name, "relu_grad");
        tp_session *s[2];
        const tp_tensor *v[2][6];
        for (int apart = 0; apart < 2; apart++) {
            tp_buf plan;
            s[apart] = tp_session_new(g, NULL);
            CHECK_OK(tp_session_run(s[apart], NULL, 0, fetch, apart ? 6 : 4, v[apart]));
            memset(&plan, 0, sizeof plan);
            tp_exec_print_plan(tp_session_exec(s[apart]), fetch, apart ? 6 : 4, &plan);
            CHECK((strstr(plan.data, " relu ") || strstr(plan.data, " relu+")) ==
                  (apart == 1)); /* fetched apart, relu is a step or in a chain; else the norm does it */
            /* the naive loop masks nothing */
            CHECK((strstr(plan.data, "GroupNormGrad [mask, batch norm]") != NULL) == (TP__FAST && apart == 0));
            tp_buf_free(&plan);
        }
        for (int k = 0; k < 4; k++)
            CHECK_MSG(memcmp(v[0][k]->data, v[1][k]->data, tp_tensor_bytes(v[0][k])) == 0, "size %d: value %d differs",
                      i, k);
        tp_session_free(s[0]);
        tp_session_free(s[1]);
        tp_graph_free(g);
    }
}

/* An axis that is counted from the end is the same axis: the same bits, of the gradients and of their gradients too. */
TEST(group_norm_counts_its_axis_from_the_end)
{
    static const int64_t size[5] = {2, 6, 4, 6, 6};
    for (int i = 0; i < 16; i++) {
        const int ndim = 3 + i % 3, from_end = 1 + i / 3 % (ndim - 1);
        tp_graph *g = tp_graph_new(NULL);
        const tp_dtype dtype = i % 2 ? TP_F64 : TP_F32;
        const int64_t C = size[ndim - from_end];
        tp_node *x = tp_cast(tp_rand_normal(g, tp_make_shape_n(ndim, size), 0.3f, 2), dtype), *fetch[10], *in[3];
        tp_node *dy = tp_cast(tp_rand_normal(g, x->shape, 0, 1), dtype);
        in[0] = x;
        in[1] = tp_cast(tp_rand_normal(g, shape1(C), 0.2f, 0.5f), dtype);
        in[2] = tp_cast(tp_rand_normal(g, shape1(C), 0, 0.5f), dtype);
        for (int end = 0; end < 2; end++) {
            tp_node **y = fetch + 5 * end;
            y[0] = tp_nn_group_norm(x, in[1], in[2], end ? -from_end : ndim - from_end, 2, 1e-3f);
            tp_gradients_from(y[0], dy, in, 3, y + 1);
            tp_gradients(tp_sum(tp_square(y[1])), in, 1, y + 4);
        }
        tp_session *s = tp_session_new(g, NULL);
        const tp_tensor *v[10];
        if (CHECK_MSG(s != NULL, "%s", tp_graph_error(g)) && CHECK_OK(tp_session_run(s, NULL, 0, fetch, 10, v)))
            for (int k = 0; k < 5; k++)
                CHECK_MSG(memcmp(v[k]->data, v[5 + k]->data, tp_tensor_bytes(v[k])) == 0, "case %d: value %d differs",
                          i, k);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* The fused sequence and the cell written out step by step: the same values and gradients, in float and in double (where
 * the plain ops' gradients are themselves proved by finite differences), for both layouts and odd sizes. */
static tp_node *normal(tp_graph *g, tp_dtype dtype, int nd, int64_t a, int64_t b, int64_t c, float deviation)
{
    const int64_t dims[3] = {a, b, c};
    return tp_cast(tp_rand_normal(g, tp_make_shape_n(nd, dims), 0, deviation), dtype);
}

/* The first eight values against the second eight: a sequence op and its cell unrolled. */
static void same_values(const tp_tensor *const *v, int i, int variant, tp_dtype dtype)
{
    for (int q = 0; q < 8; q++) {
        const int64_t n = tp_tensor_size(v[q]);
        double worst = 0, most = 1;
        CHECK(tp_shape_equal(&v[q]->shape, &v[8 + q]->shape));
        for (int64_t e = 0; e < n; e++) {
            const double a = tp_tensor_get(v[q], e), b = tp_tensor_get(v[8 + q], e), d = fabs(a - b);
            worst = d > worst || d != d ? d : worst;
            most = fabs(b) > most ? fabs(b) : most;
        }
        CHECK_MSG(worst <= most * (dtype == TP_F64 ? 1e-11 : 1e-5), "case %d, variant %d: value %d is %g off of %g", i,
                  variant, q, worst, most);
    }
}

TEST(lstm_is_its_cell_unrolled)
{
    static const int64_t sizes[][4] = {{1, 1, 1, 1},   {5, 3, 4, 7},    {9, 35, 17, 16}, {3, 66, 5, 33},
                                       {8, 130, 5, 9}, {2, 600, 3, 10}, {3, 4, 20, 137}}; /* more samples, more units */
    for (int i = 0; i < 7; i++)
        for (int variant = 0; variant < 4; variant++) {
            const int64_t T = sizes[i][0], B = sizes[i][1], I = sizes[i][2], H = sizes[i][3];
            const tp_dtype dtype = variant % 2 ? TP_F64 : TP_F32;
            const bool batch_major = variant >= 2;
            tp_graph *g = tp_graph_new(NULL);
            tp_node *xs[5], *y[2], *h[2], *c[2], *loss[2], *grads[2][5], *step[16], *gate[4], *fetch[16];
            xs[0] = batch_major ? normal(g, dtype, 3, B, T, I, 1) : normal(g, dtype, 3, T, B, I, 1);
            xs[1] = normal(g, dtype, 2, I + H, 4 * H, 0, 0.4f);
            xs[2] = normal(g, dtype, 1, 4 * H, 0, 0, 0.5f);
            xs[3] = normal(g, dtype, 2, B, H, 0, 0.5f);
            xs[4] = normal(g, dtype, 2, B, H, 0, 0.5f);
            y[0] = tp_nn_lstm(xs[0], xs[1], xs[2], xs[3], xs[4], 1.0f, batch_major, &h[0], &c[0]);
            h[1] = xs[3], c[1] = xs[4];
            tp_unstack(xs[0], batch_major ? 1 : 0, (int)T, step);
            for (int64_t t = 0; t < T; t++) {
                tp_node *both[2];
                both[0] = step[t], both[1] = h[1];
                tp_split(tp_nn_bias_add(tp_matmul(tp_concat(both, 2, 1), xs[1]), xs[2], 0), 4, 1, gate);
                c[1] = tp_add(tp_mul(c[1], tp_sigmoid(tp_affine(gate[2], 1, 1))),
                              tp_mul(tp_sigmoid(gate[0]), tp_tanh(gate[1])));
                h[1] = tp_mul(tp_tanh(c[1]), tp_sigmoid(gate[3]));
                step[t] = h[1];
            }
            y[1] = tp_stack(step, (int)T, batch_major ? 1 : 0);
            tp_node *wy = batch_major ? normal(g, dtype, 3, B, T, H, 1) : normal(g, dtype, 3, T, B, H, 1);
            tp_node *wh = normal(g, dtype, 2, B, H, 0, 1), *wc = normal(g, dtype, 2, B, H, 0, 1);
            for (int k = 0; k < 2; k++) {
                loss[k] = tp_add(tp_sum(tp_mul(y[k], wy)), tp_add(tp_sum(tp_mul(h[k], wh)), tp_sum(tp_mul(c[k], wc))));
                tp_gradients(loss[k], xs, 5, grads[k]);
                fetch[8 * k] = y[k], fetch[8 * k + 1] = h[k], fetch[8 * k + 2] = c[k];
                for (int q = 0; q < 5; q++) fetch[8 * k + 3 + q] = grads[k][q];
            }
            const tp_tensor *v[16];
            tp_session *s = tp_session_new(g, NULL);
            if (CHECK_OK(tp_session_run(s, NULL, 0, fetch, 16, v))) same_values(v, i, variant, dtype);
            tp_session_free(s);
            /* inference asks for the last state alone: nothing else is kept, the numbers are the same */
            tp_session *last = tp_session_new(g, NULL);
            const tp_tensor *end[2];
            if (s && CHECK_OK(tp_session_run(last, NULL, 0, h, 2, end)))
                for (int64_t e = 0; e < tp_tensor_size(end[0]); e++)
                    CHECK_NEAR(tp_tensor_get(end[0], e), tp_tensor_get(end[1], e), 1e-5, 0);
            tp_session_free(last);
            tp_graph_free(g);
        }
}

/* A sequence of no steps, or of no samples: the last state is the first one, and so are their gradients; the weights have none. */
static void nothing_to_go_through(bool lstm, int64_t T, int64_t B, bool batch_major, tp_dtype dtype, const char *isa)
{
    enum { I = 3, H = 5 };
    tp_graph *g = tp_graph_new(NULL);
    tp_node *xs[6], *y, *h = NULL, *c = NULL, *grads[6], *fetch[10];
    const int n = lstm ? 5 : 6;
    xs[0] = batch_major ? normal(g, dtype, 3, B, T, I, 1) : normal(g, dtype, 3, T, B, I, 1);
    xs[1] = normal(g, dtype, 2, I + H, lstm ? 4 * H : 2 * H, 0, 1);
    xs[2] = normal(g, dtype, 1, lstm ? 4 * H : 2 * H, 0, 0, 1);
    xs[3] = lstm ? normal(g, dtype, 2, B, H, 0, 1) : normal(g, dtype, 2, I + H, H, 0, 1);
    xs[4] = lstm ? normal(g, dtype, 2, B, H, 0, 1) : normal(g, dtype, 1, H, 0, 0, 1);
    xs[5] = normal(g, dtype, 2, B, H, 0, 1);
    if (lstm) y = tp_nn_lstm(xs[0], xs[1], xs[2], xs[3], xs[4], 1, batch_major, &h, &c);
    else y = c = tp_nn_gru(xs[0], xs[1], xs[2], xs[3], xs[4], xs[5], batch_major, &h);
    tp_node *w = normal(g, dtype, 2, B, H, 0, 1);
    tp_node *loss = tp_add(tp_sum(y), tp_sum(tp_mul(h, w)));
    if (lstm) loss = tp_add(loss, tp_affine(tp_sum(tp_mul(c, w)), 2, 0));
    tp_gradients(loss, xs, n, grads);
    const tp_tensor *v[10];
    fetch[0] = h, fetch[1] = c, fetch[2] = xs[lstm ? 3 : 5], fetch[3] = xs[4], fetch[4] = w;
    for (int i = 1; i < n; i++) fetch[4 + i] = grads[i];
    tp_session_config sc = tp_default_session_config();
    sc.isa = isa;
    sc.threads = 2;
    tp_session *s = tp_session_new(g, &sc);
    if (CHECK_OK(tp_session_run(s, NULL, 0, fetch, 4 + n, v))) {
        const int first = lstm ? 3 : 5; /* whose gradient is that of the first h */
        CHECK(tp_tensor_size(v[0]) == B * H && (lstm || tp_tensor_size(v[1]) == 0));
        for (int64_t e = 0; e < B * H; e++) {
            CHECK(tp_tensor_get(v[0], e) == tp_tensor_get(v[2], e));
            CHECK(tp_tensor_get(v[4 + first], e) == tp_tensor_get(v[4], e));
            if (lstm) CHECK(tp_tensor_get(v[1], e) == tp_tensor_get(v[3], e));
            if (lstm) CHECK(tp_tensor_get(v[8], e) == 2 * tp_tensor_get(v[4], e));
        }
        for (int i = 1; i < (lstm ? 3 : 5); i++)
            for (int64_t e = 0; e < tp_tensor_size(v[4 + i]); e++) CHECK(tp_tensor_get(v[4 + i], e) == 0);
    }
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(a_sequence_of_nothing)
{
    for (int i = 0; i < 32; i++)
        nothing_to_go_through((i & 1) != 0, i & 2 ? 0 : 4, i & 2 ? 40 : 0, (i & 4) != 0, i & 8 ? TP_F64 : TP_F32,
                              i & 16 ? "naive" : NULL);
}

TEST(lstm_cell_by_hand)
{
    for (int forget = 0; forget < 2; forget++) {
        tp_graph *g = tp_graph_new(NULL);
        const int64_t one[3] = {1, 1, 1}, kernel[2] = {2, 4}, four = 4;
        tp_node *zero = tp_zeros_like(tp_rand_normal(g, tp_make_shape_n(3, one), 0, 1));
        tp_node *w = tp_zeros_like(tp_rand_normal(g, tp_make_shape_n(2, kernel), 0, 1));
        tp_node *b = tp_zeros_like(tp_rand_normal(g, tp_make_shape_n(1, &four), 0, 1));
        tp_node *h0 = tp_zeros_like(tp_rand_normal(g, tp_make_shape_n(2, one), 0, 1)), *fetch[2];
        fetch[0] = tp_nn_lstm(zero, w, b, h0, tp_ones_like(h0), (float)forget, false, NULL, &fetch[1]);
        const tp_tensor *v[2];
        tp_session *s = tp_session_new(g, NULL);
        if (CHECK_OK(tp_session_run(s, NULL, 0, fetch, 2, v))) {
            CHECK_NEAR(tp_tensor_get(v[0], 0), forget ? .3118563 : .2310586, 1e-6, 0);
            CHECK_NEAR(tp_tensor_get(v[1], 0), forget ? .7310586 : .5, 1e-6, 0);
        }
        tp_session_free(s);
        tp_nn_lstm(zero, w, b, h0, w, 1, false, NULL, NULL);
        CHECK(strstr(tp_graph_error(g), "c0") != NULL);
        tp_graph_free(g);
    }
}

/* Scores so far apart that e to their difference is no number of the type: the key with the largest gets all the attention. */
TEST(attention_to_one_of_distant_keys)
{
    static const double number[3][3] = {{1}, {-2000, 3000, 0}, {1, 2, 3}}; /* the query, the keys, their values */
    static const char *const isa[] = {NULL, "naive"};
    for (int i = 0; i < 4; i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_feed f[3];
        memset(f, 0, sizeof f);
        for (int k = 0; k < 3; k++) {
            f[k].node = tp_placeholder(g, "x", i < 2 ? TP_F32 : TP_F64, tp_make_shape(1, k ? 3 : 1, 1));
            CHECK_OK(tp_tensor_resize(&f[k].value, f[k].node->dtype, f[k].node->shape));
            for (int e = 0; e < (k ? 3 : 1); e++) tp_tensor_set(&f[k].value, e, number[k][e]);
        }
        tp_node *fetch[2];
        fetch[0] = tp_nn_attention(f[0].node, f[1].node, f[2].node, 1, false);
        fetch[1] = &fetch[0]->op->out[1];
        tp_session_config c = tp_default_session_config();
        c.isa = isa[i % 2];
        tp_session *s = tp_session_new(g, &c);
        const tp_tensor *out[2];
        if (CHECK(s != NULL) && CHECK_OK(tp_session_run(s, f, 3, fetch, 2, out)))
            CHECK_MSG(fabs(tp_tensor_get(out[0], 0) - 2) < 1e-6 && fabs(tp_tensor_get(out[1], 0) - 3000) < 1e-3,
                      "case %d: %g, %g", i, tp_tensor_get(out[0], 0), tp_tensor_get(out[1], 0));
        tp_session_free(s);
        for (int k = 0; k < 3; k++) tp_tensor_free(&f[k].value);
        tp_graph_free(g);
    }
}

/* The same for the GRU. */
TEST(gru_is_its_cell_unrolled)
{
    static const int64_t sizes[][4] = {{1, 1, 1, 1}, {5, 3, 4, 7}, {9, 35, 17, 16}, {3, 66, 5, 33}};
    for (int i = 0; i < 4; i++)
        for (int variant = 0; variant < 4; variant++) {
            const int64_t T = sizes[i][0], B = sizes[i][1], I = sizes[i][2], H = sizes[i][3];
            const tp_dtype dtype = variant % 2 ? TP_F64 : TP_F32;
            const bool batch_major = variant >= 2;
            tp_graph *g = tp_graph_new(NULL);
            tp_node *xs[6], *y[2], *h[2], *grads[2][6], *step[16], *gate[2], *fetch[16];
            xs[0] = batch_major ? normal(g, dtype, 3, B, T, I, 1) : normal(g, dtype, 3, T, B, I, 1);
            xs[1] = normal(g, dtype, 2, I + H, 2 * H, 0, 0.4f);
            xs[2] = normal(g, dtype, 1, 2 * H, 0, 0, 0.5f);
            xs[3] = normal(g, dtype, 2, I + H, H, 0, 0.4f);
            xs[4] = normal(g, dtype, 1, H, 0, 0, 0.5f);
            xs[5] = normal(g, dtype, 2, B, H, 0, 0.5f);
            y[0] = tp_nn_gru(xs[0], xs[1], xs[2], xs[3], xs[4], xs[5], batch_major, &h[0]);
            h[1] = xs[5];
            tp_unstack(xs[0], batch_major ? 1 : 0, (int)T, step);
            for (int64_t t = 0; t < T; t++) {
                tp_node *both[2];
                both[0] = step[t], both[1] = h[1];
                tp_split(tp_sigmoid(tp_nn_bias_add(tp_matmul(tp_concat(both, 2, 1), xs[1]), xs[2], 0)), 2, 1, gate);
                both[1] = tp_mul(gate[0], h[1]);
                tp_node *c = tp_tanh(tp_nn_bias_add(tp_matmul(tp_concat(both, 2, 1), xs[3]), xs[4], 0));
                h[1] = tp_add(tp_mul(gate[1], h[1]), tp_mul(tp_affine(gate[1], -1, 1), c));
                step[t] = h[1];
            }
            y[1] = tp_stack(step, (int)T, batch_major ? 1 : 0);
            tp_node *wy = batch_major ? normal(g, dtype, 3, B, T, H, 1) : normal(g, dtype, 3, T, B, H, 1);
            tp_node *wh = normal(g, dtype, 2, B, H, 0, 1);
            for (int k = 0; k < 2; k++) {
                tp_gradients(tp_add(tp_sum(tp_mul(y[k], wy)), tp_sum(tp_mul(h[k], wh))), xs, 6, grads[k]);
                fetch[8 * k] = y[k], fetch[8 * k + 1] = h[k];
                for (int q = 0; q < 6; q++) fetch[8 * k + 2 + q] = grads[k][q];
            }
            const tp_tensor *v[16];
            tp_session *s = tp_session_new(g, NULL);
            if (CHECK_OK(tp_session_run(s, NULL, 0, fetch, 16, v))) same_values(v, i, variant, dtype);
            tp_session_free(s);
            /* inference asks for the last state alone: nothing else is kept, the numbers are the same */
            tp_session *last = tp_session_new(g, NULL);
            const tp_tensor *end[2];
            if (CHECK_OK(tp_session_run(last, NULL, 0, h, 2, end)))
                for (int64_t e = 0; e < tp_tensor_size(end[0]); e++)
                    CHECK_NEAR(tp_tensor_get(end[0], e), tp_tensor_get(end[1], e), 1e-5, 0);
            tp_session_free(last);
            tp_graph_free(g);
        }
}

/* A sequence over rows of a table, which the plan makes of the table itself, and over the same rows from elsewhere: the
 * same values, and forward the same bits. Whatever else is fetched, threads, and fusion change no bit. */
enum { TABLE_VALUES = 9 };
static tp_graph *table_graph(bool lstm, bool batch_major, const int64_t *size, tp_node *fetch[2][TABLE_VALUES],
                             tp_node *between[2], tp_node **ids)
{
    const int64_t T = size[0], B = size[1], I = size[2], H = size[3], V = size[4],
                  at[2] = {batch_major ? B : T, batch_major ? T : B};
    tp_graph *g = tp_graph_new(NULL);
    tp_node *xs[6], *rows[2], *y[2], *h[2], *c[2], *grads[7];
    *ids = tp_placeholder(g, "ids", I % 2 ? TP_I64 : TP_I32, tp_make_shape_n(2, at));
    xs[0] = normal(g, TP_F32, 2, V, I, 0, 1);
    xs[1] = normal(g, TP_F32, 2, I + H, lstm ? 4 * H : 2 * H, 0, 0.4f);
    xs[2] = normal(g, TP_F32, 1, lstm ? 4 * H : 2 * H, 0, 0, 0.5f);
    xs[3] = normal(g, TP_F32, 2, B, H, 0, 0.5f);
    xs[4] = lstm ? normal(g, TP_F32, 2, B, H, 0, 0.5f) : normal(g, TP_F32, 2, I + H, H, 0, 0.4f);
    xs[5] = normal(g, TP_F32, 1, H, 0, 0, 0.5f);
    rows[0] = tp_named(tp_gather(xs[0], *ids), "rows"); /* a name is no obstacle, an addition is */
    rows[1] = tp_add(tp_gather(xs[0], *ids), tp_const(g, 0));
    tp_node *wy = normal(g, TP_F32, 3, at[0], at[1], H, 1), *wh = normal(g, TP_F32, 2, B, H, 0, 1);
    for (int k = 0; k < 2; k++) {
        y[k] = lstm ? tp_nn_lstm(rows[k], xs[1], xs[2], xs[3], xs[4], 1, batch_major, &h[k], &c[k])
                    : tp_nn_gru(rows[k], xs[1], xs[2], xs[4], xs[5], xs[3], batch_major, &h[k]);
        if (!lstm) c[k] = h[k];
        tp_node *all[7];
        memcpy(all, xs, sizeof xs);
        all[6] = rows[k];
        tp_gradients(tp_add(tp_sum(tp_mul(y[k], wy)), tp_sum(tp_mul(tp_add(h[k], c[k]), wh))), all, 7, grads);
        fetch[k][0] = y[k], fetch[k][1] = h[k], fetch[k][2] = c[k];
        for (int q = 0; q < 6; q++) fetch[k][3 + q] = lstm && q == 5 ? h[k] : grads[q];
        between[k] = grads[6];
    }
    return g;
}
static bool plan_has(tp_session *s, tp_node *const *fetch, int n, const char *kernel)
{
    tp_buf text;
    memset(&text, 0, sizeof text);
    CHECK_OK(tp_exec_print_plan(tp_session_exec(s), fetch, n, &text));
    const bool found = text.data && strstr(text.data, kernel);
    tp_buf_free(&text);
    return found;
}

/* Memory of the device with something behind it, which nobody may change. */
enum { BEHIND = 1 << 16, BLOCKS = 64 };
static struct {
    char *data;
    size_t bytes;
} block[BLOCKS];
static void *(*alloc_within)(tp_device *d, size_t bytes);
static void (*free_within)(tp_device *d, void *p);
static void *alloc_watched(tp_device *d, size_t bytes)
{
    int i = 0;
    while (i < BLOCKS && block[i].data) i++;
    char *p = CHECK(i < BLOCKS) ? (char *)alloc_within(d, bytes + BEHIND) : NULL;
    if (!p) return NULL;
    memset(p + bytes, 0x5a, BEHIND);
    block[i].data = p, block[i].bytes = bytes;
    return p;
}
static void free_watched(tp_device *d, void *p)
{
    for (int i = 0; i < BLOCKS && p; i++)
        if (block[i].data == p) {
            int changed = 0;
            for (int k = 0; k < BEHIND; k++) changed += block[i].data[block[i].bytes + (size_t)k] != 0x5a;
            CHECK_MSG(changed == 0, "%d bytes behind %zu have changed", changed, block[i].bytes);
            block[i].data = NULL;
        }
    free_within(d, p);
}
/* The products of a table's rows are made some rows at a time; the last ones may be fewer. */
TEST(the_rows_of_a_table_end_with_it)
{
    if (!TP__FAST) TEST_SKIP("no naive loop works on a table");
    const int64_t T = 70, B = 1, I = 3, H = 16, V = 60;
    tp_graph *g = tp_graph_new(NULL);
    tp_node *ids = tp_placeholder(g, "ids", TP_I32, shape2(T, B)), *h = NULL;
    tp_node *table = tp_get_variable_as(g, "table", TP_F32, shape2(V, I), tp_init_normal(0, 1));
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, shape2(I + H, 4 * H), tp_init_normal(0, 1));
    tp_node *b = tp_get_variable_as(g, "b", TP_F32, shape1(4 * H), tp_init_normal(0, 1));
    tp_node *zero = tp_get_variable_as(g, "zero", TP_F32, shape2(B, H), tp_init_zeros());
    tp_nn_lstm(tp_gather(table, ids), w, b, zero, zero, 1, false, &h, NULL);
    tp_device *d = tp_cpu_device_new(1, NULL);
    alloc_within = d->alloc, free_within = d->free;
    d->alloc = alloc_watched, d->free = free_watched;
    tp_session_config c = tp_default_session_config();
    c.devices = &d, c.n_devices = 1;
    tp_session *s = tp_session_new(g, &c);
    tp_feed f;
    memset(&f, 0, sizeof f);
    f.node = ids;
    CHECK_OK(tp_tensor_resize(&f.value, TP_I32, ids->shape));
    for (int64_t i = 0; i < T; i++) tp_tensor_set(&f.value, i, (double)(i % V));
    const tp_tensor *out = NULL;
    if (CHECK(s != NULL) && CHECK_OK(tp_session_run(s, &f, 1, &h, 1, &out))) CHECK(!plan_has(s, &h, 1, " gather "));
    tp_session_free(s);
    tp_tensor_free(&f.value);
    d->close(d);
    tp_graph_free(g);
}

TEST(a_sequence_over_a_table_is_as_over_its_rows)
{
    if (!TP__FAST) TEST_SKIP("no naive loop works on a table");
    static const int64_t sizes[][5] = {
        {5, 3, 4, 7, 2},  {7, 35, 9, 16, 11}, {3, 66, 300, 33, 40},
        {4, 5, 3, 2, 20}, {9, 1, 17, 5, 8},   {8, 130, 6, 136, 50}}; /* the last one goes back in three parts */
    for (int i = 0; i < 6; i++)
        for (int variant = 0; variant < 4; variant++) {
            const int64_t *z = sizes[i], n = z[0] * z[1];
            tp_node *fetch[2][TABLE_VALUES], *between[2], *ids, *more[TABLE_VALUES + 2];
            tp_graph *g = table_graph(variant % 2 == 0, variant >= 2, z, fetch, between, &ids);
            tp_feed feed;
            memset(&feed, 0, sizeof feed);
            feed.node = ids;
            CHECK_OK(tp_tensor_resize(&feed.value, ids->dtype, ids->shape));
            for (int64_t p = 0; p < n; p++) tp_tensor_set(&feed.value, p, (double)(p * 7 % 13 % z[4]));
            tp_session *s[5];
            const tp_tensor *v[5][TABLE_VALUES + 2];
            const bool table = z[4] < n;
            for (int q = 0; q < 5; q++) {
                tp_session_config config = tp_default_session_config();
                if (q == 3) config.threads = 3;
                config.no_fusion = q == 4;
                s[q] = tp_session_new(g, &config);
                memcpy(more, fetch[q == 1], sizeof fetch[0]);
                more[TABLE_VALUES] = between[q == 1];            /* the gradient of the rows, */
                more[TABLE_VALUES + 1] = fetch[0][0]->op->in[0]; /* and they themselves */
                const int n_fetch = TABLE_VALUES + (q == 1 || q == 2 ? 2 : 0);
                CHECK_OK(tp_session_run(s[q], &feed, 1, more, n_fetch, v[q]));
                if (q != 1) CHECK(plan_has(s[q], more, n_fetch, " gather_grad ") != table);
                if (q != 1) CHECK(plan_has(s[q], more, n_fetch, " gather ") == (q == 2 || !table));
            }
            for (int q = 0; q < TABLE_VALUES + 1; q++) {
                const tp_tensor *a = v[q < TABLE_VALUES ? 0 : 2][q], *b = v[1][q];
                double worst = 0, most = 1;
                for (int64_t e = 0; e < tp_tensor_size(a); e++) {
                    const double d = fabs(tp_tensor_get(a, e) - tp_tensor_get(b, e));
                    worst = d > worst || d != d ? d : worst;
                    most = fabs(tp_tensor_get(b, e)) > most ? fabs(tp_tensor_get(b, e)) : most;
                }
                CHECK_MSG(q < 3 ? worst == 0 : worst <= most * 1e-5, "case %d, variant %d: value %d is %g off of %g", i,
                          variant, q, worst, most);
                for (int other = 2; other < 5 && q < TABLE_VALUES; other++)
                    CHECK_MSG(memcmp(a->data, v[other][q]->data, tp_tensor_bytes(a)) == 0,
                              "case %d, variant %d: value %d differs in run %d", i, variant, q, other);
            }
            tp_tensor_set(&feed.value, n - 1, (double)z[4]); /* the words of the gather that is not there */
            CHECK(tp_session_run(s[0], &feed, 1, fetch[0], TABLE_VALUES, v[0]) == TP_ERR_NUMERIC);
            CHECK(strstr(tp_last_error(), "'Gather': index") && strstr(tp_last_error(), "outside the rows"));
            for (int far = -1; far < 2; far += 2) {
                tp_tensor_set(&feed.value, n - 1, far * 1e9);
                CHECK(tp_session_run(s[0], &feed, 1, fetch[0], TABLE_VALUES, v[0]) == TP_ERR_NUMERIC);
                CHECK_HAS(tp_last_error(), far < 0 ? "index -1000000000 is outside" : "index 1000000000 is outside");
            }
            for (int q = 0; q < 5; q++) tp_session_free(s[q]);
            tp_tensor_free(&feed.value);
            tp_graph_free(g);
        }
}

/* Where a sequence may work on the table and where not. `blocked`: the rows go through an op that changes nothing, so that it
 * works on them; the values must be the same as far as the order of sums allows. */
enum {
    T_PLAIN,
    T_GRU,
    T_NAMED,
    T_RESHAPED,
    T_WAITS,
    T_FED,
    T_FED_BETWEEN,
    T_WRITTEN_BEFORE,
    T_STATE_OF_WRITTEN,
    T_WRITTEN_AFTER,
    T_ASSIGNED,
    T_PLACE_WRITTEN,
    T_OTHER_WRITTEN,
    T_AS_LONG,
    T_ALMOST,
    T_F64,
    T_GATHERED_ELSEWHERE,
    T_LIES_ELSEWHERE,
    T_OWN_GATHER,
    T_OWN_LSTM,
    T_NAIVE,
    T_HALF,
    T_BACK,
    T_BACK_TWICE,
    T_BACK_OTHER_PLACES,
    T_BACK_OTHER_TABLE,
    T_BACK_WAITS,
    T_BACK_FED,
    T_BACK_VIEW_FED,
    T_BACK_OWN,
    T_KINDS
};
enum { TT = 4, TB = 3, TI = 16, TH = 8 };
typedef struct table_case {
    tp_graph *g;
    tp_node *fetch[6], *fed, *fed_too;
    int n;
} table_case;

static tp_node *table_var(tp_graph *g, const char *name, tp_dtype dtype, tp_shape shape)
{
    return tp_get_variable_as(g, name, dtype, shape, tp_init_uniform(-0.5f, 0.5f));
}
static tp_node *table_places(tp_graph *g, int kind, int64_t rows)
{
    float at[TT * TB];
    for (int i = 0; i < TT * TB; i++) at[i] = (float)(i * 7 % 5 % rows);
    tp_node *v = tp_get_variable_as(g, "places", TP_I32, tp_make_shape(TT, TB), tp_init_values(at, TT * TB));
    return kind == T_RESHAPED ? tp_reshape_to(v, tp_make_shape(TT * TB)) : v;
}
static void table_back(table_case *c, int kind, tp_node *y, tp_node *rows, tp_node *table, tp_node *places)
{
    tp_node *dx = NULL, *in[3], *other = table_var(c->g, "other", TP_F32, table->shape);
    tp_gradients(tp_sum(tp_square(y)), &rows, 1, &dx);
    in[0] = dx, in[1] = places, in[2] = table;
    if (kind == T_BACK_OTHER_PLACES) in[1] = tp_reverse(places, NULL, 0);
    if (kind == T_BACK_OTHER_TABLE) in[2] = other;
    if (kind == T_BACK_WAITS) in[0] = tp_with_dependencies(dx, &other, 1);
    if (kind == T_BACK_VIEW_FED) in[0] = c->fed = tp_named(dx, "view");
    if (kind == T_BACK_FED) c->fed = dx;
    for (int i = 0; i < (kind == T_BACK_TWICE ? 2 : 1); i++)
        c->fetch[c->n++] = tp_apply(c->g, tp_op_find("gather_grad"), in, 3, NULL);
}
static table_case table_of(int kind, bool blocked)
{
    table_case c;
    memset(&c, 0, sizeof c);
    const tp_dtype t = kind == T_F64 ? TP_F64 : TP_F32;
    const int64_t V = kind == T_AS_LONG ? TT * TB : kind == T_ALMOST ? TT * TB - 1 : 5;
    tp_graph *g = c.g = tp_graph_new(NULL);
    if (kind == T_LIES_ELSEWHERE) tp_device_enter(g, 1);
    tp_node *table = table_var(g, "table", t, tp_make_shape(V, TI)), *from = table;
    if (kind == T_LIES_ELSEWHERE) tp_device_leave(g);
    tp_node *places = table_places(g, kind, V), *aside = table_var(g, "aside", t, tp_make_shape(V, TI));
    if (kind == T_ASSIGNED) from = tp_assign(aside, tp_affine(table, 2, 0), NULL);
    if (kind == T_WRITTEN_BEFORE) c.fetch[c.n++] = tp_assign_add(table, aside, NULL);
    if (kind == T_OTHER_WRITTEN) c.fetch[c.n++] = tp_assign_add(aside, table, NULL);
    if (kind == T_PLACE_WRITTEN) c.fetch[c.n++] = tp_assign(places, tp_reverse(places, NULL, 0), NULL);
    if (kind == T_GATHERED_ELSEWHERE) tp_device_enter(g, 1);
    tp_node *x = tp_gather(from, places), *rows = x, *h[2];
    if (kind == T_GATHERED_ELSEWHERE) tp_device_leave(g);
    if (kind == T_FED) c.fed = x;
    if (kind == T_NAMED || kind == T_FED_BETWEEN) x = tp_named(x, "rows");
    if (kind == T_FED_BETWEEN) c.fed = x;
    if (kind == T_RESHAPED) x = tp_reshape_to(x, tp_make_shape(TT, TB, TI));
    if (kind == T_WAITS) x = tp_with_dependencies(x, &aside, 1);
    if (blocked) x = tp_maximum(x, tp_const_as(g, t, -1e30));
    for (int i = 0; i < 2; i++) h[i] = table_var(g, i ? "h" : "c", t, tp_make_shape(TB, TH));
    if (kind == T_STATE_OF_WRITTEN) { /* the old rows, and a state made of the new ones */
        c.fetch[c.n++] = tp_assign_add(table, aside, NULL);
        h[0] = tp_add(h[0], tp_sum(c.fetch[0]));
    }
    tp_node *y =
        kind == T_GRU
            ? tp_nn_gru(x, table_var(g, "wg", t, tp_make_shape(TI + TH, 2 * TH)),
                        table_var(g, "bg", t, tp_make_shape(2 * TH)), table_var(g, "wc", t, tp_make_shape(TI + TH, TH)),
                        table_var(g, "bc", t, tp_make_shape(TH)), h[0], false, NULL)
            : tp_nn_lstm(x, table_var(g, "k", t, tp_make_shape(TI + TH, 4 * TH)),
                         table_var(g, "b", t, tp_make_shape(4 * TH)), h[0], h[1], 1, false, NULL, NULL);
    c.fetch[c.n++] = y;
    if (kind == T_WRITTEN_AFTER) c.fetch[c.n++] = tp_assign_add(table, aside, NULL);
    if (kind >= T_BACK) table_back(&c, kind, y, blocked ? rows : x, table, places);
    CHECK_MSG(tp_graph_status(g) == TP_OK, "%d: %s", kind, tp_graph_error(g));
    return c;
}
static void own_gather(const tp_call *k) { k->op->naive_f32(k); }

/* Two runs of it; which steps there are: bit 0 gather, bit 1 gather_grad. */
static int table_run(int kind, bool blocked, tp_tensor *y)
{
    table_case c = table_of(kind, blocked);
    const char *isa = kind == T_NAIVE ? "naive" : NULL;
    tp_device *d[2] = {tp_cpu_device_new(1, isa), tp_cpu_device_new(1, isa)};
    if (kind == T_OWN_GATHER) CHECK_OK(tp_device_add_kernel(d[0], "gather", own_gather));
    if (kind == T_OWN_LSTM) CHECK_OK(tp_device_add_kernel(d[0], "lstm", own_gather));
    if (kind == T_BACK_OWN) CHECK_OK(tp_device_add_kernel(d[0], "gather_grad", own_gather));
    tp_session_config config = tp_default_session_config();
    config.devices = d, config.n_devices = 2, config.precision = kind == T_HALF ? TP_PRECISION_BF16 : TP_PRECISION_F32;
    tp_session *s = tp_session_new(c.g, &config);
    CHECK_MSG(s != NULL, "%s", tp_last_error());
    tp_feed f;
    const tp_tensor *out[6];
    memset(&f, 0, sizeof f);
    if (c.fed) {
        f.node = c.fed;
        CHECK_OK(tp_tensor_resize(&f.value, TP_F32, c.fed->shape));
        for (int64_t i = 0; i < tp_tensor_size(&f.value); i++) tp_tensor_set(&f.value, i, (double)(i % 5) / 4);
    }
    int steps = 0;
    for (int run = 0; run < 2 && s; run++)
        if (CHECK_OK(tp_session_run(s, &f, c.fed ? 1 : 0, c.fetch, c.n, out)))
            for (int i = 0; i < c.n; i++) CHECK_OK(tp_tensor_copy(&y[i], out[i]));
    if (s) steps = plan_has(s, c.fetch, c.n, " gather ") + 2 * plan_has(s, c.fetch, c.n, " gather_grad ");
    tp_tensor_free(&f.value);
    tp_session_free(s);
    for (int i = 0; i < 2; i++) d[i]->close(d[i]);
    tp_graph_free(c.g);
    return steps;
}

/* Whatever the rewriting of a sequence over a table takes memory for may be what does not fit into the block at hand any more. */
TEST(out_of_memory_for_each_piece_of_a_table)
{
    table_case c = table_of(T_BACK, false);
    tp_node *fetch[96];
    const tp_tensor *out[96];
    tp_device *d = tp_cpu_device_new(1, NULL);
    tp_session_config config = tp_default_session_config();
    config.devices = &d, config.n_devices = 1;
    long failures = 0;
    for (int n = c.n; n <= TP_COUNT(fetch); n++) { /* fetches fill the block up to here or there */
        for (int i = 0; i < n; i++) fetch[i] = c.fetch[i % c.n];
        tp_session *s = tp_session_new(c.g, &config);
        for (long at = 1, failed = CHECK(s != NULL); failed; at++) {
            tp_test_fail_after(at);
            const tp_status st = tp_session_run(s, NULL, 0, fetch, n, out);
            failed = tp_test_alloc_failed();
            tp_test_alloc_reset();
            failures += failed;
            if (!CHECK_MSG(failed ? st == TP_ERR_NOMEM : st == TP_OK, "%d fetches, allocation %ld: status %d", n, at,
                           (int)st))
                break;
        }
        tp_session_free(s);
    }
    CHECK_MSG(failures > TP_COUNT(fetch), "%ld", failures);
    d->close(d);
    tp_graph_free(c.g);
}

TEST(a_sequence_works_on_a_table_only_where_it_may)
{
    /* steps that there are: 0 the sequence alone, 1 a gather, 2 a gather_grad, 3 both */
    static const int steps[T_KINDS] = {
        [T_WAITS] = 1,
        [T_WRITTEN_BEFORE] = 1,
        [T_STATE_OF_WRITTEN] = 1,
        [T_ASSIGNED] = 1,
        [T_PLACE_WRITTEN] = 1,
        [T_AS_LONG] = 1,
        [T_F64] = 1,
        [T_GATHERED_ELSEWHERE] = 1,
        [T_LIES_ELSEWHERE] = 1,
        [T_OWN_GATHER] = 1,
        [T_OWN_LSTM] = 1,
        [T_NAIVE] = 1,
        [T_HALF] = 1,
        [T_BACK_TWICE] = 2,
        [T_BACK_OTHER_PLACES] = 2,
        [T_BACK_OTHER_TABLE] = 2,
        [T_BACK_WAITS] = 2,
        [T_BACK_FED] = 2,
        [T_BACK_VIEW_FED] = 2,
        [T_BACK_OWN] = 2,
    };
    for (int kind = 0; kind < T_KINDS; kind++) {
        tp_tensor a[6], b[6];
        memset(a, 0, sizeof a);
        memset(b, 0, sizeof b);
        const int is = table_run(kind, false, a), blocked = table_run(kind, true, b);
        CHECK_MSG(is == (TP__FAST ? steps[kind] : blocked), "case %d: %s gather, %s gather_grad", kind,
                  is & 1 ? "a" : "no", is & 2 ? "a" : "no");
        CHECK((blocked & 1) == (kind != T_FED && kind != T_FED_BETWEEN));
        const double loose = kind == T_HALF ? 1e-2 : 1e-5;
        for (int i = 0; i < 6; i++)
            for (int64_t e = 0; a[i].data && e < tp_tensor_size(&a[i]); e++)
                if (!CHECK_MSG(fabs(tp_tensor_get(&a[i], e) - tp_tensor_get(&b[i], e)) <=
                                   loose * (1 + fabs(tp_tensor_get(&b[i], e))),
                               "case %d: value %d at %lld: %g, not %g", kind, i, (long long)e, tp_tensor_get(&a[i], e),
                               tp_tensor_get(&b[i], e)))
                    break;
        for (int i = 0; i < 6; i++) tp_tensor_free(&a[i]), tp_tensor_free(&b[i]);
    }
}

/* Activations that are made of plain nodes: values and derivatives from their formulas. */
TEST(gelu_silu_and_selu)
{
    static const float at[4] = {1.0f, -0.5f, 3.0f, 0.0f};
    static const double want[6][4] = {{0.84134475, -0.15426877, 2.9959503, 0},   /* gelu */
                                      {0.84119199, -0.15428599, 2.9963627, 0},   /* by tanh */
                                      {0.73105858, -0.18877033, 2.8577224, 0},   /* silu */
                                      {1.0833155, 0.13250491, 1.0119456, 0.5},   /* gelu' */
                                      {0, 0, 0, 0},                              /* gelu'', below */
                                      {1.05070099, -0.69175819, 3.15210296, 0}}; /* selu */
    tp_graph *g = tp_graph_new(NULL);
    tp_tensor t;
    int64_t four = 4;
    memset(&t, 0, sizeof t);
    CHECK_OK(tp_tensor_resize(&t, TP_F32, tp_make_shape_n(1, &four)));
    memcpy(t.data, at, sizeof at);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(1, &four)), *y[6];
    y[0] = tp_gelu(x), y[1] = tp_gelu_tanh(x), y[2] = tp_silu(x), y[5] = tp_selu(x);
    tp_gradients(tp_sum(y[0]), &x, 1, &y[3]);
    tp_gradients(tp_sum(y[3]), &x, 1, &y[4]);
    tp_feed feed;
    feed.node = x;
    feed.value = t;
    const tp_tensor *v[6];
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK_OK(tp_session_run(s, &feed, 1, y, 6, v))) {
        for (int k = 0; k < 6; k++)
            for (int i = 0; i < 4 && k != 4; i++) CHECK_NEAR(((const float *)v[k]->data)[i], want[k][i], 1e-6, 2e-6);
        for (int i = 0; i < 4; i++) { /* gelu'' = phi (2 - x^2) */
            const double a = (double)at[i], phi = exp(-a * a / 2) / sqrt(2 * 3.14159265358979323846);
            CHECK_NEAR(((const float *)v[4]->data)[i], phi * (2 - a * a), 1e-6, 1e-5);
        }
    }
    tp_session_free(s);
    tp_tensor_free(&t);
    tp_graph_free(g);
}

/* A float64 mean of many equal elements is as exact as one of few. */
TEST(mean_of_a_million)
{
    enum { LONG = 1000000 };
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F64, shape1(LONG)), *y = tp_mean(x);
    tp_session *s = tp_session_new(g, NULL);
    const tp_tensor *v;
    tp_feed f;
    memset(&f, 0, sizeof f);
    f.node = x;
    CHECK_OK(tp_tensor_resize(&f.value, TP_F64, shape1(LONG)));
    for (int i = 0; i < LONG; i++) ((double *)f.value.data)[i] = 0.1;
    if (CHECK_OK(tp_session_run(s, &f, 1, &y, 1, &v))) CHECK_NEAR(tp_tensor_get(v, 0), 0.1, 0, 2e-13);
    tp_tensor_free(&f.value);
    tp_session_free(s);
    tp_graph_free(g);
}

/* Softmax of rows that fill no vector or just one, and sums over a few rows or a single one, against doubles. */
TEST(rows_of_any_width)
{
    static const char *const isa[] = {"naive", "sse2", "avx2", NULL};
    static const int axis = 0;
    enum { MOST = 70 };
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, shape2(TP_ANY, TP_ANY)), *y[5];
    tp_node *label = tp_placeholder(g, "label", TP_I32, shape1(TP_ANY));
    y[0] = tp_softmax(x);
    y[1] = tp_sparse_softmax_cross_entropy(x, label);
    y[2] = tp_reduce_sum(x, &axis, 1, false);
    y[3] = tp_reduce_max(x, &axis, 1, false);
    y[4] = tp_reduce_mean(x, &axis, 1, false);
    for (int k = 0; k < TP_COUNT(isa); k++) {
        tp_session_config c = tp_default_session_config();
        c.isa = isa[k];
        tp_session *s = tp_session_new(g, &c);
        for (int rows = 1; rows <= 3 && s; rows += 2)
            for (int C = 1; C <= MOST; C++) {
                tp_feed feed[2];
                const tp_tensor *v[5];
                memset(feed, 0, sizeof feed);
                feed[0].node = x;
                feed[1].node = label;
                CHECK_OK(tp_tensor_resize(&feed[0].value, TP_F32, shape2(rows, C)));
                CHECK_OK(tp_tensor_resize(&feed[1].value, TP_I32, shape1(rows)));
                for (int i = 0; i < rows * C; i++)
                    tp_tensor_set(&feed[0].value, i, 8 * (double)tp_random_uniform(3, (uint64_t)C, (uint64_t)i) - 4);
                for (int b = 0; b < rows; b++) tp_tensor_set(&feed[1].value, b, (C - 1) / (b + 1));
                if (CHECK_OK(tp_session_run(s, feed, 2, y, 5, v))) {
                    double worst = 0, sum[MOST] = {0}, max[MOST];
                    for (int b = 0; b < rows; b++) {
                        double z = 0;
                        for (int i = 0; i < C; i++) {
                            const double a = tp_tensor_get(&feed[0].value, b * C + i);
                            z += exp(a);
                            sum[i] += a;
                            max[i] = b == 0 || a > max[i] ? a : max[i];
                        }
                        for (int i = 0; i < C; i++) {
                            const double p = exp(tp_tensor_get(&feed[0].value, b * C + i)) / z;
                            worst = tp_test_worse(worst, fabs(tp_tensor_get(v[0], b * C + i) - p));
                            if (i == (C - 1) / (b + 1))
                                worst = tp_test_worse(worst, fabs(tp_tensor_get(v[1], b) + log(p)));
                        }
                    }
                    for (int i = 0; i < C; i++) {
                        worst = tp_test_worse(worst, fabs(tp_tensor_get(v[2], i) - sum[i]));
                        worst = tp_test_worse(worst, fabs(tp_tensor_get(v[3], i) - max[i]));
                        worst = tp_test_worse(worst, fabs(tp_tensor_get(v[4], i) - sum[i] / rows));
                    }
                    CHECK_MSG(worst < 3e-6, "%s, (%d,%d): error %g", isa[k] ? isa[k] : "best", rows, C, worst);
                }
                tp_tensor_free(&feed[0].value);
                tp_tensor_free(&feed[1].value);
            }
        tp_session_free(s);
    }
    tp_graph_free(g);
}

/* Shapes with unknown dimensions, and sentences for what makes no sense. */
static void shape_is(const tp_node *n, const char *expected)
{
    char text[TP_SHAPE_TEXT];
    CHECK_MSG(!tp_is_poison(n) && strcmp(tp_shape_text(&n->shape, text), expected) == 0, "shape %s, expected %s: %s",
              tp_shape_text(&n->shape, text), expected, tp_graph_error(tp_node_graph(n)));
}

static tp_node *unknown(tp_graph *g, tp_dtype dtype, int nd, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t dim[4] = {a, b, c, d};
    return tp_placeholder(g, "x", dtype, tp_make_shape_n(nd, dim));
}

TEST(image_and_sequence_builders)
{
    for (int mistake = 0; mistake < 13; mistake++) {
        static const char *const part[] = {"",
                                           "Resize: input is (?,4), needs 4 dimensions (B,H,W,C)",
                                           "there are no images of 0 x 5",
                                           "exclude each other",
                                           "Resize does not work on int32",
                                           "needs (B,H,W,C), with pixels, and (B,H2,W2,2) of one element type",
                                           "border 2 is no tp_border",
                                           "needs (T,B,C), (B,L), (B), (B)",
                                           "labels are float32",
                                           "blank 5 is none of the classes",
                                           "axis 3 does not exist",
                                           "an axis is given twice",
                                           "Cumsum does not work on uint8"};
        const int axes[2] = {1, -1}, twice[2] = {0, -2};
        tp_graph *g = tp_graph_new(NULL);
        tp_node *image = unknown(g, TP_F32, 4, TP_ANY, 6, TP_ANY, 3), *flat = unknown(g, TP_F32, 2, TP_ANY, 4, 0, 0);
        tp_node *coords = unknown(g, TP_F32, 4, 7, 5, TP_ANY, 2), *logits = unknown(g, TP_F32, 3, TP_ANY, TP_ANY, 5, 0);
        tp_node *labels = unknown(g, TP_I32, 2, TP_ANY, TP_ANY, 0, 0), *n = unknown(g, TP_I64, 1, 8, 0, 0, 0);
        tp_resize_attrs r;
        tp_ctc_attrs c;
        memset(&r, 0, sizeof r);
        memset(&c, 0, sizeof c);
        r.out_h = 9, r.out_w = 5;
        switch (mistake) {
        case 0:
            shape_is(tp_resize_bilinear(image, &r), "(?,9,5,3)");
            r.data_format = TP_NCHW;
            shape_is(tp_resize_nearest(image, &r), "(?,6,9,5)");
            shape_is(tp_bilinear_sampler(image, coords, TP_BORDER_CONSTANT), "(7,5,?,3)");
            shape_is(tp_ctc_loss(logits, labels, n, n, NULL), "(8)");
            shape_is(tp_cumsum(flat, -1, false, true), "(?,4)");
            shape_is(tp_reverse(image, axes, 2), "(?,6,?,3)");
            break;
        case 1: tp_resize_bilinear(flat, &r); break;
        case 2: r.out_h = 0, tp_resize_bilinear(image, &r); break;
        case 3: r.align_corners = r.half_pixel_centers = true, tp_resize_nearest(image, &r); break;
        case 4: tp_resize_bilinear(tp_cast(image, TP_I32), &r); break;
        case 5: tp_bilinear_sampler(image, image, TP_BORDER_REPEAT); break;
        case 6: tp_bilinear_sampler(image, coords, 2); break;
        case 7: tp_ctc_loss(logits, n, n, n, NULL); break;
        case 8: tp_ctc_loss(logits, flat, n, n, NULL); break;
        case 9: c.blank = 5, tp_ctc_loss(logits, labels, n, n, &c); break;
        case 10: tp_cumsum(flat, 3, false, false); break;
        case 11: tp_reverse(flat, twice, 2); break;
        default: tp_cumsum(tp_cast(flat, TP_U8), 0, false, false); break;
        }
        CHECK_MSG((tp_graph_status(g) == TP_OK) == (mistake == 0), "mistake %d is none", mistake);
        CHECK_HAS(tp_graph_error(g), part[mistake]);
        tp_graph_free(g);
    }
}

/* The derivative that ctc_loss computes on the way, scaled by what comes back, against differences of the loss in double;
 * and labels and lengths that cannot be. */
TEST(ctc_loss_by_differences_and_with_bad_labels)
{
    enum { STEPS = 6, BATCH = 3, CLASSES = 4, LABELS = 3, N = STEPS * BATCH * CLASSES };
    const int64_t dim[3] = {STEPS, BATCH, CLASSES}, pair[2] = {BATCH, LABELS};
    tp_graph *g = tp_graph_new(NULL);
    double x[N];
    int32_t labels[BATCH * LABELS] = {1, 1, 2, 3, 2, 0, 0, 0, 0}, n_labels[BATCH] = {3, 2, 0},
                           n_steps[BATCH] = {6, 4, 5};
    tp_feed feed[4];
    memset(feed, 0, sizeof feed);
    for (int i = 0; i < N; i++) x[i] = 2 * sin(1.7 * i);
    tp_tensor_view(&feed[0].value, TP_F64, tp_make_shape_n(3, dim), x);
    tp_tensor_view(&feed[1].value, TP_I32, tp_make_shape_n(2, pair), labels);
    tp_tensor_view(&feed[2].value, TP_I32, shape1(BATCH), n_labels);
    tp_tensor_view(&feed[3].value, TP_I32, shape1(BATCH), n_steps);
    for (int i = 0; i < 4; i++) feed[i].node = tp_placeholder(g, "in", feed[i].value.dtype, feed[i].value.shape);
    tp_node *y = tp_ctc_loss(feed[0].node, feed[1].node, feed[2].node, feed[3].node, NULL), *loss, *dx;
    loss = tp_sum(tp_square(y));
    tp_gradients(loss, &feed[0].node, 1, &dx);
    tp_session *s = tp_session_new(g, NULL);
    const tp_tensor *v = NULL;
    double stated[N];
    if (CHECK_OK(tp_session_run(s, feed, 4, &dx, 1, &v))) memcpy(stated, v->data, sizeof stated);
    for (int i = 0; i < N; i++) {
        double f[2] = {0, 0};
        for (int side = 0; side < 2; side++) {
            x[i] += side ? 2e-5 : -1e-5;
            if (CHECK_OK(tp_session_run(s, feed, 4, &loss, 1, &v))) f[side] = tp_tensor_get(v, 0);
        }
        x[i] -= 1e-5;
        CHECK_NEAR(stated[i], (f[1] - f[0]) / 2e-5, 1e-6, 1e-6);
    }
    static const int bad[][3] = {{0, 0, 4}, {0, 0, 0}, {0, 1, -1}, {1, 0, 4}, {1, 2, -1}, {2, 0, 7}, {2, 1, -2}};
    for (int i = 0; i < TP_COUNT(bad); i++) { /* a label, their number, the number of steps */
        char text[32];
        int32_t *at = (bad[i][0] == 0 ? labels : bad[i][0] == 1 ? n_labels : n_steps) + bad[i][1], kept = *at;
        *at = bad[i][2];
        snprintf(text, sizeof text, "ctc_loss: %d is no label", bad[i][2]);
        CHECK(tp_session_run(s, feed, 4, &y, 1, &v) != TP_OK);
        CHECK_HAS(tp_last_error(), text);
        *at = kept;
    }
    CHECK_OK(tp_session_run(s, feed, 4, &y, 1, &v));
    tp_session_free(s);
    tp_graph_free(g);
}

/* A class that cannot be, of logit -inf, is one whose logit is very small: paths go around it. */
TEST(ctc_loss_goes_around_minus_infinity)
{
    enum { STEPS = 6, CLASSES = 4, N = STEPS * CLASSES };
    const int64_t dim[3] = {STEPS, 1, CLASSES}, pair[2] = {1, 2};
    tp_graph *g = tp_graph_new(NULL);
    double x[N], dx[2][N], loss[2] = {0, 0};
    int32_t labels[2] = {1, 2}, n_labels[1] = {2}, n_steps[1] = {STEPS};
    tp_feed f[4];
    memset(f, 0, sizeof f);
    for (int i = 0; i < N; i++) x[i] = sin(1.7 * i);
    tp_tensor_view(&f[0].value, TP_F64, tp_make_shape_n(3, dim), x);
    tp_tensor_view(&f[1].value, TP_I32, tp_make_shape_n(2, pair), labels);
    tp_tensor_view(&f[2].value, TP_I32, shape1(1), n_labels);
    tp_tensor_view(&f[3].value, TP_I32, shape1(1), n_steps);
    for (int i = 0; i < 4; i++) f[i].node = tp_placeholder(g, "in", f[i].value.dtype, f[i].value.shape);
    tp_node *fetch[2] = {tp_ctc_loss(f[0].node, f[1].node, f[2].node, f[3].node, NULL), NULL};
    tp_gradients(tp_sum(fetch[0]), &f[0].node, 1, &fetch[1]);
    tp_session *s = tp_session_new(g, NULL);
    for (int i = 0; i < 2; i++) {
        const tp_tensor *out[2];
        x[2 * CLASSES + 1] = x[3 * CLASSES] = i ? -1e3 : -INFINITY;
        if (!CHECK_OK(tp_session_run(s, f, 4, fetch, 2, out))) break;
        loss[i] = tp_tensor_get(out[0], 0);
        memcpy(dx[i], out[1]->data, sizeof dx[i]);
    }
    CHECK_NEAR(loss[0], loss[1], 1e-12, 1e-12);
    for (int i = 0; i < N; i++) CHECK_NEAR(dx[0][i], dx[1][i], 1e-12, 1e-12);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(ctc_loss_of_no_sequences)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_feed f[4];
    memset(f, 0, sizeof f);
    f[0].node = tp_placeholder(g, "x", TP_F32, tp_make_shape(5, TP_ANY, 4));
    f[1].node = tp_placeholder(g, "labels", TP_I32, tp_make_shape(TP_ANY, 2));
    f[2].node = tp_placeholder(g, "n", TP_I32, tp_make_shape(TP_ANY));
    f[3].node = tp_placeholder(g, "t", TP_I32, tp_make_shape(TP_ANY));
    tp_node *y = tp_ctc_loss(f[0].node, f[1].node, f[2].node, f[3].node, NULL), *fetch[2] = {y, NULL};
    tp_gradients(tp_sum(y), &f[0].node, 1, &fetch[1]);
    const tp_tensor *out[2];
    for (int i = 0; i < 4; i++) {
        tp_shape s = f[i].node->shape;
        s.dim[i == 0] = 0;
        tp_tensor_view(&f[i].value, i ? TP_I32 : TP_F32, s, "");
    }
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK_OK(tp_session_run(s, f, 4, fetch, 2, out))) {
        CHECK(tp_tensor_size(out[0]) == 0 && out[0]->shape.ndim == 1);
        CHECK(tp_tensor_size(out[1]) == 0 && out[1]->shape.ndim == 3);
    }
    tp_session_free(s);
    tp_graph_free(g);
}

/* Labels that no path spells, here two equal ones in two steps, cost infinity or, with zero_infinity, nothing, and their logits get no
 * derivative. The sequence beside them has one path. */
TEST(ctc_loss_of_labels_that_do_not_fit)
{
    enum { STEPS = 2, BATCH = 2, CLASSES = 3, N = STEPS * BATCH * CLASSES };
    static const double logits[N] = {0.5, -1, 2, 0.25, 1, -0.5, 1, 0.75, -2, 0, 0.5, 1.5};
    static const int32_t labels[BATCH * 2] = {1, 1, 1, 2}, twos[BATCH] = {2, 2};
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F64, tp_make_shape(STEPS, BATCH, CLASSES)), *fetch[8];
    tp_node *l = tp_placeholder(g, "labels", TP_I32, shape2(BATCH, 2));
    tp_node *n = tp_placeholder(g, "n", TP_I32, shape1(BATCH));
    for (int i = 0; i < 4; i++) { /* wide or not, zero_infinity or not */
        tp_ctc_attrs a;
        memset(&a, 0, sizeof a);
        a.zero_infinity = i & 1;
        tp_node *in = tp_cast(x, i & 2 ? TP_F64 : TP_F32);
        fetch[2 * i] = tp_ctc_loss(in, l, n, n, i ? &a : NULL);
        tp_gradients(tp_sum(fetch[2 * i]), &in, 1, &fetch[2 * i + 1]);
    }
    tp_feed f[3];
    const tp_tensor *v[8];
    memset(f, 0, sizeof f);
    f[0].node = x, f[1].node = l, f[2].node = n;
    tp_tensor_view(&f[0].value, TP_F64, x->shape, logits);
    tp_tensor_view(&f[1].value, TP_I32, l->shape, labels);
    tp_tensor_view(&f[2].value, TP_I32, n->shape, twos);
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK_OK(tp_session_run(s, f, 3, fetch, 8, v)))
        for (int i = 0; i < 4; i++) {
            double cost = 0;
            for (int t = 0; t < STEPS; t++) {
                const double *at = logits + (t * BATCH + 1) * CLASSES;
                double z = 0;
                for (int c = 0; c < CLASSES; c++) z += exp(at[c]);
                for (int c = 0; c < CLASSES; c++) {
                    const int64_t first = (t * BATCH + 0) * CLASSES + c;
                    CHECK(tp_tensor_get(v[2 * i + 1], first) == 0);
                    CHECK_NEAR(tp_tensor_get(v[2 * i + 1], first + CLASSES), exp(at[c]) / z - (c == t + 1), 1e-6, 0);
                }
                cost += log(z) - at[t + 1];
            }
            CHECK(tp_tensor_get(v[2 * i], 0) == (i & 1 ? 0 : (double)INFINITY));
            CHECK_NEAR(tp_tensor_get(v[2 * i], 1), cost, 0, 1e-6);
        }
    tp_session_free(s);
    tp_graph_free(g);
}

/* Steps first or samples first: the same costs and, in the other order, the same derivatives. */
TEST(ctc_loss_in_both_orders)
{
    enum { T = 5, B = 3, C = 4, L = 2 };
    const int64_t tbc[3] = {T, B, C}, btc[3] = {B, T, C}, bl[2] = {B, L}, b = B;
    tp_graph *g = tp_graph_new(NULL);
    const int swap[3] = {1, 0, 2};
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(3, tbc)), *turned = tp_transpose(x, swap, 3), *in[3],
            *w;
    static const char *const names[] = {"labels", "label_lengths", "logit_lengths"};
    for (int i = 0; i < 3; i++)
        in[i] = tp_placeholder(g, names[i], TP_I32, i ? tp_make_shape_n(1, &b) : tp_make_shape_n(2, bl));
    w = tp_placeholder(g, "w", TP_F32, tp_make_shape_n(1, &b));
    tp_node *y[4];
    tp_ctc_attrs a;
    memset(&a, 0, sizeof a);
    y[0] = tp_ctc_loss(x, in[0], in[1], in[2], NULL);
    a.batch_major = true;
    y[1] = tp_ctc_loss(turned, in[0], in[1], in[2], &a);
    tp_gradients(tp_sum(tp_mul(y[0], w)), &x, 1, &y[2]);
    tp_gradients(tp_sum(tp_mul(y[1], w)), &turned, 1, &y[3]);
    CHECK(tp_shape_equal(&y[3]->shape, &turned->shape) && y[3]->shape.dim[0] == btc[0] && y[3]->shape.dim[1] == btc[1]);
    float v[T * B * C];
    static const int32_t labels[B * L] = {1, 2, 3, 3, 2, 1}, n[B] = {2, 2, 1}, t[B] = {5, 4, 3};
    static const float weights[B] = {1, -2, 0.5f};
    for (int i = 0; i < T * B * C; i++) v[i] = (float)((i * 5) % 7) / 3;
    tp_feed f[5];
    const tp_tensor *out[4];
    memset(f, 0, sizeof f);
    f[0].node = x, f[1].node = in[0], f[2].node = in[1], f[3].node = in[2], f[4].node = w;
    tp_tensor_view(&f[0].value, TP_F32, x->shape, v);
    tp_tensor_view(&f[1].value, TP_I32, in[0]->shape, labels);
    tp_tensor_view(&f[2].value, TP_I32, in[1]->shape, n);
    tp_tensor_view(&f[3].value, TP_I32, in[2]->shape, t);
    tp_tensor_view(&f[4].value, TP_F32, w->shape, weights);
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK_OK(tp_session_run(s, f, 5, y, 4, out)))
        for (int i = 0; i < B; i++) {
            CHECK(tp_tensor_get(out[0], i) > 0 && tp_tensor_get(out[0], i) == tp_tensor_get(out[1], i));
            for (int q = 0; q < T; q++)
                for (int c = 0; c < C; c++) {
                    const double d = tp_tensor_get(out[2], (q * B + i) * C + c);
                    CHECK(d == tp_tensor_get(out[3], (i * T + q) * C + c) && (d == 0) == (q >= t[i]));
                }
        }
    tp_session_free(s);
    tp_graph_free(g);
}

TEST_MAIN()
