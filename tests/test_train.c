/* The training loop, callbacks, monitors and savers against golden values of the original's own loop. */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_test.h"
#include <signal.h>
#include <sys/resource.h>

/* -- a model of one number, so that nothing but the loop is tested */

static tp_node *build(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape_n(0, NULL), tp_init_constant(0));
    tp_node *cost = tp_named(tp_mean(tp_square(tp_sub(in[0], w))), "cost");
    tp_named(tp_greater(in[0], tp_const(g, 0.5f)), "wrong");
    tp_add_moving_summary_n(&cost, 1, NULL);
    return cost;
}
static tp_node *build_vector(tp_graph *g, tp_node *const *in, void *user)
{
    (void)build(g, in, user);
    return in[0];
}
static tp_node *build_null(tp_graph *g, tp_node *const *in, void *user)
{
    (void)build(g, in, user);
    return NULL;
}
static tp_optimizer *sgd(tp_graph *g, void *user)
{
    tp_optimizer_desc d;
    (void)user;
    memset(&d, 0, sizeof d);
    d.learning_rate = tp_get_scalar_variable(g, "learning_rate", 1.0f);
    return tp_sgd_(&d);
}
/* batches of 4, 4, ..., the last of 1 with .size 5 batches of the generator below */
static tp_status point(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    (void)user, (void)pass;
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape_n(0, NULL));
    if (st == TP_OK) *(float *)dp->c[0].data = i == 0 || i == 4 ? 1.0f : 0.0f;
    return st;
}
static tp_dataflow *flow(int64_t n, int64_t batch)
{
    tp_df_from_generator_desc d;
    tp_df_batch_desc b;
    memset(&d, 0, sizeof d);
    memset(&b, 0, sizeof b);
    d.fn = point;
    d.size = n;
    d.indexed = TP_YES;
    b.df = tp_df_from_generator_(&d);
    b.batch_size = batch;
    b.remainder = TP_YES;
    return tp_df_batch_(&b);
}

static const int64_t any_dim[1] = {TP_ANY};
static tp_spec the_spec(void)
{
    tp_spec s;
    s.name = "x";
    s.dtype = TP_F32;
    s.shape = tp_make_shape_n(1, any_dim);
    return s;
}
static tp_spec spec_room;
static tp_model model(void)
{
    tp_model m;
    memset(&m, 0, sizeof m);
    spec_room = the_spec();
    m.inputs = &spec_room;
    m.n_inputs = 1;
    m.build_graph = build;
    m.optimizer = sgd;
    return m;
}

static int warnings;
static char last_error_line[2048];
static void quiet(void *user, tp_log_level level, const char *message)
{
    (void)user;
    if (level == TP_LOG_WARN) warnings++;
    if (level == TP_LOG_ERROR) snprintf(last_error_line, sizeof last_error_line, "%s", message);
}

/* Run a training with these callbacks and monitors only. */
static tp_status run(tp_trainer *t, tp_callback *const *cb, int n, tp_callback *const *mon, int n_mon, int64_t steps, int64_t first, int64_t last)
{
    tp_train_config c;
    memset(&c, 0, sizeof c);
    tp_set_log(quiet, NULL);
    c.model = model();
    c.dataflow = flow(8, 4);
    c.callbacks = cb;
    c.n_callbacks = n;
    c.n_extra_callbacks = TP_NONE;
    c.monitors = mon;
    c.n_monitors = mon ? n_mon : TP_NONE;
    c.steps_per_epoch = steps ? steps : TP_NO_STEPS;
    c.starting_epoch = first;
    c.max_epoch = last;
    const tp_status st = tp_launch_train_with_config(&c, t);
    tp_set_log(NULL, NULL);
    return st;
}

/* -- a callback that writes down what it sees */

typedef struct recorder {
    tp_callback base;
    char tag;
    tp_status fail_before_train, in_step;
    int64_t at_step; /* in_step is returned when global_step is this */
    bool interrupt;
} recorder;
static char record[8192];
static void note(const tp_callback *cb, const char *what)
{
    const tp_train_state *t = cb->train;
    const size_t n = strlen(record);
    snprintf(record + n, sizeof record - n, "%c.%s(e%lld g%lld l%lld) ", ((const recorder *)(const void *)cb)->tag, what, (long long)t->epoch_num, (long long)t->global_step,
             (long long)t->local_step);
}
static tp_status r_setup(tp_callback *cb) { return note(cb, "setup"), TP_OK; }
static tp_status r_before_train(tp_callback *cb)
{
    note(cb, "before_train");
    const tp_status st = ((recorder *)(void *)cb)->fail_before_train;
    return st < 0 ? tp_fail(st, "the recorder fails as it was told") : st;
}
static tp_status r_before_epoch(tp_callback *cb) { return note(cb, "before_epoch"), TP_OK; }
static tp_status r_before_run(tp_callback *cb, tp_run_request *r) { return (void)r, note(cb, "before_run"), TP_OK; }
static tp_status r_after_run(tp_callback *cb, const tp_run_values *v) { return (void)v, note(cb, "after_run"), TP_OK; }
static tp_status r_step(tp_callback *cb)
{
    recorder *r = (recorder *)(void *)cb;
    note(cb, "step");
    if (r->at_step != cb->train->global_step) return TP_OK;
    if (r->interrupt) raise(SIGINT);
    return r->in_step == TP_STOP ? tp_stop_training(cb, "enough") : r->in_step;
}
static tp_status r_after_epoch(tp_callback *cb) { return note(cb, "after_epoch"), TP_OK; }
static tp_status r_trigger(tp_callback *cb) { return note(cb, "trigger"), TP_OK; }
static tp_status r_after_train(tp_callback *cb) { return note(cb, "after_train"), TP_OK; }
static recorder *recorder_new(char tag)
{
    recorder *r = (recorder *)(void *)tp_callback_new("Recorder", sizeof *r);
    r->tag = tag;
    r->base.setup_graph = r_setup;
    r->base.before_train = r_before_train;
    r->base.before_epoch = r_before_epoch;
    r->base.before_run = r_before_run;
    r->base.after_run = r_after_run;
    r->base.trigger_step = r_step;
    r->base.after_epoch = r_after_epoch;
    r->base.trigger = r_trigger;
    r->base.after_train = r_after_train;
    r->at_step = -1;
    record[0] = 0;
    return r;
}

TEST(counters_are_the_originals)
{
    tp_callback *cb = &recorder_new('A')->base;
    CHECK_OK(run(tp_simple_trainer(), &cb, 1, NULL, 0, 2, 1, 2));
    CHECK_STR(record, "A.setup(e0 g0 l-1) A.before_train(e0 g0 l-1) "
                      "A.before_epoch(e1 g0 l-1) A.before_run(e1 g0 l0) A.after_run(e1 g1 l0) A.step(e1 g1 l0) A.before_run(e1 g1 l1) A.after_run(e1 g2 l1) A.step(e1 g2 l1) "
                      "A.after_epoch(e1 g2 l1) A.trigger(e1 g2 l1) "
                      "A.before_epoch(e2 g2 l1) A.before_run(e2 g2 l0) A.after_run(e2 g3 l0) A.step(e2 g3 l0) A.before_run(e2 g3 l1) A.after_run(e2 g4 l1) A.step(e2 g4 l1) "
                      "A.after_epoch(e2 g4 l1) A.trigger(e2 g4 l1) A.after_train(e2 g4 l1) ");
}

TEST(two_callbacks_interleave)
{
    tp_callback *cb[2];
    cb[0] = &recorder_new('A')->base, cb[1] = &recorder_new('B')->base;
    CHECK_OK(run(tp_noop_trainer(), cb, 2, NULL, 0, 1, 1, 1));
    CHECK_HAS(record, "A.before_run(e1 g0 l0) B.before_run(e1 g0 l0) A.after_run(e1 g1 l0) B.after_run(e1 g1 l0) A.step(e1 g1 l0) B.step(e1 g1 l0) "
                      "A.after_epoch(e1 g1 l0) B.after_epoch(e1 g1 l0) A.trigger(e1 g1 l0) B.trigger(e1 g1 l0) A.after_train(e1 g1 l0) B.after_train(e1 g1 l0) ");
}

TEST(stop_training_skips_the_rest_but_after_train)
{
    tp_callback *cb[2];
    recorder *r = recorder_new('A');
    r->in_step = TP_STOP;
    r->at_step = 1;
    cb[0] = &r->base, cb[1] = &recorder_new('B')->base;
    CHECK_OK(run(tp_simple_trainer(), cb, 2, NULL, 0, 3, 1, 2));
    CHECK_HAS(record, "A.step(e1 g1 l0) A.after_train(e1 g1 l0) B.after_train(e1 g1 l0) ");
    CHECK(strstr(record, "trigger") == NULL);
}

TEST(a_failing_before_train_still_reaches_after_train)
{
    tp_callback *cb[2];
    recorder *r = recorder_new('A');
    r->fail_before_train = TP_ERR_STATE;
    cb[0] = &r->base, cb[1] = &recorder_new('B')->base;
    CHECK_ERR(run(tp_simple_trainer(), cb, 2, NULL, 0, 3, 1, 2), TP_ERR_STATE, "as it was told");
    CHECK_HAS(record, "A.before_train(e0 g0 l-1) A.after_train(e0 g0 l-1) B.after_train(e0 g0 l-1) ");
    CHECK_HAS(last_error_line, "Training failed at global_step=0");
}

static int interrupts;
static void mine(int sig) { interrupts += sig == SIGINT; }
TEST(ctrl_c_ends_training_and_gives_the_handler_back)
{
    recorder *r = recorder_new('A');
    tp_callback *cb = &r->base;
    r->interrupt = true;
    r->at_step = 2;
    signal(SIGINT, mine);
    CHECK(run(tp_simple_trainer(), &cb, 1, NULL, 0, 5, 1, 9) == TP_INTR);
    CHECK_HAS(record, "A.step(e1 g2 l1) A.after_train(e1 g2 l1) ");
    raise(SIGINT);
    CHECK(interrupts == 1);
    signal(SIGINT, SIG_DFL);
}

TEST(odd_epoch_counts)
{
    tp_callback *cb = &recorder_new('A')->base;
    CHECK_OK(run(tp_noop_trainer(), &cb, 1, NULL, 0, 2, 5, 3));
    CHECK_STR(record, "A.setup(e0 g0 l-1) A.before_train(e4 g0 l-1) A.after_train(e4 g0 l-1) ");
    cb = &recorder_new('A')->base;
    CHECK_OK(run(tp_noop_trainer(), &cb, 1, NULL, 0, 0, 1, 1));
    CHECK_HAS(record, "A.before_epoch(e1 g0 l-1) A.after_epoch(e1 g0 l-1) A.trigger(e1 g0 l-1) ");
}

TEST(periodic_callbacks_keep_the_golden_traces)
{
    tp_cb_periodic_desc d;
    memset(&d, 0, sizeof d);
    d.every_k_steps = 3;
    d.callback = &recorder_new('A')->base;
    tp_callback *cb = tp_cb_periodic_trigger_(&d);
    CHECK_OK(run(tp_noop_trainer(), &cb, 1, NULL, 0, 4, 1, 2));
    CHECK_HAS(record, "A.trigger(e1 g3 l2)");
    CHECK_HAS(record, "A.trigger(e2 g6 l1)");
    CHECK(strstr(record, "trigger(e1 g4") == NULL && strstr(record, "trigger(e2 g8") == NULL);
    memset(&d, 0, sizeof d);
    d.every_k_epochs = 2;
    d.before_train = TP_YES;
    d.callback = &recorder_new('A')->base;
    cb = tp_cb_periodic_trigger_(&d);
    CHECK_OK(run(tp_noop_trainer(), &cb, 1, NULL, 0, 2, 1, 5));
    CHECK_HAS(record, "A.trigger(e0 g0 l-1)");
    CHECK_HAS(record, "A.trigger(e2 g4 l1)");
    CHECK_HAS(record, "A.trigger(e4 g8 l1)");
    CHECK(strstr(record, "trigger(e5") == NULL && strstr(record, "trigger(e1") == NULL);
    memset(&d, 0, sizeof d);
    d.every_k_epochs = 2;
    d.callback = &recorder_new('A')->base;
    cb = tp_cb_periodic_callback_(&d);
    CHECK_OK(run(tp_noop_trainer(), &cb, 1, NULL, 0, 2, 1, 3));
    CHECK_STR(strstr(record, "A.before_epoch"), "A.before_epoch(e2 g2 l1) A.before_run(e2 g2 l0) A.after_run(e2 g3 l0) A.step(e2 g3 l0) A.before_run(e2 g3 l1) A.after_run(e2 g4 l1) "
                                                "A.step(e2 g4 l1) A.after_epoch(e2 g4 l1) A.trigger(e2 g4 l1) A.before_epoch(e3 g4 l1) A.before_run(e3 g5 l1) A.after_run(e3 g6 l1) "
                                                "A.step(e3 g6 l1) A.after_epoch(e3 g6 l1) A.trigger(e3 g6 l1) A.after_train(e3 g6 l1) ");
    memset(&d, 0, sizeof d);
    d.callback = &recorder_new('A')->base;
    cb = tp_cb_periodic_trigger_(&d);
    CHECK_ERR(run(tp_noop_trainer(), &cb, 1, NULL, 0, 2, 1, 3), TP_ERR_ARG, "without a period");
}

TEST(times_are_humane)
{
    static const struct { double s; const char *t; } rows[] = {{1, "1 second"}, {61, "1 minute 1 second"}, {87.6, "1 minute 27 seconds"}, {0.01, "0.01 second"}, {0.5, "0.5 second"},
        {1.25, "1.25 seconds"}, {59.96, "60 seconds"}, {60, "1 minute"}, {3600, "1 hour"}, {118923, "1 day 9 hours 2 minutes 3 seconds"}, {0, "0 second"}};
    char buf[96];
    for (int i = 0; i < TP_COUNT(rows); i++) CHECK_STR(tp_humanize_time(rows[i].s, buf, sizeof buf), rows[i].t);
}

/* -- setters: each set is written down as (epoch, step, value) */

static char sets[4096];
static tp_status logged_get(tp_param *p, double *v) { return *v = *(double *)p->user, TP_OK; }
static tp_status logged_set(tp_param *p, double v)
{
    const size_t n = strlen(sets);
    *(double *)p->user = v;
    snprintf(sets + n, sizeof sets - n, "(%lld,%lld,%.15g)", (long long)p->train->epoch_num, (long long)p->train->global_step, v);
    return TP_OK;
}
static double parameter;
static tp_param logged(double start)
{
    tp_param p = tp_param_field("p", &parameter);
    parameter = start;
    sets[0] = 0;
    p.get = logged_get;
    p.set = logged_set;
    return p;
}
typedef struct schedule_case {
    tp_schedule_point point[4];
    int n, linear, step_based, set_at_beginning;
    int64_t steps, first, last;
    double start;
    const char *want;
} schedule_case;

TEST(schedules_set_the_golden_values)
{
    static const schedule_case rows[] = {
        {{{0, .1}, {2, .05}, {4, .01}}, 3, 0, 0, 0, 2, 1, 6, 1, "(0,0,0.1)(2,4,0.05)(4,8,0.01)"},
        {{{0, 1.0}, {4, 0.2}}, 2, TP_YES, 0, 0, 2, 1, 5, 1, "(0,0,1)(1,2,0.8)(2,4,0.6)(3,6,0.4)(4,8,0.2)"},
        {{{3, .1}, {6, .4}}, 2, TP_YES, TP_YES, 0, 4, 1, 2, 1, "(1,3,0.1)(1,4,0.2)(2,5,0.3)(2,6,0.4)"},
        {{{10, .3}, {20, .4}, {30, .5}}, 3, 0, 0, TP_NO, 1, 90, 92, 1, ""},
        {{{10, .3}, {20, .4}, {30, .5}}, 3, 0, 0, 0, 1, 90, 92, 1, "(89,0,0.5)"},
        {{{1, .1}, {2, 0.0}}, 2, 0, 0, 0, 1, 4, 5, 0.0, ""}, /* a scheduled zero counts */
    };
    for (int i = 0; i < TP_COUNT(rows); i++) {
        tp_cb_scheduled_hyper_param_setter_desc d;
        memset(&d, 0, sizeof d);
        d.param = logged(rows[i].start);
        d.n = rows[i].n;
        for (int k = 0; k < d.n; k++) d.schedule[k] = rows[i].point[k];
        d.linear = rows[i].linear;
        d.step_based = rows[i].step_based;
        d.set_at_beginning = rows[i].set_at_beginning;
        tp_callback *cb = tp_cb_scheduled_hyper_param_setter_(&d);
        CHECK_OK(run(tp_noop_trainer(), &cb, 1, NULL, 0, rows[i].steps, rows[i].first, rows[i].last));
        CHECK_STR(sets, rows[i].want);
    }
}

static double nine_tenths(int64_t epoch, double v, void *user) { return (void)user, epoch % 2 == 0 ? v * 0.9 : v; }
TEST(other_setters_set_the_golden_values)
{
    tp_callback *cb[2];
    cb[0] = tp_cb_hyper_param_setter_with_func(logged(1), nine_tenths, NULL);
    CHECK_OK(run(tp_noop_trainer(), cb, 1, NULL, 0, 1, 1, 4));
    CHECK_STR(sets, "(0,0,0.9)(1,1,0.9)(2,2,0.81)(3,3,0.81)(4,4,0.729)");
    cb[0] = tp_cb_hyper_param_setter_with_func(tp_param_graph_var("no_such"), nine_tenths, NULL);
    CHECK_ERR(run(tp_noop_trainer(), cb, 1, NULL, 0, 1, 1, 1), TP_ERR_NAME, "is not a variable in the graph");
    /* hyper.txt */
    static const struct { const char *text; double want; } files[] = {{"lr:0.5", .5}, {"lr: 0.25\nmom:0.9", .25}, {" lr:0.5", .5}, {"lr:0.5\nlr:0.7", .7}, {"lr:1e-4", 1e-4},
        {"lr:0.5\n\n", 1}, {"lr :0.5", 1}, {"#c\nlr:0.5", 1}, {"lr=0.5", 1}, {"lr:abc", 1}};
    char dir[900], path[1000];
    snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
    snprintf(path, sizeof path, "%s/hyper.txt", dir);
    tp_set_log(quiet, NULL);
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    for (int i = 0; i < TP_COUNT(files); i++) {
        FILE *f = fopen(path, "w");
        fputs(files[i].text, f);
        fclose(f);
        tp_param p = logged(1);
        p.name = "lr";
        cb[0] = tp_cb_human_hyper_param_setter(p, NULL);
        CHECK_OK(run(tp_noop_trainer(), cb, 1, NULL, 0, 1, 1, 1));
        CHECK_NEAR(parameter, files[i].want, 0, 0);
    }
    tp_logger_set_dir(NULL, 0);
}

/* -- statistics: a callback that puts err[epoch-1]; 99 is "nothing" */

static const double *errors;
static tp_status put_error(tp_callback *cb)
{
    const double e = errors[cb->train->epoch_num - 1];
    return e == 99 ? TP_OK : tp_put_scalar(cb->train->monitors, "err", e);
}
static tp_callback *statistic(const double *values)
{
    tp_cb_lambda_desc d;
    memset(&d, 0, sizeof d);
    d.trigger = put_error;
    errors = values;
    return tp_cb_lambda_(&d);
}
static tp_status halve(double *v, void *user) { return (void)user, *v /= 2, TP_OK; }
static void stat_setter(const double *values, int epochs, double threshold, int reverse, const char *want)
{
    tp_callback *cb[2];
    tp_cb_stat_monitor_param_setter_desc d;
    memset(&d, 0, sizeof d);
    d.param = logged(1);
    d.stat_name = "err";
    d.value_fn = halve;
    d.threshold = threshold;
    d.last_k = 3;
    d.reverse = reverse;
    cb[0] = statistic(values), cb[1] = tp_cb_stat_monitor_param_setter_(&d);
    CHECK_OK(run(tp_noop_trainer(), cb, 2, NULL, 0, 1, 1, epochs));
    CHECK_STR(sets, want);
}
TEST(stat_monitor_waits_for_no_progress)
{
    const double a[] = {5, 4, 3, 2, 2, 2, 2, 2, 2}, b[] = {5, 5, 5, 5, 5, 5, 5, 5}, c[] = {5, 4.95, 4.9, 4.85, 4.8, 4.75, 4.7}, d[] = {5, 99, 5, 99, 5, 5};
    const double e[] = {.1, .2, .3, .3, .3, .3, .3, .4};
    stat_setter(a, 9, 0, 0, "(6,6,0.5)(9,9,0.25)");
    stat_setter(b, 8, 0, 0, "(3,3,0.5)(6,6,0.25)");
    stat_setter(c, 7, .2, 0, "(3,3,0.5)(6,6,0.25)");
    stat_setter(d, 6, 0, 0, "(5,5,0.5)");
    stat_setter(e, 8, 0, TP_YES, "(5,5,0.5)");
}

/* -- stats.json, byte for byte */

static tp_status golden_before(tp_callback *cb) { return cb->train->starting_epoch == 1 ? tp_put_scalar(cb->train->monitors, "pre", 0.5) : TP_OK; }
static tp_status golden_step(tp_callback *cb) { return cb->train->global_step <= 2 ? tp_put_integer(cb->train->monitors, "s", 10 * cb->train->global_step) : TP_OK; }
static tp_status golden_trigger(tp_callback *cb)
{
    const tp_status st = tp_put_scalar(cb->train->monitors, "tower0/val_error-summary", 1.0 / (double)cb->train->epoch_num);
    return st == TP_OK ? tp_put_integer(cb->train->monitors, "n", cb->train->epoch_num) : st;
}
static tp_status json_run(int64_t first, int64_t last)
{
    tp_callback *cb = tp_callback_new("Golden", 0), *mon[3];
    tp_monitor_tf_event_writer_desc ed;
    tp_monitor_scalar_printer_desc pd;
    memset(&ed, 0, sizeof ed);
    memset(&pd, 0, sizeof pd);
    cb->before_train = golden_before;
    cb->trigger_step = golden_step;
    cb->trigger = golden_trigger;
    mon[0] = tp_monitor_json_writer(), mon[1] = tp_monitor_tf_event_writer_(&ed), mon[2] = tp_monitor_scalar_printer_(&pd);
    return run(tp_noop_trainer(), &cb, 1, mon, 3, 2, first, last);
}
TEST(stats_json_is_the_golden_text)
{
    char dir[900], path[1000], *text = NULL;
    size_t n = 0;
    int64_t epoch = 0;
    snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
    snprintf(path, sizeof path, "%s/stats.json", dir);
    tp_set_log(quiet, NULL);
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    CHECK_OK(json_run(1, 2));
    CHECK_OK(tp_file_read(path, false, 0, &text, &n));
    CHECK_STR(text, "[{\"pre\": 0.5, \"epoch_num\": 0, \"global_step\": 0}, {\"s\": 10, \"epoch_num\": 1, \"global_step\": 1}, {\"s\": 20, \"val_error\": 1.0, \"n\": 1, "
                    "\"epoch_num\": 1, \"global_step\": 2}, {\"val_error\": 0.5, \"n\": 2, \"epoch_num\": 2, \"global_step\": 4}]");
    tp_free(text);
    CHECK_OK(tp_load_existing_epoch_number(dir, &epoch));
    CHECK(epoch == 2);
    CHECK_OK(json_run(3, 3)); /* goes on behind it */
    CHECK_OK(tp_file_read(path, false, 0, &text, &n));
    CHECK_HAS(text, "\"global_step\": 4}, {\"s\": 10, \"epoch_num\": 3");
    CHECK_HAS(text, "\"val_error\": 0.3333333333333333, \"n\": 3, \"epoch_num\": 3");
    tp_free(text);
    CHECK_OK(json_run(1, 1)); /* does not: the old one is moved away */
    CHECK_OK(tp_file_read(path, false, 0, &text, &n));
    CHECK(strstr(text, "\"epoch_num\": 3") == NULL);
    tp_free(text);
    FILE *f = fopen(path, "w");
    fputs("[{\"a\": 1}, oops]", f);
    fclose(f);
    CHECK_ERR(json_run(1, 1), TP_ERR_FORMAT, "is no JSON");
    tp_logger_set_dir(NULL, 0);
}

/* -- savers */

static tp_callback *saver(const char *dir, int keep)
{
    tp_cb_model_saver_desc d;
    memset(&d, 0, sizeof d);
    d.checkpoint_dir = dir;
    d.max_to_keep = keep;
    return tp_cb_model_saver_(&d);
}
static tp_callback *best(const char *dir, bool max)
{
    tp_cb_best_saver_desc d;
    memset(&d, 0, sizeof d);
    d.monitor_stat = "err";
    d.checkpoint_dir = dir;
    return max ? tp_cb_max_saver_(&d) : tp_cb_min_saver_(&d);
}
static int64_t step_of(const char *dir, const char *file)
{
    char path[1100];
    tp_dict d;
    int64_t step = -1;
    memset(&d, 0, sizeof d);
    snprintf(path, sizeof path, "%s/%s", dir, file);
    if (tp_npz_load(path, &d) == TP_OK) {
        const tp_tensor *t = tp_dict_find(&d, "global_step");
        if (t) step = (int64_t)tp_tensor_get(t, 0);
    }
    tp_dict_free(&d);
    return step;
}
TEST(checkpoints_rotate_and_the_best_is_kept)
{
    static const double err[] = {.5, .4, .6, .3, .3};
    char dir[900];
    tp_callback *cb[4];
    tp_checkpoint_entry *e = NULL;
    int n = 0;
    snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
    cb[0] = saver(dir, 2), cb[1] = statistic(err), cb[2] = best(dir, false), cb[3] = best(dir, true);
    CHECK_OK(run(tp_simple_trainer(), cb, 4, NULL, 0, 10, 1, 5));
    CHECK_OK(tp_get_all_checkpoints(dir, "model", &e, &n));
    CHECK(n == 2 && e[0].step == 40 && e[1].step == 50);
    tp_free(e);
    CHECK(step_of(dir, "min-err.npz") == 40); /* an equal value does not replace */
    CHECK(step_of(dir, "max-err.npz") == 30);
    snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
    cb[0] = best(dir, false), cb[1] = saver(dir, 0), cb[2] = statistic(err); /* the wrong order: one epoch late, but consistent */
    CHECK_OK(run(tp_simple_trainer(), cb, 3, NULL, 0, 10, 1, 3));
    CHECK(step_of(dir, "min-err.npz") == 20);
    snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
    cb[0] = statistic(err), cb[1] = best(dir, false);
    CHECK_ERR(run(tp_simple_trainer(), cb, 2, NULL, 0, 10, 1, 3), TP_ERR_STATE, "Do you forget to use ModelSaver?");
}

static tp_status fill_disk(tp_callback *cb)
{
    struct rlimit l;
    l.rlim_cur = cb->train->epoch_num == 1 ? 200 : RLIM_INFINITY; /* the next file may have 200 bytes */
    l.rlim_max = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &l);
    return TP_OK;
}
TEST(a_full_disk_costs_one_checkpoint_and_nothing_else)
{
    char dir[900];
    tp_callback *cb[2];
    tp_cb_lambda_desc d;
    tp_checkpoint_entry *e = NULL;
    int n = 0;
    memset(&d, 0, sizeof d);
    d.trigger = fill_disk;
    snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
    signal(SIGXFSZ, SIG_IGN);
    cb[0] = saver(dir, 0), cb[1] = tp_cb_lambda_(&d);
    last_error_line[0] = 0;
    CHECK_OK(run(tp_simple_trainer(), cb, 2, NULL, 0, 5, 1, 3));
    CHECK_HAS(last_error_line, "could not be saved");
    CHECK_OK(tp_get_all_checkpoints(dir, "model", &e, &n));
    CHECK(n == 2 && e[0].step == 5 && e[1].step == 15);
    CHECK(step_of(dir, "model-5.npz") == 5);
    tp_free(e);
    char command[1100];
    snprintf(command, sizeof command, "ls %s | grep -c tmp >/dev/null", dir);
    CHECK(system(command) != 0); /* nothing half-written stays */
}

/* -- inference */

TEST(inferencers_aggregate)
{
    tp_inf_scalar_stats_desc sd;
    tp_inf_classification_error_desc cd;
    tp_cb_inference_runner_desc d;
    tp_callback *cb[2], *mon = tp_monitor_json_writer();
    char dir[900], path[1000], *text = NULL;
    size_t n = 0;
    memset(&sd, 0, sizeof sd);
    memset(&cd, 0, sizeof cd);
    memset(&d, 0, sizeof d);
    snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
    snprintf(path, sizeof path, "%s/stats.json", dir);
    tp_set_log(quiet, NULL);
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    sd.names[0] = "cost";
    cd.wrong_tensor_name = "wrong";
    d.dataflow = flow(5, 4); /* {1,0,0,0} and {1} */
    d.inferencers[0] = tp_inf_scalar_stats_(&sd);
    d.inferencers[1] = tp_inf_classification_error_(&cd);
    d.inferencers[2] = tp_inf_binary_classification("wrong", "wrong", NULL);
    cb[0] = tp_cb_inference_runner_(&d);
    CHECK_OK(run(tp_noop_trainer(), cb, 1, &mon, 1, 1, 1, 1));
    CHECK_OK(tp_file_read(path, false, 0, &text, &n));
    CHECK_HAS(text, "\"validation_cost\": 0.625"); /* the mean over batches */
    CHECK_HAS(text, "\"validation_error\": 0.4");  /* over datapoints */
    CHECK_HAS(text, "\"val_precision\": 1.0");
    tp_free(text);
    tp_logger_set_dir(NULL, 0);
}

static double largest;
static tp_status my_before(tp_inferencer *i) { return (void)i, largest = -1, TP_OK; }
static tp_status my_fetches(tp_inferencer *i, const tp_tensor *const *value, int n)
{
    (void)i;
    CHECK(n == 1);
    for (int64_t k = 0; k < tp_tensor_size(value[0]); k++)
        if (tp_tensor_get(value[0], k) > largest) largest = tp_tensor_get(value[0], k);
    return TP_OK;
}
static tp_status my_after(tp_inferencer *i, tp_monitors *m) { return (void)i, tp_put_scalar(m, "largest", largest); }
static tp_status look(tp_callback *cb)
{
    double v = 0;
    CHECK_OK(tp_get_latest(cb->train->monitors, "largest", &v));
    CHECK(v == 1);
    CHECK_ERR(tp_get_latest(cb->train->monitors, "no such", &v), TP_ERR_NAME, "No available data for the key: no such");
    return TP_OK;
}
TEST(inferencers_can_be_written)
{
    tp_inferencer *i = tp_inferencer_new("Largest", 0);
    tp_cb_inference_runner_desc d;
    tp_cb_lambda_desc ld;
    tp_callback *cb[2];
    memset(&d, 0, sizeof d);
    memset(&ld, 0, sizeof ld);
    i->fetch[0] = "x"; /* an input, by its name in the signature */
    i->n_fetch = 1;
    i->before_inference = my_before;
    i->on_fetches = my_fetches;
    i->after_inference = my_after;
    d.dataflow = flow(5, 4);
    d.inferencers[0] = i;
    ld.trigger = look;
    cb[0] = tp_cb_inference_runner_(&d), cb[1] = tp_cb_lambda_(&ld);
    CHECK_OK(run(tp_noop_trainer(), cb, 2, NULL, 0, 1, 1, 2));
    memset(&d, 0, sizeof d);
    i = tp_inferencer_new("Lost", 0);
    i->fetch[0] = "nowhere";
    i->n_fetch = 1;
    d.dataflow = flow(5, 4);
    d.inferencers[0] = i;
    cb[0] = tp_cb_inference_runner_(&d);
    CHECK_ERR(run(tp_noop_trainer(), cb, 1, NULL, 0, 1, 1, 1), TP_ERR_NAME, "tensor 'nowhere' is not in tower 'InferenceTower'");
}

static bool odd_step(tp_callback *cb, void *user) { return (void)user, cb->train->global_step % 2 == 1; }
TEST(callbacks_can_be_switched)
{
    tp_callback *cb = tp_cb_enable_if(&recorder_new('A')->base, odd_step, NULL);
    CHECK_OK(run(tp_noop_trainer(), &cb, 1, NULL, 0, 4, 1, 1));
    CHECK_STR(record, "A.setup(e0 g0 l-1) A.before_train(e0 g0 l-1) A.step(e1 g1 l0) A.before_run(e1 g1 l1) A.after_run(e1 g2 l1) A.step(e1 g3 l2) A.before_run(e1 g3 l3) "
                      "A.after_run(e1 g4 l3) A.after_train(e1 g4 l3) ");
}

/* -- resume */

TEST(resume_needs_both_files_or_none)
{
    char dir[900], path[1000];
    tp_train_config c;
    snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
    tp_set_log(quiet, NULL);
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    memset(&c, 0, sizeof c);
    CHECK_OK(tp_auto_resume_train_config(&c));
    CHECK(c.session_init == NULL && c.starting_epoch == 0);
    snprintf(path, sizeof path, "%s/stats.json", dir);
    FILE *f = fopen(path, "w");
    fputs("[{\"epoch_num\": 7, \"global_step\": 70}]", f);
    fclose(f);
    CHECK_ERR(tp_auto_resume_train_config(&c), TP_ERR_STATE, "there is no checkpoint");
    const char *names[1] = {"model-70"};
    tp_dict d;
    memset(&d, 0, sizeof d);
    CHECK_OK(tp_tensor_resize(tp_dict_add(&d, "w"), TP_F32, tp_make_shape_n(0, NULL)));
    snprintf(path, sizeof path, "%s/model-70.npz", dir);
    CHECK_OK(tp_npz_save(path, &d, false));
    tp_dict_free(&d);
    CHECK_OK(tp_checkpoint_state_write(dir, names, 1));
    CHECK_OK(tp_auto_resume_train_config(&c));
    CHECK(c.session_init != NULL && c.starting_epoch == 8);
    tp_session_init_free(c.session_init);
    snprintf(path, sizeof path, "%s/stats.json", dir);
    remove(path);
    memset(&c, 0, sizeof c);
    CHECK_ERR(tp_auto_resume_train_config(&c), TP_ERR_STATE, "stats.json names no last epoch");
    tp_logger_set_dir(NULL, 0);
    tp_set_log(NULL, NULL);
}

/* -- misuse: a sentence each, and (with a sanitizer) no leak */

TEST(wrong_configurations_are_sentences)
{
    tp_train_config c;
    tp_callback *cb = tp_monitor_json_writer();
    CHECK_ERR(run(tp_simple_trainer(), &cb, 1, NULL, 0, 1, 1, 1), TP_ERR_ARG, "is a monitor");
    tp_set_log(quiet, NULL);
    for (int i = 0; i < 6; i++) {
        static const char *const want[] = {"one of them", "one of them", "Cost must be a scalar", "Expect the given function to return a cost", "no optimizer", "steps_per_epoch"};
        memset(&c, 0, sizeof c);
        c.model = model();
        c.dataflow = flow(8, 4);
        c.n_extra_callbacks = c.n_monitors = TP_NONE;
        c.max_epoch = 1;
        if (i == 0) {
            tp_df_free(c.dataflow);
            c.dataflow = NULL;
        }
        if (i == 1) c.data = tp_placeholder_input();
        if (i == 2) c.model.build_graph = build_vector;
        if (i == 3) c.model.build_graph = build_null;
        if (i == 4) c.model.optimizer = NULL;
        if (i == 5) {
            tp_df_free(c.dataflow);
            c.dataflow = NULL;
            c.data = tp_placeholder_input();
        }
        CHECK(tp_launch_train_with_config(&c, tp_simple_trainer()) < 0);
        CHECK_HAS(tp_last_error(), want[i]);
    }
    tp_set_log(NULL, NULL);
}

static int ran;
static tp_node *counted(tp_graph *g, void *user)
{
    (void)user;
    ran++;
    return tp_const(g, 1);
}
TEST(small_callbacks_do_their_work)
{
    tp_cb_run_op_desc rd;
    tp_cb_progress_bar_desc bd;
    tp_cb_merge_all_summaries_desc md;
    tp_callback *cb[8], *list[8], *mon = tp_monitor_json_writer();
    tp_hook hook;
    memset(&rd, 0, sizeof rd);
    memset(&bd, 0, sizeof bd);
    memset(&md, 0, sizeof md);
    memset(&hook, 0, sizeof hook);
    hook.name = "hook";
    rd.make = counted;
    rd.run_step = TP_YES;
    bd.names[0] = "cost";
    cb[0] = tp_cb_run_op_(&rd), cb[1] = tp_cb_progress_bar_(&bd), cb[2] = tp_cb_merge_all_summaries_(&md), cb[3] = tp_cb_run_update_ops(NULL);
    cb[4] = tp_cb_moving_average_summary(NULL), cb[5] = tp_cb_hook(&hook), cb[6] = tp_cb_proxy_new(&recorder_new('P')->base, 0);
    cb[7] = tp_callback_set_chief_only(&recorder_new('C')->base, false);
    CHECK(!tp_callback_chief_only(cb[7]) && tp_callback_chief_only(cb[6]));
    char dir[900], path[1000], *text = NULL;
    size_t n = 0;
    snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
    snprintf(path, sizeof path, "%s/stats.json", dir);
    tp_set_log(quiet, NULL);
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    CHECK_OK(run(tp_queue_input_trainer(), cb, 8, &mon, 1, 4, 1, 1));
    CHECK(ran == 1);
    CHECK_HAS(record, "P.after_train");
    CHECK_OK(tp_file_read(path, false, 0, &text, &n));
    CHECK_HAS(text, "\"cost\": ");
    CHECK_HAS(text, "\"QueueInput/queue_size\": ");
    tp_free(text);
    tp_logger_set_dir(NULL, 0);
    const int n_default = tp_default_callbacks(list);
    CHECK(n_default == 4);
    for (int i = 0; i < n_default; i++) tp_callback_free(list[i]);
    const int n_monitors = tp_default_monitors(list);
    CHECK(n_monitors == 3);
    for (int i = 0; i < n_monitors; i++) tp_callback_free(list[i]);
    CHECK(tp_rank() == 0 && tp_size() == 1 && tp_local_rank() == 0);
    tp_trainer *t = tp_simple_trainer();
    CHECK(tp_trainer_monitors(t) == NULL && tp_callbacks_trigger_epoch(NULL, 0) == TP_OK);
    tp_input_source *in = tp_apply_default_prefetch(flow(8, 4), t);
    CHECK_STR(in->name, "FeedInput");
    tp_input_free(in);
    tp_trainer_free(t);
}

TEST_MAIN()
