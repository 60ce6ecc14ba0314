/* Sessions with several devices: where ops run and variables live, what is copied between devices and when, recordings, and a
 * device whose memory the host cannot read. All of it must give the bits of one device. */
#define TP_IMPLEMENTATION
#define TP_STATIC /* private functions are tested too */
#include "tp_export.h"
#include "tp_layers.h"
#include "tp_optim.h"
#include "tp_train.h"
#include "tp_help.h"

#include <sys/mman.h>

/* ==== >>remote ======================================================================================== */
/* A device that keeps its memory to itself: pages that nobody can touch but while one of its kernels or copies runs. Its
 * kernels are the rows' naive loops. A recording is the list of calls. What is asked for arrives when the device is waited
 * for. */

enum { MAX_BLOCKS = 512, MAX_CALLS = 1024, MAX_AFTER = 32768, MAX_LATE = 64 };

typedef struct block {
    char *data;
    size_t bytes;
} block;
struct remote;
typedef struct entry { /* a kernel; or a copy to a device from another; or a sum */
    tp_call call;
    tp_device *to, *from;
    void *dst;
    const void *src;
    size_t bytes;
    struct together *sum;
} entry;
typedef struct recording {
    entry at[MAX_CALLS];
    struct remote *joined[4];
    int n, n_joined;
    /* Step i has the entries entry[i] to entry[i + 1] - 1, and runs after the steps after[first[i]] to after[first[i + 1] - 1]. */
    int n_step, entry[MAX_CALLS + 1], first[MAX_CALLS + 1], after[MAX_AFTER];
} recording;
typedef struct together { /* what all_reduce was asked for */
    tp_device *d[4];
    const void *in[4];
    void *out[4];
    int n;
    int64_t count;
    bool mean;
} together;
typedef struct delivery {
    void *to;
    char *data;
    size_t bytes;
} delivery;
typedef struct remote {
    tp_device d;
    block at[MAX_BLOCKS];
    int n, live, allocs, fail_alloc; /* fail_alloc: the device is full from that one on; 0: never */
    int launches, replays, records, freed, uploads, downloads, peer_copies;
    int beside;     /* how often a replay could choose between steps */
    recording *now; /* being recorded */
    bool fail_end, fail_begin;
    char *staged[4];
    size_t staged_bytes[4];
    int waiting, stages, fail_stage; /* fail_stage: that one fails */
    delivery late[MAX_LATE];
    int n_late;
    /* For devices that run at the same time. busy: it has work that no replay on another device has waited for. behind: a
     * replay on another device used its memory, and it has not waited for that replay yet. */
    bool busy, behind;
} remote;

/* A device may fail at any call: call number fail_call of all devices does. fatal: the run cannot go on without it. */
static int device_calls, fail_call;
static bool failed_fatally;
static tp_status gone(bool fatal)
{
    if (++device_calls != fail_call) return TP_OK;
    failed_fatally = fatal;
    return tp_fail(TP_ERR_IO, "call %d: the device is gone", device_calls);
}

static void remote_open(tp_device *d, int protection)
{
    remote *r = (remote *)d->impl;
    for (int i = 0; i < r->n; i++)
        if (r->at[i].data) CHECK(mprotect(r->at[i].data, r->at[i].bytes, protection) == 0);
}
static void *remote_alloc(tp_device *d, size_t bytes)
{
    remote *r = (remote *)d->impl;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), all = (bytes + page) / page * page;
    int i = 0;
    while (i < r->n && r->at[i].data) i++;
    if (i == MAX_BLOCKS || (r->fail_alloc && r->allocs + 1 >= r->fail_alloc)) return NULL;
    void *p = NULL;
    if (posix_memalign(&p, page, all) != 0) return NULL;
    if (i == r->n) r->n++;
    r->at[i].data = (char *)p;
    r->at[i].bytes = all;
    r->live++;
    r->allocs++;
    memset(p, 0xee, all); /* nobody may count on zeros */
    remote_open(d, PROT_NONE);
    return p;
}
static void remote_free(tp_device *d, void *p)
{
    remote *r = (remote *)d->impl;
    int i = 0;
    if (!p) return;
    while (i < r->n && r->at[i].data != p) i++;
    if (!CHECK(i < r->n)) return;
    CHECK(mprotect(p, r->at[i].bytes, PROT_READ | PROT_WRITE) == 0);
    free(p);
    r->at[i].data = NULL;
    r->live--;
}
static tp_status remote_move(tp_device *d, void *dst, const void *src, size_t bytes)
{
    CHECK(((remote *)d->impl)->now == NULL); /* nothing of the host's may be recorded */
    CHECK(!((remote *)d->impl)->behind);
    ((remote *)d->impl)->busy = true;
    remote_open(d, PROT_READ | PROT_WRITE);
    if (bytes) memcpy(dst, src, bytes);
    remote_open(d, PROT_NONE);
    return TP_OK;
}
static tp_status remote_upload(tp_device *d, void *dst, const void *src, size_t bytes)
{
    ((remote *)d->impl)->uploads++;
    const tp_status st = gone(true);
    return st == TP_OK ? remote_move(d, dst, src, bytes) : st;
}
static tp_status remote_download(tp_device *d, void *dst, const void *src, size_t bytes)
{
    remote *r = (remote *)d->impl;
    r->downloads++;
    const tp_status st = gone(true);
    if (st != TP_OK) return st;
    if (r->n_late == MAX_LATE) return remote_move(d, dst, src, bytes);
    delivery *l = &r->late[r->n_late++];
    l->to = dst, l->bytes = bytes, l->data = (char *)malloc(bytes + 1);
    return l->data ? remote_move(d, l->data, src, bytes) : TP_ERR_NOMEM;
}
static tp_status remote_stage(tp_device *d, const void *src, size_t bytes, int *number)
{
    remote *r = (remote *)d->impl;
    if (++r->stages == r->fail_stage) return tp_fail(TP_ERR_NOMEM, "no room to stage");
    const tp_status st = gone(true);
    if (st != TP_OK) return st;
    for (*number = 0; *number < 4 && r->staged[*number];) ++*number;
    if (!CHECK(*number < 4) || !(r->staged[*number] = (char *)malloc(bytes))) return TP_ERR_NOMEM;
    memcpy(r->staged[*number], src, bytes);
    r->staged_bytes[*number] = bytes;
    r->waiting++;
    return TP_OK;
}
static tp_status remote_unstage(tp_device *d, int number, void *dst)
{
    remote *r = (remote *)d->impl;
    if (!CHECK(number >= 0 && number < 4 && r->staged[number])) return TP_ERR_ARG;
    tp_status st = gone(true);
    if (st == TP_OK && dst) st = remote_move(d, dst, r->staged[number], r->staged_bytes[number]);
    free(r->staged[number]);
    r->staged[number] = NULL;
    r->waiting--;
    return st;
}
static entry *record_entry(remote *r)
{
    entry *e = CHECK(r->now->n < MAX_CALLS) ? &r->now->at[r->now->n++] : &r->now->at[0];
    memset(e, 0, sizeof *e);
    return e;
}
/* The device that was made current last (0: none), and how often one was made current. */
static int currents, made_current;
static tp_status copy_now(tp_device *d, void *dst, tp_device *from, const void *src, size_t bytes)
{
    currents = 0; /* a copy may change the current device */
    remote_open(from, PROT_READ);
    remote_open(d, PROT_READ | PROT_WRITE);
    if (bytes) memcpy(dst, src, bytes);
    remote_open(d, PROT_NONE);
    remote_open(from, PROT_NONE);
    return TP_OK;
}
static tp_status remote_copy_from(tp_device *d, void *dst, tp_device *from, const void *src, size_t bytes)
{
    remote *r = (remote *)d->impl;
    CHECK(!d->host && !from->host && d != from);
    const tp_status st = gone(!r->now);
    if (st != TP_OK) return st;
    r->peer_copies++;
    if (!r->now) return copy_now(d, dst, from, src, bytes);
    CHECK(((remote *)from->impl)->now == r->now);
    entry *e = record_entry(r);
    e->to = d, e->from = from, e->dst = dst, e->src = src, e->bytes = bytes;
    return TP_OK;
}
static void remote_run(const tp_call *k)
{
    bool f64 = false;
    for (int i = 0; i < k->n_in + k->n_out + k->n_var; i++)
        f64 = f64 || (i < k->n_in              ? k->in[i]
                      : i < k->n_in + k->n_out ? k->out[i - k->n_in]
                                               : k->var[i - k->n_in - k->n_out])
                             .dtype == TP_F64;
    remote_open(k->device, PROT_READ | PROT_WRITE);
    if (f64 && !(k->op->flags & TP_OP_ANY_DTYPE)) k->op->naive_f64(k);
    else k->op->naive_f32(k);
    if (k->fused.bias || k->fused.act) tp__finish_naive(k);
    remote_open(k->device, PROT_NONE);
}
static void remote_make_current(tp_device *d) { currents = d->name[7], made_current++; }
static void remote_launch(const tp_call *k)
{
    remote *r = (remote *)k->device->impl;
    if (k->device->make_current) CHECK(currents == k->device->name[7]);
    if (!r->now) {
        r->launches++;
        CHECK(!r->behind);
        r->busy = true;
        remote_run(k);
        return;
    }
    CHECK(!(k->op->flags & TP_OP_HOST) || k->op->fault); /* it would be silent */
    record_entry(r)->call = *k;
}
/* The last one first: not the order of the inputs. */
static void sum_now(const together *s)
{
    for (int i = 0; i < s->n; i++) remote_open(s->d[i], PROT_READ | PROT_WRITE);
    for (int64_t k = 0; k < s->count; k++) {
        float v = 0;
        for (int i = s->n - 1; i >= 0; i--) v += ((const float *)s->in[i])[k];
        for (int i = 0; i < s->n; i++) ((float *)s->out[i])[k] = s->mean ? v / (float)s->n : v;
    }
    for (int i = 0; i < s->n; i++) remote_open(s->d[i], PROT_NONE);
}
static int device_sums;
static tp_status remote_all_reduce(tp_device *const *d, int n, const void *const *in, void *const *out, int64_t count,
                                   tp_dtype dtype, bool mean)
{
    remote *r = (remote *)d[0]->impl;
    const tp_status st = gone(!r->now);
    if (st != TP_OK) return st;
    CHECK(n <= 4 && dtype == TP_F32);
    device_sums++;
    together *s = (together *)calloc(1, sizeof *s);
    if (!s) return TP_ERR_NOMEM;
    s->n = n, s->count = count, s->mean = mean;
    for (int i = 0; i < n; i++) s->d[i] = d[i], s->in[i] = in[i], s->out[i] = out[i];
    if (r->now) record_entry(r)->sum = s;
    else {
        sum_now(s);
        free(s);
    }
    return TP_OK;
}
/* d joins the recording of the other, or the other leaves d's. */
static tp_status remote_after(tp_device *d, tp_device *other)
{
    remote *r = (remote *)d->impl, *o = (remote *)other->impl;
    const tp_status st = gone(!r->now && !o->now);
    if (!r->now && !o->now) o->busy = r->behind = false;
    if (st != TP_OK) return st;
    if (o->now && !r->now) {
        r->now = o->now;
        if (CHECK(r->now->n_joined < 4)) r->now->joined[r->now->n_joined++] = r;
    } else if (o->now) o->now = NULL;
    return TP_OK;
}
static tp_kernel_fn remote_find(tp_device *d, const char *op)
{
    (void)d, (void)op;
    return remote_launch;
}
static unsigned remote_fuses(tp_device *d, const char *op)
{
    (void)d, (void)op;
    return TP_FUSES_BIAS | TP_FUSES_ACT;
}
static tp_status remote_wait(tp_device *d)
{
    remote *r = (remote *)d->impl;
    const tp_status st = gone(true);
    CHECK(r->now == NULL);
    for (int i = 0; i < r->n_late; i++) {
        if (r->late[i].bytes) memcpy(r->late[i].to, r->late[i].data, r->late[i].bytes);
        free(r->late[i].data);
    }
    r->n_late = 0;
    return st;
}
static tp_status remote_record_begin(tp_device *d)
{
    remote *r = (remote *)d->impl;
    CHECK(r->now == NULL);
    if (r->fail_begin) return tp_fail(TP_ERR_UNSUPPORTED, "no tape");
    const tp_status st = gone(false);
    if (st != TP_OK) return st;
    r->now = (recording *)calloc(1, sizeof *r->now);
    return r->now ? TP_OK : TP_ERR_NOMEM;
}
static tp_status remote_record_step(tp_device *d, const int *after, int n)
{
    recording *now = ((remote *)d->impl)->now;
    if (!CHECK(now && now->n_step < MAX_CALLS && now->first[now->n_step] + n <= MAX_AFTER)) return TP_ERR;
    int at = now->first[now->n_step];
    for (int i = 0; i < n; i++) {
        CHECK(after[i] >= 0 && after[i] < now->n_step);
        now->after[at++] = after[i];
    }
    now->entry[now->n_step++] = now->n;
    now->first[now->n_step] = at;
    return TP_OK;
}
static void recording_free(recording *rec)
{
    for (int i = 0; i < rec->n; i++) free(rec->at[i].sum);
    free(rec);
}
static tp_status remote_record_end(tp_device *d, void **out)
{
    remote *r = (remote *)d->impl;
    recording *now = r->now;
    tp_status st = gone(false);
    r->now = NULL;
    for (int i = 0; i < now->n_joined; i++) now->joined[i]->now = NULL;
    if (r->fail_end) st = tp_fail(TP_ERR, "the tape tore");
    if (st != TP_OK) {
        recording_free(now);
        return st;
    }
    r->records++;
    *out = now;
    return TP_OK;
}
/* Runs the steps in an order that the recording allows, another one each time. */
static tp_status replay_steps(remote *r, const recording *rec)
{
    static uint64_t drawn;
    bool done[MAX_CALLS] = {false};
    for (int left = rec->n_step; left > 0; left--) {
        int ready[MAX_CALLS], n_ready = 0;
        for (int i = 0; i < rec->n_step; i++) {
            bool waits = done[i];
            for (int k = rec->first[i]; k < rec->first[i + 1] && !waits; k++) waits = !done[rec->after[k]];
            if (!waits) ready[n_ready++] = i;
        }
        if (!CHECK(n_ready > 0)) return TP_ERR;
        r->beside += n_ready > 1;
        const int i = ready[(int)(tp_random_uniform(77, 0, drawn++) * (float)n_ready) % n_ready];
        const int end = i + 1 < rec->n_step ? rec->entry[i + 1] : rec->n;
        for (int k = rec->entry[i]; k < end; k++) remote_run(&rec->at[k].call);
        done[i] = true;
    }
    return TP_OK;
}
static tp_status remote_replay(tp_device *d, void *p)
{
    const recording *rec = (const recording *)p;
    CHECK(((remote *)d->impl)->now == NULL);
    const tp_status st = gone(true);
    if (st != TP_OK) return st;
    ((remote *)d->impl)->replays++;
    for (int i = 0; i < rec->n_joined; i++) {
        CHECK(!rec->joined[i]->busy);
        rec->joined[i]->behind = true;
    }
    if (rec->n_step) return replay_steps((remote *)d->impl, rec);
    for (int i = 0; i < rec->n; i++) {
        const entry *e = &rec->at[i];
        if (e->sum) sum_now(e->sum);
        else if (e->to) copy_now(e->to, e->dst, e->from, e->src, e->bytes);
        else remote_run(&e->call);
    }
    return TP_OK;
}
static void remote_record_free(tp_device *d, void *p)
{
    ((remote *)d->impl)->freed++;
    recording_free((recording *)p);
}
static int remotes_closed;
static void remote_close(tp_device *d)
{
    remotes_closed++;
    remote *r = (remote *)d->impl;
    CHECK(r->live == 0 && r->records == r->freed && r->now == NULL && r->n_late == 0);
    free(r);
}
static remote *remote_new(bool peer)
{
    remote *r = (remote *)calloc(1, sizeof *r);
    if (!r) return NULL;
    r->d.abi = TP_ABI;
    snprintf(r->d.name, sizeof r->d.name, "remote:0");
    r->d.alloc = remote_alloc;
    r->d.free = remote_free;
    r->d.upload = remote_upload;
    r->d.download = remote_download;
    r->d.copy = remote_move;
    r->d.copy_from = peer ? remote_copy_from : NULL;
    r->d.find_kernel = remote_find;
    r->d.fuses = remote_fuses;
    r->d.wait = remote_wait;
    r->d.record_begin = remote_record_begin;
    r->d.record_end = remote_record_end;
    r->d.replay = remote_replay;
    r->d.record_free = remote_record_free;
    r->d.close = remote_close;
    r->d.impl = r;
    return r;
}

/* ==== >>memory ======================================================================================== */

static double asked_part;
static tp_status limit(tp_device *d, double part)
{
    asked_part = part;
    return d->host ? TP_ERR : TP_OK;
}
static tp_status no_limit(tp_device *d, double part)
{
    (void)part;
    return tp_fail(TP_ERR_IO, "%s cannot be asked", d->name);
}
TEST(sessions_limit_the_memory_of_devices)
{
    static const struct {
        float asked;
        double part; /* -1: refused */
    } t[] = {{0, 0.99f}, {0.25f, 0.25}, {1, 1}, {1.5f, -1}, {-0.5f, -1}, {NAN, -1}};
    tp_graph *g = tp_graph_new(NULL);
    tp_device *d[2] = {NULL, NULL};
    remote *r = remote_new(false);
    CHECK_OK(tp_cpu_devices_new(1, 1, NULL, d)); /* a CPU device has no limit_memory */
    d[1] = &r->d;
    r->d.limit_memory = limit;
    for (int i = 0; i < TP_COUNT(t); i++) {
        tp_session_config c = tp_get_default_sess_config(t[i].asked);
        c.devices = d;
        c.n_devices = 2;
        asked_part = -1;
        tp_session *s = tp_session_new(g, &c);
        CHECK((s != NULL) == (t[i].part >= 0));
        if (!s) CHECK_HAS(tp_last_error(), "memory_fraction is ");
        CHECK_MSG(asked_part == t[i].part, "case %d: %g", i, asked_part);
        tp_session_free(s);
    }
    r->d.limit_memory = no_limit;
    tp_session_config c = tp_default_session_config();
    CHECK(c.memory_fraction == 0.99f);
    c.devices = d;
    c.n_devices = 2;
    CHECK(tp_session_new(g, &c) == NULL);
    CHECK_STR(tp_last_error(), "remote:0 cannot be asked");
    for (int i = 0; i < 2; i++) d[i]->close(d[i]);
    tp_graph_free(g);
}

/* ==== >>net =========================================================================================== */

enum { BATCH = 4, CLASSES = 3, STEPS = 6, MAX_VARS = 32 };

typedef struct net {
    tp_graph *g;
    tp_node *x, *label, *cost, *train, *y;
    tp_tensor image, target;
    tp_feed feed[2];
} net;

/* A small convnet with everything that the planner treats in a way of its own: bias and activation to fold in, batch norm
 * with its running statistics, dropout, a weight that descends inside a product, element-wise chains, constants to fold. */
static void net_new(net *n, bool momentum)
{
    memset(n, 0, sizeof *n);
    tp_graph *g = n->g = tp_graph_new(NULL);
    tp_tower_desc tower;
    memset(&tower, 0, sizeof tower);
    tower.name = "tower0";
    tower.is_training = true;
    n->x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 6, 6, 2));
    n->label = tp_placeholder(g, "label", TP_I32, tp_make_shape(TP_ANY));
    tp_tower_enter(g, &tower);
    tp_node *y = tp_mul(n->x, tp_exp(tp_affine(tp_const(g, 0.5f), 2.0f, -1.0f)));
    y = tp_conv2d(y, "conv0", .filters = 5, .kernel_size = 3, .activation = tp_relu);
    y = tp_conv2d(y, "conv1", .filters = 4, .kernel_size = 3, .use_bias = TP_NO);
    y = tp_bn_relu(y, "act1");
    y = tp_max_pooling(y, "pool", .pool_size = 2);
    y = tp_dropout(y, "drop", .rate = 0.25f);
    y = tp_fully_connected(y, "fc0", .units = 40, .activation = tp_tanh);
    n->y = tp_fully_connected(y, "fc1", .units = CLASSES);
    n->cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(n->y, n->label)), "cost");
    tp_add_moving_summary_n(&n->cost, 1, NULL);
    tp_tower_leave(g);
    int n_vars = 0, n_update = 0, n_moving = 0;
    tp_node *const *vars = tp_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n_vars);
    tp_grad_var gvs[MAX_VARS];
    tp_node *ops[8];
    tp_compute_gradients(n->cost, vars, n_vars, gvs);
    tp_node *lr = tp_get_scalar_variable(g, "learning_rate", 0.1f);
    tp_optimizer *o = momentum ? tp_momentum(lr, .momentum = 0.9f) : tp_sgd(lr);
    ops[0] = tp_apply_gradients(o, gvs, n_vars);
    ops[1] = tp_assign_add(tp_get_global_step_var(g), tp_const_as(g, TP_I64, 1), NULL);
    tp_node *const *moving = tp_collection(g, TP_KEY_MOVING_SUMMARY_OPS, &n_moving);
    ops[2] = n_moving ? moving[0] : NULL;
    tp_node *const *update = tp_collection(g, TP_KEY_UPDATE_OPS, &n_update);
    for (int i = 0; i < n_update && i < 4; i++) ops[3 + i] = update[i];
    n->train = tp_group(g, ops, 3 + n_update, "train");
    CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
    CHECK(n_update == 2 && n_moving == 1);
    CHECK_OK(tp_tensor_resize(&n->image, TP_F32, tp_make_shape(BATCH, 6, 6, 2)));
    CHECK_OK(tp_tensor_resize(&n->target, TP_I32, tp_make_shape(BATCH)));
    n->feed[0].node = n->x;
    n->feed[1].node = n->label;
}
static void net_free(net *n)
{
    tp_tensor_free(&n->image);
    tp_tensor_free(&n->target);
    tp_graph_free(n->g);
}
/* The data of a step. */
static void net_step(net *n, int step)
{
    for (int64_t i = 0; i < tp_tensor_size(&n->image); i++)
        ((float *)n->image.data)[i] = (float)tp_random_normal(7, (uint64_t)step, (uint64_t)i);
    for (int i = 0; i < BATCH; i++) ((int32_t *)n->target.data)[i] = (i * 7 + step) % CLASSES;
    tp_tensor_view(&n->feed[0].value, TP_F32, n->image.shape, n->image.data);
    tp_tensor_view(&n->feed[1].value, TP_I32, n->target.shape, n->target.data);
}

/* What training comes to: the costs, what a variable was when a step began, and every variable in the end. */
typedef struct outcome {
    float cost[STEPS];
    tp_tensor before[STEPS]; /* fc0/W when the step began */
    tp_tensor var[MAX_VARS];
    int n;
} outcome;
static bool train(net *n, tp_session *s, int steps, outcome *o)
{
    tp_node *fetch[3];
    const tp_tensor *value[3];
    memset(o, 0, sizeof *o);
    fetch[0] = n->cost, fetch[1] = n->train, fetch[2] = tp_graph_find(n->g, "fc0/W");
    for (int i = 0; i < steps; i++) {
        net_step(n, i);
        if (!CHECK_OK(tp_session_run(s, n->feed, 2, fetch, 3, value))) return false;
        o->cost[i] = *(const float *)value[0]->data;
        CHECK_OK(tp_tensor_copy(&o->before[i], value[2]));
    }
    o->n = tp_graph_n_variables(n->g);
    CHECK(o->n <= MAX_VARS);
    for (int i = 0; i < o->n; i++) CHECK_OK(tp_session_read(s, tp_graph_variable(n->g, i), &o->var[i]));
    return true;
}
static bool same_tensor(const tp_tensor *a, const tp_tensor *b)
{
    return a->dtype == b->dtype && tp_shape_equal(&a->shape, &b->shape) &&
           memcmp(a->data, b->data, tp_tensor_bytes(a)) == 0;
}
static void same_outcome(net *n, const outcome *a, const outcome *b, int steps, const char *what)
{
    for (int i = 0; i < steps; i++) {
        CHECK_MSG(memcmp(&a->cost[i], &b->cost[i], sizeof(float)) == 0, "%s: cost %d is %.9g and %.9g", what, i,
                  (double)a->cost[i], (double)b->cost[i]);
        CHECK_MSG(same_tensor(&a->before[i], &b->before[i]), "%s: fc0/W as step %d began", what, i);
    }
    for (int i = 0; i < a->n && i < b->n; i++)
        CHECK_MSG(same_tensor(&a->var[i], &b->var[i]), "%s: '%s' differs", what, tp_graph_variable(n->g, i)->name);
    CHECK(a->n == b->n);
}
static void outcome_free(outcome *o)
{
    for (int i = 0; i < STEPS; i++) tp_tensor_free(&o->before[i]);
    for (int i = 0; i < MAX_VARS; i++) tp_tensor_free(&o->var[i]);
}
static tp_session *open_on(tp_graph *g, tp_device *const *devices, int n)
{
    tp_session_config c = tp_default_session_config();
    c.devices = devices;
    c.n_devices = n;
    tp_session *s = tp_session_new(g, &c);
    CHECK_MSG(s != NULL, "%s", tp_last_error());
    return s;
}
/* The same on one CPU device: what everything is compared with. */
static void reference(net *n, const char *isa, outcome *o)
{
    tp_device *cpu = tp_cpu_device_new(1, isa);
    tp_session *s = open_on(n->g, &cpu, 1);
    train(n, s, STEPS, o);
    tp_session_free(s);
    cpu->close(cpu);
}

/* ==== >>log =========================================================================================== */

/* ==== >>one remote device ============================================================================= */

TEST(large_feeds_are_staged)
{
    enum { N = 5000 };
    static float x[N], y[N];
    tp_graph *g = tp_graph_new(NULL);
    tp_node *in[3], *sum;
    tp_feed feed[3];
    const tp_tensor *value;
    float two = 2;
    memset(feed, 0, sizeof feed);
    for (int i = 0; i < 3; i++)
        feed[i].node = in[i] = tp_placeholder(g, NULL, TP_F32, i == 2 ? tp_make_shape(1) : tp_make_shape(N));
    tp_tensor_view(&feed[0].value, TP_F32, tp_make_shape(N), x);
    tp_tensor_view(&feed[1].value, TP_F32, tp_make_shape(N), y);
    tp_tensor_view(&feed[2].value, TP_F32, tp_make_shape(1), &two);
    sum = tp_sum(tp_add(tp_mul(in[0], in[2]), in[1]));
    remote *r = remote_new(false);
    tp_device *d = &r->d;
    r->d.stage = remote_stage;
    r->d.unstage = remote_unstage;
    tp_session *s = open_on(g, &d, 1);
    for (int run = 0; run < 4; run++) {
        for (int i = 0; i < N; i++) x[i] = (float)(i % 7 + run), y[i] = (float)(i % 3 - run);
        double want = 0;
        for (int i = 0; i < N; i++) want += 2 * (double)x[i] + (double)y[i];
        const int uploads = r->uploads, stages = r->stages;
        CHECK_OK(tp_session_run(s, feed, 3, &sum, 1, &value));
        CHECK_NEAR(tp_tensor_get(value, 0), want, 0, 1e-5);
        CHECK(r->stages == stages + 2 && r->uploads == uploads + 2 &&
              r->waiting == 0); /* uploaded: the step word, two */
    }
    const double last = tp_tensor_get(value, 0);
    r->fail_stage = r->stages + 2; /* without memory to stage it in, a value is uploaded to its place */
    const int uploads = r->uploads;
    CHECK_OK(tp_session_run(s, feed, 3, &sum, 1, &value));
    CHECK(r->waiting == 0 && r->uploads == uploads + 3 && tp_tensor_get(value, 0) == last);
    CHECK_OK(tp_session_run(s, feed, 3, &sum, 1, &value));
    tp_session_free(s);
    d->close(d);
    tp_graph_free(g);
}

/* y = the sum of 2 x over N elements, x fed from where `from` says: the way to it differs, the result does not. */
TEST(what_lies_on_a_device_is_fed)
{
    enum { N = 5000, HOST, HERE, THERE, CPU };
    static float x[N];
    for (int peer = 0; peer < 2; peer++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *in = tp_placeholder(g, "x", TP_F32, tp_make_shape(N)), *sum = tp_sum(tp_mul(in, tp_const(g, 2)));
        remote *r = remote_new(peer != 0), *other = remote_new(peer != 0);
        tp_device *d[3] = {&r->d, &other->d, tp_cpu_device_new(1, NULL)};
        r->d.stage = remote_stage;
        r->d.unstage = remote_unstage;
        tp_device_ready(&r->d), tp_device_ready(&other->d); /* a device stays until its last user has let it go */
        tp_session *s = open_on(g, d, 3);
        tp_tensor host, there, back;
        tp_feed feed;
        memset(&feed, 0, sizeof feed);
        memset(&host, 0, sizeof host);
        memset(&there, 0, sizeof there);
        memset(&back, 0, sizeof back);
        feed.node = in;
        tp_tensor_view(&host, TP_F32, tp_make_shape(N), x);
        static const int from[] = {HOST, HERE, HERE, CPU, THERE, HERE, HOST};
        for (int run = 0; run < TP_COUNT(from); run++) {
            double want = 0;
            for (int i = 0; i < N; i++) want += 2 * (double)(x[i] = (float)(i % 7 + run));
            const int where = from[run] == HERE ? 0 : from[run] == THERE ? 1 : 2;
            if (from[run] == HOST) tp_tensor_view(&feed.value, TP_F32, host.shape, x);
            else {
                const void *before = there.data;
                CHECK_OK(tp_tensor_to_device(&there, d[where], &host));
                feed.value = there;
                CHECK(there.device == d[where]);
                if (from[run] == from[run - 1]) CHECK(there.data == before); /* the memory is large enough */
            }
            const int uploads = r->uploads, stages = r->stages, peers = r->peer_copies, downloads = other->downloads;
            const tp_tensor *value = NULL;
            memset(x, 0, sizeof x); /* nobody looks here again */
            if (from[run] == HOST)
                for (int i = 0; i < N; i++) x[i] = (float)(i % 7 + run);
            CHECK_OK(tp_session_run(s, &feed, 1, &sum, 1, &value));
            CHECK_NEAR(tp_tensor_get(value, 0), want, 0, 1e-5);
            /* beside the step word and, at first, the 2 */
            const bool bounced = from[run] == CPU || (from[run] == THERE && !peer);
            CHECK(r->uploads - uploads == 1 + (run == 0) + bounced && r->stages - stages == (from[run] == HOST));
            CHECK(r->peer_copies - peers == (from[run] == THERE && peer));
            CHECK(other->downloads - downloads == (from[run] == THERE && !peer));
            if (from[run] == HOST) continue;
            CHECK_OK(tp_tensor_copy(&back, &there));
            CHECK(back.device == NULL && tp_tensor_get(&back, 6) == 6 + run);
        }
        CHECK(r->replays > 0); /* where a recorded step finds it */
        /* staged by another thread, say; its old memory serves again */
        const int live = r->live;
        for (int run = 0; run < 3; run++) {
            const tp_tensor *value = NULL;
            for (int i = 0; i < N; i++) x[i] = (float)run;
            CHECK_OK(tp_tensor_stage(&there, d[0], &host));
            CHECK_ERR(tp_tensor_stage(&there, d[0], &host), TP_ERR_STATE, "was staged on remote:0 already");
            CHECK_ERR(tp_tensor_copy(&back, &there), TP_ERR_STATE, "staged on remote:0 and not taken");
            feed.value = there;
            CHECK_ERR(tp_session_run(s, &feed, 1, &sum, 1, &value), TP_ERR_STATE,
                      "'x' is fed a tensor that was staged and not taken");
            CHECK(r->waiting == 1);
            CHECK_OK(tp_tensor_unstage(&there));
            CHECK_OK(tp_tensor_unstage(&there)); /* nothing is left to do */
            feed.value = there;
            for (int i = 0; i < 2; i++) { /* again: it stays */
                CHECK_OK(tp_session_run(s, &feed, 1, &sum, 1, &value));
                CHECK(tp_tensor_get(value, 0) == 2.0 * N * run && r->waiting == 0);
            }
            CHECK(tp_tensor_get(&there, 0) == 0);
            CHECK_HAS(tp_last_error(), "tp_tensor_get");
        }
        CHECK(r->live == live);
        CHECK_OK(tp_tensor_stage(&there, d[0], &host));
        tp_tensor_free(&there); /* what was staged is let go */
        CHECK(r->waiting == 0 && r->live == live - 1);
        r->fail_alloc = 1;
        CHECK_ERR(tp_tensor_to_device(&there, d[0], &host), TP_ERR_NOMEM,
                  "out of memory on remote:0 for a tensor of 20000");
        CHECK_OK(tp_tensor_stage(&there, d[0], &host));
        CHECK_ERR(tp_tensor_unstage(&there), TP_ERR_NOMEM, "out of memory on remote:0");
        CHECK(r->waiting == 0);
        tp_tensor_free(&there);
        tp_tensor_free(&back);
        tp_session_free(s);
        remotes_closed = 0;
        for (int i = 0; i < 3; i++) d[i]->close(d[i]);
        CHECK(remotes_closed == 2);
        tp_graph_free(g);
    }
}

/* beside: the steps of a recording run in a random order that it allows. */
static void trains_to_the_same_bits(bool beside)
{
    for (int momentum = 0; momentum < 2; momentum++) {
        net n;
        outcome want, got;
        net_new(&n, momentum != 0);
        reference(&n, "naive", &want);
        remote *r = remote_new(false);
        if (beside) r->d.record_step = remote_record_step;
        tp_device *d = &r->d;
        tp_session *s = open_on(n.g, &d, 1);
        train(&n, s, STEPS, &got);
        same_outcome(&n, &want, &got, STEPS, "remote");
        CHECK(r->replays == STEPS - 1 && (r->beside > 0) == beside);
        outcome_free(&got);
        outcome_free(&want);
        tp_session_free(s);
        d->close(d);
        net_free(&n);
    }
}
TEST(a_device_of_its_own_memory_trains_to_the_same_bits) { trains_to_the_same_bits(false); }
TEST(recorded_steps_run_in_any_order_that_their_memory_allows) { trains_to_the_same_bits(true); }

TEST(the_steady_step_is_one_replay)
{
    net n;
    net_new(&n, true);
    remote *r = remote_new(false);
    tp_device *d = &r->d;
    tp_session *s = open_on(n.g, &d, 1);
    tp_node *fetch[2];
    const tp_tensor *value[2];
    fetch[0] = n.cost, fetch[1] = n.train;
    int launches = 0, allocs = 0, uploads = 0, downloads = 0;
    tp_plan_info info;
    for (int i = 0; i < STEPS; i++) {
        net_step(&n, i);
        if (i == 2) {
            tp_test_fail_after(0); /* count */
            launches = r->launches;
            allocs = r->allocs;
        }
        uploads = r->uploads, downloads = r->downloads;
        CHECK_OK(tp_session_run(s, n.feed, 2, fetch, 2, value));
        CHECK(r->replays == (i ? i : 0) && r->records == (i ? 1 : 0)); /* the second run is recorded, then replayed */
        CHECK_OK(tp_exec_plan_info(tp_session_exec(s), fetch, 2, &info));
        CHECK(info.recorded == (i > 0) && info.n_copies == 0);
        if (i == 0) CHECK(r->launches == info.n_steps);
        if (i < 2) continue;
        CHECK(r->launches == launches && r->allocs == allocs && tp_test_alloc_count() == 0);
        CHECK(r->uploads - uploads == 3 && r->downloads - downloads == 2); /* step word, image, label; words, cost */
    }
    CHECK(r->launches == launches);
    tp_test_alloc_reset();
    /* a larger batch moves the arena: that binding and the first one start again, and the bits do not care */
    const int records = r->records;
    tp_tensor big;
    memset(&big, 0, sizeof big);
    CHECK_OK(tp_tensor_resize(&big, TP_F32, tp_make_shape(16, 6, 6, 2)));
    memset(big.data, 0, tp_tensor_bytes(&big));
    tp_feed feed;
    memset(&feed, 0, sizeof feed);
    feed.node = n.x;
    tp_tensor_view(&feed.value, TP_F32, big.shape, big.data);
    CHECK_OK(tp_session_run(s, &feed, 1, &n.y, 1, value));
    CHECK(r->launches > launches && r->records == records);
    launches = r->launches;
    net_step(&n, 0);
    CHECK_OK(tp_session_run(s, n.feed, 2, fetch, 2, value));
    CHECK(r->launches == launches + info.n_steps && r->freed == 1);
    CHECK_OK(tp_session_run(s, n.feed, 2, fetch, 2, value));
    CHECK(r->launches == launches + info.n_steps && r->records == records + 1);
    /* measured runs go kernel by kernel */
    tp_exec_set_timing(tp_session_exec(s), true);
    CHECK_OK(tp_session_run(s, n.feed, 2, fetch, 2, value));
    CHECK(r->launches == launches + 2 * info.n_steps);
    tp_exec_set_timing(tp_session_exec(s), false);
    tp_tensor_free(&big);
    tp_session_free(s);
    d->close(d);
    net_free(&n);
}

/* A plan whose runs are all measured is not recorded; the first other run records it. */
TEST(measured_runs_are_not_recorded)
{
    net n;
    tp_plan_info info;
    const tp_tensor *value = NULL;
    net_new(&n, false);
    remote *r = remote_new(false);
    tp_device *d = &r->d;
    tp_session *s = open_on(n.g, &d, 1);
    for (int run = 0; run < 4; run++) {
        tp_exec_set_timing(tp_session_exec(s), run < 3);
        net_step(&n, run);
        CHECK_OK(tp_session_run(s, n.feed, 2, &n.cost, 1, &value));
        CHECK_OK(tp_exec_plan_info(tp_session_exec(s), &n.cost, 1, &info));
        CHECK(info.recorded == (run == 3) && r->records == (run == 3) && r->replays == (run == 3));
    }
    tp_session_free(s);
    d->close(d);
    net_free(&n);
}

/* Three times 250 steps, of which each reads what the one before wrote: they are compared in groups, and each group waits for the one
 * before. The chains share no memory, and memory that is used again must be free by then. */
TEST(recorded_steps_of_several_groups)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *chain[3], *sum;
    for (int c = 0; c < 3; c++)
        chain[c] = tp_get_variable_as(g,
                                      c == 0   ? "a"
                                      : c == 1 ? "b"
                                               : "c",
                                      TP_F32, tp_make_shape(5, 7), tp_init_normal(0, 1));
    for (int i = 0; i < 250; i++)
        for (int c = 0; c < 3; c++) chain[c] = tp_transpose(chain[c], NULL, 0);
    sum = tp_concat(chain, 3, 0);
    remote *r = remote_new(false);
    r->d.record_step = remote_record_step;
    tp_device *d = &r->d, *cpu = tp_cpu_device_new(1, "naive");
    tp_session *s = open_on(g, &d, 1), *of_cpu = open_on(g, &cpu, 1);
    const tp_tensor *want, *value;
    if (s && of_cpu && CHECK_OK(tp_session_run(of_cpu, NULL, 0, &sum, 1, &want)))
        for (int run = 0; run < 5; run++)
            if (CHECK_OK(tp_session_run(s, NULL, 0, &sum, 1, &value)))
                CHECK(memcmp(value->data, want->data, tp_tensor_bytes(want)) == 0);
    CHECK_MSG(r->replays == 4 && r->beside > 1000, "%d replays, %d choices", r->replays, r->beside);
    tp_session_free(s);
    tp_session_free(of_cpu);
    d->close(d);
    cpu->close(cpu);
    tp_graph_free(g);
}

static void idle(const tp_call *k) { (void)k; }
static tp_kernel_fn always_idle(tp_device *d, const char *op) { return (void)d, (void)op, idle; }
/* Recorded steps may run at the same time, so their buffers of at most 16 MiB are not reused at once. */
TEST(small_memory_of_recorded_steps_is_used_again_later)
{
    static const struct {
        int64_t size;
        bool records, waits;
    } c[] = {{((int64_t)4 << 20) + 1, true, false},
             {(int64_t)4 << 20, true, true},
             {1 << 10, true, true},
             {1 << 10, false, false}};
    for (int i = 0; i < TP_COUNT(c); i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *y = tp_get_variable_as(g, "x", TP_F32, tp_make_shape(c[i].size), tp_init_zeros());
        for (int k = 0; k < 4; k++) y = tp_reverse(y, NULL, 0);
        remote *r = remote_new(false);
        r->d.find_kernel = always_idle;
        if (c[i].records) r->d.record_step = remote_record_step;
        tp_device *d = &r->d;
        tp_session *s = open_on(g, &d, 1);
        tp_plan_info info;
        memset(&info, 0, sizeof info);
        CHECK_OK(tp_session_run(s, NULL, 0, &y, 1, NULL));
        CHECK_OK(tp_exec_plan_info(tp_session_exec(s), &y, 1, &info));
        const double arrays = (double)info.arena_bytes / (4.0 * (double)c[i].size);
        CHECK_MSG(arrays > (c[i].waits ? 3.9 : 1.9) && arrays < (c[i].waits ? 4.2 : 2.2), "case %d: %g arrays", i,
                  arrays);
        tp_session_free(s);
        d->close(d);
        tp_graph_free(g);
    }
}

/* A device that computes nothing takes part in the recording, because another one copies from it. */
TEST(a_device_that_is_only_read_from_is_recorded_too)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w = NULL;
    TP_DEVICE(g, 1) w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(3), tp_init_constant(2));
    tp_node *y = tp_cumsum(w, 0, false, false);
    remote *r[2];
    tp_device *d[2];
    for (int i = 0; i < 2; i++) {
        r[i] = remote_new(true);
        d[i] = &r[i]->d;
        d[i]->name[7] = (char)('0' + i);
        d[i]->after = remote_after;
    }
    tp_session *s = open_on(g, d, 2);
    for (int run = 0; s && run < 4; run++) {
        const tp_tensor *value = NULL;
        if (CHECK_OK(tp_session_run(s, NULL, 0, &y, 1, &value))) CHECK(tp_tensor_get(value, 2) == 6);
    }
    CHECK(r[0]->replays == 3 && r[0]->peer_copies == 2 && r[1]->launches == 0);
    tp_session_free(s);
    for (int i = 0; i < 2; i++) d[i]->close(d[i]);
    tp_graph_free(g);
}

TEST(what_cannot_be_recorded_runs_kernel_by_kernel)
{
    for (int way = 0; way < 3; way++) {
        net n;
        outcome want, got;
        net_new(&n, true);
        reference(&n, "naive", &want);
        remote *r = remote_new(false);
        tp_device *d = &r->d;
        snprintf(d->name, sizeof d->name, "remote:%d", way); /* each says it once */
        r->fail_begin = way == 0;
        r->fail_end = way == 1;
        if (way == 2) d->record_begin = NULL;
        tp_session *s = open_on(n.g, &d, 1);
        tp_test_keep_log();
        train(&n, s, STEPS, &got);
        tp_set_log(NULL, NULL);
        same_outcome(&n, &want, &got, STEPS, "not recorded");
        CHECK(r->replays == 0);
        if (way == 0) CHECK_HAS(tp_test_logged, "remote:0 cannot record a plan, which runs kernel by kernel: no tape");
        if (way == 1)
            CHECK_HAS(tp_test_logged, "remote:1 cannot record a plan, which runs kernel by kernel: the tape tore");
        if (way == 2) CHECK_STR(tp_test_logged, "");
        const char *again = strstr(tp_test_logged, "cannot record");
        CHECK(!again || !strstr(again + 1, "cannot record"));
        outcome_free(&got);
        outcome_free(&want);
        tp_session_free(s);
        d->close(d);
        net_free(&n);
    }
}

TEST(host_effects_and_faults_of_a_device)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(3)),
            *label = tp_placeholder(g, "label", TP_I32, tp_make_shape(1));
    tp_node *shown = tp_affine(tp_print(x, "look"), 2, 0);
    tp_node *checked = tp_affine(tp_check_numerics(x, "inside"), 2, 0);
    tp_node *loss = tp_sparse_softmax_cross_entropy(tp_expand_dims(x, 0), label);
    remote *r = remote_new(false);
    tp_device *d = &r->d;
    tp_session *s = open_on(g, &d, 1);
    float data[3] = {1, 2, 3};
    int32_t wrong = 0;
    tp_feed feed[2];
    const tp_tensor *value = NULL;
    memset(feed, 0, sizeof feed);
    feed[0].node = x;
    tp_tensor_view(&feed[0].value, TP_F32, tp_make_shape(3), data);
    feed[1].node = label;
    tp_tensor_view(&feed[1].value, TP_I32, tp_make_shape(1), &wrong);
    tp_test_keep_log();
    for (int i = 0; i < 3; i++) CHECK_OK(tp_session_run(s, feed, 1, &shown, 1, &value));
    tp_set_log(NULL, NULL);
    CHECK(r->records == 1 && r->replays == 2); /* what comes after it */
    int looks = 0;
    for (const char *at = tp_test_logged; (at = strstr(at, "look: shape (3)")) != NULL; at++) looks++;
    CHECK(looks == 3);
    for (int i = 0; i < 3; i++) CHECK_OK(tp_session_run(s, feed, 1, &checked, 1, &value));
    CHECK(r->records == 2 && r->replays == 4);
    data[1] = NAN;
    CHECK_ERR(tp_session_run(s, feed, 1, &checked, 1, &value), TP_ERR_NUMERIC, "inside");
    data[1] = 2;
    CHECK_OK(tp_session_run(s, feed, 1, &checked, 1, &value));
    CHECK_NEAR(((const float *)value->data)[1], 4, 0, 0);
    for (int i = 0; i < 3; i++) CHECK_OK(tp_session_run(s, feed, 2, &loss, 1, &value));
    wrong = 5;
    CHECK_ERR(tp_session_run(s, feed, 2, &loss, 1, &value), TP_ERR_NUMERIC, "5");
    tp_session_free(s);
    d->close(d);
    tp_graph_free(g);
}

/* Another process, which is asked by ops of the host: it adds 10, 20, 30 to what is sent, and holds a variable. */
static int asked;
static void sum_of_processes(const tp_call *k)
{
    asked++;
    for (int i = 0; i < 3; i++) ((float *)k->out[0].data)[i] = ((const float *)k->in[0].data)[i] + 10 * (float)(i + 1);
}
static void pull(const tp_call *k)
{
    asked++;
    for (int i = 0; i < 3; i++) ((float *)k->var[0].data)[i] += ((const float *)k->in[0].data)[i] * (float)asked;
}
static tp_status of_input(tp_infer *s) { return s->out[0] = s->in[0], TP_OK; }
static tp_status of_variable(tp_infer *s) { return s->out[0] = s->var[0], TP_OK; }

TEST(what_other_processes_do_stands_between_recordings)
{
    tp_op collective, server;
    memset(&collective, 0, sizeof collective);
    collective.name = "sum_of_processes", collective.label = "SumOfProcesses";
    collective.flags = TP_OP_COLLECTIVE | TP_OP_HOST;
    collective.min_in = collective.max_in = collective.n_out = 1;
    collective.infer = of_input;
    collective.naive_f32 = sum_of_processes;
    server = collective;
    server.name = "pull", server.label = "Pull";
    server.flags = TP_OP_WRITES_VAR | TP_OP_VIEW | TP_OP_HOST;
    server.infer = of_variable;
    server.naive_f32 = pull;
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(3));
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(3), tp_init_constant(1));
    tp_node *v = tp_get_variable_as(g, "v", TP_F32, tp_make_shape(3), tp_init_constant(0));
    tp_node *local = tp_add(tp_affine(x, 2, 0), w), *total = tp_apply(g, &collective, &local, 1, NULL), *fetch[2];
    tp_apply_desc d;
    memset(&d, 0, sizeof d);
    d.row = &server, d.in = &total, d.n_in = 1, d.vars = &v, d.n_var = 1;
    fetch[0] = tp_assign_sub(w, tp_affine(total, 0.5f, 0), NULL);
    fetch[1] = tp_affine(tp_apply_ex(g, &d), 1, 0);
    CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
    remote *r = remote_new(false);
    tp_device *device = &r->d;
    tp_session *s = open_on(g, &device, 1);
    float data[3] = {1, 2, 3}, want_w[3] = {1, 1, 1}, want_v[3] = {0, 0, 0};
    const tp_tensor *value[2];
    tp_feed feed;
    tp_plan_info info;
    memset(&feed, 0, sizeof feed);
    feed.node = x;
    tp_tensor_view(&feed.value, TP_F32, tp_make_shape(3), data);
    asked = 0;
    for (int run = 0; run < 5; run++) {
        const int launches = r->launches;
        CHECK_OK(tp_session_run(s, &feed, 1, fetch, 2, value));
        CHECK(asked == 2 * (run + 1));
        for (int i = 0; i < 3; i++) {
            const float sum = 2 * data[i] + want_w[i] + 10 * (float)(i + 1);
            want_v[i] += sum * (float)(2 * run + 2);
            want_w[i] -= 0.5f * sum;
            CHECK_NEAR(((const float *)value[0]->data)[i], want_w[i], 0, 1e-6);
            CHECK_NEAR(((const float *)value[1]->data)[i], want_v[i], 0, 1e-6);
        }
        CHECK_OK(tp_exec_plan_info(tp_session_exec(s), fetch, 2, &info));
        CHECK(info.recorded == (run > 0));
        if (run == 0) continue;
        CHECK(r->replays >= 2 * run && r->replays == run * r->records); /* two pieces or more */
        if (run > 1) CHECK(r->launches - launches == 2);
    }
    tp_session_free(s);
    device->close(device);
    tp_graph_free(g);
}

/* A host op that may cancel the run that it is part of. */
static tp_session *to_cancel; /* NULL: none */
static void cancels(const tp_call *k)
{
    memcpy(k->out[0].data, k->in[0].data, 3 * sizeof(float));
    if (to_cancel) CHECK(tp_session_cancel(to_cancel) == 1);
}

/* A cancelled run stops before a recorded step if no earlier step has written a variable; otherwise it goes on to its end. */
TEST(a_cancelled_run_stops_before_its_first_recorded_write)
{
    tp_op row;
    memset(&row, 0, sizeof row);
    row.name = "cancels", row.label = "Cancels";
    row.flags = TP_OP_COLLECTIVE | TP_OP_HOST;
    row.min_in = row.max_in = row.n_out = 1;
    row.infer = of_input;
    row.naive_f32 = cancels;
    for (int way = 0; way < 3; way++) { /* nothing is written; the step after it writes; the step before it writes */
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(3)), *y = x;
        tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(3), tp_init_constant(0));
        if (way == 2) y = tp_affine(tp_assign_sub(w, x, NULL), 1, 0);
        y = tp_apply(g, &row, &y, 1, NULL);
        y = way == 1 ? tp_assign_sub(w, y, NULL) : tp_affine(y, 2, 0);
        remote *r = remote_new(false);
        tp_device *d = &r->d;
        tp_session *s = open_on(g, &d, 1);
        float data[3] = {1, 2, 3};
        tp_feed feed;
        memset(&feed, 0, sizeof feed);
        feed.node = x;
        tp_tensor_view(&feed.value, TP_F32, tp_make_shape(3), data);
        for (int run = 0; run < 3; run++) CHECK_OK(tp_session_run(s, &feed, 1, &y, 1, NULL));
        const int replays = r->replays;
        to_cancel = s;
        const tp_status st = tp_session_run(s, &feed, 1, &y, 1, NULL);
        to_cancel = NULL;
        if (way == 2) CHECK_OK(st);
        else CHECK_ERR(st, TP_ERR_CANCELLED, "it stood before its recorded step on 'remote:0'");
        CHECK_MSG(r->replays == replays + (way == 2 ? 2 : 0), "way %d: %d replays, %d before", way, r->replays,
                  replays);
        CHECK(variable(s, "w") == (way == 0 ? 0 : way == 1 ? -3 : -4));
        CHECK_OK(tp_session_run(s, &feed, 1, &y, 1, NULL));
        tp_session_free(s);
        d->close(d);
        tp_graph_free(g);
    }
}

/* The device of the first step records all of them. */
TEST(the_device_of_the_first_step_records)
{
    enum { MANY = 16 };
    for (int k = 0; k < 4; k++) { /* a session with two devices, and one with more that run nothing */
        const int way = k % 2, n = k < 2 ? 2 : MANY;
        tp_graph *g = tp_graph_new(NULL);
        tp_node *w = NULL, *y = NULL;
        TP_DEVICE(g, way)
        {
            w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(3), tp_init_constant(2));
            y = tp_cumsum(w, 0, false, false);
        }
        TP_DEVICE(g, 1 - way) y = tp_reverse(tp_cumsum(y, 0, false, false), NULL, 0);
        remote *r[MANY];
        tp_device *d[MANY];
        for (int i = 0; i < n; i++) {
            r[i] = remote_new(true);
            d[i] = &r[i]->d;
            d[i]->name[7] = "0123456789abcdef"[i];
            d[i]->after = i < 2 ? remote_after : NULL;
        }
        tp_session *s = open_on(g, d, n);
        for (int run = 0; s && run < 4; run++) {
            const tp_tensor *value = NULL;
            if (CHECK_OK(tp_session_run(s, NULL, 0, &y, 1, &value))) CHECK(tp_tensor_get(value, 0) == 12);
        }
        CHECK(r[way]->records == 1 && r[way]->replays == 3 && r[1 - way]->records == 0 && r[1 - way]->replays == 0);
        for (int i = 2; i < n; i++) CHECK(r[i]->launches == 0 && r[i]->records == 0 && r[i]->replays == 0);
        tp_session_free(s);
        for (int i = 0; i < n; i++) d[i]->close(d[i]);
        tp_graph_free(g);
    }
}

/* A device whose sum nobody reads computes none; nor does one whose sum is fed. */
TEST(only_devices_whose_sum_is_read_compute_it)
{
    static float fed[3] = {5, 6, 7};
    for (int c = 0; c < 64; c++) { /* bits 0 to 2: the sum is fetched; bits 3 to 5: it is fed */
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x[3], *sum[3], *fetch[3];
        tp_device *d[3];
        remote *r[3];
        tp_feed feed[3];
        const tp_tensor *value[3];
        int n = 0, n_fed = 0, needed = 0;
        memset(feed, 0, sizeof feed);
        for (int i = 0; i < 3; i++) {
            r[i] = remote_new(true);
            d[i] = &r[i]->d;
            d[i]->name[7] = (char)('0' + i);
            TP_DEVICE(g, i)
            x[i] = tp_get_variable_as(g,
                                      i == 0   ? "a"
                                      : i == 1 ? "b"
                                               : "c",
                                      TP_F32, tp_make_shape(3), tp_init_constant(2));
        }
        tp_all_reduce(x, 3, false, sum);
        for (int i = 0; i < 3; i++) {
            if (c >> i & 1) TP_DEVICE(g, i) fetch[n++] = tp_cumsum(sum[i], 0, false, false);
            if (c >> i & 8) {
                feed[n_fed].node = sum[i];
                tp_tensor_view(&feed[n_fed++].value, TP_F32, tp_make_shape(3), fed);
            }
        }
        tp_session *s = open_on(g, d, 3);
        if (s && n && CHECK_OK(tp_session_run(s, feed, n_fed, fetch, n, value)))
            for (int i = 0, k = 0; i < 3; i++) {
                const bool used = c >> i & 1, is_fed = (c >> i & 8) != 0;
                CHECK_MSG(r[i]->launches == (used ? is_fed ? 1 : 2 : 0), "case %d: device %d had %d launches", c, i,
                          r[i]->launches);
                if (used) CHECK(tp_tensor_get(value[k++], 1) == (is_fed ? 11 : 12));
                needed += used && !is_fed;
            }
        if (n && !needed) CHECK(r[0]->peer_copies + r[1]->peer_copies + r[2]->peer_copies == 0);
        tp_session_free(s);
        for (int i = 0; i < 3; i++) d[i]->close(d[i]);
        tp_graph_free(g);
    }
}

TEST(a_full_device_is_a_sentence)
{
    int failures = 0;
    for (int full = 1; full < 200; full++) {
        tp_graph *g = tp_graph_new(NULL);
        remote *r = remote_new(false);
        tp_device *d = &r->d;
        tp_session_config c = tp_default_session_config();
        c.devices = &d;
        c.n_devices = 1;
        tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(4), tp_init_ones());
        tp_node *y = tp_sum(tp_add(tp_mul(w, tp_const(g, 2)), tp_square(tp_const(g, 3))));
        r->fail_alloc = full;
        tp_session *s = tp_session_new(g, &c);
        const tp_tensor *value = NULL;
        const tp_status st = s ? tp_session_run(s, NULL, 0, &y, 1, &value) : TP_ERR_NOMEM;
        if (st != TP_OK) {
            CHECK(st == TP_ERR_NOMEM);
            CHECK_HAS(tp_last_error(), "out of memory");
            failures++;
        } else {
            CHECK_NEAR(tp_tensor_get(value, 0), 44, 0, 0);
            full = 1000;
        }
        tp_session_free(s);
        d->close(d);
        tp_graph_free(g);
    }
    CHECK(failures == 5); /* the variable, the exec's words, two constants, the arena */
}

/* The sentence mentions memory_fraction only if that is the limit: the device can limit its memory, and the fraction is less than 1. */
TEST(a_full_device_tells_what_limits_it)
{
    static const struct {
        bool limits;
        float asked;
        const char *hint;
    } t[] = {{true, 0.25f, ", or raise memory_fraction, which is 0.25"},
             {true, 0.98f, ", or raise memory_fraction, which is 0.98"},
             {true, TP_ZERO, ", or raise memory_fraction, which is 0.0"},
             {true, 0, ""}, /* the default, 0.99 */
             {true, 0.99f, ""},
             {true, 1, ""},
             {false, 0.25f, ""}};
    for (int i = 0; i < TP_COUNT(t); i++) {
        tp_graph *g = tp_graph_new(NULL);
        remote *r = remote_new(false);
        tp_device *d = &r->d;
        tp_session_config c = tp_default_session_config();
        char want[256];
        c.devices = &d;
        c.n_devices = 1;
        c.memory_fraction = t[i].asked;
        if (t[i].limits) d->limit_memory = limit;
        tp_get_variable_as(g, "w", TP_F32, tp_make_shape(4), tp_init_ones());
        r->fail_alloc = 1;
        tp_test__soil(); /* what lay on the stack before is no part of the sentence */
        CHECK(tp_session_new(g, &c) == NULL);
        snprintf(want, sizeof want,
                 "out of memory on remote:0 for variable 'w' (16 bytes): make the model smaller, or its device freer%s",
                 t[i].hint);
        CHECK_STR(tp_last_error(), want);
        d->close(d);
        tp_graph_free(g);
    }
}

/* ==== >>several devices =============================================================================== */

/* The op that reads n's first output and is of this row; NULL if there is none. */
static const tp_operation *reader(tp_graph *g, const tp_operation *n, const tp_op *row)
{
    for (int i = 0; i < tp_graph_n_operations(g); i++) {
        const tp_operation *o = tp_graph_operation(g, i);
        if (o->row != row) continue;
        const tp_node *in = o->in[0];
        while (in->op != n && in->op->row == &tp__op_identity) in = in->op->in[0];
        if (in->op == n && in->index == 0) return o;
    }
    return NULL;
}
/* Every step of every plan lies where its op was placed, and so does all that was fused into it. Returns how many ops that
 * a step took in were looked at. */
static int steps_lie_right(tp_session *s)
{
    tp_graph *g = tp_session_graph(s);
    int n = 0;
    for (const tp__plan *p = tp_session_exec(s)->plans; p; p = p->next)
        for (int i = 0; i < p->n_step; i++) {
            const tp__step *t = &p->step[i];
            const tp_operation *o = tp_graph_find_operation(g, t->name), *in[2] = {NULL, NULL};
            if (t->from >= 0 || t->row == &tp__op_copy || !CHECK(o != NULL)) continue;
            CHECK_MSG(o->device == t->device, "'%s' runs on %d, not on %d", t->name, t->device, o->device);
            if (t->row == &tp__op_fused) {
                const tp__program *prog = (const tp__program *)t->call.attrs;
                for (int k = 0; k < prog->n_instr; k++)
                    for (int j = 0; j < tp_graph_n_operations(g); j++) {
                        const tp_operation *m = tp_graph_operation(g, j);
                        if (m->attrs != prog->instr[k].attrs) continue;
                        CHECK_MSG(m->device == t->device, "'%s' was fused into '%s' on another device", m->name,
                                  o->name);
                        n += prog->n_instr > 1;
                    }
            } else if (t->call.fused.bias) {
                in[0] = reader(g, o, &tp__op_bias_add);
                if (t->call.fused.act && CHECK(in[0] != NULL)) in[1] = reader(g, in[0], &tp__op_relu);
            } else if (t->call.fused.act) {
                in[0] = reader(g, o, &tp__op_relu);
            } else if (t->call.fused.mask) {
                in[0] = o->in[0]->op; /* relu_grad */
            }
            for (int k = 0; k < 2; k++) {
                if (!in[k]) continue;
                CHECK_MSG(in[k]->device == t->device, "'%s' was fused into '%s' on another device", in[k]->name,
                          o->name);
                n++;
            }
        }
    return n;
}

/* Any placement of the ops gives the bits of one device: on CPU devices, on devices with memory of their own, which reach
 * each other or do not, and on a mixture. */
TEST(any_placement_gives_the_same_bits)
{
    const bool quick = getenv("TP_TEST_QUICK") != NULL;
    int fused = 0;
    for (int trial = 0; trial < (quick ? 8 : 40); trial++) {
        net n;
        outcome want, got;
        char what[64];
        tp_device *d[4] = {NULL, NULL, NULL, NULL}, *cpu[2];
        remote *r[2];
        const uint64_t key = tp_random_key(99, (uint64_t)trial);
        const int mix = trial % 4, steps = 3;
        const char *isa = mix == 0 && trial % 8 == 0 ? NULL : "naive";
        net_new(&n, trial % 8 < 4);
        reference(&n, isa, &want);
        CHECK_OK(tp_cpu_devices_new(2, 1, isa, cpu));
        for (int i = 0; i < 2; i++) r[i] = remote_new(mix > 1);
        /* 0: CPUs; 1: no way but through the host; 2: peers; 3: some of each */
        d[0] = mix == 0 ? cpu[0] : &r[0]->d, d[1] = mix == 0 ? cpu[1] : &r[1]->d;
        d[2] = cpu[0], d[3] = cpu[1];
        const int n_dev = mix == 3 ? 4 : 2;
        const int home = (int)(tp_random_u32(key, 0, 0) % (uint32_t)n_dev); /* of all variables: one op writes many */
        for (int i = 0; i < tp_graph_n_operations(n.g); i++) {
            tp_operation *o = tp_graph_operation(n.g, i);
            o->device = o->n_var ? home : (int)(tp_random_u32(key, 1, (uint64_t)i) % (uint32_t)n_dev);
            if (trial % 3 == 0 && !o->n_var && i % 16) o->device = tp_graph_operation(n.g, i - 1)->device; /* in runs */
        }
        for (int i = 0; i < tp_graph_n_variables(n.g); i++)
            tp_graph_variable(n.g, i)->device = tp_graph_variable(n.g, i)->node->op->device = home;
        tp_session *s = open_on(n.g, d, n_dev);
        snprintf(what, sizeof what, "trial %d", trial);
        if (s && train(&n, s, steps, &got)) {
            for (int i = 0; i < steps; i++) {
                CHECK_MSG(want.cost[i] == got.cost[i], "%s: cost %d is %.9g, not %.9g", what, i, (double)got.cost[i],
                          (double)want.cost[i]);
                CHECK_MSG(same_tensor(&want.before[i], &got.before[i]), "%s: fc0/W as step %d began", what, i);
            }
            tp_node *fetch[3];
            tp_plan_info info;
            fetch[0] = n.cost, fetch[1] = n.train, fetch[2] = tp_graph_find(n.g, "fc0/W");
            CHECK_OK(tp_exec_plan_info(tp_session_exec(s), fetch, 3, &info));
            CHECK(info.n_copies > 5 && !info.recorded);
            fused += steps_lie_right(s);
            if (mix == 0) CHECK(r[0]->allocs == 0);
            if (mix == 1) CHECK(r[0]->peer_copies + r[1]->peer_copies == 0);
            if (mix == 2) CHECK(r[0]->peer_copies + r[1]->peer_copies > 0);
            outcome_free(&got);
        }
        outcome_free(&want);
        tp_session_free(s);
        for (int i = 0; i < 2; i++) {
            r[i]->d.close(&r[i]->d);
            cpu[i]->close(cpu[i]);
        }
        net_free(&n);
    }
    CHECK(fused > 50); /* there was something to reach across with */
}

TEST(a_value_is_copied_once_and_what_is_constant_or_fed_is_not)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_device *d[3];
    CHECK_OK(tp_cpu_devices_new(3, 2, NULL, d));
    CHECK_STR(d[2]->name, "cpu:2");
    CHECK(d[0]->pool == d[2]->pool);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(8)), *c = tp_const(g, 3), *w = NULL, *part[4];
    tp_node *once = tp_named(tp_mul(x, c), "shared");
    TP_DEVICE(g, 1)
    {
        CHECK(tp_current_device(g) == 1);
        w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(8), tp_init_ones());
        part[0] = tp_sum(tp_tanh(once));
        part[1] = tp_sum(tp_mul(once, tp_add(x, c)));
        TP_DEVICE(g, 2) part[2] = tp_sum(tp_mul(tp_mul(once, w), x));
    }
    CHECK(tp_current_device(g) == 0 && tp_node_device(part[0]) == 1 && tp_node_device(part[2]) == 2);
    CHECK(tp_node_variable(w)->device == 1);
    part[3] = tp_sum(tp_square(once));
    tp_node *all = tp_add_n(part, 4), *dw = NULL;
    tp_gradients(all, &w, 1, &dw);
    CHECK(tp_node_device(dw) == 2); /* what differentiates an op runs where it runs */
    tp_session *s = open_on(g, d, 3);
    float data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    tp_feed feed;
    memset(&feed, 0, sizeof feed);
    feed.node = x;
    tp_tensor_view(&feed.value, TP_F32, tp_make_shape(8), data);
    const tp_tensor *value[2];
    tp_node *fetch[2];
    fetch[0] = all, fetch[1] = dw;
    double want = 0;
    for (int i = 0; i < 8; i++) {
        const double v = data[i];
        want += tanh(3 * v) + 3 * v * (v + 3) + 3 * v * v + 9 * v * v;
    }
    CHECK_OK(tp_session_run(s, &feed, 1, fetch, 2, value));
    CHECK_NEAR(tp_tensor_get(value[0], 0), want, 0, 1e-6);
    CHECK_NEAR(tp_tensor_get(value[1], 3), 3 * 16, 0, 1e-6);
    tp_plan_info info;
    CHECK_OK(tp_exec_plan_info(tp_session_exec(s), fetch, 2, &info));
    /* once to 1 and 2, w to 2, three sums to 0; dy of the sums comes from the ones that stand with them */
    tp_buf text;
    memset(&text, 0, sizeof text);
    CHECK_OK(tp_exec_print_plan(tp_session_exec(s), fetch, 2, &text));
    int to[3] = {0, 0, 0}, n_once = 0;
    for (const char *p = text.data; (p = strstr(p, "copy cpu:")) != NULL; p++) {
        to[p[18] - '0']++;
        const char *end = strchr(p, '\n');
        char line[256];
        snprintf(line, sizeof line, "%.*s", (int)(end - p), p);
        n_once += strstr(line, "shared") != NULL;
    }
    CHECK_MSG(to[0] + to[1] + to[2] == info.n_copies && n_once == 2, "%s", text.data);
    CHECK_HAS(text.data, " on cpu:2");
    tp_buf_free(&text);
    tp_session_free(s);
    for (int i = 2; i >= 0; i--) d[(i + 1) % 3]->close(d[(i + 1) % 3]);
    tp_graph_free(g);
}

/* A variable is what it was when the run began, wherever it is read, whatever is written meanwhile. */
TEST(the_start_of_a_run_is_the_same_everywhere)
{
    for (int kind = 0; kind < 2; kind++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_device *d[2], *cpu[2];
        remote *r[2];
        CHECK_OK(tp_cpu_devices_new(2, 1, NULL, cpu));
        for (int i = 0; i < 2; i++) r[i] = remote_new(i == 0);
        for (int i = 0; i < 2; i++) d[i] = kind ? &r[i]->d : cpu[i];
        tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(4), tp_init_constant(10)), *old = NULL,
                *view = NULL, *fresh = NULL, *late = NULL, *twice = NULL, *fetch[7];
        tp_node *step = tp_const(g, 1);
        tp_node *add = tp_assign_add(w, tp_add(tp_zeros_like(w), step), NULL);
        TP_DEVICE(g, 1)
        {
            view = tp_identity(w);
            old = tp_sum(view);
            fresh = tp_sum(tp_square(add));
            twice = tp_assign_add(w, tp_mul(add, add), NULL); /* runs on device 0, after those who read `add` */
            CHECK(tp_node_device(twice) == 0);
            late = tp_sum(tp_read_after(w, twice));
        }
        tp_session *s = open_on(g, d, 2);
        const tp_tensor *value[7];
        fetch[0] = w, fetch[1] = old, fetch[2] = fresh, fetch[3] = late, fetch[4] = view, fetch[5] = add;
        fetch[6] = twice;
        double v = 10;
        for (int i = 0; i < 3; i++) {
            const double a = v + 1, b = a + a * a;
            CHECK_OK(tp_session_run(s, NULL, 0, fetch, 7, value));
            CHECK_NEAR(tp_tensor_get(value[0], 3), v, 0, 0);
            CHECK_NEAR(tp_tensor_get(value[1], 0), 4 * v, 0, 0);
            CHECK_NEAR(tp_tensor_get(value[2], 0), 4 * a * a, 0, 1e-6);
            CHECK_NEAR(tp_tensor_get(value[3], 0), 4 * b, 0, 1e-6);
            CHECK_NEAR(tp_tensor_get(value[4], 1), v, 0, 0);
            v = b;
        }
        CHECK_NEAR(value_at(s, tp_sum(w), 0), 4 * v, 0, 1e-6);
        tp_session_free(s);
        for (int i = 0; i < 2; i++) {
            r[i]->d.close(&r[i]->d);
            cpu[i]->close(cpu[i]);
        }
        tp_graph_free(g);
    }
}

/* Variables that a run changes are copied at its start if they are fetched: what was fed is still read after that. kind: on a
 * device that others can copy from, on one that they cannot, of another device. */
static void copies_and_a_transpose(int copies, int kind)
{
    enum { N = 64 };
    static float data[N * N];
    tp_graph *g = tp_graph_new(NULL);
    tp_device *d[2];
    tp_node *x = NULL, *fetch[8];
    tp_feed feed;
    const tp_tensor *value[8];
    int n = 1;
    for (int i = 0; i < 2; i++) d[i] = &remote_new(kind == 0)->d;
    TP_DEVICE(g, kind == 2) x = tp_placeholder(g, "x", TP_F32, tp_make_shape(N, N));
    fetch[0] = tp_transpose(x, NULL, 0);
    for (int i = 0; i < copies; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        fetch[n] = tp_get_variable_as(g, name, TP_F32, x->shape, tp_init_constant((float)i));
        fetch[n + 1] = tp_assign_add(fetch[n], tp_ones_like(fetch[n]), NULL);
        n += 2;
    }
    memset(&feed, 0, sizeof feed);
    feed.node = x;
    tp_tensor_view(&feed.value, TP_F32, x->shape, data);
    tp_session *s = open_on(g, d, 2);
    for (int run = 0; run < 3; run++) {
        int wrong = 0;
        for (int i = 0; i < N * N; i++) data[i] = (float)(i + run);
        if (!CHECK_OK(tp_session_run(s, &feed, 1, fetch, n, value))) break;
        for (int i = 0; i < N * N; i++) {
            wrong += tp_tensor_get(value[0], i) != (double)data[i % N * N + i / N];
            for (int k = 0; k < copies; k++) wrong += tp_tensor_get(value[1 + 2 * k], i) != k + run;
        }
        CHECK_MSG(wrong == 0, "kind %d, %d copies, run %d: %d values are wrong", kind, copies, run, wrong);
    }
    tp_session_free(s);
    for (int i = 0; i < 2; i++) d[i]->close(d[i]);
    tp_graph_free(g);
}
TEST(copies_at_the_start_leave_what_is_fed)
{
    for (int copies = 0; copies <= 3; copies++)
        for (int kind = 0; kind < 3; kind++) copies_and_a_transpose(copies, kind);
}

/* What is fetched of a device on which nothing runs: it is waited for all the same. */
TEST(what_lies_on_a_device_is_fetched_without_running_there)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_device *d[2];
    for (int i = 0; i < 2; i++) d[i] = &remote_new(false)->d;
    const tp_tensor *value[3];
    tp_node *fetch[3] = {NULL, NULL, NULL};
    float data[4] = {1, 2, 3, 4};
    tp_feed feed;
    memset(&feed, 0, sizeof feed);
    TP_DEVICE(g, 1)
    {
        fetch[0] = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(4), tp_init_constant(10));
        fetch[1] = feed.node = tp_placeholder(g, "x", TP_F32, tp_make_shape(4));
        fetch[2] = tp_const(g, 5);
    }
    tp_tensor_view(&feed.value, TP_F32, tp_make_shape(4), data);
    tp_session *s = open_on(g, d, 2);
    for (int run = 0; run < 2; run++) {
        data[3] = (float)run;
        CHECK_OK(tp_session_run(s, &feed, 1, fetch, 3, value));
        CHECK(tp_tensor_get(value[0], 3) == 10 && tp_tensor_get(value[1], 0) == 1 &&
              tp_tensor_get(value[1], 3) == run && tp_tensor_get(value[2], 0) == 5);
    }
    tp_session_free(s);
    for (int i = 0; i < 2; i++) d[i]->close(d[i]);
    tp_graph_free(g);
}

/* A copy between devices is a step of its own, printed as one; what is fed goes to both without one. */
TEST(a_printed_plan_has_the_copies)
{
    for (int kind = 0; kind < 4; kind++) {
        const bool peer = kind % 2 == 1, fed = kind / 2 == 1;
        tp_graph *g = tp_graph_new(NULL);
        tp_device *d[2];
        for (int i = 0; i < 2; i++) {
            d[i] = &remote_new(peer)->d;
            d[i]->name[7] = (char)('0' + i);
        }
        float data[1024] = {0.5f, -1};
        tp_feed f;
        tp_node *y[2] = {NULL, NULL};
        const tp_tensor *value[2] = {NULL, NULL};
        memset(&f, 0, sizeof f);
        f.node = tp_placeholder(g, "x", TP_F32, tp_make_shape(1024));
        tp_tensor_view(&f.value, TP_F32, f.node->shape, data);
        y[0] = tp_named(tp_square(f.node), "y");
        TP_DEVICE(g, 1) y[1] = tp_sum(fed ? f.node : y[0]);
        tp_session *s = open_on(g, d, 2);
        tp_plan_info info;
        tp_buf text;
        memset(&info, 0, sizeof info);
        memset(&text, 0, sizeof text);
        CHECK_OK(tp_session_run(s, &f, 1, y, 2, value));
        if (value[1]) CHECK(tp_tensor_get(value[1], 0) == (fed ? -0.5 : 1.25));
        CHECK_OK(tp_exec_plan_info(tp_session_exec(s), y, 2, &info));
        CHECK_OK(tp_exec_print_plan(tp_session_exec(s), y, 2, &text));
        CHECK_MSG(info.n_copies == !fed && info.n_steps == 3 - fed, "%d copies, %d steps", info.n_copies, info.n_steps);
        const char *copy = text.data ? strstr(text.data, "copy ") : NULL;
        CHECK((copy != NULL) == !fed);
        if (copy) {
            char line[200];
            snprintf(line, sizeof line, "%.*s", (int)strcspn(copy, "\n"), copy);
            CHECK_HAS(line, " (1024) ");
            CHECK_HAS(line, " 8.0 ");
            CHECK_HAS(line, "remote:0 to remote:1 ");
            CHECK_STR(line + strlen(line) - 3, "  y");
        }
        tp_buf_free(&text);
        tp_session_free(s);
        for (int i = 0; i < 2; i++) d[i]->close(d[i]);
        tp_graph_free(g);
    }
}

/* Every call of a device may fail: the run says so, in the device's words, and the next one is as if nothing had been. Two
 * devices, with and without a way between them, with NCCL and without, recorded where that is possible. */
typedef struct two {
    tp_graph *g;
    tp_node *x, *fetch[4];
} two;
enum { PAIR = 4200 }; /* enough to be staged */

static two two_new(void)
{
    two p;
    tp_node *a, *b, *sums[2], *in[2];
    p.g = tp_graph_new(NULL);
    p.x = tp_placeholder(p.g, "x", TP_F32, tp_make_shape(PAIR));
    a = tp_square(p.x);
    TP_DEVICE(p.g, 1)
    {
        p.fetch[0] = tp_get_variable_as(p.g, "w", TP_F32, tp_make_shape(PAIR), tp_init_constant(2));
        b = tp_add(a, p.fetch[0]);
    }
    p.fetch[1] = tp_sum(b);
    in[0] = a, in[1] = b;
    tp_all_reduce(in, 2, true, sums);
    p.fetch[2] = sums[1];
    p.fetch[3] = tp_neg(sums[0]);
    return p;
}
static bool two_right(const tp_tensor *const *value, const float *x)
{
    const float *w = (const float *)value[0]->data, *mean = (const float *)value[2]->data,
                *less = (const float *)value[3]->data;
    float all = 0, wrong = 0; /* whole numbers and halves, which a float holds */
    for (int i = 0; i < PAIR; i++) {
        const float a = x[i] * x[i];
        all += a + 2;
        wrong += fabsf(w[i] - 2) + fabsf(mean[i] - (a + 1)) + fabsf(less[i] + (a + 1));
    }
    return wrong == 0 && tp_tensor_get(value[1], 0) == (double)all;
}
/* Three runs of which one call fails, and one run more; false: there was no such call any more. */
static bool two_runs(const two *p, int kind, int fail, int *recorded)
{
    const bool peer = kind & 1, nccl = kind & 2, joins = kind & 4;
    static float data[PAIR];
    remote *r[2];
    tp_device *d[2];
    for (int i = 0; i < 2; i++) {
        r[i] = remote_new(peer);
        d[i] = &r[i]->d;
        d[i]->name[7] = (char)('0' + i);
        d[i]->stage = remote_stage, d[i]->unstage = remote_unstage;
        d[i]->all_reduce = remote_all_reduce;
        d[i]->after = joins ? remote_after : NULL;
        d[i]->make_current = remote_make_current;
    }
    tp_session_config c = tp_default_session_config();
    c.devices = d, c.n_devices = 2, c.nccl_all_reduce = nccl;
    device_calls = 0, fail_call = fail, failed_fatally = false;
    tp_session *s = tp_session_new(p->g, &c);
    CHECK_MSG(s || failed_fatally, "%s", tp_last_error());
    for (int run = 0; s && run < 4; run++) {
        const tp_tensor *value[4];
        tp_feed f;
        memset(&f, 0, sizeof f);
        f.node = p->x;
        for (int i = 0; i < PAIR; i++) data[i] = (float)((i + run) % 8);
        tp_tensor_view(&f.value, TP_F32, tp_make_shape(PAIR), data);
        const bool before = device_calls >= fail;
        device_sums = currents = made_current = 0;
        failed_fatally = false;
        const tp_status st = tp_session_run(s, &f, 1, p->fetch, 4, value);
        const bool hit = !before && device_calls >= fail && failed_fatally;
        CHECK_MSG(st == (hit ? TP_ERR_IO : TP_OK) && (!hit || strstr(tp_last_error(), "the device is gone")),
                  "kind %d, call %d, run %d: %s", kind, fail, run, st == TP_OK ? "nothing is said" : tp_last_error());
        if (st == TP_OK) CHECK_MSG(two_right(value, data), "kind %d, call %d, run %d: wrong values", kind, fail, run);
        if (run == 0) CHECK(hit || (device_sums == nccl && made_current > 0));
        tp_plan_info info;
        if (tp_exec_plan_info(tp_session_exec(s), p->fetch, 4, &info) == TP_OK) *recorded = info.recorded;
        CHECK(r[0]->waiting == 0 && r[1]->waiting == 0); /* nothing stays staged */
    }
    const bool more = device_calls >= fail;
    fail_call = 0;
    tp_session_free(s);
    for (int i = 0; i < 2; i++) d[i]->close(d[i]);
    return more;
}
TEST(every_call_of_a_device_may_fail)
{
    tp_test_keep_log();
    two p = two_new();
    for (int kind = 0; kind < 8; kind++) {
        const bool each = kind == 0 || kind == 7; /* of the others all calls succeed */
        int fail = each ? 1 : 499, recorded = 0;
        while (two_runs(&p, kind, fail, &recorded) && fail < 500) fail++;
        CHECK_MSG(fail > 40 && fail < 500, "kind %d: %d calls", kind, fail - 1);
        /* without a failure it is recorded, where the devices reach each other and can wait for each other */
        CHECK_MSG(recorded == ((kind & 1) && (kind & 4)), "kind %d: %d", kind, recorded);
    }
    tp_set_log(NULL, NULL);
    tp_graph_free(p.g);
}

static tp_node *tower_cost(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(2, 1), tp_init_ones());
    return tp_mean(tp_square(tp_matmul(in[0], w)));
}
static tp_optimizer *tower_optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_sgd(tp_get_scalar_variable(g, "learning_rate", 0.125f));
}
static tp_status tower_point(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user, (void)pass;
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape(3, 2));
    for (int i = 0; i < 6 && st == TP_OK; i++) ((float *)dp->c[0].data)[i] = (float)(index + i) / 16;
    return st;
}
/* Two steps of a trainer. */
static tp_status towers_train(tp_trainer *t, const tp_session_config *session)
{
    static tp_spec spec = {"x", TP_F32, {2, {3, 2}}};
    tp_train_config c;
    memset(&c, 0, sizeof c);
    c.model.inputs = &spec, c.model.n_inputs = 1;
    c.model.build_graph = tower_cost, c.model.optimizer = tower_optimizer;
    c.dataflow = tp_df_from_generator(tower_point, .size = 8, .indexed = TP_YES);
    c.session_config = session;
    c.steps_per_epoch = 2, c.max_epoch = 1;
    c.n_extra_callbacks = c.n_monitors = TP_NONE;
    return tp_launch_train_with_config(&c, t);
}
/* A trainer whose mode was not asked for takes NCCL only where the devices were built with it. */
TEST(replicated_towers_of_devices_without_nccl)
{
    tp_test_keep_log();
    TEST_MAY_ERROR("is to be summed by NCCL");
    for (int kind = 0; kind < 3; kind++) { /* nothing asked for, with NCCL and without; NCCL asked for, without */
        remote *r[2] = {remote_new(true), remote_new(true)};
        tp_device *d[2] = {&r[0]->d, &r[1]->d};
        for (int i = 0; i < 2; i++) r[i]->d.all_reduce = kind == 0 ? remote_all_reduce : NULL;
        r[1]->d.name[7] = '1';
        tp_sync_multi_gpu_trainer_replicated_desc m;
        memset(&m, 0, sizeof m);
        m.n_devices = 2;
        m.mode = kind == 2 ? TP_ALL_REDUCE_NCCL : TP_ALL_REDUCE_AUTO;
        tp_trainer *t = tp_sync_multi_gpu_trainer_replicated_(&m);
        tp_session_config c = tp_default_session_config();
        c.devices = d, c.n_devices = 2;
        device_sums = 0;
        const tp_status st = towers_train(t, &c);
        CHECK_MSG(st == (kind == 2 ? TP_ERR_UNSUPPORTED : TP_OK), "kind %d: %s", kind, tp_last_error());
        CHECK_MSG((device_sums > 0) == (kind == 0), "kind %d: %d", kind, device_sums);
        if (kind == 2)
            CHECK_HAS(tp_last_error(), "is to be summed by NCCL, as .nccl_all_reduce says, but remote:0 was built");
        for (int i = 0; i < 2; i++) r[i]->d.close(&r[i]->d);
    }
}

/* What a sum by NCCL needs: values on different devices, none of the host, each with NCCL. */
TEST(sums_by_nccl_where_they_can_be)
{
    for (int kind = 0; kind < 4; kind++) { /* both remote; the same device; one of the host; without NCCL */
        remote *r[2] = {remote_new(true), remote_new(true)};
        tp_device *cpu = tp_cpu_device_new(1, NULL), *d[2] = {&r[0]->d, kind == 2 ? cpu : &r[1]->d};
        for (int i = 0; i < 2; i++) r[i]->d.all_reduce = kind == 3 && i == 1 ? NULL : remote_all_reduce;
        r[1]->d.name[7] = '1';
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x[2], *y[2];
        for (int i = 0; i < 2; i++)
            TP_DEVICE(g, kind == 1 ? 0 : i) x[i] = tp_affine(tp_const(g, (float)(i + 1)), 10, 0);
        tp_all_reduce(x, 2, false, y);
        tp_session_config c = tp_default_session_config();
        c.devices = d, c.n_devices = 2, c.nccl_all_reduce = true;
        tp_session *s = tp_session_new(g, &c);
        const tp_tensor *value = NULL;
        device_sums = 0;
        const tp_status st = tp_session_run(s, NULL, 0, &y[1], 1, &value);
        if (kind == 3) {
            CHECK(st == TP_ERR_UNSUPPORTED);
            CHECK_STR(tp_last_error(),
                      "'AllReduce' is to be summed by NCCL, as .nccl_all_reduce says, but remote:1 was built "
                      "without it");
        } else if (CHECK_OK(st)) CHECK(tp_tensor_get(value, 0) == 30 && device_sums == (kind == 0));
        tp_session_free(s);
        cpu->close(cpu);
        for (int i = 0; i < 2; i++) r[i]->d.close(&r[i]->d);
        tp_graph_free(g);
    }
}

static tp_kernel_fn no_tanh(tp_device *d, const char *op)
{
    return strcmp(op, "fused") == 0 ? NULL : remote_find(d, op);
}
/* A kernel that runs on every device (TP_OP_ANY_DEVICE), where the device has none of its own. */
static tp_kernel_fn nothing_of_its_own(tp_device *d, const char *op)
{
    return strncmp(op, "anywhere", 8) == 0 ? NULL : remote_find(d, op);
}
static void run_anywhere(const tp_call *k)
{
    tp_device *d = k->device;
    d->copy(d, k->out[0].data, k->in[0].data, sizeof(float));
}
TEST(kernels_for_every_device)
{
    for (int any = 0; any < 2; any++) {
        tp_op row = *tp_op_find("neg");
        row.name = row.label = "anywhere";
        row.flags = TP_OP_RANDOM | (any ? TP_OP_ANY_DEVICE : 0);
        row.naive_f32 = run_anywhere;
        tp_graph *g = tp_graph_new(NULL);
        remote *r = remote_new(false);
        tp_device *d = &r->d;
        r->d.find_kernel = nothing_of_its_own;
        tp_node *x = tp_get_variable_as(g, "x", TP_F32, tp_make_shape_n(0, NULL), tp_init_constant(3)), *y;
        y = tp_apply(g, &row, &x, 1, NULL);
        tp_session *s = open_on(g, &d, 1);
        const tp_tensor *value = NULL;
        const tp_status st = tp_session_run(s, NULL, 0, &y, 1, &value);
        if (any && CHECK_OK(st)) CHECK(tp_tensor_get(value, 0) == 3);
        if (!any) CHECK_ERR(st, TP_ERR_UNSUPPORTED, "device remote:0 has no kernel for 'anywhere' (node 'anywhere')");
        tp_session_free(s);
        d->close(d);
        tp_graph_free(g);
    }
}

TEST(devices_that_lack_something)
{
    tp_graph *g = tp_graph_new(NULL);
    remote *r = remote_new(false);
    tp_device *d[2] = {&r->d, NULL};
    r->d.find_kernel = no_tanh;
    tp_node *y = tp_named(tp_tanh(tp_const(g, 1)), "y");
    tp_session_config c = tp_default_session_config();
    c.devices = d, c.n_devices = 1;
    tp_session *s = tp_session_new(g, &c);
    CHECK_ERR(tp_session_run(s, NULL, 0, &y, 1, NULL), TP_ERR_UNSUPPORTED,
              "device remote:0 has no kernel for 'fused' (node 'Tanh')");
    tp_session_free(s);
    CHECK_STR(tp_last_error(), "device remote:0 has no kernel for 'fused' (node 'Tanh')");
    c.n_devices = 2;
    CHECK(tp_session_new(g, &c) == NULL);
    CHECK_STR(tp_last_error(),
              "device 1 of the session is missing, was closed, or was built with another version of tp");
    c.n_devices = 1;
    r->d.abi = TP_ABI + 1;
    CHECK(tp_session_new(g, &c) == NULL);
    CHECK_STR(tp_last_error(),
              "device 0 of the session is missing, was closed, or was built with another version of tp");
    r->d.close(&r->d);
    tp_graph_free(g);
}

/* Where the clock is coarse, time may stand still between two questions while the processor's time goes on. */
TEST(a_device_is_not_busy_in_no_time)
{
    tp_device *d = tp_cpu_device_new(1, NULL);
    if (!CHECK(d != NULL)) return;
    tp__cpu *cpu = (tp__cpu *)d->impl;
    cpu->last_query_time = tp_time() + 1000, cpu->last_cpu_time = -1;
    CHECK(tp_device_utilization(d) == 0);
    cpu->last_query_time = tp_time() - 1000, cpu->last_cpu_time = tp__os_cpu_clock() + 1000;
    CHECK(tp_device_utilization(d) == 0);
    cpu->last_query_time = tp_time() - 1000, cpu->last_cpu_time = tp__os_cpu_clock() - 500;
    CHECK_NEAR(tp_device_utilization(d), 50, 1, 0);
    d->close(d);
}

TEST(all_reduce_gives_every_device_the_same_bits)
{
    for (int kind = 0; kind < 3; kind++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_device *d[3], *cpu[3];
        remote *r[3];
        CHECK_OK(tp_cpu_devices_new(3, 2, NULL, cpu));
        for (int i = 0; i < 3; i++) r[i] = remote_new(i != 1);
        for (int i = 0; i < 3; i++) d[i] = kind == 1 || (kind == 2 && i == 1) ? &r[i]->d : cpu[i];
        tp_node *x[3], *sum[3], *mean[3], *cost[2], *dx[3], *fetch[9];
        for (int i = 0; i < 3; i++) {
            TP_DEVICE(g, i)
            {
                const int64_t n = 1000;
                tp_variable_desc v;
                char name[16];
                memset(&v, 0, sizeof v);
                snprintf(name, sizeof name, "x%d", i);
                v.name = name;
                v.shape = tp_make_shape_n(1, &n);
                v.init = tp_init_normal(0, 1);
                x[i] = tp_get_variable(g, &v);
            }
        }
        tp_all_reduce(x, 3, false, sum);
        tp_all_reduce(x, 3, true, mean);
        for (int i = 0; i < 3; i++) CHECK(tp_node_device(sum[i]) == i && tp_node_device(mean[i]) == i);
        cost[0] = tp_sum(tp_square(sum[0])); /* nothing comes back from sum[1]; from mean[2] its square */
        cost[1] = tp_sum(tp_mul(sum[2], mean[2]));
        tp_gradients(tp_add_n(cost, 2), x, 3, dx);
        for (int i = 0; i < 3; i++) fetch[i] = sum[i], fetch[3 + i] = mean[i], fetch[6 + i] = dx[i];
        tp_session *s = open_on(g, d, 3);
        const tp_tensor *value[9];
        tp_tensor in[3];
        memset(in, 0, sizeof in);
        for (int i = 0; i < 3; i++) CHECK_OK(tp_session_read(s, tp_node_variable(x[i]), &in[i]));
        for (int run = 0; run < 2; run++) {
            CHECK_OK(tp_session_run(s, NULL, 0, fetch, 9, value));
            for (int i = 0; i < 1000; i++) {
                float t = 0;
                for (int k = 0; k < 3; k++) t = k ? t + ((const float *)in[k].data)[i] : ((const float *)in[k].data)[i];
                CHECK(((const float *)value[0]->data)[i] == t && ((const float *)value[3]->data)[i] == t * (1.0f / 3));
                CHECK_NEAR(((const float *)value[7]->data)[i], 2 * t + 2 * t / 3, 1e-5, 1e-5);
            }
            for (int i = 1; i < 9; i++)
                CHECK_MSG(i % 3 == 0 || same_tensor(value[i], value[i - i % 3]), "kind %d: value %d differs", kind, i);
        }
        for (int i = 0; i < 3; i++) tp_tensor_free(&in[i]);
        tp_session_free(s);
        for (int i = 0; i < 3; i++) {
            r[i]->d.close(&r[i]->d);
            cpu[i]->close(cpu[i]);
        }
        tp_graph_free(g);
    }
}

/* What comes back to a sum is brought to the device of each input first, so that each gradient lies beside what it is of. */
TEST(gradients_of_an_all_reduce_lie_on_the_devices_of_its_inputs)
{
    for (int used = 0; used < 4; used++) { /* bit i: sum i is read, by an op on device 0 */
        tp_graph *g = tp_graph_new(NULL);
        tp_device *d[2];
        tp_node *x[2], *sum[2], *cost = tp_const(g, 0), *dx[2];
        const tp_tensor *value[2];
        CHECK_OK(tp_cpu_devices_new(2, 1, NULL, d));
        for (int i = 0; i < 2; i++)
            TP_DEVICE(g, i) x[i] = tp_get_variable_as(g, i ? "b" : "a", TP_F32, tp_make_shape(3), tp_init_constant(2));
        tp_all_reduce(x, 2, false, sum);
        for (int i = 0; i < 2; i++)
            if (used >> i & 1) cost = tp_add(cost, tp_sum(tp_square(sum[i])));
        tp_gradients(cost, x, 2, dx);
        tp_session *s = open_on(g, d, 2);
        if (used == 0) CHECK(!dx[0] && !dx[1]);
        else if (CHECK(dx[0] && dx[1]) && CHECK_OK(tp_session_run(s, NULL, 0, dx, 2, value))) {
            for (int i = 0; i < 2; i++) {
                CHECK_MSG(tp_node_device(dx[i]) == i, "used %d: gradient %d lies on %d", used, i,
                          tp_node_device(dx[i]));
                CHECK(tp_tensor_get(value[i], 2) == 8 * ((used & 1) + (used >> 1)));
            }
            const tp_operation *back = dx[0]->op;
            while (back->row == &tp__op_identity) back = back->in[0]->op;
            CHECK_STR(back->row->name, "all_reduce"); /* only what comes from elsewhere is copied */
            CHECK(back->in[0]->op->row != &tp__op_identity);
            CHECK((back->in[1]->op->row == &tp__op_identity) == (used >> 1 == 1));
        }
        tp_session_free(s);
        for (int i = 0; i < 2; i++) d[i]->close(d[i]);
        tp_graph_free(g);
    }
}

TEST(variables_of_several_devices_train_and_travel)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_device *d[2];
    remote *r = remote_new(false);
    CHECK_OK(tp_cpu_devices_new(1, 1, NULL, d));
    d[1] = &r->d;
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2, 3)), *a, *b = NULL, *y, *vars[2];
    a = tp_get_variable_as(g, "a", TP_F32, tp_make_shape(3, 4), tp_init_normal(0, 1));
    TP_DEVICE(g, 1) b = tp_get_variable_as(g, "b", TP_F32, tp_make_shape(4, 2), tp_init_normal(0, 1));
    y = tp_matmul(x, a);
    TP_DEVICE(g, 1) y = tp_matmul(tp_tanh(y), b);
    tp_node *cost = tp_mean(tp_square(y));
    tp_grad_var gvs[2];
    vars[0] = a, vars[1] = b;
    tp_compute_gradients(cost, vars, 2, gvs);
    tp_optimizer *o = tp_adam(tp_get_scalar_variable(g, "learning_rate", 0.05f));
    tp_node *fetch[2];
    fetch[0] = cost, fetch[1] = tp_apply_gradients(o, gvs, 2);
    CHECK(tp_node_variable(tp_get_slot(o, b, "m"))->device == 1 &&
          tp_node_variable(tp_get_slot(o, a, "m"))->device == 0);
    tp_session *s = open_on(g, d, 2);
    float data[6] = {1, -2, 3, 0.5f, 2, -1};
    tp_feed feed;
    memset(&feed, 0, sizeof feed);
    feed.node = x;
    tp_tensor_view(&feed.value, TP_F32, tp_make_shape(2, 3), data);
    const tp_tensor *value[2];
    double first = 0, last = 0;
    for (int i = 0; i < 40; i++) {
        CHECK_OK(tp_session_run(s, &feed, 1, fetch, 2, value));
        last = tp_tensor_get(value[0], 0);
        if (i == 0) first = last;
    }
    CHECK_MSG(last < 0.1 * first, "from %g to %g", first, last);
    /* saved, and loaded into another session */
    const char *path = tp_test_path(tp_test_tmpdir(), "two.npz");
    CHECK_OK(tp_save_checkpoint(s, path, NULL, 0));
    tp_tensor before, after;
    memset(&before, 0, sizeof before);
    memset(&after, 0, sizeof after);
    CHECK_OK(tp_session_read(s, tp_node_variable(b), &before));
    tp_session *again = open_on(g, d, 2);
    tp_session_init *init = tp_saver_restore(path);
    CHECK_OK(tp_session_init_run(init, again));
    tp_session_init_free(init);
    CHECK_OK(tp_session_read(again, tp_node_variable(b), &after));
    CHECK(same_tensor(&before, &after));
    tp_tensor_free(&before);
    tp_tensor_free(&after);
    tp_session_free(again);
    tp_session_free(s);
    for (int i = 0; i < 2; i++) d[i]->close(d[i]);
    tp_graph_free(g);
}

/* Two towers whose batch norm knows both batches: on devices of their own memory as on the CPU. */
static tp_node *pair[2];
static tp_node *build_tower(const tp_tower_context *tower, void *user)
{
    const int64_t shape[4] = {4, 5, 5, 2};
    (void)user; /* data of its own, other ones each step, so that nothing has to be fed */
    tp_node *x = tp_stop_gradient(tp_mul(tp_rand_normal(tower->graph, tp_make_shape_n(4, shape), 0, 1),
                                         tp_const(tower->graph, (float)(tower->index + 1))));
    tp_node *y = tp_conv2d(x, "conv", .filters = 3, .kernel_size = 3);
    y = tp_batch_norm(y, "bn", .sync_statistics = TP_SYNC_TOWERS, .ema_update = TP_EMA_INTERNAL);
    y = tp_fully_connected(tp_relu(y), "fc", .units = 4);
    return pair[tower->index] = tp_mean(tp_square(tp_affine(y, 1, -1)));
}
TEST(statistics_of_all_towers_on_devices_of_their_own_memory)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_towers_desc td;
    tp_node *cost[2], *grad[8], *fetch[2];
    tp_grad_var gvs[8];
    int n_vars = 0;
    memset(&td, 0, sizeof td);
    td.n = 2;
    CHECK_OK(tp_build_on_towers(g, &td, build_tower, NULL, cost));
    tp_node *const *vars = tp_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n_vars);
    fetch[0] = tp_add(cost[0], cost[1]);
    tp_gradients(fetch[0], vars, n_vars, grad);
    for (int i = 0; i < n_vars; i++) gvs[i].grad = grad[i], gvs[i].var = vars[i];
    fetch[1] = tp_apply_gradients(tp_momentum(tp_get_scalar_variable(g, "learning_rate", 0.05f)), gvs, n_vars);
    float first[4][STEPS];
    for (int kind = 0; kind < 4; kind++) { /* CPUs; through the host; peers; one of each */
        tp_device *d[2], *cpu[2];
        remote *r[2];
        const tp_tensor *value[2];
        CHECK_OK(tp_cpu_devices_new(2, 1, "naive", cpu));
        for (int i = 0; i < 2; i++) r[i] = remote_new(kind == 2);
        for (int i = 0; i < 2; i++) d[i] = kind == 0 || (kind == 3 && i == 0) ? cpu[i] : &r[i]->d;
        tp_session *s = open_on(g, d, 2);
        for (int i = 0; i < STEPS; i++) {
            CHECK_OK(tp_session_run(s, NULL, 0, fetch, 2, value));
            first[kind][i] = *(const float *)value[0]->data;
        }
        CHECK_MSG(memcmp(first[0], first[kind], sizeof first[0]) == 0, "kind %d: %.9g, not %.9g", kind,
                  (double)first[kind][STEPS - 1], (double)first[0][STEPS - 1]);
        CHECK(first[kind][0] != first[kind][1] && first[kind][STEPS - 1] > 0);
        tp_session_free(s);
        for (int i = 0; i < 2; i++) {
            r[i]->d.close(&r[i]->d);
            cpu[i]->close(cpu[i]);
        }
    }
    tp_graph_free(g);
}

/* A file of C has one memory: the placement is left behind, and the numbers stay. */
TEST(exported_to_c_all_of_it_is_one_device)
{
    tp_graph *g[2];
    tp_buf text[2];
    for (int i = 0; i < 2; i++) {
        tp_device *d[2];
        tp_export_c_info info;
        g[i] = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g[i], "x", TP_F32, tp_make_shape(TP_ANY, 3)), *w = NULL, *y = NULL;
        TP_DEVICE(g[i], i)
        {
            w = tp_get_variable_as(g[i], "w", TP_F32, tp_make_shape(3, 2), tp_init_ones());
            y = tp_tanh(tp_matmul(x, w));
        }
        y = tp_named(tp_affine(y, 2, 1), "y");
        CHECK_OK(tp_cpu_devices_new(2, 1, NULL, d));
        tp_session *s = open_on(g[i], d, 2);
        memset(&text[i], 0, sizeof text[i]);
        CHECK_OK(tp_export_c_text(s, &x, 1, &y, 1, &text[i], NULL, &info));
        CHECK(info.kernels == 2);
        tp_session_free(s);
        for (int k = 0; k < 2; k++) d[k]->close(d[k]);
    }
    CHECK_STR(text[1].data, text[0].data);
    for (int i = 0; i < 2; i++) {
        tp_buf_free(&text[i]);
        tp_graph_free(g[i]);
    }
}

TEST(wrong_placement_is_a_sentence)
{
    tp_device *d[2];
    CHECK_OK(tp_cpu_devices_new(2, 1, NULL, d));
    tp_session_config c = tp_default_session_config();
    c.devices = d;
    c.n_devices = 2;
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(1)), *far = NULL;
    TP_DEVICE(g, 2) far = tp_named(tp_exp(x), "far");
    tp_session *s = tp_session_new(g, &c);
    CHECK(s != NULL); /* nobody runs it yet */
    float one = 1;
    tp_feed feed;
    memset(&feed, 0, sizeof feed);
    feed.node = x;
    tp_tensor_view(&feed.value, TP_F32, tp_make_shape(1), &one);
    CHECK_ERR(tp_session_run(s, &feed, 1, &far, 1, NULL), TP_ERR_ARG,
              "'Exp' is to run on device 2, but the session has 2 devices, numbered from 0");
    feed.node = far;
    CHECK_ERR(tp_session_run(s, &feed, 1, &far, 1, NULL), TP_ERR_ARG, "'far' is to run on device 2");
    tp_session_free(s);
    TP_DEVICE(g, 5) tp_get_variable_as(g, "w", TP_F32, tp_make_shape(1), tp_init_ones());
    CHECK(tp_session_new(g, &c) == NULL);
    CHECK_HAS(tp_last_error(), "variable 'w' is to live on device 5, but the session has 2 devices, numbered from 0");
    CHECK(tp_session_new(g, NULL) == NULL);
    CHECK_HAS(tp_last_error(), "the session has 1 device, numbered from 0");
    tp_graph_free(g);

    g = tp_graph_new(NULL);
    tp_device_enter(g, -1);
    tp_device_leave(g);
    CHECK_HAS(tp_graph_error(g), "there is no device -1");
    tp_graph_free(g);
    g = tp_graph_new(NULL);
    tp_device_leave(g);
    CHECK_HAS(tp_graph_error(g), "a device scope is closed that was never opened");
    tp_graph_free(g);
    g = tp_graph_new(NULL);
    for (int i = 0; i < 70; i++) tp_device_enter(g, 0);
    CHECK_HAS(tp_graph_error(g), "device scopes are nested more than 64 deep");
    tp_graph_free(g);

    g = tp_graph_new(NULL);
    tp_node *v[2] = {NULL, NULL}, *grad[2];
    for (int i = 0; i < 2; i++)
        TP_DEVICE(g, i) v[i] = tp_get_variable_as(g, i ? "b" : "a", TP_F32, tp_make_shape(1), tp_init_ones());
    grad[0] = grad[1] = tp_ones_like(v[0]);
    CHECK(tp_is_poison(tp_apply_gradient_descent(v, grad, 2, tp_const(g, 1), NULL)));
    CHECK_HAS(tp_graph_error(g), "'a' lives on device 0 and 'b' on device 1: one op writes variables of one device");
    tp_graph_free(g);
    g = tp_graph_new(NULL);
    v[0] = tp_const(g, 1), v[1] = tp_ones_like(tp_placeholder(g, "x", TP_F32, tp_make_shape(2)));
    tp_all_reduce(v, 2, false, grad);
    CHECK_HAS(tp_graph_error(g), "all_reduce does not broadcast");
    tp_graph_free(g);
    g = tp_graph_new(NULL);
    v[0] = tp_const_as(g, TP_I32, 1);
    tp_all_reduce(v, 1, true, grad);
    CHECK_HAS(tp_graph_error(g), "there is no mean of int32");
    tp_graph_free(g);

    tp_device *none[1];
    CHECK_ERR(tp_cpu_devices_new(0, 1, NULL, none), TP_ERR_ARG, "0 CPU devices make no sense");
    for (int i = 0; i < 2; i++) { /* after a failure there is no device, whatever was in the array */
        none[0] = d[0];
        if (i) CHECK_ERR(tp_cpu_devices_new(1, -1, NULL, none), TP_ERR_ARG, "-1 threads for a CPU device");
        else CHECK_ERR(tp_cpu_devices_new(1, 1, "z80", none), TP_ERR_UNSUPPORTED, "instruction set 'z80' is unknown");
        CHECK(!none[0]);
    }
    for (int i = 0; i < 2; i++) d[i]->close(d[i]);
}

#if TP__FAST
/* A sum of columns where there is nothing to sum or nothing to give needs no scratch memory, whatever lay in memory before;
 * one of 1000 rows of 8 needs as many floats as its parts and the rows laid side by side. */
TEST(scratch_memory_of_reductions)
{
    static const int64_t sizes[][2] = {{0, 8}, {1000, 0}, {0, 0}, {1000, 8}}; /* rows, columns */
    for (int i = 0; i < TP_COUNT(sizes); i++) {
        tp__reduce_job j;
        memset(&j, 0x55, sizeof j);
        memset(&j.r, 0, sizeof j.r);
        j.r.n_sum = j.r.run = sizes[i][0];
        j.r.n_out = j.r.step = sizes[i][1];
        j.r.n_keep = j.r.n_reduce = 1;
        tp__reduce_cut(&j);
        const int64_t fold = i == 3 ? 16 : 0; /* 16 rows of 8 make 128 */
        CHECK_MSG(j.A == (i == 3) && j.W == fold * 8, "%d: %lld, %lld", i, (long long)j.A, (long long)j.W);
        CHECK(j.n_part == 1 && tp__reduce_partials(&j.r) == (size_t)j.W * sizeof(float));
    }
}
#endif

TEST_MAIN()
