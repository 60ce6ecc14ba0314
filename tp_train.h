/* tp_train.h - v0.1 - trainers: the loop around the steps, TrainConfig, resume
 *
 * Do this:
 *     #define TP_IMPLEMENTATION        // in ONE .c file, before any other include
 *     #include "tp_train.h"            // pulls in callbacks, input, optimizers, graph and tensor
 *     #include "tp_layers.h"           // for the model
 *
 * WHAT THIS IS       a trainer builds the towers of a model, makes the session and runs the loop over epochs and steps
 *                    in which callbacks take part.
 * WHAT THIS IS NOT   callbacks (tp_callbacks.h), layers (tp_layers.h).
 *
 * A COMPLETE PROGRAM
 *     #define TP_IMPLEMENTATION
 *     #include "tp_train.h"
 *     static tp_node *build(tp_graph *g, tp_node *const *in, void *user)
 *     {
 *         (void)user;
 *         tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(2, 1), tp_init_zeros());
 *         return tp_named(tp_mean(tp_square(tp_sub(tp_matmul(in[0], w), in[1]))), "cost");
 *     }
 *     static tp_optimizer *optimizer(tp_graph *g, void *user)
 *     {
 *         (void)user;
 *         return tp_sgd(tp_get_scalar_variable(g, "learning_rate", 0.1f));
 *     }
 *     static tp_status point(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
 *     {
 *         (void)user, (void)pass;
 *         tp_status st = tp_datapoint_resize(dp, 2);
 *         if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape(1, 2));
 *         if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_F32, tp_make_shape(1, 1));
 *         if (st != TP_OK) return st;
 *         const float a = (float)(i % 5), b = (float)(i % 3);
 *         ((float *)dp->c[0].data)[0] = a, ((float *)dp->c[0].data)[1] = b;
 *         ((float *)dp->c[1].data)[0] = 2 * a - b; // what is to be learnt
 *         return TP_OK;
 *     }
 *     int main(void)
 *     {
 *         static const tp_spec inputs[] = {TP_SPEC("x", TP_F32, TP_ANY, 2), TP_SPEC("y", TP_F32, TP_ANY, 1)};
 *         tp_train_config c = {
 *             .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build, .optimizer = optimizer},
 *             .dataflow = tp_df_from_generator(point, .size = 1000, .indexed = TP_YES),
 *             .steps_per_epoch = 200, .max_epoch = 2,
 *         };
 *         return tp_launch_train_with_config(&c, tp_simple_trainer()) == TP_OK ? 0 : 1;
 *     }
 *
 * CONTENTS   >>model >>trainer >>config
 *
 * OWNERSHIP  a training owns what it is given (trainer, callbacks, monitors, data, session_init) and frees it, whether it
 *            succeeds or fails. What models and names point at must outlive it.
 * THREADS    one training a thread; Ctrl-C is noticed by the training that started last.
 * ERRORS     functions return tp_status: TP_OK also after TP_STOP or the end of the data; TP_INTR after Ctrl-C; else the
 *            error, whose sentence was logged. after_train of every callback has run in each case.
 */
#ifndef TP_TRAIN_H
#define TP_TRAIN_H

#include "tp_callbacks.h"
#include "tp_optim.h"
#if TP_VERSION_MAJOR != 0 || TP_VERSION_MINOR != 1
#error "tp_train.h 0.1 needs tp_callbacks.h 0.1: copy all tp headers from the same version"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ==== >>model ========================================================================================= */

/* What is trained. build_graph is called once for training and once for each inference tower; it returns the scalar
 * cost (inference ignores it). optimizer is called once. [train: ModelDesc] */
typedef struct tp_model {
    const tp_spec *inputs;
    int n_inputs;
    tp_node *(*build_graph)(tp_graph *g, tp_node *const *in, void *user);
    tp_optimizer *(*optimizer)(tp_graph *g, void *user);
    void *user;
} tp_model;

/* ==== >>trainer ======================================================================================= */

typedef struct tp_trainer tp_trainer;
struct tp_trainer {
    const char *name;
    tp_train_state state; /* what callbacks see: counters, session, graph, monitors */
    tp_graph *graph;
    tp_node *train_op;
    tp_status (*setup_graph)(tp_trainer *t, const tp_model *m, tp_input_source *input); /* builds towers and train_op */
    tp_status (*run_step)(tp_trainer *t);                                               /* one iteration */
    tp_session_creator creator; /* of the session */
    bool default_feed;          /* a DataFlow is fed by the training thread (SimpleTrainer), not through a queue */
    void *user;
    tp_callback **callback;
    int n_callback, cap_callback;
    tp_monitors *monitors;
    tp_input_source *input;
    bool graph_ready, callbacks_ready, initialized, owns_session;
};

/* One device, one tower of name "". [SimpleTrainer] NULL: out of memory. */
TP_DEF tp_trainer *tp_simple_trainer(void);
/* Runs nothing but the hooks. [NoOpTrainer] */
TP_DEF tp_trainer *tp_noop_trainer(void);
/* A SimpleTrainer whose DataFlow goes through a queue. [QueueInputTrainer] */
TP_DEF tp_trainer *tp_queue_input_trainer(void);
/* The seed of everything random in the trainer's graph; before setup_graph. */
TP_DEF tp_status tp_trainer_set_seed(tp_trainer *t, uint64_t seed);
TP_DEF void tp_trainer_free(tp_trainer *t); /* and all it was given; NULL is fine */

/* The steps of a training, for those who want them one by one; each once per trainer. They take over what they get.
 * [Trainer: setup_graph, register_callback, setup_callbacks, initialize, main_loop, train, train_with_defaults] */
TP_DEF tp_status tp_trainer_setup_graph(tp_trainer *t, const tp_model *m, tp_input_source *input);
TP_DEF tp_status tp_trainer_register_callback(tp_trainer *t, tp_callback *cb); /* on ranks that are not chief, chief-only ones are dropped */
TP_DEF tp_status tp_trainer_setup_callbacks(tp_trainer *t, tp_callback *const *callbacks, int n_callbacks, tp_callback *const *monitors, int n_monitors);
TP_DEF tp_status tp_trainer_initialize(tp_trainer *t, tp_session_init *init);
TP_DEF tp_status tp_trainer_main_loop(tp_trainer *t, int64_t steps_per_epoch, int64_t starting_epoch, int64_t max_epoch);
TP_DEF tp_status tp_trainer_run_step(tp_trainer *t);
TP_DEF tp_monitors *tp_trainer_monitors(tp_trainer *t);

/* Zero is each default: starting_epoch 1, max_epoch 9999999. steps_per_epoch must be given (TP_NO_STEPS for 0). */
#define TP_NO_STEPS (-1)
typedef struct tp_train_desc {
    tp_callback *const *callbacks;
    int n_callbacks;
    tp_callback *const *extra_callbacks; /* with tp_train_with_defaults: NULL = the default ones */
    int n_extra_callbacks;
    tp_callback *const *monitors; /* with tp_train_with_defaults: NULL = the default ones */
    int n_monitors;
    tp_session_init *session_init;
    int64_t steps_per_epoch, starting_epoch, max_epoch;
} tp_train_desc;
/* setup_callbacks, initialize, main_loop. Does not free t. */
TP_DEF tp_status tp_train(tp_trainer *t, const tp_train_desc *d);
TP_DEF tp_status tp_train_with_defaults(tp_trainer *t, const tp_train_desc *d);

/* ==== >>config ======================================================================================== */

typedef struct tp_train_config {
    tp_model model;
    tp_dataflow *dataflow;  /* one of the two */
    tp_input_source *data;
    tp_callback *const *callbacks; /* TP_CALLBACKS(...) sets both */
    int n_callbacks;
    tp_callback *const *extra_callbacks; /* NULL = the default ones; n_extra_callbacks TP_NONE: none */
    int n_extra_callbacks;
    tp_callback *const *monitors; /* NULL = the default ones; n_monitors TP_NONE: none */
    int n_monitors;
    const tp_session_config *session_config; /* NULL: default */
    tp_session_init *session_init;
    int64_t starting_epoch;  /* 0 = 1 */
    int64_t steps_per_epoch; /* 0 = the size of the data; TP_NO_STEPS: none */
    int64_t max_epoch;       /* 0 = 99999 */
    int auto_resume;         /* tp_tri: go on from the logger directory's checkpoint [AutoResumeTrainConfig] */
    int always_resume;       /* tp_tri; unset = TP_YES: even if session_init or starting_epoch is given */
    uint64_t seed;           /* 0 = 42 */
} tp_train_config;
#define TP_NONE (-1)
#ifndef __cplusplus
#define TP_CALLBACKS(...)                                      \
    .callbacks = (tp_callback *const[]){__VA_ARGS__},          \
    .n_callbacks = (int)(sizeof((tp_callback *const[]){__VA_ARGS__}) / sizeof(tp_callback *))
#endif

/* Fill session_init and starting_epoch from the logger directory: its latest checkpoint, and the epoch after the one that
 * the checkpoint names (ours do), else after the last of stats.json. A checkpoint without an epoch and a stats.json
 * without a checkpoint are mistakes. A run that was killed between the two files resumes too. [AutoResumeTrainConfig] */
TP_DEF tp_status tp_auto_resume_train_config(tp_train_config *c);
/* FeedInput for a SimpleTrainer, else QueueInput. [apply_default_prefetch] */
TP_DEF tp_input_source *tp_apply_default_prefetch(tp_dataflow *df, const tp_trainer *t);
/* Train. Takes over and frees everything: the trainer, and what the config points at. [launch_train_with_config] */
TP_DEF tp_status tp_launch_train_with_config(const tp_train_config *c, tp_trainer *t);
/* Rank of this process, number of processes, rank on this machine: 0, 1, 0 without MPI. */
TP_DEF int tp_rank(void);
TP_DEF int tp_size(void);
TP_DEF int tp_local_rank(void);

#ifdef __cplusplus
}
#endif
#endif /* TP_TRAIN_H */

/* ===== STOP HERE if you only want to use the library. Everything below is implementation. ===== */
#if defined(TP_IMPLEMENTATION) && !defined(TP__TRAIN_IMPLEMENTED)
#define TP__TRAIN_IMPLEMENTED
TP__COLD_BEGIN

#include <signal.h>

TP_DEF int tp_rank(void) { return 0; }
TP_DEF int tp_size(void) { return 1; }
TP_DEF int tp_local_rank(void) { return 0; }

/* ==== >>trainer ======================================================================================= */

static tp_status tp__run_train_op(tp_trainer *t)
{
    if (!t->train_op) return tp_fail(TP_ERR_STATE, "%s has no train_op: set it up, or give it a run_step of its own", t->name);
    return tp_hooked_run(t->state.hooked, &t->train_op, 1, NULL);
}

static tp_status tp__run_hooks_only(tp_trainer *t) { return tp_hooked_run(t->state.hooked, NULL, 0, NULL); }

static tp_status tp__graph_result(const tp_graph *g)
{
    return tp_graph_status(g) == TP_OK ? TP_OK : tp_fail(tp_graph_status(g), "%s", tp_graph_error(g));
}

/* Tower 0, the gradients of its trainable variables, the optimizer's update. [SingleCostTrainer] */
static tp_status tp__simple_setup(tp_trainer *t, const tp_model *m, tp_input_source *input)
{
    tp_graph *g = t->graph;
    tp_tower_desc td;
    char text[TP_SHAPE_TEXT];
    memset(&td, 0, sizeof td);
    td.is_training = true;
    tp_node **in = (tp_node **)tp_graph_alloc(g, (size_t)(m->n_inputs + 1) * sizeof *in);
    if (!in) return TP_ERR_NOMEM;
    tp_status st = tp_input_get_tensors(input, in);
    if (st != TP_OK) return st;
    tp_log(TP_LOG_INFO, "Building graph for training tower 0 on device /cpu:0 ...");
    if (!tp_tower_enter(g, &td)) return tp__graph_result(g);
    tp_node *cost = tp_tower_func_call(t->state.tower_func, in);
    tp_node *grad_op = NULL;
    if (tp_graph_status(g) == TP_OK) {
        if (!cost) tp_graph_fail(g, NULL, TP_ERR_ARG, "Expect the given function to return a cost, but got NULL from build_graph");
        else if (cost->shape.ndim != 0)
            tp_graph_fail(g, NULL, TP_ERR_SHAPE, "Cost must be a scalar, but '%s' has shape %s: take its mean", tp_node_name(cost), tp_shape_text(&cost->shape, text));
    }
    tp_optimizer *opt = NULL;
    if (tp_graph_status(g) == TP_OK) {
        int n = 0;
        tp_node *const *vars = tp_tower_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n);
        tp_grad_var *gv = (tp_grad_var *)tp_graph_alloc(g, (size_t)(n + 1) * sizeof *gv);
        if (gv) {
            int kept = 0, dropped = 0;
            tp_buf names;
            memset(&names, 0, sizeof names);
            tp_compute_gradients(cost, vars, n, gv);
            for (int i = 0; i < n; i++) { /* FilterNoneGrad */
                if (gv[i].grad) gv[kept++] = gv[i];
                else {
                    tp_buf_printf(&names, "%s%s", dropped ? ", " : "", tp_node_name(gv[i].var));
                    dropped++;
                }
            }
            if (dropped && !names.failed) tp_log(TP_LOG_WARN, "No gradient w.r.t %d trainable variables: %s", dropped, names.data);
            tp_buf_free(&names);
            if (tp_graph_status(g) == TP_OK && kept == 0) tp_graph_fail(g, NULL, TP_ERR_ARG, "the cost depends on no trainable variable: there is nothing to train");
            tp_tower_leave(g);
            if (tp_graph_status(g) == TP_OK) {
                opt = m->optimizer ? m->optimizer(g, m->user) : NULL;
                if (!opt) tp_graph_fail(g, NULL, TP_ERR_ARG, "the model has no optimizer");
                else grad_op = tp_apply_gradients(opt, gv, kept);
            }
        }
    } else {
        tp_tower_leave(g);
    }
    t->train_op = grad_op;
    return tp__graph_result(g);
}

static tp_trainer *tp__trainer_new(const char *name)
{
    tp_trainer *t = (tp_trainer *)tp_calloc(1, sizeof *t);
    if (!t) return NULL;
    t->name = name;
    t->graph = tp_graph_new(NULL);
    if (!t->graph) {
        tp_free(t);
        return NULL;
    }
    t->state.graph = t->graph;
    t->state.local_step = -1;
    t->state.is_chief = true;
    t->creator = tp_new_session_creator(NULL);
    t->setup_graph = tp__simple_setup;
    t->run_step = tp__run_train_op;
    return t;
}

TP_DEF tp_trainer *tp_simple_trainer(void)
{
    tp_trainer *t = tp__trainer_new("SimpleTrainer");
    if (t) t->default_feed = true;
    return t;
}

TP_DEF tp_trainer *tp_noop_trainer(void)
{
    tp_trainer *t = tp__trainer_new("NoOpTrainer");
    if (t) t->run_step = tp__run_hooks_only;
    return t;
}

TP_DEF tp_trainer *tp_queue_input_trainer(void) { return tp__trainer_new("QueueInputTrainer"); }

TP_DEF tp_status tp_trainer_set_seed(tp_trainer *t, uint64_t seed)
{
    tp_graph_config c;
    memset(&c, 0, sizeof c);
    if (t->graph_ready || tp_graph_n_operations(t->graph) > 0) return tp_fail(TP_ERR_STATE, "the seed must be set before the graph is built");
    c.seed = seed;
    tp_graph *g = tp_graph_new(&c);
    if (!g) return TP_ERR_NOMEM;
    tp_graph_free(t->graph);
    t->graph = t->state.graph = g;
    return TP_OK;
}

TP_DEF void tp_trainer_free(tp_trainer *t)
{
    if (!t) return;
    for (int i = 0; i < t->n_callback; i++) tp_callback_free(t->callback[i]);
    tp_free((void *)t->callback);
    tp_monitors_free(t->monitors);
    tp_hooked_session_free(t->state.hooked);
    tp_input_free(t->input);
    if (t->owns_session) tp_session_free(t->state.session);
    tp_graph_free(t->graph);
    tp_free(t);
}

TP_DEF tp_monitors *tp_trainer_monitors(tp_trainer *t) { return t->monitors; }
TP_DEF tp_status tp_trainer_run_step(tp_trainer *t) { return t->run_step(t); }

TP_DEF tp_status tp_trainer_register_callback(tp_trainer *t, tp_callback *cb)
{
    if (!cb) return tp_fail(TP_ERR_NOMEM, "a callback could not be made: out of memory");
    if (t->callbacks_ready) {
        tp_callback_free(cb);
        return tp_fail(TP_ERR_STATE, "callbacks cannot be registered once they were set up");
    }
    if (!t->state.is_chief && tp_callback_chief_only(cb)) {
        tp_log(TP_LOG_WARN, "Callback %s is chief-only, skipped.", cb->name);
        tp_callback_free(cb);
        return TP_OK;
    }
    if (t->n_callback == t->cap_callback) {
        const int cap = t->cap_callback ? t->cap_callback * 2 : 16;
        tp_callback **bigger = (tp_callback **)tp_realloc((void *)t->callback, (size_t)cap * sizeof *bigger);
        if (!bigger) {
            tp_callback_free(cb);
            return TP_ERR_NOMEM;
        }
        t->callback = bigger;
        t->cap_callback = cap;
    }
    t->callback[t->n_callback++] = cb;
    return TP_OK;
}

static tp_status tp__input_before_train(tp_callback *cb) { return tp_input_reset_state((tp_input_source *)cb->user); }

TP_DEF tp_status tp_trainer_setup_graph(tp_trainer *t, const tp_model *m, tp_input_source *input)
{
    if (t->graph_ready) {
        tp_input_free(input);
        return tp_fail(TP_ERR_STATE, "%s: setup_graph was called before", t->name);
    }
    t->graph_ready = true;
    t->input = t->state.input = input;
    if (!input) return tp_fail(TP_ERR_ARG, "%s: there is no input source", t->name);
    if (!m->build_graph) return tp_fail(TP_ERR_ARG, "%s: the model has no build_graph", t->name);
    t->state.tower_func = tp_tower_func_new(t->graph, m->build_graph, m->user, m->inputs, m->n_inputs);
    if (!t->state.tower_func) return tp__graph_result(t->graph);
    int n_spec = 0;
    const tp_spec *specs = tp_tower_func_signature(t->state.tower_func, &n_spec);
    tp_status st = tp_input_setup(input, t->graph, specs, n_spec);
    if (st == TP_OK) st = t->setup_graph(t, m, input);
    if (st != TP_OK) return st;
    /* the input's callbacks come first: its state is reset before training, its hooks feed each run */
    tp_callback *reset = tp_callback_new("InputSource", 0);
    if (!reset) return TP_ERR_NOMEM;
    reset->chief_only = TP_NO;
    reset->user = input;
    reset->before_train = tp__input_before_train;
    st = tp_trainer_register_callback(t, reset);
    int n = 0;
    tp_hook *const *hooks = tp_input_hooks(input, &n);
    for (int i = 0; i < n && st == TP_OK; i++) st = tp_trainer_register_callback(t, tp_cb_hook(hooks[i]));
    return st;
}


TP_DEF tp_status tp_trainer_setup_callbacks(tp_trainer *t, tp_callback *const *callbacks, int n_callbacks, tp_callback *const *monitors, int n_monitors)
{
    tp_status st = TP_OK;
    tp_buf table;
    if (t->callbacks_ready) st = tp_fail(TP_ERR_STATE, "%s: setup_callbacks was called before", t->name);
    if (st == TP_OK) {
        memset(&table, 0, sizeof table);
        tp_graph_describe_variables(t->graph, &table);
        if (table.data && !table.failed) tp_log(TP_LOG_INFO, "Trainable variables:\n%s", table.data);
        tp_buf_free(&table);
        st = tp_trainer_register_callback(t, tp_cb_maintain_step_counter());
    }
    int i = 0, k = 0;
    for (; i < n_callbacks && st == TP_OK; i++) {
        if (callbacks[i] && callbacks[i]->monitor) {
            st = tp_fail(TP_ERR_ARG, "%s is a monitor: give it among the monitors, not the callbacks", callbacks[i]->name);
            break;
        }
        st = tp_trainer_register_callback(t, callbacks[i]);
    }
    for (; k < n_monitors && st == TP_OK; k++) {
        if (monitors[k] && !monitors[k]->monitor) {
            st = tp_fail(TP_ERR_ARG, "%s is no monitor", monitors[k]->name);
            break;
        }
        st = tp_trainer_register_callback(t, monitors[k]);
    }
    for (; i < n_callbacks; i++) tp_callback_free(callbacks[i]); /* not registered, but taken over */
    for (; k < n_monitors; k++) tp_callback_free(monitors[k]);
    if (st != TP_OK) return st;
    tp_monitor **list = (tp_monitor **)tp_calloc((size_t)t->n_callback + 1, sizeof *list);
    if (!list) return TP_ERR_NOMEM;
    int n = 0;
    for (i = 0; i < t->n_callback; i++)
        if (t->callback[i]->monitor) list[n++] = t->callback[i]->monitor;
    t->monitors = t->state.monitors = tp_monitors_new(list, n, &t->state);
    tp_free((void *)list);
    if (!t->monitors) return TP_ERR_NOMEM;
    t->callbacks_ready = true;
    t->state.callback = t->callback;
    t->state.n_callback = t->n_callback;
    for (i = 0; i < t->n_callback && st == TP_OK; i++) {
        st = tp_callback_setup_graph(t->callback[i], &t->state);
        if (st == TP_OK) st = tp__graph_result(t->graph);
    }
    return st;
}

static const tp_tensor *tp__state_find(tp_trainer *t, const char *name) { return tp_dict_find(tp_session_state(t->state.session), name); }

TP_DEF tp_status tp_trainer_initialize(tp_trainer *t, tp_session_init *init)
{
    tp_status st = t->initialized ? tp_fail(TP_ERR_STATE, "%s: initialize was called before", t->name) : TP_OK;
    t->initialized = true;
    if (st == TP_OK && init && init->setup_graph) st = init->setup_graph(init, t->graph);
    if (st == TP_OK) {
        t->state.session = t->creator.create(&t->creator, t->graph);
        t->owns_session = t->creator.user == NULL;
        if (!t->state.session) st = tp_graph_status(t->graph) != TP_OK ? tp_graph_status(t->graph) : TP_ERR;
    }
    if (st == TP_OK) {
        tp_hook **hooks = (tp_hook **)tp_calloc((size_t)t->n_callback + 1, sizeof *hooks);
        for (int i = 0; hooks && i < t->n_callback; i++) hooks[i] = tp_callback_hook(t->callback[i]);
        t->state.hooked = hooks ? tp_hooked_session_new(t->state.session, hooks, t->n_callback) : NULL;
        tp_free((void *)hooks);
        if (!t->state.hooked) st = TP_ERR_NOMEM;
    }
    if (st == TP_OK && init && t->state.is_chief && init->run) st = init->run(init, t->state.session);
    else if (st == TP_OK && init && !t->state.is_chief) tp_log(TP_LOG_WARN, "session_init is ignored on a process that is not the chief");
    if (st == TP_OK) { /* what a checkpoint holds beside the variables */
        const tp_tensor *step = tp__state_find(t, "tp:random_step"), *consumed = tp__state_find(t, "tp:input/consumed");
        if (step) tp_exec_set_random_step(tp_hooked_session_exec(t->state.hooked), (uint64_t)*(const int64_t *)step->data);
        if (consumed && t->input) {
            st = tp_input_seek(t->input, *(const int64_t *)consumed->data);
            if (st == TP_ERR_UNSUPPORTED) {
                tp_log(TP_LOG_WARN, "The input cannot be resumed exactly: %s", tp_last_error());
                st = TP_OK;
            }
        }
        for (int i = 0; i < t->n_callback && st == TP_OK; i++) {
            if (!t->callback[i]->load_state) continue;
            char prefix[300];
            tp_dict own;
            const tp_dict *all = tp_session_state(t->state.session);
            memset(&own, 0, sizeof own);
            const int len = snprintf(prefix, sizeof prefix, "tp:callback/%d/%s/", i, t->callback[i]->name);
            for (int k = 0; k < all->n && st == TP_OK; k++)
                if (strncmp(all->item[k].name, prefix, (size_t)len) == 0) {
                    tp_tensor *x = tp_dict_add(&own, all->item[k].name + len);
                    st = x ? tp_tensor_copy(x, &all->item[k].value) : TP_ERR_NOMEM;
                }
            if (st == TP_OK && own.n) st = t->callback[i]->load_state(t->callback[i], &own);
            tp_dict_free(&own);
        }
    }
    if (st == TP_OK) tp_graph_finalize(t->graph);
    tp_session_init_free(init);
    return st;
}

/* Set by the signal handler, which can reach nothing else. */
static volatile sig_atomic_t tp__interrupted;
static void tp__on_sigint(int sig)
{
    (void)sig;
    tp__interrupted = 1;
}

/* The first of a status and Ctrl-C. */
static tp_status tp__or_interrupt(tp_status st) { return st == TP_OK && tp__interrupted ? TP_INTR : st; }

static tp_status tp__loop(tp_trainer *t)
{
    tp_train_state *s = &t->state;
    char human[96];
    tp_status st;
    for (int i = 0; i < t->n_callback; i++)
        if ((st = tp__or_interrupt(tp_callback_before_train(t->callback[i]))) != TP_OK) return st;
    s->global_step = tp_get_global_step_value(s->session); /* a callback may have loaded a checkpoint */
    for (s->epoch_num = s->starting_epoch; s->epoch_num <= s->max_epoch; s->epoch_num++) {
        tp_log(TP_LOG_INFO, "Start Epoch %lld ...", (long long)s->epoch_num);
        for (int i = 0; i < t->n_callback; i++)
            if ((st = tp__or_interrupt(tp_callback_before_epoch(t->callback[i]))) != TP_OK) return st;
        const double t0 = tp_time();
        for (int64_t k = 0; k < s->steps_per_epoch; k++) {
            if (tp_hooked_session_should_stop(s->hooked)) return TP_OK;
            if (tp__interrupted) return TP_INTR;
            s->local_step = k;
            if ((st = tp__or_interrupt(t->run_step(t))) != TP_OK) return st;
            for (int i = 0; i < t->n_callback; i++)
                if ((st = tp__or_interrupt(tp_callback_trigger_step(t->callback[i]))) != TP_OK) return st;
        }
        for (int i = 0; i < t->n_callback; i++)
            if ((st = tp__or_interrupt(tp_callback_after_epoch(t->callback[i]))) != TP_OK) return st;
        tp_log(TP_LOG_INFO, "Epoch %lld (global_step %lld) finished, time:%s.", (long long)s->epoch_num, (long long)s->global_step,
               tp_humanize_time(tp_time() - t0, human, sizeof human));
        if ((st = tp__or_interrupt(tp_callbacks_trigger_epoch(t->callback, t->n_callback))) != TP_OK) return st;
    }
    s->epoch_num = s->max_epoch >= s->starting_epoch ? s->max_epoch : s->starting_epoch - 1;
    tp_log(TP_LOG_INFO, "Training has finished!");
    return TP_OK;
}

TP_DEF tp_status tp_trainer_main_loop(tp_trainer *t, int64_t steps_per_epoch, int64_t starting_epoch, int64_t max_epoch)
{
    tp_train_state *s = &t->state;
    char reason[2100];
    if (steps_per_epoch < 0 || max_epoch < 0) return tp_fail(TP_ERR_ARG, "a training of %lld steps an epoch and %lld epochs", (long long)steps_per_epoch, (long long)max_epoch);
    s->steps_per_epoch = steps_per_epoch;
    s->starting_epoch = starting_epoch;
    s->max_epoch = max_epoch;
    s->epoch_num = starting_epoch - 1;
    s->local_step = -1;
    s->global_step = tp_get_global_step_value(s->session);
    struct sigaction mine, old;
    memset(&mine, 0, sizeof mine);
    mine.sa_handler = tp__on_sigint;
    sigemptyset(&mine.sa_mask);
    tp__interrupted = 0;
    const bool handled = sigaction(SIGINT, &mine, &old) == 0;
    tp_status st = tp__loop(t);
    snprintf(reason, sizeof reason, "%s", st < 0 ? tp_last_error() : s->stop_reason);
    if (st == TP_STOP) tp_log(TP_LOG_INFO, "Training was stopped by exception %s.", *reason ? reason : "StopTraining");
    else if (st == TP_END) {
        const char *why = NULL;
        if (t->input && tp_input_failure(t->input, &why) != TP_OK) tp_log(TP_LOG_ERROR, "The input failed: %s", why ? why : "");
        tp_log(TP_LOG_INFO, "Training was stopped: the input has no more data.");
    } else if (st == TP_INTR) tp_log(TP_LOG_INFO, "Detected Ctrl-C and exiting main loop.");
    else if (st != TP_OK) tp_log(TP_LOG_ERROR, "Training failed at global_step=%lld: %s", (long long)s->global_step, reason);
    tp_callbacks_after_train(t->callback, t->n_callback);
    if (handled) sigaction(SIGINT, &old, NULL);
    if (st == TP_STOP || st == TP_END) return TP_OK;
    return st < 0 ? tp_fail(st, "%s", reason) : st;
}

TP_DEF tp_status tp_train(tp_trainer *t, const tp_train_desc *d)
{
    tp_status st = tp_trainer_setup_callbacks(t, d->callbacks, d->n_callbacks, d->monitors, d->n_monitors);
    if (st != TP_OK) {
        tp_session_init_free(d->session_init);
        return st;
    }
    st = tp_trainer_initialize(t, d->session_init);
    if (st != TP_OK) return st;
    if (d->steps_per_epoch == 0) return tp_fail(TP_ERR_ARG, "You must set steps_per_epoch (TP_NO_STEPS for an epoch without steps)");
    return tp_trainer_main_loop(t, d->steps_per_epoch == TP_NO_STEPS ? 0 : d->steps_per_epoch, d->starting_epoch ? d->starting_epoch : 1,
                                d->max_epoch ? d->max_epoch : 9999999);
}

TP_DEF tp_status tp_train_with_defaults(tp_trainer *t, const tp_train_desc *d)
{
    tp_callback *extra[8], *monitors[8];
    tp_train_desc full = *d;
    const int n_user = d->n_callbacks > 0 ? d->n_callbacks : 0;
    int n_extra = d->n_extra_callbacks > 0 ? d->n_extra_callbacks : 0;
    if (!d->extra_callbacks && d->n_extra_callbacks != TP_NONE) {
        n_extra = tp_default_callbacks(extra);
        full.extra_callbacks = extra;
    }
    if (!d->monitors && d->n_monitors != TP_NONE) {
        full.n_monitors = tp_default_monitors(monitors);
        full.monitors = monitors;
    } else if (d->n_monitors < 0) {
        full.n_monitors = 0;
    }
    tp_callback **all = (tp_callback **)tp_calloc((size_t)(n_user + n_extra) + 1, sizeof *all);
    if (!all) {
        for (int i = 0; i < n_user; i++) tp_callback_free(d->callbacks[i]);
        for (int i = 0; i < n_extra; i++) tp_callback_free(full.extra_callbacks[i]);
        for (int i = 0; i < full.n_monitors; i++) tp_callback_free(full.monitors[i]);
        tp_session_init_free(d->session_init);
        return TP_ERR_NOMEM;
    }
    for (int i = 0; i < n_user; i++) all[i] = d->callbacks[i];
    for (int i = 0; i < n_extra; i++) all[n_user + i] = full.extra_callbacks[i];
    full.callbacks = all;
    full.n_callbacks = n_user + n_extra;
    const tp_status st = tp_train(t, &full);
    tp_free((void *)all);
    return st;
}

/* ==== >>config ======================================================================================== */

/* The epoch after which the latest checkpoint of a directory was written; -1 if it does not say. */
static int64_t tp__checkpoint_epoch(const char *dir)
{
    char latest[1100], path[1200];
    tp_dict d;
    int64_t epoch = -1;
    memset(&d, 0, sizeof d);
    if (tp_checkpoint_state_latest(dir, latest, sizeof latest) != TP_OK) return -1;
    snprintf(path, sizeof path, "%s.npz", latest);
    if (tp_load_checkpoint_vars(path, &d) == TP_OK) {
        const tp_tensor *t = tp_dict_find(&d, "tp:epoch_num");
        if (t && tp_tensor_size(t) == 1) epoch = (int64_t)tp_tensor_get(t, 0);
    }
    tp_dict_free(&d);
    return epoch;
}

TP_DEF tp_status tp_auto_resume_train_config(tp_train_config *c)
{
    const char *dir = tp_logger_dir();
    const bool always = c->always_resume != TP_NO;
    char path[1100];
    if (!dir) return tp_fail(TP_ERR_STATE, "to resume, the logger directory must be set and kept: tp_logger_set_dir(dir, 'k')");
    tp_session_init *found = NULL;
    int64_t epoch = -1;
    bool have_epoch = false;
    if (tp__file_in(path, sizeof path, dir, "checkpoint") != TP_OK) return TP_ERR_ARG;
    const bool want_init = always || !c->session_init, want_epoch = always || c->starting_epoch == 0;
    if (want_init && tp_file_exists(path)) {
        found = tp_saver_restore(path);
        if (!found) return TP_ERR_NOMEM;
    }
    if (want_epoch) {
        const tp_status st = tp_load_existing_epoch_number(dir, &epoch);
        have_epoch = st == TP_OK;
        if (st != TP_OK && st != TP_ERR_NAME) {
            tp_session_init_free(found);
            return st;
        }
        const int64_t saved = found ? tp__checkpoint_epoch(dir) : -1;
        if (saved >= 0) {
            epoch = saved;
            have_epoch = true;
        }
    }
    if ((found != NULL) != have_epoch && (want_init || want_epoch)) {
        const bool has = found != NULL;
        tp_session_init_free(found);
        return tp_fail(TP_ERR_STATE, "cannot resume from '%s': %s. Use another directory, or remove what is left of the old run.", dir,
                       has ? "there is a checkpoint, but stats.json names no last epoch" : "stats.json names a last epoch, but there is no checkpoint");
    }
    if (found) {
        if (c->session_init) tp_log(TP_LOG_WARN, "Found checkpoint at %s. session_init arguments will be overwritten.", path);
        else tp_log(TP_LOG_INFO, "Will load checkpoint at %s.", path);
        tp_session_init_free(c->session_init);
        c->session_init = found;
        tp_log(TP_LOG_INFO, "Setting starting_epoch to %lld.", (long long)epoch + 1);
        c->starting_epoch = epoch + 1;
    }
    return TP_OK;
}

TP_DEF tp_input_source *tp_apply_default_prefetch(tp_dataflow *df, const tp_trainer *t)
{
    if (t->default_feed) {
        tp_feed_input_desc d;
        memset(&d, 0, sizeof d);
        d.df = df;
        return tp_feed_input_(&d);
    }
    tp_queue_input_desc d;
    memset(&d, 0, sizeof d);
    d.df = df;
    tp_log(TP_LOG_INFO, "Automatically applying QueueInput on the DataFlow.");
    return tp_queue_input_(&d);
}

/* A regularization loss that nothing consumes was probably forgotten. */
static void tp__warn_unused_losses(const tp_graph *g)
{
    int n = 0;
    tp_node *const *loss = tp_collection(g, TP_KEY_REGULARIZATION_LOSSES, &n);
    for (int i = 0; i < n; i++) {
        bool used = false;
        for (int k = loss[i]->op->id + 1; k < tp_graph_n_operations(g) && !used; k++) {
            const tp_operation *o = tp_graph_operation(g, k);
            for (int q = 0; q < o->n_in; q++) used = used || o->in[q] == loss[i];
        }
        if (!used) {
            tp_log(TP_LOG_WARN, "%s in REGULARIZATION_LOSSES is not used: you may have forgotten to add regularization to your cost", tp_node_name(loss[i]));
            return;
        }
    }
}

TP_DEF tp_status tp_launch_train_with_config(const tp_train_config *config, tp_trainer *t)
{
    tp_train_config c = *config;
    tp_status st = t ? TP_OK : TP_ERR_NOMEM;
    tp_input_source *input = c.data;
    int64_t size = -1;
    if (st == TP_OK && c.auto_resume == TP_YES) st = tp_auto_resume_train_config(&c);
    if (st == TP_OK && (c.dataflow != NULL) == (c.data != NULL)) st = tp_fail(TP_ERR_ARG, "give .dataflow or .data, one of them (a failed constructor gives NULL: %s)", tp_last_error());
    if (st == TP_OK && c.dataflow) st = tp_df_status(c.dataflow);
    if (st == TP_OK && c.seed) st = tp_trainer_set_seed(t, c.seed);
    if (st == TP_OK && c.session_config) t->creator = tp_new_session_creator(c.session_config);
    if (st == TP_OK && c.dataflow) {
        size = tp_df_size(c.dataflow);
        input = tp_apply_default_prefetch(c.dataflow, t);
        c.dataflow = NULL;
        if (!input) st = TP_ERR_NOMEM;
    } else if (st == TP_OK) {
        size = tp_input_size(c.data);
    }
    if (st == TP_OK && c.steps_per_epoch == 0) {
        if (size <= 0) st = tp_fail(TP_ERR_ARG, "You must set steps_per_epoch: the size of the data is unknown");
        c.steps_per_epoch = size;
    }
    if (st == TP_OK) {
        tp_input_source *given = input;
        input = NULL;
        st = tp_trainer_setup_graph(t, &c.model, given);
    }
    if (st == TP_OK) {
        tp_train_desc d;
        memset(&d, 0, sizeof d);
        tp__warn_unused_losses(t->graph);
        d.callbacks = c.callbacks;
        d.n_callbacks = c.n_callbacks;
        d.extra_callbacks = c.extra_callbacks;
        d.n_extra_callbacks = c.n_extra_callbacks;
        d.monitors = c.monitors;
        d.n_monitors = c.n_monitors;
        d.session_init = c.session_init;
        d.steps_per_epoch = c.steps_per_epoch;
        d.starting_epoch = c.starting_epoch;
        d.max_epoch = c.max_epoch ? c.max_epoch : 99999;
        st = tp_train_with_defaults(t, &d);
    } else { /* nobody else has them */
        char reason[2100];
        snprintf(reason, sizeof reason, "%s", tp_last_error());
        tp_log(TP_LOG_ERROR, "Training could not start: %s", reason);
        for (int i = 0; i < c.n_callbacks; i++) tp_callback_free(c.callbacks[i]);
        for (int i = 0; i < c.n_extra_callbacks; i++) tp_callback_free(c.extra_callbacks[i]);
        for (int i = 0; i < c.n_monitors; i++) tp_callback_free(c.monitors[i]);
        tp_session_init_free(c.session_init);
        tp_df_free(c.dataflow);
        if (input != c.data || c.data) tp_input_free(input);
        tp_fail(st, "%s", reason);
    }
    if (st < 0) { /* freeing must not lose the sentence */
        char reason[2100];
        snprintf(reason, sizeof reason, "%s", tp_last_error());
        tp_trainer_free(t);
        return tp_fail(st, "%s", reason);
    }
    tp_trainer_free(t);
    return st;
}

TP__COLD_END
#endif
