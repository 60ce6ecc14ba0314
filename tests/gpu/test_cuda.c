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

/* ==== >>reductions, >>rows ============================================================================ */
/* Larger and odder shapes than the table's: several blocks, parts, partial last ones, every form of each kernel. */

typedef struct wide_case {
    const char *op, *attr; /* "axes 0 2;n_axes 2" */
    const char *in[5]; /* as in a case's file; "coarse" at its end: multiples of a quarter, so that there are ties */
} wide_case;

static void run_wide_case(const wide_case *w, tp_dtype dtype, tp_device *gpu, int line)
{
    op_case c;
    int n = 0;
    memset(&c, 0, sizeof c);
    c.file = "test_cuda.c";
    c.line = line;
    c.tol = 4e-5; /* the CPU's naive loops keep some of their sums in float */
    snprintf(c.op, sizeof c.op, "%s", w->op);
    for (const char *a = w->attr; a && *a;) {
        const size_t length = strcspn(a, ";");
        snprintf(c.attr[c.n_attr++], sizeof c.attr[0], "%.*s", (int)length, a);
        a += length + (a[length] == ';');
    }
    for (; c.n_in < 5 && w->in[c.n_in]; c.n_in++) {
        char text[128];
        snprintf(text, sizeof text, "%s", w->in[c.n_in]);
        tp_tensor *t = &c.in[c.n_in];
        if (!CHECK_MSG(parse_tensor(text, t, tp_random_key((uint64_t)line, (uint64_t)c.n_in)), "%s", w->in[c.n_in]))
            return;
        for (int64_t i = 0; strstr(w->in[c.n_in], "coarse") && i < tp_tensor_size(t); i++)
            tp_tensor_set(t, i, round(4 * tp_tensor_get(t, i)) / 4);
    }
    const tp_op *row = tp_op_find(c.op);
    if (CHECK_MSG(row != NULL, "no op '%s'", c.op)) compare_devices(&c, row, dtype, gpu, &n);
    CHECK_MSG(n == 1 || dtype != TP_F32, "case %d, %s, did not run", line, c.op);
    for (int i = 0; i < c.n_in; i++) tp_tensor_free(&c.in[i]);
}
/* Each on float32 and, in turn, on one of the other types. */
static void run_wide_cases(const wide_case *w, int n)
{
    static const tp_dtype other[3] = {TP_BF16, TP_F64, TP_F16};
    tp_device *gpu = tp_cuda_open(0);
    tp_set_log(quiet, NULL);
    if (CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error()))
        for (int i = 0; i < n; i++) {
            run_wide_case(&w[i], TP_F32, gpu, i);
            run_wide_case(&w[i], other[i % 3], gpu, i);
        }
    tp_set_log(NULL, NULL);
    if (gpu) gpu->close(gpu);
}
#define RUN_WIDE_CASES(list_) run_wide_cases(list_, (int)(sizeof(list_) / sizeof *(list_)))

TEST(wide_reductions)
{
    static const wide_case list[] = {
        {"reduce_sum", NULL, {"float32 2 300 101 rand -1 2"}}, /* everything, in parts */
        {"reduce_max", NULL, {"float32 2 300 101 rand -1 1"}},
        {"reduce_min", NULL, {"float32 2 77 101 rand -1 1"}},
        {"reduce_mean", "axes 1;n_axes 1", {"float32 2 7 5000 rand -1 2"}}, /* long rows: a block each */
        {"reduce_sum", "axes 1;n_axes 1", {"float32 2 5 9001 rand -1 2"}},  /* not fours, in parts */
        {"reduce_max", "axes 1;n_axes 1", {"float32 2 5 9001 rand -1 1"}},
        {"reduce_sum", "axes 1;n_axes 1", {"float32 2 3001 10 rand -1 2"}}, /* short rows: some lanes each */
        {"reduce_sum", "axes 1;n_axes 1", {"float32 2 300 100 rand -1 2"}},
        {"reduce_mean", "axes 1;n_axes 1", {"float32 2 300 3 rand -1 2"}},
        {"reduce_sum", "axes 0 2 3;n_axes 3", {"float32 4 6 5 14 14 rand -1 2"}}, /* NCHW */
        {"reduce_sum", "axes 0 2 3;n_axes 3", {"float32 4 6 5 7 7 rand -1 2"}},
        {"reduce_sum", "axes 0;n_axes 1", {"float32 2 3000 3 rand -1 2"}}, /* columns: rows side by side */
        {"reduce_sum", "axes 0;n_axes 1", {"float32 2 700 64 rand -1 2"}},
        {"reduce_min", "axes 0;n_axes 1", {"float32 2 700 64 rand -1 2"}},
        {"reduce_mean", "axes 0 1;n_axes 2", {"float32 3 20 50 18 rand -1 2"}},
        {"reduce_sum", "axes 0;n_axes 1", {"float32 2 45 1001 rand -1 2"}},
        {"reduce_max", "axes 0;n_axes 1", {"float32 2 45 1001 rand -1 2"}},
        {"reduce_sum", "axes 0;n_axes 1", {"float32 2 35 2052 rand -1 2"}}, /* several tiles of columns */
        {"reduce_sum", "axes 0;n_axes 1", {"float32 2 35 1501 rand -1 2"}},
        {"reduce_sum", "axes 1;n_axes 1", {"float32 3 3 500 36 rand -1 2"}}, /* in the middle */
        {"reduce_sum", "axes 1;n_axes 1", {"float32 3 3 333 7 rand -1 2"}},
        {"reduce_mean", "axes 1;n_axes 1", {"float32 3 2 3 33000 rand -1 2"}}, /* a thread an output */
        {"reduce_sum", "axes 0 2;n_axes 2", {"float32 4 40 6 20 9 rand -1 2"}},
        {"reduce_max", "axes 0 2;n_axes 2;keep_dims 1", {"float32 4 40 6 20 9 rand -1 2"}},
        {"reduce_sum", "axes 1;n_axes 1", {"int32 2 5 5000 rand -9 9"}},
        {"reduce_sum", "axes 0;n_axes 1", {"int64 2 900 5 rand -9 9"}},
        {"reduce_max", "axes 0;n_axes 1", {"int64 2 900 5 rand -9 9"}},
        {"reduce_min", NULL, {"int32 1 9999 rand -1000000 1000000"}},
        {"reduce_prod", "axes 0;n_axes 1", {"int32 2 200 5 rand 1 9"}}, /* wraps around */
        {"reduce_prod", "axes 1;n_axes 1", {"float32 2 5 900 rand 0.9 1.1"}},
        {"reduce_prod_grad", "axes 1;n_axes 1", {"float32 2 5 90 rand 0.9 1.1", "float32 1 5 rand -1 1"}},
        {"reduce_prod_grad", "axes 0;n_axes 1", {"float32 2 9 500 rand -1 1 coarse", "float32 1 500 rand -1 1"}},
        {"reduce_all", NULL, {"bool 2 300 101 rand 1 1"}},
        {"reduce_all", "axes 0;n_axes 1", {"bool 2 300 101 rand 0 1"}},
        {"reduce_any", NULL, {"bool 2 300 101 rand 0 0"}},
        {"reduce_any", "axes 1;n_axes 1", {"bool 2 300 101 rand 0 1"}},
        {"reduce_sum", "axes 0;n_axes 1", {"float32 2 0 5 rand 0 1"}}, /* nothing to add, nobody to get it */
        {"reduce_mean", "axes 0;n_axes 1", {"float32 2 0 5 rand 0 1"}},
        {"reduce_max", "axes 1;n_axes 1", {"float32 2 5 0 rand 0 1"}},
        {"reduce_sum", "axes 0;n_axes 1", {"float32 2 5 0 rand 0 1"}},
        {"sum_to_like", NULL, {"float32 4 40 6 20 9 rand -1 2", "float32 3 6 1 9 rand 0 1"}},
        {"sum_to_like", NULL, {"float32 3 9 70 64 rand -1 2", "float32 1 64 rand 0 1"}},
        {"broadcast_like", NULL, {"float32 1 9 rand -1 2", "float32 2 400 9 rand 0 1"}},
        {"broadcast_like", NULL, {"float32 1 64 rand -1 2", "float32 2 300 64 rand 0 1"}},
        {"broadcast_like", NULL, {"float32 2 30 1 rand -1 2", "float32 2 30 64 rand 0 1"}},
        {"broadcast_like", NULL, {"float32 2 30 1 rand -1 2", "float32 2 30 7 rand 0 1"}},
        {"broadcast_like", NULL, {"float32 0 rand -1 2", "float32 2 333 7 rand 0 1"}},
        {"broadcast_like", NULL, {"float32 3 6 1 9 rand -1 2", "float32 4 20 6 10 9 rand 0 1"}},
        {"broadcast_like", NULL, {"bool 3 6 1 9 rand 0 1", "float32 4 5 6 10 9 rand 0 1"}},
        {"broadcast_like", NULL, {"int64 2 33 1 rand 0 99", "float32 2 33 101 rand 0 1"}},
        {"l2_loss", NULL, {"float32 2 300 301 rand -1 1"}},
        {"l2_loss", NULL, {"float32 2 0 301 rand -1 1"}},
        {"l2_loss", NULL, {"float32 1 16385 rand -1 1"}},
        {"global_norm", NULL, {"float32 2 300 101 rand -1 1", "float32 1 0 rand 0 1", "float32 1 17001 rand -1 1"}},
        {"zero_fraction", NULL, {"float32 2 300 101 rand -1 1 coarse"}},
    };
    RUN_WIDE_CASES(list);
}
TEST(wide_orders)
{
    static const wide_case list[] = {
        {"argmax", "axis 1", {"float32 2 3 5000 rand -1 1 coarse"}},
        {"argmax", "axis 1", {"float32 2 900 12 rand -1 1 coarse"}},
        {"argmax", "axis 1", {"float32 3 50 9 100 rand -1 1 coarse"}},
        {"argmax", "axis 0", {"int32 2 300 7 rand -5 5"}},
        {"argmax", "axis 1", {"int64 2 300 40 rand -5 5"}},
        {"cumsum", "axis 1;exclusive 0;reverse 0", {"float32 2 3 5000 rand -1 2"}},
        {"cumsum", "axis 1;exclusive 1;reverse 0", {"float32 2 3 1500 rand -1 2"}},
        {"cumsum", "axis 1;exclusive 0;reverse 1", {"float32 2 3 1500 rand -1 2"}},
        {"cumsum", "axis 0;exclusive 1;reverse 1", {"float32 2 1100 5 rand -1 2"}},
        {"cumsum", "axis 1;exclusive 0;reverse 1", {"float32 3 50 35 90 rand -1 2"}},
        {"cumsum", "axis 1;exclusive 1;reverse 0", {"int32 2 3 2500 rand -9 9"}},
        {"cumsum", "axis 1;exclusive 0;reverse 0", {"int64 2 500 7 rand -9 9"}},
        {"top_k", "k 3", {"float32 2 3 5000 rand -1 1 coarse"}},
        {"top_k", "k 5", {"float32 2 300 40 rand -1 1 coarse"}},
        {"top_k", "k 7", {"float32 2 300 40 rand -1 1"}},
        {"top_k", "k 40", {"float32 2 2 5000 rand -1 1 coarse"}}, /* sorted, in several pieces */
        {"top_k", "k 300", {"float32 2 2 5000 rand -1 1"}},
        {"top_k", "k 90", {"float32 2 7 90 rand -1 1 coarse"}},
        {"top_k", "k 50", {"float32 2 7 2048 rand -1 1 coarse"}},
        {"take_last", NULL, {"float32 2 30 500 rand -1 1", "int32 2 30 40 rand 0 499"}},
        {"put_last", NULL, {"float32 2 30 40 rand -1 1", "int32 2 30 40 rand 0 9", "float32 2 30 500 rand 0 1"}},
        {"put_last", NULL, {"float32 2 3 600 rand -1 1", "int32 2 3 600 rand 0 599", "float32 2 3 600 rand 0 1"}},
        {"in_top_k", "k 300", {"float32 2 300 1000 rand -1 1 coarse", "int64 1 300 rand -1 1000"}},
        {"in_top_k", "k 2", {"float32 2 900 10 rand -1 1 coarse", "int32 1 900 rand -1 10"}},
    };
    RUN_WIDE_CASES(list);
}
TEST(wide_rows)
{
    static const wide_case list[] = {
        {"softmax", NULL, {"float32 2 3001 10 rand -4 4"}},
        {"softmax", NULL, {"float32 3 7 30 100 rand -4 4"}},
        {"softmax", NULL, {"float32 2 70 101 rand -4 4"}},
        {"log_softmax", NULL, {"float32 2 70 500 rand -4 4"}},
        {"softmax", NULL, {"float32 2 33 333 rand -4 4"}},
        {"log_softmax", NULL, {"float32 2 33 1 rand -4 4"}},
        {"softmax", NULL, {"float32 2 9 1000 rand -4 4"}},
        {"log_softmax", NULL, {"float32 2 9 1001 rand -4 4"}},
        {"softmax", NULL, {"float32 2 9 4096 rand -4 4"}},
        {"softmax", NULL, {"float32 2 9 4095 rand -4 4"}},
        {"softmax", NULL, {"float32 2 9 5001 rand -90 90"}}, /* too long for registers */
        {"log_softmax", NULL, {"float32 2 9 5001 rand -90 90"}},
        {"sparse_softmax_cross_entropy", NULL, {"float32 2 3001 10 rand -4 4", "int32 1 3001 rand 0 9"}},
        {"sparse_softmax_cross_entropy", NULL, {"float32 2 70 100 rand -4 4", "int64 1 70 rand 0 99"}},
        {"sparse_softmax_cross_entropy", NULL, {"float32 2 9 1000 rand -4 4", "int64 1 9 rand 0 999"}},
        {"sparse_softmax_cross_entropy", NULL, {"float32 2 5 5001 rand -4 4", "int32 1 5 rand 0 5000"}},
        {"sparse_softmax_cross_entropy", NULL, {"float32 2 5 5001 rand -4 4", "int32 1 5 rand 5001 5001"}}, /* faults */
        {"sparse_softmax_cross_entropy", NULL, {"float32 2 70 10 rand -4 4", "int32 1 70 rand -1 -1"}},
        {"layer_norm",
         "epsilon 1e-5",
         {"float32 2 300 24 rand -1 3", "float32 1 24 rand 0 2", "float32 1 24 rand -1 1"}},
        {"layer_norm",
         "epsilon 1e-5",
         {"float32 2 90 128 rand -1 3", "float32 1 128 rand 0 2", "float32 1 128 rand -1 1"}},
        {"layer_norm",
         "epsilon 1e-5",
         {"float32 2 90 130 rand -1 3", "float32 1 130 rand 0 2", "float32 1 130 rand -1 1"}},
        {"layer_norm",
         "epsilon 1e-5",
         {"float32 2 30 512 rand -1 3", "float32 1 512 rand 0 2", "float32 1 512 rand -1 1"}},
        {"layer_norm",
         "epsilon 1e-5",
         {"float32 2 9 768 rand -1 3", "float32 1 768 rand 0 2", "float32 1 768 rand -1 1"}},
        {"layer_norm",
         "epsilon 1e-5",
         {"float32 2 9 777 rand -1 3", "float32 1 777 rand 0 2", "float32 1 777 rand -1 1"}},
        {"layer_norm",
         "epsilon 1e-5",
         {"float32 2 9 4000 rand -1 3", "float32 1 4000 rand 0 2", "float32 1 4000 rand -1 1"}},
        {"layer_norm",
         "epsilon 1e-5",
         {"float32 2 9 4099 rand -1 3", "float32 1 4099 rand 0 2", "float32 1 4099 rand -1 1"}},
#define LN_BACK(rows_, C_)                                                                                        \
    {                                                                                                             \
        "layer_norm_grad", "epsilon 1e-5",                                                                        \
        {                                                                                                         \
            "float32 2 " rows_ " " C_ " rand -1 1", "float32 2 " rows_ " " C_ " rand -1 3",                       \
                "float32 1 " C_ " rand 0 2", "float32 1 " rows_ " rand 0.8 1.2", "float32 1 " rows_ " rand 0.7 1" \
        }                                                                                                         \
    }
        LN_BACK("200", "20"),
        LN_BACK("700", "128"),
        LN_BACK("101", "99"),
        LN_BACK("90", "400"),
        LN_BACK("90", "401"),
        LN_BACK("33", "768"),
        LN_BACK("33", "767"),
        LN_BACK("33", "2048"),
        LN_BACK("17", "4095"),
        LN_BACK("40", "4099"),
        LN_BACK("0", "20"), /* no rows: dgamma and dbeta are 0 */
        LN_BACK("0", "4099"),
#undef LN_BACK
    };
    RUN_WIDE_CASES(list);
}
/* More tensors than one list of the kernel takes, and values whose squares are no floats. */
TEST(norm_of_many)
{
    tp_device *gpu = tp_cuda_open(0);
    if (!CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error())) return;
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x[300], *one = tp_placeholder(g, "x", TP_F32, tp_make_shape(3));
    float large[3] = {3e25f, -4e25f, 0};
    tp_feed feed;
    memset(&feed, 0, sizeof feed);
    feed.node = one;
    tp_tensor_view(&feed.value, TP_F32, tp_make_shape(3), large);
    for (int i = 0; i < 300; i++) x[i] = one;
    tp_node *y = tp_global_norm(x, 300);
    tp_session_config sc;
    memset(&sc, 0, sizeof sc);
    sc.devices = &gpu;
    sc.n_devices = 1;
    tp_session *s = tp_session_new(g, &sc);
    const tp_tensor *value;
    if (CHECK_MSG(s != NULL, "%s", tp_last_error()) && CHECK_OK(tp_session_run(s, &feed, 1, &y, 1, &value)))
        CHECK_NEAR(tp_tensor_get(value, 0), 5e25 * sqrt(300.0), 0, 1e-6);
    tp_session_free(s);
    tp_graph_free(g);
    gpu->close(gpu);
}

TEST_MAIN()
