/* test_trainers.c - trainers at the edges: calls at the wrong time, memory that runs out, odd folders to resume from */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_test.h"

/* ==== >>helpers ======================================================================================= */

/* cost = mean((x w)^2). `lr` chooses the kind of learning rate. */
enum { RATE, RATE_NAN, RATE_NEGATIVE, RATE_ZERO, RATE_COMPUTED, RATE_COMPUTED_NEGATIVE, RATE_FED, RATE_NO_OPTIMIZER };
typedef struct recipe {
    int lr, regularizer; /* 1: one that nothing consumes; 2: as a part of the cost */
    tp_node *x;
} recipe;

static tp_shape shape_of(int64_t a, int64_t b)
{
    const int64_t dim[2] = {a, b};
    return tp_make_shape_n(2, dim);
}
static tp_node *build(tp_graph *g, tp_node *const *in, void *user)
{
    recipe *r = (recipe *)user;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, shape_of(2, 1), tp_init_ones());
    tp_node *cost = tp_mean(tp_square(tp_matmul(in[0], w)));
    if (r) r->x = in[0];
    if (r && r->regularizer) {
        tp_node *loss = tp_named(tp_mean(tp_square(w)), "decay");
        tp_collection_add(g, TP_KEY_REGULARIZATION_LOSSES, loss);
        if (r->regularizer == 2) cost = tp_add(cost, loss);
    }
    return tp_named(cost, "cost");
}
static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    const recipe *r = (const recipe *)user;
    const int lr = r ? r->lr : RATE;
    tp_node *zero = tp_sub(tp_const(g, 1), tp_const(g, 1));
    if (lr == RATE_NO_OPTIMIZER) return NULL;
    if (lr == RATE_COMPUTED) return tp_sgd_(zero, NULL);
    if (lr == RATE_COMPUTED_NEGATIVE) return tp_sgd_(tp_sub(zero, tp_const(g, 1)), NULL);
    if (lr == RATE_FED) return tp_sgd_(tp_mean(r->x), NULL);
    const float value = lr == RATE_NAN ? NAN : lr == RATE_NEGATIVE ? -1.0f : lr == RATE_ZERO ? 0.0f : 0.125f;
    return tp_sgd_(tp_get_scalar_variable(g, "learning_rate", value), NULL);
}
static tp_model model(recipe *r)
{
    static tp_spec spec[1];
    tp_model m;
    memset(&m, 0, sizeof m);
    spec[0].name = "x";
    spec[0].dtype = TP_F32;
    spec[0].shape = shape_of(3, 2);
    m.inputs = spec;
    m.n_inputs = 1;
    m.build_graph = build;
    m.optimizer = optimizer;
    m.user = r;
    return m;
}
static tp_status point(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user, (void)pass;
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, shape_of(3, 2));
    for (int i = 0; i < 6 && st == TP_OK; i++) ((float *)dp->c[0].data)[i] = (float)(index + i) / 16;
    return st;
}
static tp_dataflow *flow(void) { return tp_df_from_generator(point, .size = 8, .indexed = TP_YES); }

/* A callback that counts, and does in one place what `act` says. */
typedef struct counter {
    int *steps;
    tp_status (*act)(tp_callback *cb);
} counter;
static tp_status count_step(tp_callback *cb)
{
    const counter *c = (const counter *)cb->user;
    if (c->steps) ++*c->steps;
    return c->act ? c->act(cb) : TP_OK;
}
static tp_callback *counting(int *steps, tp_status (*act)(tp_callback *cb))
{
    tp_callback *cb = tp_callback_new("Counting", sizeof(counter));
    if (!cb) return NULL;
    ((counter *)cb->user)->steps = steps;
    ((counter *)cb->user)->act = act;
    cb->trigger_step = count_step;
    return cb;
}

static tp_train_config config(tp_callback *const *cb, int n, recipe *r)
{
    tp_train_config c;
    memset(&c, 0, sizeof c);
    c.model = model(r);
    c.dataflow = flow();
    c.callbacks = cb;
    c.n_callbacks = n;
    c.steps_per_epoch = 2;
    c.max_epoch = 1;
    c.n_extra_callbacks = c.n_monitors = TP_NONE;
    return c;
}

#define NO_LEAK(call_)                                                                               \
    do {                                                                                             \
        tp_test_fail_after(0);                                                                       \
        call_;                                                                                       \
        CHECK_MSG(tp_test_live_blocks() == 0, "%s: %ld blocks leak", #call_, tp_test_live_blocks()); \
        tp_test_alloc_reset();                                                                       \
    } while (0)

/* ==== >>wrong time ==================================================================================== */

/* First in this file: no logger directory was set yet. */
TEST(auto_resume_without_a_logger_directory)
{
    tp_test_keep_log();
    tp_train_config c;
    memset(&c, 0, sizeof c);
    if (!CHECK(!tp_logger_dir())) return;
    CHECK_ERR(tp_auto_resume_train_config(&c), TP_ERR_STATE, "auto_resume needs the logger's directory");
    CHECK(!c.session_init && c.starting_epoch == 0);
    CHECK_ERR(tp_auto_resume_train_config(NULL), TP_ERR_ARG, "");
}

/* A tower function is set once, and is of the trainer's graph. */
TEST(the_tower_function_of_a_trainer)
{
    static const tp_spec spec = {"x", TP_F32, {2, {3, 2}}};
    tp_test_keep_log();
    TEST_MAY_ERROR("");
    tp_graph *other = tp_graph_new(NULL);
    tp_trainer *t = tp_simple_trainer();
    if (!CHECK(t && other)) return;
    tp_tower_func *mine = tp_tower_func_new(t->graph, build, NULL, &spec, 1),
                  *theirs = tp_tower_func_new(other, build, NULL, &spec, 1);
    CHECK(tp_trainer_set_tower_func(NULL, mine) == TP_ERR_ARG);
    CHECK(tp_trainer_set_tower_func(t, NULL) == TP_ERR_ARG);
    CHECK_ERR(tp_trainer_set_tower_func(t, theirs), TP_ERR_ARG,
              "the tower function is of another graph than the trainer's");
    CHECK(!t->state.tower_func);
    CHECK_OK(tp_trainer_set_tower_func(t, mine));
    CHECK(t->state.tower_func == mine);
    CHECK_ERR(tp_trainer_set_tower_func(t, mine), TP_ERR_STATE, "the tower function is set once, before the callbacks");
    CHECK_ERR(tp_trainer_set_seed(t, 1), TP_ERR_STATE,
              "before anything is built"); /* it is of the graph that would go */
    CHECK(tp_trainer_inputs_desc(t, &(int){0}) != NULL);
    tp_trainer_free(t);
    tp_graph_free(other);
}

static void setup_graph_wrongly(void)
{
    tp_model m = model(NULL);
    tp_trainer *t = tp_simple_trainer();
    CHECK_ERR(tp_trainer_setup_graph(NULL, &m, tp_feed_input(flow())), TP_ERR_ARG, "tp_trainer_setup_graph");
    CHECK_ERR(tp_trainer_setup_graph(t, NULL, tp_feed_input(flow())), TP_ERR_ARG, "tp_trainer_setup_graph");
    CHECK_ERR(tp_trainer_setup_graph(NULL, NULL, NULL), TP_ERR_ARG, "tp_trainer_setup_graph");
    CHECK(!t->graph_ready_); /* these do not count as its one call */
    tp_input_source *input = tp_feed_input(flow());
    CHECK_OK(tp_trainer_setup_graph(t, &m, input));
    CHECK(t->input_ == input && t->train_op && t->cost);
    CHECK_ERR(tp_trainer_setup_graph(t, &m, tp_feed_input(flow())), TP_ERR_STATE, "setup_graph comes once");
    CHECK_ERR(tp_trainer_setup_graph(t, &m, input), TP_ERR_STATE, "setup_graph comes once"); /* its own: stays */
    CHECK_ERR(tp_trainer_setup_graph(t, &m, NULL), TP_ERR_STATE, "setup_graph comes once");
    CHECK(t->input_ == input);
    CHECK_ERR(tp_trainer_set_seed(t, 1), TP_ERR_STATE, "before anything is built");
    tp_trainer *late = tp_simple_trainer();
    CHECK_OK(tp_trainer_setup_callbacks(late, NULL, 0, NULL, 0));
    CHECK_ERR(tp_trainer_setup_graph(late, &m, tp_feed_input(flow())), TP_ERR_STATE, "before the callbacks");
    CHECK_ERR(tp_trainer_set_seed(late, 1), TP_ERR_STATE, "before anything is built");
    CHECK_ERR(tp_trainer_set_seed(NULL, 1), TP_ERR_ARG, "tp_trainer_set_seed");
    CHECK_ERR(tp_trainer_setup_graph(late, NULL, input), TP_ERR_ARG, "tp_trainer_setup_graph"); /* t's: stays */
    tp_trainer_free(late);
    tp_trainer *seeded = tp_simple_trainer();
    tp_const(seeded->graph, 1);
    CHECK_ERR(tp_trainer_set_seed(seeded, 1), TP_ERR_STATE, "before anything is built"); /* an operation by hand */
    tp_trainer_free(seeded);
    CHECK_OK(tp_trainer_setup_callbacks(t, NULL, 0, NULL, 0));
    CHECK_OK(tp_trainer_initialize(t, NULL));
    CHECK_OK(tp_trainer_main_loop(t, 2, 1, 1)); /* and what was refused has harmed nothing */
    CHECK(t->state.global_step == 2);
    tp_trainer_free(t);
}

static void models_without(void)
{
    for (int i = 0; i < 4; i++) {
        tp_trainer *t = tp_simple_trainer();
        tp_model m = model(NULL);
        if (i == 0) m.inputs = NULL;
        if (i == 1) m.n_inputs = 0;
        if (i == 2) m.build_graph = NULL;
        CHECK_ERR(tp_trainer_setup_graph(t, &m, i < 3 ? tp_feed_input(flow()) : NULL), TP_ERR_ARG,
                  i < 3 ? "the model needs .inputs, .n_inputs and .build_graph: " : "the input source is NULL");
        tp_trainer_free(t);
    }
    recipe r;
    memset(&r, 0, sizeof r);
    r.lr = RATE_NO_OPTIMIZER;
    tp_model m = model(&r);
    tp_trainer *t = tp_simple_trainer();
    CHECK_ERR(tp_trainer_setup_graph(t, &m, tp_feed_input(flow())), TP_ERR_ARG, "optimizer function returned NULL");
    CHECK(!t->train_op);
    tp_trainer_free(t);
    tp_spec unnamed = m.inputs[0];
    unnamed.name = NULL;
    m.inputs = &unnamed;
    t = tp_simple_trainer();
    CHECK(tp_trainer_setup_graph(t, &m, tp_feed_input(flow())) < 0 && !t->train_op);
    tp_trainer_free(t);
}

static void callbacks_wrongly(void)
{
    tp_trainer *t = tp_noop_trainer();
    tp_callback *cb = counting(NULL, NULL);
    tp_monitor *monitor = tp_monitor_new("Mine", 0);
    CHECK(tp_trainer_register_callback(t, NULL) < 0);
    CHECK(tp_trainer_register_callback(NULL, NULL) < 0);
    CHECK_ERR(tp_trainer_register_callback(NULL, counting(NULL, NULL)), TP_ERR_ARG, "tp_trainer_register_callback");
    CHECK(t->n_callback_ == 0);
    CHECK_OK(tp_trainer_register_callback(t, cb));
    CHECK_ERR(tp_trainer_register_callback(t, cb), TP_ERR_ARG, "given away twice");
    CHECK_ERR(tp_trainer_register_callback(NULL, cb), TP_ERR_ARG, "given away twice");
    CHECK(t->n_callback_ == 1);
    /* lists that say how many they hold, and are NULL: what the other one holds is freed */
    cb = counting(NULL, NULL);
    CHECK_ERR(tp_trainer_setup_callbacks(t, NULL, 1, &monitor, 1), TP_ERR_ARG, "tp_trainer_setup_callbacks");
    CHECK_ERR(tp_trainer_setup_callbacks(t, &cb, 1, NULL, 1), TP_ERR_ARG, "tp_trainer_setup_callbacks");
    cb = counting(NULL, NULL);
    monitor = tp_monitor_new("Mine", 0);
    CHECK_ERR(tp_trainer_setup_callbacks(NULL, &cb, 1, &monitor, 1), TP_ERR_ARG, "tp_trainer_setup_callbacks");
    CHECK(!t->callbacks_ready_);
    CHECK(!tp_trainer_monitors(t));
    CHECK_OK(tp_trainer_setup_callbacks(t, NULL, 0, NULL, 0));
    CHECK(tp_trainer_monitors(t) && !tp_trainer_monitors(NULL));
    cb = counting(NULL, NULL);
    monitor = tp_monitor_new("Mine", 0);
    tp_callback *both[3] = {NULL, cb, &monitor->cb}; /* a monitor that stands in both lists is freed once */
    CHECK_ERR(tp_trainer_setup_callbacks(t, both, 3, &monitor, 1), TP_ERR_STATE, "the callbacks are set up once");
    CHECK_ERR(tp_trainer_register_callback(t, counting(NULL, NULL)), TP_ERR_STATE, "comes too late");
    tp_trainer_free(t);
    /* a callback or a monitor that found no memory: the rest is freed */
    for (int i = 0; i < 2; i++) {
        tp_callback *list[2] = {i == 0 ? NULL : counting(NULL, NULL), counting(NULL, NULL)};
        tp_monitor *monitors[2] = {i == 0 ? tp_monitor_new("A", 0) : NULL, tp_monitor_new("B", 0)};
        t = tp_noop_trainer();
        CHECK_ERR(tp_trainer_setup_callbacks(t, list, 2, monitors, 2), TP_ERR_NOMEM, "");
        CHECK(!t->group_);
        CHECK_ERR(tp_trainer_initialize(t, tp_just_current_session()), TP_ERR_STATE, "after setup_callbacks");
        CHECK_ERR(tp_trainer_main_loop(t, 1, 1, 1), TP_ERR_STATE, "after a successful initialize");
        tp_trainer_free(t);
    }
}

/* A call that has failed leaves nothing to train: the next ones say so, whoever did not look at its status. */
static tp_status refuse(tp_callback *cb) { return tp_fail(TP_ERR_ARG, "%s has no mind to train", cb->name); }
static void after_a_failed_call(void)
{
    tp_model m = model(NULL);
    tp_callback *list[2] = {tp_callback_new("First", 0), counting(NULL, refuse)};
    list[0]->setup_graph = refuse;
    tp_trainer *t = tp_simple_trainer();
    CHECK_OK(tp_trainer_setup_graph(t, &m, tp_feed_input(flow())));
    CHECK_ERR(tp_trainer_setup_callbacks(t, list, 2, NULL, 0), TP_ERR_ARG, "First has no mind to train");
    CHECK_ERR(tp_trainer_initialize(t, NULL), TP_ERR_STATE, "after setup_callbacks, which has failed");
    CHECK_ERR(tp_trainer_main_loop(t, 1, 1, 1), TP_ERR_STATE, "after a successful initialize");
    tp_trainer_free(t);
    t = tp_simple_trainer();
    CHECK_OK(tp_trainer_setup_graph(t, &m, tp_feed_input(flow())));
    CHECK_OK(tp_trainer_setup_callbacks(t, NULL, 0, NULL, 0));
    CHECK(tp_trainer_initialize(t, tp_saver_restore("no such checkpoint")) < 0);
    CHECK_ERR(tp_trainer_main_loop(t, 1, 1, 1), TP_ERR_STATE, "after a successful initialize");
    CHECK(t->state.global_step == 0);
    tp_trainer_free(t);
}

/* More than the first list of a trainer has room for. */
static void many_callbacks(void)
{
    int steps = 0;
    tp_trainer *t = tp_noop_trainer();
    for (int i = 0; i < 40; i++) CHECK_OK(tp_trainer_register_callback(t, counting(&steps, NULL)));
    CHECK_OK(tp_trainer_setup_callbacks(t, NULL, 0, NULL, 0));
    CHECK_OK(tp_trainer_initialize(t, NULL));
    CHECK_OK(tp_trainer_main_loop(t, 3, 1, 2));
    CHECK(steps == 40 * 6);
    tp_trainer_free(t);
}

static tp_session *no_session(tp_session_creator *c, tp_graph *g)
{
    (void)c, (void)g;
    tp_fail(TP_ERR_ARG, "this creator makes none");
    return NULL;
}

static void initialize_and_loop_wrongly(void)
{
    tp_trainer *t = tp_simple_trainer();
    tp_session_init *init = tp_just_current_session();
    CHECK_ERR(tp_trainer_initialize(NULL, NULL), TP_ERR_ARG, "tp_trainer_initialize");
    CHECK_ERR(tp_trainer_initialize(NULL, tp_just_current_session()), TP_ERR_ARG, "tp_trainer_initialize");
    CHECK_ERR(tp_trainer_initialize(t, tp_just_current_session()), TP_ERR_STATE, "after setup_callbacks");
    CHECK_ERR(tp_trainer_main_loop(t, 1, 1, 1), TP_ERR_STATE, "after a successful initialize");
    CHECK_ERR(tp_trainer_main_loop(NULL, 1, 1, 1), TP_ERR_ARG, "tp_trainer_main_loop");
    CHECK_ERR(tp_trainer_run_step(NULL), TP_ERR_ARG, "tp_trainer_run_step");
    CHECK_ERR(tp_trainer_run_step(t), TP_ERR_ARG, "tp_trainer_run_step");
    CHECK_OK(tp_trainer_setup_callbacks(t, NULL, 0, NULL, 0));
    init->owner_.who = "somebody";
    CHECK_ERR(tp_trainer_initialize(t, init), TP_ERR_ARG, "given away twice");
    CHECK_ERR(tp_trainer_initialize(NULL, init), TP_ERR_ARG, "tp_trainer_initialize"); /* stays somebody's */
    init->owner_.who = NULL;
    CHECK(!t->initialized_);
    CHECK_OK(tp_trainer_initialize(t, init));
    CHECK_ERR(tp_trainer_initialize(t, tp_just_current_session()), TP_ERR_STATE, "initialize comes once");
    CHECK_ERR(tp_trainer_main_loop(t, -1, 1, 1), TP_ERR_ARG, "-1 steps per epoch");
    CHECK_ERR(tp_trainer_main_loop(t, 1, 1, -2), TP_ERR_ARG, "-2 epochs");
    CHECK(!t->looped_);
    CHECK_ERR(tp_trainer_run_step(t), TP_ERR_STATE, "has no train_op");
    CHECK_ERR(tp_trainer_main_loop(t, 1, 1, 1), TP_ERR_STATE, "has no train_op");
    CHECK(t->state.global_step == 0);
    CHECK_ERR(tp_trainer_main_loop(t, 1, 1, 1), TP_ERR_STATE, "main_loop comes once");
    tp_status (*run_step)(tp_trainer *) = t->run_step;
    t->run_step = NULL;
    CHECK_ERR(tp_trainer_run_step(t), TP_ERR_ARG, "tp_trainer_run_step");
    t->run_step = run_step;
    tp_trainer_free(t);
    t = tp_simple_trainer();
    t->creator.create = no_session;
    CHECK_OK(tp_trainer_setup_callbacks(t, NULL, 0, NULL, 0));
    CHECK(tp_trainer_initialize(t, tp_just_current_session()) < 0 && !t->state.session);
    CHECK_HAS(tp_last_error(), "this creator makes none");
    CHECK_ERR(tp_trainer_main_loop(t, 1, 1, 1), TP_ERR_STATE, "after a successful initialize");
    CHECK_ERR(tp_trainer_initialize(t, NULL), TP_ERR_STATE, "initialize comes once");
    tp_trainer_free(t);
    t = tp_simple_trainer();
    CHECK_OK(tp_trainer_setup_callbacks(t, NULL, 0, NULL, 0));
    tp_graph_fail(t->graph, NULL, TP_ERR_SHAPE, "a node that came later");
    CHECK_ERR(tp_trainer_initialize(t, tp_just_current_session()), TP_ERR_SHAPE, "a node that came later");
    tp_trainer_free(t);
}

/* An input that cannot give its hooks: training does not begin, with the input's sentence. */
static tp_status no_hooks(tp_input_source *s, tp_hook *const **hook, int *n)
{
    (void)hook, (void)n;
    return tp_fail(TP_ERR_NUMERIC, "%s has no hooks", s->name);
}
static void input_without_hooks(void)
{
    tp_train_config c = config(NULL, 0, NULL);
    tp_df_free(c.dataflow);
    c.dataflow = NULL;
    c.data = tp_feed_input(flow());
    c.data->hooks = no_hooks;
    c.steps_per_epoch = 2;
    CHECK_ERR(tp_launch_train_with_config(&c, tp_simple_trainer()), TP_ERR_NUMERIC, "FeedInput has no hooks");
}

TEST(calls_at_the_wrong_time)
{
    TEST_EXPECT_ERROR("has no train_op");
    TEST_EXPECT_ERROR("has no hooks");
    tp_test_keep_log();
    NO_LEAK(input_without_hooks());
    NO_LEAK(setup_graph_wrongly());
    NO_LEAK(models_without());
    NO_LEAK(callbacks_wrongly());
    NO_LEAK(after_a_failed_call());
    NO_LEAK(many_callbacks());
    NO_LEAK(initialize_and_loop_wrongly());
}

/* w after one step of SGD on mean((x w)^2), by hand. */
TEST(a_step_by_hand)
{
    tp_test_keep_log();
    const tp_model m = model(NULL);
    tp_trainer *t = tp_simple_trainer();
    CHECK_OK(tp_trainer_setup_graph(t, &m, tp_feed_input(flow())));
    CHECK_OK(tp_trainer_setup_callbacks(t, NULL, 0, NULL, 0));
    CHECK_OK(tp_trainer_initialize(t, NULL));
    CHECK_OK(tp_input_reset_state(t->state.input)); /* what main_loop does before the first step */
    CHECK_OK(tp_trainer_run_step(t));
    CHECK(t->state.global_step == 1);
    double gradient[2] = {0, 0};
    for (int i = 0; i < 3; i++) {
        const double a = 2 * i / 16.0, b = (2 * i + 1) / 16.0;
        gradient[0] += 2 * (a + b) * a / 3, gradient[1] += 2 * (a + b) * b / 3;
    }
    tp_tensor w;
    memset(&w, 0, sizeof w);
    CHECK_OK(tp_session_read(t->state.session, tp_find_variable(t->graph, "w"), &w));
    for (int i = 0; i < 2; i++) CHECK_NEAR(tp_tensor_get(&w, i), 1 - 0.125 * gradient[i], 1e-6, 0);
    tp_tensor_free(&w);
    tp_trainer_free(t);
}

/* ==== >>configs ======================================================================================= */

static void configs_that_exclude(void)
{
    static const char *const parts[] = {"not both",
                                        "give .session_init or .checkpoint, not both",
                                        "give .session_creator or .session_config, not both",
                                        "batch_size",
                                        "the size of the data is unknown",
                                        "tp_placeholder_input(). If one was given",
                                        "the trainer is NULL",
                                        "no-such-file"};
    tp_session_config session = tp_default_session_config();
    tp_session_creator creator = tp_new_session_creator(&session);
    for (int i = 0; i < TP_COUNT(parts); i++) {
        tp_callback *cb = counting(NULL, NULL), *extra = counting(NULL, NULL);
        tp_monitor *monitor = tp_monitor_new("Mine", 0);
        tp_train_config c = config(&cb, 1, NULL);
        c.extra_callbacks = &extra;
        c.monitors = &monitor;
        c.n_extra_callbacks = c.n_monitors = 1;
        if (i == 0) c.data = tp_feed_input(flow());
        if (i == 1) c.checkpoint = "x", c.session_init = tp_just_current_session();
        if (i == 2) c.session_config = &session, c.session_creator = &creator;
        if (i == 3) c.steps_per_epoch = 0, c.dataflow = tp_df_batch(c.dataflow, -3);
        if (i == 4) {
            tp_df_free(c.dataflow);
            c.steps_per_epoch = 0, c.dataflow = tp_df_from_generator(point);
        }
        if (i == 5) {
            tp_df_free(c.dataflow);
            c.dataflow = NULL;
        }
        if (i == 7) c.checkpoint = "no-such-file";
        const tp_status st = tp_launch_train_with_config(&c, i == 6 ? NULL : tp_simple_trainer());
        CHECK_MSG(st < 0, "case %d: %s", i, tp_status_name(st));
        CHECK_HAS(tp_last_error(), parts[i]);
    }
    CHECK_ERR(tp_launch_train_with_config(NULL, tp_simple_trainer()), TP_ERR_ARG, "tp_launch_train_with_config");
    CHECK_ERR(tp_train(NULL, NULL), TP_ERR_ARG, "tp_train");
    CHECK_ERR(tp_train_with_defaults(NULL, NULL), TP_ERR_ARG, "tp_train_with_defaults");
    CHECK(!tp_apply_default_prefetch(flow(), NULL));
    CHECK_HAS(tp_last_error(), "tp_apply_default_prefetch");
    tp_callback *cb = counting(NULL, NULL);
    tp_train_desc d;
    memset(&d, 0, sizeof d);
    d.callbacks = &cb;
    d.n_callbacks = 1;
    d.session_init = tp_just_current_session();
    d.steps_per_epoch = 1;
    d.stop_on_nan = TP_NO;
    CHECK_ERR(tp_train(NULL, &d), TP_ERR_ARG, ""); /* takes over what d points at */
    tp_trainer *t = tp_noop_trainer();
    CHECK_OK(tp_trainer_setup_callbacks(t, NULL, 0, NULL, 0));
    cb = counting(NULL, NULL);
    d.session_init = tp_just_current_session();
    CHECK_ERR(tp_train(t, &d), TP_ERR_STATE, "the callbacks are set up once");
    tp_trainer_free(t);
}

/* A simple trainer trains the variables that its tower makes, not one that was there before. */
static tp_node *reads_what_was_there(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *own = tp_get_variable_as(g, "own", TP_F32, shape_of(2, 1), tp_init_ones());
    return tp_named(tp_mean(tp_square(tp_matmul(in[0], tp_add(own, *(tp_node **)user)))), "cost");
}
static tp_optimizer *rate_of_an_eighth(tp_graph *g, void *user)
{
    (void)user;
    return tp_sgd_(tp_get_scalar_variable(g, "learning_rate", 0.125f), NULL);
}
TEST(variables_from_before_the_tower)
{
    tp_trainer *t = tp_simple_trainer();
    tp_node *before = tp_get_variable_as(t->graph, "before", TP_F32, shape_of(2, 1), tp_init_ones());
    tp_model m = model(NULL);
    m.build_graph = reads_what_was_there;
    m.optimizer = rate_of_an_eighth;
    m.user = &before;
    tp_tensor value;
    memset(&value, 0, sizeof value);
    tp_train_desc d;
    memset(&d, 0, sizeof d);
    d.steps_per_epoch = d.max_epoch = 1;
    CHECK_OK(tp_trainer_setup_graph(t, &m, tp_feed_input(flow())));
    CHECK_OK(tp_train(t, &d));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(tp_session_read(t->state.session, tp_find_variable(t->graph, i ? "own" : "before"), &value));
        for (int k = 0; k < 2; k++) CHECK_MSG((tp_tensor_get(&value, k) != 1) == (i == 1), "variable %d", i);
    }
    tp_tensor_free(&value);
    tp_trainer_free(t);
}

TEST(configs_that_exclude_each_other)
{
    TEST_EXPECT_ERROR("Training did not start: ");
    tp_test_keep_log();
    NO_LEAK(configs_that_exclude());
}

/* Counts of lists without lists and the other way round, NONE, the data's size: what training makes of them. */
static void odd_counts(void)
{
    int steps = 0;
    tp_callback *cb = counting(&steps, NULL);
    tp_train_config c = config(&cb, 1, NULL);
    c.steps_per_epoch = 0; /* the size of the flow */
    c.max_epoch = 2;
    c.seed = 7;
    CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
    CHECK_MSG(steps == 16, "%d steps of 2 times 8", steps);

    steps = 0; /* the size of an input; lists without length are none */
    cb = counting(&steps, NULL);
    tp_callback *extra = counting(&steps, NULL);
    c = config(&cb, 1, NULL);
    tp_df_free(c.dataflow);
    c.dataflow = NULL;
    c.data = tp_feed_input(flow());
    c.steps_per_epoch = 0;
    c.extra_callbacks = &extra;
    c.n_extra_callbacks = 1;
    c.max_epoch = TP_NONE;
    CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
    CHECK_MSG(steps == 0, "%d steps of no epoch", steps);

    for (int n = 0; n < 4; n += 3) { /* no list; a count without a list */
        c = config(NULL, n, NULL);
        c.n_extra_callbacks = c.n_monitors = TP_NONE;
        tp_session_config session = tp_default_session_config();
        session.threads = 1;
        tp_session_creator creator = tp_new_session_creator(&session);
        c.session_creator = &creator;
        TEST_MAY_ERROR(".n_callbacks is 3, but .callbacks is NULL");
        const tp_status st = tp_launch_train_with_config(&c, tp_simple_trainer());
        CHECK_MSG(st == (n ? TP_ERR_ARG : TP_OK), "%d callbacks: %s", n, tp_last_error());
    }
}
TEST(counts_and_sizes)
{
    tp_test_keep_log();
    NO_LEAK(odd_counts());
}

/* A rate that teaches nothing is warned about; one that is computed may begin with 0. */
TEST(learning_rates_that_teach_nothing)
{
    static const char *const warns[] = {
        "", "nothing will be learnt", "the cost will grow", "nothing will be learnt", "", "the cost will grow", ""};
    for (int lr = RATE; lr <= RATE_FED; lr++) {
        recipe r;
        memset(&r, 0, sizeof r);
        r.lr = lr;
        tp_train_config c = config(NULL, 0, &r);
        c.max_epoch = TP_NONE;
        tp_test_keep_log();
        CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
        CHECK_MSG((strstr(tp_test_logged, "The learning rate '") != NULL) == (*warns[lr] != 0), "rate %d: %s", lr,
                  tp_test_logged);
        CHECK_HAS(tp_test_logged, warns[lr]);
    }
}

/* Step 1 makes the variables NaN, step 2 sees it in the cost. */
TEST(a_cost_that_is_nan)
{
    TEST_EXPECT_ERROR("is NaN after step 2 of epoch 1 (global_step=2)");
    for (int i = 0; i < 3; i++) {
        int steps = 0;
        recipe r;
        memset(&r, 0, sizeof r);
        r.lr = RATE_NAN;
        tp_callback *cb = counting(&steps, NULL);
        tp_train_config c = config(&cb, 1, &r);
        c.steps_per_epoch = 5;
        c.stop_on_nan = i == 0 ? 0 : i == 1 ? TP_YES : TP_NO;
        tp_test_keep_log();
        const tp_status st = tp_launch_train_with_config(&c, tp_simple_trainer());
        if (i == 2) CHECK_OK(st);
        else CHECK_ERR(st, TP_ERR_NUMERIC, "the cost 'cost' is NaN after step 2 of epoch 1");
        CHECK_MSG(steps == (i == 2 ? 5 : 1), "%d steps", steps); /* trigger_step of the second never came */
    }
}

TEST(regularizers_that_nobody_consumes)
{
    for (int i = 0; i < 3; i++) {
        recipe r;
        memset(&r, 0, sizeof r);
        r.regularizer = i;
        tp_train_config c = config(NULL, 0, &r);
        tp_test_keep_log();
        CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
        CHECK((strstr(tp_test_logged, "Item 'decay' of REGULARIZATION_LOSSES has no consumers") != NULL) == (i == 1));
    }
}

static tp_status stop_at_three(tp_callback *cb)
{
    return cb->train->global_step == 3 ? tp_stop(cb->train, "three are enough") : TP_OK;
}
/* Lists of no length hand nothing over; 0 for the last epoch is as good as none. */
TEST(lists_of_no_length)
{
    int steps = 0, others = 0;
    tp_callback *cb = counting(&steps, stop_at_three), *extra = counting(&others, NULL);
    tp_monitor *monitor = tp_monitor_new("Mine", 0);
    tp_train_config c = config(&cb, 1, NULL);
    c.extra_callbacks = &extra;
    c.n_extra_callbacks = 0;
    c.monitors = &monitor;
    c.n_monitors = 0;
    c.max_epoch = 0;
    tp_test_keep_log();
    CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
    CHECK_HAS(tp_test_logged, "Training was stopped: three are enough.");
    CHECK(steps == 3 && others == 0);
    tp_callback_free(extra); /* they are still ours */
    tp_monitor_free(monitor);
    cb = counting(&steps, NULL);
    c = config(&cb, 0, NULL);
    CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
    CHECK(steps == 3);
    tp_callback_free(cb);
}

static tp_status mark_scalar(tp_monitor *m, const char *name, const tp_stat *stat)
{
    (void)name, (void)stat;
    ++*(int *)m->cb.user;
    return TP_OK;
}
static tp_status report(tp_callback *cb) { return tp_monitors_put_scalar(cb->train->monitors, "x", 1); }
/* On another rank a monitor that is for the chief alone is skipped; the other one still hears everything. */
TEST(monitors_of_another_rank)
{
    tp_test_keep_log();
    tp_trainer *t = tp_noop_trainer();
    tp_monitor *monitors[2] = {tp_monitor_new("Chief", 8), tp_monitor_new("Everybody", 8)};
    tp_callback *cb = counting(NULL, report);
    cb->chief_only = false;
    for (int i = 0; i < 2; i++) monitors[i]->process_scalar = mark_scalar;
    monitors[0]->cb.chief_only = true;
    t->state.is_chief = false;
    CHECK_OK(tp_trainer_setup_callbacks(t, &cb, 1, monitors, 2));
    CHECK_HAS(tp_test_logged, "Callback Chief is chief-only, skipped.");
    CHECK(tp_trainer_monitors(t)->n_monitor == 1 && tp_trainer_monitors(t)->monitor[0] == monitors[1]);
    CHECK_OK(tp_trainer_initialize(t, NULL));
    CHECK_OK(tp_trainer_main_loop(t, 3, 1, 1));
    CHECK(*(int *)monitors[1]->cb.user == 3);
    tp_trainer_free(t);
}

/* ==== >>the end ======================================================================================= */

static tp_status ask_to_stop(tp_callback *cb)
{
    if (cb->train->global_step == 3) tp_hooked_session_request_stop(cb->train->hooked_session);
    return TP_OK;
}
TEST(a_session_that_should_stop_ends_the_training)
{
    int steps = 0;
    tp_callback *cb = counting(&steps, ask_to_stop);
    tp_train_config c = config(&cb, 1, NULL);
    c.steps_per_epoch = 2;
    c.max_epoch = 5;
    tp_test_keep_log();
    CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
    CHECK_MSG(steps == 3, "%d steps", steps);
    CHECK(!strstr(tp_test_logged, "Training has finished!") && !strstr(tp_test_logged, "Epoch 2 (global_step"));
}

static tp_status tell_first(tp_callback *cb) { return tp_callback_set_unsaved(cb, "the first is lost"), TP_OK; }
static tp_status tell_second(tp_callback *cb) { return tp_callback_set_unsaved(cb, "the second is lost"), TP_OK; }
TEST(what_is_not_on_the_disk)
{
    TEST_EXPECT_ERROR("the first is lost");
    TEST_EXPECT_ERROR("the second is lost");
    for (int ok = 0; ok < 3; ok++) {
        tp_callback *cb[2] = {counting(NULL, tell_first), counting(NULL, tell_second)};
        tp_train_config c = config(cb, 2, NULL);
        c.unsaved_is_ok = ok == 2 ? TP_YES : ok == 1 ? TP_NO : 0;
        tp_test_keep_log();
        const tp_status st = tp_launch_train_with_config(&c, tp_simple_trainer());
        if (ok == 2) CHECK_OK(st);
        else CHECK_ERR(st, TP_ERR_IO, "Counting: the first is lost");
    }
}

static int n_saved, fail_at;
static tp_status save(tp_callback *cb)
{
    (void)cb;
    return ++n_saved == fail_at ? tp_fail(TP_ERR_IO, "save number %d failed", n_saved) : TP_OK;
}
static tp_status request(tp_callback *cb) { return tp_callback_request_checkpoint(cb), TP_OK; }

/* Asked for in each of three steps and in after_train: within an epoch, at its end, at the end of the training. */
TEST(checkpoints_of_steps_and_of_the_end)
{
    TEST_EXPECT_ERROR("save number 4 failed");
    TEST_EXPECT_ERROR("save number 2 failed");
    TEST_EXPECT_ERROR("The checkpoint at the end of the training failed");
    for (fail_at = 0; fail_at < 6; fail_at += 2) {
        int steps = 0;
        tp_callback *cb = counting(&steps, request);
        cb->checkpoint = save;
        cb->after_train = request;
        tp_train_config c = config(&cb, 1, NULL);
        c.steps_per_epoch = 3;
        tp_test_keep_log();
        n_saved = 0;
        const tp_status st = tp_launch_train_with_config(&c, tp_simple_trainer());
        if (fail_at == 0) CHECK_OK(st);
        else CHECK_ERR(st, TP_ERR_IO, fail_at == 2 ? "save number 2 failed" : "save number 4 failed");
        CHECK_MSG(steps == (fail_at == 2 ? 2 : 3), "%d steps", steps);
        CHECK_MSG(n_saved == (fail_at == 2 ? 3 : 4), "%d saved", n_saved);
    }
}

/* ==== >>resume ======================================================================================== */

static void put_i64(tp_dict *d, const char *name, const int64_t *v, int n)
{
    const int64_t length = n;
    tp_tensor *t = tp_dict_add(d, name);
    if (!CHECK(t) || !CHECK_OK(tp_tensor_resize(t, TP_I64, tp_make_shape_n(n ? 1 : 0, &length)))) return;
    memcpy(t->data, v, (size_t)(n ? n : 1) * sizeof *v);
}

/* What a checkpoint says of epochs: how many are complete, whether it was made at the end of one, and the step in it. */
static tp_session_init *checkpoint_of(int64_t epochs, bool at_end, int64_t local_step, bool has_step)
{
    const int64_t epoch[2] = {epochs, at_end}, global_step = 40;
    tp_dict d;
    memset(&d, 0, sizeof d);
    put_i64(&d, "global_step", &global_step, 0);
    put_i64(&d, "tp:epoch", epoch, 2);
    if (has_step) put_i64(&d, "tp:local_step", &local_step, 1);
    tp_session_init *init = tp_dict_restore(&d, false);
    tp_dict_free(&d);
    return init;
}

static tp_status first_local_step(tp_callback *cb)
{
    int64_t *seen = (int64_t *)cb->user;
    if (cb->train->epoch_num == cb->train->starting_epoch) *seen = cb->train->local_step;
    return TP_OK;
}

TEST(where_training_goes_on)
{
    static const struct {
        int64_t epochs, local_step, starting_epoch;
        bool at_end, has_step;
        int steps; /* of two epochs of 4 */
        const char *part, *not_part;
    } cases[] = {
        {2, 0, 3, true, false, 8, "Start Epoch 3", "The checkpoint was made"},
        {2, 1, 3, false, true, 6, "made within epoch 3, after step 2 of 4", "begins anew"},
        {2, 3, 3, false, true, 4, "made within epoch 3, after step 4 of 4", "begins anew"},
        {2, 0, 3, false, true, 7, "made within epoch 3, after step 1 of 4", "begins anew"},
        {2, 0, 3, false, false, 8, "made within epoch 3, which begins anew", "after step"},
        {2, 4, 3, false, true, 8, "made within epoch 3, which begins anew", "after step"},
        {2, -1, 3, false, true, 8, "made within epoch 3, which begins anew", "after step"},
        {2, 1, 5, false, true, 8, "The checkpoint is of epoch 2, but training starts at epoch 5", "made within"},
        {5, 1, 3, true, false, 8, "The checkpoint is of epoch 5, but training starts at epoch 3", "made within"},
        {2, 1, 1, false, true, 8, "The checkpoint is of epoch 2, but training starts at epoch 1", "made within"},
        {0, 1, 1, false, true, 6, "made within epoch 1, after step 2 of 4", "but training starts"}};
    for (int i = 0; i < TP_COUNT(cases); i++) {
        int steps = 0;
        int64_t seen = -9;
        tp_callback *cb[] = {counting(&steps, NULL), tp_callback_new("Sees", 0)};
        cb[1]->before_epoch = first_local_step;
        cb[1]->user = &seen;
        tp_train_desc d;
        memset(&d, 0, sizeof d);
        d.callbacks = cb;
        d.n_callbacks = 2;
        d.steps_per_epoch = 4;
        d.starting_epoch = cases[i].starting_epoch;
        d.max_epoch = cases[i].starting_epoch + 1;
        d.session_init = checkpoint_of(cases[i].epochs, cases[i].at_end, cases[i].local_step, cases[i].has_step);
        tp_test_keep_log();
        tp_trainer *t = tp_noop_trainer();
        CHECK_OK(tp_train(t, &d));
        CHECK_MSG(steps == cases[i].steps, "case %d: %d steps, not %d", i, steps, cases[i].steps);
        CHECK_MSG(t->state.global_step == 40 + steps, "case %d: step %d", i, (int)t->state.global_step);
        /* before_epoch sees the last step that was done; -1: the epoch begins */
        CHECK_MSG(seen == 8 - steps - 1, "case %d: local_step %d in before_epoch", i, (int)seen);
        CHECK_HAS(tp_test_logged, cases[i].part);
        CHECK_MSG(!strstr(tp_test_logged, cases[i].not_part), "case %d: %s", i, tp_test_logged);
        tp_trainer_free(t);
    }
}

/* A checkpoint of another training, made within its epoch 1: auto-resume knows that it is not this one's, which it looked for. */
TEST(a_checkpoint_within_epoch_1_of_another_training)
{
    for (int looked = 0; looked < 2; looked++) {
        int steps = 0;
        tp_callback *cb = counting(&steps, NULL);
        tp_train_config c = config(&cb, 1, NULL);
        CHECK_OK(tp_logger_set_dir(tp_test_tmpdir(), 'd'));
        c.steps_per_epoch = 4;
        c.session_init = checkpoint_of(0, false, 1, true);
        c.auto_resume = looked ? TP_YES : TP_NO;
        tp_test_keep_log();
        CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
        CHECK_MSG(steps == (looked ? 4 : 2), "%d steps", steps);
        CHECK_HAS(tp_test_logged,
                  looked ? "was made within epoch 1 of another training" : "made within epoch 1, after step 2 of 4");
    }
    CHECK_OK(tp_logger_set_dir(NULL, 0));
}

static tp_status interrupt_in_epoch_0(tp_callback *cb)
{
    const tp_train_state *s = cb->train;
    if (s->epoch_num == 0 && s->local_step == 1) CHECK(tp_interrupt());
    return TP_OK;
}
/* The complete epochs before epoch 0 are -1. */
TEST(a_training_goes_on_within_epoch_0)
{
    CHECK_OK(tp_logger_set_dir(tp_test_tmpdir(), 'd'));
    for (int resumes = 0; resumes < 2; resumes++) {
        int steps = 0;
        tp_callback *cb[] = {counting(&steps, resumes ? NULL : interrupt_in_epoch_0), tp_cb_model_saver()};
        tp_train_config c = config(cb, 2, NULL);
        c.steps_per_epoch = 4;
        c.starting_epoch = TP_NONE;
        c.auto_resume = TP_YES;
        tp_test_keep_log();
        CHECK(tp_launch_train_with_config(&c, tp_simple_trainer()) == (resumes ? TP_OK : TP_INTR));
        CHECK_MSG(steps == (resumes ? 6 : 2), "%d steps", steps); /* of epochs 0 and 1 */
        if (resumes) CHECK_HAS(tp_test_logged, "The checkpoint was made within epoch 0, after step 2 of 4");
    }
    CHECK_OK(tp_logger_set_dir(NULL, 0));
}

/* Each run of a step prints; one of them is interrupted meanwhile. */
static int n_run, interrupted_run;
static tp_node *build_printing(tp_graph *g, tp_node *const *in, void *user)
{
    return tp_print(build(g, in, user), "a run of the step");
}
static void interrupt_a_run(void *user, tp_log_level level, const char *message)
{
    (void)user, (void)level;
    if (strstr(message, "a run of the step") && ++n_run == interrupted_run) CHECK(tp_interrupt());
}
static tp_status train_printing(bool one_rank, int interrupted)
{
    tp_callback *cb = tp_cb_model_saver();
    tp_train_config c = config(&cb, 1, NULL);
    c.model.build_graph = build_printing;
    c.steps_per_epoch = 4, c.max_epoch = 2;
    c.auto_resume = TP_YES;
    interrupted_run = interrupted;
    tp_set_log(interrupt_a_run, NULL);
    const tp_status st =
        tp_launch_train_with_config(&c, one_rank ? tp_horovod_trainer(.bucket_bytes = 0) : tp_simple_trainer());
    tp_set_log(NULL, NULL);
    return st;
}
static double trained_weight(const char *dir)
{
    tp_dict d;
    memset(&d, 0, sizeof d);
    CHECK_OK(tp_npz_load(tp_test_path(dir, "model-8.npz"), &d));
    const tp_tensor *w = tp_dict_find(&d, "w");
    const double value = CHECK(w != NULL) ? tp_tensor_get(w, 0) : 0;
    tp_dict_free(&d);
    return value;
}
/* A training that is interrupted within a run and resumed makes each step once, with the trainer of a job of one rank, too. */
TEST(an_interrupted_step_is_made_once)
{
    double whole = 0;
    for (int one_rank = 0; one_rank < 2; one_rank++)
        for (int at = 0; at <= 8; at++) {
            const char *dir = tp_test_tmpdir();
            CHECK_OK(tp_logger_set_dir(dir, 'd'));
            n_run = 0;
            const tp_status st = train_printing(one_rank == 1, at);
            CHECK_MSG(st == (at ? TP_INTR : TP_OK) && n_run == (at ? at : 8), "run %d: %s after %d runs", at,
                      tp_status_name(st), n_run);
            if (at) CHECK_OK(train_printing(one_rank == 1, 0));
            CHECK_MSG(n_run == 8, "run %d: %d runs", at, n_run);
            if (at == 0 && !one_rank) whole = trained_weight(dir);
            const double w = trained_weight(dir);
            CHECK_MSG(w == whole && w < 1, "run %d: %.9g, not %.9g", at, w, whole);
        }
    CHECK_OK(tp_logger_set_dir(NULL, 0));
}

/* A checkpoint of three ranks that one process goes on from, or takes the variables of. */
TEST(a_checkpoint_of_several_ranks_in_one_process)
{
    for (int resumes = 0; resumes < 2; resumes++) {
        const int64_t epoch[2] = {2, 1}, global_step = 40;
        int64_t ranks = 3;
        tp_dict checkpoint;
        tp_train_desc d;
        memset(&checkpoint, 0, sizeof checkpoint);
        put_i64(&checkpoint, "global_step", &global_step, 0);
        put_i64(&checkpoint, "tp:epoch", epoch, 2);
        put_i64(&checkpoint, "tp:ranks", &ranks, 1);
        memset(&d, 0, sizeof d);
        d.steps_per_epoch = 2;
        d.starting_epoch = d.max_epoch = resumes ? 3 : 1;
        d.session_init = tp_dict_restore(&checkpoint, false);
        tp_dict_free(&checkpoint);
        tp_test_keep_log();
        tp_trainer *t = tp_noop_trainer();
        CHECK_OK(tp_train(t, &d));
        CHECK(resumes == (strstr(tp_test_logged, "The checkpoint was made by 3 ranks, this job has 1: ") != NULL));
        CHECK(tp_state_get_i64(tp_session_state(t->state.session), "tp:", "ranks", &ranks, 1));
        CHECK(ranks == 1);
        tp_trainer_free(t);
    }
}

/* <dir>/model-<step>.npz with so many complete epochs; n_epoch: 0 tells no epoch, 1 is too short to tell,
 * 3: within one, but not after which step; 4: and after which. */
static void write_model(const char *dir, int64_t step, int64_t epochs, int n_epoch)
{
    const int64_t epoch[2] = {epochs, n_epoch < 3}, local_step = 0;
    char name[40];
    tp_dict d;
    memset(&d, 0, sizeof d);
    put_i64(&d, "global_step", &step, 0);
    if (n_epoch) put_i64(&d, "tp:epoch", epoch, n_epoch > 2 ? 2 : n_epoch);
    if (n_epoch == 4) put_i64(&d, "tp:local_step", &local_step, 1);
    snprintf(name, sizeof name, "model-%d.npz", (int)step);
    CHECK_OK(tp_npz_save(tp_test_path(dir, name), &d, false));
    tp_dict_free(&d);
}
static void write_text(const char *dir, const char *name, const char *text)
{
    CHECK(tp_test_write(tp_test_path(dir, name), text, strlen(text)));
}
static tp_status resume(tp_train_config *c)
{
    memset(c, 0, sizeof *c);
    tp_test_keep_log();
    const tp_status st = tp_auto_resume_train_config(c);
    tp_session_init_free(c->session_init);
    return st;
}

static void odd_folders(void)
{
    static const char names_9[] = "model_checkpoint_path: \"model-9\"\n";
    tp_train_config c;
    const char *dir = tp_test_tmpdir();
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    CHECK_OK(resume(&c)); /* empty: from the beginning */
    CHECK(!c.session_init && c.starting_epoch == 0);

    write_text(dir, "checkpoint", names_9); /* names one that is gone, and there is no other */
    CHECK_ERR(resume(&c), TP_ERR_FORMAT, "to start from the beginning");
    CHECK_HAS(tp_last_error(), "model-9");
    write_text(dir, "model-9.npz", "no archive"); /* damaged, and there is no other */
    CHECK_ERR(resume(&c), TP_ERR_FORMAT, "to start from the beginning");
    write_text(dir, "model-3.npz", "neither"); /* and an older one is too */
    CHECK_ERR(resume(&c), TP_ERR_FORMAT, "no older checkpoint");
    write_model(dir, 5, 4, 2);
    CHECK_OK(resume(&c));
    CHECK(c.session_init && c.starting_epoch == 5);
    CHECK_HAS(tp_test_logged, "The latest checkpoint cannot be read");
    CHECK_HAS(tp_test_logged, "model-5");
    remove(tp_test_path(dir, "model-9.npz"));
    CHECK_OK(resume(&c)); /* gone instead of damaged */
    CHECK(c.session_init && c.starting_epoch == 5);

    write_text(dir, "checkpoint", "what is this?"); /* a list that names none: the newest that there is */
    write_model(dir, 7, 6, 2);
    CHECK_OK(resume(&c));
    CHECK(c.session_init && c.starting_epoch == 7);
    CHECK_HAS(tp_test_logged, "does not begin with model_checkpoint_path");

    write_text(dir, "checkpoint", "model_checkpoint_path: \"final\"\n"); /* no step: none is older */
    CHECK_ERR(resume(&c), TP_ERR_FORMAT, "has no step in its name");

    write_text(dir, "checkpoint", "model_checkpoint_path: \"model-7\"\n"); /* whose epoch nothing tells */
    for (int n = 0; n < 5; n++) {
        write_model(dir, 7, 6, n);
        const tp_status st = resume(&c);
        if (n == 2 || n == 4) CHECK_OK(st);
        else CHECK_ERR(st, TP_ERR_STATE, "Found Last Epoch=none");
    }
    write_model(dir, 7, 6, 0); /* then stats.json does */
    write_text(dir, "stats.json", "[{\"epoch_num\": 2, \"global_step\": 7}]");
    CHECK_OK(resume(&c));
    CHECK(c.starting_epoch == 3);
    memset(&c, 0, sizeof c); /* what was given gives way */
    tp_session_init *given = c.session_init = tp_just_current_session();
    tp_test_keep_log();
    CHECK_OK(tp_auto_resume_train_config(&c));
    CHECK_HAS(tp_test_logged, "session_init arguments will be overwritten");
    TEST_EXPECT_ERROR("the resume"); /* which may need it, and frees it */
    tp_session_init_free(given);
    tp_session_init_free(c.session_init);
    memset(&c, 0, sizeof c); /* a .checkpoint is what session_init would be made from: it gives way too */
    c.checkpoint = "no-such-file";
    tp_test_keep_log();
    CHECK_OK(tp_auto_resume_train_config(&c));
    CHECK(c.session_init && !c.checkpoint && c.starting_epoch == 3);
    CHECK_HAS(tp_test_logged, "session_init arguments will be overwritten");
    c.checkpoint = "no-such-file";
    CHECK_ERR(tp_auto_resume_train_config(&c), TP_ERR_ARG, "give .session_init or .checkpoint, not both");
    tp_session_init_free(c.session_init);
    memset(&c, 0, sizeof c); /* and it takes precedence where session_init would */
    c.checkpoint = "no-such-file", c.starting_epoch = 7, c.always_resume = TP_NO;
    CHECK_OK(tp_auto_resume_train_config(&c));
    CHECK(!c.session_init && c.checkpoint && c.starting_epoch == 7);
}

TEST(auto_resume_from_odd_folders)
{
    tp_test_keep_log();
    NO_LEAK(odd_folders());
}

/* A process killed after a checkpoint got its name, before the list did, leaves a folder without a list. If the checkpoint
 * cannot be read then, training does not begin anew over it. */
static void unlisted_folder(void)
{
    tp_train_config c;
    const char *dir = tp_test_tmpdir();
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    write_text(dir, "stats.json", "[{\"epoch_num\": 2, \"global_step\": 8}]");
    write_text(dir, "model-8.npz", "no archive");
    CHECK_ERR(resume(&c), TP_ERR_FORMAT, "Remove the checkpoints to start from the beginning");
    CHECK_HAS(tp_last_error(), "model-8.npz");
    CHECK(!c.session_init && c.starting_epoch == 0);
    write_model(dir, 4, 1, 2);
    CHECK_OK(resume(&c));
    CHECK(c.session_init && c.starting_epoch == 2);
    CHECK(remove(tp_test_path(dir, "model-8.npz")) == 0 && remove(tp_test_path(dir, "model-4.npz")) == 0);
    CHECK_OK(resume(&c));
    CHECK(!c.session_init && c.starting_epoch == 0);
    CHECK_HAS(tp_test_logged, "training starts from the beginning");
}

TEST(auto_resume_from_a_folder_without_a_list)
{
    tp_test_keep_log();
    NO_LEAK(unlisted_folder());
}

/* The folder's path fits, but with a checkpoint's name behind it, it does not: that is an error, not a training from the beginning. */
/* Counting on from such numbers would overflow, take for ever or be refused later, where nobody knows the file. */
TEST(checkpoints_with_numbers_that_no_training_reaches)
{
    static const struct {
        const char *key;
        int64_t value;
        const char *part; /* NULL: it is taken */
    } row[] = {
        {"global_step", INT64_MAX, "model-9.npz: its 'global_step' is 9223372036854775807, and no training comes to"},
        {"global_step", -1, "model-9.npz: its 'global_step' is -1, and no training"},
        {"global_step", ((int64_t)1 << 53) + 2, "model-9.npz: its 'global_step' is 9007199254740994"},
        {"global_step", (int64_t)1 << 53, NULL},
        {"tp:epoch", INT64_MAX, "model-9.npz: its 'tp:epoch' is 9223372036854775807"},
        {"tp:epoch", -2, "model-9.npz: its 'tp:epoch' is -2"},
        {"tp:epoch", (int64_t)1 << 31, NULL},
        {"tp:input/consumed", -1, "model-9.npz: its 'tp:input/consumed' is -1"},
        {"tp:input/consumed", (int64_t)1 << 54, "model-9.npz: its 'tp:input/consumed' is 18014398509481984"},
        {"tp:input/consumed", 7, NULL}};
    for (int i = 0; i < TP_COUNT(row); i++) {
        const int64_t step = 9, epoch[2] = {4, 1};
        const char *dir = tp_test_tmpdir();
        char path[600];
        tp_train_config c;
        tp_train_desc t;
        tp_dict d;
        memset(&d, 0, sizeof d);
        memset(&t, 0, sizeof t);
        snprintf(path, sizeof path, "%s/model-9", dir);
        put_i64(&d, "global_step", &step, 0);
        put_i64(&d, "tp:epoch", epoch, 2);
        put_i64(&d, "tp:input/consumed", &step, 0);
        memcpy(tp_dict_find(&d, row[i].key)->data, &row[i].value, sizeof row[i].value);
        CHECK_OK(tp_npz_save(tp_test_path(dir, "model-9.npz"), &d, false));
        CHECK_OK(tp_npz_save(tp_test_path(dir, "model-7.npz"), &d, false)); /* an older one with the same number */
        tp_dict_free(&d);
        write_text(dir, "checkpoint", "model_checkpoint_path: \"model-9\"\n");
        CHECK_OK(tp_logger_set_dir(dir, 'k'));
        tp_status st = resume(&c);
        CHECK_MSG(row[i].part ? st == TP_ERR_FORMAT && strstr(tp_last_error(), row[i].part) : st == TP_OK,
                  "row %d: %s: %s", i, tp_status_name(st), tp_last_error());
        if (row[i].part) { /* an older one is taken */
            write_model(dir, 5, 4, 2);
            CHECK_OK(resume(&c));
            CHECK(c.session_init && c.starting_epoch == 5);
            CHECK_HAS(tp_test_logged, row[i].part);
        }
        /* and without a search for checkpoints */
        t.steps_per_epoch = 2;
        t.starting_epoch = t.max_epoch = 1;
        t.session_init = tp_saver_restore(path);
        tp_trainer *trainer = tp_noop_trainer();
        st = tp_train(trainer, &t);
        const char *part = row[i].part ? strchr(row[i].part, ':') : NULL;
        CHECK_MSG(part ? st == TP_ERR_FORMAT && strstr(tp_last_error(), part) : st == TP_OK, "row %d: %s: %s", i,
                  tp_status_name(st), tp_last_error());
        tp_trainer_free(trainer);
    }
    CHECK_OK(tp_logger_set_dir(NULL, 0));
}

static int n_told;
static void interrupt_a_skip(void *user, tp_log_level level, const char *message)
{
    (void)user, (void)level;
    if (!strstr(message, "the next datapoint is number 1099511627776, and the passes before it are skipped one by one"))
        return;
    n_told++;
    CHECK(tp_interrupt());
}

/* A checkpoint may ask to skip so much data that it takes hours: the log says so, and Ctrl-C ends it. */
TEST(a_long_skip_is_told_and_can_be_interrupted)
{
    const int64_t epoch[2] = {2, 1}, step = 40, consumed = (int64_t)1 << 40;
    tp_dict d;
    memset(&d, 0, sizeof d);
    put_i64(&d, "global_step", &step, 0);
    put_i64(&d, "tp:epoch", epoch, 2);
    put_i64(&d, "tp:input/consumed", &consumed, 1);
    tp_train_config c = config(NULL, 0, NULL);
    c.starting_epoch = 3;
    c.max_epoch = 4;
    c.session_init = tp_dict_restore(&d, false);
    tp_dict_free(&d);
    n_told = 0;
    tp_set_log(interrupt_a_skip, NULL);
    CHECK(tp_launch_train_with_config(&c, tp_simple_trainer()) == TP_INTR);
    tp_set_log(NULL, NULL);
    CHECK(n_told == 1);
}

TEST(auto_resume_from_a_folder_with_a_long_path)
{
    enum { LONGEST = 4095, CHECKPOINT = 26 }; /* of a path; of "/model-9223372036854775807" */
    static char dir[LONGEST + 1];
    for (int over = 0; over < 2; over++) {
        tp_train_config c;
        const size_t size = (size_t)(LONGEST - CHECKPOINT + over);
        tp_test_keep_log();
        TEST_MAY_ERROR("");
        tp_test_long_path(dir, size, tp_test_tmpdir());
        if (tp_make_dirs(dir) != TP_OK) TEST_SKIP("there are no paths that long here");
        if (!CHECK_OK(tp_logger_set_dir(dir, 'k'))) continue;
        if (over) CHECK_ERR(resume(&c), TP_ERR_ARG, "is longer than 4095 bytes");
        else CHECK_OK(resume(&c));
        CHECK(!c.session_init && c.starting_epoch == 0);
    }
    CHECK_OK(tp_logger_set_dir(NULL, 0));
}

/* A NoOpTrainer computes what callbacks fetch: not the cost, which is NaN here. */
static tp_node *no_number(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, shape_of(2, 1), tp_init_ones());
    (void)user;
    return tp_named(tp_ln(tp_affine(tp_mean(tp_square(tp_matmul(in[0], w))), 0.0f, -1.0f)), "cost");
}
TEST(a_noop_trainer_computes_no_cost)
{
    for (int noop = 0; noop < 2; noop++) {
        tp_train_config c = config(NULL, 0, NULL);
        c.model.build_graph = no_number;
        c.n_extra_callbacks = 0; /* with the progress bar */
        c.max_epoch = 2;
        CHECK_OK(tp_logger_set_dir(tp_test_tmpdir(), 'd'));
        if (!noop) TEST_EXPECT_ERROR("the cost 'cost' is NaN after step 1 of epoch 1");
        if (noop) CHECK_OK(tp_launch_train_with_config(&c, tp_noop_trainer()));
        else CHECK_ERR(tp_launch_train_with_config(&c, tp_simple_trainer()), TP_ERR_NUMERIC, "");
        CHECK_OK(tp_logger_set_dir(NULL, 0));
    }
}

/* A frozen base that session_init loads, and an adapter that is trained: ModelSaver saves the adapter alone. */
static tp_node *adapted(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *base = tp_get_variable_as(g, "base", TP_F32, shape_of(2, 1), tp_init_zeros());
    tp_node *adapter = tp_get_variable_as(g, "adapter", TP_F32, shape_of(2, 1), tp_init_ones());
    tp_collection_add(g, "ADAPTERS", adapter);
    return tp_named(tp_mean(tp_square(tp_matmul(in[0], tp_add(tp_stop_gradient(base), adapter)))), "cost");
}
typedef struct ending {
    float base, adapter;
    int64_t global_step;
} ending;
static ending ended;
static tp_status read_ending(tp_callback *cb)
{
    static const char *const name[2] = {"base", "adapter"};
    for (int i = 0; i < 2; i++) {
        tp_tensor t;
        memset(&t, 0, sizeof t);
        const tp_status st = tp_session_read(cb->train->session, tp_find_variable(cb->train->graph, name[i]), &t);
        if (st != TP_OK) return st;
        *(i ? &ended.adapter : &ended.base) = *(const float *)t.data;
        tp_tensor_free(&t);
    }
    ended.global_step = cb->train->global_step;
    return TP_OK;
}
/* Trains up to epoch `last`; way 0: session_init gives the base, 1: .checkpoint, 2: nothing. */
static void train_adapter(int last, int way, const char *base)
{
    /* the rate that epoch 1 leaves must hold after a resume, too */
    tp_callback *cb[3] = {
        tp_cb_model_saver(.var_collections = {"ADAPTERS"}), counting(NULL, NULL),
        tp_cb_scheduled_hyper_param_setter(.name = "learning_rate", .schedule = {{1, 0.0078125}, {9, 0.5}})};
    cb[1]->after_train = read_ending;
    tp_train_config c = config(cb, 3, NULL);
    c.model.build_graph = adapted;
    if (way == 0) c.session_init = tp_smart_init(base, false);
    if (way == 1) c.checkpoint = base;
    c.max_epoch = last;
    c.n_monitors = 0; /* with stats.json */
    c.auto_resume = TP_YES;
    memset(&ended, 0, sizeof ended);
    CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
}
TEST(a_resume_from_a_checkpoint_of_some_variables)
{
    char dir[600], base[700];
    ending whole;
    for (int way = 0; way < 3; way++) {
        snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
        snprintf(base, sizeof base, "%s/base.npz", dir);
        tp_dict d;
        tp_tensor *t;
        memset(&d, 0, sizeof d);
        if (!CHECK((t = tp_dict_add(&d, "base")) != NULL)) return;
        CHECK_OK(tp_tensor_resize(t, TP_F32, shape_of(2, 1)));
        for (int i = 0; i < 2; i++) ((float *)t->data)[i] = 5;
        /* the base's own training had a callback that this one lacks */
        if (!CHECK((t = tp_dict_add(&d, "tp:callback/MinSaver(error)/best")) != NULL)) return;
        CHECK_OK(tp_tensor_resize(t, TP_F64, shape_of(1, 1)));
        CHECK_OK(tp_npz_save(base, &d, false));
        tp_dict_free(&d);
        for (int run = 0; run < 3; run++) {
            char log_dir[700];
            snprintf(log_dir, sizeof log_dir, "%s/%s", dir, run ? "parts" : "whole");
            CHECK_OK(tp_logger_set_dir(log_dir, 'k'));
            tp_test_keep_log();
            train_adapter(run == 1 ? 1 : 2, run == 2 || way < 2 ? way : 1, base);
            if (run == 0) whole = ended;
        }
        CHECK(whole.base == 5 && whole.global_step == 4 && ended.global_step == 4);
        if (way < 2) {
            CHECK_HAS(tp_test_logged, "has 1 of the model's 2 weights: session_init runs first.");
            CHECK(memcmp(&ended, &whole, sizeof ended) == 0);
            CHECK(strstr(tp_test_logged, "No callback takes this state") == NULL);
        } else { /* nothing gives the base */
            CHECK_HAS(tp_test_logged, "not found in the checkpoint: base");
            CHECK(ended.base == 0);
        }
        CHECK_OK(tp_logger_set_dir(NULL, 0));
    }
}

/* ==== >>memory ======================================================================================== */

/* The whole of a small trainer's life, call by call. */
static tp_status a_life(void)
{
    tp_trainer *t = tp_simple_trainer();
    if (!t) return TP_ERR_NOMEM;
    recipe r;
    memset(&r, 0, sizeof r);
    r.regularizer = 2;
    const tp_model m = model(&r);
    tp_session_config session = tp_default_session_config();
    session.threads = 1;
    t->creator = tp_new_session_creator(&session);
    tp_status st = tp_trainer_set_seed(t, 3);
    if (st == TP_OK) st = tp_trainer_setup_graph(t, &m, tp_feed_input(flow()));
    tp_callback *cb = counting(NULL, NULL);
    tp_monitor *monitor = tp_monitor_new("Mine", 0);
    const tp_status listed = tp_trainer_setup_callbacks(t, &cb, 1, &monitor, 1); /* takes them in any case */
    if (st == TP_OK) st = listed;
    if (st == TP_OK) st = tp_trainer_initialize(t, tp_just_current_session());
    if (st == TP_OK) st = tp_trainer_main_loop(t, 2, 1, 1);
    if (st == TP_OK) CHECK(t->state.global_step == 2);
    tp_trainer_free(t);
    return st;
}

static char resumed_dir[600];
static tp_status a_launch(void)
{
    tp_callback *cb = counting(NULL, NULL), *extra = counting(NULL, NULL);
    tp_monitor *monitor = tp_monitor_new("Mine", 0);
    tp_train_config c = config(&cb, 1, NULL);
    tp_session_config session = tp_default_session_config();
    session.threads = 1;
    c.session_config = &session;
    c.extra_callbacks = &extra;
    c.monitors = &monitor;
    c.n_extra_callbacks = c.n_monitors = 1;
    c.max_epoch = 6;
    c.steps_per_epoch = 1;
    c.auto_resume = TP_YES;
    c.seed = 3;
    return tp_launch_train_with_config(&c, tp_simple_trainer());
}
static tp_status a_checkpoint(void)
{
    static char path[700];
    snprintf(path, sizeof path, "%s/model-5", resumed_dir);
    tp_train_config c = config(NULL, 0, NULL);
    tp_session_config session = tp_default_session_config();
    session.threads = 1;
    c.session_config = &session;
    c.checkpoint = path;
    return tp_launch_train_with_config(&c, tp_simple_trainer());
}

/* Every allocation fails once, in turn: nothing leaks, and what is said is that memory ran out: by the status, or, where a constructor
 * returned NULL and the program gave it on, by the sentence. */
static void without_memory(const char *what, tp_status (*fn)(void), long every)
{
    bool failed = true;
    long n = 1;
    for (; failed && n < 100000; n += every) {
        tp_test_keep_log();
        tp_test_fail_after(n);
        const tp_status st = fn();
        failed = tp_test_alloc_failed();
        const long live = tp_test_live_blocks();
        tp_test_alloc_reset();
        CHECK_MSG(live == 0, "%s: allocation %ld: %ld blocks leak", what, n, live);
        if (failed)
            CHECK_MSG(st == TP_OK || st == TP_ERR_NOMEM || (st == TP_ERR_ARG && strstr(tp_last_error(), "memory")),
                      "%s: allocation %ld: %s, %s", what, n, tp_status_name(st), tp_last_error());
        else CHECK_OK(st);
    }
    CHECK_MSG(!failed && n > 50, "%s: %ld allocations", what, n);
}

TEST(out_of_memory_in_a_trainers_life)
{
    TEST_MAY_ERROR("memory");
    without_memory("life", a_life, 1);
    tp_trainer *(*const make[3])(void) = {tp_simple_trainer, tp_noop_trainer, tp_queue_input_trainer};
    for (int i = 0; i < 3; i++)
        for (long n = 1; n < 3; n++) { /* the trainer, its graph */
            tp_test_fail_after(n);
            tp_trainer *t = make[i]();
            CHECK(!t && tp_test_alloc_failed() && tp_test_live_blocks() == 0);
            tp_trainer_free(t);
            tp_test_alloc_reset();
        }
}

static tp_trainer *of_ranks(int which)
{
    tp_horovod_trainer_desc h;
    tp_distributed_trainer_replicated_desc r;
    tp_distributed_trainer_parameter_server_desc p;
    memset(&h, 0, sizeof h), memset(&r, 0, sizeof r), memset(&p, 0, sizeof p);
    if (which == 0) return tp_horovod_trainer_(&h);
    return which == 1 ? tp_distributed_trainer_replicated_(&r) : tp_distributed_trainer_parameter_server_(&p);
}
/* A trainer of several ranks has more to allocate: all of it is given back when one part is missing. */
TEST(trainers_of_ranks_that_find_no_memory)
{
    TEST_MAY_ERROR("");
    tp_test_keep_log();
    for (int which = 0; which < 3; which++) {
        int missing = 0;
        for (long n = 1, failed = 1; failed; n++) {
            tp_test_fail_after(n);
            tp_trainer *t = of_ranks(which);
            failed = tp_test_alloc_failed();
            missing += !t;
            CHECK_MSG(t || failed, "trainer %d, allocation %ld", which, n);
            tp_trainer_free(t);
            CHECK_MSG(tp_test_live_blocks() == 0, "trainer %d, allocation %ld", which, n);
        }
        tp_test_alloc_reset();
        CHECK_MSG(missing >= 3, "trainer %d: %d", which, missing); /* the trainer, its graph, what it knows of ranks */
    }
}

/* A seed that found no memory is an error; the trainer keeps its graph, and may be given the seed again. */
TEST(a_seed_that_finds_no_memory)
{
    TEST_MAY_ERROR("memory");
    tp_test_keep_log();
    for (long n = 1, failed = 1; failed; n++) {
        tp_test_fail_after(n);
        tp_trainer *t = tp_simple_trainer();
        const bool made = !tp_test_alloc_failed();
        const tp_status st = made ? tp_trainer_set_seed(t, 3) : TP_ERR_NOMEM;
        failed = tp_test_alloc_failed();
        CHECK_MSG(st == (failed ? TP_ERR_NOMEM : TP_OK), "allocation %ld: %s", n, tp_status_name(st));
        if (made) CHECK(tp_graph_seed(t->graph) == (failed ? 42 : 3));
        if (made && failed) CHECK_OK(tp_trainer_set_seed(t, 5));
        if (made && failed) CHECK(tp_graph_seed(t->graph) == 5 && tp_graph_status(t->graph) == TP_OK);
        tp_trainer_free(t);
        CHECK(tp_test_live_blocks() == 0);
    }
    tp_test_alloc_reset();
}

/* So is a predictor that found none. */
TEST(a_predictor_that_finds_no_memory)
{
    TEST_MAY_ERROR("memory");
    static const char *const outputs[] = {"cost"};
    const tp_model m = model(NULL);
    long from = 0;
    tp_test_keep_log();
    for (long n = 0, failed = 1; failed; n++) { /* first none fails: how many come before the predictor's */
        tp_test_fail_after(n ? from + n : 0);
        tp_trainer *t = tp_simple_trainer();
        CHECK_OK(tp_trainer_setup_graph(t, &m, tp_feed_input(flow())));
        if (n == 0) from = tp_test_alloc_count();
        tp_predictor *p = tp_trainer_get_predictor(t, NULL, 0, outputs, 1, 0);
        failed = n == 0 || tp_test_alloc_failed();
        if (n == 0 || !failed) CHECK(p && tp_predictor_n_inputs(p) == 1 && tp_predictor_n_outputs(p) == 1);
        else CHECK_MSG(p || strstr(tp_last_error(), "memory"), "allocation %ld: %s", n, tp_last_error());
        if (tp_graph_status(t->graph) != TP_OK) /* nor is there one for another device in what failed */
            CHECK(!tp_trainer_get_predictor(t, NULL, 0, outputs, 1, 1) && strstr(tp_last_error(), "memory"));
        tp_trainer_free(t);
        CHECK_MSG(tp_test_live_blocks() == 0, "allocation %ld", n);
        CHECK(failed || n > 5);
    }
    tp_test_alloc_reset();
}

/* Nor is there one that cannot run, when the session is there already. */
TEST(a_predictor_of_a_session_finds_no_memory)
{
    static const char *const outputs[] = {"cost"};
    const tp_model m = model(NULL);
    tp_test_keep_log();
    tp_trainer *t = tp_simple_trainer();
    CHECK_OK(tp_trainer_setup_graph(t, &m, tp_feed_input(flow())));
    CHECK_OK(tp_trainer_setup_callbacks(t, NULL, 0, NULL, 0));
    CHECK_OK(tp_trainer_initialize(t, NULL));
    long failures = 0;
    for (long n = 1, failed = 1; failed; n++) {
        tp_test_fail_after(n);
        tp_predictor *p = tp_trainer_get_predictor(t, NULL, 0, outputs, 1, 0);
        failed = tp_test_alloc_failed();
        tp_test_alloc_reset();
        failures += failed;
        CHECK_MSG((p == NULL) == failed, "allocation %ld: %s", n, p ? "a predictor" : "none");
        if (!p) CHECK_HAS(tp_last_error(), "memory");
        else CHECK(tp_predictor_session(p) == t->state.session && tp_predictor_n_outputs(p) == 1);
    }
    CHECK_MSG(failures > 3, "%ld failures", failures);
    tp_trainer_free(t);
}

/* The table of variables is logged whole or not at all. */
TEST(a_table_of_variables_without_memory)
{
    const tp_model m = model(NULL);
    int whole = 0, left_out = 0;
    TEST_MAY_ERROR("memory");
    for (long n = 1, failed = 1; failed; n++) {
        tp_test_keep_log();
        tp_trainer *t = tp_simple_trainer();
        CHECK_OK(tp_trainer_setup_graph(t, &m, tp_feed_input(flow())));
        tp_test_fail_after(n);
        const tp_status st = tp_trainer_setup_callbacks(t, NULL, 0, NULL, 0);
        failed = tp_test_alloc_failed();
        tp_test_alloc_reset();
        const bool begun = strstr(tp_test_logged, "#elements") != NULL;
        CHECK_MSG(begun == (strstr(tp_test_logged, "all trainable variables: 0.00 MB") != NULL),
                  "allocation %ld: a part of the table: %s", n, tp_test_logged);
        CHECK(failed || begun);
        whole += st == TP_OK && begun;
        left_out += st == TP_OK && !begun;
        tp_trainer_free(t);
    }
    CHECK_MSG(whole > 0 && left_out > 1, "%d whole, %d left out", whole, left_out);
}

TEST(out_of_memory_in_a_launch_that_resumes)
{
    TEST_MAY_ERROR("memory");
    tp_test_keep_log();
    snprintf(resumed_dir, sizeof resumed_dir, "%s", tp_test_tmpdir());
    CHECK_OK(tp_logger_set_dir(resumed_dir, 'k'));
    write_model(resumed_dir, 5, 5, 2);
    write_text(resumed_dir, "checkpoint", "model_checkpoint_path: \"model-5\"\n");
    write_text(resumed_dir, "stats.json", "[{\"epoch_num\": 5, \"global_step\": 5}]");
    without_memory("resume", a_launch, 1);
    without_memory("checkpoint", a_checkpoint, 1);
}

/* ---- what a resume finds, when memory fails once --------------------------------------------------------- */

static int steps_taken;
static tp_status take_step(tp_callback *cb) { return (void)cb, steps_taken++, TP_OK; }
static int64_t first_point;
static tp_status tell_point(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    if (first_point < 0) first_point = index;
    return point(user, pass, index, dp);
}

/* A checkpoint in the middle of epoch 3, after 2 steps of 4 and 10 points of the data. A training that says TP_OK has gone on
 * there: two epochs take 6 steps, and the data from point 10. */
static bool resumed_in_the_middle(long n)
{
    const int64_t epoch[2] = {2, 0}, global_step = 10, local_step = 1, consumed = 10;
    tp_dict dict;
    memset(&dict, 0, sizeof dict);
    put_i64(&dict, "global_step", &global_step, 0);
    put_i64(&dict, "tp:epoch", epoch, 2);
    put_i64(&dict, "tp:local_step", &local_step, 1);
    put_i64(&dict, "tp:input/consumed", &consumed, 1);
    recipe r;
    memset(&r, 0, sizeof r);
    tp_trainer *t = tp_simple_trainer();
    tp_callback *cb = tp_callback_new("Count", 0);
    cb->trigger_step = take_step;
    const tp_model m = model(&r);
    tp_dataflow *df = tp_df_from_generator(tell_point, .size = 100, .indexed = TP_YES);
    CHECK_OK(tp_trainer_setup_graph(t, &m, tp_feed_input(df)));
    tp_train_desc d;
    memset(&d, 0, sizeof d);
    d.callbacks = &cb;
    d.n_callbacks = 1;
    d.steps_per_epoch = 4;
    d.starting_epoch = 3;
    d.max_epoch = 4;
    d.session_init = tp_dict_restore(&dict, false);
    tp_dict_free(&dict);
    steps_taken = 0;
    first_point = -1;
    tp_test_fail_after(n);
    const tp_status st = tp_train(t, &d);
    const bool failed = tp_test_alloc_failed();
    tp_test_alloc_reset();
    CHECK_MSG(st != TP_OK || (steps_taken == 6 && first_point == 10),
              "allocation %ld: TP_OK after %d steps, from point %d", n, steps_taken, (int)first_point);
    CHECK(failed || st == TP_OK);
    tp_trainer_free(t);
    return failed;
}
TEST(a_resume_without_memory_never_begins_anew)
{
    TEST_MAY_ERROR("");
    tp_test_keep_log();
    resumed_in_the_middle(1L << 40);
    for (long n = 1; resumed_in_the_middle(n); n++) CHECK(n < 5000);
}

/* After Ctrl-C the n-th allocation fails: the checkpoint is whole, or the status is TP_ERR_NOMEM. */
#ifndef TP_NO_SIGNALS
static tp_status interrupt_and_fail(tp_callback *cb)
{
    if (cb->train->local_step != 1) return TP_OK;
    raise(SIGINT);
    tp_test_fail_after(*(const long *)cb->user);
    return TP_OK;
}
#endif
TEST(an_interrupt_without_memory)
{
#ifdef TP_NO_SIGNALS
    TEST_SKIP("without signals there is no Ctrl-C");
#else
    TEST_MAY_ERROR("memory");
    tp_test_keep_log();
    const char *dir = tp_test_tmpdir();
    CHECK_OK(tp_logger_set_dir(dir, 'd'));
    int whole = 0;
    long n = 1;
    for (long failed = 1; failed && n < 5000; n++) {
        tp_callback *cb[2] = {tp_callback_new("Interrupt", sizeof(long)), tp_cb_model_saver()};
        *(long *)cb[0]->user = n;
        cb[0]->trigger_step = interrupt_and_fail;
        tp_train_desc d;
        memset(&d, 0, sizeof d);
        d.callbacks = cb;
        d.n_callbacks = 2;
        d.steps_per_epoch = 4;
        d.max_epoch = 1;
        const char *path = tp_test_path(dir, "interrupted.npz");
        char latest[600] = "";
        remove(path);
        remove(tp_test_path(dir, "checkpoint"));
        tp_trainer *t = tp_noop_trainer();
        const tp_status st = tp_train(t, &d);
        failed = tp_test_alloc_failed();
        tp_test_alloc_reset();
        CHECK_MSG(st == TP_INTR || (failed && st == TP_ERR_NOMEM), "allocation %ld: %s", n, tp_status_name(st));
        if (st == TP_INTR) whole++;
        if (st == TP_INTR) CHECK_MSG(tp_file_exists(path), "allocation %ld: there is no checkpoint", n);
        if (st == TP_INTR && CHECK_OK(tp_checkpoint_state_latest(dir, latest, sizeof latest)))
            CHECK_HAS(latest, "interrupted"); /* the list names it */
        tp_trainer_free(t);
    }
    CHECK_MSG(n > 20 && whole > 0, "%ld allocations, %d whole", n, whole);
    CHECK_OK(tp_logger_set_dir(NULL, 0));
#endif
}

/* A stop while the checkpoint at the end is saved ends the training, as anywhere. */
static tp_status save_and_stop(tp_callback *cb) { return tp_stop(cb->train, "enough"); }
TEST(a_stop_in_the_last_checkpoint_is_no_error)
{
    tp_test_keep_log();
    tp_callback *cb = tp_callback_new("Saves", 0);
    cb->after_train = request;
    cb->checkpoint = save_and_stop;
    tp_train_desc d;
    memset(&d, 0, sizeof d);
    d.callbacks = &cb;
    d.n_callbacks = 1;
    d.steps_per_epoch = 1;
    d.max_epoch = 1;
    tp_trainer *t = tp_noop_trainer();
    tp_fail(TP_ERR_NAME, "an old sentence");
    CHECK_OK(tp_train(t, &d));
    CHECK(strstr(tp_test_logged, "failed") == NULL && strstr(tp_test_logged, "old sentence") == NULL);
    tp_trainer_free(t);
}

/* Parts of the model with optimizers of their own, within tp_accum_grad or without, and an average of the weights: with towers as on one
 * device where all towers get the same data. */
static tp_node *average_of(tp_node *var, tp_node *updated, tp_node *pred, void *user)
{
    char name[64];
    (void)user;
    snprintf(name, sizeof name, "%s/average", tp_node_name(var));
    tp_node *average = tp_get_variable_as(tp_node_graph(var), name, TP_F32, var->shape, tp_init_zeros());
    return tp_assign_moving_average(average, updated, 0.5f, pred);
}
static tp_node *build_parts(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *slow = tp_get_variable_as(g, "slow/w", TP_F32, shape_of(2, 1), tp_init_ones());
    tp_node *fast = tp_get_variable_as(g, "fast/w", TP_F32, shape_of(2, 1), tp_init_ones());
    return tp_named(tp_mean(tp_square(tp_add(tp_matmul(in[0], slow), tp_matmul(in[0], fast)))), "cost");
}
enum {
    ACCUMULATES = 1,
    ALIKE = 2,
    ONE = 4
}; /* ALIKE: parts of the same kind and no averages; ONE: one optimizer for all, no parts */
static tp_optimizer *optimizer_of_parts(tp_graph *g, void *user)
{
    const int how = *(const int *)user;
    tp_optimizer_part part[2];
    part[0].regex = "slow/.*", part[0].opt = tp_adam_(tp_const(g, 0.015625), NULL);
    part[1].regex = ".*";
    part[1].opt = how & ALIKE ? tp_adam_(tp_const(g, 0.015625), NULL) : tp_sgd_(tp_const(g, 0.5), NULL);
    for (int i = 0; i < 2 && (how & ACCUMULATES); i++) part[i].opt = tp_accum_grad(part[i].opt, 2);
    if (how & ONE) return part[0].opt;
    tp_optimizer *o = tp_multi_optimizer(part, 2);
    return how & ALIKE ? o : tp_post_process(o, average_of, NULL);
}
static double of_parts[4]; /* weights and averages at the end */
static tp_status read_parts(tp_callback *cb)
{
    static const char *const name[4] = {"slow/w", "fast/w", "slow/w/average", "fast/w/average"};
    tp_tensor v = TP_EMPTY;
    tp_status st = TP_OK;
    for (int i = 0; i < 4 && st == TP_OK; i++) {
        const tp_variable *variable = tp_find_variable(cb->train->graph, name[i]);
        if (variable) st = tp_session_read(cb->train->session, variable, &v);
        if (variable && st == TP_OK) of_parts[i] = tp_tensor_get(&v, 0);
    }
    tp_tensor_free(&v);
    const tp_variable *copy = tp_find_variable(cb->train->graph, "tower1/slow/w/average");
    CHECK(!copy || (copy->local && copy->copy_of == tp_find_variable(cb->train->graph, "slow/w/average")));
    return st;
}
static tp_status same_point(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    return (void)index, point(user, pass, 3, dp);
}
TEST(parts_of_a_model_on_several_devices)
{
    for (int way = 0; way < 6; way++) {
        double alone[4] = {0};
        for (int n = 1; n < 3; n++) {
            tp_cb_lambda_desc l;
            memset(&l, 0, sizeof l);
            l.after_train = read_parts;
            tp_callback *cb = tp_cb_lambda_(&l);
            tp_train_config c = config(&cb, 1, NULL);
            /* an asynchronous step makes two updates: they are compared with those of one optimizer */
            int how = (way % 2 ? ACCUMULATES : 0) | (way < 4 ? 0 : n == 1 ? ALIKE | ONE : ALIKE);
            c.model.build_graph = build_parts, c.model.optimizer = optimizer_of_parts, c.model.user = &how;
            tp_df_free(c.dataflow);
            c.dataflow = tp_df_from_generator(same_point, .size = 8, .indexed = TP_YES);
            c.steps_per_epoch = 4;
            tp_trainer *t = way >= 4   ? tp_async_multi_gpu_trainer(.n_devices = 2)
                            : n == 1   ? tp_simple_trainer()
                            : way >= 2 ? tp_sync_multi_gpu_trainer_parameter_server(.n_devices = 2)
                                       : tp_sync_multi_gpu_trainer_replicated(.n_devices = 2);
            memset(of_parts, 0, sizeof of_parts);
            if (!CHECK_OK(tp_launch_train_with_config(&c, t))) return;
            CHECK(of_parts[0] != 0 && of_parts[0] != 1 && (way >= 4) == (of_parts[2] == 0));
            if (n == 1) memcpy(alone, of_parts, sizeof alone);
        }
        for (int i = 0; i < 4; i++)
            CHECK_MSG(of_parts[i] == alone[i], "way %d, value %d: %g, alone %g", way, i, of_parts[i], alone[i]);
    }
}

TEST_MAIN()
