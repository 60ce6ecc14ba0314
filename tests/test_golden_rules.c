/* test_golden_rules.c - what each row of the op table says to inputs and attributes that are a little wrong, or odd: the
 * sentence, or the types of its outputs, the work it counts and the graph of its gradient. digests_rules.txt has the digests.
 *
 *     TP_TEST_WRITE=1 build/test/gcc-c11-test_golden_rules   writes them anew, after a change that was meant
 *     TP_TEST_PRINT=math:12 ...                               prints what is done to the cases of digest 12 of section math */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_graph.h"
#include "tp_test.h"
#include "golden.h"
#include "golden_graph.h"
#include "op_cases.h"

enum { CHANGES_PER_DIGEST = 16, DIGESTS_PER_ROW = 12, DIGESTS_PER_CASE = 2 };

/* What is applied. */
typedef struct trial {
    const tp_op *row;
    int n_in, n_var;
    tp_dtype dtype[MAX_VALUES], var_dtype[MAX_VALUES];
    tp_shape shape[MAX_VALUES], var_shape[MAX_VALUES];
    bool as_in_file;
    char what
        [MAX_VALUES]; /* of an input: 0 a placeholder, else '0' NULL, 'p' poison, 'o' of another graph, 'c' a constant */
    void *attrs;
} trial;

static void change_shape(trial *t, tp_shape *s)
{
    static const int64_t sizes[] = {0, 1, 2, 3, 4, 7, 8, 16, TP_ANY, INT_MAX};
    const int how = draw(12), d = s->ndim ? draw(s->ndim) : 0;
    if (how == 0) { /* one dimension less */
        if (s->ndim == 0) return;
        memmove(s->dim + d, s->dim + d + 1, (size_t)(s->ndim - d - 1) * sizeof *s->dim);
        s->ndim--;
    } else if (how == 1) { /* one more */
        if (s->ndim == TP_MAX_DIMS) return;
        memmove(s->dim + d + 1, s->dim + d, (size_t)(s->ndim - d) * sizeof *s->dim);
        s->ndim++;
        s->dim[d] = draw(3);
    } else if (how == 2) { /* none is known */
        for (int i = 0; i < s->ndim; i++) s->dim[i] = TP_ANY;
    } else if (how == 3 && t->n_in + t->n_var > 0) { /* as another one */
        const int i = draw(t->n_in + t->n_var);
        *s = i < t->n_in ? t->shape[i] : t->var_shape[i - t->n_in];
    } else if (s->ndim == 0) s->dim[s->ndim++] = DRAW_OF(sizes);
    else if (how < 6) s->dim[d]++;
    else if (how < 8 && s->dim[d] > 0) s->dim[d]--;
    else s->dim[d] = DRAW_OF(sizes);
}

static int odd_int(int now)
{
    static const int odd[] = {0, 1, -1, 2, -2, 3, 8, 9, INT_MAX, INT_MIN};
    const int how = draw(14);
    return how == 0 && now < INT_MAX   ? now + 1
           : how == 1 && now > INT_MIN ? now - 1
           : how == 2                  ? now / 2
                                       : DRAW_OF(odd);
}

static void change_attr(trial *t)
{
    int n = 0;
    while (t->row->attr && t->row->attr[n].name) n++;
    if (n == 0) return;
    const tp_attr *a = &t->row->attr[draw(n)];
    void *at = (char *)t->attrs + a->offset;
    const int k = draw(8);
    switch (a->kind) {
    case TP_ATTR_INT: *(int *)at = odd_int(*(int *)at); break;
    case TP_ATTR_BOOL: *(bool *)at = !*(bool *)at; break;
    case TP_ATTR_DTYPE: *(tp_dtype *)at = (tp_dtype)draw((int)TP_DTYPE_COUNT); break;
    case TP_ATTR_U64: *(uint64_t *)at = (uint64_t)draw(3); break;
    case TP_ATTR_INTS8: ((int *)at)[k / 2] = odd_int(((int *)at)[k / 2]); break;
    case TP_ATTR_I64S8: ((int64_t *)at)[k / 2] = odd_int((int)((int64_t *)at)[k / 2]); break;
    case TP_ATTR_SHAPE: change_shape(t, (tp_shape *)at); break;
    case TP_ATTR_STRING: *(const char **)at = k < 2 ? NULL : k < 4 ? "" : "a text"; break;
    case TP_ATTR_FLOAT: {
        static const float odd[] = {0, 1, -1, 0.5f, -0.5f, 2, -2, 1e-30f, 3e9f, NAN, INFINITY, -INFINITY};
        *(float *)at = DRAW_OF(odd);
        break;
    }
    }
}

static void change_inputs(trial *t)
{
    static const char odd[] = {'0', 'p', 'o', 'c'};
    const int how = draw(8), i = draw(t->n_in + 1), j = t->n_in ? draw(t->n_in) : 0;
    if (how < 2 && t->n_in > 0 && i < t->n_in) { /* dropped */
        for (int k = i; k + 1 < t->n_in; k++) t->dtype[k] = t->dtype[k + 1], t->shape[k] = t->shape[k + 1];
        t->n_in--;
    } else if (how < 4 && t->n_in > 0 && t->n_in < MAX_VALUES) { /* one of them once more */
        t->dtype[t->n_in] = t->dtype[j], t->shape[t->n_in] = t->shape[j];
        t->n_in++;
    } else if (how == 4 && i < t->n_in) { /* exchanged */
        const tp_dtype dtype = t->dtype[i];
        const tp_shape shape = t->shape[i];
        t->dtype[i] = t->dtype[j], t->shape[i] = t->shape[j];
        t->dtype[j] = dtype, t->shape[j] = shape;
    } else if (how == 5 && t->n_var > 0) t->n_var--;
    else if (how == 6 && t->n_var > 0 && t->n_var < MAX_VALUES) {
        t->var_dtype[t->n_var] = t->var_dtype[0], t->var_shape[t->n_var] = t->var_shape[0];
        t->n_var++;
    } else if (i < t->n_in) t->what[i] = DRAW_OF(odd);
}

static void change(trial *t)
{
    const int how = draw(10), i = t->n_in + t->n_var ? draw(t->n_in + t->n_var) : 0;
    const bool var = i >= t->n_in;
    if (how == 0) change_inputs(t);
    else if (how < 5 || i >= t->n_in + t->n_var) change_attr(t);
    else if (how == 5) {
        const tp_dtype to = (tp_dtype)(1 + draw((int)TP_DTYPE_COUNT - 1));
        if (draw(3) == 0) /* all floats */
            for (int k = 0; k < t->n_in; k++) t->dtype[k] = tp_dtype_is_float(t->dtype[k]) ? to : t->dtype[k];
        else if (var) t->var_dtype[i - t->n_in] = to;
        else t->dtype[i] = to;
    } else change_shape(t, var ? &t->var_shape[i - t->n_in] : &t->shape[i]);
}

/* -- digests */

/* Rows that only gradients apply believe what they are given. */
static bool is_believing(const tp_op *row) { return strstr(row->name, "_grad") && !strstr(row->name, "conv2d"); }

/* What the row counts, where all sizes are known and small. */
static uint64_t hash_work(uint64_t h, const tp_operation *o)
{
    static tp_operand x[MAX_VALUES * 2 + TP_MAX_OUTPUTS];
    tp_call k;
    int n = 0;
    memset(&k, 0, sizeof k);
    memset(x, 0, sizeof x);
    k.op = o->row, k.attrs = o->attrs;
    k.n_in = o->n_in, k.n_out = o->n_out, k.n_var = o->n_var;
    k.in = x, k.out = x + k.n_in, k.var = x + k.n_in + k.n_out;
    for (int i = 0; i < o->n_in; i++, n++) x[n].dtype = o->in[i]->dtype, x[n].shape = o->in[i]->shape;
    for (int i = 0; i < o->n_out; i++, n++) x[n].dtype = o->out[i].dtype, x[n].shape = o->out[i].shape;
    for (int i = 0; i < o->n_var; i++, n++) x[n].dtype = o->var[i]->dtype, x[n].shape = o->var[i]->shape;
    for (int i = 0; i < n; i++) {
        if (!tp_shape_known(&x[i].shape)) return h;
        for (int d = 0; d < x[i].shape.ndim; d++)
            if (x[i].shape.dim[d] > 10000) return h;
    }
    if (o->row->flops) h = hash_float(h, o->row->flops(&k));
    return h;
}

static uint64_t hash_gradient(uint64_t h, tp_graph *g, tp_operation *o)
{
    tp_node *xs[MAX_VALUES], *dxs[MAX_VALUES], *again[MAX_VALUES], *y = &o->out[draw(o->n_out)];
    int n = 0;
    for (int i = 0; i < o->n_in; i++)
        if (tp_dtype_is_float(o->in[i]->dtype)) xs[n++] = o->in[i];
    if (draw(8) == 0) /* also of those that have none */
        for (int i = 0; i < o->n_in && n < MAX_VALUES; i++)
            if (!tp_dtype_is_float(o->in[i]->dtype)) xs[n++] = o->in[i];
    if (n == 0) return h;
    tp_node *dy = draw(3) ? NULL : (tp_placeholder)(g, "dy", y->dtype, y->shape);
    h = hash_node(h, (tp_gradients_from)(y, dy, xs, n, dxs));
    for (int i = 0; i < n && tp_graph_status(g) == TP_OK; i++) h = hash_node(h, dxs[i]);
    const int i = draw(n);
    if (draw(3) || tp_graph_status(g) != TP_OK || !dxs[i]) return h;
    h = hash_node(h, (tp_gradients)(dxs[i], xs, n, again));
    for (int k = 0; k < n && tp_graph_status(g) == TP_OK; k++) h = hash_node(h, again[k]);
    return h;
}

static tp_node *input(const trial *t, tp_graph *g, tp_graph *other, int i)
{
    char name[16];
    snprintf(name, sizeof name, "x%d", i);
    tp_graph *of = t->what[i] == 'o' ? other : g;
    if (t->what[i] == '0') return NULL;
    if (t->what[i] == 'p') return tp_poison(g);
    if (t->what[i] == 'c') return (tp_const_as)(g, t->dtype[i], 1);
    return (tp_placeholder)(of, name, t->dtype[i], t->shape[i]);
}

static uint64_t hash_trial(uint64_t h, const trial *t)
{
    tp_graph *g = tp_graph_new(NULL), *other = tp_graph_new(NULL);
    tp_node *in[MAX_VALUES], *var[MAX_VALUES];
    char name[16];
    tp_apply_desc d;
    memset(&d, 0, sizeof d);
    for (int i = 0; i < t->n_in; i++) in[i] = input(t, g, other, i);
    for (int i = 0; i < t->n_var; i++) {
        snprintf(name, sizeof name, "v%d", i);
        var[i] = (tp_get_variable_as)(g, name, t->var_dtype[i], t->var_shape[i], tp_init_zeros());
    }
    d.row = t->row;
    d.in = in, d.n_in = t->n_in;
    d.vars = var, d.n_var = t->n_var;
    d.attrs = t->attrs;
    begin_log();
    tp_node *y = (tp_apply_ex)(draw(3) ? g : NULL, &d);
    if (!tp_is_poison(y) && tp_graph_status(g) == TP_OK && (t->as_in_file || !is_believing(t->row))) {
        h = hash_work(h, y->op);
        h = hash_gradient(h, g, y->op);
    }
    h = hash_graph(h, g);
    h = golden_hash(h, TP_TEST_SAID(tp_graph_error(other)));
    h = hash_log(h);
    tp_graph_free(g);
    tp_graph_free(other);
    return h;
}

static void print_trial(const op_case *c, const trial *t)
{
    char text[TP_SHAPE_TEXT];
    printf("%s:%d %s", c->file, c->line, t->row->name);
    for (int i = 0; i < t->n_in; i++)
        printf(" %s%s%c", tp_dtype_name(t->dtype[i]), tp_shape_text(&t->shape[i], text), t->what[i] ? t->what[i] : ' ');
    for (int i = 0; i < t->n_var; i++)
        printf(" | %s%s", tp_dtype_name(t->var_dtype[i]), tp_shape_text(&t->var_shape[i], text));
    printf(", attributes %llx\n", (unsigned long long)hash_attrs(0, t->row, t->attrs));
}

/* The case itself (which 0), or changed. */
static uint64_t hash_case(uint64_t h, const op_case *c, const tp_op *row, int which, bool print)
{
    trial t;
    memset(&t, 0, sizeof t);
    t.row = row;
    t.n_in = c->n_in, t.n_var = c->n_var;
    for (int i = 0; i < c->n_in; i++) t.dtype[i] = c->in[i].dtype, t.shape[i] = c->in[i].shape;
    for (int i = 0; i < c->n_var; i++) t.var_dtype[i] = c->var[i].dtype, t.var_shape[i] = c->var[i].shape;
    t.attrs = calloc(row->attr_size + 1, 1);
    if (t.attrs && CHECK(fill_attrs(c, row, false, t.attrs))) {
        t.as_in_file = which == 0;
        const int changes = which == 0 ? 0 : draw(3) ? 1 : 2 + draw(2);
        for (int i = 0; i < changes; i++) change(&t);
        if (print) print_trial(c, &t);
        h = hash_trial(h, &t);
    }
    free(t.attrs);
    return h;
}

/* Digests of one case; there are `of` cases of its row. */
static void digest_case(const op_case *c, int of, const char *section, int *n)
{
    char wanted[64];
    const tp_op *row = tp_op_find(c->op);
    if (!CHECK_MSG(row != NULL, "there is no row '%s'", c->op)) return;
    for (int k = 0; k < DIGESTS_PER_CASE || k * of < DIGESTS_PER_ROW; k++, ++*n) {
        uint64_t h = 1;
        snprintf(wanted, sizeof wanted, "%s:%d", section, *n);
        const bool print = getenv("TP_TEST_PRINT") && strcmp(getenv("TP_TEST_PRINT"), wanted) == 0;
        for (int j = 0; j < CHANGES_PER_DIGEST; j++) {
            seed((uint64_t)(*n * 64 + j));
            h = hash_case(h, c, row, k * CHANGES_PER_DIGEST + j, print);
        }
        golden_digest(h);
    }
}

static void digest_cases(const case_list *l, const char *section)
{
    int n = 0;
    tp_test_keep_log();
    for (int i = 0; i < l->n; i++) {
        int of = 0;
        for (int k = 0; k < l->n; k++) of += strcmp(l->item[k].op, l->item[i].op) == 0;
        digest_case(&l->item[i], of, section, &n);
    }
    tp_set_log(NULL, NULL);
    golden_compare("digests_rules.txt", section);
}

static void digest_file(const char *file, const char *section)
{
    case_list l;
    memset(&l, 0, sizeof l);
    if (CHECK(read_cases(&l, file))) digest_cases(&l, section);
    free_cases(&l);
}

TEST(rows_of_mathematics) { digest_file("ref_ops_math.txt", "math"); }
TEST(rows_of_networks) { digest_file("ref_ops_nn.txt", "networks"); }

TEST(rows_without_values)
{
    static op_case c[4];
    const case_list l = {c, TP_COUNT(c)};
    static const char *const row[] = {"dropout", "random", "random", "read_after"};
    static const char *const attr[] = {"rate 0.5", "shape 2 3 4", "kind 1", NULL};
    for (int i = 0; i < l.n; i++) {
        c[i].file = "no file";
        snprintf(c[i].op, sizeof c[i].op, "%s", row[i]);
        if (attr[i]) snprintf(c[i].attr[c[i].n_attr++], sizeof c[i].attr[0], "%s", attr[i]);
        if (i == 1) continue;
        c[i].n_in = 1;
        CHECK_OK(tp_tensor_resize(&c[i].in[0], i == 3 ? TP_BOOL : TP_F32, tp_make_shape(3, 4)));
    }
    c[3].n_var = 1;
    CHECK_OK(tp_tensor_resize(&c[3].var[0], TP_F32, tp_make_shape(3, 4)));
    digest_cases(&l, "without");
    for (int i = 0; i < l.n; i++) tp_tensor_free(&c[i].in[0]);
    tp_tensor_free(&c[3].var[0]);
}

TEST_MAIN()
