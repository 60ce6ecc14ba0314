/* test_soak.c - a long training holds what it held when it was short: bytes of the library's allocator, memory of the process, open
 * files, threads; and its steps take as long as the first ones.
 *
 *     ./test_soak                         a few thousand steps of each kind of training
 *     ./test_soak steps 10000000 [kind]   so many (make soak): bare, callbacks, queue, towers; all of them if none is said
 *
 * The first tenth of a training is its warm-up. Its end is compared with the end of the training. Other parts of `make soak`:
 * test_misuse.c calls each function and uses each object 10,000 times, test_whole.c kills trainings.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_test.h"

/* ==== >>held ========================================================================================== */

/* An allocator that counts the bytes that the library holds; where malloc does not tell them, the blocks. */
static int64_t bytes_held;
static int64_t bytes_of(void *p)
{
#ifdef __GLIBC__
    return p ? (int64_t)malloc_usable_size(p) : 0;
#else
    return p != NULL;
#endif
}
static void change(int64_t by) { __atomic_add_fetch(&bytes_held, by, __ATOMIC_RELAXED); }
static void *count_alloc(size_t size, void *user)
{
    (void)user;
    void *p = malloc(size ? size : 1);
    change(bytes_of(p));
    return p;
}
static void *count_realloc(void *p, size_t size, void *user)
{
    (void)user;
    const int64_t before = bytes_of(p);
    void *q = realloc(p, size ? size : 1);
    if (q) change(bytes_of(q) - before);
    return q;
}
static void count_free(void *p, void *user)
{
    (void)user;
    change(-bytes_of(p));
    free(p);
}

typedef struct held {
    int64_t bytes; /* of the library's allocator */
    long resident; /* KiB of the process */
    int files, threads;
} held;

static held held_now(void)
{
    char line[256];
    held h = {__atomic_load_n(&bytes_held, __ATOMIC_RELAXED), 0, tp_test_files_in("/proc/self/fd"),
              tp_test_files_in("/proc/self/task")};
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "VmRSS:", 6) == 0) h.resident = atol(line + 6);
    if (f) fclose(f);
    return h;
}

/* ==== >>training ====================================================================================== */

enum { WIDTH = 4, BATCH = 4, POINTS = 64, BLOCKS = 200 };
static const char *const kinds[] = {"bare", "callbacks", "queue", "towers"};
enum { BARE, CALLBACKS, QUEUE, TOWERS };

static const tp_spec inputs[] = {TP_SPEC("x", TP_F32, TP_ANY, WIDTH), TP_SPEC("y", TP_I32, TP_ANY)};

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user, (void)g;
    tp_node *h = tp_fully_connected(in[0], "fc0", .units = 8, .activation = tp_relu);
    tp_node *logits = tp_fully_connected(tp_batch_norm(h, "bn"), "fc1", .units = 3);
    tp_node *cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1])), "cost");
    tp_sym_prediction_incorrect(logits, in[1], 1, "incorrect_vector");
    tp_add_moving_summary(cost);
    tp_add_param_summary(g, ".*/W", TP_SUMMARY_RMS);
    return cost;
}
static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_adam(tp_get_scalar_variable(g, "learning_rate", 1e-3f));
}
static tp_status point(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    (void)user, (void)pass;
    tp_status st = tp_datapoint_resize(dp, 2);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape(WIDTH));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_I32, tp_make_shape_n(0, NULL));
    for (int k = 0; k < WIDTH && st == TP_OK; k++)
        ((float *)dp->c[0].data)[k] = (float)(tp_random_u32(5, 0, (uint64_t)(i * WIDTH + k)) % 1000) / 500.0f - 1.0f;
    if (st == TP_OK) *(int32_t *)dp->c[1].data = (int32_t)(i % 3);
    return st;
}
static tp_dataflow *data(bool shuffled)
{
    tp_dataflow *df = tp_df_from_generator(point, .size = POINTS, .indexed = TP_YES);
    if (shuffled) df = tp_df_prefetch(tp_df_locally_shuffle(df, .buffer_size = 16));
    return tp_df_batch(df, BATCH);
}

/* What a callback sees while it trains: the time after each of BLOCKS parts, and what is held after the first tenth and in the end. */
typedef struct watch {
    int64_t steps;
    double at[BLOCKS + 1];
    held warm, last;
} watch;
static tp_status watch_step(tp_callback *cb)
{
    watch *w = *(watch **)cb->user;
    const int64_t step = cb->train->global_step, part = w->steps / BLOCKS;
    if (step % part == 0 && step / part <= BLOCKS) w->at[step / part] = tp_time();
    if (step == w->steps / 10) w->warm = held_now();
    if (step == w->steps) w->last = held_now();
    return TP_OK;
}
static tp_callback *watcher(watch *w)
{
    tp_callback *cb = tp_callback_new("Watch", sizeof w);
    *(watch **)cb->user = w;
    cb->trigger_step = watch_step;
    return cb;
}

static double wave(int64_t epoch, double old, void *user)
{
    (void)old, (void)user;
    return 1e-3 / (double)(1 + epoch % 7);
}

/* Ten epochs, with callbacks a hundred, in the shortest form twenty. */
static tp_status train(int kind, watch *w)
{
    tp_callback *list[16];
    tp_train_config c;
    tp_session_config session = tp_default_session_config();
    memset(&c, 0, sizeof c);
    c.model.inputs = inputs;
    c.model.n_inputs = 2;
    c.model.build_graph = build_graph;
    c.model.optimizer = optimizer;
    c.dataflow = data(kind == QUEUE);
    session.threads = kind == QUEUE ? 2 : 1;
    c.session_config = &session;
    c.max_epoch = kind != CALLBACKS ? 10 : w->steps < 1000 ? 20 : 100;
    c.steps_per_epoch = w->steps / c.max_epoch;
    c.n_extra_callbacks = TP_NONE;
    c.n_monitors = kind == CALLBACKS ? 0 : TP_NONE;
    c.log_layers = TP_NO;
    c.callbacks = list;
    list[c.n_callbacks++] = watcher(w);
    if (kind == CALLBACKS) {
        list[c.n_callbacks++] = tp_cb_moving_average_summary();
        list[c.n_callbacks++] = tp_cb_merge_all_summaries();
        list[c.n_callbacks++] = tp_cb_run_update_ops();
        list[c.n_callbacks++] = tp_cb_simple_moving_average(.names = {"cost"}, .window_size = (int)(w->steps / BLOCKS));
        list[c.n_callbacks++] = tp_cb_check_numerics();
        list[c.n_callbacks++] = tp_cb_hyper_param_setter_with_func("learning_rate", wave);
        list[c.n_callbacks++] = tp_cb_inference_runner(
            data(false), .inferencers = {tp_inf_scalar_stats(.names = {"cost"}),
                                         tp_inf_classification_error("incorrect_vector", "validation_error")});
        list[c.n_callbacks++] = tp_cb_min_saver("validation_cost");
        list[c.n_callbacks++] = tp_cb_model_saver(.max_to_keep = 2);
        list[c.n_callbacks++] = tp_cb_throughput_tracker();
        list[c.n_callbacks++] = tp_cb_estimated_time_left();
    }
    return tp_launch_train_with_config(&c, kind == QUEUE    ? tp_queue_input_trainer()
                                           : kind == TOWERS ? tp_sync_multi_gpu_trainer_replicated(.n_devices = 2)
                                                            : tp_simple_trainer());
}

/* ==== >>comparison ======================================================================================= */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
/* The median of the times of a tenth's parts, in microseconds for a step. */
static double step_of(const watch *w, int tenth)
{
    double t[BLOCKS / 10];
    for (int i = 0; i < BLOCKS / 10; i++) {
        const int part = tenth * (BLOCKS / 10) + i;
        t[i] = w->at[part + 1] - w->at[part];
    }
    if (tenth == 0) t[0] = t[1]; /* the first part has no beginning */
    qsort(t, TP_COUNT(t), sizeof *t, by_value);
    return 1e6 * t[BLOCKS / 20] / (double)(w->steps / BLOCKS);
}

/* whole: the long form, in which the memory of the process and the time of a step are judged too. In a short one they are chance,
 * or a sanitizer's. */
static void soak(int kind, int64_t steps, bool whole)
{
    static watch w;
    tp_allocator a = {count_alloc, count_realloc, count_free, NULL};
    memset(&w, 0, sizeof w);
    w.steps = steps;
    tp_test_keep_log();
    tp_set_allocator(&a);
    const int64_t before = bytes_held;
    CHECK_OK(tp_logger_set_dir(tp_test_tmpdir(), 'k'));
    CHECK_MSG(train(kind, &w) == TP_OK, "%s: %s", kinds[kind], tp_last_error());
    tp_logger_set_dir(NULL, 0);
    CHECK_MSG(bytes_held == before, "%s: %lld bytes are left", kinds[kind], (long long)(bytes_held - before));
    tp_set_allocator(NULL);
    tp_set_log(NULL, NULL);
    const double first = step_of(&w, 0), last = step_of(&w, 9);
    const int64_t more = w.last.bytes - w.warm.bytes;
    const long resident = w.last.resident - w.warm.resident;
    printf("     %s: %lld steps of %.2f us, the last tenth %.2f us; %lld bytes held (%+lld), %ld KiB resident (%+ld), "
           "%d files, %d threads\n",
           kinds[kind], (long long)steps, first, last, (long long)w.last.bytes, (long long)more, w.last.resident,
           resident, w.last.files, w.last.threads);
    /* what is reported stays: the history of each statistic, and the text of stats.json, whose buffer doubles. Here that are about
     * BLOCKS moving averages and the statistics of 90 epochs. Of other steps nothing stays. */
    CHECK_MSG(more <= (kind == CALLBACKS ? 1024 * BLOCKS : 0), "%s: %lld bytes more", kinds[kind], (long long)more);
    CHECK_MSG(!whole || resident < 2048, "%s: %ld KiB more", kinds[kind], resident);
    CHECK_MSG(w.last.files == w.warm.files, "%s: %d files, not %d", kinds[kind], w.last.files, w.warm.files);
    CHECK_MSG(w.last.threads == w.warm.threads, "%s: %d threads, not %d", kinds[kind], w.last.threads, w.warm.threads);
    CHECK_MSG(!whole || last < 3 * first, "%s: a step takes %.2f us, took %.2f us", kinds[kind], last, first);
}

TEST(a_long_training_holds_what_a_short_one_holds)
{
    for (int kind = 0; kind < TP_COUNT(kinds); kind++)
        soak(kind, getenv("TP_TEST_QUICK") ? BLOCKS : 20 * BLOCKS, false);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!getenv("TMPDIR") && access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1); /* where fsync takes no time */
    if (argc < 3 || strcmp(argv[1], "steps") != 0) return tp_test__main(argc, argv);
    tp_test__begin();
    for (int kind = 0; kind < TP_COUNT(kinds); kind++)
        if (argc == 3 || strcmp(argv[3], kinds[kind]) == 0) soak(kind, atoll(argv[2]), true);
    printf("%ld failures\n", (long)tp_test__failures);
    return tp_test__failures != 0;
}
