/* Files and messages that are almost right, into every reader of tp_input.h: valid ones, changed by rules that know the format.
 *
 *     cc -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -I. -Itests tests/test_fuzz_data.c -lm -lpthread \
 *        -o build/fuzz_data
 *     build/fuzz_data                        the fixed seeds of the tests
 *     build/fuzz_data for 1200 7 csv         1200 seconds from seed 7 on, one reader; without a name all of them in turn
 *     build/fuzz_data seed 123 csv           one case again
 *     build/fuzz_data file csv fuzz-csv-123  replays files
 *     build/fuzz_data write csv 300 corpus   writes the cases of seeds 1 to 300 into a folder, to begin with
 *     clang -g -O1 -DFUZZ_LIBFUZZER='getenv("READER")' -fsanitize=fuzzer,address,undefined -I. -Itests tests/test_fuzz_data.c -lm -lpthread
 *
 * With -DTP_LMDB and -llmdb also what lies in an LMDB file, as "lmdb".
 *
 * A seed is the same case everywhere. A case that fails prints its seed and writes fuzz-<reader>-<seed> into the current folder.
 * A case fails when
 *   - something crashes, leaks, or a sanitizer finds something
 *   - it takes more than 20 seconds, or more memory than 64 MiB and a thousand bytes for each of its own
 *   - an error has no sentence, or one that does not name the file
 *   - what was accepted is written again and then reads differently
 * All that comes out of the fixed seeds is compared with digests_data.txt (golden.h). */
#define TP_IMPLEMENTATION
#include "tp_input.h"
#include "tp_test.h"

#include "golden.h"
#include "ref_readers.h"
#include <signal.h>

/* ==== >>random ======================================================================================== */

static uint64_t state;
static uint64_t draw64(void)
{
    const uint64_t x = tp_test_mix(state);
    state += 0x9e3779b97f4a7c15u;
    return x;
}
static uint32_t draw(uint32_t n) { return n ? (uint32_t)(draw64() >> 20) % n : 0; }
static uint64_t draw_number(void) /* as often large as small */
{
    const uint64_t v = draw64();
    return v >> draw(64);
}
static bool chance(uint32_t percent) { return draw(100) < percent; }

/* ==== >>bytes and their changes ======================================================================= */

enum { MOST = 1 << 16 };
typedef struct bytes {
    unsigned char at[MOST];
    size_t n;
} bytes;

static void put(bytes *b, const void *p, size_t n)
{
    if (n > MOST - b->n) n = MOST - b->n;
    if (n) memcpy(b->at + b->n, p, n);
    b->n += n;
}
/* n bytes at `at` become the m of p. */
static void splice(bytes *b, size_t at, size_t n, const void *p, size_t m)
{
    if (at > b->n || n > b->n - at || m > MOST - (b->n - n)) return;
    unsigned char *copy = (unsigned char *)malloc(m + 1); /* p may lie in b */
    if (!copy) exit(2);
    if (m) memcpy(copy, p, m);
    memmove(b->at + at + m, b->at + at + n, b->n - at - n);
    if (m) memcpy(b->at + at, copy, m);
    b->n += m - n;
    free(copy);
}

/* A number that breaks things, little- or big-endian, in place. */
static void put_number(bytes *b, size_t at, int width)
{
    static const uint64_t odd[] = {0,
                                   1,
                                   2,
                                   0x7f,
                                   0x80,
                                   0xff,
                                   0x7fff,
                                   0x8000,
                                   0xffff,
                                   0x10000,
                                   0x7fffffff,
                                   0x80000000u,
                                   0xffffffffu,
                                   0x100000000u,
                                   0x7fffffffffffffffu,
                                   0x8000000000000000u,
                                   0xffffffffffffffffu,
                                   0xfffffffffffffff0u};
    const uint64_t v = chance(70) ? odd[draw(TP_COUNT(odd))] : chance(50) ? b->n + draw(5) - 2 : draw64();
    const bool big = chance(50);
    for (int i = 0; i < width && at + (size_t)i < b->n; i++)
        b->at[at + (size_t)i] = (unsigned char)(v >> 8 * (big ? width - 1 - i : i));
}

/* One change that any format knows, anywhere in [from, to). */
static void change(bytes *b, size_t from, size_t to)
{
    if (to > b->n) to = b->n;
    const size_t n = to > from ? to - from : 0, at = from + draw((uint32_t)n), k = draw(12) + 1;
    unsigned char some[12];
    for (int i = 0; i < 12; i++) some[i] = (unsigned char)draw64();
    switch (draw(9)) {
    case 0:
        if (n) b->at[at] ^= (unsigned char)(1u << draw(8));
        break;
    case 1:
        if (n) b->at[at] = some[0];
        break;
    case 2: splice(b, at, k, NULL, 0); break;
    case 3: splice(b, at, 0, some, k); break;
    case 4: put_number(b, at, 1 << draw(4)); break;
    case 5: /* a part again */
        if (n > k) splice(b, at, 0, b->at + from + draw((uint32_t)(n - k)), k);
        break;
    case 6: /* a part doubled many times */
        for (int i = 0; i < 5 && n > k; i++) splice(b, from, 0, b->at + from, k);
        break;
    case 7: b->n = chance(30) ? at : b->n; break;
    default:
        if (n > k) memmove(b->at + at, b->at + from + draw((uint32_t)(n - k)), k < b->n - at ? k : b->n - at);
    }
}

/* ==== >>memory ======================================================================================== */

static size_t live, live_limit;
static long n_alloc, fail_at;
typedef struct block {
    size_t size;
    double align;
} block;
static void *limited_alloc(size_t size, void *user)
{
    (void)user;
    if (++n_alloc == fail_at || size > live_limit || live > live_limit - size) return NULL;
    block *b = (block *)malloc(sizeof *b + size);
    if (!b) return NULL;
    b->size = size;
    live += size;
    return b + 1;
}
static void limited_free(void *p, void *user)
{
    (void)user;
    if (!p) return;
    live -= ((block *)p - 1)->size;
    free((block *)p - 1);
}
static void *limited_realloc(void *p, size_t size, void *user)
{
    void *q = limited_alloc(size, user);
    if (!q || !p) return q;
    const size_t before = ((block *)p - 1)->size;
    memcpy(q, p, before < size ? before : size);
    limited_free(p, user);
    return q;
}

/* ==== >>readers ======================================================================================= */

static char finding[600], dir[300];
static bool found(const char *what)
{
    snprintf(finding, sizeof finding, "%s: %.400s", what, tp_last_error());
    return false;
}
static bool out_of_memory(void) { return fail_at > 0 && n_alloc >= fail_at; }

/* All that came out, as a hash. A decoder's pixels may depend on the version of stb_image.h. */
static uint64_t seen;
static bool seeing, no_pixels, any_sentence; /* any_sentence: a mistake in the options names no file */
static void see(uint64_t v) { seen = seeing ? tp_test_mix(seen ^ v) : 0; }
static void see_bytes(const void *p, size_t n)
{
    see(n);
    if (n) see(tp_hash(p, n));
}
static void see_tensor(const tp_tensor *t)
{
    const size_t n = strlen(dir);
    if (seeing && t->dtype == TP_U8 && t->shape.ndim == 1 && tp_tensor_bytes(t) >= n && memcmp(t->data, dir, n) == 0) {
        see_bytes((const char *)t->data + n, tp_tensor_bytes(t) - n); /* a path */
        return;
    }
    see((uint64_t)t->dtype * 16 + (uint64_t)t->shape.ndim);
    for (int i = 0; i < t->shape.ndim; i++) see((uint64_t)t->shape.dim[i]);
    if (no_pixels) see(tp_tensor_bytes(t));
    else see_bytes(t->data, tp_tensor_bytes(t));
}
static void see_datapoint(const tp_datapoint *dp)
{
    see((uint64_t)dp->n);
    for (int i = 0; i < dp->n; i++) see_tensor(&dp->c[i]);
}
/* A sentence without the words of stb_image.h, which differ between its versions. */
static void see_sentence(void)
{
    if (!seeing) return; /* golden.h allocates memory */
    const char *said = TP_TEST_SAID(tp_last_error()), *damaged = strstr(said, "is a damaged ");
    char text[2048];
    snprintf(text, sizeof text, "%.*s", damaged ? (int)(damaged - said) + 16 : (int)sizeof text, said);
    seen = golden_hash_without(seen, text, dir);
}

/* Only errors come out of readers, with a sentence that names what is read. */
static bool fair(tp_status st)
{
    see((uint64_t)(st - TP_ERR));
    if (st < TP_OK) see_sentence();
    if (st == TP_OK || st == TP_END) return true;
    if (st > TP_OK) return found("a status that is no error");
    if (st == TP_ERR_NOMEM) return true;
    return any_sentence || strstr(tp_last_error(), "fuzz") ? true : found("a sentence without the file's name");
}

static const char *file_of(const bytes *b, const char *name)
{
    static char path[400];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    remove(path); /* a file that is written over is brought to the disk at once */
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(b->at, 1, b->n, f) != b->n || fclose(f) != 0) exit(2);
    return path;
}

/* A pass of the flow, or its error; then it goes. *n: datapoints. */
static bool walk(tp_dataflow *df, int64_t *n)
{
    tp_datapoint dp = {0, NULL, 0};
    tp_status st = df ? tp_df_status(df) : TP_ERR_NOMEM;
    bool good = fair(st);
    int errors = 0;
    if (df) see((uint64_t)tp_df_size(df));
    for (int i = 0; st >= TP_OK && st != TP_END && good && i < 3000 && errors < 10; i++) {
        st = tp_df_next(df, &dp);
        good = fair(st);
        if (st == TP_OK) ++*n, see_datapoint(&dp);
        for (int c = 0; c < dp.n && st == TP_OK; c++) /* every byte is there */
            state ^= tp_hash(dp.c[c].data ? dp.c[c].data : "", tp_tensor_bytes(&dp.c[c]));
        if (st < TP_OK) errors++, st = TP_OK; /* the next one may be whole */
    }
    for (int i = 0; st == TP_END && good && i < 2; i++) { /* from the middle of another pass, and from its end */
        int64_t skipped = -1;
        const tp_status back = tp_df_restart(df, 1 + i), there = tp_df_seek(df, 2 - i, &skipped);
        see((uint64_t)(back - TP_ERR) + (uint64_t)(there - TP_ERR));
        see((uint64_t)skipped);
        const tp_status next = tp_df_next(df, &dp);
        good = fair(next);
        if (next == TP_OK) see_datapoint(&dp);
    }
    tp_datapoint_free(&dp);
    tp_df_free(df);
    return good;
}

/* Options that may be wrong. */
static bool walk_odd(tp_dataflow *df)
{
    int64_t n = 0;
    any_sentence = true;
    const bool good = walk(df, &n);
    any_sentence = false;
    return good;
}
static double odd_part(void)
{
    static const double part[] = {0, 0, 0.25, 0.5, 0.9, 1, 1.25, -0.25};
    return part[draw(TP_COUNT(part))];
}
static tp_tri odd_tri(void) { return (tp_tri)(draw(3) == 0 ? TP_YES : draw(2) ? TP_NO : TP_UNSET); }

static bool run_cifar(const bytes *b, int64_t *n)
{
    file_of(b, "test_batch.bin");
    if (!walk(tp_df_cifar10("test", .dir = dir), n)) return false;
    file_of(b, "test.bin");
    const tp_tri coarse = odd_tri(), shuffle = odd_tri();
    return walk_odd(tp_df_cifar100("test", .dir = dir, .coarse = coarse, .shuffle = shuffle));
}
/* An IDX file, which may be one of MNIST's. */
static bool run_idx(const bytes *b, int64_t *n)
{
    static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 9};
    const char *path[2] = {file_of(b, "fuzz.idx"), NULL};
    char first[400];
    snprintf(first, sizeof first, "%s", path[0]);
    path[0] = path[1] = first;
    tp_tensor t;
    memset(&t, 0, sizeof t);
    const bool good = fair(tp_idx_parse(b->at, b->n, "fuzz", &t));
    see_tensor(&t);
    tp_tensor_free(&t);
    file_of(b, "t10k-images-idx3-ubyte");
    bytes l = {{0}, 0};
    put(&l, labels, sizeof labels);
    file_of(&l, "t10k-labels-idx1-ubyte");
    const tp_tri shuffle = odd_tri();
    return good && walk(tp_df_idx(path, 2, .shuffle = TP_NO), n) &&
           walk_odd(tp_df_mnist("test", .dir = dir, .shuffle = shuffle));
}
static bool run_npz(const bytes *b, int64_t *n)
{
    const char *path = file_of(b, "fuzz.npz");
    return walk(tp_df_npz(path, .names = {"X", "y"}), n) && walk(tp_df_npz(path), n);
}
static bool run_odd_csv(const char *path)
{
    static const char *const names[] = {"weight", "age", "name", "", "x y"};
    static const tp_dtype dtypes[] = {TP_DTYPE_UNSET, TP_F32, TP_F64, TP_I32, TP_I64, TP_U8, TP_BOOL, TP_F16};
    static const char separators[] = {0, ',', ',', ';', '\t', ' ', '"', '\n'};
    tp_csv_column column[4];
    const int n = (int)draw(5);
    memset(column, 0, sizeof column);
    for (int i = 0; i < n && i < 4; i++) {
        if (chance(40)) column[i].name = names[draw(TP_COUNT(names))];
        if (chance(60)) column[i].index = (int)draw(7) - 1;
        if (chance(40)) column[i].count = (int)draw(6) - 1;
        column[i].dtype = dtypes[draw(TP_COUNT(dtypes))];
    }
    const char separator = separators[draw(TP_COUNT(separators))];
    const tp_tri header = odd_tri(), shuffle = odd_tri();
    return walk_odd(tp_df_csv(path, column, n, .header = header, .separator = separator, .shuffle = shuffle));
}
static bool run_csv(const bytes *b, int64_t *n)
{
    static const tp_csv_column by_number[] = {{NULL, 0, 0, TP_U8}, {NULL, 1, 2, TP_F32}, {NULL, 3, 0, TP_I64}},
                               texts[] = {{NULL, 0, 0, TP_U8}, {NULL, 3, 0, TP_U8}},
                               named[] = {{"weight", 0, 0, TP_F64}, {"age", 0, 0, TP_I32}};
    const char *path = file_of(b, "fuzz.csv");
    return walk(tp_df_csv(path, by_number, 3), n) && walk(tp_df_csv(path, texts, 2, .header = TP_NO), n) &&
           walk(tp_df_csv(path, named, 2), n) && run_odd_csv(path);
}
static bool run_odd_text(const char *path)
{
    tp_vocabulary v;
    memset(&v, 0, sizeof v);
    const int64_t least = (int64_t)draw(5) - 1;
    const int most = (int)draw(6) - 1;
    any_sentence = true;
    bool good = fair(chance(50) ? tp_vocabulary_chars(&v, path) : tp_vocabulary_words(&v, path, least, most));
    any_sentence = false;
    for (int i = 0; i < v.n; i++) see_bytes(v.word[i], strlen(v.word[i]));
    for (size_t i = 0; i < 4; i++) see((uint64_t)tp_vocabulary_find(&v, &"the <unk>"[i], i));
    const tp_vocabulary *which = chance(50) ? &v : NULL;
    const int length = (int)draw(9) - 1, batch = (int)draw(5) - 1;
    const double begin = odd_part(), end = odd_part();
    const int64_t size = chance(60) ? 0 : (int64_t)draw(30) - 1;
    const tp_tri shuffle = odd_tri();
    good = good &&
           walk_odd(tp_df_text_chars(path, .vocabulary = which, .sequence_length = length, .begin = begin, .end = end,
                                     .size = size, .shuffle = shuffle)) &&
           walk_odd(tp_df_text_words(path, .vocabulary = which, .batch_size = batch, .sequence_length = length,
                                     .begin = begin, .end = end));
    tp_vocabulary_free(&v);
    return good;
}
static bool run_text(const bytes *b, int64_t *n)
{
    const char *path = file_of(b, "fuzz.txt");
    tp_vocabulary v;
    memset(&v, 0, sizeof v);
    bool good = fair(tp_vocabulary_words(&v, path, 2, 9));
    int64_t sum = 0;
    for (int i = 0; i < v.n; i++) {
        if (tp_vocabulary_find(&v, v.word[i], strlen(v.word[i])) != i) good = found("a word is not found");
        sum += v.count[i];
        see((uint64_t)v.count[i]);
        see_bytes(v.word[i], strlen(v.word[i]));
    }
    see((uint64_t)v.unk);
    if (v.n && sum > (int64_t)b->n) good = found("more words than bytes");
    good =
        good && walk(tp_df_text_words(path, .vocabulary = v.n ? &v : NULL, .batch_size = 2, .sequence_length = 3), n);
    tp_vocabulary_free(&v);
    return good && walk(tp_df_text_chars(path, .sequence_length = 3), n) && run_odd_text(path);
}
static bool run_list(const bytes *b, int64_t *n)
{
    return walk(tp_df_image_list(file_of(b, "fuzz.list"), .dir = dir, .decode = TP_NO), n) &&
           walk(tp_df_image_list(file_of(b, "fuzz.list"), .dir = "fuzz", .on_error = TP_SKIP), n);
}

static const tp_spec features[] = {TP_SPEC("image", TP_U8, TP_ANY, 3), TP_SPEC("label", TP_I32),
                                   TP_SPEC("ids", TP_I64, TP_ANY), TP_SPEC("weights", TP_F64, TP_ANY)};
static const char *const feature_names[] = {"image", "label", "ids", "weights"};

static bool same_datapoints(const tp_datapoint *a, const tp_datapoint *b)
{
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++)
        if (a->c[i].dtype != b->c[i].dtype || !tp_shape_equal(&a->c[i].shape, &b->c[i].shape) ||
            (tp_tensor_bytes(&a->c[i]) && memcmp(a->c[i].data, b->c[i].data, tp_tensor_bytes(&a->c[i])) != 0))
            return false;
    return true;
}
/* The message with other features in other types and shapes, and these written again. */
static bool run_odd_example(const bytes *b)
{
    static const tp_dtype dtypes[] = {TP_F32, TP_F64, TP_F16, TP_BF16, TP_I32, TP_I64, TP_U8, TP_BOOL};
    tp_datapoint dp = {0, NULL, 0};
    tp_buf out = {NULL, 0, 0, false};
    tp_spec odd[3];
    const int n = 1 + (int)draw(3);
    for (int i = 0; i < n; i++) {
        odd[i] = features[draw(4)];
        odd[i].dtype = dtypes[draw(TP_COUNT(dtypes))];
        if (chance(30)) odd[i].shape.ndim = (int)draw(3);
        for (int k = 0; k < odd[i].shape.ndim; k++) odd[i].shape.dim[k] = (int64_t)draw(4) - 1;
    }
    tp_status st = tp_example_parse(b->at, b->n, "fuzz", odd, n, &dp);
    any_sentence = true;
    bool good = fair(st);
    if (st == TP_OK) {
        for (int i = 0; i < dp.n; i++) /* a NaN is not asked for its bits */
            for (int64_t k = 0; tp_dtype_is_float(dp.c[i].dtype) && k < tp_tensor_size(&dp.c[i]); k++)
                if (!(fabs(tp_tensor_get(&dp.c[i], k)) < 1e30)) tp_tensor_set(&dp.c[i], k, 1);
        see_datapoint(&dp);
        const char *const names[] = {"b", chance(10) ? "b" : "a", ""};
        good = fair(tp_example_write(&dp, names, &out)) && good;
        see_bytes(out.data, out.len);
    }
    any_sentence = false;
    tp_buf_free(&out);
    tp_datapoint_free(&dp);
    return good;
}
static bool run_example(const bytes *b, int64_t *n)
{
    tp_datapoint dp = {0, NULL, 0}, again = {0, NULL, 0};
    tp_buf out = {NULL, 0, 0, false};
    tp_status st = tp_example_parse(b->at, b->n, "fuzz", features, 4, &dp);
    bool good = fair(st);
    if (st == TP_OK && good) {
        ++*n;
        see_datapoint(&dp);
        for (int64_t i = 0; i < tp_tensor_size(&dp.c[3]);
             i++) /* a float list holds no double, and NaN is not asked for its bits */
            if (!(fabs(tp_tensor_get(&dp.c[3], i)) < 1e30)) tp_tensor_set(&dp.c[3], i, 1);
            else tp_tensor_set(&dp.c[3], i, (double)(float)tp_tensor_get(&dp.c[3], i));
        st = tp_example_write(&dp, feature_names, &out);
        see_bytes(out.data, out.len);
        if (st == TP_OK) st = tp_example_parse(out.data, out.len, "fuzz", features, 4, &again);
        if (st != TP_OK && !out_of_memory()) good = found("what was written is not read");
        if (st == TP_OK && !same_datapoints(&dp, &again)) good = found("what was written reads differently");
    }
    tp_buf_free(&out);
    tp_datapoint_free(&dp);
    tp_datapoint_free(&again);
    return good && run_odd_example(b);
}
static bool run_tfrecord(const bytes *b, int64_t *n)
{
    const char *path = file_of(b, "fuzz.tfrecord");
    tp_tfrecord_reader *r = NULL;
    const void *data;
    size_t size, sum = 0;
    tp_status st = tp_tfrecord_open(&r, path);
    bool good = fair(st);
    while (st == TP_OK && good) {
        st = tp_tfrecord_next(r, &data, &size);
        good = fair(st);
        if (st == TP_OK) sum += size + 16, see_bytes(data, size);
    }
    if (st == TP_END && sum != b->n) good = found("bytes were passed over");
    tp_tfrecord_close(r);
    return good && walk(tp_df_tfrecord(&path, 1), n) &&
           walk(tp_df_tfrecord(&path, 1, .features = features, .n_features = 4, .shuffle = TP_YES), n);
}
static bool run_message(const bytes *b, int64_t *n) /* of ZMQ; values of LMDB are the same */
{
    tp_datapoint dp = {0, NULL, 0}, again = {0, NULL, 0};
    tp_buf out = {NULL, 0, 0, false};
    tp_status st = tp_datapoint_unpack(&dp, b->at, b->n, "fuzz");
    bool good = fair(st);
    if (st == TP_OK && good) {
        ++*n;
        see_datapoint(&dp);
        st = tp_datapoint_pack(&dp, &out); /* other bytes where integers were widened */
        see_bytes(out.data, out.len);
        if (st == TP_OK) st = tp_datapoint_unpack(&again, out.data, out.len, "fuzz");
        if (st != TP_OK && !out_of_memory()) good = found("what was written is not read");
        if (st == TP_OK && !same_datapoints(&dp, &again)) good = found("what was written reads differently");
    }
    tp_buf_free(&out);
    tp_datapoint_free(&dp);
    tp_datapoint_free(&again);
    return good;
}
#ifdef TP_LMDB
/* The bytes as the only value of an LMDB file. */
static bool run_lmdb(const bytes *b, int64_t *n)
{
    char path[400];
    MDB_env *env = NULL;
    MDB_txn *txn = NULL;
    MDB_dbi dbi = 0;
    union {
        const void *in;
        void *out;
    } value;
    value.in = b->at;
    MDB_val k = {8, (void *)(char[]){"00000000"}}, v = {b->n, value.out};
    snprintf(path, sizeof path, "%s/fuzz.mdb", dir);
    remove(path);
    if (mdb_env_create(&env) || mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0644) ||
        mdb_txn_begin(env, NULL, 0, &txn) || mdb_dbi_open(txn, NULL, 0, &dbi) || mdb_put(txn, dbi, &k, &v, 0) ||
        mdb_txn_commit(txn))
        exit(2);
    mdb_env_close(env);
    return walk(tp_df_lmdb(path), n) && walk(tp_df_lmdb(path, .raw = TP_YES), n);
}
#endif
static bool run_image(const bytes *b, int64_t *n)
{
    const char *path = file_of(b, "fuzz.image");
    tp_tensor t[2];
    memset(t, 0, sizeof t);
    bool good = true;
    const int channels = (int)draw(5);
    const int64_t most = (int64_t)draw(1000) - 1;
    no_pixels = b->n > 0 && b->at[0] == 0xff;
    for (int i = 0; i < 2; i++) { /* the same bytes, whatever memory held before */
        const tp_status st = tp_image_decode(b->at, b->n, 3, &t[i]);
        if (st < TP_OK && st != TP_ERR_NOMEM && !strstr(tp_last_error(), "the image"))
            good = found("a sentence without its name");
        see((uint64_t)(st - TP_ERR));
        if (st < TP_OK) see_sentence();
        if (i == 1 && st == TP_OK && t[0].data &&
            !same_datapoints(&(tp_datapoint){1, &t[0], 1}, &(tp_datapoint){1, &t[1], 1}))
            good = out_of_memory() || found("an image has two contents");
    }
    tp_tensor_free(&t[0]);
    tp_tensor_free(&t[1]);
    good = good && walk(tp_df_image_from_file(&path, 1, .max_pixels = 1 << 20), n) &&
           walk(tp_df_image_from_file(&path, 1, .channel = 1, .on_error = TP_SKIP), n) &&
           walk_odd(tp_df_image_from_file(&path, 1, .channel = channels, .max_pixels = most));
    no_pixels = false;
    return good;
}

/* ==== >>cases ========================================================================================= */

static void make_cifar(bytes *b)
{
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3073; k++) {
            const unsigned char byte = (unsigned char)(k ? k * i : (int)draw(11));
            put(b, &byte, 1);
        }
}
static void put_le32(bytes *b, uint32_t v)
{
    for (int i = 0; i < 4; i++, v >>= 8) {
        const unsigned char byte = (unsigned char)v;
        put(b, &byte, 1);
    }
}
static void make_idx(bytes *b)
{
    static const unsigned char types[] = {8, 8, 8, 9, 11, 12, 13, 14, 10};
    const unsigned char type = types[draw(TP_COUNT(types))], ndim = (unsigned char)(chance(60) ? 3 : draw(6));
    const unsigned char head[] = {0, 0, type, ndim};
    size_t size = type == 14 ? 8 : type >= 12 ? 4 : type == 11 ? 2 : 1;
    put(b, head, 4);
    for (int i = 0; i < ndim; i++) {
        const unsigned char dim[] = {0, 0, 0, (unsigned char)(i ? draw(5) : 3)};
        put(b, dim, 4);
        size *= dim[3];
    }
    for (size_t i = 0; i < size; i++) {
        const unsigned char byte = (unsigned char)(i % 4 == 0 && type >= 13 ? 0x41 : draw(256));
        put(b, &byte, 1);
    }
    if (!chance(25)) return;
    tp_buf packed = {NULL, 0, 0, false};
    bytes *plain = (bytes *)malloc(sizeof *plain);
    if (!plain) exit(2);
    *plain = *b;
    b->n = 0;
    put(b, "\x1f\x8b\x08\0\0\0\0\0\0\3", 10);
    if (tp_deflate(plain->at, plain->n, &packed) == TP_OK) put(b, packed.data, packed.len);
    put_le32(b, tp_crc32(0, plain->at, plain->n));
    put_le32(b, (uint32_t)plain->n);
    tp_buf_free(&packed);
    free(plain);
}
static void make_npz(bytes *b) { put(b, ref_npz, sizeof ref_npz); }
static void make_csv(bytes *b)
{
    put(b, ref_csv, sizeof ref_csv);
    static const char *const tokens[] = {"\"",    "\"\"",   ",",
                                         "\n",    "\r\n",   "\r",
                                         "1e999", "-0",     "9223372036854775808",
                                         "nan",   "0x1p3",  "\xEF\xBB\xBF",
                                         "",      "name",   "age",
                                         " ",     "1.",     ".5",
                                         "--",    "\"\n\"", ",,,"};
    for (uint32_t i = draw(8); i > 0; i--) {
        const char *t = tokens[draw(TP_COUNT(tokens))];
        const size_t at = draw((uint32_t)b->n);
        splice(b, at, draw(3), t, strlen(t));
    }
}
static void make_text(bytes *b)
{
    put(b, ref_text, sizeof ref_text);
    static const char *const tokens[] = {"<unk>",    "<eos>", "\n",   " ",       "\xf0\x9f\x98\x80",
                                         "\xe2\x82", "the ",  "\xff", "\xc0\x80"};
    for (uint32_t i = draw(8); i > 0; i--) {
        const char *t = tokens[draw(TP_COUNT(tokens))];
        splice(b, draw((uint32_t)b->n), 0, t, strlen(t));
    }
}
static void make_list(bytes *b)
{
    static const char *const tokens[] = {"a.png 1\n",    "/b c.jpg\t22\r\n", "\n", " 5", "x", "-1\n",
                                         "2147483648\n", "fuzz.image 0\n",   ".."};
    for (uint32_t i = draw(12); i > 0; i--) {
        const char *t = tokens[chance(60) ? 0 : draw(TP_COUNT(tokens))];
        put(b, t, strlen(t));
    }
}

static const unsigned char *const examples[3] = {ref_example0, ref_example1, ref_example2};
static const size_t example_size[3] = {sizeof ref_example0, sizeof ref_example1, sizeof ref_example2};

static void put_varint(bytes *b, uint64_t v)
{
    for (;; v >>= 7) {
        const unsigned char byte = (unsigned char)(v > 127 ? (v & 127) | 128 : v);
        put(b, &byte, 1);
        if (v <= 127) return;
    }
}
static void put_part(bytes *b, int field, const bytes *part)
{
    put_varint(b, (uint64_t)field << 3 | 2);
    put_varint(b, chance(3) ? draw_number() : part->n);
    put(b, part->at, part->n);
}
/* A message that is built anew, with lists of any kind, packed or not, doubled, or in the wrong place. */
static void make_example(bytes *b)
{
    if (chance(40)) {
        const uint32_t i = draw(3);
        put(b, examples[i], example_size[i]);
        return;
    }
    bytes *part = (bytes *)malloc(4 * sizeof *part);
    if (!part) exit(2);
    part[0].n = 0;
    for (uint32_t f = draw(6); f > 0; f--) {
        const char *name = feature_names[draw(4)];
        int kind = (int)draw(3) + 1;
        if (chance(5)) kind += (int)draw(5);
        bytes *entry = &part[1], *feature = &part[2], *list = &part[3];
        entry->n = feature->n = list->n = 0;
        bytes packed = {{0}, 0};
        for (uint32_t k = draw(5); k > 0; k--) {
            unsigned char raw[8];
            for (int i = 0; i < 8; i++) raw[i] = (unsigned char)draw64();
            if (kind == 1) {
                bytes text = {{0}, 0};
                put(&text, "abcdefghi", draw(4) * 3);
                put_part(list, 1, &text);
            } else if (chance(50)) {
                if (kind == 2) put(&packed, raw, 4);
                else put_varint(&packed, draw_number());
            } else {
                put_varint(list, kind == 2 ? 13 : 8);
                if (kind == 2) put(list, raw, 4);
                else put_varint(list, draw_number());
            }
        }
        if (packed.n) put_part(list, 1, &packed);
        put_part(feature, kind, list);
        bytes key = {{0}, 0};
        put(&key, name, strlen(name));
        put_part(entry, 1, &key);
        if (!chance(3)) put_part(entry, 2, feature);
        put_part(&part[0], 1, entry);
    }
    put_part(b, 1, &part[0]);
    free(part);
}
static void make_tfrecord(bytes *b)
{
    for (uint32_t i = draw(6); i > 0; i--) {
        bytes one = {{0}, 0};
        tp_buf framed = {NULL, 0, 0, false};
        make_example(&one);
        for (uint32_t k = draw(3); k > 0; k--) change(&one, 0, one.n);
        tp_tfrecord_append(&framed, one.at, one.n);
        if (!framed.failed) put(b, framed.data, framed.len);
        tp_buf_free(&framed);
    }
}
static void make_message(bytes *b)
{
    uint32_t n = draw(4);
    unsigned char word[8] = {(unsigned char)n, 0, 0, 0, 0, 0, 0, 0};
    put(b, word, 4);
    for (; n > 0; n--) {
        const uint32_t dtype = chance(90) ? draw(11) : draw(30), rank = draw(4);
        size_t size = dtype == 2 || dtype == 9 ? 8 : dtype == 1 || dtype == 3 ? 4 : 1;
        unsigned char data[256] = {1, 0, 1};
        word[0] = (unsigned char)dtype;
        put(b, word, 4);
        word[0] = (unsigned char)rank;
        put(b, word, 4);
        for (uint32_t k = 0; k < rank; k++) {
            word[0] = (unsigned char)draw(3);
            size *= word[0];
            put(b, word, 4);
        }
        memset(word, 0, 8);
        word[0] = (unsigned char)size;
        put(b, word, 8);
        put(b, data, size);
        word[0] = 0;
    }
}
static void make_image(bytes *b)
{
    static const struct {
        const unsigned char *at;
        size_t n;
    } seeds[] = {{ref_jpeg444, sizeof ref_jpeg444},
                 {ref_jpeg420, sizeof ref_jpeg420},
                 {ref_jpeg_progressive, sizeof ref_jpeg_progressive},
                 {ref_jpeg_grey, sizeof ref_jpeg_grey},
                 {ref_png_rgb, sizeof ref_png_rgb},
                 {ref_png_grey, sizeof ref_png_grey},
                 {ref_png_palette, sizeof ref_png_palette},
                 {ref_png_rgba, sizeof ref_png_rgba},
                 {ref_bmp, sizeof ref_bmp},
                 {ref_bmp_grey, sizeof ref_bmp_grey}};
    const uint32_t i = draw(TP_COUNT(seeds));
    put(b, seeds[i].at, seeds[i].n);
}
/* The checksums of a PNG's chunks, made to match. */
static void mend_image(bytes *b)
{
    if (b->n < 8 || b->at[0] != 0x89) {
        if (b->n > 2 && b->at[0] == 0xff) put(b, "\xff\xd9", 2); /* a JPEG has an end again */
        return;
    }
    for (size_t at = 8; b->n - at >= 12;) {
        const size_t n =
            (size_t)b->at[at] << 24 | (size_t)b->at[at + 1] << 16 | (size_t)b->at[at + 2] << 8 | b->at[at + 3];
        if (n > b->n - at - 12) return;
        const uint32_t crc = tp_crc32(0, b->at + at + 4, n + 4);
        for (int k = 0; k < 4; k++) b->at[at + 8 + n + (size_t)k] = (unsigned char)(crc >> (24 - 8 * k));
        at += n + 12;
    }
}

typedef struct reader {
    const char *name;
    void (*make)(bytes *b);
    bool (*run)(const bytes *b, int64_t *n);
    void (*mend)(bytes *b); /* after changes, mostly; NULL: nothing to mend */
    int accepted;           /* of 100 cases at least, so that the cases are worth it */
} reader;
static const reader readers[] = {{"cifar", make_cifar, run_cifar, NULL, 1},
                                 {"idx", make_idx, run_idx, NULL, 5},
                                 {"npz", make_npz, run_npz, NULL, 5},
                                 {"csv", make_csv, run_csv, NULL, 5},
                                 {"text", make_text, run_text, NULL, 20},
                                 {"list", make_list, run_list, NULL, 5},
                                 {"example", make_example, run_example, NULL, 5},
                                 {"tfrecord", make_tfrecord, run_tfrecord, NULL, 5},
                                 {"message", make_message, run_message, NULL, 5},
#ifdef TP_LMDB
                                 {"lmdb", make_message, run_lmdb, NULL, 5},
#endif
                                 {"image", make_image, run_image, mend_image, 10}};

static const reader *now_reader;
static uint64_t now_seed;
static bytes now;

static const reader *reader_of(const char *name)
{
    for (int i = 0; name && i < TP_COUNT(readers); i++)
        if (strcmp(readers[i].name, name) == 0) return &readers[i];
    return NULL;
}

static void build(const reader *r, uint64_t seed)
{
    now_reader = r;
    now_seed = seed;
    state = seed * 0x2545f4914f6cdd1du + tp_hash_name(r->name);
    now.n = 0;
    fail_at = 0;
    r->make(&now);
    for (uint32_t i = chance(15) ? 0 : draw(6); i > 0; i--) {
        const size_t from = chance(50) ? 0 : draw((uint32_t)now.n);
        change(&now, from, chance(50) ? now.n : from + 32);
    }
    if (r->mend && chance(80)) r->mend(&now);
}

static bool examine(const reader *r, int64_t *accepted)
{
    const size_t before = live;
    bool good;
    finding[0] = 0;
    live_limit = before + ((size_t)64 << 20) + 1000 * now.n;
    n_alloc = 0;
    good = r->run(&now, accepted);
    fail_at = 0;
    if (good && live != before) {
        snprintf(finding, sizeof finding, "%zu bytes are left", live - before);
        good = false;
    }
    return good;
}

static void save_case(const char *folder)
{
    char name[300];
    snprintf(name, sizeof name, "%s/fuzz-%s-%llu", folder, now_reader->name, (unsigned long long)now_seed);
    FILE *f = fopen(name, "wb");
    if (f && fwrite(now.at, 1, now.n, f) == now.n) printf("wrote %s\n", name);
    if (f) fclose(f);
}
static void on_signal(int number)
{
    printf("%s, seed %llu: %s\n", now_reader ? now_reader->name : "?", (unsigned long long)now_seed,
           number == SIGALRM ? "more than 20 seconds" : "a crash");
    if (now_reader) save_case(".");
    fflush(stdout);
    _exit(1);
}

static void begin(void)
{
    static const tp_allocator limited = {limited_alloc, limited_realloc, limited_free, NULL};
    live_limit = (size_t)1 << 30;
    if (!dir[0]) { /* its name is in every sentence */
        snprintf(dir, sizeof dir, "%s/fuzz", tp_test_tmpdir());
        if (tp_make_dirs(dir) != TP_OK) exit(2);
    }
    tp_set_allocator(&limited);
    tp_set_log(tp_test_drop_log, NULL);
#ifndef FUZZ_LIBFUZZER
    signal(SIGALRM, on_signal);
    signal(SIGSEGV, on_signal);
    signal(SIGABRT, on_signal);
#endif
}
static void end(void)
{
    alarm(0);
    tp_set_log(NULL, NULL);
    tp_set_allocator(NULL);
}

#ifdef FUZZ_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const reader *r;
    int64_t n = 0;
    if (!r) {
        begin();
        r = reader_of(FUZZ_LIBFUZZER);
        if (!r) exit(2);
    }
    now.n = 0;
    put(&now, data, size);
    if (r->mend) r->mend(&now);
    if (examine(r, &n)) return 0;
    fprintf(stderr, "%s\n", finding);
    abort();
}
#else
/* The case, and often once more with an allocation that fails. */
static bool try_seed(const reader *r, uint64_t seed, int64_t *accepted)
{
    int64_t n = 0;
    build(r, seed);
    alarm(20);
    bool good = examine(r, &n);
    const long allocations = n_alloc;
    *accepted += n > 0;
    if (good && seed % 4 == 0 && allocations) {
        state = seed;
        fail_at = 1 + (long)draw((uint32_t)allocations);
        good = examine(r, &n);
    }
    if (!good) save_case(".");
    return good;
}

/* stb_image.h was not found. */
static bool no_images(void)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    const tp_status st = tp_image_decode(ref_bmp, sizeof ref_bmp, 3, &t);
    tp_tensor_free(&t);
    return st == TP_ERR_UNSUPPORTED;
}

TEST(files_and_messages_that_are_almost_right_do_no_harm)
{
    const int n = getenv("TP_TEST_QUICK") ? 150 : 500;
    begin();
    for (int i = 0; i < TP_COUNT(readers); i++) {
        const reader *r = &readers[i];
        int64_t accepted = 0;
        if (r->run == run_image && no_images()) continue;
        for (int seed = 1; seed <= n; seed++)
            CHECK_MSG(try_seed(r, (uint64_t)seed, &accepted), "%s, seed %d: %s", r->name, seed, finding);
        printf("  %s: %d cases, %d accepted\n", r->name, n, (int)accepted);
        CHECK_MSG(accepted * 100 >= n * r->accepted, "%s: only %d of %d cases are accepted", r->name, (int)accepted, n);
    }
    end();
}

/* Four seeds make a digest. */
TEST(what_comes_out_is_what_came_out)
{
    enum { SEEDS = 1600, TOGETHER = 4 };
    begin();
    seeing = true;
    for (int i = 0; i < TP_COUNT(readers); i++) {
        const reader *r = &readers[i];
        int64_t n = 0;
        if ((r->run == run_image && no_images()) || strcmp(r->name, "lmdb") == 0) continue;
        for (int seed = 1; seed <= SEEDS; seed++) {
            build(r, (uint64_t)seed);
            if (seed % TOGETHER == 1) seen = 0;
            CHECK_MSG(examine(r, &n), "%s, seed %d: %s", r->name, seed, finding);
            if (seed % TOGETHER == 0) golden_digest(seen);
        }
        golden_compare("digests_data.txt", r->name);
    }
    seeing = false;
    end();
}

static int fuzz_for(double seconds, uint64_t seed, const reader *only)
{
    const double until = tp_time() + seconds;
    int64_t cases = 0, accepted = 0;
    int bad = 0;
    begin();
    for (; tp_time() < until && bad < 10; seed++)
        for (int i = 0; i < TP_COUNT(readers); i++) {
            if (only && only != &readers[i]) continue;
            cases++;
            if (try_seed(&readers[i], seed, &accepted)) continue;
            printf("%s, seed %llu: %s\n", readers[i].name, (unsigned long long)seed, finding);
            bad++;
        }
    end();
    printf("%s: %lld cases to seed %llu, %lld accepted, %d findings\n", only ? only->name : "all readers",
           (long long)cases, (unsigned long long)seed, (long long)accepted, bad);
    return bad > 0;
}

static int replay(const reader *r, const char *path)
{
    char *data = NULL;
    size_t size = 0;
    int64_t n = 0;
    if (!r || tp_file_read(path, false, 0, &data, &size) != TP_OK) return puts("no such reader or file"), 1;
    now.n = 0;
    put(&now, data, size);
    tp_free(data);
    begin();
    const bool good = examine(r, &n);
    end();
    printf("%s: %s\n", path, good ? "no finding" : finding);
    return !good;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "for") == 0 && argc > 2)
        return fuzz_for(atof(argv[2]), argc > 3 ? strtoull(argv[3], NULL, 10) : 1,
                        argc > 4 ? reader_of(argv[4]) : NULL);
    if (strcmp(what, "seed") == 0 && argc > 3 && reader_of(argv[3])) {
        int64_t n = 0;
        begin();
        const bool good = try_seed(reader_of(argv[3]), strtoull(argv[2], NULL, 10), &n);
        end();
        printf("%s\n", good ? "no finding" : finding);
        return !good;
    }
    if (strcmp(what, "write") == 0 && argc > 4 && reader_of(argv[2])) {
        for (int seed = 1; seed <= atoi(argv[3]); seed++) {
            build(reader_of(argv[2]), (uint64_t)seed);
            save_case(argv[4]);
        }
        return 0;
    }
    if (strcmp(what, "file") == 0 && argc > 3) {
        int bad = 0;
        for (int i = 3; i < argc; i++) bad |= replay(reader_of(argv[2]), argv[i]);
        return bad;
    }
    return tp_test__main(argc, argv);
}
#endif
