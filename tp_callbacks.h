/* tp_callbacks.h - v0.1 - what happens around the steps: callbacks, monitors, inference, schedules
 *
 * Do this:
 *     #define TP_IMPLEMENTATION        // in ONE .c file, before any other include
 *     #include "tp_callbacks.h"        // pulls in tp_input.h, tp_graph.h and tp_tensor.h
 *
 * WHAT THIS IS       the callback and monitor protocols, every callback (savers, inference, schedules,
 *                    progress), the monitors (stats.json, event files, the printed list) and the default
 *                    sets.
 * WHAT THIS IS NOT   the loop that calls them, and trainers: tp_train.h. Callbacks see a plain struct,
 *                    tp_train_state.
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
 * CONTENTS   >>state >>callback >>monitor >>wrappers >>graph callbacks >>progress >>profiling >>savers >>inference
 *            >>parameters >>debugger >>built-in monitors >>report >>default sets   then, in the implementation, the
 *            same keys again, and >>report page: the text of the page that >>report writes
 *
 * HOW IT WORKS
 *     A trainer keeps one list of callbacks and walks it, always from the front, in each phase:
 *
 *         setup_graph                            once; nodes may still be added to the graph
 *         before_train                           once; variables have their values
 *         for each epoch:
 *             before_epoch
 *             for each step:  before_run, RUN, after_run   (one run computes all requested values)
 *                             trigger_step
 *             after_epoch                        directly after the steps; must be quick
 *             trigger_epoch                      for slow work; calls trigger unless you replace it
 *             checkpoint                         of the callbacks that called tp_callback_request_checkpoint
 *             after_checkpoint                   uses the checkpoint that is now on the disk, e.g. copies it
 *         after_train                            of all callbacks, always once the loop has begun, also after an error
 *
 *     A CHECKPOINT IS A POINT BETWEEN EPOCHS. The trigger of a ModelSaver only requests a checkpoint. It is written
 *     after every callback has triggered. It holds the saved variables and what tp_train_state_save collects, such as the states of
 *     all callbacks and monitors, at that time. So a training that is killed at any moment and resumed continues from the same
 *     point, bit for bit.
 *     A saver may be anywhere in the list: before or after validation, MinSaver before or after the
 *     ModelSaver. If a callback fails at the end of an epoch, the checkpoint of the previous epoch
 *     remains, and a resume repeats the epoch. If a callback returns TP_STOP in trigger_epoch, the training
 *     ends after that phase: the other callbacks still trigger, and the checkpoint
 *     is written. If a checkpoint is requested in trigger_step (tp_cb_periodic_trigger(saver, .every_k_steps = 100)), it
 *     is written after the trigger_step of every callback; a resume then continues within that epoch.
 *
 *     ORDER OF THE LIST. The order matters only to a callback that reads the result of another one in the same
 *     phase. List callbacks that report a statistic (InferenceRunner, your own) before those that use it in their
 *     trigger (StatMonitorParamSetter, SendStat). If two setters set the same parameter, the later one wins. Savers
 *     may be anywhere. Monitors are not in this list.
 *
 *     The counters in each hook (2 steps per epoch):
 *
 *         hook                        epoch_num  global_step  local_step
 *         before_train                    0           0           -1
 *         before_epoch                    1           0           -1   (in epoch 2 still 1)
 *         before_run, first step          1           0            0
 *         after_run, trigger_step         1           1            0
 *         before_run, second step         1           1            1
 *         after_run ... trigger_epoch     1           2            1
 *
 *     A training that Ctrl-C ended within an epoch, or whose last checkpoint was requested in trigger_step, resumes within that epoch:
 *     before_epoch is called again, for the steps that are left. local_step is then the last step that was done, so an epoch
 *     begins if local_step is -1 or steps_per_epoch - 1. A callback that resets something at the beginning of each epoch, such as
 *     the state of an LSTM, asks for that: what it would reset is in the checkpoint (examples/ptb_lstm.c).
 *
 *     Any hook may end the training: as a success with tp_stop(train, "why"), as a failure with tp_fail(...).
 *     Monitors have the same hooks. In each phase they run after the callbacks, so that they write at the end of a
 *     phase what the callbacks reported in it.
 *
 * OWNERSHIP  a callback, monitor, inferencer or parameter is owned by the object that it is passed to: a wrapper owns
 *            the callbacks it wraps, the trainer owns the rest. This holds on failure too. Options are copied.
 * THREADS    everything here runs on the thread that trains.
 * ERRORS     constructors check their arguments. After a mistake they return an object that stores the error
 *            sentence and fails at its first use. They return NULL only when out of memory. Hooks return tp_status:
 *            TP_OK, TP_STOP, TP_END or an error.
 * NOTATION   brackets name the tensorpack original: [callbacks: PeriodicTrigger] is
 *            tensorpack.callbacks.PeriodicTrigger.
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

/* The state of a training that callbacks can read. The trainer fills it; callbacks change it only through
 * functions. */
typedef struct tp_train_state {
    int64_t epoch_num;   /* the epoch in progress; in before_train, the number of finished epochs */
    int64_t global_step; /* finished steps since the model was created; restored from a checkpoint */
    /* index of the step in its epoch, from 0; keeps its value until the next epoch's first step. In before_epoch of an epoch
     * that is resumed: the last step that was done */
    int64_t local_step;
    /* steps_per_epoch, starting_epoch and max_epoch are valid from before_train on */
    int64_t steps_per_epoch, starting_epoch, max_epoch;
    bool resumed;  /* this training continues from its own checkpoint; valid from before_train on */
    bool is_chief; /* in a distributed training, true on one rank only */
    tp_graph *graph;
    tp_session *session;               /* valid from before_train on; evaluates nodes that do not depend on the input */
    tp_hooked_session *hooked_session; /* a run of hooked_session is one training step */
    tp_monitors *monitors;             /* receives reported numbers; from setup_graph on */
    tp_tower_func *tower_func;         /* NULL if the trainer has none */
    tp_node *cost;                     /* the scalar that is trained, from setup_graph on; NULL if there is none */
    struct tp_trainer
        *trainer; /* see tp_train.h: its train_op, run_step and user; NULL in a loop of your own [Callback.trainer] */
    tp_input_source *input;        /* the input of the training; may be NULL */
    tp_callback *const *callbacks; /* all callbacks, in order; their states go into checkpoints */
    int n_callbacks;
    char stop_reason[256]; /* the text given to tp_stop */
    /* Called after every hook; returns TP_INTR after Ctrl-C, which ends the phase. May be NULL */
    tp_status (*poll)(struct tp_train_state *train);
    tp_callback *due_; /* list of callbacks that requested a checkpoint in this phase */
    bool save_failed_; /* the last checkpoint could not be written */
    bool without_dir_; /* the log already says that no logger directory is set */
    bool within_;      /* an epoch has begun, and its triggers are not finished */
    int64_t done_;     /* number of finished steps of this epoch */
    tp_status end_;    /* set in after_train: the status with which the loop ended */
} tp_train_state;

/* Ends the training as a success: `return tp_stop(cb->train, "the error is below %g", goal);` returns TP_STOP. From a hook
 * within an epoch (trigger_step, after_run) training ends there: triggers of that epoch, ModelSaver's too, do not run, and steps since
 * the last checkpoint are not saved; a warning says which. A training that Ctrl-C or the end of its data ends saves those steps.
 * A plain `return TP_STOP;` does the same without a reason. [train: StopTraining] */
TP_DEF tp_status tp_stop(tp_train_state *train, const char *fmt, ...) TP_PRINTF(2, 3);
/* Writes a time as "1 minute 27 seconds": days, hours, minutes and seconds without those that are 0. Below a minute:
 * three significant digits. */
#define TP_TIME_TEXT 96
/* buf: at least TP_TIME_TEXT bytes; returns buf */
TP_DEF const char *tp_humanize_time_delta(double seconds, char *buf);

/* ==== >>callback ====================================================================================== */

/* The protocol of callbacks. Every function may be NULL. To write your own callback, make one with tp_callback_new and
 * set the hooks that it needs; its data is at `user`. Call hooks through the functions below, which skip those that are
 * NULL. [callbacks: Callback] */
struct tp_callback {
    /* name such as "ModelSaver", for logs and as name scope of setup_graph. Must outlive the callback. */
    const char *name;
    bool chief_only; /* in a distributed training only the chief runs this callback; true unless changed */
    bool is_monitor; /* set by tp_monitor_new */
    void *user;
    tp_train_state *train; /* set from setup_graph on */
    tp_status (*setup_graph)(tp_callback *cb);
    tp_status (*before_train)(tp_callback *cb);
    tp_status (*before_epoch)(tp_callback *cb); /* also when an epoch is resumed: see local_step */
    /* to add fetches and feeds, call tp_request_fetch, tp_request_feed */
    tp_status (*before_run)(tp_callback *cb, tp_run_request *r);
    tp_status (*after_run)(tp_callback *cb,
                           const tp_run_values *v); /* the fetched values, in the order requested; v->n may be 0 */
    tp_status (*trigger_step)(tp_callback *cb);
    tp_status (*after_epoch)(tp_callback *cb);
    tp_status (*trigger_epoch)(tp_callback *cb); /* for slow work at the end of an epoch; NULL: calls trigger */
    tp_status (*trigger)(tp_callback *cb);       /* the main action; called by trigger_epoch or by a wrapper */
    /* checkpoint writes the checkpoint, as savers do. It is called after every callback has triggered, if this callback called
     * tp_callback_request_checkpoint; tp_train_state_save has collected all states before. after_checkpoint is called for all
     * callbacks after each epoch and each checkpoint; it may use the checkpoint file, which is complete. */
    tp_status (*checkpoint)(tp_callback *cb);
    tp_status (*after_checkpoint)(tp_callback *cb);
    /* Called also when before_train failed or was never reached, but not after an error before main_loop, such as one in
     * setup_graph. An error is logged and does not change the result of the training. If a file could not be written,
     * tp_callback_set_unsaved makes the launch return TP_ERR_IO. */
    tp_status (*after_train)(tp_callback *cb);
    /* State that a checkpoint must hold, so that a resume is exact. save_state puts arrays into d under prefix + a
     * name of your choice (tp_state_put_i64, _f64). load_state reads them and is called before before_train. Missing keys
     * are not an error. In a distributed training the chief saves, and all ranks load what it has saved; a monitor on another rank
     * finds no keys. The prefix is made of name and id, not of the position in the list:
     * "tp:callback/MinSaver(validation_error)/"; a second callback of the same name and id gets ":2". */
    tp_status (*save_state)(tp_callback *cb, tp_dict *d, const char *prefix);
    tp_status (*load_state)(tp_callback *cb, const tp_dict *d, const char *prefix);
    /* auto-resume reads what this callback writes, so this callback must write last; set by ModelSaver */
    bool is_resumed_from;
    /* tells callbacks of the same name apart: the name of the statistic or parameter; NULL: none */
    const char *id;
    /* From before_train on: the training continues from a checkpoint that contains this callback, so actions that are done
     * once per model have been done */
    bool resumed;
    char *unsaved;             /* the sentence set by tp_callback_set_unsaved */
    tp_callback *const *inner; /* the callbacks that this one wraps; their states are saved too; NULL: none */
    int n_inner;
    void (*close)(tp_callback *cb); /* releases resources held by *user; tp_callback_free frees user and the struct */
    tp_owner owner_;
    tp_at at_;
    tp_status status_; /* if not TP_OK, the constructor failed, and error_ is the sentence */
    const char *error_;
    const char *state_prefix_;
    tp_callback *next_due_;
    bool due_, unnamed_; /* unnamed_: the callback belongs to the input and has no prefix in checkpoints */
    tp_arena mem_;       /* copies of names and options; freed with the callback */
};

/* Makes a callback with `bytes` of zeroed memory at user, freed with it; chief_only is true. NULL: out of memory. */
TP_DEF tp_callback *tp_callback_new(const char *name, size_t bytes);
/* Makes a callback that fails in setup_graph with this sentence, for constructors of your own. at may be NULL. */
TP_DEF tp_callback *tp_callback_fail(const tp_at *at, tp_status status, const char *fmt, ...) TP_PRINTF(3, 4);
/* The status of the constructor, with its error sentence; cb NULL: TP_ERR_NOMEM. */
TP_DEF tp_status tp_callback_status(const tp_callback *cb);
TP_DEF tp_callback *tp_callback_set_chief_only(tp_callback *cb, bool chief_only); /* returns cb */
TP_DEF void tp_callback_free(tp_callback *cb);                                    /* cb may be NULL */
/* Records that a file could not be written: the sentence says which one and why. fmt NULL: the file has been written now. A
 * sentence that is still set at the end of the training is logged as an error; the training's status is then TP_ERR_IO. */
TP_DEF void tp_callback_set_unsaved(tp_callback *cb, const char *fmt, ...) TP_PRINTF(2, 3);

/* Calls setup_graph in a name scope with the name of cb. */
TP_DEF tp_status tp_callback_setup_graph(tp_callback *cb, tp_train_state *train);
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

/* Finds a tensor by name, "cost" or "cost:0", in the whole graph, else in the first training tower. Otherwise returns
 * NULL and sets a sentence ("Tensor X not found in the graph!"). [Callback.get_tensors_maybe_in_tower] */
TP_DEF tp_node *tp_callback_find(tp_callback *cb, const char *name);

/* For save_state and load_state: n values, int64 or double, under prefix + key, with all their bits. The get functions return
 * false if there are not exactly n of them. */
TP_DEF tp_status tp_state_put_i64(tp_dict *d, const char *prefix, const char *key, const int64_t *v, int n);
TP_DEF tp_status tp_state_put_f64(tp_dict *d, const char *prefix, const char *key, const double *v, int n);
TP_DEF bool tp_state_get_i64(const tp_dict *d, const char *prefix, const char *key, int64_t *v, int n);
TP_DEF bool tp_state_get_f64(const tp_dict *d, const char *prefix, const char *key, double *v, int n);

/* Writes to and reads from tp_session_state everything but the saved variables that an exact resume needs: finished
 * epochs and steps, random steps, the input's position, local variables that the steps change (the moving averages of summaries,
 * copies of other towers that differ from the first one's), the states of callbacks and monitors. Load before before_train. It
 * warns about a callback whose state is missing and about a state that belongs to no callback. */
TP_DEF tp_status tp_train_state_save(tp_train_state *train);
TP_DEF tp_status tp_train_state_load(tp_train_state *train);
/* Requests that cb->checkpoint and cb->after_checkpoint are called at the end of the current phase. */
TP_DEF void tp_callback_request_checkpoint(tp_callback *cb);
/* Called by the trainer at the end of a phase. If a checkpoint was requested: calls tp_train_state_save, `checkpoint` of the
 * callbacks that requested it, and after_checkpoint of all. force: calls after_checkpoint in any case. In a loop of your
 * own, call it after tp_callback_trigger_epoch. */
TP_DEF tp_status tp_train_checkpoint(tp_train_state *train, bool force);

/* ==== >>monitor ======================================================================================= */

/* A number that was reported. */
typedef struct tp_stat {
    int64_t step; /* global_step when the value was reported */
    double value; /* an integer is exact up to 2^53 in absolute value, and rounded beyond */
    /* the value was reported by tp_monitors_put_int, or read from a stats.json that has it without a fraction: stats.json, commands
     * (SendStat) and Comet have it without a fraction */
    bool is_int;
} tp_stat;

/* Several values of one step with their tags. scalar is set for TP_SUMMARY_SCALAR, tensor for the other kinds. */
typedef struct tp_summary_value {
    const char *tag;
    int kind; /* the kind: TP_SUMMARY_SCALAR, _HISTOGRAM (any shape) or _IMAGE (see tp_monitors_put_image) */
    double scalar;
    bool is_int; /* as in tp_stat */
    const tp_tensor *tensor;
} tp_summary_value;
typedef struct tp_summary {
    const tp_summary_value *value;
    int n;
} tp_summary;

/* One Event of TensorBoard's event.proto: `data` is the encoded field number `field` (4 graph_def, 5 summary,
 * 7 session_log, 8 tagged_run_metadata). wall_time and step are filled in by tp_monitors_put_event. */
typedef struct tp_event {
    double wall_time; /* time in seconds since 1970 */
    int64_t step;
    unsigned field;
    const void *data;
    size_t size;
} tp_event;

/* The protocol of monitors: a callback that also receives all reported values. Every function may be NULL. An error
 * status fails the training, so monitors that write files log I/O errors and return TP_OK. chief_only is false.
 * [callbacks: MonitorBase] */
struct tp_monitor {
    tp_callback cb; /* must be the first field, so that a monitor is a callback */
    tp_status (*process_scalar)(tp_monitor *m, const char *name, const tp_stat *stat);
    /* image: NHWC, values 0..255, RGB */
    tp_status (*process_image)(tp_monitor *m, const char *name, const tp_tensor *image);
    tp_status (*process_event)(tp_monitor *m, const tp_event *event);
    tp_status (*process_summary)(tp_monitor *m,
                                 const tp_summary *summary); /* also called with each scalar, after process_scalar */
    /* Receives a key and a value; called only by tp_monitors_process [MonitorBase.process] */
    tp_status (*process)(tp_monitor *m, const char *name, const tp_stat *stat);
};
/* Makes a monitor with `bytes` of zeroed memory at cb.user. NULL: out of memory. */
TP_DEF tp_monitor *tp_monitor_new(const char *name, size_t bytes);
TP_DEF tp_monitor *tp_monitor_fail(const tp_at *at, tp_status status, const char *fmt, ...) TP_PRINTF(3, 4);
TP_DEF void tp_monitor_free(tp_monitor *m); /* m may be NULL */

/* All monitors of a training as one callback, the last one in the trainer's list, with the history of every scalar.
 * The history stays in memory: 24 to 48 bytes for each value that is reported, and JSONWriter keeps the text of its file, about 100
 * bytes for each step with values. So report each epoch, or every hundredth step, in trainings of millions of steps.
 * The monitors themselves are borrowed. [callbacks: Monitors] */
struct tp_monitors {
    tp_callback cb;
    tp_monitor *const *monitor;
    int n_monitor;
    struct tp__history *history; /* history of each name */
    int n_history, cap_history;
    tp_summary_value *clean_; /* reused buffer for a summary whose tags are cleaned */
    char *tags_;
    size_t cap_clean_, cap_tags_;
    tp_tensor image_;
    const void *reporter_; /* the inferencer that reports; NULL: none does */
};
TP_DEF tp_monitors *tp_monitors_new(tp_monitor *const *monitor, int n); /* free it with tp_callback_free(&m->cb) */
/* Reports a scalar: calls process_scalar of all monitors, then process_summary with this one value. name is copied
 * where it is kept. m NULL: nothing is reported, without an error, because a callback may be used without a trainer. */
TP_DEF tp_status tp_monitors_put_scalar(tp_monitors *m, const char *name, double value);
/* The same for an integer, which is a double from then on: one beyond 2^53 in absolute value is rounded. */
TP_DEF tp_status tp_monitors_put_int(tp_monitors *m, const char *name, int64_t value);
/* Only calls `process` of all monitors that have one; adds nothing to the history and makes no summary. */
TP_DEF tp_status tp_monitors_process(tp_monitors *m, const char *name, double value);
/* Reports an image: calls process_image, then process_summary. image: values 0..255, RGB, of shape (N,H,W,C), (H,W) or
 * (H,W,C) with C of 1, 3 or 4; any other 3-dimensional shape is (N,H,W). */
TP_DEF tp_status tp_monitors_put_image(tp_monitors *m, const char *name, const tp_tensor *image);
/* Reports several values: removes every "tower[0-9]+/" and a final "-summary" from the tags, calls process_scalar for
 * each scalar, then process_summary. */
TP_DEF tp_status tp_monitors_put_summary(tp_monitors *m, const tp_summary *summary);
TP_DEF tp_status tp_monitors_put_event(tp_monitors *m, tp_event *event);
/* Gets the newest value of a name; TP_ERR_NAME "No available data for the key: X" if there is none. A callback that
 * wants the value that another callback reports in the same phase must come after it in the list of callbacks. */
TP_DEF tp_status tp_monitors_get_latest(const tp_monitors *m, const char *name, tp_stat *stat);
/* Gets all values of a name, oldest first, including those from before a resume if a JSONWriter has them. *stats is valid
 * until the next value is reported. Returns their number; 0, without an error, if there are none. */
TP_DEF int tp_monitors_get_history(const tp_monitors *m, const char *name, const tp_stat **stats);

/* ==== >>wrappers ====================================================================================== */
/* Constructors take keyword arguments: tp_cb_periodic_trigger(cb, .every_k_steps = 100). Arguments without a keyword
 * come first, in the order of the fields. See OPTIONS in tp_tensor.h. Lists are arrays that end
 * with the first NULL: .names = {"cost", "error"}. They hold TP_MAX_NAMES entries. Compilers truncate a longer initializer with
 * only a warning, so the arrays have one more element; a list that fills it is refused with a sentence. */
#define TP_MAX_NAMES 32

/* A callback that owns cb and forwards all hooks to cb. Its name is "Proxy-<name of cb>"; chief_only is copied from cb. To write
 * a wrapper of your own, make a proxy, replace the functions that differ, and get cb with tp_proxy_inner.
 * [callbacks: ProxyCallback] */
TP_DEF tp_callback *tp_cb_proxy(tp_callback *cb);
TP_DEF tp_callback *tp_proxy_inner(const tp_callback *proxy);

/* A callback made of up to four functions; they get `user` with tp_lambda_user(cb). trigger is called at the end of each epoch.
 * For the other hooks fill in a callback of your own: tp_callback_new. [callbacks: CallbackFactory] */
typedef struct tp_cb_lambda_desc {
    tp_at at_;
    tp_status (*setup_graph)(tp_callback *cb);
    tp_status (*before_train)(tp_callback *cb);
    tp_status (*trigger)(tp_callback *cb);
    tp_status (*after_train)(tp_callback *cb);
    void *user;
    void (*release)(void *user); /* called once, when the callback is freed */
    const char *name;            /* name of the callback; default "CallbackFactory" */
} tp_cb_lambda_desc;
TP_DEF tp_callback *tp_cb_lambda_(const tp_cb_lambda_desc *d);
TP_DEF void *tp_lambda_user(const tp_callback *cb);

/* Calls cb's trigger every k steps (global_step % k == 0), every k epochs, and before training if .before_train is set (not
 * again after a resume).
 * global_step is tested after each step. If run_step calls tp_hooked_run n times a step, global_step grows by n, and a multiple of k
 * within a step triggers nothing: choose k as a multiple of n.
 * All other hooks except trigger_epoch are forwarded: without every_k_epochs nothing happens at the end
 * of an epoch. At least one of the three options is needed. [callbacks: PeriodicTrigger] */
typedef struct tp_cb_periodic_trigger_desc {
    tp_at at_;
    tp_callback *cb;
    int64_t every_k_steps;
    int64_t every_k_epochs;
    tp_tri before_train; /* whether it triggers before training that is not a resume, too; default TP_NO */
} tp_cb_periodic_trigger_desc;
TP_DEF tp_callback *tp_cb_periodic_trigger_(const tp_cb_periodic_trigger_desc *d);

/* Forwards before_epoch, after_epoch, before_run (with its after_run), trigger_step and trigger_epoch only when
 * pred(wrapper, user), called each time, returns true. Always forwards setup_graph, before_train, after_train and a
 * direct call of trigger. [callbacks: EnableCallbackIf] */
typedef struct tp_cb_enable_if_desc {
    tp_at at_;
    tp_callback *cb;
    bool (*pred)(tp_callback *wrapper, void *user);
    void *user;
} tp_cb_enable_if_desc;
TP_DEF tp_callback *tp_cb_enable_if_(const tp_cb_enable_if_desc *d);

/* The same as tp_cb_enable_if with this condition: global_step % every_k_steps == 0, or epoch_num % every_k_epochs ==
 * 0, or (with every_k_epochs) the last step of the last epoch. before_run uses the global_step before the run,
 * trigger_step the one after it. [callbacks: PeriodicCallback] */
typedef struct tp_cb_periodic_callback_desc {
    tp_at at_;
    tp_callback *cb;
    int64_t every_k_steps;
    int64_t every_k_epochs;
} tp_cb_periodic_callback_desc;
TP_DEF tp_callback *tp_cb_periodic_callback_(const tp_cb_periodic_callback_desc *d);

/* Makes one callback of n callbacks. It owns them and calls them in order in each phase. trigger_epoch is timed and
 * logged if it takes 2 s or more. If after_train of a callback fails, the error is logged and the next one still runs.
 * A trainer holds its callbacks in such a group. The group does not skip chief-only members. [callbacks: Callbacks] */
TP_DEF tp_callback *tp_cb_group(tp_callback *const *cbs, int n);
/* Makes a callback of a session hook: begin in setup_graph, after_create_session in before_train, end in after_train.
 * The hook is borrowed. chief_only is false. [callbacks: HookToCallback] */
TP_DEF tp_callback *tp_cb_hook(tp_hook *hook);
/* Makes a session hook of a callback: the hook calls cb's before_run and after_run, for a tp_hooked_session or an
 * InferenceRunner. You still own cb; the hook is freed with it. If train is NULL, the hook calls nothing else, as in
 * the original; you call cb's other functions. Otherwise the hook's begin calls setup_graph with this state,
 * after_create_session calls before_train, and end calls after_train; a state without graph and session gets them from
 * the hook. NULL: out of memory. [callbacks: CallbackToHook] */
TP_DEF tp_hook *tp_callback_to_hook(tp_callback *cb, tp_train_state *train);

/* ==== >>graph callbacks =============================================================================== */

/* Runs an op: in before_train (run_before; not again after a resume, since its effect is in the checkpoint), at each trigger
 * (run_as_trigger), and together with every step (run_step). The op is `op`, or the node that fn returns in setup_graph, or is
 * found by op_name. In before_train and trigger it runs in the plain session, so it should not depend on the input.
 * chief_only is false. [callbacks: RunOp] */
typedef struct tp_cb_run_op_desc {
    tp_at at_;
    tp_node *op;
    tp_node *(*fn)(tp_graph *g, void *user);
    void *user;
    const char *op_name;
    tp_tri run_before;     /* whether the op runs before training; default TP_YES */
    tp_tri run_as_trigger; /* whether to act at each trigger; default TP_YES */
    tp_tri run_step;       /* whether to act in each step; default TP_NO */
    tp_tri verbose;        /* log each time the op runs; default TP_NO */
} tp_cb_run_op_desc;
TP_DEF tp_callback *tp_cb_run_op_(const tp_cb_run_op_desc *d);

/* Runs all ops of a collection with every step, such as the updates of batch normalisation's running averages.
 * [callbacks: RunUpdateOps] */
typedef struct tp_cb_run_update_ops_desc {
    tp_at at_;
    const char *collection; /* name of the collection of ops; default TP_KEY_UPDATE_OPS */
} tp_cb_run_update_ops_desc;
TP_DEF tp_callback *tp_cb_run_update_ops_(const tp_cb_run_update_ops_desc *d);

/* Updates, with every step, the moving averages that tp_add_moving_summary made. With a train_op they are updated instead
 * whenever that op runs, in a step or not. An average that was made after train_op is an error, because an op can depend only
 * on older ops. [callbacks: MovingAverageSummary] */
typedef struct tp_cb_moving_average_summary_desc {
    tp_at at_;
    const char *collection; /* name of the collection of ops; default TP_KEY_MOVING_SUMMARY_OPS */
    tp_node *train_op;
    const char *train_op_name; /* name of the train_op, looked up in setup_graph; instead of train_op */
} tp_cb_moving_average_summary_desc;
TP_DEF tp_callback *tp_cb_moving_average_summary_(const tp_cb_moving_average_summary_desc *d);

/* Passes the summaries of a collection to the monitors: those of the last step of each epoch and, with a
 * period, of every period-th step. run_alone: evaluates them at trigger, in a separate run; then they
 * should not depend on the input. [callbacks: MergeAllSummaries] */
typedef struct tp_cb_merge_all_summaries_desc {
    tp_at at_;
    int64_t period;   /* period in steps; 0: only the last step of an epoch */
    tp_tri run_alone; /* whether the summaries are evaluated in a run of their own; default TP_NO */
    const char *key;  /* name of the collection of summaries; default TP_KEY_SUMMARIES */
} tp_cb_merge_all_summaries_desc;
TP_DEF tp_callback *tp_cb_merge_all_summaries_(const tp_cb_merge_all_summaries_desc *d);

/* Fetches tensors with every step and calls fn with their values. fn's status may stop, end or fail the training.
 * [callbacks: ProcessTensors] */
typedef struct tp_cb_process_tensors_desc {
    tp_at at_;
    const char *names[TP_MAX_NAMES + 1];
    tp_status (*fn)(tp_callback *cb, const tp_tensor *const *values, int n, void *user);
    void *user;
} tp_cb_process_tensors_desc;
TP_DEF tp_callback *tp_cb_process_tensors_(const tp_cb_process_tensors_desc *d);
/* Writes tensors of every step to <logger dir>/DumpTensor-<global_step>.npz. [callbacks: DumpTensors] */
typedef struct tp_cb_dump_tensors_desc {
    tp_at at_;
    const char *names[TP_MAX_NAMES + 1];
} tp_cb_dump_tensors_desc;
typedef tp_cb_dump_tensors_desc tp_cb_tensor_printer_desc;
TP_DEF tp_callback *tp_cb_dump_tensors_(const tp_cb_dump_tensors_desc *d);
/* Logs the first 16 values of tensors at every step, "cost:0: 0.25". This is slow. [callbacks: TensorPrinter] */
TP_DEF tp_callback *tp_cb_tensor_printer_(const tp_cb_dump_tensors_desc *d);
/* Fails with TP_ERR_NUMERIC "CheckNumerics['<variable>']" when a trainable variable holds NaN or infinity.
 * Checks before training, at each trigger (run_as_trigger) and after every step (run_step). [callbacks: CheckNumerics] */
typedef struct tp_cb_check_numerics_desc {
    tp_at at_;
    tp_tri run_as_trigger; /* whether to act at each trigger; default TP_YES */
    tp_tri run_step;       /* whether to act in each step; default TP_NO */
} tp_cb_check_numerics_desc;
TP_DEF tp_callback *tp_cb_check_numerics_(const tp_cb_check_numerics_desc *d);
/* Reports the mean of scalars over the last window_size steps as <name>/SMA when global_step % window_size == 0.
 * [callbacks: SimpleMovingAverage] */
typedef struct tp_cb_simple_moving_average_desc {
    tp_at at_;
    const char *names[TP_MAX_NAMES + 1];
    int window_size;
} tp_cb_simple_moving_average_desc;
TP_DEF tp_callback *tp_cb_simple_moving_average_(const tp_cb_simple_moving_average_desc *d);

/* At each trigger, writes a tensor that does not depend on the input as PNG files into the logger's directory:
 * <prefix>-ep<epoch, 3 digits>.png and, from the second image on, <prefix>-ep001-1.png, <prefix>-ep001-2.png. It also passes the
 * image to the monitors under the name `prefix`. The value, or the result of map_func, has shape (H,W), (H,W,C) with C of 1, 3, 4,
 * (N,H,W) or (N,H,W,C). Pixels are multiplied by `scale`, clipped to 0..255 and truncated to integers. 3 channels are red, green,
 * blue. (The original writes them as blue, green, red, and passes the value before `scale` to the monitors.)
 * [callbacks: DumpTensorAsImage] */
typedef struct tp_cb_dump_tensor_as_image_desc {
    tp_at at_;
    const char *tensor_name;
    const char *prefix; /* beginning of the file names; default: the op's name; '/' becomes '_' */
    /* Makes the image or images from the value; NULL: the value itself. *image is empty at first: size it with tp_tensor_resize. */
    tp_status (*map_func)(const tp_tensor *value, tp_tensor *image, void *user);
    void *user;
    double scale; /* factor for the pixels; default 255; write TP_ZERO for 0 */
} tp_cb_dump_tensor_as_image_desc;
TP_DEF tp_callback *tp_cb_dump_tensor_as_image_(const tp_cb_dump_tensor_as_image_desc *d);

/* Starts processes and threads in before_train and stops them in after_train, all together: a process with SIGTERM, a thread with
 * its tp_stop_flag. If one has not ended after 5 s, an error is logged; a process is then killed. A thread is detached and runs on:
 * what it uses must stay valid, and what belongs to the trainer does not, such as a predictor of tp_trainer_get_predictor. A thread
 * that may wait in tp_queue_put does not hear its flag: close the queue in after_train of a callback listed before this one. A
 * process that fails while the training goes on is a warning; another one, or a thread, that ends before it is an INFO line, within
 * two seconds. The processes do not receive Ctrl-C. A trainer that is killed (SIGKILL) stops nothing: a process goes on, and
 * keeps its address, unless it looks by itself whether its parent is there. On Linux prctl(PR_SET_PDEATHSIG, SIGTERM) at its start
 * does that; for a program that is not yours, argv begins with "setpriv", "--pdeathsig", "TERM". Processes need POSIX. chief_only is
 * false.
 * [callbacks: StartProcOrThread] */
typedef struct tp_stop_flag tp_stop_flag;
/* Called by the thread: waits for the stop signal, at most `seconds` (0: does not wait). Returns true if the thread must end. */
TP_DEF bool tp_stop_flag_wait(tp_stop_flag *f, double seconds);
typedef struct tp_startable {
    const char *const
        *argv; /* a process: the program, found on PATH, and its arguments, ending with NULL. No shell. Borrowed until
                                before_train */
    void (*run)(tp_stop_flag *f, void *user); /* a thread: its function; instead of argv */
    void *user;
} tp_startable;
typedef struct tp_cb_start_proc_or_thread_desc {
    tp_at at_;
    /* array of processes and threads; ends with the first entry that has neither argv nor run */
    tp_startable startable[TP_MAX_NAMES + 1];
    tp_tri stop_at_last; /* TP_NO: the processes and threads keep running after the training; default TP_YES */
} tp_cb_start_proc_or_thread_desc;
TP_DEF tp_callback *tp_cb_start_proc_or_thread_(const tp_cb_start_proc_or_thread_desc *d);

/* Limits the time of each training step, including the wait for its data. A step that takes longer ends the training with
 * TP_ERR_TIMEOUT, see tp_hooked_session_set_timeout. The first step takes longer because it also makes the plan.
 * [callbacks: SessionRunTimeout] */
TP_DEF tp_callback *tp_cb_session_run_timeout(int64_t timeout_in_ms);

/* ==== >>progress ====================================================================================== */

/* A progress bar on stderr for each epoch: percent, steps, elapsed and remaining time, steps per second, then the scalars
 * in `names`; without names, the cost of the training, if the trainer has one. On a terminal it is redrawn every 0.5 s and
 * takes one line; parts that do not fit are omitted, the bar first. In a pipe, a file or a terminal that
 * cannot move its cursor (TERM=dumb) a whole line is written every 180 s (under SLURM every 15 s, or 60 s on
 * several nodes; else 60 s under OpenMPI), and one at the end. $TENSORPACK_PROGRESS_REFRESH overrides these intervals, in seconds.
 * chief_only is false.
 * [callbacks: ProgressBar] */
typedef struct tp_cb_progress_bar_desc {
    tp_at at_;
    const char *names[TP_MAX_NAMES + 1];
    tp_tri cost; /* TP_NO: without names, no scalar is shown. Default TP_YES */
} tp_cb_progress_bar_desc;
TP_DEF tp_callback *tp_cb_progress_bar_(const tp_cb_progress_bar_desc *d);

/* Logs the estimated remaining time, computed from the last k epochs. An epoch that is resumed after some of its steps does not
 * count: the first estimate comes at the end of the next one. [callbacks: EstimatedTimeLeft] */
typedef struct tp_cb_estimated_time_left_desc {
    tp_at at_;
    int last_k_epochs; /* number of epochs that are averaged; default 5 */
    tp_tri median;     /* TP_YES: use the median time of an epoch, TP_NO: the mean; default TP_YES */
} tp_cb_estimated_time_left_desc;
TP_DEF tp_callback *tp_cb_estimated_time_left_(const tp_cb_estimated_time_left_desc *d);

/* Reports "Throughput (steps/sec)", or with samples_per_step "Throughput (samples/sec)". Counts only the time
 * between before_epoch and after_epoch. chief_only is false. [callbacks: ThroughputTracker] */
typedef struct tp_cb_throughput_tracker_desc {
    tp_at at_;
    double samples_per_step;
} tp_cb_throughput_tracker_desc;
TP_DEF tp_callback *tp_cb_throughput_tracker_(const tp_cb_throughput_tracker_desc *d);
/* Reports "HostFreeMemory (GB)" at each trigger. chief_only is false. [callbacks: HostMemoryTracker] */
TP_DEF tp_callback *tp_cb_host_memory_tracker(void);
/* Runs a shell command at each trigger. In it {name} is replaced by the newest value of that stat, {name:.3f} by that value
 * in Python's number format, {{ and }} by a brace. (The original's `names` are read from the command.) A missing stat fails
 * the training, a failing command is logged. [callbacks: SendStat] */
TP_DEF tp_callback *tp_cb_send_stat(const char *command);
/* For main(): writes the newest value of a stat, for example "validation_error", to *value when the training ends, also after
 * Ctrl-C or an error:
 *     double error;
 *     .. TP_CALLBACKS(.., tp_cb_get_latest("validation_error", &error)) ..
 * A value that nobody has reported (a warning names the nearest) is NaN; so is that of a rank other than the chief. `value` must
 * stay valid until then. With a trainer that you free yourself, tp_monitors_get_latest(tp_trainer_monitors(t), ..) after tp_train
 * does the same. [trainer.monitors.get_latest] */
TP_DEF tp_callback *tp_cb_get_latest(const char *name, double *value);

/* Ends the training, as a success, when a stat has not improved on its best value by more than threshold for `patience`
 * triggers at which it had a new value. Smaller is better; with reverse, larger. NaN is never better. List it after the
 * callback that reports the stat. A stat that is missing in two epochs with a trigger is an error, unless the callback that reports
 * it runs only every few epochs or steps (every_k_epochs, every_k_steps). Its state is saved in checkpoints: a training that it ended
 * ends again at once when resumed, unless patience is larger now. */
typedef struct tp_cb_early_stopping_desc {
    tp_at at_;
    const char *monitor_stat;
    int patience;     /* triggers without improvement after which training ends; default 5 */
    double threshold; /* smallest change that counts as an improvement; 0: any */
    tp_tri reverse;   /* TP_YES: larger is better, for example for an accuracy; default TP_NO */
} tp_cb_early_stopping_desc;
TP_DEF tp_callback *tp_cb_early_stopping_(const tp_cb_early_stopping_desc *d);

/* ==== >>profiling ===================================================================================== */

/* Reports "GPUUtil/<device>", in percent: the mean of the samples that NVIDIA's library NVML gives every `interval` seconds
 * during the steps of the epoch. Without that library, without a GPU, or after an NVML error it warns and reports nothing.
 * Each rank of a job measures; where ranks use different GPUs and $CUDA_VISIBLE_DEVICES does not say so, give .devices.
 * chief_only is false. [callbacks: GPUUtilizationTracker] */
typedef struct tp_cb_gpu_utilization_tracker_desc {
    tp_at at_;
    int devices[TP_MAX_NAMES]; /* numbers of GPUs, as nvidia-smi shows them */
    int n_devices;             /* number of devices; default: those of $CUDA_VISIBLE_DEVICES, else all */
    double interval;           /* seconds between two samples; default 1 */
    const char *library;       /* file name of the library to load; default: libnvidia-ml.so.1, on Windows nvml.dll */
} tp_cb_gpu_utilization_tracker_desc;
TP_DEF tp_callback *tp_cb_gpu_utilization_tracker_(const tp_cb_gpu_utilization_tracker_desc *d);

/* Reports, at each trigger, "PeakMemory(MB)/gpu:<device>" of devices of the session: the peak of the memory allocated on the
 * device since it was opened, in 10^6 bytes. A device that is not a GPU is reported under its own name, "PeakMemory(MB)/cpu:0".
 * A device that cannot measure its peak is skipped with a warning. chief_only is false. [callbacks: GPUMemoryTracker] */
typedef struct tp_cb_gpu_memory_tracker_desc {
    tp_at at_;
    int devices[TP_MAX_NAMES]; /* numbers of the session's devices, as for tp_device_enter */
    int n_devices;             /* number of devices; default: device 0 alone */
} tp_cb_gpu_memory_tracker_desc;
TP_DEF tp_callback *tp_cb_gpu_memory_tracker_(const tp_cb_gpu_memory_tracker_desc *d);

/* Traces every training step (see tp_request_trace), which makes the step slower, and writes the trace to the logger's
 * directory. Wrap this callback to trace only some steps:
 *     tp_cb_enable_if(tp_cb_graph_profiler(.dump_event = true), from_20_to_30)
 * dump_tracing: chrome-trace-<global_step>.json, for chrome://tracing and Perfetto. dump_metadata: runmetadata-<global_step>.pb,
 * TensorFlow's RunMetadata with the times of each operation. dump_event: sends this RunMetadata to the monitors as an event with
 * the tag "trace-<global_step>", which TensorBoard shows on the graph. [callbacks: GraphProfiler] */
typedef struct tp_cb_graph_profiler_desc {
    tp_at at_;
    tp_tri dump_metadata; /* whether to write runmetadata-<global_step>.pb; default TP_NO */
    tp_tri dump_tracing;  /* whether to write chrome-trace-<global_step>.json; default TP_YES */
    tp_tri dump_event;    /* whether to send the metadata to the monitors; default TP_NO */
} tp_cb_graph_profiler_desc;
TP_DEF tp_callback *tp_cb_graph_profiler_(const tp_cb_graph_profiler_desc *d);

/* ==== >>savers ======================================================================================== */

/* Requests a checkpoint at each trigger. After all callbacks have triggered, it writes all saved variables and the other state
 * that an exact resume needs to <dir>/model-<global_step>.npz (or another format), completely or not at all.
 * <dir>/checkpoint lists the checkpoints that are kept: the max_to_keep newest of this training, including those from before
 * resumes, and one every keep_checkpoint_every_n_hours, which is never deleted. An I/O error is logged and training continues; the
 * earlier checkpoints are unchanged. If the last checkpoint could not be written, the training ends with TP_ERR_IO and a
 * sentence that names the newest existing one (see .unsaved_is_ok in tp_train.h). The graph is not written, as tensorpack's .meta
 * file is: tp_export_onnx writes it, and tp_monitor_tf_event_writer for TensorBoard. [callbacks: ModelSaver] */
typedef struct tp_cb_model_saver_desc {
    tp_at at_;
    /* number of checkpoints to keep; default 10; TP_NONE: all, tensorpack's 0 */
    int max_to_keep;
    /* hours between checkpoints that are never deleted; default 0.5; TP_ZERO: keeps every checkpoint */
    float keep_checkpoint_every_n_hours;
    /* folder of the checkpoints; default: the logger's directory; created if missing */
    const char *checkpoint_dir;
    /* Collections of variables to save; global_step is saved with them, and what HyperParamSetters set, such as learning_rate.
     * Default TP_KEY_GLOBAL_VARIABLES. After a resume, other variables have the values that .session_init loads, or begin anew,
     * as slots of the optimizer do; .run_before of RunOp does not run again. */
    const char *var_collections[TP_MAX_NAMES + 1];
    tp_checkpoint_format format; /* format of the checkpoints; default TP_CHECKPOINT_NPZ */
} tp_cb_model_saver_desc;
TP_DEF tp_callback *tp_cb_model_saver_(const tp_cb_model_saver_desc *d);

/* At each trigger, if the newest value of a stat is better than all earlier ones, copies the checkpoint of that step to
 * <dir>/min-<stat>.npz (max-<stat>.npz; '/' in a stat becomes '_'), or with the suffixes of the checkpoint's format. It copies
 * after all callbacks have triggered and the checkpoint is written, so it may be anywhere in the list. NaN is never better. A stat
 * that has not been reported by the second epoch with a trigger is an error, or a warning if a wrapper may report it later. The best
 * value, and the value of the copied checkpoint, are saved in checkpoints: after a resume a worse one does not overwrite the copy,
 * and a copy that failed or was interrupted is made then. [callbacks: MinSaver, MaxSaver] */
typedef struct tp_cb_min_saver_desc {
    tp_at at_;
    const char *monitor_stat;
    tp_tri reverse;             /* TP_YES: keep the maximum, not the minimum; default TP_NO */
    const char *filename;       /* default "min-<stat>"; a final .npz is replaced by the suffix of the format */
    const char *checkpoint_dir; /* ModelSaver's folder; the copy is put there, too. Default: the logger's directory */
} tp_cb_min_saver_desc;
typedef tp_cb_min_saver_desc tp_cb_max_saver_desc;
TP_DEF tp_callback *tp_cb_min_saver_(const tp_cb_min_saver_desc *d);
TP_DEF tp_callback *tp_cb_max_saver_(const tp_cb_min_saver_desc *d); /* tp_cb_max_saver sets .reverse itself */

/* ==== >>inference ===================================================================================== */

/* Computes statistics from the outputs of a model over a data set. Write your own like a callback.
 * [callbacks: Inferencer] */
typedef struct tp_inferencer tp_inferencer;
struct tp_inferencer {
    const char *name;
    void *user;
    tp_train_state *train; /* set from setup_graph on */
    /* names of tensors of the inference tower (or of the graph), whose values on_fetches gets */
    const char *const *names;
    int n_names;
    /* called once before training; may still set names */
    tp_status (*setup_graph)(tp_inferencer *inf);
    /* called at the start of a pass */
    tp_status (*before_inference)(tp_inferencer *inf);
    tp_status (*on_fetches)(tp_inferencer *inf, const tp_tensor *const *values, int n); /* called for each datapoint */
    /* called at the end of a pass, to report: tp_monitors_put_scalar(inf->train->monitors, ...) */
    tp_status (*after_inference)(tp_inferencer *inf);
    void (*close)(tp_inferencer *inf);
    tp_owner owner_;
    tp_at at_;
    tp_status status_;
    const char *error_;
    tp_arena mem_; /* copies of names and options; freed with the inferencer */
    /* checks before training the nodes that the names stand for, such as their shapes; NULL: there is no check */
    tp_status (*check_)(const tp_inferencer *inf, tp_node *const *nodes);
};
/* Makes an inferencer with `bytes` of zeroed memory at user. NULL: out of memory. NULL ends a list of inferencers, so
 * constructors then return tp_inferencer_fail(...), which is never NULL. */
TP_DEF tp_inferencer *tp_inferencer_new(const char *name, size_t bytes);
TP_DEF tp_status tp_inferencer_set_names(tp_inferencer *inf, const char *const *names, int n); /* names are copied */
TP_DEF tp_inferencer *tp_inferencer_fail(const tp_at *at, tp_status status, const char *fmt, ...) TP_PRINTF(3, 4);
TP_DEF void tp_inferencer_free(tp_inferencer *inf);

/* Reports the unweighted mean of scalars over all batches as <prefix>_<op name>: tp_inf_scalar_stats(TP_NAMES("cost", "accuracy"),
 * .prefix = "test"). [callbacks: ScalarStats] */
typedef struct tp_inf_scalar_stats_desc {
    tp_at at_;
    const char *names[TP_MAX_NAMES + 1];
    const char *prefix; /* first part of the reported names; default "validation"; "" for no prefix */
} tp_inf_scalar_stats_desc;
TP_DEF tp_inferencer *tp_inf_scalar_stats_(const tp_inf_scalar_stats_desc *d);
/* Reports the mean of a vector whose entries are 1 where the model was wrong, over all samples; exact also with a smaller
 * last batch. Entries below 0 or above 1 are an error: they are logits, say, or numbers of classes.
 * [callbacks: ClassificationError] */
typedef struct tp_inf_classification_error_desc {
    tp_at at_;
    const char *wrong_tensor_name; /* name of the vector of mistakes; default "incorrect_vector" */
    const char *summary_name;      /* name of the reported mean; default "validation_error" */
} tp_inf_classification_error_desc;
TP_DEF tp_inferencer *tp_inf_classification_error_(const tp_inf_classification_error_desc *d);
/* Reports <prefix>_precision and <prefix>_recall of predictions; predictions and labels are 0 or 1. A probability counts as 1 above
 * 0.5. Values below 0 or above 1 are an error, as for tp_inf_classification_error. [callbacks: BinaryClassificationStats] */
typedef struct tp_inf_binary_classification_desc {
    tp_at at_;
    const char *pred_tensor_name;
    const char *label_tensor_name;
    const char *prefix; /* first part of the reported names; default "val" */
} tp_inf_binary_classification_desc;
TP_DEF tp_inferencer *tp_inf_binary_classification_(const tp_inf_binary_classification_desc *d);

/* At each trigger, runs one pass over the input through an inference tower that shares the trained variables; then the
 * inferencers report. The input is a dataflow (fed from this thread) or an input source; a pass has as many datapoints as
 * its size says; a size of 0 is an error. If the size is unknown, the pass ends where the input ends. Each pass uses the same data and
 * the same random numbers. The tower is built on .device, a number of the session's devices as for tp_device_enter (the CPU has a
 * number too, so -1 is not used). It uses the variables of the training tower with that number if that tower has its own, otherwise
 * those of the first tower. [callbacks: InferenceRunner] */
typedef struct tp_cb_inference_runner_desc {
    tp_at at_;
    tp_dataflow *df; /* give either df or .input */
    tp_inferencer *inferencers[TP_MAX_NAMES + 1];
    tp_input_source *input;
    const char *tower_name;    /* name of the inference tower; default "InferenceTower" */
    tp_tower_func *tower_func; /* function that builds the tower; default: the trainer's tower function */
    int device;
} tp_cb_inference_runner_desc;
TP_DEF tp_callback *tp_cb_inference_runner_(const tp_cb_inference_runner_desc *d);
/* An InferenceRunner on n_devices devices, with towers <tower_name>0, <tower_name>1, ... Each run takes one datapoint per
 * device. If fewer datapoints than devices remain, they run one by one on the first tower. So the inferencers get each
 * datapoint once, in the order of the data, and report the same numbers as with an InferenceRunner. The input is a QueueInput,
 * or a dataflow, which is wrapped in a QueueInput; its size must be known. [callbacks: DataParallelInferenceRunner] */
typedef struct tp_cb_data_parallel_inference_runner_desc {
    tp_at at_;
    tp_dataflow *df; /* give either df or .input */
    tp_inferencer *inferencers[TP_MAX_NAMES + 1];
    int n_devices;      /* number of towers; required */
    const int *devices; /* number of the session's device for each tower; NULL: 0, 1, .. */
    tp_input_source *input;
    const char *tower_name;    /* name of the inference tower; default "InferenceTower" */
    tp_tower_func *tower_func; /* function that builds the tower; default: the trainer's tower function */
} tp_cb_data_parallel_inference_runner_desc;
TP_DEF tp_callback *tp_cb_data_parallel_inference_runner_(const tp_cb_data_parallel_inference_runner_desc *d);
/* For a runner of your own, which builds the model for inference itself. `build` is called once, in setup_graph: it calls
 * tp_input_setup(input, ...) and adds the nodes that a pass runs. `find` returns the node for a tensor name of an inferencer
 * (NULL: no such tensor). Data, hooks and passes are those of an InferenceRunner; a pass at each trigger runs
 * tp_input_size datapoints. [callbacks: InferenceRunnerBase] */
typedef struct tp_cb_inference_runner_base_desc {
    tp_at at_;
    tp_dataflow *df; /* give either df or .input */
    tp_inferencer *inferencers[TP_MAX_NAMES + 1];
    tp_input_source *input;
    tp_status (*build)(tp_callback *runner, tp_input_source *input, void *user);
    /* finds a node by name; default: tp_callback_find */
    tp_node *(*find)(tp_callback *runner, const char *name, void *user);
    void *user;
    const char *name; /* name of the callback; default "InferenceRunnerBase" */
} tp_cb_inference_runner_base_desc;
TP_DEF tp_callback *tp_cb_inference_runner_base_(const tp_cb_inference_runner_base_desc *d);
/* Adds a hook to the runs of an inference runner; the hook is borrowed. Call it before training.
 * [InferenceRunner.register_hook] */
TP_DEF tp_status tp_inference_runner_register_hook(tp_callback *runner, tp_hook *hook);

/* ==== >>parameters ==================================================================================== */

/* A number that training can change. [callbacks: HyperParam] */
typedef struct tp_hyper_param tp_hyper_param;
struct tp_hyper_param {
    const char *name; /* name of the parameter for log lines */
    void *user;
    /* set from setup_graph on. In a callback of your own: p->train = cb->train, then p->setup_graph(p), in its setup_graph */
    tp_train_state *train;
    tp_status (*setup_graph)(tp_hyper_param *p);
    tp_status (*get_value)(tp_hyper_param *p, double *value);
    tp_status (*set_value)(tp_hyper_param *p, double value);
    void (*close)(tp_hyper_param *p);
    tp_owner owner_;
    tp_arena mem_;
    /* get_array and set_array are for a parameter that is an array; get_value and set_value may then be NULL */
    tp_status (*get_array)(tp_hyper_param *p, tp_tensor *value);
    tp_status (*set_array)(tp_hyper_param *p, const tp_tensor *value);
};
TP_DEF tp_hyper_param *tp_hyper_param_new(const char *name, size_t bytes); /* name is copied */
TP_DEF void tp_hyper_param_free(tp_hyper_param *p);
/* A parameter that is a scalar variable of the graph, "learning_rate". [callbacks: GraphVarParam] */
TP_DEF tp_hyper_param *tp_param_graph_var(const char *name);
/* A parameter that is an array variable of the graph. A dimension of `shape` that is TP_ANY matches any size. get_array
 * reads it, set_array writes it (and converts between float types), and tp_cb_hyper_param_setter with fn_array changes
 * it. The other setters work with one number and refuse an array; tensorpack's setters fail when they log the value.
 * [callbacks: GraphVarParam(shape)] */
TP_DEF tp_hyper_param *tp_param_graph_var_array(const char *name, tp_shape shape);
/* A parameter that is a double, float, int32 or int64 of the calling program; field is borrowed. An integer takes whole numbers of
 * its range only, an int64 those up to 2^53 in absolute value: TP_ERR_DTYPE. A larger one that the program sets is rounded where a
 * setter reads it, and exact in checkpoints. The field is written on the training's thread: a flow that a queue reads ahead sees a
 * change during the training some datapoints later, not always the same number. [callbacks: ObjAttrParam] */
TP_DEF tp_hyper_param *tp_param_field(const char *name, void *field, tp_dtype dtype);

/* Sets a parameter at each trigger, and once before training (not again after a resume), with fn. *value is the current
 * value: fn writes the new one and sets *set, or leaves *set false to change nothing. All setters below are made with this
 * one. The parameter is the graph variable `name`, or `param`. Changes are logged once per epoch. chief_only is false.
 * [callbacks: HyperParamSetter] */
typedef tp_status (*tp_param_fn)(tp_callback *setter, void *user, double *value, bool *set);
/* The same as tp_param_fn for an array: value has the parameter's dtype and shape and is changed in place. */
typedef tp_status (*tp_param_array_fn)(tp_callback *setter, void *user, tp_tensor *value, bool *set);
typedef struct tp_cb_hyper_param_setter_desc {
    tp_at at_;
    const char *name;
    tp_param_fn fn;
    void *user;
    tp_hyper_param *param;
    void (*release)(void *user);
    tp_param_array_fn fn_array; /* instead of fn, if .param is an array */
} tp_cb_hyper_param_setter_desc;
TP_DEF tp_callback *tp_cb_hyper_param_setter_(const tp_cb_hyper_param_setter_desc *d);
TP_DEF tp_status tp_setter_current_value(tp_callback *setter, double *value);
/* For a parameter that is an array; the caller owns value. */
TP_DEF tp_status tp_setter_current_array(tp_callback *setter, tp_tensor *value);

/* Sets the value from a file in the logger's directory, which is read at each trigger: lines "name: value". As in the
 * original, if one line (even an empty one) has another form, the whole file is ignored with a warning.
 * [callbacks: HumanHyperParamSetter] */
typedef struct tp_cb_human_hyper_param_setter_desc {
    tp_at at_;
    const char *name;
    const char *file_name; /* name of the file; default "hyper.txt" */
    tp_hyper_param *param;
} tp_cb_human_hyper_param_setter_desc;
TP_DEF tp_callback *tp_cb_human_hyper_param_setter_(const tp_cb_human_hyper_param_setter_desc *d);

/* Sets the value by a schedule: {30, 0.01} sets 0.01 at the end of epoch 30, so epoch 31 is the first to use it; 0 means
 * before training. TP_INTERP_LINEAR interpolates between the points. step_based: points are global steps; the value is set
 * after that step. If training starts between two points, it sets the value of the schedule there
 * (set_at_beginning), otherwise it only warns. [callbacks: ScheduledHyperParamSetter] */
typedef struct tp_schedule_point {
    int64_t at; /* number of the epoch, or with step_based of the step */
    double value;
} tp_schedule_point;
#define TP_MAX_SCHEDULE 128
typedef enum { TP_INTERP_NONE = 0, TP_INTERP_LINEAR = 1 } tp_interp;
typedef struct tp_cb_scheduled_hyper_param_setter_desc {
    tp_at at_;
    const char *name;
    tp_schedule_point schedule[TP_MAX_SCHEDULE + 1]; /* the points, in any order: {{1, 0.1}, {30, 0.01}} */
    /* number of points; 0: up to the last point that is not {0, 0}; required if the last point is {0, 0} */
    int n_schedule;
    int interp;              /* interpolation, a tp_interp */
    tp_tri step_based;       /* whether the schedule counts steps instead of epochs; default TP_NO */
    tp_tri set_at_beginning; /* whether the value is set before training, too; default TP_YES */
    tp_hyper_param *param;
} tp_cb_scheduled_hyper_param_setter_desc;
TP_DEF tp_callback *tp_cb_scheduled_hyper_param_setter_(const tp_cb_scheduled_hyper_param_setter_desc *d);

/* Sets the value to fn(epoch_num, old_value), at each trigger and before training (with epoch_num = starting_epoch - 1).
 * [callbacks: HyperParamSetterWithFunc] */
typedef struct tp_cb_hyper_param_setter_with_func_desc {
    tp_at at_;
    const char *name;
    double (*fn)(int64_t epoch_num, double old_value, void *user);
    void *user;
    tp_hyper_param *param;
} tp_cb_hyper_param_setter_with_func_desc;
TP_DEF tp_callback *tp_cb_hyper_param_setter_with_func_(const tp_cb_hyper_param_setter_with_func_desc *d);

/* Sets the value to fn(old value) when a stat has not improved in its last_k newest values, and then counts anew. The stat has
 * improved if one of them is smaller than the oldest minus threshold (reverse: larger than the oldest plus threshold). fn may
 * end the training by its status. A stat that has not been reported by the second epoch with a trigger is an error, or a warning if
 * a wrapper may report it later. In a training of several ranks a stat is often reported on the chief alone: HorovodTrainer sends what
 * the chief has set to the other ranks before the next epoch. [callbacks: StatMonitorParamSetter] */
typedef struct tp_cb_stat_monitor_param_setter_desc {
    tp_at at_;
    const char *name;
    const char *stat_name;
    tp_status (*fn)(double *value, void *user); /* *value: on entry the old value, on return the new one */
    void *user;
    double threshold; /* a change of at most this much does not count as an improvement; 0: any change counts */
    int last_k;
    tp_tri reverse; /* whether larger is better; default TP_NO */
    tp_hyper_param *param;
} tp_cb_stat_monitor_param_setter_desc;
TP_DEF tp_callback *tp_cb_stat_monitor_param_setter_(const tp_cb_stat_monitor_param_setter_desc *d);

/* ==== >>debugger ====================================================================================== */

/* A debugger on the terminal: it reads commands from stdin and writes answers to stdout. It stops before a training step, when
 * the step's data is available, and can show every value that the step will compute: step through its operations, run to one of
 * them, list all values, print one, or continue until a value passes a filter, such as has_inf_or_nan. To do so it runs the
 * operations of the step, except those that change variables, in a separate plan that keeps every value: same data, same random
 * numbers, same bits. It does not change the training. `help` lists the commands:
 *
 *     run [N | -f FILTER | -n]     run this step and stop before the next; or after N steps; when a value passes; never again
 *     step [N]                     compute the next N operations
 *     to NODE                      compute all operations up to this one
 *     list [-f FILTER] [REGEX]     the values of this step, in the order of computation
 *     print NODE[SLICE] [-a]       a value, such as "print conv0/output[0, :, 3:5]"; -a: all of it
 *     node NODE                    the operation: its source line, the nodes it reads, the nodes that read it
 *     inputs NODE, outputs NODE    the values that it reads, and the values computed from its output
 *     filters, stat [NAME], set VARIABLE VALUE, save, stop, help
 *
 * When stdin ends, training continues without the debugger. It cannot show values that depend on an operation that changes
 * variables, communicates with other machines or calls a function of the program, because that operation would run twice.
 * [callbacks: TFLocalCLIDebugHook] */
typedef struct tp_cb_debug_cli_desc {
    tp_at at_;
    const char *run_filter; /* begin with the command "run -f" and this filter; NULL: stop before the first step */
    const char *commands;   /* commands to run before stdin is read, with ';' or newlines between them; NULL: none */
} tp_cb_debug_cli_desc;
TP_DEF tp_callback *tp_cb_debug_cli_(const tp_cb_debug_cli_desc *d);
/* Adds a filter of your own; built-in ones are has_inf_or_nan, has_nan, has_inf and all_zero. fn returns true for a value at which
 * the debugger must stop. The value is in host memory. Call it before training. [TFLocalCLIDebugHook.add_tensor_filter] */
typedef bool (*tp_tensor_filter_fn)(const tp_node *node, const tp_tensor *value, void *user);
TP_DEF tp_status tp_debug_cli_add_tensor_filter(tp_callback *debugger, const char *name, tp_tensor_filter_fn fn,
                                                void *user);

/* Opens the debugger at each trigger while `file` exists (`touch INJECT_SHELL.tmp`). It is opened between steps, so it shows
 * variables and values that do not depend on the input; `run` closes it. The file is deleted after training.
 * [callbacks: InjectShell] */
typedef struct tp_cb_inject_shell_desc {
    tp_at at_;
    const char *file; /* name of the file; default "INJECT_SHELL.tmp", in the working directory of the program */
} tp_cb_inject_shell_desc;
TP_DEF tp_callback *tp_cb_inject_shell_(const tp_cb_inject_shell_desc *d);

/* ==== >>built-in monitors ============================================================================= */

/* Writes TensorBoard's event files, events.out.tfevents.<seconds>.<host>; if this file exists, a number is appended to the name.
 * The seconds are those since 1970; if a file of the folder has as many or more, because the clock was set back, one more than that.
 * Without a directory it warns and does nothing. After an I/O error it writes no more, training continues, and its status at the
 * end is TP_ERR_IO. [callbacks: TFEventWriter] */
typedef struct tp_monitor_tf_event_writer_desc {
    tp_at at_;
    const char *logdir; /* folder of the event files; default: the logger's directory; must exist */
    int max_queue;      /* events kept in memory before they are written; default 10; TP_NONE: none */
    double flush_secs;  /* seconds between two writes; default 120; write TP_ZERO for 0 */
    tp_tri split_files; /* whether each epoch gets a new file; default TP_NO */
} tp_monitor_tf_event_writer_desc;
TP_DEF tp_monitor *tp_monitor_tf_event_writer_(const tp_monitor_tf_event_writer_desc *d);

/* Writes <logger dir>/stats.json: a list with one object per step at which something was reported. An existing file is
 * continued when training continues where it stopped, and where its last record has no epoch_num; otherwise it is renamed to
 * stats.json.MMDD-HHMMSS. A training that is not resumed ends with TP_ERR_FORMAT before its first step if the file is no such list. If a name is reported
 * more than once at a step, its object has the last value alone, as in tensorpack. [callbacks: JSONWriter] */
TP_DEF tp_monitor *tp_monitor_json_writer(void);
/* Gets the epoch_num of the last record of <dir>/stats.json (dir NULL: the logger's directory). TP_ERR_NAME if there is no file,
 * TP_ERR_FORMAT if it is not a JSON list; *epoch is -1 when the list is empty or the record has no epoch_num.
 * [JSONWriter.load_existing_epoch_number] */
TP_DEF tp_status tp_load_existing_epoch_number(const char *dir, int64_t *epoch);
/* Reads all numbers of all records of <dir>/stats.json, in the order of the file. Free *entries with tp_free; this frees the names
 * too. Errors as for tp_load_existing_epoch_number; *entries is NULL then.
 *     for (int i = 0; i < n; i++)
 *         if (strcmp(e[i].name, "cost") == 0) printf("%lld %g\n", (long long)e[i].epoch_num, e[i].value); */
typedef struct tp_stat_entry {
    const char *name;
    int64_t epoch_num, global_step; /* those of the record that holds the number; -1 if the record does not have them */
    double value;
} tp_stat_entry;
TP_DEF tp_status tp_load_existing_stats(const char *dir, tp_stat_entry **entries, int *n);
/* Reads the text of <dir>/stats.json and checks it; free *text with tp_free. [JSONWriter.load_existing_json] */
TP_DEF tp_status tp_load_existing_json(const char *dir, char **text);

/* Logs "name: value" of every scalar, sorted, at the end of each epoch (and of each step with enable_step).
 * whitelist and blacklist are regexes (>>regex of tp_graph.h) that are searched in the name. A scalar is printed if a regex of
 * the whitelist matches, or there is no whitelist, and no regex of the blacklist matches. An invalid regex fails the training
 * before its first step. [callbacks: ScalarPrinter] */
typedef struct tp_monitor_scalar_printer_desc {
    tp_at at_;
    tp_tri enable_step;                      /* whether to print at each step; default TP_NO */
    tp_tri enable_epoch;                     /* whether to print at each epoch; default TP_YES */
    const char *whitelist[TP_MAX_NAMES + 1]; /* names to print; none: all */
    const char *blacklist[TP_MAX_NAMES + 1];
} tp_monitor_scalar_printer_desc;
TP_DEF tp_monitor *tp_monitor_scalar_printer_(const tp_monitor_scalar_printer_desc *d);

/* Runs a shell command when every stat of `names` has been reported since its last run; checked after each step and each epoch.
 * {name} in the command is replaced as by tp_cb_send_stat, and only by numbers, so a reported value cannot inject shell
 * commands. A failing command is logged. [callbacks: SendMonitorData] */
typedef struct tp_monitor_send_data_desc {
    tp_at at_;
    const char *command;
    const char *names[TP_MAX_NAMES + 1];
} tp_monitor_send_data_desc;
TP_DEF tp_monitor *tp_monitor_send_data_(const tp_monitor_send_data_desc *d);

/* Sends scalars, images (as PNG), the graph and the ends of epochs to comet.com with its REST interface, on a separate thread. It
 * needs libcurl, which is loaded when training begins. Without libcurl or without an API key the training fails before its first
 * step with a sentence that says what is missing. If the server cannot be reached or refuses data, it warns and drops that data.
 * after_train waits at most 10 s for data that is still in the queue. [callbacks: CometMLMonitor] */
typedef struct tp_monitor_comet_desc {
    tp_at at_;
    const char *api_key;         /* key of the Comet account; default: $COMET_API_KEY */
    const char *project_name;    /* name of the Comet project; default: $COMET_PROJECT_NAME, else "general" */
    const char *workspace;       /* name of the Comet workspace; default: $COMET_WORKSPACE, else your default one */
    const char *experiment_name; /* name of the Comet experiment; NULL: Comet chooses a name */
    const char *experiment_key;  /* key of an experiment to continue; NULL: a new one */
    const char *tags[TP_MAX_NAMES + 1];
    const char *url;     /* address of the Comet server; default "https://www.comet.com/api/rest/v2" */
    const char *library; /* file name of the library to load; default: libcurl by its usual names */
} tp_monitor_comet_desc;
TP_DEF tp_monitor *tp_monitor_comet_(const tp_monitor_comet_desc *d);

/* ==== >>report ======================================================================================== */

/* Writes <logger dir>/report.html: one self-contained page about the training. It needs no server and loads no other file: open it
 * from the disk, or send it to somebody. It shows the curves of all scalars (with smoothing, a log scale, zoom, and at the
 * cursor the numbers of stats.json), histograms and images of summaries, a drawing of the model, the time and the
 * memory traffic of each kernel of one step, parameters, the progress with the remaining time, and the last lines of the log.
 * The page reloads itself while the training runs.
 *
 * The file is written when training begins and ends, within an epoch every `every_secs` seconds, and after an epoch if a second has
 * passed since the last writing (or `every_secs`, if that is less). Between begin and end a writing waits as long as it would make
 * writing take more than half a percent of the time. The file is replaced as a whole or not at all. Long curves are thinned: of
 * each piece the first, last, smallest and largest value and a NaN are kept. A run has about 400,000 values, shared evenly by its
 * curves: 10,000 a curve at most, and 250 however many curves there are. Histograms of up to 48 steps are kept, images of up to 8
 * steps (8 of a batch, no side larger than 256; 2 MB in all, or more where the newest of each tag need more): the first, the
 * newest, and evenly spaced ones between them. Histograms and images are saved in checkpoints, so that the page of a resumed
 * training shows all of it; scalars from before a resume are shown if a JSONWriter is among the monitors. An I/O error or lack of
 * memory is logged, and training continues; if the last page could not be written, the training's status is TP_ERR_IO. Without a
 * logger directory it warns and does nothing. */
typedef struct tp_monitor_report_desc {
    tp_at at_;
    const char
        *runs[TP_MAX_NAMES + 1]; /* directories of other trainings; the curves of their stats.json are shown too */
    /* seconds between two writings of the page; default 5; TP_ZERO: write after each step, without the limit on its
     * time */
    double every_secs;
    /* TP_NO: no step is measured. Default TP_YES: the second and third step are measured, so they take longer */
    tp_tri trace;
} tp_monitor_report_desc;
TP_DEF tp_monitor *tp_monitor_report_(const tp_monitor_report_desc *d);

/* ==== >>default sets ================================================================================== */

/* Makes the default callbacks: MovingAverageSummary, ProgressBar, MergeAllSummaries, RunUpdateOps. Entries are NULL
 * when out of memory. */
#define TP_N_DEFAULT_CALLBACKS 4
TP_DEF void tp_default_callbacks(tp_callback *list[TP_N_DEFAULT_CALLBACKS]);
/* Makes the default monitors: TFEventWriter, JSONWriter, ScalarPrinter, the report. */
#define TP_N_DEFAULT_MONITORS 4
TP_DEF void tp_default_monitors(tp_monitor *list[TP_N_DEFAULT_MONITORS]);
/* Counts steps in the graph's global_step variable and in train->global_step. A trainer puts it in front of the user's
 * callbacks. [MaintainStepCounter] */
TP_DEF tp_callback *tp_cb_maintain_step_counter(void);

TP_DEF const tp__zero_option *tp__callbacks_zeros(void);
/* clang-format off */
#ifndef __cplusplus
#define tp_cb_periodic_trigger(...) TP__CALL(callbacks, tp_cb_periodic_trigger, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_enable_if(...) TP__CALL(callbacks, tp_cb_enable_if, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_periodic_callback(...) TP__CALL(callbacks, tp_cb_periodic_callback, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_run_op(...) TP__CALL(callbacks, tp_cb_run_op, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_process_tensors(...) TP__CALL(callbacks, tp_cb_process_tensors, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_dump_tensors(...) TP__CALL(callbacks, tp_cb_dump_tensors, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_tensor_printer(...) TP__CALL(callbacks, tp_cb_tensor_printer, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_simple_moving_average(...) TP__CALL(callbacks, tp_cb_simple_moving_average, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_dump_tensor_as_image(...) TP__CALL(callbacks, tp_cb_dump_tensor_as_image, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_inference_runner_base(...) TP__CALL(callbacks, tp_cb_inference_runner_base, #__VA_ARGS__, __VA_ARGS__)
#define tp_monitor_send_data(...) TP__CALL(callbacks, tp_monitor_send_data, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_early_stopping(...) TP__CALL(callbacks, tp_cb_early_stopping, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_min_saver(...) TP__CALL(callbacks, tp_cb_min_saver, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_max_saver(...) TP__CALL(callbacks, tp_cb_max_saver, #__VA_ARGS__, __VA_ARGS__)
#define tp_inf_scalar_stats(...) TP__CALL(callbacks, tp_inf_scalar_stats, #__VA_ARGS__, __VA_ARGS__)
#define tp_inf_binary_classification(...) TP__CALL(callbacks, tp_inf_binary_classification, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_inference_runner(...) TP__CALL(callbacks, tp_cb_inference_runner, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_data_parallel_inference_runner(...) TP__CALL(callbacks, tp_cb_data_parallel_inference_runner, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_hyper_param_setter(...) TP__CALL(callbacks, tp_cb_hyper_param_setter, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_human_hyper_param_setter(...) TP__CALL(callbacks, tp_cb_human_hyper_param_setter, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_scheduled_hyper_param_setter(...) TP__CALL(callbacks, tp_cb_scheduled_hyper_param_setter, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_hyper_param_setter_with_func(...) TP__CALL(callbacks, tp_cb_hyper_param_setter_with_func, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_stat_monitor_param_setter(...) TP__CALL(callbacks, tp_cb_stat_monitor_param_setter, #__VA_ARGS__, __VA_ARGS__)
#elif __cplusplus >= 202002L
#define tp_cb_periodic_trigger(cb_, ...) TP__CALL1(callbacks, tp_cb_periodic_trigger, cb, cb_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_cb_enable_if(cb_, pred_, ...) TP__CALL2(callbacks, tp_cb_enable_if, cb, cb_, pred, pred_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_cb_periodic_callback(cb_, ...) TP__CALL1(callbacks, tp_cb_periodic_callback, cb, cb_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_cb_run_op(op_, ...) TP__CALL1(callbacks, tp_cb_run_op, op, op_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_cb_process_tensors(names_, fn_, ...) TP__CALL2(callbacks, tp_cb_process_tensors, names, names_, fn, fn_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_cb_dump_tensors(names_, ...) TP__CALL1(callbacks, tp_cb_dump_tensors, names, names_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_cb_tensor_printer(names_, ...) TP__CALL1(callbacks, tp_cb_tensor_printer, names, names_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_cb_simple_moving_average(names_, ...) TP__CALL1(callbacks, tp_cb_simple_moving_average, names, names_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_cb_dump_tensor_as_image(tensor_name_, ...) TP__CALL1(callbacks, tp_cb_dump_tensor_as_image, tensor_name, tensor_name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_cb_inference_runner_base(df_, ...) TP__CALL1(callbacks, tp_cb_inference_runner_base, df, df_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_monitor_send_data(command_, ...) TP__CALL1(callbacks, tp_monitor_send_data, command, command_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_cb_early_stopping(monitor_stat_, ...) TP__CALL1(callbacks, tp_cb_early_stopping, monitor_stat, monitor_stat_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_cb_min_saver(monitor_stat_, ...) TP__CALL1(callbacks, tp_cb_min_saver, monitor_stat, monitor_stat_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_cb_max_saver(monitor_stat_, ...) TP__CALL1(callbacks, tp_cb_max_saver, monitor_stat, monitor_stat_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_inf_scalar_stats(names_, ...) TP__CALL1(callbacks, tp_inf_scalar_stats, names, names_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_inf_binary_classification(pred_tensor_name_, label_tensor_name_, ...) TP__CALL2(callbacks, tp_inf_binary_classification, pred_tensor_name, pred_tensor_name_, label_tensor_name, label_tensor_name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_cb_inference_runner(df_, ...) TP__CALL1(callbacks, tp_cb_inference_runner, df, df_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_cb_data_parallel_inference_runner(df_, ...) TP__CALL1(callbacks, tp_cb_data_parallel_inference_runner, df, df_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_cb_hyper_param_setter(name_, ...) TP__CALL1(callbacks, tp_cb_hyper_param_setter, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_cb_human_hyper_param_setter(name_, ...) TP__CALL1(callbacks, tp_cb_human_hyper_param_setter, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_cb_scheduled_hyper_param_setter(name_, ...) TP__CALL1(callbacks, tp_cb_scheduled_hyper_param_setter, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_cb_hyper_param_setter_with_func(name_, ...) TP__CALL1(callbacks, tp_cb_hyper_param_setter_with_func, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_cb_stat_monitor_param_setter(name_, ...) TP__CALL1(callbacks, tp_cb_stat_monitor_param_setter, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#endif
#ifdef TP_KEYWORDS
#define tp_cb_lambda(...) TP__CALL(callbacks, tp_cb_lambda, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_run_update_ops(...) TP__CALL(callbacks, tp_cb_run_update_ops, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_moving_average_summary(...) TP__CALL(callbacks, tp_cb_moving_average_summary, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_merge_all_summaries(...) TP__CALL(callbacks, tp_cb_merge_all_summaries, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_check_numerics(...) TP__CALL(callbacks, tp_cb_check_numerics, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_progress_bar(...) TP__CALL(callbacks, tp_cb_progress_bar, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_estimated_time_left(...) TP__CALL(callbacks, tp_cb_estimated_time_left, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_throughput_tracker(...) TP__CALL(callbacks, tp_cb_throughput_tracker, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_model_saver(...) TP__CALL(callbacks, tp_cb_model_saver, #__VA_ARGS__, __VA_ARGS__)
#define tp_inf_classification_error(...) TP__CALL(callbacks, tp_inf_classification_error, #__VA_ARGS__, __VA_ARGS__)
#define tp_monitor_tf_event_writer(...) TP__CALL(callbacks, tp_monitor_tf_event_writer, #__VA_ARGS__, __VA_ARGS__)
#define tp_monitor_scalar_printer(...) TP__CALL(callbacks, tp_monitor_scalar_printer, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_start_proc_or_thread(...) TP__CALL(callbacks, tp_cb_start_proc_or_thread, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_gpu_utilization_tracker(...) TP__CALL(callbacks, tp_cb_gpu_utilization_tracker, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_gpu_memory_tracker(...) TP__CALL(callbacks, tp_cb_gpu_memory_tracker, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_graph_profiler(...) TP__CALL(callbacks, tp_cb_graph_profiler, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_debug_cli(...) TP__CALL(callbacks, tp_cb_debug_cli, #__VA_ARGS__, __VA_ARGS__)
#define tp_cb_inject_shell(...) TP__CALL(callbacks, tp_cb_inject_shell, #__VA_ARGS__, __VA_ARGS__)
#define tp_monitor_comet(...) TP__CALL(callbacks, tp_monitor_comet, #__VA_ARGS__, __VA_ARGS__)
#define tp_monitor_report(...) TP__CALL(callbacks, tp_monitor_report, #__VA_ARGS__, __VA_ARGS__)
#endif
/* clang-format on */

#ifdef __cplusplus
}
#endif
#endif /* TP_CALLBACKS_H */

/* ===== STOP HERE if you only want to use the library. Everything below is implementation. ===== */
#if defined(TP_IMPLEMENTATION) && !defined(TP__CALLBACKS_IMPLEMENTED)
#define TP__CALLBACKS_IMPLEMENTED
#undef TP__PLACED
#define TP__PLACED TP__UNPLACED
TP__EXACT_BEGIN
TP__COLD_BEGIN

/* The options whose default is not 0: see OPTIONS in tp_tensor.h. */
TP_DEF const tp__zero_option *tp__callbacks_zeros(void)
{
    /* clang-format off */
    static const tp__zero_option options[] = {
        TP__ZERO_OPTION(tp_cb_run_op_desc, run_before, NO),
        TP__ZERO_OPTION(tp_cb_run_op_desc, run_as_trigger, NO),
        TP__ZERO_OPTION(tp_cb_check_numerics_desc, run_as_trigger, NO),
        TP__ZERO_OPTION(tp_cb_dump_tensor_as_image_desc, scale, ZERO),
        TP__ZERO_OPTION(tp_cb_start_proc_or_thread_desc, stop_at_last, NO),
        TP__ZERO_OPTION(tp_cb_graph_profiler_desc, dump_tracing, NO),
        TP__ZERO_OPTION(tp_cb_progress_bar_desc, cost, NO),
        TP__ZERO_OPTION(tp_cb_estimated_time_left_desc, median, NO),
        TP__ZERO_OPTION(tp_cb_model_saver_desc, max_to_keep, NONE),
        TP__ZERO_OPTION(tp_cb_model_saver_desc, keep_checkpoint_every_n_hours, ZERO),
        TP__ZERO_OPTION(tp_cb_scheduled_hyper_param_setter_desc, set_at_beginning, NO),
        TP__ZERO_OPTION(tp_monitor_tf_event_writer_desc, max_queue, NONE),
        TP__ZERO_OPTION(tp_monitor_tf_event_writer_desc, flush_secs, ZERO),
        TP__ZERO_OPTION(tp_monitor_scalar_printer_desc, enable_epoch, NO),
        TP__ZERO_OPTION(tp_monitor_report_desc, every_secs, ZERO),
        TP__ZERO_OPTION(tp_monitor_report_desc, trace, NO),
        {NULL, NULL, 0, 0, TP__ZERO_NO},
    };
    /* clang-format on */
    return options;
}

/* ==== >>encoders ====================================================================================== */
/* The formats that monitors write: TensorBoard's event records (protobuf inside TFRecord framing), images, JSON. */

/* proto3 does not write fields that are 0 */
static void tp__pb_nonzero(tp_buf *b, unsigned field, int64_t v)
{
    if (v != 0) tp__pb_int(b, field, v);
}

/* Appends Event{wall_time=1, step=2, file_version=3 | summary=5 | session_log=7}; `payload` NULL for none. */
static void tp__event(tp_buf *out, double wall_time, int64_t step, unsigned field, const void *payload, size_t n)
{
    const size_t at = tp__tfrecord_begin(out);
    tp__pb_double(out, 1, wall_time);
    tp__pb_nonzero(out, 2, step);
    if (payload) tp__pb_bytes(out, field, payload, n);
    tp__tfrecord_end(out, at);
}

/* Appends Summary{value=1{tag=1, simple_value=2}} to `summary`, in one piece for speed: most records are of this kind */
TP__HOT static void tp__summary_scalar(tp_buf *summary, const char *tag, float v)
{
    /* wire types of protobuf, and the largest size of a record without its tag, in bytes */
    enum { BYTES = 2, FIXED32 = 5, MOST = 2 * (1 + 10) + 5 };
    const size_t n = strlen(tag);
    uint32_t bits;
    uint8_t name[11], *p;
    if (!tp__buf_reserve(summary, n + MOST)) return;
    memcpy(&bits, &v, sizeof bits);
    name[0] = 1 << 3 | BYTES;
    const size_t n_name = (size_t)(tp__put_varint(name + 1, n) - name);
    p = (uint8_t *)summary->data + summary->len;
    *p++ = 1 << 3 | BYTES;
    p = tp__put_varint(p, n_name + n + 5);
    memcpy(p, name, n_name);
    memcpy(p + n_name, tag, n);
    tp__mend_utf8((char *)p + n_name, n);
    p += n_name + n;
    *p++ = 2 << 3 | FIXED32;
    p = tp__put_le(p, bits, 4);
    summary->len = (size_t)(p - (uint8_t *)summary->data);
}

enum { TP__LIMITS_HALF = 774, TP__N_LIMITS = 2 * TP__LIMITS_HALF + 3, TP__LIMITS_ROOM = 2047 };

/* Counts the finite elements of tensor t for a histogram: element x belongs to the bucket of the first limit above x. There are
 * TP__LIMITS_ROOM limits, ascending. totals: becomes min, max, number, sum and sum of squares of the elements. The search makes the
 * same 11 comparisons for each x, without a branch, so that the processor works on several elements at a time. */
TP__HOT static void tp__histogram_count(const tp_tensor *t, const double *limit, double *count, double totals[5])
{
    const int64_t n = tp_tensor_size(t);
    double low = DBL_MAX, high = -DBL_MAX, count_all = 0, sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i += TP__BLOCK) {
        double block[TP__BLOCK];
        const int m = tp__tensor_doubles(t, i, block);
        for (int k = 0; k < m; k++) {
            const double x = block[k];
            int below = 0; /* the number of limits that are not above x */
            if (!tp__finite(x)) continue;
            for (int step = (TP__LIMITS_ROOM + 1) / 2; step > 0; step /= 2)
                below += limit[below + step - 1] <= x ? step : 0;
            count[below] += 1;
            count_all += 1;
            sum += x;
            squares += x * x;
            if (x < low) low = x;
            if (x > high) high = x;
        }
    }
    totals[0] = low, totals[1] = high, totals[2] = count_all, totals[3] = sum, totals[4] = squares;
}

/* Appends HistogramProto{min max num sum sum_squares = 1..5, bucket_limit=6, bucket=7} with TensorFlow's buckets: each limit is
 * 1.1 times the one before, from 1e-12 to 1e20, on both sides of zero; runs of empty buckets are merged. NaN and infinities are
 * not counted. */
static void tp__summary_histogram(tp_buf *summary, const char *tag, const tp_tensor *t)
{
    enum { HALF = TP__LIMITS_HALF, N = TP__N_LIMITS };
    double *limit = (double *)tp_malloc(TP__LIMITS_ROOM * sizeof *limit);
    double *count = (double *)tp_calloc(N, sizeof *count);
    tp_buf h, limits, counts, value;
    memset(&h, 0, sizeof h);
    memset(&limits, 0, sizeof limits);
    memset(&counts, 0, sizeof counts);
    memset(&value, 0, sizeof value);
    if (!limit || !count) {
        summary->failed = true;
        goto done;
    }
    {
        double v = 1e-12, all[5];
        for (int i = 0; i < HALF; i++, v *= 1.1) {
            limit[HALF + 2 + i] = v;
            limit[HALF - i] = -v;
        }
        limit[HALF + 1] = 0.0;
        limit[0] = -DBL_MAX;
        /* limit[0] is -DBL_MAX, 1..HALF the negative limits ascending, HALF+1 zero, then the positive ones, the last DBL_MAX */
        for (int i = N - 1; i < TP__LIMITS_ROOM; i++) limit[i] = HUGE_VAL; /* a limit above every number */
        tp__histogram_count(t, limit, count, all);
        limit[N - 1] = DBL_MAX;
        for (int i = 0; i < N;) {
            double end = limit[i], c = count[i++];
            if (c <= 0)
                while (i < N && count[i] <= 0) end = limit[i++];
            tp__pb_raw_double(&limits, end);
            tp__pb_raw_double(&counts, c);
        }
        for (unsigned i = 0; i < 5; i++) tp__pb_double(&h, i + 1, all[i]);
        tp__pb_bytes(&h, 6, limits.data, limits.len);
        tp__pb_bytes(&h, 7, counts.data, counts.len);
        tp__pb_bytes(&value, 1, tag, strlen(tag));
        if (!value.failed) tp__mend_utf8(value.data + value.len - strlen(tag), strlen(tag));
        tp__pb_bytes(&value, 5, h.data, h.len);
        if (h.failed || limits.failed || counts.failed || value.failed) summary->failed = true;
        else tp__pb_bytes(summary, 1, value.data, value.len);
    }
done:
    tp_free(limit);
    tp_free(count);
    tp_buf_free(&h);
    tp_buf_free(&limits);
    tp_buf_free(&counts);
    tp_buf_free(&value);
}

/* Finds the shape of a tensor as a list of images: NHWC; HWC with 1, 3 or 4 channels is one image; other 3-d shapes are
 * NHW, grey; HW is one image. */
static tp_status tp__image_layout(const tp_tensor *t, int64_t nhwc[4])
{
    const tp_shape *s = &t->shape;
    char text[TP_SHAPE_TEXT];
    nhwc[0] = nhwc[3] = 1;
    if (s->ndim == 4) {
        for (int i = 0; i < 4; i++) nhwc[i] = s->dim[i];
    } else if (s->ndim == 3 && (s->dim[2] == 1 || s->dim[2] == 3 || s->dim[2] == 4)) {
        for (int i = 0; i < 3; i++) nhwc[1 + i] = s->dim[i];
    } else if (s->ndim == 3) {
        for (int i = 0; i < 3; i++) nhwc[i] = s->dim[i];
    } else if (s->ndim == 2) {
        nhwc[1] = s->dim[0];
        nhwc[2] = s->dim[1];
    } else {
        return tp_fail(TP_ERR_SHAPE, "an image summary has shape %s: (N,H,W,C), (H,W,C), (N,H,W) or (H,W) is needed",
                       tp_shape_text(s, text));
    }
    if (nhwc[3] != 1 && nhwc[3] != 3 && nhwc[3] != 4)
        return tp_fail(TP_ERR_SHAPE, "an image summary has %lld channels: 1, 3 or 4 are possible", (long long)nhwc[3]);
    return TP_OK;
}

/* Appends Image{height=1, width=2, colorspace=3, encoded=4} for each image. The tag of one image is `tag`; those of several are
 * tag/0, tag/1, ... */
static tp_status tp__summary_image(tp_buf *summary, const char *tag, const tp_tensor *t)
{
    int64_t s[4];
    const tp_status st = tp__image_layout(t, s);
    if (st != TP_OK) return st;
    const int64_t size = s[1] * s[2] * s[3];
    unsigned char *pixels = (unsigned char *)tp_malloc((size_t)size + 1);
    if (!pixels) return TP_ERR_NOMEM;
    for (int64_t n = 0; n < s[0]; n++) {
        tp_buf png, image, value;
        char name[600];
        memset(&png, 0, sizeof png);
        memset(&image, 0, sizeof image);
        memset(&value, 0, sizeof value);
        for (int64_t i = 0; i < size; i++) {
            const double v = tp_tensor_get(t, n * size + i);
            pixels[i] = (unsigned char)(v >= 255 ? 255 : v > 0 ? v : 0);
        }
        tp__png(&png, pixels, s[1], s[2], s[3]);
        tp__pb_nonzero(&image, 1, s[1]);
        tp__pb_nonzero(&image, 2, s[2]);
        tp__pb_nonzero(&image, 3, s[3]);
        tp__pb_bytes(&image, 4, png.data, png.len);
        if (s[0] == 1) snprintf(name, sizeof name, "%s", tag);
        else snprintf(name, sizeof name, "%s/%lld", tag, (long long)n);
        tp__mend_utf8(name, strlen(name));
        tp__pb_bytes(&value, 1, name, strlen(name));
        tp__pb_bytes(&value, 4, image.data, image.len);
        if (png.failed || image.failed || value.failed) summary->failed = true;
        else tp__pb_bytes(summary, 1, value.data, value.len);
        tp_buf_free(&png);
        tp_buf_free(&image);
        tp_buf_free(&value);
    }
    tp_free(pixels);
    return TP_OK;
}

/* -- JSON: numbers as Python prints them, and a reader that checks a whole text and extracts the values of stats.json */

/* Writes the shortest text that reads back as v, in Python's form: 1.0, 0.1, 1e-07, 1e+16, NaN, Infinity. */
static void tp__json_double(tp_buf *b, double v)
{
    char text[TP_NUMBER_TEXT];
    tp_format_double(text, v);
    tp_buf_printf(b, "%s", v != v ? "NaN" : tp__finite(v) ? text : v > 0 ? "Infinity" : "-Infinity");
}

typedef struct tp__json {
    const char *p, *end;
    int depth;
    double number;  /* the last number that was read */
    bool has_epoch; /* the JSON text's last record has an epoch_num */
    double epoch;
    int n_record;
    double step, limit; /* step: global_step of the last object; limit: the largest global_step to keep */
    double n_epochs;    /* the number of epochs to keep, so that epochs without steps count; negative: all */
    const char *kept;   /* the end of the last object before the first one that is not kept */
    bool beyond;        /* a step was missing or above `limit`, or an epoch above n_epochs */
    tp_status (*number_fn)(void *user, const char *key,
                           const tp_stat *stat);      /* called for each number of an object; may be NULL */
    tp_status (*object_fn)(void *user, int64_t step); /* called at the end of an object; may be NULL */
    void *user;
    tp_status status;
} tp__json;

static void tp__json_space(tp__json *j)
{
    while (j->p < j->end && (*j->p == ' ' || *j->p == '\t' || *j->p == '\n' || *j->p == '\r')) j->p++;
}

static bool tp__json_word(tp__json *j, const char *w)
{
    const size_t n = strlen(w);
    if ((size_t)(j->end - j->p) < n || memcmp(j->p, w, n) != 0) return false;
    j->p += n;
    return true;
}

/* Reads a string and copies its first bytes to buf. A backslash is only removed, which is enough for keys. */
static bool tp__json_text(tp__json *j, char *buf, size_t size)
{
    size_t n = 0;
    if (j->p >= j->end || *j->p != '"') return false;
    for (j->p++; j->p < j->end && *j->p != '"'; j->p++) {
        if (*j->p == '\\' && ++j->p >= j->end) return false;
        if ((unsigned char)*j->p < 32) return false;
        if (n + 1 < size) buf[n++] = *j->p;
    }
    buf[n] = 0;
    if (j->p >= j->end) return false;
    j->p++;
    return true;
}

/* Calls number_fn for a JSON value if it is a number. */
static tp_status tp__json_number(const tp__json *j, const char *key, const char *value)
{
    tp_stat s;
    const size_t n = (size_t)(j->p - value);
    if (*value == '"' || *value == '[' || *value == '{' || *value == 't' || *value == 'f' || *value == 'n')
        return TP_OK;
    s.step = 0;
    s.value = *value == 'N'     ? (double)NAN
              : *value == 'I'   ? (double)INFINITY
              : value[1] == 'I' ? -(double)INFINITY
                                : j->number;
    s.is_int = true;
    for (size_t i = 0; i < n; i++) s.is_int = s.is_int && !strchr(".eEIN", value[i]);
    return j->number_fn(j->user, key, &s);
}

static bool tp__json_value(tp__json *j)
{
    char key[600];
    tp__json_space(j);
    if (j->p >= j->end || j->depth > 64) return false;
    if (*j->p == '"') return tp__json_text(j, key, sizeof key);
    if (*j->p == '[' || *j->p == '{') {
        const char close = *j->p == '[' ? ']' : '}';
        const bool object = close == '}', record = object && j->depth == 1;
        j->p++;
        j->depth++;
        if (record) {
            j->has_epoch = false;
            j->step = 0;
            j->n_record++;
        }
        tp__json_space(j);
        if (j->p < j->end && *j->p == close) {
            j->p++;
            j->depth--;
            return true;
        }
        for (;;) {
            tp__json_space(j);
            key[0] = 0;
            if (object) {
                if (!tp__json_text(j, key, sizeof key)) return false;
                tp__json_space(j);
                if (!tp__json_word(j, ":")) return false;
            }
            j->number = 0;
            tp__json_space(j);
            const char *const value = j->p;
            if (!tp__json_value(j)) return false;
            if (record && j->number_fn && j->status == TP_OK) j->status = tp__json_number(j, key, value);
            if (record && strcmp(key, "epoch_num") == 0) {
                j->has_epoch = true;
                j->epoch = j->number;
            }
            tp__json_space(j);
            if (record && strcmp(key, "global_step") == 0) j->step = j->number;
            if (j->p < j->end && *j->p == ',') {
                j->p++;
                continue;
            }
            if (j->p >= j->end || *j->p != close) return false;
            j->p++;
            j->depth--;
            if (record && !(j->step >= 0 && j->step <= j->limit)) j->beyond = true;
            if (record && j->has_epoch && j->n_epochs >= 0 && j->epoch > j->n_epochs) j->beyond = true;
            if (record && !j->beyond) j->kept = j->p;
            if (record && !j->beyond && j->object_fn && j->status == TP_OK)
                j->status = j->object_fn(j->user, (int64_t)j->step);
            return true;
        }
    }
    if (tp__json_word(j, "true") || tp__json_word(j, "false") || tp__json_word(j, "null") || tp__json_word(j, "NaN") ||
        tp__json_word(j, "Infinity") || tp__json_word(j, "-Infinity"))
        return true;
    char number[64];
    size_t n = 0;
    while (j->p + n < j->end && n + 1 < sizeof number && strchr("+-.0123456789eE", j->p[n])) {
        number[n] = j->p[n];
        n++;
    }
    number[n] = 0;
    const char *stop = number;
    j->number = n ? tp_parse_double(number, &stop) : 0;
    if (stop == number || *stop) return false;
    j->p += n;
    return true;
}

/* Reads dir/stats.json: *text (tp_malloc'ed) and the epoch of its last record, -1 if the record has none. TP_ERR_NAME: no file.
 * If kept is not NULL, *kept is the size in bytes of the text up to the last record of a step up to limit and of an epoch up to
 * n_epochs (negative: of any), or up to the '[' if there is none. With a limit below INT64_MAX the file may be damaged behind these
 * records, as by a power failure. */
static tp_status tp__stats_load(const char *dir, char **text, size_t *size, int64_t *epoch, int64_t limit,
                                int64_t n_epochs, size_t *kept)
{
    char path[TP__PATH];
    tp__json j;
    *text = NULL;
    *epoch = -1;
    if (!dir && !(dir = tp_logger_dir()))
        return tp_fail(TP_ERR_ARG, "stats.json of no directory: none is given, and the logger has none");
    tp_status st = tp__path(path, "%s/stats.json", dir);
    if (st != TP_OK) return st;
    if (!tp_file_exists(path)) return tp_fail(TP_ERR_NAME, "there is no file '%s'", path);
    st = tp_file_read(path, false, 0, text, size);
    if (st != TP_OK) return st;
    memset(&j, 0, sizeof j);
    j.p = *text;
    j.end = *text + *size;
    j.limit = (double)limit;
    j.n_epochs = (double)n_epochs;
    tp__json_space(&j);
    const bool array = j.p < j.end && *j.p == '[';
    const char *const begin = j.p;
    j.kept = begin + 1;
    const bool valid = tp__json_value(&j);
    if (valid) tp__json_space(&j);
    if (kept && limit < INT64_MAX && array && j.kept > begin + 1 && (!valid || j.p != j.end)) {
        tp_log(TP_LOG_WARN, "'%s' is damaged at byte %ld; its records up to global_step=%lld are read", path,
               (long)(j.p - *text), (long long)limit);
        j.has_epoch = false;
    } else if (!valid || j.p != j.end || !array) {
        const long at = (long)(j.p - *text);
        tp_free(*text);
        *text = NULL;
        return tp_fail(TP_ERR_FORMAT,
                       valid && !array ? "'%s' holds no list (byte %ld)" : "'%s' is no JSON: byte %ld is unexpected",
                       path, at);
    }
    if (kept) *kept = (size_t)(j.kept - *text);
    if (!j.n_record || !j.has_epoch) return TP_OK;
    if (!(j.epoch >= 0 && j.epoch <= 9007199254740992.0)) { /* 2^53: a double cannot hold all larger integers */
        tp_free(*text);
        *text = NULL;
        return tp_fail(TP_ERR_FORMAT, "'%s': the epoch_num of its last record is %g, which is no epoch", path, j.epoch);
    }
    *epoch = (int64_t)j.epoch;
    return TP_OK;
}

/* ==== >>state ========================================================================================= */

TP_DEF tp_status tp_stop(tp_train_state *train, const char *fmt, ...)
{
    TP__REQUIRE(train, TP_ERR_ARG)
    va_list ap;
    va_start(ap, fmt);
    if (tp__vformat(train->stop_reason, sizeof train->stop_reason, fmt ? fmt : " ", ap) < 0) train->stop_reason[0] = 0;
    va_end(ap);
    return TP_STOP;
}

TP_DEF const char *tp_humanize_time_delta(double seconds, char *buf)
{
    TP__REQUIRE(buf, "")

    static const char *const unit[] = {"day", "hour", "minute", "second"};
    static const double length[] = {86400, 3600, 60, 1};
    int at = 0;
    buf[0] = 0;
    if (seconds < 0) {
        tp_log(TP_LOG_WARN, "humanize_time_delta() obtains negative seconds!");
        tp__format(buf, TP_TIME_TEXT, "%.3g seconds", seconds);
        return buf;
    }
    double left = seconds >= 60 ? floor(seconds) : seconds;
    for (int i = 0; i < 4; i++) {
        const double n = i < 3 ? floor(left / length[i]) : left;
        left -= i < 3 ? n * length[i] : 0;
        if (n > 0 || (i == 3 && at == 0)) /* a time of 0 seconds is written as "0 second" */
            at +=
                tp__format(buf + at, (size_t)(TP_TIME_TEXT - at), n >= 1000 && n < 1e15 ? "%s%.0f %s%s" : "%s%.3g %s%s",
                           at ? " " : "", n, unit[i], n > 1 ? "s" : "");
        if (at >= TP_TIME_TEXT) break;
    }
    return buf;
}

/* Tests the bits, because a compiler that assumes that no value is NaN (-ffast-math) folds v != v to false. */
static bool tp__is_not_a_number(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return (bits & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
}

static tp_status tp__poll(tp_train_state *train) { return train && train->poll ? train->poll(train) : TP_OK; }

static const char *tp__arena_copy(tp_arena *a, const char *s, const char *otherwise)
{
    return tp_arena_strdup(a, s ? s : otherwise);
}

/* Copies n strings into an arena; NULL when out of memory. */
static const char *const *tp__arena_names(tp_arena *a, const char *const *names, int n)
{
    const char **copy = (const char **)tp_arena_alloc(a, ((size_t)(n > 0 ? n : 0) + 1) * sizeof *copy);
    for (int i = 0; copy && i < n; i++)
        if (!(copy[i] = tp_arena_strdup(a, names[i] ? names[i] : ""))) return NULL;
    return copy;
}

/* Counts the names in an option array, which ends with the first NULL. If there are more than TP_MAX_NAMES, the
 * compiler may have truncated the list. */
static int tp__count_names(const char *const names[TP_MAX_NAMES + 1])
{
    int n = 0;
    while (n <= TP_MAX_NAMES && names[n]) n++;
    return n;
}
/* format of a sentence; arguments: callback, option, limit */
#define TP__TOO_MANY "%s: .%s holds at most %d: divide the list among several"

/* Returns an error sentence for an option array of TP_MAX_NAMES + 1 elements: too many names, or a name after a NULL,
 * which would be ignored silently. NULL if the array is good. */
static const char *tp__bad_list(const char *caller, const char *option, const void *const *list, char text[192])
{
    int n = 0, next;
    while (n <= TP_MAX_NAMES && list[n]) n++;
    for (next = n; next <= TP_MAX_NAMES && !list[next];) next++;
    if (n > TP_MAX_NAMES) snprintf(text, 192, TP__TOO_MANY, caller, option, TP_MAX_NAMES);
    else if (next <= TP_MAX_NAMES) snprintf(text, 192, "%s: .%s[%d] is NULL, but others follow it", caller, option, n);
    else return NULL;
    return text;
}
static const char *tp__bad_names(const char *caller, const char *option, const char *const names[TP_MAX_NAMES + 1],
                                 char text[192])
{
    return tp__bad_list(caller, option, (const void *const *)(const void *)names, text);
}

/* Copies a constructor's error sentence into an arena, with "train.c:35: " in front if the place is known. */
static const char *tp__arena_sentence(tp_arena *a, const tp_at *at, const char *fmt, va_list ap)
{
    char text[1024];
    if (tp__vformat(text, sizeof text, fmt ? fmt : " ", ap) < 0) text[0] = 0;
    return at && at->file ? tp_arena_printf(a, "%s:%d: %s", at->file, at->line, text) : tp_arena_strdup(a, text);
}

/* ==== >>callback ====================================================================================== */

#define TP__ROUND16(n) (((n) + 15u) & ~(size_t)15u)

/* Allocates one zeroed block: a struct of `head` bytes, followed by `bytes` of user data. */
static void *tp__with_user(size_t head, size_t bytes, void **user)
{
    head = TP__ROUND16(head);
    if (bytes > SIZE_MAX - head) return tp_fail(TP_ERR_NOMEM, "a callback asks for %zu bytes", bytes), (void *)NULL;
    char *p = (char *)tp_calloc(1, head + bytes);
    *user = p && bytes ? p + head : NULL;
    return p;
}

static tp_callback *tp__callback_new(const char *name, size_t head, size_t bytes)
{
    void *user = NULL;
    tp_callback *cb = (tp_callback *)tp__with_user(head, bytes, &user);
    if (!cb) return NULL;
    cb->name = name;
    cb->chief_only = true;
    cb->user = user;
    return cb;
}

TP_DEF tp_callback *tp_callback_new(const char *name, size_t bytes)
{
    TP__REQUIRE(name, NULL)

    return tp__callback_new(name, sizeof(tp_callback), bytes);
}

TP_DEF tp_callback *tp_callback_fail(const tp_at *at, tp_status status, const char *fmt, ...)
{
    tp_callback *cb = tp_callback_new("Failed", 0);
    if (!cb) return NULL;
    va_list ap;
    va_start(ap, fmt);
    cb->error_ = tp__arena_sentence(&cb->mem_, at, fmt, ap);
    va_end(ap);
    cb->status_ = status;
    cb->chief_only = false;
    return cb;
}

TP_DEF tp_status tp_callback_status(const tp_callback *cb)
{
    if (!cb) return tp_fail(TP_ERR_NOMEM, "a callback is NULL: its constructor found no memory");
    return cb->status_ == TP_OK ? TP_OK : tp_fail(cb->status_, "%s", cb->error_ ? cb->error_ : "out of memory");
}

/* Returns a callback that fails with the error sentence that tp__set_owner set. */
static tp_callback *tp__callback_owned_twice(void)
{
    char text[TP__ERROR_TEXT];
    snprintf(text, sizeof text, "%s", tp_last_error());
    return tp_callback_fail(NULL, TP_ERR_ARG, "%s", text);
}
static void tp__callback_delete(tp_callback *cb)
{
    if (!cb) return;
    if (cb->close) cb->close(cb);
    tp_arena_free(&cb->mem_);
    tp_free(cb->unsaved);
    tp_free(cb);
}

static void tp__drop_callback(tp_callback *cb)
{
    if (cb && !cb->owner_.who) tp__callback_delete(cb);
}

static tp_callback *tp__cb_no_options(const char *function)
{
    return tp_callback_fail(NULL, TP_ERR_ARG, "%s: the descriptor is NULL", function);
}

TP_DEF tp_callback *tp_callback_set_chief_only(tp_callback *cb, bool chief_only)
{
    if (cb) cb->chief_only = chief_only;
    return cb;
}

TP_DEF void tp_callback_free(tp_callback *cb)
{
    if (cb && tp__may_free(&cb->owner_, __func__, cb->name)) tp__callback_delete(cb);
}

TP_DEF void tp_callback_set_unsaved(tp_callback *cb, const char *fmt, ...)
{
    TP__REQUIRE(cb, )
    va_list ap;
    char sentence[TP__ERROR_TEXT];
    tp_free(cb->unsaved);
    cb->unsaved = NULL;
    if (!fmt) return;
    va_start(ap, fmt);
    if (tp__vformat(sentence, sizeof sentence, fmt, ap) < 0) sentence[0] = 0;
    va_end(ap);
    cb->unsaved = tp_strdup(sentence);
}

TP_DEF tp_status tp_callback_setup_graph(tp_callback *cb, tp_train_state *train)
{
    TP__REQUIRE(cb && train, TP_ERR_ARG)

    tp_status st = tp_callback_status(cb);
    if (st != TP_OK) return st;
    cb->train = train;
    if (!cb->setup_graph) return TP_OK;
    char scope[128];
    size_t n = 0;
    for (const char *c = cb->name; *c && n + 1 < sizeof scope; c++)
        if (*c != '_') scope[n++] = *c;
    scope[n] = 0;
    if (train->graph) tp_name_scope_push(train->graph, scope);
    if (train->graph) tp__graph_fix_places(train->graph);
    st = cb->setup_graph(cb);
    if (train->graph) tp_name_scope_pop(train->graph);
    if (st == TP_OK && train->graph && tp_graph_status(train->graph) != TP_OK)
        st = tp_fail(tp_graph_status(train->graph), "%s", tp_graph_error(train->graph));
    return st;
}

TP_DEF tp_status tp_callback_before_train(tp_callback *cb)
{
    TP__REQUIRE(cb, TP_ERR_ARG)
    return cb->before_train ? cb->before_train(cb) : TP_OK;
}
TP_DEF tp_status tp_callback_before_epoch(tp_callback *cb)
{
    TP__REQUIRE(cb, TP_ERR_ARG)
    return cb->before_epoch ? cb->before_epoch(cb) : TP_OK;
}
TP_DEF tp_status tp_callback_before_run(tp_callback *cb, tp_run_request *r)
{
    TP__REQUIRE(cb && r, TP_ERR_ARG)

    return cb->before_run ? cb->before_run(cb, r) : TP_OK;
}
TP_DEF tp_status tp_callback_after_run(tp_callback *cb, const tp_run_values *v)
{
    TP__REQUIRE(cb && v, TP_ERR_ARG)

    return cb->after_run ? cb->after_run(cb, v) : TP_OK;
}
TP_DEF tp_status tp_callback_trigger_step(tp_callback *cb)
{
    TP__REQUIRE(cb, TP_ERR_ARG)
    return cb->trigger_step ? cb->trigger_step(cb) : TP_OK;
}
TP_DEF tp_status tp_callback_after_epoch(tp_callback *cb)
{
    TP__REQUIRE(cb, TP_ERR_ARG)
    return cb->after_epoch ? cb->after_epoch(cb) : TP_OK;
}
TP_DEF tp_status tp_callback_trigger(tp_callback *cb)
{
    TP__REQUIRE(cb, TP_ERR_ARG)
    return cb->trigger ? cb->trigger(cb) : TP_OK;
}
TP_DEF tp_status tp_callback_trigger_epoch(tp_callback *cb)
{
    TP__REQUIRE(cb, TP_ERR_ARG)

    return cb->trigger_epoch ? cb->trigger_epoch(cb) : tp_callback_trigger(cb);
}
TP_DEF tp_status tp_callback_after_train(tp_callback *cb)
{
    TP__REQUIRE(cb, TP_ERR_ARG)
    return cb->after_train ? cb->after_train(cb) : TP_OK;
}
TP_DEF tp_status tp_callback_save_state(tp_callback *cb, tp_dict *d, const char *prefix)
{
    TP__REQUIRE(cb && d && prefix, TP_ERR_ARG)

    const unsigned n_errors = tp__n_errors;
    return cb->save_state ? tp__add_missing_sentence(cb->name, n_errors, cb->save_state(cb, d, prefix)) : TP_OK;
}
TP_DEF tp_status tp_callback_load_state(tp_callback *cb, const tp_dict *d, const char *prefix)
{
    TP__REQUIRE(cb && d && prefix, TP_ERR_ARG)

    const unsigned n_errors = tp__n_errors;
    return cb->load_state ? tp__add_missing_sentence(cb->name, n_errors, cb->load_state(cb, d, prefix)) : TP_OK;
}

static tp_node *tp__train_find(tp_train_state *train, const char *name)
{
    tp_node *n = train->graph ? tp__node_named(train->graph, name) : NULL;
    for (int i = 0; !n && train->tower_func && i < tp_tower_func_n_towers(train->tower_func); i++) {
        const tp_tower_handle *h = tp_tower_func_tower(train->tower_func, i);
        if (!h->ctx.is_training) continue;
        n = tp__tower_node(h, name);
        break;
    }
    if (!n) {
        char text[TP__NEAREST_TEXT] = "";
        if (train->graph) tp__node_near(train->graph, name, text);
        if (train->graph) tp__remember_missing(train->graph, name);
        tp_fail(TP_ERR_NAME, "Tensor %s not found in the graph%s", name, text[0] ? text : "!");
    }
    return n;
}

TP_DEF tp_node *tp_callback_find(tp_callback *cb, const char *name)
{
    TP__REQUIRE(cb && cb->train && name, NULL)
    return tp__train_find(cb->train, name);
}

/* Finds the node of every name; *nodes is allocated in the callback's arena. */
static tp_status tp__find_nodes(tp_callback *cb, const char *const *names, int n, tp_node ***nodes)
{
    *nodes = (tp_node **)tp_arena_alloc(&cb->mem_, ((size_t)n + 1) * sizeof **nodes);
    if (!*nodes) return TP_ERR_NOMEM;
    for (int i = 0; i < n; i++)
        if (!((*nodes)[i] = tp_callback_find(cb, names[i])))
            return tp_fail(TP_ERR_NAME, "%s: %s", cb->name, tp_last_error());
    return TP_OK;
}

static tp_status tp__request_all(tp_run_request *r, tp_node *const *nodes, int n)
{
    for (int i = 0; i < n; i++)
        if (tp_request_fetch(r, nodes[i]) < 0) return r->status;
    return TP_OK;
}

/* -- state in checkpoints */

static char *tp__prefixed(const char *a, const char *b)
{
    const size_t n = strlen(a), m = strlen(b) + 1;
    char *t = (char *)tp_malloc(n + m);
    if (!t) return NULL;
    memcpy(t, a, n);
    memcpy(t + n, b, m);
    return t;
}

static tp_status tp__state_put(tp_dict *d, const char *prefix, const char *key, tp_dtype dtype, const void *v,
                               int64_t n)
{
    tp_tensor from;
    memset(&from, 0, sizeof from);
    char *name = tp__prefixed(prefix, key);
    tp_tensor *t = name ? tp_dict_add(d, name) : NULL;
    tp_free(name);
    if (!t) return TP_ERR_NOMEM;
    tp_tensor_view(&from, dtype, tp_make_shape_n(1, &n), v);
    return tp_tensor_copy(t, &from);
}

/* Returns the data of the array of that name and dtype, and its number of elements; NULL and -1: not found. It allocates nothing,
 * so it cannot fail for lack of memory. */
static const void *tp__state_find(const tp_dict *d, const char *prefix, const char *key, tp_dtype dtype, int64_t *n)
{
    const size_t length = strlen(prefix);
    const tp_tensor *t = NULL;
    for (int i = 0; i < d->n && !t; i++)
        if (strncmp(d->item[i].name, prefix, length) == 0 && strcmp(d->item[i].name + length, key) == 0)
            t = &d->item[i].value;
    *n = t && t->dtype == dtype ? tp_tensor_size(t) : -1;
    return *n >= 0 ? t->data : NULL;
}

static bool tp__state_get(const tp_dict *d, const char *prefix, const char *key, tp_dtype dtype, void *v, int n)
{
    int64_t n_stored = 0;
    const void *data = tp__state_find(d, prefix, key, dtype, &n_stored);
    if (n_stored != n) return false;
    if (n) memcpy(v, data, (size_t)n * tp_dtype_size(dtype));
    return true;
}

TP_DEF tp_status tp_state_put_i64(tp_dict *d, const char *prefix, const char *key, const int64_t *v, int n)
{
    TP__REQUIRE(d && prefix && key && (v || n == 0) && n >= 0, TP_ERR_ARG)

    return tp__state_put(d, prefix, key, TP_I64, v, n);
}
TP_DEF tp_status tp_state_put_f64(tp_dict *d, const char *prefix, const char *key, const double *v, int n)
{
    TP__REQUIRE(d && prefix && key && (v || n == 0) && n >= 0, TP_ERR_ARG)

    return tp__state_put(d, prefix, key, TP_F64, v, n);
}
TP_DEF bool tp_state_get_i64(const tp_dict *d, const char *prefix, const char *key, int64_t *v, int n)
{
    TP__REQUIRE(d && prefix && key && (v || n == 0) && n >= 0, false)

    return tp__state_get(d, prefix, key, TP_I64, v, n);
}
TP_DEF bool tp_state_get_f64(const tp_dict *d, const char *prefix, const char *key, double *v, int n)
{
    TP__REQUIRE(d && prefix && key && (v || n == 0) && n >= 0, false)

    return tp__state_get(d, prefix, key, TP_F64, v, n);
}

/* -- states of all callbacks, including those inside wrappers, under names that do not depend on the order of the list */

#define TP__CALLBACK_STATE "tp:callback/"
#define TP__LOCAL_STATE    "tp:local/" /* variables that no saver saves, by their names */

typedef tp_status (*tp__visit_fn)(tp_callback *cb, void *user);

/* Calls fn for each callback, wrappers before the callbacks that they wrap. For a group it calls fn only for the members. */
static tp_status tp__visit(tp_callback *const *list, int n, tp__visit_fn fn, void *user)
{
    tp_status st = TP_OK;
    for (int i = 0; i < n && st == TP_OK; i++) {
        if (!list[i]) continue; /* refused later */
        if (list[i]->n_inner < 2) st = fn(list[i], user);
        if (st == TP_OK) st = tp__visit(list[i]->inner, list[i]->n_inner, fn, user);
    }
    return st;
}

typedef struct tp__naming {
    const tp_callback *cb; /* the callback whose state gets a name: several of the same name and id are numbered */
    int occurrence;
} tp__naming;

static bool tp__same_id(const tp_callback *a, const tp_callback *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->id ? a->id : "", b->id ? b->id : "") == 0;
}

static tp_status tp__count_same(tp_callback *cb, void *user)
{
    tp__naming *n = (tp__naming *)user;
    if (cb == n->cb) return TP_STOP;
    if (tp__same_id(cb, n->cb)) n->occurrence++;
    return TP_OK;
}

/* The prefix that the state of a callback has in a list of n callbacks; NULL: out of memory. */
static const char *tp__state_name(tp_arena *mem, tp_callback *const *list, int n, const tp_callback *cb)
{
    char number[16] = "";
    tp__naming same;
    same.cb = cb;
    same.occurrence = 1;
    tp__visit(list, n, tp__count_same, &same);
    if (same.occurrence > 1) snprintf(number, sizeof number, ":%d", same.occurrence);
    return tp_arena_printf(mem, cb->id ? TP__CALLBACK_STATE "%s(%s)%s/" : TP__CALLBACK_STATE "%s%s%s/", cb->name,
                           cb->id ? cb->id : "", number);
}

static tp_status tp__name_state(tp_callback *cb, void *user)
{
    const tp_train_state *train = (const tp_train_state *)user;
    if (!cb->state_prefix_) cb->state_prefix_ = tp__state_name(&cb->mem_, train->callbacks, train->n_callbacks, cb);
    return cb->state_prefix_ ? TP_OK : TP_ERR_NOMEM;
}

static tp_status tp__name_states(tp_train_state *train)
{
    return tp__visit(train->callbacks, train->n_callbacks, tp__name_state, train);
}

static tp_status tp__members_named(const tp_callback *member, unsigned n_errors, tp_status st);

typedef struct tp__saving {
    tp_dict *d;
    tp_buf known; /* the prefixes of all callbacks, each followed by a NUL */
} tp__saving;

static tp_status tp__save_one(tp_callback *cb, void *user)
{
    tp__saving *s = (tp__saving *)user;
    if (cb->unnamed_) return TP_OK;
    tp_buf_put(&s->known, cb->state_prefix_, strlen(cb->state_prefix_) + 1);
    const unsigned n_errors = tp__n_errors;
    return tp__members_named(cb, n_errors, tp_callback_save_state(cb, s->d, cb->state_prefix_));
}

/* For each variable id: whether an operation changes the variable. Variables that only the program sets, such as a queue's length,
 * are no state of the training. The caller frees the array; NULL: out of memory. */
static bool *tp__written_variables(const tp_graph *g)
{
    bool *written = (bool *)tp_calloc((size_t)tp_graph_n_variables(g) + 1, sizeof *written);
    for (int i = 0; written && i < tp_graph_n_operations(g); i++) {
        const tp_operation *op = tp_graph_operation(g, i);
        for (int k = 0; k < op->n_var && (op->row->flags & TP_OP_WRITES_VAR); k++) written[op->var[k]->id] = true;
    }
    return written;
}

/* Reads the value of variable v. *same: v is a tower's copy, and equals the first tower's variable bit for bit. */
static tp_status tp__read_copy(tp_session *s, const tp_variable *v, tp_tensor *value, bool *is_same)
{
    tp_tensor first;
    memset(&first, 0, sizeof first);
    tp_status st = tp_session_read(s, v, value);
    if (st == TP_OK && v->copy_of) st = tp_session_read(s, v->copy_of, &first);
    *is_same = st == TP_OK && v->copy_of && tp_tensor_bytes(&first) == tp_tensor_bytes(value) &&
               memcmp(first.data, value->data, tp_tensor_bytes(value)) == 0;
    tp_tensor_free(&first);
    return st;
}

/* Loads a tower's copy of a variable. If it was not saved, it gets the value of the first tower's variable. */
static tp_status tp__load_copy(tp_session *s, const tp_variable *v, const tp_tensor *saved)
{
    tp_tensor first;
    memset(&first, 0, sizeof first);
    if (saved && saved->dtype == v->dtype && tp_shape_equal(&saved->shape, &v->shape))
        return tp_session_load(s, v, saved);
    tp_status st = v->copy_of ? tp_session_read(s, v->copy_of, &first) : TP_OK;
    if (st == TP_OK && v->copy_of) st = tp_session_load(s, v, &first);
    tp_tensor_free(&first);
    return st;
}

/* Saves to d or loads from d the variables that no saver saves: moving averages of summaries, and the copies of other towers if
 * they differ from the first tower's variables. */
static tp_status tp__local_variables(tp_train_state *train, tp_dict *d, bool save)
{
    tp_tensor value;
    int n = 0;
    tp_node *const *local = train->graph ? tp_collection(train->graph, TP_KEY_LOCAL_VARIABLES, &n) : NULL;
    if (n == 0) return TP_OK;
    bool *written = tp__written_variables(train->graph);
    tp_status st = written ? TP_OK : TP_ERR_NOMEM;
    memset(&value, 0, sizeof value);
    for (int i = 0; i < n && st == TP_OK; i++) {
        const tp_variable *v = tp_node_variable(local[i]);
        if (!v || !written[v->id]) continue;
        bool is_same = false;
        char *name = tp__prefixed(TP__LOCAL_STATE, v->name);
        if (!name) st = TP_ERR_NOMEM;
        else if (!save) st = tp__load_copy(train->session, v, tp__dict_get(d, name));
        else st = tp__read_copy(train->session, v, &value, &is_same);
        if (st == TP_OK && save && !is_same) {
            tp_tensor *t = tp_dict_add(d, name);
            st = t ? tp_tensor_copy(t, &value) : TP_ERR_NOMEM;
        }
        tp_free(name);
    }
    tp_tensor_free(&value);
    tp_free(written);
    return st;
}

/* "tp:epoch" is {number of complete epochs, 1 if no step of the next epoch is finished}, "tp:local_step" the last finished
 * step of the epoch, "tp:callbacks" the prefixes of all callbacks. train->local_step is not enough: when a training is
 * stopped, that step may not be finished. */
TP_DEF tp_status tp_train_state_save(tp_train_state *train)
{
    TP__REQUIRE(train && train->session, TP_ERR_ARG)
    tp_dict *d = tp_session_state(train->session);
    tp__saving s;
    memset(&s, 0, sizeof s);
    s.d = d;
    tp__dict_drop(d, TP__CALLBACK_STATE); /* of an earlier checkpoint */
    tp__dict_drop(d, TP__LOCAL_STATE);
    const bool begun = train->epoch_num >= train->starting_epoch;
    const bool over = begun && train->local_step == train->steps_per_epoch - 1 && !train->within_;
    const bool no_step = over || ((train->within_ || !begun) && train->done_ == 0);
    const int64_t epoch[2] = {begun && !over ? train->epoch_num - 1 : train->epoch_num, no_step};
    const int64_t last = train->within_ || !begun ? train->done_ - 1 : train->local_step;
    const tp_exec *session_exec = tp_session_exec(train->session);
    int64_t step[2] = {0, session_exec ? (int64_t)tp_exec_random_step(session_exec) : 0};
    tp_status st = session_exec ? tp_state_put_i64(d, "tp:", "epoch", epoch, 2) : TP_ERR_NOMEM;
    if (st == TP_OK) st = tp_state_put_i64(d, "tp:", "local_step", &last, 1);
    if (train->hooked_session) step[0] = (int64_t)tp_exec_random_step(tp_hooked_session_exec(train->hooked_session));
    if (st == TP_OK) st = tp_state_put_i64(d, "tp:", "random_step", step, 1);
    if (st == TP_OK) st = tp_state_put_i64(d, "tp:", "random_step_outside", step + 1, 1);
    if (st == TP_OK && train->input) st = tp_state_put_i64(d, "tp:", "input/consumed", &train->input->consumed, 1);
    if (st == TP_OK) st = tp__local_variables(train, d, true);
    if (st == TP_OK) st = tp__name_states(train);
    if (st == TP_OK) st = tp__visit(train->callbacks, train->n_callbacks, tp__save_one, &s);
    if (st == TP_OK && s.known.failed) st = tp_fail(TP_ERR_NOMEM, "out of memory for the names of the callbacks");
    if (st == TP_OK) st = tp__state_put(d, "tp:", "callbacks", TP_U8, s.known.data, (int64_t)s.known.len);
    tp_buf_free(&s.known);
    return st;
}

typedef struct tp__loading {
    const tp_dict *d;
    bool is_other_rank; /* of a job: it has only the states that the chief has sent */
    const char *known;  /* prefixes of the callbacks in the checkpoint, each followed by a NUL */
    int64_t n_known;
    const char *item; /* an entry of the checkpoint; tp__visit looks for the callback that owns it */
} tp__loading;

/* Whether the checkpoint contains a callback with this prefix. */
static bool tp__state_known(const tp__loading *l, const char *prefix)
{
    const size_t n = strlen(prefix) + 1;
    for (int64_t i = 0; i < l->n_known;) {
        const char *end = (const char *)memchr(l->known + i, 0, (size_t)(l->n_known - i));
        const int64_t m = end ? end - (l->known + i) + 1 : l->n_known - i;
        if ((size_t)m == n && memcmp(l->known + i, prefix, n) == 0) return true;
        i += m;
    }
    return false;
}

static void tp__find_known(tp__loading *l, const tp_dict *d)
{
    memset(l, 0, sizeof *l);
    l->d = d;
    l->known = (const char *)tp__state_find(d, "tp:", "callbacks", TP_U8, &l->n_known);
    if (!l->known) l->n_known = 0;
}

static tp_status tp__load_one(tp_callback *cb, void *user)
{
    const tp__loading *l = (const tp__loading *)user;
    cb->resumed = tp__state_known(l, cb->state_prefix_);
    const unsigned n_errors = tp__n_errors;
    if (cb->resumed) return tp__members_named(cb, n_errors, tp_callback_load_state(cb, l->d, cb->state_prefix_));
    if (cb->load_state && !l->is_other_rank)
        tp_log(TP_LOG_WARN,
               "%.*s finds no state of its own in the checkpoint: it begins anew. It is new in this program, or it was "
               "named otherwise.",
               (int)strlen(cb->state_prefix_) - (int)strlen(TP__CALLBACK_STATE) - 1,
               cb->state_prefix_ + strlen(TP__CALLBACK_STATE));
    return TP_OK;
}

static tp_status tp__load_own_item(tp_callback *cb, void *user)
{
    return strncmp(((const tp__loading *)user)->item, cb->state_prefix_, strlen(cb->state_prefix_)) ? TP_OK : TP_STOP;
}

static void tp__warn_of_states_left(tp_train_state *train, tp__loading *l)
{
    tp_buf left;
    memset(&left, 0, sizeof left);
    for (int i = 0; i < l->d->n; i++) {
        l->item = l->d->item[i].name;
        if (strncmp(l->item, TP__CALLBACK_STATE, strlen(TP__CALLBACK_STATE)) != 0) continue;
        if (tp__visit(train->callbacks, train->n_callbacks, tp__load_own_item, l) == TP_STOP) continue;
        tp_buf_printf(&left, "%s%s", left.len ? ", " : "", l->item + strlen(TP__CALLBACK_STATE));
    }
    tp__no_control(left.data, false);
    if (left.len && !left.failed)
        tp_log(TP_LOG_WARN, "No callback takes this state of the checkpoint%s: %s",
               l->n_known ? "" : " (which an older version wrote)", left.data);
    tp_buf_free(&left);
}

static tp_status tp__load_random_steps(tp_train_state *train)
{
    const tp_dict *d = tp_session_state(train->session);
    tp_exec *session_exec = tp_session_exec(train->session);
    int64_t step = 0;
    if (!session_exec) return TP_ERR_NOMEM;
    if (train->hooked_session && tp_state_get_i64(d, "tp:", "random_step", &step, 1))
        tp_exec_set_random_step(tp_hooked_session_exec(train->hooked_session), (uint64_t)step);
    if (tp_state_get_i64(d, "tp:", "random_step_outside", &step, 1))
        tp_exec_set_random_step(session_exec, (uint64_t)step);
    return TP_OK;
}

TP_DEF tp_status tp_train_state_load(tp_train_state *train)
{
    TP__REQUIRE(train && train->session, TP_ERR_ARG)
    tp_dict *d = tp_session_state(train->session);
    tp__loading l;
    int64_t consumed = 0;
    tp__find_known(&l, d);
    l.is_other_rank = train->trainer && !train->is_chief;
    tp_status st = tp__load_random_steps(train);
    if (st == TP_OK && train->input && tp_state_get_i64(d, "tp:", "input/consumed", &consumed, 1)) {
        st = tp_input_seek(train->input, consumed);
        if (st == TP_ERR_UNSUPPORTED) {
            tp_log(TP_LOG_WARN, "%s: training goes on, but not with the data it would have seen.", tp_last_error());
            st = TP_OK;
        }
    }
    train->resumed = tp__dict_get(d, "tp:epoch") != NULL;
    if (st == TP_OK) st = tp__local_variables(train, d, false);
    if (st == TP_OK) st = tp__name_states(train);
    if (st == TP_OK && train->resumed) st = tp__visit(train->callbacks, train->n_callbacks, tp__load_one, &l);
    if (st == TP_OK && !l.is_other_rank) tp__warn_of_states_left(train, &l);
    return st;
}

/* -- checkpoints */

TP_DEF void tp_callback_request_checkpoint(tp_callback *cb)
{
    TP__REQUIRE(cb && cb->train, )
    tp_callback **tail = &cb->train->due_;
    if (cb->due_) return;
    while (*tail) tail = &(*tail)->next_due_;
    *tail = cb;
    cb->next_due_ = NULL;
    cb->due_ = true;
}

static tp_status tp__after_checkpoint(tp_callback *cb, void *user)
{
    (void)user;
    cb->due_ = false;
    const unsigned n_errors = tp__n_errors;
    return cb->after_checkpoint ? tp__members_named(cb, n_errors, cb->after_checkpoint(cb)) : TP_OK;
}

/* Cancels all requests for a checkpoint. */
static TP__UNUSED void tp__forget_checkpoint(tp_train_state *train)
{
    for (tp_callback *cb = train->due_; cb; cb = cb->next_due_) cb->due_ = false;
    train->due_ = NULL;
}

TP_DEF tp_status tp_train_checkpoint(tp_train_state *train, bool force)
{
    TP__REQUIRE(train, TP_ERR_ARG)
    tp_callback *const first = train->due_;
    bool save = false;
    tp_status st = TP_OK;
    train->due_ = NULL;
    train->save_failed_ = false;
    for (const tp_callback *cb = first; cb; cb = cb->next_due_) save = save || cb->checkpoint;
    if (save) st = tp_train_state_save(train);
    for (int resumed_from = 0; resumed_from < 2; resumed_from++)
        for (tp_callback *cb = first; cb && st == TP_OK; cb = cb->next_due_)
            if (cb->checkpoint && cb->is_resumed_from == resumed_from) {
                const unsigned n_errors = tp__n_errors;
                st = tp__members_named(cb, n_errors, cb->checkpoint(cb));
            }
    if (st == TP_OK && (first || force))
        st = tp__visit(train->callbacks, train->n_callbacks, tp__after_checkpoint, NULL);
    /* callbacks inside a wrapper that does not set `inner` were not found in the list: call their after_checkpoint here */
    for (tp_callback *cb = first; cb; cb = cb->next_due_) {
        if (cb->due_ && st == TP_OK) st = tp__after_checkpoint(cb, NULL);
        cb->due_ = false;
    }
    return st;
}

/* ==== >>monitor ======================================================================================= */

TP_DEF tp_monitor *tp_monitor_new(const char *name, size_t bytes)
{
    TP__REQUIRE(name, NULL)

    tp_monitor *m = (tp_monitor *)(void *)tp__callback_new(name, sizeof(tp_monitor), bytes);
    if (!m) return NULL;
    m->cb.chief_only = false;
    m->cb.is_monitor = true;
    return m;
}

TP_DEF tp_monitor *tp_monitor_fail(const tp_at *at, tp_status status, const char *fmt, ...)
{
    tp_monitor *m = tp_monitor_new("Failed", 0);
    if (!m) return NULL;
    va_list ap;
    va_start(ap, fmt);
    m->cb.error_ = tp__arena_sentence(&m->cb.mem_, at, fmt, ap);
    va_end(ap);
    m->cb.status_ = status;
    return m;
}

TP_DEF void tp_monitor_free(tp_monitor *m)
{
    if (m) tp_callback_free(&m->cb);
}

/* -- the history of scalars: one list per name, in the order of the names' first values */

struct tp__history {
    char *name;
    tp_stat *stat;
    int n, cap;
    const void *reporter; /* the inferencer that reported the last value, or NULL */
};

static void tp__monitors_close(tp_callback *cb)
{
    tp_monitors *m = (tp_monitors *)(void *)cb;
    for (int i = 0; i < m->n_history; i++) {
        tp_free(m->history[i].name);
        tp_free(m->history[i].stat);
    }
    tp_free(m->history);
    tp_free(m->clean_);
    tp_free(m->tags_);
    tp_tensor_free(&m->image_);
}

TP_DEF tp_monitors *tp_monitors_new(tp_monitor *const *monitor, int n)
{
    TP__REQUIRE((monitor || n == 0) && n >= 0, NULL)
    for (int i = 0; i < n; i++)
        if (!monitor[i]) {
            tp_fail(TP_ERR_ARG, "tp_monitors_new: monitor %d is NULL", i);
            return NULL;
        }

    tp_monitors *m = (tp_monitors *)(void *)tp__callback_new("Monitors", sizeof(tp_monitors), 0);
    if (!m) return NULL;
    m->cb.chief_only = false;
    m->cb.close = tp__monitors_close;
    tp_monitor **copy = (tp_monitor **)tp_arena_alloc(&m->cb.mem_, ((size_t)n + 1) * sizeof *copy);
    if (!copy) {
        tp__callback_delete(&m->cb);
        return NULL;
    }
    for (int i = 0; i < n; i++) copy[i] = monitor[i];
    m->monitor = copy;
    m->n_monitor = n;
    return m;
}

/* The step that values are reported with. A monitor that is used without a trainer has no step before its setup_graph. */
static int64_t tp__step_of(const tp_callback *cb) { return cb->train ? (int64_t)cb->train->global_step : 0; }

static struct tp__history *tp__history_find(const tp_monitors *m, const char *name)
{
    for (int i = 0; i < m->n_history; i++)
        if (strcmp(m->history[i].name, name) == 0) return &m->history[i];
    return NULL;
}

static tp_status tp__history_add(tp_monitors *m, const char *name, const tp_stat *s)
{
    struct tp__history *h = tp__history_find(m, name);
    if (!h) {
        if (m->n_history == m->cap_history) {
            const int cap = m->cap_history ? m->cap_history * 2 : 32;
            h = (struct tp__history *)tp_realloc(m->history, (size_t)cap * sizeof *h);
            if (!h) return TP_ERR_NOMEM;
            m->history = h;
            m->cap_history = cap;
        }
        h = &m->history[m->n_history];
        memset(h, 0, sizeof *h);
        if (!(h->name = tp_strdup(name))) return TP_ERR_NOMEM;
        m->n_history++;
    }
    if (h->n == h->cap) {
        const int cap = h->cap ? h->cap * 2 : 16;
        tp_stat *stat = (tp_stat *)tp_realloc(h->stat, (size_t)cap * sizeof *stat);
        if (!stat) return TP_ERR_NOMEM;
        h->stat = stat;
        h->cap = cap;
    }
    if (h->n && h->stat[h->n - 1].step == s->step && h->reporter && m->reporter_ && h->reporter != m->reporter_)
        tp_log_once(
            TP_LOG_WARN,
            "Two inferencers report '%s' in one step: callbacks and JSONWriter use the last value only. Give each "
            "its own name by .prefix, or .summary_name of tp_inf_classification_error.",
            name);
    h->reporter = m->reporter_;
    h->stat[h->n++] = *s;
    return TP_OK;
}

/* -- reporting */

static tp_status tp__monitors_scalar(tp_monitors *m, const char *name, double value, bool is_int)
{
    tp_stat s;
    s.step = tp__step_of(&m->cb);
    s.value = value;
    s.is_int = is_int;
    tp_status st = TP_OK;
    for (int i = 0; i < m->n_monitor && st == TP_OK; i++)
        if (m->monitor[i]->process_scalar) st = m->monitor[i]->process_scalar(m->monitor[i], name, &s);
    return st == TP_OK ? tp__history_add(m, name, &s) : st;
}

TP_DEF tp_status tp_monitors_process(tp_monitors *m, const char *name, double value)
{
    TP__REQUIRE(m && name, TP_ERR_ARG)

    tp_stat s;
    s.step = tp__step_of(&m->cb);
    s.value = value;
    s.is_int = false;
    tp_status st = TP_OK;
    for (int i = 0; i < m->n_monitor && st == TP_OK; i++)
        if (m->monitor[i]->process) st = m->monitor[i]->process(m->monitor[i], name, &s);
    return st;
}

/* Warns once about pictures whose pixels are fractions, as most networks use them: they would look black. */
static void tp__warn_dark_pictures(const tp_summary_value *v)
{
    if (v->kind != TP_SUMMARY_IMAGE || !v->tensor || v->tensor->dtype != TP_F32 || v->tensor->device) return;
    const float *pixel = (const float *)v->tensor->data;
    const int64_t n = tp_tensor_size(v->tensor);
    float largest = 0;
    for (int64_t i = 0; i < n && pixel && largest <= 1; i++)
        if (pixel[i] > largest) largest = pixel[i];
    if (largest > 0 && largest <= 1)
        tp_log_once(TP_LOG_WARN,
                    "Image summary '%s': no value is above 1, so its pictures are black. Values are 0 to 255: multiply "
                    "them by 255.",
                    v->tag);
}
static tp_status tp__monitors_summary(tp_monitors *m, const tp_summary *s)
{
    tp_status st = TP_OK;
    for (int i = 0; i < s->n && m->n_monitor > 0; i++) tp__warn_dark_pictures(&s->value[i]);
    for (int i = 0; i < m->n_monitor && st == TP_OK; i++)
        if (m->monitor[i]->process_summary) st = m->monitor[i]->process_summary(m->monitor[i], s);
    return st;
}

static tp_status tp__monitors_put(tp_monitors *m, const char *name, double value, bool is_int)
{
    if (!m) return TP_OK; /* without a trainer there are no monitors */
    tp_summary_value v;
    tp_summary s;
    memset(&v, 0, sizeof v);
    v.tag = name;
    v.kind = TP_SUMMARY_SCALAR;
    v.scalar = value;
    v.is_int = is_int;
    s.value = &v;
    s.n = 1;
    const tp_status st = tp__monitors_scalar(m, name, value, is_int);
    return st == TP_OK ? tp__monitors_summary(m, &s) : st;
}

TP_DEF tp_status tp_monitors_put_scalar(tp_monitors *m, const char *name, double value)
{
    TP__REQUIRE(name, TP_ERR_ARG)

    return tp__monitors_put(m, name, value, false);
}
TP_DEF tp_status tp_monitors_put_int(tp_monitors *m, const char *name, int64_t value)
{
    TP__REQUIRE(name, TP_ERR_ARG)

    return tp__monitors_put(m, name, (double)value, true);
}

/* Copies `tag` without "tower[0-9]+/" and a final "-summary" to `to`, which must be large enough; returns the end, after
 * the NUL. */
static char *tp__clean_tag(char *to, const char *tag)
{
    char *const begin = to;
    while (*tag) {
        size_t n = 5;
        if (strncmp(tag, "tower", 5) == 0)
            while (tag[n] >= '0' && tag[n] <= '9') n++;
        if (n > 5 && tag[n] == '/') tag += n + 1;
        else *to++ = *tag++;
    }
    if (to - begin >= 8 && memcmp(to - 8, "-summary", 8) == 0) to -= 8;
    *to = 0;
    return to + 1;
}

TP_DEF tp_status tp_monitors_put_summary(tp_monitors *m, const tp_summary *summary)
{
    TP__REQUIRE(summary && (summary->value || summary->n <= 0), TP_ERR_ARG)
    for (int i = 0; i < summary->n; i++) {
        const tp_summary_value *v = &summary->value[i];
        if (!v->tag) return tp_fail(TP_ERR_ARG, "tp_monitors_put_summary: value %d has no tag", i);
        if ((v->kind == TP_SUMMARY_HISTOGRAM || v->kind == TP_SUMMARY_IMAGE) && !v->tensor)
            return tp_fail(TP_ERR_ARG, "tp_monitors_put_summary: value '%s' has no tensor", v->tag);
    }

    if (!m) return TP_OK;
    size_t text = 0;
    for (int i = 0; i < summary->n; i++) text += strlen(summary->value[i].tag) + 1;
    if (text > m->cap_tags_) {
        char *tags = (char *)tp_realloc(m->tags_, text);
        if (!tags) return TP_ERR_NOMEM;
        m->tags_ = tags;
        m->cap_tags_ = text;
    }
    if ((size_t)summary->n > m->cap_clean_) {
        tp_summary_value *clean = (tp_summary_value *)tp_realloc(m->clean_, (size_t)summary->n * sizeof *clean);
        if (!clean) return TP_ERR_NOMEM;
        m->clean_ = clean;
        m->cap_clean_ = (size_t)summary->n;
    }
    char *to = m->tags_;
    tp_summary s;
    tp_status st = TP_OK;
    s.value = m->clean_;
    s.n = summary->n;
    for (int i = 0; i < s.n; i++) {
        m->clean_[i] = summary->value[i];
        m->clean_[i].tag = to;
        to = tp__clean_tag(to, summary->value[i].tag);
    }
    for (int i = 0; i < s.n && st == TP_OK; i++)
        if (s.value[i].kind == TP_SUMMARY_SCALAR)
            st = tp__monitors_scalar(m, s.value[i].tag, s.value[i].scalar, s.value[i].is_int);
    return st == TP_OK && s.n ? tp__monitors_summary(m, &s) : st;
}

TP_DEF tp_status tp_monitors_put_image(tp_monitors *m, const char *name, const tp_tensor *image)
{
    TP__REQUIRE(name && image, TP_ERR_ARG)

    int64_t nhwc[4];
    if (!m) return TP_OK;
    tp_status st = tp__image_layout(image, nhwc);
    if (st != TP_OK) return st;
    tp_tensor_view(&m->image_, image->dtype, tp_make_shape_n(4, nhwc), image->data);
    for (int i = 0; i < m->n_monitor && st == TP_OK; i++)
        if (m->monitor[i]->process_image) st = m->monitor[i]->process_image(m->monitor[i], name, &m->image_);
    tp_summary_value v;
    tp_summary s;
    memset(&v, 0, sizeof v);
    v.tag = name;
    v.kind = TP_SUMMARY_IMAGE;
    v.tensor = &m->image_;
    s.value = &v;
    s.n = 1;
    return st == TP_OK ? tp__monitors_summary(m, &s) : st;
}

TP_DEF tp_status tp_monitors_put_event(tp_monitors *m, tp_event *event)
{
    TP__REQUIRE(event, TP_ERR_ARG)

    if (!m) return TP_OK;
    event->wall_time = tp__os_wall();
    event->step = tp__step_of(&m->cb);
    tp_status st = TP_OK;
    for (int i = 0; i < m->n_monitor && st == TP_OK; i++)
        if (m->monitor[i]->process_event) st = m->monitor[i]->process_event(m->monitor[i], event);
    return st;
}

/* The names of all statistics that were reported, "cost, error", and the one that is similar to `wanted`, as tp__nearest_text says
 * it. m may be NULL; free names. */
static void tp__reported(const tp_monitors *m, const char *wanted, tp_buf *names, char near[TP__NEAREST_TEXT])
{
    tp__nearest n;
    memset(&n, 0, sizeof n);
    memset(names, 0, sizeof *names);
    n.wanted = wanted;
    for (int i = 0; m && i < m->n_history; i++) {
        tp__nearest_try(&n, m->history[i].name);
        tp_buf_printf(names, "%s%s", i ? ", " : "", m->history[i].name);
    }
    tp__nearest_text(&n, near);
}

/* The end of a sentence about a statistic that nobody has reported: what to do if the graph has a node of that name. */
static const char *tp__unreported_node(const tp_train_state *train, const char *name)
{
    return train && train->graph && tp__node_named(train->graph, name)
               ? ". The graph has a node of this name: tp_add_moving_summary in build_graph reports it"
               : "";
}

TP_DEF tp_status tp_monitors_get_latest(const tp_monitors *m, const char *name, tp_stat *stat)
{
    TP__REQUIRE(m && name && stat, TP_ERR_ARG)

    const struct tp__history *h = tp__history_find(m, name);
    if (h && h->n) {
        *stat = h->stat[h->n - 1];
        return TP_OK;
    }
    char near[TP__NEAREST_TEXT];
    tp_buf names;
    tp__reported(m, name, &names, near);
    tp_fail(
        TP_ERR_NAME,
        "No available data for the key: %s%s Reported until now: %s. List the callback that reports it before the one "
        "that reads it%s",
        name, *near ? near : ".", names.data ? names.data : "nothing", tp__unreported_node(m->cb.train, name));
    tp_buf_free(&names);
    return TP_ERR_NAME;
}

TP_DEF int tp_monitors_get_history(const tp_monitors *m, const char *name, const tp_stat **stats)
{
    TP__REQUIRE(m && name && stats, 0)

    const struct tp__history *h = tp__history_find(m, name);
    *stats = h ? h->stat : NULL;
    return h ? h->n : 0;
}

static tp_status tp__wraps_another(tp_callback *cb, void *user)
{
    return cb->n_inner == 1 && cb->inner[0] != user ? TP_STOP : TP_OK;
}

/* The newest value of a statistic that a callback has seen. */
typedef struct tp__newest {
    int64_t step;     /* global_step when it was reported, -1: none was; saved in checkpoints */
    int64_t epoch, n; /* of the trigger that saw it: its epoch, and how many values the history had */
    int64_t unseen;   /* after a resume: how many values were reported after that trigger */
} tp__newest;

/* Whether the newest value of a statistic is another than the one that was seen, and notes it. Epochs without steps report at the
 * same step, so there the length of the history tells; within an epoch, a value that is reported twice at a step counts once. */
static bool tp__stat_is_new(const tp_callback *cb, const char *name, const tp_stat *stat, tp__newest *newest)
{
    const struct tp__history *h = tp__history_find(cb->train->monitors, name);
    const int64_t n = h ? h->n : 0;
    if (stat->step == newest->step && (cb->train->epoch_num == newest->epoch || n <= newest->n)) return false;
    newest->step = stat->step;
    newest->epoch = cb->train->epoch_num;
    newest->n = n;
    return true;
}

/* The step for a checkpoint, 0 if no value was seen. */
static int64_t tp__newest_step(const tp__newest *newest) { return newest->step > 0 ? newest->step : 0; }

static int64_t tp__history_length(const tp_callback *cb, const char *name)
{
    const struct tp__history *h = cb->train->monitors ? tp__history_find(cb->train->monitors, name) : NULL;
    return h ? h->n : 0;
}
/* Saves how many values were reported after the last trigger, by callbacks that come later in the list. */
static tp_status tp__newest_save(const tp_callback *cb, const char *name, const tp__newest *newest, tp_dict *d,
                                 const char *prefix)
{
    const int64_t unseen = tp__history_length(cb, name) - newest->n;
    return unseen > 0 ? tp_state_put_i64(d, prefix, "unseen", &unseen, 1) : TP_OK;
}
static void tp__newest_load(tp__newest *newest, const tp_dict *d, const char *prefix, int64_t step)
{
    newest->step = step;
    if (!tp_state_get_i64(d, prefix, "unseen", &newest->unseen, 1)) newest->unseen = 0;
}
/* After a resume: the other values of the history were seen before the checkpoint. */
static void tp__newest_resume(const tp_callback *cb, const char *name, tp__newest *newest)
{
    newest->n = tp__history_length(cb, name) - newest->unseen;
    newest->epoch = cb->train->epoch_num;
}

/* The triggers of a callback at which the statistic that it needs had not been reported. */
typedef struct tp__absence {
    int times;     /* number of epochs with such triggers, one after the other */
    int64_t step;  /* global_step at the last of them */
    int64_t epoch; /* the epoch of the last of them */
} tp__absence;

/* Called when the statistic is there. If it was missing at a trigger, and was reported in that step all the same, then it was reported
 * after that trigger, and so it will be each time. */
static void tp__stat_found(tp_callback *cb, const char *name, const tp_stat *stat, tp__absence *absence)
{
    const bool again = cb->train->global_step == absence->step; /* no step since: it may have been reported now */
    if (absence->times == 1 && stat->step == absence->step && !again)
        tp_log(TP_LOG_WARN,
               "%s reads '%s' before it is reported, so that it has the value of the trigger before: first list the "
               "callback that reports it.",
               cb->name, name);
    absence->times = 0;
}

/* Called when the statistic that callback cb needs has not been reported. In a second epoch this is an error, or only a warning if the
 * list has a wrapped callback, because that one may report the statistic later. Triggers within one epoch count once: the statistic may
 * be reported at its end. */
static tp_status tp__stat_missing(tp_callback *cb, const char *stat, tp__absence *absence)
{
    tp_buf names;
    char text[TP__NEAREST_TEXT];
    const bool again = absence->times > 0 && absence->epoch == cb->train->epoch_num;
    absence->step = cb->train->global_step;
    absence->epoch = cb->train->epoch_num;
    if (again || ++absence->times != 2) return TP_OK;
    tp__reported(cb->train->monitors, stat, &names, text);
    const tp_status st = tp_fail(
        TP_ERR_NAME, "%s: nobody has reported a statistic '%s' by its second trigger. Those that were reported: %s%s%s",
        cb->name, stat, names.data ? names.data : "none", text, tp__unreported_node(cb->train, stat));
    tp_buf_free(&names);
    if (tp__visit(cb->train->callbacks, cb->train->n_callbacks, tp__wraps_another, cb) == TP_OK) return st;
    tp_log(TP_LOG_WARN, "%s", tp_last_error());
    return TP_OK;
}

/* ==== >>wrappers ====================================================================================== */

/* -- proxy ---------------------------------------------------------------------------- >>callback
 * ProxyCallback */

typedef struct tp__proxy {
    tp_callback *inner;
} tp__proxy;

TP_DEF tp_callback *tp_proxy_inner(const tp_callback *proxy)
{
    TP__REQUIRE(proxy, NULL)
    return ((const tp__proxy *)proxy->user)->inner;
}

static tp_status tp__proxy_setup_graph(tp_callback *cb)
{
    tp_graph *g = cb->train->graph; /* the name scope of the inner callback is not inside the proxy's */
    if (g) tp_name_scope_push(g, "");
    const tp_status st = tp_callback_setup_graph(tp_proxy_inner(cb), cb->train);
    if (g) tp_name_scope_pop(g);
    return st;
}
static tp_status tp__proxy_before_train(tp_callback *cb) { return tp_callback_before_train(tp_proxy_inner(cb)); }
static tp_status tp__proxy_before_epoch(tp_callback *cb) { return tp_callback_before_epoch(tp_proxy_inner(cb)); }
static tp_status tp__proxy_before_run(tp_callback *cb, tp_run_request *r)
{
    return tp_callback_before_run(tp_proxy_inner(cb), r);
}
static tp_status tp__proxy_after_run(tp_callback *cb, const tp_run_values *v)
{
    return tp_callback_after_run(tp_proxy_inner(cb), v);
}
static tp_status tp__proxy_trigger_step(tp_callback *cb) { return tp_callback_trigger_step(tp_proxy_inner(cb)); }
static tp_status tp__proxy_after_epoch(tp_callback *cb) { return tp_callback_after_epoch(tp_proxy_inner(cb)); }
static tp_status tp__proxy_trigger_epoch(tp_callback *cb) { return tp_callback_trigger_epoch(tp_proxy_inner(cb)); }
static tp_status tp__proxy_trigger(tp_callback *cb) { return tp_callback_trigger(tp_proxy_inner(cb)); }
static tp_status tp__proxy_after_train(tp_callback *cb) { return tp_callback_after_train(tp_proxy_inner(cb)); }
static void tp__proxy_close(tp_callback *cb) { tp__callback_delete(tp_proxy_inner(cb)); }

/* Makes a proxy whose user memory begins with tp__proxy. Frees the inner callback on failure. */
static tp_callback *tp__proxy_new(tp_callback *inner, size_t bytes)
{
    if (!inner || inner->status_ != TP_OK) return inner; /* the caller gets the failed callback itself */
    if (!tp__set_owner(&inner->owner_, inner->name, "a callback around it", NULL)) return tp__callback_owned_twice();
    tp_callback *cb = tp_callback_new("", bytes);
    if (!cb || !(cb->name = tp_arena_printf(&cb->mem_, "Proxy-%s", inner->name))) {
        tp__callback_delete(inner);
        tp__callback_delete(cb);
        return NULL;
    }
    ((tp__proxy *)cb->user)->inner = inner;
    cb->chief_only = inner->chief_only;
    cb->setup_graph = tp__proxy_setup_graph;
    cb->before_train = tp__proxy_before_train;
    cb->before_epoch = tp__proxy_before_epoch;
    cb->before_run = tp__proxy_before_run;
    cb->after_run = tp__proxy_after_run;
    cb->trigger_step = tp__proxy_trigger_step;
    cb->after_epoch = tp__proxy_after_epoch;
    cb->trigger_epoch = tp__proxy_trigger_epoch;
    cb->trigger = tp__proxy_trigger;
    cb->after_train = tp__proxy_after_train;
    cb->close = tp__proxy_close;
    cb->inner = &((tp__proxy *)cb->user)->inner;
    cb->n_inner = 1;
    return cb;
}

TP_DEF tp_callback *tp_cb_proxy(tp_callback *cb) { return tp__proxy_new(cb, sizeof(tp__proxy)); }

/* For wrong options of a wrapper: frees the inner callback and returns one that fails with the sentence. */
static tp_callback *tp__wrapper_fail(const tp_at *at, tp_callback *inner, const char *sentence)
{
    tp__drop_callback(inner);
    return tp_callback_fail(at, TP_ERR_ARG, "%s", sentence);
}

/* -- functions ---------------------------------------------------------------------- >>callback
 * CallbackFactory */

typedef struct tp__lambda {
    void *user;
    void (*release)(void *user);
} tp__lambda;

TP_DEF void *tp_lambda_user(const tp_callback *cb)
{
    TP__REQUIRE(cb, NULL)
    return ((const tp__lambda *)cb->user)->user;
}

static void tp__lambda_close(tp_callback *cb)
{
    const tp__lambda *l = (const tp__lambda *)cb->user;
    if (l->release) l->release(l->user);
}

TP_DEF tp_callback *tp_cb_lambda_(const tp_cb_lambda_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    tp_callback *cb = tp_callback_new("CallbackFactory", sizeof(tp__lambda));
    if (cb && d->name && !(cb->name = tp_arena_strdup(&cb->mem_, d->name))) {
        tp__callback_delete(cb);
        cb = NULL;
    }
    if (!cb) {
        if (d->release) d->release(d->user);
        return NULL;
    }
    tp__lambda *l = (tp__lambda *)cb->user;
    l->user = d->user;
    l->release = d->release;
    cb->setup_graph = d->setup_graph;
    cb->before_train = d->before_train;
    cb->trigger = d->trigger;
    cb->after_train = d->after_train;
    cb->close = tp__lambda_close;
    return cb;
}

/* -- trigger on a schedule ------------------------------------------------------------ >>callback
 * PeriodicTrigger */

typedef struct tp__periodic {
    tp__proxy proxy;
    int64_t every_k_steps, every_k_epochs;
    bool before_train;
} tp__periodic;

static tp_status tp__periodic_setup_graph(tp_callback *cb)
{
    const tp_callback *inner = tp_proxy_inner(cb);
    if (!inner->trigger)
        tp_log(TP_LOG_WARN,
               "PeriodicTrigger: %s has no trigger, so it is never called at these times: tp_cb_periodic_callback "
               "chooses when its other functions are called",
               inner->name);
    return tp__proxy_setup_graph(cb);
}

static tp_status tp__periodic_before_train(tp_callback *cb)
{
    const tp__periodic *p = (const tp__periodic *)cb->user;
    const tp_status st = tp__proxy_before_train(cb);
    return st == TP_OK && p->before_train && !cb->resumed ? tp__proxy_trigger(cb) : st;
}

static tp_status tp__periodic_trigger_step(tp_callback *cb)
{
    const tp__periodic *p = (const tp__periodic *)cb->user;
    const tp_status st = tp__proxy_trigger_step(cb);
    return st == TP_OK && p->every_k_steps && cb->train->global_step % p->every_k_steps == 0 ? tp__proxy_trigger(cb)
                                                                                             : st;
}

static tp_status tp__periodic_trigger_epoch(tp_callback *cb)
{
    const tp__periodic *p = (const tp__periodic *)cb->user;
    return p->every_k_epochs && cb->train->epoch_num % p->every_k_epochs == 0 ? tp__proxy_trigger(cb) : TP_OK;
}

TP_DEF tp_callback *tp_cb_periodic_trigger_(const tp_cb_periodic_trigger_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    const bool before = d->before_train == TP_YES;
    if (d->every_k_steps < 0 || d->every_k_epochs < 0 || (!d->every_k_steps && !d->every_k_epochs && !before))
        return tp__wrapper_fail(&d->at_, d->cb,
                                "PeriodicTrigger: give every_k_steps or every_k_epochs, 1 or more, or before_train");
    tp_callback *cb = tp__proxy_new(d->cb, sizeof(tp__periodic));
    if (!cb || cb == d->cb) return cb;
    tp__periodic *p = (tp__periodic *)cb->user;
    p->every_k_steps = d->every_k_steps;
    p->every_k_epochs = d->every_k_epochs;
    p->before_train = before;
    cb->setup_graph = tp__periodic_setup_graph;
    cb->before_train = tp__periodic_before_train;
    cb->trigger_step = tp__periodic_trigger_step;
    cb->trigger_epoch = tp__periodic_trigger_epoch;
    return cb;
}

/* -- hooks on a condition ------------------------------------------- >>callback EnableCallbackIf,
 * PeriodicCallback */

typedef struct tp__enable {
    tp__proxy proxy;
    bool (*pred)(tp_callback *wrapper, void *user);
    void *user;
    int64_t every_k_steps, every_k_epochs;
    bool run_enabled; /* the condition's result in before_run, which after_run of the same run uses too */
} tp__enable;

static bool tp__enabled(tp_callback *cb)
{
    const tp__enable *e = (const tp__enable *)cb->user;
    return e->pred(cb, e->user);
}

static tp_status tp__enable_before_epoch(tp_callback *cb)
{
    return tp__enabled(cb) ? tp__proxy_before_epoch(cb) : TP_OK;
}
static tp_status tp__enable_after_epoch(tp_callback *cb) { return tp__enabled(cb) ? tp__proxy_after_epoch(cb) : TP_OK; }
static tp_status tp__enable_trigger_step(tp_callback *cb)
{
    return tp__enabled(cb) ? tp__proxy_trigger_step(cb) : TP_OK;
}
static tp_status tp__enable_trigger_epoch(tp_callback *cb)
{
    return tp__enabled(cb) ? tp__proxy_trigger_epoch(cb) : TP_OK;
}
static tp_status tp__enable_before_run(tp_callback *cb, tp_run_request *r)
{
    tp__enable *e = (tp__enable *)cb->user;
    e->run_enabled = tp__enabled(cb);
    return e->run_enabled ? tp__proxy_before_run(cb, r) : TP_OK;
}
static tp_status tp__enable_after_run(tp_callback *cb, const tp_run_values *v)
{
    return ((const tp__enable *)cb->user)->run_enabled ? tp__proxy_after_run(cb, v) : TP_OK;
}

static tp_callback *tp__enable_new(tp_callback *inner, bool (*pred)(tp_callback *, void *), void *user)
{
    tp_callback *cb = tp__proxy_new(inner, sizeof(tp__enable));
    if (!cb || cb == inner) return cb;
    tp__enable *e = (tp__enable *)cb->user;
    e->pred = pred;
    e->user = user;
    cb->before_epoch = tp__enable_before_epoch;
    cb->after_epoch = tp__enable_after_epoch;
    cb->trigger_step = tp__enable_trigger_step;
    cb->trigger_epoch = tp__enable_trigger_epoch;
    cb->before_run = tp__enable_before_run;
    cb->after_run = tp__enable_after_run;
    return cb;
}

TP_DEF tp_callback *tp_cb_enable_if_(const tp_cb_enable_if_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    if (!d->pred) return tp__wrapper_fail(&d->at_, d->cb, "EnableCallbackIf: .pred is missing");
    return tp__enable_new(d->cb, d->pred, d->user);
}

static bool tp__periodic_pred(tp_callback *cb, void *user)
{
    const tp__enable *e = (const tp__enable *)cb->user;
    const tp_train_state *t = cb->train;
    (void)user;
    if (e->every_k_steps && t->global_step % e->every_k_steps == 0) return true;
    if (!e->every_k_epochs) return false;
    return t->epoch_num % e->every_k_epochs == 0 ||
           (t->local_step == t->steps_per_epoch - 1 && t->epoch_num == t->max_epoch);
}

TP_DEF tp_callback *tp_cb_periodic_callback_(const tp_cb_periodic_callback_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    if (d->every_k_steps < 0 || d->every_k_epochs < 0 || (!d->every_k_steps && !d->every_k_epochs))
        return tp__wrapper_fail(&d->at_, d->cb, "PeriodicCallback: give every_k_steps or every_k_epochs");
    tp_callback *cb = tp__enable_new(d->cb, tp__periodic_pred, NULL);
    if (!cb || cb == d->cb) return cb;
    ((tp__enable *)cb->user)->every_k_steps = d->every_k_steps;
    ((tp__enable *)cb->user)->every_k_epochs = d->every_k_epochs;
    return cb;
}

/* -- a group ----------------------------------------------------------------------------- >>callback
 * Callbacks */

typedef struct tp__members {
    tp_callback **cb;
    int n;
    int *first, *count; /* fetches of each member: index of its first one among the group's, and their number */
    double *seconds;
} tp__members;

/* Call it after a hook of a group's member returned `st`: if the hook failed, puts the member's name in front of the error sentence.
 * n_errors: tp__n_errors before the hook. */
static void tp__members_close(tp_callback *cb);
static tp_status tp__members_named(const tp_callback *member, unsigned n_errors, tp_status st)
{
    if ((st >= TP_OK && st <= TP_INTR) || member->close == tp__members_close) return st;
    st = tp__add_missing_sentence(member->name, n_errors, st);
    const size_t n = strlen(member->name);
    const bool named = strncmp(tp_last_error(), member->name, n) == 0 && tp_last_error()[n] == ':';
    return named ? st : tp_fail(st, "%s: %s", member->name, tp_last_error());
}
/* A plain TP_STOP gets a reason: who returned it. */
static void tp__members_stopped(const tp_callback *group, const tp_callback *member)
{
    tp_train_state *train = group->train;
    if (train && !train->stop_reason[0])
        snprintf(train->stop_reason, sizeof train->stop_reason, "%.200s returned TP_STOP", member->name);
}
/* Call it after a hook of a group's member returned `st`: names the member in the error sentence; checks for Ctrl-C if it succeeded. */
static tp_status tp__members_called(const tp_callback *group, const tp_callback *member, unsigned n_errors,
                                    tp_status st)
{
    if (st == TP_STOP) tp__members_stopped(group, member);
    return st == TP_OK ? tp__poll(group->train) : tp__members_named(member, n_errors, st);
}

/* Calls a hook of all members in order; checks for Ctrl-C after each. */
typedef tp_status (*tp__hook_fn)(tp_callback *cb);
static tp_status tp__members_walk(tp_callback *cb, tp__hook_fn hook)
{
    const tp__members *g = (const tp__members *)cb->user;
    tp_status st = TP_OK;
    for (int i = 0; i < g->n && st == TP_OK; i++) {
        const unsigned n_errors = tp__n_errors;
        st = tp__members_called(cb, g->cb[i], n_errors, hook(g->cb[i]));
    }
    return st;
}

static tp_status tp__members_setup_graph(tp_callback *cb)
{
    const tp__members *g = (const tp__members *)cb->user;
    tp_status st = TP_OK;
    for (int i = 0; i < g->n && st == TP_OK; i++) {
        if (cb->train->graph) tp_name_scope_push(cb->train->graph, "");
        const unsigned n_errors = tp__n_errors;
        st = tp__members_named(g->cb[i], n_errors, tp_callback_setup_graph(g->cb[i], cb->train));
        if (st == TP_STOP) tp__members_stopped(cb, g->cb[i]);
        if (cb->train->graph) tp_name_scope_pop(cb->train->graph);
    }
    return st;
}

static tp_status tp__members_before_train(tp_callback *cb) { return tp__members_walk(cb, tp_callback_before_train); }
static tp_status tp__members_before_epoch(tp_callback *cb) { return tp__members_walk(cb, tp_callback_before_epoch); }
static tp_status tp__members_trigger_step(tp_callback *cb) { return tp__members_walk(cb, tp_callback_trigger_step); }
static tp_status tp__members_after_epoch(tp_callback *cb) { return tp__members_walk(cb, tp_callback_after_epoch); }
static tp_status tp__members_trigger(tp_callback *cb) { return tp__members_walk(cb, tp_callback_trigger); }

/* Checks the nodes that a member has asked for and fed, from these indices on, while its name is known. */
static tp_status tp__members_requested(const tp_run_request *r, int fetch, int feed)
{
    for (int i = fetch; i < r->n_fetch; i++)
        if (r->graph && r->fetch[i]->op->graph != r->graph)
            return tp_fail(TP_ERR_ARG, "it fetches '%s', which is a node of another graph than the training's",
                           tp_node_name(r->fetch[i]));
    for (int i = feed; i < r->n_feed; i++)
        if (r->graph && r->feed[i].node->op->graph != r->graph)
            return tp_fail(TP_ERR_ARG, "it feeds '%s', which is a node of another graph than the training's",
                           tp_node_name(r->feed[i].node));
    return TP_OK;
}

static tp_status tp__members_before_run(tp_callback *cb, tp_run_request *r)
{
    const tp__members *g = (const tp__members *)cb->user;
    const int base = r->n_fetch, first = r->first;
    tp_status st = TP_OK;
    for (int i = 0; i < g->n && st == TP_OK; i++) {
        r->first = r->n_fetch; /* the fetch indices of each member begin at 0 */
        g->first[i] = r->n_fetch - base;
        const int feed = r->first_feed = r->n_feed;
        const unsigned n_errors = tp__n_errors;
        st = tp_callback_before_run(g->cb[i], r);
        if (st == TP_OK) st = r->status;
        if (st == TP_OK) st = tp__members_requested(r, r->first, feed);
        st = tp__members_called(cb, g->cb[i], n_errors, st);
        g->count[i] = r->n_fetch - base - g->first[i];
    }
    r->first = first;
    return st;
}

static tp_status tp__members_after_run(tp_callback *cb, const tp_run_values *v)
{
    const tp__members *g = (const tp__members *)cb->user;
    tp_status st = TP_OK;
    for (int i = 0; i < g->n && st == TP_OK; i++) {
        tp_run_values member_values;
        member_values.value = v->value + g->first[i];
        member_values.n = g->count[i];
        const unsigned n_errors = tp__n_errors;
        st = tp__members_called(cb, g->cb[i], n_errors, tp_callback_after_run(g->cb[i], &member_values));
    }
    return st;
}

static tp_status tp__members_trigger_epoch(tp_callback *cb)
{
    const tp__members *g = (const tp__members *)cb->user;
    double total = 0;
    tp_status st = TP_OK;
    /* status TP_STOP or TP_END of the first member that returned it; the other members still trigger */
    tp_status stop = TP_OK;
    for (int i = 0; i < g->n && st == TP_OK; i++) {
        const double t0 = tp_time();
        const unsigned n_errors = tp__n_errors;
        st = tp_callback_trigger_epoch(g->cb[i]);
        g->seconds[i] = tp_time() - t0;
        total += g->seconds[i];
        if (stop == TP_OK && (st == TP_STOP || st == TP_END)) stop = st;
        if (st == TP_STOP) tp__members_stopped(cb, g->cb[i]);
        if (st == TP_STOP || st == TP_END) st = TP_OK;
        st = tp__members_called(cb, g->cb[i], n_errors, st);
    }
    if (st == TP_OK) st = stop;
    if (st < 0 || total < 2) return st;
    char text[1024], time[TP_TIME_TEXT];
    int at = tp__format(text, sizeof text, "Callbacks took %.3f sec in total.", total);
    for (int i = 0; i < g->n && at > 0 && at < (int)sizeof text; i++)
        if (g->seconds[i] > 0.3 * total && g->seconds[i] > 1)
            at += snprintf(text + at, sizeof text - (size_t)at, "%s %s: %s",
                           strchr(text, ';') || strchr(text, ':') ? ";" : "", g->cb[i]->name,
                           tp_humanize_time_delta(g->seconds[i], time));
    tp_log(TP_LOG_INFO, "%s", text);
    return st;
}

static tp_status tp__members_after_train(tp_callback *cb)
{
    const tp__members *g = (const tp__members *)cb->user;
    for (int i = 0; i < g->n; i++)
        if (tp_callback_after_train(g->cb[i]) < 0)
            tp_log(TP_LOG_ERROR, "%s: after_train failed: %s", g->cb[i]->name, tp_last_error());
    return TP_OK;
}

static void tp__members_close(tp_callback *cb)
{
    const tp__members *g = (const tp__members *)cb->user;
    for (int i = 0; i < g->n; i++) tp__callback_delete(g->cb[i]);
}

/* Makes a group of callbacks whose ownership has already been taken. */
static tp_callback *tp__group_new(tp_callback *const *cbs, int n)
{
    tp_callback *cb = tp_callback_new("Callbacks", sizeof(tp__members));
    tp__members *g = cb ? (tp__members *)cb->user : NULL;
    if (g) {
        const size_t capacity = (size_t)n + 1;
        g->cb = (tp_callback **)tp_arena_alloc(&cb->mem_, capacity * sizeof *g->cb);
        g->first = (int *)tp_arena_alloc(&cb->mem_, capacity * sizeof(int));
        g->count = (int *)tp_arena_alloc(&cb->mem_, capacity * sizeof(int));
        g->seconds = (double *)tp_arena_alloc(&cb->mem_, capacity * sizeof(double));
    }
    if (!g || !g->cb || !g->first || !g->count || !g->seconds) {
        for (int i = 0; i < n; i++) tp__callback_delete(cbs[i]);
        tp__callback_delete(cb);
        return NULL;
    }
    for (int i = 0; i < n; i++) g->cb[i] = cbs[i];
    g->n = n;
    cb->chief_only = false;
    cb->setup_graph = tp__members_setup_graph;
    cb->before_train = tp__members_before_train;
    cb->before_epoch = tp__members_before_epoch;
    cb->before_run = tp__members_before_run;
    cb->after_run = tp__members_after_run;
    cb->trigger_step = tp__members_trigger_step;
    cb->after_epoch = tp__members_after_epoch;
    cb->trigger_epoch = tp__members_trigger_epoch;
    cb->trigger = tp__members_trigger;
    cb->after_train = tp__members_after_train;
    cb->close = tp__members_close;
    cb->inner = g->cb;
    cb->n_inner = n;
    return cb;
}

TP_DEF tp_callback *tp_cb_group(tp_callback *const *cbs, int n)
{
    if (n < 0 || (n > 0 && !cbs)) return tp_callback_fail(NULL, TP_ERR_ARG, "tp_cb_group: a list of %d at NULL", n);
    for (int i = 0; i < n; i++) {
        if (!cbs[i] || tp__set_owner(&cbs[i]->owner_, cbs[i]->name, "Callbacks", NULL)) continue;
        tp_callback *const twice = tp__callback_owned_twice();
        for (int k = 0; k < n; k++)
            if (cbs[k] && !tp__listed_before((const void *const *)(const void *)cbs, k) &&
                (k < i || !cbs[k]->owner_.who))
                tp__callback_delete(cbs[k]);
        return twice;
    }
    for (int i = 0; i < n; i++) {
        if (cbs[i]) continue;
        for (int k = 0; k < n; k++) tp__callback_delete(cbs[k]);
        return tp_callback_fail(NULL, TP_ERR_NOMEM,
                                "tp_cb_group: callback %d of %d is NULL: its constructor found no memory", i, n);
    }
    return tp__group_new(cbs, n);
}

/* -- session hooks ------------------------------------------------------------------ >>callback
 * HookToCallback */

typedef struct tp__hook_user {
    tp_hook *hook;
} tp__hook_user;

static tp_hook *tp__hook_of(const tp_callback *cb) { return ((const tp__hook_user *)cb->user)->hook; }
static tp_status tp__hook_setup_graph(tp_callback *cb)
{
    tp_hook *h = tp__hook_of(cb);
    return h->begin ? h->begin(h, cb->train->graph) : TP_OK;
}
static tp_status tp__hook_before_train(tp_callback *cb)
{
    tp_hook *h = tp__hook_of(cb);
    return h->after_create_session ? h->after_create_session(h, cb->train->session) : TP_OK;
}
static tp_status tp__hook_before_run(tp_callback *cb, tp_run_request *r)
{
    tp_hook *h = tp__hook_of(cb);
    return h->before_run ? h->before_run(h, r) : TP_OK;
}
static tp_status tp__hook_after_run(tp_callback *cb, const tp_run_values *v)
{
    tp_hook *h = tp__hook_of(cb);
    return h->after_run ? h->after_run(h, v) : TP_OK;
}
static tp_status tp__hook_after_train(tp_callback *cb)
{
    tp_hook *h = tp__hook_of(cb);
    if (h->end) h->end(h, cb->train ? cb->train->session : NULL);
    return TP_OK;
}

TP_DEF tp_callback *tp_cb_hook(tp_hook *hook)
{
    if (!hook) return tp_callback_fail(NULL, TP_ERR_ARG, "HookToCallback: the hook is NULL");
    tp_callback *cb = tp_callback_new(hook->name ? hook->name : "HookToCallback", sizeof(tp__hook_user));
    if (!cb) return NULL;
    ((tp__hook_user *)cb->user)->hook = hook;
    cb->unnamed_ = true;
    cb->chief_only = false;
    cb->setup_graph = tp__hook_setup_graph;
    cb->before_train = tp__hook_before_train;
    cb->before_run = tp__hook_before_run;
    cb->after_run = tp__hook_after_run;
    cb->after_train = tp__hook_after_train;
    return cb;
}

/* -- a callback as a hook ------------------------------------------------------------ >>callback
 * CallbackToHook */

typedef struct tp__cb_hook {
    tp_hook hook;
    tp_callback *cb;
    tp_train_state *train;
} tp__cb_hook;

static tp_status tp__cb_hook_begin(tp_hook *h, tp_graph *g)
{
    tp__cb_hook *c = (tp__cb_hook *)h->user;
    if (!c->train->graph) c->train->graph = g;
    return tp_callback_setup_graph(c->cb, c->train);
}
static tp_status tp__cb_hook_after_create_session(tp_hook *h, tp_session *s)
{
    tp__cb_hook *c = (tp__cb_hook *)h->user;
    if (!c->train->session) c->train->session = s;
    return tp_callback_before_train(c->cb);
}
static tp_status tp__cb_hook_before_run(tp_hook *h, tp_run_request *r)
{
    return tp_callback_before_run(((const tp__cb_hook *)h->user)->cb, r);
}
static tp_status tp__cb_hook_after_run(tp_hook *h, const tp_run_values *v)
{
    return tp_callback_after_run(((const tp__cb_hook *)h->user)->cb, v);
}
static void tp__cb_hook_end(tp_hook *h, tp_session *s)
{
    tp_callback *cb = ((const tp__cb_hook *)h->user)->cb;
    (void)s;
    if (tp_callback_after_train(cb) < 0) tp_log(TP_LOG_ERROR, "%s: after_train: %s", cb->name, tp_last_error());
}

TP_DEF tp_hook *tp_callback_to_hook(tp_callback *cb, tp_train_state *train)
{
    TP__REQUIRE(cb, NULL)

    tp__cb_hook *c = (tp__cb_hook *)tp_arena_alloc(&cb->mem_, sizeof *c);
    if (!c) return NULL;
    c->cb = cb;
    c->train = train;
    c->hook.name = cb->name;
    c->hook.user = c;
    c->hook.before_run = tp__cb_hook_before_run;
    c->hook.after_run = tp__cb_hook_after_run;
    if (!train) return &c->hook;
    c->hook.begin = tp__cb_hook_begin;
    c->hook.after_create_session = tp__cb_hook_after_create_session;
    c->hook.end = tp__cb_hook_end;
    return &c->hook;
}

/* -- counting steps ----------------------------------------------------------------- >>callback
 * MaintainStepCounter */

typedef struct tp__counter {
    tp_node *increment;
} tp__counter;

static tp_status tp__counter_setup_graph(tp_callback *cb)
{
    tp_graph *g = cb->train->graph;
    tp_name_scope_push(g, "");
    tp_node *one = tp_const_as(g, TP_I64, 1);
    ((tp__counter *)cb->user)->increment = tp_assign_add(tp_get_global_step_var(g), one, NULL);
    tp_name_scope_pop(g);
    return TP_OK;
}

static tp_status tp__counter_before_train(tp_callback *cb)
{
    if (cb->train->global_step)
        tp_log(TP_LOG_INFO, "Start training with global_step=%lld", (long long)cb->train->global_step);
    return TP_OK;
}

static tp_status tp__counter_before_run(tp_callback *cb, tp_run_request *r)
{
    return tp__request_all(r, &((const tp__counter *)cb->user)->increment, 1);
}

static tp_status tp__counter_after_run(tp_callback *cb, const tp_run_values *v)
{
    memcpy(&cb->train->global_step, v->value[0]->data, sizeof cb->train->global_step);
    return TP_OK;
}

TP_DEF tp_callback *tp_cb_maintain_step_counter(void)
{
    tp_callback *cb = tp_callback_new("MaintainStepCounter", sizeof(tp__counter));
    if (!cb) return NULL;
    cb->chief_only = false;
    cb->setup_graph = tp__counter_setup_graph;
    cb->before_train = tp__counter_before_train;
    cb->before_run = tp__counter_before_run;
    cb->after_run = tp__counter_after_run;
    return cb;
}

/* ==== >>graph callbacks =============================================================================== */

/* -- run an op ------------------------------------------------------------------------------- >>callback
 * RunOp */

typedef struct tp__run_op {
    tp_node *op;
    tp_node *(*fn)(tp_graph *g, void *user);
    void *user;
    const char *op_name;
    bool run_before, run_as_trigger, run_step, verbose;
} tp__run_op;

static tp_status tp__run_op_setup_graph(tp_callback *cb)
{
    tp__run_op *o = (tp__run_op *)cb->user;
    if (o->fn) o->op = o->fn(cb->train->graph, o->user);
    else if (o->op_name && !(o->op = tp_callback_find(cb, o->op_name))) return TP_ERR_NAME;
    return o->op ? TP_OK : tp_fail(TP_ERR_ARG, "%s: there is no op to run: give .op, .fn or .op_name", cb->name);
}

static tp_status tp__run_op_now(tp_callback *cb)
{
    const tp__run_op *o = (const tp__run_op *)cb->user;
    if (o->verbose) tp_log(TP_LOG_INFO, "Running Op %s ...", tp_node_name(o->op));
    return tp_session_run(cb->train->session, NULL, 0, &o->op, 1, NULL);
}

static tp_status tp__run_op_before_train(tp_callback *cb)
{
    return ((const tp__run_op *)cb->user)->run_before && !cb->resumed ? tp__run_op_now(cb) : TP_OK;
}
static tp_status tp__run_op_trigger(tp_callback *cb)
{
    return ((const tp__run_op *)cb->user)->run_as_trigger ? tp__run_op_now(cb) : TP_OK;
}
static tp_status tp__run_op_before_run(tp_callback *cb, tp_run_request *r)
{
    const tp__run_op *o = (const tp__run_op *)cb->user;
    if (!o->run_step) return TP_OK;
    if (o->verbose) tp_log(TP_LOG_INFO, "Running Op %s ...", tp_node_name(o->op));
    return tp__request_all(r, &o->op, 1);
}

TP_DEF tp_callback *tp_cb_run_op_(const tp_cb_run_op_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    if (!d->op && !d->fn && !d->op_name)
        return tp_callback_fail(&d->at_, TP_ERR_ARG, "RunOp: give .op, .fn or .op_name");
    tp_callback *cb = tp_callback_new("RunOp", sizeof(tp__run_op));
    if (!cb) return NULL;
    tp__run_op *o = (tp__run_op *)cb->user;
    o->op = d->op;
    o->fn = d->fn;
    o->user = d->user;
    o->run_before = d->run_before != TP_NO;
    o->run_as_trigger = d->run_as_trigger != TP_NO;
    o->run_step = d->run_step == TP_YES;
    o->verbose = d->verbose == TP_YES;
    cb->chief_only = false;
    cb->setup_graph = tp__run_op_setup_graph;
    cb->before_train = tp__run_op_before_train;
    cb->trigger = tp__run_op_trigger;
    cb->before_run = tp__run_op_before_run;
    if (d->op_name && !(o->op_name = tp_arena_strdup(&cb->mem_, d->op_name))) {
        tp__callback_delete(cb);
        return NULL;
    }
    return cb;
}

/* -- the ops of a collection, with every step --------------------------- >>callback RunUpdateOps,
 * MovingAverageSummary */

typedef struct tp__collection_op {
    const char *key;
    tp_node *group;    /* NULL: the collection is empty */
    tp_node *train_op; /* if not NULL, the updates run with this op, not with each step */
    const char *with_name;
} tp__collection_op;

static tp_status tp__collection_with_op(tp_callback *cb, tp_node *const *ops, int n)
{
    const tp__collection_op *c = (const tp__collection_op *)cb->user;
    tp_graph *g = cb->train->graph;
    tp_node *with = c->train_op ? c->train_op : tp_callback_find(cb, c->with_name);
    if (!with) return TP_ERR_NAME;
    if (tp_is_poison(with) || tp_node_graph(with) != g)
        return tp_fail(TP_ERR_ARG, "%s: the train_op is no op of this graph", cb->name);
    for (int i = 0; i < n; i++) tp__add_control(with->op, ops[i]->op);
    tp_log(TP_LOG_INFO, "%s: %d operations of the collection '%s' will be run together with '%s'.", cb->name, n, c->key,
           tp_node_name(with));
    return tp_graph_status(g) == TP_OK ? TP_OK : tp_fail(tp_graph_status(g), "%s", tp_graph_error(g));
}

static tp_status tp__collection_setup_graph(tp_callback *cb)
{
    tp__collection_op *c = (tp__collection_op *)cb->user;
    int n = 0;
    tp_node *const *ops = tp_collection(cb->train->graph, c->key, &n);
    if (c->train_op || c->with_name) return tp__collection_with_op(cb, ops, n);
    if (!n) return TP_OK;
    tp_log(TP_LOG_INFO, "%s: %d operations of the collection '%s' will be run with every step.", cb->name, n, c->key);
    c->group = tp_group(cb->train->graph, ops, n, NULL);
    return TP_OK;
}

static tp_status tp__collection_before_run(tp_callback *cb, tp_run_request *r)
{
    const tp__collection_op *c = (const tp__collection_op *)cb->user;
    return c->group ? tp__request_all(r, &c->group, 1) : TP_OK;
}

static tp_callback *tp__collection_op_new(const char *name, const char *key, const char *otherwise, bool chief_only)
{
    tp_callback *cb = tp_callback_new(name, sizeof(tp__collection_op));
    if (!cb || !(((tp__collection_op *)cb->user)->key = tp__arena_copy(&cb->mem_, key, otherwise))) {
        tp__callback_delete(cb);
        return NULL;
    }
    cb->chief_only = chief_only;
    cb->setup_graph = tp__collection_setup_graph;
    cb->before_run = tp__collection_before_run;
    return cb;
}

TP_DEF tp_callback *tp_cb_run_update_ops_(const tp_cb_run_update_ops_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    return tp__collection_op_new("RunUpdateOps", d->collection, TP_KEY_UPDATE_OPS, false);
}

TP_DEF tp_callback *tp_cb_moving_average_summary_(const tp_cb_moving_average_summary_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    if (d->train_op && d->train_op_name)
        return tp_callback_fail(&d->at_, TP_ERR_ARG,
                                "MovingAverageSummary: give .train_op or .train_op_name, not both");
    tp_callback *cb = tp__collection_op_new("MovingAverageSummary", d->collection, TP_KEY_MOVING_SUMMARY_OPS, true);
    tp__collection_op *c = cb ? (tp__collection_op *)cb->user : NULL;
    if (c) c->train_op = d->train_op;
    if (c && d->train_op_name && !(c->with_name = tp_arena_strdup(&cb->mem_, d->train_op_name))) {
        tp__callback_delete(cb);
        return NULL;
    }
    return cb;
}

/* -- summaries to the monitors ----------------------------------------------------------- >>callback
 * MergeAllSummaries */

typedef struct tp__merge {
    const char *key;
    int64_t period;
    bool run_alone;
    bool requested; /* the current run fetches the summaries */
    tp_node **node;
    tp_summary_value *value;
    const tp_tensor **out;
    int n;
} tp__merge;

/* Collects the summaries here and not in setup_graph, because other callbacks may add some in setup_graph. */
static tp_status tp__merge_before_train(tp_callback *cb)
{
    tp__merge *m = (tp__merge *)cb->user;
    int n = 0;
    tp_node *const *nodes = tp_collection(cb->train->graph, m->key, &n);
    m->node = (tp_node **)tp_arena_alloc(&cb->mem_, ((size_t)n + 1) * sizeof *m->node);
    m->value = (tp_summary_value *)tp_arena_alloc(&cb->mem_, ((size_t)n + 1) * sizeof *m->value);
    m->out = (const tp_tensor **)tp_arena_alloc(&cb->mem_, ((size_t)n + 1) * sizeof *m->out);
    if (!m->node || !m->value || !m->out) return TP_ERR_NOMEM;
    m->n = 0;
    for (int i = 0; i < n; i++)
        if (tp_summary_info(nodes[i])) m->node[m->n++] = nodes[i];
    return TP_OK;
}

static tp_status tp__merge_put(tp_callback *cb, const tp_tensor *const *values)
{
    tp__merge *m = (tp__merge *)cb->user;
    tp_summary s;
    for (int i = 0; i < m->n; i++) {
        const tp_summary_attrs *a = tp_summary_info(m->node[i]);
        tp_summary_value *v = &m->value[i];
        memset(v, 0, sizeof *v);
        v->tag = a->tag;
        v->kind = a->kind;
        v->tensor = values[i];
        if (a->kind == TP_SUMMARY_SCALAR && tp_tensor_size(values[i]) > 0) v->scalar = tp_tensor_get(values[i], 0);
    }
    s.value = m->value;
    s.n = m->n;
    return tp_monitors_put_summary(cb->train->monitors, &s);
}

static tp_status tp__merge_alone(tp_callback *cb)
{
    tp__merge *m = (tp__merge *)cb->user;
    if (!m->n) return TP_OK;
    const tp_status st = tp_session_run(cb->train->session, NULL, 0, m->node, m->n, m->out);
    return st == TP_OK ? tp__merge_put(cb, m->out) : st;
}

static tp_status tp__merge_before_run(tp_callback *cb, tp_run_request *r)
{
    tp__merge *m = (tp__merge *)cb->user;
    const tp_train_state *t = cb->train;
    m->requested = m->n && !m->run_alone &&
                   (t->local_step == t->steps_per_epoch - 1 || (m->period && (t->local_step + 1) % m->period == 0));
    return m->requested ? tp__request_all(r, m->node, m->n) : TP_OK;
}

static tp_status tp__merge_after_run(tp_callback *cb, const tp_run_values *v)
{
    return ((const tp__merge *)cb->user)->requested ? tp__merge_put(cb, v->value) : TP_OK;
}

static tp_status tp__merge_trigger_step(tp_callback *cb)
{
    const tp__merge *m = (const tp__merge *)cb->user;
    return m->run_alone && m->period && (cb->train->local_step + 1) % m->period == 0 ? tp__merge_alone(cb) : TP_OK;
}

static tp_status tp__merge_trigger(tp_callback *cb)
{
    return ((const tp__merge *)cb->user)->run_alone ? tp__merge_alone(cb) : TP_OK;
}

TP_DEF tp_callback *tp_cb_merge_all_summaries_(const tp_cb_merge_all_summaries_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    if (d->period < 0)
        return tp_callback_fail(&d->at_, TP_ERR_ARG, "MergeAllSummaries: .period is %lld", (long long)d->period);
    tp_callback *cb = tp_callback_new("MergeAllSummaries", sizeof(tp__merge));
    tp__merge *m = cb ? (tp__merge *)cb->user : NULL;
    if (!m || !(m->key = tp__arena_copy(&cb->mem_, d->key, TP_KEY_SUMMARIES))) {
        tp__callback_delete(cb);
        return NULL;
    }
    m->period = d->period;
    m->run_alone = d->run_alone == TP_YES;
    cb->before_train = tp__merge_before_train;
    cb->before_run = tp__merge_before_run;
    cb->after_run = tp__merge_after_run;
    cb->trigger_step = tp__merge_trigger_step;
    cb->trigger = tp__merge_trigger;
    return cb;
}

/* -- tensors of every step ------------------------------ >>callback ProcessTensors, DumpTensors,
 * TensorPrinter, SMA */

typedef struct tp__fetcher {
    const char *const *names;
    int n;
    tp_node **node;
    tp_status (*fn)(tp_callback *cb, const tp_tensor *const *values, int n, void *user);
    void *user;
    int window; /* number of steps of a moving average; only tp_cb_simple_moving_average uses it */
    double *ring;
    int64_t seen;
} tp__fetcher;

static tp_status tp__fetcher_setup_graph(tp_callback *cb)
{
    tp__fetcher *f = (tp__fetcher *)cb->user;
    return tp__find_nodes(cb, f->names, f->n, &f->node);
}

static tp_status tp__fetcher_before_run(tp_callback *cb, tp_run_request *r)
{
    const tp__fetcher *f = (const tp__fetcher *)cb->user;
    return tp__request_all(r, f->node, f->n);
}

static tp_status tp__fetcher_after_run(tp_callback *cb, const tp_run_values *v)
{
    const tp__fetcher *f = (const tp__fetcher *)cb->user;
    return f->fn(cb, v->value, v->n, f->user);
}

static tp_callback *tp__fetcher_new(const tp_at *at, const char *name, const char *const names[TP_MAX_NAMES + 1],
                                    tp_status (*fn)(tp_callback *, const tp_tensor *const *, int, void *), void *user)
{
    char wrong[192];
    const int n = tp__count_names(names);
    if (tp__bad_names(name, "names", names, wrong)) return tp_callback_fail(at, TP_ERR_ARG, "%s", wrong);
    if (n < 1) return tp_callback_fail(at, TP_ERR_ARG, "%s: give at least one tensor name", name);
    if (!fn) return tp_callback_fail(at, TP_ERR_ARG, "%s: .fn is missing", name);
    tp_callback *cb = tp_callback_new(name, sizeof(tp__fetcher));
    tp__fetcher *f = cb ? (tp__fetcher *)cb->user : NULL;
    if (!f || !(f->names = tp__arena_names(&cb->mem_, names, n))) {
        tp__callback_delete(cb);
        return NULL;
    }
    f->n = n;
    f->fn = fn;
    f->user = user;
    cb->setup_graph = tp__fetcher_setup_graph;
    cb->before_run = tp__fetcher_before_run;
    cb->after_run = tp__fetcher_after_run;
    return cb;
}

TP_DEF tp_callback *tp_cb_process_tensors_(const tp_cb_process_tensors_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    return tp__fetcher_new(&d->at_, "ProcessTensors", d->names, d->fn, d->user);
}

static tp_status tp__dump_tensors(tp_callback *cb, const tp_tensor *const *values, int n, void *user)
{
    const tp__fetcher *f = (const tp__fetcher *)cb->user;
    char path[TP__PATH];
    tp_npz_writer *w = NULL;
    (void)user;
    tp_status st = tp__path(path, "%s/DumpTensor-%lld.npz", (const char *)f->user, (long long)cb->train->global_step);
    if (st == TP_OK) st = tp_npz_open(&w, path, false);
    for (int i = 0; i < n && st == TP_OK; i++) st = tp_npz_put(w, f->names[i], values[i]);
    if (st == TP_OK) return tp_npz_close(w);
    if (w) tp_npz_abort(w);
    return st;
}

TP_DEF tp_callback *tp_cb_dump_tensors_(const tp_cb_dump_tensors_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    const char *dir = tp_logger_dir();
    if (!dir)
        return tp_callback_fail(&d->at_, TP_ERR_STATE, "DumpTensors: no logger directory was set: %s",
                                tp__logger_missing());
    tp_callback *cb = tp__fetcher_new(&d->at_, "DumpTensors", d->names, tp__dump_tensors, NULL);
    if (!cb || cb->status_ != TP_OK) return cb;
    if (!(((tp__fetcher *)cb->user)->user = (void *)tp_arena_strdup(&cb->mem_, dir))) {
        tp__callback_delete(cb);
        return NULL;
    }
    return cb;
}

static tp_status tp__print_tensors(tp_callback *cb, const tp_tensor *const *values, int n, void *user)
{
    const tp__fetcher *f = (const tp__fetcher *)cb->user;
    (void)user;
    for (int i = 0; i < n; i++) {
        char text[512];
        const int64_t size = tp_tensor_size(values[i]);
        int index, at = 0;
        const size_t n_name = tp__split_name(f->names[i], &index);
        text[0] = 0;
        for (int64_t k = 0; k < size && k < 16 && at < 480; k++)
            at += tp__format(text + at, sizeof text - (size_t)at, "%s%.6g", k ? " " : "", tp_tensor_get(values[i], k));
        tp_log(TP_LOG_INFO, "%.*s:%d: %s%s", (int)n_name, f->names[i], index, text, size > 16 ? " ..." : "");
    }
    return TP_OK;
}

TP_DEF tp_callback *tp_cb_tensor_printer_(const tp_cb_dump_tensors_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    tp_log(TP_LOG_WARN, "Using tensor_printer: it fetches and prints at every step, which is slow.");
    return tp__fetcher_new(&d->at_, "TensorPrinter", d->names, tp__print_tensors, NULL);
}

static tp_status tp__sma_values(tp_callback *cb, const tp_tensor *const *values, int n, void *user)
{
    tp__fetcher *f = (tp__fetcher *)cb->user;
    (void)user;
    for (int i = 0; i < n; i++) f->ring[(f->seen % f->window) * n + i] = tp_tensor_get(values[i], 0);
    f->seen++;
    return TP_OK;
}

static tp_status tp__sma_save_state(tp_callback *cb, tp_dict *d, const char *prefix)
{
    const tp__fetcher *f = (const tp__fetcher *)cb->user;
    const tp_status st = tp_state_put_i64(d, prefix, "seen", &f->seen, 1);
    const int64_t held = f->seen < f->window ? f->seen : f->window;
    return st == TP_OK ? tp__state_put(d, prefix, "window", TP_F64, f->ring, held * f->n) : st;
}

static tp_status tp__sma_load_state(tp_callback *cb, const tp_dict *d, const char *prefix)
{
    tp__fetcher *f = (tp__fetcher *)cb->user;
    int64_t seen = 0, n = 0;
    const void *ring = tp__state_find(d, prefix, "window", TP_F64, &n);
    if (!tp_state_get_i64(d, prefix, "seen", &seen, 1) || seen < 0) return TP_OK;
    /* the state was saved with another window_size */
    if (n != (seen < f->window ? seen : f->window) * f->n) return TP_OK;
    f->seen = seen;
    if (n) memcpy(f->ring, ring, (size_t)n * sizeof(double));
    return TP_OK;
}

static tp_status tp__sma_setup_graph(tp_callback *cb)
{
    const tp__fetcher *f = (const tp__fetcher *)cb->user;
    const tp_status st = tp__fetcher_setup_graph(cb);
    for (int i = 0; i < f->n && st == TP_OK; i++)
        if (f->node[i]->shape.ndim != 0)
            return tp_fail(TP_ERR_SHAPE, "SimpleMovingAverage: '%s' is not a scalar", f->names[i]);
    return st;
}

static tp_status tp__sma_trigger_step(tp_callback *cb)
{
    const tp__fetcher *f = (const tp__fetcher *)cb->user;
    tp_status st = TP_OK;
    if (cb->train->global_step % f->window != 0) return TP_OK;
    for (int i = 0; i < f->n && st == TP_OK; i++) {
        const int64_t held = f->seen < f->window ? f->seen : f->window;
        double sum = 0;
        char name[600];
        for (int64_t k = 0; k < held; k++) sum += f->ring[k * f->n + i];
        snprintf(name, sizeof name, "%s/SMA", tp_node_name(f->node[i]));
        if (held) st = tp_monitors_put_scalar(cb->train->monitors, name, sum / (double)held);
    }
    return st;
}

TP_DEF tp_callback *tp_cb_simple_moving_average_(const tp_cb_simple_moving_average_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    if (d->window_size < 1)
        return tp_callback_fail(&d->at_, TP_ERR_ARG, "SimpleMovingAverage: .window_size is %d", d->window_size);
    tp_callback *cb = tp__fetcher_new(&d->at_, "SimpleMovingAverage", d->names, tp__sma_values, NULL);
    if (!cb || cb->status_ != TP_OK) return cb;
    tp__fetcher *f = (tp__fetcher *)cb->user;
    f->window = d->window_size;
    size_t n;
    if (!tp_mul_size((size_t)d->window_size, (size_t)f->n * sizeof(double), &n) ||
        !(f->ring = (double *)tp_arena_alloc(&cb->mem_, n))) {
        tp__callback_delete(cb);
        return NULL;
    }
    cb->id = f->names[0];
    cb->save_state = tp__sma_save_state;
    cb->load_state = tp__sma_load_state;
    cb->setup_graph = tp__sma_setup_graph;
    cb->trigger_step = tp__sma_trigger_step;
    return cb;
}

/* -- NaN and infinity ------------------------------------------------------------------------ >>callback
 * CheckNumerics */

typedef struct tp__check {
    bool run_as_trigger, run_step;
    tp_tensor value;
} tp__check;

static tp_status tp__check_now(tp_callback *cb)
{
    tp__check *c = (tp__check *)cb->user;
    int n = 0;
    tp_node *const *vars = tp_collection(cb->train->graph, TP_KEY_TRAINABLE_VARIABLES, &n);
    for (int i = 0; i < n; i++) {
        const tp_variable *v = tp_node_variable(vars[i]);
        if (!v) continue;
        const tp_status st = tp_session_read(cb->train->session, v, &c->value);
        if (st != TP_OK) return st;
        const int64_t size = tp_tensor_size(&c->value);
        for (int64_t k = 0; k < size; k++) {
            const double x = tp_tensor_get(&c->value, k);
            if (!tp__finite(x))
                return tp_fail(TP_ERR_NUMERIC, "CheckNumerics['%s']: element %lld is %g", v->name, (long long)k, x);
        }
    }
    return TP_OK;
}

static tp_status tp__check_trigger(tp_callback *cb)
{
    return ((const tp__check *)cb->user)->run_as_trigger ? tp__check_now(cb) : TP_OK;
}
static tp_status tp__check_trigger_step(tp_callback *cb)
{
    return ((const tp__check *)cb->user)->run_step ? tp__check_now(cb) : TP_OK;
}
static void tp__check_close(tp_callback *cb) { tp_tensor_free(&((tp__check *)cb->user)->value); }

TP_DEF tp_callback *tp_cb_check_numerics_(const tp_cb_check_numerics_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    tp_callback *cb = tp_callback_new("CheckNumerics", sizeof(tp__check));
    if (!cb) return NULL;
    ((tp__check *)cb->user)->run_as_trigger = d->run_as_trigger != TP_NO;
    ((tp__check *)cb->user)->run_step = d->run_step == TP_YES;
    cb->before_train = tp__check_now;
    cb->trigger = tp__check_trigger;
    cb->trigger_step = tp__check_trigger_step;
    cb->close = tp__check_close;
    return cb;
}

/* -- a tensor as images ---------------------------------------------------------------------- >>callback
 * DumpTensorAsImage */

typedef struct tp__dump_image {
    const char *tensor_name, *prefix, *dir;
    tp_status (*map_func)(const tp_tensor *value, tp_tensor *image, void *user);
    void *user;
    double scale;
    tp_node *node;
} tp__dump_image;

/* Returns a copy of the beginning of the files' names, without '/', so that the files lie in the logger's directory. */
static const char *tp__dump_image_prefix(tp_callback *cb, const char *name)
{
    char *copy = tp_arena_strdup(&cb->mem_, name);
    for (char *p = copy; p && *p; p++)
        if (*p == '/') *p = '_';
    return copy;
}

static tp_status tp__dump_image_before_train(tp_callback *cb)
{
    tp__dump_image *d = (tp__dump_image *)cb->user;
    if (!(d->node = tp_callback_find(cb, d->tensor_name))) return TP_ERR_NAME;
    if (!d->prefix) d->prefix = tp__dump_image_prefix(cb, tp_node_name(d->node));
    return d->prefix ? TP_OK : TP_ERR_NOMEM;
}

/* Writes one PNG file for each image. */
static tp_status tp__dump_image_files(const tp__dump_image *d, int64_t epoch, const unsigned char *pixels,
                                      const int64_t nhwc[4])
{
    tp_status st = TP_OK;
    for (int64_t i = 0; i < nhwc[0] && st == TP_OK; i++) {
        char path[TP__PATH], number[32] = "";
        if (i) snprintf(number, sizeof number, "-%lld", (long long)i);
        st = tp__path(path, "%s/%s-ep%03lld%s.png", d->dir, d->prefix, (long long)epoch, number);
        if (st == TP_OK) st = tp__png_file(path, pixels + i * nhwc[1] * nhwc[2] * nhwc[3], nhwc[1], nhwc[2], nhwc[3]);
    }
    return st;
}

static tp_status tp__dump_image_value(tp_callback *cb, const tp_tensor *value)
{
    const tp__dump_image *d = (const tp__dump_image *)cb->user;
    int64_t nhwc[4];
    const tp_status st = tp__image_layout(value, nhwc);
    if (st != TP_OK) return tp_fail(st, "DumpTensorAsImage of '%s': %s", d->tensor_name, tp_last_error());
    const int64_t n = tp_tensor_size(value);
    tp_tensor image;
    memset(&image, 0, sizeof image);
    tp_status done = tp_tensor_resize(&image, TP_U8, value->shape);
    for (int64_t i = 0; i < n && done == TP_OK; i++) {
        const double v = tp_tensor_get(value, i) * d->scale;
        ((unsigned char *)image.data)[i] = (unsigned char)(v >= 255 ? 255 : v > 0 ? v : 0);
    }
    if (done == TP_OK && n > 0)
        done = tp__dump_image_files(d, cb->train->epoch_num, (const unsigned char *)image.data, nhwc);
    if (done == TP_OK && cb->train->monitors) done = tp_monitors_put_image(cb->train->monitors, d->prefix, &image);
    tp_tensor_free(&image);
    return done;
}

static tp_status tp__dump_image_trigger(tp_callback *cb)
{
    const tp__dump_image *d = (const tp__dump_image *)cb->user;
    tp_tensor value, image;
    memset(&value, 0, sizeof value);
    memset(&image, 0, sizeof image);
    tp_status st = tp_session_eval(cb->train->session, d->node, &value);
    if (st == TP_OK && d->map_func) st = d->map_func(&value, &image, d->user);
    if (st == TP_OK) st = tp__dump_image_value(cb, d->map_func ? &image : &value);
    tp_tensor_free(&value);
    tp_tensor_free(&image);
    return st;
}

TP_DEF tp_callback *tp_cb_dump_tensor_as_image_(const tp_cb_dump_tensor_as_image_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    const char *dir = tp_logger_dir();
    if (!d->tensor_name)
        return tp_callback_fail(&d->at_, TP_ERR_ARG, "DumpTensorAsImage: the name of a tensor is missing");
    if (!dir)
        return tp_callback_fail(&d->at_, TP_ERR_STATE, "DumpTensorAsImage: no logger directory was set: %s",
                                tp__logger_missing());
    tp_callback *cb = tp_callback_new("DumpTensorAsImage", sizeof(tp__dump_image));
    tp__dump_image *i = cb ? (tp__dump_image *)cb->user : NULL;
    if (!i || !(i->dir = tp_arena_strdup(&cb->mem_, dir)) ||
        !(i->tensor_name = tp_arena_strdup(&cb->mem_, d->tensor_name)) ||
        (d->prefix && !(i->prefix = tp__dump_image_prefix(cb, d->prefix)))) {
        tp__callback_delete(cb);
        return NULL;
    }
    i->map_func = d->map_func;
    i->user = d->user;
    i->scale = d->scale > 0 && d->scale <= (double)TP_ZERO ? 0 : d->scale > 0 || d->scale < 0 ? d->scale : 255;
    cb->before_train = tp__dump_image_before_train;
    cb->trigger = tp__dump_image_trigger;
    return cb;
}

/* -- processes and threads beside the training ------------------------------------------------ >>callback
 * StartProcOrThread */

/* A thread and the data that it shares with the training. Freed after the thread is joined, or by the thread if it was detached. */
struct tp_stop_flag {
    tp_mutex *mutex;
    tp_cond *changed;
    bool stop, done, left;
    void (*run)(tp_stop_flag *f, void *user);
    void *user;
    tp_thread *thread;
};

TP_DEF bool tp_stop_flag_wait(tp_stop_flag *f, double seconds)
{
    TP__REQUIRE(f && seconds >= 0, true)
    const double until = tp_time() + seconds;
    tp_mutex_lock(f->mutex);
    for (double left = seconds; !f->stop && left > 0; left = until - tp_time())
        tp_cond_wait_for(f->changed, f->mutex, left);
    const bool stop = f->stop;
    tp_mutex_unlock(f->mutex);
    return stop;
}

static void tp__stop_flag_free(tp_stop_flag *f)
{
    if (!f) return;
    tp_mutex_free(f->mutex);
    tp_cond_free(f->changed);
    tp_free(f);
}

static void tp__startable_main(void *user)
{
    tp_stop_flag *f = (tp_stop_flag *)user;
    f->run(f, f->user);
    tp_mutex_lock(f->mutex);
    f->done = true;
    const bool left = f->left;
    tp_cond_broadcast(f->changed);
    tp_mutex_unlock(f->mutex);
    if (left) tp__stop_flag_free(f);
}

static tp_status tp__startable_thread(const tp_startable *s, tp_stop_flag **flag)
{
    tp_stop_flag *f = (tp_stop_flag *)tp_calloc(1, sizeof *f);
    tp_status st = f ? TP_OK : TP_ERR_NOMEM;
    if (f) {
        f->run = s->run;
        f->user = s->user;
        if (!(f->mutex = tp_mutex_new()) || !(f->changed = tp_cond_new())) st = TP_ERR_NOMEM;
    }
    if (st == TP_OK) st = tp_thread_start(&f->thread, tp__startable_main, f);
    if (st == TP_OK) *flag = f;
    else tp__stop_flag_free(f);
    return st;
}

static void tp__startable_stop(tp_stop_flag *f)
{
    tp_mutex_lock(f->mutex);
    f->stop = true;
    tp_cond_broadcast(f->changed);
    tp_mutex_unlock(f->mutex);
}

/* Signals the thread to end and waits at most `seconds`. true: it has ended, *flag is freed and set to NULL. */
static bool tp__startable_join(tp_stop_flag **flag, double seconds)
{
    tp_stop_flag *f = *flag;
    const double until = tp_time() + seconds;
    tp__startable_stop(f);
    tp_mutex_lock(f->mutex);
    for (double left = seconds; !f->done && left > 0; left = until - tp_time())
        tp_cond_wait_for(f->changed, f->mutex, left);
    const bool done = f->done;
    tp_mutex_unlock(f->mutex);
    if (!done) return false;
    tp_thread_join(f->thread);
    tp__stop_flag_free(f);
    *flag = NULL;
    return true;
}

/* Detaches the thread, which then owns and frees f. A thread that has already ended is joined instead. */
static void tp__startable_detach(tp_stop_flag *f)
{
    tp_mutex_lock(f->mutex);
    const bool done = f->done;
    tp_thread *thread = f->thread;
    f->left = !done;
    tp_mutex_unlock(f->mutex);
    if (!done) {
        tp_thread_detach(thread);
        return;
    }
    tp_thread_join(thread);
    tp__stop_flag_free(f);
}

typedef struct tp__starter {
    tp_startable item[TP_MAX_NAMES];
    tp_stop_flag *flag[TP_MAX_NAMES]; /* flags of the running threads */
    long pid[TP_MAX_NAMES];           /* ids of the running processes; 0: none */
    int looks[TP_MAX_NAMES];          /* how often the watch has seen that the thread has ended, 2 at most */
    tp_stop_flag *watch;              /* the thread that looks at the others; NULL: none */
    int n;
    bool stop;
} tp__starter;

static tp_status tp__starter_process(const tp_startable *s, long *pid)
{
#ifdef TP__OS_FORK
    *pid = tp__os_spawn(s->argv);
    if (*pid > 0) return TP_OK;
    *pid = 0;
    return tp_fail(TP_ERR_IO, "StartProcOrThread: cannot start '%s': %s", s->argv[0], tp__os_error());
#else
    *pid = 0;
    return tp_fail(TP_ERR_UNSUPPORTED, "StartProcOrThread: '%s' is a process, which needs POSIX", s->argv[0]);
#endif
}

/* Whether a process has ended. A failure is a warning; goes_on: the log hears of any end. */
static bool tp__starter_ended(long pid, bool goes_on)
{
#ifdef TP__OS_FORK
    char reason[64];
    if (!tp__os_child_ended(pid, false, reason, sizeof reason)) return false;
    const bool failed = strcmp(reason, "ended with status 0") != 0 && strcmp(reason, "is gone") != 0;
    if (failed || goes_on)
        tp_log(failed ? TP_LOG_WARN : TP_LOG_INFO, "StartProcOrThread: process %ld %s before the training ended.", pid,
               reason);
#else
    (void)pid, (void)goes_on;
#endif
    return true;
}

/* Says which processes and threads end while the training goes on. A thread does this, because the steps may all wait for the data
 * of those that have ended. */
TP__UNUSED static void tp__starter_look(tp_stop_flag *f, void *user)
{
    tp__starter *s = (tp__starter *)user;
    while (!tp_stop_flag_wait(f, 1))
        for (int i = 0; i < s->n; i++) {
            if (s->pid[i] && tp__starter_ended(s->pid[i], true)) s->pid[i] = 0;
            if (!s->flag[i] || s->looks[i] == 2) continue;
            tp_mutex_lock(s->flag[i]->mutex);
            const bool done = s->flag[i]->done;
            tp_mutex_unlock(s->flag[i]->mutex);
            /* at the second look: the training may be ending now, and a queue be closed, but then there is no second one */
            if (done && ++s->looks[i] == 2)
                tp_log(TP_LOG_INFO, "StartProcOrThread: the thread of .startable[%d] ended before the training.", i);
        }
}
static void tp__starter_end_watch(tp__starter *s)
{
    if (!s->watch) return;
    tp__startable_stop(s->watch);
    tp_thread_join(s->watch->thread);
    tp__stop_flag_free(s->watch);
    s->watch = NULL;
}

static tp_status tp__starter_before_train(tp_callback *cb)
{
    tp__starter *s = (tp__starter *)cb->user;
    tp_status st = TP_OK;
    tp__starter_end_watch(s);
    for (int i = 0; i < s->n && st == TP_OK; i++) {
        if (s->flag[i] || s->pid[i]) continue;
        if (s->item[i].argv) st = tp__starter_process(&s->item[i], &s->pid[i]);
        else st = tp__startable_thread(&s->item[i], &s->flag[i]);
        if (st == TP_OK) tp_log(TP_LOG_INFO, "Started %s.", s->item[i].argv ? s->item[i].argv[0] : "a thread");
    }
#ifndef TP_NO_THREADS
    tp_startable watch;
    memset(&watch, 0, sizeof watch);
    watch.run = tp__starter_look;
    watch.user = s;
    if (st == TP_OK) st = tp__startable_thread(&watch, &s->watch);
#endif
    return st;
}

/* Tells the process to end, by SIGTERM. Returns false if it has ended already. */
static bool tp__starter_tell(long pid)
{
    if (tp__starter_ended(pid, false)) return false;
#ifdef TP__OS_FORK
    tp__os_terminate(pid, false);
#endif
    return true;
}
/* Waits for the end of a process that was told to end, at most until this time, then kills it. */
static void tp__starter_end(long pid, double until)
{
#ifdef TP__OS_FORK
    char reason[64];
    bool ended = tp__os_child_ended(pid, false, reason, sizeof reason);
    while (!ended && tp_time() < until) {
        tp__os_readable(-1, 0.01);
        ended = tp__os_child_ended(pid, false, reason, sizeof reason);
    }
    if (ended) return;
    tp_log(TP_LOG_ERROR, "StartProcOrThread: process %ld did not end within 5 s after it was told to; it is killed.",
           pid);
    tp__os_terminate(pid, true);
    tp__os_child_ended(pid, true, reason, sizeof reason);
#else
    (void)pid, (void)until;
#endif
}

/* First tells all processes and threads to end, then waits for all of them, 5 s in total. */
static tp_status tp__starter_after_train(tp_callback *cb)
{
    tp__starter *s = (tp__starter *)cb->user;
    tp__starter_end_watch(s);
    if (!s->stop) return TP_OK;
    const double until = tp_time() + 5;
    for (int i = 0; i < s->n; i++) {
        if (s->pid[i] && !tp__starter_tell(s->pid[i])) s->pid[i] = 0;
        if (s->flag[i]) tp__startable_stop(s->flag[i]);
    }
    for (int i = 0; i < s->n; i++) {
        if (s->pid[i]) tp__starter_end(s->pid[i], until);
        s->pid[i] = 0;
        if (!s->flag[i] || tp__startable_join(&s->flag[i], until - tp_time())) continue;
        tp_log(
            TP_LOG_ERROR,
            "StartProcOrThread: the thread of .startable[%d] did not end within 5 s after it was told to. If it waits "
            "in tp_queue_put, close the queue in after_train of a callback listed before this one.",
            i);
        tp__startable_detach(s->flag[i]);
        s->flag[i] = NULL;
    }
    return TP_OK;
}

static void tp__starter_close(tp_callback *cb)
{
    tp__starter *s = (tp__starter *)cb->user;
    tp__starter_after_train(cb); /* after_train was not called if the training failed before it began */
    for (int i = 0; i < s->n; i++)
        if (s->flag[i]) tp__startable_detach(s->flag[i]);
}

TP_DEF tp_callback *tp_cb_start_proc_or_thread_(const tp_cb_start_proc_or_thread_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    int n = 0;
    while (n <= TP_MAX_NAMES && (d->startable[n].argv || d->startable[n].run)) n++;
    if (n < 1 || n > TP_MAX_NAMES)
        return tp_callback_fail(&d->at_, TP_ERR_ARG,
                                "StartProcOrThread: .startable holds 1 to %d processes and threads, not %d",
                                TP_MAX_NAMES, n);
    for (int i = 0; i < n; i++)
        if ((d->startable[i].argv && d->startable[i].run) || (d->startable[i].argv && !d->startable[i].argv[0]))
            return tp_callback_fail(
                &d->at_, TP_ERR_ARG,
                "StartProcOrThread: .startable[%d] needs an .argv with a program, or .run, not both", i);
    tp_callback *cb = tp_callback_new("StartProcOrThread", sizeof(tp__starter));
    if (!cb) return NULL;
    tp__starter *s = (tp__starter *)cb->user;
    for (int i = 0; i < n; i++) s->item[i] = d->startable[i];
    s->n = n;
    s->stop = d->stop_at_last != TP_NO;
    cb->chief_only = false;
    cb->before_train = tp__starter_before_train;
    cb->after_train = tp__starter_after_train;
    cb->close = tp__starter_close;
    return cb;
}

/* -- a time limit for each step --------------------------------------------------------------- >>callback
 * SessionRunTimeout */

static tp_status tp__timeout_before_train(tp_callback *cb)
{
    if (cb->train->hooked_session) tp_hooked_session_set_timeout(cb->train->hooked_session, *(const int64_t *)cb->user);
    return TP_OK;
}

TP_DEF tp_callback *tp_cb_session_run_timeout(int64_t timeout_in_ms)
{
    if (timeout_in_ms < 1)
        return tp_callback_fail(NULL, TP_ERR_ARG, "SessionRunTimeout: a limit of %lld ms makes no sense",
                                (long long)timeout_in_ms);
    tp_callback *cb = tp_callback_new("SessionRunTimeout", sizeof(int64_t));
    if (!cb) return NULL;
    *(int64_t *)cb->user = timeout_in_ms;
    cb->before_train = tp__timeout_before_train;
    return cb;
}

/* ==== >>progress ====================================================================================== */

/* -- a progress bar: " 45%|####5     |90/200[00:12<00:14,7.50it/s], cost=0.31" */

typedef struct tp__bar {
    int64_t total, n, first; /* first: steps that were done before the bar was opened, as in an epoch that is resumed */
    double start, draw_time, interval;
    bool open, tty;
    char postfix[256];
} tp__bar;

static double tp__bar_interval(bool tty)
{
    const char *e = getenv("TENSORPACK_PROGRESS_REFRESH");
    if (e && *e) return tp_parse_double(e, NULL);
    if (tty) return 0.5;
    e = getenv("SLURM_JOB_NUM_NODES");
    if (getenv("SLURM_JOB_ID")) return e && strtol(e, NULL, 10) > 1 ? 60 : 15;
    return getenv("OMPI_COMM_WORLD_SIZE") ? 60 : 180;
}

static void tp__clock_text(double seconds, char *buf, size_t size)
{
    const long s = seconds > 0 && seconds < 1e8 ? (long)seconds : 0;
    if (s >= 3600) snprintf(buf, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else snprintf(buf, size, "%02ld:%02ld", s / 60, s % 60);
}

/* Returns the number of columns of a text: the number of bytes that begin a UTF-8 character. */
static int tp__columns(const char *text)
{
    int n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* Writes one line of text of at most `columns` columns. Parts that do not fit are omitted in this order: the bar, the scalars,
 * the times, the speed. */
static void tp__bar_text(const tp__bar *b, int columns, char *out, size_t size)
{
    char left[16], count[64], times[80], elapsed[32], remaining[32], rate[40];
    const double passed = tp_time() - b->start, part = b->total > 0 ? (double)b->n / (double)b->total : 0;
    const double steps = (double)(b->n - b->first); /* in this time */
    const bool known = b->total > 0;
    tp__clock_text(passed, elapsed, sizeof elapsed);
    if (steps > 0 && known) tp__clock_text(passed / steps * (double)(b->total - b->n), remaining, sizeof remaining);
    else snprintf(remaining, sizeof remaining, "?");
    if (steps > 0 && passed > 0) tp__format(rate, sizeof rate, "%.2fit/s", steps / passed);
    else snprintf(rate, sizeof rate, "?it/s");
    if (known) {
        snprintf(left, sizeof left, "%3d%%", (int)(100 * part));
        snprintf(count, sizeof count, "%lld/%lld", (long long)b->n, (long long)b->total);
        snprintf(times, sizeof times, "%s<%s", elapsed, remaining);
    } else {
        snprintf(left, sizeof left, "    ");
        snprintf(count, sizeof count, "%lld", (long long)b->n);
        snprintf(times, sizeof times, "%s", elapsed);
    }
    char right[480], bar[64] = "";
    snprintf(right, sizeof right, "|%s[%s,%s]%s", count, times, rate, b->postfix);
    int width = columns - tp__columns(left) - tp__columns(right) - 1;
    if (width > 60) width = 60;
    if (width >= 5) {
        const double full = part * width;
        for (int i = 0; i < width; i++) {
            const double fill = full - i; /* the part of this cell of the bar that is filled; 1 or more: all of it */
            bar[i] = fill >= 1 ? '#' : fill >= 0.1 ? (char)('0' + (int)(fill * 10)) : ' ';
        }
        bar[width] = 0;
        tp__format(out, size, "%s|%s%s", left, bar, right);
        return;
    }
    for (int n_omitted = 0; n_omitted < 5;
         n_omitted++) { /* each attempt to fit the text into the line omits one more part */
        if (n_omitted < 4)
            snprintf(out, size, "%s %s%s%s%s%s%s%s", left, count, n_omitted < 3 ? "[" : "", n_omitted < 2 ? times : "",
                     n_omitted < 2 ? "," : "", n_omitted < 3 ? rate : "", n_omitted < 3 ? "]" : "",
                     n_omitted < 1 ? b->postfix : "");
        else snprintf(out, size, "%.*s", columns > 0 ? columns : 0, left);
        if (tp__columns(out) <= columns) return;
    }
}

/* Whether stderr is a terminal that can move its cursor to the beginning of the line. */
static bool tp__bar_can_redraw(void)
{
    const char *term = getenv("TERM");
#ifdef _WIN32
    if (!term) return tp__os_terminal_width() > 0;
#endif
    return tp__os_terminal_width() > 0 && term && *term && strcmp(term, "dumb") != 0;
}

static void tp__bar_draw(tp__bar *b, bool is_last)
{
    char text[640];
    b->draw_time = tp_time();
    if (tp__log_has_sink()) { /* a log function of the program gets only the final line */
        if (!is_last) return;
        tp__bar_text(b, 60, text, sizeof text);
        tp_log(TP_LOG_INFO, "%s", text);
        return;
    }
    /* a file has lines of any length: all scalars are in it, and a bar where 80 columns have room for one */
    tp__bar_text(b, b->tty ? tp__os_terminal_width() - 1 : 80, text, sizeof text);
    if (!b->tty && !strstr(text, b->postfix)) tp__bar_text(b, 480, text, sizeof text);
    tp__log_progress(b->tty ? text : NULL, is_last);
    if (b->tty) return;
    tp__os_signals before;
    tp__os_pipe_begin(&before);
    fprintf(stderr, "%s\n", text);
    fflush(stderr);
    tp__os_pipe_end(&before);
}

static void tp__bar_open(tp__bar *b, int64_t total)
{
    memset(b, 0, sizeof *b);
    b->total = total;
    b->tty = tp__bar_can_redraw();
    b->interval = tp__bar_interval(b->tty);
    b->start = b->draw_time = tp_time();
    b->open = true;
    if (b->tty) tp__bar_draw(b, false);
}

/* Whether it is time to draw the bar again. */
static bool tp__bar_due(const tp__bar *b)
{
    return b->open && b->n != b->total && tp_time() - b->draw_time >= b->interval;
}

static void tp__bar_step(tp__bar *b)
{
    b->n += b->open;
    if (tp__bar_due(b)) tp__bar_draw(b, false);
}

static void tp__bar_close(tp__bar *b)
{
    if (!b->open) return;
    tp__bar_draw(b, true);
    b->open = false;
}

/* -- progress within an epoch ------------------------------------------------------------- >>callback
 * ProgressBar */

typedef struct tp__progress {
    const char *const *names;
    int n;
    tp_node **node;
    int64_t seen[2]; /* epoch_num and local_step of the last run that fetched values */
    bool requested, cost;
    double *value; /* the values that the last run with fetches returned */
    bool has_values;
    tp__bar bar;
} tp__progress;

static void tp__progress_sees(tp__progress *p, const tp_train_state *t)
{
    p->seen[0] = t->epoch_num;
    p->seen[1] = t->local_step;
}

/* Finds the nodes, which callbacks may have made that are listed later. */
static tp_status tp__progress_before_train(tp_callback *cb)
{
    tp__progress *p = (tp__progress *)cb->user;
    tp_status st = TP_OK;
    tp__progress_sees(p, cb->train);
    if (p->n == 0 && p->cost && cb->train->cost) {
        if (!(p->node = (tp_node **)tp_arena_alloc(&cb->mem_, sizeof *p->node))) return TP_ERR_NOMEM;
        p->node[0] = cb->train->cost;
        p->n = 1;
    } else {
        st = tp__find_nodes(cb, p->names, p->n, &p->node);
    }
    for (int i = 0; i < p->n && st == TP_OK; i++)
        if (p->node[i]->shape.ndim != 0)
            return tp_fail(TP_ERR_SHAPE, "ProgressBar can only print scalars, '%s' is not one", p->names[i]);
    if (st == TP_OK && !(p->value = (double *)tp_arena_alloc(&cb->mem_, ((size_t)p->n + 1) * sizeof *p->value)))
        return TP_ERR_NOMEM;
    return st;
}

static tp_status tp__progress_before_epoch(tp_callback *cb)
{
    tp__progress *p = (tp__progress *)cb->user;
    tp__bar_open(&p->bar, cb->train->steps_per_epoch);
    p->bar.first = p->bar.n = cb->train->done_;
    return TP_OK;
}

static tp_status tp__progress_before_run(tp_callback *cb, tp_run_request *r)
{
    tp__progress *p = (tp__progress *)cb->user;
    p->requested = p->value && p->n && (cb->train->epoch_num != p->seen[0] || cb->train->local_step != p->seen[1]);
    tp__progress_sees(p, cb->train);
    return p->requested ? tp__request_all(r, p->node, p->n) : TP_OK;
}

static tp_status tp__progress_after_run(tp_callback *cb, const tp_run_values *v)
{
    tp__progress *p = (tp__progress *)cb->user;
    for (int i = 0; p->requested && i < p->n; i++) p->value[i] = tp_tensor_get(v->value[i], 0);
    p->has_values = p->has_values || p->requested;
    return TP_OK;
}

/* Writes the text after the bar; called only when the bar is drawn. */
static void tp__progress_postfix(tp__progress *p)
{
    int at = 0;
    for (int i = 0; p->has_values && i < p->n && at >= 0 && at < (int)sizeof p->bar.postfix; i++) {
        const char *tag = tp_node_name(p->node[i]), *slash = strrchr(tag, '/');
        at += tp__format(p->bar.postfix + at, sizeof p->bar.postfix - (size_t)at, ", %s=%.3g", slash ? slash + 1 : tag,
                         p->value[i]);
    }
}

static tp_status tp__progress_trigger_step(tp_callback *cb)
{
    tp__progress *p = (tp__progress *)cb->user;
    p->bar.n += p->bar.open;
    if (!tp__bar_due(&p->bar)) return TP_OK;
    tp__progress_postfix(p);
    tp__bar_draw(&p->bar, false);
    return TP_OK;
}

static tp_status tp__progress_end(tp_callback *cb)
{
    tp__progress *p = (tp__progress *)cb->user;
    if (p->bar.open) tp__progress_postfix(p);
    tp__bar_close(&p->bar);
    return TP_OK;
}

TP_DEF tp_callback *tp_cb_progress_bar_(const tp_cb_progress_bar_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    char wrong[192];
    if (tp__bad_names("ProgressBar", "names", d->names, wrong))
        return tp_callback_fail(&d->at_, TP_ERR_ARG, "%s", wrong);
    tp_callback *cb = tp_callback_new("ProgressBar", sizeof(tp__progress));
    tp__progress *p = cb ? (tp__progress *)cb->user : NULL;
    if (!p || !(p->names = tp__arena_names(&cb->mem_, d->names, tp__count_names(d->names)))) {
        tp__callback_delete(cb);
        return NULL;
    }
    p->n = tp__count_names(d->names);
    p->cost = d->cost != TP_NO;
    cb->chief_only = false;
    cb->before_train = tp__progress_before_train;
    cb->before_epoch = tp__progress_before_epoch;
    cb->before_run = tp__progress_before_run;
    cb->after_run = tp__progress_after_run;
    cb->trigger_step = tp__progress_trigger_step;
    cb->after_epoch = tp__progress_end;
    cb->after_train = tp__progress_end;
    return cb;
}

/* -- estimate of the remaining time -------------------------------------------------- >>callback
 * EstimatedTimeLeft */

typedef struct tp__eta {
    int max_epochs, n;
    bool median,
        partly; /* partly: the current epoch was resumed after some of its steps, so that its time is not an epoch's */
    double last;
    double *seconds, *sorted; /* times of the last max_epochs epochs, oldest first */
} tp__eta;

static tp_status tp__eta_before_train(tp_callback *cb)
{
    tp__eta *e = (tp__eta *)cb->user;
    e->last = tp_time();
    e->n = 0;
    e->partly = false;
    return TP_OK;
}

static tp_status tp__eta_before_epoch(tp_callback *cb)
{
    ((tp__eta *)cb->user)->partly = cb->train->done_ > 0;
    return TP_OK;
}

static tp_status tp__eta_trigger_epoch(tp_callback *cb)
{
    tp__eta *e = (tp__eta *)cb->user;
    const double now = tp_time();
    if (e->partly) {
        e->last = now;
        return TP_OK;
    }
    if (e->n == e->max_epochs) memmove(e->seconds, e->seconds + 1, (size_t)--e->n * sizeof(double));
    e->seconds[e->n++] = now - e->last;
    e->last = now;
    double epoch_seconds = 0;
    if (e->median) {
        for (int i = 0; i < e->n; i++) { /* insertion sort of the times */
            int j = i;
            for (; j > 0 && e->sorted[j - 1] > e->seconds[i]; j--) e->sorted[j] = e->sorted[j - 1];
            e->sorted[j] = e->seconds[i];
        }
        epoch_seconds = 0.5 * (e->sorted[(e->n - 1) / 2] + e->sorted[e->n / 2]);
    } else {
        for (int i = 0; i < e->n; i++) epoch_seconds += e->seconds[i] / e->n;
    }
    const double left = epoch_seconds * (double)(cb->train->max_epoch - cb->train->epoch_num);
    char text[TP_TIME_TEXT];
    if (left > 0) tp_log(TP_LOG_INFO, "Estimated Time Left: %s", tp_humanize_time_delta(left, text));
    return TP_OK;
}

TP_DEF tp_callback *tp_cb_estimated_time_left_(const tp_cb_estimated_time_left_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    const int k = d->last_k_epochs ? d->last_k_epochs : 5;
    if (k < 1 || k > 1000000)
        return tp_callback_fail(&d->at_, TP_ERR_ARG, "EstimatedTimeLeft: .last_k_epochs is %d", k);
    tp_callback *cb = tp_callback_new("EstimatedTimeLeft", sizeof(tp__eta));
    tp__eta *e = cb ? (tp__eta *)cb->user : NULL;
    if (e) {
        e->max_epochs = k;
        e->median = d->median != TP_NO;
        e->seconds = (double *)tp_arena_alloc(&cb->mem_, (size_t)k * sizeof(double));
        e->sorted = (double *)tp_arena_alloc(&cb->mem_, (size_t)k * sizeof(double));
    }
    if (!e || !e->seconds || !e->sorted) {
        tp__callback_delete(cb);
        return NULL;
    }
    cb->before_train = tp__eta_before_train;
    cb->before_epoch = tp__eta_before_epoch;
    cb->trigger_epoch = tp__eta_trigger_epoch;
    return cb;
}

/* -- steps per second -------------------------------------------------------------- >>callback
 * ThroughputTracker */

typedef struct tp__throughput {
    double samples, seconds, since; /* since: when the steps of the current epoch began */
    bool running;
    int64_t step;
} tp__throughput;

static tp_status tp__throughput_before_train(tp_callback *cb)
{
    tp__throughput *t = (tp__throughput *)cb->user;
    t->step = cb->train->global_step;
    t->seconds = 0;
    t->running = false;
    return TP_OK;
}

static tp_status tp__throughput_start(tp_callback *cb)
{
    tp__throughput *t = (tp__throughput *)cb->user;
    t->since = tp_time();
    t->running = true;
    return TP_OK;
}

static tp_status tp__throughput_pause(tp_callback *cb)
{
    tp__throughput *t = (tp__throughput *)cb->user;
    if (t->running) t->seconds += tp_time() - t->since;
    t->running = false;
    return TP_OK;
}

static tp_status tp__throughput_trigger(tp_callback *cb)
{
    tp__throughput *t = (tp__throughput *)cb->user;
    const bool running = t->running;
    tp__throughput_pause(cb);
    const double steps = (double)(cb->train->global_step - t->step), seconds = t->seconds;
    t->step = cb->train->global_step;
    t->seconds = 0;
    if (running) tp__throughput_start(cb);
    if (!(seconds > 0)) return TP_OK; /* no step has been timed */
    if (t->samples > 0)
        return tp_monitors_put_scalar(cb->train->monitors, "Throughput (samples/sec)", steps / seconds * t->samples);
    return tp_monitors_put_scalar(cb->train->monitors, "Throughput (steps/sec)", steps / seconds);
}

TP_DEF tp_callback *tp_cb_throughput_tracker_(const tp_cb_throughput_tracker_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    tp_callback *cb = tp_callback_new("ThroughputTracker", sizeof(tp__throughput));
    if (!cb) return NULL;
    ((tp__throughput *)cb->user)->samples = d->samples_per_step;
    cb->chief_only = false;
    cb->before_train = tp__throughput_before_train;
    cb->before_epoch = tp__throughput_start;
    cb->after_epoch = tp__throughput_pause;
    cb->trigger = tp__throughput_trigger;
    return cb;
}

/* -- free memory of the host ---------------------------------------------------------- >>callback
 * HostMemoryTracker */

/* Returns the free memory in GB; negative if the system does not provide it. */
static double tp__free_memory(void) { return tp__os_free_memory() / (1024.0 * 1024.0 * 1024.0); }

static tp_status tp__host_memory_setup_graph(tp_callback *cb)
{
    const double gb = tp__free_memory();
    (void)cb;
    if (gb >= 0) tp_log(TP_LOG_INFO, "[HostMemoryTracker] Free RAM in setup_graph() is %.2f GB", gb);
    else tp_log(TP_LOG_WARN, "[HostMemoryTracker] the system does not tell how much memory is free.");
    return TP_OK;
}

static tp_status tp__host_memory_before_train(tp_callback *cb)
{
    const double gb = tp__free_memory();
    (void)cb;
    if (gb >= 0) tp_log(TP_LOG_INFO, "[HostMemoryTracker] Free RAM in before_train() is %.2f GB", gb);
    return TP_OK;
}

static tp_status tp__host_memory_trigger(tp_callback *cb)
{
    const double gb = tp__free_memory();
    return gb >= 0 ? tp_monitors_put_scalar(cb->train->monitors, "HostFreeMemory (GB)", gb) : TP_OK;
}

TP_DEF tp_callback *tp_cb_host_memory_tracker(void)
{
    tp_callback *cb = tp_callback_new("HostMemoryTracker", 0);
    if (!cb) return NULL;
    cb->chief_only = false;
    cb->setup_graph = tp__host_memory_setup_graph;
    cb->before_train = tp__host_memory_before_train;
    cb->trigger = tp__host_memory_trigger;
    return cb;
}

/* -- a shell command with reported values ----------------------------------------------------- >>callback
 * SendStat */

typedef struct tp__send {
    const char *command;
} tp__send;

/* Formats one value by Python's format syntax for numbers: [<>][+ ][#][0][width][.precision][deEfFgG%]; *spec ends at
 * '}'. */
static bool tp__send_value(tp_buf *text, const char *spec, size_t n, const tp_stat *stat)
{
    char buffer[1400], shortest[TP_NUMBER_TEXT];
    tp__text_out o = {buffer, sizeof buffer, 0};
    tp__spec s = {false, false, false, false, false, 0, -1};
    const char *p = spec, *end = spec + n;
    double value = stat->value;
    if (p < end && (*p == '<' || *p == '>')) s.left = *p++ == '<';
    if (p < end && strchr("+- ", *p)) s.plus = *p == '+', s.space = *p == ' ', p++;
    if (p < end && *p == '#') s.alt = true, p++;
    if (p < end && *p == '0') s.zero = true, p++;
    for (; p < end && *p >= '0' && *p <= '9' && s.width < 100; p++) s.width = s.width * 10 + (*p - '0');
    if (p < end && *p == '.') {
        s.precision = 0;
        for (p++; p < end && *p >= '0' && *p <= '9' && s.precision < 100; p++)
            s.precision = s.precision * 10 + (*p - '0');
    }
    char conversion = p < end ? *p++ : 0;
    if (p != end || (conversion && !strchr("deEfFgG%", conversion)) ||
        (conversion == 'd' && (!stat->is_int || s.precision >= 0)))
        return false;
    if (conversion == 'd' || (!conversion && s.precision < 0 && stat->is_int)) conversion = 'f', s.precision = 0;
    if (!conversion && s.precision < 0) { /* without a format the number is printed as by Python's str() */
        tp_format_double(shortest, value);
        tp__print_word(&o, &s, shortest);
    } else {
        if (conversion == '%') value *= 100, s.width -= s.width > 0;
        tp__print_number(&o, &s, value, conversion == '%' ? 'f' : conversion ? conversion : 'g');
        if (conversion == '%') tp__print_char(&o, '%', 1);
    }
    tp_buf_put(text, buffer, o.n);
    return true;
}

/* Runs a command after replacing the names in it with the values that `get` returns. */
typedef tp_status (*tp__send_get_fn)(void *user, const char *name, tp_stat *stat);
static tp_status tp__send_command(const char *caller, const char *command, tp__send_get_fn get, void *user)
{
    tp_buf text;
    tp_status st = TP_OK;
    memset(&text, 0, sizeof text);
    for (const char *p = command; *p && st == TP_OK;) {
        if ((*p == '{' || *p == '}') && p[1] == *p) { /* {{ stands for a brace */
            tp_buf_put(&text, p, 1);
            p += 2;
            continue;
        }
        const char *end = *p == '{' ? strchr(p, '}') : NULL;
        if (!end) {
            tp_buf_put(&text, p++, 1);
            continue;
        }
        char name[256];
        tp_stat stat;
        const char *colon = (const char *)memchr(p, ':', (size_t)(end - p)), *stop = colon ? colon : end;
        tp__format(name, sizeof name, "%.*s", (int)(stop - p - 1), p + 1);
        st = get(user, name, &stat);
        if (st == TP_OK &&
            !tp__send_value(&text, colon ? colon + 1 : end, colon ? (size_t)(end - colon - 1) : 0, &stat))
            st = tp_fail(TP_ERR_ARG, "%s: '%.*s' is no format of a number, as in {%s:.3f}; {{ stands for a brace",
                         caller, (int)(end - p + 1), p, name);
        p = end + 1;
    }
    if (st == TP_OK && text.failed) st = TP_ERR_NOMEM;
    if (st == TP_OK && text.len) {
        const int rc = tp__os_shell(text.data);
        if (rc == -1 && errno == ECHILD)
            tp_log_once(TP_LOG_WARN, "%s: whether its commands succeed is unknown, because the program ignores SIGCHLD",
                        caller);
        else if (rc != 0) tp_log(TP_LOG_ERROR, "Command '%s' failed with status %d!", text.data, rc);
    }
    tp_buf_free(&text);
    return st;
}

static tp_status tp__send_latest(void *user, const char *name, tp_stat *stat)
{
    return tp_monitors_get_latest((const tp_monitors *)user, name, stat);
}

static tp_status tp__send_trigger(tp_callback *cb)
{
    return tp__send_command("SendStat", ((const tp__send *)cb->user)->command, tp__send_latest, cb->train->monitors);
}

TP_DEF tp_callback *tp_cb_send_stat(const char *command)
{
    if (!command) return tp_callback_fail(NULL, TP_ERR_ARG, "SendStat: the command is NULL");
    tp_callback *cb = tp_callback_new("SendStat", sizeof(tp__send));
    if (!cb || !(((tp__send *)cb->user)->command = tp__arena_copy(&cb->mem_, command, ""))) {
        tp__callback_delete(cb);
        return NULL;
    }
    cb->trigger = tp__send_trigger;
    return cb;
}

/* -- the value of a stat for main() --------------------------------------------------------------- >>callback GetLatest */

typedef struct tp__latest {
    const char *name;
    double *value;
} tp__latest;

static tp_status tp__latest_after_train(tp_callback *cb)
{
    const tp__latest *l = (const tp__latest *)cb->user;
    const tp_monitors *m = cb->train->monitors;
    const tp_stat *stats;
    tp_stat stat;
    const int n = m ? tp_monitors_get_history(m, l->name, &stats) : 0;
    if (n > 0) *l->value = stats[n - 1].value;
    else if (m && cb->train->end_ >= TP_OK && tp_monitors_get_latest(m, l->name, &stat) != TP_OK)
        tp_log(TP_LOG_WARN, "tp_cb_get_latest: %s", tp_last_error());
    return TP_OK;
}

TP_DEF tp_callback *tp_cb_get_latest(const char *name, double *value)
{
    if (!name || !value)
        return tp_callback_fail(NULL, TP_ERR_ARG, "tp_cb_get_latest: a name and an address are needed");
    *value = (double)NAN;
    tp_callback *cb = tp_callback_new("GetLatest", sizeof(tp__latest));
    tp__latest *l = cb ? (tp__latest *)cb->user : NULL;
    if (!l || !(l->name = tp__arena_copy(&cb->mem_, name, ""))) {
        tp__callback_delete(cb);
        return NULL;
    }
    l->value = value;
    cb->after_train = tp__latest_after_train;
    return cb;
}

/* ==== >>profiling ===================================================================================== */

/* -- GPU utilization, measured by NVIDIA's library ------------------------------------------------ >>callback
 * GPUUtilizationTracker */

typedef struct tp__nvml_rates {
    unsigned gpu, memory; /* utilization in percent */
} tp__nvml_rates;

typedef struct tp__gpu_util {
    int device[TP_MAX_NAMES], n;
    bool chosen; /* the caller named the devices */
    double interval;
    const char *library_name;
    void *library;
    void *handle[TP_MAX_NAMES];
    int (*rates)(void *gpu, tp__nvml_rates *rates);
    int (*shutdown)(void);
    tp_stop_flag *flag; /* flag of the thread that samples while steps run */
    double sum[TP_MAX_NAMES];
    int samples, error;
} tp__gpu_util;

/* Reads the numbers of the devices in $CUDA_VISIBLE_DEVICES; false: it is not set, or is no list of numbers. */
static bool tp__gpu_util_visible(tp__gpu_util *u)
{
    const char *p = getenv("CUDA_VISIBLE_DEVICES");
    int n = 0;
    if (!p) return false;
    for (;;) {
        char *end;
        const long v = strtol(p, &end, 10);
        if (end == p || v < 0 || v > 1023 || n == TP_MAX_NAMES) return false;
        u->device[n++] = (int)v;
        p = end + strspn(end, " ");
        if (!*p) break;
        if (*p++ != ',') return false;
    }
    u->n = n;
    return true;
}

/* Opens the library and finds the GPUs. Returns NULL, or the reason why nothing can be measured. */
static const char *tp__gpu_util_open(tp__gpu_util *u)
{
    static const char *const usual[] = {
#ifdef _WIN32
        "nvml.dll",
#else
        "libnvidia-ml.so.1", "libnvidia-ml.so",
#endif
        NULL};
    const char *const given[] = {u->library_name, NULL};
    int (*init)(void) = NULL, (*count)(unsigned *n) = NULL, (*by_index)(unsigned i, void **gpu) = NULL;
    unsigned n_gpus = 0;
    if (!(u->library = tp__os_library(u->library_name ? given : usual)))
        return "NVIDIA's library NVML cannot be loaded";
    if (!tp__os_symbol(u->library, "nvmlInit_v2", &init) ||
        !tp__os_symbol(u->library, "nvmlDeviceGetCount_v2", &count) ||
        !tp__os_symbol(u->library, "nvmlDeviceGetHandleByIndex_v2", &by_index) ||
        !tp__os_symbol(u->library, "nvmlDeviceGetUtilizationRates", &u->rates) ||
        !tp__os_symbol(u->library, "nvmlShutdown", &u->shutdown))
        return u->shutdown = NULL, "the library lacks functions of NVML";
    if (init() != 0) return u->shutdown = NULL, "NVML cannot be initialised: is there a driver?";
    if (count(&n_gpus) != 0 || n_gpus == 0) return "NVML knows no GPU";
    if (!u->chosen && !tp__gpu_util_visible(u)) {
        if (getenv("CUDA_VISIBLE_DEVICES")) return "$CUDA_VISIBLE_DEVICES is no list of numbers: give .devices";
        u->n = n_gpus < TP_MAX_NAMES ? (int)n_gpus : TP_MAX_NAMES;
        for (int i = 0; i < u->n; i++) u->device[i] = i;
        if (n_gpus > TP_MAX_NAMES)
            tp_log(TP_LOG_WARN, "[GPUUtilizationTracker] the first %d of %u GPUs are monitored.", u->n, n_gpus);
        else if (n_gpus > 1) tp_log(TP_LOG_WARN, "[GPUUtilizationTracker] all %u GPUs are monitored.", n_gpus);
    }
    for (int i = 0; i < u->n; i++)
        if ((unsigned)u->device[i] >= n_gpus || by_index((unsigned)u->device[i], &u->handle[i]) != 0)
            return "NVML does not know one of the GPUs that were asked for";
    return NULL;
}

static void tp__gpu_util_shut(tp__gpu_util *u)
{
    if (u->flag) tp__startable_join(&u->flag, 1e9);
    if (u->shutdown) u->shutdown();
    u->shutdown = NULL;
    tp__os_library_close(u->library);
    u->library = NULL;
}

static tp_status tp__gpu_util_before_train(tp_callback *cb)
{
    tp__gpu_util *u = (tp__gpu_util *)cb->user;
    const char *reason = tp__gpu_util_open(u);
    if (!reason) return TP_OK;
    tp_log(TP_LOG_WARN, "GPUUtilizationTracker does nothing: %s.", reason);
    tp__gpu_util_shut(u);
    return TP_OK;
}

/* The function of the thread: takes a sample after each interval, and at the epoch's end. A sample is of the time before it. */
static void tp__gpu_util_run(tp_stop_flag *f, void *user)
{
    tp__gpu_util *u = (tp__gpu_util *)user;
    bool ends;
    do {
        ends = tp_stop_flag_wait(f, u->interval);
        for (int i = 0; i < u->n && !u->error; i++) {
            tp__nvml_rates r;
            memset(&r, 0, sizeof r);
            u->error = u->rates(u->handle[i], &r);
            u->sum[i] += (double)r.gpu;
        }
        u->samples++;
    } while (!u->error && !ends);
}

static tp_status tp__gpu_util_before_epoch(tp_callback *cb)
{
    tp__gpu_util *u = (tp__gpu_util *)cb->user;
    tp_startable s;
    if (!u->library || u->flag) return TP_OK;
    memset(&s, 0, sizeof s);
    memset(u->sum, 0, sizeof u->sum);
    u->samples = 0;
    s.run = tp__gpu_util_run;
    s.user = u;
    return tp__startable_thread(&s, &u->flag);
}

static tp_status tp__gpu_util_after_epoch(tp_callback *cb)
{
    tp__gpu_util *u = (tp__gpu_util *)cb->user;
    if (u->flag) tp__startable_join(&u->flag, 1e9);
    return TP_OK;
}

static tp_status tp__gpu_util_trigger_epoch(tp_callback *cb)
{
    tp__gpu_util *u = (tp__gpu_util *)cb->user;
    tp_status st = TP_OK;
    if (!u->library || u->samples < 1) return TP_OK;
    if (u->error) {
        tp_log(TP_LOG_WARN, "GPUUtilizationTracker does nothing from now on: NVML returned error %d.", u->error);
        tp__gpu_util_shut(u);
        return TP_OK;
    }
    for (int i = 0; i < u->n && st == TP_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "GPUUtil/%d", u->device[i]);
        st = tp_monitors_put_scalar(cb->train->monitors, name, u->sum[i] / (double)u->samples);
    }
    return st;
}

static tp_status tp__gpu_util_after_train(tp_callback *cb)
{
    tp__gpu_util_shut((tp__gpu_util *)cb->user);
    return TP_OK;
}

static void tp__gpu_util_close(tp_callback *cb) { tp__gpu_util_shut((tp__gpu_util *)cb->user); }

/* Returns NULL if the list of devices is good, else a callback that fails with the error sentence. */
static tp_callback *tp__bad_devices(const tp_at *at, const char *caller, const int *devices, int n)
{
    if (n < 0 || n > TP_MAX_NAMES)
        return tp_callback_fail(at, TP_ERR_ARG, "%s: .n_devices is %d, not 0 to %d", caller, n, TP_MAX_NAMES);
    for (int i = 0; i < n; i++)
        if (devices[i] < 0) return tp_callback_fail(at, TP_ERR_ARG, "%s: .devices[%d] is %d", caller, i, devices[i]);
    return NULL;
}

TP_DEF tp_callback *tp_cb_gpu_utilization_tracker_(const tp_cb_gpu_utilization_tracker_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    tp_callback *cb = tp__bad_devices(&d->at_, "GPUUtilizationTracker", d->devices, d->n_devices);
    if (cb) return cb;
    if (!(d->interval >= 0 && d->interval < 1e6))
        return tp_callback_fail(&d->at_, TP_ERR_ARG, "GPUUtilizationTracker: .interval is %g s", d->interval);
    cb = tp_callback_new("GPUUtilizationTracker", sizeof(tp__gpu_util));
    tp__gpu_util *u = cb ? (tp__gpu_util *)cb->user : NULL;
    if (!u || (d->library && !(u->library_name = tp_arena_strdup(&cb->mem_, d->library)))) {
        tp__callback_delete(cb);
        return NULL;
    }
    u->chosen = d->n_devices > 0;
    u->n = d->n_devices;
    for (int i = 0; i < u->n; i++) u->device[i] = d->devices[i];
    u->interval = d->interval > 0 ? d->interval : 1;
    cb->chief_only = false;
    cb->before_train = tp__gpu_util_before_train;
    cb->before_epoch = tp__gpu_util_before_epoch;
    cb->after_epoch = tp__gpu_util_after_epoch;
    cb->trigger_epoch = tp__gpu_util_trigger_epoch;
    cb->after_train = tp__gpu_util_after_train;
    cb->close = tp__gpu_util_close;
    return cb;
}

/* -- memory of the session's devices ----------------------------------------------------------- >>callback
 * GPUMemoryTracker */

typedef struct tp__gpu_memory {
    int device[TP_MAX_NAMES], n;
    bool silent[TP_MAX_NAMES]; /* the device cannot measure its peak */
} tp__gpu_memory;

static tp_status tp__gpu_memory_before_train(tp_callback *cb)
{
    tp__gpu_memory *m = (tp__gpu_memory *)cb->user;
    for (int i = 0; i < m->n; i++) {
        tp_device *d = m->device[i] < cb->train->session->n_device ? cb->train->session->device[m->device[i]] : NULL;
        tp_memory_use memory;
        memset(&memory, 0, sizeof memory);
        if (!d)
            return tp_fail(TP_ERR_ARG, "GPUMemoryTracker: the session has no device %d, but %d", m->device[i],
                           cb->train->session->n_device);
        m->silent[i] = tp_device_memory(d, &memory) != TP_OK || memory.peak < 0;
        if (m->silent[i]) tp_log(TP_LOG_WARN, "GPUMemoryTracker: %s does not tell how much memory it uses.", d->name);
    }
    return TP_OK;
}

static tp_status tp__gpu_memory_trigger(tp_callback *cb)
{
    const tp__gpu_memory *m = (const tp__gpu_memory *)cb->user;
    tp_status st = TP_OK;
    for (int i = 0; i < m->n && st == TP_OK; i++) {
        tp_device *d = cb->train->session->device[m->device[i]];
        tp_memory_use memory;
        char name[80];
        memset(&memory, 0, sizeof memory);
        if (m->silent[i] || tp_device_memory(d, &memory) != TP_OK) continue;
        if (d->host) snprintf(name, sizeof name, "PeakMemory(MB)/%s", d->name);
        else snprintf(name, sizeof name, "PeakMemory(MB)/gpu:%d", m->device[i]);
        st = tp_monitors_put_scalar(cb->train->monitors, name, (double)memory.peak / 1e6);
    }
    return st;
}

TP_DEF tp_callback *tp_cb_gpu_memory_tracker_(const tp_cb_gpu_memory_tracker_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    tp_callback *cb = tp__bad_devices(&d->at_, "GPUMemoryTracker", d->devices, d->n_devices);
    if (cb) return cb;
    if (!(cb = tp_callback_new("GPUMemoryTracker", sizeof(tp__gpu_memory)))) return NULL;
    tp__gpu_memory *m = (tp__gpu_memory *)cb->user;
    m->n = d->n_devices ? d->n_devices : 1;
    for (int i = 0; i < d->n_devices; i++) m->device[i] = d->devices[i];
    cb->chief_only = false;
    cb->before_train = tp__gpu_memory_before_train;
    cb->trigger = tp__gpu_memory_trigger;
    return cb;
}

/* -- traces of steps ---------------------------------------------------------------------------- >>callback
 * GraphProfiler */

typedef struct tp__profiler {
    bool metadata, tracing, event;
    const char *dir;
    tp_trace trace;
} tp__profiler;

/* Appends NodeExecStats{node_name=1 all_start_micros=2 op_start_rel_micros=3 op_end_rel_micros=4 all_end_rel_micros=5
 * timeline_label=8 thread_id=10 all_start_nanos=13 op_start_rel_nanos=14 op_end_rel_nanos=15 all_end_rel_nanos=16} */
static void tp__node_exec_stats(tp_buf *stats, const tp_trace_record *r, int64_t to_wall)
{
    tp_buf b;
    memset(&b, 0, sizeof b);
    const int64_t start = r->start + to_wall, took = r->end - r->start;
    const char *const name = *r->node ? r->node : r->name;
    tp__pb_bytes(&b, 1, name, strlen(name));
    tp__pb_nonzero(&b, 2, start / 1000);
    tp__pb_nonzero(&b, 4, took / 1000);
    tp__pb_nonzero(&b, 5, took / 1000);
    tp__pb_bytes(&b, 8, r->name, strlen(r->name));
    tp__pb_nonzero(&b, 10, r->thread);
    tp__pb_nonzero(&b, 13, start);
    tp__pb_nonzero(&b, 15, took);
    tp__pb_nonzero(&b, 16, took);
    if (b.failed) stats->failed = true;
    else tp__pb_bytes(stats, 2, b.data, b.len);
    tp_buf_free(&b);
}

/* RunMetadata{step_stats=1{dev_stats=1{device=1 node_stats=2}}}: one dev_stats for each device; work of the run outside kernels
 * is listed under "host". Records of workers and idle times are omitted, because the times of the kernels include them. */
static tp_status tp__run_metadata(const tp_trace *t, tp_buf *out)
{
    tp_buf steps, device;
    memset(&steps, 0, sizeof steps);
    memset(&device, 0, sizeof device);
    /* Returns the offset from the trace's clock to the time of day: the trace has just ended, so its last record ended
     * now. */
    const int64_t to_wall = t->n ? (int64_t)(tp__os_wall() * 1e6) * 1000 - t->record[t->n - 1].end : 0;
    for (int64_t i = 0; i < t->n; i++) {
        const char *name = t->record[i].device;
        bool listed = false;
        for (int64_t k = 0; k < i && !listed; k++) listed = strcmp(t->record[k].device, name) == 0;
        if (listed) continue;
        device.len = 0;
        tp__pb_bytes(&device, 1, *name ? name : "host", strlen(*name ? name : "host"));
        for (int64_t k = i; k < t->n; k++)
            if (t->record[k].kind != TP_TRACE_IDLE && t->record[k].kind != TP_TRACE_WORK &&
                strcmp(t->record[k].device, name) == 0)
                tp__node_exec_stats(&device, &t->record[k], to_wall);
        if (device.failed) steps.failed = true;
        else tp__pb_bytes(&steps, 1, device.data, device.len);
    }
    if (steps.failed) out->failed = true;
    else tp__pb_bytes(out, 1, steps.data, steps.len);
    tp_buf_free(&steps);
    tp_buf_free(&device);
    return out->failed ? tp_fail(TP_ERR_NOMEM, "out of memory for the metadata of a run") : TP_OK;
}

static tp_status tp__profiler_before_run(tp_callback *cb, tp_run_request *r)
{
    tp__profiler *p = (tp__profiler *)cb->user;
    p->trace.n = p->trace.n_run = 0;
    return tp_request_trace(r, &p->trace);
}

/* TaggedRunMetadata{tag=1 run_metadata=2} */
static tp_status tp__profiler_event(tp_callback *cb, const tp_buf *metadata)
{
    char tag[64];
    tp_buf b;
    tp_event e;
    memset(&b, 0, sizeof b);
    memset(&e, 0, sizeof e);
    snprintf(tag, sizeof tag, "trace-%lld", (long long)cb->train->global_step);
    tp__pb_bytes(&b, 1, tag, strlen(tag));
    tp__pb_bytes(&b, 2, metadata->data, metadata->len);
    e.field = 8;
    e.data = b.data;
    e.size = b.len;
    const tp_status st = b.failed ? tp_fail(TP_ERR_NOMEM, "out of memory for the event of a traced step")
                                  : tp_monitors_put_event(cb->train->monitors, &e);
    tp_buf_free(&b);
    return st;
}

static tp_status tp__profiler_after_run(tp_callback *cb, const tp_run_values *v)
{
    tp__profiler *p = (tp__profiler *)cb->user;
    const long long step = (long long)cb->train->global_step;
    char path[TP__PATH];
    tp_buf metadata;
    tp_writer *w = NULL;
    tp_status st = TP_OK;
    (void)v;
    memset(&metadata, 0, sizeof metadata);
    if (p->tracing) {
        st = tp__path(path, "%s/chrome-trace-%lld.json", p->dir, step);
        if (st == TP_OK) st = tp_trace_save(&p->trace, path);
    }
    if (st == TP_OK && (p->metadata || p->event)) st = tp__run_metadata(&p->trace, &metadata);
    if (st == TP_OK && p->metadata) {
        st = tp__path(path, "%s/runmetadata-%lld.pb", p->dir, step);
        if (st == TP_OK) st = tp_writer_open(&w, path);
        if (st == TP_OK) st = tp_writer_put(w, metadata.data, metadata.len);
        if (st == TP_OK) st = tp_writer_commit(w);
        else tp_writer_abort(w);
    }
    if (st == TP_OK && p->event) st = tp__profiler_event(cb, &metadata);
    tp_buf_free(&metadata);
    return st;
}

static void tp__profiler_close(tp_callback *cb) { tp_trace_free(&((tp__profiler *)cb->user)->trace); }

TP_DEF tp_callback *tp_cb_graph_profiler_(const tp_cb_graph_profiler_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    const char *dir = tp_logger_dir();
    if (!dir)
        return tp_callback_fail(&d->at_, TP_ERR_STATE, "GraphProfiler: no logger directory was set: %s",
                                tp__logger_missing());
    tp_callback *cb = tp_callback_new("GraphProfiler", sizeof(tp__profiler));
    tp__profiler *p = cb ? (tp__profiler *)cb->user : NULL;
    if (!p || !(p->dir = tp_arena_strdup(&cb->mem_, dir))) {
        tp__callback_delete(cb);
        return NULL;
    }
    p->metadata = d->dump_metadata == TP_YES;
    p->tracing = d->dump_tracing != TP_NO;
    p->event = d->dump_event == TP_YES;
    if (!p->metadata && !p->tracing && !p->event)
        tp_log(TP_LOG_WARN, "GraphProfiler writes nothing: .dump_tracing, .dump_metadata and .dump_event are all off");
    cb->before_run = tp__profiler_before_run;
    cb->after_run = tp__profiler_after_run;
    cb->close = tp__profiler_close;
    return cb;
}

/* ==== >>savers ======================================================================================== */

/* -- checkpoints ----------------------------------------------------------------------------- >>callback
 * ModelSaver */

typedef struct tp__checkpoint {
    int64_t step; /* number of the step in the file name "model-<step>" */
    double time;
    /* what an earlier process decided: 1 never delete, -1 delete when it is no longer among the newest; 0: not
     * decided yet */
    int keep_forever;
} tp__checkpoint;

/* Name of the checkpoint that is written after Ctrl-C. It has no step in its name and does not count for max_to_keep. It is
 * deleted when the next checkpoint is written, so that it does not affect which other checkpoints are kept. */
#define TP__INTERRUPTED      "interrupted"
#define TP__KEY_HYPER_PARAMS "tp/hyper_params" /* a collection: the variables that hyper parameters are */

typedef struct tp__saver {
    int max_to_keep;   /* number of checkpoints to keep; -1: all */
    double keep_every; /* interval in seconds at which a checkpoint is kept for ever */
    double next_keep;
    const char *dir;
    const char *const *collections;
    int n_collections;
    tp_checkpoint_format format;
    tp__checkpoint *kept; /* the kept checkpoints, oldest first */
    int n, cap;
    tp_variable **variable; /* the variables of the collections; NULL: all saved variables */
    int n_variable;
    int64_t last_epoch, last_step; /* epoch and step of the newest checkpoint on the disk; -1: none */
    int written_keep_forever;      /* tp__checkpoint.keep_forever of the checkpoint that training was resumed from */
    bool interrupted;              /* the next checkpoint to write is the one after Ctrl-C */
    /* there is a checkpoint written after Ctrl-C that is older than the newest checkpoint */
    bool leftover;
} tp__saver;

static tp_status tp__saver_setup_graph(tp_callback *cb)
{
    tp__saver *s = (tp__saver *)cb->user;
    if (!s->dir && tp_logger_dir() && !(s->dir = tp_arena_strdup(&cb->mem_, tp_logger_dir()))) return TP_ERR_NOMEM;
    if (!s->dir)
        return tp_fail(TP_ERR_STATE, "ModelSaver: where to? Give .checkpoint_dir, or %s", tp__logger_missing());
    cb->is_resumed_from = tp_logger_dir() && strcmp(s->dir, tp_logger_dir()) == 0;
    return tp_make_dirs(s->dir);
}

/* Adds a variable to those that are saved, unless it is among them. There is room for it. v may be NULL. */
static void tp__saver_take(tp__saver *s, tp_variable *v)
{
    bool taken = !v;
    for (int i = 0; i < s->n_variable; i++) taken = taken || s->variable[i] == v;
    if (!taken) s->variable[s->n_variable++] = v;
}

static tp_status tp__saver_variables(tp_callback *cb)
{
    tp__saver *s = (tp__saver *)cb->user;
    int n_total = 0;
    for (int i = 0; i < s->n_collections; i++) {
        int n = 0;
        tp_collection(cb->train->graph, s->collections[i], &n);
        n_total += n;
    }
    if (!s->n_collections) return TP_OK;
    int n_set = 0;
    tp_node *const *set = tp_collection(cb->train->graph, TP__KEY_HYPER_PARAMS, &n_set);
    s->variable =
        (tp_variable **)tp_arena_alloc(&cb->mem_, ((size_t)n_total + (size_t)n_set + 1) * sizeof *s->variable);
    if (!s->variable) return TP_ERR_NOMEM;
    s->n_variable = 0;
    for (int i = 0; i < s->n_collections; i++) {
        int n = 0;
        tp_node *const *nodes = tp_collection(cb->train->graph, s->collections[i], &n);
        for (int k = 0; k < n; k++) tp__saver_take(s, tp_node_variable(nodes[k]));
    }
    if (s->n_variable == 0)
        return tp_fail(TP_ERR_NAME,
                       "ModelSaver: there is no variable in '%s'%s, so nothing would be saved: see .var_collections",
                       s->collections[0], s->n_collections > 1 ? " and the other collections" : "");
    /* A resume counts on from the step. It does not set again what callbacks have set. */
    tp__saver_take(s, tp__variable_named(cb->train->graph, "global_step"));
    for (int i = 0; i < n_set; i++) tp__saver_take(s, tp_node_variable(set[i]));
    return TP_OK;
}

/* Appends a checkpoint to the list; an existing entry of the same step is removed first. */
static tp_status tp__saver_add(tp__saver *s, int64_t step, double time_saved)
{
    int kept = 0;
    for (int i = 0; i < s->n; i++)
        if (s->kept[i].step != step) s->kept[kept++] = s->kept[i];
    s->n = kept;
    if (s->n == s->cap) {
        const int cap = s->cap ? s->cap * 2 : 16;
        tp__checkpoint *list = (tp__checkpoint *)tp_realloc(s->kept, (size_t)cap * sizeof *list);
        if (!list) return TP_ERR_NOMEM;
        s->kept = list;
        s->cap = cap;
    }
    s->kept[s->n].step = step;
    s->kept[s->n].keep_forever = 0;
    s->kept[s->n++].time = time_saved;
    return TP_OK;
}

/* Writes a checkpoint's path: "<dir>/model-<step>.npz", or with the suffix of another format; step -1:
 * "<dir>/interrupted.npz" */
static tp_status tp__saver_path(const tp__saver *s, int64_t step, int format, char *path)
{
    if (step < 0) return tp__path(path, "%s/" TP__INTERRUPTED "%s", s->dir, tp__checkpoint_ends[format]);
    return tp__path(path, "%s/model-%lld%s", s->dir, (long long)step, tp__checkpoint_ends[format]);
}

/* Whether a checkpoint of this step exists, in any format: an earlier process may have used another format. */
static bool tp__saver_file_exists(const tp__saver *s, int64_t step)
{
    char path[TP__PATH];
    for (int i = 0; i < TP_COUNT(tp__checkpoint_ends); i++)
        if (tp__saver_path(s, step, i, path) == TP_OK && tp_file_exists(path)) return true;
    return false;
}

/* Deletes the checkpoint of a step in all formats except `except` (-1: in all). Also deletes the leftovers of an earlier
 * deletion that was interrupted because the process was killed. */
static void tp__saver_delete(const tp__saver *s, int64_t step, int except)
{
    char path[TP__PATH];
    for (int i = 0; i < TP_COUNT(tp__checkpoint_ends); i++) {
        if (i == except || tp__saver_path(s, step, i, path) != TP_OK) continue;
        if (tp__delete_checkpoint(path) != TP_OK)
            tp_log(TP_LOG_WARN, "The old checkpoint '%s' is not deleted: %s", path, tp_last_error());
    }
}

/* Whether a checkpoint is kept although it is no longer among the newest. Call this function for the oldest checkpoint first.
 * *next_keep is the time of the next checkpoint to keep; it is advanced when one is kept. */
static bool tp__saver_keeps_old(const tp__saver *s, const tp__checkpoint *c, double *next_keep)
{
    if (c->keep_forever) return c->keep_forever > 0;
    if (!(c->time > *next_keep)) return false;
    *next_keep += s->keep_every;
    return true;
}

/* Removes checkpoints beyond max_to_keep from the list, and deletes their files unless they are kept for ever. */
static void tp__saver_prune(tp__saver *s)
{
    if (s->leftover) tp__saver_delete(s, -1, -1);
    s->leftover = false;
    while (s->max_to_keep >= 0 && s->n > s->max_to_keep) {
        const tp__checkpoint oldest = s->kept[0];
        memmove(s->kept, s->kept + 1, (size_t)--s->n * sizeof *s->kept);
        if (!tp__saver_keeps_old(s, &oldest, &s->next_keep)) tp__saver_delete(s, oldest.step, -1);
    }
}

/* Warns if two savers write to one folder: each would delete checkpoints that the other keeps. */
static tp_status tp__warn_shared_folder(tp_callback *cb, void *user)
{
    const tp_callback *me = (const tp_callback *)user;
    const tp__saver *own_saver = (const tp__saver *)me->user;
    if (cb != me && cb->checkpoint == me->checkpoint && strcmp(((const tp__saver *)cb->user)->dir, own_saver->dir) == 0)
        tp_log_once(TP_LOG_WARN,
                    "Two ModelSavers write to '%s', and each deletes old checkpoints of the other: give each a "
                    ".checkpoint_dir of its own.",
                    own_saver->dir);
    return TP_OK;
}

/* Writes the file that lists the checkpoints: the max_to_keep newest ones, then the one written after Ctrl-C. */
static tp_status tp__saver_list(const tp__saver *s)
{
    enum { NAME = 32 };
    const int n = s->max_to_keep >= 0 && s->n > s->max_to_keep ? s->max_to_keep : s->n;
    const char **names = (const char **)tp_malloc(((size_t)n + 1) * sizeof *names);
    char *text = (char *)tp_malloc((size_t)n * NAME + 1);
    tp_status st = names && text ? TP_OK : TP_ERR_NOMEM;
    for (int i = 0; i < n && st == TP_OK; i++) {
        snprintf(text + i * NAME, NAME, "model-%lld", (long long)s->kept[s->n - n + i].step);
        names[i] = text + i * NAME;
    }
    if (st == TP_OK && s->interrupted) names[n] = TP__INTERRUPTED;
    if (st == TP_OK) st = tp_checkpoint_state_write(s->dir, names, n + s->interrupted);
    tp_free((void *)names);
    tp_free(text);
    return st;
}

/* After a resume, deletes checkpoints beyond max_to_keep, which may be smaller than before. The file "checkpoint" is written without
 * them first. It still names the checkpoint that was written after Ctrl-C if training was resumed from that one. */
static tp_status tp__saver_prune_resumed(tp__saver *s)
{
    tp_status st = TP_OK;
    if (s->max_to_keep >= 0 && s->n > s->max_to_keep) {
        s->interrupted = !s->leftover && tp__saver_file_exists(s, -1);
        st = tp__saver_list(s);
        s->interrupted = false;
    }
    if (st == TP_OK) tp__saver_prune(s);
    if (st != TP_ERR_IO) return st;
    tp_log(TP_LOG_WARN, "The old checkpoints in '%s' are not deleted: %s", s->dir, tp_last_error());
    return TP_OK;
}

/* After a resume, max_to_keep also counts the checkpoints of earlier processes. The list in a checkpoint does not contain that
 * checkpoint itself, so the files that were to be deleted when it was added may still exist. */
static tp_status tp__saver_before_train(tp_callback *cb)
{
    tp__saver *s = (tp__saver *)cb->user;
    tp_status st = tp__saver_variables(cb);
    tp__visit(cb->train->callbacks, cb->train->n_callbacks, tp__warn_shared_folder, cb);
    if (st != TP_OK || !cb->resumed) return st;
    const int64_t step = cb->train->global_step;
    if (tp__saver_file_exists(s, step)) {
        s->last_step = step;
        s->last_epoch = cb->train->epoch_num;
        st = tp__saver_add(s, step, tp_time());
        if (st == TP_OK) s->kept[s->n - 1].keep_forever = s->written_keep_forever;
        /* "interrupted.npz" exists if the process was killed before that file was deleted */
        s->leftover = tp__saver_file_exists(s, -1);
    }
    return st == TP_OK ? tp__saver_prune_resumed(s) : st;
}

static tp_status tp__saver_save_state(tp_callback *cb, tp_dict *d, const char *prefix)
{
    const tp__saver *s = (const tp__saver *)cb->user;
    const size_t n = (size_t)s->n;
    tp__checkpoint next; /* the checkpoint that is about to be written */
    double next_keep = s->next_keep;
    int64_t *step = (int64_t *)tp_malloc((2 * n + 1) * sizeof *step), *stays;
    if (!step) return TP_ERR_NOMEM;
    stays = step + n;
    memset(&next, 0, sizeof next);
    next.time = tp_time();
    for (size_t i = 0; i <= n; i++) {
        if (i < n) step[i] = s->kept[i].step;
        stays[i] = tp__saver_keeps_old(s, i < n ? &s->kept[i] : &next, &next_keep) ? 1 : -1;
    }
    tp_status st = tp_state_put_i64(d, prefix, "kept", step, s->n);
    if (st == TP_OK) st = tp_state_put_i64(d, prefix, "stays", stays, s->n + 1);
    tp_free(step);
    return st;
}

static tp_status tp__saver_load_state(tp_callback *cb, const tp_dict *d, const char *prefix)
{
    tp__saver *s = (tp__saver *)cb->user;
    int64_t n = 0, m = 0;
    const int64_t *step = (const int64_t *)tp__state_find(d, prefix, "kept", TP_I64, &n);
    const int64_t *keep_forever = (const int64_t *)tp__state_find(d, prefix, "stays", TP_I64, &m);
    tp_status st = TP_OK;
    for (int64_t i = 0; i < n && st == TP_OK; i++) {
        st = tp__saver_add(s, step[i], 0);
        if (st == TP_OK && m == n + 1) s->kept[s->n - 1].keep_forever = keep_forever[i] > 0 ? 1 : -1;
    }
    if (n >= 0 && m == n + 1) s->written_keep_forever = keep_forever[n] > 0 ? 1 : -1;
    return st;
}

/* Writes first the new file, then the list that names it, so that a kill at any moment does no harm. Old files are deleted
 * later, when all savers have finished. */
static tp_status tp__saver_save(tp_callback *cb)
{
    tp__saver *s = (tp__saver *)cb->user;
    const int64_t step = s->interrupted ? -1 : cb->train->global_step;
    char path[TP__PATH];
    tp_status st = tp__saver_path(s, step, (int)s->format, path);
    if (st == TP_OK) st = tp_save_checkpoint(cb->train->session, path, s->variable, s->n_variable);
    if (st == TP_OK && !s->interrupted) st = tp__saver_add(s, step, tp_time());
    /* an earlier process that was killed may have saved this step in another format; only one file may have this name */
    if (st == TP_OK) tp__saver_delete(s, step, (int)s->format);
    if (st == TP_OK) st = tp__saver_list(s);
    if (st != TP_OK) return st;
    s->leftover = !s->interrupted && (s->leftover || tp__saver_file_exists(s, -1));
    tp_log(TP_LOG_INFO, "Model saved to %s.", path);
    return TP_OK;
}

static tp_status tp__saver_checkpoint(tp_callback *cb)
{
    tp__saver *s = (tp__saver *)cb->user;
    const long long step = (long long)cb->train->global_step;
    tp_status st = tp__saver_save(cb);
    /* try once more, because this state of the training cannot be saved later */
    if (st == TP_ERR_IO) st = tp__saver_save(cb);
    s->interrupted = false;
    if (st == TP_OK) {
        s->last_epoch = cb->train->epoch_num;
        s->last_step = cb->train->global_step;
        tp_callback_set_unsaved(cb, NULL);
    }
    if (st != TP_ERR_IO) return st;
    tp_log(TP_LOG_ERROR, "The model was not saved at global_step=%lld: %s. Training goes on.", step, tp_last_error());
    cb->train->save_failed_ = true;
    if (s->last_step >= 0)
        tp_callback_set_unsaved(
            cb, "the last checkpoint in '%s' is of epoch %lld (global_step=%lld). At global_step=%lld %s", s->dir,
            (long long)s->last_epoch, (long long)s->last_step, step, tp_last_error());
    else
        tp_callback_set_unsaved(cb, "this training saved no checkpoint in '%s'. At global_step=%lld %s", s->dir, step,
                                tp_last_error());
    return TP_OK;
}

static tp_status tp__saver_after_checkpoint(tp_callback *cb)
{
    if (!cb->unsaved) tp__saver_prune((tp__saver *)cb->user);
    return TP_OK;
}

static tp_status tp__saver_trigger(tp_callback *cb)
{
    tp_callback_request_checkpoint(cb);
    return TP_OK;
}

static void tp__saver_close(tp_callback *cb) { tp_free(((tp__saver *)cb->user)->kept); }

/* After Ctrl-C, or when the data have ended: requests a checkpoint of the current step, unless it is already saved. */
typedef struct tp__asked_savers {
    bool interrupted; /* by Ctrl-C: the checkpoint has the name of such a one */
    bool any_folder;  /* also ask savers whose folders auto-resume does not read */
    int n;
} tp__asked_savers;

static tp_status tp__ask_saver(tp_callback *cb, void *user)
{
    tp__asked_savers *a = (tp__asked_savers *)user;
    if (cb->checkpoint != tp__saver_checkpoint || !(cb->is_resumed_from || a->any_folder)) return TP_OK;
    tp__saver *s = (tp__saver *)cb->user;
    a->n++;
    if (s->last_step == cb->train->global_step || cb->due_) return TP_OK;
    s->interrupted = a->interrupted;
    tp_callback_request_checkpoint(cb);
    return TP_OK;
}

static TP__UNUSED void tp__ask_savers(tp_train_state *train, bool interrupted)
{
    tp__asked_savers a = {interrupted, false, 0};
    tp__visit(train->callbacks, train->n_callbacks, tp__ask_saver, &a);
    a.any_folder = a.n == 0;
    if (a.any_folder) tp__visit(train->callbacks, train->n_callbacks, tp__ask_saver, &a);
    if (a.n == 0 && interrupted && train->is_chief)
        tp_log(TP_LOG_WARN, "Interrupted: there is no ModelSaver that could save the model.");
}

/* What the ModelSavers have saved. */
typedef struct tp__saved {
    int64_t step; /* of the newest checkpoint, one that was resumed included; -1: none */
    int n;        /* number of savers */
    bool failed;  /* a file could not be written, which is reported elsewhere */
} tp__saved;

static TP__UNUSED tp_status tp__find_saved(tp_callback *cb, void *user)
{
    tp__saved *a = (tp__saved *)user;
    if (cb->checkpoint != tp__saver_checkpoint) return TP_OK;
    const int64_t step = ((const tp__saver *)cb->user)->last_step;
    if (step > a->step) a->step = step;
    a->failed = a->failed || cb->unsaved;
    a->n++;
    return TP_OK;
}

TP_DEF tp_callback *tp_cb_model_saver_(const tp_cb_model_saver_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    if (d->max_to_keep < -1)
        return tp_callback_fail(&d->at_, TP_ERR_ARG,
                                "ModelSaver: .max_to_keep is %d: it must be at least 1, or TP_NONE for all",
                                d->max_to_keep);
    if (!(d->keep_checkpoint_every_n_hours >= 0))
        return tp_callback_fail(&d->at_, TP_ERR_ARG,
                                "ModelSaver: .keep_checkpoint_every_n_hours is %g: it must not be negative",
                                (double)d->keep_checkpoint_every_n_hours);
    char wrong[192];
    if (tp__bad_names("ModelSaver", "var_collections", d->var_collections, wrong))
        return tp_callback_fail(&d->at_, TP_ERR_ARG, "%s", wrong);
    if ((int)d->format < 0 || (int)d->format >= TP_COUNT(tp__checkpoint_ends))
        return tp_callback_fail(&d->at_, TP_ERR_ARG, "ModelSaver: .format is %d, not one of TP_CHECKPOINT_...",
                                (int)d->format);
    tp_callback *cb = tp_callback_new("ModelSaver", sizeof(tp__saver));
    if (!cb) return NULL;
    tp__saver *s = (tp__saver *)cb->user;
    s->format = d->format;
    s->max_to_keep = d->max_to_keep ? d->max_to_keep : 10;
    s->keep_every = 3600.0 * (double)tp__float_option(d->keep_checkpoint_every_n_hours, 0.5f);
    s->next_keep = tp_time() + s->keep_every;
    s->n_collections = tp__count_names(d->var_collections);
    s->collections = tp__arena_names(&cb->mem_, d->var_collections, s->n_collections);
    if (!s->collections || (d->checkpoint_dir && !(s->dir = tp_arena_strdup(&cb->mem_, d->checkpoint_dir)))) {
        tp__callback_delete(cb);
        return NULL;
    }
    cb->setup_graph = tp__saver_setup_graph;
    s->last_step = -1;
    cb->before_train = tp__saver_before_train;
    cb->trigger = tp__saver_trigger;
    cb->checkpoint = tp__saver_checkpoint;
    cb->after_checkpoint = tp__saver_after_checkpoint;
    cb->save_state = tp__saver_save_state;
    cb->load_state = tp__saver_load_state;
    cb->close = tp__saver_close;
    return cb;
}

/* -- the best model ----------------------------------------------------------------- >>callback MinSaver, MaxSaver */

typedef struct tp__score {
    bool is_set;
    double value;
    int64_t step;
} tp__score;

/* Deciding which model is best and copying its file are separate: the checkpoint of an epoch contains the decision, and
 * the file is copied from that checkpoint. After a kill or an error between the two, the copy is made again. */
typedef struct tp__best {
    const char *stat, *dir, *file;
    bool reverse, requested;
    tp__absence absence;
    tp__score best;    /* the best score so far */
    tp__score saved;   /* the score of the model in the file */
    tp__score unsaved; /* a score better than `saved` whose model could not be saved */
} tp__best;

/* Whether two scores have the same step and value: epochs without steps have the same global_step, but may have different values. */
static bool tp__same_score(const tp__score *a, const tp__score *b)
{
    return a->is_set == b->is_set &&
           (!a->is_set || (a->step == b->step && !(a->value < b->value) && !(a->value > b->value)));
}

/* Copies a checkpoint to b->file, with the suffix of its format. */
static tp_status tp__best_copy(const tp__best *b, const char *from)
{
    const size_t n = strlen(b->dir) + strlen(b->file) + 2;
    char *to = (char *)tp_malloc(n);
    if (!to) return TP_ERR_NOMEM;
    snprintf(to, n, "%s/%s", b->dir, b->file);
    const tp_status st = tp__copy_checkpoint(from, to);
    tp_free(to);
    return st;
}

/* Whether the file name says that it is a checkpoint of that step: "...-<step>.npz". */
static bool tp__is_of_step(const char *path, int64_t step)
{
    char end[64];
    for (int i = 0; i < TP_COUNT(tp__checkpoint_ends); i++) {
        snprintf(end, sizeof end, "-%lld%s", (long long)step, tp__checkpoint_ends[i]);
        if (tp__ends_with(path, end)) return true;
    }
    return false;
}

/* Finds the checkpoint of a step: the latest one, or an older one that still exists. TP_ERR_NAME: there is none.
 * *has_list: whether the folder has a list of checkpoints. */
static tp_status tp__best_find(const tp__best *b, int64_t step, char *path, bool *has_list)
{
    char name[TP__PATH];
    *has_list = tp_checkpoint_state_latest(b->dir, name, sizeof name) == TP_OK;
    if (*has_list && tp__checkpoint_path(name, path) == TP_OK && tp__is_of_step(path, step)) return TP_OK;
    const tp_status st = tp__path(name, "%s/model-%lld", b->dir, (long long)step);
    return st == TP_OK ? tp__checkpoint_path(name, path) : st;
}

static tp_status tp__is_saver(tp_callback *cb, void *user)
{
    (void)user;
    return cb->checkpoint ? TP_STOP : TP_OK;
}

static bool tp__better(const tp__best *b, const tp__score *x, const tp__score *y)
{
    return x->is_set && (!y->is_set || (b->reverse ? x->value > y->value : x->value < y->value));
}

/* Records a best model that was not saved; it is reported at the end of the training. */
static void tp__best_unsaved(tp_callback *cb, const tp__score *score, const char *reason)
{
    const tp__best *b = (const tp__best *)cb->user;
    tp_callback_set_unsaved(cb, "the best model (global_step=%lld, %s=%.5g) was not saved in '%s': %s",
                            (long long)score->step, b->stat, score->value, b->dir, reason);
}

/* Makes the file hold the best model. */
static tp_status tp__best_update_file(tp_callback *cb)
{
    tp__best *b = (tp__best *)cb->user;
    const tp_train_state *t = cb->train;
    const long long step = (long long)b->best.step;
    char from[TP__PATH];
    bool any = false;
    if (tp__same_score(&b->best, &b->saved)) return TP_OK;
    tp_status st = tp__best_find(b, b->best.step, from, &any);
    if (st == TP_OK) st = tp__best_copy(b, from);
    if (st == TP_OK) {
        tp_log(TP_LOG_INFO, "Model at global_step=%lld with %s %s=%.5g saved.", step,
               b->reverse ? "maximum" : "minimum", b->stat, b->best.value);
        b->saved = b->best;
        if (!tp__better(b, &b->unsaved, &b->saved)) {
            b->unsaved.is_set = false;
            tp_callback_set_unsaved(cb, NULL);
        }
    } else if (st == TP_ERR_IO) {
        tp_log(TP_LOG_ERROR, "%s: the model was not copied: %s. Training goes on, it is tried again.", cb->name,
               tp_last_error());
        tp__best_unsaved(cb, &b->best, tp_last_error());
    } else if (st == TP_ERR_NAME) { /* the best checkpoint does not exist: go back to the score of the file */
        const tp__score old_best = b->best;
        b->best = b->saved;
        if (t->save_failed_ || cb->unsaved) {
            if (tp__better(b, &old_best, &b->unsaved)) b->unsaved = old_best;
            tp__best_unsaved(cb, &b->unsaved,
                             "its checkpoint could not be written, or not be copied while it was there");
            return TP_OK;
        }
        if (!any && tp__visit(t->callbacks, t->n_callbacks, tp__is_saver, NULL) == TP_OK)
            return tp_fail(TP_ERR_STATE, "%s: cannot find a checkpoint in '%s'. Did you forget to use ModelSaver?",
                           cb->name, b->dir);
        tp_log(TP_LOG_WARN, "%s: there is no checkpoint of global_step=%lld in '%s', where '%s' was best.", cb->name,
               step, b->dir, b->stat);
        tp_log(TP_LOG_WARN,
               "%s: nothing is copied. Let ModelSaver save as often as the statistic is reported, into the same "
               ".checkpoint_dir.",
               cb->name);
    }
    return st == TP_ERR_IO || st == TP_ERR_NAME ? TP_OK : st;
}

/* Compares the newest statistic with the best score, once for each trigger: while the state is saved (saving) or after
 * the checkpoint. A missing statistic must not prevent the checkpoint, so it is reported only after it. */
static tp_status tp__best_decide(tp_callback *cb, bool saving)
{
    tp__best *b = (tp__best *)cb->user;
    tp_stat stat;
    if (!b->requested) return TP_OK;
    memset(&stat, 0, sizeof stat);
    b->requested = tp_monitors_get_latest(cb->train->monitors, b->stat, &stat) != TP_OK;
    if (b->requested && saving) return TP_OK;
    if (b->requested) {
        b->requested = false;
        return tp__stat_missing(cb, b->stat, &b->absence);
    }
    if (tp__is_not_a_number(stat.value)) return TP_OK; /* NaN is never the best */
    tp__score now;
    now.is_set = true;
    now.value = stat.value;
    now.step = stat.step;
    if (tp__better(b, &now, &b->best)) b->best = now;
    return TP_OK;
}

static tp_status tp__best_after_checkpoint(tp_callback *cb)
{
    const tp_status st = tp__best_decide(cb, false);
    return st == TP_OK ? tp__best_update_file(cb) : st;
}

static tp_status tp__best_trigger(tp_callback *cb)
{
    ((tp__best *)cb->user)->requested = true;
    tp_callback_request_checkpoint(cb);
    return TP_OK;
}

static tp_status tp__best_after_train(tp_callback *cb)
{
    return cb->unsaved && cb->train->session ? tp__best_update_file(cb) : TP_OK;
}

/* Warns if two of them write the same file: each would write over the other's model. */
static tp_status tp__warn_shared_file(tp_callback *cb, void *user)
{
    const tp_callback *me = (const tp_callback *)user;
    if (cb == me || cb->after_checkpoint != me->after_checkpoint) return TP_OK;
    const tp__best *a = (const tp__best *)cb->user, *b = (const tp__best *)me->user;
    if (strcmp(a->dir, b->dir) == 0 && strcmp(a->file, b->file) == 0)
        tp_log_once(TP_LOG_WARN, "Two savers of the best model write '%s/%s': give each a .filename of its own.",
                    b->dir, b->file);
    return TP_OK;
}
static tp_status tp__best_before_train(tp_callback *cb)
{
    tp__visit(cb->train->callbacks, cb->train->n_callbacks, tp__warn_shared_file, cb);
    return cb->resumed ? tp__best_update_file(cb) : TP_OK;
}

static tp_status tp__best_save_state(tp_callback *cb, tp_dict *d, const char *prefix)
{
    tp_status st = tp__best_decide(cb, true);
    const tp__best *b = (const tp__best *)cb->user;
    const tp__score *const score[3] = {&b->best, &b->saved, &b->unsaved};
    double value[3];
    int64_t step[6];
    for (int i = 0; i < 3; i++) {
        value[i] = score[i]->is_set ? score[i]->value : 0;
        step[2 * i] = score[i]->is_set;
        step[2 * i + 1] = score[i]->is_set ? score[i]->step : 0;
    }
    if (st == TP_OK) st = tp_state_put_f64(d, prefix, "best", value, 3);
    return st == TP_OK ? tp_state_put_i64(d, prefix, "step", step, 6) : st;
}

static tp_status tp__best_load_state(tp_callback *cb, const tp_dict *d, const char *prefix)
{
    tp__best *b = (tp__best *)cb->user;
    tp__score *const score[3] = {&b->best, &b->saved, &b->unsaved};
    double value[3];
    int64_t step[6];
    char path[TP__PATH];
    if (!tp_state_get_f64(d, prefix, "best", value, 3) || !tp_state_get_i64(d, prefix, "step", step, 6)) return TP_OK;
    for (int i = 0; i < 3; i++) {
        score[i]->is_set = step[2 * i] != 0;
        score[i]->value = value[i];
        score[i]->step = step[2 * i + 1];
    }
    if (b->unsaved.is_set) tp__best_unsaved(cb, &b->unsaved, "its checkpoint could not be written");
    for (int i = 0; b->saved.is_set; i++) { /* the file may have been deleted: look for it with each suffix */
        if (i == TP_COUNT(tp__checkpoint_ends)) {
            b->saved.is_set = false;
            break;
        }
        const tp_status st = tp__path(path, "%s/%s%s", b->dir, b->file, tp__checkpoint_ends[i]);
        if (st != TP_OK) return st;
        if (tp_file_exists(path)) break;
    }
    return TP_OK;
}

/* Warns if a statistic that is better when it is larger is watched for small values. */
static void tp__warn_of_accuracy(const char *callback, const char *stat, bool reverse, const char *remedy)
{
    if (!reverse && strstr(stat, "accuracy"))
        tp_log(TP_LOG_WARN, "%s takes a smaller '%s' for a better one: %s takes a larger one", callback, stat, remedy);
}

static tp_callback *tp__best_new(const tp_cb_min_saver_desc *d, bool reverse)
{
    const char *name = reverse ? "MaxSaver" : "MinSaver",
               *dir = d->checkpoint_dir ? d->checkpoint_dir : tp_logger_dir();
    if (!d->monitor_stat || !*d->monitor_stat)
        return tp_callback_fail(&d->at_, TP_ERR_ARG, "%s: .monitor_stat is missing", name);
    if (!dir)
        return tp_callback_fail(&d->at_, TP_ERR_STATE, "%s: give .checkpoint_dir, or %s", name, tp__logger_missing());
    tp_callback *cb = tp_callback_new(name, sizeof(tp__best));
    if (!cb) return NULL;
    tp__best *b = (tp__best *)cb->user;
    char *file = d->filename ? tp_arena_strdup(&cb->mem_, d->filename)
                             : tp_arena_printf(&cb->mem_, "%s-%s", reverse ? "max" : "min", d->monitor_stat);
    if (file && d->filename && tp__ends_with(file, ".npz")) file[strlen(file) - 4] = 0;
    for (char *p = file; p && !d->filename && *p; p++)
        if (*p == '/') *p = '_';
    b->file = file;
    b->stat = tp_arena_strdup(&cb->mem_, d->monitor_stat);
    b->dir = tp_arena_strdup(&cb->mem_, dir);
    b->reverse = reverse;
    if (!b->file || !b->stat || !b->dir) {
        tp__callback_delete(cb);
        return NULL;
    }
    tp__warn_of_accuracy(name, b->stat, reverse, "tp_cb_max_saver");
    cb->id = b->stat;
    cb->before_train = tp__best_before_train;
    cb->trigger = tp__best_trigger;
    cb->after_checkpoint = tp__best_after_checkpoint;
    cb->after_train = tp__best_after_train;
    cb->save_state = tp__best_save_state;
    cb->load_state = tp__best_load_state;
    return cb;
}

TP_DEF tp_callback *tp_cb_min_saver_(const tp_cb_min_saver_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    return tp__best_new(d, d->reverse == TP_YES);
}
TP_DEF tp_callback *tp_cb_max_saver_(const tp_cb_min_saver_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    return tp__best_new(d, true);
}

/* -- early stopping ---------------------------------------------------------------------- >>callback EarlyStopping */

typedef struct tp__patience {
    const char *stat;
    double threshold, best;
    int patience;
    tp__absence absence;
    int64_t n_without_progress;
    tp__newest newest;
    bool reverse, has_best;
} tp__patience;

static tp_status tp__patience_is_over(tp_callback *cb)
{
    const tp__patience *p = (const tp__patience *)cb->user;
    if (p->n_without_progress < p->patience) return TP_OK;
    return tp_stop(cb->train, "%s was not better than %.6g %lld times (%s is better)", p->stat, p->best,
                   (long long)p->n_without_progress, p->reverse ? "larger" : "smaller");
}

static tp_status tp__patience_trigger(tp_callback *cb)
{
    tp__patience *p = (tp__patience *)cb->user;
    tp_stat stat;
    memset(&stat, 0, sizeof stat);
    if (tp_monitors_get_latest(cb->train->monitors, p->stat, &stat) != TP_OK)
        return tp__stat_missing(cb, p->stat, &p->absence);
    tp__stat_found(cb, p->stat, &stat, &p->absence);
    if (!tp__stat_is_new(cb, p->stat, &stat, &p->newest)) return TP_OK;
    const double gain = p->reverse ? stat.value - p->best : p->best - stat.value;
    const bool number = !tp__is_not_a_number(stat.value);
    if (number && (!p->has_best || tp__is_not_a_number(p->best) || gain > p->threshold)) {
        p->best = stat.value;
        p->n_without_progress = 0;
    } else {
        if (!p->has_best) p->best = stat.value;
        p->n_without_progress++;
    }
    p->has_best = true;
    return tp__patience_is_over(cb);
}

static tp_status tp__patience_before_train(tp_callback *cb)
{
    tp__patience *p = (tp__patience *)cb->user;
    if (!cb->resumed) return TP_OK;
    tp__newest_resume(cb, p->stat, &p->newest);
    return tp__patience_is_over(cb);
}

static tp_status tp__patience_save_state(tp_callback *cb, tp_dict *d, const char *prefix)
{
    const tp__patience *p = (const tp__patience *)cb->user;
    int64_t seen[3];
    seen[0] = p->has_best, seen[1] = p->n_without_progress, seen[2] = tp__newest_step(&p->newest);
    tp_status st = tp_state_put_f64(d, prefix, "best", &p->best, 1);
    if (st == TP_OK) st = tp_state_put_i64(d, prefix, "seen", seen, 3);
    return st == TP_OK ? tp__newest_save(cb, p->stat, &p->newest, d, prefix) : st;
}

static tp_status tp__patience_load_state(tp_callback *cb, const tp_dict *d, const char *prefix)
{
    tp__patience *p = (tp__patience *)cb->user;
    int64_t seen[3];
    double best;
    if (!tp_state_get_f64(d, prefix, "best", &best, 1) || !tp_state_get_i64(d, prefix, "seen", seen, 3)) return TP_OK;
    p->best = best;
    p->has_best = seen[0] != 0, p->n_without_progress = seen[1];
    tp__newest_load(&p->newest, d, prefix, seen[2]);
    return TP_OK;
}

TP_DEF tp_callback *tp_cb_early_stopping_(const tp_cb_early_stopping_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    if (!d->monitor_stat || !*d->monitor_stat)
        return tp_callback_fail(&d->at_, TP_ERR_ARG, "EarlyStopping: .monitor_stat is missing");
    if (d->patience < 0 || d->threshold < 0 || tp__is_not_a_number(d->threshold))
        return tp_callback_fail(&d->at_, TP_ERR_ARG,
                                "EarlyStopping: .patience is %d, .threshold %g: neither is below 0", d->patience,
                                d->threshold);
    tp_callback *cb = tp_callback_new("EarlyStopping", sizeof(tp__patience));
    if (!cb) return NULL;
    tp__patience *p = (tp__patience *)cb->user;
    if (!(p->stat = tp_arena_strdup(&cb->mem_, d->monitor_stat))) {
        tp__callback_delete(cb);
        return NULL;
    }
    p->patience = d->patience ? d->patience : 5;
    p->threshold = d->threshold;
    p->newest.step = -1;
    p->reverse = d->reverse == TP_YES;
    tp__warn_of_accuracy("EarlyStopping", p->stat, p->reverse, ".reverse = TP_YES");
    cb->id = p->stat;
    cb->before_train = tp__patience_before_train;
    cb->trigger = tp__patience_trigger;
    cb->save_state = tp__patience_save_state;
    cb->load_state = tp__patience_load_state;
    return cb;
}

/* ==== >>inference ===================================================================================== */

/* A constant inferencer that constructors return when out of memory, because NULL would end a list of inferencers. */
static tp_inferencer tp__no_inferencer;

TP_DEF tp_inferencer *tp_inferencer_new(const char *name, size_t bytes)
{
    TP__REQUIRE(name, NULL)

    void *user = NULL;
    tp_inferencer *inf = (tp_inferencer *)tp__with_user(sizeof(tp_inferencer), bytes, &user);
    if (!inf) return NULL;
    inf->name = name;
    inf->user = user;
    return inf;
}

TP_DEF tp_status tp_inferencer_set_names(tp_inferencer *inf, const char *const *names, int n)
{
    TP__REQUIRE(inf && (names || n == 0) && n >= 0, TP_ERR_ARG)

    const char *const *copy = tp__arena_names(&inf->mem_, names, n);
    if (!copy) return TP_ERR_NOMEM;
    inf->names = copy;
    inf->n_names = n;
    return TP_OK;
}

TP_DEF tp_inferencer *tp_inferencer_fail(const tp_at *at, tp_status status, const char *fmt, ...)
{
    tp_inferencer *inf = tp_inferencer_new("Failed", 0);
    if (!inf) return &tp__no_inferencer;
    va_list ap;
    va_start(ap, fmt);
    inf->error_ = tp__arena_sentence(&inf->mem_, at, fmt, ap);
    va_end(ap);
    inf->status_ = status;
    return inf;
}

static void tp__inferencer_delete(tp_inferencer *inf)
{
    if (!inf || inf == &tp__no_inferencer) return;
    if (inf->close) inf->close(inf);
    tp_arena_free(&inf->mem_);
    tp_free(inf);
}

TP_DEF void tp_inferencer_free(tp_inferencer *inf)
{
    if (inf && tp__may_free(&inf->owner_, __func__, inf->name)) tp__inferencer_delete(inf);
}

/* -- means of scalars -------------------------------------------------------------------- >>inferencer ScalarStats */

typedef struct tp__scalar_stats {
    const char *prefix;
    double *sum;
    int64_t n;
} tp__scalar_stats;

static tp_status tp__scalars_begin(tp_inferencer *inf)
{
    tp__scalar_stats *s = (tp__scalar_stats *)inf->user;
    for (int i = 0; i < inf->n_names; i++) s->sum[i] = 0;
    s->n = 0;
    return TP_OK;
}

/* Refuses the tensor of name i, which has another shape than a scalar's. */
static tp_status tp__no_scalar(const tp_inferencer *inf, int i, const tp_shape *shape)
{
    char text[TP_SHAPE_TEXT];
    return tp_fail(TP_ERR_SHAPE,
                   "ScalarStats: '%s' has shape %s, only scalars have a mean here: name its tp_mean instead, or for a "
                   "vector of mistakes use tp_inf_classification_error",
                   inf->names[i], tp_shape_text(shape, text));
}

static tp_status tp__scalars_check(const tp_inferencer *inf, tp_node *const *nodes)
{
    tp_status st = TP_OK;
    for (int i = 0; i < inf->n_names && st == TP_OK; i++)
        if (tp_shape_size(&nodes[i]->shape) != 1) st = tp__no_scalar(inf, i, &nodes[i]->shape);
    return st;
}

static tp_status tp__scalars_batch(tp_inferencer *inf, const tp_tensor *const *values, int n)
{
    tp__scalar_stats *s = (tp__scalar_stats *)inf->user;
    for (int i = 0; i < n; i++) {
        if (tp_tensor_size(values[i]) != 1) return tp__no_scalar(inf, i, &values[i]->shape);
        s->sum[i] += tp_tensor_get(values[i], 0);
    }
    s->n++;
    return TP_OK;
}

/* Removes the output index from a tensor's name: "tower/cost:0" becomes "tower/cost". */
static void tp__op_name(const char *name, char *buf, size_t size)
{
    const size_t n = strlen(name);
    const bool tensor = n >= 3 && name[n - 2] == ':';
    snprintf(buf, size, "%.*s", (int)(tensor ? n - 2 : n), name);
}

static tp_status tp__scalars_end(tp_inferencer *inf)
{
    const tp__scalar_stats *s = (const tp__scalar_stats *)inf->user;
    tp_status st = TP_OK;
    for (int i = 0; s->n && i < inf->n_names && st == TP_OK; i++) {
        char op[300], name[600];
        tp__op_name(inf->names[i], op, sizeof op);
        snprintf(name, sizeof name, "%s%s%s", s->prefix, *s->prefix ? "_" : "", op);
        st = tp_monitors_put_scalar(inf->train->monitors, name, s->sum[i] / (double)s->n);
    }
    return st;
}

TP_DEF tp_inferencer *tp_inf_scalar_stats_(const tp_inf_scalar_stats_desc *d)
{
    if (!d) return tp_inferencer_fail(NULL, TP_ERR_ARG, "%s: the descriptor is NULL", __func__);
    char wrong[192];
    const int n = tp__count_names(d->names);
    if (tp__bad_names("ScalarStats", "names", d->names, wrong))
        return tp_inferencer_fail(&d->at_, TP_ERR_ARG, "%s", wrong);
    if (n < 1)
        return tp_inferencer_fail(&d->at_, TP_ERR_ARG,
                                  "ScalarStats: give at least one name, tp_inf_scalar_stats({\"cost\"})");
    tp_inferencer *inf = tp_inferencer_new("ScalarStats", sizeof(tp__scalar_stats));
    if (!inf) return &tp__no_inferencer;
    tp__scalar_stats *s = (tp__scalar_stats *)inf->user;
    s->prefix = tp__arena_copy(&inf->mem_, d->prefix, "validation");
    s->sum = (double *)tp_arena_alloc(&inf->mem_, (size_t)n * sizeof(double));
    if (!s->prefix || !s->sum || tp_inferencer_set_names(inf, d->names, n) != TP_OK) {
        tp__inferencer_delete(inf);
        return &tp__no_inferencer;
    }
    inf->before_inference = tp__scalars_begin;
    inf->on_fetches = tp__scalars_batch;
    inf->check_ = tp__scalars_check;
    inf->after_inference = tp__scalars_end;
    return inf;
}

/* -- errors over all samples ----------------------------------------------------- >>inferencer ClassificationError */

typedef struct tp__class_error {
    const char *name;
    double wrong, n;
} tp__class_error;

static tp_status tp__class_error_begin(tp_inferencer *inf)
{
    tp__class_error *e = (tp__class_error *)inf->user;
    e->wrong = e->n = 0;
    return TP_OK;
}

/* Refuses values below 0 or above 1 of the tensor of name i: logits, say, or numbers of classes. */
static tp_status tp__inf_of_ones(const tp_inferencer *inf, const tp_tensor *t, int i)
{
    const int64_t size = tp_tensor_size(t);
    for (int64_t k = 0; k < size; k += TP__BLOCK) {
        double v[TP__BLOCK];
        const int m = tp__tensor_doubles(t, k, v);
        for (int b = 0; b < m; b++)
            if (v[b] < 0 || v[b] > 1)
                return tp_fail(TP_ERR_ARG, "%s: '%s' has the value %g: its values are 0, 1 or in between", inf->name,
                               inf->names[i], v[b]);
    }
    return TP_OK;
}

static tp_status tp__no_vector(const tp_inferencer *inf, const tp_shape *shape)
{
    char text[TP_SHAPE_TEXT];
    return tp_fail(TP_ERR_SHAPE,
                   "ClassificationError: '%s' has shape %s and is not a vector: name the node that "
                   "tp_sym_prediction_incorrect makes; tp_inf_scalar_stats averages a scalar",
                   inf->names[0], tp_shape_text(shape, text));
}

static tp_status tp__class_error_check(const tp_inferencer *inf, tp_node *const *nodes)
{
    return nodes[0]->shape.ndim == 1 ? TP_OK : tp__no_vector(inf, &nodes[0]->shape);
}

static tp_status tp__class_error_batch(tp_inferencer *inf, const tp_tensor *const *values, int n)
{
    tp__class_error *e = (tp__class_error *)inf->user;
    (void)n;
    if (values[0]->shape.ndim != 1) return tp__no_vector(inf, &values[0]->shape);
    const int64_t size = tp_tensor_size(values[0]);
    const tp_status st = tp__inf_of_ones(inf, values[0], 0);
    if (st != TP_OK) return st;
    for (int64_t i = 0; i < size; i++) e->wrong += tp_tensor_get(values[0], i);
    e->n += (double)size;
    return TP_OK;
}

static tp_status tp__class_error_end(tp_inferencer *inf)
{
    const tp__class_error *e = (const tp__class_error *)inf->user;
    return tp_monitors_put_scalar(inf->train->monitors, e->name, e->n > 0 ? e->wrong / e->n : 0);
}

TP_DEF tp_inferencer *tp_inf_classification_error_(const tp_inf_classification_error_desc *d)
{
    if (!d) return tp_inferencer_fail(NULL, TP_ERR_ARG, "%s: the descriptor is NULL", __func__);
    tp_inferencer *inf = tp_inferencer_new("ClassificationError", sizeof(tp__class_error));
    if (!inf) return &tp__no_inferencer;
    const char *tensor = d->wrong_tensor_name ? d->wrong_tensor_name : "incorrect_vector";
    tp__class_error *e = (tp__class_error *)inf->user;
    e->name = tp__arena_copy(&inf->mem_, d->summary_name, "validation_error");
    if (!e->name || tp_inferencer_set_names(inf, &tensor, 1) != TP_OK) {
        tp__inferencer_delete(inf);
        return &tp__no_inferencer;
    }
    inf->before_inference = tp__class_error_begin;
    inf->on_fetches = tp__class_error_batch;
    inf->check_ = tp__class_error_check;
    inf->after_inference = tp__class_error_end;
    return inf;
}

/* -- precision and recall -------------------------------------------------- >>inferencer BinaryClassificationStats */

typedef struct tp__binary {
    const char *prefix;
    double label, pred, both; /* numbers of ones: in the labels, in the predictions, in both at the same place */
} tp__binary;

static tp_status tp__binary_begin(tp_inferencer *inf)
{
    tp__binary *b = (tp__binary *)inf->user;
    b->label = b->pred = b->both = 0;
    return TP_OK;
}

static tp_status tp__binary_alike(const tp_inferencer *inf, const tp_shape *pred, const tp_shape *label)
{
    char p[TP_SHAPE_TEXT], l[TP_SHAPE_TEXT];
    if (tp_shape_compatible(pred, label)) return TP_OK;
    return tp_fail(TP_ERR_SHAPE,
                   "BinaryClassificationStats: '%s' has shape %s, '%s' has %s: each prediction needs a label, so the "
                   "shapes must be equal; tp_squeeze takes away a dimension of 1",
                   inf->names[0], tp_shape_text(pred, p), inf->names[1], tp_shape_text(label, l));
}

static tp_status tp__binary_check(const tp_inferencer *inf, tp_node *const *nodes)
{
    return tp__binary_alike(inf, &nodes[0]->shape, &nodes[1]->shape);
}

static tp_status tp__binary_batch(tp_inferencer *inf, const tp_tensor *const *values, int n)
{
    tp__binary *b = (tp__binary *)inf->user;
    (void)n;
    tp_status st = tp__binary_alike(inf, &values[0]->shape, &values[1]->shape);
    if (st == TP_OK) st = tp__inf_of_ones(inf, values[0], 0);
    if (st == TP_OK) st = tp__inf_of_ones(inf, values[1], 1);
    if (st != TP_OK) return st;
    const int64_t size = tp_tensor_size(values[0]);
    for (int64_t i = 0; i < size; i += TP__BLOCK) {
        double pred[TP__BLOCK], label[TP__BLOCK];
        const int m = tp__tensor_doubles(values[0], i, pred);
        tp__tensor_doubles(values[1], i, label);
        for (int k = 0; k < m; k++) {
            const bool is_pred = pred[k] > 0.5, is_label = label[k] > 0.5;
            b->pred += is_pred;
            b->label += is_label;
            b->both += is_pred && is_label;
        }
    }
    return TP_OK;
}

static tp_status tp__binary_end(tp_inferencer *inf)
{
    const tp__binary *b = (const tp__binary *)inf->user;
    char name[300];
    snprintf(name, sizeof name, "%s_precision", b->prefix);
    const tp_status st = tp_monitors_put_scalar(inf->train->monitors, name, b->pred > 0 ? b->both / b->pred : 0);
    snprintf(name, sizeof name, "%s_recall", b->prefix);
    return st == TP_OK ? tp_monitors_put_scalar(inf->train->monitors, name, b->label > 0 ? b->both / b->label : 0) : st;
}

TP_DEF tp_inferencer *tp_inf_binary_classification_(const tp_inf_binary_classification_desc *d)
{
    if (!d) return tp_inferencer_fail(NULL, TP_ERR_ARG, "%s: the descriptor is NULL", __func__);
    if (!d->pred_tensor_name || !d->label_tensor_name)
        return tp_inferencer_fail(&d->at_, TP_ERR_ARG,
                                  "BinaryClassificationStats: give the names of prediction and label");
    tp_inferencer *inf = tp_inferencer_new("BinaryClassificationStats", sizeof(tp__binary));
    if (!inf) return &tp__no_inferencer;
    const char *names[2] = {d->pred_tensor_name, d->label_tensor_name};
    if (!(((tp__binary *)inf->user)->prefix = tp__arena_copy(&inf->mem_, d->prefix, "val")) ||
        tp_inferencer_set_names(inf, names, 2) != TP_OK) {
        tp__inferencer_delete(inf);
        return &tp__no_inferencer;
    }
    inf->before_inference = tp__binary_begin;
    inf->on_fetches = tp__binary_batch;
    inf->check_ = tp__binary_check;
    inf->after_inference = tp__binary_end;
    return inf;
}

/* -- a pass over a data set ------------------------------------------------------------ >>callback InferenceRunner */

/* The hook that fetches one inferencer's tensors in each run. */
typedef struct tp__inf_hook {
    tp_hook hook;
    tp_inferencer *inf;
    tp_node **node; /* the nodes to fetch: n_names of the first tower, then n_names of the next */
    int n_tower;    /* number of towers that take part in this run */
} tp__inf_hook;

typedef struct tp__runner {
    const char *name; /* name of the runner, for error sentences */
    tp_input_source *input;
    bool fed; /* the input was made from a dataflow */
    tp__inf_hook *inf;
    int n_inf;
    tp_hook **extra;
    int n_extra;
    /* the program's function that builds the graph; NULL: build towers */
    tp_status (*build)(tp_callback *cb, tp_input_source *input, void *user);
    tp_node *(*find)(tp_callback *cb, const char *name, void *user);
    void *user;
    const char *tower_name; /* prefix of the towers' names; with one tower, its name */
    const char **tower;     /* names of the n_tower towers */
    int *device, n_tower;   /* device of each tower, number of towers */
    tp_tower_func *tower_func;
    tp_hooked_session *session;
    tp__bar bar;
} tp__runner;

static tp_status tp__inf_before_run(tp_hook *h, tp_run_request *r)
{
    tp__inf_hook *i = (tp__inf_hook *)h->user;
    const int n = tp_request_datapoints(r);
    if (n > 0 && n < i->n_tower) i->n_tower = n;
    return tp__request_all(r, i->node, i->n_tower * i->inf->n_names);
}

static tp_status tp__inf_after_run(tp_hook *h, const tp_run_values *v)
{
    const tp__inf_hook *i = (const tp__inf_hook *)h->user;
    const int n_names = i->inf->n_names;
    tp_status st = TP_OK;
    for (int t = 0; t < i->n_tower && i->inf->on_fetches && st == TP_OK; t++)
        st = i->inf->on_fetches(i->inf, v->value + t * n_names, n_names);
    return st;
}

/* Enters a tower for inference on a device. It uses the variables of the training tower on that device if that tower
 * has variables of its own, else those of the first tower. Returns whether it was entered; call tp__predict_tower_leave
 * in either case. */
static bool tp__predict_tower_enter(const tp_tower_func *f, const char *name, int device)
{
    tp_graph *g = f->graph;
    tp_variable_scope_desc reuse;
    tp_tower_desc tower;
    const tp_tower_handles trained = tp_tower_func_towers(f, TP_TOWERS_TRAINING);
    const tp_tower_handle *h;
    memset(&reuse, 0, sizeof reuse);
    memset(&tower, 0, sizeof tower);
    reuse.reuse = TP_REUSE_YES; /* inference uses the variables that training created */
    tower.name = name;
    for (int i = 0; (h = tp_tower_handles_at(trained, i)) != NULL; i++)
        if (h->ctx.device == device) {
            tower.vs_name = h->ctx.vs_name;
            break;
        }
    tp_name_scope_push(g, "");
    tp_variable_scope_push(g, &reuse);
    tp_device_enter(g, device);
    return tp_tower_enter(g, &tower) != NULL;
}

static void tp__predict_tower_leave(const tp_tower_func *f)
{
    tp_graph *g = f->graph;
    if (g->in_tower) tp_tower_leave(g);
    tp_device_leave(g);
    tp_variable_scope_pop(g);
    tp_name_scope_pop(g);
}

/* The tensors of a source for the tower that is being built. A source of the program's own may give others than the signature says. */
static tp_status tp__input_tensors(tp_input_source *s, tp_node **in)
{
    for (int i = 0; i < s->n_spec; i++) in[i] = NULL;
    const tp_status st = tp_input_get_tensors(s, in);
    for (int i = 0; i < s->n_spec && st == TP_OK; i++) {
        const tp_spec *x = &s->spec[i];
        char given[TP_SHAPE_TEXT], wanted[TP_SHAPE_TEXT];
        if (in[i] && tp_is_poison(in[i])) continue; /* the graph has the error */
        if (!in[i] || in[i]->op->graph != s->graph)
            return tp_fail(TP_ERR_ARG, "%s: its get_input_tensors gives %s for '%s'", s->name,
                           in[i] ? "a tensor of another graph" : "no tensor", x->name);
        if (in[i]->dtype != x->dtype || !tp_shape_compatible(&in[i]->shape, &x->shape))
            return tp_fail(in[i]->dtype != x->dtype ? TP_ERR_DTYPE : TP_ERR_SHAPE,
                           "%s: its get_input_tensors gives %s %s for '%s', the signature says %s %s", s->name,
                           tp_dtype_name(in[i]->dtype), tp_shape_text(&in[i]->shape, given), x->name,
                           tp_dtype_name(x->dtype), tp_shape_text(&x->shape, wanted));
    }
    return st;
}

static tp_status tp__runner_tower(tp_callback *cb, tp_tower_func *f, int i)
{
    tp__runner *r = (tp__runner *)cb->user;
    tp_graph *g = cb->train->graph;
    int n = 0;
    tp_tower_func_signature(f, &n);
    tp_node **in = (tp_node **)tp_graph_alloc(g, (size_t)n * sizeof *in);
    if (!in) return TP_ERR_NOMEM;
    tp_status st = TP_OK;
    if (tp__predict_tower_enter(f, r->tower[i], r->device[i])) {
        st = tp__input_tensors(r->input, in);
        if (st == TP_OK) tp_tower_func_call(f, in);
    }
    tp__predict_tower_leave(f);
    if (st == TP_OK && tp_graph_status(g) != TP_OK) st = tp_fail(tp_graph_status(g), "%s", tp_graph_error(g));
    if (st == TP_OK && !tp__tower_named(tp_tower_func_towers(f, TP_TOWERS_ALL), r->tower[i]))
        st = tp_fail(TP_ERR, "%s: the tower '%s' was not built", r->name, r->tower[i]);
    return st;
}

/* Finds the nodes that an inferencer fetches from tower t. */
static tp_status tp__runner_find(tp_callback *cb, int t, const tp_inferencer *inf, tp_node **node)
{
    const tp__runner *r = (const tp__runner *)cb->user;
    tp_tower_func *f = r->tower_func ? r->tower_func : cb->train->tower_func;
    const tp_tower_handle *h = r->build ? NULL : tp_tower_func_find(f, r->tower[t]);
    char text[TP__NEAREST_TEXT] = "";
    for (int k = 0; k < inf->n_names; k++) {
        const char *name = inf->names[k];
        if (r->build) node[k] = r->find ? r->find(cb, name, r->user) : tp_callback_find(cb, name);
        else if (!(node[k] = tp__tower_node(h, name))) node[k] = tp__node_named(cb->train->graph, name);
        if (node[k] && tp_is_poison(node[k]))
            return tp_fail(node[k]->op->graph ? tp_graph_status(node[k]->op->graph) : TP_ERR_ARG, "%s: %s", r->name,
                           tp__poison_reason(node[k]));
        if (node[k]) continue;
        if (cb->train->graph) tp__node_near(cb->train->graph, name, text);
        const bool is_default = strcmp(name, "incorrect_vector") == 0;
        return tp_fail(TP_ERR_NAME, "%s: in %s'%s': Tensor %s not found in the graph%s%s", inf->name, h ? "tower " : "",
                       h ? h->ctx.ns_name : r->name, name, text[0] ? text : "!",
                       is_default ? " tp_sym_prediction_incorrect makes it in build_graph" : "");
    }
    return TP_OK;
}

/* Whether a tower of this name was built, by whatever tower function: a second one would find the first one's results. */
static bool tp__tower_was_built(const tp_graph *g, const char *tower)
{
    const size_t n = strlen(tower);
    for (int i = 0; n > 0 && i < g->op.n; i++) {
        const char *name = ((const tp_operation *)g->op.item[i])->name;
        if (strncmp(name, tower, n) == 0 && name[n] == '/') return true;
    }
    return false;
}

static tp_status tp__runner_towers(tp_callback *cb)
{
    tp__runner *r = (tp__runner *)cb->user;
    tp_tower_func *f = r->tower_func ? r->tower_func : cb->train->tower_func;
    if (!f) return tp_fail(TP_ERR_STATE, "%s: the trainer has no tower function: give .tower_func", r->name);
    int n = 0;
    const tp_spec *specs = tp_tower_func_signature(f, &n);
    for (int t = 0; t < r->n_tower; t++)
        if (tp__tower_named(tp_tower_func_towers(f, TP_TOWERS_ALL), r->tower[t]) ||
            tp__tower_was_built(cb->train->graph, r->tower[t]))
            return tp_fail(TP_ERR_NAME, "%s: a tower '%s' exists: a second runner needs another .tower_name", r->name,
                           r->tower[t]);
    tp_status st = tp_input_setup(r->input, cb->train->graph, specs, n);
    for (int t = 0; t < r->n_tower && st == TP_OK; t++) st = tp__runner_tower(cb, f, t);
    return st;
}

static tp_status tp__runner_setup_graph(tp_callback *cb)
{
    tp__runner *r = (tp__runner *)cb->user;
    tp_status st = r->build ? r->build(cb, r->input, r->user) : tp__runner_towers(cb);
    for (int i = 0; i < r->n_inf && st == TP_OK; i++) {
        tp_inferencer *inf = r->inf[i].inf;
        inf->train = cb->train;
        if (inf->setup_graph) st = inf->setup_graph(inf);
        if (st != TP_OK) break;
        if (inf->on_fetches && inf->n_names == 0)
            tp_log(TP_LOG_WARN, "%s: %s has on_fetches, which will get no values: name them by tp_inferencer_set_names",
                   r->name, inf->name);
        if (!inf->on_fetches && inf->n_names > 0)
            tp_log(TP_LOG_WARN, "%s: %s names values, but has no on_fetches that takes them", r->name, inf->name);
        r->inf[i].node =
            (tp_node **)tp_arena_alloc(&cb->mem_, ((size_t)(inf->n_names * r->n_tower) + 1) * sizeof(tp_node *));
        if (!r->inf[i].node) return TP_ERR_NOMEM;
        for (int t = 0; t < r->n_tower && st == TP_OK; t++)
            st = tp__runner_find(cb, t, inf, r->inf[i].node + t * inf->n_names);
        if (st == TP_OK && inf->check_) st = inf->check_(inf, r->inf[i].node);
    }
    return st;
}

static tp_status tp__runner_before_train(tp_callback *cb)
{
    tp__runner *r = (tp__runner *)cb->user;
    int n_input = 0;
    tp_hook *const *input = NULL;
    const tp_status given = tp__input_hooks_of(r->input, &input, &n_input);
    if (given != TP_OK) return given;
    tp_hook **hooks =
        (tp_hook **)tp_arena_alloc(&cb->mem_, (size_t)(r->n_inf + n_input + r->n_extra + 1) * sizeof *hooks);
    if (!hooks) return TP_ERR_NOMEM;
    int n = 0;
    for (int i = 0; i < r->n_inf; i++) {
        r->inf[i].hook.name = r->inf[i].inf->name;
        r->inf[i].hook.user = &r->inf[i];
        r->inf[i].hook.before_run = tp__inf_before_run;
        r->inf[i].hook.after_run = tp__inf_after_run;
        hooks[n++] = &r->inf[i].hook;
    }
    for (int i = 0; i < n_input; i++) hooks[n++] = input[i];
    for (int i = 0; i < r->n_extra; i++) hooks[n++] = r->extra[i];
    for (int i = 0; i < n; i++) {
        const tp_status st =
            hooks[i]->after_create_session ? hooks[i]->after_create_session(hooks[i], cb->train->session) : TP_OK;
        if (st != TP_OK) return st;
    }
    tp_hooked_session_free(r->session);
    if (!(r->session = tp_hooked_session_new(cb->train->session, hooks, n))) return TP_ERR_NOMEM;
    r->session->request.ignores_interrupt = true; /* the callbacks of an epoch are finished after Ctrl-C */
    const int64_t size = tp_input_size(r->input);
    if (size == 0)
        return tp_fail(TP_ERR_ARG, "%s: the input has no datapoints: give it a dataflow with a size above 0", r->name);
    if (size > 0) tp_log(TP_LOG_INFO, "[%s] Will eval %lld iterations", r->name, (long long)size);
    else if (tp__input_is_endless(r->input))
        return tp_fail(TP_ERR_ARG,
                       "%s: the passes of %s have no end, and its size is unknown: give tp_df_take or tp_df_fixed_size "
                       "of the dataflow, or .infinite = TP_NO of the input",
                       r->name, r->input->name);
    else if (r->n_tower > 1)
        return tp_fail(TP_ERR_ARG, "%s: the input must tell its size: wrap its dataflow with tp_df_fixed_size",
                       r->name);
    else
        tp_log(TP_LOG_WARN,
               "[%s] The size of the input is unknown: each pass goes on until it ends. A flow that never "
               "ends needs a size, by .size or tp_df_take.",
               r->name);
    for (int i = 0; i < r->n_tower; i++)
        if (!tp_session_device(cb->train->session, r->device[i]))
            return tp_fail(TP_ERR_ARG, "%s: there is no device %d: the session has fewer, numbered from 0", r->name,
                           r->device[i]);
    return TP_OK;
}

/* Runs the first n towers once. */
static tp_status tp__runner_run(tp_callback *cb, int n)
{
    tp__runner *r = (tp__runner *)cb->user;
    for (int i = 0; i < r->n_inf; i++) r->inf[i].n_tower = n;
    tp_hooked_session_set_datapoints(r->session, n);
    tp_status st = tp_hooked_run(r->session, NULL, 0, NULL);
    if (st == TP_OK) st = tp__poll(cb->train);
    for (int i = 0; i < n && st == TP_OK; i++) tp__bar_step(&r->bar);
    return st;
}

static tp_status tp__runner_trigger(tp_callback *cb)
{
    tp__runner *r = (tp__runner *)cb->user;
    const int64_t size = tp_input_size(r->input);
    tp_status st = TP_OK;
    for (int i = 0; i < r->n_inf && st == TP_OK; i++)
        if (r->inf[i].inf->before_inference) st = r->inf[i].inf->before_inference(r->inf[i].inf);
    if (st == TP_OK) st = tp_input_reset_state(r->input);
    if (st != TP_OK) return st;
    /* restart the random numbers, so that they are the same in every pass */
    tp_exec_set_random_step(tp_hooked_session_exec(r->session), 0);
    tp__bar_open(&r->bar, size > 0 ? size : 0);
    /* if fewer datapoints are left than towers, they are run one by one */
    int64_t n_seen = 0;
    for (; (size <= 0 || n_seen < size) && st == TP_OK;) {
        const int n = r->n_tower > 1 && size - n_seen < r->n_tower ? 1 : r->n_tower;
        st = tp__runner_run(cb, n);
        if (st == TP_OK) n_seen += n;
    }
    tp__bar_close(&r->bar);
    const char *reason = "";
    if (st < TP_OK && st == tp_input_failure(r->input, &reason)) return tp_fail(st, "%s: %s", r->name, reason);
    if (st == TP_END) {
        if (r->fed && size > 0)
            return tp_fail(TP_ERR_STATE,
                           "[%s] input stopped before reaching its size of %lld datapoints. Make the dataflow tell "
                           "its real size (tp_df_filter: .size). Files that TP_SKIP leaves out count: remove them, or "
                           "put tp_df_fixed_size "
                           "with the number of the others below the batches",
                           r->name, (long long)size);
        if (n_seen == 0) /* statistics of nothing would look like those of a perfect model */
            return tp_fail(TP_ERR_STATE,
                           "%s: the pass ended before its first datapoint: give it data, a smaller batch, or "
                           ".remainder = true of tp_df_batch",
                           r->name);
        st = TP_OK;
    }
    tp_monitors *m = cb->train->monitors;
    for (int i = 0; i < r->n_inf && st == TP_OK; i++) {
        if (m) m->reporter_ = r->inf[i].inf;
        if (r->inf[i].inf->after_inference) st = r->inf[i].inf->after_inference(r->inf[i].inf);
    }
    if (m) m->reporter_ = NULL;
    return st;
}

static tp_status tp__runner_after_train(tp_callback *cb)
{
    tp__bar_close(&((tp__runner *)cb->user)->bar);
    return TP_OK;
}

static void tp__runner_close(tp_callback *cb)
{
    tp__runner *r = (tp__runner *)cb->user;
    tp_hooked_session_free(r->session);
    tp__input_delete(r->input);
    for (int i = 0; i < r->n_inf; i++) tp__inferencer_delete(r->inf[i].inf);
}

/* The options of every kind of inference runner. */
typedef struct tp__runner_options {
    const char *name;      /* the kind of runner, for sentences about wrong options */
    const char *user_name; /* name of the callback; NULL: use .name */
    tp_at at;
    tp_dataflow *df;
    tp_input_source *input;
    tp_inferencer *const *inferencers; /* array of TP_MAX_NAMES + 1 pointers, ended by NULL */
    const char *tower_name;
    tp_tower_func *tower_func;
    const int *devices;
    int n_devices;
    bool parallel;
    bool base; /* InferenceRunnerBase: build, find and user come from the program */
    tp_status (*build)(tp_callback *cb, tp_input_source *input, void *user);
    tp_node *(*find)(tp_callback *cb, const char *name, void *user);
    void *user;
} tp__runner_options;

/* Makes an input source of the dataflow and owns the dataflow from then on, also on failure. */
static tp_input_source *tp__runner_input(const tp__runner_options *d)
{
    tp_feed_input_desc feed;
    tp_queue_input_desc queue;
    memset(&feed, 0, sizeof feed);
    memset(&queue, 0, sizeof queue);
    feed.at_ = queue.at_ = d->at;
    feed.df = queue.df = d->df;
    feed.infinite = queue.infinite = TP_NO; /* nothing is read beyond the pass */
    /* if the size is unknown, the pass ends with the data; if it is known, the runner itself reports an early end */
    feed.quiet_end = TP_YES;
    return d->parallel ? tp_queue_input_(&queue) : tp_feed_input_(&feed);
}

/* Returns a sentence about a mistake in the options other than the inferencers; NULL: no mistake. */
static const char *tp__runner_mistake(const tp__runner_options *d)
{
    const bool wrong_device = d->n_devices < 1 || (!d->parallel && d->devices[0] < 0);
    if (d->df && d->input) return "give a dataflow or .input, not both";
    if (!d->df && !d->input)
        return "the data are missing: give a dataflow or .input (one that is NULL found no memory)";
    if (d->input && tp__input_is_staging(d->input))
        return "a StagingInput takes data ahead, which a round of inference must not: give what is in it";
    if (d->input && d->parallel && !d->input->feedfree)
        return "the input feeds one tower only: give the dataflow, or a QueueInput";
    if (d->base && !d->build) return ".build is missing";
    if (wrong_device && d->parallel) return ".n_devices is how many towers there are: 1 or more";
    if (wrong_device) return ".device is a number of the session's devices, from 0";
    for (int i = 0; d->devices && i < d->n_devices; i++)
        if (d->devices[i] < 0) return ".devices are numbers of the session's devices, from 0";
    return NULL;
}

/* Copies the options into the callback, with everything that they point to. */
static bool tp__runner_fill(tp_callback *cb, const tp__runner_options *d, int n_inf)
{
    tp__runner *r = (tp__runner *)cb->user;
    r->name = cb->name = tp__arena_copy(&cb->mem_, d->user_name, d->name);
    r->build = d->build;
    r->find = d->find;
    r->user = d->user;
    r->tower_func = d->tower_func;
    r->fed = d->df != NULL;
    r->n_tower = d->n_devices;
    r->tower_name = tp__arena_copy(&cb->mem_, d->tower_name, "InferenceTower");
    r->inf = (tp__inf_hook *)tp_arena_alloc(&cb->mem_, (size_t)n_inf * sizeof *r->inf);
    r->tower = (const char **)tp_arena_alloc(&cb->mem_, (size_t)r->n_tower * sizeof *r->tower);
    r->device = (int *)tp_arena_alloc(&cb->mem_, (size_t)r->n_tower * sizeof *r->device);
    bool ok = r->name && r->tower_name && r->inf && r->tower && r->device;
    for (int i = 0; i < r->n_tower && ok; i++) {
        r->device[i] = d->devices ? d->devices[i] : i;
        r->tower[i] = d->parallel ? tp_arena_printf(&cb->mem_, "%s%d", r->tower_name, i) : r->tower_name;
        ok = r->tower[i] != NULL;
    }
    return ok;
}

static tp_callback *tp__runner_new(const tp__runner_options *d)
{
    tp_callback *cb = NULL;
    tp_status status = TP_ERR_ARG;
    char text[TP__ERROR_TEXT], wrong[192];
    const char *mistake = tp__runner_mistake(d), *list = NULL;
    tp_input_source *input = d->input;
    if (d->df && d->input) tp__df_drop(d->df);
    else if (d->df) input = tp__runner_input(d);
    if (mistake) snprintf(text, sizeof text, "%s: %s", d->name, mistake);
    int n = 0;
    bool ok = input != NULL;
    /* also count inferencers after a NULL: that is a mistake, but they must be freed */
    for (int i = 0; i <= TP_MAX_NAMES; i++) {
        if (d->inferencers[i]) n = i + 1;
        ok = ok && d->inferencers[i] != &tp__no_inferencer;
    }
    if (!mistake)
        list = mistake = tp__bad_list(d->name, "inferencers", (const void *const *)(const void *)d->inferencers, wrong);
    if (!mistake && n < 1) {
        snprintf(text, sizeof text, "%s: give at least one inferencer", d->name);
        mistake = text;
    }
    int taken = 0;
    const bool input_ours = !d->input || !d->input->owner_.who;
    if (!mistake && d->input && !tp__set_owner(&d->input->owner_, d->input->name, d->name, &d->at)) {
        snprintf(text, sizeof text, "%s", tp_last_error());
        mistake = text;
    }
    for (; ok && !mistake && taken < n; taken++) {
        tp_inferencer *const inf = d->inferencers[taken];
        if (tp__set_owner(&inf->owner_, inf->name, d->name, &d->at)) continue;
        snprintf(text, sizeof text, "%s", tp_last_error());
        mistake = text;
        break;
    }
    for (int i = 0; !mistake && i < n; i++)
        if (d->inferencers[i]->status_ != TP_OK) {
            list = mistake = d->inferencers[i]->error_ ? d->inferencers[i]->error_ : "out of memory";
            status = d->inferencers[i]->status_;
        }
    if (mistake) cb = tp_callback_fail(status == TP_ERR_ARG ? &d->at : NULL, status, "%s", list ? list : text);
    else if (ok) cb = tp_callback_new(d->name, sizeof(tp__runner));
    if (mistake || !cb || !tp__runner_fill(cb, d, n)) { /* free all objects that the options passed to the runner */
        if (input_ours) tp__input_delete(input);
        for (int i = 0; i < n; i++) /* skip those with another owner, and free each one only once */
            if (d->inferencers[i] && !tp__listed_before((const void *const *)(const void *)d->inferencers, i) &&
                (i < taken || !d->inferencers[i]->owner_.who))
                tp__inferencer_delete(d->inferencers[i]);
        if (mistake) return cb;
        tp__callback_delete(cb);
        return NULL;
    }
    const int64_t dropped = d->df ? tp__batch_dropped(d->df) : 0;
    if (dropped > 0)
        tp_log(TP_LOG_WARN,
               "[%s] The last %lld datapoints of a pass fill no batch and are left out: give tp_df_batch .remainder = "
               "true",
               d->name, (long long)dropped);
    tp__runner *r = (tp__runner *)cb->user;
    r->input = input;
    r->n_inf = n;
    for (int i = 0; i < r->n_inf; i++) r->inf[i].inf = d->inferencers[i];
    cb->setup_graph = tp__runner_setup_graph;
    cb->before_train = tp__runner_before_train;
    cb->trigger = tp__runner_trigger;
    cb->after_train = tp__runner_after_train;
    cb->close = tp__runner_close;
    return cb;
}

/* Fills the options that every runner has. */
static tp__runner_options tp__runner_base_options(const char *name, tp_at at, tp_dataflow *df, tp_input_source *input,
                                                  tp_inferencer *const *inferencers)
{
    static const int first = 0;
    tp__runner_options o;
    memset(&o, 0, sizeof o);
    o.name = name;
    o.at = at;
    o.df = df;
    o.input = input;
    o.inferencers = inferencers;
    o.devices = &first;
    o.n_devices = 1;
    return o;
}

TP_DEF tp_callback *tp_cb_inference_runner_(const tp_cb_inference_runner_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    tp__runner_options o = tp__runner_base_options("InferenceRunner", d->at_, d->df, d->input, d->inferencers);
    o.tower_name = d->tower_name;
    o.tower_func = d->tower_func;
    o.devices = &d->device;
    return tp__runner_new(&o);
}

TP_DEF tp_callback *tp_cb_data_parallel_inference_runner_(const tp_cb_data_parallel_inference_runner_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    tp__runner_options o =
        tp__runner_base_options("DataParallelInferenceRunner", d->at_, d->df, d->input, d->inferencers);
    o.tower_name = d->tower_name;
    o.tower_func = d->tower_func;
    o.devices = d->devices;
    o.n_devices = d->n_devices;
    o.parallel = true;
    return tp__runner_new(&o);
}

TP_DEF tp_callback *tp_cb_inference_runner_base_(const tp_cb_inference_runner_base_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    tp__runner_options o = tp__runner_base_options("InferenceRunnerBase", d->at_, d->df, d->input, d->inferencers);
    o.user_name = d->name;
    o.base = true;
    o.build = d->build;
    o.find = d->find;
    o.user = d->user;
    return tp__runner_new(&o);
}

TP_DEF tp_status tp_inference_runner_register_hook(tp_callback *runner, tp_hook *hook)
{
    TP__REQUIRE(hook, TP_ERR_ARG)

    const tp_status st = tp_callback_status(runner);
    if (st != TP_OK) return st;
    if (runner->close != tp__runner_close) return tp_fail(TP_ERR_ARG, "'%s' is no InferenceRunner", runner->name);
    tp__runner *r = (tp__runner *)runner->user;
    if (r->session) return tp_fail(TP_ERR_STATE, "%s: hooks are registered before training", r->name);
    tp_hook **extra = (tp_hook **)tp_arena_alloc(&runner->mem_, (size_t)(r->n_extra + 1) * sizeof *extra);
    if (!extra) return TP_ERR_NOMEM;
    for (int i = 0; i < r->n_extra; i++) extra[i] = r->extra[i];
    extra[r->n_extra++] = hook;
    r->extra = extra;
    return TP_OK;
}

/* ==== >>parameters ==================================================================================== */

TP_DEF tp_hyper_param *tp_hyper_param_new(const char *name, size_t bytes)
{
    TP__REQUIRE(name, NULL)

    void *user = NULL;
    tp_hyper_param *p = (tp_hyper_param *)tp__with_user(sizeof(tp_hyper_param), bytes, &user);
    if (!p || !(p->name = tp_arena_strdup(&p->mem_, name ? name : ""))) {
        tp_free(p);
        return NULL;
    }
    p->user = user;
    return p;
}

static void tp__hyper_param_delete(tp_hyper_param *p)
{
    if (!p) return;
    if (p->close) p->close(p);
    tp_arena_free(&p->mem_);
    tp_free(p);
}

TP_DEF void tp_hyper_param_free(tp_hyper_param *p)
{
    if (p && tp__may_free(&p->owner_, __func__, p->name)) tp__hyper_param_delete(p);
}

/* -- a variable of the graph ---------------------------------------------------------------- >>param GraphVarParam */

typedef struct tp__graph_var {
    tp_variable *variable;
    tp_tensor value;
    tp_shape shape; /* for tp_param_graph_var_array: the variable's shape */
} tp__graph_var;

static tp_status tp__graph_var_setup(tp_hyper_param *p)
{
    tp__graph_var *v = (tp__graph_var *)p->user;
    if (!p->train)
        return tp_fail(
            TP_ERR_STATE,
            "the parameter '%s' belongs to no training: in a callback of your own set its .train to cb->train",
            p->name);
    tp_graph *g = p->train->graph;
    v->variable = g ? tp__variable_named(g, p->name) : NULL;
    if (!v->variable) {
        char text[TP__NEAREST_TEXT] = "";
        tp_buf scalars;
        memset(&scalars, 0, sizeof scalars);
        if (g) tp__variable_near(g, p->name, text);
        for (int i = 0; g && i < tp_graph_n_variables(g); i++) {
            const tp_variable *x = tp_graph_variable(g, i);
            if (x->shape.ndim == 0 && tp_dtype_is_float(x->dtype))
                tp_buf_printf(&scalars, "%s%s", scalars.len ? ", " : " Scalars there: ", x->name);
        }
        tp_fail(TP_ERR_NAME, "%s:0 is not a variable in the graph%s%s", p->name, text[0] ? text : "!",
                scalars.data ? scalars.data : "");
        tp_buf_free(&scalars);
        return TP_ERR_NAME;
    }
    if (p->get_array && !tp_shape_compatible(&v->variable->shape, &v->shape)) {
        char is[TP_SHAPE_TEXT], wanted[TP_SHAPE_TEXT];
        return tp_fail(TP_ERR_SHAPE, "the parameter '%s' has shape %s, not %s", p->name,
                       tp_shape_text(&v->variable->shape, is), tp_shape_text(&v->shape, wanted));
    }
    if (!p->get_array && v->variable->shape.ndim != 0)
        return tp_fail(TP_ERR_SHAPE, "the parameter '%s' is not a scalar: see tp_param_graph_var_array", p->name);
    if (!v->variable->local) tp_collection_add(g, TP__KEY_HYPER_PARAMS, v->variable->node);
    if (tp_graph_status(g) != TP_OK) return tp_graph_status(g);
    return tp_tensor_resize(&v->value, v->variable->dtype, v->variable->shape);
}

static tp_status tp__graph_var_get(tp_hyper_param *p, double *value)
{
    tp__graph_var *v = (tp__graph_var *)p->user;
    if (!v->variable || !p->train || !p->train->session)
        return tp_fail(TP_ERR_STATE, "the parameter '%s' has no value before training", p->name);
    const tp_status st = tp_session_read(p->train->session, v->variable, &v->value);
    if (st == TP_OK) *value = tp_tensor_get(&v->value, 0);
    return st;
}

/* Sets a scalar to a value. An integer is set exactly or not at all; a double has those up to 2^53. */
static tp_status tp__param_put(const tp_hyper_param *p, tp_tensor *t, double value)
{
    const tp_dtype type = t->dtype;
    const double most = type == TP_BOOL ? 1 : type == TP_U8 ? 255 : type == TP_I32 ? 2147483647.0 : 9007199254740992.0;
    const double least = type == TP_BOOL || type == TP_U8 ? 0 : type == TP_I32 ? -2147483648.0 : -most;
    if (!tp_dtype_is_float(type) && !(value >= least && value <= most && value == floor(value)))
        return tp_fail(TP_ERR_DTYPE, "the parameter '%s' is %s: it cannot be set to %g", p->name, tp_dtype_name(type),
                       value);
    tp_tensor_set(t, 0, value);
    return TP_OK;
}

static tp_status tp__graph_var_set(tp_hyper_param *p, double value)
{
    tp__graph_var *v = (tp__graph_var *)p->user;
    if (!v->variable || !p->train || !p->train->session)
        return tp_fail(TP_ERR_STATE, "the parameter '%s' cannot be set before training", p->name);
    if (value != value) return tp_fail(TP_ERR_NUMERIC, "the parameter '%s' cannot be set to NaN", p->name);
    const tp_status st = tp__param_put(p, &v->value, value);
    return st != TP_OK ? st : tp_session_load(p->train->session, v->variable, &v->value);
}

static tp_status tp__graph_var_get_array(tp_hyper_param *p, tp_tensor *value)
{
    const tp__graph_var *v = (const tp__graph_var *)p->user;
    if (!v->variable || !p->train || !p->train->session)
        return tp_fail(TP_ERR_STATE, "the parameter '%s' has no value before training", p->name);
    return tp_session_read(p->train->session, v->variable, value);
}

static tp_status tp__graph_var_set_array(tp_hyper_param *p, const tp_tensor *value)
{
    const tp__graph_var *v = (const tp__graph_var *)p->user;
    if (!v->variable || !p->train || !p->train->session)
        return tp_fail(TP_ERR_STATE, "the parameter '%s' cannot be set before training", p->name);
    return tp_session_load(p->train->session, v->variable, value);
}

static void tp__graph_var_close(tp_hyper_param *p) { tp_tensor_free(&((tp__graph_var *)p->user)->value); }

TP_DEF tp_hyper_param *tp_param_graph_var(const char *name)
{
    TP__REQUIRE(name, NULL)

    char op[512];
    tp__op_name(name, op, sizeof op);
    tp_hyper_param *p = tp_hyper_param_new(op, sizeof(tp__graph_var));
    if (!p) return NULL;
    p->setup_graph = tp__graph_var_setup;
    p->get_value = tp__graph_var_get;
    p->set_value = tp__graph_var_set;
    p->close = tp__graph_var_close;
    return p;
}

TP_DEF tp_hyper_param *tp_param_graph_var_array(const char *name, tp_shape shape)
{
    tp_hyper_param *p = tp_param_graph_var(name);
    if (!p) return NULL;
    ((tp__graph_var *)p->user)->shape = shape;
    p->get_value = NULL;
    p->set_value = NULL;
    p->get_array = tp__graph_var_get_array;
    p->set_array = tp__graph_var_set_array;
    return p;
}

/* -- a number in the program's memory -------------------------------------------------------- >>param ObjAttrParam */

typedef struct tp__field {
    tp_tensor view;
} tp__field;

static tp_status tp__field_get(tp_hyper_param *p, double *value)
{
    *value = tp_tensor_get(&((const tp__field *)p->user)->view, 0);
    return TP_OK;
}

static tp_status tp__field_set(tp_hyper_param *p, double value)
{
    return tp__param_put(p, &((tp__field *)p->user)->view, value);
}

static tp_status tp__field_setup(tp_hyper_param *p)
{
    const tp_tensor *t = &((const tp__field *)p->user)->view;
    if (t->data && (t->dtype == TP_F64 || t->dtype == TP_F32 || t->dtype == TP_I32 || t->dtype == TP_I64)) return TP_OK;
    return tp_fail(TP_ERR_ARG, "the parameter '%s' needs the address of a double, float, int32_t or int64_t", p->name);
}

TP_DEF tp_hyper_param *tp_param_field(const char *name, void *field, tp_dtype dtype)
{
    TP__REQUIRE(name && field, NULL)

    tp_hyper_param *p = tp_hyper_param_new(name, sizeof(tp__field));
    if (!p) return NULL;
    tp_tensor_view(&((tp__field *)p->user)->view, dtype, tp_make_shape_n(0, NULL), field);
    p->setup_graph = tp__field_setup;
    p->get_value = tp__field_get;
    p->set_value = tp__field_set;
    return p;
}

/* -- what all setters share ----------------------------------------------------------- >>callback HyperParamSetter */

typedef struct tp__setter {
    tp_hyper_param *param;
    tp_param_fn fn;
    tp_param_array_fn fn_array; /* used instead of fn if the parameter is an array */
    void *fn_user;
    void (*release)(void *user);
    tp_tensor array;
    bool has_last;
    double last; /* the value that this setter set last */
    int64_t logged_epoch;
} tp__setter;

static tp_status tp__setter_setup_graph(tp_callback *cb);
TP_DEF tp_status tp_setter_current_value(tp_callback *setter, double *value)
{
    TP__REQUIRE(setter && value, TP_ERR_ARG)
    if (setter->setup_graph != tp__setter_setup_graph)
        return tp_fail(TP_ERR_ARG, "tp_setter_current_value: the callback '%s' sets no parameter", setter->name);

    tp_hyper_param *p = ((const tp__setter *)setter->user)->param;
    if (!p->get_value) return tp_fail(TP_ERR_SHAPE, "the parameter '%s' is an array: tp_setter_current_array", p->name);
    return p->get_value(p, value);
}

TP_DEF tp_status tp_setter_current_array(tp_callback *setter, tp_tensor *value)
{
    TP__REQUIRE(setter && value, TP_ERR_ARG)
    if (setter->setup_graph != tp__setter_setup_graph)
        return tp_fail(TP_ERR_ARG, "tp_setter_current_array: the callback '%s' sets no parameter", setter->name);

    tp_hyper_param *p = ((const tp__setter *)setter->user)->param;
    if (!p->get_array) return tp_fail(TP_ERR_SHAPE, "the parameter '%s' is a scalar: tp_setter_current_value", p->name);
    return p->get_array(p, value);
}

/* Sets a value, stores it as the last one and logs a change at most once per epoch. */
static tp_status tp__setter_set(tp_callback *cb, double value)
{
    tp__setter *s = (tp__setter *)cb->user;
    if (value != value) return tp_fail(TP_ERR_NUMERIC, "%s would set %s to NaN", cb->name, s->param->name);
    if (!s->has_last || value != s->last) {
        if (s->logged_epoch != cb->train->epoch_num) {
            const long long step = (long long)cb->train->global_step;
            if (!s->has_last)
                tp_log(TP_LOG_INFO, "[HyperParamSetter] At global_step=%lld, %s is set to %.6f", step, s->param->name,
                       value);
            else
                tp_log(TP_LOG_INFO, "[HyperParamSetter] At global_step=%lld, %s changes from %.6f to %.6f", step,
                       s->param->name, s->last, value);
        }
        s->logged_epoch = cb->train->epoch_num;
        s->last = value;
        s->has_last = true;
    }
    return s->param->set_value(s->param, value);
}

static tp_status tp__setter_setup_graph(tp_callback *cb)
{
    const tp__setter *s = (const tp__setter *)cb->user;
    s->param->train = cb->train;
    return s->param->setup_graph ? s->param->setup_graph(s->param) : TP_OK;
}

/* The int64 of the program that is the parameter, which a double may not hold; NULL: the parameter is no such field. */
static void *tp__setter_int64(const tp__setter *s)
{
    if (s->param->setup_graph != tp__field_setup) return NULL;
    const tp_tensor *t = &((const tp__field *)s->param->user)->view;
    return t->dtype == TP_I64 ? t->data : NULL;
}

/* Saves a parameter that is not a variable of the graph; variables are in the checkpoint anyway. */
static tp_status tp__setter_save_state(tp_callback *cb, tp_dict *d, const char *prefix)
{
    const tp__setter *s = (const tp__setter *)cb->user;
    double value = 0;
    if (s->param->setup_graph == tp__graph_var_setup) return TP_OK;
    if (s->fn_array) {
        tp_buf name;
        memset(&name, 0, sizeof name);
        tp_buf_printf(&name, "%svalue", prefix);
        tp_tensor *t = name.failed ? NULL : tp_dict_add(d, name.data);
        tp_buf_free(&name);
        return t ? s->param->get_array(s->param, t) : TP_ERR_NOMEM;
    }
    const void *whole = tp__setter_int64(s);
    if (whole) return tp__state_put(d, prefix, "value", TP_I64, whole, 1);
    const tp_status st = s->param->get_value(s->param, &value);
    return st == TP_OK ? tp_state_put_f64(d, prefix, "value", &value, 1) : st;
}

static tp_status tp__setter_load_state(tp_callback *cb, const tp_dict *d, const char *prefix)
{
    const tp__setter *s = (const tp__setter *)cb->user;
    double value = 0;
    if (s->fn_array) {
        tp_buf name;
        memset(&name, 0, sizeof name);
        tp_buf_printf(&name, "%svalue", prefix);
        const tp_tensor *t = name.failed ? NULL : tp__dict_get(d, name.data);
        const tp_status st = name.failed ? TP_ERR_NOMEM : t ? s->param->set_array(s->param, t) : TP_OK;
        tp_buf_free(&name);
        return st;
    }
    void *whole = tp__setter_int64(s);
    int64_t was;
    if (tp_state_get_f64(d, prefix, "value", &value, 1)) return s->param->set_value(s->param, value);
    if (!tp_state_get_i64(d, prefix, "value", &was, 1)) return TP_OK;
    if (!whole) return s->param->set_value(s->param, (double)was); /* the program's field was an int64 then */
    memcpy(whole, &was, sizeof was);
    return TP_OK;
}

/* Reads the array, changes it with fn_array and sets it. The log says that the parameter was set, without its values. */
static tp_status tp__setter_trigger_array(tp_callback *cb)
{
    tp__setter *s = (tp__setter *)cb->user;
    bool set = false;
    tp_status st = tp_setter_current_array(cb, &s->array);
    if (st == TP_OK) st = s->fn_array(cb, s->fn_user, &s->array, &set);
    if (st != TP_OK || !set) return st;
    for (int64_t i = 0; i < tp_tensor_size(&s->array); i++)
        if (tp__is_not_a_number(tp_tensor_get(&s->array, i)))
            return tp_fail(TP_ERR_NUMERIC, "%s would set %s to NaN", cb->name, s->param->name);
    if (s->logged_epoch != cb->train->epoch_num)
        tp_log(TP_LOG_INFO, "[HyperParamSetter] At global_step=%lld, %s is set", (long long)cb->train->global_step,
               s->param->name);
    s->logged_epoch = cb->train->epoch_num;
    return s->param->set_array(s->param, &s->array);
}

static tp_status tp__setter_trigger(tp_callback *cb)
{
    const tp__setter *s = (const tp__setter *)cb->user;
    double value = 0;
    bool set = false;
    if (s->fn_array) return tp__setter_trigger_array(cb);
    tp_status st = tp_setter_current_value(cb, &value);
    if (st != TP_OK) return st;
    st = s->fn(cb, s->fn_user, &value, &set);
    return st == TP_OK && set ? tp__setter_set(cb, value) : st;
}

/* After a resume the parameter keeps the value from the checkpoint. */
static tp_status tp__setter_before_train(tp_callback *cb) { return cb->resumed ? TP_OK : tp__setter_trigger(cb); }

static void tp__setter_close(tp_callback *cb)
{
    tp__setter *s = (tp__setter *)cb->user;
    tp_tensor_free(&s->array);
    tp__hyper_param_delete(s->param);
    if (s->release) s->release(s->fn_user);
}

/* Makes a setter; its user memory begins with a tp__setter. Owns param from then on, also on failure. */
static tp_callback *tp__setter_new(const tp_at *at, const char *kind, const char *name, tp_hyper_param *param,
                                   size_t bytes, bool array)
{
    if (!name && !param)
        return tp_callback_fail(at, TP_ERR_ARG, "%s: which parameter? Give the name of a variable, or .param", kind);
    if (param && !tp__set_owner(&param->owner_, param->name, kind, at)) return tp__callback_owned_twice();
    const bool has_functions =
        !param || (array ? param->get_array && param->set_array : param->get_value && param->set_value);
    if (!has_functions) {
        const bool is_other_kind = array ? param->get_value != NULL : param->get_array != NULL;
        tp__hyper_param_delete(param);
        return tp_callback_fail(
            at, TP_ERR_ARG,
            !is_other_kind ? array ? "%s: a parameter that is an array needs get_array and set_array"
                                   : "%s: a parameter needs get_value and set_value"
            : array        ? "%s: .fn_array sets an array, but the parameter is a number: give .fn"
                           : "%s: the parameter is an array: tp_cb_hyper_param_setter sets it, by .fn_array",
            kind);
    }
    tp_callback *cb = tp_callback_new(kind, bytes);
    if (!param && cb) param = tp_param_graph_var(name);
    if (!cb || !param) {
        tp__hyper_param_delete(param);
        tp__callback_delete(cb);
        return NULL;
    }
    tp__setter *s = (tp__setter *)cb->user;
    s->param = param;
    s->logged_epoch = -1;
    cb->chief_only = false;
    cb->setup_graph = tp__setter_setup_graph;
    cb->before_train = tp__setter_before_train;
    cb->trigger = tp__setter_trigger;
    cb->close = tp__setter_close;
    cb->id = param->name;
    cb->save_state = tp__setter_save_state;
    cb->load_state = tp__setter_load_state;
    return cb;
}

TP_DEF tp_callback *tp_cb_hyper_param_setter_(const tp_cb_hyper_param_setter_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    tp_callback *cb = NULL;
    if (!d->fn == !d->fn_array || (d->fn_array && !d->param)) {
        if (d->param && !d->param->owner_.who) tp__hyper_param_delete(d->param);
        cb = tp_callback_fail(&d->at_, TP_ERR_ARG,
                              d->fn         ? "HyperParamSetter: give .fn or .fn_array, not both"
                              : d->fn_array ? "HyperParamSetter: .fn_array needs .param, see tp_param_graph_var_array"
                                            : "HyperParamSetter: .fn is missing");
    } else {
        cb = tp__setter_new(&d->at_, "HyperParamSetter", d->name, d->param, sizeof(tp__setter), d->fn_array != NULL);
    }
    if (!cb || cb->status_ != TP_OK) {
        if (d->release) d->release(d->user);
        return cb;
    }
    tp__setter *s = (tp__setter *)cb->user;
    s->fn = d->fn;
    s->fn_array = d->fn_array;
    s->fn_user = d->user;
    s->release = d->release;
    return cb;
}

/* -- from a file ----------------------------------------------------------------- >>callback HumanHyperParamSetter */

typedef struct tp__human {
    tp__setter setter;
    const char *path;
    bool has_read; /* last_read is a value that was read from the file; a resume does not set the same value again */
    double last_read;
} tp__human;

/* Reads the value of `name` from text with a line "key:number" for each parameter. Returns false if no line has the key
 * or a line is malformed; *bad is then the number of that line, from 1. A number that is not finite is malformed. */
static bool tp__human_parse(char *text, const char *name, double *value, int *bad_line)
{
    bool found = false;
    int number = 0;
    size_t n = strlen(text);
    if (n && text[n - 1] == '\n') text[--n] = 0; /* the newline at the end does not begin an empty line */
    for (char *line = text, *next; n && line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        number++;
        while (*line && isspace((unsigned char)*line)) line++;
        for (size_t m = strlen(line); m && isspace((unsigned char)line[m - 1]); m--) line[m - 1] = 0;
        const char *end = line;
        char *colon = strchr(line, ':');
        const double v = colon ? tp_parse_double(colon + 1, &end) : 0;
        if (!colon || end == colon + 1 || *end || !tp__finite(v)) {
            *bad_line = number;
            return false;
        }
        *colon = 0;
        if (strcmp(line, name) == 0) {
            *value = v;
            found = true;
        }
    }
    return found;
}

static tp_status tp__human_value(tp_callback *cb, void *user, double *value, bool *set)
{
    tp__human *h = (tp__human *)cb->user;
    char *text = NULL;
    size_t n = 0;
    (void)user;
    if (!tp_file_exists(h->path)) return TP_OK;
    if (tp_file_read(h->path, false, 1 << 20, &text, &n) != TP_OK) {
        tp_log(TP_LOG_WARN, "Cannot read %s: %s", h->path, tp_last_error());
        return TP_OK;
    }
    int bad_line = 0;
    *set = tp__human_parse(text, h->setter.param->name, value, &bad_line);
    tp_free(text);
    if (bad_line)
        tp_log(TP_LOG_WARN, "%s:%d: not a name, ':' and a finite number: nothing of this file is used", h->path,
               bad_line);
    else if (!*set) tp_log(TP_LOG_WARN, "Cannot find %s in %s", h->setter.param->name, h->path);
    if (*set) h->has_read = true, h->last_read = *value;
    return TP_OK;
}

/* After a resume, the file is ignored if its value did not change: the value has been set already, and another setter
 * may have changed the parameter since. */
static tp_status tp__human_before_train(tp_callback *cb)
{
    const tp__human *h = (const tp__human *)cb->user;
    const double last_value = h->last_read;
    const bool had_read = h->has_read;
    double value = 0;
    bool set = false;
    if (!cb->resumed || !had_read) return tp__setter_trigger(cb);
    const tp_status st = tp__human_value(cb, NULL, &value, &set);
    return st == TP_OK && set && value != last_value ? tp__setter_set(cb, value) : st;
}

static tp_status tp__human_save_state(tp_callback *cb, tp_dict *d, const char *prefix)
{
    const tp__human *h = (const tp__human *)cb->user;
    const tp_status st = tp__setter_save_state(cb, d, prefix);
    return st == TP_OK && h->has_read ? tp_state_put_f64(d, prefix, "read", &h->last_read, 1) : st;
}

static tp_status tp__human_load_state(tp_callback *cb, const tp_dict *d, const char *prefix)
{
    tp__human *h = (tp__human *)cb->user;
    h->has_read = tp_state_get_f64(d, prefix, "read", &h->last_read, 1);
    return tp__setter_load_state(cb, d, prefix);
}

TP_DEF tp_callback *tp_cb_human_hyper_param_setter_(const tp_cb_human_hyper_param_setter_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    if (!tp_logger_dir()) {
        if (d->param && !d->param->owner_.who) tp__hyper_param_delete(d->param);
        return tp_callback_fail(&d->at_, TP_ERR_STATE,
                                "HumanHyperParamSetter: its file is in the logger's directory: %s",
                                tp__logger_missing());
    }
    tp_callback *cb = tp__setter_new(&d->at_, "HumanHyperParamSetter", d->name, d->param, sizeof(tp__human), false);
    if (!cb || cb->status_ != TP_OK) return cb;
    tp__human *h = (tp__human *)cb->user;
    h->setter.fn = tp__human_value;
    cb->before_train = tp__human_before_train;
    cb->save_state = tp__human_save_state;
    cb->load_state = tp__human_load_state;
    h->path = tp_arena_printf(&cb->mem_, "%s/%s", tp_logger_dir(), d->file_name ? d->file_name : "hyper.txt");
    if (!h->path) {
        tp__callback_delete(cb);
        return NULL;
    }
    return cb;
}

/* -- by a schedule ----------------------------------------------------------- >>callback ScheduledHyperParamSetter */

typedef struct tp__schedule {
    tp__setter setter;
    tp_schedule_point *point; /* the points of the schedule, in ascending order of epoch or step */
    int n, interp;
    bool step_based, set_at_beginning, have_due;
    double due; /* the schedule's value when the checkpoint was written */
} tp__schedule;

/* The value that the schedule sets at `now`. is_current: also the value that an earlier point has set and that still
 * holds. */
static bool tp__schedule_value(const tp__schedule *s, int64_t now, bool is_current, double *value)
{
    int i = -1; /* index of the last schedule point with at <= now */
    while (i + 1 < s->n && s->point[i + 1].at <= now) i++;
    if (i < 0) return false;
    const tp_schedule_point a = s->point[i];
    if (a.at == now || (is_current && (i + 1 == s->n || s->interp != TP_INTERP_LINEAR))) {
        *value = a.value;
        return true;
    }
    if (i + 1 == s->n || s->interp != TP_INTERP_LINEAR) return false;
    const tp_schedule_point b = s->point[i + 1];
    *value = (double)(now - a.at) / (double)(b.at - a.at) * (b.value - a.value) + a.value;
    return true;
}

static int64_t tp__schedule_now(const tp_callback *cb)
{
    return ((const tp__schedule *)cb->user)->step_based ? cb->train->global_step : cb->train->epoch_num;
}

static tp_status tp__schedule_fn(tp_callback *cb, void *user, double *value, bool *set)
{
    (void)user;
    *set = tp__schedule_value((const tp__schedule *)cb->user, tp__schedule_now(cb), false, value);
    return TP_OK;
}

static tp_status tp__schedule_save_state(tp_callback *cb, tp_dict *d, const char *prefix)
{
    const tp__schedule *s = (const tp__schedule *)cb->user;
    double due = 0;
    const tp_status st = tp__setter_save_state(cb, d, prefix);
    /* the epoch number that a resume from this checkpoint starts with */
    const int64_t now = tp__schedule_now(cb) - (cb->train->within_ && !s->step_based);
    if (st != TP_OK || !tp__schedule_value(s, now, true, &due)) return st;
    return tp_state_put_f64(d, prefix, "due", &due, 1);
}

static tp_status tp__schedule_load_state(tp_callback *cb, const tp_dict *d, const char *prefix)
{
    tp__schedule *s = (tp__schedule *)cb->user;
    s->have_due = tp_state_get_f64(d, prefix, "due", &s->due, 1);
    return tp__setter_load_state(cb, d, prefix);
}

/* The value that the parameter has after it was set to `value`: a float variable or field of few bits rounds it. */
static double tp__param_rounds(const tp_hyper_param *p, double value)
{
    tp_tensor t;
    double room = 0;
    memset(&t, 0, sizeof t);
    tp_dtype dtype = TP_F64;
    if (p->setup_graph == tp__graph_var_setup) dtype = ((const tp__graph_var *)p->user)->value.dtype;
    if (p->setup_graph == tp__field_setup) dtype = ((const tp__field *)p->user)->view.dtype;
    if (!tp_dtype_is_float(dtype)) return value;
    tp_tensor_view(&t, dtype, tp_make_shape_n(0, NULL), &room);
    tp_tensor_set(&t, 0, value);
    return tp_tensor_get(&t, 0);
}

/* A training that starts at a later epoch sets the value that the schedule has there. After a resume the parameter is
 * in the checkpoint, and another setter may have changed it; so it is set only if the schedule itself has changed. */
static tp_status tp__schedule_before_train(tp_callback *cb)
{
    const tp__schedule *s = (const tp__schedule *)cb->user;
    double scheduled = 0, is = 0;
    const bool is_scheduled = tp__schedule_value(s, tp__schedule_now(cb), true, &scheduled);
    if (cb->resumed && is_scheduled == s->have_due && (!is_scheduled || !(scheduled < s->due || scheduled > s->due)))
        return TP_OK;
    tp_status st = tp__setter_trigger(cb);
    if (st != TP_OK || !tp__schedule_value(s, tp__schedule_now(cb), true, &scheduled)) return st;
    if ((st = tp_setter_current_value(cb, &is)) != TP_OK) return st;
    const double rounded = tp__param_rounds(s->setter.param, scheduled);
    if (fabs(scheduled - is) <= 1e-8 + 1e-5 * fabs(is) || rounded == is) return TP_OK;
    tp_log(TP_LOG_WARN,
           "According to its schedule, parameter '%s' should be %g at this point, but it is %g. If this is "
           "the only setter in use, "
           "check whether the parameter starts as you expect.",
           s->setter.param->name, scheduled, is);
    if (!s->set_at_beginning) return TP_OK;
    tp_log(TP_LOG_INFO, "'%s' is set to %g before the training.", s->setter.param->name, scheduled);
    return tp__setter_set(cb, scheduled);
}

static tp_status tp__schedule_trigger_epoch(tp_callback *cb)
{
    return ((const tp__schedule *)cb->user)->step_based ? TP_OK : tp_callback_trigger(cb);
}
static tp_status tp__schedule_trigger_step(tp_callback *cb)
{
    return ((const tp__schedule *)cb->user)->step_based ? tp_callback_trigger(cb) : TP_OK;
}

static int tp__by_point(const void *a, const void *b)
{
    const int64_t x = ((const tp_schedule_point *)a)->at, y = ((const tp_schedule_point *)b)->at;
    return x < y ? -1 : x > y;
}

TP_DEF tp_callback *tp_cb_scheduled_hyper_param_setter_(const tp_cb_scheduled_hyper_param_setter_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    int n = d->n_schedule;
    if (n == 0)
        for (int i = 0; i <= TP_MAX_SCHEDULE; i++)
            if (d->schedule[i].at != 0 || !(d->schedule[i].value == 0)) n = i + 1;
    if (n > TP_MAX_SCHEDULE) {
        if (d->param && !d->param->owner_.who) tp__hyper_param_delete(d->param);
        return tp_callback_fail(&d->at_, TP_ERR_ARG, TP__TOO_MANY, "ScheduledHyperParamSetter", "schedule",
                                TP_MAX_SCHEDULE);
    }
    if (n < 1 || d->interp < TP_INTERP_NONE || d->interp > TP_INTERP_LINEAR) {
        if (d->param && !d->param->owner_.who) tp__hyper_param_delete(d->param);
        return n < 1 ? tp_callback_fail(&d->at_, TP_ERR_ARG,
                                        "ScheduledHyperParamSetter: give a .schedule, {{1, 0.1}, {30, 0.01}}")
                     : tp_callback_fail(&d->at_, TP_ERR_ARG,
                                        "ScheduledHyperParamSetter: .interp is %d: give TP_INTERP_NONE or "
                                        "TP_INTERP_LINEAR",
                                        (int)d->interp);
    }
    tp_callback *cb =
        tp__setter_new(&d->at_, "ScheduledHyperParamSetter", d->name, d->param, sizeof(tp__schedule), false);
    if (!cb || cb->status_ != TP_OK) return cb;
    tp__schedule *s = (tp__schedule *)cb->user;
    s->point = (tp_schedule_point *)tp_arena_alloc(&cb->mem_, (size_t)n * sizeof *s->point);
    if (!s->point) {
        tp__callback_delete(cb);
        return NULL;
    }
    memcpy(s->point, d->schedule, (size_t)n * sizeof *s->point);
    qsort(s->point, (size_t)n, sizeof *s->point, tp__by_point);
    if (s->point[0].at < 0) {
        const long long negative = (long long)s->point[0].at;
        tp__callback_delete(cb);
        return tp_callback_fail(&d->at_, TP_ERR_ARG,
                                "ScheduledHyperParamSetter: %lld is in the schedule: the first is 0", negative);
    }
    for (int i = 0; i < n; i++)
        if (!tp__finite(s->point[i].value)) {
            const tp_schedule_point bad = s->point[i];
            tp__callback_delete(cb);
            return tp_callback_fail(
                &d->at_, TP_ERR_ARG,
                "ScheduledHyperParamSetter: the value at %lld in the schedule is %g: it must be finite",
                (long long)bad.at, bad.value);
        }
    for (int i = 0; i + 1 < n; i++)
        if (s->point[i].at == s->point[i + 1].at) {
            const long long twice = (long long)s->point[i].at;
            tp__callback_delete(cb);
            return tp_callback_fail(&d->at_, TP_ERR_ARG, "ScheduledHyperParamSetter: %lld is in the schedule twice",
                                    twice);
        }
    s->n = n;
    s->interp = d->interp;
    s->step_based = d->step_based == TP_YES;
    s->set_at_beginning = d->set_at_beginning != TP_NO;
    s->setter.fn = tp__schedule_fn;
    cb->save_state = tp__schedule_save_state;
    cb->load_state = tp__schedule_load_state;
    cb->before_train = tp__schedule_before_train;
    cb->trigger_epoch = tp__schedule_trigger_epoch;
    cb->trigger_step = tp__schedule_trigger_step;
    return cb;
}

/* -- by a function ------------------------------------------------------------ >>callback HyperParamSetterWithFunc */

typedef struct tp__func_setter {
    tp__setter setter;
    double (*fn)(int64_t epoch_num, double old_value, void *user);
} tp__func_setter;

static tp_status tp__func_value(tp_callback *cb, void *user, double *value, bool *set)
{
    const tp__func_setter *f = (const tp__func_setter *)cb->user;
    *value = f->fn(cb->train->epoch_num, *value, user);
    *set = true;
    return TP_OK;
}

TP_DEF tp_callback *tp_cb_hyper_param_setter_with_func_(const tp_cb_hyper_param_setter_with_func_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    if (!d->fn) {
        if (d->param && !d->param->owner_.who) tp__hyper_param_delete(d->param);
        return tp_callback_fail(&d->at_, TP_ERR_ARG, "HyperParamSetterWithFunc: .fn is missing");
    }
    tp_callback *cb =
        tp__setter_new(&d->at_, "HyperParamSetterWithFunc", d->name, d->param, sizeof(tp__func_setter), false);
    if (!cb || cb->status_ != TP_OK) return cb;
    tp__func_setter *f = (tp__func_setter *)cb->user;
    f->setter.fn = tp__func_value;
    f->setter.fn_user = d->user;
    f->fn = d->fn;
    return cb;
}

/* -- when a statistic stops improving ------------------------------------------- >>callback StatMonitorParamSetter */

typedef struct tp__stat_setter {
    tp__setter setter;
    const char *stat;
    tp_status (*fn)(double *value, void *user);
    void *user;
    double threshold;
    int last_k, n;
    bool reverse;
    tp__absence absence;
    tp__newest newest; /* the newest value in the window */
    double *window;    /* the last last_k values, oldest first */
} tp__stat_setter;

/* Most statistics are reported on the chief alone, where the callbacks that report them run. Another rank says once that it waits for
 * the chief's value. */
static tp_status tp__stat_of_chief(const tp_callback *cb, const char *stat, tp__absence *absence)
{
    const tp__setter *s = (const tp__setter *)cb->user;
    if (absence->times++ == 0)
        tp_log(
            TP_LOG_WARN,
            "[StatMonitorParamSetter] Key %s not found in the monitor history of this rank: %s gets the chief's value.",
            stat, s->param->name);
    return TP_OK;
}

static tp_status tp__stat_value(tp_callback *cb, void *user, double *value, bool *set)
{
    tp__stat_setter *s = (tp__stat_setter *)cb->user;
    tp_stat stat;
    (void)user;
    memset(&stat, 0, sizeof stat);
    if (tp_monitors_get_latest(cb->train->monitors, s->stat, &stat) != TP_OK) {
        if (!cb->train->is_chief) return tp__stat_of_chief(cb, s->stat, &s->absence);
        const char *near = strstr(tp_last_error(), "; did you mean");
        tp_log(TP_LOG_WARN, "[StatMonitorParamSetter] Key %s not found in monitor history%s", s->stat,
               near ? near : "!");
        return tp__stat_missing(cb, s->stat, &s->absence);
    }
    tp__stat_found(cb, s->stat, &stat, &s->absence);
    if (!tp__stat_is_new(cb, s->stat, &stat, &s->newest)) {
        tp_log(TP_LOG_WARN, "[StatMonitorParamSetter] No new data for %s since global_step=%lld.", s->stat,
               (long long)s->newest.step);
        return TP_OK;
    }
    if (s->n == s->last_k) memmove(s->window, s->window + 1, (size_t)--s->n * sizeof(double));
    s->window[s->n++] = stat.value;
    if (s->n < s->last_k) return TP_OK;
    double best = s->window[0];
    for (int i = 1; i < s->n; i++)
        if (s->reverse ? s->window[i] > best : s->window[i] < best) best = s->window[i];
    /* the statistic has improved */
    if (s->reverse ? best > s->window[0] + s->threshold : best < s->window[0] - s->threshold) return TP_OK;
    const tp_status st = s->fn(value, s->user);
    if (st != TP_OK) return st;
    tp_log(TP_LOG_INFO, "[StatMonitorParamSetter] Triggered, %s has not got better for %d values.", s->stat, s->last_k);
    s->n = 0;
    *set = true;
    return TP_OK;
}

static tp_status tp__stat_before_train(tp_callback *cb)
{
    tp__stat_setter *s = (tp__stat_setter *)cb->user;
    if (cb->resumed) tp__newest_resume(cb, s->stat, &s->newest);
    return TP_OK;
}

static tp_status tp__stat_save_state(tp_callback *cb, tp_dict *d, const char *prefix)
{
    const tp__stat_setter *s = (const tp__stat_setter *)cb->user;
    const int64_t head[2] = {s->n, tp__newest_step(&s->newest)};
    tp_status st = tp__setter_save_state(cb, d, prefix);
    if (st == TP_OK) st = tp_state_put_i64(d, prefix, "window_size", head, 2);
    if (st == TP_OK) st = tp__newest_save(cb, s->stat, &s->newest, d, prefix);
    return st == TP_OK ? tp_state_put_f64(d, prefix, "window", s->window, s->n) : st;
}

static tp_status tp__stat_load_state(tp_callback *cb, const tp_dict *d, const char *prefix)
{
    tp__stat_setter *s = (tp__stat_setter *)cb->user;
    int64_t head[2];
    if (tp_state_get_i64(d, prefix, "window_size", head, 2) && head[0] >= 0 && head[0] <= s->last_k &&
        tp_state_get_f64(d, prefix, "window", s->window, (int)head[0])) {
        s->n = (int)head[0];
        tp__newest_load(&s->newest, d, prefix, head[1]);
    }
    return tp__setter_load_state(cb, d, prefix);
}

TP_DEF tp_callback *tp_cb_stat_monitor_param_setter_(const tp_cb_stat_monitor_param_setter_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    if (!d->fn || !d->stat_name || d->last_k < 1) {
        if (d->param && !d->param->owner_.who) tp__hyper_param_delete(d->param);
        return tp_callback_fail(&d->at_, TP_ERR_ARG, "StatMonitorParamSetter: give .stat_name, .fn and .last_k");
    }
    if (tp__is_not_a_number(d->threshold) || d->threshold < 0) {
        if (d->param && !d->param->owner_.who) tp__hyper_param_delete(d->param);
        return tp_callback_fail(&d->at_, TP_ERR_ARG,
                                "StatMonitorParamSetter: .threshold is %g: it cannot be below 0 or NaN", d->threshold);
    }
    tp_callback *cb =
        tp__setter_new(&d->at_, "StatMonitorParamSetter", d->name, d->param, sizeof(tp__stat_setter), false);
    if (!cb || cb->status_ != TP_OK) return cb;
    tp__stat_setter *s = (tp__stat_setter *)cb->user;
    s->setter.fn = tp__stat_value;
    s->stat = tp_arena_strdup(&cb->mem_, d->stat_name);
    s->fn = d->fn;
    s->user = d->user;
    s->threshold = d->threshold;
    s->newest.step = -1;
    s->last_k = d->last_k;
    s->reverse = d->reverse == TP_YES;
    s->window = (double *)tp_arena_alloc(&cb->mem_, (size_t)d->last_k * sizeof(double));
    if (!s->stat || !s->window) {
        tp__callback_delete(cb);
        return NULL;
    }
    cb->before_train = tp__stat_before_train;
    if (!(cb->id = tp_arena_printf(&cb->mem_, "%s,%s", s->setter.param->name, s->stat))) {
        tp__callback_delete(cb);
        return NULL;
    }
    cb->save_state = tp__stat_save_state;
    cb->load_state = tp__stat_load_state;
    return cb;
}

/* ==== >>debugger ====================================================================================== */
/* Before a step runs, the debugger can compute its operations in an exec of its own, up to those that change variables.
 * It uses the step's feeds and random step and the current variables, so the training is not changed. Computed values
 * are kept and fed to later computations. */

typedef struct tp__debug_filter {
    const char *name;
    tp_tensor_filter_fn fn;
    void *user;
} tp__debug_filter;

enum {
    TP__DEBUG_PART = 1, /* flag of an operation: the step runs it */
    TP__DEBUG_OPEN = 2, /* flag of an operation: the debugger can compute it */
    TP__DEBUG_KNOWN = 4 /* flag of an operation: its values have been computed */
};

typedef struct tp__debugger {
    tp__debug_filter filter[TP_MAX_NAMES];
    int n_filter;
    const char *run_filter;        /* the option .run_filter */
    const char *script;            /* commands to execute before those of stdin */
    bool ended;                    /* there are no more commands */
    int64_t runs_to_skip;          /* number of runs to skip without stopping */
    const tp__debug_filter *until; /* stop at the first run with a value that passes this filter */
    tp_callback *cb;
    tp_exec *exec;
    /* the run before which the debugger has stopped; NULL: it stopped outside of a run */
    const tp_run_request *request;
    int n_op, n_value;
    unsigned char *state; /* flags TP__DEBUG_... of each operation */
    int *first_value;     /* index in `value` of each operation's first output */
    tp_tensor *value;
    tp_feed *feed; /* buffers for the arguments of tp_exec_run */
    tp_node **fetch;
    const tp_tensor **results;
    int next; /* the operation that the command `step` computes next */
    tp_buf out;
    bool leave;         /* set by a command that ends the prompt: training goes on */
    tp_status leave_as; /* status that the prompt then returns */
} tp__debugger;

/* -- filters of the debugger: they test one value */

static bool tp__has_kind(const tp_tensor *value, bool nan, bool inf)
{
    const int64_t n = tp_dtype_is_float(value->dtype) ? tp_tensor_size(value) : 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = tp_tensor_get(value, i);
        if (tp__finite(x)) continue;
        if (tp__is_not_a_number(x) ? nan : inf) return true;
    }
    return false;
}
static bool tp__has_inf_or_nan(const tp_node *node, const tp_tensor *value, void *user)
{
    return (void)node, (void)user, tp__has_kind(value, true, true);
}
static bool tp__has_nan(const tp_node *node, const tp_tensor *value, void *user)
{
    return (void)node, (void)user, tp__has_kind(value, true, false);
}
static bool tp__has_inf(const tp_node *node, const tp_tensor *value, void *user)
{
    return (void)node, (void)user, tp__has_kind(value, false, true);
}
static bool tp__all_zero(const tp_node *node, const tp_tensor *value, void *user)
{
    const int64_t n = tp_tensor_size(value);
    int64_t i = 0;
    (void)node, (void)user;
    while (i < n && !(tp_tensor_get(value, i) < 0) && !(tp_tensor_get(value, i) > 0) &&
           !tp__is_not_a_number(tp_tensor_get(value, i)))
        i++;
    return n > 0 && i == n;
}

static const tp__debug_filter *tp__debug_filter_find(const tp__debugger *d, const char *name)
{
    for (int i = 0; i < d->n_filter; i++)
        if (strcmp(d->filter[i].name, name) == 0) return &d->filter[i];
    return NULL;
}

/* -- the operations of a run, and computing them */

/* Makes room for the values of all operations of the graph; anew where it has grown, as it does for a predictor. */
static tp_status tp__debug_reserve(tp__debugger *d)
{
    const tp_graph *g = d->cb->train->graph;
    tp_arena *a = &d->cb->mem_;
    if (!g || !d->cb->train->session) return tp_fail(TP_ERR_STATE, "the debugger needs a graph and a session");
    const int n = tp_graph_n_operations(g);
    if (d->state && d->n_op == n) return TP_OK;
    for (int i = 0; i < d->n_value; i++) tp_tensor_free(&d->value[i]);
    d->n_value = 0;
    d->state = NULL;
    d->first_value = (int *)tp_arena_alloc(a, ((size_t)n + 1) * sizeof *d->first_value);
    int n_value = 0;
    for (int i = 0; d->first_value && i < n; i++) {
        d->first_value[i] = n_value;
        n_value += tp_graph_operation(g, i)->n_out;
    }
    const size_t values = (size_t)n_value + 1;
    d->value = (tp_tensor *)tp_arena_alloc(a, values * sizeof *d->value);
    d->fetch = (tp_node **)tp_arena_alloc(a, values * sizeof *d->fetch);
    d->results = (const tp_tensor **)tp_arena_alloc(a, values * sizeof *d->results);
    d->feed = (tp_feed *)tp_arena_alloc(a, 2 * values * sizeof *d->feed);
    d->n_value = d->value ? n_value : 0;
    if (!d->exec) d->exec = tp_exec_new(d->cb->train->session);
    if (d->first_value && d->value && d->fetch && d->results && d->feed && d->exec)
        d->state = (unsigned char *)tp_arena_alloc(a, (size_t)n + 1);
    d->n_op = n;
    return d->state ? TP_OK : tp_fail(TP_ERR_NOMEM, "out of memory for the debugger");
}

static bool tp__debug_fed(const tp__debugger *d, const tp_node *n)
{
    for (int i = 0; d->request && i < d->request->n_feed; i++)
        if (d->request->feed[i].node == n) return true;
    return false;
}

/* Whether this operation can be run twice without an effect on the training. Does not look at its operands. */
static bool tp__debug_can_repeat(const tp__debugger *d, const tp_operation *o)
{
    const unsigned flags = o->row->flags;
    bool fed = o->n_out > 0;
    for (int k = 0; k < o->n_out; k++) fed = fed && tp__debug_fed(d, &o->out[k]);
    if (fed) return true;
    if (strcmp(o->row->name, "placeholder") == 0) return false;
    if (flags & (TP_OP_WRITES_VAR | TP_OP_COLLECTIVE)) return false;
    return !(flags & TP_OP_HOST) || o->row->fault || o->row == &tp__op_print;
}

/* Marks the operations of the run, and those that the debugger can compute. */
static tp_status tp__debug_begin(tp__debugger *d, const tp_run_request *request)
{
    const tp_graph *g = d->cb->train->graph;
    const tp_status st = tp__debug_reserve(d);
    if (st != TP_OK) return st;
    d->request = request;
    d->next = 0;
    memset(d->state, request ? 0 : TP__DEBUG_PART, (size_t)d->n_op);
    for (int i = 0; request && i < request->n_fetch; i++) d->state[request->fetch[i]->op->id] = TP__DEBUG_PART;
    for (int i = d->n_op - 1; i >= 0; i--) { /* operands have smaller indices than their readers */
        const tp_operation *o = tp_graph_operation(g, i);
        if (!(d->state[i] & TP__DEBUG_PART)) continue;
        for (int k = 0; k < o->n_in; k++) d->state[o->in[k]->op->id] |= TP__DEBUG_PART;
        for (int k = 0; k < o->n_ctrl; k++) d->state[o->ctrl[k]->id] |= TP__DEBUG_PART;
    }
    for (int i = 0; i < d->n_op; i++) {
        const tp_operation *o = tp_graph_operation(g, i);
        bool can_compute = tp__debug_can_repeat(d, o);
        for (int k = 0; k < o->n_in && can_compute; k++)
            can_compute = (d->state[o->in[k]->op->id] & TP__DEBUG_OPEN) != 0;
        for (int k = 0; k < o->n_ctrl && can_compute; k++)
            can_compute = (d->state[o->ctrl[k]->id] & TP__DEBUG_OPEN) != 0;
        if (can_compute) d->state[i] |= TP__DEBUG_OPEN;
    }
    return TP_OK;
}

static int tp__debug_count(const tp__debugger *d, unsigned marks)
{
    int n = 0;
    for (int i = 0; i < d->n_op; i++) n += (d->state[i] & marks) == marks;
    return n;
}

/* Appends the known values of an operation's operands to the feeds. Placeholders are in the feeds of the run. */
static int tp__debug_feed(const tp__debugger *d, const tp_operation *o, int n_feed)
{
    for (int k = 0; k < o->n_in; k++) {
        tp_node *x = o->in[k];
        bool is_fed = (x->op->row->flags & TP_OP_SOURCE) || !(d->state[x->op->id] & TP__DEBUG_KNOWN);
        for (int i = 0; i < n_feed && !is_fed; i++) is_fed = d->feed[i].node == x;
        const tp_tensor *v = &d->value[d->first_value[x->op->id] + x->index];
        if (is_fed || n_feed >= 2 * d->n_value) continue;
        d->feed[n_feed].node = x;
        memset(&d->feed[n_feed].value, 0, sizeof d->feed[n_feed].value);
        tp_tensor_view(&d->feed[n_feed++].value, v->dtype, v->shape, v->data);
    }
    return n_feed;
}

/* Computes in one run the operations from..to that have one of the marks and that the debugger can compute. */
static tp_status tp__debug_compute(tp__debugger *d, int from, int to, unsigned marks)
{
    const tp_graph *g = d->cb->train->graph;
    int n_fetch = 0, n_feed = 0;
    for (int i = 0; d->request && i < d->request->n_feed; i++) d->feed[n_feed++] = d->request->feed[i];
    for (int i = from; i <= to; i++) {
        const tp_operation *o = tp_graph_operation(g, i);
        if (!(d->state[i] & marks) || !(d->state[i] & TP__DEBUG_OPEN) || (d->state[i] & TP__DEBUG_KNOWN)) continue;
        n_feed = tp__debug_feed(d, o, n_feed);
        for (int k = 0; k < o->n_out; k++) {
            d->results[n_fetch] = NULL;
            d->fetch[n_fetch++] = &o->out[k];
        }
    }
    if (!n_fetch) return TP_OK;
    if (d->request) tp_exec_set_random_step(d->exec, tp_exec_random_step(d->request->exec));
    tp_status st = tp_exec_run(d->exec, d->feed, n_feed, d->fetch, n_fetch, d->results);
    /* after TP_ERR_NUMERIC (a failed check of numbers) all values have been computed; none, if a constant failed it */
    if (st != TP_OK && (st != TP_ERR_NUMERIC || !d->results[0])) return st;
    st = TP_OK;
    for (int i = 0; i < n_fetch && st == TP_OK; i++) {
        const tp_operation *o = d->fetch[i]->op;
        st = tp_tensor_copy(&d->value[d->first_value[o->id] + d->fetch[i]->index], d->results[i]);
        if (st == TP_OK) d->state[o->id] |= TP__DEBUG_KNOWN;
    }
    return st;
}

/* -- printing values and operations */

static void tp__debug_name(tp_buf *b, const tp_node *n)
{
    tp_buf_printf(b, n->index ? "%s:%d" : "%s", tp_node_name(n), n->index);
}

/* Prints a tensor as "f32 (2,3)  min -1 mean 0.5 max 2" and the number of elements that are NaN or infinite. */
static void tp__debug_summary(tp_buf *b, const tp_tensor *v)
{
    char shape[TP_SHAPE_TEXT];
    const int64_t n = tp_tensor_size(v);
    double low = 0, high = 0, sum = 0;
    int64_t nan = 0, inf = 0, finite = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = tp_tensor_get(v, i);
        nan += tp__is_not_a_number(x);
        inf += !tp__finite(x) && !tp__is_not_a_number(x);
        if (!tp__finite(x)) continue;
        if (!finite || x < low) low = x;
        if (!finite || x > high) high = x;
        sum += x;
        finite++;
    }
    tp_buf_printf(b, "%s %s", tp_dtype_name(v->dtype), tp_shape_text(&v->shape, shape));
    if (finite == 1) tp_buf_printf(b, "  %.6g", low);
    else if (finite) tp_buf_printf(b, "  min %.4g mean %.4g max %.4g", low, sum / (double)finite, high);
    if (nan) tp_buf_printf(b, "  nan %lld of %lld", (long long)nan, (long long)n);
    if (inf) tp_buf_printf(b, "  inf %lld of %lld", (long long)inf, (long long)n);
}

/* Prints a line for each output of an operation. */
static void tp__debug_line(tp__debugger *d, const tp_operation *o)
{
    for (int k = 0; k < o->n_out; k++) {
        const size_t begin = d->out.len;
        tp_buf_printf(&d->out, "%5d  ", o->id);
        tp__debug_name(&d->out, &o->out[k]);
        while (d->out.len - begin < 44 && !d->out.failed) tp_buf_put(&d->out, " ", 1);
        tp_buf_printf(&d->out, " %-14s ", o->row->name);
        if (d->state[o->id] & TP__DEBUG_KNOWN) tp__debug_summary(&d->out, &d->value[d->first_value[o->id] + k]);
        else tp_buf_printf(&d->out, d->state[o->id] & TP__DEBUG_OPEN ? "not computed yet" : "cannot be looked at");
        tp_buf_printf(&d->out, "\n");
    }
}

static void tp__debug_where(tp_buf *b, const tp_operation *o)
{
    char place[TP__PLACE_TEXT];
    tp__place_text(&o->at, place);
    /* the text ends with ": ", which is omitted */
    if (*place) tp_buf_printf(b, ", made at %.*s", (int)strlen(place) - 2, place);
}

static void tp__debug_flush(tp__debugger *d)
{
    tp__os_signals before;
    tp__os_pipe_begin(&before);
    if (d->out.len) fwrite(d->out.data, 1, d->out.len, stdout);
    if (d->out.failed) fputs("(there is no memory for this answer)\n", stdout);
    const bool is_written = fflush(stdout) == 0;
    tp__os_pipe_end(&before);
    if (!is_written) tp_log_once(TP_LOG_WARN, "the debugger's answers cannot be written to stdout: %s", tp__os_error());
    tp_buf_free(&d->out);
    memset(&d->out, 0, sizeof d->out);
}

/* Prints why the debugger cannot compute an operation: it names the earliest operand that it cannot compute. */
static void tp__debug_why_closed(tp__debugger *d, const tp_operation *o)
{
    const tp_operation *at = o;
    for (;;) {
        const tp_operation *before = NULL;
        for (int k = 0; k < at->n_in && !before; k++)
            if (!(d->state[at->in[k]->op->id] & TP__DEBUG_OPEN)) before = at->in[k]->op;
        for (int k = 0; k < at->n_ctrl && !before; k++)
            if (!(d->state[at->ctrl[k]->id] & TP__DEBUG_OPEN)) before = at->ctrl[k];
        if (!before) break;
        at = before;
    }
    const char *reason = strcmp(at->row->name, "placeholder") == 0 ? "gets no data here"
                         : at->row->flags & TP_OP_WRITES_VAR       ? "changes a variable"
                         : at->row->flags & TP_OP_COLLECTIVE       ? "waits for other machines"
                                                                   : "runs a function of the program";
    tp_buf_printf(&d->out, "'%s' cannot be looked at here: %s'%s' %s\n", o->name,
                  at == o ? "" : "it depends on another operation, ", at->name, reason);
}

/* -- splitting a command into words */

enum { TP__DEBUG_WORDS = 8, TP__DEBUG_LINE = 1024 };
typedef struct tp__debug_args {
    char text[TP__DEBUG_LINE];
    const char *word[TP__DEBUG_WORDS];
    int n;
} tp__debug_args;

/* Splits at spaces, but not within brackets. */
static void tp__debug_split(tp__debug_args *a, const char *line)
{
    char *p = a->text;
    int depth = 0;
    snprintf(a->text, sizeof a->text, "%s", line);
    for (a->n = 0; a->n < TP__DEBUG_WORDS; a->n++) {
        p += strspn(p, " \t\r\n");
        if (!*p) return;
        a->word[a->n] = p;
        for (; *p && (depth > 0 || !strchr(" \t\r\n", *p)); p++) depth += (*p == '[') - (*p == ']' && depth > 0);
        if (*p) *p++ = 0;
    }
}

/* Parses an integer that is 0 or more; returns -1 if it is none. */
static int64_t tp__debug_number(const char *text)
{
    char *end;
    const long long v = strtoll(text, &end, 10);
    return end == text || *end || v < 0 ? -1 : (int64_t)v;
}

/* Finds a node by name; if there is none, prints a sentence and returns NULL. */
static tp_node *tp__debug_find(tp__debugger *d, const char *name)
{
    tp_node *n = tp__train_find(d->cb->train, name);
    if (!n) tp_buf_printf(&d->out, "%s\n", tp_last_error());
    return n;
}

/* Finds a node by name and computes its value; on failure prints why and returns NULL. */
static tp_node *tp__debug_value(tp__debugger *d, const char *name)
{
    tp_node *n = tp__debug_find(d, name);
    if (!n) return NULL;
    const int id = n->op->id;
    if (!(d->state[id] & TP__DEBUG_OPEN)) {
        tp__debug_why_closed(d, n->op);
        return NULL;
    }
    if (tp__debug_compute(d, id, id, TP__DEBUG_OPEN) != TP_OK) {
        tp_buf_printf(&d->out, "%s\n", tp_last_error());
        return NULL;
    }
    return n;
}

/* -- commands; `a` holds the words of the command line */

static void tp__debug_continue(tp__debugger *d, tp_status st)
{
    d->leave = true;
    d->leave_as = st;
}

static void tp__debug_run(tp__debugger *d, const tp__debug_args *a)
{
    const int64_t n = a->n > 1 ? tp__debug_number(a->word[1]) : 1;
    d->runs_to_skip = 0;
    d->until = NULL;
    if (a->n == 3 && strcmp(a->word[1], "-f") == 0) {
        if (!(d->until = tp__debug_filter_find(d, a->word[2]))) {
            tp_buf_printf(&d->out, "there is no filter '%s'; 'filters' lists them\n", a->word[2]);
            return;
        }
    } else if (a->n == 2 && strcmp(a->word[1], "-n") == 0) {
        d->ended = true;
    } else if (n < 1 || a->n > 2) {
        tp_buf_printf(&d->out, "run [N | -f FILTER | -n]\n");
        return;
    } else {
        d->runs_to_skip = n - 1;
    }
    tp__debug_continue(d, TP_OK);
}

static void tp__debug_steps(tp__debugger *d, const tp__debug_args *a)
{
    int64_t n = a->n > 1 ? tp__debug_number(a->word[1]) : 1;
    if (n < 1) {
        tp_buf_printf(&d->out, "step [N]\n");
        return;
    }
    for (; n > 0 && d->next < d->n_op; d->next++) {
        const int i = d->next;
        if (!(d->state[i] & TP__DEBUG_PART) || !(d->state[i] & TP__DEBUG_OPEN)) continue;
        if (tp__debug_compute(d, i, i, TP__DEBUG_PART) != TP_OK) {
            tp_buf_printf(&d->out, "%s\n", tp_last_error());
            return;
        }
        tp__debug_line(d, tp_graph_operation(d->cb->train->graph, i));
        n--;
    }
    if (n > 0) tp_buf_printf(&d->out, "all that can be looked at before the step runs is computed\n");
}

static void tp__debug_redirect(tp__debugger *d, const tp__debug_args *a)
{
    tp_node *n = a->n == 2 ? tp__debug_find(d, a->word[1]) : NULL;
    if (a->n != 2) tp_buf_printf(&d->out, "to NODE\n");
    if (!n) return;
    if (!(d->state[n->op->id] & TP__DEBUG_OPEN)) {
        tp__debug_why_closed(d, n->op);
    } else if (tp__debug_compute(d, 0, n->op->id, TP__DEBUG_PART) != TP_OK || !tp__debug_value(d, a->word[1])) {
        tp_buf_printf(&d->out, "%s\n", tp_last_error());
    } else {
        d->next = n->op->id + 1;
        tp__debug_line(d, n->op);
    }
}

static bool tp__debug_passes(const tp__debugger *d, const tp_operation *o, const tp__debug_filter *f)
{
    for (int k = 0; k < o->n_out; k++)
        if ((d->state[o->id] & TP__DEBUG_KNOWN) && f->fn(&o->out[k], &d->value[d->first_value[o->id] + k], f->user))
            return true;
    return false;
}

static void tp__debug_list(tp__debugger *d, const tp__debug_args *a)
{
    const tp__debug_filter *f = NULL;
    const char *pattern = NULL;
    tp_regex *re = NULL;
    int n_shown = 0;
    for (int i = 1; i < a->n; i++) {
        if (strcmp(a->word[i], "-f") == 0 && i + 1 < a->n) {
            if (!(f = tp__debug_filter_find(d, a->word[++i]))) {
                tp_buf_printf(&d->out, "there is no filter '%s'; 'filters' lists them\n", a->word[i]);
                return;
            }
        } else {
            pattern = a->word[i];
        }
    }
    if ((pattern && tp_regex_new(pattern, &re) != TP_OK) ||
        tp__debug_compute(d, 0, d->n_op - 1, TP__DEBUG_PART) != TP_OK) {
        tp_buf_printf(&d->out, "%s\n", tp_last_error());
        tp_regex_free(re);
        return;
    }
    for (int i = 0; i < d->n_op; i++) {
        const tp_operation *o = tp_graph_operation(d->cb->train->graph, i);
        bool matches = (d->state[i] & TP__DEBUG_PART) && (!f || tp__debug_passes(d, o, f));
        if (matches && re && tp_regex_search(re, o->name, &matches, NULL, 0) != TP_OK) matches = false;
        if (!matches) continue;
        tp__debug_line(d, o);
        n_shown++;
    }
    tp_buf_printf(&d->out, "%d of %d operations\n", n_shown, tp__debug_count(d, TP__DEBUG_PART));
    tp_regex_free(re);
}

/* Parses a slice such as "[2, 0:3, :]" into the first index and the end of each dimension. Returns false if it is not a
 * slice of this shape. */
static bool tp__debug_slice(const char *p, const tp_shape *s, int64_t *from, int64_t *to)
{
    for (int i = 0; i < s->ndim; i++) {
        from[i] = 0;
        to[i] = s->dim[i];
    }
    if (!*p) return true;
    if (*p++ != '[') return false;
    for (int i = 0;; i++) {
        char *end;
        p += strspn(p, " ");
        if (i >= s->ndim) return false;
        const bool has_first = *p != ':' && *p != ',' && *p != ']';
        int64_t v = has_first ? strtoll(p, &end, 10) : 0;
        if (has_first && end == p) return false;
        if (has_first) p = end;
        from[i] = v < 0 ? v + s->dim[i] : v;
        if (has_first && *p != ':') to[i] = from[i] + 1;
        if (*p == ':') {
            p++;
            v = strtoll(p, &end, 10);
            if (end != p) to[i] = v < 0 ? v + s->dim[i] : v < s->dim[i] ? v : s->dim[i];
            p = end;
        }
        p += strspn(p, " ");
        if (from[i] < 0 || from[i] >= s->dim[i] || to[i] > s->dim[i] || to[i] <= from[i]) return false;
        if (*p == ']') return p[1] == 0;
        if (*p++ != ',') return false;
    }
}

/* Prints the elements of a slice: a line for each index of the dimensions before the last. */
static void tp__debug_elements(tp__debugger *d, const tp_tensor *v, const int64_t *from, const int64_t *to,
                               bool print_all)
{
    const tp_shape *s = &v->shape;
    const int last_dim = s->ndim - 1;
    int64_t at[TP_MAX_DIMS], lines = 0, left_out = 0;
    for (int i = 0; i < s->ndim; i++) at[i] = from[i];
    for (bool has_more = tp_tensor_size(v) > 0; has_more;) {
        if (!print_all && lines >= 20) left_out++;
        else {
            if (s->ndim > 1) tp_buf_printf(&d->out, "[");
            for (int i = 0; i < last_dim; i++) tp_buf_printf(&d->out, "%s%lld", i ? "," : "", (long long)at[i]);
            if (s->ndim > 1) tp_buf_printf(&d->out, "] ");
            const int64_t end = s->ndim ? to[last_dim] : 1;
            for (int64_t k = s->ndim ? from[last_dim] : 0; k < end; k++) {
                int64_t index = 0;
                for (int i = 0; i < last_dim; i++) index = index * s->dim[i] + at[i];
                if (s->ndim) index = index * s->dim[last_dim] + k;
                if (!print_all && k - from[last_dim < 0 ? 0 : last_dim] >= 12) {
                    tp_buf_printf(&d->out, " ..");
                    break;
                }
                tp_buf_printf(&d->out, " %.6g", tp_tensor_get(v, index));
            }
            tp_buf_printf(&d->out, "\n");
        }
        lines++;
        int i = last_dim - 1;
        for (; i >= 0 && ++at[i] >= to[i]; i--) at[i] = from[i];
        has_more = i >= 0;
    }
    if (left_out) tp_buf_printf(&d->out, "%lld more lines: print a slice, or -a for all\n", (long long)left_out);
}

static void tp__debug_print(tp__debugger *d, const tp__debug_args *a)
{
    int64_t from[TP_MAX_DIMS + 1], to[TP_MAX_DIMS + 1];
    char name[TP__DEBUG_LINE];
    const bool print_all = a->n == 3 && strcmp(a->word[2], "-a") == 0;
    memset(from, 0, sizeof from);
    memset(to, 0, sizeof to);
    if (a->n < 2 || (a->n > 2 && !print_all)) {
        tp_buf_printf(&d->out, "print NODE[SLICE] [-a]\n");
        return;
    }
    const size_t length = strcspn(a->word[1], "[");
    snprintf(name, sizeof name, "%.*s", (int)length, a->word[1]);
    const tp_node *n = tp__debug_value(d, name);
    if (!n) return;
    const tp_tensor *v = &d->value[d->first_value[n->op->id] + n->index];
    tp__debug_name(&d->out, n);
    tp_buf_printf(&d->out, "  ");
    tp__debug_summary(&d->out, v);
    tp_buf_printf(&d->out, "\n");
    if (tp__debug_slice(a->word[1] + length, &v->shape, from, to)) tp__debug_elements(d, v, from, to, print_all);
    else tp_buf_printf(&d->out, "'%s' is no slice of this shape; one is [0, 2:5, :]\n", a->word[1] + length);
}

/* Prints the operations that read a value of the operation o. */
static void tp__debug_readers(tp__debugger *d, const tp_operation *o, bool lines)
{
    int n = 0;
    for (int i = o->id + 1; i < d->n_op; i++) {
        const tp_operation *r = tp_graph_operation(d->cb->train->graph, i);
        bool reads = false;
        for (int k = 0; k < r->n_in; k++) reads = reads || r->in[k]->op == o;
        if (!reads) continue;
        if (lines) tp__debug_line(d, r);
        else tp_buf_printf(&d->out, "%s%s", n ? ", " : "", r->name);
        n++;
    }
    if (!n) tp_buf_printf(&d->out, lines ? "no operation reads it\n" : "nothing");
}

static void tp__debug_node(tp__debugger *d, const tp__debug_args *a)
{
    const tp_node *n = a->n == 2 ? tp__debug_find(d, a->word[1]) : NULL;
    if (a->n != 2) tp_buf_printf(&d->out, "node NODE\n");
    if (!n) return;
    const tp_operation *o = n->op;
    tp_buf_printf(&d->out, "%s: operation %d, %s", o->name, o->id, o->row->name);
    tp__debug_where(&d->out, o);
    tp_buf_printf(&d->out, "\n  makes\n");
    tp__debug_line(d, o);
    if (o->n_in) tp_buf_printf(&d->out, "  reads\n");
    for (int k = 0; k < o->n_in; k++) tp__debug_line(d, o->in[k]->op);
    if (o->n_ctrl) tp_buf_printf(&d->out, "  runs after\n");
    for (int k = 0; k < o->n_ctrl; k++) tp__debug_line(d, o->ctrl[k]);
    tp_buf_printf(&d->out, "  is read by ");
    tp__debug_readers(d, o, false);
    tp_buf_printf(&d->out, "\n");
    if (!(d->state[o->id] & TP__DEBUG_OPEN)) tp__debug_why_closed(d, o);
}

static void tp__debug_inputs(tp__debugger *d, const tp__debug_args *a)
{
    const tp_node *n = a->n == 2 ? tp__debug_find(d, a->word[1]) : NULL;
    if (a->n != 2) tp_buf_printf(&d->out, "inputs NODE\n");
    for (int k = 0; n && k < n->op->n_in; k++) tp__debug_line(d, n->op->in[k]->op);
    if (n && !n->op->n_in) tp_buf_printf(&d->out, "it reads nothing\n");
}

static void tp__debug_outputs(tp__debugger *d, const tp__debug_args *a)
{
    const tp_node *n = a->n == 2 ? tp__debug_find(d, a->word[1]) : NULL;
    if (a->n != 2) tp_buf_printf(&d->out, "outputs NODE\n");
    if (n) tp__debug_readers(d, n->op, true);
}

static void tp__debug_filters(tp__debugger *d, const tp__debug_args *a)
{
    (void)a;
    for (int i = 0; i < d->n_filter; i++) tp_buf_printf(&d->out, "%s\n", d->filter[i].name);
}

static void tp__debug_stat(tp__debugger *d, const tp__debug_args *a)
{
    const tp_monitors *m = d->cb->train->monitors;
    int n = 0;
    for (int i = 0; m && i < m->n_history; i++) {
        const struct tp__history *h = &m->history[i];
        if (!h->n || (a->n > 1 && strcmp(a->word[1], h->name) != 0)) continue;
        tp_buf_printf(&d->out, "%s: %.6g (global_step %lld)\n", h->name, h->stat[h->n - 1].value,
                      (long long)h->stat[h->n - 1].step);
        n++;
    }
    if (!n) tp_buf_printf(&d->out, "nothing of that name was reported\n");
}

static void tp__debug_set(tp__debugger *d, const tp__debug_args *a)
{
    tp_node *n = a->n == 3 ? tp__debug_find(d, a->word[1]) : NULL;
    const tp_variable *v = n ? tp_node_variable(n) : NULL;
    const char *end = "";
    const double value = a->n == 3 ? tp_parse_double(a->word[2], &end) : 0;
    tp_tensor t;
    memset(&t, 0, sizeof t);
    if (a->n != 3 || end == a->word[2] || *end) {
        tp_buf_printf(&d->out, "set VARIABLE VALUE\n");
    } else if (n && (!v || tp_shape_size(&v->shape) != 1)) {
        tp_buf_printf(&d->out, "'%s' is no variable of one number\n", a->word[1]);
    } else if (n) {
        tp_status st = tp_tensor_resize(&t, v->dtype, v->shape);
        if (st == TP_OK) tp_tensor_set(&t, 0, value);
        if (st == TP_OK) st = tp_session_load(d->cb->train->session, v, &t);
        if (st == TP_OK) st = tp__debug_begin(d, d->request); /* values computed with the old value are discarded */
        tp_buf_printf(&d->out, "%s\n", st == TP_OK ? "set" : tp_last_error());
    }
    tp_tensor_free(&t);
}

static tp_status tp__debug_save_one(tp_callback *cb, void *user)
{
    if (tp__is_saver(cb, NULL) != TP_STOP) return TP_OK;
    tp_callback_request_checkpoint(cb);
    ++*(int *)user;
    return TP_OK;
}

static void tp__debug_save(tp__debugger *d, const tp__debug_args *a)
{
    int n = 0;
    (void)a;
    tp__visit(d->cb->train->callbacks, d->cb->train->n_callbacks, tp__debug_save_one, &n);
    tp_buf_printf(&d->out, n ? "a checkpoint is written when the callbacks of this step or epoch have had their turn\n"
                             : "this training has no ModelSaver\n");
}

static void tp__debug_stop(tp__debugger *d, const tp__debug_args *a)
{
    (void)a;
    tp__debug_continue(d, tp_stop(d->cb->train, "the debugger was told to"));
}

static void tp__debug_help(tp__debugger *d, const tp__debug_args *a);

typedef struct tp__debug_command {
    const char *name, *other, *args, *help; /* other: a second name of the command, as in TensorFlow's debugger */
    void (*fn)(tp__debugger *d, const tp__debug_args *a);
} tp__debug_command;
static const tp__debug_command tp__debug_commands[] = {
    {"run", "r", "[N | -f FILTER | -n]",
     "go on to the next step; over N steps; until a value passes FILTER; to the end", tp__debug_run},
    {"step", "s", "[N]", "compute the next N operations", tp__debug_steps},
    {"to", "cont", "NODE", "compute all operations up to NODE", tp__debug_redirect},
    {"list", "lt", "[-f FILTER] [REGEX]", "all values of the step", tp__debug_list},
    {"print", "pt", "NODE[SLICE] [-a]", "a value", tp__debug_print},
    {"node", "ni", "NODE", "what the operation is, reads and makes", tp__debug_node},
    {"inputs", "li", "NODE", "what it reads", tp__debug_inputs},
    {"outputs", "lo", "NODE", "what reads it", tp__debug_outputs},
    {"filters", "lf", "", "the names of the filters", tp__debug_filters},
    {"stat", "st", "[NAME]", "the newest values that were reported", tp__debug_stat},
    {"set", "=", "VARIABLE VALUE", "change a variable of one number", tp__debug_set},
    {"save", "w", "", "write a checkpoint", tp__debug_save},
    {"stop", "exit", "", "end the training, as success", tp__debug_stop},
    {"help", "h", "", "this list", tp__debug_help},
};

static void tp__debug_help(tp__debugger *d, const tp__debug_args *a)
{
    (void)a;
    for (int i = 0; i < TP_COUNT(tp__debug_commands); i++) {
        const tp__debug_command *c = &tp__debug_commands[i];
        char usage[80];
        snprintf(usage, sizeof usage, "%s (%s) %s", c->name, c->other, c->args);
        tp_buf_printf(&d->out, "  %-36s %s\n", usage, c->help);
    }
}

/* -- the debugger's prompt */

/* Reads the next command: first from the script, then from stdin. Returns false if there is none. */
static bool tp__debug_read(tp__debugger *d, char line[TP__DEBUG_LINE])
{
    if (d->script && *d->script) {
        const size_t n = strcspn(d->script, ";\n");
        snprintf(line, TP__DEBUG_LINE, "%.*s", (int)(n < TP__DEBUG_LINE ? n : TP__DEBUG_LINE - 1), d->script);
        d->script += n + (d->script[n] != 0);
        tp_buf_printf(&d->out, "%s\n", line);
        return true;
    }
    while (!tp__os_stdin_ready(0.1)) /* Ctrl-C shortly before a blocking read would go unnoticed */
        if (tp__os_interrupted()) return false;
    errno = 0;
    if (fgets(line, TP__DEBUG_LINE, stdin)) return true;
    if (errno == EINTR) clearerr(stdin);
    else d->ended = true;
    return false;
}

static void tp__debug_do(tp__debugger *d, const char *line)
{
    tp__debug_args a;
    memset(&a, 0, sizeof a);
    tp__debug_split(&a, line);
    if (!a.n) return;
    for (int i = 0; i < TP_COUNT(tp__debug_commands); i++) {
        const tp__debug_command *c = &tp__debug_commands[i];
        if (strcmp(a.word[0], c->name) != 0 && strcmp(a.word[0], c->other) != 0) continue;
        c->fn(d, &a);
        return;
    }
    tp_buf_printf(&d->out, "there is no command '%s'; 'help' lists them\n", a.word[0]);
}

/* Executes commands until one of them continues the training. */
static tp_status tp__debug_prompt(tp__debugger *d)
{
    char line[TP__DEBUG_LINE];
    d->leave = false;
    d->leave_as = TP_OK;
    while (!d->leave) {
        tp_buf_printf(&d->out, "tp> ");
        tp__debug_flush(d);
        if (tp__debug_read(d, line)) {
            tp__debug_do(d, line);
            tp__debug_flush(d);
            continue;
        }
        if (tp__os_interrupted()) {
            d->ended = true;
            tp__debug_continue(d, TP_OK); /* the trainer handles Ctrl-C itself */
        } else if (d->ended) {
            tp_log(TP_LOG_INFO, "The debugger's commands are over: training goes on without it.");
            tp__debug_continue(d, TP_OK);
        }
    }
    d->request = NULL;
    return d->leave_as;
}

static tp__debugger *tp__debugger_init(tp_callback *cb)
{
    static const tp__debug_filter builtin_filters[] = {{"has_inf_or_nan", tp__has_inf_or_nan, NULL},
                                                       {"has_nan", tp__has_nan, NULL},
                                                       {"has_inf", tp__has_inf, NULL},
                                                       {"all_zero", tp__all_zero, NULL}};
    tp__debugger *d = (tp__debugger *)cb->user;
    d->cb = cb;
    d->n_filter = TP_COUNT(builtin_filters);
    memcpy(d->filter, builtin_filters, sizeof builtin_filters);
    return d;
}

static void tp__debugger_close(tp_callback *cb)
{
    tp__debugger *d = (tp__debugger *)cb->user;
    for (int i = 0; d->value && i < d->n_value; i++) tp_tensor_free(&d->value[i]);
    tp_exec_free(d->exec);
    tp_buf_free(&d->out);
}

/* -- the debugger before each step ------------------------------------------------- >>callback TFLocalCLIDebugHook */

/* Computes the run and sets *found if a value passes the filter d->until; prints the first such operation. */
static tp_status tp__debug_until(tp__debugger *d, bool *found)
{
    const tp_graph *g = d->cb->train->graph;
    const tp_operation *first = NULL;
    int n = 0;
    *found = false;
    const tp_status st = tp__debug_compute(d, 0, d->n_op - 1, TP__DEBUG_PART);
    if (st != TP_OK) return st;
    for (int i = 0; i < d->n_op; i++) {
        const tp_operation *o = tp_graph_operation(g, i);
        if (!tp__debug_passes(d, o, d->until)) continue;
        if (!first) first = o;
        n++;
    }
    if (!first) return TP_OK;
    *found = true;
    tp_buf_printf(&d->out, "\n%s: %d of %d operations; the first is '%s' (%s)", d->until->name, n,
                  tp__debug_count(d, TP__DEBUG_KNOWN), first->name, first->row->name);
    tp__debug_where(&d->out, first);
    tp_buf_printf(&d->out, "\n");
    tp__debug_line(d, first);
    for (int k = 0; k < first->n_in; k++) tp__debug_line(d, first->in[k]->op);
    return TP_OK;
}

static tp_status tp__debug_cli_before_train(tp_callback *cb)
{
    tp__debugger *d = (tp__debugger *)cb->user;
    if (!d->run_filter || (d->until = tp__debug_filter_find(d, d->run_filter))) return TP_OK;
    tp_buf names;
    memset(&names, 0, sizeof names);
    for (int i = 0; i < d->n_filter; i++) tp_buf_printf(&names, "%s%s", i ? ", " : "", d->filter[i].name);
    const tp_status st =
        tp_fail(TP_ERR_NAME, "the debugger has no filter '%s', but %s; tp_debug_cli_add_tensor_filter adds one",
                d->run_filter, names.data ? names.data : "others");
    tp_buf_free(&names);
    return st;
}

static tp_status tp__debug_cli_before_run(tp_callback *cb, tp_run_request *r)
{
    tp__debugger *d = (tp__debugger *)cb->user;
    bool stop = true;
    if (d->ended) return TP_OK;
    if (d->runs_to_skip > 0) {
        d->runs_to_skip--;
        return TP_OK;
    }
    tp_status st = tp__debug_begin(d, r);
    if (st == TP_OK && d->until) st = tp__debug_until(d, &stop);
    if (st != TP_OK || !stop) return st;
    d->until = NULL;
    tp_buf_printf(&d->out,
                  "%sbefore step %lld of epoch %lld (global_step %lld): %d operations, %d of which can be looked at. "
                  "'help' lists the commands\n",
                  d->out.len ? "" : "\n", (long long)cb->train->local_step + 1, (long long)cb->train->epoch_num,
                  (long long)cb->train->global_step, tp__debug_count(d, TP__DEBUG_PART),
                  tp__debug_count(d, TP__DEBUG_PART | TP__DEBUG_OPEN));
    return tp__debug_prompt(d);
}

TP_DEF tp_callback *tp_cb_debug_cli_(const tp_cb_debug_cli_desc *desc)
{
    if (!desc) return tp__cb_no_options(__func__);
    tp_callback *cb = tp_callback_new("TFLocalCLIDebugHook", sizeof(tp__debugger));
    if (!cb) return NULL;
    tp__debugger *d = tp__debugger_init(cb);
    if ((desc->commands && !(d->script = tp_arena_strdup(&cb->mem_, desc->commands))) ||
        (desc->run_filter && !(d->run_filter = tp_arena_strdup(&cb->mem_, desc->run_filter)))) {
        tp__callback_delete(cb);
        return NULL;
    }
    cb->before_train = tp__debug_cli_before_train;
    cb->before_run = tp__debug_cli_before_run;
    cb->close = tp__debugger_close;
    return cb;
}

TP_DEF tp_status tp_debug_cli_add_tensor_filter(tp_callback *debugger, const char *name, tp_tensor_filter_fn fn,
                                                void *user)
{
    TP__REQUIRE(name && *name && fn, TP_ERR_ARG)
    const tp_status st = tp_callback_status(debugger);
    if (st != TP_OK) return st;
    if (debugger->close != tp__debugger_close) return tp_fail(TP_ERR_ARG, "'%s' is no debugger", debugger->name);
    tp__debugger *d = (tp__debugger *)debugger->user;
    if (tp__debug_filter_find(d, name)) return tp_fail(TP_ERR_NAME, "the debugger has a filter '%s' already", name);
    if (d->n_filter == TP_MAX_NAMES) return tp_fail(TP_ERR_ARG, "the debugger holds %d filters", TP_MAX_NAMES);
    tp__debug_filter *f = &d->filter[d->n_filter];
    if (!(f->name = tp_arena_strdup(&debugger->mem_, name))) return TP_ERR_NOMEM;
    f->fn = fn;
    f->user = user;
    d->n_filter++;
    return TP_OK;
}

/* -- the debugger when a file exists ------------------------------------------------------- >>callback InjectShell */

typedef struct tp__inject {
    tp__debugger debugger; /* must be the first field, so that cb->user points to it */
    const char *file;
} tp__inject;

static tp_status tp__inject_trigger(tp_callback *cb)
{
    tp__inject *s = (tp__inject *)cb->user;
    if (s->debugger.ended || !tp_file_exists(s->file)) return TP_OK;
    tp_log(TP_LOG_INFO, "'%s' exists: the debugger opens.", s->file);
    const tp_status st = tp__debug_begin(&s->debugger, NULL);
    if (st != TP_OK) return st;
    tp_buf_printf(&s->debugger.out, "\nafter epoch %lld (global_step %lld). 'help' lists the commands, 'run' goes on\n",
                  (long long)cb->train->epoch_num, (long long)cb->train->global_step);
    return tp__debug_prompt(&s->debugger);
}

static tp_status tp__inject_after_train(tp_callback *cb)
{
    const tp__inject *s = (const tp__inject *)cb->user;
    if (tp_file_exists(s->file) && tp__os_remove(s->file) != 0)
        tp_log(TP_LOG_WARN, "InjectShell: '%s' cannot be deleted: %s", s->file, tp__os_error());
    return TP_OK;
}

TP_DEF tp_callback *tp_cb_inject_shell_(const tp_cb_inject_shell_desc *d)
{
    if (!d) return tp__cb_no_options(__func__);
    tp_callback *cb = tp_callback_new("InjectShell", sizeof(tp__inject));
    if (!cb) return NULL;
    tp__debugger_init(cb);
    if (!(((tp__inject *)cb->user)->file = tp__arena_copy(&cb->mem_, d->file, "INJECT_SHELL.tmp"))) {
        tp__callback_delete(cb);
        return NULL;
    }
    cb->trigger = tp__inject_trigger;
    cb->after_train = tp__inject_after_train;
    cb->close = tp__debugger_close;
    return cb;
}

/* ==== >>built-in monitors ============================================================================= */

/* -- table of names and values, in which JSONWriter and ScalarPrinter collect statistics */
/* Clearing the table keeps its memory, so after a while nothing more is allocated. */

typedef struct tp__table_entry {
    size_t name; /* offset of the name in tp__table.names */
    double value;
    bool is_int;
} tp__table_entry;

typedef struct tp__table {
    tp__table_entry *entry; /* one entry per name, ordered by the time of the name's first value */
    int n, cap;
    tp_buf names;
} tp__table;

static const char *tp__table_name(const tp__table *t, int i) { return t->names.data + t->entry[i].name; }

/* Appends a value, or replaces the earlier value of the same name. */
static tp_status tp__table_put(tp__table *t, const char *name, const tp_stat *s)
{
    int i = 0;
    while (i < t->n && strcmp(tp__table_name(t, i), name) != 0) i++;
    if (i == t->n) {
        if (t->n == t->cap) {
            const int cap = t->cap ? t->cap * 2 : 32;
            tp__table_entry *entry = (tp__table_entry *)tp_realloc(t->entry, (size_t)cap * sizeof *entry);
            if (!entry) return TP_ERR_NOMEM;
            t->entry = entry;
            t->cap = cap;
        }
        t->entry[i].name = t->names.len;
        tp_buf_put(&t->names, name, strlen(name) + 1);
        if (t->names.failed) return tp_fail(TP_ERR_NOMEM, "out of memory for the name of a statistic");
        t->n++;
    }
    t->entry[i].value = s->value;
    t->entry[i].is_int = s->is_int;
    return TP_OK;
}

static void tp__table_clear(tp__table *t)
{
    t->n = 0;
    t->names.len = 0;
}

static void tp__table_free(tp__table *t)
{
    tp_free(t->entry);
    tp_buf_free(&t->names);
}

/* -- event files -------------------------------------------------------------------------- >>monitor TFEventWriter */

typedef struct tp__events {
    const char *dir;
    bool disabled, split, failed;
    int max_queue, queued, n_file;
    double flush_secs, flush_time;
    int file; /* file descriptor + 1; 0: no open file */
    tp_buf queue, payload;
    tp_callback *cb;
} tp__events;

/* After an I/O error no more events are written. The training continues; the error is reported at its end. */
static void tp__events_error(tp__events *e, const char *problem)
{
    tp_callback_set_unsaved(e->cb, "%s in '%s': %s. No events were written there after global_step=%lld", problem,
                            e->dir, tp__os_error(), (long long)tp__step_of(e->cb));
    tp_log(TP_LOG_ERROR, "TFEventWriter: %s", e->cb->unsaved ? e->cb->unsaved : problem);
    e->failed = true;
    if (e->file) tp__os_close(e->file - 1);
    e->file = 0;
}

static void tp__events_shut(tp__events *e)
{
    const int file = e->file;
    e->file = 0;
    if (file && tp__os_close(file - 1) != 0) tp__events_error(e, "cannot close the event file");
}

static tp_status tp__events_flush(tp__events *e)
{
    if (e->queue.failed) return tp_fail(TP_ERR_NOMEM, "out of memory for the events of TFEventWriter");
    if (!e->file) return TP_OK; /* what other callbacks report in setup_graph waits for the file */
    if (e->queue.len && tp__os_write(e->file - 1, e->queue.data, e->queue.len) != 0)
        tp__events_error(e, "cannot write events");
    e->queue.len = 0;
    e->queued = 0;
    e->flush_time = tp_time();
    return TP_OK;
}

static tp_status tp__events_add(tp__events *e, double wall_time, int64_t step, unsigned field, const void *data,
                                size_t size)
{
    if (e->disabled || e->failed) return TP_OK;
    tp__event(&e->queue, wall_time, step, field, data, size);
    e->queued++;
    return e->queue.failed || e->queued >= e->max_queue || tp_time() - e->flush_time >= e->flush_secs
               ? tp__events_flush(e)
               : TP_OK;
}

#define TP__EVENTS_NAME "events.out.tfevents."
#define TP__EVENTS_MOST 9999999999 /* seconds: the ten digits of a name */

/* user: the largest time in the name of an event file. */
static bool tp__events_latest(void *user, const char *name)
{
    int64_t *latest = (int64_t *)user;
    const size_t n = sizeof TP__EVENTS_NAME - 1;
    const long long time = strncmp(name, TP__EVENTS_NAME, n) == 0 ? strtoll(name + n, NULL, 10) : 0;
    if (time > *latest && time < TP__EVENTS_MOST) *latest = time;
    return false;
}

static tp_status tp__events_open(tp__events *e)
{
    static const char version[] = "brain.Event:2";
    char host[256], path[TP__PATH], number[24] = "";
    /* TensorBoard reads the files in the order of their names: this one is the last, also if the clock was set back */
    int64_t latest = 0, time = (int64_t)tp__os_wall();
    tp__os_list(e->dir, tp__events_latest, &latest);
    if (time <= latest) time = latest + 1;
    tp__os_host(host, sizeof host);
    do { /* never reuse a file, not even of another process that began now: its last record may be incomplete */
        if (e->n_file) snprintf(number, sizeof number, ".%d", e->n_file);
        const tp_status st =
            tp__path(path, "%s/" TP__EVENTS_NAME "%010lld.%s%s", e->dir, (long long)time, host, number);
        if (st != TP_OK) return st;
        e->file = tp__os_open(path, TP__OS_NEW) + 1;
    } while (!e->file && errno == EEXIST && e->n_file++ < 100000);
    e->n_file++;
    if (!e->file) {
        tp__events_error(e, "cannot make an event file");
        return TP_OK;
    }
    e->flush_time = tp_time();
    tp_buf early = e->queue; /* the version comes before what was added before there was a file */
    if (early.len) {
        memset(&e->queue, 0, sizeof e->queue);
        e->queue.failed = early.failed;
    }
    const tp_status st = tp__events_add(e, tp__os_wall(), 0, 3, version, sizeof version - 1);
    if (early.len) {
        tp_buf_put(&e->queue, early.data, early.len);
        tp_buf_free(&early);
    }
    return st;
}

/* For the monitors that write into the logger's directory: one sentence for all of a training. */
static void tp__warn_without_dir(tp_callback *cb)
{
    if (!cb->train->without_dir_)
        tp_log(
            TP_LOG_WARN,
            "No logger directory was set: stats.json, report.html and the event file are not written: %s, for example "
            "tp_logger_set_dir(\"train_log/my_run\", 'd').",
            tp__logger_missing());
    cb->train->without_dir_ = true;
}

static tp_status tp__events_setup_graph(tp_callback *cb)
{
    tp__events *e = (tp__events *)cb->user;
    tp__os_info is;
    if (!e->dir && tp_logger_dir() && !(e->dir = tp_arena_strdup(&cb->mem_, tp_logger_dir()))) return TP_ERR_NOMEM;
    if (!e->dir) {
        tp__warn_without_dir(cb);
        e->disabled = true;
        return TP_OK;
    }
    if (tp__os_stat(e->dir, true, &is) != 0 || is.kind != TP__OS_DIR)
        return tp_fail(TP_ERR_IO, "TFEventWriter: '%s' is no directory", e->dir);
    return tp__events_open(e);
}

/* Writes GraphDef{node=1{name=1, op=2, input=3}}: names and edges, with which TensorBoard draws the graph. */
static tp_status tp__events_before_train(tp_callback *cb)
{
    tp__events *e = (tp__events *)cb->user;
    const tp_graph *g = cb->train->graph;
    tp_buf graph, node;
    if (e->disabled || e->failed || !g) return TP_OK;
    memset(&graph, 0, sizeof graph);
    memset(&node, 0, sizeof node);
    for (int i = 0; i < tp_graph_n_operations(g); i++) {
        const tp_operation *op = tp_graph_operation(g, i);
        node.len = 0;
        tp__pb_bytes(&node, 1, op->name, strlen(op->name));
        tp__pb_bytes(&node, 2, op->row->label, strlen(op->row->label));
        for (int k = 0; k < op->n_in + op->n_ctrl; k++) {
            char input[700];
            const bool control = k >= op->n_in;
            const char *name = control ? op->ctrl[k - op->n_in]->name : op->in[k]->op->name;
            const int index = control ? 0 : op->in[k]->index;
            if (index) snprintf(input, sizeof input, "%s:%d", name, index);
            else snprintf(input, sizeof input, "%s%s", control ? "^" : "", name);
            tp__pb_bytes(&node, 3, input, strlen(input));
        }
        if (node.failed) graph.failed = true;
        else tp__pb_bytes(&graph, 1, node.data, node.len);
    }
    tp_status st = graph.failed ? tp_fail(TP_ERR_NOMEM, "out of memory for the graph of TFEventWriter") : TP_OK;
    /* SessionLog{status=START}: TensorBoard drops what an earlier process reported of later steps */
    static const char start[] = {8, 1};
    if (st == TP_OK && cb->resumed)
        st = tp__events_add(e, tp__os_wall(), cb->train->global_step + 1, 7, start, sizeof start);
    if (st == TP_OK && graph.len) st = tp__events_add(e, tp__os_wall(), 0, 4, graph.data, graph.len);
    tp_buf_free(&graph);
    tp_buf_free(&node);
    return st;
}

static tp_status tp__events_summary(tp_monitor *m, const tp_summary *s)
{
    tp__events *e = (tp__events *)m->cb.user;
    if (e->disabled || e->failed) return TP_OK;
    e->payload.len = 0;
    for (int i = 0; i < s->n; i++) {
        const tp_summary_value *v = &s->value[i];
        if (v->kind == TP_SUMMARY_SCALAR) tp__summary_scalar(&e->payload, v->tag, (float)v->scalar);
        else if (v->kind == TP_SUMMARY_HISTOGRAM) tp__summary_histogram(&e->payload, v->tag, v->tensor);
        else if (v->kind == TP_SUMMARY_IMAGE) {
            const tp_status st = tp__summary_image(&e->payload, v->tag, v->tensor);
            if (st != TP_OK) return st;
        }
    }
    if (e->payload.failed) return tp_fail(TP_ERR_NOMEM, "out of memory for a summary of TFEventWriter");
    return tp__events_add(e, tp__os_wall(), tp__step_of(&m->cb), 5, e->payload.len ? e->payload.data : "",
                          e->payload.len);
}

static tp_status tp__events_event(tp_monitor *m, const tp_event *event)
{
    return tp__events_add((tp__events *)m->cb.user, event->wall_time, event->step, event->field, event->data,
                          event->size);
}

static tp_status tp__events_trigger(tp_callback *cb)
{
    tp__events *e = (tp__events *)cb->user;
    if (e->disabled || e->failed) return TP_OK;
    const tp_status st = tp__events_flush(e);
    if (st != TP_OK || !e->split || e->failed) return st;
    tp__events_shut(e);
    return e->failed ? TP_OK : tp__events_open(e);
}

static tp_status tp__events_after_train(tp_callback *cb)
{
    tp__events *e = (tp__events *)cb->user;
    if (!e->file) return TP_OK;
    const tp_status st = tp__events_flush(e);
    tp__events_shut(e);
    e->disabled = true;
    return st;
}

static void tp__events_close(tp_callback *cb)
{
    tp__events *e = (tp__events *)cb->user;
    tp__events_shut(e);
    tp_buf_free(&e->queue);
    tp_buf_free(&e->payload);
}

TP_DEF tp_monitor *tp_monitor_tf_event_writer_(const tp_monitor_tf_event_writer_desc *d)
{
    if (!d) return tp_monitor_fail(NULL, TP_ERR_ARG, "%s: the descriptor is NULL", __func__);
    if (d->max_queue < TP_NONE || d->flush_secs < 0)
        return tp_monitor_fail(&d->at_, TP_ERR_ARG, "TFEventWriter: .max_queue is %d, .flush_secs %g", d->max_queue,
                               d->flush_secs);
    tp_monitor *m = tp_monitor_new("TFEventWriter", sizeof(tp__events));
    if (!m) return NULL;
    tp__events *e = (tp__events *)m->cb.user;
    e->cb = &m->cb;
    if (d->logdir && !(e->dir = tp_arena_strdup(&m->cb.mem_, d->logdir))) {
        tp_monitor_free(m);
        return NULL;
    }
    e->max_queue = (int)tp__int_option(d->max_queue, 10);
    e->flush_secs = d->flush_secs > 0 && d->flush_secs <= (double)TP_ZERO ? 0 : d->flush_secs > 0 ? d->flush_secs : 120;
    e->split = d->split_files == TP_YES;
    m->cb.setup_graph = tp__events_setup_graph;
    m->cb.before_train = tp__events_before_train;
    m->cb.trigger = tp__events_trigger;
    m->cb.after_train = tp__events_after_train;
    m->cb.close = tp__events_close;
    m->process_summary = tp__events_summary;
    m->process_event = tp__events_event;
    return m;
}

/* -- stats.json ------------------------------------------------------------------------------ >>monitor JSONWriter */

typedef struct tp__json_writer {
    const char *dir;
    tp__table pending; /* values reported since the last record */
    tp_buf records;    /* text of the file without the final bracket: "[{...}, {...}" */
    size_t written;    /* number of bytes of `records` that the file contains */
    bool cut;          /* the file contains later records that must be removed */
    bool begun;        /* before_train has read what was in the file, so that writing the file loses nothing */
} tp__json_writer;

TP_DEF tp_status tp_load_existing_epoch_number(const char *dir, int64_t *epoch)
{
    TP__REQUIRE(epoch, TP_ERR_ARG)

    char *text = NULL;
    size_t size = 0;
    const tp_status st = tp__stats_load(dir, &text, &size, epoch, 0, -1, NULL);
    tp_free(text);
    return st;
}

TP_DEF tp_status tp_load_existing_json(const char *dir, char **text)
{
    TP__REQUIRE(text, TP_ERR_ARG)

    size_t size = 0;
    int64_t epoch = 0;
    return tp__stats_load(dir, text, &size, &epoch, 0, -1, NULL);
}

/* Reads the records of stats.json in two passes: the first counts them, the second stores them. */
typedef struct tp__stats_reader {
    tp_stat_entry *entry; /* entries to fill; NULL in the first pass, which only counts */
    char *names;
    size_t bytes;
    int n, first; /* n: entries so far; first: the first entry of the current record */
    int64_t epoch;
    bool has_step;
} tp__stats_reader;

static tp_status tp__stats_number(void *user, const char *key, const tp_stat *stat)
{
    tp__stats_reader *r = (tp__stats_reader *)user;
    const size_t size = strlen(key) + 1;
    if (strcmp(key, "epoch_num") == 0 || strcmp(key, "global_step") == 0) {
        if (*key == 'e' && stat->value >= 0 && stat->value < 9e15) r->epoch = (int64_t)stat->value;
        if (*key == 'g') r->has_step = true;
        return TP_OK;
    }
    if (r->entry) {
        tp_stat_entry *e = &r->entry[r->n];
        e->name = (const char *)memcpy(r->names + r->bytes, key, size);
        e->value = stat->value;
        e->epoch_num = e->global_step = -1;
    }
    r->bytes += size;
    r->n++;
    return TP_OK;
}

static tp_status tp__stats_record(void *user, int64_t step)
{
    tp__stats_reader *r = (tp__stats_reader *)user;
    for (int i = r->first; r->entry && i < r->n; i++) {
        r->entry[i].epoch_num = r->epoch;
        if (r->has_step) r->entry[i].global_step = step;
    }
    r->first = r->n;
    r->epoch = -1;
    r->has_step = false;
    return TP_OK;
}

TP_DEF tp_status tp_load_existing_stats(const char *dir, tp_stat_entry **entries, int *n)
{
    TP__REQUIRE(entries && n, TP_ERR_ARG)

    char *text = NULL;
    size_t size = 0;
    int64_t epoch = 0;
    tp__stats_reader r;
    *entries = NULL;
    *n = 0;
    memset(&r, 0, sizeof r);
    tp_status st = tp__stats_load(dir, &text, &size, &epoch, 0, -1, NULL);
    for (int pass = 0; pass < 2 && st == TP_OK; pass++) {
        tp__json j;
        memset(&j, 0, sizeof j);
        j.p = text;
        j.end = text + size;
        j.limit = 9e15;
        j.n_epochs = -1;
        j.number_fn = tp__stats_number;
        j.object_fn = tp__stats_record;
        j.user = &r;
        if (pass) {
            r.entry = (tp_stat_entry *)tp_malloc((size_t)r.n * sizeof *r.entry + r.bytes + 1);
            if (!r.entry) st = tp_fail(TP_ERR_NOMEM, "out of memory for the records of stats.json");
            else r.names = (char *)(r.entry + r.n);
            r.bytes = 0;
            r.n = r.first = 0;
        }
        r.epoch = -1;
        r.has_step = false;
        if (st == TP_OK) tp__json_value(&j); /* cannot fail: tp__stats_load has checked the text */
    }
    tp_free(text);
    *entries = r.entry;
    *n = st == TP_OK ? r.n : 0;
    return st;
}

static tp_status tp__json_setup_graph(tp_callback *cb)
{
    tp__json_writer *j = (tp__json_writer *)cb->user;
    if (!tp_logger_dir()) tp__warn_without_dir(cb);
    else if (!(j->dir = tp_arena_strdup(&cb->mem_, tp_logger_dir()))) return TP_ERR_NOMEM;
    return TP_OK;
}

/* Writes n bytes at byte `at` of a file of `before` bytes. False: it has another size, or an I/O error. */
static bool tp__json_overwrite(const char *path, size_t before, size_t at, const char *data, size_t n, bool sync)
{
    char blank[256];
    tp__os_info is;
    const int fd = tp__os_open(path, TP__OS_CHANGE);
    if (fd < 0) return false;
    bool ok =
        tp__os_fstat(fd, &is) == 0 && is.kind == TP__OS_FILE && is.size == before && tp__os_seek(fd, (int64_t)at) == 0;
    /* the disk is full: write the final ']' of the JSON list where it was before, and blanks over the rest of the file */
    if (ok && tp__os_write(fd, data, n) != 0) {
        ok = false;
        memset(blank, ' ', sizeof blank);
        uint64_t left = tp__os_fstat(fd, &is) == 0 && is.size > before ? is.size - before : 0;
        bool is_repaired = tp__os_seek(fd, (int64_t)at) == 0 && tp__os_write(fd, "]", 1) == 0;
        for (size_t chunk; is_repaired && left > 0; left -= chunk) {
            chunk = left < sizeof blank ? (size_t)left : sizeof blank;
            is_repaired = tp__os_write(fd, blank, chunk) == 0;
        }
    }
    if (ok && sync) ok = tp__os_sync(fd) == 0;
    return tp__os_close(fd) == 0 && ok;
}

/* Writes the whole file. */
static tp_status tp__json_rewrite(const char *path, const char *data, size_t n)
{
    tp_writer *w = NULL;
    tp_status st = tp_writer_open(&w, path);
    if (st == TP_OK) st = tp_writer_put(w, data, n);
    if (st == TP_OK) return tp_writer_commit(w);
    tp_writer_abort(w);
    return st;
}

/* Writes the new records to the file. If it has the size that this writer gave it, they overwrite its last byte, the ']', so that a step
 * costs the same however long the training is; otherwise the whole file is written. This is one call of write(): a kill before or
 * after it leaves a list that can be read. A power failure may leave a part of a record, which a resume drops. sync: wait until
 * the file is on the disk; done once per epoch. */
static tp_status tp__json_write(tp_callback *cb, bool sync)
{
    tp__json_writer *j = (tp__json_writer *)cb->user;
    char path[TP__PATH];
    tp_status st = tp__path(path, "%s/stats.json", j->dir);
    if (st != TP_OK) return st;
    tp_buf_put(&j->records, "]", 1);
    if (j->records.failed) return tp_fail(TP_ERR_NOMEM, "out of memory for stats.json");
    const size_t at = j->written;
    if (!at || j->cut || !tp__json_overwrite(path, at + 1, at, j->records.data + at, j->records.len - at, sync))
        st = tp__json_rewrite(path, j->records.data, j->records.len);
    j->records.data[--j->records.len] = 0;
    if (st == TP_OK) {
        j->written = j->records.len;
        j->cut = false;
        tp_callback_set_unsaved(cb, NULL);
    }
    if (st != TP_ERR_IO) return st;
    tp_callback_set_unsaved(cb, "'%s' was not written at global_step=%lld: %s", path, (long long)cb->train->global_step,
                            tp_last_error());
    tp_log(TP_LOG_ERROR, "JSONWriter: '%s' was not written: %s", path, tp_last_error());
    return TP_OK;
}

/* Appends the reported values as one record. */
static tp_status tp__json_flush(tp_callback *cb, bool sync)
{
    tp__json_writer *j = (tp__json_writer *)cb->user;
    tp_buf *b = &j->records;
    if (!j->dir || !j->pending.n) return TP_OK;
    tp_buf_printf(b, b->len > 1 ? ", {" : b->len ? "{" : "[{");
    for (int i = 0; i < j->pending.n; i++) {
        tp__json_string(b, tp__table_name(&j->pending, i));
        tp_buf_printf(b, ": ");
        const double value = j->pending.entry[i].value;
        if (j->pending.entry[i].is_int && tp__finite(value))
            tp_buf_printf(b, "%.0f", value == 0 ? 0 : value); /* -0 is 0 */
        else tp__json_double(b, value);
        tp_buf_printf(b, ", ");
    }
    tp_buf_printf(b, "\"epoch_num\": %lld, \"global_step\": %lld}", (long long)cb->train->epoch_num,
                  (long long)cb->train->global_step);
    tp__table_clear(&j->pending);
    return b->failed ? tp_fail(TP_ERR_NOMEM, "out of memory for stats.json") : tp__json_write(cb, sync);
}

/* Renames a stats.json of another training. Returns false if that fails; then no new file is written. */
static bool tp__json_set_aside(tp_callback *cb, int64_t epoch)
{
    tp__json_writer *j = (tp__json_writer *)cb->user;
    char from[TP__PATH], to[TP__PATH];
    if (tp__path(from, "%s/stats.json", j->dir) != TP_OK || tp__set_aside(from, from, ".", TP__OS_FILE, to) != TP_OK) {
        tp_callback_set_unsaved(cb, "the old '%s' cannot be set aside, and no new one is written: %s", from,
                                tp_last_error());
        tp_log(TP_LOG_ERROR, "JSONWriter: %s", cb->unsaved ? cb->unsaved : "out of memory");
        j->dir = NULL;
        return false;
    }
    if (epoch < 0)
        tp_log(TP_LOG_WARN, "stats.json has no epoch that can be read: the file is damaged. The old file is now '%s'.",
               to);
    else
        tp_log(TP_LOG_WARN,
               "History epoch=%lld from JSON is not the predecessor of the current starting_epoch=%lld. If you "
               "want to resume old "
               "training, either use auto_resume or correctly set the starting_epoch. The old file is now '%s'.",
               (long long)epoch, (long long)cb->train->starting_epoch, to);
    return true;
}

/* Reads the records of the file up to step `limit` and epoch n_epochs (negative: any) into j->records. TP_ERR_NAME: there is no
 * file. */
static tp_status tp__json_read(tp__json_writer *j, int64_t limit, int64_t n_epochs, int64_t *epoch)
{
    char *text = NULL;
    size_t size = 0, kept = 0;
    const tp_status st = tp__stats_load(j->dir, &text, &size, epoch, limit, n_epochs, &kept);
    if (st != TP_OK) return st;
    const size_t blanks = strspn(text, " \t\r\n"); /* before the list; they are not written again */
    j->records.len = 0;
    if (kept > blanks + 1) tp_buf_put(&j->records, text + blanks, kept - blanks);
    j->written = j->records.len;
    j->cut = j->written ? blanks || strspn(text + kept, "] \t\r\n") != size - kept : *epoch >= 0;
    tp_free(text);
    return j->records.failed ? tp_fail(TP_ERR_NOMEM, "out of memory for stats.json") : TP_OK;
}

/* Appends to an existing stats.json if this training starts at the epoch after its last one; renames it otherwise. */
static tp_status tp__json_before_train(tp_callback *cb)
{
    tp__json_writer *j = (tp__json_writer *)cb->user;
    int64_t epoch = -1;
    if (!j->dir) return TP_OK;
    if (!cb->resumed) {
        const tp_status st = tp__json_read(j, INT64_MAX, -1, &epoch);
        if (st != TP_OK && st != TP_ERR_NAME) return st;
        if (epoch < 0 || (epoch > 0 && epoch + 1 == cb->train->starting_epoch)) {
            if (st == TP_OK) tp_log(TP_LOG_INFO, "Found existing JSON inside %s, will append to it.", j->dir);
        } else {
            if (!tp__json_set_aside(cb, epoch)) return TP_OK;
            j->records.len = j->written = 0;
        }
    }
    j->begun = true;
    if (j->pending.n) return tp__json_flush(cb, true);
    return cb->resumed && (j->cut || j->written != j->records.len) ? tp__json_write(cb, true) : TP_OK;
}

/* Saves the records that could not be written to stats.json, and whether it has any: not how many bytes, which depend on the clock
 * if a record tells a speed. */
static tp_status tp__json_save_state(tp_callback *cb, tp_dict *d, const char *prefix)
{
    const tp__json_writer *j = (const tp__json_writer *)cb->user;
    const size_t n = j->written ? j->written + 2 : 1; /* skip the records in the file and ", ", or only the '[' */
    const int64_t written = (int64_t)j->written, exists = 1;
    tp_status st = j->written ? tp_state_put_i64(d, prefix, "exists", &exists, 1) : TP_OK;
    if (st != TP_OK || j->records.len <= n) return st;
    st = tp_state_put_i64(d, prefix, "written", &written, 1);
    if (st != TP_OK) return st;
    return tp__state_put(d, prefix, "unwritten", TP_U8, j->records.data + n, (int64_t)(j->records.len - n));
}

/* Adds the values of a record to the history, at the end of the record, when its step is known. */
static tp_status tp__json_history(void *user, int64_t step)
{
    tp_callback *cb = (tp_callback *)user;
    tp__table *t = &((tp__json_writer *)cb->user)->pending;
    tp_status st = TP_OK;
    for (int i = 0; i < t->n && st == TP_OK; i++) {
        tp_stat s;
        s.step = step;
        s.value = t->entry[i].value;
        s.is_int = t->entry[i].is_int;
        st = tp__history_add(cb->train->monitors, tp__table_name(t, i), &s);
    }
    tp__table_clear(t);
    return st;
}

static tp_status tp__json_history_number(void *user, const char *key, const tp_stat *stat)
{
    tp_callback *cb = (tp_callback *)user;
    if (strcmp(key, "epoch_num") == 0 || strcmp(key, "global_step") == 0) return TP_OK;
    return tp__table_put(&((tp__json_writer *)cb->user)->pending, key, stat);
}

/* The file is written before the checkpoint of its epoch, so it may contain records of steps that will run again: these
 * are dropped. Records that could not be written are in the checkpoint. All records become the history of the monitors. */
static tp_status tp__json_load_state(tp_callback *cb, const tp_dict *d, const char *prefix)
{
    tp__json_writer *j = (tp__json_writer *)cb->user;
    int64_t n = 0, epoch = -1, written = 0, exists = 0;
    const void *text = tp__state_find(d, prefix, "unwritten", TP_U8, &n);
    tp__json in;
    if (!j->dir) return TP_OK;
    /* where epochs have no steps, the record of an epoch that will run again has no later step: its number tells */
    int64_t of[2] = {-1, 1};
    if (tp_state_get_i64(d, "tp:", "epoch", of, 2) && !of[1]) of[0]++;
    tp_status st = tp__json_read(j, cb->train->global_step, of[0], &epoch);
    if (st == TP_OK) tp_log(TP_LOG_INFO, "Found existing JSON inside %s, will append to it.", j->dir);
    if (st == TP_ERR_FORMAT && !tp__json_set_aside(cb, epoch)) return TP_OK;
    if (st != TP_OK && st != TP_ERR_NAME && st != TP_ERR_FORMAT) return st;
    if (st == TP_ERR_NAME && tp_state_get_i64(d, prefix, "exists", &exists, 1))
        tp_log(TP_LOG_WARN,
               "There is no stats.json in %s: the history of earlier epochs is lost, and the file begins anew.",
               j->dir);
    /* a later write may have stored these records in the file: cut the file where they begin */
    if (n > 0 && tp_state_get_i64(d, prefix, "written", &written, 1)) {
        if (written >= 0 && (size_t)written < j->records.len) {
            j->records.len = (size_t)written;
            j->cut = true;
        }
        tp_buf_printf(&j->records, j->records.len ? ", " : "[");
        tp_buf_put(&j->records, text, (size_t)n);
    }
    memset(&in, 0, sizeof in);
    in.limit = (double)cb->train->global_step;
    in.n_epochs = -1;
    in.number_fn = tp__json_history_number;
    in.object_fn = tp__json_history;
    in.user = cb;
    const size_t size = j->records.len;
    tp_buf_put(&j->records, "]", 1);
    if (j->records.failed) return tp_fail(TP_ERR_NOMEM, "out of memory for stats.json");
    in.p = j->records.data;
    in.end = in.p + j->records.len;
    if (size && cb->train->monitors) tp__json_value(&in);
    j->records.len = size;
    return in.status;
}

static tp_status tp__json_trigger_step(tp_callback *cb)
{
    /* the last step of an epoch is written with the epoch's values */
    return cb->train->local_step != cb->train->steps_per_epoch - 1 ? tp__json_flush(cb, false) : TP_OK;
}

static tp_status tp__json_trigger(tp_callback *cb) { return tp__json_flush(cb, true); }

static tp_status tp__json_scalar(tp_monitor *m, const char *name, const tp_stat *s)
{
    tp__json_writer *j = (tp__json_writer *)m->cb.user;
    return tp__table_put(&j->pending, name, s);
}

static tp_status tp__json_after_train(tp_callback *cb)
{
    const tp__json_writer *j = (const tp__json_writer *)cb->user;
    if (j->begun && j->pending.n && !j->records.failed)
        return tp__json_flush(cb, true); /* training ended within a phase */
    return j->dir && !j->records.failed && j->written != j->records.len ? tp__json_write(cb, true) : TP_OK;
}

static void tp__json_close(tp_callback *cb)
{
    tp__json_writer *j = (tp__json_writer *)cb->user;
    tp__table_free(&j->pending);
    tp_buf_free(&j->records);
}

TP_DEF tp_monitor *tp_monitor_json_writer(void)
{
    tp_monitor *m = tp_monitor_new("JSONWriter", sizeof(tp__json_writer));
    if (!m) return NULL;
    m->cb.setup_graph = tp__json_setup_graph;
    m->cb.before_train = tp__json_before_train;
    m->cb.after_train = tp__json_after_train;
    m->cb.save_state = tp__json_save_state;
    m->cb.load_state = tp__json_load_state;
    m->cb.trigger_step = tp__json_trigger_step;
    m->cb.trigger = tp__json_trigger;
    m->cb.close = tp__json_close;
    m->process_scalar = tp__json_scalar;
    return m;
}

/* -- printing the statistics -------------------------------------------------------------- >>monitor ScalarPrinter */

typedef struct tp__printer tp__printer;
struct tp__printer {
    bool enable_step, enable_epoch;
    tp_regex **list; /* regexes of the whitelist, then those of the blacklist */
    int n_whitelist, n_list;
    /* whether to print a name; NULL: prints all */
    tp_status (*wants)(const tp__printer *p, const char *name, bool *yes);
    tp__table pending;
};

static tp_status tp__printer_print(tp_callback *cb)
{
    tp__printer *p = (tp__printer *)cb->user;
    const char *last_name =
        NULL; /* prints in alphabetical order: each time the smallest name larger than `last_name` */
    for (int left = p->pending.n; left > 0; left--) {
        int best = -1;
        for (int i = 0; i < p->pending.n; i++) {
            const char *name = tp__table_name(&p->pending, i);
            if (last_name && strcmp(name, last_name) <= 0) continue;
            if (best < 0 || strcmp(name, tp__table_name(&p->pending, best)) < 0) best = i;
        }
        last_name = tp__table_name(&p->pending, best);
        const double v = p->pending.entry[best].value;
        bool wanted = true;
        const tp_status st = p->wants ? p->wants(p, last_name, &wanted) : TP_OK;
        if (st != TP_OK) return st;
        if (!wanted) continue;
        if (v != v) tp_log(TP_LOG_INFO, "%s: nan", last_name);
        else tp_log(TP_LOG_INFO, "%s: %.5g", last_name, v);
    }
    tp__table_clear(&p->pending);
    return TP_OK;
}

static tp_status tp__printer_trigger_step(tp_callback *cb)
{
    const tp__printer *p = (const tp__printer *)cb->user;
    const bool is_last_step = cb->train->local_step == cb->train->steps_per_epoch - 1;
    return p->enable_step && (!is_last_step || !p->enable_epoch) ? tp__printer_print(cb) : TP_OK;
}

static tp_status tp__printer_trigger(tp_callback *cb)
{
    return ((const tp__printer *)cb->user)->enable_epoch ? tp__printer_print(cb) : TP_OK;
}

static tp_status tp__printer_scalar(tp_monitor *m, const char *name, const tp_stat *s)
{
    return tp__table_put(&((tp__printer *)m->cb.user)->pending, name, s);
}

static void tp__printer_close(tp_callback *cb)
{
    tp__printer *p = (tp__printer *)cb->user;
    for (int i = 0; i < p->n_list; i++) tp_regex_free(p->list[i]);
    tp__table_free(&p->pending);
}

/* Makes a ScalarPrinter that prints everything. The default monitors use it, so that they do not need regular
 * expressions. */
static tp_monitor *tp__printer_new(void)
{
    tp_monitor *m = tp_monitor_new("ScalarPrinter", sizeof(tp__printer));
    if (!m) return NULL;
    ((tp__printer *)m->cb.user)->enable_epoch = true;
    m->cb.before_train = tp__printer_print;
    m->cb.trigger_step = tp__printer_trigger_step;
    m->cb.trigger = tp__printer_trigger;
    m->cb.close = tp__printer_close;
    m->process_scalar = tp__printer_scalar;
    return m;
}

static tp_status tp__printer_wants(const tp__printer *p, const char *name, bool *is_wanted)
{
    *is_wanted = p->n_whitelist == 0;
    for (int i = 0; i < p->n_list; i++) {
        bool matches;
        const tp_status s = tp_regex_search(p->list[i], name, &matches, NULL, 0);
        if (s != TP_OK) return s;
        if (matches) *is_wanted = i < p->n_whitelist;
    }
    return TP_OK;
}

TP_DEF tp_monitor *tp_monitor_scalar_printer_(const tp_monitor_scalar_printer_desc *d)
{
    if (!d) return tp_monitor_fail(NULL, TP_ERR_ARG, "%s: the descriptor is NULL", __func__);
    char wrong[192];
    if (tp__bad_names("ScalarPrinter", "whitelist", d->whitelist, wrong) ||
        tp__bad_names("ScalarPrinter", "blacklist", d->blacklist, wrong))
        return tp_monitor_fail(&d->at_, TP_ERR_ARG, "%s", wrong);
    tp_monitor *m = tp__printer_new();
    if (!m) return NULL;
    tp__printer *p = (tp__printer *)m->cb.user;
    p->enable_step = d->enable_step == TP_YES;
    p->enable_epoch = d->enable_epoch != TP_NO;
    p->n_whitelist = tp__count_names(d->whitelist);
    const int n = p->n_whitelist + tp__count_names(d->blacklist);
    p->list = (tp_regex **)tp_arena_alloc(&m->cb.mem_, (size_t)(n + 1) * sizeof *p->list);
    tp_status s = p->list ? TP_OK : TP_ERR_NOMEM;
    for (int i = 0; i < n && s == TP_OK; i++) {
        s = tp_regex_new(i < p->n_whitelist ? d->whitelist[i] : d->blacklist[i - p->n_whitelist], &p->list[i]);
        p->n_list = i + (s == TP_OK);
    }
    if (n > 0) p->wants = tp__printer_wants;
    if (s == TP_OK) return m;
    tp_monitor_free(m);
    return s == TP_ERR_NOMEM ? NULL : tp_monitor_fail(&d->at_, s, "ScalarPrinter: %s", tp_last_error());
}

/* -- a shell command, run when all its statistics are available ------------------------- >>monitor SendMonitorData */

typedef struct tp__send_data {
    const char *command;
    const char *const *names;
    int n;
    tp_stat *stat; /* newest value of each of the names */
    bool *is_reported;
} tp__send_data;

static int tp__send_data_index(const tp__send_data *s, const char *name)
{
    int i = 0;
    while (i < s->n && strcmp(s->names[i], name) != 0) i++;
    return i < s->n ? i : -1;
}

static tp_status tp__send_data_get(void *user, const char *name, tp_stat *stat)
{
    const tp__send_data *s = (const tp__send_data *)user;
    const int i = tp__send_data_index(s, name);
    if (i < 0) return tp_fail(TP_ERR_NAME, "SendMonitorData: {%s} of the command is not one of .names", name);
    *stat = s->stat[i];
    return TP_OK;
}

static tp_status tp__send_data_scalar(tp_monitor *m, const char *name, const tp_stat *stat)
{
    tp__send_data *s = (tp__send_data *)m->cb.user;
    const int i = tp__send_data_index(s, name);
    if (i < 0) return TP_OK;
    s->stat[i] = *stat;
    s->is_reported[i] = true;
    return TP_OK;
}

static tp_status tp__send_data_trigger(tp_callback *cb)
{
    tp__send_data *s = (tp__send_data *)cb->user;
    for (int i = 0; i < s->n; i++)
        if (!s->is_reported[i]) return TP_OK;
    memset(s->is_reported, 0, (size_t)s->n * sizeof *s->is_reported);
    return tp__send_command("SendMonitorData", s->command, tp__send_data_get, s);
}

TP_DEF tp_monitor *tp_monitor_send_data_(const tp_monitor_send_data_desc *d)
{
    if (!d) return tp_monitor_fail(NULL, TP_ERR_ARG, "%s: the descriptor is NULL", __func__);
    char wrong[192];
    const int n = tp__count_names(d->names);
    if (!d->command) return tp_monitor_fail(&d->at_, TP_ERR_ARG, "SendMonitorData: the command is NULL");
    if (tp__bad_names("SendMonitorData", "names", d->names, wrong))
        return tp_monitor_fail(&d->at_, TP_ERR_ARG, "%s", wrong);
    if (n < 1) return tp_monitor_fail(&d->at_, TP_ERR_ARG, "SendMonitorData: give at least one name in .names");
    tp_monitor *m = tp_monitor_new("SendMonitorData", sizeof(tp__send_data));
    if (!m) return NULL;
    tp__send_data *s = (tp__send_data *)m->cb.user;
    s->n = n;
    s->command = tp_arena_strdup(&m->cb.mem_, d->command);
    s->names = tp__arena_names(&m->cb.mem_, d->names, n);
    s->stat = (tp_stat *)tp_arena_alloc(&m->cb.mem_, (size_t)n * sizeof *s->stat);
    s->is_reported = (bool *)tp_arena_alloc(&m->cb.mem_, (size_t)n * sizeof *s->is_reported);
    if (!s->command || !s->names || !s->stat || !s->is_reported) {
        tp_monitor_free(m);
        return NULL;
    }
    m->cb.trigger_step = tp__send_data_trigger;
    m->cb.trigger = tp__send_data_trigger;
    m->process_scalar = tp__send_data_scalar;
    return m;
}

/* -- comet.com --------------------------------------------------------------------------- >>monitor CometMLMonitor */

enum { TP__COMET_QUEUE = 10000, TP__COMET_SECONDS = 10, TP__COMET_ALIVE = 30 };

/* An HTTP request in the queue: a POST, or a GET if body.len is 0. */
typedef struct tp__comet_call {
    struct tp__comet_call *next;
    char path[1200];
    const char *type;
    tp_buf body;
} tp__comet_call;

typedef struct tp__comet {
    const char *api_key, *project, *workspace, *name, *key, *url, *library_name;
    const char *const *tags;
    int n_tags;
    void *library, *curl;
    void *(*easy_init)(void);
    int (*setopt)(void *curl, int option, ...);
    int (*perform)(void *curl);
    int (*getinfo)(void *curl, int info, ...);
    void (*cleanup)(void *curl);
    const char *(*error_text)(int code);
    void *(*list_append)(void *list, const char *text);
    void (*list_free)(void *list);
    tp_stop_flag *flag; /* flag of the sending thread; its mutex guards the fields below */
    tp__comet_call *first, **last;
    int waiting, lost;
    bool off, complained;
    tp_tensor image;
} tp__comet;

static void tp__comet_call_free(tp__comet_call *c)
{
    if (!c) return;
    tp_buf_free(&c->body);
    tp_free(c);
}

/* -- libcurl, loaded at run time; its option numbers are part of its stable ABI */

static bool tp__comet_load(tp__comet *c)
{
    static const char *const usual[] = {
#if defined(_WIN32)
        "libcurl.dll",
        "libcurl-x64.dll",
        "libcurl-4.dll",
#elif defined(__APPLE__)
        "libcurl.4.dylib",
        "libcurl.dylib",
#else
        "libcurl.so.4",
        "libcurl-gnutls.so.4",
        "libcurl-nss.so.4",
        "libcurl.so",
#endif
        NULL
    };
    const char *const given[] = {c->library_name, NULL};
    int (*global_init)(long flags) = NULL;
    if (!(c->library = tp__os_library(c->library_name ? given : usual))) return false;
    if (!tp__os_symbol(c->library, "curl_global_init", &global_init) ||
        !tp__os_symbol(c->library, "curl_easy_init", &c->easy_init) ||
        !tp__os_symbol(c->library, "curl_easy_setopt", &c->setopt) ||
        !tp__os_symbol(c->library, "curl_easy_perform", &c->perform) ||
        !tp__os_symbol(c->library, "curl_easy_getinfo", &c->getinfo) ||
        !tp__os_symbol(c->library, "curl_easy_cleanup", &c->cleanup) ||
        !tp__os_symbol(c->library, "curl_easy_strerror", &c->error_text) ||
        !tp__os_symbol(c->library, "curl_slist_append", &c->list_append) ||
        !tp__os_symbol(c->library, "curl_slist_free_all", &c->list_free))
        return false;
    return global_init(3) == 0 && (c->curl = c->easy_init()) != NULL;
}

/* libcurl's write callback: stores the first 64 KB of an answer. */
static size_t tp__comet_answer(const char *data, size_t size, size_t n, void *user)
{
    tp_buf *b = (tp_buf *)user;
    if (b->len < 65536) tp_buf_put(b, data, size * n);
    return size * n;
}

/* Sends a request and waits for the answer. Returns false on failure, and writes the error to `reason`. */
static bool tp__comet_send(tp__comet *c, const tp__comet_call *call, tp_buf *answer, char reason[256])
{
    enum {
        URL = 10002,
        POSTFIELDS = 10015,
        SIZE = 60,
        HEADERS = 10023,
        WRITE_FN = 20011,
        WRITE_DATA = 10001,
        GET = 80
    };
    enum { NO_SIGNAL = 99, TIMEOUT = 13, CONNECT_TIMEOUT = 78, RESPONSE_CODE = 0x200002 };
    char url[2400], text[600];
    long code = 0;
    snprintf(url, sizeof url, "%s%s", c->url, call->path);
    snprintf(text, sizeof text, "Authorization: %s", c->api_key);
    void *list = c->list_append(NULL, text), *more;
    snprintf(text, sizeof text, "Content-Type: %s", call->type);
    if (list && (more = c->list_append(list, text))) list = more;
    if (list && (more = c->list_append(list, "Expect:"))) list = more;
    c->setopt(c->curl, URL, url);
    c->setopt(c->curl, HEADERS, list);
    c->setopt(c->curl, NO_SIGNAL, 1L);
    c->setopt(c->curl, TIMEOUT, (long)TP__COMET_SECONDS);
    c->setopt(c->curl, CONNECT_TIMEOUT, (long)TP__COMET_SECONDS);
    c->setopt(c->curl, WRITE_FN, tp__comet_answer);
    c->setopt(c->curl, WRITE_DATA, (void *)answer);
    if (call->body.len) {
        c->setopt(c->curl, SIZE, (long)call->body.len);
        c->setopt(c->curl, POSTFIELDS, call->body.data);
    } else {
        c->setopt(c->curl, GET, 1L);
    }
    tp__os_signals before; /* with NO_SIGNAL libcurl leaves the SIGPIPE of a closed connection to its caller */
    tp__os_pipe_begin(&before);
    const int failed = c->perform(c->curl);
    tp__os_pipe_end(&before);
    if (failed) snprintf(reason, 256, "%s", c->error_text(failed));
    else if (c->getinfo(c->curl, RESPONSE_CODE, &code) != 0 || code < 200 || code > 299)
        snprintf(reason, 256, "it answered %ld %.*s", code, (int)(answer->len < 180 ? answer->len : 180),
                 answer->len ? answer->data : "");
    c->list_free(list);
    return !failed && code >= 200 && code <= 299;
}

/* -- the queue of requests and the thread that sends them */

static void tp__comet_complain(tp__comet *c, const char *request_text, const char *reason)
{
    if (!c->complained)
        tp_log(TP_LOG_WARN, "CometMLMonitor: %s%s was refused: %s. It is lost; training goes on.", c->url, request_text,
               reason);
    c->complained = true;
}

static void tp__comet_send_now(tp__comet *c, const tp__comet_call *call)
{
    char reason[256];
    tp_buf answer;
    memset(&answer, 0, sizeof answer);
    if (!tp__comet_send(c, call, &answer, reason)) tp__comet_complain(c, call->path, reason);
    tp_buf_free(&answer);
}

static void tp__comet_run(tp_stop_flag *f, void *user)
{
    tp__comet *c = (tp__comet *)user;
    double alive = tp_time();
    for (;;) {
        tp_mutex_lock(f->mutex);
        if (!c->first && !f->stop) tp_cond_wait_for(f->changed, f->mutex, TP__COMET_ALIVE);
        tp__comet_call *call = c->first;
        if (call && !(c->first = call->next)) c->last = &c->first;
        if (call) c->waiting--;
        const bool stop = f->stop && !call;
        tp_mutex_unlock(f->mutex);
        if (stop) return;
        if (call) tp__comet_send_now(c, call);
        tp__comet_call_free(call);
        if (tp_time() - alive < (double)TP__COMET_ALIVE) continue;
        tp__comet_call ping;
        memset(&ping, 0, sizeof ping);
        ping.type = "application/json";
        snprintf(ping.path, sizeof ping.path, "/write/experiment/set-status?experimentKey=%s", c->key);
        tp__comet_send_now(c, &ping);
        alive = tp_time();
    }
}

/* Makes a request whose body begins with {"experimentKey": "...". NULL: out of memory. */
static tp__comet_call *tp__comet_json(const tp__comet *c, const char *path)
{
    tp__comet_call *call = (tp__comet_call *)tp_calloc(1, sizeof *call);
    if (!call) return NULL;
    snprintf(call->path, sizeof call->path, "%s", path);
    call->type = "application/json";
    if (c->key) {
        tp_buf_printf(&call->body, "{\"experimentKey\": ");
        tp__json_string(&call->body, c->key);
    }
    return call;
}

/* Appends a request to the queue, which owns it. If the queue is full, the request is dropped. */
static tp_status tp__comet_put(tp__comet *c, tp__comet_call *call)
{
    if (!call || call->body.failed) {
        tp__comet_call_free(call);
        return tp_fail(TP_ERR_NOMEM, "out of memory for what CometMLMonitor sends");
    }
    tp_mutex_lock(c->flag->mutex);
    const bool full = c->waiting >= TP__COMET_QUEUE;
    if (!full) {
        *c->last = call;
        c->last = &call->next;
        c->waiting++;
        tp_cond_broadcast(c->flag->changed);
    }
    c->lost += full;
    tp_mutex_unlock(c->flag->mutex);
    if (full) {
        tp_log_once(TP_LOG_WARN, "CometMLMonitor: %d values wait to be sent; what comes now is lost.", TP__COMET_QUEUE);
        tp__comet_call_free(call);
    }
    return TP_OK;
}

static int64_t tp__comet_clock(void) { return (int64_t)(tp__os_wall() * 1000); } /* milliseconds since 1970 */

/* -- the hooks of CometMLMonitor */

static tp_status tp__comet_setup_graph(tp_callback *cb)
{
    tp__comet *c = (tp__comet *)cb->user;
    if (!c->api_key || !*c->api_key)
        return tp_fail(TP_ERR_ARG, "CometMLMonitor: give .api_key, or set COMET_API_KEY in the environment");
    if (!c->curl && !tp__comet_load(c))
        return tp_fail(TP_ERR_UNSUPPORTED,
                       "CometMLMonitor: %s cannot be loaded, which speaks HTTP: install libcurl (Debian: libcurl4), or "
                       "leave this monitor out",
                       c->library_name ? c->library_name : "libcurl");
    return TP_OK;
}

/* Creates an experiment and reads its key from the answer {"experimentKey": "..."}. */
static tp_status tp__comet_create(tp_callback *cb)
{
    tp__comet *c = (tp__comet *)cb->user;
    const char *const field[] = {"projectName", "workspaceName", "experimentName"};
    const char *const value[] = {c->project, c->workspace, c->name};
    tp__comet_call *call = tp__comet_json(c, "/write/experiment/create");
    char reason[256] = "it did not say which key the experiment has", key[128] = "";
    tp_buf answer;
    memset(&answer, 0, sizeof answer);
    if (!call) return TP_ERR_NOMEM;
    for (int i = 0; i < 3; i++) {
        if (!value[i]) continue;
        tp_buf_printf(&call->body, "%s\"%s\": ", call->body.len ? ", " : "{", field[i]);
        tp__json_string(&call->body, value[i]);
    }
    tp_buf_printf(&call->body, "}");
    const bool memory = !call->body.failed;
    const bool sent = memory && tp__comet_send(c, call, &answer, reason);
    tp_buf_put(&answer, "", 1);
    if (sent && !answer.failed) {
        const char *at = strstr(answer.data, "\"experimentKey\"");
        tp__json j;
        memset(&j, 0, sizeof j);
        j.p = at ? at + 15 : answer.data;
        j.end = answer.data + answer.len - 1;
        tp__json_space(&j);
        if (at && tp__json_word(&j, ":")) tp__json_space(&j);
        if (!at || !tp__json_text(&j, key, sizeof key)) key[0] = 0;
    }
    tp__comet_call_free(call);
    tp_buf_free(&answer);
    if (!memory) return tp_fail(TP_ERR_NOMEM, "out of memory for what CometMLMonitor sends");
    if (*key) return (c->key = tp_arena_strdup(&cb->mem_, key)) ? TP_OK : TP_ERR_NOMEM;
    tp_log(TP_LOG_WARN, "CometMLMonitor does nothing: there is no experiment at %s: %s.", c->url, reason);
    c->off = true;
    return TP_OK;
}

/* Sends the graph, {"nodes": [{"name": .., "op": .., "input": [..]}]} encoded as a JSON string. */
static tp_status tp__comet_graph(tp__comet *c, const tp_graph *g)
{
    tp_buf text;
    memset(&text, 0, sizeof text);
    for (int i = 0; i < tp_graph_n_operations(g); i++) {
        const tp_operation *op = tp_graph_operation(g, i);
        tp_buf_printf(&text, "%s{\"name\": ", i ? ", " : "{\"nodes\": [");
        tp__json_string(&text, op->name);
        tp_buf_printf(&text, ", \"op\": \"%s\", \"input\": [", op->row->label);
        for (int k = 0; k < op->n_in; k++) {
            if (k) tp_buf_printf(&text, ", ");
            tp__json_string(&text, op->in[k]->op->name);
        }
        tp_buf_printf(&text, "]}");
    }
    tp_buf_printf(&text, "%s", text.len ? "]}" : "{\"nodes\": []}");
    tp__comet_call *call = tp__comet_json(c, "/write/experiment/graph");
    if (call) {
        tp_buf_printf(&call->body, ", \"graph\": ");
        if (text.failed) call->body.failed = true;
        else tp__json_string(&call->body, text.data);
        tp_buf_printf(&call->body, "}");
    }
    tp_buf_free(&text);
    return tp__comet_put(c, call);
}

static tp_status tp__comet_before_train(tp_callback *cb)
{
    tp__comet *c = (tp__comet *)cb->user;
    tp_startable s;
    memset(&s, 0, sizeof s);
    s.run = tp__comet_run;
    s.user = c;
    if (c->off || c->flag) return TP_OK;
    tp_status st = c->key ? TP_OK : tp__comet_create(cb);
    if (st != TP_OK || c->off) return st;
    tp_log(TP_LOG_INFO, "CometMLMonitor: the experiment is '%s'.", c->key);
    c->last = &c->first;
    st = tp__startable_thread(&s, &c->flag);
    if (st == TP_OK && c->n_tags) {
        tp__comet_call *call = tp__comet_json(c, "/write/experiment/tags");
        for (int i = 0; call && i < c->n_tags; i++) {
            tp_buf_printf(&call->body, i ? ", " : ", \"addedTags\": [");
            tp__json_string(&call->body, c->tags[i]);
        }
        if (call) tp_buf_printf(&call->body, "]}");
        st = tp__comet_put(c, call);
    }
    return st == TP_OK && cb->train->graph ? tp__comet_graph(c, cb->train->graph) : st;
}

static tp_status tp__comet_scalar(tp_monitor *m, const char *name, const tp_stat *stat)
{
    tp__comet *c = (tp__comet *)m->cb.user;
    if (c->off || !c->flag) return TP_OK;
    tp__comet_call *call = tp__comet_json(c, "/write/experiment/metric");
    if (call) {
        const char *quote = tp__finite(stat->value) ? "" : "\"";
        tp_buf_printf(&call->body, ", \"metricName\": ");
        tp__json_string(&call->body, name);
        tp_buf_printf(&call->body, ", \"metricValue\": %s", quote);
        if (stat->is_int && tp__finite(stat->value))
            tp_buf_printf(&call->body, "%.0f", stat->value == 0 ? 0 : stat->value);
        else tp__json_double(&call->body, stat->value);
        tp_buf_printf(&call->body, "%s, \"step\": %lld, \"epoch\": %lld, \"timestamp\": %lld}", quote,
                      (long long)stat->step, (long long)m->cb.train->epoch_num, (long long)tp__comet_clock());
    }
    return tp__comet_put(c, call);
}

/* Percent-encodes a name for the query of a URL. */
static void tp__comet_escape(char *to, size_t size, const char *name)
{
    size_t n = 0;
    for (; *name && n + 4 < size; name++) {
        const unsigned char c = (unsigned char)*name;
        if (c < 128 && (isalnum(c) || strchr("-_.~", c))) to[n++] = (char)c;
        else n += (size_t)snprintf(to + n, size - n, "%%%02X", (unsigned)c);
    }
    to[n] = 0;
}

static tp_status tp__comet_image(tp_monitor *m, const char *name, const tp_tensor *image)
{
    static const char boundary[] = "tp-7d0e5a1cb34f";
    tp__comet *c = (tp__comet *)m->cb.user;
    int64_t s[4];
    tp_status st = c->off || !c->flag ? TP_STOP : tp__image_layout(image, s);
    if (st == TP_STOP) return TP_OK;
    if (st == TP_OK) st = tp_tensor_resize(&c->image, TP_U8, image->shape);
    if (st != TP_OK) return st;
    const int64_t size = s[1] * s[2] * s[3], step = (int64_t)m->cb.train->global_step;
    unsigned char *pixels = (unsigned char *)c->image.data;
    for (int64_t i = 0; i < s[0] * size; i++) {
        const double v = tp_tensor_get(image, i);
        pixels[i] = (unsigned char)(v >= 255 ? 255 : v > 0 ? v : 0);
    }
    for (int64_t i = 0; i < s[0] && st == TP_OK; i++) {
        char escaped[700], number[32] = "";
        tp__comet_call *call = (tp__comet_call *)tp_calloc(1, sizeof *call);
        if (!call) return TP_ERR_NOMEM;
        if (s[0] > 1) snprintf(number, sizeof number, "_%lld", (long long)i);
        tp__comet_escape(escaped, sizeof escaped, name);
        call->type = "multipart/form-data; boundary=tp-7d0e5a1cb34f";
        snprintf(call->path, sizeof call->path,
                 "/write/experiment/upload-asset?experimentKey=%s&type=image&fileName=%s_step%lld%s.png&step=%lld",
                 c->key, escaped, (long long)step, number, (long long)step);
        tp_buf_printf(&call->body,
                      "--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"image.png\"\r\nContent-Type: "
                      "image/png\r\n\r\n",
                      boundary);
        tp__png(&call->body, pixels + i * size, s[1], s[2], s[3]);
        tp_buf_printf(&call->body, "\r\n--%s--\r\n", boundary);
        st = tp__comet_put(c, call);
    }
    return st;
}

/* Sends the number of the finished epoch, or (end) the time at which training ended. */
static tp_status tp__comet_send_progress(tp__comet *c, int64_t epoch, bool end)
{
    tp__comet_call *call =
        tp__comet_json(c, end ? "/write/experiment/set-start-end-time" : "/write/experiment/log-other");
    if (call && end) tp_buf_printf(&call->body, ", \"endTimeMillis\": %lld}", (long long)tp__comet_clock());
    else if (call)
        tp_buf_printf(&call->body, ", \"key\": \"curr_epoch\", \"value\": \"%lld\", \"timestamp\": %lld}",
                      (long long)epoch, (long long)tp__comet_clock());
    return tp__comet_put(c, call);
}

static tp_status tp__comet_trigger_epoch(tp_callback *cb)
{
    tp__comet *c = (tp__comet *)cb->user;
    return c->off || !c->flag ? TP_OK : tp__comet_send_progress(c, cb->train->epoch_num, false);
}

static tp_status tp__comet_after_train(tp_callback *cb)
{
    tp__comet *c = (tp__comet *)cb->user;
    if (!c->flag) return TP_OK;
    const tp_status st = tp__comet_send_progress(c, 0, true);
    if (!tp__startable_join(&c->flag, TP__COMET_SECONDS)) {
        tp_mutex_lock(c->flag->mutex); /* drop the rest of the queue: the thread ends after its current request */
        tp__comet_call *call = c->first;
        const int n = c->waiting;
        c->first = NULL;
        c->last = &c->first;
        c->waiting = 0;
        tp_mutex_unlock(c->flag->mutex);
        while (call) {
            tp__comet_call *next = call->next;
            tp__comet_call_free(call);
            call = next;
        }
        tp_log(TP_LOG_WARN, "CometMLMonitor: %d values were not sent: the server is too slow.", n);
        tp__startable_join(&c->flag, 1e9);
    }
    c->off = true;
    return st;
}

static void tp__comet_close(tp_callback *cb)
{
    tp__comet *c = (tp__comet *)cb->user;
    if (c->flag) tp__startable_join(&c->flag, 1e9);
    if (c->curl) c->cleanup(c->curl);
    tp__os_library_close(c->library);
    tp_tensor_free(&c->image);
}

/* Copies an option, else the value of an environment variable, else `otherwise`. Sets *ok to false if out of memory. */
static const char *tp__comet_option(tp_arena *a, const char *given, const char *variable, const char *otherwise,
                                    bool *ok)
{
    const char *v = given ? given : variable ? getenv(variable) : NULL;
    if (!v || (!given && !*v)) v = otherwise;
    const char *copy = v ? tp_arena_strdup(a, v) : NULL;
    *ok = *ok && (copy || !v);
    return copy;
}

TP_DEF tp_monitor *tp_monitor_comet_(const tp_monitor_comet_desc *d)
{
    if (!d) return tp_monitor_fail(NULL, TP_ERR_ARG, "%s: the descriptor is NULL", __func__);
    char wrong[192];
    bool ok = true;
    if (tp__bad_names("CometMLMonitor", "tags", d->tags, wrong))
        return tp_monitor_fail(&d->at_, TP_ERR_ARG, "%s", wrong);
    tp_monitor *m = tp_monitor_new("CometMLMonitor", sizeof(tp__comet));
    if (!m) return NULL;
    tp__comet *c = (tp__comet *)m->cb.user;
    tp_arena *a = &m->cb.mem_;
    c->api_key = tp__comet_option(a, d->api_key, "COMET_API_KEY", NULL, &ok);
    c->project = tp__comet_option(a, d->project_name, "COMET_PROJECT_NAME", "general", &ok);
    c->workspace = tp__comet_option(a, d->workspace, "COMET_WORKSPACE", NULL, &ok);
    c->name = tp__comet_option(a, d->experiment_name, NULL, NULL, &ok);
    c->key = tp__comet_option(a, d->experiment_key, NULL, NULL, &ok);
    c->url = tp__comet_option(a, d->url, NULL, "https://www.comet.com/api/rest/v2", &ok);
    c->library_name = tp__comet_option(a, d->library, NULL, NULL, &ok);
    c->n_tags = tp__count_names(d->tags);
    c->tags = tp__arena_names(a, d->tags, c->n_tags);
    if (!ok || !c->tags) {
        tp_monitor_free(m);
        return NULL;
    }
    m->cb.setup_graph = tp__comet_setup_graph;
    m->cb.before_train = tp__comet_before_train;
    m->cb.trigger_epoch = tp__comet_trigger_epoch;
    m->cb.after_train = tp__comet_after_train;
    m->cb.close = tp__comet_close;
    m->process_scalar = tp__comet_scalar;
    m->process_image = tp__comet_image;
    return m;
}

/* ==== >>report page =================================================================================== */
/* The HTML page around the data. Edit tests/report_page.html, then run tests/gen_report.py. */

/* tests/gen_report.py writes the lines from here on. */
/* clang-format off */
static const char *const tp__report_head[] = {
    "<!DOCTYPE html>\n"
    "<!-- The page that tp_monitor_report keeps current. One file: no server, no download, no request. Edit tests/report_page.html. -->\n"
    "<html lang=\"en\">\n"
    "<head>\n"
    "<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:\">\n"
    "<title>Training report</title>\n"
    "<link rel=\"icon\" href=\"data:,\">\n"
    "<style>\n"
    "/* -- colours: light, and dark where the system or the reader asks for it */\n"
    ":root {\n"
    "  --back: #f6f7f9; --card: #ffffff; --line: #d9dee5; --text: #1c2430; --soft: #5b6675; --accent: #1f6feb;\n"
    "  --good: #1a7f37; --bad: #c62828; --warn: #9a6700;\n"
    "  --c0: #1f6feb; --c1: #d9480f; --c2: #2b8a3e; --c3: #9c36b5; --c4: #0b7285; --c5: #c2255c; --c6: #846200; --c7: #5f6b7a; --tint: #eef4ff;\n"
    "  --flame: 36%; color-scheme: light;\n"
    "}\n"
    ":root[data-theme=dark] {\n"
    "  --back: #0f141b; --card: #171e28; --line: #2d3846; --text: #e4e9f0; --soft: #98a5b5; --accent: #6cb0ff;\n"
    "  --good: #57c272; --bad: #ff7b72; --warn: #e0b040;\n"
    "  --c0: #6cb0ff; --c1: #ff9b62; --c2: #63d083; --c3: #d69bf0; --c4: #4cc9dc; --c5: #ff8fb1; --c6: #dcc04c; --c7: #a9b4c2; --tint: #1a2940;\n"
    "  --flame: 34%; color-scheme: dark;\n"
    "}\n"
    "* { box-sizing: border-box; }\n"
    "html { scroll-padding-top: 3.4rem; }\n"
    "body { margin: 0; background: var(--back); color: var(--text); font: 15px/1.5 system-ui, \"Segoe UI\", Roboto, sans-serif; }\n"
    "body { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }\n"
    "h1 { font-size: 1.4rem; line-height: 1.3; margin: 0; overflow-wrap: anywhere; }\n"
    "h2 { font-size: 1.15rem; margin: 0 0 .7rem; }\n"
    "h3 { font-size: .92rem; margin: 0; font-weight: 600; overflow-wrap: anywhere; }\n"
    "a { color: var(--accent); }\n"
    "button, select, input[type=search] {\n"
    "  font: inherit; color: inherit; background: var(--card); border: 1px solid var(--line); border-radius: 6px;\n"
    "  padding: .25rem .6rem; min-height: 2.1rem;\n"
    "}\n"
    "button { cursor: pointer; }\n"
    "button[aria-pressed=true] { border-color: var(--accent); color: var(--accent); font-weight: 600; }\n"
    "button:hover { border-color: var(--soft); }\n"
    ":focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }\n"
    "header, main, footer { max-width: 1500px; margin: 0 auto; padding: .9rem 1.2rem; }\n"
    ".skip { position: absolute; left: -100vw; }\n"
    ".skip:focus { left: 1rem; top: .5rem; background: var(--card); padding: .4rem .8rem; z-index: 9; }\n"
    ".row { display: flex; flex-wrap: wrap; gap: .5rem .8rem; align-items: center; }\n"
    ".grow { flex: 1 1 auto; }\n"
    ".soft { color: var(--soft); }\n"
    ".small { font-size: .84rem; }\n"
    ".pill { border-radius: 99px; padding: .1rem .7rem; border: 1px solid currentColor; font-size: .84rem; font-weight: 600; }\n"
    ".running { color: var(--accent); } .done, .stopped { color: var(--good); } .failed { color: var(--bad); }\n"
    ".interrupted, .lost { color: var(--warn); }\n"
    ".bar { height: .6rem; border-radius: 99px; background: var(--line); overflow: hidden; margin: .6rem 0 .3rem; }\n"
    ".bar > div { height: 100%; background: var(--accent); border-radius: 99px; }\n"
    ".bar.done > div { background: var(--good); } .bar.failed > div { background: var(--bad); }\n"
    ".both { display: inline-flex; }\n"
    ".both button { border-radius: 0; position: relative; }\n"
    ".both button:first-child { border-radius: 6px 0 0 6px; }\n"
    ".both button:last-child { border-radius: 0 6px 6px 0; margin-left: -1px; }\n"
    ".both button[aria-pressed=true] { z-index: 1; }\n"
    ".both button:focus-visible { z-index: 2; }\n"
    ".order { line-height: 1.8; }\n"
    "nav { position: sticky; top: 0; z-index: 5; background: var(--back); border-bottom: 1px solid var(--line); }\n"
    "header { padding-bottom: .4rem; }\n"
    "nav div { max-width: 1500px; margin: 0 auto; padding: .35rem 1.2rem; display: flex; gap: 1.3rem; overflow-x: auto;\n"
    "  scrollbar-width: none; }\n"
    "nav a { text-decoration: none; white-space: nowrap; padding: .2rem 0; font-weight: 500; }\n"
    "nav a:hover { text-decoration: underline; text-underline-offset: .3em; }\n"
    "section { margin: .6rem 0 2.4rem; }\n",
    ".tools { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: .55rem .8rem; margin-bottom: .9rem; }\n"
    ".tools .row { gap: .5rem 1.4rem; }\n"
    ".tools #runs:not(:empty) { border-top: 1px solid var(--line); margin-top: .55rem; padding-top: .5rem; }\n"
    ".controls { margin-bottom: .8rem; }\n"
    ".tools .controls { margin-bottom: 0; }\n"
    ".controls label { display: inline-flex; gap: .4rem; align-items: center; }\n"
    ".cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 380px), 1fr)); gap: .8rem; }\n"
    ".card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: .6rem .8rem .55rem; min-width: 0; }\n"
    ".card.wide { grid-column: 1 / -1; }\n"
    ".card .row { flex-wrap: nowrap; }\n"
    ".card h3 { flex: 1 1 auto; }\n"
    ".card > .row button { min-height: 1.7rem; padding: 0 .5rem; font-size: .8rem; color: var(--soft); border-color: transparent; background: none; }\n"
    ".card > .row button:hover { border-color: var(--line); color: var(--text); }\n"
    ".plot { display: block; width: 100%; height: 210px; border-radius: 6px; cursor: crosshair; }\n"
    ".plot { touch-action: pan-y; user-select: none; -webkit-user-select: none; }\n"
    ".wide .plot { height: 420px; }\n"
    ".plot svg, .scroll svg { display: block; margin: 0 auto; }\n"
    ".read { font-size: .8rem; color: var(--soft); font-variant-numeric: tabular-nums; overflow-wrap: anywhere; margin-top: .25rem; }\n"
    ".read b { color: var(--text); font-weight: 600; }\n"
    ".read .line { display: flex; justify-content: space-between; gap: .8rem; min-height: 1.5em; white-space: nowrap; }\n"
    ".read .line > :first-child { overflow: hidden; text-overflow: ellipsis; min-width: 0; }\n"
    "#flame-read { min-height: 3em; margin: .5rem 0 1rem; }\n"
    ".key { display: inline-block; width: .8em; height: .8em; border-radius: 3px; margin-right: .4em; vertical-align: -.06em; }\n"
    "details.group { margin-bottom: .9rem; }\n"
    "details.group > summary { cursor: pointer; font-weight: 600; padding: .3rem 0 .5rem; }\n"
    ".scroll { overflow: auto; max-height: 80vh; background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: .7rem .8rem; }\n"
    ".wrap { overflow-x: auto; }\n"
    ".split { display: grid; gap: .8rem; align-items: start; }\n"
    ".split > * { min-width: 0; }\n"
    "@media (min-width: 1100px) { .split { grid-template-columns: minmax(0, 1fr) minmax(0, 33rem); } }\n"
    "#variables { margin: 0; }\n"
    "#variables .scroll { padding-top: 0; }\n"
    "table { border-collapse: collapse; width: 100%; font-size: .85rem; font-variant-numeric: tabular-nums; }\n"
    "th, td { text-align: left; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }\n"
    "tr:last-child > * { border-bottom: none; }\n"
    "thead th { position: sticky; top: 0; background: var(--card); padding-top: .5rem; }\n"
    "th { color: var(--soft); font-weight: 600; white-space: nowrap; }\n"
    "td.n, th.n { text-align: right; white-space: nowrap; padding-left: .6rem; }\n"
    "td { overflow-wrap: anywhere; }\n"
    "#table td { white-space: nowrap; }\n"
    "#variables td:first-child { min-width: 11rem; }\n"
    "#variables td:nth-child(2) { white-space: nowrap; }\n"
    "#table th:last-child, #table td:last-child, #variables th:last-child, #variables td:last-child { padding-left: .9rem; padding-right: 0; }\n"
    "#params th { width: 40%; font-weight: 500; }\n"
    "#params h3 { margin: .2rem 0 .3rem; }\n"
    "#lines { font-variant-ligatures: none; }\n"
    "#log-box { max-height: 60vh; }\n"
    "pre { margin: 0; font: 12.5px/1.5 ui-monospace, Menlo, Consolas, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }\n"
    "figure { margin: 0; }\n"
    "figure img { image-rendering: pixelated; max-width: 100%; min-width: 64px; border-radius: 4px; border: 1px solid var(--line); }\n"
    ".pictures { display: flex; flex-wrap: wrap; gap: .4rem; margin: .5rem 0 .4rem; }\n"
    "input[type=range] { accent-color: var(--accent); width: 9rem; max-width: 100%; }\n"
    ".two { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); align-items: start; }\n"
    "svg text { fill: var(--text); font: 11px system-ui, \"Segoe UI\", Roboto, sans-serif; }\n"
    "svg .tick { fill: var(--soft); }\n",
    "svg .grid { stroke: var(--line); stroke-width: 1; }\n"
    "svg .frame { fill: none; stroke: var(--soft); stroke-opacity: .7; }\n"
    "svg .edge { fill: none; stroke: var(--soft); stroke-width: 1.2; }\n"
    "svg .box { fill: var(--card); stroke: var(--soft); stroke-width: 1; }\n"
    "svg .scope { fill: var(--tint); stroke: var(--accent); stroke-width: 1.2; }\n"
    "svg .around { fill: var(--back); fill-opacity: .75; stroke: var(--line); }\n"
    "svg .weight { fill: var(--accent); }\n"
    "svg .name { font-weight: 600; font-size: 12px; }\n"
    "svg .of { fill: var(--soft); }\n"
    "svg .over { paint-order: stroke; stroke: var(--card); stroke-width: 4px; }\n"
    "svg .block { stroke: var(--card); stroke-width: .7; }\n"
    "svg [role=button] { cursor: pointer; }\n"
    "svg [role=button]:focus-visible { outline: 2px solid var(--accent); }\n"
    "body.dropping { outline: 3px dashed var(--accent); outline-offset: -6px; }\n"
    "@media (max-width: 600px) {\n"
    "  body { font-size: 14px; }\n"
    "  header, main, footer { padding: .7rem .8rem; }\n"
    "  nav div { padding: .35rem .8rem; gap: 1.1rem; }\n"
    "  h1 { font-size: 1.25rem; }\n"
    "  .plot { height: 190px; }\n"
    "  .controls label.grow, .controls input[type=search] { width: 100%; }\n"
    "}\n"
    "@media (prefers-reduced-motion: no-preference) { html { scroll-behavior: smooth; } }\n"
    "@media print {\n"
    "  @page { margin: 14mm; }\n"
    "  body { background: none; font-size: 11px; }\n"
    "  header, main, footer { padding: 0; max-width: none; }\n"
    "  nav, .controls, .tools .row:first-child, .actions, .card button, .skip, .card input, #model > p { display: none !important; }\n"
    "  .tools { border: none; padding: 0; background: none; }\n"
    "  .tools #runs { display: flex !important; border: none; padding: 0; margin: 0 0 .6rem; }\n"
    "  .tools #runs input { display: none; }\n"
    "  section { margin: 0 0 1.2rem; }\n"
    "  .bar { border: 1px solid var(--line); }\n"
    "  .bar > div, .key { print-color-adjust: exact; -webkit-print-color-adjust: exact; }\n"
    "  .cards { grid-template-columns: 1fr 1fr; }\n"
    "  .cards { gap: .5rem; }\n"
    "  .card, figure, tr, #flame { break-inside: avoid; }\n"
    "  h2, h3, summary { break-after: avoid; }\n"
    "  .plot, .wide .plot { height: auto !important; }\n"
    "  .split { display: block; }\n"
    "  .scroll, .wrap { max-height: none; overflow: visible; border: none; padding: 0; }\n"
    "  .scroll svg, .plot svg, #flame svg { max-width: 100%; height: auto; }\n"
    "  #drawing svg { max-height: 225mm; }\n"
    "  #drawing { break-inside: avoid; }\n"
    "  #table td:not(.n) { white-space: normal; }\n"
    "  #table { break-inside: auto; }\n"
    "  thead th { position: static; background: none; }\n"
    "  #log-box { max-height: none; }\n"
    "  pre { font-size: 9.5px; }\n"
    "}\n"
    "</style>\n"
    "<script>\n"
    "/* The theme, before anything is painted. */\n"
    "try { document.documentElement.dataset.theme = JSON.parse(sessionStorage.getItem('tp:' + location.pathname)).theme; } catch (e) { }\n"
    "if (!/^(dark|light)$/.test(document.documentElement.dataset.theme))\n"
    "  document.documentElement.dataset.theme = window.matchMedia && matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';\n"
    "</script>\n"
    "</head>\n"
    "<body>\n"
    "<a class=\"skip\" href=\"#curves\">Skip to the curves</a>\n"
    "<header>\n"
    "  <div class=\"row\">\n"
    "    <h1 id=\"title\">Training report</h1><span id=\"status\" class=\"pill\"></span><span class=\"grow\"></span>\n"
    "    <span class=\"row actions\">\n"
    "      <button id=\"follow\" aria-pressed=\"true\" title=\"Load this file again while the training runs\">Follow</button>\n"
    "      <button id=\"theme\" title=\"Light, dark, or as the system says\">Theme: system</button>\n"
    "      <button id=\"add\" title=\"Lay the curves of another report.html or stats.json over these; or drop such files here\">Add a run</button>\n"
    "      <input id=\"file\" type=\"file\" multiple hidden accept=\".html,.json\">\n"
    "    </span>\n"
    "  </div>\n"
    "  <div class=\"bar\" role=\"progressbar\" aria-label=\"Progress\" aria-valuemin=\"0\" aria-valuemax=\"100\" id=\"bar\"><div></div></div>\n"
    "  <div id=\"progress\" class=\"soft small\" aria-live=\"off\"></div>\n"
    "  <div id=\"not-added\" class=\"failed small\" role=\"alert\"></div>\n"
    "  <noscript><p>This page draws its charts with JavaScript, which is turned off. It is all in this file: nothing is loaded.</p></noscript>\n"
    "</header>\n",
    "<nav aria-label=\"Sections\"><div id=\"nav\"></div></nav>\n"
    "<main>\n"
    "  <section id=\"curves\" hidden><h2>Curves</h2>\n"
    "    <div class=\"tools\">\n"
    "    <div class=\"row controls\">\n"
    "      <label>Show\n"
    "        <input id=\"filter\" type=\"search\" size=\"16\" placeholder=\"name, or a|b\" aria-label=\"Show the curves whose name has this in it\">\n"
    "      </label>\n"
    "      <label>Smoothing <input id=\"smooth\" type=\"range\" min=\"0\" max=\"0.99\" step=\"0.01\"><output id=\"smoothed\"></output></label>\n"
    "      <label><input id=\"log\" type=\"checkbox\"> Log scale</label>\n"
    "      <label><input id=\"trim\" type=\"checkbox\"> Ignore outliers</label>\n"
    "      <label id=\"axis-label\">Axis <select id=\"axis\"><option value=\"step\">step</option><option value=\"epoch\">epoch</option></select></label>\n"
    "      <button id=\"unzoom\" hidden>Reset zoom</button>\n"
    "    </div>\n"
    "    <div id=\"runs\" class=\"row controls small\"></div>\n"
    "    </div>\n"
    "    <div id=\"charts\"></div>\n"
    "  </section>\n"
    "  <section id=\"histograms\" hidden><h2>Histograms</h2><div id=\"ridges\" class=\"cards\"></div></section>\n"
    "  <section id=\"images\" hidden><h2>Images</h2><div id=\"pictures\" class=\"cards\"></div></section>\n"
    "  <section id=\"model\" hidden><h2>Model</h2>\n"
    "    <p class=\"soft small\">Layers from the inputs down; on each edge the shape of what goes along it (? is the batch).\n"
    "      A scope with a <b>+</b> opens, one with a <b>\342\210\222</b> closes. A bar at the left marks what has parameters.</p>\n"
    "    <div class=\"split\">\n"
    "      <div id=\"drawing\" class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Drawing of the model\"></div>\n"
    "      <details id=\"variables\" class=\"group\"><summary>Variables</summary><div class=\"scroll\"></div></details>\n"
    "    </div>\n"
    "  </section>\n"
    "  <section id=\"kernels\" hidden><h2>Time of a step</h2>\n"
    "    <div class=\"row controls\">\n"
    "      <span class=\"both\"><button id=\"by-time\" aria-pressed=\"true\">Time</button><button id=\"by-bytes\" aria-pressed=\"false\">Memory traffic</button></span>\n"
    "      <span class=\"both\"><button id=\"merged\" aria-pressed=\"true\">By scope</button><button id=\"ordered\" aria-pressed=\"false\">In order</button></span>\n"
    "      <button id=\"flame-up\" hidden>Whole step</button>\n"
    "    </div>\n"
    "    <div id=\"flame\" class=\"card\"></div><div id=\"flame-read\" class=\"read\" aria-live=\"polite\"></div>\n"
    "    <div id=\"table\" class=\"card wrap\"></div>\n"
    "  </section>\n"
    "  <section id=\"setup\" hidden><h2>Set-up</h2><div id=\"params\" class=\"two\"></div></section>\n"
    "  <section id=\"log-tail\" hidden><h2>Log</h2><div class=\"scroll\" id=\"log-box\" role=\"region\" tabindex=\"0\" aria-label=\"The last lines of the log\"><pre id=\"lines\"></pre></div></section>\n"
    "</main>\n"
    "<footer class=\"soft small\" id=\"foot\"></footer>\n"
    "<script type=\"application/json\" id=\"data\">\n"
};
static const char *const tp__report_tail[] = {
    "</script>\n"
    "<script>\n"
    "'use strict';\n"
    "/* ---- data ---------------------------------------------------------------------------------------------------------- */\n"
    "\n"
    "/* Little-endian numbers in base64, as an array of that type. */\n"
    "function decode(text, Type) {\n"
    "  const raw = atob(text), bytes = new Uint8Array(raw.length);\n"
    "  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);\n"
    "  return new Type(bytes.buffer);\n"
    "}\n"
    "\n"
    "/* A curve: {name, total, x, y}; decoded when it is first looked at. `steps` may be the number of an earlier curve with the same. */\n"
    "function curvesOf(scalars) {\n"
    "  const list = scalars.map(s => ({ name: s.name, total: s.total }));\n"
    "  list.forEach((c, i) => {\n"
    "    const s = scalars[i];\n"
    "    Object.defineProperty(c, 'x', { configurable: true, get() {\n"
    "      const x = typeof s.steps === 'number' ? list[s.steps].x : s.wide ?\n"
    "        Float64Array.from(decode(s.steps, BigInt64Array), Number) : decode(s.steps, Uint32Array);\n"
    "      Object.defineProperty(c, 'x', { value: x });\n"
    "      return x;\n"
    "    } });\n"
    "    Object.defineProperty(c, 'y', { configurable: true, get() {\n"
    "      const y = decode(s.values, Float64Array);\n"
    "      Object.defineProperty(c, 'y', { value: y });\n"
    "      return y;\n"
    "    } });\n"
    "  });\n"
    "  return list;\n"
    "}\n"
    "\n"
    "/* The records of a stats.json, which may hold NaN and Infinity. */\n"
    "function recordsOf(text) {\n"
    "  let records;\n"
    "  try { records = JSON.parse(text); } catch (e) {\n"
    "    records = JSON.parse(text.replace(/: (NaN|-?Infinity)(?=[,}])/g, ': \"$1\"'));\n"
    "  }\n"
    "  if (!Array.isArray(records)) throw new Error('this is no stats.json');\n"
    "  return records;\n"
    "}\n"
    "/* The steps of an epoch, as tp__report_epoch_steps finds them; 0: the records do not say, or the epochs differ. */\n"
    "function epochSteps(records) {\n"
    "  const most = (n, r) => r.epoch_num > 0 ? Math.max(n, Math.floor(r.global_step / r.epoch_num)) : n, n = records.reduce(most, 0);\n"
    "  return records.every(r => r.global_step <= n * r.epoch_num && r.global_step > n * (r.epoch_num - 1)) ? n : 0;\n"
    "}\n"
    "function curvesOfStats(records) {\n"
    "  const by = new Map();\n"
    "  for (const r of records) for (const name of Object.keys(r)) {\n"
    "    if (name === 'epoch_num' || name === 'global_step') continue;\n"
    "    const v = Number(r[name]);\n"
    "    if (typeof r[name] === 'string' && !/^(NaN|-?Infinity)$/.test(r[name])) continue;\n"
    "    if (!by.has(name)) by.set(name, { name, x: [], y: [] });\n"
    "    by.get(name).x.push(r.global_step || 0);\n"
    "    by.get(name).y.push(v);\n"
    "  }\n"
    "  return [...by.values()].map(c => (c.total = c.x.length, c));\n"
    "}\n"
    "\n"
    "/* What is in a file that the reader adds: a report or a stats.json. */\n"
    "function runOfFile(name, text) {\n"
    "  const mark = '<script type=\"application/json\" id=\"data\">';\n"
    "  const at = text.indexOf(mark);\n"
    "  if (at < 0) {\n"
    "    const records = recordsOf(text);\n"
    "    return { name, per: epochSteps(records), curves: curvesOfStats(records) };\n"
    "  }\n"
    "  const data = JSON.parse(text.slice(at + mark.length, text.indexOf('<' + '/script>', at)));\n"
    "  return { name: data.runs[0].name || name, per: data.progress.steps_per_epoch, curves: curvesOf(data.runs[0].scalars) };\n"
    "}\n"
    "\n"
    "/* ---- numbers ------------------------------------------------------------------------------------------------------- */\n"
    "\n"
    "function escapeText(s) {\n"
    "  return String(s).replace(/[&<>\"']/g, c => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '\"': '&quot;', \"'\": '&#39;' })[c]);\n"
    "}\n"
    "/* The digits that a reader wants on an axis; full() says all of them. */\n"
    "function short(v, digits = 0) {\n"
    "  if (!Number.isFinite(v)) return String(v);\n"
    "  const a = Math.abs(v);\n"
    "  if (a !== 0 && (a >= 1e6 || a < 1e-3)) return v.toExponential(Math.max(2, digits - 1)).replace(/\\.?0+e/, 'e').replace('e+', 'e');\n"
    "  return String(Number(v.toPrecision(Math.max(4, digits))));\n"
    "}\n"
    "function full(v) { return String(v); }\n"
    "function six(v) { return Number.isFinite(v) ? String(Number(v.toPrecision(6))) : String(v); }\n"
    "function count(n, digits = 0) {\n"
    "  const most = Math.max(3, digits);\n"
    "  for (const [unit, size] of [['G', 1e9], ['M', 1e6], ['k', 1e3]])\n",
    "    if (n >= size) return Number((n / size).toPrecision(most)) + ' ' + unit;\n"
    "  return String(digits ? Number(n.toPrecision(most)) : Math.round(n * 100) / 100) + ' ';\n"
    "}\n"
    "function span(s) {\n"
    "  s = Math.max(0, Math.round(s));\n"
    "  const d = Math.floor(s / 86400), h = Math.floor(s / 3600) % 24, m = Math.floor(s / 60) % 60;\n"
    "  if (d) return d + ' d ' + h + ' h';\n"
    "  if (h) return h + ' h ' + m + ' min';\n"
    "  return m ? m + ' min ' + (m < 10 ? s % 60 + ' s' : '') : s + ' s';\n"
    "}\n"
    "function nanos(t) { return t >= 1e9 ? short(t / 1e9) + ' s' : t >= 1e6 ? short(t / 1e6) + ' ms' : short(t / 1e3) + ' \302\265s'; }\n"
    "\n"
    "/* Round numbers from lo to hi, about n of them. */\n"
    "function ticks(lo, hi, n) {\n"
    "  const raw = (hi - lo) / Math.max(1, n), size = Math.pow(10, Math.floor(Math.log10(raw)));\n"
    "  const step = size * (raw / size > 5 ? 10 : raw / size > 2 ? 5 : raw / size > 1 ? 2 : 1), out = [];\n"
    "  if (!(step > 0) || !Number.isFinite(step)) return [lo];\n"
    "  for (let i = Math.ceil(lo / step - 1e-9); i * step <= hi + step * 1e-9 && out.length < 50; i++) out.push(i * step);\n"
    "  return out;\n"
    "}\n"
    "/* What ticks say: with the digits that tell neighbours apart. */\n"
    "function tickTexts(list, say) {\n"
    "  const most = Math.max(...list.map(Math.abs)), gap = Math.min(...list.slice(1).map((v, i) => v - list[i])), power = v => Math.floor(Math.log10(v) + 1e-9);\n"
    "  const digits = list.length > 1 && gap > 0 ? Math.min(15, power(most) - power(gap) + 1) : 0;\n"
    "  return list.map(v => say(v, digits).trim());\n"
    "}\n"
    "function logTicks(lo, hi) {\n"
    "  const a = Math.floor(Math.log10(lo)), b = Math.ceil(Math.log10(hi)), out = [];\n"
    "  for (let e = a; e <= b; e += Math.max(1, Math.ceil((b - a) / 6)))\n"
    "    for (const m of b - a <= 2 ? [1, 2, 5] : [1]) if (m * 10 ** e >= lo * 0.999 && m * 10 ** e <= hi * 1.001) out.push(m * 10 ** e);\n"
    "  return out.length > 1 ? out : ticks(lo, hi, 4);\n"
    "}\n"
    "\n"
    "/* An exponential moving average, without the bias towards 0 of its beginning; what is not finite is left out. */\n"
    "function smooth(y, weight) {\n"
    "  const out = new Float64Array(y.length);\n"
    "  let last = 0, norm = 0;\n"
    "  for (let i = 0; i < y.length; i++) {\n"
    "    if (Number.isFinite(y[i])) {\n"
    "      last = last * weight + (1 - weight) * y[i];\n"
    "      norm = norm * weight + (1 - weight);\n"
    "    }\n"
    "    out[i] = Number.isFinite(y[i]) ? last / norm : NaN;\n"
    "  }\n"
    "  return out;\n"
    "}\n"
    "\n"
    "/* The index of the entry of the ascending x that is nearest to v. */\n"
    "function nearest(x, v) {\n"
    "  let a = 0, b = x.length - 1;\n"
    "  while (a < b) {\n"
    "    const m = (a + b) >> 1;\n"
    "    if (x[m] < v) a = m + 1; else b = m;\n"
    "  }\n"
    "  return a > 0 && v - x[a - 1] < x[a] - v ? a - 1 : a;\n"
    "}\n"
    "\n"
    "/* How wide a text is in the page's font; a guess where nothing can be measured. */\n"
    "let pen;\n"
    "function textWidth(text, size, bold) {\n"
    "  if (pen === undefined) try { pen = document.createElement('canvas').getContext('2d'); } catch (e) { pen = null; }\n"
    "  if (!pen) return text.length * size * (bold ? 0.6 : 0.55);\n"
    "  if (!textWidth.family) textWidth.family = getComputedStyle(document.body).fontFamily;\n"
    "  pen.font = `${bold ? '600 ' : ''}${size}px ${textWidth.family}`;\n"
    "  return pen.measureText(text).width;\n"
    "}\n"
    "function clip(text, width, size, bold) {\n"
    "  if (textWidth(text, size, bold) <= width) return text;\n"
    "  let n = text.length - 1;\n"
    "  while (n > 1 && textWidth(text.slice(0, n) + '\342\200\246', size, bold) > width) n--;\n"
    "  return text.slice(0, n) + '\342\200\246';\n"
    "}\n"
    "\n"
    "/* ---- a chart ------------------------------------------------------------------------------------------------------- */\n"
    "\n"
    "/* The path of y over x: for each pixel its first, lowest, highest and last point, so that no peak is lost. */\n"
    "function pathOf(x, y, sx, sy, width) {\n"
    "  let d = '', pen = false, column = -1, first, low, high, last;\n"
    "  const put = (px, v) => { d += (pen ? 'L' : 'M') + px.toFixed(1) + ' ' + sy(v).toFixed(1); pen = true; };\n"
    "  const flush = () => {\n"
    "    if (column < 0) return;\n"
    "    const seen = [first];\n"
    "    for (const p of low[2] < high[2] ? [low, high] : [high, low]) if (p[2] > seen[seen.length - 1][2]) seen.push(p);\n"
    "    if (last[2] > seen[seen.length - 1][2]) seen.push(last);\n",
    "    for (const p of seen) put(p[0], p[1]);\n"
    "    column = -1;\n"
    "  };\n"
    "  for (let i = 0; i < x.length; i++) {\n"
    "    if (!Number.isFinite(y[i]) || Number.isNaN(sy(y[i]))) { flush(); pen = false; continue; }\n"
    "    const px = sx(x[i]), here = Math.max(-1e6, Math.min(1e6, Math.floor(px))) + 2e6;\n"
    "    if ((i + 1 < x.length && sx(x[i + 1]) < 0) || (i > 0 && sx(x[i - 1]) > width)) continue;\n"
    "    const p = [px, y[i], i];\n"
    "    if (here !== column) { flush(); column = here; first = low = high = p; }\n"
    "    if (y[i] < low[1]) low = p;\n"
    "    if (y[i] > high[1]) high = p;\n"
    "    last = p;\n"
    "  }\n"
    "  flush();\n"
    "  return d;\n"
    "}\n"
    "\n"
    "/* What to draw: its range and scales. curves: [{x, y, smooth, colour, label}]; view: {width, height, log, trim, zoom, per}. */\n"
    "function layoutChart(curves, view) {\n"
    "  const m = { left: 50, right: 8, top: 8, bottom: 24 }, h = view.height - m.top - m.bottom;\n"
    "  let x0 = Infinity, x1 = -Infinity;\n"
    "  for (const c of curves) if (c.x.length) { x0 = Math.min(x0, c.x[0]); x1 = Math.max(x1, c.x[c.x.length - 1]); }\n"
    "  if (x0 > x1) { x0 = 0; x1 = 1; }\n"
    "  if (view.zoom) [x0, x1] = view.zoom;\n"
    "  if (x0 === x1) { x0 -= 0.5; x1 += 0.5; }\n"
    "  const seen = [];\n"
    "  for (const c of curves) for (const y of c.smooth ? [c.y, c.smooth] : [c.y])\n"
    "    for (let i = 0; i < y.length; i++) {\n"
    "      if (c.x[i] < x0 || c.x[i] > x1 || !Number.isFinite(y[i]) || (view.log && y[i] <= 0)) continue;\n"
    "      seen.push(y[i]);\n"
    "    }\n"
    "  let y0 = Infinity, y1 = -Infinity;\n"
    "  if (view.trim && seen.length > 20) {\n"
    "    seen.sort((a, b) => a - b);\n"
    "    y0 = seen[Math.floor(seen.length * 0.02)];\n"
    "    y1 = seen[Math.ceil(seen.length * 0.98) - 1];\n"
    "  } else for (const v of seen) { if (v < y0) y0 = v; if (v > y1) y1 = v; }\n"
    "  if (y0 > y1) { y0 = view.log ? 0.1 : 0; y1 = 1; }\n"
    "  if (y0 === y1) { const d = Math.abs(y0) * 0.05 || 0.5; y0 = view.log ? y0 / 1.2 : y0 - d; y1 = view.log ? y1 * 1.2 : y1 + d; }\n"
    "  const f = view.log ? Math.log10 : v => v, pad = (f(y1) - f(y0)) * 0.04, lo = f(y0) - pad, hi = f(y1) + pad;\n"
    "  const rows = view.log ? logTicks(10 ** lo, 10 ** hi) : ticks(lo, hi, h / 34), texts = tickTexts(rows, short);\n"
    "  for (const text of texts) m.left = Math.max(m.left, Math.ceil(textWidth(text, 11)) + 9);\n"
    "  const w = view.width - m.left - m.right;\n"
    "  const sx = v => (v - x0) / (x1 - x0) * w;\n"
    "  const sy = v => view.log && v <= 0 ? NaN : Math.max(-9e3, Math.min(9e3, h - (f(v) - lo) / (hi - lo) * h));\n"
    "  return { m, w, h, x0, x1, y0, y1, sx, sy, back: px => x0 + (px - m.left) / w * (x1 - x0), rows, texts };\n"
    "}\n"
    "\n"
    "let clips = 0;\n"
    "function chartSvg(curves, view) {\n"
    "  const L = layoutChart(curves, view), { m, w, h } = L, clip = 'clip' + clips++, per = view.per || 1;\n"
    "  let s = '<svg width=\"' + view.width + '\" height=\"' + view.height + '\" viewBox=\"0 0 ' + view.width + ' ' + view.height +\n"
    "    '\" aria-hidden=\"true\"><defs><clipPath id=\"' + clip + '\"><rect x=\"-4\" y=\"-4\" width=\"' + (w + 8) + '\" height=\"' + (h + 6) + '\"/></clipPath></defs>' +\n"
    "    '<g transform=\"translate(' + m.left + ' ' + m.top + ')\">';\n"
    "  L.rows.forEach((v, i) => {\n"
    "    const y = L.sy(v).toFixed(1);\n"
    "    s += '<path class=\"grid\" d=\"M0 ' + y + 'H' + w + '\"/><text class=\"tick\" x=\"-7\" y=\"' + y +\n"
    "      '\" dy=\".35em\" text-anchor=\"end\">' + L.texts[i] + '</text>';\n"
    "  });\n"
    "  let columns = ticks(L.x0 / per, L.x1 / per, w / 65), says = tickTexts(columns, count);\n"
    "  const widest = Math.max(...says.map(t => textWidth(t, 11))) + 12;\n"
    "  if (widest > 65) { columns = ticks(L.x0 / per, L.x1 / per, w / widest); says = tickTexts(columns, count); }\n"
    "  columns.forEach((v, i) => {\n"
    "    if (v * per < L.x0 - 1e-9 || v * per > L.x1 + 1e-9) return;\n"
    "    const x = Math.min(L.sx(v * per), w + m.right - textWidth(says[i], 11) / 2); /* the last one fits, too */\n"
    "    s += `<text class=\"tick\" x=\"${x.toFixed(1)}\" y=\"${h + 16}\" text-anchor=\"middle\">${says[i]}</text>`;\n"
    "  });\n"
    "  s += '<path class=\"frame\" d=\"M0 ' + h + 'H' + w + '\"/><g clip-path=\"url(#' + clip + ')\">';\n"
    "  for (const c of curves.slice().reverse()) { /* the first run above the others */\n",
    "    const line = (y, width, opacity) => '<path d=\"' + pathOf(c.x, y, L.sx, L.sy, w) + '\" fill=\"none\" stroke=\"' + c.colour +\n"
    "      '\" stroke-width=\"' + width + '\" stroke-opacity=\"' + opacity + '\" stroke-linejoin=\"round\"/>';\n"
    "    if (c.smooth) s += line(c.y, 1, 0.28);\n"
    "    s += line(c.smooth || c.y, 1.8, 1);\n"
    "    if (c.x.length < FEW) for (let i = 0; i < c.x.length; i++) if (Number.isFinite(c.y[i]) && !Number.isNaN(L.sy(c.y[i])))\n"
    "      s += '<circle cx=\"' + L.sx(c.x[i]).toFixed(1) + '\" cy=\"' + L.sy(c.y[i]).toFixed(1) + '\" r=\"2.5\" fill=\"' + c.colour + '\"/>';\n"
    "    let marks = 0;\n"
    "    for (let i = 0; i < c.x.length && marks < 200; i++) if (!Number.isFinite(c.y[i])) {\n"
    "      const x = L.sx(c.x[i]);\n"
    "      if (x < 0 || x > w) continue;\n"
    "      s += '<path d=\"M' + (x - 4).toFixed(1) + ' ' + (h - 1) + 'h8l-4 -8z\" fill=\"var(--bad)\"><title>' + c.y[i] + '</title></path>';\n"
    "      marks++;\n"
    "    }\n"
    "  }\n"
    "  return s + '</g><g class=\"cursor\"></g></g></svg>';\n"
    "}\n"
    "\n"
    "/* What stands under the cursor at v: for each curve its nearest point. */\n"
    "function under(curves, v) {\n"
    "  return curves.filter(c => c.x.length).map(c => {\n"
    "    const i = nearest(c.x, v);\n"
    "    return { curve: c, i, step: c.x[i], value: c.y[i], smooth: c.smooth ? c.smooth[i] : undefined };\n"
    "  });\n"
    "}\n"
    "/* One line for the step and, where there are several runs, one for each of them. `say` makes text of a value. */\n"
    "function underText(points, say, before, after) {\n"
    "  if (!points.length) return '';\n"
    "  const step = points[0].step, per = points[0].curve.per, line = (a, b) => `<span class=\"line\"><span>${a}</span><span>${b}</span></span>`;\n"
    "  const at = `${before}step <b>${step}</b>${per > 1 ? ` \302\267 epoch ${short(step / per)}` : ''}${after}`;\n"
    "  const value = p => (p.step !== step ? `at ${p.step} ` : '') + (p.smooth !== undefined ? `smoothed ${short(p.smooth)} &nbsp;` : '') +\n"
    "    `<b>${say(p.value)}</b>`;\n"
    "  if (points.length === 1) return line(at, value(points[0]));\n"
    "  return line(at, '') + points.map(p =>\n"
    "    line(`<span class=\"key\" style=\"background:${p.curve.colour}\"></span>${escapeText(p.curve.label)}`, value(p))).join('');\n"
    "}\n"
    "\n"
    "/* ---- histograms ---------------------------------------------------------------------------------------------------- */\n"
    "\n"
    "/* One ridge for each step, the newest in front. h: {steps, min, max, bins}; bins has as many numbers for each step. A step without a\n"
    " * finite value has no min, no max (null) and no ridge. */\n"
    "function ridgeSvg(h, width, height, chosen) {\n"
    "  const n = h.steps.length, per = h.bins.length / n, left = 10, right = 58, top = 46, bottom = 24;\n"
    "  const w = width - left - right, depth = height - top - bottom;\n"
    "  const there = h.steps.map((_, k) => k).filter(k => h.min[k] !== null);\n"
    "  let lo = there.length ? Math.min(...there.map(k => h.min[k])) : 0, hi = there.length ? Math.max(...there.map(k => h.max[k])) : 0;\n"
    "  if (!(hi > lo)) { lo -= 0.5; hi += 0.5; }\n"
    "  const density = (k, i) => h.bins[k * per + i] / Math.max(1e-30, (h.max[k] - h.min[k]) / per || (hi - lo) / per);\n"
    "  const tops = there.map(k => { let t = 0; for (let i = 0; i < per; i++) t = Math.max(t, density(k, i)); return t; });\n"
    "  const peak = tops.sort((a, b) => a - b)[Math.floor((tops.length - 1) * 0.9)] || 1;\n"
    "  const sx = v => left + (v - lo) / (hi - lo) * w;\n"
    "  let s = '<svg width=\"' + width + '\" height=\"' + height + '\" viewBox=\"0 0 ' + width + ' ' + height + '\" aria-hidden=\"true\">';\n"
    "  const columns = ticks(lo, hi, w / 70), says = tickTexts(columns, short);\n"
    "  columns.forEach((v, i) => {\n"
    "    s += '<path class=\"frame\" d=\"M' + sx(v).toFixed(1) + ' ' + (height - bottom) + 'v4\"/><text class=\"tick\" x=\"' + sx(v).toFixed(1) +\n"
    "      '\" y=\"' + (height - 6) + '\" text-anchor=\"middle\">' + says[i] + '</text>';\n"
    "  });\n"
    "  s += `<path class=\"frame\" d=\"M${left} ${height - bottom}h${w}\"/>`;\n"
    "  s += `<text class=\"tick\" x=\"${left + w + 8}\" y=\"${top - 14}\">step</text>`;\n"
    "  for (let k = 0; k < n; k++) {\n"
    "    const base = top + (n > 1 ? k / (n - 1) : 1) * depth, a = h.min[k], b = h.max[k] > a ? h.max[k] : a + (hi - lo) / per;\n",
    "    let d = 'M' + sx(lo).toFixed(1) + ' ' + base.toFixed(1) + 'H' + sx(a).toFixed(1);\n"
    "    for (let i = 0; i < per; i++)\n"
    "      d += 'L' + sx(a + (b - a) * (i + 0.5) / per).toFixed(1) + ' ' + (base - Math.min(1.15, density(k, i) / peak) * 38).toFixed(1);\n"
    "    d += 'L' + sx(b).toFixed(1) + ' ' + base.toFixed(1) + 'H' + sx(hi).toFixed(1);\n"
    "    const on = k === chosen;\n"
    "    if (h.min[k] !== null) s += '<path d=\"' + d + 'Z\" fill=\"var(--c0)\" fill-opacity=\"' + (on ? 0.95 : 0.18 + 0.5 * (k + 1) / n).toFixed(2) +\n"
    "      '\" stroke=\"var(--card)\" stroke-width=\"' + (on ? 1.6 : 0.8) + '\"/>';\n"
    "    if (k === n - 1 || k === 0 || on)\n"
    "      s += `<text class=\"tick\" x=\"${left + w + 8}\" y=\"${(base + 4).toFixed(1)}\">${count(h.steps[k]).trim()}</text>`;\n"
    "  }\n"
    "  return s + '</svg>';\n"
    "}\n"
    "\n"
    "/* ---- the model ----------------------------------------------------------------------------------------------------- */\n"
    "\n"
    "/* A layer is named by the scopes around its operations. */\n"
    "function scopeOf(name) { const at = name.lastIndexOf('/'); return at < 0 ? '' : name.slice(0, at); }\n"
    "\n"
    "/* The boxes of the drawing: operations of one scope are one box; a scope that is not in `open` is one box with all in it. */\n"
    "function boxesOf(graph, open) {\n"
    "  const boxes = new Map(), of = [];\n"
    "  graph.ops.forEach((op, i) => {\n"
    "    const parts = scopeOf(op[0]).split('/').filter(Boolean);\n"
    "    let key = '';\n"
    "    for (let k = 0; k < parts.length; k++) {\n"
    "      key = parts.slice(0, k + 1).join('/');\n"
    "      if (!open.has(key)) break;\n"
    "    }\n"
    "    const inside = key !== '' && (!open.has(key) || key === parts.join('/'));\n"
    "    /* an identity that only gives a name is one with what it names */\n"
    "    const lone = !inside && op[1] === 'Identity' && op[3].length === 1 && of[op[3][0]] && of[op[3][0]].lone ? of[op[3][0]] : null;\n"
    "    const id = inside ? (open.has(key) ? key + '/' : key) : lone ? lone.id : op[0];\n"
    "    if (!boxes.has(id)) {\n"
    "      const title = inside ? key : op[0];\n"
    "      boxes.set(id, { id, scope: inside ? key : '', title, ops: [], lone: !inside, deep: new Set(), parameters: 0, weights: [] });\n"
    "    }\n"
    "    const b = boxes.get(id);\n"
    "    if (lone) b.title = op[0];\n"
    "    b.ops.push(i);\n"
    "    if (inside && parts.join('/') !== key) b.deep.add(parts.join('/'));\n"
    "    of[i] = b;\n"
    "  });\n"
    "  for (const v of graph.variables) {\n"
    "    const scope = scopeOf(v[0]);\n"
    "    for (const b of boxes.values())\n"
    "      if (b.scope && (scope === b.scope || (!b.id.endsWith('/') && scope.startsWith(b.scope + '/')))) {\n"
    "        b.parameters += v[2];\n"
    "        b.weights.push(v);\n"
    "        break;\n"
    "      }\n"
    "  }\n"
    "  const edges = new Map();\n"
    "  graph.ops.forEach((op, i) => op[3].forEach(from => {\n"
    "    if (!of[from] || of[from] === of[i]) return;\n"
    "    const id = of[from].id + '>' + of[i].id;\n"
    "    if (!edges.has(id)) edges.set(id, { from: of[from], to: of[i], shape: graph.ops[from][2] });\n"
    "  }));\n"
    "  return { boxes: [...boxes.values()], edges: [...edges.values()] };\n"
    "}\n"
    "\n"
    "/* Which scopes are open at first: as many of the upper ones as leave the drawing readable, and only those with several inside. */\n"
    "function openAtFirst(graph) {\n"
    "  const open = new Set(), inside = new Map();\n"
    "  for (const op of graph.ops) {\n"
    "    const parts = scopeOf(op[0]).split('/').filter(Boolean);\n"
    "    for (let k = 1; k < parts.length; k++) {\n"
    "      const scope = parts.slice(0, k).join('/');\n"
    "      if (!inside.has(scope)) inside.set(scope, new Set());\n"
    "      inside.get(scope).add(parts[k]);\n"
    "    }\n"
    "  }\n"
    "  for (let depth = 1; depth < 6; depth++) {\n"
    "    const next = new Set(open);\n"
    "    for (const op of graph.ops) {\n"
    "      const parts = scopeOf(op[0]).split('/').filter(Boolean);\n"
    "      const scope = parts.slice(0, depth).join('/');\n"
    "      if (parts.length > depth && inside.get(scope).size > 1) next.add(scope);\n"
    "    }\n"
    "    if (next.size === open.size || boxesOf(graph, next).boxes.length > 45) break;\n"
    "    for (const s of next) open.add(s);\n"
    "  }\n"
    "  return open;\n"
    "}\n"
    "\n"
    "/* A frame around the boxes of each open scope that has several: {scope, boxes, inner}. */\n"
    "function framesOf(boxes, open) {\n"
    "  const frames = [];\n",
    "  for (const scope of open) {\n"
    "    const inside = boxes.filter(b => b.scope === scope || b.scope.startsWith(scope + '/'));\n"
    "    if (inside.length > 1) frames.push({ scope, boxes: inside, inner: [] });\n"
    "  }\n"
    "  for (const f of frames) f.inner = frames.filter(g => g.scope.startsWith(f.scope + '/'));\n"
    "  return frames.sort((a, b) => a.scope.length - b.scope.length);\n"
    "}\n"
    "/* How many frames of `inner` lie in one another, at most, of those for which `counts` is true. */\n"
    "function nested(f, counts) { return Math.max(0, ...f.inner.filter(counts).map(g => 1 + nested(g, counts))); }\n"
    "\n"
    "/* What a box says: its title, without the scopes whose frames are around it, and a line or two. */\n"
    "function wordsOf(b, frames) {\n"
    "  const around = frames.filter(f => f.boxes.includes(b)), scope = around.length ? around[around.length - 1].scope : '';\n"
    "  const kinds = [...new Set(b.kinds)], say = kinds.slice(0, 4).join(' \302\267 ') + (kinds.length > 4 ? ' \342\200\246' : '');\n"
    "  b.lines = [];\n"
    "  b.name = b.scope && b.scope === scope ? say : scope && b.title.startsWith(scope + '/') ? b.title.slice(scope.length + 1) : b.title;\n"
    "  if (b.deep.size) b.lines.push(`${b.deep.size + 1} scopes, ${b.ops.length} operations`);\n"
    "  else if (say.toLowerCase() !== b.name.replace(/_\\d+$/, '').toLowerCase()) b.lines.push(say);\n"
    "  if (b.parameters) {\n"
    "    const few = b.weights.length < 3 && !b.deep.size, last = name => name.slice(name.lastIndexOf('/') + 1);\n"
    "    b.lines.push(`${count(b.parameters).trim()} parameters${few ? ' \302\267 ' + b.weights.map(v => last(v[0]) + ' ' + v[1]).join(', ') : ''}`);\n"
    "  }\n"
    "  const parent = b.scope && b.scope.includes('/') ? b.scope.slice(0, b.scope.lastIndexOf('/')) : '';\n"
    "  const closes = b.deep.size ? '' : b.id.endsWith('/') ? b.scope : parent;\n"
    "  b.target = b.deep.size ? b.scope : frames.some(f => f.scope === closes) ? '' : closes; /* what a click opens or closes */\n"
    "  const title = textWidth(b.name, 12, true) + (b.target ? 42 : 24);\n"
    "  b.w = Math.ceil(Math.min(340, Math.max(84, title, ...b.lines.map(l => textWidth(l, 11) + 24))));\n"
    "  b.h = 30 + 14 * b.lines.length;\n"
    "}\n"
    "\n"
    "/* The row of each box: the longest way from an input; labels stand right above the loss. Edges that close a circle, as a scope makes\n"
    " * that is left and entered again, are in `back`. */\n"
    "function rankModel(boxes, edges) {\n"
    "  const rank = new Map(boxes.map(b => [b, 0]));\n"
    "  const into = new Map(boxes.map(b => [b, []])), out = new Map(boxes.map(b => [b, []]));\n"
    "  for (const e of edges) { into.get(e.to).push(e); out.get(e.from).push(e); }\n"
    "  const order = [], state = new Map(), back = new Set();\n"
    "  const visit = b => {\n"
    "    state.set(b, 1);\n"
    "    for (const e of out.get(b)) { if (state.get(e.to) === 1) back.add(e); else if (!state.has(e.to)) visit(e.to); }\n"
    "    state.set(b, 2);\n"
    "    order.unshift(b);\n"
    "  };\n"
    "  for (const b of boxes) if (!into.get(b).length) visit(b);\n"
    "  for (const b of boxes) if (!state.has(b)) visit(b);\n"
    "  for (const b of order) for (const e of out.get(b)) if (!back.has(e)) rank.set(e.to, Math.max(rank.get(e.to), rank.get(b) + 1));\n"
    "  for (const b of order.slice().reverse()) {\n"
    "    const after = out.get(b).filter(e => !back.has(e)).map(e => rank.get(e.to));\n"
    "    if (after.length) rank.set(b, Math.min(...after) - 1);\n"
    "  }\n"
    "  return { order, rank, back };\n"
    "}\n"
    "\n"
    "const ROOM = 20, UNDER = 8; /* of a frame above and below what is in it */\n"
    "\n"
    "/* Rows from top to bottom; an edge that is longer than one row gets a place in each. */\n"
    "function layoutModel(parts, frames) {\n"
    "  const { boxes, edges } = parts, { order, rank, back } = rankModel(boxes, edges), rows = [];\n"
    "  const place = (item, r) => { (rows[r] = rows[r] || []).push(item); };\n"
    "  const nearFrame = list => frames.filter(f => list.every(b => f.boxes.includes(b))).pop();\n"
    "  for (const b of order) { wordsOf(b, frames); b.up = []; b.frame = nearFrame([b]); place(b, rank.get(b)); }\n"
    "  for (const e of edges) {\n"
    "    const a = rank.get(e.from), z = rank.get(e.to);\n"
    "    e.way = [e.from];\n"
    "    if (!back.has(e)) for (let r = a + 1; r < z; r++) {\n",
    "      const d = { w: 26, h: 0, passes: true, up: [e.way[e.way.length - 1]], frame: nearFrame([e.from, e.to]) };\n"
    "      place(d, r);\n"
    "      e.way.push(d);\n"
    "    }\n"
    "    e.way.push(e.to);\n"
    "    if (!back.has(e)) e.to.up.push(e.way[e.way.length - 2]);\n"
    "  }\n"
    "  for (const f of frames) { f.first = Math.min(...f.boxes.map(b => rank.get(b))); f.last = Math.max(...f.boxes.map(b => rank.get(b))); }\n"
    "  for (const f of frames) {\n"
    "    f.above = ROOM * (1 + nested(f, g => g.first === f.first));\n"
    "    f.below = UNDER * (1 + nested(f, g => g.last === f.last));\n"
    "    f.beside = 12 * (1 + nested(f, () => true));\n"
    "  }\n"
    "  let y = 14, below = 0;\n"
    "  rows.forEach((row, r) => {\n"
    "    y += Math.max(0, ...frames.filter(f => f.first === r).map(f => f.above)) + below;\n"
    "    below = Math.max(0, ...frames.filter(f => f.last === r).map(f => f.below));\n"
    "    row.forEach((b, i) => { b.order = b.up.length ? b.up.reduce((s, u) => s + u.x, 0) / b.up.length : i * 1e-3; });\n"
    "    row.sort((a, b) => a.order - b.order);\n"
    "    let x = 0, last;\n"
    "    for (const b of row) {\n"
    "      if (last && last.frame !== b.frame) x += 26;\n"
    "      b.x = Math.max(b.up.length ? b.order : x + b.w / 2, x + b.w / 2);\n"
    "      x = b.x + b.w / 2 + 22;\n"
    "      last = b;\n"
    "    }\n"
    "    const shift = row.reduce((s, b) => s + (b.up.length ? b.order - b.x : 0), 0) / row.length; /* centred under what is above */\n"
    "    const h = Math.max(...row.map(b => b.h));\n"
    "    for (const b of row) { b.x += shift; b.y = y; if (b.passes) b.h = h; } /* an edge that passes by goes straight down */\n"
    "    y += h + 46;\n"
    "  });\n"
    "  for (const f of frames) {\n"
    "    const all = rows.flat().filter(b => b.frame && (b.frame === f || f.inner.includes(b.frame)));\n"
    "    f.x = Math.min(...all.map(b => b.x - b.w / 2)) - f.beside;\n"
    "    f.w = Math.max(...all.map(b => b.x + b.w / 2)) + f.beside - f.x;\n"
    "    f.y = Math.min(...all.map(b => b.y)) - f.above;\n"
    "    f.h = Math.max(...all.map(b => b.y + b.h)) + f.below - f.y;\n"
    "  }\n"
    "  const all = rows.flat(), least = Math.min(...all.map(b => b.x - b.w / 2), ...frames.map(f => f.x));\n"
    "  for (const b of all) b.x += 8 - least;\n"
    "  for (const f of frames) f.x += 8 - least;\n"
    "  const right = Math.max(60, ...all.map(b => b.x + b.w / 2), ...frames.map(f => f.x + f.w));\n"
    "  return { width: right + 8 + labelRoom(edges, right), height: y - 38 + below };\n"
    "}\n"
    "/* The width that shapes beside edges need at the right of the drawing. */\n"
    "function labelRoom(edges, right) { return Math.max(0, ...edges.map(e => e.from.x + 7 + textWidth(e.shape, 11) - right)); }\n"
    "\n"
    "/* With as many frames as lie around their own boxes and no other. */\n"
    "function layoutFrames(parts, open) {\n"
    "  let frames = framesOf(parts.boxes, open), size;\n"
    "  for (;;) {\n"
    "    size = layoutModel(parts, frames);\n"
    "    const crosses = (f, b) => b.x + b.w / 2 > f.x && b.x - b.w / 2 < f.x + f.w && b.y + b.h > f.y && b.y < f.y + f.h;\n"
    "    const bad = new Set(frames.filter(f => parts.boxes.some(b => !f.boxes.includes(b) && crosses(f, b))));\n"
    "    if (!bad.size) return { frames, size };\n"
    "    frames = frames.filter(f => !bad.has(f));\n"
    "    for (const f of frames) f.inner = f.inner.filter(g => !bad.has(g));\n"
    "  }\n"
    "}\n"
    "function edgesSvg(edges) {\n"
    "  let s = '', labels = '';\n"
    "  const told = new Map(); /* the shapes that stand under a box */\n"
    "  for (const e of edges) {\n"
    "    let d = '';\n"
    "    for (let i = 0; i + 1 < e.way.length; i++) {\n"
    "      const a = e.way[i], b = e.way[i + 1], y0 = a.y + a.h + (i || b.y < a.y ? 0 : 16), mid = (y0 + b.y) / 2;\n"
    "      d += `${i ? 'L' : 'M'}${a.x.toFixed(1)} ${(a.y + a.h).toFixed(1)}V${y0.toFixed(1)}C${a.x.toFixed(1)} ${mid.toFixed(1)} ` +\n"
    "        `${b.x.toFixed(1)} ${mid.toFixed(1)} ${b.x.toFixed(1)} ${b.y.toFixed(1)}`;\n"
    "    }\n"
    "    s += '<path class=\"edge\" d=\"' + d + '\" marker-end=\"url(#tip)\"/>';\n"
    "    if (!told.has(e.from)) told.set(e.from, new Set());\n"
    "    if (told.get(e.from).has(e.shape)) continue;\n"
    "    const line = told.get(e.from).add(e.shape).size;\n"
    "    labels += `<text class=\"tick over\" x=\"${(e.from.x + 7).toFixed(1)}\" ` +\n"
    "      `y=\"${(e.from.y + e.from.h + 2 + 12 * line).toFixed(1)}\">${escapeText(e.shape)}</text>`;\n"
    "  }\n",
    "  return s + labels;\n"
    "}\n"
    "function buttonOf(scope, opens) {\n"
    "  return ` role=\"button\" tabindex=\"0\" data-scope=\"${escapeText(scope)}\" aria-label=\"${escapeText((opens ? 'Open ' : 'Close ') + scope)}\"`;\n"
    "}\n"
    "function boxSvg(b, graph) {\n"
    "  const opens = b.deep.size > 0, input = b.lone && b.kinds[0] === 'Placeholder';\n"
    "  let s = `<g transform=\"translate(${(b.x - b.w / 2).toFixed(1)} ${b.y.toFixed(1)})\"${b.target ? buttonOf(b.target, opens) : ''}>` +\n"
    "    `<rect class=\"${opens ? 'scope' : 'box'}\" width=\"${b.w}\" height=\"${b.h}\" rx=\"${input ? b.h / 2 : 7}\"/>`;\n"
    "  if (b.parameters) s += `<rect class=\"weight\" x=\"3.5\" y=\"6\" width=\"3\" height=\"${b.h - 12}\" rx=\"1.5\"/>`;\n"
    "  const x = input ? b.w / 2 : 13, how = input ? ' text-anchor=\"middle\"' : '';\n"
    "  s += `<text class=\"name\" x=\"${x}\" y=\"19\"${how}>${escapeText(clip(b.name, b.w - (b.target ? 36 : 22), 12, true))}</text>`;\n"
    "  b.lines.forEach((l, i) => {\n"
    "    s += `<text class=\"tick\" x=\"${x}\" y=\"${35 + 14 * i}\"${how}>${escapeText(clip(l, b.w - 20, 11))}</text>`;\n"
    "  });\n"
    "  if (b.target) s += `<text class=\"name\" x=\"${b.w - 13}\" y=\"19\" text-anchor=\"middle\">${opens ? '+' : '\342\210\222'}</text>`;\n"
    "  return s + '<title>' + escapeText(b.ops.map(i => graph.ops[i][0] + ' ' + graph.ops[i][2]).slice(0, 40).join(', ')) + '</title></g>';\n"
    "}\n"
    "function modelSvg(graph, open) {\n"
    "  const parts = boxesOf(graph, open);\n"
    "  for (const b of parts.boxes) b.kinds = b.ops.map(i => graph.ops[i][1]).filter((k, i, all) => k !== 'Identity' || all.length === 1);\n"
    "  const { frames, size } = layoutFrames(parts, open), width = Math.ceil(size.width), height = Math.ceil(size.height);\n"
    "  let s = `<svg width=\"${width}\" height=\"${height}\" viewBox=\"0 0 ${width} ${height}\" role=\"group\" ` +\n"
    "    `aria-label=\"The model: ${parts.boxes.length} boxes\"><defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" ` +\n"
    "    'markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"var(--soft)\"/></marker></defs>';\n"
    "  for (const f of frames) {\n"
    "    const up = frames.filter(g => g.inner.includes(f)).pop(), name = up ? f.scope.slice(up.scope.length + 1) : f.scope;\n"
    "    s += `<g transform=\"translate(${f.x.toFixed(1)} ${f.y.toFixed(1)})\"${buttonOf(f.scope, false)}>` +\n"
    "      `<rect class=\"around\" width=\"${f.w.toFixed(1)}\" height=\"${f.h.toFixed(1)}\" rx=\"10\"/>` +\n"
    "      `<text class=\"name of\" x=\"10\" y=\"15\">${escapeText(clip(name, f.w - 34, 12, true))}</text>` +\n"
    "      `<text class=\"name of\" x=\"${(f.w - 13).toFixed(1)}\" y=\"15\" text-anchor=\"middle\">\342\210\222</text></g>`;\n"
    "  }\n"
    "  return s + edgesSvg(parts.edges) + parts.boxes.map(b => boxSvg(b, graph)).join('') + '</svg>';\n"
    "}\n"
    "\n"
    "/* ---- the time of a step -------------------------------------------------------------------------------------------- */\n"
    "\n"
    "/* A tree by scope: {name, path, key, value, kids, leaf}. Kernels: [op, node, device, start, ns, bytes, flops]. In order, only\n"
    " * neighbours of one scope are one, so that a path may be there twice, and the key has the first kernel's number; merged, all of a\n"
    " * scope are. */\n"
    "function flameTree(kernels, column, merged) {\n"
    "  const root = { name: 'step', path: '', key: '', value: 0, kids: [] };\n"
    "  kernels.forEach((k, number) => {\n"
    "    const value = k[column];\n"
    "    if (!(value > 0)) return;\n"
    "    const parts = (k[1] || k[0]).split('/').filter(Boolean);\n"
    "    let at = root;\n"
    "    root.value += value;\n"
    "    parts.forEach((part, i) => {\n"
    "      const leaf = i === parts.length - 1;\n"
    "      let kid = merged ? at.kids.find(x => x.name === part && !x.leaf === !leaf) : at.kids[at.kids.length - 1];\n"
    "      if (!kid || kid.name !== part || !kid.leaf !== !leaf) {\n"
    "        const key = at.key + '/' + part + (merged ? '' : '#' + number);\n"
    "        kid = { name: part, path: at.path + (at.path ? '/' : '') + part, key, value: 0, kids: [], leaf: leaf ? k : null };\n"
    "        at.kids.push(kid);\n"
    "      }\n"
    "      kid.value += value;\n"
    "      at = kid;\n"
    "    });\n"
    "  });\n"
    "  const sort = n => { if (merged) n.kids.sort((a, b) => b.value - a.value); n.kids.forEach(sort); };\n"
    "  sort(root);\n"
    "  return root;\n"
    "}\n",
    "/* Blue where values are computed, orange where their gradients are, grey-green for the rest: updates, feeds, hooks. */\n"
    "function colourOfBlock(n) {\n"
    "  let k = n, h = 0;\n"
    "  while (!k.leaf && k.kids.length) k = k.kids[0];\n"
    "  for (let i = 0; i < n.name.length; i++) h = (h * 31 + n.name.charCodeAt(i)) >>> 0;\n"
    "  const rest = !k.leaf || /^(apply_|assign|hooks|feed|fetch|plan|callbacks)/.test(k.leaf[0]), gradient = /^gradients(\\/|$)/.test(n.path);\n"
    "  const hue = gradient ? 12 + h % 12 : rest ? 150 + h % 20 : 204 + h % 20;\n"
    "  return `hsl(${hue} ${gradient ? 58 : rest ? 20 : 55}% calc(var(--flame) + ${h % 3 * 2.5}%))`;\n"
    "}\n"
    "function flameBlocks(root, width) {\n"
    "  const blocks = [], walk = (n, x, depth, w) => {\n"
    "    blocks.push({ n, x, depth, w });\n"
    "    let at = x;\n"
    "    for (const k of n.kids) {\n"
    "      const kw = n.value ? k.value / n.value * w : 0;\n"
    "      if (kw >= 0.4) walk(k, at, depth + 1, kw);\n"
    "      at += kw;\n"
    "    }\n"
    "  };\n"
    "  walk(root, 0, 0, width);\n"
    "  return blocks;\n"
    "}\n"
    "function flameSvg(root, width, total, say) {\n"
    "  const blocks = flameBlocks(root, width), deep = Math.max(...blocks.map(b => b.depth)) + 1, H = 23;\n"
    "  let s = `<svg width=\"${width}\" height=\"${deep * H}\" viewBox=\"0 0 ${width} ${deep * H}\" role=\"group\" aria-label=\"Flame chart\">`;\n"
    "  blocks.forEach((b, i) => {\n"
    "    const both = b.n.name + '  ' + say(b.n.value), text = textWidth(both, 11) < b.w - 12 ? both : b.n.name;\n"
    "    const fill = b.depth === 0 ? 'var(--line)' : colourOfBlock(b.n);\n"
    "    s += `<g data-block=\"${i}\" role=\"button\"${b.w > 12 ? ' tabindex=\"0\"' : ''} ` +\n"
    "      `aria-label=\"${escapeText(b.n.path || 'whole step')}, ${say(b.n.value)}\">` +\n"
    "      `<rect class=\"block\" x=\"${b.x.toFixed(2)}\" y=\"${b.depth * H}\" width=\"${Math.max(0.4, b.w).toFixed(2)}\" ` +\n"
    "      `height=\"${H - 1}\" rx=\"2\" fill=\"${fill}\"/>`;\n"
    "    if (b.w > 30) s += `<text x=\"${(b.x + 5).toFixed(1)}\" y=\"${b.depth * H + 15}\"${b.depth ? ' style=\"fill:#fff\"' : ''}>` +\n"
    "      `${escapeText(clip(text, b.w - 10, 11))}</text>`;\n"
    "    s += '</g>';\n"
    "  });\n"
    "  return { svg: s + '</svg>', blocks };\n"
    "}\n"
    "function kernelTable(kernels, column, total, top) {\n"
    "  const by = new Map();\n"
    "  for (const k of kernels) {\n"
    "    if (!by.has(k[0])) by.set(k[0], { op: k[0], n: 0, ns: 0, bytes: 0, flops: 0, most: k });\n"
    "    const r = by.get(k[0]);\n"
    "    r.n++; r.ns += k[4]; r.bytes += k[5]; r.flops += k[6];\n"
    "    if (k[column] > r.most[column]) r.most = k;\n"
    "  }\n"
    "  const rows = [...by.values()].sort((a, b) => column === 4 ? b.ns - a.ns : b.bytes - a.bytes).slice(0, top);\n"
    "  const heads = ['kernels', 'time', 'share', 'bytes', 'GB/s', 'GFLOP/s'].map(h => `<th class=\"n\">${h}</th>`).join('');\n"
    "  const body = rows.map(r => {\n"
    "    const share = 100 * (column === 4 ? r.ns : r.bytes) / Math.max(1, total);\n"
    "    const rate = v => v >= 0.01 ? Number(v.toPrecision(3)) : '';\n"
    "    const cells = [r.n, nanos(r.ns), share.toFixed(1) + ' %', count(r.bytes) + 'B', rate(r.bytes / r.ns), rate(r.flops / r.ns)];\n"
    "    return `<tr><td>${escapeText(r.op)}</td>${cells.map(c => `<td class=\"n\">${c}</td>`).join('')}<td>${escapeText(r.most[1])}</td></tr>`;\n"
    "  });\n"
    "  return `<table><thead><tr><th>operation</th>${heads}<th>largest</th></tr></thead><tbody>${body.join('')}</tbody></table>`;\n"
    "}\n"
    "\n"
    "/* ---- the page ------------------------------------------------------------------------------------------------------ */\n"
    "\n"
    "const COLOURS = 8, FEW = 40, page = { data: null, runs: [], charts: [], state: null, zoomed: '' };\n"
    "function byId(id) { return document.getElementById(id); }\n"
    "function keyOfState() { return 'tp:' + location.pathname; }\n"
    "function loadState() {\n"
    "  const fresh = { smooth: 0.6, log: false, trim: false, axis: 'step', filter: '', zoom: null, hidden: [], wide: [], shut: [],\n"
    "    theme: 'system', follow: true, open: null, merged: true, column: 4, added: [], scroll: 0, focus: '' };\n"
    "  try { return Object.assign(fresh, JSON.parse(sessionStorage.getItem(keyOfState()) || '{}')); } catch (e) { return fresh; }\n"
    "}\n"
    "function saveState() {\n",
    "  const s = page.state, at = document.activeElement, plot = at && at.dataset && at.dataset.plot;\n"
    "  s.scroll = window.scrollY;\n"
    "  s.focus = plot !== undefined && plot !== null ? 'plot:' + page.charts[plot].name : at && at.id || '';\n"
    "  try { sessionStorage.setItem(keyOfState(), JSON.stringify(s)); return true; } catch (e) { return false; }\n"
    "}\n"
    "function setTheme() {\n"
    "  const t = page.state.theme, system = window.matchMedia && matchMedia('(prefers-color-scheme: dark)').matches;\n"
    "  const dark = t === 'dark' || (t === 'system' && system);\n"
    "  document.documentElement.dataset.theme = dark && !page.printing ? 'dark' : 'light';\n"
    "  byId('theme').textContent = 'Theme: ' + t;\n"
    "}\n"
    "\n"
    "/* After the page has loaded itself again the keyboard is where it was. */\n"
    "function restoreFocus() {\n"
    "  const f = page.state.focus, plots = [...document.querySelectorAll('[data-plot]')];\n"
    "  const el = f.startsWith('plot:') ? plots.find(p => page.charts[p.dataset.plot].name === f.slice(5)) : f && byId(f);\n"
    "  if (el && el.focus) el.focus({ preventScroll: true });\n"
    "}\n"
    "\n"
    "/* -- progress */\n"
    "function showProgress() {\n"
    "  const d = page.data, p = d.progress, age = Date.now() / 1000 - d.written, running = d.status === 'running';\n"
    "  const lost = running && age > Math.max(120, 20 * d.every, 5 * (p.seconds_per_step || 0));\n"
    "  const word = lost ? 'lost' : d.status;\n"
    "  const words = { running: 'running', done: 'finished', lost: 'no news for ' + span(age) };\n"
    "  byId('status').className = 'pill ' + word;\n"
    "  byId('status').textContent = words[word] || word;\n"
    "  const share = p.total_steps > 0 ? Math.min(1, p.done_steps / p.total_steps) : 0, bar = byId('bar');\n"
    "  bar.hidden = !(p.total_steps > 0);\n"
    "  bar.className = 'bar ' + word;\n"
    "  bar.firstElementChild.style.width = (100 * share).toFixed(2) + '%';\n"
    "  bar.setAttribute('aria-valuenow', Math.round(100 * share));\n"
    "  const say = ['epoch ' + p.epoch + (p.max_epoch ? ' of ' + p.max_epoch : ''), 'step ' + p.global_step];\n"
    "  if (p.total_steps > 0) say.push((100 * share).toFixed(share < 1 ? 1 : 0) + ' %');\n"
    "  if (running && p.steps_per_second > 0) say.push(short(p.steps_per_second) + ' steps/s');\n"
    "  say.push((lost ? 'ran for ' : running ? 'running for ' : 'took ') + span(p.elapsed + (running && !lost ? age : 0)));\n"
    "  if (running && !lost && p.eta - age >= 0.5) say.push('about ' + span(p.eta - age) + ' left');\n"
    "  byId('progress').textContent = say.map(x => x.replace(/ /g, '\\u00a0')).concat(d.note || []).join(' \302\267 ');\n"
    "  const percent = running && p.total_steps > 0 ? Math.floor(100 * share) + ' % \302\267 ' : '';\n"
    "  document.title = percent + d.runs[0].name + ' \302\267 ' + (words[word] || word);\n"
    "}\n"
    "\n"
    "/* -- curves */\n"
    "function colourOf(i) { return 'var(--c' + i % COLOURS + ')'; }\n"
    "function namesOf() {\n"
    "  const names = [];\n"
    "  const seen = new Set();\n"
    "  for (const r of page.runs) for (const c of r.curves) if (!seen.has(c.name)) { seen.add(c.name); names.push(c.name); }\n"
    "  return names;\n"
    "}\n"
    "function curvesFor(name) {\n"
    "  const out = [];\n"
    "  page.runs.forEach((r, i) => {\n"
    "    if (page.state.hidden.includes(r.name)) return;\n"
    "    const c = r.curves.find(k => k.name === name);\n"
    "    if (!c) return;\n"
    "    const w = Number(page.state.smooth);\n"
    "    const smoothed = w > 0 && c.y.length >= FEW; /* of few points each is shown, as it is */\n"
    "    if (smoothed && c.weight !== w) { c.smoothed = smooth(c.y, w); c.weight = w; }\n"
    "    out.push({ x: c.x, y: c.y, smooth: smoothed ? c.smoothed : undefined, colour: colourOf(i), label: r.name, total: c.total, per: r.per });\n"
    "  });\n"
    "  return out;\n"
    "}\n"
    "function showRuns() {\n"
    "  const label = (r, i) => {\n"
    "    const name = escapeText(r.name), drop = `<button data-drop=\"${i}\" aria-label=\"Take ${name} away\">\303\227</button>`;\n"
    "    return `<label><input type=\"checkbox\" data-run=\"${i}\"${page.state.hidden.includes(r.name) ? '' : ' checked'}>` +\n"
    "      `<span class=\"key\" style=\"background:${colourOf(i)}\"></span>${name}</label>${r.added ? drop : ''}`;\n"
    "  };\n"
    "  byId('runs').innerHTML = page.runs.length < 2 ? '' : page.runs.map(label).join(' ');\n"
    "  showAxis();\n"
    "}\n",
    "/* The steps of an epoch, if all runs that are shown have the same; 0: there is no axis of epochs for all of them. */\n"
    "function stepsPerEpoch() {\n"
    "  const all = new Set(page.runs.filter(r => !page.state.hidden.includes(r.name)).map(r => r.per || 0));\n"
    "  return all.size === 1 ? [...all][0] : 0;\n"
    "}\n"
    "function showAxis() {\n"
    "  const off = !stepsPerEpoch();\n"
    "  byId('axis').disabled = off;\n"
    "  byId('axis').value = off ? 'step' : page.state.axis;\n"
    "  byId('axis-label').setAttribute('title', off ? 'The runs have epochs of different lengths, or do not tell how long they are' : '');\n"
    "}\n"
    "function matches(name) {\n"
    "  const f = page.state.filter.trim().toLowerCase();\n"
    "  return !f || f.split('|').some(part => part.trim() && name.toLowerCase().includes(part.trim()));\n"
    "}\n"
    "/* What stands before the first slash, but for one in brackets, as in \"samples/sec\". */\n"
    "function groupOf(name) {\n"
    "  const at = name.indexOf('/'), bracket = name.indexOf('(');\n"
    "  return at > 0 && (bracket < 0 || at < bracket) ? name.slice(0, at) : '';\n"
    "}\n"
    "function showCharts() {\n"
    "  const groups = new Map(), names = namesOf().filter(matches), sizes = new Map();\n"
    "  for (const name of names) sizes.set(groupOf(name), (sizes.get(groupOf(name)) || 0) + 1);\n"
    "  for (const name of names) {\n"
    "    const g = sizes.get(groupOf(name)) > 1 ? groupOf(name) : ''; /* one alone needs no heading */\n"
    "    if (!groups.has(g)) groups.set(g, []);\n"
    "    groups.get(g).push(name);\n"
    "  }\n"
    "  page.charts = [];\n"
    "  let html = '', n = 0;\n"
    "  for (const [g, names] of [...groups].sort((a, b) => (a[0] !== '') - (b[0] !== ''))) {\n"
    "    const cards = '<div class=\"cards\">' + names.map(name => {\n"
    "      page.charts.push({ name });\n"
    "      const wide = page.state.wide.includes(name), i = n++;\n"
    "      return `<div class=\"card${wide ? ' wide' : ''}\" data-chart=\"${i}\"><div class=\"row\"><h3>${escapeText(name)}</h3>` +\n"
    "        `<button data-wide=\"${i}\" aria-label=\"${wide ? 'Make smaller' : 'Make larger'}\">${wide ? '\342\210\222' : '\342\244\242'}</button></div>` +\n"
    "        `<div class=\"plot\" tabindex=\"0\" role=\"img\" data-plot=\"${i}\"></div><div class=\"read\" aria-live=\"polite\"></div></div>`;\n"
    "    }).join('') + '</div>';\n"
    "    const open = page.state.shut.includes(g) ? '' : ' open', title = g === '' ? 'Statistics' : escapeText(g);\n"
    "    html += g === '' && groups.size === 1 ? cards : `<details class=\"group\" data-group=\"${escapeText(g)}\"${open}>` +\n"
    "      `<summary>${title} <span class=\"soft\">${names.length}</span></summary>${cards}</details>`;\n"
    "  }\n"
    "  byId('charts').innerHTML = html || `<p class=\"soft\">${namesOf().length ? 'No curve has such a name.' : 'No number was reported yet: most come with the end of an epoch.'}</p>`;\n"
    "  byId('unzoom').hidden = !page.state.zoom;\n"
    "  watch();\n"
    "}\n"
    "/* A chart is drawn when it comes into view, so that 200 of them cost no more than those that are seen. */\n"
    "function watch() {\n"
    "  if (page.watcher) page.watcher.disconnect();\n"
    "  const plots = document.querySelectorAll('[data-plot]');\n"
    "  if (typeof IntersectionObserver === 'undefined') { plots.forEach(drawPlot); return; }\n"
    "  page.watcher = new IntersectionObserver(list => {\n"
    "    for (const e of list) {\n"
    "      e.target.inView = e.isIntersecting;\n"
    "      if (e.isIntersecting && e.target.stale !== false) drawPlot(e.target);\n"
    "    }\n"
    "  }, { rootMargin: '200px' });\n"
    "  plots.forEach(p => { p.stale = true; page.watcher.observe(p); });\n"
    "}\n"
    "function redraw(all) {\n"
    "  document.querySelectorAll('[data-plot]').forEach(p => { p.stale = true; if (all || p.inView || !page.watcher) drawPlot(p); });\n"
    "}\n"
    "function viewOf(el) {\n"
    "  const s = page.state;\n"
    "  const per = s.axis === 'epoch' ? stepsPerEpoch() || 1 : 1;\n"
    "  return { width: Math.max(220, el.clientWidth), height: Math.max(120, el.clientHeight), log: s.log, trim: s.trim, zoom: s.zoom, per };\n"
    "}\n"
    "function drawPlot(el) {\n"
    "  const chart = page.charts[el.dataset.plot], curves = curvesFor(chart.name), view = viewOf(el);\n"
    "  chart.curves = curves;\n"
    "  chart.layout = layoutChart(curves, view);\n"
    "  el.innerHTML = chartSvg(curves, view);\n"
    "  el.stale = false;\n",
    "  const last = curves.filter(c => c.y.length).map(c => ({ curve: c, step: c.x[c.x.length - 1], value: c.y[c.y.length - 1] }));\n"
    "  const c = curves[0], thin = c && c.total > c.y.length ? ` \302\267 ${count(c.y.length).trim()} of ${count(c.total).trim()} points` : '';\n"
    "  chart.rest = underText(last, six, 'last ', thin);\n"
    "  readOf(el).innerHTML = chart.rest;\n"
    "  const newest = last.length ? `, last value ${full(last[0].value)} at step ${last[0].step}` : '';\n"
    "  el.setAttribute('aria-label', chart.name + newest + '. Arrow keys read it, plus and minus zoom.');\n"
    "}\n"
    "function readOf(el) { return el.parentElement.querySelector('.read'); }\n"
    "/* Put the cursor at the point that is nearest to v, and say what is there. */\n"
    "function pointAt(el, v) {\n"
    "  const chart = page.charts[el.dataset.plot];\n"
    "  if (!chart.layout) return;\n"
    "  const points = under(chart.curves, v), L = chart.layout, g = el.querySelector('.cursor');\n"
    "  if (!points.length) return;\n"
    "  chart.at = points[0].step;\n"
    "  const x = L.sx(points[0].step).toFixed(1);\n"
    "  let s = '<path d=\"M' + x + ' 0V' + L.h + '\" stroke=\"var(--soft)\" stroke-dasharray=\"3 3\"/>';\n"
    "  for (const p of points) {\n"
    "    const v2 = p.smooth !== undefined ? p.smooth : p.value, y = Number.isFinite(v2) ? L.sy(v2) : NaN;\n"
    "    if (!Number.isNaN(y)) s += `<circle cx=\"${L.sx(p.step).toFixed(1)}\" cy=\"${y.toFixed(1)}\" r=\"4\" ` +\n"
    "      `fill=\"${p.curve.colour}\" stroke=\"var(--card)\" stroke-width=\"1.5\"/>`;\n"
    "  }\n"
    "  g.innerHTML = s;\n"
    "  readOf(el).innerHTML = underText(points, full, '', '');\n"
    "}\n"
    "function zoomTo(a, b) {\n"
    "  page.state.zoom = a === null ? null : [Math.min(a, b), Math.max(a, b)];\n"
    "  byId('unzoom').hidden = !page.state.zoom;\n"
    "  redraw();\n"
    "}\n"
    "function plotKeys(el, e) {\n"
    "  const chart = page.charts[el.dataset.plot], c = chart.curves && chart.curves.find(k => k.x.length);\n"
    "  if (!c) return false;\n"
    "  const L = chart.layout, at = chart.at === undefined ? c.x[c.x.length - 1] : chart.at, i = nearest(c.x, at);\n"
    "  const jump = e.shiftKey ? Math.max(1, Math.round(c.x.length / 20)) : 1;\n"
    "  const to = { ArrowLeft: i - jump, ArrowRight: i + jump, Home: 0, End: c.x.length - 1 }[e.key];\n"
    "  if (to !== undefined) pointAt(el, c.x[Math.max(0, Math.min(c.x.length - 1, to))]);\n"
    "  else if (e.key === '+' || e.key === '=') { const r = (L.x1 - L.x0) / 4; zoomTo(at - r, at + r); pointAt(el, at); }\n"
    "  else if (e.key === '-') { const r = L.x1 - L.x0; zoomTo(Math.max(0, at - r), at + r); pointAt(el, at); }\n"
    "  else if (e.key === '0' || e.key === 'Escape') zoomTo(null);\n"
    "  else return false;\n"
    "  return true;\n"
    "}\n"
    "\n"
    "/* -- the other sections */\n"
    "function showRidges() {\n"
    "  byId('ridges').innerHTML = page.data.histograms.map((h, i) => {\n"
    "    const name = escapeText(h.name), say = `${name}: its histogram at ${h.steps.length} steps. Arrow keys choose one.`;\n"
    "    return `<div class=\"card\"><h3>${name}</h3><div class=\"plot\" style=\"height:250px\" tabindex=\"0\" role=\"img\" ` +\n"
    "      `data-ridge=\"${i}\" aria-label=\"${say}\"></div><div class=\"read\" aria-live=\"polite\"></div></div>`;\n"
    "  }).join('');\n"
    "  document.querySelectorAll('[data-ridge]').forEach(el => drawRidge(el, -1));\n"
    "}\n"
    "function drawRidge(el, chosen) {\n"
    "  const h = page.data.histograms[el.dataset.ridge];\n"
    "  if (typeof h.bins === 'string') h.bins = decode(h.bins, Float32Array);\n"
    "  h.chosen = chosen;\n"
    "  el.innerHTML = ridgeSvg(h, Math.max(220, el.clientWidth), 250, chosen);\n"
    "  const k = chosen < 0 ? h.steps.length - 1 : chosen;\n"
    "  readOf(el).innerHTML = `<span class=\"line\"><span>${chosen < 0 ? 'last ' : ''}step <b>${h.steps[k]}</b></span>` +\n"
    "    `<span>${h.min[k] === null ? 'no finite value' : `from <b>${short(h.min[k])}</b> to <b>${short(h.max[k])}</b>`}</span></span>`;\n"
    "}\n"
    "function showImages() {\n"
    "  byId('pictures').innerHTML = page.data.images.map((im, i) => {\n"
    "    const k = im.shots.length - 1, name = escapeText(im.name);\n"
    "    const slider = `<input type=\"range\" min=\"0\" max=\"${k}\" value=\"${k}\" data-image=\"${i}\" aria-label=\"Step of ${name}\">`;\n"
    "    return `<figure class=\"card\"><div class=\"row\"><h3>${name}</h3></div><div class=\"pictures\"></div>` +\n",
    "      `<figcaption class=\"row small soft\">${k > 0 ? slider : ''}<span></span></figcaption></figure>`;\n"
    "  }).join('');\n"
    "  byId('pictures').querySelectorAll('figure').forEach((f, i) => showShot(f, i, page.data.images[i].shots.length - 1));\n"
    "}\n"
    "function showShot(figure, i, k) {\n"
    "  const shot = page.data.images[i].shots[k], name = escapeText(page.data.images[i].name);\n"
    "  figure.querySelector('.pictures').innerHTML = shot.png.map((p, j) =>\n"
    "    `<img alt=\"${name} ${j} at step ${shot.step}\" src=\"data:image/png;base64,${p}\">`).join('');\n"
    "  figure.querySelector('figcaption span').textContent = 'step ' + shot.step;\n"
    "}\n"
    "function showModel() {\n"
    "  const g = page.data.graph, s = page.state;\n"
    "  const open = new Set(s.open || openAtFirst(g));\n"
    "  const host = byId('drawing'), first = !page.open;\n"
    "  host.innerHTML = modelSvg(g, open);\n"
    "  if (first) host.scrollLeft = Math.max(0, (host.scrollWidth - host.clientWidth) / 2);\n"
    "  page.open = open;\n"
    "  const total = g.variables.reduce((n, v) => n + (v[3] ? v[2] : 0), 0);\n"
    "  const rows = g.variables.map(v => `<tr><td>${escapeText(v[0])}</td><td>${escapeText(v[1])}</td><td class=\"n\">${v[2]}</td>` +\n"
    "    `<td>${v[3] ? 'yes' : 'no'}</td></tr>`);\n"
    "  if (s.variables === undefined ? window.innerWidth >= 1100 : s.variables) byId('variables').open = true; /* beside the drawing */\n"
    "  byId('variables').querySelector('div').innerHTML = '<table><thead><tr><th>variable</th><th>shape</th>' +\n"
    "    `<th class=\"n\">numbers</th><th>trained</th></tr></thead><tbody>${rows.join('')}</tbody></table>`;\n"
    "  byId('variables').querySelector('summary').innerHTML =\n"
    "    `Variables <span class=\"soft\">${g.variables.length}, ${count(total).trim()} trained numbers</span>`;\n"
    "}\n"
    "function showFlame() {\n"
    "  const t = page.data.trace, s = page.state, host = byId('flame'), column = s.column;\n"
    "  const say = column === 4 ? nanos : v => count(v) + 'B';\n"
    "  const root = flameTree(t.kernels, column, s.merged);\n"
    "  let at = root;\n"
    "  for (let next = root; next; next = at.kids.find(k => !k.leaf && (page.zoomed + '/').startsWith(k.key + '/'))) at = next;\n"
    "  const made = flameSvg(at, Math.max(220, host.clientWidth - 24), root.value, say);\n"
    "  page.blocks = made.blocks;\n"
    "  page.flameTotal = root.value;\n"
    "  page.say = say;\n"
    "  host.innerHTML = made.svg;\n"
    "  byId('flame-up').hidden = at === root;\n"
    "  byId('flame-read').innerHTML = `The faster of two steps, number ${t.step}: <b>${nanos(t.total)}</b> in ${t.kernels.length} ` +\n"
    "    'parts. They were measured kernel by kernel, so that they are slower than others. ' + ['<br>', ...[['214 55%', 'values'], ['18 58%', 'gradients'],\n"
    "    ['160 20%', 'updates and the rest']].map(c => `<span class=\"key\" style=\"background:hsl(${c[0]} calc(var(--flame) + 3%))\"></span>${c[1]} &nbsp; `)].join('');\n"
    "  byId('table').innerHTML = kernelTable(t.kernels, column, root.value, 20);\n"
    "  const pressed = { 'by-time': column === 4, 'by-bytes': column === 5, merged: s.merged, ordered: !s.merged };\n"
    "  for (const id of Object.keys(pressed)) byId(id).setAttribute('aria-pressed', pressed[id]);\n"
    "}\n"
    "function readBlock(i) {\n"
    "  const b = page.blocks[i].n, k = b.leaf;\n"
    "  const rate = k && k[6] ? `, ${short(k[6] / k[4])} GFLOP/s` : '', where = k && k[2] ? ' on ' + escapeText(k[2]) : '';\n"
    "  byId('flame-read').innerHTML = `<b>${escapeText(b.path || 'whole step')}</b> ${page.say(b.value)}, ` +\n"
    "    (100 * b.value / page.flameTotal).toFixed(1) + ' %' + (k ? ` &nbsp;${escapeText(k[0])}${where}, ${count(k[5])}B${rate}` : '');\n"
    "}\n"
    "function showSetup() {\n"
    "  const row = r => `<tr><th>${escapeText(r[0])}</th><td>${escapeText(r[1])}</td></tr>`;\n"
    "  const rows = g => g.rows.every(r => r[1] === '') ? `<div class=\"order small\">${g.rows.map(r => escapeText(r[0])).join(' \342\206\222 ')}</div>` :\n"
    "    `<table><tbody>${g.rows.map(row).join('')}</tbody></table>`;\n"
    "  byId('params').innerHTML = page.data.setup.map(g => `<div class=\"card\"><h3>${escapeText(g.title)}</h3>${rows(g)}</div>`).join('');\n"
    "}\n"
    "\n"
    "/* -- what the reader does */\n"
    "function listen() {\n"
    "  const s = page.state, on = (id, what, fn) => byId(id).addEventListener(what, fn);\n",
    "  let busy = 0, drag = null;\n"
    "  page.isBusy = () => Date.now() - busy < 3000 || drag || (document.activeElement && document.activeElement.id === 'filter');\n"
    "  for (const what of ['pointermove', 'pointerdown', 'keydown', 'wheel', 'input', 'touchmove'])\n"
    "    document.addEventListener(what, () => { busy = Date.now(); }, { passive: true });\n"
    "  on('filter', 'input', e => { s.filter = e.target.value; showCharts(); });\n"
    "  on('smooth', 'input', e => { s.smooth = Number(e.target.value); byId('smoothed').textContent = s.smooth.toFixed(2); redraw(); });\n"
    "  on('log', 'change', e => { s.log = e.target.checked; redraw(); });\n"
    "  on('trim', 'change', e => { s.trim = e.target.checked; redraw(); });\n"
    "  on('axis', 'change', e => { s.axis = e.target.value; redraw(); });\n"
    "  on('unzoom', 'click', () => zoomTo(null));\n"
    "  on('theme', 'click', () => { s.theme = { system: 'dark', dark: 'light', light: 'system' }[s.theme]; setTheme(); });\n"
    "  on('follow', 'click', e => { s.follow = !s.follow; e.currentTarget.setAttribute('aria-pressed', s.follow); });\n"
    "  on('by-time', 'click', () => { s.column = 4; showFlame(); });\n"
    "  on('by-bytes', 'click', () => { s.column = 5; showFlame(); });\n"
    "  on('merged', 'click', () => { s.merged = true; page.zoomed = ''; showFlame(); });\n"
    "  on('ordered', 'click', () => { s.merged = false; page.zoomed = ''; showFlame(); });\n"
    "  on('flame-up', 'click', () => { page.zoomed = ''; showFlame(); });\n"
    "  on('add', 'click', () => byId('file').click());\n"
    "  on('file', 'change', e => addFiles(e.target.files));\n"
    "  on('runs', 'change', e => {\n"
    "    const r = page.runs[e.target.dataset.run];\n"
    "    s.hidden = e.target.checked ? s.hidden.filter(n => n !== r.name) : s.hidden.concat(r.name);\n"
    "    showAxis();\n"
    "    redraw();\n"
    "  });\n"
    "  on('runs', 'click', e => {\n"
    "    const i = e.target.dataset && e.target.dataset.drop;\n"
    "    if (i === undefined) return;\n"
    "    s.added = s.added.filter(a => a.name !== page.runs[i].name);\n"
    "    page.runs.splice(i, 1);\n"
    "    showRuns();\n"
    "    showCharts();\n"
    "  });\n"
    "  on('variables', 'toggle', e => { s.variables = e.target.open; });\n"
    "  byId('charts').addEventListener('toggle', e => {\n"
    "    const g = e.target.dataset.group;\n"
    "    if (g === undefined) return;\n"
    "    s.shut = e.target.open ? s.shut.filter(n => n !== g) : s.shut.includes(g) ? s.shut : s.shut.concat(g);\n"
    "  }, true);\n"
    "  on('charts', 'click', e => {\n"
    "    const i = e.target.dataset && e.target.dataset.wide;\n"
    "    if (i === undefined) return;\n"
    "    const name = page.charts[i].name;\n"
    "    s.wide = s.wide.includes(name) ? s.wide.filter(n => n !== name) : s.wide.concat(name);\n"
    "    const wide = s.wide.includes(name), card = e.target.closest('.card');\n"
    "    card.classList.toggle('wide', wide);\n"
    "    e.target.textContent = wide ? '\342\210\222' : '\342\244\242';\n"
    "    drawPlot(card.querySelector('.plot'));\n"
    "  });\n"
    "  const plotOf = e => e.target.closest && e.target.closest('[data-plot]');\n"
    "  const xOf = (el, e) => page.charts[el.dataset.plot].layout.back(e.clientX - el.getBoundingClientRect().left);\n"
    "  on('charts', 'pointermove', e => {\n"
    "    const el = plotOf(e);\n"
    "    if (!el || !page.charts[el.dataset.plot].layout) return;\n"
    "    pointAt(el, xOf(el, e));\n"
    "    if (!drag || drag.el !== el) return;\n"
    "    const L = page.charts[el.dataset.plot].layout, a = L.sx(drag.from), b = L.sx(xOf(el, e));\n"
    "    el.querySelector('.cursor').innerHTML += `<rect x=\"${Math.min(a, b)}\" width=\"${Math.abs(b - a)}\" height=\"${L.h}\" ` +\n"
    "      'fill=\"var(--accent)\" fill-opacity=\".15\"/>';\n"
    "  });\n"
    "  on('charts', 'pointerdown', e => {\n"
    "    const el = plotOf(e);\n"
    "    if (el && e.button === 0 && page.charts[el.dataset.plot].layout) drag = { el, from: xOf(el, e), px: e.clientX };\n"
    "  });\n"
    "  document.addEventListener('pointerup', e => {\n"
    "    if (drag && Math.abs(e.clientX - drag.px) > 8) {\n"
    "      const L = page.charts[drag.el.dataset.plot].layout;\n"
    "      zoomTo(drag.from, Math.max(L.x0, Math.min(L.x1, xOf(drag.el, e))));\n"
    "    }\n"
    "    drag = null;\n"
    "  });\n"
    "  document.addEventListener('pointercancel', () => { drag = null; });\n"
    "  on('charts', 'dblclick', e => { if (plotOf(e)) zoomTo(null); });\n",
    "  byId('charts').addEventListener('pointerleave', e => {\n"
    "    if (!e.target.dataset || e.target.dataset.plot === undefined) return;\n"
    "    e.target.querySelectorAll('.cursor').forEach(g => { g.innerHTML = ''; });\n"
    "    readOf(e.target).innerHTML = page.charts[e.target.dataset.plot].rest || '';\n"
    "  }, true);\n"
    "  on('charts', 'keydown', e => { const el = plotOf(e); if (el && plotKeys(el, e)) e.preventDefault(); });\n"
    "  on('ridges', 'pointermove', e => {\n"
    "    const el = e.target.closest('[data-ridge]');\n"
    "    if (!el) return;\n"
    "    const h = page.data.histograms[el.dataset.ridge], y = (e.clientY - el.getBoundingClientRect().top - 46) / (250 - 70);\n"
    "    const k = Math.max(0, Math.min(h.steps.length - 1, Math.round(y * (h.steps.length - 1))));\n"
    "    if (k !== h.chosen) drawRidge(el, k);\n"
    "  });\n"
    "  on('ridges', 'keydown', e => {\n"
    "    const el = e.target.closest('[data-ridge]'), h = el && page.data.histograms[el.dataset.ridge];\n"
    "    const d = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 }[e.key];\n"
    "    if (!h || !d) return;\n"
    "    drawRidge(el, Math.max(0, Math.min(h.steps.length - 1, (h.chosen < 0 ? h.steps.length - 1 : h.chosen) + d)));\n"
    "    e.preventDefault();\n"
    "  });\n"
    "  on('pictures', 'input', e => {\n"
    "    const i = e.target.dataset.image;\n"
    "    if (i !== undefined) showShot(e.target.closest('figure'), Number(i), Number(e.target.value));\n"
    "  });\n"
    "  const focusOn = el => { if (el && el.focus) el.focus(); }; /* what had it was drawn anew */\n"
    "  const press = fn => e => {\n"
    "    if (e.type === 'keydown' && e.key !== 'Enter' && e.key !== ' ') return;\n"
    "    if (fn(e) && e.type === 'keydown') e.preventDefault();\n"
    "  };\n"
    "  const scope = press(e => {\n"
    "    const g = e.target.closest('[data-scope]'), name = g && g.dataset.scope;\n"
    "    if (!g) return false;\n"
    "    if (page.open.has(name)) page.open.forEach(o => { if (o === name || o.startsWith(name + '/')) page.open.delete(o); });\n"
    "    else page.open.add(name);\n"
    "    s.open = [...page.open];\n"
    "    showModel();\n"
    "    if (e.type === 'keydown') focusOn([...byId('drawing').querySelectorAll('[data-scope]')].find(x => x.dataset.scope === name));\n"
    "    return true;\n"
    "  });\n"
    "  const block = press(e => {\n"
    "    const g = e.target.closest('[data-block]');\n"
    "    if (!g) return false;\n"
    "    const n = page.blocks[g.dataset.block].n;\n"
    "    if (n.leaf) { readBlock(g.dataset.block); return true; }\n"
    "    page.zoomed = n.key;\n"
    "    showFlame();\n"
    "    if (e.type === 'keydown') focusOn(byId('flame').querySelector('[data-block]'));\n"
    "    return true;\n"
    "  });\n"
    "  for (const what of ['click', 'keydown']) { on('drawing', what, scope); on('flame', what, block); }\n"
    "  for (const what of ['pointerover', 'focusin']) on('flame', what, e => {\n"
    "    const g = e.target.closest('[data-block]');\n"
    "    if (g) readBlock(g.dataset.block);\n"
    "  });\n"
    "  document.addEventListener('dragover', e => { e.preventDefault(); document.body.classList.add('dropping'); });\n"
    "  document.addEventListener('dragleave', () => document.body.classList.remove('dropping'));\n"
    "  document.addEventListener('drop', e => {\n"
    "    e.preventDefault();\n"
    "    document.body.classList.remove('dropping');\n"
    "    addFiles(e.dataTransfer.files);\n"
    "  });\n"
    "  window.addEventListener('resize', () => { clearTimeout(page.resizing); page.resizing = setTimeout(drawAll, 150); });\n"
    "  window.addEventListener('beforeprint', () => {\n"
    "    page.printing = true;\n"
    "    setTheme();\n"
    "    document.querySelectorAll('details').forEach(d => { d.open = true; });\n"
    "    redraw(true);\n"
    "  });\n"
    "  window.addEventListener('afterprint', () => { page.printing = false; setTheme(); });\n"
    "  window.addEventListener('pagehide', saveState);\n"
    "  if (window.matchMedia) matchMedia('(prefers-color-scheme: dark)').addEventListener('change', setTheme);\n"
    "}\n"
    "function drawAll() {\n"
    "  redraw();\n"
    "  document.querySelectorAll('[data-ridge]').forEach(el => drawRidge(el, -1));\n"
    "  if (page.data.trace) showFlame();\n"
    "}\n"
    "function addRun(run) {\n"
    "  const taken = new Set(page.runs.map(r => r.name)), base = run.name;\n"
    "  for (let i = 2; taken.has(run.name); i++) run.name = base + ' ' + i;\n"
    "  page.runs.push(run);\n"
    "}\n"
    "function addFiles(files) {\n",
    "  byId('not-added').textContent = '';\n"
    "  for (const f of files) f.text().then(text => {\n"
    "    const run = runOfFile(f.name, text);\n"
    "    run.added = true;\n"
    "    addRun(run);\n"
    "    const plain = y => [...y].map(v => Number.isFinite(v) ? v : String(v));\n"
    "    const curves = run.curves.map(c => ({ name: c.name, total: c.total, x: [...c.x], y: plain(c.y) }));\n"
    "    page.state.added.push({ name: run.name, per: run.per, curves });\n"
    "    if (!saveState()) { /* too large to outlive a reload */\n"
    "      page.state.added.pop();\n"
    "      page.state.follow = false;\n"
    "      byId('follow').setAttribute('aria-pressed', false);\n"
    "    }\n"
    "    showRuns();\n"
    "    showCharts();\n"
    "  }).catch(e => { byId('not-added').textContent += f.name + ' is no report.html and no stats.json: ' + e.message + ' '; });\n"
    "}\n"
    "\n"
    "/* -- following a training: load the file again, when nobody is looking closely */\n"
    "function follow() {\n"
    "  const wait = () => Math.min(2147483, Math.max(2, page.data.every)) * 1000; /* setTimeout takes more than 2^31 ms for none */\n"
    "  const again = () => {\n"
    "    if (page.data.status !== 'running') return;\n"
    "    if (!page.state.follow || document.hidden || page.isBusy()) { setTimeout(again, 1000); return; }\n"
    "    saveState();\n"
    "    location.reload();\n"
    "  };\n"
    "  if (page.data.status === 'running') { setTimeout(again, wait()); setInterval(showProgress, 1000); }\n"
    "}\n"
    "\n"
    "function start(text) {\n"
    "  const d = page.data = JSON.parse(text);\n"
    "  page.state = loadState();\n"
    "  const s = page.state;\n"
    "  page.runs = [];\n"
    "  d.runs.forEach((r, i) => addRun({ name: r.name, per: (i ? r : d.progress).steps_per_epoch, curves: curvesOf(r.scalars) }));\n"
    "  for (const a of s.added) {\n"
    "    const curves = a.curves.map(c => ({ name: c.name, total: c.total, x: c.x, y: c.y.map(Number) }));\n"
    "    addRun({ name: a.name, per: a.per, added: true, curves });\n"
    "  }\n"
    "  setTheme();\n"
    "  byId('title').textContent = d.runs[0].name;\n"
    "  byId('filter').value = s.filter;\n"
    "  byId('smooth').value = s.smooth;\n"
    "  byId('smoothed').textContent = Number(s.smooth).toFixed(2);\n"
    "  byId('log').checked = s.log;\n"
    "  byId('trim').checked = s.trim;\n"
    "  byId('follow').hidden = d.status !== 'running';\n"
    "  byId('follow').setAttribute('aria-pressed', s.follow);\n"
    "  byId('foot').textContent = d.foot;\n"
    "  const sections = [['curves', 'Curves', true], ['histograms', 'Histograms', d.histograms.length],\n"
    "    ['images', 'Images', d.images.length], ['model', 'Model', d.graph && d.graph.ops.length],\n"
    "    ['kernels', 'Time of a step', d.trace], ['setup', 'Set-up', d.setup.length], ['log-tail', 'Log', d.log]];\n"
    "  byId('nav').innerHTML = sections.filter(x => x[2]).map(x => '<a href=\"#' + x[0] + '\">' + x[1] + '</a>').join('');\n"
    "  for (const x of sections) byId(x[0]).hidden = !x[2];\n"
    "  showProgress();\n"
    "  listen();\n"
    "  showRuns();\n"
    "  showCharts();\n"
    "  const rest = () => { /* the curves first: what stands below them can wait for the first picture */\n"
    "    if (d.histograms.length) showRidges();\n"
    "    if (d.images.length) showImages();\n"
    "    if (d.graph && d.graph.ops.length) showModel();\n"
    "    if (d.trace) showFlame();\n"
    "    showSetup();\n"
    "    byId('lines').textContent = d.log;\n"
    "    byId('log-box').scrollTop = 1e9; /* its last lines */\n"
    "    if (s.scroll) window.scrollTo({ top: s.scroll, behavior: 'instant' });\n"
    "    restoreFocus();\n"
    "  };\n"
    "  if (s.scroll) rest(); else setTimeout(rest, 0);\n"
    "  follow();\n"
    "}\n"
    "start(byId('data').textContent);\n"
    "</script>\n"
    "</body>\n"
    "</html>\n"
};
/* clang-format on */
/* The last line written by tests/gen_report.py. */

/* ==== >>report ======================================================================================== */

enum {
    TP__REPORT_BINS = 32,       /* number of bins of a histogram */
    TP__REPORT_HISTOGRAMS = 48, /* largest number of histograms that are kept per tag; must be even */
    TP__REPORT_SHOTS = 8,       /* largest number of steps whose images are kept, per tag; must be even */
    TP__REPORT_PICTURES = 8,    /* largest number of images that are kept of a batch */
    TP__REPORT_SIDE = 256,      /* largest side of an image in pixels */
    TP__REPORT_POINTS = 400000, /* number of points of a run, which its curves share */
    TP__REPORT_KERNELS = 8000,
    /* number of traced runs; the fastest is shown, because other programs may have slowed down the others */
    TP__REPORT_TRACED = 2,
    TP__REPORT_OPERATIONS = 20000, /* largest number of operations, and of variables */
    TP__REPORT_LOG = 12288         /* number of bytes from the end of the log */
};
#define TP__REPORT_IMAGE_BYTES ((size_t)2 << 20)

/* The summary of a tag at one step: a histogram's range and counts, or PNG images, each after its size. */
typedef struct tp__report_entry {
    int64_t step;
    double min, max; /* of the finite values; 0 where there are none, so that all bins are 0 */
    double bin[TP__REPORT_BINS];
    tp_buf png;
} tp__report_entry;

/* The summaries of a tag at all steps that are kept. When a track is full, every second entry is freed and the stride doubles. */
typedef struct tp__report_track {
    char *tag;
    int kind;             /* TP_SUMMARY_HISTOGRAM or TP_SUMMARY_IMAGE */
    int64_t seen, stride; /* seen: number of summaries so far; every stride-th one and the newest are kept */
    bool newest;          /* the last entry is the newest summary, and not a stride-th one */
    tp__report_entry *entry;
    int n;
} tp__report_track;

typedef struct tp__report {
    const char *dir;
    tp_callback *cb;
    double interval;               /* seconds between two writings of the page */
    bool off, trace_off, warned;   /* warned: the warning about too little memory was logged */
    const char *const *other_dirs; /* directories of other trainings to show */
    int n_other;
    tp__report_track *track;
    int n_track, cap_track;
    size_t image_bytes;
    tp_trace trace;
    int n_run, n_traced; /* runs and traced runs of this process */
    int64_t fastest;     /* nanoseconds of the fastest traced run, which is shown */
    bool tracing;
    double begun, first_done, write_time,
        /* tp_time at before_train, after the first step, after the last writing; seconds that the last writing took */
        write_seconds;
    int64_t first_step, step_at_first, step_wrote;
    double speed;                         /* steps per second between the last two writings */
    tp_buf other_runs, graph, kernels;    /* JSON that is made once: other trainings, graph, kernels */
    tp_buf data, scratch, previous_steps; /* JSON of the page; steps of a curve as bytes; steps of the previous curve */
} tp__report;

/* -- JSON inside <script>: without '<', so that no text can end the script */

static void tp__report_text(tp_buf *b, const char *s, size_t n)
{
    const size_t begin = b->len;
    tp_buf_put(b, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\') tp_buf_printf(b, "\\%c", c);
        else if (c < 32 || c == '<' || c == 127) tp_buf_printf(b, "\\u%04x", (unsigned)c);
        else tp_buf_put(b, s + i, 1);
    }
    tp_buf_put(b, "\"", 1);
    if (!b->failed) tp__mend_utf8(b->data + begin, b->len - begin);
}

static void tp__report_string(tp_buf *b, const char *s) { tp__report_text(b, s, strlen(s)); }

static void tp__report_number(tp_buf *b, double v)
{
    char text[TP_NUMBER_TEXT];
    tp_format_double(text, v);
    tp_buf_printf(b, "%s", tp__finite(v) ? text : "null");
}

static void tp__base64(tp_buf *b, const void *data, size_t n)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = (const unsigned char *)data;
    char group[4];
    for (size_t i = 0; i < n; i += 3) {
        const unsigned a = p[i], c = i + 1 < n ? p[i + 1] : 0u, d = i + 2 < n ? p[i + 2] : 0u;
        group[0] = digit[a >> 2];
        group[1] = digit[(a & 3u) << 4 | c >> 4];
        group[2] = (char)(i + 1 < n ? digit[(c & 15u) << 2 | d >> 6] : '=');
        group[3] = (char)(i + 2 < n ? digit[d & 63u] : '=');
        tp_buf_put(b, group, 4);
    }
}

/* Appends the low `size` bytes of v in little-endian order, on every machine. */
static void tp__report_bytes(tp_buf *b, uint64_t v, int size)
{
    unsigned char byte[8];
    for (int i = 0; i < size; i++) byte[i] = (unsigned char)(v >> (8 * i));
    tp_buf_put(b, byte, (size_t)size);
}
static uint64_t tp__report_unbytes(const unsigned char *p, int size)
{
    uint64_t v = 0;
    for (int i = 0; i < size; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}
static void tp__report_f64(tp_buf *b, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    tp__report_bytes(b, bits, 8);
}
static void tp__report_f32(tp_buf *b, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    tp__report_bytes(b, bits, 4);
}

/* -- curves of scalars in the report */

/* Selects at most five indices from s[begin, end), in ascending order: the first, the last, the smallest, the largest
 * and the first that is not finite. Returns their number. */
static int tp__report_extremes(const tp_stat *s, int begin, int end, int kept_index[5])
{
    int low = -1, high = -1, not_finite = -1, n = 0;
    for (int i = begin; i < end; i++) {
        if (!tp__finite(s[i].value)) {
            if (not_finite < 0) not_finite = i;
            continue;
        }
        if (low < 0 || s[i].value < s[low].value) low = i;
        if (high < 0 || s[i].value > s[high].value) high = i;
    }
    const int wanted[5] = {begin, low, high, not_finite, end - 1};
    for (int i = 0; i < 5; i++) {
        int at = n;
        bool known = wanted[i] < 0;
        for (int k = 0; k < n; k++) known = known || kept_index[k] == wanted[i];
        if (known) continue;
        for (; at > 0 && kept_index[at - 1] > wanted[i]; at--) kept_index[at] = kept_index[at - 1];
        kept_index[at] = wanted[i];
        n++;
    }
    return n;
}

/* Reduces n values to about `max_points`: appends their steps to r->scratch and the values to `values`. If several values
 * have the same step, the last one is used, as in stats.json. Returns the number of points. */
static int tp__report_reduce_points(tp__report *r, const tp_stat *s, int n, int max_points, bool use_int64,
                                    tp_buf *values)
{
    const int pieces = n <= max_points ? n : max_points / 5;
    int done = 0, newest = -1;
    r->scratch.len = 0;
    for (int k = 0; k < pieces; k++) {
        int kept_index[5];
        const int begin = (int)((int64_t)n * k / pieces), end = (int)((int64_t)n * (k + 1) / pieces);
        const int m = tp__report_extremes(s, begin, end, kept_index);
        for (int i = 0; i < m; i++) {
            int at = kept_index[i];
            while (at + 1 < n && s[at + 1].step == s[at].step) at++;
            if (at == newest) continue;
            newest = at;
            tp__report_bytes(&r->scratch, (uint64_t)s[at].step, use_int64 ? 8 : 4);
            tp__report_f64(values, s[at].value);
            done++;
        }
    }
    return done;
}

/* Writes the curves of all scalars: [{"name", "total", "steps", "values"}]. `steps` is base64, or the index of an
 * earlier curve with the same steps. */
static void tp__report_scalars(tp__report *r, tp_buf *b, const tp_monitors *m)
{
    tp_buf values;
    int like = -1, share = m->n_history ? TP__REPORT_POINTS / m->n_history : 0;
    if (share < 250) share = 250;
    if (share > 10000) share = 10000;
    memset(&values, 0, sizeof values);
    tp_buf_printf(b, "[");
    for (int i = 0; i < m->n_history && !b->failed; i++) {
        const struct tp__history *h = &m->history[i];
        int total = 0; /* if several values have the same step, only the last counts */
        for (int k = 0; k < h->n; k++) total += k + 1 == h->n || h->stat[k + 1].step != h->stat[k].step;
        const bool use_int64 = h->n > 0 && (h->stat[0].step < 0 || h->stat[h->n - 1].step > 4294967295);
        values.len = 0;
        tp__report_reduce_points(r, h->stat, h->n, share, use_int64, &values);
        tp_buf_printf(b, "%s\n{\"name\":", i ? "," : "");
        tp__report_string(b, h->name);
        tp_buf_printf(b, ",\"total\":%d,\"wide\":%s,\"steps\":", total, use_int64 ? "true" : "false");
        if (like >= 0 && !use_int64 && r->previous_steps.len == r->scratch.len && r->scratch.len &&
            memcmp(r->previous_steps.data, r->scratch.data, r->previous_steps.len) == 0) {
            tp_buf_printf(b, "%d", like);
        } else {
            tp_buf_put(b, "\"", 1);
            tp__base64(b, r->scratch.data, r->scratch.len);
            tp_buf_put(b, "\"", 1);
            like = use_int64 ? -1 : i;
            r->previous_steps.len = 0;
            tp_buf_put(&r->previous_steps, r->scratch.data, r->scratch.len);
        }
        tp_buf_printf(b, ",\"values\":\"");
        tp__base64(b, values.data, values.len);
        tp_buf_printf(b, "\"}");
        if (values.failed || r->scratch.failed || r->previous_steps.failed) b->failed = true;
    }
    tp_buf_printf(b, "]");
    tp_buf_free(&values);
}

/* The steps of an epoch, as the records of a stats.json have them; 0: they do not say, or the epochs differ. */
static int64_t tp__report_epoch_steps(const tp_stat_entry *e, int n)
{
    double steps = 0; /* a double, as products of numbers from a file may overflow */
    for (int i = 0; i < n; i++)
        if (e[i].epoch_num > 0 && (double)(e[i].global_step / e[i].epoch_num) > steps)
            steps = (double)(e[i].global_step / e[i].epoch_num);
    for (int i = 0; i < n; i++) {
        const double epoch = (double)e[i].epoch_num, step = (double)e[i].global_step;
        if (!(epoch >= 0 && step <= steps * epoch && step > steps * (epoch - 1))) return 0;
    }
    return (int64_t)steps;
}

/* The last component of a path: the name of the training on the page. */
static const char *tp__report_name(const char *dir)
{
    const char *slash = tp__os_last_separator(dir);
    return slash && slash[1] ? slash + 1 : dir;
}

/* Writes the curves of other trainings; called once. */
static tp_status tp__report_others(tp__report *r)
{
    for (int i = 0; i < r->n_other; i++) {
        tp_stat_entry *entry = NULL;
        int n = 0;
        tp_status st = tp_load_existing_stats(r->other_dirs[i], &entry, &n);
        tp_monitors *m = st == TP_OK ? tp_monitors_new(NULL, 0) : NULL;
        if (st == TP_OK && !m) st = TP_ERR_NOMEM;
        for (int k = 0; k < n && st == TP_OK; k++) {
            tp_stat s;
            s.step = entry[k].global_step < 0 ? 0 : entry[k].global_step;
            s.value = entry[k].value;
            s.is_int = false;
            st = tp__history_add(m, entry[k].name, &s);
        }
        const int64_t epoch_steps = tp__report_epoch_steps(entry, n);
        tp_free(entry);
        if (st == TP_OK) {
            tp_buf_printf(&r->other_runs, ",\n{\"name\":");
            tp__report_string(&r->other_runs, tp__report_name(r->other_dirs[i]));
            tp_buf_printf(&r->other_runs, ",\"steps_per_epoch\":%lld,\"scalars\":", (long long)epoch_steps);
            tp__report_scalars(r, &r->other_runs, m);
            tp_buf_printf(&r->other_runs, "}");
        } else if (st != TP_ERR_NOMEM) {
            tp_log(TP_LOG_WARN, "The report leaves out the curves of '%s': %s", r->other_dirs[i], tp_last_error());
        }
        tp__callback_delete(m ? &m->cb : NULL);
        if (st == TP_ERR_NOMEM) return st;
    }
    return r->other_runs.failed ? TP_ERR_NOMEM : TP_OK;
}

/* -- histograms and images in the report */

static void tp__report_forget_entry(tp__report *r, tp__report_entry *e)
{
    r->image_bytes -= e->png.len;
    tp_buf_free(&e->png);
}

static void tp__report_forget_tracks(tp__report *r)
{
    for (int i = 0; i < r->n_track; i++) {
        for (int k = 0; k < r->track[i].n; k++) tp__report_forget_entry(r, &r->track[i].entry[k]);
        tp_free(r->track[i].entry);
        tp_free(r->track[i].tag);
    }
    r->n_track = 0;
}

static int tp__report_capacity(int kind)
{
    return kind == TP_SUMMARY_HISTOGRAM ? TP__REPORT_HISTOGRAMS : TP__REPORT_SHOTS;
}

/* Finds the track of a tag, or appends a new one. NULL: out of memory. */
static tp__report_track *tp__report_track_of(tp__report *r, const char *tag, int kind)
{
    for (int i = 0; i < r->n_track; i++)
        if (r->track[i].kind == kind && strcmp(r->track[i].tag, tag) == 0) return &r->track[i];
    if (r->n_track == r->cap_track) {
        const int cap = r->cap_track ? 2 * r->cap_track : 16;
        tp__report_track *t = (tp__report_track *)tp_realloc(r->track, (size_t)cap * sizeof *t);
        if (!t) return NULL;
        r->track = t;
        r->cap_track = cap;
    }
    tp__report_track *t = &r->track[r->n_track];
    memset(t, 0, sizeof *t);
    t->kind = kind;
    t->stride = 1;
    t->tag = tp_strdup(tag);
    t->entry = (tp__report_entry *)tp_calloc((size_t)tp__report_capacity(kind), sizeof *t->entry);
    if (t->tag && t->entry) return r->n_track++, t;
    tp_free(t->tag);
    tp_free(t->entry);
    return NULL;
}

/* Returns an entry for a new summary; frees older entries if the track is full. */
static tp__report_entry *tp__report_place(tp__report *r, tp__report_track *t)
{
    if (t->newest) tp__report_forget_entry(r, &t->entry[--t->n]);
    if (t->n == tp__report_capacity(t->kind)) {
        t->n = 0;
        for (int i = 0; i < tp__report_capacity(t->kind); i++) {
            if (i % 2) tp__report_forget_entry(r, &t->entry[i]);
            else t->entry[t->n++] = t->entry[i];
        }
        t->stride *= 2;
    }
    t->newest = t->seen++ % t->stride != 0;
    tp__report_entry *e = &t->entry[t->n++];
    memset(e, 0, sizeof *e);
    e->step = tp__step_of(r->cb);
    return e;
}

static void tp__report_histogram(tp__report_entry *e, const tp_tensor *x)
{
    const int64_t n = tp_tensor_size(x);
    bool found_finite = false;
    double block[TP__BLOCK];
    for (int64_t i = 0; i < n; i += TP__BLOCK) {
        const int m = tp__tensor_doubles(x, i, block);
        for (int k = 0; k < m; k++) {
            const double v = block[k];
            if (!tp__finite(v)) continue;
            if (!found_finite || v < e->min) e->min = v;
            if (!found_finite || v > e->max) e->max = v;
            found_finite = true;
        }
    }
    const int bins = TP__REPORT_BINS;
    const double width = e->max / bins - e->min / bins; /* divide first: max - min may overflow */
    for (int64_t i = 0; i < n; i += TP__BLOCK) {
        const int m = tp__tensor_doubles(x, i, block);
        for (int k = 0; k < m; k++) {
            const double v = block[k];
            if (!tp__finite(v)) continue;
            const double at = width > 0 ? v / width - e->min / width : bins / 2;
            e->bin[at >= bins ? bins - 1 : at > 0 ? (int)at : 0] += 1;
        }
    }
}

/* Appends one image of a batch as PNG. A large image is reduced by an integer factor: each pixel becomes the mean of a
 * square. */
static tp_status tp__report_picture(tp_buf *png, const tp_tensor *x, int64_t first, const int64_t s[4])
{
    const int64_t longest = s[1] > s[2] ? s[1] : s[2], by = (longest + TP__REPORT_SIDE - 1) / TP__REPORT_SIDE;
    const int64_t factor = by > 1 ? by : 1, height = (s[1] + factor - 1) / factor, width = (s[2] + factor - 1) / factor;
    unsigned char *pixel = (unsigned char *)tp_malloc((size_t)(height * width * s[3]) + 1);
    tp_buf image_png;
    if (!pixel) return TP_ERR_NOMEM;
    memset(&image_png, 0, sizeof image_png);
    for (int64_t y = 0; y < height; y++)
        for (int64_t z = 0; z < width * s[3]; z++) {
            const int64_t column = z / s[3] * factor, c = z % s[3];
            double sum = 0;
            int n_pixels = 0;
            for (int64_t i = y * factor; i < (y + 1) * factor && i < s[1]; i++)
                for (int64_t k = column; k < column + factor && k < s[2]; k++, n_pixels++) {
                    const double v = tp_tensor_get(x, first + (i * s[2] + k) * s[3] + c);
                    sum += v >= 255 ? 255 : v > 0 ? v : 0;
                }
            pixel[y * width * s[3] + z] = (unsigned char)(n_pixels ? sum / n_pixels : 0);
        }
    tp__png(&image_png, pixel, height, width, s[3]);
    tp_free(pixel);
    tp__report_bytes(png, image_png.len, 4);
    tp_buf_put(png, image_png.data, image_png.len);
    const bool failed = image_png.failed || png->failed;
    tp_buf_free(&image_png);
    return failed ? TP_ERR_NOMEM : TP_OK;
}

static tp_status tp__report_images(tp_buf *png, const tp_tensor *x)
{
    int64_t s[4];
    tp_status st = tp__image_layout(x, s);
    for (int64_t i = 0; i < s[0] && i < TP__REPORT_PICTURES && st == TP_OK && s[1] > 0 && s[2] > 0; i++)
        st = tp__report_picture(png, x, i * s[1] * s[2] * s[3], s);
    return st;
}

/* The entry of a track that is missed least: neither the first nor the newest, and with the nearest neighbours. Of two such entries
 * it is the first. */
static int tp__report_missed_least(const tp__report_track *t)
{
    int least = 0;
    uint64_t shortest = 0;
    for (int i = 1; i < t->n - 1; i++) {
        const uint64_t gap = (uint64_t)t->entry[i + 1].step - (uint64_t)t->entry[i - 1].step;
        if (least && gap >= shortest) continue;
        least = i;
        shortest = gap;
    }
    return least;
}

/* While all images together are too large, the tag with the most steps loses one of them; of two such tags, the one that begins
 * earlier. The newest of each tag stays, whatever its size. */
static void tp__report_limit_images(tp__report *r)
{
    while (r->image_bytes > TP__REPORT_IMAGE_BYTES) {
        tp__report_track *longest = NULL;
        for (int i = 0; i < r->n_track; i++) {
            tp__report_track *t = &r->track[i];
            if (t->kind != TP_SUMMARY_IMAGE || t->n < 2) continue;
            if (!longest || t->n > longest->n || (t->n == longest->n && t->entry[0].step < longest->entry[0].step))
                longest = t;
        }
        if (!longest) return;
        const int at = tp__report_missed_least(longest);
        tp__report_forget_entry(r, &longest->entry[at]);
        longest->n--;
        memmove(longest->entry + at, longest->entry + at + 1, (size_t)(longest->n - at) * sizeof *longest->entry);
    }
}

static void tp__report_no_memory(tp__report *r)
{
    if (!r->warned)
        tp_log(TP_LOG_WARN, "There is no memory for all of the report. Training goes on; the page lacks something.");
    r->warned = true;
}

static tp_status tp__report_summary(tp_monitor *m, const tp_summary *s)
{
    tp__report *r = (tp__report *)m->cb.user;
    for (int i = 0; i < s->n && !r->off; i++) {
        const tp_summary_value *v = &s->value[i];
        if (v->kind != TP_SUMMARY_HISTOGRAM && v->kind != TP_SUMMARY_IMAGE) continue;
        tp_buf png;
        memset(&png, 0, sizeof png);
        const tp_status st = v->kind == TP_SUMMARY_IMAGE ? tp__report_images(&png, v->tensor) : TP_OK;
        tp__report_track *t = st == TP_OK ? tp__report_track_of(r, v->tag, v->kind) : NULL;
        if (!t) {
            tp_buf_free(&png);
            if (st != TP_OK && st != TP_ERR_NOMEM) return st;
            tp__report_no_memory(r);
            continue;
        }
        tp__report_entry *e = tp__report_place(r, t);
        if (v->kind == TP_SUMMARY_HISTOGRAM) tp__report_histogram(e, v->tensor);
        e->png = png;
        r->image_bytes += png.len;
        tp__report_limit_images(r);
    }
    return TP_OK;
}

static bool tp__report_has_values(const tp__report_entry *e)
{
    for (int i = 0; i < TP__REPORT_BINS; i++)
        if (e->bin[i] > 0) return true;
    return false;
}

/* Writes [{"name", "steps", "min", "max", "bins"}]: counts as float32 in base64, which is enough to draw them; min and max are null
 * where no value was finite. */
static void tp__report_histograms_json(tp__report *r, tp_buf *b)
{
    int n = 0;
    tp_buf_printf(b, "[");
    for (int i = 0; i < r->n_track; i++) {
        const tp__report_track *t = &r->track[i];
        if (t->kind != TP_SUMMARY_HISTOGRAM || t->n == 0) continue;
        tp_buf_printf(b, "%s\n{\"name\":", n++ ? "," : "");
        tp__report_string(b, t->tag);
        tp_buf_printf(b, ",\"steps\":[");
        for (int k = 0; k < t->n; k++) tp_buf_printf(b, "%s%lld", k ? "," : "", (long long)t->entry[k].step);
        for (int max = 0; max < 2; max++) {
            tp_buf_printf(b, max ? "],\"max\":[" : "],\"min\":[");
            for (int k = 0; k < t->n; k++) {
                const tp__report_entry *e = &t->entry[k];
                if (k) tp_buf_put(b, ",", 1);
                if (tp__report_has_values(e)) tp__report_number(b, max ? e->max : e->min);
                else tp_buf_printf(b, "null");
            }
        }
        r->scratch.len = 0;
        for (int k = 0; k < t->n; k++)
            for (int q = 0; q < TP__REPORT_BINS; q++) tp__report_f32(&r->scratch, (float)t->entry[k].bin[q]);
        if (r->scratch.failed) b->failed = true;
        tp_buf_printf(b, "],\"bins\":\"");
        tp__base64(b, r->scratch.data, r->scratch.len);
        tp_buf_printf(b, "\"}");
    }
    tp_buf_printf(b, "]");
}

static void tp__report_images_json(tp__report *r, tp_buf *b)
{
    int n = 0;
    tp_buf_printf(b, "[");
    for (int i = 0; i < r->n_track; i++) {
        const tp__report_track *t = &r->track[i];
        if (t->kind != TP_SUMMARY_IMAGE || t->n == 0) continue;
        tp_buf_printf(b, "%s\n{\"name\":", n++ ? "," : "");
        tp__report_string(b, t->tag);
        tp_buf_printf(b, ",\"shots\":[");
        for (int k = 0; k < t->n; k++) {
            const tp_buf *png = &t->entry[k].png;
            tp_buf_printf(b, "%s\n{\"step\":%lld,\"png\":[", k ? "," : "", (long long)t->entry[k].step);
            for (size_t at = 0; at + 4 <= png->len;) {
                const size_t size = (size_t)tp__report_unbytes((const unsigned char *)png->data + at, 4);
                if (size > png->len - at - 4) break;
                tp_buf_printf(b, at ? ",\"" : "\"");
                tp__base64(b, png->data + at + 4, size);
                tp_buf_put(b, "\"", 1);
                at += 4 + size;
            }
            tp_buf_printf(b, "]}");
        }
        tp_buf_printf(b, "]}");
    }
    tp_buf_printf(b, "]");
}

/* -- state in checkpoints: the histograms and images, track after track */

/* A flag beside a track's kind: its counts are double. Checkpoints of older versions have float. */
enum { TP__REPORT_DOUBLE = 0x100 };

static tp_status tp__report_save_state(tp_callback *cb, tp_dict *d, const char *prefix)
{
    tp__report *r = (tp__report *)cb->user;
    tp_buf b;
    tp_status st = TP_OK;
    if (r->n_track == 0) return TP_OK;
    memset(&b, 0, sizeof b);
    for (int i = 0; i < r->n_track; i++) {
        const tp__report_track *t = &r->track[i];
        tp__report_bytes(&b, strlen(t->tag), 4);
        tp_buf_put(&b, t->tag, strlen(t->tag));
        tp__report_bytes(&b, (uint64_t)t->kind | TP__REPORT_DOUBLE, 4);
        tp__report_bytes(&b, (uint64_t)t->seen, 8);
        tp__report_bytes(&b, (uint64_t)t->stride, 8);
        tp__report_bytes(&b, t->newest, 4);
        tp__report_bytes(&b, (uint64_t)t->n, 4);
        for (int k = 0; k < t->n; k++) {
            const tp__report_entry *e = &t->entry[k];
            tp__report_bytes(&b, (uint64_t)e->step, 8);
            tp__report_f64(&b, e->min);
            tp__report_f64(&b, e->max);
            for (int q = 0; t->kind == TP_SUMMARY_HISTOGRAM && q < TP__REPORT_BINS; q++) tp__report_f64(&b, e->bin[q]);
            tp__report_bytes(&b, e->png.len, 4);
            tp_buf_put(&b, e->png.data, e->png.len);
        }
    }
    if (b.failed) st = tp_fail(TP_ERR_NOMEM, "out of memory for the report's part of the checkpoint");
    else st = tp__state_put(d, prefix, "summaries", TP_U8, b.data, (int64_t)b.len);
    tp_buf_free(&b);
    return st;
}

/* The bytes of the page's state in a checkpoint that are not read yet. */
typedef struct tp__report_in {
    const unsigned char *p;
    size_t left;
    bool bad, has_doubles; /* has_doubles: the counts of the track that is read */
} tp__report_in;

static const unsigned char *tp__report_read(tp__report_in *in, size_t n)
{
    const unsigned char *p = in->p;
    if (in->bad || n > in->left) {
        in->bad = true;
        return NULL;
    }
    in->p += n;
    in->left -= n;
    return p;
}
static uint64_t tp__report_read_int(tp__report_in *in, int size)
{
    const unsigned char *p = tp__report_read(in, (size_t)size);
    return p ? tp__report_unbytes(p, size) : 0;
}
static double tp__report_read_f64(tp__report_in *in)
{
    const uint64_t bits = tp__report_read_int(in, 8);
    double v;
    memcpy(&v, &bits, sizeof v);
    return tp__finite(v) ? v : 0;
}
static double tp__report_read_count(tp__report_in *in)
{
    if (in->has_doubles) {
        const double v = tp__report_read_f64(in);
        return v > 0 && v < 9e15 ? v : 0;
    }
    const uint32_t bits = (uint32_t)tp__report_read_int(in, 4);
    float v;
    memcpy(&v, &bits, sizeof v);
    return v > 0 && v < 9e15f ? (double)v : 0;
}

static tp_status tp__report_load_entry(tp__report *r, tp__report_in *in, tp__report_track *t)
{
    tp__report_entry *e = &t->entry[t->n];
    memset(e, 0, sizeof *e);
    e->step = (int64_t)tp__report_read_int(in, 8);
    e->min = tp__report_read_f64(in);
    e->max = tp__report_read_f64(in);
    for (int q = 0; t->kind == TP_SUMMARY_HISTOGRAM && q < TP__REPORT_BINS; q++) e->bin[q] = tp__report_read_count(in);
    const size_t size = (size_t)tp__report_read_int(in, 4);
    const unsigned char *png = tp__report_read(in, size);
    if (in->bad) return TP_ERR_FORMAT;
    tp_buf_put(&e->png, png, size);
    t->n++;
    r->image_bytes += e->png.len;
    return e->png.failed ? TP_ERR_NOMEM : TP_OK;
}

static tp_status tp__report_load_track(tp__report *r, tp__report_in *in)
{
    const size_t size = (size_t)tp__report_read_int(in, 4);
    const unsigned char *text = tp__report_read(in, size); /* a tag is as long as the file has bytes, at most */
    const uint64_t flags = tp__report_read_int(in, 4);
    const int kind = (int)(flags & 0xff);
    if (in->bad || (flags & ~(uint64_t)TP__REPORT_DOUBLE) > 0xff ||
        (kind != TP_SUMMARY_HISTOGRAM && kind != TP_SUMMARY_IMAGE))
        return TP_ERR_FORMAT;
    char *tag = (char *)tp_malloc(size + 1);
    if (!tag) return TP_ERR_NOMEM;
    memcpy(tag, text, size);
    tag[size] = 0;
    tp__report_track *t = tp__report_track_of(r, tag, kind);
    tp_free(tag);
    if (!t) return TP_ERR_NOMEM;
    in->has_doubles = (flags & TP__REPORT_DOUBLE) != 0;
    t->seen = (int64_t)tp__report_read_int(in, 8);
    t->stride = (int64_t)tp__report_read_int(in, 8);
    const bool newest = tp__report_read_int(in, 4) != 0;
    const uint64_t n = tp__report_read_int(in, 4);
    tp_status st = in->bad || t->n || n > (uint64_t)tp__report_capacity(kind) || t->stride < 1 || t->seen < 0
                       ? TP_ERR_FORMAT
                       : TP_OK;
    for (uint64_t k = 0; k < n && st == TP_OK; k++) st = tp__report_load_entry(r, in, t);
    t->newest = newest && t->n > 0;
    return st;
}

static tp_status tp__report_load_state(tp_callback *cb, const tp_dict *d, const char *prefix)
{
    tp__report *r = (tp__report *)cb->user;
    int64_t n = 0;
    tp__report_in in;
    tp_status st = TP_OK;
    memset(&in, 0, sizeof in);
    in.p = (const unsigned char *)tp__state_find(d, prefix, "summaries", TP_U8, &n);
    in.left = in.p && n > 0 ? (size_t)n : 0;
    tp__report_forget_tracks(r);
    while (in.left > 0 && st == TP_OK) st = tp__report_load_track(r, &in);
    if (st == TP_OK) return st;
    tp__report_forget_tracks(r);
    if (st == TP_ERR_NOMEM) return st;
    tp_log(TP_LOG_WARN, "The checkpoint's histograms and images of the report cannot be read: they begin anew.");
    return TP_OK;
}

/* -- the graph of the model in the report */

/* Prints a shape as "?x28x28x32" with multiplication signs, or as "scalar". */
static void tp__report_shape(tp_buf *b, const tp_shape *s)
{
    if (s->ndim == 0) tp_buf_printf(b, "scalar");
    for (int i = 0; i < s->ndim; i++) {
        if (i) tp_buf_printf(b, "\xc3\x97");
        if (s->dim[i] < 0) tp_buf_printf(b, "?");
        else tp_buf_printf(b, "%lld", (long long)s->dim[i]);
    }
}

static bool tp__report_in_scope(const char *name, const char *scope)
{
    const size_t n = strlen(scope);
    return n > 0 && strncmp(name, scope, n) == 0 && (name[n] == '/' || name[n] == 0);
}

/* Whether the name is in the scope "gradients", or "gradients_1" of a second tp_gradients. */
static bool tp__report_is_gradient(const char *name)
{
    return strncmp(name, "gradients", 9) == 0 && (name[9] == '/' || name[9] == '_');
}

/* Whether an operation is part of the model: no gradient, update, summary or part of another tower. in_model must be
 * set for its inputs. */
static bool tp__report_is_model(const tp_train_state *train, const tp_operation *op, const char *in_model)
{
    const tp_tower_func *f = train->tower_func;
    bool training = false;
    if ((op->row->flags & TP_OP_WRITES_VAR) || strcmp(op->row->label, "Summary") == 0 || op->n_out < 1) return false;
    if (strcmp(op->row->name, "group") == 0) return false;
    if (tp__report_is_gradient(op->name)) return false;
    for (int i = 0; f && i < tp_tower_func_n_towers(f); i++) {
        const tp_tower_context *c = &tp_tower_func_tower(f, i)->ctx;
        if (tp__report_in_scope(op->name, c->ns_name) &&
            (training || !c->is_training || tp__report_is_gradient(op->name + strlen(c->ns_name) + 1)))
            return false;
        training = training || c->is_training;
    }
    for (int i = 0; i < op->n_in; i++)
        if (!in_model[op->in[i]->op->id]) return false;
    return true;
}

static bool tp__report_is_constant(const tp_operation *op)
{
    return op->n_in == 0 && ((op->row->flags & TP_OP_READS_VAR) || strcmp(op->row->label, "Const") == 0);
}

/* Sets mark[id] of each operation: 0 not part of the model; 1 no data-dependent operation reads it; 2 only summaries
 * read it; 3 all others. data is a buffer of n bytes. */
static void tp__report_mark(const tp_train_state *train, char *mark, char *data)
{
    const tp_graph *g = train->graph;
    const int n = tp_graph_n_operations(g);
    for (int i = 0; i < n; i++) {
        const tp_operation *op = tp_graph_operation(g, i);
        mark[i] = tp__report_is_model(train, op, mark);
        data[i] = op->n_in == 0 && !tp__report_is_constant(op);
        for (int k = 0; k < op->n_in; k++) data[i] = data[i] || data[op->in[k]->op->id];
    }
    for (int i = n - 1; i >= 0; i--) { /* data[id] becomes 2 if a summary reads the operation, 3 if others do */
        const tp_operation *op = tp_graph_operation(g, i);
        const char reads = strcmp(op->row->label, "Summary") == 0 ? 2 : 3;
        for (int k = 0; k < op->n_in; k++)
            if (data[op->in[k]->op->id] && data[op->in[k]->op->id] < reads) data[op->in[k]->op->id] = reads;
        if (mark[i] && data[i]) mark[i] = data[i] == 2 ? 2 : 3;
        for (int k = 0; k < op->n_in && mark[i] == 3; k++)
            if (mark[op->in[k]->op->id]) mark[op->in[k]->op->id] = 3;
    }
}

static void tp__report_variables(tp_buf *b, const tp_graph *g)
{
    static const char *const keys[] = {TP_KEY_GLOBAL_VARIABLES, TP_KEY_TRAINABLE_VARIABLES};
    int n = 0, m = 0, written = 0;
    tp_node *const *variables = tp_collection(g, keys[0], &n);
    tp_buf_printf(b, "],\n\"variables\":[");
    for (int i = 0; i < n; i++) {
        const tp_variable *v = tp_node_variable(variables[i]);
        if (!v || tp__is_training_name(v->name) || written++ >= TP__REPORT_OPERATIONS) continue;
        bool trained = false;
        tp_node *const *train = tp_collection(g, keys[1], &m);
        for (int k = 0; k < m && !trained; k++) trained = tp_node_variable(train[k]) == v;
        tp_buf_printf(b, "%s\n[", written > 1 ? "," : "");
        tp__report_string(b, v->name);
        tp_buf_printf(b, ",\"");
        tp__report_shape(b, &v->shape);
        tp_buf_printf(b, "\",%lld,%d]", (long long)tp_shape_size(&v->shape), trained);
    }
    tp_buf_printf(b, "]}");
}

/* Writes {"ops": [[name, kind, shape, [inputs]]], "variables": [[name, shape, numbers, trained]]}, with only those
 * operations that depend on the data or are inputs of such operations. */
static void tp__report_graph(tp__report *r, const tp_train_state *train)
{
    const tp_graph *g = train->graph;
    const int n = g ? tp_graph_n_operations(g) : 0;
    tp_buf *b = &r->graph;
    char *mark = (char *)tp_calloc((size_t)n + 1, 2);
    int *number = (int *)tp_calloc((size_t)n + 1, sizeof *number);
    int written = 0;
    const char *tower = "";
    if (!mark || !number) b->failed = true;
    else if (g) tp__report_mark(train, mark, mark + n + 1);
    for (int i = 0; train->tower_func && !*tower && i < tp_tower_func_n_towers(train->tower_func); i++)
        if (tp_tower_func_tower(train->tower_func, i)->ctx.is_training)
            tower = tp_tower_func_tower(train->tower_func, i)->ctx.ns_name;
    tp_buf_printf(b, "{\"ops\":[");
    for (int i = 0; i < n && !b->failed && written < TP__REPORT_OPERATIONS; i++) {
        const tp_operation *op = tp_graph_operation(g, i);
        int inputs = 0;
        if (mark[i] != 3 || tp__report_is_constant(op)) continue;
        tp_buf_printf(b, "%s\n[", written ? "," : "");
        tp__report_string(
            b, op->name + (tp__report_in_scope(op->name, tower) && op->name[strlen(tower)] ? strlen(tower) + 1 : 0));
        tp_buf_printf(b, ",");
        tp__report_string(b, op->row->label);
        tp_buf_printf(b, ",\"");
        tp__report_shape(b, &op->out[0].shape);
        tp_buf_printf(b, "\",[");
        for (int k = 0; k < op->n_in; k++)
            if (number[op->in[k]->op->id]) tp_buf_printf(b, "%s%d", inputs++ ? "," : "", number[op->in[k]->op->id] - 1);
        tp_buf_printf(b, "]]");
        number[i] = ++written;
    }
    if (g) tp__report_variables(b, g);
    else tp_buf_printf(b, "],\"variables\":[]}");
    tp_free(mark);
    tp_free(number);
}

/* -- the kernels of a step in the report */

static tp_status tp__report_before_run(tp_callback *cb, tp_run_request *q)
{
    tp__report *r = (tp__report *)cb->user;
    /* the first run is not traced, because it makes the plan */
    if (r->off || r->trace_off || ++r->n_run < 2 || q->run.trace) return TP_OK;
    r->tracing = true;
    r->trace_off = ++r->n_traced == TP__REPORT_TRACED;
    return tp_request_trace(q, &r->trace);
}

/* Writes {"step", "total", "kernels": [[op, node, device, start, nanoseconds, bytes, flops]]}. */
static tp_status tp__report_after_run(tp_callback *cb, const tp_run_values *v)
{
    tp__report *r = (tp__report *)cb->user;
    const tp_trace *t = &r->trace;
    tp_buf *b = &r->kernels;
    int64_t total = 0, n = 0;
    (void)v;
    if (!r->tracing) return TP_OK;
    r->tracing = false;
    for (int64_t i = 0; i < t->n; i++)
        if (t->record[i].thread == 0) total += t->record[i].end - t->record[i].start;
    if (r->fastest && r->fastest <= total) return tp_trace_free(&r->trace), TP_OK;
    r->fastest = total;
    b->len = 0;
    tp_buf_printf(b, "{\"step\":%lld,\"total\":%lld,\"kernels\":[", (long long)cb->train->global_step,
                  (long long)total);
    for (int64_t i = 0; i < t->n && n < TP__REPORT_KERNELS; i++) {
        const tp_trace_record *x = &t->record[i];
        if (x->thread != 0) continue;
        tp_buf_printf(b, "%s\n[", n++ ? "," : "");
        tp__report_string(b, x->name);
        tp_buf_printf(b, ",");
        tp__report_string(b, x->node);
        tp_buf_printf(b, ",");
        tp__report_string(b, x->device);
        tp_buf_printf(b, ",%lld,%lld,%.0f,%.0f]", (long long)(x->start - t->record[0].start),
                      (long long)(x->end - x->start), x->bytes, x->flops);
    }
    tp_buf_printf(b, "]}");
    tp_trace_free(&r->trace);
    return TP_OK;
}

/* -- the page's tables: training, parameters, machine, callbacks, log */

static void tp__report_row(tp_buf *b, int *n, const char *name, const char *value)
{
    tp_buf_printf(b, (*n)++ ? ",\n[" : "\n[");
    tp__report_string(b, name);
    tp_buf_printf(b, ",");
    tp__report_string(b, value);
    tp_buf_printf(b, "]");
}
static void tp__report_row_int(tp_buf *b, int *n, const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    tp__report_row(b, n, name, text);
}

/* Prints the current values of scalar variables that are neither trained nor created by an optimizer, such as learning
 * rates. */
static void tp__report_parameters(tp_buf *b, const tp_train_state *train)
{
    tp_tensor value;
    char text[TP_NUMBER_TEXT];
    int n = 0, n_variables = 0;
    tp_node *const *variables =
        train->graph ? tp_collection(train->graph, TP_KEY_GLOBAL_VARIABLES, &n_variables) : NULL;
    memset(&value, 0, sizeof value);
    tp_buf_printf(b, "{\"title\":\"Parameters\",\"rows\":[");
    for (int i = 0; i < n_variables && n < 40; i++) {
        const tp_variable *v = tp_node_variable(variables[i]);
        const size_t length = v ? strlen(v->name) : 0;
        if (!v || v->shape.ndim != 0 || v->trainable || tp__is_training_name(v->name) || !train->session) continue;
        if (length > 6 && strcmp(v->name + length - 6, "_power") == 0) continue;
        if (strcmp(v->name, "global_step") == 0 || tp_session_read(train->session, v, &value) != TP_OK) continue;
        if (v->dtype == TP_F32) tp_format_float(text, (float)tp_tensor_get(&value, 0));
        else tp_format_double(text, tp_tensor_get(&value, 0));
        tp__report_row(b, &n, v->name, text);
    }
    tp_buf_printf(b, "]}");
    tp_tensor_free(&value);
}

static void tp__report_training(tp__report *r, tp_buf *b, const tp_train_state *train)
{
    char text[96];
    int n = 0;
    tp_buf_printf(b, "{\"title\":\"Training\",\"rows\":[");
    tp__report_row(b, &n, "directory", r->dir);
    tp__report_row_int(b, &n, "steps per epoch", train->steps_per_epoch);
    if (train->max_epoch < 99999) tp__report_row_int(b, &n, "epochs", train->max_epoch);
    if (train->graph) tp__report_row_int(b, &n, "seed", (int64_t)tp_graph_seed(train->graph));
    snprintf(text, sizeof text, train->resumed ? "at global_step %lld" : "no", (long long)r->first_step);
    tp__report_row(b, &n, "resumed", text);
    tp_buf_printf(b, "]}");
}

static void tp__report_machine(tp_buf *b, const tp_train_state *train)
{
    char host[256];
    int n = 0;
    tp__os_host(host, sizeof host);
    tp_buf_printf(b, "{\"title\":\"Machine\",\"rows\":[");
    tp__report_row(b, &n, "host", host);
#ifdef TP_NO_THREADS
    tp__report_row_int(b, &n, "threads", 1);
#else
    tp__report_row_int(b, &n, "processors", tp__os_processors());
#endif
    for (int i = 0; train->session && i < train->session->n_device; i++) {
        const tp_device *d = tp_session_device(train->session, i);
        tp__report_row(b, &n, d->name, d->host ? tp_device_isa(d) : "accelerator");
    }
    tp__report_row(b, &n, "tp", tp_version());
    tp_buf_printf(b, "]}");
}

static void tp__report_callbacks(tp_buf *b, const tp_train_state *train)
{
    int n = 0;
    tp_buf_printf(b, "{\"title\":\"Callbacks, in their order\",\"rows\":[");
    for (int i = 0; i < train->n_callbacks; i++)
        tp__report_row(b, &n, train->callbacks[i]->name, train->callbacks[i]->id ? train->callbacks[i]->id : "");
    tp_buf_printf(b, "]}");
}

/* Appends the end of <dir>/log.log, starting at the beginning of a line. */
static void tp__report_log(tp__report *r, tp_buf *b)
{
    char path[TP__PATH], text[TP__REPORT_LOG];
    tp__os_info is;
    int64_t n = 0;
    memset(&is, 0, sizeof is);
    const int file = tp__path(path, "%s/log.log", r->dir) == TP_OK ? tp__os_open(path, TP__OS_READ) : -1;
    const bool is_long = file >= 0 && tp__os_fstat(file, &is) == 0 && is.size > sizeof text;
    if (file >= 0 && (!is_long || tp__os_seek(file, (int64_t)(is.size - sizeof text)) == 0))
        n = tp__os_read(file, text, sizeof text);
    if (file >= 0) tp__os_close(file);
    if (n < 0) n = 0;
    const char *line = is_long && n > 0 ? (const char *)memchr(text, '\n', (size_t)n) : NULL;
    const size_t skip = line ? (size_t)(line + 1 - text) : 0;
    tp__report_text(b, text + skip, (size_t)n - skip);
}

/* -- progress of the training */

static const char *tp__report_status(const tp_train_state *train, bool over)
{
    if (!over) return "running";
    if (train->end_ == TP_INTR) return "interrupted";
    if (train->end_ < 0) return "failed";
    return train->end_ == TP_STOP ? "stopped" : "done";
}

static void tp__report_progress(tp__report *r, tp_buf *b, const tp_train_state *train)
{
    const double now = tp_time();
    const bool bounded = train->max_epoch < 99999 && train->steps_per_epoch > 0;
    const int64_t whole = train->within_ && train->epoch_num > 0 ? train->epoch_num - 1 : train->epoch_num;
    const int64_t done = whole * train->steps_per_epoch + (train->within_ ? train->done_ : 0);
    const int64_t total = bounded ? train->max_epoch * train->steps_per_epoch : 0,
                  since = train->global_step - r->step_at_first;
    const double step = r->first_done > 0 && since > 0 ? (now - r->first_done) / (double)since : 0;
    const double took = r->write_time > 0 ? now - r->write_time : 0;
    if (train->global_step > r->step_wrote && took > 0) r->speed = (double)(train->global_step - r->step_wrote) / took;
    r->step_wrote = train->global_step;
    tp_buf_printf(
        b,
        "{\"epoch\":%lld,\"max_epoch\":%lld,\"global_step\":%lld,\"steps_per_epoch\":%lld,\"done_steps\":%lld,"
        "\"total_steps\":%lld,\"elapsed\":",
        (long long)train->epoch_num, (long long)(bounded ? train->max_epoch : 0), (long long)train->global_step,
        (long long)train->steps_per_epoch, (long long)done, (long long)total);
    tp__report_number(b, now - r->begun);
    tp_buf_printf(b, ",\"steps_per_second\":");
    tp__report_number(b, r->speed);
    tp_buf_printf(b, ",\"seconds_per_step\":");
    tp__report_number(b, step);
    tp_buf_printf(b, ",\"eta\":");
    tp__report_number(b, bounded && step > 0 ? step * (double)(total - done) : -1);
    tp_buf_printf(b, "}");
}

/* -- writing the page */

static void tp__report_data(tp__report *r, bool over)
{
    const tp_train_state *train = r->cb->train;
    tp_buf *b = &r->data;
    char when[64];
    b->len = 0;
    tp_buf_printf(b, "{\"format\":1,\"status\":\"%s\",\"note\":", tp__report_status(train, over));
    tp__report_string(b, over ? train->stop_reason : "");
    tp_buf_printf(b, ",\"written\":");
    tp__report_number(b, tp__os_wall());
    tp_buf_printf(b, ",\"every\":");
    tp__report_number(b, r->interval > 1 ? r->interval : 1);
    tp_buf_printf(b, ",\n\"progress\":");
    tp__report_progress(r, b, train);
    tp_buf_printf(b, ",\n\"runs\":[{\"name\":");
    tp__report_string(b, tp__report_name(r->dir));
    tp_buf_printf(b, ",\"scalars\":");
    if (train->monitors) tp__report_scalars(r, b, train->monitors);
    else tp_buf_printf(b, "[]");
    tp_buf_printf(b, "}");
    tp_buf_put(b, r->other_runs.data, r->other_runs.len);
    tp_buf_printf(b, "],\n\"histograms\":");
    tp__report_histograms_json(r, b);
    tp_buf_printf(b, ",\n\"images\":");
    tp__report_images_json(r, b);
    tp_buf_printf(b, ",\n\"graph\":");
    if (r->graph.len && !r->graph.failed) tp_buf_put(b, r->graph.data, r->graph.len);
    else tp_buf_printf(b, "null");
    tp_buf_printf(b, ",\n\"trace\":");
    if (r->kernels.len && !r->kernels.failed) tp_buf_put(b, r->kernels.data, r->kernels.len);
    else tp_buf_printf(b, "null");
    tp_buf_printf(b, ",\n\"setup\":[");
    tp__report_training(r, b, train);
    tp_buf_printf(b, ",\n");
    tp__report_parameters(b, train);
    tp_buf_printf(b, ",\n");
    tp__report_machine(b, train);
    tp_buf_printf(b, ",\n");
    tp__report_callbacks(b, train);
    tp_buf_printf(b, "],\n\"foot\":");
    tp__os_local_time(when, sizeof when, "Written on %Y-%m-%d at %H:%M:%S.");
    tp__report_string(b, when);
    tp_buf_printf(b, ",\n\"log\":");
    tp__report_log(r, b);
    tp_buf_printf(b, "}\n");
}

static tp_status tp__report_put(tp__report *r, const char *path)
{
    tp_writer *w = NULL;
    tp_status st = tp_writer_open(&w, path);
    for (int i = 0; i < TP_COUNT(tp__report_head) && st == TP_OK; i++)
        st = tp_writer_put(w, tp__report_head[i], strlen(tp__report_head[i]));
    if (st == TP_OK) st = tp_writer_put(w, r->data.data, r->data.len);
    for (int i = 0; i < TP_COUNT(tp__report_tail) && st == TP_OK; i++)
        st = tp_writer_put(w, tp__report_tail[i], strlen(tp__report_tail[i]));
    if (st == TP_OK) return tp_writer_commit(w);
    tp_writer_abort(w);
    return st;
}

/* Writes the page again. An error does not end the training. */
static tp_status tp__report_write(tp_callback *cb, bool over)
{
    tp__report *r = (tp__report *)cb->user;
    const double begun = tp_time();
    char path[TP__PATH];
    tp_status st = tp__path(path, "%s/report.html", r->dir);
    if (st != TP_OK) return st;
    tp__report_data(r, over);
    const bool failed = r->data.failed || r->scratch.failed || r->previous_steps.failed;
    st = failed ? TP_ERR_NOMEM : tp__report_put(r, path);
    if (failed) { /* free the buffers; there may be memory again at the next writing */
        tp_buf_free(&r->data);
        tp_buf_free(&r->scratch);
        tp_buf_free(&r->previous_steps);
    }
    r->write_time = tp_time();
    r->write_seconds = r->write_time - begun;
    if (st == TP_OK) {
        tp_callback_set_unsaved(cb, NULL);
    } else if (st == TP_ERR_NOMEM) {
        tp__report_no_memory(r);
    } else {
        if (!cb->unsaved) tp_log(TP_LOG_ERROR, "The report '%s' was not written: %s", path, tp_last_error());
        tp_callback_set_unsaved(cb, "'%s' was not written at global_step=%lld: %s", path,
                                (long long)cb->train->global_step, tp_last_error());
    }
    return TP_OK;
}

/* Whether `seconds` have passed since the last writing. Writing takes at most 0.5% of the time. Without setup_graph there is no folder
 * to write to. */
static bool tp__report_due(const tp__report *r, double seconds)
{
    if (r->off || !r->dir) return false;
    if (r->interval <= 0) return true;
    const double since = tp_time() - r->write_time;
    return since >= seconds && since >= 200 * r->write_seconds;
}

static tp_status tp__report_setup_graph(tp_callback *cb)
{
    tp__report *r = (tp__report *)cb->user;
    r->off = !tp_logger_dir() || !cb->train->is_chief;
    if (!cb->train->is_chief) return TP_OK;
    if (!tp_logger_dir()) tp__warn_without_dir(cb);
    else if (!(r->dir = tp_arena_strdup(&cb->mem_, tp_logger_dir()))) return TP_ERR_NOMEM;
    return TP_OK;
}

static tp_status tp__report_before_train(tp_callback *cb)
{
    tp__report *r = (tp__report *)cb->user;
    if (r->off) return TP_OK;
    r->begun = tp_time();
    r->first_step = r->step_wrote = cb->train->global_step;
    tp__report_graph(r, cb->train);
    if (tp__report_others(r) != TP_OK || r->graph.failed) tp__report_no_memory(r);
    if (r->other_runs.failed) tp_buf_free(&r->other_runs);
    return tp__report_write(cb, false);
}

static tp_status tp__report_trigger_step(tp_callback *cb)
{
    tp__report *r = (tp__report *)cb->user;
    if (!cb->train) return TP_OK;
    if (r->first_done <= 0) {
        r->first_done = tp_time();
        r->step_at_first = cb->train->global_step;
    }
    /* the last step of an epoch is written with the epoch's values */
    if (cb->train->local_step == cb->train->steps_per_epoch - 1) return TP_OK;
    return tp__report_due(r, r->interval) ? tp__report_write(cb, false) : TP_OK;
}

static tp_status tp__report_trigger(tp_callback *cb)
{
    const tp__report *r = (const tp__report *)cb->user;
    return tp__report_due(r, r->interval < 1 ? r->interval : 1) ? tp__report_write(cb, false) : TP_OK;
}

static tp_status tp__report_after_train(tp_callback *cb)
{
    const tp__report *r = (const tp__report *)cb->user;
    return r->off || r->begun <= 0 ? TP_OK : tp__report_write(cb, true);
}

static void tp__report_close(tp_callback *cb)
{
    tp__report *r = (tp__report *)cb->user;
    tp__report_forget_tracks(r);
    tp_free(r->track);
    tp_trace_free(&r->trace);
    tp_buf_free(&r->other_runs);
    tp_buf_free(&r->graph);
    tp_buf_free(&r->kernels);
    tp_buf_free(&r->data);
    tp_buf_free(&r->scratch);
    tp_buf_free(&r->previous_steps);
}

TP_DEF tp_monitor *tp_monitor_report_(const tp_monitor_report_desc *d)
{
    char wrong[192];
    if (!d) return tp_monitor_fail(NULL, TP_ERR_ARG, "%s: the descriptor is NULL", __func__);
    if (!(d->every_secs >= 0))
        return tp_monitor_fail(&d->at_, TP_ERR_ARG, "tp_monitor_report: .every_secs is %g", d->every_secs);
    if (tp__bad_names("tp_monitor_report", "runs", d->runs, wrong))
        return tp_monitor_fail(&d->at_, TP_ERR_ARG, "%s", wrong);
    tp_monitor *m = tp_monitor_new("Report", sizeof(tp__report));
    if (!m) return NULL;
    tp__report *r = (tp__report *)m->cb.user;
    r->cb = &m->cb;
    r->interval = d->every_secs > 0 && d->every_secs <= (double)TP_ZERO ? 0 : d->every_secs > 0 ? d->every_secs : 5;
    if (r->interval > 1e9) r->interval = 1e9; /* JSON has no infinity */
    r->trace_off = d->trace == TP_NO;
    r->n_other = tp__count_names(d->runs);
    r->other_dirs = tp__arena_names(&m->cb.mem_, d->runs, r->n_other);
    if (!r->other_dirs) {
        tp_monitor_free(m);
        return NULL;
    }
    m->cb.setup_graph = tp__report_setup_graph;
    m->cb.before_train = tp__report_before_train;
    m->cb.before_run = tp__report_before_run;
    m->cb.after_run = tp__report_after_run;
    m->cb.trigger_step = tp__report_trigger_step;
    m->cb.trigger = tp__report_trigger;
    m->cb.after_train = tp__report_after_train;
    m->cb.save_state = tp__report_save_state;
    m->cb.load_state = tp__report_load_state;
    m->cb.close = tp__report_close;
    m->process_summary = tp__report_summary;
    return m;
}

/* ==== >>default sets ================================================================================== */

TP_DEF void tp_default_callbacks(tp_callback *list[TP_N_DEFAULT_CALLBACKS])
{
    TP__REQUIRE(list, )
    tp_cb_moving_average_summary_desc average;
    tp_cb_progress_bar_desc bar;
    tp_cb_merge_all_summaries_desc merge;
    tp_cb_run_update_ops_desc update;
    memset(&average, 0, sizeof average);
    memset(&bar, 0, sizeof bar);
    memset(&merge, 0, sizeof merge);
    memset(&update, 0, sizeof update);
    list[0] = tp_cb_moving_average_summary_(&average);
    list[1] = tp_cb_progress_bar_(&bar);
    list[2] = tp_cb_merge_all_summaries_(&merge);
    list[3] = tp_cb_run_update_ops_(&update);
}

TP_DEF void tp_default_monitors(tp_monitor *list[TP_N_DEFAULT_MONITORS])
{
    TP__REQUIRE(list, )
    tp_monitor_tf_event_writer_desc events;
    tp_monitor_report_desc report;
    memset(&events, 0, sizeof events);
    memset(&report, 0, sizeof report);
    list[0] = tp_monitor_tf_event_writer_(&events);
    list[1] = tp_monitor_json_writer();
    list[2] = tp__printer_new();
    list[3] = tp_monitor_report_(&report);
}

TP__COLD_END
TP__EXACT_END
#undef TP__PLACED
#define TP__PLACED TP__PLACE
#endif
