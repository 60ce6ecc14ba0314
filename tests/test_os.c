/* test_os.c - files under faults: each call of the system that changes a file fails, is interrupted, comes short or is the last
 * one of the process, in its turn; what was saved before loads afterwards, and nothing is left behind. */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#undef SYS_memfd_create /* a system that lacks it: memory that processes share is a file of a folder */
#endif

/* What tp calls instead of the system: see >>faults. */
static int fault_open(const char *path, int flags, int mode);
static ssize_t fault_read(int fd, void *data, size_t n);
static ssize_t fault_write(int fd, const void *data, size_t n);
static int fault_fsync(int fd);
static int fault_close(int fd);
static int fault_rename(const char *from, const char *to);
static int fault_unlink(const char *path);
#define TP_OS_OPEN   fault_open
#define TP_OS_READ   fault_read
#define TP_OS_WRITE  fault_write
#define TP_OS_FSYNC  fault_fsync
#define TP_OS_CLOSE  fault_close
#define TP_OS_RENAME fault_rename
#define TP_OS_UNLINK fault_unlink

static int threads_left = -1; /* so many more may start; -1: any number */
static int fault_thread(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *user)
{
    if (threads_left == 0) return EAGAIN;
    if (threads_left > 0) threads_left--;
    return pthread_create(t, attr, fn, user);
}
#define pthread_create fault_thread

#ifdef __linux__
static int not_reserved; /* why the next space for a file is not reserved; 0: it is */
static int fault_fallocate(int fd, off_t at, off_t n)
{
    const int why = not_reserved;
    not_reserved = 0;
    return why ? why : posix_fallocate(fd, at, n);
}
#define posix_fallocate fault_fallocate
#endif

#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_tensor.h"
#include "tp_test.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

/* ==== >>faults ======================================================================================== */

enum { SHORT = -1, KILL = -2 };  /* other faults are numbers of errno */
static int fault_at, fault_what; /* the call that has it, from 1; 0: none */
static int fault_calls;
static char fault_name[16]; /* of that call */
static bool unsynced[1024]; /* descriptors with bytes that are not on the disk, if the system stops now */
static bool closed_unsynced;

static void fault_set(int at, int what)
{
    fault_at = at;
    fault_what = what;
    fault_calls = 0;
    fault_name[0] = 0;
    closed_unsynced = false;
}

/* What is wrong with this call; 0: nothing. */
static int fault(const char *name)
{
    if (++fault_calls != fault_at) return 0;
    snprintf(fault_name, sizeof fault_name, "%s", name);
    if (fault_what == KILL) kill(getpid(), SIGKILL);
    if (fault_what != SHORT) errno = fault_what;
    return fault_what;
}

static const char *all_taken; /* a path: whatever file is to be made that begins so is there already */
static int fault_open(const char *path, int flags, int mode)
{
    if (all_taken && (flags & O_EXCL) && strncmp(path, all_taken, strlen(all_taken)) == 0) {
        errno = EEXIST;
        return -1;
    }
    return fault("open") > 0 ? -1 : open(path, flags, (mode_t)mode);
}

static ssize_t fault_read(int fd, void *data, size_t n)
{
    const int f = fault("read");
    return f > 0 ? -1 : read(fd, data, f == SHORT && n > 1 ? n / 2 : n);
}

static ssize_t fault_write(int fd, const void *data, size_t n)
{
    const int f = fault("write");
    if (fd < TP_COUNT(unsynced)) unsynced[fd] = true;
    return f > 0 ? -1 : write(fd, data, f == SHORT && n > 1 ? n / 2 : n);
}

static int fault_fsync(int fd) /* the disk itself is not looked at, and takes its time */
{
    if (fault("fsync") > 0) return -1;
    if (fd < TP_COUNT(unsynced)) unsynced[fd] = false;
    return 0;
}

static int fault_close(int fd) /* the descriptor is gone in any case, as on Linux */
{
    const bool written = (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY;
    const int f = fault(written ? "close written" : "close"), done = close(fd);
    if (fd < TP_COUNT(unsynced)) {
        closed_unsynced = closed_unsynced || unsynced[fd];
        unsynced[fd] = false;
    }
    if (f > 0) errno = f;
    return f > 0 ? -1 : done;
}

static int fault_rename(const char *from, const char *to)
{
    CHECK_MSG(!closed_unsynced, "%s has its name before its bytes are on the disk", to);
    return fault("rename") > 0 ? -1 : rename(from, to);
}
static int fault_unlink(const char *path) { return fault("unlink") > 0 ? -1 : unlink(path); }

/* ==== >>checkpoints =================================================================================== */

enum { NPZ, SAFETENSORS, TF, FORMATS };
static const char *const suffix[] = {".npz", ".safetensors", ".index"};

/* Two variables, the first larger than a writer's buffer, all values `v`. */
static void fill(tp_dict *d, float v)
{
    memset(d, 0, sizeof *d);
    for (int i = 0; i < 2; i++) {
        tp_tensor *t = tp_dict_add(d, i ? "b" : "a");
        if (!CHECK(t && tp_tensor_resize(t, TP_F32, tp_make_shape(i ? 3 : 100, 200)) == TP_OK)) return;
        for (int64_t k = 0; k < tp_tensor_size(t); k++) ((float *)t->data)[k] = v;
    }
}

static tp_status save(int format, const char *path, const tp_dict *d)
{
    if (format == NPZ) return tp_npz_save(path, d, false);
    return format == TF ? tp_tf_checkpoint_save(path, d) : tp_safetensors_save(path, d);
}

/* The value that all variables have; -1: it does not load, or is not of one piece. */
static float value_of(int format, const char *path)
{
    tp_dict d;
    memset(&d, 0, sizeof d);
    const tp_status s = format == NPZ  ? tp_npz_load(path, &d)
                        : format == TF ? tp_tf_checkpoint_load(path, &d)
                                       : tp_safetensors_load(path, &d);
    float v = s == TP_OK && d.n == 2 ? *(float *)d.item[0].value.data : -1;
    for (int i = 0; i < d.n && v >= 0; i++)
        for (int64_t k = 0; k < tp_tensor_size(&d.item[i].value); k++)
            if (((float *)d.item[i].value.data)[k] != v) v = -1;
    tp_dict_free(&d);
    return v;
}

/* The operation that meets a fault: 2s are saved as `model`, or copied to it from `source`. */
static tp_status operation(int format, const char *dir, bool copy)
{
    char path[600], from[600];
    snprintf(path, sizeof path, "%s/model%s", dir, suffix[format]);
    snprintf(from, sizeof from, "%s.source/source%s", dir, suffix[format]);
    if (copy) return format == TF ? tp__tf_copy(from, path) : tp__copy_file(from, path);
    tp_dict d;
    fill(&d, 2);
    const tp_status s = save(format, path, &d);
    tp_dict_free(&d);
    return s;
}

/* A fresh folder, with 1s as `model` if `old`, and a source to copy beside it. */
static const char *folder(int format, bool old)
{
    static char dir[512];
    char path[600];
    tp_dict d;
    snprintf(dir, sizeof dir, "%s/d", tp_test_tmpdir());
    snprintf(path, sizeof path, "%s.source", dir);
    CHECK(tp_make_dirs(dir) == TP_OK && tp_make_dirs(path) == TP_OK);
    snprintf(path, sizeof path, "%s.source/source%s", dir, suffix[format]);
    fill(&d, 2);
    CHECK_OK(save(format, path, &d));
    tp_dict_free(&d);
    if (!old) return dir;
    fill(&d, 1);
    snprintf(path, sizeof path, "%s/model%s", dir, suffix[format]);
    CHECK_OK(save(format, path, &d));
    tp_dict_free(&d);
    return dir;
}

/* Once more, without a fault: the model is 2 and there is nothing beside it. */
static void again(int format, const char *dir, bool copy, const char *path, const char *what)
{
    fault_set(0, 0);
    CHECK_OK(operation(format, dir, copy));
    CHECK_MSG(value_of(format, path) == 2, "%s: it is %g", what, (double)value_of(format, path));
    CHECK_MSG(tp_test_files_in(dir) == (format == TF ? 2 : 1), "%s: there are %d files", what, tp_test_files_in(dir));
}

/* One fault at each call. */
static void faults_of(int format, bool old, bool copy, int what)
{
    const char *const dir = folder(format, old);
    char path[600], label[100];
    snprintf(path, sizeof path, "%s/model%s", dir, suffix[format]);
    for (int n = 1;; n++) {
        const int before = tp_test_files_in(dir);
        const float was = value_of(format, path);
        fault_set(n, what);
        const tp_status s = operation(format, dir, copy);
        char call[16];
        snprintf(call, sizeof call, "%s", fault_name);
        fault_set(0, 0);
        if (!call[0]) {
            CHECK_MSG(n > 8, "%d calls only", n);
            break;
        }
        snprintf(label, sizeof label, "%s, %s, fault %d at call %d, %s", suffix[format], copy ? "copied" : "saved",
                 what, n, call);
        const float now = value_of(format, path);
        if (what == SHORT || what == EINTR) CHECK_MSG(s == TP_OK, "%s: %s", label, tp_last_error());
        if (s == TP_OK) CHECK_MSG(now == 2, "%s: it is %g", label, (double)now);
        else
            CHECK_MSG((s == TP_ERR_IO) && (now == was || now == 2) && (now == 2 || tp_test_files_in(dir) == before),
                      "%s: status %d, it is %g, %d files", label, (int)s, (double)now, tp_test_files_in(dir));
        static const char *const grave[] = {"write", "fsync", "rename", "close written"};
        for (int i = 0; what > 0 && what != EINTR && i < TP_COUNT(grave); i++)
            if (strcmp(call, grave[i]) == 0) CHECK_MSG(s == TP_ERR_IO, "%s: status %d", label, (int)s);
        /* written, but not known to be on the disk: only of the folder */
        if (s != TP_OK && now == 2 && was != 2) CHECK_MSG(strcmp(call, "fsync") == 0, "%s", label);
        if (n % 2) again(format, dir, copy, path, label);
        else if (old) { /* back to 1 */ tp_dict d;
            fill(&d, 1);
            CHECK_OK(save(format, path, &d));
            tp_dict_free(&d);
        }
    }
}

static void all_faults(int format)
{
    tp_set_log(tp_test_drop_log, NULL);
    static const int what[] = {ENOSPC, EIO, EINTR, SHORT};
    for (int i = 0; i < TP_COUNT(what); i++)
        for (int old = 0; old < 2; old++)
            for (int copy = 0; copy < 2; copy++) faults_of(format, old != 0, copy != 0, what[i]);
}

TEST(faults_npz) { all_faults(NPZ); }
TEST(faults_safetensors) { all_faults(SAFETENSORS); }
TEST(faults_tf) { all_faults(TF); }

/* The process ends at each call. */
static void kills_of(int format, bool old, bool copy)
{
    const char *const dir = folder(format, old);
    char path[600], label[100];
    snprintf(path, sizeof path, "%s/model%s", dir, suffix[format]);
    for (int n = 1;; n++) {
        const float was = value_of(format, path);
        const pid_t child = fork();
        if (child == 0) {
            fault_set(n, KILL);
            _exit(operation(format, dir, copy) == TP_OK ? 0 : 1);
        }
        int status = 0;
        if (!CHECK(child > 0 && waitpid(child, &status, 0) == child)) break;
        if (WIFEXITED(status)) {
            CHECK(n > 8 && WEXITSTATUS(status) == 0);
            break;
        }
        snprintf(label, sizeof label, "%s, %s, killed at call %d", suffix[format], copy ? "copied" : "saved", n);
        const float now = value_of(format, path);
        CHECK_MSG(now == was || now == 2, "%s: it was %g and is %g", label, (double)was, (double)now);
        if (n % 2) again(format, dir, copy, path, label);
        if (old) { /* back to 1 */
            tp_dict d;
            fill(&d, 1);
            CHECK_OK(save(format, path, &d));
            tp_dict_free(&d);
        }
    }
}

TEST(kills)
{
    for (int format = 0; format < FORMATS; format++)
        for (int old = 0; old < 2; old++)
            for (int copy = 0; copy < 2; copy++) kills_of(format, old != 0, copy != 0);
}

/* A checkpoint written over itself any number of times, and over one whose index cannot be read any more. */
TEST(tf_over_itself)
{
    const char *const dir = tp_test_tmpdir();
    const char *const path = tp_test_path(dir, "model.index");
    tp_dict d;
    for (int i = 0; i < 4; i++) {
        fill(&d, (float)i);
        CHECK_OK(tp_tf_checkpoint_save(path, &d));
        tp_dict_free(&d);
        CHECK(value_of(TF, path) == (float)i && tp_test_files_in(dir) == 2);
        CHECK(tp_file_exists(tp_test_path(dir, i % 2 ? "model.data-00000-of-00002" : "model.data-00000-of-00001")));
    }
    tp_test_write(path, "damaged", 7);
    tp_test_write(tp_test_path(dir, "model.data-00002-of-00003"), "", 0);
    tp_test_write(tp_test_path(dir, "models.data-00000-of-00001"), "", 0); /* another's */
    tp_test_write(tp_test_path(dir, "model.data-0000-of-00001"), "", 0);
    fill(&d, 9);
    CHECK_OK(tp_tf_checkpoint_save(path, &d));
    tp_dict_free(&d);
    CHECK(value_of(TF, path) == 9 && tp_test_files_in(dir) == 4);
    CHECK(!tp_file_exists(tp_test_path(dir, "model.data-00002-of-00003")));
    /* a copy of a copy, in turns, and what is not ours */
    CHECK_OK(tp__tf_copy(path, tp_test_path(dir, "best")));
    CHECK_OK(tp__tf_copy(path, tp_test_path(dir, "best")));
    CHECK_OK(tp__tf_copy(tp_test_path(dir, "best.index"), path));
    CHECK(value_of(TF, path) == 9 && tp_test_files_in(dir) == 6);
    CHECK_ERR(tp__tf_copy(tp_test_path(dir, "none.index"), path), TP_ERR_IO, "none.index");
    CHECK(value_of(TF, path) == 9 && tp_test_files_in(dir) == 6);
}

/* ==== >>machine ======================================================================================= */

#ifdef __linux__
/* As the kernel writes cpu.max: microseconds of all processors together, in each so many. */
TEST(a_quota_of_processors)
{
    static const struct {
        const char *text;
        long n, want;
    } row[] = {{"max 100000\n", 8, 8},     {"", 8, 8},
               {"100000 100000\n", 8, 1},  {"100001 100000\n", 8, 2},
               {"99999 100000\n", 8, 1},   {"50000 100000\n", 8, 1},
               {"1 100000\n", 8, 1},       {"750000 100000\n", 8, 8},
               {"700000 100000\n", 8, 7},  {"700001 100000\n", 8, 8},
               {"9000000 100000\n", 8, 8}, {"150000 50000\n", 8, 3},
               {"0 100000\n", 8, 8},       {"-1 100000\n", 8, 8},
               {"100000 0\n", 8, 8},       {"100000 -1\n", 8, 8},
               {"100000", 8, 8},           {"200000 100000\n", 1, 1}};
    for (int i = 0; i < TP_COUNT(row); i++)
        CHECK_MSG(tp__os_quota(row[i].text, row[i].n) == row[i].want, "'%s' of %ld: %ld", row[i].text, row[i].n,
                  tp__os_quota(row[i].text, row[i].n));
}
#endif

/* The beginning of a file, as much as there is room for; nothing of one that is not there. */
TEST(peeking_into_a_file)
{
    char text[8] = "old", path[600];
    snprintf(path, sizeof path, "%s/f", tp_test_tmpdir());
    tp__os_peek(path, text, sizeof text);
    CHECK_STR(text, "");
    tp_test_write(path, "1234567890", 10);
    tp__os_peek(path, text, sizeof text);
    CHECK_STR(text, "1234567");
    tp_test_write(path, "12", 2);
    tp__os_peek(path, text, sizeof text);
    CHECK_STR(text, "12");
}

/* A file that comes in pieces is read as far as was asked, and not further. */
TEST(reads_in_pieces_end_where_they_should)
{
    char path[600], whole[100], got[100];
    snprintf(path, sizeof path, "%s/f", tp_test_tmpdir());
    for (int i = 0; i < 100; i++) whole[i] = (char)i;
    tp_test_write(path, whole, sizeof whole);
    memset(got, 'x', sizeof got);
    const int fd = tp__os_open(path, 0);
    fault_set(1, SHORT);
    CHECK(tp__os_read(fd, got, 40) == 40 && fault_calls == 2);
    CHECK(memcmp(got, whole, 40) == 0 && got[40] == 'x' && memcmp(got + 40, got + 41, 59) == 0);
    fault_set(1, SHORT);
    CHECK(tp__os_read(fd, got, sizeof got) == 60 && memcmp(got, whole + 40, 60) == 0);
    fault_set(0, 0);
    tp__os_close(fd);
}

#if defined(__linux__)
/* Columns of the terminal behind stderr: what it says if that can be true, or else 80; 0 if there is none. */
TEST(the_width_of_a_terminal)
{
    static const int columns[][2] = {{0, 80}, {1, 1}, {20, 20}, {21, 21}, {80, 80}, {133, 133}, {65535, 65535}};
    char path[600];
    snprintf(path, sizeof path, "%s/f", tp_test_tmpdir());
    int got[TP_COUNT(columns)];
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) TEST_SKIP("no pseudo terminals here");
    const char *name = ptsname(terminal);
    const int slave = name ? open(name, O_RDWR | O_NOCTTY) : -1;
    if (slave < 0) TEST_SKIP("no pseudo terminals here");
    const int file = open(path, O_RDWR | O_CREAT, 0600), before = dup(STDERR_FILENO);
    fflush(stderr);
    dup2(slave, STDERR_FILENO);
    for (int i = 0; i < TP_COUNT(columns); i++) {
        struct winsize w;
        memset(&w, 0, sizeof w);
        w.ws_row = 50;
        w.ws_col = (unsigned short)columns[i][0];
        got[i] = ioctl(terminal, TIOCSWINSZ, &w) == 0 ? tp__os_terminal_width() : -1;
    }
    dup2(file, STDERR_FILENO);
    const int none = tp__os_terminal_width();
    dup2(before, STDERR_FILENO);
    for (int i = 0; i < TP_COUNT(columns); i++)
        CHECK_MSG(got[i] == columns[i][1], "%d columns: %d", columns[i][0], got[i]);
    CHECK(none == 0);
    close(before);
    close(file);
    close(slave);
    close(terminal);
}

/* Whether a read of stdin waits is asked only of a terminal: others have what comes next, or their end, soon enough. */
TEST(stdin_is_waited_for_at_a_terminal)
{
    int end[2], ready[5] = {-1, -1, -1, -1, -1};
    double seconds[5] = {0};
    if (!CHECK(pipe(end) == 0)) return;
    const int before = dup(STDIN_FILENO), terminal = posix_openpt(O_RDWR | O_NOCTTY), closed = before < 0;
    const bool has_terminal = terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0;
    const char *name = has_terminal ? ptsname(terminal) : NULL;
    const int slave = name ? open(name, O_RDWR | O_NOCTTY) : -1;
    for (int i = 0; i < 5; i++) { /* an empty pipe, a terminal without a line, twice, with one; a pipe that has ended */
        if (i == 3 && slave >= 0) CHECK(write(terminal, "x\n", 2) == 2);
        if (i == 4) close(end[1]);
        if (i > 0 && i < 4 && slave < 0) continue;
        CHECK(dup2(i > 0 && i < 4 ? slave : end[0], STDIN_FILENO) == STDIN_FILENO);
        const double began = tp_time();
        ready[i] = tp__os_stdin_ready(i == 2 ? 0.05 : i == 3 || i == 0 ? 2 : 0);
        seconds[i] = tp_time() - began;
    }
    if (closed) close(STDIN_FILENO);
    else dup2(before, STDIN_FILENO), close(before);
    CHECK(ready[0] == true && ready[4] == true);
    if (slave >= 0) CHECK(ready[1] == false && ready[2] == false && ready[3] == true);
    if (slave >= 0)
        CHECK_MSG(seconds[2] > 0.04 && seconds[2] < 30 && seconds[3] < 30, "%g s, %g s", seconds[2], seconds[3]);
    close(end[0]);
    if (slave >= 0) close(slave);
    if (terminal >= 0) close(terminal);
}

#if defined(__GNUC__)
/* A thread leaves the processor that it runs on, if it may use another one, and may use each that it might before. */
TEST(a_thread_leaves_a_processor)
{
    unsigned long before[8192 / 8 / sizeof(unsigned long)], after[8192 / 8 / sizeof(unsigned long)];
    int processors = 0, left = 0, stayed = 0;
    memset(before, 0, sizeof before);
    memset(after, 0, sizeof after);
    if (tp__os_processor() < 0 || tp__syscall(SYS_sched_getaffinity, 0, sizeof before, before) <= 0)
        TEST_SKIP("the system does not say which processors there are");
    for (size_t i = 0; i < TP_COUNT(before); i++)
        for (unsigned long bits = before[i]; bits; bits &= bits - 1) processors++;
    for (int i = 0; i < 40; i++) {
        const int at = tp__os_processor();
        tp__os_leave_processor(at);
        left += tp__os_processor() != at;
        const int there = tp__os_processor();
        tp__os_leave_processor(i % 2 ? -1 : there + 1); /* none, and one that it does not run on */
        stayed += tp__os_processor() == there;
    }
    if (processors > 1) CHECK_MSG(left >= 20, "left %d times of 40", left);
    else CHECK(left == 0);
    CHECK_MSG(stayed >= 20, "stayed %d times of 40", stayed);
    CHECK(tp__syscall(SYS_sched_getaffinity, 0, sizeof after, after) > 0 && memcmp(before, after, sizeof before) == 0);
}
#endif

/* Who waits for the other end of a pair of sockets waits until it is closed, whatever comes from there before. */
static void hang_up_later(void *fd)
{
    tp_test_sleep(0.03);
    tp__os_hang_up(*(int *)fd);
}
TEST(the_other_end_is_waited_for)
{
    int fd[2];
    tp_thread *t = NULL;
    if (!CHECK(tp__os_socket_pair(fd) == 0)) return;
    CHECK(tp__os_send(fd[1], "abc", 3) == 0);
    const double began = tp_time();
    if (CHECK_OK(tp_thread_start(&t, hang_up_later, &fd[1]))) tp__os_wait_hang_up(fd[0]);
    CHECK(tp_time() - began >= 0.025);
    tp_thread_join(t);
    tp__os_wait_hang_up(fd[0]); /* it stays closed */
    close(fd[0]);
}
#endif

static int chunks_run; /* atomic */
static void run_chunk(void *user, int64_t chunk)
{
    (void)user, (void)chunk;
    __atomic_add_fetch(&chunks_run, 1, __ATOMIC_ACQ_REL);
}
static void run_four(void *pool) { tp_pool_run((tp_pool *)pool, 4, run_chunk, NULL); }
/* The caller is the first thread of a pool. */
TEST(a_pool_says_which_thread_cannot_start)
{
    for (int started = 0; started < 4; started++) {
        char want[200];
        snprintf(want, sizeof want, "thread pool: cannot start thread %d of 5: %s: ask for fewer threads", started + 2,
                 strerror(EAGAIN));
        threads_left = started;
        CHECK(tp_pool_new(5) == NULL);
        CHECK_HAS(tp_last_error(), want);
        tp_device *d = NULL;
        threads_left = started;
        CHECK_ERR(tp_cpu_devices_new(1, 5, NULL, &d), TP_ERR, want); /* the cause, and no lack of memory */
        tp_thread *t = NULL;
        threads_left = 0;
        CHECK_ERR(tp_thread_start(&t, run_four, NULL), TP_ERR, "ask for fewer threads, or raise the limit");
    }
    threads_left = 4;
    tp_pool *p = tp_pool_new(5);
    CHECK(tp_pool_threads(p) == 5);
    tp_pool_free(p);
    threads_left = -1;
}

/* A thread of a pool that holds the lock may be about to sleep: who has chunks for it waits for the lock before the
 * wake-up, which would be lost otherwise. */
TEST(a_pool_wakes_nobody_who_is_about_to_sleep)
{
    tp_pool *p = tp_pool_new(2);
    tp_thread *t = NULL;
    if (!CHECK(p)) return;
    chunks_run = 0;
    for (;; tp_test_sleep(1e-4)) { /* who holds the lock keeps a sleeper asleep */
        tp__os_lock(&p->lock);
        if (__atomic_load_n(&p->sleepers, __ATOMIC_SEQ_CST) == 1) break;
        tp__os_unlock(&p->lock);
    }
    CHECK_OK(tp_thread_start(&t, run_four, p));
    tp_test_sleep(0.02);
    CHECK(__atomic_load_n(&chunks_run, __ATOMIC_ACQUIRE) == 0);
    tp__os_unlock(&p->lock);
    tp_thread_join(t);
    CHECK(__atomic_load_n(&chunks_run, __ATOMIC_ACQUIRE) == 4);
    tp_pool_free(p);
}

/* Shared memory is a file that nobody sees; names that are taken are passed over. */
TEST(files_without_a_name_leave_nothing)
{
    const char *dir = tp_test_tmpdir(), *before = getenv("TMPDIR");
    char name[64], old[1024] = "", found[64] = "";
    struct stat st;
    if (before) snprintf(old, sizeof old, "%s", before);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "tp-%ld-%d", (long)getpid(), i);
        const int taken = open(tp_test_path(dir, name), O_WRONLY | O_CREAT, 0600);
        CHECK(taken >= 0);
        close(taken);
    }
    setenv("TMPDIR", dir, 1);
    const int fd = tp__os_nameless_file();
    if (CHECK(fd >= 0)) {
        CHECK(fstat(fd, &st) == 0 && st.st_nlink == 0 && st.st_size == 0 && (st.st_mode & 0777) == 0600);
        CHECK(tp__os_grow_file(fd, 5000) == 0);
        CHECK(fstat(fd, &st) == 0 && st.st_size == 5000);
#ifdef __linux__
        static const int why[] = {EINTR, EOPNOTSUPP, EINVAL, ENOSPC}; /* folders that reserve no space do without */
        for (int i = 0; i < TP_COUNT(why); i++) {
            not_reserved = why[i];
            CHECK_MSG(tp__os_grow_file(fd, 6000) == (why[i] == ENOSPC ? ENOSPC : 0), "%s", strerror(why[i]));
        }
#endif
        close(fd);
    }
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "tp-%ld-%d", (long)getpid(), i);
        if (stat(tp_test_path(dir, name), &st) == 0) snprintf(found + strlen(found), 8, "%d ", i);
    }
    CHECK_STR(found, "0 1 2 ");
    setenv("TMPDIR", tp_test_path(dir, "missing"), 1);
    CHECK(tp__os_nameless_file() == -1 && errno == ENOENT);
    for (int empty = 0; empty < 2; empty++) { /* the usual folder, where TMPDIR names none */
        char path[1024] = "", link_name[40];
        if (empty) setenv("TMPDIR", "", 1);
        else unsetenv("TMPDIR");
        const int in_tmp = tp__os_nameless_file();
        CHECK_MSG(in_tmp >= 0, "%d: %s", empty, strerror(errno));
        snprintf(link_name, sizeof link_name, "/proc/self/fd/%d", in_tmp);
        if (readlink(link_name, path, sizeof path - 1) > 0) CHECK_HAS(path, "/tmp/tp-");
        if (in_tmp >= 0) close(in_tmp);
    }
    if (before) setenv("TMPDIR", old, 1);
    else unsetenv("TMPDIR");
}

/* The log of an earlier run stays as it is where no name for it is free, or where it cannot be renamed; then no log is
 * begun. */
TEST(a_log_that_cannot_be_set_aside)
{
    TEST_EXPECT_ERROR("there is no free name");
    TEST_EXPECT_ERROR("cannot be made");
    TEST_EXPECT_ERROR("cannot rename");
    const char *dir = tp_test_tmpdir(), *log = tp_test_path(dir, "log.log");
    char taken[600], want[1400];
    snprintf(taken, sizeof taken, "%s.", log);
    tp_test_write(log, "earlier", 7);
    all_taken = taken;
    snprintf(want, sizeof want, "there is no free name for '%s'; remove old backups", log);
    CHECK_ERR(tp_logger_set_dir(dir, 'k'), TP_ERR_IO, want);
    all_taken = NULL;
    CHECK(tp_logger_dir() == NULL && tp_test_file_equals(log, "earlier", 7) && tp_test_files_in(dir) == 1);
    bool renamed = false;
    for (int n = 1; n < 20 && !renamed; n++) { /* each call fails in its turn, up to the renaming */
        dir = tp_test_tmpdir(), log = tp_test_path(dir, "log.log");
        tp_test_write(log, "earlier", 7);
        fault_set(n, EACCES);
        const tp_status st = tp_logger_set_dir(dir, 'k');
        renamed = strcmp(fault_name, "rename") == 0;
        fault_set(0, 0);
        if (renamed) CHECK_ERR(st, TP_ERR_IO, "cannot rename '");
        if (st == TP_OK) CHECK_OK(tp_logger_set_dir(NULL, 0));
        else CHECK(st == TP_ERR_IO && tp_test_file_equals(log, "earlier", 7) && tp_test_files_in(dir) == 1);
        CHECK(tp_logger_dir() == NULL);
    }
    CHECK(renamed);
}

/* Of a sentence about a misuse, what has no room is left out. */
TEST(long_sentences_are_cut)
{
    tp__words w;
    w.n = 0;
    for (int i = 0; i < 100; i++) tp__words_put(&w, "0123456789");
    CHECK(w.n == 479 && strlen(w.text) == 479);
    CHECK_STR(w.text + 470, "012345678");
}

TEST_MAIN()
