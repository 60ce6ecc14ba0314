/* shim.cpp - CUDA on the CPU, for tests; cuda_runtime.h says how to build with it.
 *
 * CONTENTS   >>faults >>fibers >>blocks >>memory >>queues >>streams >>graphs >>library
 *
 * Work is queued by stream and run later, by whoever has to wait for it, in an order drawn from the seed; a kernel runs
 * block by block, and each of its threads is a lane on a fiber. A lane that meets no barrier runs straight through on
 * the fiber of the lane before it; one that has to wait keeps its fiber and another takes over.
 *
 * One mutex guards everything; it is held while kernels run, so that at most one does at any time. */
#include "internal.h"

#include <algorithm>
#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__has_feature)
#define TP_SHIM_FEATURE(x_) __has_feature(x_)
#else
#define TP_SHIM_FEATURE(x_) 0
#endif
#ifndef TP_SHIM_ASAN /* 1 where this file is compiled without the address sanitizer and the program with it */
#if defined(__SANITIZE_ADDRESS__) || TP_SHIM_FEATURE(address_sanitizer)
#define TP_SHIM_ASAN 1
#else
#define TP_SHIM_ASAN 0
#endif
#endif
#if TP_SHIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__) || TP_SHIM_FEATURE(thread_sanitizer)
#define TP_SHIM_TSAN 1
#include <sanitizer/tsan_interface.h>
#else
#define TP_SHIM_TSAN 0
#endif
/* The scheduler changes lanes without telling the thread sanitizer, which then sees a kernel as its threads' own
 * accesses, ordered by nothing but barriers: its reports are the kernel's races. */
#define NO_TSAN __attribute__((no_sanitize("thread")))

#if !defined(__x86_64__) && !defined(TP_SHIM_UCONTEXT)
#define TP_SHIM_UCONTEXT
#endif
#ifdef TP_SHIM_UCONTEXT
#include <ucontext.h>
#endif

using tp_shim::fault;
using tp_shim::say;

namespace
{
struct Fiber;
}
extern "C" __attribute__((used)) void tp_shim_fiber_main(Fiber *me); /* called by assembly alone */
#ifndef TP_SHIM_UCONTEXT
extern "C" void tp_shim_switch(void **save, void *to);
extern "C" void tp_shim_fiber_start(void);
#endif

/* ==== >>faults ======================================================================================== */

namespace
{
uint64_t seed_of_environment()
{
    const char *s = getenv("TP_SHIM_SEED");
    return s && *s ? strtoull(s, nullptr, 0) : 1;
}
uint64_t the_seed = seed_of_environment(), random_state = the_seed * 0x9e3779b97f4a7c15u | 1u;

NO_TSAN uint32_t random_below(uint32_t n)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    uint64_t r = (random_state * 0x2545f4914f6cdd1du) >> 32;
    return (uint32_t)(r * n >> 32);
}

thread_local char the_sentence[600];
thread_local cudaError_t last_error = cudaSuccess;

/* the sentence is the caller's */
cudaError_t failed(cudaError_t e)
{
    if (e != cudaSuccess) last_error = e;
    return e;
}
} // namespace

void tp_shim::fault(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "tp_shim: ");
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, " (TP_SHIM_SEED=%llu)\n", (unsigned long long)the_seed);
    va_end(ap);
    fflush(stderr);
    abort();
}

void tp_shim::say(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(the_sentence, sizeof the_sentence, fmt, ap);
    va_end(ap);
    if (getenv("TP_SHIM_VERBOSE")) fprintf(stderr, "tp_shim: %s\n", the_sentence);
}

extern "C" const char *tp_shim_sentence(void) { return the_sentence; }
extern "C" void tp_shim_set_seed(uint64_t seed)
{
    the_seed = seed;
    random_state = seed * 0x9e3779b97f4a7c15u | 1u;
}

/* ==== >>fibers ======================================================================================== */

namespace
{
constexpr int MAX_THREADS = 256; /* of a block; the project's rule, CUDA's is 1024 */
constexpr int MAX_SITES = 64;    /* shared arrays of a kernel */
constexpr size_t FIBER_STACK = (size_t)512 << 10;

struct Context {
    void *sp = nullptr; /* x86-64: where the registers are saved; else the ucontext_t */
    const void *stack = nullptr;
    size_t size = 0;
    void *fake_stack = nullptr; /* address sanitizer's */
    void *tsan = nullptr;
};
struct Fiber : Context {
    int lane = -1;
};

Context main_context, *current_context = &main_context, *previous_context;

#ifndef TP_SHIM_UCONTEXT
/* The callee-saved registers go on the stack, the stack pointer to *save; then the same backwards on the other
 * stack. A new fiber's stack looks as if it had been left here. */
__asm__(".text\n"
        ".p2align 4\n"
        ".globl tp_shim_switch\n"
        ".type tp_shim_switch, @function\n"
        "tp_shim_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size tp_shim_switch, .-tp_shim_switch\n"
        ".globl tp_shim_fiber_start\n"
        ".type tp_shim_fiber_start, @function\n"
        "tp_shim_fiber_start:\n"
        "    movq %rbx, %rdi\n"
        "    xorl %ebp, %ebp\n"
        "    call tp_shim_fiber_main\n"
        "    ud2\n"
        ".size tp_shim_fiber_start, .-tp_shim_fiber_start\n");
#endif
/* on the new stack, or back on the old one */
NO_TSAN void arrived(Context *me)
{
#if TP_SHIM_ASAN
    const void *bottom = nullptr;
    size_t size = 0;
    __sanitizer_finish_switch_fiber(me->fake_stack, &bottom, &size);
    if (previous_context == &main_context) main_context.stack = bottom, main_context.size = size;
#else
    (void)me;
#endif
}

NO_TSAN void switch_to(Context *to)
{
    Context *from = current_context;
    previous_context = from;
    current_context = to;
#if TP_SHIM_ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->size);
#endif
#if TP_SHIM_TSAN
    __tsan_switch_to_fiber(to->tsan, __tsan_switch_to_fiber_no_sync);
#endif
#ifdef TP_SHIM_UCONTEXT
    if (!from->sp) from->sp = new ucontext_t; /* the main context; it lives as long as the program */
    swapcontext((ucontext_t *)from->sp, (ucontext_t *)to->sp);
#else
    tp_shim_switch(&from->sp, to->sp);
#endif
    arrived(from);
}

#ifdef TP_SHIM_UCONTEXT
void ucontext_start(unsigned high, unsigned low) { tp_shim_fiber_main((Fiber *)(((uintptr_t)high << 16 << 16) | low)); }
#endif

Fiber *fiber_new()
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *m = (char *)mmap(nullptr, FIBER_STACK + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED || mprotect(m, page, PROT_NONE) != 0) fault("no memory for the stack of a fiber");
    Fiber *f = new Fiber;
    f->stack = m + page; /* below lies the guard page */
    f->size = FIBER_STACK;
#ifdef TP_SHIM_UCONTEXT
    ucontext_t *u = new ucontext_t;
    getcontext(u);
    u->uc_stack.ss_sp = m + page;
    u->uc_stack.ss_size = FIBER_STACK;
    u->uc_link = nullptr;
    uintptr_t p = (uintptr_t)f;
    makecontext(u, (void (*)())ucontext_start, 2, (unsigned)(p >> 16 >> 16), (unsigned)p);
    f->sp = u;
#else
    uintptr_t *top = (uintptr_t *)(void *)(m + page + FIBER_STACK);
    *--top = 0;
    *--top = 0; /* the call of tp_shim_fiber_main finds its stack aligned to 16 */
    *--top = (uintptr_t)&tp_shim_fiber_start;
    *--top = 0;            /* rbp */
    *--top = (uintptr_t)f; /* rbx */
    for (int i = 0; i < 4; i++) *--top = 0;
    f->sp = top;
#endif
#if TP_SHIM_TSAN
    f->tsan = __tsan_create_fiber(0);
#endif
    return f;
}

/* ==== >>blocks ======================================================================================== */

constexpr size_t STATIC_SHARED_LIMIT = 48 << 10, SHARED_LIMIT = 227 << 10;
const char *const wait_names[] = {"__syncthreads",       "__syncthreads_or", "__syncthreads_and",
                                  "__syncthreads_count", "__syncwarp",       "a shuffle",
                                  "__ballot_sync",       "__any_sync",       "__all_sync"};

enum LaneState : uint8_t { FRESH, RUNNING, READY, WAITING, LEFT };
struct Lane {
    LaneState state;
    tp_shim_wait_kind kind;
    int line, source; /* source: the lane a shuffle reads */
    unsigned mask;
    uint64_t value, result;
    Fiber *fiber;
};
struct SharedSite {
    const void *key;
    char *p;
    bool fresh; /* not yet poisoned in this block */
};

/* The launch that runs. Plain globals: the mutex is held, and the fibers take turns on one thread. */
struct Run {
    const tp_shim_kernel *kernel;
    const char *name;
    int n; /* threads of the block */
    size_t dynamic;
    Lane lane[MAX_THREADS];
    int order[MAX_THREADS], next_fresh;
    int ready[MAX_THREADS], n_ready;
    int n_left, now; /* now: the lane that runs */
    int n_arrived, barrier_lane, accumulator;
    int in_warp_wait[MAX_THREADS / 32]; /* lanes of each warp that wait for others of it */
    tp_shim_wait_kind barrier_kind;
    int barrier_line;
    SharedSite site[MAX_SITES];
    int n_sites;
    size_t static_bytes;
} run;
#if !TP_SHIM_TSAN
Fiber *idle[MAX_THREADS]; /* fibers with nothing to do */
int n_idle;
#endif
char dynamic_site;

NO_TSAN std::string clean_name(const char *name)
{
    std::string s = name;
    if (s.size() > 2 && s.front() == '(' && s.back() == ')') s = s.substr(1, s.size() - 2);
    return s;
}
NO_TSAN void where(char *text, size_t size)
{
    const uint3 &b = tp_shim_now.block;
    snprintf(text, size, "kernel %s, block (%u,%u,%u) of %d threads", run.name, b.x, b.y, b.z, run.n);
}
NO_TSAN void state_words(int l, char *text, size_t size)
{
    const Lane &a = run.lane[l];
    if (a.state == LEFT) snprintf(text, size, "thread %d has left the kernel", l);
    else if (a.state != WAITING) snprintf(text, size, "thread %d runs", l);
    else if (a.kind < TP_SHIM_WARP_SYNC)
        snprintf(text, size, "thread %d waits in %s, line %d", l, wait_names[a.kind], a.line);
    else snprintf(text, size, "thread %d waits in %s, line %d, mask 0x%08x", l, wait_names[a.kind], a.line, a.mask);
}

[[noreturn]] NO_TSAN void divergence()
{
    char at[300], first[200], other[200] = "";
    where(at, sizeof at);
    int l = 0, o = -1;
    /* a lane that waits, and one that keeps it waiting */
    while (run.lane[l].state != WAITING) l++;
    const Lane &a = run.lane[l];
    for (int i = 0; i < run.n && o < 0; i++) {
        const Lane &b = run.lane[i];
        bool same = b.state == WAITING && b.kind == a.kind && b.line == a.line && b.mask == a.mask;
        bool named = a.kind < TP_SHIM_WARP_SYNC || (i / 32 == l / 32 && (a.mask >> (i % 32) & 1u));
        if (named && !same) o = i;
    }
    state_words(l, first, sizeof first);
    if (o >= 0) state_words(o, other, sizeof other);
    fault("%s: divergent barrier: %s, while %s", at, first, other);
}

NO_TSAN void set_now(int l)
{
    run.now = l;
    const dim3 &d = tp_shim_now.block_dim;
    unsigned u = (unsigned)l;
    tp_shim_now.thread.x = u % d.x;
    tp_shim_now.thread.y = u / d.x % d.y;
    tp_shim_now.thread.z = u / d.x / d.y;
}

#if TP_SHIM_TSAN
/* Lanes learn what came before the launch from `start`, main what they did from `end`; nothing else orders the lanes
 * of one block or of different ones but barriers and atomics. */
char tsan_start, tsan_end, tsan_barrier[2], tsan_warp[MAX_THREADS / 32][2];
int tsan_epoch, lane_epoch[MAX_THREADS];
bool barrier_parity, warp_parity[MAX_THREADS / 32]; /* change when a barrier is complete */
Fiber *lane_fiber[MAX_THREADS];
#endif

/* the fiber on which a lane starts */
NO_TSAN Fiber *fiber_for(int l)
{
#if TP_SHIM_TSAN
    return lane_fiber[l];
#else
    (void)l;
    return n_idle ? idle[--n_idle] : fiber_new();
#endif
}

/* Whom to run next: one of the lanes that may go on, or one that has not begun. -1: nobody. */
NO_TSAN int choose()
{
    int fresh = run.n - run.next_fresh;
    if (run.n_ready && (!fresh || random_below(2))) {
        int i = (int)random_below((uint32_t)run.n_ready), l = run.ready[i];
        run.ready[i] = run.ready[--run.n_ready];
        return l;
    }
    return fresh ? run.order[run.next_fresh++] : -1;
}

NO_TSAN Context *context_of(int l)
{
    Lane &a = run.lane[l];
    if (a.state == FRESH) {
        Fiber *f = fiber_for(l);
        f->lane = l;
        return f;
    }
    a.state = RUNNING;
    return a.fiber;
}

} // namespace

extern "C" NO_TSAN void tp_shim_fiber_main(Fiber *me)
{
    arrived(me);
    for (;;) {
        int l = me->lane;
        Lane &a = run.lane[l];
        a.state = RUNNING;
        a.fiber = me;
        set_now(l);
#if TP_SHIM_TSAN
        if (lane_epoch[l] != tsan_epoch) __tsan_acquire(&tsan_start), lane_epoch[l] = tsan_epoch;
#endif
        run.kernel->run();
#if TP_SHIM_TSAN
        __tsan_release(&tsan_end);
#endif
        a.state = LEFT;
        run.n_left++;
        int next = choose();
        if (next >= 0 && !TP_SHIM_TSAN && run.lane[next].state == FRESH) {
            me->lane = next;
            continue;
        }
        if (next < 0 && run.n_left < run.n) divergence();
#if !TP_SHIM_TSAN
        idle[n_idle++] = me;
#endif
        switch_to(next < 0 ? &main_context : context_of(next));
    }
}

namespace
{
/* The running lane waits until somebody makes it ready. */
NO_TSAN void give_way()
{
    int l = run.now;
    int next = choose();
    if (next < 0) divergence();
    if (next != l) switch_to(context_of(next));
    run.lane[l].state = RUNNING;
    set_now(l);
}
NO_TSAN void make_ready(int l, uint64_t result)
{
    run.lane[l].state = READY;
    run.lane[l].result = result;
    run.ready[run.n_ready++] = l;
}

#if TP_SHIM_TSAN
/* Shared memory of a block that no other block has had lately: else the sanitizer would take two blocks for one. The
 * system call is not intercepted, so that nobody counts as having written it. When the ring is full, all lanes learn
 * what all have done, and it begins again. */
char *ring;
size_t ring_used;
constexpr size_t RING = (size_t)64 << 20;
NO_TSAN void ring_begin_block()
{
    if (!ring) {
        long m = syscall(SYS_mmap, nullptr, RING, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
        if (m == -1) fault("no memory for shared memory");
        ring = (char *)m;
    }
    if (ring_used + 2 * SHARED_LIMIT < RING) return;
    ring_used = 0;
    __tsan_acquire(&tsan_end);
    __tsan_release(&tsan_start);
    tsan_epoch++;
}
NO_TSAN char *shared_memory(size_t bytes)
{
    char *p = ring + ring_used;
    ring_used += (bytes + 127) / 64 * 64;
    return p;
}
#endif

NO_TSAN void run_block()
{
#if TP_SHIM_TSAN
    ring_begin_block();
#endif
    run.next_fresh = run.n_ready = run.n_left = run.n_arrived = 0;
    run.static_bytes = 0;
    for (int i = 0; i < run.n_sites; i++) run.site[i].fresh = true;
    for (int i = 0; i < run.n; i++) {
        run.lane[i].state = FRESH;
        int j = (int)random_below((uint32_t)i + 1);
        run.order[i] = run.order[j];
        run.order[j] = i;
    }
    switch_to(context_of(run.order[run.next_fresh++]));
}

NO_TSAN void poison(char *p, size_t bytes)
{
#if TP_SHIM_TSAN
    for (volatile char *q = p; bytes; bytes--) *q++ = (char)0xff;
#else
    memset(p, 0xff, bytes);
#endif
}
} // namespace

tp_shim_builtins tp_shim_now;

NO_TSAN void *tp_shim_shared(const void *key, size_t bytes, const char *name)
{
    if (!run.kernel) fault("shared memory '%s' is used outside a kernel", name);
    int i = 0;
    while (i < run.n_sites && run.site[i].key != key) i++;
    SharedSite &s = run.site[i];
    if (i < run.n_sites && !s.fresh) return s.p;
    if (key != &dynamic_site && run.static_bytes + bytes > STATIC_SHARED_LIMIT) {
        fault("kernel %s: '%s' raises its static shared memory to %zu bytes, %zu are the most", run.name, name,
              run.static_bytes + bytes, STATIC_SHARED_LIMIT);
    }
    if (key != &dynamic_site) run.static_bytes += bytes;
    bool known = i < run.n_sites;
    if (!known) {
        if (i == MAX_SITES) fault("kernel %s has more than %d shared arrays", run.name, MAX_SITES);
        run.n_sites++;
    }
    s.key = key;
    s.fresh = false;
#if TP_SHIM_TSAN
    s.p = shared_memory(bytes);
#else
    if (!known) s.p = (char *)malloc(bytes);
    if (!s.p) fault("no memory for '%s'", name);
#endif
    poison(s.p, bytes);
    return s.p;
}
NO_TSAN void *tp_shim_dynamic_shared(void) { return tp_shim_shared(&dynamic_site, run.dynamic, "dynamic"); }

NO_TSAN int tp_shim_sync(tp_shim_wait_kind kind, int predicate, int line)
{
    if (!run.kernel) fault("%s is called outside a kernel", wait_names[kind]);
    int l = run.now;
    Lane &a = run.lane[l];
    if (!run.n_arrived) {
        run.barrier_kind = kind;
        run.barrier_line = line;
        run.barrier_lane = l;
        run.accumulator = kind == TP_SHIM_SYNC_AND;
    } else if (run.barrier_kind != kind || run.barrier_line != line) {
        char at[300];
        where(at, sizeof at);
        fault("%s: divergent barrier: thread %d reaches %s, line %d, while thread %d waits in %s, line %d", at, l,
              wait_names[kind], line, run.barrier_lane, wait_names[run.barrier_kind], run.barrier_line);
    }
    bool p = predicate != 0;
    if (kind == TP_SHIM_SYNC_OR) run.accumulator |= p;
    else if (kind == TP_SHIM_SYNC_AND) run.accumulator &= p;
    else run.accumulator += p;
    a.state = WAITING;
    a.kind = kind;
    a.line = line;
#if TP_SHIM_TSAN
    bool parity = barrier_parity;
    __tsan_release(&tsan_barrier[parity]);
#endif
    if (++run.n_arrived == run.n) {
        run.n_arrived = 0;
#if TP_SHIM_TSAN
        barrier_parity = !barrier_parity;
#endif
        for (int i = 0; i < run.n; i++) make_ready(i, (uint64_t)run.accumulator);
    }
    give_way();
#if TP_SHIM_TSAN
    __tsan_acquire(&tsan_barrier[parity]);
#endif
    return (int)a.result;
}

NO_TSAN static uint64_t warp_wait(tp_shim_wait_kind kind, unsigned mask, uint64_t value, int source, int line)
{
    if (!run.kernel) fault("%s is called outside a kernel", wait_names[kind]);
    int l = run.now, base = l / 32 * 32, in_warp = std::min(32, run.n - base);
    Lane &a = run.lane[l];
    char at[300];
    if (!(mask >> (l - base) & 1u)) {
        where(at, sizeof at);
        fault("%s: thread %d (lane %d) calls %s, line %d, with mask 0x%08x, which does not name it", at, l, l - base,
              wait_names[kind], line, mask);
    }
    if (kind == TP_SHIM_WARP_SHUFFLE && (source >= in_warp || !(mask >> source & 1u))) {
        where(at, sizeof at);
        fault("%s: thread %d (lane %d) reads lane %d in a shuffle, line %d, %s", at, l, l - base, source, line,
              source >= in_warp ? "which this warp does not have" : "which the mask does not name");
    }
    a.state = WAITING;
    a.kind = kind;
    a.line = line;
    a.mask = mask;
    a.value = value;
    a.source = source;
#if TP_SHIM_TSAN
    /* of all, only __syncwarp orders memory */
    bool parity = warp_parity[l / 32];
    if (kind == TP_SHIM_WARP_SYNC) __tsan_release(&tsan_warp[l / 32][parity]);
#endif
    /* the lanes are looked at only when enough of them wait */
    bool all = ++run.in_warp_wait[l / 32] >= __builtin_popcount(in_warp < 32 ? mask & ((1u << in_warp) - 1) : mask);
    unsigned ballot = 0, named = 0;
    for (int i = 0; i < in_warp && all; i++) {
        if (!(mask >> i & 1u)) continue;
        const Lane &b = run.lane[base + i];
        all = b.state == WAITING && b.kind == kind && b.mask == mask && b.line == line;
        named |= 1u << i;
        ballot |= (unsigned)(b.value & 1u) << i;
    }
    if (all) {
#if TP_SHIM_TSAN
        if (kind == TP_SHIM_WARP_SYNC) warp_parity[l / 32] = !warp_parity[l / 32];
#endif
        for (int i = 0; i < in_warp; i++) {
            if (!(mask >> i & 1u)) continue;
            uint64_t result = 0;
            if (kind == TP_SHIM_WARP_SHUFFLE) result = run.lane[base + run.lane[base + i].source].value;
            else if (kind == TP_SHIM_WARP_BALLOT) result = ballot;
            else if (kind == TP_SHIM_WARP_ANY) result = ballot != 0;
            else if (kind == TP_SHIM_WARP_ALL) result = ballot == named;
            make_ready(base + i, result);
            run.in_warp_wait[l / 32]--;
        }
    }
    give_way();
#if TP_SHIM_TSAN
    if (kind == TP_SHIM_WARP_SYNC) __tsan_acquire(&tsan_warp[l / 32][parity]);
#endif
    return a.result;
}
NO_TSAN uint64_t tp_shim_warp(tp_shim_wait_kind kind, unsigned mask, uint64_t value, int line)
{
    return warp_wait(kind, mask, value, 0, line);
}
NO_TSAN uint64_t tp_shim_shuffle_bits(tp_shim_shuffle how, unsigned mask, uint64_t bits, int by, int width, int line)
{
    if (width < 1 || width > 32 || (width & (width - 1))) fault("kernel %s: a shuffle of width %d", run.name, width);
    int lane = run.now % 32, first = lane & ~(width - 1), source = lane;
    switch (how) {
    case TP_SHIM_SHFL: source = first | (by & (width - 1)); break;
    case TP_SHIM_UP: source = by <= lane - first ? lane - by : lane; break;
    case TP_SHIM_DOWN: source = by < width - (lane - first) ? lane + by : lane; break;
    case TP_SHIM_XOR: source = (lane ^ by) < first + width ? lane ^ by : lane; break;
    }
    return warp_wait(TP_SHIM_WARP_SHUFFLE, mask, bits, source, line);
}

namespace
{
/* All blocks of a launch, in an order of its own. */
NO_TSAN void run_grid(const tp_shim_kernel *kernel, const char *name, dim3 grid, dim3 block, size_t dynamic)
{
    run.kernel = kernel;
    run.name = name;
    run.n = (int)(block.x * block.y * block.z);
    run.dynamic = dynamic;
    tp_shim_now.block_dim = block;
    tp_shim_now.grid_dim = grid;
#if TP_SHIM_TSAN
    main_context.tsan = __tsan_get_current_fiber();
    for (int i = 0; i < run.n; i++)
        if (!lane_fiber[i]) lane_fiber[i] = fiber_new();
    tsan_epoch++;
    __tsan_release(&tsan_start);
#endif
    uint64_t n = (uint64_t)grid.x * grid.y * grid.z;
    /* step through them by a stride without a common divisor */
    uint64_t at = random_below((uint32_t)std::min<uint64_t>(n, UINT32_MAX)),
             stride = n > 1 ? 1 + random_below((uint32_t)std::min<uint64_t>(n - 1, 1 << 20)) : 1;
    auto common = [](uint64_t a, uint64_t b) {
        while (b) {
            uint64_t r = a % b;
            a = b;
            b = r;
        }
        return a;
    };
    while (common(stride, n) != 1) stride++;
    for (uint64_t i = 0; i < n; i++, at = (at + stride) % n) {
        tp_shim_now.block.x = (unsigned)(at % grid.x);
        tp_shim_now.block.y = (unsigned)(at / grid.x % grid.y);
        tp_shim_now.block.z = (unsigned)(at / grid.x / grid.y);
        run_block();
    }
#if TP_SHIM_TSAN
    __tsan_acquire(&tsan_end);
#else
    for (int i = 0; i < run.n_sites; i++) free(run.site[i].p);
#endif
    run.n_sites = 0;
    run.kernel = nullptr;
}

/* ==== >>memory ======================================================================================== */

/* One device allocation. Under the address sanitizer its red zones guard it, and the host may not touch it: it is
 * poisoned except while work of its device runs. Else there are guard words around it, looked at after every kernel. */
struct Mark {
    bool done = false;
    double time = 0;
};
struct Block {
    char *base, *p;
    size_t bytes;
    int device;
    bool shown;
    cudaMemPool_t pool = nullptr;
    std::shared_ptr<Mark> born; /* allocated in the order of a stream: not there before */
    bool there() const { return !born || born->done; }
};
struct Queued;
struct Capture;
constexpr int MAX_DEVICES = 8;
} // namespace

/* What it holds counts as used on its device, whether somebody has it or not. */
struct CUmemPoolHandle_st {
    int device = 0;
    uint64_t threshold = 0, used = 0, held = 0, most_used = 0, most_held = 0;
    bool access[MAX_DEVICES] = {};
    long blocks = 0;
};

struct CUgraph_st {
    std::vector<Queued> nodes;
};
struct CUgraphExec_st {
    std::shared_ptr<const std::vector<Queued>> nodes;
};

namespace
{
enum QueuedKind { WORK, HOST_FUNCTION, RECORD, WAIT };
struct Queued {
    QueuedKind kind = WORK;
    std::string name;
    int device = 0; /* whose memory it may touch; -1: any */
    std::function<void()> work;
    std::shared_ptr<Mark> mark;
    std::vector<int> after; /* within a graph */
};
/* What stands in a stream: one node, or those of a graph */
struct Entry {
    std::shared_ptr<const std::vector<Queued>> nodes;
    std::vector<char> done;
    size_t left;
};
struct Capture {
    CUgraph_st *graph;
    cudaStream_t origin;
    std::thread::id thread;
    cudaStreamCaptureMode mode;
    bool invalid = false;
    std::vector<cudaStream_t> streams;
    std::vector<int> removed; /* from a stream's last nodes: nobody has to wait for them */
};
} // namespace

struct CUstream_st {
    int device;
    unsigned flags;
    bool busy = false; /* a thread runs its head with the mutex given back */
    std::deque<Entry> entries;
    std::shared_ptr<Capture> capture;
    std::vector<int> last;             /* capturing: the nodes that the next one comes after */
    std::vector<cudaGraphNode_t> told; /* the same, as cudaStreamGetCaptureInfo gave them */
};
struct CUevent_st {
    int device;
    unsigned flags;
    std::shared_ptr<Mark> mark; /* of the latest record; null before the first */
    std::shared_ptr<Capture> capture;
    std::vector<int> last;
};

namespace
{
constexpr size_t GUARD = 256;

int devices_of_environment()
{
    const char *s = getenv("TP_SHIM_DEVICES");
    return s && *s ? std::max(0, std::min(MAX_DEVICES, atoi(s))) : 2;
}

/* Never destroyed: threads may still run when the program ends. */
struct State {
    std::mutex mutex;
    std::condition_variable host_function_done;
    int n_devices = devices_of_environment();
    size_t memory = (size_t)8 << 30, used[MAX_DEVICES] = {};
    bool peer[MAX_DEVICES][MAX_DEVICES] = {};
    std::map<uintptr_t, Block> blocks;
    std::map<uintptr_t, size_t> pinned;
    std::deque<Block> freed; /* the last ones */
    size_t freed_bytes = 0;
    int shown = -2;                 /* the device whose memory is open; -1: all, -2: none */
    std::set<cudaStream_t> streams; /* the default streams too */
    std::set<cudaEvent_t> events;
    std::set<cudaGraph_t> graphs;
    std::set<cudaGraphExec_t> execs;
    std::set<cudaMemPool_t> pools; /* the devices' own are none of them */
    CUmemPoolHandle_st device_pool[MAX_DEVICES];
    bool with_pools = true;
    int processors = 132;
    std::vector<std::shared_ptr<Capture>> captures;
    cudaStream_t default_stream[MAX_DEVICES] = {};
    std::map<const void *, size_t> dynamic_limit;
    std::map<const void *, std::pair<unsigned, size_t>> launched; /* each kernel's largest block, shared memory */
    std::map<std::string, long> live;
    long launches = 0, graph_launches = 0, graph_nodes = 0, graph_longest = 0, allocations = 0, calls = 0;
    long fail_alloc = 0, fail_call = 0;
    bool struck = false, pump = false;
    State();
};
State &S = *new State;
thread_local int the_device = 0;
thread_local bool in_host_function = false;
typedef std::unique_lock<std::mutex> Lock;

void report_leaks()
{
    char text[400];
    if (tp_shim_live(text, sizeof text)) fprintf(stderr, "tp_shim: still there at exit: %s\n", text);
}
/* TP_SHIM_LAUNCHES=<file>: a line for each kernel that was launched, with its largest block and dynamic shared memory. The kernel is
 * told by its distance from tp_shim_launches, so that nm can name it. */
void list_launches()
{
    FILE *f = fopen(getenv("TP_SHIM_LAUNCHES"), "w");
    if (!f) return;
    for (auto &l : S.launched)
        fprintf(f, "%lld %u %zu\n", (long long)((intptr_t)l.first - (intptr_t)tp_shim_launches), l.second.first,
                l.second.second);
    fclose(f);
}
State::State()
{
    if (getenv("TP_SHIM_LAUNCHES")) atexit(list_launches);
    for (int i = 0; i < n_devices; i++) {
        default_stream[i] = new CUstream_st;
        default_stream[i]->device = i;
        default_stream[i]->flags = 0;
        device_pool[i].device = i;
        streams.insert(default_stream[i]);
    }
    atexit(report_leaks);
}

#if TP_SHIM_ASAN
void block_edges(const Block &b, bool open)
{
    constexpr size_t edge = 4096; /* of a large block only the ends: poisoning takes time */
    auto set = [open](char *p, size_t n) {
        if (open) ASAN_UNPOISON_MEMORY_REGION(p, n);
        else ASAN_POISON_MEMORY_REGION(p, n);
    };
    if (b.bytes <= 2 * edge) set(b.p, b.bytes);
    else {
        set(b.p, edge);
        set(b.p + b.bytes - edge, edge);
    }
}
#else
void block_edges(const Block &, bool) {}
#endif

void show(int device)
{
    if (S.shown == device) return;
    S.shown = device;
    for (auto &entry : S.blocks) {
        Block &b = entry.second;
        bool reached = device >= 0 && (b.pool ? b.pool->access[device] : S.peer[device][b.device]);
        bool open = b.there() && (device == -1 || b.device == device || reached);
        if (open != b.shown) block_edges(b, open);
        b.shown = open;
    }
}

void check_guards(const char *who)
{
#if !TP_SHIM_ASAN
    static const unsigned char *expect = []() {
        unsigned char *e = new unsigned char[GUARD];
        memset(e, 0xa5, GUARD);
        return e;
    }();
    for (const auto &entry : S.blocks) {
        const Block &b = entry.second;
        if (memcmp(b.p - 64, expect, 64) != 0)
            fault("%s wrote before the beginning of a device allocation of %zu bytes", who, b.bytes);
        if (memcmp(b.p + b.bytes, expect, 64) != 0)
            fault("%s wrote beyond the end of a device allocation of %zu bytes", who, b.bytes);
    }
#else
    (void)who;
#endif
}

const Block *block_of(const void *p)
{
    auto i = S.blocks.upper_bound((uintptr_t)p);
    if (i == S.blocks.begin()) return nullptr;
    --i;
    const Block &b = i->second;
    return (uintptr_t)p < (uintptr_t)b.p + b.bytes ? &b : nullptr;
}
bool is_pinned(const void *p)
{
    auto i = S.pinned.upper_bound((uintptr_t)p);
    if (i == S.pinned.begin()) return false;
    --i;
    return (uintptr_t)p < i->first + i->second;
}
bool was_freed(const void *p)
{
    for (const Block &f : S.freed)
        if ((uintptr_t)p >= (uintptr_t)f.p && (uintptr_t)p < (uintptr_t)f.p + f.bytes) return true;
    return false;
}
void check_range(const void *p, size_t bytes, const char *what)
{
    if (!bytes) return;
    const Block *b = block_of(p);
    if (!b) {
        fault("%s: %p is %s", what, p,
              !p             ? "no device memory"
              : is_pinned(p) ? "pinned host memory, where device memory is needed"
              : was_freed(p) ? "device memory that was freed"
                             : "no device memory (a host pointer?)");
    }
    size_t offset = (size_t)((const char *)p - b->p);
    if (bytes > b->bytes - offset)
        fault("%s: %zu bytes at offset %zu of a device allocation of %zu bytes", what, bytes, offset, b->bytes);
}
/* The same when the work runs: streams that do not wait for each other may free memory, or allocate it, too late. */
void check_now(const void *p, const char *what)
{
    const Block *b = block_of(p);
    if (!b) fault("%s: %p was freed before this ran", what, p);
    if (!b->there()) fault("%s: %p runs before the allocation in another stream that it needs", what, p);
}
void check_host(const void *p, size_t bytes, const char *what)
{
    if (!bytes) return;
    if (!p) fault("%s: the host pointer is NULL", what);
    if (block_of(p)) fault("%s: %p is device memory, where host memory is needed", what, p);
    auto i = S.pinned.upper_bound((uintptr_t)p);
    if (i != S.pinned.begin()) {
        --i;
        size_t offset = (size_t)((uintptr_t)p - i->first);
        if (offset < i->second && bytes > i->second - offset)
            fault("%s: %zu bytes at offset %zu of a pinned allocation of %zu bytes", what, bytes, offset, i->second);
    }
}

bool fails(const char *what, bool allocation)
{
    S.calls++;
    if (S.fail_call > 0 && --S.fail_call == 0) {
        S.struck = true;
        say("%s: the test lets this call fail", what);
        return true;
    }
    if (allocation && S.fail_alloc > 0 && --S.fail_alloc == 0) {
        S.struck = true;
        say("%s: the test lets this allocation fail", what);
        return true;
    }
    return false;
}

/* What was freed is kept for a while, so that nothing else lies there; the address sanitizer does that by itself. */
void let_go(const Block &b)
{
#if !TP_SHIM_ASAN
    for (size_t i = 0; i < b.bytes; i++)
        if (b.p[i] != (char)0xff) fault("a device allocation of %zu bytes was written to after it was freed", b.bytes);
    free(b.base);
#else
    (void)b;
#endif
}
void shrink(CUmemPoolHandle_st &pool, uint64_t keep)
{
    keep = std::max(keep, pool.used);
    if (pool.held <= keep) return;
    S.used[pool.device] -= pool.held - keep;
    pool.held = keep;
}
void forget(const Block &b)
{
    Block gone = b;
    check_guards("somebody");
    block_edges(gone, true);
    if (gone.pool) {
        gone.pool->used -= gone.bytes;
        gone.pool->blocks--;
        shrink(*gone.pool, gone.pool->threshold);
    } else S.used[gone.device] -= gone.bytes;
    S.blocks.erase((uintptr_t)gone.p);
#if TP_SHIM_ASAN
    free(gone.base);
#else
    memset(gone.p, 0xff, gone.bytes);
#endif
    S.freed.push_back(gone);
    S.freed_bytes += gone.bytes;
    while (S.freed.size() > 500 || S.freed_bytes > (size_t)64 << 20) {
        let_go(S.freed.front());
        S.freed_bytes -= S.freed.front().bytes;
        S.freed.pop_front();
    }
}

/* ==== >>queues ======================================================================================== */

double seconds()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool node_ready(const Entry &e, size_t i)
{
    if (e.done[i]) return false;
    const Queued &q = (*e.nodes)[i];
    for (int a : q.after)
        if (!e.done[(size_t)a]) return false;
    return q.kind != WAIT || q.mark->done;
}
bool stream_ready(const CUstream_st *s)
{
    if (s->busy || s->entries.empty()) return false;
    const Entry &e = s->entries.front();
    for (size_t i = 0; i < e.done.size(); i++)
        if (node_ready(e, i)) return true;
    return false;
}

/* A GPU has its own floating-point mode, denormals included: not that of the thread which happens to run the queue. */
struct DeviceFloatMode {
#ifdef __SSE__
    unsigned callers = __builtin_ia32_stmxcsr();
    DeviceFloatMode() { __builtin_ia32_ldmxcsr(0x1f80); }
    ~DeviceFloatMode() { __builtin_ia32_ldmxcsr(callers); }
#endif
};

/* One node of the stream's head, a random one of those that may run. */
void step(cudaStream_t s, Lock &lock)
{
    Entry &e = s->entries.front();
    size_t n = e.done.size(), i = random_below((uint32_t)n);
    while (!node_ready(e, i)) i = (i + 1) % n;
    const Queued &q = (*e.nodes)[i];
    switch (q.kind) {
    case WORK: {
        [[maybe_unused]] DeviceFloatMode mode;
        show(q.device);
        q.work();
        if (!S.blocks.empty()) check_guards(q.name.c_str());
        break;
    }
    case HOST_FUNCTION: {
        show(-2);
        s->busy = true;
        std::function<void()> f = q.work;
        lock.unlock();
        in_host_function = true;
        f();
        in_host_function = false;
        lock.lock();
        s->busy = false;
        S.host_function_done.notify_all();
        break;
    }
    case RECORD:
        q.mark->done = true;
        q.mark->time = seconds();
        S.shown = -3; /* memory may be there that was not */
        break;
    case WAIT: break;
    }
    Entry &same = s->entries.front(); /* others may have queued meanwhile */
    same.done[i] = 1;
    if (--same.left == 0) s->entries.pop_front();
}

cudaStream_t any_ready()
{
    cudaStream_t chosen = nullptr;
    uint32_t seen = 0;
    for (cudaStream_t s : S.streams)
        if (stream_ready(s) && random_below(++seen) == 0) chosen = s;
    return chosen;
}

/* Work until `until` holds: by the stream's own work as far as possible, or with that of others in between. */
template <class F> void work_until(Lock &lock, cudaStream_t preferred, F until)
{
    uint32_t wander = random_below(3) * 2; /* of 5 steps, how many go elsewhere */
    while (!until()) {
        cudaStream_t s = preferred && stream_ready(preferred) && random_below(5) >= wander ? preferred : any_ready();
        if (s) step(s, lock);
        else {
            bool busy = false;
            for (cudaStream_t t : S.streams) busy |= t->busy;
            if (!busy) fault("streams wait for each other: nothing can run");
            S.host_function_done.wait(lock);
        }
    }
    show(-2);
}
void drain(Lock &lock, cudaStream_t s)
{
    work_until(lock, s, [s] { return s->entries.empty() && !s->busy; });
}
void drain_device(Lock &lock, int device)
{
    work_until(lock, nullptr, [device] {
        for (cudaStream_t s : S.streams)
            if (s->device == device && (!s->entries.empty() || s->busy)) return false;
        return true;
    });
}
/* A device works while the host goes on: now and then, a little. */
void drift(Lock &lock)
{
    size_t queued = 0;
    for (cudaStream_t s : S.streams) queued += s->entries.size();
    uint32_t n = queued > 256 ? 128 : random_below(8) == 0 ? 1 + random_below(6) : 0;
    if (!n) return;
    for (; n; n--) {
        cudaStream_t s = any_ready();
        if (!s) break;
        step(s, lock);
    }
    show(-2);
}

cudaError_t invalidate_captures(const char *what)
{
    cudaError_t e = cudaSuccess;
    for (auto &c : S.captures) {
        if (c->mode == cudaStreamCaptureModeRelaxed) continue;
        if (c->mode == cudaStreamCaptureModeThreadLocal && c->thread != std::this_thread::get_id()) continue;
        c->invalid = true;
        e = cudaErrorStreamCaptureUnsupported;
    }
    if (e != cudaSuccess) say("%s is not allowed while a stream is captured", what);
    return e;
}

/* The stream meant; NULL with *e set when there is none. */
cudaStream_t stream_of(cudaStream_t s, const char *what, cudaError_t *e)
{
    *e = cudaSuccess;
    if (in_host_function) {
        say("%s is called by a host function", what);
        *e = cudaErrorNotPermitted;
        return nullptr;
    }
    if (!s || s == cudaStreamLegacy || s == cudaStreamPerThread) {
        if (the_device >= S.n_devices) {
            *e = cudaErrorNoDevice;
            return nullptr;
        }
        return S.default_stream[the_device];
    }
    if (!S.streams.count(s)) {
        say("%s: the stream does not exist (any more)", what);
        *e = cudaErrorInvalidResourceHandle;
        return nullptr;
    }
    return s;
}
bool is_default(const CUstream_st *s) { return S.default_stream[s->device] == s; }

cudaError_t enqueue(Lock &lock, cudaStream_t s, Queued q)
{
    if (is_default(s)) {
        for (auto &c : S.captures)
            if (!(c->origin->flags & cudaStreamNonBlocking)) {
                c->invalid = true;
                say("%s: the default stream is used while a blocking stream is captured", q.name.c_str());
                return cudaErrorStreamCaptureImplicit;
            }
        for (cudaStream_t o : S.streams)
            if (o->device == s->device && !(o->flags & cudaStreamNonBlocking)) drain(lock, o);
    }
    if (s->capture) {
        if (s->capture->invalid) {
            say("%s: the capture of this stream has failed already", q.name.c_str());
            return cudaErrorStreamCaptureInvalidated;
        }
        std::vector<Queued> &nodes = s->capture->graph->nodes;
        q.after = s->last;
        s->last.assign(1, (int)nodes.size());
        nodes.push_back(std::move(q));
        return cudaSuccess;
    }
    auto nodes = std::make_shared<std::vector<Queued>>(1, std::move(q));
    s->entries.push_back({nodes, std::vector<char>(1, 0), 1});
    if (is_default(s)) drain(lock, s);
    else drift(lock);
    return cudaSuccess;
}

/* Host functions wake threads that wait for them and call nothing: somebody has to run them. */
void start_pump()
{
    if (S.pump) return;
    S.pump = true;
    std::thread([] {
        for (;;) {
            struct timespec t = {0, 1000000};
            nanosleep(&t, nullptr);
            Lock lock(S.mutex);
            bool wanted = false;
            for (cudaStream_t s : S.streams)
                for (const Entry &e : s->entries)
                    for (const Queued &q : *e.nodes) wanted |= q.kind == HOST_FUNCTION;
            if (!wanted) continue;
            cudaStream_t s = any_ready();
            if (s) {
                step(s, lock);
                show(-2);
            }
        }
    }).detach();
}

/* stream: the allocation takes its turn there, and comes from the pool */
cudaError_t allocate(Lock &lock, void **p, size_t bytes, const char *what, cudaMemPool_t pool = nullptr,
                     cudaStream_t stream = nullptr)
{
    *p = nullptr;
    cudaError_t e = invalidate_captures(what);
    if (e != cudaSuccess) return failed(e);
    if (fails(what, true)) return failed(cudaErrorMemoryAllocation);
    if (the_device >= S.n_devices) return failed(cudaErrorNoDevice);
    if (!bytes) return cudaSuccess;
    Block b;
    b.bytes = bytes;
    b.device = pool ? pool->device : the_device;
    b.pool = pool;
    void *m = nullptr;
    const size_t spare = pool ? pool->held - pool->used : 0, more = bytes > spare ? bytes - spare : 0;
    if (more <= S.memory && S.used[b.device] <= S.memory - more) {
        size_t extra = TP_SHIM_ASAN ? 0 : 2 * GUARD;
        if (posix_memalign(&m, 256, bytes + extra) != 0) m = nullptr;
    }
    if (!m) {
        say("%s: %zu bytes do not fit into the %zu of device %d, of which %zu are used", what, bytes, S.memory,
            b.device, S.used[b.device]);
        return failed(cudaErrorMemoryAllocation);
    }
    b.base = (char *)m;
    b.p = b.base;
#if !TP_SHIM_ASAN
    b.p += GUARD;
    memset(b.p - GUARD, 0xa5, GUARD);
    memset(b.p + bytes, 0xa5, GUARD);
#endif
    memset(b.p, 0xff, bytes);
    block_edges(b, false);
    b.shown = false;
    if (stream) b.born = std::make_shared<Mark>();
    S.blocks[(uintptr_t)b.p] = b;
    S.used[b.device] += more;
    S.allocations++;
    *p = b.p;
    if (!pool) return cudaSuccess;
    pool->used += bytes;
    pool->held += more;
    pool->blocks++;
    pool->most_used = std::max(pool->most_used, pool->used);
    pool->most_held = std::max(pool->most_held, pool->held);
    Queued q;
    q.kind = RECORD;
    q.name = what;
    q.mark = b.born;
    return enqueue(lock, stream, std::move(q));
}

const Block *block_to_free(void *p, const char *what)
{
    auto i = S.blocks.find((uintptr_t)p);
    if (i != S.blocks.end()) return &i->second;
    if (block_of(p)) fault("%s: %p lies inside a device allocation, not at its beginning", what, p);
    if (is_pinned(p)) fault("%s: %p is pinned host memory", what, p);
    if (was_freed(p)) fault("%s: %p was freed already", what, p);
    fault("%s: %p was never allocated on a device", what, p);
}

/* ==== >>copies ======================================================================================== */

struct Copy2d {
    char *dst;
    size_t dst_pitch;
    const char *src;
    size_t src_pitch, width, height;
    size_t dst_span() const { return height ? (height - 1) * dst_pitch + width : 0; }
    size_t src_span() const { return height ? (height - 1) * src_pitch + width : 0; }
    void run() const
    {
        for (size_t i = 0; i < height; i++) memmove(dst + i * dst_pitch, src + i * src_pitch, width);
    }
};

/* `synchronous`: the call returns when the data is there */
cudaError_t copy(Lock &lock, const char *what, Copy2d c, cudaMemcpyKind kind, cudaStream_t stream, bool synchronous)
{
    cudaError_t e;
    cudaStream_t s = stream_of(stream, what, &e);
    if (!s) return failed(e);
    if (synchronous && (e = invalidate_captures(what)) != cudaSuccess) return failed(e);
    if (fails(what, false)) return failed(cudaErrorUnknown);
    if (!c.width || !c.height) return cudaSuccess;
    bool dst_device = block_of(c.dst) != nullptr, src_device = block_of(c.src) != nullptr;
    if (kind == cudaMemcpyDefault)
        kind = dst_device ? (src_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice)
                          : (src_device ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost);
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    char side[120];
    snprintf(side, sizeof side, "%s, destination", what);
    if (to_device) check_range(c.dst, c.dst_span(), side);
    else check_host(c.dst, c.dst_span(), side);
    snprintf(side, sizeof side, "%s, source", what);
    if (from_device) check_range(c.src, c.src_span(), side);
    else check_host(c.src, c.src_span(), side);
    if (c.dst < c.src + c.src_span() && c.src < c.dst + c.dst_span() && c.dst != c.src)
        fault("%s: the source and the destination overlap", what);
    bool pageable = (!to_device && !is_pinned(c.dst)) || (!from_device && !is_pinned(c.src));
    Queued q;
    q.name = what;
    q.device = -1;
    if (pageable && s->capture) {
        s->capture->invalid = true;
        say("%s: a captured copy from or to pageable memory", what);
        return failed(cudaErrorStreamCaptureUnsupported);
    }
    if (!from_device && !is_pinned(c.src)) { /* staged at once: the caller may reuse it */
        auto staged = std::make_shared<std::vector<char>>(c.src, c.src + c.src_span());
        q.work = [c, staged] {
            Copy2d d = c;
            d.src = staged->data();
            d.run();
        };
    } else q.work = [c] { c.run(); };
    q.work = [c, to_device, from_device, what, run = std::move(q.work)] {
        if (to_device) check_now(c.dst, what);
        if (from_device) check_now(c.src, what);
        run();
    };
    e = enqueue(lock, s, std::move(q));
    if (e == cudaSuccess && (synchronous || (!to_device && pageable)) && !s->capture) drain(lock, s);
    return failed(e);
}

cudaError_t fill(Lock &lock, const char *what, void *p, int value, size_t bytes, cudaStream_t stream, bool synchronous)
{
    cudaError_t e;
    cudaStream_t s = stream_of(stream, what, &e);
    if (!s) return failed(e);
    if (synchronous && (e = invalidate_captures(what)) != cudaSuccess) return failed(e);
    if (fails(what, false)) return failed(cudaErrorUnknown);
    if (!bytes) return cudaSuccess;
    check_range(p, bytes, what);
    Queued q;
    q.name = what;
    q.device = -1;
    q.work = [p, value, bytes, what] {
        check_now(p, what);
        memset(p, value, bytes);
    };
    e = enqueue(lock, s, std::move(q));
    if (e == cudaSuccess && synchronous) drain(lock, s);
    return failed(e);
}
} // namespace

/* ==== >>runtime ======================================================================================= */

extern "C" {
long tp_shim_launches(void) { return S.launches; }
long tp_shim_graph_launches(void) { return S.graph_launches; }
void tp_shim_graph_shape(long *nodes, long *longest) { *nodes = S.graph_nodes, *longest = S.graph_longest; }
long tp_shim_allocations(void) { return S.allocations; }
long tp_shim_calls(void) { return S.calls; }
size_t tp_shim_live_bytes(int device) { return device >= 0 && device < MAX_DEVICES ? S.used[device] : 0; }
void tp_shim_fail_alloc_after(long n)
{
    Lock lock(S.mutex);
    S.fail_alloc = n;
    S.struck = false;
}
void tp_shim_fail_call_after(long n)
{
    Lock lock(S.mutex);
    S.fail_call = n;
    S.struck = false;
}
int tp_shim_failed(void) { return S.struck; }
void tp_shim_set_memory(size_t bytes) { S.memory = bytes; }
void tp_shim_set_pools(int supported) { S.with_pools = supported != 0; }
void tp_shim_set_processors(int n) { S.processors = n; }
long tp_shim_live(char *text, size_t size)
{
    Lock lock(S.mutex);
    std::map<std::string, long> all = S.live;
    all["device allocation"] += (long)S.blocks.size();
    all["pinned allocation"] += (long)S.pinned.size();
    all["memory pool"] += (long)S.pools.size();
    all["stream"] += (long)S.streams.size() - S.n_devices;
    all["event"] += (long)S.events.size();
    all["graph"] += (long)S.graphs.size();
    all["executable graph"] += (long)S.execs.size();
    long sum = 0;
    std::string words;
    for (auto &a : all) {
        sum += a.second;
        if (!a.second) continue;
        words += (words.empty() ? "" : ", ") + std::to_string(a.second) + " " + a.first + (a.second == 1 ? "" : "s");
    }
    if (text && size) snprintf(text, size, "%s", words.empty() ? "nothing" : words.c_str());
    return sum;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = S.n_devices;
    return S.n_devices ? cudaSuccess : failed(cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= S.n_devices) {
        say("cudaSetDevice: there is no device %d, there are %d", device, S.n_devices);
        return failed(S.n_devices ? cudaErrorInvalidDevice : cudaErrorNoDevice);
    }
    the_device = device;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device)
{
    *device = the_device;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device)
{
    if (device < 0 || device >= S.n_devices) return failed(cudaErrorInvalidDevice);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "tp shim (looks like an H200)");
    p->totalGlobalMem = S.memory;
    p->sharedMemPerBlock = STATIC_SHARED_LIMIT;
    p->sharedMemPerBlockOptin = SHARED_LIMIT;
    p->sharedMemPerMultiprocessor = 228 << 10;
    p->totalConstMem = 64 << 10;
    p->regsPerBlock = 65536;
    p->warpSize = 32;
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = INT32_MAX;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->major = 9;
    p->minor = 0;
    p->multiProcessorCount = S.processors;
    p->maxThreadsPerMultiProcessor = 2048;
    p->maxBlocksPerMultiProcessor = 32;
    p->l2CacheSize = 50 << 20;
    p->memoryBusWidth = 6144;
    p->asyncEngineCount = 3;
    p->concurrentKernels = p->canMapHostMemory = p->unifiedAddressing = p->ECCEnabled = 1;
    p->pciBusID = device + 1;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device)
{
    cudaDeviceProp p;
    cudaError_t e = cudaGetDeviceProperties(&p, device);
    if (e != cudaSuccess) return e;
    if (!id || size < 13) return failed(cudaErrorInvalidValue);
    snprintf(id, (size_t)size, "0000:%02X:00.0", device + 1);
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attr, int device)
{
    cudaDeviceProp p;
    cudaError_t e = cudaGetDeviceProperties(&p, device);
    if (e != cudaSuccess) return e;
    switch (attr) {
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxGridDimX: *value = p.maxGridSize[0]; break;
    case cudaDevAttrMaxGridDimY: *value = p.maxGridSize[1]; break;
    case cudaDevAttrMaxGridDimZ: *value = p.maxGridSize[2]; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = (int)p.sharedMemPerBlock; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrIntegrated: *value = 0; break;
    case cudaDevAttrConcurrentKernels: *value = 1; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrUnifiedAddressing: *value = 1; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = (int)p.sharedMemPerMultiprocessor; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = (int)p.sharedMemPerBlockOptin; break;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *value = p.maxBlocksPerMultiProcessor; break;
    case cudaDevAttrMemoryPoolsSupported: *value = S.with_pools; break;
    default:
        say("cudaDeviceGetAttribute: the shim does not know attribute %d", (int)attr);
        return failed(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void)
{
    Lock lock(S.mutex);
    cudaError_t e;
    if (!stream_of(nullptr, "cudaDeviceSynchronize", &e)) return failed(e);
    if ((e = invalidate_captures("cudaDeviceSynchronize")) != cudaSuccess) return failed(e);
    if (fails("cudaDeviceSynchronize", false)) return failed(cudaErrorUnknown);
    drain_device(lock, the_device);
    return cudaSuccess;
}
cudaError_t cudaDeviceReset(void) { return cudaDeviceSynchronize(); }
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    if (device < 0 || peer < 0 || device >= S.n_devices || peer >= S.n_devices) return failed(cudaErrorInvalidDevice);
    *can = device != peer;
    return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    Lock lock(S.mutex);
    if (flags) return failed(cudaErrorInvalidValue);
    if (peer < 0 || peer >= S.n_devices || peer == the_device) return failed(cudaErrorInvalidDevice);
    if (S.peer[the_device][peer]) return failed(cudaErrorPeerAccessAlreadyEnabled);
    S.peer[the_device][peer] = true;
    return cudaSuccess;
}
cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
    Lock lock(S.mutex);
    if (peer < 0 || peer >= S.n_devices) return failed(cudaErrorInvalidDevice);
    if (!S.peer[the_device][peer]) return failed(cudaErrorPeerAccessNotEnabled);
    S.peer[the_device][peer] = false;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaGetLastError(void)
{
    cudaError_t e = last_error;
    last_error = cudaSuccess;
    return e;
}
cudaError_t cudaPeekAtLastError(void) { return last_error; }

struct ErrorName {
    cudaError_t e;
    const char *name, *text;
};
static const ErrorName error_names[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidDevicePointer, "cudaErrorInvalidDevicePointer", "invalid device pointer"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported", "peer access is not supported"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {cudaErrorPeerAccessNotEnabled, "cudaErrorPeerAccessNotEnabled", "peer access has not been enabled"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge", "operation would merge two captures"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched", "the capture was not begun on this stream"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capture"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to end a capture from another thread than it was begun"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};
const char *cudaGetErrorString(cudaError_t e)
{
    for (const ErrorName &n : error_names)
        if (n.e == e) return n.text;
    return "unrecognized error code";
}
const char *cudaGetErrorName(cudaError_t e)
{
    for (const ErrorName &n : error_names)
        if (n.e == e) return n.name;
    return "unrecognized error code";
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    Lock lock(S.mutex);
    return allocate(lock, p, bytes, "cudaMalloc");
}
cudaError_t cudaMallocAsync(void **p, size_t bytes, cudaStream_t stream)
{
    Lock lock(S.mutex);
    cudaError_t e;
    *p = nullptr;
    cudaStream_t s = stream_of(stream, "cudaMallocAsync", &e);
    if (!s) return failed(e);
    return failed(allocate(lock, p, bytes, "cudaMallocAsync", &S.device_pool[s->device], s));
}
static bool pool_ok(cudaMemPool_t pool, const char *what)
{
    if (S.pools.count(pool)) return true;
    say("%s: the pool does not exist (any more)", what);
    return false;
}
cudaError_t cudaMallocFromPoolAsync(void **p, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)
{
    Lock lock(S.mutex);
    cudaError_t e;
    *p = nullptr;
    cudaStream_t s = stream_of(stream, "cudaMallocFromPoolAsync", &e);
    if (!s) return failed(e);
    if (!pool_ok(pool, "cudaMallocFromPoolAsync")) return failed(cudaErrorInvalidValue);
    if (s->device != pool->device) {
        say("cudaMallocFromPoolAsync: the pool is of device %d, the stream of device %d", pool->device, s->device);
        return failed(cudaErrorInvalidValue);
    }
    return failed(allocate(lock, p, bytes, "cudaMallocFromPoolAsync", pool, s));
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const cudaMemPoolProps *props)
{
    Lock lock(S.mutex);
    *pool = nullptr;
    if (!S.with_pools) return failed(cudaErrorNotSupported);
    if (fails("cudaMemPoolCreate", false)) return failed(cudaErrorUnknown);
    const unsigned char zero[sizeof props->reserved] = {};
    if (props->allocType != cudaMemAllocationTypePinned || props->location.type != cudaMemLocationTypeDevice ||
        props->location.id < 0 || props->location.id >= S.n_devices || props->win32SecurityAttributes ||
        memcmp(props->reserved, zero, sizeof zero) != 0) {
        say("cudaMemPoolCreate: properties that make no pool of a device");
        return failed(cudaErrorInvalidValue);
    }
    *pool = new CUmemPoolHandle_st;
    (*pool)->device = props->location.id;
    (*pool)->access[props->location.id] = true;
    S.pools.insert(*pool);
    return cudaSuccess;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
    Lock lock(S.mutex);
    if (!pool_ok(pool, "cudaMemPoolDestroy")) return failed(cudaErrorInvalidValue);
    drain_device(lock, pool->device);
    if (pool->blocks) fault("cudaMemPoolDestroy: %ld allocations of the pool were not freed", pool->blocks);
    shrink(*pool, 0);
    S.pools.erase(pool);
    delete pool;
    return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
    Lock lock(S.mutex);
    if (!pool_ok(pool, "cudaMemPoolTrimTo")) return failed(cudaErrorInvalidValue);
    shrink(*pool, keep);
    return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attr, void *value)
{
    Lock lock(S.mutex);
    if (!pool_ok(pool, "cudaMemPoolSetAttribute")) return failed(cudaErrorInvalidValue);
    if (fails("cudaMemPoolSetAttribute", false)) return failed(cudaErrorUnknown);
    const uint64_t v = *(uint64_t *)value;
    if (attr == cudaMemPoolAttrReleaseThreshold) pool->threshold = v;
    else if (attr == cudaMemPoolAttrUsedMemHigh && !v) pool->most_used = pool->used;
    else if (attr == cudaMemPoolAttrReservedMemHigh && !v) pool->most_held = pool->held;
    else return failed(cudaErrorInvalidValue);
    return cudaSuccess;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attr, void *value)
{
    Lock lock(S.mutex);
    if (!pool_ok(pool, "cudaMemPoolGetAttribute")) return failed(cudaErrorInvalidValue);
    uint64_t *v = (uint64_t *)value;
    switch (attr) {
    case cudaMemPoolAttrReleaseThreshold: *v = pool->threshold; break;
    case cudaMemPoolAttrReservedMemCurrent: *v = pool->held; break;
    case cudaMemPoolAttrReservedMemHigh: *v = pool->most_held; break;
    case cudaMemPoolAttrUsedMemCurrent: *v = pool->used; break;
    case cudaMemPoolAttrUsedMemHigh: *v = pool->most_used; break;
    default: return failed(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc *list, size_t count)
{
    Lock lock(S.mutex);
    if (!pool_ok(pool, "cudaMemPoolSetAccess")) return failed(cudaErrorInvalidValue);
    if (fails("cudaMemPoolSetAccess", false)) return failed(cudaErrorUnknown);
    for (size_t i = 0; i < count; i++) {
        const int id = list[i].location.id;
        if (list[i].location.type != cudaMemLocationTypeDevice || id < 0 || id >= S.n_devices)
            return failed(cudaErrorInvalidDevice);
        if (id == pool->device && list[i].flags == cudaMemAccessFlagsProtNone) return failed(cudaErrorInvalidValue);
        pool->access[id] = list[i].flags != cudaMemAccessFlagsProtNone;
    }
    S.shown = -3;
    return cudaSuccess;
}
cudaError_t cudaFree(void *p)
{
    Lock lock(S.mutex);
    cudaError_t e;
    if (!stream_of(nullptr, "cudaFree", &e)) return failed(e);
    if (!p) return cudaSuccess;
    if ((e = invalidate_captures("cudaFree")) != cudaSuccess) return failed(e);
    const Block *b = block_to_free(p, "cudaFree");
    drain_device(lock, b->device); /* as CUDA does */
    forget(*block_to_free(p, "cudaFree"));
    return cudaSuccess;
}
cudaError_t cudaFreeAsync(void *p, cudaStream_t stream)
{
    Lock lock(S.mutex);
    cudaError_t e;
    cudaStream_t s = stream_of(stream, "cudaFreeAsync", &e);
    if (!s) return failed(e);
    if (!p) return cudaSuccess;
    if ((e = invalidate_captures("cudaFreeAsync")) != cudaSuccess) return failed(e);
    block_to_free(p, "cudaFreeAsync");
    Queued q;
    q.name = "cudaFreeAsync";
    q.device = -1;
    q.work = [p] {
        const Block *b = block_to_free(p, "cudaFreeAsync");
        if (!b->there()) fault("cudaFreeAsync: %p runs before the allocation in another stream", p);
        forget(*b);
    };
    return failed(enqueue(lock, s, std::move(q)));
}
cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned)
{
    Lock lock(S.mutex);
    *p = nullptr;
    cudaError_t e;
    if (!stream_of(nullptr, "cudaHostAlloc", &e)) return failed(e);
    if ((e = invalidate_captures("cudaHostAlloc")) != cudaSuccess) return failed(e);
    if (fails("cudaHostAlloc", true)) return failed(cudaErrorMemoryAllocation);
    if (!bytes) return cudaSuccess;
    if (bytes > S.memory || posix_memalign(p, 256, bytes) != 0) {
        *p = nullptr;
        say("cudaHostAlloc: no memory for %zu bytes", bytes);
        return failed(cudaErrorMemoryAllocation);
    }
    memset(*p, 0xff, bytes);
    S.pinned[(uintptr_t)*p] = bytes;
    S.allocations++;
    return cudaSuccess;
}
cudaError_t cudaMallocHost(void **p, size_t bytes) { return cudaHostAlloc(p, bytes, 0); }
cudaError_t cudaFreeHost(void *p)
{
    Lock lock(S.mutex);
    cudaError_t e;
    if (!stream_of(nullptr, "cudaFreeHost", &e)) return failed(e);
    if (!p) return cudaSuccess;
    if ((e = invalidate_captures("cudaFreeHost")) != cudaSuccess) return failed(e);
    if (!S.pinned.count((uintptr_t)p)) fault("cudaFreeHost: %p is no pinned allocation (freed already?)", p);
    for (int i = 0; i < S.n_devices; i++) drain_device(lock, i);
    S.pinned.erase((uintptr_t)p);
    free(p);
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    Lock lock(S.mutex);
    if (the_device >= S.n_devices) return failed(cudaErrorNoDevice);
    *total = S.memory;
    *free_bytes = S.memory - std::min(S.memory, S.used[the_device]);
    return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *a, const void *p)
{
    Lock lock(S.mutex);
    memset(a, 0, sizeof *a);
    const Block *b = block_of(p);
    a->type = b ? cudaMemoryTypeDevice : is_pinned(p) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    a->device = b ? b->device : the_device;
    a->devicePointer = b ? const_cast<void *>(p) : nullptr;
    a->hostPointer = b ? nullptr : const_cast<void *>(p);
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind)
{
    Lock lock(S.mutex);
    return copy(lock, "cudaMemcpy", {(char *)dst, bytes, (const char *)src, bytes, bytes, 1}, kind, nullptr, true);
}
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind, cudaStream_t s)
{
    Lock lock(S.mutex);
    return copy(lock, "cudaMemcpyAsync", {(char *)dst, bytes, (const char *)src, bytes, bytes, 1}, kind, s, false);
}
cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t s)
{
    Lock lock(S.mutex);
    if (width > dst_pitch || width > src_pitch) return failed(cudaErrorInvalidValue);
    return copy(lock, "cudaMemcpy2DAsync", {(char *)dst, dst_pitch, (const char *)src, src_pitch, width, height}, kind,
                s, false);
}
static void check_peers(const void *dst, int dst_device, const void *src, int src_device)
{
    const Block *d = block_of(dst), *s = block_of(src);
    if (d && d->device != dst_device)
        fault("cudaMemcpyPeerAsync: the destination is on device %d, not %d", d->device, dst_device);
    if (s && s->device != src_device)
        fault("cudaMemcpyPeerAsync: the source is on device %d, not %d", s->device, src_device);
}
cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device, size_t bytes,
                                cudaStream_t s)
{
    Lock lock(S.mutex);
    check_peers(dst, dst_device, src, src_device);
    return copy(lock, "cudaMemcpyPeerAsync", {(char *)dst, bytes, (const char *)src, bytes, bytes, 1},
                cudaMemcpyDeviceToDevice, s, false);
}
cudaError_t cudaMemcpyPeer(void *dst, int dst_device, const void *src, int src_device, size_t bytes)
{
    Lock lock(S.mutex);
    check_peers(dst, dst_device, src, src_device);
    return copy(lock, "cudaMemcpyPeer", {(char *)dst, bytes, (const char *)src, bytes, bytes, 1},
                cudaMemcpyDeviceToDevice, nullptr, true);
}
cudaError_t cudaMemset(void *p, int value, size_t bytes)
{
    Lock lock(S.mutex);
    return fill(lock, "cudaMemset", p, value, bytes, nullptr, true);
}
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s)
{
    Lock lock(S.mutex);
    return fill(lock, "cudaMemsetAsync", p, value, bytes, s, false);
}

/* ==== >>streams ======================================================================================= */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    Lock lock(S.mutex);
    *out = nullptr;
    cudaError_t e;
    if (!stream_of(nullptr, "cudaStreamCreate", &e)) return failed(e);
    if (fails("cudaStreamCreate", false)) return failed(cudaErrorUnknown);
    if (flags > cudaStreamNonBlocking) return failed(cudaErrorInvalidValue);
    cudaStream_t s = new CUstream_st;
    s->device = the_device;
    s->flags = flags;
    S.streams.insert(s);
    *out = s;
    return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t *s) { return cudaStreamCreateWithFlags(s, 0); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int)
{
    return cudaStreamCreateWithFlags(s, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    Lock lock(S.mutex);
    cudaError_t e;
    cudaStream_t real = stream_of(s, "cudaStreamDestroy", &e);
    if (!real || is_default(real)) return failed(cudaErrorInvalidResourceHandle);
    if (s->capture) {
        s->capture->invalid = true;
        auto &all = s->capture->streams;
        all.erase(std::remove(all.begin(), all.end(), s), all.end());
        if (s->capture->origin == s) {
            for (cudaStream_t o : all) o->capture.reset();
            delete s->capture->graph;
            S.captures.erase(std::remove(S.captures.begin(), S.captures.end(), s->capture), S.captures.end());
        }
    }
    drain(lock, s);
    S.streams.erase(s);
    delete s;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    Lock lock(S.mutex);
    cudaError_t e;
    cudaStream_t s = stream_of(stream, "cudaStreamSynchronize", &e);
    if (!s) return failed(e);
    if ((e = invalidate_captures("cudaStreamSynchronize")) != cudaSuccess) return failed(e);
    if (fails("cudaStreamSynchronize", false)) return failed(cudaErrorUnknown);
    drain(lock, s);
    return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    Lock lock(S.mutex);
    cudaError_t e;
    cudaStream_t s = stream_of(stream, "cudaStreamQuery", &e);
    if (!s) return failed(e);
    if ((e = invalidate_captures("cudaStreamQuery")) != cudaSuccess) return failed(e);
    if (s->entries.empty() && !s->busy) return cudaSuccess;
    cudaStream_t o = any_ready(); /* who asks again and again gets there */
    if (o) step(o, lock);
    show(-2);
    return cudaErrorNotReady;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *user)
{
    Lock lock(S.mutex);
    cudaError_t e;
    cudaStream_t s = stream_of(stream, "cudaLaunchHostFunc", &e);
    if (!s) return failed(e);
    if (fails("cudaLaunchHostFunc", false)) return failed(cudaErrorUnknown);
    start_pump();
    Queued q;
    q.kind = HOST_FUNCTION;
    q.name = "a host function";
    q.work = [fn, user] { fn(user); };
    return failed(enqueue(lock, s, std::move(q)));
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    Lock lock(S.mutex);
    *out = nullptr;
    cudaError_t err;
    if (!stream_of(nullptr, "cudaEventCreate", &err)) return failed(err);
    if (fails("cudaEventCreate", false)) return failed(cudaErrorUnknown);
    cudaEvent_t e = new CUevent_st;
    e->device = the_device;
    e->flags = flags;
    S.events.insert(e);
    *out = e;
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *e) { return cudaEventCreateWithFlags(e, 0); }
static bool event_ok(cudaEvent_t e, const char *what)
{
    if (S.events.count(e)) return true;
    say("%s: the event does not exist (any more)", what);
    return false;
}
cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    Lock lock(S.mutex);
    if (!event_ok(e, "cudaEventDestroy")) return failed(cudaErrorInvalidResourceHandle);
    S.events.erase(e);
    delete e;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t stream)
{
    Lock lock(S.mutex);
    cudaError_t err;
    cudaStream_t s = stream_of(stream, "cudaEventRecord", &err);
    if (!s) return failed(err);
    if (!event_ok(e, "cudaEventRecord")) return failed(cudaErrorInvalidResourceHandle);
    if (fails("cudaEventRecord", false)) return failed(cudaErrorUnknown);
    if (e->device != s->device) {
        say("cudaEventRecord: the event is of device %d, the stream of device %d", e->device, s->device);
        return failed(cudaErrorInvalidResourceHandle);
    }
    if (s->capture) {
        if (s->capture->invalid) return failed(cudaErrorStreamCaptureInvalidated);
        e->capture = s->capture;
        e->last = s->last;
        return cudaSuccess;
    }
    e->capture.reset();
    e->mark = std::make_shared<Mark>();
    Queued q;
    q.kind = RECORD;
    q.name = "cudaEventRecord";
    q.mark = e->mark;
    return failed(enqueue(lock, s, std::move(q)));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t e, unsigned)
{
    Lock lock(S.mutex);
    cudaError_t err;
    cudaStream_t s = stream_of(stream, "cudaStreamWaitEvent", &err);
    if (!s) return failed(err);
    if (!event_ok(e, "cudaStreamWaitEvent")) return failed(cudaErrorInvalidResourceHandle);
    if (fails("cudaStreamWaitEvent", false)) return failed(cudaErrorUnknown);
    if (e->capture) {
        if (e->capture->invalid) return failed(cudaErrorStreamCaptureInvalidated);
        if (is_default(s)) return failed(cudaErrorStreamCaptureImplicit);
        if (s->capture && s->capture != e->capture) {
            s->capture->invalid = e->capture->invalid = true;
            say("cudaStreamWaitEvent would merge two captures");
            return failed(cudaErrorStreamCaptureMerge);
        }
        if (!s->capture) { /* the stream joins */
            s->capture = e->capture;
            s->last.clear();
            e->capture->streams.push_back(s);
        }
        for (int i : e->last)
            if (std::find(s->last.begin(), s->last.end(), i) == s->last.end()) s->last.push_back(i);
        return cudaSuccess;
    }
    if (s->capture) {
        s->capture->invalid = true;
        say("cudaStreamWaitEvent: a captured stream waits for an event of outside");
        return failed(cudaErrorStreamCaptureIsolation);
    }
    if (!e->mark) return cudaSuccess;
    Queued q;
    q.kind = WAIT;
    q.name = "cudaStreamWaitEvent";
    q.mark = e->mark;
    return failed(enqueue(lock, s, std::move(q)));
}
static cudaError_t event_usable(cudaEvent_t e, const char *what)
{
    if (!event_ok(e, what)) return cudaErrorInvalidResourceHandle;
    if (in_host_function) return cudaErrorNotPermitted;
    cudaError_t err = invalidate_captures(what);
    if (err != cudaSuccess) return err;
    return e->capture ? cudaErrorCapturedEvent : cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t e)
{
    Lock lock(S.mutex);
    cudaError_t err = event_usable(e, "cudaEventQuery");
    if (err != cudaSuccess) return failed(err);
    if (!e->mark || e->mark->done) return cudaSuccess;
    cudaStream_t s = any_ready();
    if (s) step(s, lock);
    show(-2);
    return cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    Lock lock(S.mutex);
    cudaError_t err = event_usable(e, "cudaEventSynchronize");
    if (err != cudaSuccess) return failed(err);
    if (fails("cudaEventSynchronize", false)) return failed(cudaErrorUnknown);
    std::shared_ptr<Mark> m = e->mark;
    if (m) work_until(lock, nullptr, [&m] { return m->done; });
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b)
{
    Lock lock(S.mutex);
    cudaError_t err = event_usable(a, "cudaEventElapsedTime");
    if (err == cudaSuccess) err = event_usable(b, "cudaEventElapsedTime");
    if (err != cudaSuccess) return failed(err);
    if (!a->mark || !b->mark || ((a->flags | b->flags) & cudaEventDisableTiming))
        return failed(cudaErrorInvalidResourceHandle);
    if (!a->mark->done || !b->mark->done) return failed(cudaErrorNotReady);
    *ms = (float)((b->mark->time - a->mark->time) * 1e3);
    return cudaSuccess;
}

/* ==== >>graphs ======================================================================================== */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    Lock lock(S.mutex);
    cudaError_t e;
    cudaStream_t s = stream_of(stream, "cudaStreamBeginCapture", &e);
    if (!s) return failed(e);
    if (fails("cudaStreamBeginCapture", false)) return failed(cudaErrorUnknown);
    if (is_default(s)) {
        say("cudaStreamBeginCapture: the default stream cannot be captured");
        return failed(cudaErrorStreamCaptureUnsupported);
    }
    if (s->capture) {
        say("cudaStreamBeginCapture: the stream is being captured");
        return failed(cudaErrorInvalidValue);
    }
    auto c = std::make_shared<Capture>();
    c->graph = new CUgraph_st;
    c->origin = s;
    c->thread = std::this_thread::get_id();
    c->mode = mode;
    c->streams.push_back(s);
    s->capture = c;
    s->last.clear();
    S.captures.push_back(c);
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    Lock lock(S.mutex);
    *graph = nullptr;
    cudaError_t e;
    cudaStream_t s = stream_of(stream, "cudaStreamEndCapture", &e);
    if (!s) return failed(e);
    std::shared_ptr<Capture> c = s->capture;
    if (!c) {
        say("cudaStreamEndCapture: the stream is not being captured");
        return failed(cudaErrorInvalidValue);
    }
    if (c->origin != s) {
        c->invalid = true;
        say("cudaStreamEndCapture: the capture was begun on another stream");
        return failed(cudaErrorStreamCaptureUnmatched);
    }
    if (c->mode != cudaStreamCaptureModeRelaxed && c->thread != std::this_thread::get_id()) {
        say("cudaStreamEndCapture: the capture was begun by another thread");
        return failed(cudaErrorStreamCaptureWrongThread);
    }
    /* the ends of all joined streams must have come back to this one */
    std::vector<char> reached(c->graph->nodes.size(), 0);
    for (int i : s->last) reached[(size_t)i] = 1;
    for (int i : c->removed) reached[(size_t)i] = 1;
    for (size_t i = reached.size(); i-- > 0;)
        if (reached[i])
            for (int a : c->graph->nodes[i].after) reached[(size_t)a] = 1;
    bool unjoined = std::find(reached.begin(), reached.end(), 0) != reached.end();
    for (cudaStream_t o : c->streams) {
        o->capture.reset();
        o->last.clear();
    }
    S.captures.erase(std::remove(S.captures.begin(), S.captures.end(), c), S.captures.end());
    e = cudaSuccess;
    bool invalid = c->invalid;
    c->invalid = true; /* for events that still name it */
    if (invalid) {
        e = cudaErrorStreamCaptureInvalidated;
        say("cudaStreamEndCapture: something in between was not allowed in a capture");
    } else if (unjoined) {
        e = cudaErrorStreamCaptureUnjoined;
        say("cudaStreamEndCapture: work of another captured stream is waited for by nobody");
    } else if (fails("cudaStreamEndCapture", false)) e = cudaErrorUnknown;
    if (e != cudaSuccess) {
        delete c->graph;
        return failed(e);
    }
    S.graphs.insert(c->graph);
    *graph = c->graph;
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status)
{
    Lock lock(S.mutex);
    cudaError_t e;
    cudaStream_t s = stream_of(stream, "cudaStreamIsCapturing", &e);
    if (!s) return failed(e);
    *status = !s->capture           ? cudaStreamCaptureStatusNone
              : s->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                    : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *,
                                     cudaGraph_t *, const cudaGraphNode_t **nodes, const cudaGraphEdgeData **,
                                     size_t *n)
{
    cudaError_t e = cudaStreamIsCapturing(stream, status);
    Lock lock(S.mutex);
    if (e != cudaSuccess || *status != cudaStreamCaptureStatusActive) return e;
    cudaStream_t s = stream_of(stream, "cudaStreamGetCaptureInfo", &e);
    if (fails("cudaStreamGetCaptureInfo", false)) return failed(cudaErrorUnknown);
    s->told.clear();
    for (int i : s->last) s->told.push_back((cudaGraphNode_t)(uintptr_t)(i + 1));
    *nodes = s->told.data();
    *n = s->told.size();
    return cudaSuccess;
}
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *nodes, const cudaGraphEdgeData *,
                                                size_t n, unsigned flags)
{
    Lock lock(S.mutex);
    cudaError_t e;
    cudaStream_t s = stream_of(stream, "cudaStreamUpdateCaptureDependencies", &e);
    if (!s) return failed(e);
    if (fails("cudaStreamUpdateCaptureDependencies", false)) return failed(cudaErrorUnknown);
    if (!s->capture || s->capture->invalid) {
        say("cudaStreamUpdateCaptureDependencies: the stream is not being captured");
        return failed(cudaErrorIllegalState);
    }
    if (flags == cudaStreamSetCaptureDependencies) {
        s->capture->removed.insert(s->capture->removed.end(), s->last.begin(), s->last.end());
        s->last.clear();
    }
    for (size_t i = 0; i < n; i++) {
        const int node = (int)(uintptr_t)nodes[i] - 1;
        if (node < 0 || (size_t)node >= s->capture->graph->nodes.size()) {
            say("cudaStreamUpdateCaptureDependencies: node %d is none of this capture", node);
            return failed(cudaErrorInvalidValue);
        }
        if (std::find(s->last.begin(), s->last.end(), node) == s->last.end()) s->last.push_back(node);
    }
    return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode)
{
    /* the captures carry their mode; a thread's own is only kept */
    static thread_local cudaStreamCaptureMode mine = cudaStreamCaptureModeGlobal;
    std::swap(mine, *mode);
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    Lock lock(S.mutex);
    if (!S.graphs.erase(g)) fault("cudaGraphDestroy: no such graph (destroyed already?)");
    delete g;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g)
{
    Lock lock(S.mutex);
    if (!S.execs.erase(g)) fault("cudaGraphExecDestroy: no such executable graph (destroyed already?)");
    delete g; /* what is queued keeps the nodes */
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t g, cudaStream_t stream)
{
    Lock lock(S.mutex);
    cudaError_t e;
    cudaStream_t s = stream_of(stream, "cudaGraphLaunch", &e);
    if (!s) return failed(e);
    if (!S.execs.count(g)) return failed(cudaErrorInvalidValue);
    if (fails("cudaGraphLaunch", false)) return failed(cudaErrorUnknown);
    if (s->capture) {
        s->capture->invalid = true;
        say("cudaGraphLaunch: the shim records no graph within a graph");
        return failed(cudaErrorStreamCaptureUnsupported);
    }
    if (is_default(s))
        for (cudaStream_t o : S.streams)
            if (o->device == s->device && !(o->flags & cudaStreamNonBlocking)) drain(lock, o);
    S.graph_launches++;
    if (g->nodes->empty()) return cudaSuccess;
    s->entries.push_back({g->nodes, std::vector<char>(g->nodes->size(), 0), g->nodes->size()});
    if (is_default(s)) drain(lock, s);
    else drift(lock);
    return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t g, cudaStream_t)
{
    Lock lock(S.mutex);
    return S.execs.count(g) ? cudaSuccess : failed(cudaErrorInvalidValue);
}
cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *nodes, size_t *n)
{
    Lock lock(S.mutex);
    if (!S.graphs.count(g) || nodes) return failed(cudaErrorInvalidValue); /* counts them only */
    *n = g->nodes.size();
    return cudaSuccess;
}
} /* extern "C" */

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t g, unsigned long long)
{
    Lock lock(S.mutex);
    *out = nullptr;
    if (!S.graphs.count(g)) return failed(cudaErrorInvalidValue);
    if (fails("cudaGraphInstantiate", false)) return failed(cudaErrorUnknown);
    cudaGraphExec_t e = new CUgraphExec_st;
    e->nodes = std::make_shared<const std::vector<Queued>>(g->nodes);
    std::vector<long> path(g->nodes.size(), 1); /* nodes on the longest path that ends with this one */
    S.graph_nodes = (long)path.size(), S.graph_longest = 0;
    for (size_t i = 0; i < path.size(); i++) {
        for (int a : g->nodes[i].after) path[i] = std::max(path[i], path[(size_t)a] + 1);
        S.graph_longest = std::max(S.graph_longest, path[i]);
    }
    S.execs.insert(e);
    *out = e;
    return cudaSuccess;
}

/* ==== >>launches ====================================================================================== */

cudaError_t tp_shim_func_set_attribute(const void *fn, cudaFuncAttribute attr, int value)
{
    Lock lock(S.mutex);
    if (fails("cudaFuncSetAttribute", false)) return failed(cudaErrorUnknown);
    if (attr != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || (size_t)value > SHARED_LIMIT) {
        say("cudaFuncSetAttribute: %d bytes of dynamic shared memory, %zu are the most", value, SHARED_LIMIT);
        return failed(cudaErrorInvalidValue);
    }
    S.dynamic_limit[fn] = (size_t)value;
    return cudaSuccess;
}
cudaError_t tp_shim_func_get_attributes(cudaFuncAttributes *a, const void *fn)
{
    Lock lock(S.mutex);
    memset(a, 0, sizeof *a);
    auto i = S.dynamic_limit.find(fn);
    a->maxThreadsPerBlock = MAX_THREADS;
    a->numRegs = 32;
    a->maxDynamicSharedSizeBytes = (int)(i == S.dynamic_limit.end() ? STATIC_SHARED_LIMIT : i->second);
    return cudaSuccess;
}
cudaError_t tp_shim_occupancy(int *blocks, int threads, size_t dynamic_shared)
{
    if (threads < 1 || threads > 1024) return failed(cudaErrorInvalidValue);
    size_t by_shared = dynamic_shared ? SHARED_LIMIT / dynamic_shared : 32;
    *blocks = (int)std::min<size_t>({(size_t)(2048 / ((threads + 31) / 32 * 32)), by_shared, 32});
    return cudaSuccess;
}

void tp_shim_launch_bound(const char *name, const void *fn, std::shared_ptr<tp_shim_kernel> kernel, dim3 grid,
                          dim3 block, size_t shared, cudaStream_t stream)
{
    Lock lock(S.mutex);
    cudaError_t e;
    std::string title = clean_name(name);
    cudaStream_t s = stream_of(stream, title.c_str(), &e);
    if (!s) return (void)failed(e);
    if (fails(title.c_str(), false)) return (void)failed(cudaErrorLaunchFailure);
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (!grid.x || !grid.y || !grid.z || grid.x > INT32_MAX || grid.y > 65535 || grid.z > 65535 || !threads ||
        threads > MAX_THREADS) {
        say("kernel %s: a grid of (%u,%u,%u) blocks of (%u,%u,%u) threads; at most %d threads", title.c_str(), grid.x,
            grid.y, grid.z, block.x, block.y, block.z, MAX_THREADS);
        return (void)failed(cudaErrorInvalidConfiguration);
    }
    auto limit = S.dynamic_limit.find(fn);
    size_t most = limit == S.dynamic_limit.end() ? STATIC_SHARED_LIMIT : std::max(limit->second, STATIC_SHARED_LIMIT);
    if (shared > most) {
        say("kernel %s: %zu bytes of dynamic shared memory, %zu are allowed (cudaFuncSetAttribute raises it to %zu)",
            title.c_str(), shared, most, SHARED_LIMIT);
        return (void)failed(cudaErrorInvalidValue);
    }
    if (s->device != the_device) {
        say("kernel %s: the stream is of device %d, device %d is current", title.c_str(), s->device, the_device);
        return (void)failed(cudaErrorInvalidResourceHandle);
    }
    auto &largest = S.launched[fn];
    largest = {std::max(largest.first, (unsigned)threads), std::max(largest.second, shared)};
    Queued q;
    q.name = "kernel " + title;
    q.device = s->device;
    q.work = [kernel, title, grid, block, shared] { run_grid(kernel.get(), title.c_str(), grid, block, shared); };
    if (!s->capture) S.launches++;
    failed(enqueue(lock, s, std::move(q)));
}

/* ==== >>library ======================================================================================= */

bool tp_shim::injected(const char *what)
{
    Lock lock(S.mutex);
    return fails(what, false);
}
void tp_shim::check_device(const void *p, size_t bytes, const char *what)
{
    Lock lock(S.mutex);
    check_range(p, bytes, what);
}
void tp_shim::check_reach(const void *p, const void *other, const char *what)
{
    Lock lock(S.mutex);
    const Block *b = block_of(p), *o = block_of(other);
    if (b && o && b->pool && b->device != o->device && !b->pool->access[o->device])
        fault("%s: device %d has no access to the pool of device %d", what, o->device, b->device);
}
cudaError_t tp_shim::queue(cudaStream_t stream, const std::string &name, std::function<void()> work)
{
    Lock lock(S.mutex);
    cudaError_t e;
    cudaStream_t s = stream_of(stream, name.c_str(), &e);
    if (!s) return e;
    Queued q;
    q.name = name;
    q.device = -1;
    q.work = std::move(work);
    return enqueue(lock, s, std::move(q));
}
struct tp_shim::Meeting {
    int streams, come = 0;
    std::string name;
    std::function<void()> work;
    std::vector<std::shared_ptr<Mark>> arrived;
    std::vector<cudaStream_t> captured; /* those that came while they were captured, ... */
    std::vector<int> after;             /* ... and the nodes that they had come to */
    std::shared_ptr<Mark> done = std::make_shared<Mark>();
};
std::shared_ptr<tp_shim::Meeting> tp_shim::meeting(int streams, const std::string &name, std::function<void()> work)
{
    auto m = std::make_shared<Meeting>();
    m->streams = streams;
    m->name = name;
    m->work = std::move(work);
    return m;
}
cudaError_t tp_shim::join(const std::shared_ptr<Meeting> &m, cudaStream_t stream)
{
    Lock lock(S.mutex);
    cudaError_t e;
    cudaStream_t s = stream_of(stream, m->name.c_str(), &e);
    if (!s) return e;
    if (is_default(s)) {
        say("%s among several devices: the shim does not have it in a default stream", m->name.c_str());
        return cudaErrorStreamCaptureUnsupported;
    }
    if (s->capture ? m->come > 0 && (m->captured.empty() || m->captured[0]->capture != s->capture)
                   : !m->captured.empty())
        fault("%s: of its streams some are captured and some are not, or not together", m->name.c_str());
    Queued q;
    q.name = m->name;
    if (s->capture) { /* one node, after what any of the streams has come to, and before what any does next */
        if (s->capture->invalid) return cudaErrorStreamCaptureInvalidated;
        m->captured.push_back(s);
        m->after.insert(m->after.end(), s->last.begin(), s->last.end());
        if (++m->come < m->streams) return cudaSuccess;
        std::vector<Queued> &nodes = s->capture->graph->nodes;
        q.device = -1;
        q.work = m->work;
        q.after = m->after;
        for (cudaStream_t o : m->captured) o->last.assign(1, (int)nodes.size());
        nodes.push_back(std::move(q));
        return cudaSuccess;
    }
    if (++m->come < m->streams) {
        m->arrived.push_back(std::make_shared<Mark>());
        q.kind = RECORD;
        q.mark = m->arrived.back();
        e = enqueue(lock, s, q);
        q.kind = WAIT;
        q.mark = m->done;
        return e == cudaSuccess ? enqueue(lock, s, std::move(q)) : e;
    }
    /* the last to come waits for the others, works, and lets them go */
    for (auto &a : m->arrived) {
        Queued wait = q;
        wait.kind = WAIT;
        wait.mark = a;
        enqueue(lock, s, std::move(wait));
    }
    q.device = -1;
    q.work = m->work;
    enqueue(lock, s, q);
    q.kind = RECORD;
    q.mark = m->done;
    return enqueue(lock, s, std::move(q));
}
void tp_shim::count_live(const char *what, int by)
{
    Lock lock(S.mutex);
    S.live[what] += by;
}
void tp_shim::scribble(void *p, size_t bytes) { memset(p, 0xff, bytes); }
int tp_shim::current_device() { return the_device; }
bool tp_shim::stream_ok(cudaStream_t stream)
{
    Lock lock(S.mutex);
    cudaError_t e;
    return stream_of(stream, "a library", &e) != nullptr;
}
