/* Every row of the op table on the GPU against the CPU's naive loops: the cases of test_ops.c. Linked with tp_cuda.cu, which
 * nvcc compiled, or a C++ compiler against the shim of CUDA in tests/gpu/shim. TP_CUDA_OPS="conv2d max_pool" runs these
 * rows only. */
#define TP_IMPLEMENTATION
#include "tp_layers.h"
#include "tp_train.h"
#include "../tp_test.h"
#include "../op_cases.h"
#include "../op_build.h"
#ifdef TP_CUDA_SHIM
#include "tp_shim.h"
#include <dlfcn.h>
#endif

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
    const bool steps =
        strncmp(c->op, "lstm", 4) == 0 || strncmp(c->op, "gru", 3) == 0 || strncmp(c->op, "attention", 9) == 0;
    const double half_slack = steps ? 2 : 1; /* the CPU does not round what is between its products */
    const double tol = c->tol > 0 ? c->tol : 1e-5;
    if (precision == TP_PRECISION_TF32 && dtype == TP_F32) return 2e-2; /* 10 bits of mantissa */
    return dtype == TP_F64    ? 1e-9
           : dtype == TP_BF16 ? 2e-2 * half_slack
           : dtype == TP_F16  ? 3e-3 * half_slack
           : tol > 1e-5       ? tol
                              : 1e-5;
}

/* On the CPU's stand-in, which is slow, a case is not repeated in every type: how steps are recorded does not depend on it. And TF32
 * changes products only. */
#ifdef TP_CUDA_SHIM
static bool repeated(tp_dtype dtype) { return (dtype == TP_F32 && precision != TP_PRECISION_TF32) || dtype == TP_BF16; }
static bool tried(const tp_op *row)
{
    static const char *const product[] = {"matmul", "conv", "lstm", "gru", "attention"};
    for (int i = 0; i < TP_COUNT(product); i++)
        if (strstr(row->name, product[i])) return true;
    return precision != TP_PRECISION_TF32;
}
#else
static bool repeated(tp_dtype dtype) { return (void)dtype, true; }
static bool tried(const tp_op *row) { return (void)row, true; }
#endif

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
            if (c->n_var == 0 && repeated(dtype) &&
                run_on(&as, row, f64, gpu, 3, &two) && /* again, the last time from a recording */
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
            if (row && wanted(c->op) && tried(row)) compare_devices(c, row, dtype, gpu, &n);
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
    table_on(TP_F32, 30);
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

/* LSTM, GRU and attention over the picture's rows. */
static void small_sequences(tp_graph *g, tp_node **x, tp_node **label, tp_node *fetch[2])
{
    int n = 0;
    tp_grad_var gv[32];
    tp_rnn_state last;
    memset(&last, 0, sizeof last);
    *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(8, 8, 8, 1));
    *label = tp_placeholder(g, "label", TP_I32, tp_make_shape(8));
    tp_node *l = tp_lstm(tp_reshape_to(*x, tp_make_shape(8, 8, 8)), "lstm", .units = 8, .state = &last), *both[2];
    l = tp_gru(l, "gru", .units = 8);
    l = tp_multi_head_attention(l, "attention", .heads = 2, .causal = TP_YES);
    both[0] = tp_batch_flatten(l), both[1] = tp_add(last.h, last.c);
    l = tp_fully_connected(tp_concat(both, 2, 1), "fc", .units = 4);
    fetch[1] = tp_mean(tp_sparse_softmax_cross_entropy(l, *label));
    tp_node *const *vars = tp_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n);
    tp_compute_gradients(fetch[1], vars, n, gv);
    fetch[0] = tp_apply_gradients(tp_momentum(tp_const(g, 0.1f)), gv, n);
}

/* A block whose batch norm adds the shortcut and does the ReLU, and one whose gradient of batch norm adds the shortcut's. */
static void small_residual(tp_graph *g, tp_node **x, tp_node **label, tp_node *fetch[2])
{
    const tp_tower_desc tower = {.is_training = true};
    int n = 0;
    tp_grad_var gv[32];
    *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(8, 8, 8, 1));
    *label = tp_placeholder(g, "label", TP_I32, tp_make_shape(8));
    tp_tower_enter(g, &tower);
    tp_node *first = tp_conv2d(*x, "conv0", .filters = 8, .kernel_size = 3), *l;
    l = tp_batch_norm(tp_conv2d(first, "conv1", .filters = 8, .kernel_size = 3, .use_bias = TP_NO), "bn1");
    first = tp_relu(tp_add(l, first));
    l = tp_relu(tp_group_norm(tp_relu(tp_batch_norm(first, "bn2")), "gn", .groups = 2));
    l = tp_add(tp_conv2d(l, "conv2", .filters = 8, .kernel_size = 3, .use_bias = TP_NO), first);
    l = tp_fully_connected(tp_global_avg_pooling(l, "pool"), "fc", .units = 4);
    fetch[1] = tp_mean(tp_sparse_softmax_cross_entropy(l, *label));
    tp_node *const *vars = tp_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n);
    tp_compute_gradients(fetch[1], vars, n, gv);
    fetch[0] = tp_apply_gradients(tp_momentum(tp_const(g, 0.1f)), gv, n);
    tp_tower_leave(g);
}

typedef void (*small_net)(tp_graph *g, tp_node **x, tp_node **label, tp_node *fetch[2]);
/* Costs of some steps on a device, NULL: the CPU. one_by_one: no step is recorded. */
static bool train_costs(small_net net, tp_device *device, tp_precision how, int steps, bool one_by_one, float *cost)
{
    float pixel[8 * 64];
    int32_t digit[8];
    tp_node *x, *label, *fetch[2];
    tp_feed feed[2];
    const tp_tensor *value[2];
    tp_graph *g = tp_graph_new(NULL);
    net(g, &x, &label, fetch);
    tp_session_config sc = tp_default_session_config();
    sc.threads = 1;
    sc.precision = how;
    if (device) sc.devices = &device, sc.n_devices = 1;
    tp_session *s = tp_session_new(g, &sc);
    memset(feed, 0, sizeof feed);
    feed[0].node = x;
    feed[1].node = label;
    tp_tensor_view(&feed[0].value, TP_F32, tp_make_shape(8, 8, 8, 1), pixel);
    tp_tensor_view(&feed[1].value, TP_I32, tp_make_shape(8), digit);
    bool good = CHECK_MSG(s != NULL, "%s", tp_last_error());
    if (good) tp_exec_set_timing(tp_session_exec(s), one_by_one);
    for (int step = 0; step < steps && good; step++) {
        for (int i = 0; i < 8 * 64; i++) pixel[i] = tp_random_uniform(9, (uint64_t)step, (uint64_t)i);
        for (int i = 0; i < 8; i++) digit[i] = (step + i) % 4;
        good = CHECK_OK(tp_session_run(s, feed, 2, fetch, 2, value));
        if (good) cost[step] = *(const float *)value[1]->data;
    }
    if (good && device && net == small_residual) {
        tp_buf plan;
        memset(&plan, 0, sizeof plan);
        CHECK_OK(tp_exec_print_plan(tp_session_exec(s), fetch, 2, &plan));
        CHECK_MSG(strstr(plan.data, "bn1/FusedBatchNorm [sum]"), "no batch norm adds: %s", plan.data);
        CHECK_MSG(strstr(plan.data, "gn/GroupNorm [batch norm, ReLU]"), "no group norm has a ReLU: %s", plan.data);
        CHECK_MSG(how > TP_PRECISION_TF32 || strstr(plan.data, "GroupNormGrad [mask, batch norm]"),
                  "no gradient of a group norm masks: %s", plan.data);
        CHECK_MSG(how > TP_PRECISION_TF32 || strstr(plan.data, "FusedBatchNormGrad [mask, batch norm; sum]"),
                  "no gradient of a batch norm adds: %s", plan.data);
        tp_buf_free(&plan);
    }
    tp_session_free(s);
    tp_graph_free(g);
    return good;
}

TEST(training_follows_the_cpu_in_every_precision)
{
    static const double tolerance[] = {1e-4, 1e-2, 3e-2, 3e-3};
    tp_set_log(quiet, NULL);
    tp_device *gpu = tp_cuda_open(0);
    if (CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error()))
        for (int which = 0; which < 3 * 4; which++) {
            const int how = which % 4;
            const small_net net = which < 4 ? small_convnet : which < 8 ? small_sequences : small_residual;
            if (net == small_residual && how % 2) continue; /* float32 and bfloat16 suffice */
            float cpu[8] = {0}, one[8] = {0}, two[8] = {0};
            /* the steps of a recording run in another order than they are queued, and have the same bits */
            if (!train_costs(net, NULL, (tp_precision)how, 8, false, cpu) ||
                !train_costs(net, gpu, (tp_precision)how, 8, false, one) ||
                !train_costs(net, gpu, (tp_precision)how, 8, true, two))
                continue;
#ifdef TP_CUDA_SHIM
            long nodes, longest;
            tp_shim_graph_shape(&nodes, &longest);
            CHECK_MSG(longest < nodes * 9 / 10, "of %ld recorded kernels %ld run one after the other", nodes, longest);
#endif
            for (int i = 0; i < (how < (int)TP_PRECISION_BF16 ? 8 : 4); i++) /* a rounded bit more or less grows */
                CHECK_MSG(fabs((double)one[i] - (double)cpu[i]) <= tolerance[how] * fabs((double)cpu[i]) * (1 + i),
                          "precision %d, step %d: cost %g, on the CPU %g", how, i, (double)one[i], (double)cpu[i]);
            CHECK_MSG(memcmp(one, two, sizeof one) == 0, "precision %d: a recorded training has other costs", how);
        }
    if (gpu) gpu->close(gpu);
    tp_set_log(NULL, NULL);
}

/* Two GPUs, a part of the network on each: values travel between them, and the sum over both has the same bits on both. */
TEST(two_gpus_in_one_step)
{
    if (tp_cuda_count() < 2) TEST_SKIP("this machine has fewer than two GPUs");
    tp_set_log(quiet, NULL);
    tp_device *gpu[2] = {tp_cuda_open(0), tp_cuda_open(1)};
    double got[2][3] = {{0}};
    for (int on_gpu = 0; on_gpu < 2 && gpu[0] && gpu[1]; on_gpu++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_device *cpu[2] = {NULL, NULL};
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(6, 5)), *h[2], *sum[2];
        for (int i = 0; i < 2; i++) {
            tp_device_enter(g, i);
            tp_node *w = tp_get_variable_as(g, i ? "w1" : "w0", TP_F32, tp_make_shape(5, 4), tp_init_normal(0, 1));
            h[i] = tp_tanh(tp_matmul(x, w));
            tp_device_leave(g);
        }
        tp_all_reduce(h, 2, true, sum);
        tp_node *fetch[3] = {tp_sum(sum[0]), tp_sum(sum[1]), tp_sum(tp_mul(h[0], h[1]))};
        float v[30];
        for (int i = 0; i < 30; i++) v[i] = tp_random_uniform(3, 1, (uint64_t)i);
        tp_feed feed;
        memset(&feed, 0, sizeof feed);
        feed.node = x;
        tp_tensor_view(&feed.value, TP_F32, tp_make_shape(6, 5), v);
        tp_session_config sc = tp_default_session_config();
        if (!on_gpu) CHECK_OK(tp_cpu_devices_new(2, 1, "naive", cpu));
        sc.devices = on_gpu ? gpu : cpu;
        sc.n_devices = 2;
        tp_session *s = tp_session_new(g, &sc);
        const tp_tensor *value[3];
        for (int run = 0; run < 3 && CHECK(s != NULL); run++)
            if (CHECK_OK(tp_session_run(s, &feed, 1, fetch, 3, value)))
                for (int i = 0; i < 3; i++) got[on_gpu][i] = tp_tensor_get(value[i], 0);
        tp_session_free(s);
        tp_graph_free(g);
        for (int i = 0; i < 2 && cpu[i]; i++) cpu[i]->close(cpu[i]);
    }
    if (CHECK_MSG(gpu[0] && gpu[1], "%s", tp_last_error())) {
        CHECK(got[1][0] == got[1][1]);
        for (int i = 0; i < 3; i++) CHECK_NEAR(got[1][i], got[0][i], 1e-5, 1e-5);
    }
    for (int i = 0; i < 2; i++)
        if (gpu[i]) gpu[i]->close(gpu[i]);
    tp_set_log(NULL, NULL);
}

/* A plan of two GPUs with a print, which runs on the host: the kernels before and after it are recorded. */
TEST(two_gpus_and_a_print_are_recorded)
{
    if (tp_cuda_count() < 2) TEST_SKIP("this machine has fewer than two GPUs");
    tp_set_log(quiet, NULL);
    tp_device *gpu[2] = {tp_cuda_open(0), tp_cuda_open(1)};
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(6, 5)), *h[2];
    for (int i = 0; i < 2; i++) {
        tp_device_enter(g, i);
        tp_node *w = tp_get_variable_as(g, i ? "w1" : "w0", TP_F32, tp_make_shape(5, 4), tp_init_normal(0, 1));
        h[i] = tp_tanh(tp_matmul(x, w));
        if (i == 0) h[i] = tp_print(h[i], "h0");
        tp_device_leave(g);
    }
    static const float v[30] = {1, 2, 3};
    const tp_feed feed = tp_make_feed(x, TP_F32, tp_make_shape(6, 5), v);
    tp_session_config sc = tp_default_session_config();
    sc.devices = gpu;
    sc.n_devices = 2;
    tp_session *s = gpu[0] && gpu[1] ? tp_session_new(g, &sc) : NULL;
    for (int run = 0; run < 3 && CHECK_MSG(s != NULL, "%s", tp_last_error()); run++) {
        const tp_tensor *value[2];
        CHECK_OK(tp_session_run(s, &feed, 1, h, 2, value));
    }
    tp_plan_info info;
    if (s && CHECK_OK(tp_exec_plan_info(tp_session_exec(s), h, 2, &info))) CHECK(info.recorded);
    tp_session_free(s);
    tp_graph_free(g);
    for (int i = 0; i < 2; i++)
        if (gpu[i]) gpu[i]->close(gpu[i]);
    tp_set_log(NULL, NULL);
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
        {"conv2d", "padding 1", {"float32 4 0 9 9 8" R1, "float32 4 3 3 8 12" R1}, 0},
        {"conv2d_filter_grad",
         "padding 1",
         {"float32 4 0 9 9 8" R1, "float32 4 0 9 9 12" R1, "float32 4 3 3 8 12" R1},
         0},
    };
    compare_shaped(list, (int)(sizeof list / sizeof *list), all_reals, 4);
}

/* The kernel for short chains: element-wise ops whose operands have one shape, of a multiple of eight elements. Some sizes fill all
 * threads, others leave the last ones without work. */
#define MAP1(op_, attrs_, n_, from_to_)                     \
    {                                                       \
        op_, attrs_, {"float32 1 " n_ " rand " from_to_}, 0 \
    }
#define MAP2(op_, attrs_, n_, from_to_)                                                        \
    {                                                                                          \
        op_, attrs_, {"float32 1 " n_ " rand " from_to_, "float32 1 " n_ " rand " from_to_}, 0 \
    }
TEST(short_chains)
{
    static const shaped list[] = {
        MAP2("add", "", "8", "-1 1"),          MAP2("sub", "", "4104", "-1 1"),
        MAP2("mul", "", "65544", "-1 1"),      MAP2("div", "", "2056", "1 2"),
        MAP2("maximum", "", "24", "-1 1"),     MAP2("squared_difference", "", "520", "-1 1"),
        MAP2("relu_grad", "", "3080", "-1 1"), MAP2("elu_grad", "", "1000", "-1 1"),
        MAP1("relu", "", "2048", "-1 1"),      MAP1("exp", "", "4096", "-1 1"),
        MAP1("sqrt", "", "80", "0 1"),         MAP1("tanh", "", "136", "-2 2"),
        MAP1("erf", "", "264", "-2 2"),        MAP1("sigmoid", "", "8", "-2 2"),
        MAP1("abs", "", "16", "-1 1"),         MAP1("neg", "", "160", "-1 1"),
    };
    compare_shaped(list, (int)(sizeof list / sizeof *list), all_reals, 4);
}

/* Convolutions of few channels, which have kernels of their own: tiles with odd ends in each dimension, channels that are loaded one at
 * a time, several pieces of a filter gradient. In half precision these kernels compute only the forward pass of up to seven channels. */
static const shaped few_channels[] = {
    CONV("padding 1", "2 8 11 16", "3 3 16 16", "2 8 11 16"),
    CONV("padding 1", "1 9 10 16", "3 3 16 20", "1 9 10 20"),
    CONV("padding 1;stride_h 2;stride_w 2", "1 12 9 16", "3 3 16 36", "1 6 5 36"),
    CONV("padding 1;stride_h 1;stride_w 3", "2 7 13 5", "2 4 5 7", "2 7 5 7"),
    CONV("padding 1;stride_h 2;stride_w 1", "2 7 5 12", "2 3 12 8", "2 4 5 8"),
    CONV("padding 2;stride_h 2;stride_w 2", "2 1 7 8", "1 2 8 12",
         "2 1 3 12"), /* taps for some pixels of dx only, one row */
    CONV("padding 2;dilation_h 2;dilation_w 3", "2 13 15 6", "3 2 6 9", "2 9 12 9"),
    CONV("padding 1", "2 12 11 4", "3 3 4 68", "2 12 11 68"), /* two tiles of 64 columns, pieces */
    CONV("padding 2", "1 5 5 33", "2 2 33 40", "1 4 4 40"),   /* less than a tile of pixels */
    CONV("padding 1;stride_h 2;stride_w 2", "2 11 14 3", "7 7 3 24",
         "2 6 7 24"), /* three channels are loaded one at a time */
    CONV("padding 1", "2 9 9 1", "3 3 1 32", "2 9 9 32"),
    /* patches of the image in shared memory: 8 and 16 pixels wide, tiles of 16 and 32 channels, one to three parts of 16 channels */
    CONV("padding 1", "1 7 8 48", "3 3 48 16", "1 7 8 16"),
    CONV("padding 2", "1 10 19 16", "3 3 16 48", "1 8 17 48"),
    CONV("padding 1", "4 8 3 32", "3 3 32 64", "4 8 3 64"),
    /* other filters of as many channels */
    CONV("padding 1", "4 8 3 32", "3 1 32 64", "4 8 3 64"),
    CONV("padding 2", "1 10 19 16", "2 3 16 48", "1 9 17 48"),
};
enum { N_FEW_CHANNELS = (int)(sizeof few_channels / sizeof *few_channels) };
TEST(few_channels_by_tensor_cores)
{
    precision = TP_PRECISION_TF32;
    compare_shaped(few_channels, N_FEW_CHANNELS, all_reals, 1);
    precision = TP_PRECISION_F32;
}
/* Batches with so many patches that the kernel uses tiles of 32 channels and a block computes several patches. The stand-in gets a single
 * multiprocessor for this test, so that a small batch is enough. */
TEST(patches_for_many_blocks)
{
#ifdef TP_CUDA_SHIM
#define MANY "7"
    tp_shim_set_processors(1);
#else
#define MANY "1100"
#endif
    static const shaped list[] = {
        CONV("padding 2", MANY " 3 3 16", "3 3 16 64", MANY " 1 1 64"),
        CONV("padding 1", MANY " 1 9 32", "3 3 32 64", MANY " 1 9 64"),
        CONV("padding 1", MANY " 9 8 48", "3 3 48 16", MANY " 9 8 16"),
    };
    precision = TP_PRECISION_TF32;
    compare_shaped(list, (int)(sizeof list / sizeof *list), all_reals, 1);
    precision = TP_PRECISION_F32;
#ifdef TP_CUDA_SHIM
    tp_shim_set_processors(132);
#endif
}
TEST(few_channels_in_half_precision)
{
    static const tp_dtype halves[] = {TP_BF16, TP_F16};
    compare_shaped(few_channels, N_FEW_CHANNELS, halves, 2);
}

/* Computes y on the CPU and, in this precision, on the GPU, and compares the values. info: what the two plans are, the CPU's first. */
static void compare_runs(tp_graph *g, tp_node *y, tp_device *gpu, tp_device *cpu, tp_precision precise, double absolute,
                         double relative, tp_plan_info info[2])
{
    tp_tensor want;
    memset(info, 0, 2 * sizeof *info);
    memset(&want, 0, sizeof want);
    for (int on_gpu = 0; on_gpu < 2; on_gpu++) {
        tp_session_config sc = tp_default_session_config();
        const tp_tensor *value;
        sc.devices = on_gpu ? &gpu : &cpu;
        sc.n_devices = 1;
        if (on_gpu) sc.precision = precise;
        tp_session *s = tp_session_new(g, &sc);
        if (CHECK_OK(tp_session_run(s, NULL, 0, &y, 1, &value))) {
            CHECK_OK(tp_exec_plan_info(tp_session_exec(s), &y, 1, &info[on_gpu]));
            if (!on_gpu) CHECK_OK(tp_tensor_copy(&want, value));
            for (int64_t e = 0; e < tp_tensor_size(value); e++)
                CHECK_NEAR(tp_tensor_get(value, e), tp_tensor_get(&want, e), absolute, relative);
        }
        tp_session_free(s);
    }
    tp_tensor_free(&want);
}

/* The bias and the ReLU that the planner fuses into products and convolutions, on each way that these are made. */
TEST(bias_and_relu_in_the_same_kernel)
{
    static const int64_t filter[3][4] = {{1, 1, 8, 12}, {3, 3, 8, 12}, {3, 3, 1, 8}};
    tp_set_log(quiet, NULL);
    tp_device *gpu = tp_cuda_open(0), *cpu = tp_cpu_device_new(1, "naive");
    for (int i = 0; i < 10 && CHECK_MSG(gpu && cpu, "no GPU: %s", tp_last_error()); i++) {
        const bool relu = i & 1, tiles = i / 2 == 4, product = i / 2 == 3;
        const double tol = tiles ? 2e-2 : 1e-4;
        tp_graph *g = tp_graph_new(NULL);
        tp_conv2d_attrs a;
        memset(&a, 0, sizeof a);
        a.groups = i / 2 == 2 ? 8 : 1;
        const tp_shape wide = product ? tp_make_shape(65, 12) : tp_make_shape_n(4, filter[tiles ? 1 : i / 2]);
        const tp_shape wide_x = product ? tp_make_shape(37, 65) : tp_make_shape(2, 9, 9, 8);
        tp_node *x = tp_get_variable_as(g, "x", TP_F32, wide_x, tp_init_normal(0, 1));
        tp_node *w = tp_get_variable_as(g, "w", TP_F32, wide, tp_init_normal(0, 1));
        tp_node *b = tp_get_variable_as(g, "b", TP_F32, tp_make_shape(wide.dim[wide.ndim - 1]), tp_init_normal(0, 1));
        tp_node *y = tp_nn_bias_add(product ? tp_matmul(x, w) : tp_nn_conv2d(x, w, &a), b, 0);
        if (relu) y = tp_relu(y);
        tp_plan_info info[2];
        compare_runs(g, y, gpu, cpu, tiles ? TP_PRECISION_TF32 : TP_PRECISION_F32, tol, tol, info);
        for (int k = 0; k < 2; k++)
            CHECK_MSG(info[k].n_fused == 1 + relu, "case %d: %d ops were fused", i, info[k].n_fused);
        tp_graph_free(g);
    }
    if (gpu) gpu->close(gpu);
    if (cpu) cpu->close(cpu);
    tp_set_log(NULL, NULL);
}

/* A convolution by tiles or patches adds the value that the planner gives it; a product does not, nor does cuDNN. */
TEST(a_sum_in_the_convolution)
{
    static const struct {
        int64_t x[4], w[4];
        int stride, n_steps; /* of the plan: two convolutions, and the sum unless it is fused */
        tp_precision precision;
    } list[] = {
        {{3, 9, 17, 16}, {3, 3, 16, 32}, 1, 2, TP_PRECISION_TF32}, /* patches */
        {{3, 9, 8, 32}, {3, 3, 32, 16}, 1, 2, TP_PRECISION_TF32},  /* pairs of patches */
        {{2, 9, 7, 16}, {3, 3, 16, 16}, 2, 2, TP_PRECISION_TF32},  /* tiles */
        {{2, 9, 7, 5}, {3, 2, 5, 7}, 1, 2, TP_PRECISION_TF32},     /* tiles of an odd width */
        {{2, 9, 7, 16}, {1, 1, 16, 16}, 1, 3, TP_PRECISION_TF32},  /* 1 x 1: a matrix product */
        {{2, 9, 7, 16}, {3, 3, 16, 16}, 1, 3, TP_PRECISION_F32},   /* cuDNN */
    };
    tp_set_log(quiet, NULL);
    tp_device *gpu = tp_cuda_open(0), *cpu = tp_cpu_device_new(1, "naive");
    for (int i = 0; i < (int)(sizeof list / sizeof *list) && CHECK_MSG(gpu && cpu, "no GPU: %s", tp_last_error());
         i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_conv2d_attrs a;
        memset(&a, 0, sizeof a);
        a.stride_h = a.stride_w = list[i].stride;
        tp_node *x = tp_get_variable_as(g, "x", TP_F32, tp_make_shape_n(4, list[i].x), tp_init_normal(0, 1));
        tp_node *v = tp_get_variable_as(g, "v", TP_F32, tp_make_shape_n(4, list[i].x), tp_init_normal(0, 4));
        tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape_n(4, list[i].w), tp_init_normal(0, 1));
        tp_node *other = tp_nn_conv2d(v, w, &a), *y = tp_add(tp_nn_conv2d(x, w, &a), other);
        tp_plan_info info[2];
        compare_runs(g, y, gpu, cpu, list[i].precision, 2e-1, 1e-2, info);
        CHECK_MSG(info[1].n_steps == list[i].n_steps, "case %d: %d steps", i, info[1].n_steps);
        tp_graph_free(g);
    }
    if (gpu) gpu->close(gpu);
    if (cpu) cpu->close(cpu);
    tp_set_log(NULL, NULL);
}

#ifdef TP_CUDA_SHIM
static int warnings; /* of what the libraries refuse */
static void count_warnings(void *user, tp_log_level level, const char *message)
{
    (void)user;
    warnings += level == TP_LOG_WARN && (strstr(message, "cuBLASLt has no") || strstr(message, "cuDNN has no"));
}
/* Where cuDNN does not take NHWC it gets NCHW, where it takes neither a kernel of ours does it; each is said. */
TEST(convolutions_that_cudnn_refuses)
{
    static const shaped list[] = {
        CONV("stride_h 2;padding 1", "3 9 8 9", "3 2 9 12", "3 5 8 12"),
        CONV("padding 1;groups 2", "2 6 7 8", "4 3 4 6", "2 6 7 6"),
    };
    for (int refused = 1; refused < 3; refused++) {
        tp_device *gpu = tp_cuda_open(0);
        if (!CHECK(gpu != NULL)) return;
        tp_shim_refuse_convolutions(refused);
        tp_set_log(count_warnings, NULL);
        warnings = 0;
        for (int i = 0; i < TP_COUNT(list); i++) {
            op_case c;
            int n = 0;
            if (CHECK(shaped_case(&list[i], i, &c)))
                for (int d = 0; d < 3; d++) compare_devices(&c, tp_op_find(list[i].op), all_reals[d], gpu, &n);
            CHECK(n == 3);
            free_case_as(&c);
        }
        /* NHWC is refused once for each case and type, and NCHW in the second round, in which NHWC was said already */
        CHECK_MSG(warnings == 3 * TP_COUNT(list), "%d warnings", warnings);
        tp_shim_refuse_convolutions(0);
        gpu->close(gpu);
        tp_set_log(NULL, NULL);
    }
}
#endif

TEST(depthwise_convolutions_across_blocks)
{
    static const shaped list[] = {
        CONV("padding 1;groups 40", "2 11 13 40", "3 3 1 40", "2 11 13 40"), /* fours; two tiles, many pieces */
        CONV("padding 1;groups 12;stride_h 2;stride_w 2", "2 10 13 12", "3 3 1 12", "2 5 7 12"),
        CONV("padding 2;groups 8;dilation_h 2", "2 14 9 8", "5 5 1 8", "2 6 5 8"), /* 25 taps in three passes */
        CONV("padding 1;groups 33", "2 9 8 33", "3 3 1 33", "2 9 8 33"),           /* no fours */
        CONV("padding 1;groups 5", "2 9 11 5", "3 3 1 10", "2 9 11 10"),           /* two filters a channel */
        CONV("padding 1;groups 2;data_format 2", "3 2 23 21", "3 3 1 2", "3 2 23 21"),
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
        POOL("size_h 3;size_w 3;stride_h 1;stride_w 1;padding 1", "2 6 8 12", "2 6 8 12",
             "0 11"), /* places outside too */
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
        NORM("-1", "4 3 19 11 64", "64"), /* several pieces of rows */
        NORM("-1", "2 140 132", "132"),   /* two tiles of fours, the second nearly empty */
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
        char name[16];
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
/* Channels last and first, all or few channels in a group, one piece and several, no samples; axes in the middle. */
TEST(group_norms)
{
#define GN(shape_, axis_, groups_, C_, stat_)                                                                \
    {"group_norm",                                                                                           \
     "axis " axis_ ";groups " groups_ ";epsilon 1e-5",                                                       \
     {"float32 " shape_ " rand -1 3", "float32 1 " C_ " rand -1 2", "float32 1 " C_ " rand -1 1"}},          \
    {                                                                                                        \
        "group_norm_grad", "axis " axis_ ";groups " groups_ ";epsilon 1e-5",                                 \
        {                                                                                                    \
            "float32 " shape_ " rand -1 1", "float32 " shape_ " rand -1 3", "float32 1 " C_ " rand -1 2",    \
                "float32 2 " stat_ " " groups_ " rand 0.8 1.2", "float32 2 " stat_ " " groups_ " rand 0.7 1" \
        }                                                                                                    \
    }
    static const wide_case list[] = {
        GN("4 3 14 14 24", "3", "4", "24", "3"),   GN("4 2 7 9 17", "3", "1", "17", "2"),
        GN("4 2 5 5 70", "3", "70", "70", "2"),    GN("4 1 90 80 8", "3", "2", "8", "1"),
        GN("4 3 6 20 20", "1", "3", "6", "3"),     GN("4 2 4 7 9", "1", "1", "4", "2"),
        GN("3 2 5 3001", "1", "5", "5", "2"),      GN("4 2 3 8 12", "2", "4", "8", "2"),
        GN("3 2 300 64", "2", "32", "64", "2"),    GN("4 0 5 5 6", "3", "2", "6", "0"),
        GN("4 40 1 1 130", "3", "2", "130", "40"), GN("4 3 70 2 2", "1", "7", "70", "3"),
    };
#undef GN
    RUN_WIDE_CASES(list);
}
/* An element that is far from all others, the first one of a large plane. */
TEST(group_norm_of_an_outlier)
{
    tp_device *gpu = tp_cuda_open(0);
    if (!CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error())) return;
    for (int how = 0; how < 2; how++) { /* channels first, channels last */
        const tp_shape shape = how ? tp_make_shape(1, 40000, 2) : tp_make_shape(1, 2, 40000);
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, shape), *one = tp_placeholder(g, "one", TP_F32, tp_make_shape(2));
        tp_node *y = tp_nn_group_norm(x, one, one, how ? 2 : 1, 1, 1e-5f);
        const float ones[2] = {1, 1};
        static float v[80000];
        double mean = 0, squares = 0;
        for (int i = 0; i < 80000; i++) v[i] = tp_random_uniform(1, 2, (uint64_t)i) - 0.5f;
        v[0] = 1e4f;
        for (int i = 0; i < 80000; i++) mean += (double)v[i] / 80000;
        for (int i = 0; i < 80000; i++) squares += ((double)v[i] - mean) * ((double)v[i] - mean) / 80000;
        tp_feed feed[2];
        memset(feed, 0, sizeof feed);
        feed[0].node = x, feed[1].node = one;
        tp_tensor_view(&feed[0].value, TP_F32, shape, v);
        tp_tensor_view(&feed[1].value, TP_F32, one->shape, ones);
        tp_session_config sc;
        memset(&sc, 0, sizeof sc);
        sc.devices = &gpu;
        sc.n_devices = 1;
        tp_session *s = tp_session_new(g, &sc);
        tp_node *fetch[2] = {&y->op->out[1], &y->op->out[2]};
        const tp_tensor *value[2];
        if (CHECK_MSG(s != NULL, "%s", tp_last_error()) && CHECK_OK(tp_session_run(s, feed, 2, fetch, 2, value))) {
            CHECK_NEAR(tp_tensor_get(value[0], 0), mean, 0, 1e-4);
            CHECK_NEAR(tp_tensor_get(value[1], 0), 1 / sqrt(squares + 1e-5), 0, 1e-5);
        }
        tp_session_free(s);
        tp_graph_free(g);
    }
    gpu->close(gpu);
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
    tp_node *last[3] = {feed[0].node, feed[1].node, tp_rand_uniform(g, tp_make_shape(9), 0.0f, 1.0f)};
    both_fail(tp_apply(g, tp_op_find("put_last"), last, 3, NULL), feed, 2, "index -4 is outside the last axis");
    last[0] = last[2];
    both_fail(tp_apply(g, tp_op_find("take_last"), last, 2, NULL), feed + 1, 1, "index -4 is outside the last axis");
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
    enum { DESCENT, MOMENTUM, ADAM, RMSPROP, ADAGRAD, ADADELTA, FTRL, LAMB, LION, RMSPROP_CENTERED, KINDS };
    for (int kind = DESCENT; kind < KINDS; kind++)
        for (int way = 0; way < 3; way++) { /* plain; with all options; with a predicate that is false */
            if (way == 2 && kind % 3 != 0) continue;
            twins t;
            tp_node *var[80], *slot[3][80], *grad[80], *y = NULL;
            twins_begin(&t);
            for (int i = 0; i < n; i++) {
                const int64_t size = i == 3 ? 9001 : i == 5 ? 4096 : i == n - 1 ? 4097 : i == 7 ? 0 : 1 + i % 9;
                var[i] = twin_var(&t, "w", i, dtype, size, -1, 1);
                for (int s = 0; s < 3; s++) {
                    char name[16];
                    snprintf(name, sizeof name, "s%d_", s);
                    slot[s][i] = twin_var(&t, name, i, dtype, size, s == 1 && kind == FTRL ? -0.5f : 0.1f, 0.9f);
                }
                if (kind == RMSPROP_CENTERED) slot[2][i] = twin_var(&t, "mg", i, dtype, size, -0.1f, 0.1f);
                grad[i] = twin_in(&t, dtype, tp_make_shape(size), -0.5, 0.5);
            }
            if (kind <= MOMENTUM && n > 9) { /* one after the other; the CPU converts halves once for all */
                var[2] = var[0], slot[0][2] = slot[0][0];
                grad[2] = grad[0];
            }
            tp_node *lr = twin_in(&t, dtype, tp_make_shape_n(0, NULL), 0.0625, 0.0625),
                    *p1 = twin_in(&t, dtype, tp_make_shape_n(0, NULL), 0.75, 0.75),
                    *p2 = twin_in(&t, dtype, tp_make_shape_n(0, NULL), 0.5, 0.5),
                    *pred = way == 0 ? NULL : twin_in(&t, TP_BOOL, tp_make_shape_n(0, NULL), way == 1, way == 1);
            const float decay = way ? 0.125f : 0.0f;
            switch (kind) {
            case DESCENT: y = tp_apply_gradient_descent(var, grad, n, lr, pred); break;
            case MOMENTUM: y = tp_apply_momentum(var, slot[0], grad, n, lr, 0.9f, way == 1, pred); break;
            case ADAM:
                y = tp_apply_adamw(var, slot[0], slot[1], grad, n, lr, p1, p2, 0.9f, 0.99f, 1e-3f, decay, pred);
                break;
            case RMSPROP:
                y = tp_apply_rmsprop(var, slot[0], slot[1], NULL, grad, n, lr, 0.9f, 0.5f, 1e-3f, pred);
                break;
            case RMSPROP_CENTERED:
                y = tp_apply_rmsprop(var, slot[0], slot[1], slot[2], grad, n, lr, 0.9f, 0.5f, 1e-3f, pred);
                break;
            case LION: {
                const tp__lion_attrs lion = {{n}, 0.9f, 0.99f, decay};
                tp_node *const *slots = slot[0];
                y = tp__apply_optimizer("apply_lion", &lion, var, &slots, grad, &lr, pred);
                break;
            }
            case ADAGRAD: y = tp_apply_adagrad(var, slot[0], grad, n, lr, pred); break;
            case ADADELTA: y = tp_apply_adadelta(var, slot[0], slot[1], grad, n, lr, 0.9f, 1e-3f, pred); break;
            case FTRL:
                y = tp_apply_ftrl(var, slot[0], slot[1], grad, n, lr, way ? -0.75f : -0.5f, 0.01f, 0.02f, 0.03f, pred);
                break;
            default:
                y = tp_apply_lamb(var, slot[0], slot[1], grad, n, lr, p1, p2, 0.9f, 0.99f, 1e-3f, decay, pred);
                break;
            }
            char what[64];
            snprintf(what, sizeof what, "optimizer %d, way %d", kind, way);
            twin_out(&t, y);
            twins_end(&t, 2, way == 2 ? 0 : kind == FTRL ? 20 * tol : tol, what); /* FTRL: a difference of powers */
        }
}
TEST(optimizers_of_many_variables) { optimizers(TP_F32, 70, 1e-5); }
TEST(optimizers_in_float64) { optimizers(TP_F64, 12, 1e-11); }
TEST(optimizers_in_half_precision)
{
    optimizers(TP_BF16, 9, 3e-2);
    optimizers(TP_F16, 9, 4e-3);
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
/* Heads of halves, and of float32 numbers where TF32 may be used; a larger head goes the other way. */
TEST(attention_by_tensor_cores)
{
    if (!seq_open()) return;
    for (int tf32 = 0; tf32 < 2; tf32++) {
        const char *types = tf32 ? "f" : "bh";
        precision = tf32 ? TP_PRECISION_TF32 : TP_PRECISION_F32;
        attention_on_gpu(2, 35, 67, 20, 2, false, types);
        attention_on_gpu(1, 66, 70, 7, 1, true, tf32 ? "f" : "b");
        attention_on_gpu(1, 67, 130, 64, 1, true, tf32 ? "f" : "h");
        attention_on_gpu(1, 5, 34, 128, 1, false, types);
        attention_on_gpu(3, 1, 40, 8, 3, true, types);
        attention_on_gpu(1, 0, 3, 4, 1, false, types);
        attention_on_gpu(1, 3, 5, 301, 1, false, types);
    }
    precision = TP_PRECISION_F32;
    seq_close();
}

#ifdef TP_CUDA_SHIM
/* What cuBLASLt refuses is made all the same, and said. */
TEST(products_without_an_algorithm)
{
    if (!seq_open()) return;
    tp_set_log(count_warnings, NULL);
    warnings = 0;
    tp_shim_refuse_products(1);
    lstm_on_gpu(3, 5, 4, 3, true, "fdbh");
    gru_on_gpu(3, 5, 4, 3, false, "fdbh");
    tp_shim_refuse_products(0);
    CHECK(warnings > 0);
    seq_close();
}
#endif

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

/* ==== >>memory, >>streams, >>nccl ===================================================================== */

/* A device-level stand-in for a StagingInput: values are staged ahead of the copies that take them. */
static void staged_ahead(tp_device *gpu, int ahead)
{
    enum { VALUES = 9, MOST = 5000 };
    static float value[MOST];
    int number[VALUES];
    size_t n[VALUES];
    void *place[VALUES];
    for (int i = 0; i < VALUES; i++) {
        n[i] = (size_t)(i == 4 ? MOST : i % 3 ? 300 + 10 * i : 2000);
        place[i] = gpu->alloc(gpu, n[i] * sizeof(float));
        CHECK(place[i] != NULL);
    }
    void *fixed = gpu->alloc(gpu, MOST * sizeof(float)); /* as a feed has it in the arena: one place for all of them */
    for (int i = 0; i < VALUES + ahead; i++) {
        if (i < VALUES) {
            for (size_t k = 0; k < n[i]; k++) value[k] = (float)(i * 10000 + (int)k);
            CHECK_OK(gpu->stage(gpu, value, n[i] * sizeof(float), &number[i]));
        }
        if (i < ahead) continue;
        const int at = i - ahead;
        CHECK_OK(gpu->unstage(gpu, number[at], fixed));
        CHECK_OK(gpu->copy(gpu, place[at], fixed, n[at] * sizeof(float)));
    }
    for (int i = 0; i < VALUES; i++) {
        int wrong = 0;
        memset(value, 0, sizeof value);
        CHECK_OK(gpu->download(gpu, value, place[i], n[i] * sizeof(float)));
        CHECK_OK(gpu->wait(gpu));
        for (size_t k = 0; k < n[i]; k++) wrong += value[k] != (float)(i * 10000 + (int)k);
        CHECK_MSG(wrong == 0, "%d ahead: %d of %zu elements of value %d are wrong", ahead, wrong, n[i], i);
        gpu->free(gpu, place[i]);
    }
    gpu->free(gpu, fixed);
}

/* A step that is fed enough to be staged, many times, the last ones as a replay. */
static bool wide_sums(tp_device *gpu, double sum[6])
{
    enum { ROWS = 70, COLS = 120 };
    static float x[ROWS * COLS], y[ROWS * COLS];
    tp_graph *g = tp_graph_new(NULL);
    tp_node *a = tp_placeholder(g, "a", TP_F32, tp_make_shape(ROWS, COLS));
    tp_node *b = tp_placeholder(g, "b", TP_F32, tp_make_shape(ROWS, COLS));
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(COLS, 3), tp_init_normal(0, 1));
    tp_node *fetch = tp_sum(tp_matmul(tp_mul(a, tp_tanh(b)), w));
    tp_session_config sc = tp_default_session_config();
    sc.devices = &gpu;
    sc.n_devices = 1;
    tp_session *s = tp_session_new(g, &sc);
    tp_feed feed[2];
    memset(feed, 0, sizeof feed);
    feed[0].node = a;
    feed[1].node = b;
    tp_tensor_view(&feed[0].value, TP_F32, tp_make_shape(ROWS, COLS), x);
    tp_tensor_view(&feed[1].value, TP_F32, tp_make_shape(ROWS, COLS), y);
    const tp_tensor *value;
    bool good = CHECK_MSG(s != NULL, "%s", tp_last_error());
    for (int run = 0; run < 6 && good; run++) {
        for (int i = 0; i < ROWS * COLS; i++) {
            x[i] = tp_random_uniform(3, (uint64_t)run, (uint64_t)i);
            y[i] = tp_random_uniform(4, (uint64_t)run, (uint64_t)i);
        }
        good = CHECK_OK(tp_session_run(s, feed, 2, &fetch, 1, &value));
        if (!good) break;
        sum[run] = tp_tensor_get(value, 0);
        memset(x, 0x7f, sizeof x); /* the run is done with them */
    }
    tp_session_free(s);
    tp_graph_free(g);
    return good;
}

TEST(staged_values_arrive_in_time)
{
    tp_device *gpu = tp_cuda_open(0);
    if (!CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error())) return;
    double once[6] = {0}, again[6] = {0};
    int number = 0;
    float v = 1;
    CHECK(wide_sums(gpu, once));
    for (int order = 1; order <= 40; order++) {
#ifdef TP_CUDA_SHIM
        tp_shim_set_seed((uint64_t)order);
#endif
        for (int ahead = 0; ahead <= 3; ahead++) staged_ahead(gpu, ahead);
        if (order % 4 == 1 && CHECK(wide_sums(gpu, again))) CHECK(memcmp(once, again, sizeof once) == 0);
    }
    CHECK_ERR(gpu->unstage(gpu, 0, NULL), TP_ERR_ARG, "no staged value has number 0");
    for (int i = 0; i < 1024; i++) CHECK_OK(gpu->stage(gpu, &v, sizeof v, &number));
    CHECK_ERR(gpu->stage(gpu, &v, sizeof v, &number), TP_ERR_STATE, "1024 staged values wait already");
    for (int i = 0; i < 1024; i++) CHECK_OK(gpu->unstage(gpu, i, NULL));
    CHECK_OK(gpu->stage(gpu, &v, sizeof v, &number));
    gpu->close(gpu); /* one still waits */
}

typedef struct stager {
    tp_device *gpu;
    const float *value;
    size_t bytes;
    int number;
    tp_status status;
} stager;
static void *stage_one(void *user)
{
    stager *s = (stager *)user;
    s->status = s->gpu->stage(s->gpu, s->value, s->bytes, &s->number);
    return NULL;
}
/* As a StagingInput does it: another thread stages what comes next while steps run. */
TEST(another_thread_stages)
{
    enum { N = 9000 };
    static float value[N], back[N];
    tp_device *gpu = tp_cuda_open(0);
    if (!CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error())) return;
    void *place = gpu->alloc(gpu, sizeof value);
    for (int i = 0; i < 5; i++) {
        double sum[6];
        stager s = {gpu, value, sizeof value, -1, TP_OK};
        pthread_t thread;
        for (int k = 0; k < N; k++) value[k] = (float)(i * N + k);
        if (!CHECK(pthread_create(&thread, NULL, stage_one, &s) == 0)) break;
        CHECK(wide_sums(gpu, sum));
        pthread_join(thread, NULL);
        if (!CHECK_MSG(s.status == TP_OK, "staging: %d", (int)s.status)) break;
        CHECK_OK(gpu->unstage(gpu, s.number, place));
        CHECK_OK(gpu->download(gpu, back, place, sizeof back));
        CHECK_OK(gpu->wait(gpu));
        CHECK(memcmp(value, back, sizeof value) == 0);
    }
    gpu->free(gpu, place);
    gpu->close(gpu);
}

/* A thread that runs y = 2 x + 1 many times with one exec. */
typedef struct doubler {
    tp_session *session;
    tp_node *x, *y;
    float first;
    int wrong; /* runs that failed, or gave another value; -1: no exec */
} doubler;
static void *double_often(void *user)
{
    enum { N = 4096 };
    doubler *d = (doubler *)user;
    float *v = (float *)malloc(N * sizeof *v);
    tp_exec *e = tp_exec_new(d->session);
    d->wrong = e && v ? 0 : -1;
    for (int run = 0; run < 60 && d->wrong >= 0; run++) {
        const tp_tensor *out = NULL;
        for (int i = 0; i < N; i++) v[i] = d->first + (float)(run + i % 5);
        const tp_feed f = tp_make_feed(d->x, TP_F32, tp_make_shape(N), v);
        bool good = tp_exec_run(e, &f, 1, &d->y, 1, &out) == TP_OK;
        for (int i = 0; i < N && good; i++) good = ((const float *)out->data)[i] == 2 * v[i] + 1;
        d->wrong += !good;
    }
    tp_exec_free(e);
    free(v);
    return NULL;
}
/* Two threads run, record and replay on one GPU, each with an exec of its own, while a third reads and loads a variable. */
TEST(threads_share_a_gpu)
{
    tp_device *gpu = tp_cuda_open(0);
    if (!CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error())) return;
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY));
    tp_get_variable_as(g, "v", TP_F32, tp_make_shape(3000), tp_init_ones());
    const tp_variable *v = tp_find_variable(g, "v");
    tp_session_config sc = tp_default_session_config();
    sc.devices = &gpu;
    sc.n_devices = 1;
    tp_session *s = tp_session_new(g, &sc);
    doubler d[2];
    pthread_t thread[2];
    for (int i = 0; i < 2; i++) {
        d[i].session = s, d[i].x = x, d[i].first = (float)(1000 * i), d[i].wrong = 0;
        d[i].y = tp_affine(x, 2, 1);
        if (!CHECK(pthread_create(&thread[i], NULL, double_often, &d[i]) == 0)) return;
    }
    tp_tensor value;
    memset(&value, 0, sizeof value);
    for (int i = 0; i < 60; i++) {
        CHECK_OK(tp_session_read(s, v, &value));
        CHECK_MSG(tp_tensor_get(&value, 2999) == i + 1, "%g in round %d", tp_tensor_get(&value, 2999), i);
        for (int k = 0; k < 3000; k++) tp_tensor_set(&value, k, i + 2);
        CHECK_OK(tp_session_load(s, v, &value));
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], NULL);
        CHECK_MSG(d[i].wrong == 0, "%d of 60 runs were wrong", d[i].wrong);
    }
    tp_tensor_free(&value);
    tp_session_free(s);
    tp_graph_free(g);
    gpu->close(gpu);
}

/* An op of the host that waits for what another thread computes on the same GPU. */
static void ask_another(const tp_call *k)
{
    pthread_t thread;
    tp_device *d = k->device;
    if (!CHECK(pthread_create(&thread, NULL, double_often, k->user) == 0)) return;
    pthread_join(thread, NULL);
    CHECK_OK(d->copy(d, k->out[0].data, k->in[0].data, 2 * sizeof(float)));
}
static tp_status as_input(tp_infer *s) { return s->out[0] = s->in[0], TP_OK; }
TEST(an_op_of_the_host_waits_for_a_thread_of_the_same_gpu)
{
    tp_device *gpu = tp_cuda_open(0);
    if (!CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error())) return;
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY)), *y = tp_affine(x, 2, 1);
    doubler d;
    d.x = x, d.y = y, d.first = 3, d.wrong = 0;
    tp_op row;
    memset(&row, 0, sizeof row);
    row.name = "ask", row.label = "Ask", row.flags = TP_OP_HOST | TP_OP_ANY_DEVICE;
    row.min_in = row.max_in = row.n_out = 1, row.infer = as_input, row.naive_f32 = ask_another;
    tp_apply_desc a;
    memset(&a, 0, sizeof a);
    a.row = &row, a.in = &y, a.n_in = 1, a.user = &d;
    tp_node *sum = tp_sum(tp_apply_ex(g, &a));
    tp_session_config sc = tp_default_session_config();
    sc.devices = &gpu;
    sc.n_devices = 1;
    tp_session *s = d.session = tp_session_new(g, &sc);
    const float v[2] = {1, 2};
    const tp_feed f = tp_make_feed(x, TP_F32, tp_make_shape(2), v);
    for (int run = 0; run < 3; run++) {
        const tp_tensor *out = NULL;
        if (!CHECK_OK(tp_session_run(s, &f, 1, &sum, 1, &out))) break;
        CHECK(tp_tensor_get(out, 0) == 8 && d.wrong == 0);
    }
    tp_session_free(s);
    tp_graph_free(g);
    gpu->close(gpu);
}

/* 70 large feeds in one run: a GPU once staged at most 64. */
TEST(many_large_feeds)
{
    enum { FEEDS = 70, N = 5000 };
    static float v[FEEDS][N];
    tp_device *gpu = tp_cuda_open(0);
    if (!CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error())) return;
    tp_graph *g = tp_graph_new(NULL);
    tp_feed f[FEEDS];
    tp_node *sum = NULL;
    for (int i = 0; i < FEEDS; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        tp_node *x = tp_placeholder(g, name, TP_F32, tp_make_shape(N));
        for (int k = 0; k < N; k++) v[i][k] = (float)i;
        f[i] = tp_make_feed(x, TP_F32, tp_make_shape(N), v[i]);
        sum = sum ? tp_add(sum, tp_mean(x)) : tp_mean(x);
    }
    tp_session_config sc = tp_default_session_config();
    sc.devices = &gpu;
    sc.n_devices = 1;
    tp_session *s = tp_session_new(g, &sc);
    const tp_tensor *out = NULL;
    if (CHECK_OK(tp_session_run(s, f, FEEDS, &sum, 1, &out))) CHECK_NEAR(tp_tensor_get(out, 0), 69 * 35, 0, 1e-6);
    tp_session_free(s);
    tp_graph_free(g);
    gpu->close(gpu);
}

/* Of an image with one NaN: which of relu(bias(f(x))) are NaN, f a convolution or a product. The CPU's count, then the GPU's. */
static void count_nans(tp_device *gpu, int which, tp_precision p, int64_t count[2])
{
    enum { H = 6, C = 136 };
    static float v[H * H * C];
    const int channels[4] = {8, C, 8, C}, c = channels[which], groups = which == 2 ? 8 : 1;
    for (int on = 0; on < 2; on++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(1, H, H, c)), *b, *y;
        for (int i = 0; i < H * H * c; i++) v[i] = i == 15 * c + 3 ? (float)NAN : (float)(i % 7 - 3);
        b = tp_get_variable_as(g, "b", TP_F32, tp_make_shape(c), tp_init_normal(0, 1));
        if (which == 3) {
            tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(c, c), tp_init_normal(0, 1));
            y = tp_relu(tp_nn_bias_add(tp_matmul(tp_reshape_to(x, tp_make_shape(H * H, c)), w), b, TP_NHWC));
        } else {
            tp_conv2d_attrs a;
            memset(&a, 0, sizeof a);
            a.padding = TP_SAME;
            a.groups = groups;
            tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(3, 3, c / groups, c), tp_init_normal(0, 1));
            y = tp_relu(tp_nn_bias_add(tp_nn_conv2d(x, w, &a), b, TP_NHWC));
        }
        tp_session_config sc = tp_default_session_config();
        sc.precision = p;
        if (on) sc.devices = &gpu, sc.n_devices = 1;
        tp_session *s = tp_session_new(g, &sc);
        const tp_feed f = tp_make_feed(x, TP_F32, tp_make_shape(1, H, H, c), v);
        const tp_tensor *out = NULL;
        count[on] = -1 - on;
        if (CHECK_OK(tp_session_run(s, &f, 1, &y, 1, &out))) {
            count[on] = 0;
            for (int64_t i = 0; i < tp_tensor_size(out); i++) count[on] += isnan(tp_tensor_get(out, i)) != 0;
        }
        tp_session_free(s);
        tp_graph_free(g);
    }
}
TEST(a_fused_relu_keeps_nan)
{
    static const char *const name[4] = {"3x3", "3x3 of many channels", "depthwise", "product"};
    tp_device *gpu = tp_cuda_open(0);
    if (!CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error())) return;
    for (int i = 0; i < 8; i++) {
        int64_t count[2];
        count_nans(gpu, i / 2, i % 2 ? TP_PRECISION_TF32 : TP_PRECISION_F32, count);
        CHECK_MSG(count[0] == count[1] && count[0] > 0, "%s: %lld NaN on the CPU, %lld on the GPU", name[i / 2],
                  (long long)count[0], (long long)count[1]);
    }
    gpu->close(gpu);
}

/* Datapoint i of a pass of 7: 5000 times i, then i. */
static tp_status large_point(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    (void)user, (void)pass;
    if (i >= 7) return TP_END;
    tp_status st = tp_datapoint_resize(dp, 2);
    for (int c = 0; c < 2 && st == TP_OK; c++)
        st = tp_tensor_resize(&dp->c[c], TP_F32, c ? tp_make_shape(1) : tp_make_shape(5000));
    for (int c = 0; c < 2 && st == TP_OK; c++)
        for (int64_t k = 0; k < tp_tensor_size(&dp->c[c]); k++) ((float *)dp->c[c].data)[k] = (float)i;
    return st;
}
/* A StagingInput uploads while steps run, which are replays of a recording from the third on. */
TEST(a_staging_input_feeds_the_gpu)
{
    const tp_spec specs[] = {TP_SPEC("large", TP_F32, 5000), TP_SPEC("small", TP_F32, 1)};
    tp_device *gpu = tp_cuda_open(0);
    if (!CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error())) return;
    for (int nr = 1; nr <= 3; nr += 2) {
        tp_graph *g = tp_graph_new(NULL);
        tp_input_source *s =
            tp_staging_input(tp_queue_input(tp_df_from_generator(large_point, NULL), .capacity = 3), .nr_stage = nr);
        tp_node *in[2] = {NULL, NULL};
        CHECK_OK(tp_input_setup(s, g, specs, 2));
        CHECK_OK(tp_input_get_tensors(s, in));
        tp_node *y = tp_add(tp_mean(in[0]), tp_mean(tp_affine(in[1], 100, 0)));
        tp_session_config c = tp_default_session_config();
        c.devices = &gpu;
        c.n_devices = 1;
        tp_session *session = tp_session_new(g, &c);
        int n = 0;
        tp_hook *const *hooks = tp_input_hooks(s, &n);
        for (int i = 0; i < n; i++)
            if (hooks[i]->after_create_session) CHECK_OK(hooks[i]->after_create_session(hooks[i], session));
        tp_hooked_session *h = tp_hooked_session_new(session, hooks, n);
        CHECK_OK(tp_input_reset_state(s));
        for (int i = 0; i < 25; i++) {
            const tp_tensor *v = NULL;
            if (i == 20) CHECK_OK(tp_input_seek(s, 20)); /* what was staged is let go */
            if (!CHECK_OK(tp_hooked_run(h, &y, 1, &v))) break;
            CHECK_MSG(tp_tensor_get(v, 0) == 101.0 * (i % 7), "step %d: %g", i, tp_tensor_get(v, 0));
        }
        tp_plan_info info;
        CHECK_OK(tp_exec_plan_info(tp_hooked_session_exec(h), &y, 1, &info));
        CHECK(info.recorded);
        tp_hooked_session_free(h);
        tp_session_free(session);
        tp_input_free(s);
        tp_graph_free(g);
    }
    gpu->close(gpu);
}

/* A recorded step that is traced runs kernel by kernel, each with times of its own, and is replayed again afterwards. What is fed
 * lies on the GPU, brought there at once or staged. */
TEST(a_step_is_traced_and_fed_on_the_gpu)
{
    enum { N = 9000 };
    static float x[N];
    tp_device *gpu = tp_cuda_open(0);
    if (!CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error())) return;
    tp_graph *g = tp_graph_new(NULL);
    tp_node *in = tp_placeholder(g, "x", TP_F32, tp_make_shape(N));
    tp_node *v = tp_get_variable_as(g, "v", TP_F32, tp_make_shape(N), tp_init_zeros());
    tp_node *fetch[2] = {tp_sum(tp_mul(in, in)), tp_assign_add(v, in, NULL)};
    tp_session_config sc = tp_default_session_config();
    sc.devices = &gpu;
    sc.n_devices = 1;
    tp_session *s = tp_session_new(g, &sc);
    tp_tensor host, there;
    tp_feed feed;
    tp_trace t;
    tp_run_options o;
    memset(&host, 0, sizeof host);
    memset(&there, 0, sizeof there);
    memset(&feed, 0, sizeof feed);
    memset(&t, 0, sizeof t);
    memset(&o, 0, sizeof o);
    o.trace = &t;
    tp_tensor_view(&host, TP_F32, tp_make_shape(N), x);
    tp_plan_info info;
    for (int run = 0; run < 8; run++) {
        const tp_tensor *out[2] = {NULL, NULL};
        for (int i = 0; i < N; i++) x[i] = (float)(i % 3 + run);
        double want = 0;
        for (int i = 0; i < N; i++) want += (double)x[i] * x[i];
        if (run % 2) {
            CHECK_OK(tp_tensor_stage(&there, gpu, &host));
            CHECK_OK(tp_tensor_unstage(&there));
        } else CHECK_OK(tp_tensor_to_device(&there, gpu, &host));
        memset(x, 0, sizeof x);
        feed.node = in;
        feed.value = there;
        const int64_t first = t.n;
        CHECK_OK(tp_session_run_ex(s, run == 5 ? &o : NULL, &feed, 1, fetch, 2, out));
        if (out[0]) CHECK_NEAR(tp_tensor_get(out[0], 0), want, 0, 1e-5);
        CHECK_OK(tp_exec_plan_info(tp_session_exec(s), fetch, 2, &info));
        CHECK(info.recorded == (run > 0));
        if (run != 5) continue;
        int kernels = 0;
        double fed = 0;
        for (int64_t i = first; i < t.n; i++) {
            const tp_trace_record *r = &t.record[i];
            CHECK(r->start <= r->end && (i == first || r->start == t.record[i - 1].end));
            if (r->kind == TP_TRACE_KERNEL) CHECK_STR(r->device, "cuda:0");
            kernels += r->kind == TP_TRACE_KERNEL;
            if (r->kind == TP_TRACE_FEED) fed += r->bytes;
        }
        CHECK_MSG(kernels == info.n_steps && fed == (double)sizeof x, "%d kernels, %d steps", kernels, info.n_steps);
    }
    tp_tensor sum;
    memset(&sum, 0, sizeof sum);
    CHECK_OK(tp_session_read(s, tp_find_variable(g, "v"), &sum));
    for (int i = 0; i < N; i += 1000) CHECK(tp_tensor_get(&sum, i) == 8 * (i % 3) + 28);
    CHECK_OK(tp_tensor_copy(&sum, &there));
    CHECK(tp_tensor_get(&sum, 4) == 1 + 7);
    tp_run_options late;
    memset(&late, 0, sizeof late);
    late.timeout_ms = 600000;
    CHECK_OK(tp_session_run_ex(s, &late, &feed, 1, fetch, 2, NULL));
    tp_tensor_free(&sum);
    tp_tensor_free(&there);
    tp_trace_free(&t);
    tp_session_free(s);
    tp_graph_free(g);
    gpu->close(gpu);
}

TEST(memory_is_counted)
{
    tp_device *gpu = tp_cuda_open(0);
    size_t now = 0, most = 0, later = 0;
    if (!CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error())) return;
    if (tp_cuda_memory(gpu, &now, &most) != TP_OK) {
        gpu->close(gpu);
        TEST_SKIP(tp_last_error());
    }
    void *p = gpu->alloc(gpu, 10 << 20), *q = gpu->alloc(gpu, 20 << 20);
    CHECK(p != NULL && q != NULL);
    gpu->free(gpu, p);
    CHECK_OK(gpu->wait(gpu));
    CHECK_OK(tp_cuda_memory(gpu, &later, &most));
    tp_memory_use m;
    CHECK_OK(tp_device_memory(gpu, &m));
    CHECK(m.used == (int64_t)later && m.peak == (int64_t)most && m.total >= m.used && m.available <= m.total - m.used);
    const double busy = tp_device_utilization(gpu); /* negative: the driver does not tell */
    CHECK_MSG(busy < 0 || busy <= 100, "%g %%", busy);
    CHECK(later >= now + (20 << 20) && later < now + (30 << 20) && most >= now + (30 << 20) && most < now + (40 << 20));
    gpu->free(gpu, q);
    CHECK_OK(gpu->wait(gpu));
    CHECK_OK(tp_cuda_memory(gpu, &later, &most));
    CHECK(later == now);
    gpu->close(gpu);
}

#ifdef TP_CUDA_SHIM
/* A session takes its part of the memory, and no more. */
TEST(memory_fraction_is_a_limit)
{
    tp_set_log(quiet, NULL);
    tp_shim_set_memory((size_t)100 << 20);
    tp_device *gpu = tp_cuda_open(0);
    if (CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error())) {
        static const float part[] = {1.0f, 0, 0.6f, 0.5f, 0.6f}; /* the smallest counts */
        for (int i = 0; i < 5; i++) { /* 32 MB are the workspace's, 20 the variable's: 52 of 100 */
            tp_graph *g = tp_graph_new(NULL);
            tp_get_variable_as(g, "w", TP_F32, tp_make_shape(5 << 20), tp_init_zeros());
            tp_session_config sc = tp_get_default_sess_config(part[i]);
            sc.devices = &gpu;
            sc.n_devices = 1;
            tp_session *s = tp_session_new(g, &sc);
            if (i >= 3) {
                CHECK(s == NULL);
                CHECK_HAS(tp_last_error(), "for variable 'w' (20971520 bytes)");
                CHECK_HAS(tp_last_error(), i == 3 ? "raise memory_fraction, which is 0.5" : "which is 0.6");
            } else CHECK_MSG(s != NULL, "%s", tp_last_error());
            tp_session_free(s);
            tp_graph_free(g);
        }
        void *p = gpu->alloc(gpu, 16 << 20);
        CHECK(p != NULL && gpu->alloc(gpu, 60 << 20) == NULL);
        gpu->free(gpu, p);
        gpu->close(gpu);
    }
    tp_shim_set_memory((size_t)8 << 30);
    tp_set_log(NULL, NULL);
}

TEST(a_full_gpu_says_so)
{
    char text[300];
    tp_set_log(quiet, NULL);
    tp_shim_set_memory((size_t)100 << 20);
    tp_device *gpu = tp_cuda_open(0);
    if (CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error())) {
        /* 32 MB are the workspace's */
        for (int much = 0; much < 2; much++) {
            tp_graph *g = tp_graph_new(NULL);
            tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(much ? 20 << 20 : 1 << 20), tp_init_zeros());
            tp_node *both[2] = {tp_exp(w), tp_tanh(w)};
            tp_node *rows[1] = {tp_concat(both, 2, 0)};
            for (int i = 0; i < 3; i++) rows[0] = tp_concat((tp_node *const[]){rows[0], rows[0]}, 2, 0);
            tp_session_config sc = tp_default_session_config();
            sc.devices = &gpu;
            sc.n_devices = 1;
            tp_session *s = tp_session_new(g, &sc);
            if (much) {
                CHECK(s == NULL);
                CHECK_MSG(strstr(tp_last_error(), "out of memory on cuda:0 for variable 'w' (83886080 bytes): make the "
                                                  "model smaller") != NULL,
                          "%s", tp_last_error());
            } else if (CHECK_MSG(s != NULL, "%s", tp_last_error())) {
                const tp_tensor *value;
                CHECK_ERR(tp_session_run(s, NULL, 0, rows, 1, &value), TP_ERR_NOMEM,
                          "out of memory on cuda:0: this run needs");
                CHECK(strstr(tp_last_error(), "a smaller batch needs less") != NULL);
            }
            tp_session_free(s);
            tp_graph_free(g);
        }
        /* what was freed in pieces of one size serves for another */
        void *p[3];
        for (int i = 0; i < 3; i++) CHECK((p[i] = gpu->alloc(gpu, 20 << 20)) != NULL);
        CHECK(gpu->alloc(gpu, 20 << 20) == NULL);
        for (int i = 0; i < 3; i++) gpu->free(gpu, p[i]);
        CHECK((p[0] = gpu->alloc(gpu, 60 << 20)) != NULL);
        static float large[4 << 20];
        int number = 0;
        CHECK_ERR(gpu->stage(gpu, large, sizeof large, &number), TP_ERR_NOMEM,
                  "out of memory on cuda:0 for 16.0 MB of staged input");
        gpu->free(gpu, p[0]);
        CHECK_OK(gpu->stage(gpu, large, sizeof large, &number));
        gpu->close(gpu);
    }
    tp_shim_set_memory((size_t)8 << 30);
    CHECK_MSG(tp_shim_live(text, sizeof text) == 0 && tp_shim_live_bytes(0) == 0, "%s", text);
    tp_set_log(NULL, NULL);
}

/* NVML, as the driver brings it: a library of that name that is loaded already is taken. */
TEST(a_gpu_tells_how_busy_it_is)
{
    char path[256], command[1024];
    snprintf(path, sizeof path, "%s/nvml.c", tp_test_tmpdir());
    static const char source[] =
        "#include <string.h>\n"
        "static int up, asked;\n"
        "int nvmlInit_v2(void) { return up++ == 0 ? 0 : 1; }\n"
        "int nvmlShutdown(void) { return up-- == 1 ? 0 : 1; }\n"
        "int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **gpu)\n"
        "{ *gpu = &up; return up == 1 && strcmp(id, \"0000:01:00.0\") == 0 ? 0 : 6; }\n"
        "int nvmlDeviceGetUtilizationRates(void *gpu, unsigned *busy)\n"
        "{ busy[0] = 37 + asked++, busy[1] = 5; return gpu != &up || up != 1 ? 1 : asked == 3 ? 999 : 0; }\n";
    CHECK(tp_test_write(path, source, sizeof source - 1));
    snprintf(command, sizeof command, "cc -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 %s -o %s.so", path, path);
    if (system(command) != 0) TEST_SKIP("no compiler makes a library");
    tp_device *gpu = tp_cuda_open(0);
    if (!CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error())) return;
    const double without = tp_device_utilization(gpu);
    CHECK_MSG(without == -1, "%g %%: there is a driver", without);
    gpu->close(gpu);
    snprintf(command, sizeof command, "%s.so", path);
    void *library = dlopen(command, RTLD_NOW | RTLD_LOCAL);
    if (!CHECK_MSG(library != NULL, "%s", dlerror())) return;
    for (int again = 0; again < 2; again++) { /* closed, it has shut NVML down */
        gpu = tp_cuda_open(0);
        if (!CHECK(gpu != NULL)) break;
        if (!again) CHECK(tp_device_utilization(gpu) == 37 && tp_device_utilization(gpu) == 38);
        if (!again) CHECK(tp_device_utilization(gpu) == -1); /* this time it fails */
        else CHECK(tp_device_utilization(gpu) == 40);
        gpu->close(gpu);
    }
    dlclose(library);
}

TEST(an_old_driver_has_no_pools)
{
    double pooled[6] = {0}, plain[6] = {0};
    char text[300];
    for (int pools = 1; pools >= 0; pools--) {
        tp_shim_set_pools(pools);
        tp_device *gpu = tp_cuda_open(0);
        size_t now, most;
        if (!CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error())) continue;
        CHECK(wide_sums(gpu, pools ? pooled : plain));
        staged_ahead(gpu, 2);
        if (!pools) CHECK_ERR(tp_cuda_memory(gpu, &now, &most), TP_ERR_UNSUPPORTED, "does not count");
        gpu->close(gpu);
    }
    tp_shim_set_pools(1);
    CHECK(memcmp(pooled, plain, sizeof plain) == 0);
    CHECK_MSG(tp_shim_live(text, sizeof text) == 0, "%s", text);
}

/* Whatever call of CUDA fails while a GPU is opened, trained on and closed: a sentence, and nothing left behind. */
TEST(every_call_that_fails_says_so)
{
    char text[300];
    tp_set_log(quiet, NULL);
    int opened = 0, n = 1;
    for (bool struck = true; struck; n++) {
        float v[64] = {0};
        int number = -1;
        tp_status st = TP_OK;
        tp_shim_fail_call_after(n);
        tp_device *gpu = tp_cuda_open(0);
        if (gpu) {
            opened++;
            void *p = gpu->alloc(gpu, sizeof v);
            if (!p) st = TP_ERR_NOMEM;
            if (st == TP_OK) st = gpu->stage(gpu, v, sizeof v, &number);
            if (st == TP_OK) st = gpu->unstage(gpu, number, p);
            if (st == TP_OK) st = gpu->download(gpu, v, p, sizeof v);
            if (st == TP_OK) st = gpu->wait(gpu);
            gpu->free(gpu, p);
        }
        struck = tp_shim_failed() != 0;
        tp_shim_fail_call_after(0);
        if (gpu) gpu->close(gpu);
        /* what the first try to allocate could not, the second can */
        if (struck && !gpu) CHECK_MSG(strlen(tp_last_error()) > 10, "call %d fails in silence", n);
        if (!struck) CHECK(st == TP_OK);
        CHECK_MSG(tp_shim_live(text, sizeof text) == 0, "after call %d has failed there are %s", n, text);
    }
    CHECK_MSG(opened > 5 && n > 20, "%d calls, of which %d after opening", n, opened);
    tp_set_log(NULL, NULL);
}
#endif

/* Two towers of a linear model on two devices, their gradients summed, 8 steps: the weights in the end. */
static bool train_two(tp_device *const *device, bool nccl, float *w_out, bool *recorded)
{
    enum { ROWS = 40, COLS = 110, STEPS = 8 };
    static float x[2][ROWS * COLS];
    tp_graph *g = tp_graph_new(NULL);
    tp_node *in[2], *w[2], *grad[2], *sum[2], *all[3];
    tp_feed feed[2];
    memset(feed, 0, sizeof feed);
    for (int i = 0; i < 2; i++) {
        tp_device_enter(g, i);
        in[i] = tp_placeholder(g, i ? "x1" : "x0", TP_F32, tp_make_shape(ROWS, COLS));
        w[i] = tp_get_variable_as(g, i ? "w1" : "w0", TP_F32, tp_make_shape(COLS, 4), tp_init_constant(0.125));
        tp_node *cost = tp_mean(tp_square(tp_affine(tp_tanh(tp_matmul(in[i], w[i])), 1.0f, -0.25f)));
        tp_gradients(cost, &w[i], 1, &grad[i]);
        tp_device_leave(g);
        feed[i].node = in[i];
        tp_tensor_view(&feed[i].value, TP_F32, tp_make_shape(ROWS, COLS), x[i]);
    }
    tp_all_reduce(grad, 2, true, sum);
    for (int i = 0; i < 2; i++) {
        tp_device_enter(g, i);
        all[i] = tp_assign_sub(w[i], tp_affine(sum[i], 0.5f, 0.0f), NULL);
        tp_device_leave(g);
    }
    all[2] = tp_sum(sum[1]);
    tp_session_config sc = tp_default_session_config();
    sc.devices = device;
    sc.n_devices = 2;
    sc.nccl_all_reduce = nccl;
    tp_session *s = tp_session_new(g, &sc);
    bool good = CHECK_MSG(s != NULL && tp_graph_status(g) == TP_OK, "%s", tp_last_error());
    const tp_tensor *value[3];
    for (int step = 0; step < STEPS && good; step++) {
        for (int t = 0; t < 2; t++)
            for (int i = 0; i < ROWS * COLS; i++)
                x[t][i] = tp_random_uniform(11, (uint64_t)(step * 2 + t), (uint64_t)i) - 0.5f;
        good = CHECK_OK(tp_session_run(s, feed, 2, all, 3, value));
    }
    tp_tensor t;
    memset(&t, 0, sizeof t);
    for (int i = 0; i < 2 && good; i++) {
        good = CHECK_OK(tp_session_read(s, tp_node_variable(w[i]), &t));
        if (good) memcpy(w_out + i * COLS * 4, t.data, tp_tensor_bytes(&t));
    }
    tp_plan_info info;
    if (good && CHECK_OK(tp_exec_plan_info(tp_session_exec(s), all, 3, &info))) *recorded = info.recorded;
    tp_tensor_free(&t);
    tp_session_free(s);
    tp_graph_free(g);
    return good;
}
TEST(two_gpus_sum_gradients)
{
    enum { N = 110 * 4 };
    static float cpu_w[2 * N], gpu_w[2 * N], nccl_w[2 * N];
    bool recorded = false;
    if (tp_cuda_count() < 2) TEST_SKIP("this machine has fewer than two GPUs");
    tp_set_log(quiet, NULL);
    tp_device *gpu[2] = {tp_cuda_open(0), tp_cuda_open(1)}, *cpu[2] = {NULL, NULL};
    if (CHECK_MSG(gpu[0] && gpu[1], "%s", tp_last_error()) && CHECK_OK(tp_cpu_devices_new(2, 1, "naive", cpu)) &&
        CHECK(train_two(cpu, true, cpu_w, &recorded))) { /* NCCL is for GPUs: nothing changes on the CPU */
        for (int order = 1; order <= 12; order++) {
#ifdef TP_CUDA_SHIM
            tp_shim_set_seed((uint64_t)order);
#endif
            CHECK(train_two(gpu, false, gpu_w, &recorded) && recorded);
            CHECK(memcmp(gpu_w, gpu_w + N, N * sizeof(float)) == 0);
            for (int i = 0; i < N; i++) CHECK_NEAR(gpu_w[i], cpu_w[i], 1e-5, 1e-5);
            if (!gpu[0]->all_reduce) continue; /* built without NCCL */
            CHECK(train_two(gpu, true, nccl_w, &recorded) && recorded);
            CHECK(memcmp(nccl_w, nccl_w + N, N * sizeof(float)) == 0);
            for (int i = 0; i < N; i++) CHECK_NEAR(nccl_w[i], cpu_w[i], 1e-5, 1e-5);
        }
        if (gpu[0]
                ->all_reduce) { /* the other way round they are other communicators; without NCCL nobody can sum by it */
            tp_device *back[2] = {gpu[1], gpu[0]};
            CHECK(train_two(back, true, nccl_w, &recorded));
            gpu[1]->all_reduce = NULL;
            float v = 1;
            tp_graph *g = tp_graph_new(NULL);
            tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(1)), *h[2], *y[2];
            for (int i = 0; i < 2; i++) {
                tp_device_enter(g, i);
                h[i] = tp_exp(x);
                tp_device_leave(g);
            }
            tp_all_reduce(h, 2, false, y);
            tp_session_config sc = tp_default_session_config();
            sc.devices = gpu;
            sc.n_devices = 2;
            sc.nccl_all_reduce = true;
            tp_session *s = tp_session_new(g, &sc);
            tp_feed feed;
            memset(&feed, 0, sizeof feed);
            feed.node = x;
            tp_tensor_view(&feed.value, TP_F32, tp_make_shape(1), &v);
            const tp_tensor *value;
            CHECK_ERR(tp_session_run(s, &feed, 1, y, 1, &value), TP_ERR_UNSUPPORTED, "cuda:1 was built without it");
            gpu[1]->all_reduce = gpu[0]->all_reduce;
            CHECK_OK(tp_session_run(s, &feed, 1, y, 1, &value)); /* the second result is wanted by nobody */
            CHECK_NEAR(tp_tensor_get(value, 0), 2 * exp(1), 1e-5, 1e-5);
            tp_session_free(s);
            tp_graph_free(g);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (gpu[i]) gpu[i]->close(gpu[i]);
        if (cpu[i]) cpu[i]->close(cpu[i]);
    }
    tp_set_log(NULL, NULL);
}

/* A sum by NCCL is the first that two GPUs do together: nothing was copied between them before. */
TEST(two_gpus_sum_by_nccl_alone)
{
    if (tp_cuda_count() < 2) TEST_SKIP("this machine has fewer than two GPUs");
    tp_device *gpu[2] = {tp_cuda_open(0), tp_cuda_open(1)};
    if (CHECK_MSG(gpu[0] && gpu[1], "%s", tp_last_error())) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x[2], *h[2], *y[2];
        for (int i = 0; i < 2; i++) {
            tp_device_enter(g, i);
            x[i] = tp_placeholder(g, NULL, TP_F32, tp_make_shape(1));
            h[i] = tp_exp(x[i]);
            tp_device_leave(g);
        }
        tp_all_reduce(h, 2, false, y);
        tp_session_config sc = tp_default_session_config();
        sc.devices = gpu;
        sc.n_devices = 2;
        sc.nccl_all_reduce = true;
        tp_session *s = tp_session_new(g, &sc);
        const tp_tensor *value[2];
        const float v[2] = {1, 2};
        tp_feed feed[2];
        memset(feed, 0, sizeof feed);
        for (int i = 0; i < 2; i++) {
            feed[i].node = x[i];
            tp_tensor_view(&feed[i].value, TP_F32, tp_make_shape(1), (void *)(uintptr_t)&v[i]);
        }
        for (int run = 0; run < 4 && s && CHECK_OK(tp_session_run(s, feed, 2, y, 2, value)); run++)
            for (int i = 0; i < 2; i++) CHECK_NEAR(tp_tensor_get(value[i], 0), exp(1) + exp(2), 0, 1e-5);
        CHECK(s != NULL);
        tp_session_free(s);
        tp_graph_free(g);
    }
    for (int i = 0; i < 2; i++)
        if (gpu[i]) gpu[i]->close(gpu[i]);
}

/* -- trainers with a tower on each of two GPUs, against two CPU devices */

typedef struct two_towers {
    float w[64];
    int n;
    double error;
} two_towers;
static tp_node *tower_net(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *y = NULL;
    TP_ARGSCOPE(g, batch_norm, .sync_statistics = TP_SYNC_TOWERS)
    {
        y = tp_tanh(tp_batch_norm(tp_fully_connected(in[0], "fc0", .units = 5), "bn"));
    }
    y = tp_fully_connected(y, "fc1", .units = 2);
    tp_sym_prediction_incorrect(y, in[1], 1, "incorrect_vector");
    return tp_named(tp_mean(tp_sparse_softmax_cross_entropy(y, in[1])), "cost");
}
static tp_optimizer *tower_optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_apply_grad_processors(tp_momentum(tp_get_scalar_variable(g, "learning_rate", 0.1f)),
                                    TP_GRADPROCS(tp_gradproc_scale("fc0/W", 0.5f), tp_gradproc_global_norm_clip(1)));
}
static tp_status tower_point(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user, (void)pass;
    tp_status st = tp_datapoint_resize(dp, 2);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape(3, 4));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_I32, tp_make_shape(3));
    for (int i = 0; i < 12 && st == TP_OK; i++)
        ((float *)dp->c[0].data)[i] = (float)tp_random_normal(5, (uint64_t)index, (uint64_t)i);
    for (int i = 0; i < 3 && st == TP_OK; i++)
        ((int32_t *)dp->c[1].data)[i] = ((const float *)dp->c[0].data)[4 * i] > 0;
    return st;
}
static tp_status keep_tower_weights(tp_callback *cb)
{
    static const char *const names[] = {"fc0/W",       "fc0/b", "bn/gamma",      "bn/beta",
                                        "bn/mean/EMA", "fc1/W", "fc1/W/Momentum"};
    two_towers *k = *(two_towers **)cb->user;
    tp_tensor value;
    tp_stat stat;
    memset(&value, 0, sizeof value);
    for (int i = 0; i < 7; i++) {
        const tp_variable *v = tp_find_variable(cb->train->graph, names[i]);
        if (!CHECK_MSG(v != NULL, "%s", names[i]) || !CHECK_OK(tp_session_read(cb->train->session, v, &value)))
            continue;
        for (int64_t j = 0; j < tp_tensor_size(&value) && k->n < 64; j++)
            k->w[k->n++] = (float)tp_tensor_get(&value, j);
    }
    tp_tensor_free(&value);
    CHECK_OK(tp_monitors_get_latest(cb->train->monitors, "validation_error", &stat));
    k->error = stat.value;
    tp_predictor *p = tp_trainer_get_predictor(cb->train->trainer, NULL, 0, (const char *const[]){"cost"}, 1, 1);
    tp_tensor in[2];
    float x[4] = {1, 2, 3, 4};
    int32_t label = 1;
    const tp_tensor *cost = NULL;
    tp_tensor_view(&in[0], TP_F32, tp_make_shape(1, 4), x);
    tp_tensor_view(&in[1], TP_I32, tp_make_shape(1), &label);
    if (CHECK_MSG(p != NULL, "%s", tp_last_error()) && CHECK_OK(tp_predict_n(p, in, 2, &cost, 1)))
        k->w[k->n++] = (float)tp_tensor_get(cost, 0);
    return TP_OK;
}
static tp_trainer *two_tower_trainer(int kind)
{
    switch (kind) {
    case 0: return tp_sync_multi_gpu_trainer_replicated(.n_devices = 2);
    case 1: return tp_sync_multi_gpu_trainer_replicated(.n_devices = 2, .mode = TP_ALL_REDUCE_CPU);
    case 2: return tp_sync_multi_gpu_trainer_parameter_server(.n_devices = 2);
    case 3: return tp_default_multi_gpu_trainer(2, NULL);
    default: return tp_async_multi_gpu_trainer(.n_devices = 2);
    }
}
static bool train_with(tp_device *const *device, int kind, two_towers *k)
{
    static const tp_spec inputs[] = {TP_SPEC("x", TP_F32, TP_ANY, 4), TP_SPEC("label", TP_I32, TP_ANY)};
    memset(k, 0, sizeof *k);
    tp_session_config sc = tp_default_session_config();
    sc.devices = device;
    sc.n_devices = 2;
    sc.isa = "naive"; /* of the CPU device that some of them want beside */
    tp_dataflow *test = tp_df_fixed_size(tp_df_from_generator(tower_point, .size = 50, .indexed = TP_YES), 5);
    tp_callback *cb[2] = {tp_cb_data_parallel_inference_runner(test, {tp_inf_classification_error()}, .n_devices = 2),
                          tp_callback_new("Keeps", sizeof k)};
    *(two_towers **)cb[1]->user = k;
    cb[1]->trigger = keep_tower_weights;
    tp_train_config c;
    memset(&c, 0, sizeof c);
    c.model.inputs = inputs;
    c.model.n_inputs = 2;
    c.model.build_graph = tower_net;
    c.model.optimizer = tower_optimizer;
    c.dataflow = tp_df_from_generator(tower_point, .size = 1 << 20, .indexed = TP_YES);
    c.callbacks = cb;
    c.n_callbacks = 2;
    c.n_monitors = TP_NONE;
    c.steps_per_epoch = 6;
    c.max_epoch = 1;
    c.session_config = &sc;
    return CHECK_OK(tp_launch_train_with_config(&c, two_tower_trainer(kind)));
}
TEST(trainers_on_two_gpus)
{
    if (tp_cuda_count() < 2) TEST_SKIP("this machine has fewer than two GPUs");
    tp_set_log(quiet, NULL);
    tp_device *gpu[2] = {tp_cuda_open(0), tp_cuda_open(1)}, *cpu[2] = {NULL, NULL};
    two_towers on_gpu, on_cpu;
    if (CHECK_MSG(gpu[0] && gpu[1], "%s", tp_last_error()) && CHECK_OK(tp_cpu_devices_new(2, 1, "naive", cpu)))
        for (int kind = 0; kind < 5; kind++) {
            if (!train_with(cpu, kind, &on_cpu) || !train_with(gpu, kind, &on_gpu)) continue;
            CHECK(on_gpu.n == on_cpu.n && on_gpu.n > 40 && on_gpu.error == on_cpu.error);
            for (int i = 0; i < on_gpu.n; i++)
                CHECK_MSG(fabs((double)(on_gpu.w[i] - on_cpu.w[i])) <= 2e-5,
                          "trainer %d: number %d is %g, %g on the CPU", kind, i, (double)on_gpu.w[i],
                          (double)on_cpu.w[i]);
        }
    for (int i = 0; i < 2; i++) {
        if (gpu[i]) gpu[i]->close(gpu[i]);
        if (cpu[i]) cpu[i]->close(cpu[i]);
    }
    tp_set_log(NULL, NULL);
}

#ifdef TP_CUDA_SHIM
/* Whatever fails while a step of two GPUs is recorded and replayed: that run fails with a sentence, or goes kernel by kernel to
 * the right values, and the next one is right in any case. */
TEST(a_recording_that_fails)
{
    enum { N = 5000 };
    static float v[N];
    char text[300];
    if (tp_cuda_count() < 2) TEST_SKIP("this machine has fewer than two GPUs");
    tp_set_log(quiet, NULL);
    tp_device *gpu[2] = {tp_cuda_open(0), tp_cuda_open(1)};
    int slow = 0, failed = 0;
    for (int i = 0; i < N; i++) v[i] = (float)(i % 5);
    if (CHECK_MSG(gpu[0] && gpu[1], "%s", tp_last_error()))
        for (int nccl = 0; nccl < 2; nccl++) {
            bool struck = true;
            for (int n = 1; struck && n < 300; n++) {
                tp_graph *g = tp_graph_new(NULL);
                tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(N)), *h[2], *y[2];
                for (int i = 0; i < 2; i++) {
                    tp_device_enter(g, i);
                    h[i] = tp_affine(tp_square(x), (float)(1 + i), 0.0f);
                    tp_device_leave(g);
                }
                tp_all_reduce(h, 2, false, y);
                tp_node *fetch[2] = {tp_sum(y[0]), tp_sum(y[1])};
                tp_session_config sc = tp_default_session_config();
                sc.devices = gpu;
                sc.n_devices = 2;
                sc.nccl_all_reduce = nccl != 0;
                tp_session *s = tp_session_new(g, &sc);
                tp_feed feed;
                memset(&feed, 0, sizeof feed);
                feed.node = x;
                tp_tensor_view(&feed.value, TP_F32, tp_make_shape(N), v);
                const tp_tensor *value[2];
                tp_plan_info info;
                for (int run = 0; run < 4 && CHECK_MSG(s != NULL, "%s", tp_last_error()); run++) {
                    if (run == 1) tp_shim_fail_call_after(n);
                    const tp_status st = tp_session_run(s, &feed, 1, fetch, 2, value);
                    if (run == 1) {
                        struck = tp_shim_failed() != 0;
                        tp_shim_fail_call_after(0);
                        failed += st != TP_OK;
                        CHECK_OK(tp_exec_plan_info(tp_session_exec(s), fetch, 2, &info));
                        slow += struck && st == TP_OK && !info.recorded;
                        if (st != TP_OK) CHECK(struck && strlen(tp_last_error()) > 10);
                        if (st != TP_OK) continue;
                    }
                    if (CHECK_MSG(st == TP_OK, "call %d failed in the second run, now %s", n, tp_last_error()))
                        for (int i = 0; i < 2; i++)
                            CHECK_MSG(tp_tensor_get(value[i], 0) == 3.0 * 30 * N / 5, "call %d, run %d: %g", n, run,
                                      tp_tensor_get(value[i], 0));
                }
                tp_session_free(s);
                tp_graph_free(g);
            }
            CHECK(!struck);
        }
    CHECK_MSG(slow > 5 && failed > 5, "%d runs went kernel by kernel, %d failed", slow, failed);
    for (int i = 0; i < 2; i++)
        if (gpu[i]) gpu[i]->close(gpu[i]);
    CHECK_MSG(tp_shim_live(text, sizeof text) == 0, "%s", text);
    tp_set_log(NULL, NULL);
}
#endif

/* NCCL between programs, as far as one of them shows it: one rank. */
TEST(a_communicator_of_one_rank)
{
    static const tp_dtype dtypes[] = {TP_F32, TP_F64, TP_F16, TP_BF16, TP_I32, TP_I64};
    char id[TP_CUDA_COMM_ID];
    tp_device *gpu = tp_cuda_open(0);
    if (!CHECK_MSG(gpu != NULL, "no GPU: %s", tp_last_error())) return;
    const tp_status st = tp_cuda_comm_id(id);
    if (st == TP_ERR_UNSUPPORTED) {
        CHECK(tp_cuda_comm_new(gpu, 1, 0, id) == NULL);
        gpu->close(gpu);
        TEST_SKIP(tp_last_error());
    }
    CHECK_OK(st);
    CHECK(tp_cuda_comm_new(gpu, 1, 1, id) == NULL);
    CHECK_MSG(strstr(tp_last_error(), "there is no rank 1 of 1") != NULL, "%s", tp_last_error());
    tp_device *cpu = tp_cpu_device_new(1, "naive");
    CHECK(tp_cuda_comm_new(cpu, 1, 0, id) == NULL);
    CHECK_MSG(strstr(tp_last_error(), "not cpu:0") != NULL, "%s", tp_last_error());
    cpu->close(cpu);
    tp_cuda_comm *c = tp_cuda_comm_new(gpu, 1, 0, id);
    for (int t = 0; t < TP_COUNT(dtypes) && CHECK_MSG(c != NULL, "%s", tp_last_error()); t++) {
        const tp_dtype dtype = dtypes[t];
        const size_t bytes = 100 * tp_dtype_size(dtype);
        double number[100];
        char value[800], back[800];
        for (int i = 0; i < 100; i++) number[i] = i - 20;
        tp_convert(value, dtype, number, TP_F64, 100);
        void *p = gpu->alloc(gpu, bytes), *q = gpu->alloc(gpu, bytes);
        CHECK(p != NULL && q != NULL);
        CHECK_OK(gpu->upload(gpu, p, value, bytes));
        CHECK_OK(tp_cuda_comm_all_reduce(c, p, 100, dtype, false));
        if (dtype == TP_I32 || dtype == TP_I64)
            CHECK_ERR(tp_cuda_comm_all_reduce(c, p, 100, dtype, true), TP_ERR_DTYPE, "no mean of whole numbers");
        else CHECK_OK(tp_cuda_comm_all_reduce(c, p, 100, dtype, true));
        CHECK_OK(tp_cuda_comm_broadcast(c, p, 100, dtype, 0));
        CHECK_ERR(tp_cuda_comm_broadcast(c, p, 100, dtype, 1), TP_ERR_ARG, "from rank 1");
        CHECK_OK(tp_cuda_comm_all_gather(c, q, p, 100, dtype));
        CHECK_OK(gpu->download(gpu, back, q, bytes));
        CHECK_OK(gpu->wait(gpu));
        CHECK_MSG(memcmp(value, back, bytes) == 0, "%s", tp_dtype_name(dtype));
        gpu->free(gpu, p);
        gpu->free(gpu, q);
    }
    if (c)
        CHECK_ERR(tp_cuda_comm_all_reduce(c, NULL, 1, TP_U8, false), TP_ERR_DTYPE, "not asked to move values of type");
#ifdef TP_CUDA_SHIM
    tp_shim_fail_call_after(1);
    CHECK_ERR(tp_cuda_comm_broadcast(c, NULL, 1, TP_F32, 0), TP_ERR_STATE, "cuda:0: a broadcast by NCCL failed");
    tp_shim_fail_call_after(0);
#endif
    tp_cuda_comm_free(c);
    gpu->close(gpu);
}

TEST_MAIN()
