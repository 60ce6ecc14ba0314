/* Arguments and members that the classes of tensorpack have beside what everybody uses: each is asked for what it changes. */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_help.h"

/* ==== >>a training ==================================================================================== */

/* (x w - 1)^2 over x = 1, 2, 3, 1, 2, 3, ...: one weight that begins with 2. */
static const tp_spec inputs[] = {TP_SPEC("x", TP_F32, TP_ANY, 1)};
static tp_node *build(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(1, 1), tp_init_constant(2));
    tp_node *cost = tp_named(tp_mean(tp_square(tp_sub(tp_matmul(in[0], w), tp_const(g, 1)))), "cost");
    tp_add_moving_summary(cost);
    return cost;
}
static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_sgd(tp_get_scalar_variable(g, "learning_rate", 0.01f));
}
static const tp_model model = {.inputs = inputs, .n_inputs = 1, .build_graph = build, .optimizer = optimizer};

static tp_dataflow *numbers(int n)
{
    float x[16];
    for (int i = 0; i < n; i++) x[i] = (float)(i + 1);
    tp_tensor t;
    memset(&t, 0, sizeof t);
    tp_tensor_view(&t, TP_F32, tp_make_shape(n, 1, 1), x);
    return tp_df_from_arrays(&t, 1, .shuffle = TP_NO);
}
/* A trainer whose graph is there. */
static tp_trainer *trainer(void)
{
    tp_trainer *t = tp_simple_trainer();
    CHECK_OK(tp_trainer_setup_graph(t, &model, tp_feed_input(numbers(3))));
    return t;
}
static tp_status train(tp_trainer *t, tp_callback *const *cb, int n, int64_t steps)
{
    return tp_train(t, &(tp_train_desc){.callbacks = cb, .n_callbacks = n, .steps_per_epoch = steps, .max_epoch = 1});
}

/* ==== >>summaries ===================================================================================== */

static int in_collection(const tp_graph *g, const char *key)
{
    int n = 0;
    tp_collection(g, key, &n);
    return n;
}
static const char *const two_lists[] = {"one", "two", NULL};

TEST(summaries_of_other_towers)
{
    for (int kind = 0; kind < 3; kind++) { /* the second tower, inference, the main one */
        for (int all = 0; all < 2; all++) {
            tp_graph *g = tp_graph_new(NULL);
            tp_node *x = tp_named(tp_const(g, 3), "x");
            const tp_tower_desc d = {.name = "t", .is_training = kind != 1, .index = kind == 0, .total = 2};
            CHECK(tp_tower_enter(g, &d));
            tp_add_tensor_summary(x, TP_SUMMARY_MEAN, "m", NULL, .main_tower_only = all ? TP_NO : TP_UNSET);
            tp_add_tensor_summary(x, TP_SUMMARY_RMS, .collection = "mine", .main_tower_only = all ? TP_NO : TP_YES);
            const int made = all || kind == 2;
            CHECK(in_collection(g, TP_KEY_SUMMARIES) == made && in_collection(g, "mine") == made);
            tp_tower_leave(
                g); /* what joined SUMMARIES in another tower goes with it, what is in a collection of its own stays */
            CHECK(in_collection(g, TP_KEY_SUMMARIES) == (kind == 2) && in_collection(g, "mine") == made);
            CHECK(tp_graph_status(g) == TP_OK);
            tp_graph_free(g);
        }
    }
}

TEST(summaries_in_collections_of_ones_own)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_get_variable_as(g, "W", TP_F32, tp_make_shape(2), tp_init_ones());
    tp_add_tensor_summary(x, TP_SUMMARY_MEAN | TP_SUMMARY_RMS, .collections = two_lists);
    CHECK(in_collection(g, "one") == 2 && in_collection(g, "two") == 2);
    tp_add_tensor_summary(x, TP_SUMMARY_MEAN, .collection = TP_NO_COLLECTION);
    CHECK(tp_graph_find(g, "W-mean_1"));
    tp_add_param_summary(g, ".*", TP_SUMMARY_RMS, .collections = two_lists);
    CHECK(in_collection(g, "one") == 3 && in_collection(g, "two") == 3);
    tp_add_param_summary(g, ".*", TP_SUMMARY_MEAN, "mine");
    CHECK(in_collection(g, "mine") == 1 && in_collection(g, TP_KEY_SUMMARIES) == 0);
    (tp_add_param_summary)(g, ".*", TP_SUMMARY_MEAN);
    (tp_add_tensor_summary)(x, TP_SUMMARY_MEAN, "y", NULL);
    CHECK(in_collection(g, TP_KEY_SUMMARIES) == 2 && tp_graph_status(g) == TP_OK);
    tp_graph_free(g);
}

TEST(moving_summaries_return_the_averages)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_named(tp_get_scalar_variable(g, "x", 1), "a"), *y = tp_named(tp_const(g, 5), "b");
    tp_node *const *ema = tp_add_moving_summary(x, y);
    if (!CHECK(ema)) return;
    CHECK_STR(tp_node_name(ema[0]), "EMA/a");
    CHECK_STR(tp_node_name(ema[1]), "EMA/b");
    CHECK(in_collection(g, TP_KEY_MOVING_SUMMARY_OPS) == 2 && in_collection(g, TP_KEY_SUMMARIES) == 2);
    /* with a decay, in no collection: run by hand */
    tp_node *z = tp_named(tp_get_scalar_variable(g, "z", 1), "c");
    ema = tp_add_moving_summary_with((.decay = 0.5f, .collection = TP_NO_COLLECTION, .summary_collections = two_lists),
                                     z);
    if (!CHECK(ema)) return;
    CHECK(in_collection(g, TP_KEY_MOVING_SUMMARY_OPS) == 2 && in_collection(g, TP_KEY_SUMMARIES) == 2);
    CHECK(in_collection(g, "one") == 1 && in_collection(g, "two") == 1);
    CHECK_STR(tp_summary_info(tp_collection(g, "one", &(int){0})[0])->tag, "c-summary");
    tp_session *s = tp_session_new(g, NULL);
    double biased = 0, power = 1;
    for (int i = 0; i < 4; i++) {
        const float v = (float)(i * i + 1);
        tp_tensor value = {0}, out = {0};
        tp_tensor_view(&value, TP_F32, tp_make_shape_n(0, NULL), (void *)(uintptr_t)&v);
        CHECK_OK(tp_session_load(s, tp_find_variable(g, "z"), &value));
        CHECK_OK(tp_session_eval(s, ema[0], &out));
        biased = 0.5 * biased + 0.5 * (double)v, power *= 0.5;
        CHECK_NEAR(tp_tensor_get(&out, 0), biased / (1 - power), 1e-6, 1e-6);
        tp_tensor_free(&out);
    }
    /* nothing to return */
    tp_node *wide = tp_named(tp_const(g, 2), "d");
    const tp_tower_desc d = {.name = "t", .is_training = true, .index = 1, .total = 2};
    CHECK(tp_tower_enter(g, &d));
    CHECK(!tp_add_moving_summary(wide));
    tp_tower_leave(g);
    CHECK(!tp_add_moving_summary(wide,
                                 tp_ones_like(tp_get_variable_as(g, "w", TP_F32, tp_make_shape(2), tp_init_ones()))));
    CHECK(tp_graph_status(g) == TP_ERR_SHAPE);
    tp_session_free(s);
    tp_graph_free(g);
}

/* Each scalar has an average of its own: parts of one op, equal names in a tower and outside, and what is left where one is NULL. */
TEST(moving_summaries_share_no_average)
{
    static const float zero_one[2] = {0, 1};
    tp_graph *g = tp_graph_new(NULL);
    tp_node *part[2], *none = NULL, *list[5];
    tp_tensor t = {0};
    tp_tensor_view(&t, TP_F32, tp_make_shape(2), zero_one);
    tp_unstack(tp_named(tp_constant(g, &t), "x"), 0, 2, part);
    list[0] = none, list[1] = part[1], list[2] = tp_named(tp_const(g, 3), "cost");
    const tp_tower_desc d = {.name = "tower0", .is_training = true, .total = 1};
    CHECK(tp_tower_enter(g, &d));
    list[3] = tp_named(tp_const(g, 4), "cost");
    CHECK_STR(tp_node_name(list[3]), "tower0/cost");
    list[4] = part[0];
    tp_test_keep_log();
    tp_node *const *ema = tp_add_moving_summary_n(list, 5, NULL);
    tp_set_log(NULL, NULL);
    CHECK_STR(tp_test_logged, "tp_add_moving_summary: node 0 is NULL: nothing is reported of it\n");
    CHECK(!tp_add_moving_summary_n(&none, 1, NULL));
    tp_node *const *again = tp_add_moving_summary(list[3]); /* which has the variables of its first one */
    tp_tower_leave(g);
    if (!CHECK(ema && again)) return;
    static const char *const names[] = {NULL, "EMA/Unstack_1", "EMA/cost", "EMA/cost_1", "EMA/Unstack"};
    static const double is[] = {0, 1, 3, 4, 0};
    CHECK(ema[0] == NULL && tp_graph_n_variables(g) == 8);
    CHECK(again[0]->op->var[0] == ema[3]->op->var[0] && again[0]->op->var[1] == ema[3]->op->var[1]);
    int n = 0;
    tp_node *const *tags = tp_collection(g, TP_KEY_SUMMARIES, &n);
    CHECK(n == 5);
    CHECK_STR(tp_summary_info(tags[2])->tag, "cost_1-summary");
    tp_session *s = tp_session_new(g, NULL);
    const tp_tensor *out[4];
    for (int step = 0; step < 3 && CHECK_OK(tp_session_run(s, NULL, 0, ema + 1, 4, out)); step++)
        for (int i = 1; i < 5; i++) CHECK_NEAR(tp_tensor_get(out[i - 1], 0), is[i], 1e-6, 0);
    for (int i = 1; i < 5; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s/local_step", names[i]);
        CHECK_NEAR(variable(s, name), 3, 0, 0);
    }
    tp_session_free(s);
    tp_graph_free(g);
}

static tp_optimizer *summarising(tp_graph *g, const tp_tensor *lists)
{
    tp_optimizer *opt = tp_sgd(tp_const(g, 1));
    if (!lists) return tp_apply_grad_processors(opt, (tp_gradproc[]){tp_gradproc_summary(NULL)}, 1);
    char one[4] = "one"; /* gone when the optimizer is used: it has copies */
    return tp_apply_grad_processors(
        opt, (tp_gradproc[]){tp_gradproc_summary_to(".*/W", (const char *const[]){one, "two", NULL})}, 1);
}
TEST(summaries_of_gradients_in_collections)
{
    static const tp_tensor lists = {0};
    for (int own = 0; own < 2; own++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *w = tp_get_variable_as(g, "fc/W", TP_F32, tp_make_shape(2), tp_init_ones());
        tp_node *b = tp_get_variable_as(g, "fc/b", TP_F32, tp_make_shape(2), tp_init_ones());
        tp_optimizer *opt = summarising(g, own ? &lists : NULL);
        tp_node *const vars[2] = {w, b};
        tp_grad_var gv[2];
        tp_optimizer_compute_gradients(opt, tp_mean(tp_square(tp_add(w, b))), vars, 2, gv);
        tp_apply_gradients(opt, gv, 2);
        CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
        /* the collections given are for the histograms; moving averages of the rms stay in MOVING_SUMMARY_OPS */
        CHECK(in_collection(g, "one") == own && in_collection(g, "two") == own);
        CHECK(in_collection(g, TP_KEY_SUMMARIES) == (own ? 1 : 4));
        CHECK(in_collection(g, TP_KEY_MOVING_SUMMARY_OPS) == (own ? 1 : 2));
        if (own) CHECK(tp_summary_info(tp_collection(g, "two", &(int){0})[0])->kind == TP_SUMMARY_HISTOGRAM);
        tp_graph_free(g);
    }
}

/* ==== >>towers ======================================================================================== */

static tp_node *tower_net(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *w = tp_get_variable_as(g, "fc/W", TP_F32, tp_make_shape(1, 1), tp_init_ones());
    tp_node *y = tp_named(tp_matmul(in[0], w), "y");
    tp_collection_add(g, "mine", y);
    tp_collection_add(g, "mine", tp_named(tp_square(y), "z"));
    tp_add_tensor_summary(y, TP_SUMMARY_MEAN, "y");
    return y;
}
static tp_node *one_of_three(const tp_tower_context *tower, void *user)
{
    tp_tower_func *f = (tp_tower_func *)user;
    tp_node *x = tp_placeholder(tower->graph, "x", TP_F32, tp_make_shape(TP_ANY, 1));
    tp_collection_add(tower->graph, "mine", x); /* in the tower, before the function */
    tp_node *y = tp_tower_func_call(f, &x);
    int n = 0; /* while it is the current one: what there is until now */
    const tp_tower_handle *h = tp_tower_func_find(f, tower->ns_name);
    CHECK(h && tp_tower_handle_get_collection(h, "mine", &n) && n == 3);
    tp_collection_add(tower->graph, "mine", tp_named(tp_neg(y), "last"));
    return y;
}
TEST(handles_know_their_towers_collections)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_func *f = tp_tower_func_new(g, tower_net, NULL, inputs, 1);
    tp_collection_add(g, "mine", tp_named(tp_const(g, 1), "before"));
    CHECK_OK(tp_build_on_towers(g, &(tp_towers_desc){.n = 3, .own_variables = true}, one_of_three, f, NULL));
    tp_variable_scope_push(g, &(tp_variable_scope_desc){.reuse = TP_REUSE_YES});
    const tp_tower_desc inference = {.name = "infer"};
    tp_node *x = tp_placeholder(g, "given", TP_F32, tp_make_shape(TP_ANY, 1));
    CHECK(tp_tower_enter(g, &inference));
    tp_tower_func_call(f, &x);
    tp_tower_leave(g);
    tp_variable_scope_pop(g);
    tp_collection_add(g, "mine", tp_named(tp_const(g, 1), "after"));
    CHECK(tp_tower_func_n_towers(f) == 4);
    for (int i = 0; i < 4; i++) {
        static const char *const part[] = {"x", "y", "z", "last"};
        const tp_tower_handle *h = tp_tower_func_tower(f, i);
        char name[32];
        int n = -1;
        tp_node *const *mine = tp_tower_handle_get_collection(h, "mine", &n);
        if (!CHECK_MSG(n == (i < 3 ? 4 : 2), "tower %d has %d", i, n)) continue;
        for (int k = 0; k < n; k++) {
            snprintf(name, sizeof name, "%s/%s", h->ctx.ns_name, part[i < 3 ? k : 1 + k]);
            CHECK_STR(tp_node_name(mine[k]), name);
        }
        CHECK((tp_tower_handle_get_collection(h, TP_KEY_SUMMARIES, &n) != NULL && n == 1) == (i == 0));
        CHECK(!tp_tower_handle_get_collection(h, "no such", &n) && n == 0);
        tp_tower_handle_get_collection(h, TP_KEY_TRAINABLE_VARIABLES, &n);
        CHECK(n == (i < 3));
    }
    tp_graph_free(g);
}

TEST(handles_find_variables_and_lists)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_func *f = tp_tower_func_new(g, tower_net, NULL, inputs, 1);
    CHECK_OK(tp_build_on_towers(g, &(tp_towers_desc){.n = 2, .own_variables = true}, one_of_three, f, NULL));
    for (int i = 0; i < 2; i++) {
        const tp_tower_handle *h = tp_tower_func_tower(f, i);
        const char *const w = i ? "tower1/fc/W" : "fc/W";
        tp_node *got[3] = {NULL}, *v = tp_tower_handle_get_variable(h, "fc/W");
        CHECK(v && v == tp_tower_handle_get_variable(h, "fc/W:0") && tp_node_variable(v));
        if (v) CHECK_STR(tp_node_variable(v)->name, w);
        CHECK(!tp_tower_handle_get_variable(h, "y") && !tp_tower_handle_get_variable(h, "x")); /* no variables */
        CHECK_OK(tp_tower_handle_get_tensors(h, (const char *const[]){"y:0", "fc/W", "x"}, 3, got));
        CHECK(got[0] == h->output && got[1] == v && got[2] == h->in[0]);
        CHECK_OK(tp_tower_handle_get_variables(h, (const char *const[]){"fc/W"}, 1, got));
        CHECK(got[0] == v);
        CHECK_ERR(tp_tower_handle_get_tensors(h, (const char *const[]){"y", "no", "nor"}, 3, got), TP_ERR_NAME,
                  i ? "tower 'tower1' has no tensor 'no'" : "tower 'tower0' has no tensor 'no'");
        CHECK(got[0] == h->output && !got[1] && !got[2]);
        CHECK_ERR(tp_tower_handle_get_variables(h, (const char *const[]){"y", "fc/W"}, 2, got), TP_ERR_NAME,
                  "no variable 'y'");
        CHECK(!got[0] && got[1] == v);
    }
    tp_graph_free(g);
}

/* ==== >>callbacks ===================================================================================== */

/* The train op in every second step only. */
static tp_status every_second(tp_trainer *t)
{
    return tp_hooked_run(t->state.hooked_session, &t->train_op, t->state.local_step % 2 == 0, NULL);
}
TEST(moving_averages_run_with_a_train_op)
{
    tp_test_keep_log();
    for (int how = 0; how < 3; how++) { /* without one, the op, its name */
        tp_trainer *t = trainer();
        t->run_step = every_second;
        tp_callback *cb = how == 0   ? tp_cb_moving_average_summary()
                          : how == 1 ? tp_cb_moving_average_summary(.train_op = t->train_op)
                                     : tp_cb_moving_average_summary(.train_op_name = tp_node_name(t->train_op));
        CHECK_OK(train(t, &cb, 1, 6));
        CHECK_NEAR(variable(t->state.session, "EMA/cost/local_step"), how == 0 ? 6 : 3, 0, 0);
        if (how) CHECK_HAS(tp_test_logged, "will be run together with");
        /* in the plain session too: it takes the data with it, so it is given some */
        const float one = 1;
        tp_feed feed = {.node = tp_graph_find(t->graph, "x")};
        tp_tensor_view(&feed.value, TP_F32, tp_make_shape(1, 1), (void *)(uintptr_t)&one);
        CHECK_OK(tp_session_run(t->state.session, &feed, 1, &t->train_op, 1, NULL));
        CHECK_NEAR(variable(t->state.session, "EMA/cost/local_step"), how == 0 ? 6 : 4, 0, 0);
        tp_trainer_free(t);
    }
}

TEST(a_train_op_that_cannot_take_averages)
{
    tp_test_keep_log();
    for (int how = 0; how < 3; how++) {
        tp_trainer *t = trainer();
        tp_graph *other = tp_graph_new(NULL);
        if (how == 0) tp_add_moving_summary(tp_named(tp_const(t->graph, 1), "late"));
        tp_callback *cb = how == 0   ? tp_cb_moving_average_summary(.train_op = t->train_op)
                          : how == 1 ? tp_cb_moving_average_summary(.train_op_name = "nowhere")
                                     : tp_cb_moving_average_summary(.train_op = tp_const(other, 1));
        CHECK_ERR(train(t, &cb, 1, 1),
                  how == 0   ? TP_ERR_STATE
                  : how == 1 ? TP_ERR_NAME
                             : TP_ERR_ARG,
                  how == 0   ? "'EMA/late', which was made after it"
                  : how == 1 ? "Tensor nowhere not found"
                             : "no op of this graph");
        tp_trainer_free(t);
        tp_graph_free(other);
    }
    tp_graph *g = tp_graph_new(NULL);
    tp_callback *cb = tp_cb_moving_average_summary(.train_op = tp_const(g, 1), .train_op_name = "cost");
    CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, "not both");
    tp_callback_free(cb);
    tp_graph_free(g);
}

/* Two towers with weights of their own, tower0's 2 and tower1's 5, on two devices. */
typedef struct build_call {
    tp_trainer *t;
    tp_node *in;
} build_call;
static tp_node *one_tower(const tp_tower_context *tower, void *user)
{
    const build_call *c = (const build_call *)user;
    (void)tower;
    return tp_tower_func_call(c->t->state.tower_func, &c->in);
}
static tp_status build_two(tp_trainer *t, const tp_model *m)
{
    build_call c = {t, NULL};
    tp_node *cost[2];
    (void)m;
    tp_status st = tp_input_get_tensors(t->state.input, &c.in);
    if (st == TP_OK)
        st = tp_build_on_towers(t->graph, &(tp_towers_desc){.n = 2, .own_variables = true}, one_tower, &c, cost);
    if (st == TP_OK) t->train_op = tp_group(t->graph, cost, 2, NULL);
    return st;
}
static tp_status set_tower1(tp_callback *cb)
{
    float five = 5;
    tp_tensor value = {0};
    const tp_variable *w = tp_find_variable(cb->train->graph, "tower1/w");
    if (!w) return tp_fail(TP_ERR_NAME, "there is no tower1/w");
    tp_tensor_view(&value, TP_F32, tp_make_shape(1, 1), &five);
    return tp_session_load(cb->train->session, w, &value);
}
TEST(inference_runs_on_a_device_of_its_own)
{
    tp_test_keep_log();
    for (int device = 0; device < 3; device++) {
        tp_device *cpu[3];
        CHECK_OK(tp_cpu_devices_new(3, 1, NULL, cpu));
        tp_trainer *t = tp_simple_trainer();
        t->build = build_two;
        t->creator = tp_new_session_creator(&(tp_session_config){.devices = cpu, .n_devices = 3});
        CHECK_OK(tp_trainer_setup_graph(t, &model, tp_feed_input(numbers(3))));
        tp_callback *cb[2] = {tp_cb_lambda(.before_train = set_tower1),
                              tp_cb_inference_runner(numbers(2), {tp_inf_scalar_stats({"cost"})}, .device = device)};
        CHECK_OK(train(t, cb, 2, 1));
        const tp_node *cost = tp_graph_find(t->graph, "InferenceTower/cost");
        if (CHECK(cost)) CHECK_MSG(tp_node_device(cost) == device, "device %d, not %d", tp_node_device(cost), device);
        tp_stat stat = {0}; /* there is no third training tower: the first one's weight */
        const double w = device == 1 ? 5 : 2, want = ((w - 1) * (w - 1) + (2 * w - 1) * (2 * w - 1)) / 2;
        CHECK_OK(tp_monitors_get_latest(t->state.monitors, "validation_cost", &stat));
        CHECK_NEAR(stat.value, want, 1e-6, 1e-6);
        tp_trainer_free(t);
        for (int i = 0; i < 3; i++) cpu[i]->close(cpu[i]);
    }
    tp_callback *cb = tp_cb_inference_runner(numbers(2), {tp_inf_scalar_stats({"cost"})}, .device = -1);
    CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, ".device");
    tp_callback_free(cb);
}

/* ==== >>parameters ==================================================================================== */

static tp_node *with_array(tp_graph *g, tp_node *const *in, void *user)
{
    tp_get_variable_as(g, "mask", TP_F32, tp_make_shape(2, 3), tp_init_ones());
    return build(g, in, user);
}
static int calls;
static tp_status halve_row(tp_callback *cb, void *user, tp_tensor *value, bool *set)
{
    tp_tensor again = {0};
    CHECK(user == &calls && value->dtype == TP_F32 && value->shape.ndim == 2 && value->shape.dim[1] == 3);
    CHECK_OK(tp_setter_current_array(cb, &again));
    CHECK_NEAR(tp_tensor_get(&again, 5), tp_tensor_get(value, 5), 0, 0);
    tp_tensor_free(&again);
    double number;
    CHECK_ERR(tp_setter_current_value(cb, &number), TP_ERR_SHAPE, "'mask' is an array");
    for (int i = 3; i < 6; i++) tp_tensor_set(value, i, tp_tensor_get(value, i) / 2);
    *set = calls++ != 1; /* the second time it is not meant */
    return TP_OK;
}
static tp_status set_nan(tp_callback *cb, void *user, tp_tensor *value, bool *set)
{
    (void)cb;
    tp_tensor_set(value, *(const int *)user, (double)NAN);
    *set = true;
    return TP_OK;
}
static tp_status set_fails(tp_callback *cb, void *user, tp_tensor *value, bool *set)
{
    (void)cb, (void)user, (void)value;
    *set = false;
    return tp_fail(TP_ERR_STATE, "this one sets nothing");
}
static tp_trainer *trainer_of(tp_node *(*fn)(tp_graph *g, tp_node *const *in, void *user))
{
    tp_trainer *t = tp_simple_trainer();
    tp_model m = model;
    m.build_graph = fn;
    CHECK_OK(tp_trainer_setup_graph(t, &m, tp_feed_input(numbers(3))));
    return t;
}
TEST(a_parameter_that_is_an_array)
{
    tp_test_keep_log();
    static const float want[6] = {1, 1, 1, 0.25f, 0.25f, 0.25f}; /* before training, not after epoch 1, after epoch 2 */
    tp_trainer *t = trainer_of(with_array);
    calls = 0;
    tp_callback *cb = tp_cb_hyper_param_setter(.param = tp_param_graph_var_array("mask", tp_make_shape(2, TP_ANY)),
                                               .fn_array = halve_row, .user = &calls);
    CHECK_OK(tp_train(t, &(tp_train_desc){.callbacks = &cb, .n_callbacks = 1, .steps_per_epoch = 1, .max_epoch = 2}));
    CHECK(calls == 3);
    tp_tensor value = {0};
    CHECK_OK(tp_session_read(t->state.session, tp_find_variable(t->graph, "mask"), &value));
    for (int i = 0; i < 6; i++) CHECK_NEAR(tp_tensor_get(&value, i), want[i], 0, 0);
    tp_tensor_free(&value);
    tp_trainer_free(t);
}

/* Set before training and after each of eight steps, but the first of them; the log says it once an epoch. */
TEST(an_array_that_is_set_often)
{
    static const char *const line[] = {
        "[HyperParamSetter] At global_step=0, mask is set", "[HyperParamSetter] At global_step=2, mask is set",
        "[HyperParamSetter] At global_step=5, mask is set", "[HyperParamSetter] At global_step="};
    tp_test_keep_log();
    tp_trainer *t = trainer_of(with_array);
    calls = 0;
    tp_callback *cb = tp_cb_periodic_trigger(
        tp_cb_hyper_param_setter(.param = tp_param_graph_var_array("mask", tp_make_shape(2, TP_ANY)),
                                 .fn_array = halve_row, .user = &calls),
        .every_k_steps = 1);
    CHECK_OK(tp_train(t, &(tp_train_desc){.callbacks = &cb, .n_callbacks = 1, .steps_per_epoch = 4, .max_epoch = 2}));
    CHECK_MSG(calls == 9, "%d calls", calls);
    for (int i = 0; i < TP_COUNT(line); i++) {
        int n = 0;
        for (const char *p = tp_test_logged; (p = strstr(p, line[i])) != NULL; p++) n++;
        CHECK_MSG(n == (i < 3 ? 1 : 3), "%d lines: %s", n, line[i]);
    }
    tp_trainer_free(t);
}

TEST(arrays_and_numbers_are_not_mixed)
{
    tp_test_keep_log();
    static const struct {
        int64_t rows;
        tp_param_array_fn fn;
        tp_status status;
        const char *part;
    } bad[] = {{4, halve_row, TP_ERR_SHAPE, "'mask' has shape (2,3), not (4,3)"},
               {2, set_fails, TP_ERR_STATE, "this one sets nothing"},
               {2, set_nan, TP_ERR_NUMERIC, "HyperParamSetter would set mask to NaN"},
               {2, set_nan, TP_ERR_NUMERIC, "HyperParamSetter would set mask to NaN"}};
    static const int place[] = {0, 0, 0, 5}; /* of the NaN */
    for (int i = 0; i < TP_COUNT(bad); i++) {
        TEST_MAY_ERROR("Training failed");
        tp_trainer *t = trainer_of(with_array);
        tp_callback *cb =
            tp_cb_hyper_param_setter(.param = tp_param_graph_var_array("mask", tp_make_shape(bad[i].rows, 3)),
                                     .fn_array = bad[i].fn, .user = i ? (void *)(uintptr_t)&place[i] : &calls);
        CHECK_ERR(train(t, &cb, 1, 1), bad[i].status, bad[i].part);
        tp_trainer_free(t);
    }
    tp_hyper_param *array = tp_param_graph_var_array("mask", tp_make_shape(2, 3));
    CHECK(array && !array->get_value && !array->set_value && array->get_array && array->set_array);
    tp_hyper_param_free(array);
    tp_hyper_param *scalar = tp_param_graph_var("mask");
    CHECK(scalar && scalar->get_value && scalar->set_value && !scalar->get_array && !scalar->set_array);
    tp_trainer *t = trainer_of(with_array);
    tp_callback *cb = tp_cb_scheduled_hyper_param_setter(.param = scalar, .schedule = {{1, 2}});
    CHECK_ERR(train(t, &cb, 1, 1), TP_ERR_SHAPE, "tp_param_graph_var_array");
    tp_trainer_free(t);
    const tp_shape s = tp_make_shape(2, 3);
    tp_callback *refused[] = {
        tp_cb_scheduled_hyper_param_setter(.param = tp_param_graph_var_array("mask", s), .schedule = {{1, 2}}),
        tp_cb_hyper_param_setter(.param = tp_param_graph_var("learning_rate"), .fn_array = halve_row),
        tp_cb_hyper_param_setter("mask", .fn_array = halve_row)};
    static const char *const part[] = {"the parameter is an array", "the parameter is a number",
                                       ".fn_array needs .param"};
    for (int i = 0; i < 3; i++) {
        CHECK_ERR(tp_callback_status(refused[i]), TP_ERR_ARG, part[i]);
        tp_callback_free(refused[i]);
    }
}

/* An array of the program's: what a checkpoint has of it comes back. */
static float program[2];
static tp_status get_program(tp_hyper_param *p, tp_tensor *value)
{
    (void)p;
    const tp_status st = tp_tensor_resize(value, TP_F32, tp_make_shape(2));
    if (st == TP_OK) memcpy(value->data, program, sizeof program);
    return st;
}
static tp_status set_program(tp_hyper_param *p, const tp_tensor *value)
{
    (void)p;
    memcpy(program, value->data, sizeof program);
    return TP_OK;
}
static tp_status leave(tp_callback *cb, void *user, tp_tensor *value, bool *set)
{
    (void)cb, (void)user, (void)value, (void)set;
    return TP_OK;
}
TEST(an_array_of_the_programs_is_saved)
{
    tp_test_keep_log();
    tp_dict d = {0};
    for (int load = 0; load < 2; load++) {
        tp_hyper_param *p = tp_hyper_param_new("pair", 0);
        p->get_array = get_program, p->set_array = set_program;
        tp_callback *cb = tp_cb_hyper_param_setter(.param = p, .fn_array = leave);
        program[0] = load ? 7.0f : 3.0f, program[1] = load ? 8.0f : 4.0f;
        if (!load) CHECK_OK(tp_callback_save_state(cb, &d, "p/"));
        else CHECK_OK(tp_callback_load_state(cb, &d, "p/"));
        CHECK(program[0] == 3.0f && program[1] == 4.0f);
        tp_callback_free(cb);
    }
    CHECK(d.n == 1);
    tp_dict_free(&d);
}

/* ==== >>monitors and hooks ============================================================================ */

static char told[200];
static tp_status process(tp_monitor *m, const char *name, const tp_stat *stat)
{
    const size_t n = strlen(told);
    snprintf(told + n, sizeof told - n, "%s %s=%g@%d;", m->cb.name, name, stat->value, (int)stat->step);
    return stat->value < 0 ? tp_fail(TP_ERR_NUMERIC, "below 0") : TP_OK;
}
TEST(monitors_process_keys_and_values)
{
    told[0] = 0;
    tp_monitor *m[3] = {tp_monitor_new("A", 0), tp_monitor_new("B", 0), tp_monitor_new("C", 0)};
    m[0]->process = m[2]->process = process; /* B has none */
    tp_monitors *all = tp_monitors_new(m, 3);
    tp_train_state state = {.global_step = 7};
    tp_stat stat;
    all->cb.train = &state;
    CHECK_OK(tp_monitors_process(all, "key", 0.5));
    CHECK_ERR(tp_monitors_process(all, "low", -1), TP_ERR_NUMERIC, "below 0");
    CHECK_STR(told, "A key=0.5@7;C key=0.5@7;A low=-1@7;");
    CHECK_OK(tp_monitors_put_scalar(all, "scalar", 1)); /* nothing else calls it, and it leaves no history */
    CHECK(strstr(told, "scalar") == NULL);
    CHECK_ERR(tp_monitors_get_latest(all, "key", &stat), TP_ERR_NAME, "No available data for the key: key");
    tp_callback_free(&all->cb);
    for (int i = 0; i < 3; i++) tp_monitor_free(m[i]);
}

/* A callback that fetches w and writes down what it is called for. */
static tp_status tell(tp_callback *cb, const char *what)
{
    const size_t n = strlen(told);
    (void)cb;
    snprintf(told + n, sizeof told - n, "%s ", what);
    return TP_OK;
}
static tp_status tell_setup(tp_callback *cb) { return tell(cb, cb->train->graph ? "setup" : "no graph"); }
static tp_status tell_train(tp_callback *cb) { return tell(cb, cb->train->session ? "train" : "no session"); }
static tp_status tell_end(tp_callback *cb) { return tell(cb, "end"); }
static tp_status tell_before(tp_callback *cb, tp_run_request *r)
{
    tp_request_fetch(r, (tp_node *)cb->user);
    return tell(cb, "before");
}
static tp_status tell_after(tp_callback *cb, const tp_run_values *v)
{
    CHECK(v->n == 1 && tp_tensor_get(v->value[0], 0) == 2.5);
    return tell(cb, "after");
}
TEST(a_callback_is_a_hook)
{
    for (int whole = 0; whole < 2; whole++) {
        told[0] = 0;
        tp_graph *g = tp_graph_new(NULL);
        tp_train_state state = {0};
        tp_callback *cb = tp_callback_new("Teller", 0);
        cb->user = tp_const(g, 2.5f);
        cb->setup_graph = tell_setup, cb->before_train = tell_train, cb->after_train = tell_end;
        cb->before_run = tell_before, cb->after_run = tell_after;
        tp_hook *h = tp_callback_to_hook(cb, whole ? &state : NULL);
        if (!CHECK(h)) return;
        CHECK_STR(h->name, "Teller");
        if (h->begin) CHECK_OK(h->begin(h, g));
        tp_session *s = tp_session_new(g, NULL);
        if (h->after_create_session) CHECK_OK(h->after_create_session(h, s));
        tp_hooked_session *hooked = tp_hooked_session_new(s, &h, 1);
        CHECK_OK(tp_hooked_run(hooked, NULL, 0, NULL));
        CHECK_OK(tp_hooked_run(hooked, NULL, 0, NULL));
        if (h->end) h->end(h, s);
        CHECK_STR(told, whole ? "setup train before after before after end " : "before after before after ");
        CHECK(whole == (state.graph == g && state.session == s));
        tp_hooked_session_free(hooked);
        tp_session_free(s);
        tp_callback_free(cb);
        tp_graph_free(g);
    }
}

/* ==== >>the trainer =================================================================================== */

/* A trainer like a GAN's: it has two train ops. A callback chooses which of them runs and reports how often each did. */
typedef struct gan {
    tp_node *op[2];
    int period, ran[2];
} gan;
static tp_status gan_step(tp_trainer *t)
{
    gan *n = (gan *)t->user;
    const int which = t->state.global_step % n->period == 0;
    n->ran[which]++;
    return tp_hooked_run(t->state.hooked_session, &n->op[which], 1, NULL);
}
static tp_status gan_period(tp_callback *cb)
{
    tp_trainer *t = cb->train->trainer;
    gan *n = (gan *)t->user;
    if (cb->train->epoch_num == 1) n->period = 2;
    CHECK(t->train_op == n->op[1] && t->run_step == gan_step && &t->state == cb->train);
    return tp_monitors_put_scalar(cb->train->monitors, "ran", n->ran[1]);
}
TEST(callbacks_reach_their_trainer)
{
    tp_test_keep_log();
    gan n = {.period = 3};
    tp_trainer *t = trainer();
    n.op[0] = tp_assign_add(tp_get_scalar_variable(t->graph, "other", 0), tp_const(t->graph, 1), NULL);
    n.op[1] = t->train_op;
    t->run_step = gan_step;
    t->user = &n;
    tp_callback *cb = tp_cb_lambda(.trigger = gan_period);
    CHECK_OK(tp_train(t, &(tp_train_desc){.callbacks = &cb, .n_callbacks = 1, .steps_per_epoch = 6, .max_epoch = 2}));
    /* steps 0 3, then 6 8 10 */
    CHECK(n.ran[1] == 5 && n.ran[0] == 7);
    CHECK_NEAR(variable(t->state.session, "other"), 7, 0, 0);
    const tp_stat *stat;
    if (CHECK(tp_monitors_get_history(t->state.monitors, "ran", &stat) == 2))
        CHECK(stat[0].value == 2 && stat[1].value == 5);
    tp_trainer_free(t);
}

/* Two hooked sessions: the steps of one count, those of the other see no callback. */
static tp_hooked_session *quiet_one;
static tp_status two_groups(tp_trainer *t)
{
    int n = -1;
    CHECK(tp_trainer_hooks(t, &n) && n == 1);
    quiet_one = tp_hooked_session_new(t->state.session, NULL, 0);
    return quiet_one ? tp_trainer_initialize_hooks(t) : TP_ERR_NOMEM;
}
static tp_status both_steps(tp_trainer *t)
{
    tp_node *add = (tp_node *)t->user;
    const tp_status st = tp_hooked_run(quiet_one, &add, 1, NULL);
    return st == TP_OK ? tp_hooked_run(t->state.hooked_session, &t->train_op, 1, NULL) : st;
}
static tp_status no_hooks(tp_trainer *t) { return t ? TP_OK : TP_ERR; }
TEST(a_trainer_makes_its_own_hooks)
{
    tp_test_keep_log();
    tp_trainer *t = trainer();
    int n = -1;
    CHECK(tp_trainer_hooks(t, &n) && n == 0); /* before setup_callbacks */
    CHECK_ERR(tp_trainer_initialize_hooks(t), TP_ERR_STATE, "when there is a session");
    t->user = tp_assign_add(tp_get_scalar_variable(t->graph, "other", 0), tp_const(t->graph, 1), NULL);
    t->initialize_hooks = two_groups;
    t->run_step = both_steps;
    CHECK_OK(train(t, NULL, 0, 4));
    CHECK_NEAR(variable(t->state.session, "other"), 4, 0, 0);
    CHECK(t->state.global_step == 4); /* and not 8 */
    CHECK_ERR(tp_trainer_initialize_hooks(t), TP_ERR_STATE, "once");
    tp_hooked_session_free(quiet_one);
    tp_trainer_free(t);
    t = trainer();
    t->initialize_hooks = no_hooks;
    CHECK_ERR(train(t, NULL, 0, 1), TP_ERR_STATE, "set no state.hooked_session");
    tp_trainer_free(t);
}

TEST(registering_a_callback_tells_whether_it_did)
{
    tp_test_keep_log();
    for (int chief = 0; chief < 2; chief++)
        for (int only = 0; only < 2; only++) {
            bool registered = !chief;
            tp_trainer *t = tp_noop_trainer();
            t->state.is_chief = chief;
            tp_callback *cb = tp_callback_set_chief_only(tp_callback_new("Cb", 0), only);
            CHECK_OK(tp_trainer_register_callback_ex(t, cb, &registered));
            CHECK(registered == (chief || !only));
            CHECK(t->n_callback_ == registered);
            CHECK_OK(train(t, NULL, 0, 1));
            registered = true;
            CHECK_ERR(tp_trainer_register_callback_ex(t, tp_callback_new("Late", 0), &registered), TP_ERR_STATE,
                      "too late");
            CHECK(!registered);
            tp_trainer_free(t);
        }
}

TEST(data_that_end_fail_the_training_unless_told_otherwise)
{
    for (int quiet_end = 0; quiet_end < 2; quiet_end++) {
        tp_test_keep_log();
        TEST_MAY_ERROR("Training failed at global_step=3: FeedInput: the data ended after 3 datapoints");
        tp_trainer *t = tp_simple_trainer();
        CHECK_OK(tp_trainer_setup_graph(
            t, &model, tp_feed_input(numbers(3), .infinite = TP_NO, .quiet_end = quiet_end ? TP_YES : TP_UNSET)));
        const tp_status st = train(t, NULL, 0, 5);
        if (quiet_end) CHECK(st == TP_OK);
        else CHECK_ERR(st, TP_ERR_STATE, ".quiet_end = TP_YES");
        CHECK(t->state.global_step == 3);
        tp_trainer_free(t);
    }
}

TEST_MAIN()
