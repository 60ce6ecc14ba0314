/* The order of all methods of callbacks, against a list that is made from the rules; the callbacks that watch a training, send its
 * numbers elsewhere, or start something beside it; Ctrl-C; progress bars on terminals; files after a kill. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_test.h"
#include "inject.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static bool brief(void) { return getenv("TP_TEST_QUICK") != NULL; }

/* What a file holds, as text; "" where there is none. Good until the next call. */
static const char *text_of(const char *path)
{
    static char text[1 << 18];
    FILE *f = fopen(path, "rb");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = 0;
    if (f) fclose(f);
    return text;
}

/* Trains a NoOpTrainer with these callbacks and monitors, which it frees. */
static tp_status train_with(tp_callback *const *cb, int n, tp_monitor *const *monitor, int n_monitors, int64_t steps,
                            int64_t epochs)
{
    tp_train_desc d;
    memset(&d, 0, sizeof d);
    d.callbacks = cb, d.n_callbacks = n;
    d.monitors = monitor, d.n_monitors = n_monitors;
    d.steps_per_epoch = steps, d.max_epoch = epochs;
    tp_trainer *t = tp_noop_trainer();
    const tp_status st = tp_train(t, &d);
    tp_trainer_free(t);
    return st;
}

/* ==== >>order ========================================================================================= */

enum { SETUP, TRAIN, EPOCH, RUN, RAN, STEP, AFTER_EPOCH, TRIGGER_EPOCH, TRIGGER, AFTER_TRAIN, N_HOOKS };
static const char *const hook_names[N_HOOKS] = {"setup_graph", "before_train", "before_epoch", "before_run",
                                                "after_run",   "trigger_step", "after_epoch",  "trigger_epoch",
                                                "trigger",     "after_train"};
enum { STEPS = 3, EPOCHS = 2, MANY = 1 << 13 };

static char seen[MANY], wanted[MANY];
static void note(char *to, int who, int hook)
{
    const size_t n = strlen(to);
    snprintf(to + n, MANY - n, "%c.%s ", 'A' + who, hook_names[hook]);
}

/* One of three: A has a trigger_epoch of its own, which calls trigger; B and C are as they come. */
typedef struct recorder {
    int who;
    int fail_in; /* hook, -1: none */
    int after;   /* so many calls of that hook go well */
    tp_status status;
    int calls;
} recorder;

static tp_status record(tp_callback *cb, int hook)
{
    recorder *r = (recorder *)cb->user;
    note(seen, r->who, hook);
    if (hook != r->fail_in || r->calls++ < r->after) return TP_OK;
    return r->status < 0 ? tp_fail(r->status, "%s fails", hook_names[hook]) : r->status;
}
static tp_status rec_setup(tp_callback *cb) { return record(cb, SETUP); }
static tp_status rec_train(tp_callback *cb) { return record(cb, TRAIN); }
static tp_status rec_epoch(tp_callback *cb) { return record(cb, EPOCH); }
static tp_status rec_run(tp_callback *cb, tp_run_request *r)
{
    CHECK(r != NULL);
    return record(cb, RUN);
}
static tp_status rec_ran(tp_callback *cb, const tp_run_values *v)
{
    CHECK(v->n == 0);
    return record(cb, RAN);
}
static tp_status rec_step(tp_callback *cb) { return record(cb, STEP); }
static tp_status rec_after_epoch(tp_callback *cb) { return record(cb, AFTER_EPOCH); }
static tp_status rec_trigger_epoch(tp_callback *cb)
{
    const tp_status st = record(cb, TRIGGER_EPOCH);
    return st == TP_OK ? tp_callback_trigger(cb) : st;
}
static tp_status rec_trigger(tp_callback *cb) { return record(cb, TRIGGER); }
static tp_status rec_after_train(tp_callback *cb) { return record(cb, AFTER_TRAIN); }

static tp_callback *recorder_new(int who)
{
    tp_callback *cb = tp_callback_new("Recorder", sizeof(recorder));
    recorder *r = (recorder *)cb->user;
    r->who = who;
    r->fail_in = -1;
    cb->setup_graph = rec_setup;
    cb->before_train = rec_train;
    cb->before_epoch = rec_epoch;
    cb->before_run = rec_run;
    cb->after_run = rec_ran;
    cb->trigger_step = rec_step;
    cb->after_epoch = rec_after_epoch;
    cb->trigger_epoch = who == 0 ? rec_trigger_epoch : NULL;
    cb->trigger = rec_trigger;
    cb->after_train = rec_after_train;
    return cb;
}

/* The rules. One of them fails in a hook with a status, after it went well some times. */
typedef struct failure {
    int who, hook, after;
    tp_status status;
} failure;

typedef struct model {
    const failure *f;
    int n; /* callbacks */
    int calls;
} model;

/* A hook of one callback: what it returns. */
static tp_status model_one(model *m, int who, int hook)
{
    note(wanted, who, hook);
    return who == m->f->who && hook == m->f->hook && m->calls++ >= m->f->after ? m->f->status : TP_OK;
}
/* A phase: in order, until one does not return TP_OK. */
static tp_status model_all(model *m, int hook)
{
    tp_status st = TP_OK;
    for (int i = 0; i < m->n && st == TP_OK; i++) st = model_one(m, i, hook);
    return st;
}
/* trigger_epoch: who wants to stop lets the others have their turn, an error does not. */
static tp_status model_trigger_epoch(model *m)
{
    tp_status stop = TP_OK;
    for (int i = 0; i < m->n; i++) {
        tp_status st = i == 0 ? model_one(m, i, TRIGGER_EPOCH) : TP_OK;
        if (st == TP_OK) st = model_one(m, i, TRIGGER);
        if (st < 0) return st;
        if (st != TP_OK) stop = st;
    }
    return stop;
}
static tp_status model_loop(model *m)
{
    tp_status st = model_all(m, TRAIN);
    for (int e = 0; e < EPOCHS && st == TP_OK; e++) {
        st = model_all(m, EPOCH);
        for (int s = 0; s < STEPS && st == TP_OK; s++) {
            st = model_all(m, RUN);
            if (st == TP_OK) st = model_all(m, RAN);
            if (st == TP_OK) st = model_all(m, STEP);
        }
        if (st == TP_OK) st = model_all(m, AFTER_EPOCH);
        if (st == TP_OK) st = model_trigger_epoch(m);
    }
    return st;
}
static tp_status model_training(const failure *f, int n)
{
    model m = {f, n, 0};
    tp_status st = model_all(&m, SETUP);
    if (st != TP_OK) return st; /* it does not begin */
    st = model_loop(&m);
    for (int i = 0; i < n; i++) (void)model_one(&m, i, AFTER_TRAIN); /* of all, whatever one says */
    return st == TP_STOP || st == TP_END ? TP_OK : st;
}

static tp_status always_fine(tp_trainer *t, tp_callback *const *cb, int n)
{
    tp_train_desc d;
    memset(&d, 0, sizeof d);
    d.callbacks = cb, d.n_callbacks = n;
    d.steps_per_epoch = STEPS, d.max_epoch = EPOCHS;
    const tp_status st = tp_train(t, &d);
    tp_trainer_free(t);
    return st;
}

static bool yes(tp_callback *wrapper, void *user) { return (void)user, wrapper != NULL; }

/* B is inside of three wrappers, each of which lets everything through. */
static tp_status run_recorders(const failure *f, bool chief)
{
    tp_callback *cb[3];
    for (int i = 0; i < 3; i++) {
        cb[i] = recorder_new(i);
        recorder *r = (recorder *)cb[i]->user;
        if (f->who == i) r->fail_in = f->hook, r->after = f->after, r->status = f->status;
        if (i < 2) tp_callback_set_chief_only(cb[i], false);
    }
    cb[1] = tp_cb_proxy(tp_cb_periodic_trigger(tp_cb_enable_if(cb[1], yes), .every_k_epochs = 1));
    CHECK(!cb[1]->chief_only); /* the flag of what is inside */
    CHECK_STR(cb[1]->name, "Proxy-Proxy-Proxy-Recorder");
    tp_trainer *t = tp_noop_trainer();
    t->state.is_chief = chief;
    seen[0] = wanted[0] = 0;
    return always_fine(t, cb, 3);
}

TEST(all_methods_in_order_over_two_epochs)
{
    const failure none = {-1, -1, 0, TP_OK};
    tp_test_keep_log();
    for (int chief = 0; chief < 2; chief++) {
        CHECK_OK(run_recorders(&none, chief));
        CHECK_OK(model_training(&none, chief ? 3 : 2)); /* C is chief-only */
        CHECK_STR(seen, wanted);
        CHECK(strlen(seen) > 700 && (strstr(tp_test_logged, "Callback Recorder is chief-only, skipped.") != NULL));
    }
}

TEST(each_method_may_fail)
{
    TEST_MAY_ERROR("fails");
    int cases = 0;
    for (int hook = 0; hook < N_HOOKS; hook++)
        for (int who = 0; who < 3; who++)
            for (int after = 0; after < 5; after++) {
                const failure f = {who, hook, after, TP_ERR_NUMERIC};
                tp_test_keep_log();
                const tp_status st = run_recorders(&f, true), want = model_training(&f, 3);
                CHECK_MSG(st == want && strcmp(seen, wanted) == 0, "%s of %c, time %d: %s, not %s\n%s\n%s",
                          hook_names[hook], 'A' + who, after, tp_status_name(st), tp_status_name(want), seen, wanted);
                if (st == TP_ERR_NUMERIC) CHECK_HAS(tp_last_error(), "fails");
                cases += st == TP_ERR_NUMERIC;
            }
    CHECK(cases > 60);
}

TEST(each_method_may_stop_the_training)
{
    static const tp_status how[] = {TP_STOP, TP_END};
    for (int hook = TRAIN; hook < N_HOOKS; hook++)
        for (int who = 0; who < 3; who++)
            for (int after = 0; after < 5; after++) {
                const failure f = {who, hook, after, how[after % 2]};
                tp_test_keep_log();
                const tp_status st = run_recorders(&f, true), want = model_training(&f, 3);
                CHECK_MSG(st == want && st == TP_OK && strcmp(seen, wanted) == 0, "%s of %c, time %d: %s\n%s\n%s",
                          hook_names[hook], 'A' + who, after, tp_status_name(st), seen, wanted);
            }
}

/* ==== >>beside the training =========================================================================== */

static int ticks; /* atomic */
static void tick(tp_stop_flag *f, void *user)
{
    CHECK(user == &ticks);
    do __atomic_add_fetch(&ticks, 1, __ATOMIC_RELAXED);
    while (!tp_stop_flag_wait(f, 0.001));
}
static int leave_it; /* atomic: the thread that is not stopped ends then */
static void stay(tp_stop_flag *f, void *user)
{
    (void)user;
    while (!__atomic_load_n(&leave_it, __ATOMIC_RELAXED))
        CHECK(!tp_stop_flag_wait(f, 0.001)); /* nobody tells it to end */
    __atomic_store_n(&leave_it, 2, __ATOMIC_RELAXED);
}

static void do_not_hear(tp_stop_flag *f, void *user)
{
    (void)f, (void)user;
    while (!__atomic_load_n(&leave_it, __ATOMIC_RELAXED)) tp_test_sleep(0.002);
}

static char folder[300], pid_file[400];
static long child;
static void wait_for_child(void)
{
    for (int i = 0; i < 500 && !child; i++) {
        child = strtol(text_of(pid_file), NULL, 10);
        if (!child) tp_test_sleep(0.01);
    }
}
static tp_status see_child(tp_callback *cb)
{
    wait_for_child();
    CHECK(child > 0 && kill((pid_t)child, 0) == 0);
    return cb ? TP_OK : TP_ERR;
}
static tp_status do_not_begin(tp_callback *cb)
{
    const tp_status st = see_child(cb);
    return st == TP_OK ? tp_fail(TP_ERR_IO, "not today") : st;
}
static tp_status look_at_child(tp_callback *cb)
{
    wait_for_child();
    CHECK(child > 0 && kill((pid_t)child, 0) == 0);
    CHECK(kill((pid_t)child, SIGINT) == 0); /* what Ctrl-C sends to all processes of a terminal */
    for (int i = 0; i < 500 && __atomic_load_n(&ticks, __ATOMIC_RELAXED) < 3; i++) tp_test_sleep(0.002);
    CHECK(kill((pid_t)child, 0) == 0);
    return cb ? TP_OK : TP_ERR;
}

/* A process that writes its number to pid_file and sleeps. before: what the shell does first. */
static const char *const *sleeper(const char *before)
{
    static char command[1500];
    static const char *const argv[] = {"sh", "-c", command, NULL};
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    snprintf(pid_file, sizeof pid_file, "%s/pid", folder);
    snprintf(command, sizeof command, "%s echo $$ >%s.new; mv %s.new %s; exec sleep 100", before, pid_file, pid_file,
             pid_file);
    child = 0;
    __atomic_store_n(&ticks, 0, __ATOMIC_RELAXED);
    return argv;
}

TEST(processes_and_threads_live_as_long_as_the_training)
{
    tp_test_keep_log();
    const char *const *argv = sleeper("");
    tp_callback *cb[] = {tp_cb_start_proc_or_thread(.startable = {{argv, NULL, NULL}, {NULL, tick, &ticks}}),
                         tp_cb_lambda(.trigger = look_at_child)};
    CHECK(!cb[0]->chief_only);
    CHECK_OK(train_with(cb, 2, NULL, 0, 1, 1));
    CHECK_HAS(tp_test_logged, "Started sh.\nStarted a thread.");
    const int then = __atomic_load_n(&ticks, __ATOMIC_RELAXED);
    CHECK(then >= 3);
    CHECK(kill((pid_t)child, 0) != 0 && errno == ESRCH); /* waited for, too */
    tp_test_sleep(0.01);
    CHECK(__atomic_load_n(&ticks, __ATOMIC_RELAXED) == then);
}

/* They end too with a training that fails before its first epoch, and with a callback that is freed without after_train. */
TEST(processes_and_threads_of_a_training_that_does_not_begin)
{
    TEST_MAY_ERROR("Training failed");
    for (int alone = 0; alone < 2; alone++) {
        tp_test_keep_log();
        const char *const *argv = sleeper("");
        tp_callback *cb[] = {tp_cb_start_proc_or_thread(.startable = {{argv, NULL, NULL}, {NULL, tick, &ticks}}),
                             alone ? NULL : tp_cb_lambda(.before_train = do_not_begin)};
        tp_train_state train;
        memset(&train, 0, sizeof train);
        if (!alone) CHECK_ERR(train_with(cb, 2, NULL, 0, 1, 1), TP_ERR_IO, "not today");
        else if (CHECK_OK(tp_callback_setup_graph(cb[0], &train))) {
            CHECK_OK(tp_callback_before_train(cb[0]));
            CHECK_OK(tp_callback_before_train(cb[0])); /* what runs is not started again */
            const char *told = strstr(tp_test_logged, "Started sh.");
            CHECK(told && !strstr(told + 1, "Started sh."));
            wait_for_child();
            tp_callback_free(cb[0]);
        }
        CHECK(child > 0 && kill((pid_t)child, 0) != 0 && errno == ESRCH);
        const int then = __atomic_load_n(&ticks, __ATOMIC_RELAXED);
        tp_test_sleep(0.01);
        CHECK(__atomic_load_n(&ticks, __ATOMIC_RELAXED) == then);
    }
}

TEST(a_process_may_be_left_alone)
{
    int status = 0;
    tp_test_keep_log();
    const char *const *argv = sleeper("");
    tp_callback *cb[] = {tp_cb_start_proc_or_thread(.startable = {{argv, NULL, NULL}}, .stop_at_last = TP_NO),
                         tp_cb_lambda(.before_train = see_child)};
    CHECK_OK(train_with(cb, 2, NULL, 0, 1, 1));
    if (!CHECK(child > 0 && waitpid((pid_t)child, &status, WNOHANG) == 0)) return;
    CHECK(kill((pid_t)child, SIGKILL) == 0 && waitpid((pid_t)child, &status, 0) == (pid_t)child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* A process that has failed long before is a warning; one that has ended well is nothing. */
TEST(a_process_that_fails_is_a_warning)
{
    for (int how = 0; how < 2; how++) {
        tp_test_keep_log();
        const char *const argv[] = {"sh", "-c", how ? "exit 3" : "exit 0", NULL};
        tp_callback *cb = tp_cb_start_proc_or_thread(.startable = {{argv, NULL, NULL}});
        tp_train_state train;
        memset(&train, 0, sizeof train);
        CHECK_OK(tp_callback_setup_graph(cb, &train));
        CHECK_OK(tp_callback_before_train(cb));
        siginfo_t info;
        CHECK(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) == 0);
        tp_callback_free(cb);
        CHECK(!strstr(tp_test_logged, "ended with status 3 before the training ended.") == !how);
        CHECK(!strstr(tp_test_logged, "before the training ended") == !how);
    }
}

/* What ends while the training goes on is told then: the steps may wait for its data for ever. */
static int told_ends; /* atomic */
static void hear_ends(void *user, tp_log_level level, const char *message)
{
    (void)user;
    const bool failed = level == TP_LOG_WARN && strstr(message, " ended with status 3 before the training ended.");
    if (failed || (level == TP_LOG_INFO && strstr(message, "the thread of .startable[1] ended before the training.")))
        __atomic_add_fetch(&told_ends, failed ? 1 : 100, __ATOMIC_RELEASE);
}
static void end_at_once(tp_stop_flag *f, void *user) { (void)f, (void)user; }
static tp_status wait_for_ends(tp_callback *cb)
{
    for (int i = 0; i < 2000 && __atomic_load_n(&told_ends, __ATOMIC_ACQUIRE) < 101; i++) tp_test_sleep(0.01);
    return cb ? TP_OK : TP_ERR;
}
TEST(an_end_before_the_training_is_told_at_once)
{
    const char *const argv[] = {"sh", "-c", "exit 3", NULL};
    tp_callback *cb[] = {tp_cb_start_proc_or_thread(.startable = {{argv, NULL, NULL}, {NULL, end_at_once, NULL}}),
                         tp_cb_lambda(.trigger = wait_for_ends)};
    __atomic_store_n(&told_ends, 0, __ATOMIC_RELEASE);
    tp_set_log(hear_ends, NULL);
    CHECK_OK(train_with(cb, 2, NULL, 0, 1, 1));
    tp_set_log(NULL, NULL);
    CHECK_MSG(told_ends == 101, "%d", told_ends);
}

TEST(a_thread_may_be_left_alone)
{
    tp_test_fail_after(0); /* counts blocks of memory from here on */
    tp_test_keep_log();
    __atomic_store_n(&leave_it, 0, __ATOMIC_RELAXED);
    tp_callback *cb = tp_cb_start_proc_or_thread(.startable = {{NULL, stay, NULL}}, .stop_at_last = TP_NO);
    CHECK_OK(train_with(&cb, 1, NULL, 0, 1, 1));
    CHECK(__atomic_load_n(&leave_it, __ATOMIC_RELAXED) == 0);
    __atomic_store_n(&leave_it, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 500 && __atomic_load_n(&leave_it, __ATOMIC_RELAXED) != 2; i++) tp_test_sleep(0.002);
    CHECK(__atomic_load_n(&leave_it, __ATOMIC_RELAXED) == 2);
    for (int i = 0; i < 500 && tp_test_live_blocks() > 0; i++) tp_test_sleep(0.002); /* the thread frees its own */
    CHECK_MSG(tp_test_live_blocks() == 0, "%ld blocks", tp_test_live_blocks());
    tp_test_alloc_reset();
}

TEST(what_cannot_be_started)
{
    TEST_MAY_ERROR("StartProcOrThread");
    tp_test_keep_log();
    const char *const nowhere[] = {"tp-no-such-program", NULL}, *const nothing[] = {NULL};
    tp_callback *cb = tp_cb_start_proc_or_thread(.startable = {{nowhere, NULL, NULL}});
    CHECK_ERR(train_with(&cb, 1, NULL, 0, 1, 1), TP_ERR_IO, "cannot start 'tp-no-such-program': No such file");
    cb = tp_cb_start_proc_or_thread(.stop_at_last = TP_NO);
    CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, "1 to 32 processes and threads, not 0");
    tp_callback_free(cb);
    cb = tp_cb_start_proc_or_thread(.startable = {{nowhere, tick, NULL}});
    CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, ".startable[0] needs an .argv with a program, or .run, not both");
    tp_callback_free(cb);
    cb = tp_cb_start_proc_or_thread(.startable = {{NULL, tick, &ticks}, {nothing, NULL, NULL}});
    CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, ".startable[1] needs");
    tp_callback_free(cb);
    CHECK(tp_stop_flag_wait(NULL, 0)); /* misuse: end */
}

TEST(who_does_not_end_is_killed)
{
    const char *e = getenv("TP_TEST_WHOLE");
    if (!e || strcmp(e, "all") != 0) TEST_SKIP("it waits for 5 s: TP_TEST_WHOLE=all");
    TEST_EXPECT_ERROR("did not end within 5 s after it was told to");
    tp_test_keep_log();
    __atomic_store_n(&leave_it, 0, __ATOMIC_RELAXED);
    const char *const *argv = sleeper("trap '' TERM;");
    tp_callback *cb[] = {tp_cb_start_proc_or_thread(.startable = {{argv, NULL, NULL},
                                                                  {NULL, do_not_hear, NULL},
                                                                  {NULL, do_not_hear, NULL}}),
                         tp_cb_lambda(.before_train = see_child)};
    const double t0 = tp_time();
    CHECK_OK(train_with(cb, 2, NULL, 0, 1, 1));
    CHECK(tp_time() - t0 < 8); /* all together */
    CHECK_HAS(tp_test_logged, "after it was told to; it is killed");
    CHECK_HAS(tp_test_logged, "the thread of .startable[1] did not end within 5 s");
    CHECK_HAS(tp_test_logged, "the thread of .startable[2] did not end within 5 s after it was told to. If it waits in "
                              "tp_queue_put, close the queue in after_train of a callback listed before this one.");
    __atomic_store_n(&leave_it, 1, __ATOMIC_RELAXED);
}

/* ==== >>pictures ====================================================================================== */

static float picture[2 * 3 * 2]; /* two images of 3x2, grey */

static tp_status make_picture(tp_callback *cb)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    tp_tensor_view(&t, TP_F32, tp_make_shape(2, 3, 2), picture);
    tp_name_scope_push(cb->train->graph, "");
    tp_get_variable_as(cb->train->graph, "filters/W", TP_F32, tp_make_shape(2, 3, 2), tp_init_values(picture, 12));
    tp_name_scope_pop(cb->train->graph);
    return TP_OK;
}

/* The pixels of a PNG that is not interlaced and has filter 0 in each row, as the specification has it. */
static bool png_pixels(const char *path, unsigned char *pixels, size_t size, uint32_t *width, uint32_t *height,
                       int *colour)
{
    static unsigned char raw[1 << 16];
    unsigned char data[1 << 14];
    FILE *f = fopen(path, "rb");
    const size_t n = f ? fread(data, 1, sizeof data, f) : 0;
    if (f) fclose(f);
    if (n < 60 || memcmp(data, "\x89PNG\r\n\x1a\n", 8) != 0 || memcmp(data + 12, "IHDR", 4) != 0) return false;
    *width = (uint32_t)data[16] << 24 | (uint32_t)data[17] << 16 | (uint32_t)data[18] << 8 | data[19];
    *height = (uint32_t)data[20] << 24 | (uint32_t)data[21] << 16 | (uint32_t)data[22] << 8 | data[23];
    *colour = data[25];
    const size_t row = *width * (*colour == 2 ? 3u : *colour == 6 ? 4u : 1u);
    const uint32_t length = (uint32_t)data[33] << 24 | (uint32_t)data[34] << 16 | (uint32_t)data[35] << 8 | data[36];
    if (memcmp(data + 37, "IDAT", 4) != 0 || length < 6 || 41 + length > n || row * *height > size) return false;
    if (tp_inflate(data + 43, length - 6, raw, (row + 1) * *height) != TP_OK)
        return false; /* behind zlib's two bytes */
    for (uint32_t y = 0; y < *height; y++) {
        if (raw[y * (row + 1)] != 0) return false;
        memcpy(pixels + y * row, raw + y * (row + 1) + 1, row);
    }
    return true;
}

static tp_status to_colours(const tp_tensor *value, tp_tensor *image, void *user)
{
    CHECK(user == picture);
    const tp_status st = tp_tensor_resize(image, TP_F32, tp_make_shape(3, 2, 3));
    for (int i = 0; i < 6 && st == TP_OK; i++)
        for (int c = 0; c < 3; c++) ((float *)image->data)[3 * i + c] = (float)(tp_tensor_get(value, i) + c);
    return st;
}
static tp_status no_image(const tp_tensor *value, tp_tensor *image, void *user)
{
    (void)user;
    CHECK(tp_tensor_size(value) == 12);
    return tp_tensor_resize(image, TP_F32, tp_make_shape(7));
}

static tp_status image_without_rows(const tp_tensor *value, tp_tensor *image, void *user)
{
    (void)value, (void)user;
    return tp_tensor_resize(image, TP_F32, tp_make_shape(0, 7));
}

static int n_images;
static char image_names[200];
static tp_status keep_image(tp_monitor *m, const char *name, const tp_tensor *image)
{
    const size_t n = strlen(image_names);
    CHECK(m && image->shape.ndim == 4);
    n_images += (int)image->shape.dim[0];
    snprintf(image_names + n, sizeof image_names - n, "%s ", name);
    return TP_OK;
}

TEST(tensors_become_pictures)
{
    tp_test_keep_log();
    n_images = 0, image_names[0] = 0;
    for (int i = 0; i < 12; i++) picture[i] = (float)i / 8 - 0.25f; /* from below 0 to above 1 */
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    CHECK_OK(tp_logger_set_dir(folder, 'k'));
    tp_monitor *m = tp_monitor_new("Keeper", 0);
    m->process_image = keep_image;
    tp_callback *cb[] = {tp_cb_lambda(.setup_graph = make_picture), tp_cb_dump_tensor_as_image("filters/W"),
                         tp_cb_dump_tensor_as_image("filters/W", .prefix = "colour", .map_func = to_colours,
                                                    .user = picture, .scale = 40)};
    CHECK_OK(train_with(cb, 3, &m, 1, 1, 2));
    CHECK(n_images == 6);
    CHECK_STR(image_names, "filters_W colour filters_W colour ");
    unsigned char pixels[100];
    uint32_t w = 0, h = 0;
    int colour = -1;
    for (int k = 0; k < 2; k++) {
        const char *const name[] = {"filters_W-ep002.png", "filters_W-ep002-1.png"};
        if (!CHECK(png_pixels(tp_test_path(folder, name[k]), pixels, sizeof pixels, &w, &h, &colour))) continue;
        CHECK(w == 2 && h == 3 && colour == 0);
        for (int i = 0; i < 6; i++) {
            const double v = 255.0 * (double)picture[6 * k + i];
            CHECK(pixels[i] == (v < 0 ? 0 : v > 255 ? 255 : (int)v));
        }
    }
    if (CHECK(png_pixels(tp_test_path(folder, "colour-ep001.png"), pixels, sizeof pixels, &w, &h, &colour))) {
        CHECK(w == 2 && h == 3 && colour == 2);
        for (int i = 0; i < 18; i++) {
            const double v = 40.0 * ((double)picture[i / 3] + i % 3);
            CHECK_MSG(pixels[i] == (v < 0 ? 0 : (int)v), "%d: %d, not %g", i, pixels[i], v);
        }
    }
    CHECK(!tp_file_exists(tp_test_path(folder, "filters_W-ep001-2.png")));
    cb[0] = tp_cb_lambda(.setup_graph = make_picture); /* a prefix with '/' names files of the folder, too */
    cb[1] = tp_cb_dump_tensor_as_image("filters/W", .prefix = "weights/fc");
    cb[2] = tp_cb_dump_tensor_as_image("filters/W", .prefix = "../../x");
    CHECK_OK(train_with(cb, 3, NULL, 0, 1, 1));
    CHECK(tp_file_exists(tp_test_path(folder, "weights_fc-ep001.png")));
    CHECK(tp_file_exists(tp_test_path(folder, ".._.._x-ep001.png")));
    cb[0] = tp_cb_lambda(.setup_graph = make_picture);
    cb[1] = tp_cb_dump_tensor_as_image("filters/W", .prefix = "none", .map_func = image_without_rows);
    CHECK_OK(train_with(cb, 2, NULL, 0, 1, 1));
    CHECK(!tp_file_exists(tp_test_path(folder, "none-ep001.png")));
    TEST_MAY_ERROR("");
    cb[0] = tp_cb_lambda(.setup_graph = make_picture);
    cb[1] = tp_cb_dump_tensor_as_image("filters/W", .map_func = no_image);
    CHECK_ERR(train_with(cb, 2, NULL, 0, 1, 1), TP_ERR_SHAPE,
              "DumpTensorAsImage of 'filters/W': an image summary has shape (7)");
    cb[0] = tp_cb_dump_tensor_as_image("filters/V");
    CHECK_ERR(train_with(cb, 1, NULL, 0, 1, 1), TP_ERR_NAME, "filters/V not found");
    cb[0] = tp_cb_dump_tensor_as_image(NULL);
    CHECK_ERR(tp_callback_status(cb[0]), TP_ERR_ARG, "the name of a tensor is missing");
    tp_callback_free(cb[0]);
    tp_logger_set_dir(NULL, 0);
    cb[0] = tp_cb_dump_tensor_as_image("x");
    CHECK_ERR(tp_callback_status(cb[0]), TP_ERR_STATE, "no logger directory");
    tp_callback_free(cb[0]);
}

/* ==== >>time ========================================================================================== */

/* Waits as an input does, until its run may last no longer, or for a moment. */
static tp_mutex *wait_mutex;
static tp_cond *wait_cond;
static bool waits_for_ever;
static tp_status wait_in_run(tp_callback *cb, tp_run_request *r)
{
    (void)cb;
    tp_mutex_lock(wait_mutex);
    tp_status st = tp_request_wait(r, wait_cond, wait_mutex, "the test waited for data");
    while (st == TP_OK && waits_for_ever) st = tp_request_wait(r, wait_cond, wait_mutex, "the test waited for data");
    tp_mutex_unlock(wait_mutex);
    return st;
}

TEST(a_step_has_a_time_limit)
{
    TEST_MAY_ERROR("Training failed");
    tp_test_keep_log();
    wait_mutex = tp_mutex_new(), wait_cond = tp_cond_new();
    for (int ever = 0; ever < 2; ever++) {
        tp_callback *cb[] = {tp_callback_new("Waiter", 0), tp_cb_session_run_timeout(ever ? 40 : 60000)};
        cb[0]->before_run = wait_in_run;
        waits_for_ever = ever;
        const double t0 = tp_time();
        const tp_status st = train_with(cb, 2, NULL, 0, 2, 1);
        if (!ever) CHECK_OK(st);
        else {
            CHECK_ERR(st, TP_ERR_TIMEOUT, "not over after its 40 ms and has changed no variable: the test waited");
            CHECK(tp_time() - t0 >= 0.04 && tp_time() - t0 < 30);
        }
    }
    tp_callback *cb = tp_cb_session_run_timeout(0);
    CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, "a limit of 0 ms makes no sense");
    tp_callback_free(cb);
    tp_mutex_free(wait_mutex), tp_cond_free(wait_cond);
}

static tp_status slow_point(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    tp_test_sleep(0.03);
    const tp_status st = user || pass < 0 || i > 8 ? TP_END : tp_datapoint_resize(dp, 1);
    return st == TP_OK ? tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape(2)) : st;
}
/* A step that is late because the training's own thread reads its data says so, and blames no op. */
TEST(a_step_that_is_late_for_its_data)
{
    tp_graph *g = tp_graph_new(NULL);
    const tp_spec spec = {"x", TP_F32, tp_make_shape(2)};
    tp_input_source *input = tp_feed_input(tp_df_from_generator(slow_point, NULL));
    tp_node *x = NULL;
    int n = 0;
    CHECK_OK(tp_input_setup(input, g, &spec, 1));
    CHECK_OK(tp_input_get_tensors(input, &x));
    tp_node *y = tp_mean(x);
    tp_session *s = tp_session_new(g, NULL);
    tp_hook *const *hooks = tp_input_hooks(input, &n);
    tp_hooked_session *h = tp_hooked_session_new(s, hooks, n);
    for (int limit = 10; limit <= 60000; limit += 59990) { /* the datapoint that was late is used by the next run */
        tp_hooked_session_set_timeout(h, limit);
        const tp_status st = tp_hooked_run(h, &y, 1, NULL);
        if (limit == 10) CHECK_ERR(st, TP_ERR_TIMEOUT, "FeedInput waited for the data of its dataflow");
        else CHECK_OK(st);
        CHECK(input->consumed == (limit == 10 ? 0 : 1));
    }
    tp_hooked_session_free(h);
    tp_session_free(s);
    tp_input_free(input);
    tp_graph_free(g);
}

/* ==== >>inference ===================================================================================== */

static tp_status numbers(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    (void)user, (void)pass;
    if (i == 5) return TP_END;
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape(2));
    if (st != TP_OK) return st;
    ((float *)dp->c[0].data)[0] = (float)i, ((float *)dp->c[0].data)[1] = 2 * (float)i;
    return TP_OK;
}
static tp_status build_by_hand(tp_callback *runner, tp_input_source *input, void *user)
{
    static const tp_spec spec[] = {TP_SPEC("numbers", TP_F32, 2)};
    tp_graph *g = runner->train->graph;
    tp_node *in[1];
    CHECK(user == folder || user == NULL);
    tp_status st = tp_input_setup(input, g, spec, 1);
    if (st == TP_OK) st = tp_input_get_tensors(input, in);
    if (st == TP_OK) tp_named(tp_mean(in[0]), "mean_of_point");
    return st;
}
static tp_node *find_by_hand(tp_callback *runner, const char *name, void *user)
{
    CHECK(user == folder);
    return strcmp(name, "mine") == 0 ? tp_callback_find(runner, "ByHand/mean_of_point") : NULL;
}
static double told_mean;
static tp_status keep_mean(tp_monitor *m, const char *name, const tp_stat *s)
{
    CHECK(m && strncmp(name, "validation_", 11) == 0);
    told_mean = s->value;
    return TP_OK;
}
static int hook_runs;
static tp_status count_run(tp_hook *h, tp_run_request *r)
{
    CHECK(r && h->user == &hook_runs);
    hook_runs++;
    return TP_OK;
}

TEST(a_runner_of_inference_of_ones_own)
{
    TEST_MAY_ERROR("");
    tp_test_keep_log();
    tp_hook hook = {"Count", &hook_runs, NULL, NULL, count_run, NULL, NULL, NULL};
    for (int i = 0; i < 4; i++) {
        const bool by_hand = i % 2 == 1, sized = i < 2;
        tp_monitor *m = tp_monitor_new("Keeper", 0);
        m->process_scalar = keep_mean;
        tp_callback *cb = tp_cb_inference_runner_base(
            tp_df_from_generator(numbers, .size = sized ? 5 : 0, .indexed = sized ? TP_YES : TP_NO),
            .inferencers = {tp_inf_scalar_stats(.names = {by_hand ? "mine" : "ByHand/mean_of_point"})},
            .build = build_by_hand, .find = by_hand ? find_by_hand : NULL, .user = by_hand ? (void *)folder : NULL,
            .name = "ByHand");
        hook_runs = 0, told_mean = -1;
        tp_test_logged[0] = 0;
        CHECK_OK(tp_inference_runner_register_hook(cb, &hook));
        CHECK_OK(train_with(&cb, 1, &m, 1, 1, 2));
        CHECK(told_mean == 3); /* the mean of 1.5 i, i from 0 to 4 */
        CHECK(hook_runs == 10);
        /* the bar is full at the end; that of a pass of unknown size stays empty, and says how many there were */
        const char *bar = strstr(tp_test_logged, sized ? "|5/5[" : "|5[");
        if (!CHECK_MSG(bar && bar - tp_test_logged > 12, "%s", tp_test_logged)) continue;
        CHECK_MSG(strncmp(bar - 5, sized ? "#####" : "     ", 5) == 0, "%s", tp_test_logged);
        CHECK((strstr(tp_test_logged, "100%|#") != NULL) == sized && !strstr(tp_test_logged, sized ? "|5[" : "%|"));
        CHECK_HAS(bar, sized ? "<00:00," : "it/s]");
    }
    tp_callback *cb = tp_cb_inference_runner_base(tp_df_from_generator(numbers, .size = 5, .indexed = TP_YES),
                                                  .inferencers = {tp_inf_scalar_stats(.names = {"mean"})});
    CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, "InferenceRunnerBase: .build is missing");
    tp_callback_free(cb);
    cb = tp_cb_inference_runner_base(NULL, .build = build_by_hand,
                                     .inferencers = {tp_inf_scalar_stats(.names = {"mean"})});
    CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, "InferenceRunnerBase: the data are missing");
    tp_callback_free(cb);
    cb = tp_cb_inference_runner_base(tp_df_from_generator(numbers, .size = 5, .indexed = TP_YES),
                                     .build = build_by_hand);
    CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, "InferenceRunnerBase: give at least one inferencer");
    tp_callback_free(cb);
    cb = tp_cb_inference_runner_base(tp_df_from_generator(numbers, .size = 5, .indexed = TP_YES),
                                     .inferencers = {tp_inf_scalar_stats(.names = {"other"})}, .build = build_by_hand,
                                     .name = "Mine");
    CHECK_ERR(train_with(&cb, 1, NULL, 0, 1, 1), TP_ERR_NAME, "ScalarStats: in 'Mine': Tensor other not found");
}

/* ==== >>elsewhere ===================================================================================== */

static const char *const odd_names[] = {"$(touch pwned)", "a';touch pwned;'", "plain"};
static tp_status report_odd(tp_callback *cb)
{
    static const double odd[] = {NAN, INFINITY, -1e-300, 12345678};
    const int64_t step = cb->train->global_step;
    tp_monitors *m = cb->train->monitors;
    tp_status st = tp_monitors_put_scalar(m, odd_names[0], odd[step % 4]);
    if (st == TP_OK) st = tp_monitors_put_int(m, odd_names[1], 100 * step);
    return st == TP_OK && step % 2 == 0 ? tp_monitors_put_scalar(m, "plain", (double)step / 2) : st;
}

/* Names in Latin-1, cut, and of what only looks like UTF-8; and what other programs read of them */
#define GOOD "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"
static const char *const byte_names[][2] = {{"caf\xe9", "caf?"},
                                            {GOOD, GOOD},
                                            {"\xc0\xaf \xed\xa0\x80 \xe2\x82", "?\? ?\?\? ?\?"},
                                            {"\xf5\xff\x80!", "?\?\?!"}};
static tp_status report_bytes(tp_callback *cb)
{
    static const float x[4] = {1, 2, 3, 400};
    tp_monitors *m = cb->train->monitors;
    tp_status st = TP_OK;
    for (int i = 0; i < TP_COUNT(byte_names) && st == TP_OK; i++) {
        char tag[3][40];
        tp_summary_value v;
        tp_tensor t;
        tp_stat stat;
        const tp_summary s = {&v, 1};
        memset(&v, 0, sizeof v), memset(&t, 0, sizeof t);
        for (int k = 0; k < 3; k++) snprintf(tag[k], sizeof tag[k], "%s|%c", byte_names[i][0], "shi"[k]);
        tp_tensor_view(&t, TP_F32, tp_make_shape(2, 2), x);
        v.tag = tag[1], v.kind = TP_SUMMARY_HISTOGRAM, v.tensor = &t;
        st = tp_monitors_put_scalar(m, tag[0], 0.5);
        if (st == TP_OK) st = tp_monitors_get_latest(m, tag[0], &stat);
        if (st == TP_OK) st = tp_monitors_put_summary(m, &s);
        if (st == TP_OK) st = tp_monitors_put_image(m, tag[2], &t);
    }
    return st;
}
/* Whether the text, a file of n bytes, has each name as UTF-8 with the end that its kind has, and no other byte of it. */
static void check_names(const char *file, const char *text, size_t n, const char *kinds)
{
    for (int i = 0; i < TP_COUNT(byte_names); i++)
        for (const char *k = kinds; *k; k++) {
            char good[40], bad[40];
            snprintf(good, sizeof good, "%s|%c", byte_names[i][1], *k);
            snprintf(bad, sizeof bad, "%s|%c", byte_names[i][0], *k);
            CHECK_MSG(memmem(text, n, good, strlen(good)) != NULL, "%s: %s is not there", file, good);
            if (strcmp(good, bad) != 0)
                CHECK_MSG(!memmem(text, n, bad, strlen(bad)), "%s has name %d as it was", file, i);
        }
}

/* One name that is not UTF-8, as of a folder, would make stats.json, the report and the events of a whole run unreadable. */
TEST(names_that_are_not_utf8)
{
    tp_test_keep_log();
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    CHECK_OK(tp_logger_set_dir(folder, 'k'));
    tp_callback *cb = tp_cb_lambda(.trigger = report_bytes);
    tp_monitor *m[] = {tp_monitor_tf_event_writer(), tp_monitor_json_writer(), tp_monitor_report()};
    CHECK_OK(train_with(&cb, 1, m, 3, 2, 1));
    DIR *d = opendir(folder);
    int n_read = 0;
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        const bool json = strcmp(e->d_name, "stats.json") == 0, report = strcmp(e->d_name, "report.html") == 0;
        const char *kinds = json ? "s" : "shi";
        char *text = NULL;
        size_t n = 0;
        if (!json && !report && strncmp(e->d_name, "events", 6) != 0) continue;
        if (CHECK_OK(tp_file_read(tp_test_path(folder, e->d_name), false, 0, &text, &n)))
            check_names(e->d_name, text, n, kinds), n_read++;
        tp_free(text);
    }
    if (d) closedir(d);
    CHECK_MSG(n_read == 3, "%d files", n_read);
    tp_logger_set_dir(NULL, 0);
    tp_set_log(NULL, NULL);
}

TEST(commands_get_numbers_and_nothing_else)
{
    tp_test_keep_log();
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    char command[800], want[400];
    snprintf(command, sizeof command,
             "cd '%s' && echo \"{$(touch pwned)} {a';touch pwned;'} {{x}} {plain:.3f}\" >>sent", folder);
    tp_callback *cb = tp_callback_new("Reporter", 0);
    cb->trigger_step = report_odd;
    tp_monitor *m = tp_monitor_send_data(command, .names = {odd_names[0], odd_names[1], odd_names[2]});
    CHECK_OK(train_with(&cb, 1, &m, 1, 4, 2));
    /* of steps 1 to 8 the even ones complete the list */
    snprintf(want, sizeof want, "-1e-300 200 {x} 1.000\nnan 400 {x} 2.000\n-1e-300 600 {x} 3.000\nnan 800 {x} 4.000\n");
    CHECK_STR(text_of(tp_test_path(folder, "sent")), want);
    CHECK(!tp_file_exists(tp_test_path(folder, "pwned")));
    TEST_MAY_ERROR("");
    m = tp_monitor_send_data("exit 3", .names = {"plain"});
    cb = tp_callback_new("Reporter", 0);
    cb->trigger_step = report_odd;
    CHECK_OK(train_with(&cb, 1, &m, 1, 2, 1));
    CHECK_HAS(tp_test_logged, "Command 'exit 3' failed with status 3!");
    m = tp_monitor_send_data("true {other}", .names = {"plain"});
    cb = tp_callback_new("Reporter", 0);
    cb->trigger_step = report_odd;
    CHECK_ERR(train_with(&cb, 1, &m, 1, 2, 1), TP_ERR_NAME, "{other} of the command is not one of .names");
    static char long_command[70000], long_name[70000]; /* too long for a block of memory that is there already */
    memset(long_command, ':', sizeof long_command - 1);
    memset(long_name, 'n', sizeof long_name - 1);
    long failures = 0;
    for (long n = 1, failed = 1; failed; n++) {
        tp_test_fail_after(n);
        m = tp_monitor_send_data(long_command, .names = {long_name});
        failed = tp_test_alloc_failed();
        failures += failed;
        CHECK_MSG((m == NULL) == (failed != 0), "allocation %ld", n);
        tp_monitor_free(m);
        CHECK(tp_test_live_blocks() == 0);
    }
    tp_test_alloc_reset();
    CHECK_MSG(failures >= 3, "%ld", failures);
    m = tp_monitor_send_data("true");
    CHECK_ERR(tp_callback_status(&m->cb), TP_ERR_ARG, "give at least one name");
    tp_monitor_free(m);
    m = tp_monitor_send_data(NULL, .names = {"a"});
    CHECK_ERR(tp_callback_status(&m->cb), TP_ERR_ARG, "the command is NULL");
    tp_monitor_free(m);
}

/* -- a server on loopback: it writes down what it is asked, and answers */

static int server_status = 200;

static void serve_one(int fd, FILE *to)
{
    static char request[1 << 18];
    size_t n = 0, length = 0, head = 0;
    while (n + 1 < sizeof request) {
        const ssize_t got = read(fd, request + n, sizeof request - 1 - n);
        if (got <= 0) break;
        n += (size_t)got;
        request[n] = 0;
        const char *end = strstr(request, "\r\n\r\n"), *size = strcasestr(request, "\r\nContent-Length:");
        if (!end) continue;
        head = (size_t)(end - request) + 4;
        length = size && size < end ? strtoul(size + 17, NULL, 10) : 0;
        if (n >= head + length) break;
    }
    if (!n) return;
    const char *key = strcasestr(request, "\r\nAuthorization:");
    const size_t line = strcspn(request, "\r\n");
    fprintf(to, "%.*s|%.*s|", (int)line, request, key ? (int)strcspn(key + 2, "\r\n") : 0, key ? key + 2 : "");
    for (size_t i = head; i < n; i++) fputc(request[i] == '\n' ? ' ' : request[i] ? request[i] : '0', to);
    fputc('\n', to);
    fflush(to);
    const char *body = "{\"msg\": \"x\", \"experimentKey\" : \"key-17\"}";
    char answer[400];
    snprintf(answer, sizeof answer,
             "HTTP/1.1 %d x\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
             server_status, (int)strlen(body), body);
    if (write(fd, answer, strlen(answer)) < 0) fputs("(not answered)\n", to);
}

/* The server's process; its port. */
static pid_t serve(const char *path, int *port)
{
    struct sockaddr_in at;
    socklen_t size = sizeof at;
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &size) != 0)
        return -1;
    *port = ntohs(at.sin_port);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        FILE *to = fopen(path, "w");
        for (;;) {
            const int one = accept(fd, NULL, NULL);
            if (one < 0 || !to) _exit(1);
            serve_one(one, to);
            close(one);
        }
    }
    close(fd);
    return pid;
}

static tp_status report_three(tp_callback *cb)
{
    static const unsigned char pixels[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    tp_monitors *m = cb->train->monitors;
    tp_tensor t;
    memset(&t, 0, sizeof t);
    tp_tensor_view(&t, TP_U8, tp_make_shape(2, 2, 3), pixels);
    tp_status st = tp_monitors_put_scalar(m, "loss \"x\"", 0.5 / (double)cb->train->epoch_num);
    if (st == TP_OK) st = tp_monitors_put_int(m, "count", 7);
    if (st == TP_OK) st = tp_monitors_put_scalar(m, "bad", NAN);
    return st == TP_OK ? tp_monitors_put_image(m, "a b/picture", &t) : st;
}
static tp_status some_nodes(tp_callback *cb)
{
    tp_named(tp_relu(tp_named(tp_const(cb->train->graph, 1), "one")), "positive");
    return TP_OK;
}

static bool libcurl_is_there(void)
{
    tp_monitor *m = tp_monitor_comet(.api_key = "k");
    tp_train_state train;
    memset(&train, 0, sizeof train);
    const tp_status st = tp_callback_setup_graph(&m->cb, &train);
    tp_monitor_free(m);
    return st == TP_OK;
}

TEST(comet_gets_a_training)
{
    tp_test_keep_log();
    if (!libcurl_is_there()) TEST_SKIP("libcurl cannot be loaded (Debian package libcurl4)");
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    char path[400], url[100];
    int port = 0;
    snprintf(path, sizeof path, "%s/asked", folder);
    const pid_t pid = serve(path, &port);
    if (!CHECK(pid > 0)) return;
    snprintf(url, sizeof url, "http://127.0.0.1:%d/api", port);
    tp_callback *cb = tp_cb_lambda(.setup_graph = some_nodes, .trigger = report_three);
    tp_monitor *m = tp_monitor_comet(.api_key = "secret", .project_name = "digits", .workspace = "me",
                                     .experiment_name = "first \"try\"", .tags = {"t1", "t2"}, .url = url);
    CHECK_OK(train_with(&cb, 1, &m, 1, 1, 2));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    CHECK_HAS(tp_test_logged, "CometMLMonitor: the experiment is 'key-17'.");
    CHECK(!strstr(tp_test_logged, "refused") && !strstr(tp_test_logged, "not sent"));
    static const char *const asked[] = {
        /* in this order */
        "POST /api/write/experiment/create HTTP/1.1|Authorization: secret|{\"projectName\": \"digits\", "
        "\"workspaceName\": \"me\", \"experimentName\": \"first \\\"try\\\"\"}\n",
        "POST /api/write/experiment/tags HTTP/1.1|Authorization: secret|{\"experimentKey\": \"key-17\", \"addedTags\": "
        "[\"t1\", \"t2\"]}\n",
        "POST /api/write/experiment/graph HTTP/1.1|Authorization: secret|{\"experimentKey\": \"key-17\", \"graph\": "
        "\"{\\\"nodes\\\": [",
        "{\\\"name\\\": \\\"CallbackFactory/Relu\\\", \\\"op\\\": \\\"Relu\\\", \\\"input\\\": "
        "[\\\"CallbackFactory/one\\\"]}",
        "POST /api/write/experiment/metric HTTP/1.1|Authorization: secret|{\"experimentKey\": \"key-17\", "
        "\"metricName\": \"loss \\\"x\\\"\", \"metricValue\": 0.5, \"step\": 1, \"epoch\": 1, \"timestamp\": ",
        "\"metricName\": \"count\", \"metricValue\": 7, \"step\": 1, \"epoch\": 1,",
        "\"metricName\": \"bad\", \"metricValue\": \"NaN\", \"step\": 1,",
        "POST "
        "/api/write/experiment/"
        "upload-asset?experimentKey=key-17&type=image&fileName=a%20b%2Fpicture_step1.png&step=1 "
        "HTTP/1.1|Authorization: secret|--tp-7d0e5a1cb34f\r Content-Disposition: form-data; name=\"file\"; "
        "filename=\"image.png\"\r Content-Type: image/png\r \r \x89PNG",
        "IEND",
        "--tp-7d0e5a1cb34f--",
        "POST /api/write/experiment/log-other HTTP/1.1|Authorization: secret|{\"experimentKey\": \"key-17\", \"key\": "
        "\"curr_epoch\", \"value\": \"1\"",
        "\"metricName\": \"loss \\\"x\\\"\", \"metricValue\": 0.25, \"step\": 2, \"epoch\": 2,",
        "\"key\": \"curr_epoch\", \"value\": \"2\"",
        "POST /api/write/experiment/set-start-end-time HTTP/1.1|Authorization: secret|{\"experimentKey\": \"key-17\", "
        "\"endTimeMillis\": ",
    };
    const char *p = text_of(path);
    for (int i = 0; i < TP_COUNT(asked); i++) {
        const char *found = strstr(p, asked[i]);
        if (!CHECK_MSG(found != NULL, "%d: '%s' is not in '%.600s'", i, asked[i], p)) break;
        p = found + strlen(asked[i]);
    }
}

TEST(comet_is_not_there)
{
    TEST_MAY_ERROR("");
    tp_test_keep_log();
    unsetenv("COMET_API_KEY");
    tp_callback *cb = tp_cb_lambda(.trigger = report_three);
    tp_monitor *m = tp_monitor_comet(.url = "http://127.0.0.1:1");
    CHECK_ERR(train_with(&cb, 1, &m, 1, 1, 1), TP_ERR_ARG, "give .api_key, or set COMET_API_KEY");
    cb = tp_cb_lambda(.trigger = report_three);
    m = tp_monitor_comet(.api_key = "k", .library = "/nowhere/libcurl.so.4");
    CHECK_ERR(train_with(&cb, 1, &m, 1, 1, 1), TP_ERR_UNSUPPORTED,
              "/nowhere/libcurl.so.4 cannot be loaded, which speaks HTTP: install libcurl");
    if (!libcurl_is_there()) TEST_SKIP("libcurl cannot be loaded (Debian package libcurl4)");
    tp_test_keep_log();
    cb = tp_cb_lambda(.trigger = report_three);
    m = tp_monitor_comet(.api_key = "k", .url = "http://127.0.0.1:1"); /* nobody listens there */
    CHECK_OK(train_with(&cb, 1, &m, 1, 1, 1));
    CHECK_HAS(tp_test_logged, "CometMLMonitor does nothing: there is no experiment at http://127.0.0.1:1: ");
    /* a server that refuses: one warning, and training goes on */
    tp_test_keep_log();
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    char path[400], url[100];
    int port = 0;
    snprintf(path, sizeof path, "%s/asked", folder);
    server_status = 403;
    const pid_t pid = serve(path, &port);
    server_status = 200;
    snprintf(url, sizeof url, "http://127.0.0.1:%d", port);
    setenv("COMET_API_KEY", "from-environment", 1);
    cb = tp_cb_lambda(.trigger = report_three);
    m = tp_monitor_comet(.url = url, .experiment_key = "old");
    CHECK_OK(train_with(&cb, 1, &m, 1, 1, 2));
    unsetenv("COMET_API_KEY");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    const char *warned = strstr(tp_test_logged, "was refused: it answered 403");
    CHECK(warned && !strstr(warned + 5, "was refused"));
    CHECK_HAS(text_of(path), "Authorization: from-environment|{\"experimentKey\": \"old\", \"metricName\": \"count\"");
}

/* Compiles a shared library. */
static bool make_library(const char *path, const char *text)
{
    char source[500], command[1000];
    snprintf(source, sizeof source, "%s.c", path);
    if (!tp_test_write(source, text, strlen(text))) return false;
    snprintf(command, sizeof command, "cc -shared -fPIC -o '%s' '%s' 2>/dev/null", path, source);
    return system(command) == 0;
}

/* libcurl, as far as it is used here. It writes what it is to send to $CURL_SENT, "[header][header]<URL, options>body", and
 * answers a request to create an experiment with $CURL_ANSWER. */
static bool make_curl(const char *path)
{
    static const char text[] =
        "#include <stdarg.h>\n"
        "#include <stdio.h>\n"
        "#include <stdlib.h>\n"
        "#include <string.h>\n"
        "static FILE *to;\n"
        "static const char *body, *url;\n"
        "static size_t (*answer)(const char *data, size_t size, size_t n, void *user);\n"
        "static void *answer_to;\n"
        "static long size, no_signal, timeout, connect_timeout;\n"
        "int curl_global_init(long flags) { return flags == 3 ? 0 : 1; }\n"
        "void *curl_easy_init(void) { return to = fopen(getenv(\"CURL_SENT\"), \"wb\"); }\n"
        "int curl_easy_setopt(void *curl, int option, ...)\n"
        "{\n"
        "    va_list ap;\n"
        "    va_start(ap, option);\n"
        "    if (option == 13) timeout = va_arg(ap, long);\n"
        "    if (option == 60) size = va_arg(ap, long);\n"
        "    if (option == 78) connect_timeout = va_arg(ap, long);\n"
        "    if (option == 99) no_signal = va_arg(ap, long);\n"
        "    if (option == 10001) answer_to = va_arg(ap, void *);\n"
        "    if (option == 10002) url = va_arg(ap, const char *);\n"
        "    if (option == 10015) body = va_arg(ap, const char *);\n"
        "    if (option == 20011) answer = va_arg(ap, size_t (*)(const char *, size_t, size_t, void *));\n"
        "    va_end(ap);\n"
        "    return 0;\n"
        "}\n"
        "int curl_easy_perform(void *curl)\n"
        "{\n"
        "    const char *said = getenv(\"CURL_ANSWER\");\n"
        "    fprintf(to, \"<%s, no signal %ld, %ld s, %ld s>\", url, no_signal, timeout, connect_timeout);\n"
        "    fwrite(body, 1, (size_t)size, to);\n"
        "    if (said && strstr(url, \"/create\")) answer(said, 1, strlen(said), answer_to);\n"
        "    no_signal = timeout = connect_timeout = 0; /* what a request does not set, it has not */\n"
        "    return fflush(to);\n"
        "}\n"
        "int curl_easy_getinfo(void *curl, int info, ...)\n"
        "{\n"
        "    va_list ap;\n"
        "    va_start(ap, info);\n"
        "    *va_arg(ap, long *) = 200;\n"
        "    va_end(ap);\n"
        "    return 0;\n"
        "}\n"
        "void curl_easy_cleanup(void *curl) { fclose(to); }\n"
        "const char *curl_easy_strerror(int code) { return \"\"; }\n"
        "void *curl_slist_append(void *list, const char *text)\n"
        "{\n"
        "    fprintf(to, \"[%s]\", text);\n"
        "    return list ? list : to;\n"
        "}\n"
        "void curl_slist_free_all(void *list) {}\n";
    return make_library(path, text);
}

/* Two pictures as one batch, the second of them alone, and what finds no memory. */
static tp_status report_pictures(tp_callback *cb)
{
    static const unsigned char pixels[24] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                                             21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32};
    tp_monitors *m = cb->train->monitors;
    const int64_t dim[2][4] = {{2, 2, 2, 3}, {1, 2, 2, 3}};
    tp_status st = TP_OK;
    for (int i = 0; i < 2 && st == TP_OK; i++) {
        tp_tensor t;
        memset(&t, 0, sizeof t);
        tp_tensor_view(&t, TP_U8, tp_make_shape_n(4, dim[i]), pixels + 12 * i);
        st = tp_monitors_put_image(m, i ? "second" : "both", &t);
    }
    if (st == TP_OK) st = tp_monitors_put_scalar(m, "a number", 1);
    for (long n = 1, failed = 1; failed; n++) {
        tp_test_fail_after(n);
        const tp_status put = tp_monitors_put_scalar(m, "a number", 2);
        failed = tp_test_alloc_failed();
        if (failed) CHECK_ERR(put, TP_ERR_NOMEM, "out of memory");
        else CHECK_OK(put);
    }
    tp_test_alloc_reset();
    return st;
}

/* What is handed to libcurl. */
TEST(comet_sends_each_picture_of_a_batch)
{
    char path[400], sent[400], *text = NULL;
    size_t size = 0;
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    snprintf(path, sizeof path, "%s/libcurl.so", folder);
    snprintf(sent, sizeof sent, "%s/sent", folder);
    if (!make_curl(path)) TEST_SKIP("no compiler makes a shared library here");
    setenv("CURL_SENT", sent, 1);
    tp_test_keep_log();
    tp_callback *cb = tp_cb_lambda(.trigger = report_pictures);
    tp_monitor *m = tp_monitor_comet(.api_key = "k", .experiment_key = "key", .library = path);
    CHECK_OK(train_with(&cb, 1, &m, 1, 1, 1));
    unsetenv("CURL_SENT");
    CHECK(!strstr(tp_test_logged, "not sent"));
    if (!CHECK_OK(tp_file_read(sent, false, 0, &text, &size))) return;
    /* an experiment that is there already is not created again; without tags nothing is said about them. Each request may
     * take 10 seconds, and libcurl raises no signal */
    static const char first[] = "[Authorization: k][Content-Type: application/json][Expect:]"
                                "<https://www.comet.com/api/rest/v2/write/experiment/graph, no signal 1, 10 s, 10 s>"
                                "{\"experimentKey\": \"key\"";
    CHECK_HAS(text, first);
    int requests = 0, bounded = 0, of_tags = 0, created = 0;
    for (size_t i = 0; i + 40 < size; i++) {
        requests += memcmp(text + i, "[Authorization: k]", 18) == 0;
        bounded += memcmp(text + i, ", no signal 1, 10 s, 10 s>", 26) == 0;
        of_tags += memcmp(text + i, "/tags", 5) == 0 || memcmp(text + i, "addedTags", 9) == 0;
        created += memcmp(text + i, "/create", 7) == 0;
    }
    CHECK_MSG(requests > 5 && bounded == requests, "%d of %d", bounded, requests);
    CHECK(of_tags == 0 && created == 0);
    const char *png[3] = {NULL, NULL, NULL}, *at = text;
    size_t length[3] = {0, 0, 0};
    for (int i = 0; i < 3; i++) {
        png[i] = (const char *)memmem(at, size - (size_t)(at - text), "\x89PNG", 4);
        if (!CHECK(png[i] != NULL)) break;
        at = (const char *)memmem(png[i], size - (size_t)(png[i] - text), "\r\n--tp-", 7);
        if (!CHECK(at != NULL)) break;
        length[i] = (size_t)(at - png[i]);
    }
    CHECK(length[2] > 0 && length[1] == length[2] && memcmp(png[1], png[2], length[2]) == 0);
    CHECK(length[0] > 0 && (length[0] != length[1] || memcmp(png[0], png[1], length[0]) != 0));
    tp_free(text);
}

/* Each failing allocation while an experiment is created gives a sentence and leaves nothing behind. If none fails, the whole queue is
 * sent, even if after_train is never called. */
TEST(comet_begins_without_memory)
{
    char path[400], sent[400];
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    snprintf(path, sizeof path, "%s/libcurl.so", folder);
    snprintf(sent, sizeof sent, "%s/sent", folder);
    if (!make_curl(path)) TEST_SKIP("no compiler makes a shared library here");
    setenv("CURL_SENT", sent, 1);
    setenv("CURL_ANSWER", "{\"experimentKey\": \"new\"}", 1);
    tp_stat number;
    memset(&number, 0, sizeof number);
    number.step = 1, number.value = 2.5;
    tp_graph *g = tp_graph_new(NULL);
    tp_named(tp_relu(tp_named(tp_const(g, 1), "one")), "positive");
    for (int tags = 0; tags < 2; tags++) {
        long failures = 0;
        for (long n = 1, failed = 1; failed && n < 200; n++) {
            tp_monitor_comet_desc d;
            tp_train_state train;
            char *text = NULL;
            size_t size = 0;
            memset(&d, 0, sizeof d), memset(&train, 0, sizeof train);
            d.api_key = "k", d.library = path, d.project_name = "digits";
            if (tags) d.tags[0] = "t1", d.tags[1] = "t2";
            train.graph = g;
            tp_test_fail_after(0);
            tp_monitor *m = tp_monitor_comet_(&d);
            if (!CHECK_OK(tp_callback_setup_graph(&m->cb, &train))) return;
            const long before = tp_test_live_blocks();
            tp_test_fail_after(1); /* the arena is full, so that the key of the experiment needs memory */
            while (tp_arena_alloc(&m->cb.mem_, 1)) {}
            tp_test_keep_log();
            tp_test_fail_after(n);
            tp_status st = tp_callback_before_train(&m->cb);
            if (st == TP_OK) st = m->process_scalar(m, "a number", &number);
            failed = tp_test_alloc_failed();
            failures += failed;
            const bool off = strstr(tp_test_logged, "CometMLMonitor does nothing: ") != NULL;
            if (!failed) CHECK(st == TP_OK && !off);
            else if (!off) CHECK_ERR(st, TP_ERR_NOMEM, "out of memory");
            tp_monitor_free(m);
            const long left = before + tp_test_live_blocks(); /* the counter began anew between both */
            CHECK_MSG(left == 0, "allocation %ld: %ld blocks", n, left);
            tp_test_alloc_reset();
            if (failed) continue;
            if (!CHECK_OK(tp_file_read(sent, false, 0, &text, &size))) return;
            CHECK_HAS(text, "/create, no signal 1, 10 s, 10 s>{\"projectName\": \"digits\"}");
            const char *list = strstr(text, "{\"experimentKey\": \"new\", \"addedTags\": [\"t1\", \"t2\"]}");
            const char *graph = strstr(text, "{\"experimentKey\": \"new\", \"graph\": \"{");
            CHECK((list != NULL) == (tags == 1) && (strstr(text, "/tags") != NULL) == (tags == 1));
            CHECK(graph && (!list || list < graph) &&
                  strstr(graph, "\"metricName\": \"a number\", \"metricValue\": 2.5,"));
            tp_free(text);
        }
        CHECK(failures > 5);
    }
    tp_graph_free(g);
    unsetenv("CURL_ANSWER");
    unsetenv("CURL_SENT");
}

/* An answer that names no key, or breaks off within it: the training goes on without an experiment. */
TEST(comet_answers_without_a_key)
{
    static const struct {
        const char *answer, *key; /* NULL: none */
    } list[] = {{"{\"experimentKey\": \"ha", NULL},
                {"{\"experimentKey\": \"half\\", NULL},
                {"{\"experimentKey\": \"two\nlines\"}", NULL},
                {"{\"experimentKey\": 7}", NULL},
                {"{\"experimentKey\"", NULL},
                {"{\"experimentKey\": \"\"}", NULL},
                {"{\"key\": \"other\"}", NULL},
                {"", NULL},
                {"{\"msg\": 1, \"experimentKey\"\t:\n\"it\\\"s\"", "it\"s"}};
    char path[400], sent[400], want[100];
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    snprintf(path, sizeof path, "%s/libcurl.so", folder);
    snprintf(sent, sizeof sent, "%s/sent", folder);
    if (!make_curl(path)) TEST_SKIP("no compiler makes a shared library here");
    setenv("CURL_SENT", sent, 1);
    for (int i = 0; i < TP_COUNT(list); i++) {
        setenv("CURL_ANSWER", list[i].answer, 1);
        tp_test_keep_log();
        tp_monitor *m = tp_monitor_comet(.api_key = "k", .library = path);
        tp_train_state train;
        memset(&train, 0, sizeof train);
        CHECK_OK(tp_callback_setup_graph(&m->cb, &train));
        CHECK_OK(tp_callback_before_train(&m->cb));
        if (list[i].key) snprintf(want, sizeof want, "CometMLMonitor: the experiment is '%s'.", list[i].key);
        else snprintf(want, sizeof want, ": it did not say which key the experiment has.");
        CHECK_HAS(tp_test_logged, want);
        CHECK((strstr(tp_test_logged, "CometMLMonitor does nothing: ") == NULL) == (list[i].key != NULL));
        CHECK_OK(tp_callback_before_train(&m->cb)); /* it is not asked again */
        CHECK(strstr(tp_test_logged, want) && !strstr(strstr(tp_test_logged, want) + 1, want));
        CHECK((strstr(tp_test_logged, "the experiment is") != NULL) == (list[i].key != NULL));
        tp_monitor_free(m);
    }
    tp_set_log(NULL, NULL);
    unsetenv("CURL_ANSWER");
    unsetenv("CURL_SENT");
}

/* ==== >>profiling ===================================================================================== */

/* NVIDIA's library, as far as it is used here: $NVML_GPUS of them; $NVML_FAILS is the call that returns an error. */
static bool make_nvml(const char *path)
{
    static const char text[] =
        "#include <stdlib.h>\n"
        "#include <string.h>\n"
        "struct rates { unsigned gpu, memory; };\n"
        "static int calls[64];\n"
        "static int fails(const char *call) { return strcmp(getenv(\"NVML_FAILS\"), call) == 0 ? 15 : 0; }\n"
        "int nvmlInit_v2(void) { memset(calls, 0, sizeof calls); return fails(\"init\"); }\n"
        "int nvmlShutdown(void) { return 0; }\n"
        "int nvmlDeviceGetCount_v2(unsigned *n) { *n = (unsigned)atoi(getenv(\"NVML_GPUS\")); return 0; }\n"
        "int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **gpu) { *gpu = &calls[i]; return 0; }\n"
        "int nvmlDeviceGetUtilizationRates(void *gpu, struct rates *r)\n"
        "{\n"
        "    r->gpu = getenv(\"NVML_BUSY\") ? (unsigned)atoi(getenv(\"NVML_BUSY\"))\n"
        "                               : gpu == calls ? 10u * (unsigned)++calls[0] : 70u;\n"
        "    r->memory = 5;\n"
        "    return fails(\"rates\");\n"
        "}\n";
    return make_library(path, text);
}

static bool tells_busy; /* the GPUs are at 90 percent in steps, at 0 before them */
static tp_status idle(tp_callback *cb)
{
    if (tells_busy) setenv("NVML_BUSY", "0", 1);
    return cb ? TP_OK : TP_ERR;
}
static tp_status rest(tp_callback *cb)
{
    if (tells_busy) setenv("NVML_BUSY", "90", 1);
    tp_test_sleep(0.004);
    return cb ? TP_OK : TP_ERR;
}
static char told[2000];
static tp_status keep_told(tp_monitor *m, const char *name, const tp_stat *s)
{
    const size_t n = strlen(told);
    CHECK(m != NULL);
    snprintf(told + n, sizeof told - n, "%s=%.17g ", name, s->value);
    return TP_OK;
}
static tp_status train_with_nvml(tp_callback *tracker)
{
    tp_callback *cb[] = {tp_callback_new("Idle", 0), tracker, tp_callback_new("Rest", 0)};
    cb[0]->before_epoch = idle;
    cb[2]->trigger_step = rest;
    tp_monitor *m = tp_monitor_new("Keeper", 0);
    m->process_scalar = keep_told;
    told[0] = 0;
    tp_test_keep_log();
    return train_with(cb, 3, &m, 1, 6, 2);
}

TEST(how_busy_gpus_are)
{
    char path[400];
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    snprintf(path, sizeof path, "%s/libnvml.so", folder);
    if (!make_nvml(path)) TEST_SKIP("no compiler makes a shared library here");
    setenv("NVML_GPUS", "2", 1);
    setenv("NVML_FAILS", "", 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    CHECK_OK(train_with_nvml(tp_cb_gpu_utilization_tracker(.interval = 0.002, .library = path)));
    CHECK_HAS(tp_test_logged, "all 2 GPUs are monitored");
    double mean[2] = {0, 0};
    const char *second = strstr(told, "GPUUtil/1=70 GPUUtil/0=");
    CHECK(sscanf(told, "GPUUtil/0=%lf", &mean[0]) == 1 && second && sscanf(second + 23, "%lf", &mean[1]) == 1);
    /* the first GPU says 10, 20, 30, ..: n samples have the mean 5 (n + 1), a whole multiple of 5 */
    for (int i = 0; i < 2; i++) CHECK_MSG(mean[i] >= 10 && fmod(mean[i], 5) == 0, "%g", mean[i]);
    CHECK(mean[1] > mean[0] && strstr(told, "GPUUtil/1=70 ") != NULL);

    /* an epoch shorter than the interval has one sample, which counts */
    CHECK_OK(train_with_nvml(tp_cb_gpu_utilization_tracker(.interval = 999999, .library = path)));
    CHECK_STR(told, "GPUUtil/0=10 GPUUtil/1=70 GPUUtil/0=20 GPUUtil/1=70 ");
    tells_busy = true; /* it is taken at the end: what it says is of the time before it */
    CHECK_OK(train_with_nvml(tp_cb_gpu_utilization_tracker(.interval = 999999, .library = path)));
    CHECK_STR(told, "GPUUtil/0=90 GPUUtil/1=90 GPUUtil/0=90 GPUUtil/1=90 ");
    tells_busy = false;
    unsetenv("NVML_BUSY");

    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    CHECK_OK(train_with_nvml(tp_cb_gpu_utilization_tracker(.interval = 0.002, .library = path)));
    CHECK_STR(told, "GPUUtil/1=70 GPUUtil/1=70 ");
    setenv("CUDA_VISIBLE_DEVICES", " 1 , 0 ", 1);
    CHECK_OK(train_with_nvml(tp_cb_gpu_utilization_tracker(.interval = 0.002, .library = path)));
    CHECK(strncmp(told, "GPUUtil/1=70 GPUUtil/0=", 23) == 0);
    CHECK_OK(train_with_nvml(
        tp_cb_gpu_utilization_tracker(.devices = {1, 0}, .n_devices = 2, .interval = 0.002, .library = path)));
    CHECK(strncmp(told, "GPUUtil/1=70 GPUUtil/0=", 23) == 0);
    static const char *const none[] = {"", "-1", "GPU-8f6a"};
    for (int i = 0; i < 3; i++) {
        setenv("CUDA_VISIBLE_DEVICES", none[i], 1);
        CHECK_OK(train_with_nvml(tp_cb_gpu_utilization_tracker(.interval = 0.002, .library = path)));
        CHECK_HAS(tp_test_logged, "does nothing: $CUDA_VISIBLE_DEVICES is no list of numbers: give .devices.");
        CHECK_STR(told, "");
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
    CHECK_OK(train_with_nvml(tp_cb_gpu_utilization_tracker(.devices = {2}, .n_devices = 1, .library = path)));
    CHECK_HAS(tp_test_logged, "GPUUtilizationTracker does nothing: NVML does not know one of the GPUs");
    CHECK_STR(told, "");

    setenv("NVML_GPUS", "33", 1); /* more than the tracker has room for */
    CHECK_OK(train_with_nvml(tp_cb_gpu_utilization_tracker(.interval = 0.002, .library = path)));
    CHECK(strstr(told, "GPUUtil/31=70 ") && !strstr(told, "GPUUtil/32="));
    CHECK_HAS(tp_test_logged, "the first 32 of 33 GPUs are monitored");
    setenv("NVML_GPUS", "2", 1);

    static const char *const fails[][2] = {{"init", "NVML cannot be initialised"}, {"rates", "NVML returned error 15"}};
    for (int i = 0; i < TP_COUNT(fails); i++) {
        setenv("NVML_FAILS", fails[i][0], 1);
        CHECK_OK(train_with_nvml(tp_cb_gpu_utilization_tracker(.interval = 0.002, .library = path)));
        CHECK_HAS(tp_test_logged, fails[i][1]);
        CHECK_STR(told, "");
    }
    setenv("NVML_FAILS", "", 1);
    setenv("NVML_GPUS", "0", 1);
    CHECK_OK(train_with_nvml(tp_cb_gpu_utilization_tracker(.library = path)));
    CHECK_HAS(tp_test_logged, "NVML knows no GPU");
    CHECK_OK(train_with_nvml(tp_cb_gpu_utilization_tracker(.library = "libm.so.6")));
    CHECK_HAS(tp_test_logged, "the library lacks functions of NVML");
    CHECK_OK(train_with_nvml(tp_cb_gpu_utilization_tracker(.library = "/nowhere/nvml.so")));
    CHECK_HAS(tp_test_logged, "NVIDIA's library NVML cannot be loaded");
    tp_callback *cb = tp_cb_gpu_utilization_tracker(.n_devices = 33);
    CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, ".n_devices is 33, not 0 to 32");
    tp_callback_free(cb);
    static const double intervals[] = {-0.5, 1e6, NAN, INFINITY};
    for (int i = 0; i < TP_COUNT(intervals); i++) {
        cb = tp_cb_gpu_utilization_tracker(.interval = intervals[i]);
        CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, "GPUUtilizationTracker: .interval is ");
        tp_callback_free(cb);
    }
    cb = tp_cb_gpu_utilization_tracker(.n_devices = -1);
    CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, ".n_devices is -1, not 0 to 32");
    tp_callback_free(cb);
    cb = tp_cb_gpu_utilization_tracker(.devices = {-1}, .n_devices = 1);
    CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, ".devices[0] is -1");
    tp_callback_free(cb);
}

static tp_device *two_devices[2];
static double peak_of_second, fake_gpu;
static tp_status remember_peak(tp_callback *cb)
{
    tp_memory_use use;
    memset(&use, 0, sizeof use);
    CHECK_OK(tp_device_memory(tp_session_device(cb->train->session, 1), &use));
    CHECK(use.peak > 0);
    peak_of_second = (double)use.peak / 1e6;
    if (fake_gpu > 0) two_devices[1]->host = cb->train->epoch_num != 2; /* while the tracker asks */
    return TP_OK;
}
static tp_status a_host_again(tp_callback *cb)
{
    two_devices[1]->host = true;
    return cb ? TP_OK : TP_ERR;
}
static tp_node *on_second(tp_graph *g, void *user)
{
    (void)user;
    tp_node *x = NULL;
    TP_DEVICE(g, 1) x = tp_fill_like(tp_const(g, 0), 3);
    return tp_named(tp_add(x, x), "six");
}

TEST(memory_of_devices)
{
    for (int i = 0; i < 2; i++) {
        fake_gpu = i;
        told[0] = 0;
        tp_test_keep_log();
        CHECK_OK(tp_cpu_devices_new(2, 1, NULL, two_devices));
        tp_session_config config = tp_default_session_config();
        config.devices = two_devices, config.n_devices = 2;
        tp_trainer *t = tp_noop_trainer();
        t->creator = tp_new_session_creator(&config);
        tp_callback *cb[] = {
            tp_cb_run_op(.fn = on_second, .run_before = TP_YES), tp_cb_lambda(.trigger = remember_peak),
            tp_cb_gpu_memory_tracker(.devices = {1}, .n_devices = 1), tp_cb_lambda(.trigger = a_host_again)};
        tp_monitor *m = tp_monitor_new("Keeper", 0);
        m->process_scalar = keep_told;
        tp_train_desc d;
        memset(&d, 0, sizeof d);
        d.callbacks = cb, d.n_callbacks = 4, d.monitors = &m, d.n_monitors = 1;
        d.steps_per_epoch = 1, d.max_epoch = 2;
        CHECK_OK(tp_train(t, &d));
        tp_trainer_free(t);
        char want[200];
        snprintf(want, sizeof want, "PeakMemory(MB)/%s=%.17g ", i ? "gpu:1" : "cpu:1", peak_of_second);
        CHECK_HAS(told, want);
        CHECK(!strstr(tp_test_logged, "does not tell how much memory"));
        for (int k = 0; k < 2; k++) two_devices[k]->close(two_devices[k]);
    }
    TEST_MAY_ERROR("");
    tp_callback *cb = tp_cb_gpu_memory_tracker(.devices = {3}, .n_devices = 1);
    CHECK_ERR(train_with(&cb, 1, NULL, 0, 1, 1), TP_ERR_ARG, "the session has no device 3, but 1");
    cb = tp_cb_gpu_memory_tracker(.n_devices = -1);
    CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, ".n_devices is -1");
    tp_callback_free(cb);
}

/* A device that does not tell its memory is named once, and no numbers are reported for it. */
TEST(memory_of_a_device_that_does_not_tell)
{
    tp_device *device = NULL;
    told[0] = 0;
    tp_test_keep_log();
    CHECK_OK(tp_cpu_devices_new(1, 1, NULL, &device));
    device->memory = NULL;
    tp_session_config config = tp_default_session_config();
    config.devices = &device, config.n_devices = 1;
    tp_trainer *t = tp_noop_trainer();
    t->creator = tp_new_session_creator(&config);
    tp_callback *cb = tp_cb_gpu_memory_tracker();
    tp_monitor *m = tp_monitor_new("Keeper", 0);
    m->process_scalar = keep_told;
    tp_train_desc d;
    memset(&d, 0, sizeof d);
    d.callbacks = &cb, d.n_callbacks = 1, d.monitors = &m, d.n_monitors = 1;
    d.steps_per_epoch = 1, d.max_epoch = 2;
    CHECK_OK(tp_train(t, &d));
    tp_trainer_free(t);
    CHECK_HAS(tp_test_logged, "GPUMemoryTracker: cpu:0 does not tell how much memory it uses.");
    CHECK(!strstr(told, "PeakMemory"));
    device->close(device);
}

/* -- protobuf, as its documentation has it: a field of a message, its number and its bytes or its value */
typedef struct pb_field {
    unsigned number, wire;
    uint64_t value;
    const unsigned char *data;
    size_t size;
} pb_field;
static uint64_t pb_varint(const unsigned char **p, const unsigned char *end)
{
    uint64_t v = 0;
    for (int shift = 0; *p < end && shift < 64; shift += 7) {
        const unsigned char c = *(*p)++;
        v |= (uint64_t)(c & 127) << shift;
        if (!(c & 128)) break;
    }
    return v;
}
static bool pb_next(const unsigned char **p, const unsigned char *end, pb_field *f)
{
    if (*p >= end) return false;
    const uint64_t tag = pb_varint(p, end);
    f->number = (unsigned)(tag >> 3);
    f->wire = (unsigned)(tag & 7);
    f->size = 0;
    if (f->wire == 0) f->value = pb_varint(p, end);
    else {
        f->size = f->wire == 2 ? (size_t)pb_varint(p, end) : f->wire == 1 ? 8 : 4;
        f->data = *p;
        *p += f->size;
    }
    return *p <= end;
}

/* RunMetadata.step_stats.dev_stats: checks each node_stats; how many times an operation of this name is there. */
static int nodes_in_metadata(const unsigned char *data, size_t size, const char *name, int *all)
{
    const unsigned char *p0 = data;
    pb_field steps, device, node, f;
    int found = 0;
    *all = 0;
    if (!CHECK(pb_next(&p0, data + size, &steps) && steps.number == 1 && steps.wire == 2 && p0 == data + size))
        return 0;
    for (const unsigned char *p1 = steps.data; pb_next(&p1, steps.data + steps.size, &device);) {
        CHECK(device.number == 1 && device.wire == 2);
        for (const unsigned char *p2 = device.data; pb_next(&p2, device.data + device.size, &node);) {
            uint64_t start = 0, micros = 0, nanos = 0;
            if (node.number != 2) continue;
            ++*all;
            for (const unsigned char *p3 = node.data; pb_next(&p3, node.data + node.size, &f);) {
                if (f.number == 1 && f.size == strlen(name) && memcmp(f.data, name, f.size) == 0) found++;
                if (f.number == 2) start = f.value;
                if (f.number == 5) micros = f.value;
                if (f.number == 16) nanos = f.value;
            }
            const double now = (double)time(NULL);
            CHECK(fabs((double)start / 1e6 - now) < 100); /* microseconds since 1970 */
            CHECK(nanos / 1000 == micros && nanos < 60000000000u);
        }
    }
    return found;
}

static int n_events;
static char event_tag[40];
static int event_nodes, event_products;
static tp_status keep_event(tp_monitor *m, const tp_event *e)
{
    const unsigned char *p = (const unsigned char *)e->data, *end = p + e->size;
    pb_field tag, metadata;
    CHECK(m && e->field == 8 && e->step == m->cb.train->global_step);
    if (!CHECK(pb_next(&p, end, &tag) && tag.number == 1 && pb_next(&p, end, &metadata) && metadata.number == 2))
        return TP_OK;
    snprintf(event_tag, sizeof event_tag, "%.*s", (int)tag.size, (const char *)tag.data);
    event_products = nodes_in_metadata(metadata.data, metadata.size, "MatMul", &event_nodes);
    n_events++;
    return TP_OK;
}
static bool in_steps_2_and_3(tp_callback *wrapper, void *user)
{
    const int64_t next = wrapper->train->global_step + 1;
    return (void)user, next == 2 || next == 3;
}
static tp_node *a_product(tp_graph *g, void *user)
{
    (void)user;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(64, 64), tp_init_constant(0.5f));
    tp_name_scope_push(g, "");
    tp_node *y = tp_named(tp_matmul(w, w), "MatMul");
    tp_name_scope_pop(g);
    return y;
}

TEST(profiles_of_steps)
{
    tp_test_keep_log();
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    CHECK_OK(tp_logger_set_dir(folder, 'k'));
    n_events = 0;
    tp_callback *cb[] = {
        tp_cb_run_op(.fn = a_product, .run_before = TP_NO, .run_as_trigger = TP_NO, .run_step = TP_YES),
        tp_cb_enable_if(tp_cb_graph_profiler(.dump_metadata = TP_YES, .dump_event = TP_YES), in_steps_2_and_3)};
    tp_monitor *m = tp_monitor_new("Keeper", 0);
    m->process_event = keep_event;
    CHECK_OK(train_with(cb, 2, &m, 1, 3, 2));
    CHECK(n_events == 2);
    CHECK_STR(event_tag, "trace-3");
    CHECK(event_products == 1 && event_nodes > 1);
    for (int step = 1; step <= 6; step++) {
        char name[40];
        snprintf(name, sizeof name, "chrome-trace-%d.json", step);
        CHECK(tp_file_exists(tp_test_path(folder, name)) == (step == 2 || step == 3));
        if (step == 2 || step == 3) CHECK_HAS(text_of(tp_test_path(folder, name)), "\"node\":\"MatMul\"");
        snprintf(name, sizeof name, "runmetadata-%d.pb", step);
        char *data = NULL;
        size_t size = 0;
        int nodes = 0;
        CHECK(tp_file_exists(tp_test_path(folder, name)) == (step == 2 || step == 3));
        if (step != 2 && step != 3) continue;
        if (CHECK_OK(tp_file_read(tp_test_path(folder, name), false, 0, &data, &size)))
            CHECK(nodes_in_metadata((const unsigned char *)data, size, "MatMul", &nodes) == 1 && nodes > 1);
        tp_free(data);
    }
    tp_logger_set_dir(NULL, 0);
    TEST_MAY_ERROR("");
    cb[0] = tp_cb_graph_profiler(.dump_tracing = TP_NO);
    CHECK_ERR(tp_callback_status(cb[0]), TP_ERR_STATE, "GraphProfiler: no logger directory");
    tp_callback_free(cb[0]);
}

/* What cannot be written, or is not taken, ends the training with its sentence. */
static tp_status refuse_event(tp_monitor *m, const tp_event *e)
{
    (void)m;
    return e->field == 8 ? tp_fail(TP_ERR_NUMERIC, "no traces, please") : TP_OK;
}
TEST(profiles_that_cannot_be_written)
{
    static const char *const taken[] = {"chrome-trace-1.json", "runmetadata-1.pb", NULL, NULL};
    tp_test_keep_log();
    TEST_MAY_ERROR("");
    for (int i = 0; i < TP_COUNT(taken); i++) {
        char name[40];
        snprintf(name, sizeof name, "%d", i);
        snprintf(folder, sizeof folder, "%s", tp_test_path(tp_test_tmpdir(), name));
        CHECK_OK(tp_logger_set_dir(folder, 'k'));
        if (taken[i])
            CHECK(mkdir(tp_test_path(folder, taken[i]), 0777) == 0); /* a folder lies where the file belongs */
        tp_monitor *m = tp_monitor_new("Keeper", 0);
        if (i == 2) m->process_event = refuse_event;
        tp_callback *cb = tp_cb_graph_profiler(.dump_metadata = TP_YES, .dump_event = TP_YES);
        const tp_status st = train_with(&cb, 1, &m, 1, 1, 1);
        if (i == 3) CHECK_OK(st);
        else CHECK_ERR(st, i == 2 ? TP_ERR_NUMERIC : TP_ERR_IO, taken[i] ? taken[i] : "no traces, please");
        CHECK(tp_file_exists(tp_test_path(folder, "runmetadata-1.pb")) == (i != 0));
    }
    tp_logger_set_dir(NULL, 0);
}

/* ==== >>bars ========================================================================================== */

/* A training on a terminal of so many columns, or (0) with stderr in a pipe: what it writes to stderr, in `seen`. */
static tp_status slow_step(tp_callback *cb)
{
    tp_test_sleep(0.0005);
    if (cb->train->global_step == 3) tp_log(TP_LOG_INFO, "a message in between");
    return TP_OK;
}
static tp_status make_cost(tp_callback *cb)
{
    tp_name_scope_push(cb->train->graph, "");
    cb->train->cost = tp_named(tp_cast(tp_get_global_step_var(cb->train->graph), TP_F32), "training/cost");
    tp_name_scope_pop(cb->train->graph);
    return TP_OK;
}
static bool bar_of(int columns, const char *term)
{
    int fd[2] = {-1, -1};
    seen[0] = 0;
    if (columns) {
        fd[0] = posix_openpt(O_RDWR | O_NOCTTY);
        if (fd[0] < 0 || grantpt(fd[0]) != 0 || unlockpt(fd[0]) != 0) return false;
        fd[1] = open(ptsname(fd[0]), O_RDWR | O_NOCTTY);
        struct winsize w;
        memset(&w, 0, sizeof w);
        w.ws_col = (unsigned short)columns, w.ws_row = 24;
        if (fd[1] < 0 || ioctl(fd[1], TIOCSWINSZ, &w) != 0) return false;
    } else if (pipe(fd) != 0) {
        return false;
    }
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        setenv("TERM", term, 1);
        setenv("TENSORPACK_PROGRESS_REFRESH", "1e-9", 1);
        dup2(fd[1], 2);
        tp_test_default_log();
        tp_callback *cb[] = {tp_cb_lambda(.setup_graph = make_cost), tp_cb_progress_bar(), tp_callback_new("Slow", 0)};
        cb[2]->trigger_step = slow_step;
        _exit(train_with(cb, 3, NULL, 0, 6, 1) == TP_OK ? 0 : 1);
    }
    close(fd[1]);
    size_t n = 0;
    for (ssize_t got; n + 1 < MANY && (got = read(fd[0], seen + n, MANY - 1 - n)) > 0;) n += (size_t)got;
    seen[n] = 0;
    close(fd[0]);
    int status = 1;
    return waitpid(pid, &status, 0) == pid && status == 0;
}

TEST(bars_take_one_line_of_any_width)
{
    static const int widths[] = {200, 24, 12, 40, 1, 60, 5, 100, 2};
    if (!bar_of(80, "xterm")) TEST_SKIP("there are no pseudo-terminals here");
    for (int i = 0; i < (brief() ? 5 : TP_COUNT(widths)); i++) {
        int bars = 0;
        CHECK(bar_of(widths[i], "xterm-256color"));
        for (char *p = seen, *end; (end = strstr(p, "\033[K")) != NULL; p = end + 3) {
            const char *begin = end;
            while (begin > p && begin[-1] != '\r' && begin[-1] != '\n') begin--;
            const int length = (int)(end - begin);
            if (length) bars++; /* else the bar makes room for a message */
            CHECK_MSG(length < widths[i] || (widths[i] == 1 && length == 0), "%d columns: '%.*s'", widths[i], length,
                      begin);
            if (length >= 12) CHECK_MSG(memchr(begin, '%', 5) != NULL, "'%.*s'", length, begin);
            if (widths[i] == 200 && length) /* the bar itself is of 60 columns at most */
                CHECK_MSG(begin[4] == '|' && strcspn(begin + 5, "|") == 60, "'%.*s'", length, begin);
        }
        CHECK_MSG(bars >= (widths[i] > 1 ? 6 : 0), "%d columns: %d bars", widths[i], bars);
        if (widths[i] >= 24) CHECK_HAS(seen, "6/6");
        if (widths[i] >= 60) { /* progress, speed, loss, and how long it will take */
            CHECK_HAS(seen, "it/s]");
            CHECK_HAS(seen, ", cost=5\033[K\r\n");
            CHECK_HAS(seen, "100%");
            CHECK_HAS(seen, "[00:00<00:00,");
        }
        if (widths[i] >= 100) CHECK_HAS(seen, "100%|####");
        if (widths[i] < 40) CHECK(!strstr(seen, ", cost=")); /* this is left out first */
        CHECK((strstr(seen, "[00:00<00:00,") != NULL) == (widths[i] >= 40));
        CHECK((strstr(seen, "it/s]") != NULL) == (widths[i] >= 24));
        /* a message replaces the bar, which comes again behind it */
        const char *message = strstr(seen, "a message in between\r\n");
        if (!CHECK(message != NULL) || widths[i] < 24) continue;
        const char *before = strstr(seen, "\r\033[K\033[32m["); /* a line of the log begins there */
        CHECK(before && strstr(message, "4/6"));
    }
}

TEST(bars_elsewhere_are_plain_lines)
{
    for (int dumb = 0; dumb < 2; dumb++) {
        if (!bar_of(dumb ? 80 : 0, dumb ? "dumb" : "xterm")) TEST_SKIP("there are no pseudo-terminals here");
        int lines = 0;
        for (const char *p = seen; *p; p++) {
            if (!dumb) CHECK(*p != '\r');
            lines += *p == '\n';
        }
        CHECK(!strstr(seen, "\033[K"));
        CHECK_HAS(seen, " 16%|");
        CHECK_HAS(seen, "|1/6[00:00<00:00,");
        CHECK_HAS(seen, dumb ? ", cost=5\r\n" : ", cost=5\n");
        CHECK(lines >= 8);
    }
}

/* ==== >>Ctrl-C ======================================================================================== */

/* Each step adds 1 to a variable. */
static tp_node *count_steps(tp_graph *g, void *user)
{
    (void)user;
    return tp_assign_add(tp_get_scalar_variable(g, "counter", 0), tp_const(g, 1), NULL);
}
static int interrupt_at, times, models_to_keep = 2;
static tp_status interrupt(tp_callback *cb)
{
    if (cb->train->global_step != interrupt_at) return TP_OK;
    for (int i = 0; i < times; i++) raise(SIGINT);
    return TP_OK;
}
static tp_status score(tp_callback *cb)
{
    const int64_t e = cb->train->epoch_num;
    return tp_monitors_put_scalar(cb->train->monitors, "score", (double)((e * 7) % 5));
}

/* A state that each step adds 1 to, and that is zero again when an epoch begins: at the end of each epoch it is 4, also when the epoch
 * was interrupted and resumed. */
typedef struct counted {
    tp_node *state, *add, *zero;
} counted;
static tp_status counted_setup(tp_callback *cb)
{
    tp_graph *g = cb->train->graph;
    counted *c = (counted *)cb->user;
    tp_variable_desc d;
    memset(&d, 0, sizeof d);
    d.name = "state", d.init = tp_init_zeros(), d.trainable = TP_NO, d.local = true;
    c->state = tp_get_variable(g, &d);
    c->add = tp_assign_add(c->state, tp_const(g, 1), NULL);
    c->zero = tp_assign(c->state, tp_const(g, 0), NULL);
    return tp_graph_status(g);
}
static tp_status counted_begins(tp_callback *cb)
{
    const tp_train_state *t = cb->train;
    if (t->local_step >= 0 && t->local_step != t->steps_per_epoch - 1) return TP_OK;
    return tp_session_run(t->session, NULL, 0, &((counted *)cb->user)->zero, 1, NULL);
}
static tp_status counted_step(tp_callback *cb)
{
    return tp_session_run(cb->train->session, NULL, 0, &((counted *)cb->user)->add, 1, NULL);
}
static tp_status counted_end(tp_callback *cb)
{
    const tp_tensor *value[1];
    const tp_status st = tp_session_run(cb->train->session, NULL, 0, &((counted *)cb->user)->state, 1, value);
    if (st != TP_OK || tp_tensor_get(value[0], 0) == 4) return st;
    return tp_fail(TP_ERR_STATE, "the state is %g at the end of epoch %d", tp_tensor_get(value[0], 0),
                   (int)cb->train->epoch_num);
}
static tp_callback *counted_new(void)
{
    tp_callback *cb = tp_callback_new("Counted", sizeof(counted));
    cb->setup_graph = counted_setup;
    cb->before_epoch = counted_begins;
    cb->trigger_step = counted_step;
    cb->trigger = counted_end;
    return cb;
}

/* A training in `folder`, which goes on where another one stopped: 3 epochs of 4 steps. */
static tp_status saved_training(bool all_monitors)
{
    tp_monitor *m[2];
    tp_train_desc d;
    tp_train_config c;
    memset(&c, 0, sizeof c);
    memset(&d, 0, sizeof d);
    tp_status st = tp_logger_set_dir(folder, 'k');
    if (st == TP_OK) st = tp_auto_resume_train_config(&c);
    if (st != TP_OK) return st;
    tp_callback *cb[] = {
        tp_cb_run_op(.fn = count_steps, .run_before = TP_NO, .run_as_trigger = TP_NO, .run_step = TP_YES),
        tp_cb_lambda(.trigger = score),
        tp_cb_model_saver(.max_to_keep = models_to_keep),
        tp_cb_min_saver("score"),
        tp_cb_max_saver("score"),
        tp_callback_new("Interrupt", 0),
        counted_new()};
    cb[5]->before_epoch = interrupt;
    cb[5]->trigger_step = interrupt;
    m[0] = tp_monitor_json_writer();
    m[1] = all_monitors ? tp_monitor_tf_event_writer() : NULL;
    d.callbacks = cb, d.n_callbacks = TP_COUNT(cb);
    d.monitors = m, d.n_monitors = all_monitors ? 2 : 1;
    d.session_init = c.session_init;
    d.starting_epoch = c.starting_epoch;
    d.steps_per_epoch = 4, d.max_epoch = 3;
    tp_trainer *t = tp_noop_trainer();
    st = tp_train(t, &d);
    tp_trainer_free(t);
    tp_logger_set_dir(NULL, 0);
    return st;
}
static int saved_body(void *arg)
{
    const int fd = open("/dev/null", O_WRONLY);
    if (fd < 0 || dup2(fd, 2) < 0) return 9;
    const tp_status st = saved_training(*(bool *)arg);
    if (st != TP_OK && st != TP_INTR)
        printf("    the training ended with %s: %s\n", tp_status_name(st), tp_last_error()), fflush(stdout);
    return st == TP_OK ? 0 : st == TP_INTR ? 1 : 2;
}
static int saved_process(bool all_monitors)
{
    int status = -1;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) _exit(saved_body(&all_monitors));
    waitpid(pid, &status, 0);
    return status;
}
static double counter_in(const char *name)
{
    tp_dict d;
    double v = -1;
    memset(&d, 0, sizeof d);
    if (tp_load_checkpoint_vars(tp_test_path(folder, name), &d) == TP_OK && tp_dict_find(&d, "counter"))
        v = tp_tensor_get(tp_dict_find(&d, "counter"), 0);
    tp_dict_free(&d);
    return v;
}

TEST(ctrl_c_once_finishes_the_step_and_saves)
{
    tp_test_keep_log();
    for (int at = brief() ? 3 : 1; at <= 12; at += brief() ? 5 : 2 + (at == 3)) { /* 1, 3, 6, 8, 10, 12 */
        snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
        interrupt_at = at, times = 1;
        const int status = saved_process(false);
        CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 1, "at %d: %x", at, (unsigned)status);
        /* within an epoch a file of its own; at its end the ordinary one */
        char name[40];
        snprintf(name, sizeof name, at % 4 ? "interrupted.npz" : "model-%d.npz", at);
        CHECK_MSG(counter_in(name) == at, "at %d: %g", at, counter_in(name));
        interrupt_at = -1;
        CHECK(saved_process(false) == 0);
        CHECK_MSG(counter_in("model-12.npz") == 12, "at %d: %g", at, counter_in("model-12.npz"));
        CHECK(!tp_file_exists(tp_test_path(folder, "interrupted.npz")));
        CHECK_STR(text_of(tp_test_path(folder, "checkpoint")), "model_checkpoint_path: \"model-12\"\n"
                                                               "all_model_checkpoint_paths: \"model-8\"\n"
                                                               "all_model_checkpoint_paths: \"model-12\"\n");
        CHECK_HAS(text_of(tp_test_path(folder, "stats.json")),
                  "{\"score\": 1.0, \"epoch_num\": 3, \"global_step\": 12}]");
    }
}

TEST(ctrl_c_twice_ends_the_program)
{
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    interrupt_at = 6, times = 2;
    const int status = saved_process(false);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    CHECK(counter_in("model-4.npz") == 4 && !tp_file_exists(tp_test_path(folder, "interrupted.npz")));
    interrupt_at = -1;
    CHECK(saved_process(false) == 0 && counter_in("model-12.npz") == 12);
}

/* A process that was killed after it saved a model, and before it deleted interrupted.npz, leaves that to the next one. */
TEST(the_next_process_deletes_the_interrupted_model)
{
    const char *left = NULL;
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    left = tp_test_path(folder, "interrupted.npz");
    CHECK(saved_process(false) == 0 && counter_in("model-12.npz") == 12);
    CHECK(tp_test_write(left, "", 0));
    CHECK(saved_process(false) == 0 && counter_in("model-12.npz") == 12 && !tp_file_exists(left));
}

/* A resume that keeps fewer models deletes the others; the file "checkpoint" never names a model that is gone, also if the process
 * ends before it saves another model. */
TEST(a_resume_keeps_fewer_models)
{
    tp_test_keep_log();
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    models_to_keep = 3;
    interrupt_at = 10, times = 1;
    CHECK(WEXITSTATUS(saved_process(false)) == 1);
    CHECK_STR(text_of(tp_test_path(folder, "checkpoint")), "model_checkpoint_path: \"interrupted\"\n"
                                                           "all_model_checkpoint_paths: \"model-4\"\n"
                                                           "all_model_checkpoint_paths: \"model-8\"\n"
                                                           "all_model_checkpoint_paths: \"interrupted\"\n");
    models_to_keep = 1;
    interrupt_at = 11, times = 2;
    CHECK(WIFSIGNALED(saved_process(false)));
    CHECK(!tp_file_exists(tp_test_path(folder, "model-4.npz")) && counter_in("model-8.npz") == 8);
    CHECK(counter_in("interrupted.npz") == 10);
    CHECK_STR(text_of(tp_test_path(folder, "checkpoint")), "model_checkpoint_path: \"interrupted\"\n"
                                                           "all_model_checkpoint_paths: \"model-8\"\n"
                                                           "all_model_checkpoint_paths: \"interrupted\"\n");
    models_to_keep = 3;
    interrupt_at = -1;
    CHECK(saved_process(false) == 0 && counter_in("model-12.npz") == 12 && counter_in("model-8.npz") == 8);
    models_to_keep = 1; /* nothing is left to train */
    CHECK(saved_process(false) == 0 && counter_in("model-12.npz") == 12);
    CHECK(!tp_file_exists(tp_test_path(folder, "model-8.npz")));
    CHECK_STR(text_of(tp_test_path(folder, "checkpoint")), "model_checkpoint_path: \"model-12\"\n"
                                                           "all_model_checkpoint_paths: \"model-12\"\n");
    models_to_keep = 2;
}

/* ==== >>kills ========================================================================================= */

/* True if every checkpoint, stats.json and event file that exists can be read. */
static bool all_can_be_read(void)
{
    static const char *const models[] = {"model-4.npz",     "model-8.npz",   "model-12.npz",
                                         "interrupted.npz", "min-score.npz", "max-score.npz"};
    char latest[1000], file[1100];
    tp_stat_entry *stats = NULL;
    int n = 0;
    bool good = true;
    for (int i = 0; i < TP_COUNT(models); i++)
        if (tp_file_exists(tp_test_path(folder, models[i])))
            good = CHECK_MSG(counter_in(models[i]) >= 1, "%s: %s", models[i], tp_last_error()) && good;
    if (tp_file_exists(tp_test_path(folder, "checkpoint"))) {
        good = CHECK_OK(tp_checkpoint_state_latest(folder, latest, sizeof latest)) && good;
        snprintf(file, sizeof file, "%s.npz", latest);
        good = CHECK_MSG(tp_file_exists(file), "%s", file) && good;
    }
    if (tp_file_exists(tp_test_path(folder, "stats.json")))
        good = CHECK_OK(tp_load_existing_stats(folder, &stats, &n)) && good;
    tp_free(stats);
    return good;
}

TEST(what_a_kill_leaves_can_be_read)
{
    inject_plan plan;
    inject_result r;
    bool monitors = true;
    tp_test_keep_log();
    memset(&plan, 0, sizeof plan);
    memset(&r, 0, sizeof r);
    interrupt_at = -1;
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    if (inject_run(saved_body, &monitors, &plan, &r) != 0) TEST_SKIP(r.why);
    const long calls = r.calls, kills = brief() ? 25 : 200;
    CHECK_MSG(WIFEXITED(r.status) && WEXITSTATUS(r.status) == 0 && calls > 200, "%ld calls, %x", calls,
              (unsigned)r.status);
    int fired = 0;
    for (long k = 0; k < kills; k++) {
        tp_test_remove(folder);
        if (!CHECK(mkdir(folder, 0777) == 0)) return;
        plan.what = INJECT_KILL;
        plan.n = 1 + k * (calls - 1) / (kills - 1);
        memset(&r, 0, sizeof r);
        if (!CHECK(inject_run(saved_body, &monitors, &plan, &r) == 0)) return;
        fired += WIFSIGNALED(r.status) && WTERMSIG(r.status) == SIGKILL;
        if (!all_can_be_read()) break;
        if (k % 10) continue;
        CHECK(saved_process(true) == 0);
        if (!CHECK_MSG(counter_in("model-12.npz") == 12, "killed at call %ld", plan.n)) break;
    }
    CHECK_MSG(fired >= kills - 5, "%d of %ld", fired, kills);
}

TEST_MAIN()
