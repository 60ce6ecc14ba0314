/* A case of op_cases.h as a graph of one op, and the comparison of its values. Include op_cases.h before. */
#ifndef OP_BUILD_H
#define OP_BUILD_H

/* ==== >>building ====================================================================================== */

typedef struct built {
    tp_graph *g;
    tp_node *in[MAX_VALUES], *var[MAX_VALUES];
    tp_operation *op;             /* NULL: the graph says why */
    tp_feed feed[3 * MAX_VALUES]; /* of in, and what a test adds */
    int n_feed;
    tp_tensor f64[MAX_VALUES]; /* inputs in double */
} built;

static void feed_add(built *b, tp_node *n, const tp_tensor *t)
{
    b->feed[b->n_feed].node = n;
    memset(&b->feed[b->n_feed].value, 0, sizeof(tp_tensor));
    tp_tensor_view(&b->feed[b->n_feed++].value, t->dtype, t->shape, t->data);
}

/* The graph of a case: placeholders into one op. unknown: no dimension is known when it is built. */
static bool build(const op_case *c, const tp_op *row, bool f64, bool unknown, built *b)
{
    memset(b, 0, sizeof *b);
    b->g = tp_graph_new(NULL);
    if (!CHECK(b->g != NULL)) return false;
    for (int i = 0; i < c->n_in; i++) {
        const tp_tensor *t = &c->in[i];
        if (f64 && t->dtype == TP_F32) {
            if (!CHECK_OK(tp_tensor_resize(&b->f64[i], TP_F64, t->shape))) return false;
            tp_convert(b->f64[i].data, TP_F64, t->data, TP_F32, tp_tensor_size(t));
            t = &b->f64[i];
        }
        tp_shape s = t->shape;
        for (int d = 0; unknown && d < s.ndim; d++) s.dim[d] = TP_ANY;
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        b->in[i] = tp_placeholder(b->g, name, t->dtype, s);
        feed_add(b, b->in[i], t);
    }
    for (int i = 0; i < c->n_var; i++) {
        char name[16];
        snprintf(name, sizeof name, "v%d", i);
        const int64_t n = tp_tensor_size(&c->var[i]);
        float *v = (float *)calloc((size_t)n + 1, sizeof *v);
        if (!CHECK(v != NULL)) return false;
        for (int64_t k = 0; k < n; k++) v[k] = (float)tp_tensor_get(&c->var[i], k);
        b->var[i] = tp_get_variable_as(b->g, name, c->var[i].dtype, c->var[i].shape, tp_init_values(v, n));
        free(v);
    }
    void *attrs = calloc(row->attr_size + 1, 1);
    if (!CHECK(attrs != NULL) || !fill_attrs(c, row, f64, attrs)) {
        free(attrs);
        return false;
    }
    tp_apply_desc d;
    memset(&d, 0, sizeof d);
    d.row = row;
    d.in = b->in;
    d.n_in = c->n_in;
    d.attrs = attrs;
    d.vars = b->var;
    d.n_var = c->n_var;
    tp_node *y = tp_apply_ex(b->g, &d);
    free(attrs);
    b->op = tp_is_poison(y) ? NULL : y->op;
    return true;
}

static void built_free(built *b)
{
    for (int i = 0; i < MAX_VALUES; i++) tp_tensor_free(&b->f64[i]);
    tp_graph_free(b->g);
}

/* ==== >>values ======================================================================================== */

/* Are a and b equal up to tol, relative to the magnitude? Whole numbers must be equal. */
TP_TEST__UNUSED static bool close_enough(const op_case *c, const char *what, int which, const tp_tensor *a,
                                         const tp_tensor *b, double tol)
{
    char ta[TP_SHAPE_TEXT], tb[TP_SHAPE_TEXT];
    if (a->dtype != b->dtype || !tp_shape_equal(&a->shape, &b->shape))
        return CHECK_MSG(false, "%s:%d: %s: %s, output %d is %s %s, expected %s %s", c->file, c->line, c->op, what,
                         which, tp_dtype_name(a->dtype), tp_shape_text(&a->shape, ta), tp_dtype_name(b->dtype),
                         tp_shape_text(&b->shape, tb));
    const int64_t n = tp_tensor_size(b);
    double scale = 0;
    if (!tp_dtype_is_float(b->dtype)) {
        if (n == 0 || memcmp(a->data, b->data, tp_tensor_bytes(b)) == 0) return true;
        for (int64_t i = 0; i < n; i++)
            if (tp_tensor_get(a, i) != tp_tensor_get(b, i))
                return CHECK_MSG(false, "%s:%d: %s: %s, output %d[%lld] is %g, expected %g", c->file, c->line, c->op,
                                 what, which, (long long)i, tp_tensor_get(a, i), tp_tensor_get(b, i));
        return CHECK_MSG(false, "%s:%d: %s: %s, output %d differs", c->file, c->line, c->op, what, which);
    }
    for (int64_t i = 0; i < n; i++) {
        const double v = fabs(tp_tensor_get(b, i));
        if (isfinite(v) && v < 1e30 && v > scale) scale = v;
    }
    /* where everything cancels, coarse products leave what their operands were rounded by */
    const double least = scale == 0 && tol > 1e-3 ? 0.01 * tol : 1e-45;
    for (int64_t i = 0; i < n; i++) {
        const double x = tp_tensor_get(a, i), y = tp_tensor_get(b, i), most = tol * (fabs(y) + 0.1 * scale) + least;
        if ((isnan(x) && isnan(y)) || x == y || (!isinf(y) && fabs(x - y) <= most)) continue;
        return CHECK_MSG(false, "%s:%d: %s: %s, output %d[%lld] is %.9g, expected %.9g", c->file, c->line, c->op, what,
                         which, (long long)i, x, y);
    }
    return true;
}

#endif
