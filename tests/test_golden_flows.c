/* test_golden_flows.c - random data flows, lists of augmentors and input sources: what comes out of them is what came out before
 *
 *     TP_TEST_WRITE=1 build/test/gcc-c11-test_golden_flows    writes digests_flows.txt anew, after a change that was meant
 *     TP_TEST_PRINT=flows:7 ...                               prints what case 7 of a section sees, to compare it with another commit's
 *
 * Options are valid, at a limit or wrong. A case is a function of its number: the same with every compiler. */
#define TP_IMPLEMENTATION
#include "tp_input.h"
#include "tp_test.h"

#include "golden.h"
#include "golden_draw.h"
#include <pthread.h>

/* ==== >>random numbers ================================================================================ */

static tp_tri draw_tri(void)
{
    static const tp_tri tri[] = {0, 0, 0, 0, TP_YES, TP_YES, TP_YES, TP_NO, TP_NO, TP_UNSET};
    return DRAW_OF(tri);
}
static uint64_t draw_seed(void)
{
    static const uint64_t seeds[] = {0, 0, 1, 7, (uint64_t)TP_NONE, (uint64_t)1 << 63};
    return DRAW_OF(seeds);
}
static int draw_small(void) /* mostly a sensible number */
{
    static const int small[] = {1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 16, 0, -1};
    return DRAW_OF(small);
}
/* ==== >>what is seen ================================================================================== */

static uint64_t seen;
static bool printing;
static char dir[300];

static void see(const char *what, int64_t v)
{
    if (printing) printf("%s %lld\n", what, (long long)v);
    seen = tp_test_mix(seen ^ (uint64_t)v);
}
static void see_bytes(const void *p, size_t n)
{
    see("bytes", (int64_t)n);
    if (n) see("hash", (int64_t)tp_hash(p, n));
}
/* A text without the folder of this run and without the lines of this file. */
static void see_text(const char *text)
{
    tp_buf b = {NULL, 0, 0, false};
    static const char place[] = "test_golden_flows.c:";
    const char *at;
    for (; (at = strstr(text, place)) != NULL; text = at) {
        tp_buf_put(&b, text, (size_t)(at - text));
        tp_buf_printf(&b, "HERE");
        at += strlen(place);
        at += strspn(at, "0123456789");
    }
    tp_buf_printf(&b, "%s", text);
    if (printing) printf("%s\n", b.data);
    seen = golden_hash_without(seen, b.data, dir);
    tp_buf_free(&b);
}
static tp_status see_status(const char *what, tp_status st)
{
    see(what, st);
    if (st < TP_OK) see_text(tp_last_error());
    return st;
}

static bool inexact; /* floats are seen coarsely: they may depend on the C library's sin, exp, pow */
static void see_tensor(const tp_tensor *t)
{
    char shape[TP_SHAPE_TEXT];
    if (printing) printf("%s %s\n", tp_dtype_name(t->dtype), tp_shape_text(&t->shape, shape));
    see("dtype", t->dtype);
    see("ndim", t->shape.ndim);
    for (int i = 0; i < t->shape.ndim; i++) see("dim", t->shape.dim[i]);
    if (!inexact || t->dtype != TP_F32) {
        see_bytes(t->data, tp_tensor_bytes(t));
        return;
    }
    uint64_t h = 0;
    for (int64_t i = 0; i < tp_tensor_size(t); i++) {
        const double x = tp_tensor_get(t, i) * 32 + 0.3137; /* no number with few bits lies near a border */
        h = tp_test_mix(h ^ (uint64_t)(fabs(x) < 1e15 ? (int64_t)floor(x) : 77));
    }
    see("coarse", (int64_t)h);
}
static void see_datapoint(const tp_datapoint *dp)
{
    see("components", dp->n);
    for (int i = 0; i < dp->n; i++) see_tensor(&dp->c[i]);
}

static pthread_t main_thread;
/* What tp_df_print says; what is said once only depends on the cases before. */
static void see_log(void *user, tp_log_level level, const char *message)
{
    (void)user;
    if (!pthread_equal(pthread_self(), main_thread)) return;
    if (!strstr(message, "a datapoint of ") && strncmp(message, "  ", 2) != 0) return;
    see("level", (int64_t)level);
    see_text(message);
}

static void begin_case(const char *section, int number)
{
    char wanted[64];
    const char *print = getenv("TP_TEST_PRINT");
    snprintf(wanted, sizeof wanted, "%s:%d", section, number);
    printing = print && strcmp(print, wanted) == 0;
    state = tp_test_mix((uint64_t)number) ^ tp_hash_name(section);
    inexact = false;
}

/* Cases of a section; a few of them make a digest. */
static void run_section(const char *section, int cases, int together, void (*one)(void))
{
    main_thread = pthread_self();
    tp_set_log(see_log, NULL);
    if (!dir[0]) snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
    for (int i = 0; i < cases; i++) {
        if (i % together == 0) seen = 0;
        begin_case(section, i);
        one();
        if (i % together == together - 1) golden_digest(seen);
    }
    tp_set_log(NULL, NULL);
    golden_compare("digests_flows.txt", section);
}

/* ==== >>sources ======================================================================================= */

static const tp_dtype all_dtypes[] = {TP_U8, TP_I32, TP_F32, TP_I64, TP_F64, TP_BOOL, TP_F16, TP_BF16};

/* Numbers that every dtype of floats holds exactly. */
static void fill(tp_tensor *t, int64_t from)
{
    for (int64_t i = 0; i < tp_tensor_size(t); i++) tp_tensor_set(t, i, (double)((from + 3 * i) % 64));
}
static bool resize(tp_tensor *t, tp_dtype dtype, int ndim, const int64_t *dim)
{
    return CHECK_OK(tp_tensor_resize(t, dtype, tp_make_shape_n(ndim, dim)));
}

enum { MADE = 64 };
typedef struct made { /* what a function of a flow does */
    int64_t length, fails_at, empty_at;
    int shapes;
    tp_dtype dtype;
    int drops; /* of 8 datapoints */
} made;
static made made_[MADE];
static int n_made, n_flows, n_released;
static bool endless, threaded; /* a flow reads ahead: a seek over a failure finds it or not, as threads have it */

static made *new_made(void)
{
    made *m = &made_[n_made++ % MADE];
    m->length = draw(10);
    m->fails_at = chance(8) ? draw(8) : -1;
    m->empty_at = chance(8) ? draw(8) : -1;
    m->shapes = 1 + draw(3);
    m->dtype = DRAW_OF(all_dtypes);
    m->drops = chance(40) ? draw(6) : 0;
    return m;
}
static void release(void *user) { n_released += user != NULL; }

static tp_status generate(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    const made *m = (const made *)user;
    if (index == m->fails_at) return tp_fail(TP_ERR_IO, "the disk is gone");
    if (index >= m->length) return TP_END;
    const int64_t dim[2] = {1 + index % m->shapes, 2};
    tp_status st = tp_datapoint_resize(dp, index == m->empty_at ? 0 : 2);
    if (st != TP_OK || dp->n == 0) return st;
    st = tp_tensor_resize(&dp->c[0], TP_I32, tp_make_shape_n(0, NULL));
    if (st == TP_OK) tp_tensor_set(&dp->c[0], 0, (double)(100 * pass + index));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], m->dtype, tp_make_shape_n(2, dim));
    if (st == TP_OK) fill(&dp->c[1], 10 * pass + index);
    return st;
}

static tp_dataflow *arrays(void)
{
    static const int64_t rows[] = {0, 1, 2, 3, 5, 5, 8, 9, 16, 17};
    tp_tensor t[3];
    memset(t, 0, sizeof t);
    const int n = chance(5) ? 0 : 1 + draw(3);
    const int64_t all = DRAW_OF(rows);
    for (int j = 0; j < n; j++) {
        const int ndim = chance(4) ? 0 : 1 + draw(3);
        int64_t dim[3] = {chance(4) ? DRAW_OF(rows) : all, 0, 0};
        dim[1] = draw(4), dim[2] = 1 + draw(3);
        const tp_dtype dtype = DRAW_OF(all_dtypes);
        if (resize(&t[j], dtype, ndim, dim)) fill(&t[j], j);
    }
    const tp_tri shuffle = draw_tri();
    const uint64_t seed = draw_seed();
    tp_dataflow *df = tp_df_from_arrays(chance(2) ? NULL : t, n, .shuffle = shuffle, .seed = seed);
    for (int j = 0; j < n; j++) tp_tensor_free(&t[j]);
    return df;
}
static tp_dataflow *list(void)
{
    tp_datapoint points[6];
    memset(points, 0, sizeof points);
    const int n = draw(7), shapes = 1 + draw(3), components = 1 + draw(2);
    const tp_dtype dtype = DRAW_OF(all_dtypes);
    for (int i = 0; i < n; i++) {
        CHECK_OK(tp_datapoint_resize(&points[i], chance(3) ? 0 : components));
        for (int c = 0; c < points[i].n; c++) {
            const int64_t dim[2] = {1 + draw(shapes), 3};
            if (resize(&points[i].c[c], dtype, 1 + c, dim)) fill(&points[i].c[c], i);
        }
    }
    const tp_tri shuffle = draw_tri();
    const uint64_t seed = draw_seed();
    const int64_t said = chance(3) ? -1 : n;
    tp_dataflow *df = tp_df_from_list(points, said, .shuffle = shuffle, .seed = seed);
    for (int i = 0; i < n; i++) tp_datapoint_free(&points[i]);
    return df;
}
static tp_dataflow *generator(void)
{
    static const int more[] = {0, 0, 0, 0, 0, 1, -1};
    made *m = new_made();
    const int64_t size = chance(30) ? 0 : m->length + DRAW_OF(more);
    const tp_tri indexed = draw_tri();
    return tp_df_from_generator(chance(2) ? NULL : generate, m, .size = size, .indexed = indexed, .release = release);
}
static tp_dataflow *fake(void)
{
    static const int64_t sizes[] = {0, TP_NONE, 1, 2, 5, 7, -2};
    static const float bound[] = {0, 0, 0, 1, -1, 2, 255, TP_ZERO};
    tp_spec specs[2];
    memset(specs, 0, sizeof specs);
    const int n = chance(5) ? 0 : 1 + draw(2);
    for (int i = 0; i < 2; i++) {
        specs[i].dtype = DRAW_OF(all_dtypes);
        specs[i].shape.ndim = draw(3);
        for (int k = 0; k < specs[i].shape.ndim; k++) specs[i].shape.dim[k] = chance(4) ? TP_ANY : draw(4);
    }
    const int64_t size = DRAW_OF(sizes);
    const tp_tri random = draw_tri();
    const float low = DRAW_OF(bound), high = DRAW_OF(bound);
    const uint64_t seed = draw_seed();
    return tp_df_fake(specs, n, .size = size, .random = random, .low = low, .high = high, .seed = seed);
}
static tp_dataflow *digits(void)
{
    static const char *const which[] = {"train", "test", "test", "x", ""};
    static const int64_t sizes[] = {TP_NONE, 1, 2, 3, 5, -2};
    const char *name = DRAW_OF(which);
    const int64_t size = DRAW_OF(sizes);
    const tp_tri shuffle = draw_tri();
    const uint64_t seed = draw_seed();
    return tp_df_digits(name, .size = size, .shuffle = shuffle, .seed = seed);
}

/* A flow of the program's own, which lacks some functions or says odd things. */
static tp_status own_next(tp_dataflow *df, tp_datapoint *dp)
{
    int64_t *at = (int64_t *)df->user;
    if (*at >= 5) return TP_END;
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_I64, tp_make_shape_n(0, NULL));
    if (st == TP_OK) tp_tensor_set(&dp->c[0], 0, (double)(*at)++);
    return st;
}
static tp_status own_restart(tp_dataflow *df, int64_t pass)
{
    *(int64_t *)df->user = pass % 2;
    return TP_OK;
}
static int64_t own_size(tp_dataflow *df) { return df->user ? 5 : 0; }
static tp_status own_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    int64_t *at = (int64_t *)df->user;
    *skipped = n < 5 - *at ? n : 5 - *at;
    *at += *skipped;
    return TP_OK;
}
static tp_dataflow *own(void)
{
    tp_dataflow *df = tp_df_new("own", sizeof(int64_t), 3);
    if (!CHECK(df)) return NULL;
    df->next = own_next;
    if (chance(70)) df->restart = own_restart;
    if (chance(60)) df->size = own_size;
    if (chance(50)) df->seek = own_seek;
    return df;
}
static tp_dataflow *source(void)
{
    switch (draw(24)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
    case 6: return arrays();
    case 7:
    case 8:
    case 9:
    case 10: return list();
    case 11:
    case 12:
    case 13:
    case 14:
    case 15:
    case 16: return generator();
    case 17:
    case 18: return fake();
    case 19: return digits();
    case 20:
    case 21:
    case 22: return own();
    default: return chance(30) ? NULL : tp_df_fail(NULL, TP_ERR_ARG, "a poison flow of %d", draw(3));
    }
}

/* ==== >>flows on flows ================================================================================ */

static tp_dataflow *grow(int depth);

static tp_status map(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    const made *m = (const made *)call->user;
    const int64_t dim[1] = {2};
    if (call->index == m->fails_at) return tp_fail(TP_ERR_FORMAT, "datapoint %d is bad", (int)call->index);
    call->drop = (int)(tp_random_u32(call->key, (uint64_t)call->index, 1) % 8) < m->drops;
    if (out->n == 0) return TP_OK;
    const tp_status st = tp_tensor_resize(&out->c[0], TP_I64, tp_make_shape_n(1, dim));
    if (st != TP_OK) return st;
    tp_tensor_set(&out->c[0], 0, tp_tensor_size(&in->c[0]) ? tp_tensor_get(&in->c[0], 0) + 1 : -1);
    tp_tensor_set(&out->c[0], 1, (double)(1000 * call->pass + call->index));
    return TP_OK;
}
static tp_status map_component(const tp_tensor *in, tp_tensor *out, tp_map_call *call)
{
    const made *m = (const made *)call->user;
    if (call->index == m->fails_at) return tp_fail(TP_ERR_SHAPE, "no such shape");
    call->drop = (int)(call->index % 8) < m->drops;
    if (m->shapes == 1) return TP_OK;
    tp_status st = tp_tensor_resize(out, m->dtype, in->shape);
    for (int64_t i = 0; st == TP_OK && i < tp_tensor_size(in); i++)
        tp_tensor_set(out, i, (double)((int64_t)tp_tensor_get(in, i) % 32 + call->index % 4));
    return st;
}
static bool keep(const tp_datapoint *dp, const tp_map_call *call)
{
    const made *m = (const made *)call->user;
    return dp->n > 0 && (int)(tp_random_u32(call->key, (uint64_t)call->index, 0) % 8) >= m->drops;
}
static tp_status sometimes_one(const tp_tensor *in, tp_tensor *out, tp_map_call *call)
{
    if (call->index % 4 != 3) return TP_OK;
    const tp_status st = tp_tensor_resize(out, in->dtype, tp_make_shape(1, 1));
    if (st == TP_OK) tp_tensor_set(out, 0, 1);
    return st;
}

/* What the constructors of one_child take. */
typedef struct options {
    int a, b, c, some, few, index, indices[3];
    bool plain, bare;
    tp_tri t, keeps;
    uint64_t seed;
    int64_t times;
    double scale;
    tp_dtype dtype;
    const tp_dtype *types;
    made *m;
} options;
static options draw_options(void)
{
    static const double scales[] = {0, 1, 2, 0.5, -1, 256};
    static const int64_t times[] = {1, 2, 3, 2, 0, -1, -2};
    options o;
    memset(&o, 0, sizeof o);
    o.a = draw_small(), o.b = draw_small(), o.c = draw_small();
    o.some = chance(90) ? 1 + draw(3) : draw(2) - 1;
    o.few = 1 + draw(3);
    o.index = chance(85) ? draw(2) : draw(5) - 1;
    for (int i = 0; i < 3; i++) o.indices[i] = chance(95) ? draw(2) : draw(6) - 2;
    o.plain = chance(60), o.bare = chance(4);
    o.t = draw_tri();
    o.seed = draw_seed();
    o.times = DRAW_OF(times);
    o.scale = DRAW_OF(scales);
    o.dtype = DRAW_OF(all_dtypes);
    o.types = all_dtypes + draw(4);
    o.m = new_made();
    o.keeps = o.m->drops ? TP_NO : o.t;
    return o;
}

static tp_dataflow *one_child(int which, tp_dataflow *df)
{
    const options o = draw_options();
    if (endless && which >= 14 && which != 19) df = (tp_df_take)(df, 9); /* these may read whole passes */
    threaded |= which == 19 || which == 20 || (which >= 22 && !o.plain);
    switch (which) {
    case 0:
    case 1: return tp_df_batch(df, o.a, .remainder = o.t);
    case 2: return tp_df_map(df, o.bare ? NULL : map, o.m, .keeps_all = o.keeps, .seed = o.seed, .release = release);
    case 3:
        return tp_df_map_component(df, o.bare ? NULL : map_component, o.index, o.m, .keeps_all = o.keeps,
                                   .seed = o.seed, .release = release);
    case 4: return (tp_df_cast)(df, o.index, o.dtype, o.scale);
    case 5:
    case 6: endless |= o.times == -1; return (tp_df_repeated)(df, o.times);
    case 7: return (tp_df_take)(df, o.a);
    case 8: return tp_df_fixed_size(df, o.a, .keep_state = o.t);
    case 9:
        endless = true;
        return tp_df_locally_shuffle(df, o.a, .num_reuse = o.plain ? 0 : o.b, .shuffle_interval = o.plain ? 0 : o.c,
                                     .seed = o.seed);
    case 10: return (tp_df_select)(df, o.indices, o.some);
    case 11: return (tp_df_print)(df, o.some, o.plain ? "seen" : NULL);
    case 12:
        return tp_df_filter(df, o.index == 1 && o.plain ? NULL : keep, o.m, .seed = o.seed, .release = release,
                            .size = o.plain ? 0 : o.a);
    case 13: return (tp_df_repeated_point)(df, o.times);
    case 14:
    case 15: return tp_df_cache(df, .shuffle = o.t, .seed = o.seed);
    case 16:
    case 17: return tp_df_batch_by_shape(df, o.a, o.index, .keep_state = o.t);
    case 18: return tp_dataflow_to_dataset(df, o.types, o.few);
    case 19: return tp_df_prefetch(df, o.plain ? 0 : o.a);
    case 20:
        return tp_df_parallel_map(df, map, o.m, .num_thread = o.few, .buffer_size = o.plain ? 0 : o.a,
                                  .keeps_all = o.keeps, .seed = o.seed, .release = release);
    case 21: return tp_df_map_component(tp_df_repeated(df, 2), sometimes_one, o.index, .keeps_all = TP_YES);
    default:
        return tp_df_augment_image(df, tp_aug_flip(.horiz = TP_YES), o.index, .catch_exceptions = o.t, .seed = o.seed,
                                   .num_thread = o.plain ? 0 : 2);
    }
}
static tp_dataflow *several(int which, int depth)
{
    static const double chances[][3] = {{0.25, 0.75, 0}, {0.5, 0.25, 0.25}, {1, 0, 0},
                                        {0.5, 0.6, 0},   {-0.5, 1.5, 0},    {0.5, 0.5, 0}};
    tp_dataflow *dfs[3] = {NULL, NULL, NULL};
    const int n = chance(92) ? 1 + draw(3) : 0;
    for (int i = 0; i < n; i++) dfs[i] = grow(depth);
    const uint64_t seed = draw_seed();
    const double *p = chance(40) ? NULL : DRAW_OF(chances);
    switch (which) {
    case 0: return (tp_df_concat)(dfs, n);
    case 1: return (tp_df_join)(dfs, n);
    case 2: return (tp_df_zip)(dfs, n);
    case 3: return tp_df_random_choose(dfs, n, .probabilities = p, .seed = seed);
    default: return tp_df_random_mix(dfs, n, .seed = seed);
    }
}
static tp_dataflow *grow(int depth)
{
    n_flows++;
    if (depth <= 0 || n_flows > 9) return source();
    if (chance(22)) return several(draw(5), depth - 1);
    const int which = draw(23);
    return one_child(which, grow(depth - 1));
}

/* ==== >>cases of flows ================================================================================ */

static void take(tp_dataflow *df, int n, tp_datapoint *dp)
{
    tp_status st = TP_OK;
    for (int i = 0, ends = 0; i < n && ends < 2; i++) {
        st = see_status("next", tp_df_next(df, dp));
        if (st == TP_OK) see_datapoint(dp);
        ends += st != TP_OK;
    }
}
static void use(tp_dataflow *df)
{
    static const int64_t passes[] = {0, 1, 1, 2, 3, 7, -1, 9}, skips[] = {0, 1, 1, 2, 3, 5, 8, 20, -1};
    tp_datapoint dp = {0, NULL, 0};
    for (int i = 3 + draw(6); i > 0; i--) {
        int64_t skipped = -3, n;
        switch (draw(8)) {
        case 0:
            n = DRAW_OF(passes);
            see_status("restart", tp_df_restart(df, n));
            break;
        case 1:
        case 2:
            n = DRAW_OF(skips);
            if (threaded) break;
            see_status("seek", tp_df_seek(df, n, &skipped));
            see("skipped", skipped);
            break;
        case 3: see("size", tp_df_size(df)); break;
        case 4: take(df, 1, &dp); break;
        default: take(df, 2 + draw(20), &dp);
        }
    }
    tp_datapoint_free(&dp);
}
static void mean_of(tp_dataflow *df)
{
    tp_tensor mean;
    memset(&mean, 0, sizeof mean);
    const int index = draw(4) - 1;
    const tp_status st = chance(50) ? tp_df_per_pixel_mean(df, index, &mean) : tp_df_per_channel_mean(df, index, &mean);
    if (see_status("mean", st) == TP_OK) see_tensor(&mean);
    tp_tensor_free(&mean);
}

static void one_flow(void)
{
    n_made = n_flows = n_released = 0;
    endless = threaded = false;
    const int depth = draw(5);
    tp_dataflow *df = grow(depth);
    see("made", df != NULL);
    if (!df) return;
    see_text(df->name ? df->name : "no name");
    see_status("status", tp_df_status(df));
    see("size", tp_df_size(df));
    use(df);
    if (!endless && chance(20)) mean_of(df);
    tp_df_free(df);
    see("released", n_released);
}

TEST(flows_give_what_they_gave) { run_section("flows", 6000, 2, one_flow); }

/* -- datapoints: bytes, texts, views, messages, TFRecord examples */

static void one_datapoint(void)
{
    static const char *const texts[] = {"", "a", "seven b", "\xc3\xa4",
                                        "a longer text, with blanks and more than 64 bytes in it: 0123456789"};
    static const char *const names[] = {"a", "b", "a", "", "e"};
    tp_datapoint dp[2] = {{0, NULL, 0}, {0, NULL, 0}};
    tp_buf out = {NULL, 0, 0, false};
    for (int i = 4 + draw(8); i > 0; i--) {
        const int which = draw(2), index = draw(6) - 1, n = draw(5);
        const char *text = DRAW_OF(texts);
        tp_datapoint *d = &dp[which];
        const int64_t dim[3] = {draw(4), draw(3), 2};
        const char *said;
        switch (draw(8)) {
        case 0: see_status("resize", tp_datapoint_resize(d, n - 1)); break;
        case 1: see_status("bytes", tp_datapoint_set_bytes(d, index, text, strlen(text) - (strlen(text) > 2))); break;
        case 2: see_status("text", tp_datapoint_set_text(d, index, text)); break;
        case 3:
            said = tp_datapoint_text(d, index);
            see_text(said ? said : tp_last_error());
            break;
        case 4: see_status("copy", tp_datapoint_copy(d, &dp[1 - which])); break;
        case 5: /* a view must not outlive what it looks at */
            see_status("view", tp_datapoint_view(d, &dp[1 - which]));
            see_datapoint(d);
            said = tp_datapoint_text(d, index);
            see_text(said ? said : tp_last_error());
            see_status("resize", tp_datapoint_resize(d, 0));
            tp_datapoint_free(d);
            memset(d, 0, sizeof *d);
            break;
        case 6:
            if (index < 0 || index >= d->n) break;
            if (resize(&d->c[index], DRAW_OF(all_dtypes), n % 4, dim)) fill(&d->c[index], i);
            break;
        default: /* and back, also when it is cut short */
            see_status("pack", tp_datapoint_pack(d, &out));
            see_status("unpack", tp_datapoint_unpack(&dp[1 - which], out.data,
                                                     out.len - (size_t)(chance(20) && out.len), "the message"));
            see_bytes(out.data, out.len);
            out.len = 0;
            see_status("example", tp_example_write(d, names + draw(3), &out));
            see_bytes(out.data, out.len);
            out.len = 0;
        }
        see_datapoint(d);
    }
    tp_buf_free(&out);
    for (int i = 0; i < 2; i++) tp_datapoint_free(&dp[i]);
}

TEST(datapoints_hold_what_they_held) { run_section("datapoints", 1200, 4, one_datapoint); }

TEST_MAIN()
