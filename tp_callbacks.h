/* tp_callbacks.h - v0.1 - what happens around the steps of a training: callbacks, monitors, inference, schedules
 *
 * Do this:
 *     #define TP_IMPLEMENTATION        // in ONE .c file, before any other include
 *     #include "tp_callbacks.h"        // pulls in tp_input.h, tp_graph.h and tp_tensor.h
 *
 * WHAT THIS IS       the callback and monitor protocols, every callback (savers, inference, schedules, progress), the
 *                    monitors (stats.json, event files, the printed list) and the default sets.
 * WHAT THIS IS NOT   the loop that calls them, and trainers: tp_train.h. Callbacks see a plain struct, tp_train_state.
 *
 * A COMPLETE PROGRAM
 *     #define TP_IMPLEMENTATION
 *     #include "tp_callbacks.h"
 *     static tp_status hello(tp_callback *cb)
 *     {
 *         printf("epoch %lld\n", (long long)cb->train->epoch_num);
 *         return TP_OK;
 *     }
 *     int main(void)
 *     {
 *         tp_train_state train = {0};
 *         tp_callback *cb = tp_cb_periodic_trigger(tp_cb_lambda(.trigger = hello), .every_k_epochs = 2);
 *         tp_status st = tp_callback_setup_graph(cb, &train);
 *         for (train.epoch_num = 1; st == TP_OK && train.epoch_num <= 4; train.epoch_num++)
 *             st = tp_callback_trigger_epoch(cb);
 *         if (st != TP_OK) puts(tp_last_error());
 *         tp_callback_free(cb);
 *         return st == TP_OK ? 0 : 1;
 *     }
 *
 * CONTENTS   >>state >>callback >>monitor >>wrappers >>graph callbacks >>progress >>savers >>inference >>parameters
 *            >>monitors of ours >>default sets   then, in the implementation, the same
 *
 * HOW IT WORKS
 *     A trainer keeps one list of callbacks and walks it, always from the front, in each phase:
 *
 *         setup_graph                            once; the graph may still grow
 *         before_train                           once; variables have their values
 *         for each epoch:
 *             before_epoch
 *             for each step:  before_run, RUN, after_run   (one run of everything that was asked for)
 *                             trigger_step
 *             after_epoch                        tightly around the steps, so be quick
 *             trigger_epoch                      the place for slow things; calls trigger unless you say otherwise
 *         after_train                            always, for all, whatever happened
 *
 *     What the counters are in each of them (2 steps an epoch):
 *
 *         hook                        epoch_num  global_step  local_step
 *         before_train                    0           0           -1
 *         before_epoch                    1           0           -1   (in epoch 2: 1, the last step of epoch 1)
 *         before_run, first step          1           0            0
 *         after_run, trigger_step         1           1            0
 *         before_run, second step         1           1            1
 *         after_run ... trigger_epoch     1           2            1
 *
 *     Any hook may end the training, as success, with tp_stop(train, "why"), or fail it with tp_fail(...). Monitors are
 *     callbacks too, and come last, so that what callbacks report in a phase is written at the end of that phase.
 *
 * OWNERSHIP  a callback, monitor, inferencer or parameter belongs to what it is passed to: wrappers own what they wrap,
 *            the trainer owns the rest. That holds on failure too. Options are copied.
 * THREADS    everything here runs on the thread that trains.
 * ERRORS     constructors check their arguments. After a mistake they return an object that keeps the sentence and fails
 *            where it is first used; NULL only without memory. Hooks return tp_status: TP_OK, TP_STOP, TP_END, an error.
 * NOTATION   seeds are named in brackets: [callbacks: PeriodicTrigger] is tensorpack.callbacks.PeriodicTrigger.
 */
#ifndef TP_CALLBACKS_H
#define TP_CALLBACKS_H

#include "tp_input.h"
#if TP_VERSION_MAJOR != 0 || TP_VERSION_MINOR != 1
#error "tp_callbacks.h 0.1 needs tp_input.h 0.1: copy all tp headers from the same version"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ==== >>state ========================================================================================= */

typedef struct tp_callback tp_callback;
typedef struct tp_monitor tp_monitor;
typedef struct tp_monitors tp_monitors;

/* What callbacks see of a training. The trainer fills it; callbacks read it (and change nothing but through functions). */
typedef struct tp_train_state {
    int64_t epoch_num;   /* the epoch in progress, from before_epoch to trigger_epoch; before that, epochs that are over */
    int64_t global_step; /* finished runs in the whole life of the model; comes back with a checkpoint */
    int64_t local_step;  /* index of the step in its epoch, from 0; keeps its last value until the next epoch's first step */
    int64_t steps_per_epoch, starting_epoch, max_epoch; /* valid from before_train on */
    bool is_chief;                      /* false on all ranks but one of a distributed training */
    tp_graph *graph;
    tp_session *session;                /* from before_train on; for evaluating what does not depend on the input */
    tp_hooked_session *hooked_session;  /* runs training steps: every run of it is one */
    tp_monitors *monitors;              /* where to report numbers; from setup_graph on */
    tp_tower_func *tower_func;          /* NULL if the trainer has none */
    tp_input_source *input;             /* of the training; may be NULL */
    tp_callback *const *callbacks;      /* all of them, in order: what a saver asks for their state */
    int n_callbacks;
    char stop_reason[256];              /* see tp_stop */
    tp_status (*poll)(struct tp_train_state *train); /* TP_INTR after Ctrl-C, asked after every hook; may be NULL */
} tp_train_state;

/* End the training as success: `return tp_stop(cb->train, "the error is below %g", goal);` returns TP_STOP.
 * A plain `return TP_STOP;` does the same without a reason. [train: StopTraining] */
TP_DEF tp_status tp_stop(tp_train_state *train, const char *fmt, ...) TP_PRINTF(2, 3);
/* "1 minute 27 seconds": days, hours, minutes, seconds, what is 0 left out; below a minute three significant digits. */
#define TP_TIME_TEXT 96
TP_DEF const char *tp_humanize_time_delta(double seconds, char *buf); /* buf: at least TP_TIME_TEXT bytes; returns it */

/* ==== >>callback ====================================================================================== */

/* The protocol. Every function may be NULL. To write your own, make one with tp_callback_new and set what it needs; your
 * data is at `user`. Call hooks through the functions below, which see to what is left out. [callbacks: Callback] */
struct tp_callback {
    const char *name; /* "ModelSaver"; for logs and as name scope of setup_graph. Must outlive the callback. */
    bool chief_only;  /* only the chief of a distributed training runs it; true unless changed */
    bool is_monitor;  /* set by tp_monitor_new */
    void *user;
    tp_train_state *train; /* from setup_graph on */
    tp_status (*setup_graph)(tp_callback *cb);
    tp_status (*before_train)(tp_callback *cb);
    tp_status (*before_epoch)(tp_callback *cb);
    tp_status (*before_run)(tp_callback *cb, tp_run_request *r); /* ask with tp_request_fetch, tp_request_feed */
    tp_status (*after_run)(tp_callback *cb, const tp_run_values *v); /* what was asked for, in that order; v->n may be 0 */
    tp_status (*trigger_step)(tp_callback *cb);
    tp_status (*after_epoch)(tp_callback *cb);
    tp_status (*trigger_epoch)(tp_callback *cb); /* NULL: calls trigger */
    tp_status (*trigger)(tp_callback *cb);       /* "do your thing": by trigger_epoch or by a wrapper with a schedule */
    tp_status (*after_train)(tp_callback *cb);   /* also when before_train failed or was never reached */
    /* What has to survive in a checkpoint, for a resume to go on exactly: put arrays into d under prefix + a name of
     * yours (tp_state_put), and take them out again, before before_train. Missing keys are not an error. */
    tp_status (*save_state)(tp_callback *cb, tp_dict *d, const char *prefix);
    tp_status (*load_state)(tp_callback *cb, const tp_dict *d, const char *prefix);
    void (*close)(tp_callback *cb); /* release what user holds; tp_callback_free frees user and the struct */
    tp_at at_;
    tp_status status_; /* not TP_OK: a constructor's mistake, with its sentence in error_ */
    char *error_;
};

/* A callback with `bytes` of zeroed memory at user, freed with it; chief_only is true. NULL: out of memory. */
TP_DEF tp_callback *tp_callback_new(const char *name, size_t bytes);
/* A callback that fails in setup_graph with this sentence, for constructors of your own. at may be NULL. */
TP_DEF tp_callback *tp_callback_fail(const tp_at *at, tp_status status, const char *fmt, ...) TP_PRINTF(3, 4);
TP_DEF tp_status tp_callback_status(const tp_callback *cb); /* TP_OK, or the mistake, with its sentence set; NULL: TP_ERR_NOMEM */
TP_DEF tp_callback *tp_callback_set_chief_only(tp_callback *cb, bool chief_only); /* returns cb */
TP_DEF void tp_callback_free(tp_callback *cb);                                    /* NULL is fine */

TP_DEF tp_status tp_callback_setup_graph(tp_callback *cb, tp_train_state *train); /* in a name scope of its name */
TP_DEF tp_status tp_callback_before_train(tp_callback *cb);
TP_DEF tp_status tp_callback_before_epoch(tp_callback *cb);
TP_DEF tp_status tp_callback_before_run(tp_callback *cb, tp_run_request *r);
TP_DEF tp_status tp_callback_after_run(tp_callback *cb, const tp_run_values *v);
TP_DEF tp_status tp_callback_trigger_step(tp_callback *cb);
TP_DEF tp_status tp_callback_after_epoch(tp_callback *cb);
TP_DEF tp_status tp_callback_trigger_epoch(tp_callback *cb);
TP_DEF tp_status tp_callback_trigger(tp_callback *cb);
TP_DEF tp_status tp_callback_after_train(tp_callback *cb);
TP_DEF tp_status tp_callback_save_state(tp_callback *cb, tp_dict *d, const char *prefix);
TP_DEF tp_status tp_callback_load_state(tp_callback *cb, const tp_dict *d, const char *prefix);

/* "cost" or "cost:0": in the whole graph, else in the first training tower, else NULL and a sentence
 * ("Tensor X not found in the graph!"). [Callback.get_tensors_maybe_in_tower] */
TP_DEF tp_node *tp_callback_find(tp_callback *cb, const char *name);

/* For save_state and load_state: n int64 or doubles under prefix + key. get: false if there are not exactly n of them. */
TP_DEF tp_status tp_state_put_i64(tp_dict *d, const char *prefix, const char *key, const int64_t *v, int n);
TP_DEF tp_status tp_state_put_f64(tp_dict *d, const char *prefix, const char *key, const double *v, int n);
TP_DEF bool tp_state_get_i64(const tp_dict *d, const char *prefix, const char *key, int64_t *v, int n);
TP_DEF bool tp_state_get_f64(const tp_dict *d, const char *prefix, const char *key, double *v, int n);

/* ==== >>monitor ======================================================================================= */

/* A number that was reported. */
typedef struct tp_stat {
    int64_t step; /* global_step when it was */
    double value;
    bool is_int;  /* came as an integer: printed without a fraction */
} tp_stat;

/* Several values of one step under their tags. scalar is set for TP_SUMMARY_SCALAR, tensor for the others. */
typedef struct tp_summary_value {
    const char *tag;
    int kind; /* TP_SUMMARY_SCALAR, TP_SUMMARY_HISTOGRAM (any shape) or TP_SUMMARY_IMAGE (see tp_monitors_put_image) */
    double scalar;
    bool is_int;
    const tp_tensor *tensor;
} tp_summary_value;
typedef struct tp_summary {
    const tp_summary_value *value;
    int n;
} tp_summary;

/* One Event of TensorBoard's event.proto: `data` is the encoded field number `field` (4 graph_def, 5 summary,
 * 7 session_log, 8 tagged_run_metadata). wall_time and step are filled in by tp_monitors_put_event. */
typedef struct tp_event {
    double wall_time; /* seconds since 1970 */
    int64_t step;
    unsigned field;
    const void *data;
    size_t size;
} tp_event;

/* The protocol: a callback that is also told what was reported. Every function may be NULL; an error of one fails the
 * training, so writers log I/O errors and return TP_OK. chief_only is false. [callbacks: MonitorBase] */
struct tp_monitor {
    tp_callback cb; /* first, so that a monitor is a callback */
    tp_status (*process_scalar)(tp_monitor *m, const char *name, const tp_stat *stat);
    tp_status (*process_image)(tp_monitor *m, const char *name, const tp_tensor *image); /* NHWC, 0..255, RGB */
    tp_status (*process_event)(tp_monitor *m, const tp_event *event);
    tp_status (*process_summary)(tp_monitor *m, const tp_summary *summary); /* scalars come here too, after process_scalar */
};
/* A monitor with `bytes` of zeroed memory at cb.user. NULL: out of memory. */
TP_DEF tp_monitor *tp_monitor_new(const char *name, size_t bytes);
TP_DEF tp_monitor *tp_monitor_fail(const tp_at *at, tp_status status, const char *fmt, ...) TP_PRINTF(3, 4);
TP_DEF void tp_monitor_free(tp_monitor *m); /* NULL is fine */

/* All monitors of a training as one callback, the last one in its list, with the history of every scalar. The monitors
 * themselves are borrowed. [callbacks: Monitors] */
struct tp_monitors {
    tp_callback cb;
    tp_monitor *const *monitor;
    int n_monitor;
    struct tp__history *history; /* one entry a name */
    int n_history, cap_history;
    tp_summary_value *clean_; /* room for put_summary */
    char *tags_;
    size_t cap_clean_, cap_tags_;
    tp_tensor image_;
};
TP_DEF tp_monitors *tp_monitors_new(tp_monitor *const *monitor, int n); /* free with tp_callback_free(&m->cb) */
/* To all monitors: process_scalar, then process_summary with this one value. name is copied where it is kept. */
TP_DEF tp_status tp_monitors_put_scalar(tp_monitors *m, const char *name, double value);
TP_DEF tp_status tp_monitors_put_int(tp_monitors *m, const char *name, int64_t value);
/* (N,H,W,C), (H,W,C) with C of 1, 3, 4, else (N,H,W), or (H,W), 0..255, RGB: process_image, then process_summary. */
TP_DEF tp_status tp_monitors_put_image(tp_monitors *m, const char *name, const tp_tensor *image);
/* Tags lose every "tower[0-9]+/" and a last "-summary"; scalars go through process_scalar first, one by one. */
TP_DEF tp_status tp_monitors_put_summary(tp_monitors *m, const tp_summary *summary);
TP_DEF tp_status tp_monitors_put_event(tp_monitors *m, tp_event *event);
/* The newest value of a name: TP_ERR_NAME "No available data for the key: X" if there is none. */
TP_DEF tp_status tp_monitors_get_latest(const tp_monitors *m, const char *name, tp_stat *stat);
/* All values of a name in this process, oldest first, valid until the next one is reported; 0 and no error if none. */
TP_DEF int tp_monitors_get_history(const tp_monitors *m, const char *name, const tp_stat **stats);

/* ==== >>wrappers ====================================================================================== */
/* Constructors take keyword arguments: tp_cb_periodic_trigger(cb, .every_k_steps = 100). What has no name comes first and
 * in the order of the fields. From C++ call the function with the underscore and a descriptor. Zero means the default;
 * booleans are tp_tri (TP_YES, TP_NO, unset). Lists are pairs: .names = TP_NAMES("cost", "error"). */
#ifndef __cplusplus
#define TP_NAMES(...) (const char *const[]){__VA_ARGS__}, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))
#define TP_CALLBACKS(...) \
    (tp_callback *const[]){__VA_ARGS__}, (int)(sizeof((tp_callback *const[]){__VA_ARGS__}) / sizeof(tp_callback *))
#define TP_MONITORS(...) \
    (tp_monitor *const[]){__VA_ARGS__}, (int)(sizeof((tp_monitor *const[]){__VA_ARGS__}) / sizeof(tp_monitor *))
#define TP_INFERENCERS(...) \
    (tp_inferencer *const[]){__VA_ARGS__}, (int)(sizeof((tp_inferencer *const[]){__VA_ARGS__}) / sizeof(tp_inferencer *))
#define TP_SCHEDULE(...)                      \
    (const tp_schedule_point[]){__VA_ARGS__}, \
        (int)(sizeof((const tp_schedule_point[]){__VA_ARGS__}) / sizeof(tp_schedule_point))
#endif

/* Forwards everything to cb, which it owns; name "Proxy-<inner>", chief_only copied. For wrappers of your own: make one,
 * replace the functions that shall differ, and reach the inner one with tp_proxy_inner. [callbacks: ProxyCallback] */
TP_DEF tp_callback *tp_cb_proxy(tp_callback *cb);
TP_DEF tp_callback *tp_proxy_inner(const tp_callback *proxy);

/* A callback from up to four functions; `user` reaches them as tp_lambda_user(cb). [callbacks: CallbackFactory] */
typedef struct tp_cb_lambda_desc {
    tp_at at_;
    tp_status (*setup_graph)(tp_callback *cb);
    tp_status (*before_train)(tp_callback *cb);
    tp_status (*trigger)(tp_callback *cb);
    tp_status (*after_train)(tp_callback *cb);
    void *user;
    void (*release)(void *user); /* called once, when the callback is freed */
    const char *name;            /* NULL = "CallbackFactory" */
} tp_cb_lambda_desc;
TP_DEF tp_callback *tp_cb_lambda_(const tp_cb_lambda_desc *d);
TP_DEF void *tp_lambda_user(const tp_callback *cb);

/* Calls cb's trigger every k steps (global_step % k == 0), every k epochs, and, if asked, before training. Its other
 * hooks are forwarded, but trigger_epoch is not: without every_k_epochs nothing happens at the end of an epoch. At
 * least one of the three is needed. [callbacks: PeriodicTrigger] */
typedef struct tp_cb_periodic_trigger_desc {
    tp_at at_;
    tp_callback *cb;
    int64_t every_k_steps;
    int64_t every_k_epochs;
    int before_train; /* default TP_NO */
} tp_cb_periodic_trigger_desc;
TP_DEF tp_callback *tp_cb_periodic_trigger_(const tp_cb_periodic_trigger_desc *d);

/* pred(wrapper, user) decides, each time, on before_epoch, after_epoch, before_run (with its after_run), trigger_step
 * and trigger_epoch. Not on setup_graph, before_train, after_train and a direct trigger. [callbacks: EnableCallbackIf] */
typedef struct tp_cb_enable_if_desc {
    tp_at at_;
    tp_callback *cb;
    bool (*pred)(tp_callback *wrapper, void *user);
    void *user;
} tp_cb_enable_if_desc;
TP_DEF tp_callback *tp_cb_enable_if_(const tp_cb_enable_if_desc *d);

/* The same with the rule: global_step % every_k_steps == 0, or epoch_num % every_k_epochs == 0, or (with every_k_epochs)
 * in the last step of the last epoch. before_run sees the step count before the run, trigger_step the one after it.
 * [callbacks: PeriodicCallback] */
typedef struct tp_cb_periodic_callback_desc {
    tp_at at_;
    tp_callback *cb;
    int64_t every_k_steps;
    int64_t every_k_epochs;
} tp_cb_periodic_callback_desc;
TP_DEF tp_callback *tp_cb_periodic_callback_(const tp_cb_periodic_callback_desc *d);

/* n callbacks as one, walked in order in each phase; owns them. trigger_epoch is timed (a log line when it takes 2 s);
 * an error in one's after_train is logged and the next one still runs. This is what a trainer holds. A member that is
 * chief-only is not skipped here. [callbacks: Callbacks] */
TP_DEF tp_callback *tp_cb_group(tp_callback *const *cbs, int n);
/* A session hook as a callback: begin in setup_graph, after_create_session in before_train, end in after_train. The hook
 * is borrowed. chief_only is false. [callbacks: HookToCallback] */
TP_DEF tp_callback *tp_cb_hook(tp_hook *hook);

/* ==== >>graph callbacks =============================================================================== */

/* Runs an op: in before_train (run_before), at each trigger (run_as_trigger), and together with every step (run_step).
 * The op is `op`, or what fn makes in setup_graph, or found by name. Outside of steps it runs in the plain session, so
 * it should not depend on the input. chief_only is false. [callbacks: RunOp] */
typedef struct tp_cb_run_op_desc {
    tp_at at_;
    tp_node *op;
    tp_node *(*fn)(tp_graph *g, void *user);
    void *user;
    const char *op_name;
    int run_before;     /* default TP_YES */
    int run_as_trigger; /* default TP_YES */
    int run_step;       /* default TP_NO */
    int verbose;        /* log each time; default TP_NO */
} tp_cb_run_op_desc;
TP_DEF tp_callback *tp_cb_run_op_(const tp_cb_run_op_desc *d);

/* All ops of a collection with every step: the running averages of batch normalisation. [callbacks: RunUpdateOps] */
typedef struct tp_cb_run_update_ops_desc {
    tp_at at_;
    const char *collection; /* NULL = UPDATE_OPS */
} tp_cb_run_update_ops_desc;
TP_DEF tp_callback *tp_cb_run_update_ops_(const tp_cb_run_update_ops_desc *d);

/* Updates, with every step, the moving averages that tp_add_moving_summary made. [callbacks: MovingAverageSummary] */
typedef struct tp_cb_moving_average_summary_desc {
    tp_at at_;
    const char *collection; /* NULL = MOVING_SUMMARY_OPS */
} tp_cb_moving_average_summary_desc;
TP_DEF tp_callback *tp_cb_moving_average_summary_(const tp_cb_moving_average_summary_desc *d);

/* Hands the summaries of a collection to the monitors: those of the last step of each epoch and, with a period, of every
 * period-th step. run_alone: evaluate them in a run of their own, at trigger; then they should not depend on the input.
 * [callbacks: MergeAllSummaries] */
typedef struct tp_cb_merge_all_summaries_desc {
    tp_at at_;
    int64_t period;  /* steps; 0: only the last step of an epoch */
    int run_alone;   /* default TP_NO */
    const char *key; /* NULL = SUMMARIES */
} tp_cb_merge_all_summaries_desc;
TP_DEF tp_callback *tp_cb_merge_all_summaries_(const tp_cb_merge_all_summaries_desc *d);

/* Fetch tensors with every step and call fn with them; stop, end or fail the training by its status.
 * [callbacks: ProcessTensors] */
typedef struct tp_cb_process_tensors_desc {
    tp_at at_;
    const char *const *names;
    int n_names;
    tp_status (*fn)(tp_callback *cb, const tp_tensor *const *values, int n, void *user);
    void *user;
} tp_cb_process_tensors_desc;
TP_DEF tp_callback *tp_cb_process_tensors_(const tp_cb_process_tensors_desc *d);
/* Write tensors of every step to <logger dir>/DumpTensor-<global_step>.npz. [callbacks: DumpTensors] */
typedef struct tp_cb_dump_tensors_desc {
    tp_at at_;
    const char *const *names;
    int n_names;
} tp_cb_dump_tensors_desc;
TP_DEF tp_callback *tp_cb_dump_tensors_(const tp_cb_dump_tensors_desc *d);
/* Log the values of tensors at every step: slow. [callbacks: TensorPrinter] */
TP_DEF tp_callback *tp_cb_tensor_printer_(const tp_cb_dump_tensors_desc *d);
/* Fail with TP_ERR_NUMERIC "CheckNumerics['<variable>']" when a trainable variable holds NaN or infinity: before
 * training, at each trigger, and with run_step after every step. [callbacks: CheckNumerics] */
typedef struct tp_cb_check_numerics_desc {
    tp_at at_;
    int run_as_trigger; /* default TP_YES */
    int run_step;       /* default TP_NO */
} tp_cb_check_numerics_desc;
TP_DEF tp_callback *tp_cb_check_numerics_(const tp_cb_check_numerics_desc *d);
/* Mean of the last window_size steps of scalars, reported as <name>/SMA when global_step % window_size == 0.
 * [callbacks: SimpleMovingAverage] */
typedef struct tp_cb_simple_moving_average_desc {
    tp_at at_;
    const char *const *names;
    int n_names;
    int window_size;
} tp_cb_simple_moving_average_desc;
TP_DEF tp_callback *tp_cb_simple_moving_average_(const tp_cb_simple_moving_average_desc *d);

/* ==== >>progress ====================================================================================== */

/* A bar on stderr for each epoch: percent, steps, elapsed and remaining time, steps a second, and the scalars of names
 * after it. Redrawn every 0.5 s on a terminal, else every 180 s (60 s under OpenMPI, 15 s under SLURM);
 * $TENSORPACK_PROGRESS_REFRESH overrides that, in seconds. chief_only is false. [callbacks: ProgressBar] */
typedef struct tp_cb_progress_bar_desc {
    tp_at at_;
    const char *const *names;
    int n_names;
} tp_cb_progress_bar_desc;
TP_DEF tp_callback *tp_cb_progress_bar_(const tp_cb_progress_bar_desc *d);

/* Logs how long the rest will take, from the last k epochs. [callbacks: EstimatedTimeLeft] */
typedef struct tp_cb_estimated_time_left_desc {
    tp_at at_;
    int last_k_epochs; /* 0 = 5 */
    int median;        /* TP_NO: mean; default TP_YES */
} tp_cb_estimated_time_left_desc;
TP_DEF tp_callback *tp_cb_estimated_time_left_(const tp_cb_estimated_time_left_desc *d);

/* Reports "Throughput (steps/sec)", or with samples_per_step "Throughput (samples/sec)", of the time spent between
 * before_epoch and after_epoch. chief_only is false. [callbacks: ThroughputTracker] */
typedef struct tp_cb_throughput_tracker_desc {
    tp_at at_;
    double samples_per_step;
} tp_cb_throughput_tracker_desc;
TP_DEF tp_callback *tp_cb_throughput_tracker_(const tp_cb_throughput_tracker_desc *d);
/* Reports "HostFreeMemory (GB)" at each trigger. chief_only is false. [callbacks: HostMemoryTracker] */
TP_DEF tp_callback *tp_cb_host_memory_tracker(void);
/* Runs a shell command at each trigger, {name} replaced by the newest value of that stat. A missing stat fails the
 * training, a failing command is logged. [callbacks: SendStat] */
TP_DEF tp_callback *tp_cb_send_stat(const char *command);

/* ==== >>savers ======================================================================================== */

/* At each trigger, all saved variables and what an exact resume needs beside them go to <dir>/model-<global_step>.npz, whole or not
 * at all, and <dir>/checkpoint names the checkpoints that are kept. Of those this process made, the max_to_keep newest
 * stay, and one every n hours for ever. An I/O error is logged and ignored: the earlier checkpoints are as they
 * were. [callbacks: ModelSaver] */
typedef struct tp_cb_model_saver_desc {
    tp_at at_;
    int max_to_keep;                     /* 0 = 10; -1: all */
    float keep_checkpoint_every_n_hours; /* 0 = 0.5 */
    const char *checkpoint_dir;          /* NULL = the logger's; made if missing */
    const char *const *var_collections;  /* NULL = GLOBAL_VARIABLES */
    int n_var_collections;
} tp_cb_model_saver_desc;
TP_DEF tp_callback *tp_cb_model_saver_(const tp_cb_model_saver_desc *d);

/* At each trigger, if the newest value of a stat is better than any before, copies the latest checkpoint to
 * <dir>/min-<stat>.npz (max-<stat>.npz; '/' in a stat becomes '_'). Must come after what reports the stat and after
 * the ModelSaver. The best value travels in checkpoints, so that a resume does not overwrite it with a worse one.
 * [callbacks: MinSaver, MaxSaver] */
typedef struct tp_cb_min_saver_desc {
    tp_at at_;
    const char *monitor_stat;
    int reverse;                /* TP_YES: the maximum; default TP_NO */
    const char *filename;       /* NULL = "min-<stat>"; .npz is added unless it is there */
    const char *checkpoint_dir; /* NULL = the logger's */
} tp_cb_min_saver_desc;
TP_DEF tp_callback *tp_cb_min_saver_(const tp_cb_min_saver_desc *d);
TP_DEF tp_callback *tp_cb_max_saver_(const tp_cb_min_saver_desc *d); /* .reverse is set for you */

/* ==== >>inference ===================================================================================== */

/* Makes numbers from the outputs of a model over a data set. Write your own as you would a callback. [callbacks:
 * Inferencer] */
typedef struct tp_inferencer tp_inferencer;
struct tp_inferencer {
    const char *name;
    void *user;
    tp_train_state *train;    /* from setup_graph on */
    const char *const *names; /* tensors of the inference tower (or of the graph) that on_fetches gets */
    int n_names;
    tp_status (*setup_graph)(tp_inferencer *inf);      /* once; may still set names */
    tp_status (*before_inference)(tp_inferencer *inf); /* at the start of a pass */
    tp_status (*on_fetches)(tp_inferencer *inf, const tp_tensor *const *values, int n); /* for each datapoint */
    tp_status (*after_inference)(tp_inferencer *inf);  /* report: tp_monitors_put_scalar(inf->train->monitors, ...) */
    void (*close)(tp_inferencer *inf);
    tp_at at_;
    tp_status status_;
    char *error_;
    char **names_; /* owned copy, by tp_inferencer_set_names */
};
TP_DEF tp_inferencer *tp_inferencer_new(const char *name, size_t bytes); /* with zeroed memory at user; NULL: out of memory */
TP_DEF tp_status tp_inferencer_set_names(tp_inferencer *inf, const char *const *names, int n); /* copies */
TP_DEF tp_inferencer *tp_inferencer_fail(const tp_at *at, tp_status status, const char *fmt, ...) TP_PRINTF(3, 4);
TP_DEF void tp_inferencer_free(tp_inferencer *inf);

/* The mean over batches (unweighted) of scalars, reported as <prefix>_<op name>. [callbacks: ScalarStats] */
typedef struct tp_inf_scalar_stats_desc {
    tp_at at_;
    const char *const *names;
    int n_names;
    const char *prefix; /* NULL = "validation"; "" for none */
} tp_inf_scalar_stats_desc;
TP_DEF tp_inferencer *tp_inf_scalar_stats_(const tp_inf_scalar_stats_desc *d);
/* Sum over count of a vector whose entries are 1 where the model was wrong; exact with a smaller last batch.
 * [callbacks: ClassificationError] */
typedef struct tp_inf_classification_error_desc {
    tp_at at_;
    const char *wrong_tensor_name; /* NULL = "incorrect_vector" */
    const char *summary_name;      /* NULL = "validation_error" */
} tp_inf_classification_error_desc;
TP_DEF tp_inferencer *tp_inf_classification_error_(const tp_inf_classification_error_desc *d);
/* <prefix>_precision and <prefix>_recall of predictions against labels, both 0 or 1. [callbacks: BinaryClassificationStats] */
typedef struct tp_inf_binary_classification_desc {
    tp_at at_;
    const char *pred_tensor_name;
    const char *label_tensor_name;
    const char *prefix; /* NULL = "val" */
} tp_inf_binary_classification_desc;
TP_DEF tp_inferencer *tp_inf_binary_classification_(const tp_inf_binary_classification_desc *d);

/* At each trigger, one pass over the input through a tower that is not training and shares the variables; the
 * inferencers report. The input is a dataflow (fed from this thread) or an input source; its size bounds the pass. Each
 * pass sees the same data and the same random numbers. [callbacks: InferenceRunner] */
typedef struct tp_cb_inference_runner_desc {
    tp_at at_;
    tp_dataflow *df; /* or .input */
    tp_inferencer *const *inferencers;
    int n_inferencers;
    tp_input_source *input;
    const char *tower_name;    /* NULL = "InferenceTower" */
    tp_tower_func *tower_func; /* NULL = the trainer's */
} tp_cb_inference_runner_desc;
TP_DEF tp_callback *tp_cb_inference_runner_(const tp_cb_inference_runner_desc *d);
/* One more hook for the runs of an inference runner; borrowed. Before training. [InferenceRunner.register_hook] */
TP_DEF tp_status tp_inference_runner_register_hook(tp_callback *runner, tp_hook *hook);

/* ==== >>parameters ==================================================================================== */

/* A number that training can change. [callbacks: HyperParam] */
typedef struct tp_hyper_param tp_hyper_param;
struct tp_hyper_param {
    const char *name; /* readable */
    void *user;
    tp_train_state *train; /* from setup_graph on */
    tp_status (*setup_graph)(tp_hyper_param *p);
    tp_status (*get_value)(tp_hyper_param *p, double *value);
    tp_status (*set_value)(tp_hyper_param *p, double value);
    void (*close)(tp_hyper_param *p);
};
TP_DEF tp_hyper_param *tp_hyper_param_new(const char *name, size_t bytes); /* name is copied */
TP_DEF void tp_hyper_param_free(tp_hyper_param *p);
/* A scalar variable of the graph, "learning_rate". [callbacks: GraphVarParam] */
TP_DEF tp_hyper_param *tp_param_graph_var(const char *name);
/* A double, float, int32 or int64 of the program's, borrowed. [callbacks: ObjAttrParam] */
TP_DEF tp_hyper_param *tp_param_field(const char *name, void *field, tp_dtype dtype);

/* Sets a parameter at each trigger, and once before training, to what fn says: *value is the current one; leave *set
 * false to change nothing. Everything below is one of these. The parameter is a graph variable of that name, or
 * `param`. Changes are logged, once an epoch. chief_only is false. [callbacks: HyperParamSetter] */
typedef tp_status (*tp_param_fn)(tp_callback *setter, void *user, double *value, bool *set);
typedef struct tp_cb_hyper_param_setter_desc {
    tp_at at_;
    const char *name;
    tp_param_fn fn;
    void *user;
    tp_hyper_param *param;
    void (*release)(void *user);
} tp_cb_hyper_param_setter_desc;
TP_DEF tp_callback *tp_cb_hyper_param_setter_(const tp_cb_hyper_param_setter_desc *d);
TP_DEF tp_status tp_setter_current_value(tp_callback *setter, double *value);

/* From a file in the logger's directory, read again each time: lines "name: value". As in the original it is all or
 * nothing: a line (an empty one too) that is not of this form makes the whole file be ignored, with a warning.
 * [callbacks: HumanHyperParamSetter] */
typedef struct tp_cb_human_hyper_param_setter_desc {
    tp_at at_;
    const char *name;
    const char *file_name; /* NULL = "hyper.txt" */
    tp_hyper_param *param;
} tp_cb_human_hyper_param_setter_desc;
TP_DEF tp_callback *tp_cb_human_hyper_param_setter_(const tp_cb_human_hyper_param_setter_desc *d);

/* By a schedule: {30, 0.01} sets 0.01 when epoch 30 is over, so that epoch 31 is the first to use it; 0 is before
 * training. With TP_INTERP_LINEAR also between the points. step_based: points are global steps, set after that step.
 * Training that starts between points takes over the value that would be in force (set_at_beginning), else is only
 * warned about it. [callbacks: ScheduledHyperParamSetter] */
typedef struct tp_schedule_point {
    int64_t at; /* epoch or step */
    double value;
} tp_schedule_point;
typedef enum { TP_INTERP_NONE = 0, TP_INTERP_LINEAR = 1 } tp_interp;
typedef struct tp_cb_scheduled_hyper_param_setter_desc {
    tp_at at_;
    const char *name;
    const tp_schedule_point *schedule; /* any order; TP_SCHEDULE({0, 0.1}, {30, 0.01}) */
    int n_schedule;
    int interp;           /* tp_interp */
    int step_based;       /* default TP_NO */
    int set_at_beginning; /* default TP_YES */
    tp_hyper_param *param;
} tp_cb_scheduled_hyper_param_setter_desc;
TP_DEF tp_callback *tp_cb_scheduled_hyper_param_setter_(const tp_cb_scheduled_hyper_param_setter_desc *d);

/* new = fn(epoch_num, old), at each trigger and before training (with epoch_num = starting_epoch - 1; after a resume only
 * if the checkpoint was made before the function was applied in that epoch). [callbacks: HyperParamSetterWithFunc] */
typedef struct tp_cb_hyper_param_setter_with_func_desc {
    tp_at at_;
    const char *name;
    double (*fn)(int64_t epoch_num, double old_value, void *user);
    void *user;
    tp_hyper_param *param;
} tp_cb_hyper_param_setter_with_func_desc;
TP_DEF tp_callback *tp_cb_hyper_param_setter_with_func_(const tp_cb_hyper_param_setter_with_func_desc *d);

/* new = fn(old) when a stat has not got better for last_k new values: smaller than the oldest of them minus threshold
 * (reverse: larger than it plus threshold). Then the count starts again. fn may end the training by its status.
 * [callbacks: StatMonitorParamSetter] */
typedef struct tp_cb_stat_monitor_param_setter_desc {
    tp_at at_;
    const char *name;
    const char *stat_name;
    tp_status (*fn)(double *value, void *user); /* in: the old value, out: the new one */
    void *user;
    double threshold;
    int last_k;
    int reverse; /* default TP_NO */
    tp_hyper_param *param;
} tp_cb_stat_monitor_param_setter_desc;
TP_DEF tp_callback *tp_cb_stat_monitor_param_setter_(const tp_cb_stat_monitor_param_setter_desc *d);

/* ==== >>monitors of ours ============================================================================== */

/* TensorBoard's event files, events.out.tfevents.<seconds>.<host>. Without a directory it does nothing, with a warning.
 * [callbacks: TFEventWriter] */
typedef struct tp_monitor_tf_event_writer_desc {
    tp_at at_;
    const char *logdir; /* NULL = the logger's; must exist */
    int max_queue;      /* events kept in memory before they are written; 0 = 10 */
    double flush_secs;  /* 0 = 120 */
    int split_files;    /* a new file each epoch; default TP_NO */
} tp_monitor_tf_event_writer_desc;
TP_DEF tp_monitor *tp_monitor_tf_event_writer_(const tp_monitor_tf_event_writer_desc *d);

/* <logger dir>/stats.json: a list with one object per step at which something was reported, read again and appended to
 * when training goes on where it stopped, else renamed to stats.json.MMDD-HHMMSS. [callbacks: JSONWriter] */
TP_DEF tp_monitor *tp_monitor_json_writer(void);
/* The epoch_num of the last record of <dir>/stats.json: TP_ERR_NAME if there is no file, TP_ERR_FORMAT if it is no list
 * of JSON; *epoch is -1 when the list is empty or the record has none. [JSONWriter.load_existing_epoch_number] */
TP_DEF tp_status tp_load_existing_epoch_number(const char *dir, int64_t *epoch);
/* The text of <dir>/stats.json, checked; tp_free it. [JSONWriter.load_existing_json] */
TP_DEF tp_status tp_load_existing_json(const char *dir, char **text);

/* Logs "name: value" of every scalar, sorted, at the end of each epoch (and of each step with enable_step). whitelist and
 * blacklist are regexes searched for in the name: printed if (no whitelist or one hits) and no blacklist one hits.
 * [callbacks: ScalarPrinter] */
typedef struct tp_monitor_scalar_printer_desc {
    tp_at at_;
    int enable_step;  /* default TP_NO */
    int enable_epoch; /* default TP_YES */
    const char *const *whitelist; /* NULL: everything */
    int n_whitelist;
    const char *const *blacklist;
    int n_blacklist;
} tp_monitor_scalar_printer_desc;
TP_DEF tp_monitor *tp_monitor_scalar_printer_(const tp_monitor_scalar_printer_desc *d);

/* ==== >>default sets ================================================================================== */

/* MovingAverageSummary, ProgressBar, MergeAllSummaries, RunUpdateOps. Entries are NULL without memory. */
#define TP_N_DEFAULT_CALLBACKS 4
TP_DEF void tp_default_callbacks(tp_callback *list[TP_N_DEFAULT_CALLBACKS]);
/* TFEventWriter, JSONWriter, ScalarPrinter. */
#define TP_N_DEFAULT_MONITORS 3
TP_DEF void tp_default_monitors(tp_monitor *list[TP_N_DEFAULT_MONITORS]);
/* The file that a trainer puts in front of the user's callbacks: counts steps in the graph's global_step variable and
 * in train->global_step. [MaintainStepCounter] */
TP_DEF tp_callback *tp_cb_maintain_step_counter(void);

#ifndef __cplusplus
#define tp_cb_lambda(...)                 tp_cb_lambda_(&(const tp_cb_lambda_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_periodic_trigger(...)       tp_cb_periodic_trigger_(&(const tp_cb_periodic_trigger_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_enable_if(...)              tp_cb_enable_if_(&(const tp_cb_enable_if_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_periodic_callback(...)      tp_cb_periodic_callback_(&(const tp_cb_periodic_callback_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_run_op(...)                 tp_cb_run_op_(&(const tp_cb_run_op_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_run_update_ops(...)         tp_cb_run_update_ops_(&(const tp_cb_run_update_ops_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_moving_average_summary(...) \
    tp_cb_moving_average_summary_(&(const tp_cb_moving_average_summary_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_merge_all_summaries(...)    tp_cb_merge_all_summaries_(&(const tp_cb_merge_all_summaries_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_process_tensors(...)        tp_cb_process_tensors_(&(const tp_cb_process_tensors_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_dump_tensors(...)           tp_cb_dump_tensors_(&(const tp_cb_dump_tensors_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_tensor_printer(...)         tp_cb_tensor_printer_(&(const tp_cb_dump_tensors_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_check_numerics(...)         tp_cb_check_numerics_(&(const tp_cb_check_numerics_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_simple_moving_average(...) \
    tp_cb_simple_moving_average_(&(const tp_cb_simple_moving_average_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_progress_bar(...)           tp_cb_progress_bar_(&(const tp_cb_progress_bar_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_estimated_time_left(...)    tp_cb_estimated_time_left_(&(const tp_cb_estimated_time_left_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_throughput_tracker(...)     tp_cb_throughput_tracker_(&(const tp_cb_throughput_tracker_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_model_saver(...)            tp_cb_model_saver_(&(const tp_cb_model_saver_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_min_saver(...)              tp_cb_min_saver_(&(const tp_cb_min_saver_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_max_saver(...)              tp_cb_max_saver_(&(const tp_cb_min_saver_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_inf_scalar_stats(...)          tp_inf_scalar_stats_(&(const tp_inf_scalar_stats_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_inf_classification_error(...) \
    tp_inf_classification_error_(&(const tp_inf_classification_error_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_inf_binary_classification(...) \
    tp_inf_binary_classification_(&(const tp_inf_binary_classification_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_inference_runner(...)       tp_cb_inference_runner_(&(const tp_cb_inference_runner_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_hyper_param_setter(...)     tp_cb_hyper_param_setter_(&(const tp_cb_hyper_param_setter_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_human_hyper_param_setter(...) \
    tp_cb_human_hyper_param_setter_(&(const tp_cb_human_hyper_param_setter_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_scheduled_hyper_param_setter(...) \
    tp_cb_scheduled_hyper_param_setter_(&(const tp_cb_scheduled_hyper_param_setter_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_hyper_param_setter_with_func(...) \
    tp_cb_hyper_param_setter_with_func_(&(const tp_cb_hyper_param_setter_with_func_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_stat_monitor_param_setter(...) \
    tp_cb_stat_monitor_param_setter_(&(const tp_cb_stat_monitor_param_setter_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_monitor_tf_event_writer(...) \
    tp_monitor_tf_event_writer_(&(const tp_monitor_tf_event_writer_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_monitor_scalar_printer(...) tp_monitor_scalar_printer_(&(const tp_monitor_scalar_printer_desc){.at_ = TP_AT, __VA_ARGS__})
#endif

#ifdef __cplusplus
}
#endif
#endif /* TP_CALLBACKS_H */

/* ===== STOP HERE if you only want to use the library. Everything below is implementation. ===== */
#if defined(TP_IMPLEMENTATION) && !defined(TP__CALLBACKS_IMPLEMENTED)
#define TP__CALLBACKS_IMPLEMENTED

#include "parts/callbacks_encode.inc"
#include "parts/callbacks_monitors.inc"

#endif
