/* Same numbers every time: 1, 2 and 4 threads write the same checkpoint, a run that is killed and resumed ends bit for bit
 * where one that was not ends, and a training step allocates nothing. A convnet on generated digits, dropout included. */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_test.h"
#include <signal.h>
#include <sys/wait.h>

enum { STEPS = 50, EPOCHS = 4 };

static const tp_spec inputs[] = {TP_SPEC("input", TP_F32, TP_ANY, 28, 28), TP_SPEC("label", TP_I32, TP_ANY)};

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *logits = NULL, *image = tp_expand_dims(in[0], 3);
    (void)user;
    TP_ARGSCOPE(g, conv2d, .filters = 8, .kernel_size = 3, .strides = 2)
    {
        logits = tp_linear(
            image, TP_CONV2D("conv0", .activation = tp_relu),
            TP_CONV2D("conv1", .activation = tp_bn_relu, .use_bias = TP_NO), TP_DROPOUT("dropout", .rate = 0.3f),
            TP_FULLY_CONNECTED("fc0", .units = 32, .activation = tp_relu), TP_FULLY_CONNECTED("fc1", .units = 10));
    }
    tp_node *cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1])), "cost");
    tp_sym_prediction_incorrect(logits, in[1], 1, "incorrect_vector");
    tp_node *total =
        tp_named(tp_add(cost, tp_regularize_cost(g, "fc.*/W", tp_l2_regularizer(1e-4f), NULL)), "total_cost");
    tp_add_moving_summary(cost, total);
    return total;
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_adam(tp_get_scalar_variable(g, "learning_rate", 1e-3f));
}

/* Kills the process, or counts allocations, at a step. */
typedef struct plan {
    int64_t kill_at;              /* after this global step; 0: never */
    int kill_in_save;             /* kill in the epoch's end, before its checkpoint */
    int64_t count_from, count_to; /* allocations between these steps, into allocations */
    long before;
    long *allocations;
    tp_checkpoint_format format;
} plan;

static int64_t steps_made; /* by this process */

static tp_status step(tp_callback *cb)
{
    plan *p = (plan *)cb->user;
    steps_made++;
    if (p->kill_at && cb->train->global_step == p->kill_at) kill(getpid(), SIGKILL);
    if (p->allocations && cb->train->global_step == p->count_from) p->before = tp_test_alloc_count();
    if (p->allocations && cb->train->global_step == p->count_to) *p->allocations = tp_test_alloc_count() - p->before;
    return TP_OK;
}

static tp_status epoch_end(tp_callback *cb)
{
    const plan *p = (const plan *)cb->user;
    if (p->kill_in_save && cb->train->epoch_num == p->kill_in_save) kill(getpid(), SIGKILL);
    return TP_OK;
}

static void quiet(void *user, tp_log_level level, const char *message)
{
    (void)user;
    if (level >= TP_LOG_ERROR) fprintf(stderr, "%s\n", message);
}

static tp_status train(const char *dir, int threads, bool queue, bool resume, plan *p)
{
    tp_session_config session = tp_default_session_config();
    session.threads = threads;
    tp_set_log(quiet, NULL);
    if (tp_logger_set_dir(dir, resume ? 'k' : 'd') != TP_OK) return TP_ERR;
    tp_dataflow *df = tp_df_batch(tp_df_digits("train", .size = 2000), 32);
    tp_callback *watch = tp_callback_new("Watch", 0);
    watch->user = p;
    watch->trigger_step = step;
    watch->trigger = epoch_end;
    return tp_launch_train_with_config(
        &(tp_train_config){
            .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build_graph, .optimizer = optimizer},
            .dataflow = df,
            TP_CALLBACKS(tp_cb_model_saver(.format = p->format), watch,
                         tp_cb_inference_runner(
                             tp_df_batch(tp_df_digits("test", .size = 200, .shuffle = TP_NO), 64, .remainder = TP_YES),
                             .inferencers = {tp_inf_classification_error("incorrect_vector", "validation_error")})),
            .session_config = &session,
            .steps_per_epoch = STEPS,
            .max_epoch = EPOCHS,
            .auto_resume = resume ? TP_YES : TP_NO,
        },
        queue ? tp_queue_input_trainer() : tp_simple_trainer());
}

/* The same in a process of its own; how it ended as waitpid says. If it was not killed, its steps_made are the parent's. */
static int train_apart(const char *dir, int threads, bool queue, bool resume, const plan *p)
{
    int status = -1, way[2];
    if (!CHECK(pipe(way) == 0)) return -1;
    const pid_t pid = fork();
    if (pid == 0) {
        plan copy;
        memset(&copy, 0, sizeof copy);
        if (p) copy = *p;
        freopen("/dev/null", "w", stderr);
        steps_made = 0;
        const tp_status st = train(dir, threads, queue, resume, &copy);
        _exit(st == TP_OK && write(way[1], &steps_made, sizeof steps_made) == sizeof steps_made ? 0 : 1);
    }
    close(way[1]);
    steps_made = -1;
    if (read(way[0], &steps_made, sizeof steps_made) < 0) steps_made = -1;
    close(way[0]);
    waitpid(pid, &status, 0);
    return status;
}
/* Training goes on behind the last epoch that was complete when it was killed: it does not begin anew. */
static void check_steps_made(int64_t killed_at)
{
    const int64_t want = STEPS * EPOCHS - (killed_at - 1) / STEPS * STEPS;
    CHECK_MSG(steps_made == want, "%lld steps after the kill, not %lld", (long long)steps_made, (long long)want);
}

/* Every array of two checkpoints equal, bit for bit. */
static void same_checkpoint(const char *a, const char *b, int step_number)
{
    char path[1200];
    tp_dict x, y;
    memset(&x, 0, sizeof x);
    memset(&y, 0, sizeof y);
    snprintf(path, sizeof path, "%s/model-%d", a, step_number);
    CHECK_OK(tp_load_checkpoint_vars(path, &x));
    snprintf(path, sizeof path, "%s/model-%d", b, step_number);
    CHECK_OK(tp_load_checkpoint_vars(path, &y));
    CHECK(x.n == y.n && x.n > 20);
    for (int i = 0; i < x.n; i++) {
        const tp_tensor *other = tp_dict_find(&y, x.item[i].name);
        CHECK_MSG(other && tp_tensor_bytes(other) == tp_tensor_bytes(&x.item[i].value) &&
                      memcmp(other->data, x.item[i].value.data, tp_tensor_bytes(other)) == 0,
                  "%s differs", x.item[i].name);
    }
    tp_dict_free(&x);
    tp_dict_free(&y);
}

static const char *folder(char *buf, size_t size, const char *name)
{
    static char root[800];
    if (!root[0]) snprintf(root, sizeof root, "%s", tp_test_tmpdir());
    snprintf(buf, size, "%s/%s", root, name);
    return buf;
}

/* All kills come from TP_TEST_SEED, or else the same one every time; it is printed, and so are they. */
static uint64_t seed_of_kills(void)
{
    const char *given = getenv("TP_TEST_SEED");
    const uint64_t seed = given ? strtoull(given, NULL, 10) : 741634;
    printf("     TP_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}
/* The i-th number drawn from it: from, .. to. */
static int64_t drawn(uint64_t seed, int i, int64_t from, int64_t to)
{
    return from + (int64_t)(tp_random_u32(seed, 0, (uint64_t)i) % (uint32_t)(to - from + 1));
}

TEST(threads_and_prefetch_do_not_change_a_bit)
{
    char one[1000], two[1000], four[1000], queue[1000];
    CHECK(train_apart(folder(one, sizeof one, "one"), 1, false, false, NULL) == 0);
    CHECK(train_apart(folder(two, sizeof two, "two"), 2, false, false, NULL) == 0);
    CHECK(train_apart(folder(four, sizeof four, "four"), 4, false, false, NULL) == 0);
    CHECK(train_apart(folder(queue, sizeof queue, "queue"), 2, true, false, NULL) == 0);
    same_checkpoint(one, two, STEPS * EPOCHS);
    same_checkpoint(one, four, STEPS * EPOCHS);
    same_checkpoint(one, queue, STEPS * EPOCHS);
}

TEST(killed_and_resumed_is_as_if_it_was_not)
{
    char whole[1000], broken[1000];
    plan p;
    CHECK(train_apart(folder(whole, sizeof whole, "whole"), 2, true, false, NULL) == 0);
    const int rounds = getenv("TP_TEST_QUICK") ? 2 : 5;
    const uint64_t seed = seed_of_kills();
    for (int round = 0; round < rounds; round++) {
        memset(&p, 0, sizeof p);
        /* any step after the first checkpoint; twice, so that a resumed run is resumed again */
        p.kill_at = drawn(seed, round, STEPS + 1, STEPS * EPOCHS - 1);
        if (round == 1) p.kill_at = 0, p.kill_in_save = (int)drawn(seed, round, 2, EPOCHS);
        printf("     round %d: killed %s %lld\n", round, p.kill_at ? "after step" : "before the checkpoint of epoch",
               (long long)(p.kill_at ? p.kill_at : p.kill_in_save));
        folder(broken, sizeof broken, "broken");
        int status = train_apart(broken, 1 + round % 2, round % 2 == 0, false, &p);
        CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "round %d: not killed (%d)", round, status);
        if (round == 2) {
            p.kill_at = drawn(seed, 100 + round, p.kill_at + 1, STEPS * EPOCHS);
            printf("     resumed, killed after step %lld\n", (long long)p.kill_at);
            status = train_apart(broken, 2, true, true, &p);
            CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        }
        CHECK(train_apart(broken, 2, round % 2 == 1, true, NULL) == 0);
        check_steps_made(p.kill_at ? p.kill_at : p.kill_in_save * STEPS);
        same_checkpoint(whole, broken, STEPS * EPOCHS);
    }
}

TEST(every_format_resumes_alike)
{
    char whole[1000], broken[1000], path[1200];
    static const char *const ends[] = {".npz", ".index", ".safetensors"};
    const uint64_t seed = seed_of_kills();
    CHECK(train_apart(folder(whole, sizeof whole, "whole"), 2, true, false, NULL) == 0);
    for (int f = TP_CHECKPOINT_TF; f <= TP_CHECKPOINT_SAFETENSORS; f++) {
        plan p;
        memset(&p, 0, sizeof p);
        p.format = (tp_checkpoint_format)f;
        p.kill_at = drawn(seed, 200 + f, STEPS + 1, STEPS * EPOCHS - 1);
        printf("     *%s: killed after step %lld\n", ends[f], (long long)p.kill_at);
        folder(broken, sizeof broken, "format");
        CHECK(WIFSIGNALED(train_apart(broken, 2, true, false, &p)));
        const int64_t killed_at = p.kill_at;
        p.kill_at = 0;
        CHECK(train_apart(broken, 2, true, true, &p) == 0);
        check_steps_made(killed_at);
        snprintf(path, sizeof path, "%s/model-%d%s", broken, STEPS * EPOCHS, ends[f]);
        CHECK(tp_file_exists(path));
        snprintf(path, sizeof path, "%s/model-%d.npz", broken, STEPS * EPOCHS);
        CHECK(!tp_file_exists(path));
        same_checkpoint(whole, broken, STEPS * EPOCHS);
    }
}

TEST(a_training_step_allocates_nothing)
{
    char dir[1000];
    for (int queue = 0; queue < 2; queue++) {
        plan p;
        long allocations = -1;
        memset(&p, 0, sizeof p);
        p.count_from = 3; /* steps of the first epoch, the producer's thread included */
        p.count_to = STEPS - 1;
        p.allocations = &allocations;
        tp_test_fail_after(0);
        CHECK_OK(train(folder(dir, sizeof dir, "count"), 2, queue == 1, false, &p));
        tp_set_log(NULL, NULL);
        CHECK_OK(tp_logger_set_dir(NULL, 0));
        CHECK_MSG(allocations == 0, "%ld allocations in %d steps", allocations, STEPS - 4);
        CHECK(tp_test_live_blocks() == 0);
        tp_test_alloc_reset();
    }
}

TEST(the_state_of_a_run_is_named_in_its_checkpoint)
{
    char dir[1000], path[1200];
    tp_dict d;
    memset(&d, 0, sizeof d);
    CHECK(train_apart(folder(dir, sizeof dir, "named"), 2, true, false, NULL) == 0);
    snprintf(path, sizeof path, "%s/model-%d.npz", dir, STEPS * EPOCHS);
    CHECK_OK(tp_npz_load(path, &d));
    static const char *const names[] = {"conv0/W",
                                        "conv0/b",
                                        "conv1/W",
                                        "conv1/bn/gamma",
                                        "conv1/bn/beta",
                                        "conv1/bn/mean/EMA",
                                        "conv1/bn/variance/EMA",
                                        "fc0/W",
                                        "fc0/W/Adam",
                                        "fc0/W/Adam_1",
                                        "beta1_power",
                                        "learning_rate",
                                        "global_step",
                                        "tp:random_step",
                                        "tp:input/consumed",
                                        "tp:epoch",
                                        "tp:isa"};
    for (int i = 0; i < TP_COUNT(names); i++) CHECK_MSG(tp_dict_find(&d, names[i]) != NULL, "%s is missing", names[i]);
    CHECK(tp_dict_find(&d, "conv1/b") == NULL);
    const tp_tensor *consumed = tp_dict_find(&d, "tp:input/consumed"), *step_var = tp_dict_find(&d, "global_step");
    CHECK(consumed && tp_tensor_get(consumed, 0) == STEPS * EPOCHS);
    CHECK(step_var && step_var->dtype == TP_I64 && tp_tensor_get(step_var, 0) == STEPS * EPOCHS);
    tp_dict_free(&d);
}

TEST_MAIN()
