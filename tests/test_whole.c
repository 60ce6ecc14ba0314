/* A whole training, killed at each of its system calls, at random moments, and with every call failing once: what a run that
 * was stopped anywhere and started again leaves behind is what a run that was not stopped leaves behind.
 *
 * The training has each callback that keeps something from epoch to epoch. Compared are all arrays of the last checkpoint
 * (variables and states of callbacks), the best models, stats.json, dumped tensors and which checkpoints are kept; none of
 * them holds a time.
 *
 *     ./test_whole                      a sample of each kind of fault (about 20 s)
 *     TP_TEST_WHOLE=all ./test_whole    every call, three formats, several orders of callbacks (half an hour; in parts with
 *                                       TP_TEST_PART=1/2 and 2/2, at the same time)
 *     TP_TEST_SEED=7                    the seed of the sample and of the random moments; it is printed
 *     TP_TEST_KILLS=500 ./test_whole =several_trainers_are_killed      so many kills of all trainers, optimizers and parallel flows
 *     ./test_whole train DIR [format 0-2] [order] [threads] [queue 0/1] [quiet 0/1] [trainer] [rule] [flow]
 *                                       one training, to look at by hand
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_test.h"
#include "inject.h"
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/time.h>

/* ==== >>training ====================================================================================== */

enum { SAID = 4096, STEPS = 5, EPOCHS = 4, BATCH = 4, POINTS = 64, WIDTH = 6, ORDERS_NAMED = 2 };

/* How the gradients are computed, what is done with them, and how the data are read. The first ones are those of all tests but
 * several_trainers_are_killed. */
typedef enum trainer_kind {
    ONE_DEVICE, /* SimpleTrainer, or QueueInputTrainer */
    REPLICATED,
    REPLICATED_ON_CPU,
    SERVER_ON_GPU,
    SERVER_ON_CPU,
    ASYNCHRONOUS,
    TRAINERS
} trainer_kind;
typedef enum rule_kind {
    ADAM,
    SGD,
    MOMENTUM,
    NESTEROV,
    ADAMW,
    RMSPROP,
    ADAGRAD,
    ADADELTA,
    FTRL,
    LAMB,
    LION,
    ACCUMULATED,
    CLIPPED,
    SCALED_LOSS,
    AVERAGED,
    RULES
} rule_kind;
typedef enum flow_kind { PLAIN, AHEAD, MAPPED_ON_THREADS, IN_PROCESSES, FLOWS } flow_kind;

typedef struct setting {
    char dir[600];
    tp_checkpoint_format format;
    int order;   /* of the callbacks: 0 as listed, 1 from behind, else a permutation of this seed */
    int threads; /* of the session */
    bool queue;  /* data through a thread */
    trainer_kind trainer;
    rule_kind rule;
    flow_kind flow;
    bool loud;
    int stop_after, fail_after;             /* this epoch; 0: all, none */
    int limit;                              /* for small_files */
    void (*before)(const struct setting *); /* in the process, before it trains */
    void (*after_epoch)(const struct setting *, int64_t epoch);
} setting;

static const tp_spec inputs[] = {TP_SPEC("x", TP_F32, TP_ANY, WIDTH), TP_SPEC("y", TP_I32, TP_ANY)};

static tp_node *parameter(tp_graph *g, const char *name, float value) { return tp_get_scalar_variable(g, name, value); }

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *h = tp_fully_connected(in[0], "fc0", .units = 8, .use_bias = TP_NO);
    h = tp_dropout(tp_relu(tp_batch_norm(h, "bn")), .rate = 0.3f);
    tp_node *logits = tp_fully_connected(h, "fc1", .units = 3);
    tp_node *cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1])), "cost");
    tp_sym_prediction_incorrect(logits, in[1], 1, "incorrect_vector");
    /* what the setters set is part of what is trained */
    tp_node *weight = tp_add(tp_add(parameter(g, "scheduled", 1e-3f), parameter(g, "by_step", 1e-3f)),
                             tp_add(parameter(g, "by_function", 1e-3f), parameter(g, "by_hand", 1e-3f)));
    tp_node *penalty = tp_mul(weight, tp_regularize_cost(g, "fc.*/W", tp_l2_regularizer(1.0f), NULL));
    tp_node *total = tp_named(tp_add(cost, penalty), "total_cost");
    tp_add_moving_summary(cost, total);
    tp_add_param_summary(g, ".*/W", TP_SUMMARY_RMS);
    return total;
}

/* A moving average of each weight of the first tower, in a variable of its own. */
static tp_node *average(tp_node *var, tp_node *updated, tp_node *pred, void *user)
{
    char name[128];
    (void)user;
    if (strncmp(tp_node_name(var), "fc", 2) != 0) return NULL;
    snprintf(name, sizeof name, "average/%s", tp_node_name(var));
    tp_graph *g = tp_node_graph(var);
    tp_variable *made = tp_find_variable(g, name); /* several towers may update one variable */
    tp_node *mean = made ? made->node : tp_get_variable_as(g, name, TP_F32, var->shape, tp_init_zeros());
    return tp_assign_moving_average(mean, updated, 0.9f, pred);
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    const setting *s = (const setting *)user;
    tp_node *lr = parameter(g, "learning_rate", 2e-2f);
    switch (s->rule) {
    case SGD: return tp_sgd(lr);
    case MOMENTUM: return tp_momentum(lr);
    case NESTEROV: return tp_nesterov(lr);
    case ADAMW: return tp_adamw(lr, .weight_decay = 0.01f);
    case RMSPROP: return tp_rmsprop(lr, .momentum = 0.9f, .centered = TP_YES);
    case ADAGRAD: return tp_adagrad(lr);
    case ADADELTA: return tp_adadelta(lr);
    case FTRL: return tp_ftrl(lr);
    case LAMB: return tp_lamb(lr);
    case LION: return tp_lion(lr);
    case ACCUMULATED: return tp_accum_grad(tp_adam(lr), 3);
    case CLIPPED: return tp_apply_grad_processors(tp_momentum(lr), TP_GRADPROCS(tp_gradproc_global_norm_clip(0.5f)));
    case SCALED_LOSS: return tp_loss_scale(tp_momentum(lr), .initial = 16, .interval = 3);
    case AVERAGED: return tp_post_process(tp_adam(lr), average, NULL);
    default: return tp_adam(lr);
    }
}

static tp_status point(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    (void)user, (void)pass;
    tp_status st = tp_datapoint_resize(dp, 2);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape(WIDTH));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_I32, tp_make_shape_n(0, NULL));
    if (st != TP_OK) return st;
    const int32_t label = (int32_t)(i % 3);
    for (int k = 0; k < WIDTH; k++) {
        const float noise = (float)(tp_random_u32(5, 0, (uint64_t)(i * WIDTH + k)) % 1000) / 500.0f - 1.0f;
        ((float *)dp->c[0].data)[k] = noise + (k % 3 == label ? 0.5f : 0.0f);
    }
    *(int32_t *)dp->c[1].data = label;
    return TP_OK;
}

static tp_status same_point(const tp_datapoint *from, tp_datapoint *to, tp_map_call *call)
{
    (void)call;
    return tp_datapoint_copy(to, from);
}

static tp_dataflow *data(int64_t size, bool shuffled, flow_kind flow)
{
    tp_dataflow *df = tp_df_from_generator(point, .size = size, .indexed = TP_YES);
    if (shuffled) df = tp_df_locally_shuffle(df, .buffer_size = 20, .seed = 3);
    if (flow == AHEAD) df = tp_df_prefetch(df);
    if (flow == MAPPED_ON_THREADS) df = tp_df_parallel_map(df, same_point, .num_thread = 3);
    if (flow == IN_PROCESSES) df = tp_df_multi_process(df, 2);
    return tp_df_batch(df, BATCH, .remainder = shuffled ? TP_NO : TP_YES);
}

static tp_node *count_up(tp_graph *g, void *user)
{
    tp_node *var = tp_get_variable_as(g, (const char *)user, TP_F32, tp_make_shape_n(0, NULL), tp_init_zeros());
    return tp_assign_add(var, tp_const(g, 1.0f), NULL);
}

static tp_status slower(double *value, void *user)
{
    (void)user;
    *value *= 0.9;
    return TP_OK;
}

static double shrink(int64_t epoch, double old, void *user)
{
    (void)user;
    return old * 0.75 + 1e-4 * (double)epoch;
}

/* What processes say goes through memory that they share with the driver: files of theirs may not be written any more. */
typedef struct shared_memory {
    char said[SAID];   /* the error's sentence of the last training */
    char report[SAID]; /* of a test in a process of its own: what failed first */
    int epochs;        /* that the last training has trained */
    int epochs_at_end; /* how many the model has behind it */
    int failed, done;
} shared_memory;
static shared_memory *shared;

/* A callback of the user's: sums up the cost of all steps, and reports it where it is triggered. */
typedef struct sum {
    const char *tag;
    double sum;
    tp_node *cost;
} sum;

static tp_status sum_setup(tp_callback *cb)
{
    ((sum *)cb->user)->cost = tp_callback_find(cb, "cost");
    return ((sum *)cb->user)->cost ? TP_OK : TP_ERR_NAME;
}
static tp_status sum_before_run(tp_callback *cb, tp_run_request *r)
{
    return tp_request_fetch(r, ((sum *)cb->user)->cost) < 0 ? TP_ERR : TP_OK;
}
static tp_status sum_after_run(tp_callback *cb, const tp_run_values *v)
{
    ((sum *)cb->user)->sum += tp_tensor_get(v->value[0], 0);
    return TP_OK;
}
static tp_status sum_trigger(tp_callback *cb)
{
    const sum *s = (const sum *)cb->user;
    if (strcmp(s->tag, "sum") == 0) {
        shared->epochs++;
        shared->epochs_at_end = (int)cb->train->epoch_num;
    }
    return tp_monitors_put_scalar(cb->train->monitors, s->tag, s->sum);
}
static tp_status sum_save(tp_callback *cb, tp_dict *d, const char *prefix)
{
    return tp_state_put_f64(d, prefix, "sum", &((sum *)cb->user)->sum, 1);
}
static tp_status sum_load(tp_callback *cb, const tp_dict *d, const char *prefix)
{
    tp_state_get_f64(d, prefix, "sum", &((sum *)cb->user)->sum, 1);
    return TP_OK;
}
static tp_callback *sum_new(const char *tag)
{
    tp_callback *cb = tp_callback_new("Sum", sizeof(sum));
    ((sum *)cb->user)->tag = tag;
    cb->setup_graph = sum_setup;
    cb->before_run = sum_before_run;
    cb->after_run = sum_after_run;
    cb->trigger = sum_trigger;
    cb->save_state = sum_save;
    cb->load_state = sum_load;
    return cb;
}

/* What a setting asks for at the end of an epoch. */
static tp_status epoch_hook(tp_callback *cb)
{
    const setting *s = *(const setting **)cb->user;
    if (s->after_epoch) s->after_epoch(s, cb->train->epoch_num);
    if (s->fail_after && s->fail_after == cb->train->epoch_num) return tp_fail(TP_ERR, "this callback fails");
    return s->stop_after && s->stop_after == cb->train->epoch_num ? tp_stop(cb->train, "enough") : TP_OK;
}

/* The saver also saves after steps, so that a resume begins within an epoch. */
enum { MOST_CALLBACKS = 32, SAVER_STEPS = 4 };
static bool within_epochs(int order) { return order % 5 == 3; }

static int callbacks(const setting *s, tp_callback **list)
{
    static char second[700];
    int n = 0;
    snprintf(second, sizeof second, "%s/second", s->dir);
    tp_callback *saver = tp_cb_model_saver(.format = s->format, .max_to_keep = 2);
    list[n++] = s->order % 3 == 2 ? tp_cb_periodic_trigger(saver, .every_k_epochs = 2)
                : within_epochs(s->order)
                    ? tp_cb_periodic_trigger(saver, .every_k_steps = SAVER_STEPS, .every_k_epochs = 1)
                    : saver;
    list[n++] = tp_cb_inference_runner(
        data(30, false, PLAIN), .inferencers = {tp_inf_scalar_stats(.names = {"cost"}),
                                                tp_inf_classification_error("incorrect_vector", "validation_error")});
    list[n++] = tp_cb_min_saver("validation_cost");
    list[n++] = tp_cb_max_saver("validation_error", .filename = "worst");
    list[n++] = tp_cb_min_saver("total_cost");
    list[n++] =
        tp_cb_stat_monitor_param_setter("learning_rate", "validation_cost", slower, .threshold = 10, .last_k = 2);
    list[n++] = tp_cb_scheduled_hyper_param_setter("scheduled", {{1, 2e-3}, {3, 4e-3}});
    list[n++] = tp_cb_scheduled_hyper_param_setter("by_step", {{0, 1e-3}, {13, 3e-3}}, .interp = TP_INTERP_LINEAR,
                                                   .step_based = TP_YES);
    list[n++] = tp_cb_human_hyper_param_setter("by_hand");
    list[n++] = tp_cb_hyper_param_setter_with_func("by_function", shrink);
    list[n++] = tp_cb_run_op(.fn = count_up, .user = (void *)"ran");
    list[n++] =
        tp_cb_periodic_trigger(tp_cb_run_op(.fn = count_up, .user = (void *)"ran_sometimes", .run_before = TP_NO),
                               .every_k_steps = 3, .every_k_epochs = 2, .before_train = TP_YES);
    list[n++] = sum_new("sum");
    list[n++] = tp_cb_periodic_callback(sum_new("sum_sometimes"), .every_k_epochs = 2);
    list[n++] = tp_cb_simple_moving_average(.names = {"cost"}, .window_size = 3);
    list[n++] = tp_cb_periodic_callback(tp_cb_dump_tensors(.names = {"cost"}), .every_k_steps = 8);
    list[n++] = tp_cb_periodic_trigger(tp_cb_model_saver(.checkpoint_dir = second,
                                                         .format = (tp_checkpoint_format)((s->format + 1) % 3),
                                                         .max_to_keep = 1),
                                       .every_k_epochs = 2);
    list[n++] = tp_cb_min_saver("validation_error", .filename = "best", .checkpoint_dir = second);
    list[n++] = tp_cb_check_numerics();
    list[n++] = tp_cb_estimated_time_left();
    tp_callback *hook = list[n++] = tp_callback_new("Situation", sizeof s);
    *(const setting **)hook->user = s;
    hook->trigger = epoch_hook;
    for (int i = 0; i < n; i++) {
        const int k = s->order == 0 ? i
                      : s->order == 1
                          ? (i < n / 2 ? n - 1 - i : i)
                          : i + (int)(tp_random_u32(11, (uint32_t)s->order, (uint64_t)i) % (uint32_t)(n - i));
        tp_callback *cb = list[i];
        list[i] = list[k];
        list[k] = cb;
    }
    return n;
}

static tp_trainer *trainer_of(const setting *s)
{
    switch (s->trainer) {
    case REPLICATED: return tp_sync_multi_gpu_trainer_replicated(.n_devices = 2);
    case REPLICATED_ON_CPU: return tp_sync_multi_gpu_trainer_replicated(.n_devices = 3, .mode = TP_ALL_REDUCE_CPU);
    case SERVER_ON_GPU: return tp_sync_multi_gpu_trainer_parameter_server(.n_devices = 2, .ps_device = TP_ON_GPU);
    case SERVER_ON_CPU: return tp_sync_multi_gpu_trainer_parameter_server(.n_devices = 2, .ps_device = TP_ON_CPU);
    case ASYNCHRONOUS: return tp_async_multi_gpu_trainer(.n_devices = 2);
    default: return s->queue ? tp_queue_input_trainer() : tp_simple_trainer();
    }
}

/* Begins, or goes on where a run in this folder stopped. */
static tp_status train(const setting *s)
{
    tp_callback *list[MOST_CALLBACKS];
    tp_session_config session = tp_default_session_config();
    session.threads = s->threads;
    tp_status st = tp_logger_set_dir(s->dir, 'k');
    if (st != TP_OK) return st;
    tp_train_config config;
    memset(&config, 0, sizeof config);
    config.model.inputs = inputs;
    config.model.n_inputs = 2;
    config.model.build_graph = build_graph;
    config.model.optimizer = optimizer;
    config.model.user = (void *)(uintptr_t)s;
    config.dataflow = data(POINTS, true, s->flow);
    config.callbacks = list;
    config.n_callbacks = callbacks(s, list);
    config.session_config = &session;
    config.steps_per_epoch = STEPS;
    config.max_epoch = EPOCHS;
    config.auto_resume = TP_YES;
    return tp_launch_train_with_config(&config, trainer_of(s));
}

static int nowhere = -1; /* /dev/null */

/* The same as the body of a process: it ends with 0 or 1, and leaves the error's sentence. */
static int train_body(void *arg)
{
    const setting *s = (const setting *)arg;
    if (!s->loud && (dup2(nowhere, 1) < 0 || dup2(nowhere, 2) < 0)) return 3;
    shared->said[0] = 0;
    shared->epochs = shared->epochs_at_end = 0;
    if (s->before) s->before(s);
    const tp_status st = train(s);
    snprintf(shared->said, SAID, "%s", st == TP_OK ? "" : tp_last_error());
    tp_logger_set_dir(NULL, 0);
    return st == TP_OK ? 0 : 1;
}

/* ==== >>driver ======================================================================================== */

static bool whole(void)
{
    const char *e = getenv("TP_TEST_WHOLE");
    return e && strcmp(e, "all") == 0;
}
static bool brief(void) { return getenv("TP_TEST_QUICK") != NULL; }

static uint64_t seed(void)
{
    static uint64_t value;
    if (!value) {
        const char *e = getenv("TP_TEST_SEED");
        value = e ? strtoull(e, NULL, 10) : (uint64_t)time(NULL);
        printf("     TP_TEST_SEED=%llu\n", (unsigned long long)value);
    }
    return value;
}
static uint32_t draw(uint32_t below) /* a random number of this run */
{
    static uint64_t i;
    return tp_random_u32(seed(), 0, i++) % below;
}

/* How a setting is reached by hand. */
static const char *text_of(const setting *s)
{
    static char text[800];
    snprintf(text, sizeof text, "train DIR %d %d %d %d", (int)s->format, s->order, s->threads, s->queue);
    if (s->trainer || s->rule || s->flow)
        snprintf(text + strlen(text), sizeof text - strlen(text), " 0 %d %d %d", (int)s->trainer, (int)s->rule,
                 (int)s->flow);
    return text;
}

static bool queued;     /* one of the runs in the folder had a queue */
static bool began_anew; /* one of them found no checkpoint, and so puts aside what stats.json there is */

static const char *const hyper = "by_hand: 0.0025\n";

static void empty(const char *dir)
{
    queued = began_anew = false;
    char path[1000];
    tp_test_remove(dir);
    mkdir(dir, 0777);
    snprintf(path, sizeof path, "%s/hyper.txt", dir);
    FILE *f = fopen(path, "w");
    if (f) fputs(hyper, f), fclose(f);
}

static setting setting_of(const char *name, int format, int order, int threads, bool queue)
{
    static char root[300];
    setting s;
    memset(&s, 0, sizeof s);
    if (!root[0]) snprintf(root, sizeof root, "%s", tp_test_tmpdir());
    snprintf(s.dir, sizeof s.dir, "%s/%s", root, name);
    s.format = (tp_checkpoint_format)format;
    s.order = order;
    s.threads = threads;
    s.queue = queue;
    return s;
}

/* How many epochs the latest checkpoint has behind it; 0: there is none. One that Ctrl-C left has its step in the file only. */
static int epochs_saved(const char *dir)
{
    char latest[1100], path[1200];
    tp_dict d;
    int epochs = 0;
    if (tp_checkpoint_state_latest(dir, latest, sizeof latest) != TP_OK) { /* killed before the list was written */
        tp_checkpoint_entry *entry = NULL;
        int n = 0;
        if (tp_get_all_checkpoints(dir, "model", &entry, &n) == TP_OK && n > 0)
            epochs = (int)(entry[n - 1].step / STEPS);
        tp_free(entry);
        return epochs;
    }
    const char *slash = strrchr(latest, '/'), *dash = strrchr(slash ? slash : latest, '-');
    if (dash) return atoi(dash + 1) / STEPS;
    memset(&d, 0, sizeof d);
    for (int i = 0; i < 3 && !epochs; i++) {
        static const char *const ends[] = {".npz", ".index", ".safetensors"};
        snprintf(path, sizeof path, "%s%s", latest, ends[i]);
        if (!tp_file_exists(path) || tp_load_checkpoint_vars(path, &d) != TP_OK) continue;
        const tp_tensor *epoch = tp_dict_find(&d, "tp:epoch");
        epochs = epoch ? (int)tp_tensor_get(epoch, 0) : 0;
    }
    tp_dict_free(&d);
    return epochs;
}

/* Does the list name an older checkpoint beside the latest? */
static bool several_saved(const char *dir)
{
    char path[1100], line[1200];
    int n = 0;
    snprintf(path, sizeof path, "%s/checkpoint", dir);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) n += strncmp(line, "all_model_checkpoint_paths:", 27) == 0;
    if (f) fclose(f);
    return n > 1;
}

/* Before each run. */
static void note(const setting *s)
{
    queued = queued || s->queue || s->trainer != ONE_DEVICE;
    began_anew = began_anew || epochs_saved(s->dir) == 0;
    fflush(NULL);
}

/* A run without faults, in a process of its own: its exit status, or -1 and how it died. */
static int run(const setting *s)
{
    int status = -1;
    note(s);
    const pid_t pid = fork();
    if (pid == 0) _exit(train_body((void *)(uintptr_t)s));
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return -1;
    return WEXITSTATUS(status);
}

/* Is the machine one where calls can be made to fail? */
static bool can_inject(const char **why)
{
    static inject_result r;
    static int can = -1;
    inject_plan p;
    setting s = setting_of("try", 0, 0, 1, false);
    if (can < 0) {
        memset(&p, 0, sizeof p);
        empty(s.dir);
        can = inject_run(train_body, &s, &p, &r) == 0;
    }
    *why = r.why;
    return can == 1;
}

/* -- what is compared */

/* What differs, all of it in one text. */
static char differences[3000];
static void differs(const char *fmt, ...)
{
    const size_t at = strlen(differences);
    va_list ap;
    va_start(ap, fmt);
    if (at + 8 < sizeof differences) {
        const int n = snprintf(differences + at, sizeof differences - at, "\n        ");
        if (vsnprintf(differences + at + n, sizeof differences - at - (size_t)n, fmt, ap) < 0) differences[at] = 0;
    }
    va_end(ap);
}

/* A queue reports its filling, which is a matter of time, and is a callback of its own: the one thing that is not compared. */
/* What savers and writers know of the disk also tells which write failed: after a fault that was made up for they differ. */
enum {
    VARIABLES,
    VALUES,
    FILES
}; /* how much is compared: the variables of the last checkpoint; all values; names, too */
static bool is_compared(const char *name, int how)
{
    static const char *const of_the_disk[] = {"ModelSaver", "MinSaver", "MaxSaver", "JSONWriter"};
    if (queued && (strstr(name, "queue_size") || strncmp(name, "tp:callback/Monitors/", 21) == 0 ||
                   strcmp(name, "tp:callbacks") == 0))
        return false;
    for (int i = 0; how != FILES && i < TP_COUNT(of_the_disk); i++)
        if (strncmp(name, "tp:callback/", 12) == 0 && strncmp(name + 12, of_the_disk[i], strlen(of_the_disk[i])) == 0)
            return false;
    return how != VARIABLES || strncmp(name, "tp:", 3) != 0;
}

static bool same_tensor(const tp_tensor *a, const tp_tensor *b)
{
    return a->dtype == b->dtype && tp_tensor_bytes(a) == tp_tensor_bytes(b) &&
           (tp_tensor_bytes(a) == 0 || memcmp(a->data, b->data, tp_tensor_bytes(a)) == 0);
}

static void compare_arrays(const char *a, const char *b, const char *what, int how)
{
    tp_dict x, y;
    int more = 0;
    memset(&x, 0, sizeof x);
    memset(&y, 0, sizeof y);
    if (tp_load_checkpoint_vars(a, &x) != TP_OK || tp_load_checkpoint_vars(b, &y) != TP_OK) {
        differs("%s: %s", what, tp_last_error());
        tp_dict_free(&x);
        return;
    }
    for (int i = 0; i < x.n; i++) {
        const tp_tensor *t = &x.item[i].value, *u = tp_dict_find(&y, x.item[i].name);
        if (!is_compared(x.item[i].name, how) || (u && same_tensor(t, u)) || more++ > 2) continue;
        if (u && t->dtype == u->dtype && tp_tensor_size(t) > 0 && tp_tensor_size(u) > 0)
            differs("%s: %s differs (%g, should be %g)", what, x.item[i].name, tp_tensor_get(u, 0),
                    tp_tensor_get(t, 0));
        else differs("%s: %s %s", what, x.item[i].name, u ? "differs" : "is missing");
    }
    for (int i = 0; i < y.n; i++)
        if (is_compared(y.item[i].name, how) && !tp_dict_find(&x, y.item[i].name) && more++ < 3)
            differs("%s: %s should not be there", what, y.item[i].name);
    if (more > 3) differs("%s: %d more arrays", what, more - 3);
    tp_dict_free(&x);
    tp_dict_free(&y);
}

/* Without "QueueInput/queue_size": 1.5, */
static void strip_timing(char *text)
{
    for (char *p; (p = strstr(text, "\"QueueInput/")) != NULL;) {
        const char *end = strchr(p, ',');
        memmove(p, end ? end + 2 : p + 1, strlen(end ? end + 2 : p + 1) + 1);
    }
}

static void compare_text(const char *a, const char *b, const char *what)
{
    char *x = NULL, *y = NULL;
    size_t n = 0, i = 0;
    if (tp_file_read(a, false, 0, &x, &n) != TP_OK || tp_file_read(b, false, 0, &y, &n) != TP_OK) {
        differs("%s: %s", what, tp_last_error());
    } else {
        strip_timing(x);
        strip_timing(y);
        while (x[i] && x[i] == y[i]) i++;
        const size_t from = i > 30 ? i - 30 : 0;
        if (x[i] || y[i]) differs("%s: ..%.90s.. should be ..%.90s..", what, y + from, x + from);
    }
    tp_free(x);
    tp_free(y);
}

static bool ends(const char *name, const char *with)
{
    const size_t n = strlen(name), m = strlen(with);
    return n >= m && strcmp(name + n - m, with) == 0;
}

/* The names in a folder that are to be compared, without the suffixes of formats, sorted, as one text; temporary files too,
 * which there should be none of. */
static int by_name(const void *a, const void *b) { return strcmp((const char *)a, (const char *)b); }
static void listing(const char *dir, char *text, size_t size)
{
    char names[128][80];
    int n = 0;
    size_t at = 0;
    text[0] = 0;
    DIR *d = opendir(dir);
    if (!d) return;
    for (struct dirent *e = readdir(d); e && n < 128; e = readdir(d)) {
        static const char *const suffix[] = {".npz", ".safetensors", ".index"};
        if (e->d_name[0] == '.' && (!e->d_name[1] || strcmp(e->d_name, "..") == 0)) continue;
        if (began_anew && strncmp(e->d_name, "stats.json.", 11) == 0 && !strstr(e->d_name, "tmp")) continue;
        if (strncmp(e->d_name, "log.log", 7) == 0 || strncmp(e->d_name, "events.out", 10) == 0) continue;
        if (strstr(e->d_name, ".data-") && !strstr(e->d_name, "tmp")) continue; /* belongs to an index */
        snprintf(names[n], sizeof names[n], "%.79s", e->d_name);
        for (int k = 0; k < 3; k++)
            if (ends(names[n], suffix[k])) names[n][strlen(names[n]) - strlen(suffix[k])] = 0;
        n++;
    }
    closedir(d);
    qsort(names, (size_t)n, sizeof *names, by_name);
    for (int i = 0; i < n && at < size; i++) at += (size_t)snprintf(text + at, size - at, "%s ", names[i]);
}

/* The words of x that y has not. */
static void missing_words(const char *x, const char *y, char *out, size_t size)
{
    size_t at = 0;
    out[0] = 0;
    for (const char *p = x, *end; (end = strchr(p, ' ')) != NULL; p = end + 1) {
        char word[100];
        snprintf(word, sizeof word, " %.*s", (int)(end - p + 1), p);
        char padded[5000];
        snprintf(padded, sizeof padded, " %s", y);
        if (!strstr(padded, word) && at < size) at += (size_t)snprintf(out + at, size - at, "%s", word);
    }
}

/* How many data files of TensorFlow there are beyond one for each index. */
static int orphans(const char *dir)
{
    int index = 0, n_data = 0;
    DIR *d = opendir(dir);
    if (!d) return 0;
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        index += ends(e->d_name, ".index");
        n_data += strstr(e->d_name, ".data-") != NULL;
    }
    closedir(d);
    return n_data - index;
}

static const char *in(const char *dir, const char *name) { return tp_test_path(dir, name); }

static void compare_names(const char *a, const char *b, const char *what)
{
    char x[4000], y[4000], less[500], more[500];
    listing(a, x, sizeof x);
    listing(b, y, sizeof y);
    missing_words(x, y, less, sizeof less);
    missing_words(y, x, more, sizeof more);
    if (*less || *more) differs("%s: files missing:%s; too many:%s", what, less, more);
    const int n = orphans(b);
    if (n) differs("%s: %d data files more than indices", what, n);
}

/* Records of an event file are whole, but for the last one of a process that was killed. cut: that is allowed. How many
 * there are. */
static int check_events(const char *dir, bool cut)
{
    int records = 0;
    DIR *d = opendir(dir);
    if (!d) return 0;
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        char *text = NULL;
        size_t size = 0, at = 0;
        if (strncmp(e->d_name, "events.out", 10) != 0) continue;
        if (tp_file_read(in(dir, e->d_name), false, 0, &text, &size) != TP_OK)
            differs("%s: %s", e->d_name, tp_last_error());
        while (text && at + 16 <= size) {
            uint64_t n = 0;
            uint32_t crc = 0;
            for (int k = 7; k >= 0; k--) n = n << 8 | (uint8_t)text[at + (size_t)k];
            for (int k = 11; k >= 8; k--) crc = crc << 8 | (uint8_t)text[at + (size_t)k];
            const uint32_t c = tp_crc32c(0, text + at, 8), masked = (c >> 15 | c << 17) + 0xa282ead8u;
            if (crc != masked) {
                differs("%s is damaged at byte %zu", e->d_name, at);
                at = size;
            }
            if (n > size - at - 16) break;
            at += (size_t)n + 16;
            records++;
        }
        if (!cut && text && at != size) differs("%s ends within a record", e->d_name);
        tp_free(text);
    }
    closedir(d);
    return records;
}

/* NULL: what lies in b is what lies in a, the reference. Else all that differs. */
static const char *difference(const char *a, const char *b, int how)
{
    static const char *const best[] = {"min-validation_cost", "worst", "min-total_cost", "second/best"};
    static const char *const dump[] = {"DumpTensor-1.npz", "DumpTensor-9.npz", "DumpTensor-17.npz"};
    char from[1100], to[1100];
    differences[0] = 0;
    for (int i = 0; i < 2; i++) {
        const char *sub = i ? "second" : ".", *what = i ? "second saver" : "checkpoint";
        char x[700], y[700];
        snprintf(x, sizeof x, "%s/%s", a, sub);
        snprintf(y, sizeof y, "%s/%s", b, sub);
        if (how == FILES) compare_names(x, y, i ? "second/" : "folder");
        if (tp_checkpoint_state_latest(x, from, sizeof from) != TP_OK ||
            tp_checkpoint_state_latest(y, to, sizeof to) != TP_OK)
            differs("%s: %s", what, tp_last_error());
        else compare_arrays(from, to, what, how);
        if (how == VARIABLES) return differences[0] ? differences : NULL;
        if (how == FILES) compare_text(in(x, "checkpoint"), in(y, "checkpoint"), "the list of checkpoints");
    }
    for (int i = 0; i < TP_COUNT(best); i++) compare_arrays(in(a, best[i]), in(b, best[i]), best[i], how);
    for (int i = 0; i < TP_COUNT(dump); i++) compare_arrays(in(a, dump[i]), in(b, dump[i]), dump[i], how);
    compare_text(in(a, "stats.json"), in(b, "stats.json"), "stats.json");
    check_events(b, true);
    return differences[0] ? differences : NULL;
}

/* Run again, without faults: NULL if it ends as the reference did, and did only what was left to do. */
static const char *goes_on(const setting *s, const char *ref, int how)
{
    const int saved = epochs_saved(s->dir), rc = run(s);
    /* a best model that is lost is told again, as long as there is no better one */
    const bool lost = rc == 1 && how == VARIABLES && strstr(shared->said, "the best model");
    if (rc == 0 || lost) {
        const char *d = difference(ref, s->dir, how);
        /* the end of an epoch may be a step's checkpoint, from which the epoch's callbacks are still to be triggered */
        const int again = within_epochs(s->order) && saved == EPOCHS;
        if (shared->epochs == EPOCHS - saved || (again && shared->epochs == 1)) return d;
        differs("%d epochs were trained, although %d of %d had been saved", shared->epochs, saved, EPOCHS);
        return differences;
    }
    differences[0] = 0;
    differs("it does not go on (%d): %s", rc, shared->said);
    return differences;
}

/* The folder of an uninterrupted run in this order, in npz; made at the first call. */
static const char *reference(int order)
{
    static char dir[64][700];
    static bool made[64];
    char name[32];
    const int k = order % 64;
    if (!made[k]) {
        snprintf(name, sizeof name, "reference%d", order);
        const setting s = setting_of(name, 0, order, 1, false);
        empty(s.dir);
        const int rc = run(&s);
        CHECK_MSG(rc == 0, "%s: an undisturbed run ends with %d: %s", text_of(&s), rc, shared->said);
        snprintf(dir[k], sizeof dir[k], "%s", s.dir);
        made[k] = true;
    }
    return dir[k];
}

/* TP_TEST_PART=2/3: of the loops over all calls, this part; so that several processes share the work. */
static bool in_part(long n)
{
    int part = 1, parts = 1;
    const char *e = getenv("TP_TEST_PART");
    return !e || sscanf(e, "%d/%d", &part, &parts) != 2 || part < 1 || part > parts || n % parts == part - 1;
}

/* At most a few sentences of each test: the rest is counted. */
static int told, all_told;
static bool found(bool ok, const char *fmt, ...)
{
    if (ok) return true;
    char text[2400];
    va_list ap;
    va_start(ap, fmt);
    if (vsnprintf(text, sizeof text, fmt, ap) < 0) text[0] = 0;
    va_end(ap);
    all_told++;
    return told++ < 12 ? CHECK_MSG(false, "%s", text) : false;
}
static void tell_rest(const char *what, int of)
{
    if (all_told > told) CHECK_MSG(false, "%d of %d %s fail", all_told, of, what);
    told = all_told = 0;
    if (of) printf("     %d %s\n", of, what);
}

/* ==== >>tests ========================================================================================= */

TEST(formats_threads_and_orders_train_alike)
{
    const int orders = whole() ? 8 : 4;
    int n = 0;
    for (int order = 0; order < orders; order++)
        for (int format = 0; format < 3; format++) {
            if (!whole() && order && format != order % 3) continue;
            const setting s = setting_of("alike", format, order, 1 + (order + format) % 3, format == 1);
            const char *ref = reference(order);
            empty(s.dir);
            const char *d = goes_on(&s, ref, FILES);
            found(d == NULL, "%s: %s", text_of(&s), d);
            n++;
        }
    tell_rest("undisturbed trainings", n);
}

/* Killed where its n-th call would begin, or sent a signal there, then started again without faults. */
static bool kill_at(const setting *s, const char *ref, long n, unsigned kinds, int number)
{
    if (!in_part(n)) return true;
    inject_plan p;
    inject_result r;
    memset(&p, 0, sizeof p);
    memset(&r, 0, sizeof r);
    p.what = number ? INJECT_SIGNAL : INJECT_KILL;
    p.error = number;
    p.n = n;
    p.kinds = kinds;
    empty(s->dir);
    if (inject_run(train_body, (void *)(uintptr_t)s, &p, &r) != 0) return found(false, "%s", r.why), false;
    if (!r.fired) return false;
    setting again = *s;
    again.threads = 1 + (int)(n % 3);
    again.queue = n % 4 == 0;
    const char *d = goes_on(&again, ref, FILES);
    found(d == NULL, "%s, %s at call %ld (%s): %s", text_of(s), number ? "interrupted" : "killed", n, r.call, d);
    return true;
}

TEST(killed_at_each_call)
{
    const char *why;
    if (!can_inject(&why)) TEST_SKIP(why);
    int done = 0;
    const int orders = whole() ? 4 : 1, step = whole() ? 1 : brief() ? 97 : 23;
    /* with one thread, a kill before a call that changes nothing leaves what one before the next that does leaves */
    for (int o = 0; o < orders; o++)
        for (int format = 0; format < 3; format++) {
            const int order = whole() ? o : format;
            const setting s = setting_of("killed", format, order, 1 + (o + format) % 3, false);
            const char *ref = reference(order);
            for (long n = 1 + (whole() ? 0 : (long)draw((uint32_t)step));
                 kill_at(&s, ref, n, whole() && o == 0 ? INJECT_ALL : INJECT_CHANGES, 0); n += step)
                done += in_part(n);
        }
    tell_rest("kills at a chosen call", done);
}

/* The process is killed after so many microseconds. false: it had ended by itself. */
static bool kill_after(const setting *s, long microseconds)
{
    int status = 0;
    note(s);
    const pid_t pid = fork();
    if (pid == 0) _exit(train_body((void *)(uintptr_t)s));
    usleep((useconds_t)microseconds);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status);
}

static long microseconds_of(const setting *s)
{
    const double t = tp_test__ms();
    empty(s->dir);
    run(s);
    return (long)((tp_test__ms() - t) * 1000);
}

TEST(killed_at_random_moments)
{
    const int rounds = whole() ? 300 : brief() ? 6 : 40;
    setting s = setting_of("random", 0, 0, 1, false);
    const long takes = microseconds_of(&s);
    int kills = 0;
    for (int i = 0; i < rounds; i++) {
        const int order = (int)draw(whole() ? 12 : 4), times = 1 + (int)draw(3);
        long at[3] = {0, 0, 0};
        const char *ref = reference(order);
        empty(s.dir);
        for (int k = 0; k < times; k++) {
            s = setting_of("random", whole() || k == 0 ? (int)draw(3) : (int)s.format, order, 1 + (int)draw(3),
                           draw(2) == 1);
            at[k] = (long)draw((uint32_t)(takes / (k ? 2 : 1)));
            kills += kill_after(&s, at[k]);
        }
        s.threads = 1 + (int)draw(3);
        s.queue = draw(2) == 1;
        const char *d = goes_on(&s, ref, FILES);
        found(d == NULL, "%s, killed %d times (after %ld, %ld, %ld us): %s", text_of(&s), times, at[0], at[1], at[2],
              d);
    }
    tell_rest("rounds of random kills", rounds);
    CHECK_MSG(kills > rounds / 4, "only %d processes were killed", kills);
}

/* Twice: the second kill is of the run that resumes, mostly while it reads and tidies up. */
TEST(killed_while_resuming)
{
    const char *why;
    if (!can_inject(&why)) TEST_SKIP(why);
    const int rounds = whole() ? 400 : brief() ? 6 : 30;
    for (int i = 0; i < rounds; i++) {
        inject_plan p;
        inject_result r;
        const int order = (int)draw(4), format = (int)draw(3);
        setting s = setting_of("twice", format, order, 1, false);
        const char *ref = reference(order);
        memset(&p, 0, sizeof p);
        memset(&r, 0, sizeof r);
        p.what = INJECT_KILL;
        const long first = p.n = 30 + draw(600);
        empty(s.dir);
        inject_run(train_body, &s, &p, &r);
        note(&s);
        const long second = p.n = 1 + draw(200);
        inject_run(train_body, &s, &p, &r);
        const char *d = goes_on(&s, ref, FILES);
        found(d == NULL, "%s, killed at call %ld, then at call %ld (%s): %s", text_of(&s), first, second, r.call, d);
    }
    tell_rest("kills while resuming", rounds);
}

/* -- calls that fail */

typedef struct fault {
    const char *name;
    inject_what what;
    int error;
    unsigned kinds; /* of the calls it may happen to */
} fault;

static const fault faults[] = {
    {"EIO", INJECT_FAIL, EIO, INJECT_ALL & ~(unsigned)INJECT_LOOK},
    {"ENOSPC", INJECT_FAIL, ENOSPC, INJECT_CREATE | INJECT_WRITE | INJECT_SYNC | INJECT_RENAME},
    {"EINTR", INJECT_FAIL, EINTR,
     INJECT_OPEN | INJECT_CREATE | INJECT_READ | INJECT_WRITE | INJECT_SYNC | INJECT_CLOSE | INJECT_RENAME},
    {"a short count", INJECT_SHORT, 0, INJECT_READ | INJECT_WRITE},
    {"ENOSPC from there on", INJECT_FAIL_FROM, ENOSPC, INJECT_CREATE | INJECT_WRITE | INJECT_SYNC | INJECT_RENAME},
    {"EROFS from there on", INJECT_FAIL_FROM, EROFS, INJECT_CHANGES},
    {"EIO from there on", INJECT_FAIL_FROM, EIO, INJECT_CHANGES | INJECT_READ},
};

/* Every checkpoint that the list names, and every file that looks like one, loads. */
static const char *all_load(const char *dir)
{
    static char text[2400];
    DIR *d = opendir(dir);
    const char *wrong = NULL;
    if (!d) return NULL;
    for (struct dirent *e = readdir(d); e && !wrong; e = readdir(d)) {
        tp_dict x;
        memset(&x, 0, sizeof x);
        if (strstr(e->d_name, "tmp") ||
            !(ends(e->d_name, ".npz") || ends(e->d_name, ".safetensors") || ends(e->d_name, ".index")))
            continue;
        if (tp_load_checkpoint_vars(in(dir, e->d_name), &x) != TP_OK) {
            snprintf(text, sizeof text, "%s does not load: %.700s", e->d_name, tp_last_error());
            wrong = text;
        }
        tp_dict_free(&x);
    }
    closedir(d);
    char latest[1100];
    if (!wrong && tp_checkpoint_state_latest(dir, latest, sizeof latest) == TP_OK) {
        tp_dict x;
        memset(&x, 0, sizeof x);
        if (tp_load_checkpoint_vars(latest, &x) != TP_OK) {
            snprintf(text, sizeof text, "the list names %s: %.700s", latest, tp_last_error());
            wrong = text;
        }
        tp_dict_free(&x);
    }
    return wrong;
}

/* What a run without faults shall bring about after one with them: everything, unless that one went on to the end and told
 * that something was not saved. Then what was lost in between cannot come back. */
static int afterwards(bool harmless, bool good)
{
    return harmless ? FILES : !good && shared->epochs_at_end == EPOCHS ? VARIABLES : VALUES;
}

/* hyper.txt is a human's: where it cannot be read a warning is all there is. */
static bool missed_hyper(const char *dir)
{
    char *text = NULL;
    size_t size = 0;
    const bool missed = tp_file_read(in(dir, "log.log"), false, 0, &text, &size) == TP_OK &&
                        (strstr(text, "Cannot read ") || strstr(text, "hyper.txt cannot be"));
    tp_free(text);
    return missed;
}

/* One fault at one call. What was there loads; if something was lost the status says so; a run without faults then ends as if
 * there had been none. false: there is no n-th call. */
static bool fail_at(const setting *s, const char *ref, const fault *f, long n)
{
    if (!in_part(n)) return true;
    inject_plan p;
    inject_result r;
    memset(&p, 0, sizeof p);
    memset(&r, 0, sizeof r);
    p.what = f->what;
    p.n = n;
    p.error = f->error;
    p.kinds = f->kinds;
    empty(s->dir);
    if (inject_run(train_body, (void *)(uintptr_t)s, &p, &r) != 0) return found(false, "%s", r.why), false;
    if (!r.fired) return false;
    const bool died = !WIFEXITED(r.status);
    const int rc = died ? -1 : WEXITSTATUS(r.status);
    const bool harmless = f->error == EINTR || f->what == INJECT_SHORT; /* no faults at all */
    const char *d = died ? "it died" : all_load(s->dir);
    found(d == NULL, "%s, %s at call %ld (%s): %s", text_of(s), f->name, n, r.call, d);
    if (f->kinds & INJECT_READ && !harmless && missed_hyper(s->dir)) return true;
    if (rc == 0) {
        d = difference(ref, s->dir, harmless ? FILES : VALUES);
        const int records = check_events(s->dir, false), should = check_events(ref, false);
        if (records != should) differs("%d events were written, should be %d", records, should);
        if (differences[0]) d = differences;
        found(d == NULL, "%s, %s at call %ld (%s): the status is TP_OK, but: %s", text_of(s), f->name, n, r.call, d);
    }
    if (harmless)
        found(rc == 0, "%s, %s at call %ld (%s): the status is %d: %s", text_of(s), f->name, n, r.call, rc,
              shared->said);
    d = goes_on(s, ref, afterwards(harmless, rc == 0));
    found(d == NULL, "%s, %s at call %ld (%s; status %d), then started again: %s", text_of(s), f->name, n, r.call, rc,
          d);
    return true;
}

TEST(each_call_fails_once)
{
    TEST_MAY_ERROR("");
    const char *why;
    if (!can_inject(&why)) TEST_SKIP(why);
    int done = 0;
    const long step = whole() ? 1 : brief() ? 211 : 41;
    for (int i = 0; i < TP_COUNT(faults); i++)
        for (int format = 0; format < (whole() ? 3 : 1); format++) {
            const int k = whole() ? format : (i + (int)(seed() % 3)) % 3;
            const setting s = setting_of("fails", k, k, 1, false);
            const char *ref = reference(k);
            for (long n = 1 + (whole() ? 0 : (long)draw((uint32_t)step)); fail_at(&s, ref, &faults[i], n); n += step)
                done += in_part(n);
        }
    tell_rest("calls that fail", done);
}

/* A call fails while a run that was killed is resumed. Nothing of what was saved is trained again. */
TEST(calls_fail_while_resuming)
{
    TEST_MAY_ERROR("");
    const char *why;
    if (!can_inject(&why)) TEST_SKIP(why);
    const int rounds = whole() ? 600 : brief() ? 8 : 40;
    for (int i = 0; i < rounds; i++) {
        inject_plan p;
        inject_result r;
        const fault *f = &faults[draw((uint32_t)TP_COUNT(faults))];
        const int order = (int)draw(4);
        setting s = setting_of("resumed", (int)draw(3), order, 1, false);
        const char *ref = reference(order), *d;
        memset(&p, 0, sizeof p);
        memset(&r, 0, sizeof r);
        p.what = INJECT_KILL;
        const long first = p.n = 30 + draw(800);
        empty(s.dir);
        inject_run(train_body, &s, &p, &r);
        const int saved = epochs_saved(s.dir);
        const bool older = several_saved(s.dir);
        note(&s);
        p.what = f->what;
        p.error = f->error;
        p.kinds = f->kinds;
        const long second = p.n = 1 + draw(draw(2) ? 60 : 300);
        inject_run(train_body, &s, &p, &r);
        const bool died = !WIFEXITED(r.status), good = !died && WEXITSTATUS(r.status) == 0;
        const bool harmless = f->error == EINTR || f->what == INJECT_SHORT;
        if (f->kinds & INJECT_READ && !harmless && missed_hyper(s.dir)) continue;
        d = died ? "it died" : good ? difference(ref, s.dir, harmless ? FILES : VALUES) : all_load(s.dir);
        /* where the latest checkpoint cannot be read, training goes on from the one before, be it one within that epoch */
        const int back = f->kinds & INJECT_READ && !harmless && older;
        if (!d && shared->epochs > EPOCHS - saved + back) d = "it began anew";
        if (!d && !good && (harmless || !shared->said[0])) d = "this is no error, or one without a sentence";
        found(d == NULL, "%s, killed at call %ld, then %s at call %ld (%s; status %d: %s): %s", text_of(&s), first,
              f->name, second, r.call, r.status, shared->said, d);
        d = goes_on(&s, ref, afterwards(harmless, good));
        found(d == NULL, "%s, killed at call %ld, then %s at call %ld (%s; status %d), then started again: %s",
              text_of(&s), first, f->name, second, r.call, r.status, d);
    }
    tell_rest("calls that fail while resuming", 2 * rounds);
}

/* Every call is interrupted once, in the calls that a signal can interrupt. */
TEST(every_call_is_interrupted)
{
    const char *why;
    if (!can_inject(&why)) TEST_SKIP(why);
    for (int format = 0; format < 3; format++) {
        inject_plan p;
        inject_result r;
        setting s = setting_of("stutter", format, format, 1 + format, false);
        const char *ref = reference(s.order);
        memset(&p, 0, sizeof p);
        memset(&r, 0, sizeof r);
        p.what = INJECT_STUTTER;
        p.n = 1;
        p.error = EINTR;
        p.kinds = INJECT_OPEN | INJECT_CREATE | INJECT_READ | INJECT_WRITE | INJECT_SYNC | INJECT_RENAME;
        empty(s.dir);
        inject_run(train_body, &s, &p, &r);
        const bool good = WIFEXITED(r.status) && WEXITSTATUS(r.status) == 0;
        CHECK_MSG(good && r.fired && r.calls > 300, "%s: status %d after %ld calls: %s", text_of(&s), r.status, r.calls,
                  shared->said);
        const char *d = good ? difference(ref, s.dir, FILES) : NULL;
        CHECK_MSG(d == NULL, "%s, every call interrupted: %s", text_of(&s), d);
    }
}

/* -- what a power failure would leave: a file is synced before it gets its name, and its folder before an old file goes */

typedef struct synced {
    struct {
        dev_t dev;
        ino_t ino;
        bool dirty;
    } file[512];
    int n, renames, removals;
    char wrong[1200]; /* the first mistake */
} synced;

static bool *dirty_of(synced *s, const struct stat *st)
{
    static bool none;
    for (int i = 0; i < s->n; i++)
        if (s->file[i].ino == st->st_ino && s->file[i].dev == st->st_dev) return &s->file[i].dirty;
    if (s->n == TP_COUNT(s->file)) return &none;
    s->file[s->n].dev = st->st_dev;
    s->file[s->n].ino = st->st_ino;
    s->file[s->n].dirty = false;
    return &s->file[s->n++].dirty;
}

static bool *dirty_folder(synced *s, const char *path)
{
    char dir[1200];
    struct stat st;
    snprintf(dir, sizeof dir, "%.1190s", path);
    char *slash = strrchr(dir, '/');
    if (slash) *slash = 0;
    return stat(slash ? dir : ".", &st) == 0 ? dirty_of(s, &st) : NULL;
}

/* Where the path of a call stands: open, rename and unlink, or openat, renameat and unlinkat. */
static void watch_names(synced *s, pid_t t, const char *call, unsigned kind, const uint64_t *args)
{
    const bool at = strstr(call, "at") != NULL;
    char path[1200], to[1200] = "";
    struct stat st;
    inject_text(t, args[at], path, sizeof path);
    if (kind == INJECT_UNLINK) {
        const bool *dirty = dirty_folder(s, path);
        s->removals++;
        if (dirty && *dirty && !strstr(path, ".tmp.") && !s->wrong[0])
            snprintf(s->wrong, sizeof s->wrong, "%.1000s is removed before a rename beside it is synced", path);
        return;
    }
    inject_text(t, args[at ? 3 : 1], to, sizeof to);
    s->renames++;
    if (stat(path, &st) == 0 && *dirty_of(s, &st) && !s->wrong[0])
        snprintf(s->wrong, sizeof s->wrong, "%.1000s gets its name before it is synced", to);
    bool *dirty = dirty_folder(s, to);
    if (dirty) *dirty = true;
}

static void watch(void *user, pid_t t, const char *call, unsigned kind, const uint64_t *args)
{
    char path[64];
    struct stat st;
    if (kind & (INJECT_RENAME | INJECT_UNLINK)) {
        watch_names((synced *)user, t, call, kind, args);
        return;
    }
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)t, (int)args[0]);
    if (stat(path, &st) == 0) *dirty_of((synced *)user, &st) = kind == INJECT_WRITE;
}

TEST(what_is_named_is_synced)
{
    const char *why;
    if (!can_inject(&why)) TEST_SKIP(why);
    for (int format = 0; format < 3; format++) {
        static synced watched;
        inject_plan p;
        inject_result r;
        setting s = setting_of("synced", format, format, 1, false);
        memset(&watched, 0, sizeof watched);
        memset(&p, 0, sizeof p);
        memset(&r, 0, sizeof r);
        p.what = INJECT_COUNT;
        p.kinds = INJECT_WRITE | INJECT_SYNC | INJECT_RENAME | INJECT_UNLINK;
        p.watch = watch;
        p.user = &watched;
        empty(s.dir);
        inject_run(train_body, &s, &p, &r);
        CHECK_MSG(r.status == 0 && watched.renames > 15 && watched.removals > 0,
                  "%s: status %d, %d renames, %d removals", text_of(&s), r.status, watched.renames, watched.removals);
        CHECK_MSG(!watched.wrong[0], "%s: %s", text_of(&s), watched.wrong);
    }
}

/* -- kills of all trainers */

/* The step of the latest checkpoint; 0: there is none; -1: it does not load. */
static int64_t step_saved(const char *dir)
{
    char latest[1100];
    tp_dict d;
    int64_t step = -1;
    if (tp_checkpoint_state_latest(dir, latest, sizeof latest) != TP_OK) return 0;
    memset(&d, 0, sizeof d);
    if (tp_load_checkpoint_vars(latest, &d) == TP_OK && tp_dict_find(&d, "global_step"))
        step = (int64_t)tp_tensor_get(tp_dict_find(&d, "global_step"), 0);
    tp_dict_free(&d);
    return step;
}

/* The folder of an uninterrupted run of this trainer with this optimizer, made when it is not there, as long as others are. */
static const char *reference_of(const setting *like)
{
    static char dir[700];
    char name[48];
    snprintf(name, sizeof name, "reference%d-%d-%d", like->order, (int)like->trainer, (int)like->rule);
    setting s = setting_of(name, 0, like->order, 1, false);
    s.trainer = like->trainer;
    s.rule = like->rule;
    snprintf(dir, sizeof dir, "%s", s.dir);
    if (tp_file_exists(dir)) return dir;
    empty(s.dir);
    const int rc = run(&s);
    CHECK_MSG(rc == 0, "%s: an undisturbed run ends with %d: %s", text_of(&s), rc, shared->said);
    return dir;
}

typedef struct kill_count {
    int rounds, kills, saved; /* saved: kills of trainings of which there was a checkpoint */
} kill_count;

/* A training of any trainer, optimizer and flow, killed up to four times. After each kill all checkpoints load, and the latest is
 * not older than it was; in the end there is what there is without kills. */
static void kill_several_times(kill_count *n, long takes)
{
    char killed[200] = "";
    const char *d = NULL;
    setting s = setting_of("several", 0, (int)draw(4), 1, false);
    s.trainer = (trainer_kind)draw(TRAINERS);
    s.rule = (rule_kind)draw(RULES);
    const char *ref = reference_of(&s);
    empty(s.dir);
    for (int k = 1 + (int)draw(4); k > 0 && !d; k--) {
        s.format = (tp_checkpoint_format)draw(3);
        s.threads = 1 + (int)draw(3);
        s.queue = draw(2) == 1;
        s.flow = (flow_kind)draw(FLOWS);
        const int64_t before = step_saved(s.dir);
        const long at = (long)draw((uint32_t)takes);
        snprintf(killed + strlen(killed), sizeof killed - strlen(killed), " %ld", at);
        const bool dead = kill_after(&s, at);
        const int64_t after = step_saved(s.dir);
        n->kills += dead;
        n->saved += dead && after > 0;
        d = after < before ? "a checkpoint is lost" : all_load(s.dir);
    }
    found(d == NULL, "%s, killed after%s us: %s", text_of(&s), killed, d);
    d = goes_on(&s, ref, FILES);
    found(d == NULL, "%s, killed after%s us, then started again: %s", text_of(&s), killed, d);
    n->rounds++;
}

TEST(several_trainers_are_killed)
{
    const char *env = getenv("TP_TEST_KILLS");
    const int wanted = env ? atoi(env) : whole() ? 500 : brief() ? 4 : 12;
    setting s = setting_of("several", 0, 0, 1, false);
    s.trainer = REPLICATED;
    const long takes = microseconds_of(&s);
    kill_count n = {0, 0, 0};
    while (n.kills < wanted && n.rounds < 10 * wanted + 10) kill_several_times(&n, takes);
    tell_rest("trainings", n.rounds);
    printf("     %d kills, %d of them of trainings that had a checkpoint\n", n.kills, n.saved);
    CHECK_MSG(n.kills >= wanted, "only %d processes were killed", n.kills);
}

/* -- what happens to a run that is no fault of one call */

static void expect_same(setting *s, const char *what)
{
    const char *ref = reference(s->order), *d;
    empty(s->dir);
    d = goes_on(s, ref, FILES);
    if (!d) check_events(s->dir, false);
    found(!differences[0], "%s, %s: %s", text_of(s), what, differences);
}

static void close_outputs(const setting *s) /* what is opened next gets their numbers */
{
    (void)s;
    close(1);
    close(2);
}
static void close_all(const setting *s)
{
    close(0);
    close_outputs(s);
}

static void broken_pipe(const setting *s)
{
    int fd[2];
    (void)s;
    signal(SIGPIPE, SIG_IGN);
    if (pipe(fd) != 0) return;
    dup2(fd[1], 1);
    dup2(fd[1], 2);
    close(fd[0]);
    close(fd[1]);
}

static void on_alarm(int number) { (void)number; }
static void alarms(const setting *s) /* real signals, without SA_RESTART, all the time */
{
    struct itimerval every;
    struct sigaction a;
    (void)s;
    memset(&a, 0, sizeof a);
    a.sa_handler = on_alarm;
    sigaction(SIGALRM, &a, NULL);
    memset(&every, 0, sizeof every);
    every.it_interval.tv_usec = every.it_value.tv_usec = 150;
    setitimer(ITIMER_REAL, &every, NULL);
}

TEST(standard_files_closed_and_pipes_broken)
{
    for (int format = 0; format < 3; format++) {
        setting s = setting_of("standard", format, format, 2, format == 1);
        s.before = close_outputs;
        expect_same(&s, "stdout and stderr closed");
        s.before = close_all;
        expect_same(&s, "stdin, stdout and stderr closed");
        s.before = broken_pipe;
        expect_same(&s, "stdout and stderr a broken pipe");
        s.before = alarms;
        expect_same(&s, "a signal every 150 us");
    }
    tell_rest("trainings", 0);
}

TEST(stopped_and_continued)
{
    for (int format = 0; format < 3; format++)
        for (int epochs = 1; epochs < EPOCHS; epochs++) {
            const int order = format;
            const char *ref = reference(order), *d;
            setting s = setting_of("stopped", format, order, 1, false);
            empty(s.dir);
            s.stop_after = epochs;
            const int rc = run(&s);
            CHECK_MSG(rc == 0, "%s: %d epochs end with %d: %s", text_of(&s), epochs, rc, shared->said);
            s.stop_after = 0;
            s.format = (tp_checkpoint_format)((format + epochs) % 3); /* another format goes on */
            s.threads = 3;
            d = goes_on(&s, ref, FILES);
            found(d == NULL, "%s, after %d epochs in format %d: %s", text_of(&s), epochs, format, d);
            d = goes_on(&s, ref, FILES); /* nothing is left to do, and nothing changes */
            found(d == NULL, "%s, complete and started once more: %s", text_of(&s), d);
        }
    tell_rest("trainings", 0);
}

TEST(a_callback_fails) /* while the others have their turn, before it or after it */
{
    TEST_EXPECT_ERROR("this callback fails");
    for (int order = 0; order < 6; order++)
        for (int epoch = 1; epoch <= EPOCHS; epoch++) {
            const char *ref = reference(order), *d;
            setting s = setting_of("fails", (order + epoch) % 3, order, 1, false);
            empty(s.dir);
            s.fail_after = epoch;
            const int rc = run(&s);
            CHECK_MSG(rc == 1 && strstr(shared->said, "this callback fails"), "%s: %d, %s", text_of(&s), rc,
                      shared->said);
            s.fail_after = 0;
            d = goes_on(&s, ref, FILES);
            found(d == NULL, "%s, a callback failed after epoch %d: %s", text_of(&s), epoch, d);
        }
    tell_rest("trainings", 0);
}

TEST(interrupted_at_each_call) /* Ctrl-C: the step is finished and saved, and a resume goes on from there */
{
    const char *why;
    if (!can_inject(&why)) TEST_SKIP(why);
    int done = 0;
    const int step = whole() ? 3 : brief() ? 211 : 61;
    for (int order = 0; order < 4; order++) {
        const setting s = setting_of("ctrl-c", order % 3, order, 1 + order % 3, false);
        const char *ref = reference(order);
        for (long n = 1 + (long)draw((uint32_t)step); kill_at(&s, ref, n, INJECT_CHANGES, SIGINT); n += step)
            done += in_part(n);
    }
    tell_rest("interrupts at a chosen call", done);
}

TEST(interrupted_by_the_user)
{
    const int rounds = whole() ? 60 : brief() ? 4 : 12;
    setting s = setting_of("interrupted", 0, 0, 1, false);
    const long takes = microseconds_of(&s);
    for (int i = 0; i < rounds; i++) {
        int status = 0;
        const int order = (int)draw(4), number = draw(2) ? SIGINT : SIGTERM;
        const char *ref = reference(order), *d;
        s = setting_of("interrupted", (int)draw(3), order, 1 + (int)draw(3), draw(2) == 1);
        empty(s.dir);
        const long at = (long)draw((uint32_t)takes);
        note(&s);
        const pid_t pid = fork();
        if (pid == 0) _exit(train_body(&s));
        usleep((useconds_t)at);
        kill(pid, number);
        waitpid(pid, &status, 0);
        d = goes_on(&s, ref, FILES);
        found(d == NULL, "%s, signal %d after %ld us: %s", text_of(&s), number, at, d);
    }
    tell_rest("trainings interrupted by signals", rounds);
}

/* The run ends with an error that says which folder; what was there loads. */
static void expect_told(const setting *s, const char *what)
{
    const int rc = run(s);
    CHECK_MSG(rc == 1, "%s, %s: it ends with %d", text_of(s), what, rc);
    CHECK_MSG(strstr(shared->said, s->dir) != NULL, "%s, %s: the error is \"%s\"", text_of(s), what, shared->said);
    const char *d = all_load(s->dir);
    CHECK_MSG(d == NULL, "%s, %s: %s", text_of(s), what, d);
}

static void remove_folder(const setting *s, int64_t epoch)
{
    if (epoch == 2) tp_test_remove(s->dir);
}

TEST(the_folder_is_removed)
{
    TEST_MAY_ERROR("");
    for (int format = 0; format < 3; format++) {
        setting s = setting_of("removed", format, 0, 1, false);
        empty(s.dir);
        s.after_epoch = remove_folder;
        expect_told(&s, "its folder removed after epoch 2");
    }
}

static void be_nobody(const setting *s)
{
    (void)s;
    if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(5);
}
static void lock_folder(const setting *s, int64_t epoch)
{
    if (epoch == 2) chmod(s->dir, 0555);
}

TEST(the_folder_is_read_only)
{
    TEST_MAY_ERROR("");
    for (int format = 0; format < 3; format++) {
        const char *ref = reference(0), *d;
        setting s = setting_of("locked", format, 0, 1, false);
        char parent[700], before[700] = "";
        snprintf(parent, sizeof parent, "%s", s.dir);
        *strrchr(parent, '/') = 0;
        (void)before;
        chmod(parent, 0777);
        empty(s.dir);
        chmod(s.dir, 0555);
        s.before = be_nobody;
        expect_told(&s, "a folder that cannot be written to");
        chmod(s.dir, 0777);
        s.after_epoch = lock_folder;
        if (getuid() == 0) chown(s.dir, 65534, 65534);
        expect_told(&s, "its folder read-only after epoch 2");
        chmod(s.dir, 0777);
        s.after_epoch = NULL;
        d = goes_on(&s, ref, FILES);
        CHECK_MSG(d == NULL, "%s, after its folder was read-only: %s", text_of(&s), d);
    }
}

static void small_files(const setting *s) /* a write beyond s->limit bytes fails with EFBIG */
{
    struct rlimit r;
    r.rlim_cur = r.rlim_max = (rlim_t)s->limit;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &r);
}

/* The run in a disk or with a limit that may be too small: old files load, the status is right. NULL: it did. */
static const char *survives(const setting *s, const char *ref)
{
    const int rc = run(s);
    if (rc != 0 && rc != 1) {
        differences[0] = 0;
        differs("it ends with %d", rc);
        return differences;
    }
    const char *d = all_load(s->dir);
    if (!d && rc == 0) d = difference(ref, s->dir, VALUES);
    if (!d && rc == 1 && !strstr(shared->said, s->dir)) {
        differences[0] = 0;
        differs("the error is \"%s\"", shared->said);
        d = differences;
    }
    return d;
}

TEST(files_may_not_grow)
{
    TEST_MAY_ERROR("");
    const int step = whole() ? 997 : 7001; /* the report is the largest file */
    int done = 0, failed = 0;
    for (int limit = 100 + (int)draw((uint32_t)step); limit < 100000; limit += step, done++) {
        setting s = setting_of("limited", limit % 3, limit % 3, 1, false);
        const char *ref = reference(s.order), *d;
        empty(s.dir);
        s.before = small_files;
        s.limit = limit;
        d = survives(&s, ref);
        const bool good = shared->said[0] == 0;
        failed += !good;
        found(d == NULL, "%s, no file larger than %d bytes: %s", text_of(&s), limit, d);
        s.before = NULL;
        d = goes_on(&s, ref, afterwards(false, good));
        found(d == NULL, "%s, after a run without files larger than %d bytes: %s", text_of(&s), limit, d);
    }
    CHECK_MSG(failed > 1 && failed < done, "%d of %d trainings failed", failed, done);
    tell_rest("limits of a file's size", done);
}

/* A disk of its own in a namespace of its own: 0, or 77 where that is not allowed. */
static bool write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    const bool ok = f && fputs(text, f) >= 0;
    return f && fclose(f) == 0 && ok;
}
static bool private_disks(void)
{
    char map[64];
    const unsigned uid = (unsigned)getuid(), gid = (unsigned)getgid();
    if (uid == 0) return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    write_text("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "0 %u 1", uid);
    if (!write_text("/proc/self/uid_map", map)) return false;
    snprintf(map, sizeof map, "0 %u 1", gid);
    return write_text("/proc/self/gid_map", map) && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static void full_disk_round(int i, const char *ref)
{
    char option[100];
    setting s = setting_of("full", i % 3, i % 3, 1, false);
    const bool inodes = i % 4 == 3;
    tp_test_remove(s.dir);
    mkdir(s.dir, 0777);
    if (inodes) snprintf(option, sizeof option, "size=4m,nr_inodes=%d", 4 + i / 4);
    else snprintf(option, sizeof option, "size=%dk", 8 + 4 * (i - i / 4));
    if (mount("tmpfs", s.dir, "tmpfs", 0, option) != 0) return;
    if (write_text(in(s.dir, "hyper.txt"), hyper)) {
        const char *d = survives(&s, ref), *when = "";
        shared->done++;
        if (!d) {
            const int how = afterwards(false, shared->said[0] == 0);
            mount("tmpfs", s.dir, "tmpfs", MS_REMOUNT, "size=16m,nr_inodes=1000");
            d = goes_on(&s, ref, how);
            when = ", then with room";
        }
        if (d && shared->failed++ == 0)
            snprintf(shared->report, SAID, "%s, on a disk of %s%s: %s", text_of(&s), option, when, d);
    }
    umount(s.dir);
}

TEST(the_disk_is_full)
{
    TEST_MAY_ERROR("");
    int status = 0;
    const char *ref[3];
    for (int i = 0; i < 3; i++) ref[i] = reference(i);
    fflush(NULL);
    shared->failed = shared->done = 0;
    const pid_t pid = fork();
    if (pid == 0) {
        if (!private_disks()) _exit(77);
        const int step = whole() ? 1 : 13;
        for (int i = (int)draw((uint32_t)step); i < 130; i += step) full_disk_round(i, ref[i % 3]);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        TEST_SKIP("a disk of its own (unshare, mount) is not allowed here");
    CHECK_MSG(status == 0 && shared->done > 5, "status %d after %d disks", status, shared->done);
    CHECK_MSG(shared->failed == 0, "%d of %d disks, the first: %s", shared->failed, shared->done, shared->report);
}

/* Two containers may share a folder, and a name; their processes have the same numbers. A temporary file says in which of them
 * its writer is: the eight digits after ".tmp.". */
static bool writes_unfinished(const char *dir, char digits[9])
{
    tp_writer *w;
    if (tp_writer_open(&w, tp_test_path(dir, "model")) != TP_OK) return false;
    DIR *d = opendir(dir);
    struct dirent *e;
    digits[0] = 0;
    while (d && (e = readdir(d)) != NULL)
        if (strncmp(e->d_name, "model.tmp.", 10) == 0) snprintf(digits, 9, "%.8s", e->d_name + 10);
    if (d) closedir(d);
    tp_writer_abort(w);
    return strlen(digits) == 8 && strspn(digits, "0123456789abcdef") == 8;
}
TEST(temporary_files_tell_containers_apart)
{
    const char *dir = tp_test_tmpdir();
    char here[9], there[2][9] = {"", ""};
    CHECK(writes_unfinished(dir, here));
    for (int own = 0; own < 2; own++) { /* a process of this one, and the first of another */
        int status = 0, ends[2];
        fflush(NULL);
        if (!CHECK(pipe(ends) == 0)) return;
        const pid_t pid = fork();
        if (pid == 0) {
            char digits[9];
            if (own && unshare(getuid() == 0 ? CLONE_NEWPID : CLONE_NEWUSER | CLONE_NEWPID) != 0) _exit(77);
            const pid_t first = fork();
            if (first == 0) _exit(writes_unfinished(dir, digits) && write(ends[1], digits, 9) == 9 ? 0 : 1);
            if (first < 0) _exit(77);
            waitpid(first, &status, 0);
            _exit(status == 0 ? 0 : 1);
        }
        waitpid(pid, &status, 0);
        close(ends[1]);
        const ssize_t n = read(ends[0], there[own], 9);
        close(ends[0]);
        if (own && WIFEXITED(status) && WEXITSTATUS(status) == 77)
            TEST_SKIP("processes counted by themselves (unshare) are not allowed here");
        CHECK(status == 0 && n == 9);
    }
    CHECK_STR(there[0], here);
    CHECK_MSG(strcmp(there[1], here) != 0, "both are %s", here);
}

static int one_training(int argc, char **argv)
{
    setting s;
    memset(&s, 0, sizeof s);
    snprintf(s.dir, sizeof s.dir, "%s", argv[2]);
    s.format = argc > 3 ? (tp_checkpoint_format)atoi(argv[3]) : TP_CHECKPOINT_NPZ;
    s.order = argc > 4 ? atoi(argv[4]) : 0;
    s.threads = argc > 5 ? atoi(argv[5]) : 1;
    s.queue = argc > 6 && atoi(argv[6]) != 0;
    s.loud = !(argc > 7 && atoi(argv[7]) != 0);
    s.trainer = argc > 8 ? (trainer_kind)atoi(argv[8]) : ONE_DEVICE;
    s.rule = argc > 9 ? (rule_kind)atoi(argv[9]) : ADAM;
    s.flow = argc > 10 ? (flow_kind)atoi(argv[10]) : PLAIN;
    if (!tp_file_exists(s.dir)) empty(s.dir);
    const int rc = train_body(&s);
    fprintf(stderr, "ends with %d%s%s\n", rc, rc ? ": " : "", shared->said);
    return rc;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!getenv("TMPDIR") && access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1); /* where fsync takes no time */
    nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    void *memory = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (nowhere < 0 || memory == MAP_FAILED) return 2;
    shared = (shared_memory *)memory;
    return argc > 2 && strcmp(argv[1], "train") == 0 ? one_training(argc, argv) : tp_test__main(argc, argv);
}
