/* test_tensor.c - the ground floor: errors, log, memory, dtypes, shapes, tensors, random numbers, threads,
 * devices */
#define _GNU_SOURCE /* sched_setaffinity */
#define TP_IMPLEMENTATION
#include "tp_tensor.h"
#include "tp_test.h"
#include "inject.h"
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <limits.h>
#include <setjmp.h>
#include <sys/wait.h>
#if !defined(TP_NO_THREADS)
#include <pthread.h>
#include <sched.h>
#endif

/* ==== >>status ======================================================================================== */

TEST(version_and_status_names)
{
    tp_status out_of_range;
    memset(&out_of_range, 0x3f, sizeof out_of_range);
    CHECK_STR(tp_version(), "0.1.0");
    CHECK_STR(tp_status_name(TP_OK), "TP_OK");
    CHECK_STR(tp_status_name(TP_ERR_SHAPE), "TP_ERR_SHAPE");
    CHECK_STR(tp_status_name(TP_ERR_UNSUPPORTED), "TP_ERR_UNSUPPORTED");
    CHECK_STR(tp_status_name(out_of_range), "unknown status");
    for (int i = -12; i <= 3; i++) CHECK_HAS(tp_status_name((tp_status)i), "TP_");
}

TEST(names_of_all_statuses_and_types)
{
    static const struct {
        tp_status status;
        const char *name;
    } status[] = {{TP_OK, "TP_OK"},
                  {TP_STOP, "TP_STOP"},
                  {TP_END, "TP_END"},
                  {TP_INTR, "TP_INTR"},
                  {TP_ERR, "TP_ERR"},
                  {TP_ERR_ARG, "TP_ERR_ARG"},
                  {TP_ERR_SHAPE, "TP_ERR_SHAPE"},
                  {TP_ERR_DTYPE, "TP_ERR_DTYPE"},
                  {TP_ERR_NOMEM, "TP_ERR_NOMEM"},
                  {TP_ERR_IO, "TP_ERR_IO"},
                  {TP_ERR_FORMAT, "TP_ERR_FORMAT"},
                  {TP_ERR_NAME, "TP_ERR_NAME"},
                  {TP_ERR_STATE, "TP_ERR_STATE"},
                  {TP_ERR_NUMERIC, "TP_ERR_NUMERIC"},
                  {TP_ERR_TIMEOUT, "TP_ERR_TIMEOUT"},
                  {TP_ERR_UNSUPPORTED, "TP_ERR_UNSUPPORTED"}};
    static const char *const type[TP_DTYPE_COUNT] = {"unset", "float32", "float64", "float16", "bfloat16",
                                                     "int32", "int64",   "uint8",   "bool"};
    for (int i = 0; i < TP_COUNT(status); i++) CHECK_STR(tp_status_name(status[i].status), status[i].name);
    for (int i = 0; i < TP_DTYPE_COUNT; i++) {
        CHECK_STR(tp_dtype_name((tp_dtype)i), type[i]);
        CHECK(tp_dtype_is_float((tp_dtype)i) == (strstr(type[i], "float") != NULL));
    }
    tp_dtype out_of_range;
    memset(&out_of_range, 0x3f, sizeof out_of_range);
    CHECK_STR(tp_dtype_name(out_of_range), "invalid dtype");
    CHECK(!tp_dtype_is_float(out_of_range));
}

/* A name from a file may have control characters: they must neither change a terminal nor make lines of the log. */
TEST(sentences_without_control_characters)
{
    static const char name[] = "a\x1b[31m\nb\r\x7f\x01\tc \xc3\xa9";
    tp_fail(TP_ERR_NAME, "there is no '%s'", name);
    CHECK_STR(tp_last_error(), "there is no 'a?[31m b???\tc \xc3\xa9'");
    tp_fail(TP_ERR_NAME, "%s", name);
    CHECK_STR(tp_last_error(), "a?[31m b???\tc \xc3\xa9");
    tp_fail(TP_ERR_NAME, "two lines:\n%s", "of a program"); /* on purpose */
    CHECK_STR(tp_last_error(), "two lines:\nof a program");
    tp_dict d = {NULL, 0, 0};
    CHECK(tp_dict_add(&d, "x\n[0101 00:00:00] forged"));
    CHECK(!tp_dict_find(&d, "weights"));
    CHECK(!strchr(tp_last_error(), '\n') && strstr(tp_last_error(), "x [0101 00:00:00] forged"));
    tp_dict_free(&d);
}

/* A sentence has room for 2047 bytes. Of a longer one the beginning and the end are kept. */
TEST(sentences_of_any_length)
{
    static char text[4000];
    for (size_t n = 2040; n < 2060; n++) {
        for (size_t i = 0; i < n; i++) text[i] = (char)('a' + i % 26);
        text[n] = 0;
        tp_test_fail_after(0);
        CHECK(tp_fail(TP_ERR_IO, "%s", text) == TP_ERR_IO);
        CHECK(tp_test_alloc_count() == (n > 2047) && tp_test_live_blocks() == 0);
        tp_test_alloc_reset();
        const char *is = tp_last_error();
        if (n <= 2047) {
            CHECK_STR(is, text);
            continue;
        }
        CHECK(strlen(is) == 2047 && memcmp(is, text, 1019) == 0 && memcmp(is + 1019, " ... ", 5) == 0);
        CHECK_STR(is + 1024, text + n - 1023);
    }
    tp_test_fail_after(1); /* no memory: cut */
    tp_fail(TP_ERR_IO, "%s", text);
    CHECK(tp_test_alloc_failed());
    tp_test_alloc_reset();
    CHECK(strlen(tp_last_error()) == 2047 && memcmp(tp_last_error(), text, 2047) == 0);
    tp_fail(TP_ERR, NULL);
    CHECK_STR(tp_last_error(), " ");
}

TEST(fail_keeps_the_sentence)
{
    CHECK(tp_fail(TP_ERR_ARG, "the answer is %d", 42) == TP_ERR_ARG);
    CHECK_STR(tp_last_error(), "the answer is 42");
    tp_fail(TP_ERR_IO, "outer: %s", tp_last_error());
    CHECK_STR(tp_last_error(), "outer: the answer is 42");
    char longer[5000];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = 0;
    tp_fail(TP_ERR, "%s", longer);
    CHECK(strlen(tp_last_error()) > 1000 && strlen(tp_last_error()) < sizeof longer);
}

static void fail_elsewhere(void *user)
{
    *(int *)user = tp_last_error()[0] == 0; /* a thread starts without an error */
    tp_fail(TP_ERR, "elsewhere");
}

TEST(errors_belong_to_a_thread)
{
    tp_thread *t;
    int clean = 0;
    tp_fail(TP_ERR, "here");
    tp_status st = tp_thread_start(&t, fail_elsewhere, &clean);
#ifdef TP_NO_THREADS
    CHECK_ERR(st, TP_ERR_UNSUPPORTED, "TP_NO_THREADS");
    CHECK(t == NULL);
#else
    if (!CHECK_OK(st)) return;
    tp_thread_join(t);
    CHECK(clean);
    CHECK_STR(tp_last_error(), "here");
#endif
    tp_thread_join(NULL);
}

/* ==== >>log =========================================================================================== */

typedef struct log_seen {
    int count;
    tp_log_level level;
    char text[8192];
} log_seen;

static void log_into(void *user, tp_log_level level, const char *message)
{
    log_seen *seen = (log_seen *)user;
    seen->count++;
    seen->level = level;
    snprintf(seen->text, sizeof seen->text, "%s", message);
}

static int notices; /* that there were enough */
static char last_notice[200];
static void count_notices(void *user, tp_log_level level, const char *message)
{
    ++*(int *)user;
    if (level != TP_LOG_WARN) return;
    notices++;
    snprintf(last_notice, sizeof last_notice, "%s", message);
}

/* In a process of its own: what was said once stays said. */
TEST(log_once_remembers_256_texts)
{
    const pid_t child = fork();
    if (child == 0) {
        int lines = 0;
        bool ok = true;
        tp_set_log(count_notices, &lines);
        for (int round = 0; round < 2; round++)
            for (int i = 0; i < 256; i++) tp_log_once(TP_LOG_INFO, "text %d", i);
        ok = ok && notices == 1 && lines == 257;
        ok = ok && strcmp(last_notice, "256 different once-only messages were shown; new ones no longer are") == 0;
        tp_log_once(TP_LOG_INFO, "one more");
        tp_log_once(TP_LOG_INFO, "text 0");
        ok = ok && lines == 257;
        tp_log(TP_LOG_INFO, "this one is shown"); /* always */
        ok = ok && lines == 258;
        _exit(ok ? 0 : 1);
    }
    int status = 1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(log_sink)
{
    static log_seen seen;
    tp_set_log(log_into, &seen);
    tp_log(TP_LOG_WARN, "loss is %.1f", 2.5);
    CHECK(seen.count == 1 && seen.level == TP_LOG_WARN);
    CHECK_STR(seen.text, "loss is 2.5");

    for (int i = 0; i < 5; i++) tp_log_once(TP_LOG_INFO, "only %s", "once");
    CHECK(seen.count == 2);
    tp_log_once(TP_LOG_INFO, "only %s", "twice");
    CHECK(seen.count == 3);

    tp_test_fail_after(0); /* a log call does not allocate... */
    tp_log(TP_LOG_INFO, "%s", "short");
    CHECK(tp_test_alloc_count() == 0);
    char longer[5000];
    memset(longer, 'y', sizeof longer);
    longer[sizeof longer - 1] = 0;
    tp_log(TP_LOG_INFO, "%s", longer); /* ...unless the message is a long one */
    CHECK(strlen(seen.text) == sizeof longer - 1);
    CHECK(tp_test_live_blocks() == 0);
    tp_test_fail_after(1);
    tp_log(TP_LOG_INFO, "%s", longer); /* cut, not lost */
    CHECK(strlen(seen.text) > 1000 && strlen(seen.text) < sizeof longer - 1);
    tp_test_alloc_reset();

    int before = seen.count;
    for (int i = 0; i < 600; i++) tp_log_once(TP_LOG_INFO, "different %d", i);
    CHECK(seen.count > before + 200 && seen.count <= before + 257); /* 256 texts and one notice */
    tp_set_log(NULL, NULL);
}

/* A message of 2047 bytes needs no memory; a longer one that gets none keeps as many. */
TEST(log_messages_of_any_length)
{
    static log_seen seen;
    static char text[3000];
    tp_set_log(log_into, &seen);
    for (size_t n = 2045; n < 2052; n++) {
        for (size_t i = 0; i < n; i++) text[i] = (char)('a' + i % 26);
        text[n] = 0;
        for (int fails = 0; fails < 2; fails++) {
            tp_test_fail_after(fails);
            tp_log(TP_LOG_DEBUG, "%s", text);
            CHECK(tp_test_alloc_count() == (n > 2047) && tp_test_live_blocks() == 0);
            tp_test_alloc_reset();
            const size_t kept = fails && n > 2047 ? 2047 : n;
            CHECK(seen.level == TP_LOG_DEBUG && strlen(seen.text) == kept && memcmp(seen.text, text, kept) == 0);
        }
    }
    tp_log(TP_LOG_WARN, NULL);
    CHECK_STR(seen.text, " ");
    tp_set_log(NULL, NULL);
}

/* What `fn` writes to stderr. */
static void read_stderr(void (*fn)(void), char *text, size_t size)
{
    const char *path = tp_test_path(tp_test_tmpdir(), "stderr");
    fflush(stderr);
    int saved = dup(2);
    FILE *f = fopen(path, "w+");
    text[0] = 0;
    if (!CHECK(saved >= 0 && f)) return;
    dup2(fileno(f), 2);
    fn();
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    rewind(f);
    size_t n = fread(text, 1, size - 1, f);
    text[n] = 0;
    fclose(f);
}

static void log_three(void)
{
    tp_log(TP_LOG_INFO, "plain");
    tp_log(TP_LOG_WARN, "careful");
    tp_log(TP_LOG_ERROR, "broken");
}

static char long_line[2100];
static void log_long_lines(void)
{
    for (size_t n = 1980; n < 2060; n++) {
        memset(long_line, 'l', n);
        long_line[n] = 0;
        for (int fails = 0; fails < 2; fails++) {
            tp_test_fail_after(fails);
            tp_log(TP_LOG_DEBUG, "%s", long_line);
            tp_test_alloc_reset();
        }
    }
}

/* A line ends, however long it is and whether there is memory or not; its end is what is cut. */
TEST(log_lines_of_any_length)
{
    static char text[400000];
    read_stderr(log_long_lines, text, sizeof text);
    const char *line = text;
    for (size_t n = 1980; n < 2060; n++)
        for (int fails = 0; fails < 2; fails++) {
            const char *end = strchr(line, '\n');
            if (!CHECK(end && end - line > 20)) return;
            size_t length = 20 + n;                    /* with "[MMDD HH:MM:SS] DBG " */
            if (fails && n > 2047) length = 20 + 2047; /* the message was cut */
            else if (fails && n > 2026) length = 2046; /* the line was */
            CHECK_MSG((size_t)(end - line) == length, "%d: %d", (int)n, (int)(end - line));
            CHECK(line[0] == '[' && memcmp(line + 14, "] DBG ", 6) == 0 && strspn(line + 20, "l") == length - 20);
            line = end + 1;
        }
    CHECK(*line == 0);
}

static void log_from_sink(void *user, tp_log_level level, const char *message)
{
    (void)user;
    (void)level;
    tp_log(TP_LOG_INFO, "from the sink: %s", message); /* goes to the default sink, not around in circles */
}

TEST(log_default_sink)
{
    TEST_EXPECT_ERROR("broken");
    char text[2048];
    int month, day, h, m, s, used = 0;
    read_stderr(log_three, text, sizeof text);
    CHECK(sscanf(text, "[%2d%2d %2d:%2d:%2d] plain\n%n", &month, &day, &h, &m, &s, &used) == 5 && used > 0);
    bool now = false; /* give or take two seconds */
    for (int ago = 0; ago < 3; ago++) {
        const time_t then = time(NULL) - ago;
        char want[32];
        strftime(want, sizeof want, "[%m%d %H:%M:%S] plain", localtime(&then));
        now = now || strncmp(text, want, strlen(want)) == 0;
    }
    CHECK_MSG(now, "%.22s", text);
    CHECK_HAS(text, "] WRN careful\n");
    CHECK_HAS(text, "] ERR broken\n");
    CHECK(!strchr(text, 033)); /* no colours in a file */
    tp_set_log(log_from_sink, NULL);
    read_stderr(log_three, text, sizeof text);
    tp_set_log(NULL, NULL);
    CHECK_HAS(text, "from the sink: plain");
}

/* -- a sink that does not return, sets the log, or forks: in a process of its own, which an alarm ends where it hangs -- */

static jmp_buf out_of_sink;
static int in_sink, sink_lines;

static void jumping_sink(void *user, tp_log_level level, const char *message)
{
    (void)user, (void)level, (void)message;
    if (in_sink++ == 0) longjmp(out_of_sink, 1);
}
static void setting_sink(void *user, tp_log_level level, const char *message)
{
    (void)level, (void)message;
    __atomic_add_fetch(&sink_lines, 1, __ATOMIC_SEQ_CST);
    tp_set_log(NULL, NULL);
    tp_logger_set_dir((const char *)user, 'k');
}
static void slow_sink(void *user, tp_log_level level, const char *message)
{
    (void)level, (void)message;
    CHECK(__atomic_add_fetch(&in_sink, 1, __ATOMIC_SEQ_CST) == 1); /* one thread at a time */
    usleep(2000);
    CHECK(__atomic_load_n((int *)user, __ATOMIC_SEQ_CST) == 1); /* not called any more when tp_set_log has returned */
    __atomic_add_fetch(&sink_lines, 1, __ATOMIC_SEQ_CST);
    __atomic_sub_fetch(&in_sink, 1, __ATOMIC_SEQ_CST);
}
static void *log_ten(void *user)
{
    for (int i = 0; i < 10; i++) tp_log(TP_LOG_DEBUG, "%s", (const char *)user);
    return NULL;
}
static void *log_until(void *stop)
{
    while (!__atomic_load_n((int *)stop, __ATOMIC_SEQ_CST)) tp_log(TP_LOG_DEBUG, "x");
    return NULL;
}
static void *log_for_ever(void *user)
{
    for (;;) tp_log(TP_LOG_DEBUG, "%s", (const char *)user);
    return NULL;
}

/* At the first line: leaves by longjmp, or sets the directory `user`. */
static void jumping_or_setting_sink(void *user, tp_log_level level, const char *message)
{
    (void)level, (void)message;
    if (in_sink++ > 0) return;
    if (!user) longjmp(out_of_sink, 1);
    CHECK_OK(tp_logger_set_dir((const char *)user, 'k'));
}
/* The sink of an ordinary line sets the directory while another thread does so, too. */
static void waiting_sink(void *user, tp_log_level level, const char *message)
{
    (void)level;
    if (strcmp(message, "first") != 0) return;
    __atomic_store_n(&in_sink, 1, __ATOMIC_SEQ_CST);
    usleep(100000); /* the other thread is in tp_logger_set_dir */
    CHECK_OK(tp_logger_set_dir((const char *)user, 'k'));
    __atomic_store_n(&in_sink, 2, __ATOMIC_SEQ_CST);
}

static bool child_ends_well(bool (*fn)(void))
{
    int status = 1;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        TP_TEST_END_CHILD(fn() ? 0 : 1);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool sink_jumps(void)
{
    pthread_t t;
    (tp_set_log)(jumping_sink, NULL);
    if (!setjmp(out_of_sink)) tp_log(TP_LOG_DEBUG, "left by longjmp");
    tp_log(TP_LOG_DEBUG, "the sink gets this line");
    if (in_sink != 2 || pthread_create(&t, NULL, log_ten, "and another thread's") != 0) return false;
    pthread_join(t, NULL);
    in_sink = 0;
    if (!setjmp(out_of_sink)) tp_log(TP_LOG_DEBUG, "left by longjmp");
    (tp_set_log)(NULL, NULL);
    return in_sink == 1;
}
static bool sink_sets_log(void)
{
    static char dir[256];
    snprintf(dir, sizeof dir, "%s/sink", tp_test_tmpdir());
    (tp_set_log)(setting_sink, dir);
    tp_log(TP_LOG_DEBUG, "sets the log and its folder");
    tp_log(TP_LOG_DEBUG, "the default sink gets this line");
    return sink_lines == 1 && tp_logger_dir() && strcmp(tp_logger_dir(), dir) == 0;
}
/* A directory whose log.log has a line, so that the next call of tp_logger_set_dir says what it does with it. */
static const char *used_dir(const char *name)
{
    static char dir[2][280];
    static int n;
    char *path = dir[n++ % 2];
    snprintf(path, sizeof dir[0], "%s/%s", tp_test_tmpdir(), name);
    (tp_set_log)(NULL, NULL);
    CHECK_OK(tp_logger_set_dir(path, 'k'));
    tp_log(TP_LOG_DEBUG, "x");
    CHECK_OK(tp_logger_set_dir(NULL, 0));
    return path;
}
static int open_files(void)
{
    static int n; /* static for -Wclobbered: functions with setjmp inline this one */
    n = 0;
    for (int fd = 0; fd < 200; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}
/* The line that tells of the deleted files. */
static bool sink_jumps_out_of_set_dir(void)
{
    const char *dir = used_dir("jump");
    const int before = open_files();
    (tp_set_log)(jumping_or_setting_sink, NULL);
    if (!setjmp(out_of_sink)) tp_logger_set_dir(dir, 'd');
    if (in_sink != 1 || !tp_logger_dir() || open_files() != before + 1) return false; /* log.log */
    return tp_logger_set_dir(dir, 'k') == TP_OK && tp_logger_set_dir(NULL, 0) == TP_OK && open_files() == before;
}
static bool sink_sets_dir_in_set_dir(void)
{
    static char other[280];
    const long failures = tp_test__failures;
    const char *dir = used_dir("set");
    snprintf(other, sizeof other, "%s-other", dir);
    (tp_set_log)(jumping_or_setting_sink, other);
    return tp_logger_set_dir(dir, 'd') == TP_OK && in_sink == 1 && strcmp(tp_logger_dir(), other) == 0 &&
           tp_test__failures == failures;
}
static void *log_first(void *user)
{
    tp_log(TP_LOG_DEBUG, "%s", (const char *)user);
    return NULL;
}
/* Neither thread waits for the other until that one has been in the sink for too long. */
static bool two_threads_set_dir(void)
{
    pthread_t t;
    const long failures = tp_test__failures;
    const char *dir = used_dir("a"), *other = used_dir("b");
    (tp_set_log)(waiting_sink, (void *)(uintptr_t)other);
    if (pthread_create(&t, NULL, log_first, "first") != 0) return false;
    while (!__atomic_load_n(&in_sink, __ATOMIC_SEQ_CST)) usleep(1000);
    const bool set = tp_logger_set_dir(dir, 'd') == TP_OK && __atomic_load_n(&in_sink, __ATOMIC_SEQ_CST) == 2;
    pthread_join(t, NULL);
    return set && strcmp(tp_logger_dir(), dir) == 0 && tp_test__failures == failures;
}
static bool sink_is_replaced(void)
{
    pthread_t t[3];
    int alive = 1, stop = 0;
    const long failures = tp_test__failures;
    (tp_set_log)(slow_sink, &alive);
    for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, log_until, &stop);
    while (__atomic_load_n(&sink_lines, __ATOMIC_SEQ_CST) < 3) usleep(100);
    (tp_set_log)(tp_test_drop_log, NULL);
    __atomic_store_n(&alive, 0, __ATOMIC_SEQ_CST);
    const int lines = __atomic_load_n(&sink_lines, __ATOMIC_SEQ_CST);
    usleep(20000); /* the threads go on */
    __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    return sink_lines == lines && tp_test__failures == failures;
}
static bool children_log(void)
{
    pthread_t t;
    int alive = 1;
    (tp_set_log)(slow_sink, &alive);
    if (pthread_create(&t, NULL, log_for_ever, "x") != 0) return false;
    for (int i = 0; i < 20; i++) {
        int status = 1;
        const pid_t child = fork();
        if (child == 0) {
            alarm(5);
            in_sink = 0; /* what the other thread had counted */
            tp_log(TP_LOG_DEBUG, "from a child");
            (tp_set_log)(NULL, NULL);
            _exit(0);
        }
        if (waitpid(child, &status, 0) != child || status != 0) return false;
    }
    return true;
}

TEST(log_sinks_that_jump_set_the_log_or_fork)
{
    CHECK(child_ends_well(sink_jumps));
    CHECK(child_ends_well(sink_sets_log));
    CHECK(child_ends_well(sink_jumps_out_of_set_dir));
    CHECK(child_ends_well(sink_sets_dir_in_set_dir));
    CHECK(child_ends_well(two_threads_set_dir));
    CHECK(child_ends_well(sink_is_replaced));
    CHECK(child_ends_well(children_log));
}

static bool file_has(const char *path, const char *part)
{
    char text[4096];
    FILE *f = fopen(path, "r");
    if (!f) return false;
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = 0;
    fclose(f);
    return strstr(text, part) != NULL;
}

/* Entries of dir whose name starts with prefix; the last one is copied to `name`. */
static int count_entries(const char *dir, const char *prefix, char *name, size_t size)
{
    int n = 0;
    DIR *d = opendir(dir);
    struct dirent *e;
    while (d && (e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if (strncmp(e->d_name, prefix, strlen(prefix)) != 0) continue;
        n++;
        if (name) snprintf(name, size, "%.200s", e->d_name);
    }
    if (d) closedir(d);
    return n;
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

TEST(logger_dir)
{
    TEST_MAY_ERROR("log directory");
    TEST_EXPECT_ERROR("broken");
    static log_seen seen;
    tp_set_log(log_into, &seen); /* quiet; the file gets lines from the default sink only */
    char top[260], dir[280], name[300], path[700], outside[280];
    snprintf(top, sizeof top, "%s", tp_test_tmpdir());
    snprintf(dir, sizeof dir, "%s/a/run", top);
    snprintf(outside, sizeof outside, "%s/outside", top);

    CHECK(tp_logger_dir() == NULL);
    CHECK_OK(tp_logger_set_dir(dir, 0)); /* made, parents too */
    CHECK_STR(tp_logger_dir(), dir);
    tp_set_log(NULL, NULL);
    char text[1024];
    read_stderr(log_three, text, sizeof text);
    tp_set_log(log_into, &seen);
    snprintf(path, sizeof path, "%s/log.log", dir);
    CHECK(file_has(path, "] plain\n") && file_has(path, "] WRN careful\n"));

    CHECK_ERR(tp_logger_set_dir(dir, 0), TP_ERR_ARG, "not empty"); /* log.log is in it */
    CHECK_ERR(tp_logger_set_dir(dir, 'x'), TP_ERR_ARG, "'k' to keep");
    CHECK_STR(tp_logger_dir(), dir);

    /* keep: the old log file is renamed */
    snprintf(path, sizeof path, "%s/other", dir);
    tp_test_write(path, "1", 1);
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    CHECK(count_entries(dir, "log.log.", name, sizeof name) == 1);
    CHECK(strlen(name) == strlen("log.log.MMDD-HHMMSS") && name[12] == '-');
    CHECK_OK(tp_logger_set_dir(dir, 'k')); /* within the same second: no backup overwrites another */
    CHECK(count_entries(dir, "log.log.", NULL, 0) == 2);
    CHECK(exists(path));

    /* backup; a slash at the end makes no difference */
    snprintf(name, sizeof name, "%s/", dir);
    CHECK_OK(tp_logger_set_dir(name, 'b'));
    CHECK_STR(tp_logger_dir(), dir);
    CHECK_HAS(seen.text, "backed up");
    snprintf(path, sizeof path, "%s/a", top);
    CHECK(count_entries(path, "run", NULL, 0) == 2);
    CHECK(count_entries(dir, "", NULL, 0) == 1); /* a fresh log.log alone */
    CHECK_OK(tp_logger_set_dir(dir, 'b'));
    CHECK(count_entries(path, "run", NULL, 0) == 3);

    /* new name */
    CHECK_OK(tp_logger_set_dir(dir, 'n'));
    CHECK(strlen(tp_logger_dir()) >= strlen(dir) + 11 && strncmp(tp_logger_dir(), dir, strlen(dir)) == 0);
    CHECK(count_entries(path, "run", NULL, 0) == 4);

    /* delete: nested directories go, what links point at stays */
    mkdir(outside, 0700);
    snprintf(path, sizeof path, "%s/precious", outside);
    tp_test_write(path, "1", 1);
    snprintf(name, sizeof name, "%s/sub", dir);
    mkdir(name, 0700);
    snprintf(path, sizeof path, "%s/sub/file", dir);
    tp_test_write(path, "1", 1);
    snprintf(path, sizeof path, "%s/sub/link", dir);
    CHECK(symlink(outside, path) == 0);
    for (int i = 0; i < 300; i++) {
        snprintf(path, sizeof path, "%s/sub/many%d", dir, i);
        tp_test_write(path, "", 0);
    }
    CHECK_OK(tp_logger_set_dir(dir, 'd'));
    CHECK(count_entries(dir, "", NULL, 0) == 1);
    snprintf(path, sizeof path, "%s/precious", outside);
    CHECK(exists(path));

    /* hidden files do not count */
    snprintf(dir, sizeof dir, "%s/hidden", top);
    mkdir(dir, 0700);
    snprintf(path, sizeof path, "%s/.git", dir);
    tp_test_write(path, "", 0);
    CHECK_OK(tp_logger_set_dir(dir, 0));

    /* what cannot be */
    snprintf(path, sizeof path, "%s/.git", dir);
    tp_test_keep_log();
    CHECK_ERR(tp_logger_set_dir(path, 'd'), TP_ERR_IO, "not a directory");
    CHECK(strstr(tp_test_logged, "not a directory") != NULL); /* it is told to who does not look at the status, too */
    CHECK_ERR(tp_logger_set_dir("", 'd'), TP_ERR_ARG, "empty");
    char *huge = (char *)malloc(10001);
    if (huge) {
        memset(huge, 'z', 10000);
        huge[10000] = 0;
        CHECK_ERR(tp_logger_set_dir(huge, 0), TP_ERR_ARG, "longer");
        CHECK_ERR(tp_logger_auto_set_dir(huge, NULL, 0), TP_ERR_ARG, "too long");
        free(huge);
    }
    CHECK_STR(tp_logger_dir(), dir); /* failures change nothing */

    /* train_log/<program>[:<name>] */
    char here[1000];
    if (CHECK(getcwd(here, sizeof here) != NULL) && CHECK(chdir(top) == 0)) {
        CHECK_OK(tp_logger_auto_set_dir("bin/mnist.convnet.c", NULL, 0));
        CHECK_STR(tp_logger_dir(), "train_log/mnist.convnet");
        CHECK_OK(tp_logger_auto_set_dir("gan", "try2", 0));
        CHECK_STR(tp_logger_dir(), "train_log/gan:try2");
        CHECK(exists("train_log/gan:try2/log.log"));
        CHECK_ERR(tp_logger_auto_set_dir("bin/", NULL, 0), TP_ERR_ARG, "program name");
        CHECK_ERR(tp_logger_auto_set_dir(NULL, NULL, 0), TP_ERR_ARG, "program name");
        CHECK(chdir(here) == 0);
    }
    CHECK_OK(tp_logger_set_dir(NULL, 0));
    CHECK(tp_logger_dir() == NULL);
    tp_set_log(NULL, NULL);
}

/* "top/ddd...d/ddd", of so many bytes; components are of 200 bytes at most. */
static void long_path(char *path, const char *top, size_t n)
{
    snprintf(path, n + 1, "%s", top);
    for (size_t at = strlen(top); at < n; at++) path[at] = at % 200 == strlen(top) % 200 && at + 1 < n ? '/' : 'd';
    path[n] = 0;
}

/* Systems take paths of 4095 bytes; the directory is one whose log file has such a path. */
TEST(logger_dir_of_the_longest_path)
{
    TEST_MAY_ERROR("longer than");
    static log_seen seen;
    char path[5000];
    tp_set_log(log_into, &seen);
    const char *top = tp_test_tmpdir();
    long_path(path, top, 4087);
    CHECK_OK(tp_logger_set_dir(path, 'k'));
    CHECK_STR(tp_logger_dir(), path);
    CHECK(count_entries(path, "log.log", NULL, 0) == 1);
    CHECK_ERR(tp_logger_set_dir(path, 'k'), TP_ERR_ARG,
              "is longer than 4095 bytes: use a shorter one"); /* the old one's */
    CHECK_ERR(tp_logger_set_dir(path, 'b'), TP_ERR_ARG, "is longer than 4095 bytes: use a shorter one");
    for (size_t n = 4088; n < 4100; n++) {
        long_path(path, top, n);
        CHECK_ERR(tp_logger_set_dir(path, 'k'), TP_ERR_ARG,
                  n < 4096 ? "is longer than 4095 bytes: use a shorter one"
                           : "log directory: the path is longer than 4096 bytes");
    }
    CHECK_OK(tp_logger_set_dir(NULL, 0));
    tp_set_log(NULL, NULL);
}

/* A log without a line is no log of a run: it is continued. One with a line is set aside. */
TEST(logger_keeps_no_empty_log)
{
    static log_seen seen;
    tp_set_log(log_into, &seen);
    const char *dir = tp_test_path(tp_test_tmpdir(), "run");
    for (int run = 0; run < 3; run++) {
        CHECK_OK(tp_logger_set_dir(dir, 'k'));
        CHECK_OK(tp_logger_set_dir(NULL, 0));
        CHECK(count_entries(dir, "log.log", NULL, 0) == 1);
    }
    tp_test_write(tp_test_path(dir, "log.log"), "a line\n", 7);
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    CHECK(count_entries(dir, "log.log", NULL, 0) == 2);
    CHECK_OK(tp_logger_set_dir(NULL, 0));
    tp_set_log(NULL, NULL);
}

/* What is set aside within one second has numbers, from 2 on, and the log says what became of it. */
TEST(logger_names_what_it_sets_aside)
{
    static log_seen seen;
    char want[3000], other[1000], stamp[32];
    tp_set_log(log_into, &seen);
    for (int tries = 0; tries < 5; tries++) { /* all of it within a second, at last */
        const char *dir = tp_test_path(tp_test_tmpdir(), "run");
        const time_t begin = time(NULL);
        bool ok = tp_logger_set_dir(dir, 0) == TP_OK;
        strftime(stamp, sizeof stamp, "%m%d-%H%M%S", localtime(&begin));
        for (int i = 1; i <= 3; i++) {
            char number[16] = "";
            if (i > 1) snprintf(number, sizeof number, "-%d", i);
            ok = ok && tp_logger_set_dir(dir, 'k') == TP_OK;
            snprintf(want, sizeof want, "Existing log file '%s/log.log' backed up to '%s/log.log.%s%s'", dir, dir,
                     stamp, number);
            ok = ok && strcmp(seen.text, want) == 0;
        }
        for (int i = 1; i <= 3; i++) {
            char number[16] = "";
            if (i > 1) snprintf(number, sizeof number, "-%d", i);
            snprintf(other, sizeof other, "%s%s%s", dir, stamp, number);
            ok = ok && tp_logger_set_dir(dir, i == 3 ? 'n' : 'b') == TP_OK;
            if (i < 3) snprintf(want, sizeof want, "Directory '%s' backed up to '%s'", dir, other);
            else snprintf(want, sizeof want, "Use a new log directory %s", other);
            ok = ok && strcmp(seen.text, want) == 0 && exists(other);
            ok = ok && strcmp(tp_logger_dir(), i == 3 ? other : dir) == 0;
        }
        if ((!ok || time(NULL) != begin) && tries < 4) continue; /* or time() was behind the log's clock */
        CHECK_MSG(ok, "the last line is '%s', not '%s'", seen.text, want);
        break;
    }
    CHECK_OK(tp_logger_set_dir(NULL, 0));
    tp_set_log(NULL, NULL);
}

/* Neither the working directory is emptied, nor one above it, by whatever path. */
TEST(logger_keeps_the_working_directory)
{
    TEST_MAY_ERROR("log directory");
    char here[1000], top[260], path[600];
    snprintf(top, sizeof top, "%s", tp_test_tmpdir());
    snprintf(path, sizeof path, "%s/a/b/c", top);
    CHECK_OK(tp_make_dirs(path));
    CHECK_OK(tp_make_dirs(tp_test_path(top, "a/beside/c")));
    CHECK(symlink("a", tp_test_path(top, "link")) == 0);
    if (!CHECK(getcwd(here, sizeof here) != NULL) || !CHECK(chdir(tp_test_path(top, "a/b")) == 0)) return;
    /* only what lies in this test's own folder: a build that forgets to refuse it empties it */
    static const char *const refused[] = {".", "..", "../..", "../b", "../../a", "../../link", "../../link/b", "c/.."};
    for (int i = 0; i < TP_COUNT(refused); i++)
        CHECK_ERR(tp_logger_set_dir(refused[i], 'd'), TP_ERR_ARG, "holds the working directory and is not deleted");
    CHECK_ERR(tp_logger_set_dir(tp_test_path(top, "a"), 'd'), TP_ERR_ARG, "holds the working directory");
    CHECK(exists("c") && exists("../beside/c"));
    /* nor what was not the folder of a run */
    CHECK_ERR(tp_logger_set_dir("../beside", 'd'), TP_ERR_ARG, "it has files, but no log.log");
    CHECK(exists("../beside/c"));
    tp_test_write("../beside/log.log", "", 0);
    CHECK_OK(tp_logger_set_dir("../beside", 'd'));
    CHECK(!exists("../beside/c") && exists("../beside/log.log") && exists("c"));
    /* a working directory that is gone lies in no folder */
    CHECK(chdir("c") == 0 && rmdir(path) == 0);
    CHECK_OK(tp_logger_set_dir(NULL, 0));
    CHECK_OK(tp_logger_set_dir(tp_test_path(top, "a/beside"), 'd'));
    CHECK(chdir(here) == 0);
    CHECK_OK(tp_logger_set_dir(NULL, 0));
}

static int start_with_d(void *dir) { return tp_logger_set_dir((const char *)dir, 'd') == TP_OK ? 0 : 1; }

/* A process that is killed while it deletes an earlier run: the next one can delete the rest. */
TEST(a_deletion_that_is_killed)
{
    static const char *const of_a_run[] = {"a.npz", "log.log", "stats.json", "z/b", "z/log.log"};
    char dir[300];
    inject_plan plan;
    inject_result r;
    TEST_MAY_ERROR("cannot delete");
    snprintf(dir, sizeof dir, "%s/run", tp_test_tmpdir());
    memset(&plan, 0, sizeof plan);
    plan.what = INJECT_KILL, plan.kinds = INJECT_UNLINK;
    for (plan.n = 1;; plan.n++) {
        CHECK_OK(tp_make_dirs(tp_test_path(dir, "z")));
        for (int i = 0; i < TP_COUNT(of_a_run); i++) tp_test_write(tp_test_path(dir, of_a_run[i]), "1", 1);
        memset(&r, 0, sizeof r);
        if (inject_run(start_with_d, dir, &plan, &r) != 0) TEST_SKIP(r.why);
        if (!r.fired) break;
        CHECK(WIFSIGNALED(r.status));
        CHECK_OK(tp_logger_set_dir(dir, 'd'));
        for (int i = 0; i < TP_COUNT(of_a_run); i++)
            CHECK(exists(tp_test_path(dir, of_a_run[i])) == (strcmp(of_a_run[i], "log.log") == 0));
        CHECK_OK(tp_logger_set_dir(NULL, 0));
    }
    CHECK_MSG(plan.n > 6, "%ld", plan.n);
    /* if a file cannot be deleted, the start fails */
    plan.what = INJECT_FAIL, plan.error = EACCES, plan.n = 1;
    memset(&r, 0, sizeof r);
    for (int i = 0; i < TP_COUNT(of_a_run); i++) {
        CHECK_OK(tp_make_dirs(tp_test_path(dir, "z")));
        tp_test_write(tp_test_path(dir, of_a_run[i]), "1", 1);
    }
    CHECK(inject_run(start_with_d, dir, &plan, &r) == 0 && r.fired && WIFEXITED(r.status) &&
          WEXITSTATUS(r.status) == 1);
}

/* The number of descriptors that are open. */
static int n_open(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}
/* Only the log file of the present directory is open, and none after it was forgotten. */
TEST(logger_closes_its_files)
{
    static log_seen seen;
    tp_set_log(log_into, &seen);
    const char *top = tp_test_tmpdir();
    const int before = n_open();
    for (int i = 0; i < 5; i++) {
        CHECK_OK(tp_logger_set_dir(tp_test_path(top, i % 2 ? "b" : "a"), i ? 'k' : 0));
        CHECK_MSG(n_open() == before + 1, "%d are open, before there were %d", n_open(), before);
    }
    CHECK_OK(tp_logger_set_dir(NULL, 0));
    CHECK_MSG(n_open() == before, "%d are open, before there were %d", n_open(), before);
    tp_set_log(NULL, NULL);
}

/* ==== >>alloc ========================================================================================= */

TEST(allocator_edges)
{
    size_t n = 1;
    CHECK(tp_mul_size(0, SIZE_MAX, &n) && n == 0);
    CHECK(tp_mul_size(SIZE_MAX, 1, &n) && n == SIZE_MAX);
    CHECK(!tp_mul_size(SIZE_MAX / 2 + 1, 2, &n));
    CHECK(tp_calloc(SIZE_MAX / 2, 4) == NULL);
    CHECK_HAS(tp_last_error(), "out of memory");
    CHECK(tp_malloc(SIZE_MAX) == NULL);
    CHECK(tp_alloc_aligned(SIZE_MAX - 8) == NULL);
    tp_free(NULL);
    tp_free_aligned(NULL);

    tp_test_fail_after(0);
    void *p = tp_malloc(0);
    CHECK(p != NULL);
    p = tp_realloc(p, 100);
    CHECK(p != NULL && tp_realloc(p, SIZE_MAX) == NULL);
    tp_free(p);
    unsigned char *z = (unsigned char *)tp_calloc(7, 11);
    for (int i = 0; z && i < 77; i++) CHECK(z[i] == 0);
    tp_free(z);
    char *s = tp_strdup("word");
    CHECK_STR(s, "word");
    tp_free(s);
    static const size_t sizes[] = {0, 1, 63, 64, 65, 1000, 4u << 20, (4u << 20) + 123};
    for (int i = 0; i < TP_COUNT(sizes); i++) {
        char *a = (char *)tp_alloc_aligned(sizes[i]);
        CHECK(a && (uintptr_t)a % 64 == 0);
        if (a) memset(a, 1, sizes[i]);
        tp_free_aligned(a);
    }
    CHECK(tp_test_live_blocks() == 0);
    tp_test_alloc_reset();
}

static int blocks_asked;
static void *asked_malloc(size_t size, void *user)
{
    (void)user;
    blocks_asked++;
    return malloc(size);
}
static void *asked_realloc(void *p, size_t size, void *user)
{
    (void)user;
    return realloc(p, size);
}
static void asked_free(void *p, void *user)
{
    (void)user;
    free(p);
}
TEST(an_allocator_without_a_function)
{
    tp_allocator a = {asked_malloc, asked_realloc, asked_free, NULL};
    tp_set_allocator(&a);
    for (int i = 0; i < 3; i++) {
        static const char *const sentence[] = {".malloc_fn is NULL", ".realloc_fn is NULL", ".free_fn is NULL"};
        tp_allocator less = a;
        if (i == 0) less.malloc_fn = NULL;
        if (i == 1) less.realloc_fn = NULL;
        if (i == 2) less.free_fn = NULL;
        TEST_EXPECT_ERROR(sentence[i]);
        tp_set_allocator(&less);
        CHECK_HAS(tp_last_error(), sentence[i]);
        const int before = blocks_asked;
        void *p = tp_malloc(10); /* from the allocator that was there */
        CHECK(p != NULL && blocks_asked == before + 1);
        tp_free(p);
    }
    tp_set_allocator(NULL);
}

/* Takes, changes and gives back pieces of all sizes in a random order. Returns whether each piece kept its content and was aligned;
 * *refused: how many there was no memory for. */
static bool use_memory(int steps, int *refused)
{
    unsigned char *piece[40] = {NULL};
    size_t size[40] = {0};
    bool good = true;
    *refused = 0;
    for (int i = 0; i < steps; i++) {
        const uint32_t r = tp_random_u32(7, 0, (uint64_t)i);
        const int k = (int)(r % 40);
        const size_t n = (r >> 8) % 300 + 1;
        for (size_t b = 0; piece[k] && b < size[k]; b++) good = good && piece[k][b] == (unsigned char)(k + 1);
        if (piece[k] && (r >> 20 & 3) == 0) {
            tp_free(piece[k]);
            piece[k] = NULL;
            continue;
        }
        unsigned char *p = (unsigned char *)(piece[k] ? tp_realloc(piece[k], n) : tp_malloc(n));
        if (!p) {
            ++*refused;
            continue;
        }
        const size_t kept = !piece[k] ? 0 : size[k] < n ? size[k] : n;
        for (size_t b = 0; b < kept; b++) good = good && p[b] == (unsigned char)(k + 1);
        good = good && (uintptr_t)p % (2 * sizeof(size_t)) == 0;
        piece[k] = p;
        size[k] = n;
        memset(p, k + 1, n);
    }
    for (int k = 0; k < 40; k++) tp_free(piece[k]);
    return good;
}

TEST(memory_of_the_program)
{
    static char memory[20000];
    size_t most = 1, again = 1;
    int refused = 0;
    CHECK(tp_memory_in_use(&most) == 0 && most == 0);
    CHECK(tp_set_memory(NULL, 1000) == TP_ERR_ARG);
    CHECK_HAS(tp_last_error(), "memory must not be NULL");
    CHECK(tp_set_memory(memory, 8) == TP_ERR_ARG);
    CHECK_HAS(tp_last_error(), "8 bytes");
    CHECK(tp_set_memory(memory, SIZE_MAX) == TP_ERR_ARG);
    CHECK(tp_memory_in_use(NULL) == 0);        /* the calls that failed changed nothing */
    for (int shift = 0; shift < 20; shift++) { /* any address */
        CHECK_OK(tp_set_memory(memory + shift, sizeof memory - 20));
        const size_t empty = tp_memory_in_use(&most);
        CHECK(empty > 0 && empty == most);
        CHECK(use_memory(20000, &refused) && refused == 0);
        CHECK(tp_memory_in_use(&most) == empty && most > 2000 && most < sizeof memory - 20);
    }
    /* an array of *most bytes is enough; a shorter one is not, and says so */
    CHECK_OK(tp_set_memory(memory, sizeof memory));
    CHECK(use_memory(20000, &refused) && refused == 0);
    tp_memory_in_use(&most);
    CHECK_OK(tp_set_memory(memory, most));
    CHECK(use_memory(20000, &refused) && refused == 0);
    CHECK(tp_memory_in_use(&again) > 0 && again == most);
    CHECK_OK(tp_set_memory(memory, most - 2 * sizeof(size_t)));
    CHECK(use_memory(20000, &refused) && refused > 0);
    CHECK_HAS(tp_last_error(), "out of memory");
    /* when all pieces are free, they are one */
    void *p = tp_malloc(most - 12 * sizeof(size_t));
    CHECK(p != NULL && tp_malloc(most) == NULL);
    tp_free(p);
    tp_set_allocator(NULL);
    CHECK(tp_memory_in_use(&most) == 0 && most == 0);
}

TEST(arena)
{
    tp_arena a = {NULL, 0};
    tp_test_fail_after(0);
    for (int i = 0; i < 2000; i++) {
        unsigned char *p = (unsigned char *)tp_arena_alloc(&a, (size_t)(i % 97));
        bool zero = p && (uintptr_t)p % 16 == 0;
        for (int k = 0; zero && k < i % 97; k++) zero = p[k] == 0;
        if (!CHECK(zero)) break;
        memset(p, 0xff, (size_t)(i % 97));
    }
    char *big = (char *)tp_arena_alloc(&a, 3000000);
    CHECK(big != NULL);
    if (big) memset(big, 0xff, 3000000);
    char *s = tp_arena_strdup(&a, "conv0/W"), *t = tp_arena_printf(&a, "%s/%d", "tower", 3);
    CHECK_STR(s, "conv0/W");
    CHECK_STR(t, "tower/3");
    CHECK(a.used >= 3000000);
    CHECK(tp_arena_alloc(&a, SIZE_MAX - 4) == NULL);
    tp_arena_free(&a);
    CHECK(a.used == 0 && tp_test_live_blocks() == 0);
    tp_test_alloc_reset();
}

/* What was handed out is counted in sixteens. Blocks are few: they double, and what is large has one of its own, behind
 * which the open one goes on. */
TEST(arena_takes_few_blocks)
{
    tp_arena a = {NULL, 0};
    size_t used = 0;
    tp_test_fail_after(0);
    for (int i = 0; i < 20000; i++) {
        const size_t n = (size_t)(i * 7919 % 120);
        if (!CHECK(tp_arena_alloc(&a, n) != NULL)) break;
        used += n < 1 ? 16 : (n + 15) / 16 * 16;
        if (!CHECK(a.used == used)) break;
    }
    CHECK_MSG(tp_test_alloc_count() <= 10, "%ld blocks", tp_test_alloc_count()); /* 4 KiB to 1 MiB: 9 and one more */
    const long before = tp_test_alloc_count();
    char *small = (char *)tp_arena_alloc(&a, 16), *large = (char *)tp_arena_alloc(&a, 5000000),
         *next = (char *)tp_arena_alloc(&a, 16);
    CHECK(large && tp_test_alloc_count() == before + 1 && next == small + 16);
    tp_arena_free(&a);
    CHECK(tp_test_live_blocks() == 0);
    large = (char *)tp_arena_alloc(&a, 3000); /* the first of an arena */
    CHECK(large && a.used == 3008);
    memset(large, 1, 3000);
    tp_arena_free(&a);
    CHECK(tp_test_live_blocks() == 0);
    tp_arena_free(NULL);
    tp_test_alloc_reset();
}

/* A size that no machine has is refused by a sentence that names it. */
TEST(sentences_of_impossible_sizes)
{
    static const size_t size[] = {SIZE_MAX, (size_t)PTRDIFF_MAX + 1, PTRDIFF_MAX, (size_t)PTRDIFF_MAX - 8,
                                  (size_t)PTRDIFF_MAX - 31};
    char want[100];
    tp_test_fail_after(0);
    for (int i = 0; i < (sizeof(size_t) > 4 ? TP_COUNT(size) : 2); i++) {
        tp_arena a = {NULL, 0};
        snprintf(want, sizeof want, "out of memory: %zu bytes were asked for", size[i]);
        CHECK(tp_malloc(size[i]) == NULL);
        CHECK_STR(tp_last_error(), want);
        CHECK(tp_realloc(NULL, size[i]) == NULL);
        CHECK_STR(tp_last_error(), want);
        CHECK(tp_alloc_aligned(size[i]) == NULL);
        CHECK_STR(tp_last_error(), want);
        CHECK(tp_arena_alloc(&a, size[i]) == NULL && a.used == 0);
        CHECK_STR(tp_last_error(), want);
        void *p = tp_malloc(8);
        CHECK(tp_realloc(p, size[i]) == NULL);
        CHECK_STR(tp_last_error(), want);
        tp_free(p);
        CHECK(tp_calloc(1, size[i]) == NULL);
        CHECK_STR(tp_last_error(), want);
    }
    CHECK(tp_calloc(SIZE_MAX, 2) == NULL);
    snprintf(want, sizeof want, "out of memory: %zu elements of 2 bytes were asked for", SIZE_MAX);
    CHECK_STR(tp_last_error(), want);
    CHECK(tp_test_live_blocks() == 0);
    tp_test_alloc_reset();
}

/* It grows by doubling, and asks for nothing while there is room. */
TEST(buf_grows_by_doubling)
{
    tp_buf b = {NULL, 0, 0, false};
    static char text[70000];
    memset(text, 'x', sizeof text);
    tp_test_fail_after(0);
    tp_buf_printf(&b, "%s", "");
    CHECK(b.data == NULL && b.cap == 0 && tp_test_alloc_count() == 0);
    for (size_t n = 1; n <= 66000; n++) {
        if (n % 2) tp_buf_put(&b, text, 1);
        else tp_buf_printf(&b, "%c", 'x');
        size_t cap = 32;
        while (cap < n + 1) cap *= 2; /* with its 0 */
        if (!CHECK(b.len == n && b.data[n] == 0 && b.cap == cap)) break;
    }
    CHECK(memcmp(b.data, text, 66000) == 0);
    CHECK_MSG(tp_test_alloc_count() == 13, "%ld allocations", tp_test_alloc_count()); /* 32 to 131072 */
    tp_buf_free(&b);
    tp_buf_put(&b, text, 31);
    CHECK(b.cap == 32);
    tp_buf_free(&b);
    tp_buf_put(&b, text, 32);
    CHECK(b.cap == 64);
    tp_buf_free(&b);
    tp_buf_put(&b, text, 66000); /* at once */
    CHECK(b.cap == 131072 && b.len == 66000 && b.data[66000] == 0);
    tp_buf_put(&b, text, SIZE_MAX / 2);
    CHECK(b.failed && b.len == 66000);
    tp_buf_printf(&b, "more");
    CHECK(b.len == 66000);
    tp_buf_free(&b);
    tp_buf_free(NULL);
    CHECK(b.len == 0 && b.cap == 0 && tp_test_live_blocks() == 0);
    tp_test_alloc_reset();
}

TEST(buf)
{
    tp_buf b;
    memset(&b, 0, sizeof b);
    tp_buf_put(&b, NULL, 0);
    CHECK(b.data == NULL && b.len == 0);
    for (int i = 0; i < 500; i++) tp_buf_printf(&b, "%d,", i);
    tp_buf_put(&b, "end", 3);
    CHECK(!b.failed && b.data && strlen(b.data) == b.len);
    CHECK_HAS(b.data, ",498,499,end");
    tp_test_fail_after(1);
    size_t len = b.len;
    char block[4096] = {0};
    tp_buf_put(&b, block, sizeof block);
    CHECK(b.failed && b.len == len);
    tp_buf_put(&b, "x", 1); /* sticks */
    CHECK(b.len == len);
    tp_test_alloc_reset();
    tp_buf_free(&b);
    CHECK(b.data == NULL && !b.failed);
}

static tp_status allocate_everything(void)
{
    tp_status st = TP_ERR_NOMEM;
    tp_arena a = {NULL, 0};
    tp_buf b;
    tp_tensor t, u;
    tp_device *d = NULL;
    tp_mutex *m = NULL;
    tp_cond *c = NULL;
    const int64_t dim[] = {3, 4};
    memset(&b, 0, sizeof b);
    memset(&t, 0, sizeof t);
    memset(&u, 0, sizeof u);
    char *s = tp_strdup("x");
    if (!s || !tp_arena_alloc(&a, 10) || !tp_arena_strdup(&a, "y") || !tp_arena_printf(&a, "%d", 1)) goto done;
    if (!tp_arena_alloc(&a, 1 << 20)) goto done;
    tp_buf_printf(&b, "%d", 5);
    for (int i = 0; i < 100; i++) tp_buf_put(&b, "0123456789", 10);
    if (b.failed) goto done;
    st = tp_tensor_resize(&t, TP_F32, tp_make_shape_n(2, dim));
    if (st != TP_OK) goto done;
    memset(t.data, 0, tp_tensor_bytes(&t));
    st = tp_tensor_copy(&u, &t);
    if (st != TP_OK) goto done;
    st = TP_ERR_NOMEM;
    d = tp_cpu_device_new(2, "naive");
    m = tp_mutex_new();
    c = tp_cond_new();
    if (d && m && c) st = TP_OK;
done:
    tp_cond_free(c);
    tp_mutex_free(m);
    if (d) d->close(d);
    tp_tensor_free(&u);
    tp_tensor_free(&t);
    tp_buf_free(&b);
    tp_arena_free(&a);
    tp_free(s);
    return st;
}

/* A device that could not be opened keeps the sentence that says why. */
TEST(a_device_that_is_not_ready)
{
    tp_fail(TP_ERR_UNSUPPORTED, "the driver is too old");
    CHECK(tp_device_ready(NULL) == NULL);
    CHECK_STR(tp_last_error(), "the driver is too old");
}

TEST(out_of_memory_at_every_point)
{
    int points = 0;
    for (long n = 1, failed = 1; failed; n++) {
        tp_test_fail_after(n);
        tp_status st = allocate_everything();
        failed = tp_test_alloc_failed();
        CHECK(failed ? st == TP_ERR_NOMEM : st == TP_OK);
        if (failed) CHECK_HAS(tp_last_error(), "out of memory");
        CHECK(tp_test_live_blocks() == 0);
        points++;
    }
    CHECK(points > 10);
    tp_test_alloc_reset();
}

/* ==== >>dtype ========================================================================================= */

TEST(dtypes)
{
    static const size_t size[] = {0, 4, 8, 2, 2, 4, 8, 1, 1};
    for (int i = 0; i < TP_DTYPE_COUNT; i++) CHECK(tp_dtype_size((tp_dtype)i) == size[i]);
    tp_dtype out_of_range;
    memset(&out_of_range, 0x3f, sizeof out_of_range);
    CHECK(tp_dtype_size(out_of_range) == 0);
    CHECK_STR(tp_dtype_name(TP_F32), "float32");
    CHECK_STR(tp_dtype_name(TP_BF16), "bfloat16");
    CHECK_STR(tp_dtype_name(TP_BOOL), "bool");
    CHECK(tp_dtype_is_float(TP_F32) && tp_dtype_is_float(TP_BF16) && !tp_dtype_is_float(TP_I32) &&
          !tp_dtype_is_float(TP_DTYPE_UNSET));
}

/* The value of a half, by the definition. */
static double half_value(unsigned h)
{
    int e = (int)(h >> 10 & 31), m = (int)(h & 1023);
    double v = e == 31 ? (double)INFINITY : e == 0 ? ldexp(m, -24) : ldexp(1024 + m, e - 25);
    return h & 0x8000 ? -v : v;
}

TEST(f16_all_values)
{
    for (unsigned h = 0; h < 65536; h++) {
        float f = tp_f16_to_f32((uint16_t)h);
        uint16_t back = tp_f32_to_f16(f);
        if ((h & 0x7fff) > 0x7c00) {
            if (!CHECK(isnan(f) && back == (h | 0x200))) return; /* quiet, payload kept */
        } else {
            if (!CHECK((double)f == half_value(h) && back == h && (signbit(f) != 0) == (h >> 15 != 0))) return;
        }
    }
    /* Around every midpoint between neighbours: below rounds down, above rounds up, the middle to even. */
    for (unsigned h = 0; h < 0x7c00; h++) {
        double lo = half_value(h), hi = h + 1 == 0x7c00 ? 65536.0 : half_value(h + 1);
        float mid = (float)((lo + hi) / 2); /* exact */
        if (!CHECK(tp_f32_to_f16(mid) == (h & 1 ? h + 1 : h))) return;
        if (!CHECK(tp_f32_to_f16(nextafterf(mid, 0)) == h && tp_f32_to_f16(nextafterf(mid, INFINITY)) == h + 1)) return;
        if (!CHECK(tp_f32_to_f16(-mid) == ((h & 1 ? h + 1 : h) | 0x8000))) return;
    }
    CHECK(tp_f32_to_f16(FLT_MAX) == 0x7c00 && tp_f32_to_f16(-INFINITY) == 0xfc00 && tp_f32_to_f16(1e-40f) == 0);
}

TEST(bf16_all_values)
{
    for (unsigned h = 0; h < 65536; h++) {
        float f = tp_bf16_to_f32((uint16_t)h);
        uint16_t back = tp_f32_to_bf16(f);
        if ((h & 0x7fff) > 0x7f80) {
            if (!CHECK(isnan(f) && back == (h | 0x40))) return;
        } else if (!CHECK(back == h)) return;
    }
    CHECK(tp_f32_to_bf16(1.0f + 1.0f / 256) == 0x3f80); /* tie to even */
    CHECK(tp_f32_to_bf16(1.0f + 3.0f / 256) == 0x3f82);
    CHECK(tp_f32_to_bf16(nextafterf(1.0f + 1.0f / 256, 2)) == 0x3f81);
    CHECK(tp_f32_to_bf16(FLT_MAX) == 0x7f80);
}

TEST(convert_every_pair)
{
    /* Small whole numbers survive any route; 600 elements cross the block's end. */
    enum { N = 600 };
    static unsigned char a[N * 8], b[N * 8];
    static int64_t want[N], got[N];
    for (int from = TP_F32; from < TP_DTYPE_COUNT; from++) {
        for (int to = TP_F32; to < TP_DTYPE_COUNT; to++) {
            bool truth = from == TP_BOOL || to == TP_BOOL;
            for (int i = 0; i < N; i++) want[i] = i % 101;
            tp_convert(a, (tp_dtype)from, want, TP_I64, N);
            tp_convert(b, (tp_dtype)to, a, (tp_dtype)from, N);
            tp_convert(got, TP_I64, b, (tp_dtype)to, N);
            bool same = true;
            for (int i = 0; i < N; i++) same = same && got[i] == (truth ? want[i] != 0 : want[i]);
            CHECK_MSG(same, "%s to %s", tp_dtype_name((tp_dtype)from), tp_dtype_name((tp_dtype)to));
        }
    }
    tp_convert(NULL, TP_F32, NULL, TP_U8, 0);
    tp_convert(NULL, TP_F32, NULL, TP_F32, 0);
}

TEST(convert_edges)
{
    const double x[] = {2.9, -2.9, 300, -300, 1e30, -1e30, (double)NAN, 0.5};
    int32_t i32[8];
    int64_t i64[8];
    uint8_t u8[8], truth[8];
    tp_convert(i32, TP_I32, x, TP_F64, 8);
    tp_convert(i64, TP_I64, x, TP_F64, 8);
    tp_convert(u8, TP_U8, x, TP_F64, 8);
    tp_convert(truth, TP_BOOL, x, TP_F64, 8);
    CHECK(i32[0] == 2 && i32[1] == -2 && i32[4] == INT32_MAX && i32[5] == INT32_MIN && i32[6] == 0);
    CHECK(i64[1] == -2 && i64[4] == INT64_MAX && i64[5] == INT64_MIN && i64[6] == 0);
    CHECK(u8[0] == 2 && u8[1] == 0 && u8[2] == 255 && u8[3] == 0 && u8[7] == 0);
    CHECK(truth[6] == 1 && truth[7] == 1);

    const int64_t v[] = {INT64_MAX, INT64_MIN, 256 + 7, -1};
    tp_convert(u8, TP_U8, v, TP_I64, 4);
    tp_convert(i32, TP_I32, v, TP_I64, 4);
    CHECK(u8[2] == 7 && u8[3] == 255 && i32[0] == -1 && i32[1] == 0 && i32[3] == -1);

    /* One rounding, not two: just above a tie of the short type, by less than a float can hold. */
    const double d[] = {1.0 + 1.0 / 2048 + 1e-12, 1.0 + 1.0 / 256 + 1e-14, 65520.0 - 1e-9, 1e300};
    uint16_t h[4];
    tp_convert(h, TP_F16, d, TP_F64, 4);
    CHECK(h[0] == 0x3c01 && h[2] == 0x7bff && h[3] == 0x7c00);
    tp_convert(h, TP_BF16, d, TP_F64, 4);
    CHECK(h[1] == 0x3f81 && h[3] == 0x7f80);
    const int64_t w[] = {((int64_t)257 << 54) + 1, (int64_t)257 << 54, -(((int64_t)257 << 54) + 1), INT64_MIN};
    tp_convert(h, TP_BF16, w, TP_I64, 4); /* 257 lies between 256 and 258 */
    CHECK(h[0] == 0x5e81 && h[1] == 0x5e80 && h[2] == 0xde81 && h[3] == 0xdf00);
}

/* Any bits of any type as any other, against one formula for all: the nearest of the other type, a tie to even; integers are cut
 * toward zero and stop at their ends, or keep their low bits if they were integers before. */
static long double nearest(long double x, int bits, int lowest, long double infinite)
{
    if (x != x || x == 0 || isinf(x)) return x;
    int e;
    frexpl(x, &e);
    const int place = e - bits < lowest ? lowest : e - bits;
    const long double r = ldexpl(rintl(ldexpl(x, -place)), place);
    return fabsl(r) >= infinite ? (x < 0 ? -(long double)INFINITY : (long double)INFINITY) : r;
}
static long double value_at(const void *p, tp_dtype type, int64_t i, int64_t *whole)
{
    uint16_t h;
    *whole = 0;
    memcpy(&h, (const char *)p + 2 * i, type == TP_F16 || type == TP_BF16 ? 2 : 0);
    switch (type) {
    case TP_F32: return (long double)((const float *)p)[i];
    case TP_F64: return (long double)((const double *)p)[i];
    case TP_F16: return (h & 0x7fff) > 0x7c00 ? (long double)NAN : (long double)half_value(h);
    case TP_BF16: return (long double)tp_bf16_to_f32(h);
    case TP_I32: *whole = ((const int32_t *)p)[i]; break;
    case TP_I64: *whole = ((const int64_t *)p)[i]; break;
    case TP_U8: *whole = ((const uint8_t *)p)[i]; break;
    default: *whole = ((const uint8_t *)p)[i] != 0; break;
    }
    return (long double)*whole;
}
TEST(convert_any_bits)
{
#if LDBL_MANT_DIG < 64
    TEST_SKIP("long double holds no int64 here");
#endif
    enum { N = 700 };
    static union {
        uint64_t bits[N];
        unsigned char bytes[8 * N];
    } from;
    static uint64_t to[N];
    for (int a = TP_F32; a < TP_DTYPE_COUNT; a++) {
        const size_t size = tp_dtype_size((tp_dtype)a);
        for (size_t i = 0; i < N; i++) { /* all magnitudes, and half of them small ones with few bits */
            uint64_t v =
                (uint64_t)tp_random_u32(3, (uint64_t)a, 2 * i) << 32 | tp_random_u32(3, (uint64_t)a, 2 * i + 1);
            if (a >= TP_I32) v = (uint64_t)((int64_t)v >> v % 64);
            if (i % 2 && a <= TP_F64)
                v = a == TP_F32 ? (v & 0x87ffe000u) + 0x3c000000u : (v & 0x80fffffff0000000u) + 0x3f00000000000000u;
            if (a == TP_BOOL) v %= 3;
            for (size_t k = 0; k < size; k++) from.bytes[i * size + k] = (unsigned char)(v >> 8 * k);
        }
        const uint32_t order = 1;
        if (!*(const char *)&order) TEST_SKIP("the bytes of this test are little-endian");
        for (int b = TP_F32; b < TP_DTYPE_COUNT; b++) {
            if (a == b) continue;
            tp_convert(to, (tp_dtype)b, from.bits, (tp_dtype)a, N);
            int wrong = 0;
            for (int64_t i = 0; i < N; i++) {
                int64_t whole, got_whole;
                const long double x = value_at(from.bits, (tp_dtype)a, i, &whole);
                const long double got = value_at(to, (tp_dtype)b, i, &got_whole);
                if (b <= TP_BF16) {
                    const long double want = b == TP_F32   ? nearest(x, 24, -149, 0x1p128L)
                                             : b == TP_F64 ? nearest(x, 53, -1074, INFINITY)
                                             : b == TP_F16 ? nearest(x, 11, -24, 65536.0L)
                                                           : nearest(x, 8, -133, 0x1p128L);
                    wrong += !(got == want || (got != got && want != want));
                    continue;
                }
                int64_t want = whole;
                if (b == TP_BOOL) want = x != 0;
                else if (a <= TP_BF16) {
                    const long double lo = b == TP_I32 ? -0x1p31L : b == TP_I64 ? -0x1p63L : 0.0L;
                    const long double hi = b == TP_I32 ? 0x1p31L - 1 : b == TP_I64 ? 0x1p63L - 1 : 255.0L;
                    want = x != x ? 0 : (int64_t)(x < lo ? lo : x > hi ? hi : truncl(x));
                } else if (b == TP_U8) want = ((whole % 256) + 256) % 256;
                else if (b == TP_I32) {
                    want = whole % 0x100000000;
                    want += want < -0x80000000LL ? 0x100000000 : 0;
                    want -= want > 0x7fffffff ? 0x100000000 : 0;
                }
                wrong += got_whole != want;
            }
            CHECK_MSG(wrong == 0, "%s to %s: %d of %d are wrong", tp_dtype_name((tp_dtype)a),
                      tp_dtype_name((tp_dtype)b), wrong, N);
        }
    }
}

/* ==== >>shape ========================================================================================= */

static tp_shape shape_of(int ndim, int64_t a, int64_t b, int64_t c)
{
    int64_t dim[3];
    dim[0] = a, dim[1] = b, dim[2] = c;
    return tp_make_shape_n(ndim, dim);
}

/* The product of the dimensions, with a division for each */
static int64_t plain_size(const tp_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->ndim; i++)
        if (s->dim[i] < 0) return -1;
    for (int i = 0; i < s->ndim; i++)
        if (s->dim[i] == 0) return 0;
    for (int i = 0; i < s->ndim; i++) n = n > INT64_MAX / s->dim[i] ? INT64_MAX : n * s->dim[i];
    return n;
}
TEST(sizes_of_shapes)
{
    static const int64_t dims[] = {-1,        0,          1,          2,          3,          46341,
                                   INT32_MAX, 2147483648, 3037000499, 3037000500, 4294967296, INT64_MAX / 3,
                                   INT64_MAX, INT64_MIN,  7};
    for (uint64_t i = 0; i < 20000; i++) {
        tp_shape s;
        memset(&s, 0, sizeof s);
        s.ndim = (int)(i % 5);
        for (int k = 0; k < s.ndim; k++) s.dim[k] = dims[tp_random_u32(5, (uint64_t)k, i) % (unsigned)TP_COUNT(dims)];
        if (!CHECK_MSG(tp_shape_size(&s) == plain_size(&s), "shape %d", (int)i)) return;
    }
}

TEST(shapes)
{
    char text[TP_SHAPE_TEXT];
    tp_shape s = shape_of(3, 2, 3, 4), any = shape_of(3, TP_ANY, 3, 4), scalar = tp_make_shape_n(0, NULL);
    CHECK(tp_shape_size(&s) == 24 && tp_shape_size(&any) == -1 && tp_shape_size(&scalar) == 1);
    CHECK(tp_shape_known(&s) && !tp_shape_known(&any) && tp_shape_known(&scalar));
    CHECK(tp_shape_compatible(&s, &any) && !tp_shape_equal(&s, &any) && tp_shape_equal(&any, &any));
    tp_shape other = shape_of(3, 2, 3, 5), flat = shape_of(1, 24, 0, 0);
    CHECK(!tp_shape_compatible(&other, &any) && !tp_shape_compatible(&flat, &s) && !tp_shape_equal(&flat, &s));
    CHECK_STR(tp_shape_text(&any, text), "(?,3,4)");
    CHECK_STR(tp_shape_text(&scalar, text), "()");

    tp_shape huge = shape_of(3, INT64_MAX, 2, 1), zero = shape_of(3, INT64_MAX, 0, INT64_MAX);
    CHECK(tp_shape_size(&huge) == INT64_MAX && tp_shape_size(&zero) == 0);
    zero.dim[2] = TP_ANY;
    CHECK(tp_shape_size(&zero) == -1);
    int64_t dim[TP_MAX_DIMS + 1];
    for (int i = 0; i <= TP_MAX_DIMS; i++) dim[i] = INT64_MAX;
    tp_shape widest = tp_make_shape_n(TP_MAX_DIMS, dim), wrong = tp_make_shape_n(TP_MAX_DIMS + 1, dim);
    CHECK(strlen(tp_shape_text(&widest, text)) == TP_MAX_DIMS * 20 + 1);
    CHECK(wrong.ndim == -1 && !tp_shape_known(&wrong) && tp_shape_size(&wrong) == INT64_MAX);
    CHECK_STR(tp_shape_text(&wrong, text), "(invalid)");
#ifndef __cplusplus
    tp_shape made = tp_make_shape(2, 3, 4);
    CHECK(tp_shape_equal(&made, &s));
#endif
}

/* ==== >>tensor ======================================================================================== */

TEST(tensors)
{
    tp_tensor t, u;
    memset(&t, 0, sizeof t);
    memset(&u, 0, sizeof u);
    if (!CHECK_OK(tp_tensor_resize(&t, TP_F32, shape_of(2, 3, 4, 0)))) return;
    CHECK(tp_tensor_size(&t) == 12 && tp_tensor_bytes(&t) == 48 && (uintptr_t)t.data % 64 == 0);
    for (int i = 0; i < 12; i++) tp_tensor_set(&t, i, i - 0.5);
    CHECK(tp_tensor_get(&t, 3) == 2.5);

    void *old = t.data; /* smaller: the same buffer */
    CHECK_OK(tp_tensor_resize(&t, TP_I32, shape_of(1, 5, 0, 0)));
    CHECK(t.data == old && tp_tensor_bytes(&t) == 20);
    tp_tensor_set(&t, 4, -7.9);
    CHECK(tp_tensor_get(&t, 4) == -7);

    float borrowed[6] = {1, 2, 3, 4, 5, 6};
    tp_tensor_view(&t, TP_F32, shape_of(2, 2, 3, 0), borrowed);
    CHECK(t.data == borrowed && t.own == old && tp_tensor_get(&t, 5) == 6);
    CHECK_OK(tp_tensor_copy(&u, &t));
    CHECK(u.data != t.data && tp_tensor_get(&u, 5) == 6 && tp_shape_equal(&u.shape, &t.shape));
    CHECK_OK(tp_tensor_copy(&t, &t)); /* a view becomes its own */
    CHECK(t.data == old && tp_tensor_get(&t, 4) == 5);

    tp_tensor inside; /* a view into what the copy is about to replace */
    memset(&inside, 0, sizeof inside);
    tp_tensor_view(&inside, TP_F32, shape_of(1, 3, 0, 0), (const float *)t.data + 2);
    CHECK_OK(tp_tensor_copy(&t, &inside));
    CHECK(tp_tensor_get(&t, 0) == 3 && tp_tensor_get(&t, 2) == 5);

    CHECK_OK(tp_tensor_resize(&t, TP_F64, shape_of(2, 0, 4, 0)));
    CHECK(t.data != NULL && tp_tensor_bytes(&t) == 0);
    CHECK_OK(tp_tensor_copy(&u, &t));
    CHECK(tp_tensor_size(&u) == 0);

    CHECK_ERR(tp_tensor_resize(&t, TP_F32, shape_of(2, TP_ANY, 4, 0)), TP_ERR_SHAPE, "(?,4)");
    CHECK_ERR(tp_tensor_resize(&t, TP_DTYPE_UNSET, shape_of(1, 1, 0, 0)), TP_ERR_DTYPE, "dtype");
    CHECK_ERR(tp_tensor_resize(&t, TP_F32, shape_of(3, INT64_MAX, 4, 4)), TP_ERR_SHAPE, "larger than memory");
    CHECK_ERR(tp_tensor_resize(&t, TP_F64, shape_of(1, INT64_MAX / 4, 1, 0)), TP_ERR_SHAPE, "larger than memory");
    CHECK(t.dtype == TP_F64 && t.shape.ndim == 2); /* unchanged */

    /* copies of values that no tensor can have */
    tp_tensor none;
    memset(&none, 0, sizeof none);
    CHECK_OK(tp_tensor_resize(&u, TP_I32, shape_of(1, 2, 0, 0)));
    const void *before = u.data;
    tp_tensor_view(&none, TP_F32, shape_of(2, TP_ANY, 3, 0), borrowed);
    CHECK_ERR(tp_tensor_copy(&u, &none), TP_ERR_SHAPE, "the shape (?,3) is not fully known");
    tp_tensor_view(&none, TP_F64, shape_of(1, INT64_MAX / 4, 0, 0), borrowed);
    CHECK_ERR(tp_tensor_copy(&u, &none), TP_ERR_SHAPE, "larger than memory");
    none.shape = shape_of(1, 2, 0, 0);
    none.dtype = TP_DTYPE_UNSET;
    CHECK_ERR(tp_tensor_copy(&u, &none), TP_ERR_DTYPE, "is not a dtype");
    CHECK(u.dtype == TP_I32 && u.data == before && tp_tensor_bytes(&u) == 8); /* unchanged */

    float x = 2.5f;
    tp_tensor s = tp_scalar_view(&x);
    CHECK(s.shape.ndim == 0 && tp_tensor_size(&s) == 1 && tp_tensor_get(&s, 0) == 2.5);
    tp_tensor_free(&t);
    tp_tensor_free(&t);
    tp_tensor_free(&u);
}

/* Memory is taken when it does not suffice, and kept. */
TEST(tensors_keep_their_memory)
{
    tp_tensor t, u;
    memset(&t, 0, sizeof t);
    memset(&u, 0, sizeof u);
    tp_test_fail_after(0);
    CHECK_OK(tp_tensor_resize(&t, TP_F32, shape_of(1, 10, 0, 0)));
    CHECK(t.capacity == 40 && tp_test_alloc_count() == 1);
    for (int i = 0; i < 10; i++) ((float *)t.data)[i] = (float)i;
    CHECK_OK(tp_tensor_resize(&t, TP_I64, shape_of(1, 5, 0, 0))); /* another shape with the same number of bytes */
    CHECK_OK(tp_tensor_resize(&t, TP_U8, shape_of(1, 40, 0, 0)));
    CHECK(t.capacity == 40 && tp_test_alloc_count() == 1);
    CHECK_OK(tp_tensor_copy(&u, &t));
    CHECK(u.capacity == 40 && tp_test_alloc_count() == 2 && memcmp(u.data, t.data, 40) == 0);
    CHECK_OK(tp_tensor_copy(&u, &t));
    CHECK(tp_test_alloc_count() == 2);
    CHECK_OK(tp_tensor_resize(&t, TP_U8, shape_of(1, 41, 0, 0)));
    CHECK(t.capacity == 41 && tp_test_alloc_count() == 3 && tp_test_live_blocks() == 2);
    CHECK_OK(tp_tensor_copy(&u, &t));
    CHECK(u.capacity == 41 && tp_test_alloc_count() == 4 && tp_test_live_blocks() == 2);
    tp_tensor_free(&u);
    CHECK_OK(tp_tensor_resize(&u, TP_F32, shape_of(1, 0, 0, 0)));
    CHECK(u.capacity == 1 && u.data && tp_tensor_bytes(&u) == 0);
    tp_tensor_free(&u);
    tp_tensor_free(&t);
    CHECK(tp_test_live_blocks() == 0);
    /* where memory ends */
    if (sizeof(size_t) == 8) {
        CHECK(tp_tensor_resize(&t, TP_F32, shape_of(1, (int64_t)1 << 61, 0, 0)) == TP_ERR_SHAPE);
        CHECK(tp_tensor_resize(&t, TP_F32, shape_of(1, ((int64_t)1 << 61) - 1, 0, 0)) == TP_ERR_NOMEM);
        CHECK(tp_tensor_resize(&t, TP_U8, shape_of(1, INT64_MAX, 0, 0)) == TP_ERR_SHAPE);
        CHECK(tp_tensor_resize(&t, TP_U8, shape_of(1, INT64_MAX - 1, 0, 0)) == TP_ERR_NOMEM);
    }
    /* elements outside, and of nothing */
    float two[4] = {1, 2, 3, 4};
    tp_tensor_view(&t, TP_F32, shape_of(1, 2, 0, 0), two + 1);
    CHECK(tp_tensor_get(&t, 0) == 2 && tp_tensor_get(&t, 1) == 3 && tp_tensor_get(&t, 2) == 0 &&
          tp_tensor_get(&t, -1) == 0);
    tp_tensor_set(&t, 2, 9);
    tp_tensor_set(&t, -1, 9);
    tp_tensor_set(&t, 1, 7);
    CHECK(two[0] == 1 && two[1] == 2 && two[2] == 7 && two[3] == 4);
    tp_test_alloc_reset();
}

/* ==== >>random ======================================================================================== */

TEST(philox_known_answers)
{
    static const uint32_t want[3][4] = {{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u},
                                        {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu},
                                        {0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}};
    uint32_t r[4];
    tp_philox(0, 0, 0, r);
    CHECK(memcmp(r, want[0], 16) == 0);
    tp_philox(UINT64_MAX, UINT64_MAX, UINT64_MAX, r);
    CHECK(memcmp(r, want[1], 16) == 0);
    tp_philox(0x299f31d0a4093822u, 0x85a308d3243f6a88u, 0x0370734413198a2eu, r);
    CHECK(memcmp(r, want[2], 16) == 0);
}

TEST(random_streams)
{
    uint32_t r[4];
    uint64_t key = tp_random_key(1, tp_hash_name("conv0/W"));
    CHECK(key == tp_random_key(1, tp_hash_name("conv0/W")));
    CHECK(key != tp_random_key(2, tp_hash_name("conv0/W")) && key != tp_random_key(1, tp_hash_name("conv1/W")));
    CHECK(tp_random_key(1, 2) != tp_random_key(2, 1));
    tp_philox(key, 25, 7, r);
    for (uint64_t i = 0; i < 4; i++) {
        CHECK(tp_random_u32(key, 7, 100 + i) == r[i]);
        CHECK(tp_random_uniform(key, 7, 100 + i) == (float)(r[i] >> 8) / 16777216.0f);
    }
    CHECK(tp_hash("", 0) != tp_hash("\0", 1));
    CHECK(tp_hash_name("a") == tp_hash("a", 1));

    const int N = 200000;
    double sum = 0, squares = 0, lag = 0, last = 0;
    float lo = 1, hi = 0;
    for (uint64_t i = 0; i < (uint64_t)N; i++) {
        float u = tp_random_uniform(key, 0, i);
        double x = (double)u - 0.5;
        lo = u < lo ? u : lo;
        hi = u > hi ? u : hi;
        sum += x, squares += x * x, lag += x * last, last = x;
    }
    CHECK(lo >= 0 && hi < 1 && lo < 1e-4f && hi > 0.9999f);
    CHECK_NEAR(sum / N, 0, 3e-3, 0);
    CHECK_NEAR(squares / N, 1.0 / 12, 1e-3, 0);
    CHECK_NEAR(lag / N, 0, 1e-3, 0);
}

TEST(random_normal)
{
    /* Against the formula with the C library's functions. */
    const double pi = 3.14159265358979323846;
    double worst = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        uint32_t r[4];
        tp_philox(5, i / 2, 3, r);
        double u = ((double)(((uint64_t)r[1] << 32 | r[0]) >> 11) + 1) / 9007199254740992.0;
        double v = (double)(((uint64_t)r[3] << 32 | r[2]) >> 11) / 9007199254740992.0;
        double want = sqrt(-2 * log(u)) * (i % 2 ? sin(2 * pi * v) : cos(2 * pi * v));
        double off = fabs(tp_random_normal(5, 3, i) - want);
        worst = off > worst ? off : worst;
    }
    CHECK_MSG(worst < 5e-15, "worst difference %.3g", worst);

    const int N = 200000;
    double m1 = 0, m2 = 0, m3 = 0, m4 = 0, pair = 0;
    for (uint64_t i = 0; i < (uint64_t)N; i++) {
        double x = tp_random_normal(9, 1, i);
        m1 += x, m2 += x * x, m3 += x * x * x, m4 += x * x * x * x;
        if (i % 2) pair += x * tp_random_normal(9, 1, i - 1);
    }
    CHECK_NEAR(m1 / N, 0, 0.01, 0);
    CHECK_NEAR(m2 / N, 1, 0.015, 0);
    CHECK_NEAR(m3 / N, 0, 0.03, 0);
    CHECK_NEAR(m4 / N, 3, 0.1, 0);
    CHECK_NEAR(pair / (N / 2.0), 0, 0.015, 0);
}

TEST(random_normal_bits)
{
    /* A change of these bits changes everybody's training: it needs a reason. */
    uint64_t h = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        const double x = tp_random_normal(tp_random_key(42, 7), 11, i);
        unsigned char bytes[sizeof x];
        tp_test_little_endian(bytes, &x, sizeof x, sizeof x);
        h = h * 31 + tp_hash(bytes, sizeof bytes);
    }
    CHECK_MSG(h == 0x2d0c716952266386u, "the sum of bits is 0x%016llx", (unsigned long long)h);
}

/* FNV-1a and the last steps of MurmurHash3, word for word. */
TEST(hashes_keys_and_permutations_by_their_definitions)
{
    static const char *const text[] = {"", "a", "conv0/W", "\xff\xfe", "a longer text than eight bytes"};
    for (int i = 0; i < TP_COUNT(text); i++) {
        uint64_t h = 14695981039346656037u;
        for (const char *p = text[i]; *p; p++) {
            h ^= (unsigned char)*p;
            h *= 1099511628211u;
        }
        h ^= h >> 33;
        h *= 0xff51afd7ed558ccdu;
        h ^= h >> 33;
        h *= 0xc4ceb9fe1a85ec53u;
        h ^= h >> 33;
        CHECK(tp_hash_name(text[i]) == h && tp_hash(text[i], strlen(text[i])) == h);
    }
    for (uint64_t i = 0; i < 10; i++) {
        uint32_t r[4];
        tp_philox(i * 77, i ^ 5, UINT64_MAX, r);
        CHECK(tp_random_key(i * 77, i ^ 5) == (r[0] | (uint64_t)r[1] << 32));
    }
    for (int64_t n = 0; n <= 40;
         n++) { /* from behind, each changes places with one of those before it or with itself */
        int64_t got[41], want[41];
        got[n] = -7;
        tp_random_permutation(99, got, n);
        for (int64_t i = 0; i < n; i++) want[i] = i;
        for (int64_t i = n; i-- > 1;) {
            uint32_t r[4];
            tp_philox(99, (uint64_t)i, 0, r);
            const int64_t k = (int64_t)((r[0] | (uint64_t)r[1] << 32) % (uint64_t)(i + 1)), x = want[i];
            want[i] = want[k], want[k] = x;
        }
        CHECK(memcmp(got, want, (size_t)n * sizeof *got) == 0 && got[n] == -7);
    }
}

TEST(random_permutation)
{
    enum { N = 1000 };
    static int64_t a[N], b[N];
    static unsigned char seen[N];
    tp_random_permutation(1, a, N);
    tp_random_permutation(1, b, N);
    CHECK(memcmp(a, b, sizeof a) == 0);
    tp_random_permutation(2, b, N);
    CHECK(memcmp(a, b, sizeof a) != 0);
    int fixed = 0;
    for (int i = 0; i < N; i++) {
        CHECK(a[i] >= 0 && a[i] < N && !seen[a[i]]);
        seen[a[i]] = 1;
        fixed += a[i] == i;
    }
    CHECK(fixed < 10);
    int first[3] = {0, 0, 0};
    for (uint64_t k = 0; k < 3000; k++) {
        tp_random_permutation(k, a, 3);
        first[a[0]]++;
    }
    for (int i = 0; i < 3; i++) CHECK_NEAR(first[i], 1000, 120, 0);
    tp_random_permutation(1, NULL, 0);
}

/* ==== >>threads ======================================================================================= */

typedef struct counts {
    int64_t n;
    unsigned char times[5000];
    int64_t work;
    double sink[5000];
} counts;

static void count_chunk(void *user, int64_t chunk)
{
    counts *c = (counts *)user;
    c->times[chunk]++; /* plain: each chunk is one thread's, and the run's end orders it before the caller */
    double x = (double)chunk;
    for (int64_t i = 0; i < c->work; i++) x = x * 0.999 + 1;
    c->sink[chunk] = x;
}

TEST(pool_runs_each_chunk_once)
{
    static counts c;
    static const int threads[] = {1, 2, 4, 8};
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 64, 1000, 5000};
    for (int t = 0; t < TP_COUNT(threads); t++) {
        tp_pool *p = tp_pool_new(threads[t]);
        if (!CHECK(p != NULL)) return;
#ifdef TP_NO_THREADS
        CHECK(tp_pool_threads(p) == 1);
#else
        CHECK(tp_pool_threads(p) == threads[t]);
#endif
        tp_test_fail_after(0);
        for (int s = 0; s < TP_COUNT(sizes); s++) {
            for (int round = 0; round < 20; round++) {
                memset(&c, 0, sizeof c);
                c.work = round * 10;
                tp_pool_run(p, sizes[s], count_chunk, &c);
                bool once = true;
                for (int64_t i = 0; i < 5000; i++) once = once && c.times[i] == (i < sizes[s]);
                CHECK_MSG(once, "%d threads, %d chunks", threads[t], (int)sizes[s]);
            }
        }
        CHECK(tp_test_alloc_count() == 0);
        tp_test_alloc_reset();
        tp_pool_free(p);
    }
    memset(&c, 0, sizeof c);
    tp_pool_run(NULL, 3, count_chunk, &c); /* no pool: here */
    CHECK(c.times[0] == 1 && c.times[2] == 1 && tp_pool_threads(NULL) == 1);
    tp_pool_free(NULL);
    CHECK(tp_pool_new(-1) == NULL);
    CHECK_HAS(tp_last_error(), "-1 threads");
    tp_pool *all = tp_pool_new(0);
    CHECK(all && tp_pool_threads(all) >= 1);
    tp_pool_free(all);
}

#if defined(__linux__) && !defined(TP_NO_THREADS)
/* One thread for each processor that the process may use: those it is not kept away from, nor given too little time for. */
TEST(pool_of_as_many_threads_as_processors)
{
    cpu_set_t may;
    CPU_ZERO(&may);
    if (!CHECK(sched_getaffinity(0, sizeof may, &may) == 0)) return;
    long n = CPU_COUNT(&may);
    char line[100] = "";
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
    double quota, period;
    if (f && fgets(line, sizeof line, f) && sscanf(line, "%lf %lf", &quota, &period) == 2 &&
        ceil(quota / period) < (double)n)
        n = (long)ceil(quota / period);
    if (f) fclose(f);
    tp_pool *p = tp_pool_new(0);
    CHECK_MSG(tp_pool_threads(p) == (n > 1024 ? 1024 : n), "%d threads for %ld processors", tp_pool_threads(p), n);
    tp_pool_free(p);
    const pid_t child = fork();
    if (child == 0) { /* kept to one */
        size_t cpu = 0;
        while (!CPU_ISSET(cpu, &may)) cpu++;
        CPU_ZERO(&may);
        CPU_SET(cpu, &may);
        if (sched_setaffinity(0, sizeof may, &may) != 0) _exit(2);
        p = tp_pool_new(0);
        _exit(tp_pool_threads(p) == 1 ? 0 : 1);
    }
    int status = 1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) != 1);
}
#endif

#if defined(__linux__) && !defined(TP_NO_THREADS)
/* A child of fork has none of the pool's threads: it computes alone, even when another thread of its parent was in a run, and frees. */
static tp_pool *forked_pool;
static int forked_in_run, forked_go_on;
static void wait_for_the_child(void *user, int64_t chunk)
{
    (void)user, (void)chunk;
    __atomic_store_n(&forked_in_run, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&forked_go_on, __ATOMIC_ACQUIRE)) usleep(1000);
}
static void run_beside_the_fork(void *user) { tp_pool_run(forked_pool, 3, wait_for_the_child, user); }
TEST(pool_in_a_child_of_fork)
{
    static counts c;
    for (int busy = 0; busy < 2; busy++) {
        tp_thread *beside = NULL;
        tp_pool *p = forked_pool = tp_pool_new(3);
        if (!CHECK(p != NULL)) return;
        memset(&c, 0, sizeof c);
        tp_pool_run(p, 100, count_chunk, &c);
        forked_in_run = forked_go_on = 0;
        if (busy) CHECK_OK(tp_thread_start(&beside, run_beside_the_fork, NULL));
        while (busy && !__atomic_load_n(&forked_in_run, __ATOMIC_ACQUIRE)) usleep(1000);
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);
            memset(&c, 0, sizeof c);
            for (int round = 0; round < 2; round++) tp_pool_run(p, 100, count_chunk, &c);
            bool twice = true;
            for (int i = 0; i < 100; i++) twice = twice && c.times[i] == 2;
            tp_pool_free(p);
#ifdef __SANITIZE_THREAD__ /* tsan ends a child that begins threads */
            tp_pool *own = tp_pool_new(1);
#else
            tp_pool *own = tp_pool_new(2); /* its own has threads */
#endif
            if (own) tp_pool_run(own, 100, count_chunk, &c);
            tp_pool_free(own);
            _exit(twice && c.times[99] == 3 ? 0 : 1);
        }
        int status = -1;
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK_MSG(status == 0, "busy %d: the child ended with status %x", busy, (unsigned)status);
        __atomic_store_n(&forked_go_on, 1, __ATOMIC_RELEASE);
        if (busy) tp_thread_join(beside);
        tp_pool_run(p, 100, count_chunk, &c); /* the parent's goes on */
        CHECK(c.times[99] == 2);
        tp_pool_free(p);
    }
}
#endif

static void add_one(void *user, int64_t chunk)
{
    (void)chunk;
    __atomic_add_fetch((int64_t *)user, 1, __ATOMIC_RELAXED);
}

TEST(pool_sleeps_and_wakes)
{
    tp_pool *p = tp_pool_new(3);
    if (!CHECK(p != NULL)) return;
    int64_t n = 0;
    for (int i = 0; i < 3000; i++) tp_pool_run(p, 4, add_one, &n); /* back to back */
    for (int i = 0; i < 60; i++) { /* with pauses around the time at which workers go to sleep */
        struct timespec ts;
        ts.tv_sec = 0;
        ts.tv_nsec = i % 6 * 20000;
        nanosleep(&ts, NULL);
        tp_pool_run(p, 2 + i % 3, add_one, &n);
    }
    CHECK(n == 3000 * 4 + 20 * (2 + 3 + 4));
    tp_pool_free(p);
}

#ifndef TP_NO_THREADS
typedef struct turns {
    tp_pool *p;
    int64_t n;
} turns;

static void take_turns(void *user)
{
    turns *t = (turns *)user;
    for (int i = 0; i < 300; i++) tp_pool_run(t->p, 5, add_one, &t->n);
}

TEST(pool_with_several_callers)
{
    turns t[3];
    tp_thread *thread[3];
    tp_pool *p = tp_pool_new(2);
    if (!CHECK(p != NULL)) return;
    for (int i = 0; i < 3; i++) {
        t[i].p = p;
        t[i].n = 0;
        CHECK_OK(tp_thread_start(&thread[i], take_turns, &t[i]));
    }
    for (int i = 0; i < 3; i++) {
        tp_thread_join(thread[i]);
        CHECK(t[i].n == 1500);
    }
    tp_pool_free(p);
}

typedef struct mailbox {
    tp_mutex *m;
    tp_cond *c;
    int value;
} mailbox;

static void answer(void *user)
{
    mailbox *b = (mailbox *)user;
    tp_mutex_lock(b->m);
    while (b->value != 1) tp_cond_wait(b->c, b->m);
    b->value = 2;
    tp_cond_broadcast(b->c);
    tp_mutex_unlock(b->m);
}

TEST(threads_and_conditions)
{
    mailbox b = {tp_mutex_new(), tp_cond_new(), 0};
    tp_thread *t;
    if (!CHECK(b.m && b.c)) return;
    if (!CHECK_OK(tp_thread_start(&t, answer, &b))) return;
    tp_mutex_lock(b.m);
    double start = tp_time();
    while (tp_cond_wait_for(b.c, b.m, 0.02)) {}
    CHECK(tp_time() - start >= 0.019);
    CHECK(!tp_cond_wait_for(b.c, b.m, -1) && !tp_cond_wait_for(b.c, b.m, (double)NAN));
    b.value = 1;
    tp_cond_signal(b.c);
    while (b.value != 2) CHECK(tp_cond_wait_for(b.c, b.m, 1e300));
    tp_mutex_unlock(b.m);
    tp_thread_join(t);
#ifndef __SANITIZE_THREAD__ /* no order exists between the end of a detached thread and a later test's change of the allocator */
    for (int late = 0; late < 2; late++) { /* detached before its function ends, and after */
        b.value = 0;
        tp_test_fail_after(0);
        if (!CHECK_OK(tp_thread_start(&t, answer, &b))) break;
        if (!late) tp_thread_detach(t);
        tp_mutex_lock(b.m);
        b.value = 1;
        tp_cond_signal(b.c);
        while (b.value != 2) CHECK(tp_cond_wait_for(b.c, b.m, 10));
        tp_mutex_unlock(b.m);
        if (late) tp_test_sleep(0.02); /* it ends in the meantime */
        if (late) tp_thread_detach(t);
        for (int i = 0; i < 1000 && tp_test_live_blocks(); i++) tp_test_sleep(0.01);
        CHECK(tp_test_live_blocks() == 0); /* it has freed itself */
        tp_test_alloc_reset();
    }
#endif
    tp_thread_detach(NULL);
    tp_mutex_lock(b.m); /* no thread is inside any more */
    tp_mutex_unlock(b.m);
    tp_cond_free(b.c);
    tp_mutex_free(b.m);
    tp_mutex_lock(NULL);
    tp_mutex_unlock(NULL);
    tp_cond_signal(NULL);
    tp_cond_broadcast(NULL);
    tp_cond_wait(NULL, NULL);
    tp_cond_free(NULL);
    tp_mutex_free(NULL);
}

typedef struct bell {
    tp_mutex *m;
    tp_cond *c;
    bool quiet;
} bell;
static void ring(void *user)
{
    bell *b = (bell *)user;
    for (bool quiet = false; !quiet;) {
        tp_mutex_lock(b->m);
        tp_cond_broadcast(b->c);
        quiet = b->quiet;
        tp_mutex_unlock(b->m);
    }
}

/* Who is woken before the time has passed is told so, whichever part of a second it ends in. */
TEST(conditions_wait_into_the_next_second)
{
    bell b = {tp_mutex_new(), tp_cond_new(), false};
    tp_thread *t;
    if (!CHECK(b.m && b.c) || !CHECK_OK(tp_thread_start(&t, ring, &b))) return;
    tp_mutex_lock(b.m);
    for (int i = 1; i <= 60; i++) {
        const double seconds = 5 + i / 30.0 - 1e-4;
        CHECK_MSG(tp_cond_wait_for(b.c, b.m, seconds), "%g s have passed", seconds);
    }
    b.quiet = true;
    tp_mutex_unlock(b.m);
    tp_thread_join(t);
    tp_cond_free(b.c);
    tp_mutex_free(b.m);
}

static void log_many(void *user)
{
    for (int i = 0; i < 200; i++) tp_log(TP_LOG_INFO, "line %d of %d", i, *(int *)user);
}

TEST(log_from_several_threads)
{
    static log_seen seen; /* not protected by us: the log must do it */
    int id[3] = {0, 1, 2};
    tp_thread *t[3];
    seen.count = 0;
    tp_set_log(log_into, &seen);
    for (int i = 0; i < 3; i++) CHECK_OK(tp_thread_start(&t[i], log_many, &id[i]));
    for (int i = 0; i < 3; i++) tp_thread_join(t[i]);
    CHECK(seen.count == 600);
    tp_set_log(NULL, NULL);
}
#endif

#if defined(__SSE2__)
static void flush_chunk(void *user, int64_t chunk)
{
    volatile float tiny = 1e-38f, part = 0.01f;
    ((float *)user)[chunk] = tiny * part;
}

TEST(pool_fixes_the_float_mode)
{
    unsigned before = __builtin_ia32_stmxcsr(), up = (before & ~0x6000u) | 0x4000u; /* round up, denormals kept */
    float x[16];
    tp_pool *p = tp_pool_new(4), *one = tp_pool_new(1);
    if (!CHECK(p && one)) return;
    for (int i = 0; i < 16; i++) x[i] = 1;
    __builtin_ia32_ldmxcsr(up);
    tp_pool_run(p, 15, flush_chunk, x);
    unsigned after = __builtin_ia32_stmxcsr();
    tp_pool_run(one, 1, flush_chunk, x + 15);
    unsigned after_one = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before);
    CHECK(after == up && after_one == up);
    for (int i = 0; i < 16; i++) CHECK(x[i] == 0);
    tp_pool_free(p);
    tp_pool_free(one);
}
#endif

#if defined(__SSE2__) && !defined(TP_NO_THREADS)
static void ask_float_mode(void *user) { *(unsigned *)user = __builtin_ia32_stmxcsr() & ~0x3fu; }

/* Threads round to the nearest and take subnormal numbers for zero, whatever their starter does. */
TEST(threads_have_the_float_mode)
{
    unsigned mode = 0;
    tp_thread *t;
    if (!CHECK_OK(tp_thread_start(&t, ask_float_mode, &mode))) return;
    tp_thread_join(t);
    CHECK_MSG(mode == 0x9fc0u, "%x", mode);
}
#endif

#if !defined(_WIN32)
TEST(time_is_that_of_the_monotonic_clock)
{
    for (int i = 0; i < 20; i++) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        const double t = tp_time();
        clock_gettime(CLOCK_MONOTONIC, &b);
        CHECK((double)a.tv_sec + (double)a.tv_nsec / 1e9 <= t + 1e-6);
        CHECK((double)b.tv_sec + (double)b.tv_nsec / 1e9 >= t - 1e-6);
    }
}
#endif

/* ==== >>device ======================================================================================== */

static void kernel_a(const tp_call *k) { *(int *)k->user = 1; }
static void kernel_b(const tp_call *k) { *(int *)k->user = 2; }

TEST(cpu_device)
{
    tp_device *d = tp_cpu_device_new(2, NULL);
    if (!CHECK(d != NULL)) return;
    CHECK(d->abi == TP_ABI && d->host && strncmp(d->name, "cpu:", 4) == 0 && d->pool);
    CHECK(!d->record_begin && !d->record_end && !d->replay && !d->record_free);
    char *a = (char *)d->alloc(d, 100), *b = (char *)d->alloc(d, 100), back[100], text[100] = "hello";
    CHECK(a && b && (uintptr_t)a % 64 == 0);
    CHECK_OK(d->upload(d, a, text, 100));
    CHECK_OK(d->copy(d, b, a, 100));
    CHECK_OK(d->wait(d));
    CHECK_OK(d->download(d, back, b, 100));
    CHECK_OK(d->copy(d, NULL, NULL, 0));
    CHECK_STR(back, "hello");
    d->free(d, a);
    d->free(d, b);
    d->free(d, NULL);

    CHECK(d->find_kernel(d, "mine") == NULL);
    CHECK_OK(tp_device_add_kernel(d, "mine", kernel_a));
    CHECK_OK(tp_device_add_kernel(d, "other", kernel_a));
    CHECK(d->find_kernel(d, "mine") == kernel_a);
    CHECK_OK(tp_device_add_kernel(d, "mine", kernel_b)); /* replaced */
    CHECK(d->find_kernel(d, "mine") == kernel_b && d->find_kernel(d, "other") == kernel_a);
    CHECK_ERR(tp_device_add_kernel(d, "", kernel_a), TP_ERR_ARG, "name");
    CHECK_ERR(tp_device_add_kernel(d, "x", NULL), TP_ERR_ARG, "function");
    char longest[65];
    memset(longest, 'n', 64);
    longest[64] = 0;
    CHECK_ERR(tp_device_add_kernel(d, longest, kernel_b), TP_ERR_ARG,
              "device cpu:0: a kernel needs a function and an op's name of 1 to 63 bytes");
    CHECK(d->find_kernel(d, longest) == NULL);
    longest[63] = 0;
    CHECK_OK(tp_device_add_kernel(d, longest, kernel_b));
    CHECK(d->find_kernel(d, longest) == kernel_b);
    tp_status st = TP_OK;
    int added = 0;
    for (; added < 10000 && st == TP_OK; added++) {
        char name[32];
        snprintf(name, sizeof name, "op%d", added);
        st = tp_device_add_kernel(d, name, kernel_a);
    }
    CHECK_ERR(st, TP_ERR_NOMEM, "device cpu:0: no room for a kernel of 'op253', 256 were added already");
    CHECK(added == 254 && d->find_kernel(d, "op252") == kernel_a && d->find_kernel(d, "op253") == NULL);

    static counts c;
    memset(&c, 0, sizeof c);
    tp_device_parallel(d, 100, count_chunk, &c);
    tp_pool *own = d->pool;
    d->pool = NULL;
    tp_device_parallel(d, 100, count_chunk, &c);
    d->pool = own;
    for (int i = 0; i < 100; i++) CHECK(c.times[i] == 2);
    d->close(d);
}

/* Devices of one call share their threads, which go with the last of them; without memory for all there is none. */
TEST(cpu_devices_share_threads)
{
    tp_device *d[12];
    tp_test_fail_after(0);
    CHECK_OK(tp_cpu_devices_new(12, 2, "naive", d));
    for (int i = 0; i < 12; i++) {
        char name[16];
        snprintf(name, sizeof name, "cpu:%d", i);
        CHECK_STR(d[i]->name, name);
        CHECK(d[i]->pool && d[i]->pool == d[0]->pool && d[i]->abi == TP_ABI && !d[i]->amx);
    }
    static counts c;
    memset(&c, 0, sizeof c);
    for (int i = 0; i < 12; i++) {
        const int k = i * 5 % 12; /* in any order */
        tp_device_parallel(d[k], 50, count_chunk, &c);
        CHECK(tp_test_live_blocks() > 0);
        d[k]->close(d[k]);
    }
    CHECK(c.times[0] == 12 && c.times[49] == 12 && tp_test_live_blocks() == 0);
    for (long n = 1, failed = 1; failed; n++) {
        for (int i = 0; i < 3; i++) d[i] = (tp_device *)(void *)d;
        tp_test_fail_after(n);
        const tp_status s = tp_cpu_devices_new(3, 2, "naive", d);
        failed = tp_test_alloc_failed();
        if (failed) CHECK_ERR(s, TP_ERR_NOMEM, "out of memory");
        for (int i = 0; i < 3; i++)
            if (failed) CHECK(d[i] == NULL);
            else d[i]->close(d[i]);
        CHECK(tp_test_live_blocks() == 0);
    }
    tp_test_alloc_reset();
}

TEST(device_isa)
{
    char saved[64] = "";
    const char *env = getenv("TP_ISA");
    if (env) snprintf(saved, sizeof saved, "%s", env);

    unsetenv("TP_ISA");
    tp_device *d = tp_cpu_device_new(1, "naive");
    if (CHECK(d != NULL)) {
        CHECK(d->isa == NULL);
        CHECK_STR(tp_device_isa(d), "naive");
        d->close(d);
    }
    CHECK(tp_cpu_device_new(1, "mmx") == NULL);
    CHECK_HAS(tp_last_error(), "mmx");
    CHECK(tp_cpu_device_new(-3, "naive") == NULL);

    setenv("TP_ISA", "naive", 1);
    d = tp_cpu_device_new(1, NULL);
    if (CHECK(d != NULL)) {
        CHECK_STR(tp_device_isa(d), "naive");
        d->close(d);
    }
    setenv("TP_ISA", "nonsense", 1);
    CHECK(tp_cpu_device_new(1, NULL) == NULL);
    d = tp_cpu_device_new(1, "naive"); /* the argument goes first */
    CHECK(d != NULL);
    if (d) d->close(d);
    setenv("TP_ISA", "", 1); /* as if unset */
    d = tp_cpu_device_new(1, NULL);
    if (CHECK(d != NULL)) {
        CHECK(strlen(tp_device_isa(d)) > 0);
        d->close(d);
    }
    if (env) setenv("TP_ISA", saved, 1);
    else unsetenv("TP_ISA");
}

static void fault_chunk(void *user, int64_t chunk) { tp_kernel_fault((const tp_call *)user, chunk + 100); }

TEST(kernel_faults)
{
    int64_t fault[2] = {0, 0};
    tp_call k;
    memset(&k, 0, sizeof k);
    k.fault_id = 3;
    tp_kernel_fault(&k, 5); /* nobody listens */
    k.fault = fault;
    tp_pool *p = tp_pool_new(4);
    tp_pool_run(p, 50, fault_chunk, &k);
    CHECK(fault[0] == 3 && fault[1] >= 100 && fault[1] < 150);
    int64_t first = fault[1];
    k.fault_id = 4;
    tp_kernel_fault(&k, 7);
    CHECK(fault[0] == 3 && fault[1] == first);
    tp_pool_free(p);
}

/* ==== >>what devices tell ============================================================================== */

TEST(devices_count_their_memory)
{
    tp_device *d[2];
    if (!CHECK_OK(tp_cpu_devices_new(2, 1, NULL, d))) return;
    tp_memory_use m;
    CHECK_OK(tp_device_memory(d[0], &m));
    CHECK(m.used == 0 && m.peak == 0 && m.available <= m.total);
#ifdef __linux__
    CHECK_MSG(m.total == (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE) && m.available > 0,
              "%lld bytes", (long long)m.total);
#endif
    void *p = d[0]->alloc(d[0], 1000), *q = d[0]->alloc(d[0], 3 << 20), *other = d[1]->alloc(d[1], 64), *none;
    CHECK((uintptr_t)p % 64 == 0 && (uintptr_t)q % 64 == 0);
    d[0]->free(d[0], p);
    d[0]->free(d[0], NULL);
    p = d[0]->alloc(d[0], 0);
    CHECK_OK(tp_device_memory(d[0], &m));
    CHECK(m.used == 3 << 20 && m.peak == (3 << 20) + 1000);
    CHECK((none = d[0]->alloc(d[0], SIZE_MAX / 2)) == NULL);
    d[0]->free(d[0], p);
    d[0]->free(d[0], q);
    CHECK_OK(tp_device_memory(d[0], &m));
    CHECK(m.used == 0 && m.peak == (3 << 20) + 1000);
    CHECK_OK(tp_device_memory(d[1], &m));
    CHECK(m.used == 64 && m.peak == 64);
    d[1]->free(d[1], other);
    tp_device mute; /* a table without these functions */
    memset(&mute, 0, sizeof mute);
    CHECK_OK(tp_device_memory(&mute, &m));
    CHECK(m.total == -1 && m.available == -1 && m.used == -1 && m.peak == -1 && tp_device_utilization(&mute) < 0);
    memcpy(mute.name, "mute:0", 7);
    CHECK_ERR(tp_device_add_kernel(&mute, "mine", kernel_a), TP_ERR_UNSUPPORTED,
              "device mute:0: kernels can be added to CPU devices only");
    for (int i = 0; i < 2; i++) d[i]->close(d[i]);
}

/* What is wider than a long, where a long has 32 bits, and what comes after it. */
TEST(sentences_have_numbers_of_every_width)
{
    const long long much = -1234567890123456789ll;
    tp_fail(TP_ERR, "%lld %d %llx %ju %zu %td %ld %hd|%20lld|%-21lld|%s", much, 7, 0xfedcba9876543210ull,
            (uintmax_t)18446744073709551615u, (size_t)4000000000u, (ptrdiff_t)-5, -6L, (short)-7, much, much, "end");
    CHECK_STR(tp_last_error(), "-1234567890123456789 7 fedcba9876543210 18446744073709551615 4000000000 -5 -6 "
                               "-7|-1234567890123456789|-1234567890123456789 |end");
}

/* Against the processor time that C's clock() tells. */
TEST(devices_tell_how_busy_they_are)
{
    enum { THREADS = 2 };
    tp_device *d = tp_cpu_device_new(THREADS, NULL);
    if (!CHECK(d != NULL)) return;
    const int threads = tp_pool_threads(d->pool); /* 1 where there are none */
    (void)tp_device_utilization(d);
    for (int busy = 0; busy < 2; busy++) {
        double told = -1, best = 100;
        /* between two looks at a clock this thread may lose its processor */
        for (int tries = 0; tries < 20 && best > 2; tries++) {
            const double begun = tp_time();
            const clock_t worked = clock();
            (void)tp_device_utilization(d);
            const struct timespec t = {0, 10000000};
            if (!busy) nanosleep(&t, NULL);
            while (tp_time() < begun + 0.01)
                ;
            told = tp_device_utilization(d);
            const double wall = tp_time() - begun, did = (double)(clock() - worked) / (double)CLOCKS_PER_SEC;
            CHECK(told >= 0);
            if (fabs(told - 100 * did / wall / threads) < best) best = fabs(told - 100 * did / wall / threads);
        }
        CHECK_MSG(best <= 2, "%s: %g %%, which is off by %g", busy ? "busy" : "idle", told, best);
    }
    d->close(d);
}

/* A sink gets the pointer that was given with it (the harness's own sink, which stands in front of a test's, has none). */
#undef tp_set_log
static void count_lines(void *user, tp_log_level level, const char *line)
{
    (void)level, (void)line;
    ++*(int *)user;
}
TEST(a_sink_gets_its_pointer)
{
    int lines = 0;
    tp_set_log(count_lines, &lines);
    tp_log(TP_LOG_INFO, "one");
    tp_log(TP_LOG_INFO, "two");
    tp_test_set_log(NULL, NULL);
    CHECK(lines == 2);
}

TEST_MAIN()
