/* Trainings that failed without a word: a best model that is never kept, a statistic that nobody makes, a cost of NaN, a learning
 * rate of 0, files that could not be written. Each is now told, or mended. */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_test.h"
#include <signal.h>

/* Epochs of one step, nothing to train; the callbacks are the matter. */
static tp_status run(tp_callback *const *cb, int n, int64_t epochs)
{
    tp_trainer *t = tp_noop_trainer();
    const tp_status st =
        tp_train(t, &(tp_train_desc){.callbacks = cb, .n_callbacks = n, .steps_per_epoch = 1, .max_epoch = epochs});
    tp_trainer_free(t);
    return st;
}
#define RUN(epochs_, ...) \
    run((tp_callback *[]){__VA_ARGS__}, (int)(sizeof((tp_callback *[]){__VA_ARGS__}) / sizeof(tp_callback *)), epochs_)

static const char *dir;
static double values[8];

static tp_status put_err(tp_callback *cb)
{
    return tp_monitors_put_scalar(cb->train->monitors, "validation_error", values[cb->train->epoch_num]);
}
static tp_callback *source(void) { return tp_cb_lambda(.trigger = put_err, .name = "Source"); }
static tp_callback *saver(void) { return tp_cb_model_saver(.checkpoint_dir = dir); }
static tp_callback *best(const char *stat) { return tp_cb_min_saver(stat, .checkpoint_dir = dir, .filename = "best"); }

static int64_t step_of(const char *name)
{
    tp_dict d;
    int64_t step = -1;
    memset(&d, 0, sizeof d);
    if (tp_file_exists(tp_test_path(dir, name)) && CHECK_OK(tp_npz_load(tp_test_path(dir, name), &d)))
        step = (int64_t)tp_tensor_get(tp_dict_find(&d, "global_step"), 0);
    tp_dict_free(&d);
    return step;
}

static void weights_of(const char *name, float *w)
{
    tp_dict d;
    memset(&d, 0, sizeof d);
    w[0] = w[1] = -1;
    if (CHECK_OK(tp_npz_load(tp_test_path(dir, name), &d)) && CHECK(tp_dict_find(&d, "w") != NULL))
        for (int i = 0; i < 2; i++) w[i] = (float)tp_tensor_get(tp_dict_find(&d, "w"), i);
    tp_dict_free(&d);
}

/* -- data that hold nothing */

/* One point of two numbers at each index below *user; without a size of its own. */
static tp_status points(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    if (pass < 0 || index >= *(const int *)user) return TP_END;
    const tp_status st = tp_datapoint_resize(dp, 1);
    if (st != TP_OK || tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape(2)) != TP_OK) return TP_ERR_NOMEM;
    for (int i = 0; i < 2; i++) ((float *)dp->c[0].data)[i] = (float)(index + i + 1);
    return TP_OK;
}
static tp_dataflow *n_points(int n)
{
    static const int count[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    return tp_df_from_generator(points, (void *)(uintptr_t)&count[n]);
}
static tp_status drop(const tp_datapoint *from, tp_datapoint *to, tp_map_call *call)
{
    call->drop = true;
    return from && to ? TP_OK : TP_ERR;
}

static tp_node *cost_of_points(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(2), tp_init_zeros());
    return tp_named(tp_mean(tp_squared_difference(in[0], w)), "cost");
}
static tp_optimizer *rate_of_a_tenth(tp_graph *g, void *user)
{
    return (void)user, tp_sgd(tp_get_scalar_variable(g, "learning_rate", 0.1f));
}
/* Two epochs of a model whose input is (B,2). steps: 0 for the size of the data. */
static tp_status train_points(tp_dataflow *df, tp_input_source *data, int64_t steps, tp_callback *cb)
{
    static const tp_spec input[] = {TP_SPEC("x", TP_F32, TP_ANY, 2)};
    tp_train_config c = {
        .model = {.inputs = input, .n_inputs = 1, .build_graph = cost_of_points, .optimizer = rate_of_a_tenth},
        .dataflow = df,
        .data = data,
        .max_epoch = 2,
        .n_extra_callbacks = TP_NONE,
        .n_monitors = TP_NONE};
    c.steps_per_epoch = steps;
    c.callbacks = &cb;
    c.n_callbacks = cb ? 1 : 0;
    return tp_launch_train_with_config(&c, tp_simple_trainer());
}
static tp_callback *validation(tp_dataflow *df, tp_input_source *input)
{
    tp_cb_inference_runner_desc d;
    memset(&d, 0, sizeof d);
    d.df = df;
    d.input = input;
    d.inferencers[0] = tp_inf_scalar_stats({"cost"});
    return tp_cb_inference_runner_(&d);
}

/* A validation that saw nothing once reported an error of 0: the best model, and a reason to stop. */
TEST(a_validation_of_no_datapoints)
{
    TEST_MAY_ERROR("Training failed");
    tp_test_keep_log();
    for (int i = 0; i < 6; i++) {
        tp_callback *cb = i == 0   ? validation(tp_df_batch(n_points(7), 8), NULL)
                          : i == 1 ? validation(tp_df_batch(n_points(0), 1), NULL)
                          : i == 2 ? validation(tp_df_batch(tp_df_map(n_points(7), drop), 1), NULL)
                          : i == 3 ? validation(NULL, tp_dataset_input(tp_df_batch(n_points(7), 8)))
                          : i == 4 ? validation(NULL, tp_queue_input(tp_df_batch(n_points(7), 8), .infinite = TP_NO))
                                   : validation(tp_df_batch(n_points(7), 8, .remainder = TP_YES), NULL);
        const tp_status st = train_points(tp_df_batch(n_points(4), 2), NULL, 2, cb);
        if (i < 5) CHECK_ERR(st, TP_ERR_STATE, "ended before");
        else CHECK_OK(st);
    }
}

/* A training without a step once was a success, and saved the model as it began. */
TEST(a_training_of_no_datapoints)
{
    TEST_MAY_ERROR("Training did not start");
    TEST_MAY_ERROR("Training failed");
    tp_test_keep_log();
    const char *no_lines = tp_test_path(tp_test_tmpdir(), "header.csv");
    FILE *file = fopen(no_lines, "w");
    if (CHECK(file != NULL)) CHECK(fputs("x,y\n", file) >= 0 && fclose(file) == 0);
    const tp_csv_column xy = {.name = "x", .count = 2};
    for (int i = 0; i < 3; i++) { /* the size is known: it is 0 */
        tp_dataflow *df = i == 1   ? tp_df_csv(no_lines, .columns = &xy, .n = 1)
                          : i == 2 ? tp_df_shard(tp_df_fixed_size(n_points(7), 1), 1, 2)
                                   : tp_df_fixed_size(n_points(7), 7);
        const tp_status st = i == 0 ? train_points(NULL, tp_batch_queue_input(df, 8), 0, NULL)
                                    : train_points(tp_df_batch(df, 8, .remainder = TP_YES), NULL, 0, NULL);
        CHECK_ERR(st, TP_ERR_ARG, "the size of the data is 0");
    }
    CHECK_OK(train_points(NULL, tp_batch_queue_input(n_points(7), 8), TP_NO_STEPS, NULL)); /* as asked for */
}

/* Data that end before the first step once ended the training as data that were used up do. */
TEST(data_that_end_before_the_first_step)
{
    TEST_MAY_ERROR("Training failed");
    tp_test_keep_log();
    for (int i = 0; i < 8; i++) {
        const int batch = i < 4 ? 8 : 3; /* none, or two batches of the seven points */
        tp_dataflow *points_or_batches = i % 4 == 2 ? n_points(7) : tp_df_batch(n_points(7), batch);
        tp_input_source *data = i % 4 == 0   ? tp_queue_input(points_or_batches, .infinite = TP_NO)
                                : i % 4 == 1 ? tp_dataset_input(points_or_batches)
                                : i % 4 == 2 ? tp_batch_queue_input(points_or_batches, batch, .infinite = TP_NO)
                                             : tp_feed_input(points_or_batches, .infinite = TP_NO, .quiet_end = TP_YES);
        const tp_status st = train_points(NULL, data, 5, NULL);
        if (i < 4) CHECK_ERR(st, TP_ERR_STATE, "the data ended before the first run");
        else CHECK_OK(st);
    }
}

/* -- the best model */

TEST(nan_is_never_the_best)
{
    static const double err[] = {0, NAN, .5, NAN, .4, .6, NAN};
    tp_test_keep_log();
    dir = tp_test_tmpdir();
    memcpy(values, err, sizeof err);
    CHECK_OK(RUN(1, saver(), source(), best("validation_error")));
    CHECK(step_of("best.npz") == -1);
    CHECK_OK(RUN(6, saver(), source(), best("validation_error")));
    CHECK(step_of("best.npz") == 4);
}

/* A folder with something in it lies where the file belongs, until the epoch `until`. */
static int64_t in_the_way_until;
static const char *in_the_way;
static tp_status clear_the_way(tp_callback *cb)
{
    if (cb->train->epoch_num == in_the_way_until) tp_test_remove(tp_test_path(dir, in_the_way));
    return TP_OK;
}

static tp_status with_something_in_the_way(const char *name, int64_t until, int64_t epochs)
{
    in_the_way = name;
    in_the_way_until = until;
    char inside[64];
    snprintf(inside, sizeof inside, "%s/x", name);
    mkdir(tp_test_path(dir, name), 0700);
    CHECK(tp_test_write(tp_test_path(dir, inside), "x", 1));
    return RUN(epochs, tp_cb_lambda(.trigger = clear_the_way), saver(), source(), best("validation_error"));
}

TEST(a_copy_that_failed_is_made_up_for)
{
    TEST_EXPECT_ERROR("the model was not copied");
    TEST_EXPECT_ERROR("MinSaver: the best model (global_step=2, validation_error=0.2) was not saved");
    static const double err[] = {0, .5, .2, .6, .4, .6, .6};
    tp_test_keep_log();
    memcpy(values, err, sizeof err);
    dir = tp_test_tmpdir();
    CHECK_OK(with_something_in_the_way("best.npz", 4, 5));
    CHECK(step_of("best.npz") == 2); /* of epoch 2, though written in epoch 4 */
    dir = tp_test_tmpdir();          /* never: the end tells */
    CHECK_ERR(with_something_in_the_way("best.npz", 100, 3), TP_ERR_IO, "MinSaver: the best model (global_step=2");
    dir = tp_test_tmpdir();
}

/* The best model's checkpoint cannot be written: training goes on, nobody asks for a ModelSaver, the end tells. */
TEST(a_best_model_that_was_not_saved)
{
    TEST_EXPECT_ERROR("The model was not saved at global_step=2");
    TEST_EXPECT_ERROR("MinSaver: the best model (global_step=2, validation_error=0.2) was not saved");
    TEST_EXPECT_ERROR("The model was not saved at global_step=1");
    static const double err[] = {0, .5, .2, .6, .4, .6, .6}, first[] = {0, .1, .2, .2};
    tp_test_keep_log();
    memcpy(values, err, sizeof err);
    dir = tp_test_tmpdir();
    CHECK_ERR(with_something_in_the_way("model-2.npz", 3, 5), TP_ERR_IO, "its checkpoint could not be written");
    CHECK(step_of("best.npz") == 4 && step_of("model-5.npz") == 5); /* the best one there is */
    memcpy(values, first, sizeof first);
    dir = tp_test_tmpdir();
    TEST_MAY_ERROR("MinSaver: the best model (global_step=1");
    CHECK_ERR(with_something_in_the_way("model-1.npz", 2, 3), TP_ERR_IO, "(global_step=1, validation_error=0.1)");
    CHECK(!strstr(tp_test_logged, "Did you forget"));
}

/* -- statistics that nobody makes */

static tp_status halve(double *value, void *user)
{
    (void)user;
    *value /= 2;
    return TP_OK;
}

TEST(a_statistic_that_nobody_reports)
{
    TEST_EXPECT_ERROR("nobody has reported a statistic 'validaton_error'");
    TEST_EXPECT_ERROR("nobody has reported a statistic 'nothing'");
    double field = 1;
    tp_test_keep_log();
    dir = tp_test_tmpdir();
    CHECK_OK(RUN(1, saver(), source(), best("validaton_error")));
    CHECK_ERR(RUN(5, saver(), source(), best("validaton_error")), TP_ERR_NAME,
              "'validaton_error' by its second trigger. Those that were reported: validation_error; did you mean "
              "'validation_error'?");
    CHECK_ERR(RUN(5, source(),
                  tp_cb_stat_monitor_param_setter("f", "nothing", halve, .last_k = 2,
                                                  .param = tp_param_field("f", &field, TP_F64))),
              TP_ERR_NAME, "Those that were reported: validation_error");
    tp_test_keep_log(); /* what reports it has a schedule of its own: a warning, and it is found when it comes */
    for (int i = 0; i < 8; i++) values[i] = 1.0 / (i + 1);
    CHECK_OK(RUN(6, saver(), tp_cb_periodic_trigger(source(), .every_k_epochs = 3), best("validation_error")));
    CHECK_HAS(tp_test_logged, "nobody has reported a statistic 'validation_error' by its second trigger");
    CHECK(step_of("best.npz") == 6);
}

TEST(a_statistic_that_is_read_before_it_is_reported)
{
    double field = 1;
    dir = tp_test_tmpdir();
    for (int i = 0; i < 8; i++) values[i] = 1.0 / (i + 1);
    for (int late = 0; late < 2; late++)
        for (int which = 0; which < 2; which++) {
            tp_callback *reads = which ? tp_cb_early_stopping("validation_error")
                                       : tp_cb_stat_monitor_param_setter("f", "validation_error", halve, .last_k = 2,
                                                                         .param = tp_param_field("f", &field, TP_F64));
            tp_test_keep_log();
            CHECK_OK(late ? RUN(4, reads, source()) : RUN(4, source(), reads));
            static const char sentence[] = "reads 'validation_error' before it is reported";
            const char *once = strstr(tp_test_logged, sentence);
            CHECK_MSG((once != NULL) == (late == 1), "%s", tp_test_logged);
            CHECK(!once || !strstr(once + 1, sentence));
        }
}

/* -- a cost of NaN, a learning rate of 0 */

static const tp_spec inputs[] = {TP_SPEC("input", TP_F32, TP_ANY, 28, 28), TP_SPEC("label", TP_I32, TP_ANY)};
static float rate;
static bool constant_rate;
static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    tp_node *x = tp_fully_connected(in[0], "fc", .units = 10);
    tp_node *cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(x, in[1])), "cost");
    tp_add_moving_summary(cost);
    return cost;
}
static tp_node *build_nan(tp_graph *g, tp_node *const *in, void *user) /* from the second epoch on */
{
    tp_node *step = tp_cast(tp_get_global_step_var(g), TP_F32);
    return tp_named(tp_mul(build_graph(g, in, user), tp_sqrt(tp_sub(tp_const(g, 6.5f), step))), "cost_of_nan");
}
static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_sgd(constant_rate ? tp_const(g, rate) : tp_get_scalar_variable(g, "learning_rate", rate));
}

static bool resumes;
static tp_status train(tp_node *(*build)(tp_graph *g, tp_node *const *in, void *user), int stop_on_nan, tp_callback *cb)
{
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    const tp_status st = tp_launch_train_with_config(
        &(tp_train_config){
            .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build, .optimizer = optimizer},
            .dataflow = tp_df_batch(tp_df_digits("train", .size = 40), 8),
            TP_CALLBACKS(cb, tp_cb_model_saver(), tp_cb_min_saver("cost", .filename = "best")),
            .max_epoch = 3,
            .auto_resume = resumes ? TP_YES : TP_NO,
            .stop_on_nan = stop_on_nan,
        },
        tp_simple_trainer());
    CHECK_OK(tp_logger_set_dir(NULL, 0));
    return st;
}
static tp_callback *none(void) { return tp_cb_lambda(.name = "None"); }

TEST(a_cost_of_nan)
{
    TEST_EXPECT_ERROR("the cost 'cost_of_nan' is NaN");
    tp_test_keep_log();
    rate = 0.01f;
    dir = tp_test_tmpdir();
    CHECK_ERR(train(build_nan, 0, none()), TP_ERR_NUMERIC,
              "the cost 'cost_of_nan' is NaN after step 3 of epoch 2 (global_step=8)");
    CHECK(step_of("model-5.npz") == 5 && step_of("model-10.npz") == -1); /* the last one is a good one */
    dir = tp_test_tmpdir();
    CHECK_OK(train(build_nan, TP_NO, none()));
    CHECK(step_of("model-15.npz") == 15);
}

TEST(a_learning_rate_that_teaches_nothing)
{
    for (int c = 0; c < 2; c++) {
        constant_rate = c == 1;
        for (int i = 0; i < 3; i++) {
            static const float rates[] = {0, -0.1f, 0.01f};
            tp_test_keep_log();
            rate = rates[i];
            dir = tp_test_tmpdir();
            CHECK_OK(train(build_graph, 0, none()));
            CHECK_MSG((strstr(tp_test_logged, "is 0: nothing will be learnt") != NULL) == (i == 0), "rate %g: %s",
                      (double)rate, tp_test_logged);
            CHECK_MSG((strstr(tp_test_logged, "is -0.1: the cost will grow") != NULL) == (i == 1), "rate %g: %s",
                      (double)rate, tp_test_logged);
            CHECK_STR(tp_last_error(), "");
        }
    }
    constant_rate = false;
    tp_test_keep_log(); /* a setter may begin with 0 */
    rate = 0;
    dir = tp_test_tmpdir();
    CHECK_OK(train(build_graph, 0, tp_cb_scheduled_hyper_param_setter("learning_rate", .schedule = {{1, 0.1}})));
    CHECK(!strstr(tp_test_logged, "nothing will be learnt"));
}

/* -- a resume with the checkpoint of another model */

static tp_node *build_other(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    return tp_named(tp_mean(tp_sparse_softmax_cross_entropy(tp_fully_connected(in[0], "other", .units = 10), in[1])),
                    "cost");
}
TEST(a_resume_with_another_model)
{
    TEST_EXPECT_ERROR("is of another model");
    rate = 0.01f;
    dir = tp_test_tmpdir();
    CHECK_OK(train(build_graph, 0, none()));
    resumes = true;
    CHECK_ERR(train(build_other, 0, none()), TP_ERR_NAME, "has none of this one's weights: train in another folder");
    CHECK_OK(train(build_graph, 0, none())); /* that of the same model is taken */
    resumes = false;
}

/* A best model was lost, then a better one was saved: nothing is lost any more, also in a training that goes on from there. */
TEST(a_lost_model_that_a_better_one_replaced)
{
    static const double err[] = {0, .5, .2, .1, .4, .6};
    TEST_EXPECT_ERROR("The model was not saved at global_step=2");
    tp_test_keep_log();
    memcpy(values, err, sizeof err);
    dir = tp_test_tmpdir();
    in_the_way = "model-2.npz", in_the_way_until = 3;
    mkdir(tp_test_path(dir, in_the_way), 0700);
    CHECK(tp_test_write(tp_test_path(dir, "model-2.npz/x"), "x", 1));
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    for (int64_t epochs = 4; epochs < 6; epochs++)
        CHECK_OK(tp_launch_train_with_config(
            &(tp_train_config){
                .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build_graph, .optimizer = optimizer},
                .dataflow = tp_df_batch(tp_df_digits("train", .size = 8), 8),
                TP_CALLBACKS(tp_cb_lambda(.trigger = clear_the_way), saver(), source(), best("validation_error")),
                .max_epoch = epochs,
                .auto_resume = epochs > 4 ? TP_YES : TP_NO},
            tp_simple_trainer()));
    CHECK(step_of("best.npz") == 3 && step_of("model-5.npz") == 5);
    CHECK_OK(tp_logger_set_dir(NULL, 0));
}

/* -- the end of a training that stops itself */

static tp_status stop(tp_callback *cb) { return cb->train->epoch_num == 2 ? tp_stop(cb->train, "enough") : TP_OK; }

TEST(who_stops_in_an_epoch_keeps_it)
{
    tp_test_keep_log();
    for (int i = 0; i < 8; i++) values[i] = 1.0 / (i + 1);
    dir = tp_test_tmpdir();
    CHECK_OK(RUN(5, tp_cb_lambda(.trigger = stop), saver(), source(), best("validation_error")));
    CHECK(step_of("model-2.npz") == 2 && step_of("model-3.npz") == -1);
    CHECK(step_of("best.npz") == 2); /* the others had their turn */
    CHECK_HAS(tp_test_logged, "Training was stopped: enough.");
}

/* Two runs a step. At global_step 7, between the two runs of a step, the data do not come, or they end. */
static tp_status two_runs(tp_trainer *t)
{
    const tp_status st = tp_hooked_run(t->state.hooked_session, NULL, 0, NULL);
    return st == TP_OK ? tp_hooked_run(t->state.hooked_session, NULL, 0, NULL) : st;
}
static tp_status ends_at_7;
static tp_status wait_at_7(tp_callback *cb, tp_run_request *r)
{
    if (!r || cb->train->global_step != 7) return TP_OK;
    if (ends_at_7 == TP_INTR) raise(SIGINT);
    return ends_at_7;
}
static tp_status run_twice(tp_callback *with_saver, int64_t steps)
{
    tp_callback *waits = tp_callback_new("Waits", 0);
    waits->before_run = wait_at_7;
    tp_callback *const cb[] = {with_saver, waits};
    tp_trainer *t = tp_noop_trainer();
    t->run_step = two_runs;
    const tp_status st =
        tp_train(t, &(tp_train_desc){.callbacks = cb, .n_callbacks = 2, .steps_per_epoch = steps, .max_epoch = 2});
    tp_trainer_free(t);
    return st;
}

static tp_status saves_not(tp_callback *cb, tp_dict *d, const char *prefix)
{
    return cb && d && prefix ? tp_fail(TP_ERR_IO, "no room") : TP_ERR;
}
static tp_status fails(tp_callback *cb) { return cb ? tp_fail(TP_ERR_IO, "no room") : TP_ERR; }
static tp_status asks(tp_callback *cb) { return tp_callback_request_checkpoint(cb), TP_OK; }
static tp_status feeds_twice(tp_callback *cb, tp_run_request *r)
{
    const float one = 1;
    tp_tensor t;
    memset(&t, 0, sizeof t);
    tp_tensor_view(&t, TP_F32, tp_make_shape(), &one);
    tp_node *x = tp_callback_find(cb, "learning_rate");
    const tp_status st = tp_request_feed(r, x, &t);
    return st == TP_OK ? tp_request_feed(r, x, &t) : st;
}

/* Errors of these hooks once did not say whose they are, and one callback that feeds twice was told of two. */
TEST(errors_at_a_checkpoint_name_the_callback)
{
    TEST_MAY_ERROR("Training failed");
    for (int i = 0; i < 4; i++) {
        tp_test_keep_log();
        dir = tp_test_tmpdir();
        tp_callback *cb = tp_callback_new("Boom", 0);
        if (i == 0) cb->save_state = saves_not;
        if (i == 1) cb->after_checkpoint = fails;
        if (i == 2) cb->trigger = asks, cb->checkpoint = fails;
        if (i == 3) cb->before_run = feeds_twice;
        tp_callback *list[] = {cb, saver()};
        tp_callback *group = tp_cb_group(list, 2);
        if (i < 3) CHECK(run(&group, 1, 1) == TP_ERR_IO);
        else CHECK(train_points(tp_df_batch(n_points(4), 2), NULL, 2, group) == TP_ERR_ARG);
        CHECK_HAS(tp_last_error(), i < 3 ? "Boom: no room" : "Boom: a hook feeds 'learning_rate' twice in one run");
    }
}

static int n_triggers;
static tp_status count_triggers(tp_callback *cb) { return n_triggers += cb != NULL, TP_OK; }

/* global_step is tested after each step, when it is even here: an odd multiple of k triggers nothing. tensorpack does the same; here a
 * warning says so. */
TEST(every_k_steps_with_two_runs_a_step)
{
    tp_test_keep_log();
    ends_at_7 = TP_OK;
    for (int k = 3; k < 5; k++) {
        n_triggers = 0;
        CHECK_OK(run_twice(tp_cb_periodic_trigger(tp_cb_lambda(.trigger = count_triggers), .every_k_steps = k), 6));
        CHECK(n_triggers == (k == 3 ? 4 : 6));
        CHECK_HAS(tp_test_logged, "which .every_k_steps of a callback sees only after the last of them");
    }
}

/* A step that was done in part was once saved as a whole one, so the resumed training left out its second run. */
TEST(ctrl_c_between_two_runs_of_a_step)
{
#ifdef TP_NO_SIGNALS
    TEST_SKIP("without signals there is no Ctrl-C");
#endif
    ends_at_7 = TP_INTR;
    for (int i = 0; i < 2; i++) {
        tp_test_keep_log();
        dir = tp_test_tmpdir();
        CHECK(run_twice(saver(), i ? 5 : 2) == TP_INTR);
        CHECK(step_of("interrupted.npz") == -1 && step_of("model-4.npz") == (i ? -1 : 4));
        CHECK_HAS(tp_test_logged,
                  i ? "Not saved: the 7 steps since the training began (global_step=0): run_step had done"
                    : "Not saved: the 3 steps since the last checkpoint (global_step=4): run_step had done "
                      "only some of the runs of a step, and no training");
    }
}

static tp_callback *stops_in_a_step(void)
{
    tp_callback *cb = tp_callback_new("Stops", 0);
    cb->trigger_step = stop;
    return cb;
}

/* The steps since the last checkpoint once were lost without a word, for a stop and for data that ended alike. */
TEST(steps_that_an_end_does_not_save)
{
    tp_test_keep_log();
    dir = tp_test_tmpdir();
    ends_at_7 = TP_END;
    CHECK_OK(run_twice(saver(), 2));
    CHECK(step_of("model-4.npz") == 4 && step_of("model-7.npz") == -1);
    CHECK_HAS(tp_test_logged,
              "Not saved: the 3 steps since the last checkpoint (global_step=4): run_step had done only");
    tp_test_keep_log();
    dir = tp_test_tmpdir();
    ends_at_7 = TP_STOP;
    CHECK_OK(run_twice(saver(), 5));
    CHECK_HAS(tp_test_logged, "Not saved: the 7 steps since the training began (global_step=0)");
    tp_test_keep_log();
    CHECK_OK(RUN(5, stops_in_a_step(), saver()));
    CHECK_HAS(tp_test_logged,
              "Not saved: the 1 step since the last checkpoint (global_step=1): a training that is stopped "
              "within an epoch, not in trigger_epoch, saves nothing.");
    tp_test_keep_log();
    CHECK_OK(RUN(5, tp_cb_lambda(.trigger = stop), saver()));
    CHECK_OK(RUN(5, stops_in_a_step()));
    CHECK(!strstr(tp_test_logged, "Not saved")); /* all were saved, or nobody asked for it */
}

static tp_status train_while_there_are_data(int n, bool queue, bool resume)
{
    static const tp_spec input[] = {TP_SPEC("x", TP_F32, TP_ANY, 2)};
    tp_test_keep_log();
    CHECK_OK(tp_logger_set_dir(dir, resume ? 'k' : 'd'));
    tp_dataflow *df = tp_df_batch(n_points(n), 1);
    return tp_launch_train_with_config(
        &(tp_train_config){
            .model = {.inputs = input, .n_inputs = 1, .build_graph = cost_of_points, .optimizer = rate_of_a_tenth},
            .data = queue ? tp_queue_input(df, .infinite = TP_NO)
                          : tp_feed_input(df, .infinite = TP_NO, .quiet_end = TP_YES),
            TP_CALLBACKS(tp_cb_model_saver()),
            .steps_per_epoch = 3,
            .max_epoch = 4,
            .auto_resume = TP_YES},
        tp_simple_trainer());
}

/* Data that end within an epoch end a training that is saved. It resumes there: without more data it ends at once, with more it
 * trains on, to the bits of one that had them all. */
TEST(data_that_end_within_an_epoch)
{
    for (int queue = 0; queue < 2; queue++) {
        dir = tp_test_tmpdir();
        CHECK_OK(train_while_there_are_data(8, queue, false));
        CHECK(step_of("model-6.npz") == 6 && step_of("model-8.npz") == 8);
        float whole[2], resumed[2];
        weights_of("model-8.npz", whole);
        dir = tp_test_tmpdir();
        CHECK_OK(train_while_there_are_data(7, queue, false));
        CHECK(step_of("model-7.npz") == 7 && !strstr(tp_test_logged, "Not saved"));
        CHECK_OK(train_while_there_are_data(7, queue, true));
        CHECK_HAS(tp_test_logged, "The checkpoint was made within epoch 3, after step 1 of 3.");
        CHECK(step_of("model-8.npz") == -1);
        CHECK_OK(train_while_there_are_data(8, queue, true));
        CHECK(step_of("model-8.npz") == 8);
        weights_of("model-8.npz", resumed);
        CHECK(memcmp(whole, resumed, sizeof whole) == 0);
    }
    CHECK_OK(tp_logger_set_dir(NULL, 0));
}

static int ends_with;
static tp_status interrupt(tp_callback *cb)
{
    if (cb->train->epoch_num == 2 && ends_with == TP_INTR) raise(SIGINT);
    return cb->train->epoch_num == 2 && ends_with < 0 ? tp_fail((tp_status)ends_with, "no more") : TP_OK;
}

/* A checkpoint holds the triggers of all callbacks or of none: an error in one leaves the checkpoint before, Ctrl-C lets them finish. */
TEST(who_fails_in_an_epoch_repeats_it)
{
    TEST_EXPECT_ERROR("Training failed at global_step=2: CallbackFactory: no more");
    for (int i = 0; i < 2; i++) {
        tp_test_keep_log();
        dir = tp_test_tmpdir();
        ends_with = i ? TP_ERR_NUMERIC : TP_INTR;
        CHECK(RUN(5, saver(), tp_cb_lambda(.trigger = interrupt), source(), best("validation_error")) == ends_with);
        CHECK(step_of("model-1.npz") == 1 && step_of("model-2.npz") == (i ? -1 : 2));
        CHECK(step_of("best.npz") == (i ? 1 : 2) && step_of("model-3.npz") == -1);
    }
}

/* A saver that is triggered after training, or before it, or inside of a wrapper that says nothing of it. */
static tp_callback *mine;
static tp_status trigger_mine(tp_callback *cb)
{
    (void)cb;
    return tp_callback_trigger(mine);
}
static tp_status setup_mine(tp_callback *cb) { return tp_callback_setup_graph(mine, cb->train); }
static void close_mine(tp_callback *cb)
{
    (void)cb;
    tp_callback_free(mine);
}

TEST(savers_that_others_trigger)
{
    for (int when = 0; when < 3; when++) {
        tp_test_keep_log();
        dir = tp_test_tmpdir();
        mine = saver();
        tp_callback *cb = tp_callback_new("Mine", 0);
        cb->setup_graph = setup_mine;
        cb->close = close_mine;
        if (when == 0) cb->before_train = trigger_mine;
        if (when == 1) cb->trigger = trigger_mine;
        if (when == 2) cb->after_train = trigger_mine;
        CHECK_OK(run(&cb, 1, 2));
        CHECK((step_of("model-0.npz") == 0) == (when == 0));
        CHECK((step_of("model-1.npz") == 1) == (when == 1));
        CHECK((step_of("model-2.npz") == 2) == (when > 0));
    }
}

/* What trying again or going on does not help: the training ends, with the reason, and claims no checkpoint. */
static const char *odd_name;
static tp_status add_odd(tp_callback *cb)
{
    tp_get_variable_as(cb->train->graph, odd_name, TP_F32, tp_make_shape(1), tp_init_ones());
    return TP_OK;
}

TEST(a_model_that_can_never_be_saved)
{
    TEST_EXPECT_ERROR("Training failed at global_step=1: ");
    odd_name = "__metadata__"; /* taken in safetensors files, and a name like others elsewhere */
    for (int f = TP_CHECKPOINT_NPZ; f <= TP_CHECKPOINT_SAFETENSORS; f++) {
        tp_test_keep_log();
        dir = tp_test_tmpdir();
        const tp_status st = RUN(3, tp_cb_lambda(.setup_graph = add_odd),
                                 tp_cb_model_saver(.checkpoint_dir = dir, .format = (tp_checkpoint_format)f));
        if (f != TP_CHECKPOINT_SAFETENSORS) {
            CHECK_OK(st);
            continue;
        }
        CHECK_ERR(st, TP_ERR_NAME, "'__metadata__'");
        CHECK_HAS(tp_test_logged, "Start Epoch 1");
        CHECK(!strstr(tp_test_logged, "Training goes on") && !strstr(tp_test_logged, "Start Epoch 2") &&
              !strstr(tp_test_logged, "Model saved"));
        CHECK(tp_test_files_in(dir) == 0);
    }
}

TEST(savers_that_cannot_begin)
{
    tp_test_keep_log();
    CHECK_OK(tp_logger_set_dir(NULL, 0));
    CHECK_ERR(RUN(1, tp_cb_model_saver(.max_to_keep = 3)), TP_ERR_STATE,
              "ModelSaver: where to? Give .checkpoint_dir, or call tp_logger_set_dir first");
    dir = tp_test_tmpdir();
    CHECK_ERR(RUN(1, tp_cb_model_saver(.checkpoint_dir = dir, .max_to_keep = -2)), TP_ERR_ARG,
              "ModelSaver: .max_to_keep is -2");
    CHECK_ERR(RUN(1, tp_cb_model_saver(.checkpoint_dir = dir, .keep_checkpoint_every_n_hours = -1)), TP_ERR_ARG,
              "keep_checkpoint_every_n_hours is -1");
    CHECK_ERR(RUN(1, tp_cb_model_saver(.checkpoint_dir = dir, .format = (tp_checkpoint_format)3)), TP_ERR_ARG,
              "ModelSaver: .format is 3, not one of TP_CHECKPOINT_...");
    CHECK(tp_test_files_in(dir) == 0);
}

TEST(two_savers_in_one_folder)
{
    static const char *sentence = "each deletes old checkpoints of the other";
    tp_test_keep_log();
    dir = tp_test_tmpdir();
    const char *const other = tp_test_tmpdir();
    CHECK_OK(RUN(1, saver(), tp_cb_model_saver(.checkpoint_dir = other)));
    CHECK(!strstr(tp_test_logged, sentence));
    CHECK_OK(RUN(1, saver(), tp_cb_periodic_trigger(saver(), .every_k_epochs = 2)));
    CHECK_HAS(tp_test_logged, sentence);
    CHECK(tp_test_warnings == 1);
}

TEST(two_savers_of_the_best_model_in_one_file)
{
    static const char *sentence = "Two savers of the best model write";
    dir = tp_test_tmpdir();
    for (int same = 0; same < 2; same++) {
        tp_test_keep_log();
        CHECK_OK(RUN(1, saver(), tp_cb_max_saver("stat", .checkpoint_dir = dir, .filename = "best"),
                     tp_cb_min_saver("stat", .checkpoint_dir = dir, .filename = same ? "best.npz" : "least")));
        const char *first = strstr(tp_test_logged, sentence);
        CHECK(same ? first && !strstr(first + 1, sentence) : !first);
    }
}

/* Without a trainer: what a loop of the program's calls. */
TEST(a_loop_of_ones_own)
{
    tp_train_state t;
    memset(&t, 0, sizeof t);
    tp_test_keep_log();
    dir = tp_test_tmpdir();
    t.graph = tp_graph_new(NULL);
    tp_get_scalar_variable(t.graph, "w", 1.0f);
    t.session = tp_session_new(t.graph, NULL);
    t.starting_epoch = t.steps_per_epoch = 1;
    t.max_epoch = 2;
    tp_callback *cb = saver();
    t.callbacks = &cb;
    t.n_callbacks = 1;
    CHECK_OK(tp_callback_setup_graph(cb, &t));
    CHECK_OK(tp_callback_before_train(cb));
    for (t.epoch_num = 1; t.epoch_num <= 2; t.epoch_num++) {
        t.global_step = t.epoch_num;
        CHECK_OK(tp_callback_trigger_epoch(cb));
        CHECK(!tp_file_exists(tp_test_path(dir, t.epoch_num == 1 ? "model-1.npz" : "model-2.npz")));
        CHECK_OK(tp_train_checkpoint(&t, true));
        CHECK(tp_file_exists(tp_test_path(dir, t.epoch_num == 1 ? "model-1.npz" : "model-2.npz")));
    }
    CHECK_OK(tp_callback_after_train(cb));
    tp_callback_free(cb);
    tp_session_free(t.session);
    tp_graph_free(t.graph);
}

static tp_status diary(tp_callback *cb)
{
    if (cb->train->epoch_num == 1) tp_callback_set_unsaved(cb, "page %d of the diary was not written", 1);
    else if (cb->user) tp_callback_set_unsaved(cb, NULL);
    return TP_OK;
}

TEST(what_a_callback_of_ones_own_has_not_saved)
{
    TEST_EXPECT_ERROR("Diary: page 1 of the diary was not written");
    for (int mended = 0; mended < 2; mended++) {
        tp_test_keep_log();
        tp_callback *cb = tp_callback_new("Diary", mended ? 1 : 0);
        cb->trigger = diary;
        if (mended) CHECK_OK(run(&cb, 1, 2));
        else CHECK_ERR(run(&cb, 1, 2), TP_ERR_IO, "Diary: page 1 of the diary was not written");
    }
}

TEST_MAIN()
