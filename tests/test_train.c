/* test_train.c - callbacks, monitors, trainers and resume (tp_callbacks.h, tp_train.h); also compiled as C++
 * */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_test.h"
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* ==== >>helpers ======================================================================================= */

/* A trace that callbacks write to, words with spaces between. */
static char trace[1 << 14];
static size_t trace_n;

static void trace_clear(void)
{
    trace_n = 0;
    trace[0] = 0;
}

static void trace_add(const char *fmt, ...) TP_PRINTF(1, 2);
static void trace_add(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (trace_n) trace[trace_n++] = ' ';
    static locale_t plain; /* what is expected has points, whatever locale the test runs under */
    if (!plain) plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const locale_t before = uselocale(plain);
    const int n = vsnprintf(trace + trace_n, sizeof trace - trace_n, fmt, ap);
    uselocale(before);
    va_end(ap);
    if (n > 0 && trace_n + (size_t)n < sizeof trace - 64) trace_n += (size_t)n;
}

/* A callback that writes down each hook: "A.before_run(1,0,0)", or without the counters "A.before_run". */
typedef struct recorder {
    const char *letter;
    bool counters;
    const char *fail_in; /* this hook returns `status` ... */
    tp_status status;
    int64_t at_step; /* ... once global_step is this */
    int raises;      /* a signal; 0: none */
} recorder;

static tp_status record(tp_callback *cb, const char *hook)
{
    const recorder *r = (const recorder *)cb->user;
    const tp_train_state *t = cb->train;
    if (r->counters)
        trace_add("%s.%s(%d,%d,%d)", r->letter, hook, (int)t->epoch_num, (int)t->global_step, (int)t->local_step);
    else trace_add("%s.%s", r->letter, hook);
    if (!r->fail_in || strcmp(r->fail_in, hook) != 0 || t->global_step < r->at_step) return TP_OK;
    if (r->raises) raise(r->raises);
    else if (r->status == TP_STOP) return tp_stop(cb->train, "recorder wants it");
    return r->status < 0 ? tp_fail(r->status, "recorder fails in %s", hook) : r->status;
}

static tp_status rec_setup_graph(tp_callback *cb) { return record(cb, "setup_graph"); }
static tp_status rec_before_train(tp_callback *cb) { return record(cb, "before_train"); }
static tp_status rec_before_epoch(tp_callback *cb) { return record(cb, "before_epoch"); }
static tp_status rec_before_run(tp_callback *cb, tp_run_request *r)
{
    (void)r;
    return record(cb, "before_run");
}
static tp_status rec_after_run(tp_callback *cb, const tp_run_values *v)
{
    CHECK(v->n == 0);
    return record(cb, "after_run");
}
static tp_status rec_trigger_step(tp_callback *cb) { return record(cb, "trigger_step"); }
static tp_status rec_after_epoch(tp_callback *cb) { return record(cb, "after_epoch"); }
static tp_status rec_trigger_epoch(tp_callback *cb) { return record(cb, "trigger_epoch"); }
static tp_status rec_trigger(tp_callback *cb) { return record(cb, "trigger"); }
static tp_status rec_after_train(tp_callback *cb) { return record(cb, "after_train"); }

static tp_callback *rec_new(const char *letter, bool counters)
{
    tp_callback *cb = tp_callback_new("Recorder", sizeof(recorder));
    ((recorder *)cb->user)->letter = letter;
    ((recorder *)cb->user)->counters = counters;
    cb->setup_graph = rec_setup_graph;
    cb->before_train = rec_before_train;
    cb->before_epoch = rec_before_epoch;
    cb->before_run = rec_before_run;
    cb->after_run = rec_after_run;
    cb->trigger_step = rec_trigger_step;
    cb->after_epoch = rec_after_epoch;
    cb->trigger = rec_trigger;
    cb->after_train = rec_after_train;
    return cb;
}

static tp_callback *rec_fails(const char *letter, const char *hook, tp_status status, int64_t at_step)
{
    tp_callback *cb = rec_new(letter, false);
    recorder *r = (recorder *)cb->user;
    r->fail_in = hook;
    r->status = status;
    r->at_step = at_step;
    return cb;
}

/* A checkpoint in memory that holds nothing but global_step. */
static tp_session_init *start_at(int64_t global_step)
{
    tp_dict d;
    memset(&d, 0, sizeof d);
    tp_tensor *t = tp_dict_add(&d, "global_step");
    if (t && tp_tensor_resize(t, TP_I64, tp_make_shape_n(0, NULL)) == TP_OK)
        memcpy(t->data, &global_step, sizeof global_step);
    tp_session_init *i = tp_dict_restore(&d, false);
    tp_dict_free(&d);
    return i;
}

/* Train a NoOpTrainer with these callbacks (it frees them); the trainer's state is looked at by `look` before
 * it goes. */
static tp_status run_noop_and(tp_callback *const *cb, int n, int64_t steps, int64_t first, int64_t last,
                              tp_session_init *init, void (*look)(tp_trainer *t))
{
    tp_train_desc d;
    memset(&d, 0, sizeof d);
    d.callbacks = cb;
    d.n_callbacks = n;
    d.session_init = init;
    d.steps_per_epoch = steps ? steps : TP_NO_STEPS;
    d.starting_epoch = first;
    d.max_epoch = last;
    tp_trainer *t = tp_noop_trainer();
    const tp_status st = tp_train(t, &d);
    if (look) look(t);
    tp_trainer_free(t);
    return st;
}

static tp_status run_noop(tp_callback *const *cb, int n, int64_t steps, int64_t first, int64_t last)
{
    return run_noop_and(cb, n, steps, first, last, NULL, NULL);
}

/* Constructors, as C and C++ can both call them. */
static tp_callback *periodic_trigger(tp_callback *cb, int64_t steps, int64_t epochs, int before)
{
    tp_cb_periodic_trigger_desc d;
    memset(&d, 0, sizeof d);
    d.cb = cb;
    d.every_k_steps = steps;
    d.every_k_epochs = epochs;
    d.before_train = before;
    return tp_cb_periodic_trigger_(&d);
}

static tp_callback *periodic_callback(tp_callback *cb, int64_t steps, int64_t epochs)
{
    tp_cb_periodic_callback_desc d;
    memset(&d, 0, sizeof d);
    d.cb = cb;
    d.every_k_steps = steps;
    d.every_k_epochs = epochs;
    return tp_cb_periodic_callback_(&d);
}

/* A list longer than its option is refused: a compiler has cut it, and says so only in a warning. */
static tp_status nothing(tp_callback *cb, const tp_tensor *const *v, int n, void *user)
{
    (void)cb, (void)v, (void)n, (void)user;
    return TP_OK;
}
TEST(lists_that_do_not_fit_are_refused)
{
    tp_test_keep_log();
    tp_cb_process_tensors_desc p;
    tp_cb_progress_bar_desc bar;
    tp_cb_model_saver_desc saver;
    tp_cb_scheduled_hyper_param_setter_desc s;
    tp_monitor_scalar_printer_desc m;
    tp_inf_scalar_stats_desc inf;
    memset(&p, 0, sizeof p), memset(&bar, 0, sizeof bar), memset(&saver, 0, sizeof saver);
    memset(&s, 0, sizeof s), memset(&m, 0, sizeof m), memset(&inf, 0, sizeof inf);
    for (int i = 0; i <= TP_MAX_NAMES; i++)
        p.names[i] = bar.names[i] = saver.var_collections[i] = m.blacklist[i] = inf.names[i] = "name";
    for (int i = 0; i <= TP_MAX_SCHEDULE; i++) s.schedule[i].at = i + 1, s.schedule[i].value = 0.5;
    p.fn = nothing;
    s.name = "lr";
    tp_callback *cb[] = {tp_cb_process_tensors_(&p), tp_cb_progress_bar_(&bar), tp_cb_model_saver_(&saver),
                         tp_cb_scheduled_hyper_param_setter_(&s)};
    for (int i = 0; i < TP_COUNT(cb); i++) {
        CHECK(cb[i]->status_ == TP_ERR_ARG);
        CHECK_HAS(cb[i]->error_, "at most");
        tp_callback_free(cb[i]);
    }
    tp_monitor *printer = tp_monitor_scalar_printer_(&m);
    CHECK(printer->cb.status_ == TP_ERR_ARG);
    tp_monitor_free(printer);
    tp_inferencer *stats = tp_inf_scalar_stats_(&inf);
    CHECK(stats->status_ == TP_ERR_ARG);
    tp_inferencer_free(stats);
    p.names[TP_MAX_NAMES] = NULL; /* one less fits */
    s.schedule[TP_MAX_SCHEDULE].at = 0, s.schedule[TP_MAX_SCHEDULE].value = 0;
    tp_callback *full[] = {tp_cb_process_tensors_(&p), tp_cb_scheduled_hyper_param_setter_(&s)};
    for (int i = 0; i < TP_COUNT(full); i++) {
        CHECK(full[i]->status_ == TP_OK);
        tp_callback_free(full[i]);
    }
}

static void no_epoch(tp_trainer *t) { CHECK(t->state.max_epoch == 0 && t->state.global_step == 0); }
static void many_epochs(tp_trainer *t)
{
    CHECK(t->state.starting_epoch == 1 && t->state.max_epoch == 9999999 && t->state.global_step == 2);
}
static void epoch_0(tp_trainer *t)
{
    CHECK(t->state.starting_epoch == 0 && t->state.epoch_num == 2 && t->state.global_step == 6);
}
TEST(zero_epochs_have_a_spelling)
{
    tp_test_keep_log();
    CHECK_OK(run_noop_and(NULL, 0, 2, 1, TP_NONE, NULL, no_epoch));
    CHECK_OK(run_noop_and(NULL, 0, 2, TP_NONE, 2, NULL, epoch_0));
    tp_callback *cb = rec_fails("A", "trigger", TP_STOP, 2); /* zeros: the first epoch, and no last one to speak of */
    CHECK_OK(run_noop_and(&cb, 1, 2, 0, 0, NULL, many_epochs));
}

/* ==== >>loop ========================================================================================== */

TEST(counters_of_every_hook)
{
    tp_test_keep_log();
    trace_clear();
    tp_callback *cb = rec_new("A", true);
    if (!CHECK_OK(run_noop(&cb, 1, 2, 1, 2))) return;
    CHECK_STR(trace, "A.setup_graph(0,0,-1) A.before_train(0,0,-1) "
                     "A.before_epoch(1,0,-1) "
                     "A.before_run(1,0,0) A.after_run(1,1,0) A.trigger_step(1,1,0) "
                     "A.before_run(1,1,1) A.after_run(1,2,1) A.trigger_step(1,2,1) "
                     "A.after_epoch(1,2,1) A.trigger(1,2,1) "
                     "A.before_epoch(2,2,1) "
                     "A.before_run(2,2,0) A.after_run(2,3,0) A.trigger_step(2,3,0) "
                     "A.before_run(2,3,1) A.after_run(2,4,1) A.trigger_step(2,4,1) "
                     "A.after_epoch(2,4,1) A.trigger(2,4,1) "
                     "A.after_train(2,4,1)");
    CHECK_HAS(tp_test_logged, "Start Epoch 1 ...\nEpoch 1 (global_step 2) finished, time:");
    CHECK_HAS(tp_test_logged, "Training has finished!");
}

TEST(callbacks_take_turns)
{
    tp_test_keep_log();
    trace_clear();
    tp_callback *cb[2] = {rec_new("A", false), rec_new("B", false)};
    cb[1]->trigger_epoch = rec_trigger_epoch;
    if (!CHECK_OK(run_noop(cb, 2, 1, 1, 1))) return;
    CHECK_STR(trace, "A.setup_graph B.setup_graph A.before_train B.before_train A.before_epoch B.before_epoch "
                     "A.before_run B.before_run A.after_run B.after_run A.trigger_step B.trigger_step "
                     "A.after_epoch B.after_epoch A.trigger B.trigger_epoch A.after_train B.after_train");
}

TEST(stop_in_a_step)
{
    tp_test_keep_log();
    trace_clear();
    tp_callback *cb[2] = {rec_fails("A", "trigger_step", TP_STOP, 2), rec_new("B", false)};
    if (!CHECK_OK(run_noop(cb, 2, 3, 1, 5))) return;
    const char *end = strstr(trace, "A.trigger_step B.trigger_step");
    CHECK_STR(end, "A.trigger_step B.trigger_step A.before_run B.before_run A.after_run B.after_run A.trigger_step "
                   "A.after_train B.after_train");
    CHECK_HAS(tp_test_logged, "Training was stopped: recorder wants it.");
}

/* Why to stop is forgotten where the training begins: who stops it then gives no reason. */
static tp_status gives_a_reason(tp_callback *cb)
{
    CHECK(tp_stop(cb->train, "of an early reason") == TP_STOP);
    return TP_OK;
}
static tp_status stops(tp_callback *cb)
{
    (void)cb;
    return TP_STOP;
}
TEST(reasons_given_before_the_loop_are_not_its_own)
{
    tp_test_keep_log();
    tp_callback *cb = tp_callback_new("Stopper", 0);
    cb->setup_graph = gives_a_reason;
    cb->trigger_step = stops;
    CHECK_OK(run_noop(&cb, 1, 3, 1, 5));
    CHECK_HAS(tp_test_logged, "Training was stopped: Stopper returned TP_STOP.\n");
    CHECK(!strstr(tp_test_logged, "early"));
}

/* A training that is stopped while the graph is set up is a success, too, and says why. */
static tp_status stops_with_a_reason(tp_callback *cb) { return tp_stop(cb->train, "there is nothing to do"); }
TEST(stop_before_the_loop)
{
    static const char *const said[] = {"Training was stopped: Stopper returned TP_STOP.\n",
                                       "Training was stopped: there is nothing to do.\n"};
    for (int i = 0; i < 2; i++) {
        tp_test_keep_log();
        trace_clear();
        tp_callback *cb[2] = {tp_callback_new("Stopper", 0), rec_new("B", false)};
        cb[0]->setup_graph = i ? stops_with_a_reason : stops;
        CHECK_OK(run_noop(cb, 2, 3, 1, 5));
        CHECK_HAS(tp_test_logged, said[i]);
        CHECK_STR(trace, "");
    }
}

/* A checkpoint that a step asks for comes after that step, that of the last step with the epoch. */
static tp_status asks(tp_callback *cb)
{
    tp_callback_request_checkpoint(cb);
    return TP_OK;
}
static tp_status writes(tp_callback *cb)
{
    trace_add("%d", (int)cb->train->global_step);
    return TP_OK;
}
static tp_status ends(tp_callback *cb)
{
    trace_add("end%d", (int)cb->train->epoch_num);
    return TP_OK;
}
TEST(a_checkpoint_comes_after_the_step_that_asks_for_it)
{
    tp_test_keep_log();
    trace_clear();
    tp_callback *cb = tp_callback_new("Asker", 0);
    cb->trigger_step = asks;
    cb->checkpoint = writes;
    cb->after_epoch = ends;
    CHECK_OK(run_noop(&cb, 1, 4, 1, 2));
    CHECK_STR(trace, "1 2 3 end1 4 5 6 7 end2 8");
}

TEST(end_of_data_is_success)
{
    tp_test_keep_log();
    tp_callback *cb = rec_fails("A", "before_run", TP_END, 3);
    CHECK_OK(run_noop(&cb, 1, 2, 1, 5));
    CHECK_HAS(tp_test_logged, "Training was stopped: the input has no more data");
}

TEST(failing_before_train)
{
    TEST_EXPECT_ERROR("recorder fails in before_train");
    tp_test_keep_log();
    trace_clear();
    tp_callback *cb[3] = {rec_new("A", false), rec_fails("B", "before_train", TP_ERR_ARG, 0), rec_new("C", false)};
    CHECK_ERR(run_noop(cb, 3, 1, 1, 1), TP_ERR_ARG, "recorder fails in before_train");
    CHECK_STR(trace, "A.setup_graph B.setup_graph C.setup_graph A.before_train B.before_train "
                     "A.after_train B.after_train C.after_train");
    CHECK_HAS(tp_test_logged, "Training failed at global_step=0: Recorder: recorder fails in before_train");
}

TEST(after_train_of_all)
{
    TEST_EXPECT_ERROR("after_train failed: recorder fails in after_train");
    tp_test_keep_log();
    trace_clear();
    tp_callback *cb[3] = {rec_fails("A", "after_train", TP_ERR_IO, 0), rec_fails("B", "trigger", TP_STOP, 0),
                          rec_new("C", false)};
    CHECK_OK(run_noop(cb, 3, 1, 1, 3)); /* the outcome is B's, whatever A says at the end */
    CHECK_HAS(trace, "B.trigger C.trigger A.after_train B.after_train C.after_train");
    CHECK_HAS(tp_test_logged, "after_train failed: recorder fails in after_train");
}

TEST(no_epochs_and_no_steps)
{
    tp_test_keep_log();
    trace_clear();
    tp_callback *cb = rec_new("A", true);
    CHECK_OK(run_noop(&cb, 1, 2, 5, 4));
    CHECK_STR(trace, "A.setup_graph(0,0,-1) A.before_train(4,0,-1) A.after_train(4,0,-1)");
    trace_clear();
    cb = rec_new("A", true);
    CHECK_OK(run_noop(&cb, 1, 0, 1, 1));
    CHECK_STR(trace, "A.setup_graph(0,0,-1) A.before_train(0,0,-1) A.before_epoch(1,0,-1) "
                     "A.after_epoch(1,0,-1) A.trigger(1,0,-1) "
                     "A.after_train(1,0,-1)");
}

static volatile sig_atomic_t other_handler_ran;
static void other_handler(int signal_number)
{
    (void)signal_number;
    other_handler_ran++;
}

TEST(ctrl_c_in_the_middle_of_an_epoch)
{
#ifdef TP_NO_SIGNALS
    TEST_SKIP("without signals there is no Ctrl-C");
#endif
    tp_test_keep_log();
    trace_clear();
    struct sigaction mine, before;
    memset(&mine, 0, sizeof mine);
    mine.sa_handler = other_handler;
    sigaction(SIGINT, &mine, &before);
    tp_callback *cb[2] = {rec_fails("A", "after_run", TP_OK, 3), rec_new("B", false)};
    ((recorder *)cb[0]->user)->raises = SIGINT;
    CHECK(run_noop(cb, 2, 5, 1, 5) == TP_INTR);
    const char *end = strstr(trace, "A.trigger_step B.trigger_step A.after_train"); /* the step is finished */
    CHECK_STR(end, "A.trigger_step B.trigger_step A.after_train B.after_train");
    CHECK_HAS(tp_test_logged,
              "Ctrl-C or tp_interrupt: this step is finished, then the model is saved and training ends.");
    CHECK_HAS(tp_test_logged, "Detected Ctrl-C or tp_interrupt and exiting main loop.");
    CHECK(other_handler_ran == 0);
    raise(SIGINT); /* the old handler is back */
    CHECK(other_handler_ran == 1);
    sigaction(SIGINT, &before, NULL);
}

/* Processes that are forked while a training runs: the training is not theirs, and one Ctrl-C ends them. The second one trains itself:
 * Ctrl-C ends that training alone, and then the handler is as it was. */
static int forked;
static tp_status fork_another(tp_callback *cb)
{
    (void)cb;
    int status = 0;
    const bool trains = forked++ == 1;
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        tp_callback *press = rec_fails("Press", "after_run", TP_OK, 1);
        ((recorder *)press->user)->raises = SIGINT;
        if (trains && run_noop(&press, 1, 5, 1, 1) != TP_INTR) _exit(1);
        tp_callback_free(trains ? NULL : press);
        raise(SIGINT);
        _exit(2);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT, "status %x", (unsigned)status);
    return TP_OK;
}
TEST(ctrl_c_in_a_forked_process)
{
#ifdef TP_NO_SIGNALS
    TEST_SKIP("without signals there is no Ctrl-C");
#endif
#ifdef __SANITIZE_THREAD__
    TEST_SKIP("tsan holds back the signals of a forked child, and ends it when it begins threads");
#endif
    tp_callback *cb = tp_callback_new("Forks", 0);
    cb->trigger_step = fork_another;
    forked = 0;
    CHECK_OK(run_noop(&cb, 1, 2, 1, 1));
    CHECK(forked == 2);
}

/* A program that ignores Ctrl-C: a training does not notice it, and leaves it ignored. */
TEST(ctrl_c_that_is_ignored)
{
#ifdef TP_NO_SIGNALS
    TEST_SKIP("without signals there is no Ctrl-C");
#endif
    struct sigaction mine, before, now;
    memset(&mine, 0, sizeof mine);
    mine.sa_handler = SIG_IGN;
    sigaction(SIGINT, &mine, &before);
    for (int turn = 0; turn < 2; turn++) {
        tp_callback *cb = rec_fails("A", "after_run", TP_OK, 3);
        ((recorder *)cb->user)->raises = SIGINT;
        CHECK_OK(run_noop(&cb, 1, 5, 1, 5));
        CHECK(sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler == SIG_IGN);
    }
    sigaction(SIGINT, &before, NULL);
}

/* Another copy of the library, whose training begins later and ends later: it sets its own handler, and restores the one before. */
static struct sigaction others_before;
static void others_handler(int number) { (void)number; }
static tp_status begins_the_others(tp_callback *cb)
{
    struct sigaction others;
    (void)cb;
    memset(&others, 0, sizeof others);
    others.sa_handler = others_handler;
    return sigaction(SIGINT, &others, &others_before) == 0 ? TP_OK : TP_ERR;
}
TEST(ctrl_c_beside_another_copy_of_the_library)
{
#ifdef TP_NO_SIGNALS
    TEST_SKIP("without signals there is no Ctrl-C");
#endif
    struct sigaction mine, before, now;
    memset(&mine, 0, sizeof mine);
    mine.sa_handler = other_handler;
    sigaction(SIGINT, &mine, &before);
    other_handler_ran = 0;
    for (int turn = 1; turn <= 2; turn++) {
        tp_callback *cb = tp_callback_new("BeginsTheOthers", 0);
        cb->trigger = begins_the_others;
        CHECK_OK(run_noop(&cb, 1, 1, 1, 1));
        CHECK(sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler == others_handler); /* it still trains */
        sigaction(SIGINT, &others_before, NULL);
        raise(SIGINT); /* nobody trains: the program's handler gets it */
        CHECK(other_handler_ran == turn);
        CHECK(sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler == other_handler);
    }
    sigaction(SIGINT, &before, NULL);
}

/* Two trainings at a time. The first one, on a thread, waits in its callback until the second lets it end. */
typedef struct other_training {
    tp_mutex *mutex;
    tp_cond *changed;
    bool runs, may_end;
    tp_status ended;
    tp_thread *thread;
} other_training;
static other_training other;

static tp_status wait_to_end(tp_callback *cb)
{
    (void)cb;
    tp_mutex_lock(other.mutex);
    other.runs = true;
    tp_cond_broadcast(other.changed);
    while (!other.may_end) tp_cond_wait(other.changed, other.mutex);
    tp_mutex_unlock(other.mutex);
    return TP_OK;
}

static void train_there(void *user)
{
    tp_callback *cb = tp_callback_new("Waits", 0);
    (void)user;
    cb->trigger = wait_to_end;
    other.ended = run_noop(&cb, 1, 1, 1, 1);
}

static tp_status end_the_other(tp_callback *cb)
{
    if (cb->train->epoch_num != 2) return TP_OK;
    tp_mutex_lock(other.mutex);
    other.may_end = true;
    tp_cond_broadcast(other.changed);
    tp_mutex_unlock(other.mutex);
    tp_thread_join(other.thread);
    raise(SIGINT);
    return TP_OK;
}

static tp_status train_inside(tp_callback *cb)
{
    if (cb->train->epoch_num == 2) raise(SIGINT);
    tp_callback *inner = tp_callback_new("Inner", 0);
    return run_noop(&inner, 1, 2, 1, 2) == (cb->train->epoch_num == 2 ? TP_INTR : TP_OK) ? TP_OK : TP_ERR_STATE;
}

TEST(ctrl_c_with_two_trainings)
{
#ifdef TP_NO_SIGNALS
    TEST_SKIP("without signals there is no Ctrl-C");
#endif
#ifdef TP_NO_THREADS
    TEST_SKIP("without threads there are no two trainings at a time");
#endif
    tp_test_keep_log();
    struct sigaction mine, before;
    memset(&mine, 0, sizeof mine);
    mine.sa_handler = other_handler;
    sigaction(SIGINT, &mine, &before);
    other_handler_ran = 0;
    memset(&other, 0, sizeof other);
    other.mutex = tp_mutex_new();
    other.changed = tp_cond_new();

    /* the one that began first ends first: Ctrl-C still interrupts the other, and then the program's handler is back */
    CHECK_OK(tp_thread_start(&other.thread, train_there, NULL));
    tp_mutex_lock(other.mutex);
    while (!other.runs) tp_cond_wait(other.changed, other.mutex);
    tp_mutex_unlock(other.mutex);
    tp_callback *cb = tp_callback_new("EndsTheOther", 0);
    cb->trigger = end_the_other;
    CHECK(run_noop(&cb, 1, 1, 1, 5) == TP_INTR);
    CHECK(other.ended == TP_OK && other_handler_ran == 0);
    raise(SIGINT);
    CHECK(other_handler_ran == 1);

    /* one within a callback of the other: both are interrupted, though the inner one began after Ctrl-C */
    cb = tp_callback_new("TrainsInside", 0);
    cb->trigger = train_inside;
    CHECK(run_noop(&cb, 1, 1, 1, 5) == TP_INTR);
    raise(SIGINT);
    CHECK(other_handler_ran == 2);
    sigaction(SIGINT, &before, NULL);
    tp_cond_free(other.changed);
    tp_mutex_free(other.mutex);
}

static tp_status request_stop(tp_callback *cb)
{
    if (cb->train->global_step == 2) tp_hooked_session_request_stop(cb->train->hooked_session);
    return TP_OK;
}

TEST(a_hook_requests_a_stop)
{
    tp_test_keep_log();
    trace_clear();
    tp_callback *cb[2] = {rec_new("A", true), tp_callback_new("Stopper", 0)};
    cb[1]->trigger_step = request_stop;
    CHECK_OK(run_noop(cb, 2, 5, 1, 5));
    CHECK_HAS(trace, "A.trigger_step(1,2,1) A.after_train(1,2,2)");
}

TEST(chief_only_callbacks_are_skipped_elsewhere)
{
    tp_test_keep_log();
    trace_clear();
    tp_trainer *t = tp_noop_trainer();
    t->state.is_chief = false;
    CHECK_OK(tp_trainer_register_callback(t, rec_new("A", false)));
    CHECK_OK(tp_trainer_register_callback(t, tp_callback_set_chief_only(rec_new("B", false), false)));
    CHECK_HAS(tp_test_logged, "Recorder is chief-only, skipped.");
    CHECK_OK(tp_trainer_setup_callbacks(t, NULL, 0, NULL, 0));
    CHECK_STR(trace, "B.setup_graph");
    CHECK_OK(tp_trainer_initialize(t, start_at(7)));
    CHECK(t->state.global_step == 0); /* only the chief loads */
    CHECK_HAS(tp_test_logged, "'session_init' was ignored");
    CHECK_ERR(tp_trainer_register_callback(t, rec_new("C", false)), TP_ERR_STATE, "too late");
    CHECK_ERR(tp_trainer_setup_callbacks(t, NULL, 0, NULL, 0), TP_ERR_STATE, "once");
    CHECK_ERR(tp_trainer_initialize(t, NULL), TP_ERR_STATE, "once");
    CHECK_ERR(tp_trainer_main_loop(t, -1, 1, 1), TP_ERR_ARG, "negative");
    CHECK_OK(tp_trainer_main_loop(t, 1, 1, 1));
    CHECK_ERR(tp_trainer_main_loop(t, 1, 1, 1), TP_ERR_STATE, "once");
    tp_trainer_free(t);
}

TEST(monitors_are_not_callbacks)
{
    tp_test_keep_log();
    tp_callback *cb = &tp_monitor_new("Mine", 0)->cb;
    CHECK_ERR(run_noop(&cb, 1, 1, 1, 1), TP_ERR_ARG, "the monitor 'Mine' is among the callbacks");
    cb = NULL;
    CHECK_ERR(run_noop(&cb, 1, 1, 1, 1), TP_ERR_NOMEM, "callbacks[0] of 1 is NULL");
}

TEST(time_for_humans)
{
    static const struct {
        double seconds;
        const char *text;
    } c[] = {{1, "1 second"},
             {61, "1 minute 1 second"},
             {87.6, "1 minute 27 seconds"},
             {0.01, "0.01 second"},
             {0.5, "0.5 second"},
             {1.25, "1.25 seconds"},
             {59.96, "60 seconds"},
             {60, "1 minute"},
             {3600, "1 hour"},
             {118923, "1 day 9 hours 2 minutes 3 seconds"},
             {86400.0 * 999, "999 days"},
             {86400.0 * 1000, "1000 days"},
             {86400.0 * 1234567 + 7261, "1234567 days 2 hours 1 minute 1 second"},
             {86400.0 * 1e20, "1e+20 days"},
             {0, "0 second"},
             {-3, "-3 seconds"}};
    tp_test_keep_log();
    char buf[TP_TIME_TEXT];
    for (int i = 0; i < TP_COUNT(c); i++) CHECK_STR(tp_humanize_time_delta(c[i].seconds, buf), c[i].text);
    CHECK(tp_test_warnings == 1);
}

/* ==== >>wrappers ====================================================================================== */

static tp_status only_trigger(tp_callback *cb)
{
    trace_add("(%d,%d)", (int)cb->train->epoch_num, (int)cb->train->global_step);
    return TP_OK;
}

static tp_callback *trigger_recorder(void)
{
    tp_callback *cb = tp_callback_new("T", 0);
    cb->trigger = only_trigger;
    return cb;
}

TEST(periodic_trigger)
{
    tp_test_keep_log();
    trace_clear();
    tp_callback *cb = periodic_trigger(trigger_recorder(), 3, 0, 0);
    CHECK_STR(cb->name, "Proxy-T");
    CHECK_OK(run_noop(&cb, 1, 4, 1, 2));
    CHECK_STR(trace, "(1,3) (2,6)");
    trace_clear();
    cb = periodic_trigger(trigger_recorder(), 0, 2, TP_YES);
    CHECK_OK(run_noop(&cb, 1, 2, 1, 5));
    CHECK_STR(trace, "(0,0) (2,4) (4,8)");
    trace_clear();
    cb = periodic_trigger(trigger_recorder(), 2, 1, 0); /* both: twice in the last step of an epoch */
    CHECK_OK(run_noop(&cb, 1, 2, 1, 1));
    CHECK_STR(trace, "(1,2) (1,2)");
    cb = periodic_trigger(trigger_recorder(), 0, 0, 0);
    CHECK_ERR(run_noop(&cb, 1, 2, 1, 1), TP_ERR_ARG, "every_k_steps");
    cb = periodic_trigger(periodic_trigger(trigger_recorder(), 0, 0, 0), 1, 0, 0); /* a mistake goes through wrappers */
    CHECK_ERR(run_noop(&cb, 1, 2, 1, 1), TP_ERR_ARG, "every_k_steps");
}

TEST(periodic_callback)
{
    tp_test_keep_log();
    trace_clear();
    tp_callback *cb = periodic_callback(rec_new("P", true), 3, 0);
    CHECK_OK(run_noop(&cb, 1, 4, 1, 2));
    CHECK_STR(trace,
              "P.setup_graph(0,0,-1) P.before_train(0,0,-1) P.before_epoch(1,0,-1) "
              "P.before_run(1,0,0) P.after_run(1,1,0) P.trigger_step(1,3,2) P.before_run(1,3,3) P.after_run(1,4,3) "
              "P.trigger_step(2,6,1) P.before_run(2,6,2) P.after_run(2,7,2) P.after_train(2,8,3)");
    trace_clear();
    cb = periodic_callback(rec_new("P", true), 0, 2);
    CHECK_OK(run_noop(&cb, 1, 2, 1, 3));
    CHECK_STR(trace,
              "P.setup_graph(0,0,-1) P.before_train(0,0,-1) "
              "P.before_epoch(2,2,1) P.before_run(2,2,0) P.after_run(2,3,0) P.trigger_step(2,3,0) "
              "P.before_run(2,3,1) P.after_run(2,4,1) P.trigger_step(2,4,1) P.after_epoch(2,4,1) P.trigger(2,4,1) "
              "P.before_epoch(3,4,1) P.before_run(3,5,1) P.after_run(3,6,1) P.trigger_step(3,6,1) "
              "P.after_epoch(3,6,1) P.trigger(3,6,1) "
              "P.after_train(3,6,1)");
}

static bool even_epoch(tp_callback *wrapper, void *user) { return wrapper->train->epoch_num % *(const int *)user == 0; }

TEST(enable_if)
{
    static int two = 2;
    tp_cb_enable_if_desc d;
    tp_test_keep_log();
    trace_clear();
    memset(&d, 0, sizeof d);
    d.cb = rec_new("E", false);
    d.pred = even_epoch;
    d.user = &two;
    tp_callback *cb = tp_cb_enable_if_(&d);
    CHECK_OK(run_noop(&cb, 1, 1, 1, 3));
    CHECK_STR(trace, "E.setup_graph E.before_train E.before_epoch E.before_run E.after_run E.trigger_step "
                     "E.after_epoch E.trigger E.after_train");
}

static tp_status lambda_trigger(tp_callback *cb)
{
    trace_add("%s%d", (const char *)tp_lambda_user(cb), (int)cb->train->epoch_num);
    return TP_OK;
}
static void lambda_release(void *user) { trace_add("released %s", (const char *)user); }

TEST(lambda_proxy_and_group)
{
    static char name[] = "n";
    tp_cb_lambda_desc d;
    tp_test_keep_log();
    trace_clear();
    memset(&d, 0, sizeof d);
    d.trigger = lambda_trigger;
    d.user = name;
    d.release = lambda_release;
    tp_callback *cb[2] = {tp_cb_proxy(tp_cb_lambda_(&d)), NULL};
    CHECK(tp_proxy_inner(cb[0])->chief_only);
    tp_callback *members[2] = {rec_new("A", false), rec_new("B", false)};
    members[0]->before_run = NULL;
    cb[1] = tp_cb_group(members, 2);
    CHECK_OK(run_noop(cb, 2, 1, 1, 1));
    CHECK_STR(trace, "A.setup_graph B.setup_graph A.before_train B.before_train A.before_epoch "
                     "B.before_epoch B.before_run A.after_run "
                     "B.after_run A.trigger_step B.trigger_step A.after_epoch B.after_epoch n1 A.trigger "
                     "B.trigger A.after_train B.after_train "
                     "released n");
}

/* Fetches reach the callback that asked for them, through groups and proxies. */
typedef struct fetcher {
    float value;
    tp_node *node[2];
    int n;
} fetcher;

static tp_status fetch_setup(tp_callback *cb)
{
    fetcher *f = (fetcher *)cb->user;
    f->node[0] = tp_const(cb->train->graph, f->value);
    f->node[1] = tp_const(cb->train->graph, f->value + 0.5f);
    return TP_OK;
}
static tp_status fetch_before(tp_callback *cb, tp_run_request *r)
{
    fetcher *f = (fetcher *)cb->user;
    for (int i = 0; i < f->n; i++) CHECK(tp_request_fetch(r, f->node[i]) == i);
    return TP_OK;
}
static tp_status fetch_after(tp_callback *cb, const tp_run_values *v)
{
    fetcher *f = (fetcher *)cb->user;
    CHECK(v->n == f->n);
    for (int i = 0; i < v->n; i++) trace_add("%g", tp_tensor_get(v->value[i], 0));
    return TP_OK;
}
static tp_callback *fetch_new(float value, int n)
{
    tp_callback *cb = tp_callback_new("Fetcher", sizeof(fetcher));
    ((fetcher *)cb->user)->value = value;
    ((fetcher *)cb->user)->n = n;
    cb->setup_graph = fetch_setup;
    cb->before_run = fetch_before;
    cb->after_run = fetch_after;
    return cb;
}

TEST(fetches_find_their_way)
{
    tp_test_keep_log();
    trace_clear();
    tp_callback *in_group[2] = {fetch_new(2, 1), periodic_callback(fetch_new(3, 2), 2, 0)};
    tp_callback *cb[3] = {fetch_new(1, 2), tp_cb_group(in_group, 2), fetch_new(4, 1)};
    CHECK_OK(run_noop(cb, 3, 2, 1, 1));
    CHECK_STR(trace, "1 1.5 2 3 3.5 4 1 1.5 2 4");
}

/* ==== >>parameters ==================================================================================== */

static double field; /* what the setters below set */
static double set_log_value[64];
static int set_log_epoch[64], set_log_step[64], set_log_n;

static tp_status watch_set(tp_hyper_param *p, double value)
{
    if (set_log_n < 64) {
        set_log_epoch[set_log_n] = (int)p->train->epoch_num;
        set_log_step[set_log_n] = (int)p->train->global_step;
        set_log_value[set_log_n++] = value;
    }
    field = value;
    return TP_OK;
}
static tp_status watch_get(tp_hyper_param *p, double *value)
{
    (void)p;
    *value = field;
    return TP_OK;
}

/* A user-written parameter that writes down every set. */
static tp_hyper_param *watched(double now)
{
    tp_hyper_param *p = tp_hyper_param_new("lr", 0);
    p->get_value = watch_get;
    p->set_value = watch_set;
    field = now;
    set_log_n = 0;
    return p;
}

static void expect_sets_(const double *want, int n, int line)
{
    CHECK_MSG(set_log_n == n, "line %d: %d values were set, expected %d", line, set_log_n, n);
    for (int i = 0; i < n && i < set_log_n; i++)
        CHECK_MSG(set_log_epoch[i] == (int)want[3 * i] && set_log_step[i] == (int)want[3 * i + 1] &&
                      set_log_value[i] == want[3 * i + 2],
                  "line %d: set %d is (%d,%d,%.17g), expected (%g,%g,%.17g)", line, i, set_log_epoch[i],
                  set_log_step[i], set_log_value[i], want[3 * i], want[3 * i + 1], want[3 * i + 2]);
}
#define EXPECT_SETS(want) expect_sets_(want, TP_COUNT(want) / 3, __LINE__)

static tp_callback *scheduled(double now, const tp_schedule_point *point, int n, int interp, int step_based,
                              int set_at_beginning)
{
    tp_cb_scheduled_hyper_param_setter_desc d;
    memset(&d, 0, sizeof d);
    d.param = watched(now);
    for (int i = 0; i < n; i++) d.schedule[i] = point[i];
    d.n_schedule = n;
    d.interp = interp;
    d.step_based = step_based;
    d.set_at_beginning = set_at_beginning;
    return tp_cb_scheduled_hyper_param_setter_(&d);
}

TEST(schedules)
{
    static const tp_schedule_point a[] = {{0, .1}, {2, .05}, {4, .01}}, b[] = {{4, 0.2}, {0, 1.0}},
                                   s[] = {{3, .1}, {6, .4}}, z[] = {{1, .1}, {2, 0.0}};
    tp_test_keep_log();
    {
        static const double want[] = {0, 0, .1, 2, 4, .05, 4, 8, .01};
        tp_callback *cb = scheduled(1, a, 3, TP_INTERP_NONE, 0, 0);
        CHECK_OK(run_noop(&cb, 1, 2, 1, 6));
        EXPECT_SETS(want);
        CHECK_HAS(tp_test_logged, "At global_step=0, lr is set to 0.100000");
        CHECK_HAS(tp_test_logged, "At global_step=4, lr changes from 0.100000 to 0.050000");
    }
    {
        static const double want[] = {0, 0, 1.0, 1, 2, .8, 2, 4, .6, 3, 6, .3999999999999999, 4, 8, .2};
        tp_callback *cb = scheduled(0, b, 2, TP_INTERP_LINEAR, 0, 0);
        CHECK_OK(run_noop(&cb, 1, 2, 1, 6));
        EXPECT_SETS(want);
    }
    {
        static const double want[] = {2, 4, .6, 3, 6, .3999999999999999, 4, 8, .2};
        tp_callback *cb = scheduled(0, b, 2, TP_INTERP_LINEAR, 0, 0);
        CHECK_OK(run_noop_and(&cb, 1, 2, 3, 6, start_at(4), NULL));
        EXPECT_SETS(want);
    }
    {
        static const double want[] = {3, 6, .05, 4, 8, .01}, without[] = {4, 8, .01};
        tp_callback *cb = scheduled(1, a, 3, TP_INTERP_NONE, 0, 0);
        CHECK_OK(run_noop_and(&cb, 1, 2, 4, 6, start_at(6), NULL));
        EXPECT_SETS(want);
        cb = scheduled(1, a, 3, TP_INTERP_NONE, 0, TP_NO);
        CHECK_OK(run_noop_and(&cb, 1, 2, 4, 6, start_at(6), NULL));
        EXPECT_SETS(without);
    }
    {
        static const double want[] = {1, 3, .1, 1, 4, .2, 2, 5, .30000000000000004, 2, 6, .4};
        tp_callback *cb = scheduled(1, s, 2, TP_INTERP_LINEAR, TP_YES, 0);
        CHECK_OK(run_noop(&cb, 1, 4, 1, 2));
        EXPECT_SETS(want);
    }
    { /* a scheduled 0 counts: here we differ from the original on purpose */
        tp_callback *cb = scheduled(0, z, 2, TP_INTERP_NONE, 0, 0);
        CHECK_OK(run_noop_and(&cb, 1, 1, 4, 4, start_at(3), NULL));
        CHECK(set_log_n == 0);
    }
}

/* The cases of tensorpack's own param_test.py. */
TEST(schedules_of_param_test)
{
    static const tp_schedule_point interp[] = {{30, .3}, {40, .4}, {50, .5}}, plain[] = {{10, .3}, {20, .4}, {30, .5}},
                                   mid[] = {{10, .3}, {20, 1.0}, {30, 1.5}};
    tp_test_keep_log();
    tp_callback *cb = scheduled(1, interp, 3, TP_INTERP_LINEAR, TP_YES, 0);
    CHECK_OK(run_noop_and(&cb, 1, 10, 1, 5, NULL, NULL));
    CHECK(set_log_n > 0 && set_log_step[0] == 30 && set_log_value[0] == (double).3);
    int seen = 0;
    for (int i = 0; i < set_log_n; i++) {
        if (set_log_step[i] == 40) seen++, CHECK(set_log_value[i] == (double).4);
        if (set_log_step[i] == 45) seen++, CHECK(set_log_value[i] == (double).45);
    }
    CHECK(seen == 2);
    cb = scheduled(1, plain, 3, TP_INTERP_NONE, 0, 0);
    CHECK_OK(run_noop(&cb, 1, 1, 1, 50));
    CHECK(set_log_n == 3 && set_log_step[0] == 10);
    cb = scheduled(1, plain, 3, TP_INTERP_NONE, 0, TP_NO);
    CHECK_OK(run_noop(&cb, 1, 1, 90, 92));
    CHECK(set_log_n == 0);
    cb = scheduled(1, plain, 3, TP_INTERP_NONE, 0, 0);
    CHECK_OK(run_noop(&cb, 1, 1, 90, 92));
    CHECK(set_log_n == 1 && set_log_step[0] == 0 && set_log_value[0] == .5);
    tp_test_keep_log();
    cb = scheduled(1, plain, 3, TP_INTERP_NONE, 0, 0);
    CHECK_OK(run_noop(&cb, 1, 1, 20, 21));
    CHECK(tp_test_warnings == 1);
    tp_test_keep_log();
    cb = scheduled(1, mid, 3, TP_INTERP_NONE, 0, 0);
    CHECK_OK(run_noop(&cb, 1, 1, 21, 22));
    CHECK(tp_test_warnings == 0);
}

static double decay_even(int64_t epoch, double old, void *user)
{
    (void)user;
    return epoch % 2 == 0 ? old * 0.9 : old;
}

TEST(setter_with_func)
{
    tp_test_keep_log();
    tp_cb_hyper_param_setter_with_func_desc d;
    memset(&d, 0, sizeof d);
    d.param = watched(1);
    d.fn = decay_even;
    tp_callback *cb = tp_cb_hyper_param_setter_with_func_(&d);
    CHECK_OK(run_noop(&cb, 1, 1, 1, 4));
    static const double want[] = {.9, .9, .81, .81, .729};
    if (CHECK(set_log_n == 5))
        for (int i = 0; i < 5; i++) CHECK_NEAR(set_log_value[i], want[i], 1e-15, 1e-15);
}

static double go_nan(int64_t epoch, double old, void *user)
{
    (void)user;
    return epoch == 2 ? (double)NAN : old;
}

TEST(no_setter_sets_nan)
{
    tp_test_keep_log();
    TEST_EXPECT_ERROR("to NaN");
    tp_cb_hyper_param_setter_with_func_desc d;
    memset(&d, 0, sizeof d);
    d.param = watched(1);
    d.fn = go_nan;
    tp_callback *cb = tp_cb_hyper_param_setter_with_func_(&d);
    CHECK_ERR(run_noop(&cb, 1, 1, 1, 4), TP_ERR_NUMERIC, "to NaN");
    CHECK(field == 1);
}

static tp_status add_on_even(tp_callback *setter, void *user, double *value, bool *set)
{
    const int64_t epoch = setter->train->epoch_num;
    CHECK(*value == field);
    if (epoch == 6) return tp_fail(TP_ERR_STATE, "no rate for epoch 6");
    *set = epoch % 2 == 0;
    *value += *(const double *)user; /* which counts only where it is set */
    return TP_OK;
}
static int n_released;
static void count_release(void *user)
{
    (void)user;
    n_released++;
}

/* The setter that the others are made of: told the current value, asked whether to set. */
TEST(a_setter_of_ones_own)
{
    TEST_EXPECT_ERROR("Training failed at global_step=12: HyperParamSetter: no rate for epoch 6");
    static const double want[] = {0, 0, 1.5, 2, 4, 2.0, 4, 8, 2.5};
    double half = 0.5;
    tp_cb_hyper_param_setter_desc d, without;
    tp_test_keep_log();
    memset(&d, 0, sizeof d);
    d.fn = add_on_even;
    d.user = &half;
    d.release = count_release;
    for (int last = 5; last <= 6; last++) {
        n_released = 0;
        d.param = watched(1);
        tp_callback *cb = tp_cb_hyper_param_setter_(&d);
        if (last == 5) CHECK_OK(run_noop(&cb, 1, 2, 1, last));
        else CHECK_ERR(run_noop(&cb, 1, 2, 1, last), TP_ERR_STATE, "no rate for epoch 6");
        EXPECT_SETS(want);
        CHECK(n_released == 1);
    }
    for (int what = 0; what < 3; what++) { /* what is given is released though nothing is made of it */
        static const char *const part[] = {"HyperParamSetter: .fn is missing", "which parameter?", "needs get_value"};
        without = d;
        n_released = 0;
        without.param = what == 1 ? NULL : watched(1);
        if (what == 0) without.fn = NULL;
        if (what == 2) without.param->get_value = NULL;
        tp_callback *cb = tp_cb_hyper_param_setter_(&without);
        CHECK_ERR(run_noop(&cb, 1, 1, 1, 1), TP_ERR_ARG, part[what]);
        CHECK(n_released == 1 && set_log_n == 0);
    }
}

/* Reports stats from a list, one each epoch; a NaN means none. */
static const double *stat_list;
static const char *stat_name;
static tp_status put_stat(tp_callback *cb)
{
    const double v = stat_list[cb->train->epoch_num - 1];
    return v != v ? TP_OK : tp_monitors_put_scalar(cb->train->monitors, stat_name, v);
}
static tp_callback *stat_source(const char *name, const double *list)
{
    tp_callback *cb = tp_callback_new("Source", 0);
    stat_list = list;
    stat_name = name;
    cb->trigger = put_stat;
    return cb;
}

static tp_status halve(double *value, void *user)
{
    (void)user;
    *value /= 2;
    return TP_OK;
}

static void stat_case(const double *list, int n, double threshold, int reverse, const char *want)
{
    tp_cb_stat_monitor_param_setter_desc d;
    memset(&d, 0, sizeof d);
    d.param = watched(1);
    d.stat_name = "err";
    d.fn = halve;
    d.threshold = threshold;
    d.last_k = 3;
    d.reverse = reverse;
    tp_callback *cb[2] = {stat_source("err", list), tp_cb_stat_monitor_param_setter_(&d)};
    CHECK_OK(run_noop(cb, 2, 1, 1, n));
    trace_clear();
    for (int i = 0; i < set_log_n; i++) trace_add("(%d,%g)", set_log_epoch[i], set_log_value[i]);
    CHECK_STR(trace, want);
}

TEST(stat_monitor)
{
    const double none = NAN;
    static const double a[] = {5, 4, 3, 2, 2, 2, 2, 2, 2}, b[] = {5, 5, 5, 5, 5, 5, 5, 5},
                        c[] = {5, 4.95, 4.9, 4.85, 4.8, 4.75, 4.7}, r[] = {.1, .2, .3, .3, .3, .3, .3, .4};
    const double gaps[] = {5, none, 5, none, 5, 5};
    tp_test_keep_log();
    stat_case(a, 9, 0, 0, "(6,0.5) (9,0.25)");
    stat_case(b, 8, 0, 0, "(3,0.5) (6,0.25)");
    stat_case(c, 7, .2, 0, "(3,0.5) (6,0.25)");
    stat_case(gaps, 6, 0, 0, "(5,0.5)");
    stat_case(r, 8, 0, TP_YES, "(5,0.5)");
}

TEST(human_setter)
{
    static const struct {
        const char *text;
        double value;
    } c[] = {{"lr:0.5", 0.5},     {"lr: 0.25\nmom:0.9", 0.25},
             {" lr:0.5", 0.5},    {"lr:0.5\nlr:0.7", 0.7},
             {"lr:1e-4", 0.0001}, {"lr:0.5\n", 0.5},
             {"lr:0.5\n\n", 1},   {"lr :0.5", 1},
             {"#c\nlr:0.5", 1},   {"lr=0.5", 1},
             {"lr:abc", 1},       {"", 1},
             {"mom:1", 1},        {"lr: nan", 1},
             {"lr:-inf", 1},      {"mom:1\nlr:1e999", 1}};
    tp_test_keep_log();
    const char *dir = tp_test_tmpdir();
    if (!CHECK_OK(tp_logger_set_dir(dir, 'k'))) return;
    for (int i = 0; i < TP_COUNT(c); i++) {
        CHECK(tp_test_write(tp_test_path(dir, "hyper.txt"), c[i].text, strlen(c[i].text)));
        tp_cb_human_hyper_param_setter_desc d;
        memset(&d, 0, sizeof d);
        d.param = watched(1);
        tp_callback *cb = tp_cb_human_hyper_param_setter_(&d);
        CHECK_OK(run_noop(&cb, 1, 1, 1, 1));
        CHECK_MSG(field == c[i].value, "'%s' gives %g, expected %g", c[i].text, field, c[i].value);
    }
    CHECK_HAS(tp_test_logged, "hyper.txt:2: not a name, ':' and a finite number"); /* the last one */
}

static tp_node *make_lr(tp_graph *g, void *user)
{
    (void)user;
    return tp_get_scalar_variable(g, "learning_rate", 0.5f);
}
static void check_lr(tp_trainer *t)
{
    tp_tensor v;
    memset(&v, 0, sizeof v);
    if (CHECK_OK(tp_session_read(t->state.session, tp_find_variable(t->graph, "learning_rate"), &v)))
        CHECK(*(float *)v.data == 0.25f);
    tp_tensor_free(&v);
}

TEST(graph_variables_and_fields)
{
    tp_test_keep_log();
    tp_cb_run_op_desc make;
    tp_cb_scheduled_hyper_param_setter_desc d;
    memset(&make, 0, sizeof make);
    memset(&d, 0, sizeof d);
    make.fn = make_lr; /* the setter finds what an earlier callback made */
    d.name = "learning_rate:0";
    d.schedule[0].at = 1;
    d.schedule[0].value = 0.25;
    tp_callback *cb[2] = {tp_cb_run_op_(&make), tp_cb_scheduled_hyper_param_setter_(&d)};
    CHECK_OK(run_noop_and(cb, 2, 1, 1, 1, NULL, check_lr));
    d.name = "nothing";
    cb[0] = tp_cb_scheduled_hyper_param_setter_(&d);
    CHECK_ERR(run_noop(cb, 1, 1, 1, 1), TP_ERR_NAME, "nothing:0 is not a variable in the graph!");
    d.name = "learning_rat";
    cb[0] = tp_cb_run_op_(&make);
    cb[1] = tp_cb_scheduled_hyper_param_setter_(&d);
    CHECK_ERR(run_noop(cb, 2, 1, 1, 1), TP_ERR_NAME,
              "learning_rat:0 is not a variable in the graph; did you mean 'learning_rate'?");
    int32_t steps = 1;
    float f = 0;
    d.name = NULL;
    d.param = tp_param_field("steps", &steps, TP_I32);
    d.schedule[0].value = 7;
    cb[0] = tp_cb_scheduled_hyper_param_setter_(&d);
    d.param = tp_param_field("f", &f, TP_F32);
    d.schedule[0].value = 0.125;
    cb[1] = tp_cb_scheduled_hyper_param_setter_(&d);
    CHECK_OK(run_noop(cb, 2, 1, 1, 1));
    CHECK(steps == 7 && f == 0.125f);
}

/* ==== >>savers ======================================================================================== */

static tp_callback *model_saver(const char *dir, int max_to_keep, float hours)
{
    tp_cb_model_saver_desc d;
    memset(&d, 0, sizeof d);
    d.max_to_keep = max_to_keep;
    d.keep_checkpoint_every_n_hours = hours;
    d.checkpoint_dir = dir;
    return tp_cb_model_saver_(&d);
}

static tp_callback *min_saver(const char *stat, const char *dir)
{
    tp_cb_min_saver_desc d;
    memset(&d, 0, sizeof d);
    d.monitor_stat = stat;
    d.checkpoint_dir = dir;
    return tp_cb_min_saver_(&d);
}

static int64_t step_of(const char *path)
{
    tp_dict d;
    int64_t step = -1;
    memset(&d, 0, sizeof d);
    if (tp_file_exists(path) && CHECK_OK(tp_npz_load(path, &d))) {
        const tp_tensor *t = tp_dict_find(&d, "global_step");
        if (CHECK(t != NULL)) memcpy(&step, t->data, sizeof step);
    }
    tp_dict_free(&d);
    return step;
}

static char *text_of(const char *path)
{
    static char text[4096];
    char *data = NULL;
    size_t n = 0;
    text[0] = 0;
    if (CHECK_OK(tp_file_read(path, false, sizeof text - 1, &data, &n))) memcpy(text, data, n + 1);
    tp_free(data);
    return text;
}

TEST(model_saver_keeps_the_newest)
{
    tp_test_keep_log();
    char dir[300];
    snprintf(dir, sizeof dir, "%s/made/by/saver", tp_test_tmpdir());
    tp_callback *cb = model_saver(dir, 2, 0);
    CHECK_OK(run_noop(&cb, 1, 10, 1, 4));
    CHECK(!tp_file_exists(tp_test_path(dir, "model-10.npz")) && !tp_file_exists(tp_test_path(dir, "model-20.npz")));
    CHECK(step_of(tp_test_path(dir, "model-30.npz")) == 30 && step_of(tp_test_path(dir, "model-40.npz")) == 40);
    CHECK_STR(text_of(tp_test_path(dir, "checkpoint")),
              "model_checkpoint_path: \"model-40\"\nall_model_checkpoint_paths: \"model-30\"\n"
              "all_model_checkpoint_paths: \"model-40\"\n");
    CHECK_HAS(tp_test_logged, "Model saved to ");
    cb = model_saver(dir, 1,
                     TP_ZERO); /* what falls out of the list is older than "from now on, every 0 hours": all stay */
    CHECK_OK(run_noop(&cb, 1, 1, 1, 3));
    CHECK(tp_file_exists(tp_test_path(dir, "model-1.npz")) && tp_file_exists(tp_test_path(dir, "model-2.npz")));
    CHECK_STR(text_of(tp_test_path(dir, "checkpoint")),
              "model_checkpoint_path: \"model-3\"\nall_model_checkpoint_paths: \"model-3\"\n");
    CHECK(tp_file_exists(tp_test_path(dir, "model-30.npz"))); /* of an earlier run: never touched */
}

static int count_files(const char *dir, const char *prefix)
{
    int n = 0;
    DIR *d = opendir(dir);
    if (!d) return -1;
    for (struct dirent *e; (e = readdir(d)) != NULL;) n += strncmp(e->d_name, prefix, strlen(prefix)) == 0;
    closedir(d);
    return n;
}

TEST(model_saver_writes_other_formats)
{
    static const char *const ends[3][2] = {{".npz", NULL}, {".index", ".data-00000-of-00001"}, {".safetensors", NULL}};
    static const double err[] = {.5, .4, .6};
    bool left_out[3] = {false, false, false};
#ifdef TP_NO_TF_CHECKPOINT
    left_out[1] = true;
#endif
#ifdef TP_NO_SAFETENSORS
    left_out[2] = true;
#endif
    tp_test_keep_log();
    for (int f = 0; f < 3; f++) {
        char name[64];
        const char *dir = tp_test_tmpdir();
        tp_cb_model_saver_desc d;
        memset(&d, 0, sizeof d);
        d.max_to_keep = 2;
        d.checkpoint_dir = dir;
        d.format = (tp_checkpoint_format)f;
        tp_callback *cb[3] = {tp_cb_model_saver_(&d), stat_source("err", err), min_saver("err", dir)};
        if (left_out[f]) {
            TEST_MAY_ERROR("this program was compiled without");
            CHECK_ERR(run_noop(cb, 3, 10, 1, 3), TP_ERR_UNSUPPORTED, "this program was compiled without");
            continue;
        }
        CHECK_OK(run_noop(cb, 3, 10, 1, 3));
        for (int step = 10; step <= 40; step += 10)
            for (int k = 0; k < 2 && ends[f][k]; k++) { /* "40" is the best one's copy */
                if (step < 40) snprintf(name, sizeof name, "model-%d%s", step, ends[f][k]);
                else snprintf(name, sizeof name, "min-err%s", k ? ".data-00000-of-00002" : ends[f][k]); /* the second */
                CHECK_MSG(tp_file_exists(tp_test_path(dir, name)) == (step > 10), "%s", name);
            }
        CHECK(count_files(dir, "") == 2 + 1 + 3 * (f == 1 ? 2 : 1)); /* ".", "..", checkpoint */
        CHECK_HAS(text_of(tp_test_path(dir, "checkpoint")), "model_checkpoint_path: \"model-30\"\n");
        tp_dict vars;
        memset(&vars, 0, sizeof vars);
        CHECK_OK(tp_load_checkpoint_vars(tp_test_path(dir, "min-err"), &vars));
        const tp_tensor *step = tp_dict_find(&vars, "global_step");
        CHECK(step && tp_tensor_get(step, 0) == 20);
        CHECK_OK(tp_load_checkpoint_vars(dir, &vars));
        step = tp_dict_find(&vars, "global_step");
        CHECK(step && tp_tensor_get(step, 0) == 30);
        tp_dict_free(&vars);
    }
    tp_cb_model_saver_desc d;
    memset(&d, 0, sizeof d);
    d.format = (tp_checkpoint_format)3;
    tp_callback *cb = tp_cb_model_saver_(&d);
    CHECK_ERR(run_noop(&cb, 1, 1, 1, 1), TP_ERR_ARG, ".format is 3");
}

static tp_callback *saves_at_once;
static tp_status save_at_once(tp_callback *cb)
{
    (void)cb;
    tp_callback_request_checkpoint(saves_at_once);
    return TP_OK;
}
TEST(model_saver_survives_io_errors)
{
    TEST_EXPECT_ERROR("The model was not saved at global_step=2");
    TEST_EXPECT_ERROR("ModelSaver: this training saved no checkpoint in");
    tp_test_keep_log();
    const char *dir = tp_test_tmpdir();
    tp_callback *cb = model_saver(dir, 0, 0);
    CHECK_OK(run_noop(&cb, 1, 1, 1, 1));
    mkdir(tp_test_path(dir, "model-2.npz"), 0700); /* a file cannot take its place */
    CHECK(tp_test_write(tp_test_path(dir, "model-2.npz/x"), "x", 1));
    cb = model_saver(dir, 0, 0);
    CHECK_ERR(run_noop_and(&cb, 1, 1, 2, 2, start_at(1), NULL), TP_ERR_IO, "this training saved no checkpoint in");
    CHECK_HAS(tp_test_logged, "The model was not saved at global_step=2");
    CHECK(step_of(tp_test_path(dir, "model-1.npz")) == 1);
    CHECK_HAS(text_of(tp_test_path(dir, "checkpoint")), "model_checkpoint_path: \"model-1\"");
    TEST_EXPECT_ERROR("ModelSaver: the last checkpoint in"); /* of step 0 */
    tp_callback *two[2] = {tp_callback_new("Asks", 0), saves_at_once = model_saver(dir, 0, 0)};
    two[0]->before_train = save_at_once;
    CHECK_ERR(run_noop(two, 2, 2, 1, 1), TP_ERR_IO, "is of epoch 0 (global_step=0). At global_step=2 ");
    tp_callback *nowhere = model_saver("/dev/null/x", 0, 0);
    CHECK_ERR(run_noop(&nowhere, 1, 1, 1, 1), TP_ERR_IO, "/dev/null is in the way: it is not a directory");
}

static const char *min_dir;
static tp_status note_min(tp_callback *cb)
{
    (void)cb;
    trace_add("%d", (int)step_of(tp_test_path(min_dir, "min-err.npz")));
    return TP_OK;
}

static void min_case(const char *order, int epochs, const char *want, tp_status status)
{
    static const double err[] = {.5, .4, .6, .3, .3};
    tp_callback *cb[4];
    int n = 0;
    min_dir = tp_test_tmpdir();
    trace_clear();
    for (const char *p = order; *p; p++)
        cb[n++] = *p == 'S'   ? model_saver(min_dir, 0, 0)
                  : *p == 'V' ? stat_source("err", err)
                              : min_saver("err", min_dir);
    cb[n] = tp_callback_new("Note", 0);
    cb[n++]->after_checkpoint = note_min;
    if (status == TP_OK) CHECK_OK(run_noop(cb, n, 10, 1, epochs));
    else CHECK_ERR(run_noop(cb, n, 10, 1, epochs), status, "ModelSaver");
    CHECK_STR(trace, want);
}

TEST(min_saver_copies_the_best)
{
    TEST_EXPECT_ERROR("Did you forget to use ModelSaver");
    tp_test_keep_log();
    min_case("SVM", 5, "10 20 20 40 40", TP_OK);
    CHECK_HAS(tp_test_logged, "Model at global_step=40 with minimum err=0.3 saved.");
    CHECK(!strstr(tp_test_logged, "nothing is copied"));
    static const char *const orders[] = {"SMV", "VSM", "VMS", "MVS", "MSV"};
    for (int i = 0; i < TP_COUNT(orders); i++) min_case(orders[i], 5, "10 20 20 40 40", TP_OK);
    min_case("VM", 1, "", TP_ERR_STATE);
}

TEST(min_saver_refuses_other_checkpoints)
{
    static const double err[] = {.5, .4};
    tp_test_keep_log();
    const char *dir = tp_test_tmpdir();
    const char *name = "model-100"; /* ends with "0", but is not of step 10 */
    CHECK_OK(tp_checkpoint_state_write(dir, &name, 1));
    tp_callback *cb[2] = {stat_source("err", err), min_saver("err", dir)};
    CHECK_OK(run_noop(cb, 2, 10, 1, 1));
    CHECK(tp_test_warnings == 2);
    CHECK(!tp_file_exists(tp_test_path(dir, "min-err.npz")));
}

/* ==== >>monitors ====================================================================================== */

/* A user-written monitor that writes down what it is told. */
static tp_status rec_scalar(tp_monitor *m, const char *name, const tp_stat *s)
{
    (void)m;
    trace_add("%s=%g%s@%d", name, s->value, s->is_int ? "i" : "", (int)s->step);
    return TP_OK;
}
static tp_status rec_summary(tp_monitor *m, const tp_summary *s)
{
    (void)m;
    trace_add("[");
    for (int i = 0; i < s->n; i++) trace_add("%s:%d", s->value[i].tag, s->value[i].kind);
    trace_add("]");
    return TP_OK;
}
static tp_status rec_image(tp_monitor *m, const char *name, const tp_tensor *image)
{
    char text[TP_SHAPE_TEXT];
    (void)m;
    trace_add("%s%s", name, tp_shape_text(&image->shape, text));
    return TP_OK;
}
static tp_status rec_event(tp_monitor *m, const tp_event *e)
{
    (void)m;
    CHECK(e->wall_time > 1.6e9);
    trace_add("event %u %.*s@%d", e->field, (int)e->size, (const char *)e->data, (int)e->step);
    return e->field == 8 ? tp_fail(TP_ERR_IO, "no room") : TP_OK;
}
static tp_monitor *rec_monitor(void)
{
    tp_monitor *m = tp_monitor_new("RecMonitor", 0);
    m->process_scalar = rec_scalar;
    m->process_summary = rec_summary;
    m->process_image = rec_image;
    m->process_event = rec_event;
    return m;
}

TEST(monitors_dispatch)
{
    tp_test_keep_log();
    trace_clear();
    tp_train_state train;
    tp_stat stat;
    const tp_stat *history = NULL;
    memset(&train, 0, sizeof train);
    train.global_step = 7;
    tp_monitor *mine = rec_monitor();
    tp_monitors *m = tp_monitors_new(&mine, 1);
    m->cb.train = &train;
    CHECK_OK(tp_monitors_put_scalar(m, "a", 0.5));
    CHECK_OK(tp_monitors_put_int(m, "n", 3));
    CHECK_STR(trace, "a=0.5@7 [ a:1 ] n=3i@7 [ n:1 ]");
    trace_clear();
    float data[12] = {0};
    tp_tensor t;
    memset(&t, 0, sizeof t);
    static const int64_t dims[4] = {2, 2, 3, 1}, hw[2] = {3, 4};
    tp_tensor_view(&t, TP_F32, tp_make_shape_n(2, hw), data);
    CHECK_OK(tp_monitors_put_image(m, "pic", &t));
    tp_tensor_view(&t, TP_F32, tp_make_shape_n(3, dims), data);
    CHECK_OK(tp_monitors_put_image(m, "pic", &t)); /* (2,2,3): one RGB image */
    CHECK_STR(trace, "pic(1,3,4,1) [ pic:4 ] pic(1,2,2,3) [ pic:4 ]");
    tp_tensor_view(&t, TP_F32, tp_make_shape_n(1, dims), data);
    CHECK_ERR(tp_monitors_put_image(m, "pic", &t), TP_ERR_SHAPE, "image");
    trace_clear();
    tp_event event;
    memset(&event, 0, sizeof event);
    event.field = 7;
    event.data = "log";
    event.size = 3;
    CHECK_OK(tp_monitors_put_event(m, &event));
    event.field = 8; /* a monitor's error is the answer */
    CHECK_ERR(tp_monitors_put_event(m, &event), TP_ERR_IO, "no room");
    CHECK_STR(trace, "event 7 log@7 event 8 log@7");
    trace_clear();
    tp_summary_value v[4];
    memset(v, 0, sizeof v);
    static const char *const tags[4] = {"tower0/tower12/x-summary", "a/tower1/b-summary-summary", "tower/h-histogram",
                                        "mytower3/c"};
    for (int i = 0; i < 4; i++) {
        v[i].tag = tags[i];
        v[i].kind = i == 2 ? TP_SUMMARY_HISTOGRAM : TP_SUMMARY_SCALAR;
        v[i].scalar = i;
        v[i].tensor = &t;
    }
    tp_summary s;
    s.value = v;
    s.n = 4;
    CHECK_OK(tp_monitors_put_summary(m, &s));
    CHECK_STR(trace, "x=0@7 a/b-summary=1@7 myc=3@7 [ x:1 a/b-summary:1 tower/h-histogram:2 myc:1 ]");
    train.global_step = 9;
    CHECK_OK(tp_monitors_put_scalar(m, "a", 0.25));
    CHECK_OK(tp_monitors_get_latest(m, "a", &stat));
    CHECK(stat.step == 9 && stat.value == 0.25);
    CHECK(tp_monitors_get_history(m, "a", &history) == 2 && history[0].step == 7 && history[1].step == 9);
    CHECK(tp_monitors_get_history(m, "b", &history) == 0);
    CHECK_ERR(tp_monitors_get_latest(m, "cost", &stat), TP_ERR_NAME, "No available data for the key: cost");
    CHECK_ERR(tp_monitors_get_latest(m, "myk", &stat), TP_ERR_NAME,
              "No available data for the key: myk; did you mean 'myc'?");
    tp_callback_free(&m->cb);
    tp_monitor_free(mine);
}

/* The record of a run by hand: what callbacks report when. */
static tp_status golden_before_train(tp_callback *cb)
{
    return cb->train->starting_epoch == 1 ? tp_monitors_put_scalar(cb->train->monitors, "pre", 0.5) : TP_OK;
}
static tp_status golden_trigger_step(tp_callback *cb)
{
    const int64_t gs = cb->train->global_step;
    return gs <= 2 ? tp_monitors_put_int(cb->train->monitors, "s", 10 * gs) : TP_OK;
}
static tp_status golden_trigger(tp_callback *cb)
{
    const tp_status st = tp_monitors_put_scalar(cb->train->monitors, "val_error", 1.0 / (double)cb->train->epoch_num);
    return st == TP_OK ? tp_monitors_put_int(cb->train->monitors, "n", cb->train->epoch_num) : st;
}
static tp_status golden_run(tp_monitor *m, int64_t first, int64_t last, tp_session_init *init)
{
    tp_callback *cb = tp_callback_new("Golden", 0);
    cb->before_train = golden_before_train;
    cb->trigger_step = golden_trigger_step;
    cb->trigger = golden_trigger;
    tp_train_desc d;
    memset(&d, 0, sizeof d);
    d.callbacks = &cb;
    d.n_callbacks = 1;
    d.monitors = &m;
    d.n_monitors = 1;
    d.session_init = init;
    d.steps_per_epoch = 2;
    d.starting_epoch = first;
    d.max_epoch = last;
    tp_trainer *t = tp_noop_trainer();
    const tp_status st = tp_train(t, &d);
    tp_trainer_free(t);
    return st;
}

/* What is reported in the step that ends the training is written, too. */
static tp_status reports_and_stops(tp_callback *cb)
{
    tp_monitors_put_scalar(cb->train->monitors, "mine", (double)cb->train->global_step);
    return cb->train->global_step == 3 ? TP_STOP : TP_OK;
}
static tp_status fails_to_begin(tp_callback *cb)
{
    (void)cb;
    return tp_fail(TP_ERR_STATE, "it cannot begin");
}
TEST(the_last_numbers_before_a_stop_are_written)
{
    const char *dir = tp_test_tmpdir();
    tp_train_desc d;
    memset(&d, 0, sizeof d);
    CHECK_OK(tp_logger_set_dir(dir, 'd'));
    tp_callback *cb = tp_callback_new("Mine", 0);
    if (!CHECK(cb != NULL)) return;
    cb->trigger_step = reports_and_stops;
    tp_monitor *m = tp_monitor_json_writer();
    d.callbacks = &cb, d.n_callbacks = 1;
    d.monitors = &m, d.n_monitors = 1;
    d.steps_per_epoch = 5, d.max_epoch = 2;
    tp_trainer *t = tp_noop_trainer();
    CHECK_OK(tp_train(t, &d));
    tp_trainer_free(t);
    static const char last[] = "\"mine\": 3.0, \"epoch_num\": 1, \"global_step\": 3}]";
    CHECK_HAS(text_of(tp_test_path(dir, "stats.json")), last);
    /* a training that fails before it begins, after something was reported, leaves an existing file as it is */
    tp_callback *both[2] = {tp_callback_new("Reports", 0), tp_callback_new("Fails", 0)};
    if (!CHECK(both[0] && both[1])) return;
    both[0]->before_train = reports_and_stops, both[1]->before_train = fails_to_begin;
    m = tp_monitor_json_writer();
    d.callbacks = both, d.n_callbacks = 2;
    d.monitors = &m, d.n_monitors = 1;
    d.starting_epoch = 2;
    t = tp_noop_trainer();
    TEST_EXPECT_ERROR("it cannot begin");
    CHECK_ERR(tp_train(t, &d), TP_ERR_STATE, "it cannot begin");
    tp_trainer_free(t);
    CHECK_HAS(text_of(tp_test_path(dir, "stats.json")), last);
    tp_logger_set_dir(NULL, 0);
}

TEST(json_writer)
{
    TEST_EXPECT_ERROR("stats.json' holds no list");
    TEST_EXPECT_ERROR("stats.json' is no JSON");
    TEST_EXPECT_ERROR("which is no epoch");
    tp_test_keep_log();
    char dir[300];
    snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    CHECK_OK(golden_run(tp_monitor_json_writer(), 1, 2, NULL));
#define TWO_EPOCHS                                                                                           \
    "[{\"pre\": 0.5, \"epoch_num\": 0, \"global_step\": 0}, {\"s\": 10, \"epoch_num\": 1, \"global_step\": " \
    "1}, {\"s\": 20, \"val_error\": 1.0, "                                                                   \
    "\"n\": 1, \"epoch_num\": 1, \"global_step\": 2}, {\"val_error\": 0.5, \"n\": 2, \"epoch_num\": 2, "     \
    "\"global_step\": 4}"
    CHECK_STR(text_of(tp_test_path(dir, "stats.json")), TWO_EPOCHS "]");
    int64_t epoch = 0;
    CHECK(tp_logger_set_dir(dir, 'k') == TP_OK &&
          tp_load_existing_epoch_number(NULL, &epoch) == TP_OK); /* the logger's */
    CHECK_OK(tp_load_existing_epoch_number(dir, &epoch));
    CHECK(epoch == 2);
    CHECK_OK(golden_run(tp_monitor_json_writer(), 3, 3, start_at(4)));
    CHECK_STR(text_of(tp_test_path(dir, "stats.json")),
              TWO_EPOCHS ", {\"val_error\": 0.3333333333333333, \"n\": 3, \"epoch_num\": 3, \"global_step\": 6}]");
    CHECK(count_files(dir, "stats.json.") == 0);
    CHECK_OK(golden_run(tp_monitor_json_writer(), 1, 2, NULL));
    CHECK_STR(text_of(tp_test_path(dir, "stats.json")), TWO_EPOCHS "]");
    CHECK(count_files(dir, "stats.json.") == 1);
    CHECK(tp_test_write(tp_test_path(dir, "stats.json"), " [ ]\n", 5));
    CHECK_OK(golden_run(tp_monitor_json_writer(), 3, 3, start_at(4)));
    CHECK_STR(text_of(tp_test_path(dir, "stats.json")),
              "[{\"val_error\": 0.3333333333333333, \"n\": 3, \"epoch_num\": 3, \"global_step\": 6}]");
    CHECK(tp_test_write(tp_test_path(dir, "stats.json"), "{}", 2));
    CHECK_ERR(golden_run(tp_monitor_json_writer(), 1, 1, NULL), TP_ERR_FORMAT, "no list");
    CHECK(tp_test_write(tp_test_path(dir, "stats.json"), "[1,", 3));
    CHECK_ERR(golden_run(tp_monitor_json_writer(), 1, 1, NULL), TP_ERR_FORMAT, "no JSON");
    static const char *const strange[] = {"[{\"epoch_num\": 1e300}]", "[{\"epoch_num\": -1e300}]",
                                          "[{\"epoch_num\": 9223372036854775808}]"};
    for (int i = 0; i < TP_COUNT(strange); i++) { /* numbers that no integer holds */
        CHECK(tp_test_write(tp_test_path(dir, "stats.json"), strange[i], strlen(strange[i])));
        CHECK_ERR(tp_load_existing_epoch_number(dir, &epoch), TP_ERR_FORMAT, "which is no epoch");
        CHECK_ERR(golden_run(tp_monitor_json_writer(), 1, 1, NULL), TP_ERR_FORMAT, "which is no epoch");
    }
}

static tp_monitor *printer(int step, int epoch, const char *white, const char *black)
{
    tp_monitor_scalar_printer_desc d;
    memset(&d, 0, sizeof d);
    d.enable_step = step;
    d.enable_epoch = epoch;
    d.whitelist[0] = white;
    d.blacklist[0] = black;
    return tp_monitor_scalar_printer_(&d);
}

/* An initialiser that counts its calls, and adds a variable in setup_graph, which run must find in the session. */
typedef struct counted {
    tp_session_init init;
    int setups, runs, frees;
} counted;
static tp_status counted_setup(tp_session_init *i, tp_graph *g)
{
    counted *c = (counted *)i->user;
    c->setups++;
    tp_get_scalar_variable(g, "from_init", 3);
    return TP_OK;
}
static tp_status counted_run(tp_session_init *i, tp_session *s)
{
    counted *c = (counted *)i->user;
    tp_tensor t;
    memset(&t, 0, sizeof t);
    CHECK(c->setups == 1);
    const tp_variable *v = tp_find_variable(tp_session_graph(s), "from_init");
    c->runs++;
    if (CHECK(v != NULL) && CHECK_OK(tp_session_read(s, v, &t))) CHECK_NEAR(tp_tensor_get(&t, 0), 3, 0, 0);
    tp_tensor_free(&t);
    return TP_OK;
}
static void counted_free(tp_session_init *i) { ((counted *)i->user)->frees++; }
static tp_session_init *counting(counted *c)
{
    memset(c, 0, sizeof *c);
    c->init.setup_graph = counted_setup;
    c->init.run = counted_run;
    c->init.free = counted_free;
    c->init.user = c;
    return &c->init;
}

TEST(an_initialiser_sets_the_graph_up_before_the_session)
{
    counted n;
    tp_test_keep_log();
    CHECK_OK(golden_run(printer(0, 0, NULL, NULL), 1, 1, counting(&n)));
    CHECK(n.setups == 1 && n.runs == 1 && n.frees == 1);
}

TEST(scalar_printer)
{
    tp_test_keep_log();
    CHECK_OK(golden_run(printer(0, 0, NULL, NULL), 1, 1, NULL));
    CHECK_HAS(tp_test_logged, "pre: 0.5\nStart Epoch 1 ...\n");
    CHECK_HAS(tp_test_logged, "n: 1\ns: 20\nval_error: 1\n");
    CHECK(!strstr(tp_test_logged, "s: 10"));
    tp_test_keep_log();
    CHECK_OK(golden_run(printer(TP_YES, 0, NULL, NULL), 1, 1, NULL));
    CHECK_HAS(tp_test_logged, "s: 10\nEpoch 1");
    CHECK_HAS(tp_test_logged, "n: 1\ns: 20\nval_error: 1\n");
    tp_test_keep_log();
    CHECK_OK(golden_run(printer(TP_YES, TP_NO, NULL, NULL), 1, 1, NULL));
    CHECK_HAS(tp_test_logged, "s: 10\ns: 20\nEpoch 1");
    CHECK(!strstr(tp_test_logged, "val_error"));
    tp_test_keep_log();
    CHECK_OK(golden_run(printer(0, 0, "^(val|s)", "err.r$"), 1, 2, NULL));
    CHECK_HAS(tp_test_logged, "s: 20\n");
    CHECK(!strstr(tp_test_logged, "val_error:") && !strstr(tp_test_logged, "n: 1"));
    tp_test_keep_log();
    CHECK_OK(golden_run(printer(0, 0, "\\w+_(?:error|x)\\b", NULL), 1, 2, NULL)); /* Python's syntax */
    CHECK_HAS(tp_test_logged, "val_error: ");
    CHECK(!strstr(tp_test_logged, "s: 20") && !strstr(tp_test_logged, "n: 1"));
    CHECK_ERR(golden_run(printer(0, 0, NULL, "(?<=a+)b"), 1, 1, NULL), TP_ERR_ARG,
              "ScalarPrinter: regular expression '(?<=a+)b', character 1: look-behind requires fixed-width pattern");
}

/* Records of an event file: framing and checksums are right, and what is inside is counted. */
static int event_records(const char *dir, int *files)
{
    int n = 0;
    *files = 0;
    DIR *d = opendir(dir);
    if (!d) return -1;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (strncmp(e->d_name, "events.out.tfevents.", 20) != 0) continue;
        char *data = NULL;
        size_t size = 0, at = 0;
        ++*files;
        if (!CHECK_OK(tp_file_read(tp_test_path(dir, e->d_name), false, 0, &data, &size))) continue;
        while (at + 16 <= size) {
            const unsigned char *p = (const unsigned char *)data + at;
            size_t length = 0;
            uint32_t crc = 0;
            for (int i = 7; i >= 0; i--) length = length << 8 | p[i];
            for (int i = 3; i >= 0; i--) crc = crc << 8 | p[8 + i];
            const uint32_t want = tp_crc32c(0, p, 8);
            if (!CHECK(crc == ((want >> 15) | (want << 17)) + 0xa282ead8u) || !CHECK(at + 16 + length <= size)) break;
            crc = 0;
            for (int i = 3; i >= 0; i--) crc = crc << 8 | p[12 + length + (size_t)i];
            const uint32_t body = tp_crc32c(0, p + 12, length);
            CHECK(crc == ((body >> 15) | (body << 17)) + 0xa282ead8u);
            if (at == 0) CHECK(length == 9 + 2 + 13 && memcmp(p + 12 + 11, "brain.Event:2", 13) == 0);
            at += 16 + length;
            n++;
        }
        CHECK(at == size);
        tp_free(data);
    }
    closedir(d);
    return n;
}

TEST(event_writer)
{
    tp_test_keep_log();
    int files = 0;
    tp_monitor_tf_event_writer_desc d;
    memset(&d, 0, sizeof d);
    d.logdir = tp_test_tmpdir();
    CHECK_OK(golden_run(tp_monitor_tf_event_writer_(&d), 1, 2, NULL));
    CHECK(event_records(d.logdir, &files) == 2 + 7); /* version, graph; pre, s, s, and val_error and n in each epoch */
    CHECK(files == 1);
    d.logdir = tp_test_tmpdir();
    d.split_files = TP_YES;
    d.max_queue = 1;
    CHECK_OK(golden_run(tp_monitor_tf_event_writer_(&d), 1, 2, NULL));
    CHECK(event_records(d.logdir, &files) == 2 + 7 + 2); /* a version in each file */
    CHECK(files == 3);
    d.logdir = "/nowhere";
    CHECK_ERR(golden_run(tp_monitor_tf_event_writer_(&d), 1, 1, NULL), TP_ERR_IO, "is no directory");
}

TEST(send_stat)
{
    TEST_EXPECT_ERROR("No available data for the key: missing");
    static const double list[] = {.5, .25};
    tp_test_keep_log();
    char file[300], command[400];
    snprintf(file, sizeof file, "%s/sent", tp_test_tmpdir());
    snprintf(command, sizeof command, "echo '{err}' >> %s", file);
    tp_callback *cb[2] = {stat_source("err", list), tp_cb_send_stat(command)};
    CHECK_OK(run_noop(cb, 2, 1, 1, 2));
    CHECK_STR(text_of(file), "0.5\n0.25\n");
    cb[0] = tp_cb_send_stat("echo {missing}");
    CHECK_ERR(run_noop(cb, 1, 1, 1, 1), TP_ERR_NAME, "missing");
}

/* what Python's '...'.format(err=0.5) gives */
TEST(send_stat_formats)
{
    TEST_EXPECT_ERROR("is no format of a number");
    static const double list[] = {.5, .25};
    tp_test_keep_log();
    char file[300], command[600];
    snprintf(file, sizeof file, "%s/formats", tp_test_tmpdir());
    snprintf(command, sizeof command,
             "echo '{{\"e\": {err:.3f}}}|{err:>8.2e}|{err:<6}|{err:+g}|{err:07.2f}|{err:.1%%}|{err:6.3}|{err}' >> %s",
             file);
    tp_callback *cb[2] = {stat_source("err", list), tp_cb_send_stat(command)};
    CHECK_OK(run_noop(cb, 2, 1, 1, 1));
    CHECK_STR(text_of(file), "{\"e\": 0.500}|5.00e-01|0.5   |+0.5|0000.50|50.0%|   0.5|0.5\n");
    cb[0] = stat_source("err", list);
    cb[1] = tp_cb_send_stat("echo {err:x}");
    CHECK_ERR(run_noop(cb, 2, 1, 1, 1), TP_ERR_ARG, "'{err:x}' is no format of a number");
}

#ifndef __cplusplus
TEST(a_spec_of_a_scalar) /* compiled without a warning under -Wpedantic */
{
    static const tp_spec spec[] = {TP_SPEC("s", TP_F32), TP_SPEC("v", TP_I32, TP_ANY),
                                   TP_SPEC("w", TP_F32, 1, 2, 3, 4, 5, 6, 7, 8)};
    CHECK(spec[0].dtype == TP_F32 && spec[0].shape.ndim == 0);
    CHECK(spec[1].dtype == TP_I32 && spec[1].shape.ndim == 1 && spec[1].shape.dim[0] == TP_ANY);
    CHECK(spec[2].shape.ndim == 8 && spec[2].shape.dim[7] == 8);
}
#endif

/* ==== >>training ====================================================================================== */

/* y = x w + b over random numbers, with dropout on the way, so that random numbers and the order of data both
 * matter. */
static tp_node *build(tp_graph *g, tp_node *const *in, void *user)
{
    static const int64_t wide[2] = {4, 8}, narrow[2] = {8, 1};
    const bool training = tp_current_tower_context(g)->is_training;
    (void)user;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape_n(2, wide), tp_init_glorot_uniform());
    tp_node *v = tp_get_variable_as(g, "v", TP_F32, tp_make_shape_n(2, narrow), tp_init_glorot_uniform());
    tp_node *h = tp_tanh(tp_matmul(in[0], w));
    if (training) h = tp_mul(h, tp_rand_uniform_like(h, 0.5f, 1.5f));
    tp_node *off = tp_sub(tp_matmul(h, v), in[1]);
    tp_node *cost = tp_named(tp_mean(tp_square(off)), "cost");
    static const int64_t minus[1] = {-1};
    tp_named(tp_cast(tp_greater(tp_square(tp_reshape_to(off, tp_make_shape_n(1, minus))), tp_const(g, 0.25f)), TP_F32),
             "wrong");
    tp_add_moving_summary_n(&cost, 1, NULL);
    return cost;
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_momentum_(tp_get_scalar_variable(g, "learning_rate", 0.05f), NULL);
}

static const tp_spec *signature(void)
{
    static tp_spec s[2];
    s[0].name = "x";
    s[0].dtype = s[1].dtype = TP_F32;
    s[0].shape.ndim = s[1].shape.ndim = 2;
    s[0].shape.dim[0] = s[1].shape.dim[0] = TP_ANY;
    s[0].shape.dim[1] = 4;
    s[1].name = "y";
    s[1].shape.dim[1] = 1;
    return s;
}

/* n shuffled points in batches. */
static tp_dataflow *points(int n, int64_t batch, int remainder)
{
    static float x[256 * 4], y[256];
    for (int i = 0; i < 256 * 4; i++) x[i] = (float)((i * 37 % 101) - 50) / 50.0f;
    for (int i = 0; i < 256; i++) y[i] = x[4 * i] - 0.5f * x[4 * i + 1];
    tp_tensor t[2];
    memset(t, 0, sizeof t);
    const int64_t xs[2] = {n, 4}, ys[2] = {n, 1};
    tp_tensor_view(&t[0], TP_F32, tp_make_shape_n(2, xs), x);
    tp_tensor_view(&t[1], TP_F32, tp_make_shape_n(2, ys), y);
    tp_df_from_arrays_desc d;
    tp_df_batch_desc b;
    memset(&d, 0, sizeof d);
    memset(&b, 0, sizeof b);
    d.arrays = t;
    d.n = 2;
    b.df = tp_df_from_arrays_(&d);
    b.batch_size = batch;
    b.remainder = remainder;
    return tp_df_batch_(&b);
}

static tp_callback *inference(const char *const *names, int n)
{
    tp_inf_scalar_stats_desc stats;
    tp_inf_classification_error_desc wrong;
    tp_cb_inference_runner_desc d;
    memset(&stats, 0, sizeof stats);
    memset(&wrong, 0, sizeof wrong);
    memset(&d, 0, sizeof d);
    for (int i = 0; i < n; i++) stats.names[i] = names[i];
    wrong.wrong_tensor_name = "wrong";
    d.df = points(50, 20, TP_YES);
    d.inferencers[0] = tp_inf_scalar_stats_(&stats);
    d.inferencers[1] = tp_inf_classification_error_(&wrong);
    return tp_cb_inference_runner_(&d);
}

static tp_train_config config(tp_callback *const *cb, int n)
{
    tp_train_config c;
    memset(&c, 0, sizeof c);
    c.model.inputs = signature();
    c.model.n_inputs = 2;
    c.model.build_graph = build;
    c.model.optimizer = optimizer;
    c.dataflow = points(96, 16, TP_NO);
    c.callbacks = cb;
    c.n_callbacks = n;
    return c;
}

/* Are two checkpoints the same, bit for bit? only_model: but for the states of callbacks and summaries. */
static void check_same(const char *a, const char *b, bool only_model)
{
    tp_dict x, y;
    memset(&x, 0, sizeof x);
    memset(&y, 0, sizeof y);
    if (!CHECK_OK(tp_npz_load(a, &x)) || !CHECK_OK(tp_npz_load(b, &y))) return;
    CHECK_MSG(x.n == y.n || only_model, "%d and %d entries", x.n, y.n);
    for (int i = 0; i < x.n; i++) {
        if (only_model &&
            (strncmp(x.item[i].name, "tp:callback", 11) == 0 || strncmp(x.item[i].name, "tp:local/", 9) == 0))
            continue;
        const tp_tensor *t = tp_dict_find(&y, x.item[i].name);
        if (!CHECK_MSG(t != NULL, "%s is missing", x.item[i].name)) continue;
        CHECK_MSG(tp_tensor_bytes(t) == tp_tensor_bytes(&x.item[i].value) &&
                      memcmp(t->data, x.item[i].value.data, tp_tensor_bytes(t)) == 0,
                  "%s differs", x.item[i].name);
    }
    tp_dict_free(&x);
    tp_dict_free(&y);
}

static void check_same_checkpoint(const char *a, const char *b) { check_same(a, b, false); }

static tp_status train_some(const char *dir, int epochs, int auto_resume, bool queue)
{
    static const char *const names[] = {"cost"};
    tp_callback *cb[4] = {model_saver(dir, 0, 0), inference(names, 1), min_saver("validation_cost", dir), NULL};
    tp_cb_hyper_param_setter_with_func_desc d;
    memset(&d, 0, sizeof d);
    d.name = "learning_rate";
    d.fn = decay_even;
    cb[3] = tp_cb_hyper_param_setter_with_func_(&d);
    tp_train_config c = config(cb, 4);
    c.max_epoch = epochs;
    c.auto_resume = auto_resume;
    return tp_launch_train_with_config(&c, queue ? tp_queue_input_trainer() : tp_simple_trainer());
}

/* The values of a statistic in stats.json, oldest first. */
static int reported(const char *dir, const char *key, double *v, int most)
{
    char *text = NULL;
    int n = 0;
    if (!CHECK_OK(tp_load_existing_json(dir, &text))) return 0;
    for (const char *p = text; (p = strstr(p, key)) != NULL && n < most; p += strlen(key))
        v[n++] = tp_parse_double(p + strlen(key), NULL);
    tp_free(text);
    return n;
}

TEST(training_learns_and_reports)
{
    double cost[8];
    tp_test_keep_log();
    const char *dir = tp_test_tmpdir();
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    if (!CHECK_OK(train_some(dir, 5, TP_NO, false))) return;
    CHECK(step_of(tp_test_path(dir, "model-30.npz")) == 30);
    CHECK(tp_file_exists(tp_test_path(dir, "min-validation_cost.npz")));
    CHECK_HAS(tp_test_logged, "Will eval 3 iterations");
    CHECK_HAS(tp_test_logged, "MovingAverageSummary: 1 operations");
    if (CHECK(reported(dir, "\"validation_cost\": ", cost, 8) == 5))
        CHECK_MSG(cost[4] > 0 && cost[4] < 0.7 * cost[0] && cost[1] < cost[0], "the cost goes from %g to %g", cost[0],
                  cost[4]);
}

TEST(resume_is_exact)
{
    tp_test_keep_log();
    for (int queue = 0; queue < 2; queue++) {
        const char *straight = tp_test_tmpdir(), *stopped = tp_test_tmpdir();
        CHECK_OK(tp_logger_set_dir(straight, 'k'));
        if (!CHECK_OK(train_some(straight, 4, TP_NO, queue))) return;
        CHECK_OK(tp_logger_set_dir(stopped, 'k'));
        if (!CHECK_OK(train_some(stopped, 2, TP_YES, queue))) return; /* nothing to resume from yet */
        if (!CHECK_OK(train_some(stopped, 4, TP_YES, queue))) return;
        CHECK_HAS(tp_test_logged, "Found history of epoch 2: training goes on with epoch 3.");
        check_same_checkpoint(tp_test_path(straight, "model-18.npz"), tp_test_path(stopped, "model-18.npz"));
        check_same_checkpoint(tp_test_path(straight, "model-24.npz"), tp_test_path(stopped, "model-24.npz"));
        CHECK_OK(train_some(stopped, 4, TP_YES, queue)); /* all epochs are done */
    }
}

/* A folder of 2,600 bytes is as good as another; a path that no system takes is refused, never cut. */
TEST(long_paths)
{
    static const char *const files[] = {"model-12.npz", "model-18.npz", "checkpoint",
                                        "stats.json",   "log.log",      "min-validation_cost.npz"};
    char dir[2800], path[3000], beyond[5000];
    tp_checkpoint_entry *e = NULL;
    int n = 0;
    tp_test_keep_log();
    snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
    while (strlen(dir) < 2600) {
        memset(path, 'd', 200);
        snprintf(dir + strlen(dir), sizeof dir - strlen(dir), "/%.200s", path);
    }
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    CHECK_OK(train_some(dir, 2, TP_YES, false));
    CHECK_OK(train_some(dir, 3, TP_YES, false));
    for (int i = 0; i < TP_COUNT(files); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        CHECK_MSG(tp_file_exists(path), "%s", files[i]);
    }
    CHECK_OK(tp_get_all_checkpoints(dir, "model", &e, &n));
    if (CHECK(n == 3) && CHECK(strncmp(e[2].path, dir, strlen(dir)) == 0))
        CHECK_STR(e[2].path + strlen(dir), "/model-18.npz");
    tp_free(e);
    memset(path, 0, sizeof path);
    CHECK_OK(tp_checkpoint_state_latest(dir, path, sizeof path));
    CHECK_STR(path + strlen(dir), "/model-18");

    memset(beyond, 'x', sizeof beyond - 1);
    beyond[sizeof beyond - 1] = 0;
    const char *const name = "model-1";
    int64_t epoch = 0;
    tp_dict d;
    memset(&d, 0, sizeof d);
    TEST_EXPECT_ERROR("longer than");
    CHECK_ERR(tp_logger_set_dir(beyond, 'k'), TP_ERR_ARG, "longer than");
    CHECK_ERR(tp_checkpoint_state_write(beyond, &name, 1), TP_ERR_ARG, "longer than");
    CHECK_ERR(tp_checkpoint_state_latest(beyond, path, sizeof path), TP_ERR_ARG, "longer than");
    CHECK_ERR(tp_load_checkpoint_vars(beyond, &d), TP_ERR_ARG, "longer than");
    CHECK_ERR(tp_load_existing_epoch_number(beyond, &epoch), TP_ERR_ARG, "longer than");
    TEST_EXPECT_ERROR(strerror(ENAMETOOLONG));
    CHECK_ERR(train_some(beyond, 1, TP_NO, false), TP_ERR_IO, strerror(ENAMETOOLONG));
}

TEST(feed_and_queue_give_the_same)
{
    tp_test_keep_log();
    const char *feed = tp_test_tmpdir(), *queue = tp_test_tmpdir();
    CHECK_OK(tp_logger_set_dir(feed, 'k'));
    CHECK_OK(train_some(feed, 2, TP_NO, false));
    CHECK_OK(train_some(queue, 2, TP_NO, true));
    tp_dict a, b;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    if (CHECK_OK(tp_npz_load(tp_test_path(feed, "model-12.npz"), &a)) &&
        CHECK_OK(tp_npz_load(tp_test_path(queue, "model-12.npz"), &b))) {
        const tp_tensor *x = tp_dict_find(&a, "w"), *y = tp_dict_find(&b, "w");
        CHECK(x && y && memcmp(x->data, y->data, tp_tensor_bytes(x)) == 0);
    }
    tp_dict_free(&a);
    tp_dict_free(&b);
}

typedef struct tensors_seen {
    int n, fail_at;
    tp_status fail_with;
} tensors_seen;
static tp_status see_tensors(tp_callback *cb, const tp_tensor *const *values, int n, void *user)
{
    tensors_seen *seen = (tensors_seen *)user;
    (void)cb;
    seen->n++;
    if (!CHECK(n == 2 && values[0]->shape.ndim == 0 && tp_tensor_size(values[1]) == 16)) return TP_OK;
    /* of the same step: an error above 0.25 each is what "wrong" counts, and the cost is the errors' mean */
    double wrong = 0;
    for (int64_t i = 0; i < 16; i++) wrong += tp_tensor_get(values[1], i) / 16;
    const double cost = tp_tensor_get(values[0], 0);
    CHECK_MSG(cost > 0 && cost >= 0.25 * wrong && (wrong == 1 || cost > 0.25 * wrong), "cost %g, %g of it wrong", cost,
              wrong);
    if (seen->n != seen->fail_at) return TP_OK;
    return seen->fail_with < 0 ? tp_fail(seen->fail_with, "seen enough") : seen->fail_with;
}

TEST(process_tensors)
{
    TEST_EXPECT_ERROR("Training failed at global_step=8: ProcessTensors: seen enough");
    TEST_EXPECT_ERROR("give at least one tensor name");
    TEST_EXPECT_ERROR(".fn is missing");
    TEST_EXPECT_ERROR("Tensor nothing not found");
    tp_cb_process_tensors_desc d;
    tensors_seen seen;
    tp_test_keep_log();
    memset(&d, 0, sizeof d);
    d.names[0] = "cost";
    d.names[1] = "wrong";
    d.fn = see_tensors;
    d.user = &seen;
    static const tp_status end[] = {TP_OK, TP_STOP, TP_END, TP_ERR_STATE};
    for (int i = 0; i < TP_COUNT(end); i++) { /* each step; or until it says otherwise */
        memset(&seen, 0, sizeof seen);
        seen.fail_at = i ? 8 : 0;
        seen.fail_with = end[i];
        tp_callback *cb = tp_cb_process_tensors_(&d);
        tp_train_config c = config(&cb, 1);
        c.max_epoch = 2;
        c.n_extra_callbacks = c.n_monitors = TP_NONE;
        const tp_status st = tp_launch_train_with_config(&c, tp_simple_trainer());
        if (end[i] < 0) CHECK_ERR(st, TP_ERR_STATE, "seen enough");
        else CHECK_OK(st);
        CHECK_MSG(seen.n == (i ? 8 : 12), "status %d: called %d times", (int)end[i], seen.n);
    }
    static const char *const part[] = {"at least one tensor name", ".fn is missing", "nothing"};
    for (int what = 0; what < 3; what++) {
        tp_cb_process_tensors_desc wrong = d;
        if (what == 0) wrong.names[0] = wrong.names[1] = NULL;
        if (what == 1) wrong.fn = NULL;
        if (what == 2) wrong.names[0] = "nothing";
        tp_callback *cb = tp_cb_process_tensors_(&wrong);
        tp_train_config c = config(&cb, 1);
        c.max_epoch = 1;
        const tp_status st = tp_launch_train_with_config(&c, tp_simple_trainer());
        CHECK_ERR(st, what == 2 ? TP_ERR_NAME : TP_ERR_ARG, part[what]);
    }
}

TEST(extra_callbacks_do_not_change_the_bits)
{
    tensors_seen seen;
    tp_test_keep_log();
    const char *one = tp_test_tmpdir(), *two = tp_test_tmpdir();
    CHECK_OK(tp_logger_set_dir(one, 'k'));
    for (int extra = 0; extra < 2; extra++) {
        tp_cb_process_tensors_desc p;
        tp_cb_progress_bar_desc bar;
        tp_cb_merge_all_summaries_desc merge;
        tp_cb_check_numerics_desc check;
        memset(&p, 0, sizeof p);
        memset(&bar, 0, sizeof bar);
        memset(&merge, 0, sizeof merge);
        memset(&check, 0, sizeof check);
        bar.names[0] = "cost";
        merge.period = 2;
        check.run_step = TP_YES;
        memset(&seen, 0, sizeof seen);
        tp_callback *cb[5] = {model_saver(extra ? two : one, 0, 0), NULL, NULL, NULL, NULL};
        if (extra) {
            p.names[0] = "cost";
            p.names[1] = "wrong";
            p.fn = see_tensors;
            p.user = &seen;
            cb[4] = tp_cb_process_tensors_(&p);
            cb[1] = tp_cb_progress_bar_(&bar);
            cb[2] = tp_cb_merge_all_summaries_(&merge);
            cb[3] = tp_cb_check_numerics_(&check);
        }
        tp_train_config c = config(cb, extra ? 5 : 1);
        c.max_epoch = 2;
        c.n_extra_callbacks = c.n_monitors = TP_NONE;
        if (!CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()))) return;
    }
    check_same(tp_test_path(one, "model-12.npz"), tp_test_path(two, "model-12.npz"), true);
}

/* Inference: the mean of the batches' errors and the error of all samples differ where the last batch is
 * small. */
static tp_status wrong_vector(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    static const float data[5] = {1, 0, 0, 0, 1};
    const int64_t n = i == 0 ? 4 : 1;
    (void)user;
    (void)pass;
    if (i > 1) return TP_END;
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape_n(1, &n));
    if (st == TP_OK) memcpy(dp->c[0].data, data + 4 * i, (size_t)n * sizeof(float));
    return st;
}

static tp_node *build_wrong(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape_n(0, NULL), tp_init_ones());
    tp_named(tp_identity(in[0]), "wrong");
    tp_named(tp_mean(in[0]), "mean_wrong");
    return tp_named(tp_mean(tp_mul(in[0], w)), "cost");
}

static void look_at_stats(tp_callback *cb)
{
    tp_stat s;
    memset(&s, 0, sizeof s);
    static const char *const names[] = {"validation_mean_wrong", "validation_error", "val_precision", "val_recall"};
    for (int i = 0; i < 4; i++) {
        if (tp_monitors_get_latest(cb->train->monitors, names[i], &s) == TP_OK)
            trace_add("%s=%.6g@%d", names[i], s.value, (int)s.step);
    }
}
static tp_status look_trigger(tp_callback *cb)
{
    look_at_stats(cb);
    return TP_OK;
}

static tp_dataflow *wrong_flow(int64_t size)
{
    tp_df_from_generator_desc d;
    memset(&d, 0, sizeof d);
    d.fn = wrong_vector;
    d.size = size;
    return tp_df_from_generator_(&d);
}

static bool two_report_the_same;
static tp_status infer_wrong(int64_t size, const char *tensor)
{
    tp_inf_scalar_stats_desc stats;
    tp_inf_classification_error_desc wrong;
    tp_inf_binary_classification_desc binary;
    tp_cb_inference_runner_desc d;
    tp_spec spec;
    memset(&stats, 0, sizeof stats);
    memset(&wrong, 0, sizeof wrong);
    memset(&binary, 0, sizeof binary);
    memset(&d, 0, sizeof d);
    memset(&spec, 0, sizeof spec);
    stats.names[0] = "mean_wrong:0";
    wrong.wrong_tensor_name = tensor;
    binary.pred_tensor_name = binary.label_tensor_name = "wrong";
    d.df = wrong_flow(size);
    d.inferencers[0] = tp_inf_scalar_stats_(&stats);
    d.inferencers[1] = tp_inf_classification_error_(&wrong);
    d.inferencers[2] = tp_inf_binary_classification_(&binary);
    if (two_report_the_same) d.inferencers[3] = tp_inf_classification_error_(&wrong);
    tp_callback *cb[2] = {tp_cb_inference_runner_(&d), tp_callback_new("Look", 0)};
    cb[1]->trigger = look_trigger;
    spec.name = "x";
    spec.dtype = TP_F32;
    spec.shape.ndim = 1;
    spec.shape.dim[0] = TP_ANY;
    tp_train_config c = config(cb, 2);
    c.model.inputs = &spec;
    c.model.n_inputs = 1;
    c.model.build_graph = build_wrong;
    tp_df_free(c.dataflow);
    c.dataflow = wrong_flow(2);
    c.max_epoch = 2;
    c.n_extra_callbacks = c.n_monitors = TP_NONE;
    trace_clear();
    return tp_launch_train_with_config(&c, tp_simple_trainer());
}

TEST(inference_counts_samples)
{
    TEST_EXPECT_ERROR("input stopped before reaching its size of 3");
    TEST_EXPECT_ERROR("'mean_wrong' has shape () and is not a vector");
    TEST_EXPECT_ERROR("Tensor nothing not found");
    tp_test_keep_log();
    CHECK_OK(infer_wrong(2, "wrong"));
    CHECK_STR(trace, "validation_mean_wrong=0.625@2 validation_error=0.4@2 val_precision=1@2 val_recall=1@2 "
                     "validation_mean_wrong=0.625@4 validation_error=0.4@4 val_precision=1@4 val_recall=1@4");
    CHECK(!strstr(tp_test_logged, "Two inferencers"));
    two_report_the_same = true;
    CHECK_OK(infer_wrong(2, "wrong"));
    two_report_the_same = false;
    CHECK_HAS(tp_test_logged, "Two inferencers report 'validation_error' in one step");
    CHECK_HAS(trace, "validation_error=0.4@4");
    trace_clear();
    CHECK_OK(infer_wrong(0, "wrong")); /* of unknown size: until it ends */
    CHECK_HAS(trace, "validation_error=0.4@4");
    CHECK_OK(infer_wrong(1, "wrong")); /* the size bounds a pass, and each begins anew */
    CHECK_HAS(trace, "validation_error=0.25@4");
    CHECK_ERR(infer_wrong(3, "wrong"), TP_ERR_STATE, "stopped before reaching its size");
    CHECK_ERR(infer_wrong(2, "mean_wrong"), TP_ERR_SHAPE,
              "'mean_wrong' has shape () and is not a vector: name the node that");
    CHECK_ERR(infer_wrong(2, "nothing"), TP_ERR_NAME, "Tensor nothing not found in the graph!");
    TEST_EXPECT_ERROR("Tensor wrogn:0 not found");
    CHECK_ERR(infer_wrong(2, "wrogn:0"), TP_ERR_NAME, "Tensor wrogn:0 not found in the graph; did you mean 'wrong'?");
}

/* -- mistakes are sentences, and everything is freed */

static tp_node *build_null(tp_graph *g, tp_node *const *in, void *user)
{
    (void)build(g, in, user);
    return NULL;
}
static tp_node *build_vector(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g;
    (void)user;
    return in[0];
}
static tp_node *build_constant(tp_graph *g, tp_node *const *in, void *user)
{
    (void)build(g, in, user);
    return tp_mean(in[0]);
}

TEST(mistakes_are_sentences)
{
    TEST_EXPECT_ERROR("Training did not start: ");
    static const double none[] = {1};
    tp_test_keep_log();
    static const struct {
        int what;
        const char *part;
    } cases[] = {{0, "build_graph returned NULL: in a training tower it returns the cost"},
                 {1, "Cost must be a scalar"},
                 {2, "nothing to train"},
                 {3, "no optimizer"},
                 {4, "give .dataflow or .data"},
                 {5, "give .dataflow or .data, not both"},
                 {6, "steps_per_epoch"},
                 {7, ".build_graph"}};
    for (int i = 0; i < TP_COUNT(cases); i++) {
        tp_callback *cb[2] = {stat_source("x", none), rec_new("A", false)};
        tp_train_config c = config(cb, 2);
        c.max_epoch = 1;
        c.session_init = start_at(1);
        tp_feed_input_desc feed;
        tp_df_from_generator_desc gen;
        memset(&feed, 0, sizeof feed);
        memset(&gen, 0, sizeof gen);
        switch (cases[i].what) {
        case 0: c.model.build_graph = build_null; break;
        case 1: c.model.build_graph = build_vector; break;
        case 2: c.model.build_graph = build_constant; break;
        case 3: c.model.optimizer = NULL; break;
        case 4:
            tp_df_free(c.dataflow);
            c.dataflow = NULL;
            break;
        case 5:
            feed.df = points(8, 2, 0);
            c.data = tp_feed_input_(&feed);
            break;
        case 6:
            tp_df_free(c.dataflow);
            gen.fn = wrong_vector;
            c.dataflow = tp_df_from_generator_(&gen);
            break;
        default: c.model.build_graph = NULL; break;
        }
        const tp_status st = tp_launch_train_with_config(&c, tp_simple_trainer());
        CHECK_MSG(st < 0, "case %d succeeded", cases[i].what);
        CHECK_HAS(tp_last_error(), cases[i].part);
    }
    tp_callback *cb = rec_new("A", false);
    tp_train_config c = config(&cb, 1);
    c.max_epoch = 1;
    CHECK_ERR(tp_launch_train_with_config(&c, NULL), TP_ERR_ARG, "the trainer is NULL");
    tp_session_config session = tp_default_session_config();
    tp_session_creator creator = tp_new_session_creator(&session);
    for (int i = 0; i < 4; i++) { /* what excludes each other, and what is missing */
        cb = rec_new("A", false);
        c = config(&cb, 1);
        c.max_epoch = 1;
        tp_trainer *t = tp_simple_trainer();
        if (i == 0) c.checkpoint = "x", c.session_init = start_at(1);
        if (i == 1) c.session_config = &session, c.session_creator = &creator;
        if (i == 2) c.model.n_inputs = 0;
        if (i == 3) c.model.inputs = NULL;
        CHECK_ERR(tp_launch_train_with_config(&c, t), TP_ERR_ARG,
                  i == 0   ? "give .session_init or .checkpoint, not both"
                  : i == 1 ? "give .session_creator or .session_config, not both"
                           : "the model needs .inputs, .n_inputs and .build_graph: ");
    }
    for (int steps = -1; steps < 1; steps++) {
        tp_train_desc d;
        memset(&d, 0, sizeof d);
        tp_trainer *t = tp_noop_trainer();
        d.steps_per_epoch = steps == -1 ? -5 : 0, d.max_epoch = 1;
        CHECK_ERR(tp_train(t, &d), TP_ERR_ARG, "You must set .steps_per_epoch (TP_NO_STEPS for epochs without steps)");
        tp_trainer_free(t);
    }
}

static tp_status bad_point(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    (void)user;
    (void)pass;
    (void)i;
    (void)dp;
    return tp_fail(TP_ERR_FORMAT, "the data are broken");
}

TEST(data_that_fail)
{
    TEST_EXPECT_ERROR("the data are broken");
    tp_df_from_generator_desc gen;
    tp_test_keep_log();
    memset(&gen, 0, sizeof gen);
    gen.fn = bad_point;
    tp_train_config c = config(NULL, 0);
    tp_df_free(c.dataflow);
    c.dataflow = tp_df_from_generator_(&gen);
    c.steps_per_epoch = 3;
    c.max_epoch = 1;
    CHECK_ERR(tp_launch_train_with_config(&c, tp_simple_trainer()), TP_ERR_FORMAT, "the data are broken");
    c = config(NULL, 0);
    tp_df_free(c.dataflow);
    c.dataflow = tp_df_from_generator_(&gen);
    c.steps_per_epoch = 3;
    c.max_epoch = 1;
    CHECK_ERR(tp_launch_train_with_config(&c, tp_queue_input_trainer()), TP_ERR_FORMAT, "the data are broken");
}

/* -- auto resume */

static void write_checkpoint(const char *dir)
{
    const char *name = "model-5";
    tp_dict d;
    memset(&d, 0, sizeof d);
    tp_tensor *t = tp_dict_add(&d, "global_step");
    if (!t || !CHECK_OK(tp_tensor_resize(t, TP_I64, tp_make_shape_n(0, NULL)))) return;
    *(int64_t *)t->data = 5;
    CHECK_OK(tp_npz_save(tp_test_path(dir, "model-5.npz"), &d, false));
    CHECK_OK(tp_checkpoint_state_write(dir, &name, 1));
    tp_dict_free(&d);
}

TEST(auto_resume_needs_both)
{
    static const char json[] = "[{\"x\": 1, \"epoch_num\": 6, \"global_step\": 1}, {\"x\": 2.5, "
                               "\"epoch_num\": 7, \"global_step\": 2}]";
    tp_test_keep_log();
    const char *dir = tp_test_tmpdir();
    for (int checkpoint = 0; checkpoint < 2; checkpoint++)
        for (int stats = 0; stats < 3; stats++)
            for (int given = 0; given < 4; given++)
                for (int always = 0; always < 2; always++) {
                    remove(tp_test_path(dir, "checkpoint"));
                    remove(tp_test_path(dir, "model-5.npz"));
                    remove(tp_test_path(dir, "stats.json"));
                    CHECK_OK(tp_logger_set_dir(dir, 'k'));
                    if (checkpoint) write_checkpoint(dir);
                    if (stats)
                        CHECK(tp_test_write(tp_test_path(dir, "stats.json"), stats == 1 ? json : "[]",
                                            stats == 1 ? strlen(json) : 2));
                    tp_session_init *mine = given & 1 ? start_at(1) : NULL;
                    tp_train_config c;
                    memset(&c, 0, sizeof c);
                    c.session_init = mine;
                    c.starting_epoch = given & 2 ? 3 : 0;
                    c.always_resume = always ? TP_YES : TP_NO;
                    const bool found_init = checkpoint && (always || !(given & 1)),
                               found_epoch = stats == 1 && (always || !(given & 2));
                    const tp_status st = tp_auto_resume_train_config(&c);
                    if (!checkpoint && found_epoch && (always || !(given & 1)) && !(given & 2)) {
                        CHECK_OK(st); /* killed before its first checkpoint: once more from the beginning */
                        CHECK(c.starting_epoch == 0 && c.session_init == mine);
                    } else if (found_init != found_epoch) {
                        CHECK_ERR(st, TP_ERR_STATE, "Found SessionInit=");
                    } else {
                        CHECK_OK(st);
                        CHECK(c.starting_epoch == (found_epoch ? 8 : given & 2 ? 3 : 0));
                        CHECK((c.session_init == mine) == !found_init);
                    }
                    tp_session_init_free(c.session_init);
                }
    dir = tp_test_tmpdir();
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    CHECK(tp_test_write(tp_test_path(dir, "stats.json"), "[{", 2));
    tp_train_config c;
    memset(&c, 0, sizeof c);
    CHECK_ERR(tp_auto_resume_train_config(&c), TP_ERR_FORMAT, "no JSON");
    static const char zero[] = "[{\"epoch_num\": 0, \"global_step\": 0}]"; /* an epoch like others */
    CHECK(tp_test_write(tp_test_path(dir, "stats.json"), zero, sizeof zero - 1));
    c.starting_epoch = 3;
    CHECK_ERR(tp_auto_resume_train_config(&c), TP_ERR_STATE, "Found SessionInit=none, Found Last Epoch=yes");
}

/* A kill between the checkpoint of an epoch and the line in stats.json: the checkpoint knows its epoch. */
TEST(resume_after_a_kill_between_files)
{
    tp_test_keep_log();
    const char *straight = tp_test_tmpdir(), *killed = tp_test_tmpdir();
    CHECK_OK(tp_logger_set_dir(straight, 'k'));
    CHECK_OK(train_some(straight, 3, TP_NO, false));
    CHECK_OK(tp_logger_set_dir(killed, 'k'));
    CHECK_OK(train_some(killed, 1, TP_NO, false));
    CHECK_OK(train_some(killed, 2, TP_YES, false));
    CHECK(!strstr(tp_test_logged, "There is no stats.json"));
    remove(tp_test_path(killed, "stats.json"));
    CHECK_OK(train_some(killed, 3, TP_YES, false));
    CHECK_HAS(tp_test_logged, "There is no stats.json in");
    CHECK_HAS(tp_test_logged, "the history of earlier epochs is lost, and the file begins anew.");
    check_same_checkpoint(tp_test_path(straight, "model-18.npz"), tp_test_path(killed, "model-18.npz"));
}

/* ==== >>corners ======================================================================================= */

TEST(both_periods_fire)
{
    tp_test_keep_log();
    trace_clear();
    tp_callback *cb = periodic_trigger(trigger_recorder(), 2, 1, 0);
    CHECK_OK(run_noop(&cb, 1, 2, 1, 2));
    CHECK_STR(trace, "(1,2) (1,2) (2,4) (2,4)"); /* at an epoch's last step, once for each */
}

static int pred_calls;
static bool only_first_call(tp_callback *wrapper, void *user)
{
    (void)wrapper;
    (void)user;
    return pred_calls++ == 1; /* before_epoch is the first call, before_run of step 0 the second */
}

TEST(enable_if_remembers_and_lets_a_direct_trigger_pass)
{
    tp_cb_enable_if_desc d;
    tp_test_keep_log();
    trace_clear();
    memset(&d, 0, sizeof d);
    d.cb = rec_new("E", true);
    d.pred = only_first_call;
    pred_calls = 0;
    tp_callback *cb = tp_cb_enable_if_(&d);
    CHECK_OK(run_noop(&cb, 1, 2, 1, 1));
    CHECK_STR(trace, "E.setup_graph(0,0,-1) E.before_train(0,0,-1) E.before_run(1,0,0) E.after_run(1,1,0) "
                     "E.after_train(1,2,1)");
    trace_clear();
    d.cb = trigger_recorder();
    cb = periodic_trigger(tp_cb_enable_if_(&d), 2, 0, 0); /* it calls trigger, which is not asked about */
    pred_calls = 100;
    CHECK_OK(run_noop(&cb, 1, 2, 1, 1));
    CHECK_STR(trace, "(1,2)");
}

/* testInterpolation of param_test.py as it stands there: epochs 20 to 50 of 10 steps. */
TEST(interpolation_of_param_test)
{
    static const tp_schedule_point p[] = {{30, .3}, {40, .4}, {50, .5}};
    tp_test_keep_log();
    tp_callback *cb = scheduled(1, p, 3, TP_INTERP_LINEAR, TP_YES, 0);
    CHECK_OK(run_noop(&cb, 1, 10, 20, 50));
    if (!CHECK_MSG(set_log_n == 21, "%d values were set", set_log_n)) return;
    for (int i = 0; i < 21; i++) CHECK(set_log_step[i] == 30 + i);
    CHECK(set_log_value[0] == (double).3 && set_log_value[10] == (double).4 && set_log_value[15] == (double).45);
    CHECK(set_log_value[20] == .5);
}

static tp_status note_max(tp_callback *cb)
{
    (void)cb;
    trace_add("%d", (int)step_of(tp_test_path(min_dir, "max-acc.npz")));
    return TP_OK;
}

TEST(max_saver_copies_the_best)
{
    static const double acc[] = {.5, .6, .4, .7, .7};
    tp_cb_min_saver_desc d;
    tp_test_keep_log();
    trace_clear();
    min_dir = tp_test_tmpdir();
    memset(&d, 0, sizeof d);
    d.monitor_stat = "acc";
    d.checkpoint_dir = min_dir;
    tp_callback *cb[4] = {model_saver(min_dir, 0, 0), stat_source("acc", acc), tp_cb_max_saver_(&d),
                          tp_callback_new("Note", 0)};
    cb[3]->after_checkpoint = note_max;
    CHECK_OK(run_noop(cb, 4, 10, 1, 5));
    CHECK_STR(trace, "10 20 20 40 40");
    CHECK_HAS(tp_test_logged, "Model at global_step=40 with maximum acc=0.7 saved.");
}

/* A disk that is full while epoch 2 is saved: no file may grow past 16 bytes between two callbacks. */
static struct rlimit disk_before;
static tp_status disk_fills(tp_callback *cb)
{
    struct rlimit full = disk_before;
    full.rlim_cur = 16;
    return cb->train->epoch_num == 2 && setrlimit(RLIMIT_FSIZE, &full) != 0 ? tp_fail(TP_ERR_IO, "setrlimit") : TP_OK;
}
static tp_status disk_empties(tp_callback *cb)
{
    setrlimit(RLIMIT_FSIZE, &disk_before);
    if (cb->train->epoch_num != 2) return TP_OK;
    CHECK(count_files(min_dir, "model-") == 1); /* neither the new file nor a part of it */
    CHECK(count_files(min_dir, "") == 2 + 2);   /* ".", "..", model-2.npz and checkpoint: nothing temporary */
    CHECK(step_of(tp_test_path(min_dir, "model-2.npz")) == 2);
    CHECK_HAS(text_of(tp_test_path(min_dir, "checkpoint")), "model_checkpoint_path: \"model-2\"");
    return TP_OK;
}

TEST(full_disk_while_saving)
{
    TEST_EXPECT_ERROR("The model was not saved at global_step=4");
    struct sigaction before;
    tp_test_keep_log();
    min_dir = tp_test_tmpdir();
#ifdef TP_NO_SIGNALS
    TEST_SKIP("without signals a training does not ignore SIGXFSZ, which ends the program");
#endif
    CHECK(sigaction(SIGXFSZ, NULL, &before) == 0 && before.sa_handler == SIG_DFL);
    if (!CHECK(getrlimit(RLIMIT_FSIZE, &disk_before) == 0)) return;
    tp_callback *cb[3] = {tp_callback_new("Fills", 0), model_saver(min_dir, 0, 0), tp_callback_new("Empties", 0)};
    cb[0]->trigger = disk_fills;
    cb[2]->after_checkpoint = disk_empties;
    CHECK_OK(run_noop(cb, 3, 2, 1, 3));
    setrlimit(RLIMIT_FSIZE, &disk_before);
    CHECK(sigaction(SIGXFSZ, NULL, &before) == 0 && before.sa_handler == SIG_DFL); /* as it was */
    CHECK_HAS(tp_test_logged, "The model was not saved at global_step=4");
    CHECK(!tp_file_exists(tp_test_path(min_dir, "model-4.npz")));
    CHECK(step_of(tp_test_path(min_dir, "model-6.npz")) == 6); /* training went on, and so did saving */
    CHECK_STR(text_of(tp_test_path(min_dir, "checkpoint")),
              "model_checkpoint_path: \"model-6\"\nall_model_checkpoint_paths: \"model-2\"\n"
              "all_model_checkpoint_paths: \"model-6\"\n");
}

static tp_status put_odd_values(tp_callback *cb)
{
    tp_monitors *m = cb->train->monitors;
    const float tenth = 0.1f;
    tp_status st = tp_monitors_put_scalar(m, "twice", 1);
    if (st == TP_OK) st = tp_monitors_put_scalar(m, "nan", NAN);
    if (st == TP_OK) st = tp_monitors_put_scalar(m, "inf", INFINITY);
    if (st == TP_OK) st = tp_monitors_put_scalar(m, "minus", -INFINITY);
    if (st == TP_OK) st = tp_monitors_put_scalar(m, "f32", tenth);
    return st == TP_OK ? tp_monitors_put_scalar(m, "twice", 2) : st;
}

TEST(json_of_odd_values)
{
    tp_test_keep_log();
    const char *dir = tp_test_tmpdir();
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    tp_callback *cb = tp_callback_new("Odd", 0);
    tp_monitor *m = tp_monitor_json_writer();
    cb->trigger = put_odd_values;
    tp_train_desc d;
    memset(&d, 0, sizeof d);
    d.callbacks = &cb;
    d.n_callbacks = 1;
    d.monitors = &m;
    d.n_monitors = 1;
    d.steps_per_epoch = 1;
    d.max_epoch = 1;
    tp_trainer *t = tp_noop_trainer();
    CHECK_OK(tp_train(t, &d));
    tp_trainer_free(t);
    CHECK_STR(text_of(tp_test_path(dir, "stats.json")),
              "[{\"twice\": 2.0, \"nan\": NaN, \"inf\": Infinity, \"minus\": -Infinity, "
              "\"f32\": 0.10000000149011612, \"epoch_num\": 1, \"global_step\": 1}]");
}

/* Ctrl-C in each hook: B's after_train runs, the result says so, the handler of before is back. */
TEST(ctrl_c_in_any_hook)
{
#ifdef TP_NO_SIGNALS
    TEST_SKIP("without signals there is no Ctrl-C");
#endif
    static const char *const hooks[] = {"before_train", "before_epoch", "before_run",
                                        "trigger_step", "after_epoch",  "trigger"};
    struct sigaction mine, before, now;
    memset(&mine, 0, sizeof mine);
    mine.sa_handler = other_handler;
    sigaction(SIGINT, &mine, &before);
    for (int i = 0; i < TP_COUNT(hooks); i++) {
        tp_test_keep_log();
        trace_clear();
        other_handler_ran = 0;
        tp_callback *cb[2] = {rec_fails("A", hooks[i], TP_OK, 0), rec_new("B", false)};
        ((recorder *)cb[0]->user)->raises = SIGINT;
        const tp_status st = run_noop(cb, 2, 2, 1, 2);
        CHECK_MSG(st == TP_INTR, "in %s: %s", hooks[i], tp_status_name(st));
        CHECK_HAS(trace, "A.after_train B.after_train");
        CHECK_MSG(other_handler_ran == 0, "in %s the old handler ran", hooks[i]);
        CHECK(sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler == other_handler);
    }
    sigaction(SIGINT, &before, NULL);
}

/* A program that ends its training by SIGTERM. Its handler does nothing where no training runs, and a training that begins then is not
 * ended. */
static volatile sig_atomic_t interrupts, interrupted_any;
static void on_sigterm(int number)
{
    (void)number;
    interrupts++;
    if (tp_interrupt()) interrupted_any++;
}
TEST(tp_interrupt_in_a_signal_handler)
{
    struct sigaction mine, before, now;
    memset(&mine, 0, sizeof mine);
    mine.sa_handler = on_sigterm;
    sigaction(SIGTERM, &mine, &before);
    interrupts = interrupted_any = 0;
    for (int turn = 0; turn < 2; turn++) {
        tp_test_keep_log();
        trace_clear();
        raise(SIGTERM);
        CHECK(!tp_interrupt());
        tp_callback *cb[2] = {rec_fails("A", "after_run", TP_OK, 3), model_saver(tp_test_tmpdir(), 0, 0)};
        ((recorder *)cb[0]->user)->raises = SIGTERM;
        CHECK(run_noop(cb, 2, 5, 1, 5) == TP_INTR);
        CHECK_STR(tp_last_error(), "training was interrupted by Ctrl-C or tp_interrupt");
        CHECK_HAS(trace, "A.after_run A.trigger_step A.after_train"); /* the step is finished */
        CHECK_HAS(tp_test_logged, "Ctrl-C or tp_interrupt: this step is finished, then the model is saved");
        CHECK_HAS(tp_test_logged, "interrupted.npz");
        CHECK(interrupts == 2 * turn + 2 && interrupted_any == turn + 1);
    }
    CHECK(!tp_interrupt());
    tp_callback *cb = rec_new("A", false);
    CHECK_OK(run_noop(&cb, 1, 2, 1, 2));
    CHECK(sigaction(SIGTERM, NULL, &now) == 0 && now.sa_handler == on_sigterm);
    sigaction(SIGTERM, &before, NULL);
}

/* A Ctrl-C after it ends the program at once. */
static tp_status interrupt_twice(tp_callback *cb)
{
    (void)cb;
    if (!tp_interrupt() || !tp_interrupt()) _exit(1);
    raise(SIGINT);
    _exit(2);
}
TEST(tp_interrupt_and_ctrl_c)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        tp_callback *cb = tp_callback_new("Twice", 0);
        cb->trigger_step = interrupt_twice;
        _exit(run_noop(&cb, 1, 2, 1, 1) == TP_OK ? 3 : 4);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT, "status %x", (unsigned)status);
}

/* What is misused is freed too: counted block by block. */
TEST(mistakes_leak_nothing)
{
    TEST_EXPECT_ERROR("Training did not start: ");
    TEST_EXPECT_ERROR("recorder fails in before_train");
    tp_test_keep_log();
    for (int i = 0; i < 6; i++) {
        tp_test_fail_after(0);
        tp_callback *cb = i == 0 ? &tp_monitor_new("Mine", 0)->cb : rec_new("A", false);
        tp_train_config c = config(&cb, 1);
        c.max_epoch = 1;
        c.n_extra_callbacks = c.n_monitors = TP_NONE;
        if (i == 1) {
            tp_feed_input_desc feed;
            memset(&feed, 0, sizeof feed);
            feed.df = points(8, 2, 0);
            c.data = tp_feed_input_(&feed);
        }
        if (i == 2) {
            tp_df_free(c.dataflow);
            c.dataflow = wrong_flow(0);
        }
        if (i == 3) c.model.build_graph = build_vector;
        if (i == 4) c.model.build_graph = build_null;
        if (i == 5) {
            tp_callback_free(cb);
            cb = rec_fails("A", "before_train", TP_ERR_ARG, 0);
        }
        const tp_status st = tp_launch_train_with_config(&c, tp_simple_trainer());
        const long live = tp_test_live_blocks();
        CHECK_MSG(st < 0, "case %d: %s", i, tp_status_name(st));
        CHECK_MSG(live == 0, "case %d: %ld blocks leak", i, live);
        CHECK_MSG(tp_last_error()[0] && !strchr(tp_last_error(), '\n'), "case %d: '%s'", i, tp_last_error());
        tp_test_alloc_reset();
    }
}

/* ==== >>memory ======================================================================================== */

static long allocs_seen[8];
static tp_status count_allocs(tp_callback *cb)
{
    if (cb->train->global_step < 8) allocs_seen[cb->train->global_step] = tp_test_alloc_count();
    return TP_OK;
}

TEST(steps_allocate_nothing)
{
    tp_test_keep_log();
    tp_callback *cb = tp_callback_new("Count", 0);
    cb->trigger_step = count_allocs;
    tp_train_config c = config(&cb, 1);
    c.max_epoch = 1;
    c.steps_per_epoch = 8;
    c.n_monitors = TP_NONE;
    tp_session_config s = tp_default_session_config();
    s.threads = 1;
    c.session_config = &s;
    tp_test_fail_after(0);
    CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
    tp_test_alloc_reset();
    for (int i = 3; i < 7; i++)
        CHECK_MSG(allocs_seen[i] == allocs_seen[2], "step %d allocates %ld times", i,
                  allocs_seen[i] - allocs_seen[i - 1]);
}

TEST(out_of_memory_at_every_point)
{
    TEST_EXPECT_ERROR("out of memory");
    TEST_MAY_ERROR("no memory");
    TEST_MAY_ERROR("the data are missing"); /* their constructor found no memory */
    tp_test_keep_log();
    const char *dir = tp_test_tmpdir();
    const bool quick = getenv("TP_TEST_QUICK") != NULL;
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    bool failed = true;
    for (long n = 1; failed && n < 1000000; n += quick ? 37 : n < 400 ? 1 : 7) {
        tp_test_keep_log();
        tp_test_fail_after(n);
        static const char *const names[] = {"cost"};
        tp_callback *cb[4] = {model_saver(dir, 0, 0), inference(names, 1), min_saver("validation_cost", dir), NULL};
        tp_cb_estimated_time_left_desc eta;
        memset(&eta, 0, sizeof eta);
        cb[3] = periodic_trigger(tp_cb_estimated_time_left_(&eta), 0, 1, 0);
        tp_train_config c = config(cb, 4);
        c.max_epoch = 1;
        tp_session_config s = tp_default_session_config();
        s.threads = 1;
        c.session_config = &s;
        const tp_status st = tp_launch_train_with_config(&c, tp_simple_trainer());
        failed = tp_test_alloc_failed();
        const long live = tp_test_live_blocks();
        CHECK_MSG(live == 0, "allocation %ld: %ld blocks leak", n, live);
        if (!failed) CHECK_OK(st);
        tp_test_alloc_reset();
    }
}

/* ==== >>protocols ===================================================================================== */

/* A session hook sees each run; as a callback, those of the training, registered, those of inference. */
typedef struct seen_hook {
    tp_hook hook;
    int begun, created, before, after, ended;
    float cost;
} seen_hook;

static tp_status seen_begin(tp_hook *h, tp_graph *g)
{
    CHECK(g != NULL);
    ((seen_hook *)h)->begun++;
    return TP_OK;
}
static tp_status seen_created(tp_hook *h, tp_session *s)
{
    CHECK(s != NULL);
    ((seen_hook *)h)->created++;
    return TP_OK;
}
static tp_status seen_before(tp_hook *h, tp_run_request *r)
{
    (void)r;
    ((seen_hook *)h)->before++;
    return TP_OK;
}
static tp_status seen_after(tp_hook *h, const tp_run_values *v)
{
    CHECK(v->n == 0);
    ((seen_hook *)h)->after++;
    return TP_OK;
}
static void seen_end(tp_hook *h, tp_session *s)
{
    (void)s;
    ((seen_hook *)h)->ended++;
}

static void seen_init(seen_hook *s)
{
    memset(s, 0, sizeof *s);
    s->hook.name = "Seen";
    s->hook.begin = seen_begin;
    s->hook.after_create_session = seen_created;
    s->hook.before_run = seen_before;
    s->hook.after_run = seen_after;
    s->hook.end = seen_end;
}

/* An inferencer of a user's: the largest cost of a batch. */
typedef struct largest {
    double value;
    int batches, passes;
} largest;

static tp_status largest_before(tp_inferencer *inf)
{
    ((largest *)inf->user)->value = 0;
    ((largest *)inf->user)->passes++;
    return TP_OK;
}
static tp_status largest_fetches(tp_inferencer *inf, const tp_tensor *const *v, int n)
{
    largest *l = (largest *)inf->user;
    if (!CHECK(n == 1)) return TP_ERR_ARG;
    const double x = ((const float *)v[0]->data)[0];
    l->value = x > l->value ? x : l->value;
    l->batches++;
    return TP_OK;
}
static tp_status largest_after(tp_inferencer *inf)
{
    const largest *l = (const largest *)inf->user;
    trace_add("%d batches in pass %d", l->batches, l->passes);
    return tp_monitors_put_scalar(inf->train->monitors, "largest", l->value);
}

TEST(hooks_and_inferencers_of_a_user)
{
    tp_test_keep_log();
    trace_clear();
    seen_hook training, inferring;
    seen_init(&training);
    seen_init(&inferring);
    tp_inferencer *inf = tp_inferencer_new("Largest", sizeof(largest));
    static const char *const names[] = {"cost"};
    if (!CHECK(inf) || !CHECK_OK(tp_inferencer_set_names(inf, names, 1))) return;
    inf->before_inference = largest_before;
    inf->on_fetches = largest_fetches;
    inf->after_inference = largest_after;
    tp_cb_inference_runner_desc d;
    memset(&d, 0, sizeof d);
    d.df = points(50, 20, TP_YES);
    d.inferencers[0] = inf;
    tp_cb_dump_tensors_desc printed;
    memset(&printed, 0, sizeof printed);
    printed.names[0] = "cost";
    tp_callback *cb[3] = {tp_cb_hook(&training.hook), tp_cb_inference_runner_(&d), tp_cb_tensor_printer_(&printed)};
    CHECK_OK(tp_inference_runner_register_hook(cb[1], &inferring.hook));
    tp_monitor *m = rec_monitor();
    tp_train_config c = config(cb, 3);
    c.max_epoch = 2;
    c.steps_per_epoch = 3;
    c.n_extra_callbacks = TP_NONE;
    c.monitors = &m;
    c.n_monitors = 1;
    CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
    CHECK(training.begun == 1 && training.created == 1 && training.ended == 1);
    CHECK_MSG(training.before == 6 && training.after == 6, "%d and %d runs of 6", training.before, training.after);
    CHECK_MSG(inferring.before == 6 && inferring.after == 6, "%d and %d batches of 6", inferring.before,
              inferring.after);
    CHECK_HAS(trace, "3 batches in pass 1");
    CHECK_HAS(trace, "6 batches in pass 2");
    CHECK_HAS(trace, "largest=");
    CHECK_HAS(tp_test_logged, "\ncost:0: "); /* the tensor, as tensorpack names it */
    tp_callback *late = tp_callback_new("Late", 0);
    CHECK_ERR(tp_inference_runner_register_hook(late, &inferring.hook), TP_ERR_ARG, "InferenceRunner");
    tp_callback_free(late);
}

TEST(default_sets_and_prefetch)
{
    tp_test_keep_log();
    tp_callback *cbs[TP_N_DEFAULT_CALLBACKS];
    tp_monitor *ms[TP_N_DEFAULT_MONITORS];
    static const char *const cb_names[] = {"MovingAverageSummary", "ProgressBar", "MergeAllSummaries", "RunUpdateOps"};
    static const char *const m_names[] = {"TFEventWriter", "JSONWriter", "ScalarPrinter", "Report"};
    tp_default_callbacks(cbs);
    for (int i = 0; i < TP_N_DEFAULT_CALLBACKS; i++) {
        CHECK_HAS(cbs[i]->name, cb_names[i]);
        tp_callback_free(cbs[i]);
    }
    tp_default_monitors(ms);
    for (int i = 0; i < TP_N_DEFAULT_MONITORS; i++) {
        CHECK_HAS(ms[i]->cb.name, m_names[i]);
        if (i != 2) tp_monitor_free(ms[i]);
    }
    CHECK_OK(golden_run(ms[2], 1, 1, NULL)); /* prints at the end of an epoch, as that of .. = {0} */
    CHECK_HAS(tp_test_logged, "n: 1\ns: 20\nval_error: 1\n");
    CHECK(!strstr(tp_test_logged, "s: 10"));
    /* a SimpleTrainer feeds, others prefetch through a queue [train: apply_default_prefetch] */
    tp_trainer *fed = tp_simple_trainer(), *queued = tp_queue_input_trainer();
    tp_input_source *a = tp_apply_default_prefetch(points(50, 20, TP_YES), fed);
    tp_input_source *b = tp_apply_default_prefetch(points(50, 20, TP_YES), queued);
    CHECK_STR(a->name, "FeedInput");
    CHECK_STR(b->name, "QueueInput");
    tp_input_free(a);
    tp_input_free(b);
    CHECK(tp_trainer_monitors(fed) == NULL); /* there are some from setup_callbacks on */
    tp_trainer_free(fed);
    tp_trainer_free(queued);
    CHECK(tp_rank() == 0 && tp_size() == 1 && tp_local_rank() == 0);
}

TEST(graph_var_param_by_hand)
{
    TEST_EXPECT_ERROR("nowhere:0 is not a variable");
    tp_test_keep_log();
    tp_cb_hyper_param_setter_with_func_desc d;
    memset(&d, 0, sizeof d);
    d.param = tp_param_graph_var("nowhere");
    d.fn = decay_even;
    tp_callback *cb = tp_cb_hyper_param_setter_with_func_(&d);
    tp_train_config c = config(&cb, 1);
    c.max_epoch = 1;
    CHECK_ERR(tp_launch_train_with_config(&c, tp_simple_trainer()), TP_ERR_NAME, "nowhere");
    tp_model m;
    memset(&m, 0, sizeof m);
    m.build_graph = build;
    tp_trainer *t = tp_simple_trainer(); /* a model without input signature */
    CHECK_ERR(tp_trainer_setup_graph(t, &m, tp_placeholder_input()), TP_ERR_ARG,
              "and .build_graph: .inputs is missing");
    tp_trainer_free(t);
}

/* ==== >>keywords ====================================================================================== */

#ifndef __cplusplus
TEST(keyword_arguments)
{
    tp_test_keep_log();
    trace_clear();
    const char *dir = tp_test_tmpdir();
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    double x = 0;
    static const tp_spec inputs[] = {TP_SPEC("x", TP_F32, TP_ANY, 4), TP_SPEC("y", TP_F32, TP_ANY, 1)};
    tp_status st = tp_launch_train_with_config(
        &(tp_train_config){
            .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build, .optimizer = optimizer},
            .dataflow = points(96, 16, TP_NO),
            TP_CALLBACKS(
                tp_cb_model_saver(.max_to_keep = 3),
                tp_cb_inference_runner(points(50, 20, TP_YES),
                                       .inferencers = {tp_inf_scalar_stats({"cost"}, .prefix = "val"),
                                                       tp_inf_classification_error("wrong", "val_error")}),
                tp_cb_max_saver("val_cost"),
                tp_cb_scheduled_hyper_param_setter("learning_rate", {{1, 0.01}, {3, 0.001}},
                                                   .interp = TP_INTERP_LINEAR),
                tp_cb_scheduled_hyper_param_setter(.param = tp_param_field("x", &x, TP_F64), .schedule = {{1, 0.5}}),
                tp_cb_periodic_trigger(tp_cb_lambda(.trigger = only_trigger), .every_k_epochs = 2),
                tp_cb_throughput_tracker(.samples_per_step = 16), tp_cb_host_memory_tracker(),
                tp_cb_simple_moving_average({"cost"}, .window_size = 2), tp_cb_dump_tensors({"cost"}),
                tp_cb_estimated_time_left()),
            TP_MONITORS(rec_monitor()),
            TP_EXTRA_CALLBACKS(tp_cb_moving_average_summary(), tp_cb_progress_bar({"cost"}),
                               tp_cb_merge_all_summaries(), tp_cb_run_update_ops()),
            .max_epoch = 3,
        },
        tp_simple_trainer());
    CHECK_OK(st);
    CHECK(x == 0.5);
    CHECK(tp_file_exists(tp_test_path(dir, "max-val_cost.npz")));
    CHECK(tp_file_exists(tp_test_path(dir, "DumpTensor-7.npz")));
    CHECK_HAS(trace, "Throughput (samples/sec)=");
    CHECK_HAS(trace, "HostFreeMemory (GB)=");
    CHECK_HAS(trace, "cost/SMA=");
    CHECK_HAS(trace, "val_error=");
    CHECK_HAS(trace, "[ cost:1 ]"); /* the moving average, its tag cleaned */
    CHECK_HAS(tp_test_logged, "Estimated Time Left");
    CHECK_HAS(tp_test_logged, "|6/6[");
}
#endif

TEST_MAIN()
