/* What a run can be asked for beside its fetches: a trace of what it did and when, a time limit; how it is cancelled; and feeds
 * that lie on a device. */
#define TP_IMPLEMENTATION
#include "tp_layers.h"
#include "tp_optim.h"
#include "tp_train.h"
#include "tp_test.h"

/* ==== >>net =========================================================================================== */
/* A small convnet with a batch for each of up to two devices, trained by gradient descent on the sum of their costs. */

#if !TP__FAST
enum { BATCH = 3, SIDE = 16 };
#else
enum { BATCH = 32, SIDE = 24 }; /* some milliseconds a step */
#endif
enum { CHANNELS = 8, CLASSES = 10, MOST = 2 };

typedef struct net {
    tp_graph *g;
    int n;
    tp_node *x[MOST], *cost[MOST], *total, *train;
    float data[BATCH * SIDE * SIDE * CHANNELS];
    tp_feed feed[MOST];
    tp_device *device[MOST];
    tp_session *session;
} net;

static tp_node *conv(tp_node *x, const char *name, int filters)
{
    return tp_conv2d(x, name, .filters = filters, .kernel_size = 3, .activation = tp_relu);
}

static void net_build(net *n, int devices)
{
    memset(n, 0, sizeof *n);
    n->n = devices;
    n->g = tp_graph_new(NULL);
    for (int i = 0; i < devices; i++) {
        tp_variable_scope_desc scope;
        memset(&scope, 0, sizeof scope);
        scope.reuse = i > 0 ? TP_REUSE_YES : 0;
        tp_device_enter(n->g, i);
        tp_variable_scope_push(n->g, &scope);
        const int64_t dim[4] = {TP_ANY, SIDE, SIDE, CHANNELS};
        n->x[i] = tp_placeholder(n->g, i ? "x1" : "x0", TP_F32, tp_make_shape_n(4, dim));
        tp_node *y = conv(conv(n->x[i], "conv0", 16), "conv1", 16);
        n->cost[i] = tp_mean(tp_square(tp_fully_connected(y, "fc", .units = CLASSES)));
        tp_variable_scope_pop(n->g);
        tp_device_leave(n->g);
    }
    n->total = devices > 1 ? tp_add(n->cost[0], n->cost[1]) : n->cost[0];
    static const char *const names[] = {"conv0/W", "conv0/b", "conv1/W", "conv1/b", "fc/W", "fc/b"};
    tp_node *var[TP_COUNT(names)], *grad[TP_COUNT(names)];
    for (int i = 0; i < TP_COUNT(names); i++) var[i] = tp_find_variable(n->g, names[i])->node;
    tp_gradients(n->total, var, TP_COUNT(names), grad);
    n->train = tp_apply_gradient_descent(var, grad, TP_COUNT(names), tp_const(n->g, 0.1f), NULL);
    for (int i = 0; i < TP_COUNT(n->data); i++) n->data[i] = (float)(i % 17) * 0.1f - 0.8f;
    for (int i = 0; i < devices; i++) {
        const int64_t dim[4] = {BATCH, SIDE, SIDE, CHANNELS};
        n->feed[i].node = n->x[i];
        tp_tensor_view(&n->feed[i].value, TP_F32, tp_make_shape_n(4, dim), n->data);
    }
}

static bool net_new(net *n, int devices, int threads)
{
    net_build(n, devices);
    tp_session_config c = tp_default_session_config();
    if (!CHECK_OK(tp_cpu_devices_new(devices, threads, NULL, n->device))) return false;
    c.devices = n->device;
    c.n_devices = devices;
    n->session = tp_session_new(n->g, &c);
    return CHECK_MSG(n->session != NULL, "%s", tp_last_error());
}

static void net_free(net *n)
{
    tp_session_free(n->session);
    tp_graph_free(n->g);
    for (int i = 0; i < n->n; i++)
        if (n->device[i]) n->device[i]->close(n->device[i]);
}

static tp_status net_step(net *n, const tp_run_options *o)
{
    tp_node *fetch[] = {n->total, n->train};
    return tp_session_run_ex(n->session, o, n->feed, n->n, fetch, 2, NULL);
}

/* ==== >>trace ========================================================================================= */

/* Records of each thread follow each other; the largest part of `wall` that those of a thread leave out. */
static double left_out(const tp_trace *t, int64_t run, int threads, double wall)
{
    double worst = 0;
    for (int thread = 0; thread < threads; thread++) {
        int64_t at = 0;
        double sum = 0;
        for (int64_t i = 0; i < t->n; i++) {
            const tp_trace_record *r = &t->record[i];
            if (r->thread != thread || r->run != run) continue;
            CHECK(r->start <= r->end && r->start >= at);
            CHECK(thread == 0 ? r->kind <= TP_TRACE_FETCH : r->kind == TP_TRACE_WORK || r->kind == TP_TRACE_IDLE);
            at = r->end;
            sum += (double)(r->end - r->start) * 1e-9;
        }
        CHECK_MSG(sum <= wall, "thread %d: %g s in %g s", thread, sum, wall);
        if (wall - sum > worst * wall) worst = (wall - sum) / wall;
    }
    return worst;
}

/* What is traced of a step: each of its kernels, in order, and nearly all of its time. */
static void traced_step(int devices, int threads)
{
    net n;
    if (!net_new(&n, devices, threads)) return;
    tp_node *fetch[] = {n.total, n.train};
    tp_trace t;
    tp_run_options o;
    memset(&t, 0, sizeof t);
    memset(&o, 0, sizeof o);
    o.trace = &t;
    double best = 1, share = 0, took = 0;
    for (int try = 0; try < 40 && best > 0.01; try++) {
        const int64_t first = t.n;
        const double begun = tp_time();
        if (!CHECK_OK(net_step(&n, &o))) break;
        const double wall = tp_time() - begun, out = left_out(&t, try, threads, wall);
        if (try == 0 || out >= best) continue; /* the first one makes the plan */
        best = out;
        took = wall;
        share = 0;
        for (int64_t i = first; i < t.n; i++)
            if (t.record[i].kind == TP_TRACE_KERNEL) share += (double)(t.record[i].end - t.record[i].start);
        share *= 1e-9 / wall;
    }
    CHECK_MSG(best < 0.05 && share > 0.5, "records leave out %g of %g ms, kernels take %g", best, took * 1e3, share);
    /* against the plan */
    tp_plan_info info;
    CHECK_OK(tp_exec_plan_info(tp_session_exec(n.session), fetch, 2, &info));
    int kernels = 0, copies = 0, convolutions = 0, on[MOST] = {0}, work = 0;
    double bytes = 0, flops = 0, fed = 0, fetched = 0;
    for (int64_t i = 0; i < t.n; i++) {
        const tp_trace_record *r = &t.record[i];
        if (r->run != t.n_run - 1) continue;
        kernels += r->kind == TP_TRACE_KERNEL;
        copies += r->kind == TP_TRACE_COPY;
        work += r->kind == TP_TRACE_WORK;
        if (r->kind == TP_TRACE_KERNEL || r->kind == TP_TRACE_COPY) {
            bytes += r->bytes;
            flops += r->flops;
            CHECK(strcmp(r->device, n.device[0]->name) == 0 || strcmp(r->device, n.device[devices - 1]->name) == 0);
            for (int d = 0; d < devices; d++) on[d] += strcmp(r->device, n.device[d]->name) == 0;
        }
        if (r->kind == TP_TRACE_KERNEL && strcmp(r->name, "conv2d") == 0) {
            CHECK(strstr(r->node, "conv") != NULL);
            const double out = (double)BATCH * SIDE * SIDE * 16 * 3 * 3 * 2;
            CHECK(r->flops == out * CHANNELS || r->flops == out * 16);
            convolutions++;
        }
        if (r->kind == TP_TRACE_FEED) fed += r->bytes;
        if (r->kind == TP_TRACE_FETCH) fetched += r->bytes;
        CHECK(r->kind == TP_TRACE_WORK || r->kind == TP_TRACE_IDLE ? r->thread > 0 : r->thread == 0);
    }
    CHECK_MSG(kernels + copies == info.n_steps && copies == info.n_copies, "%d kernels, %d copies, %d steps", kernels,
              copies, info.n_steps);
    CHECK(convolutions == 2 * devices && t.lost == 0);
    CHECK_MSG(bytes == info.bytes && flops == info.flops, "%g and %g bytes, %g and %g FLOPs", bytes, info.bytes, flops,
              info.flops);
    CHECK(fed == (double)sizeof n.data * devices &&
          fetched == (double)(sizeof(float) + (size_t)(n.train->dtype == TP_BOOL ? 0 : 4)));
    for (int d = 0; d < devices; d++) CHECK(on[d] > 0);
    CHECK(threads == 1 ? work == 0 : true);
    tp_trace_free(&t);
    net_free(&n);
}

TEST(a_trace_adds_up_to_the_step_on_one_thread) { traced_step(1, 1); }
#ifndef TP_NO_THREADS
TEST(a_trace_adds_up_to_the_step_on_two_threads) { traced_step(1, 2); }
TEST(a_trace_adds_up_to_the_step_on_two_devices) { traced_step(2, 2); }
#endif

#ifndef TP_NO_THREADS
/* Two chunks that wait for each other, so that each is another thread's. */
static int arrived;
static void both_chunks(void *user, int64_t chunk)
{
    (void)chunk;
    __atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n((int *)user, __ATOMIC_ACQUIRE) < 2)
        ;
}
static void both_kernel(const tp_call *k)
{
    __atomic_store_n(&arrived, 0, __ATOMIC_RELEASE);
    tp_device_parallel(k->device, 2, both_chunks, &arrived);
    memcpy(k->out[0].data, k->in[0].data, sizeof(float));
}
TEST(the_other_threads_of_a_device_are_in_the_trace)
{
    static tp_op row;
    row = *tp_op_find("neg");
    row.name = "both", row.label = "Both", row.flags = TP_OP_RANDOM;
    row.naive_f32 = row.fast = both_kernel;
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_const(g, 3), *y = tp_apply(g, &row, &x, 1, NULL);
    tp_session_config c = tp_default_session_config();
    c.threads = 2;
    tp_session *s = tp_session_new(g, &c);
    tp_trace t;
    tp_run_options o;
    memset(&t, 0, sizeof t);
    memset(&o, 0, sizeof o);
    o.trace = &t;
    const tp_tensor *out = NULL;
    for (int i = 0; i < 3; i++) CHECK_OK(tp_session_run_ex(s, &o, NULL, 0, &y, 1, &out));
    CHECK(out && tp_tensor_get(out, 0) == 3);
    tp_session_free(s); /* the trace has copies */
    tp_graph_free(g);
    memset(&row, 0, sizeof row);
    int64_t kernel = -1;
    int works = 0;
    for (int64_t i = 0; i < t.n; i++) {
        const tp_trace_record *r = &t.record[i];
        if (r->kind == TP_TRACE_KERNEL) kernel = i;
        if (r->kind != TP_TRACE_WORK) continue;
        const tp_trace_record *k = &t.record[kernel];
        CHECK(r->thread == 1 && k->run == r->run && r->start >= k->start && r->end <= k->end);
        CHECK_STR(r->name, "both");
        CHECK_STR(r->node, "Both");
        CHECK_STR(r->device, "cpu:0");
        works++;
    }
    CHECK(works == 3 && t.n_run == 3);
    for (int64_t run = 0; run < 3; run++) {
        left_out(&t, run, 2, 1e9);
        int64_t begun[2] = {0}, ended[2] = {0}; /* of a run each thread has the same time */
        for (int64_t i = 0; i < t.n; i++) {
            const tp_trace_record *r = &t.record[i];
            if (r->run != run) continue;
            if (!begun[r->thread]) begun[r->thread] = r->start;
            ended[r->thread] = r->end;
        }
        CHECK(begun[0] == begun[1] && ended[0] == ended[1] && begun[0] < ended[0]);
    }
    tp_trace_free(&t);
}
#endif

/* -- as a file */

/* One value of a JSON text; NULL: it is none. */
static const char *json(const char *p)
{
    while (p && strchr(" \n\t\r", *p) && *p) p++;
    if (!p || !*p) return NULL;
    if (*p == '"') {
        for (p++; *p != '"'; p++) {
            if ((unsigned char)*p < 32) return NULL;
            if (*p == '\\' && !strchr("\"\\/bfnrtu", *++p)) return NULL;
        }
        return p + 1;
    }
    if (*p == '{' || *p == '[') {
        const char close = *p == '{' ? '}' : ']';
        for (p++;; p++) {
            while (*p && strchr(" \n\t\r", *p)) p++;
            if (*p == close) return p + 1;
            if (close == '}' && (!(p = json(p)) || *p++ != ':')) return NULL;
            if (!(p = json(p))) return NULL;
            while (*p && strchr(" \n\t\r", *p)) p++;
            if (*p == close) return p + 1;
            if (*p != ',') return NULL;
        }
    }
    const size_t n = strspn(p, "+-.0123456789eE");
    return n && p[0] != '.' ? p + n : NULL;
}

/* A trace has each text once, however many there are. */
TEST(a_trace_has_each_text_once)
{
    enum { OPS = 700, RUNS = 2 };
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(1)), *y = x;
    const float one = 1;
    tp_session_config c = tp_default_session_config();
    tp_trace t;
    tp_run_options o;
    tp_feed f;
    const char *node[OPS] = {NULL};
    c.no_fusion = true, c.threads = 1;
    for (int i = 0; i < OPS; i++) y = tp_sin(y);
    tp_session *s = tp_session_new(g, &c);
    memset(&t, 0, sizeof t), memset(&o, 0, sizeof o), memset(&f, 0, sizeof f);
    f.node = x;
    tp_tensor_view(&f.value, TP_F32, tp_make_shape(1), &one);
    o.trace = &t;
    for (int i = 0; i < RUNS; i++) CHECK_OK(tp_session_run_ex(s, &o, &f, 1, &y, 1, NULL));
    tp_session_free(s);
    tp_graph_free(g);
    int n[RUNS] = {0}, others = 0;
    const tp_trace_record *first = NULL;
    for (int64_t i = 0; i < t.n; i++) {
        const tp_trace_record *r = &t.record[i];
        char name[20] = "Sin";
        if (r->kind != TP_TRACE_KERNEL || n[r->run] == OPS) continue;
        const int at = n[r->run]++;
        if (!first) first = r;
        if (at) snprintf(name, sizeof name, "Sin_%d", at);
        CHECK_STR(r->node, name);
        others += r->name != first->name || r->device != first->device;
        if (r->run == 0) node[at] = r->node;
        else others += r->node != node[at];
    }
    CHECK(n[0] == OPS && n[1] == OPS && t.lost == 0);
    CHECK_MSG(others == 0, "%d texts are there twice", others);
    tp_trace_free(&t);
}

TEST(a_trace_is_written_for_chrome)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(4, 4));
    tp_node *y = tp_matmul(x, x);
    tp_session *s = tp_session_new(g, NULL);
    float data[16] = {1, 2, 3};
    tp_feed f;
    memset(&f, 0, sizeof f);
    f.node = x;
    tp_tensor_view(&f.value, TP_F32, tp_make_shape(4, 4), data);
    tp_trace t;
    tp_run_options o;
    memset(&t, 0, sizeof t);
    memset(&o, 0, sizeof o);
    o.trace = &t;
    for (int i = 0; i < 2; i++) CHECK_OK(tp_session_run_ex(s, &o, &f, 1, &y, 1, NULL));
    tp_session_free(s);
    tp_graph_free(g);
    for (int64_t i = 0; i < t.n; i++)
        if (t.record[i].kind == TP_TRACE_KERNEL) t.record[i].node = "a \"quoted\\ name";
    t.record[0].bytes = 0.5;
    t.record[0].kind = TP_TRACE_COPY;
    char path[300];
    snprintf(path, sizeof path, "%s", tp_test_path(tp_test_tmpdir(), "trace.json"));
    CHECK_OK(tp_trace_save(&t, path));
    char *text = NULL;
    size_t size = 0;
    if (!CHECK_OK(tp_file_read(path, false, 0, &text, &size))) return;
    const char *end = json(text);
    CHECK_MSG(end && strcmp(end, "\n") == 0, "no JSON: %.40s", text);
    CHECK(strncmp(text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", 39) == 0);
    CHECK(strstr(text, "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"cpu:0\"}}") != NULL);
    CHECK(strstr(text, "\"node\":\"a \\\"quoted\\\\ name\",\"bytes\":192.0,\"flops\":128.0}") != NULL);
    CHECK(strstr(text, "\"bytes\":0.5,") != NULL);
    int events = 0;
    const char *at = text;
    for (int64_t i = 0; i < t.n; i++) {
        const tp_trace_record *r = &t.record[i];
        long long ts, dur;
        int pid, tid, ts_ns, dur_ns;
        if (r->kind == TP_TRACE_IDLE) continue;
        if (!CHECK((at = strstr(at, "{\"ph\":\"X\"")) != NULL)) break;
        CHECK(sscanf(at, "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%lld.%3d,\"dur\":%lld.%3d,", &pid, &tid, &ts,
                     &ts_ns, &dur, &dur_ns) == 6);
        CHECK(ts * 1000 + ts_ns == r->start - t.record[0].start && dur * 1000 + dur_ns == r->end - r->start);
        CHECK(tid == r->thread && pid == (*r->device ? 1 : 0));
        const char *cat = strstr(at, "\"cat\":\""), *want = r->kind == TP_TRACE_WORK     ? "work\""
                                                            : r->kind == TP_TRACE_KERNEL ? "kernel\""
                                                            : r->kind == TP_TRACE_COPY   ? "copy\""
                                                                                         : "host\"";
        CHECK_MSG(cat && strncmp(cat + 7, want, strlen(want)) == 0, "not %s: %.20s", want, cat ? cat : "nothing");
        at++;
        events++;
    }
    CHECK(events >= 8 && at && strstr(at, "{\"ph\":\"X\"") == NULL);
    tp_free(text);
    CHECK_ERR(tp_trace_save(&t, tp_test_path(tp_test_tmpdir(), "no such folder/trace.json")), TP_ERR_IO, "trace.json");
    tp_trace_free(&t);
    CHECK(t.n == 0 && t.record == NULL);
    CHECK_OK(tp_trace_save(&t, path)); /* of nothing */
    if (CHECK_OK(tp_file_read(path, false, 0, &text, &size))) CHECK(json(text) != NULL);
    tp_free(text);
}

/* -- asked for by a hook */

typedef struct tracer {
    tp_hook hook;
    tp_trace trace;
    bool on;
    int64_t seen; /* records, in after_run */
} tracer;
static tp_status slow_before(tp_hook *h, tp_run_request *r)
{
    (void)h, (void)r;
    const double until = tp_time() + 0.003;
    while (tp_time() < until)
        ;
    return TP_OK;
}
static tp_status trace_before(tp_hook *h, tp_run_request *r)
{
    tracer *t = (tracer *)h->user;
    return t->on ? tp_request_trace(r, &t->trace) : TP_OK;
}
static tp_status trace_after(tp_hook *h, const tp_run_values *v)
{
    (void)v;
    ((tracer *)h->user)->seen = ((tracer *)h->user)->trace.n;
    return TP_OK;
}

TEST(a_hook_asks_for_a_trace)
{
    tp_graph *g = tp_graph_new(NULL);
    const int64_t four = 4;
    tp_node *v = tp_get_variable_as(g, "v", TP_F32, tp_make_shape_n(1, &four), tp_init_ones());
    tp_node *y = tp_assign_add(v, v, NULL);
    tp_session *s = tp_session_new(g, NULL);
    tracer t[2];
    tp_hook slow, *hooks[3] = {&slow, &t[0].hook, &t[1].hook};
    memset(&t, 0, sizeof t);
    memset(&slow, 0, sizeof slow);
    slow.before_run = slow_before;
    for (int i = 0; i < 2; i++) {
        t[i].hook.user = &t[i];
        t[i].hook.before_run = trace_before;
        t[i].hook.after_run = trace_after;
    }
    tp_hooked_session *h = tp_hooked_session_new(s, hooks, 3);
    CHECK_OK(tp_hooked_run(h, &y, 1, NULL));
    CHECK(t[0].seen == 0 && t[0].trace.n == 0);
    t[0].on = true;
    CHECK_OK(tp_hooked_run(h, &y, 1, NULL));
    const int64_t n = t[0].seen;
    if (CHECK(n >= 5 && t[0].trace.n == n && t[0].trace.n_run == 1)) {
        const tp_trace_record *r = t[0].trace.record;
        CHECK(r[0].kind == TP_TRACE_HOOKS && r[0].end - r[0].start >= 3000000);
        CHECK(r[1].kind == TP_TRACE_PLAN && r[2].kind == TP_TRACE_FEED && r[3].kind == TP_TRACE_KERNEL);
        left_out(&t[0].trace, 0, 1, 1e9);
    }
    t[1].on = true;
    CHECK_ERR(tp_hooked_run(h, &y, 1, NULL), TP_ERR_ARG, "two hooks trace one run");
    CHECK(t[1].trace.n == 0 && t[0].trace.n == n + 1); /* the hooks' part is there */
    t[1].on = t[0].on = false;
    CHECK_OK(tp_hooked_run(h, &y, 1, NULL));
    CHECK(t[0].trace.n == n + 1);
    tp_trace_free(&t[0].trace);
    tp_trace_free(NULL);
    tp_hooked_session_free(h);
    tp_session_free(s);
    tp_graph_free(g);
}

/* -- without memory the run goes on, and the trace tells */

TEST(a_trace_without_memory_costs_no_run)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_const(g, 3), *v = tp_get_variable_as(g, "v", TP_F32, tp_make_shape_n(0, NULL), tp_init_ones());
    tp_node *y = tp_mul(v, x);
    tp_session_config c = tp_default_session_config();
#ifndef TP_NO_THREADS
    c.threads = 2;
#endif
    tp_session *s = tp_session_new(g, &c);
    CHECK_OK(tp_session_run(s, NULL, 0, &y, 1, NULL));
    const long live = tp_test_live_blocks();
    int64_t whole = 0;
    for (long n = 1, failed = 1; failed; n++) {
        tp_trace t;
        tp_run_options o;
        memset(&t, 0, sizeof t);
        memset(&o, 0, sizeof o);
        o.trace = &t;
        const tp_tensor *out = NULL;
        tp_test_fail_after(n);
        const tp_status st = tp_session_run_ex(s, &o, NULL, 0, &y, 1, &out);
        failed = tp_test_alloc_failed();
        CHECK(st == TP_OK && out && tp_tensor_get(out, 0) == 3);
        if (!failed) CHECK(t.lost == 0 && t.n >= 4);
        for (int64_t i = 0; i < t.n; i++) CHECK(t.record[i].name && t.record[i].node && t.record[i].device);
        whole = t.n;
        tp_trace_free(&t);
        CHECK(tp_test_live_blocks() == live);
    }
    tp_test_alloc_reset();
    CHECK(whole >= 4);
    tp_session_free(s);
    tp_graph_free(g);
}

/* -- with and without a trace: the same bits */

TEST(a_trace_changes_no_bit)
{
    net n[2];
    tp_tensor w[2];
    tp_trace t;
    tp_run_options o;
    memset(&w, 0, sizeof w);
    memset(&t, 0, sizeof t);
    memset(&o, 0, sizeof o);
    o.trace = &t;
    for (int i = 0; i < 2; i++) {
        if (!net_new(&n[i], 1, 1)) return;
        for (int k = 0; k < 2; k++) CHECK_OK(net_step(&n[i], i ? &o : NULL));
        CHECK_OK(tp_session_read(n[i].session, tp_find_variable(n[i].g, "conv0/W"), &w[i]));
    }
    CHECK(tp_tensor_bytes(&w[0]) == tp_tensor_bytes(&w[1]) &&
          memcmp(w[0].data, w[1].data, tp_tensor_bytes(&w[0])) == 0);
    for (int i = 0; i < 2; i++) {
        tp_tensor_free(&w[i]);
        net_free(&n[i]);
    }
    tp_trace_free(&t);
}

/* ==== >>time limits =================================================================================== */

static void nap(double seconds)
{
    const double until = tp_time() + seconds;
    while (tp_time() < until) {
        const struct timespec t = {0, 200000};
        nanosleep(&t, NULL);
    }
}

/* Two rows: a kernel that stands at a gate until it is opened, or for a while, and one that counts how often it runs. Both
 * hand on what they are given. */
static struct {
    int shut, entered, counted; /* atomic */
    double seconds;
} gate;
static tp_op gate_row, count_row;
static void gate_kernel(const tp_call *k)
{
    __atomic_add_fetch(&gate.entered, 1, __ATOMIC_ACQ_REL);
    if (gate.seconds > 0) nap(gate.seconds);
    while (__atomic_load_n(&gate.shut, __ATOMIC_ACQUIRE)) nap(0.0002);
    memcpy(k->out[0].data, k->in[0].data, sizeof(float));
}
static void count_kernel(const tp_call *k)
{
    __atomic_add_fetch(&gate.counted, 1, __ATOMIC_ACQ_REL);
    memcpy(k->out[0].data, k->in[0].data, sizeof(float));
}
static tp_node *with(tp_op *row, const char *name, tp_kernel_fn fn, tp_node *x, tp_node *reads)
{
    *row = *tp_op_find("neg");
    row->name = row->label = name;
    row->flags = TP_OP_RANDOM; /* neither fused nor folded */
    row->naive_f32 = row->fast = fn;
    tp_apply_desc d;
    memset(&d, 0, sizeof d);
    d.row = row, d.in = &x, d.n_in = 1;
    d.vars = &reads, d.n_var = reads ? 1 : 0;
    return tp_apply_ex(x->op->graph, &d);
}

/* v += a random number that has passed the gate and was counted; or, `late`, v += 1 before the gate. */
typedef struct gated {
    tp_graph *g;
    tp_variable *v;
    tp_node *y;
    tp_session *s;
} gated;
static gated gated_new(bool late)
{
    gated n;
    const tp_shape scalar = tp_make_shape_n(0, NULL);
    memset(&gate, 0, sizeof gate);
    n.g = tp_graph_new(NULL);
    tp_node *v = tp_get_variable_as(n.g, "v", TP_F32, scalar, tp_init_zeros());
    tp_node *x = late ? tp_assign_add(v, tp_const(n.g, 1), NULL) : tp_rand_uniform(n.g, scalar, 1, 2);
    x = with(&gate_row, "gate", gate_kernel, x, v); /* it may read the variable, which changes nothing */
    x = with(&count_row, "count", count_kernel, x, NULL);
    n.y = late ? x : tp_assign_add(v, x, NULL);
    n.v = tp_find_variable(n.g, "v");
    n.s = tp_session_new(n.g, NULL);
    CHECK_MSG(n.s != NULL, "%s", tp_last_error());
    return n;
}
static double gated_value(const gated *n)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    CHECK_OK(tp_session_read(n->s, n->v, &t));
    const double v = tp_tensor_get(&t, 0);
    tp_tensor_free(&t);
    return v;
}
static void gated_free(gated *n)
{
    tp_session_free(n->s);
    tp_graph_free(n->g);
}

TEST(a_run_out_of_time_has_changed_nothing)
{
    gated n = gated_new(false), twin;
    tp_exec *e = tp_session_exec(n.s);
    tp_run_options o;
    memset(&o, 0, sizeof o);
    o.timeout_ms = 5;
    gate.seconds = 0.02;
    CHECK_ERR(tp_exec_run_ex(e, &o, NULL, 0, &n.y, 1, NULL), TP_ERR_TIMEOUT,
              "the run was not over after its 5 ms and has changed no variable: it stood before 'count'");
    CHECK(gate.entered == 1 && gate.counted == 0 && gated_value(&n) == 0 && tp_exec_random_step(e) == 0);
    o.timeout_ms = 60000;
    for (int i = 0; i < 2; i++) CHECK_OK(tp_exec_run_ex(e, &o, NULL, 0, &n.y, 1, NULL));
    CHECK(gate.counted == 2 && tp_exec_random_step(e) == 2);
    const double v = gated_value(&n);
    o.timeout_ms = -5;
    CHECK_ERR(tp_exec_run_ex(e, &o, NULL, 0, &n.y, 1, NULL), TP_ERR_ARG, "-5 ms");
    gated_free(&n);
    twin = gated_new(false); /* never stopped: the same bits */
    for (int i = 0; i < 2; i++) CHECK_OK(tp_session_run(twin.s, NULL, 0, &twin.y, 1, NULL));
    CHECK_MSG(v > 2 && gated_value(&twin) == v, "%.9g and %.9g", v, gated_value(&twin));
    gated_free(&twin);
}

TEST(a_run_that_writes_variables_goes_on_to_its_end)
{
    gated n = gated_new(true);
    tp_run_options o;
    memset(&o, 0, sizeof o);
    o.timeout_ms = 5;
    gate.seconds = 0.02;
    CHECK_OK(tp_session_run_ex(n.s, &o, NULL, 0, &n.y, 1, NULL));
    CHECK(gate.counted == 1 && gated_value(&n) == 1 && tp_exec_random_step(tp_session_exec(n.s)) == 1);
    gated_free(&n);
}

#ifndef TP_NO_THREADS
/* A run in a thread of its own. */
typedef struct runner {
    tp_exec *exec;
    tp_node *y;
    tp_hooked_session *hooked;
    tp_status status;
    char sentence[512];
    int over; /* atomic */
    double value;
    tp_thread *thread;
} runner;
static void runner_main(void *user)
{
    runner *r = (runner *)user;
    const tp_tensor *out = NULL;
    r->status = r->hooked ? tp_hooked_run(r->hooked, &r->y, 1, &out) : tp_exec_run(r->exec, NULL, 0, &r->y, 1, &out);
    if (r->status != TP_OK) snprintf(r->sentence, sizeof r->sentence, "%s", tp_last_error());
    else if (out) r->value = tp_tensor_get(out, 0);
    __atomic_store_n(&r->over, 1, __ATOMIC_RELEASE);
}
static void runner_start(runner *r, tp_exec *e, tp_hooked_session *h, tp_node *y)
{
    memset(r, 0, sizeof *r);
    r->exec = e;
    r->hooked = h;
    r->y = y;
    CHECK_OK(tp_thread_start(&r->thread, runner_main, r));
}
static void wait_for(const int *what, int n)
{
    const double until = tp_time() + 20;
    while (__atomic_load_n(what, __ATOMIC_ACQUIRE) < n && tp_time() < until) nap(0.0002);
    CHECK(__atomic_load_n(what, __ATOMIC_ACQUIRE) >= n);
}

TEST(a_run_is_cancelled_between_kernels)
{
    gated n = gated_new(false);
    runner r;
    CHECK(tp_session_cancel(n.s) == 0); /* nothing is going on, and what begins now is not meant */
    CHECK_OK(tp_session_run(n.s, NULL, 0, &n.y, 1, NULL));
    const double v = gated_value(&n);
    gate.shut = 1;
    runner_start(&r, tp_session_exec(n.s), NULL, n.y);
    wait_for(&gate.entered, 2);
    CHECK(tp_session_cancel(n.s) == 1);
    CHECK(__atomic_load_n(&r.over, __ATOMIC_ACQUIRE) == 0); /* a kernel is not interrupted */
    __atomic_store_n(&gate.shut, 0, __ATOMIC_RELEASE);
    tp_thread_join(r.thread);
    CHECK(r.status == TP_ERR_CANCELLED);
    CHECK_STR(tp_status_name(r.status), "TP_ERR_CANCELLED");
    CHECK_HAS(r.sentence, "the run was cancelled and has changed no variable: it stood before 'count'");
    CHECK(gate.counted == 1 && gated_value(&n) == v && tp_exec_random_step(tp_session_exec(n.s)) == 1);
    CHECK(tp_session_cancel(n.s) == 0);
    CHECK_OK(tp_session_run(n.s, NULL, 0, &n.y, 1, NULL)); /* the session is as it was */
    CHECK(gate.counted == 2 && gated_value(&n) > v);
    gated_free(&n);
}

TEST(cancelled_too_late)
{
    gated n = gated_new(true);
    runner r;
    gate.shut = 1;
    runner_start(&r, tp_session_exec(n.s), NULL, n.y);
    wait_for(&gate.entered, 1);
    CHECK(tp_session_cancel(n.s) == 1);
    __atomic_store_n(&gate.shut, 0, __ATOMIC_RELEASE);
    tp_thread_join(r.thread);
    CHECK(r.status == TP_OK && r.value == 1 && gate.counted == 1 && gated_value(&n) == 1);
    gated_free(&n);
}

TEST(all_runs_of_a_session_are_cancelled)
{
    enum { N = 3 };
    gated n = gated_new(false);
    tp_exec *e[N];
    runner r[N];
    gate.shut = 1;
    for (int i = 0; i < N; i++) runner_start(&r[i], e[i] = tp_exec_new(n.s), NULL, n.y);
    wait_for(&gate.entered, N);
    CHECK(tp_session_cancel(n.s) == N);
    runner later; /* is none of them */
    tp_exec *f = tp_exec_new(n.s);
    runner_start(&later, f, NULL, n.y);
    wait_for(&gate.entered, N + 1);
    __atomic_store_n(&gate.shut, 0, __ATOMIC_RELEASE);
    for (int i = 0; i < N; i++) {
        tp_thread_join(r[i].thread);
        CHECK(r[i].status == TP_ERR_CANCELLED);
        tp_exec_free(e[i]);
    }
    tp_thread_join(later.thread);
    CHECK(later.status == TP_OK && later.value > 0);
    tp_exec_free(f);
    gated_free(&n);
}

/* -- a queue that waits for data */

/* Datapoint i is the number i; each waits until `ready` is more than that. */
static int ready, asked; /* atomic */
static tp_status slow_data(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    (void)user, (void)pass;
    __atomic_add_fetch(&asked, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) <= i) nap(0.0002);
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape_n(0, NULL));
    if (st == TP_OK) tp_tensor_set(&dp->c[0], 0, (double)i);
    return st;
}

TEST(a_queue_that_waits_for_data_is_cancelled)
{
    ready = asked = 0;
    tp_graph *g = tp_graph_new(NULL);
    tp_input_source *in = tp_queue_input(.df = tp_df_from_generator(.fn = slow_data));
    const tp_spec spec = {"x", TP_F32, {0, {0}}};
    tp_node *x = NULL;
    CHECK_OK(tp_input_setup(in, g, &spec, 1));
    CHECK_OK(tp_input_get_tensors(in, &x));
    tp_node *y = tp_add(x, tp_const(g, 10));
    tp_session *s = tp_session_new(g, NULL);
    int n_hooks = 0;
    tp_hook *const *hooks = tp_input_hooks(in, &n_hooks);
    tp_hooked_session *h = tp_hooked_session_new(s, hooks, n_hooks);
    for (int i = 0; i < n_hooks; i++)
        if (hooks[i]->after_create_session) CHECK_OK(hooks[i]->after_create_session(hooks[i], s));
    CHECK_OK(tp_input_reset_state(in));
    runner r;
    runner_start(&r, NULL, h, y);
    wait_for(&asked, 1);
    while (tp_session_cancel(s) == 0) nap(0.0002); /* the run may not have begun */
    tp_thread_join(r.thread);
    CHECK(r.status == TP_ERR_CANCELLED);
    CHECK_HAS(r.sentence, "cancelled and has changed no variable: QueueInput waited for data");
    /* the time is over; twice, and the second time a part of that was spent */
    tp_hooked_session_set_timeout(h, 15);
    for (int i = 0; i < 2; i++) {
        const double begun = tp_time();
        CHECK_ERR(tp_hooked_run(h, &y, 1, NULL), TP_ERR_TIMEOUT,
                  "after its 15 ms and has changed no variable: QueueInput");
        CHECK_MSG(tp_time() - begun >= 0.015 && tp_time() - begun < 5, "%g s", tp_time() - begun);
    }
    /* and on it goes, with the first datapoint */
    tp_hooked_session_set_timeout(h, 60000);
    for (int i = 0; i < 3; i++) {
        const tp_tensor *out = NULL;
        __atomic_store_n(&ready, i + 1, __ATOMIC_RELEASE);
        CHECK_OK(tp_hooked_run(h, &y, 1, &out));
        CHECK(out && tp_tensor_get(out, 0) == 10 + i && in->consumed == i + 1);
    }
    __atomic_store_n(&ready, 1 << 20, __ATOMIC_RELEASE);
    tp_hooked_session_free(h);
    tp_session_free(s);
    tp_input_free(in);
    tp_graph_free(g);
}

/* -- a training that waits for data */

static tp_node *build_cost(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape_n(0, NULL), tp_init_ones());
    return tp_mul(w, in[0]);
}
static tp_optimizer *build_sgd(tp_graph *g, void *user)
{
    (void)user;
    return tp_sgd(tp_const(g, 0.5f));
}
static tp_session *session_of_training; /* atomic */
static int steps_done;                  /* atomic */
static tp_status note_step(tp_callback *cb)
{
    (void)cb;
    __atomic_add_fetch(&steps_done, 1, __ATOMIC_ACQ_REL);
    return TP_OK;
}
static tp_status note_session(tp_callback *cb)
{
    __atomic_store_n(&session_of_training, cb->train->session, __ATOMIC_RELEASE);
    return TP_OK;
}
static void train_main(void *user)
{
    runner *r = (runner *)user;
    static const tp_spec spec = {"x", TP_F32, {0, {0}}};
    tp_callback *note = tp_callback_new("Note", 0);
    note->before_train = note_session;
    note->trigger_step = note_step;
    tp_train_config c;
    memset(&c, 0, sizeof c);
    c.model.inputs = &spec;
    c.model.n_inputs = 1;
    c.model.build_graph = build_cost;
    c.model.optimizer = build_sgd;
    c.data = tp_queue_input(.df = tp_df_from_generator(.fn = slow_data));
    c.callbacks = &note;
    c.n_callbacks = 1;
    c.n_extra_callbacks = c.n_monitors = TP_NONE;
    c.steps_per_epoch = 10;
    c.max_epoch = 1;
    r->status = tp_launch_train_with_config(&c, tp_simple_trainer());
    snprintf(r->sentence, sizeof r->sentence, "%s", tp_last_error());
}
TEST(a_training_that_waits_for_data_is_cancelled)
{
    ready = asked = steps_done = 0;
    session_of_training = NULL;
    runner r;
    memset(&r, 0, sizeof r);
    TEST_MAY_ERROR("");
    CHECK_OK(tp_thread_start(&r.thread, train_main, &r));
    __atomic_store_n(&ready, 3, __ATOMIC_RELEASE); /* three steps, then nothing comes */
    wait_for(&steps_done, 3);
    tp_session *s = __atomic_load_n(&session_of_training, __ATOMIC_ACQUIRE);
    if (CHECK(s != NULL))
        while (tp_session_cancel(s) == 0) nap(0.0002);
    __atomic_store_n(&ready, 1 << 20, __ATOMIC_RELEASE); /* for the thread of the queue, which is joined */
    tp_thread_join(r.thread);
    CHECK_MSG(r.status == TP_ERR_CANCELLED, "%s: %s", tp_status_name(r.status), r.sentence);
    CHECK_HAS(r.sentence, "the run was cancelled");
}

/* -- a wait of a hook's own */

typedef struct waiter {
    tp_hook hook;
    tp_mutex *m;
    tp_cond *c;
    int woken, waits; /* with the mutex */
} waiter;
static tp_status wait_before(tp_hook *h, tp_run_request *r)
{
    waiter *w = (waiter *)h->user;
    tp_status st = TP_OK;
    tp_mutex_lock(w->m);
    for (w->waits = 0; !w->woken && st == TP_OK; w->waits++) st = tp_request_wait(r, w->c, w->m, "the waiter waited");
    w->woken = 0;
    tp_mutex_unlock(w->m);
    return st;
}
TEST(hooks_wait_no_longer_than_their_run)
{
    waiter w;
    memset(&w, 0, sizeof w);
    w.hook.user = &w;
    w.hook.before_run = wait_before;
    w.m = tp_mutex_new();
    w.c = tp_cond_new();
    tp_hook *hook = &w.hook;
    tp_graph *g = tp_graph_new(NULL);
    tp_node *y = tp_const(g, 4);
    tp_session *s = tp_session_new(g, NULL);
    tp_hooked_session *h = tp_hooked_session_new(s, &hook, 1);
    tp_hooked_session_set_timeout(h, 1);
    CHECK_ERR(tp_hooked_run(h, &y, 1, NULL), TP_ERR_TIMEOUT, "the waiter waited");
    tp_hooked_session_set_timeout(h, 0);
    runner r;
    runner_start(&r, NULL, h, y);
    nap(0.003);
    tp_mutex_lock(w.m);
    w.woken = 1;
    tp_cond_signal(w.c);
    tp_mutex_unlock(w.m);
    tp_thread_join(r.thread);
    CHECK(r.status == TP_OK && r.value == 4);
    tp_hooked_session_free(h);
    tp_session_free(s);
    tp_graph_free(g);
    tp_cond_free(w.c);
    tp_mutex_free(w.m);
}
#endif

/* ==== >>feeds on a device ============================================================================= */

static tp_status feed_before(tp_hook *h, tp_run_request *r)
{
    const tp_feed *f = (const tp_feed *)h->user;
    return tp_request_feed(r, f->node, &f->value);
}

TEST(a_tensor_on_a_device_is_fed)
{
    tp_device *d[3];
    if (!CHECK_OK(tp_cpu_devices_new(3, 1, NULL, d))) return;
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x[2], *y[2];
    for (int i = 0; i < 2; i++) {
        tp_device_enter(g, i);
        x[i] = tp_placeholder(g, i ? "x1" : "x0", TP_F32, tp_make_shape(TP_ANY));
        y[i] = tp_affine(x[i], 2, 1);
        tp_device_leave(g);
    }
    tp_session_config c = tp_default_session_config();
    c.devices = d;
    c.n_devices = 2; /* the third is nobody's */
    tp_session *s = tp_session_new(g, &c);
    float data[3] = {1, 2, 3};
    tp_tensor host, there[3];
    memset(&host, 0, sizeof host);
    memset(there, 0, sizeof there);
    tp_tensor_view(&host, TP_F32, tp_make_shape(3), data);
    for (int i = 0; i < 3; i++) CHECK_OK(tp_tensor_to_device(&there[i], d[i], &host));
    data[0] = data[1] = data[2] = 100;
    const tp_tensor *out = NULL;
    for (int node = 0; node < 2; node++)
        for (int on = 0; on < 3; on++) {
            tp_feed f;
            memset(&f, 0, sizeof f);
            f.node = x[node];
            f.value = there[on];
            if (on == 2) {
                CHECK_ERR(tp_session_run(s, &f, 1, &y[node], 1, &out), TP_ERR_ARG,
                          "is fed a tensor that lies on a device (cpu:2) which is none of this session's");
                continue;
            }
            for (int run = 0; run < 2; run++) { /* it is still there */
                CHECK_OK(tp_session_run(s, &f, 1, &y[node], 1, &out));
                CHECK(out && tp_tensor_size(out) == 3 && tp_tensor_get(out, 0) == 3 && tp_tensor_get(out, 2) == 7);
            }
            tp_hook hook, *hooks = &hook;
            memset(&hook, 0, sizeof hook);
            hook.user = &f;
            hook.before_run = feed_before;
            tp_hooked_session *h = tp_hooked_session_new(s, &hooks, 1);
            CHECK_OK(tp_hooked_run(h, &y[node], 1, &out));
            CHECK(out && tp_tensor_get(out, 1) == 5);
            tp_hooked_session_free(h);
            tp_predictor *p = tp_online_predictor(s, &x[node], 1, &y[node], 1);
            CHECK_OK(tp_predict(p, &there[on], &out));
            CHECK(out && tp_tensor_get(out, 1) == 5);
            tp_predictor_free(p);
        }
    /* the same checks as for what the host has */
    tp_feed f;
    memset(&f, 0, sizeof f);
    f.node = x[0];
    const double sevens[2] = {7, 7};
    tp_tensor_view(&host, TP_F64, tp_make_shape(2), sevens);
    CHECK_OK(tp_tensor_to_device(&there[0], d[0], &host));
    f.value = there[0];
    CHECK_ERR(tp_session_run(s, &f, 1, &y[0], 1, &out), TP_ERR_DTYPE, "'x0' is float32 but is fed float64");
    /* from device to device there is no way but the host's; back and forth; stage where there is nothing to stage */
    CHECK_ERR(tp_tensor_to_device(&there[1], d[1], &there[0]), TP_ERR_ARG, "from another one, in host memory");
    CHECK_OK(tp_tensor_copy(&host, &there[0]));
    CHECK(host.device == NULL && host.data == host.own && tp_tensor_get(&host, 1) == 7);
    CHECK_OK(tp_tensor_stage(&there[1], d[1], &host));
    CHECK(there[1].device == d[1] && there[1].dtype == TP_F64);
    CHECK_OK(tp_tensor_unstage(&there[1]));
    CHECK_OK(tp_tensor_copy(&there[1], &there[1])); /* in place: the host's from now on */
    CHECK(there[1].device == NULL && tp_tensor_get(&there[1], 0) == 7);
    CHECK_OK(tp_tensor_resize(&there[2], TP_I32, tp_make_shape(1)));
    CHECK(there[2].device == NULL && there[2].data == there[2].own);
    const int32_t one = 1;
    tp_tensor_view(&there[0], TP_I32, tp_make_shape(1), &one); /* its room on the device is kept */
    CHECK(there[0].device == NULL && tp_tensor_get(&there[0], 0) == 1);
    CHECK_OK(tp_tensor_copy(&there[0], &there[0]));
    CHECK(there[0].device == NULL && tp_tensor_get(&there[0], 0) == 1 && there[0].data != &one);
    CHECK_OK(tp_tensor_unstage(&there[0]));
    CHECK_OK(tp_tensor_to_device(&there[2], d[2], &host));
    for (int i = 0; i < 3; i++) d[i]->close(d[i]); /* they stay until nobody is on them */
    for (int i = 0; i < 3; i++) tp_tensor_free(&there[i]);
    tp_tensor_free(&host);
    tp_session_free(s);
    tp_graph_free(g);
}

/* ==== >>fewer datapoints than towers ================================================================== */

static int last = 7; /* how many datapoints there are */
static tp_status count_up(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    (void)user, (void)pass;
    if (i >= last) return TP_END;
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape_n(0, NULL));
    if (st == TP_OK) tp_tensor_set(&dp->c[0], 0, (double)i);
    return st;
}

static tp_status ask_before(tp_hook *h, tp_run_request *r)
{
    *(int *)h->user = tp_request_datapoints(r);
    return TP_OK;
}

/* Seven datapoints on three towers: two runs of all of them, and one run of the first. */
TEST(the_remainder_runs_on_the_first_towers)
{
    enum { TOWERS = 3 };
    for (int shared = 0; shared < 2; shared++) {
        tp_queue *queue = shared ? tp_queue_new(4) : NULL;
        tp_graph *g = tp_graph_new(NULL);
        tp_input_source *in =
            tp_queue_input(.df = tp_df_from_generator(.fn = count_up), .infinite = TP_NO, .queue = queue);
        const tp_spec spec = {"x", TP_F32, {0, {0}}};
        tp_node *x[TOWERS], *y[TOWERS];
        CHECK_OK(tp_input_setup(in, g, &spec, 1));
        for (int i = 0; i < TOWERS; i++) {
            CHECK_OK(tp_input_get_tensors(in, &x[i]));
            y[i] = tp_affine(x[i], 1, 10);
        }
        tp_session *s = tp_session_new(g, NULL);
        int n_hooks = 0;
        tp_hook *const *hooks = tp_input_hooks(in, &n_hooks);
        tp_hooked_session *h = tp_hooked_session_new(s, hooks, n_hooks);
        const tp_tensor *out[TOWERS];
        for (int run = 0; run < 2; run++) {
            CHECK_OK(tp_hooked_run(h, y, TOWERS, out));
            for (int i = 0; i < TOWERS; i++) CHECK(tp_tensor_get(out[i], 0) == 10 + 3 * run + i);
        }
        CHECK(in->consumed == 6);
        CHECK(tp_hooked_run(h, y, TOWERS, out) == TP_END); /* one is left, and held */
        tp_hooked_session_set_datapoints(h, 1);
        CHECK_ERR(tp_hooked_run(h, &y[1], 1, out), TP_ERR_ARG, "x");
        CHECK(in->consumed == 6);
        CHECK_OK(tp_hooked_run(h, y, 1, out));
        CHECK(tp_tensor_get(out[0], 0) == 16 && in->consumed == 7);
        CHECK(tp_hooked_run(h, y, 1, out) == TP_END);
        tp_hooked_session_free(h);
        tp_session_free(s);
        tp_input_free(in);
        tp_graph_free(g);
        tp_queue_free(queue);
    }
    /* any number in any order, and after runs that failed with more of them held */
    last = 1 << 20;
    tp_graph *g = tp_graph_new(NULL);
    tp_input_source *in = tp_queue_input(.df = tp_df_from_generator(.fn = count_up), .capacity = 2);
    const tp_spec spec = {"x", TP_F32, {0, {0}}};
    tp_node *x[TOWERS], *bad[TOWERS + 1];
    CHECK_OK(tp_input_setup(in, g, &spec, 1));
    for (int i = 0; i < TOWERS; i++) {
        CHECK_OK(tp_input_get_tensors(in, &x[i]));
        bad[i] = x[i];
    }
    bad[TOWERS] = tp_placeholder(g, "never fed", TP_F32, tp_make_shape_n(0, NULL));
    tp_session *s = tp_session_new(g, NULL);
    int n_hooks = 0, next = 0, asked_for = -1;
    tp_hook *const *hooks = tp_input_hooks(in, &n_hooks);
    tp_hook asker, *both[2] = {hooks[0], &asker};
    CHECK(n_hooks == 1);
    memset(&asker, 0, sizeof asker);
    asker.user = &asked_for;
    asker.before_run = ask_before;
    tp_hooked_session *h = tp_hooked_session_new(s, both, 2);
    for (int run = 0; run < 40; run++) {
        const tp_tensor *out[TOWERS] = {NULL, NULL, NULL};
        const int n = (run * run + run / 3) % (TOWERS + 1), all = n ? n : TOWERS;
        if (run % 5 == 1) {
            tp_hooked_session_set_datapoints(h, 0);
            CHECK(tp_hooked_run(h, bad, TOWERS + 1, NULL) == TP_ERR_ARG);
        }
        tp_hooked_session_set_datapoints(h, n);
        CHECK_OK(tp_hooked_run(h, x, all, out));
        for (int i = 0; i < all; i++) CHECK(out[i] && tp_tensor_get(out[i], 0) == next + i);
        next += all;
        CHECK(in->consumed == next && asked_for == n);
    }
    tp_hooked_session_free(h);
    tp_session_free(s);
    tp_input_free(in);
    tp_graph_free(g);
    last = 7;
}

TEST_MAIN()
