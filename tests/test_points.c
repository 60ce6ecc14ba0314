/* A checkpoint is a point between epochs: a training with every kind of state is killed at each boundary of its phases, and
 * what it ends with after a resume equals, bit for bit, what an undisturbed one ends with: variables, states of callbacks, the
 * best model, stats.json, the files that are kept. Then what a damaged checkpoint, a changed program, a full disk do. */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_test.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { STEPS = 5, EPOCHS = 4 };

typedef struct plan {
    const char *dir;
    int order;            /* where in the list the savers stand */
    const char *kill_in;  /* the hook, NULL: none */
    int kill_epoch, last; /* last: the callback that does it ends the list, else it begins it */
    int64_t kill_step;    /* in hooks of steps */
    int resume, epochs;   /* 0: EPOCHS */
    int every;            /* checkpoints every so many steps, too */
    int front;            /* so many more callbacks at the front */
    int without_best;     /* no MinSaver */
    const char *warned;   /* this must be said, or with '!' before it must not */
    bool for_ever;        /* the saver deletes nothing */
} plan;

static const tp_spec inputs[] = {TP_SPEC("input", TP_F32, TP_ANY, 28, 28), TP_SPEC("label", TP_I32, TP_ANY)};

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    tp_node *x =
        tp_linear(in[0], TP_FULLY_CONNECTED("fc0", .units = 12, .activation = tp_relu),
                  TP_DROPOUT("dropout", .rate = 0.3f), TP_BATCH_NORM("bn"), TP_FULLY_CONNECTED("fc1", .units = 10));
    tp_node *cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(x, in[1])), "cost");
    tp_sym_prediction_incorrect(x, in[1], 1, "incorrect_vector");
    tp_add_moving_summary(cost);
    return cost;
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_adam(tp_get_scalar_variable(g, "learning_rate", 1e-2f));
}

/* A variable that takes a random step each time: what has happened before training must not happen again. */
static tp_node *drunkard(tp_graph *g, void *user)
{
    (void)user;
    tp_node *v = tp_get_scalar_variable(g, "drunkard", 0.0f);
    return tp_assign_add(v, tp_rand_normal(g, tp_make_shape_n(0, NULL), 0, 1), NULL);
}

static double number; /* a parameter that is no variable */

static tp_status shrink(double *value, void *user)
{
    (void)user;
    *value *= 0.5;
    return TP_OK;
}

static tp_status grow(tp_callback *setter, void *user, double *value, bool *set)
{
    (void)setter, (void)user;
    *value = *value * 1.5 + 1;
    *set = true;
    return TP_OK;
}

static tp_status report(tp_callback *cb) { return tp_monitors_put_scalar(cb->train->monitors, "number", number); }

/* Up and down, and up again: the best one is neither the first nor the last. */
static tp_status score(tp_callback *cb)
{
    static const double of_epoch[] = {0, .5, .2, .4, .3, .1, .6};
    return tp_monitors_put_scalar(cb->train->monitors, "score", of_epoch[cb->train->epoch_num]);
}

static tp_status nothing(tp_callback *cb)
{
    (void)cb;
    return TP_OK;
}

/* -- who kills */

typedef struct killer {
    const plan *p;
} killer;

static tp_status kill_here(tp_callback *cb, const char *hook)
{
    const plan *p = ((const killer *)cb->user)->p;
    const bool in_step = strstr(hook, "run") || strstr(hook, "step");
    if (!p->kill_in || strcmp(p->kill_in, hook) != 0 || cb->train->epoch_num != p->kill_epoch) return TP_OK;
    if (in_step && cb->train->local_step != p->kill_step) return TP_OK;
    raise(SIGKILL);
    return TP_OK;
}
static tp_status k_before_train(tp_callback *cb) { return kill_here(cb, "before_train"); }
static tp_status k_before_epoch(tp_callback *cb) { return kill_here(cb, "before_epoch"); }
static tp_status k_before_run(tp_callback *cb, tp_run_request *r) { return (void)r, kill_here(cb, "before_run"); }
static tp_status k_after_run(tp_callback *cb, const tp_run_values *v) { return (void)v, kill_here(cb, "after_run"); }
static tp_status k_trigger_step(tp_callback *cb) { return kill_here(cb, "trigger_step"); }
static tp_status k_after_epoch(tp_callback *cb) { return kill_here(cb, "after_epoch"); }
static tp_status k_trigger(tp_callback *cb)
{
    tp_callback_request_checkpoint(cb);
    return kill_here(cb, "trigger");
}
static tp_status k_checkpoint(tp_callback *cb) { return kill_here(cb, "checkpoint"); }
static tp_status k_after_checkpoint(tp_callback *cb) { return kill_here(cb, "after_checkpoint"); }
static tp_status k_after_train(tp_callback *cb) { return kill_here(cb, "after_train"); }

static tp_callback *killer_new(const plan *p)
{
    tp_callback *cb = tp_callback_new("Killer", sizeof(killer));
    ((killer *)cb->user)->p = p;
    cb->before_train = k_before_train;
    cb->before_epoch = k_before_epoch;
    cb->before_run = k_before_run;
    cb->after_run = k_after_run;
    cb->trigger_step = k_trigger_step;
    cb->after_epoch = k_after_epoch;
    cb->trigger = k_trigger;
    cb->checkpoint = k_checkpoint;
    cb->after_checkpoint = k_after_checkpoint;
    cb->after_train = k_after_train;
    return cb;
}

/* -- the training */

static char said[1 << 15];
static void listen(void *user, tp_log_level level, const char *message)
{
    (void)user;
    if (level >= TP_LOG_WARN && strlen(said) + strlen(message) + 2 < sizeof said) strcat(strcat(said, message), "\n");
}

static int callbacks(const plan *p, tp_callback **cb)
{
    int n = 0;
    tp_callback *saver = tp_cb_model_saver(.max_to_keep = p->every ? 5 : 2,
                                           .keep_checkpoint_every_n_hours = p->for_ever ? TP_ZERO : 0.5f),
                *best = tp_cb_min_saver("score");
    if (p->every) saver = tp_cb_periodic_trigger(saver, .every_k_steps = p->every, .every_k_epochs = 1);
    if (p->without_best) {
        tp_callback_free(best);
        best = tp_cb_lambda(.trigger = nothing);
    }
    static plan never;
    cb[n++] = killer_new(p->last ? &never : p);
    for (int i = 0; i < p->front; i++) cb[n++] = tp_cb_lambda(.trigger = nothing);
    if (p->order == 0) cb[n++] = saver, cb[n++] = best;
    if (p->order == 1) cb[n++] = best;
    cb[n++] = tp_cb_run_op(.fn = drunkard);
    cb[n++] = tp_cb_lambda(.trigger = score, .name = "Score");
    cb[n++] =
        tp_cb_inference_runner(tp_df_batch(tp_df_digits("test", .size = 40, .shuffle = TP_NO), 20, .remainder = TP_YES),
                               .inferencers = {tp_inf_classification_error("incorrect_vector", "validation_error")});
    if (p->order == 1) cb[n++] = saver;
    cb[n++] = tp_cb_stat_monitor_param_setter("learning_rate", "score", shrink, .last_k = 2);
    cb[n++] = tp_cb_scheduled_hyper_param_setter("learning_rate", .schedule = {{3, 0.004}});
    cb[n++] = tp_cb_hyper_param_setter(.fn = grow, .param = tp_param_field("number", &number, TP_F64));
    cb[n++] = tp_cb_simple_moving_average(.names = {"cost"}, .window_size = 7);
    cb[n++] = tp_cb_periodic_trigger(tp_cb_lambda(.trigger = report, .name = "Report"), .every_k_epochs = 2,
                                     .before_train = TP_YES);
    if (p->order == 2) cb[n++] = best, cb[n++] = saver;
    cb[n++] = killer_new(p->last ? p : &never);
    return n;
}

static tp_status train(const plan *p)
{
    tp_callback *cb[32];
    tp_session_config session = tp_default_session_config();
    session.threads = 1;
    tp_set_log(listen, NULL);
    if (tp_logger_set_dir(p->dir, p->resume ? 'k' : 'd') != TP_OK) return TP_ERR;
    number = 1;
    const int n = callbacks(p, cb);
    return tp_launch_train_with_config(
        &(tp_train_config){
            .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build_graph, .optimizer = optimizer},
            .dataflow = tp_df_batch(tp_df_digits("train", .size = 48), 8),
            .callbacks = cb,
            .n_callbacks = n,
            .session_config = &session,
            .steps_per_epoch = STEPS,
            .max_epoch = p->epochs ? p->epochs : EPOCHS,
            .auto_resume = TP_YES,
        },
        tp_simple_trainer());
}

/* In a process of its own; how it ended as waitpid says. */
static int train_apart(const plan *p)
{
    int status = -1;
    const pid_t pid = fork();
    if (pid == 0) {
        freopen("/dev/null", "w", stderr);
        const tp_status st = train(p);
        if (p->warned && *p->warned != '!' && !strstr(said, p->warned)) _exit(3);
        if (p->warned && *p->warned == '!' && strstr(said, p->warned + 1)) _exit(4);
        _exit(st == TP_OK ? 0 : st == TP_ERR_IO ? 2 : 1);
    }
    waitpid(pid, &status, 0);
    return status;
}

static bool ended(int status, int code) { return WIFEXITED(status) && WEXITSTATUS(status) == code; }
static bool killed(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }

/* -- comparing */

static const char *folder(const char *name)
{
    static char root[300], path[2][400];
    char *to = path[strcmp(name, "whole") == 0];
    if (!root[0]) snprintf(root, sizeof root, "%s", tp_test_tmpdir());
    snprintf(to, sizeof path[0], "%s/%s", root, name);
    return to;
}

static bool same_arrays(const char *a, const char *b, const char *name, const char *when)
{
    tp_dict x, y;
    bool same = true;
    memset(&x, 0, sizeof x);
    memset(&y, 0, sizeof y);
    if (!CHECK_OK(tp_load_checkpoint_vars(tp_test_path(a, name), &x)) ||
        !CHECK_OK(tp_load_checkpoint_vars(tp_test_path(b, name), &y)))
        same = false;
    if (same) same = CHECK_MSG(x.n == y.n && x.n > 20, "%s: %s has %d and %d arrays", when, name, x.n, y.n);
    for (int i = 0; i < x.n && i < y.n; i++) {
        const tp_tensor *t = tp_dict_find(&y, x.item[i].name);
        if (!CHECK_MSG(t && tp_tensor_bytes(t) == tp_tensor_bytes(&x.item[i].value) &&
                           memcmp(t->data, x.item[i].value.data, tp_tensor_bytes(t)) == 0,
                       "%s: %s of %s differs", when, x.item[i].name, name))
            same = false;
    }
    tp_dict_free(&x);
    tp_dict_free(&y);
    return same;
}

/* Of the variables alone. */
static void same_variables(const char *a, const char *b, const char *name, const char *when)
{
    tp_dict x, y;
    memset(&x, 0, sizeof x);
    memset(&y, 0, sizeof y);
    if (CHECK_OK(tp_load_checkpoint_vars(tp_test_path(a, name), &x)) &&
        CHECK_MSG(tp_load_checkpoint_vars(tp_test_path(b, name), &y) == TP_OK, "%s: %s", when, tp_last_error()))
        for (int i = 0; i < x.n; i++) {
            const tp_tensor *v = &x.item[i].value, *t = tp_dict_find(&y, x.item[i].name);
            if (strncmp(x.item[i].name, "tp:", 3) != 0)
                CHECK_MSG(t && tp_tensor_bytes(t) == tp_tensor_bytes(v) &&
                              memcmp(t->data, v->data, tp_tensor_bytes(t)) == 0,
                          "%s: %s of %s differs", when, x.item[i].name, name);
        }
    tp_dict_free(&x);
    tp_dict_free(&y);
}

static void same_text(const char *a, const char *b, const char *name, const char *when)
{
    char *x = NULL, *y = NULL;
    size_t n = 0, m = 0;
    if (CHECK_OK(tp_file_read(tp_test_path(a, name), false, 0, &x, &n)) &&
        CHECK_OK(tp_file_read(tp_test_path(b, name), false, 0, &y, &m)))
        CHECK_MSG(n == m && memcmp(x, y, n) == 0, "%s: %s is\n%s\nand\n%s", when, name, x, y);
    tp_free(x);
    tp_free(y);
}

static int count(const char *dir, const char *prefix)
{
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) n += strncmp(e->d_name, prefix, strlen(prefix)) == 0;
    if (d) closedir(d);
    return n;
}

static void same_end(const char *whole, const char *broken, const char *when)
{
    same_arrays(whole, broken, "model-20", when);
    same_arrays(whole, broken, "min-score", when);
    same_text(whole, broken, "stats.json", when);
    same_text(whole, broken, "checkpoint", when);
    CHECK_MSG(count(whole, "model-") == count(broken, "model-"), "%s: %d and %d models", when, count(whole, "model-"),
              count(broken, "model-"));
}

static plan undisturbed(const char *name, int order)
{
    plan p;
    memset(&p, 0, sizeof p);
    p.dir = folder(name);
    p.order = order;
    CHECK_MSG(ended(train_apart(&p), 0), "the undisturbed training, order %d", order);
    return p;
}

TEST(killed_at_each_boundary)
{
    static const char *const hooks[] = {"before_train",     "before_epoch", "before_run", "after_run",
                                        "trigger_step",     "after_epoch",  "trigger",    "checkpoint",
                                        "after_checkpoint", "after_train"};
    char when[200];
    const bool quick = getenv("TP_TEST_QUICK") != NULL;
    for (int order = quick ? 2 : 0; order < 3; order++) {
        const plan whole = undisturbed("whole", order);
        const char *broken = folder("broken");
        for (int h = order == 1 ? 6 : 0; h < (order == 1 ? 9 : TP_COUNT(hooks)); h++) /* of order 1, those of savers */
            for (int last = 0; last < 2; last++)
                for (int epoch = order; epoch <= EPOCHS; epoch += quick ? 4 : 3) {
                    if (epoch == 0) continue;
                    plan p = whole;
                    p.dir = broken;
                    p.kill_in = hooks[h];
                    p.last = last;
                    p.kill_epoch = strstr(hooks[h], "_train") ? (h == 0 ? 0 : EPOCHS) : epoch;
                    p.kill_step = epoch % STEPS;
                    snprintf(when, sizeof when, "order %d, killed in %s of epoch %d, %s of the list", order, hooks[h],
                             p.kill_epoch, last ? "end" : "begin");
                    if (!CHECK_MSG(killed(train_apart(&p)), "%s: it was not", when)) continue;
                    p.kill_in = NULL;
                    p.resume = 1;
                    if (CHECK_MSG(ended(train_apart(&p), 0), "%s: it does not go on", when))
                        same_end(whole.dir, broken, when);
                }
    }
}

/* A checkpoint that was asked for within an epoch goes on within that epoch. */
TEST(within_an_epoch)
{
    plan whole, p;
    memset(&whole, 0, sizeof whole);
    whole.dir = folder("whole");
    whole.every = 3;
    CHECK(ended(train_apart(&whole), 0));
    for (int step = 0; step < STEPS; step++) {
        p = whole;
        p.dir = folder("broken");
        p.kill_in = "trigger_step";
        p.kill_epoch = 2;
        p.kill_step = step;
        CHECK(killed(train_apart(&p)));
        p.kill_in = NULL;
        p.resume = 1;
        CHECK(ended(train_apart(&p), 0));
        same_end(whole.dir, p.dir, "every third step");
    }
}

static void cut(const char *path, int64_t bytes) { CHECK(truncate(path, bytes) == 0); }

TEST(a_damaged_checkpoint)
{
    const plan whole = undisturbed("whole", 0);
    plan p = whole;
    p.dir = folder("broken");
    p.epochs = 3;
    CHECK(ended(train_apart(&p), 0));
    cut(tp_test_path(p.dir, "model-15.npz"), 1000);
    tp_set_log(listen, NULL);
    tp_session_init *init = tp_saver_restore(p.dir); /* asked for by name: refused, but told what there is */
    tp_graph *g = tp_graph_new(NULL);
    tp_session *s = tp_session_new(g, NULL);
    CHECK_ERR(tp_session_init_run(init, s), TP_ERR_FORMAT, "An older checkpoint can be read: '");
    CHECK_HAS(tp_last_error(), "model-10.npz'");
    tp_session_init_free(init);
    init = tp_smart_init(tp_test_path(p.dir, "model-15.npz"), false);
    CHECK_ERR(tp_session_init_run(init, s), TP_ERR_FORMAT, "model-10.npz'");
    tp_session_init_free(init);
    tp_session_free(s);
    tp_graph_free(g);
    tp_set_log(NULL, NULL);
    p.resume = 1;
    p.epochs = 0;
    p.warned = "Training goes on from an older one, '";
    CHECK(ended(train_apart(&p), 0));
    same_end(whole.dir, p.dir, "from the older one");
    p.warned = "Training goes on from an older one, '"; /* gone altogether */
    CHECK(remove(tp_test_path(p.dir, "model-20.npz")) == 0);
    CHECK(ended(train_apart(&p), 0));
    same_end(whole.dir, p.dir, "the latest was removed");
    cut(tp_test_path(p.dir, "checkpoint"), 5); /* the list */
    CHECK(ended(train_apart(&p), 0));
    CHECK(same_arrays(whole.dir, p.dir, "model-20", "the list was cut"));
    CHECK(remove(tp_test_path(p.dir, "checkpoint")) == 0);
    p.warned = "is missing, but there are checkpoints: training goes on from the newest";
    CHECK(ended(train_apart(&p), 0));
    CHECK(same_arrays(whole.dir, p.dir, "model-20", "the list was removed"));
    tp_test_write(tp_test_path(p.dir, "checkpoint"), "model", 5);
    CHECK(remove(tp_test_path(p.dir, "model-15.npz")) == 0); /* nothing is left */
    cut(tp_test_path(p.dir, "model-20.npz"), 1000);
    TEST_EXPECT_ERROR("no older checkpoint in");
    p.warned = "to start from the beginning";
    CHECK(ended(train_apart(&p), 1));
}

/* States are found by name: more callbacks in front change nothing. What is not found, or not taken, is said. */
TEST(states_by_name)
{
    static const plan none;
    plan p = none;
    p.dir = folder("broken");
    p.epochs = 2; /* the best one is that of epoch 2 */
    CHECK(ended(train_apart(&p), 0));
    p.resume = 1;
    p.epochs = 3;
    p.front = 2;
    p.warned = "!state";
    CHECK(ended(train_apart(&p), 0));
    tp_dict d;
    memset(&d, 0, sizeof d);
    if (CHECK_OK(tp_load_checkpoint_vars(tp_test_path(p.dir, "min-score"), &d))) {
        CHECK(tp_tensor_get(tp_dict_find(&d, "global_step"), 0) == 2 * STEPS);
        const tp_tensor *best = tp_dict_find(&d, "tp:callback/MinSaver(score)/best");
        CHECK(best && tp_tensor_get(best, 0) == .2);
        CHECK(tp_dict_find(&d, "tp:callback/StatMonitorParamSetter(learning_rate,score)/window") != NULL);
    }
    tp_dict_free(&d);
    p.epochs = 4;
    p.without_best = 1;
    p.warned = "No callback takes this state of the checkpoint: MinSaver(score)/best";
    CHECK(ended(train_apart(&p), 0));
    p.epochs = 5;
    p.without_best = 0;
    p.warned = "MinSaver(score) finds no state of its own in the checkpoint";
    CHECK(ended(train_apart(&p), 0));
}

/* A checkpoint of a version that knew callbacks by their positions: the model and the position in the data are used. */
TEST(states_by_position)
{
    static const plan none;
    plan p = none;
    tp_dict d;
    memset(&d, 0, sizeof d);
    p.dir = folder("broken");
    p.epochs = 2;
    CHECK(ended(train_apart(&p), 0));
    if (!CHECK_OK(tp_load_checkpoint_vars(tp_test_path(p.dir, "model-10"), &d))) return;
    const tp_dict all = d;
    for (int i = d.n = 0; i < all.n; i++) {
        char *name = all.item[i].name;
        const bool best = strcmp(name, "tp:callback/MinSaver(score)/best") == 0;
        if (best) strcpy(name, "tp:callback/7/MinSaver/best");
        if (best || strncmp(name, "tp:callback", 11) != 0) {
            d.item[d.n++] = all.item[i];
        } else {
            tp_free(name);
            tp_tensor_free(&all.item[i].value);
        }
    }
    CHECK_OK(tp_save_checkpoint_vars(&d, tp_test_path(p.dir, "model-10.npz")));
    tp_dict_free(&d);
    p.resume = 1;
    p.epochs = 3;
    p.warned = "No callback takes this state of the checkpoint (which an older version wrote): 7/MinSaver/best";
    CHECK(ended(train_apart(&p), 0));
    CHECK(tp_file_exists(tp_test_path(p.dir, "model-15.npz")));
}

/* max_to_keep counts what was made before a resume. */
TEST(old_checkpoints_go_after_a_resume)
{
    static const plan none;
    plan p = none;
    p.dir = folder("broken");
    for (p.epochs = 1; p.epochs <= 6; p.epochs++) {
        CHECK(ended(train_apart(&p), 0));
        CHECK_MSG(count(p.dir, "model-") == (p.epochs < 2 ? 1 : 2), "%d files after epoch %d", count(p.dir, "model-"),
                  p.epochs);
        p.resume = 1;
    }
}

/* -- a checkpoint of an end that comes early */

typedef struct early {
    const char *dir, *how;
    int at, resume; /* the finished runs after which it ends */
    bool one_rank;  /* HorovodTrainer, in one process */
} early;

static const early *end_early;
static tp_callback *last_saver;
static int epochs_triggered;

static tp_status save_at_the_end(tp_callback *cb) { return (void)cb, tp_callback_trigger(last_saver); }
static tp_status count_trigger(tp_callback *cb) { return (void)cb, epochs_triggered++, TP_OK; }
static tp_status stop_early(tp_callback *cb)
{
    const early *e = end_early;
    if (cb->train->global_step != e->at) return TP_OK;
    if (strcmp(e->how, "interrupt") == 0) return raise(SIGINT) == 0 ? TP_OK : TP_ERR;
    if (strcmp(e->how, "request") == 0) tp_hooked_session_request_stop(cb->train->hooked_session);
    return strcmp(e->how, "stop") == 0 ? tp_stop(cb->train, "enough") : TP_OK;
}

/* Ctrl-C while the run is made after which it ends. */
static tp_status interrupt_run(tp_callback *cb, tp_run_request *r)
{
    (void)r;
    const bool now = strcmp(end_early->how, "run") == 0 && cb->train->global_step + 1 == end_early->at;
    return !now || raise(SIGINT) == 0 ? TP_OK : TP_ERR;
}
static tp_status interrupt_epoch(tp_callback *cb)
{
    const bool now = strcmp(end_early->how, "epoch") == 0 && cb->train->global_step == end_early->at;
    return !now || raise(SIGINT) == 0 ? TP_OK : TP_ERR;
}

static tp_callback *ender_new(void)
{
    tp_callback *cb = tp_callback_new("Ender", 0);
    cb->before_run = interrupt_run;
    cb->trigger_step = stop_early;
    cb->after_epoch = interrupt_epoch;
    cb->after_train = save_at_the_end;
    return cb;
}

static int train_early(const early *e)
{
    int status = -1;
    const pid_t pid = fork();
    if (pid == 0) {
        freopen("/dev/null", "w", stderr);
        tp_logger_set_dir(e->dir, e->resume ? 'k' : 'd');
        end_early = e;
        last_saver = tp_cb_model_saver();
        tp_launch_train_with_config(
            &(tp_train_config){
                .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build_graph, .optimizer = optimizer},
                .dataflow = tp_df_batch(tp_df_digits("train", .size = 48), 8),
                TP_CALLBACKS(last_saver, tp_cb_lambda(.trigger = count_trigger, .name = "Count"), ender_new()),
                .steps_per_epoch = STEPS,
                .max_epoch = 2,
                .auto_resume = TP_YES,
            },
            e->one_rank ? tp_horovod_trainer(.bucket_bytes = 0) : tp_simple_trainer());
        _exit(epochs_triggered);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Wherever it ends, no step is left out after the resume, none is taken twice, and each epoch has its triggers once. */
TEST(the_end_of_a_training_is_a_point)
{
    static const char *const hows[] = {"interrupt", "request", "stop"};
    early e = {folder("whole"), "never", 0, 0, false};
    CHECK(train_early(&e) == 2);
    e.dir = folder("broken");
    for (int h = 0; h < TP_COUNT(hows); h++)
        for (e.at = 1; e.at < 2 * STEPS; e.at += getenv("TP_TEST_QUICK") ? 2 : 1) {
            char when[100], name[40];
            snprintf(when, sizeof when, "%s after %d", hows[h], e.at);
            e.how = hows[h];
            e.resume = 0;
            const int first = train_early(&e);
            CHECK_MSG(first == (e.at < STEPS || (e.at == STEPS && h == 2) ? 0 : 1), "%s: %d", when, first);
            snprintf(name, sizeof name, "model-%d.npz", e.at);
            CHECK_MSG(tp_file_exists(tp_test_path(e.dir, name)), "%s: no %s", when, name);
            e.how = "never";
            e.resume = 1;
            const int then = train_early(&e);
            CHECK_MSG(first + then == 2, "%s: %d and %d triggers", when, first, then);
            snprintf(name, sizeof name, "model-%d", 2 * STEPS);
            same_variables(folder("whole"), e.dir, name, when);
        }
}

/* Ctrl-C during a run or at the end of an epoch: the step and its callbacks are finished, also by the one rank of a job. */
TEST(ctrl_c_within_a_run_leaves_a_point)
{
    early e = {folder("whole"), "never", 0, 0, false};
    CHECK(train_early(&e) == 2);
    e.dir = folder("broken");
    for (int rank = 0; rank < 2; rank++)
        for (e.at = 1; e.at < 2 * STEPS; e.at += 2) {
            char when[100], name[40];
            e.one_rank = rank == 1;
            e.how = e.at == STEPS ? "epoch" : "run";
            e.resume = 0;
            snprintf(when, sizeof when, "%s, %s %d", rank ? "one rank" : "SimpleTrainer", e.how, e.at);
            const int first = train_early(&e);
            CHECK_MSG(first == (e.at >= STEPS), "%s: %d", when, first);
            snprintf(name, sizeof name, "model-%d.npz", e.at);
            CHECK_MSG(tp_file_exists(tp_test_path(e.dir, name)), "%s: no %s", when, name);
            e.how = "never";
            e.resume = 1;
            const int then = train_early(&e);
            CHECK_MSG(first + then == 2, "%s: %d and %d triggers", when, first, then);
            snprintf(name, sizeof name, "model-%d", 2 * STEPS);
            same_variables(folder("whole"), e.dir, name, when);
        }
}

/* Two stay, and those for ever: here all. */
TEST(what_stays_for_ever_stays_after_a_resume)
{
    static const plan none;
    plan p = none;
    p.dir = folder("broken");
    p.for_ever = true;
    for (p.epochs = 1; p.epochs <= 6; p.epochs++) {
        CHECK(ended(train_apart(&p), 0));
        CHECK_MSG(count(p.dir, "model-") == p.epochs, "%d files after epoch %d", count(p.dir, "model-"), p.epochs);
        p.resume = 1;
    }
}

/* A checkpoint says of itself, too, whether it stays: the training that goes on from it, with another option, obeys. */
TEST(the_last_checkpoint_stays_as_the_training_that_wrote_it_said)
{
    static const plan none;
    static const bool there[2][7] = {{0, 0, 0, 0, 1, 1, 1}, {0, 1, 1, 1, 0, 1, 1}};
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        plan p = none;
        p.dir = folder("broken");
        p.for_ever = for_ever;
        p.epochs = 3;
        CHECK(ended(train_apart(&p), 0));
        CHECK(count(p.dir, "model-") == (for_ever ? 3 : 2));
        p.for_ever = !for_ever;
        p.resume = 1;
        p.epochs = 6;
        CHECK(ended(train_apart(&p), 0));
        for (int epoch = 1; epoch <= 6; epoch++) {
            char name[40];
            snprintf(name, sizeof name, "model-%d.npz", epoch * STEPS);
            CHECK_MSG(tp_file_exists(tp_test_path(p.dir, name)) == there[for_ever][epoch], "first %s: epoch %d",
                      for_ever ? "all stayed" : "two stayed", epoch);
        }
    }
}

/* A statistic that nobody reports ends the training, but no checkpoint is lost by it. */
TEST(a_missing_statistic_comes_after_the_checkpoint)
{
    TEST_EXPECT_ERROR("nobody has reported a statistic 'validation_eror'");
    const char *dir = folder("broken");
    CHECK_OK(tp_logger_set_dir(dir, 'd'));
    CHECK(tp_launch_train_with_config(
              &(tp_train_config){
                  .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build_graph, .optimizer = optimizer},
                  .dataflow = tp_df_batch(tp_df_digits("train", .size = 48), 8),
                  TP_CALLBACKS(tp_cb_model_saver(), tp_cb_min_saver("validation_eror")),
                  .steps_per_epoch = STEPS,
                  .max_epoch = 4,
              },
              tp_simple_trainer()) == TP_ERR_NAME);
    CHECK(count(dir, "model-") == 2);
}

/* From epoch 3 on the disk is full. */
static tp_status disk_full(tp_callback *cb)
{
    struct rlimit r;
    if (cb->train->epoch_num < 3) return TP_OK;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &r);
    r.rlim_cur = 16;
    return setrlimit(RLIMIT_FSIZE, &r) == 0 ? TP_OK : TP_ERR;
}

static int errors;
static void count_errors(void *user, tp_log_level level, const char *message)
{
    (void)user;
    errors += level == TP_LOG_ERROR && strncmp(message, "ModelSaver: the last checkpoint in '", 36) == 0 &&
              strstr(message, "is of epoch 2 (global_step=10). At global_step=30 ") != NULL;
}

TEST(a_full_disk_is_told_at_the_end)
{
    TEST_MAY_ERROR("was not saved");
    TEST_MAY_ERROR("was not written");
    TEST_EXPECT_ERROR("ModelSaver: the last checkpoint in");
    TEST_MAY_ERROR("JSONWriter:");
    TEST_MAY_ERROR("TFEventWriter:");
    for (int ok = 0; ok < 2; ok++) {
        int status = -1;
        const char *dir = folder("broken");
        const pid_t pid = fork();
        if (pid == 0) {
            freopen("/dev/null", "w", stderr);
            tp_set_log(count_errors, NULL);
            tp_logger_set_dir(dir, 'd');
            const tp_status st = tp_launch_train_with_config(
                &(tp_train_config){
                    .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build_graph, .optimizer = optimizer},
                    .dataflow = tp_df_batch(tp_df_digits("train", .size = 48), 8),
                    TP_CALLBACKS(tp_cb_model_saver(), tp_cb_lambda(.trigger = disk_full)),
                    .steps_per_epoch = STEPS,
                    .max_epoch = 6,
                    .unsaved_is_ok = ok ? TP_YES : TP_NO,
                },
                tp_simple_trainer());
            _exit(errors != 1 ? 9 : st == TP_OK ? 0 : st == TP_ERR_IO && strstr(tp_last_error(), "epoch 2") ? 2 : 1);
        }
        waitpid(pid, &status, 0);
        CHECK_MSG(ended(status, ok ? 0 : 2), "it ended with %d", WEXITSTATUS(status));
        CHECK(count(dir, "model-") == 2);
    }
}

TEST_MAIN()
