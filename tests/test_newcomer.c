/* What a newcomer runs into: mistakes that name their remedy, and the short ways of doing what is done often. */
#define TP_IMPLEMENTATION
#include "../tp_layers.h"
#include "../tp_train.h"

#include "tp_test.h"

static char logged[1 << 14];
static void keep_log(void *user, tp_log_level level, const char *line)
{
    (void)user;
    const size_t n = strlen(logged);
    if (level >= TP_LOG_WARN) snprintf(logged + n, sizeof logged - n, "%s\n", line);
}
static void listen(void)
{
    logged[0] = 0;
    tp_set_log(keep_log, NULL);
}

/* ==== >>mistakes ====================================================================================== */

TEST(names_of_nodes_that_are_not_there)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "image", TP_F32, tp_make_shape(2)), *cost = tp_named(tp_mean(x), "cost");
    tp_session *s = tp_session_new(g, NULL);
    float data[2] = {1, 2};
    tp_feed feed = {x, {0}};
    tp_tensor_view(&feed.value, TP_F32, tp_make_shape(2), data);
    tp_node *fetch = tp_graph_find(g, "cots");
    CHECK_ERR(tp_session_run(s, &feed, 1, &fetch, 1, NULL), TP_ERR_ARG,
              "fetch 0 is NULL; was 'cots' meant? There is no node of that name; did you mean 'cost'?");
    CHECK_ERR(tp_session_run(s, &feed, 1, &fetch, 1, NULL), TP_ERR_ARG,
              "fetch 0 is NULL: no node of that name, or no gradient"); /* said once */
    feed.node = tp_graph_find(g, "imaeg:0");
    CHECK_ERR(
        tp_session_run(s, &feed, 1, &cost, 1, NULL), TP_ERR_ARG,
        "feed 0 has no node: it is NULL; was 'imaeg:0' meant? There is no node of that name; did you mean 'image'?");
    tp_session_free(s);
    tp_add(x, tp_graph_find(g, "imag"));
    CHECK_HAS(tp_graph_error(g),
              "add: input 1 is NULL; was 'imag' meant? There is no node of that name; did you mean 'image'?");
    tp_graph_free(g);
}

TEST(names_of_variables_that_are_not_there)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_get_variable_as(g, "conv0/W", TP_F32, tp_make_shape(2), tp_init_ones());
    tp_session *s = tp_session_new(g, NULL);
    tp_tensor t = {0};
    CHECK_ERR(tp_session_read(s, tp_find_variable(g, "conv0/w"), &t), TP_ERR_ARG,
              "there is no variable: it is NULL; was 'conv0/w' meant? There is no variable of that name; did you mean "
              "'conv0/W'?");
    CHECK_ERR(tp_session_load(s, tp_find_variable(g, "conv/W"), &t), TP_ERR_ARG, "did you mean 'conv0/W'?");
    CHECK_ERR(tp_session_load(s, NULL, &t), TP_ERR_ARG, "there is no variable: it is NULL");
    CHECK(tp_get_global_step_value(s) == 0); /* the library's own questions are not told */
    CHECK_ERR(tp_session_read(s, NULL, &t), TP_ERR_ARG, "there is no variable: it is NULL");
    CHECK(strstr(tp_last_error(), "meant") == NULL);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(a_tensor_that_was_never_set)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 28, 28)), *y = tp_mean(x);
    tp_session *s = tp_session_new(g, NULL);
    static float data[28 * 28];
    tp_feed feed = {x, {0}};
    CHECK_ERR(tp_session_run(s, &feed, 1, &y, 1, NULL), TP_ERR_DTYPE, "tp_tensor_view");
    tp_tensor_view(&feed.value, TP_F32, tp_make_shape(28, 28), data);
    CHECK_ERR(tp_session_run(s, &feed, 1, &y, 1, NULL), TP_ERR_SHAPE,
              "'x' has shape (?,28,28) but is fed (28,28): one sample? A batch of one has the shape (1,...)");
    tp_tensor_view(&feed.value, TP_F32, tp_make_shape(28, 14), data);
    CHECK_ERR(tp_session_run(s, &feed, 1, &y, 1, NULL), TP_ERR_SHAPE, "but is fed (28,14)");
    CHECK(strstr(tp_last_error(), "one sample") == NULL);
    tp_session_free(s);
    tp_graph_free(g);
}

/* One weight that should become 3. */
static const tp_spec line_inputs[] = {TP_SPEC("x", TP_F32, TP_ANY, 1), TP_SPEC("y", TP_F32, TP_ANY, 1)};
static tp_node *line_graph(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(1, 1), tp_init_zeros());
    return tp_named(tp_mean(tp_squared_difference(tp_named(tp_matmul(in[0], w), "prediction"), in[1])), "cost");
}
static tp_optimizer *line_optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_sgd(tp_get_scalar_variable(g, "learning_rate", 0.1f));
}
static tp_dataflow *line_data(void)
{
    static const float x[] = {1, 2, -1, 0.5f}, y[] = {3, 6, -3, 1.5f};
    tp_tensor t[2];
    memset(t, 0, sizeof t);
    tp_tensor_view(&t[0], TP_F32, tp_make_shape(4, 1), (void *)(uintptr_t)x);
    tp_tensor_view(&t[1], TP_F32, tp_make_shape(4, 1), (void *)(uintptr_t)y);
    return tp_df_from_arrays(.arrays = t, .n = 2, .shuffle = TP_NO);
}
#define LINE_MODEL                                                                                   \
    {                                                                                                \
        .inputs = line_inputs, .n_inputs = 2, .build_graph = line_graph, .optimizer = line_optimizer \
    }

TEST(data_without_batches)
{
    TEST_MAY_ERROR("");
    CHECK_ERR(
        tp_launch_train_with_config(
            &(tp_train_config){.model = LINE_MODEL, .dataflow = line_data(), .max_epoch = 1, .steps_per_epoch = 2},
            tp_simple_trainer()),
        TP_ERR_SHAPE, "has shape (1), the input signature wants (?,1): is tp_df_batch missing?");
}

static tp_status halve(double *value, void *user)
{
    (void)user;
    *value /= 2;
    return TP_OK;
}
static tp_status report(tp_callback *cb) { return tp_monitors_put_scalar(cb->train->monitors, "learning_rate", 0.5); }
static tp_train_config line_config(int64_t epochs)
{
    tp_train_config c = {
        .model = LINE_MODEL, .dataflow = tp_df_batch(line_data(), 4), .max_epoch = epochs, .steps_per_epoch = 1};
    return c;
}

TEST(a_misspelled_statistic)
{
    listen();
    tp_train_config c = line_config(2);
    double field = 1;
    tp_callback *cb[] = {tp_cb_stat_monitor_param_setter("f", "learning_rat", halve, .last_k = 2,
                                                         .param = tp_param_field("f", &field, TP_F64)),
                         tp_cb_lambda(.trigger = report)};
    c.callbacks = cb, c.n_callbacks = 2;
    TEST_MAY_ERROR("");
    CHECK_ERR(tp_launch_train_with_config(&c, tp_simple_trainer()), TP_ERR_NAME, "did you mean 'learning_rate'?");
    CHECK_HAS(logged, "[StatMonitorParamSetter] Key learning_rat not found in monitor history; did you mean "
                      "'learning_rate'?");
    tp_set_log(NULL, NULL);
}

TEST(predictions_count_their_arrays)
{
    static const char *const out_names[] = {"prediction", "cost"};
    tp_predict_config c = {.inputs = line_inputs,
                           .n_inputs = 2,
                           .build_graph = line_graph,
                           .output_names = out_names,
                           .n_output_names = 2};
    tp_predictor *p = tp_offline_predictor(&c);
    const float data[4] = {1, 2, 3, 4};
    tp_tensor in[3];
    const tp_tensor *out[3];
    memset(in, 0, sizeof in);
    for (int i = 0; i < 3; i++) tp_tensor_view(&in[i], TP_F32, tp_make_shape(4, 1), (void *)(uintptr_t)data);
    if (!CHECK_MSG(p != NULL, "%s", tp_last_error())) return;
    CHECK_ERR(tp_predict(p, in, out), TP_ERR_ARG,
              "the predictor has 2 inputs and 2 outputs: tp_predict_n takes arrays and their lengths");
    for (int i = 0; i <= 3; i++)
        for (int k = 0; k <= 3; k++) {
            if (i == 2 && k == 2) continue;
            char want[128];
            snprintf(want, sizeof want, "has 2 inputs and 2 outputs, the arrays have %d and %d entries", i, k);
            CHECK_ERR(tp_predict_n(p, i ? in : NULL, i, out, k), TP_ERR_ARG, want);
        }
    if (CHECK_OK(tp_predict_n(p, in, 2, out, 2))) CHECK_NEAR(tp_tensor_get(out[1], 0), 7.5, 1e-6, 0); /* w is 0 */
    tp_predictor_free(p);
}

/* One that a test is about to lose: nothing of what was given may be lost with it (the sanitizers look). */
static tp_status run_with(tp_train_config c)
{
    c.model = (tp_model)LINE_MODEL;
    c.dataflow = tp_df_batch(line_data(), 4);
    c.max_epoch = c.steps_per_epoch = 1;
    return tp_launch_train_with_config(&c, tp_simple_trainer());
}

TEST(lists_with_a_gap_name_the_place)
{
    TEST_MAY_ERROR("");
    CHECK_ERR(run_with((tp_train_config){TP_CALLBACKS(tp_cb_maintain_step_counter(), NULL)}), TP_ERR_NOMEM,
              "callbacks[1] of 2 is NULL: its constructor found no memory, or the list is not there any more");
    CHECK_ERR(run_with((tp_train_config){TP_EXTRA_CALLBACKS(NULL, tp_cb_progress_bar())}), TP_ERR_NOMEM,
              "extra_callbacks[0] of 2 is NULL");
    CHECK_ERR(run_with((tp_train_config){TP_MONITORS(tp_monitor_scalar_printer(), tp_monitor_scalar_printer(), NULL)}),
              TP_ERR_NOMEM, "monitors[2] of 3 is NULL");
    CHECK_ERR(run_with((tp_train_config){TP_CALLBACKS(tp_cb_inference_runner(
                  tp_df_batch(line_data(), 4),
                  .inferencers = {tp_inf_scalar_stats({"cost"}), NULL, tp_inf_scalar_stats({"cost"})}))}),
              TP_ERR_ARG, "InferenceRunner: .inferencers[1] is NULL, but others follow it");
    CHECK_ERR(run_with((tp_train_config){TP_CALLBACKS(tp_cb_tensor_printer({"cost", NULL, "w"}))}), TP_ERR_ARG,
              "TensorPrinter: .names[1] is NULL, but others follow it");
    CHECK_ERR(run_with((tp_train_config){TP_CALLBACKS(tp_cb_progress_bar(.names = {NULL, "w"}))}), TP_ERR_ARG,
              "ProgressBar: .names[0] is NULL, but others follow it");
    CHECK_ERR(run_with((tp_train_config){
                  TP_CALLBACKS(tp_cb_model_saver(.checkpoint_dir = ".", .var_collections = {NULL, "w"}))}),
              TP_ERR_ARG, "ModelSaver: .var_collections[0] is NULL");
    CHECK_ERR(run_with((tp_train_config){TP_MONITORS(tp_monitor_scalar_printer(.blacklist = {NULL, "w"}))}), TP_ERR_ARG,
              "ScalarPrinter: .blacklist[0] is NULL");
    tp_dataflow *flows[3] = {line_data(), line_data(), NULL};
    CHECK(tp_df_join(flows, 3) == NULL);
    CHECK_HAS(tp_last_error(), "tp_df_join: dataflow 2 of 3 is NULL");
}

TEST_MAIN()
