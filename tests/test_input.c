/* test_input.c - data flows and input sources (tp_input.h) */
#define TP_IMPLEMENTATION
#include "tp_input.h"
#include "seek_help.h"
#include "tp_test.h"

/* ==== >>helpers ======================================================================================= */

/* D(n): the datapoints [0], [1], ..., [n-1], int32 scalars. */
static tp_dataflow *numbers(int n, int shuffle)
{
    int32_t value[64];
    for (int i = 0; i < n; i++) value[i] = i;
    tp_tensor t = {TP_I32, {1, {n}}, value, NULL, 0, NULL, NULL, 0};
    return tp_df_from_arrays(&t, 1, .shuffle = shuffle);
}

/* The same as a flow without seek, so that seeking replays. */
static tp_status count_to(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)pass;
    if (index >= *(const int *)user) return TP_END;
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_I32, tp_make_shape_n(0, NULL));
    if (st == TP_OK) *(int32_t *)dp->c[0].data = (int32_t)index;
    return st;
}

/* "0 1 2 | 3 4": what `passes` passes give; components with commas, elements of a batch in brackets. */
static const char *walk_from(tp_dataflow *df, int64_t first, int passes, int most)
{
    static char text[4096];
    size_t n = 0;
    tp_datapoint dp = {0, NULL, 0};
    text[0] = 0;
    for (int p = 0; p < passes; p++) {
        tp_status st = tp_df_restart(df, first + p);
        if (p > 0) n += (size_t)snprintf(text + n, sizeof text - n, " |");
        for (int i = 0; st == TP_OK && i < most && (st = tp_df_next(df, &dp)) == TP_OK; i++) {
            n += (size_t)snprintf(text + n, sizeof text - n, n ? " " : "");
            for (int c = 0; c < dp.n && n < sizeof text - 64; c++) {
                if (c) n += (size_t)snprintf(text + n, sizeof text - n, ",");
                if (dp.c[c].shape.ndim) n += (size_t)snprintf(text + n, sizeof text - n, "[");
                for (int64_t k = 0; k < tp_tensor_size(&dp.c[c]); k++)
                    n += (size_t)snprintf(text + n, sizeof text - n, k ? " %g" : "%g", tp_tensor_get(&dp.c[c], k));
                if (dp.c[c].shape.ndim) n += (size_t)snprintf(text + n, sizeof text - n, "]");
            }
        }
        if (st < TP_OK) snprintf(text + n, sizeof text - n, " %s: %s", tp_status_name(st), tp_last_error());
        if (st == TP_END) CHECK(tp_df_next(df, &dp) == TP_END); /* it stays */
    }
    tp_datapoint_free(&dp);
    return text;
}
static const char *walk(tp_dataflow *df, int passes) { return walk_from(df, 0, passes, 100); }

static void check_walk_(tp_dataflow *df, int passes, const char *want, int64_t size, int line)
{
    const int64_t got = tp_df_size(df);
    const char *text = walk(df, passes);
    CHECK_MSG(strcmp(text, want) == 0, "line %d: \"%s\", expected \"%s\"", line, text, want);
    CHECK_MSG(got == size, "line %d: size %lld, expected %lld", line, (long long)got, (long long)size);
    tp_df_free(df);
}
#define check_walk(df_, passes_, want_, size_) check_walk_((df_), (passes_), (want_), (size_), __LINE__)

static tp_status double_even(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    const int32_t v = *(const int32_t *)in->c[0].data;
    call->drop = v % 2 != 0;
    tp_status st = tp_tensor_resize(&out->c[0], TP_I32, in->c[0].shape);
    if (st == TP_OK) *(int32_t *)out->c[0].data = 2 * v;
    return st;
}

static tp_status add_one(const tp_tensor *in, tp_tensor *out, tp_map_call *call)
{
    (void)call;
    tp_status st = tp_tensor_resize(out, TP_I32, in->shape);
    for (int64_t i = 0; i < tp_tensor_size(in) && st == TP_OK; i++)
        ((int32_t *)out->data)[i] = ((const int32_t *)in->data)[i] + 1;
    return st;
}

/* An augmentation: a random number of its own for each datapoint, and the index. */
static tp_status augment(const tp_tensor *in, tp_tensor *out, tp_map_call *call)
{
    tp_status st = tp_tensor_resize(out, TP_F64, in->shape);
    if (st == TP_OK)
        *(double *)out->data = tp_tensor_get(in, 0) + (double)call->index / 100 +
                               (double)tp_random_uniform(call->key, (uint64_t)call->index, 0) / 1000;
    return st;
}

/* ==== >>dataflow ====================================================================================== */

TEST(golden_batch)
{
    check_walk(tp_df_batch(numbers(7, TP_NO), 3), 1, "[0 1 2] [3 4 5]", 2);
    check_walk(tp_df_batch(numbers(7, TP_NO), 3, .remainder = TP_YES), 2, "[0 1 2] [3 4 5] [6] | [0 1 2] [3 4 5] [6]",
               3);
    check_walk(tp_df_batch(numbers(6, TP_NO), 3, .remainder = TP_YES), 1, "[0 1 2] [3 4 5]", 2);
    tp_dataflow *df = tp_df_batch(numbers(2, TP_NO), 3);
    tp_datapoint dp = {0, NULL, 0};
    CHECK_ERR(tp_df_status(df), TP_ERR_ARG, "only 2 datapoints");
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_ARG, "test_input.c:");
    tp_df_free(df);
}

TEST(golden_fixed_size)
{
    check_walk(tp_df_fixed_size(numbers(5, TP_NO), 3), 4, "0 1 2 | 3 4 0 | 1 2 3 | 4 0 1", 3);
    check_walk(tp_df_fixed_size(numbers(5, TP_NO), 3, .keep_state = TP_NO), 2, "0 1 2 | 0 1 2", 3);
    check_walk(tp_df_fixed_size(numbers(5, TP_NO), 6, .keep_state = TP_NO), 2, "0 1 2 3 4 0 | 0 1 2 3 4 0", 6);
    tp_dataflow *df = tp_df_fixed_size(numbers(5, TP_NO), 3);
    CHECK_STR(walk_from(df, 3, 1, 9), "4 0 1"); /* straight to a later pass, and back */
    CHECK_STR(walk_from(df, 1, 2, 9), "3 4 0 | 1 2 3");
    tp_df_free(df);
}

TEST(golden_others)
{
    tp_dataflow *two[2];
    check_walk(tp_df_repeated(numbers(3, TP_NO), 2), 2, "0 1 2 0 1 2 | 0 1 2 0 1 2", 6);
    two[0] = numbers(3, TP_NO), two[1] = numbers(2, TP_NO);
    check_walk(tp_df_join(two, 2), 2, "0,0 1,1 | 0,0 1,1", 2);
    two[0] = numbers(2, TP_NO), two[1] = numbers(3, TP_NO);
    check_walk(tp_df_concat(two, 2), 2, "0 1 0 1 2 | 0 1 0 1 2", 5);
    check_walk(tp_df_map(numbers(5, TP_NO), double_even), 2, "0 4 8 | 0 4 8", 5);
    two[0] = numbers(3, TP_NO), two[1] = numbers(3, TP_NO);
    check_walk(tp_df_map_component(tp_df_join(two, 2), add_one, .index = 1), 1, "0,1 1,2 2,3", 3);
    two[0] = numbers(2, TP_NO), two[1] = tp_df_map_component(numbers(2, TP_NO), add_one, 0);
    const int pick[3] = {1, 0, 1};
    check_walk(tp_df_select(tp_df_join(two, 2), pick, 3), 1, "1,0,1 2,1,2", 2);
    check_walk(tp_df_cast(numbers(3, TP_NO), 0, TP_F32, 0.5), 1, "0 0.5 1", 3);
    check_walk(tp_df_cast(numbers(3, TP_NO), 0, TP_F64, 0.25), 1, "0 0.25 0.5", 3);
    check_walk(tp_df_print(numbers(3, TP_NO), 0, "D3"), 1, "0 1 2", 3);
    tp_dataflow *forever = tp_df_repeated(numbers(2, TP_NO), -1);
    CHECK(tp_df_size(forever) == -1);
    CHECK_STR(walk_from(forever, 0, 1, 7), "0 1 0 1 0 1 0");
    tp_df_free(forever);
}

TEST(list_copies_and_shapes_may_differ)
{
    float a[2] = {1, 2}, b[3] = {3, 4, 5};
    tp_tensor x = {TP_F32, {1, {2}}, a, NULL, 0, NULL, NULL, 0}, y = {TP_F32, {1, {3}}, b, NULL, 0, NULL, NULL, 0};
    tp_datapoint points[2] = {{1, &x, 1}, {1, &y, 1}};
    tp_dataflow *df = tp_df_from_list(points, 2, .shuffle = TP_NO);
    a[0] = b[0] = 99;
    CHECK_STR(walk(df, 1), "[1 2] [3 4 5]");
    df = tp_df_batch(df, 2);
    tp_datapoint dp = {0, NULL, 0};
    tp_df_restart(df, 0);
    CHECK_ERR(
        tp_df_next(df, &dp), TP_ERR_SHAPE,
        "component 0 of datapoint 1 of batch 0 is float32 (3), in the first it is float32 (2): make them alike with "
        "tp_df_map_component, or let .pad = TP_YES of tp_df_batch fill the shorter ones up");
    tp_datapoint_free(&dp);
    tp_df_free(df);
    check_walk(tp_df_from_list(NULL, 0), 2, " |", 0);
}

TEST(shuffles_are_functions_of_seed_and_pass)
{
    tp_dataflow *df = numbers(20, TP_YES);
    char pass0[512], pass3[512];
    snprintf(pass0, sizeof pass0, "%s", walk_from(df, 0, 1, 99));
    snprintf(pass3, sizeof pass3, "%s", walk_from(df, 3, 1, 99));
    CHECK(strcmp(pass0, pass3) != 0);
    CHECK_STR(walk_from(df, 0, 1, 99), pass0); /* again, and going back */
    int seen[20] = {0};
    tp_datapoint dp = {0, NULL, 0};
    tp_df_restart(df, 3);
    while (tp_df_next(df, &dp) == TP_OK) seen[*(const int32_t *)dp.c[0].data]++;
    for (int i = 0; i < 20; i++) CHECK(seen[i] == 1);
    tp_df_free(df);
    df = numbers(20, TP_YES);
    CHECK_STR(walk_from(df, 3, 1, 99), pass3); /* pass 3 without passes 0 to 2 */
    tp_df_free(df);
    int32_t value[20];
    for (int i = 0; i < 20; i++) value[i] = i;
    tp_tensor t = {TP_I32, {1, {20}}, value, NULL, 0, NULL, NULL, 0};
    df = tp_df_from_arrays(&t, 1, .seed = 43);
    CHECK(strcmp(walk_from(df, 0, 1, 99), pass0) != 0);
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

TEST(locally_shuffle_keeps_its_promises)
{
    tp_dataflow *as_is = tp_df_locally_shuffle(numbers(10, TP_NO), .buffer_size = 1); /* nothing to shuffle with */
    CHECK_STR(walk_from(as_is, 0, 1, 10), "0 1 2 3 4 5 6 7 8 9");
    tp_df_free(as_is);
    for (int reuse = 1; reuse <= 3; reuse++) {
        tp_dataflow *df =
            tp_df_locally_shuffle(numbers(10, TP_NO), .buffer_size = 4, .num_reuse = reuse, .shuffle_interval = 2);
        CHECK(tp_df_size(df) == 10 * reuse);
        tp_datapoint dp = {0, NULL, 0};
        int seen[10] = {0}, given = 0, moved = 0;
        for (; given < 400 && CHECK_OK(tp_df_next(df, &dp)); given++) {
            const int v = *(const int32_t *)dp.c[0].data;
            seen[v]++;
            /* output k leaves when insertion k+4 comes: no input from beyond it can have been seen */
            if (given < 10 * reuse - 4) CHECK(v <= (given + 4) / reuse);
            moved += v != given / reuse % 10;
        }
        for (int i = 0; i < 10; i++) CHECK_MSG(abs(seen[i] - 40) <= 4, "%d came %d times", i, seen[i]);
        CHECK(moved > 100);
        char first[512];
        snprintf(first, sizeof first, "%s", walk_from(df, 0, 1, 50));
        CHECK_STR(walk_from(df, 0, 1, 50), first);
        CHECK(strcmp(walk_from(df, 1, 1, 50), first) != 0);
        tp_datapoint_free(&dp);
        tp_df_free(df);
    }
    for (int size = 1; size <= 9;
         size++) { /* the defaults: each datapoint once, shuffled after a third of the buffer */
        char text[2][512];
        for (int k = 0; k < 2; k++) {
            const int third = size < 3 ? 1 : size / 3;
            tp_dataflow *df =
                tp_df_locally_shuffle(numbers(20, TP_NO), size, .num_reuse = k, .shuffle_interval = k * third);
            snprintf(text[k], sizeof text[k], "%s", walk_from(df, 0, 1, 60));
            tp_df_free(df);
        }
        CHECK_STR(text[0], text[1]);
    }
    tp_dataflow *df = tp_df_locally_shuffle(numbers(3, TP_NO), 0);
    CHECK_ERR(tp_df_status(df), TP_ERR_ARG, "buffer_size is 0: give 1 to 2147483646");
    tp_df_free(df);
}

/* Sources of a buffer: one that seeks; one without seek; one that drops; passes that are shuffled; one that seeks and has passes of
 * another length each. */
static tp_dataflow *shuffle_source(int kind, int *n)
{
    tp_dataflow *two[2];
    switch (kind) {
    case 0: return tp_df_from_generator(count_to, n, .size = *n, .indexed = TP_YES);
    case 1: return tp_df_from_generator(count_to, n);
    case 2: return tp_df_map(tp_df_from_generator(count_to, n, .size = *n, .indexed = TP_YES), double_even);
    case 3: return numbers(*n, TP_YES);
    default:
        two[0] = numbers(*n, TP_YES),
        two[1] = tp_df_map_component(numbers(*n, TP_YES), augment, 0, .keeps_all = TP_YES);
        return tp_df_random_mix(two, 2);
    }
}
/* The buffer after a seek is that after a walk: sources shorter and longer than the buffer, several passes of them, from the start and
 * from within, one seek behind another. */
TEST(locally_shuffle_seeks_to_the_same_order)
{
    static const int lengths[] = {1, 2, 5, 17, 40}, first[] = {0, 1, 3}, second[] = {0, 7, 23};
    tp_datapoint a = {0, NULL, 0}, b = {0, NULL, 0};
    for (int c = 0; c < 5 * 5 * 9 * 3 * 3; c++) {
        int n = lengths[c % 5], kind = c / 5 % 5, size = c / 25 % 9 + 1, reuse = c / 225 % 3 + 1, third = c / 675;
        tp_dataflow *df[2];
        for (int k = 0; k < 2; k++)
            df[k] = tp_df_locally_shuffle(shuffle_source(kind, &n), size, .num_reuse = reuse,
                                          .shuffle_interval = 2 * third);
        for (int walk = 0; walk < 9; walk++) {
            const int64_t far[2] = {first[walk % 3] + 11 * walk, second[walk / 3]};
            const int64_t pass = walk % 2 * 3;
            CHECK_OK(tp_df_restart(df[0], pass));
            CHECK_OK(tp_df_restart(df[1], pass));
            for (int part = 0; part < 2; part++) {
                int64_t skipped = -1;
                for (int64_t i = 0; i < far[part]; i++) CHECK_OK(tp_df_next(df[0], &a));
                CHECK_OK(tp_df_seek(df[1], far[part], &skipped));
                CHECK(skipped == far[part]);
                for (int i = 0; i < (part ? 2 * size + 9 : walk % 4); i++) {
                    if (!CHECK_OK(tp_df_next(df[0], &a)) || !CHECK_OK(tp_df_next(df[1], &b))) break;
                    const double want = tp_tensor_get(&a.c[0], 0), got = tp_tensor_get(&b.c[0], 0);
                    CHECK_MSG(!(want < got || want > got),
                              "source %d of %d, buffer %d, reuse %d, interval %d: number %d after %d and %d is %g, a "
                              "walk gives %g",
                              kind, n, size, reuse, 2 * third, i, (int)far[0], (int)far[1], got, want);
                }
            }
        }
        for (int k = 0; k < 2; k++) tp_df_free(df[k]);
    }
    tp_datapoint_free(&a);
    tp_datapoint_free(&b);
}

static int n_counted, fails_at, lost; /* fails_at: the call that fails; lost: the datapoint that fails */
static tp_status count_calls(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user;
    static const int many = 5000;
    n_counted++;
    if (n_counted == fails_at) lost = (int)(pass * many + index);
    if (n_counted == fails_at || pass * many + index == lost) return tp_fail(TP_ERR_IO, "cat.jpg is gone");
    tp_status st = count_to((void *)(uintptr_t)&many, pass, index, dp);
    if (st == TP_OK) *(int32_t *)dp->c[0].data += (int32_t)(pass * many);
    return st;
}
/* A seek reads what the buffer holds, once each, however long the way is, and nothing after it; a failure there is told, and the next
 * call goes on behind it, as a walk does. */
TEST(locally_shuffle_reads_only_its_buffer_to_seek)
{
    enum { BUFFER = 100, FAR = 43210 };
    tp_datapoint dp = {0, NULL, 0};
    int32_t want[2 * BUFFER];
    int most = 0;
    for (int reuse = 1; reuse <= 3; reuse += 2)
        for (int way = 0; way < 4; way++) { /* a walk, a seek, two failures in the seek: an early one, a late one */
            int64_t skipped = -1;
            tp_dataflow *df = tp_df_locally_shuffle(tp_df_from_generator(count_calls, .size = 5000, .indexed = TP_YES),
                                                    BUFFER, .num_reuse = reuse);
            n_counted = 0;
            fails_at = way == 2 ? 1 : way == 3 ? most : 0;
            lost = -1;
            for (int i = 0; i < FAR && way == 0; i++) CHECK_OK(tp_df_next(df, &dp));
            if (way == 1) {
                CHECK_OK(tp_df_seek(df, FAR, &skipped));
                CHECK(skipped == FAR);
                most = n_counted;
                CHECK_MSG(most <= BUFFER + 2 && most > BUFFER / 4, "%d datapoints were read", most);
            }
            if (way > 1) {
                CHECK_ERR(tp_df_seek(df, FAR, &skipped), TP_ERR_IO, "cat.jpg is gone [tp_df_from_generator: pass ");
                CHECK(skipped < FAR);
                CHECK_OK(tp_df_seek(df, FAR - skipped, NULL));
                CHECK_MSG(n_counted == most + 1, "%d datapoints were read, %d without a failure", n_counted, most);
                tp_dataflow *walk = tp_df_locally_shuffle(
                    tp_df_from_generator(count_calls, .size = 5000, .indexed = TP_YES), BUFFER, .num_reuse = reuse);
                int failures = 0;
                for (int i = 0; i < FAR + 2 * BUFFER; i++) {
                    tp_status st = tp_df_next(walk, &dp);
                    if (st == TP_ERR_IO && !failures++) st = tp_df_next(walk, &dp);
                    if (CHECK_OK(st) && i >= FAR) want[i - FAR] = *(const int32_t *)dp.c[0].data;
                }
                CHECK(failures == 1);
                tp_df_free(walk);
            }
            for (int i = 0; i < 2 * BUFFER && CHECK_OK(tp_df_next(df, &dp)); i++) {
                const int32_t got = *(const int32_t *)dp.c[0].data;
                if (way == 0) want[i] = got;
                CHECK_MSG(got == want[i], "way %d, reuse %d, %d: %d instead of %d", way, reuse, i, (int)got,
                          (int)want[i]);
            }
            tp_df_free(df);
        }
    tp_datapoint_free(&dp);
    lost = -1;
    for (long n = 1, failed = 1; failed; n++) { /* without memory; a seek that failed is left by a restart */
        tp_test_fail_after(n);
        tp_dataflow *df = tp_df_locally_shuffle(tp_df_from_generator(count_calls, .size = 5000, .indexed = TP_YES), 9,
                                                .num_reuse = 2);
        const tp_status st = df ? tp_df_seek(df, 400, NULL) : TP_ERR_NOMEM;
        failed = tp_test_alloc_failed();
        CHECK(st == (failed ? TP_ERR_NOMEM : TP_OK));
        if (df && n % 2) CHECK_OK(tp_df_restart(df, 0));
        if (df && failed) CHECK_OK(tp_df_next(df, &dp));
        tp_datapoint_free(&dp);
        tp_df_free(df);
        CHECK_MSG(tp_test_live_blocks() == 0, "allocation %ld leaks", n);
    }
    tp_test_alloc_reset();
}

/* What leaves a buffer that was shuffled when it was full is any order of its datapoints, each as often. */
TEST(locally_shuffle_gives_every_order)
{
    enum { PASSES = 2400 };
    tp_datapoint dp = {0, NULL, 0};
    for (int size = 2; size <= 3; size++) {
        int seen[27] = {0}, orders = 0;
        tp_dataflow *df = tp_df_locally_shuffle(numbers(20, TP_NO), .buffer_size = size, .shuffle_interval = size);
        for (int pass = 0; pass < PASSES; pass++) {
            int order = 0;
            CHECK_OK(tp_df_restart(df, pass));
            for (int i = 0; i < size && CHECK_OK(tp_df_next(df, &dp)); i++) {
                const int v = *(const int32_t *)dp.c[0].data;
                CHECK_MSG(v < size, "pass %d: %d is number %d", pass, v, i);
                order = 3 * order + v;
            }
            if (CHECK(order < 27)) seen[order]++;
        }
        const int all = size == 2 ? 2 : 6, each = PASSES / all;
        for (int i = 0; i < 27; i++) {
            orders += seen[i] > 0;
            CHECK_MSG(seen[i] == 0 || abs(seen[i] - each) < 5 * (size == 2 ? 25 : 19),
                      "size %d: order %d came %d times", size, i, seen[i]); /* five deviations */
        }
        CHECK_MSG(orders == all, "size %d: %d orders", size, orders);
        tp_df_free(df);
    }
    tp_datapoint_free(&dp);
}

static const int five = 5;
static tp_dataflow *all_flows(int which)
{
    static const tp_spec fake[] = {{"a", TP_F32, {1, {3}}}, {NULL, TP_I32, {0, {0}}}};
    static const int swap[2] = {1, 0};
    tp_dataflow *many[3];
    switch (which) {
    case 0: return numbers(7, TP_NO);
    case 1: return numbers(7, TP_YES);
    case 2: return tp_df_from_generator(count_to, (void *)(uintptr_t)&five);
    case 3: return tp_df_from_generator(count_to, (void *)(uintptr_t)&five, .size = 5, .indexed = TP_YES);
    case 4: return tp_df_fake(fake, 2, .size = 6, .low = -2, .high = 50);
    case 5: return tp_df_batch(numbers(11, TP_YES), 3);
    case 6: return tp_df_batch(numbers(11, TP_YES), 3, .remainder = TP_YES);
    case 7: return tp_df_map(numbers(9, TP_YES), double_even);
    case 8: return tp_df_map_component(numbers(9, TP_YES), augment, 0, .keeps_all = TP_YES);
    case 9: return tp_df_map_component(numbers(9, TP_YES), augment, 0);
    case 10: return tp_df_repeated(numbers(3, TP_YES), 3);
    case 11: return tp_df_repeated(tp_df_map(numbers(5, TP_YES), double_even), 3);
    case 12: return tp_df_fixed_size(numbers(5, TP_YES), 7);
    case 13: return tp_df_fixed_size(numbers(5, TP_YES), 7, .keep_state = TP_NO);
    case 14: return tp_df_fixed_size(tp_df_locally_shuffle(numbers(5, TP_YES), 4), 9);
    case 15: return tp_df_select(tp_df_fake(fake, 2, .size = 6, .low = -2, .high = 50), swap, 2);
    case 16:
        many[0] = numbers(3, TP_YES), many[1] = tp_df_from_generator(count_to, (void *)(uintptr_t)&five),
        many[2] = numbers(4, TP_YES);
        return tp_df_concat(many, 3);
    case 17:
        many[0] = numbers(6, TP_YES), many[1] = tp_df_from_generator(count_to, (void *)(uintptr_t)&five),
        many[2] = numbers(9, TP_YES);
        return tp_df_join(many, 3);
    case 18: return tp_df_cast(numbers(6, TP_YES), 0, TP_F32, 3);
    case 19: return tp_df_print(numbers(6, TP_YES), 0, NULL);
    case 20: return tp_df_digits("test", .size = 5);
    case 21: return tp_df_fixed_size(tp_df_repeated(numbers(4, TP_YES), -1), 6);
    case 22: return tp_df_take(numbers(7, TP_YES), 5);
    default: return NULL;
    }
}

TEST(seek_is_replay_for_every_flow)
{
    tp_datapoint a = {0, NULL, 0}, b = {0, NULL, 0};
    for (int which = 0;; which++) {
        tp_dataflow *replay = all_flows(which), *seek = all_flows(which);
        if (!replay) break;
        for (int64_t pass = 0; pass < 4; pass += pass ? 2 : 1)
            for (int64_t n = 0; n < 16; n++) {
                int64_t skipped = -1, taken = 0;
                tp_status sa = tp_df_restart(replay, pass), sb = tp_df_restart(seek, pass);
                CHECK(sa == TP_OK && sb == TP_OK);
                if (n > 2) taken = tp_df_next(seek, &b) == TP_OK; /* also from within a pass */
                CHECK_OK(tp_df_seek(seek, n - taken, &skipped));
                int64_t replayed = 0;
                for (; replayed < n && (sa = tp_df_next(replay, &a)) == TP_OK; replayed++) {}
                CHECK_MSG(skipped + taken == replayed, "flow %d (%s) pass %d: skipped %d of %d, replay gave %d", which,
                          seek->name, (int)pass, (int)skipped, (int)(n - taken), (int)replayed);
                for (int i = 0; i < 40; i++) {
                    sa = tp_df_next(replay, &a);
                    sb = tp_df_next(seek, &b);
                    if (!CHECK_MSG(sa == sb, "flow %d (%s) after %d: %d and %d", which, seek->name, (int)n, (int)sa,
                                   (int)sb) ||
                        sa != TP_OK)
                        break;
                    CHECK(a.n == b.n);
                    for (int c = 0; c < a.n && c < b.n; c++) {
                        CHECK(a.c[c].dtype == b.c[c].dtype && tp_shape_equal(&a.c[c].shape, &b.c[c].shape));
                        if (tp_tensor_bytes(&a.c[c]) == tp_tensor_bytes(&b.c[c]))
                            CHECK_MSG(memcmp(a.c[c].data, b.c[c].data, tp_tensor_bytes(&a.c[c])) == 0,
                                      "flow %d (%s) pass %d: component %d differs %d datapoints after skipping %d",
                                      which, seek->name, (int)pass, c, i, (int)n);
                    }
                }
            }
        tp_df_free(replay);
        tp_df_free(seek);
    }
    tp_datapoint_free(&a);
    tp_datapoint_free(&b);
}

/* A flow that must read many datapoints to skip them says so, once; no other flow does. */
TEST(a_long_way_to_the_position_is_told)
{
    int many = 5000;
    for (int kind = 0; kind < 3; kind++) { /* many datapoints are read; few are; none is */
        tp_test_keep_log();
        tp_dataflow *df = tp_df_from_generator(count_to, &many, .size = many, .indexed = kind == 2 ? TP_YES : TP_UNSET);
        int64_t skipped = 0;
        CHECK_OK(tp_df_seek(df, kind == 1 ? 1000 : 1001, &skipped));
        CHECK_OK(tp_df_seek(df, kind == 1 ? 1000 : 1001, &skipped));
        const char *told = strstr(tp_test_logged, "tp_df_from_generator: up to 1001 datapoints are read");
        if (kind == 0 && CHECK(told != NULL)) told = strstr(strchr(told, '\n'), "datapoints are read");
        CHECK_MSG(!told, "%s", tp_test_logged);
        tp_df_free(df);
    }
    tp_set_log(NULL, NULL);
}

static tp_status as_they_are(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    (void)in, (void)out, (void)call;
    return TP_OK;
}
static bool all_are_kept(const tp_datapoint *dp, const tp_map_call *call) { return (void)dp, (void)call, true; }
static tp_status zero_next(tp_dataflow *df, tp_datapoint *dp)
{
    (void)df;
    static const int many = 5000;
    return count_to((void *)(uintptr_t)&many, 0, 0, dp);
}
static tp_dataflow *reading_flow(int which, tp_dataflow *below)
{
    tp_dataflow *own;
    switch (which) {
    case 0: return tp_df_map(below, as_they_are);
    case 1: return tp_df_map(below, as_they_are, .keeps_all = TP_NO);
    case 2: return tp_df_filter(below, all_are_kept);
    case 3: return tp_df_batch_by_shape(below, 1, 0);
    case 4: return tp_df_parallel_map(below, as_they_are, .num_thread = 2);
    case 5: return tp_df_parallel_map(below, as_they_are, .num_thread = 2, .keeps_all = TP_YES);
    default:
        tp_df_free(below);
        if ((own = tp_df_new("a game", 0, 0)) != NULL) own->next = zero_next;
        return own;
    }
}
/* The advice is one that the flow can follow. */
TEST(the_advice_for_a_long_way_fits_the_flow)
{
    static const char *const advice[] = {"tp_df_map: up to 2000 * goes on: set its .keeps_all = TP_YES",
                                         "tp_df_map: up to 2000 * goes on: only reading shows which ones it gives",
                                         "tp_df_filter: up to 2000 * goes on: only reading shows",
                                         "tp_df_batch_by_shape: up to 2000 * goes on: only reading shows",
                                         "tp_df_parallel_map: up to 2000 * goes on: set its .keeps_all = TP_YES",
                                         NULL,
                                         "a game: up to 2000 * goes on: give the flow its function seek"};
    int many = 5000;
    for (int which = 0; which < TP_COUNT(advice); which++) {
        tp_test_keep_log();
        tp_dataflow *df = reading_flow(which, tp_df_from_generator(count_to, &many, .size = many, .indexed = TP_YES));
        int64_t skipped = 0;
        CHECK_OK(tp_df_seek(df, 2000, &skipped));
        CHECK(skipped == 2000);
        tp_df_free(df);
        if (advice[which]) {
            const char *star = strchr(advice[which], '*');
            char begin[80];
            snprintf(begin, sizeof begin, "%.*s", (int)(star - advice[which] - 1), advice[which]);
            CHECK_MSG(strstr(tp_test_logged, begin) && strstr(tp_test_logged, star + 1), "flow %d: %s", which,
                      tp_test_logged);
        }
        const char *told = strstr(tp_test_logged, "datapoints are read");
        CHECK_MSG(!told == !advice[which] && !(told && strstr(told + 1, "datapoints are read")), "flow %d: %s", which,
                  tp_test_logged);
    }
    tp_set_log(NULL, NULL);
}

TEST(seek_behind_the_last_datapoint)
{
    tp_dataflow *df;
    for (int which = 0; (df = all_flows(which)) != NULL; which++) check_seek_behind_the_last(df, which);
}

TEST(fake_data)
{
    const tp_spec specs[] = {TP_SPEC("x", TP_F32, 10, 10), TP_SPEC("y", TP_I32, 50)};
    tp_dataflow *df = tp_df_fake(specs, 2, .size = 3, .low = 2, .high = 5);
    tp_datapoint dp = {0, NULL, 0};
    double least = 9, most = 0;
    CHECK(tp_df_size(df) == 3);
    while (tp_df_next(df, &dp) == TP_OK)
        for (int i = 0; i < 100; i++) {
            const double v = tp_tensor_get(&dp.c[0], i);
            least = v < least ? v : least;
            most = v > most ? v : most;
            if (i < 50) CHECK(tp_tensor_get(&dp.c[1], i) >= 2 && tp_tensor_get(&dp.c[1], i) < 5);
        }
    CHECK(least >= 2 && least < 2.2 && most < 5 && most > 4.8);
    tp_df_free(df);
    df = tp_df_fake(specs, 1, .size = 2, .random = TP_NO);
    char one[64];
    tp_df_next(df, &dp);
    snprintf(one, sizeof one, "%.9g", tp_tensor_get(&dp.c[0], 7));
    tp_df_next(df, &dp);
    CHECK_NEAR(tp_tensor_get(&dp.c[0], 7), atof(one), 1e-7, 0); /* the same datapoint all through a pass */
    tp_df_restart(df, 1);
    tp_df_next(df, &dp);
    CHECK(fabs(tp_tensor_get(&dp.c[0], 7) - atof(one)) > 1e-6); /* another in the next */
    CHECK(tp_df_size(df) == 2);
    tp_df_free(df);
    const tp_spec open = TP_SPEC("x", TP_F32, TP_ANY, 3);
    df = tp_df_fake(&open, 1);
    CHECK_ERR(tp_df_status(df), TP_ERR_SHAPE, "(?,3)");
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

/* Elements are those of the stream of the component's key, at the step of the datapoint, for each number of elements;
 * nothing is written behind them. */
TEST(fake_data_are_a_stream_of_random_numbers)
{
    tp_datapoint dp = {0, NULL, 0};
    for (int64_t n = 0; n <= 9; n++)
        for (int random = 0; random <= 1; random++) {
            const tp_spec spec[2] = {{NULL, TP_F32, {0, {0}}}, {NULL, TP_F64, {1, {n}}}};
            const uint64_t key = tp_random_key(tp_random_key(tp_random_key(5, tp_hash_name("tp_df_fake")), 2), 1);
            tp_dataflow *df =
                tp_df_fake(spec, 2, .size = 3, .low = -1, .high = 3, .seed = 5, .random = random ? TP_YES : TP_NO);
            CHECK_OK(tp_df_restart(df, 2));
            for (int i = 0; i < 3; i++) {
                CHECK_OK(tp_df_next(df, &dp));
                for (int64_t k = 0; k < n; k++)
                    CHECK_NEAR(tp_tensor_get(&dp.c[1], k),
                               -1 + 4 * (double)tp_random_uniform(key, random ? (uint64_t)i : 0, (uint64_t)k), 1e-6, 0);
            }
            tp_df_free(df);
        }
    tp_datapoint_free(&dp);
}

/* No number is .high, to which the nearest float may round. */
TEST(fake_data_are_below_high)
{
    const tp_spec spec[3] = {TP_SPEC("i", TP_I32, 1000), TP_SPEC("f", TP_F32, 1000), TP_SPEC("d", TP_F64, 1000)};
    tp_dataflow *df = tp_df_fake(spec, 3, .size = 9, .low = 1048576, .high = 1048577);
    tp_datapoint dp = {0, NULL, 0};
    double most = 0;
    while (tp_df_next(df, &dp) == TP_OK)
        for (int c = 0; c < 3; c++)
            for (int i = 0; i < 1000; i++) {
                const double v = tp_tensor_get(&dp.c[c], i);
                if (v > most) most = v;
                if (!CHECK_MSG(v >= 1048576 && v < 1048577 && (c || v <= 1048576), "%g", v)) return;
            }
    CHECK(most > 1048576.8);
    tp_df_free(df);
    df = tp_df_fake(spec, 1, .low = 7, .high = 7);
    CHECK_OK(tp_df_next(df, &dp));
    CHECK(tp_tensor_get(&dp.c[0], 0) == 7);
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

static void count_release(void *user) { ++*(int *)user; }

TEST(poison_is_passed_on_and_nothing_leaks)
{
    tp_test_fail_after(0);
    tp_datapoint dp = {0, NULL, 0};
    tp_dataflow *df = tp_df_repeated(tp_df_batch(tp_df_map(numbers(4, TP_YES), NULL), 2), -1);
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_ARG, "tp_df_map: the function is NULL");
    CHECK_ERR(tp_df_restart(df, 3), TP_ERR_ARG, "tp_df_map: the function is NULL");
    tp_dataflow *two[2] = {numbers(3, TP_NO), df};
    df = tp_df_join(two, 2);
    CHECK_ERR(tp_df_status(df), TP_ERR_ARG, "test_input.c:");
    tp_df_free(df);
    two[0] = numbers(3, TP_NO), two[1] = NULL;
    CHECK(tp_df_concat(two, 2) == NULL);
    CHECK(tp_df_batch(NULL, 2) == NULL);
    int released = 0;
    CHECK(tp_df_map(NULL, double_even, .user = &released, .release = count_release) == NULL);
    df = tp_df_map(numbers(3, TP_NO), NULL, .user = &released, .release = count_release);
    CHECK(tp_df_status(df) == TP_ERR_ARG);
    tp_df_free(df);
    df = tp_df_from_generator(NULL, &released, .release = count_release);
    tp_df_free(df);
    df = tp_df_map(numbers(3, TP_NO), double_even, .user = &released, .release = count_release);
    CHECK(released == 3);
    tp_df_free(df);
    CHECK(released == 4);
    df = tp_df_repeated(tp_df_from_list(NULL, 0), -1);
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_STATE, "no datapoint");
    tp_df_free(df);
    df = tp_df_cast(numbers(3, TP_NO), 0, TP_DTYPE_UNSET, 0);
    CHECK_ERR(tp_df_status(df), TP_ERR_DTYPE, "no dtype");
    tp_df_free(df);
    const int wrong = 2;
    df = tp_df_select(numbers(3, TP_NO), &wrong, 1);
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_ARG, "component 2");
    CHECK_ERR(tp_df_seek(df, -1, NULL), TP_ERR_ARG, "forward");
    tp_df_free(df);
    CHECK_ERR(tp_df_next(NULL, &dp), TP_ERR_ARG, "NULL");
    tp_df_free(NULL);
    tp_datapoint_free(&dp);
    CHECK(tp_test_live_blocks() == 0);
    tp_test_alloc_reset();
}

TEST(steady_state_allocates_nothing)
{
    tp_datapoint dp = {0, NULL, 0};
    for (int which = 0;; which++) {
        tp_test_fail_after(0);
        tp_dataflow *df = all_flows(which);
        if (!df) break;
        for (int pass = 0; pass < 3; pass++)
            for (tp_df_restart(df, pass); tp_df_next(df, &dp) == TP_OK;) {}
        const long before = tp_test_alloc_count();
        for (int pass = 3; pass < 6; pass++)
            for (tp_df_restart(df, pass); tp_df_next(df, &dp) == TP_OK;) {}
        CHECK_MSG(tp_test_alloc_count() == before, "flow %d (%s) allocates %ld times", which, df->name,
                  tp_test_alloc_count() - before);
        tp_df_free(df);
    }
    tp_datapoint_free(&dp);
    tp_test_alloc_reset();
}

TEST(flows_survive_out_of_memory)
{
    for (int which = 0; which <= 22; which++)
        for (long n = 1, failed = 1; failed; n++) {
            tp_test_fail_after(n);
            tp_dataflow *df = all_flows(which);
            tp_datapoint dp = {0, NULL, 0};
            tp_status st = df ? TP_OK : TP_ERR_NOMEM;
            for (int i = 0; i < 12 && st == TP_OK; i++) st = tp_df_next(df, &dp);
            failed = tp_test_alloc_failed();
            CHECK_MSG(failed ? st == TP_ERR_NOMEM : st >= TP_OK, "flow %d, allocation %ld: %s: %s", which, n,
                      tp_status_name(st), tp_last_error());
            tp_datapoint_free(&dp);
            tp_df_free(df);
            CHECK_MSG(tp_test_live_blocks() == 0, "flow %d, allocation %ld leaks", which, n);
        }
    tp_test_alloc_reset();
}

/* ==== >>files ========================================================================================= */

static size_t idx(unsigned char *out, int type, const uint32_t *dim, int ndim, const void *data, size_t bytes)
{
    out[0] = out[1] = 0;
    out[2] = (unsigned char)type;
    out[3] = (unsigned char)ndim;
    for (int i = 0; i < ndim; i++)
        for (int k = 0; k < 4; k++) out[4 + 4 * i + k] = (unsigned char)(dim[i] >> (24 - 8 * k));
    if (bytes) memcpy(out + 4 + 4 * ndim, data, bytes);
    return 4 + 4 * (size_t)ndim + bytes;
}

/* ==== >>by formula ==================================================================================== */

/* Datapoint i of pass p is 100 p + i, so that passes are told apart. seekable: the flow skips by itself. */
static tp_status pass_and_index(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    const tp_status st = index < *(const int *)user ? tp_datapoint_resize(dp, 1) : TP_END;
    if (st != TP_OK || tp_tensor_resize(&dp->c[0], TP_I32, tp_make_shape_n(0, NULL)) != TP_OK) return st;
    *(int32_t *)dp->c[0].data = (int32_t)(100 * pass + index);
    return TP_OK;
}
static const int lengths[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
static tp_dataflow *passes_of(int n, bool seekable)
{
    return tp_df_from_generator(pass_and_index, (void *)(uintptr_t)&lengths[n], .size = n,
                                .indexed = seekable && n ? TP_YES : TP_NO);
}

enum { BATCH, REST, REPEATED, KEEPS, BEGINS, CONCAT, JOIN, PRINT, KINDS };
/* One flow of a kind, of two flows of n and m datapoints; NULL: there is none. */
static tp_dataflow *flow_of(int kind, int n, int m, bool seekable)
{
    tp_dataflow *two[2];
    switch (kind) {
    case BATCH: return m < 1 || n < m ? NULL : tp_df_batch(passes_of(n, seekable), m);
    case REST: return m < 1 ? NULL : tp_df_batch(passes_of(n, seekable), m, .remainder = TP_YES);
    case REPEATED: return m < 1 || n < 1 ? NULL : tp_df_repeated(passes_of(n, seekable), m);
    case KEEPS: return m < 1 || n < 1 ? NULL : tp_df_fixed_size(passes_of(n, seekable), m);
    case BEGINS: return m < 1 || n < 1 ? NULL : tp_df_fixed_size(passes_of(n, seekable), m, .keep_state = TP_NO);
    case PRINT: return tp_df_print(passes_of(n, seekable), 0, NULL);
    default:
        two[0] = passes_of(n, seekable), two[1] = passes_of(m, seekable);
        return kind == CONCAT ? tp_df_concat(two, 2) : tp_df_join(two, 2);
    }
}
/* Datapoint i of pass p of it, as walk() writes it; false: the pass is over. */
static bool expected(int kind, int n, int m, int p, int i, char *text, size_t size)
{
    size_t at = 0;
    text[0] = 0;
    switch (kind) {
    case BATCH:
    case REST:
        if (i >= (kind == REST ? (n + m - 1) / m : n / m)) return false;
        for (int k = i * m; k < (i + 1) * m && k < n; k++)
            at += (size_t)snprintf(text + at, size - at, "%s%d", k > i * m ? " " : "[", 100 * p + k);
        snprintf(text + at, size - at, "]");
        return true;
    case REPEATED: return snprintf(text, size, "%d", 100 * (p * m + i / n) + i % n) > 0 && i < n * m;
    case KEEPS: return snprintf(text, size, "%d", 100 * ((p * m + i) / n) + (p * m + i) % n) > 0 && i < m;
    case BEGINS: return snprintf(text, size, "%d", 100 * (p * ((m - 1) / n + 1) + i / n) + i % n) > 0 && i < m;
    case CONCAT: return snprintf(text, size, "%d", 100 * p + (i < n ? i : i - n)) > 0 && i < n + m;
    case JOIN: return snprintf(text, size, "%d,%d", 100 * p + i, 100 * p + i) > 0 && i < n && i < m;
    default: return snprintf(text, size, "%d", 100 * p + i) > 0 && i < n;
    }
}

/* What every flow gives in its first passes, how long it says it is, and what is left after any seek. */
TEST(flows_by_formula)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int n = 0; n < 7; n++)
            for (int m = 0; m < 9; m++)
                for (int seekable = 0; seekable < 2; seekable++) {
                    if (kind == PRINT && m) continue;
                    tp_dataflow *df = flow_of(kind, n, m, seekable);
                    char want[4096] = "", one[300];
                    int length = 0;
                    if (!df) continue;
                    for (int p = 0; p < 3; p++) {
                        if (p) strcat(want, " |");
                        for (length = 0; expected(kind, n, m, p, length, one, sizeof one); length++) {
                            if (*want) strcat(want, " ");
                            strcat(want, one);
                        }
                    }
                    const char *got = walk(df, 3);
                    CHECK_MSG(strcmp(got, want) == 0, "kind %d, %d and %d: \"%s\", expected \"%s\"", kind, n, m, got,
                              want);
                    const int size =
                        n == 0 || (m == 0 && (kind == CONCAT || kind == JOIN)) ? -1 : length; /* 0: unknown */
                    CHECK_MSG(tp_df_size(df) == size, "kind %d, %d and %d: size %d, not %d", kind, n, m,
                              (int)tp_df_size(df), size);
                    for (int k = seekable; k <= length + 1; k += 2) {
                        tp_datapoint dp = {0, NULL, 0};
                        int64_t skipped = -1;
                        tp_status st = TP_OK;
                        CHECK_OK(tp_df_restart(df, 2));
                        CHECK_OK(tp_df_seek(df, k, &skipped));
                        const int first = k < length ? k : length;
                        if (!CHECK_MSG(skipped == first, "kind %d, %d and %d: %d of %d skipped", kind, n, m,
                                       (int)skipped, k))
                            break;
                        int i = first;
                        for (; (st = tp_df_next(df, &dp)) == TP_OK; i++) {
                            CHECK(expected(kind, n, m, 2, i, one, sizeof one));
                            const int value = (int)strtol(one + (*one == '['), NULL, 10);
                            CHECK_MSG(tp_tensor_get(&dp.c[0], 0) == value, "kind %d, %d and %d, seek %d: %g, not %d",
                                      kind, n, m, k, tp_tensor_get(&dp.c[0], 0), value);
                        }
                        CHECK_MSG(st == TP_END && i == length, "kind %d, %d and %d, seek %d: %d", kind, n, m, k, i);
                        tp_datapoint_free(&dp);
                    }
                    tp_df_free(df);
                }
}

/* Endless and unknown sizes. */
TEST(sizes_that_are_not_known)
{
    tp_dataflow *two[2], *df;
    const int three = 3;
    df = tp_df_repeated(passes_of(3, true), -1);
    CHECK(tp_df_size(df) == -1);
    tp_df_free(df);
    for (int first = 0; first < 2; first++) {
        two[first] = passes_of(3, true), two[1 - first] = tp_df_from_generator(count_to, (void *)(uintptr_t)&three);
        df = tp_df_concat(two, 2);
        CHECK(tp_df_size(df) == -1);
        tp_df_free(df);
        two[first] = passes_of(3, true), two[1 - first] = tp_df_from_generator(count_to, (void *)(uintptr_t)&three);
        df = tp_df_join(two, 2);
        CHECK(tp_df_size(df) == -1);
        tp_df_free(df);
    }
    df = tp_df_batch(tp_df_from_generator(count_to, (void *)(uintptr_t)&three), 2);
    CHECK(tp_df_size(df) == -1);
    tp_df_free(df);
    df = tp_df_repeated(
        tp_df_repeated(tp_df_fake(.specs = &(tp_spec){NULL, TP_F32, {0, {0}}}, .n = 1, .size = INT64_MAX / 2), 2), 2);
    CHECK(tp_df_size(df) == -1); /* more than a number holds */
    tp_df_free(df);
}

/* A list of n, or a flow of n that is never walked. */
static tp_dataflow *flow_of_size(int64_t n)
{
    static tp_spec scalar = {NULL, TP_U8, {0, {0}}};
    return n ? tp_df_fake(&scalar, 1, .size = n) : tp_df_from_list(NULL, 0);
}
/* Flows of known sizes in any order, also empty ones and such of which the sum is the largest number. */
TEST(sizes_of_flows_side_by_side)
{
    static const int64_t size[] = {0, 1, 3, INT64_MAX / 2, INT64_MAX - 3, INT64_MAX};
    for (int i = 0; i < TP_COUNT(size) * TP_COUNT(size); i++)
        for (int third = 0; third < 2; third++) {
            const int64_t n[3] = {size[i / TP_COUNT(size)], size[i % TP_COUNT(size)], third ? 2 : 0};
            tp_dataflow *list[3];
            int64_t sum = 0, least = INT64_MAX;
            for (int k = 0; k < 2 + third; k++) {
                if (sum >= 0) sum = n[k] > INT64_MAX - sum ? -1 : sum + n[k];
                least = n[k] < least ? n[k] : least;
                list[k] = flow_of_size(n[k]);
            }
            tp_dataflow *df = tp_df_concat(list, 2 + third);
            CHECK_MSG(tp_df_size(df) == sum, "%d, %d: %lld", i, third, (long long)tp_df_size(df));
            tp_df_free(df);
            for (int k = 0; k < 2 + third; k++) list[k] = flow_of_size(n[k]);
            df = tp_df_join(list, 2 + third);
            CHECK_MSG(tp_df_size(df) == least, "%d, %d: %lld", i, third, (long long)tp_df_size(df));
            if (least == 0) CHECK_STR(walk(df, 2), " |");
            tp_df_free(df);
        }
    tp_dataflow *list[2] = {tp_df_from_list(NULL, 0), numbers(3, TP_NO)};
    check_walk(tp_df_concat(list, 2), 2, "0 1 2 | 0 1 2", 3);
}

/* ==== >>mistakes of flows ============================================================================= */

static tp_status different_n(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user, (void)pass;
    const tp_status st = tp_datapoint_resize(dp, index == 3 ? 2 : 1);
    for (int i = 0; i < dp->n && st == TP_OK; i++)
        CHECK_OK(tp_tensor_resize(&dp->c[i], TP_I32, tp_make_shape_n(0, NULL)));
    return st;
}
static tp_dataflow *wrong_flow(int which)
{
    static tp_spec scalar = {NULL, TP_F32, {0, {0}}};
    static const char *const path[] = {"/nowhere/at/all"};
    static int32_t value[] = {1, 2, 3};
    static const int minus = -1, zero = 0;
    const tp_tensor t[2] = {{TP_I32, {1, {3}}, value, NULL, 0, NULL, NULL, 0},
                            {TP_I32, {1, {2}}, value, NULL, 0, NULL, NULL, 0}};
    const tp_tensor single = {TP_I32, {0, {0}}, value, NULL, 0, NULL, NULL, 0};
    switch (which) {
    case 0: return tp_df_from_list(NULL, -1);
    case 1: return tp_df_from_list(NULL, 2);
    case 2: return tp_df_from_arrays(NULL, 1);
    case 3: return tp_df_from_arrays(t, 0);
    case 4: return tp_df_from_arrays(t, 2);
    case 5: return tp_df_from_arrays(&single, 1);
    case 6: return tp_df_from_generator(NULL, NULL);
    case 7: return tp_df_from_generator(count_to, NULL, .indexed = TP_YES);
    case 8: return tp_df_fake(NULL, 1);
    case 9: return tp_df_fake(&scalar, 0);
    case 10: return tp_df_fake(&scalar, 1, .size = -2);
    case 11: return tp_df_mnist("both");
    case 12: return tp_df_mnist(NULL);
    case 13: return tp_df_digits("validation");
    case 14: return tp_df_digits("train", .size = -2);
    case 15: return tp_df_idx(path, 0);
    case 16: return tp_df_idx(NULL, 1);
    case 17: return tp_df_idx(path, 1);
    case 18: return tp_df_batch(numbers(3, TP_NO), 0);
    case 19: return tp_df_fixed_size(numbers(3, TP_NO), 0);
    case 20: return tp_df_locally_shuffle(numbers(3, TP_NO), 0);
    case 21: return tp_df_locally_shuffle(numbers(3, TP_NO), 0x7fffffff);
    case 22: return tp_df_locally_shuffle(numbers(3, TP_NO), 2, .num_reuse = -1);
    case 23: return tp_df_locally_shuffle(numbers(3, TP_NO), 2, .shuffle_interval = -1);
    case 24: return tp_df_select(numbers(3, TP_NO), &minus, 1);
    case 25: return tp_df_repeated(numbers(3, TP_NO), 0);
    case 26: return tp_df_repeated(numbers(3, TP_NO), -2);
    case 27: return tp_df_map_component(numbers(3, TP_NO), add_one, -1);
    case 28: return tp_df_map_component(numbers(3, TP_NO), NULL, 0);
    case 29: return tp_df_cast(numbers(3, TP_NO), -1, TP_F32, 0);
    case 30: return tp_df_concat(NULL, 0);
    case 31: return tp_df_select(numbers(3, TP_NO), &zero, 0);
    case 32: return tp_df_cast(numbers(3, TP_NO), 0, TP_F32, (double)NAN);
    case 33: return tp_df_cast(numbers(3, TP_NO), 0, TP_F32, (double)INFINITY);
    case 34: return tp_df_fake(&scalar, 1, .low = NAN);
    case 35: return tp_df_fake(&scalar, 1, .low = 1, .high = NAN);
    case 36: return tp_df_fake(&scalar, 1, .high = INFINITY);
    case 37: return tp_df_fake(&scalar, 1, .low = 5);
    case 38: return tp_df_fake(&scalar, 1, .low = -3e38f, .high = 3e38f);
    default: return NULL;
    }
}
TEST(each_wrong_option_is_a_sentence)
{
    static const char *const sentence[] = {"tp_df_from_list: a list of -1 datapoints",
                                           "tp_df_from_list: a list of 2 datapoints at NULL",
                                           "tp_df_from_arrays: needs at least one array",
                                           "tp_df_from_arrays: needs at least one array",
                                           "tp_df_from_arrays",
                                           "tp_df_from_arrays",
                                           "tp_df_from_generator",
                                           "tp_df_from_generator: .indexed needs .size, the datapoints of a pass",
                                           "tp_df_fake: needs at least one component",
                                           "tp_df_fake: needs at least one component",
                                           "tp_df_fake: size is -2",
                                           "tp_df_mnist: \"both\" is neither \"train\" nor \"test\"",
                                           "tp_df_mnist: \"NULL\" is neither",
                                           "tp_df_digits: \"validation\" is neither \"train\" nor \"test\"",
                                           "tp_df_digits: size is -2",
                                           "tp_df_idx: needs at least one path",
                                           "tp_df_idx: needs at least one path",
                                           "there is neither /nowhere/at/all nor /nowhere/at/all.gz",
                                           "tp_df_batch: batch_size is 0, it must be at least 1",
                                           "tp_df_fixed_size: size is 0, it must be at least 1",
                                           "tp_df_locally_shuffle: buffer_size is 0: give 1 to",
                                           "tp_df_locally_shuffle: buffer_size is 2147483647: give 1 to 2147483646",
                                           "tp_df_locally_shuffle: num_reuse is -1: give 1 or more",
                                           "tp_df_locally_shuffle: shuffle_interval is -1: give 1 or more",
                                           "tp_df_select: there is no component -1",
                                           "tp_df_repeated",
                                           "tp_df_repeated",
                                           "tp_df_map_component",
                                           "tp_df_map_component",
                                           "tp_df_cast",
                                           "tp_df_concat",
                                           "tp_df_select",
                                           "tp_df_cast: scale is nan: it must be finite",
                                           "tp_df_cast: scale is inf: it must be finite",
                                           "tp_df_fake: low is nan and high 0: both must be finite",
                                           "tp_df_fake: low is 1 and high nan: both must be finite",
                                           "tp_df_fake: low is 0 and high inf: both must be finite",
                                           "tp_df_fake: low is 5 and high 0: both must be finite, and high not below",
                                           "tp_df_fake: low is -3e+38 and high 3e+38"};
    for (int i = 0; i < TP_COUNT(sentence); i++) {
        tp_datapoint dp = {0, NULL, 0};
        tp_test_fail_after(0);
        tp_dataflow *df = wrong_flow(i);
        const tp_status st = tp_df_status(df);
        CHECK_MSG(st < TP_OK && strstr(tp_last_error(), sentence[i]), "%d: %s, '%s'", i, tp_status_name(st),
                  tp_last_error());
        if (df) {
            CHECK(tp_df_next(df, &dp) == st && strstr(tp_last_error(), sentence[i]));
            CHECK(tp_df_restart(df, 1) == st && strstr(tp_last_error(), sentence[i]));
        }
        tp_df_free(df);
        CHECK_MSG(tp_test_live_blocks() == 0, "%d", i);
    }
    tp_test_alloc_reset();
    /* what is noticed on the way */
    tp_datapoint dp = {0, NULL, 0};
    tp_dataflow *df = tp_df_batch(tp_df_from_generator(different_n, NULL), 5);
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_SHAPE, "datapoint 3 of batch 0 has 2 components, the first has 1");
    tp_df_free(df);
    for (int by_shape = 0; by_shape < 2; by_shape++) { /* a batch has one dimension more than its datapoints */
        tp_spec most = {NULL, TP_U8, {TP_MAX_DIMS - 1, {1, 1, 1, 1, 1, 1, 1, 1}}};
        for (; most.shape.ndim <= TP_MAX_DIMS; most.shape.ndim++) {
            df = tp_df_fake(&most, 1, .size = 4);
            df = by_shape ? tp_df_batch_by_shape(df, 2) : tp_df_batch(df, 2);
            if (most.shape.ndim == TP_MAX_DIMS)
                CHECK_ERR(tp_df_next(df, &dp), TP_ERR_SHAPE, "component 0 has 8 dimensions already, 8 is the most");
            else if (CHECK_OK(tp_df_next(df, &dp)))
                CHECK(dp.c[0].shape.ndim == TP_MAX_DIMS && dp.c[0].shape.dim[0] == 2 && dp.c[0].shape.dim[7] == 1);
            tp_df_free(df);
        }
    }
    df = tp_df_map_component(numbers(3, TP_NO), add_one, 1);
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_ARG, "component 1 is to be mapped, but a datapoint has 1 components");
    tp_df_free(df);
    df = tp_df_cast(numbers(3, TP_NO), 1, TP_F32, 0);
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_ARG, "component 1");
    CHECK_ERR(tp_df_restart(df, -1), TP_ERR_ARG, "there is no pass -1");
    tp_df_free(df);
    df = tp_df_repeated(numbers(3, TP_NO), 4);
    CHECK_ERR(tp_df_restart(df, INT64_MAX / 4), TP_ERR_ARG, "tp_df_repeated: there is no pass 2305843009213693951");
    CHECK_OK(tp_df_restart(df, INT64_MAX / 4 - 1));
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

/* A flow of one's own without restart is walked once. */
static tp_status next_of_one(tp_dataflow *df, tp_datapoint *dp)
{
    int *left = (int *)df->user;
    return (*left)-- > 0 ? tp_datapoint_resize(dp, 0) : TP_END;
}
TEST(flows_without_restart_are_walked_once)
{
    tp_dataflow *df = tp_df_new("mine", sizeof(int), 0);
    tp_datapoint dp = {0, NULL, 0};
    df->next = next_of_one;
    *(int *)df->user = 2;
    CHECK(tp_df_size(df) == -1);
    CHECK_OK(tp_df_next(df, &dp));
    CHECK_ERR(tp_df_restart(df, 0), TP_ERR_STATE,
              "mine: this dataflow can be walked only once: give it a restart function");
    CHECK_OK(tp_df_next(df, &dp));
    CHECK(tp_df_next(df, &dp) == TP_END && tp_df_next(df, &dp) == TP_END);
    CHECK_ERR(tp_df_restart(df, 1), TP_ERR_STATE, "only once");
    tp_datapoint_free(&dp);
    tp_df_free(df);
}

/* ==== >>what is printed =============================================================================== */

static char printed[2000];
static void print_to(void *user, tp_log_level level, const char *message)
{
    const size_t n = strlen(printed);
    (void)user;
    CHECK(level == TP_LOG_INFO);
    snprintf(printed + n, sizeof printed - n, "%s\n", message);
}
static tp_status two_components(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user, (void)pass;
    tp_status st = index < 5 ? tp_datapoint_resize(dp, 3) : TP_END;
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape(2, 2));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_I32, tp_make_shape_n(0, NULL));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[2], TP_F64, tp_make_shape(0));
    for (int i = 0; i < 4 && st == TP_OK; i++)
        tp_tensor_set(&dp->c[0], i, (i == 1 ? -1 : i == 2 ? 1 : 0.5) * (double)(index + 1));
    if (st == TP_OK) tp_tensor_set(&dp->c[1], 0, 7);
    return st;
}
TEST(printed_datapoints)
{
    tp_set_log(print_to, NULL);
    for (int num = -1; num < 4; num++) {
        tp_dataflow *df = tp_df_print(tp_df_from_generator(two_components, NULL), num, num & 1 ? "mine" : NULL);
        tp_datapoint dp = {0, NULL, 0};
        char want[2000] = "";
        printed[0] = 0;
        for (int i = 0; i < 5; i++) CHECK_OK(tp_df_next(df, &dp));
        CHECK(tp_df_next(df, &dp) == TP_END);
        for (int i = 0; i < num; i++) {
            const size_t n = strlen(want);
            snprintf(want + n, sizeof want - n,
                     "%s: a datapoint of 3 components\n  0: float32 (2,2), from %d to %d\n  1: int32 (), from 7 to 7\n"
                     "  2: float64 (0), from 0 to 0\n",
                     num & 1 ? "mine" : "tp_df_from_generator", -(i + 1), i + 1);
        }
        CHECK_STR(printed, want);
        tp_datapoint_free(&dp);
        tp_df_free(df);
    }
    for (int seekable = 0; seekable <= 1; seekable++) { /* what is skipped is not printed, and does not count */
        tp_dataflow *df = tp_df_print(passes_of(5, seekable), 1, "D5");
        tp_datapoint dp = {0, NULL, 0};
        int64_t skipped = 0;
        printed[0] = 0;
        CHECK_OK(tp_df_seek(df, 3, &skipped));
        CHECK(skipped == 3 && tp_df_size(df) == 5);
        CHECK_STR(printed, "");
        for (int i = 3; i < 5; i++) CHECK_OK(tp_df_next(df, &dp));
        CHECK_STR(printed, "D5: a datapoint of 1 components\n  0: int32 (), from 3 to 3\n");
        tp_datapoint_free(&dp);
        tp_df_free(df);
    }
    tp_set_log(NULL, NULL);
}

/* The place of MNIST: .dir, then the environment, in this order. */
TEST(the_place_of_mnist)
{
    static const char *const variable[] = {"TP_DATA", "TENSORPACK_DATASET", "HOME"};
    static const char *const place[] = {"/a/mnist/", "/b/mnist_data/", "/c/tensorpack_data/mnist_data/",
                                        "./tensorpack_data/mnist_data/"};
    static const char *const value[] = {"/a", "/b", "/c"};
    char *old[3], want[200];
    for (int i = 0; i < 3; i++) old[i] = getenv(variable[i]) ? tp_strdup(getenv(variable[i])) : NULL;
    for (int i = 0; i < 3; i++) setenv(variable[i], value[i], 1);
    for (int i = 0; i < 5; i++) { /* one variable less each time; empty ones do not count */
        tp_dataflow *df = tp_df_mnist(i & 1 ? "test" : "train", .dir = i == 4 ? "/d" : NULL);
        snprintf(want, sizeof want, "there is neither %s%s-images-idx3-ubyte nor ", i == 4 ? "/d/" : place[i],
                 i & 1 ? "t10k" : "train");
        CHECK_ERR(tp_df_status(df), TP_ERR_IO, want);
        CHECK((strstr(tp_last_error(), "The folder of the data is .dir") != NULL) == (i < 4));
        tp_df_free(df);
        if (i < 2) setenv(variable[i], "", 1);
        else unsetenv("HOME");
    }
    for (int i = 0; i < 3; i++) {
        if (old[i]) setenv(variable[i], old[i], 1);
        else unsetenv(variable[i]);
        tp_free(old[i]);
    }
}

TEST(idx_reads_every_type)
{
    unsigned char file[256];
    tp_tensor t = {TP_DTYPE_UNSET, {0, {0}}, NULL, NULL, 0, NULL, NULL, 0};
    const uint32_t two = 2, grid[3] = {1, 2, 2};
    size_t n = idx(file, 8, grid, 3, "\x00\x7f\x80\xff", 4);
    CHECK_OK(tp_idx_parse(file, n, "f", &t));
    CHECK(t.dtype == TP_U8 && t.shape.ndim == 3 && t.shape.dim[2] == 2 && tp_tensor_get(&t, 3) == 255);
    n = idx(file, 9, &two, 1, "\x7f\x80", 2);
    CHECK_OK(tp_idx_parse(file, n, "f", &t));
    CHECK(t.dtype == TP_I32 && tp_tensor_get(&t, 0) == 127 && tp_tensor_get(&t, 1) == -128);
    n = idx(file, 0x0b, &two, 1, "\x01\x02\xff\xfe", 4);
    CHECK_OK(tp_idx_parse(file, n, "f", &t));
    CHECK(tp_tensor_get(&t, 0) == 258 && tp_tensor_get(&t, 1) == -2);
    n = idx(file, 0x0c, &two, 1, "\x01\x02\x03\x04\x80\x00\x00\x00", 8);
    CHECK_OK(tp_idx_parse(file, n, "f", &t));
    CHECK(tp_tensor_get(&t, 0) == 16909060 && tp_tensor_get(&t, 1) == -2147483648.0);
    n = idx(file, 0x0d, &two, 1, "\x3f\x80\x00\x00\xc0\x20\x00\x00", 8);
    CHECK_OK(tp_idx_parse(file, n, "f", &t));
    CHECK(t.dtype == TP_F32 && tp_tensor_get(&t, 0) == 1 && tp_tensor_get(&t, 1) == -2.5);
    n = idx(file, 0x0e, &two, 1, "\x3f\xf0\0\0\0\0\0\0\xc0\x04\0\0\0\0\0\0", 16);
    CHECK_OK(tp_idx_parse(file, n, "f", &t));
    CHECK(t.dtype == TP_F64 && tp_tensor_get(&t, 0) == 1 && tp_tensor_get(&t, 1) == -2.5);
    tp_tensor_free(&t);
}

TEST(idx_hostile_files)
{
    unsigned char file[256], *exact;
    tp_tensor t = {TP_DTYPE_UNSET, {0, {0}}, NULL, NULL, 0, NULL, NULL, 0};
    const uint32_t dim[3] = {2, 3, 4}, huge[3] = {0xffffffffu, 0xffffffffu, 0xffffffffu}, big[3] = {60000, 28, 28};
    unsigned char data[25] = {0};
    size_t n = idx(file, 8, dim, 3, data, 24);
    for (size_t cut = 0; cut < n;
         cut++) { /* in memory of exactly that size, so that a sanitizer sees every step too far */
        exact = (unsigned char *)malloc(cut ? cut : 1);
        if (!exact) return;
        memcpy(exact, file, cut);
        CHECK(tp_idx_parse(exact, cut, "cut.idx", &t) == TP_ERR_FORMAT);
        free(exact);
    }
    CHECK_HAS(tp_last_error(),
              "cut.idx is truncated, or its header is wrong: the shape (2,3,4) needs 40 bytes, it has 39");
    n = idx(file, 8, dim, 3, data, 25);
    CHECK_ERR(tp_idx_parse(file, n, "f", &t), TP_ERR_FORMAT, "1 bytes follow");
    n = idx(file, 8, huge, 3, data, 24);
    CHECK_ERR(tp_idx_parse(file, n, "f", &t), TP_ERR_FORMAT, "header is wrong");
    n = idx(file, 0x0e, big, 3, data, 24);
    CHECK_ERR(tp_idx_parse(file, n, "f", &t), TP_ERR_FORMAT, "needs 376320016 bytes");
    n = idx(file, 0x0a, dim, 3, data, 24);
    CHECK_ERR(tp_idx_parse(file, n, "f", &t), TP_ERR_FORMAT, "0x0a");
    n = idx(file, 8, dim, 0, data, 1);
    CHECK_ERR(tp_idx_parse(file, n, "f", &t), TP_ERR_FORMAT, "0 dimensions");
    file[3] = 255;
    CHECK_ERR(tp_idx_parse(file, n, "f", &t), TP_ERR_FORMAT, "255 dimensions");
    CHECK_ERR(tp_idx_parse("\x1f\x8b\x08\x00zzzz", 8, "f", &t), TP_ERR_FORMAT, "no IDX file");
    const uint32_t none[2] = {0, 28};
    n = idx(file, 8, none, 2, NULL, 0);
    CHECK_OK(tp_idx_parse(file, n, "f", &t));
    CHECK(tp_tensor_size(&t) == 0);
    tp_tensor_free(&t);
}

TEST(mnist_files_that_lie)
{
    const char *dir = tp_test_tmpdir();
    unsigned char file[256], data[64];
    uint32_t images[3] = {3, 2, 2}, labels = 3;
    for (int i = 0; i < 64; i++) data[i] = (unsigned char)(i * 17);
    tp_dataflow *df = tp_df_mnist("train", .dir = dir);
    CHECK_ERR(tp_df_status(df), TP_ERR_IO, "train-images-idx3-ubyte.gz");
    tp_df_free(df);
    df = tp_df_mnist("validation", .dir = dir);
    CHECK_ERR(tp_df_status(df), TP_ERR_ARG, "\"validation\" is neither");
    tp_df_free(df);
    tp_test_write(tp_test_path(dir, "train-images-idx3-ubyte"), file, idx(file, 8, images, 3, data, 12));
    labels = 4;
    tp_test_write(tp_test_path(dir, "train-labels-idx1-ubyte"), file, idx(file, 8, &labels, 1, data, 4));
    df = tp_df_mnist("train", .dir = dir);
    CHECK_ERR(tp_df_status(df), TP_ERR_SHAPE,
              "train-images-idx3-ubyte has 3 entries but train-labels-idx1-ubyte has 4");
    tp_df_free(df);
    tp_test_write(tp_test_path(dir, "train-labels-idx1-ubyte"), file, idx(file, 8, images, 3, data, 12));
    df = tp_df_mnist("train", .dir = dir);
    CHECK_ERR(tp_df_status(df), TP_ERR_FORMAT, "holds uint8 (3,2,2), MNIST has uint8 labels");
    tp_df_free(df);
    labels = 3;
    tp_test_write(tp_test_path(dir, "train-labels-idx1-ubyte"), file, idx(file, 8, &labels, 1, "\x05\x00\x09", 3));
    df = tp_df_mnist("train", .dir = dir, .shuffle = TP_NO);
    tp_datapoint dp = {0, NULL, 0};
    CHECK_OK(tp_df_next(df, &dp));
    CHECK(dp.n == 2 && dp.c[0].dtype == TP_F32 && dp.c[1].dtype == TP_I32 && dp.c[1].shape.ndim == 0);
    CHECK_NEAR(tp_tensor_get(&dp.c[0], 3), 51 / 255.0, 1e-7, 0);
    CHECK(tp_tensor_get(&dp.c[1], 0) == 5);
    tp_df_free(df);
    const char *paths[2] = {tp_test_path(dir, "train-images-idx3-ubyte"), tp_test_path(dir, "train-labels-idx1-ubyte")};
    df = tp_df_idx(paths, 2, .shuffle = TP_NO);
    CHECK_STR(walk(df, 1), "[0 17 34 51],5 [68 85 102 119],0 [136 153 170 187],9");
    tp_df_free(df);
    for (long n = 1, failed = 1; failed; n++) {
        tp_test_fail_after(n);
        df = tp_df_mnist("train", .dir = dir);
        failed = tp_test_alloc_failed();
        CHECK(failed ? !df : tp_df_status(df) == TP_OK);
        tp_df_free(df);
        CHECK(tp_test_live_blocks() == 0);
    }
    tp_test_alloc_reset();
    tp_datapoint_free(&dp);
}

TEST(mnist_itself)
{
    char dir[600];
    const char *data = getenv("TP_DATA");
    snprintf(dir, sizeof dir, "%.500s/mnist", data ? data : "../shared/data");
    if (!tp_file_exists(tp_test_path(dir, "t10k-images-idx3-ubyte.gz")))
        TEST_SKIP("no MNIST files; set TP_DATA to the directory that holds mnist/");
    tp_dataflow *df = tp_df_mnist("test", .dir = dir, .shuffle = TP_NO);
    tp_datapoint dp = {0, NULL, 0};
    if (!CHECK_OK(tp_df_status(df))) return;
    CHECK(tp_df_size(df) == 10000);
    static const int first[10] = {7, 2, 1, 0, 4, 1, 4, 9, 5, 9};
    int count[10] = {0}, n = 0;
    double sum = 0;
    for (; tp_df_next(df, &dp) == TP_OK; n++) {
        const int label = *(const int32_t *)dp.c[1].data;
        if (n < 10) CHECK(label == first[n]);
        if (label >= 0 && label < 10) count[label]++;
        for (int i = 0; i < 784; i++) sum += (double)((const float *)dp.c[0].data)[i];
    }
    CHECK(n == 10000 && count[0] == 980 && count[1] == 1135 && count[9] == 1009);
    CHECK_NEAR(sum / n / 784, 0.1325, 1e-4, 0); /* the published mean */
    tp_df_free(df);
    df = tp_df_mnist("train", .dir = dir);
    CHECK(tp_df_size(df) == 60000);
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

TEST(digits)
{
    tp_dataflow *df = tp_df_digits("train", .size = 600, .shuffle = TP_NO),
                *more = tp_df_digits("train", .size = 3, .shuffle = TP_NO);
    tp_dataflow *test = tp_df_digits("test", .shuffle = TP_NO),
                *other = tp_df_digits("train", .seed = 7, .shuffle = TP_NO);
    tp_datapoint a = {0, NULL, 0}, b = {0, NULL, 0};
    int count[10] = {0};
    CHECK(tp_df_size(test) == 2000 && tp_df_size(other) == 12000);
    for (int i = 0; i < 3; i++) { /* image i does not depend on the size of the set, but on the set and the seed */
        CHECK_OK(tp_df_next(df, &a));
        CHECK_OK(tp_df_next(more, &b));
        CHECK(memcmp(a.c[0].data, b.c[0].data, 784 * 4) == 0);
        CHECK(*(const int32_t *)a.c[1].data == *(const int32_t *)b.c[1].data);
        CHECK_OK(tp_df_next(test, &b));
        CHECK(memcmp(a.c[0].data, b.c[0].data, 784 * 4) != 0);
        CHECK_OK(tp_df_next(other, &b));
        CHECK(memcmp(a.c[0].data, b.c[0].data, 784 * 4) != 0);
    }
    tp_df_restart(df, 0);
    uint64_t hash = 0;
    while (tp_df_next(df, &a) == TP_OK) {
        const int label = *(const int32_t *)a.c[1].data;
        const float *x = (const float *)a.c[0].data;
        unsigned char bytes[784 * 4];
        int ink = 0;
        if (CHECK(label >= 0 && label < 10)) count[label]++;
        for (int i = 0; i < 784; i++) {
            CHECK(x[i] >= 0 && x[i] <= 1);
            ink += x[i] > 0.5f;
        }
        CHECK_MSG(ink > 15 && ink < 350, "a %d of %d pixels", label, ink);
        tp_test_little_endian(bytes, x, sizeof bytes, 4);
        hash = hash * 31 + tp_hash(bytes, sizeof bytes);
    }
    for (int i = 0; i < 10; i++) CHECK(count[i] > 30);
    /* the same bits with every compiler and machine: another value here means that all images changed */
    CHECK_MSG(hash == 0xf09f2f059637b2ccu, "hash is 0x%llx", (unsigned long long)hash);
    tp_df_free(df);
    tp_df_free(more);
    tp_df_free(test);
    tp_df_free(other);
    tp_datapoint_free(&a);
    tp_datapoint_free(&b);
}

/* ==== >>input source ================================================================================== */

/* A little program: an input source, one node y = 2 x for each tower, a hooked session. */
typedef struct machine {
    tp_graph *g;
    tp_input_source *s;
    tp_session *session;
    tp_hooked_session *hooked;
    tp_node *y[4];
    int towers;
} machine;

static bool machine_open(machine *m, tp_input_source *s, int towers)
{
    const tp_spec spec = {"x", TP_I32, {0, {0}}};
    memset(m, 0, sizeof *m);
    m->s = s;
    m->towers = towers;
    m->g = tp_graph_new(NULL);
    if (!m->g || tp_input_setup(s, m->g, &spec, 1) != TP_OK) return false;
    for (int t = 0; t < towers; t++) {
        tp_node *x = NULL;
        if (tp_input_get_tensors(s, &x) != TP_OK) return false;
        m->y[t] = tp_add(x, x);
    }
    int n = 0;
    tp_hook *const *hooks = tp_input_hooks(s, &n);
    m->session = tp_session_new(m->g, NULL);
    if (!hooks || !m->session) return false;
    for (int i = 0; i < n; i++)
        if (hooks[i]->after_create_session && hooks[i]->after_create_session(hooks[i], m->session) != TP_OK)
            return false;
    m->hooked = tp_hooked_session_new(m->session, hooks, n);
    return m->hooked && tp_input_reset_state(s) == TP_OK;
}

static tp_status machine_run(machine *m, int *got)
{
    const tp_tensor *value[4];
    tp_status st = tp_hooked_run(m->hooked, m->y, m->towers, value);
    for (int t = 0; t < m->towers && st == TP_OK; t++) got[t] = (int)tp_tensor_get(value[t], 0) / 2;
    return st;
}

static const char *machine_walk(machine *m, int steps)
{
    static char text[1024];
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < steps; i++) {
        int got[4];
        tp_status st = machine_run(m, got);
        if (st != TP_OK) {
            snprintf(text + n, sizeof text - n, " %s", tp_status_name(st));
            break;
        }
        for (int t = 0; t < m->towers; t++) n += (size_t)snprintf(text + n, sizeof text - n, n ? " %d" : "%d", got[t]);
    }
    return text;
}

static void machine_close(machine *m)
{
    tp_hooked_session_free(m->hooked);
    tp_session_free(m->session);
    tp_input_free(m->s);
    tp_graph_free(m->g);
}

TEST(feed_and_queue_give_the_same_data)
{
    char want[1024];
    machine m;
    CHECK(machine_open(&m, tp_feed_input(numbers(5, TP_YES)), 1));
    snprintf(want, sizeof want, "%s", machine_walk(&m, 23));
    CHECK(m.s->consumed == 23 && tp_input_size(m.s) == 5 && !m.s->feedfree);
    machine_close(&m);
    for (int capacity = 1; capacity < 60; capacity += 7) {
        CHECK(machine_open(&m, tp_queue_input(numbers(5, TP_YES), .capacity = capacity), 1));
        CHECK_STR(machine_walk(&m, 23), want);
        CHECK(m.s->consumed == 23 && tp_input_size(m.s) == 5 && m.s->feedfree);
        machine_close(&m);
    }
    /* two towers take turns: the same numbers in the same order, in half the steps */
    CHECK(machine_open(&m, tp_queue_input(numbers(5, TP_YES), .capacity = 2), 2));
    machine_walk(&m, 11);
    CHECK(m.s->consumed == 22);
    tp_input_reset_state(m.s);
    CHECK(m.s->consumed == 0);
    char got[1024];
    snprintf(got, sizeof got, "%s", machine_walk(&m, 11));
    CHECK(strncmp(got, want, strlen(got)) == 0);
    machine_close(&m);
}

TEST(resume_goes_on_where_the_steps_were)
{
    for (int queue = 0; queue < 2; queue++)
        for (int stop = 0; stop < 14; stop++) {
            machine m;
            char tail[1024];
            /* a flow that drops some, in a random order: a pass has no known size */
#define SOURCE                                                                         \
    (queue ? tp_queue_input(tp_df_map(numbers(7, TP_YES), double_even), .capacity = 3) \
           : tp_feed_input(tp_df_map(numbers(7, TP_YES), double_even)))
            CHECK(machine_open(&m, SOURCE, 1));
            machine_walk(&m, stop);
            const int64_t consumed = m.s->consumed; /* what a checkpoint keeps */
            CHECK(consumed == stop);
            snprintf(tail, sizeof tail, "%s", machine_walk(&m, 9));
            CHECK_OK(tp_input_seek(m.s, consumed)); /* in the running program */
            CHECK_STR(machine_walk(&m, 9), tail);
            machine_close(&m);
            tp_input_source *s = SOURCE; /* in a new one */
            CHECK_OK(tp_input_seek(s, consumed));
            CHECK(machine_open(&m, s, 1));
            CHECK(m.s->consumed == stop);
            CHECK_STR(machine_walk(&m, 9), tail);
            CHECK(m.s->consumed == stop + 9);
            machine_close(&m);
        }
}

TEST(finite_sources_end_and_start_again)
{
    for (int kind = 0; kind < 3; kind++) { /* a FeedInput's end is an error if nobody said that it is not */
        machine m;
        CHECK(machine_open(&m,
                           kind == 0   ? tp_queue_input(numbers(3, TP_NO), .infinite = TP_NO)
                           : kind == 1 ? tp_feed_input(numbers(3, TP_NO), .infinite = TP_NO, .quiet_end = TP_YES)
                                       : tp_feed_input(numbers(3, TP_NO), .infinite = TP_NO),
                           1));
        for (int round = 0; round < 3; round++) {
            CHECK_STR(machine_walk(&m, 9), kind == 2 ? "0 1 2 TP_ERR_STATE" : "0 1 2 TP_END");
            CHECK_STR(machine_walk(&m, 9), kind == 2 ? " TP_ERR_STATE" : " TP_END");
            CHECK(tp_input_failure(m.s, NULL) == TP_OK && m.s->consumed == 3);
            CHECK_OK(tp_input_reset_state(m.s));
        }
        machine_close(&m);
    }
}

/* ==== >>a queue of the program's ====================================================================== */

/* first, first + 1, ..., int32 scalars; at the 100th, if it comes to that, an error */
typedef struct counting {
    int first, n;
    bool fails;
} counting;
static tp_status count_from(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    const counting *c = (const counting *)user;
    (void)pass;
    if (index >= c->n) return c->fails ? tp_fail(TP_ERR_IO, "the disk of %d is gone", c->first) : TP_END;
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_I32, tp_make_shape_n(0, NULL));
    if (st == TP_OK) *(int32_t *)dp->c[0].data = (int32_t)(c->first + index);
    return st;
}
static tp_datapoint number(int32_t *v)
{
    static tp_tensor t; /* a view */
    tp_datapoint dp = {1, &t, 1};
    tp_tensor_view(&t, TP_I32, tp_make_shape_n(0, NULL), v);
    return dp;
}

#ifndef TP_NO_THREADS
TEST(a_queue_is_shared_by_sources)
{
    counting a = {0, 30, false}, b = {100, 20, false};
    for (int freed = 0; freed < 2; freed++) { /* before the sources, after them */
        tp_queue *q = tp_queue_new(3);
        machine m[2];
        CHECK(machine_open(&m[0], tp_queue_input(tp_df_from_generator(count_from, &a), .queue = q, .infinite = TP_NO),
                           1));
        CHECK(machine_open(&m[1], tp_queue_input(tp_df_from_generator(count_from, &b), .queue = q, .infinite = TP_NO),
                           2));
        if (!freed) tp_queue_free(q);
        CHECK_ERR(tp_input_seek(m[0].s, 5), TP_ERR_UNSUPPORTED, "cannot go back");
        int next[2] = {0, 100}, got[4], n = 0; /* each flow comes in its order, whoever takes it */
        tp_status st = TP_OK;
        while (st == TP_OK && n < 200) {
            machine *k = &m[n % 3 == 0];
            if (freed && n > 20) CHECK(tp_queue_size(q) <= 3);
            if (n == 9) CHECK_OK(tp_input_reset_state(k->s)); /* clears nothing */
            st = machine_run(k, got);
            for (int i = 0; i < k->towers && st == TP_OK; i++, n++) {
                const int flow = got[i] >= 100;
                CHECK_MSG(got[i] == next[flow], "%d after %d", got[i], next[flow] - 1);
                next[flow] = got[i] + 1;
            }
        }
        /* two towers want two: one may be left over */
        CHECK_MSG(st == TP_END && n >= 49, "%s after %d", tp_status_name(st), n);
        CHECK(next[0] + next[1] - 100 == n);
        CHECK(m[0].s->consumed + m[1].s->consumed == n);
        machine_close(&m[0]);
        machine_close(&m[1]);
        if (freed) tp_queue_free(q);
    }
}
#endif

static tp_status from_queue(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)pass, (void)index;
    return tp_queue_get((tp_queue *)user, dp);
}
TEST(a_queue_is_filled_by_hand)
{
    tp_queue *q = tp_queue_new(0);
    machine m;
    int32_t v = 0;
    for (v = 5; v < 9; v++) {
        const tp_datapoint dp = number(&v);
        CHECK_OK(tp_queue_put(q, &dp));
    }
    CHECK(tp_queue_size(q) == 4);
    tp_datapoint front = {0, NULL, 0};
    CHECK_OK(tp_queue_get(q, &front));
    CHECK(front.n == 1 && tp_tensor_get(&front.c[0], 0) == 5 && tp_queue_size(q) == 3);
    tp_queue_close(q);
    v = 10;
    const tp_datapoint late = number(&v);
    CHECK(tp_queue_put(q, &late) == TP_END);
    CHECK(machine_open(&m, tp_queue_input(tp_df_from_generator(from_queue, q), .infinite = TP_NO), 1));
    CHECK_STR(machine_walk(&m, 9), "6 7 8 TP_END");
    CHECK(tp_queue_get(q, &front) == TP_END && tp_queue_size(q) == 0);
    machine_close(&m);
    tp_queue_free(q);
    tp_queue_free(NULL);
    CHECK(!tp_queue_new(-1));
    tp_datapoint_free(&front);
}

TEST(what_is_put_into_a_shared_queue_is_checked_when_it_is_taken)
{
    counting none = {0, 0, false};
    tp_queue *q = tp_queue_new(0);
    machine m;
    int got[4];
    int32_t v = 3;
    float wrong = 1;
    tp_tensor t = tp_scalar_view(&wrong);
    const tp_datapoint good = number(&v), bad = {1, &t, 1};
    CHECK_OK(tp_queue_put(q, &good));
    CHECK_OK(tp_queue_put(q, &good));
    CHECK_OK(tp_queue_put(q, &bad));
    CHECK(machine_open(&m, tp_queue_input(tp_df_from_generator(count_from, &none), .queue = q, .infinite = TP_NO), 1));
    CHECK(machine_run(&m, got) == TP_OK && got[0] == 3);
    CHECK(tp_queue_input_size_ema(m.s) == 2.0f); /* what waits behind the first */
    CHECK(machine_run(&m, got) == TP_OK && got[0] == 3);
    CHECK_ERR(machine_run(&m, got), TP_ERR_DTYPE, "float32");
    machine_close(&m);
    tp_queue_free(q);
}

#ifndef TP_NO_THREADS
static void put_three(void *user)
{
    for (int32_t v = 1; v <= 3; v++) {
        tp_tensor t;
        memset(&t, 0, sizeof t);
        tp_tensor_view(&t, TP_I32, tp_make_shape_n(0, NULL), &v);
        const tp_datapoint dp = {1, &t, 1};
        CHECK(tp_queue_put((tp_queue *)user, &dp) == (v < 3 ? TP_OK : TP_END));
    }
}
TEST(a_full_queue_waits_until_it_is_closed)
{
    tp_queue *q = tp_queue_new(1);
    tp_thread *t = NULL;
    tp_datapoint front = {0, NULL, 0};
    CHECK_OK(tp_thread_start(&t, put_three, q));
    CHECK_OK(tp_queue_get(q, &front));
    CHECK(tp_tensor_get(&front.c[0], 0) == 1);
    while (tp_queue_size(q) == 0) {} /* the second is in, the third waits */
    tp_queue_close(q);
    tp_thread_join(t);
    CHECK_OK(tp_queue_get(q, &front)); /* what is in comes out */
    CHECK(tp_tensor_get(&front.c[0], 0) == 2 && tp_queue_get(q, &front) == TP_END);
    tp_datapoint_free(&front);
    tp_queue_free(q);
}
#endif

#ifndef TP_NO_THREADS
/* Gives 7, then waits until it is told to stop, ten seconds at most. */
typedef struct waiting {
    bool told;
    tp_status ends; /* what it returns then */
} waiting;
static tp_status give_7_and_wait(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    waiting *w = (waiting *)user;
    counting one = {7, 1, false};
    if (index == 0) return count_from(&one, pass, index, dp);
    for (const double until = tp_time() + 10; !w->told && tp_time() < until; w->told = tp_df_stopping())
        tp_test_sleep(1e-3);
    return w->ends == TP_ERR_IO ? tp_fail(TP_ERR_IO, "there is no more") : w->ends;
}
/* Passes on what another flow gives, and notes how that went. */
typedef struct passing {
    tp_dataflow *df;
    tp_status last;
    int calls;
} passing;
static tp_status pass_on(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    passing *p = (passing *)user;
    (void)pass, (void)index;
    __atomic_add_fetch(&p->calls, 1, __ATOMIC_RELEASE);
    return p->last = tp_df_next(p->df, dp);
}
/* A flow whose threads have nothing yet when it is told to stop does not say that the data have ended. */
TEST(a_stop_is_not_the_end_of_the_data)
{
    waiting w = {false, TP_END};
    passing p = {tp_df_prefetch(tp_df_from_generator(give_7_and_wait, &w)), TP_OK, 0};
    machine m;
    int got[4] = {0};
    CHECK(machine_open(&m, tp_queue_input(tp_df_from_generator(pass_on, &p)), 1));
    CHECK(machine_run(&m, got) == TP_OK && got[0] == 7);
    for (const double until = tp_time() + 10; __atomic_load_n(&p.calls, __ATOMIC_ACQUIRE) < 2 && tp_time() < until;)
        tp_test_sleep(1e-3);
    machine_close(&m);
    CHECK_MSG(p.last == TP_STOP, "%s", tp_status_name(p.last));
    tp_df_free(p.df);
    CHECK(w.told);
}
/* A source's thread tells the flow that it reads when it is to stop; what the flow says then ends nothing for others. */
TEST(a_flow_that_waits_is_told_to_stop)
{
    static const tp_status ends[] = {TP_STOP, TP_END, TP_ERR_IO};
    for (int shared = 0; shared < 2; shared++)
        for (int i = 0; i < TP_COUNT(ends); i++) {
            tp_queue *q = tp_queue_new(3);
            machine m;
            waiting w = {false, ends[i]};
            int got[4] = {0};
            int32_t v = 5;
            const tp_datapoint other = number(&v);
            tp_datapoint front = {0, NULL, 0};
            tp_dataflow *df = tp_df_from_generator(give_7_and_wait, &w);
            CHECK(machine_open(&m, tp_queue_input(df, .queue = shared ? q : NULL, .infinite = TP_NO), 1));
            CHECK(machine_run(&m, got) == TP_OK && got[0] == 7);
            machine_close(&m);
            if (!CHECK_MSG(w.told, "source %d was not told", shared)) i = TP_COUNT(ends);
            CHECK_OK(tp_queue_put(q, &other));
            if (CHECK_OK(tp_queue_get(q, &front))) CHECK(tp_tensor_get(&front.c[0], 0) == 5);
            tp_datapoint_free(&front);
            tp_queue_free(q);
        }
    CHECK(!tp_df_stopping());
}
#endif

TEST(a_failing_flow_closes_a_shared_queue)
{
    counting good = {0, 1 << 30, false}, fails = {100, 2, true};
    tp_queue *q = tp_queue_new(2);
    machine m[2];
    int got[4], n = 0;
    CHECK(machine_open(&m[0], tp_queue_input(tp_df_from_generator(count_from, &good), .queue = q), 1));
    CHECK(machine_open(&m[1], tp_queue_input(tp_df_from_generator(count_from, &fails), .queue = q), 1));
    tp_status st = TP_OK;
    while (st == TP_OK && n++ < 100000) st = machine_run(&m[n % 2], got);
    CHECK_MSG(st == TP_ERR_IO, "%s after %d", tp_status_name(st), n);
    for (int i = 0; i < 2; i++) {
        const char *why = NULL;
        CHECK_ERR(machine_run(&m[i], got), TP_ERR_IO, "the disk of 100 is gone");
        CHECK(tp_input_failure(m[i].s, &why) == TP_ERR_IO);
        CHECK_HAS(why, "the disk of 100 is gone");
    }
    tp_datapoint front = {0, NULL, 0};
    CHECK_ERR(tp_queue_get(q, &front), TP_ERR_IO, "the disk of 100 is gone");
    machine_close(&m[0]);
    machine_close(&m[1]);
    tp_queue_free(q);
}

#ifndef TP_NO_THREADS
/* Two flows fill a queue and fail, the second when it is let go: the first failure is the queue's. */
typedef struct failing {
    const char *name;
    bool waits;
} failing;
static int let_go; /* atomic */
static tp_status fail_by_name(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    const failing *f = (const failing *)user;
    (void)pass, (void)index, (void)dp;
    while (f->waits && !__atomic_load_n(&let_go, __ATOMIC_ACQUIRE)) tp_test_sleep(1e-4);
    return tp_fail(TP_ERR_IO, "the %s disk is gone", f->name);
}
TEST(the_first_failure_of_a_shared_queue_stays)
{
    failing first = {"first", false}, second = {"second", true};
    tp_queue *q = tp_queue_new(2);
    tp_datapoint front = {0, NULL, 0};
    machine m[2];
    let_go = 0;
    CHECK(machine_open(&m[0], tp_queue_input(tp_df_from_generator(fail_by_name, &first), .queue = q), 1));
    CHECK(machine_open(&m[1], tp_queue_input(tp_df_from_generator(fail_by_name, &second), .queue = q), 1));
    CHECK_ERR(tp_queue_get(q, &front), TP_ERR_IO, "the first disk is gone");
    __atomic_store_n(&let_go, 1, __ATOMIC_RELEASE);
    tp_test_sleep(0.005);
    machine_close(&m[1]); /* waits for its thread */
    CHECK_ERR(tp_queue_get(q, &front), TP_ERR_IO, "the first disk is gone");
    machine_close(&m[0]);
    CHECK_ERR(tp_queue_get(q, &front), TP_ERR_IO, "the first disk is gone");
    tp_datapoint_free(&front);
    tp_queue_free(q);
}
#endif

TEST(memory_for_a_shared_queue)
{
    counting c = {0, 3, false};
    for (long n = 1, failed = 1; failed; n++) {
        machine m;
        int got[4];
        tp_test_fail_after(n);
        tp_queue *q = tp_queue_new(2);
        tp_dataflow *df = q ? tp_df_from_generator(count_from, &c) : NULL;
        const bool open = machine_open(&m, df ? tp_queue_input(df, .queue = q) : NULL, 1);
        tp_status st = TP_OK;
        for (int i = 0; i < 3 && open && st == TP_OK; i++) st = machine_run(&m, got);
        failed = tp_test_alloc_failed();
        CHECK_MSG(failed ? !open || st == TP_ERR_NOMEM || st == TP_OK : open && st == TP_OK, "allocation %ld: %s", n,
                  tp_status_name(st)); /* the thread may have read enough when its memory ends */
        machine_close(&m);
        tp_queue_free(q);
        CHECK_MSG(tp_test_live_blocks() == 0, "allocation %ld leaks %ld", n, tp_test_live_blocks());
    }
    tp_test_alloc_reset();
}

TEST(sources_have_a_name_scope)
{
    const tp_spec specs[] = {TP_SPEC("image", TP_F32, TP_ANY, 2), TP_SPEC("label", TP_I32, TP_ANY)};
    tp_graph *g = tp_graph_new(NULL);
    tp_input_source *s = tp_placeholder_input();
    tp_input_cached_name_scope_push(s); /* before setup: nothing happens */
    CHECK_OK(tp_input_setup(s, g, specs, 2));
    TP_NAME_SCOPE(g, "tower0")
    {
        for (int i = 0; i < 2; i++) {
            tp_input_cached_name_scope_push(s);
            CHECK_STR(tp_name_scope(g), "PlaceholderInput"); /* the same one again, and not in tower0 */
            tp_name_scope_pop(g);
        }
        CHECK_STR(tp_name_scope(g), "tower0");
    }
    CHECK_OK(tp_graph_status(g));
    tp_input_free(s);
    tp_graph_free(g);
}

static tp_status fail_at(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    static const int many = 100;
    if (index == *(const int *)user) return tp_fail(TP_ERR_IO, "the disk is gone");
    return count_to((void *)(uintptr_t)&many, pass, index, dp);
}

static tp_status no_memory_at(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    static const int many = 100;
    if (index == *(const int *)user) return tp_malloc(SIZE_MAX) ? TP_OK : TP_ERR_NOMEM;
    return count_to((void *)(uintptr_t)&many, pass, index, dp);
}

TEST(a_failing_producer_delivers_the_rest_and_fails)
{
    const int three = 3;
    const char *why = NULL;
    machine m;
    CHECK(machine_open(&m, tp_queue_input(tp_df_from_generator(fail_at, (void *)(uintptr_t)&three)), 1));
    CHECK_STR(machine_walk(&m, 9), "0 1 2 TP_ERR_IO");
    CHECK_STR(tp_last_error(), "the disk is gone [tp_df_from_generator: pass 0, datapoint 3]");
    CHECK(tp_input_failure(m.s, &why) == TP_ERR_IO);
    CHECK_STR(why, "the disk is gone [tp_df_from_generator: pass 0, datapoint 3]");
    CHECK(m.s->consumed == 3);
    CHECK_STR(machine_walk(&m, 9), " TP_ERR_IO");
    CHECK_OK(tp_input_reset_state(m.s)); /* from the start: the same */
    CHECK(tp_input_failure(m.s, &why) == TP_OK);
    CHECK_STR(machine_walk(&m, 9), "0 1 2 TP_ERR_IO");
    machine_close(&m);
    CHECK(machine_open(&m, tp_queue_input(tp_df_from_generator(no_memory_at, (void *)(uintptr_t)&three)), 1));
    CHECK_STR(machine_walk(&m, 9), "0 1 2 TP_ERR_NOMEM");
    CHECK_HAS(tp_last_error(), "out of memory");
    machine_close(&m);
    CHECK(machine_open(&m, tp_feed_input(tp_df_from_generator(fail_at, (void *)(uintptr_t)&three)), 1));
    CHECK_STR(machine_walk(&m, 9), "0 1 2 TP_ERR_IO");
    CHECK_STR(tp_last_error(), "the disk is gone [tp_df_from_generator: pass 0, datapoint 3]");
    machine_close(&m);
    CHECK(machine_open(&m, tp_queue_input(tp_df_from_list(NULL, 0)), 1)); /* nothing to repeat */
    CHECK_STR(machine_walk(&m, 9), " TP_ERR_STATE");
    CHECK_HAS(tp_last_error(), "no datapoint");
    machine_close(&m);
}

TEST(closing_at_any_moment)
{
    for (int i = 0; i < 30; i++) {
        machine m;
        CHECK(machine_open(&m, tp_queue_input(numbers(5, TP_YES), .capacity = 1 + i % 4), 1 + i % 3));
        for (int k = 0; k < i % 5; k++) {
            machine_walk(&m, k);
            CHECK_OK(tp_input_reset_state(m.s));
        }
        machine_close(&m);
    }
    machine m; /* never started, never asked for tensors, never set up */
    memset(&m, 0, sizeof m);
    m.s = tp_queue_input(numbers(5, TP_YES));
    CHECK_ERR(tp_input_reset_state(m.s), TP_ERR_STATE, "after tp_input_setup");
    machine_close(&m);
    tp_input_free(NULL);
}

TEST(signature_mismatches_are_sentences)
{
    const int32_t v[6] = {0};
    const tp_spec specs[] = {TP_SPEC("image", TP_I32, TP_ANY), {"label", TP_I32, {0, {0}}}};
    tp_tensor two[2] = {{TP_I32, {2, {2, 3}}, (void *)(uintptr_t)v, NULL, 0, NULL, NULL, 0},
                        {TP_F32, {1, {2}}, (void *)(uintptr_t)v, NULL, 0, NULL, NULL, 0}};
    for (int queue = 0; queue < 2; queue++)
        for (int wrong = 0; wrong < 3; wrong++) {
            tp_dataflow *df = tp_df_from_arrays(two, wrong == 2 ? 1 : 2);
            if (wrong == 1) df = tp_df_cast(df, 1, TP_I64, 0);
            tp_input_source *s = queue ? tp_queue_input(df) : tp_feed_input(df);
            tp_graph *g = tp_graph_new(NULL);
            tp_node *in[2] = {NULL, NULL};
            CHECK_OK(tp_input_setup(s, g, specs, 2));
            CHECK_ERR(tp_input_setup(s, g, specs, 2), TP_ERR_STATE, "set up before");
            CHECK_OK(tp_input_get_tensors(s, in));
            tp_session *session = tp_session_new(g, NULL);
            int n;
            tp_hook *const *hooks = tp_input_hooks(s, &n);
            CHECK(hooks == tp_input_hooks(s, &n) && n == 1);
            tp_hooked_session *h = tp_hooked_session_new(session, hooks, n);
            tp_status st = tp_hooked_run(h, in, 2, NULL);
            if (wrong == 2)
                CHECK_ERR(st, TP_ERR_SHAPE,
                          "datapoint 0 of tp_df_from_arrays has 1 components, the input signature has 2");
            else
                CHECK_ERR(st, TP_ERR_DTYPE,
                          wrong ? "component 1 ('label') of datapoint 0 of tp_df_cast is int64 (), the input signature "
                                  "wants int32 (): convert it with tp_df_cast"
                                : "component 1 ('label') of datapoint 0 of tp_df_from_arrays is float32 ()");
            CHECK(s->consumed == 0);
            tp_hooked_session_free(h);
            tp_session_free(session);
            tp_input_free(s);
            tp_graph_free(g);
        }
    two[1].dtype = TP_I32;
    two[0].shape = tp_make_shape(2, 1, 3);
    tp_input_source *s = tp_feed_input(tp_df_from_arrays(two, 2));
    tp_graph *g = tp_graph_new(NULL);
    tp_node *in[2] = {NULL, NULL};
    CHECK_OK(tp_input_setup(s, g, specs, 2));
    CHECK_OK(tp_input_get_tensors(s, in));
    tp_session *session = tp_session_new(g, NULL);
    int n;
    tp_hook *const *hooks = tp_input_hooks(s, &n);
    tp_hooked_session *h = tp_hooked_session_new(session, hooks, n);
    CHECK_ERR(
        tp_hooked_run(h, in, 2, NULL), TP_ERR_SHAPE,
        "component 0 ('image') of datapoint 0 of tp_df_from_arrays has shape (1,3), the input signature wants (?)");
    tp_hooked_session_free(h);
    tp_session_free(session);
    tp_input_free(s);
    tp_graph_free(g);
}

/* A hook that fails one run: the datapoint must come again. */
static tp_status fail_once(tp_hook *h, tp_run_request *r)
{
    (void)r;
    return --*(int *)h->user == 0 ? tp_fail(TP_ERR_TIMEOUT, "not this time") : TP_OK;
}

TEST(a_run_that_failed_consumes_nothing)
{
    for (int queue = 0; queue < 2; queue++) {
        machine m;
        CHECK(machine_open(&m, queue ? tp_queue_input(numbers(5, TP_NO)) : tp_feed_input(numbers(5, TP_NO)), 1));
        int n, at = 3, got[4];
        tp_hook spoiler;
        memset(&spoiler, 0, sizeof spoiler);
        spoiler.name = "spoiler";
        spoiler.user = &at;
        spoiler.before_run = fail_once;
        tp_hook *two[2];
        two[0] = tp_input_hooks(m.s, &n)[0];
        two[1] = &spoiler;
        tp_hooked_session_free(m.hooked);
        m.hooked = tp_hooked_session_new(m.session, two, 2);
        CHECK(machine_run(&m, got) == TP_OK && got[0] == 0);
        CHECK(machine_run(&m, got) == TP_OK && got[0] == 1);
        CHECK(machine_run(&m, got) == TP_ERR_TIMEOUT);
        CHECK(m.s->consumed == 2);
        CHECK(machine_run(&m, got) == TP_OK && got[0] == 2);
        CHECK(m.s->consumed == 3);
        machine_close(&m);
    }
}

TEST(placeholders_are_shared_by_name)
{
    const tp_spec specs[] = {TP_SPEC("image", TP_F32, TP_ANY, 2), TP_SPEC("label", TP_I32, TP_ANY)};
    tp_graph *g = tp_graph_new(NULL);
    tp_input_source *train = tp_feed_input(numbers(3, TP_NO)),
                    *val = tp_feed_input(numbers(3, TP_NO), .infinite = TP_NO);
    tp_input_source *plain = tp_placeholder_input(), *queue = tp_queue_input(numbers(3, TP_NO)),
                    *queue2 = tp_queue_input(numbers(3, TP_NO));
    tp_node *a[2], *b[2], *c[2], *d[2], *e[2], *f[2];
    CHECK_OK(tp_input_setup(train, g, specs, 2));
    tp_name_scope_push(g, "InferenceTower");
    CHECK_OK(tp_input_setup(val, g, specs, 2));
    CHECK_OK(tp_input_setup(plain, g, specs, 2));
    CHECK_OK(tp_input_setup(queue, g, specs, 2));
    CHECK_OK(tp_input_setup(queue2, g, specs, 2));
    CHECK_OK(tp_input_get_tensors(train, a));
    CHECK_OK(tp_input_get_tensors(val, b));
    CHECK_OK(tp_input_get_tensors(plain, c));
    CHECK_OK(tp_input_get_tensors(queue, d));
    CHECK_OK(tp_input_get_tensors(queue, e)); /* the next tower */
    CHECK_OK(tp_input_get_tensors(queue2, f));
    tp_name_scope_pop(g);
    CHECK(a[0] == b[0] && a[1] == b[1] && a[0] == c[0]);
    CHECK(d[0] != e[0] && d[0] != a[0]);
    CHECK_STR(tp_node_name(a[0]), "image");
    CHECK_STR(tp_node_name(d[0]), "QueueInput/image");
    CHECK_STR(tp_node_name(e[0]), "QueueInput/image_1");
    CHECK_STR(tp_node_name(f[0]), "QueueInput_1/image");
    int n = 0;
    tp_node *const *summaries = tp_collection(g, TP_KEY_SUMMARIES, &n);
    CHECK(n == 2);
    for (int i = 0; i < n; i++) {
        const tp_summary_attrs *info = tp_summary_info(summaries[i]);
        CHECK_STR(info ? info->tag : NULL, i ? "QueueInput_1/queue_size-summary" : "QueueInput/queue_size-summary");
    }
    CHECK(tp_input_hooks(plain, &n) == NULL && n == 0 && tp_input_size(plain) == -1);
    CHECK_ERR(tp_input_seek(plain, 3), TP_ERR_UNSUPPORTED, "PlaceholderInput");
    const tp_spec clash = TP_SPEC("image", TP_F32, TP_ANY, 3);
    tp_input_source *other = tp_placeholder_input();
    CHECK_ERR(tp_input_setup(other, g, &clash, 1), TP_ERR_NAME,
              "a node of that name is there, made by placeholder, float32 (?,2): give it another name");
    CHECK(!tp_input_setup_done(other) && tp_input_setup_done(plain));
    tp_input_free(train);
    tp_input_free(val);
    tp_input_free(plain);
    tp_input_free(queue);
    tp_input_free(queue2);
    tp_input_free(other);
    tp_graph_free(g);
    tp_input_source *bad = tp_queue_input(tp_df_batch(numbers(2, TP_NO), 3));
    g = tp_graph_new(NULL);
    CHECK_ERR(tp_input_setup(bad, g, specs, 2), TP_ERR_ARG, "batch_size is 3");
    tp_input_free(bad);
    CHECK(tp_feed_input(NULL) == NULL && tp_queue_input(NULL) == NULL);
    bad = tp_queue_input(numbers(2, TP_NO), .capacity = -1);
    CHECK_ERR(tp_input_setup(bad, g, specs, 2), TP_ERR_ARG, "-1 datapoints");
    tp_input_free(bad);
    tp_graph_free(g);
}

TEST(queue_size_is_summarised)
{
    machine m;
    CHECK(machine_open(&m, tp_queue_input(numbers(5, TP_NO), .capacity = 6), 1));
    for (int i = 0; i < 40; i++) {
        machine_walk(&m, 1);
        const double ema = (double)tp_queue_input_size_ema(m.s);
        CHECK(ema >= 0 && ema <= 6);
        int n = 0;
        tp_node *const *summaries = tp_collection(m.g, TP_KEY_SUMMARIES, &n);
        tp_tensor t = {TP_DTYPE_UNSET, {0, {0}}, NULL, NULL, 0, NULL, NULL, 0};
        if (!CHECK(n == 1)) break;
        CHECK_OK(tp_session_eval(m.session, summaries[0], &t)); /* any run can read it */
        CHECK_NEAR(tp_tensor_get(&t, 0), ema, 1e-6, 0);
        tp_tensor_free(&t);
    }
    machine_close(&m);
}

TEST(steps_allocate_nothing)
{
    for (int queue = 0; queue < 2; queue++) {
        machine m;
        tp_test_fail_after(0);
        CHECK(machine_open(
            &m, queue ? tp_queue_input(numbers(5, TP_YES), .capacity = 4) : tp_feed_input(numbers(5, TP_YES)), 1));
        machine_walk(&m, 30);
        const long before = tp_test_alloc_count();
        machine_walk(&m, 100);
        CHECK_MSG(tp_test_alloc_count() == before, "%s: %ld allocations", m.s->name, tp_test_alloc_count() - before);
        machine_close(&m);
        CHECK(tp_test_live_blocks() == 0);
        tp_test_alloc_reset();
    }
}

TEST(sources_survive_out_of_memory)
{
    for (int queue = 0; queue < 2; queue++)
        for (long n = 1, failed = 1; failed; n++) {
            machine m;
            int got[4];
            tp_test_fail_after(n);
            tp_input_source *s =
                queue ? tp_queue_input(numbers(5, TP_YES), .capacity = 2) : tp_feed_input(numbers(5, TP_YES));
            bool open = machine_open(&m, s, 1);
            tp_status st = TP_OK;
            for (int i = 0; i < 3 && open && st == TP_OK; i++) st = machine_run(&m, got);
            failed = tp_test_alloc_failed();
            CHECK_MSG(failed ? !open || st == TP_ERR_NOMEM : open && st == TP_OK, "allocation %ld: %s: %s", n,
                      tp_status_name(st), tp_last_error());
            machine_close(&m);
            CHECK_MSG(tp_test_live_blocks() == 0, "%s: allocation %ld leaks", queue ? "QueueInput" : "FeedInput", n);
        }
    tp_test_alloc_reset();
}

/* The names of a signature are copied; where one needs memory of its own, that may run out too. */
TEST(setup_survives_out_of_memory)
{
    static char name[2][9000];
    for (int i = 0; i < 2; i++) {
        memset(name[i], 'a' + i, sizeof name[i]);
        name[i][sizeof name[i] - 1] = 0;
    }
    const tp_spec specs[2] = {{name[0], TP_I32, {0, {0}}}, {name[1], TP_I32, {0, {0}}}};
    long n = 1;
    for (long failed = 1; failed; n++) {
        tp_input_source *s = tp_feed_input(numbers(5, TP_NO));
        tp_graph *g = tp_graph_new(NULL);
        tp_test_fail_after(n);
        const tp_status st = tp_input_setup(s, g, specs, 2);
        failed = tp_test_alloc_failed();
        CHECK_MSG(failed ? st == TP_ERR_NOMEM : st == TP_OK, "allocation %ld: %s", n, tp_status_name(st));
        CHECK(tp_input_setup_done(s) == !failed);
        tp_input_free(s);
        tp_graph_free(g);
        tp_test_alloc_reset();
    }
    CHECK(n > 4); /* the list and two names at least */
}

/* A signature needs names; without a type it is of floats; it is copied. */
TEST(signatures_are_copied)
{
    static const char *const bad[] = {"", NULL};
    char *name = (char *)malloc(4);
    tp_spec *specs = (tp_spec *)calloc(2, sizeof *specs);
    if (!CHECK(name && specs)) return;
    memcpy(name, "one", 4);
    specs[0].name = name;
    specs[1].name = "two", specs[1].dtype = TP_I64;
    tp_graph *g = tp_graph_new(NULL);
    tp_input_source *s = tp_feed_input(numbers(5, TP_NO));
    tp_node *in[2] = {NULL, NULL};
    CHECK_ERR(tp_input_setup(NULL, g, specs, 2), TP_ERR_ARG, "the input source is NULL");
    CHECK_ERR(tp_input_setup(s, NULL, specs, 2), TP_ERR_ARG, "FeedInput: setup needs a graph and at least one input");
    CHECK_ERR(tp_input_setup(s, g, NULL, 2), TP_ERR_ARG, "FeedInput: setup needs a graph and at least one input");
    CHECK_ERR(tp_input_setup(s, g, specs, 0), TP_ERR_ARG, "FeedInput: setup needs a graph and at least one input");
    for (int i = 0; i < 2; i++) {
        specs[1].name = bad[i];
        CHECK_ERR(tp_input_setup(s, g, specs, 2), TP_ERR_NAME, "FeedInput: input 1 of the signature has no name");
        CHECK(!tp_input_setup_done(s));
    }
    specs[1].name = "two";
    CHECK_OK(tp_input_setup(s, g, specs, 2));
    memset(name, 'x', 3);
    memset(specs, 0, 2 * sizeof *specs);
    free(name);
    free(specs);
    CHECK(tp_input_setup_done(s) && s->n_spec == 2);
    CHECK_STR(s->spec[0].name, "one");
    CHECK_STR(s->spec[1].name, "two");
    CHECK(s->spec[0].dtype == TP_F32 && s->spec[1].dtype == TP_I64);
    CHECK_OK(tp_input_get_tensors(s, in));
    tp_input_free(s);
    tp_graph_free(g);
}

TEST(capacities_that_a_queue_may_have)
{
    static const int capacity[] = {-1, 0, 1, 1 << 24, (1 << 24) + 1, INT32_MAX, INT32_MIN};
    for (int i = 0; i < TP_COUNT(capacity); i++) {
        char want[80];
        const bool good = capacity[i] >= 0 && capacity[i] <= 1 << 24;
        const tp_spec spec = {"x", TP_I32, {0, {0}}};
        tp_graph *g = tp_graph_new(NULL);
        tp_input_source *s = tp_queue_input(numbers(5, TP_NO), .capacity = capacity[i]);
        snprintf(want, sizeof want, "tp_queue_input: a capacity of %d datapoints", capacity[i]);
        if (!good) CHECK_HAS(tp_last_error(), want);
        const tp_status st = tp_input_setup(s, g, &spec, 1);
        CHECK_MSG(st == (good ? TP_OK : TP_ERR_ARG), "%d: %s", capacity[i], tp_status_name(st));
        tp_input_free(s);
        tp_graph_free(g);
    }
}

/* Elements are scaled in blocks: the values are those of one after the other, also behind the last whole block. */
TEST(casts_of_many_elements)
{
    static const tp_dtype to[] = {TP_F64, TP_F16, TP_BF16, TP_I32, TP_U8}, from[] = {TP_F32, TP_F64, TP_I64, TP_U8};
    tp_datapoint dp = {0, NULL, 0};
    for (int k = 0; k < TP_COUNT(to) * TP_COUNT(from); k++) {
        const tp_dtype t = to[k % TP_COUNT(to)];
        tp_tensor x, want;
        memset(&x, 0, sizeof x), memset(&want, 0, sizeof want);
        CHECK_OK(tp_tensor_resize(&x, from[k / TP_COUNT(to)], tp_make_shape(2, 700)));
        CHECK_OK(tp_tensor_resize(&want, t, tp_make_shape(2, 700)));
        for (int i = 0; i < 1400; i++) tp_tensor_set(&x, i, (i * 7919 % 1400) / 8.0);
        for (int i = 0; i < 1400; i++) tp_tensor_set(&want, i, tp_tensor_get(&x, i) * 0.3);
        tp_dataflow *df = tp_df_cast(tp_df_from_arrays(&x, 1, .shuffle = TP_NO), 0, t, 0.3);
        for (size_t n = 0; n < 2 && CHECK_OK(tp_df_next(df, &dp)); n++) {
            const size_t bytes = 700 * tp_dtype_size(t);
            CHECK_MSG(memcmp(dp.c[0].data, (const char *)want.data + n * bytes, bytes) == 0, "%s", tp_dtype_name(t));
        }
        tp_df_free(df);
        tp_tensor_free(&x), tp_tensor_free(&want);
    }
    tp_datapoint_free(&dp);
}

TEST(test_speed_runs)
{
    double speed = 0;
    tp_dataflow *df = tp_df_digits("train", .size = 50);
    const double start = tp_time();
    CHECK_OK(tp_df_test_speed(df, 120, 10, &speed));
    const double seconds = tp_time() - start;
    CHECK_MSG(speed >= 120 / seconds, "%g a second, but 120 took less than %g s", speed, seconds);
    CHECK_ERR(tp_df_test_speed(df, 0, 0, NULL), TP_ERR_ARG, "0 datapoints");
    CHECK_ERR(tp_df_test_speed(df, 1000, -1, NULL), TP_ERR_ARG, "warmup is -1");
    tp_df_free(df);
}

TEST_MAIN()
