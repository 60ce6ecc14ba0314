/* Callbacks by hand, one at a time: what each constructor refuses, what it frees where memory runs out, what it does in each
 * hook, and that one which was saved and loaded goes on like one which was not. test_train.c has them in trainings. */
#define TP_IMPLEMENTATION
#include "tp_callbacks.h"

#include "tp_train.h"
#include "tp_test.h"

static char logged[1 << 14];
static void keep_log(void *user, tp_log_level level, const char *message)
{
    const size_t n = strlen(logged);
    (void)user, (void)level;
    snprintf(logged + n, sizeof logged - n, "%s\n", message);
}
static void quiet(void)
{
    logged[0] = 0;
    tp_set_log(keep_log, NULL);
}

/* ==== >>constructors ================================================================================== */

static char folder[300];
static int released;

static tp_status do_trigger(tp_callback *cb) { return cb ? TP_OK : TP_ERR; }
static tp_status do_tensors(tp_callback *cb, const tp_tensor *const *v, int n, void *user)
{
    (void)cb, (void)v, (void)n, (void)user;
    return TP_OK;
}
static void do_release(void *user) { released += user != NULL; }
static bool do_pred(tp_callback *cb, void *user) { return cb || user; }
static tp_status do_param(tp_callback *cb, void *user, double *value, bool *set)
{
    (void)cb, (void)user, (void)value, (void)set;
    return TP_OK;
}
static double do_func(int64_t epoch, double old, void *user)
{
    (void)epoch, (void)user;
    return old;
}
static tp_status do_stat(double *value, void *user)
{
    (void)user;
    *value *= 0.5;
    return TP_OK;
}
static tp_status get_param(tp_hyper_param *p, double *value)
{
    *value = *(double *)p->user;
    return TP_OK;
}
static tp_status set_param(tp_hyper_param *p, double value)
{
    *(double *)p->user = value;
    return TP_OK;
}
static tp_hyper_param *own_param(void)
{
    tp_hyper_param *p = tp_hyper_param_new("lr", sizeof(double));
    if (p) p->get_value = get_param, p->set_value = set_param;
    return p;
}
static tp_callback *lambda(void)
{
    tp_cb_lambda_desc d;
    memset(&d, 0, sizeof d);
    d.trigger = do_trigger;
    d.name = "Inner";
    d.user = folder;
    d.release = do_release;
    return tp_cb_lambda_(&d);
}

/* Each constructor with all its options. NULL where an argument could not be made. */
enum {
    LAMBDA,
    PROXY,
    TRIGGER,
    ENABLE,
    PERIODIC,
    GROUP,
    COUNTER,
    RUN_OP,
    UPDATE_OPS,
    MOVING,
    MERGE,
    TENSORS,
    DUMP,
    PRINTER,
    CHECK_NUMERICS,
    SMA,
    BAR,
    LEFT,
    THROUGHPUT,
    MEMORY,
    SEND,
    SAVER,
    BEST,
    RUNNER,
    SETTER,
    HUMAN,
    SCHEDULE,
    FUNC,
    STAT,
    EVENTS,
    JSON,
    SCALARS,
    ALL_MONITORS,
    N_KINDS
};

static tp_callback *runner(void)
{
    tp_cb_inference_runner_desc d;
    tp_inf_scalar_stats_desc scalars;
    tp_inf_classification_error_desc error;
    tp_inf_binary_classification_desc binary;
    tp_df_fake_desc fake;
    tp_spec spec[1];
    memset(&d, 0, sizeof d), memset(&scalars, 0, sizeof scalars), memset(&error, 0, sizeof error);
    memset(&binary, 0, sizeof binary), memset(&fake, 0, sizeof fake), memset(spec, 0, sizeof spec);
    scalars.names[0] = "cost";
    scalars.prefix = "mine";
    error.wrong_tensor_name = "wrong";
    error.summary_name = "error";
    binary.pred_tensor_name = "prediction";
    binary.label_tensor_name = "label";
    binary.prefix = "mine";
    spec[0].name = "x", spec[0].dtype = TP_F32, spec[0].shape = tp_make_shape(2);
    fake.specs = spec, fake.n = 1, fake.size = 3;
    if (!(d.df = tp_df_fake_(&fake))) return NULL;
    d.inferencers[0] = tp_inf_scalar_stats_(&scalars);
    d.inferencers[1] = tp_inf_classification_error_(&error);
    d.inferencers[2] = tp_inf_binary_classification_(&binary);
    d.tower_name = "Tower";
    return tp_cb_inference_runner_(&d);
}
static tp_callback *wrapper(int kind)
{
    tp_cb_periodic_trigger_desc t;
    tp_cb_enable_if_desc e;
    tp_cb_periodic_callback_desc p;
    memset(&t, 0, sizeof t), memset(&e, 0, sizeof e), memset(&p, 0, sizeof p);
    switch (kind) {
    case TRIGGER: t.cb = lambda(), t.every_k_steps = 2; return tp_cb_periodic_trigger_(&t);
    case ENABLE: e.cb = lambda(), e.pred = do_pred; return tp_cb_enable_if_(&e);
    case PERIODIC: p.cb = lambda(), p.every_k_epochs = 3; return tp_cb_periodic_callback_(&p);
    default: return tp_cb_proxy(lambda());
    }
}
static tp_callback *group(void)
{
    tp_callback *cb[3];
    int n = 0;
    for (int i = 0; i < 3; i++)
        if ((cb[n] = lambda()) != NULL) n++;
    return tp_cb_group(cb, n);
}
static tp_callback *setter(int kind)
{
    tp_cb_hyper_param_setter_desc s;
    tp_cb_human_hyper_param_setter_desc h;
    tp_cb_scheduled_hyper_param_setter_desc c;
    tp_cb_hyper_param_setter_with_func_desc f;
    tp_cb_stat_monitor_param_setter_desc m;
    memset(&s, 0, sizeof s), memset(&h, 0, sizeof h), memset(&c, 0, sizeof c);
    memset(&f, 0, sizeof f), memset(&m, 0, sizeof m);
    tp_hyper_param *p = kind == SETTER ? NULL : own_param();
    if (!p && kind != SETTER) return NULL;
    switch (kind) {
    case SETTER:
        s.name = "rate", s.fn = do_param, s.user = folder, s.release = do_release;
        return tp_cb_hyper_param_setter_(&s);
    case HUMAN: h.name = "lr", h.param = p, h.file_name = "mine.txt"; return tp_cb_human_hyper_param_setter_(&h);
    case SCHEDULE:
        c.name = "lr", c.param = p;
        c.schedule[0].at = 3, c.schedule[0].value = 0.5, c.schedule[1].at = 1, c.schedule[1].value = 0.25;
        return tp_cb_scheduled_hyper_param_setter_(&c);
    case FUNC: f.name = "lr", f.fn = do_func, f.param = p; return tp_cb_hyper_param_setter_with_func_(&f);
    default:
        m.name = "lr", m.stat_name = "cost", m.fn = do_stat, m.last_k = 3, m.param = p;
        return tp_cb_stat_monitor_param_setter_(&m);
    }
}
static tp_callback *graph_callback(int kind)
{
    tp_cb_run_op_desc r;
    tp_cb_run_update_ops_desc u;
    tp_cb_moving_average_summary_desc a;
    tp_cb_merge_all_summaries_desc s;
    tp_cb_process_tensors_desc p;
    tp_cb_dump_tensors_desc d;
    tp_cb_check_numerics_desc c;
    tp_cb_simple_moving_average_desc w;
    memset(&r, 0, sizeof r), memset(&u, 0, sizeof u), memset(&a, 0, sizeof a), memset(&s, 0, sizeof s);
    memset(&p, 0, sizeof p), memset(&d, 0, sizeof d), memset(&c, 0, sizeof c), memset(&w, 0, sizeof w);
    p.names[0] = d.names[0] = w.names[0] = "cost", p.names[1] = d.names[1] = w.names[1] = "error";
    switch (kind) {
    case RUN_OP: r.op_name = "op"; return tp_cb_run_op_(&r);
    case UPDATE_OPS: u.collection = "mine"; return tp_cb_run_update_ops_(&u);
    case MOVING: a.collection = "mine"; return tp_cb_moving_average_summary_(&a);
    case MERGE: s.key = "mine", s.period = 2; return tp_cb_merge_all_summaries_(&s);
    case TENSORS: p.fn = do_tensors; return tp_cb_process_tensors_(&p);
    case DUMP: return tp_cb_dump_tensors_(&d);
    case PRINTER: return tp_cb_tensor_printer_(&d);
    case CHECK_NUMERICS: return tp_cb_check_numerics_(&c);
    case SMA: w.window_size = 4; return tp_cb_simple_moving_average_(&w);
    default: return tp_cb_maintain_step_counter();
    }
}
static tp_callback *progress(int kind)
{
    tp_cb_progress_bar_desc b;
    tp_cb_estimated_time_left_desc l;
    tp_cb_throughput_tracker_desc t;
    tp_cb_model_saver_desc s;
    tp_cb_min_saver_desc m;
    memset(&b, 0, sizeof b), memset(&l, 0, sizeof l), memset(&t, 0, sizeof t), memset(&s, 0, sizeof s);
    memset(&m, 0, sizeof m);
    switch (kind) {
    case BAR: b.names[0] = "cost", b.names[1] = "error"; return tp_cb_progress_bar_(&b);
    case LEFT: return tp_cb_estimated_time_left_(&l);
    case THROUGHPUT: t.samples_per_step = 8; return tp_cb_throughput_tracker_(&t);
    case MEMORY: return tp_cb_host_memory_tracker();
    case SEND: return tp_cb_send_stat("true {cost}");
    case SAVER: s.checkpoint_dir = folder, s.var_collections[0] = "mine"; return tp_cb_model_saver_(&s);
    default: m.monitor_stat = "cost", m.checkpoint_dir = folder, m.filename = "best.npz"; return tp_cb_min_saver_(&m);
    }
}
static tp_callback *monitor(int kind)
{
    tp_monitor_tf_event_writer_desc e;
    tp_monitor_scalar_printer_desc s;
    memset(&e, 0, sizeof e), memset(&s, 0, sizeof s);
    e.logdir = folder;
    s.whitelist[0] = "cost", s.whitelist[1] = "err.*", s.blacklist[0] = "a|b";
    tp_monitor *m = kind == EVENTS ? tp_monitor_tf_event_writer_(&e)
                    : kind == JSON ? tp_monitor_json_writer()
                                   : tp_monitor_scalar_printer_(&s);
    return m ? &m->cb : NULL;
}
static tp_callback *make(int kind)
{
    if (kind == LAMBDA) return lambda();
    if (kind <= PERIODIC) return wrapper(kind);
    if (kind == GROUP) return group();
    if (kind <= SMA) return graph_callback(kind);
    if (kind <= BEST) return progress(kind);
    if (kind == RUNNER) return runner();
    if (kind <= STAT) return setter(kind);
    if (kind < ALL_MONITORS) return monitor(kind);
    tp_monitors *m = tp_monitors_new(NULL, 0);
    return m ? &m->cb : NULL;
}

/* Whatever allocation fails: NULL or a callback that says so, nothing leaks, and what is to be released is, once. */
TEST(constructors_run_out_of_memory_anywhere)
{
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    quiet();
    CHECK_OK(tp_logger_set_dir(folder, 'k'));
    for (int kind = 0; kind < N_KINDS; kind++) {
        long failures = 0;
        for (long n = 1, failed = 1; failed; n++) {
            tp_test_fail_after(n);
            released = 0;
            tp_callback *cb = make(kind);
            failed = tp_test_alloc_failed();
            failures += failed;
            const tp_status st = cb ? tp_callback_status(cb) : TP_ERR_NOMEM;
            /* a group of what there was memory for is a group */
            CHECK_MSG(failed && kind != GROUP ? st == TP_ERR_NOMEM
                      : failed                ? st == TP_OK || st == TP_ERR_NOMEM
                                              : st == TP_OK,
                      "kind %d, allocation %ld: %s, %s", kind, n, tp_status_name(st), tp_last_error());
            tp_callback_free(cb);
            const long live = tp_test_live_blocks();
            if (kind == SETTER || kind <= PERIODIC)
                CHECK_MSG(released == 1, "kind %d, allocation %ld: %d", kind, n, released);
            if (!failed && kind == GROUP) CHECK(released == 3);
            if (!CHECK_MSG(live == 0, "kind %d, allocation %ld: %ld blocks", kind, n, live)) break;
        }
        CHECK_MSG(failures > 0, "kind %d", kind);
    }
    tp_test_alloc_reset();
    tp_set_log(NULL, NULL);
}

TEST_MAIN()
