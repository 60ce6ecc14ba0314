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

/* ==== sequences and images ============================================================================= */
/* Sizes that several blocks share, with a last one that is not full, against the CPU. */

static void seq_case(op_case *c, const char *op)
{
    memset(c, 0, sizeof *c);
    c->file = op;
    snprintf(c->op, sizeof c->op, "%s", op);
}
static void seq_attr(op_case *c, const char *name, double value)
{
    snprintf(c->attr[c->n_attr++], sizeof c->attr[0], "%s %.9g", name, value);
}
static tp_tensor *seq_in(op_case *c, tp_dtype dtype, const int64_t *dim, int ndim, double low, double high)
{
    tp_tensor *t = &c->in[c->n_in++];
    if (!CHECK_OK(tp_tensor_resize(t, dtype, tp_make_shape_n(ndim, dim)))) return t;
    for (int64_t i = 0; i < tp_tensor_size(t); i++) {
        const double u = (double)tp_random_uniform(17, (uint64_t)c->n_in, (uint64_t)i);
        tp_tensor_set(t, i, dtype == TP_F32 ? low + (high - low) * u : floor(low + (high - low) * u));
    }
    return t;
}
static tp_tensor *seq_in3(op_case *c, int64_t a, int64_t b, int64_t d, double low, double high)
{
    const int64_t dim[3] = {a, b, d};
    return seq_in(c, TP_F32, dim, 3, low, high);
}
static tp_tensor *seq_in2(op_case *c, int64_t a, int64_t b, double low, double high)
{
    const int64_t dim[2] = {a, b};
    return seq_in(c, TP_F32, dim, 2, low, high);
}
static tp_device *seq_gpu; /* of the running test */
static bool seq_open(void)
{
    tp_set_log(quiet, NULL);
    seq_gpu = tp_cuda_open(0);
    return CHECK_MSG(seq_gpu != NULL, "no GPU: %s", tp_last_error());
}
static void seq_close(void)
{
    seq_gpu->close(seq_gpu);
    tp_set_log(NULL, NULL);
}
/* Run it as these types, and forget it. */
static void seq_compare(op_case *c, int line, const char *types)
{
    static const tp_dtype all[4] = {TP_F32, TP_F64, TP_BF16, TP_F16};
    const tp_op *row = tp_op_find(c->op);
    int n = 0;
    c->line = line;
    for (int i = 0; i < 4 && row; i++)
        if (strchr(types, "fdbh"[i])) compare_devices(c, row, all[i], seq_gpu, &n);
    CHECK_MSG(n == (int)strlen(types), "%s:%d: it ran as %d types", c->op, line, n);
    free_case_as(c);
}

static void lstm_on_gpu(int64_t T, int64_t B, int64_t I, int64_t H, bool batch_major, const char *types)
{
    op_case c;
    const int64_t d0 = batch_major ? B : T, d1 = batch_major ? T : B, g = 4 * H;
    for (int back = 0; back < 2; back++) {
        seq_case(&c, back ? "lstm_grad" : "lstm");
        seq_attr(&c, "forget_bias", 1);
        seq_attr(&c, "batch_major", batch_major);
        if (back) {
            seq_in3(&c, d0, d1, H, -1, 1);
            for (int i = 0; i < 2; i++) seq_in2(&c, B, H, -1, 1);
        }
        seq_in3(&c, d0, d1, I, -1, 1);
        seq_in2(&c, I + H, g, -0.3, 0.3);
        if (!back) seq_in(&c, TP_F32, &g, 1, -1, 1);
        for (int i = 0; i < 2; i++) seq_in2(&c, B, H, -1, 1);
        if (back) {
            seq_in3(&c, d0, d1, H, -1, 1);
            seq_in3(&c, d0, d1, g, 0, 1);
            seq_in3(&c, d0, d1, H, -1, 1);
        }
        seq_compare(&c, (int)T, types);
    }
}
static void gru_on_gpu(int64_t T, int64_t B, int64_t I, int64_t H, bool batch_major, const char *types)
{
    op_case c;
    const int64_t d0 = batch_major ? B : T, d1 = batch_major ? T : B, g = 2 * H;
    for (int back = 0; back < 2; back++) {
        seq_case(&c, back ? "gru_grad" : "gru");
        seq_attr(&c, "batch_major", batch_major);
        if (back) {
            seq_in3(&c, d0, d1, H, -1, 1);
            seq_in2(&c, B, H, -1, 1);
        }
        seq_in3(&c, d0, d1, I, -1, 1);
        seq_in2(&c, I + H, g, -0.3, 0.3);
        if (!back) seq_in(&c, TP_F32, &g, 1, -1, 1);
        seq_in2(&c, I + H, H, -0.3, 0.3);
        if (!back) seq_in(&c, TP_F32, &H, 1, -1, 1);
        seq_in2(&c, B, H, -1, 1);
        if (back) {
            seq_in3(&c, d0, d1, H, -1, 1);
            seq_in3(&c, d0, d1, 3 * H, 0, 1);
        }
        seq_compare(&c, (int)T, types);
    }
}
TEST(recurrent_layers_of_several_blocks)
{
    if (!seq_open()) return;
    for (int batch_major = 0; batch_major < 2; batch_major++) {
        lstm_on_gpu(6, 37, 9, 33, batch_major != 0, batch_major ? "fdbh" : "f");
        gru_on_gpu(6, 37, 9, 33, batch_major != 0, batch_major ? "f" : "fdbh");
        lstm_on_gpu(1, 5, 3, 2, batch_major != 0, "f");
        gru_on_gpu(1, 5, 3, 2, batch_major != 0, "f");
    }
    lstm_on_gpu(700, 1, 2, 3, false, "f"); /* long chunks in the sums of biases */
    lstm_on_gpu(0, 3, 4, 5, false, "f");
    gru_on_gpu(0, 3, 4, 5, true, "f");
    lstm_on_gpu(4, 0, 4, 5, true, "f");
    gru_on_gpu(4, 0, 4, 5, false, "f");
    seq_close();
}

static void attention_on_gpu(int64_t B, int64_t Tq, int64_t Tk, int64_t D, int heads, bool causal, const char *types)
{
    op_case c;
    const int64_t C = D * heads;
    for (int back = 0; back < 2; back++) {
        seq_case(&c, back ? "attention_grad" : "attention");
        seq_attr(&c, "heads", heads);
        seq_attr(&c, "causal", causal);
        if (back) seq_in3(&c, B, Tq, C, -1, 1);
        seq_in3(&c, B, Tq, C, -2, 2);
        for (int i = 0; i < 2; i++) seq_in3(&c, B, Tk, C, -2, 2);
        if (back) {
            seq_in3(&c, B, Tq, C, -1, 1);
            seq_in3(&c, B, heads, Tq, log((double)Tk), log((double)Tk) + 1);
        }
        seq_compare(&c, (int)D, types);
    }
}
TEST(attention_over_several_tiles)
{
    if (!seq_open()) return;
    attention_on_gpu(2, 35, 67, 20, 2, false, "fdbh");
    attention_on_gpu(1, 66, 66, 7, 1, true, "fd");
    attention_on_gpu(1, 67, 130, 64, 1, true, "f");
    attention_on_gpu(1, 3, 70, 72, 2, true, "fbh");
    attention_on_gpu(1, 5, 66, 128, 1, false, "f");
    attention_on_gpu(1, 3, 5, 301, 1, false, "fd"); /* a head in three slices */
    attention_on_gpu(3, 1, 140, 8, 3, true, "f");
    attention_on_gpu(1, 0, 3, 4, 1, false, "f");
    seq_close();
}

static void ctc_on_gpu(int64_t T, int64_t B, int64_t C, int64_t L, int blank, bool batch_major, bool long_ints,
                       int64_t bad, const char *types)
{
    op_case c;
    const int64_t l[2] = {B, L};
    const tp_dtype dtype = long_ints ? TP_I64 : TP_I32;
    seq_case(&c, "ctc_loss");
    seq_attr(&c, "blank", blank);
    seq_attr(&c, "batch_major", batch_major);
    seq_attr(&c, "zero_infinity", B % 2 == 0);
    if (batch_major) seq_in3(&c, B, T, C, -3, 3);
    else seq_in3(&c, T, B, C, -3, 3);
    tp_tensor *labels = seq_in(&c, dtype, l, 2, blank == 0 ? 1 : 0, (double)(blank == 0 ? C : C - 1));
    tp_tensor *lengths = seq_in(&c, dtype, l, 1, 0, (double)L + 1), *steps = seq_in(&c, dtype, l, 1, 0, (double)T + 1);
    for (int64_t b = 0; b < B; b++) { /* one of all steps and labels, one of none, one whose labels do not fit */
        if (b % 4 == 0) tp_tensor_set(lengths, b, (double)L), tp_tensor_set(steps, b, (double)T);
        if (b % 4 == 1) tp_tensor_set(lengths, b, 0);
        if (b % 4 == 2) tp_tensor_set(steps, b, b % 8 == 2 ? 0 : 1);
    }
    if (bad) tp_tensor_set(labels, 0, (double)bad);
    seq_compare(&c, (int)L, types);
}
TEST(ctc_with_many_and_long_labels)
{
    if (!seq_open()) return;
    ctc_on_gpu(21, 9, 11, 5, 0, false, false, 0, "fdbh");
    ctc_on_gpu(40, 8, 70, 17, -1, true, true, 0, "fd");
    ctc_on_gpu(300, 3, 9, 133, 0, false, true, 0, "fd"); /* more places than threads */
    ctc_on_gpu(9, 40, 5, 3, 0, true, false, 77, "f");
    ctc_on_gpu(9, 2, 5, 0, 0, true, false, 0, "f");
    ctc_on_gpu(0, 3, 5, 2, 0, false, false, 0, "f");
    seq_close();
}

static void resize_on_gpu(const int64_t *x, int h, int w, int how, bool nearest, bool nchw, const char *types)
{
    op_case c;
    for (int back = 0; back < 2; back++) {
        seq_case(&c, back ? "resize_grad" : "resize");
        seq_attr(&c, "out_h", h);
        seq_attr(&c, "out_w", w);
        seq_attr(&c, "align_corners", how == 1);
        seq_attr(&c, "half_pixel_centers", how == 2);
        seq_attr(&c, "nearest", nearest);
        seq_attr(&c, "data_format", nchw ? TP_NCHW : TP_NHWC);
        int64_t y[4] = {x[0], x[1], x[2], x[3]};
        y[nchw ? 2 : 1] = h;
        y[nchw ? 3 : 2] = w;
        if (back) seq_in(&c, TP_F32, y, 4, -1, 1);
        seq_in(&c, TP_F32, x, 4, -1, 1);
        seq_compare(&c, how, types);
    }
}
TEST(images_resized_both_ways)
{
    if (!seq_open()) return;
    const int64_t fours[4] = {2, 13, 9, 8}, odd[4] = {2, 9, 17, 3}, planes[4] = {2, 3, 17, 11}, one[4] = {1, 1, 1, 5};
    for (int how = 0; how < 3; how++)
        for (int nearest = 0; nearest < 2; nearest++) {
            resize_on_gpu(fours, 20, 5, how, nearest != 0, false, how ? "f" : "fdbh");
            resize_on_gpu(odd, 4, 40, how, nearest != 0, false, how == 1 ? "fdbh" : "f");
            resize_on_gpu(planes, 31, 31, how, nearest != 0, true, "f");
            resize_on_gpu(one, 7, 6, how, nearest != 0, false, "f");
            resize_on_gpu(planes, 1, 1, how, nearest != 0, true, "f");
        }
    seq_close();
}

static void sampler_on_gpu(int64_t B, int64_t H, int64_t W, int64_t C, int64_t h, int64_t w, int border, double low,
                           double high, const char *types)
{
    op_case c;
    const int64_t x[4] = {B, H, W, C}, y[4] = {B, h, w, C}, at[4] = {B, h, w, 2};
    for (int back = 0; back < 2; back++) {
        seq_case(&c, back ? "bilinear_sampler_grad" : "bilinear_sampler");
        seq_attr(&c, "border", border);
        if (back) seq_in(&c, TP_F32, y, 4, -1, 1);
        seq_in(&c, TP_F32, x, 4, -1, 1);
        tp_tensor *coords = seq_in(&c, TP_F32, at, 4, low, high);
        for (int64_t i = 0; i < tp_tensor_size(coords); i += 7) /* in steps that every type holds */
            tp_tensor_set(coords, i, floor(tp_tensor_get(coords, i)));
        if (!back && B == 3) tp_tensor_set(coords, 5, (double)NAN);
        seq_compare(&c, (int)C, types);
    }
}
TEST(bilinear_sampling_at_many_places)
{
    if (!seq_open()) return;
    sampler_on_gpu(3, 19, 23, 3, 41, 45, TP_BORDER_REPEAT, -3, 26, "fdbh"); /* chunks of the sort */
    sampler_on_gpu(2, 19, 23, 1, 41, 45, TP_BORDER_CONSTANT, -3, 26, "f");
    sampler_on_gpu(2, 9, 300, 8, 17, 13, TP_BORDER_CONSTANT, -1, 9, "fdbh");
    sampler_on_gpu(2, 7, 5, 37, 9, 11, TP_BORDER_REPEAT, -1, 7, "f");
    sampler_on_gpu(1, 7, 5, 36, 9, 11, TP_BORDER_REPEAT, -1, 7, "fd");
    sampler_on_gpu(1, 6, 6, 2, 60, 61, TP_BORDER_REPEAT, 2.25, 2.25, "f"); /* all at one pixel */
    sampler_on_gpu(1, 1, 1, 4, 3, 3, TP_BORDER_REPEAT, -1, 1, "f");
    sampler_on_gpu(2, 3, 4, 4, 0, 3, TP_BORDER_REPEAT, -1, 1, "f");
    seq_close();
}

/* ==== >>convolution, >>normalisation ================================================================== */
/* Shapes that take several blocks, warps and pieces, odd ends, and every way that a kernel has. */

typedef struct shaped {
    const char *op, *attrs, *in[6]; /* attributes and inputs as in ref_ops_nn.txt, attributes between ';' */
    double tol;
} shaped;

static bool shaped_case(const shaped *s, int line, op_case *c)
{
    char text[1024];
    memset(c, 0, sizeof *c);
    c->file = "test_cuda.c";
    c->line = line;
    c->tol = s->tol;
    snprintf(c->op, sizeof c->op, "%s", s->op);
    for (const char *p = s->attrs; *p && c->n_attr < MAX_ATTRS;) {
        const size_t n = strcspn(p, ";");
        snprintf(c->attr[c->n_attr++], sizeof c->attr[0], "%.*s", (int)n, p);
        p += n + (p[n] == ';');
    }
    for (; c->n_in < 6 && s->in[c->n_in]; c->n_in++) {
        snprintf(text, sizeof text, "%s", s->in[c->n_in]);
        if (!CHECK(parse_tensor(text, &c->in[c->n_in], (uint64_t)(line * 8 + c->n_in)))) return false;
    }
    return true;
}
static void compare_shaped(const shaped *list, int n_list, const tp_dtype *dtypes, int n_dtype)
{
    tp_set_log(quiet, NULL);
    tp_device *gpu = tp_cuda_open(0);
    if (CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error()))
        for (int i = 0; i < n_list; i++) {
            op_case c;
            const tp_op *row = tp_op_find(list[i].op);
            int n = 0;
            if (!wanted(list[i].op)) continue;
            if (CHECK(row != NULL) && shaped_case(&list[i], i, &c))
                for (int d = 0; d < n_dtype; d++) compare_devices(&c, row, dtypes[d], gpu, &n);
            CHECK_MSG(n == n_dtype, "case %d: %s: only %d types ran", i, list[i].op, n);
            free_case_as(&c);
        }
    if (gpu) gpu->close(gpu);
    tp_set_log(NULL, NULL);
}
static const tp_dtype all_reals[] = {TP_F32, TP_F64, TP_BF16, TP_F16};

#define R1 " rand -1 1"
/* A convolution and its two gradients, from the shapes of x, w and y. */
#define CONV(attrs_, x_, w_, y_)                                                                         \
    {"conv2d", attrs_, {"float32 4 " x_ R1, "float32 4 " w_ R1}, 0},                                     \
        {"conv2d_input_grad", attrs_, {"float32 4 " y_ R1, "float32 4 " w_ R1, "float32 4 " x_ R1}, 0},  \
    {                                                                                                    \
        "conv2d_filter_grad", attrs_, {"float32 4 " x_ R1, "float32 4 " y_ R1, "float32 4 " w_ R1}, 3e-5 \
    }

TEST(convolutions_across_blocks)
{
    static const shaped list[] = {
        CONV("padding 1", "2 13 11 8", "3 3 8 36", "2 13 11 36"),
        CONV("padding 1;stride_h 2;stride_w 2", "2 12 10 8", "3 3 8 10", "2 6 5 10"), /* SAME, an odd row and column */
        CONV("padding 1;stride_h 2;stride_w 2", "3 12 9 6", "3 3 6 5", "3 6 5 5"),    /* an odd row */
        CONV("padding 1;stride_h 1;stride_w 3", "2 7 13 3", "2 4 3 7", "2 7 5 7"),
        CONV("padding 1;data_format 2;stride_h 2;stride_w 2;groups 2", "2 6 12 10", "3 3 3 8", "2 8 6 5"),
        CONV("padding 2;data_format 2", "2 5 9 11", "3 2 5 34", "2 34 7 10"),
        CONV("padding 2;dilation_h 2;dilation_w 3", "2 13 15 4", "3 2 4 9", "2 9 12 9"),
        CONV("padding 2;stride_h 2;stride_w 2;groups 4", "2 11 11 8", "3 3 2 12", "2 5 5 12"),
        CONV("padding 1", "3 9 11 20", "1 1 20 33", "3 9 11 33"), /* a product */
        CONV("padding 2", "3 5 7 6", "5 7 6 11", "3 1 1 11"),     /* the whole picture: another one */
        CONV("padding 1;stride_h 2;stride_w 2", "2 9 10 12", "1 1 12 18", "2 5 5 18"), /* none */
        CONV("padding 1;data_format 2", "2 12 9 7", "1 1 12 10", "2 10 9 7"),
        {"conv2d",
         "padding 1;fused_bias 1;fused_act 1",
         {"float32 4 2 9 9 8" R1, "float32 4 1 1 8 12" R1, "float32 1 12" R1},
         0},
        {"conv2d",
         "padding 1;fused_bias 1;fused_act 1",
         {"float32 4 2 9 9 8" R1, "float32 4 3 3 8 12" R1, "float32 1 12" R1},
         0},
        {"conv2d",
         "padding 1;fused_bias 1;groups 8",
         {"float32 4 2 9 9 8" R1, "float32 4 3 3 1 8" R1, "float32 1 8" R1},
         0},
        {"conv2d", "padding 1", {"float32 4 0 9 9 8" R1, "float32 4 3 3 8 12" R1}, 0},
        {"conv2d_filter_grad",
         "padding 1",
         {"float32 4 0 9 9 8" R1, "float32 4 0 9 9 12" R1, "float32 4 3 3 8 12" R1},
         0},
    };
    compare_shaped(list, (int)(sizeof list / sizeof *list), all_reals, 4);
}

TEST(depthwise_convolutions_across_blocks)
{
    static const shaped list[] = {
        CONV("padding 1;groups 40", "3 19 23 40", "3 3 1 40", "3 19 23 40"), /* fours; two tiles, many pieces */
        CONV("padding 1;groups 12;stride_h 2;stride_w 2", "2 18 21 12", "3 3 1 12", "2 9 11 12"),
        CONV("padding 2;groups 8;dilation_h 2", "2 18 21 8", "5 5 1 8", "2 10 17 8"), /* 25 taps in three passes */
        CONV("padding 1;groups 33", "2 13 11 33", "3 3 1 33", "2 13 11 33"),          /* no fours */
        CONV("padding 1;groups 5", "2 9 11 5", "3 3 1 10", "2 9 11 10"),              /* two filters a channel */
        CONV("padding 1;groups 6;data_format 2", "3 6 23 21", "3 3 1 6", "3 6 23 21"),
        CONV("padding 2;groups 3;data_format 2;stride_w 2", "3 3 13 21", "4 4 1 6", "3 6 10 9"),
    };
    compare_shaped(list, (int)(sizeof list / sizeof *list), all_reals, 4);
}

/* A pool's forward and backward; argmax: values of the place in the window that lie inside of the picture. */
#define POOL(attrs_, x_, y_, place_)                                                                           \
    {"max_pool", attrs_, {"float32 4 " x_ R1}, 0}, {"avg_pool", attrs_, {"float32 4 " x_ R1}, 0},              \
        {"avg_pool_grad", attrs_, {"float32 4 " y_ R1, "float32 4 " x_ R1}, 0},                                \
        {"max_pool_grad", attrs_, {"float32 4 " y_ R1, "uint8 4 " y_ " rand " place_, "float32 4 " x_ R1}, 0}, \
    {                                                                                                          \
        "max_pool_take", attrs_, {"float32 4 " x_ R1, "uint8 4 " y_ " rand " place_}, 0                        \
    }

TEST(pools_across_blocks)
{
    static const shaped list[] = {
        POOL("size_h 2;size_w 2", "2 12 14 12", "2 6 7 12", "0 3"),
        POOL("size_h 3;size_w 3;stride_h 2;stride_w 2", "2 13 15 8", "2 6 7 8", "0 8"),
        POOL("size_h 3;size_w 3;stride_h 1;stride_w 1;padding 1", "2 9 10 7", "2 9 10 7", "4 4"),
        POOL("size_h 2;size_w 3;stride_h 3;stride_w 4", "2 14 13 5", "2 5 3 5", "0 5"), /* gaps between windows */
        POOL("size_h 3;size_w 2;stride_h 2;stride_w 1;data_format 2", "2 5 13 15", "2 5 6 14", "0 5"),
        POOL("size_h 5;size_w 4;stride_h 2;stride_w 3;padding 1;data_format 2", "2 3 12 15", "2 3 6 5", "9 9"),
        {"max_pool", "size_h 17;size_w 16", {"float32 4 2 34 33 4" R1}, 0}, /* places of 32 bits */
        {"max_pool_grad",
         "size_h 17;size_w 16",
         {"float32 4 2 2 2 4" R1, "int32 4 2 2 2 4 rand 0 271", "float32 4 2 34 33 4" R1},
         0},
        {"max_pool_take",
         "size_h 17;size_w 16;data_format 2",
         {"float32 4 2 4 34 33" R1, "int32 4 2 4 2 2 rand 0 271"},
         0},
        {"max_pool", "size_h 2;size_w 2", {"float32 4 1 2 4 2 1 nan 2 3 nan 5 6 -1 7 7 8 7 2 2 nan nan"}, 0},
        {"bias_add", "", {"float32 3 20 31 12" R1, "float32 1 12" R1}, 0},
        {"bias_add", "", {"float32 3 20 31 7" R1, "float32 1 7" R1}, 0},
        {"bias_add", "data_format 2", {"float32 4 3 7 9 12" R1, "float32 1 7" R1}, 0},
        {"bias_add", "data_format 2", {"float32 3 3 8 31" R1, "float32 1 8" R1}, 0},
    };
    compare_shaped(list, (int)(sizeof list / sizeof *list), all_reals, 4);
}

/* Batch norm and its gradient over x (shape x_), C channels on axis_. */
#define NORM(axis_, x_, C_)                                                                                     \
    {"batch_norm",                                                                                              \
     "axis " axis_ ";epsilon 1e-3;unbiased 1",                                                                  \
     {"float32 " x_ " rand -1 2", "float32 1 " C_ " rand 0.5 2", "float32 1 " C_ R1},                           \
     2e-5},                                                                                                     \
        {"batch_norm_grad",                                                                                     \
         "axis " axis_ ";epsilon 1e-3",                                                                         \
         {"float32 " x_ R1, "float32 " x_ " rand -1 2", "float32 1 " C_ " rand 0.5 2",                          \
          "float32 1 " C_ " rand 0.4 0.6", "float32 1 " C_ " rand 0.8 1.2"},                                    \
         1e-4},                                                                                                 \
    {                                                                                                           \
        "batch_norm_infer", "axis " axis_ ";epsilon 1e-3",                                                      \
            {"float32 " x_ " rand -1 2", "float32 1 " C_ " rand 0.5 2", "float32 1 " C_ R1, "float32 1 " C_ R1, \
             "float32 1 " C_ " rand 0.5 2"},                                                                    \
            2e-5                                                                                                \
    }

TEST(batch_norms_across_blocks)
{
    static const shaped list[] = {
        NORM("-1", "4 3 19 17 64", "64"), /* several pieces of rows */
        NORM("-1", "2 301 132", "132"),   /* two tiles of fours, the second nearly empty */
        NORM("-1", "2 150 35", "35"),     /* two tiles without fours */
        NORM("-1", "3 70 33 3", "3"),
        NORM("-1", "2 5000 1", "1"),
        NORM("1", "4 5 3 30 32", "3"), /* fours, two pieces */
        NORM("1", "4 5 3 29 31", "3"), /* no fours */
        NORM("1", "3 7 9 5", "9"),
        NORM("1", "3 1 3 2", "3"),
        {"batch_norm", "axis -1;epsilon 1e-3", {"float32 2 0 5", "float32 1 5" R1, "float32 1 5" R1}, 0},
    };
    compare_shaped(list, (int)(sizeof list / sizeof *list), all_reals, 4);
}

/* The variance of numbers around a large mean. */
TEST(batch_norm_far_from_zero)
{
    static const tp_dtype reals[] = {TP_F32, TP_F64};
    static const shaped list[] = {
        {"batch_norm",
         "axis -1;epsilon 1e-6",
         {"float32 2 700 8 rand 1000 1001", "float32 1 8" R1, "float32 1 8" R1},
         1e-3},
        {"batch_norm",
         "axis 1;epsilon 1e-6",
         {"float32 3 40 3 300 rand -1001 -1000", "float32 1 3" R1, "float32 1 3" R1},
         1e-3},
    };
    compare_shaped(list, 2, reals, 2);
}

/* What the planner folds: bias and ReLU into a convolution, ReLU and its mask into batch norm. */
static bool folded_net(tp_device *device, int nchw, bool depthwise, tp_tensor *out, int n_out)
{
    enum { X, W, B, GAMMA, BETA, N };
    tp_graph *g = tp_graph_new(NULL);
    tp_session_config sc;
    memset(&sc, 0, sizeof sc);
    sc.threads = 1;
    sc.isa = "naive";
    if (device) sc.devices = &device, sc.n_devices = 1;
    const tp_shape shape[N] = {nchw ? tp_make_shape(3, 8, 13, 14) : tp_make_shape(3, 13, 14, 8),
                               tp_make_shape(3, 3, depthwise ? 1 : 8, 8), tp_make_shape(8), tp_make_shape(8),
                               tp_make_shape(8)};
    tp_node *in[N], *dx[N], *fetch[N + 1];
    tp_feed feed[N];
    tp_tensor value[N];
    memset(value, 0, sizeof value);
    bool ok = CHECK(g != NULL);
    for (int i = 0; i < N && ok; i++) {
        char name[8];
        snprintf(name, sizeof name, "x%d", i);
        in[i] = tp_placeholder(g, name, TP_F32, shape[i]);
        ok = CHECK_OK(tp_tensor_resize(&value[i], TP_F32, shape[i]));
        for (int64_t e = 0; ok && e < tp_tensor_size(&value[i]); e++)
            tp_tensor_set(&value[i], e,
                          (double)tp_random_uniform(7, (uint64_t)i, (uint64_t)e) * 2 - (i == GAMMA ? 0 : 1));
        feed[i].node = in[i];
        memset(&feed[i].value, 0, sizeof feed[i].value);
        if (ok) tp_tensor_view(&feed[i].value, TP_F32, shape[i], value[i].data);
    }
    if (ok) {
        tp_conv2d_attrs a;
        memset(&a, 0, sizeof a);
        a.data_format = nchw ? TP_NCHW : TP_NHWC;
        a.stride_h = a.stride_w = 2;
        a.groups = depthwise ? 8 : 1;
        tp_node *y = tp_relu(tp_nn_bias_add(tp_nn_conv2d(in[X], in[W], &a), in[B], a.data_format));
        y = tp_relu(tp_nn_batch_norm_train(y, in[GAMMA], in[BETA], nchw ? 1 : 3, 1e-3f, false, NULL, NULL));
        fetch[0] = y;
        tp_gradients(tp_reduce_sum(tp_square(y), NULL, 0, false), in, N, dx);
        for (int i = 0; i < N; i++) fetch[1 + i] = dx[i];
        tp_session *s = ok ? tp_session_new(g, &sc) : NULL;
        const tp_tensor *got[N + 1];
        for (int run = 0; run < 3 && ok; run++) {
            ok = CHECK(s != NULL) && CHECK_OK(tp_session_run(s, feed, N, fetch, n_out, got));
            for (int i = 0; ok && run == 2 && i < n_out; i++) ok = CHECK_OK(tp_tensor_copy(&out[i], got[i]));
        }
        tp_session_free(s);
    }
    for (int i = 0; i < N; i++) tp_tensor_free(&value[i]);
    tp_graph_free(g);
    return ok;
}
TEST(folded_bias_relu_and_mask)
{
    if (!wanted("conv2d") || !wanted("batch_norm")) return;
    tp_device *gpu = tp_cuda_open(0);
    if (!CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error())) return;
    for (int form = 0; form < 4; form++) {
        tp_tensor a[6], b[6];
        op_case c;
        memset(a, 0, sizeof a);
        memset(b, 0, sizeof b);
        memset(&c, 0, sizeof c);
        c.file = "test_cuda.c";
        c.line = form;
        if (folded_net(NULL, form & 1, form >> 1, a, 6) && folded_net(gpu, form & 1, form >> 1, b, 6))
            for (int i = 0; i < 6; i++) close_enough(&c, "folded", i, &b[i], &a[i], 1e-4);
        for (int i = 0; i < 6; i++) {
            tp_tensor_free(&a[i]);
            tp_tensor_free(&b[i]);
        }
    }
    gpu->close(gpu);
}
#undef R1
#undef CONV
#undef POOL
#undef NORM

TEST_MAIN()
