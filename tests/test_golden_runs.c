/* test_golden_runs.c - small trainings with random callbacks, options, monitors, trainers, stops and resumes, and the debugger with
 * random commands: all that they say and write is what was seen before (digests_runs.txt).
 *
 *     TP_TEST_PRINT=lists:17 ...     prints what case 17 of the section tells
 *
 * Weights, costs and averages are small binary fractions, so that no kernel rounds, and the clock is moved by the test alone. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_test.h"
#include "golden.h"
#include "golden_text.h"

/* ==== >>model ========================================================================================= */

enum { BATCH = 4 };
static const tp_spec inputs[1] = {{"x", TP_F32, {2, {BATCH, 2}}}};
static int nan_at; /* the datapoint that is NaN; -1: none */
static double field_f64;
static int32_t field_i32;

static tp_node *build(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    const tp_tower_context *tower = tp_current_tower_context(g);
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(2, 1), tp_init_ones());
    tp_node *picture = tp_get_variable_as(g, "pic", TP_F32, tp_make_shape(3, 5), tp_init_constant(0.5f));
    tp_node *ticks = tp_get_scalar_variable(g, "ticks", 0);
    tp_node *y = tp_named(tp_matmul(in[0], w), "y");
    tp_node *cost = tp_named(tp_mean(y), "cost");
    tp_node *flat = tp_reshape(y, BATCH);
    tp_named(tp_cast(tp_greater(flat, tp_const(g, 1)), TP_F32), "wrong");
    tp_named(tp_cast(tp_greater(flat, tp_const(g, 2)), TP_F32), "label");
    tp_named(tp_mul(picture, tp_const(g, 0.5f)), "half");
    if (tower && tower->is_training) {
        tp_collection_add(g, TP_KEY_UPDATE_OPS, tp_named(tp_assign_add(ticks, tp_const(g, 1), NULL), "tick"));
        tp_add_moving_summary_with((.decay = 0.5f), cost);
        tp_add_tensor_summary(flat, TP_SUMMARY_HISTOGRAM | TP_SUMMARY_MEAN, "flat", NULL);
        tp_add_tensor_summary(tp_reshape(in[0], 1, 2, BATCH, 1), TP_SUMMARY_IMAGE, "drawing", NULL);
        tp_add_tensor_summary(tp_mean(picture), TP_SUMMARY_SCALAR, "bright", "mine");
    }
    return cost;
}
static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    tp_node *rate = tp_get_scalar_variable(g, "learning_rate", 0.125f);
    return chance(4) ? tp_momentum(rate, .momentum = 0.5f) : tp_sgd(rate);
}
static tp_status point(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user, (void)pass;
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape(BATCH, 2));
    for (int i = 0; i < 2 * BATCH && st == TP_OK; i++)
        ((float *)dp->c[0].data)[i] = index == nan_at ? NAN : (float)((index * 3 + i) % 7 - 2);
    return st;
}
static tp_dataflow *flow(int64_t n)
{
    tp_df_from_generator_desc d;
    memset(&d, 0, sizeof d);
    d.fn = point, d.size = n, d.indexed = TP_YES;
    return tp_df_from_generator_(&d);
}

/* ==== >>what is drawn ================================================================================= */

static int64_t steps_now; /* steps of an epoch in this case */
static bool by_hand;      /* nothing is drawn that needs a graph */
static bool careful;      /* nothing is drawn that ends the training before its first step */

static int64_t an_every(void)
{
    const int64_t of[] = {0, 1, 1, 1, 2, 2, 3, steps_now, steps_now, steps_now + 1, steps_now - 1, INT64_MAX, -1, 5};
    return RND_OF(of);
}
static tp_tri a_tri(void)
{
    static const int of[] = {TP_UNSET, TP_UNSET, TP_YES, TP_NO, TP_YES, TP_NO};
    return chance(40) ? (tp_tri)(chance(2) ? 7 : 1) : (tp_tri)RND_OF(of);
}
static const char *a_stat(void)
{
    static const char *const of[] = {"a",
                                     "a",
                                     "b",
                                     "cost",
                                     "validation_error",
                                     "val_precision",
                                     "flat",
                                     "flat-mean",
                                     "cost/SMA",
                                     "nothing",
                                     "",
                                     "validation_cost",
                                     "A",
                                     "learning_rate",
                                     "a/b c",
                                     "costs",
                                     "flt-mean"};
    return chance(40) ? NULL : RND_OF(of);
}
static const char *a_tensor(void)
{
    static const char *const of[] = {"cost",  "cost:0", "y",     "half", "pic", "w",  "x",
                                     "wrong", "label",  "ticks", "none", "",    "cst"};
    static const char *const scalars[] = {"cost", "cost:0", "cost", "ticks", "learning_rate"};
    if (careful) return RND_OF(scalars);
    return chance(40) ? NULL : RND_OF(of);
}
static void some_names(const char **names, const char *(*name)(void))
{
    const int64_t n = chance(60) ? TP_MAX_NAMES + 1 : careful ? 1 + rnd(3) : rnd(4);
    for (int64_t i = 0; i < n; i++) names[i] = n > 4 ? "cost" : name();
}
static double a_number(void)
{
    static const double of[] = {0, 0.5, 1, 0.25, -1, 2, 1e6, 3, 0.125, -0.0};
    if (careful) return (double)rnd(5) / 4;
    return chance(30) ? NAN : RND_OF(of);
}

/* A callback that reports, takes time, and stops or fails in one of its hooks. */
typedef struct actor {
    int hook;                  /* in which it acts; 0: in none */
    int64_t at_epoch, at_step; /* when; 0: always */
    int action;
    int64_t pattern;
    bool quiet;
} actor;
enum {
    IN_NONE,
    IN_SETUP,
    IN_BEFORE,
    IN_EPOCH,
    IN_RUN,
    IN_AFTER_RUN,
    IN_STEP,
    IN_AFTER_EPOCH,
    IN_TRIGGER,
    IN_SAVED,
    IN_END,
    HOOKS
};

static tp_status act(tp_callback *cb, int hook)
{
    const actor *a = (const actor *)cb->user;
    const tp_train_state *t = cb->train;
    clock_at += clock_at > 0 ? 0.25 : 0;
    if (!t) return TP_OK; /* by hand: one before it has failed in setup_graph */
    tell("%s hook %d: %lld %lld %lld\n", cb->name, hook, (long long)t->epoch_num, (long long)t->global_step,
         (long long)t->local_step);
    if (a->hook != hook || (a->at_epoch && a->at_epoch != t->epoch_num) || (a->at_step && a->at_step != t->global_step))
        return TP_OK;
    switch (a->action) {
    case 0: return tp_stop(cb->train, "that was enough: %d", hook);
    case 1: return TP_STOP;
    case 2: return TP_END;
    case 3: return tp_fail(TP_ERR_FORMAT, "an actor fails in hook %d", hook);
    case 4: tp_callback_set_unsaved(cb, "the actor's file was not written"); return TP_OK;
    case 5: tp_callback_request_checkpoint(cb); return TP_OK;
    case 6: return tp_monitors_put_int(t->monitors, "late", t->global_step);
    default: return tp_fail(TP_ERR_NOMEM, "no memory for an actor");
    }
}
static tp_status on_setup(tp_callback *cb) { return act(cb, IN_SETUP); }
static tp_status on_before(tp_callback *cb) { return act(cb, IN_BEFORE); }
static tp_status on_epoch(tp_callback *cb) { return act(cb, IN_EPOCH); }
static tp_status on_run(tp_callback *cb, tp_run_request *r)
{
    (void)r;
    return act(cb, IN_RUN);
}
static tp_status on_after_run(tp_callback *cb, const tp_run_values *v)
{
    tell("%d values\n", v->n);
    return act(cb, IN_AFTER_RUN);
}
static tp_status on_step(tp_callback *cb)
{
    const actor *a = (const actor *)cb->user;
    tp_status st = TP_OK;
    if (!a->quiet) st = tp_monitors_put_int(cb->train->monitors, "b", (cb->train->global_step * a->pattern) % 5 - 2);
    return st != TP_OK ? st : act(cb, IN_STEP);
}
static tp_status on_after_epoch(tp_callback *cb) { return act(cb, IN_AFTER_EPOCH); }
static tp_status on_trigger(tp_callback *cb)
{
    const actor *a = (const actor *)cb->user;
    const double v = (double)((cb->train->epoch_num * a->pattern) % 7) / 4 - 0.5;
    tp_status st = TP_OK;
    if (!a->quiet) st = tp_monitors_put_scalar(cb->train->monitors, "a", a->pattern == 6 && v < 0 ? NAN : v);
    return st != TP_OK ? st : act(cb, IN_TRIGGER);
}
static tp_status on_saved(tp_callback *cb) { return act(cb, IN_SAVED); }
static tp_status on_end(tp_callback *cb) { return act(cb, IN_END); }

static tp_callback *an_actor(const char *name)
{
    tp_callback *cb = tp_callback_new(name, sizeof(actor));
    actor *a = (actor *)cb->user;
    cb->setup_graph = on_setup, cb->before_train = on_before, cb->before_epoch = on_epoch;
    cb->before_run = on_run, cb->after_run = on_after_run, cb->trigger_step = on_step;
    cb->after_epoch = on_after_epoch, cb->trigger = on_trigger, cb->after_checkpoint = on_saved;
    cb->after_train = on_end;
    a->pattern = 1 + rnd(6);
    a->quiet = chance(4);
    if (chance(5)) {
        a->hook = (int)(1 + rnd(HOOKS - 1));
        a->at_epoch = rnd(4), a->at_step = rnd(3) ? 0 : rnd(7);
        a->action = (int)rnd(8);
    }
    cb->chief_only = !chance(3);
    return cb;
}

/* ==== >>callbacks ===================================================================================== */

static tp_callback *a_callback(int depth);

static bool is_odd(tp_callback *wrapper, void *user)
{
    clock_at += clock_at > 0 ? 0.125 : 0;
    return (wrapper->train->global_step + wrapper->train->epoch_num) % 2 == (user != NULL);
}
static tp_callback *a_wrapper(int depth)
{
    tp_cb_periodic_trigger_desc p;
    tp_cb_periodic_callback_desc c;
    tp_cb_enable_if_desc e;
    tp_callback *inner[3] = {NULL, NULL, NULL};
    memset(&p, 0, sizeof p), memset(&c, 0, sizeof c), memset(&e, 0, sizeof e);
    inner[0] = chance(60) ? NULL : depth > 2 ? an_actor("Inner") : a_callback(depth + 1);
    switch (rnd(6)) {
    case 0:
    case 1:
        p.cb = inner[0];
        p.every_k_steps = an_every(), p.every_k_epochs = an_every();
        p.before_train = a_tri();
        return tp_cb_periodic_trigger_(&p);
    case 2:
        c.cb = inner[0];
        c.every_k_steps = an_every(), c.every_k_epochs = chance(2) ? 0 : an_every();
        return tp_cb_periodic_callback_(&c);
    case 3:
        e.cb = inner[0];
        e.pred = chance(20) ? NULL : is_odd;
        if (chance(2)) e.user = &nan_at;
        return tp_cb_enable_if_(&e);
    case 4: return tp_cb_proxy(inner[0]);
    default:
        inner[1] = chance(3) ? NULL : an_actor("Second");
        inner[2] = inner[1] ? a_callback(depth + 1) : NULL;
        return tp_cb_group(inner, inner[2] ? 3 : 1);
    }
}

static tp_node *make_op(tp_graph *g, void *user)
{
    const tp_variable *v = tp_find_variable(g, "ticks");
    return user || !v ? NULL : tp_assign_add(v->node, tp_const(g, 8), NULL);
}
static tp_status tell_tensors(tp_callback *cb, const tp_tensor *const *v, int n, void *user)
{
    for (int i = 0; i < n; i++) tell_tensor("value", v[i]);
    return user && cb->train->global_step == 2 ? TP_STOP : TP_OK;
}
static tp_status turn(const tp_tensor *value, tp_tensor *image, void *user)
{
    if (user) return tp_fail(TP_ERR_FORMAT, "no picture today");
    tp_status st = tp_tensor_resize(image, TP_F32, tp_make_shape(2, 2, 3));
    for (int64_t i = 0; i < 12 && st == TP_OK; i++) tp_tensor_set(image, i, tp_tensor_get(value, 0) + (double)i / 16);
    return st;
}
static tp_callback *of_graph(void)
{
    tp_cb_run_op_desc o;
    tp_cb_run_update_ops_desc u;
    tp_cb_moving_average_summary_desc m;
    tp_cb_merge_all_summaries_desc s;
    memset(&o, 0, sizeof o), memset(&u, 0, sizeof u), memset(&m, 0, sizeof m), memset(&s, 0, sizeof s);
    static const char *const ops[] = {"tick", "none", "cost", "half", ""};
    static const char *const collections[] = {"none",          "", TP_KEY_UPDATE_OPS, "mine", TP_KEY_MOVING_SUMMARY_OPS,
                                              TP_KEY_SUMMARIES};
    const bool named = chance(2) && !careful;
    switch (rnd(5)) {
    case 0:
        if (named) o.op_name = RND_OF(ops);
        else o.fn = chance(30) ? NULL : make_op;
        if (chance(60)) o.user = &nan_at;
        o.run_before = a_tri(), o.run_as_trigger = a_tri(), o.run_step = a_tri(), o.verbose = a_tri();
        return tp_cb_run_op_(&o);
    case 1:
        if (chance(3)) u.collection = RND_OF(collections);
        return tp_cb_run_update_ops_(&u);
    case 2:
        if (chance(4)) m.collection = RND_OF(collections);
        if (chance(6) && !careful) m.train_op_name = RND_OF(ops);
        return tp_cb_moving_average_summary_(&m);
    default:
        s.period = an_every();
        s.run_alone = chance(5) ? a_tri() : TP_UNSET;
        if (chance(3)) s.key = RND_OF(collections);
        return tp_cb_merge_all_summaries_(&s);
    }
}
static tp_callback *of_tensors(void)
{
    tp_cb_process_tensors_desc p;
    tp_cb_dump_tensors_desc d;
    tp_cb_check_numerics_desc c;
    tp_cb_simple_moving_average_desc a;
    tp_cb_dump_tensor_as_image_desc i;
    static const int windows[] = {1, 2, 3, 4, 0, -1, 100};
    static const char *const prefixes[] = {"p", "a/b", "", "half"};
    memset(&p, 0, sizeof p), memset(&d, 0, sizeof d), memset(&c, 0, sizeof c), memset(&a, 0, sizeof a);
    memset(&i, 0, sizeof i);
    switch (rnd(6)) {
    case 0:
        some_names(p.names, a_tensor);
        p.fn = chance(20) ? NULL : tell_tensors;
        if (chance(6)) p.user = &nan_at;
        return tp_cb_process_tensors_(&p);
    case 1: some_names(d.names, a_tensor); return tp_cb_dump_tensors_(&d);
    case 2: some_names(d.names, a_tensor); return tp_cb_tensor_printer_(&d);
    case 3: c.run_as_trigger = a_tri(), c.run_step = a_tri(); return tp_cb_check_numerics_(&c);
    case 4:
        if (chance(3)) some_names(a.names, a_tensor);
        else a.names[0] = "cost";
        a.window_size = RND_OF(windows);
        return tp_cb_simple_moving_average_(&a);
    default:
        i.tensor_name = chance(2) || careful ? "half" : a_tensor();
        if (chance(2)) i.prefix = RND_OF(prefixes);
        if (chance(2)) i.map_func = turn;
        if (chance(12)) i.user = &nan_at;
        if (chance(2)) i.scale = a_number();
        return tp_cb_dump_tensor_as_image_(&i);
    }
}

static tp_callback *of_progress(void)
{
    tp_cb_progress_bar_desc p;
    tp_cb_estimated_time_left_desc l;
    tp_cb_throughput_tracker_desc t;
    tp_cb_early_stopping_desc s;
    static const int numbers[] = {1, 2, 3, 0, -1, 5, 1000000};
    static const char *const commands[] = {
        "echo {a} {b:.3f} >> sent", "echo {{ }} {a:05.1f}>>sent", "exit 3", "echo {a >> sent", "{nothing}", "",
        "echo {a:q} >> sent",       "echo {b:>6} x >> sent"};
    static double latest;
    char command[700];
    memset(&p, 0, sizeof p), memset(&l, 0, sizeof l), memset(&t, 0, sizeof t), memset(&s, 0, sizeof s);
    switch (by_hand ? 1 + rnd(7) : rnd(8)) {
    case 0:
        some_names(p.names, a_tensor);
        p.cost = a_tri();
        return tp_cb_progress_bar_(&p);
    case 1: l.last_k_epochs = RND_OF(numbers), l.median = a_tri(); return tp_cb_estimated_time_left_(&l);
    case 2: t.samples_per_step = a_number(); return tp_cb_throughput_tracker_(&t);
    case 3: return tp_cb_host_memory_tracker();
    case 4:
        if (by_hand) break;
        snprintf(command, sizeof command, "cd '%s' && %s", case_dir, RND_OF(commands));
        return tp_cb_send_stat(chance(30) ? NULL : command);
    case 5: {
        const char *stat = a_stat();
        return tp_cb_get_latest(stat, chance(30) ? NULL : &latest);
    }
    default: break;
    }
    s.monitor_stat = a_stat();
    s.patience = RND_OF(numbers), s.threshold = a_number(), s.reverse = a_tri();
    return tp_cb_early_stopping_(&s);
}

static void run_thread(tp_stop_flag *f, void *user)
{
    (void)user;
    while (!tp_stop_flag_wait(f, 1e6))
        ;
}
static tp_callback *of_others(void)
{
    tp_cb_start_proc_or_thread_desc s;
    tp_cb_graph_profiler_desc p;
    tp_cb_gpu_memory_tracker_desc m;
    static const int64_t limits[] = {0, -1, 1, 3600000, INT64_MAX};
    static const int devices[] = {0, 1, -1, 5};
    memset(&s, 0, sizeof s), memset(&p, 0, sizeof p), memset(&m, 0, sizeof m);
    switch (rnd(5)) {
    case 0:
        s.startable[0].run = chance(10) ? NULL : run_thread;
        s.stop_at_last = TP_UNSET;
        return tp_cb_start_proc_or_thread_(&s);
    case 1:
        p.dump_metadata = a_tri(), p.dump_tracing = a_tri(), p.dump_event = chance(4) ? TP_YES : TP_UNSET;
        return tp_cb_graph_profiler_(&p);
    case 2: {
        const int64_t limit = RND_OF(limits);
        return tp_cb_session_run_timeout(limit == 1 ? 3600000 : limit);
    }
    case 3:
        m.n_devices = (int)rnd(3);
        for (int i = 0; i < m.n_devices; i++) m.devices[i] = careful ? 0 : RND_OF(devices);
        return tp_cb_gpu_memory_tracker_(&m);
    default:
        return chance(3) ? tp_callback_fail(NULL, TP_ERR_ARG, "this one was made wrongly")
                         : tp_cb_session_run_timeout(60000);
    }
}

static tp_callback *a_saver(void)
{
    tp_cb_model_saver_desc m;
    tp_cb_min_saver_desc b;
    static const int keep[] = {0, 0, 1, 2, 3, TP_NONE, -5};
    static const float hours[] = {0, 0, 0.0001f, 1, -1};
    static const char *const names[] = {"best", "best.npz", "a/b", "", "x.safetensors", "min-a"};
    static const char *const collections[] = {TP_KEY_GLOBAL_VARIABLES, TP_KEY_TRAINABLE_VARIABLES, "none", ""};
    memset(&m, 0, sizeof m), memset(&b, 0, sizeof b);
    const bool elsewhere = chance(6);
    if (chance(2)) {
        m.max_to_keep = RND_OF(keep), m.keep_checkpoint_every_n_hours = RND_OF(hours);
        if (chance(8)) m.keep_checkpoint_every_n_hours = TP_ZERO;
        if (elsewhere) m.checkpoint_dir = tp_test_path(case_dir, "elsewhere");
        if (chance(5) && !careful) m.var_collections[0] = RND_OF(collections);
        if (chance(10) && !careful) m.var_collections[1] = RND_OF(collections);
        m.format = chance(3) ? (tp_checkpoint_format)rnd(4) : TP_CHECKPOINT_NPZ;
        return tp_cb_model_saver_(&m);
    }
    b.monitor_stat = a_stat();
    b.reverse = chance(3) ? a_tri() : TP_UNSET;
    if (chance(3)) b.filename = RND_OF(names);
    if (elsewhere) b.checkpoint_dir = tp_test_path(case_dir, "elsewhere");
    return chance(2) ? tp_cb_min_saver_(&b) : tp_cb_max_saver_(&b);
}

static tp_inferencer *an_inferencer(void)
{
    tp_inf_scalar_stats_desc s;
    tp_inf_classification_error_desc c;
    tp_inf_binary_classification_desc b;
    static const char *const prefixes[] = {"test", "", "validation"};
    memset(&s, 0, sizeof s), memset(&c, 0, sizeof c), memset(&b, 0, sizeof b);
    switch (rnd(careful ? 3 : 4)) {
    case 0:
        if (chance(3)) some_names(s.names, a_tensor);
        else s.names[0] = "cost";
        if (chance(2)) s.prefix = RND_OF(prefixes);
        return tp_inf_scalar_stats_(&s);
    case 1:
        c.wrong_tensor_name = chance(8) && !careful ? a_tensor() : "wrong";
        if (chance(3)) c.summary_name = RND_OF(prefixes);
        return tp_inf_classification_error_(&c);
    case 2:
        b.pred_tensor_name = chance(8) && !careful ? a_tensor() : "wrong";
        b.label_tensor_name = chance(8) && !careful ? a_tensor() : "label";
        if (chance(3)) b.prefix = RND_OF(prefixes);
        return tp_inf_binary_classification_(&b);
    default: return tp_inferencer_fail(NULL, TP_ERR_ARG, "an inferencer that was made wrongly");
    }
}
static tp_callback *a_runner(void)
{
    tp_cb_inference_runner_desc r;
    tp_cb_inference_runner_base_desc b;
    static const char *const names[] = {"InferenceTower", "other", "", "a/b"};
    memset(&r, 0, sizeof r), memset(&b, 0, sizeof b);
    const int64_t n = careful ? 1 + rnd(3) : rnd(4);
    tp_dataflow *df = chance(30) ? NULL : flow(careful ? 1 + rnd(4) : rnd(4));
    if (chance(8)) {
        b.df = df;
        for (int64_t i = 0; i < n; i++) b.inferencers[i] = an_inferencer();
        if (chance(2)) b.name = RND_OF(names);
        return tp_cb_inference_runner_base_(&b);
    }
    if (chance(4)) r.input = df ? tp_feed_input(df) : NULL;
    else r.df = df;
    for (int64_t i = 0; i < n; i++) r.inferencers[i] = an_inferencer();
    if (chance(3)) r.tower_name = RND_OF(names);
    if (chance(10) && !careful) r.device = (int)rnd(4) - 1;
    return tp_cb_inference_runner_(&r);
}

/* -- setters */

static tp_hyper_param *a_param(void)
{
    static const char *const names[] = {"learning_rate", "w", "ticks", "none", "", "pic"};
    if (careful || by_hand)
        return chance(2) ? tp_param_field("f64", &field_f64, TP_F64) : tp_param_field("i32", &field_i32, TP_I32);
    switch (rnd(5)) {
    case 0: return tp_param_graph_var(RND_OF(names));
    case 1: {
        const char *name = RND_OF(names);
        return tp_param_graph_var_array(name, chance(2) ? tp_make_shape(2, TP_ANY) : tp_make_shape(3));
    }
    case 2: return tp_param_field("f64", &field_f64, TP_F64);
    case 3: return tp_param_field("i32", &field_i32, chance(6) ? TP_U8 : TP_I32);
    default: return NULL;
    }
}
static tp_status set_half(tp_callback *setter, void *user, double *value, bool *set)
{
    *set = (setter->train->epoch_num % 2 == 0) == (user == NULL);
    *value = *value / 2;
    return TP_OK;
}
static tp_status set_array(tp_callback *setter, void *user, tp_tensor *value, bool *set)
{
    (void)setter, (void)user;
    *set = true;
    for (int64_t i = 0; i < tp_tensor_size(value); i++) tp_tensor_set(value, i, (double)i);
    return TP_OK;
}
static double by_epoch(int64_t epoch, double old, void *user)
{
    (void)user;
    return epoch % 3 == 0 ? old : (double)epoch / 8;
}
static tp_status halve(double *value, void *user)
{
    *value /= 2;
    return user && *value < 0.1 ? TP_STOP : TP_OK;
}
static tp_callback *a_setter(void)
{
    tp_cb_hyper_param_setter_desc s;
    tp_cb_human_hyper_param_setter_desc h;
    tp_cb_scheduled_hyper_param_setter_desc c;
    tp_cb_hyper_param_setter_with_func_desc f;
    tp_cb_stat_monitor_param_setter_desc m;
    memset(&s, 0, sizeof s), memset(&h, 0, sizeof h), memset(&c, 0, sizeof c), memset(&f, 0, sizeof f);
    memset(&m, 0, sizeof m);
    static const char *const names[] = {"learning_rate", "learning_rate", "ticks", "w", "none", ""};
    tp_hyper_param *p = chance(3) || by_hand ? a_param() : NULL;
    const char *name = p && !chance(20) ? NULL : careful ? names[rnd(3)] : RND_OF(names);
    switch (rnd(6)) {
    case 0:
        s.name = name, s.param = p;
        if (!chance(20)) s.fn = set_half;
        if (chance(8)) s.fn_array = set_array;
        if (chance(3)) s.user = &nan_at;
        return tp_cb_hyper_param_setter_(&s);
    case 1:
        h.name = name, h.param = p;
        if (chance(6)) h.file_name = chance(2) ? "other.txt" : "";
        return tp_cb_human_hyper_param_setter_(&h);
    case 2:
        f.name = name, f.param = p;
        f.fn = chance(20) ? NULL : by_epoch;
        return tp_cb_hyper_param_setter_with_func_(&f);
    case 3:
        m.name = name, m.param = p;
        m.stat_name = a_stat();
        m.fn = chance(20) ? NULL : halve;
        if (chance(3)) m.user = &nan_at;
        m.threshold = a_number();
        m.last_k = (int)rnd(6) - 1;
        m.reverse = a_tri();
        return tp_cb_stat_monitor_param_setter_(&m);
    default: {
        const int64_t n = rnd(5);
        c.name = name, c.param = p;
        for (int64_t i = 0; i < n; i++) {
            c.schedule[i].at = chance(20) ? -2 : rnd(7);
            c.schedule[i].value = a_number();
        }
        c.n_schedule = chance(4) ? (int)n + (int)rnd(3) - 1 : chance(2) ? (int)n : 0;
        c.interp = chance(20) ? 2 : (int)rnd(2);
        c.step_based = a_tri(), c.set_at_beginning = a_tri();
        return tp_cb_scheduled_hyper_param_setter_(&c);
    }
    }
}

static tp_callback *any_callback(int depth)
{
    static const int hand[] = {0, 1, 6, 6, 12, 12, 12, 15};
    tp_callback *cb = NULL;
    switch (by_hand ? RND_OF(hand) : rnd(16)) {
    case 0:
    case 1: cb = a_wrapper(depth); break;
    case 2:
    case 3: cb = of_graph(); break;
    case 4:
    case 5: cb = of_tensors(); break;
    case 6:
    case 7: cb = of_progress(); break;
    case 8: cb = of_others(); break;
    case 9:
    case 10: cb = a_saver(); break;
    case 11: cb = a_runner(); break;
    case 12:
    case 13: cb = a_setter(); break;
    default: cb = an_actor("Actor"); break;
    }
    if (cb && chance(12)) tp_callback_set_chief_only(cb, chance(2));
    return cb;
}
/* What its constructor refuses is told, and nearly always drawn anew. */
static tp_callback *a_callback(int depth)
{
    for (int i = 0; i < 8; i++) {
        tp_callback *cb = any_callback(depth);
        const tp_status st = tp_callback_status(cb);
        if (st == TP_OK || (!careful && chance(6))) return cb;
        tell("refused: %s %s\n", tp_status_name(st), tp_last_error());
        tp_callback_free(cb);
    }
    return an_actor("Last");
}

static tp_monitor *any_monitor(void)
{
    tp_monitor_tf_event_writer_desc e;
    tp_monitor_scalar_printer_desc s;
    tp_monitor_send_data_desc d;
    tp_monitor_report_desc r;
    static const char *const patterns[] = {"cost", ".*", "^a$", "b|c", "", "flat.*", "a", "("};
    static const int queues[] = {0, 1, 2, TP_NONE, -7, 100};
    char command[700];
    memset(&e, 0, sizeof e), memset(&s, 0, sizeof s), memset(&d, 0, sizeof d), memset(&r, 0, sizeof r);
    switch (rnd(8)) {
    case 0:
    case 1:
        e.max_queue = RND_OF(queues);
        e.flush_secs = chance(4) ? TP_ZERO : a_number();
        e.split_files = a_tri();
        if (chance(12) && !careful) e.logdir = tp_test_path(case_dir, chance(2) ? "none" : "elsewhere");
        return tp_monitor_tf_event_writer_(&e);
    case 2:
    case 3: return tp_monitor_json_writer();
    case 4:
        snprintf(command, sizeof command, "cd '%s' && echo {a} {b} >> monitored", case_dir);
        d.command = chance(20) ? NULL : command;
        d.names[0] = "a";
        if (chance(2)) d.names[1] = a_stat();
        return tp_monitor_send_data_(&d);
    case 5:
        if (chance(6)) return tp_monitor_fail(NULL, TP_ERR_ARG, "a monitor that was made wrongly");
        r.trace = TP_NO, r.every_secs = chance(12) ? a_number() : 1;
        if (chance(6)) r.runs[0] = case_dir;
        return tp_monitor_report_(&r);
    default:
        s.enable_step = a_tri(), s.enable_epoch = a_tri();
        for (int64_t i = rnd(3); i-- > 0;) s.whitelist[i] = patterns[rnd(careful ? 7 : 8)];
        for (int64_t i = rnd(3); i-- > 0;) s.blacklist[i] = patterns[rnd(careful ? 7 : 8)];
        return tp_monitor_scalar_printer_(&s);
    }
}
static tp_monitor *a_monitor(void)
{
    for (int i = 0; i < 8; i++) {
        tp_monitor *m = any_monitor();
        const tp_status st = m ? tp_callback_status(&m->cb) : TP_ERR_NOMEM;
        if (st == TP_OK || (!careful && chance(6))) return m;
        tell("refused: %s %s\n", tp_status_name(st), tp_last_error());
        tp_monitor_free(m);
    }
    return tp_monitor_json_writer();
}

/* ==== >>trainings ===================================================================================== */

enum { MOST_CALLBACKS = 8 };

static void write_hyper(void)
{
    static const char *const texts[] = {
        "learning_rate: 0.5\n", "learning_rate:0.25",   "learning_rate 0.5\n", "ticks: 3\nlearning_rate: 1\n", "\n",
        "f64: 2\ni32: 7\n",     "learning_rate: nan\n", "i32: 2.5\n"};
    const char *text = RND_OF(texts);
    rewrite(tp_test_path(case_dir, "hyper.txt"), text);
}

/* A configuration with random callbacks and monitors. */
static void draw_config(tp_train_config *c, tp_callback **callbacks, tp_monitor **monitors)
{
    static const int64_t epochs[] = {1, 2, 2, 3, 3, 4, TP_NONE, -3};
    static const int64_t starts[] = {0, 0, 0, 1, 0, TP_NONE, 2, 3, 5, -4};
    static const int64_t steps[] = {1, 2, 2, 3, 3, 4, TP_NO_STEPS, 6, 0, -5};
    memset(c, 0, sizeof *c);
    c->model.inputs = inputs, c->model.n_inputs = 1, c->model.build_graph = build, c->model.optimizer = optimizer;
    nan_at = chance(12) ? (int)rnd(6) : -1;
    const int64_t points = chance(6) ? 1 + rnd(4) : 64;
    c->steps_per_epoch = steps[rnd(careful ? 7 : 10)];
    if (c->steps_per_epoch == 0 && points == 64) c->steps_per_epoch = 2;
    steps_now = c->steps_per_epoch > 0 ? c->steps_per_epoch : 2;
    c->dataflow = chance(80) ? NULL : flow(points);
    c->max_epoch = epochs[rnd(careful ? 6 : 8)];
    c->starting_epoch = starts[rnd(careful ? 6 : 10)];
    c->seed = (uint64_t)rnd(3);
    c->stop_on_nan = a_tri(), c->unsaved_is_ok = a_tri(), c->log_layers = a_tri();
    c->report = TP_NO;
    c->auto_resume = chance(3) ? a_tri() : TP_UNSET, c->always_resume = a_tri();
    c->n_callbacks = (int)rnd(MOST_CALLBACKS);
    for (int i = 0; i < c->n_callbacks; i++) callbacks[i] = a_callback(0);
    c->callbacks = callbacks;
    if (chance(3)) c->n_extra_callbacks = TP_NONE;
    c->n_monitors = (int)rnd(4);
    for (int i = 0; i < c->n_monitors; i++) monitors[i] = a_monitor();
    c->monitors = c->n_monitors ? monitors : NULL;
    if (!c->n_monitors && chance(2)) c->n_monitors = TP_NONE;
}

static void launch(tp_train_config *c, tp_trainer *t)
{
    setenv("TENSORPACK_PROGRESS_REFRESH", chance(2) ? "0.5" : "2", 1);
    caught err = catch_output(2, "stderr");
    const tp_status st = tp_launch_train_with_config(c, t);
    const char *said = st == TP_OK ? "" : tp_last_error();
    tell("STATUS %s %s\n", tp_status_name(st), said);
    tell_output(&err);
}

static tp_session_config one_thread(void)
{
    tp_session_config c = tp_default_session_config();
    c.threads = 1;
    c.isa = "naive"; /* checkpoints say which one it was */
    return c;
}

enum { SIMPLE, NOOP, QUEUE, REPLICATED, SERVER, ASYNC, MULTI, HOROVOD, DIST_REPLICATED, DIST_SERVER, KINDS };
static tp_trainer *of_devices(int kind)
{
    tp_sync_multi_gpu_trainer_replicated_desc r;
    tp_sync_multi_gpu_trainer_parameter_server_desc p;
    tp_async_multi_gpu_trainer_desc a;
    static const int counts[] = {2, 2, 2, 1, 4, 0, -1};
    static const int devices[] = {0, 1, 2, 3};
    const int n = counts[rnd(careful ? 5 : 7)], *const list = chance(4) && n <= 4 ? devices : NULL;
    memset(&r, 0, sizeof r), memset(&p, 0, sizeof p), memset(&a, 0, sizeof a);
    switch (kind) {
    case REPLICATED:
        r.n_devices = n, r.devices = list, r.average = a_tri();
        r.mode = (tp_all_reduce_mode)rnd(careful ? 4 : 5), r.broadcast_every_epoch = a_tri();
        return tp_sync_multi_gpu_trainer_replicated_(&r);
    case SERVER:
        p.n_devices = n, p.devices = list, p.ps_device = (tp_ps_device)rnd(careful ? 3 : 4);
        return tp_sync_multi_gpu_trainer_parameter_server_(&p);
    case ASYNC: a.n_devices = n, a.devices = list, a.scale_gradient = a_tri(); return tp_async_multi_gpu_trainer_(&a);
    default: return tp_default_multi_gpu_trainer(n, list);
    }
}
static tp_trainer *a_trainer(int kind)
{
    tp_horovod_trainer_desc h;
    tp_distributed_trainer_replicated_desc r;
    tp_distributed_trainer_parameter_server_desc p;
    static const int64_t bytes[] = {0, 1, 1024, -1, INT64_MAX};
    memset(&h, 0, sizeof h), memset(&r, 0, sizeof r), memset(&p, 0, sizeof p);
    switch (kind) {
    case SIMPLE: return tp_simple_trainer();
    case NOOP: return tp_noop_trainer();
    case QUEUE: return tp_queue_input_trainer();
    case HOROVOD:
        h.average = a_tri(), h.compression = (tp_compression)rnd(careful ? 2 : 3), h.deterministic = chance(2);
        h.bucket_bytes = bytes[rnd(careful ? 3 : 5)], h.broadcast_every_epoch = a_tri();
        if (!careful) h.patience = a_number();
        return tp_horovod_trainer_(&h);
    case DIST_REPLICATED: r.n_devices = (int)rnd(4) - 1; return tp_distributed_trainer_replicated_(&r);
    case DIST_SERVER:
        p.n_devices = (int)rnd(4) - 1, p.caching_device = (tp_ps_device)rnd(4);
        return tp_distributed_trainer_parameter_server_(&p);
    default: return of_devices(kind);
    }
}

static void draw_training(int kind)
{
    tp_callback *callbacks[MOST_CALLBACKS];
    tp_monitor *monitors[4];
    tp_train_config c;
    tp_session_config session = one_thread();
    draw_config(&c, callbacks, monitors);
    c.session_config = &session;
    if (chance(4)) write_hyper();
    if (kind == NOOP && c.dataflow) c.data = tp_feed_input(c.dataflow), c.dataflow = NULL;
    launch(&c, a_trainer(kind));
    tell("fields %g %d\n", field_f64, (int)field_i32);
}

enum { LISTS = 200 };
static void some_lists(const char *section, uint64_t seed)
{
    TEST_MAY_ERROR("");
    for (int i = 0; i < LISTS; i++) {
        begin_case(seed + (uint64_t)i);
        careful = !chance(4);
        field_f64 = 1, field_i32 = 2;
        if (careful || !chance(5)) tp_logger_set_dir(case_dir, 'k');
        else tp_logger_set_dir(NULL, 0);
        draw_training(chance(10) ? NOOP : SIMPLE);
        tell_folder(case_dir);
        end_case(section, i);
    }
    end_cases();
    golden_compare("digests_runs.txt", section);
}
TEST(random_lists_of_callbacks)
{
    if (!clock_stands()) TEST_SKIP("needs a clock that can be stopped");
    some_lists("lists", 0);
}
TEST(more_random_lists_of_callbacks)
{
    if (!clock_stands()) TEST_SKIP("needs a clock that can be stopped");
    some_lists("more lists", 1000);
}
TEST(other_random_lists_of_callbacks)
{
    if (!clock_stands()) TEST_SKIP("needs a clock that can be stopped");
    some_lists("other lists", 2000);
}

/* ==== >>resumes ======================================================================================= */

/* Does to a file in the folder what a kill, a human or another program may do. */
static void damage(void)
{
    static const char *const names[] = {"checkpoint",  "stats.json",  "hyper.txt", "model-2.npz", "model-4.npz",
                                        "model-3.npz", "model-6.npz", "log.log",   "min-a.npz"};
    static const char *const texts[] = {
        "",
        "[",
        "[{\"epoch_num\": 7, \"global_step\": 2}]",
        "model_checkpoint_path: \"model-2\"\n",
        "{\"a\": 1}",
        "\n\n",
        "model_checkpoint_path: \"nowhere\"\nall_model_checkpoint_paths: \"model-4\"\n"};
    const char *path = tp_test_path(case_dir, RND_OF(names)), *text = RND_OF(texts);
    const int64_t action = rnd(5), size = rnd(40);
    if (action == 0) rewrite(path, text);
    else if (action == 1 || !tp_file_exists(path)) unlink(path);
    else if (action == 2 && truncate(path, size) != 0) tell("not truncated\n");
    else if (action == 3) {
        rewrite(tp_test_path(case_dir, "checkpoint"), text);
        rewrite(tp_test_path(case_dir, "stats.json"), text);
    }
}

/* Up to three trainings in one folder: the same list of callbacks, or another. */
static void some_resumes(const char *section, uint64_t seed, int n)
{
    TEST_MAY_ERROR("");
    for (int i = 0; i < n; i++) {
        begin_case(seed + (uint64_t)i);
        const int64_t trainings = 2 + rnd(2), other = rnd(4);
        field_f64 = 1, field_i32 = 2;
        for (int64_t k = 0; k < trainings; k++) {
            tp_callback *callbacks[MOST_CALLBACKS];
            tp_monitor *monitors[4];
            tp_train_config c;
            tp_session_config session = one_thread();
            if (other) drawn_seed = seed + (uint64_t)i, n_drawn = 100;
            careful = !chance(8);
            tp_logger_set_dir(case_dir, 'k');
            draw_config(&c, callbacks, monitors);
            c.session_config = &session;
            if (c.n_callbacks < MOST_CALLBACKS) {
                tp_cb_model_saver_desc m;
                memset(&m, 0, sizeof m);
                callbacks[c.n_callbacks++] = tp_cb_model_saver_(&m);
            }
            if (other) drawn_seed = seed + (uint64_t)(100 * k + i), n_drawn = 1000;
            c.auto_resume = chance(6) ? TP_NO : TP_YES;
            if (c.max_epoch > 0) c.max_epoch += k;
            if (chance(4)) c.starting_epoch = 1 + rnd(4);
            if (k > 0 && chance(4)) damage();
            if (chance(6)) c.checkpoint = tp_test_path(case_dir, chance(2) ? "model-2" : "none.npz");
            if (chance(6)) write_hyper();
            if (c.dataflow && chance(4)) c.data = tp_feed_input(c.dataflow), c.dataflow = NULL;
            launch(&c, a_trainer(SIMPLE));
            clock_at += 100;
        }
        tell_folder(case_dir);
        end_case(section, i);
    }
    end_cases();
    golden_compare("digests_runs.txt", section);
}
TEST(random_resumes)
{
    if (!clock_stands()) TEST_SKIP("needs a clock that can be stopped");
    some_resumes("resumes", 5000, 70);
}
TEST(more_random_resumes)
{
    if (!clock_stands()) TEST_SKIP("needs a clock that can be stopped");
    some_resumes("more resumes", 6000, 70);
}

/* ==== >>trainers ====================================================================================== */

/* Threads of queues read the clock: it runs, and times are not told. */
TEST(random_trainers)
{
    TEST_MAY_ERROR("");
    for (int i = 0; i < 150; i++) {
        begin_case(7000 + (uint64_t)i);
        careful = !chance(5);
        clock_at = 0;
        told_times = false;
        field_f64 = 1, field_i32 = 2;
        tp_logger_set_dir(case_dir, 'k');
        draw_training(QUEUE + i % (KINDS - QUEUE));
        tell_folder(case_dir);
        end_case("trainers", i);
    }
    end_cases();
    golden_compare("digests_runs.txt", "trainers");
}

/* The calls of a training in random order, right and wrong. */
static void call_trainer(tp_trainer *t, int64_t call)
{
    static const char *const names[] = {"y", "cost", "none", "half"};
    tp_model m;
    tp_callback *cb[2];
    tp_monitor *mo[1];
    tp_train_desc d;
    tp_status st = TP_OK;
    int n = 0;
    memset(&m, 0, sizeof m), memset(&d, 0, sizeof d);
    m.inputs = inputs, m.n_inputs = chance(20) ? 0 : 1, m.build_graph = build,
    m.optimizer = chance(20) ? NULL : optimizer;
    switch (call) {
    case 0: st = tp_trainer_setup_graph(t, &m, chance(20) ? NULL : tp_feed_input(flow(8))); break;
    case 1:
        cb[0] = a_callback(1), cb[1] = a_callback(1);
        mo[0] = a_monitor();
        st = tp_trainer_setup_callbacks(t, cb, 2, mo, 1);
        break;
    case 2: st = tp_trainer_initialize(t, chance(8) ? tp_saver_restore(tp_test_path(case_dir, "none")) : NULL); break;
    case 3: {
        const int64_t steps = chance(20) ? -1 : rnd(4), first = rnd(3), last = rnd(4);
        st = tp_trainer_main_loop(t, steps, first, last);
        break;
    }
    case 4: st = tp_trainer_register_callback(t, chance(20) ? NULL : a_callback(1)); break;
    case 5: st = tp_trainer_run_step(t); break;
    case 6: {
        const char *in[] = {RND_OF(names)}, *out[] = {RND_OF(names)};
        const bool some = chance(3);
        const int device = (int)rnd(3) - 1;
        st = tp_trainer_get_predictor(t, some ? in : NULL, some ? 1 : 0, out, 1, device) ? TP_OK : TP_ERR;
        break;
    }
    case 7: st = tp_trainer_set_seed(t, (uint64_t)rnd(3)); break;
    case 8:
        d.steps_per_epoch = 1 + rnd(3), d.max_epoch = 1 + rnd(2), d.n_extra_callbacks = chance(2) ? TP_NONE : 0;
        d.n_monitors = TP_NONE;
        st = chance(2) ? tp_train(t, &d) : tp_train_with_defaults(t, &d);
        break;
    default:
        tp_trainer_hooks(t, &n);
        tell("%d hooks, ", n);
        tp_trainer_inputs_desc(t, &n);
        tell("%d inputs, %d towers, %s monitors\n", n, tp_tower_handles_n(tp_trainer_towers(t)),
             tp_trainer_monitors(t) ? "has" : "no");
        break;
    }
    const char *said = st == TP_OK ? "" : tp_last_error();
    tell("CALL %d: %s %s; %lld %lld %lld\n", (int)call, tp_status_name(st), said, (long long)t->state.epoch_num,
         (long long)t->state.global_step, (long long)t->state.local_step);
}
TEST(random_calls_of_a_trainer)
{
    if (!clock_stands()) TEST_SKIP("needs a clock that can be stopped");
    TEST_MAY_ERROR("");
    for (int i = 0; i < 300; i++) {
        begin_case(8000 + (uint64_t)i);
        careful = !chance(6);
        steps_now = 2, nan_at = -1;
        field_f64 = 1, field_i32 = 2;
        tp_logger_set_dir(case_dir, 'k');
        tp_trainer *t = chance(4) ? tp_noop_trainer() : tp_simple_trainer();
        tp_session_config session = one_thread();
        t->creator = tp_new_session_creator(&session);
        caught err = catch_output(2, "stderr");
        int64_t next = 0;
        for (int k = 0; k < 10; k++) {
            const int64_t call = chance(3) ? rnd(10) : next < 4 ? next++ : 5 + rnd(5);
            call_trainer(t, call);
        }
        tp_trainer_free(t);
        tell_output(&err);
        tell_folder(case_dir);
        end_case("calls", i);
    }
    end_cases();
    golden_compare("digests_runs.txt", "calls");
}

/* ==== >>debugger ====================================================================================== */

static const char *a_node(void)
{
    static const char *const of[] = {
        "cost",          "y",     "w",      "x",           "half",   "pic", "ticks",    "tick",      "none", "train_op",
        "learning_rate", "wrong", "MatMul", "global_step", "hidden", "yy",  "EMA/cost", "gradients", ""};
    return RND_OF(of);
}
static void a_command(tp_buf *b)
{
    static const char *const slices[] = {"[0]",
                                         "[:]",
                                         "[1:3]",
                                         "[:, 0]",
                                         "[0, 1]",
                                         "[-1]",
                                         "[9]",
                                         "[",
                                         "[1",
                                         "[a]",
                                         "[0:0]",
                                         "[2:1]",
                                         "[0,0,0]",
                                         "[ 0 , : ]",
                                         "[:2,1:]",
                                         "[]",
                                         "[99999999999999999999]",
                                         "[1:4:2]"};
    static const char *const filters[] = {"has_inf_or_nan", "has_nan", "has_inf", "all_zero", "mine", "none", ""};
    static const char *const counts[] = {"1", "2",  "3", "0", "-1", "99", "x", "1.5", "2 3", "99999999999999999999",
                                         "",  "-n", "-f"};
    static const char *const regexes[] = {".*", "y", "^w$", "(", "cost|half", "W", "gradients", "[a", "zz"};
    static const char *const words[] = {"help", "filters", "h",    "r",       "s",        "n",    "l",
                                        "p",    "save",    "stat", "frob",    "exit",     "quit", "helpme",
                                        "-h",   ";",       "  ",   "run;run", "list list"};
    static const char *const values[] = {"0.5", "1", "x", "", "nan", "1e9", "-2", "1 2"};
    const char *ends[] = {"\n", ";", " ; ", "\n"};
    const bool brief = chance(3);
    const char *node = a_node();
    switch (rnd(13)) {
    case 0: tp_buf_printf(b, "%s %s", brief ? "r" : "run", RND_OF(counts)); break;
    case 1: tp_buf_printf(b, "run -f %s", RND_OF(filters)); break;
    case 2: tp_buf_printf(b, "%s %s", brief ? "s" : "step", RND_OF(counts)); break;
    case 3: tp_buf_printf(b, "to %s", node); break;
    case 4: tp_buf_printf(b, "list %s", RND_OF(regexes)); break;
    case 5: {
        const char *filter = RND_OF(filters), *regex = RND_OF(regexes);
        tp_buf_printf(b, "list -f %s %s", filter, brief ? regex : "");
        break;
    }
    case 6: tp_buf_printf(b, "print %s%s", node, brief ? " -a" : ""); break;
    case 7: tp_buf_printf(b, "%s %s%s", brief ? "p" : "print", node, RND_OF(slices)); break;
    case 8: tp_buf_printf(b, "node %s", node); break;
    case 9: tp_buf_printf(b, "%s %s", brief ? "inputs" : "outputs", node); break;
    case 10: tp_buf_printf(b, "stat %s", brief ? "" : "a"); break;
    case 11: tp_buf_printf(b, "set %s %s", node, RND_OF(values)); break;
    default: tp_buf_printf(b, "%s", RND_OF(words)); break;
    }
    tp_buf_printf(b, "%s", RND_OF(ends));
}
static bool above_one(const tp_node *node, const tp_tensor *value, void *user)
{
    (void)node, (void)user;
    return tp_dtype_is_float(value->dtype) && tp_tensor_size(value) > 0 && tp_tensor_get(value, 0) > 1;
}

static void debug_case(int64_t n)
{
    static const char *const filters[] = {"has_nan", "all_zero", "mine", "has_inf", "has_inf_or_nan", "none"};
    tp_callback *list[3];
    tp_train_config c;
    tp_buf commands, input;
    tp_cb_debug_cli_desc d;
    tp_cb_inject_shell_desc s;
    tp_session_config session = one_thread();
    memset(&c, 0, sizeof c), memset(&commands, 0, sizeof commands), memset(&input, 0, sizeof input);
    memset(&d, 0, sizeof d), memset(&s, 0, sizeof s);
    tp_buf_printf(&commands, " "), tp_buf_printf(&input, "%s", "");
    for (int64_t i = 0; i < n; i++) a_command(&commands);
    for (int64_t i = rnd(8); i-- > 0;) a_command(&input);
    nan_at = chance(3) ? (int)rnd(5) : -1;
    c.model.inputs = inputs, c.model.n_inputs = 1, c.model.build_graph = build, c.model.optimizer = optimizer;
    c.data = tp_feed_input(flow(64));
    c.steps_per_epoch = 2, c.max_epoch = 2;
    c.n_extra_callbacks = c.n_monitors = TP_NONE;
    c.session_config = &session;
    d.commands = chance(5) ? NULL : commands.data;
    if (chance(4)) d.run_filter = RND_OF(filters);
    s.file = tp_test_path(case_dir, "INJECT");
    const bool inject = chance(8);
    if (inject) tp_test_write(s.file, "", 0);
    list[0] = inject ? tp_cb_inject_shell_(&s) : tp_cb_debug_cli_(&d);
    if (!inject) {
        const tp_status st = tp_debug_cli_add_tensor_filter(list[0], "mine", above_one, NULL);
        tell("%s\n", tp_status_name(st));
    }
    list[1] = an_actor("Actor");
    do list[2] = a_saver();
    while (tp_callback_status(list[2]) != TP_OK && (tp_callback_free(list[2]), true));
    c.callbacks = list, c.n_callbacks = 3;
    rewrite(tp_test_path(other_dir, "in"), input.data ? input.data : "");
    const int in = open(tp_test_path(other_dir, "in"), O_RDONLY), saved = dup(0);
    CHECK(in >= 0 && saved >= 0 && dup2(in, 0) == 0);
    close(in);
    clearerr(stdin);
    setvbuf(stdin, NULL, _IONBF, 0);
    caught out = catch_output(1, "stdout");
    launch(&c, tp_simple_trainer());
    tell_output(&out);
    dup2(saved, 0);
    close(saved);
    tp_buf_free(&commands);
    tp_buf_free(&input);
}
static void some_scripts(const char *section, uint64_t seed)
{
    if (!clock_stands()) TEST_SKIP("needs a clock that can be stopped");
    TEST_MAY_ERROR("");
    for (int i = 0; i < 150; i++) {
        begin_case(seed + (uint64_t)i);
        careful = true;
        steps_now = 2;
        tp_logger_set_dir(case_dir, 'k');
        debug_case(1 + rnd(16));
        tell_folder(case_dir);
        end_case(section, i);
    }
    end_cases();
    golden_compare("digests_runs.txt", section);
}
TEST(random_commands_of_the_debugger) { some_scripts("commands", 9000); }
TEST(more_random_commands_of_the_debugger) { some_scripts("more commands", 10000); }

/* ==== >>by hand ======================================================================================= */

static tp_status one_hook(tp_callback *cb, int64_t hook, tp_run_request *r)
{
    switch (hook) {
    case 0: return tp_callback_before_epoch(cb);
    case 1: return r ? tp_callback_before_run(cb, r) : TP_OK;
    case 2: return tp_callback_trigger_step(cb);
    case 3: return tp_callback_after_epoch(cb);
    case 4: return tp_callback_trigger_epoch(cb);
    case 5: return tp_callback_trigger(cb);
    default: return tp_callback_before_train(cb);
    }
}
static bool tell_hook(tp_callback *cb, int64_t hook)
{
    const tp_train_state *t = cb->train;
    const tp_status st = one_hook(cb, hook, NULL);
    tell("%d at %lld %lld: %s %s; %.17g %d\n", (int)hook, (long long)t->epoch_num, (long long)t->global_step,
         tp_status_name(st), st < 0 ? tp_last_error() : t->stop_reason, field_f64, (int)field_i32);
    return st == TP_OK;
}
static void report_some(tp_monitors *m, int64_t pattern)
{
    static const char *const names[] = {"a", "b", "cost", "validation_error", "val_precision", "learning_rate"};
    static const double values[] = {0, 0.25, 0.5, 1, -1, 0.5, 2, 1e300, -0.0, 0.125};
    for (int64_t i = rnd(4); i-- > 0;) {
        const char *name = RND_OF(names);
        const double v = pattern < 2 && chance(10) ? NAN : RND_OF(values);
        if (chance(5)) tp_monitors_put_int(m, name, (int64_t)rnd(9) - 4);
        else tp_monitors_put_scalar(m, name, v);
    }
}
static void tell_state(tp_callback *cb, tp_dict *d)
{
    const tp_status st = tp_callback_save_state(cb, d, "p/");
    tell("saved %s %s\n", tp_status_name(st), st == TP_OK ? "" : tp_last_error());
    for (int i = 0; i < d->n; i++) tell_tensor(d->item[i].name, &d->item[i].value);
}

/* Some epochs of a callback that is called by hand; saved after one of them and gone on with as another one of the same kind. */
static void hand_case(uint64_t seed)
{
    static const int64_t starts[] = {0, 0, 0, 1, 2, 5}, sizes[] = {1, 2, 3, 2, 0, 5};
    tp_train_state t;
    tp_dict state;
    memset(&t, 0, sizeof t), memset(&state, 0, sizeof state);
    tp_monitors *m = tp_monitors_new(NULL, 0);
    t.monitors = m;
    t.epoch_num = RND_OF(starts);
    t.steps_per_epoch = steps_now = RND_OF(sizes);
    t.starting_epoch = t.epoch_num + 1, t.max_epoch = t.epoch_num + 1 + rnd(8);
    t.global_step = chance(3) ? rnd(9) : 0;
    t.local_step = -1;
    t.is_chief = true;
    t.resumed = chance(4);
    const int64_t pattern = rnd(4), resume_at = chance(3) ? t.epoch_num + 1 + rnd(4) : -1;
    const uint32_t drawn = n_drawn;
    if (chance(2)) write_hyper();
    tp_callback *cb = a_callback(0);
    tp_status st = tp_callback_setup_graph(cb, &t);
    bool on = st == TP_OK;
    tell("%s '%s' %d: %s %s\n", cb->name, cb->id ? cb->id : "", cb->chief_only, tp_status_name(st),
         on ? "" : tp_last_error());
    on = on && tell_hook(cb, 6);
    for (t.epoch_num++; on && t.epoch_num <= t.max_epoch; t.epoch_num++) {
        on = tell_hook(cb, 0);
        for (t.local_step = 0; on && t.local_step < t.steps_per_epoch; t.local_step++) {
            t.global_step++;
            clock_at += 0.5;
            if (chance(3)) report_some(m, pattern);
            on = tell_hook(cb, 2);
        }
        t.local_step--;
        on = on && tell_hook(cb, 3);
        report_some(m, pattern);
        on = on && tell_hook(cb, chance(6) ? 5 : 4);
        if (chance(4)) write_hyper();
        if (!on || t.epoch_num != resume_at) continue;
        tell_state(cb, &state);
        tp_callback_free(cb);
        drawn_seed = seed, n_drawn = drawn + 1;
        cb = a_callback(0);
        st = tp_callback_setup_graph(cb, &t);
        if (st == TP_OK) st = tp_callback_load_state(cb, &state, chance(8) ? "q/" : "p/");
        cb->resumed = t.resumed = true;
        tell("again: %s\n", tp_status_name(st));
        on = st == TP_OK && tell_hook(cb, 6);
    }
    st = tp_callback_after_train(cb);
    tell("end: %s %s\n", tp_status_name(st), cb->unsaved ? cb->unsaved : "");
    tp_dict_free(&state);
    memset(&state, 0, sizeof state);
    if (cb->train) tell_state(cb, &state);
    tp_dict_free(&state);
    tp_callback_free(cb);
    tp_callback_free(&m->cb);
}
static void some_by_hand(const char *section, uint64_t seed)
{
    if (!clock_stands()) TEST_SKIP("needs a clock that can be stopped");
    TEST_MAY_ERROR("");
    by_hand = true;
    for (int i = 0; i < 700; i++) {
        begin_case(seed + (uint64_t)i);
        careful = !chance(4);
        field_f64 = 1, field_i32 = 2;
        unlink(tp_test_path(case_dir, "hyper.txt"));
        if (i == 0) tp_logger_set_dir(case_dir, 'k');
        same_folder = true;
        hand_case(seed + (uint64_t)i);
        end_case(section, i);
    }
    by_hand = false;
    end_cases();
    golden_compare("digests_runs.txt", section);
}
TEST(callbacks_by_hand) { some_by_hand("hand", 20000); }
TEST(more_callbacks_by_hand) { some_by_hand("more hand", 30000); }

TEST_MAIN()
