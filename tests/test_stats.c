/* stats.json while scalars are reported at each step: what is written, what a kill, a full disk and a damaged end leave. */
#define _GNU_SOURCE
#define TP_IMPLEMENTATION
#include "tp_callbacks.h"
#include "tp_test.h"
#include "inject.h"

#include <sys/resource.h>

enum { EPOCH = 10, EPOCHS = 4, STEPS = EPOCH * EPOCHS };
static char folder[400];

/* The records of steps first .. last, as the format's description has them. */
static size_t records(char *text, size_t size, int first, int last)
{
    size_t n = 0;
    for (int step = first; step <= last; step++)
        n += (size_t)snprintf(text + n, size - n,
                              "%s{\"cost\": %d.5, \"n\": %d, \"epoch_num\": %d, \"global_step\": %d}",
                              step > 1 ? ", " : "[", step, 3 * step, (step - 1) / EPOCH + 1, step);
    return n;
}

typedef struct writer {
    tp_train_state train;
    tp_monitor *m;
    tp_monitors *all;
} writer;

static tp_status make(writer *w, int step)
{
    memset(w, 0, sizeof *w);
    w->m = tp_monitor_json_writer();
    w->all = tp_monitors_new(&w->m, 1);
    if (!w->all) return TP_ERR_NOMEM;
    w->train.monitors = w->all;
    w->train.steps_per_epoch = EPOCH;
    w->train.global_step = step;
    w->train.starting_epoch = step / EPOCH + 1;
    const tp_status st = tp_callback_setup_graph(&w->all->cb, &w->train);
    return st == TP_OK ? tp_callback_setup_graph(&w->m->cb, &w->train) : st;
}

/* saved: NULL, or the checkpoint of a training that is resumed. */
static tp_status start(writer *w, const tp_dict *saved)
{
    const tp_status st = saved ? tp_callback_load_state(&w->m->cb, saved, "p/") : TP_OK;
    w->m->cb.resumed = saved != NULL;
    return st == TP_OK ? tp_callback_before_train(&w->m->cb) : st;
}

/* saved: NULL, or the checkpoint after `step` steps. */
static tp_status begin(writer *w, const tp_dict *saved, int step)
{
    const tp_status st = make(w, step);
    return st == TP_OK ? start(w, saved) : st;
}

static tp_status steps(writer *w, int first, int last)
{
    tp_status st = TP_OK;
    for (int step = first; step <= last && st == TP_OK; step++) {
        w->train.global_step = step;
        w->train.local_step = (step - 1) % EPOCH;
        w->train.epoch_num = (step - 1) / EPOCH + 1;
        st = tp_monitors_put_scalar(w->all, "cost", step + 0.5);
        if (st == TP_OK) st = tp_monitors_put_int(w->all, "n", 3 * step);
        if (st == TP_OK) st = tp_callback_trigger_step(&w->m->cb);
        if (st == TP_OK && step % EPOCH == 0) st = tp_callback_trigger_epoch(&w->m->cb);
    }
    return st;
}

static void end(writer *w)
{
    tp_callback_free(&w->all->cb);
    tp_monitor_free(w->m);
}

static int body(void *arg)
{
    writer w;
    (void)arg;
    tp_status st = begin(&w, NULL, 0);
    if (st == TP_OK) st = steps(&w, 1, STEPS);
    if (st == TP_OK) st = tp_callback_after_train(&w.m->cb);
    const bool saved = !w.m->cb.unsaved;
    end(&w);
    return st != TP_OK ? 2 : saved ? 0 : 1;
}

/* A folder of its own is the logger's. */
static void anew(void)
{
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    tp_test_keep_log();
    CHECK_OK(tp_logger_set_dir(folder, 'k'));
}

/* How many records the file has, -1 if there is none, -2 if it is not the list of the first ones. */
static int whole_records(void)
{
    static char want[100 * STEPS];
    char *text = NULL;
    int n = 0;
    if (!tp_file_exists(tp_test_path(folder, "stats.json"))) return -1;
    if (!CHECK_OK(tp_load_existing_json(folder, &text))) return -2;
    for (const char *p = text; (p = strchr(p, '{')) != NULL; p++) n++;
    const size_t size = records(want, sizeof want, 1, n);
    const bool same =
        strncmp(text, want, size) == 0 && text[size] == ']' && strspn(text + size + 1, " ") == strlen(text + size + 1);
    CHECK_MSG(same, "%s", text);
    tp_free(text);
    return same ? n : -2;
}

static uint64_t bytes_written;
static long syncs;
static void count_bytes(void *user, pid_t thread, const char *call, unsigned kind, const uint64_t *args)
{
    (void)user, (void)thread;
    if (strcmp(call, "write") == 0) bytes_written += args[2];
    if (kind == INJECT_SYNC) syncs++;
}

/* The largest whole numbers, which a double rounds, and what is no number at all. */
TEST(whole_numbers_of_any_size)
{
    static const int64_t whole[] = {0, -1, INT64_C(1) << 53, INT64_MAX, INT64_MIN};
    tp_summary_value odd = {"odd", TP_SUMMARY_SCALAR, NAN, true, NULL};
    const tp_summary summary = {&odd, 1};
    char name[8];
    writer w;
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    CHECK_OK(tp_logger_set_dir(folder, 'k'));
    CHECK_OK(begin(&w, NULL, 0));
    w.train.global_step = 1;
    for (int i = 0; i < TP_COUNT(whole); i++) {
        snprintf(name, sizeof name, "n%d", i);
        CHECK_OK(tp_monitors_put_int(w.all, name, whole[i]));
    }
    CHECK_OK(tp_monitors_put_summary(w.all, &summary));
    CHECK_OK(tp_callback_trigger_step(&w.m->cb));
    CHECK_OK(tp_callback_after_train(&w.m->cb));
    tp_callback_free(&w.m->cb);
    tp_callback_free(&w.all->cb);
    static const char text[] = "[{\"n0\": 0, \"n1\": -1, \"n2\": 9007199254740992, \"n3\": 9223372036854775808, "
                               "\"n4\": -9223372036854775808, \"odd\": NaN, \"epoch_num\": 0, \"global_step\": 1}]";
    CHECK(tp_test_file_equals(tp_test_path(folder, "stats.json"), text, sizeof text - 1));
    CHECK_OK(tp_logger_set_dir(NULL, 0));
}

/* A step writes its own record, and an epoch waits for the disk once. */
TEST(what_is_written_is_what_is_new)
{
    inject_plan plan;
    inject_result r;
    static char want[100 * STEPS];
    anew();
    memset(&plan, 0, sizeof plan);
    memset(&r, 0, sizeof r);
    plan.watch = count_bytes;
    bytes_written = 0, syncs = 0;
    if (inject_run(body, NULL, &plan, &r) != 0) TEST_SKIP(r.why);
    const size_t size = records(want, sizeof want, 1, STEPS) + 1;
    CHECK(WIFEXITED(r.status) && WEXITSTATUS(r.status) == 0);
    CHECK(whole_records() == STEPS);
    CHECK_MSG(bytes_written >= size && bytes_written <= size + 2 * STEPS, "%llu bytes for a file of %lu",
              (unsigned long long)bytes_written, (unsigned long)size);
    CHECK_MSG(syncs >= EPOCHS && syncs <= EPOCHS + 3, "%ld", syncs);
}

TEST(a_kill_at_any_call_leaves_a_list)
{
    inject_plan plan;
    inject_result r;
    int most = -1;
    anew();
    memset(&plan, 0, sizeof plan);
    memset(&r, 0, sizeof r);
    if (inject_run(body, NULL, &plan, &r) != 0) TEST_SKIP(r.why);
    const long calls = r.calls, kills = getenv("TP_TEST_QUICK") ? 15 : 60;
    for (long k = 0; k < kills; k++) {
        remove(tp_test_path(folder, "stats.json"));
        plan.what = INJECT_KILL;
        plan.n = 1 + k * (calls - 1) / (kills - 1);
        memset(&r, 0, sizeof r);
        if (!CHECK(inject_run(body, NULL, &plan, &r) == 0)) return;
        CHECK(WIFSIGNALED(r.status) && WTERMSIG(r.status) == SIGKILL);
        const int n = whole_records();
        if (!CHECK_MSG(n >= most, "%d records, %d before", n, most)) return;
        most = n;
    }
    CHECK(most == STEPS);
}

/* The limit cuts a write short, as a full disk does, and fails the next one. Later there is room again. */
TEST(a_full_disk_leaves_a_list)
{
    static char want[100 * STEPS];
    struct rlimit old, now;
    TEST_MAY_ERROR("was not written");
    if (!CHECK(getrlimit(RLIMIT_FSIZE, &old) == 0)) return;
    signal(SIGXFSZ, SIG_IGN);
    for (int more = 0; more < 90; more += 7) {
        writer w;
        anew();
        CHECK_OK(begin(&w, NULL, 0));
        CHECK_OK(steps(&w, 1, 13));
        CHECK(!w.m->cb.unsaved);
        now = old;
        now.rlim_cur = (rlim_t)(records(want, sizeof want, 1, 13) + 1 + (size_t)more);
        CHECK(setrlimit(RLIMIT_FSIZE, &now) == 0);
        CHECK_OK(steps(&w, 14, 17));
        CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
        CHECK(w.m->cb.unsaved != NULL);
        const int n = whole_records();
        CHECK_MSG(n == 13 || n == 14, "%d records, %d bytes more", n, more);
        CHECK_OK(steps(&w, 18, 18));
        CHECK(!w.m->cb.unsaved && whole_records() == 18);
        end(&w);
    }
    signal(SIGXFSZ, SIG_DFL);
}

static rlim_t room_later;
static void more_room(int signal_number) /* the disk is full: another program frees a few bytes */
{
    struct rlimit now;
    (void)signal_number;
    getrlimit(RLIMIT_FSIZE, &now);
    now.rlim_cur = room_later;
    setrlimit(RLIMIT_FSIZE, &now);
}

/* A record was written in part, and room comes that is still too little for it: blanks stand in place of the part, and not beyond. */
TEST(a_full_disk_leaves_no_blanks_behind)
{
    static char want[100 * STEPS];
    struct rlimit old, now;
    writer w;
    TEST_MAY_ERROR("was not written");
    if (!CHECK(getrlimit(RLIMIT_FSIZE, &old) == 0)) return;
    signal(SIGXFSZ, more_room);
    anew();
    CHECK_OK(begin(&w, NULL, 0));
    CHECK_OK(steps(&w, 1, 13));
    now = old;
    now.rlim_cur = (rlim_t)(records(want, sizeof want, 1, 13) + 1 + 7);
    room_later = now.rlim_cur + 30;
    CHECK(setrlimit(RLIMIT_FSIZE, &now) == 0);
    CHECK_OK(steps(&w, 14, 14));
    CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
    char *text = NULL;
    size_t n = 0;
    CHECK_OK(tp_file_read(tp_test_path(folder, "stats.json"), false, 0, &text, &n));
    CHECK_MSG(n == now.rlim_cur, "%lu bytes", (unsigned long)n);
    tp_free(text);
    CHECK(w.m->cb.unsaved && whole_records() == 13);
    end(&w);
    signal(SIGXFSZ, SIG_DFL);
}

/* What a full disk left out is written when training ends, if there is room by then. */
TEST(the_end_of_a_training_writes_what_a_full_disk_left_out)
{
    static char want[100 * STEPS];
    struct rlimit old, now;
    TEST_MAY_ERROR("was not written");
    if (!CHECK(getrlimit(RLIMIT_FSIZE, &old) == 0)) return;
    signal(SIGXFSZ, SIG_IGN);
    for (int room = 0; room < 2; room++) {
        writer w;
        anew();
        CHECK_OK(begin(&w, NULL, 0));
        CHECK_OK(steps(&w, 1, 13));
        now = old;
        now.rlim_cur = (rlim_t)(records(want, sizeof want, 1, 13) + 1);
        CHECK(setrlimit(RLIMIT_FSIZE, &now) == 0);
        CHECK_OK(steps(&w, 14, 20));
        CHECK(w.m->cb.unsaved && whole_records() == 13);
        if (room) CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
        CHECK_OK(tp_callback_after_train(&w.m->cb));
        CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
        CHECK((w.m->cb.unsaved == NULL) == room && whole_records() == (room ? 20 : 13));
        end(&w);
    }
    signal(SIGXFSZ, SIG_DFL);
}

/* A training that goes on with a file, or is resumed, where any allocation fails: it says so, and the file keeps its records.
 * With all memory there it goes on behind them. */
TEST(a_file_is_read_without_memory)
{
    static char text[100 * STEPS];
    for (int resumed = 0; resumed < 2; resumed++) {
        tp_dict saved;
        long failures = 0;
        memset(&saved, 0, sizeof saved);
        anew();
        const size_t n = records(text, sizeof text, 1, 20);
        snprintf(text + n, sizeof text - n, "]");
        CHECK(tp_test_write(tp_test_path(folder, "stats.json"), text, strlen(text)));
        for (long k = 1, failed = 1; failed; k++) {
            writer w;
            if (!CHECK_OK(make(&w, 20))) return;
            tp_test_fail_after(k);
            const tp_status st = start(&w, resumed ? &saved : NULL);
            failed = tp_test_alloc_failed();
            tp_test_alloc_reset();
            failures += failed;
            if (failed) CHECK_ERR(st, TP_ERR_NOMEM, "out of memory");
            else CHECK_OK(st);
            CHECK(whole_records() == 20);
            if (!failed) {
                CHECK_OK(steps(&w, 21, STEPS));
                CHECK(whole_records() == STEPS);
            }
            end(&w);
            if (!CHECK(k < 200)) return;
        }
        CHECK(failures > 1);
    }
}

/* A power failure: the records up to the checkpoint are on the disk, what comes behind them is not what was written. */
TEST(a_resume_drops_a_damaged_end)
{
    static const char *const ends[] = {"",
                                       ", ",
                                       ", {\"cost\": 21.",
                                       ", {\"cost\": 21.5, \"n\": 63, \"epoch_num\": 3, \"global_step\": 21}",
                                       "\1\2\3",
                                       ", {\"cost\": 21.5, \"n\": 63, \"epoch_num\": 3, \"global_step\": 21}, }]",
                                       "]]"};
    static char text[100 * STEPS];
    for (int i = 0; i < TP_COUNT(ends); i++) {
        writer w;
        tp_dict saved;
        const tp_stat *stat = NULL;
        memset(&saved, 0, sizeof saved);
        anew();
        const size_t n = records(text, sizeof text, 1, 20);
        snprintf(text + n, sizeof text - n, "%s", ends[i]);
        CHECK(tp_test_write(tp_test_path(folder, "stats.json"), text, strlen(text)));
        CHECK_OK(begin(&w, &saved, 20));
        CHECK_HAS(tp_test_logged, "is damaged at byte");
        CHECK(tp_monitors_get_history(w.all, "n", &stat) == 20 && stat[19].value == 60 && stat[19].step == 20);
        CHECK_OK(steps(&w, 21, STEPS));
        end(&w);
        CHECK(whole_records() == STEPS);
    }
}

/* The list need not begin with the file's first byte: then the place behind its last record is not the one that was written. */
TEST(a_resume_drops_a_damaged_end_behind_blanks)
{
    static char text[100 * STEPS];
    for (int blanks = 1; blanks < 5; blanks++) {
        writer w;
        tp_dict saved;
        memset(&saved, 0, sizeof saved);
        anew();
        memset(text, '\n', (size_t)blanks);
        records(text + blanks, sizeof text - (size_t)blanks, 1, 20);
        CHECK(tp_test_write(tp_test_path(folder, "stats.json"), text, strlen(text)));
        CHECK_OK(begin(&w, &saved, 20));
        CHECK_OK(steps(&w, 21, STEPS));
        end(&w);
        CHECK(whole_records() == STEPS);
    }
}

/* Without a checkpoint nobody knows which of its records are whole: a training that begins anew does not take a damaged file over. */
TEST(a_training_anew_refuses_a_damaged_end)
{
    static const char *const ends[] = {"", ", {\"cost\": 21.", "\1\2\3", "]]"};
    static char text[100 * STEPS];
    for (int i = 0; i < TP_COUNT(ends); i++) {
        writer w;
        char *after = NULL;
        size_t size = 0;
        anew();
        const size_t n = records(text, sizeof text, 1, 20);
        snprintf(text + n, sizeof text - n, "%s", ends[i]);
        CHECK(tp_test_write(tp_test_path(folder, "stats.json"), text, strlen(text)));
        CHECK_ERR(begin(&w, NULL, 0), TP_ERR_FORMAT, "is no JSON: byte ");
        end(&w);
        if (CHECK_OK(tp_file_read(tp_test_path(folder, "stats.json"), false, 0, &after, &size)))
            CHECK_STR(after, text); /* it stays as it was */
        tp_free(after);
    }
}

TEST_MAIN()
