/* test_flows.c - flows that filter, choose, mix, cache, repeat and sort by shape; text; who failed (tp_input.h) */
#define TP_IMPLEMENTATION
#include "tp_input.h"
#include "seek_help.h"
#include "tp_test.h"

/* ==== >>helpers ======================================================================================= */

/* Datapoint i of pass p is the int32 100 p + i. The flow skips by itself if `seekable`. */
static const int lengths[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static tp_status pass_and_index(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    tp_status st = index < *(const int *)user ? tp_datapoint_resize(dp, 1) : TP_END;
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_I32, tp_make_shape_n(0, NULL));
    if (st == TP_OK) *(int32_t *)dp->c[0].data = (int32_t)(100 * pass + index);
    return st;
}
static tp_dataflow *passes_of(int n, bool seekable)
{
    return tp_df_from_generator(pass_and_index, (void *)(uintptr_t)&lengths[n], .size = n,
                                .indexed = seekable && n ? TP_YES : TP_NO);
}
/* D(n) of the specification: 0 to n-1 in every pass, starting at `first`. */
static tp_dataflow *numbers(int n, int first)
{
    int32_t value[64];
    for (int i = 0; i < n; i++) value[i] = first + i;
    tp_tensor t = {TP_I32, {1, {n}}, value, NULL, 0, NULL, NULL, 0};
    return tp_df_from_arrays(&t, 1, .shuffle = TP_NO);
}

/* "0 1 2 | 3 4": what `passes` passes from `first` on give; the elements of a component with commas. */
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
            for (int c = 0; c < dp.n && n < sizeof text - 64; c++)
                for (int64_t k = 0; k < tp_tensor_size(&dp.c[c]); k++)
                    n += (size_t)snprintf(text + n, sizeof text - n, c || k ? ",%g" : "%g", tp_tensor_get(&dp.c[c], k));
        }
        if (st < TP_OK) snprintf(text + n, sizeof text - n, " %s: %s", tp_status_name(st), tp_last_error());
        if (st == TP_END) CHECK(tp_df_next(df, &dp) == TP_END); /* it stays */
    }
    tp_datapoint_free(&dp);
    return text;
}
static void check_walk_(tp_dataflow *df, int passes, const char *want, int64_t size, int line)
{
    const int64_t got = tp_df_size(df);
    const char *text = walk_from(df, 0, passes, 100);
    CHECK_MSG(strcmp(text, want) == 0, "line %d: \"%s\", expected \"%s\"", line, text, want);
    CHECK_MSG(got == size, "line %d: size %lld, expected %lld", line, (long long)got, (long long)size);
    tp_df_free(df);
}
#define check_walk(df_, passes_, want_, size_) check_walk_((df_), (passes_), (want_), (size_), __LINE__)

static bool is_even(const tp_datapoint *dp, const tp_map_call *call)
{
    (void)call;
    return *(const int32_t *)dp->c[0].data % 2 == 0;
}
static bool by_chance(const tp_datapoint *dp, const tp_map_call *call)
{
    (void)dp;
    return tp_random_uniform(call->key, (uint64_t)call->index, 0) < 0.5f;
}

/* Item i of "shapes 2,3,2,2,3,3,2,2" has that many elements, all of them 100 p + i. */
static const int widths[8] = {2, 3, 2, 2, 3, 3, 2, 2};
static tp_status of_two_shapes(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user;
    if (index >= 8) return TP_END;
    const int64_t n = widths[index];
    tp_status st = tp_datapoint_resize(dp, 2);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_I32, tp_make_shape_n(0, NULL));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_F32, tp_make_shape_n(1, &n));
    if (st == TP_OK) *(int32_t *)dp->c[0].data = (int32_t)(100 * pass + index);
    for (int64_t k = 0; k < n && st == TP_OK; k++) ((float *)dp->c[1].data)[k] = (float)(100 * pass + index);
    return st;
}
static tp_dataflow *two_shapes(void) { return tp_df_from_generator(of_two_shapes, NULL, .size = 8); }

/* Each kind of flow, over flows that skip by themselves or not. NULL: no more. */
static tp_dataflow *flow_of(int which, bool seekable)
{
    static const double chances[3] = {0.25, 0, 0.75};
    tp_dataflow *many[3];
    switch (which) {
    case 0: return tp_df_filter(passes_of(9, seekable), is_even);
    case 1: return tp_df_filter(passes_of(9, seekable), by_chance, .seed = 3);
    case 2: return tp_df_filter(passes_of(5, seekable));
    case 3: return tp_df_repeated_point(passes_of(4, seekable), 3);
    case 4: return tp_df_repeated_point(tp_df_filter(passes_of(7, seekable), is_even), 2);
    case 5:
        for (int i = 0; i < 3; i++) many[i] = passes_of(4 + 2 * i, seekable);
        return tp_df_random_choose(many, 3, .probabilities = chances);
    case 6:
        for (int i = 0; i < 3; i++) many[i] = passes_of(4 + i, seekable);
        return tp_df_random_choose(many, 3, .seed = 5);
    case 7:
        for (int i = 0; i < 3; i++) many[i] = passes_of(2 + 3 * i, seekable);
        return tp_df_random_mix(many, 3);
    case 8: /* one that is shorter than it says */
        many[0] = tp_df_filter(passes_of(8, seekable), is_even), many[1] = passes_of(3, seekable);
        return tp_df_random_mix(many, 2);
    case 9: return tp_df_cache(passes_of(7, seekable));
    case 10: return tp_df_cache(passes_of(9, seekable), .shuffle = TP_YES);
    case 11: return tp_df_batch_by_shape(two_shapes(), 2, .idx = 1);
    case 12: return tp_df_batch_by_shape(two_shapes(), 3, .idx = 1, .keep_state = TP_NO);
    case 13: return tp_df_batch_by_shape(tp_df_repeated_point(two_shapes(), 2), 5, .idx = 1);
    case 14: many[0] = passes_of(4, seekable), many[1] = passes_of(6, seekable); return tp_df_zip(many, 2);
    case 15: return tp_df_batch(two_shapes(), 3, .remainder = TP_YES, .pad = TP_YES, .pad_value = 0.5);
    case 16: return tp_df_shard(passes_of(8, seekable), 1, 3);
    case 17: return tp_df_shard(tp_df_filter(passes_of(9, seekable), is_even), 2, 3);
    default: return NULL;
    }
}

/* ==== >>values ======================================================================================== */

TEST(golden_values_of_the_specification)
{
    check_walk(tp_df_repeated_point(numbers(3, 0), 2), 2, "0 0 1 1 2 2 | 0 0 1 1 2 2", 6);
    check_walk(tp_df_repeated_point(numbers(3, 0), 1), 2, "0 1 2 | 0 1 2", 3);
    check_walk(tp_df_filter(numbers(5, 0), is_even), 2, "0 2 4 | 0 2 4", 5);
    tp_dataflow *two[2] = {numbers(3, 0), numbers(2, 0)};
    check_walk(tp_df_zip(two, 2), 2, "0,0 1,1 | 0,0 1,1", 2);
    /* pass 1 of the specification is our pass 0, whose items are 0 to 7, those of ours 1 are 100 to 107 */
    check_walk(tp_df_select(tp_df_batch_by_shape(two_shapes(), 2, .idx = 1), &(int){0}, 1), 2,
               "0,2 1,4 3,6 | 7,100 5,101 102,103 104,105 106,107", 4);
}

/* A datapoint of no components is nothing. */
static tp_status sometimes_nothing(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)pass;
    tp_status st = pass_and_index((void *)(uintptr_t)user, 0, index, dp);
    if (st == TP_OK && index % 3 == 1) st = tp_datapoint_resize(dp, 0);
    return st;
}
TEST(filter_drops)
{
    check_walk(tp_df_filter(tp_df_from_generator(sometimes_nothing, (void *)(uintptr_t)&lengths[7])), 2,
               "0 2 3 5 6 | 0 2 3 5 6", -1);
    check_walk(tp_df_filter(passes_of(4, true), is_even), 3, "0 2 | 100 102 | 200 202", 4);
    /* by chance: what stays is a function of (seed, pass, index) */
    tp_dataflow *df = tp_df_filter(passes_of(12, true), by_chance, .seed = 9);
    for (int pass = 0; pass < 3; pass++) {
        const uint64_t key = tp_random_key(tp_random_key(9, tp_hash_name("tp_df_filter")), (uint64_t)pass);
        char want[256] = "";
        for (int i = 0; i < 12; i++)
            if (tp_random_uniform(key, (uint64_t)i, 0) < 0.5f)
                snprintf(want + strlen(want), sizeof want - strlen(want), "%s%d", *want ? " " : "", 100 * pass + i);
        CHECK_STR(walk_from(df, pass, 1, 99), want);
    }
    tp_df_free(df);
}

TEST(choose_follows_its_probabilities)
{
    const double p[3] = {0.2, 0.5, 0.3};
    tp_dataflow *many[3];
    for (int i = 0; i < 3; i++) many[i] = tp_df_repeated(numbers(1, i), -1);
    tp_dataflow *df = tp_df_random_choose(many, 3, .probabilities = p);
    int count[3] = {0, 0, 0};
    tp_datapoint dp = {0, NULL, 0};
    CHECK(tp_df_size(df) == -1);
    for (int i = 0; i < 20000 && tp_df_next(df, &dp) == TP_OK; i++) count[*(const int32_t *)dp.c[0].data]++;
    for (int i = 0; i < 3; i++) /* five standard deviations of a binomial distribution */
        CHECK_NEAR(count[i], 20000 * p[i], 5 * sqrt(20000 * p[i] * (1 - p[i])), 0);
    tp_df_free(df);
    tp_datapoint_free(&dp);

    /* It ends with the flow that is chosen when it has nothing left: so all of that one has come, in order. */
    many[0] = numbers(3, 0), many[1] = numbers(4, 100);
    df = tp_df_random_choose(many, 2);
    for (int pass = 0; pass < 20; pass++) {
        const char *text = walk_from(df, pass, 1, 99);
        int a = 0, b = 0, v;
        for (const char *s = text; *s; s += strcspn(s, " "), s += *s == ' ') {
            v = atoi(s);
            if (v < 100) CHECK(v == a++);
            else CHECK(v == 100 + b++);
        }
        CHECK_MSG((a == 3 && b <= 4) || (b == 4 && a <= 3), "pass %d: %s", pass, text);
    }
    tp_df_free(df);

    /* one that cannot be chosen is not */
    many[0] = numbers(2, 0), many[1] = numbers(2, 50), many[2] = numbers(9, 70);
    check_walk(tp_df_random_choose(many, 3, .probabilities = (const double[]){0, 1, 0}), 2, "50 51 | 50 51", -1);
}

/* All there, each flow in order; every interleaving of 2 and 2 as likely as any other. */
TEST(mix_is_a_fair_interleaving)
{
    tp_dataflow *two[2] = {numbers(2, 0), numbers(2, 100)};
    tp_dataflow *df = tp_df_random_mix(two, 2);
    const char *const kind[6] = {"0 1 100 101", "0 100 1 101", "0 100 101 1",
                                 "100 0 1 101", "100 0 101 1", "100 101 0 1"};
    int count[6] = {0};
    CHECK(tp_df_size(df) == 4);
    for (int pass = 0; pass < 6000; pass++) {
        const char *text = walk_from(df, pass, 1, 99);
        int k = 0;
        while (k < 6 && strcmp(text, kind[k]) != 0) k++;
        if (!CHECK_MSG(k < 6, "pass %d: %s", pass, text)) break;
        count[k]++;
    }
    for (int k = 0; k < 6; k++) CHECK_NEAR(count[k], 1000, 5 * sqrt(6000 * (1 / 6.0) * (5 / 6.0)), 0);
    tp_df_free(df);

    two[0] = tp_df_filter(numbers(6, 0), is_even), two[1] = numbers(1, 100); /* 3 of 6 do not come */
    df = tp_df_random_mix(two, 2);
    const char *text = walk_from(df, 0, 1, 99);
    CHECK_MSG(strstr(text, "0") && strstr(text, "2") && strstr(text, "4") && strstr(text, "100"), "%s", text);
    CHECK(strlen(text) == strlen("0 2 4 100"));
    tp_df_free(df);
}

typedef struct counted {
    int n, calls;
} counted;
static tp_status count_calls(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    counted *c = (counted *)user;
    c->calls++;
    return pass_and_index(&c->n, pass, index, dp);
}

TEST(cache_reads_once)
{
    counted c = {5, 0};
    tp_dataflow *df = tp_df_cache(tp_df_from_generator(count_calls, &c, .size = 9));
    CHECK(tp_df_size(df) == 9); /* as df says */
    CHECK_STR(walk_from(df, 0, 1, 3), "0 1 2");
    CHECK(c.calls == 3);
    CHECK_STR(walk_from(df, 0, 1, 4), "0 1 2 3"); /* an unfinished pass is begun anew, not read anew */
    CHECK(c.calls == 4);
    CHECK_STR(walk_from(df, 2, 2, 99), "0 1 2 3 4 | 0 1 2 3 4");
    CHECK(c.calls == 6 && tp_df_size(df) == 5); /* the sixth said that it is the end */
    CHECK_STR(walk_from(df, 0, 2, 99), "0 1 2 3 4 | 0 1 2 3 4");
    CHECK(c.calls == 6);
    tp_df_free(df);

    df = tp_df_cache(numbers(6, 0), .shuffle = TP_YES, .seed = 7);
    char before[64];
    snprintf(before, sizeof before, "%s", walk_from(df, 3, 1, 99)); /* at once */
    CHECK_STR(walk_from(df, 0, 1, 99), "0 1 2 3 4 5");
    for (int pass = 1; pass < 4; pass++) { /* a permutation by the key of (seed, pass) */
        int64_t order[6];
        char want[64] = "";
        tp_random_permutation(tp_random_key(tp_random_key(7, tp_hash_name("tp_df_cache")), (uint64_t)pass), order, 6);
        for (int i = 0; i < 6; i++)
            snprintf(want + strlen(want), sizeof want - strlen(want), "%s%d", i ? " " : "", (int)order[i]);
        CHECK_STR(walk_from(df, pass, 1, 99), want);
        if (pass == 3) CHECK_STR(before, want);
    }
    tp_df_free(df);
    check_walk(tp_df_cache(tp_df_from_list(NULL, 0)), 3, " | |", 0);
}

static bool not_one_more(const tp_datapoint *dp, const tp_map_call *call)
{
    (void)call;
    return *(const int32_t *)dp->c[0].data % 3 != 1;
}
/* The size that a cache reports changes when it is complete. What is above it gives the same pass 1, read first or second. */
TEST(passes_above_a_cache_do_not_depend_on_those_read_before)
{
    for (int kind = 0; kind < 2; kind++) {
        char alone[256] = "";
        for (int before = 0; before < 2; before++) {
            tp_dataflow *two[2] = {numbers(10, 0), tp_df_cache(tp_df_filter(numbers(12, 30), not_one_more))};
            tp_dataflow *df = NULL;
            if (kind == 0) df = tp_df_random_mix(two, 2);
            else df = tp_df_fixed_size(two[1], 18, .keep_state = TP_NO), tp_df_free(two[0]);
            if (before) walk_from(df, 0, 2, 99);
            const char *pass = walk_from(df, 1, 1, 99);
            if (before) CHECK_STR(pass, alone);
            else snprintf(alone, sizeof alone, "%s", pass);
            tp_df_free(df);
        }
    }
}

/* The size of a generator is what it reports: it ends where fn ends, and at its size only if it is indexed. */
TEST(a_generator_ends_where_fn_ends)
{
    static const int five = 5;
    void *user = (void *)(uintptr_t)&five;
    check_walk(tp_df_from_generator(pass_and_index, user, .size = 3), 2, "0 1 2 3 4 | 100 101 102 103 104", 3);
    check_walk(tp_df_from_generator(pass_and_index, user, .size = 3, .indexed = TP_YES), 2, "0 1 2 | 100 101 102", 3);
    check_walk(tp_df_from_generator(pass_and_index, user, .size = 7, .indexed = TP_YES), 1, "0 1 2 3 4", 7);
}

/* take's size is that of its pass, also where df's is not: an endless flow reports what a trainer takes for an epoch. */
TEST(the_size_of_a_part_of_an_endless_flow)
{
    for (int kind = 0; kind < 5; kind++) {
        tp_dataflow *df = numbers(10, 0);
        df = kind == 2 ? tp_df_repeated(df, -1) : tp_df_locally_shuffle(df, 4);
        if (kind == 1) df = tp_df_cast(df, 0, TP_F32, 0);
        if (kind == 3) df = tp_df_repeated(tp_df_take(df, 5), 3);
        if (kind == 4) df = tp_df_fixed_size(df, 20);
        df = tp_df_take(df, 25);
        const int64_t size = tp_df_size(df);
        int64_t skipped = 0;
        CHECK(tp_df_seek(df, 100, &skipped) == TP_OK && skipped == size);
        CHECK_MSG(size == (kind == 3 ? 15 : kind == 4 ? 20 : 25), "kind %d: size %d", kind, (int)size);
        tp_df_free(df);
    }
}

/* Naive: holders as lists. */
static void by_shape_naive(int passes, int batch, bool keep, char *text, size_t size)
{
    int held[4][64], n[4] = {0, 0, 0, 0};
    text[0] = 0;
    for (int p = 0; p < passes; p++) {
        if (p) snprintf(text + strlen(text), size - strlen(text), " |");
        for (int i = 0; i < 8; i++) {
            const int w = widths[i];
            held[w][n[w]++] = 100 * p + i;
            if (n[w] < batch) continue;
            for (int k = 0; k < batch; k++)
                snprintf(text + strlen(text), size - strlen(text), "%s%d", k ? "," : *text ? " " : "", held[w][k]);
            n[w] = 0;
        }
        if (!keep) memset(n, 0, sizeof n);
    }
}

TEST(batches_of_one_shape)
{
    char want[1024];
    for (int batch = 1; batch <= 6; batch++)
        for (int keep = 0; keep <= 1; keep++) {
            const int first = 0;
            tp_dataflow *df = tp_df_select(
                tp_df_batch_by_shape(two_shapes(), batch, .idx = 1, .keep_state = keep ? TP_YES : TP_NO), &first, 1);
            by_shape_naive(5, batch, keep, want, sizeof want);
            CHECK_STR(walk_from(df, 0, 5, 99), want);
            CHECK(tp_df_size(df) == 8 / batch);
            /* straight to pass 4, which is what stands behind the last | */
            CHECK_STR(walk_from(df, 4, 1, 99), strrchr(want, '|') + 1 + (strrchr(want, '|')[1] == ' '));
            tp_df_free(df);
        }
    tp_dataflow *df = tp_df_batch_by_shape(two_shapes(), 2, .idx = 1);
    tp_datapoint dp = {0, NULL, 0};
    CHECK_OK(tp_df_next(df, &dp));
    CHECK(dp.n == 2 && dp.c[1].dtype == TP_F32 && dp.c[1].shape.ndim == 2 && dp.c[1].shape.dim[0] == 2 &&
          dp.c[1].shape.dim[1] == 2 && dp.c[0].shape.ndim == 1);
    tp_df_free(df);
    df = tp_df_batch_by_shape(two_shapes(), 2, .idx = 0); /* the other component is not alike then */
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_SHAPE, "component 1 of datapoint 1 of batch 0 is float32 (3)");
    tp_df_free(df);
    df = tp_df_batch_by_shape(two_shapes(), 2, .idx = 2);
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_ARG, "a datapoint has 2 components");
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

/* of_two_shapes, but datapoint 5 of pass 1 has another shape if *user is 1, and cannot be read if it is 2. */
static tp_status of_shapes_with_a_failure(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    const int kind = *(const int *)user;
    if (kind == 2 && pass == 1 && index == 5) return tp_fail(TP_ERR_IO, "cat.jpg cannot be read");
    tp_status st = of_two_shapes(NULL, pass, index, dp);
    if (st == TP_OK && kind == 1 && pass == 1 && index == 5) st = tp_tensor_resize(&dp->c[0], TP_I32, tp_make_shape(2));
    return st;
}
static tp_status no_restart(tp_dataflow *df, int64_t pass)
{
    (void)df, (void)pass;
    return tp_fail(TP_ERR_IO, "the disk is gone");
}
/* A start at a pass that fails on its way there says so as a new flow does, and leaves nothing behind. */
TEST(batches_of_one_shape_fail_on_the_way_to_a_pass)
{
    const int first = 0;
    int kind = 0;
    char want[256], sentence[300];
    tp_datapoint dp = {0, NULL, 0};
    by_shape_naive(5, 3, true, want, sizeof want);
    for (int k = 1; k <= 2; k++)
        for (int read = 0; read <= 2; read++) {
            tp_dataflow *below = tp_df_from_generator(of_shapes_with_a_failure, &kind, .size = 8);
            tp_dataflow *df = tp_df_select(tp_df_batch_by_shape(below, 3, .idx = 1), &first, 1);
            kind = 0;
            CHECK_OK(tp_df_restart(df, read ? 4 : 0));
            for (int i = 0; i < read; i++) CHECK_OK(tp_df_next(df, &dp));
            if (read == 2) CHECK_OK(tp_df_restart(df, 4));
            kind = k;
            const tp_status st = tp_df_restart(df, 3);
            CHECK_ERR(st, k == 1 ? TP_ERR_SHAPE : TP_ERR_IO, k == 1 ? "of batch 3" : "cat.jpg");
            if (read == 0) snprintf(sentence, sizeof sentence, "%s", tp_last_error());
            CHECK_STR(tp_last_error(), sentence);
            kind = 0;
            CHECK_STR(walk_from(df, read ? 4 : 0, read ? 1 : 5, 99), read ? strrchr(want, '|') + 2 : want);
            tp_df_free(df);
        }
    tp_dataflow *below = two_shapes(), *df = tp_df_batch_by_shape(below, 2, .idx = 1);
    tp_status (*const restart)(tp_dataflow *, int64_t) = below->restart;
    below->restart = no_restart;
    for (int pass = 0; pass <= 2; pass++) CHECK_ERR(tp_df_restart(df, pass), TP_ERR_IO, "the disk is gone");
    below->restart = restart;
    df = tp_df_select(df, &first, 1);
    by_shape_naive(3, 2, true, want, sizeof want);
    CHECK_STR(walk_from(df, 0, 3, 99), want);
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

static tp_status of_counted_shapes(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    ++*(int *)user;
    return of_two_shapes(NULL, pass, index, dp);
}
/* Batches of one shape that keep their state need the passes before a pass: they are read once, not each time. */
TEST(batches_of_one_shape_read_no_pass_twice)
{
    const int first = 0, pass = 9; /* eight datapoints and the end */
    int n = 0;
    char want[256];
    tp_datapoint dp = {0, NULL, 0};
    tp_dataflow *df =
        tp_df_select(tp_df_batch_by_shape(tp_df_from_generator(of_counted_shapes, &n), 3, .idx = 1), &first, 1);
    by_shape_naive(4, 3, true, want, sizeof want);
    CHECK_STR(walk_from(df, 0, 4, 99), want);
    CHECK_MSG(n == 4 * pass, "%d calls for four passes in a row", n);
    const char *last = strrchr(want, '|') + 2;
    for (int again = 0; again < 3; again++) { /* nothing was read since pass 3 began */
        n = 0;
        CHECK_OK(tp_df_restart(df, 3));
        CHECK_MSG(n == (again ? 0 : 3 * pass), "%d calls", n);
    }
    CHECK_STR(walk_from(df, 3, 1, 99), last);
    CHECK_MSG(n == pass, "%d calls for a pass that had begun", n);
    CHECK_OK(tp_df_restart(df, 4)); /* the next one needs no other */
    CHECK_MSG(n == pass, "%d calls for two passes in a row", n);
    CHECK_OK(tp_df_next(df, &dp));
    n = 0;
    CHECK_STR(walk_from(df, 3, 1, 99), last); /* pass 4 has read already */
    CHECK_MSG(n == 4 * pass, "%d calls for a pass anew", n);
    n = 0;
    CHECK_OK(tp_df_restart(df, 0)); /* there is none before the first */
    CHECK_MSG(n == 0, "%d calls to begin the first pass", n);
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

/* ==== >>every flow ==================================================================================== */

TEST(seek_is_walking)
{
    tp_datapoint dp = {0, NULL, 0};
    for (int which = 0;; which++)
        for (int seekable = 0; seekable < 2; seekable++) {
            tp_dataflow *walked = flow_of(which, false), *sought = flow_of(which, seekable);
            if (!walked) {
                tp_datapoint_free(&dp);
                return;
            }
            for (int64_t pass = 0; pass < 4; pass += pass ? 2 : 1)
                for (int n = 0; n < 20; n++) {
                    char all[2048];
                    int64_t skipped = -1, taken = 0, there = 0;
                    snprintf(all, sizeof all, "%s", walk_from(walked, pass, 1, 99));
                    const char *rest = all;
                    for (; *rest && there < n; there++) rest += strcspn(rest, " "), rest += *rest == ' ';
                    CHECK_OK(tp_df_restart(sought, pass));
                    if (n > 3) /* also from within a pass, by two steps */
                        for (; taken < 1 && tp_df_next(sought, &dp) == TP_OK;) taken++;
                    CHECK_OK(tp_df_seek(sought, (n - taken) / 2, &skipped));
                    taken += skipped;
                    CHECK_OK(tp_df_seek(sought, n - taken, &skipped));
                    CHECK_MSG(taken + skipped == there, "flow %d pass %d: skipped %d of %d, there are %d", which,
                              (int)pass, (int)(taken + skipped), n, (int)there);
                    char got[2048] = "";
                    tp_status st;
                    while ((st = tp_df_next(sought, &dp)) == TP_OK)
                        for (int c = 0, any = 0; c < dp.n; c++)
                            for (int64_t k = 0; k < tp_tensor_size(&dp.c[c]); k++, any = 1)
                                snprintf(got + strlen(got), sizeof got - strlen(got), "%s%g",
                                         any    ? ","
                                         : *got ? " "
                                                : "",
                                         tp_tensor_get(&dp.c[c], k));
                    CHECK(st == TP_END);
                    CHECK_MSG(strcmp(got, rest) == 0, "flow %d pass %d after %d: \"%s\", expected \"%s\"", which,
                              (int)pass, n, got, rest);
                }
            tp_df_free(walked);
            tp_df_free(sought);
        }
}

TEST(steady_state_allocates_nothing)
{
    tp_datapoint dp = {0, NULL, 0};
    for (int which = 0;; which++) {
        tp_test_fail_after(0);
        tp_dataflow *df = flow_of(which, true);
        if (!df) break;
        for (int pass = 0; pass < 6; pass++)
            for (tp_df_restart(df, pass); tp_df_next(df, &dp) == TP_OK;) {}
        const long before = tp_test_alloc_count();
        for (int pass = 6; pass < 9; pass++)
            for (tp_df_restart(df, pass); tp_df_next(df, &dp) == TP_OK;) {}
        CHECK_MSG(tp_test_alloc_count() == before, "flow %d (%s) allocates", which, df->name);
        tp_df_free(df);
    }
    tp_datapoint_free(&dp);
    tp_test_alloc_reset();
}

TEST(out_of_memory_at_every_point)
{
    for (int which = 0; which < 15; which++)
        for (long n = 1, failed = 1; failed; n++) {
            tp_test_fail_after(n);
            tp_dataflow *df = flow_of(which, true);
            tp_datapoint dp = {0, NULL, 0};
            tp_status st = df ? TP_OK : TP_ERR_NOMEM;
            for (int i = 0; i < 12 && st == TP_OK; i++) st = tp_df_next(df, &dp);
            if (st >= TP_OK && df) st = tp_df_restart(df, 2);
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

/* ==== >>misuse ======================================================================================== */

static void count_release(void *user) { ++*(int *)user; }

static tp_dataflow *without_end(void) { return tp_df_repeated(two_shapes(), -1); }
/* Flows whose passes have no end, and flows above them that have one. */
static tp_dataflow *with_or_without_end(int which)
{
    tp_dataflow *two[2] = {two_shapes(), which >= 3 ? without_end() : NULL};
    if (which < 3) tp_df_free(two[0]);
    switch (which) {
    case 0: return without_end();
    case 1: return tp_df_locally_shuffle(two_shapes(), 3);
    case 2: two[0] = without_end(), two[1] = without_end(); return tp_df_join(two, 2);
    case 3: return tp_df_concat(two, 2);
    case 4: return tp_df_zip(two, 2);
    case 5: return tp_df_random_choose(two, 2);
    case 6: return tp_df_take(tp_df_concat(two, 2), 9);
    case 7: return tp_df_fixed_size(tp_df_concat(two, 2), 9);
    case 8:
        tp_df_free(two[1]);
        two[1] = tp_df_locally_shuffle(two_shapes(), 3);
        return tp_df_random_mix(two, 2);
    default: return NULL;
    }
}
/* What would read a pass to its end begins any pass at once, or is refused. */
TEST(flows_that_need_the_end_of_a_pass)
{
    const int first = 0;
    tp_dataflow *df = tp_df_select(tp_df_batch_by_shape(without_end(), 2, .idx = 1), &first, 1);
    CHECK_STR(walk_from(df, 0, 1, 3), "0,2 1,4 3,6");
    CHECK_STR(walk_from(df, 3, 2, 2), "300,302 301,304 | 400,402 401,404");
    tp_df_free(df);
    for (int which = 0; which < 9; which++) {
        if (!CHECK((df = with_or_without_end(which)) != NULL)) return;
        df = tp_df_cache(df);
        const bool ends = which >= 4;
        if (ends) CHECK_OK(tp_df_status(df));
        else
            CHECK_ERR(tp_df_status(df), TP_ERR_ARG, "have no end, so they cannot be kept in memory: put tp_df_take or");
        tp_df_free(df);
    }
}

/* The size of a flow without an end does not limit a batch. */
TEST(batches_of_a_flow_without_an_end_may_be_large)
{
    for (int kind = 0; kind < 2; kind++) {
        tp_datapoint dp = {0, NULL, 0};
        tp_dataflow *df = tp_df_locally_shuffle(numbers(3, 0), 2);
        df = kind ? tp_df_batch(df, 7) : tp_df_batch_by_shape(df, 7);
        for (int i = 0; i < 3; i++) CHECK(tp_df_next(df, &dp) == TP_OK && dp.c[0].shape.dim[0] == 7);
        tp_df_free(df);
        tp_datapoint_free(&dp);
    }
    tp_dataflow *df = tp_df_batch(tp_df_take(tp_df_locally_shuffle(numbers(3, 0), 2), 3), 7);
    CHECK_ERR(tp_df_status(df), TP_ERR_ARG, "batch_size is 7 but there are only 3 datapoints");
    tp_df_free(df);
}

static tp_status as_it_is(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    (void)in, (void)out, (void)call;
    return TP_OK;
}
static bool none(const tp_datapoint *dp, const tp_map_call *call) { return (void)dp, (void)call, false; }
/* A batch may need the datapoints of several passes, which give none. Without any datapoint there is none to wait for. */
TEST(batches_of_one_shape_may_need_several_passes)
{
    tp_dataflow *df = tp_df_repeated(tp_df_batch_by_shape(numbers(3, 0), 7), -1);
    CHECK_STR(walk_from(df, 0, 1, 2), "0,1,2,0,1,2,0 1,2,0,1,2,0,1");
    tp_df_free(df);
    df = tp_df_fixed_size(tp_df_take(tp_df_batch_by_shape(numbers(3, 0), 7), 9), 2);
    CHECK_STR(walk_from(df, 0, 2, 9), "0,1,2,0,1,2,0 1,2,0,1,2,0,1 | 2,0,1,2,0,1,2 0,1,2,0,1,2,0");
    CHECK_STR(walk_from(df, 1, 1, 9), "2,0,1,2,0,1,2 0,1,2,0,1,2,0");
    tp_df_free(df);
    for (int kind = 0; kind < 4; kind++) { /* also through a thread that reads ahead, and through several of them */
        df = tp_df_batch_by_shape(kind % 2 ? tp_df_prefetch(numbers(3, 0)) : numbers(3, 0), 7);
        df = tp_df_prefetch(kind < 2 ? df : tp_df_parallel_map(df, as_it_is, .num_thread = 2, .keeps_all = TP_YES));
        df = tp_df_fixed_size(df, 2);
        CHECK_STR(walk_from(df, 0, 2, 9), "0,1,2,0,1,2,0 1,2,0,1,2,0,1 | 2,0,1,2,0,1,2 0,1,2,0,1,2,0");
        CHECK_STR(walk_from(df, 1, 1, 9), "2,0,1,2,0,1,2 0,1,2,0,1,2,0"); /* a seek over such passes */
        tp_df_free(df);
    }
    tp_dataflow *one[1] = {tp_df_batch_by_shape(numbers(3, 0), 7)};
    tp_dataflow *const empty[] = {tp_df_repeated(tp_df_batch_by_shape(tp_df_filter(numbers(3, 0), none), 7), -1),
                                  tp_df_repeated(tp_df_filter(tp_df_batch_by_shape(numbers(3, 0), 2), none), -1),
                                  tp_df_repeated(tp_df_cache(tp_df_batch_by_shape(numbers(3, 0), 7)), -1),
                                  tp_df_fixed_size(tp_df_multi_process(tp_df_batch_by_shape(numbers(3, 0), 7), 2), 2),
                                  tp_df_repeated(tp_df_concat(one, 1), -1)};
    tp_datapoint dp = {0, NULL, 0};
    for (int i = 0; i < TP_COUNT(empty); i++) {
        CHECK_ERR(tp_df_next(empty[i], &dp), TP_ERR_STATE, "a whole pass");
        tp_df_free(empty[i]);
    }
    tp_datapoint_free(&dp);
}

TEST(wrong_arguments_are_sentences)
{
    tp_test_fail_after(0);
    int released = 0;
    tp_dataflow *two[2], *df;
    const struct {
        tp_dataflow *df;
        tp_status st;
        const char *text;
    } wrong[] = {
        {tp_df_repeated_point(numbers(3, 0), 0), TP_ERR_ARG, "tp_df_repeated_point: 0 times"},
        {tp_df_repeated_point(numbers(3, 0), -1), TP_ERR_ARG, "-1 times"},
        {tp_df_batch_by_shape(numbers(3, 0), 0), TP_ERR_ARG, "test_flows.c:"},
        {tp_df_batch_by_shape(numbers(3, 0), 2, .idx = -1), TP_ERR_ARG, "there is no component -1"},
        {tp_df_batch_by_shape(numbers(3, 0), 4, .keep_state = TP_NO), TP_ERR_ARG,
         "batch_size is 4 but a pass has only 3 datapoints: make it smaller"},
        {tp_df_random_choose(NULL, 0), TP_ERR_ARG, "at least one dataflow"},
        {tp_df_random_mix(NULL, 2), TP_ERR_ARG, "at least one dataflow"},
        {tp_df_zip(NULL, 2), TP_ERR_ARG, "tp_df_zip: needs at least one dataflow"},
        {tp_df_from_queue(NULL), TP_ERR_ARG, "the queue is NULL"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK_ERR(tp_df_status(wrong[i].df), wrong[i].st, wrong[i].text);
        tp_df_free(wrong[i].df);
    }
    const double sums[5][2] = {{0.5, 0.4}, {-0.5, 1.5}, {0, 0}, {NAN, 1}, {INFINITY, 0}};
    const char *const why[5] = {"sum to 0.9", "probability 0 is -0.5", "sum to 0:", "probability 0 is",
                                "probability 0 is"};
    for (int i = 0; i < 5; i++) {
        two[0] = numbers(3, 0), two[1] = numbers(3, 0);
        df = tp_df_random_choose(two, 2, .probabilities = sums[i]);
        CHECK_ERR(tp_df_status(df), TP_ERR_ARG, why[i]);
        tp_df_free(df);
    }
    two[0] = numbers(3, 0), two[1] = tp_df_from_generator(count_calls, NULL);
    df = tp_df_random_mix(two, 2);
    CHECK_ERR(tp_df_status(df), TP_ERR_ARG, "flow 1 (tp_df_from_generator)");
    tp_df_free(df);
    /* poison and NULL below */
    CHECK(tp_df_filter(NULL, is_even, .user = &released, .release = count_release) == NULL);
    CHECK(tp_df_cache(NULL) == NULL && tp_df_batch_by_shape(NULL, 2) == NULL && tp_df_repeated_point(NULL, 2) == NULL);
    df = tp_df_cache(
        tp_df_filter(tp_df_repeated_point(numbers(3, 0), 0), is_even, .user = &released, .release = count_release));
    CHECK_ERR(tp_df_status(df), TP_ERR_ARG, "tp_df_repeated_point");
    CHECK(released == 2);
    two[0] = df, two[1] = numbers(2, 0);
    df = tp_df_random_choose(two, 2);
    CHECK_ERR(tp_df_status(df), TP_ERR_ARG, "tp_df_repeated_point");
    tp_df_free(df);
    /* given away twice */
    two[0] = two[1] = numbers(2, 0);
    df = tp_df_random_mix(two, 2);
    CHECK_ERR(tp_df_status(df), TP_ERR_ARG, "given away twice");
    tp_df_free(df);
    df = tp_df_filter(numbers(2, 0), is_even, .user = &released, .release = count_release);
    tp_df_free(df);
    CHECK(released == 3);
    tp_dataflow *const none[] = {tp_df_filter_(NULL),
                                 tp_df_cache_(NULL),
                                 tp_df_random_mix_(NULL),
                                 tp_df_random_choose_(NULL),
                                 tp_df_batch_by_shape_(NULL),
                                 tp_df_from_list_(NULL),
                                 tp_df_from_arrays_(NULL),
                                 tp_df_idx_(NULL),
                                 tp_df_mnist_(NULL),
                                 tp_df_from_generator_(NULL),
                                 tp_df_fake_(NULL),
                                 tp_df_digits_(NULL),
                                 tp_df_batch_(NULL),
                                 tp_df_map_(NULL),
                                 tp_df_map_component_(NULL),
                                 tp_df_fixed_size_(NULL),
                                 tp_df_locally_shuffle_(NULL),
                                 tp_df_cifar10_(NULL),
                                 tp_df_cifar100_(NULL),
                                 tp_df_npz_(NULL),
                                 tp_df_tfrecord_(NULL),
                                 tp_df_csv_(NULL),
                                 tp_df_text_chars_(NULL),
                                 tp_df_text_words_(NULL),
                                 tp_df_image_from_file_(NULL),
                                 tp_df_image_folder_(NULL),
                                 tp_df_image_list_(NULL),
                                 tp_df_augment_image_(NULL),
                                 tp_df_augment_coordinates_(NULL),
                                 tp_df_augment_images_(NULL)};
    for (int i = 0; i < TP_COUNT(none); i++) {
        CHECK_ERR(tp_df_status(none[i]), TP_ERR_ARG, "the descriptor is NULL");
        tp_df_free(none[i]);
    }
    CHECK(tp_test_live_blocks() == 0);
    tp_test_alloc_reset();
}

static tp_status component_as_it_is(const tp_tensor *in, tp_tensor *out, tp_map_call *call)
{
    (void)in, (void)out, (void)call;
    return TP_OK;
}
/* Each kind of flow upon the flow `below`; augmenting ones too. */
static tp_dataflow *upon(tp_dataflow *below, int which)
{
    static const int first = 0;
    static const tp_dtype type = TP_I32;
    switch (which) {
    case 0: return tp_df_batch(below, 2);
    case 1: return tp_df_map(below, as_it_is);
    case 2: return tp_df_map_component(below, component_as_it_is);
    case 3: return tp_df_repeated(below, 2);
    case 4: return tp_df_take(below, 2);
    case 5: return tp_df_fixed_size(below, 2);
    case 6: return tp_df_locally_shuffle(below, 2);
    case 7: return tp_df_select(below, &first, 1);
    case 8: return tp_df_filter(below, is_even);
    case 9: return tp_df_repeated_point(below, 2);
    case 10: return tp_df_cache(below);
    case 11: return tp_df_batch_by_shape(below, 2);
    case 12: return tp_df_print(below, 0, NULL);
    case 13: return tp_df_prefetch(below);
    case 14: return tp_df_parallel_map(below, as_it_is, .num_thread = 1);
    case 15: return tp_df_multi_process(below, 1);
    case 16: return tp_df_augment_image(below, tp_aug_identity());
    case 17: return tp_df_augment_images(below, tp_aug_identity());
    case 18: return tp_df_augment_coordinates(below, tp_aug_identity());
    case 19: return tp_df_load_image(below, tp_aug_identity());
    case 20: return tp_dataflow_to_dataset(below, &type, 1);
    case 21: return tp_df_shard(below, 0, 2);
    default: return NULL;
    }
}
#define KINDS_UPON 22

/* A flow upon a refusal is that refusal, a flow upon NULL is NULL; neither leaks, and the sentence is told once more. */
TEST(a_flow_upon_a_refusal_is_the_refusal)
{
    for (int which = 0; which < KINDS_UPON; which++) {
        tp_test_fail_after(0);
        tp_dataflow *refused = tp_df_repeated_point(numbers(3, 0), 0);
        tp_fail(TP_ERR_IO, "another failure");
        tp_dataflow *df = upon(refused, which);
        CHECK_MSG(df == refused, "flow %d upon a refusal is another one", which);
        CHECK_HAS(tp_last_error(), "tp_df_repeated_point: 0 times");
        CHECK_ERR(tp_df_status(df), TP_ERR_ARG, "tp_df_repeated_point: 0 times");
        tp_df_free(refused);
        CHECK_MSG(upon(NULL, which) == NULL, "flow %d upon NULL is not NULL", which);
        CHECK_MSG(tp_test_live_blocks() == 0, "flow %d upon a refusal leaks", which);
        /* a flow that has an owner stays with it */
        tp_dataflow *below = numbers(3, 0), *owner = tp_df_take(below, 1);
        df = upon(below, which);
        CHECK_MSG(df != NULL, "flow %d upon a flow with an owner is NULL", which);
        CHECK_ERR(tp_df_status(df), TP_ERR_ARG, "tp_df_take");
        tp_df_free(df);
        check_walk(owner, 1, "0", 1);
        CHECK_MSG(tp_test_live_blocks() == 0, "flow %d upon a flow with an owner leaks", which);
    }
    tp_test_alloc_reset();
}

/* ==== >>padding ======================================================================================= */

/* 7 datapoints: float32 of 0 to 3 values along each of three axes, int64 of 1 to 4, and a scalar. */
static int64_t extent(int64_t index, int axis) { return (int64_t)(tp_test_mix((uint64_t)(index * 4 + axis)) % 4); }
static tp_status of_any_size(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user, (void)pass;
    if (index >= 7) return TP_END;
    const int64_t dim[3] = {extent(index, 0), extent(index, 1), extent(index, 2)}, n = 1 + extent(index, 3);
    tp_status st = tp_datapoint_resize(dp, 3);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape_n(3, dim));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_I64, tp_make_shape_n(1, &n));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[2], TP_I32, tp_make_shape_n(0, NULL));
    for (int c = 0; c < 3 && st == TP_OK; c++)
        for (int64_t i = 0; i < tp_tensor_size(&dp->c[c]); i++)
            tp_tensor_set(&dp->c[c], i, (double)(100 * index + 10 * c + i));
    return st;
}

TEST(batches_are_padded)
{
    for (int batch = 1; batch <= 8; batch++)
        for (int remainder = 0; remainder < 2; remainder++) {
            if (!remainder && batch > 7) continue;
            const double pad = batch == 2 ? 0 : -3;
            tp_datapoint dp = {0, NULL, 0};
            tp_dataflow *df = tp_df_batch(tp_df_from_generator(of_any_size, NULL, .size = 7), batch,
                                          .remainder = remainder ? TP_YES : TP_NO, .pad = TP_YES, .pad_value = pad);
            for (int pass = 0; pass < 2; pass++) {
                CHECK_OK(tp_df_restart(df, pass));
                for (int64_t from = 0; remainder ? from < 7 : from + batch <= 7; from += batch) {
                    const int64_t n = from + batch < 7 ? batch : 7 - from;
                    int64_t most[4] = {0, 0, 0, 0}, row = 0, bad = 0;
                    for (int k = 0; k < 4; k++)
                        for (int64_t i = from; i < from + n; i++)
                            if (extent(i, k) > most[k]) most[k] = extent(i, k);
                    if (!CHECK_OK(tp_df_next(df, &dp))) break;
                    const tp_shape *a = &dp.c[0].shape, *b = &dp.c[1].shape;
                    CHECK(dp.n == 3 && a->ndim == 4 && a->dim[0] == n && a->dim[1] == most[0] && a->dim[2] == most[1] &&
                          a->dim[3] == most[2] && dp.c[0].dtype == TP_F32);
                    CHECK(b->ndim == 2 && b->dim[0] == n && b->dim[1] == most[3] + 1 && dp.c[1].dtype == TP_I64);
                    CHECK(dp.c[2].shape.ndim == 1 && dp.c[2].shape.dim[0] == n);
                    for (int64_t i = from; i < from + n; i++, row++) {
                        const int64_t dim[3] = {extent(i, 0), extent(i, 1), extent(i, 2)};
                        for (int64_t at = 0; at < most[0] * most[1] * most[2]; at++) {
                            const int64_t z = at % most[2], y = at / most[2] % most[1], x = at / most[2] / most[1];
                            const bool inside = x < dim[0] && y < dim[1] && z < dim[2];
                            const double want = (double)(100 * i + (x * dim[1] + y) * dim[2] + z);
                            bad += tp_tensor_get(&dp.c[0], row * most[0] * most[1] * most[2] + at) !=
                                   (inside ? want : pad);
                        }
                        for (int64_t x = 0; x <= most[3]; x++)
                            bad += tp_tensor_get(&dp.c[1], row * (most[3] + 1) + x) !=
                                   (x <= extent(i, 3) ? (double)(100 * i + 10 + x) : pad);
                        bad += tp_tensor_get(&dp.c[2], row) != (double)(100 * i + 20);
                    }
                    CHECK_MSG(bad == 0, "batches of %d: %d values are wrong", batch, (int)bad);
                }
                CHECK(tp_df_next(df, &dp) == TP_END);
            }
            tp_df_free(df);
            tp_datapoint_free(&dp);
        }
}

static tp_status of_other_kinds(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    const int how = *(int *)user;
    const int64_t one[TP_MAX_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1}, two[1] = {2};
    const int axes = how == 3 ? TP_MAX_DIMS : how == 1 && index ? 2 : 1;
    (void)pass;
    tp_status st = tp_datapoint_resize(dp, how == 2 && index ? 2 : 1);
    for (int c = 0; c < dp->n && st == TP_OK; c++)
        st = tp_tensor_resize(&dp->c[c], how == 0 && index ? TP_U8 : TP_I32,
                              tp_make_shape_n(axes, how >= 4 && index ? two : one));
    for (int c = 0; c < dp->n && st == TP_OK; c++) memset(dp->c[c].data, 0, tp_tensor_bytes(&dp->c[c]));
    return st;
}

TEST(batches_that_cannot_be_padded)
{
    static const struct {
        double pad;
        tp_status st;
        const char *sentence;
    } row[] = {{0, TP_ERR_DTYPE,
                "tp_df_batch: component 0 of datapoint 1 of batch 0 is uint8 (1), in the first it is int32 (1): "
                ".pad needs one type and as many axes"},
               {0, TP_ERR_SHAPE, "component 0 of datapoint 1 of batch 0 is int32 (1,1), in the first it is int32 (1)"},
               {0, TP_ERR_SHAPE, "datapoint 1 of batch 0 has 2 components, the first has 1"},
               {0, TP_ERR_SHAPE, "component 0 has 8 dimensions already, 8 is the most"},
               {0.5, TP_ERR_DTYPE, "component 0 is int32, which has no value 0.5 (.pad_value)"},
               {3e9, TP_ERR_DTYPE, "component 0 is int32, which has no value 3e+09 (.pad_value)"}};
    tp_datapoint dp = {0, NULL, 0};
    for (int how = 0; how < TP_COUNT(row); how++) {
        tp_dataflow *df = tp_df_batch(tp_df_from_generator(of_other_kinds, &how, .size = 4), 2, .pad = TP_YES,
                                      .pad_value = row[how].pad);
        CHECK_ERR(tp_df_next(df, &dp), row[how].st, row[how].sentence);
        tp_df_free(df);
    }
    tp_dataflow *df = tp_df_batch(numbers(4, 0), 2, .pad_value = 1);
    CHECK_ERR(tp_df_status(df), TP_ERR_ARG, "tp_df_batch: .pad_value is 1, but .pad is not TP_YES");
    tp_df_free(df);
    tp_datapoint_free(&dp);
    for (long n = 1, failed = 1; failed; n++) { /* each allocation fails once */
        tp_test_fail_after(n);
        df = tp_df_batch(two_shapes(), 3, .pad = TP_YES);
        const tp_status st = tp_df_next(df, &dp);
        failed = tp_test_alloc_failed();
        tp_df_free(df);
        tp_datapoint_free(&dp);
        CHECK_MSG(tp_test_live_blocks() == 0, "allocation %ld: blocks leak", n);
        tp_test_alloc_reset();
        CHECK(failed ? st < 0 : st == TP_OK && n > 4);
        if (!CHECK(n < 200)) break;
    }
}

/* ==== >>who failed ==================================================================================== */

TEST(seek_behind_the_last_datapoint)
{
    tp_dataflow *df;
    for (int which = 0; (df = flow_of(which, true)) != NULL; which++) check_seek_behind_the_last(df, which);
}

static tp_status fail_at_3(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    (void)out;
    if (*(const int32_t *)in->c[0].data % 100 == 3) return tp_fail(TP_ERR_IO, "cat.jpg cannot be read");
    call->drop = *(const int32_t *)in->c[0].data % 100 == 1;
    return TP_OK;
}

TEST(a_failure_names_its_datapoint)
{
    tp_datapoint dp = {0, NULL, 0};
    tp_status st;
    tp_dataflow *df = tp_df_batch(tp_df_repeated_point(tp_df_map(passes_of(9, true), fail_at_3), 2), 3);
    CHECK_OK(tp_df_restart(df, 2));
    while ((st = tp_df_next(df, &dp)) == TP_OK) {}
    CHECK_ERR(st, TP_ERR_IO, "cat.jpg cannot be read");
    CHECK_STR(tp_last_error(), "cat.jpg cannot be read [tp_df_map: pass 2, datapoint 3]"); /* once, by who failed */
    CHECK_OK(tp_df_next(df, &dp)); /* the others are still there */
    tp_df_free(df);
    /* a flow of one's own, and one that finds that its input is not what it takes */
    const int64_t n[2] = {1, 2};
    tp_datapoint list[2] = {{0, NULL, 0}, {0, NULL, 0}};
    for (int i = 0; i < 2; i++) {
        CHECK_OK(tp_datapoint_resize(&list[i], 1));
        CHECK_OK(tp_tensor_resize(&list[i].c[0], TP_U8, tp_make_shape_n(1, &n[i])));
        memset(list[i].c[0].data, 0, (size_t)n[i]);
    }
    df = tp_df_batch(tp_df_from_list(list, 2, .shuffle = TP_NO), 2);
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_SHAPE, "[tp_df_batch: pass 0, datapoint 0]");
    tp_df_free(df);
    df = tp_df_select(tp_df_from_list(list, 2, .shuffle = TP_NO), &(int){4}, 1);
    CHECK_OK(tp_df_seek(df, 1, NULL));
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_ARG, "[tp_df_select: pass 0, datapoint 1]");
    tp_df_free(df);
    for (int i = 0; i < 2; i++) tp_datapoint_free(&list[i]);
    tp_datapoint_free(&dp);
}

static tp_status fail_at(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    (void)out;
    const int value = *(const int32_t *)in->c[0].data % 100;
    return value == *(const int *)call->user ? tp_fail(TP_ERR_IO, "cat.jpg cannot be read") : TP_OK;
}
static tp_status not_at_five(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user;
    return index == 5 ? tp_fail(TP_ERR_IO, "cat.jpg cannot be read")
                      : pass_and_index((void *)(uintptr_t)&lengths[9], pass, index, dp);
}
/* 0, 2, a failure, 4, .. 8 */
static tp_dataflow *failing(void) { return tp_df_map(passes_of(9, true), fail_at_3); }
/* Flows that meet the failure. NULL: no more. */
static tp_dataflow *flow_with_a_failure(int which)
{
    static const int first = 0;
    static int five = 5;
    static const double chances[2] = {0.9, 0.1};
    tp_dataflow *two[2];
    switch (which) {
    case 0: return failing();
    case 1: return tp_df_filter(failing(), is_even);
    case 2: return tp_df_repeated_point(failing(), 2);
    case 3: return tp_df_take(failing(), 5);
    case 4: return tp_df_repeated(failing(), 2);
    case 5: return tp_df_fixed_size(failing(), 11);
    case 6: return tp_df_select(failing(), &first, 1);
    case 7: return tp_df_print(failing(), 0, NULL);
    case 8: return tp_df_map(failing(), as_it_is, .keeps_all = TP_YES);
    case 9: return tp_df_batch(failing(), 2);
    case 10: return tp_df_cache(failing());
    case 11: return tp_df_locally_shuffle(failing(), 3);
    case 12: two[0] = passes_of(3, true), two[1] = failing(); return tp_df_concat(two, 2);
    case 13: two[0] = failing(), two[1] = failing(); return tp_df_zip(two, 2);
    case 14:
        two[0] = failing(), two[1] = passes_of(9, true);
        return tp_df_random_choose(two, 2, .probabilities = chances);
    case 15: two[0] = failing(), two[1] = passes_of(5, true); return tp_df_random_mix(two, 2);
    case 16: return tp_df_batch(failing(), 2, .pad = TP_YES);
    case 17: return tp_df_shard(failing(), 0, 2);
    case 18: return tp_df_shard(failing(), 1, 2);
    case 19: two[0] = passes_of(9, true), two[1] = failing(); return tp_df_join(two, 2);
    case 20: two[0] = failing(), two[1] = tp_df_map(passes_of(9, true), fail_at, &five); return tp_df_join(two, 2);
    case 21: return tp_df_multi_process(failing(), 1);
    case 22: return tp_df_multi_process(failing(), 2);
    case 23: return tp_df_from_generator(not_at_five, NULL);
    case 24: return tp_df_map(tp_df_from_generator(not_at_five, NULL), as_it_is);
    case 25: return tp_df_shard(tp_df_from_generator(not_at_five, NULL), 1, 3);
    case 26: return tp_df_shard(tp_df_from_generator(not_at_five, NULL), 2, 3);
    case 27: return tp_df_multi_process(tp_df_from_generator(not_at_five, NULL), 2);
    default: return NULL;
    }
}
/* A pass of flows that are joined ends behind a failure of one of them, also one that a seek meets; no pair is shifted. */
TEST(a_failure_shifts_no_pairs)
{
    static int at_3 = 3;
    tp_datapoint dp = {0, NULL, 0};
    for (int kind = 0; kind < 3; kind++)
        for (int skip = 0; skip < 6; skip++) {
            tp_dataflow *three[3];
            three[kind] = tp_df_map(passes_of(9, true), fail_at, &at_3);
            for (int i = 1; i < 3; i++) three[(kind + i) % 3] = passes_of(9, true);
            tp_dataflow *df = tp_df_join(three, 3);
            int64_t k = 0;
            tp_status st = skip ? tp_df_seek(df, skip, &k) : TP_OK;
            CHECK(st == (skip > 3 ? TP_ERR_IO : TP_OK) && k == (skip > 3 ? 0 : skip));
            for (int i = skip; i < 3; i++) {
                CHECK_OK(tp_df_next(df, &dp));
                for (int c = 0; c < 3; c++) CHECK(tp_tensor_get(&dp.c[c], 0) == i);
            }
            if (skip <= 3) CHECK_ERR(tp_df_next(df, &dp), TP_ERR_IO, "cat.jpg cannot be read");
            CHECK(tp_df_next(df, &dp) == TP_END && tp_df_next(df, &dp) == TP_END);
            CHECK_OK(tp_df_restart(df, 0));
            for (int i = 0; i < 3; i++) {
                CHECK_OK(tp_df_next(df, &dp));
                for (int c = 0; c < 3; c++) CHECK(tp_tensor_get(&dp.c[c], 0) == i);
            }
            CHECK_ERR(tp_df_next(df, &dp), TP_ERR_IO, "cat.jpg cannot be read");
            CHECK_OK(tp_df_seek(df, 2, &k));
            CHECK(k == 0 && tp_df_next(df, &dp) == TP_END);
            tp_df_free(df);
        }
    tp_datapoint_free(&dp);
}

/* A rank leaves a datapoint that failed behind, its own or another rank's, and gives its own ones, each once. */
TEST(a_failure_shifts_no_rank)
{
    for (int n = 1; n <= 3; n++)
        for (int rank = 0; rank < n; rank++)
            for (int bad = 0; bad < 7; bad++)
                for (int how = 0; how < 3; how++) { /* it skips by number, or reads and meets the failures of others */
                    tp_datapoint dp = {0, NULL, 0};
                    tp_dataflow *df = tp_df_map(passes_of(7, true), fail_at, &bad, .keeps_all = how ? TP_NO : TP_YES);
                    int failures = 0;
                    df = tp_df_shard(df, rank, n);
                    for (int i = rank; i < 7; i += n) {
                        tp_status st = how == 2 ? tp_df_seek(df, 1, NULL) : tp_df_next(df, &dp);
                        if (st == TP_ERR_IO && i != bad && ++failures)
                            st = how == 2 ? tp_df_seek(df, 1, NULL) : tp_df_next(df, &dp);
                        failures += st == TP_ERR_IO;
                        CHECK_MSG(st == (i == bad ? TP_ERR_IO : TP_OK), "rank %d of %d, %d fails: %d is %s", rank, n,
                                  bad, i, tp_status_name(st));
                        if (st == TP_OK && how < 2)
                            CHECK_MSG(tp_tensor_get(&dp.c[0], 0) == i, "rank %d of %d, %d fails: %g, not %d", rank, n,
                                      bad, tp_tensor_get(&dp.c[0], 0), i);
                    }
                    tp_status st;
                    while ((st = tp_df_next(df, &dp)) == TP_ERR_IO) failures++; /* behind its last one */
                    CHECK(st == TP_END && failures == (how ? 1 : bad % n == rank));
                    tp_df_free(df);
                    tp_datapoint_free(&dp);
                }
}

/* Datapoint *user of pass 0 fails the first time. */
static bool is_away;
static tp_status back_later(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    if (is_away && index == *(const int *)user) {
        is_away = false;
        return tp_fail(TP_ERR_IO, "the disk is away");
    }
    return pass_and_index((void *)(uintptr_t)&lengths[4], pass, index, dp);
}
/* A restart behind a failure begins the pass anew: what is there now is given, in its place, in this pass and later. */
TEST(a_restart_behind_a_failure_begins_anew)
{
    tp_datapoint dp = {0, NULL, 0};
    for (int bad = 0; bad < 4; bad++)
        for (int how = 0; how < 2; how++)
            for (int kind = 0; kind < 3; kind++) {
                tp_dataflow *df = tp_df_from_generator(back_later, &bad);
                df = kind == 0 ? tp_df_fixed_size(df, 6) : kind == 1 ? tp_df_cache(df) : tp_df_fixed_size(df, 2);
                const char *want = kind == 1 ? "0 1 2 3 | 0 1 2 3 | 0 1 2 3"
                                   : kind    ? "0 1 | 2 3 | 100 101"
                                             : "0 1 2 3 100 101 | 102 103 200 201 202 203 | 300 301 302 303 400 401";
                is_away = true;
                if (how) {
                    CHECK(tp_df_seek(df, bad + 1, NULL) == (kind == 2 && bad > 1 ? TP_OK : TP_ERR_IO));
                } else {
                    for (int i = 0; i < bad && (kind < 2 || i < 2); i++) CHECK_OK(tp_df_next(df, &dp));
                    CHECK(tp_df_next(df, &dp) == (kind == 2 && bad > 1 ? TP_END : TP_ERR_IO));
                }
                is_away = false;
                const char *got = walk_from(df, 0, 3, 99);
                CHECK_MSG(strcmp(got, want) == 0, "kind %d, %d fails: %s", kind, bad, got);
                tp_df_free(df);
            }
    for (int pass = 0; pass < 3;
         pass++) { /* the first datapoint of a later pass, which goes on where the last one ended */
        int bad = 2 * pass % 4;
        tp_dataflow *df = tp_df_fixed_size(tp_df_from_generator(back_later, &bad), 2);
        is_away = false;
        for (int i = 0; i < pass; i++) walk_from(df, i, 1, 99);
        CHECK_OK(tp_df_restart(df, pass));
        is_away = true;
        CHECK_ERR(tp_df_next(df, &dp), TP_ERR_IO, "the disk is away");
        CHECK_STR(walk_from(df, pass, 2, 99), pass == 0   ? "0 1 | 2 3"
                                              : pass == 1 ? "2 3 | 100 101"
                                                          : "100 101 | 102 103");
        CHECK_OK(tp_df_restart(df, pass)); /* a pass that goes on behind the failure is followed by the next one */
        is_away = true;
        int failures = 0, given = 0;
        for (tp_status st; (st = tp_df_next(df, &dp)) != TP_END;) failures += st < TP_OK, given += st == TP_OK;
        CHECK(given == 2 && failures == 1);
        CHECK_STR(walk_from(df, pass + 1, 1, 99), pass == 0 ? "3 100" : pass == 1 ? "101 102" : "103 200");
        tp_df_free(df);
    }
    tp_datapoint_free(&dp);
}

/* A flow whose restart failed begins the pass that was asked for, when it can. */
static int restarts_that_fail;
static tp_status restart_later(tp_dataflow *df, int64_t pass)
{
    if (pass > 1 && restarts_that_fail-- > 0) return tp_fail(TP_ERR_IO, "the disk is away");
    *(int64_t *)df->user = 100 * pass;
    return TP_OK;
}
static tp_status next_of_three(tp_dataflow *df, tp_datapoint *dp)
{
    int64_t *at = (int64_t *)df->user;
    tp_status st = *at % 100 < 3 ? tp_datapoint_resize(dp, 1) : TP_END;
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_I32, tp_make_shape_n(0, NULL));
    if (st == TP_OK) tp_tensor_set(&dp->c[0], 0, (double)(*at)++);
    return st;
}
static tp_dataflow *restarted_later(void)
{
    tp_dataflow *df = tp_df_new("mine", sizeof(int64_t), 0);
    df->next = next_of_three;
    df->restart = restart_later;
    return df;
}
TEST(a_restart_that_failed_is_made_again)
{
    tp_datapoint dp = {0, NULL, 0};
    for (int kind = 0; kind < 5; kind++) {
        tp_dataflow *df = kind == 2   ? tp_df_repeated(restarted_later(), -1)
                          : kind == 3 ? tp_df_fixed_size(restarted_later(), 50)
                          : kind == 4 ? tp_df_map(restarted_later(), as_it_is)
                                      : restarted_later();
        restarts_that_fail = 1;
        for (int i = 0; i < 6 && (kind == 2 || kind == 3); i++) CHECK_OK(tp_df_next(df, &dp));
        if (kind == 2 || kind == 3) CHECK_ERR(tp_df_next(df, &dp), TP_ERR_IO, "the disk is away");
        else CHECK_ERR(tp_df_restart(df, 2), TP_ERR_IO, "the disk is away");
        if (kind == 1) CHECK_OK(tp_df_seek(df, 1, NULL));
        CHECK_OK(tp_df_next(df, &dp));
        CHECK_MSG(tp_tensor_get(&dp.c[0], 0) == (kind == 1 ? 201 : 200), "flow %d gives %g", kind,
                  tp_tensor_get(&dp.c[0], 0));
        tp_df_free(df);
    }
    tp_datapoint_free(&dp);
}

/* What a step came to: a datapoint, the end, or the sentence of a failure. */
static const char *came_to(tp_status st, const tp_datapoint *dp)
{
    static char text[1024];
    if (st == TP_OK) snprintf(text, sizeof text, "%g", tp_tensor_get(&dp->c[0], 0));
    else snprintf(text, sizeof text, "%s", st == TP_END ? "the end" : tp_last_error());
    return text;
}
/* A seek that comes to a failure tells it as a walk does, and goes on behind it to the same datapoints. */
TEST(a_failure_is_told_by_seek_too)
{
    enum { MOST = 40 }; /* steps: tp_df_locally_shuffle has no end */
    static char walked[MOST][200];
    tp_datapoint dp = {0, NULL, 0};
    for (int which = 0;; which++) {
        tp_dataflow *df = flow_with_a_failure(which);
        int n = 0, failures = 0;
        if (!df) break;
        for (tp_status st = TP_OK; st != TP_END && n < MOST; n++) {
            st = tp_df_next(df, &dp);
            failures += st < TP_OK;
            snprintf(walked[n], sizeof walked[n], "%s", came_to(st, &dp));
        }
        CHECK_MSG(failures > 0, "flow %d does not fail", which);
        tp_df_free(df);
        for (int k = 0; k < n; k++) {
            df = flow_with_a_failure(which);
            for (int i = 0; i < k; i++) {
                int64_t skipped = -1;
                const tp_status st = tp_df_seek(df, 1, &skipped);
                const bool fails = strstr(walked[i], "cat.jpg") != NULL;
                CHECK_MSG(st == (fails ? TP_ERR_IO : TP_OK) && skipped == !fails &&
                              (!fails || strcmp(tp_last_error(), walked[i]) == 0),
                          "flow %d: seek %d: %s, %d skipped; a walk has \"%s\"", which, i, tp_status_name(st),
                          (int)skipped, walked[i]);
            }
            const char *got = came_to(tp_df_next(df, &dp), &dp);
            CHECK_MSG(strcmp(got, walked[k]) == 0, "flow %d after %d seeks: \"%s\", a walk has \"%s\"", which, k, got,
                      walked[k]);
            tp_df_free(df);
        }
    }
    tp_datapoint_free(&dp);
}

/* ==== >>text ========================================================================================== */

TEST(text_is_a_component)
{
    tp_test_fail_after(0);
    tp_datapoint dp = {0, NULL, 0}, view = {0, NULL, 0}, copy = {0, NULL, 0};
    CHECK_OK(tp_datapoint_set_text(&dp, 0, "a cat"));
    CHECK_OK(tp_datapoint_set_bytes(&dp, 2, "\0\1\2\3", 4));
    CHECK(dp.n == 3 && dp.c[0].dtype == TP_U8 && dp.c[0].shape.ndim == 1 && dp.c[0].shape.dim[0] == 5);
    CHECK(dp.c[2].shape.dim[0] == 4 && memcmp(dp.c[2].data, "\0\1\2\3", 4) == 0);
    CHECK_STR(tp_datapoint_text(&dp, 0), "a cat");
    CHECK_OK(tp_datapoint_set_text(&dp, 1, ""));
    CHECK(dp.n == 3 && dp.c[1].shape.dim[0] == 0);
    CHECK_STR(tp_datapoint_text(&dp, 1), "");
    /* a view gets its NUL in memory of its own */
    const char whole[] = "a cat and a dog";
    const int64_t five = 5;
    CHECK_OK(tp_datapoint_resize(&view, 1));
    tp_tensor_view(&view.c[0], TP_U8, tp_make_shape_n(1, &five), whole);
    CHECK_STR(tp_datapoint_text(&view, 0), "a cat");
    CHECK_STR(whole, "a cat and a dog");
    CHECK_OK(tp_datapoint_copy(&copy, &dp)); /* as queues and lists do */
    CHECK_STR(tp_datapoint_text(&copy, 0), "a cat");
    CHECK(memcmp(copy.c[2].data, "\0\1\2\3", 4) == 0);
    /* from its own memory */
    CHECK_OK(tp_datapoint_set_bytes(&dp, 0, (const char *)dp.c[0].data + 2, 3));
    CHECK_STR(tp_datapoint_text(&dp, 0), "cat");
    CHECK_OK(tp_datapoint_set_text(&dp, 0, "a much longer sentence than the one before"));
    CHECK_STR(tp_datapoint_text(&dp, 0), "a much longer sentence than the one before");
    const long before = tp_test_alloc_count();
    for (int i = 0; i < 9; i++) {
        CHECK_OK(tp_datapoint_set_text(&dp, 0, i % 2 ? "short" : "not so short"));
        CHECK_STR(tp_datapoint_text(&dp, 0), i % 2 ? "short" : "not so short");
    }
    CHECK(tp_test_alloc_count() == before);
    char longer[160]; /* memory that grows has room for the NUL: it is allocated once */
    memset(longer, 'm', sizeof longer);
    for (int n = 125; n < 131; n++) {
        const long then = tp_test_alloc_count();
        CHECK_OK(tp_datapoint_set_bytes(&dp, 0, longer, (size_t)n));
        const char *text = tp_datapoint_text(&dp, 0);
        CHECK(text && strlen(text) == (size_t)n && memcmp(text, longer, (size_t)n) == 0);
        CHECK_MSG(tp_test_alloc_count() == then + 1, "%d bytes: %ld allocations", n, tp_test_alloc_count() - then);
    }
    CHECK_OK(tp_datapoint_set_bytes(&dp, 0, (const char *)dp.c[0].data + 130, 0)); /* its last byte */
    CHECK_STR(tp_datapoint_text(&dp, 0), "");
    /* what is none */
    const int64_t two[2] = {2, 2};
    CHECK_OK(tp_tensor_resize(&copy.c[0], TP_U8, tp_make_shape_n(2, two)));
    CHECK(tp_datapoint_text(&copy, 0) == NULL);
    CHECK_HAS(tp_last_error(), "component 0 is uint8 (2,2)");
    CHECK_OK(tp_tensor_resize(&copy.c[0], TP_F32, tp_make_shape_n(1, two)));
    CHECK(tp_datapoint_text(&copy, 0) == NULL && tp_datapoint_text(&copy, 3) == NULL);
    CHECK(tp_datapoint_text(NULL, 0) == NULL && tp_datapoint_text(&dp, -1) == NULL);
    CHECK_ERR(tp_datapoint_set_text(&dp, 0, NULL), TP_ERR_ARG, "NULL");
    CHECK_ERR(tp_datapoint_set_bytes(&dp, -1, "x", 1), TP_ERR_ARG, "index");
    CHECK_OK(tp_datapoint_set_bytes(&dp, 0, NULL, 0));
    tp_datapoint_free(&dp), tp_datapoint_free(&view), tp_datapoint_free(&copy);
    CHECK(tp_test_live_blocks() == 0);
    for (long n = 1, failed = 1; failed; n++) {
        tp_test_fail_after(n);
        tp_status st = tp_datapoint_set_text(&dp, 1, "abc");
        if (st == TP_OK) tp_tensor_view(&dp.c[1], TP_U8, tp_make_shape_n(1, &five), whole);
        if (st == TP_OK && !tp_datapoint_text(&dp, 1)) st = TP_ERR_NOMEM;
        failed = tp_test_alloc_failed();
        CHECK(failed ? st == TP_ERR_NOMEM : st == TP_OK);
        tp_datapoint_free(&dp);
        CHECK(tp_test_live_blocks() == 0);
    }
    tp_test_alloc_reset();
}

/* Text goes through flows as any component does. */
TEST(text_goes_through_flows)
{
    tp_datapoint list[3], dp = {0, NULL, 0};
    const char *const word[3] = {"zero", "one", "two!"};
    memset(list, 0, sizeof list);
    for (int i = 0; i < 3; i++) CHECK_OK(tp_datapoint_set_text(&list[i], 0, word[i]));
    tp_dataflow *df = tp_df_cache(tp_df_repeated_point(tp_df_from_list(list, 3, .shuffle = TP_NO), 2));
    for (int pass = 0; pass < 2; pass++) {
        CHECK_OK(tp_df_restart(df, pass));
        for (int i = 0; i < 6; i++) {
            CHECK_OK(tp_df_next(df, &dp));
            CHECK_STR(tp_datapoint_text(&dp, 0), word[i / 2]);
        }
        CHECK(tp_df_next(df, &dp) == TP_END);
    }
    tp_df_free(df);
    for (int i = 0; i < 3; i++) tp_datapoint_free(&list[i]);
    tp_datapoint_free(&dp);
}

/* ==== >>seeds ========================================================================================= */

/* 0 to n-1, shuffled; seed 0: none is given. */
static tp_dataflow *shuffled(int n, uint64_t seed)
{
    int32_t value[64];
    for (int i = 0; i < n; i++) value[i] = i;
    tp_tensor t = {TP_I32, {1, {n}}, value, NULL, 0, NULL, NULL, 0};
    return seed ? tp_df_from_arrays(&t, 1, .seed = seed) : tp_df_from_arrays(&t, 1);
}

TEST(joined_flows_are_shuffled_apart_unless_they_have_one_seed)
{
    enum { N = 50, PASSES = 6 };
    for (int given = 0; given < 2; given++) {
        const uint64_t seed = given ? 42 : 0;
        tp_dataflow *two[2] = {shuffled(N, seed), shuffled(N, seed)}, *df = tp_df_join(two, 2);
        int partner[PASSES][N], alike = 0, kept = 0;
        tp_datapoint dp = {0, NULL, 0};
        for (int p = 0; p < PASSES; p++) {
            CHECK_OK(tp_df_restart(df, p));
            for (int i = 0; i < N && CHECK_OK(tp_df_next(df, &dp)); i++) {
                const int a = (int)tp_tensor_get(&dp.c[0], 0), b = (int)tp_tensor_get(&dp.c[1], 0);
                partner[p][a] = b;
                alike += a == b;
                kept += p > 0 && partner[p - 1][a] == b;
            }
        }
        /* by chance 6 rows meet themselves, and 5 their partner of the pass before */
        CHECK_MSG(given ? alike == N * PASSES : alike < 20 && kept < 20, "given %d: %d alike, %d kept", given, alike,
                  kept);
        tp_datapoint_free(&dp);
        tp_df_free(df);
    }
}

static tp_status add_a_number(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    const tp_status st = tp_tensor_resize(&out->c[0], TP_F32, in->c[0].shape);
    if (st == TP_OK)
        *(float *)out->c[0].data =
            (float)tp_tensor_get(&in->c[0], 0) + tp_random_uniform(call->key, (uint64_t)call->index, 0);
    return st;
}

/* A tree in which each kind stands several times. `given`: each flow is given the seed that it should have by itself. */
static tp_dataflow *a_tree(bool given)
{
#define OWN(seed_, function_, ...) (given ? function_(__VA_ARGS__, .seed = (seed_)) : function_(__VA_ARGS__))
#define SHUFFLED(n_, seed_)        shuffled(n_, given ? (seed_) : 0)
    tp_dataflow *in[3], *all[2], *df = SHUFFLED(9, 42);
    df = OWN(42, tp_df_map, df, add_a_number);
    in[0] = OWN(42, tp_df_filter, df, by_chance);
    df = shuffled(8, 7); /* the second, though its seed is given */
    df = OWN(43, tp_df_map, df, add_a_number);
    in[1] = OWN(44, tp_df_parallel_map, df, add_a_number, .num_thread = 2);
    df = SHUFFLED(5, 44);
    in[2] = OWN(42, tp_df_cache, df, .shuffle = TP_YES);
    df = OWN(42, tp_df_random_mix, in, 3);
    all[0] = OWN(43, tp_df_random_mix, &df, 1);
    df = SHUFFLED(7, 45);
    in[0] = OWN(43, tp_df_filter, df, by_chance);
    df = SHUFFLED(6, 46);
    df = OWN(42, tp_df_locally_shuffle, df, 3);
    df = tp_df_take(df, 8);
    df = OWN(43, tp_df_locally_shuffle, df, 3);
    in[1] = tp_df_take(df, 8);
    df = SHUFFLED(4, 47);
    in[2] = tp_df_map(df, add_a_number, .seed = 42); /* the seed of the first tp_df_map, given on purpose */
    df = OWN(42, tp_df_random_choose, in, 3);
    df = OWN(46, tp_df_map, df, add_a_number);
    all[1] = OWN(43, tp_df_cache, df, .shuffle = TP_YES);
    df = tp_df_concat(all, 2);
    return OWN(47, tp_df_map, df, add_a_number);
#undef OWN
#undef SHUFFLED
}

TEST(a_flow_has_the_next_seed_of_its_kind)
{
    char want[4096];
    tp_dataflow *df = a_tree(true);
    snprintf(want, sizeof want, "%s", walk_from(df, 0, 3, 100));
    tp_df_free(df);
    for (int processes = 0; processes < 3; processes++) { /* these seek */
        df = processes ? tp_df_multi_process(a_tree(false), processes) : a_tree(false);
        CHECK_STR(walk_from(df, 0, 3, 100), want);
        CHECK_STR(walk_from(df, 2, 1, 100), strrchr(want, '|') + 2);
        tp_df_free(df);
    }
}

/* Two flows of digits have the same images, each in an order of its own. */
TEST(digits_without_a_seed_are_one_set)
{
    tp_dataflow *two[2] = {tp_df_digits("test", .size = 9, .shuffle = TP_NO),
                           tp_df_digits("test", .size = 9, .shuffle = TP_NO)},
                *df = tp_df_join(two, 2);
    tp_datapoint dp = {0, NULL, 0};
    for (int i = 0; i < 9 && CHECK_OK(tp_df_next(df, &dp)); i++)
        CHECK(memcmp(dp.c[0].data, dp.c[2].data, tp_tensor_bytes(&dp.c[0])) == 0);
    tp_datapoint_free(&dp);
    tp_df_free(df);
}

TEST(flows_of_ones_own_have_seeds_of_their_own)
{
    tp_dataflow *mine[4] = {tp_df_new("mine", 0, 0), tp_df_new("others", 0, 0), tp_df_new("mine", 0, 7),
                            tp_df_new("mine", 0, 0)},
                *df = tp_df_repeated(tp_df_concat(mine, 4), 2);
    CHECK_OK(tp_df_status(df));
    CHECK(mine[0]->seed == 42 && mine[1]->seed == 42 && mine[2]->seed == 7 && mine[3]->seed == 44);
    tp_df_free(df);
}

/* Part i of three of one shuffled flow, with numbers added. */
static tp_dataflow *a_part(void *user, int i)
{
    return (void)user, tp_df_map(tp_df_shard(shuffled(12, 0), i, 3), add_a_number);
}
TEST(parts_on_threads_of_their_own_fit_together)
{
    tp_dataflow *df = tp_df_multi_thread(a_part, 3);
    tp_datapoint dp = {0, NULL, 0};
    for (int pass = 0; pass < 3; pass++) {
        unsigned seen = 0;
        for (int i = 0; i < 12; i++) { /* a pass of the whole is three of df */
            if (i % 4 == 0) CHECK_OK(tp_df_restart(df, 3 * pass + i / 4));
            if (CHECK_OK(tp_df_next(df, &dp))) seen |= 1u << (int)tp_tensor_get(&dp.c[0], 0);
        }
        CHECK_MSG(seen == (1u << 12) - 1, "pass %d: %x", pass, seen);
    }
    tp_datapoint_free(&dp);
    tp_df_free(df);
}

/* ==== >>queue ========================================================================================= */

TEST(a_flow_from_a_queue)
{
    tp_test_fail_after(0);
    tp_queue *q = tp_queue_new(8);
    tp_dataflow *df = tp_df_repeated_point(tp_df_from_queue(q), 2);
    tp_datapoint dp = {0, NULL, 0};
    const float value[3] = {5, 6, 7};
    for (int i = 0; i < 3; i++) {
        tp_tensor t = tp_scalar_view(&value[i]);
        tp_datapoint one = {1, &t, 0};
        CHECK_OK(tp_queue_put(q, &one));
    }
    tp_queue_close(q);
    tp_queue_free(q); /* the flow has it too */
    CHECK(tp_df_size(df) == -1);
    for (int i = 0; i < 6; i++) {
        CHECK_OK(tp_df_next(df, &dp));
        CHECK_NEAR(tp_tensor_get(&dp.c[0], 0), value[i / 2], 0, 0);
    }
    CHECK(tp_df_next(df, &dp) == TP_END);
    CHECK_ERR(tp_df_restart(df, 1), TP_ERR_STATE,
              "walked only once: its queue was closed. An input source reads a flow");
    tp_df_free(df);
    tp_datapoint_free(&dp);
    CHECK(tp_test_live_blocks() == 0);
    tp_test_alloc_reset();
}

TEST(a_flow_without_next_is_a_sentence)
{
    tp_datapoint dp;
    memset(&dp, 0, sizeof dp);
    tp_dataflow *df = tp_df_new("mine", 8, 0);
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_ARG, "mine: the flow has no function `next`");
    tp_datapoint_free(&dp);
    tp_df_free(df);
}

TEST_MAIN()
