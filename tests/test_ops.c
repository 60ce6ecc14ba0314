/* Every row of the op table: against reference values, its gradient against finite differences, fast kernels against
 * naive loops, several threads against one. The cases stand in ref_ops_math.txt and ref_ops_nn.txt; ref_common.py
 * says how they are written. A row that no case uses fails the last test. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for anonymous memory */
#endif
#define TP_IMPLEMENTATION
#include "tp_graph.h"
#include "tp_test.h"

#include <fenv.h>
#include <float.h>
#include "op_cases.h"
#include "op_build.h"

/* ==== >>running ====================================================================================== */

static tp_precision precision; /* of the sessions below */

static tp_session *open_session(tp_graph *g, int threads, const char *isa)
{
    tp_session_config sc;
    memset(&sc, 0, sizeof sc);
    sc.precision = precision;
    sc.threads = threads;
    sc.isa = isa;
    tp_session *s = tp_session_new(g, &sc);
    CHECK_MSG(s != NULL, "no session: %s", tp_last_error());
    return s;
}

/* Run a case's op with all its outputs fetched; copies of the outputs go to y. */
static bool run_case(const op_case *c, const tp_op *row, bool unknown, int threads, const char *isa, tp_tensor *y,
                     int *n_out, bool compare)
{
    built b;
    bool ok = build(c, row, false, unknown, &b);
    tp_session *s = NULL;
    *n_out = 0;
    if (ok && !b.op) { ok = CHECK_MSG(false, "%s:%d: %s: %s", c->file, c->line, c->op, tp_graph_error(b.g)); }
    if (ok) s = open_session(b.g, threads, isa);
    if (s) {
        tp_node *fetch[MAX_VALUES] = {NULL};
        const tp_tensor *value[MAX_VALUES];
        const int n = b.op->n_out < MAX_VALUES ? b.op->n_out : MAX_VALUES;
        for (int i = 0; i < n; i++) fetch[i] = &b.op->out[i];
        const tp_status st = tp_session_run(s, b.feed, b.n_feed, fetch, n, value);
        ok = CHECK_MSG(st == TP_OK, "%s:%d: %s: %s", c->file, c->line, c->op, tp_last_error());
        for (int i = 0; ok && i < n; i++) {
            ok = CHECK_OK(tp_tensor_copy(&y[i], value[i])) &&
                 CHECK_MSG(tp_shape_compatible(&fetch[i]->shape, &value[i]->shape),
                           "%s:%d: %s: the shape rule does not agree with itself", c->file, c->line, c->op);
            *n_out = i + 1;
        }
        for (int i = 0; ok && compare && i < c->n_var; i++) {
            tp_tensor v;
            memset(&v, 0, sizeof v);
            ok = CHECK_OK(tp_session_read(s, tp_node_variable(b.var[i]), &v));
            if (ok && c->newvar[i].dtype)
                ok = close_enough(c, "variable", i, &v, &c->newvar[i], c->tol > 0 ? c->tol : 1e-5);
            tp_tensor_free(&v);
        }
        for (int i = 0; ok && n > 1 && !c->n_var && i < n; i++) { /* each alone: the others are dead */
            ok = CHECK_OK(tp_session_run(s, b.feed, b.n_feed, &fetch[i], 1, value)) &&
                 CHECK_MSG(tp_tensor_bytes(value[0]) == 0 || (row->flags & TP_OP_RANDOM) ||
                               memcmp(value[0]->data, y[i].data, tp_tensor_bytes(value[0])) == 0,
                           "%s:%d: %s: output %d alone is another", c->file, c->line, c->op, i);
        }
    } else {
        ok = false;
    }
    tp_session_free(s);
    built_free(&b);
    return ok;
}

static void free_outputs(tp_tensor *y)
{
    for (int i = 0; i < MAX_VALUES; i++) tp_tensor_free(&y[i]);
}

TEST(rows_give_the_reference_values)
{
    case_list l = all_cases();
    tp_set_log(tp_test_drop_log, NULL);
    for (int i = 0; i < l.n; i++) {
        const op_case *c = &l.item[i];
        const tp_op *row = tp_op_find(c->op);
        if (!CHECK_MSG(row != NULL, "%s:%d: there is no op '%s'", c->file, c->line, c->op) || c->n_out == 0) continue;
        for (int unknown = 0; unknown < 2; unknown++) {
            tp_tensor y[MAX_VALUES];
            int n = 0;
            memset(y, 0, sizeof y);
            if (run_case(c, row, unknown != 0, 1, "naive", y, &n, true) &&
                CHECK_MSG(n == c->n_out, "%s:%d: %s has %d outputs, the case %d", c->file, c->line, c->op, n, c->n_out))
                for (int k = 0; k < n; k++)
                    if (c->out[k].dtype)
                        close_enough(c, unknown ? "unknown dimensions" : "naive", k, &y[k], &c->out[k],
                                     c->tol > 0 ? c->tol : 1e-5);
            free_outputs(y);
        }
    }
    tp_set_log(NULL, NULL);
    CHECK(l.n > 300);
    free_cases(&l);
}

TEST(fast_kernels_agree_with_naive_loops_and_threads_change_nothing)
{
    case_list l = all_cases();
    tp_set_log(tp_test_drop_log, NULL);
    for (int i = 0; i < l.n; i++) {
        const op_case *c = &l.item[i];
        const tp_op *row = tp_op_find(c->op);
        tp_tensor naive[MAX_VALUES], one[MAX_VALUES], three[MAX_VALUES];
        int n = 0, n1 = 0, n3 = 0;
        if (!row) continue;
        memset(naive, 0, sizeof naive);
        memset(one, 0, sizeof one);
        memset(three, 0, sizeof three);
        if (run_case(c, row, false, 1, "naive", naive, &n, false) &&
            run_case(c, row, false, 1, NULL, one, &n1, false) && run_case(c, row, false, 3, NULL, three, &n3, false))
            for (int k = 0; k < n && k < n1 && k < n3; k++) {
                close_enough(c, "fast", k, &one[k], &naive[k], c->tol > 0 ? c->tol : 1e-5);
                CHECK_MSG(tp_tensor_bytes(&one[k]) == 0 ||
                              memcmp(one[k].data, three[k].data, tp_tensor_bytes(&one[k])) == 0,
                          "%s:%d: %s: three threads give other bits than one", c->file, c->line, c->op);
            }
        free_outputs(naive);
        free_outputs(one);
        free_outputs(three);
    }
    tp_set_log(NULL, NULL);
    free_cases(&l);
}

/* ==== >>memory ======================================================================================== */

#ifndef _WIN32
/* Memory between two pages that may not be touched: its first byte is the first of a page, or its last byte the last. */
typedef struct fenced {
    char *pages, *data;
    size_t size, bytes;
} fenced;

static void fence(fenced *f, size_t bytes, bool at_end, size_t align)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (bytes + page - 1) / page * page + 2 * page;
    if (size != f->size) { /* else what is there serves again */
        if (f->pages) munmap(f->pages, f->size);
        f->pages = (char *)mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (!CHECK(f->pages != MAP_FAILED)) exit(1);
        CHECK(mprotect(f->pages, page, PROT_NONE) == 0 && mprotect(f->pages + size - page, page, PROT_NONE) == 0);
    }
    f->size = size;
    f->bytes = bytes;
    f->data = at_end ? f->pages + size - page - (bytes + align - 1) / align * align : f->pages + page;
    memset(f->data, 0xa5, bytes); /* no number that any test expects */
}

/* The kernel that the executor takes for these operands; NULL: none. */
static tp_kernel_fn kernel_of(const tp_op *row, const tp_call *k)
{
    bool f64 = false, half = false;
    const tp_operand *x = k->in;
    for (int i = 0; i < k->n_in + k->n_out + k->n_var; i++) {
        f64 = f64 || x[i].dtype == TP_F64;
        half = half || x[i].dtype == TP_F16 || x[i].dtype == TP_BF16;
    }
    if (row->flags & TP_OP_ANY_DTYPE) return k->device->isa && row->fast ? row->fast : row->naive_f32;
    if (half) return NULL; /* the executor converts */
    return f64 ? row->naive_f64 : k->device->isa && row->fast ? row->fast : row->naive_f32;
}

/* One kernel with all its operands and its scratch behind fences; only output `alone` is wanted (-1: all). The outputs are
 * what they should be, where the case says it, and the inputs are what they were. */
static void call_fenced(const op_case *c, const tp_op *row, built *b, tp_device *d, bool at_end, int alone)
{
    tp_operand x[4 * MAX_VALUES];
    static fenced f[4 * MAX_VALUES], scratch;
    const uint64_t step = 0;
    int64_t fault[2] = {0, 0};
    const int n_out = b->op->n_out, n = c->n_in + n_out + c->n_var;
    tp_call k;
    memset(&k, 0, sizeof k);
    memset(x, 0, sizeof x);
    if (n > TP_COUNT(x)) return;
    k.device = d, k.op = row, k.attrs = b->op->attrs, k.step = &step, k.fault = fault, k.fault_id = 1;
    k.n_in = c->n_in, k.n_out = n_out, k.n_var = c->n_var;
    k.in = x, k.out = x + c->n_in, k.var = x + c->n_in + n_out;
    for (int i = 0; i < n; i++) {
        const int o = i - c->n_in, v = o - n_out;
        const tp_tensor *t = o < 0 ? &b->feed[i].value : v >= 0 ? &c->var[v] : NULL;
        const bool unread = o < 0 && i < 32 && (row->shape_only >> i & 1u);
        x[i].dtype = t ? t->dtype : b->op->out[o].dtype;
        x[i].shape = t ? t->shape : b->op->out[o].shape;
        const size_t size = tp_dtype_size(x[i].dtype), bytes = (size_t)tp_shape_size(&x[i].shape) * size;
        fence(&f[i], bytes, at_end, size);
        if (t && bytes) memcpy(f[i].data, t->data, bytes);
        x[i].data = unread || (alone >= 0 && o >= 0 && v < 0 && o != alone) ? NULL : f[i].data;
    }
    const tp_kernel_fn kernel = kernel_of(row, &k);
    fence(&scratch, kernel && row->scratch ? row->scratch(&k) : 0, at_end, 64);
    k.scratch = scratch.bytes ? scratch.data : NULL;
    k.scratch_bytes = scratch.bytes;
    if (kernel) kernel(&k);
    for (int i = 0; i < n && kernel; i++) {
        tp_tensor t;
        const int o = i - c->n_in;
        memset(&t, 0, sizeof t);
        tp_tensor_view(&t, x[i].dtype, x[i].shape, f[i].data);
        if (o < 0)
            CHECK_MSG(f[i].bytes == 0 || memcmp(f[i].data, b->feed[i].value.data, f[i].bytes) == 0,
                      "%s:%d: %s writes its input %d", c->file, c->line, c->op, i);
        else if (o < n_out && x[i].data && c->out[o].dtype == x[i].dtype && !(row->flags & TP_OP_VIEW))
            close_enough(c, "between fences", o, &t, &c->out[o], c->tol > 0 ? c->tol : 1e-5);
    }
}

/* The plain loops in float and in double, and the fast kernels. */
TEST(kernels_touch_nothing_but_their_operands)
{
    case_list l = all_cases();
    tp_device *d[2];
    d[0] = tp_cpu_device_new(1, "naive");
    d[1] = tp_cpu_device_new(1, NULL);
    tp_set_log(tp_test_drop_log, NULL);
    for (int i = 0; i < l.n && CHECK(d[0] && d[1]); i++) {
        const op_case *c = &l.item[i];
        const tp_op *row = tp_op_find(c->op);
        for (int kind = 0; row && kind < 3; kind++) {
            built b;
            if (kind < 2 && c->n_out == 0) continue; /* a large one */
            if (build(c, row, kind == 1, false, &b) && b.op)
                for (int at_end = 0; at_end < 2; at_end++) {
                    call_fenced(c, row, &b, d[kind / 2], at_end != 0, -1);
                    for (int o = 0; o < b.op->n_out && b.op->n_out > 1 && at_end && !c->n_var; o++)
                        call_fenced(c, row, &b, d[kind / 2], true, o);
                }
            built_free(&b);
        }
    }
    for (int i = 0; i < 2; i++)
        if (d[i]) d[i]->close(d[i]);
    tp_set_log(NULL, NULL);
    free_cases(&l);
}
#endif

/* ==== >>functions of reals ============================================================================ */

typedef tp_node *(*unary)(tp_node *x);
static tp_node *low_cut(tp_node *x) { return tp_clip(x, -0.5f, 2.25f); }
static tp_node *straight(tp_node *x) { return tp_affine(x, -2.5f, 0.75f); }
static tp_node *leaking(tp_node *x) { return tp_leaky_relu(x, 0.25f); }
static double at_low_cut(double x) { return x < -0.5 ? -0.5 : x > 2.25 ? 2.25 : x; }
static double at_straight(double x) { return -2.5 * x + 0.75; }
static double at_leaking(double x) { return x > 0 ? x : 0.25 * x; }
static double at_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double at_softplus(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }
static double at_elu(double x) { return x > 0 ? x : expm1(x); }
static double at_relu(double x) { return 0 > x ? 0 : x; }
static double at_square(double x) { return x * x; }
static double at_rsqrt(double x) { return 1 / sqrt(x); }
static double at_reciprocal(double x) { return 1 / x; }
static double at_neg(double x) { return -x; }
static double at_sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
static double at_gelu(double x) { return 0.5 * x * (1 + erf(x / sqrt(2.0))); }
static double at_silu(double x) { return x / (1 + exp(-x)); }
static double at_selu(double x) { return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * expm1(x)); }
static const struct {
    const char *name;
    unary fn;
    double (*at)(double x);
    double tol; /* of what a float is, in parts of 2^-23 */
} functions[] = {{"sin", tp_sin, sin, 1},
                 {"cos", tp_cos, cos, 1},
                 {"asin", tp_asin, asin, 1},
                 {"acos", tp_acos, acos, 1},
                 {"atan", tp_atan, atan, 1},
                 {"exp", tp_exp, exp, 2},
                 {"ln", tp_ln, log, 2},
                 {"erf", tp_erf, erf, 4},
                 {"tanh", tp_tanh, tanh, 4},
                 {"sigmoid", tp_sigmoid, at_sigmoid, 4},
                 {"softplus", tp_softplus, at_softplus, 6},
                 {"elu", tp_elu, at_elu, 6},
                 {"relu", tp_relu, at_relu, 0},
                 {"leaky_relu", leaking, at_leaking, 0},
                 {"square", tp_square, at_square, 1},
                 {"sqrt", tp_sqrt, sqrt, 1},
                 {"rsqrt", tp_rsqrt, at_rsqrt, 2},
                 {"reciprocal", tp_reciprocal, at_reciprocal, 1},
                 {"neg", tp_neg, at_neg, 0},
                 {"abs", tp_abs, fabs, 0},
                 {"sign", tp_sign, at_sign, 0},
                 {"floor", tp_floor, floor, 0},
                 {"ceil", tp_ceil, ceil, 0},
                 {"round", tp_round, rint, 0},
                 {"clip", low_cut, at_low_cut, 0},
                 {"affine", straight, at_straight, 4},
                 {"gelu", tp_gelu, at_gelu, 0},
                 {"silu", tp_silu, at_silu, 0},
                 {"selu", tp_selu, at_selu, 0}};

/* Numbers of every size and sign, halves and whole ones, and what is no number. */
static int kinds_of_numbers(float *x)
{
    static const float some[] = {0,     0.5f,    1,       1.5f,  2,     2.5f,        3,      4.75f,      5,     7,
                                 8,     0.25f,   0.75f,   1e-3f, 1e-7f, 1e-20f,      1e-36f, 1e-30f,     0.1f,  0.3f,
                                 0.9f,  0.99f,   1.01f,   11,    17.3f, 31,          87,     88.9f,      103,   200,
                                 1234,  65537,   999999,  1e6f,  3e6f,  16777216,    1e10f,  3e18f,      1e30f, 3e38f,
                                 0.26f, 0.2679f, 0.7071f, 1.57f, 3.14f, 1.41421354f, 4.71f,  0.70710677f};
    int n = 0;
    for (int i = 0; i < TP_COUNT(some); i++) x[n++] = some[i], x[n++] = -some[i];
    x[n++] = INFINITY, x[n++] = -INFINITY, x[n++] = NAN;
    for (int i = 0; i < 300; i++) x[n++] = (float)(i - 150) * 0.0731f;
    return n;
}

/* Is v what a float should hold of `want`, up to `tol` units in the last place? What is smaller than all normal numbers may be 0. */
static bool is_float_of(float v, double want, double tol)
{
    if (isnan(want)) return isnan(v);
    const double most = 3.4028235677973366e38, size = fabs(want);
    if (size >= most) return isinf(v) && (v > 0) == (want > 0);
    if (size > 3.4e38 && isinf(v)) return (v > 0) == (want > 0);
    if (size < 1.1754944e-38) return fabs((double)v) <= 1.1754945e-38;
    return fabs((double)v - want) <= (tol + 0.5) * size / 8388608.0;
}

TEST(functions_of_every_kind_of_number)
{
    enum { MOST = 500 };
    static float x[MOST];
    const int64_t n = kinds_of_numbers(x);
    for (int fast = 0; fast < 2; fast++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *in = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(1, &n)), *y[TP_COUNT(functions)];
        const tp_tensor *v[TP_COUNT(functions)];
        for (int f = 0; f < TP_COUNT(functions); f++) y[f] = functions[f].fn(in);
        tp_session *s = open_session(g, 1, fast ? NULL : "naive");
        tp_feed feed;
        memset(&feed, 0, sizeof feed);
        feed.node = in;
        tp_tensor_view(&feed.value, TP_F32, in->shape, x);
        if (CHECK_OK(tp_session_run(s, &feed, 1, y, TP_COUNT(functions), v)))
            for (int f = 0; f < TP_COUNT(functions); f++)
                for (int i = 0; i < n; i++) {
                    const double want = functions[f].at((double)x[i]);
                    const float got = ((const float *)v[f]->data)[i];
                    /* of several roundings, of which one may cancel; and what a composed one does with no numbers */
                    const bool composed =
                        functions[f].fn == tp_gelu || functions[f].fn == tp_selu || functions[f].fn == tp_silu;
                    if (composed && !isfinite(x[i])) continue;
                    const bool ok = composed ? fabs((double)got - want) <= 1e-6 * (1 + fabs(want))
                                             : is_float_of(got, want, functions[f].tol);
                    if (!ok && functions[f].fn == straight && fabs((double)got - want) < 3e-7) continue;
                    CHECK_MSG(ok, "%s(%.9g) is %.9g, expected %.9g (%s)", functions[f].name, (double)x[i], (double)got,
                              want, fast ? "fast" : "naive");
                }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* Bases and exponents of every kind, against the C library's pow. */
TEST(pow_of_every_kind_of_number)
{
    static const float some[] = {0,        1,        2,     3,       5,       7,     0.5f,   0.25f, 1.5f,
                                 2.5f,     0.333f,   7.3f,  8,       100,     1e-3f, 1e-30f, 1e30f, 16777215,
                                 16777216, 33554432, 65537, 0.9999f, 1.0001f, 1e10f, 20.25f, 127,   150};
    enum { N = 2 * TP_COUNT(some) + 3 };
    float base[N], x[N * N], y[N * N];
    int n = 0;
    for (int i = 0; i < TP_COUNT(some); i++) base[n++] = some[i], base[n++] = -some[i];
    base[n++] = INFINITY, base[n++] = -INFINITY, base[n++] = NAN;
    for (int i = 0; i < N * N; i++) x[i] = base[i / N], y[i] = base[i % N];
    const int64_t size = N * N;
    tp_graph *g = tp_graph_new(NULL);
    tp_node *a = tp_placeholder(g, "a", TP_F32, tp_make_shape_n(1, &size)),
            *b = tp_placeholder(g, "b", TP_F32, tp_make_shape_n(1, &size)), *p[2];
    p[0] = tp_pow(a, b);
    p[1] = tp_pow(tp_cast(a, TP_F64), tp_cast(b, TP_F64));
    tp_session *s = open_session(g, 1, NULL);
    tp_feed feed[2];
    const tp_tensor *v[2];
    memset(feed, 0, sizeof feed);
    feed[0].node = a, feed[1].node = b;
    tp_tensor_view(&feed[0].value, TP_F32, a->shape, x);
    tp_tensor_view(&feed[1].value, TP_F32, a->shape, y);
    if (CHECK_OK(tp_session_run(s, feed, 2, p, 2, v)))
        for (int i = 0; i < size; i++) {
            const double want = pow((double)x[i], (double)y[i]);
            const float got = ((const float *)v[0]->data)[i];
            CHECK_MSG(is_float_of(got, want, 0.01) && (want != 0 || !signbit(got) == !signbit(want)),
                      "%.9g ^ %.9g is %.9g, expected %.9g", (double)x[i], (double)y[i], (double)got, want);
            const double in_double = tp_tensor_get(v[1], i);
            CHECK_MSG(in_double == want || (isnan(want) && isnan(in_double)) || fabs(want) < 2.3e-308,
                      "%.9g ^ %.9g is %.17g in double, expected %.17g", (double)x[i], (double)y[i], in_double, want);
        }
    tp_session_free(s);
    tp_graph_free(g);
}

/* ==== >>gradients ===================================================================================== */

/* Random weights as a fed placeholder of n's shape. */
static tp_node *random_like(built *b, const tp_shape *s, const char *name, uint64_t key, tp_tensor *t)
{
    tp_node *w = tp_placeholder(b->g, name, TP_F64, *s);
    if (tp_tensor_resize(t, TP_F64, *s) != TP_OK) return w;
    for (int64_t i = 0; i < tp_tensor_size(t); i++)
        tp_tensor_set(t, i, 2 * (double)tp_random_uniform(key, 1, (uint64_t)i) - 1);
    feed_add(b, w, t);
    return w;
}

/* The largest difference between the graph's derivative and central differences, over what is allowed: right is <= 1;
 * -1 if there is nothing to differentiate. order 1: loss = sum of w y, by the inputs. order 2: loss = sum of u dx for
 * the dx of order 1, by the inputs and by w. */
static double gradient_error(const op_case *c, const tp_op *row, int order, char *why, size_t size)
{
    built b;
    tp_node *x[3 * MAX_VALUES], *dx[3 * MAX_VALUES], *term[MAX_VALUES], *loss = NULL;
    tp_tensor w[MAX_VALUES], u[MAX_VALUES];
    tp_tensor *source[3 * MAX_VALUES]; /* the tensor behind x[i] */
    int n_x = 0, n_term = 0, n_float = 0;
    double worst = -1;
    memset(w, 0, sizeof w);
    memset(u, 0, sizeof u);
    memset(dx, 0, sizeof dx);
    snprintf(why, size, "nothing to differentiate");
    if (!build(c, row, true, false, &b) || !b.op) {
        snprintf(why, size, "%s", b.g ? tp_graph_error(b.g) : "no graph");
        built_free(&b);
        return 1e9;
    }
    for (int i = 0; i < c->n_in; i++)
        if (b.in[i]->dtype == TP_F64 && !(i < 32 && ((row->shape_only >> i) & 1u))) {
            x[n_x] = b.in[i];
            source[n_x++] = b.f64[i].dtype ? &b.f64[i] : (tp_tensor *)(uintptr_t)&c->in[i];
        }
    n_float = n_x;
    for (int i = 0; i < b.op->n_out && i < MAX_VALUES; i++) {
        char name[16];
        if (b.op->out[i].dtype != TP_F64 || !tp_shape_known(&b.op->out[i].shape)) continue;
        snprintf(name, sizeof name, "w%d", i);
        tp_node *weight = random_like(&b, &b.op->out[i].shape, name, (uint64_t)i + 7, &w[i]);
        term[n_term++] = tp_sum(tp_mul(&b.op->out[i], weight));
        if (order == 2) {
            x[n_x] = weight;
            source[n_x++] = &w[i];
        }
    }
    if (n_float > 0 && n_term > 0) {
        loss = n_term == 1 ? term[0] : tp_add_n(term, n_term);
        tp_gradients(loss, x, n_float, dx);
        if (order == 2) {
            n_term = 0;
            for (int i = 0; i < n_float; i++) {
                char name[16];
                snprintf(name, sizeof name, "u%d", i);
                if (dx[i])
                    term[n_term++] =
                        tp_sum(tp_mul(dx[i], random_like(&b, &source[i]->shape, name, (uint64_t)i + 77, &u[i])));
            }
            loss = n_term == 0 ? NULL : n_term == 1 ? term[0] : tp_add_n(term, n_term);
            memset(dx, 0, sizeof dx);
            if (loss) tp_gradients(loss, x, n_x, dx);
        }
    }
    if (tp_graph_status(b.g) != TP_OK) {
        snprintf(why, size, "%s", tp_graph_error(b.g));
        worst = 1e9;
        loss = NULL;
    }
    tp_session *s = loss ? open_session(b.g, 1, NULL) : NULL;
    for (int i = 0; s && i < n_x; i++) {
        const tp_tensor *value = NULL;
        tp_tensor given;
        const int64_t n = tp_tensor_size(source[i]), step = n > 24 ? n / 24 : 1;
        memset(&given, 0, sizeof given);
        if (worst < 0) worst = 0;
        if (dx[i]) {
            if (tp_session_run(s, b.feed, b.n_feed, &dx[i], 1, &value) != TP_OK ||
                tp_tensor_copy(&given, value) != TP_OK || !tp_shape_equal(&given.shape, &source[i]->shape)) {
                snprintf(why, size, "derivative by x%d: %.200s", i, tp_last_error());
                worst = 1e9;
                tp_tensor_free(&given);
                break;
            }
        }
        for (int64_t k = 0; k < n; k += step) {
            const double v = ((double *)source[i]->data)[k], h = 1e-5 * (fabs(v) > 1 ? fabs(v) : 1);
            double f[2] = {NAN, NAN};
            for (int side = 0; side < 2; side++) {
                ((double *)source[i]->data)[k] = side ? v + h : v - h;
                if (tp_session_run(s, b.feed, b.n_feed, &loss, 1, &value) == TP_OK) f[side] = tp_tensor_get(value, 0);
            }
            ((double *)source[i]->data)[k] = v;
            const double measured = (f[1] - f[0]) / (2 * h), stated = dx[i] ? tp_tensor_get(&given, k) : 0;
            const double error = fabs(measured - stated) / (3e-6 * (1 + fabs(measured)));
            if (!(error <= worst)) {
                worst = error >= 0 ? error : 1e9; /* a NaN is no small error */
                snprintf(why, size, "by %s%d[%lld]: %.9g, differences say %.9g", i < n_float ? "x" : "w",
                         i < n_float ? i : i - n_float, (long long)k, stated, measured);
            }
        }
        tp_tensor_free(&given);
    }
    if (loss && !s) worst = 1e9;
    tp_session_free(s);
    for (int i = 0; i < MAX_VALUES; i++) {
        tp_tensor_free(&w[i]);
        tp_tensor_free(&u[i]);
    }
    built_free(&b);
    return worst;
}

static void check_gradients(int order)
{
    case_list l = all_cases();
    tp_set_log(tp_test_drop_log, NULL);
    int n = 0;
    for (int i = 0; i < l.n; i++) {
        const op_case *c = &l.item[i];
        const tp_op *row = tp_op_find(c->op);
        char why[256];
        if (!row || !row->grad || c->n_out == 0 || c->n_var || c->nograd[0] || (order == 2 && c->nograd2[0])) continue;
        const double error = gradient_error(c, row, order, why, sizeof why);
        CHECK_MSG(!(error > 1), "%s:%d: %s: derivative %d %s", c->file, c->line, c->op, order, why);
        n += error >= 0;
    }
    tp_set_log(NULL, NULL);
    CHECK(n > 100);
    free_cases(&l);
}

TEST(gradients_agree_with_finite_differences) { check_gradients(1); }
TEST(second_derivatives_agree_with_finite_differences) { check_gradients(2); }

/* -- the checker itself: wrong gradients must be found */

static void cube(int64_t n, void *y, const void *const *in, const void *attrs)
{
    const double *x = (const double *)in[0];
    (void)attrs;
    for (int64_t i = 0; i < n; i++) ((double *)y)[i] = x[i] * x[i] * x[i];
}
static tp_status cube_infer(tp_infer *s)
{
    s->out[0] = s->in[0];
    return TP_OK;
}
static void right_grad(tp_grad *g) { g->din[0] = tp_mul(g->dout[0], tp_affine(tp_square(g->in[0]), 3, 0)); }
static void flipped_grad(tp_grad *g) { g->din[0] = tp_mul(g->dout[0], tp_affine(tp_square(g->in[0]), -3, 0)); }
static void scaled_grad(tp_grad *g) { g->din[0] = tp_mul(g->dout[0], tp_affine(tp_square(g->in[0]), 3.001f, 0)); }
static void zero_grad(tp_grad *g) { g->din[0] = tp_zeros_like(g->in[0]); }
static void missing_grad(tp_grad *g) { (void)g; }
static void nan_grad(tp_grad *g) { g->din[0] = tp_ln(tp_neg(tp_square(g->in[0]))); }

TEST(wrong_gradients_are_found)
{
    void (*const grad[])(tp_grad *) = {right_grad, flipped_grad, scaled_grad, zero_grad, missing_grad, nan_grad};
    for (int i = 0; i < TP_COUNT(grad); i++) {
        tp_op row = {"cube",  "Cube", TP_OP_ELEMENTWISE,
                     1,       1,      1,
                     NULL,    0,      cube_infer,
                     grad[i], NULL,   NULL,
                     NULL,    NULL,   cube,
                     NULL,    NULL,   NULL,
                     NULL,    NULL,   0,
                     NULL,    NULL,   0,
                     0,       0,      0,
                     0,       NULL};
        op_case c;
        char why[256], text[] = "float32 1 4 0.5 -1.25 2 -0.75";
        memset(&c, 0, sizeof c);
        c.file = "test_ops.c";
        c.n_in = c.n_out = 1;
        snprintf(c.op, sizeof c.op, "cube");
        CHECK(parse_tensor(text, &c.in[0], 0));
        const double error = gradient_error(&c, &row, 1, why, sizeof why);
        CHECK_MSG((error > 1) == (i > 0), "gradient %d: error %g: %s", i, error, why);
        tp_tensor_free(&c.in[0]);
    }
}

/* ==== >>coverage ====================================================================================== */

/* Rows that no case uses, and where they are tested instead. */
static const char *const tested_elsewhere[][2] = {
    {"placeholder", "every case feeds one"}, {"constant", "test_graph.c"}, {"variable", "test_graph.c"},
    {"read_after", "test_graph.c"},          {"dropout", "test_ops_nn.c"}, {"random", "test_ops_nn.c"},
};

TEST(every_row_has_a_case)
{
    case_list l = all_cases();
    const tp_op *row;
    for (int i = 0; (row = tp_op_registry(i)) != NULL; i++) {
        bool found = false;
        for (int k = 0; k < l.n && !found; k++) found = strcmp(l.item[k].op, row->name) == 0;
        for (int k = 0; k < TP_COUNT(tested_elsewhere) && !found; k++)
            found = strcmp(tested_elsewhere[k][0], row->name) == 0;
        CHECK_MSG(found, "no case uses the row '%s'", row->name);
        CHECK_MSG(row->label && row->infer, "the row '%s' has no label or no shape rule", row->name);
        for (int k = 0; k < i; k++)
            CHECK_MSG(strcmp(tp_op_registry(k)->name, row->name) != 0, "two rows are named '%s'", row->name);
        for (const tp_attr *a = row->attr; a && a->name; a++) CHECK(a->offset < row->attr_size);
    }
    for (int k = 0; k < TP_COUNT(tested_elsewhere); k++)
        CHECK_MSG(tp_op_find(tested_elsewhere[k][0]) != NULL, "there is no row '%s' any more", tested_elsewhere[k][0]);
    CHECK(tp_op_registry(-1) == NULL && tp_op_find("no such op") == NULL);
    free_cases(&l);
}

/* ==== >>builders ====================================================================================== */

static tp_node *input(tp_graph *g, int n, int64_t a, int64_t b, int64_t c)
{
    const int64_t dim[3] = {a, b, c};
    return tp_placeholder(g, "x", TP_F32, tp_make_shape_n(n, dim));
}

static void shape_is(int line, const tp_node *n, const char *expected)
{
    char text[TP_SHAPE_TEXT];
    CHECK_MSG(!tp_is_poison(n) && strcmp(tp_shape_text(&n->shape, text), expected) == 0,
              "line %d: shape %s, expected %s: %s", line, tp_shape_text(&n->shape, text), expected,
              tp_graph_error(tp_node_graph(n)));
}

TEST(builders_infer_shapes_with_unknown_dimensions)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = input(g, 3, TP_ANY, 4, 6), *y = input(g, 2, 4, TP_ANY, 0), *z = input(g, 1, 6, 0, 0), *part[4], *index;
    const int axes[] = {0, -1}, perm[] = {2, 0, 1};
    const int64_t zero[3] = {0, 0, 0}, size[3] = {-1, 2, 3}, two[3] = {2, 1, 2};
#define SHAPE(node_, text_) shape_is(__LINE__, node_, text_)
    SHAPE(tp_add(x, y), "(?,4,6)");
    SHAPE(tp_mul(z, x), "(?,4,6)");
    SHAPE(tp_greater(x, z), "(?,4,6)");
    SHAPE(tp_select(tp_less(x, z), x, z), "(?,4,6)");
    SHAPE(tp_reduce_sum(x, NULL, 0, false), "()");
    SHAPE(tp_reduce_mean(x, axes, 2, false), "(4)");
    SHAPE(tp_reduce_max(x, axes, 2, true), "(1,4,1)");
    SHAPE(tp_reduce_prod(x, axes, 1, false), "(4,6)");
    SHAPE(tp_argmax(x, -1), "(?,4)");
    SHAPE(tp_top_k(x, 3, &index), "(?,4,3)");
    SHAPE(index, "(?,4,3)");
    CHECK(index->dtype == TP_I32);
    SHAPE(tp_reshape_to(x, tp_make_shape_n(2, zero)), "(0,0)");
    {
        const int64_t to[2] = {TP_ANY, 24};
        SHAPE(tp_reshape_to(x, tp_make_shape_n(2, to)), "(?,24)");
    }
    SHAPE(tp_reshape_like(z, y), "(4,?)");
    SHAPE(tp_batch_flatten(x), "(?,24)");
    SHAPE(tp_flatten(x), "(?)");
    SHAPE(tp_flatten(z), "(6)");
    SHAPE(tp_expand_dims(x, 1), "(?,1,4,6)");
    SHAPE(tp_expand_dims(x, -1), "(?,4,6,1)");
    SHAPE(tp_squeeze(x, 0), "(4,6)");
    SHAPE(tp_transpose(x, perm, 3), "(6,?,4)");
    SHAPE(tp_transpose(x, NULL, 0), "(6,4,?)");
    part[0] = part[1] = x;
    SHAPE(tp_concat(part, 2, 0), "(?,4,6)");
    SHAPE(tp_concat(part, 2, 1), "(?,8,6)");
    SHAPE(tp_stack(part, 2, -1), "(?,4,6,2)");
    tp_split(x, 2, 1, part);
    SHAPE(part[1], "(?,2,6)");
    tp_unstack(x, 1, 4, part);
    SHAPE(part[3], "(?,6)");
    SHAPE(tp_slice(x, zero, size), "(?,2,3)");
    SHAPE(tp_pad(x, two, zero, TP_PAD_REFLECT, 0), "(?,5,8)");
    SHAPE(tp_tile(x, two), "(?,4,12)");
    SHAPE(tp_gather(x, tp_argmax(y, 0)), "(?,4,6)");
    SHAPE(tp_one_hot(tp_argmax(x, 0), 9, 1, 0), "(4,6,9)");
    SHAPE(tp_sum_to_like(x, z), "(6)");
    SHAPE(tp_broadcast_like(z, x), "(?,4,6)");
    SHAPE(tp_global_norm(&x, 1), "()");
    SHAPE(tp_in_top_k(y, tp_argmax(y, 1), 2), "(4)");
    SHAPE(tp_zeros_like(x), "(?,4,6)");
    SHAPE(tp_group(g, part, 4, "all"), "(0)");
    SHAPE(tp_with_dependencies(z, part, 4), "(6)");
    CHECK(tp_cast(x, TP_F32) == x);
    CHECK(tp_cast(x, TP_U8)->dtype == TP_U8);
    CHECK(tp_graph_status(g) == TP_OK);
#undef SHAPE
    tp_graph_free(g);
}

/* Each builder makes one mistake in a graph of its own; the sentence must hold `part`. */
#define MISTAKE(part_, call_)                                                                              \
    do {                                                                                                   \
        tp_graph *g = tp_graph_new(NULL);                                                                  \
        tp_node *x = input(g, 2, 2, 3, 0), *v = input(g, 1, 4, 0, 0), *h = input(g, 2, TP_ANY, TP_ANY, 0); \
        tp_node *i = tp_cast(x, TP_I32), *c = tp_greater(x, x), *out[4], *list[2];                         \
        list[0] = x;                                                                                       \
        list[1] = v;                                                                                       \
        (void)h;                                                                                           \
        (void)c;                                                                                           \
        (void)i;                                                                                           \
        (void)out;                                                                                         \
        (void)list;                                                                                        \
        CHECK(tp_graph_status(g) == TP_OK);                                                                \
        CHECK(tp_is_poison(call_));                                                                        \
        CHECK(tp_graph_status(g) != TP_OK);                                                                \
        CHECK_HAS(tp_graph_error(g), part_);                                                               \
        CHECK(tp_is_poison(tp_mean(tp_relu(tp_poison(g)))));                                               \
        tp_graph_free(g);                                                                                  \
    } while (0)

/* x[:, 1:-2] of rows of any length, and its gradient; a row that is too short is a sentence of the run. */
TEST(slices_end_before_the_end)
{
    const int64_t begin[2] = {0, 1}, size[2] = {-1, -3};
    const float v[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, TP_ANY)), *fetch[2];
    fetch[0] = tp_slice(x, begin, size);
    tp_gradients(tp_sum(tp_square(fetch[0])), &x, 1, &fetch[1]);
    tp_session *s = tp_session_new(g, NULL);
    const tp_tensor *out[2];
    tp_feed feed;
    memset(&feed, 0, sizeof feed);
    feed.node = x;
    tp_tensor_view(&feed.value, TP_F32, tp_make_shape(2, 5), v);
    if (CHECK_MSG(s && tp_session_run(s, &feed, 1, fetch, 2, out) == TP_OK, "%s", tp_last_error())) {
        const double want[4] = {1, 2, 6, 7};
        CHECK(tp_tensor_size(out[0]) == 4);
        for (int i = 0; i < 4; i++) CHECK_NEAR(tp_tensor_get(out[0], i), want[i], 0, 0);
        for (int i = 0; i < 10; i++)
            CHECK_NEAR(tp_tensor_get(out[1], i), i % 5 == 1 || i % 5 == 2 ? 2 * (double)v[i] : 0, 0, 0);
    }
    tp_tensor_view(&feed.value, TP_F32, tp_make_shape(5, 2), v);
    if (s)
        CHECK_ERR(tp_session_run(s, &feed, 1, fetch, 2, out), TP_ERR_ARG,
                  "the slice from 1 of size -3 leaves dimension 1");
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(mistakes_are_sentences)
{
    const int twice[] = {1, 1}, far[] = {5}, bad_perm[] = {0, 0};
    const int64_t three[2] = {3, 3}, minus[2] = {-1, 0}, one[2] = {1, 1}, five[1] = {5}, anys[2] = {TP_ANY, TP_ANY};
    MISTAKE("shapes (2,3) and (4) do not broadcast", tp_add(x, v));
    MISTAKE("float32 and int32 differ", tp_mul(x, i));
    MISTAKE("RealDiv does not work on int32", tp_div(i, i));
    MISTAKE("Exp does not work on bool", tp_exp(c));
    MISTAKE("LogicalAnd takes bool", tp_logical_and(x, c));
    MISTAKE("the condition is float32, not bool", tp_select(x, x, x));
    MISTAKE("low 2 is above high 1", tp_clip(x, 2, 1));
    MISTAKE("must be whole numbers", tp_affine(i, 0.5f, 0));
    MISTAKE("axis 5 does not exist in shape (2,3)", tp_reduce_sum(x, far, 1, false));
    MISTAKE("an axis is given twice", tp_reduce_sum(x, twice, 2, false));
    MISTAKE("Mean does not work on int32", tp_mean(i));
    MISTAKE("All takes bool", tp_reduce_all(x, NULL, 0, false));
    MISTAKE("add_n does not broadcast", tp_add_n(list, 2));
    MISTAKE("cannot be summed to (4)", tp_sum_to_like(x, v));
    MISTAKE("does not broadcast to (4)", tp_broadcast_like(x, v));
    MISTAKE("axis -3 does not exist", tp_argmax(x, -3));
    MISTAKE("the 4 largest of the last axis of shape (2,3) do not exist", tp_top_k(x, 4, NULL));
    MISTAKE("they should be (B,C) and (B)", tp_in_top_k(x, i, 1));
    MISTAKE("6 elements, which do not make (5)", tp_reshape_to(x, tp_make_shape_n(1, five)));
    MISTAKE("two unknown dimensions", tp_reshape_to(x, tp_make_shape_n(2, anys)));
    MISTAKE("has 6 elements, (4) has 4", tp_reshape_like(x, v));
    MISTAKE("a scalar has no batch dimension", tp_batch_flatten(tp_sum(x)));
    MISTAKE("no place 4 for a new dimension", tp_expand_dims(x, 4));
    MISTAKE("dimension 1 of shape (2,3) is not 1", tp_squeeze(x, 1));
    MISTAKE("perm is no permutation", tp_transpose(x, bad_perm, 2));
    MISTAKE("they may differ along axis 0 only", tp_concat(list, 2, 0));
    MISTAKE("cannot be split into 2 equal parts", (tp_split(x, 2, 1, out), out[1]));
    MISTAKE("they should be alike", tp_stack(list, 2, 0));
    MISTAKE("is not 3 long", (tp_unstack(x, 0, 3, out), out[0]));
    MISTAKE("leaves dimension 0 of shape (2,3)", tp_slice(x, minus, three));
    MISTAKE("leaves dimension 0 of shape (2,3)", tp_slice(x, one, three));
    MISTAKE("not enough elements to mirror", tp_pad(x, three, one, TP_PAD_REFLECT, 0));
    MISTAKE("makes no sense", tp_pad(x, minus, one, TP_PAD_CONSTANT, 0));
    MISTAKE("no tp_pad_mode", tp_pad(x, one, one, 7, 0));
    MISTAKE("cannot be repeated -1 times", tp_tile(x, minus));
    MISTAKE("indices are float32", tp_gather(x, v));
    MISTAKE("depth 0", tp_one_hot(i, 0, 1, 0));
    MISTAKE("CheckNumerics does not work on int32", tp_check_numerics(i, ""));
}

TEST(bad_values_fail_the_run)
{
    tp_graph *g = tp_graph_new(NULL);
    const int64_t three = 3;
    const tp_shape s = tp_make_shape_n(1, &three);
    tp_node *x = tp_placeholder(g, "x", TP_F32, s), *i = tp_placeholder(g, "i", TP_I32, s);
    tp_node *checked = tp_check_numerics(x, "weights"), *rows = tp_gather(x, i);
    tp_session *session = open_session(g, 1, NULL);
    float values[3] = {1, NAN, 2};
    int32_t index[3] = {0, 3, 1};
    const tp_tensor *y = NULL;
    tp_feed feed[2];
    memset(feed, 0, sizeof feed);
    feed[0].node = x;
    feed[1].node = i;
    tp_tensor_view(&feed[0].value, TP_F32, s, values);
    tp_tensor_view(&feed[1].value, TP_I32, s, index);
    CHECK_ERR(tp_session_run(session, feed, 1, &checked, 1, &y), TP_ERR_NUMERIC, "element 1 is NaN or infinite");
    values[1] = 5;
    CHECK_OK(tp_session_run(session, feed, 1, &checked, 1, &y));
    CHECK(tp_session_run(session, feed, 2, &rows, 1, &y) < 0);
    CHECK_HAS(tp_last_error(), "index 3 is outside");
    for (int bad = -1; bad <= 3; bad += 4) { /* of the last axis too, there and back */
        tp_node *in[3] = {x, i, x}, *there = tp_apply(g, tp_op_find("take_last"), in, 2, NULL);
        tp_node *back = tp_apply(g, tp_op_find("put_last"), in, 3, NULL);
        char sentence[80];
        snprintf(sentence, sizeof sentence, "index %d is outside the last axis", bad);
        index[1] = bad;
        CHECK_ERR(tp_session_run(session, feed, 2, &there, 1, &y), TP_ERR_NUMERIC, sentence);
        CHECK_ERR(tp_session_run(session, feed, 2, &back, 1, &y), TP_ERR_NUMERIC, sentence);
    }
    index[1] = 2;
    if (CHECK_OK(tp_session_run(session, feed, 2, &rows, 1, &y))) CHECK_NEAR(tp_tensor_get(y, 1), 2, 0, 0);
    tp_session_free(session);
    tp_graph_free(g);
}

TEST(half_precision_goes_through_float)
{
    const tp_dtype half[2] = {TP_F16, TP_BF16};
    for (int i = 0; i < 2; i++) {
        tp_graph *g = tp_graph_new(NULL);
        const float values[3] = {1.5f, -2.25f, 0.75f};
        tp_tensor t, out;
        const int64_t three = 3;
        memset(&t, 0, sizeof t);
        memset(&out, 0, sizeof out);
        tp_tensor_view(&t, TP_F32, tp_make_shape_n(1, &three), values);
        tp_node *x = tp_cast(tp_identity(tp_constant(g, &t)), half[i]), *one = tp_const_as(g, half[i], 1);
        tp_node *y = tp_select(tp_greater(x, one), tp_mul(tp_add(x, one), x), tp_neg(tp_exp(tp_zeros_like(x))));
        tp_session *s = open_session(g, 1, NULL);
        CHECK(y->dtype == half[i]);
        if (s && CHECK_OK(tp_session_eval(s, y, &out))) {
            CHECK(out.dtype == half[i]);
            CHECK_NEAR(tp_tensor_get(&out, 0), 3.75, 0, 0);
            CHECK_NEAR(tp_tensor_get(&out, 1), -1, 0, 0);
            CHECK_NEAR(tp_tensor_get(&out, 2), -1, 0, 0);
        }
        tp_tensor_free(&out);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* The fast kernel gets float32, and room for what it packs of that. */
TEST(half_precision_products)
{
    const tp_dtype half[2] = {TP_F16, TP_BF16};
    const int64_t dims[3] = {7, 5, 9};
    for (int i = 0; i < 2; i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_tensor out;
        memset(&out, 0, sizeof out);
        tp_node *a = tp_get_variable_as(g, "a", half[i], tp_make_shape_n(2, dims), tp_init_ones());
        tp_node *b = tp_get_variable_as(g, "b", half[i], tp_make_shape_n(2, dims + 1), tp_init_ones());
        tp_session *s = open_session(g, 2, NULL);
        if (s && CHECK_OK(tp_session_eval(s, tp_matmul(a, b), &out)))
            for (int64_t k = 0; k < 63; k++) CHECK_NEAR(tp_tensor_get(&out, k), 5, 0, 0);
        tp_tensor_free(&out);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* A precision is for products and for what follows them. What is fed is float32, and an op alone that is no product gives
 * the bits that it always gives. */
TEST(what_is_no_product_keeps_its_bits_in_any_precision)
{
    static const tp_precision lower[] = {TP_PRECISION_TF32, TP_PRECISION_BF16, TP_PRECISION_F16};
    case_list l = all_cases();
    int compared = 0;
    tp_set_log(tp_test_drop_log, NULL);
    for (int i = 0; i < l.n; i++) {
        const op_case *c = &l.item[i];
        const tp_op *row = tp_op_find(c->op);
        tp_tensor y[MAX_VALUES], z[MAX_VALUES];
        int n = 0, m = 0;
        if (!row || (row->flags & TP_OP_HALF) || c->n_out == 0) continue;
        memset(y, 0, sizeof y);
        if (!run_case(c, row, false, 1, NULL, y, &n, false)) continue;
        for (int k = 0; k < TP_COUNT(lower); k++) {
            memset(z, 0, sizeof z);
            precision = lower[k];
            run_case(c, row, false, 1, NULL, z, &m, false);
            precision = TP_PRECISION_F32;
            CHECK(m == n);
            for (int q = 0; q < m; q++, compared++)
                CHECK_MSG(
                    z[q].dtype == y[q].dtype && tp_shape_equal(&z[q].shape, &y[q].shape) &&
                        (tp_tensor_bytes(&y[q]) == 0 || memcmp(z[q].data, y[q].data, tp_tensor_bytes(&y[q])) == 0),
                    "%s:%d: %s: output %d has other bits in precision %d", c->file, c->line, c->op, q, (int)lower[k]);
            free_outputs(z);
        }
        free_outputs(y);
    }
    tp_set_log(NULL, NULL);
    CHECK(compared > 600);
    free_cases(&l);
}

TEST(building_survives_out_of_memory)
{
    bool failed = true;
    for (long n = 1; failed && n < 5000; n++) {
        tp_test_fail_after(n);
        tp_graph *g = tp_graph_new(NULL);
        tp_status st = TP_ERR_NOMEM;
        if (g) {
            tp_node *x = input(g, 3, TP_ANY, 4, 6), *part[2], *dx = NULL, *k;
            tp_split(tp_relu(tp_mul(x, x)), 2, 1, part);
            tp_node *list[2];
            list[0] = tp_reduce_max(tp_transpose(part[0], NULL, 0), NULL, 0, false);
            list[1] = tp_mean(tp_stack(part, 2, 0));
            tp_node *y = tp_add(tp_add_n(list, 2), tp_sum(tp_top_k(tp_concat(part, 2, -1), 2, &k)));
            tp_gradients(tp_add(y, tp_global_norm(part, 2)), &x, 1, &dx);
            tp_group(g, list, 2, NULL);
            st = tp_graph_status(g);
            if (st == TP_OK) CHECK(dx != NULL && !tp_is_poison(dx));
        }
        failed = tp_test_alloc_failed();
        CHECK_MSG(failed ? st == TP_ERR_NOMEM : st == TP_OK, "allocation %ld: %s", n, tp_status_name(st));
        tp_graph_free(g);
        CHECK(tp_test_live_blocks() == 0);
    }
    CHECK(!failed);
    tp_test_alloc_reset();
}

typedef struct kept_log {
    char text[512];
} kept_log;
static void keep(void *user, tp_log_level level, const char *message)
{
    (void)level;
    snprintf(((kept_log *)user)->text, sizeof((kept_log *)user)->text, "%s", message);
}

TEST(print_says_what_is_there)
{
    tp_graph *g = tp_graph_new(NULL);
    const int64_t n = 24;
    float values[24];
    for (int i = 0; i < 24; i++) values[i] = i < 12 ? 1.0f : -2.0f;
    tp_tensor t, out;
    kept_log log;
    memset(&t, 0, sizeof t);
    memset(&out, 0, sizeof out);
    memset(&log, 0, sizeof log);
    tp_tensor_view(&t, TP_F32, tp_make_shape_n(1, &n), values);
    tp_node *y = tp_print(tp_constant(g, &t), "here");
    tp_session *s = open_session(g, 1, NULL);
    tp_set_log(keep, &log);
    CHECK_OK(tp_session_eval(s, y, &out));
    tp_set_log(NULL, NULL);
    CHECK_HAS(log.text, "here: shape (24), mean -0.5, rms 1.58114, [1 1 1");
    CHECK_HAS(log.text, "-2 -2 ...]");
    tp_tensor_free(&out);
    tp_session_free(s);
    tp_graph_free(g);
}

/* As many elements as are shown, one more, and none. */
TEST(print_of_few_and_many)
{
    for (int64_t n = 0; n < 23; n++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(1, &n)), *y = tp_print(x, NULL);
        float values[32];
        kept_log log;
        char want[512], elements[256] = "";
        for (int i = 0; i < 32; i++) values[i] = 2;
        for (int64_t i = 0; i < n && i < 20; i++)
            snprintf(elements + strlen(elements), sizeof elements - strlen(elements), "%s2", i ? " " : "");
        snprintf(want, sizeof want, "Print: shape (%d)%s, [%s%s", (int)n, n ? ", mean 2, rms 2" : "", elements,
                 n > 20 ? " ...]" : "]");
        tp_session *s = open_session(g, 1, NULL);
        tp_feed feed;
        memset(&feed, 0, sizeof feed);
        memset(&log, 0, sizeof log);
        feed.node = x;
        tp_tensor_view(&feed.value, TP_F32, x->shape, values);
        tp_set_log(keep, &log);
        CHECK_OK(tp_session_run(s, &feed, 1, &y, 1, NULL));
        tp_set_log(NULL, NULL);
        CHECK_STR(log.text, want);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* Nothing flows through whole numbers, bools or sources; between floating types it comes back in the type it went in. */
TEST(gradients_through_casts)
{
    static const tp_dtype dtypes[] = {TP_F32, TP_F64, TP_F16, TP_BF16, TP_I32, TP_I64, TP_U8, TP_BOOL};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < TP_COUNT(dtypes); k++) {
            tp_graph *g = tp_graph_new(NULL);
            const int64_t three = 3;
            tp_node *x = tp_placeholder(g, "x", dtypes[i], tp_make_shape_n(1, &three)), *dx = NULL;
            tp_gradients(tp_sum(tp_cast(tp_cast(x, dtypes[k]), TP_F32)), &x, 1, &dx);
            CHECK(tp_graph_status(g) == TP_OK);
            if (tp_dtype_is_float(dtypes[k])) CHECK(dx && dx->dtype == dtypes[i]);
            else CHECK_MSG(dx == NULL, "through %s", tp_dtype_name(dtypes[k]));
            tp_gradients(tp_sum(tp_stop_gradient(x)), &x, 1, &dx);
            CHECK(dx == NULL);
            tp_graph_free(g);
        }
}

/* Unknown dimensions look equal when the graph is built, and may differ in a run. */
TEST(reshaped_like_an_unknown_shape)
{
    tp_graph *g = tp_graph_new(NULL);
    const int64_t any[2] = {TP_ANY, TP_ANY}, two[2] = {2, 6}, three[2] = {3, 4}, four[2] = {4, 4};
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(2, any)),
            *ref = tp_placeholder(g, "ref", TP_F32, tp_make_shape_n(2, any)), *y = tp_reshape_like(x, ref);
    tp_session *s = open_session(g, 1, NULL);
    const float v[16] = {0};
    const tp_tensor *out = NULL;
    tp_feed feed[2];
    memset(feed, 0, sizeof feed);
    feed[0].node = x, feed[1].node = ref;
    tp_tensor_view(&feed[0].value, TP_F32, tp_make_shape_n(2, two), v);
    tp_tensor_view(&feed[1].value, TP_F32, tp_make_shape_n(2, three), v);
    if (CHECK_OK(tp_session_run(s, feed, 2, &y, 1, &out))) CHECK(out->shape.dim[0] == 3 && out->shape.dim[1] == 4);
    tp_tensor_view(&feed[1].value, TP_F32, tp_make_shape_n(2, four), v);
    CHECK_ERR(tp_session_run(s, feed, 2, &y, 1, &out), TP_ERR_SHAPE, "shape (2,6) has 12 elements, (4,4) has 16");
    tp_session_free(s);
    tp_graph_free(g);
}

/* Kernels that look things up: any index beyond the ends fails the run, and the next run is fine. */
TEST(indices_beyond_the_ends_fail_the_run)
{
    static const int64_t bad[] = {-1, 7, -1000000000, 1000000000};
    for (int i = 0; i < 4 * TP_COUNT(bad); i++) {
        tp_graph *g = tp_graph_new(NULL);
        const int64_t rows[2] = {9, i & 1 ? 7 : 3}, table[2] = {7, 4}, n = 9, limit = i & 1 ? 7 : 3;
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(2, rows)),
                *ids = tp_placeholder(g, "ids", i & 2 ? TP_I64 : TP_I32, tp_make_shape_n(1, &n)),
                *t = tp_placeholder(g, "t", TP_F32, tp_make_shape_n(2, table)), *y[2];
        y[0] = tp_sparse_softmax_cross_entropy(x, ids); /* of few classes, and of as many as a vector takes */
        y[1] = tp_gather(t, ids);
        const float v[64] = {0};
        for (int f = 0; f < 2; f++)
            for (int naive = 0; naive < 2; naive++) {
                tp_session *s = open_session(g, 1, naive ? "naive" : NULL);
                tp_tensor id;
                tp_feed feed[2];
                memset(&id, 0, sizeof id);
                memset(feed, 0, sizeof feed);
                feed[0].node = f ? t : x, feed[1].node = ids;
                tp_tensor_view(&feed[0].value, TP_F32, feed[0].node->shape, v);
                CHECK_OK(tp_tensor_resize(&id, ids->dtype, ids->shape));
                for (int k = 0; k < 9; k++) tp_tensor_set(&id, k, k % 3);
                tp_tensor_view(&feed[1].value, id.dtype, id.shape, id.data);
                CHECK_OK(tp_session_run(s, feed, 2, &y[f], 1, NULL));
                const int64_t wrong = bad[i / 4] == 7 && !f ? limit : bad[i / 4];
                char part[64];
                tp_tensor_set(&id, 8, (double)wrong);
                snprintf(part, sizeof part, f ? "index %lld is outside" : "label %lld is outside", (long long)wrong);
                CHECK_ERR(tp_session_run(s, feed, 2, &y[f], 1, NULL), TP_ERR_NUMERIC, part);
                tp_tensor_set(&id, 8, 2);
                CHECK_OK(tp_session_run(s, feed, 2, &y[f], 1, NULL));
                tp_session_free(s);
                tp_tensor_free(&id);
            }
        tp_graph_free(g);
    }
}

/* ==== >>derivatives by formulas ======================================================================= */

static double slope_recip(double x) { return -1 / (x * x); }
static double slope_sqrt(double x) { return 0.5 / sqrt(x); }
static double slope_rsqrt(double x) { return -0.5 / (x * sqrt(x)); }
static double slope_neg_sin(double x) { return -sin(x); }
static double slope_asin(double x) { return 1 / sqrt(1 - x * x); }
static double slope_acos(double x) { return -1 / sqrt(1 - x * x); }
static double slope_atan(double x) { return 1 / (1 + x * x); }
static double slope_erf(double x) { return 2 / sqrt(acos(-1.0)) * exp(-x * x); }
static double slope_tanh(double x) { return 1 - tanh(x) * tanh(x); }
static double slope_sigmoid(double x) { return at_sigmoid(x) * (1 - at_sigmoid(x)); }
static double slope_elu(double x) { return x > 0 ? 1 : exp(x); }
static double slope_abs(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
static double slope_square(double x) { return 2 * x; }
static double slope_neg(double x) { return x < 1e9 ? -1 : 0; }
static double slope_relu(double x) { return x > 0 ? 1 : 0; }
static double slope_leaky(double x) { return x > 0 ? 1 : 0.25; }
static double slope_clip(double x) { return x >= -0.5 && x <= 2.25 ? 1 : 0; }
static double slope_affine(double x) { return x < 1e9 ? -2.5 : 0; }

/* In double, to the digits of a double: no constant of a gradient is a float. */
TEST(derivatives_in_double)
{
    static const struct {
        unary fn;
        double (*slope)(double x);
        const char *name;
        bool positive, small;
    } of[] = {{tp_reciprocal, slope_recip, "reciprocal", true, false},
              {tp_sqrt, slope_sqrt, "sqrt", true, false},
              {tp_rsqrt, slope_rsqrt, "rsqrt", true, false},
              {tp_exp, exp, "exp", false, false},
              {tp_ln, at_reciprocal, "ln", true, false},
              {tp_sin, cos, "sin", false, false},
              {tp_cos, slope_neg_sin, "cos", false, false},
              {tp_asin, slope_asin, "asin", false, true},
              {tp_acos, slope_acos, "acos", false, true},
              {tp_atan, slope_atan, "atan", false, false},
              {tp_erf, slope_erf, "erf", false, false},
              {tp_tanh, slope_tanh, "tanh", false, false},
              {tp_sigmoid, slope_sigmoid, "sigmoid", false, false},
              {tp_softplus, at_sigmoid, "softplus", false, false},
              {tp_elu, slope_elu, "elu", false, false},
              {tp_abs, slope_abs, "abs", false, false},
              {tp_square, slope_square, "square", false, false},
              {tp_neg, slope_neg, "neg", false, false},
              {tp_relu, slope_relu, "relu", false, false},
              {leaking, slope_leaky, "leaky_relu", false, false},
              {low_cut, slope_clip, "clip", false, false},
              {straight, slope_affine, "affine", false, false}};
    enum { N = 9 };
    static const double at[N] = {-2.75, -0.9, -0.5, -0.125, 0, 0.3, 0.75, 2.25, 3.5};
    const int64_t n = N;
    for (int f = 0; f < TP_COUNT(of); f++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F64, tp_make_shape_n(1, &n)), *dx = NULL;
        tp_gradients(tp_sum(of[f].fn(x)), &x, 1, &dx);
        tp_session *s = open_session(g, 1, NULL);
        const tp_tensor *v = NULL;
        tp_feed feed;
        memset(&feed, 0, sizeof feed);
        feed.node = x;
        tp_tensor_view(&feed.value, TP_F64, x->shape, at);
        if (CHECK(dx != NULL) && CHECK_OK(tp_session_run(s, &feed, 1, &dx, 1, &v)))
            for (int i = 0; i < N; i++) {
                if ((of[f].positive && at[i] <= 0) || (of[f].small && fabs(at[i]) >= 1)) continue;
                const double want = of[f].slope(at[i]), got = tp_tensor_get(v, i);
                CHECK_MSG(fabs(got - want) <= 1e-13 * (1 + fabs(want)), "%s at %g: %.17g, expected %.17g", of[f].name,
                          at[i], got, want);
            }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* Who gets the gradient where two are equal: the first of two operands, all of a reduction in equal parts; and a power of 0. */
TEST(derivatives_where_values_meet)
{
    tp_graph *g = tp_graph_new(NULL);
    const int64_t n = 4, six[2] = {2, 3};
    static const double va[4] = {1, 2, 3, 0}, vb[4] = {1, 3, 2, 2}, vx[6] = {5, 1, 5, 2, 2, 2};
    tp_node *a = tp_placeholder(g, "a", TP_F64, tp_make_shape_n(1, &n)), *b = tp_placeholder(g, "b", TP_F64, a->shape),
            *ab[2];
    tp_node *x = tp_placeholder(g, "x", TP_F64, tp_make_shape_n(2, six)), *dx[10];
    const int last = 1;
    ab[0] = a, ab[1] = b;
    tp_gradients(tp_sum(tp_maximum(a, b)), ab, 2, dx);
    tp_gradients(tp_sum(tp_minimum(a, b)), ab, 2, dx + 2);
    tp_gradients(tp_sum(tp_pow(a, b)), ab, 2, dx + 4);
    tp_gradients(tp_sum(tp_reduce_max(x, &last, 1, false)), &x, 1, dx + 6);
    tp_gradients(tp_sum(tp_reduce_min(x, &last, 1, true)), &x, 1, dx + 7);
    tp_gradients(tp_reduce_max(x, NULL, 0, false), &x, 1, dx + 8);
    tp_gradients(tp_sum(tp_reduce_prod(x, &last, 1, false)), &x, 1, dx + 9);
    static const double want[10][6] = {{1, 0, 1, 0},
                                       {0, 1, 0, 1},
                                       {1, 1, 0, 1},
                                       {0, 0, 1, 0},
                                       {1, 12, 6, 0},
                                       {0, 8 * 0.69314718055994530942, 9 * 1.0986122886681098, 0},
                                       {.5, 0, .5, 1.0 / 3, 1.0 / 3, 1.0 / 3},
                                       {0, 1, 0, 1.0 / 3, 1.0 / 3, 1.0 / 3},
                                       {.5, 0, .5, 0, 0, 0},
                                       {5, 25, 5, 4, 4, 4}};
    tp_session *s = open_session(g, 1, NULL);
    tp_feed feed[3];
    const tp_tensor *v[10];
    memset(feed, 0, sizeof feed);
    feed[0].node = a, feed[1].node = b, feed[2].node = x;
    tp_tensor_view(&feed[0].value, TP_F64, a->shape, va);
    tp_tensor_view(&feed[1].value, TP_F64, a->shape, vb);
    tp_tensor_view(&feed[2].value, TP_F64, x->shape, vx);
    if (CHECK_MSG(tp_session_run(s, feed, 3, dx, 10, v) == TP_OK, "%s", tp_last_error()))
        for (int i = 0; i < 10; i++)
            for (int e = 0; e < (i < 6 ? 4 : 6); e++)
                CHECK_MSG(fabs(tp_tensor_get(v[i], e) - want[i][e]) <= 1e-12,
                          "gradient %d[%d] is %.17g, expected %.17g", i, e, tp_tensor_get(v[i], e), want[i][e]);
    tp_session_free(s);
    tp_graph_free(g);
}

/* The first three derivatives of x^0, x^1, x^2 and the first of x^x at 0 are numbers, which 0 times an infinity is not. */
TEST(derivatives_of_powers_at_zero)
{
    const int64_t n = 3;
    static const double at[3] = {0, 1, -2}, want[10][3] = {{0, 0, 0}, {0, 0, 0},  {0, 0, 0}, {1, 1, 1}, {0, 0, 0},
                                                           {0, 0, 0}, {0, 2, -4}, {2, 2, 2}, {0, 0, 0}, {0, 1, NAN}};
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F64, tp_make_shape_n(1, &n)), *dx[10];
    for (int power = 0; power < 3; power++) {
        tp_node *y = tp_pow(x, tp_const_as(g, TP_F64, power));
        for (int k = 0; k < 3; k++) {
            tp_gradients(tp_sum(y), &x, 1, &dx[3 * power + k]);
            y = dx[3 * power + k];
        }
    }
    tp_gradients(tp_sum(tp_pow(x, x)), &x, 1, &dx[9]);
    tp_session *s = open_session(g, 1, NULL);
    tp_feed feed;
    const tp_tensor *v[10];
    memset(&feed, 0, sizeof feed);
    feed.node = x;
    tp_tensor_view(&feed.value, TP_F64, x->shape, at);
    if (CHECK_MSG(tp_session_run(s, &feed, 1, dx, 10, v) == TP_OK, "%s", tp_last_error()))
        for (int i = 0; i < 10; i++)
            for (int e = 0; e < 3; e++)
                CHECK_MSG(isnan(want[i][e]) || fabs(tp_tensor_get(v[i], e) - want[i][e]) <= 1e-12,
                          "derivative %d[%d] is %.17g, expected %.17g", i, e, tp_tensor_get(v[i], e), want[i][e]);
    tp_session_free(s);
    tp_graph_free(g);
}

/* The mixed second derivative of a^b is 1/a where b is 0, in both orders. */
TEST(mixed_derivatives_of_powers)
{
    const int64_t n = 3;
    static const double va[3] = {2, 0.5, 3}, vb[3] = {0, 0, 2}, want[3] = {0.5, 2, 3 + 6 * 1.0986122886681098};
    tp_graph *g = tp_graph_new(NULL);
    tp_node *a = tp_placeholder(g, "a", TP_F64, tp_make_shape_n(1, &n)), *b = tp_placeholder(g, "b", TP_F64, a->shape);
    tp_node *y = tp_sum(tp_pow(a, b)), *da = NULL, *db = NULL, *dxx[2];
    tp_gradients(y, &a, 1, &da);
    tp_gradients(y, &b, 1, &db);
    tp_gradients(tp_sum(da), &b, 1, &dxx[0]);
    tp_gradients(tp_sum(db), &a, 1, &dxx[1]);
    tp_session *s = open_session(g, 1, NULL);
    tp_feed feed[2];
    const tp_tensor *v[2];
    memset(feed, 0, sizeof feed);
    feed[0].node = a, feed[1].node = b;
    tp_tensor_view(&feed[0].value, TP_F64, a->shape, va);
    tp_tensor_view(&feed[1].value, TP_F64, a->shape, vb);
    if (CHECK_MSG(tp_session_run(s, feed, 2, dxx, 2, v) == TP_OK, "%s", tp_last_error()))
        for (int i = 0; i < 2; i++)
            for (int e = 0; e < 3; e++)
                CHECK_MSG(fabs(tp_tensor_get(v[i], e) - want[e]) <= 1e-12, "order %d [%d]: %.17g, expected %.17g", i, e,
                          tp_tensor_get(v[i], e), want[e]);
    tp_session_free(s);
    tp_graph_free(g);
}

enum { MANY_AT_MOST = 8 };
/* Computes the derivatives of y by its n inputs x with the values v, MANY_AT_MOST numbers for each, of which the first ones count. */
static bool derivatives(tp_node *y, tp_node **x, int n, const double *v, const char *isa, double (*d)[MANY_AT_MOST])
{
    tp_node *dx[2];
    tp_feed feed[2];
    const tp_tensor *out[2];
    memset(feed, 0, sizeof feed);
    tp_gradients(y, x, n, dx);
    for (int i = 0; i < n; i++) {
        feed[i].node = x[i];
        CHECK_OK(tp_tensor_resize(&feed[i].value, x[i]->dtype, x[i]->shape));
        for (int64_t e = 0; e < tp_tensor_size(&feed[i].value); e++)
            tp_tensor_set(&feed[i].value, e, v[i * MANY_AT_MOST + e]);
    }
    tp_session *s = open_session(tp_node_graph(y), 1, isa);
    const bool ran = s && CHECK_MSG(tp_session_run(s, feed, n, dx, n, out) == TP_OK, "%s", tp_last_error());
    for (int i = 0; i < n; i++) {
        for (int64_t e = 0; ran && e < tp_tensor_size(out[i]); e++) d[i][e] = tp_tensor_get(out[i], e);
        tp_tensor_free(&feed[i].value);
    }
    tp_session_free(s);
    return ran;
}

/* Parts of a product are beyond float32, or 0 in it, though the derivatives are not. */
TEST(derivatives_of_products_whose_parts_are_no_floats)
{
    static const double size[4] = {1e20, 1e20, 1e-20, 1e-20};
    static const char *const isa[2] = {NULL, "naive"};
    for (int k = 0; k < 8; k++) { /* one column, or two side by side, the second in the other order */
        const int64_t columns = 1 + k / 2 % 2, dims[2] = {4, columns};
        const int axis = 0;
        double v[1][MANY_AT_MOST], d[1][MANY_AT_MOST];
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", k < 4 ? TP_F32 : TP_F64, tp_make_shape_n(2, dims));
        for (int e = 0; e < 4 * (int)columns; e++)
            v[0][e] = size[e % columns ? 3 - e / (int)columns : e / (int)columns];
        if (derivatives(tp_sum(tp_reduce_prod(x, &axis, 1, false)), &x, 1, v[0], isa[k % 2], d))
            for (int e = 0; e < 4 * (int)columns; e++) CHECK_NEAR(d[0][e] * v[0][e], 1, 0, 1e-6);
        tp_graph_free(g);
    }
}

/* The inverse of a small norm is beyond float16, that of a subnormal base beyond its type (where a processor does not take it for 0):
 * the derivatives are not. */
TEST(derivatives_whose_parts_are_infinite)
{
    static const double x[1][MANY_AT_MOST] = {{3.0 / 1048576, 4.0 / 1048576}};
    static const char *const isa[2] = {NULL, "naive"};
    double d[2][MANY_AT_MOST];
    for (int k = 0; k < 2; k++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *v[2];
        v[0] = tp_placeholder(g, "v", TP_F16, tp_make_shape(2));
        if (derivatives(tp_global_norm(v, 1), v, 1, x[0], isa[k], d))
            for (int e = 0; e < 2; e++) CHECK_NEAR(d[0][e], e ? 0.8 : 0.6, 1e-3, 0);
        tp_graph_free(g);
        for (int i = 0; i < 4; i++) {
            static const tp_dtype type[4] = {TP_F32, TP_F64, TP_F16, TP_BF16};
            static const double small[4] = {1e-40, 1e-310, 1e-6, 1e-40}, want[5] = {0, 0, 0, 0, 6};
            const double ab[2][MANY_AT_MOST] = {{small[i], -small[i], 0, 2, 3}, {0, 0, 0, 0, 2}};
            g = tp_graph_new(NULL);
            v[0] = tp_placeholder(g, "a", type[i], tp_make_shape(5));
            v[1] = tp_placeholder(g, "b", v[0]->dtype, v[0]->shape);
            if (derivatives(tp_sum(tp_pow(v[0], v[1])), v, 2, ab[0], isa[k], d))
                for (int e = 0; e < 5; e++) CHECK_NEAR(d[0][e], want[e], 1e-6, 0);
            tp_graph_free(g);
        }
    }
}

/* So many elements are the largest that float16 cannot count them. */
TEST(derivatives_of_many_ties_in_half_precision)
{
    enum { N = 70000 };
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F16, tp_make_shape(N)), *dx[2];
    tp_gradients(tp_affine(tp_reduce_max(x, NULL, 0, false), 7000, 0), &x, 1, &dx[0]);
    tp_gradients(tp_affine(tp_reduce_min(x, NULL, 0, true), -7000, 0), &x, 1, &dx[1]);
    tp_session *s = open_session(g, 1, NULL);
    tp_feed feed;
    const tp_tensor *out[2];
    memset(&feed, 0, sizeof feed);
    feed.node = x;
    CHECK_OK(tp_tensor_resize(&feed.value, TP_F16, x->shape));
    for (int e = 0; e < N; e++) tp_tensor_set(&feed.value, e, 1);
    if (s && CHECK_MSG(tp_session_run(s, &feed, 1, dx, 2, out) == TP_OK, "%s", tp_last_error()))
        for (int i = 0; i < 2; i++) CHECK_NEAR(tp_tensor_get(out[i], N / 2), i ? -0.1 : 0.1, 1e-4, 0);
    tp_tensor_free(&feed.value);
    tp_session_free(s);
    tp_graph_free(g);
}

/* The derivative of mod by b is minus the whole number q of mod = a - q b, also where the quotient rounds up to the next one. */
TEST(derivative_of_mod_fits_its_value)
{
    static const double v[2][MANY_AT_MOST] = {{1, -1, 7.5, 2, 100, 0.75}, {0.1, 0.1, -2, 0.2, 0.1, 3}};
    static const double q[6] = {9, -10, -4, 9, 999, 0};
    static const char *const isa[2] = {NULL, "naive"};
    double d[2][MANY_AT_MOST];
    for (int k = 0; k < 4; k++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *ab[2];
        ab[0] = tp_placeholder(g, "a", k < 2 ? TP_F32 : TP_F64, tp_make_shape(6));
        ab[1] = tp_placeholder(g, "b", ab[0]->dtype, ab[0]->shape);
        if (derivatives(tp_sum(tp_mod(ab[0], ab[1])), ab, 2, v[0], isa[k % 2], d))
            for (int e = 0; e < 6; e++)
                CHECK_MSG(d[0][e] == 1 && d[1][e] == -q[e], "element %d: %g %g", e, d[0][e], d[1][e]);
        tp_graph_free(g);
    }
}

/* Sums of segments and their derivative against loops: narrow and wide rows, ids of one and two dimensions, in and out of range, the number
 * of segments given, taken from the rows of a node, and 0. */
TEST(sums_of_segments)
{
    for (uint64_t n = 0; n < 24; n++) {
        const bool like = n % 2, two = n % 3 == 2, wide = n % 4 > 1;
        const int64_t E = n == 6 ? 0 : two ? 12 : 700, S = n >= 22 ? 0 : 1 + (int64_t)(n % 7), C = wide ? 37 : 3;
        const int64_t edges[3] = {two ? 4 : E, two ? 3 : C, C};
        const tp_dtype real = n % 5 ? TP_F32 : TP_F64, integer = n % 3 ? TP_I32 : TP_I64;
        tp_graph *g = tp_graph_new(NULL);
        tp_node *data = tp_placeholder(g, "data", real, tp_make_shape_n(two ? 3 : 2, edges));
        tp_node *ids = tp_placeholder(g, "ids", integer, tp_make_shape_n(two ? 2 : 1, edges));
        /* rows of `like` may be empty, which may be known only when the graph runs */
        const int width = (int)(n / 2 % 3);
        const bool deep = n % 8 == 5;
        tp_node *rows = deep ? tp_placeholder(g, "rows", TP_I32, tp_make_shape(TP_ANY, width, TP_ANY))
                             : tp_placeholder(g, "rows", TP_I32, tp_make_shape(TP_ANY, n % 4 == 1 ? TP_ANY : width)),
                *out[2];
        out[0] = like ? tp_unsorted_segment_sum_like(data, ids, rows) : tp_unsorted_segment_sum(data, ids, S);
        tp_gradients(tp_sum(tp_square(out[0])), &data, 1, &out[1]);
        tp_session *s = open_session(g, n % 2 ? 3 : 1, NULL);
        tp_feed feed[3];
        const tp_tensor *v[2];
        double *sum = (double *)calloc((size_t)(S * C) + 1, sizeof *sum);
        memset(feed, 0, sizeof feed);
        feed[0].node = data, feed[1].node = ids, feed[2].node = rows;
        CHECK_OK(tp_tensor_resize(&feed[0].value, real, data->shape));
        CHECK_OK(tp_tensor_resize(&feed[1].value, integer, ids->shape));
        CHECK_OK(tp_tensor_resize(&feed[2].value, TP_I32, deep ? tp_make_shape(S, width, 3) : tp_make_shape(S, width)));
        for (int64_t i = 0; i < E * C; i++)
            tp_tensor_set(&feed[0].value, i, (double)(tp_test_mix(n * 999 + (uint64_t)i) % 17) - 8);
        for (int64_t i = 0; i < E; i++) {
            const int64_t id = (int64_t)(tp_test_mix(n * 77 + (uint64_t)i) % (uint64_t)(S + 3)) - 2;
            tp_tensor_set(&feed[1].value, i, (double)id);
            for (int64_t c = 0; sum && c < C && id >= 0 && id < S; c++)
                sum[id * C + c] += tp_tensor_get(&feed[0].value, i * C + c);
        }
        if (CHECK(sum != NULL) &&
            CHECK_MSG(s && tp_session_run(s, feed, 3, out, 2, v) == TP_OK, "%s", tp_last_error())) {
            int64_t wrong = tp_tensor_size(v[0]) != S * C || tp_tensor_size(v[1]) != E * C;
            for (int64_t i = 0; !wrong && i < S * C; i++) wrong += tp_tensor_get(v[0], i) != sum[i];
            for (int64_t i = 0; !wrong && i < E * C; i++) {
                const double id = tp_tensor_get(&feed[1].value, i / C);
                wrong += tp_tensor_get(v[1], i) != (id < 0 || id >= (double)S ? 0 : 2 * sum[(int64_t)id * C + i % C]);
            }
            CHECK_MSG(wrong == 0, "case %d: %d values differ", (int)n, (int)wrong);
        }
        for (int i = 0; i < 3; i++) tp_tensor_free(&feed[i].value);
        tp_session_free(s);
        tp_graph_free(g);
        free(sum);
    }
    tp_graph *g = tp_graph_new(NULL);
    tp_node *data = tp_placeholder(g, "data", TP_F32, tp_make_shape(4, 3)),
            *ids = tp_placeholder(g, "ids", TP_I32, tp_make_shape(4));
    CHECK(tp_is_poison(tp_unsorted_segment_sum(data, data, 2)));
    CHECK(strstr(tp_graph_error(g), "unsorted_segment_sum: segment_ids are float32; they should be int32 or int64") !=
          NULL);
    tp_graph_free(g);
    g = tp_graph_new(NULL);
    data = tp_placeholder(g, "data", TP_F32, tp_make_shape(4, 3)),
    ids = tp_placeholder(g, "ids", TP_I32, tp_make_shape(4));
    CHECK(tp_is_poison(tp_unsorted_segment_sum(data, ids, TP_ANY)));
    CHECK(strstr(tp_graph_error(g), "tp_unsorted_segment_sum_like takes their number from a node") != NULL);
    tp_graph_free(g);
    g = tp_graph_new(NULL);
    ids = tp_placeholder(g, "ids", TP_I32, tp_make_shape(4));
    CHECK(tp_is_poison(tp_unsorted_segment_sum(ids, ids, 2)));
    CHECK(strstr(tp_graph_error(g), "data are int32; tp_cast them to a floating type") != NULL);
    tp_graph_free(g);
    g = tp_graph_new(NULL);
    data = tp_placeholder(g, "data", TP_F32, tp_make_shape(4)),
    ids = tp_placeholder(g, "ids", TP_I32, tp_make_shape(4, 1));
    CHECK(tp_is_poison(tp_unsorted_segment_sum(data, ids, 2)));
    CHECK(strstr(tp_graph_error(g), "data have 1 dimensions, segment_ids 2") != NULL);
    tp_graph_free(g);
    g = tp_graph_new(NULL);
    data = tp_placeholder(g, "data", TP_F32, tp_make_shape(4)),
    ids = tp_placeholder(g, "ids", TP_I32, tp_make_shape(4));
    tp_node *none = tp_placeholder(g, "none", TP_F32, tp_make_shape(5, 0));
    CHECK(tp_unsorted_segment_sum_like(data, ids, none)->shape.dim[0] == 5);
    CHECK(tp_is_poison(tp_unsorted_segment_sum_like(data, ids, tp_const(g, 1))));
    CHECK(strstr(tp_graph_error(g), "`like` is a scalar, which has no rows") != NULL);
    tp_graph_free(g);
}

/* What builders take that is not quite what the row gets. */
TEST(builders_and_their_odd_arguments)
{
    tp_graph *g = tp_graph_new(NULL);
    const int64_t n = 3, images[4] = {1, 4, 4, 2}, filter[4] = {3, 3, 2, 2};
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(1, &n)), *few[3], *y;
    few[0] = NULL, few[1] = x, few[2] = tp_poison(g);
    CHECK(!tp_is_poison(tp_with_dependencies(x, few, 2)) && !tp_is_poison(tp_group(g, few, 2, NULL)));
    CHECK(tp_is_poison(tp_with_dependencies(x, few, 3)) && tp_is_poison(tp_group(g, few, 3, NULL)));
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    y = tp_nn_conv2d(tp_placeholder(g, "i", TP_F32, tp_make_shape_n(4, images)),
                     tp_placeholder(g, "w", TP_F32, tp_make_shape_n(4, filter)), &a);
    const tp_conv2d_attrs *is = (const tp_conv2d_attrs *)y->op->attrs;
    CHECK(is->padding == TP_SAME);
    CHECK(tp_graph_status(g) == TP_OK);
    few[0] = x, few[1] = NULL;
    CHECK(tp_is_poison(tp_add_n(few, 2)) && tp_graph_status(g) != TP_OK);
    tp_graph_free(g);
    g = tp_graph_new(NULL);
    tp_node *i = tp_placeholder(g, "i", TP_I32, tp_make_shape_n(1, &n));
    CHECK(tp_is_poison(tp_one_hot(i, ((int64_t)1 << 32) + 4, 1, 0)));
    CHECK_HAS(tp_graph_error(g), "one_hot: depth 4294967300 makes no shape");
    tp_graph_free(g);
    g = tp_graph_new(NULL); /* the zero that is below zero */
    const int64_t one = 1;
    tp_node *minus = tp_fill_like(tp_placeholder(g, "x", TP_F32, tp_make_shape_n(1, &n)), -0.0f),
            *padded = tp_pad(minus, &one, &one, TP_PAD_CONSTANT, -0.0f);
    tp_session *s = open_session(g, 1, NULL);
    const float v[3] = {1, 2, 3};
    tp_feed feed;
    const tp_tensor *out = NULL;
    memset(&feed, 0, sizeof feed);
    feed.node = minus->op->in[0];
    tp_tensor_view(&feed.value, TP_F32, feed.node->shape, v);
    if (CHECK_OK(tp_session_run(s, &feed, 1, &padded, 1, &out)))
        for (int e = 0; e < 5; e++) CHECK(tp_tensor_get(out, e) == 0 && signbit(tp_tensor_get(out, e)));
    tp_session_free(s);
    tp_graph_free(g);
}

/* Cross entropies by their formulas: labels of every type, dense ones, and those of sigmoids. */
TEST(cross_entropies_by_their_formulas)
{
    enum { B = 3, C = 5 };
    static const tp_dtype labels[] = {TP_I32, TP_I64, TP_U8};
    const int64_t bc[2] = {B, C};
    float x[B * C], z[B * C];
    for (int i = 0; i < B * C; i++) x[i] = (float)((i * 7) % 11) - 4.5f, z[i] = (float)(i % 4) / 8;
    for (int k = 0; k < 3; k++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *logits = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(2, bc)),
                *dense = tp_placeholder(g, "z", TP_F32, logits->shape);
        tp_node *label = tp_placeholder(g, "label", labels[k], tp_make_shape_n(1, bc)), *y[3];
        y[0] = tp_sparse_softmax_cross_entropy(logits, label);
        y[1] = tp_softmax_cross_entropy(logits, dense);
        y[2] = tp_sigmoid_cross_entropy(logits, dense);
        tp_session *s = open_session(g, 1, NULL);
        tp_tensor t;
        tp_feed feed[3];
        const tp_tensor *v[3];
        memset(&t, 0, sizeof t);
        memset(feed, 0, sizeof feed);
        CHECK_OK(tp_tensor_resize(&t, labels[k], label->shape));
        for (int b = 0; b < B; b++) tp_tensor_set(&t, b, (b * 3 + 4) % C);
        feed[0].node = logits, feed[1].node = dense, feed[2].node = label;
        tp_tensor_view(&feed[0].value, TP_F32, logits->shape, x);
        tp_tensor_view(&feed[1].value, TP_F32, logits->shape, z);
        tp_tensor_view(&feed[2].value, labels[k], label->shape, t.data);
        if (CHECK_OK(tp_session_run(s, feed, 3, y, 3, v)))
            for (int b = 0; b < B; b++) {
                double sum = 0, mixed = 0;
                for (int c = 0; c < C; c++) sum += exp((double)x[b * C + c]);
                for (int c = 0; c < C; c++) mixed += (double)z[b * C + c] * (log(sum) - (double)x[b * C + c]);
                CHECK_NEAR(tp_tensor_get(v[0], b), log(sum) - (double)x[b * C + (b * 3 + 4) % C], 1e-5, 0);
                CHECK_NEAR(tp_tensor_get(v[1], b), mixed, 1e-5, 0);
                for (int c = 0; c < C; c++) {
                    const double q = at_sigmoid((double)x[b * C + c]), p = (double)z[b * C + c];
                    CHECK_NEAR(tp_tensor_get(v[2], b * C + c), -p * log(q) - (1 - p) * log(1 - q), 1e-5, 0);
                }
            }
        tp_tensor_free(&t);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* The squares of float32 numbers are beyond float32, or vanish in it: the norm is a number all the same. */
TEST(norms_of_numbers_whose_squares_are_no_floats)
{
    static const char *const isa[2] = {NULL, "naive"};
    static const float size[4] = {1e25f, 1e-25f, 1e-30f, 1.5e38f};
    enum { N = 20000 };
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < TP_COUNT(size); i++) {
            tp_graph *g = tp_graph_new(NULL);
            tp_feed f;
            memset(&f, 0, sizeof f);
            f.node = tp_placeholder(g, "x", TP_F32, tp_make_shape(N));
            if (CHECK_OK(tp_tensor_resize(&f.value, TP_F32, f.node->shape)))
                for (int j = 0; j < N; j++) ((float *)f.value.data)[j] = j % 5000 == 17 ? size[i] : 0;
            tp_node *y = tp_affine(tp_global_norm(&f.node, 1), 0.5f, 0);
            tp_session *s = open_session(g, 1, isa[k]);
            const tp_tensor *out;
            if (s && CHECK_OK(tp_session_run(s, &f, 1, &y, 1, &out)))
                CHECK_NEAR(tp_tensor_get(out, 0) / (double)size[i], 1, 0, 1e-6); /* half of sqrt(4) */
            tp_session_free(s);
            tp_tensor_free(&f.value);
            tp_graph_free(g);
        }
}

/* Norms of values of several types, what comes of poison, nearest pixels, and a message of no words. */
TEST(results_of_mixed_and_missing_operands)
{
    tp_graph *g = tp_graph_new(NULL);
    const int64_t two = 2, image[4] = {1, 2, 1, 1};
    tp_node *x[2], *dx[2], *y[5], *pixels = tp_placeholder(g, "pixels", TP_F32, tp_make_shape_n(4, image));
    x[0] = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(1, &two));
    x[1] = tp_cast(x[0], TP_F16);
    tp_gradients(tp_global_norm(x, 2), x, 2, dx);
    CHECK(dx[0]->dtype == TP_F32 && dx[1]->dtype == TP_F16);
    tp_resize_attrs a;
    memset(&a, 0, sizeof a);
    a.out_h = 4, a.out_w = 1;
    y[0] = dx[0], y[1] = dx[1];
    y[2] = tp_resize_nearest(pixels, &a);
    a.nearest = true; /* the builder decides */
    y[3] = tp_resize_bilinear(pixels, &a);
    y[4] = tp_print(x[0], "");
    static const float v[2] = {3, 4};
    static const double want[4][4] = {{0, 0}, {3 / 7.0710678, 4 / 7.0710678}, {3, 3, 4, 4}, {3, 3.5, 4, 4}};
    kept_log log;
    tp_feed feed[2];
    const tp_tensor *out[5];
    memset(&log, 0, sizeof log);
    memset(feed, 0, sizeof feed);
    feed[0].node = x[0], feed[1].node = pixels;
    tp_tensor_view(&feed[0].value, TP_F32, x[0]->shape, v);
    tp_tensor_view(&feed[1].value, TP_F32, pixels->shape, v);
    tp_session *s = open_session(g, 1, NULL);
    tp_set_log(keep, &log);
    if (CHECK_OK(tp_session_run(s, feed, 2, y, 5, out))) {
        for (int i = 0; i < 4; i++) /* x is there twice: once as it is, once through the cast */
            for (int e = 0; e < (i < 2 ? 2 : 4); e++)
                CHECK_NEAR(tp_tensor_get(out[i], e), i == 0 ? 2 * want[1][e] : want[i][e], i < 2 ? 1e-3 : 0, 0);
    }
    tp_set_log(NULL, NULL);
    CHECK_HAS(log.text, "Print: shape (2)");
    tp_session_free(s);
    tp_node *index = NULL, *mean = NULL, *var = NULL, *part[3] = {NULL, NULL, NULL};
    tp_node *bad = tp_exp(tp_cast(x[0], TP_I32));
    CHECK(tp_is_poison(bad) && tp_is_poison(tp_top_k(bad, 1, &index)) && tp_is_poison(index));
    tp_split(bad, 3, 0, part);
    for (int i = 0; i < 3; i++) CHECK(tp_is_poison(part[i]));
    CHECK(tp_is_poison(tp_nn_batch_norm_train(bad, bad, bad, 1, 1e-5f, true, &mean, &var)));
    CHECK(tp_is_poison(mean) && tp_is_poison(var));
    CHECK(tp_is_poison(tp_nn_lstm(bad, bad, bad, bad, bad, 1, false, &mean, &index)) && tp_is_poison(index));
    tp_graph_free(g);
}

/* No queries and no keys, as at the start of a text: the result is empty, and so are the gradients. */
TEST(attention_of_an_empty_sequence)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, TP_ANY, 8)), *y[2];
    y[0] = tp_nn_attention(x, x, x, 2, true);
    tp_gradients(tp_reduce_sum(y[0], NULL, 0, false), &x, 1, &y[1]);
    tp_feed f;
    memset(&f, 0, sizeof f);
    f.node = x;
    CHECK_OK(tp_tensor_resize(&f.value, TP_F32, tp_make_shape(2, 0, 8)));
    for (int k = 0; k < 3; k++) {
        tp_session *s = open_session(g, k == 2 ? 3 : 1, k ? NULL : "naive");
        const tp_tensor *out[2];
        if (CHECK_OK(tp_session_run(s, &f, 1, y, 2, out)))
            for (int i = 0; i < 2; i++) CHECK(out[i]->shape.ndim == 3 && out[i]->shape.dim[1] == 0);
        tp_session_free(s);
    }
    tp_tensor_free(&f.value);
    tp_graph_free(g);
}

/* A run rounds to nearest whatever the caller's mode is, and treats denormal numbers as zeros where the processor can; the caller's
 * mode is as it was afterwards. */
TEST(a_run_has_a_float_mode_of_its_own)
{
#if (defined(__SSE2__) || defined(__aarch64__)) && defined(__GNUC__)
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2)), *y[2];
    y[0] = tp_add(x, tp_const(g, 1)), y[1] = tp_mul(x, tp_const(g, 0.25f));
    static const float v[2] = {9.313225746154785e-10f, FLT_MIN}; /* 2^-30 */
    tp_feed f;
    memset(&f, 0, sizeof f);
    f.node = x;
    tp_tensor_view(&f.value, TP_F32, x->shape, v);
    for (int k = 0; k < 2; k++) {
        tp_session *s = open_session(g, 1, k ? NULL : "naive");
        const tp_tensor *out[2];
        const int before = fegetround();
        CHECK(fesetround(FE_UPWARD) == 0);
        const tp_status st = tp_session_run(s, &f, 1, y, 2, out);
        const int after = fegetround();
        volatile float tiny = FLT_MIN; /* the caller keeps denormal numbers */
        const bool kept = tiny * 0.25f > 0;
        fesetround(before);
        if (CHECK_OK(st)) {
            CHECK(((const float *)out[0]->data)[0] == 1 && ((const float *)out[1]->data)[1] == 0);
            CHECK(after == FE_UPWARD && kept);
        }
        tp_session_free(s);
    }
    tp_graph_free(g);
#else
    TEST_SKIP("the float mode of this processor is not set");
#endif
}

TEST_MAIN()
