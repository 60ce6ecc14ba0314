/* test_owners.c - who owns what: sessions, graphs and what runs in them freed in any order; things given away twice */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_test.h"

static tp_shape shape_of(int64_t a, int64_t b)
{
    tp_shape s;
    memset(&s, 0, sizeof s);
    s.ndim = 2;
    s.dim[0] = a, s.dim[1] = b;
    return s;
}

static tp_spec spec[1];
static tp_node *build(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, shape_of(2, 1), tp_init_ones());
    return tp_named(tp_mean(tp_square(tp_matmul(in[0], w))), "cost");
}
static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_sgd_(tp_get_scalar_variable(g, "learning_rate", 0.1f), NULL);
}
static tp_model model(void)
{
    tp_model m;
    memset(&m, 0, sizeof m);
    spec[0].name = "x";
    spec[0].dtype = TP_F32;
    spec[0].shape = shape_of(3, 2);
    m.inputs = spec;
    m.n_inputs = 1;
    m.build_graph = build;
    m.optimizer = optimizer;
    return m;
}
static tp_status point(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user, (void)pass;
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, shape_of(3, 2));
    for (int i = 0; i < 6 && st == TP_OK; i++) ((float *)dp->c[0].data)[i] = (float)(index + i);
    return st;
}
static tp_dataflow *flow(void) { return tp_df_from_generator(point, .size = 8); }

/* ==== >>sessions ====================================================================================== */

static tp_session *pass_through(tp_session *s, void *user) { return (void)user, s; }

/* A trainer that uses a session of ours, trained; adapted: through an adapter. */
static tp_trainer *trained(tp_session **session, bool adapted)
{
    static tp_session_adapter a;
    tp_trainer *t = tp_simple_trainer();
    const tp_model m = model();
    if (!CHECK_OK(tp_trainer_setup_graph(t, &m, tp_feed_input(flow())))) return t;
    CHECK_OK(tp_trainer_setup_callbacks(t, NULL, 0, NULL, 0));
    *session = tp_session_new(t->graph, NULL);
    t->creator = tp_reuse_session_creator(*session);
    if (adapted) {
        a.inner = t->creator;
        a.fn = pass_through;
        t->creator = tp_session_creator_adapter(&a);
    }
    CHECK_OK(tp_trainer_initialize(t, NULL));
    CHECK(t->state.session == *session);
    CHECK_OK(tp_trainer_main_loop(t, 2, 1, 1));
    return t;
}

TEST(a_reused_session_stays_with_its_owner_in_any_order)
{
    tp_set_log(tp_test_drop_log, NULL);
    for (int adapted = 0; adapted < 2; adapted++)
        for (int order = 0; order < 2; order++) {
            tp_test_fail_after(0);
            tp_session *s = NULL;
            tp_trainer *t = trained(&s, adapted == 1);
            if (order == 0) {
                tp_trainer_free(t);
                tp_tensor value = {TP_DTYPE_UNSET, {0, {0}}, NULL, NULL, 0, NULL, NULL, 0};
                CHECK_OK(tp_session_read(s, tp_find_variable(tp_session_graph(s), "w"), &value)); /* still there */
                CHECK(tp_tensor_size(&value) == 2);
                tp_tensor_free(&value);
                tp_session_free(s);
            } else {
                tp_session_free(s);
                tp_trainer_free(t);
            }
            CHECK_MSG(tp_test_live_blocks() == 0, "order %d: %ld blocks", order, tp_test_live_blocks());
        }
    tp_test_alloc_reset();
    tp_set_log(NULL, NULL);
}

/* The o-th of the n! orders of the letters, 0-terminated. */
static void order_of(int o, const char *letters, char *order)
{
    int n = (int)strlen(letters);
    char left[16];
    snprintf(left, sizeof left, "%s", letters);
    for (; n > 0; n--) {
        *order++ = left[o % n];
        memmove(left + o % n, left + o % n + 1, strlen(left + o % n));
        o /= (int)strlen(left) + 1;
    }
    *order = 0;
}

/* A device, a graph, its session and a predictor, freed in each order of the four. */
TEST(device_graph_session_and_predictor_are_freed_in_any_order)
{
    for (int o = 0; o < 24; o++) {
        char order[8];
        order_of(o, "dgsp", order);
        tp_test_fail_after(0);
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, shape_of(3, 2)), *y = build(g, &x, NULL);
        tp_device *d = tp_cpu_device_new(1, NULL);
        tp_session_config config = tp_default_session_config();
        config.devices = &d;
        config.n_devices = 1;
        tp_session *s = tp_session_new(g, &config);
        tp_predictor *p = tp_online_predictor(s, &x, 1, &y, 1);
        float data[6] = {1, 2, 3, 4, 5, 6};
        tp_tensor in = {TP_DTYPE_UNSET, {0, {0}}, NULL, NULL, 0, NULL, NULL, 0};
        tp_tensor_view(&in, TP_F32, shape_of(3, 2), data);
        const tp_tensor *out = NULL;
        CHECK_OK(tp_predict(p, &in, &out));
        for (const char *c = order; *c; c++) {
            if (*c == 'd') d->close(d);
            if (*c == 'g') tp_graph_free(g);
            if (*c == 's') tp_session_free(s);
            if (*c == 'p') tp_predictor_free(p);
            if (c == order && *c != 'p') CHECK_OK(tp_predict(p, &in, &out)); /* what runs in it goes on */
            if (c == order && *c == 'g') {
                tp_graph_free(g); /* twice: seen as long as it stays */
                CHECK_HAS(tp_last_error(), "freed already");
            }
            if (c == order && *c == 'd') {
                d->close(d);
                CHECK_HAS(tp_last_error(),
                          "cpu:0 was closed already; it stays until the sessions and tensors on it are freed");
                CHECK(tp_session_new(g, &config) == NULL);
                CHECK_HAS(tp_last_error(), "device 0 of the session is missing, was closed");
            }
        }
        CHECK_MSG(tp_test_live_blocks() == 0, "%s: %ld blocks", order, tp_test_live_blocks());
    }
    tp_test_alloc_reset();
}

/* What runs in a session, freed in each order with it, its graph and its device. */
TEST(execs_and_hooked_sessions_are_freed_in_any_order)
{
    for (int o = 0; o < 120; o++) {
        char order[8];
        order_of(o, "dgseh", order);
        tp_test_fail_after(0);
        tp_graph *g = tp_graph_new(NULL);
        tp_node *y = tp_mean(tp_get_variable_as(g, "w", TP_F32, shape_of(3, 2), tp_init_constant(2)));
        tp_device *d = tp_cpu_device_new(1, NULL);
        tp_session_config config = tp_default_session_config();
        config.devices = &d;
        config.n_devices = 1;
        tp_session *s = tp_session_new(g, &config);
        tp_exec *e = tp_exec_new(s);
        tp_hooked_session *h = tp_hooked_session_new(s, NULL, 0);
        const tp_tensor *out = NULL;
        bool exec = true, hooked = true;
        for (const char *c = order; *c; c++) {
            if (*c == 'd') d->close(d);
            if (*c == 'g') tp_graph_free(g);
            if (*c == 's') tp_session_free(s);
            if (*c == 'e') tp_exec_free(e), exec = false;
            if (*c == 'h') tp_hooked_session_free(h), hooked = false;
            if (exec) CHECK(tp_exec_run(e, NULL, 0, &y, 1, &out) == TP_OK && tp_tensor_get(out, 0) == 2);
            if (hooked) CHECK(tp_hooked_run(h, &y, 1, &out) == TP_OK && tp_tensor_get(out, 0) == 2);
        }
        CHECK_MSG(tp_test_live_blocks() == 0, "%s: %ld blocks", order, tp_test_live_blocks());
    }
    tp_test_alloc_reset();
}

/* All that a program has at once: a trainer on its own device, an offline predictor with a session of its own, and an online one on
 * the trainer's. Each order of the four. */
TEST(trainer_predictors_and_device_are_freed_in_any_order)
{
    static const char *const outputs[1] = {"cost"};
    tp_set_log(tp_test_drop_log, NULL);
    for (int o = 0; o < 24; o++) {
        char order[8];
        order_of(o, "dtpq", order);
        tp_test_fail_after(0);
        tp_device *d = tp_cpu_device_new(1, NULL);
        tp_session_config config = tp_default_session_config();
        config.devices = &d;
        config.n_devices = 1;
        tp_trainer *t = tp_simple_trainer();
        const tp_model m = model();
        t->creator = tp_new_session_creator(&config);
        CHECK_OK(tp_trainer_setup_graph(t, &m, tp_feed_input(flow())));
        CHECK_OK(tp_trainer_setup_callbacks(t, NULL, 0, NULL, 0));
        CHECK_OK(tp_trainer_initialize(t, NULL));
        CHECK_OK(tp_trainer_main_loop(t, 2, 1, 1));
        tp_node *in = tp_graph_find(t->graph, "x"), *cost = t->cost;
        tp_predictor *p = tp_online_predictor(t->state.session, &in, 1, &cost, 1);
        tp_session_creator creator = tp_new_session_creator(&config);
        tp_predict_config c;
        memset(&c, 0, sizeof c);
        c.inputs = m.inputs;
        c.n_inputs = 1;
        c.build_graph = build;
        c.output_names = outputs;
        c.n_output_names = 1;
        c.session_creator = &creator;
        tp_predictor *q = tp_offline_predictor(&c);
        if (!CHECK_MSG(p && q, "%s", tp_last_error())) return;
        float data[6] = {1, 2, 3, 4, 5, 6};
        tp_tensor value = {TP_DTYPE_UNSET, {0, {0}}, NULL, NULL, 0, NULL, NULL, 0};
        tp_tensor_view(&value, TP_F32, shape_of(3, 2), data);
        const tp_tensor *out = NULL;
        for (const char *k = order; *k; k++) {
            if (*k == 'd') d->close(d);
            if (*k == 't') tp_trainer_free(t);
            if (*k == 'p') tp_predictor_free(p), p = NULL;
            if (*k == 'q') tp_predictor_free(q), q = NULL;
            if (p) CHECK_OK(tp_predict(p, &value, &out));
            if (q) CHECK_OK(tp_predict(q, &value, &out));
        }
        CHECK_MSG(tp_test_live_blocks() == 0, "%s: %ld blocks", order, tp_test_live_blocks());
    }
    tp_test_alloc_reset();
    tp_set_log(NULL, NULL);
}

TEST(a_predictor_does_not_free_a_session_that_is_reused)
{
    static const char *const outputs[1] = {"cost"};
    tp_graph *g = tp_graph_new(NULL);
    const tp_model m = model();
    tp_get_variable_as(g, "w", TP_F32, shape_of(2, 1), tp_init_ones());
    tp_session *s = tp_session_new(g, NULL);
    tp_session_creator creator = tp_reuse_session_creator(s);
    tp_predict_config c;
    memset(&c, 0, sizeof c);
    c.inputs = m.inputs;
    c.n_inputs = 1;
    c.build_graph = build;
    c.output_names = outputs;
    c.n_output_names = 1;
    c.graph = g;
    c.session_creator = &creator;
    tp_predictor *p = tp_offline_predictor(&c), *q = tp_offline_predictor(&c);
    if (!CHECK_MSG(p && q, "%s", tp_last_error())) return;
    tp_predictor_free(p);
    float data[6] = {1, 2, 3, 4, 5, 6};
    tp_tensor in = {TP_DTYPE_UNSET, {0, {0}}, NULL, NULL, 0, NULL, NULL, 0};
    tp_tensor_view(&in, TP_F32, shape_of(3, 2), data);
    const tp_tensor *out = NULL;
    CHECK_OK(tp_predict(q, &in, &out));
    tp_session_free(s);
    tp_graph_free(g);
    CHECK_OK(tp_predict(q, &in, &out));
    tp_predictor_free(q);
}

/* ==== >>twice ========================================================================================= */

#define NO_LEAK(...)                                                                         \
    do {                                                                                     \
        tp_test_fail_after(0);                                                               \
        __VA_ARGS__;                                                                         \
        CHECK_MSG(tp_test_live_blocks() == 0, "%ld blocks are left", tp_test_live_blocks()); \
        tp_test_alloc_reset();                                                               \
    } while (0)

static void one_flow_for_two_wrappers(void)
{
    tp_dataflow *df = flow(), *a = tp_df_batch(df, 2), *b = tp_df_batch(df, 4);
    CHECK_OK(tp_df_status(a));
    CHECK_ERR(tp_df_status(b), TP_ERR_ARG, "given away twice");
    CHECK_HAS(tp_last_error(), "test_owners.c:"); /* where it was given */
    tp_df_free(b);
    tp_df_free(a);
    df = flow();
    tp_dataflow *list[2] = {df, df};
    a = tp_df_concat(list, 2);
    CHECK_ERR(tp_df_status(a), TP_ERR_ARG, "given away twice");
    tp_df_free(a);
    df = flow();
    tp_input_source *in = tp_feed_input(df), *other = tp_queue_input(df);
    tp_graph *g = tp_graph_new(NULL);
    const tp_model m = model();
    CHECK_OK(tp_input_setup(in, g, m.inputs, 1));
    tp_node *x[1];
    CHECK(other && (tp_input_setup(other, g, m.inputs, 1) < 0 || tp_input_get_tensors(other, x) < 0 ||
                    tp_input_reset_state(other) < 0));
    CHECK_HAS(tp_last_error(), "given away twice");
    tp_input_free(other);
    tp_input_free(in);
    tp_graph_free(g);
}
TEST(a_flow_has_one_owner) { NO_LEAK(one_flow_for_two_wrappers()); }

/* Wrong arguments, or no memory, do not free what another flow owns. */
static void wrong_arguments_of_an_owned_flow(int which)
{
    tp_dataflow *df = flow(), *a = tp_df_take(df, 1), *b;
    const double scale = which == 1 ? (double)INFINITY : 0;
    if (which == 3) tp_test_fail_after(1);
    b = which == 2 ? tp_df_filter(df, NULL, .size = -1) : tp_df_cast(df, 0, which ? TP_F32 : (tp_dtype)99, scale);
    if (which == 3) tp_test_fail_after(0);
    CHECK(tp_df_status(b) < TP_OK);
    tp_datapoint dp = {0, NULL, 0};
    CHECK_OK(tp_df_next(a, &dp));
    tp_datapoint_free(&dp);
    tp_df_free(b);
    tp_df_free(a);
}
TEST(wrong_arguments_leave_an_owned_flow)
{
    for (int which = 0; which < 3; which++) NO_LEAK(wrong_arguments_of_an_owned_flow(which));
    wrong_arguments_of_an_owned_flow(3);
    tp_test_alloc_reset();
}

static tp_train_config config(tp_dataflow *df)
{
    tp_train_config c;
    memset(&c, 0, sizeof c);
    c.model = model();
    c.dataflow = df;
    c.steps_per_epoch = 2;
    c.max_epoch = 1;
    c.n_extra_callbacks = TP_NONE;
    c.n_monitors = TP_NONE;
    return c;
}
static tp_status nothing(tp_callback *cb) { return (void)cb, TP_OK; }

static void one_flow_for_trainer_and_runner(void)
{
    tp_dataflow *df = flow();
    tp_callback *list[1] = {tp_cb_inference_runner(df, {tp_inf_scalar_stats({"cost"})})};
    tp_train_config c = config(df);
    c.callbacks = list;
    c.n_callbacks = 1;
    CHECK_ERR(tp_launch_train_with_config(&c, tp_simple_trainer()), TP_ERR_ARG, "given away twice");
    CHECK_HAS(tp_last_error(), "test_owners.c:");
}
static void one_callback_listed_twice(void)
{
    tp_callback *cb = tp_cb_lambda(.trigger = nothing), *list[3] = {cb, tp_cb_lambda(.trigger = nothing), cb};
    tp_train_config c = config(flow());
    c.callbacks = list;
    c.n_callbacks = 3;
    CHECK_ERR(tp_launch_train_with_config(&c, tp_simple_trainer()), TP_ERR_ARG, "given away twice");
    cb = tp_cb_lambda(.trigger = nothing); /* wrapped and listed */
    list[0] = tp_cb_periodic_trigger(cb, .every_k_steps = 1), list[1] = cb;
    c = config(flow());
    c.callbacks = list;
    c.n_callbacks = 2;
    CHECK_ERR(tp_launch_train_with_config(&c, tp_simple_trainer()), TP_ERR_ARG, "given away twice");
    tp_callback *twice[2];
    twice[0] = twice[1] = tp_cb_lambda(.trigger = nothing);
    cb = tp_cb_group(twice, 2);
    CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, "given away twice");
    tp_callback_free(cb);
    /* what never came to be handed over is freed once */
    twice[0] = twice[1] = tp_cb_lambda(.trigger = nothing);
    c = config(NULL);
    c.callbacks = twice;
    c.n_callbacks = 2;
    CHECK(tp_launch_train_with_config(&c, tp_simple_trainer()) < 0);
}
static void one_monitor_listed_twice(void)
{
    tp_monitor *m = tp_monitor_new("Mine", 0), *list[2] = {m, m};
    tp_train_config c = config(flow());
    c.monitors = list;
    c.n_monitors = 2;
    CHECK_ERR(tp_launch_train_with_config(&c, tp_simple_trainer()), TP_ERR_ARG, "given away twice");
}
static void one_input_for_two_trainers(void)
{
    tp_input_source *in = tp_feed_input(flow());
    tp_trainer *a = tp_simple_trainer(), *b = tp_simple_trainer();
    const tp_model m = model();
    CHECK_OK(tp_trainer_setup_graph(a, &m, in));
    CHECK_ERR(tp_trainer_setup_graph(b, &m, in), TP_ERR_ARG, "given away twice");
    tp_trainer_free(b);
    tp_trainer_free(a);
}
static void one_inferencer_listed_twice(void)
{
    tp_inferencer *inf = tp_inf_scalar_stats({"cost"});
    tp_callback *cb = tp_cb_inference_runner(flow(), {inf, inf});
    CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, "given away twice");
    tp_callback_free(cb);
    tp_input_source *in = tp_feed_input(flow());
    cb = tp_cb_inference_runner(.input = in, .inferencers = {tp_inf_scalar_stats({"cost"})});
    tp_callback *other = tp_cb_inference_runner(.input = in, .inferencers = {tp_inf_scalar_stats({"cost"})});
    CHECK_OK(tp_callback_status(cb));
    CHECK_ERR(tp_callback_status(other), TP_ERR_ARG, "given away twice");
    tp_callback_free(other);
    tp_callback_free(cb);
}
static void one_parameter_for_two_setters(void)
{
    tp_hyper_param *p = tp_param_graph_var("lr");
    tp_callback *a = tp_cb_scheduled_hyper_param_setter(.schedule = {{1, 0.1}}, .param = p),
                *b = tp_cb_scheduled_hyper_param_setter(.schedule = {{1, 0.1}}, .param = p);
    CHECK_OK(tp_callback_status(a));
    CHECK_ERR(tp_callback_status(b), TP_ERR_ARG, "given away twice");
    tp_callback_free(b);
    tp_callback_free(a);
}
static void one_session_init_for_two_predictors(void)
{
    static const char *const outputs[1] = {"cost"};
    const tp_model m = model();
    tp_predict_config c;
    memset(&c, 0, sizeof c);
    c.inputs = m.inputs;
    c.n_inputs = 1;
    c.build_graph = build;
    c.output_names = outputs;
    c.n_output_names = 1;
    float ones[2] = {1, 1};
    tp_dict values = {NULL, 0, 0};
    tp_tensor view = {TP_DTYPE_UNSET, {0, {0}}, NULL, NULL, 0, NULL, NULL, 0};
    tp_tensor_view(&view, TP_F32, shape_of(2, 1), ones);
    CHECK_OK(tp_tensor_copy(tp_dict_add(&values, "w"), &view));
    c.session_init = tp_dict_restore(&values, false);
    tp_predictor *p = tp_offline_predictor(&c), *q = tp_offline_predictor(&c);
    CHECK_MSG(p != NULL, "%s", tp_last_error());
    CHECK(!q);
    CHECK_HAS(tp_last_error(), "given away twice");
    tp_predictor_free(p);
    tp_session_init *inits[2];
    inits[0] = inits[1] = tp_just_current_session();
    c.session_init = tp_chain_init(inits, 2);
    CHECK(!tp_offline_predictor(&c));
    CHECK_HAS(tp_last_error(), "given away twice");
}
TEST(what_a_training_takes_over_has_one_owner)
{
    TEST_MAY_ERROR("given away twice");
    TEST_MAY_ERROR("give .dataflow or .data");
    tp_set_log(tp_test_drop_log, NULL);
    NO_LEAK(one_flow_for_trainer_and_runner());
    NO_LEAK(one_callback_listed_twice());
    NO_LEAK(one_monitor_listed_twice());
    NO_LEAK(one_input_for_two_trainers());
    NO_LEAK(one_inferencer_listed_twice());
    NO_LEAK(one_parameter_for_two_setters());
    tp_set_log(NULL, NULL);
}
TEST(a_config_with_a_checkpoint_is_used_again)
{
    static const char *const outputs[1] = {"cost"};
    const char *file = tp_test_path(tp_test_tmpdir(), "w.npz");
    float twos[2] = {2, 2}, data[6] = {1, 1, 1, 1, 1, 1};
    tp_dict values = {NULL, 0, 0};
    tp_tensor view = {TP_DTYPE_UNSET, {0, {0}}, NULL, NULL, 0, NULL, NULL, 0}, in = view;
    tp_tensor_view(&view, TP_F32, shape_of(2, 1), twos);
    tp_tensor_view(&in, TP_F32, shape_of(3, 2), data);
    CHECK_OK(tp_tensor_copy(tp_dict_add(&values, "w"), &view));
    CHECK_OK(tp_npz_save(file, &values, false));
    tp_dict_free(&values);
    const tp_model m = model();
    tp_predict_config c;
    memset(&c, 0, sizeof c);
    c.inputs = m.inputs;
    c.n_inputs = 1;
    c.build_graph = build;
    c.output_names = outputs;
    c.n_output_names = 1;
    c.checkpoint = file;
    for (int i = 0; i < 2; i++) {
        tp_predictor *p = tp_offline_predictor(&c);
        const tp_tensor *out = NULL;
        if (CHECK_MSG(p != NULL, "%s", tp_last_error()) && CHECK_OK(tp_predict(p, &in, &out)))
            CHECK_NEAR(tp_tensor_get(out, 0), 16, 0, 0);
        tp_predictor_free(p);
    }
    c.session_init = tp_just_current_session();
    CHECK(!tp_offline_predictor(&c));
    CHECK_HAS(tp_last_error(), "not both");
}

TEST(a_session_init_has_one_owner) { NO_LEAK(one_session_init_for_two_predictors()); }

/* The mistake that the sentence "the monitor is among the callbacks" is for, half mended. */
static void one_monitor_in_both_lists(void)
{
    tp_trainer *t = tp_simple_trainer();
    const tp_model m = model();
    tp_monitor *monitor = tp_monitor_json_writer();
    tp_callback *callback = &monitor->cb;
    CHECK_OK(tp_trainer_setup_graph(t, &m, tp_feed_input(flow())));
    CHECK(tp_trainer_setup_callbacks(t, &callback, 1, &monitor, 1) == TP_ERR_ARG);
    CHECK(strstr(tp_last_error(), "among the callbacks") != NULL);
    tp_trainer_free(t);
}
TEST(a_monitor_in_both_lists_is_freed_once) { NO_LEAK(one_monitor_in_both_lists()); }

/* What was given away is not freed by the program: a sentence instead of a crash. */
static void free_what_was_given_away(void)
{
    tp_test_keep_log();
    tp_dataflow *below = flow(), *df = tp_df_take(below, 3);
    tp_df_free(below);
    CHECK_HAS(tp_test_logged, "tp_df_free: 'tp_df_from_generator' belongs to 'tp_df_take', which frees it");
    tp_input_source *in = tp_feed_input(df);
    tp_df_free(df);
    CHECK_HAS(tp_test_logged, "tp_df_free: 'tp_df_take' belongs to '");
    tp_inferencer *inf = tp_inf_scalar_stats({"cost"});
    tp_callback *cb = tp_cb_inference_runner(.input = in, .inferencers = {inf});
    tp_input_free(in);
    tp_inferencer_free(inf);
    CHECK_HAS(tp_test_logged, "tp_input_free: 'FeedInput' belongs to '");
    CHECK_HAS(tp_test_logged, "tp_inferencer_free: 'ScalarStats' belongs to '");
    tp_callback *every = tp_cb_periodic_trigger(cb, .every_k_epochs = 2);
    tp_callback_free(cb);
    CHECK_HAS(tp_test_logged, "tp_callback_free: 'InferenceRunner' belongs to '");
    tp_callback_free(every);
    tp_hyper_param *p = tp_param_graph_var("lr");
    tp_callback *setter = tp_cb_scheduled_hyper_param_setter(.schedule = {{1, 0.1}}, .param = p);
    tp_hyper_param_free(p);
    CHECK_HAS(tp_test_logged, "tp_hyper_param_free: 'lr' belongs to '");
    tp_callback_free(setter);
    tp_augmentor *flip = tp_aug_to_uint8(), *list = tp_aug_list(&flip, 1);
    tp_aug_free(flip);
    CHECK_HAS(tp_test_logged, "tp_aug_free: 'tp_aug_to_uint8' belongs to '");
    tp_aug_free(list);
    tp_session_init *init = tp_just_current_session(), *chain = tp_chain_init(&init, 1);
    tp_session_init_free(init);
    CHECK_HAS(tp_test_logged, "tp_session_init_free: 'a session_init' belongs to 'tp_chain_init'");
    tp_session_init_free(chain);
}
TEST(what_was_given_away_is_freed_by_its_owner)
{
    TEST_MAY_ERROR("which frees it: it is not freed here");
    NO_LEAK(free_what_was_given_away());
}

/* What a trainer, a session or a predictor has made is freed by it, and not by a callback or a build function. */
static tp_trainer *trainer_in_use;
static tp_status free_what_is_not_mine(tp_callback *cb)
{
    static const char *const names[] = {"cost"};
    tp_train_state *t = cb->train;
    tp_trainer_free(trainer_in_use);
    CHECK_HAS(tp_test_logged, "tp_trainer_free: 'SimpleTrainer' belongs to 'its training'");
    tp_predictor_free(tp_trainer_get_predictor(t->trainer, NULL, 0, names, 1, 0));
    CHECK_HAS(tp_test_logged, "tp_predictor_free: 'the predictor' belongs to 'SimpleTrainer'");
    tp_exec_free(tp_session_exec(t->session));
    CHECK_HAS(tp_test_logged, "tp_exec_free: 'the exec' belongs to 'the session'");
    tp_exec_free(tp_hooked_session_exec(t->hooked_session));
    CHECK_HAS(tp_test_logged, "tp_exec_free: 'the exec' belongs to 'the hooked session'");
    tp_hooked_session_free(t->hooked_session);
    CHECK_HAS(tp_test_logged, "tp_hooked_session_free: 'the hooked session' belongs to 'SimpleTrainer'");
    tp_session_free(t->session);
    CHECK_HAS(tp_test_logged, "tp_session_free: 'the session' belongs to 'SimpleTrainer'");
    return TP_OK;
}
static tp_node *build_and_free(tp_graph *g, tp_node *const *in, void *user)
{
    tp_graph_free(g);
    CHECK_HAS(tp_test_logged, "tp_graph_free: 'the graph' belongs to 'SimpleTrainer'");
    return build(g, in, user);
}
static void free_what_is_in_use(void)
{
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        tp_model m = model();
        m.build_graph = build_and_free;
        tp_callback *cb = tp_callback_new("Frees", 0);
        cb->trigger = free_what_is_not_mine;
        tp_test_keep_log();
        tp_trainer *t = trainer_in_use = tp_simple_trainer();
        if (by_hand) {
            CHECK_OK(tp_trainer_setup_graph(t, &m, tp_feed_input(flow())));
            CHECK_OK(tp_train(
                t, &(tp_train_desc){.callbacks = &cb, .n_callbacks = 1, .steps_per_epoch = 1, .max_epoch = 1}));
            tp_trainer_free(t);
        } else {
            tp_train_config c;
            memset(&c, 0, sizeof c);
            c.model = m, c.dataflow = flow(), c.callbacks = &cb, c.n_callbacks = 1;
            c.steps_per_epoch = 1, c.max_epoch = 1, c.n_extra_callbacks = c.n_monitors = TP_NONE;
            CHECK_OK(tp_launch_train_with_config(&c, t));
        }
    }
    static const char *const names[] = {"cost"};
    tp_model m = model();
    tp_predict_config p;
    memset(&p, 0, sizeof p);
    p.inputs = m.inputs, p.n_inputs = 1, p.build_graph = build, p.output_names = names, p.n_output_names = 1;
    tp_predictor *towers = tp_multi_tower_predictor(&p, 2);
    tp_predictor_free(tp_predictor_tower(towers, 1));
    CHECK_HAS(tp_test_logged, "tp_predictor_free: 'the predictor' belongs to 'the predictor of several towers'");
    tp_predictor_free(towers);
}
TEST(what_is_in_use_is_freed_by_its_owner)
{
    TEST_MAY_ERROR("which frees it: it is not freed here");
    NO_LEAK(free_what_is_in_use());
}

TEST_MAIN()
