/* inject.h - run a function in a process of its own, and kill it at one of its system calls or let that call fail
 *
 *     static int body(void *arg) { ...; return 0; }      // its return value is the exit status of the process
 *
 *     inject_plan plan = {.what = INJECT_KILL, .n = 17}; // SIGKILL where the 17th call would begin
 *     inject_result r;
 *     if (inject_run(body, arg, &plan, &r) != 0) ...;    // this machine does not allow ptrace: r.why says so
 *     // r.fired: there was a 17th call; r.call: "rename"; r.status: as from waitpid
 *
 * Counted are the calls that have to do with files (the table below), of all threads, from the beginning of the function;
 * those on the descriptors 0, 1 and 2 are not. With one thread the same function makes the same calls in the same order.
 *
 * For Linux on x86-64, x86 and aarch64, by ptrace. Elsewhere inject_run returns -1. Include it after tp_test.h, and define _GNU_SOURCE.
 */
#ifndef INJECT_H
#define INJECT_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__linux__) && (defined(__x86_64__) || defined(__i386__) || defined(__aarch64__))
#define INJECT_HERE 1
#include <elf.h>
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#endif

/* What a call does; a plan names those that it counts. */
enum {
    INJECT_OPEN = 1,    /* open for reading */
    INJECT_CREATE = 2,  /* open for writing, and mkdir */
    INJECT_READ = 4,    /* read, and the entries of a directory */
    INJECT_WRITE = 8,   /* write, truncate */
    INJECT_SYNC = 16,   /* fsync, fdatasync */
    INJECT_CLOSE = 32,  /* close */
    INJECT_RENAME = 64, /* rename, link, symlink */
    INJECT_UNLINK = 128,
    INJECT_LOOK = 256, /* stat, access, lseek, fcntl */
    INJECT_ALL = 511,
    INJECT_CHANGES = INJECT_CREATE | INJECT_WRITE | INJECT_SYNC | INJECT_RENAME | INJECT_UNLINK
};

typedef enum {
    INJECT_COUNT,     /* nothing but counting */
    INJECT_KILL,      /* SIGKILL to the process instead of the n-th call */
    INJECT_SIGNAL,    /* the signal `error` to the process while it makes the n-th call */
    INJECT_FAIL,      /* the n-th call does nothing and fails with `error`; a close closes, and fails */
    INJECT_FAIL_FROM, /* so do all calls of `kinds` from the n-th on */
    INJECT_STUTTER,   /* from the n-th on, every other call of `kinds` fails: the first, the third, .. */
    INJECT_SHORT      /* the n-th call, a read or a write, is of about half the bytes */
} inject_what;

typedef struct inject_plan {
    inject_what what;
    long n;         /* from 1 */
    int error;      /* what a call that fails returns: ENOSPC, ..; or the signal */
    unsigned kinds; /* what is counted; 0 = INJECT_ALL */
    /* NULL, or told of each counted call before it happens. Its arguments are the kernel's; see inject_text. */
    void (*watch)(void *user, pid_t thread, const char *call, unsigned kind, const uint64_t *args);
    void *user;
} inject_plan;

enum { INJECT_MOST = 16384 };
typedef struct inject_result {
    int status;            /* of the process, as from waitpid */
    long calls;            /* how many were counted */
    bool fired;            /* the n-th call came */
    const char *call;      /* its name; "" if it did not come */
    unsigned kind;         /* what it does */
    const char *why;       /* inject_run returned -1: why */
    unsigned short *kinds; /* NULL, or room for the kinds of the first INJECT_MOST calls */
} inject_result;

#ifdef INJECT_HERE

/* The text at an address of the process, as far as it fits. */
TP_TEST__UNUSED static bool inject_text(pid_t thread, uint64_t address, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/mem", (long)thread);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : pread(fd, text, size - 1, (off_t)address);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

typedef struct inject__call {
    long number;
    const char *name;
    unsigned kind;
} inject__call;

static const inject__call inject__calls[] = {
#ifdef SYS_open
    {SYS_open, "open", INJECT_OPEN},
#endif
    {SYS_openat, "openat", INJECT_OPEN},
#ifdef SYS_creat
    {SYS_creat, "creat", INJECT_CREATE},
#endif
#ifdef SYS_mkdir
    {SYS_mkdir, "mkdir", INJECT_CREATE},
#endif
    {SYS_mkdirat, "mkdirat", INJECT_CREATE},
    {SYS_read, "read", INJECT_READ},
    {SYS_pread64, "pread", INJECT_READ},
    {SYS_readv, "readv", INJECT_READ},
    {SYS_getdents64, "getdents", INJECT_READ},
    {SYS_write, "write", INJECT_WRITE},
    {SYS_pwrite64, "pwrite", INJECT_WRITE},
    {SYS_writev, "writev", INJECT_WRITE},
    {SYS_ftruncate, "ftruncate", INJECT_WRITE},
#ifdef SYS_ftruncate64
    {SYS_ftruncate64, "ftruncate", INJECT_WRITE},
#endif
    {SYS_fallocate, "fallocate", INJECT_WRITE},
    {SYS_fsync, "fsync", INJECT_SYNC},
    {SYS_fdatasync, "fdatasync", INJECT_SYNC},
    {SYS_close, "close", INJECT_CLOSE},
#ifdef SYS_rename
    {SYS_rename, "rename", INJECT_RENAME},
#endif
#ifdef SYS_renameat
    {SYS_renameat, "renameat", INJECT_RENAME},
#endif
    {SYS_renameat2, "renameat2", INJECT_RENAME},
#ifdef SYS_link
    {SYS_link, "link", INJECT_RENAME},
#endif
    {SYS_linkat, "linkat", INJECT_RENAME},
#ifdef SYS_symlink
    {SYS_symlink, "symlink", INJECT_RENAME},
#endif
    {SYS_symlinkat, "symlinkat", INJECT_RENAME},
#ifdef SYS_unlink
    {SYS_unlink, "unlink", INJECT_UNLINK},
#endif
#ifdef SYS_rmdir
    {SYS_rmdir, "rmdir", INJECT_UNLINK},
#endif
    {SYS_unlinkat, "unlinkat", INJECT_UNLINK},
#ifdef SYS_stat
    {SYS_stat, "stat", INJECT_LOOK},
#endif
#ifdef SYS_lstat
    {SYS_lstat, "lstat", INJECT_LOOK},
#endif
#ifdef SYS_fstat
    {SYS_fstat, "fstat", INJECT_LOOK},
#endif
#ifdef SYS_newfstatat
    {SYS_newfstatat, "fstatat", INJECT_LOOK},
#endif
#ifdef SYS_stat64
    {SYS_stat64, "stat", INJECT_LOOK},
#endif
#ifdef SYS_lstat64
    {SYS_lstat64, "lstat", INJECT_LOOK},
#endif
#ifdef SYS_fstat64
    {SYS_fstat64, "fstat", INJECT_LOOK},
#endif
#ifdef SYS_fstatat64
    {SYS_fstatat64, "fstatat", INJECT_LOOK},
#endif
#ifdef SYS_statx
    {SYS_statx, "statx", INJECT_LOOK},
#endif
#ifdef SYS_access
    {SYS_access, "access", INJECT_LOOK},
#endif
    {SYS_faccessat, "faccessat", INJECT_LOOK},
    {SYS_lseek, "lseek", INJECT_LOOK},
#ifdef SYS__llseek
    {SYS__llseek, "lseek", INJECT_LOOK},
#endif
    {SYS_fcntl, "fcntl", INJECT_LOOK},
#ifdef SYS_fcntl64
    {SYS_fcntl64, "fcntl", INJECT_LOOK},
#endif
    {SYS_flock, "flock", INJECT_LOOK},
};

/* A thread of the process; result is what its running call shall return, 0: what it returns by itself. */
typedef struct inject__thread {
    pid_t id;
    long result;
} inject__thread;

typedef struct inject__run {
    const inject_plan *plan;
    inject_result *result;
    pid_t pid;
    inject__thread thread[64];
    int n_thread;
} inject__run;

#if defined(__x86_64__)
#define INJECT__NUMBER orig_rax
#define INJECT__RETURN rax
#define INJECT__THIRD  rdx
#elif defined(__i386__)
#define INJECT__NUMBER orig_eax
#define INJECT__RETURN eax
#define INJECT__THIRD  edx
#endif
#ifdef INJECT__NUMBER
typedef struct user_regs_struct inject__regs;
static bool inject__get(pid_t t, inject__regs *r) { return ptrace(PTRACE_GETREGS, t, NULL, r) == 0; }
static bool inject__put(pid_t t, inject__regs *r) { return ptrace(PTRACE_SETREGS, t, NULL, r) == 0; }
static void inject__skip(pid_t t) /* the call that is about to begin does nothing */
{
    inject__regs r;
    if (!inject__get(t, &r)) return;
    memset(&r.INJECT__NUMBER, 255, sizeof r.INJECT__NUMBER);
    inject__put(t, &r);
}
static void inject__returns(pid_t t, long value)
{
    inject__regs r;
    if (!inject__get(t, &r)) return;
    memcpy(&r.INJECT__RETURN, &value, sizeof r.INJECT__RETURN);
    inject__put(t, &r);
}
static void inject__halve(pid_t t)
{
    inject__regs r;
    if (!inject__get(t, &r) || r.INJECT__THIRD < 2) return;
    r.INJECT__THIRD /= 2;
    inject__put(t, &r);
}
#else
typedef struct user_regs_struct inject__regs;
static bool inject__move(pid_t t, inject__regs *r, bool put)
{
    struct iovec v;
    v.iov_base = r;
    v.iov_len = sizeof *r;
    return ptrace(put ? PTRACE_SETREGSET : PTRACE_GETREGSET, t, NT_PRSTATUS, &v) == 0;
}
static void inject__skip(pid_t t)
{
    int number = -1;
    struct iovec v;
    v.iov_base = &number;
    v.iov_len = sizeof number;
    ptrace(PTRACE_SETREGSET, t, NT_ARM_SYSTEM_CALL, &v);
}
static void inject__returns(pid_t t, long value)
{
    inject__regs r;
    if (!inject__move(t, &r, false)) return;
    r.regs[0] = (unsigned long long)value;
    inject__move(t, &r, true);
}
static void inject__halve(pid_t t)
{
    inject__regs r;
    if (!inject__move(t, &r, false) || r.regs[2] < 2) return;
    r.regs[2] /= 2;
    inject__move(t, &r, true);
}
#endif

static inject__thread *inject__find(inject__run *x, pid_t id)
{
    for (int i = 0; i < x->n_thread; i++)
        if (x->thread[i].id == id) return &x->thread[i];
    if (x->n_thread == (int)(sizeof x->thread / sizeof *x->thread)) return NULL;
    x->thread[x->n_thread].id = id;
    x->thread[x->n_thread].result = 0;
    return &x->thread[x->n_thread++];
}

/* What the call is, with its kind; NULL if it is not counted. */
static const inject__call *inject__counted(const inject__run *x, const struct __ptrace_syscall_info *info,
                                           inject__call *found)
{
    const size_t n = sizeof inject__calls / sizeof *inject__calls;
    size_t i = 0;
    while (i < n && (unsigned long long)inject__calls[i].number != info->entry.nr) i++;
    if (i == n) return NULL;
    *found = inject__calls[i];
    const bool is_openat = found->number == SYS_openat;
    bool by_path = is_openat || (found->kind & (INJECT_CREATE | INJECT_RENAME | INJECT_UNLINK)) != 0;
#ifdef SYS_open
    by_path = by_path || found->number == SYS_open;
#endif
    if (found->kind == INJECT_LOOK) /* of these, the ones on a descriptor are known by their names */
        by_path = strcmp(found->name, "lseek") != 0 && strcmp(found->name, "fcntl") != 0 &&
                  strcmp(found->name, "fstat") != 0 && strcmp(found->name, "flock") != 0;
    if (!by_path && info->entry.args[0] <= 2) return NULL;
    if (found->kind == INJECT_OPEN && (info->entry.args[is_openat ? 2 : 1] & (O_WRONLY | O_RDWR | O_CREAT)) != 0)
        found->kind = INJECT_CREATE;
    return (found->kind & (x->plan->kinds ? x->plan->kinds : INJECT_ALL)) != 0 ? found : NULL;
}

/* A thread is about to make a call. */
static void inject__entry(inject__run *x, pid_t t, const struct __ptrace_syscall_info *info)
{
    const inject_plan *p = x->plan;
    inject_result *r = x->result;
    inject__call call;
    if (!inject__counted(x, info, &call)) return;
    if (r->kinds && r->calls < INJECT_MOST) r->kinds[r->calls] = (unsigned short)call.kind;
    r->calls++;
    if (p->watch) p->watch(p->user, t, call.name, call.kind, info->entry.args);
    const long since = r->calls - p->n;
    const bool more = p->what == INJECT_FAIL_FROM || (p->what == INJECT_STUTTER && since % 2 == 0);
    if (p->what == INJECT_COUNT || since < 0 || (since > 0 && !more)) return;
    if (!r->fired) {
        r->fired = true;
        r->call = call.name;
        r->kind = call.kind;
    }
    if (p->what == INJECT_KILL) {
        inject__skip(t);
        kill(x->pid, SIGKILL);
    } else if (p->what == INJECT_SIGNAL) {
        kill(x->pid, p->error);
    } else if (p->what == INJECT_SHORT) {
        inject__halve(t);
    } else {
        inject__thread *thread = inject__find(x, t);
        if (thread) thread->result = -p->error;
        if (thread && call.kind != INJECT_CLOSE) inject__skip(t);
    }
}

static void inject__syscall(inject__run *x, pid_t t)
{
    struct __ptrace_syscall_info info;
    memset(&info, 0, sizeof info);
    if (ptrace(PTRACE_GET_SYSCALL_INFO, t, sizeof info, &info) <= 0) return;
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
        inject__entry(x, t, &info);
    } else if (info.op == PTRACE_SYSCALL_INFO_EXIT) {
        inject__thread *thread = inject__find(x, t);
        if (thread && thread->result) inject__returns(t, thread->result);
        if (thread) thread->result = 0;
    }
}

/* 0, or -1 where ptrace is not allowed. Call it without other children and without threads. */
static int inject_run(int (*body)(void *), void *arg, const inject_plan *plan, inject_result *result)
{
    const long options =
        PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL; /* which end when the tracer does */
    unsigned short *kinds = result->kinds;
    inject__run x;
    int status = 0;
    memset(&x, 0, sizeof x);
    memset(result, 0, sizeof *result);
    result->kinds = kinds;
    result->call = "";
    x.plan = plan;
    x.result = result;
    fflush(NULL); /* what is buffered would be written by both */
    x.pid = fork();
    if (x.pid < 0) return result->why = "fork failed", -1;
    if (x.pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(111);
        raise(SIGSTOP);
        _exit(body(arg));
    }
    if (waitpid(x.pid, &status, 0) != x.pid || !WIFSTOPPED(status))
        return result->why = "a process may not be traced here (ptrace: TRACEME)", -1;
    struct __ptrace_syscall_info info;
    if (ptrace(PTRACE_SETOPTIONS, x.pid, NULL, options) != 0 ||
        ptrace(PTRACE_GET_SYSCALL_INFO, x.pid, sizeof info, &info) <= 0) {
        kill(x.pid, SIGKILL);
        waitpid(x.pid, &status, 0);
        return result->why = "ptrace cannot tell about system calls here (it needs Linux 5.3)", -1;
    }
    ptrace(PTRACE_SYSCALL, x.pid, NULL, NULL);
    for (;;) {
        const pid_t t = waitpid(-1, &status, __WALL);
        if (t < 0 && errno == EINTR) continue;
        if (t < 0) break; /* the last of its threads is gone */
        if (t == x.pid && (WIFEXITED(status) || WIFSIGNALED(status))) result->status = status;
        if (!WIFSTOPPED(status)) continue;
        const int sig = WSTOPSIG(status);
        const bool ours = status >> 16 || sig == SIGSTOP; /* an event, or how a thread begins */
        if (sig == (SIGTRAP | 0x80)) inject__syscall(&x, t);
        ptrace(PTRACE_SYSCALL, t, NULL, ours || sig == (SIGTRAP | 0x80) ? 0 : (long)sig);
    }
    return 0;
}

#else

TP_TEST__UNUSED static bool inject_text(pid_t thread, uint64_t address, char *text, size_t size)
{
    (void)thread, (void)address, (void)size;
    text[0] = 0;
    return false;
}
static int inject_run(int (*body)(void *), void *arg, const inject_plan *plan, inject_result *result)
{
    (void)body, (void)arg, (void)plan;
    result->why = "system calls are made to fail by Linux' ptrace, on x86-64, x86 and aarch64";
    return -1;
}

#endif
#endif
