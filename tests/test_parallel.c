/* test_parallel.c - flows that work ahead on threads and in processes of their own (tp_input.h) */
#define TP_IMPLEMENTATION
#include "tp_input.h"
#include "seek_help.h"
#include "tp_test.h"

#include <errno.h>
#include <limits.h>

#ifndef _WIN32
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#endif

/* ==== >>helpers ======================================================================================= */

/* Datapoint i of pass p is the int32 100 p + i and i % 3 + 1 floats of it. */
static tp_status pass_and_index(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    const int64_t n = index % 3 + 1;
    tp_status st = index < (int64_t)(intptr_t)user % 1000 ? tp_datapoint_resize(dp, 2) : TP_END;
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_I32, tp_make_shape_n(0, NULL));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_F32, tp_make_shape_n(1, &n));
    if (st == TP_OK) *(int32_t *)dp->c[0].data = (int32_t)((intptr_t)user / 1000 * 1000 + 100 * pass + index);
    for (int64_t k = 0; k < n && st == TP_OK; k++) ((float *)dp->c[1].data)[k] = (float)(100 * pass + index + k);
    return st;
}
/* n of them, 1000*base more; the flow skips by itself if seekable. */
static tp_dataflow *passes_of(int base, int n, bool seekable)
{
    return tp_df_from_generator(pass_and_index, (void *)((intptr_t)1000 * base + n), .size = n,
                                .indexed = seekable && n ? TP_YES : TP_NO);
}

/* Takes a while, which is another one for each datapoint. */
static void dawdle(int64_t index)
{
    volatile double x = 1;
    for (int64_t i = 0; i < index * 7919 % 13 * 400; i++) x = x * 1.000001;
}
/* Drops some, and makes random numbers of (key, index) of the others. */
static tp_status shake(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    dawdle(call->index);
    const int32_t v = *(const int32_t *)in->c[0].data;
    if (call->user) call->drop = tp_random_uniform(call->key, (uint64_t)call->index, 99) < 0.3f;
    tp_status st = tp_tensor_resize(&out->c[1], TP_F32, in->c[1].shape);
    for (int64_t k = 0; k < tp_tensor_size(&out->c[1]) && st == TP_OK; k++)
        ((float *)out->c[1].data)[k] = (float)v + tp_random_uniform(call->key, (uint64_t)call->index, (uint64_t)k) +
                                       1e-42f * (float)v; /* a subnormal, which not all threads would keep */
    return st;
}
static int yes; /* its address says: drop some */

/* One number for all bits of a datapoint. */
static uint64_t print_of(const tp_datapoint *dp)
{
    uint64_t h = (uint64_t)dp->n;
    for (int c = 0; c < dp->n; c++) {
        h = tp_random_key(h, (uint64_t)dp->c[c].dtype);
        for (int k = 0; k < dp->c[c].shape.ndim; k++) h = tp_random_key(h, (uint64_t)dp->c[c].shape.dim[k]);
        h = tp_random_key(h, tp_hash(dp->c[c].data, tp_tensor_bytes(&dp->c[c])));
    }
    return h;
}

enum { MOST = 512 };
typedef struct stream {
    int n;
    uint64_t at[MOST];
} stream;
/* What `passes` passes from `first` on give; a number of its own at each end. */
static stream walk_of(tp_dataflow *df, int64_t first, int passes)
{
    stream s;
    tp_datapoint dp = {0, NULL, 0};
    memset(&s, 0, sizeof s);
    for (int p = 0; p < passes; p++) {
        tp_status st = tp_df_restart(df, first + p);
        while (st == TP_OK && s.n < MOST - 1 && (st = tp_df_next(df, &dp)) == TP_OK) s.at[s.n++] = print_of(&dp);
        CHECK_MSG(st == TP_END, "%s: %s", tp_status_name(st), tp_last_error());
        CHECK(tp_df_next(df, &dp) == TP_END);
        s.at[s.n++] = (uint64_t)p;
    }
    tp_datapoint_free(&dp);
    return s;
}
static void check_same_(const stream *got, const stream *want, const char *what, int line)
{
    int i = 0;
    while (i < got->n && i < want->n && got->at[i] == want->at[i]) i++;
    CHECK_MSG(got->n == want->n && i == want->n,
              "line %d: %s: %d datapoints, expected %d; the first that differs is %d", line, what, got->n, want->n, i);
}
#define check_same(got_, want_, what_) check_same_((got_), (want_), (what_), __LINE__)

/* The first number of each datapoint, in a text; failures with their sentence, after which it goes on. */
static const char *told_by(tp_dataflow *df, int64_t first, int passes, int most)
{
    static char text[8192];
    tp_datapoint dp = {0, NULL, 0};
    text[0] = 0;
    for (int p = 0; p < passes; p++) {
        tp_status st = tp_df_restart(df, first + p);
        if (p) snprintf(text + strlen(text), sizeof text - strlen(text), " |");
        for (int i = 0; i < most && st != TP_END; i++) {
            st = tp_df_next(df, &dp);
            if (st == TP_OK)
                snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", *text ? " " : "",
                         *(const int32_t *)dp.c[0].data);
            else if (st < TP_OK)
                snprintf(text + strlen(text), sizeof text - strlen(text), " (%s: %s)", tp_status_name(st),
                         tp_last_error());
        }
    }
    tp_datapoint_free(&dp);
    return text;
}

/* The flows of this file by number; those that have no threads are `plain` twins with the same stream. NULL: no more. */
static tp_dataflow *flow_of(int which, bool plain, bool seekable)
{
    tp_dataflow *df = passes_of(0, 23, seekable);
    switch (which) {
    case 0: return plain ? df : tp_df_prefetch(df);
    case 1: return plain ? df : tp_df_prefetch(df, .num_prefetch = 1);
    case 2:
        return plain ? tp_df_map(df, shake, .keeps_all = TP_YES)
                     : tp_df_parallel_map(df, shake, .num_thread = 2, .buffer_size = 9, .keeps_all = TP_YES);
    case 3:
        return plain ? tp_df_map(df, shake, &yes, .seed = 8)
                     : tp_df_parallel_map(df, shake, &yes, .num_thread = 3, .buffer_size = 4, .seed = 8);
    case 4:
        if (plain) return tp_df_batch(tp_df_select(tp_df_map(df, shake, &yes), &(int){0}, 1), 3);
        return tp_df_prefetch(tp_df_batch(
            tp_df_select(tp_df_parallel_map(tp_df_prefetch(df), shake, &yes, .num_thread = 2, .buffer_size = 9),
                         &(int){0}, 1),
            3));
    case 6:
        if (plain) return tp_df_map(df, shake, .keeps_all = TP_YES);
        return tp_df_multi_process(tp_df_map(df, shake, .keeps_all = TP_YES), 3);
    case 7:
        if (plain) return tp_df_batch(tp_df_select(tp_df_map(df, shake, &yes), &(int){0}, 1), 2);
        return tp_df_prefetch(tp_df_multi_process(
            tp_df_batch(
                tp_df_select(tp_df_parallel_map(df, shake, &yes, .num_thread = 2, .buffer_size = 9), &(int){0}, 1), 2),
            2, .num_prefetch = 3));
    case 5: return plain ? tp_df_repeated(df, 3) : tp_df_prefetch(tp_df_repeated(df, 3), .num_prefetch = 40);
    default: tp_df_free(df); return NULL;
    }
}
enum { THREADED = 6, FLOWS = 8 }; /* the last two have processes */

/* ==== >>the same stream =============================================================================== */

TEST(one_stream_for_any_number_of_threads)
{
    for (int drops = 0; drops < 2; drops++) {
        tp_dataflow *df = tp_df_map(passes_of(0, 61, true), shake, drops ? &yes : NULL, .seed = 4);
        const stream want = walk_of(df, 0, 3);
        CHECK(want.n > 3 * 30 && (drops ? want.n < 3 * 60 : want.n == 3 * 62));
        tp_df_free(df);
        const int threads[] = {1, 2, 8}, buffers[] = {1, 5, 0};
        for (int t = 0; t < 3; t++)
            for (int b = 0; b < 3; b++) {
                char what[64];
                df = tp_df_parallel_map(passes_of(0, 61, true), shake, drops ? &yes : NULL, .num_thread = threads[t],
                                        .buffer_size = buffers[b], .seed = 4);
                snprintf(what, sizeof what, "%d threads, %d buffers", threads[t], buffers[b]);
                const stream got = walk_of(df, 0, 3);
                check_same(&got, &want, what);
                CHECK(tp_df_size(df) == 61);
                tp_df_free(df);
            }
    }
    tp_dataflow *df = tp_df_parallel_map(passes_of(0, 9, true), shake); /* as many as there are processors */
    CHECK_STR(told_by(df, 1, 2, 99), "100 101 102 103 104 105 106 107 108 | 200 201 202 203 204 205 206 207 208");
    tp_df_free(df);
}

TEST(prefetch_changes_nothing)
{
    const int buffers[] = {1, 2, 8, 100};
    tp_dataflow *df = passes_of(0, 30, false);
    const stream want = walk_of(df, 0, 3);
    tp_df_free(df);
    for (int b = 0; b < 4; b++) {
        df = tp_df_prefetch(passes_of(0, 30, false), .num_prefetch = buffers[b]);
        CHECK(tp_df_size(df) == 30);
        const stream got = walk_of(df, 0, 3);
        check_same(&got, &want, "prefetch");
        tp_df_free(df);
    }
    df = tp_df_prefetch(passes_of(0, 0, false));
    CHECK_STR(told_by(df, 0, 3, 9), " | |");
    tp_df_free(df);
}

/* Wherever the caller is, and however far the threads are ahead. */
TEST(seek_is_walking)
{
    tp_datapoint dp = {0, NULL, 0};
    for (int which = 0; which < FLOWS; which++) {
        tp_dataflow *plain = flow_of(which, true, false), *df = flow_of(which, false, which % 2 == 0);
        for (int64_t pass = 0; pass < 3; pass += 2) {
            const stream want = walk_of(plain, pass, 1);
            for (int n = 0; n < want.n + 3; n += 1 + n / 4)
                for (int taken = 0; taken <= 2 && taken <= n; taken++) {
                    int64_t skipped = 0;
                    CHECK_OK(tp_df_restart(df, pass));
                    int there = 0;
                    while (there < taken && tp_df_next(df, &dp) == TP_OK) there++;
                    CHECK_OK(tp_df_seek(df, n - taken, &skipped));
                    const int past = want.n - 1 < n ? want.n - 1 : n;
                    CHECK_MSG(there + skipped == past, "flow %d: %d of %d", which, (int)(there + skipped), past);
                    tp_status st;
                    int i = past;
                    for (; (st = tp_df_next(df, &dp)) == TP_OK; i++)
                        CHECK_MSG(i < want.n - 1 && print_of(&dp) == want.at[i],
                                  "flow %d pass %d: after skipping %d, datapoint %d is another", which, (int)pass, n,
                                  i);
                    CHECK(st == TP_END && i == want.n - 1);
                }
        }
        tp_df_free(plain);
        tp_df_free(df);
    }
    tp_datapoint_free(&dp);
}

TEST(seek_behind_the_last_datapoint)
{
    for (int which = 0; which < FLOWS; which++) check_seek_behind_the_last(flow_of(which, false, true), which);
}

#ifndef _WIN32
static tp_dataflow *a_pipeline(int threads)
{
    tp_dataflow *df = tp_df_from_generator(pass_and_index, (void *)(intptr_t)90, .size = 90);
    df = tp_df_parallel_map(tp_df_locally_shuffle(df, 20, .seed = 3), shake, &yes, .num_thread = threads, .seed = 6);
    return tp_df_prefetch(df, .num_prefetch = 4);
}
/* A process that is killed while its threads work; another one goes on where it had come to, with another number of threads. */
TEST(killed_and_resumed)
{
    enum { ALL = 200 };
    static uint64_t want[ALL];
    tp_datapoint dp = {0, NULL, 0};
    tp_dataflow *df = tp_df_prefetch(tp_df_map(
        tp_df_locally_shuffle(tp_df_from_generator(pass_and_index, (void *)(intptr_t)90, .size = 90), 20, .seed = 3),
        shake, &yes, .seed = 6));
    for (int i = 0; i < ALL && CHECK_OK(tp_df_next(df, &dp)); i++) want[i] = print_of(&dp);
    tp_df_free(df);
    const int threads[] = {1, 2, 8};
    for (int t = 0; t < 3; t++) {
        int fd[2];
        if (!CHECK(pipe(fd) == 0)) return;
        const pid_t child = fork();
        if (child == 0) {
            df = a_pipeline(threads[t]);
            for (;;) {
                uint64_t one = 0;
                if (tp_df_next(df, &dp) == TP_OK) one = print_of(&dp);
                if (write(fd[1], &one, sizeof one) != sizeof one) _exit(1);
            }
        }
        close(fd[1]);
        int n = 0;
        uint64_t one;
        while (n < 37 + 20 * t && read(fd[0], &one, sizeof one) == sizeof one) CHECK(one == want[n++]);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        close(fd[0]);
        CHECK(n == 37 + 20 * t);
        df = a_pipeline(threads[(t + 1) % 3]);
        int64_t skipped = 0;
        CHECK_OK(tp_df_seek(df, n, &skipped));
        CHECK(skipped == n);
        for (; n < ALL && tp_df_next(df, &dp) == TP_OK; n++)
            if (!CHECK_MSG(print_of(&dp) == want[n], "datapoint %d", n)) break;
        CHECK(n == ALL);
        tp_df_free(df);
    }
    tp_datapoint_free(&dp);
}
#endif

/* ==== >>as they come ================================================================================== */

TEST(unordered_gives_exactly_one_pass)
{
    tp_datapoint dp = {0, NULL, 0};
    /* the specification's example: 20 items, 4 threads, 5 buffers, 3 passes */
    tp_dataflow *df =
        tp_df_parallel_map(passes_of(0, 20, true), shake, .num_thread = 4, .buffer_size = 5, .ordered = TP_NO);
    for (int pass = 0; pass < 3; pass++) {
        int seen[20] = {0}, n = 0;
        CHECK_OK(tp_df_restart(df, pass));
        for (; tp_df_next(df, &dp) == TP_OK; n++) {
            const int i = *(const int32_t *)dp.c[0].data - 100 * pass;
            if (CHECK(i >= 0 && i < 20)) seen[i]++;
        }
        CHECK(n == 20);
        for (int i = 0; i < 20; i++) CHECK(seen[i] == 1);
    }
    tp_df_free(df);
    /* one thread that is not strict: in order, on into the next pass */
    df = tp_df_parallel_map(tp_df_repeated(passes_of(0, 4, true), -1), shake, .num_thread = 1, .ordered = TP_NO);
    CHECK_STR(told_by(df, 0, 1, 10), "0 1 2 3 100 101 102 103 200 201");
    tp_df_free(df);
    /* with drops: the same ones as in order */
    df = tp_df_map(passes_of(0, 50, true), shake, &yes);
    stream want = walk_of(df, 1, 1), got;
    tp_df_free(df);
    df = tp_df_parallel_map(passes_of(0, 50, true), shake, &yes, .num_thread = 3, .ordered = TP_NO);
    got = walk_of(df, 1, 1);
    tp_df_free(df);
    uint64_t a = 0, b = 0;
    for (int i = 0; i < want.n; i++) a += want.at[i];
    for (int i = 0; i < got.n; i++) b += got.at[i];
    CHECK(a == b && got.n == want.n && want.n < 50);
    tp_datapoint_free(&dp);
}

static char said[512];
static void keep_log(void *user, tp_log_level level, const char *text)
{
    (void)user, (void)level;
    snprintf(said, sizeof said, "%s", text);
}
TEST(unordered_says_that_it_cannot_be_resumed)
{
    tp_dataflow *df = tp_df_parallel_map(passes_of(0, 20, true), shake, .num_thread = 2, .ordered = TP_NO);
    tp_datapoint dp = {0, NULL, 0};
    int64_t skipped = 0;
    int n = 0;
    tp_set_log(keep_log, NULL);
    CHECK_OK(tp_df_seek(df, 12, &skipped));
    tp_set_log(NULL, NULL);
    CHECK(skipped == 12);
    CHECK_HAS(said, "not exactly those that are skipped");
    while (tp_df_next(df, &dp) == TP_OK) n++;
    CHECK(n == 8);
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

#ifndef TP_NO_THREADS
/* Datapoint 0 waits until 3 others are in the function too, each on another thread. */
typedef struct meeting {
    tp_mutex *m;
    tp_cond *all;
    int in, most, thread[4];
} meeting;
static tp_status meet(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    (void)in, (void)out;
    meeting *x = (meeting *)call->user;
    tp_mutex_lock(x->m);
    if (call->thread >= 0 && call->thread < 4) x->thread[call->thread]++;
    if (++x->in > x->most) x->most = x->in;
    tp_cond_broadcast(x->all);
    while (call->index < 4 && x->most < 4 && tp_cond_wait_for(x->all, x->m, 10)) {}
    x->in--;
    tp_mutex_unlock(x->m);
    return TP_OK;
}
TEST(functions_run_at_the_same_time)
{
    meeting x = {tp_mutex_new(), tp_cond_new(), 0, 0, {0, 0, 0, 0}};
    tp_dataflow *df = tp_df_parallel_map(passes_of(0, 8, true), meet, &x, .num_thread = 4, .buffer_size = 6);
    CHECK_STR(told_by(df, 0, 1, 99), "0 1 2 3 4 5 6 7");
    tp_df_free(df);
    CHECK(x.most == 4);
    for (int i = 0; i < 4; i++) CHECK(x.thread[i] > 0);
    tp_mutex_free(x.m);
    tp_cond_free(x.all);
}

/* Datapoint 1 comes when the caller has datapoint 0, or too late. */
typedef struct patience {
    bool has_first, late; /* atomic */
} patience;
static tp_status after_the_first(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    patience *x = (patience *)user;
    for (int i = 0; index == 1 && !__atomic_load_n(&x->has_first, __ATOMIC_ACQUIRE); i++) {
        if (i == 500) {
            __atomic_store_n(&x->late, true, __ATOMIC_RELEASE);
            break;
        }
        tp_test_sleep(0.01);
    }
    return pass_and_index((void *)(intptr_t)3, pass, index, dp);
}
TEST(the_first_datapoint_does_not_wait_for_the_second)
{
    for (int threads = 1; threads <= 2; threads++) {
        patience x = {false, false};
        tp_datapoint dp = {0, NULL, 0};
        tp_dataflow *df = tp_df_from_generator(after_the_first, &x);
        df = threads == 1 ? tp_df_prefetch(df, .num_prefetch = 4)
                          : tp_df_parallel_map(df, shake, .num_thread = 1, .buffer_size = 4);
        CHECK_OK(tp_df_next(df, &dp));
        __atomic_store_n(&x.has_first, true, __ATOMIC_RELEASE);
        CHECK_OK(tp_df_next(df, &dp));
        CHECK(!__atomic_load_n(&x.late, __ATOMIC_ACQUIRE));
        tp_df_free(df);
        tp_datapoint_free(&dp);
    }
}

static tp_status counted(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)__atomic_add_fetch((int *)user, 1, __ATOMIC_ACQ_REL);
    return pass_and_index((void *)(intptr_t)90, pass, index, dp);
}
/* Beside the datapoint that the caller has, all buffers are filled, also after many datapoints. */
TEST(all_buffers_are_filled_again_and_again)
{
    int n = 0;
    tp_datapoint dp = {0, NULL, 0};
    tp_dataflow *df = tp_df_parallel_map(tp_df_from_generator(counted, &n), shake, .num_thread = 1, .buffer_size = 2);
    for (int taken = 1; taken <= 12; taken++) {
        CHECK_OK(tp_df_next(df, &dp));
        for (int i = 0; i < 500 && __atomic_load_n(&n, __ATOMIC_ACQUIRE) < taken + 2; i++) tp_test_sleep(0.01);
        if (!CHECK_MSG(__atomic_load_n(&n, __ATOMIC_ACQUIRE) == taken + 2, "%d taken, %d read", taken, n)) break;
    }
    tp_df_free(df);
    tp_datapoint_free(&dp);
}
#endif

/* ==== >>failures ====================================================================================== */

static tp_status some_fail(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    (void)out;
    const int i = *(const int32_t *)in->c[0].data % 100;
    dawdle(call->index);
    call->drop = i == 1;
    return i == 2 || i == 9 ? tp_fail(TP_ERR_FORMAT, "%d.jpg is broken", i) : TP_OK;
}
static tp_status sometimes(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    int *tried = (int *)user;
    if (index == 5 && ++*tried) return tp_fail(TP_ERR_IO, "the disk is busy");
    return pass_and_index((void *)(intptr_t)12, pass, index, dp);
}

/* What fails fails in its place, by its name, and is not tried again; the others come, as without threads. */
TEST(failures_come_in_order)
{
    char want[4096];
    for (int threads = 0; threads <= 8; threads += threads ? 7 : 1) {
        int tried = 0;
        tp_dataflow *df = tp_df_from_generator(sometimes, &tried);
        df = threads ? tp_df_parallel_map(df, some_fail, .num_thread = threads) : tp_df_map(df, some_fail);
        if (threads) df = tp_df_prefetch(df);
        const char *text = told_by(df, 0, 2, 99);
        if (threads == 0) {
            snprintf(want, sizeof want, "%s", text);
            CHECK_HAS(want,
                      "0 (TP_ERR_FORMAT: 2.jpg is broken [tp_df_map: pass 0, datapoint 2]) 3 4 (TP_ERR_IO: the disk is "
                      "busy [tp_df_from_generator: pass 0, datapoint 5]) 6 7");
            for (char *at; (at = strstr(want, "tp_df_map"));) { /* the other function has the longer name */
                memmove(at + strlen("tp_df_parallel_map"), at + strlen("tp_df_map"),
                        strlen(at) - strlen("tp_df_map") + 1);
                memcpy(at, "tp_df_parallel_map", strlen("tp_df_parallel_map"));
            }
        } else {
            CHECK_STR(text, want);
        }
        CHECK_MSG(tried == 2, "datapoint 5 of two passes: %d calls", tried);
        tp_df_free(df);
    }
}

static tp_status stop_at_3(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    return index == 3 ? TP_STOP : pass_and_index(user, pass, index, dp);
}
/* A flow may ask for the end of the training: that comes in its turn through threads and processes too. */
TEST(a_stop_comes_in_its_turn)
{
    for (int which = 0; which < 6; which++) {
        tp_datapoint dp = {0, NULL, 0};
        tp_dataflow *df = tp_df_from_generator(stop_at_3, (void *)(intptr_t)9);
        switch (which) {
        case 0: df = tp_df_map(df, shake); break;
        case 1: df = tp_df_prefetch(df); break;
        case 2: df = tp_df_parallel_map(df, shake, .num_thread = 1); break;
        case 3: df = tp_df_parallel_map(df, shake, .num_thread = 3, .buffer_size = 2); break;
        case 4: df = tp_df_prefetch(tp_df_parallel_map(df, shake, .num_thread = 2)); break;
        default: df = tp_df_multi_process(df, 2);
        }
        CHECK_OK(tp_df_restart(df, 2));
        for (int i = 0; i < 3; i++) {
            const tp_status st = tp_df_next(df, &dp);
            CHECK_MSG(st == TP_OK && dp.n == 2 && *(const int32_t *)dp.c[0].data == 200 + i,
                      "flow %d, datapoint %d: %s", which, i, tp_status_name(st));
        }
        const tp_status st = tp_df_next(df, &dp);
        CHECK_MSG(st == TP_STOP, "flow %d: %s", which, tp_status_name(st));
        tp_df_free(df);
        tp_datapoint_free(&dp);
    }
}

TEST(unordered_failures_all_come)
{
    tp_dataflow *df = tp_df_parallel_map(passes_of(0, 12, true), some_fail, .num_thread = 3, .ordered = TP_NO);
    const char *text = told_by(df, 3, 1, 99);
    CHECK_HAS(text, "2.jpg is broken [tp_df_parallel_map: pass 3, datapoint 2]");
    CHECK_HAS(text, "9.jpg is broken [tp_df_parallel_map: pass 3, datapoint 9]");
    CHECK_HAS(text, "311");
    tp_df_free(df);
}

#ifndef TP_NO_THREADS
/* Datapoint 5 fails the first time, and says so. */
static int disk_tries; /* atomic */
static tp_status first_fails(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    if (index == 5 && __atomic_add_fetch(&disk_tries, 1, __ATOMIC_ACQ_REL) == 1)
        return tp_fail(TP_ERR_IO, "the disk is busy");
    return pass_and_index(user, pass, index, dp);
}
/* A failure that the threads have met before the seek that comes to it: the seek tells it, and goes on behind it. */
TEST(a_failure_that_was_read_ahead_is_told_by_seek)
{
    tp_set_log(keep_log, NULL);
    for (int which = 0; which < 3; which++)
        for (int64_t n = 0; n < 20; n++) {
            tp_datapoint dp = {0, NULL, 0};
            int64_t skipped = -1;
            int left = 0;
            disk_tries = 0;
            tp_dataflow *df = tp_df_from_generator(first_fails, (void *)(intptr_t)12);
            if (which == 0) df = tp_df_prefetch(df, .num_prefetch = 20);
            else
                df = tp_df_parallel_map(df, shake, .num_thread = 2, .keeps_all = TP_YES,
                                        .ordered = which == 1 ? TP_YES : TP_NO);
            CHECK_OK(tp_df_next(df, &dp));
            while (__atomic_load_n(&disk_tries, __ATOMIC_ACQUIRE) == 0) tp_test_sleep(1e-4);
            const tp_status st = tp_df_seek(df, n, &skipped);
            const char *why = tp_last_error();
            if (which == 2) /* in any order: the failure may come before datapoints that were read earlier */
                CHECK_MSG(st == TP_OK ? skipped == n && n <= 11 : st == TP_ERR_IO && skipped < n && skipped <= 4,
                          "seek %d: %s, %d skipped", (int)n, tp_status_name(st), (int)skipped);
            else
                CHECK_MSG(st == (n > 4 ? TP_ERR_IO : TP_OK) && skipped == (n > 4 ? 4 : n),
                          "flow %d, seek %d: %s, %d skipped", which, (int)n, tp_status_name(st), (int)skipped);
            if (st < TP_OK) CHECK_HAS(why, "the disk is busy [tp_df_from_generator: pass 0, datapoint 5]");
            for (tp_status next = TP_OK; next != TP_END;) { /* all come but datapoint 5 */
                next = tp_df_next(df, &dp);
                left += next == TP_OK;
                if (next < TP_OK && !CHECK_ERR(next, TP_ERR_IO, st < TP_OK ? "no second failure" : "the disk is busy"))
                    break;
            }
            CHECK_MSG(1 + skipped + left == 11, "flow %d, seek %d: %d skipped, %d left", which, (int)n, (int)skipped,
                      left);
            tp_datapoint_free(&dp);
            tp_df_free(df);
        }
    tp_set_log(NULL, NULL);
}

/* Holds the threads in their datapoints, but for the first two, until a seek is about to stop them, and a little longer. */
static int seek_begins; /* atomic */
static tp_status map_until_seek(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    (void)in, (void)out;
    for (int i = 0; i < 50 && call->index > 1 && !__atomic_load_n(&seek_begins, __ATOMIC_ACQUIRE); i++)
        tp_test_sleep(1e-4);
    if (call->index > 1) tp_test_sleep(2e-3);
    return TP_OK;
}
/* The same where datapoints before the one that failed are read and wait for a thread to map them. */
TEST(a_failure_behind_what_waits_to_be_mapped_is_told_by_seek)
{
    tp_set_log(keep_log, NULL);
    for (int ordered = 0; ordered < 2; ordered++)
        for (int64_t n = 3; n < 8; n++) {
            tp_datapoint dp = {0, NULL, 0};
            int64_t skipped = -1;
            disk_tries = seek_begins = 0;
            tp_dataflow *df =
                tp_df_parallel_map(tp_df_from_generator(first_fails, (void *)(intptr_t)12), map_until_seek,
                                   .num_thread = 2, .keeps_all = TP_YES, .ordered = ordered ? TP_YES : TP_NO);
            CHECK_OK(tp_df_next(df, &dp));
            while (__atomic_load_n(&disk_tries, __ATOMIC_ACQUIRE) == 0) tp_test_sleep(1e-4);
            __atomic_store_n(&seek_begins, 1, __ATOMIC_RELEASE);
            const tp_status st = tp_df_seek(df, n, &skipped);
            if (ordered)
                CHECK_MSG(st == (n > 4 ? TP_ERR_IO : TP_OK) && skipped == (n > 4 ? 4 : n), "seek %d: %s, %d skipped",
                          (int)n, tp_status_name(st), (int)skipped);
            else
                CHECK_MSG(st == TP_OK ? skipped == n : st == TP_ERR_IO && skipped < n, "seek %d: %s, %d skipped",
                          (int)n, tp_status_name(st), (int)skipped);
            if (st < TP_OK) CHECK_HAS(tp_last_error(), "the disk is busy [tp_df_from_generator: pass 0, datapoint 5]");
            tp_datapoint_free(&dp);
            tp_df_free(df);
        }
    tp_set_log(NULL, NULL);
}
#endif

/* ==== >>life and memory =============================================================================== */

static tp_status slow(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    tp_test_sleep(0.002);
    return pass_and_index(user, pass, index, dp);
}

TEST(freed_at_any_moment)
{
    tp_test_fail_after(0);
    tp_datapoint dp = {0, NULL, 0};
    for (int which = 0; which < FLOWS; which++)
        for (int n = 0; n < 30; n += 1 + n / 3)
            for (int wait = 0; wait < 2; wait++) {
                tp_dataflow *df = flow_of(which, false, true);
                for (int i = 0; i < n && tp_df_next(df, &dp) == TP_OK; i++) {}
                if (wait && n) tp_test_sleep(0.001); /* until the buffers are full */
                if (n % 2) CHECK_OK(tp_df_restart(df, 2));
                tp_df_free(df);
            }
    for (int threads = 1; threads < 6; threads++) { /* the caller is faster than the flow below: workers wait for it */
        tp_dataflow *df = tp_df_from_generator(slow, (void *)(intptr_t)50);
        df = tp_df_prefetch(tp_df_parallel_map(df, shake, .num_thread = threads, .buffer_size = threads));
        for (int i = 0; i < threads; i++) CHECK_OK(tp_df_next(df, &dp));
        tp_df_free(df);
    }
    tp_datapoint_free(&dp);
    CHECK(tp_test_live_blocks() == 0);
    tp_test_alloc_reset();
}

TEST(steady_state_allocates_nothing)
{
    tp_datapoint dp = {0, NULL, 0};
    for (int which = 0; which < FLOWS; which++) {
        tp_test_fail_after(0);
        tp_dataflow *df = flow_of(which, false, true);
        for (int pass = 0; pass < 40; pass++) /* each buffer has had the largest datapoint */
            for (tp_df_restart(df, pass); tp_df_next(df, &dp) == TP_OK;) {}
        const long before = tp_test_alloc_count();
        for (int pass = 40; pass < 50; pass++)
            for (tp_df_restart(df, pass); tp_df_next(df, &dp) == TP_OK;) {}
        CHECK_MSG(tp_test_alloc_count() - before < 10, "flow %d (%s) allocates %ld times", which, df->name,
                  tp_test_alloc_count() - before);
        tp_df_free(df);
    }
    tp_datapoint_free(&dp);
    tp_test_alloc_reset();
}

static tp_dataflow *third(void *user, int i)
{
    return user ? NULL : tp_df_map(passes_of(i, 5 + i, true), shake, .seed = (uint64_t)i + 1, .keeps_all = TP_YES);
}

/* A whole pass is walked, so that what failed ahead of the caller is heard of too. */
TEST(out_of_memory_at_every_point)
{
    for (int which = 0; which <= THREADED; which++)
        for (long n = 1, failed = 1; failed; n++) {
            tp_test_fail_after(n);
            tp_dataflow *df = which < THREADED ? flow_of(which, false, true) : tp_df_multi_thread(third, 3);
            tp_datapoint dp = {0, NULL, 0};
            tp_status st = df ? TP_OK : TP_ERR_NOMEM, worst = st;
            for (int i = 0; i < 99 && df && st != TP_END; i++) {
                st = tp_df_next(df, &dp);
                if (st < worst) worst = st;
            }
            failed = tp_test_alloc_failed();
            /* what multi_thread has read for its next pass nobody has asked for */
            const bool told = worst == TP_ERR_NOMEM || (which == THREADED && worst == TP_OK);
            CHECK_MSG(failed ? told : worst == TP_OK, "flow %d, allocation %ld: %s: %s", which, n,
                      tp_status_name(worst), tp_last_error());
            tp_datapoint_free(&dp);
            tp_df_free(df);
            CHECK_MSG(tp_test_live_blocks() == 0, "flow %d, allocation %ld leaks", which, n);
        }
    tp_test_alloc_reset();
}

/* ==== >>a flow for each thread ======================================================================== */

static tp_dataflow *get_df(void *user, int i) { return passes_of(i + 1, *(const int *)user, true); }

TEST(multi_thread_takes_turns)
{
    int n = 4;
    for (int threads = 1; threads <= 3; threads++) {
        char want[1024] = "";
        for (int k = 0; k < 12; k++) { /* 3 passes of 4 */
            const int flow = k % threads, at = k / threads;
            snprintf(want + strlen(want), sizeof want - strlen(want), "%s%s%d", k && k % 4 == 0 ? " |" : "",
                     k ? " " : "", 1000 * (flow + 1) + 100 * (at / 4) + at % 4);
        }
        tp_dataflow *df = tp_df_multi_thread(get_df, threads, &n);
        CHECK_OK(tp_df_status(df));
        CHECK(tp_df_size(df) == 4);
        CHECK_STR(told_by(df, 0, 3, 99), want);
        CHECK_STR(told_by(df, 2, 1, 99), strrchr(want, '|') + 2); /* back */
        tp_df_free(df);
        df = tp_df_multi_thread(get_df, threads, &n, .num_prefetch = 1);
        CHECK_STR(told_by(df, 2, 1, 99), strrchr(want, '|') + 2); /* at once */
        tp_df_free(df);
    }
    tp_datapoint dp = {0, NULL, 0};
    tp_dataflow *df = tp_df_multi_thread(third, 3), *again = tp_df_multi_thread(third, 3);
    for (int pass = 0; pass < 4; pass++) {
        const stream want = walk_of(df, pass, 1);
        CHECK(want.n == 6);
        for (int k = 0; k <= 6; k++) {
            int64_t skipped = 0;
            CHECK_OK(tp_df_restart(again, pass));
            CHECK_OK(tp_df_seek(again, k, &skipped));
            CHECK(skipped == (k < 5 ? k : 5));
            for (int i = k; i < 5 && CHECK_OK(tp_df_next(again, &dp)); i++) CHECK(print_of(&dp) == want.at[i]);
            CHECK(tp_df_next(again, &dp) == TP_END);
        }
    }
    tp_df_free(df), tp_df_free(again);
    tp_datapoint_free(&dp);
}

/* A seek from anywhere in a pass ends with the pass, and the next pass goes on behind it. */
TEST(turns_are_skipped_from_anywhere)
{
    int n = 4;
    for (int j = 0; j <= 4; j++)
        for (int64_t k = 0; k < 7; k++) {
            tp_datapoint dp = {0, NULL, 0};
            int64_t skipped = -1;
            char want[64] = "";
            tp_dataflow *df = tp_df_multi_thread(get_df, 2, &n);
            CHECK_OK(tp_df_restart(df, 1));
            for (int i = 0; i < j; i++) CHECK_OK(tp_df_next(df, &dp));
            CHECK_OK(tp_df_seek(df, k, &skipped));
            CHECK_MSG(skipped == (k < 4 - j ? k : 4 - j), "%d taken: %d of %d skipped", j, (int)skipped, (int)k);
            for (int i = 4 + j + (int)skipped; i < 8; i++) { /* number i of all: flow i % 2, its datapoint i / 2 */
                snprintf(want, sizeof want, "%d", 1000 * (i % 2 + 1) + i / 2);
                if (!CHECK_OK(tp_df_next(df, &dp))) break;
                CHECK_MSG(tp_tensor_get(&dp.c[0], 0) == strtod(want, NULL), "%g, not %s", tp_tensor_get(&dp.c[0], 0),
                          want);
            }
            CHECK(tp_df_next(df, &dp) == TP_END);
            CHECK_STR(told_by(df, 2, 1, 99), "1100 2100 1101 2101");
            CHECK_ERR(tp_df_restart(df, INT64_MAX / 4), TP_ERR_ARG, "tp_df_multi_thread: there is no pass ");
            tp_datapoint_free(&dp);
            tp_df_free(df);
        }
}

static tp_status always_fails_at_2(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    if (index == 2 && (intptr_t)user >= 2000) return tp_fail(TP_ERR_IO, "the second disk is busy");
    return pass_and_index(user, pass, index, dp);
}
static tp_dataflow *get_failing(void *user, int i)
{
    return tp_df_from_generator(always_fails_at_2, (void *)((intptr_t)1000 * (i + 1) + *(const int *)user),
                                .size = *(const int *)user);
}
/* Of two flows that take turns, a skip or a later pass that comes to the failure of the second one tells it, and nothing
 * before does. */
TEST(a_skip_by_turns_tells_a_failure)
{
    int n = 4;
    for (int64_t k = 0; k <= 8; k++) {
        tp_dataflow *df = tp_df_multi_thread(get_failing, 2, &n);
        int64_t skipped = -1;
        const tp_status st = tp_df_seek(df, k, &skipped);
        CHECK_MSG(st == TP_OK && skipped == (k < 4 ? k : 4), "seek %d: %s", (int)k, tp_status_name(st));
        tp_df_free(df);
        df = tp_df_multi_thread(get_failing, 2, &n);
        if (k == 0) { /* pass 1 is datapoints 2 and 3 of both flows */
            CHECK_STR(told_by(df, 0, 1, 99), "1000 2000 1001 2001");
            CHECK_OK(tp_df_restart(df, 1));
            CHECK_ERR(tp_df_seek(df, 4, &skipped), TP_ERR_IO, "the second disk is busy");
            CHECK_ERR(tp_df_restart(df, 2), TP_ERR_IO, "the second disk is busy"); /* it begins again, and skips */
            CHECK_STR(told_by(df, 0, 1, 99), "1000 2000 1001 2001");               /* all flows begin again */
            CHECK_ERR(tp_df_restart(df, 2), TP_ERR_IO, "the second disk is busy");
            CHECK_STR(told_by(df, 0, 1, 99), "1000 2000 1001 2001");
        } else if (k < 4) {
            CHECK_OK(tp_df_restart(df, 1));
            CHECK_MSG(tp_df_seek(df, k, &skipped) == (k < 2 ? TP_OK : TP_ERR_IO), "%d of pass 1", (int)k);
        }
        tp_df_free(df);
    }
}

/* The flow of thread 1 fails at its datapoint *user, the first time. */
static int turns_tried; /* atomic */
static tp_status fails_once_by_turns(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    const int at = (int)(intptr_t)user % 10;
    if ((intptr_t)user >= 2000 && pass == 0 && index == at &&
        __atomic_add_fetch(&turns_tried, 1, __ATOMIC_ACQ_REL) == 1)
        return tp_fail(TP_ERR_IO, "the second disk is busy");
    return pass_and_index((void *)((intptr_t)user / 1000 * 1000 + 4), pass, index, dp);
}
static tp_dataflow *get_failing_once(void *user, int i)
{
    return tp_df_from_generator(fails_once_by_turns, (void *)((intptr_t)1000 * (2 - i) + *(const int *)user),
                                .size = 4);
}
/* A datapoint that failed had its turn, also the first one: the flows stay side by side, and a restart begins all of them. */
TEST(a_failure_has_its_turn)
{
    tp_datapoint dp = {0, NULL, 0};
    for (int at = 0; at < 4; at++) { /* flow 0 gives 2000 and more, and fails */
        turns_tried = 0;
        tp_dataflow *df = tp_df_multi_thread(get_failing_once, 2, &at);
        const char *text = told_by(df, 0, 3, 99);
        static const char *const want[4] = {
            "(2) 1000 2001 1001 | 2002 1002 2003 1003 | 2100", "2000 1000 (2) 1001 | 2002 1002 2003 1003 | 2100",
            "2000 1000 2001 1001 | (2) 1002 2003 1003 | 2100", "2000 1000 2001 1001 | 2002 1002 (2) 1003 | 2100"};
        char got[400] = "";
        for (const char *p = text; *p;) { /* the failure as (2) */
            if (*p == '(') strcat(got, "(2)"), p = strchr(p, ')') + 1;
            else strncat(got, p++, 1);
        }
        CHECK_MSG(strncmp(got + (*got == ' '), want[at], strlen(want[at])) == 0, "%s", got);
        CHECK_STR(told_by(df, 0, 1, 99), "2000 1000 2001 1001");
        tp_df_free(df);
    }
    for (int at = 0; at < 2; at++) { /* a restart at once behind the failure */
        turns_tried = 0;
        tp_dataflow *df = tp_df_multi_thread(get_failing_once, 2, &at);
        for (int i = 0; i < 2 * at; i++) CHECK_OK(tp_df_next(df, &dp));
        CHECK_ERR(tp_df_next(df, &dp), TP_ERR_IO, "busy");
        CHECK_STR(told_by(df, 0, 2, 99), "2000 1000 2001 1001 | 2002 1002 2003 1003");
        tp_df_free(df);
    }
    for (int at = 0; at < 2; at++) { /* behind a seek that failed the flows are not side by side: that ends the pass */
        int64_t skipped = -1;
        turns_tried = 0;
        tp_dataflow *df = tp_df_multi_thread(get_failing_once, 2, &at);
        CHECK_ERR(tp_df_seek(df, 3, &skipped), TP_ERR_IO, "busy");
        CHECK(skipped == 0 && tp_df_next(df, &dp) == TP_END);
        CHECK_OK(tp_df_seek(df, 1, &skipped));
        CHECK(skipped == 0 && tp_df_next(df, &dp) == TP_END);
        CHECK_STR(told_by(df, 0, 2, 99), "2000 1000 2001 1001 | 2002 1002 2003 1003");
        tp_df_free(df);
    }
    tp_datapoint_free(&dp);
}

/* ==== >>processes ===================================================================================== */

TEST(one_stream_for_any_number_of_processes)
{
    for (int drops = 0; drops < 2; drops++) {
        tp_dataflow *df = tp_df_map(passes_of(0, 31, true), shake, drops ? &yes : NULL, .seed = 4);
        const stream want = walk_of(df, 0, 3);
        tp_df_free(df);
        for (int n = 1; n <= 5; n += 2) {
            df = tp_df_map(passes_of(0, 31, true), shake, drops ? &yes : NULL, .seed = 4,
                           .keeps_all = drops ? TP_NO : TP_YES);
            df = tp_df_multi_process(df, n, .num_prefetch = n);
            const stream got = walk_of(df, 0, 3);
            check_same(&got, &want, "processes");
            CHECK(tp_df_size(df) == 31);
            tp_df_free(df);
        }
    }
    for (int n = 1; n <= 2; n++) { /* the specification's example */
        tp_dataflow *df = tp_df_multi_process(passes_of(0, 6, true), n);
        CHECK_STR(told_by(df, 0, 1, 99), "0 1 2 3 4 5");
        CHECK_STR(told_by(df, 3, 2, 99), "300 301 302 303 304 305 | 400 401 402 403 404 405");
        tp_df_free(df);
    }
}

static tp_status none_below_5(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    (void)in, (void)out;
    return call->index < 5 ? tp_fail(TP_ERR_STATE, "datapoint %d is made", (int)call->index) : TP_OK;
}
/* Datapoints that are skipped are not computed, neither in the processes nor in the caller. */
TEST(processes_make_nothing_that_is_skipped)
{
    for (int n = 1; n <= 3; n++) {
        tp_datapoint dp = {0, NULL, 0};
        int64_t skipped = 0;
        tp_dataflow *df = tp_df_multi_process(tp_df_map(passes_of(0, 9, true), none_below_5, .keeps_all = TP_YES), n);
        for (int64_t from = 5; from <= 9; from++) {
            CHECK_OK(tp_df_restart(df, 1));
            CHECK_OK(tp_df_seek(df, from, &skipped));
            CHECK(skipped == from);
            for (int64_t i = from; i < 9; i++)
                CHECK(tp_df_next(df, &dp) == TP_OK && *(const int32_t *)dp.c[0].data == 100 + i);
            CHECK(tp_df_next(df, &dp) == TP_END);
        }
        tp_df_free(df);
        tp_datapoint_free(&dp);
    }
}

static tp_status drop_the_odd(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    call->drop = call->index % 2;
    return in && out ? TP_OK : TP_ERR;
}
/* The processes seek past each other's datapoints by number: a map that drops what it promised to keep has other numbers. */
TEST(processes_with_a_map_that_drops_what_it_keeps)
{
    for (int threads = 0; threads <= 2; threads++) {
        tp_datapoint dp = {0, NULL, 0};
        tp_dataflow *df = passes_of(0, 6, true);
        df = threads ? tp_df_parallel_map(df, drop_the_odd, .num_thread = threads, .keeps_all = TP_YES)
                     : tp_df_map(df, drop_the_odd, .keeps_all = TP_YES);
        df = tp_df_multi_process(df, 2);
        tp_status st = tp_df_restart(df, 0);
        int n = 0;
        while (st == TP_OK && (st = tp_df_next(df, &dp)) == TP_OK) n++;
#ifdef _WIN32 /* which has no fork: the caller reads the flow itself, and nothing is given twice */
        CHECK(st == TP_END && n == 3);
#else
        CHECK_ERR(st, TP_ERR_ARG, "drops datapoints, but .keeps_all is TP_YES: tp_df_multi_process would give some of");
        CHECK_MSG(n < 2, "%d datapoints", n);
#endif
        tp_df_free(df);
        tp_datapoint_free(&dp);
    }
}

/* No components, none with elements, text, data that need ever more room, and as many dimensions as there may be. */
static tp_status of_all_sizes(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user, (void)pass;
    if (index >= 9) return TP_END;
    tp_status st = tp_datapoint_resize(dp, index == 4 ? 0 : 3);
    if (st != TP_OK || dp->n == 0) return st;
    const int64_t shape[TP_MAX_DIMS] = {(int64_t)1 << 2 * index, index == 2 ? 0 : 3, 1, 1, 1, 1, 1, 1};
    st = tp_datapoint_set_text(dp, 0, index % 2 ? "a cat" : "");
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_F64, tp_make_shape_n(index == 3 ? TP_MAX_DIMS : 2, shape));
    for (int64_t i = 0; st == TP_OK && i < tp_tensor_size(&dp->c[1]); i++)
        ((double *)dp->c[1].data)[i] = (double)(i * (index + 1)) / 7;
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[2], TP_BOOL, tp_make_shape_n(0, NULL));
    if (st == TP_OK) tp_tensor_set(&dp->c[2], 0, (double)(index % 2));
    return st;
}
TEST(datapoints_of_all_sizes_cross_over)
{
    tp_dataflow *df = tp_df_from_generator(of_all_sizes, NULL);
    const stream want = walk_of(df, 0, 2);
    CHECK(want.n == 20);
    tp_df_free(df);
    df = tp_df_multi_process(tp_df_from_generator(of_all_sizes, NULL), 2, .num_prefetch = 2);
    const stream got = walk_of(df, 0, 2);
    check_same(&got, &want, "all sizes");
    tp_df_free(df);
    df = tp_df_prefetch(tp_df_from_generator(of_all_sizes, NULL), .num_prefetch = 2);
    const stream again = walk_of(df, 0, 2);
    check_same(&again, &want, "all sizes, by a thread");
    tp_df_free(df);
}

/* Sizes behind the last dimension are 0, as those of every shape. */
TEST(shapes_cross_over_without_other_sizes)
{
    tp_datapoint dp = {0, NULL, 0};
    tp_dataflow *df = tp_df_multi_process(tp_df_from_generator(of_all_sizes, NULL), 1);
    int n = 0;
    for (; tp_df_next(df, &dp) == TP_OK; n++)
        for (int i = 0; i < dp.n; i++)
            for (int d = dp.c[i].shape.ndim; d < TP_MAX_DIMS; d++)
                CHECK_MSG(dp.c[i].shape.dim[d] == 0, "datapoint %d, component %d: size %d", n, i, d);
    CHECK(n == 9);
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

static tp_status some_break(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    (void)in, (void)out;
    return call->index == 2 || call->index == 9 ? tp_fail(TP_ERR_FORMAT, "%d.jpg is broken", (int)call->index) : TP_OK;
}
static tp_status as_it_came(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    return (void)call, tp_datapoint_view(out, in);
}
TEST(parts_of_no_fixed_order_are_refused)
{
    for (int ordered = 0; ordered < 2; ordered++)
        for (int n = 1; n <= 2; n++)
            for (int shard = 0; shard < 2; shard++) {
                tp_dataflow *df = tp_df_parallel_map(passes_of(0, 12, true), as_it_came, .num_thread = 2,
                                                     .ordered = ordered ? TP_YES : TP_NO);
                df = tp_df_take(df, 9);
                df = shard ? tp_df_shard(df, 0, n) : tp_df_multi_process(df, n);
                if (n == 1 || ordered) CHECK_OK(tp_df_status(df));
                else
                    CHECK_ERR(tp_df_status(df), TP_ERR_ARG,
                              "tp_df_parallel_map gives datapoints in an order that is not");
                tp_df_free(df);
            }
}
static tp_status lost_at_5(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    return index == 5 ? tp_fail(TP_ERR_IO, "it is lost") : pass_and_index(user, pass, index, dp);
}
TEST(failures_cross_over_in_order)
{
    for (int keeps_all = 0; keeps_all < 2; keeps_all++)
        for (int n = 1; n <= 3; n++) {
            tp_dataflow *df = tp_df_map(passes_of(0, 12, true), some_break, .keeps_all = keeps_all ? TP_YES : TP_NO);
            char want[1024];
            snprintf(want, sizeof want, "%s", told_by(df, 0, 2, 99));
            CHECK_HAS(want, "1 (TP_ERR_FORMAT: 2.jpg is broken [tp_df_map: pass 0, datapoint 2]) 3");
            tp_df_free(df);
            df = tp_df_map(passes_of(0, 12, true), some_break, .keeps_all = keeps_all ? TP_YES : TP_NO);
            df = tp_df_multi_process(df, n);
            CHECK_STR(told_by(df, 0, 2, 99), want);
            tp_df_free(df);
        }
    for (int kind = 0; kind < 3; kind++) /* a generator fails, and one that others skip by number */
        for (int n = 0; n <= 3; n++) {
            static char want[1024];
            tp_dataflow *df = tp_df_from_generator(lost_at_5, (void *)(intptr_t)12, .size = 12,
                                                   .indexed = kind == 1 ? TP_YES : TP_NO);
            if (kind == 2) df = tp_df_batch(tp_df_select(df, &(int){0}, 1), 2, .remainder = TP_YES);
            if (n) df = tp_df_multi_process(df, n);
            const char *text = told_by(df, 0, 2, 99);
            if (n) CHECK_STR(text, want);
            else snprintf(want, sizeof want, "%s", text);
            CHECK_HAS(text, kind == 2 ? " 2 (TP_ERR_IO: it is lost [tp_df_from_generator: pass 0, datapoint 5]) 6 8"
                                      : " 4 (TP_ERR_IO: it is lost [tp_df_from_generator: pass 0, datapoint 5]) 6 7");
            tp_df_free(df);
        }
    tp_queue *q = tp_queue_new(1); /* a flow that is walked once */
    tp_queue_close(q);
    tp_dataflow *df = tp_df_multi_process(tp_df_from_queue(q), 2);
    tp_queue_free(q);
    CHECK_STR(told_by(df, 0, 1, 5), "");
    const char *text = told_by(df, 1, 1, 3);
    CHECK_HAS(text, "can be walked only once"); /* each time: nobody waits */
    tp_df_free(df);
}

/* 0 to 11, once; 5 fails if user->fails. */
typedef struct once {
    int64_t at;
    bool fails;
} once;
static tp_status once_next(tp_dataflow *df, tp_datapoint *dp)
{
    once *o = (once *)df->user;
    const int64_t i = o->at++;
    if (o->fails && i == 5) return tp_fail(TP_ERR_IO, "it is lost");
    return pass_and_index((void *)(intptr_t)12, 0, i, dp);
}
static tp_dataflow *walked_once(bool fails)
{
    tp_dataflow *df = tp_df_new("once", sizeof(once), 0);
    df->next = once_next;
    ((once *)df->user)->fails = fails;
    return df;
}
/* A flow of one pass can be sought in processes before anything is read, also in several steps. */
TEST(processes_seek_a_flow_that_is_walked_once)
{
    for (int n = 0; n <= 3; n++)
        for (int first = 0; first <= 13; first++)
            for (int second = 0; second <= 13; second += 3) {
                tp_datapoint dp = {0, NULL, 0};
                int64_t k = 0, skipped = 0;
                tp_dataflow *df = n ? tp_df_multi_process(walked_once(false), n) : walked_once(false);
                CHECK_OK(tp_df_seek(df, first, &k));
                CHECK_OK(tp_df_seek(df, second, &skipped));
                skipped += k;
                CHECK_MSG(skipped == (first + second < 12 ? first + second : 12), "%d skipped", (int)skipped);
                for (int i = (int)skipped; i < 12; i++) {
                    if (!CHECK_OK(tp_df_next(df, &dp))) break;
                    CHECK(*(const int32_t *)dp.c[0].data == i);
                }
                CHECK(tp_df_next(df, &dp) == TP_END);
                tp_df_free(df);
                tp_datapoint_free(&dp);
            }
}
/* A seek of processes that comes to a failure tells it, once, and goes on behind it, as without processes. */
TEST(processes_seek_past_a_failure)
{
    for (int kind = 0; kind < 3; kind++)
        for (int n = 0; n <= 3; n++)
            for (int read = 0; read <= 11; read++)
                for (int seek = 1; seek <= 9; seek += 4) {
                    tp_datapoint dp = {0, NULL, 0};
                    int64_t skipped = -1;
                    if (kind == 0 && read) continue; /* read ahead, it cannot begin again */
                    tp_dataflow *df = kind == 0   ? walked_once(true)
                                      : kind == 1 ? tp_df_from_generator(lost_at_5, (void *)(intptr_t)12)
                                                  : tp_df_map(passes_of(0, 12, false), some_break);
                    const int fails = kind == 2 ? 2 : 5, again = kind == 2 ? 9 : 99;
                    if (n) df = tp_df_multi_process(df, n);
                    for (int i = 0; i < read; i++) {
                        const tp_status st = tp_df_next(df, &dp);
                        CHECK(i == fails || i == again ? st < TP_OK
                                                       : st == TP_OK && *(const int32_t *)dp.c[0].data == i);
                    }
                    const int at = read <= fails ? fails : read <= again ? again : 99; /* the failure that comes next */
                    const int met = at < read + seek ? at : -1, left = 12 - read < seek ? 12 - read : seek;
                    const tp_status st = tp_df_seek(df, seek, &skipped);
                    CHECK_MSG(met < 0 ? st == TP_OK && skipped == left : st < TP_OK && skipped == met - read,
                              "kind %d, %d processes: seek %d from %d: %s, %d skipped", kind, n, seek, read,
                              tp_status_name(st), (int)skipped);
                    if (met >= 0) CHECK_HAS(tp_last_error(), kind == 2 ? ".jpg is broken [" : "it is lost [");
                    const int next = met < 0 ? read + left : met + 1;
                    const tp_status then = tp_df_next(df, &dp);
                    CHECK_MSG(next == 12 ? then == TP_END
                              : next == fails || next == again
                                  ? then < TP_OK
                                  : then == TP_OK && *(const int32_t *)dp.c[0].data == next,
                              "kind %d, %d processes: behind seek %d from %d", kind, n, seek, read);
                    tp_df_free(df);
                    tp_datapoint_free(&dp);
                }
}

#if !defined(_WIN32) && !defined(TP_NO_FILES)
/* Worker processes may outlive a training that is killed by some milliseconds. The next one finds its log.log free. */
TEST(processes_do_not_claim_the_log)
{
    tp_datapoint dp = {0, NULL, 0};
    char dir[600], path[640];
    if (!tp_file_exists("/proc/self/fd")) TEST_SKIP("there is no /proc, by which they open it anew");
    snprintf(dir, sizeof dir, "%s/claimed", tp_test_tmpdir());
    snprintf(path, sizeof path, "%s/log.log", dir);
    tp_test_keep_log();
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    const int file = open(path, O_WRONLY | O_APPEND);
    CHECK(file >= 0 && flock(file, LOCK_EX | LOCK_NB) != 0);
    tp_dataflow *df = tp_df_multi_process(passes_of(0, 9, true), 2);
    for (int i = 0; i < 9; i++) CHECK_OK(tp_df_next(df, &dp));
    CHECK_OK(tp_logger_set_dir(NULL, 0)); /* this process gives it up, while its workers live */
    CHECK(flock(file, LOCK_EX | LOCK_NB) == 0);
    close(file);
    tp_df_free(df);
    tp_datapoint_free(&dp);
    tp_set_log(NULL, NULL);
}

static tp_status die(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    (void)in, (void)out;
    if (call->pass == 0 && call->index == 5) {
        if (call->user) _exit(3);
        kill(getpid(), SIGKILL);
    }
    return TP_OK;
}
TEST(a_process_that_dies_is_a_sentence)
{
    tp_datapoint dp = {0, NULL, 0};
    for (int how = 0; how < 2; how++)
        for (int n = 1; n <= 3; n++) {
            tp_dataflow *df = tp_df_map(passes_of(0, 9, true), die, how ? &yes : NULL, .keeps_all = TP_YES);
            df = tp_df_multi_process(df, n);
            int given = 0;
            tp_status st;
            while ((st = tp_df_next(df, &dp)) == TP_OK) given++;
            CHECK(given == 5); /* what it had made before is there */
            CHECK_ERR(st, TP_ERR, how ? "ended with status 3" : "was killed by signal 9");
            CHECK_HAS(tp_last_error(), "[tp_df_multi_process: pass 0, datapoint 5]");
            CHECK_ERR(tp_df_next(df, &dp), TP_ERR, "tp_df_restart starts it again");
            CHECK_ERR(tp_df_seek(df, 1, NULL), TP_ERR, "process ");
            CHECK_STR(told_by(df, 1, 1, 99), "100 101 102 103 104 105 106 107 108");
            tp_df_free(df);
        }
    CHECK(waitpid(-1, NULL, WNOHANG) == -1); /* no child is left */
    tp_datapoint_free(&dp);
}

/* Its socket stays open in a child of its own: the end of the process alone tells. */
static tp_status die_before_a_child(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    (void)in, (void)out;
    if (call->index != 2) return TP_OK;
    if (fork() == 0) {
        sleep(3);
        _exit(0);
    }
    return kill(getpid(), SIGKILL) == 0 ? TP_OK : TP_ERR;
}
TEST(a_process_that_dies_before_its_child_is_a_sentence)
{
    tp_datapoint dp = {0, NULL, 0};
    tp_dataflow *df = tp_df_multi_process(tp_df_map(passes_of(0, 9, true), die_before_a_child, .keeps_all = TP_YES), 1);
    int given = 0;
    tp_status st;
    while (given < 9 && (st = tp_df_next(df, &dp)) == TP_OK) given++;
    CHECK(given <= 2);
    CHECK_ERR(st, TP_ERR, "was killed by signal 9");
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

#include <sys/resource.h>
/* Where a process cannot be started the sentence tells why, whatever was undone since; when it can be, all is as usual. */
TEST(a_process_that_cannot_be_started_is_a_sentence)
{
    struct rlimit usual, few;
    const int lowest = dup(0);
    int refused[2] = {0, 0};
    if (lowest < 0 || getrlimit(RLIMIT_NOFILE, &usual) != 0) TEST_SKIP("no limit of open files");
    close(lowest);
    few = usual;
    for (int more = 0; more < 40; more++) {
        tp_dataflow *df = tp_df_multi_process(passes_of(0, 6, true), 2);
        few.rlim_cur = (rlim_t)(lowest + more);
        if (setrlimit(RLIMIT_NOFILE, &few) != 0) TEST_SKIP("the limit of open files cannot be lowered");
        const tp_status st = tp_df_restart(df, 1);
        setrlimit(RLIMIT_NOFILE, &usual);
        if (st != TP_OK) {
            const bool socket = strstr(tp_last_error(), "socket") != NULL;
            refused[socket]++;
            CHECK_ERR(st, TP_ERR,
                      socket ? "tp_df_multi_process: no socket can be made: " : "no shared memory can be made: ");
            CHECK_HAS(tp_last_error(), strerror(EMFILE));
        }
        CHECK_STR(told_by(df, 1, 1, 99), "100 101 102 103 104 105");
        tp_df_free(df);
        if (st == TP_OK) break;
    }
    CHECK_MSG(refused[0] >= 1 && refused[1] >= 2, "%d without memory, %d without a socket", refused[0], refused[1]);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1);
}

/* Where files may not be so large there is no shared memory either: the datapoint's sentence tells why, and the others come. */
static tp_status one_of_a_megabyte(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    tp_status st = pass_and_index(user, pass, index, dp);
    if (st == TP_OK && index == 1) st = tp_tensor_resize(&dp->c[1], TP_U8, tp_make_shape(1 << 20));
    return st;
}
TEST(shared_memory_that_may_not_grow_is_a_sentence)
{
    struct rlimit usual, small;
    char want[200];
    if (getrlimit(RLIMIT_FSIZE, &usual) != 0) TEST_SKIP("no limits on file sizes here");
    small = usual;
    small.rlim_cur = 1 << 18;
    if (setrlimit(RLIMIT_FSIZE, &small) != 0) TEST_SKIP("the limit on file sizes cannot be set");
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    tp_dataflow *df = tp_df_from_generator(one_of_a_megabyte, (void *)(intptr_t)4, .size = 4, .indexed = TP_YES);
    df = tp_df_multi_process(df, 1);
    const char *told = told_by(df, 0, 1, 99);
    setrlimit(RLIMIT_FSIZE, &usual);
    signal(SIGXFSZ, handler);
    snprintf(want, sizeof want, " bytes: %s [tp_df_multi_process: pass 0, datapoint 1]) 2 3", strerror(EFBIG));
    CHECK_HAS(told, "0 (TP_ERR_NOMEM: there is no shared memory for 10");
    CHECK_HAS(told, want);
    tp_df_free(df);
}

/* Writes over all of the memory that it shares with its parent, as a function that went astray may: when the parent says so. */
static int between[2]; /* sockets: the parent's, and the process's */
static tp_status goes_astray(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    char zeros[4096] = {0};
    struct stat s;
    if (index == 2 && read(between[1], zeros, 1) != 1) return TP_ERR_IO;
    for (int fd = 3; fd < 100 && index == 2; fd++)
        if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_nlink == 0)
            for (off_t at = 0; at < s.st_size; at += (off_t)sizeof zeros)
                if (pwrite(fd, zeros, sizeof zeros, at) < 0) return TP_ERR_IO;
    if (index == 2 && write(between[1], zeros, 1) != 1) return TP_ERR_IO;
    return pass_and_index(user, pass, index, dp);
}
TEST(a_datapoint_that_was_written_over_is_a_sentence)
{
    tp_datapoint dp = {0, NULL, 0};
    char byte;
    if (!CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, between) == 0)) return;
    tp_dataflow *df = tp_df_from_generator(goes_astray, (void *)(intptr_t)4, .size = 4, .indexed = TP_YES);
    df = tp_df_multi_process(df, 1, .num_prefetch = 3);
    CHECK_OK(tp_df_next(df, &dp));
    CHECK(write(between[0], "", 1) == 1 && read(between[0], &byte, 1) == 1);
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_FORMAT, "a process reported a datapoint that is not in its shared memory");
    for (int i = 2; i < 4; i++) CHECK(tp_df_next(df, &dp) == TP_OK && *(const int32_t *)dp.c[0].data == i);
    CHECK(tp_df_next(df, &dp) == TP_END);
    tp_df_free(df);
    tp_datapoint_free(&dp);
    close(between[0]), close(between[1]);
}

static tp_status number_of_its_process(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user, (void)pass;
    tp_status st = index < 60 ? tp_datapoint_resize(dp, 1) : TP_END;
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_I32, tp_make_shape_n(0, NULL));
    if (st == TP_OK) *(int32_t *)dp->c[0].data = (int32_t)getpid();
    return st;
}
/* One that died while nobody listened is noticed behind the datapoints that it had made; where it is told to begin, at once. */
TEST(a_process_that_dies_between_two_datapoints_is_a_sentence)
{
    tp_datapoint dp = {0, NULL, 0};
    for (int begin = 0; begin < 2; begin++)
        for (int n = 1; n <= 2; n++) {
            siginfo_t info;
            tp_dataflow *df = tp_df_multi_process(
                tp_df_from_generator(number_of_its_process, NULL, .size = 60, .indexed = TP_YES), n);
            if (CHECK_OK(tp_df_next(df, &dp))) {
                const pid_t pid = (pid_t) * (const int32_t *)dp.c[0].data;
                CHECK(pid != getpid());
                if (begin) CHECK_OK(tp_df_restart(df, 1));
                CHECK(kill(pid, SIGKILL) == 0 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
                int given = 0;
                tp_status st;
                while ((st = tp_df_next(df, &dp)) == TP_OK) given++;
                CHECK(begin && n == 1 ? given == 0 : given < 60);
                CHECK_ERR(st, TP_ERR, "was killed by signal 9");
                CHECK_ERR(tp_df_next(df, &dp), TP_ERR, "tp_df_restart starts it again");
                CHECK_OK(tp_df_restart(df, 2));
                given = 0;
                for (; tp_df_next(df, &dp) == TP_OK; given++) CHECK(*(const int32_t *)dp.c[0].data != pid);
                CHECK(given == 60);
            }
            tp_df_free(df);
        }
    tp_datapoint_free(&dp);
}

/* Datapoint 1 has a component of so many bytes. */
static tp_status sometimes_too_large(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    static const char byte = 0;
    tp_status st = pass_and_index((void *)(intptr_t)4, pass, index, dp);
    if (st == TP_OK && index == 1) tp_tensor_view(&dp->c[1], TP_U8, tp_make_shape_n(1, (const int64_t *)user), &byte);
    return st;
}
TEST(a_datapoint_too_large_for_processes_is_a_sentence)
{
    /* it has no place among all addresses, with its head; or it has, and the room around it has none */
    static int64_t sizes[] = {PTRDIFF_MAX - 1, PTRDIFF_MAX - 1024};
    for (int i = 0; i < (sizeof(void *) == 8 ? 2 : 1); i++)
        for (int n = 1; n <= 2; n++) {
            tp_dataflow *df = tp_df_from_generator(sometimes_too_large, &sizes[i], .size = 4, .indexed = TP_YES);
            df = tp_df_multi_process(df, n);
            CHECK_STR(told_by(df, 0, 1, 99), "0 (TP_ERR_NOMEM: the datapoint does not fit into memory "
                                             "[tp_df_multi_process: pass 0, datapoint 1]) 2 3");
            tp_df_free(df);
        }
}

static tp_status sleep_in_turn(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    const int *fd = (const int *)call->user;
    char one = 'x';
    (void)in, (void)out;
    if (call->index == 1 && write(fd[1], &one, 1) == 1) tp_test_sleep(30); /* one is in its function, */
    return TP_OK;                                                          /* the others wait for room or orders */
}
TEST(processes_die_with_their_parent)
{
    int fd[2];
    char c;
    if (!CHECK(pipe(fd) == 0)) return;
    const pid_t child = fork();
    if (child == 0) {
        tp_datapoint dp = {0, NULL, 0};
        tp_dataflow *df = tp_df_map(passes_of(0, 900, true), sleep_in_turn, fd, .keeps_all = TP_YES);
        df = tp_df_multi_process(df, 4, .num_prefetch = 2);
        while (tp_df_next(df, &dp) == TP_OK) {}
        _exit(0);
    }
    close(fd[1]);
    CHECK(read(fd[0], &c, 1) == 1);
    tp_test_sleep(0.02);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    const double start = tp_time();
    CHECK(read(fd[0], &c, 1) == 0); /* all that held the other end are gone */
#ifndef TP_NO_THREADS
    CHECK_MSG(tp_time() - start < 30, "it took %g s", tp_time() - start);
#endif
    close(fd[0]);
}

TEST(a_flow_that_is_freed_leaves_no_process_and_no_file)
{
    int fd[2];
    char c;
    for (int i = 0; i < 3; i++) {
        if (!CHECK(pipe(fd) == 0)) return;
        tp_datapoint dp = {0, NULL, 0};
        tp_dataflow *df =
            tp_df_map(passes_of(0, 900, true), i == 2 ? sleep_in_turn : shake, i == 2 ? fd : NULL, .keeps_all = TP_YES);
        df = tp_df_multi_process(df, 3, .num_prefetch = 2);
        CHECK_OK(tp_df_restart(df, 0));
        if (i) CHECK_OK(tp_df_next(df, &dp));
        DIR *shm = opendir("/dev/shm");
        for (const struct dirent *e; shm && (e = readdir(shm));)
            CHECK_MSG(strncmp(e->d_name, "tp-", 3) != 0, "%s", e->d_name);
        if (shm) closedir(shm);
        const double start = tp_time();
        tp_df_free(df);
        CHECK_MSG(tp_time() - start < 30, "it took %g s", tp_time() - start);
        close(fd[1]);
        while (read(fd[0], &c, 1) == 1) {} /* ends when nobody holds the other end */
        close(fd[0]);
        tp_datapoint_free(&dp);
    }
    CHECK(waitpid(-1, NULL, WNOHANG) == -1);
}

/* The next byte of a pipe, which may never come. */
static tp_status from_pipe(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    unsigned char byte;
    (void)pass, (void)index;
    if (read(((const int *)user)[0], &byte, 1) != 1) return TP_END;
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_I32, tp_make_shape_n(0, NULL));
    if (st == TP_OK) *(int32_t *)dp->c[0].data = byte;
    return st;
}

/* The socket of the first flow is also in the processes of the second: they do not keep those of the first waiting. */
TEST(one_of_two_flows_is_freed_at_once)
{
    int fd[2];
    tp_datapoint dp = {0, NULL, 0};
    if (!CHECK(pipe(fd) == 0)) return;
    tp_dataflow *one = tp_df_multi_process(tp_df_from_generator(from_pipe, fd), 1);
    tp_dataflow *two = tp_df_multi_process(passes_of(0, 900, true), 2);
    CHECK_OK(tp_df_restart(one, 0));
    CHECK(write(fd[1], "a", 1) == 1); /* it waits for the next one */
    CHECK_OK(tp_df_next(one, &dp));
    CHECK_OK(tp_df_next(two, &dp));
    const double start = tp_time();
    tp_df_free(one);
#ifndef TP_NO_THREADS
    CHECK_MSG(tp_time() - start < 1.9, "it took %g s", tp_time() - start);
#endif
    CHECK_OK(tp_df_next(two, &dp));
    tp_df_free(two);
    close(fd[0]), close(fd[1]);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1);
    tp_datapoint_free(&dp);
}

#ifndef TP_NO_THREADS
static tp_status as_it_is(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    (void)in, (void)out, (void)call;
    return TP_OK;
}
/* A source whose processes wait for data that never come is reset and freed at once. */
TEST(a_source_whose_processes_wait_is_freed)
{
    for (int kind = 0; kind < 5; kind++) {
        const tp_spec spec = {"x", TP_I32, {0, {0}}};
        int fd[2];
        if (!CHECK(pipe(fd) == 0)) return;
        tp_dataflow *df = tp_df_multi_process(tp_df_from_generator(from_pipe, fd), kind == 1 ? 1 : 3);
        if (kind == 2) df = tp_df_prefetch(df);
        if (kind == 3) df = tp_df_parallel_map(df, as_it_is, .num_thread = 2);
        if (kind == 4) df = tp_df_take(tp_df_map(df, as_it_is), 1000);
        tp_input_source *s = tp_queue_input(df);
        tp_graph *g = tp_graph_new(NULL);
        double start = tp_time();
        if (CHECK_OK(tp_input_setup(s, g, &spec, 1)) && CHECK_OK(tp_input_reset_state(s))) {
            tp_test_sleep(0.03); /* they wait */
            CHECK_OK(tp_input_reset_state(s));
            tp_test_sleep(0.03);
        }
        tp_input_free(s);
        CHECK_MSG(tp_time() - start < 1.9, "kind %d took %g s", kind, tp_time() - start);
        start = tp_time();
        df = tp_df_prefetch(tp_df_multi_process(tp_df_from_generator(from_pipe, fd), 2)); /* and without a source */
        tp_datapoint dp = {0, NULL, 0};
        CHECK(write(fd[1], "a", 1) == 1);
        if (kind == 0) CHECK_OK(tp_df_restart(df, 0));
        tp_df_free(df);
        CHECK_MSG(tp_time() - start < 1.9, "kind %d took %g s", kind, tp_time() - start);
        tp_datapoint_free(&dp);
        tp_graph_free(g);
        close(fd[0]), close(fd[1]);
        CHECK(waitpid(-1, NULL, WNOHANG) == -1);
    }
}

/* A process that waits when its source is reset drops what it waited for, and then makes the datapoints of the new pass. */
TEST(processes_go_on_after_a_reset)
{
    const tp_spec spec = {"x", TP_I32, {0, {0}}};
    int fd[2];
    if (!CHECK(pipe(fd) == 0)) return;
    tp_graph *g = tp_graph_new(NULL);
    tp_input_source *s = tp_queue_input(tp_df_multi_process(tp_df_from_generator(from_pipe, fd), 1));
    tp_node *x = NULL;
    const tp_tensor *value;
    if (CHECK_OK(tp_input_setup(s, g, &spec, 1)) && CHECK_OK(tp_input_get_tensors(s, &x))) {
        int n = 0;
        tp_hook *const *hooks = tp_input_hooks(s, &n);
        tp_node *y = tp_add(x, x);
        tp_session *session = tp_session_new(g, NULL);
        for (int i = 0; i < n; i++)
            if (hooks[i]->after_create_session) CHECK_OK(hooks[i]->after_create_session(hooks[i], session));
        tp_hooked_session *hooked = tp_hooked_session_new(session, hooks, n);
        for (int i = 0; i < 3; i++) {
            CHECK_OK(tp_input_reset_state(s));
            tp_test_sleep(0.02);
        }
        CHECK(write(fd[1], "\7\1\2\3\4", 5) == 5);
        for (int i = 1; i <= 4; i++)
            CHECK(tp_hooked_run(hooked, &y, 1, &value) == TP_OK && tp_tensor_get(value, 0) == 2 * i);
        tp_hooked_session_free(hooked);
        tp_session_free(session);
    }
    tp_input_free(s);
    tp_graph_free(g);
    close(fd[0]), close(fd[1]);
}
#endif
#endif

/* ==== >>misuse ======================================================================================== */

static tp_dataflow *the_same(void *user, int i)
{
    (void)i;
    return *(tp_dataflow **)user;
}
static void count_release(void *user) { ++*(int *)user; }

TEST(wrong_arguments_are_sentences)
{
    tp_test_fail_after(0);
    int released = 0, n = 4;
    tp_dataflow *one = passes_of(0, 4, true);
    tp_dataflow *const wrong[] = {
        tp_df_prefetch(passes_of(0, 4, true), .num_prefetch = -1),
        tp_df_parallel_map(passes_of(0, 4, true), NULL),
        tp_df_parallel_map(passes_of(0, 4, true), shake, &released, .num_thread = -1, .release = count_release),
        tp_df_parallel_map(passes_of(0, 4, true), shake, .buffer_size = INT_MAX),
        tp_df_multi_thread(NULL, 2),
        tp_df_multi_thread(get_df, 0, &n),
        tp_df_multi_thread(the_same, 2, &one),
        tp_df_multi_thread(get_df, 2, &n, .num_prefetch = -4),
        tp_df_multi_process(passes_of(0, 4, true), 0),
        tp_df_multi_process(passes_of(0, 4, true), 2, .num_prefetch = -1),
        tp_df_multi_process_(NULL),
        tp_df_prefetch_(NULL),
        tp_df_parallel_map_(NULL),
        tp_df_multi_thread_(NULL),
        tp_df_prefetch(tp_df_parallel_map(tp_df_take(passes_of(0, 4, true), 0), shake)),
    };
    const char *const text[] = {"num_prefetch is -1",
                                "the function is NULL",
                                "num_thread is -1: give 0 to 1024",
                                "map: buffer_size is 2147483647: give 0 to 16777216",
                                "get_df is NULL",
                                "num_thread is 0",
                                "given away twice",
                                "num_prefetch is -4",
                                "num_proc is 0: give 1 to 1024",
                                "num_prefetch is -1",
                                "descriptor is NULL",
                                "descriptor is NULL",
                                "descriptor is NULL",
                                "descriptor is NULL",
                                "tp_df_take: 0"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK_ERR(tp_df_status(wrong[i]), TP_ERR_ARG, text[i]);
        tp_df_free(wrong[i]);
    }
    CHECK(released == 1);
    static const int most[][3] = {{1, 0, 1}, {1024, 0, 1}, {1025, 0, 0}, {1, 1 << 24, 1}, {1, (1 << 24) + 1, 0}};
    for (int i = 0; i < TP_COUNT(most); i++) { /* processes and buffers as many as can be, and one more */
        tp_dataflow *df = tp_df_multi_process(passes_of(0, 4, true), most[i][0], .num_prefetch = most[i][1]);
        CHECK_MSG(tp_df_status(df) == (most[i][2] ? TP_OK : TP_ERR_ARG), "%d processes, %d buffers: %s", most[i][0],
                  most[i][1], tp_last_error());
        if (!most[i][2]) CHECK_HAS(tp_last_error(), most[i][0] > 1024 ? "give 1 to 1024" : "give 1 to 16777216, or 0");
        tp_df_free(df);
    }
    CHECK(tp_df_prefetch(NULL) == NULL && tp_df_multi_process(NULL, 2) == NULL &&
          tp_df_multi_thread(third, 2, &n) == NULL);
    CHECK(tp_df_parallel_map(NULL, shake, &released, .release = count_release) == NULL);
    CHECK(released == 2);
    tp_df_free(tp_df_parallel_map(passes_of(0, 4, true), shake, &released, .release = count_release));
    CHECK(released == 3);
    CHECK(tp_test_live_blocks() == 0);
    tp_test_alloc_reset();
}

TEST_MAIN()
