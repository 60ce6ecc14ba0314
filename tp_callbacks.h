/* tp_callbacks.h - v0.1 - callbacks, inferencers, monitors and savers: what happens around the steps of a training
 *
 * Do this:
 *     #define TP_IMPLEMENTATION        // in ONE .c file, before any other include
 *     #include "tp_callbacks.h"        // pulls in tp_input.h, tp_graph.h and tp_tensor.h
 *
 * WHAT THIS IS       the callback protocol and every callback; the monitor protocol and every monitor; hyper-parameter
 *                    setters, savers, inference runners. A callback sees a tp_train_state, which the trainer fills.
 * WHAT THIS IS NOT   the loop that calls them (tp_train.h).
 *
 * A COMPLETE PROGRAM
 *     #define TP_IMPLEMENTATION
 *     #include "tp_callbacks.h"
 *     static tp_status hello(tp_callback *cb)
 *     {
 *         tp_log(TP_LOG_INFO, "epoch %d is over", (int)cb->train->epoch_num);
 *         return TP_OK;
 *     }
 *     int main(void)
 *     {
 *         tp_callback *cb = tp_cb_lambda(.trigger = hello);
 *         tp_train_state state = {0};
 *         state.epoch_num = 1;
 *         cb->train = &state;
 *         tp_status st = tp_callback_trigger(cb);
 *         tp_callback_free(cb);
 *         return st == TP_OK ? 0 : 1;
 *     }
 *
 * CONTENTS   >>callback >>monitor >>graph callbacks >>schedules >>inference >>parameters >>savers >>monitors >>defaults
 *
 * OWNERSHIP  whoever a callback is given to owns it: the trainer, or the callback that wraps it. Constructors return NULL
 *            only without memory; every function that takes a callback takes NULL and reports it then.
 * THREADS    everything runs on the training thread.
 * ERRORS     hooks return tp_status: TP_OK; TP_STOP ends training as a success; an error ends it as a failure.
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

/* ==== >>callback ====================================================================================== */

typedef struct tp_callback tp_callback;
typedef struct tp_monitors tp_monitors;

/* What callbacks see of a training: filled by the trainer, read by them. Counters as in tensorpack: epoch_num is the
 * epoch in progress (before training: the number of finished ones); local_step the index of the step in its epoch, stale
 * outside steps, -1 before the first; global_step the number of finished runs of the model's whole life. */
typedef struct tp_train_state {
    tp_graph *graph;
    tp_session *session;       /* from initialize on */
    tp_hooked_session *hooked; /* likewise */
    tp_tower_func *tower_func; /* NULL for trainers without towers */
    tp_input_source *input;    /* the training input, NULL if there is none */
    tp_monitors *monitors;
    int64_t epoch_num, global_step, local_step;
    int64_t steps_per_epoch, starting_epoch, max_epoch;
    bool is_chief;
    tp_callback *const *callback; /* all of them, in order */
    int n_callback;
    char stop_reason[2048];
} tp_train_state;

/* The protocol. Every function may be NULL. Order of a training: setup_graph (before the session exists), before_train,
 * then per epoch before_epoch, per step before_run, the run, after_run, trigger_step, then after_epoch, trigger_epoch
 * (if NULL: trigger); after_train always, also when before_train was never reached. To write your own: tp_callback_new,
 * set functions, keep your state behind `user` or in a struct that begins with a tp_callback. [callbacks: Callback] */
struct tp_callback {
    const char *name;
    const char *name_scope; /* for nodes made in setup_graph; NULL: the name without '_' */
    int chief_only;         /* tp_tri; unset = TP_YES */
    void *user;
    tp_status (*setup_graph)(tp_callback *cb);
    tp_status (*before_train)(tp_callback *cb);
    tp_status (*before_epoch)(tp_callback *cb);
    tp_status (*before_run)(tp_callback *cb, tp_run_request *r);
    tp_status (*after_run)(tp_callback *cb, const tp_run_values *v);
    tp_status (*trigger_step)(tp_callback *cb);
    tp_status (*after_epoch)(tp_callback *cb);
    tp_status (*trigger_epoch)(tp_callback *cb);
    tp_status (*trigger)(tp_callback *cb);
    tp_status (*after_train)(tp_callback *cb);
    /* what a bit-identical resume needs beyond variables: put into, take out of a dict under names of your own */
    tp_status (*save_state)(tp_callback *cb, tp_dict *state);
    tp_status (*load_state)(tp_callback *cb, const tp_dict *state);
    void (*free)(tp_callback *cb); /* what you hold; the struct itself is freed for you */
    struct tp_monitor *monitor;    /* set if this callback is a monitor */
    tp_train_state *train;         /* from setup_graph on */
    tp_hook hook_;                 /* the trainer's way into runs */
};

TP_DEF tp_callback *tp_callback_new(const char *name, size_t size); /* zeroed; size >= sizeof(tp_callback), 0 for that */
TP_DEF void tp_callback_free(tp_callback *cb);                      /* NULL is fine */
TP_DEF tp_callback *tp_callback_set_chief_only(tp_callback *cb, bool chief_only); /* returns cb */
TP_DEF bool tp_callback_chief_only(const tp_callback *cb);
/* Call a hook if it is there; TP_OK if not. setup_graph also opens the name scope and remembers the state. */
TP_DEF tp_status tp_callback_setup_graph(tp_callback *cb, tp_train_state *train);
TP_DEF tp_status tp_callback_before_train(tp_callback *cb);
TP_DEF tp_status tp_callback_before_epoch(tp_callback *cb);
TP_DEF tp_status tp_callback_before_run(tp_callback *cb, tp_run_request *r);
TP_DEF tp_status tp_callback_after_run(tp_callback *cb, const tp_run_values *v);
TP_DEF tp_status tp_callback_trigger_step(tp_callback *cb);
TP_DEF tp_status tp_callback_after_epoch(tp_callback *cb);
TP_DEF tp_status tp_callback_trigger_epoch(tp_callback *cb); /* trigger, if trigger_epoch is NULL */
TP_DEF tp_status tp_callback_trigger(tp_callback *cb);
TP_DEF tp_status tp_callback_after_train(tp_callback *cb);
TP_DEF tp_hook *tp_callback_hook(tp_callback *cb); /* the callback as a session hook [CallbackToHook] */
/* A node of this name in the graph, else in the first training tower. NULL and a sentence if there is none.
 * [get_tensors_maybe_in_tower] */
TP_DEF tp_node *tp_callback_find(tp_callback *cb, const char *name);
TP_DEF tp_status tp_stop_training(tp_callback *cb, const char *fmt, ...) TP_PRINTF(2, 3); /* returns TP_STOP */
/* "1 hour 2 minutes 3 seconds" into buf. [humanize_time_delta] */
TP_DEF const char *tp_humanize_time(double seconds, char *buf, size_t size);

/* All hooks of a list in order; trigger_epoch is timed, after_train visits all whatever happens. [callbacks: Callbacks] */
TP_DEF tp_status tp_callbacks_trigger_epoch(tp_callback *const *cb, int n);
TP_DEF void tp_callbacks_after_train(tp_callback *const *cb, int n);

/* A callback that passes everything on to `inner`, which it owns; override what you want. [ProxyCallback] */
typedef struct tp_cb_proxy {
    tp_callback base; /* first */
    tp_callback *inner;
} tp_cb_proxy;
TP_DEF tp_callback *tp_cb_proxy_new(tp_callback *inner, size_t size); /* size >= sizeof(tp_cb_proxy), 0 for that */

/* A callback from functions. [CallbackFactory] */
typedef struct tp_cb_lambda_desc {
    tp_at at_;
    tp_status (*setup_graph)(tp_callback *cb), (*before_train)(tp_callback *cb), (*trigger)(tp_callback *cb), (*after_train)(tp_callback *cb);
    void *user;
} tp_cb_lambda_desc;
TP_DEF tp_callback *tp_cb_lambda_(const tp_cb_lambda_desc *d);
/* A session hook as a callback, on every rank; the hook is borrowed. [HookToCallback] */
TP_DEF tp_callback *tp_cb_hook(tp_hook *hook);

/* ==== >>monitor ======================================================================================= */

/* One value on its way to the monitors. */
typedef struct tp_summary_value {
    const char *tag; /* cleaned: without towerN/, a scalar without -summary */
    int kind;        /* TP_SUMMARY_SCALAR, _HISTOGRAM or _IMAGE */
    double scalar;
    bool is_integer;         /* the scalar was one */
    const tp_tensor *tensor; /* histogram data, or an image (NHWC, HWC, NHW or HW; 0..255) */
} tp_summary_value;

/* Where values go. Embeds a callback, whose chief_only is TP_NO. [callbacks: MonitorBase] */
typedef struct tp_monitor {
    tp_callback base; /* first */
    tp_status (*process_scalar)(struct tp_monitor *m, const tp_summary_value *v);
    tp_status (*process_image)(struct tp_monitor *m, const char *tag, const tp_tensor *image);
    tp_status (*process_event)(struct tp_monitor *m, const char *tag, const char *text);
    tp_status (*process_summary)(struct tp_monitor *m, const tp_summary_value *v, int n); /* every value, scalars too */
} tp_monitor;
TP_DEF tp_monitor *tp_monitor_new(const char *name, size_t size); /* size >= sizeof(tp_monitor), 0 for that */

/* The one entry for values, behind cb->train->monitors. [callbacks: Monitors] */
TP_DEF tp_status tp_put_scalar(tp_monitors *m, const char *name, double value);
TP_DEF tp_status tp_put_integer(tp_monitors *m, const char *name, int64_t value);
TP_DEF tp_status tp_put_image(tp_monitors *m, const char *name, const tp_tensor *image);
TP_DEF tp_status tp_put_event(tp_monitors *m, const char *name, const char *text);
TP_DEF tp_status tp_put_summary(tp_monitors *m, tp_summary_value *v, int n); /* tags are cleaned here */
typedef struct tp_stat {
    int64_t global_step;
    double value;
} tp_stat;
TP_DEF tp_status tp_get_latest(tp_monitors *m, const char *name, double *value); /* TP_ERR_NAME if there is none */
TP_DEF const tp_stat *tp_get_history(tp_monitors *m, const char *name, int *n);  /* n 0 if there is none */
/* For trainers: a dispatcher over monitors (borrowed), as a callback to run after all others. */
TP_DEF tp_monitors *tp_monitors_new(tp_monitor *const *m, int n, tp_train_state *train);
TP_DEF void tp_monitors_free(tp_monitors *m);

/* ==== >>graph callbacks =============================================================================== */

/* Runs a node: in before_train, in trigger, or together with every step. op or make (called in setup_graph). [RunOp] */
typedef struct tp_cb_run_op_desc {
    tp_at at_;
    tp_node *op;
    tp_node *(*make)(tp_graph *g, void *user);
    void *user;
    int run_before, run_as_trigger; /* tp_tri; unset = TP_YES */
    int run_step, verbose;          /* unset = TP_NO */
} tp_cb_run_op_desc;
TP_DEF tp_callback *tp_cb_run_op_(const tp_cb_run_op_desc *d);
/* Every node of a collection with every step; NULL = UPDATE_OPS. [RunUpdateOps] */
TP_DEF tp_callback *tp_cb_run_update_ops(const char *collection);
/* Every moving summary with every step; NULL = MOVING_SUMMARY_OPS. [MovingAverageSummary] */
TP_DEF tp_callback *tp_cb_moving_average_summary(const char *collection);
typedef struct tp_cb_merge_all_summaries_desc {
    tp_at at_;
    int64_t period; /* also every so many steps; 0: at the last step of an epoch only */
    int run_alone;  /* tp_tri: evaluated by itself in trigger, not with the last step */
    const char *key; /* NULL = SUMMARIES */
} tp_cb_merge_all_summaries_desc;
TP_DEF tp_callback *tp_cb_merge_all_summaries_(const tp_cb_merge_all_summaries_desc *d); /* [MergeAllSummaries] */
#define TP_CB_MAX_NAMES 16
/* One bar per epoch on stderr. names: scalars to show behind it. [ProgressBar] */
typedef struct tp_cb_progress_bar_desc {
    tp_at at_;
    const char *names[TP_CB_MAX_NAMES];
} tp_cb_progress_bar_desc;
TP_DEF tp_callback *tp_cb_progress_bar_(const tp_cb_progress_bar_desc *d);
typedef struct tp_cb_estimated_time_left_desc {
    tp_at at_;
    int last_k_epochs; /* 0 = 5 */
    int median;        /* tp_tri; unset = TP_YES, TP_NO: mean */
} tp_cb_estimated_time_left_desc;
TP_DEF tp_callback *tp_cb_estimated_time_left_(const tp_cb_estimated_time_left_desc *d); /* [EstimatedTimeLeft] */
/* Counts runs: adds 1 to global_step with each, logs it at the start. The trainer registers it. [MaintainStepCounter] */
TP_DEF tp_callback *tp_cb_maintain_step_counter(void);

/* ==== >>schedules ===================================================================================== */

/* trigger() of inner every k steps or epochs, and once before training if asked. inner's trigger_epoch is not called.
 * [PeriodicTrigger] */
typedef struct tp_cb_periodic_desc {
    tp_at at_;
    tp_callback *callback;
    int64_t every_k_steps, every_k_epochs; /* 0: not */
    int before_train;                      /* tp_tri; tp_cb_periodic_trigger only */
} tp_cb_periodic_desc;
TP_DEF tp_callback *tp_cb_periodic_trigger_(const tp_cb_periodic_desc *d);
/* before_epoch, after_epoch, before_run, after_run, trigger_step and trigger_epoch of inner only when the predicate
 * holds. [EnableCallbackIf] */
TP_DEF tp_callback *tp_cb_enable_if(tp_callback *inner, bool (*pred)(tp_callback *cb, void *user), void *user);
TP_DEF tp_callback *tp_cb_periodic_callback_(const tp_cb_periodic_desc *d); /* [PeriodicCallback] */

/* ==== >>inference ===================================================================================== */

/* Aggregates what inference fetches. names: nodes of the inference tower. [callbacks: Inferencer] */
typedef struct tp_inferencer {
    const char *name;
    const char *fetch[TP_CB_MAX_NAMES];
    int n_fetch;
    void *user;
    tp_status (*before_inference)(struct tp_inferencer *i);
    tp_status (*on_fetches)(struct tp_inferencer *i, const tp_tensor *const *value, int n);
    tp_status (*after_inference)(struct tp_inferencer *i, tp_monitors *m); /* put your results there */
    void (*free)(struct tp_inferencer *i);
} tp_inferencer;
TP_DEF tp_inferencer *tp_inferencer_new(const char *name, size_t size);
/* The mean over batches of scalars; names "prefix_name". [ScalarStats] */
typedef struct tp_inf_scalar_stats_desc {
    tp_at at_;
    const char *names[TP_CB_MAX_NAMES];
    const char *prefix; /* NULL = "validation"; "" for none */
} tp_inf_scalar_stats_desc;
TP_DEF tp_inferencer *tp_inf_scalar_stats_(const tp_inf_scalar_stats_desc *d);
/* Sum over count of a vector of 0 and 1; exact with a smaller last batch. [ClassificationError] */
typedef struct tp_inf_classification_error_desc {
    tp_at at_;
    const char *wrong_tensor_name; /* NULL = "incorrect_vector" */
    const char *summary_name;      /* NULL = "validation_error" */
} tp_inf_classification_error_desc;
TP_DEF tp_inferencer *tp_inf_classification_error_(const tp_inf_classification_error_desc *d);
/* prefix_precision and prefix_recall over elements. [BinaryClassificationStats] */
TP_DEF tp_inferencer *tp_inf_binary_classification(const char *pred, const char *label, const char *prefix);

/* Each trigger: one pass of the data through a predict tower that shares the variables. Owns dataflow or input, and the
 * inferencers. [InferenceRunner] */
typedef struct tp_cb_inference_runner_desc {
    tp_at at_;
    tp_dataflow *dataflow;   /* becomes a finite FeedInput */
    tp_input_source *input;  /* or this */
    tp_inferencer *inferencers[TP_CB_MAX_NAMES];
    const char *tower_name; /* NULL = "InferenceTower" */
    tp_tower_func *tower_func; /* NULL = the trainer's */
} tp_cb_inference_runner_desc;
TP_DEF tp_callback *tp_cb_inference_runner_(const tp_cb_inference_runner_desc *d);
TP_DEF tp_status tp_inference_runner_register_hook(tp_callback *runner, tp_hook *hook); /* before before_train; borrowed */

/* ==== >>parameters ==================================================================================== */

/* Something that can be set while training. A zeroed one with a name is the graph variable of that name. [HyperParam] */
typedef struct tp_param {
    const char *name;
    void *user;
    tp_status (*setup_graph)(struct tp_param *p, tp_train_state *t);
    tp_status (*get)(struct tp_param *p, double *value);
    tp_status (*set)(struct tp_param *p, double value);
    tp_train_state *train;
    tp_variable *variable;
} tp_param;
TP_DEF tp_param tp_param_graph_var(const char *name);               /* [GraphVarParam] */
TP_DEF tp_param tp_param_field(const char *name, double *field);    /* [ObjAttrParam] */

typedef struct tp_schedule_point {
    int64_t at; /* epoch, or step */
    double value;
} tp_schedule_point;
#define TP_MAX_SCHEDULE 64
/* Values at epochs (or steps), applied after the named epoch; 0 is before training. [ScheduledHyperParamSetter] */
typedef struct tp_cb_scheduled_hyper_param_setter_desc {
    tp_at at_;
    tp_param param;
    tp_schedule_point schedule[TP_MAX_SCHEDULE];
    int n; /* points; 0: up to the last that is not {0,0} */
    int linear;           /* tp_tri: interpolate */
    int step_based;       /* tp_tri */
    int set_at_beginning; /* tp_tri; unset = TP_YES: at the start, what an earlier epoch should have set */
} tp_cb_scheduled_hyper_param_setter_desc;
TP_DEF tp_callback *tp_cb_scheduled_hyper_param_setter_(const tp_cb_scheduled_hyper_param_setter_desc *d);
/* value = fn(epoch_num, value), also once before training. [HyperParamSetterWithFunc] */
TP_DEF tp_callback *tp_cb_hyper_param_setter_with_func(tp_param param, double (*fn)(int64_t epoch, double value, void *user), void *user);
/* "name:value" lines of <logger dir>/file_name, NULL = hyper.txt. One bad line disables the file. [HumanHyperParamSetter] */
TP_DEF tp_callback *tp_cb_human_hyper_param_setter(tp_param param, const char *file_name);
/* Set value_fn(value) when the stat did not improve by more than threshold within last_k records. value_fn may return
 * TP_STOP through its status. [StatMonitorParamSetter] */
typedef struct tp_cb_stat_monitor_param_setter_desc {
    tp_at at_;
    tp_param param;
    const char *stat_name;
    tp_status (*value_fn)(double *value, void *user);
    void *user;
    double threshold;
    int last_k;
    int reverse; /* tp_tri: larger is better */
} tp_cb_stat_monitor_param_setter_desc;
TP_DEF tp_callback *tp_cb_stat_monitor_param_setter_(const tp_cb_stat_monitor_param_setter_desc *d);

/* ==== >>savers ======================================================================================== */

/* <dir>/model-<global_step>.npz each trigger, and the text file `checkpoint`. Whole files or none; an error of the disk
 * is logged and training goes on. [ModelSaver] */
typedef struct tp_cb_model_saver_desc {
    tp_at at_;
    int max_to_keep;                           /* 0 = 10; -1: all */
    double keep_checkpoint_every_n_hours;      /* 0 = 0.5 */
    const char *checkpoint_dir;                /* NULL = logger dir */
    const char *var_collections[TP_CB_MAX_NAMES]; /* none = GLOBAL_VARIABLES */
} tp_cb_model_saver_desc;
TP_DEF tp_callback *tp_cb_model_saver_(const tp_cb_model_saver_desc *d);
/* Copies the newest checkpoint to min-<stat>.npz when the stat is smaller than ever; put it after ModelSaver and after
 * what makes the stat. [MinSaver] */
typedef struct tp_cb_best_saver_desc {
    tp_at at_;
    const char *monitor_stat;
    const char *filename;       /* NULL = min-<stat> or max-<stat>; .npz is added */
    const char *checkpoint_dir; /* NULL = logger dir */
    int reverse;                /* tp_tri, tp_cb_min_saver: the maximum instead */
} tp_cb_best_saver_desc;
TP_DEF tp_callback *tp_cb_min_saver_(const tp_cb_best_saver_desc *d);
TP_DEF tp_callback *tp_cb_max_saver_(const tp_cb_best_saver_desc *d); /* [MaxSaver] */

/* ==== >>monitors ====================================================================================== */

TP_DEF tp_callback *tp_monitor_json_writer(void); /* stats.json in the logger dir [JSONWriter] */
/* Epoch of the last record of dir/stats.json; TP_ERR_NAME if there is no file or no record. [load_existing_epoch_number] */
TP_DEF tp_status tp_load_existing_epoch_number(const char *dir, int64_t *epoch);
typedef struct tp_monitor_tf_event_writer_desc {
    tp_at at_;
    const char *logdir;  /* NULL = logger dir */
    int max_queue;       /* events before they are written; 0 = 10 */
    double flush_secs;   /* 0 = 120 */
    int split_files;     /* tp_tri: a new file each epoch */
} tp_monitor_tf_event_writer_desc;
TP_DEF tp_callback *tp_monitor_tf_event_writer_(const tp_monitor_tf_event_writer_desc *d); /* [TFEventWriter] */
/* Logs scalars, sorted by name. Patterns are searched for (not anchored). [ScalarPrinter] */
typedef struct tp_monitor_scalar_printer_desc {
    tp_at at_;
    int enable_step;  /* tp_tri; unset = TP_NO */
    int enable_epoch; /* unset = TP_YES */
    const char *whitelist[TP_CB_MAX_NAMES], *blacklist[TP_CB_MAX_NAMES];
} tp_monitor_scalar_printer_desc;
TP_DEF tp_callback *tp_monitor_scalar_printer_(const tp_monitor_scalar_printer_desc *d);

/* ==== >>defaults ====================================================================================== */

/* MovingAverageSummary, ProgressBar, MergeAllSummaries, RunUpdateOps; TFEventWriter, JSONWriter, ScalarPrinter. Returns
 * how many were written to list (at least 8 places). [DEFAULT_CALLBACKS, DEFAULT_MONITORS] */
TP_DEF int tp_default_callbacks(tp_callback **list);
TP_DEF int tp_default_monitors(tp_callback **list);

#ifndef __cplusplus
#define tp_cb_lambda(...)                 tp_cb_lambda_(&(const tp_cb_lambda_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_run_op(...)                 tp_cb_run_op_(&(const tp_cb_run_op_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_merge_all_summaries(...)    tp_cb_merge_all_summaries_(&(const tp_cb_merge_all_summaries_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_progress_bar(...)           tp_cb_progress_bar_(&(const tp_cb_progress_bar_desc){.at_ = TP_AT, .names = {__VA_ARGS__}})
#define tp_cb_estimated_time_left(...)    tp_cb_estimated_time_left_(&(const tp_cb_estimated_time_left_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_periodic_trigger(...)       tp_cb_periodic_trigger_(&(const tp_cb_periodic_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_periodic_callback(...)      tp_cb_periodic_callback_(&(const tp_cb_periodic_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_inf_scalar_stats(...)          tp_inf_scalar_stats_(&(const tp_inf_scalar_stats_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_inf_classification_error(...)  tp_inf_classification_error_(&(const tp_inf_classification_error_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_inference_runner(...)       tp_cb_inference_runner_(&(const tp_cb_inference_runner_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_scheduled_hyper_param_setter(...) \
    tp_cb_scheduled_hyper_param_setter_(&(const tp_cb_scheduled_hyper_param_setter_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_stat_monitor_param_setter(...) tp_cb_stat_monitor_param_setter_(&(const tp_cb_stat_monitor_param_setter_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_model_saver(...)            tp_cb_model_saver_(&(const tp_cb_model_saver_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_min_saver(...)              tp_cb_min_saver_(&(const tp_cb_best_saver_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_cb_max_saver(...)              tp_cb_max_saver_(&(const tp_cb_best_saver_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_monitor_tf_event_writer(...)   tp_monitor_tf_event_writer_(&(const tp_monitor_tf_event_writer_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_monitor_scalar_printer(...)    tp_monitor_scalar_printer_(&(const tp_monitor_scalar_printer_desc){.at_ = TP_AT, __VA_ARGS__})
#endif

#ifdef __cplusplus
}
#endif
#endif /* TP_CALLBACKS_H */

/* ===== STOP HERE if you only want to use the library. Everything below is implementation. ===== */
#if defined(TP_IMPLEMENTATION) && !defined(TP__CALLBACKS_IMPLEMENTED)
#define TP__CALLBACKS_IMPLEMENTED
TP__COLD_BEGIN

/* dir/name into out. */
static tp_status tp__file_in(char *out, size_t size, const char *dir, const char *name)
{
    const size_t a = strlen(dir), b = strlen(name);
    if (a + b + 2 > size) return tp_fail(TP_ERR_ARG, "the path '%s/%s' is too long", dir, name);
    memcpy(out, dir, a);
    out[a] = '/';
    memcpy(out + a + 1, name, b + 1);
    return TP_OK;
}

/* ==== >>callback ====================================================================================== */

TP_DEF tp_callback *tp_callback_new(const char *name, size_t size)
{
    tp_callback *cb = (tp_callback *)tp_calloc(1, size > sizeof *cb ? size : sizeof *cb);
    if (cb) cb->name = name;
    return cb;
}

TP_DEF void tp_callback_free(tp_callback *cb)
{
    if (!cb) return;
    if (cb->free) cb->free(cb);
    tp_free(cb);
}

TP_DEF tp_callback *tp_callback_set_chief_only(tp_callback *cb, bool chief_only)
{
    if (cb) cb->chief_only = chief_only ? TP_YES : TP_NO;
    return cb;
}

TP_DEF bool tp_callback_chief_only(const tp_callback *cb) { return cb->chief_only != TP_NO; }

TP_DEF tp_status tp_callback_setup_graph(tp_callback *cb, tp_train_state *train)
{
    cb->train = train;
    if (!cb->setup_graph) return TP_OK;
    char scope[128];
    size_t n = 0;
    for (const char *p = cb->name_scope ? cb->name_scope : cb->name; *p && n + 1 < sizeof scope; p++)
        if (*p != '_' && *p != ' ') scope[n++] = *p;
    scope[n] = 0;
    if (n) tp_name_scope_push(train->graph, scope);
    const tp_status st = cb->setup_graph(cb);
    if (n) tp_name_scope_pop(train->graph);
    return st;
}

TP_DEF tp_status tp_callback_before_train(tp_callback *cb) { return cb->before_train ? cb->before_train(cb) : TP_OK; }
TP_DEF tp_status tp_callback_before_epoch(tp_callback *cb) { return cb->before_epoch ? cb->before_epoch(cb) : TP_OK; }
TP_DEF tp_status tp_callback_before_run(tp_callback *cb, tp_run_request *r) { return cb->before_run ? cb->before_run(cb, r) : TP_OK; }
TP_DEF tp_status tp_callback_after_run(tp_callback *cb, const tp_run_values *v) { return cb->after_run ? cb->after_run(cb, v) : TP_OK; }
TP_DEF tp_status tp_callback_trigger_step(tp_callback *cb) { return cb->trigger_step ? cb->trigger_step(cb) : TP_OK; }
TP_DEF tp_status tp_callback_after_epoch(tp_callback *cb) { return cb->after_epoch ? cb->after_epoch(cb) : TP_OK; }
TP_DEF tp_status tp_callback_trigger(tp_callback *cb) { return cb->trigger ? cb->trigger(cb) : TP_OK; }
TP_DEF tp_status tp_callback_trigger_epoch(tp_callback *cb) { return cb->trigger_epoch ? cb->trigger_epoch(cb) : tp_callback_trigger(cb); }
TP_DEF tp_status tp_callback_after_train(tp_callback *cb) { return cb->after_train ? cb->after_train(cb) : TP_OK; }

static tp_status tp__hook_before_run(tp_hook *h, tp_run_request *r) { return tp_callback_before_run((tp_callback *)h->user, r); }
static tp_status tp__hook_after_run(tp_hook *h, const tp_run_values *v) { return tp_callback_after_run((tp_callback *)h->user, v); }

TP_DEF tp_hook *tp_callback_hook(tp_callback *cb)
{
    cb->hook_.name = cb->name;
    cb->hook_.user = cb;
    cb->hook_.before_run = tp__hook_before_run;
    cb->hook_.after_run = tp__hook_after_run;
    return &cb->hook_;
}

TP_DEF tp_node *tp_callback_find(tp_callback *cb, const char *name)
{
    const tp_train_state *t = cb->train;
    tp_node *n = tp_graph_find(t->graph, name);
    for (int i = 0; !n && t->tower_func && i < tp_tower_func_n_towers(t->tower_func); i++) {
        const tp_tower_handle *h = tp_tower_func_tower(t->tower_func, i);
        if (!h->ctx.is_training) continue;
        n = tp_tower_handle_get(h, name);
        break;
    }
    if (!n) tp_fail(TP_ERR_NAME, "%s: tensor '%s' is not in the graph, nor in the first training tower", cb->name, name);
    return n;
}

TP_DEF tp_status tp_stop_training(tp_callback *cb, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(cb->train->stop_reason, sizeof cb->train->stop_reason, fmt, ap);
    va_end(ap);
    return TP_STOP;
}

TP_DEF const char *tp_humanize_time(double seconds, char *buf, size_t size)
{
    static const char *const unit[4] = {"day", "hour", "minute", "second"};
    static const double length[4] = {86400, 3600, 60, 1};
    size_t at = 0;
    if (seconds < 0) {
        tp_log(TP_LOG_WARN, "a time of %g seconds is negative", seconds);
        snprintf(buf, size, "%.3g seconds", seconds);
        return buf;
    }
    if (seconds == 0) {
        snprintf(buf, size, "0 second");
        return buf;
    }
    double rest = seconds >= 60 ? floor(seconds) : seconds; /* a fraction of a second counts below a minute only */
    buf[0] = 0;
    for (int i = 0; i < 4; i++) {
        const double v = i < 3 ? floor(rest / length[i]) : rest;
        if (i < 3) rest -= v * length[i];
        if (v > 0 && at < size) at += (size_t)snprintf(buf + at, size - at, "%s%.3g %s%s", at ? " " : "", v, unit[i], v > 1 ? "s" : "");
    }
    return buf;
}

TP_DEF tp_status tp_callbacks_trigger_epoch(tp_callback *const *cb, int n)
{
    double took[256], total = 0;
    char human[96];
    for (int i = 0; i < n; i++) {
        const double t0 = tp_time();
        const tp_status st = tp_callback_trigger_epoch(cb[i]);
        if (i < 256) took[i] = tp_time() - t0;
        total += tp_time() - t0;
        if (st != TP_OK) return st;
    }
    if (total < 2) return TP_OK;
    tp_buf b;
    memset(&b, 0, sizeof b);
    tp_buf_printf(&b, "Callbacks took %.3f sec in total.", total);
    for (int i = 0, shown = 0; i < n && i < 256; i++)
        if (took[i] / total > 0.3 && took[i] > 1) tp_buf_printf(&b, "%s %s: %s", shown++ ? ";" : "", cb[i]->name, tp_humanize_time(took[i], human, sizeof human));
    if (!b.failed) tp_log(TP_LOG_INFO, "%s", b.data);
    tp_buf_free(&b);
    return TP_OK;
}

TP_DEF void tp_callbacks_after_train(tp_callback *const *cb, int n)
{
    for (int i = 0; i < n; i++) {
        const tp_status st = tp_callback_after_train(cb[i]);
        if (st < 0) tp_log(TP_LOG_ERROR, "%s failed after training: %s", cb[i]->name, tp_last_error());
    }
}

/* -- proxy */

#define TP__INNER(cb_) (((tp_cb_proxy *)(void *)(cb_))->inner)
static tp_status tp__proxy_setup_graph(tp_callback *cb)
{
    tp_name_scope_push(cb->train->graph, ""); /* the inner one opens its own scope at the root */
    const tp_status st = tp_callback_setup_graph(TP__INNER(cb), cb->train);
    tp_name_scope_pop(cb->train->graph);
    return st;
}
static tp_status tp__proxy_before_train(tp_callback *cb) { return tp_callback_before_train(TP__INNER(cb)); }
static tp_status tp__proxy_before_epoch(tp_callback *cb) { return tp_callback_before_epoch(TP__INNER(cb)); }
static tp_status tp__proxy_before_run(tp_callback *cb, tp_run_request *r) { return tp_callback_before_run(TP__INNER(cb), r); }
static tp_status tp__proxy_after_run(tp_callback *cb, const tp_run_values *v) { return tp_callback_after_run(TP__INNER(cb), v); }
static tp_status tp__proxy_trigger_step(tp_callback *cb) { return tp_callback_trigger_step(TP__INNER(cb)); }
static tp_status tp__proxy_after_epoch(tp_callback *cb) { return tp_callback_after_epoch(TP__INNER(cb)); }
static tp_status tp__proxy_trigger_epoch(tp_callback *cb) { return tp_callback_trigger_epoch(TP__INNER(cb)); }
static tp_status tp__proxy_trigger(tp_callback *cb) { return tp_callback_trigger(TP__INNER(cb)); }
static tp_status tp__proxy_after_train(tp_callback *cb) { return tp_callback_after_train(TP__INNER(cb)); }
static tp_status tp__proxy_save_state(tp_callback *cb, tp_dict *d)
{
    tp_callback *i = TP__INNER(cb);
    return i->save_state ? i->save_state(i, d) : TP_OK;
}
static tp_status tp__proxy_load_state(tp_callback *cb, const tp_dict *d)
{
    tp_callback *i = TP__INNER(cb);
    return i->load_state ? i->load_state(i, d) : TP_OK;
}
static void tp__proxy_free(tp_callback *cb) { tp_callback_free(TP__INNER(cb)); }

TP_DEF tp_callback *tp_cb_proxy_new(tp_callback *inner, size_t size)
{
    tp_cb_proxy *p = inner ? (tp_cb_proxy *)(void *)tp_callback_new(inner->name, size > sizeof *p ? size : sizeof *p) : NULL;
    if (!p) {
        tp_callback_free(inner);
        return NULL;
    }
    tp_callback *cb = &p->base;
    p->inner = inner;
    cb->name_scope = "";
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
    cb->save_state = tp__proxy_save_state;
    cb->load_state = tp__proxy_load_state;
    cb->free = tp__proxy_free;
    return cb;
}

TP_DEF tp_callback *tp_cb_lambda_(const tp_cb_lambda_desc *d)
{
    tp_callback *cb = tp_callback_new("CallbackFactory", 0);
    if (!cb) return NULL;
    cb->setup_graph = d->setup_graph;
    cb->before_train = d->before_train;
    cb->trigger = d->trigger;
    cb->after_train = d->after_train;
    cb->user = d->user;
    return cb;
}

static tp_status tp__from_hook_setup(tp_callback *cb)
{
    tp_hook *h = (tp_hook *)cb->user;
    return h->begin ? h->begin(h, cb->train->graph) : TP_OK;
}
static tp_status tp__from_hook_before_train(tp_callback *cb)
{
    tp_hook *h = (tp_hook *)cb->user;
    return h->after_create_session ? h->after_create_session(h, cb->train->session) : TP_OK;
}
static tp_status tp__from_hook_before_run(tp_callback *cb, tp_run_request *r)
{
    tp_hook *h = (tp_hook *)cb->user;
    return h->before_run ? h->before_run(h, r) : TP_OK;
}
static tp_status tp__from_hook_after_run(tp_callback *cb, const tp_run_values *v)
{
    tp_hook *h = (tp_hook *)cb->user;
    return h->after_run ? h->after_run(h, v) : TP_OK;
}
static tp_status tp__from_hook_after_train(tp_callback *cb)
{
    tp_hook *h = (tp_hook *)cb->user;
    if (h->end && cb->train->session) h->end(h, cb->train->session);
    return TP_OK;
}

TP_DEF tp_callback *tp_cb_hook(tp_hook *hook)
{
    tp_callback *cb = tp_callback_new(hook->name ? hook->name : "HookToCallback", 0);
    if (!cb) return NULL;
    cb->chief_only = TP_NO;
    cb->user = hook;
    cb->setup_graph = tp__from_hook_setup;
    cb->before_train = tp__from_hook_before_train;
    cb->before_run = tp__from_hook_before_run;
    cb->after_run = tp__from_hook_after_run;
    cb->after_train = tp__from_hook_after_train;
    return cb;
}

/* ==== >>monitor ======================================================================================= */

TP_DEF tp_monitor *tp_monitor_new(const char *name, size_t size)
{
    tp_monitor *m = (tp_monitor *)(void *)tp_callback_new(name, size > sizeof *m ? size : sizeof *m);
    if (!m) return NULL;
    m->base.chief_only = TP_NO;
    m->base.monitor = m;
    return m;
}

typedef struct tp__history {
    char *name;
    tp_stat *stat;
    int n, cap;
} tp__history;

struct tp_monitors {
    tp_monitor **m;
    int n;
    tp_train_state *train;
    tp__history *history;
    int n_history, cap_history;
};

TP_DEF tp_monitors *tp_monitors_new(tp_monitor *const *m, int n, tp_train_state *train)
{
    tp_monitors *s = (tp_monitors *)tp_calloc(1, sizeof *s);
    tp_monitor **list = (tp_monitor **)tp_calloc((size_t)n + 1, sizeof *list);
    if (!s || !list) {
        tp_free(s);
        tp_free((void *)list);
        return NULL;
    }
    for (int i = 0; i < n; i++) list[i] = m[i];
    s->m = list;
    s->n = n;
    s->train = train;
    return s;
}

TP_DEF void tp_monitors_free(tp_monitors *s)
{
    if (!s) return;
    for (int i = 0; i < s->n_history; i++) {
        tp_free(s->history[i].name);
        tp_free(s->history[i].stat);
    }
    tp_free(s->history);
    tp_free((void *)s->m);
    tp_free(s);
}

static tp__history *tp__find_history(tp_monitors *s, const char *name)
{
    for (int i = 0; i < s->n_history; i++)
        if (strcmp(s->history[i].name, name) == 0) return &s->history[i];
    return NULL;
}

static tp_status tp__remember(tp_monitors *s, const char *name, double value)
{
    tp__history *h = tp__find_history(s, name);
    if (!h) {
        if (s->n_history == s->cap_history) {
            const int cap = s->cap_history ? s->cap_history * 2 : 16;
            tp__history *bigger = (tp__history *)tp_realloc(s->history, (size_t)cap * sizeof *bigger);
            if (!bigger) return TP_ERR_NOMEM;
            s->history = bigger;
            s->cap_history = cap;
        }
        h = &s->history[s->n_history];
        memset(h, 0, sizeof *h);
        if (!(h->name = tp_strdup(name))) return TP_ERR_NOMEM;
        s->n_history++;
    }
    if (h->n == h->cap) {
        const int cap = h->cap ? h->cap * 2 : 64;
        tp_stat *bigger = (tp_stat *)tp_realloc(h->stat, (size_t)cap * sizeof *bigger);
        if (!bigger) return TP_ERR_NOMEM;
        h->stat = bigger;
        h->cap = cap;
    }
    h->stat[h->n].global_step = s->train->global_step;
    h->stat[h->n++].value = value;
    return TP_OK;
}

/* A tag without every "towerN/", and without a trailing "-summary" if it is a scalar's. */
static void tp__clean_tag(const char *tag, bool scalar, char *out, size_t size)
{
    size_t n = 0;
    while (*tag && n + 1 < size) {
        if (strncmp(tag, "tower", 5) == 0 && tag[5] >= '0' && tag[5] <= '9') {
            const char *p = tag + 5;
            while (*p >= '0' && *p <= '9') p++;
            if (*p == '/') {
                tag = p + 1;
                continue;
            }
        }
        out[n++] = *tag++;
    }
    out[n] = 0;
    if (scalar && n > 8 && strcmp(out + n - 8, "-summary") == 0) out[n - 8] = 0;
}

TP_DEF tp_status tp_put_summary(tp_monitors *s, tp_summary_value *v, int n)
{
    tp_status st = TP_OK;
    char (*tag)[512] = (char (*)[512])tp_malloc((size_t)(n ? n : 1) * sizeof *tag);
    if (!tag) return TP_ERR_NOMEM;
    for (int i = 0; i < n && st == TP_OK; i++) {
        tp__clean_tag(v[i].tag, v[i].kind == TP_SUMMARY_SCALAR, tag[i], sizeof tag[i]);
        v[i].tag = tag[i];
        if (v[i].kind != TP_SUMMARY_SCALAR) continue;
        for (int k = 0; k < s->n && st == TP_OK; k++)
            if (s->m[k]->process_scalar) st = s->m[k]->process_scalar(s->m[k], &v[i]);
        if (st == TP_OK) st = tp__remember(s, tag[i], v[i].scalar);
    }
    for (int k = 0; k < s->n && st == TP_OK; k++)
        if (s->m[k]->process_summary) st = s->m[k]->process_summary(s->m[k], v, n);
    tp_free(tag);
    return st;
}

static tp_status tp__put_number(tp_monitors *s, const char *name, double value, bool is_integer)
{
    tp_summary_value v;
    memset(&v, 0, sizeof v);
    v.tag = name;
    v.kind = TP_SUMMARY_SCALAR;
    v.scalar = value;
    v.is_integer = is_integer;
    return tp_put_summary(s, &v, 1);
}

TP_DEF tp_status tp_put_scalar(tp_monitors *s, const char *name, double value) { return tp__put_number(s, name, value, false); }
TP_DEF tp_status tp_put_integer(tp_monitors *s, const char *name, int64_t value) { return tp__put_number(s, name, (double)value, true); }

TP_DEF tp_status tp_put_image(tp_monitors *s, const char *name, const tp_tensor *image)
{
    tp_summary_value v;
    memset(&v, 0, sizeof v);
    v.tag = name;
    v.kind = TP_SUMMARY_IMAGE;
    v.tensor = image;
    for (int k = 0; k < s->n; k++)
        if (s->m[k]->process_image) {
            const tp_status st = s->m[k]->process_image(s->m[k], name, image);
            if (st != TP_OK) return st;
        }
    return tp_put_summary(s, &v, 1);
}

TP_DEF tp_status tp_put_event(tp_monitors *s, const char *name, const char *text)
{
    for (int k = 0; k < s->n; k++)
        if (s->m[k]->process_event) {
            const tp_status st = s->m[k]->process_event(s->m[k], name, text);
            if (st != TP_OK) return st;
        }
    return TP_OK;
}

TP_DEF tp_status tp_get_latest(tp_monitors *s, const char *name, double *value)
{
    const tp__history *h = s ? tp__find_history(s, name) : NULL;
    if (!h || h->n == 0) return tp_fail(TP_ERR_NAME, "No available data for the key: %s", name);
    *value = h->stat[h->n - 1].value;
    return TP_OK;
}

TP_DEF const tp_stat *tp_get_history(tp_monitors *s, const char *name, int *n)
{
    const tp__history *h = s ? tp__find_history(s, name) : NULL;
    *n = h ? h->n : 0;
    return h ? h->stat : NULL;
}

/* ==== >>graph callbacks =============================================================================== */

typedef struct tp__run_op {
    tp_callback base;
    tp_cb_run_op_desc d;
    const char *collection;
    int log_count;
} tp__run_op;

static tp_status tp__run_op_setup(tp_callback *cb)
{
    tp__run_op *r = (tp__run_op *)(void *)cb;
    if (r->collection) {
        int n = 0;
        tp_node *const *ops = tp_collection(cb->train->graph, r->collection, &n);
        if (n > 0) {
            if (r->log_count) tp_log(TP_LOG_INFO, "Applying collection %s of %d ops.", r->collection, n);
            r->d.op = tp_group(cb->train->graph, ops, n, "group");
        }
    } else if (r->d.make) {
        r->d.op = r->d.make(cb->train->graph, r->d.user);
    }
    return tp_graph_status(cb->train->graph);
}

static tp_status tp__run_op_now(tp_callback *cb)
{
    tp__run_op *r = (tp__run_op *)(void *)cb;
    if (!r->d.op) return TP_OK;
    if (r->d.verbose == TP_YES) tp_log(TP_LOG_INFO, "Running Op %s ...", tp_node_name(r->d.op));
    return tp_session_run(cb->train->session, NULL, 0, &r->d.op, 1, NULL);
}

static tp_status tp__run_op_before_run(tp_callback *cb, tp_run_request *q)
{
    tp__run_op *r = (tp__run_op *)(void *)cb;
    if (!r->d.op) return TP_OK;
    if (r->d.verbose == TP_YES) tp_log(TP_LOG_INFO, "Running Op %s ...", tp_node_name(r->d.op));
    return tp_request_fetch(q, r->d.op) < 0 ? TP_ERR : TP_OK;
}

static tp_callback *tp__run_op_new(const char *name, const tp_cb_run_op_desc *d)
{
    tp__run_op *r = (tp__run_op *)(void *)tp_callback_new(name, sizeof *r);
    if (!r) return NULL;
    r->d = *d;
    r->base.chief_only = TP_NO;
    r->base.setup_graph = tp__run_op_setup;
    if (d->run_before != TP_NO) r->base.before_train = tp__run_op_now;
    if (d->run_as_trigger != TP_NO) r->base.trigger = tp__run_op_now;
    if (d->run_step == TP_YES) r->base.before_run = tp__run_op_before_run;
    return &r->base;
}

TP_DEF tp_callback *tp_cb_run_op_(const tp_cb_run_op_desc *d) { return tp__run_op_new("RunOp", d); }

static tp_callback *tp__run_collection(const char *name, const char *collection)
{
    tp_cb_run_op_desc d;
    memset(&d, 0, sizeof d);
    d.run_before = d.run_as_trigger = TP_NO;
    d.run_step = TP_YES;
    tp__run_op *r = (tp__run_op *)(void *)tp__run_op_new(name, &d);
    if (!r) return NULL;
    r->collection = collection;
    r->log_count = 1;
    return &r->base;
}

TP_DEF tp_callback *tp_cb_run_update_ops(const char *collection) { return tp__run_collection("RunUpdateOps", collection ? collection : TP_KEY_UPDATE_OPS); }

TP_DEF tp_callback *tp_cb_moving_average_summary(const char *collection)
{
    tp_callback *cb = tp__run_collection("MovingAverageSummary", collection ? collection : TP_KEY_MOVING_SUMMARY_OPS);
    if (cb) cb->chief_only = TP_YES;
    return cb;
}

/* -- summaries, with the last step of an epoch */

typedef struct tp__merge {
    tp_callback base;
    tp_cb_merge_all_summaries_desc d;
    tp_node **node;
    tp_summary_value *value;
    int n;
    bool asked;
} tp__merge;

static tp_status tp__merge_setup(tp_callback *cb)
{
    tp__merge *m = (tp__merge *)(void *)cb;
    int n = 0;
    tp_node *const *all = tp_collection(cb->train->graph, m->d.key ? m->d.key : TP_KEY_SUMMARIES, &n);
    m->node = (tp_node **)tp_calloc((size_t)n + 1, sizeof *m->node);
    m->value = (tp_summary_value *)tp_calloc((size_t)n + 1, sizeof *m->value);
    if (!m->node || !m->value) return TP_ERR_NOMEM;
    for (int i = 0; i < n; i++)
        if (tp_summary_info(all[i])) m->node[m->n++] = all[i];
    if (m->n) tp_log(TP_LOG_INFO, "Summarizing collection '%s' of size %d.", m->d.key ? m->d.key : TP_KEY_SUMMARIES, m->n);
    return TP_OK;
}

static tp_status tp__merge_put(tp_callback *cb, const tp_tensor *const *value)
{
    tp__merge *m = (tp__merge *)(void *)cb;
    for (int i = 0; i < m->n; i++) {
        const tp_summary_attrs *a = tp_summary_info(m->node[i]);
        m->value[i].tag = a->tag;
        m->value[i].kind = a->kind;
        m->value[i].tensor = value[i];
        m->value[i].scalar = a->kind == TP_SUMMARY_SCALAR && tp_tensor_size(value[i]) > 0 ? tp_tensor_get(value[i], 0) : 0;
        m->value[i].is_integer = !tp_dtype_is_float(value[i]->dtype);
    }
    return m->n ? tp_put_summary(cb->train->monitors, m->value, m->n) : TP_OK;
}

static bool tp__merge_due(const tp_callback *cb)
{
    const tp__merge *m = (const tp__merge *)(const void *)cb;
    const tp_train_state *t = cb->train;
    return t->local_step == t->steps_per_epoch - 1 || (m->d.period > 0 && (t->local_step + 1) % m->d.period == 0);
}

static tp_status tp__merge_before_run(tp_callback *cb, tp_run_request *r)
{
    tp__merge *m = (tp__merge *)(void *)cb;
    m->asked = m->n > 0 && tp__merge_due(cb);
    for (int i = 0; m->asked && i < m->n; i++)
        if (tp_request_fetch(r, m->node[i]) < 0) return TP_ERR_NOMEM;
    return TP_OK;
}

static tp_status tp__merge_after_run(tp_callback *cb, const tp_run_values *v)
{
    return ((tp__merge *)(void *)cb)->asked ? tp__merge_put(cb, v->value) : TP_OK;
}

static tp_status tp__merge_alone(tp_callback *cb)
{
    tp__merge *m = (tp__merge *)(void *)cb;
    const tp_tensor **value = (const tp_tensor **)tp_calloc((size_t)m->n + 1, sizeof *value);
    if (!value) return TP_ERR_NOMEM;
    tp_status st = m->n ? tp_session_run(cb->train->session, NULL, 0, m->node, m->n, value) : TP_OK;
    if (st == TP_OK) st = tp__merge_put(cb, value);
    tp_free((void *)value);
    return st;
}

static tp_status tp__merge_alone_step(tp_callback *cb)
{
    const tp__merge *m = (const tp__merge *)(const void *)cb;
    return m->d.period > 0 && (cb->train->local_step + 1) % m->d.period == 0 ? tp__merge_alone(cb) : TP_OK;
}

static void tp__merge_free(tp_callback *cb)
{
    tp__merge *m = (tp__merge *)(void *)cb;
    tp_free((void *)m->node);
    tp_free(m->value);
}

TP_DEF tp_callback *tp_cb_merge_all_summaries_(const tp_cb_merge_all_summaries_desc *d)
{
    tp__merge *m = (tp__merge *)(void *)tp_callback_new("MergeAllSummaries", sizeof *m);
    if (!m) return NULL;
    m->d = *d;
    m->base.setup_graph = tp__merge_setup;
    m->base.free = tp__merge_free;
    if (d->run_alone == TP_YES) {
        m->base.trigger = tp__merge_alone;
        m->base.trigger_step = tp__merge_alone_step;
    } else {
        m->base.before_run = tp__merge_before_run;
        m->base.after_run = tp__merge_after_run;
    }
    return &m->base;
}

/* -- step counter */

typedef struct tp__counter {
    tp_callback base;
    tp_node *add;
} tp__counter;

static tp_status tp__counter_setup(tp_callback *cb)
{
    tp__counter *c = (tp__counter *)(void *)cb;
    c->add = tp_assign_add(tp_get_global_step_var(cb->train->graph), tp_const_as(cb->train->graph, TP_I64, 1), NULL);
    return tp_graph_status(cb->train->graph);
}

static tp_status tp__counter_before_train(tp_callback *cb)
{
    cb->train->global_step = tp_get_global_step_value(cb->train->session);
    if (cb->train->global_step) tp_log(TP_LOG_INFO, "Start training with global_step=%lld", (long long)cb->train->global_step);
    return TP_OK;
}

static tp_status tp__counter_before_run(tp_callback *cb, tp_run_request *r)
{
    return tp_request_fetch(r, ((tp__counter *)(void *)cb)->add) < 0 ? TP_ERR : TP_OK;
}

static tp_status tp__counter_after_run(tp_callback *cb, const tp_run_values *v)
{
    (void)v;
    cb->train->global_step++;
    return TP_OK;
}

TP_DEF tp_callback *tp_cb_maintain_step_counter(void)
{
    tp__counter *c = (tp__counter *)(void *)tp_callback_new("MaintainStepCounter", sizeof *c);
    if (!c) return NULL;
    c->base.chief_only = TP_NO;
    c->base.name_scope = "";
    c->base.setup_graph = tp__counter_setup;
    c->base.before_train = tp__counter_before_train;
    c->base.before_run = tp__counter_before_run;
    c->base.after_run = tp__counter_after_run;
    return &c->base;
}

/* -- progress bar: {percent}|{bar}|{n}/{total}[{elapsed}<{left},{rate}it/s] on stderr */

typedef struct tp__bar {
    tp_callback base;
    const char *name[TP_CB_MAX_NAMES];
    tp_node *node[TP_CB_MAX_NAMES];
    double value[TP_CB_MAX_NAMES];
    int n_name;
    bool open, asked, tty;
    int64_t n, last_step;
    double start, shown_at, interval;
} tp__bar;

static void tp__bar_clock(double s, char *buf, size_t size)
{
    const long t = s > 0 && s < 1e8 ? (long)s : 0;
    if (t >= 3600) snprintf(buf, size, "%ld:%02ld:%02ld", t / 3600, t / 60 % 60, t % 60);
    else snprintf(buf, size, "%02ld:%02ld", t / 60, t % 60);
}

static void tp__bar_show(tp__bar *b, bool last)
{
    const tp_train_state *t = b->base.train;
    const double now = tp_time(), elapsed = now - b->start, rate = elapsed > 0 ? (double)b->n / elapsed : 0;
    char used[24], left[24], bar[32], line[512];
    const int64_t total = t->steps_per_epoch;
    tp__bar_clock(elapsed, used, sizeof used);
    tp__bar_clock(rate > 0 ? (double)(total - b->n) / rate : 0, left, sizeof left);
    const int full = total > 0 ? (int)(20 * b->n / total) : 20;
    for (int i = 0; i < 20; i++) bar[i] = i < full ? '#' : ' ';
    bar[20] = 0;
    int len = snprintf(line, sizeof line, "%3d%%|%s|%lld/%lld[%s<%s,%.2fit/s]", total > 0 ? (int)(100 * b->n / total) : 100, bar, (long long)b->n,
                       (long long)total, used, left, rate);
    for (int i = 0; i < b->n_name && len > 0 && len < 400; i++) {
        const char *tag = strrchr(b->name[i], '/');
        len += snprintf(line + len, sizeof line - (size_t)len, "%s%s=%.4g", i ? ", " : " ", tag ? tag + 1 : b->name[i], b->value[i]);
    }
    fprintf(stderr, b->tty ? "\r%s%s" : "%s%s", line, last || !b->tty ? "\n" : "");
    fflush(stderr);
    b->shown_at = now;
}

static tp_status tp__bar_setup(tp_callback *cb)
{
    tp__bar *b = (tp__bar *)(void *)cb;
    const char *env = getenv("TENSORPACK_PROGRESS_REFRESH");
    b->tty = isatty(2) != 0;
    b->last_step = -1;
    b->interval = b->tty ? 0.5 : getenv("SLURM_JOB_ID") ? 15 : getenv("OMPI_COMM_WORLD_RANK") ? 60 : 180;
    if (env && atof(env) > 0) b->interval = atof(env);
    return TP_OK;
}

static tp_status tp__bar_before_train(tp_callback *cb)
{
    tp__bar *b = (tp__bar *)(void *)cb;
    for (int i = 0; i < b->n_name; i++) {
        b->node[i] = tp_callback_find(cb, b->name[i]);
        if (!b->node[i]) return TP_ERR_NAME;
        if (b->node[i]->shape.ndim != 0) return tp_fail(TP_ERR_SHAPE, "ProgressBar: '%s' is no scalar", b->name[i]);
    }
    return TP_OK;
}

static tp_status tp__bar_before_epoch(tp_callback *cb)
{
    tp__bar *b = (tp__bar *)(void *)cb;
    b->open = true;
    b->n = 0;
    b->start = b->shown_at = tp_time();
    return TP_OK;
}

static tp_status tp__bar_before_run(tp_callback *cb, tp_run_request *r)
{
    tp__bar *b = (tp__bar *)(void *)cb;
    b->asked = b->n_name > 0 && cb->train->local_step != b->last_step;
    b->last_step = cb->train->local_step;
    for (int i = 0; b->asked && i < b->n_name; i++)
        if (tp_request_fetch(r, b->node[i]) < 0) return TP_ERR_NOMEM;
    return TP_OK;
}

static tp_status tp__bar_after_run(tp_callback *cb, const tp_run_values *v)
{
    tp__bar *b = (tp__bar *)(void *)cb;
    for (int i = 0; b->asked && i < b->n_name; i++) b->value[i] = tp_tensor_get(v->value[i], 0);
    return TP_OK;
}

static tp_status tp__bar_trigger_step(tp_callback *cb)
{
    tp__bar *b = (tp__bar *)(void *)cb;
    b->n++;
    if (b->n < cb->train->steps_per_epoch && tp_time() - b->shown_at >= b->interval) tp__bar_show(b, false);
    return TP_OK;
}

static tp_status tp__bar_close(tp_callback *cb)
{
    tp__bar *b = (tp__bar *)(void *)cb;
    if (b->open) tp__bar_show(b, true);
    b->open = false;
    return TP_OK;
}

TP_DEF tp_callback *tp_cb_progress_bar_(const tp_cb_progress_bar_desc *d)
{
    tp__bar *b = (tp__bar *)(void *)tp_callback_new("ProgressBar", sizeof *b);
    if (!b) return NULL;
    for (int i = 0; i < TP_CB_MAX_NAMES && d->names[i]; i++) b->name[b->n_name++] = d->names[i];
    b->base.chief_only = TP_NO;
    b->base.setup_graph = tp__bar_setup;
    b->base.before_train = tp__bar_before_train;
    b->base.before_epoch = tp__bar_before_epoch;
    b->base.before_run = tp__bar_before_run;
    b->base.after_run = tp__bar_after_run;
    b->base.trigger_step = tp__bar_trigger_step;
    b->base.after_epoch = tp__bar_close;
    b->base.after_train = tp__bar_close;
    return &b->base;
}

/* -- estimated time left */

#define TP__MAX_ETA 64
typedef struct tp__eta {
    tp_callback base;
    int k, median, n;
    double window[TP__MAX_ETA], last;
} tp__eta;

static tp_status tp__eta_before_train(tp_callback *cb)
{
    ((tp__eta *)(void *)cb)->last = tp_time();
    return TP_OK;
}

static int tp__by_double(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static tp_status tp__eta_trigger_epoch(tp_callback *cb)
{
    tp__eta *e = (tp__eta *)(void *)cb;
    const double now = tp_time();
    double sorted[TP__MAX_ETA], typical = 0;
    char human[96];
    if (e->n == e->k) memmove(e->window, e->window + 1, (size_t)(--e->n) * sizeof(double));
    e->window[e->n++] = now - e->last;
    e->last = now;
    for (int i = 0; i < e->n; i++) {
        sorted[i] = e->window[i];
        typical += e->window[i] / e->n;
    }
    qsort(sorted, (size_t)e->n, sizeof(double), tp__by_double);
    if (e->median) typical = e->n % 2 ? sorted[e->n / 2] : 0.5 * (sorted[e->n / 2 - 1] + sorted[e->n / 2]);
    const double left = typical * (double)(cb->train->max_epoch - cb->train->epoch_num);
    if (left > 0) tp_log(TP_LOG_INFO, "Estimated Time Left: %s", tp_humanize_time(left, human, sizeof human));
    return TP_OK;
}

TP_DEF tp_callback *tp_cb_estimated_time_left_(const tp_cb_estimated_time_left_desc *d)
{
    tp__eta *e = (tp__eta *)(void *)tp_callback_new("EstimatedTimeLeft", sizeof *e);
    if (!e) return NULL;
    e->k = d->last_k_epochs > 0 ? d->last_k_epochs < TP__MAX_ETA ? d->last_k_epochs : TP__MAX_ETA : 5;
    e->median = d->median != TP_NO;
    e->base.before_train = tp__eta_before_train;
    e->base.trigger_epoch = tp__eta_trigger_epoch;
    return &e->base;
}

/* ==== >>schedules ===================================================================================== */

typedef struct tp__periodic {
    tp_cb_proxy proxy;
    int64_t steps, epochs;
    int before_train;
    bool (*pred)(tp_callback *cb, void *user);
    void *pred_user;
    bool enabled; /* what before_run decided */
} tp__periodic;

static tp_status tp__periodic_setup(tp_callback *cb)
{
    const tp__periodic *p = (const tp__periodic *)(const void *)cb;
    if (p->steps <= 0 && p->epochs <= 0 && !p->before_train && !p->pred)
        return tp_fail(TP_ERR_ARG, "%s is made periodic without a period: give every_k_steps or every_k_epochs", cb->name);
    return tp__proxy_setup_graph(cb);
}

static tp_status tp__periodic_before_train(tp_callback *cb)
{
    const tp__periodic *p = (const tp__periodic *)(const void *)cb;
    const tp_status st = tp_callback_before_train(p->proxy.inner);
    return st == TP_OK && p->before_train ? tp_callback_trigger(p->proxy.inner) : st;
}

static tp_status tp__periodic_trigger_step(tp_callback *cb)
{
    const tp__periodic *p = (const tp__periodic *)(const void *)cb;
    const tp_status st = tp_callback_trigger_step(p->proxy.inner);
    return st == TP_OK && p->steps > 0 && cb->train->global_step % p->steps == 0 ? tp_callback_trigger(p->proxy.inner) : st;
}

static tp_status tp__periodic_trigger_epoch(tp_callback *cb)
{
    const tp__periodic *p = (const tp__periodic *)(const void *)cb;
    return p->epochs > 0 && cb->train->epoch_num % p->epochs == 0 ? tp_callback_trigger(p->proxy.inner) : TP_OK;
}

TP_DEF tp_callback *tp_cb_periodic_trigger_(const tp_cb_periodic_desc *d)
{
    tp__periodic *p = (tp__periodic *)(void *)tp_cb_proxy_new(d->callback, sizeof *p);
    if (!p) return NULL;
    p->steps = d->every_k_steps;
    p->epochs = d->every_k_epochs;
    p->before_train = d->before_train == TP_YES;
    p->proxy.base.setup_graph = tp__periodic_setup;
    p->proxy.base.before_train = tp__periodic_before_train;
    p->proxy.base.trigger_step = tp__periodic_trigger_step;
    p->proxy.base.trigger_epoch = tp__periodic_trigger_epoch;
    return &p->proxy.base;
}

static bool tp__if(tp_callback *cb)
{
    const tp__periodic *p = (const tp__periodic *)(const void *)cb;
    return p->pred(cb, p->pred_user);
}
static tp_status tp__if_before_epoch(tp_callback *cb) { return tp__if(cb) ? tp_callback_before_epoch(TP__INNER(cb)) : TP_OK; }
static tp_status tp__if_after_epoch(tp_callback *cb) { return tp__if(cb) ? tp_callback_after_epoch(TP__INNER(cb)) : TP_OK; }
static tp_status tp__if_trigger_step(tp_callback *cb) { return tp__if(cb) ? tp_callback_trigger_step(TP__INNER(cb)) : TP_OK; }
static tp_status tp__if_trigger_epoch(tp_callback *cb) { return tp__if(cb) ? tp_callback_trigger_epoch(TP__INNER(cb)) : TP_OK; }
static tp_status tp__if_before_run(tp_callback *cb, tp_run_request *r)
{
    tp__periodic *p = (tp__periodic *)(void *)cb;
    p->enabled = tp__if(cb);
    return p->enabled ? tp_callback_before_run(p->proxy.inner, r) : TP_OK;
}
static tp_status tp__if_after_run(tp_callback *cb, const tp_run_values *v)
{
    const tp__periodic *p = (const tp__periodic *)(const void *)cb;
    return p->enabled ? tp_callback_after_run(p->proxy.inner, v) : TP_OK;
}

TP_DEF tp_callback *tp_cb_enable_if(tp_callback *inner, bool (*pred)(tp_callback *cb, void *user), void *user)
{
    tp__periodic *p = (tp__periodic *)(void *)tp_cb_proxy_new(inner, sizeof *p);
    if (!p) return NULL;
    tp_callback *cb = &p->proxy.base;
    p->pred = pred;
    p->pred_user = user;
    cb->before_epoch = tp__if_before_epoch;
    cb->after_epoch = tp__if_after_epoch;
    cb->before_run = tp__if_before_run;
    cb->after_run = tp__if_after_run;
    cb->trigger_step = tp__if_trigger_step;
    cb->trigger_epoch = tp__if_trigger_epoch;
    return cb;
}

static bool tp__periodic_pred(tp_callback *cb, void *user)
{
    const tp__periodic *p = (const tp__periodic *)(const void *)cb;
    const tp_train_state *t = cb->train;
    (void)user;
    if (p->steps > 0 && t->global_step % p->steps == 0) return true;
    if (p->epochs > 0 && t->epoch_num % p->epochs == 0) return true;
    return p->epochs > 0 && t->local_step == t->steps_per_epoch - 1 && t->epoch_num == t->max_epoch;
}

TP_DEF tp_callback *tp_cb_periodic_callback_(const tp_cb_periodic_desc *d)
{
    tp__periodic *p = (tp__periodic *)(void *)tp_cb_enable_if(d->callback, tp__periodic_pred, NULL);
    if (!p) return NULL;
    p->steps = d->every_k_steps;
    p->epochs = d->every_k_epochs;
    if (p->steps <= 0 && p->epochs <= 0) {
        p->pred = NULL;
        p->proxy.base.setup_graph = tp__periodic_setup; /* reports it */
    }
    return &p->proxy.base;
}

/* ==== >>inference ===================================================================================== */

TP_DEF tp_inferencer *tp_inferencer_new(const char *name, size_t size)
{
    tp_inferencer *i = (tp_inferencer *)tp_calloc(1, size > sizeof *i ? size : sizeof *i);
    if (i) i->name = name;
    return i;
}

typedef struct tp__scalar_stats {
    tp_inferencer base;
    const char *prefix;
    double sum[TP_CB_MAX_NAMES];
    int64_t n;
} tp__scalar_stats;

static tp_status tp__scalar_stats_before(tp_inferencer *i)
{
    tp__scalar_stats *s = (tp__scalar_stats *)(void *)i;
    memset(s->sum, 0, sizeof s->sum);
    s->n = 0;
    return TP_OK;
}

static tp_status tp__scalar_stats_on(tp_inferencer *i, const tp_tensor *const *value, int n)
{
    tp__scalar_stats *s = (tp__scalar_stats *)(void *)i;
    for (int k = 0; k < n; k++) {
        if (tp_tensor_size(value[k]) != 1) return tp_fail(TP_ERR_SHAPE, "ScalarStats: '%s' is not a scalar", i->fetch[k]);
        s->sum[k] += tp_tensor_get(value[k], 0);
    }
    s->n++;
    return TP_OK;
}

static tp_status tp__scalar_stats_after(tp_inferencer *i, tp_monitors *m)
{
    const tp__scalar_stats *s = (const tp__scalar_stats *)(const void *)i;
    char name[512];
    tp_status st = TP_OK;
    for (int k = 0; k < i->n_fetch && s->n && st == TP_OK; k++) {
        snprintf(name, sizeof name, "%s%s%s", s->prefix, *s->prefix ? "_" : "", i->fetch[k]);
        const size_t len = strlen(name);
        if (len > 2 && strcmp(name + len - 2, ":0") == 0) name[len - 2] = 0;
        st = tp_put_scalar(m, name, s->sum[k] / (double)s->n);
    }
    return st;
}

TP_DEF tp_inferencer *tp_inf_scalar_stats_(const tp_inf_scalar_stats_desc *d)
{
    tp__scalar_stats *s = (tp__scalar_stats *)(void *)tp_inferencer_new("ScalarStats", sizeof *s);
    if (!s) return NULL;
    for (int k = 0; k < TP_CB_MAX_NAMES && d->names[k]; k++) s->base.fetch[s->base.n_fetch++] = d->names[k];
    s->prefix = d->prefix ? d->prefix : "validation";
    s->base.before_inference = tp__scalar_stats_before;
    s->base.on_fetches = tp__scalar_stats_on;
    s->base.after_inference = tp__scalar_stats_after;
    return &s->base;
}

typedef struct tp__class_error {
    tp_inferencer base;
    const char *summary;
    double wrong, count;
} tp__class_error;

static tp_status tp__class_error_before(tp_inferencer *i)
{
    ((tp__class_error *)(void *)i)->wrong = ((tp__class_error *)(void *)i)->count = 0;
    return TP_OK;
}

static tp_status tp__class_error_on(tp_inferencer *i, const tp_tensor *const *value, int n)
{
    tp__class_error *c = (tp__class_error *)(void *)i;
    (void)n;
    if (value[0]->shape.ndim != 1) return tp_fail(TP_ERR_SHAPE, "ClassificationError: '%s' is not a vector!", i->fetch[0]);
    for (int64_t k = 0; k < tp_tensor_size(value[0]); k++) c->wrong += tp_tensor_get(value[0], k);
    c->count += (double)tp_tensor_size(value[0]);
    return TP_OK;
}

static tp_status tp__class_error_after(tp_inferencer *i, tp_monitors *m)
{
    const tp__class_error *c = (const tp__class_error *)(const void *)i;
    return tp_put_scalar(m, c->summary, c->count > 0 ? c->wrong / c->count : 0);
}

TP_DEF tp_inferencer *tp_inf_classification_error_(const tp_inf_classification_error_desc *d)
{
    tp__class_error *c = (tp__class_error *)(void *)tp_inferencer_new("ClassificationError", sizeof *c);
    if (!c) return NULL;
    c->base.fetch[c->base.n_fetch++] = d->wrong_tensor_name ? d->wrong_tensor_name : "incorrect_vector";
    c->summary = d->summary_name ? d->summary_name : "validation_error";
    c->base.before_inference = tp__class_error_before;
    c->base.on_fetches = tp__class_error_on;
    c->base.after_inference = tp__class_error_after;
    return &c->base;
}

typedef struct tp__binary {
    tp_inferencer base;
    const char *prefix;
    double pos, pred_pos, correct_pos;
} tp__binary;

static tp_status tp__binary_before(tp_inferencer *i)
{
    tp__binary *b = (tp__binary *)(void *)i;
    b->pos = b->pred_pos = b->correct_pos = 0;
    return TP_OK;
}

static tp_status tp__binary_on(tp_inferencer *i, const tp_tensor *const *value, int n)
{
    tp__binary *b = (tp__binary *)(void *)i;
    (void)n;
    if (!tp_shape_equal(&value[0]->shape, &value[1]->shape)) return tp_fail(TP_ERR_SHAPE, "BinaryClassificationStats: '%s' and '%s' differ in shape", i->fetch[0], i->fetch[1]);
    for (int64_t k = 0; k < tp_tensor_size(value[0]); k++) {
        const double pred = tp_tensor_get(value[0], k), label = tp_tensor_get(value[1], k);
        b->pos += label == 1;
        b->pred_pos += pred == 1;
        b->correct_pos += pred == 1 && label == 1;
    }
    return TP_OK;
}

static tp_status tp__binary_after(tp_inferencer *i, tp_monitors *m)
{
    const tp__binary *b = (const tp__binary *)(const void *)i;
    char name[300];
    snprintf(name, sizeof name, "%s_precision", b->prefix);
    tp_status st = tp_put_scalar(m, name, b->pred_pos > 0 ? b->correct_pos / b->pred_pos : 0);
    snprintf(name, sizeof name, "%s_recall", b->prefix);
    if (st == TP_OK) st = tp_put_scalar(m, name, b->pos > 0 ? b->correct_pos / b->pos : 0);
    return st;
}

TP_DEF tp_inferencer *tp_inf_binary_classification(const char *pred, const char *label, const char *prefix)
{
    tp__binary *b = (tp__binary *)(void *)tp_inferencer_new("BinaryClassificationStats", sizeof *b);
    if (!b) return NULL;
    b->base.fetch[0] = pred;
    b->base.fetch[1] = label;
    b->base.n_fetch = 2;
    b->prefix = prefix ? prefix : "val";
    b->base.before_inference = tp__binary_before;
    b->base.on_fetches = tp__binary_on;
    b->base.after_inference = tp__binary_after;
    return &b->base;
}

/* -- the runner */

typedef struct tp__inference {
    tp_callback base;
    tp_input_source *input;
    tp_inferencer *inf[TP_CB_MAX_NAMES];
    int n_inf;
    const char *tower_name;
    tp_tower_func *tower_func;
    tp_node **fetch; /* of all inferencers, in order */
    int n_fetch;
    const tp_tensor **value;
    tp_hook *extra[TP_CB_MAX_NAMES];
    int n_extra;
    tp_hooked_session *hooked;
    int64_t size;
} tp__inference;

static tp_status tp__inference_setup(tp_callback *cb)
{
    tp__inference *r = (tp__inference *)(void *)cb;
    tp_train_state *t = cb->train;
    tp_graph *g = t->graph;
    int n_spec = 0;
    tp_tower_func *f = r->tower_func ? r->tower_func : t->tower_func;
    if (!f) return tp_fail(TP_ERR_STATE, "InferenceRunner needs a tower function: its trainer has none");
    if (!r->input) return tp_fail(TP_ERR_ARG, "InferenceRunner needs .dataflow or .input");
    const tp_spec *spec = tp_tower_func_signature(f, &n_spec);
    tp_status st = tp_input_setup(r->input, g, spec, n_spec);
    if (st != TP_OK) return st;
    tp_node **in = (tp_node **)tp_calloc((size_t)n_spec + 1, sizeof *in);
    if (!in) return TP_ERR_NOMEM;
    tp_name_scope_push(g, "");
    st = tp_input_get_tensors(r->input, in);
    if (st == TP_OK) {
        tp_variable_scope_desc sd;
        tp_tower_desc td;
        memset(&sd, 0, sizeof sd);
        memset(&td, 0, sizeof td);
        sd.reuse = TP_REUSE_YES;
        td.name = r->tower_name;
        tp_log(TP_LOG_INFO, "Building graph for predict tower '%s' ...", r->tower_name);
        tp_variable_scope_push(g, &sd);
        if (tp_tower_enter(g, &td)) {
            tp_tower_func_call(f, in);
            tp_tower_leave(g);
        }
        tp_variable_scope_pop(g);
    }
    tp_name_scope_pop(g);
    tp_free((void *)in);
    if (st == TP_OK && tp_graph_status(g) != TP_OK) st = tp_fail(tp_graph_status(g), "%s", tp_graph_error(g));
    if (st != TP_OK) return st;
    const tp_tower_handle *h = tp_tower_func_find(f, r->tower_name);
    int total = 0;
    for (int i = 0; i < r->n_inf; i++) total += r->inf[i]->n_fetch;
    r->fetch = (tp_node **)tp_calloc((size_t)total + 1, sizeof *r->fetch);
    r->value = (const tp_tensor **)tp_calloc((size_t)total + 1, sizeof *r->value);
    if (!r->fetch || !r->value) return TP_ERR_NOMEM;
    for (int i = 0; i < r->n_inf; i++)
        for (int k = 0; k < r->inf[i]->n_fetch; k++) {
            tp_node *n = h ? tp_tower_handle_get(h, r->inf[i]->fetch[k]) : NULL;
            if (!n) return tp_fail(TP_ERR_NAME, "%s: tensor '%s' is not in tower '%s'", r->inf[i]->name, r->inf[i]->fetch[k], r->tower_name);
            r->fetch[r->n_fetch++] = n;
        }
    r->size = tp_input_size(r->input);
    return TP_OK;
}

static tp_status tp__inference_before_train(tp_callback *cb)
{
    tp__inference *r = (tp__inference *)(void *)cb;
    int n = 0;
    tp_hook *const *hooks = tp_input_hooks(r->input, &n);
    tp_hook **all = (tp_hook **)tp_calloc((size_t)(n + r->n_extra) + 1, sizeof *all);
    if (!all) return TP_ERR_NOMEM;
    for (int i = 0; i < r->n_extra; i++) all[i] = r->extra[i];
    for (int i = 0; i < n; i++) all[r->n_extra + i] = hooks[i];
    r->hooked = tp_hooked_session_new(cb->train->session, all, n + r->n_extra);
    tp_status st = r->hooked ? TP_OK : TP_ERR_NOMEM;
    for (int i = 0; i < n + r->n_extra && st == TP_OK; i++)
        if (all[i]->after_create_session) st = all[i]->after_create_session(all[i], cb->train->session);
    tp_free((void *)all);
    if (st != TP_OK) return st;
    if (r->size > 0) tp_log(TP_LOG_INFO, "[InferenceRunner] Will eval %lld iterations", (long long)r->size);
    else tp_log(TP_LOG_WARN, "[InferenceRunner] Got an input of unknown size! It will be iterated until it ends.");
    return TP_OK;
}

static tp_status tp__inference_trigger(tp_callback *cb)
{
    tp__inference *r = (tp__inference *)(void *)cb;
    tp_status st = TP_OK;
    for (int i = 0; i < r->n_inf && st == TP_OK; i++)
        if (r->inf[i]->before_inference) st = r->inf[i]->before_inference(r->inf[i]);
    if (st == TP_OK) st = tp_input_reset_state(r->input);
    tp_exec_set_random_step(tp_hooked_session_exec(r->hooked), 0); /* every pass draws the same numbers */
    for (int64_t k = 0; st == TP_OK && (r->size <= 0 || k < r->size); k++) {
        st = tp_hooked_run(r->hooked, r->fetch, r->n_fetch, r->value);
        if (st == TP_END) {
            if (r->size > 0) return tp_fail(TP_ERR, "[InferenceRunner] the input stopped after %lld of %lld iterations", (long long)k, (long long)r->size);
            st = TP_OK;
            break;
        }
        int at = 0;
        for (int i = 0; i < r->n_inf && st == TP_OK; i++) {
            if (r->inf[i]->on_fetches) st = r->inf[i]->on_fetches(r->inf[i], r->value + at, r->inf[i]->n_fetch);
            at += r->inf[i]->n_fetch;
        }
    }
    for (int i = 0; i < r->n_inf && st == TP_OK; i++)
        if (r->inf[i]->after_inference) st = r->inf[i]->after_inference(r->inf[i], cb->train->monitors);
    return st;
}

static tp_status tp__inference_after_train(tp_callback *cb)
{
    tp__inference *r = (tp__inference *)(void *)cb;
    tp_hooked_session_free(r->hooked);
    r->hooked = NULL;
    return TP_OK;
}

static void tp__inference_free(tp_callback *cb)
{
    tp__inference *r = (tp__inference *)(void *)cb;
    tp_hooked_session_free(r->hooked);
    tp_input_free(r->input);
    for (int i = 0; i < r->n_inf; i++) {
        if (r->inf[i]->free) r->inf[i]->free(r->inf[i]);
        tp_free(r->inf[i]);
    }
    tp_free((void *)r->fetch);
    tp_free((void *)r->value);
}

TP_DEF tp_status tp_inference_runner_register_hook(tp_callback *runner, tp_hook *hook)
{
    tp__inference *r = (tp__inference *)(void *)runner;
    if (r->n_extra == TP_CB_MAX_NAMES || r->hooked) return tp_fail(TP_ERR_STATE, "an inference runner takes %d hooks, before training", TP_CB_MAX_NAMES);
    r->extra[r->n_extra++] = hook;
    return TP_OK;
}

TP_DEF tp_callback *tp_cb_inference_runner_(const tp_cb_inference_runner_desc *d)
{
    tp__inference *r = (tp__inference *)(void *)tp_callback_new("InferenceRunner", sizeof *r);
    tp_input_source *input = d->input;
    if (!input && d->dataflow) {
        tp_feed_input_desc fd;
        memset(&fd, 0, sizeof fd);
        fd.df = d->dataflow;
        fd.infinite = TP_NO;
        input = tp_feed_input_(&fd);
    } else if (d->dataflow) {
        tp_df_free(d->dataflow);
    }
    if (!r) {
        tp_input_free(input);
        for (int i = 0; i < TP_CB_MAX_NAMES && d->inferencers[i]; i++) {
            if (d->inferencers[i]->free) d->inferencers[i]->free(d->inferencers[i]);
            tp_free(d->inferencers[i]);
        }
        return NULL;
    }
    r->input = input;
    for (int i = 0; i < TP_CB_MAX_NAMES && d->inferencers[i]; i++) r->inf[r->n_inf++] = d->inferencers[i];
    r->tower_name = d->tower_name ? d->tower_name : "InferenceTower";
    r->tower_func = d->tower_func;
    r->base.name_scope = "";
    r->base.setup_graph = tp__inference_setup;
    r->base.before_train = tp__inference_before_train;
    r->base.trigger = tp__inference_trigger;
    r->base.after_train = tp__inference_after_train;
    r->base.free = tp__inference_free;
    return &r->base;
}

/* ==== >>parameters ==================================================================================== */

static tp_status tp__param_var_setup(tp_param *p, tp_train_state *t)
{
    p->train = t;
    p->variable = tp_find_variable(t->graph, p->name);
    return p->variable ? TP_OK : tp_fail(TP_ERR_NAME, "%s:0 is not a variable in the graph!", p->name);
}

static tp_status tp__param_var_get(tp_param *p, double *value)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    const tp_status st = tp_session_read(p->train->session, p->variable, &t);
    if (st == TP_OK) *value = tp_tensor_get(&t, 0);
    tp_tensor_free(&t);
    return st;
}

static tp_status tp__param_var_set(tp_param *p, double value)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    if (!tp_dtype_is_float(p->variable->dtype) && value != floor(value))
        return tp_fail(TP_ERR_DTYPE, "'%s' is %s: it cannot be set to %g", p->name, tp_dtype_name(p->variable->dtype), value);
    tp_status st = tp_tensor_resize(&t, p->variable->dtype, p->variable->shape);
    for (int64_t i = 0; st == TP_OK && i < tp_tensor_size(&t); i++) tp_tensor_set(&t, i, value);
    if (st == TP_OK) st = tp_session_load(p->train->session, p->variable, &t);
    tp_tensor_free(&t);
    return st;
}

TP_DEF tp_param tp_param_graph_var(const char *name)
{
    tp_param p;
    memset(&p, 0, sizeof p);
    p.name = name;
    p.setup_graph = tp__param_var_setup;
    p.get = tp__param_var_get;
    p.set = tp__param_var_set;
    return p;
}

static tp_status tp__param_field_get(tp_param *p, double *value)
{
    *value = *(double *)p->user;
    return TP_OK;
}
static tp_status tp__param_field_set(tp_param *p, double value)
{
    *(double *)p->user = value;
    return TP_OK;
}

TP_DEF tp_param tp_param_field(const char *name, double *field)
{
    tp_param p;
    memset(&p, 0, sizeof p);
    p.name = name;
    p.user = field;
    p.get = tp__param_field_get;
    p.set = tp__param_field_set;
    return p;
}

/* The base of all setters: `next` says the value to set now, *found false for none. */
typedef struct tp__setter {
    tp_callback base;
    tp_param param;
    tp_status (*next)(struct tp__setter *s, double *value, bool *found);
    double last;
    bool has_last;
    int64_t logged_epoch;
    tp_schedule_point point[TP_MAX_SCHEDULE];
    int n;
    bool linear, step_based, set_at_beginning;
    double (*fn)(int64_t, double, void *);
    void *user;
    const char *file_name;
    tp_cb_stat_monitor_param_setter_desc stat;
    double *window;
    int n_window;
    int64_t last_stat_step;
} tp__setter;

static tp_status tp__setter_setup(tp_callback *cb)
{
    tp__setter *s = (tp__setter *)(void *)cb;
    s->param.train = cb->train;
    return s->param.setup_graph ? s->param.setup_graph(&s->param, cb->train) : TP_OK;
}

static tp_status tp__setter_trigger(tp_callback *cb)
{
    tp__setter *s = (tp__setter *)(void *)cb;
    double value = 0;
    bool found = false;
    tp_status st = s->next(s, &value, &found);
    if (st != TP_OK || !found) return st;
    if (s->logged_epoch != cb->train->epoch_num && (!s->has_last || s->last != value)) {
        if (s->has_last) tp_log(TP_LOG_INFO, "[%s] At global_step=%lld, %s changes from %.6f to %.6f", cb->name, (long long)cb->train->global_step, s->param.name, s->last, value);
        else tp_log(TP_LOG_INFO, "[%s] At global_step=%lld, %s is set to %.6f", cb->name, (long long)cb->train->global_step, s->param.name, value);
        s->logged_epoch = cb->train->epoch_num;
    }
    s->last = value;
    s->has_last = true;
    return s->param.set(&s->param, value);
}

static void tp__setter_free(tp_callback *cb) { tp_free(((tp__setter *)(void *)cb)->window); }

static tp__setter *tp__setter_new(const char *name, const tp_param *param, tp_status (*next)(tp__setter *, double *, bool *))
{
    tp__setter *s = (tp__setter *)(void *)tp_callback_new(name, sizeof *s);
    if (!s) return NULL;
    s->param = param->get ? *param : tp_param_graph_var(param->name ? param->name : "learning_rate");
    s->next = next;
    s->logged_epoch = -1;
    s->last_stat_step = -1;
    s->base.chief_only = TP_NO;
    s->base.setup_graph = tp__setter_setup;
    s->base.before_train = tp__setter_trigger;
    s->base.trigger = tp__setter_trigger;
    s->base.free = tp__setter_free;
    return s;
}

/* -- scheduled */

static bool tp__schedule_at(const tp__setter *s, int64_t p, double *value)
{
    int after = 0;
    while (after < s->n && s->point[after].at < p) after++;
    if (after < s->n && s->point[after].at == p) {
        *value = s->point[after].value;
        return true;
    }
    if (!s->linear || after == 0 || after == s->n) return false;
    const tp_schedule_point a = s->point[after - 1], b = s->point[after];
    *value = (double)(p - a.at) / (double)(b.at - a.at) * (b.value - a.value) + a.value;
    return true;
}

static int64_t tp__schedule_now(const tp__setter *s) { return s->step_based ? s->base.train->global_step : s->base.train->epoch_num; }

static tp_status tp__schedule_next(tp__setter *s, double *value, bool *found)
{
    *found = tp__schedule_at(s, tp__schedule_now(s), value);
    return TP_OK;
}

/* What the schedule would have left behind by now; an explicit answer, so that a scheduled 0 counts too. */
static bool tp__schedule_replay(const tp__setter *s, int64_t now, double *value)
{
    if (s->n == 0 || s->point[0].at > now) return false;
    if (tp__schedule_at(s, now, value)) return true;
    for (int i = s->n - 1; i >= 0; i--)
        if (s->point[i].at <= now) {
            *value = s->point[i].value;
            return true;
        }
    return false;
}

static tp_status tp__schedule_before_train(tp_callback *cb)
{
    tp__setter *s = (tp__setter *)(void *)cb;
    double actual = 0, value = 0;
    tp_status st = tp__setter_trigger(cb);
    if (st != TP_OK) return st;
    if ((st = s->param.get(&s->param, &actual)) != TP_OK) return st;
    if (!tp__schedule_replay(s, tp__schedule_now(s), &value)) return TP_OK;
    if (fabs(value - actual) <= 1e-8 + 1e-5 * fabs(actual)) return TP_OK;
    tp_log(TP_LOG_WARN, "According to the schedule of %s, its value should be %g at %s %lld, but it is %g.%s", s->param.name, value,
           s->step_based ? "step" : "epoch", (long long)tp__schedule_now(s), actual, s->set_at_beginning ? " It is set now." : "");
    if (!s->set_at_beginning) return TP_OK;
    s->last = value;
    s->has_last = true;
    return s->param.set(&s->param, value);
}

static tp_status tp__nothing(tp_callback *cb)
{
    (void)cb;
    return TP_OK;
}

static int tp__by_at(const void *a, const void *b)
{
    const int64_t x = ((const tp_schedule_point *)a)->at, y = ((const tp_schedule_point *)b)->at;
    return x < y ? -1 : x > y;
}

TP_DEF tp_callback *tp_cb_scheduled_hyper_param_setter_(const tp_cb_scheduled_hyper_param_setter_desc *d)
{
    tp__setter *s = tp__setter_new("ScheduledHyperParamSetter", &d->param, tp__schedule_next);
    if (!s) return NULL;
    s->n = d->n;
    for (int i = 0; d->n <= 0 && i < TP_MAX_SCHEDULE; i++)
        if (d->schedule[i].at != 0 || d->schedule[i].value != 0) s->n = i + 1;
    if (s->n > TP_MAX_SCHEDULE) s->n = TP_MAX_SCHEDULE;
    for (int i = 0; i < s->n; i++) s->point[i] = d->schedule[i];
    qsort(s->point, (size_t)s->n, sizeof s->point[0], tp__by_at);
    s->linear = d->linear == TP_YES;
    s->step_based = d->step_based == TP_YES;
    s->set_at_beginning = d->set_at_beginning != TP_NO;
    s->base.before_train = tp__schedule_before_train;
    if (s->step_based) {
        s->base.trigger_step = tp__setter_trigger;
        s->base.trigger_epoch = tp__nothing;
    }
    return &s->base;
}

static tp_status tp__with_func_next(tp__setter *s, double *value, bool *found)
{
    double now = 0;
    const tp_status st = s->param.get(&s->param, &now);
    if (st != TP_OK) return st;
    *value = s->fn(s->base.train->epoch_num, now, s->user);
    *found = true;
    return TP_OK;
}

TP_DEF tp_callback *tp_cb_hyper_param_setter_with_func(tp_param param, double (*fn)(int64_t epoch, double value, void *user), void *user)
{
    tp__setter *s = tp__setter_new("HyperParamSetterWithFunc", &param, tp__with_func_next);
    if (!s) return NULL;
    s->fn = fn;
    s->user = user;
    return &s->base;
}

static tp_status tp__human_next(tp__setter *s, double *value, bool *found)
{
    char path[1100], *text = NULL;
    size_t n = 0;
    if (!tp_logger_dir()) return tp_fail(TP_ERR_STATE, "HumanHyperParamSetter needs a logger directory: tp_logger_set_dir first");
    tp_status st = tp__file_in(path, sizeof path, tp_logger_dir(), s->file_name);
    if (st != TP_OK || !tp_file_exists(path)) return st;
    st = tp_file_read(path, false, 1 << 20, &text, &n);
    if (st != TP_OK) return st;
    bool good = true, here = false;
    for (char *line = text, *next = NULL; good && line && *line; line = next) { /* every line must be name:number */
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        while (*line == ' ' || *line == '\t') line++;
        size_t len = strlen(line);
        while (len && strchr(" \t\r", line[len - 1])) line[--len] = 0;
        char *colon = strchr(line, ':'), *end = NULL;
        if (!colon || strchr(colon + 1, ':')) {
            good = false;
            break;
        }
        *colon = 0;
        const double v = strtod(colon + 1, &end);
        if (end == colon + 1 || *end) good = false;
        else if (strcmp(line, s->param.name) == 0) {
            *value = v;
            here = true;
        }
    }
    tp_free(text);
    *found = good && here;
    if (!*found) tp_log(TP_LOG_WARN, "Cannot find %s in %s", s->param.name, path);
    return TP_OK;
}

TP_DEF tp_callback *tp_cb_human_hyper_param_setter(tp_param param, const char *file_name)
{
    tp__setter *s = tp__setter_new("HumanHyperParamSetter", &param, tp__human_next);
    if (!s) return NULL;
    s->file_name = file_name ? file_name : "hyper.txt";
    return &s->base;
}

static tp_status tp__stat_next(tp__setter *s, double *value, bool *found)
{
    int n = 0;
    const tp_stat *h = tp_get_history(s->base.train->monitors, s->stat.stat_name, &n);
    if (n == 0) {
        tp_log(TP_LOG_WARN, "[StatMonitorParamSetter] No data of '%s' yet", s->stat.stat_name);
        return TP_OK;
    }
    if (h[n - 1].global_step == s->last_stat_step) {
        tp_log(TP_LOG_WARN, "[StatMonitorParamSetter] No new data of '%s'", s->stat.stat_name);
        return TP_OK;
    }
    s->last_stat_step = h[n - 1].global_step;
    if (s->n_window == s->stat.last_k) memmove(s->window, s->window + 1, (size_t)(--s->n_window) * sizeof(double));
    s->window[s->n_window++] = h[n - 1].value;
    if (s->n_window < s->stat.last_k) return TP_OK;
    double best = s->window[0];
    for (int i = 1; i < s->n_window; i++)
        if (s->stat.reverse == TP_YES ? s->window[i] > best : s->window[i] < best) best = s->window[i];
    if (s->stat.reverse == TP_YES ? best > s->window[0] + s->stat.threshold : best < s->window[0] - s->stat.threshold) return TP_OK;
    s->n_window = 0;
    tp_status st = s->param.get(&s->param, value);
    if (st == TP_OK) st = s->stat.value_fn(value, s->stat.user);
    *found = st == TP_OK;
    return st;
}

TP_DEF tp_callback *tp_cb_stat_monitor_param_setter_(const tp_cb_stat_monitor_param_setter_desc *d)
{
    tp__setter *s = tp__setter_new("StatMonitorParamSetter", &d->param, tp__stat_next);
    if (!s) return NULL;
    s->stat = *d;
    if (s->stat.last_k < 1) s->stat.last_k = 1;
    s->window = (double *)tp_calloc((size_t)s->stat.last_k + 1, sizeof(double));
    s->base.before_train = NULL;
    if (!s->window) {
        tp_callback_free(&s->base);
        return NULL;
    }
    return &s->base;
}

/* ==== >>savers ======================================================================================== */

typedef struct tp__saved {
    char name[64];
    double time;
} tp__saved;

typedef struct tp__saver {
    tp_callback base;
    tp_cb_model_saver_desc d;
    char dir[900];
    tp__saved *kept;
    int n_kept, cap_kept, max_to_keep;
    double next_keep, hours;
    tp_variable **var;
    int n_var;
} tp__saver;

static tp_status tp__saver_dir(const char *given, char *dir, size_t size, const char *who)
{
    const char *d = given ? given : tp_logger_dir();
    if (!d) return tp_fail(TP_ERR_STATE, "%s needs a directory: call tp_logger_set_dir first, or give .checkpoint_dir", who);
    if (strlen(d) + 1 > size) return tp_fail(TP_ERR_ARG, "%s: the path '%s' is too long", who, d);
    memcpy(dir, d, strlen(d) + 1);
    return TP_OK;
}

static tp_status tp__saver_setup(tp_callback *cb)
{
    tp__saver *s = (tp__saver *)(void *)cb;
    const tp_status st = tp__saver_dir(s->d.checkpoint_dir, s->dir, sizeof s->dir, "ModelSaver");
    return st == TP_OK ? tp_make_dirs(s->dir) : st;
}

/* The variables of the collections, each once. */
static tp_status tp__saver_before_train(tp_callback *cb)
{
    tp__saver *s = (tp__saver *)(void *)cb;
    const int n_all = tp_graph_n_variables(cb->train->graph);
    tp_free((void *)s->var);
    s->n_var = 0;
    s->var = (tp_variable **)tp_calloc((size_t)n_all + 1, sizeof *s->var);
    if (!s->var) return TP_ERR_NOMEM;
    for (int k = 0; k < TP_CB_MAX_NAMES && (k == 0 || s->d.var_collections[k]); k++) {
        int n = 0;
        tp_node *const *node = tp_collection(cb->train->graph, s->d.var_collections[k] ? s->d.var_collections[k] : TP_KEY_GLOBAL_VARIABLES, &n);
        for (int i = 0; i < n; i++) {
            tp_variable *v = tp_node_variable(node[i]);
            bool have = !v;
            for (int q = 0; q < s->n_var && !have; q++) have = s->var[q] == v;
            if (!have) s->var[s->n_var++] = v;
        }
    }
    s->next_keep = tp_time() + s->hours * 3600;
    return TP_OK;
}

static tp_status tp__state_put_i64(tp_dict *d, const char *name, int64_t value)
{
    tp_shape scalar;
    memset(&scalar, 0, sizeof scalar);
    tp_tensor *t = tp_dict_add(d, name);
    if (!t) return TP_ERR_NOMEM;
    const tp_status st = tp_tensor_resize(t, TP_I64, scalar);
    if (st == TP_OK) *(int64_t *)t->data = value;
    return st;
}

/* What the variables do not hold: random step, place in the stream of data, state of callbacks. */
static tp_status tp__saver_collect(const tp_train_state *t)
{
    tp_dict *d = tp_session_state(t->session);
    tp_status st = tp__state_put_i64(d, "tp:epoch_num", t->epoch_num);
    if (st == TP_OK && t->hooked) st = tp__state_put_i64(d, "tp:random_step", (int64_t)tp_exec_random_step(tp_hooked_session_exec(t->hooked)));
    if (st == TP_OK && t->input) st = tp__state_put_i64(d, "tp:input/consumed", t->input->consumed);
    for (int i = 0; i < t->n_callback && st == TP_OK; i++) {
        if (!t->callback[i]->save_state) continue;
        tp_dict own;
        memset(&own, 0, sizeof own);
        st = t->callback[i]->save_state(t->callback[i], &own);
        for (int k = 0; k < own.n && st == TP_OK; k++) {
            char name[512];
            snprintf(name, sizeof name, "tp:callback/%d/%s/%s", i, t->callback[i]->name, own.item[k].name);
            tp_tensor *x = tp_dict_add(d, name);
            st = x ? tp_tensor_copy(x, &own.item[k].value) : TP_ERR_NOMEM;
        }
        tp_dict_free(&own);
    }
    return st;
}

static tp_status tp__saver_trigger(tp_callback *cb)
{
    tp__saver *s = (tp__saver *)(void *)cb;
    char path[1000];
    tp__saved now;
    memset(&now, 0, sizeof now);
    snprintf(now.name, sizeof now.name, "model-%lld", (long long)cb->train->global_step);
    snprintf(path, sizeof path, "%s/%s.npz", s->dir, now.name);
    now.time = tp_time();
    tp_status st = tp__saver_collect(cb->train);
    if (st == TP_OK) st = tp_save_checkpoint(cb->train->session, path, s->var, s->n_var);
    if (st == TP_OK) {
        int at = 0;
        for (int i = 0; i < s->n_kept; i++) /* saving a step again replaces its entry */
            if (strcmp(s->kept[i].name, now.name) != 0) s->kept[at++] = s->kept[i];
        s->n_kept = at;
        if (s->n_kept == s->cap_kept) {
            const int cap = s->cap_kept ? s->cap_kept * 2 : 16;
            tp__saved *bigger = (tp__saved *)tp_realloc(s->kept, (size_t)cap * sizeof *bigger);
            if (!bigger) return TP_ERR_NOMEM;
            s->kept = bigger;
            s->cap_kept = cap;
        }
        s->kept[s->n_kept++] = now;
        char removed[64] = "";
        if (s->max_to_keep > 0 && s->n_kept > s->max_to_keep) {
            if (s->kept[0].time > s->next_keep) s->next_keep += s->hours * 3600; /* kept on disk for good */
            else snprintf(removed, sizeof removed, "%s", s->kept[0].name);
            memmove(s->kept, s->kept + 1, (size_t)(--s->n_kept) * sizeof *s->kept);
        }
        const char **names = (const char **)tp_calloc((size_t)s->n_kept, sizeof *names);
        if (!names) return TP_ERR_NOMEM;
        for (int i = 0; i < s->n_kept; i++) names[i] = s->kept[i].name;
        st = tp_checkpoint_state_write(s->dir, names, s->n_kept);
        tp_free((void *)names);
        if (st == TP_OK && *removed) { /* only once the list no longer names it */
            snprintf(path, sizeof path, "%s/%s.npz", s->dir, removed);
            remove(path);
            snprintf(path, sizeof path, "%s/%s.npz", s->dir, now.name);
        }
    }
    if (st == TP_OK) tp_log(TP_LOG_INFO, "Model saved to %s.", path);
    else if (st == TP_ERR_IO) {
        tp_log(TP_LOG_ERROR, "The model could not be saved; training goes on, older checkpoints are intact: %s", tp_last_error());
        st = TP_OK;
    }
    return st;
}

static void tp__saver_free(tp_callback *cb)
{
    tp__saver *s = (tp__saver *)(void *)cb;
    tp_free(s->kept);
    tp_free((void *)s->var);
}

TP_DEF tp_callback *tp_cb_model_saver_(const tp_cb_model_saver_desc *d)
{
    tp__saver *s = (tp__saver *)(void *)tp_callback_new("ModelSaver", sizeof *s);
    if (!s) return NULL;
    s->d = *d;
    s->max_to_keep = d->max_to_keep == 0 ? 10 : d->max_to_keep < 0 ? 0 : d->max_to_keep;
    s->hours = d->keep_checkpoint_every_n_hours > 0 ? d->keep_checkpoint_every_n_hours : 0.5;
    s->base.setup_graph = tp__saver_setup;
    s->base.before_train = tp__saver_before_train;
    s->base.trigger = tp__saver_trigger;
    s->base.free = tp__saver_free;
    return &s->base;
}

typedef struct tp__best {
    tp_callback base;
    tp_cb_best_saver_desc d;
    char dir[900];
    bool reverse, has_best;
    double best;
    int64_t best_step;
} tp__best;

static tp_status tp__best_setup(tp_callback *cb)
{
    tp__best *b = (tp__best *)(void *)cb;
    if (!b->d.monitor_stat) return tp_fail(TP_ERR_ARG, "%s needs the name of a statistic", cb->name);
    return tp__saver_dir(b->d.checkpoint_dir, b->dir, sizeof b->dir, cb->name);
}

static tp_status tp__copy_file(const char *from, const char *to)
{
    char *data = NULL;
    size_t n = 0;
    tp_writer *w = NULL;
    tp_status st = tp_file_read(from, false, 0, &data, &n);
    if (st == TP_OK) st = tp_writer_open(&w, to);
    if (st == TP_OK && (st = tp_writer_put(w, data, n)) != TP_OK) tp_writer_abort(w);
    else if (st == TP_OK) st = tp_writer_commit(w);
    tp_free(data);
    return st;
}

static tp_status tp__best_trigger(tp_callback *cb)
{
    tp__best *b = (tp__best *)(void *)cb;
    int n = 0;
    char latest[1000], from[1100], to[1300], want[64];
    const tp_stat *h = tp_get_history(cb->train->monitors, b->d.monitor_stat, &n);
    if (n == 0) return TP_OK;
    const double v = h[n - 1].value;
    if (b->has_best && !(b->reverse ? v > b->best : v < b->best)) return TP_OK;
    b->has_best = true;
    b->best = v;
    b->best_step = h[n - 1].global_step;
    tp_status st = tp_checkpoint_state_latest(b->dir, latest, sizeof latest);
    if (st != TP_OK) return tp_fail(TP_ERR_STATE, "%s finds no checkpoint in '%s'. Do you forget to use ModelSaver?", cb->name, b->dir);
    snprintf(want, sizeof want, "model-%lld", (long long)b->best_step);
    const char *base = strrchr(latest, '/');
    if (strcmp(base ? base + 1 : latest, want) != 0) { /* the exact step, not one that ends with the same digits */
        tp_log(TP_LOG_WARN, "%s: the newest checkpoint is %s, but the best %s is of step %lld: nothing is copied.", cb->name, latest, b->d.monitor_stat, (long long)b->best_step);
        tp_log(TP_LOG_WARN, "%s must stand after ModelSaver and after what computes '%s', with the same period.", cb->name, b->d.monitor_stat);
        return TP_OK;
    }
    snprintf(from, sizeof from, "%s.npz", latest);
    if (b->d.filename) snprintf(to, sizeof to, "%s/%.300s.npz", b->dir, b->d.filename);
    else snprintf(to, sizeof to, "%s/%s-%.300s.npz", b->dir, b->reverse ? "max" : "min", b->d.monitor_stat);
    for (char *p = to + strlen(b->dir) + 1; *p; p++)
        if (*p == '/') *p = '_'; /* a statistic's name is no path */
    st = tp__copy_file(from, to);
    if (st == TP_OK) tp_log(TP_LOG_INFO, "Model at global_step=%lld with %s %s=%.5g saved.", (long long)b->best_step, b->reverse ? "maximum" : "minimum", b->d.monitor_stat, v);
    else if (st == TP_ERR_IO) {
        tp_log(TP_LOG_ERROR, "%s: %s", cb->name, tp_last_error());
        st = TP_OK;
    }
    return st;
}

TP_DEF tp_callback *tp_cb_min_saver_(const tp_cb_best_saver_desc *d)
{
    tp__best *b = (tp__best *)(void *)tp_callback_new(d->reverse == TP_YES ? "MaxSaver" : "MinSaver", sizeof *b);
    if (!b) return NULL;
    b->d = *d;
    b->reverse = d->reverse == TP_YES;
    b->base.setup_graph = tp__best_setup;
    b->base.trigger = tp__best_trigger;
    return &b->base;
}

TP_DEF tp_callback *tp_cb_max_saver_(const tp_cb_best_saver_desc *d)
{
    tp_cb_best_saver_desc r = *d;
    r.reverse = TP_YES;
    return tp_cb_min_saver_(&r);
}

/* ==== >>encoders ====================================================================================== */
/* The formats that monitors write: TensorBoard's event records (protobuf inside TFRecord framing), PNG, JSON. */

/* -- protobuf: a field is a varint (number << 3 | wire type) and its value */

static void tp__pb_varint(tp_buf *b, uint64_t v)
{
    unsigned char c[10];
    size_t n = 0;
    do {
        c[n] = (unsigned char)((v & 127u) | (v > 127u ? 128u : 0u));
        n++;
        v >>= 7;
    } while (v);
    tp_buf_put(b, c, n);
}

static void tp__pb_tag(tp_buf *b, unsigned field, unsigned wire) { tp__pb_varint(b, field << 3 | wire); }

static void tp__pb_int(tp_buf *b, unsigned field, int64_t v)
{
    if (v == 0) return; /* proto3 leaves zeros out */
    tp__pb_tag(b, field, 0);
    tp__pb_varint(b, (uint64_t)v);
}

static void tp__pb_raw_double(tp_buf *b, double v)
{
    uint64_t u;
    unsigned char c[8];
    memcpy(&u, &v, 8);
    for (int i = 0; i < 8; i++) c[i] = (unsigned char)(u >> (8 * i));
    tp_buf_put(b, c, 8);
}

static void tp__pb_double(tp_buf *b, unsigned field, double v)
{
    tp__pb_tag(b, field, 1);
    tp__pb_raw_double(b, v);
}

static void tp__pb_float(tp_buf *b, unsigned field, float v)
{
    uint32_t u;
    unsigned char c[4];
    memcpy(&u, &v, 4);
    for (int i = 0; i < 4; i++) c[i] = (unsigned char)(u >> (8 * i));
    tp__pb_tag(b, field, 5);
    tp_buf_put(b, c, 4);
}

static void tp__pb_bytes(tp_buf *b, unsigned field, const void *p, size_t n)
{
    tp__pb_tag(b, field, 2);
    tp__pb_varint(b, n);
    tp_buf_put(b, p, n);
}

/* -- TFRecord: length, its masked CRC-32C, data, their masked CRC-32C */

static uint32_t tp__crc_mask(uint32_t c) { return ((c >> 15) | (c << 17)) + 0xa282ead8u; }

static void tp__put_u32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (unsigned char)(v >> (8 * i));
}

/* Appends one record to `out`. [formats of TensorBoard: record framing] */
static void tp__tfrecord(tp_buf *out, const void *data, size_t n)
{
    unsigned char head[12], tail[4];
    for (int i = 0; i < 8; i++) head[i] = (unsigned char)((uint64_t)n >> (8 * i));
    tp__put_u32(head + 8, tp__crc_mask(tp_crc32c(0, head, 8)));
    tp_buf_put(out, head, 12);
    tp_buf_put(out, data, n);
    tp__put_u32(tail, tp__crc_mask(tp_crc32c(0, data, n)));
    tp_buf_put(out, tail, 4);
}

/* Event{wall_time=1, step=2, file_version=3 | summary=5 | session_log=7}; `payload` NULL for none. */
static void tp__event(tp_buf *out, double wall_time, int64_t step, unsigned field, const void *payload, size_t n)
{
    tp_buf e;
    memset(&e, 0, sizeof e);
    tp__pb_double(&e, 1, wall_time);
    tp__pb_int(&e, 2, step);
    if (payload) tp__pb_bytes(&e, field, payload, n);
    if (e.failed) out->failed = true;
    else tp__tfrecord(out, e.data, e.len);
    tp_buf_free(&e);
}

/* Summary{value=1{tag=1, simple_value=2}} appended to `summary` */
static void tp__summary_scalar(tp_buf *summary, const char *tag, float v)
{
    tp_buf value;
    memset(&value, 0, sizeof value);
    tp__pb_bytes(&value, 1, tag, strlen(tag));
    tp__pb_float(&value, 2, v);
    if (value.failed) summary->failed = true;
    else tp__pb_bytes(summary, 1, value.data, value.len);
    tp_buf_free(&value);
}

/* HistogramProto{min max num sum sum_squares = 1..5, bucket_limit=6, bucket=7} over TensorFlow's buckets: limits grow by
 * a tenth from 1e-12 to 1e20 on both sides of zero; runs of empty buckets are merged. NaN and infinities are left out. */
static void tp__summary_histogram(tp_buf *summary, const char *tag, const tp_tensor *t)
{
    enum { HALF = 774, N = 2 * HALF + 3 };
    double *limit = (double *)tp_malloc(N * sizeof *limit), *count = (double *)tp_calloc(N, sizeof *count);
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
        double v = 1e-12, low = DBL_MAX, high = -DBL_MAX, num = 0, sum = 0, squares = 0;
        for (int i = 0; i < HALF; i++, v *= 1.1) {
            limit[HALF + 2 + i] = v;
            limit[HALF - i] = -v;
        }
        limit[HALF + 1] = 0.0;
        limit[0] = -DBL_MAX;
        /* positions: 0 is -DBL_MAX, 1..HALF the negatives ascending, HALF+1 zero, then the positives, the last DBL_MAX */
        limit[N - 1] = DBL_MAX;
        const int64_t n = tp_tensor_size(t);
        for (int64_t i = 0; i < n; i++) {
            const double x = tp_tensor_get(t, i);
            if (!(x >= -DBL_MAX && x <= DBL_MAX)) continue;
            int a = 0, b = N - 1; /* first limit above x */
            while (a < b) {
                const int m = (a + b) / 2;
                if (limit[m] > x) b = m;
                else a = m + 1;
            }
            count[a] += 1;
            num += 1;
            sum += x;
            squares += x * x;
            if (x < low) low = x;
            if (x > high) high = x;
        }
        for (int i = 0; i < N;) {
            double end = limit[i], c = count[i++];
            if (c <= 0)
                while (i < N && count[i] <= 0) end = limit[i++];
            tp__pb_raw_double(&limits, end);
            tp__pb_raw_double(&counts, c);
        }
        tp__pb_double(&h, 1, low);
        tp__pb_double(&h, 2, high);
        tp__pb_double(&h, 3, num);
        tp__pb_double(&h, 4, sum);
        tp__pb_double(&h, 5, squares);
        tp__pb_bytes(&h, 6, limits.data, limits.len);
        tp__pb_bytes(&h, 7, counts.data, counts.len);
        tp__pb_bytes(&value, 1, tag, strlen(tag));
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

/* -- PNG: 8 bits a channel, channels 1 (grey), 3 (RGB) or 4 (RGBA); rows are stored as they are (filter 0) and deflated */

static void tp__png_chunk(tp_buf *out, const char *type, const void *data, size_t n)
{
    unsigned char w[4];
    const uint32_t size = (uint32_t)n;
    for (int i = 0; i < 4; i++) w[i] = (unsigned char)(size >> (24 - 8 * i));
    tp_buf_put(out, w, 4);
    tp_buf_put(out, type, 4);
    if (n) tp_buf_put(out, data, n);
    uint32_t crc = tp_crc32(0, type, 4);
    if (n) crc = tp_crc32(crc, data, n);
    for (int i = 0; i < 4; i++) w[i] = (unsigned char)(crc >> (24 - 8 * i));
    tp_buf_put(out, w, 4);
}

static void tp__png(tp_buf *out, const unsigned char *pixels, int64_t height, int64_t width, int64_t channels)
{
    static const unsigned char signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    unsigned char head[13] = {0};
    tp_buf raw, zlib;
    memset(&raw, 0, sizeof raw);
    memset(&zlib, 0, sizeof zlib);
    for (int i = 0; i < 4; i++) {
        head[i] = (unsigned char)((uint64_t)width >> (24 - 8 * i));
        head[4 + i] = (unsigned char)((uint64_t)height >> (24 - 8 * i));
    }
    head[8] = 8;
    head[9] = channels == 4 ? 6 : channels == 3 ? 2 : 0;
    uint32_t a = 1, b = 0; /* Adler-32 of what is deflated */
    for (int64_t y = 0; y < height; y++) {
        tp_buf_put(&raw, "", 1);
        tp_buf_put(&raw, pixels + y * width * channels, (size_t)(width * channels));
    }
    for (size_t i = 0; i < raw.len; i++) {
        a = (a + (unsigned char)raw.data[i]) % 65521u;
        b = (b + a) % 65521u;
    }
    tp_buf_put(&zlib, "\x78\x01", 2);
    if (raw.failed || tp_deflate(raw.data, raw.len, &zlib) != TP_OK) zlib.failed = true;
    const uint32_t adler = b << 16 | a;
    for (int i = 0; i < 4; i++) {
        const unsigned char c = (unsigned char)(adler >> (24 - 8 * i));
        tp_buf_put(&zlib, &c, 1);
    }
    tp_buf_put(out, signature, 8);
    tp__png_chunk(out, "IHDR", head, 13);
    if (zlib.failed) out->failed = true;
    else tp__png_chunk(out, "IDAT", zlib.data, zlib.len);
    tp__png_chunk(out, "IEND", NULL, 0);
    tp_buf_free(&raw);
    tp_buf_free(&zlib);
}

/* How a tensor is a list of images: NHWC; HWC with 1, 3 or 4 channels is one; else NHW in grey; HW is one. */
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
        return tp_fail(TP_ERR_SHAPE, "an image summary has shape %s: (N,H,W,C), (H,W,C), (N,H,W) or (H,W) is needed", tp_shape_text(s, text));
    }
    if (nhwc[3] != 1 && nhwc[3] != 3 && nhwc[3] != 4)
        return tp_fail(TP_ERR_SHAPE, "an image summary has %lld channels: 1, 3 or 4 are possible", (long long)nhwc[3]);
    return TP_OK;
}

/* Image{height=1, width=2, colorspace=3, encoded=4} for each image; tags are `tag` for one, tag/0, tag/1, ... for more. */
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
        tp__pb_int(&image, 1, s[1]);
        tp__pb_int(&image, 2, s[2]);
        tp__pb_int(&image, 3, s[3]);
        tp__pb_bytes(&image, 4, png.data, png.len);
        if (s[0] == 1) snprintf(name, sizeof name, "%s", tag);
        else snprintf(name, sizeof name, "%s/%lld", tag, (long long)n);
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

/* -- JSON: numbers as Python prints them, and a reader that checks a whole text and finds what stats.json needs */

/* The shortest text that reads back as v, in Python's form: 1.0, 0.1, 1e-07, 1e+16, NaN, Infinity. */
static void tp__json_double(tp_buf *b, double v)
{
    char e[40], digits[24];
    if (v != v) {
        tp_buf_printf(b, "NaN");
        return;
    }
    if (v > DBL_MAX || v < -DBL_MAX) {
        tp_buf_printf(b, v > 0 ? "Infinity" : "-Infinity");
        return;
    }
    int precision = 0;
    for (; precision < 17; precision++) {
        snprintf(e, sizeof e, "%.*e", precision, v);
        if (strtod(e, NULL) == v) break;
    }
    const char *p = e;
    int n = 0;
    if (*p == '-') {
        tp_buf_printf(b, "-");
        p++;
    }
    for (; *p && *p != 'e'; p++)
        if (*p >= '0' && *p <= '9') digits[n++] = *p;
    digits[n] = 0;
    const int exponent = *p == 'e' ? atoi(p + 1) : 0;
    if (exponent < -4 || exponent >= 16) {
        tp_buf_printf(b, n > 1 ? "%c.%se%c%02d" : "%c%se%c%02d", digits[0], digits + 1, exponent < 0 ? '-' : '+', exponent < 0 ? -exponent : exponent);
    } else if (exponent < 0) {
        tp_buf_printf(b, "0.%.*s%s", -exponent - 1, "0000", digits);
    } else {
        for (int i = 0; i <= exponent || i < n; i++) {
            if (i == exponent + 1) tp_buf_printf(b, ".");
            tp_buf_printf(b, "%c", i < n ? digits[i] : '0');
        }
        if (n <= exponent + 1) tp_buf_printf(b, ".0");
    }
}

static void tp__json_string(tp_buf *b, const char *s)
{
    tp_buf_printf(b, "\"");
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') tp_buf_printf(b, "\\%c", c);
        else if (c < 32) tp_buf_printf(b, "\\u%04x", (unsigned)c);
        else tp_buf_put(b, s, 1);
    }
    tp_buf_printf(b, "\"");
}

typedef struct tp__json {
    const char *p, *end;
    int depth;
    double number;          /* of the last number read */
    bool has_epoch;         /* in the last object of the outermost array */
    double epoch;
    int n_record;
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

/* A string; its first bytes, unescaped only so far as keys need it, go to buf. */
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

static bool tp__json_value(tp__json *j)
{
    char key[64];
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
            if (!tp__json_value(j)) return false;
            if (record && strcmp(key, "epoch_num") == 0) {
                j->has_epoch = true;
                j->epoch = j->number;
            }
            tp__json_space(j);
            if (j->p < j->end && *j->p == ',') {
                j->p++;
                continue;
            }
            if (j->p >= j->end || *j->p != close) return false;
            j->p++;
            j->depth--;
            return true;
        }
    }
    if (tp__json_word(j, "true") || tp__json_word(j, "false") || tp__json_word(j, "null") || tp__json_word(j, "NaN") || tp__json_word(j, "Infinity") ||
        tp__json_word(j, "-Infinity"))
        return true;
    char number[64];
    size_t n = 0;
    while (j->p + n < j->end && n + 1 < sizeof number && strchr("+-.0123456789eE", j->p[n])) {
        number[n] = j->p[n];
        n++;
    }
    number[n] = 0;
    char *stop = number;
    j->number = n ? strtod(number, &stop) : 0;
    if (stop == number || *stop) return false;
    j->p += n;
    return true;
}

/* Read dir/stats.json: *text (tp_malloc'ed) and the epoch of its last record, -1 if it has none. TP_ERR_NAME: no file. */
static tp_status tp__stats_load(const char *dir, char **text, size_t *size, int64_t *epoch)
{
    char path[1100];
    tp__json j;
    *text = NULL;
    *epoch = -1;
    if (tp__file_in(path, sizeof path, dir, "stats.json") != TP_OK) return TP_ERR_ARG;
    if (!tp_file_exists(path)) return tp_fail(TP_ERR_NAME, "there is no file '%s'", path);
    const tp_status st = tp_file_read(path, false, 0, text, size);
    if (st != TP_OK) return st;
    memset(&j, 0, sizeof j);
    j.p = *text;
    j.end = *text + *size;
    tp__json_space(&j);
    const bool array = j.p < j.end && *j.p == '[';
    bool good = tp__json_value(&j);
    tp__json_space(&j);
    if (!good || j.p != j.end || !array) {
        const long at = (long)(j.p - *text);
        tp_free(*text);
        *text = NULL;
        return tp_fail(TP_ERR_FORMAT, good && !array ? "'%s' holds no list (byte %ld)" : "'%s' is no JSON: byte %ld is unexpected", path, at);
    }
    if (j.n_record && j.has_epoch) *epoch = (int64_t)j.epoch;
    return TP_OK;
}

/* ==== >>monitors ====================================================================================== */

/* -- stats.json: the text so far without its closing bracket, and the record that is being filled */

typedef struct tp__json_writer {
    tp_monitor m;
    char path[1000];
    tp_buf text;
    int n_record;
    struct { char name[200]; double value; bool is_integer; } *item;
    int n, cap;
    bool off;
} tp__json_writer;

static tp_status tp__json_scalar(tp_monitor *m, const tp_summary_value *v)
{
    tp__json_writer *j = (tp__json_writer *)(void *)m;
    if (j->off) return TP_OK;
    int i = 0;
    while (i < j->n && strcmp(j->item[i].name, v->tag) != 0) i++;
    if (i == j->n) {
        if (j->n == j->cap) {
            const int cap = j->cap ? j->cap * 2 : 32;
            void *bigger = tp_realloc(j->item, (size_t)cap * sizeof *j->item);
            if (!bigger) return TP_ERR_NOMEM;
            memcpy(&j->item, &bigger, sizeof bigger);
            j->cap = cap;
        }
        snprintf(j->item[i].name, sizeof j->item[i].name, "%s", v->tag);
        j->n++;
    }
    j->item[i].value = v->scalar;
    j->item[i].is_integer = v->is_integer;
    return TP_OK;
}

static tp_status tp__json_flush(tp_callback *cb)
{
    tp__json_writer *j = (tp__json_writer *)(void *)cb;
    if (j->off || j->n == 0) return TP_OK;
    tp_buf_printf(&j->text, j->n_record ? ", {" : "{");
    for (int i = 0; i < j->n; i++) {
        tp__json_string(&j->text, j->item[i].name);
        tp_buf_printf(&j->text, ": ");
        if (j->item[i].is_integer) tp_buf_printf(&j->text, "%lld", (long long)j->item[i].value);
        else tp__json_double(&j->text, j->item[i].value);
        tp_buf_printf(&j->text, ", ");
    }
    tp_buf_printf(&j->text, "\"epoch_num\": %lld, \"global_step\": %lld}", (long long)cb->train->epoch_num, (long long)cb->train->global_step);
    j->n = 0;
    j->n_record++;
    if (j->text.failed) return tp_fail(TP_ERR_NOMEM, "out of memory for stats.json");
    tp_writer *w = NULL;
    tp_status st = tp_writer_open(&w, j->path);
    if (st == TP_OK && ((st = tp_writer_put(w, j->text.data, j->text.len)) != TP_OK || (st = tp_writer_put(w, "]", 1)) != TP_OK)) tp_writer_abort(w);
    else if (st == TP_OK) st = tp_writer_commit(w);
    if (st != TP_OK) tp_log(TP_LOG_ERROR, "stats.json could not be written: %s", tp_last_error());
    return TP_OK;
}

static tp_status tp__json_before_train(tp_callback *cb)
{
    tp__json_writer *j = (tp__json_writer *)(void *)cb;
    char *text = NULL;
    size_t n = 0;
    int64_t epoch = -1;
    if (j->off) return TP_OK;
    tp_status st = tp__stats_load(tp_logger_dir(), &text, &n, &epoch);
    if (st != TP_OK && st != TP_ERR_NAME) return st;
    if (st == TP_OK) {
        /* two behind: the run was killed after its checkpoint and before this file */
        if (epoch < 0 || epoch + 1 == cb->train->starting_epoch || (epoch + 2 == cb->train->starting_epoch && cb->train->global_step > 0)) {
            while (n && text[n - 1] != ']') n--; /* go on behind the last record */
            size_t at = 0;
            while (at + 1 < n && text[at] != '{') at++;
            j->n_record = at + 1 < n;
            j->text.len = 0;
            tp_buf_put(&j->text, text, n - 1);
        } else {
            char moved[1100];
            const time_t now = time(NULL);
            struct tm tm;
            localtime_r(&now, &tm);
            const size_t len = (size_t)snprintf(moved, sizeof moved, "%s.", j->path);
            strftime(moved + len, sizeof moved - len, "%m%d-%H%M%S", &tm);
            tp_log(TP_LOG_WARN, "History epoch=%lld from stats.json is not the predecessor of the current starting_epoch=%lld: it is moved to %s", (long long)epoch,
                   (long long)cb->train->starting_epoch, moved);
            rename(j->path, moved);
        }
        tp_free(text);
    }
    return tp__json_flush(cb);
}

static tp_status tp__json_setup(tp_callback *cb)
{
    tp__json_writer *j = (tp__json_writer *)(void *)cb;
    const char *dir = tp_logger_dir();
    j->off = dir == NULL;
    if (j->off) tp_log(TP_LOG_WARN, "no logger directory was set: JSONWriter writes nothing");
    else if (tp__file_in(j->path, sizeof j->path, dir, "stats.json") != TP_OK) return TP_ERR_ARG;
    tp_buf_printf(&j->text, "[");
    return j->text.failed ? TP_ERR_NOMEM : TP_OK;
}

static tp_status tp__json_trigger_step(tp_callback *cb)
{
    /* the last step shares its record with the epoch's callbacks */
    return cb->train->local_step != cb->train->steps_per_epoch - 1 ? tp__json_flush(cb) : TP_OK;
}

static void tp__json_free(tp_callback *cb)
{
    tp__json_writer *j = (tp__json_writer *)(void *)cb;
    tp_buf_free(&j->text);
    tp_free(j->item);
}

TP_DEF tp_callback *tp_monitor_json_writer(void)
{
    tp__json_writer *j = (tp__json_writer *)(void *)tp_monitor_new("JSONWriter", sizeof *j);
    if (!j) return NULL;
    j->m.process_scalar = tp__json_scalar;
    j->m.base.name_scope = "";
    j->m.base.setup_graph = tp__json_setup;
    j->m.base.before_train = tp__json_before_train;
    j->m.base.trigger_step = tp__json_trigger_step;
    j->m.base.trigger = tp__json_flush;
    j->m.base.free = tp__json_free;
    return &j->m.base;
}

TP_DEF tp_status tp_load_existing_epoch_number(const char *dir, int64_t *epoch)
{
    char *text = NULL;
    size_t n = 0;
    const tp_status st = tp__stats_load(dir, &text, &n, epoch);
    tp_free(text);
    if (st == TP_OK && *epoch < 0) return tp_fail(TP_ERR_NAME, "'%s/stats.json' holds no record with an epoch_num", dir);
    return st;
}

/* -- TensorBoard event file */

typedef struct tp__event_writer {
    tp_monitor m;
    tp_monitor_tf_event_writer_desc d;
    char dir[900];
    FILE *f;
    tp_buf queue, summary;
    int n_queue;
    double flushed_at;
    bool off;
} tp__event_writer;

static double tp__wall_time(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static tp_status tp__events_flush(tp__event_writer *e)
{
    if (e->queue.failed) return tp_fail(TP_ERR_NOMEM, "out of memory for events");
    if (e->f && e->queue.len && (fwrite(e->queue.data, 1, e->queue.len, e->f) != e->queue.len || fflush(e->f) != 0))
        tp_log(TP_LOG_ERROR, "the event file could not be written: %s", strerror(errno));
    e->queue.len = 0;
    e->n_queue = 0;
    e->flushed_at = tp_time();
    return TP_OK;
}

static tp_status tp__events_open(tp__event_writer *e)
{
    char host[128] = "localhost", path[1200];
    tp_buf session;
    if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "localhost");
    const double now = tp__wall_time();
    static const char *const suffix[] = {"", ".1", ".2", ".3", ".4", ".5", ".6", ".7", ".8", ".9"};
    for (int i = 0; i < TP_COUNT(suffix); i++) { /* a second file within one second gets a name of its own */
        snprintf(path, sizeof path, "%s/events.out.tfevents.%010lld.%s%s", e->dir, (long long)now, host, suffix[i]);
        if (!tp_file_exists(path)) break;
    }
    e->f = fopen(path, "ab");
    if (!e->f) return tp_fail(TP_ERR_IO, "cannot write '%s': %s", path, strerror(errno));
    tp__event(&e->queue, now, 0, 3, "brain.Event:2", 13);
    if (e->m.base.train->global_step > 0) { /* readers then drop what a killed run wrote beyond this step */
        memset(&session, 0, sizeof session);
        tp__pb_int(&session, 1, 1);
        if (!session.failed) tp__event(&e->queue, now, e->m.base.train->global_step, 7, session.data, session.len);
        tp_buf_free(&session);
    }
    return tp__events_flush(e);
}

static tp_status tp__events_setup(tp_callback *cb)
{
    tp__event_writer *e = (tp__event_writer *)(void *)cb;
    const char *dir = e->d.logdir ? e->d.logdir : tp_logger_dir();
    e->off = dir == NULL;
    if (e->off) {
        tp_log(TP_LOG_WARN, "no logger directory was set: TFEventWriter writes nothing");
        return TP_OK;
    }
    const tp_status st = tp__saver_dir(dir, e->dir, sizeof e->dir, "TFEventWriter");
    return st == TP_OK ? tp_make_dirs(e->dir) : st;
}

static tp_status tp__events_before_train(tp_callback *cb)
{
    tp__event_writer *e = (tp__event_writer *)(void *)cb;
    return e->off || e->f ? TP_OK : tp__events_open(e);
}

static tp_status tp__events_summary(tp_monitor *m, const tp_summary_value *v, int n)
{
    tp__event_writer *e = (tp__event_writer *)(void *)m;
    if (e->off) return TP_OK;
    e->summary.len = 0;
    for (int i = 0; i < n; i++) {
        if (v[i].kind == TP_SUMMARY_SCALAR) tp__summary_scalar(&e->summary, v[i].tag, (float)v[i].scalar);
        else if (v[i].kind == TP_SUMMARY_HISTOGRAM) tp__summary_histogram(&e->summary, v[i].tag, v[i].tensor);
        else if (v[i].kind == TP_SUMMARY_IMAGE) {
            const tp_status st = tp__summary_image(&e->summary, v[i].tag, v[i].tensor);
            if (st != TP_OK) return st;
        }
    }
    if (e->summary.failed) return tp_fail(TP_ERR_NOMEM, "out of memory for events");
    tp__event(&e->queue, tp__wall_time(), m->base.train->global_step, 5, e->summary.data, e->summary.len);
    const int max_queue = e->d.max_queue > 0 ? e->d.max_queue : 10;
    const double secs = e->d.flush_secs > 0 ? e->d.flush_secs : 120;
    return ++e->n_queue >= max_queue || tp_time() - e->flushed_at > secs ? tp__events_flush(e) : TP_OK;
}

static tp_status tp__events_trigger(tp_callback *cb)
{
    tp__event_writer *e = (tp__event_writer *)(void *)cb;
    if (e->off || !e->f) return TP_OK;
    const tp_status st = tp__events_flush(e);
    if (st != TP_OK || e->d.split_files != TP_YES) return st;
    fclose(e->f);
    e->f = NULL;
    return tp__events_open(e);
}

static tp_status tp__events_after_train(tp_callback *cb)
{
    tp__event_writer *e = (tp__event_writer *)(void *)cb;
    if (!e->f) return TP_OK;
    const tp_status st = tp__events_flush(e);
    fclose(e->f);
    e->f = NULL;
    return st;
}

static void tp__events_free(tp_callback *cb)
{
    tp__event_writer *e = (tp__event_writer *)(void *)cb;
    if (e->f) fclose(e->f);
    tp_buf_free(&e->queue);
    tp_buf_free(&e->summary);
}

TP_DEF tp_callback *tp_monitor_tf_event_writer_(const tp_monitor_tf_event_writer_desc *d)
{
    tp__event_writer *e = (tp__event_writer *)(void *)tp_monitor_new("TFEventWriter", sizeof *e);
    if (!e) return NULL;
    e->d = *d;
    e->m.process_summary = tp__events_summary;
    e->m.base.name_scope = "";
    e->m.base.setup_graph = tp__events_setup;
    e->m.base.before_train = tp__events_before_train;
    e->m.base.trigger = tp__events_trigger;
    e->m.base.after_train = tp__events_after_train;
    e->m.base.free = tp__events_free;
    return &e->m.base;
}

/* -- scalars in the log */

typedef struct tp__printer {
    tp_monitor m;
    tp_monitor_scalar_printer_desc d;
    struct { char name[200]; double value; } *item;
    int n, cap;
} tp__printer;

static tp_status tp__printer_scalar(tp_monitor *m, const tp_summary_value *v)
{
    tp__printer *p = (tp__printer *)(void *)m;
    int i = 0;
    while (i < p->n && strcmp(p->item[i].name, v->tag) < 0) i++; /* kept sorted by name */
    if (i == p->n || strcmp(p->item[i].name, v->tag) != 0) {
        if (p->n == p->cap) {
            const int cap = p->cap ? p->cap * 2 : 32;
            void *bigger = tp_realloc(p->item, (size_t)cap * sizeof *p->item);
            if (!bigger) return TP_ERR_NOMEM;
            memcpy(&p->item, &bigger, sizeof bigger);
            p->cap = cap;
        }
        memmove(p->item + i + 1, p->item + i, (size_t)(p->n - i) * sizeof *p->item);
        snprintf(p->item[i].name, sizeof p->item[i].name, "%s", v->tag);
        p->n++;
    }
    p->item[i].value = v->scalar;
    return TP_OK;
}

static bool tp__listed(const char *const *list, const char *name)
{
    for (int i = 0; i < TP_CB_MAX_NAMES && list[i]; i++)
        if (tp_regex_match(list[i], name, false)) return true;
    return false;
}

static tp_status tp__printer_print(tp_callback *cb)
{
    tp__printer *p = (tp__printer *)(void *)cb;
    for (int i = 0; i < p->n; i++)
        if ((!p->d.whitelist[0] || tp__listed(p->d.whitelist, p->item[i].name)) && !tp__listed(p->d.blacklist, p->item[i].name))
            tp_log(TP_LOG_INFO, "%s: %.5g", p->item[i].name, p->item[i].value);
    p->n = 0;
    return TP_OK;
}

static tp_status tp__printer_step(tp_callback *cb)
{
    const tp__printer *p = (const tp__printer *)(const void *)cb;
    if (p->d.enable_step != TP_YES) return TP_OK;
    if (cb->train->local_step == cb->train->steps_per_epoch - 1 && p->d.enable_epoch != TP_NO) return TP_OK; /* then at the epoch's end */
    return tp__printer_print(cb);
}

static tp_status tp__printer_epoch(tp_callback *cb)
{
    return ((tp__printer *)(void *)cb)->d.enable_epoch != TP_NO ? tp__printer_print(cb) : TP_OK;
}

static void tp__printer_free(tp_callback *cb) { tp_free(((tp__printer *)(void *)cb)->item); }

TP_DEF tp_callback *tp_monitor_scalar_printer_(const tp_monitor_scalar_printer_desc *d)
{
    tp__printer *p = (tp__printer *)(void *)tp_monitor_new("ScalarPrinter", sizeof *p);
    if (!p) return NULL;
    p->d = *d;
    p->m.process_scalar = tp__printer_scalar;
    p->m.base.before_train = tp__printer_print;
    p->m.base.trigger_step = tp__printer_step;
    p->m.base.trigger = tp__printer_epoch;
    p->m.base.free = tp__printer_free;
    return &p->m.base;
}

/* ==== >>defaults ====================================================================================== */

TP_DEF int tp_default_callbacks(tp_callback **list)
{
    tp_cb_progress_bar_desc bar;
    tp_cb_merge_all_summaries_desc merge;
    memset(&bar, 0, sizeof bar);
    memset(&merge, 0, sizeof merge);
    list[0] = tp_cb_moving_average_summary(NULL);
    list[1] = tp_cb_progress_bar_(&bar);
    list[2] = tp_cb_merge_all_summaries_(&merge);
    list[3] = tp_cb_run_update_ops(NULL);
    return 4;
}

TP_DEF int tp_default_monitors(tp_callback **list)
{
    tp_monitor_tf_event_writer_desc events;
    tp_monitor_scalar_printer_desc printer;
    memset(&events, 0, sizeof events);
    memset(&printer, 0, sizeof printer);
    list[0] = tp_monitor_tf_event_writer_(&events);
    list[1] = tp_monitor_json_writer();
    list[2] = tp_monitor_scalar_printer_(&printer);
    return 3;
}

TP__COLD_END
#endif
