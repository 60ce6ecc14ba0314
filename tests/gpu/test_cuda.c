/* Every row of the op table on the GPU against the CPU's naive loops: the cases of test_ops.c. Linked with tp_cuda.cu, which
 * nvcc compiled, or a C++ compiler against the shim of CUDA in tests/gpu/shim. TP_CUDA_OPS="conv2d max_pool" runs these
 * rows only. */
#define TP_IMPLEMENTATION
#include "tp_layers.h"
#include "tp_train.h"
#include "../tp_test.h"
#include "../op_cases.h"
#include "../op_build.h"

static void quiet(void *user, tp_log_level level, const char *message)
{
    (void)user;
    (void)level;
    (void)message;
}

static bool wanted(const char *op)
{
    const char *list = getenv("TP_CUDA_OPS");
    if (!list || !*list) return true;
    const size_t n = strlen(op);
    for (const char *p = list; (p = strstr(p, op)) != NULL; p += n)
        if ((p == list || p[-1] == ' ') && (p[n] == 0 || p[n] == ' ')) return true;
    return false;
}

/* Inputs and variables of a case as another element type, where they are float32. */
static bool case_as(const op_case *c, tp_dtype dtype, op_case *out)
{
    *out = *c;
    memset(out->in, 0, sizeof out->in);
    memset(out->var, 0, sizeof out->var);
    bool any = false;
    for (int i = 0; i < c->n_in; i++) {
        const bool change = c->in[i].dtype == TP_F32;
        any = any || change;
        if (!CHECK_OK(tp_tensor_resize(&out->in[i], change ? dtype : c->in[i].dtype, c->in[i].shape))) return false;
        tp_convert(out->in[i].data, out->in[i].dtype, c->in[i].data, c->in[i].dtype, tp_tensor_size(&c->in[i]));
    }
    for (int i = 0; i < c->n_var; i++) {
        const bool change = c->var[i].dtype == TP_F32;
        if (!CHECK_OK(tp_tensor_resize(&out->var[i], change ? dtype : c->var[i].dtype, c->var[i].shape))) return false;
        tp_convert(out->var[i].data, out->var[i].dtype, c->var[i].data, c->var[i].dtype, tp_tensor_size(&c->var[i]));
    }
    return any;
}
static void free_case_as(op_case *c)
{
    for (int i = 0; i < MAX_VALUES; i++) {
        tp_tensor_free(&c->in[i]);
        tp_tensor_free(&c->var[i]);
    }
}

typedef struct result {
    tp_status status;
    char error[1024];
    int n_out, n_var;
    tp_tensor out[MAX_VALUES], var[MAX_VALUES];
} result;
static void result_free(result *r)
{
    for (int i = 0; i < MAX_VALUES; i++) {
        tp_tensor_free(&r->out[i]);
        tp_tensor_free(&r->var[i]);
    }
}

/* Run a case on a device, `runs` times; values of the last one. device NULL: the CPU's naive loops. */
static bool run_on(const op_case *c, const tp_op *row, bool f64, tp_device *device, int runs, result *r)
{
    built b;
    memset(r, 0, sizeof *r);
    if (!build(c, row, f64, false, &b)) {
        built_free(&b);
        return false;
    }
    if (!b.op) { /* this row does not take the type */
        built_free(&b);
        r->status = TP_ERR_DTYPE;
        return true;
    }
    tp_session_config sc;
    memset(&sc, 0, sizeof sc);
    sc.threads = 1;
    sc.isa = "naive";
    if (device) {
        sc.devices = &device;
        sc.n_devices = 1;
    }
    tp_session *s = tp_session_new(b.g, &sc);
    tp_node *fetch[MAX_VALUES] = {NULL};
    const tp_tensor *value[MAX_VALUES];
    r->n_out = b.op->n_out < MAX_VALUES ? b.op->n_out : MAX_VALUES;
    r->n_var = c->n_var;
    for (int i = 0; i < r->n_out; i++) fetch[i] = &b.op->out[i];
    r->status = s ? TP_OK : TP_ERR_STATE;
    for (int i = 0; i < runs && r->status == TP_OK; i++) {
        if (s && i) tp_exec_set_random_step(tp_session_exec(s), 0);
        r->status = tp_session_run(s, b.feed, b.n_feed, fetch, r->n_out, value);
        if (r->status == TP_OK && i + 1 == runs)
            for (int k = 0; k < r->n_out; k++) CHECK_OK(tp_tensor_copy(&r->out[k], value[k]));
    }
    if (r->status != TP_OK) snprintf(r->error, sizeof r->error, "%s", tp_last_error());
    for (int i = 0; i < c->n_var && s; i++) CHECK_OK(tp_session_read(s, tp_node_variable(b.var[i]), &r->var[i]));
    tp_session_free(s);
    built_free(&b);
    return true;
}

static double tolerance_of(const op_case *c, tp_dtype dtype)
{
    const double tol = c->tol > 0 ? c->tol : 1e-5;
    return dtype == TP_F64 ? 1e-9 : dtype == TP_BF16 ? 2e-2 : dtype == TP_F16 ? 3e-3 : tol > 1e-5 ? tol : 1e-5;
}

static void compare_devices(const op_case *c, const tp_op *row, tp_dtype dtype, tp_device *gpu, int *n)
{
    op_case as;
    const bool f64 = dtype == TP_F64;
    if (!case_as(c, dtype, &as)) {
        free_case_as(&as);
        if (dtype != TP_F32) return; /* nothing in it changes with the type */
        as = *c;
    }
    result cpu, one, two;
    memset(&cpu, 0, sizeof cpu);
    memset(&one, 0, sizeof one);
    memset(&two, 0, sizeof two);
    if (run_on(&as, row, f64, NULL, 1, &cpu) && cpu.status != TP_ERR_DTYPE && cpu.status != TP_ERR_UNSUPPORTED &&
        run_on(&as, row, f64, gpu, 1, &one)) {
        const char *type = tp_dtype_name(dtype);
        ++*n;
        if (CHECK_MSG(cpu.status == one.status, "%s:%d: %s on %s: status %d on the CPU (%s), %d on the GPU: %s",
                      c->file, c->line, c->op, type, (int)cpu.status, cpu.error, (int)one.status, one.error) &&
            cpu.status == TP_OK) {
            for (int k = 0; k < cpu.n_out; k++)
                close_enough(&as, type, k, &one.out[k], &cpu.out[k], tolerance_of(c, dtype));
            for (int k = 0; k < cpu.n_var; k++)
                close_enough(&as, type, k, &one.var[k], &cpu.var[k], tolerance_of(c, dtype));
            if (c->n_var == 0 && run_on(&as, row, f64, gpu, 3, &two) && /* again, the last time from a recording */
                CHECK_MSG(two.status == TP_OK, "%s:%d: %s: %s", c->file, c->line, c->op, two.error))
                for (int k = 0; k < cpu.n_out; k++)
                    CHECK_MSG(tp_tensor_bytes(&one.out[k]) == 0 ||
                                  memcmp(one.out[k].data, two.out[k].data, tp_tensor_bytes(&one.out[k])) == 0,
                              "%s:%d: %s on %s: output %d has other bits when it is run again", c->file, c->line, c->op,
                              type, k);
        }
    }
    result_free(&cpu);
    result_free(&one);
    result_free(&two);
    if (as.in[0].data != c->in[0].data || as.var[0].data != c->var[0].data) free_case_as(&as);
}

static void table_on(tp_dtype dtype, int at_least)
{
    case_list l = all_cases();
    tp_set_log(quiet, NULL);
    tp_device *gpu = tp_cuda_open(0);
    int n = 0;
    if (CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error()))
        for (int i = 0; i < l.n; i++) {
            const op_case *c = &l.item[i];
            const tp_op *row = tp_op_find(c->op);
            if (row && wanted(c->op)) compare_devices(c, row, dtype, gpu, &n);
        }
    if (gpu) gpu->close(gpu);
    tp_set_log(NULL, NULL);
    if (!getenv("TP_CUDA_OPS")) CHECK_MSG(n >= at_least, "only %d cases ran on %s", n, tp_dtype_name(dtype));
    free_cases(&l);
}

TEST(the_op_table_on_float32) { table_on(TP_F32, 300); }
TEST(the_op_table_on_float64) { table_on(TP_F64, 200); }
TEST(the_op_table_on_bfloat16) { table_on(TP_BF16, 200); }
TEST(the_op_table_on_float16) { table_on(TP_F16, 200); }

/* A row of the table without a kernel is a hole in the device. */
TEST(every_row_has_a_kernel)
{
    tp_device *gpu = tp_cuda_open(0);
    if (!CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error())) return;
    const tp_op *row;
    for (int i = 0; (row = tp_op_registry(i)) != NULL; i++) {
        if ((row->flags & TP_OP_SOURCE) || !(row->naive_f32 || row->fast || row->block_f32)) continue;
        CHECK_MSG(gpu->find_kernel(gpu, row->name) != NULL, "the GPU has no kernel for '%s'", row->name);
    }
    gpu->close(gpu);
}

/* ==== >>moves, >>random, >>variables ================================================================== */
/* Graphs larger than a block, run on the CPU's naive loops and twice on the GPU. */

#define TWIN_MOST 160
typedef struct twins {
    tp_graph *g;
    tp_node *fetch[TWIN_MOST];
    int n_fetch, n_feed;
    tp_feed feed[TWIN_MOST];
    tp_tensor value[TWIN_MOST]; /* of the feeds */
} twins;

static void twins_begin(twins *t)
{
    memset(t, 0, sizeof *t);
    t->g = tp_graph_new(NULL);
    CHECK(t->g != NULL);
}
/* A fed value: uniform in [low, high], whole where the type is. */
static tp_node *twin_in(twins *t, tp_dtype dtype, tp_shape shape, double low, double high)
{
    char name[16];
    const int i = t->n_feed++;
    snprintf(name, sizeof name, "in%d", i);
    tp_node *x = tp_placeholder(t->g, name, dtype, shape);
    CHECK_OK(tp_tensor_resize(&t->value[i], dtype, shape));
    for (int64_t e = 0; e < tp_tensor_size(&t->value[i]); e++) {
        const double u = (double)tp_random_uniform((uint64_t)i + 7, 0, (uint64_t)e);
        tp_tensor_set(&t->value[i], e,
                      tp_dtype_is_float(dtype) ? low + (high - low) * u : floor(low + (high - low + 1) * u));
    }
    t->feed[i].node = x;
    tp_tensor_view(&t->feed[i].value, dtype, shape, t->value[i].data);
    return x;
}
static void twin_out(twins *t, tp_node *y)
{
    if (CHECK(t->n_fetch < TWIN_MOST)) t->fetch[t->n_fetch++] = y;
}
/* A row by its name, for those without a public function. */
static void twin_row(twins *t, const char *row, tp_node *const *in, int n, const void *attrs)
{
    tp_node *y = tp_apply(t->g, tp_op_find(row), in, n, attrs);
    if (!CHECK_MSG(!tp_is_poison(y), "%s: %s", row, tp_last_error())) return;
    for (int i = 0; i < y->op->n_out; i++) twin_out(t, &y->op->out[i]);
}
static bool twin_same(const char *what, int i, const tp_tensor *a, const tp_tensor *b, double tol)
{
    static op_case c;
    if (tol > 0) {
        c.file = what;
        snprintf(c.op, sizeof c.op, "%s", what);
        return close_enough(&c, tp_dtype_name(b->dtype), i, a, b, tol);
    }
    if (!CHECK_MSG(a->dtype == b->dtype && tp_tensor_bytes(a) == tp_tensor_bytes(b), "%s, value %d", what, i))
        return false;
    for (int64_t e = 0; e < tp_tensor_size(b); e++) {
        const size_t size = tp_dtype_size(b->dtype), at = (size_t)e * size;
        if (memcmp((char *)a->data + at, (char *)b->data + at, size) != 0)
            return CHECK_MSG(false, "%s: value %d (%s), element %lld is %.17g, expected %.17g", what, i,
                             tp_dtype_name(b->dtype), (long long)e, tp_tensor_get(a, e), tp_tensor_get(b, e));
    }
    return true;
}
/* `runs` runs on each; values of the last one, then all variables. tol 0: bit for bit. */
static void twins_end(twins *t, int runs, double tol, const char *what)
{
    tp_device *gpu = tp_cuda_open(0);
    tp_session *s[3] = {NULL, NULL, NULL};
    const tp_tensor *value[3][TWIN_MOST];
    bool good = CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error());
    for (int i = 0; i < 3 && good; i++) {
        tp_session_config sc = tp_default_session_config();
        sc.threads = 1;
        sc.isa = "naive";
        if (i) sc.devices = &gpu, sc.n_devices = 1;
        s[i] = tp_session_new(t->g, &sc);
        good = CHECK_MSG(s[i] != NULL, "%s: %s", what, tp_last_error());
        for (int r = 0; r < runs && good; r++)
            good = CHECK_MSG(tp_session_run(s[i], t->feed, t->n_feed, t->fetch, t->n_fetch, value[i]) == TP_OK,
                             "%s: %s", what, tp_last_error());
    }
    for (int k = 0; k < t->n_fetch && good; k++) {
        twin_same(what, k, value[1][k], value[0][k], tol);
        twin_same(what, k, value[2][k], value[1][k], 0);
    }
    for (int k = 0; good && k < tp_graph_n_variables(t->g); k++) {
        const tp_variable *v = tp_graph_variable(t->g, k);
        tp_tensor at[3];
        memset(at, 0, sizeof at);
        for (int i = 0; i < 3; i++) CHECK_OK(tp_session_read(s[i], v, &at[i]));
        twin_same(what, 1000 + k, &at[1], &at[0], tol);
        twin_same(what, 1000 + k, &at[2], &at[1], 0);
        for (int i = 0; i < 3; i++) tp_tensor_free(&at[i]);
    }
    for (int i = 0; i < 3; i++) tp_session_free(s[i]);
    for (int i = 0; i < t->n_feed; i++) tp_tensor_free(&t->value[i]);
    if (gpu) gpu->close(gpu);
    tp_graph_free(t->g);
}

static const tp_dtype every_size[] = {TP_U8, TP_F16, TP_F32, TP_F64};

TEST(moves_of_strided_boxes)
{
    for (int d = 0; d < 4; d++) {
        const tp_dtype dtype = every_size[d];
        twins t;
        twins_begin(&t);
        const int perm[][3] = {{0, 2, 1}, {2, 1, 0}, {1, 0, 2}, {2, 0, 1}};
        const int axis[] = {0, 2}, inner[] = {0, 3, 1, 2}, back[] = {0, 2, 3, 1};
        const int64_t begin[] = {1, 3, 5}, size[] = {2, -1, 60}, even[] = {1, 8, 16}, wide[] = {2, 40, 32},
                      times[] = {2, 1, 3};
        tp_node *x = twin_in(&t, dtype, tp_make_shape(4, 67, 80), 0, 200);
        tp_node *pixels = twin_in(&t, dtype, tp_make_shape(2, 19, 21, 3), 0, 200);
        tp_node *deep = twin_in(&t, dtype, tp_make_shape(2, 11, 7, 40), 0, 200);
        for (int p = 0; p < 4; p++) twin_out(&t, tp_transpose(x, perm[p], 3));
        twin_out(&t, tp_transpose(pixels, inner, 4));
        twin_out(&t, tp_transpose(tp_transpose(deep, inner, 4), back, 4));
        twin_out(&t, tp_transpose(deep, inner, 4));
        twin_out(&t, tp_transpose(deep, NULL, 0));
        twin_out(&t, tp_reverse(x, axis, 2));
        twin_out(&t, tp_reverse(x, axis, 1));
        twin_out(&t, tp_reverse(pixels, NULL, 0));
        twin_out(&t, tp_slice(x, begin, size));
        twin_out(&t, tp_slice(x, even, wide));
        twin_out(&t, tp_tile(x, times));
        twin_out(&t, tp_broadcast_like(tp_slice(x, begin, (int64_t[]){1, 1, -1}),
                                       twin_in(&t, dtype, tp_make_shape(3, 5, 7, 75), 0, 1)));
        twin_out(&t, tp_fill_like(x, 1.7f));
        twin_out(&t, tp_fill_like(tp_slice(x, begin, (int64_t[]){1, 1, 1}), -2.5f));
        twin_out(&t, tp_fill_like(twin_in(&t, TP_BOOL, tp_make_shape(1027), 0, 1), 3.0f));
        twin_out(&t, tp_fill_like(twin_in(&t, TP_I64, tp_make_shape(0), 0, 1), 3.0f));
        twins_end(&t, 1, 0, "strided boxes");
    }
}

TEST(moves_of_parts)
{
    for (int d = 0; d < 4; d++) {
        const tp_dtype dtype = every_size[d];
        twins t;
        twins_begin(&t);
        tp_node *part[70], *out[70];
        for (int i = 0; i < 70; i++) part[i] = twin_in(&t, dtype, tp_make_shape(3, 1 + i % 5, 6), 0, 200);
        twin_out(&t, tp_concat(part, 70, 1));
        tp_node *wide[3] = {twin_in(&t, dtype, tp_make_shape(2, 9, 512), 0, 200),
                            twin_in(&t, dtype, tp_make_shape(2, 9, 64), 0, 200),
                            twin_in(&t, dtype, tp_make_shape(2, 9, 0), 0, 200)};
        twin_out(&t, tp_concat(wide, 3, -1));
        tp_node *back[4] = {tp_concat(wide, 3, -1), wide[0], wide[1], wide[2]};
        tp__axis_attrs last;
        last.axis = -1;
        twin_row(&t, "concat_grad", back, 4, &last);
        tp_split(wide[0], 8, 2, out);
        for (int i = 0; i < 8; i += 3) twin_out(&t, out[i]); /* some are dead */
        tp_node *equal[66];
        for (int i = 0; i < 66; i++) equal[i] = twin_in(&t, dtype, tp_make_shape(5, 7), 0, 200);
        twin_out(&t, tp_stack(equal, 66, 1));
        twin_out(&t, tp_stack(equal, 3, -1));
        tp_unstack(tp_stack(equal, 66, 0), 0, 66, out);
        twin_out(&t, out[65]);
        tp_unstack(wide[1], 1, 9, out);
        for (int i = 0; i < 9; i++) twin_out(&t, out[i]);
        twins_end(&t, 1, 0, "parts");
    }
}

TEST(moves_with_borders)
{
    for (int d = 0; d < 4; d++) {
        const tp_dtype dtype = every_size[d];
        twins t;
        twins_begin(&t);
        const int64_t none[] = {0, 0, 0, 0}, sides[] = {0, 1, 2, 0}, more[] = {0, 3, 1, 0}, all[] = {1, 2, 1, 3},
                      begin[] = {1, 2, 3, 0};
        tp_node *x = twin_in(&t, dtype, tp_make_shape(2, 9, 11, 16), 0, 200);
        for (int mode = TP_PAD_CONSTANT; mode <= TP_PAD_SYMMETRIC; mode++) {
            twin_out(&t, tp_pad(x, sides, more, mode, 2.75f));
            if (mode != TP_PAD_REFLECT) twin_out(&t, tp_pad(x, all, sides, mode, 7.0f));
            twin_out(&t, tp_pad(x, none, none, mode, 2.0f));
        }
        tp_node *in[2] = {twin_in(&t, dtype, tp_make_shape(1, 4, 5, 16), 0, 200), x};
        tp__slice_attrs box;
        memset(&box, 0, sizeof box);
        for (int i = 0; i < 4; i++) box.begin[i] = begin[i], box.size[i] = in[0]->shape.dim[i];
        twin_row(&t, "slice_grad", in, 2, &box);
        tp_node *nothing[2] = {twin_in(&t, dtype, tp_make_shape(1, 4, 0, 16), 0, 200), x};
        box.size[2] = 0;
        twin_row(&t, "slice_grad", nothing, 2, &box);
        for (int mode = TP_PAD_CONSTANT; mode <= TP_PAD_SYMMETRIC && tp_dtype_is_float(dtype); mode++) {
            tp__pad_attrs pad;
            memset(&pad, 0, sizeof pad);
            pad.mode = mode;
            for (int i = 0; i < 4; i++) pad.before[i] = sides[i], pad.after[i] = more[i];
            tp_node *grad[2] = {twin_in(&t, dtype, tp_make_shape(2, 13, 14, 16), -1, 1), x};
            twin_row(&t, "pad_grad", grad, 2, &pad);
        }
        twins_end(&t, 1, 0, "borders");
    }
}

TEST(moves_that_add_copies)
{
    const tp_dtype types[] = {TP_F32, TP_F64, TP_BF16};
    for (int d = 0; d < 3; d++) {
        twins t;
        twins_begin(&t);
        tp__tile_attrs tile;
        memset(&tile, 0, sizeof tile);
        tile.multiples[0] = 3, tile.multiples[1] = 2;
        tp_node *few[2] = {twin_in(&t, types[d], tp_make_shape(33, 80), -1, 1),
                           twin_in(&t, types[d], tp_make_shape(11, 40), -1, 1)};
        twin_row(&t, "tile_grad", few, 2, &tile);
        tile.multiples[0] = 1700, tile.multiples[1] = 1;
        tp_node *many[2] = {twin_in(&t, types[d], tp_make_shape(1700, 7), 0, 1),
                            twin_in(&t, types[d], tp_make_shape(1, 7), -1, 1)};
        twin_row(&t, "tile_grad", many, 2, &tile);
        twins_end(&t, 1, types[d] == TP_F64 ? 1e-12 : types[d] == TP_F32 ? 1e-5 : 2e-2, "copies");
    }
}

/* Rows named by many: the order is the CPU's up to 127 times; sums of pieces beyond. */
TEST(moves_of_gathered_rows)
{
    const tp_dtype types[] = {TP_F32, TP_F64, TP_F16};
    for (int d = 0; d < 3; d++)
        for (int often = 0; often < 2; often++) {
            twins t;
            twins_begin(&t);
            tp_node *index = twin_in(&t, TP_I64, tp_make_shape(5000), 0, 299);
            tp_node *narrow = twin_in(&t, TP_I32, tp_make_shape(3, 700), 0, 69999);
            for (int i = 0; i < 5000 && often; i++)
                if (i % 5 < 2) tp_tensor_set(&t.value[0], i, 7);
                else if (i % 50 == 3) tp_tensor_set(&t.value[0], i, 150);
            tp_node *params = twin_in(&t, types[d], tp_make_shape(300, 3, 4), -1, 1),
                    *odd = twin_in(&t, types[d], tp_make_shape(300, 3), -1, 1),
                    *tall = twin_in(&t, types[d], tp_make_shape(70000), -1, 1);
            if (d < 2) { /* moves are moves */
                twin_out(&t, tp_gather(params, index));
                twin_out(&t, tp_gather(odd, index));
                twin_out(&t, tp_gather(tall, narrow));
            }
            tp_node *in[3] = {twin_in(&t, types[d], tp_make_shape(5000, 3, 4), 0, 1), index, params};
            twin_row(&t, "gather_grad", in, 3, NULL);
            tp_node *in_odd[3] = {twin_in(&t, types[d], tp_make_shape(5000, 3), 0, 1), index, odd};
            twin_row(&t, "gather_grad", in_odd, 3, NULL);
            tp_node *in_tall[3] = {twin_in(&t, types[d], tp_make_shape(3, 700), 0, 1), narrow, tall};
            twin_row(&t, "gather_grad", in_tall, 3, NULL);
            tp_node *in_none[3] = {twin_in(&t, types[d], tp_make_shape(0, 3), 0, 1),
                                   twin_in(&t, TP_I64, tp_make_shape(0), 0, 1), odd};
            twin_row(&t, "gather_grad", in_none, 3, NULL);
            tp_node *outside = twin_in(&t, TP_I32, tp_make_shape(600), -40, 340);
            tp_node *in_outside[3] = {twin_in(&t, types[d], tp_make_shape(600, 3), 0, 1), outside, odd};
            twin_row(&t, "gather_grad", in_outside, 3, NULL);
            twin_out(&t, tp_one_hot(outside, 7, 2.0f, -1.0f));
            twins_end(&t, 1,
                      !often               ? 0
                      : types[d] == TP_F64 ? 1e-12
                      : types[d] == TP_F32 ? 1e-5
                                           : 3e-3,
                      "gathered rows");
        }
}

static void both_fail(tp_node *y, const tp_feed *feed, int n_feed, const char *sentence)
{
    tp_device *gpu = tp_cuda_open(0);
    if (!CHECK(gpu != NULL)) return;
    for (int i = 0; i < 2; i++) {
        tp_session_config sc = tp_default_session_config();
        const tp_tensor *value;
        sc.threads = 1;
        if (i) sc.devices = &gpu, sc.n_devices = 1;
        tp_session *s = tp_session_new(tp_node_graph(y), &sc);
        if (CHECK(s != NULL)) CHECK_ERR(tp_session_run(s, feed, n_feed, &y, 1, &value), TP_ERR_NUMERIC, sentence);
        tp_session_free(s);
    }
    gpu->close(gpu);
}
TEST(faults_tell_the_first_element)
{
    const int64_t n = 70001;
    tp_graph *g = tp_graph_new(NULL);
    tp_feed feed[2];
    memset(feed, 0, sizeof feed);
    float *x = (float *)calloc((size_t)n, sizeof *x);
    int32_t *index = (int32_t *)calloc((size_t)n, sizeof *index);
    if (!CHECK(x && index)) return;
    x[70000] = NAN, x[60001] = -INFINITY, x[69000] = INFINITY;
    index[5000] = 9, index[300] = -4, index[68000] = 12;
    feed[0].node = tp_placeholder(g, "x", TP_F32, tp_make_shape(n));
    feed[1].node = tp_placeholder(g, "index", TP_I32, tp_make_shape(n));
    tp_tensor_view(&feed[0].value, TP_F32, tp_make_shape(n), x);
    tp_tensor_view(&feed[1].value, TP_I32, tp_make_shape(n), index);
    both_fail(tp_check_numerics(feed[0].node, "loss"), feed, 1, "element 60001 is NaN or infinite");
    both_fail(tp_gather(tp_rand_uniform(g, tp_make_shape(9, 2), 0.0f, 1.0f), feed[1].node), feed + 1, 1,
              "index -4 is outside");
    tp_graph_free(g);
    free(x);
    free(index);
}

typedef struct lines {
    tp_buf text;
} lines;
static void keep_line(void *user, tp_log_level level, const char *message)
{
    (void)level;
    tp_buf_printf(&((lines *)user)->text, "%s\n", message);
}
TEST(print_writes_the_same_line)
{
    lines l[2];
    memset(l, 0, sizeof l);
    for (int i = 0; i < 2; i++) {
        tp_device *gpu = i ? tp_cuda_open(0) : NULL;
        twins t;
        tp_session_config sc = tp_default_session_config();
        const tp_tensor *value[8];
        twins_begin(&t);
        if (i) sc.devices = &gpu, sc.n_devices = 1;
        sc.threads = 1;
        twin_out(&t, tp_print(twin_in(&t, TP_F32, tp_make_shape(101, 99), -3, 2), "large"));
        twin_out(&t, tp_print(twin_in(&t, TP_BF16, tp_make_shape(21), -3, 2), "just too many"));
        twin_out(&t, tp_print(twin_in(&t, TP_F64, tp_make_shape(20), -3, 2), NULL));
        twin_out(&t, tp_print(twin_in(&t, TP_I64, tp_make_shape(7), -1e12, 1e12), "whole"));
        twin_out(&t, tp_print(twin_in(&t, TP_BOOL, tp_make_shape(3), 0, 1), "bool"));
        twin_out(&t, tp_print(twin_in(&t, TP_F32, tp_make_shape(0, 4), 0, 1), "nothing"));
        tp_session *s = tp_session_new(t.g, &sc);
        tp_set_log(keep_line, &l[i]);
        for (int run = 0; run < 3; run++) CHECK_OK(tp_session_run(s, t.feed, t.n_feed, t.fetch, t.n_fetch, value));
        tp_set_log(NULL, NULL);
        for (int k = 0; k < t.n_fetch; k++)
            CHECK(tp_tensor_bytes(value[k]) == 0 ||
                  memcmp(value[k]->data, t.value[k].data, tp_tensor_bytes(value[k])) == 0);
        tp_session_free(s);
        for (int k = 0; k < t.n_feed; k++) tp_tensor_free(&t.value[k]);
        tp_graph_free(t.g);
        if (gpu) gpu->close(gpu);
    }
    CHECK_HAS(l[0].text.data, "large: shape (101,99), mean ");
    CHECK_STR(l[1].text.data, l[0].text.data);
    for (int i = 0; i < 2; i++) tp_buf_free(&l[i].text);
}

TEST(random_numbers_have_the_bits_of_the_cpu)
{
    const tp_dtype types[] = {TP_F32, TP_F64, TP_F16, TP_BF16};
    twins t;
    twins_begin(&t);
    for (int d = 0; d < 4; d++) {
        tp_node *x = twin_in(&t, types[d], tp_make_shape(13, 401), -2, 2);
        twin_out(&t, tp_rand_uniform_like(x, -0.3f, 1.1f));
        twin_out(&t, tp_rand_normal_like(x, 0.25f, 1.5f));
        twin_out(&t, tp_nn_dropout(x, 0.3f));
        twin_out(&t, tp_nn_dropout(x, 0.0f));
    }
    twin_out(&t, tp_rand_truncated_normal(t.g, tp_make_shape(9001), 0.5f, 2.0f));
    twin_out(&t, tp_rand_normal(t.g, tp_make_shape(3), 0.0f, 1.0f));
    twins_end(&t, 3, 0, "random numbers");
}

static tp_node *twin_var(twins *t, const char *what, int i, tp_dtype dtype, int64_t n, float low, float high)
{
    char name[32];
    snprintf(name, sizeof name, "%s%d", what, i);
    return tp_get_variable_as(t->g, name, dtype, tp_make_shape(n), tp_init_uniform(low, high));
}

TEST(variables_are_written_where_the_predicate_holds)
{
    const tp_dtype types[] = {TP_F32, TP_F64, TP_F16, TP_I32, TP_I64};
    twins t;
    twins_begin(&t);
    tp_node *yes = twin_in(&t, TP_BOOL, tp_make_shape_n(0, NULL), 1, 1),
            *no = twin_in(&t, TP_BOOL, tp_make_shape_n(0, NULL), 0, 0), *pred[3] = {NULL, yes, no};
    int at = 0;
    for (int d = 0; d < 5; d++)
        for (int p = 0; p < 3; p++) {
            tp_node *x = twin_in(&t, types[d], tp_make_shape(4099), -9, 9);
            twin_out(&t, tp_assign(twin_var(&t, "v", at++, types[d], 4099, -5, 5), x, pred[p]));
            twin_out(&t, tp_assign_add(twin_var(&t, "v", at++, types[d], 4099, -5, 5), x, pred[p]));
            twin_out(&t, tp_assign_sub(twin_var(&t, "v", at++, types[d], 4099, -5, 5), x, pred[p]));
            if (d < 3)
                twin_out(&t,
                         tp_assign_moving_average(twin_var(&t, "v", at++, types[d], 4099, -5, 5), x, 0.9f, pred[p]));
        }
    tp_apply_desc desc;
    tp__assign_attrs decay;
    tp_node *x = twin_in(&t, TP_F32, tp_make_shape_n(0, NULL), 2, 3), *vars[2];
    vars[0] = tp_get_variable_as(t.g, "biased", TP_F32, tp_make_shape_n(0, NULL), tp_init_zeros());
    vars[1] = tp_get_variable_as(t.g, "count", TP_F32, tp_make_shape_n(0, NULL), tp_init_zeros());
    memset(&desc, 0, sizeof desc);
    decay.decay = 0.95f;
    desc.row = tp_op_find("ema_debias");
    desc.in = &x, desc.n_in = 1;
    desc.attrs = &decay;
    desc.vars = vars, desc.n_var = 2;
    twin_out(&t, tp_apply_ex(t.g, &desc));
    twins_end(&t, 5, 3e-3, "assignments");
}

/* More variables than a launch takes, some of several blocks, and one named twice. */
static void optimizers(tp_dtype dtype, int n, double tol)
{
    for (int kind = TP__DESCENT; kind <= TP__LAMB; kind++)
        for (int way = 0; way < 3; way++) { /* plain; with all options; with a predicate that is false */
            if (way == 2 && kind % 3 != 0) continue;
            twins t;
            tp_node *var[80], *slot[3][80], *grad[80], *y = NULL;
            twins_begin(&t);
            for (int i = 0; i < n; i++) {
                const int64_t size = i == 3 ? 9001 : i == 5 ? 4096 : i == n - 1 ? 4097 : i == 7 ? 0 : 1 + i % 9;
                var[i] = twin_var(&t, "w", i, dtype, size, -1, 1);
                for (int s = 0; s < 3; s++) {
                    char name[8];
                    snprintf(name, sizeof name, "s%d_", s);
                    slot[s][i] = twin_var(&t, name, i, dtype, size, s == 1 && kind == TP__FTRL ? -0.5f : 0.1f, 0.9f);
                }
                if (kind == TP__RMSPROP_CENTERED) slot[2][i] = twin_var(&t, "mg", i, dtype, size, -0.1f, 0.1f);
                grad[i] = twin_in(&t, dtype, tp_make_shape(size), -0.5, 0.5);
            }
            if (kind <= TP__MOMENTUM && n > 9) { /* one after the other; the CPU converts halves once for all */
                var[2] = var[0], slot[0][2] = slot[0][0];
                grad[2] = grad[0];
            }
            tp_node *lr = twin_in(&t, dtype, tp_make_shape_n(0, NULL), 0.0625, 0.0625),
                    *p1 = twin_in(&t, dtype, tp_make_shape_n(0, NULL), 0.75, 0.75),
                    *p2 = twin_in(&t, dtype, tp_make_shape_n(0, NULL), 0.5, 0.5),
                    *pred = way == 0 ? NULL : twin_in(&t, TP_BOOL, tp_make_shape_n(0, NULL), way == 1, way == 1);
            const float decay = way ? 0.125f : 0.0f;
            switch (kind) {
            case TP__DESCENT: y = tp_apply_gradient_descent(var, grad, n, lr, pred); break;
            case TP__MOMENTUM: y = tp_apply_momentum(var, slot[0], grad, n, lr, 0.9f, way == 1, pred); break;
            case TP__ADAM:
                y = tp_apply_adamw(var, slot[0], slot[1], grad, n, lr, p1, p2, 0.9f, 0.99f, 1e-3f, decay, pred);
                break;
            case TP__RMSPROP:
                y = tp_apply_rmsprop(var, slot[0], slot[1], NULL, grad, n, lr, 0.9f, 0.5f, 1e-3f, pred);
                break;
            case TP__RMSPROP_CENTERED:
                y = tp_apply_rmsprop(var, slot[0], slot[1], slot[2], grad, n, lr, 0.9f, 0.5f, 1e-3f, pred);
                break;
            case TP__ADAGRAD: y = tp_apply_adagrad(var, slot[0], grad, n, lr, pred); break;
            case TP__ADADELTA: y = tp_apply_adadelta(var, slot[0], slot[1], grad, n, lr, 0.9f, 1e-3f, pred); break;
            case TP__FTRL:
                y = tp_apply_ftrl(var, slot[0], slot[1], grad, n, lr, way ? -0.75f : -0.5f, 0.01f, 0.02f, 0.03f, pred);
                break;
            default:
                y = tp_apply_lamb(var, slot[0], slot[1], grad, n, lr, p1, p2, 0.9f, 0.99f, 1e-3f, decay, pred);
                break;
            }
            char what[64];
            snprintf(what, sizeof what, "optimizer %d, way %d", kind, way);
            twin_out(&t, y);
            twins_end(&t, 2, way == 2 ? 0 : kind == TP__FTRL ? 20 * tol : tol, what); /* FTRL: a difference of powers */
        }
}
TEST(optimizers_of_many_variables) { optimizers(TP_F32, 70, 1e-5); }
TEST(optimizers_in_float64) { optimizers(TP_F64, 12, 1e-11); }
TEST(optimizers_in_half_precision)
{
    optimizers(TP_BF16, 9, 3e-2);
    optimizers(TP_F16, 9, 4e-3);
}

TEST_MAIN()
