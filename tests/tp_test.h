/* tp_test.h - the test harness: one test program is one unit that includes this file
 *
 *     #define TP_IMPLEMENTATION
 *     #include "tp_tensor.h"          // the header under test comes first
 *     #include "tp_test.h"
 *
 *     TEST(addition_works)
 *     {
 *         CHECK(1 + 1 == 2);
 *         if (!CHECK_OK(tp_make_dirs("x"))) return;       // every CHECK is an expression: true when it held
 *     }
 *     TEST_MAIN()
 *
 * A failed check prints file:line and lets the test go on. `./test_x part` runs the tests whose name contains
 * `part`. The last line is "N passed, N failed" (", N skipped" if any); the exit status is 1 after a failure
 * and when no test matched; `./test_x =name` runs that one. Checks may be made from any thread. A test that leaves a part out says
 * so, tp_test_left_out("no clang here"), and goes on; it counts as passed, the part as skipped.
 *
 * A line of level ERROR in the log fails the test, in this process and in those that it forks, whatever sink the test
 * has set, unless the test announced it:
 *     TEST_EXPECT_ERROR("was not saved");                 // it must come, at least once
 *     TEST_MAY_ERROR("");                                 // it may come ("": any)
 *
 * What is logged, as text:
 *     tp_test_keep_log();                                 // from here, until the next tp_set_log
 *     do_it(&x);
 *     CHECK_HAS(tp_test_logged, "a warning");
 *
 * Out of memory at every point:
 *     for (long n = 1, failed = 1; failed; n++) {
 *         tp_test_fail_after(n);                          // the n-th allocation from here fails
 *         tp_status s = do_it(&x);
 *         failed = tp_test_alloc_failed();                // false: there was no n-th allocation any more
 *         CHECK(failed ? s == TP_ERR_NOMEM : s == TP_OK);
 *         undo_it(&x);
 *         CHECK(tp_test_live_blocks() == 0);
 *     }
 *     tp_test_alloc_reset();
 */
#ifndef TP_TEST_H
#define TP_TEST_H

#if !defined(_POSIX_C_SOURCE) && !defined(_GNU_SOURCE) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L
#endif
#include "tp_tensor.h"

#include <dirent.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifndef _WIN32
#include <sys/mman.h>
#endif
#ifdef __GLIBC__
#include <malloc.h>
#endif

#define TP_TEST__UNUSED __attribute__((unused))

#ifdef _WIN32 /* what mingw-w64 lacks of POSIX */
#include <direct.h>
#define lstat(path_, st_) stat(path_, st_)
#define mkdtemp           tp_test__mkdtemp
TP_TEST__UNUSED static char *tp_test__mkdtemp(char *path)
{
    static int n;
    for (int i = 0; i < 100; i++) {
        snprintf(path + strlen(path) - 6, 7, "%06d", ((int)getpid() * 100 + n++) % 1000000);
        if (_mkdir(path) == 0) return path;
    }
    return NULL;
}
#endif

/* ==== >>state ========================================================================================= */

typedef struct tp_test__case {
    const char *name;
    void (*fn)(void);
    int line;
    struct tp_test__case *next;
} tp_test__case;

static tp_test__case *tp_test__first;
/* Tests run in the order of their lines, whatever order a linker calls the constructors in (-flto). */
TP_TEST__UNUSED static void tp_test__add(tp_test__case *c)
{
    tp_test__case **at = &tp_test__first;
    while (*at && (*at)->line < c->line) at = &(*at)->next;
    c->next = *at;
    *at = c;
}
static long tp_test__failures;       /* failed checks in the running test */
static const char *tp_test__skipped; /* why, or NULL */
static char tp_test__dirs[256][256]; /* temporary directories, removed at exit */
static int tp_test__dir_count;
static pid_t tp_test__owner; /* a forked child removes nothing */

static pid_t tp_test__main_pid;
static const char *tp_test__running; /* the test */

#ifdef TP_TEST_COVERAGE /* tests/coverage.sh */
#ifdef __cplusplus
extern "C"
#endif
    void
    __gcov_dump(void);
#else
#define __gcov_dump() ((void)0)
#endif
/* Ends a forked child: what it ran counts for the coverage, what its parent registered with atexit does not run. */
#define TP_TEST_END_CHILD(status_)             \
    do {                                       \
        const int tp_test_status_ = (status_); \
        __gcov_dump();                         \
        _exit(tp_test_status_);                \
    } while (0)

#define TEST(name_)                                                                                               \
    static void tp_test__fn_##name_(void);                                                                        \
    static tp_test__case tp_test__case_##name_ = {#name_, tp_test__fn_##name_, __LINE__, NULL};                   \
    static void __attribute__((constructor)) tp_test__add_##name_(void) { tp_test__add(&tp_test__case_##name_); } \
    static void tp_test__fn_##name_(void)

/* Leave this test; it counts as skipped. */
#define TEST_SKIP(why_)            \
    do {                           \
        tp_test__skipped = (why_); \
        return;                    \
    } while (0)

/* What the running test leaves out, and why, while the rest of it goes on: counts as skipped, once for each reason in a program. */
TP_TEST__UNUSED static int tp_test__left_out_count;
TP_TEST__UNUSED static void tp_test_left_out(const char *why)
{
    static char told[16][200];
    for (int i = 0; i < tp_test__left_out_count; i++)
        if (strcmp(told[i], why) == 0) return;
    if (tp_test__left_out_count == 16) return;
    snprintf(told[tp_test__left_out_count++], sizeof told[0], "%s", why);
    printf("skip %s: %s\n", tp_test__running, why);
}

/* ==== >>checks ======================================================================================== */

#define CHECK(cond_)          tp_test__check((cond_) ? true : false, __FILE__, __LINE__, "%s", #cond_)
#define CHECK_MSG(cond_, ...) tp_test__check((cond_) ? true : false, __FILE__, __LINE__, __VA_ARGS__)
/* A sentence without the place of a test that it begins with: "test_graph.c:12: Add: ..." */
#define TP_TEST_SAID(text_) tp_test__said(text_)
/* |a-b| <= atol + rtol*|b|, or the same infinity; never true for a NaN. */
#define CHECK_NEAR(a_, b_, atol_, rtol_) \
    tp_test__near((double)(a_), (double)(b_), (double)(atol_), (double)(rtol_), __FILE__, __LINE__, #a_ " ~ " #b_)
#define CHECK_STR(a_, b_)                tp_test__str((a_), (b_), __FILE__, __LINE__, #a_)
#define CHECK_HAS(text_, part_)          tp_test__has((text_), (part_), __FILE__, __LINE__, #text_)
#define CHECK_OK(status_)                tp_test__ok((status_), __FILE__, __LINE__, #status_)
#define CHECK_ERR(status_, code_, part_) tp_test__err((status_), (code_), (part_), __FILE__, __LINE__, #status_)

static bool tp_test__check(bool ok, const char *file, int line, const char *fmt, ...) TP_PRINTF(4, 5);
TP_TEST__UNUSED static bool tp_test__check(bool ok, const char *file, int line, const char *fmt, ...)
{
    if (ok) return true;
    long n = __atomic_add_fetch(&tp_test__failures, 1, __ATOMIC_RELAXED);
    if (n > 21) return false;
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    /* one call, so that lines of several threads do not mix */
    if (n > 20) printf("    ... and more\n");
    else printf("    %s:%d: %s\n", file, line, text);
    fflush(stdout);
    return false;
}

TP_TEST__UNUSED static const char *tp_test__said(const char *text)
{
    const char *end = strncmp(text, "test_", 5) == 0 ? strstr(text, ".c:") : NULL;
    const size_t digits = end ? strspn(end + 3, "0123456789") : 0;
    return digits && strncmp(end + 3 + digits, ": ", 2) == 0 ? end + 5 + digits : text;
}

TP_TEST__UNUSED static bool tp_test__near(double a, double b, double atol, double rtol, const char *file, int line,
                                          const char *text)
{
    double off = fabs(a - b), most = atol + rtol * fabs(b);
    bool same_inf = isinf(a) && isinf(b) && (a > 0) == (b > 0);
    bool ok = same_inf || (off <= most && !isinf(b));
    return tp_test__check(ok, file, line, "%s: %.9g and %.9g differ by %.3g, %.3g allowed", text, a, b, off, most);
}

TP_TEST__UNUSED static bool tp_test__str(const char *a, const char *b, const char *file, int line, const char *text)
{
    if (a && b) return tp_test__check(strcmp(a, b) == 0, file, line, "%s is \"%s\", expected \"%s\"", text, a, b);
    return tp_test__check(a == b, file, line, "%s is %s, expected %s", text, a ? a : "NULL", b ? b : "NULL");
}

TP_TEST__UNUSED static bool tp_test__has(const char *a, const char *part, const char *file, int line, const char *text)
{
    return tp_test__check(a && strstr(a, part), file, line, "%s is \"%s\", which lacks \"%s\"", text, a ? a : "NULL",
                          part);
}

TP_TEST__UNUSED static bool tp_test__ok(tp_status s, const char *file, int line, const char *text)
{
    if (s == TP_OK) return true;
    return tp_test__check(false, file, line, "%s: %s: %s", text, tp_status_name(s), tp_last_error());
}

TP_TEST__UNUSED static bool tp_test__err(tp_status s, tp_status code, const char *part, const char *file, int line,
                                         const char *text)
{
    if (s != code)
        return tp_test__check(false, file, line, "%s: %s, expected %s (last error: %s)", text, tp_status_name(s),
                              tp_status_name(code), tp_last_error());
    return tp_test__check(strstr(tp_last_error(), part) != NULL, file, line, "%s: the sentence \"%s\" lacks \"%s\"",
                          text, tp_last_error(), part);
}

/* The larger one of the worst error so far and another. Infinity stays for an error of NaN, which fmax drops and a comparison
 * forgets when the next one comes. */
TP_TEST__UNUSED static double tp_test_worse(double worst, double error)
{
    return error <= worst ? worst : error == error ? error : (double)INFINITY;
}

/* ==== >>log =========================================================================================== */
/* A test's own sink stands behind ours, which looks for errors. What was announced and what came lies in memory that
 * forked processes share. */

enum { TP_TEST__ANNOUNCED = 32, TP_TEST__ERRORS = 8 };

typedef struct tp_test__errors {
    int n_announced;
    struct {
        char part[120];
        int came; /* so many times; -1: it need not */
    } announced[TP_TEST__ANNOUNCED];
    int n_unexpected;
    char unexpected[TP_TEST__ERRORS][400];
} tp_test__errors;

static tp_test__errors *tp_test__seen;
static tp_log_fn tp_test__sink; /* NULL: the default one */
static void *tp_test__sink_user;

TP_TEST__UNUSED static void tp_test__error_came(const char *message)
{
    tp_test__errors *e = tp_test__seen;
    bool announced = false;
    for (int i = 0; i < e->n_announced; i++)
        if (strstr(message, e->announced[i].part)) {
            announced = true;
            if (e->announced[i].came >= 0) __atomic_add_fetch(&e->announced[i].came, 1, __ATOMIC_RELAXED);
        }
    if (announced) return;
    const int n = __atomic_fetch_add(&e->n_unexpected, 1, __ATOMIC_RELAXED);
    if (n < TP_TEST__ERRORS) snprintf(e->unexpected[n], sizeof e->unexpected[n], "%s", message);
}

TP_TEST__UNUSED static void tp_test__log(void *user, tp_log_level level, const char *message)
{
    (void)user;
    if (level == TP_LOG_ERROR) tp_test__error_came(message);
    if (tp_test__sink) tp_test__sink(tp_test__sink_user, level, message);
    else tp_log(level, "%s", message); /* from a sink: to the default one */
}

/* The library's default sink alone, without the harness's in front of it; until the next tp_set_log. */
TP_TEST__UNUSED static void tp_test_default_log(void) { tp_set_log(NULL, NULL); }

TP_TEST__UNUSED static void tp_test_set_log(tp_log_fn fn, void *user)
{
    tp_set_log(NULL, NULL); /* nobody logs to the new sink with the old one's pointer */
    tp_test__sink = fn;
    tp_test__sink_user = user;
    tp_set_log(tp_test__log, NULL);
}
#define tp_set_log tp_test_set_log

/* A sink that drops every message: tp_set_log(tp_test_drop_log, NULL). */
TP_TEST__UNUSED static void tp_test_drop_log(void *user, tp_log_level level, const char *message)
{
    (void)user, (void)level, (void)message;
}

/* The messages since the last tp_test_keep_log, one per line; what does not fit is left out. Threads that log
 * at the same time may garble them. */
TP_TEST__UNUSED static char tp_test_logged[1 << 16];
TP_TEST__UNUSED static int tp_test_warnings; /* how many of them are of level WARN */

TP_TEST__UNUSED static void tp_test__keep(void *user, tp_log_level level, const char *message)
{
    const size_t n = strlen(tp_test_logged);
    (void)user;
    tp_test_warnings += level == TP_LOG_WARN;
    snprintf(tp_test_logged + n, sizeof tp_test_logged - n, "%s\n", message);
}

/* From now on messages are kept in tp_test_logged, which is empty then, and not printed; until the next tp_set_log. */
TP_TEST__UNUSED static void tp_test_keep_log(void)
{
    tp_test_logged[0] = 0;
    tp_test_warnings = 0;
    tp_set_log(tp_test__keep, NULL);
}

TP_TEST__UNUSED static void tp_test__announce(const char *part, bool must)
{
    tp_test__errors *e = tp_test__seen;
    if (!tp_test__check(e->n_announced < TP_TEST__ANNOUNCED, __FILE__, __LINE__, "too many errors are announced"))
        return;
    snprintf(e->announced[e->n_announced].part, sizeof e->announced[0].part, "%s", part);
    e->announced[e->n_announced++].came = must ? 0 : -1;
}
#define TEST_EXPECT_ERROR(part_) tp_test__announce((part_), true)
#define TEST_MAY_ERROR(part_)    tp_test__announce((part_), false)

/* After a test: its errors count as failed checks. */
TP_TEST__UNUSED static void tp_test__judge_errors(void)
{
    tp_test__errors *e = tp_test__seen;
    for (int i = 0; i < e->n_unexpected && i < TP_TEST__ERRORS; i++)
        tp_test__check(false, tp_test__running, 0, "an error in the log that was not announced: %s", e->unexpected[i]);
    if (e->n_unexpected > TP_TEST__ERRORS)
        tp_test__check(false, tp_test__running, 0, "... and %d more", e->n_unexpected - TP_TEST__ERRORS);
    for (int i = 0; i < e->n_announced && !tp_test__skipped; i++)
        tp_test__check(e->announced[i].came != 0, tp_test__running, 0, "no error in the log has \"%s\"",
                       e->announced[i].part);
    memset(e, 0, sizeof *e);
}

/* ==== >>files ========================================================================================= */

/* Remove a directory and all below it; links are removed, not followed. */
TP_TEST__UNUSED static void tp_test_remove(const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0) return;
    if (!S_ISDIR(st.st_mode)) {
        unlink(path);
        return;
    }
    chmod(path, 0700);
    DIR *d = opendir(path);
    if (d) {
        struct dirent *e;
        while ((e = readdir(d)) != NULL) {
            if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
            size_t n = strlen(path) + strlen(e->d_name) + 2;
            char *below = (char *)malloc(n);
            if (!below) continue;
            snprintf(below, n, "%s/%s", path, e->d_name);
            tp_test_remove(below);
            free(below);
        }
        closedir(d);
    }
    rmdir(path);
}

TP_TEST__UNUSED static void tp_test__cleanup(void)
{
    if (getpid() != tp_test__owner) return;
    for (int i = 0; i < tp_test__dir_count; i++) tp_test_remove(tp_test__dirs[i]);
}

/* How many files and directories there are in it; -1: there is no such directory. */
TP_TEST__UNUSED static int tp_test_files_in(const char *dir)
{
    int n = 0;
    DIR *d = opendir(dir);
    if (!d) return -1;
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

TP_TEST__UNUSED static bool tp_test_file_equals(const char *path, const void *data, size_t size)
{
    char *got;
    size_t n;
    if (!CHECK_OK(tp_file_read(path, false, 0, &got, &n))) return false;
    const bool ok = n == size && memcmp(got, data, n) == 0;
    tp_free(got);
    return ok;
}

/* A fresh directory under $TMPDIR or /tmp, removed at exit; valid until then. Not from several threads. */
TP_TEST__UNUSED static const char *tp_test_tmpdir(void)
{
    const char *base = getenv("TMPDIR");
    if (!base || !base[0] || strlen(base) > 200) base = "/tmp";
    if (tp_test__dir_count == 0) {
        tp_test__owner = getpid();
        atexit(tp_test__cleanup);
    }
    if (tp_test__dir_count < TP_COUNT(tp_test__dirs)) {
        char *dir = tp_test__dirs[tp_test__dir_count];
        snprintf(dir, sizeof tp_test__dirs[0], "%s/tp_test.XXXXXX", base);
        if (mkdtemp(dir)) {
            tp_test__dir_count++;
            return dir;
        }
    }
    tp_test__check(false, __FILE__, __LINE__, "no temporary directory can be made in %s", base);
    return base;
}

/* Writes into `path`, which has room for size + 1 bytes, a path of exactly `size` bytes below `dir`: folders whose names have at most
 * 200 bytes. dir is at least 2 bytes shorter. */
TP_TEST__UNUSED static void tp_test_long_path(char *path, size_t size, const char *dir)
{
    size_t n = strlen(dir);
    if (n + 2 > size) abort();
    memcpy(path, dir, n);
    while (n < size) { /* the last name is not empty */
        const size_t left = size - n, name = left > 202 ? 200 : left - 1;
        path[n++] = '/';
        memset(path + n, 'd', name);
        n += name;
    }
    path[n] = 0;
}

/* "dir/name"; the text is good for the next 15 calls. Not from several threads. */
TP_TEST__UNUSED static const char *tp_test_path(const char *dir, const char *name)
{
    static char ring[16][1024];
    static int at;
    char *path = ring[at++ % 16];
    const size_t n = strlen(dir), m = strlen(name);
    if (n + m + 2 > sizeof ring[0]) abort();
    memmove(path, dir, n); /* dir may be another one of these */
    path[n] = '/';
    memcpy(path + n + 1, name, m + 1);
    return path;
}

TP_TEST__UNUSED static bool tp_test_write(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    bool ok = f && (size == 0 || fwrite(data, 1, size, f) == size);
    if (f && fclose(f) != 0) ok = false;
    return tp_test__check(ok, __FILE__, __LINE__, "%s cannot be written", path);
}

/* ==== >>allocation ==================================================================================== */
/* An allocator over malloc that counts, and fails one allocation on demand. Blocks from before and after a
 * change of allocator may be mixed. */

static long tp_test__allocs, tp_test__live, tp_test__fail_at, tp_test__fired;
static int64_t tp_test__bytes;

TP_TEST__UNUSED static bool tp_test__alloc_fails(size_t size)
{
    __atomic_add_fetch(&tp_test__bytes, (int64_t)size, __ATOMIC_RELAXED);
    long n = __atomic_add_fetch(&tp_test__allocs, 1, __ATOMIC_RELAXED);
    if (n != __atomic_load_n(&tp_test__fail_at, __ATOMIC_RELAXED)) return false;
    __atomic_store_n(&tp_test__fired, 1, __ATOMIC_RELAXED);
    return true;
}

TP_TEST__UNUSED static void *tp_test__malloc(size_t size, void *user)
{
    (void)user;
    if (tp_test__alloc_fails(size) || (uint64_t)size >> 40)
        return NULL; /* sanitizers end the program for such a size */
    void *p = malloc(size ? size : 1);
    if (p) __atomic_add_fetch(&tp_test__live, 1, __ATOMIC_RELAXED);
    return p;
}

TP_TEST__UNUSED static void *tp_test__realloc(void *p, size_t size, void *user)
{
    (void)user;
    if (tp_test__alloc_fails(size) || (uint64_t)size >> 40) return NULL;
    void *q = realloc(p, size ? size : 1);
    if (q && !p) __atomic_add_fetch(&tp_test__live, 1, __ATOMIC_RELAXED);
    return q;
}

TP_TEST__UNUSED static void tp_test__free(void *p, void *user)
{
    (void)user;
    if (p) __atomic_sub_fetch(&tp_test__live, 1, __ATOMIC_RELAXED);
    free(p);
}

/* From here the n-th allocation (1 is the next one; a realloc counts) fails, once; 0: none, only count.
 * Starts the counters at zero. */
TP_TEST__UNUSED static void tp_test_fail_after(long n)
{
    tp_allocator a = {tp_test__malloc, tp_test__realloc, tp_test__free, NULL};
    __atomic_store_n(&tp_test__allocs, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&tp_test__live, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&tp_test__bytes, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&tp_test__fired, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&tp_test__fail_at, n, __ATOMIC_RELAXED);
    tp_set_allocator(&a);
}

TP_TEST__UNUSED static long tp_test_live_blocks(void) { return __atomic_load_n(&tp_test__live, __ATOMIC_RELAXED); }
TP_TEST__UNUSED static long tp_test_alloc_count(void) { return __atomic_load_n(&tp_test__allocs, __ATOMIC_RELAXED); }
/* the sum of the sizes that were asked for */
TP_TEST__UNUSED static int64_t tp_test_alloc_bytes(void) { return __atomic_load_n(&tp_test__bytes, __ATOMIC_RELAXED); }
TP_TEST__UNUSED static bool tp_test_alloc_failed(void)
{
    return __atomic_load_n(&tp_test__fired, __ATOMIC_RELAXED) != 0;
}

/* Back to the default allocator. */
TP_TEST__UNUSED static void tp_test_alloc_reset(void)
{
    __atomic_store_n(&tp_test__fail_at, 0, __ATOMIC_RELAXED);
    tp_set_allocator(NULL);
}

/* ==== >>random ======================================================================================== */

/* 64 bits that look random, a function of x (SplitMix64): the same on every machine. */
TP_TEST__UNUSED static uint64_t tp_test_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* ==== >>bytes ========================================================================================= */

/* Copies elements of `size` bytes each with their lowest byte first, as files have them, on each processor. */
TP_TEST__UNUSED static void tp_test_little_endian(void *to, const void *from, size_t bytes, size_t size)
{
    const unsigned one = 1;
    const int little = *(const unsigned char *)&one;
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)to)[i] = ((const unsigned char *)from)[little ? i : i - i % size + size - 1 - i % size];
}

/* ==== >>time ========================================================================================== */

/* Sleep for so many seconds, also where a signal interrupts the sleep. */
TP_TEST__UNUSED static void tp_test_sleep(double seconds)
{
    const double end = tp_time() + seconds;
    for (double left = seconds; left > 0; left = end - tp_time()) {
#ifdef _WIN32
        usleep((useconds_t)(1e6 * left) + 1);
#else
        struct timespec t;
        t.tv_sec = (time_t)left;
        t.tv_nsec = (long)((left - (double)t.tv_sec) * 1e9);
        nanosleep(&t, NULL);
#endif
    }
}

/* ==== >>main ========================================================================================== */

TP_TEST__UNUSED static double tp_test__ms(void) { return 1e3 * tp_time(); }

/* Somebody's time limit is over: which test was running. */
TP_TEST__UNUSED static void tp_test__terminated(int signal_number)
{
    if (getpid() == tp_test__main_pid && tp_test__running) {
        ssize_t n = write(1, "FAIL ", 5);
        if (n > 0) n = write(1, tp_test__running, strlen(tp_test__running));
        if (n > 0) n = write(1, " (ended by SIGTERM)\n", 20);
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void tp_test__begin(void)
{
#ifdef _WIN32
    static tp_test__errors seen; /* no process is forked */
    tp_test__seen = &seen;
#else
    FILE *f = tmpfile(); /* POSIX has no other memory that forked processes share */
    void *p = MAP_FAILED;
    if (f && ftruncate(fileno(f), sizeof *tp_test__seen) == 0)
        p = mmap(NULL, sizeof *tp_test__seen, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(f), 0);
    if (p == MAP_FAILED) {
        perror("memory for the errors of a test");
        exit(1);
    }
    fclose(f);
    tp_test__seen = (tp_test__errors *)p;
#endif
    tp_test__main_pid = getpid();
    signal(SIGTERM, tp_test__terminated);
}

/* argument: NULL, a part of the name, or '=' and the name */
static bool tp_test__chosen(const char *name, const char *argument)
{
    if (!argument) return true;
    return argument[0] == '=' ? strcmp(name, argument + 1) == 0 : strstr(name, argument) != NULL;
}

/* Memory that nobody has set is not zero by chance: neither on the stack of the case that begins now, nor, with glibc's
 * allocator, on the heap. */
#if defined(__GNUC__)
__attribute__((noinline))
#endif
TP_TEST__UNUSED static void
tp_test__soil(void)
{
    volatile unsigned char below[96 << 10];
    for (size_t i = 0; i < sizeof below; i++) below[i] = 0x5b;
#ifdef M_PERTURB
    mallopt(M_PERTURB, 0x5b);
#endif
}

TP_TEST__UNUSED static int tp_test__main(int argc, char **argv)
{
    if (getenv("TP_TEST_LOCALE")) { /* the whole test under a locale with a decimal comma, or not at all */
        char half[8];
        setlocale(LC_ALL, getenv("TP_TEST_LOCALE"));
        snprintf(half, sizeof half, "%.1f", 0.5);
        if (strcmp(half, "0,5") != 0) return printf("the locale %s is not there\n", getenv("TP_TEST_LOCALE")), 1;
    }
    int passed = 0, failed = 0, skipped = 0;
    signal(SIGINT, SIG_DFL); /* a shell's `test &` ignores it, and then a training does */
    tp_test__begin();
    for (tp_test__case *c = tp_test__first; c; c = c->next) {
        if (!tp_test__chosen(c->name, argc > 1 ? argv[1] : NULL)) continue;
        __atomic_store_n(&tp_test__failures, 0, __ATOMIC_RELAXED);
        tp_test__skipped = NULL;
        tp_test__running = c->name;
        tp_test_set_log(NULL, NULL);
        double start = tp_test__ms();
        tp_test__soil();
        const char *starve = getenv("TP_TEST_STARVE"); /* starve.py */
        if (starve) tp_test_fail_after(atol(starve));
        c->fn();
        if (starve) printf("%ld allocations\n", tp_test_alloc_count());
        double ms = tp_test__ms() - start;
        tp_test__judge_errors();
        if (__atomic_load_n(&tp_test__failures, __ATOMIC_RELAXED)) {
            printf("FAIL %s (%.0f ms)\n", c->name, ms);
            failed++;
        } else if (tp_test__skipped) {
            printf("skip %s: %s\n", c->name, tp_test__skipped);
            skipped++;
        } else {
            printf("ok   %s (%.0f ms)\n", c->name, ms);
            passed++;
        }
        fflush(stdout);
    }
    skipped += tp_test__left_out_count;
    printf("%d passed, %d failed", passed, failed);
    if (skipped) printf(", %d skipped", skipped);
    printf("\n");
    return failed || passed + failed + skipped == 0;
}

#define TEST_MAIN() \
    int main(int argc, char **argv) { return tp_test__main(argc, argv); }

#endif /* TP_TEST_H */
