/* The input sources beside FeedInput and QueueInput: batches from a queue of samples, data sets, tensors of a function, dummies,
 * staging, remapping, a program's own. What they deliver is compared with a formula of the datapoint's number. */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_test.h"

#define NO_SHAPE tp_make_shape_n(0, NULL)

static char said[4000];
static void hear(void *user, tp_log_level level, const char *message)
{
    const size_t n = strlen(said);
    (void)user;
    if (level >= TP_LOG_WARN || strstr(message, "StagingInput")) snprintf(said + n, sizeof said - n, "%s\n", message);
}

/* ==== >>flows ========================================================================================= */

/* Datapoints pass*100 + index, int32 of `shape`, plus 1, 2, ... along it; `n` a pass; -1: for ever. asked: how often. */
typedef struct numbers {
    int64_t n;
    int elements; /* 0: a scalar */
    int64_t fails_at, other_at;
    double slow;
    long asked; /* atomic */
} numbers;
static tp_status give_number(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    numbers *k = (numbers *)user;
    __atomic_add_fetch(&k->asked, 1, __ATOMIC_ACQ_REL);
    if (k->slow > 0) tp_test_sleep(k->slow);
    if (k->fails_at && index == k->fails_at) return tp_fail(TP_ERR_IO, "the disk is gone");
    if (k->n >= 0 && index >= k->n) return TP_END;
    tp_status st = tp_datapoint_resize(dp, 1);
    const tp_dtype dtype = k->other_at && index == k->other_at ? TP_I64 : TP_I32;
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], dtype, k->elements ? tp_make_shape(k->elements) : NO_SHAPE);
    for (int64_t i = 0; st == TP_OK && i < tp_tensor_size(&dp->c[0]); i++)
        tp_tensor_set(&dp->c[0], i, (double)(pass * 100 + index + i));
    return st;
}
static tp_dataflow *flow_of(numbers *k)
{
    return tp_df_from_generator(give_number, k, .size = k->n > 0 && !k->fails_at ? k->n : 0);
}
/* Number i of the endless repetition. */
static int endless(const numbers *k, int64_t i) { return (int)(k->n > 0 ? i / k->n * 100 + i % k->n : i); }

/* ==== >>a device ====================================================================================== */
/* Its memory is not the host's. What is staged waits in numbered places. Kernels are the rows' naive loops. */

enum { PLACES = 32 };
typedef struct shy {
    tp_device d;
    tp_mutex *m;
    void *place[PLACES]; /* with the mutex */
    size_t bytes[PLACES];
    int stages, waiting, most, live, fail_stage, uploads;
    tp_thread *t;
} shy;
static void *shy_alloc(tp_device *d, size_t bytes)
{
    shy *s = (shy *)d->impl;
    void *p = tp_alloc_aligned(bytes);
    tp_mutex_lock(s->m);
    s->live += p != NULL;
    tp_mutex_unlock(s->m);
    return p;
}
static void shy_free(tp_device *d, void *p)
{
    shy *s = (shy *)d->impl;
    tp_mutex_lock(s->m);
    s->live -= p != NULL;
    tp_mutex_unlock(s->m);
    tp_free_aligned(p);
}
static tp_status shy_move(tp_device *d, void *dst, const void *src, size_t bytes)
{
    (void)d;
    if (bytes) memcpy(dst, src, bytes);
    return TP_OK;
}
static tp_status shy_upload(tp_device *d, void *dst, const void *src, size_t bytes)
{
    ((shy *)d->impl)->uploads++; /* one thread only: the test with ThreadSanitizer sees to it */
    return shy_move(d, dst, src, bytes);
}
static tp_status shy_stage(tp_device *d, const void *src, size_t bytes, int *number)
{
    shy *s = (shy *)d->impl;
    tp_status st = TP_OK;
    tp_mutex_lock(s->m);
    int i = 0;
    while (i < PLACES && s->place[i]) i++;
    if (++s->stages == s->fail_stage || i == PLACES) st = tp_fail(TP_ERR_STATE, "no place to stage");
    if (st == TP_OK && !(s->place[i] = tp_malloc(bytes))) st = TP_ERR_NOMEM;
    if (st == TP_OK) {
        memcpy(s->place[i], src, bytes);
        s->bytes[i] = bytes;
        *number = i;
        if (++s->waiting > s->most) s->most = s->waiting;
    }
    tp_mutex_unlock(s->m);
    return st;
}
static tp_status shy_unstage(tp_device *d, int number, void *dst)
{
    shy *s = (shy *)d->impl;
    tp_mutex_lock(s->m);
    if (CHECK(number >= 0 && number < PLACES && s->place[number])) {
        if (dst) memcpy(dst, s->place[number], s->bytes[number]);
        tp_free(s->place[number]);
        s->place[number] = NULL;
        s->waiting--;
    }
    tp_mutex_unlock(s->m);
    return TP_OK;
}
static void shy_run(const tp_call *k)
{
    bool f64 = false;
    for (int i = 0; i < k->n_in; i++) f64 = f64 || k->in[i].dtype == TP_F64;
    if (f64 && !(k->op->flags & TP_OP_ANY_DTYPE)) k->op->naive_f64(k);
    else k->op->naive_f32(k);
}
static tp_kernel_fn shy_find(tp_device *d, const char *op)
{
    (void)d, (void)op;
    return shy_run;
}
static tp_status shy_wait(tp_device *d)
{
    (void)d;
    return TP_OK;
}
static void shy_close(tp_device *d)
{
    shy *s = (shy *)d->impl;
    CHECK(s->live == 0 && s->waiting == 0);
    tp_mutex_free(s->m);
    tp_free(s);
}
static shy *shy_new(int number)
{
    shy *s = (shy *)tp_calloc(1, sizeof *s);
    if (!s || !(s->m = tp_mutex_new())) {
        tp_free(s);
        return NULL;
    }
    s->d.abi = TP_ABI;
    snprintf(s->d.name, sizeof s->d.name, "shy:%d", number);
    s->d.alloc = shy_alloc;
    s->d.free = shy_free;
    s->d.upload = shy_upload;
    s->d.download = shy_move;
    s->d.copy = shy_move;
    s->d.find_kernel = shy_find;
    s->d.wait = shy_wait;
    s->d.stage = shy_stage;
    s->d.unstage = shy_unstage;
    s->d.close = shy_close;
    s->d.impl = s;
    tp_device_ready(&s->d);
    return s;
}

/* ==== >>a program ===================================================================================== */

enum { TOWERS = 3 };
/* A kernel that takes a while, if kernel_naps, and hands on what it is given. */
static double kernel_naps;
static tp_op nap_row;
static void nap_kernel(const tp_call *k)
{
    tp_test_sleep(kernel_naps);
    memcpy(k->out[0].data, k->in[0].data, sizeof(int32_t));
}
static tp_node *napping(tp_node *x)
{
    nap_row = *tp_op_find("identity");
    nap_row.name = nap_row.label = "nap";
    nap_row.flags = TP_OP_RANDOM | TP_OP_ANY_DTYPE; /* neither fused nor folded */
    nap_row.naive_f32 = nap_row.naive_f64 = nap_kernel;
    nap_row.grad = NULL;
    return tp_apply(tp_node_graph(x), &nap_row, &x, 1, NULL);
}

/* A source of one input "x", a node y = 2 x for each tower (on its device), a hooked session. */
typedef struct machine {
    tp_graph *g;
    tp_input_source *s;
    tp_session *session;
    tp_hooked_session *hooked;
    tp_node *x[TOWERS], *y[TOWERS];
    shy *on[TOWERS];
    int towers;
    tp_hook *extra;
} machine;

static tp_status machine_open_on(machine *m, tp_input_source *s, int towers, tp_spec spec, int devices, tp_hook *extra)
{
    tp_session_config c = tp_default_session_config();
    tp_device *d[TOWERS];
    memset(m, 0, sizeof *m);
    m->s = s;
    m->towers = towers;
    m->g = tp_graph_new(NULL);
    if (!m->g) return TP_ERR_NOMEM;
    tp_status st = tp_input_setup(s, m->g, &spec, 1);
    for (int t = 0; t < towers && st == TP_OK; t++) {
        tp_device_enter(m->g, devices ? t % devices : 0);
        st = tp_input_get_tensors(s, &m->x[t]);
        m->y[t] = st == TP_OK ? tp_add(m->x[t], m->x[t]) : NULL;
        if (st == TP_OK && kernel_naps > 0) m->y[t] = napping(m->y[t]);
        tp_device_leave(m->g);
    }
    if (st == TP_OK) st = tp_graph_status(m->g);
    if (st != TP_OK) return st;
    for (int i = 0; i < devices; i++) {
        if (!(m->on[i] = shy_new(i))) return TP_ERR_NOMEM;
        d[i] = &m->on[i]->d;
    }
    c.threads = 1;
    c.devices = devices ? d : NULL;
    c.n_devices = devices;
    int n = 0;
    tp_hook *const *hooks = tp_input_hooks(s, &n);
    tp_hook *all[8];
    if (s->hooks && !hooks) return TP_ERR_NOMEM;
    for (int i = 0; i < n; i++) all[i] = hooks[i];
    if (extra) all[n++] = extra;
    if (!(m->session = tp_session_new(m->g, &c))) return TP_ERR_NOMEM;
    for (int i = 0; i < n && st == TP_OK; i++)
        if (all[i]->after_create_session) st = all[i]->after_create_session(all[i], m->session);
    if (st == TP_OK && !(m->hooked = tp_hooked_session_new(m->session, all, n))) st = TP_ERR_NOMEM;
    return st == TP_OK ? tp_input_reset_state(s) : st;
}
static tp_spec scalar_spec(void)
{
    const tp_spec s = {"x", TP_I32, {0, {0}}};
    return s;
}
static tp_status machine_open(machine *m, tp_input_source *s, int towers)
{
    return machine_open_on(m, s, towers, scalar_spec(), 0, NULL);
}
static void machine_close(machine *m)
{
    tp_hooked_session_free(m->hooked);
    tp_session_free(m->session);
    tp_input_free(m->s);
    tp_graph_free(m->g);
    for (int i = 0; i < TOWERS; i++)
        if (m->on[i]) m->on[i]->d.close(&m->on[i]->d);
}
static tp_status machine_run(machine *m, const tp_tensor **value)
{
    return tp_hooked_run(m->hooked, m->y, m->towers, value);
}
/* The first element that each tower got, as "0 1 2", and how it ended if it did. */
static const char *machine_walk(machine *m, int steps)
{
    static char text[4000];
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < steps; i++) {
        const tp_tensor *v[TOWERS];
        const tp_status st = machine_run(m, v);
        if (st != TP_OK) {
            snprintf(text + n, sizeof text - n, "%s%s", n ? " " : "", tp_status_name(st));
            break;
        }
        for (int t = 0; t < m->towers; t++)
            n += (size_t)snprintf(text + n, sizeof text - n, n ? " %d" : "%d", (int)tp_tensor_get(v[t], 0) / 2);
    }
    return text;
}
/* What that must be: n datapoints from number `from` on. */
static const char *numbers_text(const numbers *k, int64_t from, int64_t n, const char *end)
{
    static char text[4000];
    size_t len = 0;
    text[0] = 0;
    for (int64_t i = from; i < from + n; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, len ? " %d" : "%d", endless(k, i));
    snprintf(text + len, sizeof text - len, "%s%s", len && *end ? " " : "", end);
    return text;
}

/* ==== >>a feed-free source of one's own =============================================================== */

/* Counts up from what seek said, fed by a hook from memory of its own. */
typedef struct counter {
    int n_tower, cap;
    tp_node *node[TOWERS];
    int32_t value[TOWERS];
    int64_t ends; /* 0: never */
    tp_hook hook, *hooks[1];
    int sessions, closed;
    int *closes;
    bool fetches, feeds_more, feeds_less, no_hooks;
    tp_device *device; /* where its values are; NULL: in host memory */
    int waits;         /* atomic; 1: its hook waits for data that never come */
    tp_mutex *mutex;
    tp_cond *cond;
} counter;
static tp_status counter_tensors(tp_input_source *s, tp_node **in)
{
    counter *c = (counter *)s->user;
    tp_input_cached_name_scope_push(s);
    in[0] = c->node[c->n_tower] = tp_placeholder(s->graph, "x", TP_I32, NO_SHAPE);
    tp_name_scope_pop(s->graph);
    c->n_tower++;
    return TP_OK;
}
static tp_status counter_session(tp_hook *h, tp_session *s)
{
    CHECK(s != NULL);
    ((counter *)((tp_input_source *)h->user)->user)->sessions++;
    return TP_OK;
}
static tp_status counter_before(tp_hook *h, tp_run_request *r)
{
    tp_input_source *s = (tp_input_source *)h->user;
    counter *c = (counter *)s->user;
    if (c->ends && s->consumed + c->n_tower > c->ends) return TP_END;
    tp_status st = TP_OK;
    if (c->mutex) {
        tp_mutex_lock(c->mutex);
        while (st == TP_OK && __atomic_load_n(&c->waits, __ATOMIC_ACQUIRE))
            st = tp_request_wait(r, c->cond, c->mutex, "CounterInput waited for data");
        tp_mutex_unlock(c->mutex);
    }
    if (c->fetches) tp_request_fetch(r, c->node[0]);
    for (int t = 0; t < c->n_tower - c->feeds_less && st == TP_OK; t++) {
        tp_tensor v;
        memset(&v, 0, sizeof v);
        c->value[t] = (int32_t)s->consumed + t;
        tp_tensor_view(&v, TP_I32, NO_SHAPE, &c->value[t]);
        v.device = c->device;
        st = tp_request_feed(r, c->node[t], &v);
    }
    if (c->feeds_more) {
        tp_tensor v;
        memset(&v, 0, sizeof v);
        tp_tensor_view(&v, TP_I32, NO_SHAPE, &c->value[0]);
        st = tp_request_feed(r, tp_graph_find(s->graph, "other"), &v);
    }
    return st;
}
static tp_status counter_after(tp_hook *h, const tp_run_values *v)
{
    tp_input_source *s = (tp_input_source *)h->user;
    (void)v;
    s->consumed += ((counter *)s->user)->n_tower;
    return TP_OK;
}
static tp_status counter_hooks(tp_input_source *s, tp_hook *const **hook, int *n)
{
    counter *c = (counter *)s->user;
    if (c->no_hooks) return tp_fail(TP_ERR_IO, "there are no hooks today");
    c->hook.user = s;
    c->hook.after_create_session = counter_session;
    c->hook.before_run = counter_before;
    c->hook.after_run = counter_after;
    c->hooks[0] = &c->hook;
    *hook = c->hooks;
    *n = 1;
    return TP_OK;
}
static tp_status counter_seek(tp_input_source *s, int64_t consumed)
{
    s->consumed = consumed;
    return TP_OK;
}
static void counter_close(tp_input_source *s)
{
    counter *c = (counter *)s->user;
    if (c->closes) ++*c->closes;
    tp_mutex_free(c->mutex);
    tp_cond_free(c->cond);
}
static tp_input_source *counter_new(int64_t ends, int *closes)
{
    tp_input_source *s = tp_feedfree_input("CounterInput", sizeof(counter));
    if (!s) return NULL;
    s->get_input_tensors = counter_tensors;
    s->hooks = counter_hooks;
    s->seek = counter_seek;
    s->close = counter_close;
    ((counter *)s->user)->ends = ends;
    ((counter *)s->user)->closes = closes;
    return s;
}

TEST(a_feed_free_source_of_ones_own)
{
    const numbers k = {-1, 0, 0, 0, 0, 0};
    for (int towers = 1; towers <= TOWERS; towers++)
        for (int staged = 0; staged < 2; staged++) {
            machine m;
            int closes = 0;
            tp_input_source *own = counter_new(0, &closes);
            CHECK(own->feedfree && own->reset_state == NULL && tp_input_size(own) == -1);
            CHECK_OK(machine_open(&m, staged ? tp_staging_input(own, .nr_stage = 2) : own, towers));
            CHECK_STR(machine_walk(&m, 7), numbers_text(&k, 0, 7 * towers, ""));
            CHECK_OK(tp_input_reset_state(m.s)); /* does nothing: nothing is lost that lay ready */
            CHECK_STR(machine_walk(&m, 3), numbers_text(&k, 7 * towers, 3 * towers, ""));
            CHECK(m.s->consumed == 10 * towers && ((counter *)own->user)->sessions == 1);
            CHECK_OK(tp_input_seek(m.s, 31));
            CHECK_STR(machine_walk(&m, 2), numbers_text(&k, 31, 2 * towers, ""));
            if (!staged) CHECK_STR(tp_node_name(m.x[0]), "CounterInput/x");
            machine_close(&m);
            CHECK(closes == 1);
        }
    machine m; /* without seek: a position that is lost is said so */
    tp_input_source *own = counter_new(0, NULL);
    own->seek = NULL;
    CHECK_OK(machine_open(&m, own, 1));
    machine_walk(&m, 3);
    CHECK(m.s->consumed == 3);
    CHECK_ERR(tp_input_seek(m.s, 3), TP_ERR_UNSUPPORTED, "CounterInput cannot go back to datapoint 3");
    machine_close(&m);
    CHECK(tp_feedfree_input(NULL, 8) == NULL);
    CHECK(tp_feedfree_input("large", SIZE_MAX - 8) == NULL);
}

/* A source that cannot give its hooks: that is told through those around it, each time it is asked. */
TEST(a_source_without_hooks)
{
    static const char *const x[] = {"x"};
    for (int around = 0; around < 4; around++) {
        const tp_spec spec = scalar_spec();
        tp_graph *g = tp_graph_new(NULL);
        tp_node *node = NULL;
        tp_input_source *own = counter_new(0, NULL), *s = own;
        if (around & 1) s = tp_remap_input_source(s, x, 1);
        if (around & 2) s = tp_staging_input(s);
        CHECK_OK(tp_input_setup(s, g, &spec, 1));
        CHECK_OK(tp_input_get_tensors(s, &node));
        for (int again = 0; again < 3; again++) {
            int n = 7;
            ((counter *)own->user)->no_hooks = again < 2;
            tp_fail(TP_ERR, "something else");
            tp_hook *const *hooks = tp_input_hooks(s, &n);
            CHECK_MSG((hooks == NULL) == (again < 2), "%d around it, call %d: %d hooks", around, again, n);
            if (again < 2) CHECK_HAS(tp_last_error(), "there are no hooks today");
            else CHECK_MSG(n == (around == 1 ? 2 : 1) && hooks[0] != NULL, "%d around it: %d hooks", around, n);
        }
        tp_input_free(s);
        tp_graph_free(g);
    }
}

/* A source may have no hooks at all; those around it have their own. */
TEST(a_source_that_needs_no_hooks)
{
    static const char *const x[] = {"x"};
    for (int around = 0; around < 4; around++) {
        const tp_spec spec = scalar_spec();
        tp_graph *g = tp_graph_new(NULL);
        tp_node *node = NULL;
        int n = 7;
        tp_input_source *s = counter_new(0, NULL);
        s->hooks = NULL;
        if (around & 1) s = tp_remap_input_source(s, x, 1);
        if (around & 2) s = tp_staging_input(s);
        CHECK_OK(tp_input_setup(s, g, &spec, 1));
        CHECK_OK(tp_input_get_tensors(s, &node));
        tp_hook *const *hooks = tp_input_hooks(s, &n);
        CHECK_MSG(n == (around > 0) && (hooks != NULL) == (around > 0), "%d around it: %d hooks", around, n);
        CHECK(!n || (hooks[0] && hooks[0]->after_run));
        tp_input_free(s);
        tp_graph_free(g);
    }
}

/* A seek of what is staged: where the source only cannot go back, the stage goes on at once; after another failure the source
 * begins anew, with the next run. */
static tp_status seek_says;
static tp_status finds_its_device(tp_hook *h, tp_session *session)
{
    return ((counter *)h->user)->device = tp_session_device(session, 0), TP_OK;
}
/* What a device has already is not staged: a sentence says so. */
TEST(a_stage_whose_source_feeds_from_a_device)
{
    machine m;
    tp_hook hook;
    const tp_tensor *v[TOWERS];
    tp_input_source *own = counter_new(0, NULL);
    memset(&hook, 0, sizeof hook);
    hook.after_create_session = finds_its_device, hook.user = own->user;
    CHECK_OK(machine_open_on(&m, tp_staging_input(own), 1, scalar_spec(), 1, &hook));
    CHECK_ERR(machine_run(&m, v), TP_ERR_ARG, "CounterInput feeds a tensor that is already on shy:0");
    machine_close(&m);
}

static int resets;
static tp_status counter_refuses(tp_input_source *s, int64_t consumed)
{
    (void)s;
    return consumed == 8 ? tp_fail(seek_says, "it does not seek") : TP_OK;
}
static tp_status counter_reset(tp_input_source *s)
{
    resets++;
    s->consumed = 0;
    return TP_OK;
}
TEST(a_stage_whose_source_does_not_seek)
{
    static const tp_status says[] = {TP_ERR_UNSUPPORTED, TP_ERR_IO};
    const numbers k = {-1, 0, 0, 0, 0, 0};
    for (int i = 0; i < 2; i++) {
        machine m;
        tp_input_source *own = counter_new(0, NULL);
        own->seek = counter_refuses;
        own->reset_state = counter_reset;
        seek_says = says[i];
        CHECK_OK(machine_open(&m, tp_staging_input(own), 1));
        resets = 0;
        CHECK_STR(machine_walk(&m, 3), numbers_text(&k, 0, 3, ""));
        CHECK_ERR(tp_input_seek(m.s, 8), says[i], "it does not seek");
        CHECK(resets == 0);
        if (i) CHECK(m.s->consumed == own->consumed);
        const char *next = machine_walk(&m, 2);
        CHECK_MSG(resets == i && !strstr(next, "TP_"), "%d resets, %s", resets, next);
        if (i) CHECK_STR(next, numbers_text(&k, 0, 2, ""));
        machine_close(&m);
    }
}

/* A run's limit of time holds for a hook that waits, staged too, whether a thread stages or the run itself; the next run
 * gets what the failed one would have got. */
TEST(a_source_that_waits_is_given_up)
{
    for (int staged = 0; staged < 2; staged++) {
        machine m;
        tp_input_source *own = counter_new(0, NULL);
        counter *c = (counter *)own->user;
        c->mutex = tp_mutex_new(), c->cond = tp_cond_new(), c->waits = 1;
        CHECK_OK(machine_open(&m, staged ? tp_staging_input(own) : own, 1));
        tp_hooked_session_set_timeout(m.hooked, 12);
        for (int again = 0; again < 2; again++)
            CHECK_ERR(machine_run(&m, NULL), TP_ERR_TIMEOUT, "Input waited for data");
        tp_hooked_session_set_timeout(m.hooked, 60000);
        __atomic_store_n(&c->waits, 0, __ATOMIC_RELEASE);
        CHECK_STR(machine_walk(&m, 3), "0 1 2");
        machine_close(&m);
    }
}

/* ==== >>BatchQueueInput =============================================================================== */

static tp_spec batch_spec(int64_t first, int64_t second)
{
    tp_spec s = {"x", TP_I32, {0, {0}}};
    s.shape = tp_make_shape(first, second);
    return s;
}
/* Run number `run` of a source of batches of `bs`: every element of every sample. */
static void check_batches(machine *m, const numbers *k, int64_t *at, int bs, int steps)
{
    for (int i = 0; i < steps; i++) {
        const tp_tensor *v[TOWERS];
        if (!CHECK_OK(machine_run(m, v))) return;
        for (int t = 0; t < m->towers; t++) {
            CHECK(v[t]->shape.ndim == 2 && v[t]->shape.dim[0] == bs && v[t]->shape.dim[1] == k->elements);
            for (int b = 0; b < bs; b++, ++*at)
                for (int e = 0; e < k->elements; e++)
                    CHECK_MSG(tp_tensor_get(v[t], b * k->elements + e) == 2 * (endless(k, *at) + e),
                              "sample %lld, element %d", (long long)*at, e);
        }
        CHECK(m->s->consumed == *at);
    }
}

TEST(batches_from_a_queue_of_samples)
{
    static const int capacities[] = {1, 2, 5, 8, 0};
    for (int bs = 1; bs <= 4; bs++)
        for (int c = 0; c < TP_COUNT(capacities); c++)
            for (int towers = 1; towers <= TOWERS; towers++) {
                numbers k = {7, 3, 0, 0, 0, 0};
                machine m;
                int64_t at = 0;
                CHECK_OK(machine_open_on(&m, tp_batch_queue_input(flow_of(&k), bs, .capacity = capacities[c]), towers,
                                         batch_spec(TP_ANY, 3), 0, NULL));
                CHECK(tp_input_size(m.s) == 7 / bs && m.s->feedfree);
                check_batches(&m, &k, &at, bs, 9);
                at = 5; /* a position in the middle of a batch is one too */
                CHECK_OK(tp_input_seek(m.s, at));
                check_batches(&m, &k, &at, bs, 3);
                machine_close(&m);
            }
    numbers k = {7, 3, 0, 0, 0, 0};
    machine m;
    CHECK_OK(machine_open_on(&m, tp_batch_queue_input(flow_of(&k), 2), 1, batch_spec(2, 3), 0, NULL));
    CHECK_STR(tp_node_name(m.x[0]), "BatchQueueInput/x");
    int n = 0;
    tp_node *const *summaries = tp_collection(m.g, TP_KEY_SUMMARIES, &n);
    CHECK(n == 1);
    CHECK_STR(tp_summary_info(summaries[0])->tag, "BatchQueueInput/queue_size-summary");
    machine_close(&m);
}

TEST(an_incomplete_last_batch_is_dropped)
{
    numbers k = {7, 2, 0, 0, 0, 0};
    for (int threads = 1; threads <= 2; threads++) {
        machine m;
        int64_t at = 0;
        CHECK_OK(machine_open_on(&m, tp_batch_queue_input(flow_of(&k), 3, .infinite = TP_NO), threads,
                                 batch_spec(TP_ANY, 2), 0, NULL));
        for (int round = 0; round < 2; round++) {
            at = 0;
            check_batches(&m, &k, &at, 3, 2 / threads);
            CHECK_STR(machine_walk(&m, 1), "TP_END");
            CHECK(m.s->consumed == 6 && tp_input_failure(m.s, NULL) == TP_OK);
            CHECK_OK(tp_input_reset_state(m.s));
        }
        machine_close(&m);
    }
}

#ifndef TP_NO_THREADS
/* Is the flow asked so often, and then no more? */
static bool asked_exactly(const long *asked, long want)
{
    const double until = tp_time() + 60;
    while (__atomic_load_n(asked, __ATOMIC_ACQUIRE) < want && tp_time() < until) tp_test_sleep(0.0002);
    tp_test_sleep(0.002);
    return CHECK_MSG(__atomic_load_n(asked, __ATOMIC_ACQUIRE) == want, "%ld, not %ld", *asked, want);
}
TEST(a_queue_holds_50)
{
    static const int given[] = {0, 7};
    for (int i = 0; i < 2; i++) {
        numbers k = {-1, 0, 0, 0, 0, 0};
        machine m;
        const long capacity = given[i] ? given[i] : 50;
        CHECK_OK(machine_open(&m, tp_queue_input(flow_of(&k), .capacity = given[i]), 1));
        asked_exactly(&k.asked, capacity);
        CHECK_STR(machine_walk(&m, 3), "0 1 2");
        asked_exactly(&k.asked, capacity + 3);
        machine_close(&m);
    }
    tp_queue *q = tp_queue_new(0); /* and one of the program's own: nothing waits until it is full */
    float v = 1;
    const tp_tensor t = tp_scalar_view(&v);
    tp_datapoint dp = {0, NULL, 0};
    CHECK_OK(tp_datapoint_resize(&dp, 1));
    CHECK_OK(tp_tensor_copy(&dp.c[0], &t));
    for (int i = 0; i < 50; i++) CHECK_OK(tp_queue_put(q, &dp));
    CHECK(tp_queue_size(q) == 50);
    tp_datapoint_free(&dp);
    tp_queue_free(q);
}
/* Each step adds how many datapoints wait behind the one that it takes, with decay 0.5; the first value is the number itself. */
TEST(the_size_of_a_queue_is_averaged)
{
    numbers k = {6, 0, 0, 0, 0, 0};
    machine m;
    CHECK_OK(machine_open(&m, tp_queue_input(flow_of(&k), .infinite = TP_NO), 1));
    asked_exactly(&k.asked, 7); /* the last call says that there are no more */
    for (int step = 0; step < 6; step++) {
        double sum = 0, weights = 0;
        machine_walk(&m, 1);
        for (int i = 0; i <= step; i++) {
            sum += pow(0.5, step - i) * (5 - i);
            weights += pow(0.5, step - i);
        }
        CHECK_NEAR((double)tp_queue_input_size_ema(m.s), sum / weights, 1e-6, 0);
    }
    machine_close(&m);
}
TEST(a_queue_of_samples_holds_3000)
{
    static const int given[] = {0, 10};
    for (int i = 0; i < 2; i++) {
        numbers k = {-1, 1, 0, 0, 0, 0};
        machine m;
        int64_t at = 0;
        const long capacity = given[i] ? given[i] : 3000;
        CHECK_OK(machine_open_on(&m, tp_batch_queue_input(flow_of(&k), 4, .capacity = given[i]), 1,
                                 batch_spec(TP_ANY, 1), 0, NULL));
        asked_exactly(&k.asked, capacity);
        check_batches(&m, &k, &at, 4, 2);
        asked_exactly(&k.asked, capacity + 8);
        machine_close(&m);
    }
}
#endif

TEST(wrong_samples_are_sentences)
{
    machine m;
    numbers other = {9, 2, 0, 4, 0, 0}, fails = {9, 2, 4, 0, 0, 0}, scalars = {9, 0, 0, 0, 0, 0};
    int64_t at = 0;
    CHECK_OK(machine_open_on(&m, tp_batch_queue_input(flow_of(&other), 2), 1, batch_spec(TP_ANY, 2), 0, NULL));
    check_batches(&m, &other, &at, 2, 2);
    CHECK_ERR(
        machine_run(&m, NULL), TP_ERR_DTYPE,
        "BatchQueueInput: component 0 ('x') of datapoint 4 is int64 (2), a sample of the input signature is int32 (2)");
    CHECK(tp_input_failure(m.s, NULL) == TP_ERR_DTYPE);
    machine_close(&m);
    at = 0;
    CHECK_OK(machine_open_on(&m, tp_batch_queue_input(flow_of(&fails), 2), 1, batch_spec(TP_ANY, 2), 0, NULL));
    check_batches(&m, &fails, &at, 2, 2);
    CHECK_ERR(machine_run(&m, NULL), TP_ERR_IO, "the disk is gone");
    machine_close(&m);
    CHECK_OK(machine_open_on(&m, tp_batch_queue_input(flow_of(&scalars), 2), 1, batch_spec(TP_ANY, 2), 0, NULL));
    CHECK_ERR(machine_run(&m, NULL), TP_ERR_SHAPE,
              "of datapoint 0 is int32 (), a sample of the input signature is int32 (2)");
    machine_close(&m);
    numbers k = {9, 2, 0, 0, 0, 0};
    CHECK_OK(
        machine_open_on(&m, tp_batch_queue_input(tp_df_batch(flow_of(&k), 2), 2), 1, batch_spec(TP_ANY, 2), 0, NULL));
    CHECK_ERR(machine_run(&m, NULL), TP_ERR_SHAPE, "it takes single samples, not batches");
    machine_close(&m);
    static const struct {
        int64_t first, second;
        int bs, capacity;
        tp_status st;
        const char *why;
    } wrong[] = {
        {TP_ANY, TP_ANY, 2, 0, TP_ERR_SHAPE, "input 'x' has shape (?,?): all dimensions but the first must be known"},
        {3, 2, 2, 0, TP_ERR_SHAPE, "input 'x' has shape (3,2), and the batch size is 2"},
        {TP_ANY, 2, 0, 0, TP_ERR_ARG, "tp_batch_queue_input: batch_size is 0"},
        {TP_ANY, 2, -3, 0, TP_ERR_ARG, "tp_batch_queue_input: batch_size is -3"},
        {TP_ANY, 2, (1 << 24) + 1, 0, TP_ERR_ARG, "tp_batch_queue_input: batch_size is 16777217"},
        {TP_ANY, 2, 2, -1, TP_ERR_ARG, "tp_batch_queue_input: a capacity of -1 samples"},
        {TP_ANY, 2, 2, (1 << 24) + 1, TP_ERR_ARG, "tp_batch_queue_input: a capacity of 16777217 samples"}};
    for (int i = 0; i < TP_COUNT(wrong); i++) {
        CHECK_ERR(machine_open_on(&m, tp_batch_queue_input(flow_of(&k), wrong[i].bs, .capacity = wrong[i].capacity), 1,
                                  batch_spec(wrong[i].first, wrong[i].second), 0, NULL),
                  wrong[i].st, wrong[i].why);
        machine_close(&m);
    }
    CHECK_ERR(machine_open(&m, tp_batch_queue_input(flow_of(&k), 2), 1), TP_ERR_SHAPE, "input 'x' is a scalar");
    machine_close(&m);
    CHECK(tp_batch_queue_input(NULL, 3) == NULL);
    static const int right[][2] = {{1, 0}, {1, 1}, {1 << 24, 1}, {1 << 24, 1 << 24}};
    for (int i = 0; i < TP_COUNT(right); i++) {
        tp_input_source *s = tp_batch_queue_input(flow_of(&k), right[i][0], .capacity = right[i][1]);
        CHECK_OK(tp_input_failure(s, NULL));
        tp_input_free(s);
    }
}

TEST(batches_from_a_queue_of_the_programs)
{
    tp_queue *q = tp_queue_new(4);
    numbers k = {10, 2, 0, 0, 0, 0};
    machine m;
    int64_t at = 0;
    CHECK_OK(machine_open_on(&m, tp_batch_queue_input(flow_of(&k), 3, .queue = q, .infinite = TP_NO), 1,
                             batch_spec(TP_ANY, 2), 0, NULL));
    check_batches(&m, &k, &at, 3, 3);
    CHECK_STR(machine_walk(&m, 1), "TP_END");
    CHECK_ERR(tp_input_seek(m.s, 3), TP_ERR_UNSUPPORTED, "cannot go back");
    machine_close(&m);
    tp_queue_free(q);
    q = tp_queue_new(4); /* what others put in is checked when it is taken */
    float wrong = 1;
    tp_tensor t = tp_scalar_view(&wrong);
    const tp_datapoint bad = {1, &t, 1};
    CHECK_OK(tp_queue_put(q, &bad));
    CHECK_OK(machine_open_on(&m, tp_batch_queue_input(flow_of(&k), 3, .queue = q), 1, batch_spec(TP_ANY, 2), 0, NULL));
    CHECK_ERR(machine_run(&m, NULL), TP_ERR_DTYPE, "component 0 ('x') is float32 ()");
    machine_close(&m);
    tp_queue_free(q);
}

#ifndef TP_NO_THREADS
typedef struct waiter {
    tp_queue *q;
    bool puts;
    tp_status st;
} waiter;
static void wait_in_queue(void *user)
{
    waiter *w = (waiter *)user;
    float value = 1;
    tp_tensor t = tp_scalar_view(&value);
    tp_datapoint full = {1, &t, 0}, got = {0, NULL, 0};
    while ((w->st = w->puts ? tp_queue_put(w->q, &full) : tp_queue_get(w->q, &got)) == TP_OK)
        ;
    tp_datapoint_free(&got);
}
/* The last owner frees it while threads wait: they end first, as if it were closed. */
TEST(a_queue_is_freed_while_threads_wait)
{
    tp_test_fail_after(0); /* counts blocks of memory from here on */
    for (int puts = 0; puts < 2; puts++) {
        tp_queue *q = tp_queue_new(2);
        waiter w[2] = {{q, puts == 1, TP_OK}, {q, puts == 1, TP_OK}};
        tp_thread *thread[2] = {NULL, NULL};
        for (int i = 0; i < 2; i++) CHECK_OK(tp_thread_start(&thread[i], wait_in_queue, &w[i]));
        while (puts && tp_queue_size(q) < 2) tp_test_sleep(0.001);
        tp_test_sleep(0.05); /* now they wait */
        tp_queue_free(q);
        for (int i = 0; i < 2; i++) tp_thread_join(thread[i]);
        CHECK(w[0].st == TP_END && w[1].st == TP_END);
    }
    CHECK(tp_test_live_blocks() == 0);
    tp_test_alloc_reset();
}
#endif

/* ==== >>TFDatasetInput ================================================================================ */

TEST(a_data_set_ends_and_begins_again)
{
    numbers k = {5, 0, 0, 0, 0, 0};
    const tp_dtype i32 = TP_I32;
    machine m;
    for (int typed = 0; typed < 2; typed++) {
        CHECK_OK(
            machine_open(&m, tp_dataset_input(typed ? tp_dataflow_to_dataset(flow_of(&k), &i32, 1) : flow_of(&k)), 1));
        CHECK(tp_input_size(m.s) == -1 && m.s->feedfree);
        for (int round = 0; round < 3; round++) {
            CHECK_STR(machine_walk(&m, 9), numbers_text(&k, 0, 5, "TP_END"));
            CHECK_STR(machine_walk(&m, 9), "TP_END");
            CHECK(tp_input_failure(m.s, NULL) == TP_OK && m.s->consumed == 5);
            CHECK_OK(tp_input_reset_state(m.s));
        }
        CHECK_OK(tp_input_seek(m.s, 3));
        CHECK_STR(machine_walk(&m, 9), numbers_text(&k, 3, 2, "TP_END"));
        CHECK_STR(tp_node_name(m.x[0]), "TFDatasetInput/x");
        machine_close(&m);
    }
    k.asked = 0;
    CHECK_OK(machine_open(&m, tp_dataset_input(tp_df_repeated(flow_of(&k), -1)), 2)); /* for ever, on two towers */
    CHECK(k.asked == 0); /* it is read when it is asked for */
    CHECK_STR(machine_walk(&m, 1), numbers_text(&k, 0, 2, ""));
    CHECK(k.asked == 2);
    CHECK_STR(machine_walk(&m, 8), numbers_text(&k, 2, 16, ""));
    CHECK_OK(tp_input_seek(m.s, 9));
    CHECK_STR(machine_walk(&m, 3), numbers_text(&k, 9, 6, ""));
    machine_close(&m);
    k.n = 5; /* too few for all towers: what is left over is not used */
    CHECK_OK(machine_open(&m, tp_dataset_input(flow_of(&k)), 2));
    CHECK_STR(machine_walk(&m, 9), numbers_text(&k, 0, 4, "TP_END"));
    machine_close(&m);
}

/* The datapoints of a map are views of those below, valid until the next one: each tower still gets its own. */
static tp_status as_it_is(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    (void)in, (void)out, (void)call;
    return TP_OK;
}
TEST(views_for_several_towers)
{
    for (int kind = 0; kind < 3; kind++)
        for (int towers = 1; towers <= TOWERS; towers++) {
            numbers k = {7, 0, 0, 0, 0, 0};
            machine m;
            tp_dataflow *df = tp_df_repeated(tp_df_map(flow_of(&k), as_it_is), -1);
            CHECK_OK(machine_open(&m,
                                  kind == 0   ? tp_dataset_input(df)
                                  : kind == 1 ? tp_queue_input(df)
                                              : tp_staging_input(tp_dataset_input(df)),
                                  towers));
            CHECK_STR(machine_walk(&m, 6), numbers_text(&k, 0, 6 * towers, ""));
            machine_close(&m);
        }
}

TEST(data_sets_have_types)
{
    const tp_dtype types[] = {TP_I32, TP_F32}, none = TP_DTYPE_UNSET;
    numbers k = {9, 0, 0, 3, 0, 0}, fails = {9, 0, 2, 0, 0, 0}, other = {9, 0, 0, 0, 0, 0};
    machine m;
    CHECK_ERR(machine_open(&m, tp_dataset_input(tp_dataflow_to_dataset(flow_of(&k), types, 2)), 1), TP_ERR_SHAPE,
              "TFDatasetInput: the data set has 2 components, the input signature has 1");
    machine_close(&m);
    CHECK_ERR(machine_open(&m, tp_dataset_input(tp_dataflow_to_dataset(flow_of(&k), types + 1, 1)), 1), TP_ERR_DTYPE,
              "component 0 ('x') of the data set is float32, the input signature wants int32");
    machine_close(&m);
    CHECK_OK(machine_open(&m, tp_dataset_input(tp_dataflow_to_dataset(flow_of(&k), types, 1)), 1));
    CHECK_STR(machine_walk(&m, 9), "0 1 2 TP_ERR_DTYPE");
    CHECK_HAS(tp_last_error(), "tp_dataflow_to_dataset: component 0 is int64, in the data set it is int32");
    CHECK_HAS(tp_last_error(), "[tp_dataflow_to_dataset: pass 0, datapoint 3]");
    machine_close(&m);
    CHECK_OK(machine_open(&m, tp_dataset_input(flow_of(&k)), 1)); /* a plain flow is checked too */
    CHECK_STR(machine_walk(&m, 9), "0 1 2 TP_ERR_DTYPE");
    machine_close(&m);
    CHECK_OK(machine_open(&m, tp_dataset_input(flow_of(&fails)), 1));
    CHECK_STR(machine_walk(&m, 9), "0 1 TP_ERR_IO");
    machine_close(&m);
    tp_datapoint dp = {0, NULL, 0};
    tp_dataflow *df = tp_dataflow_to_dataset(flow_of(&other), types, 2);
    CHECK_OK(tp_df_restart(df, 4));
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_SHAPE,
              "a datapoint has 1 components, the data set has 2 [tp_dataflow_to_dataset: pass 4, datapoint 0]");
    tp_df_free(df);
    df = tp_dataflow_to_dataset(flow_of(&k), types, 1);
    int64_t skipped = 0;
    CHECK(tp_df_size(df) == 9);
    CHECK_OK(tp_df_seek(df, 2, &skipped));
    CHECK_OK(tp_df_next(df, &dp));
    CHECK(skipped == 2 && tp_tensor_get(&dp.c[0], 0) == 2);
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_DTYPE, "pass 0, datapoint 3"); /* what was skipped counts */
    tp_df_free(df);
    df = tp_dataflow_to_dataset(flow_of(&k), types, 0);
    CHECK_ERR(tp_df_status(df), TP_ERR_ARG, "tp_dataflow_to_dataset: it needs the dtype of at least one component");
    tp_df_free(df);
    df = tp_dataflow_to_dataset(flow_of(&k), &none, 1);
    CHECK_ERR(tp_df_status(df), TP_ERR_DTYPE, "type 0 (0) is not a dtype");
    CHECK_ERR(machine_open(&m, tp_dataset_input(df), 1), TP_ERR_DTYPE, "type 0 (0) is not a dtype"); /* passed on */
    machine_close(&m);
    CHECK(tp_dataset_input(NULL) == NULL && tp_dataflow_to_dataset(NULL, types, 1) == NULL);
    tp_datapoint_free(&dp);
}

/* Two TFRecord files with the numbers 0 to 8 and 9 to 16. */
enum { RECORDS = 17 };
static const char *record_paths[2];
static void write_records(void)
{
    const char *dir = tp_test_tmpdir(), *name = "v";
    for (int f = 0; f < 2; f++) {
        tp_datapoint points[9];
        const int n = f ? RECORDS - 9 : 9;
        for (int i = 0; i < n; i++) {
            memset(&points[i], 0, sizeof points[i]);
            CHECK_OK(tp_datapoint_resize(&points[i], 1));
            CHECK_OK(tp_tensor_resize(&points[i].c[0], TP_I32, NO_SHAPE));
            tp_tensor_set(&points[i].c[0], 0, 9 * f + i);
        }
        record_paths[f] = tp_test_path(dir, f ? "b.tfrecord" : "a.tfrecord");
        tp_dataflow *df = tp_df_from_list(points, n, .shuffle = TP_NO);
        CHECK_OK(tp_df_save_tfrecord(df, record_paths[f], &name, 1));
        tp_df_free(df);
        for (int i = 0; i < n; i++) tp_datapoint_free(&points[i]);
    }
}
/* 1000 more, after a while that differs. */
static tp_status thousand_more(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    if (call->index % 5 == 0) tp_test_sleep(0.0003);
    const tp_status st = tp_tensor_resize(&out->c[0], TP_I32, in->c[0].shape);
    if (st == TP_OK) tp_tensor_set(&out->c[0], 0, tp_tensor_get(&in->c[0], 0) + 1000);
    return st;
}
/* Files, mapped by threads (0: by none), in batches of 4, read ahead, 3 passes long. */
static tp_input_source *records_input(int threads, tp_tri shuffle)
{
    const tp_spec feature = {"v", TP_I32, {0, {0}}};
    const tp_dtype i32 = TP_I32;
    tp_dataflow *df = tp_df_tfrecord(record_paths, 2, .features = &feature, .n_features = 1, .shuffle = shuffle);
    df = tp_df_repeated(df, 3);
    df = threads ? tp_df_parallel_map(df, thousand_more, .num_thread = threads, .keeps_all = TP_YES)
                 : tp_df_map(df, thousand_more, .keeps_all = TP_YES);
    df = tp_df_batch(df, 4);
    return tp_dataset_input(tp_dataflow_to_dataset(threads ? tp_df_prefetch(df) : df, &i32, 1));
}
/* The numbers of all batches from here on; *n of them. */
static tp_status all_records(machine *m, int *got, int *n)
{
    const tp_tensor *value[TOWERS];
    tp_status st;
    *n = 0;
    while ((st = machine_run(m, value)) == TP_OK && *n <= 3 * RECORDS)
        for (int i = 0; i < 4; i++) got[(*n)++] = (int)tp_tensor_get(value[0], i) / 2;
    return st;
}
static tp_spec batch_of_4(void)
{
    tp_spec spec = scalar_spec();
    spec.shape = tp_make_shape(4);
    return spec;
}

TEST(a_data_set_of_tfrecord_files)
{
    int want[3 * RECORDS + 4], got[3 * RECORDS + 4], n = 0;
    machine m;
    write_records();
    CHECK_OK(machine_open_on(&m, records_input(0, TP_YES), 1, batch_of_4(), 0, NULL));
    CHECK(all_records(&m, want, &n) == TP_END && n == 48); /* 12 batches of the 51 records of 3 passes */
    machine_close(&m);
    for (int pass = 0; pass < 2; pass++) { /* each record once a pass, in an order of its own */
        int seen[RECORDS] = {0}, in_order = 1;
        for (int i = 0; i < RECORDS; i++) {
            const int v = want[pass * RECORDS + i] - 1000;
            if (CHECK(v >= 0 && v < RECORDS)) seen[v]++;
            in_order += v == i;
        }
        for (int i = 0; i < RECORDS; i++) CHECK(seen[i] == 1);
        CHECK(in_order < RECORDS);
    }
    CHECK(memcmp(want, want + RECORDS, RECORDS * sizeof *want) != 0);
    for (int threads = 1; threads <= 8; threads = threads == 1 ? 2 : threads * 4) {
        CHECK_OK(machine_open_on(&m, records_input(threads, TP_YES), 1, batch_of_4(), 0, NULL));
        CHECK(all_records(&m, got, &n) == TP_END && n == 48 && memcmp(got, want, 48 * sizeof *got) == 0);
        for (int at = 1; at <= 11; at += 5) { /* what a resumed training does */
            CHECK_OK(tp_input_reset_state(m.s));
            CHECK_OK(tp_input_seek(m.s, at));
            CHECK(all_records(&m, got, &n) == TP_END && n == 48 - 4 * at);
            CHECK(memcmp(got, want + 4 * at, (size_t)n * sizeof *got) == 0);
        }
        machine_close(&m);
    }
}

TEST(a_data_set_of_a_damaged_tfrecord_file)
{
    int got[3 * RECORDS + 4], n = 0;
    char *data = NULL;
    size_t size = 0;
    machine m;
    write_records();
    CHECK_OK(tp_file_read(record_paths[1], false, 0, &data, &size));
    data[size / 8 * 5 + 14] ^= 1; /* in the data of number 5 of 8 alike */
    tp_test_write(record_paths[1], data, size);
    for (int threads = 0; threads <= 2; threads += 2) {
        CHECK_OK(machine_open_on(&m, records_input(threads, TP_NO), 1, batch_of_4(), 0, NULL));
        CHECK(all_records(&m, got, &n) == TP_ERR_FORMAT && n == 12); /* 9 and 5 are good: 3 batches */
        for (int i = 0; i < n; i++) CHECK(got[i] == 1000 + i);
        CHECK_HAS(tp_last_error(), "b.tfrecord: record 5 at byte ");
        machine_close(&m);
    }
    tp_free(data);
}

/* ==== >>TensorInput, DummyConstantInput =============================================================== */

/* A random float for each tower. */
typedef struct noise {
    int asked, released, wrong;
    int64_t sought;
    tp_node *count; /* a variable that rises by one in each run */
} noise;
static tp_status give_noise(tp_graph *g, int tower, tp_node **in, int n, void *user)
{
    noise *k = (noise *)user;
    CHECK(tower == k->asked++ && n == 1 && in[0] == NULL);
    switch (k->wrong) {
    case 1: return TP_OK;
    case 2: in[0] = tp_const_as(g, TP_F64, 1); return TP_OK;
    case 3: in[0] = tp_rand_uniform(g, tp_make_shape(3), 0, 1); return TP_OK;
    case 4: return tp_fail(TP_ERR_IO, "there is no tensor");
    case 5: tp_add(tp_const(g, 1), tp_const_as(g, TP_I32, 1)); return TP_OK; /* sticks to the graph */
    default: in[0] = tp_rand_uniform(g, tp_make_shape(4), 0, 1); return TP_OK;
    }
}
static tp_status give_count(tp_graph *g, int tower, tp_node **in, int n, void *user)
{
    noise *k = (noise *)user;
    (void)n;
    if (tower == 0) k->count = tp_get_variable_as(g, "count", TP_F32, tp_make_shape(4), tp_init_zeros());
    in[0] = tp_affine(tower == 0 ? tp_assign_add(k->count, tp_ones_like(k->count), NULL) : k->count, 1, 0);
    return TP_OK;
}
static tp_status seek_noise(void *user, int64_t consumed)
{
    ((noise *)user)->sought = consumed;
    return TP_OK;
}
static void release_noise(void *user) { ((noise *)user)->released++; }
static tp_spec noise_spec(void)
{
    tp_spec s = {"x", TP_F32, {0, {0}}};
    s.shape = tp_make_shape(4);
    return s;
}

TEST(tensors_of_a_function)
{
    noise k = {0, 0, 0, -1, NULL};
    machine m;
    CHECK_OK(machine_open_on(&m, tp_tensor_input(give_noise, .user = &k, .size = 12, .release = release_noise), 3,
                             noise_spec(), 0, NULL));
    CHECK(k.asked == 3 && tp_input_size(m.s) == 12 && m.s->feedfree && m.s->reset_state == NULL);
    double last = -1;
    for (int i = 0; i < 3; i++) {
        const tp_tensor *v[TOWERS];
        CHECK_OK(machine_run(&m, v));
        for (int t = 0; t < 3; t++) { /* each tower and each run has numbers of its own */
            CHECK(tp_tensor_get(v[t], 0) != last);
            last = tp_tensor_get(v[t], 0);
        }
        CHECK(m.s->consumed == 3 * (i + 1));
    }
    tp_hooked_session_set_datapoints(m.hooked, 1);
    CHECK_OK(tp_hooked_run(m.hooked, m.y, 1, NULL));
    CHECK(m.s->consumed == 10);
    CHECK_OK(tp_input_seek(m.s, 40)); /* random numbers go on by the step, which checkpoints have */
    CHECK(m.s->consumed == 40);
    machine_close(&m);
    CHECK(k.released == 1);
    /* a size that is unknown, a seek of one's own */
    CHECK_OK(machine_open_on(&m, tp_tensor_input(give_noise, .user = (k.asked = 0, &k), .seek = seek_noise), 1,
                             noise_spec(), 0, NULL));
    CHECK(tp_input_size(m.s) == -1);
    CHECK_OK(tp_input_seek(m.s, 7));
    CHECK(k.sought == 7 && k.released == 1);
    machine_close(&m);
}

static tp_status give_host(tp_graph *g, int tower, tp_node **in, int n, void *user)
{
    (void)tower, (void)n, (void)user;
    in[0] = tp_affine(tp_print(tp_rand_uniform(g, tp_make_shape(4), 0, 1), "host"), 2, 0);
    return TP_OK;
}
static tp_status give_after_host(tp_graph *g, int tower, tp_node **in, int n, void *user)
{
    (void)tower, (void)n, (void)user;
    tp_node *host = tp_print(tp_rand_uniform(g, tp_make_shape(4), 0, 1), "host");
    in[0] = tp_with_dependencies(tp_rand_uniform(g, tp_make_shape(4), 0, 1), &host, 1);
    return TP_OK;
}
TEST(wrong_tensors_are_sentences)
{
    static const struct {
        tp_status st;
        const char *why;
    } wrong[] = {{TP_OK, ""},
                 {TP_ERR_ARG, "TensorInput: the function gave no tensor for input 0 ('x')"},
                 {TP_ERR_DTYPE, "the tensor for input 0 ('x') is float64, the input signature wants float32"},
                 {TP_ERR_SHAPE, "the tensor for input 0 ('x') has shape (3), the input signature wants (4)"},
                 {TP_ERR_IO, "there is no tensor"},
                 {TP_ERR_DTYPE, "int32"}};
    machine m;
    for (int i = 1; i < TP_COUNT(wrong); i++) {
        noise k = {0, 0, i, -1, NULL};
        CHECK_ERR(machine_open_on(&m, tp_tensor_input(give_noise, .user = &k, .release = release_noise), 1,
                                  noise_spec(), 0, NULL),
                  wrong[i].st, wrong[i].why);
        machine_close(&m);
        CHECK(k.released == 1);
    }
    noise k = {0, 0, 0, -1, NULL};
    CHECK_ERR(machine_open(&m, tp_tensor_input(NULL, .user = &k, .release = release_noise), 1), TP_ERR_ARG,
              "tp_tensor_input: it needs a function");
    machine_close(&m);
    CHECK_ERR(machine_open(&m, tp_tensor_input(give_noise, .user = &k, .size = -1, .release = release_noise), 1),
              TP_ERR_ARG, "tp_tensor_input: size is -1");
    machine_close(&m);
    CHECK(k.released == 2 && k.asked == 0);
    /* what a host op makes has no position, unless its seek says so */
    tp_set_log(hear, NULL);
    CHECK_OK(machine_open_on(&m, tp_tensor_input(give_host), 1, noise_spec(), 0, NULL));
    machine_walk(&m, 2);
    CHECK_OK(tp_input_seek(m.s, 0));
    CHECK_ERR(tp_input_seek(m.s, 2), TP_ERR_UNSUPPORTED, "come from an op of the host, and it has no .seek");
    machine_close(&m);
    CHECK_OK(machine_open_on(&m, tp_tensor_input(give_host, .user = &k, .seek = seek_noise), 1, noise_spec(), 0, NULL));
    CHECK_OK(tp_input_seek(m.s, 2));
    machine_close(&m);
    CHECK_OK(machine_open_on(&m, tp_tensor_input(give_after_host), 1, noise_spec(), 0, NULL));
    CHECK_ERR(tp_input_seek(m.s, 2), TP_ERR_UNSUPPORTED, "come from an op of the host, and it has no .seek");
    machine_close(&m);
    tp_set_log(NULL, NULL);
}

TEST(dummies)
{
    const tp_spec specs[] = {TP_SPEC("image", TP_F32, TP_ANY, 2), TP_SPEC("label", TP_I32, TP_ANY)};
    const tp_shape shapes[] = {tp_make_shape(3, 2), tp_make_shape(3)}, open = tp_make_shape(TP_ANY, 2);
    tp_node *in[2], *more[2];
    tp_graph *g = tp_graph_new(NULL);
    tp_input_source *s = tp_dummy_constant_input(shapes, 2);
    said[0] = 0;
    tp_set_log(hear, NULL);
    CHECK_OK(tp_input_setup(s, g, specs, 2));
    tp_set_log(NULL, NULL);
    CHECK_HAS(said, "Using dummy input for debug!");
    CHECK_OK(tp_input_get_tensors(s, in));
    CHECK_OK(tp_input_get_tensors(s, more));
    CHECK(in[0] != more[0] && tp_input_size(s) == -1 && s->feedfree);
    CHECK_STR(tp_node_name(in[0]), "dummy-image-0");
    CHECK_STR(tp_node_name(more[1]), "dummy-label-1");
    tp_session *session = tp_session_new(g, NULL);
    tp_tensor v;
    memset(&v, 0, sizeof v);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(tp_session_eval(session, i ? more[1] : in[0], &v));
        CHECK(v.dtype == specs[i].dtype && tp_shape_equal(&v.shape, &shapes[i]));
        for (int k = 0; k < (int)tp_tensor_size(&v); k++) CHECK(tp_tensor_get(&v, k) == 0);
    }
    CHECK_OK(tp_input_seek(s, 5)); /* they are the same everywhere */
    tp_tensor_free(&v);
    tp_session_free(session);
    tp_input_free(s);
    s = tp_dummy_constant_input(shapes, 1);
    CHECK_ERR(tp_input_setup(s, g, specs, 2), TP_ERR_SHAPE, "it has 1 shapes, the input signature has 2 inputs");
    tp_input_free(s);
    s = tp_dummy_constant_input(&open, 1);
    CHECK_ERR(tp_input_setup(s, g, specs, 1), TP_ERR_SHAPE, "shape 0, (?,2), must be known");
    CHECK(tp_input_failure(s, NULL) == TP_ERR_SHAPE);
    tp_input_free(s);
    s = tp_dummy_constant_input(NULL, 0);
    CHECK_ERR(tp_input_setup(s, g, specs, 1), TP_ERR_ARG, "at least one shape");
    tp_input_free(s);
    tp_graph_free(g);
}

/* ==== >>StagingInput ================================================================================== */

static tp_input_source *queue_of(numbers *k, int kind)
{
    static const char *const names[] = {"x"};
    return kind == 0   ? tp_queue_input(flow_of(k), .capacity = 3)
           : kind == 1 ? tp_dataset_input(tp_df_repeated(flow_of(k), -1))
                       : tp_remap_input_source(tp_queue_input(flow_of(k)), names, 1);
}

/* The same data in the same order as without, on the CPU and on devices of their own memory. */
TEST(staged_data_are_the_same)
{
    for (int kind = 0; kind < 3; kind++)
        for (int nr = 0; nr < 4; nr++)
            for (int towers = 1; towers <= TOWERS; towers++)
                for (int devices = 0; devices <= towers; devices++) {
                    numbers k = {5, 0, 0, 0, 0, 0};
                    machine m;
                    CHECK_OK(machine_open_on(&m, tp_staging_input(queue_of(&k, kind), .nr_stage = nr), towers,
                                             scalar_spec(), devices, NULL));
                    CHECK(m.s->feedfree && tp_input_size(m.s) == (kind == 1 ? -1 : 5));
                    CHECK_STR(machine_walk(&m, 6), numbers_text(&k, 0, 6 * towers, ""));
                    CHECK(m.s->consumed == 6 * towers);
                    for (int d = 0; d < devices; d++) { /* all that is fed was staged */
                        const int here = (towers - d + devices - 1) / devices;
                        tp_mutex_lock(m.on[d]->m);
                        CHECK(m.on[d]->stages >= 6 * here && m.on[d]->most <= here * (nr ? nr : 1) + here);
                        tp_mutex_unlock(m.on[d]->m);
                    }
                    const tp_status st = tp_input_seek(m.s, 3); /* while more lies ready */
                    CHECK_OK(st);
                    CHECK(m.s->consumed == 3);
                    CHECK_STR(machine_walk(&m, 4), numbers_text(&k, 3, 4 * towers, ""));
                    CHECK_OK(tp_input_reset_state(m.s));
                    CHECK_STR(machine_walk(&m, 2), numbers_text(&k, 3, 2 * towers, ""));
                    machine_close(&m);
                }
}

#ifndef TP_NO_THREADS
/* After S steps each tower has used S datapoints, and S + nr_stage were taken from what is inside. */
TEST(a_stage_takes_nr_stage_ahead)
{
    for (int nr = 1; nr <= 3; nr++)
        for (int towers = 1; towers <= TOWERS; towers++) {
            numbers k = {-1, 0, 0, 0, 0, 0};
            machine m;
            CHECK_OK(machine_open_on(&m, tp_staging_input(tp_dataset_input(flow_of(&k)), .nr_stage = nr), towers,
                                     scalar_spec(), 1, NULL));
            for (int step = 0; step < 4; step++) {
                asked_exactly(&k.asked, (step + nr) * towers);
                CHECK(m.s->consumed == step * towers);
                machine_walk(&m, 1);
            }
            machine_close(&m);
        }
}
#endif

/* What a checkpoint has is what was used: a new program goes on with the next. */
TEST(a_resume_forgets_what_lay_ready)
{
    for (int kind = 0; kind < 3; kind++)
        for (int stop = 0; stop < 8; stop++) {
            numbers k = {5, 0, 0, 0, 0, 0};
            machine m;
            CHECK_OK(machine_open(&m, tp_staging_input(queue_of(&k, kind), .nr_stage = 2), 2));
            machine_walk(&m, stop);
            const int64_t consumed = m.s->consumed;
            CHECK(consumed == 2 * stop);
            machine_close(&m);
            tp_input_source *s = tp_staging_input(queue_of(&k, kind), .nr_stage = 1);
            CHECK_OK(tp_input_seek(s, consumed));
            CHECK_OK(machine_open(&m, s, 2));
            CHECK(m.s->consumed == consumed);
            CHECK_STR(machine_walk(&m, 5), numbers_text(&k, consumed, 10, ""));
            machine_close(&m);
        }
}

#ifndef TP_NO_THREADS
/* A seek that cannot start the stage again says so, and a later one can. */
TEST(a_stage_without_memory_to_go_on)
{
    for (int kind = 0; kind < 3; kind++) {
        tp_status st = TP_ERR_NOMEM;
        int refused = 0;
        for (long n = 1; st != TP_OK && n < 20; n++) {
            numbers k = {5, 0, 0, 0, 0, 0};
            machine m;
            CHECK_OK(machine_open(&m, tp_staging_input(queue_of(&k, kind)), 1));
            machine_walk(&m, 12); /* what the thread reuses has been allocated */
            tp_test_fail_after(n);
            st = tp_input_seek(m.s, 2);
            CHECK(st == (tp_test_alloc_failed() ? TP_ERR_NOMEM : TP_OK));
            refused += st != TP_OK;
            tp_test_fail_after(0);
            CHECK_OK(tp_input_seek(m.s, 3));
            if (st != TP_OK) CHECK_OK(tp_input_reset_state(m.s));
            CHECK_STR(machine_walk(&m, 4), numbers_text(&k, 3, 4, ""));
            machine_close(&m);
        }
        CHECK_MSG(st == TP_OK && refused >= 2, "source %d: refused %d times", kind, refused);
    }
    tp_test_alloc_reset();
}
#endif

TEST(staged_data_end_and_fail_when_they_are_used_up)
{
    for (int nr = 1; nr < 8; nr += 3) {
        numbers k = {5, 0, 0, 0, 0, 0}, fails = {9, 0, 3, 0, 0, 0};
        machine m;
        const char *why = NULL;
        CHECK_OK(machine_open(&m, tp_staging_input(tp_queue_input(flow_of(&k), .infinite = TP_NO), .nr_stage = nr), 1));
        for (int round = 0; round < 2; round++) {
            CHECK_STR(machine_walk(&m, 9), numbers_text(&k, 0, 5, "TP_END"));
            CHECK_STR(machine_walk(&m, 1), "TP_END");
            CHECK(m.s->consumed == 5 && tp_input_failure(m.s, NULL) == TP_OK);
            CHECK_OK(tp_input_reset_state(m.s));
        }
        machine_close(&m);
        CHECK_OK(machine_open(&m, tp_staging_input(tp_dataset_input(flow_of(&fails)), .nr_stage = nr), 1));
        CHECK_STR(machine_walk(&m, 9), "0 1 2 TP_ERR_IO");
        CHECK_HAS(tp_last_error(), "the disk is gone");
        CHECK(tp_input_failure(m.s, &why) == TP_ERR_IO);
        CHECK_HAS(why, "the disk is gone");
        CHECK_STR(machine_walk(&m, 1), "TP_ERR_IO");
        CHECK_OK(tp_input_reset_state(m.s));
        CHECK(tp_input_failure(m.s, NULL) == TP_OK);
        CHECK_STR(machine_walk(&m, 9), "0 1 2 TP_ERR_IO");
        machine_close(&m);
    }
    numbers k = {5, 0, 0, 0, 0, 0}; /* too few for all towers at the end */
    machine m;
    CHECK_OK(machine_open(&m, tp_staging_input(tp_dataset_input(flow_of(&k))), 2));
    CHECK_STR(machine_walk(&m, 9), numbers_text(&k, 0, 4, "TP_END"));
    CHECK(m.s->consumed == 4);
    machine_close(&m);
    CHECK_OK(machine_open_on(&m, tp_staging_input(tp_dataset_input(flow_of(&k))), 1, scalar_spec(), 1, NULL));
    tp_input_reset_state(m.s);
    machine_walk(&m, 1);
    tp_mutex_lock(m.on[0]->m);
    m.on[0]->fail_stage = m.on[0]->stages + 1; /* the device has no room */
    tp_mutex_unlock(m.on[0]->m);
    const char *end = machine_walk(&m, 9);
    CHECK_MSG(strstr(end, "TP_ERR_STATE"), "%s", end);
    CHECK_HAS(tp_last_error(), "no place to stage");
    machine_close(&m);
}

/* A hook that fails one run: its data come again. */
static tp_status fail_once(tp_hook *h, tp_run_request *r)
{
    (void)r;
    return --*(int *)h->user == 0 ? tp_fail(TP_ERR_TIMEOUT, "not this time") : TP_OK;
}
TEST(a_run_that_failed_is_given_the_same)
{
    for (int kind = 0; kind < 4; kind++) {
        numbers k = {9, 0, 0, 0, 0, 0};
        machine m;
        int at = 3;
        tp_hook spoiler;
        memset(&spoiler, 0, sizeof spoiler);
        spoiler.user = &at;
        spoiler.before_run = fail_once;
        tp_input_source *s = kind < 3 ? tp_staging_input(queue_of(&k, kind)) : tp_dataset_input(flow_of(&k));
        CHECK_OK(machine_open_on(&m, s, 2, scalar_spec(), kind == 0, &spoiler));
        CHECK_STR(machine_walk(&m, 9), "0 1 2 3 TP_ERR_TIMEOUT");
        CHECK(m.s->consumed == 4);
        CHECK_STR(machine_walk(&m, 2), "4 5 6 7");
        machine_close(&m);
    }
}

#ifndef TP_NO_THREADS
/* A run that is out of time or cancelled waits no longer, and the data go to the next. */
TEST(a_stage_that_waits_is_cancelled)
{
    numbers k = {9, 0, 0, 0, 0, 0};
    machine m;
    k.slow = 0.06;
    CHECK_OK(machine_open(&m, tp_staging_input(tp_queue_input(flow_of(&k))), 1));
    tp_hooked_session_set_timeout(m.hooked, 12);
    CHECK_ERR(machine_run(&m, NULL), TP_ERR_TIMEOUT, "StagingInput waited for data");
    tp_hooked_session_set_timeout(m.hooked, 60000);
    CHECK_STR(machine_walk(&m, 2), "0 1");
    machine_close(&m); /* while the stage waits for the queue */
    for (int i = 0; i < 20; i++) {
        numbers n = {5, 0, 0, 0, 0, 0};
        CHECK_OK(machine_open_on(&m, tp_staging_input(queue_of(&n, i % 3), .nr_stage = 1 + i % 3), 1 + i % 3,
                                 scalar_spec(), i % 2, NULL));
        for (int r = 0; r < i % 4; r++) {
            machine_walk(&m, r);
            CHECK_OK(tp_input_reset_state(m.s));
        }
        machine_close(&m);
    }
}

/* A stage that waits in its flow is told to stop when it is freed or begins again. */
static tp_status give_3_and_wait(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    numbers k = {3, 0, 0, 0, 0, 0};
    if (index < 3) return give_number(&k, pass, index, dp);
    __atomic_add_fetch((int *)user, 1, __ATOMIC_ACQ_REL);
    while (!tp_df_stopping()) tp_test_sleep(1e-3);
    return TP_STOP;
}
TEST(a_stage_that_waits_for_its_flow_is_told_to_stop)
{
    int waits = 0;
    machine m;
    CHECK_OK(machine_open(&m, tp_staging_input(tp_dataset_input(tp_df_from_generator(give_3_and_wait, &waits))), 1));
    for (int again = 0; again < 3; again++) {
        CHECK_STR(machine_walk(&m, 3), "0 1 2");
        while (__atomic_load_n(&waits, __ATOMIC_ACQUIRE) == again) tp_test_sleep(1e-3);
        if (again < 2) CHECK_OK(tp_input_reset_state(m.s));
    }
    machine_close(&m);
    CHECK(waits == 3 && !tp_df_stopping());
    tp_queue *q = tp_queue_new(3);
    CHECK_OK(machine_open(&m, tp_staging_input(tp_dataset_input(tp_df_from_queue(q))), 1));
    const int32_t five = 5;
    tp_tensor v;
    tp_tensor_view(&v, TP_I32, NO_SHAPE, &five);
    const tp_datapoint dp = {1, &v, 0};
    CHECK_OK(tp_queue_put(q, &dp));
    CHECK_STR(machine_walk(&m, 1), "5");
    machine_close(&m); /* the queue is open and empty */
    tp_queue_free(q);
}

/* A run waits for its input in before_run of the hooks, which the trace has as records of kind TP_TRACE_HOOKS. Seconds of that
 * in 10 runs of a graph that takes 8 ms. */
static tp_status trace_before(tp_hook *h, tp_run_request *r) { return tp_request_trace(r, (tp_trace *)h->user); }
static double seconds_waited(tp_input_source *s, int devices)
{
    enum { RUNS = 10, FIRST = 2 };
    tp_trace trace;
    machine m;
    tp_hook tracer;
    memset(&trace, 0, sizeof trace);
    memset(&tracer, 0, sizeof tracer);
    tracer.user = &trace;
    tracer.before_run = trace_before;
    kernel_naps = 0.008;
    CHECK_OK(machine_open_on(&m, s, 1, scalar_spec(), devices, &tracer));
    for (int i = 0; i < FIRST + RUNS; i++) CHECK_OK(machine_run(&m, NULL));
    double waited = 0, worked = 0;
    int runs = 0;
    for (int64_t i = 0; i < trace.n; i++) {
        const tp_trace_record *r = &trace.record[i];
        if (r->run < FIRST) continue; /* nothing can be there before the first */
        if (r->kind == TP_TRACE_HOOKS) waited += 1e-9 * (double)(r->end - r->start);
        if (r->kind == TP_TRACE_HOOKS) runs++;
        if (r->kind == TP_TRACE_KERNEL) worked += 1e-9 * (double)(r->end - r->start);
    }
    CHECK(runs == RUNS && worked >= RUNS * 0.008);
    kernel_naps = 0;
    machine_close(&m);
    tp_trace_free(&trace);
    return waited;
}
TEST(a_step_does_not_wait_for_data_that_come_faster)
{
    const double each = 0.003; /* for a datapoint: less than a step */
    numbers k = {-1, 0, 0, 0, each, 0};
    const double fed = seconds_waited(tp_feed_input(flow_of(&k)), 0);
    CHECK_MSG(fed >= 10 * each, "%g s", fed); /* read in the step */
    for (int kind = 0; kind < 3; kind++) {
        double waited = 1;
        for (int attempt = 0; attempt < 4 && waited > 5 * each; attempt++) /* other programs run too */
            waited = seconds_waited(kind == 0   ? tp_staging_input(tp_dataset_input(flow_of(&k)))
                                    : kind == 1 ? tp_staging_input(tp_queue_input(flow_of(&k)))
                                                : tp_queue_input(flow_of(&k)),
                                    kind == 1);
        CHECK_MSG(waited <= 5 * each, "%d: %g s", kind, waited);
        printf("     kind %d: %.2f ms of 10 steps are spent before the runs; fed, %.2f ms\n", kind, waited * 1e3,
               fed * 1e3);
    }
    k.slow = 0.012; /* slower than a step: what lies ready is soon used up, and the trace shows that too */
    CHECK(seconds_waited(tp_staging_input(tp_dataset_input(flow_of(&k))), 0) >= 0.01);
}
#endif

/* What a source computes is computed in an earlier run, and the next run gets it: no value is lost or comes twice. */
TEST(computed_tensors_are_staged)
{
    for (int nr = 1; nr <= 3; nr++)
        for (int devices = 0; devices < 2; devices++) {
            noise k = {0, 0, 0, -1, NULL};
            machine m;
            CHECK_OK(machine_open_on(&m, tp_staging_input(tp_tensor_input(give_count, .user = &k), .nr_stage = nr), 1,
                                     noise_spec(), devices, NULL));
            CHECK_STR(tp_node_name(m.x[0]), "StagingInput/x");
            CHECK_STR(machine_walk(&m, 6), "1 2 3 4 5 6");
            CHECK(m.s->consumed == 6);
            tp_tensor v;
            memset(&v, 0, sizeof v);
            CHECK_OK(tp_session_read(m.session, tp_node_variable(k.count), &v));
            CHECK(tp_tensor_get(&v, 0) == 6 + nr); /* computed: nr more than used */
            tp_tensor_free(&v);
            if (devices) CHECK(m.on[0]->stages >= 6 + nr);
            CHECK_OK(tp_input_reset_state(m.s)); /* a feed-free source goes on */
            CHECK_STR(machine_walk(&m, 2), "7 8");
            CHECK_ERR(tp_input_seek(m.s, 8), TP_ERR_UNSUPPORTED, "TensorInput computes its data from variables");
            CHECK(m.s->consumed == 8);
            CHECK_STR(machine_walk(&m, 1), numbers_text(&(const numbers){-1, 0, 0, 0, 0, 0}, 9 + nr, 1, ""));
            CHECK_OK(tp_input_seek(m.s, 0)); /* the beginning is where it is */
            CHECK(m.s->consumed == 0);
            machine_close(&m);
        }
    /* with a seek of its own it can */
    noise k = {0, 0, 0, -1, NULL};
    machine m;
    CHECK_OK(machine_open_on(&m, tp_staging_input(tp_tensor_input(give_count, .user = &k, .seek = seek_noise)), 1,
                             noise_spec(), 0, NULL));
    machine_walk(&m, 3);
    CHECK_OK(tp_input_seek(m.s, 3));
    CHECK(k.sought == 3);
    machine_close(&m);
}

/* Random numbers are those of the run that computes them: a resumed training has the same. */
TEST(staged_random_numbers_resume)
{
    enum { ALL = 7, STOP = 3 };
    float whole[ALL][2];
    for (int nr = 1; nr <= 2; nr++)
        for (int from = 0; from < 2; from++) {
            noise k = {0, 0, 0, -1, NULL};
            machine m;
            CHECK_OK(machine_open_on(&m, tp_staging_input(tp_tensor_input(give_noise, .user = &k), .nr_stage = nr), 2,
                                     noise_spec(), 0, NULL));
            if (from) { /* what a checkpoint has */
                CHECK_OK(tp_input_seek(m.s, 2 * STOP));
                tp_exec_set_random_step(tp_hooked_session_exec(m.hooked), STOP);
            }
            for (int i = from ? STOP : 0; i < ALL; i++) {
                const tp_tensor *v[TOWERS];
                if (!CHECK_OK(machine_run(&m, v))) break;
                for (int t = 0; t < 2; t++) {
                    const float x = (float)tp_tensor_get(v[t], 1);
                    if (from) CHECK_MSG(x == whole[i][t], "nr_stage %d, step %d, tower %d", nr, i, t);
                    for (int j = 0; j < i && !from; j++) CHECK(whole[j][0] != x && whole[j][1] != x);
                    whole[i][t] = x;
                }
            }
            CHECK(m.s->consumed == 2 * ALL);
            machine_close(&m);
        }
}

TEST(dummies_are_staged)
{
    const tp_shape four = tp_make_shape(4);
    machine m;
    tp_set_log(hear, NULL);
    CHECK_OK(machine_open_on(&m, tp_staging_input(tp_dummy_constant_input(&four, 1)), 2, noise_spec(), 1, NULL));
    tp_set_log(NULL, NULL);
    CHECK_STR(machine_walk(&m, 3), "0 0 0 0 0 0");
    CHECK_OK(tp_input_seek(m.s, 6));
    CHECK_STR(machine_walk(&m, 1), "0 0");
    machine_close(&m);
}

TEST(wrong_stages_are_sentences)
{
    numbers k = {5, 0, 0, 0, 0, 0};
    machine m;
    static const char *const names[] = {"x"};
    tp_input_source *two = tp_staging_input(tp_queue_input(flow_of(&k)));
    tp_input_source *const wrong[] = {
        tp_staging_input(tp_feed_input(flow_of(&k))),
        tp_staging_input(tp_placeholder_input()),
        tp_staging_input(tp_staging_input(tp_queue_input(flow_of(&k)))),
        tp_staging_input(tp_remap_input_source(tp_staging_input(tp_queue_input(flow_of(&k))), names, 1)),
        tp_staging_input(tp_queue_input(flow_of(&k)), .nr_stage = -1),
        tp_staging_input(tp_queue_input(flow_of(&k)), .nr_stage = 65),
        tp_staging_input(tp_queue_input(flow_of(&k)), .device = -7),
        tp_staging_input(tp_tensor_input(NULL)),
        tp_staging_input(tp_queue_input(tp_df_batch(flow_of(&k), 0))),
    };
    static const char *const why[] = {"StagingInput: FeedInput is fed by the program: it takes a feed-free source",
                                      "StagingInput: PlaceholderInput is fed by the program",
                                      "StagingInput: it holds a StagingInput already",
                                      "StagingInput: it holds a StagingInput already",
                                      "StagingInput: nr_stage is -1, it must be 1 to 64",
                                      "StagingInput: nr_stage is 65",
                                      "StagingInput: there is no device -7",
                                      "tp_tensor_input: it needs a function",
                                      "batch_size is 0"};
    for (int i = 0; i < TP_COUNT(wrong); i++) {
        const tp_status st = machine_open(&m, wrong[i], 1);
        CHECK_MSG(st == TP_ERR_ARG && strstr(tp_last_error(), why[i]), "%d: %s", i, tp_last_error());
        machine_close(&m);
    }
    CHECK(tp_staging_input(NULL) == NULL);
    CHECK_HAS(tp_last_error(), "StagingInput: the input source is NULL");
    CHECK_ERR(
        machine_open_on(&m, tp_staging_input(tp_queue_input(flow_of(&k)), .device = 2), 1, scalar_spec(), 2, NULL),
        TP_ERR_ARG, "StagingInput: there is no device 2 to stage on: the session has 2");
    machine_close(&m);
    for (int d = 0; d < 2; d++) { /* all to one device, from where the others copy it */
        CHECK_OK(machine_open_on(&m, tp_staging_input(tp_queue_input(flow_of(&k)), .device = d ? d : TP_NONE), 2,
                                 scalar_spec(), 2, NULL));
        CHECK_STR(machine_walk(&m, 4), numbers_text(&k, 0, 8, ""));
        CHECK(m.on[1 - d]->stages == 0);
        machine_close(&m);
    }
    CHECK_OK(machine_open(&m, two, 2)); /* given away once is enough */
    CHECK_ERR(tp_input_setup(two, m.g, m.s->spec, 1), TP_ERR_STATE, "set up before");
    tp_hooked_session_set_datapoints(m.hooked, 1);
    CHECK_ERR(tp_hooked_run(m.hooked, m.y, 1, NULL), TP_ERR_UNSUPPORTED,
              "all 2 towers take their datapoints together, but a run takes 1");
    tp_node *x;
    CHECK_ERR(tp_input_get_tensors(two, &x), TP_ERR_STATE, "all towers must ask for their tensors before");
    machine_close(&m);
    two = tp_queue_input(flow_of(&k));
    tp_input_source *first = tp_staging_input(two), *second = tp_staging_input(two);
    CHECK_ERR(machine_open(&m, second, 1), TP_ERR_ARG, "QueueInput is given away twice: to '");
    machine_close(&m);
    tp_input_free(first);
    /* hooks of one's own that cannot be called ahead */
    for (int i = 0; i < 3; i++) {
        tp_input_source *own = counter_new(0, NULL);
        counter *c = (counter *)own->user;
        c->fetches = i == 0, c->feeds_more = i == 1, c->feeds_less = i == 2;
        CHECK_OK(machine_open(&m, tp_staging_input(own), 1));
        CHECK_ERR(machine_run(&m, NULL),
                  i == 2   ? TP_ERR_STATE
                  : i == 1 ? TP_ERR_ARG
                           : TP_ERR_UNSUPPORTED,
                  i == 0   ? "the hooks of CounterInput fetch, but they are called ahead of the run"
                  : i == 1 ? "feeds a node that does not exist"
                           : "the hooks of CounterInput do not feed its tensor 'CounterInput/x'");
        machine_close(&m);
    }
}

/* ==== >>remap_input_source ============================================================================ */

static tp_status pair_of(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user, (void)pass;
    tp_status st = index < 6 ? tp_datapoint_resize(dp, 2) : TP_END;
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_I32, NO_SHAPE);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_F32, tp_make_shape(2));
    if (st != TP_OK) return st;
    tp_tensor_set(&dp->c[0], 0, (double)index);
    for (int i = 0; i < 2; i++) tp_tensor_set(&dp->c[1], i, 10 * (double)index + i);
    return TP_OK;
}
static float score_value;
static tp_status feed_score(tp_hook *h, tp_run_request *r)
{
    const tp_tensor v = tp_scalar_view(&score_value);
    return tp_request_feed(r, (tp_node *)h->user, &v);
}

TEST(inputs_are_remapped)
{
    static const char *const names[] = {"label", "image"};
    const tp_spec specs[] = {
        TP_SPEC("image", TP_F32, TP_ANY), {"score", TP_F32, {0, {0}}}, {"label", TP_I32, {0, {0}}}};
    for (int kind = 0; kind < 4; kind++) { /* fed, queued, staged without and with the remapping inside */
        tp_dataflow *df = tp_df_from_generator(pair_of, NULL, .size = 6);
        tp_input_source *s = kind == 0   ? tp_feed_input(df)
                             : kind == 3 ? tp_staging_input(tp_queue_input(df))
                                         : tp_queue_input(df);
        s = tp_remap_input_source(s, names, 2);
        CHECK(s->feedfree == (kind > 0));
        if (kind < 2) CHECK_STR(s->name, kind ? "QueueInput" : "FeedInput");
        if (kind == 2) s = tp_staging_input(s);
        tp_graph *g = tp_graph_new(NULL);
        tp_node *in[3], *more[3];
        CHECK_OK(tp_input_setup(s, g, specs, 3));
        CHECK_OK(tp_input_get_tensors(s, in));
        CHECK_STR(tp_node_name(in[1]), "score"); /* nobody's yet: at the root, and the same one for all */
        CHECK_STR(tp_node_name(in[2]), kind ? "QueueInput/label" : "label");
        if (kind) {
            CHECK_OK(tp_input_get_tensors(s, more));
            CHECK(more[1] == in[1] && more[0] != in[0]);
        }
        CHECK(tp_input_size(s) == 6);
        int n = 0;
        tp_hook *const *hooks = tp_input_hooks(s, &n);
        tp_hook score, *all[4];
        memset(&score, 0, sizeof score);
        score.user = in[1];
        score.before_run = feed_score;
        for (int i = 0; i < n; i++) all[i] = hooks[i];
        all[n] = &score;
        tp_session *session = tp_session_new(g, NULL);
        for (int i = 0; i < n; i++)
            if (all[i]->after_create_session) CHECK_OK(all[i]->after_create_session(all[i], session));
        tp_hooked_session *h = tp_hooked_session_new(session, all, n + 1);
        CHECK_OK(tp_input_reset_state(s));
        for (int i = 0; i < 12; i++) {
            const tp_tensor *v[3];
            if (i == 8) CHECK_OK(tp_input_seek(s, kind ? 16 : 8));
            score_value = (float)i / 2;
            if (!CHECK_OK(tp_hooked_run(h, in, 3, v))) break;
            const int want = (kind ? 2 * i : i) % 6;
            CHECK(tp_tensor_get(v[2], 0) == want && tp_tensor_get(v[0], 0) == 10 * want &&
                  tp_tensor_get(v[0], 1) == 10 * want + 1);
            CHECK(tp_tensor_get(v[1], 0) == (double)i / 2);
            CHECK(s->consumed == (kind ? 2 : 1) * (i + 1));
        }
#ifndef TP_NO_THREADS
        /* A run may take each datapoint as soon as it is read. Go on until the reader is ahead and one waits in the queue. */
        const double until = tp_time() + 60;
        while (kind && tp_queue_input_size_ema(s) <= 0 && tp_time() < until) {
            const tp_tensor *v[3];
            tp_test_sleep(0.001);
            if (!CHECK_OK(tp_hooked_run(h, in, 3, v))) break;
        }
        CHECK((tp_queue_input_size_ema(s) > 0) == (kind > 0));
#endif
        CHECK(tp_input_failure(s, NULL) == TP_OK);
        tp_hooked_session_free(h);
        tp_session_free(session);
        tp_input_free(s);
        tp_graph_free(g);
    }
}

TEST(wrong_remaps_are_sentences)
{
    static const char *const unknown[] = {"x", "y"}, *const twice[] = {"x", "x"}, *const null[] = {NULL},
                             *const x[] = {"x"};
    numbers k = {5, 0, 0, 0, 0, 0}, fails = {5, 0, 2, 0, 0, 0};
    machine m;
    CHECK_ERR(machine_open(&m, tp_remap_input_source(tp_queue_input(flow_of(&k)), unknown, 2), 1), TP_ERR_NAME,
              "tp_remap_input_source: the model has no input 'y'");
    machine_close(&m);
    CHECK_ERR(machine_open(&m, tp_remap_input_source(tp_queue_input(flow_of(&k)), twice, 2), 1), TP_ERR_ARG,
              "tp_remap_input_source: a name is there twice");
    machine_close(&m);
    CHECK_ERR(machine_open(&m, tp_remap_input_source(tp_queue_input(flow_of(&k)), null, 1), 1), TP_ERR_ARG,
              "a name is NULL");
    machine_close(&m);
    CHECK_ERR(machine_open(&m, tp_remap_input_source(tp_queue_input(flow_of(&k)), NULL, 0), 1), TP_ERR_ARG,
              "it needs the name of at least one input");
    machine_close(&m);
    CHECK(tp_remap_input_source(NULL, x, 1) == NULL);
    enum { MOST = 1 << 20 }; /* so many names are read, one more is a mistake */
    const char **many = (const char **)tp_malloc((MOST + 1) * sizeof *many);
    for (int i = 0; many && i <= MOST; i++) many[i] = "x";
    for (int more = 0; many && more < 2; more++) {
        CHECK_ERR(machine_open(&m, tp_remap_input_source(tp_queue_input(flow_of(&k)), many, MOST + more), 1),
                  TP_ERR_ARG, more ? "it needs the name of at least one input" : "a name is there twice");
        machine_close(&m);
    }
    tp_free((void *)many);
    CHECK_OK(machine_open(&m, tp_remap_input_source(tp_queue_input(flow_of(&fails)), x, 1), 1));
    CHECK_STR(machine_walk(&m, 9), "0 1 TP_ERR_IO");
    const char *why = NULL;
    CHECK(tp_input_failure(m.s, &why) == TP_ERR_IO); /* of the queue inside */
    CHECK_HAS(why, "the disk is gone");
    machine_close(&m);
    tp_input_source *own = counter_new(0, NULL); /* what it cannot, the outer cannot */
    own->seek = NULL;
    CHECK_OK(machine_open(&m, tp_remap_input_source(own, x, 1), 1));
    machine_walk(&m, 2);
    CHECK(m.s->consumed == 2);
    CHECK_ERR(tp_input_seek(m.s, 2), TP_ERR_UNSUPPORTED, "CounterInput cannot go back");
    machine_close(&m);
}

/* ==== >>refill ======================================================================================== */

/* Datapoints index + 1000 * mark. */
static int mark; /* atomic */
static tp_status marked(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user, (void)pass;
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_I32, NO_SHAPE);
    if (st == TP_OK) tp_tensor_set(&dp->c[0], 0, (double)(index + 1000 * __atomic_load_n(&mark, __ATOMIC_ACQUIRE)));
    return st;
}
TEST(a_queue_is_refilled)
{
    static const char *const x[] = {"x"};
    for (int kind = 0; kind < 4; kind++) {
        machine m;
        tp_dataflow *df = tp_df_from_generator(marked, NULL);
        tp_queue *q = kind == 3 ? tp_queue_new(6) : NULL;
        tp_input_source *s = tp_queue_input(df, .capacity = 6, .queue = q);
        __atomic_store_n(&mark, 0, __ATOMIC_RELEASE);
        if (kind == 1) s = tp_staging_input(s, .nr_stage = 2);
        if (kind == 2) s = tp_staging_input(tp_remap_input_source(s, x, 1));
        CHECK_OK(tp_queue_input_refill_queue(s)); /* nothing runs yet */
        CHECK_OK(machine_open(&m, s, 2));
        CHECK_STR(machine_walk(&m, 3), "0 1 2 3 4 5");
        tp_test_sleep(0.001);
        __atomic_store_n(&mark, 1, __ATOMIC_RELEASE);
        CHECK_OK(tp_queue_input_refill_queue(s)); /* what was read before is gone */
        CHECK_STR(machine_walk(&m, 2), kind == 3 ? "1000 1001 1002 1003" : "1006 1007 1008 1009");
        CHECK(s->consumed == 10);
        if (kind < 3) { /* and resets go where they went */
            CHECK_OK(tp_input_reset_state(s));
            CHECK_STR(machine_walk(&m, 1), "1000 1001");
        }
        machine_close(&m);
        tp_queue_free(q);
    }
    numbers k = {5, 0, 0, 0, 0, 0};
    tp_input_source *s = tp_feed_input(flow_of(&k));
    CHECK_ERR(tp_queue_input_refill_queue(s), TP_ERR_ARG, "FeedInput has no queue");
    CHECK(tp_queue_input_refill_queue(NULL) == TP_ERR_ARG);
    tp_input_free(s);
}

/* ==== >>trainers ====================================================================================== */

enum { STEPS = 7, SAMPLES = 20, BATCH = 4 };
static const tp_spec digits[] = {TP_SPEC("input", TP_F32, TP_ANY, 28, 28), TP_SPEC("label", TP_I32, TP_ANY)};
static tp_node *build_net(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    tp_node *y = tp_fully_connected(tp_batch_flatten(tp_avg_pooling(tp_expand_dims(in[0], 3), "pool", .pool_size = 4)),
                                    "fc", .units = 10);
    return tp_named(tp_mean(tp_sparse_softmax_cross_entropy(tp_dropout(y, "drop", .rate = 0.25f), in[1])), "cost");
}
static tp_optimizer *build_sgd(tp_graph *g, void *user)
{
    (void)user;
    return tp_sgd(tp_const(g, 0.1f));
}
/* Shuffled samples, so that another order is seen in the bits. */
static tp_input_source *train_source(int kind)
{
    static const char *const names[] = {"input", "label"};
    tp_dataflow *df = tp_df_digits("train", .size = SAMPLES);
    switch (kind) {
    case 0: return tp_queue_input(tp_df_batch(tp_df_repeated(df, -1), BATCH));
    case 1: return tp_batch_queue_input(df, BATCH, .capacity = 9);
    case 2: return tp_staging_input(tp_batch_queue_input(df, BATCH));
    case 3: return tp_dataset_input(tp_df_batch(tp_df_repeated(df, -1), BATCH));
    case 4:
        return tp_staging_input(
            tp_remap_input_source(tp_queue_input(tp_df_batch(tp_df_repeated(df, -1), BATCH)), names, 2));
    default: return tp_staging_input(tp_dataset_input(tp_df_batch(tp_df_repeated(df, -1), BATCH)), .nr_stage = 3);
    }
}
/* From a host op, which has no position. */
static tp_status give_digits(tp_graph *g, int tower, tp_node **in, int n, void *user)
{
    const int32_t label[BATCH] = {1, 2, 3, 4};
    tp_tensor t;
    (void)tower, (void)user;
    memset(&t, 0, sizeof t);
    tp_tensor_view(&t, TP_I32, tp_make_shape(BATCH), label);
    CHECK(n == 2);
    in[0] = tp_print(tp_rand_uniform(g, tp_make_shape(BATCH, 28, 28), 0, 1), "noise");
    in[1] = tp_constant(g, &t);
    return TP_OK;
}
/* Epochs of STEPS steps from a checkpoint, or the beginning; the checkpoint of the last is saved in dir. */
static tp_status train_epochs(const char *dir, bool resume, int epochs, tp_input_source *data)
{
    tp_session_config c = tp_default_session_config();
    c.threads = 1;
    if (tp_logger_set_dir(dir, resume ? 'k' : 'd') != TP_OK) return TP_ERR;
    return tp_launch_train_with_config(
        &(tp_train_config){.model = {.inputs = digits, .n_inputs = 2, .build_graph = build_net, .optimizer = build_sgd},
                           .data = data,
                           TP_CALLBACKS(tp_cb_model_saver()),
                           .session_config = &c,
                           .steps_per_epoch = STEPS,
                           .max_epoch = epochs,
                           .auto_resume = resume ? TP_YES : TP_NO},
        tp_simple_trainer());
}
static void load_weights(const char *dir, int step, tp_tensor *w, double *consumed)
{
    char path[1200];
    tp_dict d;
    memset(&d, 0, sizeof d);
    snprintf(path, sizeof path, "%s/model-%d", dir, step);
    CHECK_OK(tp_load_checkpoint_vars(path, &d));
    const tp_tensor *v = tp_dict_find(&d, "fc/W");
    if (CHECK(v != NULL)) CHECK_OK(tp_tensor_copy(w, v));
    tp_dict_free(&d);
    snprintf(path, sizeof path, "%s/model-%d.npz", dir, step);
    CHECK_OK(tp_npz_load(path, &d));
    v = tp_dict_find(&d, "tp:input/consumed");
    *consumed = v ? tp_tensor_get(v, 0) : -1;
    tp_dict_free(&d);
}

TEST(trainings_resume_exactly)
{
    char whole[900], broken[900];
    tp_tensor first, w;
    memset(&first, 0, sizeof first);
    memset(&w, 0, sizeof w);
    snprintf(whole, sizeof whole, "%s", tp_test_path(tp_test_tmpdir(), "whole"));
    snprintf(broken, sizeof broken, "%s", tp_test_path(tp_test_tmpdir(), "broken"));
    tp_set_log(hear, NULL);
    for (int kind = 0; kind < 6; kind++) {
        double consumed = 0;
        said[0] = 0;
        CHECK_OK(train_epochs(whole, false, 3, train_source(kind)));
        load_weights(whole, 3 * STEPS, kind ? &w : &first, &consumed);
        CHECK_MSG(consumed == 3 * STEPS * (kind == 1 || kind == 2 ? BATCH : 1), "%d: %g", kind, consumed);
        if (kind) CHECK_MSG(memcmp(w.data, first.data, tp_tensor_bytes(&w)) == 0, "source %d trains otherwise", kind);
        if (w.own) memset(w.own, 0, w.capacity);
        CHECK_OK(train_epochs(broken, false, 1, train_source(kind)));
        CHECK_OK(train_epochs(broken, true, 3, train_source(kind)));
        load_weights(broken, 3 * STEPS, &w, &consumed);
        CHECK_MSG(memcmp(w.data, first.data, tp_tensor_bytes(&w)) == 0, "source %d resumes otherwise", kind);
        CHECK_MSG(!strstr(said, "but not with the data"), "%s", said);
    }
    for (int staged = 0; staged < 2; staged++) { /* what cannot says that it gives it up */
        for (int resume = 0; resume < 2; resume++) {
            tp_input_source *own = tp_tensor_input(give_digits);
            said[0] = 0;
            CHECK_OK(train_epochs(broken, resume != 0, 1 + resume, staged ? tp_staging_input(own) : own));
        }
        CHECK_HAS(said, "TensorInput cannot go back to datapoint 7: its tensors come from an op of the host");
        CHECK_HAS(said, "training goes on, but not with the data it would have seen");
    }
    tp_set_log(NULL, NULL);
    CHECK_OK(tp_logger_set_dir(NULL, 0));
    tp_tensor_free(&first);
    tp_tensor_free(&w);
}

/* More than one device: a queue is staged, all else is left as it is. */
TEST(queues_are_staged_for_several_devices)
{
    static const char *const x[] = {"x"};
    const tp_shape shape = tp_make_shape(2);
    numbers k = {5, 0, 0, 0, 0, 0};
    for (int devices = -1; devices < 4; devices++)
        for (int kind = 0; kind < 7; kind++) {
            tp_input_source *s = kind == 0   ? tp_queue_input(flow_of(&k))
                                 : kind == 1 ? tp_batch_queue_input(flow_of(&k), 2)
                                 : kind == 2 ? tp_remap_input_source(tp_queue_input(flow_of(&k)), x, 1)
                                 : kind == 3 ? tp_feed_input(flow_of(&k))
                                 : kind == 4 ? tp_dataset_input(flow_of(&k))
                                 : kind == 5 ? tp_staging_input(tp_queue_input(flow_of(&k)))
                                             : tp_dummy_constant_input(&shape, 1);
            said[0] = 0;
            tp_set_log(hear, NULL);
            tp_input_source *staged = tp_input_default_prefetch(s, devices);
            tp_set_log(NULL, NULL);
            const bool wanted = devices > 1 && kind < 3;
            CHECK(staged && (staged != s) == wanted);
            CHECK_STR(said, !wanted     ? ""
                            : kind == 1 ? "Automatically applying StagingInput on the BatchQueueInput.\n"
                                        : "Automatically applying StagingInput on the QueueInput.\n");
            if (wanted) CHECK_STR(staged->name, "StagingInput");
            tp_input_free(staged);
        }
    CHECK(tp_input_default_prefetch(NULL, 2) == NULL);
    /* by a trainer, of what a config has: a dataflow, or a source */
    for (int given = 0; given < 2; given++)
        for (int devices = 0; devices < 3; devices++) {
            tp_trainer *t = tp_queue_input_trainer();
            tp_dataflow *df = tp_df_batch(tp_df_digits("train", .size = SAMPLES), BATCH);
            t->n_devices = devices;
            said[0] = 0;
            tp_set_log(hear, NULL);
            CHECK_OK(tp_launch_train_with_config(
                &(tp_train_config){
                    .model = {.inputs = digits, .n_inputs = 2, .build_graph = build_net, .optimizer = build_sgd},
                    .dataflow = given ? NULL : df,
                    .data = given ? tp_queue_input(df) : NULL,
                    .n_extra_callbacks = TP_NONE,
                    .n_monitors = TP_NONE,
                    .steps_per_epoch = 3,
                    .max_epoch = 1,
                    .unsaved_is_ok = true},
                t));
            tp_set_log(NULL, NULL);
            CHECK_MSG((strstr(said, "applying StagingInput on the QueueInput") != NULL) == (devices > 1), "%s", said);
        }
}

/* A round of inference over a data set ends where it ends; a StagingInput is refused. */
static double val_error;
static tp_status note_error(tp_callback *cb)
{
    tp_stat stat;
    memset(&stat, 0, sizeof stat);
    CHECK_OK(tp_monitors_get_latest(cb->train->monitors, "val_cost", &stat));
    val_error = stat.value;
    return TP_OK;
}
TEST(inference_over_a_data_set)
{
    double error[2] = {0, 1};
    tp_set_log(hear, NULL);
    for (int kind = 0; kind < 3; kind++) {
        tp_dataflow *val = tp_df_batch(tp_df_digits("test", .size = 12, .shuffle = TP_NO), BATCH);
        tp_dataflow *df = tp_df_batch(tp_df_digits("train", .size = SAMPLES), BATCH);
        tp_callback *runner =
            kind == 0   ? tp_cb_inference_runner(val, .inferencers = {tp_inf_scalar_stats({"cost"}, .prefix = "val")})
            : kind == 1 ? tp_cb_inference_runner(.input = tp_dataset_input(val),
                                                 .inferencers = {tp_inf_scalar_stats({"cost"}, .prefix = "val")})
                        : tp_cb_inference_runner(.input = tp_staging_input(tp_queue_input(val)),
                                                 .inferencers = {tp_inf_scalar_stats({"cost"}, .prefix = "val")});
        tp_callback *note = tp_callback_new("Note", 0);
        note->trigger = note_error;
        if (kind == 2) {
            CHECK_ERR(tp_callback_status(runner), TP_ERR_ARG, "InferenceRunner: a StagingInput takes data ahead");
            tp_callback_free(runner);
            tp_callback_free(note);
            tp_df_free(df);
            continue;
        }
        CHECK_OK(tp_launch_train_with_config(
            &(tp_train_config){
                .model = {.inputs = digits, .n_inputs = 2, .build_graph = build_net, .optimizer = build_sgd},
                .dataflow = df,
                TP_CALLBACKS(runner, note),
                .n_extra_callbacks = TP_NONE,
                .n_monitors = TP_NONE,
                .steps_per_epoch = 3,
                .max_epoch = 2,
                .unsaved_is_ok = true},
            tp_simple_trainer()));
        error[kind] = val_error;
    }
    tp_set_log(NULL, NULL);
    CHECK_MSG(error[0] == error[1] && error[0] > 0, "%g and %g", error[0], error[1]);
}

/* ==== >>towers ======================================================================================== */

typedef struct side {
    tp_input_source *s;
    tp_node *x[TOWERS];
} side;
static tp_node *build_side(const tp_tower_context *tower, void *user)
{
    side *b = (side *)user;
    tp_node *in[1] = {NULL};
    if (!CHECK_OK(tp_input_get_tensors(b->s, in))) return NULL;
    b->x[tower->index] = in[0];
    return tp_affine(tp_cast(in[0], TP_F32), 2, 0);
}
TEST(towers_side_by_side)
{
    enum { N = 3, RUNS = 5 };
    for (int staged = 0; staged < 2; staged++) {
        numbers k = {7, 0, 0, 0, 0, 0};
        side b;
        shy *on[N];
        tp_device *d[N];
        tp_towers_desc towers;
        tp_node *y[N];
        const tp_spec spec = scalar_spec();
        memset(&b, 0, sizeof b);
        memset(&towers, 0, sizeof towers);
        towers.n = N;
        tp_graph *g = tp_graph_new(NULL);
        b.s = tp_queue_input(flow_of(&k));
        if (staged) b.s = tp_staging_input(b.s, .nr_stage = 2);
        CHECK_OK(tp_input_setup(b.s, g, &spec, 1));
        CHECK_OK(tp_build_on_towers(g, &towers, build_side, &b, y));
        tp_session_config c = tp_default_session_config();
        for (int i = 0; i < N; i++) d[i] = &(on[i] = shy_new(i))->d;
        c.devices = d;
        c.n_devices = N;
        tp_session *session = tp_session_new(g, &c);
        int n = 0;
        tp_hook *const *hooks = tp_input_hooks(b.s, &n);
        for (int i = 0; i < n; i++)
            if (hooks[i]->after_create_session) CHECK_OK(hooks[i]->after_create_session(hooks[i], session));
        tp_hooked_session *h = tp_hooked_session_new(session, hooks, n);
        CHECK_OK(tp_input_reset_state(b.s));
        for (int run = 0; run < RUNS; run++) {
            const tp_tensor *v[N];
            if (!CHECK_OK(tp_hooked_run(h, y, N, v))) break;
            for (int t = 0; t < N; t++) CHECK(tp_tensor_get(v[t], 0) == 2 * endless(&k, run * N + t));
        }
        CHECK(b.s->consumed == RUNS * N && tp_node_device(b.x[2]) == 2);
        for (int i = 0; i < N; i++) {
            tp_mutex_lock(on[i]->m);
            CHECK(staged ? on[i]->stages >= RUNS && on[i]->most <= 3 : on[i]->stages == 0); /* each its own tower's */
            tp_mutex_unlock(on[i]->m);
        }
        tp_hooked_session_free(h);
        tp_session_free(session);
        for (int i = 0; i < N; i++) d[i]->close(d[i]); /* the thread may still stage: they wait for it */
        tp_input_free(b.s);
        tp_graph_free(g);
    }
}

/* ==== >>memory ======================================================================================== */

static tp_input_source *some_source(int kind, numbers *k)
{
    static const char *const x[] = {"x"};
    const tp_dtype i32 = TP_I32;
    tp_dataflow *df = flow_of(k);
    if (!df) return NULL;
    switch (kind) {
    case 0: return tp_staging_input(tp_queue_input(df, .capacity = 2), .nr_stage = 2);
    case 1: return tp_staging_input(tp_remap_input_source(tp_dataset_input(tp_dataflow_to_dataset(df, &i32, 1)), x, 1));
    case 2: return tp_remap_input_source(tp_queue_input(df, .capacity = 2), x, 1);
    case 3: return tp_dataset_input(df);
    default: tp_df_free(df); return tp_staging_input(counter_new(0, NULL));
    }
}

TEST(steps_of_all_sources_allocate_nothing)
{
    for (int kind = 0; kind < 7; kind++)
        for (int devices = 0; devices < 2; devices++) {
            numbers k = {1000, kind == 5 ? 3 : 0, 0, 0, 0, 0};
            noise noisy = {0, 0, 0, -1, NULL};
            machine m;
            if (devices && kind != 3 && kind != 2 && kind < 5)
                continue; /* what waits on that device is allocated by it */
            tp_test_fail_after(0);
            if (kind < 5) CHECK_OK(machine_open_on(&m, some_source(kind, &k), 2, scalar_spec(), devices, NULL));
            else if (kind == 5)
                CHECK_OK(machine_open_on(&m, tp_batch_queue_input(flow_of(&k), 4, .capacity = 10), 2,
                                         batch_spec(TP_ANY, 3), devices, NULL));
            else
                CHECK_OK(
                    machine_open_on(&m, tp_tensor_input(give_noise, .user = &noisy), 2, noise_spec(), devices, NULL));
            machine_walk(&m, 30);
            const long before = tp_test_alloc_count();
            for (int i = 0; i < 100; i++) CHECK_OK(machine_run(&m, NULL));
            CHECK_MSG(tp_test_alloc_count() == before, "kind %d: %ld allocations", kind,
                      tp_test_alloc_count() - before);
            machine_close(&m);
            CHECK_MSG(tp_test_live_blocks() == 0, "kind %d", kind);
            tp_test_alloc_reset();
        }
}

TEST(sources_survive_out_of_memory)
{
    for (int kind = 0; kind < 8; kind++)
        for (long n = 1, failed = 1; failed; n++) {
            numbers k = {5, kind == 5 ? 3 : 0, 0, 0, 0, 0};
            noise noisy = {0, 0, 0, -1, NULL};
            machine m;
            memset(&m, 0, sizeof m);
            tp_test_fail_after(n);
            tp_input_source *s = kind < 5 ? some_source(kind, &k) : NULL;
            tp_dataflow *df = kind == 5 ? flow_of(&k) : NULL;
            if (df) s = tp_batch_queue_input(df, 2, .capacity = 3);
            if (kind >= 6) s = tp_tensor_input(give_noise, .user = &noisy, .release = release_noise);
            if (kind == 7 && s) s = tp_staging_input(s);
            tp_status st = s ? machine_open_on(&m, s, 1,
                                               kind < 5    ? scalar_spec()
                                               : kind == 5 ? batch_spec(TP_ANY, 3)
                                                           : noise_spec(),
                                               0, NULL)
                             : TP_ERR_NOMEM;
            for (int i = 0; i < 3 && st == TP_OK; i++) st = machine_run(&m, NULL);
            failed = tp_test_alloc_failed();
            CHECK_MSG(failed ? st == TP_ERR_NOMEM || st == TP_OK : st == TP_OK, "kind %d, allocation %ld: %s: %s", kind,
                      n, tp_status_name(st), tp_last_error()); /* a thread may have read enough when its memory ends */
            if (!m.s) tp_input_free(s);
            machine_close(&m);
            CHECK(kind < 6 || noisy.released == 1);
            CHECK_MSG(tp_test_live_blocks() == 0, "kind %d: allocation %ld leaks %ld", kind, n, tp_test_live_blocks());
        }
    tp_test_alloc_reset();
}

/* Sources that were never set up, never asked for tensors, never started, and calls in the wrong order. */
TEST(sources_out_of_order)
{
    for (int kind = 0; kind < 5; kind++)
        for (int far = 0; far < 4; far++) {
            numbers k = {5, 0, 0, 0, 0, 0};
            const tp_spec spec = scalar_spec();
            tp_input_source *s = some_source(kind, &k);
            tp_graph *g = tp_graph_new(NULL);
            tp_node *x = NULL;
            int n = 0;
            CHECK_ERR(tp_input_reset_state(s), TP_ERR_STATE, "after tp_input_setup");
            CHECK_ERR(tp_input_get_tensors(s, &x), TP_ERR_STATE, "after tp_input_setup");
            CHECK_OK(tp_input_seek(s, 0));
            if (far > 0) CHECK_OK(tp_input_setup(s, g, &spec, 1));
            if (far > 0 && (kind < 2 || kind == 4)) {
                CHECK(tp_input_hooks(s, &n) == NULL);
                CHECK_HAS(tp_last_error(), "after all towers have asked for their tensors");
                CHECK_ERR(tp_input_reset_state(s), TP_ERR_STATE, "the towers ask for their tensors before");
            }
            if (far > 1) CHECK_OK(tp_input_get_tensors(s, &x));
            if (far > 1 && (kind < 2 || kind == 4))
                CHECK_ERR(tp_input_reset_state(s), TP_ERR_STATE, "and then its hooks are asked for");
            if (far > 2) CHECK(tp_input_hooks(s, &n) != NULL && tp_input_hooks(s, &n) == tp_input_hooks(s, &n));
            if (far > 2) CHECK_OK(tp_input_seek(s, 2));
            if (far > 2) CHECK_OK(tp_input_reset_state(s));
            tp_input_size(s);
            tp_input_free(s);
            tp_graph_free(g);
        }
}

TEST_MAIN()
