/* Rows that make whole numbers of whole numbers, or move elements about: against plain loops of this file, bit for bit, at the
 * sizes where their kernels cut their work, with dimensions known and unknown, and the gradients of those that have one. */
#define TP_IMPLEMENTATION
#include "tp_graph.h"
#include "tp_test.h"

/* ==== >>a graph of many cases ========================================================================= */

/* Values that are fed, and nodes with the values that they should have. One run tells all. */
enum { MOST = 640 };
typedef struct sheet {
    tp_graph *g;
    bool unknown; /* placeholders know no dimension */
    int n_fed, n;
    tp_tensor fed[MOST], want[MOST];
    tp_feed feed[MOST];
    tp_node *node[MOST];
    char what[MOST][80];
} sheet;

static sheet *sheet_new(bool unknown)
{
    sheet *s = (sheet *)calloc(1, sizeof *s);
    if (!CHECK(s != NULL)) exit(1);
    s->g = tp_graph_new(NULL);
    s->unknown = unknown;
    return s;
}

static tp_shape shape_of(const int64_t *dims) /* the first is their number */
{
    return tp_make_shape_n((int)dims[0], dims + 1);
}

/* A value to be fed; the caller fills *t. */
static tp_node *feed(sheet *s, tp_dtype dtype, tp_shape shape, tp_tensor **t)
{
    char name[16];
    const int i = s->n_fed++;
    if (!CHECK(i < MOST)) exit(1);
    tp_shape stated = shape;
    for (int d = 0; d < stated.ndim && s->unknown; d++) stated.dim[d] = TP_ANY;
    snprintf(name, sizeof name, "x%d", i);
    CHECK_OK(tp_tensor_resize(&s->fed[i], dtype, shape));
    s->feed[i].node = tp_placeholder(s->g, name, dtype, stated);
    *t = &s->fed[i];
    return s->feed[i].node;
}

/* What y should be; the caller fills the tensor. */
static tp_tensor *expect(sheet *s, tp_node *y, tp_dtype dtype, tp_shape shape, const char *what, int64_t detail)
{
    const int i = s->n++;
    if (!CHECK(i < MOST)) exit(1);
    s->node[i] = y;
    snprintf(s->what[i], sizeof s->what[i], "%.50s %lld", what, (long long)detail);
    CHECK_OK(tp_tensor_resize(&s->want[i], dtype, shape));
    if (tp_tensor_bytes(&s->want[i])) memset(s->want[i].data, 0, tp_tensor_bytes(&s->want[i]));
    return &s->want[i];
}

static bool same(const tp_tensor *a, const tp_tensor *b)
{
    if (a->dtype != b->dtype || !tp_shape_equal(&a->shape, &b->shape)) return false;
    if (tp_tensor_bytes(b) == 0 || memcmp(a->data, b->data, tp_tensor_bytes(b)) == 0) return true;
    for (int64_t i = 0; i < tp_tensor_size(b); i++) {
        const double v = tp_tensor_get(a, i), w = tp_tensor_get(b, i);
        if (!(v == w || (isnan(v) && isnan(w)))) return false;
    }
    return tp_dtype_is_float(b->dtype); /* but for the sign of a zero and the bits of a NaN */
}

/* Run with one thread and the plain loops, and with three and the fastest kernels; then free all. */
static void settle(sheet *s)
{
    const tp_tensor *v[MOST];
    CHECK_MSG(tp_graph_status(s->g) == TP_OK, "%s", tp_graph_error(s->g));
    for (int i = 0; i < s->n_fed; i++)
        tp_tensor_view(&s->feed[i].value, s->fed[i].dtype, s->fed[i].shape, s->fed[i].data);
    for (int fast = 0; fast < 2 && tp_graph_status(s->g) == TP_OK; fast++) {
        tp_session_config c = tp_default_session_config();
        c.threads = fast ? 3 : 1;
        c.isa = fast ? NULL : "naive";
        tp_session *session = tp_session_new(s->g, &c);
        if (CHECK_OK(tp_session_run(session, s->feed, s->n_fed, s->node, s->n, v)))
            for (int i = 0; i < s->n; i++) {
                char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
                CHECK_MSG(same(v[i], &s->want[i]), "%s, %s, %s: %s of %s, expected %s of %s", s->what[i],
                          fast ? "fast" : "naive", s->unknown ? "unknown" : "known", tp_shape_text(&v[i]->shape, a),
                          tp_dtype_name(v[i]->dtype), tp_shape_text(&s->want[i].shape, b),
                          tp_dtype_name(s->want[i].dtype));
            }
        tp_session_free(session);
    }
    for (int i = 0; i < s->n_fed; i++) tp_tensor_free(&s->fed[i]);
    for (int i = 0; i < s->n; i++) tp_tensor_free(&s->want[i]);
    tp_graph_free(s->g);
    free(s);
}

/* Whole numbers from low to high that follow no pattern. */
static void fill(tp_tensor *t, int low, int high, uint64_t key)
{
    const int64_t n = tp_tensor_size(t);
    uint64_t state = key * 2654435761u + 12345;
    for (int64_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        tp_tensor_set(t, i, low + (int)((state >> 33) % (uint64_t)(high - low + 1)));
    }
}

static bool next_index(int64_t *index, const tp_shape *s)
{
    for (int d = s->ndim - 1; d >= 0; d--) {
        if (++index[d] < s->dim[d]) return true;
        index[d] = 0;
    }
    return false;
}
static int64_t flat(const tp_shape *s, const int64_t *index)
{
    int64_t at = 0;
    for (int d = 0; d < s->ndim; d++) at = at * s->dim[d] + index[d];
    return at;
}

/* ==== >>reductions ==================================================================================== */

typedef enum { SUM, MEAN, LARGEST, SMALLEST, PRODUCT, KINDS } kind;
static tp_node *(*const reduce[KINDS])(tp_node *, const int *, int, bool) = {
    tp_reduce_sum, tp_reduce_mean, tp_reduce_max, tp_reduce_min, tp_reduce_prod};
static const char *const kind_name[KINDS] = {"sum", "mean", "max", "min", "prod"};

/* y of x over the axes of `mask`, in double: exact for what the tests give it. */
static void reduce_by_hand(const tp_tensor *x, kind what, unsigned mask, tp_tensor *y, const tp_shape *kept)
{
    const int64_t n = tp_tensor_size(y), m = tp_tensor_size(x);
    static const double start[KINDS] = {0, 0, -INFINITY, INFINITY, 1};
    double *v = (double *)malloc((size_t)(n + 1) * sizeof *v);
    if (!CHECK(v != NULL)) exit(1);
    for (int64_t i = 0; i < n; i++) v[i] = start[what];
    int64_t index[TP_MAX_DIMS] = {0};
    for (int64_t i = 0; i < m; i++) {
        int64_t at[TP_MAX_DIMS];
        for (int d = 0; d < x->shape.ndim; d++) at[d] = (mask >> d & 1u) ? 0 : index[d];
        double *o = &v[flat(kept, at)];
        const double e = tp_tensor_get(x, i);
        if (what == SUM || what == MEAN) *o += e;
        else if (what == PRODUCT) *o *= e;
        else if (isnan(e) || (what == LARGEST ? e > *o : e < *o)) *o = isnan(*o) ? *o : e;
        next_index(index, &x->shape);
    }
    for (int64_t i = 0; i < n; i++) tp_tensor_set(y, i, what == MEAN ? v[i] / ((double)m / (double)n) : v[i]);
    free(v);
}

static void expect_reduced(sheet *s, tp_node *x, const tp_tensor *t, kind what, unsigned mask, bool keep)
{
    int axes[TP_MAX_DIMS], n = 0;
    tp_shape kept = t->shape, y;
    memset(&y, 0, sizeof y);
    for (int d = 0; d < t->shape.ndim; d++) {
        const bool goes = mask >> d & 1u;
        if (goes) {
            kept.dim[d] = 1;
            axes[n++] = (d + (int)mask) % 2 ? d : d - t->shape.ndim; /* counted from either end */
        }
        if (!goes || keep) y.dim[y.ndim++] = kept.dim[d];
    }
    for (int i = 0; i < n / 2 && mask % 3 == 0; i++) { /* in either order */
        const int a = axes[i];
        axes[i] = axes[n - 1 - i];
        axes[n - 1 - i] = a;
    }
    if (mask == 0) return; /* no axes are all axes */
    tp_tensor *want = expect(s, reduce[what](x, axes, n, keep), t->dtype, y, kind_name[what], (int64_t)mask);
    reduce_by_hand(t, what, mask, want, &kept);
}

TEST(reductions_over_every_set_of_axes)
{
    static const int64_t shapes[][6] = {{1, 7},          {2, 3, 4},          {3, 2, 3, 2},
                                        {4, 3, 1, 4, 2}, {5, 2, 3, 2, 3, 2}, {4, 2, 33, 3, 17}};
    static const tp_dtype dtypes[] = {TP_F32, TP_F64, TP_I32, TP_I64};
    for (int i = 0; i < TP_COUNT(shapes); i++)
        for (int k = 0; k < 4; k++) {
            sheet *s = sheet_new(i % 2 == 1);
            tp_tensor *t, *factors;
            tp_node *x = feed(s, dtypes[k], shape_of(shapes[i]), &t),
                    *f = feed(s, dtypes[k], shape_of(shapes[i]), &factors);
            fill(t, -900, -1, (uint64_t)(i * 4 + k)); /* 0 is no neutral element of max */
            fill(factors, 0, 1, (uint64_t)(i * 4 + k));
            for (int64_t e = 0; e < tp_tensor_size(factors); e++)
                tp_tensor_set(factors, e, e % 911 == 3 ? -2 : 2 * tp_tensor_get(factors, e) - 1);
            for (unsigned mask = 1; mask < 1u << t->shape.ndim; mask++)
                for (int what = 0; what < KINDS; what++)
                    if (what != MEAN || tp_dtype_is_float(dtypes[k]))
                        expect_reduced(s, what == PRODUCT ? f : x, what == PRODUCT ? factors : t, (kind)what, mask,
                                       (mask + (unsigned)k) % 2);
            expect_reduced(s, tp_neg(x), t, SUM, (1u << t->shape.ndim) - 1, false);
            tp_tensor_set(&s->want[s->n - 1], 0, -tp_tensor_get(&s->want[s->n - 1], 0));
            settle(s);
        }
}

/* Long rows in parts, narrow columns side by side, wide ones in tiles, and all that is left over at the ends. */
static const int64_t large[][5] = {{1, 100001, 1},      {2, 3, 40001, 2},   {2, 5001, 3, 1},    {2, 25013, 3, 1},
                                   {2, 301, 700, 1},    {2, 41, 1100, 1},   {3, 3, 301, 64, 2}, {3, 40, 11, 200, 2},
                                   {2, 7, 10300, 1},    {2, 20, 3601, 1},   {2, 6, 15300, 1},   {2, 129, 130, 1},
                                   {2, 257, 128, 1},    {2, 300, 127, 1},   {3, 33, 9, 513, 2}, {2, 20000, 1, 1},
                                   {3, 30, 2, 2000, 6}, {3, 2000, 3, 7, 5}, {2, 1, 5000, 1},    {2, 5000, 1, 2},
                                   {3, 2, 9000, 2, 2},  {2, 5001, 2, 2},    {2, 3003, 15, 2},   {2, 700, 16, 2}};

TEST(reductions_of_large_values)
{
    for (int i = 0; i < TP_COUNT(large); i++) {
        sheet *s = sheet_new(i % 2 == 0);
        const unsigned mask = (unsigned)large[i][1 + large[i][0]];
        tp_tensor *t;
        tp_node *x = feed(s, TP_F32, shape_of(large[i]), &t);
        fill(t, -20, -2, (uint64_t)i);
        for (int what = 0; what < PRODUCT; what++) expect_reduced(s, x, t, (kind)what, mask, what % 2);
        settle(s);
    }
}

/* Products of 1, -1 and some -2, and their derivatives: the weight of the product times the other factors. */
TEST(products_and_their_derivatives)
{
    for (int i = 0; i < TP_COUNT(large); i++)
        for (int k = 0; k < 2; k++) {
            sheet *s = sheet_new(i % 2 == 0);
            const unsigned mask = (unsigned)large[i][1 + large[i][0]];
            int axes[TP_MAX_DIMS], n = 0;
            tp_tensor *t, *w, product;
            tp_node *x = feed(s, k ? TP_F64 : TP_F32, shape_of(large[i]), &t), *dx;
            tp_shape kept = t->shape;
            for (int d = 0; d < kept.ndim; d++)
                if (mask >> d & 1u) axes[n++] = d, kept.dim[d] = 1;
            fill(t, 0, 1, (uint64_t)i);
            for (int64_t e = 0; e < tp_tensor_size(t); e++)
                tp_tensor_set(t, e, e % 9001 == 7 ? -2 : 2 * tp_tensor_get(t, e) - 1);
            tp_node *weight = feed(s, t->dtype, kept, &w);
            fill(w, 1, 9, (uint64_t)i);
            tp_gradients(tp_sum(tp_mul(tp_reduce_prod(x, axes, n, true), weight)), &x, 1, &dx);
            expect_reduced(s, x, t, PRODUCT, mask, false);
            memset(&product, 0, sizeof product);
            CHECK_OK(tp_tensor_resize(&product, t->dtype, kept));
            reduce_by_hand(t, PRODUCT, mask, &product, &kept);
            tp_tensor *want = expect(s, dx, t->dtype, t->shape, "derivative of prod", i);
            int64_t index[TP_MAX_DIMS] = {0};
            for (int64_t e = 0; e < tp_tensor_size(t); e++) {
                int64_t at[TP_MAX_DIMS];
                for (int d = 0; d < kept.ndim; d++) at[d] = (mask >> d & 1u) ? 0 : index[d];
                const int64_t o = flat(&kept, at);
                tp_tensor_set(want, e, tp_tensor_get(w, o) * tp_tensor_get(&product, o) / tp_tensor_get(t, e));
                next_index(index, &t->shape);
            }
            tp_tensor_free(&product);
            settle(s);
        }
}

/* Columns are added up in blocks: what a single running sum would lose, 2e-5 of it, is kept. */
TEST(long_columns_are_summed_exactly_enough)
{
    const int64_t dims[3] = {32, 1500, 128};
    const float one = 1.00006f; /* beyond 1024, a float32 takes 0 or 2^-13 of what is behind the point */
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(3, dims));
    const int axis = 1;
    tp_node *y = tp_reduce_sum(x, &axis, 1, false);
    const int64_t n = dims[0] * dims[1] * dims[2];
    float *v = (float *)malloc((size_t)n * sizeof *v);
    for (int64_t i = 0; v && i < n; i++) v[i] = one;
    tp_session *s = tp_session_new(g, NULL);
    tp_feed f;
    memset(&f, 0, sizeof f);
    f.node = x;
    tp_tensor_view(&f.value, TP_F32, x->shape, v);
    const tp_tensor *sum = NULL;
    if (CHECK(v != NULL) && CHECK_OK(tp_session_run(s, &f, 1, &y, 1, &sum)))
        for (int64_t i = 0; i < tp_tensor_size(sum); i++)
            if (!CHECK_NEAR(tp_tensor_get(sum, i), 1500 * (double)one, 0, 2e-6)) break;
    tp_session_free(s);
    tp_graph_free(g);
    free(v);
}

/* A NaN wins wherever it stands, and nothing but its own output hears of it; so does an infinity among the rest. */
TEST(the_largest_with_a_nan_anywhere)
{
    for (int i = 0; i < TP_COUNT(large); i++) {
        sheet *s = sheet_new(false);
        const unsigned mask = (unsigned)large[i][1 + large[i][0]];
        tp_tensor *t;
        tp_node *x = feed(s, TP_F32, shape_of(large[i]), &t);
        const int64_t size = tp_tensor_size(t), places[4] = {0, size / 2, size - 1, size / 3};
        fill(t, -20, -2, (uint64_t)i);
        tp_tensor_set(t, places[i % 4], NAN);
        tp_tensor_set(t, size * 3 / 4, INFINITY);
        tp_tensor_set(t, size / 5, -INFINITY);
        expect_reduced(s, x, t, LARGEST, mask, false);
        expect_reduced(s, x, t, SMALLEST, mask, false);
        settle(s);
    }
}

/* ==== >>elements that move ============================================================================ */

/* Where each element of y comes from: an element of one of the inputs, or -1, which is `border`. */
enum { INPUTS = 3 };
typedef struct mapping {
    const char *what;
    int n_x;
    tp_shape x[INPUTS], y;
    int64_t from[INPUTS + 1]; /* the first element of each input, when they are counted on */
    int64_t *source;
    double border;
} mapping;

static mapping mapping_of(const char *what, const tp_shape *x, int n_x, tp_shape y, double border)
{
    mapping m;
    memset(&m, 0, sizeof m);
    m.what = what;
    m.n_x = n_x;
    for (int i = 0; i < n_x; i++) {
        m.x[i] = x[i];
        m.from[i + 1] = m.from[i] + tp_shape_size(&x[i]);
    }
    m.y = y;
    m.border = border;
    m.source = (int64_t *)calloc((size_t)tp_shape_size(&y) + 1, sizeof *m.source);
    if (!CHECK(m.source != NULL)) exit(1);
    return m;
}

typedef tp_node *(*move_fn)(tp_node *const *x, const void *how);

/* y of bytes that follow no pattern, in elements of 1, 2, 4 and 8 bytes. */
static void check_move(const mapping *m, move_fn make, const void *how, int64_t detail)
{
    static const tp_dtype dtypes[] = {TP_U8, TP_BF16, TP_F32, TP_I64};
    for (int k = 0; k < 4; k++) {
        sheet *s = sheet_new((detail + k) % 2 == 1);
        tp_tensor *t[INPUTS] = {NULL}, border;
        tp_node *x[INPUTS] = {NULL};
        const size_t size = tp_dtype_size(dtypes[k]);
        memset(&border, 0, sizeof border);
        CHECK_OK(tp_tensor_resize(&border, dtypes[k], tp_make_shape_n(0, NULL)));
        tp_tensor_set(&border, 0, m->border);
        for (int i = 0; i < m->n_x; i++) {
            x[i] = feed(s, dtypes[k], m->x[i], &t[i]);
            for (int64_t e = 0; e < tp_tensor_size(t[i]); e++) tp_tensor_set(t[i], e, (double)((e * 7 + i * 31) % 251));
        }
        tp_tensor *want = expect(s, make(x, how), dtypes[k], m->y, m->what, detail);
        for (int64_t e = 0; e < tp_tensor_size(want); e++) {
            int i = 0;
            const int64_t at = m->source[e];
            while (i + 1 < m->n_x && at >= m->from[i + 1]) i++;
            memcpy((char *)want->data + (size_t)e * size,
                   at < 0 ? (char *)border.data : (char *)t[i]->data + (size_t)(at - m->from[i]) * size, size);
        }
        tp_tensor_free(&border);
        settle(s);
    }
}

/* Each input's gradient: the sum of dy over where its elements went, for whole numbers. */
static void check_move_back(const mapping *m, move_fn make, const void *how, int64_t detail)
{
    for (int k = 0; k < 2; k++) {
        sheet *s = sheet_new((detail + k) % 2 == 1);
        const tp_dtype dtype = k ? TP_F64 : TP_F32;
        tp_tensor *t = NULL, *w, *want[INPUTS] = {NULL};
        tp_node *x[INPUTS] = {NULL}, *dx[INPUTS] = {NULL};
        for (int i = 0; i < m->n_x; i++) {
            x[i] = feed(s, dtype, m->x[i], &t);
            fill(t, -9, 9, (uint64_t)i);
        }
        tp_node *y = make(x, how), *weight = feed(s, dtype, m->y, &w);
        fill(w, -50, 50, 77);
        tp_gradients(tp_sum(tp_mul(y, weight)), x, m->n_x, dx);
        for (int i = 0; i < m->n_x; i++)
            if (CHECK(dx[i] != NULL)) want[i] = expect(s, dx[i], dtype, m->x[i], m->what, detail);
        for (int64_t e = 0; e < tp_tensor_size(w); e++) {
            int i = 0;
            const int64_t at = m->source[e];
            if (at < 0) continue;
            while (i + 1 < m->n_x && at >= m->from[i + 1]) i++;
            if (want[i])
                tp_tensor_set(want[i], at - m->from[i], tp_tensor_get(want[i], at - m->from[i]) + tp_tensor_get(w, e));
        }
        settle(s);
    }
}

static void check_mapping(mapping *m, move_fn make, const void *how, int64_t detail)
{
    check_move(m, make, how, detail);
    check_move_back(m, make, how, detail);
    free(m->source);
}

/* -- transpose, reverse */

static tp_node *make_transpose(tp_node *const *x, const void *how) /* how: the number of axes, then they */
{
    const int *perm = (const int *)how;
    return tp_transpose(x[0], perm + 1, perm[0]);
}

static void transposed(const int64_t *dims, const int *perm, int64_t detail)
{
    const tp_shape x = shape_of(dims);
    tp_shape y = x;
    int how[TP_MAX_DIMS + 1];
    int64_t index[TP_MAX_DIMS] = {0};
    how[0] = x.ndim;
    for (int d = 0; d < x.ndim; d++) {
        y.dim[d] = x.dim[perm[d]];
        how[d + 1] = detail % 3 == 2 ? perm[d] - x.ndim : perm[d];
    }
    mapping m = mapping_of("transpose", &x, 1, y, 0);
    const int64_t n = tp_shape_size(&y);
    for (int64_t e = 0; e < n; e++) {
        int64_t from[TP_MAX_DIMS];
        for (int d = 0; d < x.ndim; d++) from[perm[d]] = index[d];
        m.source[e] = flat(&x, from);
        next_index(index, &y);
    }
    check_mapping(&m, make_transpose, how, detail);
}

static void swap(int *a, int *b)
{
    const int t = *a;
    *a = *b;
    *b = t;
}
static bool next_permutation(int *p, int n)
{
    int i = n - 2, j = n - 1;
    while (i >= 0 && p[i] > p[i + 1]) i--;
    if (i < 0) return false;
    while (p[j] < p[i]) j--;
    swap(&p[i], &p[j]);
    for (int a = i + 1, b = n - 1; a < b; a++, b--) swap(&p[a], &p[b]);
    return true;
}

TEST(transposed_in_every_order)
{
    static const int64_t shapes[][5] = {{1, 5},         {2, 3, 5},       {2, 1, 4},       {2, 70, 3},
                                        {2, 67, 129},   {3, 2, 0, 3},    {3, 4, 5, 6},    {3, 130, 2, 3},
                                        {3, 9, 17, 33}, {4, 2, 3, 1, 4}, {4, 3, 2, 5, 2}, {3, 70, 3, 40}};
    for (int i = 0; i < TP_COUNT(shapes); i++) {
        int perm[4] = {0, 1, 2, 3}, k = 0;
        do transposed(shapes[i], perm, i * 100 + k++);
        while (next_permutation(perm, (int)shapes[i][0]));
    }
}

static tp_node *make_reverse(tp_node *const *x, const void *how) /* how: a mask of axes */
{
    const unsigned mask = *(const unsigned *)how;
    int axes[TP_MAX_DIMS], n = 0;
    for (int d = 0; d < 4; d++)
        if (mask >> d & 1u) axes[n++] = d;
    return tp_reverse(x[0], axes, n);
}

TEST(reversed_along_every_set_of_axes)
{
    static const int64_t shapes[][5] = {{1, 9},      {2, 3, 5},  {3, 4, 1, 3}, {3, 2, 3, 4},
                                        {2, 70, 40}, {1, 70001}, {2, 0, 3}};
    for (int i = 0; i < TP_COUNT(shapes); i++) {
        const tp_shape x = shape_of(shapes[i]);
        for (unsigned mask = 1; mask < 1u << x.ndim; mask++) {
            mapping m = mapping_of("reverse", &x, 1, x, 0);
            int64_t index[TP_MAX_DIMS] = {0};
            for (int64_t e = 0; e < tp_shape_size(&x); e++) {
                int64_t from[TP_MAX_DIMS];
                for (int d = 0; d < x.ndim; d++) from[d] = (mask >> d & 1u) ? x.dim[d] - 1 - index[d] : index[d];
                m.source[e] = flat(&x, from);
                next_index(index, &x);
            }
            check_mapping(&m, make_reverse, &mask, (int64_t)mask + 100 * i);
        }
    }
}

/* -- concat, stack, split, unstack */

static tp_node *make_concat(tp_node *const *x, const void *how) { return tp_concat(x, 3, *(const int *)how); }
static tp_node *make_stack(tp_node *const *x, const void *how) { return tp_stack(x, 3, *(const int *)how); }

static const int64_t joined[][6] = {{1, 4},        {2, 3, 5},       {2, 0, 2},  {3, 2, 3, 4},
                                    {3, 70, 1, 3}, {4, 2, 3, 1, 2}, {2, 600, 9}};

TEST(concatenated_along_every_axis)
{
    for (int i = 0; i < TP_COUNT(joined); i++)
        for (int axis = 0; axis < (int)joined[i][0]; axis++) {
            tp_shape x[3], y = shape_of(joined[i]);
            for (int q = 0; q < 3; q++) x[q] = y;
            x[1].dim[axis] += 2; /* of three sizes, one maybe 0 */
            x[2].dim[axis] = i % 2 ? 0 : 1;
            y.dim[axis] = x[0].dim[axis] + x[1].dim[axis] + x[2].dim[axis];
            mapping m = mapping_of("concat", x, 3, y, 0);
            int64_t index[TP_MAX_DIMS] = {0};
            for (int64_t e = 0; e < tp_shape_size(&y); e++) {
                int64_t from[TP_MAX_DIMS];
                int q = 0;
                memcpy(from, index, sizeof from);
                while (from[axis] >= x[q].dim[axis]) from[axis] -= x[q++].dim[axis];
                m.source[e] = m.from[q] + flat(&x[q], from);
                next_index(index, &y);
            }
            const int how = (i + axis) % 2 ? axis : axis - y.ndim;
            check_mapping(&m, make_concat, &how, i * 10 + axis);
        }
}

TEST(stacked_along_every_axis)
{
    for (int i = 0; i < TP_COUNT(joined); i++)
        for (int axis = 0; axis <= (int)joined[i][0]; axis++) {
            tp_shape x[3], y = shape_of(joined[i]);
            for (int q = 0; q < 3; q++) x[q] = y;
            for (int d = y.ndim++; d > axis; d--) y.dim[d] = y.dim[d - 1];
            y.dim[axis] = 3;
            mapping m = mapping_of("stack", x, 3, y, 0);
            int64_t index[TP_MAX_DIMS] = {0};
            for (int64_t e = 0; e < tp_shape_size(&y); e++) {
                int64_t from[TP_MAX_DIMS];
                for (int d = 0; d < x[0].ndim; d++) from[d] = index[d < axis ? d : d + 1];
                m.source[e] = m.from[index[axis]] + flat(&x[0], from);
                next_index(index, &y);
            }
            const int how = (i + axis) % 2 ? axis : axis - y.ndim;
            check_mapping(&m, make_stack, &how, i * 10 + axis);
        }
}

typedef struct part_of {
    int axis, n, which;
} part_of;
static tp_node *make_split(tp_node *const *x, const void *how)
{
    const part_of *p = (const part_of *)how;
    tp_node *out[4];
    tp_split(x[0], p->n, p->axis, out);
    return out[p->which];
}
static tp_node *make_unstack(tp_node *const *x, const void *how)
{
    const part_of *p = (const part_of *)how;
    tp_node *out[4];
    tp_unstack(x[0], p->axis, p->n, out);
    return out[p->which];
}

/* One part of an axis that is three times as long, or 3. */
static void parted(int i, int axis, int which, bool unstack)
{
    tp_shape x = shape_of(joined[i]), y = x;
    if (unstack) {
        for (int d = x.ndim++; d > axis; d--) x.dim[d] = x.dim[d - 1];
        x.dim[axis] = 3;
    } else x.dim[axis] *= 3;
    mapping m = mapping_of(unstack ? "unstack" : "split", &x, 1, y, 0);
    int64_t index[TP_MAX_DIMS] = {0};
    for (int64_t e = 0; e < tp_shape_size(&y); e++) {
        int64_t from[TP_MAX_DIMS];
        for (int d = 0; d < x.ndim; d++) from[d] = index[unstack && d > axis ? d - 1 : d];
        from[axis] = unstack ? which : index[axis] + which * y.dim[axis];
        m.source[e] = flat(&x, from);
        next_index(index, &y);
    }
    part_of how;
    how.n = 3;
    how.axis = which == 1 ? axis - x.ndim : axis;
    how.which = which;
    check_mapping(&m, unstack ? make_unstack : make_split, &how, i * 100 + axis * 10 + which);
}

TEST(split_and_unstacked_along_every_axis)
{
    for (int i = 0; i < TP_COUNT(joined); i++)
        for (int which = 0; which < 3; which++) {
            for (int axis = 0; axis < (int)joined[i][0]; axis++) parted(i, axis, which, false);
            for (int axis = 0; axis <= (int)joined[i][0]; axis++) parted(i, axis, which, true);
        }
}

/* -- slice, pad, tile, broadcast, gather */

typedef struct box {
    int64_t a[TP_MAX_DIMS], b[TP_MAX_DIMS]; /* begin and size; before and after; a: times */
    int mode;
    float value;
} box;
static tp_node *make_slice(tp_node *const *x, const void *how)
{
    return tp_slice(x[0], ((const box *)how)->a, ((const box *)how)->b);
}
static tp_node *make_pad(tp_node *const *x, const void *how)
{
    const box *b = (const box *)how;
    return tp_pad(x[0], b->a, b->b, b->mode, b->value);
}
static tp_node *make_tile(tp_node *const *x, const void *how) { return tp_tile(x[0], ((const box *)how)->a); }

TEST(slices_of_every_kind)
{
    /* dimensions, then where the box begins, then its size: -1 - k leaves out the last k */
    static const int64_t cases[][3][5] = {{{1, 9}, {0, 2}, {0, 4}},
                                          {{1, 9}, {0, 9}, {0, -1}},
                                          {{1, 9}, {0, 0}, {0, 9}},
                                          {{2, 4, 5}, {0, 1, 0}, {0, 2, 5}},
                                          {{2, 4, 5}, {0, 0, 2}, {0, -1, 3}},
                                          {{2, 4, 5}, {0, 3, 4}, {0, -1, -1}},
                                          {{2, 4, 5}, {0, 2, 2}, {0, 0, 3}},
                                          {{3, 3, 4, 2}, {0, 1, 1, 1}, {0, 2, 2, 1}},
                                          {{3, 70, 3, 4}, {0, 1, 0, 1}, {0, 67, 3, 2}},
                                          {{1, 90000}, {0, 3}, {0, 81000}},
                                          {{2, 300, 70}, {0, 20, 3}, {0, 200, 64}},
                                          {{2, 0, 3}, {0, 0, 1}, {0, -1, 1}},
                                          {{3, 70, 3, 4}, {0, 1, 0, 1}, {0, -3, -1, -2}},
                                          {{2, 4, 5}, {0, 1, 0}, {0, -4, -5}}};
    for (int i = 0; i < TP_COUNT(cases); i++) {
        const tp_shape x = shape_of(cases[i][0]);
        tp_shape y = x;
        box b;
        memset(&b, 0, sizeof b);
        for (int d = 0; d < x.ndim; d++) {
            b.a[d] = cases[i][1][d + 1];
            b.b[d] = cases[i][2][d + 1];
            y.dim[d] = b.b[d] < 0 ? x.dim[d] - b.a[d] + 1 + b.b[d] : b.b[d];
        }
        mapping m = mapping_of("slice", &x, 1, y, 0);
        int64_t index[TP_MAX_DIMS] = {0};
        for (int64_t e = 0; e < tp_shape_size(&y); e++) {
            int64_t from[TP_MAX_DIMS];
            for (int d = 0; d < x.ndim; d++) from[d] = index[d] + b.a[d];
            m.source[e] = flat(&x, from);
            next_index(index, &y);
        }
        check_mapping(&m, make_slice, &b, i);
    }
}

/* The element of an axis of n that stands at place i before its first or behind its last one; -1: the border. */
static int64_t mirrored(int64_t i, int64_t n, int mode)
{
    if (i >= 0 && i < n) return i;
    if (mode == TP_PAD_CONSTANT) return -1;
    const int64_t skip = mode == TP_PAD_REFLECT ? 1 : 0; /* the edge stands once, or twice */
    return i < 0 ? -i - 1 + skip : n - 1 - (i - n) - skip;
}

TEST(padded_in_every_mode)
{
    static const int64_t cases[][3][5] = {{{1, 4}, {0, 2}, {0, 3}},
                                          {{2, 4, 5}, {0, 0, 3}, {0, 0, 1}},
                                          {{2, 4, 5}, {0, 1, 0}, {0, 3, 0}},
                                          {{2, 4, 5}, {0, 2, 4}, {0, 1, 2}},
                                          {{3, 3, 2, 4}, {0, 0, 1, 2}, {0, 2, 0, 3}},
                                          {{3, 60, 3, 4}, {0, 1, 2, 0}, {0, 1, 1, 0}},
                                          {{2, 300, 70}, {0, 2, 30}, {0, 5, 1}},
                                          {{2, 200, 90}, {0, 0, 7}, {0, 0, 9}},
                                          {{3, 2, 2, 2}, {0, 0, 0, 0}, {0, 0, 0, 0}},
                                          {{2, 9, 1}, {0, 3, 0}, {0, 0, 0}},
                                          {{4, 2, 70, 9, 3}, {0, 0, 1, 2, 0}, {0, 0, 3, 1, 0}},
                                          {{4, 2, 5, 7, 16}, {0, 0, 0, 2, 0}, {0, 0, 0, 0, 0}},
                                          {{4, 2, 5, 7, 16}, {0, 0, 2, 0, 0}, {0, 1, 1, 0, 0}}};
    for (int mode = TP_PAD_CONSTANT; mode <= TP_PAD_SYMMETRIC; mode++)
        for (int i = 0; i < TP_COUNT(cases); i++) {
            const tp_shape x = shape_of(cases[i][0]);
            tp_shape y = x;
            box b;
            memset(&b, 0, sizeof b);
            b.mode = mode;
            b.value = i % 2 ? 5.0f : 0.0f;
            for (int d = 0; d < x.ndim; d++) {
                b.a[d] = cases[i][1][d + 1];
                b.b[d] = cases[i][2][d + 1];
                y.dim[d] += b.a[d] + b.b[d];
            }
            mapping m = mapping_of("pad", &x, 1, y, (double)b.value);
            int64_t index[TP_MAX_DIMS] = {0};
            for (int64_t e = 0; e < tp_shape_size(&y); e++) {
                int64_t from[TP_MAX_DIMS];
                bool border = false;
                for (int d = 0; d < x.ndim; d++) {
                    from[d] = mirrored(index[d] - b.a[d], x.dim[d], mode);
                    border = border || from[d] < 0;
                }
                m.source[e] = border ? -1 : flat(&x, from);
                next_index(index, &y);
            }
            check_mapping(&m, make_pad, &b, i + 100 * mode);
        }
}

TEST(tiled_any_number_of_times)
{
    static const int64_t cases[][2][5] = {
        {{1, 4}, {0, 3}},         {{1, 4}, {0, 1}},          {{1, 4}, {0, 0}},
        {{2, 3, 5}, {0, 2, 1}},   {{2, 3, 5}, {0, 1, 4}},    {{3, 2, 1, 3}, {0, 2, 5, 2}},
        {{2, 70, 1}, {0, 1, 40}}, {{2, 1, 700}, {0, 70, 1}}, {{3, 4, 3, 2}, {0, 3, 1, 2}},
        {{2, 3, 0}, {0, 2, 3}}};
    for (int i = 0; i < TP_COUNT(cases); i++) {
        const tp_shape x = shape_of(cases[i][0]);
        tp_shape y = x;
        box b;
        memset(&b, 0, sizeof b);
        for (int d = 0; d < x.ndim; d++) {
            b.a[d] = cases[i][1][d + 1];
            y.dim[d] *= b.a[d];
        }
        mapping m = mapping_of("tile", &x, 1, y, 0);
        int64_t index[TP_MAX_DIMS] = {0};
        for (int64_t e = 0; e < tp_shape_size(&y); e++) {
            int64_t from[TP_MAX_DIMS];
            for (int d = 0; d < x.ndim; d++) from[d] = index[d] % x.dim[d];
            m.source[e] = flat(&x, from);
            next_index(index, &y);
        }
        check_mapping(&m, make_tile, &b, i);
    }
}

/* x in the shape of a constant. */
static tp_node *make_broadcast(tp_node *const *x, const void *how)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    CHECK_OK(tp_tensor_resize(&t, x[0]->dtype, *(const tp_shape *)how));
    if (tp_tensor_bytes(&t)) memset(t.data, 0, tp_tensor_bytes(&t));
    tp_node *y = tp_broadcast_like(x[0], tp_constant(tp_node_graph(x[0]), &t));
    tp_tensor_free(&t);
    return y;
}

TEST(broadcast_and_summed_back)
{
    static const int64_t cases[][2][6] = {{{0}, {1, 5}},
                                          {{0}, {2, 3, 4}},
                                          {{1, 1}, {2, 3, 4}},
                                          {{1, 4}, {2, 3, 4}},
                                          {{2, 3, 1}, {2, 3, 4}},
                                          {{2, 1, 4}, {2, 3, 4}},
                                          {{2, 3, 4}, {2, 3, 4}},
                                          {{3, 2, 1, 3}, {4, 5, 2, 4, 3}},
                                          {{4, 1, 3, 1, 2}, {4, 2, 3, 4, 2}},
                                          {{1, 70}, {2, 300, 70}},
                                          {{2, 300, 1}, {2, 300, 70}},
                                          {{3, 1, 1, 4}, {3, 0, 3, 4}}};
    for (int i = 0; i < TP_COUNT(cases); i++) {
        const tp_shape x = shape_of(cases[i][0]), y = shape_of(cases[i][1]);
        mapping m = mapping_of("broadcast", &x, 1, y, 0);
        int64_t index[TP_MAX_DIMS] = {0};
        for (int64_t e = 0; e < tp_shape_size(&y); e++) {
            int64_t from[TP_MAX_DIMS];
            for (int d = 0; d < x.ndim; d++) from[d] = x.dim[d] == 1 ? 0 : index[d + y.ndim - x.ndim];
            m.source[e] = flat(&x, from);
            next_index(index, &y);
        }
        check_mapping(&m, make_broadcast, &y, i);
    }
}

/* Rows by indices (how) that repeat and skip some. */
static tp_node *make_gather(tp_node *const *x, const void *how)
{
    return tp_gather(x[0], tp_constant(tp_node_graph(x[0]), (const tp_tensor *)how));
}

TEST(gathered_rows)
{
    static const int64_t cases[][2][4] = {{{1, 5}, {1, 7}},    {{2, 4, 3}, {1, 6}},          {{2, 4, 3}, {2, 2, 5}},
                                          {{2, 4, 3}, {0}},    {{3, 6, 2, 3}, {2, 3, 1}},    {{2, 300, 33}, {1, 900}},
                                          {{2, 3, 2}, {1, 0}}, {{2, 2000, 17}, {2, 60, 20}}, {{2, 3, 0}, {1, 4}}};
    for (int i = 0; i < TP_COUNT(cases); i++)
        for (int wide = 0; wide < 2; wide++) {
            const tp_shape x = shape_of(cases[i][0]);
            tp_shape y = shape_of(cases[i][1]);
            tp_tensor at;
            memset(&at, 0, sizeof at);
            CHECK_OK(tp_tensor_resize(&at, wide ? TP_I64 : TP_I32, y));
            fill(&at, 0, (int)x.dim[0] - 1, (uint64_t)i);
            const int64_t n = tp_tensor_size(&at);
            if (n > 1) tp_tensor_set(&at, n - 1, (double)(x.dim[0] - 1));
            int64_t width = 1;
            for (int d = 1; d < x.ndim; d++) {
                y.dim[y.ndim++] = x.dim[d];
                width *= x.dim[d];
            }
            mapping m = mapping_of("gather", &x, 1, y, 0);
            for (int64_t e = 0; e < n * width; e++)
                m.source[e] = (int64_t)tp_tensor_get(&at, e / width) * width + e % width;
            check_mapping(&m, make_gather, &at, i + 100 * wide);
            tp_tensor_free(&at);
        }
}

/* ==== >>sums of several values, of squares, along an axis ============================================== */

TEST(sums_of_several_values)
{
    static const int64_t sizes[] = {1, 7, 1023, 1024, 1025, 16384, 16385, 40000};
    static const tp_dtype dtypes[] = {TP_F32, TP_F64, TP_I32, TP_I64};
    for (int i = 0; i < TP_COUNT(sizes); i++)
        for (int k = 0; k < (sizes[i] < 2000 ? 4 : 1); k++) {
            sheet *s = sheet_new(i % 2 == 1);
            const tp_shape shape = tp_make_shape_n(1, &sizes[i]);
            const bool real = tp_dtype_is_float(dtypes[k]);
            tp_tensor *t[5], *sum[5], *each[4];
            tp_node *x[5], *y[4];
            for (int a = 0; a < 5; a++) {
                x[a] = feed(s, dtypes[k], shape, &t[a]);
                fill(t[a], -400, 800, (uint64_t)(i * 10 + a));
            }
            for (int n = 1; n < 6; n++) sum[n - 1] = expect(s, tp_add_n(x, n), dtypes[k], shape, "add_n", n);
            tp_all_reduce(x, 4, false, y);
            for (int a = 0; a < 4; a++) each[a] = expect(s, y[a], dtypes[k], shape, "all_reduce", a);
            tp_all_reduce(x, 4, real, y);
            tp_tensor *mean = expect(s, y[2], dtypes[k], shape, "all_reduce, mean", 2);
            for (int64_t e = 0; e < sizes[i]; e++) {
                double v = 0;
                for (int a = 0; a < 5; a++) {
                    v += tp_tensor_get(t[a], e);
                    tp_tensor_set(sum[a], e, v);
                    if (a != 3) continue;
                    for (int q = 0; q < 4; q++) tp_tensor_set(each[q], e, v);
                    tp_tensor_set(mean, e, real ? v / 4 : v);
                }
            }
            settle(s);
        }
}

TEST(sums_of_squares)
{
    /* the last but one: in as many sums as there are at most; the last: as if in one more */
    static const int64_t sizes[] = {0, 1, 5, 1000, 16384, 32768, 33000, 100001, 32 * 16384, 33 * 16384 + 5};
    for (int k = 0; k < 2; k++) {
        sheet *s = sheet_new(k == 1);
        const tp_dtype dtype = k ? TP_F64 : TP_F32;
        tp_tensor *t;
        tp_node *x[TP_COUNT(sizes)];
        double all = 0;
        for (int i = 0; i < TP_COUNT(sizes); i++) {
            double sum = 0, zeros = 0;
            const tp_shape shape = tp_make_shape_n(1, &sizes[i]), scalar = tp_make_shape_n(0, NULL);
            x[i] = feed(s, dtype, shape, &t);
            fill(t, -3, 4, (uint64_t)i + 1);
            for (int64_t e = 0; e < sizes[i]; e++) {
                sum += tp_tensor_get(t, e) * tp_tensor_get(t, e);
                zeros += tp_tensor_get(t, e) == 0;
            }
            all += sum;
            tp_tensor_set(expect(s, tp_l2_loss(x[i]), dtype, scalar, "l2_loss", i), 0, sum / 2);
            tp_tensor_set(expect(s, tp_global_norm(&x[i], 1), dtype, scalar, "global_norm", i), 0, sqrt(sum));
            tp_tensor_set(expect(s, tp_global_norm(x, i + 1), dtype, scalar, "global_norm of all", i), 0, sqrt(all));
            if (sizes[i])
                tp_tensor_set(expect(s, tp_zero_fraction(x[i]), dtype, scalar, "zero_fraction", i), 0,
                              zeros / (double)sizes[i]);
        }
        settle(s);
    }
}

static const int64_t lined[][5] = {{1, 9},         {2, 3, 5},   {3, 2, 4, 3}, {2, 1, 6},
                                   {3, 20, 3, 10}, {2, 7, 300}, {2, 3300, 5}, {2, 0, 3}};

TEST(sums_along_an_axis)
{
    static const tp_dtype dtypes[] = {TP_F32, TP_F64, TP_I32, TP_I64};
    for (int i = 0; i < TP_COUNT(lined); i++)
        for (int k = 0; k < (i == 6 ? 1 : 4); k++) {
            sheet *s = sheet_new((i + k) % 2 == 1);
            const tp_shape shape = shape_of(lined[i]);
            tp_tensor *t, *w;
            tp_node *x = feed(s, dtypes[k], shape, &t), *weight = feed(s, dtypes[k], shape, &w);
            fill(t, -99, 99, (uint64_t)i);
            fill(w, -9, 9, (uint64_t)i + 50);
            for (int how = i == 5 ? 4 : 0; how < 4 * shape.ndim; how++) { /* of the long one its short axis */
                const int axis = how / 4;
                const bool exclusive = (how & 1) != 0, reverse = (how & 2) != 0;
                tp_node *y = tp_cumsum(x, how % 3 ? axis : axis - shape.ndim, exclusive, reverse), *dx = NULL;
                tp_tensor *want = expect(s, y, dtypes[k], shape, "cumsum", how), *back = NULL;
                if (tp_dtype_is_float(dtypes[k])) {
                    tp_gradients(tp_sum(tp_mul(y, weight)), &x, 1, &dx);
                    back = expect(s, dx, dtypes[k], shape, "gradient of cumsum", how);
                }
                int64_t index[TP_MAX_DIMS] = {0};
                for (int64_t e = 0; e < tp_tensor_size(t); e++) {
                    int64_t other[TP_MAX_DIMS];
                    double sum = 0, sum_back = 0;
                    memcpy(other, index, sizeof other);
                    for (other[axis] = 0; other[axis] < shape.dim[axis]; other[axis]++) {
                        const int64_t d = reverse ? other[axis] - index[axis] : index[axis] - other[axis];
                        if (d > 0 || (d == 0 && !exclusive)) sum += tp_tensor_get(t, flat(&shape, other));
                        if (d < 0 || (d == 0 && !exclusive)) sum_back += tp_tensor_get(w, flat(&shape, other));
                    }
                    tp_tensor_set(want, e, sum);
                    if (back) tp_tensor_set(back, e, sum_back);
                    next_index(index, &shape);
                }
            }
            settle(s);
        }
}

/* ==== >>which ones =================================================================================== */

TEST(the_first_of_the_largest)
{
    static const tp_dtype dtypes[] = {TP_F32, TP_F64, TP_I32, TP_I64};
    for (int i = 0; i + 1 < TP_COUNT(lined); i++)
        for (int k = 0; k < 4; k++) {
            sheet *s = sheet_new((i + k) % 2 == 1);
            const tp_shape shape = shape_of(lined[i]);
            tp_tensor *t;
            tp_node *x = feed(s, dtypes[k], shape, &t);
            fill(t, -3, 0, (uint64_t)i + 9); /* many ties */
            if (k < 2 && i % 2) tp_tensor_set(t, tp_tensor_size(t) / 2, NAN);
            for (int axis = 0; axis < shape.ndim; axis++) {
                tp_shape y = shape;
                for (int d = axis; d + 1 < y.ndim; d++) y.dim[d] = y.dim[d + 1];
                y.ndim--;
                tp_tensor *want = expect(s, tp_argmax(x, axis), TP_I64, y, "argmax", axis);
                int64_t index[TP_MAX_DIMS] = {0};
                for (int64_t e = 0; e < tp_tensor_size(want); e++) {
                    int64_t at[TP_MAX_DIMS], best = 0;
                    for (int d = 0; d < shape.ndim; d++) at[d] = d < axis ? index[d] : d > axis ? index[d - 1] : 0;
                    double most = NAN;
                    for (at[axis] = 0; at[axis] < shape.dim[axis]; at[axis]++) {
                        const double v = tp_tensor_get(t, flat(&shape, at));
                        if (at[axis] > 0 && !(v > most) && !(isnan(v) && !isnan(most))) continue;
                        if (at[axis] > 0 && isnan(most)) continue; /* the first NaN stays */
                        best = at[axis];
                        most = v;
                    }
                    tp_tensor_set(want, e, (double)best);
                    next_index(index, &y);
                }
            }
            settle(s);
        }
}

/* The k largest of each row by repeated search, the place of each, and whether a label is among them. */
static void check_top_k(tp_dtype dtype, int64_t rows, int64_t n, int k, int64_t detail)
{
    sheet *s = sheet_new(detail % 2 == 1);
    const int64_t dims[2] = {rows, n}, out[2] = {rows, k};
    tp_tensor *t, *label, *w;
    tp_node *x = feed(s, dtype, tp_make_shape_n(2, dims), &t), *at, *dx = NULL,
            *l = feed(s, detail % 3 ? TP_I32 : TP_I64, tp_make_shape_n(1, dims), &label),
            *weight = feed(s, dtype, tp_make_shape_n(2, out), &w);
    fill(t, -4, 4, (uint64_t)detail);
    fill(label, -1, (int)n, (uint64_t)detail + 1); /* some outside */
    fill(w, 1, 90, (uint64_t)detail + 2);
    if (detail % 4 == 0) tp_tensor_set(t, n / 2, NAN);
    if (detail % 4 == 1) tp_tensor_set(t, n - 1, INFINITY);
    tp_node *y = tp_top_k(x, k, &at);
    tp_gradients(tp_sum(tp_mul(y, weight)), &x, 1, &dx);
    tp_tensor *value = expect(s, y, dtype, tp_make_shape_n(2, out), "top_k", detail),
              *place = expect(s, at, TP_I32, tp_make_shape_n(2, out), "places of top_k", detail),
              *back = expect(s, dx, dtype, tp_make_shape_n(2, dims), "gradient of top_k", detail),
              *in = expect(s, tp_in_top_k(x, l, k), TP_BOOL, tp_make_shape_n(1, dims), "in_top_k", detail);
    for (int64_t r = 0; r < rows; r++) {
        for (int j = 0; j < k; j++) {
            int64_t best = -1;
            for (int64_t i = 0; i < n; i++) {
                bool taken = false;
                for (int q = 0; q < j; q++) taken = taken || (int64_t)tp_tensor_get(place, r * k + q) == i;
                const double v = tp_tensor_get(t, r * n + i), m = best < 0 ? 0 : tp_tensor_get(t, r * n + best);
                if (!taken && (best < 0 || v > m || (isnan(v) && !isnan(m)))) best = i;
            }
            tp_tensor_set(value, r * k + j, tp_tensor_get(t, r * n + best));
            tp_tensor_set(place, r * k + j, (double)best);
            tp_tensor_set(back, r * n + best, tp_tensor_get(w, r * k + j));
        }
        const int64_t c = (int64_t)tp_tensor_get(label, r);
        int larger = 0;
        for (int64_t i = 0; i < n && c >= 0 && c < n; i++)
            larger += tp_tensor_get(t, r * n + i) > tp_tensor_get(t, r * n + c);
        tp_tensor_set(in, r, c >= 0 && c < n && isfinite(tp_tensor_get(t, r * n + c)) && larger < k);
    }
    settle(s);
}

TEST(the_k_largest)
{
    for (int i = 0; i < 16; i++) check_top_k(i & 1 ? TP_F64 : TP_F32, 1 + i % 5, 6 + i % 3, 1 + i % 6, i);
}

/* Rows with ties and NaNs, as each instruction set and number of threads finds the largest: the plain loop's bits. The values
 * alone, the places alone, both. */
TEST(the_k_largest_of_long_rows)
{
    static const tp_dtype dtypes[] = {TP_F32, TP_F64, TP_F16, TP_BF16};
    static const int64_t sizes[][2] = {{1, 1}, {7, 5}, {3, 100}, {2, 1201}, {20, 400}};
    tp_tensor t = TP_EMPTY, want[2] = {TP_EMPTY, TP_EMPTY};
    for (int i = 0; i < 4 * TP_COUNT(sizes) * 4; i++) {
        const int64_t rows = sizes[i / 16][0], n = sizes[i / 16][1], some = i % 16 / 4 == 1 ? 2 : n / 3;
        const int64_t k = i % 16 / 4 == 0 ? 1 : i % 16 / 4 == 3 || some < 1 ? n : some < n ? some : n;
        CHECK_OK(tp_tensor_resize(&t, dtypes[i % 4], tp_make_shape(rows, n)));
        fill(&t, i % 3 ? -900 : -3, i % 3 ? 900 : 3, (uint64_t)i);
        for (int64_t e = i % 5; e < rows * n; e += 17) tp_tensor_set(&t, e, e % 3 == 0 ? NAN : e % 3 == 1 ? -0.0 : 0.0);
        for (int how = 0; how < 6; how++) { /* naive; one thread; three; values; places; naive places */
            tp_graph *g = tp_graph_new(NULL);
            tp_node *x = tp_placeholder(g, "x", dtypes[i % 4], t.shape), *out[2];
            out[0] = tp_top_k(x, (int)k, &out[1]);
            tp_session_config c = tp_default_session_config();
            c.threads = how == 2 ? 3 : 1;
            c.isa = how % 5 == 0 ? "naive" : NULL;
            tp_session *s = tp_session_new(g, &c);
            tp_feed f;
            memset(&f, 0, sizeof f);
            f.node = x, f.value = t;
            const tp_tensor *v[2];
            const int first = how >= 4, count = how >= 3 ? 1 : 2;
            const bool ran = CHECK_OK(tp_session_run(s, &f, 1, out + first, count, v));
            for (int o = 0; ran && o < count; o++)
                if (how == 0) CHECK_OK(tp_tensor_copy(&want[o], v[o]));
                else
                    CHECK_MSG(tp_shape_equal(&v[o]->shape, &want[first + o].shape) &&
                                  memcmp(v[o]->data, want[first + o].data, tp_tensor_bytes(v[o])) == 0,
                              "%s (%d,%d), k %d, case %d: output %d differs", tp_dtype_name(dtypes[i % 4]), (int)rows,
                              (int)n, (int)k, how, first + o);
            tp_session_free(s);
            tp_graph_free(g);
        }
    }
    tp_tensor_free(&t), tp_tensor_free(&want[0]), tp_tensor_free(&want[1]);
}

TEST(all_and_any_over_every_set_of_axes)
{
    static const int64_t shapes[][5] = {{1, 7}, {2, 3, 4}, {3, 2, 3, 2}, {4, 3, 1, 4, 2}, {2, 3, 300}};
    for (int i = 0; i < 4 * TP_COUNT(shapes); i++) {
        sheet *s = sheet_new(i % 2 == 1);
        tp_tensor *t;
        const tp_shape shape = shape_of(shapes[i / 4]);
        tp_node *x = feed(s, TP_BOOL, shape, &t);
        for (int64_t e = 0; e < tp_tensor_size(t); e++) /* mostly true, mostly false, one alone of either */
            tp_tensor_set(t, e,
                          i % 4 == 0   ? e % 5 != 0
                          : i % 4 == 1 ? e % 5 == 0
                                       : (e + 1 == tp_tensor_size(t)) == (i % 4 == 2));
        for (unsigned mask = 1; mask < 1u << shape.ndim; mask++) {
            int axes[4], n = 0;
            tp_shape kept = shape;
            for (int d = 0; d < shape.ndim; d++)
                if (mask >> d & 1u) axes[n++] = d, kept.dim[d] = 1;
            tp_tensor *all = expect(s, tp_reduce_all(x, axes, n, true), TP_BOOL, kept, "all", (int64_t)mask),
                      *any = expect(s, tp_reduce_any(x, axes, n, true), TP_BOOL, kept, "any", (int64_t)mask);
            int64_t index[TP_MAX_DIMS] = {0};
            for (int64_t e = 0; e < tp_tensor_size(all); e++) tp_tensor_set(all, e, 1);
            for (int64_t e = 0; e < tp_tensor_size(t); e++) {
                int64_t at[TP_MAX_DIMS];
                for (int d = 0; d < shape.ndim; d++) at[d] = (mask >> d & 1u) ? 0 : index[d];
                tp_tensor_set(tp_tensor_get(t, e) != 0 ? any : all, flat(&kept, at), tp_tensor_get(t, e));
                next_index(index, &shape);
            }
        }
        settle(s);
    }
}

/* ==== >>element by element ============================================================================ */

typedef double (*by_hand)(double a, double b);
static double hand_add(double a, double b) { return a + b; }
static double hand_sub(double a, double b) { return a - b; }
static double hand_mul(double a, double b) { return a * b; }
static double hand_max(double a, double b) { return a > b ? a : b; }
static double hand_min(double a, double b) { return a < b ? a : b; }
static double hand_sqdiff(double a, double b) { return (a - b) * (a - b); }
static double hand_floordiv(double a, double b) { return b == 0 ? 0 : floor(a / b); }
static double hand_mod(double a, double b) { return b == 0 ? 0 : a - floor(a / b) * b; }
static double hand_greater(double a, double b) { return a > b; }
static double hand_greater_equal(double a, double b) { return a >= b; }
static double hand_less(double a, double b) { return a < b; }
static double hand_less_equal(double a, double b) { return a <= b; }
static double hand_equal(double a, double b) { return a == b; }
static double hand_not_equal(double a, double b) { return a != b; }
static const struct {
    tp_node *(*fn)(tp_node *a, tp_node *b);
    by_hand hand;
    const char *name;
    bool yes_or_no;
} two_operands[] = {{tp_add, hand_add, "add", false},
                    {tp_sub, hand_sub, "sub", false},
                    {tp_mul, hand_mul, "mul", false},
                    {tp_maximum, hand_max, "maximum", false},
                    {tp_minimum, hand_min, "minimum", false},
                    {tp_squared_difference, hand_sqdiff, "squared_difference", false},
                    {tp_floordiv, hand_floordiv, "floordiv", false},
                    {tp_mod, hand_mod, "mod", false},
                    {tp_greater, hand_greater, "greater", true},
                    {tp_greater_equal, hand_greater_equal, "greater_equal", true},
                    {tp_less, hand_less, "less", true},
                    {tp_less_equal, hand_less_equal, "less_equal", true},
                    {tp_equal, hand_equal, "equal", true},
                    {tp_not_equal, hand_not_equal, "not_equal", true}};

TEST(operations_on_two_values_of_every_shape)
{
    static const int64_t pairs[][2][5] = {{{1, 5}, {1, 5}},       {{0}, {2, 3, 4}},
                                          {{2, 3, 1}, {2, 1, 4}}, {{3, 5, 1, 3}, {2, 20, 1}},
                                          {{2, 70, 1}, {1, 9}},   {{3, 2, 1, 300}, {3, 1, 40, 1}},
                                          {{2, 0, 3}, {1, 3}},    {{1, 40000}, {1, 1}}};
    static const tp_dtype dtypes[] = {TP_F32, TP_F64, TP_I32, TP_I64};
    for (int i = 0; i < TP_COUNT(pairs); i++)
        for (int k = 0; k < (i == 7 ? 1 : 4); k++) {
            sheet *s = sheet_new((i + k) % 2 == 1);
            const tp_shape a = shape_of(pairs[i][0]), b = shape_of(pairs[i][1]);
            tp_shape y = a.ndim > b.ndim ? a : b;
            tp_tensor *ta, *tb;
            tp_node *xa = feed(s, dtypes[k], a, &ta), *xb = feed(s, dtypes[k], b, &tb);
            fill(ta, -7, 7, (uint64_t)i + 3);
            fill(tb, -3, 3, (uint64_t)i + 4);
            for (int64_t e = 0; e < tp_tensor_size(tb) && k < 2; e++) /* what reals give for 0 is another matter */
                if (tp_tensor_get(tb, e) == 0) tp_tensor_set(tb, e, 5);
            for (int d = 1; d <= y.ndim; d++) {
                const int64_t p = d <= a.ndim ? a.dim[a.ndim - d] : 1, q = d <= b.ndim ? b.dim[b.ndim - d] : 1;
                y.dim[y.ndim - d] = p == 1 ? q : p;
            }
            for (int f = 0; f < TP_COUNT(two_operands); f++) {
                const bool yes_or_no = two_operands[f].yes_or_no;
                tp_tensor *want =
                    expect(s, two_operands[f].fn(xa, xb), yes_or_no ? TP_BOOL : dtypes[k], y, two_operands[f].name, i);
                int64_t index[TP_MAX_DIMS] = {0};
                for (int64_t e = 0; e < tp_tensor_size(want); e++) {
                    int64_t ia[TP_MAX_DIMS], ib[TP_MAX_DIMS];
                    for (int d = 0; d < a.ndim; d++) ia[d] = a.dim[d] == 1 ? 0 : index[d + y.ndim - a.ndim];
                    for (int d = 0; d < b.ndim; d++) ib[d] = b.dim[d] == 1 ? 0 : index[d + y.ndim - b.ndim];
                    tp_tensor_set(
                        want, e,
                        two_operands[f].hand(tp_tensor_get(ta, flat(&a, ia)), tp_tensor_get(tb, flat(&b, ib))));
                    next_index(index, &y);
                }
            }
            settle(s);
        }
}

/* ==== >>windows ======================================================================================= */

/* Pooling of whole multiples of 36, of which means over 1, 2, 3, 4, 6 and 9 are whole too, and both gradients. */
static void check_pools(const tp_pool_attrs *a, int64_t H, int64_t W, int64_t C, int64_t detail)
{
    sheet *s = sheet_new(detail % 7 == 0);
    const bool nchw = a->data_format == TP_NCHW, same_size = a->padding == TP_SAME;
    const int64_t kh = a->size_h, kw = a->size_w, sh = a->stride_h ? a->stride_h : kh,
                  sw = a->stride_w ? a->stride_w : kw;
    const int64_t OH = same_size ? (H + sh - 1) / sh : (H - kh) / sh + 1,
                  OW = same_size ? (W + sw - 1) / sw : (W - kw) / sw + 1;
    const int64_t over_h = (OH - 1) * sh + kh - H, over_w = (OW - 1) * sw + kw - W;
    const int64_t top = same_size && over_h > 0 ? over_h / 2 : 0, left = same_size && over_w > 0 ? over_w / 2 : 0;
    const int64_t in[4] = {2, nchw ? C : H, nchw ? H : W, nchw ? W : C},
                  out[4] = {2, nchw ? C : OH, nchw ? OH : OW, nchw ? OW : C};
    const tp_shape x_shape = tp_make_shape_n(4, in), y_shape = tp_make_shape_n(4, out);
    tp_tensor *t, *w, *want[4];
    tp_node *x = feed(s, TP_F32, x_shape, &t), *weight = feed(s, TP_F32, y_shape, &w), *y[2], *dx[2];
    fill(t, -9, 9, (uint64_t)detail);
    fill(w, -9, 9, (uint64_t)detail + 1);
    for (int64_t e = 0; e < tp_tensor_size(t); e++) tp_tensor_set(t, e, 36 * tp_tensor_get(t, e));
    for (int64_t e = 0; e < tp_tensor_size(w); e++) tp_tensor_set(w, e, 36 * tp_tensor_get(w, e));
    y[0] = tp_nn_max_pool(x, a);
    y[1] = tp_nn_avg_pool(x, a);
    for (int i = 0; i < 2; i++) {
        tp_gradients(tp_sum(tp_mul(y[i], weight)), &x, 1, &dx[i]);
        want[i] = expect(s, y[i], TP_F32, y_shape, i ? "avg_pool" : "max_pool", detail);
        want[2 + i] = expect(s, dx[i], TP_F32, x_shape, i ? "gradient of avg_pool" : "gradient of max_pool", detail);
    }
    int64_t o[4] = {0};
    for (int64_t e = 0; e < tp_tensor_size(w); e++, next_index(o, &y_shape)) {
        int64_t at[4] = {o[0], o[1], o[2], o[3]}, best = -1, n = 0, seen[81];
        const int h = nchw ? 2 : 1;
        double most = 0, sum = 0;
        for (int64_t p = 0; p < kh * kw; p++) {
            at[h] = o[h] * sh + p / kw - top;
            at[h + 1] = o[h + 1] * sw + p % kw - left;
            if (at[h] < 0 || at[h] >= H || at[h + 1] < 0 || at[h + 1] >= W) continue;
            const int64_t f = flat(&x_shape, at);
            const double v = tp_tensor_get(t, f);
            if (best < 0 || v > most) best = f, most = v;
            sum += v;
            seen[n++] = f;
        }
        const double d = tp_tensor_get(w, e);
        tp_tensor_set(want[0], e, most);
        tp_tensor_set(want[1], e, sum / (double)n);
        tp_tensor_set(want[2], best, tp_tensor_get(want[2], best) + d);
        for (int64_t q = 0; q < n; q++)
            tp_tensor_set(want[3], seen[q], tp_tensor_get(want[3], seen[q]) + d / (double)n);
    }
    settle(s);
}

TEST(windows_of_every_kind)
{
    int detail = 0;
    for (int k = 0; k < 9; k++)
        for (int stride = 0; stride < 9; stride++)
            for (int padding = TP_SAME; padding <= TP_VALID; padding++) {
                tp_pool_attrs a;
                memset(&a, 0, sizeof a);
                a.size_h = 1 + k / 3, a.size_w = 1 + k % 3;
                a.stride_h = stride == 8 ? 0 : 1 + stride / 3, a.stride_w = stride == 8 ? 0 : 1 + stride % 3;
                a.padding = padding;
                a.data_format = detail % 5 == 4 ? TP_NCHW : TP_NHWC;
                detail++;
                check_pools(&a, 4 + detail % 3, 6 + detail % 2, detail % 4 ? 3 : 17, detail);
            }
}

static const char *const isa_names[] = {"sse2", "avx2", "avx512", "neon", "generic"};
static int64_t rnd_int(uint64_t n, uint64_t i, int64_t limit)
{
    return (int64_t)(tp_test_mix(n * 1000003 + i) % (uint64_t)limit);
}

/* Copies of the values of n nodes, computed with an instruction set or by the plain loops ("naive"). */
static void run_on(tp_graph *g, const char *isa, tp_node *x, const tp_tensor *value, tp_node *const *y, int n,
                   tp_tensor *out)
{
    tp_session_config c = tp_default_session_config();
    const tp_tensor *v[4];
    c.isa = isa;
    c.threads = 2;
    tp_session *s = tp_session_new(g, &c);
    tp_feed feed;
    memset(&feed, 0, sizeof feed);
    feed.node = x, feed.value = *value;
    if (CHECK_OK(tp_session_run(s, &feed, 1, y, n, v)))
        for (int i = 0; i < n; i++) CHECK_OK(tp_tensor_copy(&out[i], v[i]));
    tp_session_free(s);
}

/* Whether each instruction set computes the n values y, three at most, as the plain loops do; `error` is allowed, relative to 1
 * and to the value. NaN may have any bits behind an addition. */
static void check_near_naive(tp_graph *g, tp_node *x, const tp_tensor *value, tp_node *const *y, int n, int number,
                             double error)
{
    tp_tensor fast[3], plain[3];
    memset(fast, 0, sizeof fast), memset(plain, 0, sizeof plain);
    run_on(g, "naive", x, value, y, n, plain);
    for (int i = 0; i < TP_COUNT(isa_names); i++) {
        tp_device *d = tp_cpu_device_new(1, isa_names[i]);
        if (!d) continue;
        d->close(d);
        run_on(g, isa_names[i], x, value, y, n, fast);
        for (int k = 0; k < n; k++) {
            int64_t wrong = 0;
            for (int64_t e = 0; e < tp_tensor_size(&plain[k]); e++) {
                const float p = ((const float *)plain[k].data)[e], q = ((const float *)fast[k].data)[e];
                const bool near =
                    error > 0 && !isinf(p) && fabs((double)p - (double)q) <= error * (1 + fabs((double)p));
                wrong += memcmp(&p, &q, sizeof p) != 0 && !(p != p && q != q) && !near;
            }
            CHECK_MSG(wrong == 0, "case %d, %s, output %d: %d values differ", number, isa_names[i], k, (int)wrong);
        }
    }
    for (int k = 0; k < 3; k++) tp_tensor_free(&fast[k]), tp_tensor_free(&plain[k]);
}
static void check_against_naive(tp_graph *g, tp_node *x, const tp_tensor *value, tp_node *const *y, int n, int number)
{
    check_near_naive(g, x, value, y, n, number, 0);
}

/* NCHW: maxima of windows, their gradient (which needs their places) and a bias, as the plain loops compute them, for ties of zeros
 * with signs, infinities and NaN, too. */
TEST(planes_of_images)
{
    static const float odd[] = {0.0f, -0.0f, 1.0f, 1.0f, -2.0f, INFINITY, -INFINITY, -INFINITY, NAN, 3.0f};
    for (uint64_t n = 0; n < 72; n++) {
        tp_pool_attrs a;
        const int64_t dim[4] = {1 + rnd_int(n, 0, 2), 1 + rnd_int(n, 1, 4), 4 + rnd_int(n, 2, 9),
                                4 + rnd_int(n, 3, 60)};
        memset(&a, 0, sizeof a);
        a.data_format = TP_NCHW;
        a.size_h = 1 + (int)rnd_int(n, 4, 4), a.size_w = 1 + (int)rnd_int(n, 5, 4);
        a.stride_h = (int)rnd_int(n, 6, 4), a.stride_w = (int)rnd_int(n, 7, 4);
        a.padding = n % 2 ? TP_SAME : TP_VALID;
        tp_graph *g = tp_graph_new(NULL);
        tp_tensor value;
        memset(&value, 0, sizeof value);
        CHECK_OK(tp_tensor_resize(&value, TP_F32, tp_make_shape_n(4, dim)));
        for (int64_t i = 0; i < tp_tensor_size(&value); i++)
            ((float *)value.data)[i] = n % 3 ? odd[rnd_int(n, 10 + (uint64_t)i, n % 3 == 1 ? 10 : 8)] : (float)i / 7;
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(4, dim)), *y[3];
        tp_tensor bias;
        float b[4] = {0.5f, -3.0f, INFINITY, -0.0f};
        tp_tensor_view(&bias, TP_F32, tp_make_shape_n(1, &dim[1]), b);
        y[0] = tp_nn_max_pool(x, &a);
        tp_gradients(tp_sum(y[0]), &x, 1, &y[1]);
        y[2] = tp_nn_bias_add(x, tp_constant(g, &bias), TP_NCHW);
        check_against_naive(g, x, &value, y, 3, (int)n);
        tp_tensor_free(&value);
        tp_graph_free(g);
    }
}

/* Channels last: maxima of windows without their places, as predictions compute them, for ties of zeros with signs, infinities and NaN. */
TEST(maxima_of_many_channels)
{
    static const float odd[] = {0.0f, -0.0f, 1.0f, 1.0f, -2.0f, INFINITY, -INFINITY, 3.0f, -INFINITY, NAN};
    static const int64_t channels[] = {7, 16, 33, 64, 70, 128, 150};
    for (uint64_t n = 0; n < 63; n++) {
        tp_pool_attrs a;
        const int64_t dim[4] = {1 + rnd_int(n, 0, 2), 4 + rnd_int(n, 1, 6), 4 + rnd_int(n, 2, 6), channels[n % 7]};
        memset(&a, 0, sizeof a);
        a.size_h = 1 + (int)rnd_int(n, 3, 4), a.size_w = 1 + (int)rnd_int(n, 4, 4);
        a.stride_h = (int)rnd_int(n, 5, 4), a.stride_w = (int)rnd_int(n, 6, 4);
        a.padding = n % 2 ? TP_SAME : TP_VALID;
        tp_graph *g = tp_graph_new(NULL);
        tp_tensor value;
        memset(&value, 0, sizeof value);
        CHECK_OK(tp_tensor_resize(&value, TP_F32, tp_make_shape_n(4, dim)));
        for (int64_t i = 0; i < tp_tensor_size(&value); i++) /* no NaN, one in a thousand, one in ten */
            ((float *)value.data)[i] = odd[rnd_int(n, 10 + (uint64_t)i, n % 3 == 2 ? 10 : 9)];
        if (n % 3 == 1)
            for (int64_t i = 5; i < tp_tensor_size(&value); i += 1001) ((float *)value.data)[i] = NAN;
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(4, dim)), *y = tp_nn_max_pool(x, &a);
        check_against_naive(g, x, &value, &y, 1, (int)n);
        tp_tensor_free(&value);
        tp_graph_free(g);
    }
}

/* Windows of every size, of images in both layouts, with their gradients. Maxima, their places and the gradients through these
 * have the bits of the plain loops; means and their gradients, too, but of large windows that overlap, whose rows are added up
 * first. */
TEST(windows_by_rows)
{
    static const float odd[] = {0.0f, -0.0f, 1.0f, 1.0f, -2.0f, INFINITY, -INFINITY, 3.0f, -INFINITY, NAN};
    for (uint64_t n = 0; n < 96; n++) {
        tp_pool_attrs a;
        const bool nchw = n % 4 == 3, wide = n % 3 == 0, means = n % 8 < 5;
        const int64_t size = wide ? 24 : 9, H = 4 + rnd_int(n, 1, size), W = 4 + rnd_int(n, 2, size + 5 * nchw),
                      C = nchw ? 1 + rnd_int(n, 3, 3) : 1 + rnd_int(n, 3, 20);
        const int64_t dim[4] = {1 + rnd_int(n, 0, 2), nchw ? C : H, nchw ? H : W, nchw ? W : C};
        memset(&a, 0, sizeof a);
        a.size_h = 1 + (int)rnd_int(n, 4, wide ? H : 4), a.size_w = 1 + (int)rnd_int(n, 5, wide ? W : 4);
        a.stride_h = 1 + (int)rnd_int(n, 6, 3), a.stride_w = 1 + (int)rnd_int(n, 7, 3);
        if (wide && n % 2) a.stride_h = a.stride_w = 1;
        if (n % 7 == 0) a.stride_h = a.stride_w = 0;
        a.padding = n % 5 < 2 ? TP_SAME : TP_VALID;
        a.data_format = nchw ? TP_NCHW : TP_NHWC;
        tp_graph *g = tp_graph_new(NULL);
        tp_tensor value;
        memset(&value, 0, sizeof value);
        CHECK_OK(tp_tensor_resize(&value, TP_F32, tp_make_shape_n(4, dim)));
        for (int64_t i = 0; i < tp_tensor_size(&value); i++)
            ((float *)value.data)[i] = means ? (float)rnd_int(n, 10 + (uint64_t)i, 2001) / 2000 - 0.5f
                                             : odd[rnd_int(n, 10 + (uint64_t)i, n % 2 ? 9 : 10)];
        for (int64_t i = 3; i < tp_tensor_size(&value) && n % 8 == 4; i += 31)
            ((float *)value.data)[i] = i % 2 ? INFINITY : 3e38f; /* their means are infinite */
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(4, dim)), *y[2];
        y[0] = means ? tp_nn_avg_pool(x, &a) : tp_nn_max_pool(x, &a);
        tp_gradients(tp_sum(tp_square(y[0])), &x, 1, &y[1]);
        const int64_t stride_w = a.stride_w ? a.stride_w : a.size_w, size_hw = (int64_t)a.size_h * a.size_w;
        const bool rows_first = size_hw > 64 && 3 * (a.size_h * stride_w + a.size_w) < size_hw;
        check_near_naive(g, x, &value, y, 2, (int)n, means && rows_first ? 2e-6 : 0);
        tp_tensor_free(&value);
        tp_graph_free(g);
    }
}

/* Resized images and the gradients have the bits of the plain loops, for every number of channels and all ways to place the
 * pixels. */
TEST(resized_as_by_the_plain_loops)
{
    static const float odd[] = {0.0f, -0.0f, 1.0f, 3.5f, -2.0f, 1e30f, INFINITY, NAN};
    for (uint64_t n = 0; n < 64; n++) {
        const bool nearest = n % 2 != 0;
        const int64_t dim[4] = {1 + rnd_int(n, 0, 3), 1 + rnd_int(n, 1, 9), 1 + rnd_int(n, 2, 9),
                                1 + rnd_int(n, 3, 40)};
        tp_resize_attrs a;
        memset(&a, 0, sizeof a);
        a.out_h = 1 + (int)rnd_int(n, 4, 20), a.out_w = 1 + (int)rnd_int(n, 5, 20);
        if (n % 3 == 0) a.out_h = 2 * (int)dim[1], a.out_w = 2 * (int)dim[2];
        a.align_corners = n / 2 % 3 == 1, a.half_pixel_centers = n / 2 % 3 == 2;
        tp_graph *g = tp_graph_new(NULL);
        tp_tensor value;
        memset(&value, 0, sizeof value);
        CHECK_OK(tp_tensor_resize(&value, TP_F32, tp_make_shape_n(4, dim)));
        for (int64_t i = 0; i < tp_tensor_size(&value); i++)
            ((float *)value.data)[i] =
                n % 8 < 2 ? odd[rnd_int(n, 10 + (uint64_t)i, 8)] : (float)rnd_int(n, 10 + (uint64_t)i, 2001) / 999 - 1;
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(4, dim)), *y[2];
        y[0] = nearest ? tp_resize_nearest(x, &a) : tp_resize_bilinear(x, &a);
        tp_gradients(tp_sum(tp_square(y[0])), &x, 1, &y[1]);
        check_against_naive(g, x, &value, y, 2, (int)n);
        tp_tensor_free(&value);
        tp_graph_free(g);
    }
}

/* Samples of images, inside of them, outside and at no place (NaN), have the bits of the plain loop, for every number of
 * channels. */
TEST(sampled_as_by_the_plain_loop)
{
    static const float odd[] = {0.0f, 1.0f, 3.0f, -0.5f, 9.0f, 1e30f, INFINITY, NAN};
    for (uint64_t n = 0; n < 40; n++) {
        const int64_t H = 1 + rnd_int(n, 1, 9), W = 1 + rnd_int(n, 2, 9), C = 1 + (int64_t)n;
        const tp_shape image = tp_make_shape(2, H, W, C), places = tp_make_shape(2, 3, 5, 2);
        tp_graph *g = tp_graph_new(NULL);
        tp_tensor value, at;
        float coords[2 * 3 * 5 * 2];
        memset(&value, 0, sizeof value);
        CHECK_OK(tp_tensor_resize(&value, TP_F32, image));
        for (int64_t i = 0; i < tp_tensor_size(&value); i++)
            ((float *)value.data)[i] = (float)rnd_int(n, 100 + (uint64_t)i, 2001) / 999 - 1;
        for (uint64_t i = 0; i < 60; i++)
            coords[i] = i % 9 ? (float)rnd_int(n, 10 + i, 1000) / 100 - 0.5f : odd[rnd_int(n, 10 + i, 8)];
        tp_tensor_view(&at, TP_F32, places, coords);
        tp_node *x = tp_placeholder(g, "x", TP_F32, image);
        tp_node *y = tp_bilinear_sampler(x, tp_constant(g, &at), n % 2 ? TP_BORDER_REPEAT : TP_BORDER_CONSTANT);
        check_against_naive(g, x, &value, &y, 1, (int)n);
        tp_tensor_free(&value);
        tp_graph_free(g);
    }
}

/* Batch norm of planes of every size, with its gradients: only the order of sums in double differs from the plain loops. */
TEST(planes_are_normalised_as_by_the_plain_loops)
{
    for (uint64_t n = 0; n < 48; n++) {
        const int64_t dim[4] = {1 + rnd_int(n, 0, 4), 1 + rnd_int(n, 1, 6), 1 + rnd_int(n, 2, 9),
                                2 + rnd_int(n, 3, 30)};
        const float gamma[6] = {1, -0.5f, 2, 0.25f, 3, 1}, beta[6] = {0, 1, -1, 0.5f, 0, 2};
        tp_graph *g = tp_graph_new(NULL);
        tp_tensor value, scale, offset;
        memset(&value, 0, sizeof value);
        CHECK_OK(tp_tensor_resize(&value, TP_F32, tp_make_shape_n(4, dim)));
        for (int64_t i = 0; i < tp_tensor_size(&value); i++)
            ((float *)value.data)[i] = (float)rnd_int(n, 10 + (uint64_t)i, 2001) / 999 - 1 + (float)(n % 3) * 5;
        tp_tensor_view(&scale, TP_F32, tp_make_shape_n(1, &dim[1]), gamma);
        tp_tensor_view(&offset, TP_F32, tp_make_shape_n(1, &dim[1]), beta);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(4, dim)), *y[3], *in[2];
        in[0] = x, in[1] = tp_constant(g, &scale);
        y[0] = tp_nn_batch_norm_train(x, in[1], tp_constant(g, &offset), 1, 1e-3f, n % 2 != 0, NULL, NULL);
        tp_gradients(tp_sum(tp_square(y[0])), in, 2, &y[1]);
        check_near_naive(g, x, &value, y, 3, (int)n, 1e-5);
        tp_tensor_free(&value);
        tp_graph_free(g);
    }
}

/* Channels last, from one channel to more than a vector has: kernels lay several pixels of few channels side by side. */
TEST(few_channels_last)
{
    for (uint64_t n = 0; n < 51; n++) {
        const int64_t C = 1 + (int64_t)n % 17,
                      dim[4] = {1 + rnd_int(n, 0, 3), 1 + rnd_int(n, 1, 9), 1 + rnd_int(n, 2, n % 3 ? 20 : 150), C};
        float weights[2][17 * 9];
        tp_pool_attrs pool;
        tp_conv2d_attrs conv;
        tp_graph *g = tp_graph_new(NULL);
        tp_tensor value, t;
        memset(&value, 0, sizeof value), memset(&pool, 0, sizeof pool), memset(&conv, 0, sizeof conv);
        pool.size_h = pool.size_w = 3, pool.stride_h = pool.stride_w = 1, pool.padding = TP_SAME, conv.groups = (int)C;
        CHECK_OK(tp_tensor_resize(&value, TP_F32, tp_make_shape_n(4, dim)));
        for (int64_t i = 0; i < tp_tensor_size(&value); i++)
            ((float *)value.data)[i] = (float)rnd_int(n, 500 + (uint64_t)i, 2001) / 999 - 1;
        for (uint64_t i = 0; i < 2 * 17 * 9; i++) weights[i % 2][i / 2] = (float)rnd_int(n, 10 + i, 2001) / 999 - 1;
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(4, dim)), *y[12], *in[2], *beta, *w;
        in[0] = x;
        tp_tensor_view(&t, TP_F32, tp_make_shape(C), weights[0]), in[1] = tp_constant(g, &t);
        tp_tensor_view(&t, TP_F32, tp_make_shape(C), weights[1]), beta = tp_constant(g, &t);
        tp_tensor_view(&t, TP_F32, tp_make_shape(3, 3, 1, C), weights[0]), w = tp_constant(g, &t);
        y[0] = tp_nn_bias_add(x, beta, TP_NHWC), y[1] = tp_nn_max_pool(x, &pool);
        tp_gradients(tp_sum(y[1]), &x, 1, &y[2]);
        y[3] = tp_nn_conv2d(x, w, &conv), y[4] = tp_sum_over(x, 2);
        tp_gradients(tp_sum(tp_square(y[3])), &x, 1, &y[5]);
        y[6] = tp_nn_batch_norm_train(x, in[1], beta, 3, 1e-3f, n % 2 != 0, NULL, NULL);
        tp_gradients(tp_sum(tp_square(y[6])), in, 2, &y[7]);
        y[9] = tp_nn_group_norm(x, in[1], beta, 3, n % 2 ? 1 : (int)C, 1e-3f);
        tp_gradients(tp_sum(tp_square(y[9])), in, 2, &y[10]);
        for (int k = 0; k < 12; k += 3) check_near_naive(g, x, &value, y + k, 3, (int)n, k > 0 ? 1e-5 : 0);
        tp_tensor_free(&value);
        tp_graph_free(g);
    }
}

/* A mean of columns that are summed in one part has the bits of their sum, divided in double and rounded; subnormal and infinite sums, too. */
TEST(means_are_sums_divided_in_double)
{
    static const double scales[] = {1, 1e-39, 1e-44, 3e38, 1e-30};
    for (uint64_t n = 0; n < 40; n++) {
        const int64_t dim[3] = {1 + rnd_int(n, 0, 3), 2 + rnd_int(n, 1, 30), 128 + rnd_int(n, 2, 1100)};
        tp_graph *g = tp_graph_new(NULL);
        tp_tensor value, out[2];
        const int axis = 1;
        memset(&value, 0, sizeof value), memset(out, 0, sizeof out);
        CHECK_OK(tp_tensor_resize(&value, TP_F32, tp_make_shape_n(3, dim)));
        for (int64_t i = 0; i < tp_tensor_size(&value); i++)
            ((float *)value.data)[i] =
                (float)(((double)rnd_int(n, 10 + (uint64_t)i, 2001) / 2000 - 0.5) * scales[n % 5]);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(3, dim)), *y[2];
        y[0] = tp_reduce_sum(x, &axis, 1, false);
        y[1] = tp_reduce_mean(x, &axis, 1, false);
        for (int i = 0; i < TP_COUNT(isa_names); i++) {
            tp_device *d = tp_cpu_device_new(1, isa_names[i]);
            int64_t wrong = 0;
            if (!d) continue;
            d->close(d);
            run_on(g, isa_names[i], x, &value, y, 2, out);
            for (int64_t e = 0; e < tp_tensor_size(&out[0]); e++) {
                const float mean = ((const float *)out[1].data)[e],
                            want = (float)((double)((const float *)out[0].data)[e] / (double)dim[1]);
                wrong += memcmp(&mean, &want, sizeof mean) != 0;
            }
            CHECK_MSG(wrong == 0, "case %d, %s: %d means differ", (int)n, isa_names[i], (int)wrong);
        }
        tp_tensor_free(&value), tp_tensor_free(&out[0]), tp_tensor_free(&out[1]);
        tp_graph_free(g);
    }
}

/* Images with their channels last, few and many of them, resized in each mode. */
TEST(resized_images_of_many_channels)
{
    static const float odd[] = {0.0f, -0.0f, INFINITY, NAN, 3.0f, 1e30f};
    static const int64_t channels[] = {1, 3, 4, 5, 16, 37, 255, 256, 257, 600};
    for (uint64_t n = 0; n < 80; n++) {
        tp_resize_attrs a;
        const int64_t dim[4] = {1 + rnd_int(n, 0, 2), 1 + rnd_int(n, 1, 6), 1 + rnd_int(n, 2, 6), channels[n % 10]};
        memset(&a, 0, sizeof a);
        a.out_h = 1 + (int)rnd_int(n, 3, 12), a.out_w = 1 + (int)rnd_int(n, 4, 12);
        a.align_corners = n / 10 % 3 == 1, a.half_pixel_centers = n / 10 % 3 == 2;
        tp_graph *g = tp_graph_new(NULL);
        tp_tensor value;
        memset(&value, 0, sizeof value);
        CHECK_OK(tp_tensor_resize(&value, TP_F32, tp_make_shape_n(4, dim)));
        for (int64_t i = 0; i < tp_tensor_size(&value); i++) {
            const uint64_t at = 10 + (uint64_t)i;
            ((float *)value.data)[i] =
                rnd_int(n, at, 9) == 0 ? odd[rnd_int(n, at + 7, 6)] : (float)rnd_int(n, at, 99) / 7;
        }
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(4, dim)), *y[2];
        y[0] = tp_resize_bilinear(x, &a);
        y[1] = tp_resize_nearest(x, &a);
        check_against_naive(g, x, &value, y, 2, (int)n);
        tp_tensor_free(&value);
        tp_graph_free(g);
    }
}

/* Resized pixels that lie on a pixel of the image are that pixel, be it infinite or NaN, and its neighbours do not matter. */
TEST(resized_pixels_that_lie_on_a_pixel)
{
    static const tp_dtype dtypes[] = {TP_F32, TP_F64};
    static const double image[6] = {INFINITY, 1, -INFINITY, 2, NAN, -3}; /* 2 x 3 */
    for (int i = 0; i < 16; i++) {
        const bool nearest = (i & 2) != 0, nchw = (i & 4) != 0, corners = (i & 8) != 0;
        const int64_t h = corners ? 3 : 4, w = corners ? 5 : 6; /* each second one lies on a pixel */
        tp_graph *g = tp_graph_new(NULL);
        tp_resize_attrs a;
        tp_feed f;
        memset(&a, 0, sizeof a);
        memset(&f, 0, sizeof f);
        a.out_h = (int)h, a.out_w = (int)w, a.align_corners = corners;
        a.data_format = nchw ? TP_NCHW : TP_NHWC;
        f.node = tp_placeholder(g, "x", dtypes[i % 2], nchw ? tp_make_shape(1, 1, 2, 3) : tp_make_shape(1, 2, 3, 1));
        tp_node *y = nearest ? tp_resize_nearest(f.node, &a) : tp_resize_bilinear(f.node, &a);
        CHECK_OK(tp_tensor_resize(&f.value, dtypes[i % 2], f.node->shape));
        for (int k = 0; k < 6; k++) tp_tensor_set(&f.value, k, image[k]);
        tp_session *s = tp_session_new(g, NULL);
        const tp_tensor *out = NULL;
        if (CHECK(s != NULL) && CHECK_OK(tp_session_run(s, &f, 1, &y, 1, &out)))
            for (int64_t r = 0; r < h; r += 2)
                for (int64_t c = 0; c < w; c += 2) {
                    const double want = image[r / 2 * 3 + c / 2], is = tp_tensor_get(out, r * w + c);
                    CHECK_MSG(is == want || (isnan(is) && isnan(want)), "case %d, pixel (%d,%d): %g, not %g", i, (int)r,
                              (int)c, is, want);
                }
        tp_session_free(s);
        tp_tensor_free(&f.value);
        tp_graph_free(g);
    }
}

/* The gradient goes back the same way: an infinite one at a pixel that lies on a pixel of the image reaches that one alone. */
TEST(gradients_of_resized_pixels_that_lie_on_a_pixel)
{
    static const tp_dtype dtypes[] = {TP_F32, TP_F64};
    for (int i = 0; i < 8 * 6; i++) {
        const int way = i / 6, at = i % 6;
        const bool nearest = (way & 2) != 0, corners = (way & 4) != 0;
        const int64_t h = corners ? 3 : 4, w = corners ? 5 : 6;
        tp_graph *g = tp_graph_new(NULL);
        tp_resize_attrs a;
        tp_feed f;
        memset(&a, 0, sizeof a);
        memset(&f, 0, sizeof f);
        a.out_h = (int)h, a.out_w = (int)w, a.align_corners = corners;
        tp_node *x = tp_placeholder(g, "x", dtypes[way % 2], tp_make_shape(1, 2, 3, 1)), *dx = NULL;
        f.node = tp_placeholder(g, "dy", dtypes[way % 2], tp_make_shape(1, h, w, 1));
        tp_gradients_from(nearest ? tp_resize_nearest(x, &a) : tp_resize_bilinear(x, &a), f.node, &x, 1, &dx);
        CHECK_OK(tp_tensor_resize(&f.value, dtypes[way % 2], f.node->shape));
        for (int64_t k = 0; k < h * w; k++) tp_tensor_set(&f.value, k, 0);
        tp_tensor_set(&f.value, at / 3 * 2 * w + at % 3 * 2, INFINITY);
        tp_feed both[2];
        both[0] = f;
        both[1].node = x;
        memset(&both[1].value, 0, sizeof both[1].value);
        CHECK_OK(tp_tensor_resize(&both[1].value, dtypes[way % 2], x->shape));
        memset(both[1].value.data, 0, tp_tensor_bytes(&both[1].value));
        tp_session *s = tp_session_new(g, NULL);
        const tp_tensor *out = NULL;
        if (CHECK(s != NULL) && CHECK_OK(tp_session_run(s, both, 2, &dx, 1, &out)))
            for (int k = 0; k < 6; k++)
                CHECK_MSG(tp_tensor_get(out, k) == (k == at ? INFINITY : 0), "way %d, from %d to %d: %g", way, at, k,
                          tp_tensor_get(out, k));
        tp_session_free(s);
        tp_tensor_free(&f.value);
        tp_tensor_free(&both[1].value);
        tp_graph_free(g);
    }
}

/* ==== >>products of float64 =========================================================================== */

static void whole_numbers(tp_tensor *t)
{
    for (int64_t i = 0; i < tp_tensor_size(t); i++) ((double *)t->data)[i] = (double)(i * 7 % 23 - 11);
}

/* They have no fast kernel; the loop that computes them goes along the memory of the second matrix. */
TEST(products_of_float64)
{
    static const int64_t rows[] = {1, 2, 9, 400};
    for (int unknown = 0; unknown < 2; unknown++) {
        sheet *s = sheet_new(unknown != 0);
        for (int way = 0; way < 4; way++)
            for (int r = 0; r < TP_COUNT(rows); r++) {
                const int64_t M = rows[r], K = 5, N = 3;
                const bool ta = (way & 1) != 0, tb = (way & 2) != 0;
                tp_tensor *a, *b;
                tp_node *x = feed(s, TP_F64, ta ? tp_make_shape(2, K, M) : tp_make_shape(2, M, K), &a);
                tp_node *y = feed(s, TP_F64, tb ? tp_make_shape(1, N, K) : tp_make_shape(1, K, N), &b);
                tp_tensor *c = expect(s, tp_matmul_ex(x, y, ta, tb), TP_F64, tp_make_shape(2, M, N), "product", M);
                whole_numbers(a);
                whole_numbers(b);
                for (int64_t i = 0; i < 2 * M * N * K; i++) {
                    const int64_t k = i % K, n = i / K % N, m = i / K / N % M, matrix = i / K / N / M;
                    ((double *)c->data)[(matrix * M + m) * N + n] +=
                        ((double *)a->data)[matrix * M * K + (ta ? k * M + m : m * K + k)] *
                        ((double *)b->data)[tb ? n * K + k : k * N + n];
                }
            }
        settle(s);
    }
}

TEST_MAIN()
