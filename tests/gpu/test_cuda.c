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

static tp_precision precision; /* of products */

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
    sc.precision = precision;
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
    if (precision == TP_PRECISION_TF32 && dtype == TP_F32) return 2e-2; /* 10 bits of mantissa */
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
TEST(the_op_table_with_tf32)
{
    precision = TP_PRECISION_TF32;
    table_on(TP_F32, 300);
    precision = TP_PRECISION_F32;
}
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

/* ==== >>steps ========================================================================================= */
/* What a training step asks of the device once it has been run a few times. */

static struct {
    tp_device real; /* its functions */
    int allocs, frees, finds, records, replays, downloads;
} spy;

static void *spy_alloc(tp_device *d, size_t bytes)
{
    spy.allocs++;
    return spy.real.alloc(d, bytes);
}
static void spy_free(tp_device *d, void *p)
{
    spy.frees++;
    spy.real.free(d, p);
}
static tp_kernel_fn spy_find_kernel(tp_device *d, const char *op)
{
    spy.finds++;
    return spy.real.find_kernel(d, op);
}
static tp_status spy_download(tp_device *d, void *dst, const void *src, size_t bytes)
{
    spy.downloads++;
    return spy.real.download(d, dst, src, bytes);
}
static tp_status spy_record_begin(tp_device *d)
{
    spy.records++;
    return spy.real.record_begin(d);
}
static tp_status spy_replay(tp_device *d, void *recording)
{
    spy.replays++;
    return spy.real.replay(d, recording);
}
static void spy_on(tp_device *d)
{
    memset(&spy, 0, sizeof spy);
    spy.real = *d;
    d->alloc = spy_alloc;
    d->free = spy_free;
    d->find_kernel = spy_find_kernel;
    d->download = spy_download;
    if (d->record_begin) d->record_begin = spy_record_begin;
    if (d->replay) d->replay = spy_replay;
}

/* A small convolutional network with dropout, momentum and its cost. */
static void small_convnet(tp_graph *g, tp_node **x, tp_node **label, tp_node *fetch[2])
{
    const tp_tower_desc tower = {.is_training = true};
    int n = 0, n_update = 0;
    tp_grad_var gv[32];
    tp_node *all[32];
    *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(8, 8, 8, 1));
    *label = tp_placeholder(g, "label", TP_I32, tp_make_shape(8));
    tp_tower_enter(g, &tower);
    tp_node *l = tp_conv2d(*x, "conv0", .filters = 8, .kernel_size = 3, .activation = tp_bn_relu);
    l = tp_max_pooling(l, "pool0", .pool_size = 2);
    l = tp_conv2d(l, "conv1", .filters = 8, .kernel_size = 3, .activation = tp_relu);
    l = tp_dropout(tp_fully_connected(l, "fc0", .units = 16, .activation = tp_relu), "dropout", .rate = 0.5f);
    l = tp_fully_connected(l, "fc1", .units = 4);
    fetch[1] = tp_mean(tp_sparse_softmax_cross_entropy(l, *label));
    tp_node *const *vars = tp_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n);
    for (int i = 0; i < n; i++) all[i] = vars[i];
    tp_compute_gradients(fetch[1], all, n, gv);
    tp_node *const *update = tp_collection(g, TP_KEY_UPDATE_OPS, &n_update);
    for (int i = 0; i < n_update; i++) all[i] = update[i];
    all[n_update++] = tp_apply_gradients(tp_momentum(tp_const(g, 0.1f)), gv, n);
    fetch[0] = tp_group(g, all, n_update, "train_op");
    tp_tower_leave(g);
}

/* 21 steps; from the fifth on nothing is allocated, looked up or recorded, and each is one replay. cost: of every step. */
static void run_steps(tp_device *gpu, float cost[21])
{
    float pixel[8 * 64];
    int32_t digit[8];
    tp_node *x, *label, *fetch[2];
    tp_feed feed[2];
    const tp_tensor *value[2];
    tp_graph *g = tp_graph_new(NULL);
    small_convnet(g, &x, &label, fetch);
    tp_session_config sc = tp_default_session_config();
    sc.devices = &gpu;
    sc.n_devices = 1;
    tp_session *s = tp_session_new(g, &sc);
    memset(feed, 0, sizeof feed);
    feed[0].node = x;
    feed[1].node = label;
    tp_tensor_view(&feed[0].value, TP_F32, tp_make_shape(8, 8, 8, 1), pixel);
    tp_tensor_view(&feed[1].value, TP_I32, tp_make_shape(8), digit);
    tp_device original = *gpu;
    bool good = CHECK_MSG(s != NULL, "%s", tp_last_error());
    for (int step = 0; step <= 20 && good; step++) {
        for (int i = 0; i < 8 * 64; i++) pixel[i] = tp_random_uniform(7, (uint64_t)step, (uint64_t)i);
        for (int i = 0; i < 8; i++) digit[i] = (step + i) % 4;
        if (step == 5) {
            spy_on(gpu);
            tp_test_fail_after(0); /* counts */
        }
        good = CHECK_OK(tp_session_run(s, feed, 2, fetch, 2, value));
        if (good) cost[step] = *(const float *)value[1]->data;
    }
    if (good) {
        CHECK_MSG(tp_test_alloc_count() == 0, "16 steps allocate %ld times on the host", tp_test_alloc_count());
        CHECK_MSG(spy.allocs == 0 && spy.frees == 0, "16 steps allocate %d times on the GPU and free %d times",
                  spy.allocs, spy.frees);
        CHECK_MSG(spy.finds == 0, "16 steps look up %d kernels", spy.finds);
        CHECK_MSG(spy.records == 0, "16 steps are recorded %d times", spy.records);
        CHECK_MSG(spy.replays == 16, "16 steps are %d replays", spy.replays);
        CHECK_MSG(spy.downloads <= 3 * 16, "16 steps download %d times: the cost and a word of faults is enough",
                  spy.downloads);
    }
    tp_test_alloc_reset();
    *gpu = original; /* the functions; nothing else in it changes */
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(a_step_is_one_replay_and_allocates_nothing)
{
    float one[21] = {0}, two[21] = {0};
    tp_set_log(quiet, NULL);
    tp_device *gpu = tp_cuda_open(0);
    if (CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error())) {
        run_steps(gpu, one);
        run_steps(gpu, two);
        CHECK(one[0] > 0.5f && one[0] < 5);
        CHECK_MSG(memcmp(one, two, sizeof one) == 0, "a second training has other costs");
        gpu->close(gpu);
    }
    tp_set_log(NULL, NULL);
}

TEST_MAIN()
