/* test_data_resume.c - a training on a flow that shuffles, maps on threads, augments, batches and reads ahead is killed by SIGKILL at
 * random moments and resumed: its last checkpoint is the file, byte for byte, that a training writes which was not killed, with 1, 2
 * and 8 threads. */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_test.h"
#include <signal.h>
#include <sys/wait.h>

enum { SAMPLES = 90, BATCH = 8, STEPS = 7, EPOCHS = 4 }; /* an epoch is no pass: a pass has 9 or 10 batches */

/* All kills come from TP_TEST_SEED, or else the same one every time; it is printed. */
static uint64_t seed_of_kills(void)
{
    const char *given = getenv("TP_TEST_SEED");
    const uint64_t seed = given ? strtoull(given, NULL, 10) : 160016;
    printf("     TP_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

/* ==== >>flow ========================================================================================== */

static int64_t kill_pass, kill_index; /* the datapoint in whose mapping this process dies; -1: none */

/* Random in each datapoint, in how long it takes too; one of twelve is dropped. */
static tp_status distort(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    const uint64_t i = (uint64_t)call->index;
    if (call->pass == kill_pass && call->index == kill_index) kill(getpid(), SIGKILL);
    tp_test_sleep(0.0004 * (double)tp_random_uniform(call->key, i, 0));
    call->drop = tp_random_uniform(call->key, i, 1) < 1 / 12.0f;
    const tp_status st = tp_tensor_resize(&out->c[0], TP_F32, in->c[0].shape);
    for (int64_t k = 0; k < tp_tensor_size(&out->c[0]) && st == TP_OK; k++)
        ((float *)out->c[0].data)[k] =
            ((const float *)in->c[0].data)[k] * (0.5f + tp_random_uniform(call->key, i, 2 + (uint64_t)k));
    return st;
}

static tp_dataflow *flow(int threads)
{
    tp_augmentor *aug =
        tp_aug_list(TP_AUGS(tp_aug_pad(.pad = 3), tp_aug_random_crop(28, 28), tp_aug_rotation(.max_deg = 15),
                            tp_aug_flip(.horiz = TP_YES), tp_aug_gaussian_noise(.sigma = 0.1f)));
    tp_dataflow *df = tp_df_digits("train", .size = SAMPLES);
    df = tp_df_fixed_size(tp_df_locally_shuffle(df, .buffer_size = 20),
                          SAMPLES); /* each pass goes on where the last ended */
    df = tp_df_parallel_map(df, distort, .num_thread = threads, .buffer_size = 16);
    df = tp_df_augment_image(df, aug, .num_thread = threads);
    return tp_df_prefetch(tp_df_batch(df, BATCH), .num_prefetch = 3);
}

/* ==== >>training ====================================================================================== */

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    tp_node *x = tp_fully_connected(tp_batch_flatten(in[0]), "fc0", .units = 12, .activation = tp_relu);
    x = tp_fully_connected(tp_dropout(x, "dropout", .rate = 0.3f), "fc1", .units = 10);
    tp_node *cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(x, in[1])), "cost");
    tp_add_moving_summary(cost);
    return cost;
}
static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_adam(tp_const(g, 1e-2f));
}
static int64_t steps_made; /* by this process */
static tp_status count_step(tp_callback *cb)
{
    (void)cb;
    steps_made++;
    return TP_OK;
}
static void quiet(void *user, tp_log_level level, const char *message)
{
    (void)user;
    if (level >= TP_LOG_ERROR) printf("%s\n", message);
}
static tp_status train(const char *dir, int threads, bool resume)
{
    static const tp_spec inputs[] = {TP_SPEC("input", TP_F32, TP_ANY, 28, 28), TP_SPEC("label", TP_I32, TP_ANY)};
    tp_session_config session = tp_default_session_config();
    session.threads = 1;
    tp_set_log(quiet, NULL);
    if (tp_logger_set_dir(dir, resume ? 'k' : 'd') != TP_OK) return TP_ERR;
    tp_callback *counter = tp_callback_new("Counter", 0);
    counter->trigger_step = count_step;
    return tp_launch_train_with_config(
        &(tp_train_config){
            .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build_graph, .optimizer = optimizer},
            .dataflow = flow(threads),
            TP_CALLBACKS(tp_cb_model_saver(), counter),
            .session_config = &session,
            .steps_per_epoch = STEPS,
            .max_epoch = EPOCHS,
            .auto_resume = resume ? TP_YES : TP_NO,
        },
        tp_queue_input_trainer());
}
/* In a process of its own, which is killed after so many seconds, or in the mapping of a datapoint, if it lives so long. If it was not
 * killed, its steps_made are the parent's. */
static int train_apart(const char *dir, int threads, bool resume, double seconds, int64_t pass, int64_t index)
{
    int status = -1, way[2];
    fflush(stdout);
    if (!CHECK(pipe(way) == 0)) return -1;
    const pid_t pid = fork();
    if (pid == 0) {
        steps_made = 0;
        kill_pass = pass, kill_index = index;
        freopen("/dev/null", "w", stderr);
        const tp_status st = train(dir, threads, resume);
        if (st != TP_OK) printf("%s\n", tp_last_error());
        fflush(stdout);
        _exit(st == TP_OK && write(way[1], &steps_made, sizeof steps_made) == sizeof steps_made ? 0 : 1);
    }
    close(way[1]);
    if (seconds > 0) {
        tp_test_sleep(seconds);
        kill(pid, SIGKILL);
    }
    steps_made = -1;
    if (read(way[0], &steps_made, sizeof steps_made) < 0) steps_made = -1;
    close(way[0]);
    waitpid(pid, &status, 0);
    return status;
}
static bool killed(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }

static const char *folder(const char *name)
{
    static char path[2][1000];
    static const char *root;
    static int at;
    if (!root) root = tp_test_tmpdir();
    at = !at;
    snprintf(path[at], sizeof path[at], "%s/%s", root, name);
    return path[at];
}
/* The step of the checkpoint that a resume finds; 0: none. */
static int saved_step(const char *dir)
{
    char path[1100];
    if (tp_checkpoint_state_latest(dir, path, sizeof path) != TP_OK) return 0;
    const char *name = strstr(path, "/model-");
    return CHECK_MSG(name != NULL, "%s", path) ? atoi(name + strlen("/model-")) : 0;
}
/* The bytes of the last checkpoint. */
static char *last_checkpoint(const char *dir, size_t *size)
{
    char path[1100], *data = NULL;
    snprintf(path, sizeof path, "%s/model-%d.npz", dir, STEPS * EPOCHS);
    CHECK_OK(tp_file_read(path, false, 0, &data, size));
    return data;
}
static void check_same(const char *dir, const char *want, size_t want_size, const char *what)
{
    size_t size = 0;
    char *data = last_checkpoint(dir, &size);
    CHECK_MSG(data && want && size == want_size && memcmp(data, want, size) == 0, "%s: another checkpoint", what);
    tp_free(data);
}

/* ==== >>tests ========================================================================================= */

TEST(killed_trainings_on_a_parallel_flow_end_with_the_same_bytes)
{
    static const int threads[3] = {1, 2, 8};
    const uint64_t seed = seed_of_kills();
    const int rounds = getenv("TP_TEST_QUICK") ? 1 : 4;
    const char *whole = folder("whole"), *broken = folder("broken");
    size_t size = 0;
    char *want = NULL, what[200];
    double longest = 0;
    int kills = 0, tries = 0, resumes = 0;
    for (int t = 0; t < 3; t++) {
        const double start = tp_time();
        CHECK(train_apart(whole, threads[t], false, 0, -1, -1) == 0);
        longest = longest > tp_time() - start ? longest : tp_time() - start;
        if (!want) want = last_checkpoint(whole, &size);
        snprintf(what, sizeof what, "%d threads", threads[t]);
        check_same(whole, want, size, what);
    }
    CHECK(size > 10000);
    for (int t = 0; t < 3; t++)
        for (int round = 0; round < rounds; round++) {
            int status = -1;
            snprintf(what, sizeof what, "%d threads", threads[t]);
            for (int k = 0; k < 1 + round / 2; k++) { /* once; then what was resumed too */
                const uint64_t at = (uint64_t)(100 * t + 10 * round + k);
                const int n = threads[(t + k) % 3];
                const bool timed = round % 2 == 1;
                const double seconds = timed ? longest * (0.1 + 0.7 * (double)tp_random_uniform(seed, 0, at)) : 0;
                const int64_t pass = timed ? -1 : k + (int64_t)(tp_random_u32(seed, 1, at) % 2);
                const int64_t index = (int64_t)(tp_random_u32(seed, 2, at) % SAMPLES);
                status = train_apart(broken, n, k > 0, seconds, pass, index);
                snprintf(what + strlen(what), sizeof what - strlen(what), "; %d threads, %s %g.%d", n,
                         timed ? "killed after s" : "killed in pass", timed ? seconds : (double)pass, (int)index);
                kills += killed(status), tries++;
                CHECK_MSG(killed(status) || (status == 0 && timed), "%s: status %d", what, status);
            }
            const int saved = saved_step(broken);
            CHECK_MSG(train_apart(broken, threads[(t + round) % 3], true, 0, -1, -1) == 0, "%s: no resume", what);
            CHECK_MSG(steps_made >= 0 && steps_made <= STEPS * EPOCHS - saved, "%s: %d steps after %d were saved", what,
                      (int)steps_made, saved);
            resumes += saved > 0;
            check_same(broken, want, size, what);
        }
    CHECK_MSG(kills >= tries / 2, "%d of %d were killed", kills, tries);
    if (rounds > 1) CHECK(resumes > 0); /* not all began anew */
    printf("     %d kills, %d resumes from a checkpoint\n", kills, resumes);
    tp_free(want);
}

TEST_MAIN()
