/* Callbacks by hand, one at a time: what each constructor refuses, what it frees where memory runs out, what it does in each
 * hook, and that one which was saved and loaded goes on like one which was not. test_train.c has them in trainings. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define TP_IMPLEMENTATION
#include "tp_callbacks.h"

#include "tp_train.h"
#include "tp_test.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* ==== >>clock: a clock that only a test moves ======================================================== */

static double clock_at; /* the time in seconds; 0: the system's time */
#if defined(__linux__) && defined(SYS_clock_gettime)
int clock_gettime(clockid_t id, struct timespec *t)
{
    if (clock_at <= 0) return (int)syscall(SYS_clock_gettime, id, t);
    t->tv_sec = (time_t)clock_at;
    t->tv_nsec = (long)((clock_at - floor(clock_at)) * 1e9 + 0.5);
    return 0;
}
#endif
/* Stops the clock. False: the library does not read this clock here, so that it cannot be stopped. */
static bool clock_stands(void)
{
    clock_at = 1000;
    const double a = tp_time();
    clock_at = 1001.5;
    const bool ok = fabs(tp_time() - a - 1.5) < 1e-9;
    clock_at = ok ? 1000 : 0;
    return ok;
}

/* ==== >>constructors ================================================================================== */

static char folder[300];
static int released;
/* Names in the constructors' options. Long ones fit into no block that is there already. */
static bool long_names;
static const char *cost_name = "cost";

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

/* Three datapoints of two random numbers. */
static tp_dataflow *three_pairs(void)
{
    static const tp_spec spec = {"x", TP_F32, {1, {2}}};
    tp_df_fake_desc fake;
    memset(&fake, 0, sizeof fake);
    fake.specs = &spec, fake.n = 1, fake.size = 3;
    return tp_df_fake_(&fake);
}

static tp_callback *runner(void)
{
    tp_cb_inference_runner_desc d;
    tp_inf_scalar_stats_desc scalars;
    tp_inf_classification_error_desc error;
    tp_inf_binary_classification_desc binary;
    memset(&d, 0, sizeof d), memset(&scalars, 0, sizeof scalars), memset(&error, 0, sizeof error);
    memset(&binary, 0, sizeof binary);
    scalars.names[0] = cost_name;
    scalars.prefix = long_names ? cost_name : "mine";
    error.wrong_tensor_name = long_names ? cost_name : "wrong";
    error.summary_name = long_names ? cost_name : "error";
    binary.pred_tensor_name = "prediction";
    binary.label_tensor_name = "label";
    binary.prefix = long_names ? cost_name : "mine";
    if (!(d.df = three_pairs())) return NULL;
    d.inferencers[0] = tp_inf_scalar_stats_(&scalars);
    d.inferencers[1] = tp_inf_classification_error_(&error);
    d.inferencers[2] = tp_inf_binary_classification_(&binary);
    d.tower_name = long_names ? cost_name : "Tower";
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
        m.name = "lr", m.stat_name = cost_name, m.fn = do_stat, m.last_k = 3, m.param = p;
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
    p.names[0] = d.names[0] = w.names[0] = cost_name, p.names[1] = d.names[1] = w.names[1] = "error";
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
    case BAR: b.names[0] = cost_name, b.names[1] = "error"; return tp_cb_progress_bar_(&b);
    case LEFT: return tp_cb_estimated_time_left_(&l);
    case THROUGHPUT: t.samples_per_step = 8; return tp_cb_throughput_tracker_(&t);
    case MEMORY: return tp_cb_host_memory_tracker();
    case SEND: return tp_cb_send_stat("true {cost}");
    case SAVER:
        s.checkpoint_dir = long_names ? cost_name : folder, s.var_collections[0] = "mine";
        return tp_cb_model_saver_(&s);
    default:
        m.monitor_stat = cost_name, m.checkpoint_dir = long_names ? cost_name : folder,
        m.filename = long_names ? cost_name : "best.npz";
        return tp_cb_min_saver_(&m);
    }
}
static tp_callback *monitor(int kind)
{
    tp_monitor_tf_event_writer_desc e;
    tp_monitor_scalar_printer_desc s;
    memset(&e, 0, sizeof e), memset(&s, 0, sizeof s);
    e.logdir = folder;
    s.whitelist[0] = cost_name, s.whitelist[1] = "err.*", s.blacklist[0] = "a|b";
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

/* Without a logger directory: what needs one says so, and what may do without it does nothing. */
TEST(without_a_directory_of_the_logger)
{
    tp_cb_dump_tensors_desc d;
    tp_cb_min_saver_desc b;
    tp_cb_model_saver_desc s;
    tp_cb_human_hyper_param_setter_desc h;
    tp_monitor_tf_event_writer_desc e;
    tp_train_state train;
    double field = 1;
    if (tp_logger_dir()) TEST_SKIP("another test has set it");
    memset(&d, 0, sizeof d), memset(&b, 0, sizeof b), memset(&s, 0, sizeof s), memset(&h, 0, sizeof h);
    memset(&e, 0, sizeof e), memset(&train, 0, sizeof train);
    tp_test_fail_after(0);
    tp_test_keep_log();
    d.names[0] = "cost", b.monitor_stat = "cost", h.param = tp_param_field("lr", &field, TP_F64);
    tp_callback *cb[4] = {tp_cb_dump_tensors_(&d), tp_cb_min_saver_(&b), tp_cb_human_hyper_param_setter_(&h),
                          tp_cb_model_saver_(&s)};
    CHECK_ERR(tp_callback_status(cb[0]), TP_ERR_STATE,
              "DumpTensors: no logger directory was set: call tp_logger_set_dir first");
    CHECK_ERR(tp_callback_status(cb[1]), TP_ERR_STATE,
              "MinSaver: give .checkpoint_dir, or call tp_logger_set_dir first");
    CHECK_ERR(tp_callback_status(cb[2]), TP_ERR_STATE,
              "HumanHyperParamSetter: its file is in the logger's directory: call tp_logger_set_dir first");
    CHECK_OK(tp_callback_status(cb[3]));
    CHECK_ERR(tp_callback_setup_graph(cb[3], &train), TP_ERR_STATE, "ModelSaver: where to? Give .checkpoint_dir");
    for (int i = 0; i < 4; i++) tp_callback_free(cb[i]);
    TEST_EXPECT_ERROR("log directory: the path is empty");
    CHECK_ERR(tp_logger_set_dir("", 'd'), TP_ERR_ARG, "log directory: the path is empty");
    cb[1] = tp_cb_min_saver_(&b);
    CHECK_ERR(tp_callback_status(cb[1]), TP_ERR_STATE,
              "MinSaver: give .checkpoint_dir, or mend the call of tp_logger_set_dir that has failed");
    tp_callback_free(cb[1]);
    CHECK_OK(tp_logger_set_dir(NULL, 0));
    for (int i = 0; i < 4; i++) { /* each of two alone, then both in one training */
        tp_monitor *m = i % 2 ? tp_monitor_json_writer() : tp_monitor_tf_event_writer_(&e);
        if (i < 3) train.without_dir_ = false, tp_test_logged[0] = 0;
        CHECK_OK(tp_callback_setup_graph(&m->cb, &train));
        CHECK_OK(tp_callback_before_train(&m->cb));
        CHECK_OK(tp_callback_trigger(&m->cb));
        CHECK_OK(tp_callback_after_train(&m->cb));
        CHECK(!m->cb.unsaved);
        tp_monitor_free(m);
        const char *told = strstr(tp_test_logged, "No logger directory was set: ");
        CHECK_MSG(told && !strstr(told + 1, "No logger directory"), "%d: %s", i, tp_test_logged); /* once for all */
    }
    int64_t epoch = 7;
    CHECK_ERR(tp_load_existing_epoch_number(NULL, &epoch), TP_ERR_ARG,
              "stats.json of no directory: none is given, and the logger has none");
    CHECK(tp_test_live_blocks() == 0);
    tp_test_alloc_reset();
    tp_set_log(NULL, NULL);
}

/* Whatever allocation fails: NULL or a callback that says so, nothing leaks, and what is to be released is, once. */
TEST(constructors_run_out_of_memory_anywhere)
{
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    tp_test_keep_log();
    CHECK_OK(tp_logger_set_dir(folder, 'k'));
    for (int i = 0; i < 2 * N_KINDS; i++) {
        static char name[20000];
        const int kind = i % N_KINDS;
        long failures = 0;
        memset(name, 'n', sizeof name - 1);
        long_names = i >= N_KINDS;
        cost_name = long_names ? name : "cost";
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
    long_names = false, cost_name = "cost";
    tp_test_alloc_reset();
    tp_set_log(NULL, NULL);
}

/* ==== >>mistakes ====================================================================================== */

static tp_status refused_setters(int kind, int what)
{
    tp_cb_hyper_param_setter_desc s;
    tp_cb_human_hyper_param_setter_desc h;
    tp_cb_scheduled_hyper_param_setter_desc c;
    tp_cb_hyper_param_setter_with_func_desc f;
    tp_cb_stat_monitor_param_setter_desc m;
    tp_callback *cb = NULL;
    memset(&s, 0, sizeof s), memset(&h, 0, sizeof h), memset(&c, 0, sizeof c);
    memset(&f, 0, sizeof f), memset(&m, 0, sizeof m);
    tp_hyper_param *p = what == 9 ? NULL : own_param();
    if (what == 8 && p) p->get_value = NULL;
    if (what == 7 && p) p->set_value = NULL;
    switch (kind) {
    case SETTER:
        s.param = p, s.fn = what == 0 ? NULL : do_param, s.user = folder, s.release = do_release;
        cb = tp_cb_hyper_param_setter_(&s);
        break;
    case HUMAN:
        h.param = p;
        cb = tp_cb_human_hyper_param_setter_(&h);
        break;
    case SCHEDULE:
        c.param = p;
        c.n_schedule = what == 0 ? -1 : what == 1 ? TP_MAX_SCHEDULE + 1 : 2;
        c.schedule[0].at = 5, c.schedule[1].at = what == 2 ? 5 : what == 5 ? -1 : 6;
        c.interp = what == 3 ? 2 : what == 4 ? -1 : 0;
        cb = tp_cb_scheduled_hyper_param_setter_(&c);
        break;
    case FUNC:
        f.param = p, f.fn = what == 0 ? NULL : do_func;
        cb = tp_cb_hyper_param_setter_with_func_(&f);
        break;
    default:
        m.param = p, m.fn = what == 0 ? NULL : do_stat, m.stat_name = what == 1 ? NULL : "cost";
        m.last_k = what == 2 ? 0 : 1;
        m.threshold = what == 3 ? -0.5 : what == 4 ? (double)NAN : 0;
        cb = tp_cb_stat_monitor_param_setter_(&m);
    }
    const tp_status st = tp_callback_status(cb);
    tp_callback_free(cb);
    return st;
}

/* A wrapper, or what else takes numbers and names, with one option wrong. */
static tp_callback *refused(int which)
{
    tp_cb_periodic_trigger_desc t;
    tp_cb_enable_if_desc e;
    tp_cb_periodic_callback_desc p;
    tp_cb_run_op_desc r;
    tp_cb_merge_all_summaries_desc s;
    tp_cb_process_tensors_desc v;
    tp_cb_dump_tensors_desc d;
    tp_cb_simple_moving_average_desc w;
    tp_cb_progress_bar_desc b;
    tp_cb_estimated_time_left_desc l;
    tp_cb_model_saver_desc m;
    tp_cb_min_saver_desc best;
    tp_monitor_tf_event_writer_desc ev;
    tp_monitor *monitor = NULL;
    memset(&t, 0, sizeof t), memset(&e, 0, sizeof e), memset(&p, 0, sizeof p), memset(&r, 0, sizeof r);
    memset(&s, 0, sizeof s), memset(&v, 0, sizeof v), memset(&d, 0, sizeof d), memset(&w, 0, sizeof w);
    memset(&b, 0, sizeof b), memset(&l, 0, sizeof l), memset(&m, 0, sizeof m), memset(&best, 0, sizeof best);
    memset(&ev, 0, sizeof ev);
    switch (which) {
    case 0: t.cb = lambda(); return tp_cb_periodic_trigger_(&t);
    case 1: t.cb = lambda(), t.every_k_steps = -1, t.every_k_epochs = 1; return tp_cb_periodic_trigger_(&t);
    case 2: t.cb = lambda(), t.every_k_steps = 1, t.every_k_epochs = -1; return tp_cb_periodic_trigger_(&t);
    case 3: e.cb = lambda(); return tp_cb_enable_if_(&e);
    case 4: p.cb = lambda(); return tp_cb_periodic_callback_(&p);
    case 5: p.cb = lambda(), p.every_k_steps = -1, p.every_k_epochs = 1; return tp_cb_periodic_callback_(&p);
    case 6: p.cb = lambda(), p.every_k_steps = 1, p.every_k_epochs = -1; return tp_cb_periodic_callback_(&p);
    case 7: return tp_cb_run_op_(&r);
    case 8: s.period = -1; return tp_cb_merge_all_summaries_(&s);
    case 9: v.fn = do_tensors; return tp_cb_process_tensors_(&v);
    case 10: v.names[0] = "cost"; return tp_cb_process_tensors_(&v);
    case 11: return tp_cb_tensor_printer_(&d);
    case 12: return tp_cb_dump_tensors_(&d);
    case 13: w.names[0] = "cost"; return tp_cb_simple_moving_average_(&w);
    case 14: w.window_size = 1; return tp_cb_simple_moving_average_(&w);
    case 15: l.last_k_epochs = -1; return tp_cb_estimated_time_left_(&l);
    case 16: l.last_k_epochs = 1000001; return tp_cb_estimated_time_left_(&l);
    case 17: return tp_cb_send_stat(NULL);
    case 18: m.max_to_keep = -2; return tp_cb_model_saver_(&m);
    case 19: m.keep_checkpoint_every_n_hours = -1; return tp_cb_model_saver_(&m);
    case 20: m.format = (tp_checkpoint_format)3; return tp_cb_model_saver_(&m);
    case 21: m.format = (tp_checkpoint_format)-1; return tp_cb_model_saver_(&m);
    case 22: return tp_cb_min_saver_(&best);
    case 23: best.monitor_stat = ""; return tp_cb_max_saver_(&best);
    case 24: return tp_cb_hook(NULL);
    case 25: ev.max_queue = -2, monitor = tp_monitor_tf_event_writer_(&ev); return &monitor->cb;
    case 26: ev.flush_secs = -1, monitor = tp_monitor_tf_event_writer_(&ev); return &monitor->cb;
    default: return NULL;
    }
}

TEST(wrong_options_are_sentences)
{
    static const char *const sentence[] = {
        "PeriodicTrigger: give every_k_steps or every_k_epochs, 1 or more, or before_train",
        "PeriodicTrigger: give every_k_steps or every_k_epochs, 1 or more, or before_train",
        "PeriodicTrigger: give every_k_steps or every_k_epochs, 1 or more, or before_train",
        "EnableCallbackIf: .pred is missing",
        "PeriodicCallback: give every_k_steps or every_k_epochs",
        "PeriodicCallback: give every_k_steps or every_k_epochs",
        "PeriodicCallback: give every_k_steps or every_k_epochs",
        "RunOp: give .op, .fn or .op_name",
        "MergeAllSummaries: .period is -1",
        "ProcessTensors: give at least one tensor name",
        "ProcessTensors: .fn is missing",
        "TensorPrinter: give at least one tensor name",
        "DumpTensors: give at least one tensor name",
        "SimpleMovingAverage: .window_size is 0",
        "SimpleMovingAverage: give at least one tensor name",
        "EstimatedTimeLeft: .last_k_epochs is -1",
        "EstimatedTimeLeft: .last_k_epochs is 1000001",
        "SendStat: the command is NULL",
        "ModelSaver: .max_to_keep is -2: it must be at least 1, or TP_NONE for all",
        "ModelSaver: .keep_checkpoint_every_n_hours is -1: it must not be negative",
        "ModelSaver: .format is 3, not one of TP_CHECKPOINT_...",
        "ModelSaver: .format is -1, not one of TP_CHECKPOINT_...",
        "MinSaver: .monitor_stat is missing",
        "MaxSaver: .monitor_stat is missing",
        "HookToCallback: the hook is NULL",
        "TFEventWriter: .max_queue is -2, .flush_secs 0",
        "TFEventWriter: .max_queue is 0, .flush_secs -1"};
    static const struct {
        int kind, what;
        const char *sentence;
    } setters[] = {{SETTER, 0, "HyperParamSetter: .fn is missing"},
                   {SETTER, 9, "HyperParamSetter: which parameter? Give the name of a variable, or .param"},
                   {SETTER, 8, "HyperParamSetter: a parameter needs get_value and set_value"},
                   {SETTER, 7, "HyperParamSetter: a parameter needs get_value and set_value"},
                   {HUMAN, 9, "HumanHyperParamSetter: which parameter?"},
                   {HUMAN, 8, "HumanHyperParamSetter: a parameter needs"},
                   {SCHEDULE, 0, "ScheduledHyperParamSetter: give a .schedule"},
                   {SCHEDULE, 1, "ScheduledHyperParamSetter"},
                   {SCHEDULE, 2, "ScheduledHyperParamSetter: 5 is in the schedule twice"},
                   {SCHEDULE, 3, "ScheduledHyperParamSetter: .interp is 2: give TP_INTERP_NONE or TP_INTERP_LINEAR"},
                   {SCHEDULE, 4, "ScheduledHyperParamSetter: .interp is -1: give TP_INTERP_NONE or TP_INTERP_LINEAR"},
                   {SCHEDULE, 5, "ScheduledHyperParamSetter: -1 is in the schedule: the first is 0"},
                   {FUNC, 0, "HyperParamSetterWithFunc: .fn is missing"},
                   {FUNC, 9, "HyperParamSetterWithFunc: which parameter?"},
                   {STAT, 0, "StatMonitorParamSetter: give .stat_name, .fn and .last_k"},
                   {STAT, 1, "StatMonitorParamSetter: give .stat_name, .fn and .last_k"},
                   {STAT, 2, "StatMonitorParamSetter: give .stat_name, .fn and .last_k"},
                   {STAT, 3, "StatMonitorParamSetter: .threshold is -0.5: it cannot be below 0 or NaN"},
                   {STAT, 4, "StatMonitorParamSetter: .threshold is nan: it cannot be below 0 or NaN"},
                   {STAT, 9, "StatMonitorParamSetter: which parameter?"}};
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    tp_test_keep_log();
    CHECK_OK(tp_logger_set_dir(folder, 'k'));
    for (int i = 0; i < TP_COUNT(sentence); i++) {
        tp_test_fail_after(0);
        released = 0;
        tp_callback *cb = refused(i);
        const tp_status st = tp_callback_status(cb);
        CHECK_MSG(st == TP_ERR_ARG && strstr(tp_last_error(), sentence[i]), "%d: %s, '%s'", i, tp_status_name(st),
                  tp_last_error());
        CHECK_MSG(released == (i < 7), "%d: %d", i, released); /* what was wrapped is freed at once */
        tp_train_state train;
        memset(&train, 0, sizeof train);
        CHECK_MSG(tp_callback_setup_graph(cb, &train) == TP_ERR_ARG && strstr(tp_last_error(), sentence[i]), "%d", i);
        tp_callback_free(cb);
        CHECK_MSG(tp_test_live_blocks() == 0, "%d", i);
    }
    for (int i = 0; i < TP_COUNT(setters); i++) {
        tp_test_fail_after(0);
        released = 0;
        const tp_status st = refused_setters(setters[i].kind, setters[i].what);
        CHECK_MSG(st == TP_ERR_ARG && strstr(tp_last_error(), setters[i].sentence), "setter %d: %s, '%s'", i,
                  tp_status_name(st), tp_last_error());
        CHECK(released == (setters[i].kind == SETTER));
        CHECK_MSG(tp_test_live_blocks() == 0, "setter %d", i);
    }
    tp_test_alloc_reset();
    tp_set_log(NULL, NULL);
}

/* Data given twice, or not at all, or no inferencers: what was handed over is freed. */
TEST(wrong_options_of_an_inference_runner)
{
    static const char *const sentence[] = {
        "InferenceRunner: give a dataflow or .input, not both",
        "InferenceRunner: the data are missing: give a dataflow or .input (one that is NULL found no memory)",
        "InferenceRunner: give at least one inferencer",
        "InferenceRunner: .inferencers holds at most 32",
        "ScalarStats: give at least one name",
        NULL};
    tp_test_keep_log();
    for (int i = 0; i < TP_COUNT(sentence); i++) {
        tp_cb_inference_runner_desc d;
        tp_inf_scalar_stats_desc scalars;
        tp_feed_input_desc feed;
        memset(&d, 0, sizeof d), memset(&scalars, 0, sizeof scalars), memset(&feed, 0, sizeof feed);
        tp_test_fail_after(0);
        scalars.names[0] = i == 4 ? NULL : "cost";
        if (i != 1) d.df = three_pairs();
        feed.df = i == 0 ? three_pairs() : NULL;
        if (i == 0) d.input = tp_feed_input_(&feed);
        const int n = i == 2 ? 0 : i == 3 ? TP_MAX_NAMES + 1 : 1;
        for (int k = 0; k < n; k++) d.inferencers[k] = tp_inf_scalar_stats_(&scalars);
        tp_callback *cb = tp_cb_inference_runner_(&d);
        const tp_status st = tp_callback_status(cb);
        if (sentence[i])
            CHECK_MSG(st == TP_ERR_ARG && strstr(tp_last_error(), sentence[i]), "%d: %s, '%s'", i, tp_status_name(st),
                      tp_last_error());
        else CHECK(st == TP_OK);
        tp_callback_free(cb);
        CHECK_MSG(tp_test_live_blocks() == 0, "%d", i);
    }
    tp_test_alloc_reset();
    tp_set_log(NULL, NULL);
}

/* ==== >>hooks ========================================================================================= */

/* A training of no data, whose graph is what its callbacks make. */
static tp_status train_with(tp_callback *const *cb, int n, tp_monitor *const *monitor, int64_t steps, int64_t epochs,
                            void (*look)(tp_trainer *t))
{
    tp_train_desc d;
    memset(&d, 0, sizeof d);
    d.callbacks = cb, d.n_callbacks = n;
    d.monitors = monitor, d.n_monitors = monitor ? 1 : 0;
    d.steps_per_epoch = steps, d.max_epoch = epochs;
    tp_trainer *t = tp_noop_trainer();
    const tp_status st = tp_train(t, &d);
    if (look && st == TP_OK) look(t);
    tp_trainer_free(t);
    return st;
}

static double counted;
static void read_counter(tp_trainer *t)
{
    tp_tensor v;
    memset(&v, 0, sizeof v);
    tp_train_state *s = &t->state;
    if (CHECK_OK(tp_session_read(s->session, tp_find_variable(s->graph, "counter"), &v)))
        counted = tp_tensor_get(&v, 0);
    tp_tensor_free(&v);
}
static tp_node *count_one(tp_graph *g, void *user)
{
    CHECK(user == folder);
    return tp_named(tp_assign_add(tp_get_scalar_variable(g, "counter", 0), tp_const(g, 1), NULL), "increment");
}
static tp_status make_counter(tp_callback *cb)
{
    count_one(cb->train->graph, folder);
    return TP_OK;
}

/* RunOp runs an op before training, at each trigger or in each step, as its options say. The op is given by a function or by name. */
TEST(an_op_runs_when_it_should)
{
    const int steps = 3, epochs = 4;
    for (int way = 0; way < 16; way++) {
        const bool before = way & 1, trigger = way & 2, step = way & 4, by_name = way & 8;
        tp_cb_run_op_desc r;
        tp_cb_lambda_desc l;
        tp_callback *cb[2];
        memset(&r, 0, sizeof r), memset(&l, 0, sizeof l);
        l.setup_graph = make_counter, l.name = "Mine";
        r.run_before = before ? (by_name ? TP_YES : 0) : TP_NO; /* the first two are so by default, the third is not */
        r.run_as_trigger = trigger ? (by_name ? TP_YES : 0) : TP_NO;
        r.run_step = step ? TP_YES : by_name ? TP_NO : 0;
        r.verbose = by_name ? TP_YES : 0;
        if (by_name) r.op_name = "Mine/increment:0";
        else r.fn = count_one, r.user = folder;
        int n = 0;
        if (by_name) cb[n++] = tp_cb_lambda_(&l);
        cb[n++] = tp_cb_run_op_(&r);
        tp_test_keep_log();
        counted = -1;
        CHECK_OK(train_with(cb, n, NULL, steps, epochs, read_counter));
        const int runs = before + trigger * epochs + step * steps * epochs;
        CHECK_MSG(counted == runs, "way %d: %g", way, counted);
        int lines = 0;
        for (const char *p = tp_test_logged; (p = strstr(p, "Running Op Mine/increment ...\n")) != NULL; p++) lines++;
        CHECK_MSG(lines == (by_name ? runs : 0), "way %d: %d lines", way, lines);
        CHECK(!strstr(tp_test_logged, "Callbacks took")); /* only where they took two seconds */
    }
    tp_cb_run_op_desc r;
    memset(&r, 0, sizeof r);
    r.op_name = "nothing";
    tp_callback *cb = tp_cb_run_op_(&r);
    TEST_MAY_ERROR("");
    CHECK_ERR(train_with(&cb, 1, NULL, 1, 1, NULL), TP_ERR_NAME, "Tensor nothing not found in the graph");
    tp_set_log(NULL, NULL);
}

/* A weight that is NaN within the first epoch and 1 at its end. */
static tp_status make_weight(tp_callback *cb)
{
    return tp_get_variable_as(cb->train->graph, "w", TP_F32, tp_make_shape(1), tp_init_ones()) ? TP_OK : TP_ERR;
}
static tp_status spoil_weight(tp_callback *cb)
{
    const float now = cb->train->global_step == 1 ? (float)NAN : 1;
    tp_tensor t;
    memset(&t, 0, sizeof t);
    tp_tensor_view(&t, TP_F32, tp_make_shape(1), &now);
    return tp_session_load(cb->train->session, tp_find_variable(cb->train->graph, "w"), &t);
}

/* CheckNumerics looks at each step only if .run_step says so. */
TEST(numbers_are_checked_in_each_step_if_asked)
{
    TEST_EXPECT_ERROR("CheckNumerics['w']: element 0 is");
    tp_test_keep_log();
    for (int each_step = 0; each_step < 2; each_step++) {
        tp_cb_check_numerics_desc c;
        memset(&c, 0, sizeof c);
        c.run_step = each_step ? TP_YES : TP_UNSET;
        tp_callback *cb[2] = {tp_callback_new("Spoiler", 0), tp_cb_check_numerics_(&c)};
        cb[0]->setup_graph = make_weight, cb[0]->trigger_step = spoil_weight;
        const tp_status st = train_with(cb, 2, NULL, 2, 1, NULL);
        if (each_step) CHECK_ERR(st, TP_ERR_NUMERIC, "CheckNumerics['w']: element 0 is");
        else CHECK_OK(st);
    }
    tp_set_log(NULL, NULL);
}

/* A monitor that writes down what it is told: "a=1@3". */
static char told[4000];
static tp_status tell(tp_monitor *m, const char *name, const tp_stat *stat)
{
    const size_t n = strlen(told);
    (void)m;
    snprintf(told + n, sizeof told - n, "%s%s=%g@%d", n ? " " : "", name, stat->value, (int)stat->step);
    return TP_OK;
}
static tp_monitor *teller(void)
{
    tp_monitor *m = tp_monitor_new("Teller", 0);
    if (m) m->process_scalar = tell;
    told[0] = 0;
    return m;
}
static tp_status make_summary(tp_callback *cb)
{
    tp_graph *g = cb->train->graph;
    tp_add_tensor_summary(tp_cast(tp_const(g, 7), TP_F32), TP_SUMMARY_SCALAR, "a", NULL);
    tp_add_tensor_summary(tp_cast(tp_const(g, 9), TP_F32), TP_SUMMARY_SCALAR, "b", "mine");
    return TP_OK;
}

TEST(summaries_come_when_they_should)
{
    const int steps = 5, epochs = 2;
    for (int way = 0; way < 24; way++) {
        const int period = way % 6;
        const bool alone = way / 6 % 2, mine = way / 12;
        tp_cb_merge_all_summaries_desc s;
        tp_cb_lambda_desc l;
        tp_callback *cb[2];
        char want[4000] = "", name[64];
        memset(&s, 0, sizeof s), memset(&l, 0, sizeof l);
        l.setup_graph = make_summary, l.name = "Mine";
        s.period = period, s.run_alone = alone ? TP_YES : TP_NO, s.key = mine ? "mine" : NULL;
        cb[0] = tp_cb_lambda_(&l), cb[1] = tp_cb_merge_all_summaries_(&s);
        tp_monitor *m = teller();
        tp_test_keep_log();
        CHECK_OK(train_with(cb, 2, &m, steps, epochs, NULL));
        for (int i = 0; i < steps * epochs; i++) {
            const bool in_period = period && (i % steps + 1) % period == 0, last = i % steps == steps - 1;
            /* with the step once; alone after each period, and at the end of the epoch */
            for (int k = 0; k < (alone ? in_period + last : in_period || last); k++) {
                const size_t n = strlen(want);
                snprintf(name, sizeof name, "Mine/%s=%d", mine ? "b" : "a", mine ? 9 : 7);
                snprintf(want + n, sizeof want - n, "%s%s@%d", n ? " " : "", name, i + 1);
            }
        }
        CHECK_STR(told, want);
    }
    tp_set_log(NULL, NULL);
}

/* The trigger of a group is that of its members; names of the graph that a group's or a proxy's members make are theirs. */
static tp_status name_here(tp_callback *cb)
{
    tp_named(tp_const(cb->train->graph, 1), "here");
    return TP_OK;
}
static int n_triggered;
static tp_status count_trigger(tp_callback *cb)
{
    (void)cb;
    n_triggered++;
    return TP_OK;
}
static void find_names(tp_trainer *t)
{
    tp_graph *g = t->state.graph;
    CHECK(tp_graph_find(g, "One/here") && tp_graph_find(g, "Two/here") && tp_graph_find(g, "Three/here"));
    CHECK(!tp_graph_find(g, "here"));
}
TEST(members_of_groups)
{
    tp_cb_lambda_desc l;
    tp_cb_periodic_trigger_desc p;
    tp_callback *member[2], *cb[2];
    memset(&l, 0, sizeof l), memset(&p, 0, sizeof p);
    l.trigger = count_trigger, l.setup_graph = name_here;
    l.name = "One", member[0] = tp_cb_lambda_(&l);
    l.name = "Two", member[1] = tp_cb_lambda_(&l);
    p.cb = tp_cb_group(member, 2);
    p.every_k_epochs = 2;
    cb[0] = tp_cb_periodic_trigger_(&p);
    l.name = "Three", cb[1] = tp_cb_proxy(tp_cb_lambda_(&l));
    CHECK_STR(cb[0]->name, "Proxy-Callbacks");
    CHECK_STR(cb[1]->name, "Proxy-Three");
    CHECK(!cb[0]->chief_only && cb[1]->chief_only && cb[0]->n_inner == 1 && cb[0]->inner[0]->n_inner == 2);
    n_triggered = 0;
    tp_test_keep_log();
    CHECK_OK(train_with(cb, 2, NULL, 1, 5, find_names));
    CHECK(n_triggered == 2 * 2 + 5); /* after epochs 2 and 4, and after each */
    tp_set_log(NULL, NULL);
}

/* If the members of a group took 2 seconds or more, the log says how long. It names each member that took more than 1 second and more
 * than 30% of the total. The group's status is that of the first member that ends the training or the epoch. */
static double member_takes[3];
static tp_status member_says[3];
static tp_status take_time(tp_callback *cb)
{
    const double *takes = (const double *)cb->user;
    clock_at += *takes;
    return member_says[takes - member_takes];
}
TEST(members_that_take_long_are_told)
{
    static const struct {
        double takes[3];
        const char *want;
    } list[] = {
        {{0, 0, 0}, ""},
        {{1, 0.875, 0}, ""},
        {{1, 1, 0}, "Callbacks took 2.000 sec in total."},
        {{1.125, 0.875, 0}, "Callbacks took 2.000 sec in total. One: 1.12 seconds"},
        {{0, 2.5, 0}, "Callbacks took 2.500 sec in total. Two: 2.5 seconds"},
        {{1.5, 1.5, 1.5}, "Callbacks took 4.500 sec in total. One: 1.5 seconds; Two: 1.5 seconds; Three: 1.5 seconds"},
        {{3, 0, 7}, "Callbacks took 10.000 sec in total. Three: 7 seconds"},
        {{3.25, 6.75, 0}, "Callbacks took 10.000 sec in total. One: 3.25 seconds; Two: 6.75 seconds"},
        {{0, 4, 3661}, "Callbacks took 3665.000 sec in total. Three: 1 hour 1 minute 1 second"}};
    static const tp_status says[][4] = {/* the last one is the group's */
                                        {TP_OK, TP_OK, TP_OK, TP_OK},
                                        {TP_OK, TP_STOP, TP_END, TP_STOP},
                                        {TP_END, TP_OK, TP_STOP, TP_END}};
    static const char *const name[] = {"One", "Two", "Three"}, *const reason[] = {"", "Two returned", "Three returned"};
    static char long_name[2000];
    memset(long_name, 'n', sizeof long_name - 1);
    if (!clock_stands()) TEST_SKIP("the clock cannot be moved here");
    for (int i = 0; i <= TP_COUNT(list); i++) { /* the last time with names that are too long for a line */
        const bool cut = i == TP_COUNT(list);
        tp_callback *in[3];
        tp_train_state train;
        memset(&train, 0, sizeof train);
        for (int k = 0; k < 3; k++) {
            member_takes[k] = cut ? 2 : list[i].takes[k];
            member_says[k] = says[i % 3][k];
            in[k] = tp_callback_new(cut ? long_name : name[k], 0);
            in[k]->user = &member_takes[k];
            in[k]->trigger_epoch = take_time;
        }
        tp_callback *cb = tp_cb_group(in, 3);
        CHECK_OK(tp_callback_setup_graph(cb, &train));
        tp_test_keep_log();
        CHECK(tp_callback_trigger_epoch(cb) == says[i % 3][3]);
        CHECK(strncmp(train.stop_reason, reason[i % 3], strlen(reason[i % 3])) == 0);
        char *end = strchr(tp_test_logged, '\n');
        if (end) *end = 0;
        if (cut) CHECK(strncmp(tp_test_logged, "Callbacks took 6.000 sec in total. nnn", 38) == 0);
        else CHECK_STR(tp_test_logged, list[i].want);
        tp_callback_free(cb);
    }
    clock_at = 0;
    tp_set_log(NULL, NULL);
}

/* -- values of steps, by hand */

/* A graph with scalars a and b and a vector v, for setup_graph. */
static tp_train_state by_hand(tp_graph *g, tp_monitors *m)
{
    tp_train_state train;
    memset(&train, 0, sizeof train);
    train.graph = g, train.monitors = m, train.starting_epoch = 1, train.max_epoch = 10, train.steps_per_epoch = 4;
    train.is_chief = true;
    if (m) m->cb.train = NULL;
    return train;
}
static double value_of_step(int step, int which) { return which ? 100.0 - step * step : (double)(step * 7 % 5); }
static void give_values(tp_callback *cb, int step)
{
    double v[2];
    tp_tensor t[2];
    const tp_tensor *value[2];
    tp_run_values all;
    memset(t, 0, sizeof t);
    for (int i = 0; i < 2; i++) {
        v[i] = value_of_step(step, i);
        tp_tensor_view(&t[i], TP_F64, tp_make_shape_n(0, NULL), &v[i]);
        value[i] = &t[i];
    }
    all.value = value, all.n = 2;
    CHECK_OK(tp_callback_after_run(cb, &all));
}

/* Means of the last values, of two scalars; saved after any step and loaded into a new one, it goes on alike. Of another window
 * nothing is taken over. */
TEST(moving_averages_by_hand)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_named(tp_const(g, 0), "a"), tp_named(tp_const(g, 0), "b");
    tp_named(tp_fill_like(tp_placeholder(g, "v", TP_F32, tp_make_shape(2)), 0), "vector");
    for (int window = 1; window < 6; window++)
        for (int cut = 0; cut < 13; cut++)
            for (int other = 0; other < 2; other++) {
                tp_cb_simple_moving_average_desc d;
                tp_dict saved;
                tp_monitor *m = teller();
                tp_monitors *all = tp_monitors_new(&m, 1);
                tp_train_state train = by_hand(g, all);
                char want[2000] = "";
                memset(&d, 0, sizeof d), memset(&saved, 0, sizeof saved);
                CHECK_OK(tp_callback_setup_graph(&all->cb, &train));
                d.names[0] = "a", d.names[1] = "b", d.window_size = window;
                tp_callback *cb = tp_cb_simple_moving_average_(&d);
                CHECK_OK(tp_callback_setup_graph(cb, &train));
                int seen_from = 1;
                for (int step = 1; step <= 12; step++) {
                    if (step == cut + 1) {
                        CHECK_OK(tp_callback_save_state(cb, &saved, "p/"));
                        const tp_tensor *seen = tp_dict_find(&saved, "p/seen"),
                                        *ring = tp_dict_find(&saved, "p/window");
                        CHECK(seen && tp_tensor_get(seen, 0) == cut);
                        CHECK(ring && tp_tensor_size(ring) == 2 * (cut < window ? cut : window));
                        tp_callback_free(cb);
                        d.window_size = window + 2 * other;
                        cb = tp_cb_simple_moving_average_(&d);
                        CHECK_OK(tp_callback_setup_graph(cb, &train));
                        CHECK_OK(tp_callback_load_state(cb, &saved, "p/"));
                        if (other && cut > window) seen_from = step;      /* of another window: it begins anew */
                        if (other && cut <= window && cut) seen_from = 1; /* not full: the values are those */
                    }
                    train.global_step = step;
                    give_values(cb, step);
                    CHECK_OK(tp_callback_trigger_step(cb));
                    const int w = d.window_size;
                    for (int i = 0; i < 2 && step % w == 0; i++) {
                        double sum = 0;
                        int n = 0;
                        for (int k = step; k > step - w && k >= seen_from; k--) sum += value_of_step(k, i), n++;
                        const size_t at = strlen(want);
                        snprintf(want + at, sizeof want - at, "%s%s/SMA=%g@%d", at ? " " : "", i ? "b" : "a", sum / n,
                                 step);
                    }
                }
                CHECK_STR(told, want);
                tp_dict_free(&saved);
                tp_callback_free(cb);
                tp_callback_free(&all->cb);
                tp_monitor_free(m);
            }
    tp_cb_simple_moving_average_desc d;
    tp_train_state train = by_hand(g, NULL);
    memset(&d, 0, sizeof d);
    d.names[0] = "a", d.names[1] = "vector", d.window_size = 2;
    tp_callback *cb = tp_cb_simple_moving_average_(&d);
    CHECK_ERR(tp_callback_setup_graph(cb, &train), TP_ERR_SHAPE, "SimpleMovingAverage: 'vector' is not a scalar");
    tp_callback_free(cb);
    d.names[1] = "missing";
    cb = tp_cb_simple_moving_average_(&d);
    CHECK_ERR(tp_callback_setup_graph(cb, &train), TP_ERR_NAME, "missing");
    tp_callback_free(cb);
    tp_cb_progress_bar_desc b;
    memset(&b, 0, sizeof b);
    b.names[0] = "a", b.names[1] = "vector";
    cb = tp_cb_progress_bar_(&b);
    CHECK_OK(tp_callback_setup_graph(cb, &train));
    CHECK_ERR(tp_callback_before_train(cb), TP_ERR_SHAPE, "ProgressBar can only print scalars, 'vector' is not one");
    tp_callback_free(cb);
    tp_graph_free(g);
}

/* ==== >>parameters ==================================================================================== */

static char hyper_path[400];
static double stat_of(int epoch) { return (double)((epoch * 5) % 7) - 0.25 * epoch; }

/* One setter of a kind, of a parameter at *field. */
static tp_callback *setter_of(int kind, int way, double *field)
{
    tp_cb_human_hyper_param_setter_desc h;
    tp_cb_scheduled_hyper_param_setter_desc c;
    tp_cb_stat_monitor_param_setter_desc m;
    memset(&h, 0, sizeof h), memset(&c, 0, sizeof c), memset(&m, 0, sizeof m);
    tp_hyper_param *p = tp_param_field("lr", field, TP_F64);
    if (kind == HUMAN) {
        h.param = p;
        return tp_cb_human_hyper_param_setter_(&h);
    }
    if (kind == SCHEDULE) {
        const tp_schedule_point point[] = {{7, -2}, {2, 1}, {4, 5}};
        memcpy(c.schedule, point, sizeof point);
        c.param = p, c.interp = way & 1, c.step_based = way & 2 ? TP_YES : TP_NO;
        return tp_cb_scheduled_hyper_param_setter_(&c);
    }
    m.param = p, m.stat_name = "cost", m.fn = do_stat, m.last_k = 1 + way % 4, m.reverse = way & 4 ? TP_YES : TP_NO;
    m.threshold = way & 8 ? 0.5 : 0;
    return tp_cb_stat_monitor_param_setter_(&m);
}
/* What the parameter should be after an epoch, from what it was; state: the statistics since the last change. */
static double after_epoch(int kind, int way, int epoch, double now, double *state, int *n)
{
    if (kind == HUMAN) return epoch >= 5 ? 3 : epoch >= 2 ? 2 : now;
    if (kind == SCHEDULE) {
        const int at = way & 2 ? 3 * epoch : epoch; /* three steps an epoch; those in it were set as well */
        double value = now;
        for (int t = way & 2 ? at - 2 : at; t <= at; t++) {
            if (t == 2) value = 1;
            else if (t == 4) value = 5;
            else if (t == 7) value = -2;
            else if ((way & 1) && t > 2 && t < 4) value = 1 + (t - 2) / 2.0 * 4;
            else if ((way & 1) && t > 4 && t < 7) value = 5 + (t - 4) / 3.0 * -7;
        }
        return value;
    }
    const int k = 1 + way % 4;
    const double threshold = way & 8 ? 0.5 : 0;
    bool better = false;
    state[(*n)++] = stat_of(epoch);
    if (*n < k) return now;
    for (int i = *n - k + 1; i < *n; i++)
        better |= way & 4 ? state[i] > state[*n - k] + threshold : state[i] < state[*n - k] - threshold;
    if (better) return now;
    *n = 0;
    return now * 0.5;
}

/* Before a training that begins between two points of a schedule, the parameter is compared with the schedule. They count as equal
 * if they differ by at most 1e-8 + 1e-5 |parameter|. */
TEST(a_parameter_beside_its_schedule)
{
    static const struct {
        double is, scheduled;
        bool warns;
    } list[] = {{0, 0, false},        {0, 1e-8, false},      {0, -1e-8, false},      {0, 1.001e-8, true},
                {0, -1.001e-8, true}, {1, 1.00001, false},   {1, 1.0000101, true},   {1, 0.99999, false},
                {1, 0.9999899, true}, {-1, -1.00001, false}, {-1, -1.0000101, true}, {100, 100.0009, false},
                {100, 100.0011, true}};
    for (int i = 0; i < 2 * TP_COUNT(list); i++) {
        const bool set = i % 2 == 0, warned = list[i / 2].warns;
        double field = list[i / 2].is;
        char sentence[200];
        tp_cb_scheduled_hyper_param_setter_desc c;
        tp_train_state train = by_hand(NULL, NULL);
        memset(&c, 0, sizeof c);
        c.schedule[0].at = 2, c.schedule[0].value = list[i / 2].scheduled;
        c.schedule[1].at = 9, c.schedule[1].value = 7;
        c.param = tp_param_field("lr", &field, TP_F64);
        c.set_at_beginning = set ? 0 : TP_NO;
        train.epoch_num = 5;
        tp_test_keep_log();
        tp_callback *cb = tp_cb_scheduled_hyper_param_setter_(&c);
        CHECK_OK(tp_callback_setup_graph(cb, &train));
        CHECK_OK(tp_callback_before_train(cb));
        snprintf(sentence, sizeof sentence, "parameter 'lr' should be %g at this point, but it is %g.",
                 list[i / 2].scheduled, list[i / 2].is);
        CHECK_MSG((strstr(tp_test_logged, sentence) != NULL) == warned, "%g, scheduled %.9g: %s", list[i / 2].is,
                  list[i / 2].scheduled, tp_test_logged);
        CHECK((strstr(tp_test_logged, "before the training.") != NULL) == (warned && set));
        CHECK(!(field < (warned && set ? list[i / 2].scheduled : list[i / 2].is)) &&
              !(field > (warned && set ? list[i / 2].scheduled : list[i / 2].is)));
        tp_callback_free(cb);
    }
    tp_set_log(NULL, NULL);
}

/* A variable of few bits rounds what the schedule sets: that is no other value. */
TEST(a_schedule_of_a_parameter_of_few_bits)
{
    static const tp_dtype dtypes[] = {TP_F16, TP_BF16, TP_F32, TP_F64};
    static const double values[] = {0.1, 0.003, 1e-7, -2.7, 1e30};
    for (int i = 0; i < TP_COUNT(dtypes) * TP_COUNT(values); i++)
        for (int other = 0; other < 2; other++) {
            const double value = values[i % TP_COUNT(values)];
            tp_graph *g = tp_graph_new(NULL);
            tp_get_variable_as(g, "lr", dtypes[i / TP_COUNT(values)], tp_make_shape_n(0, NULL), tp_init_zeros());
            tp_train_state train = by_hand(g, NULL);
            tp_cb_scheduled_hyper_param_setter_desc c;
            memset(&c, 0, sizeof c);
            c.name = "lr";
            c.schedule[0].at = 2, c.schedule[0].value = value;
            train.epoch_num = 5;
            train.session = tp_session_new(g, NULL);
            tp_callback *cb = tp_cb_scheduled_hyper_param_setter_(&c);
            CHECK_OK(tp_callback_setup_graph(cb, &train));
            tp_hyper_param *p = tp_param_graph_var("lr");
            p->train = &train;
            CHECK_OK(p->setup_graph(p));
            CHECK_OK(p->set_value(p, other ? 1.02 * value : value));
            tp_test_keep_log();
            CHECK_OK(tp_callback_before_train(cb));
            /* 1e-7 and 1.02e-7 are equal in 10 bits, and 1e30 is infinite in both */
            const bool same = !other || fabs(value) < 1e-6 || (dtypes[i / TP_COUNT(values)] == TP_F16 && value > 65520);
            CHECK_MSG((strstr(tp_test_logged, "According to its schedule") == NULL) == same, "%s, %g: %s",
                      tp_dtype_name(dtypes[i / TP_COUNT(values)]), value, tp_test_logged);
            tp_hyper_param_free(p);
            tp_callback_free(cb);
            tp_session_free(train.session);
            tp_graph_free(g);
        }
    tp_set_log(NULL, NULL);
}

/* A value that is no number is found when the schedule is made, not after the epochs before it. */
TEST(a_schedule_of_numbers_that_are_none)
{
    static const struct {
        int64_t at;
        double value;
        const char *said;
    } bad[] = {{0, (double)NAN, "the value at 0 in the schedule is nan"},
               {7, (double)NAN, "the value at 7 in the schedule is nan"},
               {7, -(double)INFINITY, "the value at 7 in the schedule is -inf"}};
    for (int i = 0; i < TP_COUNT(bad); i++) {
        double field = 1;
        tp_cb_scheduled_hyper_param_setter_desc c;
        memset(&c, 0, sizeof c);
        c.schedule[0].at = bad[i].at, c.schedule[0].value = bad[i].value;
        c.param = tp_param_field("lr", &field, TP_F64);
        tp_callback *cb = tp_cb_scheduled_hyper_param_setter_(&c);
        CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, bad[i].said);
        tp_callback_free(cb);
    }
}

/* After a resume, the parameter is compared with the schedule only if the checkpoint has no value of the schedule, or another one. */
static tp_status cannot_be_read(tp_hyper_param *p, double *value)
{
    (void)p, (void)value;
    return tp_fail(TP_ERR_STATE, "this one cannot be read");
}
TEST(a_parameter_beside_its_schedule_after_a_resume)
{
    static const double dues[] = {4, 3.5, 4.5, -1}; /* -1: none */
    for (int i = 0; i <= TP_COUNT(dues); i++) {
        const bool fails = i == TP_COUNT(dues);
        double field = 2, due = fails ? -1 : dues[i];
        tp_cb_scheduled_hyper_param_setter_desc c;
        tp_train_state train = by_hand(NULL, NULL);
        tp_dict d;
        memset(&c, 0, sizeof c), memset(&d, 0, sizeof d);
        c.schedule[0].at = 2, c.schedule[0].value = 4;
        c.param = tp_param_field("lr", &field, TP_F64);
        if (fails) c.param->get_value = cannot_be_read;
        train.epoch_num = 5;
        if (due >= 0) CHECK_OK(tp_state_put_f64(&d, "p/", "due", &due, 1));
        tp_test_keep_log();
        tp_callback *cb = tp_cb_scheduled_hyper_param_setter_(&c);
        CHECK_OK(tp_callback_setup_graph(cb, &train));
        CHECK_OK(tp_callback_load_state(cb, &d, "p/"));
        cb->resumed = true;
        if (fails) CHECK_ERR(tp_callback_before_train(cb), TP_ERR_STATE, "this one cannot be read");
        else CHECK_OK(tp_callback_before_train(cb));
        CHECK_MSG((strstr(tp_test_logged, "According to its schedule") != NULL) == (i > 0 && !fails), "%g: %s", due,
                  tp_test_logged);
        CHECK_NEAR(field, i > 0 && !fails ? 4 : 2, 0, 0);
        tp_callback_free(cb);
        tp_dict_free(&d);
    }
    tp_set_log(NULL, NULL);
}

/* A setter by a statistic counts each value once: those of epochs without steps, which have the same step, and none again at a
 * trigger that has no new one. */
TEST(a_setter_by_a_statistic_counts_each_value_once)
{
    for (int way = 0; way < 8; way++) {
        const bool steps = way & 1, resumes = way & 2;
        const int last_k = 1 + way / 4;
        double field = 64, want = 64;
        int values = 0;
        tp_monitors *all = tp_monitors_new(NULL, 0);
        tp_train_state train = by_hand(NULL, all);
        all->cb.train = &train;
        tp_callback *cb = NULL;
        tp_dict d;
        memset(&d, 0, sizeof d);
        tp_test_keep_log();
        for (int e = 1; e <= 8; e++) {
            if (!cb || (resumes && e == 5)) { /* killed after epoch 4 and resumed */
                tp_cb_stat_monitor_param_setter_desc m;
                memset(&m, 0, sizeof m);
                m.param = tp_param_field("lr", &field, TP_F64), m.stat_name = "cost", m.fn = do_stat, m.last_k = last_k;
                if (cb) CHECK_OK(tp_callback_save_state(cb, &d, "p/"));
                tp_callback_free(cb);
                cb = tp_cb_stat_monitor_param_setter_(&m);
                CHECK_OK(tp_callback_setup_graph(cb, &train));
                cb->resumed = e > 1;
                CHECK_OK(tp_callback_load_state(cb, &d, "p/"));
                CHECK_OK(tp_callback_before_train(cb));
            }
            train.epoch_num = e;
            train.global_step += steps;
            const bool reports = e % 3 != 2; /* in epochs 1, 3, 4, 6, 7 */
            if (reports) CHECK_OK(tp_monitors_put_scalar(all, "cost", e));
            tp_test_logged[0] = 0;
            CHECK_OK(tp_callback_trigger_epoch(cb));
            if (reports && ++values % last_k == 0) want *= 0.5;
            CHECK_MSG(field == want, "way %d, epoch %d: %g, not %g", way, e, field, want);
            CHECK((strstr(tp_test_logged, "No new data for cost since") != NULL) == !reports);
        }
        tp_callback_free(cb);
        tp_callback_free(&all->cb);
        tp_dict_free(&d);
    }
    tp_set_log(NULL, NULL);
}

/* A statistic that was missing once and then has a value of the same step was reported too late, unless no step was made since. */
TEST(a_statistic_that_comes_one_trigger_late)
{
    for (int way = 0; way < 4; way++) {
        const bool steps = way & 1, late = way & 2;
        tp_monitors *all = tp_monitors_new(NULL, 0);
        tp_train_state train = by_hand(NULL, all);
        tp_cb_early_stopping_desc d;
        memset(&d, 0, sizeof d);
        d.monitor_stat = "cost";
        all->cb.train = &train;
        tp_callback *cb = tp_cb_early_stopping_(&d);
        tp_test_keep_log();
        CHECK_OK(tp_callback_setup_graph(cb, &train));
        for (int e = 1; e <= 2; e++) {
            train.epoch_num = e;
            train.global_step += steps;
            if (!late && e == 2) CHECK_OK(tp_monitors_put_scalar(all, "cost", e));
            CHECK_OK(tp_callback_trigger_epoch(cb));
            if (late && e == 1) CHECK_OK(tp_monitors_put_scalar(all, "cost", e));
        }
        CHECK_MSG((strstr(tp_test_logged, "before it is reported") != NULL) == (steps && late), "%d: %s", way,
                  tp_test_logged);
        tp_callback_free(cb);
        tp_callback_free(&all->cb);
    }
    tp_set_log(NULL, NULL);
}

/* Each sets what it should; saved after any epoch, and loaded into a new one, it goes on alike. */
TEST(setters_go_on_after_a_resume)
{
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    snprintf(hyper_path, sizeof hyper_path, "%s/hyper.txt", folder);
    CHECK_OK(tp_logger_set_dir(folder, 'k'));
    for (int kind = HUMAN; kind <= STAT; kind++)
        for (int way = 0; way < (kind == HUMAN ? 1 : kind == SCHEDULE ? 4 : 16) && kind != FUNC; way++)
            for (int cut = 0; cut < 10; cut += kind == STAT ? 5 : 1) {
                double field = 0.75, want = 0.75, state[16];
                int n_state = 0;
                tp_dict saved;
                memset(&saved, 0, sizeof saved);
                tp_test_keep_log();
                remove(hyper_path);
                tp_monitors *all = tp_monitors_new(NULL, 0);
                tp_train_state train = by_hand(NULL, all);
                train.steps_per_epoch = 3, train.local_step = 2;
                CHECK_OK(tp_callback_setup_graph(&all->cb, &train));
                tp_callback *cb = setter_of(kind, way, &field);
                CHECK_OK(tp_callback_setup_graph(cb, &train));
                CHECK_OK(tp_callback_before_train(cb));
                for (int epoch = 1; epoch <= 9; epoch++) {
                    if (epoch == cut + 1) { /* another process */
                        CHECK_OK(tp_callback_save_state(cb, &saved, "p/"));
                        tp_callback_free(cb);
                        field = -1;
                        cb = setter_of(kind, way, &field);
                        CHECK_OK(tp_callback_setup_graph(cb, &train));
                        CHECK_OK(tp_callback_load_state(cb, &saved, "p/"));
                        CHECK_MSG(field == want, "kind %d, way %d: %g, not %g", kind, way, field, want);
                        cb->resumed = true;
                        CHECK_OK(tp_callback_before_train(cb));
                        CHECK_MSG(field == want, "kind %d, way %d: %g, not %g", kind, way, field, want);
                    }
                    train.epoch_num = epoch;
                    if (epoch == 2) CHECK(tp_test_write(hyper_path, "lr: 2\n", 6));
                    if (epoch == 5) CHECK(tp_test_write(hyper_path, "other: 7\n lr:3 \n", 16));
                    for (int step = 0; step < 3; step++) {
                        train.global_step = 3 * (epoch - 1) + step + 1;
                        CHECK_OK(tp_callback_trigger_step(cb));
                    }
                    CHECK_OK(tp_monitors_put_scalar(all, "cost", stat_of(epoch)));
                    CHECK_OK(tp_callback_trigger_epoch(cb));
                    want = after_epoch(kind, way, epoch, want, state, &n_state);
                    if (!CHECK_MSG(fabs(field - want) < 1e-12, "kind %d, way %d, cut %d, epoch %d: %g, not %g", kind,
                                   way, cut, epoch, field, want))
                        break;
                }
                tp_dict_free(&saved);
                tp_callback_free(cb);
                tp_callback_free(&all->cb);
            }
    tp_set_log(NULL, NULL);
}

/* ==== >>progress ====================================================================================== */

static double last_told(const char *name)
{
    const char *p = told, *at = NULL;
    char key[100];
    snprintf(key, sizeof key, "%s=", name);
    while ((p = strstr(p, key)) != NULL) at = p += strlen(key);
    return at ? tp_parse_double(at, NULL) : -1;
}

/* Steps and samples a second, of the time between before_epoch and after_epoch, or up to a trigger within an epoch. */
TEST(throughput_by_hand)
{
    for (int samples = 0; samples < 9; samples += 8) {
        tp_cb_throughput_tracker_desc d;
        tp_monitor *m = teller();
        tp_monitors *all = tp_monitors_new(&m, 1);
        tp_train_state train = by_hand(NULL, all);
        const char *name = samples ? "Throughput (samples/sec)" : "Throughput (steps/sec)";
        memset(&d, 0, sizeof d);
        d.samples_per_step = samples;
        CHECK_OK(tp_callback_setup_graph(&all->cb, &train));
        tp_callback *cb = tp_cb_throughput_tracker_(&d);
        CHECK_OK(tp_callback_setup_graph(cb, &train));
        train.global_step = 100;
        CHECK_OK(tp_callback_before_train(cb));
        CHECK_OK(tp_callback_trigger(cb)); /* no step has been timed yet */
        CHECK_STR(told, "");
        for (int epoch = 0; epoch < 3; epoch++) {
            const int steps = 5 * (epoch + 1);
            const double a = tp_time();
            CHECK_OK(tp_callback_before_epoch(cb));
            const double b = tp_time();
            tp_test_sleep(0.004);
            train.global_step += steps;
            const double c = tp_time();
            if (epoch == 1) CHECK_OK(tp_callback_trigger(cb)); /* within the epoch: the clock goes on */
            else CHECK_OK(tp_callback_after_epoch(cb));
            const double e = tp_time();
            if (epoch != 1) tp_test_sleep(0.003), CHECK_OK(tp_callback_trigger(cb));
            const double seconds = steps * (samples ? samples : 1) / last_told(name);
            CHECK_MSG(seconds >= (c - b) * (1 - 1e-5) && seconds <= (e - a) * (1 + 1e-5), "%d: %g is not in [%g,%g]",
                      epoch, seconds, c - b, e - a);
            if (epoch == 1) {
                const double f = tp_time();
                tp_test_sleep(0.003);
                train.global_step += 4;
                const double g = tp_time();
                CHECK_OK(tp_callback_after_epoch(cb));
                const double h = tp_time();
                CHECK_OK(tp_callback_trigger(cb));
                const double more = 4 * (samples ? samples : 1) / last_told(name);
                CHECK_MSG(more >= (g - f) * (1 - 1e-5) && more <= (h - c) * (1 + 1e-5), "%g is not in [%g,%g]", more,
                          g - f, h - c);
            }
        }
        tp_callback_free(cb);
        tp_callback_free(&all->cb);
        tp_monitor_free(m);
    }
}

static double middle_or_mean(const double *v, int n, bool median)
{
    double sorted[8], sum = 0;
    for (int i = 0; i < n; i++) {
        int j = i;
        for (; j > 0 && sorted[j - 1] > v[i]; j--) sorted[j] = sorted[j - 1];
        sorted[j] = v[i];
        sum += v[i] / n;
    }
    return !median ? sum : n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* What is left is the mean or the median of the last epochs, times the epochs that are left. */
TEST(estimates_of_the_time_left)
{
    static const double naps[] = {0.008, 0.001, 0.005, 0.0005, 0.003, 0.001};
    for (int way = 0; way < 6; way++) {
        const int k = 1 + way / 2;
        const bool median = way % 2;
        tp_cb_estimated_time_left_desc d;
        tp_train_state train = by_hand(NULL, NULL);
        double low[8], high[8], begun, ended;
        memset(&d, 0, sizeof d);
        d.last_k_epochs = k == 3 ? 0 : k; /* 5 */
        d.median = median ? (way > 2 ? TP_YES : 0) : TP_NO;
        tp_callback *cb = tp_cb_estimated_time_left_(&d);
        const int window = k == 3 ? 5 : k;
        train.max_epoch = 6;
        tp_test_keep_log();
        CHECK_OK(tp_callback_setup_graph(cb, &train));
        begun = tp_time();
        CHECK_OK(tp_callback_before_train(cb));
        ended = tp_time();
        for (int i = 0; i < 6; i++) {
            tp_test_sleep(naps[i]);
            const double now = tp_time();
            tp_test_logged[0] = 0;
            train.epoch_num = i + 1;
            CHECK_OK(tp_callback_trigger_epoch(cb));
            const double then = tp_time();
            low[i] = now - ended, high[i] = then - begun;
            begun = now, ended = then;
            const int n = i + 1 < window ? i + 1 : window, left = 6 - (i + 1);
            const char *text = strstr(tp_test_logged, "Estimated Time Left: ");
            CHECK((text != NULL) == (left > 0));
            if (!text) continue;
            const double said = tp_parse_double(text + 21, NULL);
            const double least = left * middle_or_mean(low + i + 1 - n, n, median),
                         most = left * middle_or_mean(high + i + 1 - n, n, median);
            CHECK_MSG(said >= least * 0.994 && said <= most * 1.006, "way %d, epoch %d: %g is not in [%g,%g]", way,
                      i + 1, said, least, most);
            CHECK_HAS(text, " second");
        }
        tp_callback_free(cb);
    }
    tp_set_log(NULL, NULL);
}

/* The time of an epoch that is resumed after some of its steps is not that of an epoch. */
TEST(estimates_leave_out_the_rest_of_an_epoch)
{
    for (int k = 1; k <= 2; k++) {
        tp_cb_estimated_time_left_desc d;
        tp_train_state train = by_hand(NULL, NULL);
        memset(&d, 0, sizeof d);
        d.last_k_epochs = k, d.median = TP_NO;
        tp_callback *cb = tp_cb_estimated_time_left_(&d);
        train.max_epoch = 9;
        tp_test_keep_log();
        CHECK_OK(tp_callback_setup_graph(cb, &train));
        CHECK_OK(tp_callback_before_train(cb));
        for (int i = 0; i < 3; i++) {
            train.epoch_num = 5 + i;
            train.done_ = i ? 0 : 7;
            CHECK_OK(tp_callback_before_epoch(cb));
            train.done_ = 10;
            const double begun = tp_time();
            tp_test_sleep(i ? 0.02 : 0.0005);
            tp_test_logged[0] = 0;
            CHECK_OK(tp_callback_trigger_epoch(cb));
            const double seconds = tp_time() - begun;
            const char *text = strstr(tp_test_logged, "Estimated Time Left: ");
            CHECK_MSG((text != NULL) == (i > 0), "%s", tp_test_logged);
            if (!text) continue;
            const double said = tp_parse_double(text + 21, NULL), left = 9 - 5 - i;
            CHECK_MSG(said >= left * 0.0199 && said <= left * (seconds + 0.05), "%g s for %g epochs", said, left);
        }
        tp_callback_free(cb);
    }
    tp_set_log(NULL, NULL);
}

/* Files of every step, with what was asked for under its names. */
static tp_status make_values(tp_callback *cb)
{
    tp_graph *g = cb->train->graph;
    tp_named(tp_cast(tp_get_global_step_var(g), TP_F32), "step");
    tp_named(tp_const(g, 2.5f), "half");
    return TP_OK;
}
TEST(tensors_of_every_step_are_dumped)
{
    tp_cb_dump_tensors_desc d;
    tp_cb_lambda_desc l;
    tp_callback *cb[2];
    char path[400];
    memset(&d, 0, sizeof d), memset(&l, 0, sizeof l);
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    tp_test_keep_log();
    CHECK_OK(tp_logger_set_dir(folder, 'k'));
    l.setup_graph = make_values, l.name = "Mine";
    d.names[0] = "Mine/half", d.names[1] = "Mine/step:0";
    cb[0] = tp_cb_lambda_(&l), cb[1] = tp_cb_dump_tensors_(&d);
    CHECK_OK(train_with(cb, 2, NULL, 2, 2, NULL));
    for (int step = 0; step < 6; step++) {
        tp_dict all;
        memset(&all, 0, sizeof all);
        snprintf(path, sizeof path, "%s/DumpTensor-%d.npz", folder, step);
        CHECK_MSG(tp_file_exists(path) == (step >= 1 && step <= 4), "%d", step);
        if (!tp_file_exists(path) || !CHECK_OK(tp_npz_load(path, &all))) continue;
        const tp_tensor *half = tp_dict_find(&all, "Mine/half"), *at = tp_dict_find(&all, "Mine/step:0");
        CHECK(all.n == 2 && half && tp_tensor_get(half, 0) == 2.5 && half->shape.ndim == 0);
        CHECK(at && (tp_tensor_get(at, 0) == step - 1 || tp_tensor_get(at, 0) == step)); /* read beside the increment */
        tp_dict_free(&all);
    }
    tp_set_log(NULL, NULL);
}

/* A saver of collections saves their variables, each once, and nothing else of the model. */
static tp_status make_variables(tp_callback *cb)
{
    tp_graph *g = cb->train->graph;
    tp_node *a = tp_get_scalar_variable(g, "a", 1), *b = tp_get_scalar_variable(g, "b", 2),
            *c = tp_get_scalar_variable(g, "c", 3);
    tp_collection_add(g, "first", a), tp_collection_add(g, "first", b), tp_collection_add(g, "second", b);
    (void)c;
    return TP_OK;
}
TEST(savers_of_collections)
{
    tp_cb_model_saver_desc d;
    tp_cb_lambda_desc l;
    tp_callback *cb[2];
    for (int way = 0; way < 4; way++) {
        tp_dict all;
        char path[400];
        memset(&d, 0, sizeof d), memset(&l, 0, sizeof l), memset(&all, 0, sizeof all);
        snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
        tp_test_keep_log();
        l.setup_graph = make_variables, l.name = "Mine";
        d.checkpoint_dir = folder;
        if (way == 1) d.var_collections[0] = "second";
        if (way == 2) d.var_collections[0] = "second", d.var_collections[1] = "first";
        if (way == 3) d.var_collections[0] = "nothing";
        cb[0] = tp_cb_lambda_(&l), cb[1] = tp_cb_model_saver_(&d);
        if (way == 3) { /* a name that is no collection's would give checkpoints without variables */
            TEST_EXPECT_ERROR("there is no variable in 'nothing'");
            CHECK_ERR(train_with(cb, 2, NULL, 2, 1, NULL), TP_ERR_NAME, "no variable in 'nothing'");
            continue;
        }
        CHECK_OK(train_with(cb, 2, NULL, 2, 1, NULL));
        snprintf(path, sizeof path, "%s/model-2.npz", folder);
        if (!CHECK_OK(tp_npz_load(path, &all))) continue;
        CHECK((tp_dict_find(&all, "a") != NULL) == (way == 0 || way == 2));
        CHECK((tp_dict_find(&all, "b") != NULL) == (way < 3));
        CHECK((tp_dict_find(&all, "c") != NULL) == (way == 0));
        CHECK(tp_dict_find(&all, "global_step") != NULL);
        CHECK(tp_dict_find(&all, "tp:epoch") != NULL);
        tp_dict_free(&all);
    }
    tp_set_log(NULL, NULL);
}

/* A collection may have many more variables than the saver's first block of memory has room for. */
static tp_status make_many_variables(tp_callback *cb)
{
    for (int i = 0; i < 1500; i++) {
        char name[16];
        snprintf(name, sizeof name, "many%d", i);
        tp_collection_add(cb->train->graph, "many", tp_get_scalar_variable(cb->train->graph, name, (float)i));
    }
    return TP_OK;
}
TEST(a_saver_of_a_collection_of_many)
{
    tp_cb_model_saver_desc d;
    tp_cb_lambda_desc l;
    tp_callback *cb[2];
    tp_dict all;
    char path[400];
    memset(&d, 0, sizeof d), memset(&l, 0, sizeof l), memset(&all, 0, sizeof all);
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    tp_test_keep_log();
    l.setup_graph = make_many_variables, l.name = "Mine";
    d.checkpoint_dir = folder, d.var_collections[0] = "many";
    cb[0] = tp_cb_lambda_(&l), cb[1] = tp_cb_model_saver_(&d);
    CHECK_OK(train_with(cb, 2, NULL, 2, 1, NULL));
    snprintf(path, sizeof path, "%s/model-2.npz", folder);
    CHECK_OK(tp_npz_load(path, &all));
    for (int i = 0; i < 1500; i++) {
        char name[16];
        snprintf(name, sizeof name, "many%d", i);
        const tp_tensor *t = tp_dict_find(&all, name);
        if (!CHECK_MSG(t && tp_tensor_get(t, 0) == i, "%s", name)) break;
    }
    tp_dict_free(&all);
    tp_set_log(NULL, NULL);
}

/* ==== >>parameters and inferencers by hand ============================================================ */

/* A field of each type; a variable, before and after there is a session. */
TEST(parameters_are_read_and_set)
{
    static const tp_dtype good[] = {TP_F64, TP_F32, TP_I32, TP_I64};
    for (int i = 0; i < 6; i++) {
        int64_t room[2] = {0, 0};
        const tp_dtype dtype = i < 4 ? good[i] : i == 4 ? TP_U8 : TP_BOOL;
        tp_hyper_param *p = tp_param_field("mine", room, dtype);
        double v = -1;
        if (i < 4) {
            CHECK_OK(p->setup_graph(p));
            CHECK(p->get_value(p, &v) == TP_OK && v == 0);
            CHECK(p->set_value(p, -7) == TP_OK && p->get_value(p, &v) == TP_OK && v == -7);
            tp_tensor of;
            tp_tensor_view(&of, dtype, tp_make_shape_n(0, NULL), room);
            CHECK(tp_tensor_get(&of, 0) == -7);
        } else
            CHECK_ERR(p->setup_graph(p), TP_ERR_ARG,
                      "the parameter 'mine' needs the address of a double, float, int32_t or int64_t");
        tp_hyper_param_free(p);
    }
    tp_graph *g = tp_graph_new(NULL);
    tp_get_scalar_variable(g, "rate", 0.5f);
    tp_get_variable_as(g, "steps", TP_I64, tp_make_shape_n(0, NULL), tp_init_ones());
    tp_get_variable_as(g, "vector", TP_F32, tp_make_shape(3), tp_init_ones());
    static const char *const name[] = {"rate:0", "steps", "vector", "rat"};
    for (int i = 0; i < 4; i++) {
        tp_train_state train = by_hand(g, NULL);
        tp_hyper_param *p = tp_param_graph_var(name[i]);
        double v = -1;
        p->train = &train;
        CHECK_STR(p->name, i ? name[i] : "rate");
        CHECK_ERR(p->get_value(p, &v), TP_ERR_STATE, "has no value before training");
        CHECK_ERR(p->set_value(p, 1), TP_ERR_STATE, "cannot be set before training");
        if (i == 2) CHECK_ERR(p->setup_graph(p), TP_ERR_SHAPE, "the parameter 'vector' is not a scalar");
        if (i == 3)
            CHECK_ERR(p->setup_graph(p), TP_ERR_NAME, "rat:0 is not a variable in the graph; did you mean 'rate'?");
        if (i < 2) {
            CHECK_OK(p->setup_graph(p));
            CHECK_ERR(p->get_value(p, &v), TP_ERR_STATE, "has no value before training");
            CHECK_ERR(p->set_value(p, 1), TP_ERR_STATE, "cannot be set before training");
            train.session = tp_session_new(g, NULL);
            CHECK(p->get_value(p, &v) == TP_OK && v == (i ? 1 : 0.5));
            CHECK_OK(p->set_value(p, -3));
            CHECK(p->get_value(p, &v) == TP_OK && v == -3);
            CHECK_ERR(p->set_value(p, (double)NAN), TP_ERR_NUMERIC, "cannot be set to NaN");
            if (i)
                CHECK_ERR(p->set_value(p, 2.5), TP_ERR_DTYPE,
                          "the parameter 'steps' is int64: it cannot be set to 2.5");
            else CHECK_OK(p->set_value(p, 2.5));
            CHECK(p->get_value(p, &v) == TP_OK && v == (i ? -3 : 2.5));
        }
        tp_hyper_param_free(p);
        tp_session_free(train.session);
    }
    tp_graph_free(g);
}

/* A whole number is set as it is or refused. */
TEST(integers_that_a_parameter_has_no_room_for)
{
    static const struct {
        tp_dtype dtype;
        double least, most;
    } of[] = {{TP_I32, -2147483648.0, 2147483647},
              {TP_U8, 0, 255},
              {TP_BOOL, 0, 1},
              {TP_I64, -9007199254740992.0, 9007199254740992.0}};
    tp_graph *g = tp_graph_new(NULL);
    for (int i = 0; i < TP_COUNT(of); i++) {
        char name[2] = {(char)('a' + i), 0};
        tp_get_variable_as(g, name, of[i].dtype, tp_make_shape_n(0, NULL), tp_init_zeros());
    }
    tp_session *session = tp_session_new(g, NULL);
    for (int i = 0; i < 2 * TP_COUNT(of); i++) {
        const int k = i / 2;
        int64_t room = 0;
        char name[2] = {(char)('a' + k), 0};
        if (i % 2 && of[k].dtype != TP_I32 && of[k].dtype != TP_I64) continue;
        const double beyond = of[k].dtype == TP_I64 ? 2 : 1; /* the next double */
        const double wrong[] = {of[k].most + beyond, of[k].least - beyond, 0.5,
                                1e10 * of[k].most,   (double)INFINITY,     -(double)INFINITY};
        tp_train_state train = by_hand(g, NULL);
        tp_hyper_param *p = i % 2 ? tp_param_field(name, &room, of[k].dtype) : tp_param_graph_var(name);
        double v = -1;
        train.session = session;
        p->train = &train;
        CHECK_OK(p->setup_graph(p));
        CHECK_OK(p->set_value(p, of[k].least));
        CHECK(p->get_value(p, &v) == TP_OK && v == of[k].least);
        CHECK_OK(p->set_value(p, of[k].most));
        for (int w = 0; w < TP_COUNT(wrong); w++)
            CHECK_ERR(p->set_value(p, wrong[w]), TP_ERR_DTYPE, "it cannot be set to");
        CHECK(p->get_value(p, &v) == TP_OK && v == of[k].most);
        tp_hyper_param_free(p);
    }
    tp_session_free(session);
    tp_graph_free(g);
}

/* An int64 of the program is in a checkpoint with all its bits; a checkpoint of before, which has a double, is read. */
TEST(a_parameter_of_64_bits_is_saved_exactly)
{
    static const int64_t values[] = {0, -7, 9007199254740993, -9007199254740993, INT64_MAX, INT64_MIN};
    for (int i = 0; i < TP_COUNT(values); i++) {
        int64_t field = values[i], stored = 0;
        const double old = 12;
        tp_train_state train = by_hand(NULL, NULL);
        tp_cb_hyper_param_setter_desc s;
        tp_dict d, before;
        memset(&s, 0, sizeof s), memset(&d, 0, sizeof d), memset(&before, 0, sizeof before);
        s.param = tp_param_field("mine", &field, TP_I64), s.fn = do_param, s.user = folder;
        tp_callback *cb = tp_cb_hyper_param_setter_(&s);
        CHECK_OK(tp_callback_setup_graph(cb, &train));
        CHECK_OK(tp_callback_save_state(cb, &d, "p/"));
        CHECK(tp_state_get_i64(&d, "p/", "value", &stored, 1) && stored == values[i]);
        field = 1;
        CHECK_OK(tp_callback_load_state(cb, &d, "p/"));
        CHECK_MSG(field == values[i], "%lld, not %lld", (long long)field, (long long)values[i]);
        CHECK_OK(tp_state_put_f64(&before, "p/", "value", &old, 1));
        CHECK_OK(tp_callback_load_state(cb, &before, "p/"));
        CHECK(field == 12);
        tp_callback_free(cb);
        double real = 1; /* the program's field has become a double since */
        s.param = tp_param_field("mine", &real, TP_F64);
        cb = tp_cb_hyper_param_setter_(&s);
        CHECK_OK(tp_callback_setup_graph(cb, &train));
        CHECK_OK(tp_callback_load_state(cb, &d, "p/"));
        CHECK_MSG(real == (double)values[i], "%g, not %lld", real, (long long)values[i]);
        tp_callback_free(cb);
        tp_dict_free(&d), tp_dict_free(&before);
    }
}

/* A hyper-parameter that is a variable of the graph, a scalar or an array, cannot be read or set before its variable is found, its training
 * runs and there is a session. */
TEST(variables_before_training)
{
    static const float three[] = {4, 5, 6};
    tp_graph *g = tp_graph_new(NULL);
    tp_get_scalar_variable(g, "rate", 0.5f);
    tp_get_variable_as(g, "vector", TP_F32, tp_make_shape(3), tp_init_ones());
    tp_session *session = tp_session_new(g, NULL);
    tp_tensor of, got;
    memset(&of, 0, sizeof of), memset(&got, 0, sizeof got);
    tp_tensor_view(&of, TP_F32, tp_make_shape(3), three);
    for (int i = 0; i < 16; i++) {
        const bool array = i & 8, ready = (i & 7) == 7;
        tp_train_state train = by_hand(g, NULL);
        tp_hyper_param *p = array ? tp_param_graph_var_array("vector", tp_make_shape(3)) : tp_param_graph_var("rate");
        double v = -1;
        p->train = &train;
        if (i & 1) CHECK_OK(p->setup_graph(p));
        if (i & 2) train.session = session;
        if (!(i & 4)) p->train = NULL;
        tp_status st = array ? p->set_array(p, &of) : p->set_value(p, 3);
        if (ready) CHECK_OK(st);
        else CHECK_ERR(st, TP_ERR_STATE, "cannot be set before training");
        st = array ? p->get_array(p, &got) : p->get_value(p, &v);
        if (!ready) CHECK_ERR(st, TP_ERR_STATE, "has no value before training");
        else if (CHECK_OK(st)) CHECK(array ? tp_tensor_get(&got, 2) == 6 : v == 3);
        tp_hyper_param_free(p);
    }
    tp_tensor_free(&got);
    tp_session_free(session);
    tp_graph_free(g);
}

/* Means of scalars, sums over counts, precision and recall, over batches of any size, twice. */
TEST(inferencers_by_hand)
{
    static const double pred[] = {1, 0, 1, 1, 0, 0.4, 0.3, 1, 0, 1}, label[] = {1, 1, 0, 1, 0, 1, 1, 0, 0, 1};
    for (int prefix = 0; prefix < 3; prefix++) {
        tp_inf_scalar_stats_desc a;
        tp_inf_classification_error_desc e;
        tp_inf_binary_classification_desc b;
        tp_monitor *m = teller();
        tp_monitors *all = tp_monitors_new(&m, 1);
        tp_train_state train = by_hand(NULL, all);
        memset(&a, 0, sizeof a), memset(&e, 0, sizeof e), memset(&b, 0, sizeof b);
        CHECK_OK(tp_callback_setup_graph(&all->cb, &train));
        a.prefix = b.prefix = prefix == 0 ? NULL : prefix == 1 ? "" : "mine";
        a.names[0] = "tower/cost:0", a.names[1] = "error";
        e.summary_name = prefix == 2 ? "mine_error" : NULL;
        b.pred_tensor_name = "p", b.label_tensor_name = "l";
        tp_inferencer *inf[3] = {tp_inf_scalar_stats_(&a), tp_inf_classification_error_(&e),
                                 tp_inf_binary_classification_(&b)};
        char want[1000] = "";
        CHECK(inf[0]->n_names == 2 && strcmp(inf[0]->names[0], "tower/cost:0") == 0);
        CHECK(inf[1]->n_names == 1 && strcmp(inf[1]->names[0], "incorrect_vector") == 0);
        CHECK(inf[2]->n_names == 2 && strcmp(inf[2]->names[1], "l") == 0);
        for (int pass = 0; pass < 3; pass++) {
            double sum[2] = {0, 0}, wrong = 0, p = 0, l = 0, both = 0;
            int n = 0, batches = 0;
            train.global_step = pass;
            for (int i = 0; i < 3; i++) inf[i]->train = &train;
            for (int i = 0; i < 3; i++) CHECK_OK(inf[i]->before_inference(inf[i]));
            for (int at = 0, size = 1; pass < 2 && at + size <= 10; at += size, size += 1 + pass) {
                tp_tensor t[4];
                const tp_tensor *value[2] = {&t[0], &t[1]}, *pl[2] = {&t[2], &t[3]}, *w[1] = {&t[2]};
                const double scalar[2] = {at * 1.5, -at - pass};
                memset(t, 0, sizeof t);
                for (int i = 0; i < 2; i++) tp_tensor_view(&t[i], TP_F64, tp_make_shape_n(0, NULL), &scalar[i]);
                tp_tensor_view(&t[2], TP_F64, tp_make_shape(size), pred + at);
                tp_tensor_view(&t[3], TP_F64, tp_make_shape(size), label + at);
                CHECK_OK(inf[0]->on_fetches(inf[0], value, 2));
                CHECK_OK(inf[1]->on_fetches(inf[1], w, 1));
                CHECK_ERR(inf[1]->on_fetches(inf[1], value, 1), TP_ERR_SHAPE,
                          "'incorrect_vector' has shape () and is not a vector");
                CHECK_OK(inf[2]->on_fetches(inf[2], pl, 2));
                sum[0] += scalar[0], sum[1] += scalar[1], batches++;
                for (int i = at; i < at + size; i++) {
                    const bool is_p = pred[i] == 1, is_l = label[i] == 1;
                    wrong += pred[i], n++;
                    p += is_p, l += is_l, both += is_p && is_l;
                }
            }
            for (int i = 0; i < 3; i++) CHECK_OK(inf[i]->after_inference(inf[i]));
            const char *const x = prefix == 0   ? "validation_"
                                  : prefix == 1 ? ""
                                                : "mine_",
                              *const y = prefix == 0   ? "val_"
                                         : prefix == 1 ? "_"
                                                       : "mine_";
            size_t at = strlen(want);
            if (batches)
                at += (size_t)snprintf(want + at, sizeof want - at, "%s%stower/cost=%g@%d %serror=%g@%d %s=%g@%d ", "",
                                       x, sum[0] / batches, pass, x, sum[1] / batches, pass,
                                       prefix == 2 ? "mine_error" : "validation_error", wrong / n, pass);
            else at += (size_t)snprintf(want + at, sizeof want - at, "?");
            if (batches)
                snprintf(want + at, sizeof want - at, "%sprecision=%g@%d %srecall=%g@%d ", y, both / p, pass, y,
                         both / l, pass);
        }
        char *nothing = strchr(want, '?'); /* of no data: precision and recall are 0, the others are not told */
        CHECK(nothing && strncmp(told, want, (size_t)(nothing - want)) == 0);
        CHECK(!strstr(told + (nothing ? nothing - want : 0), "cost") &&
              strstr(told + (nothing ? nothing - want : 0), "recall=0@2"));
        if (nothing) *nothing = 0;
        if (strncmp(told, want, strlen(want)) != 0) CHECK_STR(told, want);
        tp_tensor two, one;
        const double v[2] = {0, 1};
        memset(&two, 0, sizeof two), memset(&one, 0, sizeof one);
        tp_tensor_view(&two, TP_F64, tp_make_shape(2), v), tp_tensor_view(&one, TP_F64, tp_make_shape(1), v);
        const tp_tensor *odd[2] = {&one, &two};
        CHECK_ERR(inf[0]->on_fetches(inf[0], odd, 2), TP_ERR_SHAPE,
                  "ScalarStats: 'error' has shape (2), only scalars have a mean here");
        CHECK_ERR(inf[2]->on_fetches(inf[2], odd, 2), TP_ERR_SHAPE,
                  "BinaryClassificationStats: 'p' has shape (1), 'l' has (2)");
        for (int i = 0; i < 3; i++) tp_inferencer_free(inf[i]);
        tp_callback_free(&all->cb);
        tp_monitor_free(m);
    }
}

/* ==== >>states of all ================================================================================= */

static tp_status keep_seven(tp_callback *cb, tp_dict *d, const char *prefix)
{
    const int64_t v[2] = {7, (int64_t)(uintptr_t)cb->user ? 1 : 0};
    return tp_state_put_i64(d, prefix, "seven", v, 2);
}
static int n_loaded;
static tp_status take_seven(tp_callback *cb, const tp_dict *d, const char *prefix)
{
    int64_t v[2] = {0, 0};
    (void)cb;
    CHECK(tp_state_get_i64(d, prefix, "seven", v, 2) && v[0] == 7);
    CHECK(!tp_state_get_i64(d, prefix, "seven", v, 1) && !tp_state_get_i64(d, prefix, "eight", v, 2));
    CHECK(!tp_state_get_f64(d, prefix, "seven", (double *)(void *)v, 2));
    n_loaded++;
    return TP_OK;
}
static tp_callback *keeper(const char *name, const char *id)
{
    tp_callback *cb = tp_callback_new(name, 8);
    cb->id = id;
    cb->save_state = keep_seven;
    cb->load_state = take_seven;
    return cb;
}
/* The callbacks of one program; other: of another one, which lacks some and has others. */
static int some_callbacks(tp_callback **cb, bool other)
{
    tp_callback *two[2];
    tp_cb_periodic_trigger_desc p;
    int n = 0;
    memset(&p, 0, sizeof p);
    cb[n++] = keeper("A", NULL);
    cb[n++] = keeper("A", other ? "changed" : "id");
    two[0] = keeper("A", NULL), two[1] = keeper("B", NULL);
    cb[n++] = tp_cb_group(two, 2);
    p.cb = keeper("C", "in"), p.every_k_epochs = 1;
    cb[n++] = tp_cb_periodic_trigger_(&p);
    if (other) cb[n++] = keeper("New", NULL);
    else cb[n++] = keeper("Old", NULL);
    cb[n++] = lambda();
    return n;
}

TEST(states_have_names_and_find_their_callbacks)
{
    static const char *const name[] = {"tp:callback/A/seven", "tp:callback/A(id)/seven", "tp:callback/A:2/seven",
                                       "tp:callback/B/seven", "tp:callback/C(in)/seven", "tp:callback/Old/seven"};
    tp_graph *g = tp_graph_new(NULL);
    tp_get_scalar_variable(g, "w", 1);
    tp_session *s = tp_session_new(g, NULL);
    for (int way = 0; way < 12; way++) { /* an epoch just done, within one, before the first one; another program */
        const int when = way % 4;
        const bool other = way >= 4, old = way >= 8;
        tp_callback *cb[8];
        tp_train_state train = by_hand(g, NULL);
        tp_dict *d = tp_session_state(s);
        CHECK(d != NULL);
        tp_dict_free(d);
        train.session = s, train.callbacks = cb, train.n_callbacks = some_callbacks(cb, false);
        train.epoch_num = when == 3 ? 0 : 5,
        train.local_step = when == 0   ? 3
                           : when == 3 ? -1
                                       : 1,
        train.done_ = when == 1 ? 2 : 0;
        train.within_ = when == 1 || when == 2;
        CHECK_OK(tp_train_state_save(&train));
        CHECK_OK(tp_train_state_save(&train)); /* what an earlier one left is not there twice */
        int n_states = 0;
        for (int i = 0; i < d->n; i++) n_states += strncmp(d->item[i].name, "tp:callback/", 12) == 0;
        CHECK_MSG(n_states == 6, "%d states", n_states);
        for (int i = 0; i < 6; i++) CHECK_MSG(tp_dict_find(d, name[i]) != NULL, "%s is missing", name[i]);
        int64_t epoch[2] = {-1, -1}, step = -9;
        CHECK(tp_state_get_i64(d, "tp:", "epoch", epoch, 2) && tp_state_get_i64(d, "tp:", "local_step", &step, 1));
        /* epochs that are over; whether no step of a later one was taken; the last step that was */
        CHECK_MSG(epoch[0] == (when == 0 ? 5 : when == 3 ? 0 : 4), "%d: %d", when, (int)epoch[0]);
        CHECK_MSG(epoch[1] == (when != 1), "%d: %d", when, (int)epoch[1]);
        CHECK_MSG(step == (when == 0 ? 3 : when == 1 ? 1 : -1), "%d: %d", when, (int)step);
        for (int i = 0; i < train.n_callbacks; i++) tp_callback_free(cb[i]);

        train.n_callbacks = some_callbacks(cb, other);
        if (old) { /* an older version wrote no list */
            for (int i = 0; i < d->n; i++)
                if (strcmp(d->item[i].name, "tp:callbacks") == 0) d->item[i].name[3] = 'x';
        }
        tp_test_keep_log();
        n_loaded = 0;
        CHECK_OK(tp_train_state_load(&train));
        CHECK(train.resumed);
        CHECK_MSG(n_loaded == (old ? 0 : other ? 4 : 6), "%d were loaded", n_loaded);
        if (other) {
            char want[400];
            snprintf(want, sizeof want, "No callback takes this state of the checkpoint%s: A(id)/seven, Old/seven\n",
                     old ? " (which an older version wrote)" : "");
            CHECK_HAS(tp_test_logged, want);
            CHECK_HAS(tp_test_logged, "A(changed) finds no state of its own in the checkpoint: it begins anew.");
            CHECK_HAS(tp_test_logged, "New finds no state of its own in the checkpoint: it begins anew.");
            CHECK((strstr(tp_test_logged, "\nB finds no state") != NULL) == old);
        } else CHECK_STR(tp_test_logged, "");
        for (int i = 0; i < train.n_callbacks; i++) tp_callback_free(cb[i]);
    }
    tp_session_free(s);
    tp_graph_free(g);
    tp_set_log(NULL, NULL);
}

static tp_status keep_nothing(tp_callback *cb, tp_dict *d, const char *prefix)
{
    (void)cb, (void)d, (void)prefix;
    return tp_fail(TP_ERR_IO, "nothing can be kept");
}
TEST(a_state_without_a_session_and_monitors_that_are_missing_are_told)
{
    tp_train_state train;
    tp_monitor *m[2] = {tp_monitor_new("A", 0), NULL};
    memset(&train, 0, sizeof train);
    CHECK_ERR(tp_train_state_save(&train), TP_ERR_ARG, "session must not be NULL");
    CHECK_ERR(tp_train_state_load(&train), TP_ERR_ARG, "session must not be NULL");
    CHECK(tp_monitors_new(m, 2) == NULL);
    CHECK_HAS(tp_last_error(), "tp_monitors_new: monitor 1 is NULL");
    tp_monitor_free(m[0]);
}

TEST(a_state_that_cannot_be_saved_is_no_success)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_get_scalar_variable(g, "w", 1);
    tp_session *s = tp_session_new(g, NULL);
    tp_callback *cb = keeper("A", NULL);
    tp_train_state train = by_hand(g, NULL);
    cb->save_state = keep_nothing;
    train.session = s, train.callbacks = &cb, train.n_callbacks = 1;
    CHECK_ERR(tp_train_state_save(&train), TP_ERR_IO, "nothing can be kept");
    tp_callback_free(cb);
    tp_session_free(s);
    tp_graph_free(g);
}

/* The file's value counts once: what set the parameter after it is not undone by a resume, but by a change of the file. */
TEST(a_resume_does_not_read_an_old_file_again)
{
    const char *dir = tp_test_tmpdir();
    tp_test_keep_log();
    if (!CHECK_OK(tp_logger_set_dir(dir, 'k'))) return;
    for (int way = 0; way < 3; way++) { /* the file is as it was, or changed, or the training begins */
        double field = 1;
        tp_dict saved;
        tp_cb_human_hyper_param_setter_desc h;
        memset(&saved, 0, sizeof saved), memset(&h, 0, sizeof h);
        tp_train_state train = by_hand(NULL, NULL);
        CHECK(tp_test_write(tp_test_path(dir, "hyper.txt"), "lr:0.5", 6));
        h.param = tp_param_field("lr", &field, TP_F64);
        tp_callback *cb = tp_cb_human_hyper_param_setter_(&h);
        CHECK_OK(tp_callback_setup_graph(cb, &train));
        CHECK_OK(tp_callback_before_train(cb));
        CHECK(field == 0.5);
        field = 0.125; /* another setter's */
        CHECK_OK(tp_callback_save_state(cb, &saved, "p/"));
        tp_callback_free(cb);
        field = 1;
        if (way == 1) CHECK(tp_test_write(tp_test_path(dir, "hyper.txt"), "lr:0.75", 7));
        h.param = tp_param_field("lr", &field, TP_F64);
        cb = tp_cb_human_hyper_param_setter_(&h);
        CHECK_OK(tp_callback_setup_graph(cb, &train));
        if (way < 2) CHECK_OK(tp_callback_load_state(cb, &saved, "p/"));
        cb->resumed = way < 2;
        CHECK_OK(tp_callback_before_train(cb));
        const double want = way == 0 ? 0.125 : way == 1 ? 0.75 : 0.5;
        CHECK_MSG(field == want, "%d: %g, not %g", way, field, want);
        tp_callback_free(cb);
        tp_dict_free(&saved);
    }
    tp_set_log(NULL, NULL);
}

/* A tensor is found in the whole graph, else in the first training tower. */
static tp_node *tower_cost(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    return tp_named(tp_reduce_sum(in[0], NULL, 0, false), "cost");
}
TEST(tensors_are_found_in_the_graph_or_the_training_tower)
{
    const tp_spec spec = {"x", TP_F32, {1, {2}}};
    for (int way = 0; way < 3; way++) { /* no tower, one for inference, then one for training */
        tp_graph *g = tp_graph_new(NULL);
        tp_tower_func *f = tp_tower_func_new(g, tower_cost, NULL, &spec, 1);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2)), *cost[2] = {NULL, NULL};
        tp_train_state train = by_hand(g, NULL);
        tp_callback *cb = lambda();
        tp_named(tp_neg(x), "here");
        for (int i = 0; i < way; i++) {
            tp_tower_desc d;
            memset(&d, 0, sizeof d);
            d.name = i ? "training" : "inference", d.is_training = i == 1;
            tp_tower_enter(g, &d);
            cost[i] = tp_tower_func_call(f, &x);
            tp_tower_leave(g);
        }
        train.tower_func = f;
        cb->train = &train;
        CHECK(tp_callback_find(cb, "here") == tp_graph_find(g, "here") && tp_callback_find(cb, "here:0") != NULL);
        CHECK(tp_callback_find(cb, "nothing") == NULL);
        CHECK_HAS(tp_last_error(), "Tensor nothing not found in the graph");
        if (way == 2) CHECK(tp_callback_find(cb, "cost") == cost[1]);
        else CHECK(tp_callback_find(cb, "cost") == NULL);
        tp_callback_free(cb);
        tp_graph_free(g);
    }
}

/* ==== >>event files by hand =========================================================================== */

typedef struct event {
    double wall_time;
    int64_t step;
    int field;
    const unsigned char *data;
    size_t size;
} event;

/* The files of a folder in order, their bytes and their events; how many events. test_train.c checks the checksums. */
static int read_events(const char *dir, char **bytes, event *list, int most)
{
    tp_buf all;
    int n = 0;
    DIR *d = opendir(dir);
    char path[700];
    memset(&all, 0, sizeof all);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        char *data = NULL;
        size_t size = 0;
        if (strncmp(e->d_name, "events.out.tfevents.", 20) != 0) continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (CHECK_OK(tp_file_read(path, false, 0, &data, &size))) tp_buf_put(&all, data, size);
        tp_free(data);
    }
    if (d) closedir(d);
    for (size_t at = 0; at + 16 <= all.len && n < most; n++) {
        const unsigned char *p = (const unsigned char *)all.data + at;
        const size_t length = p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16;
        const unsigned char *q = p + 12, *end = q + length;
        memset(&list[n], 0, sizeof list[n]);
        while (q < end) {
            const int key = *q++;
            if (key == (1 << 3 | 1)) memcpy(&list[n].wall_time, q, 8), q += 8;
            else { /* a number, or a length */ uint64_t v = 0;
                for (int shift = 0;; shift += 7) {
                    v |= (uint64_t)(*q & 127) << shift;
                    if (*q++ < 128) break;
                }
                if (key == 2 << 3) list[n].step = (int64_t)v;
                else list[n].field = key >> 3, list[n].data = q, list[n].size = (size_t)v, q += v;
            }
        }
        at += 16 + length;
    }
    *bytes = all.data;
    return n;
}

/* Events reach the disk when the queue is full, at a trigger, and at the end; each is what was told, at its step and time. */
TEST(events_by_hand)
{
    static const int queue[] = {TP_NONE, 1, 2, 3, 7, 0};
    for (int k = 0; k < TP_COUNT(queue); k++)
        for (int way = 0; way < 4; way++) {
            const bool split = way & 1, at_once = way & 2;
            const int room = queue[k] == TP_NONE ? 0 : queue[k] ? queue[k] : 10;
            tp_monitor_tf_event_writer_desc d;
            tp_graph *g = tp_graph_new(NULL);
            event list[64];
            char dir[300], *bytes = NULL;
            int queued = 0, total = 0, on_disk = 0, n;
            memset(&d, 0, sizeof d);
            snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
            d.logdir = dir, d.max_queue = queue[k], d.split_files = split ? TP_YES : 0;
            d.flush_secs = at_once ? (double)TP_ZERO : 0;
            tp_monitor *m = tp_monitor_tf_event_writer_(&d);
            tp_monitors *all = tp_monitors_new(&m, 1);
            tp_train_state train = by_hand(g, all);
            tp_node *x = tp_named(tp_const(g, 1), "x"), *half[2];
            tp_split(tp_placeholder(g, "p", TP_F32, tp_make_shape(4)), 2, 0, half);
            tp_named(tp_with_dependencies(tp_neg(half[1]), &x, 1), "last");
            const double begun = (double)time(NULL) - 1;
#define ADDED() (queued++, total++, queued >= room || at_once ? (void)(on_disk = total, queued = 0) : (void)0)
            CHECK_OK(tp_callback_setup_graph(&m->cb, &train));
            CHECK_OK(tp_callback_setup_graph(&all->cb, &train));
            ADDED();
            train.global_step = 4;
            if (split) m->cb.resumed = true;
            CHECK_OK(tp_callback_before_train(&m->cb));
            if (split) ADDED();
            ADDED();
            for (int i = 0; i < 12; i++) {
                static const char payload[] = {18, 1, 'v'};
                tp_event e;
                memset(&e, 0, sizeof e);
                e.field = 8, e.data = payload, e.size = sizeof payload;
                train.global_step = 100 + i;
                if (i % 3 == 2) CHECK_OK(tp_monitors_put_event(all, &e));
                else CHECK_OK(tp_monitors_put_scalar(all, "s", i));
                ADDED();
                n = read_events(dir, &bytes, list, 64);
                CHECK_MSG(n == on_disk, "queue %d, event %d: %d on the disk, not %d", queue[k], i, n, on_disk);
                tp_free(bytes);
            }
            CHECK_OK(tp_callback_trigger(&m->cb));
            on_disk = total, queued = 0;
            if (split) ADDED(); /* the next file's version */
            n = read_events(dir, &bytes, list, 64);
            CHECK_MSG(n == on_disk, "queue %d: %d on the disk, not %d", queue[k], n, on_disk);
            if (!split && n == total) {
                static const struct {
                    const char *name, *op, *in[2];
                } node[] = {{"x", NULL, {NULL, NULL}}, {"p", NULL, {NULL, NULL}}, {"last", NULL, {NULL, "^x"}}};
                CHECK(list[0].field == 3 && list[0].size == 13 && memcmp(list[0].data, "brain.Event:2", 13) == 0);
                CHECK(list[1].field == 4 && list[1].step == 0);
                const unsigned char *p = list[1].data, *end = p + list[1].size;
                int nodes = 0, found = 0;
                for (; p < end; nodes++) { /* NodeDef: name 1, op 2, input 3 */
                    const size_t size = p[1];
                    const unsigned char *q = p + 2, *stop = q + size;
                    const tp_operation *op = tp_graph_operation(g, nodes);
                    CHECK(p[0] == (1 << 3 | 2));
                    CHECK(q[0] == (1 << 3 | 2) && q[1] == strlen(op->name) && memcmp(q + 2, op->name, q[1]) == 0);
                    for (int i = 0; i < TP_COUNT(node); i++) found += strcmp(op->name, node[i].name) == 0;
                    q += 2 + q[1];
                    CHECK(q[0] == (2 << 3 | 2) && q[1] > 0);
                    q += 2 + q[1];
                    for (int i = 0; i < op->n_in + op->n_ctrl; i++, q += 2 + q[1]) {
                        char want[300];
                        const tp_node *in = i < op->n_in ? op->in[i] : NULL;
                        snprintf(want, sizeof want, in ? in->index ? "%s:%d" : "%s" : "^%s",
                                 in ? in->op->name : op->ctrl[i - op->n_in]->name, in ? in->index : 0);
                        CHECK(q < stop && q[0] == (3 << 3 | 2) && q[1] == strlen(want) &&
                              memcmp(q + 2, want, q[1]) == 0);
                    }
                    CHECK(q == stop);
                    p = stop;
                }
                CHECK(nodes == tp_graph_n_operations(g) && found == 3);
                for (int i = 0; i < 12; i++) {
                    CHECK(list[2 + i].step == 100 + i && list[2 + i].field == (i % 3 == 2 ? 8 : 5));
                    CHECK(list[2 + i].wall_time >= begun &&
                          list[2 + i].wall_time <= (double)time(NULL) + 2); /* time() may be some milliseconds behind */
                    if (i % 3 == 2) CHECK(list[2 + i].size == 3 && memcmp(list[2 + i].data, "\022\001v", 3) == 0);
                }
            } else if (n > 1) {
                int starts = 0;
                for (int i = 0; i < n; i++)
                    if (list[i].field == 7) {
                        starts++;
                        CHECK(list[i].step == 5 && list[i].size == 2 && memcmp(list[i].data, "\010\001", 2) == 0);
                    }
                CHECK(starts == split);
            }
            tp_free(bytes);
            CHECK_OK(tp_callback_after_train(&m->cb));
            CHECK(read_events(dir, &bytes, list, 64) == total);
            tp_free(bytes);
            CHECK_OK(tp_monitors_put_scalar(all, "s", 1)); /* the end is the end */
            CHECK(read_events(dir, &bytes, list, 64) == total);
            tp_free(bytes);
            tp_callback_free(&all->cb);
            tp_monitor_free(m);
            tp_graph_free(g);
        }
}

/* TensorBoard reads the files in the order of their names: each new one is the last, also where the clock was set back. */
TEST(event_files_are_named_in_order)
{
    static const char *const others[] = {"events.out.tfevents.0000000017.old",
                                         "events.out.tfevents.4000000000.later",
                                         "events.out.tfevents.3999999999.later",
                                         "events.out.tfevents.",
                                         "events.out.tfevents.x",
                                         "events.out.tfevents.-5",
                                         "events.5000000000",
                                         "events.out.tfevents.9999999999.last"};
    const char *dir = tp_test_tmpdir();
    tp_monitor_tf_event_writer_desc d;
    memset(&d, 0, sizeof d);
    d.logdir = dir, d.split_files = TP_YES;
    for (int i = 0; i < TP_COUNT(others); i++) tp_test_write(tp_test_path(dir, others[i]), "", 0);
    tp_monitor *m = tp_monitor_tf_event_writer_(&d);
    tp_monitors *all = tp_monitors_new(&m, 1);
    tp_train_state train = by_hand(NULL, all);
    CHECK_OK(tp_callback_setup_graph(&m->cb, &train));
    CHECK_OK(tp_callback_setup_graph(&all->cb, &train));
    CHECK_OK(tp_callback_trigger(&m->cb));
    CHECK_OK(tp_callback_after_train(&m->cb));
    tp_callback_free(&all->cb);
    tp_monitor_free(m);
    int found = 0;
    DIR *list = opendir(dir);
    for (struct dirent *e; list && (e = readdir(list)) != NULL;)
        for (int i = 1; i <= 2; i++) {
            char begin[64];
            snprintf(begin, sizeof begin, "events.out.tfevents.400000000%d.", i);
            found += strncmp(e->d_name, begin, strlen(begin)) == 0;
        }
    if (list) closedir(list);
    CHECK(found == 2);
}

/* A folder that goes away: the training goes on, and its end tells. */
TEST(events_that_cannot_be_written)
{
    char dir[300], command[400];
    tp_monitor_tf_event_writer_desc d;
    memset(&d, 0, sizeof d);
    snprintf(dir, sizeof dir, "%s/events", tp_test_tmpdir());
    CHECK_OK(tp_make_dirs(dir));
    d.logdir = dir, d.split_files = TP_YES;
    TEST_EXPECT_ERROR("TFEventWriter: cannot make an event file in '");
    tp_test_keep_log();
    tp_monitor *m = tp_monitor_tf_event_writer_(&d);
    tp_monitors *all = tp_monitors_new(&m, 1);
    tp_train_state train = by_hand(NULL, all);
    CHECK_OK(tp_callback_setup_graph(&all->cb, &train));
    CHECK_OK(tp_callback_setup_graph(&m->cb, &train));
    CHECK_OK(tp_callback_before_train(&m->cb));
    train.global_step = 17;
    snprintf(command, sizeof command, "rm -r %s", dir);
    CHECK(system(command) == 0);
    CHECK_OK(tp_callback_trigger(&m->cb));
    CHECK(m->cb.unsaved && strstr(m->cb.unsaved, "No events were written there after global_step=17"));
    CHECK_OK(tp_monitors_put_scalar(all, "s", 1));
    CHECK_OK(tp_callback_trigger(&m->cb));
    CHECK_OK(tp_callback_after_train(&m->cb));
    tp_callback_free(&all->cb);
    tp_monitor_free(m);
    tp_set_log(NULL, NULL);
}

/* ==== >>stats.json by hand ============================================================================ */

/* The file after records of some epochs of 3 steps; odd: what is reported within an epoch is a record of its own. */
static void json_text(char *text, size_t size, int from, int to, bool odd)
{
    size_t at = (size_t)snprintf(text, size, "[");
    for (int e = from; e <= to; e++) {
        if (odd)
            at += (size_t)snprintf(text + at, size - at, "%s{\"within\": %d, \"epoch_num\": %d, \"global_step\": %d}",
                                   at > 1 ? ", " : "", e, e, 3 * e - 2);
        at += (size_t)snprintf(text + at, size - at,
                               "%s{\"cost\": %d.5, \"n\": %d, \"epoch_num\": %d, \"global_step\": %d}",
                               at > 1 ? ", " : "", e, 7 * e, e, 3 * e);
    }
    snprintf(text + at, size - at, "]");
}
static void json_epoch(tp_monitor *m, tp_monitors *all, tp_train_state *train, int e, bool odd)
{
    train->epoch_num = e;
    for (int step = 0; step < 3; step++) {
        train->local_step = step, train->global_step = 3 * (e - 1) + step + 1;
        if (odd && step == 0) CHECK_OK(tp_monitors_put_int(all, "within", e));
        CHECK_OK(tp_callback_trigger_step(&m->cb));
    }
    CHECK_OK(tp_monitors_put_scalar(all, "cost", e + 0.5));
    CHECK_OK(tp_monitors_put_int(all, "n", 7 * e));
    CHECK_OK(tp_callback_trigger_epoch(&m->cb));
}
static void check_json(const char *want, int line)
{
    char path[400], *text = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "%s/stats.json", folder);
    if (CHECK_OK(tp_file_read(path, false, 0, &text, &size)))
        CHECK_MSG(strcmp(text, want) == 0, "line %d: \"%s\", expected \"%s\"", line, text, want);
    tp_free(text);
}
static tp_monitor *begin_json(tp_monitors **all, tp_train_state *train, tp_dict *saved, int step)
{
    tp_monitor *m = tp_monitor_json_writer();
    *all = tp_monitors_new(&m, 1);
    train->monitors = *all;
    train->global_step = step;
    CHECK_OK(tp_callback_setup_graph(&(*all)->cb, train));
    CHECK_OK(tp_callback_setup_graph(&m->cb, train));
    if (saved) {
        CHECK_OK(tp_callback_load_state(&m->cb, saved, "p/"));
        m->cb.resumed = true;
    }
    CHECK_OK(tp_callback_before_train(&m->cb));
    return m;
}
static void end_json(tp_monitor *m, tp_monitors *all)
{
    CHECK_OK(tp_callback_after_train(&m->cb));
    tp_callback_free(&all->cb);
    tp_monitor_free(m);
}

/* After a resume from any epoch the file goes on behind the records of its steps, and the monitors have their history. What
 * could not be written is in the checkpoint. */
TEST(stats_json_after_a_resume)
{
    char want[4000], stats[400], aside[400];
    for (int way = 0; way < 5; way++) {
        /* the epoch that is resumed; does a folder stand where the file should be written, from epoch 3 on */
        const int from = way == 1 ? 2 : way;
        const bool odd = way & 1, away = way > 2;
        tp_train_state train = by_hand(NULL, NULL);
        tp_monitors *all;
        tp_dict saved;
        memset(&saved, 0, sizeof saved);
        snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
        snprintf(stats, sizeof stats, "%s/stats.json", folder);
        snprintf(aside, sizeof aside, "%s/aside", folder);
        tp_test_keep_log();
        CHECK_OK(tp_logger_set_dir(folder, 'k'));
        train.steps_per_epoch = 3;
        tp_monitor *m = begin_json(&all, &train, NULL, 0);
        if (away) TEST_MAY_ERROR("was not written");
        for (int e = 1; e <= 4; e++) {
            if (away && e == 3) CHECK(rename(stats, aside) == 0 && mkdir(stats, 0777) == 0);
            json_epoch(m, all, &train, e, odd);
            if (e == from) CHECK_OK(tp_callback_save_state(&m->cb, &saved, "p/"));
            CHECK((m->cb.unsaved != NULL) == (away && e >= 3));
            if (m->cb.unsaved) CHECK_HAS(m->cb.unsaved, "stats.json' was not written at global_step=");
            if (away && e >= 3) continue;
            json_text(want, sizeof want, 1, e, odd);
            check_json(want, __LINE__);
        }
        CHECK((tp_dict_find(&saved, "p/unwritten") != NULL) == (away && from >= 3));
        tp_callback_free(&all->cb); /* killed */
        tp_monitor_free(m);
        if (away) CHECK(rmdir(stats) == 0 && rename(aside, stats) == 0);

        train.starting_epoch = from + 1, train.epoch_num = from;
        m = begin_json(&all, &train, &saved, 3 * from);
        json_text(want, sizeof want, 1, from, odd);
        const tp_stat *stat = NULL;
        CHECK(tp_monitors_get_history(all, "n", &stat) == from);
        for (int e = 1; e <= from && stat; e++) CHECK(stat[e - 1].value == 7 * e && stat[e - 1].step == 3 * e);
        CHECK(tp_monitors_get_history(all, "within", &stat) == (odd ? from : 0));
        CHECK(tp_monitors_get_history(all, "epoch_num", &stat) == 0);
        if (from) check_json(want, __LINE__);
        for (int e = from + 1; e <= 5; e++) json_epoch(m, all, &train, e, odd);
        json_text(want, sizeof want, 1, 5, odd);
        check_json(want, __LINE__);
        end_json(m, all);
        tp_dict_free(&saved);
    }
    tp_set_log(NULL, NULL);
}

/* A training that is not resumed goes on with a file that ends before it, and sets any other aside. */
TEST(stats_json_of_another_training)
{
    char want[4000];
    for (int start = 1; start < 6; start++) {
        tp_train_state train = by_hand(NULL, NULL);
        tp_monitors *all;
        tp_test_keep_log();
        snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
        CHECK_OK(tp_logger_set_dir(folder, 'k'));
        train.steps_per_epoch = 3;
        tp_monitor *m = begin_json(&all, &train, NULL, 0);
        for (int e = 1; e <= 3; e++) json_epoch(m, all, &train, e, false);
        end_json(m, all);
        tp_test_logged[0] = 0;
        train.starting_epoch = start;
        m = begin_json(&all, &train, NULL, 0);
        json_epoch(m, all, &train, start, false);
        json_text(want, sizeof want, start == 4 ? 1 : start, start, false);
        check_json(want, __LINE__);
        if (start == 4) CHECK_HAS(tp_test_logged, "Found existing JSON inside ");
        else {
            char line[200], *text = NULL;
            size_t size = 0;
            snprintf(line, sizeof line,
                     "History epoch=3 from JSON is not the predecessor of the current starting_epoch=%d.", start);
            CHECK_HAS(tp_test_logged, line);
            char *name = strstr(tp_test_logged, "The old file is now '");
            if (CHECK(name != NULL)) {
                name += 21;
                name[strcspn(name, "'")] = 0;
                json_text(want, sizeof want, 1, 3, false);
                if (CHECK_OK(tp_file_read(name, false, 0, &text, &size))) CHECK_STR(text, want);
                tp_free(text);
            }
        }
        end_json(m, all);
    }
    /* no training goes on from a record of epoch 0; the second epoch goes on from that of the first */
    for (int last = 0; last < 3; last++) {
        tp_train_state train = by_hand(NULL, NULL);
        tp_monitors *all;
        char path[400], text[100];
        tp_test_keep_log();
        snprintf(path, sizeof path, "%s/stats.json", folder);
        snprintf(text, sizeof text, "[{\"epoch_num\": %d, \"global_step\": 3}]", last);
        CHECK(tp_test_write(path, text, strlen(text)));
        train.starting_epoch = last + 1;
        tp_monitor *m = begin_json(&all, &train, NULL, 0);
        end_json(m, all);
        CHECK_HAS(tp_test_logged,
                  last ? "Found existing JSON inside " : "History epoch=0 from JSON is not the predecessor");
    }
    tp_set_log(NULL, NULL);
}

/* ==== >>what monitors are told ======================================================================== */

static int64_t shown[4];
static tp_status show(tp_monitor *m, const char *name, const tp_tensor *image)
{
    (void)m;
    CHECK_STR(name, "picture");
    CHECK(image->shape.ndim == 4);
    for (int d = 0; d < 4; d++) shown[d] = image->shape.dim[d];
    return TP_OK;
}
static char tags[600];
static tp_status list_tags(tp_monitor *m, const tp_summary *s)
{
    (void)m;
    for (int i = 0; i < s->n; i++) {
        const size_t n = strlen(tags);
        snprintf(tags + n, sizeof tags - n, "%s|%s:%d", n ? " " : "", s->value[i].tag, s->value[i].kind);
    }
    return TP_OK;
}

/* Pictures of fractions are told once for each tag; black pictures, and those of 0 to 255, are not. */
TEST(pictures_of_fractions_are_told)
{
    /* the 255 behind a picture in memory is not one of its pixels */
    static const float pixels[4][4] = {{0, 0, 0, 0}, {0, 0.5f, 0.25f, 1}, {255, 0.5f, 0, 0}, {-1, -0.5f, 0, 0}};
    tp_monitor *m = tp_monitor_new("Mine", 0);
    tp_monitors *all = tp_monitors_new(&m, 1);
    tp_summary_value v;
    const tp_summary one = {&v, 1};
    memset(&v, 0, sizeof v);
    v.tag = "weights", v.kind = TP_SUMMARY_HISTOGRAM;
    for (int i = 0; i < 4; i++) {
        tp_tensor t;
        memset(&t, 0, sizeof t);
        tp_tensor_view(&t, TP_F32, tp_make_shape(2, 2), pixels[i]);
        tp_test_keep_log();
        v.tensor = &t;
        CHECK_OK(tp_monitors_put_summary(all, &one)); /* a histogram is no picture */
        CHECK(!strstr(tp_test_logged, "multiply them by 255"));
        CHECK_OK(tp_monitors_put_image(all, "fractions", &t));
        tp_set_log(NULL, NULL);
        CHECK_MSG((strstr(tp_test_logged, "multiply them by 255") != NULL) == (i == 1), "%d: %s", i, tp_test_logged);
        tp_tensor_free(&t);
    }
    tp_callback_free(&all->cb);
    tp_monitor_free(m);
}

/* A value without a tag, or a picture or histogram without its tensor, is a sentence, and nothing is reported. */
TEST(summaries_that_lack_something)
{
    static const struct {
        const char *tag;
        int kind;
        const char *sentence;
    } list[] = {{NULL, TP_SUMMARY_SCALAR, "tp_monitors_put_summary: value 1 has no tag"},
                {NULL, TP_SUMMARY_IMAGE, "tp_monitors_put_summary: value 1 has no tag"},
                {"x", TP_SUMMARY_IMAGE, "tp_monitors_put_summary: value 'x' has no tensor"},
                {"x", TP_SUMMARY_HISTOGRAM, "tp_monitors_put_summary: value 'x' has no tensor"}};
    tp_monitors *all = tp_monitors_new(NULL, 0);
    for (int i = 0; i < TP_COUNT(list); i++) {
        tp_summary_value v[2];
        const tp_summary s = {v, 2};
        const tp_stat *stat;
        memset(v, 0, sizeof v);
        v[0].tag = "first", v[0].kind = TP_SUMMARY_SCALAR;
        v[1].tag = list[i].tag, v[1].kind = list[i].kind;
        CHECK_ERR(tp_monitors_put_summary(all, &s), TP_ERR_ARG, list[i].sentence);
        CHECK(tp_monitors_get_history(all, "first", &stat) == 0);
    }
    const tp_summary none = {NULL, 1}, empty = {NULL, 0};
    CHECK_ERR(tp_monitors_put_summary(all, &none), TP_ERR_ARG, "value must not be NULL");
    CHECK_OK(tp_monitors_put_summary(all, &empty));
    tp_callback_free(&all->cb);
}

/* Memory for summaries is allocated once, and again only for more summaries or longer tags. */
TEST(summaries_that_fit_take_no_memory)
{
    static const struct {
        int n;
        const char *tag;
        bool takes;
    } list[] = {{0, "", false},    {3, "abcd", true},    {3, "abcd", false},   {2, "abcd", false},
                {0, "", false},    {2, "abcdef", false}, {2, "abcdefg", true}, {4, "abc", true},
                {4, "abcd", true}, {4, "ab", false},     {5, "a", true}};
    static const float x[2] = {1, 2};
    tp_summary_value v[5];
    tp_tensor t;
    tp_monitors *all = tp_monitors_new(NULL, 0);
    memset(v, 0, sizeof v), memset(&t, 0, sizeof t);
    tp_tensor_view(&t, TP_F32, tp_make_shape(2), x);
    for (int i = 0; i < TP_COUNT(list); i++) {
        const tp_summary s = {v, list[i].n};
        for (int k = 0; k < list[i].n; k++) v[k].tag = list[i].tag, v[k].kind = TP_SUMMARY_HISTOGRAM, v[k].tensor = &t;
        tp_test_fail_after(1);
        const tp_status st = tp_monitors_put_summary(all, &s);
        const bool failed = tp_test_alloc_failed();
        tp_test_alloc_reset();
        CHECK_MSG(st == (list[i].takes ? TP_ERR_NOMEM : TP_OK) && failed == list[i].takes, "%d: %s, %d", i,
                  tp_status_name(st), failed);
        CHECK_OK(tp_monitors_put_summary(all, &s));
    }
    tp_callback_free(&all->cb);
}

/* (N,H,W,C), (H,W,C) of 1, 3, 4 channels, else (N,H,W), (H,W); anything else is a sentence. */
TEST(pictures_of_every_layout)
{
    static const struct {
        int n;
        int64_t dim[5], nhwc[4];
        const char *sentence;
    } list[] = {{2, {5, 6}, {1, 5, 6, 1}, NULL},
                {3, {5, 6, 1}, {1, 5, 6, 1}, NULL},
                {3, {5, 6, 3}, {1, 5, 6, 3}, NULL},
                {3, {5, 6, 4}, {1, 5, 6, 4}, NULL},
                {3, {5, 6, 2}, {5, 6, 2, 1}, NULL},
                {3, {5, 6, 7}, {5, 6, 7, 1}, NULL},
                {4, {2, 5, 6, 1}, {2, 5, 6, 1}, NULL},
                {4, {2, 5, 6, 3}, {2, 5, 6, 3}, NULL},
                {4, {2, 5, 6, 4}, {2, 5, 6, 4}, NULL},
                {4, {2, 5, 6, 2}, {0, 0, 0, 0}, "2 channels"},
                {4, {2, 5, 6, 5}, {0, 0, 0, 0}, "5 channels"},
                {1, {6}, {0, 0, 0, 0}, "(6)"},
                {5, {1, 1, 1, 1, 1}, {0, 0, 0, 0}, "(1,1,1,1,1)"},
                {0, {0}, {0, 0, 0, 0}, "()"}};
    tp_monitor *m = tp_monitor_new("Mine", 0);
    m->process_image = show, m->process_summary = list_tags;
    tp_monitors *all = tp_monitors_new(&m, 1);
    for (int i = 0; i < TP_COUNT(list); i++) {
        tp_tensor t;
        memset(&t, 0, sizeof t);
        memset(shown, 0, sizeof shown);
        tags[0] = 0;
        CHECK_OK(tp_tensor_resize(&t, TP_U8, tp_make_shape_n(list[i].n, list[i].dim)));
        const tp_status st = tp_monitors_put_image(all, "picture", &t);
        if (list[i].sentence)
            CHECK_MSG(st == TP_ERR_SHAPE && strstr(tp_last_error(), list[i].sentence), "%d: %s", i, tp_last_error());
        else CHECK_OK(st);
        CHECK_MSG(memcmp(shown, list[i].nhwc, sizeof shown) == 0, "%d", i);
        char want[40];
        snprintf(want, sizeof want, "|picture:%d", TP_SUMMARY_IMAGE);
        CHECK_STR(tags, list[i].sentence ? "" : want);
        tp_tensor_free(&t);
    }
    tp_callback_free(&all->cb);
    tp_monitor_free(m);
}

/* Tags lose every "tower<number>/" and a last "-summary"; only scalars are scalars. */
TEST(tags_lose_their_towers)
{
    static const char *const tag[][2] = {{"cost", "cost"},
                                         {"tower0/cost", "cost"},
                                         {"tower12/a/tower3/b", "a/b"},
                                         {"tower/a", "tower/a"},
                                         {"tower0", "tower0"},
                                         {"tower9a/b", "tower9a/b"},
                                         {"mytower0/a", "mya"},
                                         {"a-summary", "a"},
                                         {"tower0/a-summary", "a"},
                                         {"a-summary/b", "a-summary/b"},
                                         {"-summary", ""},
                                         {"summary", "summary"},
                                         {"tower0/tower1/", ""},
                                         {"towe", "towe"}};
    tp_summary_value value[32];
    tp_summary s;
    char want[600] = "", want_told[600] = "";
    tp_tensor t;
    memset(value, 0, sizeof value), memset(&t, 0, sizeof t);
    tp_monitor *m = teller();
    m->process_summary = list_tags;
    tp_monitors *all = tp_monitors_new(&m, 1);
    CHECK_OK(tp_tensor_resize(&t, TP_F32, tp_make_shape(3)));
    for (int i = 0; i < TP_COUNT(tag); i++) {
        const bool scalar = i % 3 != 2;
        const size_t n = strlen(want), k = strlen(want_told);
        value[i].tag = tag[i][0], value[i].kind = scalar ? TP_SUMMARY_SCALAR : TP_SUMMARY_HISTOGRAM;
        value[i].scalar = i, value[i].tensor = scalar ? NULL : &t;
        snprintf(want + n, sizeof want - n, "%s|%s:%d", n ? " " : "", tag[i][1], value[i].kind);
        if (scalar) snprintf(want_told + k, sizeof want_told - k, "%s%s=%d@0", k ? " " : "", tag[i][1], i);
    }
    s.value = value;
    for (int round = 0; round < 3; round++) { /* more of them than there was room for, then fewer */
        static const int count[] = {3, TP_COUNT(tag), 5};
        s.n = count[round];
        tags[0] = told[0] = 0;
        CHECK_OK(tp_monitors_put_summary(all, &s));
        CHECK(strncmp(tags, want, strlen(tags)) == 0 &&
              (count[round] < TP_COUNT(tag) ? want[strlen(tags)] == ' ' : !want[strlen(tags)]));
        CHECK(strncmp(told, want_told, strlen(told)) == 0);
        if (count[round] == TP_COUNT(tag)) CHECK_STR(told, want_told);
    }
    s.n = 0;
    tags[0] = 0;
    CHECK_OK(tp_monitors_put_summary(all, &s));
    CHECK_STR(tags, "");
    tp_tensor_free(&t);
    tp_callback_free(&all->cb);
    tp_monitor_free(m);
}

/* ==== >>savers by hand ================================================================================ */

static double best_stat(int epoch, int way)
{
    static const double v[2][8] = {{0, 5, 3, (double)NAN, 3, 7, 1, 2}, {0, (double)NAN, 2, 2, -1, -1, 9, 9}};
    return v[way][epoch];
}
static void make_savers(tp_callback **cb, int way, int keep, tp_checkpoint_format format)
{
    tp_cb_model_saver_desc s;
    tp_cb_min_saver_desc b;
    memset(&s, 0, sizeof s), memset(&b, 0, sizeof b);
    s.checkpoint_dir = folder, s.max_to_keep = keep, s.format = format;
    b.checkpoint_dir = folder, b.monitor_stat = "val/cost";
    cb[way & 1] = tp_cb_model_saver_(&s);
    cb[1 - (way & 1)] = way & 2 ? tp_cb_max_saver_(&b) : tp_cb_min_saver_(&b);
}

static void put_tf_block(tp_buf *b, const void *p, size_t n)
{
    const size_t at = b->len;
    uint8_t end[5] = {0};
    tp_buf_put(b, p, n);
    tp_buf_put(b, end, 1);
    const uint32_t c = tp_crc32c(0, b->data + at, n + 1), masked = (c >> 15 | c << 17) + 0xa282ead8u;
    tp_test_little_endian(end, &masked, 4, 4);
    tp_buf_put(b, end, 4);
}
static size_t put_varint(uint8_t *to, size_t v)
{
    size_t n = 0;
    for (; v > 127; v >>= 7) to[n++] = (uint8_t)(v | 128);
    to[n++] = (uint8_t)v;
    return n;
}
/* Writes the index of a checkpoint of ours anew, with its block of entries behind a copy of it. */
static void move_entries(const char *path)
{
    tp_buf b = TP_EMPTY;
    char *old = NULL;
    uint8_t last[48] = {0, 1, 0, 0xff}, foot[40] = {0};
    size_t size = 0, block = 0, n = 4;
    if (!CHECK_OK(tp_file_read(path, false, 0, &old, &size))) return;
    for (size_t i = size - 48, shift = 0; shift == 0 || (old[i - 1] & 128); i++, shift += 7)
        block |= (size_t)(old[i] & 127) << shift;
    block -= 5; /* the next block lies behind its checksum */
    put_tf_block(&b, old, block);
    put_tf_block(&b, old, block);
    const size_t meta = b.len;
    put_tf_block(&b, "\0\0\0\0\1\0\0\0", 8);
    n += put_varint(last + n, block + 5);
    n += put_varint(last + n, block);
    last[2] = (uint8_t)(n - 4);
    last[n + 4] = 1; /* one entry at 0 */
    n += 8;
    size_t at = put_varint(foot, meta);
    foot[at++] = 8;
    at += put_varint(foot + at, b.len);
    put_varint(foot + at, n);
    put_tf_block(&b, last, n);
    tp_buf_put(&b, foot, sizeof foot);
    tp_buf_put(&b, old + size - 8, 8);
    CHECK(tp_test_write(path, b.data, b.len));
    tp_buf_free(&b);
    tp_free(old);
}
/* A checkpoint that another program wrote is not copied as the best model, even where it begins like one of ours. */
TEST(the_best_model_of_another_program)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_get_scalar_variable(g, "w", 3);
    tp_session *s = tp_session_new(g, NULL);
    char path[400];
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    tp_test_keep_log();
    for (int n = 0; n < 2; n++) {
        tp_callback *cb[2];
        tp_monitors *all = tp_monitors_new(NULL, 0);
        tp_train_state train = by_hand(g, all);
        train.steps_per_epoch = 2, train.local_step = -1, train.session = s;
        make_savers(cb, 0, 2, TP_CHECKPOINT_TF);
        train.callbacks = cb + n, train.n_callbacks = 2 - n; /* the checkpoint is there after the first */
        CHECK_OK(tp_callback_setup_graph(&all->cb, &train));
        for (int i = n; i < 2; i++) CHECK_OK(tp_callback_setup_graph(cb[i], &train));
        for (int i = n; i < 2; i++) CHECK_OK(tp_callback_before_train(cb[i]));
        train.epoch_num = 1, train.global_step = 2, train.local_step = 1;
        CHECK_OK(tp_monitors_put_scalar(all, "val/cost", 5));
        for (int i = n; i < 2; i++) CHECK_OK(tp_callback_trigger_epoch(cb[i]));
        const tp_status st = tp_train_checkpoint(&train, false);
        if (n) CHECK_ERR(st, TP_ERR_UNSUPPORTED, "model-2.index was not written by tp: load it and save it instead");
        else CHECK_OK(st);
        for (int i = 0; i < 2; i++) tp_callback_free(cb[i]);
        tp_callback_free(&all->cb);
        snprintf(path, sizeof path, "%s/model-2.index", folder);
        if (n == 0) move_entries(path);
        tp_dict d = TP_EMPTY;
        CHECK_OK(tp_tf_checkpoint_load(path, &d));
        CHECK(tp_dict_find(&d, "w") != NULL);
        tp_dict_free(&d);
    }
    tp_session_free(s);
    tp_graph_free(g);
    tp_set_log(NULL, NULL);
}

/* Memory ends while the best model is copied: either the status is an error, or the file is there. */
TEST(the_best_model_is_copied_or_there_is_an_error)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_get_scalar_variable(g, "w", 3);
    tp_session *s = tp_session_new(g, NULL);
    char best[400];
    long refused = 0;
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    snprintf(best, sizeof best, "%s/min-val_cost.npz", folder);
    tp_test_keep_log();
    for (long n = 0, failed = 1; failed; n++) {
        tp_callback *cb[2];
        tp_monitors *all = tp_monitors_new(NULL, 0);
        tp_train_state train = by_hand(g, all);
        train.steps_per_epoch = 2, train.local_step = -1, train.session = s;
        make_savers(cb, 0, 2, TP_CHECKPOINT_NPZ);
        train.callbacks = cb + (n > 0), train.n_callbacks = 2 - (n > 0); /* the checkpoint is there after the first */
        CHECK_OK(tp_callback_setup_graph(&all->cb, &train));
        for (int i = n > 0; i < 2; i++) CHECK_OK(tp_callback_setup_graph(cb[i], &train));
        for (int i = n > 0; i < 2; i++) CHECK_OK(tp_callback_before_train(cb[i]));
        train.epoch_num = 1, train.global_step = 2, train.local_step = 1;
        CHECK_OK(tp_monitors_put_scalar(all, "val/cost", 5));
        for (int i = n > 0; i < 2; i++) CHECK_OK(tp_callback_trigger_epoch(cb[i]));
        tp_test_fail_after(n);
        const tp_status st = tp_train_checkpoint(&train, false);
        failed = n == 0 || tp_test_alloc_failed();
        tp_test_alloc_reset();
        refused += st != TP_OK;
        CHECK(st == TP_OK || (st == TP_ERR_NOMEM && n > 0 && failed));
        CHECK_MSG(tp_file_exists(best) == (st == TP_OK), "allocation %ld: %s", n, tp_status_name(st));
        remove(best);
        for (int i = 0; i < 2; i++) tp_callback_free(cb[i]);
        tp_callback_free(&all->cb);
    }
    CHECK_MSG(refused >= 3, "%ld", refused);
    tp_set_log(NULL, NULL);
    tp_session_free(s);
    tp_graph_free(g);
}

/* The newest checkpoints stay, and the best one's copy; a resume after any epoch changes nothing, in whatever order they stand. */
TEST(savers_after_a_resume)
{
    for (int way = 0; way < 8; way += way == 0 ? 3 : way == 3 ? 2 : way == 5 ? 1 : 2) /* each option twice */
        for (int cut = way % 7; cut <= way % 7; cut++) { /* the epoch after which another process goes on */
            const bool max = way & 2;
            const int numbers = way >> 2 & 1, keep = 1 + way % 3;
            tp_graph *g = tp_graph_new(NULL);
            tp_get_scalar_variable(g, "w", 0);
            tp_session *s = tp_session_new(g, NULL);
            tp_callback *cb[2];
            tp_train_state train;
            char path[400], best[400], text[200] = "";
            int best_epoch = 0;
            snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
            snprintf(best, sizeof best, "%s/%s-val_cost.npz", folder, max ? "max" : "min");
            tp_test_keep_log();
            tp_monitors *all = tp_monitors_new(NULL, 0);
            train = by_hand(g, all);
            train.steps_per_epoch = 2, train.local_step = -1, train.session = s;
            train.callbacks = cb, train.n_callbacks = 2;
            CHECK_OK(tp_callback_setup_graph(&all->cb, &train));
            make_savers(cb, way, keep, TP_CHECKPOINT_NPZ);
            for (int i = 0; i < 2; i++) CHECK_OK(tp_callback_setup_graph(cb[i], &train));
            for (int i = 0; i < 2; i++) CHECK_OK(tp_callback_before_train(cb[i]));
            for (int epoch = 1; epoch < 8; epoch++) {
                const double v = best_stat(epoch, numbers);
                tp_tensor t;
                float now = (float)epoch;
                memset(&t, 0, sizeof t);
                tp_tensor_view(&t, TP_F32, tp_make_shape_n(0, NULL), &now);
                CHECK_OK(tp_session_load(s, tp_find_variable(g, "w"), &t));
                train.epoch_num = epoch, train.global_step = 2 * epoch, train.local_step = 1;
                CHECK_OK(tp_monitors_put_scalar(all, "val/cost", v));
                for (int i = 0; i < 2; i++) CHECK_OK(tp_callback_trigger_epoch(cb[i]));
                CHECK_OK(tp_train_checkpoint(&train, false));
                if (!isnan(v) &&
                    (!best_epoch || (max ? v > best_stat(best_epoch, numbers) : v < best_stat(best_epoch, numbers))))
                    best_epoch = epoch;
                for (int e = 1; e <= epoch; e++) {
                    snprintf(path, sizeof path, "%s/model-%d.npz", folder, 2 * e);
                    CHECK_MSG(tp_file_exists(path) == (e > epoch - keep), "way %d, cut %d: model-%d after epoch %d",
                              way, cut, 2 * e, epoch);
                }
                CHECK_OK(tp_checkpoint_state_latest(folder, path, sizeof path));
                snprintf(text, sizeof text, "model-%d", 2 * epoch);
                CHECK_HAS(path, text);
                tp_dict d;
                memset(&d, 0, sizeof d);
                CHECK_MSG(tp_file_exists(best) == (best_epoch > 0), "way %d, cut %d: after epoch %d", way, cut, epoch);
                if (best_epoch && CHECK_OK(tp_npz_load(best, &d))) {
                    const tp_tensor *saved = tp_dict_find(&d, "w");
                    CHECK_MSG(saved && tp_tensor_get(saved, 0) == best_epoch, "way %d, cut %d, epoch %d: %g, not %d",
                              way, cut, epoch, saved ? tp_tensor_get(saved, 0) : -1, best_epoch);
                    tp_dict_free(&d);
                }
                if (epoch != cut) continue;
                for (int i = 0; i < 2; i++) tp_callback_free(cb[i]); /* another process */
                make_savers(cb, way, keep, TP_CHECKPOINT_NPZ);
                for (int i = 0; i < 2; i++) CHECK_OK(tp_callback_setup_graph(cb[i], &train));
                CHECK_OK(tp_train_state_load(&train));
                CHECK(cb[0]->resumed && cb[1]->resumed);
                for (int i = 0; i < 2; i++) CHECK_OK(tp_callback_before_train(cb[i]));
            }
            for (int i = 0; i < 2; i++) CHECK_OK(tp_callback_after_train(cb[i]));
            for (int i = 0; i < 2; i++) tp_callback_free(cb[i]);
            tp_callback_free(&all->cb);
            tp_session_free(s);
            tp_graph_free(g);
        }
    tp_set_log(NULL, NULL);
}

/* Texts of stats.json: what they hold, or the byte where they are no JSON any more. */
enum { NO_LIST = -2, NO_JSON = -3, NO_EPOCH = -4 };
TEST(any_list_of_json_is_read)
{
    static const struct {
        const char *text;
        int64_t epoch; /* of the last record; NO_LIST, NO_JSON */
        long byte;
    } list[] = {
        {"[]", -1, 0},
        {" \t\r\n[ ] \n", -1, 0},
        {"[{}]", -1, 0},
        {"[{\"epoch_num\": 3}]", 3, 0},
        {"[{\"epoch_num\":3},{\"epoch_num\":4}]", 4, 0},
        {"[{\"epoch_num\": 3}, {\"other\": 5}]", -1, 0},
        {"[{\"other\": {\"epoch_num\": 9}, \"epoch_num\": 2}]", 2, 0},
        {"[{\"epoch_num\": 2, \"other\": {\"epoch_num\": 9}}]", 2, 0},
        {"[[{\"epoch_num\": 9}], {\"epoch_num\": 1}]", 1, 0},
        {"[{\"a\": true, \"b\": false, \"c\": null, \"d\": NaN, \"e\": Infinity, \"f\": -Infinity, \"epoch_num\": 6}]",
         6, 0},
        {"[{\"a\": -1.5e-7, \"b\": 0, \"c\": 1E+3, \"epoch_num\": 7e0}]", 7, 0},
        {"[{\"a\": \"\\\"]}\\\\\", \"epoch_num\": 8}]", 8, 0},
        {"[{\"\\\"epoch_num\": 5, \"epoch_num\": 8}]", 8, 0},
        {"[{\"a\": [1, [2, {}], []], \"epoch_num\": 11}]", 11, 0},
        {"[{\"a\": 5, \"epoch_num\": null}]", 0, 0},
        {"{}", NO_LIST, 2},
        {"3", NO_LIST, 1},
        {"\"[]\"", NO_LIST, 4},
        {"", NO_JSON, 0},
        {"  ", NO_JSON, 2},
        {"[", NO_JSON, 1},
        {"[}", NO_JSON, 1},
        {"[1", NO_JSON, 2},
        {"[1,", NO_JSON, 3},
        {"[1,]", NO_JSON, 3},
        {"[1 2]", NO_JSON, 3},
        {"[] []", NO_JSON, 3},
        {"[{]", NO_JSON, 2},
        {"[{\"a\"}]", NO_JSON, 5},
        {"[{\"a\" 1}]", NO_JSON, 6},
        {"[{\"a\":}]", NO_JSON, 6},
        {"[{\"a\":1,}]", NO_JSON, 8},
        {"[{\"a\":1]]", NO_JSON, 7},
        {"[{a:1}]", NO_JSON, 2},
        {"[{1:1}]", NO_JSON, 2},
        {"[\"a]", NO_JSON, 4},
        {"[\"a\\", NO_JSON, 4},
        {"[\"a\nb\"]", NO_JSON, 3},
        {"[tru]", NO_JSON, 1},
        {"[nul]", NO_JSON, 1},
        {"[-Infinit]", NO_JSON, 1},
        {"[1.2.3]", NO_JSON, 1},
        {"[1e]", NO_JSON, 1},
        {"[+]", NO_JSON, 1},
        {"[{\"epoch_num\": -1}]", NO_EPOCH, 0},
        {"[{\"epoch_num\": 1e300}]", NO_EPOCH, 0},
        {"[{\"epoch_num\": 9007199254740992}]", 9007199254740992, 0},
        {"[{\"epoch_num\": 9007199254740994}]", NO_EPOCH, 0},
    };
    const char *dir = tp_test_tmpdir();
    TEST_MAY_ERROR("");
    for (int i = 0; i < TP_COUNT(list); i++) {
        int64_t epoch = 77;
        char sentence[64], *text = NULL;
        if (!CHECK(tp_test_write(tp_test_path(dir, "stats.json"), list[i].text, strlen(list[i].text)))) return;
        const tp_status st = tp_load_existing_epoch_number(dir, &epoch);
        if (list[i].epoch >= -1) {
            CHECK_MSG(st == TP_OK && epoch == list[i].epoch, "%s: %s, epoch %lld", list[i].text, tp_status_name(st),
                      (long long)epoch);
            if (CHECK_OK(tp_load_existing_json(dir, &text))) CHECK_STR(text, list[i].text);
            tp_free(text);
            continue;
        }
        snprintf(sentence, sizeof sentence,
                 list[i].epoch == NO_LIST   ? "holds no list (byte %ld)"
                 : list[i].epoch == NO_JSON ? "is no JSON: byte %ld is unexpected"
                                            : "the epoch_num of its last record",
                 list[i].byte);
        CHECK_MSG(st == TP_ERR_FORMAT && strstr(tp_last_error(), sentence), "%s: %s, '%s' (expected '%s')",
                  list[i].text, tp_status_name(st), tp_last_error(), sentence);
        CHECK(tp_load_existing_json(dir, &text) == TP_ERR_FORMAT && !text);
    }
    char deep[200] = {0}; /* no stack overflows */
    for (int n = 65; n <= 66; n++) {
        int64_t epoch;
        memset(deep, '[', (size_t)n), memset(deep + n, ']', (size_t)n);
        CHECK(tp_test_write(tp_test_path(dir, "stats.json"), deep, 2 * (size_t)n));
        CHECK((tp_load_existing_epoch_number(dir, &epoch) == TP_OK) == (n == 65));
    }
}

/* ==== >>no memory in a hook =========================================================================== */
/* A training of one callback between two of ours: in the hooks between them, the n-th allocation fails. */

static long hook_fails, hook_used, hook_opened;
static bool watched;                     /* the callback is a monitor */
static bool stateless;                   /* nobody asks for the states */
static tp_callback *full_before_train;   /* the callback whose arena is full when its before_train is called; or NULL */
static tp_callback *(*makes_kind)(void); /* makes the callback; NULL: make(kind) */
static void hook_open(void)
{
    hook_opened = tp_test_alloc_count();
    __atomic_store_n(&tp_test__fail_at, hook_fails > hook_used ? hook_opened + hook_fails - hook_used : 0,
                     __ATOMIC_RELAXED);
}
static void hook_shut(void)
{
    if (hook_opened < 0) return;
    hook_used += tp_test_alloc_count() - hook_opened;
    hook_opened = -1;
    __atomic_store_n(&tp_test__fail_at, 0, __ATOMIC_RELAXED);
}
static tp_node *four_results(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    tp_named(tp_greater(in[0], tp_const(g, 0.5f)), "label");
    tp_named(tp_greater(in[0], tp_const(g, 0.25f)), "prediction");
    tp_named(tp_square(in[0]), "wrong");
    return tp_named(tp_reduce_sum(in[0], NULL, 0, false), "cost");
}
static tp_status first_setup(tp_callback *cb)
{
    tp_graph *g = cb->train->graph;
    static const tp_spec spec = {"x", TP_F32, {1, {2}}};
    tp_moving_summary_desc moving;
    memset(&moving, 0, sizeof moving);
    tp_name_scope_push(g, "");
    tp_collection_add(g, "mine", tp_get_scalar_variable(g, "rate", 1));
    tp_node *cost = tp_named(tp_cast(tp_get_global_step_var(g), TP_F32), "cost"), *op = tp_named(tp_const(g, 3), "op");
    tp_node *error = tp_named(tp_const(g, 2.5f), "error");
    tp_add_tensor_summary(cost, TP_SUMMARY_SCALAR, "a", "mine");
    tp_add_tensor_summary(tp_fill_like(tp_const(g, 1.f), 2), TP_SUMMARY_HISTOGRAM, "h", "mine");
    moving.collection = moving.summary_collection = "mine";
    tp_add_moving_summary_n(&error, 1, &moving);
    tp_collection_add(g, "mine", op);
    cb->train->tower_func = tp_tower_func_new(g, four_results, NULL, &spec, 1);
    tp_name_scope_pop(g);
    hook_open();
    return tp_graph_status(g);
}
static void fill_arena(tp_arena *arena)
{
    const long fired = __atomic_load_n(&tp_test__fired, __ATOMIC_RELAXED);
    __atomic_store_n(&tp_test__fail_at, tp_test_alloc_count() + 1, __ATOMIC_RELAXED);
    while (tp_arena_alloc(arena, 1)) {}
    __atomic_store_n(&tp_test__fail_at, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&tp_test__fired, fired, __ATOMIC_RELAXED);
}
static tp_status first_hook(tp_callback *cb)
{
    if (full_before_train && cb->train->session && cb->train->global_step == 0) fill_arena(&full_before_train->mem_);
    hook_open();
    return TP_OK;
}
static tp_status first_run(tp_callback *cb, tp_run_request *r)
{
    (void)cb, (void)r;
    hook_open();
    return TP_OK;
}
static tp_status first_values(tp_callback *cb, const tp_run_values *v)
{
    (void)cb, (void)v;
    hook_open();
    return TP_OK;
}
static tp_status last_hook(tp_callback *cb)
{
    (void)cb;
    hook_shut();
    return TP_OK;
}
static tp_status last_run(tp_callback *cb, tp_run_request *r)
{
    (void)cb, (void)r;
    hook_shut();
    return TP_OK;
}
static tp_status last_values(tp_callback *cb, const tp_run_values *v)
{
    (void)cb, (void)v;
    hook_shut();
    return TP_OK;
}
/* Monitors are told something of each sort. */
static tp_status first_trigger(tp_callback *cb)
{
    static const unsigned char pixels[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    tp_monitors *all = cb->train->monitors;
    tp_tensor t;
    tp_event e;
    memset(&t, 0, sizeof t), memset(&e, 0, sizeof e);
    tp_tensor_view(&t, TP_U8, tp_make_shape(2, 2, 3), pixels);
    e.field = 8, e.data = "event", e.size = 5;
    hook_open();
    tp_status st = tp_monitors_put_scalar(all, "cost", (double)cb->train->epoch_num);
    if (watched && st == TP_OK) st = tp_monitors_put_int(all, "count", 7);
    if (watched && st == TP_OK) st = tp_monitors_put_image(all, "picture", &t);
    if (watched && st == TP_OK) st = tp_monitors_put_event(all, &e);
    return st;
}
/* All states are collected behind the triggers. */
static tp_status last_trigger(tp_callback *cb)
{
    hook_shut();
    if (cb->train->epoch_num < cb->train->max_epoch || stateless) return TP_OK;
    tp_callback_request_checkpoint(cb);
    hook_open();
    return TP_OK;
}
static tp_status last_checkpoint(tp_callback *cb)
{
    hook_open();
    const tp_status st = tp_train_state_load(cb->train);
    hook_shut();
    return st;
}
static tp_callback *first_of_two(void)
{
    tp_callback *cb = tp_callback_new("First", 0);
    cb->setup_graph = first_setup;
    cb->before_train = cb->before_epoch = cb->trigger_step = cb->after_epoch = first_hook;
    cb->after_checkpoint = cb->after_train = first_hook;
    cb->trigger_epoch = first_trigger;
    cb->before_run = first_run, cb->after_run = first_values;
    return cb;
}
static void make_last(tp_callback *cb)
{
    cb->setup_graph = cb->before_train = cb->before_epoch = cb->trigger_step = cb->after_epoch = last_hook;
    cb->after_checkpoint = cb->after_train = last_hook;
    cb->trigger_epoch = last_trigger, cb->checkpoint = last_checkpoint;
    cb->before_run = last_run, cb->after_run = last_values;
}
/* Trains with one kind of callback and fails each allocation of its hooks in turn. Returns how many there were. */
static long fail_in_hooks(int kind)
{
    const bool brief = kind == DUMP || (kind >= SEND && kind <= BEST) || kind == JSON; /* files take their time */
    long failures = 0;
    stateless = kind == DUMP;
    watched = kind >= EVENTS && kind < ALL_MONITORS;
    for (long n = 0, failed = 1; failed; n++) { /* n = 0: no allocation fails */
        tp_callback *cb[3];
        tp_monitor *m[2] = {NULL, NULL};
        tp_train_desc d;
        memset(&d, 0, sizeof d);
        tp_test_logged[0] = 0;
        tp_test_fail_after(0);
        cb[0] = first_of_two(), cb[1] = makes_kind ? makes_kind() : make(kind);
        if (watched) {
            m[0] = (tp_monitor *)(void *)cb[1];
            m[1] = tp_monitor_new("Last", 0);
            make_last(&m[1]->cb);
        } else make_last(cb[2] = tp_callback_new("Last", 0));
        hook_fails = n, hook_used = 0, hook_opened = -1;
        d.callbacks = cb, d.n_callbacks = watched ? 1 : 3;
        d.monitors = m, d.n_monitors = watched ? 2 : TP_NONE;
        d.n_extra_callbacks = TP_NONE;
        d.steps_per_epoch = d.max_epoch = brief ? 1 : 2;
        tp_trainer *t = tp_noop_trainer();
        const tp_status st = tp_train(t, &d);
        failed = n == 0 || tp_test_alloc_failed();
        failures += n > 0 && failed;
        __atomic_store_n(&tp_test__fail_at, 0, __ATOMIC_RELAXED);
        tp_trainer_free(t);
        CHECK_MSG(n > 0 && failed ? st == TP_ERR_NOMEM : st == TP_OK, "kind %d, allocation %ld: %s, %s", kind, n,
                  tp_status_name(st), tp_last_error());
        const long live = tp_test_live_blocks();
        if (!CHECK_MSG(live == 0, "kind %d, allocation %ld: %ld blocks", kind, n, live)) break;
    }
    tp_test_alloc_reset();
    return failures;
}
static void fail_in_hooks_of(int first, int end)
{
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    tp_test_keep_log();
    TEST_MAY_ERROR("");
    CHECK_OK(tp_logger_set_dir(folder, 'k'));
    for (int kind = first; kind < end; kind++) {
        const long failures = fail_in_hooks(kind);
        CHECK_MSG(failures > 10, "kind %d: %ld", kind, failures);
    }
    tp_set_log(NULL, NULL);
}
TEST(hooks_of_wrappers_run_out_of_memory) { fail_in_hooks_of(LAMBDA, COUNTER); }
TEST(hooks_of_graph_callbacks_run_out_of_memory) { fail_in_hooks_of(COUNTER, BAR); }
TEST(hooks_of_progress_and_savers_run_out_of_memory) { fail_in_hooks_of(BAR, RUNNER); }
TEST(hooks_of_inference_and_setters_run_out_of_memory) { fail_in_hooks_of(RUNNER, EVENTS); }
TEST(hooks_of_monitors_run_out_of_memory) { fail_in_hooks_of(EVENTS, ALL_MONITORS); }

/* ==== >>parts that fail =============================================================================== */

/* An inferencer of our own, of which one part fails, or which has no parts at all. */
enum { NOTHING_FAILS, SETUP_FAILS, BEFORE_FAILS, FETCHES_FAIL, AFTER_FAILS, HOOK_FAILS, NO_PARTS, N_PARTS };
static int part_fails, part_calls[N_PARTS], n_closed;
static tp_status part_of(int part)
{
    part_calls[part]++;
    return part == part_fails ? tp_fail(TP_ERR_NUMERIC, "part %d fails", part) : TP_OK;
}
static tp_status inf_setup(tp_inferencer *inf) { return CHECK(inf->train != NULL) ? part_of(SETUP_FAILS) : TP_ERR; }
static tp_status inf_before(tp_inferencer *inf) { return inf ? part_of(BEFORE_FAILS) : TP_ERR; }
static tp_status inf_after(tp_inferencer *inf) { return inf ? part_of(AFTER_FAILS) : TP_ERR; }
static tp_status inf_fetches(tp_inferencer *inf, const tp_tensor *const *values, int n)
{
    CHECK(inf->n_names == 1 && n == 1 && tp_tensor_size(values[0]) == 1);
    return part_of(FETCHES_FAIL);
}
static void inf_close(tp_inferencer *inf) { n_closed += inf != NULL; }
static tp_status hook_created(tp_hook *h, tp_session *s) { return h && s ? part_of(HOOK_FAILS) : TP_ERR; }
static tp_callback *own_runner(const char *tower, const char *tensor)
{
    tp_cb_inference_runner_desc d;
    memset(&d, 0, sizeof d);
    d.df = three_pairs();
    tp_inferencer *inf = tp_inferencer_new("Mine", 0);
    CHECK_OK(tp_inferencer_set_names(inf, &tensor, 1));
    if (part_fails != NO_PARTS) {
        inf->setup_graph = inf_setup, inf->before_inference = inf_before, inf->on_fetches = inf_fetches;
        inf->after_inference = inf_after, inf->close = inf_close;
    }
    d.inferencers[0] = inf;
    d.tower_name = tower;
    return tp_cb_inference_runner_(&d);
}
static tp_status make_tower_func(tp_callback *cb)
{
    static const tp_spec spec = {"x", TP_F32, {1, {2}}};
    cb->train->tower_func = tp_tower_func_new(cb->train->graph, four_results, NULL, &spec, 1);
    return TP_OK;
}
static tp_callback *tower_maker(void)
{
    tp_callback *cb = tp_callback_new("Maker", 0);
    cb->setup_graph = make_tower_func;
    return cb;
}
static tp_hook late_hook;
static tp_status register_late(tp_callback *cb)
{
    for (int i = 0; i < cb->train->n_callbacks; i++)
        if (strcmp(cb->train->callbacks[i]->name, "InferenceRunner") == 0)
            return tp_inference_runner_register_hook(cb->train->callbacks[i], &late_hook);
    return TP_ERR;
}

/* A hook for which there is no memory is not registered, and the caller is told. */
TEST(hooks_of_a_runner_without_memory)
{
    enum { MANY = 5000 };
    static tp_hook hook;
    tp_callback *cb = own_runner(NULL, "cost");
    int n = 0;
    hook.name = "empty";
    tp_test_fail_after(1); /* the arena asks for memory when it is full */
    tp_status st = TP_OK;
    while (n < MANY && (st = tp_inference_runner_register_hook(cb, &hook)) == TP_OK && !tp_test_alloc_failed()) n++;
    CHECK_MSG(st == TP_ERR_NOMEM && tp_test_alloc_failed(), "after %d hooks: %s", n, tp_status_name(st));
    tp_test_alloc_reset();
    CHECK_OK(tp_inference_runner_register_hook(cb, &hook)); /* once there is memory again */
    CHECK_ERR(tp_inference_runner_register_hook(cb, NULL), TP_ERR_ARG, "tp_inference_runner_register_hook");
    tp_callback_free(cb);
}

/* Nor is a runner made whose towers have no names. */
TEST(names_of_towers_without_memory)
{
    static char long_name[5000];
    memset(long_name, 't', sizeof long_name - 1);
    long failures = 0;
    for (long n = 1, failed = 1; failed; n++) {
        tp_cb_data_parallel_inference_runner_desc d;
        memset(&d, 0, sizeof d);
        d.df = three_pairs();
        d.inferencers[0] = tp_inferencer_new("Mine", 0);
        d.n_devices = 3;
        d.tower_name = long_name;
        tp_test_fail_after(n);
        tp_callback *cb = tp_cb_data_parallel_inference_runner_(&d);
        failed = tp_test_alloc_failed();
        failures += failed;
        CHECK_MSG(failed ? !cb || tp_callback_status(cb) == TP_ERR_NOMEM : tp_callback_status(cb) == TP_OK,
                  "allocation %ld: %s", n, tp_status_name(tp_callback_status(cb)));
        tp_test_alloc_reset();
        tp_callback_free(cb);
    }
    CHECK_MSG(failures > 6, "%ld failures", failures);
}

/* A runner whose arena is full when training begins, so that it asks for memory again. */
static tp_callback *runner_to_fill(void) { return full_before_train = own_runner(NULL, "cost"); }
/* There is no memory for the list of its hooks: training does not begin. */
TEST(a_list_of_hooks_without_memory)
{
    tp_test_keep_log();
    TEST_MAY_ERROR("");
    part_fails = NO_PARTS;
    makes_kind = runner_to_fill;
    const long failures = fail_in_hooks(ALL_MONITORS + 1);
    makes_kind = NULL, full_before_train = NULL;
    CHECK_MSG(failures > 10, "%ld", failures);
    tp_set_log(NULL, NULL);
}

/* Whatever part of an inference fails, the training fails with its sentence, and what comes behind is not called. */
TEST(inferencers_whose_parts_fail)
{
    TEST_MAY_ERROR("");
    tp_test_keep_log();
    for (part_fails = 0; part_fails < N_PARTS; part_fails++) {
        char want[40];
        tp_hook hook[2];
        tp_callback *cb[2];
        memset(hook, 0, sizeof hook);
        memset(part_calls, 0, sizeof part_calls);
        n_closed = 0;
        hook[0].name = "empty", hook[1].name = "created", hook[1].after_create_session = hook_created;
        tp_test_fail_after(0);
        cb[0] = tower_maker(), cb[1] = own_runner(NULL, "cost");
        for (int i = 0; i < 2; i++) CHECK_OK(tp_inference_runner_register_hook(cb[1], &hook[i]));
        const tp_status st = train_with(cb, 2, NULL, 1, 2, NULL);
        snprintf(want, sizeof want, "part %d fails", part_fails);
        if (part_fails == NOTHING_FAILS || part_fails == NO_PARTS) CHECK_OK(st);
        else CHECK_ERR(st, TP_ERR_NUMERIC, want);
        static const int calls[N_PARTS][5] = {{1, 2, 6, 2, 1}, {1, 0, 0, 0, 0}, {1, 1, 0, 0, 1}, {1, 1, 1, 0, 1},
                                              {1, 1, 3, 1, 1}, {1, 0, 0, 0, 1}, {0, 0, 0, 0, 1}};
        for (int i = 0; i < 5; i++)
            CHECK_MSG(part_calls[SETUP_FAILS + i] == calls[part_fails][i], "%d fails: part %d was called %d times",
                      part_fails, SETUP_FAILS + i, part_calls[SETUP_FAILS + i]);
        CHECK(n_closed == (part_fails != NO_PARTS));
        CHECK_MSG(tp_test_live_blocks() == 0, "part %d: %ld blocks", part_fails, tp_test_live_blocks());
    }
    tp_test_alloc_reset();
    part_fails = NOTHING_FAILS;
    tp_callback *cb[4] = {own_runner(NULL, "cost"), NULL, NULL, NULL};
    CHECK_ERR(train_with(cb, 1, NULL, 1, 1, NULL), TP_ERR_STATE,
              "InferenceRunner: the trainer has no tower function: give .tower_func");
    cb[0] = tower_maker(), cb[1] = own_runner("T", "cots");
    CHECK_ERR(train_with(cb, 2, NULL, 1, 1, NULL), TP_ERR_NAME,
              "Mine: in tower 'T': Tensor cots not found in the graph");
    cb[0] = tower_maker(), cb[1] = own_runner("T", "cost"), cb[2] = own_runner("T", "cost");
    CHECK_ERR(train_with(cb, 3, NULL, 1, 1, NULL), TP_ERR_NAME,
              "InferenceRunner: a tower 'T' exists: a second runner needs another .tower_name");
    /* also if another function builds the second tower, which would find the nodes of the first */
    cb[0] = tower_maker(), cb[1] = own_runner("T", "cost"), cb[2] = tower_maker(), cb[3] = own_runner("T", "cost");
    CHECK_ERR(train_with(cb, 4, NULL, 1, 1, NULL), TP_ERR_NAME,
              "InferenceRunner: a tower 'T' exists: a second runner needs another .tower_name");
    cb[0] = tower_maker(), cb[1] = own_runner("T", "cost"), cb[2] = own_runner("U", "cost");
    CHECK_OK(train_with(cb, 3, NULL, 1, 1, NULL));
    tp_callback *late = tower_maker();
    late->trigger_step = register_late;
    cb[0] = late, cb[1] = own_runner("T", "cost");
    CHECK_ERR(train_with(cb, 2, NULL, 1, 1, NULL), TP_ERR_STATE,
              "InferenceRunner: hooks are registered before training");
    tp_set_log(NULL, NULL);
}

/* A runner whose input cannot give its tensors or its hooks fails with the sentence of the input. */
static tp_status no_tensors(tp_input_source *s, tp_node **in)
{
    (void)in;
    return tp_fail(TP_ERR_NUMERIC, "%s has no tensors", s->name);
}
static tp_status no_hooks(tp_input_source *s, tp_hook *const **hook, int *n)
{
    (void)hook, (void)n;
    return tp_fail(TP_ERR_NUMERIC, "%s has no hooks", s->name);
}
TEST(a_runner_whose_input_fails)
{
    TEST_MAY_ERROR("");
    tp_test_keep_log();
    for (int i = 0; i < 3; i++) {
        tp_input_source *input =
            i < 2 ? tp_feed_input(three_pairs()) : tp_dummy_constant_input(&(const tp_shape){1, {2}}, 1);
        if (i) input->hooks = no_hooks;
        else input->get_input_tensors = no_tensors;
        tp_callback *cb[2] = {tower_maker(),
                              tp_cb_inference_runner(.input = input, .inferencers = {tp_inf_scalar_stats({"cost"})})};
        CHECK_ERR(train_with(cb, 2, NULL, 1, 1, NULL), TP_ERR_NUMERIC, i ? "has no hooks" : "has no tensors");
    }
    tp_set_log(NULL, NULL);
}

/* -- what is wrapped fails */

enum {
    IN_SETUP,
    IN_BEFORE_TRAIN,
    IN_BEFORE_EPOCH,
    IN_BEFORE_RUN,
    IN_AFTER_RUN,
    IN_STEP,
    IN_AFTER_EPOCH,
    IN_TRIGGER,
    N_INS
};
static int hook_that_fails;
static tp_status in_hook(int hook)
{
    return hook == hook_that_fails ? tp_fail(TP_ERR_NUMERIC, "hook %d fails", hook) : TP_OK;
}
static tp_status in_setup(tp_callback *cb) { return cb ? in_hook(IN_SETUP) : TP_ERR; }
static tp_status in_before_train(tp_callback *cb) { return cb ? in_hook(IN_BEFORE_TRAIN) : TP_ERR; }
static tp_status in_before_epoch(tp_callback *cb) { return cb ? in_hook(IN_BEFORE_EPOCH) : TP_ERR; }
static tp_status in_before_run(tp_callback *cb, tp_run_request *r) { return cb && r ? in_hook(IN_BEFORE_RUN) : TP_ERR; }
static tp_status in_after_run(tp_callback *cb, const tp_run_values *v)
{
    return cb && v ? in_hook(IN_AFTER_RUN) : TP_ERR;
}
static tp_status in_step(tp_callback *cb) { return cb ? in_hook(IN_STEP) : TP_ERR; }
static tp_status in_after_epoch(tp_callback *cb) { return cb ? in_hook(IN_AFTER_EPOCH) : TP_ERR; }
static tp_status in_trigger(tp_callback *cb) { return cb ? in_hook(IN_TRIGGER) : TP_ERR; }
static bool always(tp_callback *cb, void *user) { return cb != NULL && user == NULL; }

/* The error of a callback goes through whatever is around it, and names the training's end. */
TEST(errors_go_through_wrappers)
{
    TEST_MAY_ERROR("");
    tp_test_keep_log();
    for (int around = 0; around < 6; around++) /* a proxy, PeriodicTrigger in two ways, EnableCallbackIf, ... a group */
        for (hook_that_fails = 0; hook_that_fails <= N_INS; hook_that_fails++) {
            tp_cb_periodic_trigger_desc t;
            tp_cb_enable_if_desc e;
            tp_cb_periodic_callback_desc p;
            char want[40];
            memset(&t, 0, sizeof t), memset(&e, 0, sizeof e), memset(&p, 0, sizeof p);
            tp_test_fail_after(0);
            tp_callback *in = tp_callback_new("Inner", 0), *cb = NULL;
            in->setup_graph = in_setup, in->before_train = in_before_train, in->before_epoch = in_before_epoch;
            in->before_run = in_before_run, in->after_run = in_after_run, in->trigger_step = in_step;
            in->after_epoch = in_after_epoch, in->trigger = in_trigger;
            t.cb = e.cb = p.cb = in;
            t.every_k_steps = around == 1, t.every_k_epochs = around == 2, t.before_train = around == 2;
            e.pred = always, p.every_k_epochs = 1;
            if (around == 0) cb = tp_cb_proxy(in);
            else if (around <= 2) cb = tp_cb_periodic_trigger_(&t);
            else if (around == 3) cb = tp_cb_enable_if_(&e);
            else if (around == 4) cb = tp_cb_periodic_callback_(&p);
            else cb = tp_cb_group(&in, 1);
            const tp_status st = train_with(&cb, 1, NULL, 2, 1, NULL);
            snprintf(want, sizeof want, "hook %d fails", hook_that_fails);
            if (hook_that_fails == N_INS) CHECK_OK(st);
            else
                CHECK_MSG(st == TP_ERR_NUMERIC && strstr(tp_last_error(), want), "around %d, %s: %s, %s", around, want,
                          tp_status_name(st), tp_last_error());
            CHECK_MSG(tp_test_live_blocks() == 0, "around %d, %s", around, want);
        }
    tp_test_alloc_reset();
    tp_set_log(NULL, NULL);
}

static void end_keeps_session(tp_hook *h, tp_session *session) { *(tp_session **)h->user = session; }
static tp_session *session_before;
static tp_status keep_session(tp_callback *cb)
{
    session_before = cb->train->session;
    return TP_OK;
}
/* The end of a hook gets the session of the training. */
TEST(the_end_of_a_hook_has_the_session)
{
    tp_session *at_end = NULL;
    tp_hook hook;
    memset(&hook, 0, sizeof hook);
    hook.end = end_keeps_session, hook.user = &at_end;
    tp_callback *cb[2] = {tp_cb_hook(&hook), tp_callback_new("Keep", 0)};
    cb[1]->before_train = keep_session;
    CHECK_OK(train_with(cb, 2, NULL, 2, 1, NULL));
    CHECK(at_end != NULL && at_end == session_before);
}

/* A hook of no functions does nothing; it stands for a callback of its name, or of none. */
TEST(empty_hooks)
{
    tp_hook hook[2];
    tp_callback *cb[2];
    memset(hook, 0, sizeof hook);
    hook[1].name = "Named";
    for (int i = 0; i < 2; i++) cb[i] = tp_cb_hook(&hook[i]);
    CHECK_STR(cb[0]->name, "HookToCallback");
    CHECK_STR(cb[1]->name, "Named");
    tp_test_keep_log();
    CHECK_OK(train_with(cb, 2, NULL, 2, 1, NULL));
    CHECK(!strstr(tp_test_logged, "Named"));
    tp_set_log(NULL, NULL);
}

/* -- parameters whose functions fail */

enum { GET_FAILS = 1, SET_FAILS, PARAM_SETUP_FAILS };
static int param_fails;
static double param_value;
static tp_status bad_get(tp_hyper_param *p, double *value)
{
    *value = param_value;
    return param_fails == GET_FAILS ? tp_fail(TP_ERR_IO, "no %s to read", p->name) : TP_OK;
}
static tp_status bad_set(tp_hyper_param *p, double value)
{
    if (param_fails == SET_FAILS) return tp_fail(TP_ERR_IO, "no %s to write", p->name);
    param_value = value;
    return TP_OK;
}
static tp_status bad_setup(tp_hyper_param *p)
{
    return param_fails == PARAM_SETUP_FAILS ? tp_fail(TP_ERR_IO, "no %s to set up", p->name) : TP_OK;
}
static tp_status set_nine(tp_callback *cb, void *user, double *value, bool *set)
{
    (void)cb, (void)user;
    *value = 9, *set = true;
    return TP_OK;
}
static double func_nine(int64_t epoch, double old, void *user) { return epoch < 0 || user ? old : 9; }
static tp_status stat_nine(double *value, void *user)
{
    *value = user ? 0 : 9;
    return TP_OK;
}
static tp_status stat_stops(double *value, void *user)
{
    (void)user;
    *value = 5;
    return TP_STOP;
}
static tp_callback *nine_setter(int kind, tp_hyper_param *p, tp_status (*stat)(double *, void *))
{
    tp_cb_hyper_param_setter_desc s;
    tp_cb_human_hyper_param_setter_desc h;
    tp_cb_scheduled_hyper_param_setter_desc c;
    tp_cb_hyper_param_setter_with_func_desc f;
    tp_cb_stat_monitor_param_setter_desc m;
    memset(&s, 0, sizeof s), memset(&h, 0, sizeof h), memset(&c, 0, sizeof c);
    memset(&f, 0, sizeof f), memset(&m, 0, sizeof m);
    s.param = h.param = c.param = f.param = m.param = p;
    s.fn = set_nine, f.fn = func_nine, m.fn = stat, m.stat_name = "cost", m.last_k = 1;
    c.schedule[0].at = 0, c.schedule[0].value = 9, c.n_schedule = 1;
    return kind == SETTER     ? tp_cb_hyper_param_setter_(&s)
           : kind == HUMAN    ? tp_cb_human_hyper_param_setter_(&h)
           : kind == SCHEDULE ? tp_cb_scheduled_hyper_param_setter_(&c)
           : kind == FUNC     ? tp_cb_hyper_param_setter_with_func_(&f)
                              : tp_cb_stat_monitor_param_setter_(&m);
}
TEST(parameters_whose_functions_fail)
{
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    snprintf(hyper_path, sizeof hyper_path, "%s/hyper.txt", folder);
    CHECK_OK(tp_logger_set_dir(folder, 'k'));
    CHECK(tp_test_write(hyper_path, "lr: 9", 5));
    tp_test_keep_log();
    for (int kind = SETTER; kind <= STAT; kind++)
        for (param_fails = 0; param_fails <= PARAM_SETUP_FAILS; param_fails++) {
            tp_monitors *all = tp_monitors_new(NULL, 0);
            tp_train_state train = by_hand(NULL, all);
            tp_hyper_param *p = tp_hyper_param_new("lr", 0);
            tp_dict d;
            memset(&d, 0, sizeof d);
            p->setup_graph = bad_setup, p->get_value = bad_get, p->set_value = bad_set;
            param_value = 4;
            CHECK_OK(tp_callback_setup_graph(&all->cb, &train));
            CHECK_OK(tp_monitors_put_scalar(all, "cost", 1));
            tp_callback *cb = nine_setter(kind, p, stat_nine);
            CHECK_OK(tp_callback_status(cb));
            const tp_status setup = tp_callback_setup_graph(cb, &train);
            if (param_fails == PARAM_SETUP_FAILS) CHECK_ERR(setup, TP_ERR_IO, "no lr to set up");
            else {
                const tp_status before = kind == STAT ? tp_callback_trigger(cb) : tp_callback_before_train(cb),
                                saved = tp_callback_save_state(cb, &d, "p/");
                if (param_fails == GET_FAILS) {
                    CHECK(before == TP_ERR_IO && saved == TP_ERR_IO && d.n == 0);
                    CHECK_ERR(tp_callback_trigger(cb), TP_ERR_IO, "no lr to read");
                } else if (param_fails == SET_FAILS) {
                    CHECK_MSG(before == TP_ERR_IO, "kind %d: %s", kind, tp_status_name(before));
                    CHECK_ERR(tp_callback_load_state(cb, &d, "p/"), TP_ERR_IO, "no lr to write");
                } else {
                    CHECK(before == TP_OK && saved == TP_OK);
                    param_value = 4;
                    CHECK_OK(tp_callback_load_state(cb, &d, "p/"));
                }
                CHECK_MSG(param_value == (param_fails ? 4 : 9), "kind %d, %d: %g", kind, param_fails, param_value);
            }
            tp_dict_free(&d);
            tp_callback_free(cb);
            tp_callback_free(&all->cb);
        }
    param_fails = 0;
    tp_set_log(NULL, NULL);
}

/* One that has an owner is refused by all others, whatever else is wrong with them, and stays with its owner. */
static int n_params_closed;
static void close_param(tp_hyper_param *p) { n_params_closed += p != NULL; }
TEST(parameters_have_one_owner)
{
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    CHECK_OK(tp_logger_set_dir(folder, 'k'));
    tp_test_keep_log();
    tp_test_fail_after(0);
    tp_hyper_param *p = tp_hyper_param_new("lr", 0);
    p->get_value = bad_get, p->set_value = bad_set, p->close = close_param;
    n_params_closed = 0;
    tp_callback *owner = nine_setter(SETTER, p, stat_nine);
    for (int kind = SETTER; kind <= STAT; kind++) {
        tp_callback *cb = nine_setter(kind, p, stat_nine);
        CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, "lr");
        tp_callback_free(cb);
    }
    tp_cb_hyper_param_setter_desc s;
    tp_cb_scheduled_hyper_param_setter_desc c;
    tp_cb_hyper_param_setter_with_func_desc f;
    tp_cb_stat_monitor_param_setter_desc m;
    memset(&s, 0, sizeof s), memset(&c, 0, sizeof c), memset(&f, 0, sizeof f), memset(&m, 0, sizeof m);
    s.param = c.param = f.param = m.param = p;
    c.schedule[0].at = c.schedule[1].at = 4, c.n_schedule = 2;
    tp_callback *cb[5] = {tp_cb_hyper_param_setter_(&s), tp_cb_scheduled_hyper_param_setter_(&c),
                          tp_cb_hyper_param_setter_with_func_(&f), tp_cb_stat_monitor_param_setter_(&m), NULL};
    c.n_schedule = -1, cb[4] = tp_cb_scheduled_hyper_param_setter_(&c);
    static const char *const sentence[] = {"HyperParamSetter: .fn is missing", "lr is given away twice",
                                           "HyperParamSetterWithFunc: .fn is missing",
                                           "give .stat_name, .fn and .last_k", "give a .schedule"};
    for (int i = 0; i < 5; i++) {
        CHECK_ERR(tp_callback_status(cb[i]), TP_ERR_ARG, sentence[i]);
        tp_callback_free(cb[i]);
    }
    CHECK(n_params_closed == 0);
    tp_callback_free(owner);
    CHECK(n_params_closed == 1 && tp_test_live_blocks() == 0);
    tp_test_alloc_reset();
    tp_set_log(NULL, NULL);
}

/* The statistic's function may end the training; nothing is set then. Without a graph no variable is found. */
TEST(parameters_that_are_not_set)
{
    tp_monitors *all = tp_monitors_new(NULL, 0);
    tp_train_state train = by_hand(NULL, all);
    tp_hyper_param *p = tp_hyper_param_new("lr", 0);
    p->get_value = bad_get, p->set_value = bad_set;
    param_value = 4;
    tp_test_keep_log();
    CHECK_OK(tp_callback_setup_graph(&all->cb, &train));
    CHECK_OK(tp_monitors_put_scalar(all, "cost", 1));
    tp_callback *cb = nine_setter(STAT, p, stat_stops);
    CHECK_OK(tp_callback_setup_graph(cb, &train));
    CHECK(tp_callback_trigger(cb) == TP_STOP && param_value == 4);
    tp_callback_free(cb);
    cb = setter(SETTER); /* "rate" */
    CHECK_ERR(tp_callback_setup_graph(cb, &train), TP_ERR_NAME, "rate:0 is not a variable in the graph!");
    CHECK(tp_callback_find(cb, "cost") == NULL);
    CHECK_HAS(tp_last_error(), "Tensor cost not found in the graph");
    tp_callback_free(cb);

    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir()); /* a file that is none, and one that changes */
    CHECK_OK(tp_logger_set_dir(folder, 'k'));
    snprintf(hyper_path, sizeof hyper_path, "%s/hyper.txt", folder);
    double field = 4;
    tp_dict d;
    memset(&d, 0, sizeof d);
    CHECK(mkdir(hyper_path, 0777) == 0);
    cb = setter_of(HUMAN, 0, &field);
    CHECK_OK(tp_callback_setup_graph(cb, &train));
    CHECK_OK(tp_callback_before_train(cb));
    CHECK(field == 4);
    CHECK(rmdir(hyper_path) == 0);
    for (int i = 0; i < 4;
         i++) { /* the same, another one, and none at all; it is set again only if it is another one */
        static const char *const text[] = {"lr: 6", "lr: 6", "lr: 7", "other: 8"};
        static const double want[] = {6, 5, 7, 5};
        CHECK(tp_test_write(hyper_path, text[i], strlen(text[i])));
        if (i) {
            tp_callback_free(cb);
            cb = setter_of(HUMAN, 0, &field);
            CHECK_OK(tp_callback_setup_graph(cb, &train));
            CHECK_OK(tp_callback_load_state(cb, &d, "p/"));
            cb->resumed = true;
            field = 5;
        }
        CHECK_OK(tp_callback_before_train(cb));
        CHECK_MSG(field == want[i], "%d: %g", i, field);
        if (!i) CHECK_OK(tp_callback_save_state(cb, &d, "p/"));
    }
    tp_dict_free(&d);
    tp_callback_free(cb);
    tp_callback_free(&all->cb);
    tp_set_log(NULL, NULL);
}

/* -- monitors that fail */

static int monitor_calls;
static tp_status fail_scalar(tp_monitor *m, const char *name, const tp_stat *s)
{
    (void)m, (void)s;
    monitor_calls++;
    return tp_fail(TP_ERR_IO, "scalar %s is refused", name);
}
static tp_status fail_image(tp_monitor *m, const char *name, const tp_tensor *t)
{
    (void)m, (void)t;
    monitor_calls++;
    return tp_fail(TP_ERR_IO, "image %s is refused", name);
}
static tp_status fail_event(tp_monitor *m, const tp_event *e)
{
    (void)m;
    monitor_calls++;
    return tp_fail(TP_ERR_IO, "event %d is refused", e->field);
}
static tp_status fail_summary(tp_monitor *m, const tp_summary *s)
{
    (void)m;
    monitor_calls++;
    return tp_fail(TP_ERR_IO, "%d values are refused", s->n);
}
static tp_monitor *failing_monitor(int which)
{
    tp_monitor *m = tp_monitor_new("Failing", 0);
    if (which == 0) m->process_scalar = fail_scalar;
    if (which == 1) m->process_image = fail_image;
    if (which == 2) m->process_event = fail_event;
    if (which == 3) m->process_summary = fail_summary;
    return m;
}
/* What one monitor refuses is not shown to the next one, and is no history. */
TEST(monitors_that_fail)
{
    for (int which = 0; which < 4; which++) {
        static const char *const sentence[] = {"scalar cost is refused", "image picture is refused",
                                               "event 8 is refused", "1 values are refused"};
        tp_monitor *m[2] = {failing_monitor(which), failing_monitor(which)};
        tp_monitors *all = tp_monitors_new(m, 2);
        const tp_stat *stat;
        tp_tensor t;
        tp_event e;
        tp_status st = TP_OK;
        memset(&t, 0, sizeof t), memset(&e, 0, sizeof e);
        e.field = 8, e.data = "x", e.size = 1;
        CHECK_OK(tp_tensor_resize(&t, TP_U8, tp_make_shape(2, 2)));
        monitor_calls = 0;
        if (which == 0 || which == 3) st = tp_monitors_put_scalar(all, "cost", 2);
        if (which == 1) st = tp_monitors_put_image(all, "picture", &t);
        if (which == 2) st = tp_monitors_put_event(all, &e);
        CHECK_ERR(st, TP_ERR_IO, sentence[which]);
        CHECK(monitor_calls == 1);
        if (which == 0) CHECK(tp_monitors_get_history(all, "cost", &stat) == 0);
        if (which == 0) { /* a mean that nobody takes */
            tp_graph *g = tp_graph_new(NULL);
            tp_cb_simple_moving_average_desc d;
            memset(&d, 0, sizeof d);
            tp_named(tp_const(g, 0), "a"), tp_named(tp_const(g, 0), "b");
            d.names[0] = "a", d.names[1] = "b", d.window_size = 1;
            tp_train_state train = by_hand(g, all);
            tp_callback *cb = tp_cb_simple_moving_average_(&d);
            CHECK_OK(tp_callback_setup_graph(&all->cb, &train));
            CHECK_OK(tp_callback_setup_graph(cb, &train));
            give_values(cb, 1);
            CHECK_ERR(tp_callback_trigger_step(cb), TP_ERR_IO, "scalar a/SMA is refused");
            CHECK(monitor_calls == 2);
            tp_callback_free(cb);
            tp_graph_free(g);
        }
        tp_tensor_free(&t);
        tp_callback_free(&all->cb);
        for (int i = 0; i < 2; i++) tp_monitor_free(m[i]);
    }
}

/* ==== >>odd states ==================================================================================== */

/* A saver's list of 40 checkpoints, with and without what stays of them (older versions wrote none), comes back. */
TEST(a_saver_of_many_checkpoints)
{
    tp_train_state train = by_hand(NULL, NULL);
    for (int way = 0; way < 3; way++) { /* all of it; no "stays"; one that is too short */
        int64_t kept[40], stays[41];
        tp_dict d, again;
        memset(&d, 0, sizeof d), memset(&again, 0, sizeof again);
        for (int i = 0; i < 41; i++) stays[i] = i % 3 ? -1 : 1;
        for (int i = 0; i < 40; i++) kept[i] = 10 * i + 3;
        CHECK_OK(tp_state_put_i64(&d, "p/", "kept", kept, 40));
        if (way != 1) CHECK_OK(tp_state_put_i64(&d, "p/", "stays", stays, way ? 40 : 41));
        snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
        tp_callback *cb = progress(SAVER);
        CHECK_OK(tp_callback_setup_graph(cb, &train));
        CHECK_OK(tp_callback_load_state(cb, &d, "p/"));
        CHECK_OK(tp_callback_save_state(cb, &again, "p/"));
        int64_t got[40], stay[41];
        memset(got, 0, sizeof got), memset(stay, 0, sizeof stay);
        CHECK(tp_state_get_i64(&again, "p/", "kept", got, 40) && tp_state_get_i64(&again, "p/", "stays", stay, 41));
        CHECK(memcmp(got, kept, sizeof kept) == 0);
        if (way == 0) CHECK(memcmp(stay, stays, 40 * sizeof *stay) == 0);
        tp_callback_free(cb);
        tp_dict_free(&d), tp_dict_free(&again);
    }
}

/* A checkpoint lists older checkpoints and, last, itself. Whether it is to stay holds after a resume from it, even if it is the
 * first one. */
TEST(a_checkpoint_that_stays_after_a_resume)
{
    for (int older = 0; older < 3; older++)
        for (int way = 0; way < 3; way++) { /* it does not stay; it does; it does not say */
            tp_train_state train = by_hand(NULL, NULL);
            int64_t kept[3] = {3, 5, 7}, stays[3] = {-1, -1, -1}, got[3] = {0, 0, 0}, stay[4] = {0, 0, 0, 0};
            char path[400];
            tp_cb_model_saver_desc saver;
            memset(&saver, 0, sizeof saver);
            tp_dict d, again;
            memset(&d, 0, sizeof d), memset(&again, 0, sizeof again);
            snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
            stays[older] = way == 1 ? 1 : -1;
            CHECK_OK(tp_state_put_i64(&d, "p/", "kept", kept, older));
            if (way < 2) CHECK_OK(tp_state_put_i64(&d, "p/", "stays", stays, older + 1));
            train.global_step = kept[older];
            snprintf(path, sizeof path, "%s/model-%d.npz", folder, (int)kept[older]);
            CHECK(tp_test_write(path, "x", 1));
            saver.checkpoint_dir = folder;
            tp_callback *cb = tp_cb_model_saver_(&saver);
            CHECK_OK(tp_callback_setup_graph(cb, &train));
            CHECK_OK(tp_callback_load_state(cb, &d, "p/"));
            cb->resumed = true;
            CHECK_OK(tp_callback_before_train(cb));
            CHECK_OK(tp_callback_save_state(cb, &again, "p/"));
            CHECK(tp_state_get_i64(&again, "p/", "kept", got, older + 1) &&
                  tp_state_get_i64(&again, "p/", "stays", stay, older + 2));
            CHECK_MSG(got[older] == kept[older] && stay[older] == (way == 1 ? 1 : -1), "%d older, way %d: %d stays: %d",
                      older, way, (int)got[older], (int)stay[older]);
            tp_callback_free(cb);
            tp_dict_free(&d), tp_dict_free(&again);
        }
}

/* What stands where an old checkpoint was cannot be deleted: a warning, and the newer ones are written all the same. */
static tp_status block_checkpoint(tp_callback *cb)
{
    char path[400];
    snprintf(path, sizeof path, "%s/model-1.npz", folder);
    if (cb->train->epoch_num != 2) return TP_OK;
    CHECK(remove(path) == 0 && mkdir(path, 0777) == 0);
    snprintf(path, sizeof path, "%s/model-1.npz/file", folder);
    CHECK(tp_test_write(path, "x", 1));
    return TP_OK;
}
TEST(old_checkpoints_that_cannot_be_deleted)
{
    tp_cb_model_saver_desc s;
    char path[400];
    memset(&s, 0, sizeof s);
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    s.checkpoint_dir = folder, s.max_to_keep = 1;
    tp_callback *cb[2] = {tp_callback_new("Block", 0), tp_cb_model_saver_(&s)};
    cb[0]->trigger = block_checkpoint;
    tp_test_keep_log();
    CHECK_OK(train_with(cb, 2, NULL, 1, 3, NULL));
    CHECK_HAS(tp_test_logged, "/model-1.npz' is not deleted: ");
    for (int i = 1; i <= 3; i++) {
        snprintf(path, sizeof path, "%s/model-%d.npz", folder, i);
        CHECK_MSG(tp_file_exists(path) == (i != 2), "%d", i);
    }
    tp_set_log(NULL, NULL);
}

/* A best model that was lost before a resume is still lost after it; one whose file is gone is not there any more. */
TEST(best_models_that_are_lost)
{
    static const double best[3] = {0.25, 0.5, 0.125};
    static const int64_t step[6] = {1, 40, 1, 20, 1, 60};
    for (int way = 0; way < 4;
         way++) { /* the file is there; it is not; nothing was lost; half of the state is missing */
        tp_train_state train = by_hand(NULL, NULL);
        tp_dict d, again;
        int64_t has[6] = {1, 40, 1, 20, way != 2, 60}, got[6] = {9, 9, 9, 9, 9, 9};
        double value[3] = {9, 9, 9};
        char path[400];
        memset(&d, 0, sizeof d), memset(&again, 0, sizeof again);
        snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
        snprintf(path, sizeof path, "%s/best.npz", folder);
        if (way != 1) CHECK(tp_test_write(path, "x", 1));
        CHECK_OK(tp_state_put_f64(&d, "p/", "best", best, 3));
        if (way != 3) CHECK_OK(tp_state_put_i64(&d, "p/", "step", has, 6));
        tp_callback *cb = progress(BEST);
        CHECK_OK(tp_callback_setup_graph(cb, &train));
        CHECK_OK(tp_callback_load_state(cb, &d, "p/"));
        CHECK((cb->unsaved != NULL) == (way < 2));
        if (cb->unsaved) {
            CHECK_HAS(cb->unsaved, "the best model (global_step=60, cost=0.125) was not saved in '");
            CHECK_HAS(cb->unsaved, "': its checkpoint could not be written");
        }
        CHECK_OK(tp_callback_save_state(cb, &again, "p/"));
        CHECK(tp_state_get_i64(&again, "p/", "step", got, 6) && tp_state_get_f64(&again, "p/", "best", value, 3));
        for (int i = 0; i < 3; i++) {
            const bool have = way != 3 && (i == 0 || (i == 1 ? way != 1 : way != 2));
            CHECK_MSG(got[2 * i] == have && got[2 * i + 1] == (have ? step[2 * i + 1] : 0) &&
                          value[i] == (have ? best[i] : 0),
                      "way %d, %d: %d, %d, %g", way, i, (int)got[2 * i], (int)got[2 * i + 1], value[i]);
        }
        tp_callback_free(cb);
        tp_dict_free(&d), tp_dict_free(&again);
    }
}

/* Numbers of any sort in a record become history; texts, lists and words do not; records of no step do not either. */
TEST(records_become_history)
{
    static const char text[] = "[{\"early\": 5}, {\"start\": 6, \"global_step\": 0}, "
                               "{\"a\": NaN, \"b\": Infinity, \"c\": -Infinity, \"d\": \"text\", \"e\": [1], "
                               "\"f\": {\"g\": 2}, \"h\": true, \"i\": null, \"j\": false, \"k\": 2, \"l\": 2.5, "
                               "\"m\": -3e2, \"q\\\"uote\": 4, \"epoch_num\": 1, \"global_step\": 3}, "
                               "{\"k\": 8, \"epoch_num\": 2, \"global_step\": 6}]";
    static const char *const none[] = {"d", "e", "f", "g", "h", "i", "j", "epoch_num", "global_step"};
    char longest[900], path[400];
    const tp_stat *stat = NULL;
    tp_train_state train = by_hand(NULL, NULL);
    tp_monitors *all;
    tp_dict empty;
    memset(&empty, 0, sizeof empty);
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    snprintf(path, sizeof path, "%s/stats.json", folder);
    CHECK_OK(tp_logger_set_dir(folder, 'k'));
    CHECK(tp_test_write(path, text, strlen(text)));
    tp_test_keep_log();
    tp_monitor *m = begin_json(&all, &train, &empty, 3);
    CHECK(tp_monitors_get_history(all, "early", &stat) == 1 && stat->step == 0);
    CHECK(tp_monitors_get_history(all, "start", &stat) == 1 && stat->step == 0);
    CHECK(tp_monitors_get_history(all, "a", &stat) == 1 && stat->value != stat->value && !stat->is_int);
    CHECK(tp_monitors_get_history(all, "b", &stat) == 1 && isinf(stat->value) && stat->value > 0 && !stat->is_int);
    CHECK(tp_monitors_get_history(all, "c", &stat) == 1 && isinf(stat->value) && stat->value < 0);
    CHECK(tp_monitors_get_history(all, "k", &stat) == 1 && stat->value == 2 && stat->is_int && stat->step == 3);
    CHECK(tp_monitors_get_history(all, "l", &stat) == 1 && stat->value == 2.5 && !stat->is_int);
    CHECK(tp_monitors_get_history(all, "m", &stat) == 1 && stat->value == -300);
    CHECK(tp_monitors_get_history(all, "q\"uote", &stat) == 1 && stat->value == 4);
    for (int i = 0; i < TP_COUNT(none); i++)
        CHECK_MSG(tp_monitors_get_history(all, none[i], &stat) == 0, "%s", none[i]);
    end_json(m, all);

    snprintf(longest, sizeof longest, "[{\"%0700d\": 1, \"epoch_num\": 5, \"global_step\": 3}]", 7);
    int64_t epoch = -1;
    CHECK(tp_test_write(path, longest, strlen(longest)));
    CHECK_OK(tp_load_existing_epoch_number(NULL, &epoch)); /* the logger's */
    CHECK(epoch == 5);
    snprintf(longest, sizeof longest, "[{\"a\": %070d}]", 1);
    CHECK(tp_test_write(path, longest, strlen(longest)));
    CHECK_ERR(tp_load_existing_epoch_number(folder, &epoch), TP_ERR_FORMAT, "is no JSON");
    tp_set_log(NULL, NULL);
}

/* A checkpoint holds the records that stats.json does not have yet. After a resume they replace the records that the file has of
 * the same epochs. */
TEST(unwritten_records_replace_those_of_the_file)
{
    static const char first[] = "[{\"k\": 1, \"epoch_num\": 1, \"global_step\": 3}",
                      ours[] = "{\"k\": 2, \"epoch_num\": 2, \"global_step\": 6}",
                      theirs[] = "{\"k\": 7, \"epoch_num\": 2, \"global_step\": 6}";
    for (int way = 0; way < 3; way++) { /* behind the first record; the file is gone; the file is no JSON */
        char want[400], path[400];
        const tp_stat *stat = NULL;
        const int64_t written = way == 0 ? (int64_t)strlen(first) : 0;
        tp_train_state train = by_hand(NULL, NULL);
        tp_monitors *all;
        tp_dict d;
        memset(&d, 0, sizeof d);
        snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
        snprintf(path, sizeof path, "%s/stats.json", folder);
        CHECK_OK(tp_logger_set_dir(folder, 'k'));
        snprintf(want, sizeof want, "%s, %s]", first, theirs);
        if (way == 0) CHECK(tp_test_write(path, want, strlen(want)));
        if (way == 2) CHECK(tp_test_write(path, "[{", 2));
        CHECK_OK(tp_state_put_i64(&d, "p/", "written", &written, 1));
        tp_tensor *t = tp_dict_add(&d, "p/unwritten");
        CHECK_OK(tp_tensor_resize(t, TP_U8, tp_make_shape((int64_t)strlen(ours))));
        memcpy(t->data, ours, strlen(ours));
        tp_test_keep_log();
        tp_monitor *m = begin_json(&all, &train, &d, 6);
        snprintf(want, sizeof want, "%s%s%s]", way == 0 ? first : "[", way == 0 ? ", " : "", ours);
        check_json(want, __LINE__);
        const int n = way == 0 ? 2 : 1;
        CHECK(tp_monitors_get_history(all, "k", &stat) == n && stat[n - 1].value == 2 && stat[n - 1].step == 6);
        if (way == 2) CHECK_HAS(tp_test_logged, "The old file is now '");
        end_json(m, all);
        tp_dict_free(&d);
    }
    tp_set_log(NULL, NULL);
}

/* A moving average takes nothing over from a state that is none. */
TEST(moving_averages_of_no_state)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_named(tp_const(g, 0), "a"), tp_named(tp_const(g, 0), "b");
    for (int way = 0; way < 3; way++) {
        static const int64_t seen[] = {-1, 5, 1};
        static const double window[2] = {3, 4};
        tp_cb_simple_moving_average_desc d;
        tp_train_state train = by_hand(g, NULL);
        tp_dict saved, again;
        int64_t n = 9;
        memset(&d, 0, sizeof d), memset(&saved, 0, sizeof saved), memset(&again, 0, sizeof again);
        d.names[0] = "a", d.names[1] = "b", d.window_size = 3;
        tp_callback *cb = tp_cb_simple_moving_average_(&d);
        CHECK_OK(tp_callback_setup_graph(cb, &train));
        CHECK_OK(tp_state_put_i64(&saved, "p/", "seen", &seen[way], 1));
        if (way == 2) CHECK_OK(tp_state_put_f64(&saved, "p/", "window", window, 2));
        CHECK_OK(tp_callback_load_state(cb, &saved, "p/"));
        CHECK_OK(tp_callback_save_state(cb, &again, "p/"));
        CHECK(tp_state_get_i64(&again, "p/", "seen", &n, 1));
        const tp_tensor *ring = tp_dict_find(&again, "p/window");
        CHECK(ring && tp_tensor_size(ring) == (way == 2 ? 2 : 0));
        if (way == 2 && ring) CHECK(n == 1 && tp_tensor_get(ring, 0) == 3 && tp_tensor_get(ring, 1) == 4);
        tp_callback_free(cb);
        tp_dict_free(&saved), tp_dict_free(&again);
    }
    tp_graph_free(g);
}

/* ==== >>what is shown ================================================================================= */

static const char *const no_formats[] = {"{x:x}",  "{x:d}",    "{n:.2d}",    "{x:5q}", "{x:5ff}",
                                         "{x:<<}", "{x:1111}", "{x:.1111f}", "{n:.0d}"};

/* SendStat writes the statistics into its command, in the form that Python's format() gives. */
TEST(numbers_in_commands)
{
    static const struct {
        const char *name, *spec, *want;
    } list[] = {{"n", ":d", "42"},
                {"n", ":5d", "   42"},
                {"n", ":<5d", "42   "},
                {"n", ":>5d", "   42"},
                {"n", ":05d", "00042"},
                {"n", ":+d", "+42"},
                {"n", ": d", " 42"},
                {"n", ":-d", "42"},
                {"n", ":+", "+42"},
                {"n", ":06", "000042"},
                {"n", ":4", "  42"},
                {"n", ":", "42"},
                {"n", ":.1f", "42.0"},
                {"n", ":g", "42"},
                {"x", ":e", "3.141590e+00"},
                {"x", ":.0f", "3"},
                {"x", ":#.0f", "3."},
                {"x", ":F", "3.141590"},
                {"x", ":G", "3.14159"},
                {"x", ":.3", "3.14"},
                {"x", ":8", " 3.14159"},
                {"x", ":<10.2f", "3.14      "},
                {"x", ":+.1e", "+3.1e+00"},
                {"q", ":%", "25.000000%"},
                {"q", ":8.1%", "   25.0%"},
                {"q", ":.0%", "25%"},
                {"big", ":G", "1E+10"},
                {"big", ":E", "1.000000E+10"},
                {"n", ":.0", "4e+01"},
                {"n", ":.1", "4e+01"},
                {"n", ":.2", "42"},
                {"x", ":.0", "3"},
                {"n", ":9", "       42"},
                {"n", ":019", "0000000000000000042"},
                {"x", ":.9f", "3.141590000"},
                {"q", ":.19f", "0.2500000000000000000"}};
    char file[300], command[4000], want[2000] = "";
    snprintf(file, sizeof file, "%s/numbers", tp_test_tmpdir());
    tp_monitors *all = tp_monitors_new(NULL, 0);
    tp_train_state train = by_hand(NULL, all);
    size_t at = (size_t)snprintf(command, sizeof command, "printf '%%s' '");
    CHECK_OK(tp_callback_setup_graph(&all->cb, &train));
    CHECK_OK(tp_monitors_put_int(all, "n", 42));
    CHECK_OK(tp_monitors_put_scalar(all, "x", 3.14159));
    CHECK_OK(tp_monitors_put_scalar(all, "q", 0.25));
    CHECK_OK(tp_monitors_put_scalar(all, "big", 1e10));
    for (int i = 0; i < TP_COUNT(list); i++) {
        const size_t n = strlen(want);
        at += (size_t)snprintf(command + at, sizeof command - at, "{%s%s}|", list[i].name, list[i].spec);
        snprintf(want + n, sizeof want - n, "%s|", list[i].want);
    }
    snprintf(command + at, sizeof command - at, "{{}} } {open' > %s", file);
    snprintf(want + strlen(want), sizeof want - strlen(want), "{} } {open");
    tp_callback *cb = tp_cb_send_stat(command);
    CHECK_OK(tp_callback_setup_graph(cb, &train));
    CHECK_OK(tp_callback_trigger(cb));
    char *text = NULL;
    size_t size = 0;
    if (CHECK_OK(tp_file_read(file, false, 0, &text, &size))) CHECK_STR(text, want);
    tp_free(text);
    tp_callback_free(cb);
    for (int i = 0; i < TP_COUNT(no_formats); i++) {
        cb = tp_cb_send_stat(no_formats[i]);
        CHECK_OK(tp_callback_setup_graph(cb, &train));
        CHECK_ERR(tp_callback_trigger(cb), TP_ERR_ARG, "is no format of a number");
        tp_callback_free(cb);
    }
    TEST_EXPECT_ERROR("Command 'exit 3' failed with status 3!");
    tp_test_keep_log();
    for (int i = 0; i < 2; i++) { /* one that fails, and none: the training goes on */
        cb = tp_cb_send_stat(i ? "" : "exit 3");
        CHECK_OK(tp_callback_setup_graph(cb, &train));
        CHECK_OK(tp_callback_trigger(cb));
        tp_callback_free(cb);
    }
#ifndef _WIN32
    /* a program that ignores SIGCHLD learns no status: that is no failure */
    void (*const before)(int) = signal(SIGCHLD, SIG_IGN);
    cb = tp_cb_send_stat("exit 4");
    CHECK_OK(tp_callback_setup_graph(cb, &train));
    CHECK_OK(tp_callback_trigger(cb));
    tp_callback_free(cb);
    signal(SIGCHLD, before);
    CHECK_HAS(tp_test_logged, "SendStat: whether its commands succeed is unknown, because the program ignores SIGCHLD");
#endif
    tp_callback_free(&all->cb);
    tp_set_log(NULL, NULL);
}

/* A long tensor is shown by its first 16 elements. */
TEST(long_tensors_are_cut)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_cb_dump_tensors_desc d;
    tp_train_state train = by_hand(g, NULL);
    memset(&d, 0, sizeof d);
    tp_named(tp_const(g, 0), "v");
    d.names[0] = "v";
    tp_callback *cb = tp_cb_tensor_printer_(&d);
    CHECK_OK(tp_callback_setup_graph(cb, &train));
    for (int n = 15; n <= 17; n++) {
        float v[17];
        char want[200] = "v:0:";
        tp_tensor t;
        const tp_tensor *value = &t;
        tp_run_values all;
        memset(&t, 0, sizeof t);
        for (int i = 0; i < n; i++) {
            v[i] = (float)i / 2;
            if (i < 16) snprintf(want + strlen(want), sizeof want - strlen(want), " %g", i / 2.0);
        }
        snprintf(want + strlen(want), sizeof want - strlen(want), "%s\n", n > 16 ? " ..." : "");
        tp_tensor_view(&t, TP_F32, tp_make_shape(n), v);
        all.value = &value, all.n = 1;
        tp_test_keep_log();
        CHECK_OK(tp_callback_after_run(cb, &all));
        CHECK_STR(tp_test_logged, want);
    }
    tp_callback_free(cb);
    tp_graph_free(g);
    tp_set_log(NULL, NULL);
}

/* The bar shows the values of its epoch, also where an epoch is one step, and if the callback that makes them is listed after it. */
TEST(bars_show_the_values_of_each_epoch)
{
    for (int first = 0; first < 2; first++) {
        tp_cb_lambda_desc l;
        tp_cb_progress_bar_desc d;
        tp_callback *cb[2];
        memset(&l, 0, sizeof l), memset(&d, 0, sizeof d);
        l.setup_graph = make_values, l.name = "Mine";
        d.names[0] = "Mine/step";
        cb[first] = tp_cb_lambda_(&l), cb[!first] = tp_cb_progress_bar_(&d);
        tp_test_keep_log();
        CHECK_OK(train_with(cb, 2, NULL, 1, 3, NULL));
        CHECK_HAS(tp_test_logged, "step=0");
        CHECK_HAS(tp_test_logged, "step=1");
        CHECK_HAS(tp_test_logged, "step=2");
        tp_set_log(NULL, NULL);
    }
}

/* Without anybody who takes messages, a bar is drawn on stderr, as often as the environment says. */
TEST(bars_on_stderr)
{
    char path[300], *text = NULL;
    size_t size = 0;
    tp_cb_progress_bar_desc d;
    tp_train_state train = by_hand(NULL, NULL);
    memset(&d, 0, sizeof d);
    snprintf(path, sizeof path, "%s/bar", tp_test_tmpdir());
    setenv("TENSORPACK_PROGRESS_REFRESH", "1e-9", 1);
    fflush(stderr);
    const int old = dup(2), file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0666);
    if (!CHECK(old >= 0 && file >= 0 && dup2(file, 2) == 2)) return;
    tp_callback *cb = tp_cb_progress_bar_(&d);
    tp_test_default_log();
    tp_status st = tp_callback_setup_graph(cb, &train);
    if (st == TP_OK) st = tp_callback_before_train(cb);
    if (st == TP_OK) st = tp_callback_before_epoch(cb);
    for (int i = 0; i < 4 && st == TP_OK; i++) {
        train.local_step = i;
        tp_test_sleep(0.001);
        st = tp_callback_trigger_step(cb);
    }
    if (st == TP_OK) st = tp_callback_after_epoch(cb);
    fflush(stderr);
    CHECK(dup2(old, 2) == 2);
    close(old), close(file);
    unsetenv("TENSORPACK_PROGRESS_REFRESH");
    tp_test_keep_log();
    CHECK_OK(st);
    if (CHECK_OK(tp_file_read(path, false, 0, &text, &size))) {
        static const char *const part[] = {" 25%|", "|1/4[00:00<00:00,", " 50%|", "|2/4[", " 75%|", "|3/4[", "100%|",
                                           "|4/4["};
        const char *p = text;
        for (int i = 0; i < TP_COUNT(part); i++) { /* in this order */
            const char *next = strstr(p, part[i]);
            if (!CHECK_MSG(next != NULL, "'%s' lacks '%s'", p, part[i])) break;
            p = next;
        }
        CHECK(strstr(p + 1, "|4/4[") == NULL);
    }
    tp_free(text);
    tp_callback_free(cb);
    tp_set_log(NULL, NULL);
}

/* The end of a bar: steps done, time taken and left, speed. In a line of 60 columns some of this has no room and is left
 * out: the bar, the times, the speed. */
TEST(bars_of_60_columns)
{
    const int64_t giga = 1000000000;
    const struct {
        int64_t total, before;
        int steps;
        double seconds; /* of a step */
        const char *want;
    } list[] = {{4, 0, 4, 25, "100%|#############################|4/4[01:40<00:00,0.04it/s]"},
                {8, 0, 4, 25, " 50%|##############5              |4/8[01:40<01:40,0.04it/s]"},
                {8, 0, 3, 0.5, " 37%|##########8                  |3/8[00:01<00:02,2.00it/s]"},
                {10, 2, 4, 900, " 60%|##############3         |6/10[1:00:00<1:00:00,0.00it/s]"},
                {2, 0, 1, 3599, " 50%|##############5              |1/2[59:59<59:59,0.00it/s]"},
                {2, 0, 1, 3661, " 50%|############5            |1/2[1:01:01<1:01:01,0.00it/s]"},
                {4, 0, 0, 1, "  0%|                                    |0/4[00:01<?,?it/s]"},
                {4, 3, 0, 1, " 75%|###########################         |3/4[00:01<?,?it/s]"},
                {0, 0, 3, 1, "    |                                     |3[00:03,1.00it/s]"},
                {200 * giga, 100 * giga, 4, 1, " 50%|###5   |100000000004/200000000000[00:04<00:00,1.00it/s]"},
                {2000 * giga, 1000 * giga, 4, 1, " 50%|##5  |1000000000004/2000000000000[00:04<00:00,1.00it/s]"},
                {20000 * giga, 1000 * giga, 4, 1, "  5% 1000000000004/20000000000000[00:04<00:00,1.00it/s]"},
                {2000000 * giga, 1000000 * giga, 4, 1, " 50% 1000000000000004/2000000000000000[00:04<00:00,1.00it/s]"},
                {20000000 * giga, 1000000 * giga, 4, 1, "  5% 1000000000000004/20000000000000000[1.00it/s]"},
                {giga * giga, 900000000 * giga, 4, 1, " 90% 900000000000000004/1000000000000000000[1.00it/s]"},
                {giga * giga, 900000000 * giga, 4, 1e-9, " 90% 900000000000000004/1000000000000000000"}};
    if (!clock_stands()) TEST_SKIP("the clock cannot be moved here");
    for (int i = 0; i < TP_COUNT(list); i++) {
        tp_cb_progress_bar_desc d;
        tp_train_state train = by_hand(NULL, NULL);
        memset(&d, 0, sizeof d);
        train.steps_per_epoch = list[i].total;
        train.done_ = list[i].before;
        clock_at = 1000;
        tp_callback *cb = tp_cb_progress_bar_(&d);
        tp_test_keep_log();
        CHECK_OK(tp_callback_setup_graph(cb, &train));
        CHECK_OK(tp_callback_before_train(cb));
        CHECK_OK(tp_callback_before_epoch(cb));
        for (int k = 0; k < list[i].steps; k++) {
            clock_at += list[i].seconds;
            train.local_step = k;
            CHECK_OK(tp_callback_trigger_step(cb));
        }
        if (!list[i].steps) clock_at += list[i].seconds;
        CHECK_OK(tp_callback_after_epoch(cb));
        tp_test_logged[strcspn(tp_test_logged, "\n")] = 0;
        CHECK_STR(tp_test_logged, list[i].want);
        tp_callback_free(cb);
    }
    clock_at = 0;
    tp_set_log(NULL, NULL);
}

static tp_status report_early(tp_callback *cb)
{
    static const char payload[] = {18, 1, 'v'};
    tp_event e;
    memset(&e, 0, sizeof e);
    e.field = 8, e.data = payload, e.size = sizeof payload;
    const tp_status st = tp_monitors_put_event(cb->train->monitors, &e);
    return st == TP_OK ? tp_monitors_put_scalar(cb->train->monitors, "early", 1.5) : st;
}

/* What a callback reports in its setup_graph, before the writer has a file, is in the file, after its version. */
TEST(events_before_there_is_a_file)
{
    static const int queue[] = {TP_NONE, 1, 3, 0};
    for (int k = 0; k < TP_COUNT(queue); k++)
        for (int split = 0; split < 2; split++) {
            tp_monitor_tf_event_writer_desc d;
            event list[64];
            char dir[300], *bytes = NULL;
            memset(&d, 0, sizeof d);
            tp_test_keep_log();
            snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
            d.logdir = dir, d.max_queue = queue[k], d.split_files = split ? TP_YES : 0;
            tp_callback *cb = tp_callback_new("Early", 0);
            cb->setup_graph = report_early;
            tp_monitor *m = tp_monitor_tf_event_writer_(&d);
            CHECK_OK(train_with(&cb, 1, &m, 2, 1, NULL));
            const int n = read_events(dir, &bytes, list, 64), version = 3, early = 8, summary = 5, graph = 4;
            if (split) CHECK_MSG(n == 5, "queue %d: %d events", queue[k], n); /* the second file's version */
            else if (CHECK_MSG(n == 4, "queue %d: %d events", queue[k], n))
                CHECK(list[0].field == version && list[1].field == early && list[2].field == summary &&
                      list[3].field == graph && list[1].size == 3 && list[1].step == 0);
            tp_free(bytes);
            tp_set_log(NULL, NULL);
        }
}

/* Values that reach a monitor before its setup_graph, in a program without a trainer, wait there with step 0. */
TEST(values_before_setup_graph)
{
    char dir[300], *bytes = NULL;
    event list[64];
    snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
    tp_test_keep_log();
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    tp_monitor *m[] = {tp_monitor_tf_event_writer(),
                       tp_monitor_json_writer(),
                       tp_monitor_scalar_printer(),
                       tp_monitor_report(),
                       tp_monitor_send_data("true", .names = {"cost"}),
                       tp_monitor_comet(.api_key = "k")};
    tp_monitors *all = tp_monitors_new(m, TP_COUNT(m));
    tp_train_state train = by_hand(NULL, all);
    tp_tensor t;
    memset(&t, 0, sizeof t);
    CHECK_OK(tp_tensor_resize(&t, TP_U8, tp_make_shape(2, 2)));
    train.is_chief = true;
    for (int round = 0; round < 2;
         round++) { /* without any state; then with one of the list, but none of the monitors */
        CHECK_OK(tp_monitors_put_scalar(all, "cost", 1));
        CHECK_OK(tp_monitors_put_image(all, "picture", &t));
        CHECK_OK(tp_callback_trigger_step(&m[3]->cb));
        CHECK_OK(tp_callback_trigger_epoch(&m[3]->cb));
        CHECK_OK(tp_callback_setup_graph(&all->cb, &train));
        CHECK_OK(tp_callback_before_train(&all->cb));
    }
    CHECK_OK(tp_callback_setup_graph(&m[0]->cb, &train));
    CHECK_OK(tp_callback_before_train(&m[0]->cb));
    CHECK_OK(tp_callback_after_train(&m[0]->cb));
    const int n = read_events(dir, &bytes, list, 64), summary = 5;
    if (CHECK_MSG(n == 5, "%d events", n))
        for (int i = 1; i < n; i++) CHECK(list[i].field == summary && list[i].step == 0);
    tp_free(bytes);
    tp_tensor_free(&t);
    tp_callback_free(&all->cb);
    for (int i = 0; i < TP_COUNT(m); i++) tp_monitor_free(m[i]);
    tp_logger_set_dir(NULL, 0);
    tp_set_log(NULL, NULL);
}

/* A full disk ends the events, not the training; its end tells. */
TEST(events_on_a_full_disk)
{
    struct rlimit before, small;
    tp_monitor_tf_event_writer_desc d;
    char dir[300];
    memset(&d, 0, sizeof d);
    snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
    d.logdir = dir;
    if (getrlimit(RLIMIT_FSIZE, &before) != 0) TEST_SKIP("no limits on file sizes here");
    const bool has_stdin = fcntl(0, F_GETFD) >= 0;
    TEST_EXPECT_ERROR("TFEventWriter: cannot write events in '");
    tp_test_keep_log();
    tp_monitor *m = tp_monitor_tf_event_writer_(&d);
    tp_monitors *all = tp_monitors_new(&m, 1);
    tp_train_state train = by_hand(NULL, all);
    CHECK_OK(tp_callback_setup_graph(&all->cb, &train));
    CHECK_OK(tp_callback_setup_graph(&m->cb, &train));
    CHECK_OK(tp_callback_before_train(&m->cb));
    train.global_step = 23;
    CHECK_OK(tp_monitors_put_scalar(all, "s", 1));
    small = before;
    small.rlim_cur = 5;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &small) != 0) TEST_SKIP("the limit on file sizes cannot be set");
    const tp_status st = tp_callback_trigger(&m->cb);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    CHECK_OK(st);
    CHECK(m->cb.unsaved && strstr(m->cb.unsaved, "No events were written there after global_step=23"));
    CHECK_OK(tp_monitors_put_scalar(all, "s", 2));
    CHECK_OK(tp_callback_trigger(&m->cb));
    CHECK_OK(tp_callback_after_train(&m->cb));
    CHECK((fcntl(0, F_GETFD) >= 0) == has_stdin); /* the writer closes its own file and no other */
    tp_monitor *other;
    char file[400];
    snprintf(file, sizeof file, "%s/file", dir);
    CHECK(tp_test_write(file, "x", 1));
    d.logdir = file, other = tp_monitor_tf_event_writer_(&d);
    CHECK_ERR(tp_callback_setup_graph(&other->cb, &train), TP_ERR_IO, "/file' is no directory");
    tp_callback_free(&all->cb);
    tp_monitor_free(m), tp_monitor_free(other);
    tp_set_log(NULL, NULL);
}

/* Monitors that write into the logger's directory keep its name: without memory for that they do not begin. */
TEST(monitors_without_memory_for_their_directory)
{
    tp_monitor_tf_event_writer_desc e;
    tp_monitor_report_desc r;
    memset(&e, 0, sizeof e), memset(&r, 0, sizeof r);
    tp_train_state train = by_hand(NULL, NULL);
    CHECK_OK(tp_logger_set_dir(tp_test_tmpdir(), 'k'));
    for (int kind = 0; kind < 2; kind++) {
        tp_monitor *m = kind ? tp_monitor_report_(&r) : tp_monitor_tf_event_writer_(&e);
        tp_test_fail_after(1); /* until the arena asks for memory */
        while (tp_arena_alloc(&m->cb.mem_, 1)) {}
        tp_test_fail_after(1);
        CHECK_ERR(tp_callback_setup_graph(&m->cb, &train), TP_ERR_NOMEM, "out of memory");
        tp_test_alloc_reset();
        CHECK_OK(tp_callback_setup_graph(&m->cb, &train));
        tp_monitor_free(m);
    }
    tp_logger_set_dir(NULL, 0);
}

/* ==== >>names and lists =============================================================================== */

/* The scope of setup_graph is the callback's name without underscores, up to 127 bytes. */
TEST(scopes_of_odd_names)
{
    char name[200], want[300];
    tp_graph *g = tp_graph_new(NULL);
    tp_train_state train = by_hand(g, NULL);
    memset(name, 'n', sizeof name);
    name[3] = '_', name[199] = 0;
    tp_callback *cb = tp_callback_new(name, 0);
    cb->setup_graph = name_here;
    CHECK_OK(tp_callback_setup_graph(cb, &train));
    memset(want, 'n', 127);
    snprintf(want + 127, sizeof want - 127, "/here");
    CHECK(tp_graph_find(g, want) != NULL);
    tp_callback_free(cb);
    tp_graph_free(g);
    CHECK(tp_callback_new("Huge", SIZE_MAX - 8) == NULL);
    CHECK_HAS(tp_last_error(), "a callback asks for ");
}

/* Memory for a callback's own data is zeroed, and aligned for every type. */
TEST(memory_for_ones_own_data)
{
    struct {
        char c;
        union {
            long double a;
            void *b;
            int64_t d;
        } any;
    } placed;
    const size_t place = (size_t)((const char *)&placed.any - (const char *)&placed);
    for (size_t bytes = 0; bytes < 40; bytes++) {
        tp_callback *cb = tp_callback_new("Mine", bytes);
        tp_monitor *m = tp_monitor_new("Mine", bytes);
        tp_inferencer *inf = tp_inferencer_new("Mine", bytes);
        tp_hyper_param *p = tp_hyper_param_new("mine", bytes);
        if (!CHECK(cb && m && inf && p)) return;
        const unsigned char *user[4] = {(const unsigned char *)cb->user, (const unsigned char *)m->cb.user,
                                        (const unsigned char *)inf->user, (const unsigned char *)p->user};
        for (int i = 0; i < 4; i++) {
            CHECK_MSG((user[i] != NULL) == (bytes > 0) && (uintptr_t)user[i] % place == 0, "%d: %p", i,
                      (const void *)user[i]);
            for (size_t k = 0; user[i] && k < bytes; k++) CHECK(user[i][k] == 0);
            if (user[i]) memset((void *)(uintptr_t)user[i], 0xff, bytes);
        }
        tp_callback_free(cb);
        tp_monitor_free(m);
        tp_inferencer_free(inf);
        tp_hyper_param_free(p);
    }
}

/* A group that is given one of its members twice, or one of somebody else's, frees what is its own, once. */
static int n_members_closed;
static void close_member(tp_callback *cb) { n_members_closed += cb != NULL; }
static tp_callback *member(void)
{
    tp_callback *cb = tp_callback_new("Member", 0);
    cb->close = close_member;
    return cb;
}
TEST(groups_of_odd_members)
{
    for (int way = 0; way < 4; way++) {
        tp_test_fail_after(0);
        tp_callback *one = member(), *two = member(), *owner = NULL, *cb[4] = {one, NULL, two, one};
        n_members_closed = 0;
        if (way == 1) cb[3] = NULL, owner = tp_cb_proxy(two);
        if (way == 2) cb[0] = two, cb[3] = one, owner = tp_cb_proxy(one);
        if (way == 3) cb[1] = one, cb[0] = two, cb[2] = two;
        tp_callback *group_of = tp_cb_group(cb, 4);
        CHECK_ERR(tp_callback_status(group_of), TP_ERR_ARG, "Member is given away twice");
        CHECK_MSG(n_members_closed == (owner ? 1 : 2), "way %d: %d", way, n_members_closed);
        tp_callback_free(group_of);
        tp_callback_free(owner);
        CHECK(n_members_closed == 2);
        CHECK_MSG(tp_test_live_blocks() == 0, "way %d", way);
    }
    tp_test_alloc_reset();
}

/* A constructor that finds no memory gives NULL: so does the list of a group that holds it. */
TEST(groups_of_a_callback_that_is_missing)
{
    for (int at = 0; at < 3; at++) {
        tp_train_state train;
        tp_callback *cb[3];
        memset(&train, 0, sizeof train);
        tp_test_fail_after(0);
        for (int i = 0; i < 3; i++) cb[i] = i == at ? NULL : member();
        n_members_closed = 0;
        tp_callback *group_of = tp_cb_group(cb, 3);
        CHECK(n_members_closed == 2);
        CHECK_ERR(tp_callback_setup_graph(group_of, &train), TP_ERR_NOMEM,
                  "of 3 is NULL: its constructor found no memory");
        tp_callback_free(group_of);
        CHECK(tp_test_live_blocks() == 0);
    }
    tp_test_alloc_reset();
}

/* Memory runs out where the summaries are collected: the training ends, it does not go on without them. */
static tp_status make_summaries(tp_callback *cb)
{
    for (int i = 0; i < 1000; i++)
        tp_add_tensor_summary(tp_cast(tp_const(cb->train->graph, 1), TP_F32), TP_SUMMARY_SCALAR, "a", NULL);
    return TP_OK;
}
static tp_status no_memory_from_here(tp_callback *cb)
{
    tp_test_fail_after(cb ? 1 : 0);
    return TP_OK;
}
TEST(no_memory_for_the_summaries)
{
    tp_callback *cb[2] = {tp_callback_new("Summaries", 0), tp_cb_merge_all_summaries()};
    cb[0]->setup_graph = make_summaries;
    cb[0]->before_train = no_memory_from_here;
    tp_test_keep_log();
    TEST_MAY_ERROR("memory");
    CHECK(train_with(cb, 2, NULL, 1, 1, NULL) == TP_ERR_NOMEM && tp_test_alloc_failed());
    tp_test_alloc_reset();
    tp_set_log(NULL, NULL);
}

/* No summaries, or no op: the first is nothing to tell, the second a mistake. */
static tp_node *no_op(tp_graph *g, void *user)
{
    (void)g, (void)user;
    return NULL;
}
TEST(nothing_to_run)
{
    tp_cb_merge_all_summaries_desc s;
    tp_cb_run_op_desc r;
    memset(&s, 0, sizeof s), memset(&r, 0, sizeof r);
    TEST_MAY_ERROR("");
    tp_test_keep_log();
    for (int alone = 0; alone < 2; alone++) {
        tp_monitor *m = teller();
        s.period = 1, s.run_alone = alone ? TP_YES : TP_NO;
        tp_callback *cb = tp_cb_merge_all_summaries_(&s);
        CHECK_OK(train_with(&cb, 1, &m, 2, 1, NULL));
        CHECK_STR(told, "");
    }
    r.fn = no_op;
    tp_callback *cb = tp_cb_run_op_(&r);
    CHECK_ERR(train_with(&cb, 1, NULL, 1, 1, NULL), TP_ERR_ARG, "RunOp: there is no op to run");
    tp_set_log(NULL, NULL);
}

TEST_MAIN()
